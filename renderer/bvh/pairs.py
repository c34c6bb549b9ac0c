"""Leaves as pairs of triangles that share an edge, for packets.

A quad of a wall, or two neighbours of a mesh, have four corners and five edges, not six and six. A packet projects each corner of a pair
and judges each edge once, so a pair costs little more than a triangle. A leaf has two triangles at most: one pair if they share an edge,
else two halves of pairs, whose fourth corner is NaN and covers nothing. Where most pairs are flat, as in rooms and boxes, only flat ones
are made: one plane then has the distances of both triangles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renderer.bvh.wide import WideBVH

LEAF = 2  # triangles a leaf may have
ROW = 18  # floats of a pair: corners p, q, r, s; normals of (p, q, r) and (p, r, s)
_MORE = 1.25  # flat pairs are worth this many times the number of pairs of any kind
_Corners = NDArray[np.float32]


class Pairs(NamedTuple):
    """`rows`: float32[leaves, 2, 18]; `number`: int32[leaves], pairs; `triangle`: int32[leaves, 2, 2], -1 where there is none; `mark`:
    float32[leaves, 2], 1 where the triangles of a pair have both sides.

    flat: the two triangles of every pair lie in one plane, as far as their coordinates can tell.
    """

    rows: NDArray[np.float32]
    number: NDArray[np.int32]
    triangle: NDArray[np.int32]
    mark: NDArray[np.float32]
    flat: bool


def pair_leaves(bvh: WideBVH, triangles: _Corners, flat: bool | None = None, both: NDArray[np.bool_] | None = None) -> Pairs:
    """The pairs of each leaf of `bvh`, whose leaves have two triangles at most, over `triangles` (float32[n, 3, 3]). `flat`: whether only
    flat pairs are made (None: where most of them are). `both`: bool[n], which triangles have both sides; then those of a pair have the
    same, and look the same way. None: all have, whichever way they look."""
    members = bvh.leaf_triangle[:, :LEAF]
    one = triangles[np.maximum(members[:, 0], 0)]
    two = triangles[np.maximum(members[:, -1], 0)]
    full = (members >= 0).all(axis=1) & (members.shape[1] == LEAF)
    corners, shared = _corners(one, two)
    shared &= full
    if both is not None:
        s = corners[:, 3]
        along = [(two[:, k] == s).all(1) & (two[:, (k + 1) % 3] == corners[:, 0]).all(1) for k in range(3)]
        shared &= np.any(along, axis=0) & (both[members[:, 0]] == both[members[:, -1]])
    even = shared & _is_flat(corners)
    if flat is None:
        alone = 2 * int((full & ~shared).sum()) + int((~full).sum())
        flat = 2 * int((full & ~even).sum()) + int((~full).sum()) + int(even.sum()) <= _MORE * (alone + int(shared.sum()))
    joined = even if flat else shared
    halves = full & ~joined

    triangle = np.full((len(members), LEAF, 2), -1, np.int32)
    triangle[:, 0, 0] = members[:, 0]
    triangle[joined, 0, 1] = members[joined, -1]
    rows = np.full((len(members), LEAF, ROW), np.nan, np.float32)
    rows[:, 0] = _rows(np.where(joined[:, None, None], corners, _half(one)))
    triangle[halves, 1, 0] = members[halves, -1]
    rows[halves, 1] = _rows(_half(two[halves]))
    number = np.where(members[:, 0] < 0, 0, 1 + halves).astype(np.int32)
    mark = np.where(triangle[:, :, 0] < 0, True, True if both is None else both[triangle[:, :, 0]])
    return Pairs(rows, number, triangle, mark.astype(np.float32), flat)


def _corners(one: _Corners, two: _Corners) -> tuple[_Corners, NDArray[np.bool_]]:
    """Corners p, q, r, s of triangles (p, q, r) and (p, r, s), and whether each two are such (corners equal to the bit)."""
    same = (one[:, :, None] == two[:, None, :]).all(axis=3)
    mine, theirs = same.any(axis=2), same.any(axis=1)
    shared = (mine.sum(axis=1) == 2) & (theirs.sum(axis=1) == 2)
    q, s = np.argmin(mine, axis=1), np.argmin(theirs, axis=1)
    row = np.arange(len(one))
    corners = np.stack([one[row, (q + 2) % 3], one[row, q], one[row, (q + 1) % 3], two[row, s]], axis=1)
    return corners, shared


def _half(one: _Corners) -> _Corners:
    """Triangles without partners."""
    return np.concatenate([one, np.full_like(one[:, :1], np.nan)], axis=1)


def _normals(a: _Corners, b: _Corners, c: _Corners) -> NDArray[np.float64]:
    n = np.cross(b.astype(np.float64) - a, c.astype(np.float64) - a)
    length = np.linalg.norm(n, axis=1, keepdims=True)
    return np.asarray(n / np.where(length > 0, length, 1.0))


def _is_flat(corners: _Corners) -> NDArray[np.bool_]:
    """Whether the fourth corner lies in the plane of the others, to half a unit in the last place of the coordinates."""
    p, q, r, s = (corners[:, k] for k in range(4))
    off = np.abs(np.einsum("ij,ij->i", _normals(p, q, r), s.astype(np.float64) - p))
    return np.asarray(off <= np.abs(corners).max(axis=(1, 2)) * 2.0**-24)


def _rows(corners: _Corners) -> _Corners:
    p, q, r, s = (corners[:, k] for k in range(4))
    normals = np.concatenate([_normals(p, q, r), _normals(p, r, s)], axis=1)
    return np.concatenate([corners.reshape(-1, 12), normals.astype(np.float32)], axis=1)
