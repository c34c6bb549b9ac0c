"""What the host processor is and how much of it this process may use.

The width of a group is the number of float32 lanes of the widest vector that the processor computes with: 16 with
AVX-512, 8 with AVX2, else 4. A narrower width can be forced, to test the code that another machine would get; the
features of the wider units are then switched off, so that the code generator really makes what that machine would
run.

Threads are counted by what the process is allowed to have, not by what the machine has: its affinity mask, and the CPU
quota of its control groups (version 1 or 2), which a container sets. Spinning more threads than that only steals time
from the ones that have work.
"""

from __future__ import annotations

import math
import os
import platform
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

WIDTHS = (16, 8, 4)

# What remains of x86-64 when a width of 4 is forced: no VEX or EVEX encoding at all.
_SSE_ONLY = frozenset((
    "64bit", "adx", "aes", "bmi", "bmi2", "clflushopt", "clwb", "cmov", "crc32", "cx16", "cx8", "fsgsbase", "fxsr",
    "invpcid", "lzcnt", "mmx", "movbe", "pclmul", "popcnt", "prfchw", "rdpid", "rdrnd", "rdseed", "sahf", "sha",
    "sse", "sse2", "sse3", "sse4.1", "sse4.2", "sse4a", "ssse3", "xsave", "xsavec", "xsaveopt", "xsaves",
))  # fmt: skip


@dataclass(frozen=True)
class Host:
    """The processor that kernels are compiled for, and the share of it that they may use."""

    triple: str
    machine: str  # as platform.machine() says, lower case: x86_64, aarch64, ...
    cpu: str  # LLVM's name of the processor
    features: str  # LLVM's feature string, every feature stated with + or -
    width: int  # float32 lanes of a vector: 16, 8 or 4
    cores: int  # processors that this process may use at once
    threads: int  # threads to use, the calling one included


def host(width: int | None = None, threads: int | None = None) -> Host:
    """The host as kernels should see it.

    width: 16, 8 or 4 to force a vector width (default: `RAYFUSE_CPU_WIDTH`, else the widest that the processor has).
    threads: how many to use (default: `RAYFUSE_THREADS`, else one for each usable core).
    Raises ValueError for a width that the processor lacks or that is none of the three, and for fewer than one thread.
    """
    if width is None:
        width = _setting("RAYFUSE_CPU_WIDTH")
    if threads is None:
        threads = _setting("RAYFUSE_THREADS")
    return _host(width, threads, usable_cores())


def _setting(name: str) -> int | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name}={text!r} is not a whole number") from None


@lru_cache(maxsize=16)
def _host(width: int | None, threads: int | None, cores: int) -> Host:
    import llvmlite.binding as llvm  # here: a process that finds its host in the disk cache never needs it

    widest, features = _features()
    if width is None:
        width = widest
    if width not in WIDTHS:
        raise ValueError(f"a vector width of {width} is not possible: choose 16, 8 or 4 (RAYFUSE_CPU_WIDTH)")
    if width > widest:
        raise ValueError(f"this processor has {widest} lanes of float32, not {width}: choose fewer (RAYFUSE_CPU_WIDTH)")
    if threads is None:
        threads = cores
    if threads < 1:
        raise ValueError(f"{threads} threads cannot do any work: choose 1 or more (RAYFUSE_THREADS, --threads)")
    kept = {name: on and _allowed(name, width, widest) for name, on in features.items()}
    flags = ",".join(("+" if on else "-") + name for name, on in sorted(kept.items()))
    return Host(
        triple=llvm.get_process_triple(),
        machine=platform.machine().lower(),
        cpu=llvm.get_host_cpu_name(),
        features=flags,
        width=width,
        cores=cores,
        threads=threads,
    )


def _features() -> tuple[int, dict[str, bool]]:
    """The widest vector and the features of this processor."""
    import llvmlite.binding as llvm

    try:
        features = dict(llvm.get_host_cpu_features())
    except RuntimeError:  # LLVM cannot ask this system: the processor's name alone decides
        return 4, {}
    if features.get("avx512f") and features.get("avx512vl") and features.get("avx512dq") and features.get("avx512bw"):
        return 16, features
    return (8 if features.get("avx2") and features.get("fma") else 4), features


def _allowed(feature: str, width: int, widest: int) -> bool:
    if width == widest:
        return True
    if width == 4:
        return feature in _SSE_ONLY
    return not feature.startswith(("avx512", "avx10", "amx-avx512", "evex512"))


def usable_cores() -> int:
    """How many processors this process may keep busy: affinity and control-group quota respected; at least 1."""
    if hasattr(os, "process_cpu_count"):  # Python 3.13
        cores = os.process_cpu_count() or 1
    elif sys.platform != "win32" and hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _quota())))


@lru_cache(maxsize=1)
def _quota() -> float:
    return cpu_quota(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))


def cpu_quota(membership: Path, root: Path) -> float:
    """The processors' worth of time that control groups grant this process; infinity where they set no limit.

    membership: the file that names the process's groups. root: where the hierarchies are mounted. Every ancestor of the
    group counts, since the tightest limit holds. Inside a container the group's path may not exist below the mount; the
    mount itself is then the group.
    """
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return math.inf
    limits = [math.inf]
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:  # version 2
            bases = (root, root / "unified")
            read = _quota_2
        elif "cpu" in controllers.split(","):
            bases = (root / controllers, root / "cpu")
            read = _quota_1
        else:
            continue
        parts = [part for part in path.split("/") if part and part != ".."]
        for base in bases:
            limits.extend(read(base.joinpath(*parts[:depth])) for depth in range(len(parts) + 1))
    return min(limits)


def _quota_2(group: Path) -> float:
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # "max 100000": no limit
        return math.inf


def _quota_1(group: Path) -> float:
    try:
        quota = int((group / "cpu.cfs_quota_us").read_text())
        period = int((group / "cpu.cfs_period_us").read_text())
        return quota / period if quota > 0 else math.inf
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf
