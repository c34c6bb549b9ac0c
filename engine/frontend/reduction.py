"""Many elements into one: sums, extrema, any/all, positions of extrema."""

from __future__ import annotations

from typing import Any

from engine.frontend import tensor as t
from engine.frontend.movement import normal_axis, reshape
from engine.frontend.trace import user_line
from engine.graph import dtypes
from engine.graph.uop import Op, UOp, product


def _axes(x: t.Tensor, axis: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(sorted({normal_axis(int(a), x.ndim) for a in given}))
    if len(axes) != len(given):
        raise ValueError(f"{user_line()}: a reduction names an axis twice: {axis}")
    return axes


def reduce(op: str, x: t.Tensor, axis: Any, keepdims: bool) -> t.Tensor:
    """x reduced by op (ADD, MUL, MAX, MIN, AND, OR) over `axis` (None: all). Raises ValueError for the extremum of nothing."""
    axes = _axes(x, axis)
    if op in (Op.MAX, Op.MIN) and any(isinstance(x.shape[a], int) and x.shape[a] == 0 for a in axes):
        raise ValueError(f"{user_line()}: {op} over an axis of size 0 has no value")
    if x.dtype.is_bool and op in (Op.MAX, Op.MIN):
        op = Op.OR if op == Op.MAX else Op.AND
    kept = tuple(1 if a in axes else s for a, s in enumerate(x.shape))
    wanted = [a for a in axes if not (isinstance(x.shape[a], int) and x.shape[a] == 1)]
    node = UOp.new(Op.REDUCE, x.dtype, (x.uop,), (op, tuple(wanted)), kept) if wanted else x.uop
    result = t.Tensor.of(node)
    return result if keepdims else reshape(result, tuple(s for a, s in enumerate(x.shape) if a not in axes))


def total(x: t.Tensor, axis: Any, keepdims: bool) -> t.Tensor:
    """Sum; small integers and bools are summed as int32 (uint32), as wide as the engine's default integer."""
    if x.dtype.is_bool or (x.dtype.is_int and x.dtype.bits < 32):
        x = x.cast(dtypes.uint32 if x.dtype.kind == "u" else dtypes.int32)
    return reduce(Op.ADD, x, axis, keepdims)


def prod(x: t.Tensor, axis: Any, keepdims: bool) -> t.Tensor:
    """Product, with the same widening as `total`."""
    if x.dtype.is_bool or (x.dtype.is_int and x.dtype.bits < 32):
        x = x.cast(dtypes.uint32 if x.dtype.kind == "u" else dtypes.int32)
    return reduce(Op.MUL, x, axis, keepdims)


def mean(x: t.Tensor, axis: Any, keepdims: bool) -> t.Tensor:
    """Arithmetic mean; integers as float32."""
    if not x.dtype.is_float:
        x = x.cast(dtypes.float32)
    count = product(x.shape[a] for a in _axes(x, axis))
    divisor = t.Tensor.of(count).cast(x.dtype) if isinstance(count, UOp) else count
    return total(x, axis, keepdims) / divisor


def arg_reduce(op: str, x: t.Tensor, axis: Any, keepdims: bool) -> t.Tensor:
    """int32 position of the first extremum (the first NaN, if there is one) along `axis` (None: of the flattened tensor)."""
    if axis is None:
        flat = arg_reduce(op, reshape(x, (-1,)), 0, False)
        return reshape(flat, (1,) * x.ndim) if keepdims else flat
    axis = normal_axis(int(axis), x.ndim)
    extremum = reduce(op, x, axis, True)
    size = x.shape[axis]
    from engine.frontend.functions import arange

    position = arange(size).reshape(*(size if a == axis else 1 for a in range(x.ndim)))
    hit = x == extremum
    if x.dtype.is_float:
        hit = hit | x.isnan()
    beyond = t.Tensor(dtypes.int32.max)
    return reduce(Op.MIN, hit.where(position, beyond), axis, keepdims)


def position_of_true(which: str, x: t.Tensor, axis: int, keepdims: bool) -> t.Tensor:
    """int32 position of the "first" or "last" True of a bool Tensor along one axis of static size n; n or -1 where there is none."""
    if not x.dtype.is_bool:
        raise TypeError(f"{user_line()}: {which}_true of {x.dtype}; it takes a bool Tensor")
    axis = normal_axis(axis, x.ndim)
    if isinstance(x.shape[axis], UOp):
        raise ValueError(f"{user_line()}: {which}_true along a dynamic size")
    kept = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    result = t.Tensor.of(UOp.new(Op.REDUCE, dtypes.int32, (x.uop,), (which, (axis,)), kept))
    return result if keepdims else reshape(result, (*x.shape[:axis], *x.shape[axis + 1 :]))
