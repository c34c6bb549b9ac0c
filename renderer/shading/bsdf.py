"""How surfaces scatter light, and how to replace it by something of one's own.

The renderer knows surfaces through one function, `make_bsdf(surface)`: it is given what is known of a place that a ray met, and returns
an object with three methods (`BSDF`). This module's takes glTF's material (`gltf_bsdf`), or where all surfaces of a scene are matt,
Lambert's. A file of one's own with another `make_bsdf` takes its place (`--material FILE.py`), and is compiled into the same kernel:

    from renderer.shading.bsdf import Lambert, Surface
    from renderer.vec import Vec3

    def make_bsdf(surface: Surface) -> Lambert:
        upwards = surface.normal.y.abs()
        return Lambert(surface.albedo * upwards + Vec3(0.8, 0.2, 0.1) * (1 - upwards))

All values are Tensors, one element for each path. The function is traced: it runs once, when the kernel is compiled, and records
arithmetic. To decide something for each path use `where(condition, a, b)`, not `if`; `if` decides once, for all.

Directions are in the shading frame (normal +z), of unit length, and point away from the surface. `f` is the BSDF times the cosine of
the light's direction, so that an estimator multiplies by `f / density`. The three methods must agree: `sample` draws directions with
`density`, its weight is f / density, and no less light comes back than `f` says. Where the density is 0, f must be. Of directions below
the surface (z < 0) both are 0, unless the object has an attribute `through` that is True: then light is followed through the surface, and
each sample says by its `through` whether it goes there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from engine import Tensor
from renderer.sampling.rng import Rng
from renderer.sampling.warp import INV_PI, cosine_hemisphere
from renderer.shading.gltf_bsdf import BsdfSample as BsdfSample
from renderer.shading.gltf_bsdf import gltf_bsdf
from renderer.shading.gltf_material import Features, MaterialPoint
from renderer.vec import Vec3, greater


class Surface(NamedTuple):
    """Where a ray met the scene.

    point: in the world, m. normal: geometric, in the world, unit length, on the side that the ray came from. front: bool, whether that is
    the front. wo: where the ray came from, in the shading frame. albedo: the material's colour, in [0, 1]. emission: radiance that
    leaves the surface of its own, W/(sr m2), added by the renderer. material: all values of glTF's material, None in a scene whose
    surfaces are all matt; features: which extensions are in the scene, a constant.
    """

    point: Vec3
    normal: Vec3
    front: Tensor
    wo: Vec3
    albedo: Vec3
    emission: Vec3
    material: MaterialPoint | None = None
    features: Features = Features()


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
    """Lambert's where all surfaces of the scene are matt, else glTF's."""
    if surface.material is None:
        return Lambert(surface.albedo)
    return gltf_bsdf(surface.material, surface.features, surface.wo, surface.front)


def lets_through(bsdf: BSDF) -> bool:
    """Whether light may go through a surface that scatters so."""
    return bool(getattr(bsdf, "through", False))


def evaluated(bsdf: BSDF, wi: Vec3) -> tuple[Vec3, Any]:
    """`f` and `density`, by one call where the object has a method `evaluate` for both."""
    both = getattr(bsdf, "evaluate", None)
    result: tuple[Vec3, Any] = both(wi) if both is not None else (bsdf.f(wi), bsdf.density(wi))
    return result
