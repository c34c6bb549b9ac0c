"""The viewer's record: the agreed fields, honest gaps, and as much memory after a day as after a minute."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
import tracemalloc
from pathlib import Path

import msgspec
import numpy as np
import pytest

from renderer.app.opening import UsageError, check_output
from renderer.app.report import frame_times
from renderer.app.viewer.recorder import Distribution, Ends, Recorder, ViewerRecord
from renderer.pipeline.session import DeviceFacts
from renderer.scene.files import write_whole


class Clock:
    """A clock that a test turns, in seconds."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


def a_run() -> Recorder:
    """A short life of the viewer."""
    clock = Clock()
    recorder = Recorder(clock)
    recorder.device(DeviceFacts("cpu", "A CPU", None, 2, 8, 8 << 30, False, 1 << 20))
    recorder.presenting("mapped pixel buffer", "the fastest for this device")
    for gap in (0.01, 0.04, 0.02):
        recorder.polled()
        clock.time += gap
    recorder.warmup_step("building the tree", 0.05)
    recorder.polled()
    recorder.warmed()
    for number in range(100):
        clock.time += 0.03 if number == 50 else 0.016
        recorder.polled()
        recorder.frame(10.0 + number % 3)
        recorder.presented(0.5)
    recorder.event("workgroup", 512)
    recorder.compiled("workgroup", 1.5, background=True)
    return recorder


def test_the_record_has_the_agreed_fields(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    a_run().write(file, samples=100)
    read = json.loads(file.read_text())
    assert list(read) == [
        "schema", "device", "present", "warmup", "frames", "frame_ms", "present_ms", "compiles",
        "longest_event_gap_ms", "events", "samples_accumulated",
    ]  # fmt: skip
    assert set(read["device"]) == {"backend", "name", "driver", "compute_units", "group_width", "memory_bytes", "software"}
    assert read["schema"] == 1 and read["frames"] == 100 and read["samples_accumulated"] == 100
    assert read["present"] == {"path": "mapped pixel buffer", "reason": "the fastest for this device"}
    assert read["warmup"]["steps"] == [{"label": "building the tree", "seconds": 0.05}]
    assert read["warmup"]["seconds"] == pytest.approx(0.07)
    assert read["present_ms"] == {"median": 0.5}
    assert read["compiles"] == [{"at_s": pytest.approx(1.684), "why": "workgroup", "background": True, "seconds": 1.5}]
    assert read["events"] == [{"at_s": pytest.approx(1.684), "kind": "workgroup", "value": 512}]
    assert set(read["frame_ms"]) == {"median", "mean", "p95", "p99", "min", "max", "stddev", "series"}
    assert msgspec.json.decode(file.read_bytes(), type=ViewerRecord).frames == 100


def test_the_longest_gap_is_told_apart_for_the_warm_up() -> None:
    result = a_run().result(0)
    assert result.warmup.longest_event_gap_ms == pytest.approx(40.0)
    assert result.longest_event_gap_ms == pytest.approx(30.0)


def test_a_gap_that_begins_in_the_warm_up_belongs_to_it() -> None:
    clock = Clock()
    recorder = Recorder(clock)
    recorder.polled()
    clock.time += 0.2
    recorder.warmed()
    clock.time += 0.2
    recorder.polled()
    result = recorder.result(0)
    assert result.warmup.longest_event_gap_ms == pytest.approx(400.0) and result.warmup.seconds == pytest.approx(0.2)
    assert result.longest_event_gap_ms is None


def test_a_viewer_closed_before_its_first_picture_has_figures_for_what_there_was() -> None:
    clock = Clock()
    recorder = Recorder(clock)
    clock.time += 2.0
    result = recorder.result(0)
    assert result.warmup.seconds == 2.0 and result.frames == 0
    assert result.device is None and result.present is None and result.frame_ms is None and result.present_ms.median is None


def test_few_frames_have_the_statistics_of_the_benchmark() -> None:
    milliseconds = np.random.default_rng(1).gamma(2.0, 5.0, 3000).tolist()
    frames = Distribution()
    for value in milliseconds:
        frames.add(value)
    exact, told = frame_times(milliseconds), frames.times()
    assert told is not None and told.series == exact.series
    for name in ("median", "mean", "p95", "p99", "min", "max", "stddev"):
        assert getattr(told, name) == pytest.approx(getattr(exact, name)), name


def test_many_frames_keep_exact_sums_and_a_fair_sample() -> None:
    milliseconds = np.random.default_rng(2).gamma(2.0, 5.0, 100_000).tolist()
    frames = Distribution()
    for value in milliseconds:
        frames.add(value)
    exact, told = frame_times(milliseconds), frames.times()
    assert told is not None and len(told.series) == 8192
    for name in ("mean", "min", "max", "stddev"):
        assert getattr(told, name) == pytest.approx(getattr(exact, name)), name
    for name, tolerance in (("median", 0.03), ("p95", 0.04), ("p99", 0.08)):  # about four standard errors
        assert getattr(told, name) == pytest.approx(getattr(exact, name), rel=tolerance), name


def test_the_sample_is_taken_evenly_from_all_of_the_time_and_keeps_its_order() -> None:
    frames = Distribution(size=1000)
    for number in range(50_000):
        frames.add(float(number))
    series = frames.series
    assert series == sorted(series)
    tenths = np.histogram(series, bins=10, range=(0, 50_000))[0]
    assert ((tenths > 60) & (tenths < 140)).all()  # 100 each, four standard deviations


def test_hours_of_frames_and_events_take_no_more_memory() -> None:
    recorder = Recorder()

    def go_on(turns: int) -> None:
        for number in range(turns):
            recorder.frame(float(number % 17))
            recorder.presented(0.5)
            recorder.event("orbit", number)
            recorder.polled()

    go_on(30_000)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    go_on(30_000)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    # What is kept was made anew meanwhile, and only now is traced: 2 samples of 8192, 5000 events.
    assert grown < 8 << 20
    result = recorder.result(0)
    assert result.frames == 60_000
    dropped = [event for event in result.events if event.kind == "dropped"]
    assert len(result.events) == 10_001 and [event.value for event in dropped] == [50_000]
    assert result.events[0].value == 0 and result.events[-1].value == 29_999


def test_both_ends_of_a_long_list_are_kept() -> None:
    ends: Ends[int] = Ends(3)
    for number in range(6):
        ends.append(number)
    assert ends.items() == ([0, 1, 2], [3, 4, 5]) and ends.dropped == 0
    ends.append(6)
    assert ends.items() == ([0, 1, 2], [4, 5, 6]) and ends.dropped == 1


def test_a_place_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--record .*: there is no folder .*; make it first"):
        check_output(tmp_path / "nowhere" / "record.json", "--record")
    with pytest.raises(UsageError, match=r"--record .*: is a folder; name a file in it"):
        check_output(tmp_path, "--record")


def test_a_record_replaces_the_one_before_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "record.json"
    file.write_text("before")
    recorder = a_run()
    recorder.event("bad", object())
    with pytest.raises(TypeError):
        recorder.write(file, 0)
    assert file.read_text() == "before" and list(tmp_path.iterdir()) == [file]
    file.chmod(0o600)
    a_run().write(file, 7)
    assert json.loads(file.read_text())["samples_accumulated"] == 7 and list(tmp_path.iterdir()) == [file]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.skipif(sys.platform == "win32", reason="hardware: no symbolic links and no pipes with names")
def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path: Path) -> None:
    file, link, pipe = tmp_path / "file", tmp_path / "link", tmp_path / "pipe"
    file.write_text("before")
    link.symlink_to(file)
    write_whole(link, b"after")
    assert link.is_symlink() and file.read_bytes() == b"after"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_whole(pipe, b"through")
    reader.join(10)
    assert read == [b"through"] and pipe.is_fifo()
