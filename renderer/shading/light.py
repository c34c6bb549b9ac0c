"""Light from emissive triangles: choosing a point on them, and the density with which it is chosen.

A triangle is chosen by its power (area times luminance) from an alias table, a point on it uniformly by area. The density of a point
by area is therefore luminance / total power, whatever the triangle: a hit on an emitter needs nothing but its material to know it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine import Tensor, where
from renderer.sampling.rng import Rng
from renderer.sampling.warp import triangle
from renderer.vec import Vec3, cross, dot

LIGHT_ROW = 16  # floats of a light: first vertex, two edges, radiance, density by area, two-sided, longest edge


class LightSample(NamedTuple):
    """A point on a light: its normal (unit, towards the emitting side), its radiance in W/(sr m2), its density in 1/m2;
    `size`: the longest edge of its triangle in metres."""

    point: Vec3
    normal: Vec3
    radiance: Vec3
    density: Tensor
    two_sided: Tensor
    size: Tensor


@dataclass(frozen=True)
class Lights:
    """The emissive triangles of a scene. `probability`, `alias`: the alias table; `rows`: float32[n, 16]."""

    probability: Tensor
    alias: Tensor
    rows: Tensor
    count: int = field(metadata={"static": True})

    def sample(self, rng: Rng) -> tuple[LightSample, Rng]:
        """A point on some light (at least one must exist)."""
        u, rng = rng.next()
        v, rng = rng.next()
        w, rng = rng.next()
        scaled = u * self.count
        column = scaled.cast("int32").minimum(self.count - 1)
        light = where(scaled - column.cast("float32") < self.probability[column], column, self.alias[column])
        row = [self.rows[light, k] for k in range(15)]
        e1, e2 = Vec3(*row[3:6]), Vec3(*row[6:9])
        b1, b2 = triangle(v, w)
        n = cross(e1, e2)
        n = n * (1.0 / dot(n, n).sqrt())
        return LightSample(Vec3(*row[0:3]) + e1 * b1 + e2 * b2, n, Vec3(*row[9:12]), row[12], row[13] > 0, row[14]), rng


def solid_angle_density(density: Any, distance_squared: Tensor, cosine: Tensor) -> Tensor:
    """A density by area (1/m2) as one by solid angle (1/sr), seen from this distance under this cosine."""
    result: Tensor = density * distance_squared / cosine
    return result
