"""Functions that make or join Tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.frontend import tensor as t
from engine.frontend.movement import normal_axis, pad
from engine.frontend.trace import user_line
from engine.graph import dtypes
from engine.graph.dtypes import as_dtype, float32, int32
from engine.graph.uop import Op, Shape, UOp


def arange(size: Any, dtype: Any = int32) -> t.Tensor:
    """0, 1, ..., size - 1. `size` may be a dynamic size of another Tensor's shape."""
    node = UOp.new(Op.ARANGE, int32, (), (size,), (size,))
    return t.Tensor.of(node).cast(as_dtype(dtype))


def full(shape: Sequence[Any], value: Any, dtype: Any = None) -> t.Tensor:
    """Every element the same number."""
    wanted = as_dtype(dtype) if dtype is not None else dtypes.of_number(value)
    return t.Tensor(value, wanted).broadcast_to(tuple(shape))


def zeros(shape: Sequence[Any], dtype: Any = float32) -> t.Tensor:
    """Zeros."""
    return full(shape, 0, dtype)


def ones(shape: Sequence[Any], dtype: Any = float32) -> t.Tensor:
    """Ones."""
    return full(shape, 1, dtype)


def where(condition: Any, a: Any, b: Any) -> t.Tensor:
    """a where the condition holds, b elsewhere; both are computed."""
    return t.lift(condition).where(a, b)


def maximum(a: Any, b: Any) -> t.Tensor:
    """The greater of two; NaN where either is NaN."""
    return t.binary(Op.MAX, a, b)


def minimum(a: Any, b: Any) -> t.Tensor:
    """The lesser of two; NaN where either is NaN."""
    return t.binary(Op.MIN, a, b)


def _common(tensors: Sequence[Any], what: str) -> list[t.Tensor]:
    if not tensors:
        raise ValueError(f"{user_line()}: {what} of nothing")
    lifted = [t.lift(x) for x in tensors]
    typed = [x for x, given in zip(lifted, tensors, strict=True) if isinstance(given, t.Tensor)] or lifted
    dtype = typed[0].dtype
    for x in typed[1:]:
        dtype = dtypes.promote(dtype, x.dtype)
    return [x.cast(dtype) for x in lifted]


def stack(tensors: Sequence[Any], axis: int = 0) -> t.Tensor:
    """Equal shapes (after broadcasting) side by side along a new axis."""
    parts = _common(tensors, "stack")
    shape: Shape = t.broadcast_shapes(*(x.shape for x in parts))
    axis = normal_axis(axis, len(shape) + 1)
    sources = tuple(x.broadcast_to(shape).uop for x in parts)
    return t.Tensor.of(UOp.new(Op.STACK, parts[0].dtype, sources, axis, (*shape[:axis], len(parts), *shape[axis:])))


def concatenate(tensors: Sequence[Any], axis: int = 0) -> t.Tensor:
    """One after another along an existing axis (static sizes along it)."""
    parts = _common(tensors, "concatenate")
    axis = normal_axis(axis, parts[0].ndim)
    for x in parts[1:]:
        if x.ndim != parts[0].ndim or any(a != b for i, (a, b) in enumerate(zip(x.shape, parts[0].shape, strict=True)) if i != axis):
            raise ValueError(f"{user_line()}: concatenate along axis {axis} of shapes {[p.shape for p in parts]}: the other axes differ")
    total, first = sum(x.shape[axis] for x in parts), 0
    position = arange(total).reshape(*(total if a == axis else 1 for a in range(parts[0].ndim)))
    result: t.Tensor | None = None
    for x in parts:
        size = x.shape[axis]
        moved = pad(x, tuple((first, total - first - size) if a == axis else (0, 0) for a in range(x.ndim)), 0)
        result = moved if result is None else (position < first).where(result, moved)
        first += size
    assert result is not None
    return result


def matmul(a: Any, b: Any) -> t.Tensor:
    """Matrix product over the last two axes, broadcasting the others (NumPy's rules for 1-D operands)."""
    x, y = t.operands(a, b, "@")
    if x.ndim == 0 or y.ndim == 0:
        raise ValueError(f"{user_line()}: @ takes at least one axis on each side")
    left, right = x.ndim == 1, y.ndim == 1
    if left:
        x = x.expand_dims(0)
    if right:
        y = y.expand_dims(1)
    if x.shape[-1] != y.shape[-2]:
        raise ValueError(f"{user_line()}: @ of shapes {x.shape} and {y.shape}: {x.shape[-1]} columns meet {y.shape[-2]} rows")
    product = (x.expand_dims(-1) * y.expand_dims(-3)).sum(-2)
    if left:
        product = product.squeeze(-2)
    return product.squeeze(-1) if right else product
