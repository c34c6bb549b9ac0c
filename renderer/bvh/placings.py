"""Placings: what a part of a scene, with a tree of its own, is to the tree above it.

A part's triangles are held once, in coordinates about the middle of its box; each placing of it is a row of floats that takes a ray
there. Rays keep their length on the way (their directions are not made unit vectors), so that distances mean the same on both sides, but
for the stretch that the ray is moved forward: it begins where it enters the part's box, since only from there boxes are tested with
enough precision, however small the part is in the scene.

A row: the affine map from the world to the part, row by row (12 floats); half the sides of the part's box (3) and its root (bits); the
most that the placing stretches, its mean stretch, negative where it mirrors, the material (bits, -1: what the triangle says), and nothing,
so that it is five times four floats, as devices like them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from engine import Tensor, where
from renderer.bvh.intersect import inverse_of
from renderer.vec import Ray, Vec3, cross, dot, greater, lesser

PLACING_ROW = 20
ROOT_COLUMN = 15
BACK = 1.0 - 2.0**-18  # of the way to a box: where a ray begins, for the way is rounded


class Inside(NamedTuple):
    """A ray in a part's coordinates, `near` of its length further on than in the world; `root` of the part's tree; whether it meets the
    part's box at all."""

    ray: Ray
    near: Tensor
    root: Tensor
    meets: Tensor


class Place(NamedTuple):
    """A placing: the rows of its map's linear part, the shift, and what the rest of the row says."""

    x: Vec3
    y: Vec3
    z: Vec3
    shift: Vec3
    most: Tensor
    mean: Tensor
    own_material: Tensor

    def point(self, world: Vec3) -> Vec3:
        """A point of the world, in the part."""
        moved: Vec3 = self.vector(world) + self.shift
        return moved

    def vector(self, world: Vec3) -> Vec3:
        """A vector of the world, in the part."""
        return Vec3(dot(self.x, world), dot(self.y, world), dot(self.z, world))

    def normal(self, inner: Vec3) -> Vec3:
        """A normal of the part, in the world; not of unit length. Mirrored or not, its side stays its side."""
        turned: Vec3 = self.x * inner.x + self.y * inner.y + self.z * inner.z
        return turned

    def outward(self, inner: Vec3) -> Vec3:
        """A vector of the part, in the world. The columns of the map's inverse are cross products of its rows, over its determinant."""
        moved: Vec3 = cross(self.y, self.z) * inner.x + cross(self.z, self.x) * inner.y + cross(self.x, self.y) * inner.z
        return moved * (self.mean * self.mean * self.mean)

    def side(self) -> Tensor:
        """-1 where the placing mirrors, else 1."""
        return where(self.mean < 0, -1.0, 1.0)

    def material(self, triangle: Tensor) -> Tensor:
        """The number of the material, where that of the triangle is this."""
        result: Tensor = where(self.own_material >= 0, self.own_material, triangle)
        return result


@dataclass(frozen=True)
class Placings:
    """`rows`: float32[n, PLACING_ROW]."""

    rows: Tensor

    def enter(self, number: Tensor, ray: Ray) -> Inside:
        """A ray of the world in the part of a placing."""
        row = [self.rows[number, k] for k in range(16)]
        x, y, z = Vec3(*row[0:3]), Vec3(*row[4:7]), Vec3(*row[8:11])
        origin = Vec3(dot(x, ray.origin), dot(y, ray.origin), dot(z, ray.origin)) + Vec3(row[3], row[7], row[11])
        direction = Vec3(dot(x, ray.direction), dot(y, ray.direction), dot(z, ray.direction))
        half, inverse = Vec3(*row[12:15]), inverse_of(direction)
        one, other = (-half - origin) * inverse, (half - origin) * inverse
        near = greater(greater(lesser(one.x, other.x), lesser(one.y, other.y)), lesser(one.z, other.z))
        far = lesser(lesser(greater(one.x, other.x), greater(one.y, other.y)), greater(one.z, other.z))
        near = greater(near * BACK, 0.0)
        return Inside(Ray(origin + direction * near, direction), near, row[ROOT_COLUMN].bitcast("int32"), near <= far)

    def place(self, number: Tensor) -> Place:
        """A placing."""
        row = [self.rows[number, k] for k in range(PLACING_ROW)]
        rest = row[16], row[17], row[18].bitcast("int32")
        return Place(Vec3(*row[0:3]), Vec3(*row[4:7]), Vec3(*row[8:11]), Vec3(row[3], row[7], row[11]), *rest)
