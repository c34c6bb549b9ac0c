"""A binary tree as rows of four floats, for lanes that walk alone.

A lane that goes its own way fetches a row, where a vector of lanes or of children would fetch columns; and a row is loaded four floats at
a time. So what belongs together stands together, in rows of a multiple of four floats, and what is no float is in them by its bits.

Nodes, 16 floats: of each of two children the low corner of its box, the child, the high corner, nothing. A child is the row of a node, or
-1 - the row of a leaf's first pair; one that is not there has a box at infinity, which nothing hits. Row 0 is no node: 0 says that there
is nothing left to visit. The root is in row 1.

Pairs (see `pairs`), 20 floats where all are flat, else 24: the corners p, q, r, s, each with one number more: that of the first triangle,
of the second, whether another pair of the leaf follows (1.0 or 0.0), whether they have both sides (as well); then the unit normal of the
first triangle, nothing, and, unless pairs are flat, that of the second.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renderer.bvh.pairs import Pairs
from renderer.bvh.wide import WideBVH

WIDTH = 2  # children of a node
DONE = 0  # the number of no node and no pair
ROOT = 1  # row of the root


class TreeRows(NamedTuple):
    """nodes: float32[nodes + 1, 16]; pairs: float32[pairs, 20 or 24], at least one."""

    nodes: NDArray[np.float32]
    pairs: NDArray[np.float32]


def tree_rows(bvh: WideBVH, bounds: NDArray[np.float32], pairs: Pairs) -> TreeRows:
    """The rows of a tree with two children a node. `bounds`: its boxes, as they are to be tested; `pairs`: its leaves."""
    count = np.maximum(pairs.number, 1)  # an empty leaf has a pair that nothing hits
    return TreeRows(node_rows(bvh, bounds, np.cumsum(count, dtype=np.int64) - count), _pairs(pairs, count))


def bits(numbers: NDArray[np.int32]) -> NDArray[np.float32]:
    """Whole numbers as the floats of the same bits."""
    return np.ascontiguousarray(numbers, np.int32).view(np.float32)


def node_rows(bvh: WideBVH, bounds: NDArray[np.float32], first: NDArray[np.int64]) -> NDArray[np.float32]:
    """float32[nodes + 1, 16]. `first`: int64[leaves], what stands first in each leaf: a pair, or whatever else the tree is over."""
    rows = np.zeros((len(bounds) + ROOT, WIDTH, 2, 4), np.float32)
    rows[:ROOT, :, :, :3] = np.inf
    boxes = np.where(bvh.empty[:, None, :], np.float32(np.inf), bounds).transpose(0, 2, 1)
    rows[ROOT:, :, 0, :3], rows[ROOT:, :, 1, :3] = boxes[..., :3], boxes[..., 3:]
    child = bvh.child
    rows[ROOT:, :, 0, 3] = bits(np.where(child < 0, -1 - first[np.maximum(-1 - child, 0)], child + ROOT).astype(np.int32))
    return rows.reshape(len(rows), -1)


def _pairs(pairs: Pairs, count: NDArray[np.int32]) -> NDArray[np.float32]:
    leaves, most = pairs.rows.shape[:2]
    place = np.arange(most)
    rows = np.zeros((leaves, most, 6, 4), np.float32)
    rows[..., :3] = pairs.rows.reshape(leaves, most, 6, 3)
    rows[..., 0:2, 3] = bits(pairs.triangle)
    rows[..., 2, 3] = place + 1 < count[:, None]
    rows[..., 3, 3] = pairs.mark
    return np.ascontiguousarray(rows[place < count[:, None]][:, : 5 if pairs.flat else 6]).reshape(-1, 20 if pairs.flat else 24)
