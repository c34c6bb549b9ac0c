"""The wide BVH: what traversal kernels read, and the cost model that decides its shape.

A node holds the boxes of up to `width` children, plane by plane: the sixteen smallest x of sixteen children are
contiguous, so that one vector load reads one plane and one ray is tested against all children at once. A leaf holds
the vertices of up to `leaf_size` triangles in the same manner. Unused child slots have boxes turned inside out,
unused triangle slots have no extent: neither is hit, so that kernels need no counts. On its way to the device the
padding of leaves becomes NaN, since a test that compares rounded products takes the edge of a point for covered.

A pitfall: "never" holds for a slab test that takes the near plane by the sign of the ray's direction (near comes out
as +inf, far as -inf). A test that takes the smaller and the larger of the two distances turns an empty box outside in
again, and hits.

Nodes and leaves are numbered in depth-first order: parents come before their children and subtrees are contiguous.

Cost is measured in tests of a ray against one node, whatever its width: the tests of a node's children run side by
side. So do those of a leaf's triangles where the tree is wide, one triangle test costing about as much as one node.
Trees of width 2 are for packets: there the SIMD lanes hold rays, and the triangles of a leaf are tested one after
another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WIDTHS = (2, 4, 8, 16)
"""Numbers of children a node can have."""

EMPTY_CHILD = -1
"""What `WideBVH.child` holds in an empty slot: leaf 0, which always exists, so that even a stray load is in
bounds."""


@dataclass(frozen=True)
class WideBVH:
    """A bounding volume hierarchy over triangles; node 0 is the root, always a node, even over no triangles.

    Lengths are those of the triangles. Arrays are C-contiguous.
    """

    bounds: NDArray[np.float32]
    """float32[nodes, 6, width]: planes min x, y, z, max x, y, z over the children. An empty slot has min +inf and max
    -inf, which a slab test with planes chosen by the ray's sign never hits; see the head of the file."""
    child: NDArray[np.int32]
    """int32[nodes, width]: a node's number, or `~leaf` (= -1 - leaf). Empty slots, always the last, hold
    `EMPTY_CHILD`."""
    leaf_vertices: NDArray[np.float32]
    """float32[leaves, 9, leaf_size]: x, y, z of the first, the second, the third vertex over the triangles; padded
    with zeros, which have no extent (NaN on the device). A BVH has at least one leaf, if only an empty one that no node
    refers to."""
    leaf_triangle: NDArray[np.int32]
    """int32[leaves, leaf_size]: index of the input triangle in each slot, -1 in padding, which comes last."""
    leaf_count: NDArray[np.int32]
    """int32[leaves]: triangles in each leaf."""
    depth: int
    """Nodes on the longest path from the root."""
    stack_bound: int
    """Most entries, leaves among them, on the stack of a traversal that starts with the root on it, then pops one
    entry and pushes all children, in whatever order, until none is left."""

    @property
    def width(self) -> int:
        """Children a node can have."""
        return int(self.child.shape[1])

    @property
    def leaf_size(self) -> int:
        """Triangles a leaf can have."""
        return int(self.leaf_triangle.shape[1])

    @property
    def triangle_count(self) -> int:
        """Triangles in the tree: those of the input that are finite."""
        return int(self.leaf_count.sum())

    @property
    def empty(self) -> NDArray[np.bool_]:
        """bool[nodes, width]: slots without a child."""
        return np.asarray(self.bounds[:, 0] == np.inf)


@dataclass(frozen=True)
class CostModel:
    """What a ray pays, in node visits."""

    block: int
    """Triangles that are tested at once."""
    node: float = 1.0
    """Visit of one node."""
    test: float = 1.0
    """Test of one block of triangles."""

    @staticmethod
    def of(width: int, leaf_size: int) -> CostModel:
        """The model of trees of this shape: see the head of this file."""
        return CostModel(block=1 if width == 2 else leaf_size)

    def blocks(self, triangles: NDArray[np.int32]) -> NDArray[np.int32]:
        """Blocks that leaves of these numbers of triangles take."""
        return (triangles + (self.block - 1)) // self.block


def half_area(lower: NDArray[np.float32], upper: NDArray[np.float32]) -> NDArray[np.float64]:
    """Half the surface of boxes [..., 3], in float64."""
    x, y, z = np.moveaxis(upper.astype(np.float64) - lower, -1, 0)
    return np.asarray(x * (y + z) + y * z)


def path_limits(child: NDArray[np.int32], empty: NDArray[np.bool_], levels: list[NDArray[np.int64]]) -> tuple[int, int]:
    """`depth` and `stack_bound` of a tree, from its levels: arrays of node numbers, the root's first.

    A traversal that has popped a node with c children holds c entries. While it is below one child the other c - 1
    can all be waiting, since nothing is assumed of the order. Hence need(node) = c - 1 + max(1, need of its child
    nodes).
    """
    need = np.ones(child.shape[0], np.int64)
    for nodes in reversed(levels):
        children = child[nodes]
        below = np.where(children >= 0, need[np.maximum(children, 0)], 1).max(axis=1, initial=1)
        waiting = np.maximum((~empty[nodes]).sum(axis=1) - 1, 0)
        need[nodes] = waiting + below
    return len(levels), int(need[0])
