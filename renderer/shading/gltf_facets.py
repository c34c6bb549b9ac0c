"""The lower part of glTF's material: rough facets that reflect or let through, and the diffuse base under them.

Dielectric and metal share the facets, so their Fresnel reflectances are mixed and there is one lobe of reflection. Light that a
dielectric's facets do not reflect goes, by `transmission`, through them, or to the base, which reflects it or (diffuse transmission) lets
it through in all directions. Where light is inside a body the part of the reflection that belongs to the transmitting share is that of
the real boundary, with total reflection; the rest is reflected as outside, since its base is opaque.

Facets are drawn as `wo` sees them, and each then reflects or transmits by chance, in proportion to what it does of either.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from engine import Tensor, cond, where
from renderer.shading.energy import Albedo, Remainder, albedo, mean_fresnel, multiple, remainder
from renderer.shading.fresnel import f0_of, fifth, snell, thin_film
from renderer.shading.glass import Glass, Lost, glass_of
from renderer.shading.gltf_material import Features, MaterialPoint
from renderer.shading.microfacet import ALPHA_MIN, Ggx, Seen, anisotropic, isotropic
from renderer.shading.transmission import IOR_MAX, IOR_MIN, refracted
from renderer.vec import Vec3, dot, greater, lesser, select

INV_PI = 1.0 / math.pi


class Way(NamedTuple):
    """A pair of directions. up: whether light comes from wo's side. h: the facet that joins them; its cosines to both. wi: the light's
    direction, mirrored to wo's side if it is not there; cosine: its z. bent: whether light is refracted, None where nothing can be."""

    up: Tensor
    h: Vec3
    to_wo: Tensor
    to_wi: Tensor
    wi: Vec3
    cosine: Tensor
    bent: Tensor | None


class Body(NamedTuple):
    """Transmission. tint: colour of what goes through; share: its part of the reflecting surface; solid: whether it bounds a body (None:
    nothing does); inside: whether wo is in it; ior: the body's index, eta: that beyond over that on wo's side; colors: of dispersion."""

    tint: Vec3
    share: Tensor
    solid: Tensor | None
    inside: Tensor | None
    ior: Any
    eta: Any
    colors: Vec3 | None


class Kept(NamedTuple):
    """What `glass` makes of the light that facets of a body lose: scale: of refraction, seen from outside; inner: the lobe inside but for
    l of the light's direction."""

    glass: Glass
    scale: Tensor
    inner: Tensor


class Weights(NamedTuple):
    """Light along wo by the ways it took: facets (both sides), all directions above, all below."""

    facets: Tensor
    above: Tensor
    below: Tensor | None


class Facets(NamedTuple):
    """Made by `facets_of`. seen: by wo; roughness: of all directions together. even, left: of what is reflected in all directions, the
    colours of the light lost by facets and of the base, each times what wo sees of it, over pi and the average; even_below, left_below: of
    what goes through; kept: of bodies."""

    wo: Vec3
    ggx: Ggx
    seen: Seen
    roughness: Tensor
    fits: Albedo
    f0: Vec3
    f90: Vec3
    dielectric: tuple[Vec3, Vec3]
    remainder: Remainder
    even: Vec3
    left: Vec3
    even_below: Vec3 | None
    left_below: Vec3 | None
    body: Body | None
    kept: Kept | None
    weights: Weights

    @property
    def through(self) -> bool:
        """Whether light may come from below."""
        return self.body is not None or self.weights.below is not None

    def way(self, wi: Vec3) -> Way:
        """How light from `wi` gets to wo."""
        up = wi.z > 0
        if not self.through:
            h = _unit(self.wo + wi)
            return Way(up, h, dot(self.wo, h), dot(self.wo, h), wi, greater(wi.z, 0.0), None)
        mirrored = Vec3(wi.x, wi.y, wi.z.abs())
        half = self.wo + mirrored
        if self.body is None or self.body.solid is None:
            h = _unit(half)
            return Way(up, h, dot(self.wo, h), dot(self.wo, h), mirrored, mirrored.z, None)
        bent = self.body.solid & ~up
        sign = where(self.body.eta > 1.0, -1.0, 1.0)  # the facet looks to wo's side
        h = _unit(select(bent, (self.wo + wi * self.body.eta) * sign, half))
        to_wo = dot(self.wo, h)
        return Way(up, h, to_wo, where(bent, dot(wi, h), to_wo), mirrored, mirrored.z, bent)

    def evaluate(self, way: Way, odds: Weights) -> tuple[Vec3, Tensor]:
        """The BSDF times the cosine, and the density that the chances of the three ways make."""
        facing, spread, length = self.ggx.reflection(way.h, way.wi, way.cosine, self.seen)
        seen = facing * self.seen.density
        loss, _, left = _albedos(self.ggx, self.fits, self.remainder, way.wi, way.cosine)
        even = self.even * loss + self.left * left
        slope = fifth(greater(1.0 - way.to_wo, 0.0))
        fresnel = self.f0 + (self.f90 - self.f0) * slope
        if not self.through:
            f, density = fresnel * spread + even * way.cosine, odds.facets * seen + odds.above * (way.cosine * INV_PI)
            return select(way.up, f, 0.0), where(way.up, density, 0.0)
        even_below = Vec3(0.0, 0.0, 0.0)
        if self.even_below is not None:
            even_below = even_below + self.even_below * loss
        if self.left_below is not None:
            even_below = even_below + self.left_below * left
        if self.body is None:
            f, density = select(way.up, fresnel * spread, 0.0), where(way.up, seen, 0.0)
        else:
            fresnel, beyond, reflects, transmits = self._split(self.body, way.to_wo, slope, fresnel)
            passes, passing = beyond * spread, seen
            if way.bent is not None:
                assert self.kept is not None and self.body.inside is not None
                lost = _lost(self.kept.glass, self.ggx, self.roughness, way.wi, way.cosine, left, self.body.inside)
                even = even + self.kept.inner * lost.inside
                refraction, bending = self._refraction(self.body, way, facing, length)
                refraction = refraction * where(self.body.inside, lost.scale, self.kept.scale)
                passes, passing = select(way.bent, beyond * refraction, passes), where(way.bent, bending, seen)
            f, density = select(way.up, fresnel * spread, passes), where(way.up, seen * reflects, passing * transmits)
        chance = odds.above if odds.below is None else where(way.up, odds.above, odds.below)
        f = f + select(way.up, even, even_below) * way.cosine
        return f, odds.facets * density + chance * (way.cosine * INV_PI)

    def sample(self, x: Tensor, y: Tensor, choice: Tensor | None) -> tuple[Vec3, Tensor | None]:
        """A direction by way of a facet, and whether through it. (x, y): uniform in the disk; choice: uniform in [0, 1), where needed."""
        h = self.ggx.sample(self.wo, x, y)
        cosine = dot(self.wo, h)
        wi = h * (2.0 * cosine) - self.wo
        if self.body is None:
            return wi, None
        slope = fifth(greater(1.0 - cosine, 0.0))
        _, _, reflects, _ = self._split(self.body, cosine, slope, self.f0 + (self.f90 - self.f0) * slope)
        passes, beyond = choice >= reflects, Vec3(wi.x, wi.y, -wi.z)
        if self.body.solid is not None:
            bent, possible = refracted(self.wo, h, cosine, self.body.eta)
            beyond, passes = select(self.body.solid, bent, beyond), passes & (possible | ~self.body.solid)
        return select(passes, beyond, wi), passes

    def _split(self, body: Body, cosine: Tensor, slope: Tensor, fresnel: Vec3) -> tuple[Vec3, Vec3, Tensor, Tensor]:
        """At a facet: the colour of what it reflects and of what it lets through, and the chances that a sample goes either way."""
        f0, f90 = self.dielectric
        boundary = f0 + (f90 - f0) * slope
        if body.inside is not None:
            square = snell(cosine, body.ior)
            outer = where(body.inside, greater(square, 0.0).sqrt(), cosine)
            real = f0 + (f90 - f0) * fifth(greater(1.0 - outer, 0.0))
            real = select((square > 0) | ~body.inside, real, 1.0)
            fresnel, boundary = fresnel + (real - boundary) * body.share, real
        beyond = body.tint * greater(1.0 - boundary.max_component(), 0.0)
        reflected, passed = _mean(fresnel) + 1e-9, _mean(beyond)
        scale = 1.0 / (reflected + passed)
        return fresnel, beyond, reflected * scale, passed * scale

    def _refraction(self, body: Body, way: Way, facing: Tensor, length: Tensor) -> tuple[Any, Tensor]:
        """Light bent at facets, but for their transmittance: BSDF times cosine, and density (Walter et al. 2007, eqs. 17, 21 and 38).

        eta^2 of what they give for radiance, as is right for radiance over the squared index: see `gltf_bsdf`."""
        stretch = way.to_wo + body.eta * way.to_wi
        valid = (way.to_wo > 0) & (way.to_wi < 0) & (way.h.z > 0)
        common = where(valid, facing * way.to_wo * -way.to_wi / greater(stretch * stretch, 1e-12), 0.0)
        seen = 4.0 * common * (body.eta * body.eta) * self.seen.density
        f = seen * 2.0 * way.cosine / (way.cosine + length)
        return f if body.colors is None else body.colors * f, seen


def facets_of(point: MaterialPoint, features: Features, wo: Vec3, entering: Tensor) -> Facets:
    """The facets and the base of a material, light leaving along wo (z >= 0); entering: whether that side is the outside."""
    if features.anisotropy:
        assert point.anisotropy_direction is not None
        ggx = anisotropic(point.roughness, point.anisotropy, point.anisotropy_direction)
        roughness = ggx.mean_roughness()
    else:
        ggx = isotropic(point.roughness)
        roughness = greater(point.roughness, math.sqrt(ALPHA_MIN))
    fits = albedo(roughness)
    body = _body(point, features, entering)
    dielectric, metal = _reflectances(point, features, wo.z, body)
    f0, f90 = (d + (m - d) * point.metallic for d, m in zip(dielectric, metal, strict=True))
    left = remainder(dielectric[0].max_component(), dielectric[1].max_component(), fits)
    loss, grazing, seen = _albedos(ggx, fits, left, wo, wo.z)

    lost = multiple(mean_fresnel(f0, f90), fits.mean_loss)
    lost_seen, base_seen = loss * (INV_PI / fits.mean_loss), seen * (INV_PI / left.mean)
    under = 1.0 - point.metallic
    if body is not None:
        under = under - body.share
    color, even_below, left_below, below = point.base_color * under, None, None, None
    if features.diffuse_transmission:
        assert point.diffuse_transmission_color is not None
        passing = point.diffuse_transmission_color * (under * point.diffuse_transmission)
        color = color * (1.0 - point.diffuse_transmission)
        left_below, below = passing * base_seen, _mean(passing) * seen
    facets = _mean(f0) * (1.0 - loss - grazing) + _mean(f90) * grazing
    above, kept = _mean(color) * seen, None
    if body is not None:
        pane = multiple(mean_fresnel(*dielectric), fits.mean_loss).max_component()
        lost_below = body.tint * greater(1.0 - pane, 0.0)
        if body.solid is not None:
            assert body.inside is not None
            lost_below = select(body.solid, 0.0 * lost_below, lost_below)
            boundary = glass_of(point.glass, body.ior, roughness, body.solid, *(d.max_component() for d in dielectric))
            there = _lost(boundary, ggx, roughness, wo, wo.z, seen, body.solid)
            lost = lost * where(body.inside, 1.0 - body.share * (1.0 - boundary.mirrors()), 1.0)
            inside = where(body.inside, body.share * there.inside, 0.0)
            kept, above = Kept(boundary, there.scale, boundary.inner(inside)), above + inside
        even_below = lost_below * lost_seen
        below = _mean(lost_below) * loss if below is None else below + _mean(lost_below) * loss
        facets = facets + _mean(body.tint) * seen
    weights = Weights(facets + 1e-6, above + _mean(lost) * loss, below)
    return Facets(
        wo,
        ggx,
        ggx.seen_from(wo),
        roughness,
        fits,
        f0,
        f90,
        dielectric,
        left,
        lost * lost_seen,
        color * base_seen,
        even_below,
        left_below,
        body,
        kept,
        weights,
    )


def _albedos(ggx: Ggx, fits: Albedo, left: Remainder, v: Vec3, cosine: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """L, what the facets lose of light along v; S; R, what their reflection leaves for the base. cosine: v.z, not below 0."""
    loss, grazing = fits.at(cosine)
    if ggx.turn is None:
        return loss, grazing, left.left(loss, grazing)
    own, rise = albedo(ggx.roughness_along(v)).at(cosine)
    return lesser(loss, own), rise, left.left(own, rise)  # the lesser: no more is to be given back than was lost


def _lost(glass: Glass, ggx: Ggx, roughness: Tensor, v: Vec3, cosine: Tensor, left: Tensor, needed: Tensor) -> Lost:
    """What a body's facets lose of light along v; as `_albedos`."""
    even = glass.lost(cosine, roughness, left, needed)
    if ggx.turn is None:
        return even
    own = glass.lost(cosine, lesser(ggx.roughness_along(v), 1.0), left, needed)
    return Lost(own.scale, lesser(even.inside, own.inside))


def _body(point: MaterialPoint, features: Features, entering: Tensor) -> Body | None:
    """Transmission, where it exists."""
    if not features.transmission:
        return None
    share = point.transmission * (1.0 - point.metallic)
    tint = point.base_color * share
    if not features.volume:
        return Body(tint, share, None, None, None, None, None)
    solid = point.thickness > 0
    ior = point.dispersed_ior if features.dispersion else point.ior
    ior = where(ior > 0, greater(ior, IOR_MIN), IOR_MAX)
    return Body(tint, share, solid, solid & ~entering, ior, where(entering, ior, 1.0 / ior), point.dispersed_tint)


def _reflectances(point: MaterialPoint, features: Features, cosine: Tensor, body: Body | None) -> tuple[tuple[Vec3, Vec3], ...]:
    """f0 and f90 of the dielectric (KHR_materials_specular, "Implementation") and of the metal; cosine: of wo."""
    f0 = point.specular_color.map(lambda c: point.specular * lesser(c * f0_of(point.ior), 1.0))
    dielectric, metal = (f0, Vec3(point.specular, point.specular, point.specular)), (point.base_color, Vec3(1.0, 1.0, 1.0))
    if not features.iridescence:
        return dielectric, metal
    if body is not None and body.inside is not None:
        cosine = where(body.inside, greater(snell(cosine, body.ior), 0.0).sqrt(), cosine)
    return _iridescent(point, cosine, dielectric, metal)


def _iridescent(point: MaterialPoint, cosine: Tensor, *layers: tuple[Vec3, Vec3]) -> tuple[tuple[Vec3, Vec3], ...]:
    """f0 and f90 mixed with a film's reflectance at the angle of view, which is the same for both."""

    def film() -> tuple[Vec3, ...]:
        return thin_film(cosine, point.iridescence_ior, point.iridescence_thickness, tuple(f0 for f0, _ in layers))

    def none() -> tuple[Vec3, ...]:
        zero = cosine * 0
        return tuple(Vec3(zero, zero, zero) for _ in layers)

    share = point.iridescence
    films = cond(share > 0, film, none)
    return tuple((f0 + (seen - f0) * share, f90 + (seen - f90) * share) for (f0, f90), seen in zip(layers, films, strict=True))


def _unit(v: Vec3) -> Vec3:
    """The unit vector, finite for what is next to nothing."""
    result: Vec3 = v * (1.0 / greater(dot(v, v), 1e-18).sqrt())
    return result


def _mean(color: Vec3) -> Tensor:
    result: Tensor = (color.x + color.y + color.z) * (1.0 / 3.0)
    return result
