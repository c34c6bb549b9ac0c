"""From a binary tree to a wide one: which binary nodes become nodes, which become leaves.

Each wide node takes the place of a small binary treelet. Which treelets are best is found exactly, by dynamic
programming from the bottom up, as Ylitie, Karras and Laine describe ("Efficient incoherent ray traversal on GPUs
through compressed wide BVHs", 2017): `forest[n, j - 1]` is the least cost of all that is below binary
node n if it may become at most j children of a node above. With one child it is a leaf or a wide node of its own,

    tree(n)      = min(area(n) * test * blocks(n),  area(n) * node + distribute(n, width))
    forest(n, j) = min(tree(n), distribute(n, j))
    distribute(n, j) = min over 0 < k < j of forest(left, k) + forest(right, j - k)

and the choices made on the way, followed from the root down, are the wide tree. Small leaves of the binary tree are
merged where a fuller leaf is cheaper. All nodes of one depth are worked on at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from renderer.bvh.binary import BinaryTree
from renderer.bvh.wide import CostModel


@dataclass(frozen=True)
class Choices:
    """The cheapest wide tree, as choices at each binary node."""

    is_leaf: NDArray[np.bool_]
    """bool[nodes]: as one child, a node is a leaf rather than a wide node."""
    to_left: NDArray[np.int8]
    """int8[nodes, width]: of at most j children, at [n, j - 1], how many the left side gets; 0 where one child is
    best."""
    to_left_inside: NDArray[np.int8]
    """int8[nodes]: the same for the children of n as a wide node."""


@dataclass(frozen=True)
class WideTopology:
    """Wide nodes and leaves by the binary nodes they stand for; children as edges, in no particular order within a
    node."""

    nodes: NDArray[np.int64]
    """int64[nodes], ascending: hence in depth-first order."""
    leaves: NDArray[np.int64]
    levels: list[NDArray[np.int64]]
    """Node numbers at each depth, the root's first."""
    parent: NDArray[np.int64]
    """int64[edges], ascending."""
    child: NDArray[np.int64]
    """int64[edges]: a node number, or -1 - leaf number."""


def choose(tree: BinaryTree, width: int, leaf_size: int, cost: CostModel) -> Choices:
    """The dynamic program over all nodes of a tree of at least one node."""
    nodes = len(tree.left)
    count = tree.end - tree.begin
    as_leaf = np.where(count <= leaf_size, tree.area * cost.test * cost.blocks(count), np.inf)
    forest = np.repeat(as_leaf[:, None], width, axis=1)
    is_leaf = np.ones(nodes, bool)
    to_left = np.zeros((nodes, width), np.int8)
    to_left_inside = np.zeros(nodes, np.int8)

    by_depth = np.argsort(tree.depth, kind="stable")
    starts = np.searchsorted(tree.depth[by_depth], np.arange(int(tree.depth[by_depth[-1]]) + 2))
    for first, last in zip(starts[-2::-1], starts[:0:-1], strict=True):
        level = by_depth[first:last]
        level = level[tree.left[level] >= 0]
        left, right = forest[tree.left[level]], forest[tree.right[level]]
        distributed = np.full((len(level), width), np.inf)
        share = np.zeros((len(level), width), np.int8)
        for k in range(1, width):
            candidate = left[:, k - 1 : k] + right[:, : width - k]
            cheaper = candidate < distributed[:, k:]
            np.copyto(distributed[:, k:], candidate, where=cheaper)
            np.copyto(share[:, k:], k, where=cheaper)
        as_node = tree.area[level] * cost.node + distributed[:, -1]
        leaf_wins = as_leaf[level] <= as_node
        one = np.where(leaf_wins, as_leaf[level], as_node)[:, None]
        share_inside = share[:, -1].copy()
        share[one <= distributed] = 0
        forest[level] = np.minimum(one, distributed)
        is_leaf[level] = leaf_wins
        to_left[level] = share
        to_left_inside[level] = share_inside
    return Choices(is_leaf, to_left, to_left_inside)


def collapse(tree: BinaryTree, width: int, leaf_size: int, cost: CostModel) -> WideTopology:
    """The cheapest wide tree under a binary tree. Its root is a wide node, if need be over a single leaf, or over
    nothing."""
    nothing = np.empty(0, np.int64)
    if len(tree.left) == 0:
        return WideTopology(np.zeros(1, np.int64), nothing, [np.zeros(1, np.int64)], nothing, nothing)
    if tree.left[0] < 0:
        zero = np.zeros(1, np.int64)
        return WideTopology(zero, zero, [zero], zero, np.full(1, -1))
    choices = choose(tree, width, leaf_size, cost)
    levels: list[NDArray[np.int64]] = []
    parents: list[NDArray[np.int64]] = []
    children: list[NDArray[np.int64]] = []
    level = np.zeros(1, np.int64)
    while len(level):
        levels.append(level)
        parent, child = expand(tree, choices, level, width)
        parents.append(parent)
        children.append(child)
        level = child[~choices.is_leaf[child]]
    parent, child = np.concatenate(parents), np.concatenate(children)
    nodes = np.sort(np.concatenate(levels))
    leaves = np.sort(child[choices.is_leaf[child]])
    node_number = np.zeros(len(tree.left), np.int64)
    node_number[nodes] = np.arange(len(nodes))
    child_number = node_number.copy()
    child_number[leaves] = -1 - np.arange(len(leaves))
    by_parent = np.argsort(parent, kind="stable")
    return WideTopology(
        nodes=nodes,
        leaves=leaves,
        levels=[node_number[level] for level in levels],
        parent=node_number[parent[by_parent]],
        child=child_number[child[by_parent]],
    )


def expand(
    tree: BinaryTree, choices: Choices, nodes: NDArray[np.int64], width: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The children of wide nodes: edges (parent, child), both as binary nodes."""
    share = choices.to_left_inside[nodes].astype(np.int64)
    parent = np.concatenate((nodes, nodes))
    node = np.concatenate((tree.left[nodes], tree.right[nodes])).astype(np.int64)
    budget = np.concatenate((share, width - share))
    parents, children = [], []
    while len(node):
        share = choices.to_left[node, budget - 1].astype(np.int64)
        done = share == 0
        parents.append(parent[done])
        children.append(node[done])
        split, share = np.flatnonzero(~done), share[~done]
        parent = np.concatenate((parent[split], parent[split]))
        budget = np.concatenate((share, budget[split] - share))
        node = np.concatenate((tree.left[node[split]], tree.right[node[split]])).astype(np.int64)
    return np.concatenate(parents), np.concatenate(children)
