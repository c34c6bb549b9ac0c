"""x[...]: slices are views, integer tensors are gathers. scatter and assign write.

Slices, integers, None and ... follow NumPy. Integer tensors broadcast together and their axes stand where the first of them
stood (in front, if a slice separates them), as NumPy's do. Indices held in tensors must lie within the axis: they do not wrap
when negative. The reference backend and CHECK=1 report the first that does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.frontend import lanes, trace
from engine.frontend import tensor as t
from engine.frontend.movement import flip, reshape, shrink, stride
from engine.frontend.trace import note_line, user_line
from engine.graph.uop import Op, UOp


def _is_index_tensor(part: Any) -> bool:
    return isinstance(part, (t.Tensor, np.ndarray, list))


def getitem(x: t.Tensor, key: Any) -> t.Tensor:
    """NumPy's indexing. Raises IndexError with the user's line for an integer beyond the axis or too many indices."""
    parts = list(key) if isinstance(key, tuple) else [key]
    named = sum(1 for p in parts if p is not None and p is not Ellipsis)
    if named > x.ndim:
        raise IndexError(f"{user_line()}: {named} indices for a Tensor with {x.ndim} axes")
    if not any(p is Ellipsis for p in parts):
        parts.append(Ellipsis)
    at = next(i for i, p in enumerate(parts) if p is Ellipsis)
    parts[at : at + 1] = [slice(None)] * (x.ndim - named)

    spans: list[tuple[int, Any]] = []
    flips: list[int] = []
    steps: list[int] = []
    layout: list[tuple[str, Any]] = []  # what becomes of each axis: "keep", "drop", "new", "index"
    axis = 0
    for part in parts:
        if part is None:
            layout.append(("new", None))
            continue
        size = x.shape[axis]
        if _is_index_tensor(part):
            index = t.lift(part)
            if not index.dtype.is_int:
                raise IndexError(f"{user_line()}: an index Tensor has type {index.dtype}; indices are integers (use where for masks)")
            spans.append((0, size))
            steps.append(1)
            layout.append(("index", index))
        elif isinstance(part, slice):
            first, count, step = _span(part, size)
            spans.append((first, count))
            steps.append(abs(step))
            if step < 0:
                flips.append(axis)
            layout.append(("keep", None))
        else:
            number = int(part)
            if isinstance(size, int) and not -size <= number < size:
                raise IndexError(f"{user_line()}: index {number} of axis {axis}, whose size is {size}")
            if number < 0 and not isinstance(size, int):
                raise IndexError(f"{user_line()}: negative index of axis {axis}, whose size is dynamic")
            spans.append((number % size if isinstance(size, int) else number, 1))
            steps.append(1)
            layout.append(("drop", None))
        axis += 1
    x = shrink(x, spans)
    if flips:
        x = flip(x, tuple(flips))
    x = stride(x, tuple(steps))
    shape: list[Any] = []
    indices: list[tuple[int, t.Tensor]] = []
    axis = 0
    for kind, index in layout:
        if kind == "new":
            shape.append(1)
            continue
        if kind != "drop":
            if kind == "index":
                indices.append((len(shape), index))
            shape.append(x.shape[axis])
        axis += 1
    x = reshape(x, tuple(shape))
    return _gather(x, indices) if indices else x


def _span(part: slice, size: Any) -> tuple[int, Any, int]:
    """First element, count and step of a slice."""
    step = 1 if part.step is None else int(part.step)
    if isinstance(size, int):
        first, stop, step = part.indices(size)
        count = max(0, -(-(stop - first) // step))
        if step < 0 and count:
            return first + (count - 1) * step, (count - 1) * -step + 1, step
        return (first, (count - 1) * step + 1, step) if count else (0, 0, 1)
    if part == slice(None):
        return 0, size, 1
    first = 0 if part.start is None else int(part.start)
    if step != 1 or first < 0:
        raise IndexError(f"{user_line()}: a slice with a step or a negative start along a dynamic size")
    if isinstance(part.stop, UOp):
        return first, _minus(part.stop, first), 1
    if part.stop is None:
        return first, _minus(size, first), 1
    if part.stop < 0:
        return first, _minus(size, first - part.stop), 1
    return first, part.stop - first, 1


def _minus(size: UOp, less: int) -> UOp:
    from engine.frontend.movement import _plus

    result = _plus(size, -less)
    assert isinstance(result, UOp)
    return result


def _gather(x: t.Tensor, indices: list[tuple[int, t.Tensor]]) -> t.Tensor:
    """x with the named axes looked up by index tensors."""
    axes = tuple(axis for axis, _ in indices)
    common = t.broadcast_shapes(*(index.shape for _, index in indices))
    if axes == tuple(range(axes[0], axes[0] + len(axes))):
        before = axes[0]
    else:  # separated by slices: NumPy puts the indexed axes in front
        before = 0
        order = [*axes, *(a for a in range(x.ndim) if a not in axes)]
        x = x.permute(*order)
        axes = tuple(range(len(axes)))
    sources = tuple(index.broadcast_to(common).uop for _, index in indices)
    rest = x.shape[before + len(axes) :]
    shape = (*x.shape[:before], *common, *rest)
    node = UOp.new(Op.GATHER, x.dtype, (x.uop, *sources), (axes, trace.current().region), shape)
    return t.Tensor.of(note_line(node))


def scatter(x: t.Tensor, index: Any, value: Any, mode: str) -> t.Tensor:
    """x after `x[index] op= value` for each element of the index tensor(s), in their row order (so the last of several "set"s holds).

    index: an integer Tensor for axis 0, or a tuple of them for the leading axes; value broadcasts to index shape + remaining
    axes. mode: "set", "add", "min", "max". Raises ValueError for another mode.
    """
    if mode not in ("set", "add", "min", "max"):
        raise ValueError(f"{user_line()}: scatter mode {mode!r}; there are set, add, min, max")
    if lanes.lane_shape() is not None:
        raise trace.TraceError(f"{user_line()}: scatter inside a control-flow body; return the index and value and scatter outside")
    parts = [t.lift(i) for i in (index if isinstance(index, tuple) else (index,))]
    for part in parts:
        if not part.dtype.is_int:
            raise IndexError(f"{user_line()}: a scatter index has type {part.dtype}; indices are integers")
    common = t.broadcast_shapes(*(p.shape for p in parts))
    shape = (*common, *x.shape[len(parts) :])
    written = t.lift(value, x.dtype).cast(x.dtype).broadcast_to(shape)
    sources = tuple(p.broadcast_to(common).uop for p in parts)
    node = UOp.new(Op.SCATTER, x.dtype, (x.uop, written.uop, *sources), (tuple(range(len(parts))), mode), x.shape)
    return t.Tensor.of(note_line(node))


def assign(x: t.Tensor, value: Any) -> t.Tensor:
    """Replaces the contents of x's own memory by `value` (cast to x's dtype, broadcast to its shape); returns x.

    x must be memory: an argument of the traced function, or a realized Tensor. Raises TraceError otherwise.
    """
    if lanes.lane_shape() is not None:
        raise trace.TraceError(f"{user_line()}: assign inside a control-flow body; return the value and assign it outside")
    target = x.uop
    while target.op == Op.ASSIGN:
        target = target.src[0]
    if target.op != Op.BUFFER:
        raise trace.TraceError(f"{user_line()}: assign to a computed Tensor; only memory can be assigned: an argument, a realized Tensor")
    if target.arg.kind == "parameter":
        raise trace.TraceError(f"{user_line()}: assign to a number argument; only a Tensor has memory, so pass a Tensor")
    if trace.current().jit and target.arg.kind != "argument":
        raise trace.ImpureFunctionError(
            f"{user_line()}: assign to a Tensor that is not an argument of the function being traced; pass it as an argument"
        )
    new = t.lift(value, x.dtype)
    if new.dtype is not x.dtype:
        raise TypeError(f"{user_line()}: assign of {new.dtype} to {x.dtype} memory; cast() it first")
    new = new.broadcast_to(x.shape)
    node = UOp.new(Op.ASSIGN, x.dtype, (target, new.uop))
    trace.current().check_scope(node)
    x.uop = note_line(node)
    if trace.current().jit:
        trace.current().assigned[target] = x
        return x
    return x.realize()
