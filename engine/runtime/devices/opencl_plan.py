"""A plan on an OpenCL device: kernels with their arguments set, and a table of dispatches that a run walks through.

Everything that does not change from frame to frame is done when the plan is made: each launch has a kernel object of its own, whose
arguments stay as they are. A run sends the block of parameters (if it changed), puts the dispatches into the device's queue, which
runs them in order, and waits once. Times come from the device's own clock, and are read when somebody asks.

Three things leave that path: a launch of unknown length is run in growing pieces (see `opencl_cut`), a long run is looked at
afterwards, and a launch for which the device lacks resources is compiled anew for a workgroup half as large.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.runtime.device import LaunchRequest
from engine.runtime.devices.opencl_choice import binding
from engine.runtime.devices.opencl_cut import LONGEST_S, Span, is_small, next_span, pace_of, spans
from engine.runtime.devices.opencl_memory import OpenCLBuffer

if TYPE_CHECKING:
    from engine.runtime.devices.opencl import OpenCLDevice, OpenCLProgram


@dataclass
class _Launch:
    """One launch: its kernel object, the memory in its slots, its workgroups at the present sizes, and its pace where it is known."""

    program: OpenCLProgram
    arrays: list[Any]
    kernel: Any = None
    groups: int = 0
    pace: float | None = None
    pieces: list[Span] = field(default_factory=list)


class OpenCLPlan:
    """Launches with every argument set. `parameters`: the block of bytes on the host, None where no kernel reads it."""

    def __init__(self, device: OpenCLDevice, launches: Sequence[LaunchRequest], parameters: np.ndarray[Any, Any] | None) -> None:
        self._device, self._cl, self._queue = device, binding(), device.room.queue
        self._parameters = parameters
        self._block: OpenCLBuffer | None = None
        if parameters is not None and any(request.program.code.layout.parameters for request in launches):  # type: ignore[attr-defined]
            self._block = device.room.allocate(parameters.nbytes)
        self._sent = b""
        self._dims: dict[str, int] = {}
        self._launches = [_Launch(request.program, list(request.arrays)) for request in launches]  # type: ignore[arg-type]
        for launch in self._launches:
            self._make_kernel(launch)
        self._shared: list[Any] = []
        self._find_shared()
        self._rows: list[tuple[Any, ...]] = []  # arguments of each dispatch
        self._marks: list[tuple[int, int]] = []  # of each: launch and workgroups
        self._is_cut = False
        self._events: list[Any] = []  # of the last run
        self._event_marks: list[tuple[int, int]] = []
        self._seconds: list[float] | None = [0.0] * len(self._launches)

    # ---- arguments ----

    def _make_kernel(self, launch: _Launch) -> None:
        code = launch.program.code
        launch.kernel = self._cl.Kernel(code.built, code.layout.name)
        for slot in range(len(launch.arrays)):
            self._set_buffer(launch, slot)
        if code.layout.parameters:
            assert self._block is not None
            launch.kernel.set_arg(code.layout.bindings, self._block.memory)
        self._set_words(launch)

    def _set_buffer(self, launch: _Launch, slot: int) -> None:
        kind, binding_, _ = launch.program.code.layout.slots[slot]
        if kind != "parameter":
            launch.kernel.set_arg(binding_, launch.arrays[slot].memory)

    def _set_words(self, launch: _Launch) -> None:
        """The numbers that a kernel gets by value: named sizes, and where its parameters begin in the block."""
        layout = launch.program.code.layout
        first = layout.bindings + layout.parameters
        for k, word in enumerate(layout.words):
            what, name = word.split(":")
            if what == "dim":
                value = self._dims.get(name, 0)
            else:
                assert self._parameters is not None
                value = (launch.arrays[int(name)].ctypes.data - self._parameters.ctypes.data) // 4
            launch.kernel.set_arg(first + k, np.int32(value))

    def resize(self, dims: dict[str, int]) -> None:
        self._dims = dict(dims)
        for launch in self._launches:
            self._set_words(launch)
            launch.groups = launch.program.code.layout.workgroups(dims)
        self._cut()

    def rebind(self, launch: int, slot: int, memory: OpenCLBuffer) -> None:
        held = self._launches[launch]
        held.arrays[slot] = memory
        self._set_buffer(held, slot)
        self._find_shared()

    def _find_shared(self) -> None:
        """The buffers of OpenGL's among the arguments."""
        arrays = [array for launch in self._launches for array in launch.arrays]
        self._shared = list({id(a): a.memory for a in arrays if isinstance(a, OpenCLBuffer) and a.shared}.values())

    # ---- dispatches ----

    def _cut(self) -> None:
        """Makes the table of dispatches, from what is known of each launch."""
        self._rows, self._marks = [], []
        for number, launch in enumerate(self._launches):
            launch.pieces = spans(launch.groups, launch.pace)
            self._rows += [self._row(launch, piece) for piece in launch.pieces]
            self._marks += [(number, count) for _, count in launch.pieces]
        self._is_cut = any(len(launch.pieces) > 1 for launch in self._launches)

    def _row(self, launch: _Launch, piece: Span) -> tuple[Any, ...]:
        """What a dispatch is told after the queue: kernel, work items, those of a workgroup, the first."""
        workgroup = launch.program.workgroup
        first, count = piece
        return (launch.kernel, (count * workgroup,), (workgroup,), (first * workgroup,))

    def _is_new(self, launch: _Launch) -> bool:
        return launch.pace is None and not is_small(launch.groups, self._device.compute_units)

    def run(self, dims: dict[str, int]) -> None:
        cl = self._cl
        sending = self._send()
        if self._shared:
            cl.enqueue_acquire_gl_objects(self._queue, self._shared)
        began = time.perf_counter()
        self._events, self._event_marks, self._seconds = [], self._marks, None
        if any(self._is_new(launch) for launch in self._launches):
            self._run_carefully(0)
        else:
            self._run_table()
        try:
            if self._shared:
                cl.enqueue_release_gl_objects(self._queue, self._shared).wait()
            elif self._events:
                self._events[-1].wait()
            elif sending is not None:
                sending.wait()
        except cl.Error as error:
            raise self._device.room.failure(error, f"a run of {self._names()} failed") from error
        if self._is_cut or time.perf_counter() - began > LONGEST_S:
            self._measure()

    def _send(self) -> Any:
        """Sends the parameters if they are not those of the last run. The host's copy must stay as it is until the run has ended."""
        if self._block is None or self._parameters is None:
            return None
        now = self._parameters.tobytes()
        if now == self._sent:
            return None
        self._sent = now
        return self._cl.enqueue_copy(self._queue, self._block.memory, self._parameters, is_blocking=False)

    def _run_table(self) -> None:
        queue, made, enqueue = self._queue, self._events, self._cl.enqueue_nd_range_kernel
        try:
            for kernel, size, workgroup, first in self._rows:
                made.append(enqueue(queue, kernel, size, workgroup, first))
        except self._cl.Error as error:
            number, _ = self._marks[len(made)]
            self._event_marks = self._marks[: len(made)]
            self._shrink(self._launches[number], error, begun=bool(made) and self._marks[len(made) - 1][0] == number)
            self._run_carefully(number)

    def _run_carefully(self, start: int) -> None:
        """Runs the launches from `start` on one by one: new ones in growing pieces, each with a smaller workgroup where it must be."""
        self._event_marks = list(self._event_marks[: len(self._events)])
        for number in range(start, len(self._launches)):
            launch, done = self._launches[number], len(self._events)
            while True:
                try:
                    self._run_new(number, launch) if self._is_new(launch) else self._run_pieces(number, launch)
                    break
                except self._cl.Error as error:
                    self._shrink(launch, error, begun=len(self._events) > done)
        self._cut()

    def _run_pieces(self, number: int, launch: _Launch) -> None:
        for piece in spans(launch.groups, launch.pace):
            self._dispatch(number, launch, piece)

    def _run_new(self, number: int, launch: _Launch) -> None:
        """A launch of which nothing is known."""
        units, worst = self._device.compute_units, 0.0
        piece = next_span(None, worst, launch.groups, units)
        while piece is not None:
            event = self._dispatch(number, launch, piece)
            event.wait()
            worst = max(worst, pace_of([(_duration(event), piece[1])]))
            piece = next_span(piece, worst, launch.groups, units)
        launch.pace = worst

    def _dispatch(self, number: int, launch: _Launch, piece: Span) -> Any:
        event = self._cl.enqueue_nd_range_kernel(self._queue, *self._row(launch, piece))
        self._events.append(event)
        self._event_marks.append((number, piece[1]))
        return event

    def _measure(self) -> None:
        """After a long run: the pace of each launch that took long or is cut, and a new table where that changes anything."""
        pieces: dict[int, list[tuple[float, int]]] = {}
        for event, (number, count) in zip(self._events, self._event_marks, strict=True):
            pieces.setdefault(number, []).append((_duration(event), count))
        for number, taken in pieces.items():
            if len(taken) > 1 or taken[0][0] > LONGEST_S:
                self._launches[number].pace = pace_of(taken)
        self._cut()

    def _shrink(self, launch: _Launch, error: Any, begun: bool) -> None:
        """Gives a launch that the device has no resources for a smaller workgroup. Raises DeviceError where that cannot help."""
        program, codes = launch.program, self._cl.status_code
        scarce = (
            codes.OUT_OF_RESOURCES, codes.INVALID_WORK_GROUP_SIZE, codes.INVALID_WORK_ITEM_SIZE, codes.MEM_OBJECT_ALLOCATION_FAILURE
        )  # fmt: skip
        if error.code not in scarce or begun or program.workgroup == 1:
            raise self._device.room.failure(error, f"{program.name} cannot be launched in workgroups of {program.workgroup}") from error
        self._device.shrink(program, error)
        self._make_kernel(launch)
        launch.groups, launch.pace = program.code.layout.workgroups(self._dims), None

    def _names(self) -> str:
        return ", ".join(dict.fromkeys(launch.program.name for launch in self._launches))

    @property
    def seconds(self) -> list[float]:
        if self._seconds is None:
            totals = [0.0] * len(self._launches)
            for event, (number, _) in zip(self._events, self._event_marks, strict=True):
                totals[number] += _duration(event)
            self._seconds = totals
        return self._seconds


def _duration(event: Any) -> float:
    """Seconds that a dispatch took on the device."""
    return float(event.profile.end - event.profile.start) * 1e-9
