"""Private arrays in eager mode: each lane has its elements, and a body reads and writes those of the live lane only."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.frontend.arrays import LocalArray, over_lanes
from engine.frontend.eager_ops import Array, LaneError, Sizes, checked
from engine.frontend.eager_state import EagerState
from engine.frontend.tensor import Tensor, broadcast_shapes, lift
from engine.frontend.trace import TraceError, user_line
from engine.graph.dtypes import DType, int32
from engine.graph.uop import Shape


class Store:
    """The memory that all versions of a private array share: the lane shape, as far as it is known, and one axis of elements."""

    __slots__ = ("data", "defined", "dtype", "run")

    def __init__(self, run: EagerState, length: int, dtype: DType) -> None:
        self.run, self.dtype = run, dtype
        self.data: Array = np.zeros(length, dtype.numpy)
        self.defined: Array = np.zeros(length, np.bool_)

    def grow(self, shape: Sizes) -> Sizes:
        """Gives each lane of `shape`, and of the body that is open, elements of its own; returns the lane shape."""
        full = np.broadcast_shapes(self.data.shape[:-1], shape, self.run.lanes or ())
        if full != self.data.shape[:-1]:
            self.data = np.broadcast_to(self.data, (*full, self.data.shape[-1])).copy()
            self.defined = np.broadcast_to(self.defined, self.data.shape).copy()
        return full

    def put(self, lane: Sizes, slot: int, value: Any) -> None:
        self.data[lane][slot] = value
        self.defined[lane][slot] = True


class EagerArray(LocalArray):
    """One version of a private array. `born`: how many bodies around it repeat."""

    __slots__ = ("born", "replaced_at", "shape", "store")
    replaced_at: str | None

    def __init__(self, store: Store, shape: Shape, born: int) -> None:
        self.store, self.shape, self.born = store, shape, born
        self.replaced_at = None

    @property
    def length(self) -> int:
        return int(self.store.data.shape[-1])

    def version(self, shape: Shape, deeper: int = 0) -> EagerArray:
        """The newest version, for the body that is open (or for one that repeats inside it: deeper=1)."""
        return EagerArray(self.store, shape, self.store.run.depth + deeper)

    def check(self) -> None:
        """Raises TraceError if there is a newer version."""
        if self.replaced_at is not None:
            raise TraceError(
                f"{user_line()}: this version of a local array was replaced at {self.replaced_at} (by set(), or as the state of "
                "a loop); arrays change in place, so use the newest version"
            )

    def __getitem__(self, index: Any) -> Tensor:
        """The element at `index`. Raises LaneError where it was never set."""
        self.check()
        store, at = self.store, self._index(index)
        run = store.run
        shape = over_lanes(self.shape, at.shape)
        full = store.grow(run.sizes(shape))
        live = run.live_elements(full)
        slot = checked(np.broadcast_to(run.array(at.uop), full), self.length, live)
        found, unset = np.zeros(full, store.dtype.numpy), np.zeros(full, np.bool_)
        for lane in np.ndindex(full):
            found[lane], unset[lane] = store.data[lane][slot[lane]], not store.defined[lane][slot[lane]]
        for lane in map(tuple, np.argwhere(live & unset).tolist()):
            raise LaneError(lane, f"element {slot[lane]} of a local array of {self.length} is read, and was never set")
        return self._value(found, store.dtype, shape)

    def set(self, index: Any, value: Any) -> LocalArray:
        """The array with `value` at `index`."""
        store, at = self.store, self._index(index)
        run, stored = store.run, lift(value, store.dtype)
        if stored.dtype is not store.dtype:
            raise TypeError(f"{user_line()}: {stored.dtype} stored in a local array of {store.dtype}; cast() it first")
        shape = over_lanes(self.shape, at.shape, stored.shape)
        after = self._successor(shape)
        full = store.grow(run.sizes(shape))
        live = run.live_elements(full)
        slot = checked(np.broadcast_to(run.array(at.uop), full), self.length, live)
        values = np.broadcast_to(run.array(stored.uop), full)
        for lane in map(tuple, np.argwhere(live).tolist()):
            store.put(lane, int(slot[lane]), values[lane])
        return after

    def append_where(self, top: Any, mask: Any, values: Any, reverse: Any = False) -> tuple[LocalArray, Tensor]:
        """Stores those of `values` whose mask holds at top, top + 1, ...; returns the array and the new top."""
        store, at, keep = self.store, self._index(top), lift(mask)
        run, stored = store.run, lift(values, store.dtype)
        if not keep.dtype.is_bool or stored.dtype is not store.dtype:
            raise TypeError(f"{user_line()}: append_where takes a bool mask and {store.dtype} values, not {keep.dtype} and {stored.dtype}")
        inner = broadcast_shapes(keep.shape, stored.shape)
        turned = lift(reverse)
        shape = over_lanes(self.shape, at.shape, inner[:-1], turned.shape)
        after = self._successor(shape)
        full, count = store.grow(run.sizes(shape)), run.sizes(inner)[-1]
        tops = np.broadcast_to(run.array(at.uop), full)
        keeps, rows = (np.broadcast_to(run.array(x.uop), (*full, count)) for x in (keep, stored))
        turns = np.broadcast_to(run.array(turned.uop), full)
        new_tops = np.zeros(full, np.int32)
        for lane in map(tuple, np.argwhere(run.live_elements(full)).tolist()):
            slot = int(tops[lane])
            if not 0 <= slot <= self.length - count:
                raise LaneError(lane, f"{count} elements from {slot} on do not fit a local array of {self.length}")
            step = -1 if turns[lane] else 1
            for kept, value in zip(keeps[lane][::step], rows[lane][::step], strict=True):
                if kept:
                    store.put(lane, slot, value)
                    slot += 1
            store.defined[lane][slot : slot + count] = False
            new_tops[lane] = slot
        return after, self._value(new_tops, int32, shape)

    def _successor(self, shape: Shape) -> EagerArray:
        self.check()
        if self.born < self.store.run.depth:
            raise TraceError(
                f"{user_line()}: a local array from outside is changed inside a body that repeats; make it part of the loop's state "
                "(return it from the body)"
            )
        self.store.run.replace(self)
        return self.version(shape)

    def _value(self, array: Array, dtype: DType, shape: Shape) -> Tensor:
        """A Tensor of this shape; of lane axes that it does not have, the live lane counts."""
        run = self.store.run
        sizes, lane = run.sizes(shape), run.lane or (0,) * array.ndim
        lead = array.ndim - len(sizes)
        picked = tuple(
            slice(at, at + 1) if axis < lead or sizes[axis - lead] != size else slice(None)
            for axis, (size, at) in enumerate(zip(array.shape, lane, strict=True))
        )
        return Tensor.of(run.leaf(array[picked].reshape(sizes), dtype, shape))
