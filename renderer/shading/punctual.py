"""Lights without a surface: points, spots and beams (KHR_lights_punctual). No ray meets them, so they are found by connecting alone.

A light is chosen from an alias table (`scene.punctual_tables`); then there is one way to it. A point or spot sends I W/sr, which arrives
at a surface that faces it as I / d^2; a directional light arrives as it is. A spot fades between the cosines of its two angles as the
extension says: saturate(cosine * scale + offset)^2, where scale 0 and offset 1 make a point light of it. Where a light has a range, the
extension's recommended window max(min(1 - (d / range)^4, 1), 0) multiplies what arrives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine import Tensor, where
from renderer.sampling.rng import Rng
from renderer.shading.light import FAR, Towards
from renderer.vec import Vec3, dot, greater, lesser, select

PUNCTUAL_ROW = 16  # floats: place (3), directional, direction it shines in (3), spot scale, colour (3), spot offset, 1 / range^2,
#                    of the alias table's column the share and the other light (bits), probability


@dataclass(frozen=True)
class Punctual:
    """The punctual lights of a scene, at least one. `rows`: float32[n, PUNCTUAL_ROW]; `count`: how many there are (the table may be
    longer). Probabilities include that of choosing this kind of light."""

    rows: Tensor
    count: Any  # int

    def sample(self, point: Vec3, rng: Rng) -> tuple[Towards, Rng]:
        """The way from a point to one of them; `radiance` is irradiance of a surface that faces it, `density` a probability."""
        u, rng = rng.next()
        share, rng = rng.next()
        column = (u * self.count).cast("int32").minimum(self.count - 1)
        light = where(share < self.rows[column, 13], column, self.rows[column, 14].bitcast("int32"))
        row = [self.rows[light, k] for k in range(PUNCTUAL_ROW)]
        beam, axis = row[3] > 0, Vec3(*row[4:7])
        away = select(beam, -axis, Vec3(*row[0:3]) - point)
        squared = dot(away, away)
        direction = away * (1.0 / greater(squared, 1e-30).sqrt())
        fading = lesser(greater(row[7] * -dot(axis, direction) + row[11], 0.0), 1.0)
        ranged = squared * row[12]
        window = greater(1.0 - ranged * ranged, 0.0)
        arriving = where(beam, 1.0, fading * fading * window / greater(squared, 1e-30))
        lit = (row[15] > 0) & (arriving > 0)
        reach = where(beam, FAR, 1.0)
        return Towards(away, reach, direction, Vec3(*row[8:11]) * arriving, row[15], Tensor(1.0), Tensor(1.0), lit, Tensor(True)), rng
