"""What happened in the viewer, as a file: `rayfuse view --record FILE`.

A window cannot be looked at by a script, so the loop tells a `Recorder` of each turn, frame and event, and at the end the recorder
writes one JSON object (the classes below are its schema). The figure that matters most is the gap between two pollings of events:
whatever is compiled, loaded or drawn, the longest must stay short. It is measured here, in two parts: while the first picture is
prepared (`warmup`), and afterwards. Who runs no --record uses a recorder all the same and never writes it: it costs nothing.

A viewer may run for days, so memory is bounded. Mean, deviation, least and most of the frame times are exact, kept as running sums
(Welford, "Note on a method for calculating corrected sums of squares and products", 1962). Median, percentiles and `series` come from
a uniform sample of up to 8192 frames in the order of time (Vitter, "Random sampling with a reservoir", 1985, algorithm R): up to that
many frames they are exact too. Of events and compiles the first and the last 5000 are kept; how many are missing between them is an
event of the kind "dropped". Times are seconds since the recorder was made, or milliseconds where the name ends in `_ms`.
"""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec

from renderer.app import record
from renderer.scene.files import write_whole

if TYPE_CHECKING:
    from renderer.pipeline.session import DeviceFacts

SAMPLE = 8192  # frame times kept
KEPT = 5000  # events kept from the beginning, and as many from the end

T = TypeVar("T")


class Present(msgspec.Struct, frozen=True):
    """How the picture reaches the window, and why no better way was taken."""

    path: str
    reason: str


class Step(msgspec.Struct, frozen=True):
    label: str
    seconds: float


class Warmup(msgspec.Struct, frozen=True):
    """From the start of the recorder to the first picture, or to the end where there was none."""

    steps: list[Step]
    seconds: float
    longest_event_gap_ms: float | None


class PresentTimes(msgspec.Struct, frozen=True):
    """Milliseconds in which the window draws a picture that is ready."""

    median: float | None


class Compile(msgspec.Struct, frozen=True):
    """`why`: what was changed; `background`: whether the old picture went on meanwhile."""

    at_s: float
    why: str
    background: bool
    seconds: float


class Event(msgspec.Struct, frozen=True):
    """Something that the user or a file did: a key, a setting, a size, a reload. `value` is plain JSON."""

    at_s: float
    kind: str
    value: Any


class ViewerRecord(msgspec.Struct, frozen=True):
    """`device`, `present` and `frame_ms` are null where the viewer ended before there were any."""

    schema: Literal[1]
    device: record.Device | None
    present: Present | None
    warmup: Warmup
    frames: int
    frame_ms: record.FrameTimes | None
    present_ms: PresentTimes
    compiles: list[Compile]
    longest_event_gap_ms: float | None
    events: list[Event]
    samples_accumulated: int


class Distribution:
    """Values of which only some are kept: exact sums over all, and a uniform sample in the order of time."""

    def __init__(self, size: int = SAMPLE) -> None:
        self.count = 0
        self._size = size
        self._sample: list[tuple[int, float]] = []  # (number, value), in no order
        self._random = random.Random(0)
        self._mean, self._squares = 0.0, 0.0
        self._least, self._most = math.inf, -math.inf

    def add(self, value: float) -> None:
        if len(self._sample) < self._size:
            self._sample.append((self.count, value))
        else:
            place = self._random.randrange(self.count + 1)
            if place < self._size:
                self._sample[place] = (self.count, value)
        self.count += 1
        away = value - self._mean
        self._mean += away / self.count
        self._squares += away * (value - self._mean)
        self._least, self._most = min(self._least, value), max(self._most, value)

    @property
    def series(self) -> list[float]:
        """The sample, in the order of time."""
        return [value for _, value in sorted(self._sample)]

    def times(self) -> record.FrameTimes | None:
        """The statistics of the benchmark record; None without a value."""
        if not self.count:
            return None
        from renderer.app.report import frame_times

        return msgspec.structs.replace(
            frame_times(self.series),
            mean=self._mean,
            stddev=math.sqrt(self._squares / self.count),
            min=self._least,
            max=self._most,
        )


class Ends(Generic[T]):
    """A list of which the first and the last `kept` are remembered."""

    def __init__(self, kept: int = KEPT) -> None:
        self._first: list[T] = []
        self._last: deque[T] = deque(maxlen=kept)
        self._kept = kept
        self.dropped = 0

    def append(self, value: T) -> None:
        if len(self._first) < self._kept:
            self._first.append(value)
        else:
            self.dropped += len(self._last) == self._kept
            self._last.append(value)

    def items(self) -> tuple[list[T], list[T]]:
        """The first, the last."""
        return list(self._first), list(self._last)


class Recorder:
    """Told by the loop what happens; all calls come from its thread, but for `polled`, which the thread that polls calls.

    `clock`: seconds, from any beginning, never backwards.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began = clock()
        self._polled: float | None = None
        self._warmup_seconds: float | None = None
        self._warmup_gap: float | None = None
        self._gap: float | None = None
        self._steps: list[Step] = []
        self._frames, self._presents = Distribution(), Distribution()
        self._compiles: Ends[Compile] = Ends()
        self._events: Ends[Event] = Ends()
        self._device: record.Device | None = None
        self._present: Present | None = None

    @property
    def now(self) -> float:
        """Seconds since the recorder was made."""
        return self._clock() - self._began

    def polled(self) -> None:
        """Events have just been polled. A gap that began in the warm-up belongs to it."""
        now, before = self.now, self._polled
        self._polled = now
        if before is None:
            return
        gap = (now - before) * 1e3
        if self._warmup_seconds is None or before < self._warmup_seconds:
            self._warmup_gap = max(gap, self._warmup_gap or 0.0)
        else:
            self._gap = max(gap, self._gap or 0.0)

    def warmup_step(self, label: str, seconds: float) -> None:
        """A step on the way to the first picture is done."""
        self._steps.append(Step(label, seconds))

    def warmed(self) -> None:
        """The first picture is in the window."""
        if self._warmup_seconds is None:
            self._warmup_seconds = self.now

    def frame(self, milliseconds: float) -> None:
        """A frame was rendered in this time, to device completion."""
        self._frames.add(milliseconds)

    def presented(self, milliseconds: float) -> None:
        """A picture that was ready took this long to get into the window."""
        self._presents.add(milliseconds)

    def compiled(self, why: str, seconds: float, *, background: bool) -> None:
        """A session for a new structure is ready."""
        self._compiles.append(Compile(self.now, why, background, seconds))

    def event(self, kind: str, value: Any) -> None:
        """Something happened; `value` is what JSON can hold."""
        self._events.append(Event(self.now, kind, value))

    def device(self, facts: DeviceFacts) -> None:
        """The device that frames are rendered on from now on."""
        from renderer.app.report import device_of

        self._device = device_of(facts)

    def presenting(self, path: str, reason: str) -> None:
        """How the picture reaches the window from now on."""
        self._present = Present(path, reason)

    def result(self, samples: int) -> ViewerRecord:
        """What the file holds. `samples`: a pixel, in the picture shown last."""
        first, last = self._events.items()
        between = [Event(last[0].at_s, "dropped", self._events.dropped)] if self._events.dropped else []
        return ViewerRecord(
            schema=1,
            device=self._device,
            present=self._present,
            warmup=Warmup(self._steps, self.now if self._warmup_seconds is None else self._warmup_seconds, self._warmup_gap),
            frames=self._frames.count,
            frame_ms=self._frames.times(),
            present_ms=PresentTimes(_median(self._presents.series)),
            compiles=[compiled for part in self._compiles.items() for compiled in part],
            longest_event_gap_ms=self._gap,
            events=[*first, *between, *last],
            samples_accumulated=samples,
        )

    def write(self, path: Path, samples: int) -> None:
        """Writes the file, whole or not at all.

        Raises OSError where that cannot be done (`opening.check_output` refuses an unwritable place before the window opens).
        """
        write_whole(path, msgspec.json.format(msgspec.json.encode(self.result(samples)), indent=2) + b"\n")


def _median(values: list[float]) -> float | None:
    if not values:
        return None
    import numpy as np

    return float(np.median(values))
