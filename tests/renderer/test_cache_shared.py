"""The disk cache as the commands use it, with real scenes: shared by processes that start together, without room, killed in the middle.

Whatever becomes of the cache, a picture is drawn, and it is the same picture: correctness rests on renaming whole files and on nothing
else. What is tested of the cache alone is in tests/engine/test_cache.py. The full form of C49 is 8 processes and 20 rounds, minutes of
compiling: RAYFUSE_CACHE_ROUNDS=20 asks for it.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.runtime.cache import Cache, _payload

ROOT = Path(__file__).parents[2]
ROUNDS = int(os.environ.get("RAYFUSE_CACHE_ROUNDS", "0"))
TOGETHER = 8 if ROUNDS else 4
PATIENCE = 600.0
WARNING = "rayfuse: warning: the kernel cache cannot be written ("

Limit = Callable[[], Any]


def start(folder: Path, cache: Path, name: str, limit: Limit | None = None) -> subprocess.Popen[str]:
    """A render of the box, on its way to `folder`/name.npy."""
    options = ("--backend", "cpu", "--size", "24", "16", "--spp", "2", "--depth", "3", "--threads", "1")
    scene = ROOT / "scenes" / "cornell.gltf"
    command = [sys.executable, "-m", "renderer.app.cli", "render", str(scene), "-o", str(folder / f"{name}.npy"), *options]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JIT_CACHE": str(cache)}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limit)


def warnings_of(process: subprocess.Popen[str]) -> list[str]:
    """What a render that succeeds says, but for its progress."""
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and out == "" and "Traceback" not in err, err
    return [line for line in err.splitlines() if not line.endswith("%")]


def bad_entries(cache: Path) -> list[str]:
    """Files of a cache that are no whole entries."""
    return [path.name for path in cache.iterdir() if path.suffix != ".entry" or _payload(path.read_bytes()) is None]


@pytest.fixture(scope="module")
def standard(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The picture, of a process that had the cache to itself."""
    folder = tmp_path_factory.mktemp("standard")
    assert warnings_of(start(folder, folder / "cache", "alone")) == []
    return (folder / "alone.npy").read_bytes()


def test_processes_that_start_together_on_an_empty_cache_draw_the_same(tmp_path: Path, standard: bytes) -> None:
    """C49. No lock is taken: who is late by the time of a compilation has found no entry, and writes the same one."""
    for turn in range(max(1, ROUNDS)):
        cache = tmp_path / f"cache-{turn}"
        processes = [start(tmp_path, cache, str(number)) for number in range(TOGETHER)]
        assert [warnings_of(process) for process in processes] == [[]] * TOGETHER
        assert all((tmp_path / f"{number}.npy").read_bytes() == standard for number in range(TOGETHER))
        assert bad_entries(cache) == [] and Cache(cache).statistics().entries > 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"hardware: no file system can be mounted here ({done.stderr.strip()})")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_on_a_full_disk_there_is_one_warning_and_a_picture(small_disk: Path, tmp_path: Path, standard: bytes) -> None:
    """C51."""
    for name in ("first", "second"):
        said = warnings_of(start(tmp_path, small_disk / "cache", name))
        assert len(said) == 1 and said[0].startswith(WARNING) and "No space left on device" in said[0]
        assert (tmp_path / f"{name}.npy").read_bytes() == standard
        assert bad_entries(small_disk / "cache") == []


def test_under_a_limit_on_file_sizes_there_is_one_warning_and_a_picture(tmp_path: Path, standard: bytes) -> None:
    """C51."""
    size = 8192  # the picture has less, the kernels have more
    said = warnings_of(start(tmp_path, tmp_path / "cache", "a", lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))))
    assert len(said) == 1 and said[0].startswith(WARNING) and "File too large" in said[0]
    assert (tmp_path / "a.npy").read_bytes() == standard and bad_entries(tmp_path / "cache") == []


def test_a_disk_that_is_full_where_the_picture_goes_is_one_line_and_nothing_is_left(small_disk: Path, tmp_path: Path) -> None:
    (small_disk / "old.npy").write_bytes(b"old")
    (small_disk / "filler").write_bytes(bytes(60_000))
    process = start(small_disk, tmp_path / "cache", "old")
    out, err = process.communicate(timeout=PATIENCE)
    lines = [line for line in err.splitlines() if not line.endswith("%")]
    assert process.returncode == 2 and out == "" and len(lines) == 1
    assert lines[0].startswith(f"rayfuse: error: {small_disk}/old.npy: cannot be written: no space left on device")
    assert (small_disk / "old.npy").read_bytes() == b"old" and len(list(small_disk.iterdir())) == 2


@pytest.mark.parametrize("place", ["a file", "/proc/nowhere", "/dev/null/cache"])
def test_where_a_cache_cannot_be_there_is_one_warning_and_a_picture(place: str, tmp_path: Path, standard: bytes) -> None:
    (tmp_path / "a file").write_text("")
    said = warnings_of(start(tmp_path, tmp_path / place, "a"))
    assert len(said) == 1 and said[0].startswith(WARNING)
    assert (tmp_path / "a.npy").read_bytes() == standard


def compiling(process: subprocess.Popen[str], seconds: float) -> None:
    """Waits until a process has used so much of the processor."""
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        if (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") >= seconds:
            return
        time.sleep(0.01)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="hardware: no /proc")
def test_who_is_stopped_or_killed_in_the_middle_keeps_nobody_waiting(tmp_path: Path, standard: bytes) -> None:
    """C53. Beside them lie files as other programs leave them for locks, and remains of a write."""
    cache = tmp_path / "cache"
    cache.mkdir()
    for name in ("lock", ".lock", "cache.lock", "old.part", "0000.part"):
        (cache / name).write_text("4711")
    stopped = start(tmp_path, cache, "stopped")
    compiling(stopped, 0.7)
    stopped.send_signal(signal.SIGSTOP)
    try:
        for name, seconds in (("early", 0.4), ("later", 1.0)):
            killed = start(tmp_path, cache, name)
            compiling(killed, seconds)
            killed.kill()
            killed.communicate()
        for name in ("next", "last"):  # a lock that the stopped one holds would hold them for ever
            assert warnings_of(start(tmp_path, cache, name)) == []
        assert stopped.poll() is None
    finally:
        stopped.send_signal(signal.SIGCONT)
    assert warnings_of(stopped) == []
    for name in ("stopped", "next", "last"):
        assert (tmp_path / f"{name}.npy").read_bytes() == standard, name
    assert not [name for name in bad_entries(cache) if name.endswith(".entry")]
    assert (cache / "lock").read_text() == "4711", "what is none of the cache's stays"

