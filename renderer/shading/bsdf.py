"""How surfaces scatter light, and how to replace it by something of one's own.

The renderer knows surfaces through one function, `make_bsdf(surface)`: it is given what is known of a place that a ray met, and returns
an object with three methods (`BSDF`). This module's takes the Lambert part of glTF's materials. A file of one's own with another
`make_bsdf` takes its place (`--material FILE.py`), and is compiled into the same kernel:

    from renderer.shading.bsdf import Lambert, Surface
    from renderer.vec import Vec3

    def make_bsdf(surface: Surface) -> Lambert:
        upwards = surface.normal.y.abs()
        return Lambert(surface.albedo * upwards + Vec3(0.8, 0.2, 0.1) * (1 - upwards))

All values are Tensors, one element for each path. The function is traced: it runs once, when the kernel is compiled, and records
arithmetic. To decide something for each path use `where(condition, a, b)`, not `if`; `if` decides once, for all.

Directions are in the shading frame (normal +z), of unit length, and point away from the surface. `f` is the BSDF times the cosine of
the light's direction, so that an estimator multiplies by `f / density`. The three methods must agree: `sample` draws directions with
`density`, its weight is f / density, and no less light comes back than `f` says. Where the density is 0, f must be. Light that goes
through surfaces is not followed: of directions below the surface (z < 0) the density is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from engine import Tensor
from renderer.sampling.rng import Rng
from renderer.sampling.warp import INV_PI, cosine_hemisphere
from renderer.vec import Vec3, greater


class Surface(NamedTuple):
    """Where a ray met the scene.

    point: in the world, m. normal: geometric, in the world, unit length, on the side that the ray came from. front: bool, whether that is
    the front. wo: where the ray came from, in the shading frame. albedo: the material's colour, in [0, 1]. emission: radiance that
    leaves the surface of its own, W/(sr m2), added by the renderer.
    """

    point: Vec3
    normal: Vec3
    front: Tensor
    wo: Vec3
    albedo: Vec3
    emission: Vec3


class BsdfSample(NamedTuple):
    """A direction (unit length, z > 0), its density in 1/sr, and f / density (a colour)."""

    wi: Vec3
    density: Tensor
    weight: Vec3


class BSDF(Protocol):
    """How one place scatters light that leaves it along the surface's `wo`. Colours are Vec3, linear Rec.709, not negative."""

    def f(self, wi: Vec3) -> Vec3:
        """The BSDF times the cosine of `wi`, for light from there; 0 from below (z < 0)."""

    def density(self, wi: Vec3) -> Tensor:
        """The density of `sample` at `wi`, in 1/sr."""

    def sample(self, rng: Rng) -> tuple[BsdfSample, Rng]:
        """A direction, by `density`, and the stream of random numbers after it (`u, rng = rng.next()`, u in [0, 1))."""


MakeBSDF = Callable[[Surface], BSDF]


class Lambert(NamedTuple):
    """Equal radiance in all directions. albedo: reflected part of the light, a colour in [0, 1]."""

    albedo: Vec3

    def f(self, wi: Vec3) -> Vec3:
        """BSDF times the cosine, for light from `wi` (0 from below)."""
        return self.albedo * (greater(wi.z, 0.0) * INV_PI)

    def density(self, wi: Vec3) -> Tensor:
        """Density of `sample` for a direction, in 1/sr."""
        return greater(wi.z, 0.0) * INV_PI

    def sample(self, rng: Rng) -> tuple[BsdfSample, Rng]:
        """A direction by the cosine."""
        u, rng = rng.next()
        v, rng = rng.next()
        wi, density = cosine_hemisphere(u, v)
        return BsdfSample(wi, density, self.albedo), rng


def make_bsdf(surface: Surface) -> BSDF:
    """Lambert's, for every surface."""
    return Lambert(surface.albedo)
