"""Frames without a window, timed: `rayfuse bench`.

The order matters more than the arithmetic. Warm-up frames come first and are kept apart: the first of them ends the
wait that a user feels (`to_first_frame`), the others bring caches and clocks to rest. Then the measured frames, each
timed from its parameters (the camera's turn included) to device completion, with the engine's counters read before
and after: nothing may be compiled or allocated in between. Only then come the runs that would disturb the figures:
the kernels one by one, and the rays counted. Memory and compile counts are read before these, since they belong to
the frames.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from renderer.app.host import peak_memory, seconds_since_start
from renderer.app.opening import FrameOptions, open_session
from renderer.app.terminal import Progress

if TYPE_CHECKING:
    from renderer.app.record import Record
    from renderer.app.static import StaticSession
    from renderer.pipeline.session import KernelTime, Session

ORBIT_STEP = 0.5  # degrees a frame
ORBIT_REACH = 10.0  # degrees either way


@dataclass(frozen=True)
class BenchOptions:
    frames: int
    warmup: int
    orbit: bool
    image: Path | None
    static: bool = False  # the shaders of shaders_ref/ in place of our kernels


@dataclass(frozen=True)
class Frames:
    """What running the frames gave. The counts of kernels, hits and misses run from the start of the session."""

    to_first_frame_s: float
    series_ms: list[float]
    overhead_ms: list[float]  # of each frame whose kernels were timed
    kernels: int
    cache_hits: int
    cache_misses: int
    compiles_during_frames: int
    allocations_during_frames: int
    device_bytes: int | None
    host_peak_bytes: int | None


@dataclass(frozen=True)
class Diagnosis:
    """What the runs after the timed frames gave."""

    kernels: Sequence[KernelTime]
    rays: dict[str, int]


def orbit_angle(frame: int) -> float:
    """The camera's turn at a frame, in degrees: a triangle wave from 0 that starts towards the positive side."""
    steps = round(ORBIT_REACH / ORBIT_STEP)
    phase = (frame + steps) % (4 * steps)
    return ORBIT_STEP * (phase - steps if phase <= 2 * steps else 3 * steps - phase)


def run(options: FrameOptions, bench: BenchOptions) -> Record:
    """Opens the scene, runs the frames, writes the picture where one is wanted, and returns the record.

    Raises SceneError, ImageError, DeviceError, MemoryError.
    """
    with (
        Progress(quiet=options.quiet) as progress,
        open_session(options, progress, spp_per_frame=options.spp, static=bench.static) as opened,
    ):
        frames = measure(opened.session, bench, progress)

        # Only now: what the report imports would otherwise stand before the first frame.
        from renderer.app import report

        picture = report.picture(opened.session, bench.image)
        progress("timing kernels", 0.0)
        kernels = opened.session.kernel_times()
        progress("counting rays", 0.0)
        diagnosis = Diagnosis(kernels, opened.session.count_rays())
        return report.record_of(options, bench, opened, frames, diagnosis, picture)


def measure(session: Session | StaticSession, bench: BenchOptions, progress: Progress) -> Frames:
    """Runs the warm-up frames, then the measured ones."""
    to_first_frame_s: float | None = None
    for index in range(bench.warmup):
        _draw(session, index if bench.orbit else None)
        if to_first_frame_s is None:
            to_first_frame_s = seconds_since_start()
        progress("warm-up frames", (index + 1) / bench.warmup)
    gc.collect()
    gc.freeze()  # what lives now stays: the collector need not walk it between frames
    counters = session.counters
    compiles, allocations = counters.compiles, counters.allocations
    series_ms: list[float] = []
    overhead_ms: list[float] = []
    for index in range(bench.frames):
        turn = bench.warmup + index if bench.orbit else None
        started = time.perf_counter()
        _draw(session, turn)
        series_ms.append((time.perf_counter() - started) * 1e3)
        if to_first_frame_s is None:
            to_first_frame_s = seconds_since_start()
        if session.last_kernel_ms is not None:
            overhead_ms.append(series_ms[-1] - session.last_kernel_ms)
        progress("measured frames", (index + 1) / bench.frames)
    assert to_first_frame_s is not None, "at least one frame is measured"
    return Frames(
        to_first_frame_s=to_first_frame_s,
        series_ms=series_ms,
        overhead_ms=overhead_ms,
        kernels=counters.kernels,
        cache_hits=counters.cache_hits,
        cache_misses=counters.cache_misses,
        compiles_during_frames=counters.compiles - compiles,
        allocations_during_frames=counters.allocations - allocations,
        device_bytes=session.device.bytes_allocated,
        host_peak_bytes=peak_memory(),
    )


def _draw(session: Session | StaticSession, turn: int | None) -> None:
    if turn is not None:
        session.orbit(orbit_angle(turn))
    session.frame()
