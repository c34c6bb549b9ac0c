"""The tables of a scene's trees: one tree over the world, or one for each part and one above them over their placings.

Each form of traversal has tables of its own (`bvh.traverse`). The trees of parts stand one after another in the same tables, and their
roots are what placings know of them. Boxes are widened by the rounding error of the slab test for rays that begin within reach: within
the scene, or within the part's box, for in a part rays begin where they enter that.

In the tree of placings a leaf is one placing, and placings are put in the order of its leaves, so that the number of the one is that of
the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine import Tensor
from renderer.bvh.build import build
from renderer.bvh.pairs import LEAF, pair_leaves
from renderer.bvh.placings import PLACING_ROW, ROOT_COLUMN, Placings
from renderer.bvh.rows import ROOT, WIDTH, bits, node_rows, tree_rows
from renderer.bvh.stored import built
from renderer.bvh.traverse import DeviceBVH, Form, LoneBVH, LoneTop, Sides, Top, Tree
from renderer.bvh.wide import WideBVH
from renderer.scene.parts import Parts, stretches
from renderer.scene.tables import Tables


class Grown(NamedTuple):
    """The trees of a scene; its parts, with their placings in the order of the leaves of the tree above; int32[parts], the nodes that the
    parts' roots are."""

    tree: Tree
    parts: Parts
    roots: NDArray[np.int32]


def trees_of(parts: Parts, form: Form, group: int, *, keep: bool) -> list[WideBVH]:
    """The tree of each part. `group`: lanes of a group; `keep`: large ones may be kept on disk."""
    width = {"lone": WIDTH, "packet": 16}.get(form, group if group in (16, 4) else 8)
    make = built if keep else build
    return [
        make(parts.soup.positions[first:last], width=width, leaf_size=width if form == "serial" else LEAF)
        for first, last in zip(parts.first[:-1], parts.first[1:], strict=True)
    ]


def tree_tables(
    tables: Tables, parts: Parts, trees: Sequence[WideBVH], both: NDArray[np.bool_], form: Form, old: Tree | None
) -> Grown:
    """The tables of the parts' trees, and of one above them if they are placed. `both`: bool[triangles], which have two sides; `old`: the
    trees that these are to replace."""
    bvh, roots = joined(trees, parts.first)
    bounds = np.concatenate([_widened(tree) for tree in trees])
    grown = Grown(_tables_of(tables, parts, bvh, bounds, both, form, old), parts, roots)
    return grown if parts.placings is None else placed(tables, grown, old)


def joined(trees: Sequence[WideBVH], first: NDArray[np.int64]) -> tuple[WideBVH, NDArray[np.int32]]:
    """Trees one after another, as one that is never walked from its own root; int32[trees], the node that each root has become. `first`:
    int64[trees + 1], the number of each one's first triangle."""
    nodes = np.cumsum([0, *(len(tree.child) for tree in trees)])
    leaves = np.cumsum([0, *(len(tree.leaf_count) for tree in trees)])
    if len(trees) == 1:
        return trees[0], nodes[:1].astype(np.int32)
    children, triangles = [], []
    for tree, node, leaf, triangle in zip(trees, nodes, leaves, first, strict=False):
        children.append(np.where(tree.child < 0, tree.child - leaf, tree.child + node).astype(np.int32))
        triangles.append(np.where(tree.leaf_triangle < 0, -1, tree.leaf_triangle + triangle).astype(np.int32))
    return WideBVH(
        bounds=np.concatenate([tree.bounds for tree in trees]),
        child=np.concatenate(children),
        leaf_vertices=np.concatenate([tree.leaf_vertices for tree in trees]),
        leaf_triangle=np.concatenate(triangles),
        leaf_count=np.concatenate([tree.leaf_count for tree in trees]),
        depth=max(tree.depth for tree in trees),
        stack_bound=max(tree.stack_bound for tree in trees),
    ), nodes[:-1].astype(np.int32)


def sides_of(both: NDArray[np.bool_], old: Tree | None) -> Sides:
    """The sides of triangles; those of the old tree, if it can have these."""
    if both.any() != both.all() or (old is not None and old.sides == "mixed"):
        return "mixed"
    return "both" if both.all() else "front"


def _tables_of(
    tables: Tables, parts: Parts, bvh: WideBVH, bounds: NDArray[np.float32], both: NDArray[np.bool_], form: Form, old: Tree | None
) -> Tree:
    """The trees of parts on the device."""
    sides = sides_of(both, old)
    stack = _stack_size(bvh.stack_bound, old.stack if old is not None else 0)
    positions, box = parts.soup.positions, _box(parts)
    if form == "lone":
        pairs = pair_leaves(bvh, positions, old.flat if old is not None else None, None if sides == "both" else both)
        rows = tree_rows(bvh, bounds, pairs)
        return LoneBVH(tables.named("nodes", rows.nodes), tables.named("pairs", rows.pairs), box, stack, pairs.flat, sides)
    if form == "packet":
        pairs = pair_leaves(bvh, positions, old.flat if old is not None else None, None if sides == "both" else both)
        leaf, count, places, flat = pairs.rows, pairs.number, pairs.triangle.reshape(len(pairs.number), -1), pairs.flat
        if sides == "mixed":
            leaf = np.concatenate([leaf, pairs.mark[:, :, None]], axis=2)
    else:
        padding = bvh.leaf_triangle[:, None, :] < 0
        leaf = np.where(padding, np.float32(np.nan), bvh.leaf_vertices)  # NaN covers nothing
        if sides == "mixed":
            leaf = np.concatenate([leaf, both[bvh.leaf_triangle].astype(np.float32)[:, None]], axis=1)
        count, places, flat = bvh.leaf_count, bvh.leaf_triangle, False
    held = old.places if isinstance(old, DeviceBVH) else None
    return DeviceBVH(
        bounds=tables.named("nodes", bounds),
        child=tables.named("nodes", bvh.child),
        child_count=tables.named("nodes", (~bvh.empty).sum(axis=1, dtype=np.int32)),
        axis=tables.named("nodes", _sorted_along(bvh)),
        leaf=tables.named("leaves", leaf),
        leaf_count=tables.named("leaves", count),
        places=tables.made("slots", places.reshape(-1), held, spare=places.size // 4),
        box=Tensor(box),
        width=bvh.width,
        leaf_size=places.shape[1],
        flat=flat,
        stack=stack,
        sides=sides,
        form=form,
    )


# ---- placings ----


def placed(tables: Tables, grown: Grown, old: Tree | None) -> Grown:
    """The trees of parts under a new one over the parts' placings. `old`: the trees that these are to replace."""
    tree, parts, roots = grown
    assert parts.placings is not None
    # Boxes are all that a builder sees of triangles, and these have the boxes that are meant.
    bvh = build(parts.boxes().astype(np.float32)[:, [0, 1, 0]], width=WIDTH if tree.form == "lone" else tree.width, leaf_size=1)
    parts = replace(parts, placings=parts.placings.only(bvh.leaf_triangle[:, 0]))
    stack = _stack_size(bvh.stack_bound, old.top.stack if old is not None and old.top is not None else 0)
    bounds, box = _widened(bvh), _box(parts)
    if isinstance(tree, LoneBVH):
        nodes = node_rows(bvh, bounds, np.arange(len(bvh.leaf_count)))
        rows = Placings(tables.named("placings", placing_rows(parts, roots + ROOT)))
        return Grown(replace(tree, box=box, top=LoneTop(tables.named("top_nodes", nodes), rows, stack)), parts, roots)
    top = Top(
        bounds=tables.named("top_nodes", bounds),
        child=tables.named("top_nodes", bvh.child),
        axis=tables.named("top_nodes", _sorted_along(bvh)),
        placings=Placings(tables.named("placings", placing_rows(parts, roots))),
        width=bvh.width,
        stack=stack,
    )
    return Grown(replace(tree, box=Tensor(box), top=top), parts, roots)


def placing_rows(parts: Parts, roots: NDArray[np.int32]) -> NDArray[np.float32]:
    """float32[n, PLACING_ROW], see `bvh.placings`; `roots`: int32[parts]."""
    placings = parts.placings
    assert placings is not None
    rows = np.zeros((len(placings), PLACING_ROW), np.float32)
    rows[:, :12] = np.linalg.inv(placings.world)[:, :3].reshape(-1, 12)
    half = parts.half[placings.part]
    rows[:, 12:15] = half + half.max(1, keepdims=True) * 2.0**-18
    rows[:, ROOT_COLUMN] = bits(roots[placings.part])
    linear = placings.world[:, :3, :3]
    rows[:, 16] = stretches(linear)[1]
    rows[:, 17] = np.cbrt(np.linalg.det(linear))
    rows[:, 18] = bits(placings.material)
    return rows


# ---- what all have in common ----


def _widened(bvh: WideBVH) -> NDArray[np.float32]:
    """Boxes grown by the rounding error of the slab test for rays that begin within the tree's reach: a few units in the last place."""
    bounds = bvh.bounds.copy()
    finite = np.abs(bounds[np.isfinite(bounds)])
    reach = float(finite.max()) if finite.size else 1.0
    grow = np.float32(reach * 2.0**-20)
    bounds[:, :3] -= grow
    bounds[:, 3:] += grow
    return bounds


def _box(parts: Parts) -> NDArray[np.float32]:
    """float32[2, 3]: the box of all triangles, with a margin that keeps what lies in its sides off them."""
    low, high = parts.bounds().astype(np.float32)
    margin = np.float32(1e-3) * (high - low).max() + np.float32(1e-5) * max(np.abs(low).max(), np.abs(high).max())
    return np.stack([low - margin, high + margin])


def _sorted_along(bvh: WideBVH) -> NDArray[np.int32]:
    """int32[nodes]: the axis along which each node's children are sorted, that of its longest side."""
    low = np.where(bvh.empty[:, None, :], np.inf, bvh.bounds[:, :3]).min(axis=2)
    high = np.where(bvh.empty[:, None, :], -np.inf, bvh.bounds[:, 3:]).max(axis=2)
    longest: NDArray[np.intp] = np.argmax(np.nan_to_num(high - low, neginf=0.0), axis=1)
    return longest.astype(np.int32)


def _stack_size(bound: int, old: int) -> int:
    """Stack entries in steps, and with some to spare, so that scenes of about the same depth, and edited ones, share kernels; the old
    number where it is enough."""
    return old if 0 < bound <= old else max(32, 1 << (bound + bound // 2 - 1).bit_length())
