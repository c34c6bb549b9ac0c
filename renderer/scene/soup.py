"""Triangles in one heap, in the world's space or a part's own: what one tree is built from.

A mesh is stored once and placed many times; here each placing is written out, but for what is a part with placings of its own (`parts`).
It is the place where mirrored instances get their winding back, where normals are carried through scales that are not uniform, and where
triangles that no ray can hit (no area, or not finite) are dropped and counted, so that nothing further down has to think of them. Corners
are moved in float64 and stored in float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from renderer.scene.model import Geometry, Scene

Float32s = NDArray[np.float32]
Float64s = NDArray[np.float64]
Placed = tuple[NDArray[np.int32], int, "Geometry", int, Float64s]

# Twice the area over the longest edge squared, below which a triangle is a line: far under what float32 corners can
# express for any triangle that still has a usable plane.
FLATNESS = 1e-9


@dataclass(frozen=True)
class TriangleSoup:
    """Triangles of a whole scene, or of its parts one after another, T of them, none degenerate, none with a value that is not finite.

    positions float32[T, 3, 3] (triangle, corner, xyz), counter-clockwise from the front also in mirrored instances;
    normals float32[T, 3, 3] of unit length, holding the geometric normal where a geometry is flat, or None where every
    triangle is flat; material int32[T]; instance int32[T], index into `Scene.instances`; geometry int32[T], index into
    the geometries of the instance's mesh; vertices uint32[T, 3], the numbers of the corners among the geometry's vertices.
    tangents float32[T, 3, 4], unit vectors and the side of the bitangent (zeros where a geometry has none), or None where none has.
    `degenerate` and `non_finite` count what was dropped.
    """

    positions: Float32s
    normals: Float32s | None
    material: NDArray[np.int32]
    instance: NDArray[np.int32]
    geometry: NDArray[np.int32]
    vertices: NDArray[np.uint32]
    tangents: Float32s | None
    degenerate: int
    non_finite: int

    def __len__(self) -> int:
        return len(self.positions)


def flattened(placed: Iterable[Placed]) -> TriangleSoup:
    """All triangles in world space, geometry by geometry, each geometry's instances one after another.

    `placed`: geometries as drawn: int32[k] numbers of the instances, the geometry's number in its mesh, itself, its material, and
    float64[k, 4, 4], the matrices of its instances.
    """
    return joined([_world_triangles(*place) for place in placed])


def joined(parts: list[TriangleSoup]) -> TriangleSoup:
    """Soups one after another."""
    if not parts:
        none = np.zeros(0, np.int32)
        return TriangleSoup(np.zeros((0, 3, 3), np.float32), None, none, none, none, np.zeros((0, 3), np.uint32), None, 0, 0)
    smooth = any(part.normals is not None for part in parts)
    directed = any(part.tangents is not None for part in parts)
    return TriangleSoup(
        np.concatenate([part.positions for part in parts]),
        np.concatenate([_normals_or_flat(part) for part in parts]) if smooth else None,
        np.concatenate([part.material for part in parts]),
        np.concatenate([part.instance for part in parts]),
        np.concatenate([part.geometry for part in parts]),
        np.concatenate([part.vertices for part in parts]),
        np.concatenate([part.tangents if part.tangents is not None else _none(part) for part in parts]) if directed else None,
        sum(part.degenerate for part in parts),
        sum(part.non_finite for part in parts),
    )


def geometries_of(scene: Scene, soup: TriangleSoup) -> Iterator[tuple[Geometry, slice]]:
    """The geometries that a scene's soup is made of, each with its triangles; those of no instance (-1) are of none."""
    mesh = np.array([*(instance.mesh for instance in scene.instances), -1], np.int64)[soup.instance]
    begins = np.flatnonzero((np.diff(mesh, prepend=-2) != 0) | (np.diff(soup.geometry, prepend=-2) != 0))
    for first, last in zip(begins, [*begins[1:], len(soup)], strict=True):
        if mesh[first] >= 0:
            yield scene.meshes[mesh[first]].geometries[soup.geometry[first]], slice(int(first), int(last))


def cross(a: Float64s, b: Float64s) -> Float64s:
    """Vector products of float64[..., 3]. NumPy's own is the same and several times as slow for the few that most geometries have."""
    (ax, ay, az), (bx, by, bz) = (np.moveaxis(v, -1, 0) for v in (a, b))
    return np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], -1)


def transform(points: Float32s, worlds: Float64s) -> Float64s:
    """Points float32[n, 3] through k matrices: float64[k, n, 3]. What overflows becomes infinite, silently."""
    moved: Float64s = points.astype(np.float64) @ worlds[:, :3, :3].transpose(0, 2, 1)
    moved += worlds[:, None, :3, 3]
    return moved


def _world_triangles(
    ids: NDArray[np.int32], number: int, geometry: Geometry, material: int, worlds: Float64s
) -> TriangleSoup:
    """One geometry, of this number in its mesh, under k matrices: part of a soup, normals None where it has none."""
    indices = geometry.indices.astype(np.int64)
    determinants = np.linalg.det(worlds[:, :3, :3])
    corners = _corners(geometry.positions, indices, worlds)
    mirrored = determinants < 0
    corners[mirrored] = corners[mirrored][:, :, [0, 2, 1]]
    finite = np.isfinite(corners).all((2, 3))
    hit = finite & ~_is_flat(corners)
    normals = None
    if geometry.normals is not None:
        # Cofactors are determinant times inverse transpose, and exist where a scale of zero leaves no inverse.
        linear = worlds[:, :3, :3]
        cofactors = np.stack([cross(linear[:, (i + 1) % 3], linear[:, (i + 2) % 3]) for i in range(3)], 1)
        turned = np.zeros_like(worlds)
        turned[:, :3, :3] = cofactors * np.where(mirrored, -1.0, 1.0)[:, None, None]
        shading = _corners(geometry.normals, indices, turned, unit=True)
        shading[mirrored] = shading[mirrored][:, :, [0, 2, 1]]
        normals = shading[hit]
        missing = ~np.any(normals, -1)
        if missing.any():
            normals = np.where(missing[..., None], _geometric_normals(corners[hit])[:, None, :], normals)
    tangents = None
    if geometry.tangents is not None:
        moved = _corners(geometry.tangents[:, :3], indices, _without_shift(worlds), unit=True)
        side = np.broadcast_to(geometry.tangents[indices, 3], (len(worlds), *indices.shape))
        along = np.concatenate([moved, np.where(mirrored[:, None, None], -side, side)[..., None]], -1).astype(np.float32)
        along[mirrored] = along[mirrored][:, :, [0, 2, 1]]
        tangents = along[hit]
    vertices = np.broadcast_to(geometry.indices, (*hit.shape, 3)).copy()
    vertices[mirrored] = vertices[mirrored][:, :, [0, 2, 1]]
    count = int(hit.sum())
    return TriangleSoup(
        corners[hit],
        normals,
        np.full(count, material, np.int32),
        np.broadcast_to(ids[:, None], hit.shape)[hit],
        np.full(count, number, np.int32),
        vertices[hit].astype(np.uint32),
        tangents,
        int(finite.sum()) - count,
        finite.size - int(finite.sum()),
    )


def _corners(vectors: Float32s, indices: NDArray[np.int64], worlds: Float64s, unit: bool = False) -> Float32s:
    """Vectors of each corner of each triangle under k matrices: float32[k, m, 3, 3]; of unit length (or zero) if asked.

    Vertices are transformed once each, unless the triangles use few of them.
    """
    gather_first = indices.size < len(vectors)
    moved = transform(vectors[indices.reshape(-1)] if gather_first else vectors, worlds)
    if unit:
        length = np.linalg.norm(moved, axis=-1, keepdims=True)
        moved = np.where((length > 0) & np.isfinite(length), moved / length, 0.0)
    narrow = moved.astype(np.float32)
    return narrow.reshape(len(worlds), *indices.shape, 3) if gather_first else narrow[:, indices]


def _edge_cross(corners: Float32s) -> tuple[Float64s, Float64s]:
    """Cross product of two edges, float64[..., 3], and the longest edge squared, float64[...]."""
    wide = corners.astype(np.float64)
    first, second = wide[..., 1, :] - wide[..., 0, :], wide[..., 2, :] - wide[..., 0, :]
    third = second - first
    longest = np.maximum.reduce([(edge * edge).sum(-1) for edge in (first, second, third)])
    return cross(first, second), longest


def _is_flat(corners: Float32s) -> NDArray[np.bool_]:
    """Which triangles float32[..., 3, 3] have no area."""
    cross, longest = _edge_cross(corners)
    flat: NDArray[np.bool_] = ~(np.sqrt((cross * cross).sum(-1)) > FLATNESS * longest)
    return flat


def _geometric_normals(corners: Float32s) -> Float32s:
    """Unit normals float32[n, 3] of triangles float32[n, 3, 3] that have an area."""
    cross, _ = _edge_cross(corners)
    narrow: Float32s = (cross / np.linalg.norm(cross, axis=-1, keepdims=True)).astype(np.float32)
    return narrow


def _normals_or_flat(part: TriangleSoup) -> Float32s:
    """The part's normals float32[n, 3, 3], or its geometric normal at all three corners."""
    if part.normals is not None:
        return part.normals
    return np.repeat(_geometric_normals(part.positions)[:, None, :], 3, 1)


def _none(part: TriangleSoup) -> Float32s:
    """No tangents, for a part of which others have them."""
    return np.zeros((len(part), 3, 4), np.float32)


def _without_shift(worlds: Float64s) -> Float64s:
    linear = worlds.copy()
    linear[:, :3, 3] = 0.0
    return linear
