"""How much memory there is for a scene: what a budget for its pictures is made from, before any of them is decoded.

Pictures are the part of a scene that can be had in any size, so they get what may be spent: half of what the device has, for the other
half is wanted by triangles, films and everybody else, and never more than one of its buffers may have. Where kernels work in the host's
memory, the device's is what the host has free: what the system says is available, within the limits of this process and its group.

RAYFUSE_MEMORY_LIMIT (bytes, or with K, M or G behind the number) makes it less, for those who share a device.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from engine import Device
from renderer.scene.model import SceneError

BUDGET = 4 << 30  # bytes of all pictures together, at most
LIMIT = "RAYFUSE_MEMORY_LIMIT"
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_UNLIMITED = 1 << 60  # what systems write where there is no limit is larger


def picture_budget(device: Device) -> int:
    """Bytes that the pictures of a scene may take on a device. Raises SceneError where the variable cannot be read."""
    room = [device.memory_bytes, free_host_memory() if device.host_memory else None]
    budgets = [most_for_pictures(), device.buffer_bytes, *(None if bytes is None else bytes // 2 for bytes in room)]
    return min(bytes for bytes in budgets if bytes is not None)


def most_for_pictures() -> int:
    """Bytes that the pictures of a scene may take on any device. Raises SceneError where the variable cannot be read."""
    limit = memory_limit()
    return BUDGET if limit is None else min(BUDGET, limit // 2)


def memory_limit() -> int | None:
    """What RAYFUSE_MEMORY_LIMIT allows, None where it is not set. Raises SceneError where it is no number of bytes."""
    text = os.environ.get(LIMIT, "")
    found = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([KMG]?)I?B?", text.strip().upper())
    if not text.strip():
        return None
    if found is None:
        raise SceneError(f"{LIMIT}={text}: is no number of bytes; write 2G or 800M")
    return int(float(found[1]) * _UNITS[found[2]])


def free_host_memory() -> int | None:
    """Bytes that this process may still take, None where the system does not tell."""
    return min(_free(), default=None)


def _free() -> Iterator[int]:
    """What each of those who say something leave."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if 0 < limit < _UNLIMITED:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            yield max(0, limit - pages * resource.getpagesize())
    except (ImportError, OSError, ValueError):
        pass
    try:
        told = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        yield int(told["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        pass
    try:  # the second version of control groups, as a container sees its own
        most, used, stat = (Path(f"/sys/fs/cgroup/memory.{name}").read_text().strip() for name in ("max", "current", "stat"))
        if most != "max":
            files = dict(line.split() for line in stat.splitlines())["inactive_file"]  # kept as long as nobody wants the memory
            yield max(0, int(most) - int(used) + int(files))
    except (OSError, KeyError, ValueError):
        pass
