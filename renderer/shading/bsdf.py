"""How surfaces scatter light. One model so far: the Lambert part of glTF's materials.

Directions are in the shading frame (normal +z), of unit length, pointing away from the surface. `f` is the BSDF times the cosine of
the light's direction, so that an estimator multiplies by `f / density`.
"""

from __future__ import annotations

from typing import NamedTuple

from engine import Tensor
from renderer.sampling.rng import Rng
from renderer.sampling.warp import INV_PI, cosine_hemisphere
from renderer.vec import Vec3, greater


class BsdfSample(NamedTuple):
    """A direction, its density in 1/sr, and f / density (a colour)."""

    wi: Vec3
    density: Tensor
    weight: Vec3


class Lambert(NamedTuple):
    """Equal radiance in all directions. albedo: reflected part of the light, a colour in [0, 1]."""

    albedo: Vec3

    def f(self, cosine: Tensor) -> Vec3:
        """BSDF times the cosine, for light under this cosine (0 from below)."""
        return self.albedo * (greater(cosine, 0.0) * INV_PI)

    def density(self, cosine: Tensor) -> Tensor:
        """Density of `sample` for a direction under this cosine, in 1/sr."""
        return greater(cosine, 0.0) * INV_PI

    def sample(self, rng: Rng) -> tuple[BsdfSample, Rng]:
        """A direction by the cosine."""
        u, rng = rng.next()
        v, rng = rng.next()
        wi, density = cosine_hemisphere(u, v)
        return BsdfSample(wi, density, self.albedo), rng
