"""From triangles to a binary tree: boxes in, nodes out, on several threads.

The compiled builder (`kernel.py`) wants boxes scaled into the unit cube and splits what it is given. Here the boxes
are made, the top of the tree is built in one call, and the subtrees that this leaves are shared among threads: ctypes
releases the GIL, the subtrees touch disjoint parts of every array, and a node's number follows from its place in the
tree, so the result does not depend on the number of threads.

Triangles with a NaN or an infinite coordinate can never be hit and have no box: they are left out.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from renderer.bvh.kernel import subtree_builder
from renderer.bvh.wide import CostModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

SMALLEST_TASK = 2048
"""Boxes in a subtree below which another task is not worth its thread's while."""

TASKS_PER_THREAD = 8
"""Subtrees are of unequal cost: this many for each thread keep all of them busy to the end."""


@dataclass(frozen=True)
class BinaryTree:
    """A binary tree over `order`, nodes in depth-first order; a node's triangles are `order[begin:end]`."""

    order: NDArray[np.int32]
    """int32[finite triangles]: triangle numbers, those of a subtree side by side."""
    begin: NDArray[np.int32]
    end: NDArray[np.int32]
    left: NDArray[np.int32]
    """int32[nodes]: the left child, -1 in leaves."""
    right: NDArray[np.int32]
    depth: NDArray[np.int32]
    """int32[nodes]: edges between the root and the node."""
    area: NDArray[np.float64]
    """float64[nodes]: half the surface of the node's box, in units of the scene's largest extent."""


def triangle_boxes(triangles: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Smallest and largest coordinates, float32[n, 3] each, of triangles [n, 3, 3]."""
    a, b, c = triangles[:, 0], triangles[:, 1], triangles[:, 2]
    return np.minimum(np.minimum(a, b), c), np.maximum(np.maximum(a, b), c)


def build_binary(
    lower: NDArray[np.float32],
    upper: NDArray[np.float32],
    *,
    leaf_size: int,
    bins: int,
    cost: CostModel,
    split_cost: float,
    threads: int | None = None,
) -> BinaryTree:
    """Builds a tree over boxes by the surface area heuristic, binned (Wald 2007, "On fast construction of SAH-based
    bounding volume hierarchies").

    `lower`, `upper` are float32[n, 3]. A node of at most `leaf_size` boxes stays a leaf where splitting, which costs
    `split_cost` more visits, would not pay. `threads` defaults to the CPUs this process may use.
    """
    order = np.flatnonzero(np.isfinite(lower).all(axis=1) & np.isfinite(upper).all(axis=1)).astype(np.int32)
    count = len(order)
    if count == 0:
        nothing = np.empty(0, np.int32)
        return BinaryTree(order, nothing, nothing, nothing, nothing, nothing, np.empty(0))
    boxes = scaled_boxes(lower, upper, order)
    node_box = np.empty((2 * count - 1, 8), np.float32)
    node_link = np.zeros((2 * count - 1, 4), np.int32)
    build_subtree = subtree_builder(bins)

    def build(tasks: NDArray[np.int32], grain: int) -> int:
        addresses = (array.ctypes.data for array in (boxes, order, node_box, node_link, tasks))
        return build_subtree(*addresses, grain, leaf_size, 1.0 / cost.block, cost.block - 0.5, split_cost)

    threads = threads or available_cpus()
    grain = max(count // (threads * TASKS_PER_THREAD), SMALLEST_TASK) if threads > 1 and count > SMALLEST_TASK else 0
    tasks = np.empty((count, 4), np.int32)  # no more subtrees than boxes
    tasks[0] = 0, 0, count, 0
    deferred = tasks[: build(tasks, grain)]
    if len(deferred):
        from concurrent.futures import ThreadPoolExecutor  # not needed for small scenes

        largest_first = deferred[np.argsort(deferred[:, 1] - deferred[:, 2], kind="stable")]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda task: build(task, 0), largest_first))
    return compacted(order, node_box, node_link)


def available_cpus() -> int:
    """CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def scaled_boxes(
    lower: NDArray[np.float32], upper: NDArray[np.float32], order: NDArray[np.int32]
) -> NDArray[np.float32]:
    """float32[len(order), 8]: boxes as the compiled builder wants them, the scene's largest extent scaled to 1."""
    if len(order) < len(lower):
        lower, upper = lower[order], upper[order]
    origin = lower.min(axis=0).astype(np.float64)
    extent = float((upper.max(axis=0) - origin).max())
    scale = 1.0 / extent if extent > 0 else 1.0
    boxes = np.zeros((len(order), 8), np.float32)
    for axis in range(3):
        boxes[:, axis] = (lower[:, axis] - origin[axis]) * scale
        boxes[:, 4 + axis] = (origin[axis] - upper[:, axis]) * scale
    return boxes


def compacted(order: NDArray[np.int32], node_box: NDArray[np.float32], node_link: NDArray[np.int32]) -> BinaryTree:
    """The tree without the gaps that the compiled builder leaves between its nodes."""
    used = np.flatnonzero(node_link[:, 1])
    begin, end, right, depth = np.ascontiguousarray(node_link[used].T)
    inner = right > 0
    numbers = np.arange(len(used), dtype=np.int32)
    right_number = np.searchsorted(used, right).astype(np.int32)
    extent = -(node_box[used, :3].astype(np.float64) + node_box[used, 4:7])
    x, y, z = extent.T
    return BinaryTree(
        order=order,
        begin=begin,
        end=end,
        left=np.where(inner, numbers + 1, -1).astype(np.int32),
        right=np.where(inner, right_number, -1).astype(np.int32),
        depth=depth,
        area=x * (y + z) + y * z,
    )
