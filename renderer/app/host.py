"""Facts about this process and the machine under it, for the benchmark record.

When the process started: a program cannot time what came before its first line, yet a user waits for that too (the
interpreter, the imports). Linux knows: field 22 of /proc/self/stat, in clock ticks of 10 ms since boot, rounded down,
so the figure errs by at most a tick and never in our favour. Elsewhere the clock is read when this module is first
imported, less the processor time that had been used by then: a lower bound, close while nothing waits.

How much memory was needed at most: VmHWM, not getrusage's ru_maxrss, where there is a choice. The latter survives
exec on Linux, so a benchmark started from a large process would report the size of its parent.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path

_TICK_FIELD = 19  # of the fields after the command's closing bracket: `starttime`


def _age_of_process() -> float:
    """Seconds since the process started."""
    used = time.process_time()
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[_TICK_FIELD]) / os.sysconf("SC_CLK_TCK")
        return max(used, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
    except (OSError, ValueError, IndexError, AttributeError):
        return used


_STARTED = time.perf_counter() - _age_of_process()


def seconds_since_start() -> float:
    """Seconds since the process started, the interpreter's own start included."""
    return time.perf_counter() - _STARTED


def peak_memory() -> int | None:
    """The most memory that was resident at once, in bytes; None where the system does not say."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def cpu_name() -> str | None:
    """The processor's marketing name, None where it cannot be had."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.lower().startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or None


def usable_cores() -> int | None:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def version() -> str | None:
    """The installed distribution's version; None where the program runs from a tree that was never installed."""
    from importlib import metadata

    try:
        return metadata.version("rayfuse")
    except metadata.PackageNotFoundError:
        return None


def checkout() -> Path | None:
    """The git checkout that the program runs from, None where it is installed elsewhere."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / ".git").exists() and (root / "pyproject.toml").is_file() else None


def commit(root: Path) -> str | None:
    """The commit that the git checkout at `root` stands on, read from git's files; None where they do not tell."""
    try:
        folder = root / ".git"
        if folder.is_file():  # a linked work tree: "gitdir: PATH"
            folder = root / folder.read_text().partition(":")[2].strip()
        head = (folder / "HEAD").read_text().strip()
        if not head.startswith("ref:"):
            return head or None
        name = head.partition(":")[2].strip()
        pointer = folder / "commondir"  # where a linked work tree keeps its branches
        common = folder / pointer.read_text().strip() if pointer.is_file() else folder
        if (common / name).is_file():
            return (common / name).read_text().strip() or None
        for line in (common / "packed-refs").read_text().splitlines():
            if line.endswith(f" {name}"):
                return line.split()[0]
    except OSError:
        pass
    return None


def sha256_of(path: Path) -> str | None:
    """The file's SHA-256 in hexadecimal; None where it cannot be read (any more)."""
    import hashlib

    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
