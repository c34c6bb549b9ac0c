"""glTF's material as one BSDF: metallic-roughness and all its extensions.

What is on top of what (glTF 2.0, appendix B, and the KHR_materials_* extensions):

    clearcoat       a rough dielectric of f0 0.04                                                            `gltf_layers`
    sheen           fibres                                                                                   `gltf_layers`
    reflection      GGX facets; f0 and f90 of dielectric, metal and thin film mixed                          `gltf_facets`
    base            under the dielectric: diffuse reflection and transmission, transmission by facets        `gltf_facets`

Deviations from the letter of the extensions, for the sake of energy or of reciprocity: the base is weighed by directional albedos and not
by 1 - F(wo.h), with which white plastic shines at grazing angles; facets get back the light that they lose among them, those that refract
too (`glass`); a clearcoat reflects by F(wo.h), and what is under it pays on the way in or out, where that is more; light through panes is
masked as reflected light is. A film's reflectance is taken at the angle of view, as the extension has it: in this alone, f is not the
same both ways.

Radiance is that over the squared index of where it travels, which keeps its value through a boundary (basic radiance: Veach, "Robust
Monte Carlo Methods for Light Transport Simulation", 1997, section 5.2): white glass in a white furnace is white, a path's weight does not
change where it enters a body, and outside it is radiance itself. Both ways the same is then f over the squared index of the light's side
(eq. 5.14), which for reflections and panes is f itself.

Directions are in the shading frame and point away from the surface, `wo` on the side z >= 0. `evaluate` gives f and density, which share
nearly all their work; `sample` draws a direction and evaluates it. Where no light goes through surfaces there is nothing at z < 0. The
density integrates to 1 less what facets send to the wrong side of the surface: those samples have weight and density 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from engine import Tensor, where
from renderer.sampling.rng import Rng
from renderer.sampling.warp import disk
from renderer.shading.gltf_facets import Facets, Weights, facets_of
from renderer.shading.gltf_layers import UNIFORM, Coat, Sheen, coat_of, sheen_of, uniform_hemisphere
from renderer.shading.gltf_material import Features, MaterialPoint
from renderer.vec import Vec3, greater, lesser, select

GRAZING = 1e-4  # the least cosine of wo: at less, mirrors and panes as narrow as ALPHA_MIN have half vectors of rounding errors only


class BsdfSample(NamedTuple):
    """A direction drawn (unit length), its density in 1/sr, and f / density (a colour).

    through: whether it lies beyond the surface, at z < 0 (None where nothing does).
    """

    wi: Vec3
    density: Tensor
    weight: Vec3
    through: Tensor | None = None


class GltfBsdf(NamedTuple):
    """Made by `gltf_bsdf`. odds: the chances of the facets' ways; coat_odds, sheen_odds: those of the layers."""

    facets: Facets
    coat: Coat | None
    sheen: Sheen | None
    odds: Weights
    coat_odds: Any
    sheen_odds: Any

    @property
    def through(self) -> bool:
        """Whether light may go through the surface."""
        return self.facets.through

    def f(self, wi: Vec3) -> Vec3:
        """The BSDF times the cosine of `wi`, for light from there."""
        return self.evaluate(wi)[0]

    def density(self, wi: Vec3) -> Tensor:
        """The density of `sample` at `wi`, in 1/sr."""
        return self.evaluate(wi)[1]

    def evaluate(self, wi: Vec3) -> tuple[Vec3, Tensor]:
        """`f` and `density`."""
        way = self.facets.way(wi)
        f, density = self.facets.evaluate(way, self.odds)
        if self.sheen is not None:
            lobe, left = self.sheen.evaluate(way)
            f = f * left + self.sheen.color * where(way.up, lobe, 0.0)
            density = density + where(way.up, self.sheen_odds * UNIFORM, 0.0)
        if self.coat is not None:
            lobe, left, chance = self.coat.evaluate(way)
            lobe = where(way.up, lobe, 0.0)
            f = f * left + Vec3(lobe, lobe, lobe)
            density = density + where(way.up, self.coat_odds * chance, 0.0)
        return f, density

    def sample(self, rng: Rng) -> tuple[BsdfSample, Rng]:
        """A direction by `density`, and the stream after it."""
        pick, rng = rng.next()
        u, rng = rng.next()
        v, rng = rng.next()
        x, y = disk(u, v)
        choice = None
        if self.facets.body is not None:
            choice, rng = rng.next()
        by_facet, through = self.facets.sample(x, y, choice)
        z = greater(1.0 - x * x - y * y, 0.0).sqrt()
        limit = self.odds.facets
        first = pick < limit
        if self.odds.below is not None:
            limit = limit + self.odds.below
            below = ~first & (pick < limit)
            z = where(below, -z, z)
            through = below if through is None else below | (through & first)
        wi = select(first, by_facet, Vec3(x, y, z))
        if self.coat is not None:
            before, limit = pick < limit, limit + self.coat_odds
            wi = select(~before & (pick < limit), self.coat.sample(self.facets.wo, x, y), wi)
        if self.sheen is not None:
            before, limit = pick < limit, limit + self.sheen_odds
            wi = select(~before & (pick < limit), uniform_hemisphere(x, y), wi)
        f, density = self.evaluate(wi)
        if through is not None:  # the others' densities know nothing of the way that a direction took
            density = where(through == (wi.z > 0), 0.0, density)
        scale = where(density > 0, 1.0 / density, 0.0)
        return BsdfSample(wi, density, f * scale, through), rng

    def emission_left(self) -> Tensor | float:
        """The part of the surface's own light that its clearcoat lets out (KHR_materials_clearcoat, "Emission")."""
        return 1.0 if self.coat is None else self.coat.left


def gltf_bsdf(point: MaterialPoint, features: Features, wo: Vec3, entering: Tensor) -> GltfBsdf:
    """The BSDF of a material at a point, light leaving along `wo`; entering: whether that is the outside (the front) of the surface."""
    wo = Vec3(wo.x, wo.y, greater(wo.z, GRAZING))
    inside = (point.thickness > 0) & ~entering if features.volume else None
    facets = facets_of(point, features, wo, entering)
    coat = coat_of(point, features, wo, inside) if features.clearcoat else None
    sheen = sheen_of(point, wo, inside) if features.sheen else None
    under, coat_weight, sheen_weight = None, None, None
    total = facets.weights.facets + facets.weights.above
    if facets.weights.below is not None:
        total = total + facets.weights.below
    if sheen is not None:
        under = sheen.left
        sheen_weight = sheen.most * lesser(sheen.albedo, 1.0)
        total = total * under + sheen_weight
    if coat is not None:
        under = coat.left if under is None else under * coat.left
        sheen_weight = None if sheen_weight is None else sheen_weight * coat.left
        coat_weight = coat.weight
        total = total * coat.left + coat_weight
    scale = 1.0 / total
    own = scale if under is None else scale * under
    ways = facets.weights
    odds = Weights(ways.facets * own, ways.above * own, None if ways.below is None else ways.below * own)
    return GltfBsdf(
        facets,
        coat,
        sheen,
        odds,
        None if coat_weight is None else coat_weight * scale,
        None if sheen_weight is None else sheen_weight * scale,
    )
