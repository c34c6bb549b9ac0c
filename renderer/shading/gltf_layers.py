"""The upper layers of glTF's material: a clear coat, and sheen under it.

Each is a lobe of reflection and a part of the light that it leaves for what is under it, the lesser of what it leaves on the way in and
on the way out: the same both ways, and never too much. That is how KHR_materials_sheen has it ("Albedo-scaling technique"), and it does
for a coat as well. (KHR_materials_clearcoat scales by F(n.wo) both the coat's facets and what is under them; here facets reflect by
F(wo.h), as all others do, and the rest is what these leave.) Both layers lie on the outside: light inside a body knows nothing of them.
They are computed in a branch: where no lane of a group has one it costs little.

The lesser of both ways is exact for what mirrors under a layer and takes too much of what scatters: of a white furnace up to 4 % are lost
under a smooth coat, up to 13 % under a white sheen of roughness 0.5, and 15 % at 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from engine import Tensor, cond, where
from renderer.shading.energy import Albedo, albedo
from renderer.shading.fresnel import fifth
from renderer.shading.gltf_facets import Way
from renderer.shading.gltf_material import Features, MaterialPoint
from renderer.shading.microfacet import ALPHA_MIN, Ggx, Seen, isotropic
from renderer.shading.sheen import Charlie, charlie
from renderer.vec import Basis, Vec3, basis_around, dot, greater, lesser

COAT_F0 = 0.04  # of the index 1.5


class Coat(NamedTuple):
    """strength: 0 where there is none; basis: around its own normal, None where that is the surface's; wo: in that basis; seen: from
    there; left: for what is under it, along wo."""

    strength: Tensor
    facets: Ggx
    fits: Albedo
    basis: Basis | None
    wo: Vec3
    seen: Seen
    left: Tensor

    @property
    def weight(self) -> Tensor:
        """About what it reflects of light along wo."""
        return 1.0 - self.left

    def evaluate(self, way: Way) -> tuple[Tensor, Tensor, Tensor]:
        """The lobe times the cosine to the coat's normal, the part left for what is under it, the density."""

        def layer() -> tuple[Tensor, Tensor, Tensor]:
            wi, h = (way.wi, way.h) if self.basis is None else (self.basis.to_local(way.wi), self.basis.to_local(way.h))
            light = greater(wi.z, 0.0)
            facing, lobe, _ = self.facets.reflection(h, wi, light, self.seen)
            lobe = self.strength * _fresnel(way.to_wo) * lobe
            left = lesser(self.left, 1.0 - self.strength * _albedo(self.fits, light))
            return lobe, left, facing * self.seen.density

        def nothing() -> tuple[Tensor, Tensor, Tensor]:
            zero = way.cosine * 0
            return zero, zero + 1.0, zero

        return cond(self.strength > 0, layer, nothing)  # type: ignore[no-any-return]

    def sample(self, wo: Vec3, x: Tensor, y: Tensor) -> Vec3:
        """A direction; (x, y): uniform in the unit disk; wo: in the shading frame."""
        h = self.facets.sample(self.wo, x, y)
        if self.basis is not None:
            h = self.basis.to_world(h)
        result: Vec3 = h * (2.0 * dot(wo, h)) - wo
        return result


def coat_of(point: MaterialPoint, features: Features, wo: Vec3, inside: Tensor | None) -> Coat:
    """The clearcoat of a material."""
    facets, basis, local = isotropic(point.clearcoat_roughness), None, wo
    fits = albedo(greater(point.clearcoat_roughness, math.sqrt(ALPHA_MIN)))
    strength = point.clearcoat if inside is None else where(inside, 0.0, point.clearcoat)
    if features.clearcoat_normal:
        assert point.clearcoat_normal is not None
        basis = basis_around(point.clearcoat_normal)
        local = basis.to_local(wo)
        strength = where(local.z > 0, strength, 0.0)  # a normal that looks away from wo shows no coat
        local = Vec3(local.x, local.y, greater(local.z, 0.0))
    return Coat(strength, facets, fits, basis, local, facets.seen_from(local), 1.0 - strength * _albedo(fits, local.z))


def _fresnel(cosine: Tensor) -> Tensor:
    return COAT_F0 + (1.0 - COAT_F0) * fifth(greater(1.0 - cosine, 0.0))


def _albedo(fits: Albedo, cosine: Tensor) -> Tensor:
    loss, grazing = fits.at(cosine)
    return COAT_F0 * (1.0 - loss) + (1.0 - COAT_F0) * grazing


class Sheen(NamedTuple):
    """color: black where there is none; most: its greatest channel; shadow, albedo: the fibres' along wo, of which `cosine` is the z."""

    color: Vec3
    most: Tensor
    fibres: Charlie
    cosine: Tensor
    shadow: Tensor
    albedo: Tensor

    @property
    def left(self) -> Tensor:
        """The part of the light along wo that is left for what is under it."""
        return 1.0 - self.most * lesser(self.albedo, 1.0)

    def evaluate(self, way: Way) -> tuple[Tensor, Tensor]:
        """The lobe times the cosine, white, and the part left for what is under it. Its samples are uniform in the hemisphere."""

        def layer() -> tuple[Tensor, Tensor]:
            most = greater(self.albedo, self.fibres.albedo(way.cosine))
            lobe = self.fibres.f(way.h, self.cosine, self.shadow, self.fibres.shadow(way.cosine))
            return lobe / greater(most, 1.0), 1.0 - self.most * lesser(most, 1.0)

        def nothing() -> tuple[Tensor, Tensor]:
            return way.cosine * 0, way.cosine * 0 + 1.0

        return cond(self.most > 0, layer, nothing)  # type: ignore[no-any-return]


UNIFORM = 0.5 / math.pi  # density of a direction uniform in the hemisphere, in 1/sr


def uniform_hemisphere(x: Tensor, y: Tensor) -> Vec3:
    """A direction of the hemisphere, uniform; (x, y): uniform in the unit disk (area is kept: Shirley and Chiu 1997)."""
    squared = x * x + y * y
    out = greater(2.0 - squared, 0.0).sqrt()
    return Vec3(x * out, y * out, 1.0 - squared)


def sheen_of(point: MaterialPoint, wo: Vec3, inside: Tensor | None) -> Sheen:
    """The sheen of a material."""
    assert point.sheen_color is not None
    color = point.sheen_color if inside is None else point.sheen_color * where(inside, 0.0, 1.0)
    fibres = charlie(point.sheen_roughness)
    return Sheen(color, color.max_component(), fibres, wo.z, fibres.shadow(wo.z), fibres.albedo(wo.z))
