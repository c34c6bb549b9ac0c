"""What happened is counted exactly, heard by those who listen, and otherwise costs next to nothing."""

from __future__ import annotations

import threading
import time

import pytest

from engine.runtime import events
from engine.runtime.events import Counters, Event, Timing


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEBUG", raising=False)
    events.forget_warnings()


def test_counting_tells_what_happened_inside_the_block_only() -> None:
    events.record("compile", name="before")
    with events.counting() as counted:
        events.record("compile", name="a", seconds=0.25)
        events.record("cache_miss")
        events.counters.launches += 3
    events.record("compile", name="after")
    assert counted == Counters(compiles=1, cache_misses=1, launches=3)


def test_counting_nests_and_survives_an_exception() -> None:
    with events.counting() as outer:
        events.record("allocate", bytes=10)
        with pytest.raises(KeyError), events.counting() as inner:
            events.record("free", bytes=10)
            raise KeyError
    assert inner == Counters(frees=1)
    assert outer == Counters(allocations=1, frees=1)


def test_every_kind_has_a_counter_of_its_own() -> None:
    with events.counting() as counted:
        for kind in events.KINDS:
            events.record(kind)
    assert counted == Counters(*[1] * len(events.KINDS))


def test_subscribers_hear_their_kinds_until_they_leave() -> None:
    heard: list[Event] = []
    end = events.subscribe(heard.append, ["compile", "device"])
    events.record("compile", name="tonemap", seconds=0.0125)
    events.record("allocate", bytes=4)
    end()
    events.record("compile", name="late")
    (event,) = heard
    assert (event.kind, event.fields) == ("compile", {"name": "tonemap", "seconds": 0.0125})
    assert str(event) == "compile name=tonemap seconds=0.0125"
    assert abs(time.perf_counter() - event.time) < 5


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind of event 'compyle': choose one of allocate"):
        events.record("compyle")
    with pytest.raises(ValueError, match="unknown kind of event"):
        events.subscribe(print, ["compyle"])


def test_a_warning_is_given_once_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with events.counting() as counted:
        for _ in range(3):
            events.warn_once("cache", "the cache cannot be written")
        events.warn_once("threads", "fewer threads")
    assert counted.warnings == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == [
        "rayfuse: warning: the cache cannot be written",
        "rayfuse: warning: fewer threads",
    ]


def test_who_subscribes_to_warnings_decides_how_they_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[str] = []
    end = events.subscribe(lambda event: shown.append(event.fields["message"]), ["warning"])
    events.warn_once("cache", "the cache cannot be written")
    end()
    assert shown == ["the cache cannot be written"]
    assert capsys.readouterr().err == ""


def test_many_threads_warn_once() -> None:
    shown: list[Event] = []
    end = events.subscribe(shown.append, ["warning"])
    threads = [threading.Thread(target=events.warn_once, args=("same", "message")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    end()
    assert len(shown) == 1


def test_debug_1_prints_device_and_compile_events(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    events.record("compile", name="quiet")
    monkeypatch.setenv("DEBUG", "1")
    events.record("device", name="cpu", threads=2)
    events.record("compile", name="tonemap")
    events.record("launch")
    assert capsys.readouterr().err.splitlines() == [
        "rayfuse: device name=cpu threads=2",
        "rayfuse: compile name=tonemap",
    ]


@pytest.mark.parametrize(("text", "level"), [("0", 0), ("1", 1), ("6", 6), ("", 0), ("yes", 0), ("-1", 0)])
def test_the_debug_level_is_read_when_asked_for(text: str, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUG", text)
    assert events.debug_level() == level


def test_timing_prints_or_collects(capsys: pytest.CaptureFixture[str]) -> None:
    with Timing("upload") as timing:
        time.sleep(0.002)
    assert timing.seconds >= 0.002
    assert capsys.readouterr().err == f"rayfuse: upload: {timing.seconds * 1e3:.3f} ms\n"
    collected: dict[str, float] = {}
    for _ in range(2):
        with Timing("bvh", into=collected):
            time.sleep(0.001)
    assert collected["bvh"] >= 0.002
    assert capsys.readouterr().err == ""
