"""The host's description, remembered: so that a process that compiles nothing need not load LLVM to ask for it.

LLVM knows the processor's name and features; a process that finds all of its machine code in the disk cache wants them
for the keys alone. The answer depends on the processor as the system shows it and on the version of llvmlite, both of
which are cheap to read, so it is kept in the disk cache under these. The cores that this process may use are counted
each time.

LLVM is asked where the environment or the caller forces a width, and on systems without /proc/cpuinfo.
"""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass
from functools import lru_cache

from engine.runtime.cache import Cache, digest
from engine.runtime.devices.native_host import Host, host, usable_cores

_TELLING = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU ", "Features")  # of x86-64 and arm64
_FIXED = ("triple", "machine", "cpu", "features", "width")


@dataclass(frozen=True)
class KnownHost:
    """The host, and the version of the LLVM that compiles for it."""

    host: Host
    llvm: str


@lru_cache(maxsize=1)
def llvm_identity() -> str:
    """The llvmlite that is installed, which has its LLVM inside: part of every key of machine code."""
    import llvmlite  # light: its binding is what takes long

    folder = os.path.join(os.path.dirname(llvmlite.__file__), "binding")
    return f"llvmlite {llvmlite.__version__} {os.stat(folder).st_mtime_ns}"


def known_host(width: int | None, threads: int | None, cache: Cache) -> KnownHost:
    """As `native_host.host`, from the disk cache where it is there. Raises ValueError as it does."""
    forced = width is not None or os.environ.get("RAYFUSE_CPU_WIDTH") or os.environ.get("RAYFUSE_THREADS")
    described = "" if forced or cache.folder is None else _processor()
    if not described or (threads is not None and threads < 1):
        return _ask(width, threads)
    key = digest("host", described, llvm_identity())
    data = cache.get(key)
    if data is None:
        found = _ask(width, threads)
        cache.put(key, repr((found.llvm, {name: getattr(found.host, name) for name in _FIXED})).encode())
        return found
    version, fixed = ast.literal_eval(data.decode())
    cores = usable_cores()
    return KnownHost(Host(**fixed, cores=cores, threads=cores if threads is None else threads), version)


def _ask(width: int | None, threads: int | None) -> KnownHost:
    import llvmlite.binding as llvm

    return KnownHost(host(width, threads), ".".join(map(str, llvm.llvm_version_info)))


def _processor() -> str:
    """The first processor as the system describes it, without what changes from moment to moment; empty where it does not."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            rows = []
            for row in file:
                if not row.strip():
                    break
                if row.startswith(_TELLING):
                    rows.append(row)
            return "".join(rows)
    except (OSError, UnicodeDecodeError):
        return ""
