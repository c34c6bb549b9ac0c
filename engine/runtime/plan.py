"""A compiled function as data: launches, buffers, parameters.

`make_plan` turns outputs (buffer leaf, graph node) into kernels, compiles them, and decides where every buffer lives. A `Plan`
then only needs the memory of its arguments and the values of its parameters: `prepare` fixes them, `run` runs. What a plan owns is
allocated when the named sizes are known, and again only when they change.

A plan that comes from the disk (`engine.stored`) has the same launches, and no graphs: nothing of the compiler is imported for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.frontend.storage import Memory, Storage, allocate
from engine.graph.uop import BufferArg, Shape, UOp, product, size_value
from engine.runtime import events
from engine.runtime.device import Device, Executable, LaunchRequest, Program

if TYPE_CHECKING:
    from engine.compiler.kernel import Kernel
    from engine.compiler.schedule import ExecItem

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Launch:
    """One launch of a plan: what is known of its kernel, the buffer leaf in each of its slots, and its machine code."""

    name: str
    lanes: Shape
    reasons: tuple[str, ...]
    leaves: tuple[UOp, ...]
    program: Program

    @property
    def workgroup(self) -> int:
        """Lanes of a workgroup, as it is launched: a launch that failed for resources has fewer than it was compiled for."""
        return self.program.workgroup


@dataclass
class Plan:
    """Launches of one function in order. `uses`: launch and slot of each buffer leaf. `items`: their graphs, where they were traced."""

    device: Device
    launches: list[Launch]
    temporaries: list[UOp]
    outputs: list[UOp]
    seconds: dict[str, float]
    items: list[ExecItem] = field(default_factory=list)
    storages: dict[UOp, Storage] = field(default_factory=dict)  # of the outputs
    scratch: dict[UOp, Memory] = field(default_factory=dict)  # memory of the temporaries, some of it shared
    scratch_bytes: int = 0
    bound: dict[UOp, Memory] = field(default_factory=dict)
    executable: Executable | None = None
    dims: dict[str, int] | None = None
    uses: dict[UOp, list[tuple[int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, launch in enumerate(self.launches):
            for slot, leaf in enumerate(launch.leaves):
                self.uses.setdefault(leaf, []).append((number, slot))

    def prepare(self, bound: dict[UOp, Memory], dims: dict[str, int], parameters: np.ndarray[Any, Any] | None = None) -> None:
        """Allocates what depends on the sizes and fixes every address.

        bound: memory of arguments and parameters; parameters: the block of bytes that the latter are views of. Raises MemoryError.
        """
        for leaf in self.outputs:
            shape = tuple(size_value(s, dims) for s in leaf.shape)
            known = self.storages.get(leaf)
            if known is not None and known.shape == shape:
                continue
            if known is None:
                known = self.storages[leaf] = Storage.empty(self.device, shape, leaf.dtype.numpy)
            else:
                count = int(np.prod(shape, dtype=np.int64))
                known.replace(self.device, allocate(self.device, count, leaf.dtype.numpy), shape)
            events.record("allocate", bytes=known.nbytes)
        if dims != self.dims:
            self._place_temporaries(dims)
        self.bound = dict(bound)
        requests = [LaunchRequest(launch.program, [self._memory(leaf) for leaf in launch.leaves]) for launch in self.launches]
        self.executable = self.device.executable(requests, parameters)
        self.executable.resize(dims)
        self.dims = dict(dims)

    def _place_temporaries(self, dims: dict[str, int]) -> None:
        """Memory for the temporaries: those that are not alive at the same launches share it."""
        spans = {leaf: [launch for launch, _ in self.uses[leaf]] for leaf in self.temporaries}
        ends: list[int] = []  # of each piece of memory: the last launch that uses it so far
        sizes: list[int] = []
        piece: dict[UOp, int] = {}
        for leaf in sorted(self.temporaries, key=lambda t: min(spans[t])):
            size = element_count(leaf, dims) * leaf.dtype.itemsize
            free = [k for k, end in enumerate(ends) if end < min(spans[leaf])]
            if free:
                at = min(free, key=lambda k: (max(0, size - sizes[k]), sizes[k]))  # the one that grows least, then the smallest
            else:
                at = len(ends)
                ends.append(0)
                sizes.append(0)
            ends[at], sizes[at], piece[leaf] = max(spans[leaf]), max(sizes[at], size), at
        self.scratch_bytes = sum(sizes)
        memory = [allocate(self.device, size, np.dtype(np.uint8)) for size in sizes]
        for leaf, at in piece.items():
            held = memory[at]
            if self.device.host_memory:
                held = held[: element_count(leaf, dims) * leaf.dtype.itemsize].view(leaf.dtype.numpy)
            self.scratch[leaf] = held
        if memory:
            events.record("allocate", bytes=self.scratch_bytes)

    def _memory(self, leaf: UOp) -> Memory:
        if leaf in self.bound:
            return self.bound[leaf]
        if leaf in self.scratch:
            return self.scratch[leaf]
        if leaf in self.storages:
            return self.storages[leaf].newest
        arg = leaf.arg
        assert isinstance(arg, BufferArg) and arg.storage is not None, f"no memory for {leaf!r}"
        storage: Storage = arg.storage
        return storage.on(self.device)

    def run(self) -> None:
        """Runs all launches, to completion. `DEBUG=2` tells the time of each."""
        assert self.executable is not None and self.dims is not None
        self.executable.run(self.dims)
        if events.debug_level() >= 2:
            for launch, seconds in zip(self.launches, self.executable.seconds, strict=True):
                events.show(2, f"{launch.name}: {seconds * 1e3:.3f} ms, workgroups of {launch.workgroup}")

    @property
    def kernel_seconds(self) -> list[float]:
        """Seconds that each kernel of the last run took; empty before the first."""
        return self.executable.seconds if self.executable is not None else []

    def rebind(self, leaf: UOp, memory: Memory) -> None:
        """Other memory for an argument."""
        assert self.executable is not None
        self.bound[leaf] = memory
        for launch, slot in self.uses.get(leaf, ()):
            self.executable.rebind(launch, slot, memory)

    @property
    def bytes_allocated(self) -> int:
        """Bytes of the buffers that the plan owns."""
        return sum(s.nbytes for s in self.storages.values()) + self.scratch_bytes

    @property
    def kernels(self) -> list[Kernel]:
        """The lowered kernels of a plan that was traced here; none where it came from the disk."""
        return [item.kernel for item in self.items]


def make_plan(
    outputs: list[tuple[UOp, UOp]],
    device: Device,
    name: str,
    workgroup: int | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Schedules and compiles. `outputs`: (buffer leaf, node); leaves of kind "output" are allocated by the plan."""
    # here and not above: a plan from the disk needs nothing of the compiler
    from engine.compiler.print import graph_text, text
    from engine.compiler.schedule import schedule
    from engine.compiler.verify import verify_kernel
    from engine.graph.verify import verify_graph

    started = time.perf_counter()
    level, checking = events.debug_level(), events.checking()
    if level >= 5:
        events.show(5, f"graph of {name} as traced\n{graph_text([node for _, node in outputs])}")
    if checking:
        verify_graph([node for _, node in outputs], "trace")
    made = schedule(outputs, device.target, name, workgroup)
    for item in made.items:
        if level >= 3:
            events.show(3, _schedule_text(item))
        if level >= 5:
            events.show(5, f"graph of {item.kernel.name} as scheduled\n{graph_text(item.ast.src)}")
            events.show(5, f"graph of {item.kernel.name} as lowered\n{text(item.kernel)}")
        if checking:
            verify_graph([store.src[1] for store in item.ast.src], "schedule")
            verify_kernel(item.kernel, "lower")
    scheduled = time.perf_counter()
    launches: list[Launch] = []
    for k, item in enumerate(made.items):
        kernel = item.kernel
        if progress is not None:
            progress(f"compiling {kernel.name}", k / max(1, len(made.items)))
        leaves = tuple(buffer.leaf for buffer in kernel.buffers)
        launches.append(Launch(kernel.name, kernel.lanes, tuple(item.reasons), leaves, device.compile(kernel)))
    seconds = {"schedule": scheduled - started, "compile": time.perf_counter() - scheduled}
    own = [b for b, _ in outputs if b.arg.kind == "output"]
    return Plan(device, launches, made.temporaries, own, seconds, made.items)


def _schedule_text(item: ExecItem) -> str:
    """One kernel of a schedule, and why it is one."""
    from engine.compiler.print import size_text

    kernel = item.kernel
    lanes = " x ".join(str(size_text(s)) for s in kernel.lanes) or "1"
    reason = "; ".join(item.reasons) or "fused: nothing forbids it"
    return f"schedule {kernel.name}: {lanes} lanes, {len(item.ast.src)} stores, {len(item.bufs)} buffers; {reason}"


def element_count(leaf: UOp, dims: dict[str, int]) -> int:
    """Elements of a buffer, given the values of the named sizes."""
    return size_value(product(leaf.shape), dims)
