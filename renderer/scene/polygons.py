"""Polygons of any number of corners into triangles.

Triangles and most quadrilaterals of a file are taken in one sweep over arrays. A quadrilateral is split along the diagonal that leaves
both halves facing one way; where both do, along the first. Polygons of five and more corners become fans where they are convex, which is
tested for all at once; the few that are not are cut ear by ear (G. Meisters, "Polygons have ears", 1975), in the plane they face.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Float64s = NDArray[np.float64]


def triangulate(counts: Ints, positions: Float64s) -> tuple[Ints, Ints]:
    """Triangles of polygons: int64[m, 3] numbers of corners, and int64[m] the polygon of each, polygon by polygon.

    `counts`: corners of each polygon, int64[f]; `positions`: where all corners are, one polygon's after another's, float64[corners, 3].
    Polygons of fewer than three corners have no triangles.
    """
    first = np.cumsum(counts) - counts
    if (counts == 3).all():
        return first[:, None] + np.arange(3), np.arange(len(counts))
    parts, owners = [], []
    for sides in np.unique(counts[counts >= 3]).tolist():
        which = np.flatnonzero(counts == sides)
        corners = first[which, None] + np.arange(sides)
        made = _quads(corners, positions) if sides == 4 else _fans(corners, positions)
        parts.append(made.reshape(-1, 3))
        owners.append(np.repeat(which, sides - 2))
    if not parts:
        return np.zeros((0, 3), np.int64), np.zeros(0, np.int64)
    triangles, owner = np.concatenate(parts), np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    return triangles[order], owner[order]


def _quads(corners: Ints, positions: Float64s) -> Ints:
    """int64[k, 2, 3] of int64[k, 4]."""
    points = positions[corners]
    first = np.einsum("ij,ij->i", _facing(points[:, [0, 1, 2]]), _facing(points[:, [0, 2, 3]])) > 0
    second = np.einsum("ij,ij->i", _facing(points[:, [0, 1, 3]]), _facing(points[:, [1, 2, 3]])) > 0
    other = (~first & second)[:, None, None]
    return np.where(other, corners[:, [[0, 1, 3], [1, 2, 3]]], corners[:, [[0, 1, 2], [0, 2, 3]]])


def _fans(corners: Ints, positions: Float64s) -> Ints:
    """int64[k, n - 2, 3] of int64[k, n]: fans, or ears where a polygon is not convex."""
    sides = corners.shape[1]
    spokes = np.arange(1, sides - 1)
    made = np.stack([np.broadcast_to(corners[:, :1], (len(corners), sides - 2)), corners[:, spokes], corners[:, spokes + 1]], 2)
    if sides == 3:
        return made
    points = positions[corners]
    normal = _newell(points)
    ahead, behind = np.roll(points, -1, 1) - points, points - np.roll(points, 1, 1)
    convex = (np.einsum("kij,kj->ki", np.cross(behind, ahead), normal) >= 0).all(1)
    for k in np.flatnonzero(~convex):
        made[k] = corners[k][_ears(points[k], normal[k])]
    return made


def _facing(points: Float64s) -> Float64s:
    facing: Float64s = np.cross(points[:, 1] - points[:, 0], points[:, 2] - points[:, 0])
    return facing


def _newell(points: Float64s) -> Float64s:
    """The normals of polygons float64[k, n, 3], of twice their area's length; corners need not lie in a plane."""
    normals: Float64s = np.cross(points, np.roll(points, -1, 1)).sum(1)
    return normals


def _ears(points: Float64s, normal: Float64s) -> Ints:
    """int64[n - 2, 3]: the triangles of one polygon float64[n, 3]. A polygon that crosses itself gets some triangles all the same."""
    axis = int(np.argmax(np.abs(normal)))
    flat = np.delete(points, axis, 1) * ([1.0, -1.0] if axis == 1 else [1.0, 1.0]) * ([1.0, 1.0] if normal[axis] > 0 else [-1.0, 1.0])
    left = list(range(len(points)))
    made = []
    while len(left) > 3:
        at = next((k for k in range(len(left)) if _is_ear(flat, left, k)), 0)
        made.append([left[at - 1], left[at], left[(at + 1) % len(left)]])
        del left[at]
    made.append(left)
    return np.array(made)


def _is_ear(flat: Float64s, left: list[int], at: int) -> bool:
    """Whether the corner can be cut off: it is convex, and no other corner lies in its triangle."""
    a, b, c = left[at - 1], left[at], left[(at + 1) % len(left)]
    if _side(flat[a], flat[b], flat[c]) <= 0:
        return False
    others = flat[[k for k in left if k not in (a, b, c)]]
    ends = (flat[a], flat[b], flat[c])
    inside = [(_side(ends[k], ends[(k + 1) % 3], others.T) >= 0) for k in range(3)]
    return not np.logical_and.reduce(inside).any()


def _side(a: Float64s, b: Float64s, c: Float64s) -> Float64s:
    """Twice the area of a triangle, positive where it runs anticlockwise."""
    area: Float64s = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    return area
