"""One compiled signature, and how it is run again and again.

A `Replay` binds a plan to the memory of the arguments. A call compares what is bound with what came along (mostly the same
objects as before), writes numbers into the parameter block, and runs the plan: one native call. Nothing is allocated and nothing
is looked up by name, as long as sizes stay.

The plan writes its results into the same buffers each time. That asks for care where memory meets itself:

- a result of the function is passed back to it: its buffer would be read and overwritten at once. Such an output has two
  buffers, which take turns;
- an argument that the function assigns is passed a second time, or captured, or a result of the function itself: refused;
- an argument whose buffer was reallocated (a result of another function, after that one was resized) is bound again.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.frontend.storage import Memory, Storage, aligned_empty, allocate
from engine.frontend.tensor import Dim, Tensor, TensorSpec
from engine.frontend.trace import user_line
from engine.graph.dtypes import DType
from engine.graph.uop import Op, UOp, size_value
from engine.runtime import events
from engine.runtime.execute import memory, realize
from engine.runtime.plan import Plan
from engine.signature import Leaf, Matcher

_FORMATS = {
    "bool": "?7x", "int8": "b7x", "uint8": "B7x", "int16": "h6x", "uint16": "H6x", "int32": "i4x", "uint32": "I4x", "int64": "q",
    "uint64": "Q", "float16": "e6x", "float32": "f4x", "float64": "d",
}  # fmt: skip
Array = np.ndarray[Any, Any]
_SLOT = 8  # bytes of a number in the parameter block


@dataclass(frozen=True)
class Result:
    """Where a result comes from: an output of the plan, a Tensor among the arguments, or a Tensor from outside."""

    output: int | None = None
    argument: int | None = None
    captured: Tensor | None = None


@dataclass(frozen=True)
class Source:
    """Where the value of a named size is read: an axis of an argument, or of memory that the function captured."""

    name: str
    axis: int
    argument: int
    storage: Storage | None
    where: str


class Replay:
    """A plan with its arguments. `match` takes a call's arguments apart; `leaves` describe them; `nodes` are their placeholders."""

    def __init__(
        self,
        name: str,
        plan: Plan,
        match: Matcher,
        leaves: Sequence[Leaf],
        nodes: Sequence[UOp],
        outputs: Sequence[UOp],
        results: Sequence[Result],
        build: Callable[[Sequence[Any]], Any],
        assigned: Sequence[UOp],
        captured: Sequence[UOp],
    ) -> None:
        self.name, self.plan, self.match, self.build = name, plan, match, build
        self.lock = threading.RLock()
        pairs = list(zip(leaves, nodes, strict=True))
        self.tensors = [(leaf, node) for leaf, node in pairs if leaf.kind == "tensor"]
        self.numbers = [(leaf, node) for leaf, node in pairs if leaf.kind == "number"]
        self.outputs, self.results = list(outputs), list(results)
        places = {node: k for k, (_, node) in enumerate(self.tensors)}
        self.assigned = [places[node] for node in assigned]
        self.shapes = [(leaf.dtype, leaf.shape) for leaf, _ in self.tensors]
        self.captured = [node.arg.storage for node in captured]
        self.sources = self._sources(captured)
        self.formulas = [  # sizes that are made of named ones: (argument, axis, size)
            (k, axis, size)
            for k, (leaf, _) in enumerate(self.tensors)
            for axis, size in enumerate(leaf.shape)
            if isinstance(size, UOp) and size.op != Op.DIM
        ]
        self.pack = struct.Struct("=" + "".join(_FORMATS[leaf.dtype.name] for leaf, _ in self.numbers))
        self.block, self.arrays = _parameter_block(len(self.numbers), [(leaf, node) for leaf, node in pairs if leaf.kind == "array"])
        self.view = memoryview(self.block)  # type: ignore[arg-type]
        count = len(self.tensors)
        self.uops: list[UOp | None] = [None] * count
        self.storages: list[Storage | None] = [None] * count
        self.memories: list[Memory | None] = [None] * count  # what the plan is bound to
        self.own: list[Storage] = []  # of the outputs
        self.spare: dict[int, Memory] = {}  # second buffers of outputs that are fed back
        self.dims: dict[str, int] = {}

    def _sources(self, captured: Sequence[UOp]) -> list[Source]:
        found = []
        for k, (leaf, _) in enumerate(self.tensors):
            for axis, size in enumerate(leaf.shape):
                if isinstance(size, UOp) and size.op == Op.DIM:
                    found.append(Source(size.arg, axis, k, None, leaf.path))
        for node in captured:
            for axis, size in enumerate(node.shape):
                if isinstance(size, UOp) and size.op == Op.DIM:
                    found.append(Source(size.arg, axis, -1, node.arg.storage, "a captured Tensor"))
        return found

    @property
    def bytes_allocated(self) -> int:
        """Bytes of all buffers that this signature owns."""
        spare: int = sum(m.nbytes for m in self.spare.values())
        return self.plan.bytes_allocated + spare + self.block.nbytes

    # ---- calls ----

    def accepts(self, tensors: Sequence[Tensor]) -> bool:
        """True where these Tensors have the dtypes and shapes of the signature."""
        for tensor, known, (dtype, shape) in zip(tensors, self.uops, self.shapes):
            uop = tensor.uop
            if uop is not known and (uop.dtype is not dtype or uop.shape != shape):
                return False
        return True

    def run(self, tensors: Sequence[Tensor], numbers: Sequence[Any], arrays: Sequence[Any]) -> Any:
        """Runs the plan on arguments of this signature; returns the function's results."""
        with self.lock:
            self._bind(tensors)
            self._write(numbers, arrays)
            for storage in self.own:
                storage.written(self.plan.device)
            for k in self.assigned:
                self.storages[k].written(self.plan.device)  # type: ignore[union-attr]
            self.plan.run()
            for k in self.assigned:
                self._assigned(tensors[k], k)
            made: list[Tensor] = []
            for node, storage in zip(self.outputs, self.own):
                result = Tensor.__new__(Tensor)
                result.generation = storage.generation
                result.uop = memory(storage, node, storage.generation)
                made.append(result)
            chosen = [
                made[r.output] if r.output is not None else tensors[r.argument] if r.argument is not None else r.captured
                for r in self.results
            ]
            return self.build(chosen)

    def _write(self, numbers: Sequence[Any], arrays: Sequence[Any]) -> None:
        """Numbers and arrays to where the kernels read them."""
        if numbers:
            try:
                self.pack.pack_into(self.view, 0, *numbers)
            except (struct.error, OverflowError):
                fitting = [_fitting(value, leaf) for value, (leaf, _) in zip(numbers, self.numbers, strict=True)]
                self.pack.pack_into(self.view, 0, *fitting)
        for (_, place), array in zip(self.arrays, arrays):
            place[...] = array

    def _assigned(self, tensor: Tensor, k: int) -> None:
        """The contents of an argument have changed: other Tensors of an old result are stale now, this one is not."""
        storage = self.storages[k]
        assert storage is not None
        storage.generation += 1
        if tensor.generation is not None:
            tensor.generation = storage.generation
            tensor.uop = memory(storage, tensor.uop, storage.generation)

    # ---- memory ----

    def _bind(self, tensors: Sequence[Tensor]) -> None:
        """Makes the plan read these Tensors; from here on, results of earlier calls are stale.

        Raises StaleTensorError, and what `_check_aliases` and `_read_sizes` raise; everything is as it was then.
        """
        fresh: list[int] = []
        for k, tensor in enumerate(tensors):
            storage = self.storages[k]
            if storage is None or tensor.uop is not self.uops[k] or storage.newest is not self.memories[k]:
                fresh.append(k)
            elif tensor.generation is not None and tensor.generation != storage.generation:
                storage.check(tensor)
        if not fresh and self.plan.executable is not None:
            for storage in self.own:
                storage.generation += 1
            return
        storages = list(self.storages)
        for k in fresh:
            tensor = tensors[k]
            realize([tensor])
            held: Storage = tensor.uop.arg.storage
            held.check(tensor)
            storages[k] = held
        self._check_aliases(storages)
        dims = self._read_sizes([s.shape if s is not None else () for s in storages])
        memories = [self._brought(s) if s is not None else None for s in storages]  # before anything is reallocated
        for own in self.own:
            own.generation += 1
        if self.plan.executable is None or dims != self.dims:
            self._prepare(memories, dims)
        else:
            for k in fresh:
                memory = memories[k]
                if memory is not None and memory is not self.memories[k]:
                    self.plan.rebind(self.tensors[k][1], memory)
        for k in fresh:
            self.uops[k], self.storages[k], self.memories[k] = tensors[k].uop, storages[k], memories[k]
        self._take_turns()

    def _brought(self, storage: Storage) -> Memory:
        """The memory of an argument on the plan's device; what has to be allocated for it is told."""
        if not storage.is_on(self.plan.device):
            events.record("allocate", bytes=storage.nbytes)
        return storage.on(self.plan.device)

    def _check_aliases(self, storages: Sequence[Storage | None]) -> None:
        for k in self.assigned:
            path = self.tensors[k][0].path
            if any(storages[k] is own for own in self.own):
                raise ValueError(
                    f"{user_line()}: {path} is a result of {self.name}(), which assigns to it: {self.name}() uses the memory of its "
                    "results again. Pass a copy() of it once, and keep that"
                )
            if any(storages[k] is held for held in self.captured):
                raise ValueError(
                    f"{user_line()}: {path} is a Tensor that {self.name}() captures too, and {self.name}() assigns to {path}; pass a copy()"
                )
            for other, (leaf, _) in enumerate(self.tensors):
                if other != k and storages[other] is storages[k]:
                    raise ValueError(
                        f"{user_line()}: {leaf.path} and {path} are the same memory, and {self.name}() assigns to {path}; pass a copy() "
                        "as one of them"
                    )

    def _read_sizes(self, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
        """The values of the named sizes. Raises ValueError, naming both arguments, where two differ."""
        dims: dict[str, int] = {}
        where: dict[str, str] = {}
        for source in self.sources:
            shape = shapes[source.argument] if source.storage is None else source.storage.shape
            size = shape[source.axis]
            if dims.setdefault(source.name, size) != size:
                raise ValueError(
                    f"{user_line()}: {self.name}(): the size {source.name!r} is {dims[source.name]} in {where[source.name]} and {size} "
                    f"in {source.where}; sizes of one name are equal in all arguments"
                )
            where.setdefault(source.name, source.where)
        for k, axis, formula in self.formulas:
            missing = [n.arg for n in formula.toposort() if n.op == Op.DIM and n.arg not in dims]
            if missing or size_value(formula, dims) != shapes[k][axis]:
                path = self.tensors[k][0].path
                told = f"no argument tells the size {missing[0]!r}" if missing else f"it should be {size_value(formula, dims)}"
                raise ValueError(f"{user_line()}: {self.name}(): axis {axis} of {path} is {shapes[k][axis]}, but {told}")
        return dims

    def _prepare(self, memories: Sequence[Memory | None], dims: dict[str, int]) -> None:
        """Allocates what depends on the sizes and fixes every address."""
        bound: dict[UOp, Memory] = {}
        for (leaf, node), held in zip(self.tensors, memories, strict=True):
            bound[node] = held if held is not None else allocate(self.plan.device, 1, leaf.dtype.numpy)
        for place, (leaf, node) in enumerate(self.numbers):
            dtype: DType = leaf.dtype
            bound[node] = self.block[place * _SLOT : place * _SLOT + dtype.itemsize].view(dtype.numpy)
        for node, array in self.arrays:
            bound[node] = array.reshape(-1)
        self.plan.executable = None  # until everything is there
        self.plan.prepare(bound, dims, self.block)
        self.dims = dims
        self.own = [self.plan.storages[node] for node in self.outputs]
        for storage in self.own:
            storage.producer = f"{self.name}()"
        self.spare = {k: m for k, m in self.spare.items() if m.nbytes == self.own[k].newest.nbytes}

    def _take_turns(self) -> None:
        """An output whose buffer is bound as an argument is written to its other buffer."""
        for k, (storage, node) in enumerate(zip(self.own, self.outputs, strict=True)):
            if any(memory is storage.newest for memory in self.memories):
                other = self.spare.pop(k, None)
                if other is None:
                    other = allocate(self.plan.device, storage.count, storage.dtype)
                    events.record("allocate", bytes=other.nbytes)
                self.spare[k] = storage.newest
                storage.replace(self.plan.device, other, storage.shape)
                self.plan.rebind(node, other)

    def prepare(self, values: Sequence[Any]) -> None:
        """Allocates for arguments of which some exist only as specs, unless it has happened; their memory is bound at the first call."""
        with self.lock:
            shapes = []
            memories: list[Memory | None] = []
            for tensor in values:
                if isinstance(tensor, TensorSpec):
                    shapes.append(tuple(s.value if isinstance(s, Dim) else int(s) for s in tensor.shape))
                    memories.append(None)
                else:
                    realize([tensor])
                    shapes.append(tensor.uop.arg.storage.shape)
                    memories.append(self._brought(tensor.uop.arg.storage))
            dims = self._read_sizes(shapes)
            if self.plan.executable is None:
                self._prepare(memories, dims)


def _parameter_block(numbers: int, arrays: Sequence[tuple[Leaf, UOp]]) -> tuple[Array, list[tuple[UOp, Array]]]:
    """One block of bytes for all parameters, which a device takes as a whole: the numbers, then the arrays, and views of these."""
    sizes = [int(np.prod(leaf.shape, dtype=np.int64)) * leaf.dtype.itemsize for leaf, _ in arrays]
    starts, end = [], max(1, numbers) * _SLOT
    for size in sizes:
        starts.append(-(-end // 64) * 64)
        end = starts[-1] + size
    block = aligned_empty(-(-end // 64) * 64, np.dtype(np.uint8))
    block[:] = 0
    return block, [
        (node, block[start : start + size].view(leaf.dtype.numpy).reshape(leaf.shape))
        for (leaf, node), start, size in zip(arrays, starts, sizes, strict=True)
    ]


def _fitting(value: Any, leaf: Leaf) -> Any:
    """A number as its type holds it: floats beyond the range become infinite. Raises OverflowError, with the argument, for integers."""
    if leaf.dtype.is_float:
        with np.errstate(over="ignore"):
            return float(leaf.dtype.numpy.type(value))
    if not leaf.dtype.min <= value <= leaf.dtype.max:
        raise OverflowError(
            f"{user_line()}: {leaf.path} is {value}, which does not fit {leaf.dtype}; pass np.int64({value}), or a smaller number "
            "(np.uint32 for a seed)"
        )
    return value
