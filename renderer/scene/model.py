"""What a scene is, in glTF's terms, as plain data over NumPy arrays.

Importers fill these classes; the BVH builder and the upload to the device read them; none of them knows a file format.
A mesh is stored once and placed by any number of instances, so a forest of one tree costs one tree.  `Scene.triangles`
flattens that into world space for a single-level BVH: it is the place where mirrored instances get their winding back,
where normals are carried through non-uniform scales, and where triangles that no ray can hit (no area, or not finite)
are dropped and counted, so that nothing further down has to think of them.

Lengths are metres, colours linear Rec.709, radiance W/(sr m2), angles radians.  Matrices are float64, act on column
vectors, and are affine.  Cameras look along their local -z with +y up.  Every instance keeps the number of its glTF
node: that is where animation will take hold.  Punctual lights will be one more list beside `cameras`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Float32s = NDArray[np.float32]
Float64s = NDArray[np.float64]

# Twice the area over the longest edge squared, below which a triangle is a line: far under what float32 corners can
# express for any triangle that still has a usable plane.
FLATNESS = 1e-9
QUIET = np.errstate(over="ignore", invalid="ignore", divide="ignore")  # values that are not finite are sorted out after
DEFAULT_YFOV = math.radians(40.0)
DEFAULT_VIEW = (0.35, 0.3, 1.0)  # from the centre towards the camera: the front of a glTF asset faces +z
DEFAULT_MARGIN = 1.05


class SceneError(Exception):
    """A scene file that cannot be shown. The message is one line: which file, what is wrong with it, what to do."""


@dataclass(frozen=True)
class Perspective:
    """Pinhole projection. `aspect_ratio` is None where the window decides, `zfar` infinite where the file has none."""

    yfov: float
    aspect_ratio: float | None = None
    znear: float = 0.01
    zfar: float = math.inf


@dataclass(frozen=True)
class Orthographic:
    """Parallel projection; the view is 2 xmag wide and 2 ymag high."""

    xmag: float
    ymag: float
    znear: float = 0.0
    zfar: float = math.inf


@dataclass(frozen=True)
class Camera:
    """A camera where it stands. `world` is float64[4, 4], camera to world, its axes of unit length."""

    name: str
    projection: Perspective | Orthographic
    world: Float64s


@dataclass(frozen=True)
class Material:
    """Metallic-roughness factors of one glTF material. `emissive` is linear radiance, its strength multiplied in."""

    name: str = ""
    base_color_factor: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    metallic: float = 1.0
    roughness: float = 1.0
    emissive: tuple[float, float, float] = (0.0, 0.0, 0.0)
    specular_factor: float = 1.0
    specular_color_factor: tuple[float, float, float] = (1.0, 1.0, 1.0)
    ior: float = 1.5
    unlit: bool = False
    double_sided: bool = False
    alpha_mode: str = "OPAQUE"
    alpha_cutoff: float = 0.5

    @property
    def is_emissive(self) -> bool:
        """Whether a surface of this material is a light."""
        return max(self.emissive) > 0.0


@dataclass(frozen=True)
class Geometry:
    """One primitive, as triangles.

    positions float32[n, 3]; indices uint32[m, 3], each below n, counter-clockwise seen from the front; normals
    float32[n, 3], or None for flat shading (a zero normal: flat at that corner); material indexes `Scene.materials`.
    Positions that a triangle uses are finite; others may be anything.
    """

    positions: Float32s
    indices: NDArray[np.uint32]
    normals: Float32s | None
    material: int


@dataclass(frozen=True)
class Mesh:
    """A named list of geometries; empty where nothing draws it or nothing of it could be read."""

    name: str
    geometries: list[Geometry]


@dataclass(frozen=True)
class Instance:
    """A mesh placed in the world: `world` is float64[4, 4], affine; `node` is the number of the placing glTF node."""

    mesh: int
    world: Float64s
    name: str
    node: int


@dataclass(frozen=True)
class Totals:
    """What is in a scene, as drawn: instanced triangles counted each time, degenerate ones included.

    `lights` counts emissive geometries as placed, `light_triangles` their triangles.
    """

    triangles: int
    instances: int
    materials: int
    lights: int
    light_triangles: int


@dataclass(frozen=True)
class TriangleSoup:
    """World-space triangles of a whole scene, T of them, none degenerate, none with a value that is not finite.

    positions float32[T, 3, 3] (triangle, corner, xyz), counter-clockwise from the front also in mirrored instances;
    normals float32[T, 3, 3] of unit length, holding the geometric normal where a geometry is flat, or None where every
    triangle is flat; material int32[T]; instance int32[T], index into `Scene.instances`.
    `degenerate` and `non_finite` count what was dropped.
    """

    positions: Float32s
    normals: Float32s | None
    material: NDArray[np.int32]
    instance: NDArray[np.int32]
    degenerate: int
    non_finite: int

    def __len__(self) -> int:
        return len(self.positions)


@dataclass
class Scene:
    """A whole scene: what to draw, from where, and what the importer had to say about the file."""

    path: Path
    cameras: list[Camera] = field(default_factory=list)
    materials: list[Material] = field(default_factory=list)
    meshes: list[Mesh] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def totals(self) -> Totals:
        """Counts for `rayfuse info` and the benchmark record."""
        triangles = lights = light_triangles = 0
        for instance in self.instances:
            for geometry in self.meshes[instance.mesh].geometries:
                triangles += len(geometry.indices)
                if self.materials[geometry.material].is_emissive:
                    lights += 1
                    light_triangles += len(geometry.indices)
        return Totals(triangles, len(self.instances), len(self.materials), lights, light_triangles)

    @QUIET
    def bounds(self) -> Float64s | None:
        """The axis-aligned box of all that is drawn, float64[2, 3] (low, high corner); None for an empty scene."""
        boxes = []
        for _, geometry, worlds in self._placed():
            used = np.zeros(len(geometry.positions), bool)
            used[geometry.indices] = True
            points = _transform(geometry.positions[used], worlds).reshape(-1, 3)
            points = points[np.isfinite(points).all(1)]
            if len(points):
                boxes.append((points.min(0), points.max(0)))
        if not boxes:
            return None
        return np.array([np.min([low for low, _ in boxes], 0), np.max([high for _, high in boxes], 0)])

    @QUIET
    def triangles(self) -> TriangleSoup:
        """All triangles in world space, geometry by geometry, each geometry's instances one after another."""
        parts = [
            _world_triangles(geometry, worlds, np.array(ids, np.int32)) for ids, geometry, worlds in self._placed()
        ]
        if not parts:
            none = np.zeros(0, np.int32)
            return TriangleSoup(np.zeros((0, 3, 3), np.float32), None, none, none, 0, 0)
        smooth = any(part.normals is not None for part in parts)
        return TriangleSoup(
            np.concatenate([part.positions for part in parts]),
            np.concatenate([_normals_or_flat(part) for part in parts]) if smooth else None,
            np.concatenate([part.material for part in parts]),
            np.concatenate([part.instance for part in parts]),
            sum(part.degenerate for part in parts),
            sum(part.non_finite for part in parts),
        )

    def _placed(self) -> Iterator[tuple[list[int], Geometry, Float64s]]:
        """Each geometry that is drawn, with the instances that draw it and their matrices, float64[k, 4, 4]."""
        users: dict[int, list[int]] = {}
        for number, instance in enumerate(self.instances):
            users.setdefault(instance.mesh, []).append(number)
        for mesh, numbers in users.items():
            worlds = np.stack([self.instances[number].world for number in numbers])
            for geometry in self.meshes[mesh].geometries:
                if len(geometry.indices):
                    yield numbers, geometry, worlds


def default_camera(scene: Scene) -> Camera:
    """A camera that sees the whole scene from the front, a bit from the right and above, in any window down to 1:1."""
    bounds = scene.bounds()
    low, high = bounds if bounds is not None else np.array([[-1.0] * 3, [1.0] * 3])
    radius = float(np.linalg.norm(high - low)) / 2 or 1.0
    back = np.array(DEFAULT_VIEW) / np.linalg.norm(DEFAULT_VIEW)
    distance = DEFAULT_MARGIN * radius / math.sin(DEFAULT_YFOV / 2)
    right = np.cross([0.0, 1.0, 0.0], back)
    right /= np.linalg.norm(right)
    world = np.eye(4)
    world[:3, 0], world[:3, 1], world[:3, 2] = right, np.cross(back, right), back
    world[:3, 3] = (low + high) / 2 + back * distance
    return Camera("default", Perspective(DEFAULT_YFOV, None, distance * 1e-3, distance * 1e3), world)


def _transform(points: Float32s, worlds: Float64s) -> Float64s:
    """Points float32[n, 3] through k matrices: float64[k, n, 3]. What overflows becomes infinite, silently."""
    moved: Float64s = points.astype(np.float64) @ worlds[:, :3, :3].transpose(0, 2, 1)
    moved += worlds[:, None, :3, 3]
    return moved


def _world_triangles(geometry: Geometry, worlds: Float64s, ids: NDArray[np.int32]) -> TriangleSoup:
    """One geometry under k matrices: flat part of a soup, its normals None where the geometry has none."""
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
        cofactors = np.stack([np.cross(linear[:, (i + 1) % 3], linear[:, (i + 2) % 3]) for i in range(3)], 1)
        turned = np.zeros_like(worlds)
        turned[:, :3, :3] = cofactors * np.where(mirrored, -1.0, 1.0)[:, None, None]
        shading = _corners(geometry.normals, indices, turned, unit=True)
        shading[mirrored] = shading[mirrored][:, :, [0, 2, 1]]
        normals = shading[hit]
        missing = ~np.any(normals, -1)
        if missing.any():
            normals = np.where(missing[..., None], _geometric_normals(corners[hit])[:, None, :], normals)
    count = int(hit.sum())
    return TriangleSoup(
        corners[hit],
        normals,
        np.full(count, geometry.material, np.int32),
        np.broadcast_to(ids[:, None], hit.shape)[hit],
        int(finite.sum()) - count,
        finite.size - int(finite.sum()),
    )


def _corners(vectors: Float32s, indices: NDArray[np.int64], worlds: Float64s, unit: bool = False) -> Float32s:
    """Vectors of each corner of each triangle under k matrices: float32[k, m, 3, 3]; of unit length (or zero) if asked.

    Vertices are transformed once each, unless the triangles use few of them.
    """
    gather_first = indices.size < len(vectors)
    moved = _transform(vectors[indices.reshape(-1)] if gather_first else vectors, worlds)
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
    return np.cross(first, second), longest


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
