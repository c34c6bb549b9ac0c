"""What one tensor-level operation does to whole arrays: the values behind the eager mode.

`compute` is given a node and the arrays of its sources, and returns the array of the node. Movement is NumPy's, elementwise
operations are those of `graph.numpy_ops`, and what writes or reads at computed places checks every index first. Control flow is
not here: in eager mode there are no nodes for it (see `frontend.eager`).

Inside a body of control flow one lane is live; the arrays still hold all lanes. The elements of the others are whatever came out,
so an index is checked, and used, for the live lane only. `live(shape)` tells which elements of an index count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.frontend.trace import user_line
from engine.graph import numpy_ops
from engine.graph.uop import ELEMENTWISE, Op, UOp

Array = NDArray[Any]
Sizes = tuple[int, ...]
Live = Callable[[Sizes], Array]

_REDUCE = {
    Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum, Op.MIN: np.minimum, Op.AND: np.bitwise_and, Op.OR: np.bitwise_or
}  # fmt: skip


class LaneError(IndexError):
    """An element was read or written where there is none. `lane`: where in the index (a lane, and perhaps inner axes) it happened."""

    def __init__(self, lane: Sizes, what: str) -> None:
        super().__init__(f"{user_line()}: in lane {lane}: {what}")
        self.lane = lane


def compute(node: UOp, sources: Sequence[Array], shape: Sizes, live: Live) -> Array:
    """The array of `node`, whose sizes are `shape`. Raises LaneError for an index beyond its axis."""
    if node.op in ELEMENTWISE:
        return np.broadcast_to(numpy_ops.evaluate(node.op, node.dtype, sources), shape)
    return _HANDLERS[node.op](node, sources, shape, live)


def checked(index: Array, size: int, live: Array) -> Array:
    """The index as intp, clamped to the axis where it does not count. Raises LaneError where it counts and lies outside."""
    bad = np.broadcast_to(live, index.shape) & ((index < 0) | (index >= size))
    if bad.any():
        where = tuple(int(k) for k in np.argwhere(bad)[0])
        raise LaneError(where, f"index {index[where]} is outside a size of {size}")
    return np.clip(index, 0, max(size - 1, 0)).astype(np.intp)


def _pad(node: UOp, sources: Sequence[Array], shape: Sizes, live: Live) -> Array:
    result = np.zeros(shape, node.dtype.numpy)
    result[tuple(slice(before, before + n) for (before, _), n in zip(node.arg, sources[0].shape, strict=True))] = sources[0]
    return result


def _stack(node: UOp, sources: Sequence[Array], shape: Sizes, live: Live) -> Array:
    part = (*shape[: node.arg], *shape[node.arg + 1 :])
    return np.stack([np.broadcast_to(source, part) for source in sources], axis=node.arg)


def _reduce(node: UOp, sources: Sequence[Array], shape: Sizes, live: Live) -> Array:
    op, axes = node.arg
    if op in ("first", "last"):
        (axis,), size = axes, sources[0].shape[axes[0]]
        turned = np.flip(sources[0], axis) if op == "last" else sources[0]
        place, none = turned.argmax(axis=axis, keepdims=True), size if op == "first" else -1
        found = np.where(sources[0].any(axis=axis, keepdims=True), size - 1 - place if op == "last" else place, none)
        return np.asarray(found, np.int32)
    return np.asarray(_REDUCE[op].reduce(sources[0], axis=axes, keepdims=True, dtype=node.dtype.numpy))


def _gather(node: UOp, sources: Sequence[Array], shape: Sizes, live: Live) -> Array:
    table, *indices = sources
    first = node.arg[0][0]
    common = np.broadcast_shapes(*(i.shape for i in indices))
    counted = live(common)
    wide = zip(node.arg[0], (np.broadcast_to(index, common) for index in indices), strict=True)
    places = [checked(index, table.shape[axis], counted) for axis, index in wide]
    if 0 in table.shape:  # nothing to look up, and no lane that wants to
        return np.zeros(shape, node.dtype.numpy)
    return np.asarray(table[(*(slice(None),) * first, *places)])


def _scatter(node: UOp, sources: Sequence[Array], shape: Sizes, live: Live) -> Array:
    """One write after another, in the row order of the index."""
    result, value, *indices = sources
    result = result.copy()
    axes, mode = node.arg
    common = np.broadcast_shapes(*(i.shape for i in indices))
    everywhere = np.ones(common, np.bool_)
    places = [checked(np.broadcast_to(i, common), shape[axis], everywhere) for axis, i in zip(axes, indices, strict=True)]
    for element in np.ndindex(common):
        place = tuple(p[element] for p in places)
        if mode == "set":
            result[place] = value[element]
        else:
            op = {"add": Op.ADD, "min": Op.MIN, "max": Op.MAX}[mode]
            result[place] = numpy_ops.evaluate(op, node.dtype, (np.asarray(result[place]), np.asarray(value[element])))
    return result


def _assign(node: UOp, sources: Sequence[Array], shape: Sizes, live: Live) -> Array:
    memory, value = sources
    memory[...] = value
    return memory


_HANDLERS: dict[str, Callable[[UOp, Sequence[Array], Sizes, Live], Array]] = {
    Op.ARANGE: lambda node, sources, shape, live: np.arange(shape[0], dtype=node.dtype.numpy),
    Op.RESHAPE: lambda node, sources, shape, live: sources[0].reshape(shape),
    Op.PERMUTE: lambda node, sources, shape, live: sources[0].transpose(node.arg),
    Op.EXPAND: lambda node, sources, shape, live: np.broadcast_to(sources[0], shape),
    Op.PAD: _pad,
    Op.SHRINK: lambda node, sources, shape, live: sources[0][tuple(slice(a, a + n) for a, n in zip(node.arg, shape, strict=True))],
    Op.FLIP: lambda node, sources, shape, live: np.flip(sources[0], node.arg),
    Op.STRIDE: lambda node, sources, shape, live: sources[0][tuple(slice(None, None, step) for step in node.arg)],
    Op.STACK: _stack,
    Op.REDUCE: _reduce,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.ASSIGN: _assign,
    Op.CONTIGUOUS: lambda node, sources, shape, live: sources[0],
}
KNOWN = ELEMENTWISE | _HANDLERS.keys()
