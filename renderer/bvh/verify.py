"""The verifier: what must hold of every BVH, checked against the triangles it was built from.

It trusts nothing that the builder says: the tree is walked from the root, boxes are taken from the vertices in the
leaves and compared from there upwards, and the limits that traversal kernels rely on (`depth`, `stack_bound`) are
computed anew, from the root down where the builder goes from the leaves up. Work is done on whole arrays: a quarter
of a million triangles take a fraction of a second. `statistics` and `sah_cost` tell how good a tree is, rather than
whether it is right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from renderer.bvh.wide import EMPTY_CHILD, WIDTHS, CostModel, WideBVH, half_area


class BVHError(Exception):
    """A BVH that does not hold what it promises; the message says what and where."""


def verify(bvh: WideBVH, triangles: NDArray[np.float32]) -> None:
    """Checks that `bvh` is a right BVH over `triangles`, float32[n, 3, 3], as `WideBVH` documents it.

    Every finite triangle is in one leaf slot and in no other; every child has one parent and is below the root; every
    box is the smallest around all that is below it; padding is as promised; `depth` and `stack_bound` are true.

    Raises BVHError at the first thing that is wrong.
    """
    check_arrays(bvh)
    check_slots(bvh)
    levels = check_tree(bvh)
    check_leaves(bvh, np.asarray(triangles, np.float32).reshape(-1, 9))
    check_boxes(bvh)
    check_limits(bvh, levels)


def require(right: NDArray[np.bool_], message: str) -> None:
    """Raises BVHError unless all of `right` holds; `{0}`, `{1}` in the message are the indices of the first that does
    not."""
    if not right.all():
        raise BVHError(message.format(*np.argwhere(~right)[0]))


def check_arrays(bvh: WideBVH) -> None:
    """Shapes, dtypes and memory order."""
    nodes, leaves = len(bvh.child), len(bvh.leaf_triangle)
    shapes: dict[str, tuple[type, tuple[int, ...]]] = {
        "child": (np.int32, (nodes, bvh.child.shape[-1])),
        "bounds": (np.float32, (nodes, 6, bvh.child.shape[-1])),
        "leaf_triangle": (np.int32, (leaves, bvh.leaf_triangle.shape[-1])),
        "leaf_vertices": (np.float32, (leaves, 9, bvh.leaf_triangle.shape[-1])),
        "leaf_count": (np.int32, (leaves,)),
    }
    for name, (dtype, shape) in shapes.items():
        array = getattr(bvh, name)
        if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
            raise BVHError(
                f"{name} is {array.dtype}{list(array.shape)}; it must be C-contiguous {np.dtype(dtype)}{list(shape)}"
            )
    if nodes == 0 or leaves == 0:
        raise BVHError(f"there are {nodes} nodes and {leaves} leaves; there must be at least one of each")
    if bvh.width not in WIDTHS:
        raise BVHError(f"the width is {bvh.width}; it must be one of {WIDTHS}")


def check_slots(bvh: WideBVH) -> None:
    """Empty child slots are wholly empty, and the last of their node; the others hold numbers that exist."""
    empty = bvh.empty
    plane_of_nothing = np.array([np.inf] * 3 + [-np.inf] * 3, np.float32)[:, None]
    wholly = (bvh.bounds == plane_of_nothing).all(axis=1)
    finite = np.isfinite(bvh.bounds).all(axis=1)
    require(wholly | finite, "node {0} slot {1}: the box is neither finite nor that of an empty slot")
    require(~empty | (bvh.child == EMPTY_CHILD), f"node {{0}} slot {{1}}: empty, but its child is not {EMPTY_CHILD}")
    require(~(empty[:, :-1] & ~empty[:, 1:]), "node {0} slot {1}: empty, but a child comes after it")
    known = (bvh.child >= -len(bvh.leaf_count)) & (bvh.child < len(bvh.child))
    require(known, "node {0} slot {1}: the child is neither a node nor a leaf that exists")


def check_tree(bvh: WideBVH) -> list[NDArray[np.int64]]:
    """Each node and leaf has one parent, all are below the root, parents come first. Returns the nodes of each
    level."""
    used = ~bvh.empty
    to_node, to_leaf = used & (bvh.child >= 0), used & (bvh.child < 0)
    node_parents = np.bincount(bvh.child[to_node], minlength=len(bvh.child))
    require(node_parents[:1] == 0, "node {0}, the root, is a child of another node")
    node_parents[0] = 1
    require(node_parents > 0, "node {0} has no parent")
    require(node_parents < 2, "node {0} has more than one parent")
    leaf_parents = np.bincount(~bvh.child[to_leaf], minlength=len(bvh.leaf_count))
    if used.any():
        require(leaf_parents > 0, "leaf {0} has no parent")
    require(leaf_parents < 2, "leaf {0} has more than one parent")

    reached = np.zeros(len(bvh.child), bool)
    levels = [np.zeros(1, np.int64)]
    while len(levels[-1]):
        reached[levels[-1]] = True
        levels.append(bvh.child[levels[-1]][to_node[levels[-1]]].astype(np.int64))
    require(reached, "node {0} is not below the root: it is on a cycle")
    parent = np.arange(len(bvh.child))[:, None]
    require(~to_node | (bvh.child > parent), "node {0} slot {1}: the child node comes before its parent")
    return levels[:-1]


def check_leaves(bvh: WideBVH, triangles: NDArray[np.float32]) -> None:
    """Leaves hold each finite triangle once, with its vertices, and right padding."""
    number, count = bvh.leaf_triangle, bvh.leaf_count
    no_triangles = not np.isfinite(triangles).all(axis=1).any()
    require(
        (count >= (0 if no_triangles else 1)) & (count <= bvh.leaf_size), "leaf {0}: impossible number of triangles"
    )
    filled = np.arange(bvh.leaf_size) < count[:, None]
    require(filled | (number == -1), "leaf {0} slot {1}: padding, but its triangle is not -1")
    known = (number >= 0) & (number < len(triangles))
    require(~filled | known, "leaf {0} slot {1}: there is no such triangle")
    times = np.bincount(number[filled], minlength=len(triangles))
    finite = np.isfinite(triangles).all(axis=1)
    require(times <= 1, "triangle {0} is in more than one leaf slot")
    require((times == 1) | ~finite, "triangle {0} is in no leaf")
    require((times == 0) | finite, "triangle {0} is not finite, but in a leaf")
    vertices = np.zeros((*number.shape, 9), np.float32)
    vertices[filled] = triangles[number[filled]]
    same = (bvh.leaf_vertices.transpose(0, 2, 1) == vertices).all(axis=2)
    require(same | filled, "leaf {0} slot {1}: padding, but its vertices are not zero")
    require(same, "leaf {0} slot {1}: the vertices are not those of its triangle")


def check_boxes(bvh: WideBVH) -> None:
    """The box of each child is the smallest around its triangles (of a leaf) or around its children's boxes (of a
    node).

    With every box so, each is by induction the smallest around all triangles below it.
    """
    node, slot = np.nonzero(~bvh.empty)
    child = bvh.child[node, slot]
    to_leaf = child < 0
    lower = np.empty((len(child), 3), np.float32)
    upper = np.empty((len(child), 3), np.float32)
    leaves = ~child[to_leaf]
    padding = (bvh.leaf_triangle[leaves] < 0)[:, None, None, :]
    corners = bvh.leaf_vertices[leaves].reshape(len(leaves), 3, 3, bvh.leaf_size)
    lower[to_leaf] = np.where(padding, np.inf, corners).min(axis=(1, 3))
    upper[to_leaf] = np.where(padding, -np.inf, corners).max(axis=(1, 3))
    lower[~to_leaf] = bvh.bounds[child[~to_leaf], :3].min(axis=2)
    upper[~to_leaf] = bvh.bounds[child[~to_leaf], 3:].max(axis=2)

    box = bvh.bounds[node, :, slot]
    encloses = ((box[:, :3] <= lower) & (box[:, 3:] >= upper)).all(axis=1)
    tight = ((box[:, :3] == lower) & (box[:, 3:] == upper)).all(axis=1)
    for right, message in ((encloses, "does not enclose what is below it"), (tight, "is larger than what is below it")):
        if not right.all():
            first = int(np.argmin(right))
            what = f"leaf {~child[first]}" if to_leaf[first] else f"node {child[first]}"
            raise BVHError(f"node {node[first]} slot {slot[first]}: the box of {what} {message}")


def check_limits(bvh: WideBVH, levels: list[NDArray[np.int64]]) -> None:
    """`depth` and `stack_bound`: the latter as the most that can wait above a node, and all its children."""
    if bvh.depth != len(levels):
        raise BVHError(f"depth is {bvh.depth}; the longest path has {len(levels)} nodes")
    children = (~bvh.empty).sum(axis=1)
    waiting = np.zeros(len(bvh.child), np.int64)
    for level in levels:
        node, slot = np.nonzero(~bvh.empty[level] & (bvh.child[level] >= 0))
        parent = level[node]
        waiting[bvh.child[parent, slot]] = waiting[parent] + children[parent] - 1
    needed = max(1, int((waiting + children).max()))
    if bvh.stack_bound != needed:
        raise BVHError(f"stack_bound is {bvh.stack_bound}; a traversal can need {needed} entries")


@dataclass(frozen=True)
class Statistics:
    """Figures of one BVH."""

    nodes: int
    leaves: int
    triangles: int
    depth: int
    stack_bound: int
    children_per_node: float
    leaf_fill: float
    """Filled triangle slots of leaves, as a fraction."""
    node_cost: float
    """Expected node visits of a ray that meets the root's box, of all its length."""
    leaf_cost: float
    """Expected cost of the tests in leaves, in node visits."""
    bytes: int

    @property
    def sah_cost(self) -> float:
        """Expected cost of a ray, in node visits."""
        return self.node_cost + self.leaf_cost


def statistics(bvh: WideBVH) -> Statistics:
    """Counts, fill and expected costs of a BVH."""
    used = ~bvh.empty
    node, slot = np.nonzero(used)
    lower, upper = bvh.bounds[node, :3, slot], bvh.bounds[node, 3:, slot]
    child = bvh.child[node, slot]
    to_leaf = child < 0
    cost = CostModel.of(bvh.width, bvh.leaf_size)
    node_cost, leaf_cost = cost.node, 0.0
    if len(child):
        area = half_area(lower, upper)
        root_area = float(half_area(lower.min(axis=0), upper.max(axis=0)))
        # In a scene without extent every ray that meets the root meets everything.
        hit = area / root_area if root_area > 0 else np.ones(len(child))
        node_cost += cost.node * float(hit[~to_leaf].sum())
        leaf_cost = cost.test * float((hit[to_leaf] * cost.blocks(bvh.leaf_count[~child[to_leaf]])).sum())
    arrays = (bvh.bounds, bvh.child, bvh.leaf_vertices, bvh.leaf_triangle, bvh.leaf_count)
    return Statistics(
        nodes=len(bvh.child),
        leaves=len(bvh.leaf_count),
        triangles=bvh.triangle_count,
        depth=bvh.depth,
        stack_bound=bvh.stack_bound,
        children_per_node=len(child) / len(bvh.child),
        leaf_fill=bvh.triangle_count / bvh.leaf_triangle.size,
        node_cost=node_cost,
        leaf_cost=leaf_cost,
        bytes=sum(array.nbytes for array in arrays),
    )


def sah_cost(bvh: WideBVH) -> float:
    """Expected cost of a ray that meets the root's box, in node visits, by the surface area heuristic and
    `CostModel.of`.

    Source: MacDonald and Booth 1990, "Heuristics for ray tracing using space subdivision".
    """
    return statistics(bvh).sah_cost
