"""Votes: what the live lanes of a group (a SIMD vector, a warp; one lane where a backend has none) know together.

A program must give the same values for every group width: votes may steer how the work is done (whether anybody still needs a
node, which child most lanes want first), not what comes out. `debug_print` is here as well: it too looks at live lanes.
"""

from __future__ import annotations

from typing import Any

from engine.frontend.tensor import Tensor, is_eager, lift
from engine.frontend.trace import current, next_number, note_line, user_line
from engine.graph.dtypes import bool_, int32
from engine.graph.uop import Op, UOp


def _vote(kind: str, value: Any, dtype: Any = None) -> Tensor:
    x = lift(value)
    if kind in ("any", "all", "count") and not x.dtype.is_bool:
        raise TypeError(f"{user_line()}: group.{kind} takes a bool Tensor, not {x.dtype}")
    if is_eager():
        from engine.frontend import eager

        return eager.vote(kind, x)
    trace = current()
    return Tensor.of(note_line(UOp.new(Op.VOTE, dtype or x.dtype, (x.uop,), (kind, trace.region, next_number()))))


def any(predicate: Any) -> Tensor:
    """True where it holds for some live lane of the group."""
    return _vote("any", predicate, bool_)


def all(predicate: Any) -> Tensor:
    """True where it holds for every live lane of the group."""
    return _vote("all", predicate, bool_)


def count(predicate: Any) -> Tensor:
    """int32 number of live lanes of the group for which it holds."""
    return _vote("count", predicate, int32)


def min(value: Any) -> Tensor:
    """The least value among the live lanes of the group."""
    return _vote("min", value)


def max(value: Any) -> Tensor:
    """The greatest value among the live lanes of the group."""
    return _vote("max", value)


def first(value: Any) -> Tensor:
    """The value of the first live lane of the group."""
    return _vote("first", value)
