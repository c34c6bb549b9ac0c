"""Private arrays of a lane: `a = local_array(64, "int32")`, `a = a.set(i, v)`, `a[i]`.

They live in registers or in the lane's own memory and are updated in place; `set` returns the array after the update, and the
one before it must not be used again. Elements never set are undefined (the reference backend reports a read of one).
"""

from __future__ import annotations

from typing import Any

from engine.frontend.lanes import check_lanes, lane_shape
from engine.frontend.tensor import Tensor, broadcast_shapes, is_eager, lift
from engine.frontend.trace import TraceError, current, next_number, note_line, user_line
from engine.graph.dtypes import ArrayType, as_dtype, int32
from engine.graph.uop import Op, Shape, UOp


def array_root(version: UOp, variables: dict[UOp, UOp]) -> UOp:
    """The ARRAY node (or an outer loop's variable) that this version is stored in. `variables`: loop variables -> initial versions."""
    while True:
        if version in variables:
            version = variables[version]
        elif version.op in (Op.ARRAY_SET, Op.APPEND):
            version = version.src[0]
        elif version.op == Op.PROJ:
            owner = version.src[0]
            if owner.op == Op.APPEND:
                version = owner.src[0]
            elif owner.op == Op.LOOP:
                version = owner.src[version.arg]
            else:
                version = owner.src[1 + version.arg]
        else:
            return version


class LocalArray:
    """One version of a private array; its lane shape grows with what is stored in it."""

    __slots__ = ("uop",)

    def __init__(self, node: UOp) -> None:
        self.uop = node

    @property
    def length(self) -> int:
        return self._type.length

    @property
    def _type(self) -> ArrayType:
        assert isinstance(self.uop.dtype, ArrayType)
        return self.uop.dtype

    def __getitem__(self, index: Any) -> Tensor:
        """The element at `index` (an integer, or an integer Tensor of the lane shape)."""
        trace = current()
        trace.check_array(self.uop)
        trace.check_scope(self.uop)
        at = self._index(index)
        shape = over_lanes(self.uop.shape, at.shape)
        node = UOp.new(Op.ARRAY_GET, self._type.dtype, (self.uop, at.uop), (trace.region, next_number()), shape)
        return Tensor.of(note_line(node))

    def set(self, index: Any, value: Any) -> LocalArray:
        """The array with `value` (cast to its dtype) at `index`."""
        at = self._index(index)
        stored = lift(value, self._type.dtype)
        if stored.dtype is not self._type.dtype:
            raise TypeError(f"{user_line()}: {stored.dtype} stored in a local array of {self._type.dtype}; cast() it first")
        shape = over_lanes(self.uop.shape, at.shape, stored.shape)
        return self._next(Op.ARRAY_SET, (at.uop, stored.uop), shape)

    def append_where(self, top: Any, mask: Any, values: Any, reverse: Any = False) -> tuple[LocalArray, Tensor]:
        """Stores those of `values` (lane shape + one inner axis of T) whose mask holds at top, top + 1, ..., in their order, the last
        first where `reverse` (a bool of the lane shape) holds.

        Returns the array and the new top. Elements from the new top to T beyond it are undefined afterwards, so the array needs
        room for T elements at any top it is called with.
        """
        at, keep, stored = self._index(top), lift(mask), lift(values, self._type.dtype)
        if not keep.dtype.is_bool or stored.dtype is not self._type.dtype:
            wanted = f"a bool mask and {self._type.dtype} values"
            raise TypeError(f"{user_line()}: append_where takes {wanted}, not {keep.dtype} and {stored.dtype}")
        inner = broadcast_shapes(keep.shape, stored.shape)
        keep, stored = keep.broadcast_to(inner), stored.broadcast_to(inner)
        turned = lift(reverse)
        if not turned.dtype.is_bool:
            raise TypeError(f"{user_line()}: append_where takes a bool for reverse, not {turned.dtype}")
        lanes = over_lanes(self.uop.shape, at.shape, inner[:-1], turned.shape)
        after = self._next(Op.APPEND, (at.uop, keep.uop, stored.uop, turned.uop), lanes)
        return after, Tensor.of(UOp.new(Op.PROJ, int32, (after.uop,), 1, lanes))

    def _index(self, index: Any) -> Tensor:
        at = lift(index, int32)
        if not at.dtype.is_int:
            raise TypeError(f"{user_line()}: a local array is indexed by an integer, not {at.dtype}")
        return at.cast(int32)

    def _next(self, op: str, sources: tuple[UOp, ...], shape: Shape) -> LocalArray:
        trace = current()
        inner = max((r for r in trace.open if trace.kinds[r] in ("loop", "serial")), default=0)
        if self.uop.scope < inner:
            raise TraceError(
                f"{user_line()}: a local array from outside is changed inside a {trace.kinds[inner]} body; make it part of the "
                "loop's state (return it from the body)"
            )
        trace.consume(self.uop)
        node = UOp.new(op, self._type, (self.uop, *sources), (trace.region, next_number()), shape)
        trace.check_scope(node)
        return LocalArray(note_line(node))


def over_lanes(*shapes: Shape) -> Shape:
    """The shape of an access by operands of these shapes. Raises TraceError for inner axes: a lane has one element at a time."""
    lanes = lane_shape()
    if lanes is not None:
        for shape in shapes:
            check_lanes(shape, lanes, "an access to a local array")
    return broadcast_shapes(*shapes)


def local_array(length: int, dtype: Any = int32, fill: Any = None) -> LocalArray:
    """A new private array of `length` elements for each lane, undefined until set (`fill`: every element set to it)."""
    if is_eager():
        from engine.frontend import eager

        made: LocalArray = eager.local_array(length, as_dtype(dtype))
    else:
        trace = current()
        made = LocalArray(UOp.new(Op.ARRAY, ArrayType(as_dtype(dtype), int(length)), (), (next_number(), trace.region), ()))
    if fill is not None:
        for i in range(int(length)):
            made = made.set(i, fill)
    return made
