"""From uniform numbers to points and directions, with their densities."""

from __future__ import annotations

import math
from typing import Any

from engine import Tensor, where
from renderer.vec import Vec3, greater

INV_PI = 1.0 / math.pi


def disk(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """A point of the unit disk, uniform by area: the concentric map (Shirley and Chiu, "A Low Distortion Map Between Disk and Square",
    1997)."""
    a, b = 2 * u - 1, 2 * v - 1
    wide = a * a > b * b
    radius = where(wide, a, b)
    ratio = where(wide, b, a) / where(radius == 0, 1.0, radius)
    angle = (math.pi / 4) * ratio
    sine, cosine = _sincos_eighth(angle)
    return radius * where(wide, cosine, sine), radius * where(wide, sine, cosine)


def _sincos_eighth(x: Tensor) -> tuple[Tensor, Tensor]:
    """Sine and cosine for |x| <= pi/4 by their Taylor series; errors below 4e-7 (absolute)."""
    s = x * x
    sine = x * (1 + s * (-1 / 6 + s * (1 / 120 + s * (-1 / 5040 + s * (1 / 362880)))))
    cosine = 1 + s * (-1 / 2 + s * (1 / 24 + s * (-1 / 720 + s * (1 / 40320))))
    return sine, cosine


def cosine_hemisphere(u: Tensor, v: Tensor) -> tuple[Vec3, Tensor]:
    """A direction about +z with density cos(theta) / pi (Malley's method), and that density in 1/sr."""
    x, y = disk(u, v)
    z = greater(1 - x * x - y * y, 0.0).sqrt()
    return Vec3(x, y, z), z * INV_PI


def triangle(u: Tensor, v: Tensor) -> tuple[Any, Any]:
    """Barycentric weights (of the second and third vertex) of a point uniform by area (Osada et al., "Shape Distributions", 2002)."""
    root = u.sqrt()
    return root * (1 - v), root * v
