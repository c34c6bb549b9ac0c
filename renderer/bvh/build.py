"""`build`: triangles to a wide BVH.

Three steps: a binary tree of triangle boxes by binned SAH (`binary.py`, compiled), the cheapest wide tree in it
(`collapse.py`), and here the arrays that kernels read. Boxes are taken anew from the triangles, since the binary tree
knows them only scaled and rounded: the bounds of a child are exactly the smallest and largest coordinates below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from renderer.bvh.binary import build_binary, triangle_boxes
from renderer.bvh.collapse import WideTopology, collapse
from renderer.bvh.wide import EMPTY_CHILD, WIDTHS, CostModel, WideBVH, path_limits

if TYPE_CHECKING:
    from numpy.typing import NDArray


def build(
    triangles: NDArray[np.float32], *, width: int, leaf_size: int, bins: int = 16, threads: int | None = None
) -> WideBVH:
    """Builds a BVH over `triangles`, float32[n, 3, 3] (triangle, vertex, x y z), n from 0 up.

    `width` is the number of children a node can have: 2, 4, 8 or 16; `leaf_size` the number of triangles a leaf can
    have, 1 to 64; `bins` the number of planes tried along each axis, plus one, 2 to 64. `threads` defaults to the
    CPUs this process may use. The result depends on the triangles and the shape only.

    Triangles without an area are kept (nothing ever hits them); triangles with a NaN or infinite coordinate are left
    out, and `triangle_count` of the result tells how many are in.

    Raises ValueError for an array that is not of that shape, and for a width, leaf size or number of bins out of
    range.
    """
    triangles = np.ascontiguousarray(triangles, np.float32)
    if triangles.ndim != 3 or triangles.shape[1:] != (3, 3):
        raise ValueError(
            f"triangles have shape {triangles.shape}; they must be [n, 3, 3]: triangle, vertex, coordinate"
        )
    if width not in WIDTHS:
        raise ValueError(f"width is {width}; a BVH can have 2, 4, 8 or 16 children a node")
    if not 1 <= leaf_size <= 64:
        raise ValueError(f"leaf_size is {leaf_size}; a leaf can have 1 to 64 triangles")
    if not 2 <= bins <= 64:
        raise ValueError(f"bins is {bins}; there can be 2 to 64 bins an axis")
    cost = CostModel.of(width, leaf_size)
    lower, upper = triangle_boxes(triangles)
    # A wide node stands for log2(width) levels of the binary tree.
    split_cost = cost.node / np.log2(width)
    tree = build_binary(lower, upper, leaf_size=leaf_size, bins=bins, cost=cost, split_cost=split_cost, threads=threads)
    topology = collapse(tree, width, leaf_size, cost)
    begin, end = tree.begin[topology.leaves], tree.end[topology.leaves]
    leaf_triangle = pack_leaves(tree.order, begin, end, leaf_size)
    leaf_lower = np.minimum.reduceat(lower[tree.order], begin, axis=0) if len(begin) else lower[:0]
    leaf_upper = np.maximum.reduceat(upper[tree.order], begin, axis=0) if len(begin) else upper[:0]
    bounds, child = pack_nodes(topology, leaf_lower, leaf_upper, width)
    depth, stack_bound = path_limits(child, bounds[:, 0] == np.inf, topology.levels)
    return WideBVH(
        bounds=bounds,
        child=child,
        leaf_vertices=vertices_of(triangles, leaf_triangle),
        leaf_triangle=leaf_triangle,
        leaf_count=(leaf_triangle >= 0).sum(axis=1).astype(np.int32),
        depth=depth,
        stack_bound=stack_bound,
    )


def pack_leaves(
    order: NDArray[np.int32], begin: NDArray[np.int32], end: NDArray[np.int32], leaf_size: int
) -> NDArray[np.int32]:
    """`leaf_triangle` of leaves over `order[begin:end]`; one empty leaf if there are none."""
    if len(begin) == 0:
        return np.full((1, leaf_size), -1, np.int32)
    position = begin[:, None] + np.arange(leaf_size)
    filled = position < end[:, None]
    return np.where(filled, order[np.minimum(position, len(order) - 1)], -1).astype(np.int32)


def vertices_of(triangles: NDArray[np.float32], leaf_triangle: NDArray[np.int32]) -> NDArray[np.float32]:
    """`leaf_vertices` for the triangles in each leaf."""
    leaves, leaf_size = leaf_triangle.shape
    if not len(triangles):
        return np.zeros((leaves, 9, leaf_size), np.float32)
    corners = triangles.reshape(-1, 9).take(leaf_triangle, axis=0, mode="clip")
    corners[leaf_triangle < 0] = 0
    return np.ascontiguousarray(corners.transpose(0, 2, 1))


def pack_nodes(
    topology: WideTopology, leaf_lower: NDArray[np.float32], leaf_upper: NDArray[np.float32], width: int
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """`bounds` and `child`: boxes from the leaves up, then the children of each node put in order.

    Children are ordered by their centres along the longest side of their node: neighbours in space are neighbours in
    the vector, and a ray that runs along that side meets the slots about in order, or in the reverse order.
    """
    nodes = len(topology.nodes)
    parent, edge_child = topology.parent, topology.child
    slot = np.arange(len(parent)) - np.searchsorted(parent, np.arange(nodes))[parent]
    child = np.full((nodes, width), EMPTY_CHILD, np.int32)
    child[parent, slot] = edge_child
    lower = np.full((nodes, width, 3), np.inf, np.float32)
    upper = np.full((nodes, width, 3), -np.inf, np.float32)
    to_leaf = edge_child < 0
    lower[parent[to_leaf], slot[to_leaf]] = leaf_lower[-1 - edge_child[to_leaf]]
    upper[parent[to_leaf], slot[to_leaf]] = leaf_upper[-1 - edge_child[to_leaf]]
    edge = np.zeros(nodes, np.int64)
    edge[edge_child[~to_leaf]] = np.flatnonzero(~to_leaf)
    for level in topology.levels[:0:-1]:
        above = edge[level]
        lower[parent[above], slot[above]] = lower[level].min(axis=1)
        upper[parent[above], slot[above]] = upper[level].max(axis=1)

    empty = lower[:, :, 0] == np.inf
    with np.errstate(invalid="ignore"):  # inf - inf in empty slots, and in the root over nothing
        extent = upper.max(axis=1).astype(np.float64) - lower.min(axis=1)
        centre = upper.astype(np.float64) + lower
    axis = np.argmax(extent, axis=1)
    key = np.where(empty, np.inf, np.take_along_axis(centre, axis[:, None, None], axis=2)[:, :, 0])
    by_centre = np.argsort(key, axis=1, kind="stable")
    planes = np.concatenate((lower, upper), axis=2)
    planes = np.take_along_axis(planes, by_centre[:, :, None], axis=1)
    return np.ascontiguousarray(planes.transpose(0, 2, 1)), np.take_along_axis(child, by_centre, axis=1)
