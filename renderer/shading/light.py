"""Light from emissive triangles: choosing a point on them, and the density with which it is chosen.

Few triangles are chosen by their power (area times luminance) from an alias table, a point on one uniformly by area. The density of a
point by area is therefore luminance / total power, whatever the triangle: a hit on an emitter needs nothing but its material to know it.
Many are chosen from a tree, by where the light is wanted (`light_tree`): the same density, times a factor that is the light's own there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine import Tensor, for_loop, where
from renderer.sampling.rng import Rng
from renderer.sampling.warp import triangle
from renderer.shading.light_tree import LightTree, Receiver
from renderer.vec import Ray, Vec3, cross, dot

FAR = 3.0e38  # metres, to what has no place
FEW = 32  # lights up to which a ray may be compared with each of them
# Floats of a light: first vertex, two edges, radiance, density by area, side, longest edge, triangle (bits). The side: 1 + the number of
# its placing where it shines from both, else minus that number, which is 0 where nothing is placed.
LIGHT_ROW = 16
ALIAS_ROW = 4  # floats that may follow in a row: of the alias table's column of that number the share and the other light (bits)


class Towards(NamedTuple):
    """The way from a point to a light that was chosen for it: `way`, a vector that reaches the light at `reach` of its length;
    `direction`, of unit length; radiance in W/(sr m2); `density`, with which it was chosen, by area (1/m2) at the squared distance and
    cosine that follow, or by solid angle where these are 1; `lit`: whether light can come this way. `delta`: no scattering could find this
    light (None: it could), so that radiance is irradiance of a surface facing it, and the density a probability."""

    way: Vec3
    reach: Any
    direction: Vec3
    radiance: Vec3
    density: Any
    squared: Any
    cosine: Any
    lit: Any
    delta: Any = None


class LightSample(NamedTuple):
    """A point on a light: its normal (unit, towards the emitting side), its radiance in W/(sr m2), its density in 1/m2; `side`: see
    LIGHT_ROW; `size`: the longest edge of its triangle in metres; `triangle`: its number, int32."""

    point: Vec3
    normal: Vec3
    radiance: Vec3
    density: Tensor
    side: Tensor
    size: Tensor
    triangle: Tensor

    @property
    def two_sided(self) -> Tensor:
        """bool: whether it shines from both sides."""
        return self.side > 0

    def placing(self) -> Tensor:
        """int32: the number of the placing that its triangle is of."""
        return where(self.side > 0, self.side - 1, -self.side).cast("int32")


class AliasColumns(NamedTuple):
    """An alias table: float32[n] and int32[n], see `sampling.alias`."""

    probability: Tensor
    alias: Tensor


@dataclass(frozen=True)
class Lights:
    """The emissive triangles of a scene. `alias`: the alias table, None where rows have it or there is none; `rows`: float32[n, LIGHT_ROW
    or LIGHT_ROW + ALIAS_ROW]. `count`: how many there are (the tables may be longer); `few`: not more than FEW, which shapes the code.
    `tree`: where there are more, what they are chosen by in place of an alias table."""

    alias: AliasColumns | None
    rows: Tensor
    count: Any  # int
    few: bool = field(metadata={"static": True})
    tree: LightTree | None = None

    def sample(self, at: Receiver, both: bool, rng: Rng) -> tuple[LightSample, Rng]:
        """A point on some light (at least one must exist) for a receiver; both: light may reach it from behind."""
        u, rng = rng.next()
        v, rng = rng.next()
        w, rng = rng.next()
        favour = None
        if self.tree is not None:
            more, rng = rng.next()
            light, favour = self.tree.choose(at, both, u, more)
        else:
            light = self._by_power(u)
        row = [self.rows[light, k] for k in range(16)]
        density = row[12] if favour is None else row[12] * favour
        e1, e2 = Vec3(*row[3:6]), Vec3(*row[6:9])
        b1, b2 = triangle(v, w)
        n = cross(e1, e2)
        n = n * (1.0 / dot(n, n).sqrt())
        point = Vec3(*row[0:3]) + e1 * b1 + e2 * b2
        return LightSample(point, n, Vec3(*row[9:12]), density, row[13], row[14], row[15].bitcast("int32")), rng

    def _by_power(self, u: Tensor) -> Tensor:
        """A light, by a random number in [0, 1)."""
        scaled = u * self.count
        column = scaled.cast("int32").minimum(self.count - 1)
        share, other = self._column(column)
        return where(scaled - column.cast("float32") < share, column, other)

    def _column(self, number: Tensor) -> tuple[Tensor, Tensor]:
        """Of a column of the alias table: the share of its own light, and the other light."""
        if self.alias is not None:
            return self.alias.probability[number], self.alias.alias[number]
        share, other = (self.rows[number, LIGHT_ROW + k] for k in range(2))
        return share, other.bitcast("int32")

    def nearest(self, ray: Ray, t_max: Any) -> tuple[Tensor, Tensor]:
        """The nearest emissive triangle on each lane's ray, from either side: its distance (t_max: none) and number (-1: none).

        Moeller and Trumbore, "Fast, Minimum Storage Ray/Triangle Intersection" (1997), each lane against one triangle after another.
        """
        d = ray.direction

        def test(i: Tensor, t: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
            row = [self.rows[i, k] for k in range(9)]
            e1, e2 = Vec3(*row[3:6]), Vec3(*row[6:9])
            across = cross(d, e2)
            scale = 1.0 / dot(e1, across)
            start = ray.origin - Vec3(*row[0:3])
            u = dot(start, across) * scale
            along = cross(start, e1)
            v, distance = dot(d, along) * scale, dot(e2, along) * scale
            nearer = (u >= 0) & (v >= 0) & (u + v <= 1) & (distance > 0) & (distance < t)
            return where(nearer, distance, t), where(nearer, i, found)

        return for_loop(self.count, test, (d.x * 0 + t_max, Tensor(-1)))  # type: ignore[no-any-return]

    def at(self, light: Tensor) -> tuple[Vec3, Vec3, Tensor, Tensor, Tensor]:
        """Of emissive triangles: unit normal, radiance, density by area (1/m2), whether two-sided, longest edge (m)."""
        row = [self.rows[light, k] for k in range(3, 15)]
        n = cross(Vec3(*row[0:3]), Vec3(*row[3:6]))
        return n * (1.0 / dot(n, n).sqrt()), Vec3(*row[6:9]), row[9], row[10] > 0, row[11]


# The density of a point on a light, D by area, is D r^2 / c by solid angle, at the distance r under the cosine c. Veach's power heuristic
# weighs it against the density p of scattering; both forms below have one division.


def weight_of_connecting(density: Any, distance_squared: Tensor, cosine: Tensor, scattering: Tensor) -> Tensor:
    """Weight of a point sampled on a light, divided by its density by solid angle: a / (a^2 + p^2), where a = D r^2 / c."""
    by_area, other = density * distance_squared, scattering * cosine
    result: Tensor = by_area * cosine / (by_area * by_area + other * other)
    return result


def weight_of_scattering(density: Any, distance_squared: Any, cosine: Any, scattering: Tensor) -> Tensor:
    """Weight of light found by scattering: p^2 / (a^2 + p^2); 1 where no light sampling could have found it (D = 0)."""
    by_area, other = density * distance_squared, scattering * cosine
    square = other * other
    return where(density > 0, square / (by_area * by_area + square), 1.0)
