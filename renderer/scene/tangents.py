"""Tangents for normal maps where a file has none.

glTF asks for MikkTSpace (M. Mikkelsen, "Simulation of Wrinkled Surfaces Revisited", 2008), so that a renderer and the tool that baked
the map agree. Its rule, here for whole arrays: at each corner the gradient of u along the surface, made perpendicular to the corner's
normal and of unit length, is weighted by the corner's angle in that plane and summed over the corners that share position, normal,
texture coordinates and the side of the bitangent. A vertex whose corners then differ (the map is mirrored across it) is split, so the
result may have more vertices than it was made from.

Different from the original: corners join by what they share, not also by the edges that connect them, which tells apart only meshes that
touch in a point; and degenerate triangles take no part. Without normals the geometry is flat, so it comes apart into lone triangles.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from renderer.scene.model import Float32s, Float64s, Geometry
from renderer.scene.weld import equal_rows


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what has no tangent gets one that is perpendicular to the normal
def with_tangents(geometry: Geometry, texcoord: int) -> Geometry:
    """The geometry with tangents along u of that set of texture coordinates, and normals if it had none."""
    if geometry.normals is None:
        geometry = _flat(geometry)
    assert geometry.normals is not None
    triangles = geometry.indices.astype(np.int64)
    uv = geometry.texcoords[texcoord][triangles].astype(np.float64)
    points = geometry.positions[triangles].astype(np.float64)
    along_u, mirrored = _gradients(points, uv)
    normals = geometry.normals[triangles].astype(np.float64)
    tangents = _unit(_flattened(np.broadcast_to(along_u[:, None], points.shape), normals))
    tangents *= _angles(points, normals)[..., None]
    group, count = _shared(geometry, texcoord, triangles, mirrored)
    weighted = np.nan_to_num(tangents).reshape(-1, 3).T
    sums = np.stack([np.bincount(group, values, count).astype(np.float64) for values in weighted], 1)
    # Each corner is known by its vertex and its side; those are the vertices of the result.
    corner = (triangles * 2 + mirrored[:, None]).reshape(-1)
    first = np.full(2 * len(geometry.positions), -1)
    first[corner] = np.arange(len(corner))
    kept = np.flatnonzero(first >= 0)
    indices = (np.cumsum(first >= 0) - 1)[corner]
    vertex = kept >> 1
    found = np.empty((len(kept), 4), np.float32)
    found[:, :3] = _unit_or_any(sums[group[first[kept]]], geometry.normals[vertex].astype(np.float64))
    found[:, 3] = np.where(kept & 1, -1.0, 1.0)
    if len(kept) == len(geometry.positions) and np.array_equal(vertex, np.arange(len(kept))):
        return replace(geometry, tangents=found)
    return replace(_gathered(geometry, vertex), indices=indices.reshape(-1, 3).astype(np.uint32), tangents=found)


def _gradients(points: Float64s, uv: Float64s) -> tuple[Float64s, NDArray[np.bool_]]:
    """Of triangles: the direction in which u grows, float64[m, 3] of any length, and whether the map is mirrored on them."""
    edges = points[:, 1:] - points[:, :1]
    du, dv = uv[:, 1:, 0] - uv[:, :1, 0], uv[:, 1:, 1] - uv[:, :1, 1]
    # v points down in the picture, and the bitangent of glTF points up: a map seen the right way round has a negative area in (u, v).
    area = du[:, 0] * dv[:, 1] - du[:, 1] * dv[:, 0]
    sign = np.where(area < 0, -1.0, 1.0)[:, None]
    along = sign * (edges[:, 0] * dv[:, 1, None] - edges[:, 1] * dv[:, 0, None])
    return along, area > 0


def _angles(points: Float64s, normals: Float64s) -> Float64s:
    """float64[m, 3]: the angle of each corner, seen along its normal."""
    ahead = _unit(_flattened(np.roll(points, -1, 1) - points, normals))
    behind = _unit(_flattened(np.roll(points, 1, 1) - points, normals))
    angles: Float64s = np.arccos(np.clip(np.einsum("ijk,ijk->ij", ahead, behind), -1.0, 1.0))
    return np.nan_to_num(angles)


def _shared(
    geometry: Geometry, texcoord: int, triangles: NDArray[np.int64], mirrored: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], int]:
    """intp[3m]: the group of each corner, by what its vertex holds and by its side; and a number above all groups."""
    assert geometry.normals is not None
    held = np.concatenate([geometry.positions, geometry.normals, geometry.texcoords[texcoord]], 1) + np.float32(0.0)  # -0 is 0
    _, same = equal_rows(held)
    group = (same[triangles] * 2 + mirrored[:, None]).reshape(-1)
    return group, 2 * int(same.max()) + 2


def _flat(geometry: Geometry) -> Geometry:
    """The geometry as lone triangles with their own normals."""
    corners = geometry.indices.reshape(-1)
    points = geometry.positions[corners].reshape(-1, 3, 3).astype(np.float64)
    normal = np.nan_to_num(_unit(np.cross(points[:, 1] - points[:, 0], points[:, 2] - points[:, 0])))
    indices = np.arange(len(corners), dtype=np.uint32).reshape(-1, 3)
    return replace(_gathered(geometry, corners), indices=indices, normals=np.repeat(normal.astype(np.float32), 3, 0))


def _gathered(geometry: Geometry, vertices: NDArray[np.integer]) -> Geometry:
    """The geometry with these of its vertices, in this order; its indices have to be replaced."""

    def taken(values: Float32s | None) -> Float32s | None:
        return None if values is None else values[vertices]

    return replace(
        geometry,
        positions=geometry.positions[vertices],
        normals=taken(geometry.normals),
        texcoords=tuple(values[vertices] for values in geometry.texcoords),
        colours=taken(geometry.colours),
    )


def _flattened(vectors: Float64s, normals: Float64s) -> Float64s:
    """The part of vectors that is perpendicular to unit normals."""
    flattened: Float64s = vectors - normals * np.einsum("ijk,ijk->ij", vectors, normals)[..., None]
    return flattened


def _unit(vectors: Float64s) -> Float64s:
    unit: Float64s = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return unit


def _unit_or_any(vectors: Float64s, normals: Float64s) -> Float64s:
    """Vectors made of unit length, or where they are nothing some unit vector perpendicular to the normal."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    axis = np.eye(3)[np.argmin(np.abs(normals), -1)]
    other = np.cross(normals, axis)
    other = np.where(np.linalg.norm(other, axis=-1, keepdims=True) > 0, other, [1.0, 0.0, 0.0])
    chosen = np.where(length > 1e-12, vectors, other)
    return _unit(chosen)
