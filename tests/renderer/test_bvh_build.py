"""BVHs: built over anything, right by the verifier, right by brute force, and cheap."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from renderer.bvh import WIDTHS, BVHError, WideBVH, build, sah_cost, statistics, verify
from renderer.bvh.benchmark import bumpy_spheres
from renderer.bvh.benchmark import main as benchmark
from renderer.bvh.binary import BinaryTree, build_binary, triangle_boxes
from renderer.bvh.collapse import choose, collapse
from renderer.bvh.wide import CostModel, half_area

Triangles = NDArray[np.float32]
SHAPES = [(2, 4), (4, 4), (8, 8), (16, 16), (16, 1), (2, 1), (8, 3)]


# ---- triangles to build over ---------------------------------------------------------------------------------------


def soup(count: int, seed: int, size: float = 0.1) -> Triangles:
    random = np.random.default_rng(seed)
    place = random.uniform(-1, 1, (count, 1, 3))
    return (place + random.normal(0, size, (count, 3, 3))).astype(np.float32)


def spoil(triangles: Triangles, kind: str, seed: int) -> Triangles:
    """Turns a soup into one of the kinds that are hard on builders."""
    random = np.random.default_rng(seed)
    n = len(triangles)
    match kind:
        case "identical":
            triangles[:] = triangles[:1]
        case "equal centroids":
            triangles -= triangles.mean(axis=1, keepdims=True)
        case "centroids on a line":
            triangles += random.normal(size=(n, 1, 1)) * np.array([3, 1, -2]) - triangles.mean(axis=1, keepdims=True)
        case "flat":
            triangles[:, :, 1] = 0.25
        case "points":
            triangles[:, 1:] = triangles[:, :1]
        case "on a line":
            triangles[:, :, 1:] = 0
        case "clusters":
            triangles = triangles * 1e-4 + random.integers(0, 3, (n, 1, 3))
        case "geometric":
            triangles *= np.exp2(-np.arange(n, dtype=np.float64))[:, None, None] + 1e-30
        case "not finite":
            triangles[random.random(n) < 0.3, 1, 2] = random.choice([np.nan, np.inf, -np.inf])
    return triangles.astype(np.float32)


KINDS = [
    "soup", "identical", "equal centroids", "centroids on a line", "flat", "points", "on a line", "clusters",
    "geometric", "not finite",
]  # fmt: skip


# ---- independent oracles -------------------------------------------------------------------------------------------


def intersect(origin: NDArray[np.float64], direction: NDArray[np.float64], triangles: Triangles) -> NDArray[np.float64]:
    """Distances [n] at which a ray hits triangles, inf for a miss (Moeller and Trumbore 1997), in float64."""
    v = triangles.astype(np.float64)
    edge1, edge2 = v[:, 1] - v[:, 0], v[:, 2] - v[:, 0]
    across = np.cross(direction, edge2)
    determinant = (edge1 * across).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        offset = origin - v[:, 0]
        u = (offset * across).sum(axis=1) / determinant
        beside = np.cross(offset, edge1)
        w = (beside @ direction) / determinant
        t = (edge2 * beside).sum(axis=1) / determinant
        hit = (determinant != 0) & (u >= 0) & (w >= 0) & (u + w <= 1) & (t > 0)
    return np.where(hit, t, np.inf)


def traverse(bvh: WideBVH, origin: NDArray[np.float64], direction: NDArray[np.float64]) -> tuple[float, int]:
    """Closest hit through the tree: distance (inf: none) and triangle (-1: none). Tests all slots, as kernels do."""
    closest, triangle = np.inf, -1
    stack, most = [0], 1
    while stack:
        entry = stack.pop()
        if entry < 0:
            corners = bvh.leaf_vertices[~entry].reshape(3, 3, bvh.leaf_size).transpose(2, 0, 1)
            t = intersect(origin, direction, corners)
            slot = int(np.argmin(t))
            if t[slot] < closest:
                closest, triangle = float(t[slot]), int(bvh.leaf_triangle[~entry, slot])
            continue
        lower, upper = bvh.bounds[entry].astype(np.float64).reshape(2, 3, bvh.width)
        forward = direction[:, None] > 0
        near = ((np.where(forward, lower, upper) - origin[:, None]) / direction[:, None]).max(axis=0)
        far = ((np.where(forward, upper, lower) - origin[:, None]) / direction[:, None]).min(axis=0)
        slack = 1 + 1e-9
        hit = (near <= far * slack) & (far >= 0) & (near <= closest * slack)
        stack.extend(int(child) for child in bvh.child[entry][hit])
        most = max(most, len(stack))
    assert most <= bvh.stack_bound
    return closest, triangle


def rays(triangles: Triangles, count: int, seed: int) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Rays through the neighbourhood of random triangles."""
    random = np.random.default_rng(seed)
    finite = triangles[np.isfinite(triangles).all(axis=(1, 2))].astype(np.float64)
    if len(finite) == 0:
        finite = np.zeros((1, 3, 3))
    reach = max(float(np.ptp(finite.reshape(-1, 3), axis=0).max()), 1e-30)
    found = []
    for _ in range(count):
        weights = random.dirichlet((1, 1, 1))
        target = weights @ finite[random.integers(len(finite))]
        direction = random.normal(size=3)
        direction /= np.linalg.norm(direction)
        found.append((target - direction * reach * random.uniform(0.1, 2), direction))
    return found


def sweep_cost(lower: Triangles, upper: Triangles, leaf_size: int) -> float:
    """Cost, times the root's area, of the binary tree that tries every split of every node (no bins), one test a
    triangle."""
    count = len(lower)
    area = float(half_area(lower.min(axis=0), upper.max(axis=0)))
    if count == 1:
        return area
    best = (np.inf, 0, 0)
    centre = (lower + upper) / 2
    sizes = np.arange(1, count)
    for axis in range(3):
        order = np.argsort(centre[:, axis], kind="stable")
        low, high = lower[order], upper[order]
        from_left = half_area(np.minimum.accumulate(low), np.maximum.accumulate(high))[:-1]
        from_right = half_area(np.minimum.accumulate(low[::-1]), np.maximum.accumulate(high[::-1]))[::-1][1:]
        costs = from_left * sizes + from_right * (count - sizes)
        if costs.min() < best[0]:
            best = (float(costs.min()), axis, int(np.argmin(costs)) + 1)
    if count <= leaf_size and area * count <= area + best[0]:
        return area * count
    order = np.argsort(centre[:, best[1]], kind="stable")
    left, right = order[: best[2]], order[best[2] :]
    return area + sweep_cost(lower[left], upper[left], leaf_size) + sweep_cost(lower[right], upper[right], leaf_size)


def all_forests(tree: BinaryTree, node: int, width: int, leaf_size: int, cost: CostModel) -> set[tuple[int, float]]:
    """(trees, cost) of every way in which what is below a binary node can become children of a wide one."""
    count = tree.end[node] - tree.begin[node]
    area = float(tree.area[node])
    found = set()
    if count <= leaf_size:
        found.add((1, area * cost.test * -(-int(count) // cost.block)))
    if tree.left[node] >= 0:
        lefts = all_forests(tree, int(tree.left[node]), width, leaf_size, cost)
        rights = all_forests(tree, int(tree.right[node]), width, leaf_size, cost)
        joined = {(a + b, c + d) for (a, c), (b, d) in product(lefts, rights) if a + b <= width}
        found |= joined | {(1, below + area * cost.node) for _, below in joined}
    return found


# ---- every tree is right -------------------------------------------------------------------------------------------


@given(
    st.sampled_from(KINDS), st.integers(0, 300), st.sampled_from(SHAPES), st.integers(-30, 30), st.integers(2, 32),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_any_soup_gives_a_right_tree(
    kind: str, count: int, shape: tuple[int, int], exponent: int, bins: int, seed: int
) -> None:
    triangles = spoil(soup(count, seed), kind, seed) * np.float32(10.0**exponent)
    bvh = build(triangles, width=shape[0], leaf_size=shape[1], bins=bins)
    verify(bvh, triangles)
    assert bvh.triangle_count == np.isfinite(triangles).all(axis=(1, 2)).sum()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width, leaf_size", [(2, 4), (16, 16)])
def test_closest_hits_equal_brute_force(kind: str, width: int, leaf_size: int) -> None:
    triangles = spoil(soup(400, 3), kind, 4)
    bvh = build(triangles, width=width, leaf_size=leaf_size)
    hits = 0
    for origin, direction in rays(triangles, 25, 5):
        t, triangle = traverse(bvh, origin, direction)
        distances = intersect(origin, direction, np.where(np.isfinite(triangles), triangles, 0))
        distances[~np.isfinite(triangles).all(axis=(1, 2))] = np.inf
        assert t == distances.min()
        assert triangle == -1 or distances[triangle] == t
        hits += t < np.inf
    nothing_to_hit = kind in ("points", "on a line")
    assert hits == 0 if nothing_to_hit else hits >= 5


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 17, 5000])
def test_every_width_builds_over_any_number_of_triangles(width: int, count: int) -> None:
    triangles = soup(count, count)
    for leaf_size in (1, 4, 16, 64):
        verify(build(triangles, width=width, leaf_size=leaf_size), triangles)


@pytest.mark.parametrize("count", [0, 20])
def test_the_root_over_nothing_is_a_node_without_children_and_a_leaf_that_is_empty(count: int) -> None:
    triangles = np.full((count, 3, 3), np.nan, np.float32)
    bvh = build(triangles, width=16, leaf_size=16)
    verify(bvh, triangles)
    assert bvh.empty.all()
    assert bvh.leaf_count.tolist() == [0]
    assert (bvh.depth, bvh.stack_bound) == (1, 1)
    assert traverse(bvh, np.zeros(3), np.array([0.6, 0.0001, 0.8])) == (np.inf, -1)
    assert sah_cost(bvh) == 1


def test_coordinates_near_the_largest_float_are_no_trouble() -> None:
    triangles = soup(500, 1) * np.float32(1e38)
    verify(build(triangles, width=16, leaf_size=16), triangles)
    tiny = soup(500, 1) * np.float32(1e-42)
    verify(build(tiny, width=16, leaf_size=4), tiny)


def test_a_scene_far_from_the_origin_is_split_as_well_as_one_at_it() -> None:
    triangles = np.round(soup(2000, 1) * 1024) / np.float32(1024)
    moved = triangles + np.float32(1024)
    costs = [sah_cost(build(scene, width=8, leaf_size=8)) for scene in (triangles, moved)]
    assert costs[1] == pytest.approx(costs[0], rel=0.02)


def test_the_tree_does_not_depend_on_the_number_of_threads_or_the_run() -> None:
    triangles = bumpy_spheres(spheres=6, rings=20, segments=40)
    first = build(triangles, width=16, leaf_size=16, threads=1)
    verify(first, triangles)
    for threads in (1, 2, 5):
        other = build(triangles, width=16, leaf_size=16, threads=threads)
        for name in ("bounds", "child", "leaf_vertices", "leaf_triangle", "leaf_count"):
            np.testing.assert_array_equal(getattr(first, name), getattr(other, name))


# ---- C31: triangles without an area, one triangle, a thousand equal ones -------------------------------------------


@pytest.mark.parametrize("width, leaf_size", SHAPES)
def test_flat_triangles_are_never_hit_and_hide_nothing(width: int, leaf_size: int) -> None:
    p, q = [0.2, 0.2, 0.0], [0.3, 0.1, 0.0]
    good = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    triangles = np.array([[p, p, p], [p, p, q], good], np.float32)
    bvh = build(triangles, width=width, leaf_size=leaf_size)
    verify(bvh, triangles)
    straight = np.array([1e-12, 1e-12, -1.0])
    assert traverse(bvh, np.array([0.2, 0.2, 1.0]), straight)[1] == 2
    assert traverse(bvh, np.array([0.3, 0.1, 1.0]), straight)[1] == 2
    only_flat = build(triangles[:2], width=width, leaf_size=leaf_size)
    verify(only_flat, triangles[:2])
    assert traverse(only_flat, np.array([0.2, 0.2, 1.0]), straight)[1] == -1


def test_one_triangle_covers_its_area() -> None:
    triangles = np.array([[[0, 0, 0], [1, 0, 0], [0, 1, 0]]], np.float32)
    bvh = build(triangles, width=16, leaf_size=16)
    verify(bvh, triangles)
    assert statistics(bvh).nodes == 1
    pixels = 40
    centres = (np.arange(pixels) + 0.5) / pixels
    straight = np.array([1e-12, 1e-12, -1.0])
    covered = sum(traverse(bvh, np.array([x, y, 1.0]), straight)[1] == 0 for x, y in product(centres, centres))
    assert abs(covered - pixels * pixels / 2) <= pixels


@pytest.mark.parametrize("width, leaf_size", SHAPES)
def test_a_thousand_identical_triangles_give_a_balanced_tree_of_full_leaves(width: int, leaf_size: int) -> None:
    triangles = np.repeat(soup(1, 2), 1000, axis=0)
    start = time.perf_counter()
    bvh = build(triangles, width=width, leaf_size=leaf_size)
    assert time.perf_counter() - start < 1
    verify(bvh, triangles)
    assert bvh.depth <= 2 + int(np.ceil(np.log2(1000 / leaf_size)))
    assert statistics(bvh).leaf_fill > 0.95


def test_depth_stays_bounded_where_every_split_would_peel_off_one_triangle() -> None:
    count = 3000
    size = np.exp2(np.linspace(0, -120, count))[:, None, None]
    triangles = (soup(1, 1, 1.0).astype(np.float64) * size).astype(np.float32)
    bvh = build(triangles, width=2, leaf_size=1, bins=2)
    verify(bvh, triangles)
    assert bvh.depth <= 48 + 12 + 1


# ---- trees are good ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "triangles", [soup(300, 1), soup(300, 2, 0.02), spoil(soup(300, 3), "clusters", 3), bumpy_spheres(3, 8, 8)]
)
def test_the_binary_tree_costs_about_what_a_full_sweep_would(triangles: Triangles) -> None:
    lower, upper = triangle_boxes(triangles)
    root = float(half_area(lower.min(axis=0), upper.max(axis=0)))
    full = sweep_cost(lower, upper, 4) / root
    assert sah_cost(build(triangles, width=2, leaf_size=4)) <= 1.05 * full


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("width, block", [(4, 4), (8, 4), (4, 1)])
def test_the_wide_tree_is_the_cheapest_of_all_that_the_binary_tree_contains(seed: int, width: int, block: int) -> None:
    triangles = soup(14, seed, 0.2)
    cost = CostModel(block)
    lower, upper = triangle_boxes(triangles)
    tree = build_binary(lower, upper, leaf_size=1, bins=16, cost=CostModel(1), split_cost=0.0)
    left, right = int(tree.left[0]), int(tree.right[0])
    forests = (all_forests(tree, side, width, 4, cost) for side in (left, right))
    cheapest = min(c + d for (a, c), (b, d) in product(*forests) if a + b <= width)

    topology = collapse(tree, width, 4, cost)
    count = tree.end - tree.begin
    found = tree.area[topology.nodes[1:]].sum() * cost.node
    found += (tree.area[topology.leaves] * cost.test * cost.blocks(count[topology.leaves])).sum()
    assert found == pytest.approx(cheapest, rel=1e-12)
    assert choose(tree, width, 4, cost).is_leaf[topology.leaves].all()


def test_a_quarter_of_a_million_triangles_take_well_under_a_second_and_fill_their_leaves() -> None:
    triangles = bumpy_spheres()
    start = time.perf_counter()
    bvh = build(triangles, width=16, leaf_size=16)
    assert time.perf_counter() - start < 1.0
    verify(bvh, triangles)
    found = statistics(bvh)
    assert found.triangles == len(triangles)
    assert found.leaf_fill > 0.8
    assert found.children_per_node > 10
    assert found.depth <= 9
    assert found.sah_cost == found.node_cost + found.leaf_cost


def test_wider_trees_cost_less() -> None:
    triangles = bumpy_spheres(6, 20, 40)
    costs = [sah_cost(build(triangles, width=width, leaf_size=8)) for width in WIDTHS]
    assert costs == sorted(costs, reverse=True)


def test_children_are_in_order_along_the_longest_side_of_their_node() -> None:
    bvh = build(soup(3000, 1), width=8, leaf_size=8)
    for bounds, empty in zip(bvh.bounds.astype(np.float64), bvh.empty, strict=True):
        axis = int(np.argmax(bounds[3:].max(axis=1) - bounds[:3].min(axis=1)))
        centres = bounds[axis, ~empty] + bounds[axis + 3, ~empty]
        assert (np.diff(centres) >= 0).all()


def test_the_benchmark_prints_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    benchmark(["--runs", "1", "--width", "8", "--leaf-size", "8"])
    printed = capsys.readouterr().out
    assert "triangles             256,000   width 8, leaf size 8" in printed
    assert "SAH cost" in printed


# ---- the verifier finds every kind of fault ------------------------------------------------------------------------


@lru_cache
def healthy() -> tuple[WideBVH, Triangles]:
    triangles = soup(300, 9)
    return build(triangles, width=4, leaf_size=4), triangles


def inner_slot(bvh: WideBVH, to_node: bool) -> tuple[int, int]:
    """The last used slot that leads to a node, or to a leaf."""
    slots = np.argwhere(~bvh.empty & ((bvh.child >= 0) == to_node))
    return int(slots[-1, 0]), int(slots[-1, 1])


def empty_slot(bvh: WideBVH) -> tuple[int, int]:
    node, slot = np.argwhere(bvh.empty)[0]
    return int(node), int(slot)


def lose_a_triangle(bvh: WideBVH) -> None:
    leaf = int(np.argmax(bvh.leaf_count))
    last = bvh.leaf_count[leaf] - 1
    bvh.leaf_count[leaf], bvh.leaf_triangle[leaf, last], bvh.leaf_vertices[leaf, :, last] = last, -1, 0


def repeat_a_triangle(bvh: WideBVH) -> None:
    bvh.leaf_triangle[0, 0] = bvh.leaf_triangle[1, 0]


def invent_a_triangle(bvh: WideBVH) -> None:
    bvh.leaf_triangle[3, 0] = 300


def move_a_vertex(bvh: WideBVH) -> None:
    bvh.leaf_vertices[5, 4, 0] += 0.001


def number_padding(bvh: WideBVH) -> None:
    leaf = int(np.argmin(bvh.leaf_count))
    bvh.leaf_triangle[leaf, -1] = 0


def fill_padding(bvh: WideBVH) -> None:
    leaf = int(np.argmin(bvh.leaf_count))
    bvh.leaf_vertices[leaf, 3, -1] = 1


def overfill_a_leaf(bvh: WideBVH) -> None:
    bvh.leaf_count[2] = 5


def shrink_a_leaf_box(bvh: WideBVH) -> None:
    node, slot = inner_slot(bvh, to_node=False)
    bvh.bounds[node, 4, slot] -= 0.001


def shrink_a_node_box(bvh: WideBVH) -> None:
    node, slot = inner_slot(bvh, to_node=True)
    bvh.bounds[node, 0, slot] += 0.001


def widen_a_box(bvh: WideBVH) -> None:
    node, slot = inner_slot(bvh, to_node=True)
    bvh.bounds[node, 5, slot] += 0.001


def lose_a_plane(bvh: WideBVH) -> None:
    bvh.bounds[0, 2, 0] = np.nan


def make_an_empty_slot_hittable(bvh: WideBVH) -> None:
    node, slot = empty_slot(bvh)
    bvh.bounds[node, 3:, slot] = np.inf


def point_from_an_empty_slot(bvh: WideBVH) -> None:
    node, slot = empty_slot(bvh)
    bvh.child[node, slot] = -2


def leave_a_gap(bvh: WideBVH) -> None:
    node, _ = empty_slot(bvh)
    bvh.bounds[node] = np.roll(bvh.bounds[node], 1, axis=1)
    bvh.child[node] = np.roll(bvh.child[node], 1)


def point_nowhere(bvh: WideBVH) -> None:
    bvh.child[inner_slot(bvh, to_node=True)] = len(bvh.child)


def point_at_the_root(bvh: WideBVH) -> None:
    bvh.child[inner_slot(bvh, to_node=True)] = 0


def share_a_node(bvh: WideBVH) -> None:
    bvh.child[inner_slot(bvh, to_node=False)] = bvh.child[inner_slot(bvh, to_node=True)]


def orphan_a_node(bvh: WideBVH) -> None:
    bvh.child[inner_slot(bvh, to_node=True)] = -1


def share_a_leaf(bvh: WideBVH) -> None:
    slots = np.argwhere(~bvh.empty & (bvh.child < 0))
    bvh.child[tuple(slots[0])] = bvh.child[tuple(slots[-1])]


def make_a_cycle(bvh: WideBVH) -> None:
    """Swaps a child of the root with a leaf far below it: the child's subtree then holds itself."""
    slot = int(np.argmax(bvh.child[0] >= 0))
    below = int(bvh.child[0, slot])
    while (bvh.child[below] >= 0).any():
        below = int(bvh.child[below].max())
    bvh.child[0, slot], bvh.child[below, 0] = bvh.child[below, 0], bvh.child[0, slot]


def swap_numbers(bvh: WideBVH) -> None:
    """Exchanges a parent and its child in number, and in nothing else: a right tree in a wrong order."""
    parent, slot = np.argwhere(bvh.child[1:] >= 0)[0] + (1, 0)
    child = int(bvh.child[parent, slot])
    exchange = np.arange(len(bvh.child), dtype=np.int32)
    exchange[[parent, child]] = child, parent
    renamed = np.where(bvh.child >= 0, exchange[np.maximum(bvh.child, 0)], bvh.child)
    bvh.child[:] = renamed[exchange]
    bvh.bounds[:] = bvh.bounds[exchange]


@pytest.mark.parametrize(
    "fault, message",
    [
        (lose_a_triangle, r"triangle \d+ is in no leaf"),
        (repeat_a_triangle, r"triangle \d+ is in more than one leaf slot"),
        (invent_a_triangle, r"leaf 3 slot 0: there is no such triangle"),
        (move_a_vertex, r"leaf 5 slot 0: the vertices are not those of its triangle"),
        (number_padding, r"leaf \d+ slot 3: padding, but its triangle is not -1"),
        (fill_padding, r"leaf \d+ slot 3: padding, but its vertices are not zero"),
        (overfill_a_leaf, r"leaf 2: impossible number of triangles"),
        (shrink_a_leaf_box, r"node \d+ slot \d: the box of leaf \d+ does not enclose what is below it"),
        (shrink_a_node_box, r"node \d+ slot \d: the box of node \d+ does not enclose what is below it"),
        (widen_a_box, r"node \d+ slot \d: the box of node \d+ is larger than what is below it"),
        (lose_a_plane, r"node 0 slot 0: the box is neither finite nor that of an empty slot"),
        (make_an_empty_slot_hittable, r"node \d+ slot \d: the box is neither finite nor that of an empty slot"),
        (point_from_an_empty_slot, r"node \d+ slot \d: empty, but its child is not -1"),
        (leave_a_gap, r"node \d+ slot 0: empty, but a child comes after it"),
        (point_nowhere, r"node \d+ slot \d: the child is neither a node nor a leaf that exists"),
        (point_at_the_root, r"node 0, the root, is a child of another node"),
        (share_a_node, r"node \d+ has more than one parent"),
        (orphan_a_node, r"node \d+ has no parent"),
        (share_a_leaf, r"leaf \d+ has no parent"),
        (make_a_cycle, r"node \d+ is not below the root: it is on a cycle"),
        (swap_numbers, r"node \d+ slot \d: the child node comes before its parent"),
    ],
)
def test_the_verifier_names_the_fault(fault: Callable[[WideBVH], None], message: str) -> None:
    bvh, triangles = healthy()
    verify(bvh, triangles)
    names = ("bounds", "child", "leaf_vertices", "leaf_triangle", "leaf_count")
    broken = replace(bvh, **{name: getattr(bvh, name).copy() for name in names})
    fault(broken)
    with pytest.raises(BVHError, match=message):
        verify(broken, triangles)


def test_the_verifier_knows_the_limits() -> None:
    bvh, triangles = healthy()
    with pytest.raises(BVHError, match=rf"depth is {bvh.depth + 1}; the longest path has {bvh.depth} nodes"):
        verify(replace(bvh, depth=bvh.depth + 1), triangles)
    with pytest.raises(BVHError, match=rf"stack_bound is 3; a traversal can need {bvh.stack_bound} entries"):
        verify(replace(bvh, stack_bound=3), triangles)


def test_the_verifier_knows_shapes_and_what_must_not_be_there() -> None:
    bvh, triangles = healthy()
    with pytest.raises(BVHError, match=r"child is int64\[\d+, 4\]; it must be C-contiguous int32\[\d+, 4\]"):
        verify(replace(bvh, child=bvh.child.astype(np.int64)), triangles)
    with pytest.raises(BVHError, match="there are 0 nodes and"):
        verify(replace(bvh, child=bvh.child[:0], bounds=bvh.bounds[:0]), triangles)
    with pytest.raises(BVHError, match="the width is 3"):
        verify(replace(bvh, child=bvh.child[:, :3].copy(), bounds=bvh.bounds[:, :, :3].copy()), triangles)
    spoiled = triangles.copy()
    spoiled[7, 0, 0] = np.nan
    with pytest.raises(BVHError, match="triangle 7 is not finite, but in a leaf"):
        verify(bvh, spoiled)
    names = ("leaf_count", "leaf_vertices", "leaf_triangle")
    longer: dict[str, Any] = {name: np.concatenate((getattr(bvh, name), getattr(bvh, name)[:1])) for name in names}
    with pytest.raises(BVHError, match=rf"leaf {len(bvh.leaf_count)} has no parent"):
        verify(replace(bvh, **longer), triangles)


# ---- errors of callers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"width": 3}, "width is 3; a BVH can have 2, 4, 8 or 16 children a node"),
        ({"leaf_size": 0}, "leaf_size is 0; a leaf can have 1 to 64 triangles"),
        ({"bins": 1}, "bins is 1; there can be 2 to 64 bins an axis"),
    ],
)
def test_a_wrong_shape_of_tree_is_refused(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(soup(3, 1), **{"width": 4, "leaf_size": 4, **arguments})


def test_triangles_of_a_wrong_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"triangles have shape \(4, 9\); they must be \[n, 3, 3\]"):
        build(np.zeros((4, 9), np.float32), width=4, leaf_size=4)
