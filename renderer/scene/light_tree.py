"""The tree by which one of many emissive triangles is chosen, built on the host (`shading.light_tree` says what for, and the rows).

Which lights stand together is decided by the builder of the scene's own tree, which is compiled: it splits their boxes by the surface
area heuristic down to single triangles. What a node knows of the lights below it, power, mean and variance of their places and mean of
their normals (both weighed by power), follows from its children, all nodes of a level at once, from the leaves up.

A light that shines from both sides has a normal and its opposite. Where there is one below a node, the node is taken to shine from both
sides too, and the normals of its children count as if on one side of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine import Tensor
from renderer.bvh.binary import BinaryTree, build_binary, triangle_boxes
from renderer.bvh.rows import bits
from renderer.bvh.wide import CostModel
from renderer.scene.parts import Lamps, Parts
from renderer.shading.light_tree import LINKS_ROW, NODES_ROW, LightTree

Floats = NDArray[np.float64]

_BINS = 16  # as the scene's tree has them: one compiled builder
_WEAKEST = 1e-30  # of the strongest light's power: shares of less are no float32


class LightRows(NamedTuple):
    """As `LightTree` has them: float32[lights - 1, NODES_ROW], float32[lights - 1, LINKS_ROW], int32[lights]."""

    nodes: NDArray[np.float32]
    links: NDArray[np.float32]
    place: NDArray[np.int32]


class _Nodes(NamedTuple):
    """Of all nodes: power float64[n], mean place [n, 3] and its variance [n], mean normal [n, 3], both: bool[n], two-sided."""

    power: Floats
    centre: Floats
    variance: Floats
    normal: Floats
    both: NDArray[np.bool_]


def light_tree(
    parts: Parts, lamps: Lamps, power: Floats, two_sided: NDArray[np.bool_], named: Callable[[str, NDArray[Any]], Tensor]
) -> LightTree:
    """The tree over the lamps of a scene's parts, on the device. power, two_sided: see `light_rows`; `named` makes a table of a named
    size."""
    rows = light_rows(lamps.corners, power, two_sided)
    light = np.zeros(len(parts.soup), np.int32)
    light[lamps.triangle] = lamps.rank
    nodes, links = (named("light_pairs", table) for table in (rows.nodes, rows.links))
    first = None
    if parts.placings is not None:
        numbers = np.zeros(len(parts.placings), np.int32)
        numbers[lamps.placing] = np.arange(len(lamps.rank), dtype=np.int32) - lamps.rank  # the same for all lamps of a placing
        first = named("placings", numbers)
    return LightTree(nodes, links, named("lights", rows.place), named("triangles", light), first)


def light_rows(corners: NDArray[np.float32], power: Floats, two_sided: NDArray[np.bool_]) -> LightRows:
    """The tree over emissive triangles, at least two. corners: float32[n, 3, 3], all finite; power: float64[n], in any unit, not all 0 (but
    some: far from the origin what is small may have no area left); two_sided: bool[n]."""
    tree = build_binary(*triangle_boxes(corners), leaf_size=1, bins=_BINS, cost=CostModel.of(2, 1), split_cost=1.0)
    inner = np.flatnonzero(tree.left >= 0)
    children = np.stack([tree.left[inner], tree.right[inner]], 1)
    leaves = np.flatnonzero(tree.left < 0)
    light = tree.order[tree.begin[leaves]]
    link = np.empty(len(tree.left), np.int32)
    link[inner], link[leaves] = np.arange(len(inner)), -1 - light
    place = np.full(len(tree.left), -1, np.int32)
    place[children] = 2 * np.arange(len(inner))[:, None] + (0, 1)
    known = _nodes(tree, leaves, corners[light].astype(np.float64), power[light], two_sided[light])
    nodes = np.zeros((len(inner), 2, NODES_ROW // 2), np.float32)
    nodes[..., 0:3], nodes[..., 3] = known.centre[children], known.variance[children] / 2
    nodes[..., 4:7], nodes[..., 7] = known.normal[children], (1 - (known.normal**2).sum(1)).clip(0)[children] / 4
    links = np.zeros((len(inner), 2, LINKS_ROW // 2), np.float32)
    links[..., 0] = np.where(known.both[children], 1.0, 0.5)
    links[..., 1] = known.power[children] / known.power[inner, None]
    links[..., 2], links[..., 3] = bits(link[children]), bits(place[inner])[:, None]
    return LightRows(nodes.reshape(-1, NODES_ROW), links.reshape(-1, LINKS_ROW), place[leaves][np.argsort(light)])


def _nodes(tree: BinaryTree, leaves: NDArray[np.int64], corners: Floats, power: Floats, two_sided: NDArray[np.bool_]) -> _Nodes:
    """What is known of all nodes. leaves: the numbers of those that are; corners, power, two_sided: of the light in each."""
    count = len(tree.left)
    total, variance, both = np.empty(count), np.empty(count), np.empty(count, np.bool_)
    centre, normal = np.empty((count, 3)), np.empty((count, 3))
    middle = corners.mean(1)
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    total[leaves], both[leaves] = np.maximum(power, _WEAKEST * power.max()), two_sided
    centre[leaves], variance[leaves] = middle, ((corners - middle[:, None]) ** 2).sum((1, 2)) / 12
    normal[leaves] = cross / np.maximum(np.linalg.norm(cross, axis=1), 1e-300)[:, None]
    by_depth = np.argsort(tree.depth, kind="stable")
    for level in reversed(np.split(by_depth, np.flatnonzero(np.diff(tree.depth[by_depth])) + 1)):
        node = level[tree.left[level] >= 0]
        one, two = tree.left[node], tree.right[node]
        total[node], both[node] = total[one] + total[two], both[one] | both[two]
        a, b = total[one] / total[node], total[two] / total[node]
        apart = centre[two] - centre[one]
        centre[node] = centre[one] + b[:, None] * apart
        variance[node] = a * variance[one] + b * variance[two] + a * b * (apart**2).sum(1)
        turned = both[node] & ((normal[one] * normal[two]).sum(1) < 0)
        normal[node] = a[:, None] * normal[one] + np.where(turned, -b, b)[:, None] * normal[two]
    return _Nodes(total, centre, variance, normal, both)
