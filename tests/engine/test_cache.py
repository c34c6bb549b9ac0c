"""The disk cache gives back what was put or nothing, stays within its limit, and never makes a program fail."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.runtime.cache import DEFAULT_LIMIT, Cache, Statistics, digest

ROOT = Path(__file__).resolve().parents[2]


def entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def python(body: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(body), *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_what_was_put_is_found_by_another_cache_of_the_same_folder(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "on demand"
    cache = Cache(folder)
    assert cache.get("kernel") is None
    cache.put("kernel", b"\x00code" * 1000)
    cache.put("empty", b"")
    again = Cache(folder)
    assert again.get("kernel") == b"\x00code" * 1000
    assert again.get("empty") == b""
    assert (cache.misses, again.hits) == (1, 2)
    cache.put("kernel", b"new")
    assert again.get("kernel") == b"new"
    statistics = again.statistics()
    assert (statistics.path, statistics.entries) == (str(folder), 2)
    assert statistics.bytes == sum(path.stat().st_size for path in entries(folder))


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "longer", "header"])
def test_a_damaged_entry_is_dropped_and_counted(tmp_path: Path, damage: str) -> None:
    cache = Cache(tmp_path)
    cache.put("kernel", b"machine code")
    (path,) = entries(tmp_path)
    data = path.read_bytes()
    path.write_bytes(
        {
            "cut": data[:-1],
            "empty": b"",
            "flipped": data[:-1] + bytes([data[-1] ^ 1]),
            "longer": data + b"x",
            "header": b"X" + data[1:],
        }[damage]
    )
    assert cache.get("kernel") is None
    assert (cache.dropped, cache.misses, cache.hits) == (1, 1, 0)
    assert entries(tmp_path) == []
    cache.put("kernel", b"machine code")
    assert cache.get("kernel") == b"machine code"


@pytest.mark.parametrize("limit", [1, 2, 3, 16, 40])
def test_the_folder_never_holds_more_than_the_limit(tmp_path: Path, limit: int) -> None:
    cache = Cache(tmp_path, limit)
    for i in range(3 * limit + 5):
        cache.put(f"kernel {i}", b"code")
        assert len(entries(tmp_path)) <= limit
        assert cache.get(f"kernel {i}") == b"code"
    assert cache.evicted > 0


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 3)
    for i, name in enumerate("abc"):
        cache.put(name, b"code")
        age(tmp_path / cache._path(name), 1000 - 100 * i)
    assert cache.get("a")  # now the latest used
    cache.put("d", b"code")
    assert [name for name in "abcd" if cache.get(name)] == ["a", "c", "d"]


def test_a_smaller_limit_trims_what_is_there(tmp_path: Path) -> None:
    for i in range(20):
        Cache(tmp_path).put(f"kernel {i}", b"code")
    Cache(tmp_path, 2).put("another", b"code")
    assert len(entries(tmp_path)) <= 2


def test_left_over_temporary_files_are_swept_after_an_hour(tmp_path: Path) -> None:
    old, young, foreign = tmp_path / "tmpold.part", tmp_path / "tmpyoung.part", tmp_path / "notes.txt"
    for path in (old, young, foreign):
        path.write_bytes(b"half")
        age(path, 7200)
    age(young, 60)
    cache = Cache(tmp_path)
    cache.put("kernel", b"code")
    assert not old.exists()
    assert young.exists()
    assert cache.clear() == 1
    assert entries(tmp_path) == [foreign]


def test_a_folder_that_cannot_be_made_gives_one_warning_and_no_cache(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    warnings: list[str] = []
    cache = Cache(blocked / "cache", on_warning=warnings.append)
    for i in range(3):
        cache.put(f"kernel {i}", b"code")
        assert cache.get(f"kernel {i}") is None
    assert len(warnings) == 1
    assert str(blocked) in warnings[0]
    assert cache.statistics() == Statistics(str(blocked / "cache"), 0, 0)
    assert cache.clear() == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_full_or_read_only_disk_gives_one_warning_and_leaves_nothing_partial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    warnings: list[str] = []
    cache = Cache(tmp_path, on_warning=warnings.append)
    cache.put("before", b"code")

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", refuse)
    for i in range(3):
        cache.put(f"kernel {i}", b"code")
    assert warnings == [
        f"the kernel cache cannot be written ({tmp_path}: {os.strerror(number)}): kernels are compiled anew each time"
    ]
    assert len(entries(tmp_path)) == 1
    assert cache.get("before") == b"code"  # reading goes on


@pytest.mark.skipif(sys.platform == "win32", reason="no file-size limit on Windows")
def test_a_file_size_limit_is_survived(tmp_path: Path) -> None:
    process = python(
        """
        import resource, sys
        from engine.runtime.cache import Cache
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        cache = Cache(sys.argv[1])
        cache.put("small", b"x" * 1000)
        cache.put("large", b"x" * 100_000)
        cache.put("other", b"x" * 100_000)
        assert cache.get("small") and cache.get("large") is None
        """,
        str(tmp_path),
    )
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert errors.count("warning") == 1
    assert len(entries(tmp_path)) == 1


def test_eight_processes_that_start_together_all_succeed(tmp_path: Path) -> None:
    body = """
        import sys
        from engine.runtime.cache import Cache
        cache = Cache(sys.argv[1], int(sys.argv[2]))
        for i in range(40):
            key, data = f"kernel {i % 20}", b"%d " % (i % 20) * 5000
            found = cache.get(key)
            assert found in (None, data), "a foreign or partial entry"
            if found is None:
                cache.put(key, data)
        assert cache.dropped == 0
        """
    for limit in (DEFAULT_LIMIT, 2):
        folder = tmp_path / str(limit)
        processes = [python(body, str(folder), str(limit)) for _ in range(8)]
        outcomes = [(process.communicate(timeout=60)[1], process.returncode) for process in processes]
        assert outcomes == [("", 0)] * 8
        left = len(entries(folder))
        assert left == 20 if limit > 20 else 1 <= left <= limit
        cache = Cache(folder)
        assert sum(cache.get(f"kernel {i}") == b"%d " % i * 5000 for i in range(20)) == left


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_process_killed_while_writing_leaves_no_bad_entry(tmp_path: Path) -> None:
    body = """
        import sys
        from engine.runtime.cache import Cache
        cache = Cache(sys.argv[1])
        print("started", flush=True)
        while True:
            cache.put("kernel", b"x" * 3_000_000)
        """
    for delay in (0.0, 0.003, 0.007):
        process = python(body, str(tmp_path))
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.01 + delay)
        process.kill()
        process.communicate()
        cache = Cache(tmp_path)
        assert cache.get("kernel") in (None, b"x" * 3_000_000)
        assert cache.dropped == 0


def test_settings_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JIT_CACHE", str(tmp_path))
    monkeypatch.setenv("JIT_CACHE_LIMIT", "7")
    cache = Cache.from_environment()
    assert (cache.folder, cache.limit) == (str(tmp_path), 7)
    for off in ("0", "off", "OFF", "", " "):
        monkeypatch.setenv("JIT_CACHE", off)
        cache = Cache.from_environment()
        cache.put("kernel", b"code")
        assert (cache.folder, cache.get("kernel")) == (None, None)
        assert cache.statistics() == Statistics(None, 0, 0)
    monkeypatch.setenv("JIT_CACHE", str(tmp_path))
    monkeypatch.setenv("JIT_CACHE_LIMIT", "0")
    assert Cache.from_environment().folder is None
    monkeypatch.setenv("JIT_CACHE_LIMIT", "lots")
    warnings: list[str] = []
    assert Cache.from_environment(warnings.append).limit == DEFAULT_LIMIT
    assert warnings == ["JIT_CACHE_LIMIT='lots' is not a number of entries: 512 is used"]


def test_without_a_home_there_is_one_warning_and_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JIT_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert Cache.from_environment().folder is not None
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda *_, **__: "~/.cache/rayfuse")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    warnings: list[str] = []
    assert Cache.from_environment(warnings.append).folder is None
    assert len(warnings) == 1
    assert "home" in warnings[0]


def test_a_digest_is_the_same_in_every_process() -> None:
    parts = ("kernel", 3, 2.5, True, None, b"\x00", (1, ("a", "b")), {"width": 16})
    process = python(f"from engine.runtime.cache import digest; print(digest(*{parts!r}))")
    assert process.communicate(timeout=30)[0].strip() == digest(*parts)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


def identity(value: object) -> object:
    """The value in a form in which 1, 1.0 and True differ."""
    return tuple(identity(each) for each in value) if isinstance(value, tuple) else (type(value).__name__, repr(value))


@given(values, values)
def test_different_parts_have_different_digests(a: object, b: object) -> None:
    assert (digest(a) == digest(b)) == (identity(a) == identity(b))


def test_a_digest_of_something_without_a_stable_form_is_refused() -> None:
    with pytest.raises(TypeError, match="object has no stable hash"):
        digest("a", object())
