"""Movement of elements: reshape, permute, broadcast, pad, slices, flips. Index arithmetic only; nothing is copied or computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.frontend import tensor as t
from engine.frontend.trace import user_line
from engine.graph.uop import Op, Shape, UOp, product


def _view(op: str, x: t.Tensor, arg: Any, shape: Shape) -> t.Tensor:
    return t.Tensor.of(UOp.new(op, x.dtype, (x.uop,), arg, shape))


def normal_axis(axis: int, ndim: int, what: str = "axis") -> int:
    """A non-negative axis number. Raises ValueError with the user's line."""
    if not -ndim <= axis < ndim:
        raise ValueError(f"{user_line()}: {what} {axis} of a Tensor with {ndim} axes")
    return axis % ndim


def _named(shape: Shape) -> str:
    return str(tuple(s if isinstance(s, int) else s.arg or "size" for s in shape))


def reshape(x: t.Tensor, shape: tuple[Any, ...]) -> t.Tensor:
    """The elements in row order, in another shape; one size may be -1. Raises ValueError where the counts differ."""
    if any(isinstance(s, int) and s == -1 for s in shape):
        known = product(s for s in shape if not (isinstance(s, int) and s == -1))
        total = product(x.shape)
        if isinstance(total, int) and isinstance(known, int):
            if known == 0 or total % known:
                raise ValueError(f"{user_line()}: cannot reshape {_named(x.shape)} to {_named(shape)}: {total} elements")
            missing: Any = total // known
        else:
            left = list(x.shape)
            for s in shape:
                if isinstance(s, UOp) and s in left:
                    left.remove(s)
            number = product(s for s in shape if isinstance(s, int) and s != -1)
            missing = product(left)
            if number != 1:
                sizes = product(s for s in left if isinstance(s, int))
                missing = product([*(s for s in left if not isinstance(s, int)), sizes // number])
        shape = tuple(missing if isinstance(s, int) and s == -1 else s for s in shape)
    shape = tuple(int(s) if not isinstance(s, UOp) else s for s in shape)
    if shape == x.shape:
        return x
    if product(shape) != product(x.shape):
        raise ValueError(f"{user_line()}: cannot reshape {_named(x.shape)} to {_named(shape)}: the element counts differ")
    node = x.uop
    while node.op == Op.RESHAPE:
        node = node.src[0]
    if node.shape == shape:
        return t.Tensor.of(node)
    return t.Tensor.of(UOp.new(Op.RESHAPE, x.dtype, (node,), None, shape))


def permute(x: t.Tensor, order: tuple[int, ...]) -> t.Tensor:
    """Axes in another order (none given: reversed)."""
    order = tuple(normal_axis(a, x.ndim) for a in (order or tuple(range(x.ndim))[::-1]))
    if sorted(order) != list(range(x.ndim)):
        raise ValueError(f"{user_line()}: permute({order}) of a Tensor with {x.ndim} axes names each axis once")
    if order == tuple(range(x.ndim)):
        return x
    return _view(Op.PERMUTE, x, order, tuple(x.shape[a] for a in order))


def broadcast_to(x: t.Tensor, shape: Shape) -> t.Tensor:
    """Axes of size 1 repeated, axes added in front, as NumPy's broadcasting has it."""
    if x.shape == shape:
        return x
    if not t.broadcasts(x.shape, shape):
        raise ValueError(f"{user_line()}: shape {_named(x.shape)} does not broadcast to {_named(shape)}")
    x = reshape(x, (1,) * (len(shape) - x.ndim) + tuple(x.shape))
    return x if x.shape == shape else _view(Op.EXPAND, x, None, shape)


def pad(x: t.Tensor, widths: tuple[tuple[int, int], ...], value: Any) -> t.Tensor:
    """`widths[axis] = (before, after)` elements of `value` around."""
    if len(widths) != x.ndim or any(lo < 0 or hi < 0 for lo, hi in widths):
        raise ValueError(f"{user_line()}: pad takes (before, after), not negative, for each of {x.ndim} axes; got {widths}")
    if all(lo == hi == 0 for lo, hi in widths):
        return x
    shape = tuple(_plus(s, lo + hi) for s, (lo, hi) in zip(x.shape, widths, strict=True))
    padded = _view(Op.PAD, x, tuple(widths), shape)
    if value == 0:
        return padded
    inside = _view(Op.PAD, t.Tensor(True).broadcast_to(x.shape), tuple(widths), shape)
    return inside.where(padded, value)


def _plus(size: Any, more: int) -> Any:
    if isinstance(size, int):
        return size + more
    if size.op == Op.ADD and size.src[1].op == Op.CONST:  # sizes keep one number at their end
        more, size = more + size.src[1].arg, size.src[0]
    return size if more == 0 else UOp.new(Op.ADD, size.dtype, (size, UOp.const(size.dtype, more)))


def shrink(x: t.Tensor, spans: Sequence[tuple[int, Any]]) -> t.Tensor:
    """`spans[axis] = (first, size)`: a window, without copying."""
    if all(isinstance(lo, int) and lo == 0 and size == x.shape[i] for i, (lo, size) in enumerate(spans)):
        return x
    return _view(Op.SHRINK, x, tuple(lo for lo, _ in spans), tuple(size for _, size in spans))


def flip(x: t.Tensor, axes: tuple[int, ...]) -> t.Tensor:
    """Order of the elements reversed along `axes` (none given: all)."""
    axes = tuple(sorted(normal_axis(a, x.ndim) for a in (axes or tuple(range(x.ndim)))))
    return _view(Op.FLIP, x, axes, x.shape) if axes else x


def stride(x: t.Tensor, steps: tuple[int, ...]) -> t.Tensor:
    """Every `steps[axis]`-th element (steps of 1 and more; static sizes where the step is not 1)."""
    if all(s == 1 for s in steps):
        return x
    return _view(Op.STRIDE, x, steps, tuple(s if n == 1 else -(-s // n) for s, n in zip(x.shape, steps, strict=True)))


def squeeze(x: t.Tensor, axis: int | None) -> t.Tensor:
    """Without the axes of size 1 (or without the one named)."""
    if axis is None:
        return reshape(x, tuple(s for s in x.shape if not (isinstance(s, int) and s == 1)))
    axis = normal_axis(axis, x.ndim)
    if x.shape[axis] != 1:
        raise ValueError(f"{user_line()}: squeeze of axis {axis}, whose size is {x.shape[axis]} and not 1")
    return reshape(x, x.shape[:axis] + x.shape[axis + 1 :])


def expand_dims(x: t.Tensor, axis: int) -> t.Tensor:
    """With an axis of size 1 at this place."""
    axis = normal_axis(axis, x.ndim + 1)
    return reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))
