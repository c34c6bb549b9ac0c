"""Shapes as plain data, for plans on disk: numbers, and small expressions of named sizes."""

from __future__ import annotations

from typing import Any

from engine.graph.dtypes import int32
from engine.graph.uop import Op, Shape, UOp


def pack_shape(shape: Shape) -> tuple[Any, ...]:
    """A shape as nested tuples of numbers and strings."""
    return tuple(_pack(size) for size in shape)


def unpack_shape(packed: tuple[Any, ...]) -> Shape:
    """The shape that `pack_shape` took apart. Raises ValueError for what it did not make."""
    return tuple(_unpack(size) for size in packed)


def _pack(size: Any) -> Any:
    if not isinstance(size, UOp):
        return int(size)
    return (size.op, size.arg if size.op in (Op.DIM, Op.CONST) else None, *(_pack(s) for s in size.src))


def _unpack(packed: Any) -> Any:
    if isinstance(packed, int):
        return packed
    op, arg, *sources = packed
    if op not in (Op.DIM, Op.CONST, Op.ADD, Op.SUB, Op.MUL, Op.IDIV):
        raise ValueError(f"{op!r} makes no size")
    return UOp.new(op, int32, tuple(_unpack(s) for s in sources), arg)
