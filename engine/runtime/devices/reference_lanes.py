"""Where the interpreter keeps the values of lanes.

Control flow could be done with masks. Here it is done with *frames*: a frame holds the values of those lanes that
are live in a block, and of no others. An arm of a branch, or a loop that some lanes have left, runs in a child frame
with fewer lanes; a value from outside is looked up in the parent, gathered to the lanes of the child, and kept
there. So a masked lane cannot load, store, set or vote, dead lanes cost nothing, and a value used outside the block
that computed it is not found.

A value is an array [lanes] or, for a vector of T elements, [lanes, T]. A first axis of length 1 says that all lanes
have that value; such a value is the same in every child frame. A private array is a handle: storage shared by all its
versions, and the row of the storage that each lane of the frame owns.

`Walk` is the order of lanes. Lanes of a group are neighbours in it, so in every frame the live lanes of a group are
a run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.graph.dtypes import ArrayType

Array = NDArray[Any]

GROUP = "group"  # key of the value that tells each lane's group


class PrivateArray:
    """A private array as a frame sees it: lane i owns row `rows[i]` of `data`; `defined` marks what was set."""

    __slots__ = ("data", "defined", "rows")

    def __init__(self, data: Array, defined: Array, rows: Array) -> None:
        self.data, self.defined, self.rows = data, defined, rows

    @staticmethod
    def new(kind: ArrayType, lanes: int) -> PrivateArray:
        """A new array for each lane, contents undefined."""
        shape = (lanes, kind.length)
        return PrivateArray(np.zeros(shape, kind.dtype.numpy), np.zeros(shape, np.bool_), np.arange(lanes))

    @property
    def length(self) -> int:
        return int(self.data.shape[1])


def select(value: Any, rows: Array) -> Any:
    """A value, restricted to some of its lanes."""
    if isinstance(value, PrivateArray):
        return PrivateArray(value.data, value.defined, value.rows[rows])
    return value if len(value) == 1 else value[rows]


def same_storage(a: Any, b: Any) -> bool:
    """Whether two values, if they are private arrays, are versions of one array."""
    return not isinstance(a, PrivateArray) or a.data is b.data


def merge(lanes: int, pieces: Sequence[tuple[Array, Any]]) -> Any:
    """One value for all lanes from the values of disjoint sets of lanes: (rows, value for these rows), covering all."""
    first = pieces[0][1]
    if isinstance(first, PrivateArray):
        merged = np.zeros(lanes, first.rows.dtype)
        for rows, piece in pieces:
            merged[rows] = piece.rows
        return PrivateArray(first.data, first.defined, merged)
    out = np.zeros((lanes, *first.shape[1:]), first.dtype)
    for rows, piece in pieces:
        out[rows] = piece
    return out


class Frame:
    """Values of the lanes that are live in a block. `rows`: these lanes among the parent's, None for all of them."""

    __slots__ = ("lanes", "parent", "rows", "shared", "values")

    def __init__(self, parent: Frame | None, lanes: int, rows: Array | None = None) -> None:
        self.parent, self.lanes, self.rows = parent, lanes, rows
        self.values: dict[object, Any] = {}
        self.shared: dict[object, Any] = parent.shared if parent is not None else {}  # constants: the same everywhere

    def child(self, rows: Array | None = None) -> Frame:
        """A frame inside this one, of all its lanes or of some."""
        return Frame(self, self.lanes if rows is None else len(rows), rows)

    def get(self, key: object) -> Any:
        """The value of a node (or another key) for these lanes. Raises LookupError where no block around has it."""
        value = self.values.get(key)
        if value is None:
            value = self.shared.get(key)
        if value is None:
            if self.parent is None:
                raise LookupError(f"{key!r} is used where no block around has computed it")
            value = self.parent.get(key)
            if self.rows is not None:
                value = self.values[key] = select(value, self.rows)
        return value

    def full(self, key: object) -> Array:
        """The value with one row a lane, even where all lanes have the same."""
        value: Array = self.get(key)
        return value if len(value) == self.lanes else np.broadcast_to(value, (self.lanes, *value.shape[1:]))


class Walk:
    """The order in which groups pass over the domain, and which lanes make up a group.

    "linear": lanes in row order, cut into groups regardless of rows. "rows": the same along each row, the last group of
    a row partial. "tiles": tiles over the last two axes, square where the width is a square (16 lanes are 4 x 4), else
    twice as wide as high (8 are 2 x 4); tiles at the border are partial.
    """

    def __init__(self, kind: str, sizes: Sequence[int], width: int) -> None:
        self.sizes, self.width = tuple(sizes), width
        total = math.prod(sizes)
        if kind == "linear":
            plane, tile_height = (1, total), 1
        elif kind == "rows":
            plane, tile_height = (1, sizes[-1] if sizes else 1), 1
        elif kind == "tiles":
            plane, tile_height = (sizes[-2], sizes[-1]), 1 << ((width.bit_length() - 1) // 2)
        else:
            raise ValueError(f"no such walk: {kind!r}")
        self.plane, self.tile = plane, (tile_height, width // tile_height)
        area = math.prod(plane)
        self.grid = tuple(-(-size // tile) for size, tile in zip(plane, self.tile))
        self.groups = (total // area if area else 0) * math.prod(self.grid)

    def lanes(self, first: int, last: int) -> tuple[list[Array], Array]:
        """Coordinates along each axis, and group (from 0), of the lanes of groups `first` to `last` (exclusive)."""
        group, place = np.divmod(np.arange(first * self.width, min(last, self.groups) * self.width), self.width)
        outer, tile = np.divmod(group, max(1, math.prod(self.grid)))
        y = tile // self.grid[1] * self.tile[0] + place // self.tile[1]
        x = tile % self.grid[1] * self.tile[1] + place % self.tile[1]
        inside = (y < self.plane[0]) & (x < self.plane[1])
        flat = ((outer * self.plane[0] + y) * self.plane[1] + x)[inside]
        coordinates = np.unravel_index(flat, self.sizes) if self.sizes else ()
        return list(coordinates), group[inside] - first
