"""Thousands of frames with a moving camera: nothing is compiled, nothing allocated, and memory does not grow."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.runtime import events
from renderer.pipeline.session import Session
from renderer.scene.gltf import load


def resident_kib() -> int:
    """Memory of this process that is in RAM."""
    for row in Path("/proc/self/status").read_text().splitlines():
        if row.startswith("VmRSS:"):
            return int(row.split()[1])
    raise AssertionError("no VmRSS")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="hardware: no /proc to read memory from")
def test_thousands_of_frames_leave_no_trace(root: Path) -> None:
    session = Session(load(root / "scenes/cornell.gltf"), width=48, height=32, depth=4, backend="cpu", threads=2)
    for frame in range(300):
        session.orbit(frame % 20 - 10)
        session.frame()
    before, counted = resident_kib(), session.counters
    with events.counting() as happened:
        for frame in range(4000):
            session.orbit(frame % 20 - 10)
            session.exposure = 1 + frame % 3
            session.frame()
    after = session.counters
    assert (after.compiles, after.kernels, after.allocations) == (counted.compiles, counted.kernels, counted.allocations)
    assert happened.compiles == happened.allocations == happened.traces == 0
    assert resident_kib() <= before * 1.01
    session.close()
