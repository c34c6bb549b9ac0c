"""The oracle: a lowered kernel, interpreted with NumPy, every index checked.

`run` takes the same tree of blocks that emitters turn into code and computes it a chunk of lanes at a time, one
NumPy call an item. Its job is to be right and to notice what hardware does not: an index out of bounds, a read of a
private element that was never set, a value used outside the block that computed it, an operation that makes a NaN.
Errors name the kernel, the operation, the lane and the index.

Control flow is in `reference_lanes`: a block runs in a frame that holds its live lanes only. What remains here is
one method a control structure and one an operation; elementwise operations are in `numpy_ops`.

The group width is a setting, so that tests can show that results do not depend on it. Votes see the live lanes of a
group; in a serial region each lane is a group of its own. Lanes of an ordered kernel run in row order with groups of
one lane: all at once where that cannot be told from one after another (each buffer written by one store, outside loops,
and read by no load).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from engine.compiler.kernel import Block, BranchItem, Item, Kernel, LoopItem, SerialItem, item_inputs
from engine.frontend.printing import line as printed
from engine.frontend.trace import line_of
from engine.graph import numpy_ops
from engine.graph.dtypes import DType
from engine.graph.uop import ELEMENTWISE, Op, UOp, size_value
from engine.runtime.devices.reference_lanes import GROUP, Array, Frame, PrivateArray, Walk, merge, same_storage, select

LANES_A_CHUNK = 16384

_SCATTER = {"add": np.add, "min": np.minimum, "max": np.maximum}
_VOTES = {"any": np.logical_or, "all": np.logical_and, "min": np.minimum, "max": np.maximum}
_ACROSS = {
    "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or
}  # fmt: skip


def described(node: UOp) -> str:
    """An operation, as errors name it: with the user's line where it is known."""
    line = line_of(node)
    return f"{node.op} at {line}" if line else repr(node)


class CheckError(RuntimeError):
    """A kernel did what no kernel may do. `lane`: coordinates of the first offending lane, None in the prelude."""

    def __init__(self, kernel: str, node: UOp, what: str, lane: tuple[int, ...] | None, text: str) -> None:
        place = "in the prelude" if lane is None else f"in lane {lane}"
        super().__init__(f"kernel {kernel}, {place}: {text}: {what}")
        self.kernel, self.node, self.lane = kernel, node, lane


def run(
    kernel: Kernel,
    buffers: Sequence[Array],
    dims: Mapping[str, int] | None = None,
    *,
    group_width: int = 1,
    check: bool = True,
    nan_check: bool = False,
    describe: Callable[[UOp], str] = repr,
) -> None:
    """Run a kernel; what it writes is in `buffers` afterwards.

    `buffers`: one flat array of exact type and size for each of `kernel.buffers`, in their order, parameters included.
    `dims`: the values of the named sizes. `group_width`: lanes of a group, a power of two. `check`: indices, and reads
    of undefined elements. `nan_check`: operations that make a NaN of operands that are none. `describe`: how an error
    names a node (the caller may add the user's line). Raises CheckError, and ValueError for buffers or widths that do
    not fit.
    """
    with np.errstate(all="ignore"):
        _Run(kernel, buffers, dict(dims or {}), group_width, check, nan_check, describe).run()


class _Run:
    """One run of one kernel."""

    def __init__(
        self,
        kernel: Kernel,
        buffers: Sequence[Array],
        dims: dict[str, int],
        group_width: int,
        check: bool,
        nan_check: bool,
        describe: Callable[[UOp], str],
    ) -> None:
        if group_width < 1 or group_width & (group_width - 1):
            raise ValueError(f"group_width is {group_width}; it must be a power of two")
        self.kernel, self.dims, self.width = kernel, dims, group_width
        self.check, self.nan_check, self.describe = check, nan_check, describe
        self.sizes = [size_value(size, dims) for size in kernel.lanes]
        self.memory = self._bind(buffers)
        self.handlers: dict[str, Callable[[UOp, Frame], Any]] = {
            **dict.fromkeys(ELEMENTWISE, self._elementwise),
            Op.LANE: lambda node, frame: frame.get((Op.LANE, node.arg[0])).astype(node.dtype.numpy),
            Op.IOTA: lambda node, frame: _spread(
                np.arange(node.dtype.count, dtype=np.int32)[None, :], node.dtype.count
            ),
            Op.SPLIT: lambda node, frame: _vector(frame.get(node.src[0]))[:, node.arg],
            Op.PROJ: lambda node, frame: frame.get((Op.PROJ, node.src[0]) if node.arg else node.src[0]),
            Op.ARRAY: lambda node, frame: PrivateArray.new(node.dtype, frame.lanes),
            Op.ARRAY_GET: self._array_get,
            Op.ARRAY_SET: self._array_set,
            Op.APPEND: self._append,
            Op.GATHER: self._table,
            Op.LOAD: self._load,
            Op.STORE: self._store,
            Op.VOTE: self._vote,
            Op.ACROSS: self._across,
            Op.PRINT: self._print,
        }

    def _bind(self, buffers: Sequence[Array]) -> dict[UOp, Array]:
        """The memory of each BUFFER leaf."""
        name = self.kernel.name
        if len(buffers) != len(self.kernel.buffers):
            raise ValueError(f"kernel {name} has {len(self.kernel.buffers)} buffers, not {len(buffers)}")
        for k, (declared, given) in enumerate(zip(self.kernel.buffers, buffers)):
            size = math.prod(size_value(s, self.dims) for s in declared.shape)
            if given.shape != (size,) or given.dtype != declared.dtype.numpy:
                found = f"{given.dtype.name}{list(given.shape)}"
                raise ValueError(f"buffer {k} of kernel {name} is {found}; it must be {declared.dtype}[{size}]")
        return {declared.leaf: given for declared, given in zip(self.kernel.buffers, buffers)}

    def run(self) -> None:
        kernel = self.kernel
        root = Frame(None, 1)
        for block in kernel.blocks():
            for item in block.items:
                for node in _read(item):
                    if node.op == Op.CONST or node.op == Op.DIM:
                        root.shared[node] = self._constant(node)
        self._block(kernel.prelude, root)
        if kernel.ordered:
            walk = Walk("linear", self.sizes, 1)
            step = LANES_A_CHUNK if _order_is_invisible(kernel) else 1
        else:
            walk = Walk(kernel.walk, self.sizes, self.width)
            step = max(1, LANES_A_CHUNK // self.width)
        for first in range(0, walk.groups, step):
            coordinates, group = walk.lanes(first, first + step)
            frame = Frame(root, len(group))
            frame.values[GROUP] = group
            frame.values.update({(Op.LANE, axis): place for axis, place in enumerate(coordinates)})
            self._block(kernel.body, frame)

    def _constant(self, node: UOp) -> Array:
        dtype: DType = node.dtype
        value = self.dims[node.arg] if node.op == Op.DIM else node.arg
        return np.full(1 if dtype.count == 1 else (1, dtype.count), value, dtype.numpy)

    # ---- control flow ----

    def _block(self, block: Block, frame: Frame) -> None:
        """All items of a block, for the lanes of a frame (at least one)."""
        values, handlers = frame.values, self.handlers
        for item in block.items:
            if isinstance(item, UOp):
                values[item] = handlers[item.op](item, frame)
            elif isinstance(item, LoopItem):
                self._loop(item, frame)
            elif isinstance(item, BranchItem):
                self._branch(item, frame)
            else:
                self._serial(item, frame)

    def _loop(self, item: LoopItem, frame: Frame) -> None:
        """`scope` keeps what lanes inside the loop see of the outside; each round has a frame of its own within it."""
        rows, scope = np.arange(frame.lanes), frame.child()
        state = [frame.get(v.init) for v in item.vars]
        left: list[tuple[Array, list[Any]]] = []  # lanes that left together, and their state
        while True:
            test = scope.child()
            test.values.update((v.var, value) for v, value in zip(item.vars, state))
            self._block(item.test, test)
            stay = test.full(item.condition)
            if not stay.any():
                break
            inside = test
            if not stay.all():
                gone, kept = np.flatnonzero(~stay), np.flatnonzero(stay)
                left.append((rows[gone], [select(value, gone) for value in state]))
                rows = rows[kept]
                scope = frame.child(rows)
                inside = scope.child()
                made = ((key, value) for key, value in test.values.items() if value is not None)
                inside.values.update((key, select(value, kept)) for key, value in made)
            self._block(item.body, inside)
            state = self._same_arrays([inside.get(v.next) for v in item.vars], state)
        left.append((rows, state))
        for k, var in enumerate(item.vars):
            if var.result is not None:
                pieces = [(lanes, values[k]) for lanes, values in left]
                frame.values[var.result] = pieces[0][1] if len(pieces) == 1 else merge(frame.lanes, pieces)

    def _branch(self, item: BranchItem, frame: Frame) -> None:
        """Each arm for the lanes that take it."""
        selector = frame.get(item.selector)
        last = len(item.arms) - 1
        taken = np.where(selector, 0, 1) if item.kind == "cond" else np.clip(selector, 0, last)
        pieces: list[tuple[Array, int, Frame]] = []
        for k, arm in enumerate(item.arms):
            rows = np.flatnonzero(taken == k)
            if len(rows) == 0:
                continue
            inner = frame.child(None if len(rows) == len(taken) else rows)
            self._block(arm, inner)
            pieces.append((rows, k, inner))
        for result, values in item.results:
            if len(pieces) == 1:
                frame.values[result] = pieces[0][2].get(values[pieces[0][1]])
            else:
                found = [(rows, inner.get(values[k])) for rows, k, inner in pieces]
                self._same_arrays([value for _, value in found], [found[0][1]] * len(found))
                frame.values[result] = merge(frame.lanes, found)

    def _serial(self, item: SerialItem, frame: Frame) -> None:
        """Lanes one after another: each is alone in its group, and otherwise they cannot see each other."""
        inner = frame.child()
        inner.values[GROUP] = np.arange(frame.lanes)
        self._block(item.body, inner)
        frame.values.update((result, inner.get(value)) for result, value in item.results)

    def _same_arrays(self, values: list[Any], others: list[Any]) -> list[Any]:
        """The values, once it is sure that private arrays among them are versions of those that they are to replace."""
        if not all(map(same_storage, values, others)):
            raise ValueError(f"kernel {self.kernel.name}: two private arrays meet where versions of one were expected")
        return values

    # ---- operations ----

    def _fail(self, node: UOp, frame: Frame, row: int, what: str) -> NoReturn:
        try:
            lane = tuple(int(frame.full((Op.LANE, axis))[row]) for axis in range(len(self.sizes)))
        except LookupError:
            lane = None
        raise CheckError(self.kernel.name, node, what, lane, self.describe(node))

    def _check_index(self, node: UOp, frame: Frame, index: Array, size: int, gate: Array | None = None) -> None:
        if not self.check:
            return
        bad = (index < 0) | (index >= size)
        if gate is not None:
            bad &= gate
        if bad.any():
            where = tuple(np.argwhere(bad)[0])
            self._fail(node, frame, where[0], f"index {index[where]} is outside a size of {size}")

    def _elementwise(self, node: UOp, frame: Frame) -> Array:
        dtype: DType = node.dtype
        operands = _operands(node.src, frame, dtype.count)
        result = _spread(np.asarray(numpy_ops.OPS[node.op](dtype, *operands), dtype=dtype.numpy), dtype.count)
        if self.nan_check and dtype.is_float:
            made = np.isnan(result)
            for operand in operands:
                if operand.dtype.kind == "f":
                    made &= ~np.isnan(operand)
            if made.any():
                values = ", ".join(str(np.broadcast_to(x, made.shape)[made][0]) for x in operands)
                self._fail(node, frame, int(np.argwhere(made)[0][0]), f"makes a NaN of {values}")
        return result

    def _table(self, node: UOp, frame: Frame) -> Array:
        index, *rows = node.src
        (at,) = _operands([index], frame, node.dtype.count)
        self._check_index(node, frame, at, len(rows))
        values = np.array([row.arg for row in rows], node.dtype.numpy)
        return _spread(values[np.clip(at, 0, len(rows) - 1)], node.dtype.count)

    def _load(self, node: UOp, frame: Frame) -> Array:
        memory, count = self.memory[node.src[0]], node.dtype.count
        index, *gates = _operands(node.src[1:], frame, count)
        if not gates:
            self._check_index(node, frame, index, len(memory))
            return _spread(memory[index.astype(np.intp)], count)
        index, gate = np.broadcast_arrays(index, gates[0])
        self._check_index(node, frame, index, len(memory), gate)
        out = np.zeros(gate.shape, memory.dtype)
        out[gate] = memory[index[gate].astype(np.intp)]
        return _spread(out, count)

    def _store(self, node: UOp, frame: Frame) -> None:
        memory = self.memory[node.src[0]]
        count = max(part.dtype.count for part in node.src[1:])
        shape = (frame.lanes,) if count == 1 else (frame.lanes, count)
        index, value, *gates = (np.broadcast_to(part, shape) for part in _operands(node.src[1:], frame, count))
        gate = gates[0] if gates else None
        self._check_index(node, frame, index, len(memory), gate)
        index, value = (index.ravel(), value.ravel()) if gate is None else (index[gate], value[gate])
        place = index.astype(np.intp)
        if node.arg in _SCATTER:
            _SCATTER[node.arg].at(memory, place, value)
        elif node.arg == "set":
            memory[place] = value  # NumPy keeps the last of equal indices
        else:
            raise ValueError(f"no such store mode: {node.arg!r}")

    def _array_get(self, node: UOp, frame: Frame) -> Array:
        array: PrivateArray = frame.get(node.src[0])
        index = frame.full(node.src[1])
        self._check_index(node, frame, index, array.length)
        if self.check:
            known = array.defined[array.rows, index]
            if not known.all():
                row = int(np.argmin(known))
                self._fail(node, frame, row, f"element {index[row]} of a private array of {array.length} was never set")
        value: Array = array.data[array.rows, index]
        return value

    def _array_set(self, node: UOp, frame: Frame) -> PrivateArray:
        array: PrivateArray = frame.get(node.src[0])
        index = frame.full(node.src[1])
        self._check_index(node, frame, index, array.length)
        array.data[array.rows, index] = frame.get(node.src[2])
        array.defined[array.rows, index] = True
        return array

    def _append(self, node: UOp, frame: Frame) -> PrivateArray:
        """Values under the mask side by side from `top` on; T slots are stored whole, so what follows is junk."""
        array: PrivateArray = frame.get(node.src[0])
        top = frame.full(node.src[1])
        count = max(part.dtype.count for part in node.src[2:4])
        shape = (frame.lanes, count)
        mask, values = (np.broadcast_to(_vector(frame.get(part)), shape) for part in node.src[2:4])
        turned = frame.full(node.src[4])[:, None]
        mask, values = (np.where(turned, part[:, ::-1], part) for part in (mask, values))
        if self.check:
            bad = (top < 0) | (top.astype(np.int64) + count > array.length)
            if bad.any():
                row = int(np.argmax(bad))
                what = f"{count} slots from {top[row]} on do not fit a private array of {array.length}"
                self._fail(node, frame, row, what)
        lane, element = np.nonzero(mask)
        slot = top[lane] + (np.cumsum(mask, axis=1) - 1)[lane, element]
        array.data[array.rows[lane], slot] = values[lane, element]
        array.defined[array.rows[lane], slot] = True
        new_top = top + mask.sum(axis=1, dtype=top.dtype)
        after = new_top[:, None] + np.arange(count)
        lane, element = np.nonzero(after < array.length)
        array.defined[array.rows[lane], after[lane, element]] = False
        frame.values[(Op.PROJ, node)] = new_top
        return array

    def _vote(self, node: UOp, frame: Frame) -> Array:
        """Live lanes of a group are a run of rows: reduce each run, and give the result to all of it."""
        kind, group, value = node.arg[0], frame.get(GROUP), frame.full(node.src[0])
        starts = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
        if kind == "first":
            result = value[starts]
        elif kind == "count":
            result = np.add.reduceat(value, starts, axis=0, dtype=np.int32)
        else:
            result = _VOTES[kind].reduceat(value, starts, axis=0)
        return np.repeat(result, np.diff(starts, append=len(group)), axis=0)

    def _across(self, node: UOp, frame: Frame) -> Array:
        value = _vector(frame.get(node.src[0]))
        op, count = node.arg, value.shape[1]
        result: Array
        if op == "count":
            result = value.sum(axis=1)
        elif op == "bits":
            result = (value.astype(np.uint32) << np.arange(count, dtype=np.uint32)).sum(axis=1)
        elif op == "first":
            result = np.where(value.any(axis=1), value.argmax(axis=1), count)
        elif op == "last":
            result = np.where(value.any(axis=1), count - 1 - value[:, ::-1].argmax(axis=1), -1)
        else:
            combine = _ACROSS[op]
            while value.shape[1] % 2 == 0:  # halves together, then from the left, so that a float sum has one meaning
                lower, upper = np.split(value, 2, axis=1)
                value = combine(lower, upper)
            result = value[:, 0]
            for k in range(1, value.shape[1]):
                result = combine(result, value[:, k])
        return np.asarray(result, node.dtype.numpy)

    def _print(self, node: UOp, frame: Frame) -> None:
        mask, *values = (frame.full(part) for part in node.src)
        for row in np.flatnonzero(mask):
            print(printed(node.arg[0], [value[row] for value in values]), file=sys.stderr)


def _operands(nodes: Iterable[UOp], frame: Frame, count: int) -> list[Array]:
    """Values that meet in one operation: beside vectors, a scalar of a lane is a column."""
    values = [frame.get(node) for node in nodes]
    return values if count == 1 else [_vector(value) for value in values]


def _vector(value: Array) -> Array:
    """A value as [lanes, elements], a scalar as a vector of one."""
    return value if value.ndim == 2 else value[:, None]


def _spread(value: Array, count: int) -> Array:
    """A value of a type of `count` elements in the form of its type: [lanes], or [lanes, count]."""
    if count == 1:
        return value if value.ndim == 1 else value[:, 0]
    return value if value.shape[1] == count else np.broadcast_to(value, (len(value), count))


def _read(item: Item) -> list[UOp]:
    """Every value an item reads, or hands on from its inner blocks."""
    nodes = item_inputs(item)
    if isinstance(item, LoopItem):
        return [*nodes, item.condition, *(v.next for v in item.vars)]
    if isinstance(item, BranchItem):
        return [*nodes, *(value for _, values in item.results for value in values)]
    if isinstance(item, SerialItem):
        return [*nodes, *(value for _, value in item.results)]
    return nodes


def _order_is_invisible(kernel: Kernel) -> bool:
    """Whether all lanes of an ordered kernel may take each step together: no lane can see how far another one is."""
    written: set[UOp] = set()
    loaded: set[UOp] = set()
    for block in kernel.blocks():
        for item in block.items:
            if isinstance(item, UOp) and item.op == Op.LOAD:
                loaded.add(item.src[0])
            elif isinstance(item, UOp) and item.op == Op.STORE:
                if item.src[0] in written or block.depth > kernel.body.depth:
                    return False
                written.add(item.src[0])
    return not written & loaded
