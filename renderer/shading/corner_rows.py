"""The table of corners: what triangles have at their three corners, and what kernels make of it between them.

A row of floats for each triangle, and only in scenes that need one: `Corners` says what is in it, and shapes the code. A scene of flat,
plain surfaces has no such table. Barycentric weights are affine in the place, so a row begins with what gives them from a hit point, the
first corner and two gradients (nine floats, no division); then come the values at the corners: normals, tangents, texture coordinates of
each set that is used, with the scale that levels of detail need, and colours; where lamps have textures, the triangle's glow. Rows are
filled up to a multiple of four floats.

Normals that are those of their triangles make no surface smooth, so a scene where all are such is flat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine import Tensor, where
from renderer.bvh.placings import Place
from renderer.scene.model import Scene, TriangleSoup
from renderer.scene.soup import geometries_of
from renderer.vec import Vec3, cross, dot, greater, lesser

FLAT = 1e-6  # 1 - cosine between a corner's normal and its triangle's, up to which they are the same
NO_TEXCOORDS = -1.0  # in the place of a scale
_PLACE = 9


@dataclass(frozen=True)
class Corners:
    """What of corners the kernels of a scene know. texcoords: the sets of texture coordinates that are used, in order; glow: how much of
    its material's light a triangle sends (`scene.light_powers`)."""

    normals: bool = False
    tangents: bool = False
    texcoords: tuple[int, ...] = ()
    colours: bool = False
    glow: bool = False

    def covers(self, other: Corners) -> bool:
        """Whether kernels for these can draw all that those for the other can."""
        flags = all(mine or not theirs for mine, theirs in zip(_flags(self), _flags(other), strict=True))
        return flags and set(self.texcoords) >= set(other.texcoords)

    def places(self) -> dict[str, int]:
        """The first column of each value; "": of what follows the last."""
        found, column = {}, _PLACE
        parts = [("normals", 9 * self.normals), ("tangents", 10 * self.tangents), ("colours", 12 * self.colours), ("glow", int(self.glow))]
        for name, width in [*parts, *((f"texcoords {number}", 7) for number in self.texcoords)]:
            if width:
                found[name] = column
            column += width
        return found | {"": column}

    @property
    def width(self) -> int:
        """Floats of a row."""
        return -(-self.places()[""] // 4) * 4


NO_CORNERS = Corners()


def _flags(corners: Corners) -> tuple[bool, ...]:
    return corners.normals, corners.tangents, corners.colours, corners.glow


# ---- on the host ----


def is_smooth(soup: TriangleSoup, face: NDArray[np.floating]) -> bool:
    """Whether some corner has another normal than its triangle, whose normals are float[T, 3]."""
    return soup.normals is not None and bool((np.einsum("ijk,ik->ij", soup.normals, face) < 1 - FLAT).any())


def corners_of(
    scene: Scene, soup: TriangleSoup, face: NDArray[np.floating], directed: bool, texcoords: tuple[int, ...], glow: bool
) -> Corners:
    """What the kernels of a scene need. face: float[T, 3], the unit normals of the triangles; directed: surfaces have a direction, the
    tangent; texcoords: the sets of texture coordinates that are used; glow: lamps have textures."""
    directed = directed and soup.tangents is not None
    colours = any(geometry.colours is not None for _, _, geometry, _, _ in scene.placed())
    return Corners(directed or is_smooth(soup, face), directed, texcoords, colours, glow)


def corner_rows(
    scene: Scene, soup: TriangleSoup, face: NDArray[np.floating], corners: Corners, glow: NDArray[np.float64] | None = None
) -> NDArray[np.float32]:
    """float32[T, corners.width]. face: float[T, 3], the unit normals of the triangles; glow: float64[T] (None: all 1)."""
    rows = np.zeros((len(soup), corners.width), np.float32)
    places = corners.places()
    p = soup.positions.astype(np.float64)
    e1, e2 = p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]
    normal = np.cross(e1, e2)
    scale = 1.0 / np.maximum((normal**2).sum(1, keepdims=True), 1e-300)  # 0 in a scene of nothing
    rows[:, 0:3], rows[:, 3:6], rows[:, 6:9] = p[:, 0], np.cross(e2, normal) * scale, np.cross(normal, e1) * scale
    if corners.normals:
        at = places["normals"]
        rows[:, at : at + 9] = (soup.normals if soup.normals is not None else np.repeat(face[:, None], 3, 1)).reshape(-1, 9)
    if corners.tangents and soup.tangents is not None:
        at = places["tangents"]
        rows[:, at : at + 9] = soup.tangents[:, :, :3].reshape(-1, 9)
        rows[:, at + 9] = soup.tangents[:, 0, 3]
    if corners.glow:
        rows[:, places["glow"]] = 1.0 if glow is None else glow
    if corners.colours or corners.texcoords:
        _from_geometries(rows, scene, soup, corners)
    return rows


def _from_geometries(rows: NDArray[np.float32], scene: Scene, soup: TriangleSoup, corners: Corners) -> None:
    """Fills in what is the same wherever a geometry is placed."""
    places = corners.places()
    for geometry, which in geometries_of(scene, soup):
        vertices = soup.vertices[which]
        if corners.colours:
            at = places["colours"]
            rows[which, at : at + 12] = 1.0 if geometry.colours is None else geometry.colours[vertices].reshape(-1, 12)
        for texcoord in corners.texcoords:
            at = places[f"texcoords {texcoord}"]
            rows[which, at + 6] = NO_TEXCOORDS
            if texcoord < len(geometry.texcoords):
                uv = np.nan_to_num(geometry.texcoords[texcoord])[vertices]
                rows[which, at : at + 6] = uv.reshape(-1, 6)
                rows[which, at + 6] = uv_per_metre(uv, soup.positions[which])


def uv_per_metre(uv: NDArray[Any], positions: NDArray[Any]) -> NDArray[np.float32]:
    """float32[n]: of triangles, uv float[n, 3, 2] and positions float[n, 3, 3], the root of their area in uv by that in space; 0 where
    there is none (seen as through a finest footprint)."""
    a, b = (uv[:, k].astype(np.float64) - uv[:, 0] for k in (1, 2))
    p, q = (positions[:, k].astype(np.float64) - positions[:, 0] for k in (1, 2))
    with np.errstate(all="ignore"):
        ratio = np.sqrt(np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) / np.linalg.norm(np.cross(p, q), axis=1))
    return np.where(np.isfinite(ratio), ratio, 0.0).astype(np.float32)


# ---- in kernels ----


class Between(NamedTuple):
    """A place within a triangle: its row, the weights of its corners, and the placing of the part that it belongs to (None: the world)."""

    corners: Corners
    floats: list[Any]
    weights: tuple[Tensor, Tensor, Tensor]
    placing: Place | None

    def _mixed(self, name: str, first: int, step: int) -> Tensor:
        at = self.corners.places()[name] + first
        a, b, c = self.weights
        result: Tensor = self.floats[at] * a + self.floats[at + step] * b + self.floats[at + 2 * step] * c
        return result

    def normal(self) -> Vec3:
        """The normal, not of unit length."""
        inner = Vec3(*(self._mixed("normals", k, 3) for k in range(3)))
        return inner if self.placing is None else self.placing.normal(inner)

    def lift(self, point: Vec3, side: Tensor) -> Vec3:
        """The way from a point of a smooth triangle out to the curved surface that it stands for; side: 1 or -1, that of the normals, on
        which nothing is to be hidden by the triangle's being flat.

        Each corner has a plane at right angles to its normal; where the point lies below one it is lifted onto it, and of the three places
        the mean is taken (Hanika, "Hacking the Shadow Terminator", Ray Tracing Gems II, 2021). 0 where the surface is hollow or flat.
        """
        off = (point if self.placing is None else self.placing.point(point)) - Vec3(*self.floats[0:3])
        b, c = Vec3(*self.floats[3:6]), Vec3(*self.floats[6:9])
        across = cross(b, c)
        scale = 1.0 / greater(dot(across, across), 1e-37)
        at, total = self.corners.places()["normals"], off * 0.0
        for k, (weight, corner) in enumerate(zip(self.weights, (None, cross(c, across), cross(across, b)), strict=True)):
            normal = Vec3(*self.floats[at + 3 * k : at + 3 * k + 3])
            above = dot(off if corner is None else off - corner * scale, normal) * side
            total = total - normal * (lesser(above, 0.0) * greater(weight, 0.0) * side)
        return total if self.placing is None else self.placing.outward(total)

    def tangent(self) -> tuple[Vec3, Tensor]:
        """The tangent, not of unit length, and the side of the bitangent; zeros where a triangle has none."""
        inner, side = Vec3(*(self._mixed("tangents", k, 3) for k in range(3))), self.floats[self.corners.places()["tangents"] + 9]
        return (inner, side) if self.placing is None else (self.placing.outward(inner), side * self.placing.side())

    def colour(self) -> tuple[Vec3, Tensor]:
        """The colour and alpha by which those of the material are multiplied."""
        return Vec3(*(self._mixed("colours", k, 4) for k in range(3))), self._mixed("colours", 3, 4)

    def glow(self) -> Tensor:
        """How much of its material's light the triangle sends."""
        glow: Tensor = self.floats[self.corners.places()["glow"]]
        return glow

    def texcoord(self, number: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """The texture coordinates of a set, and how many units of them there are in a metre (NO_TEXCOORDS: none)."""
        name = f"texcoords {number}"
        scale = self.floats[self.corners.places()[name] + 6]
        scale = scale if self.placing is None else where(scale > 0, scale / self.placing.mean.abs(), scale)
        return (self._mixed(name, 0, 2), self._mixed(name, 1, 2)), scale


def between(corners: Corners, table: Tensor, triangle: Tensor, point: Vec3, placing: Place | None = None) -> Between:
    """What there is at a point of a triangle; `placing`: of the part that it belongs to, None where that is the world."""
    point = point if placing is None else placing.point(point)
    floats = [table[triangle, k] for k in range(corners.width)]
    off = point - Vec3(*floats[0:3])
    b, c = dot(Vec3(*floats[3:6]), off), dot(Vec3(*floats[6:9]), off)
    return Between(corners, floats, (1.0 - b - c, b, c), placing)
