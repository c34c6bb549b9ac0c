"""Microfacets: the GGX distribution of normals, and directions reflected at those that are seen.

A rough surface is taken as many small mirrors. How many face a direction h is D(h) (Trowbridge and Reitz 1975; Walter et al., "Microfacet
Models for Refraction through Rough Surfaces", EGSR 2007, eq. 33), how many of them are hidden is Smith's G (Heitz, "Understanding the
Masking-Shadowing Function in Microfacet-Based BRDFs", JCGT 2014, eqs. 86 and 99, height-correlated). Samples are drawn from the normals
that the viewer sees (Heitz, "Sampling the GGX Distribution of Visible Normals", JCGT 2018) by the spherical cap of Dupuy and Benyoub
("Sampling Visible GGX Normals with Spherical Caps", HPG 2023): no basis, no branch, one square root beyond those of normalising. Along
the two tangents the roughness may differ (KHR_materials_anisotropy).

A perfect mirror is no special case: it is a lobe of the width ALPHA_MIN, a hundredth of a degree. That is narrower than a pixel, and wide
enough for float32, because D is written with the tangential parts of h (good to 1e-7, thus to a thousandth of the lobe) and not with 1 -
(n.h)^2, of which nothing would be left. So mirrors have densities like all else, and light sampling and scattering are weighed by one
rule.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from engine import Tensor
from renderer.vec import Scalar, Vec3, greater, normalize

ALPHA_MIN = 1e-4
INV_PI = 1.0 / math.pi


class Seen(NamedTuple):
    """Of a direction: its z, its length when stretched, and what D is to be multiplied by for the density of a reflection, G1 / (4 z)."""

    cosine: Tensor
    length: Tensor
    density: Tensor


class Ggx(NamedTuple):
    """A distribution of normals about +z. `along`, `across`: its alpha in the two tangent directions, in [ALPHA_MIN, 1]; `turn`: cosine and
    sine of the angle from x to the direction that `along` is of; None where both alphas are the same Tensor."""

    along: Tensor
    across: Tensor
    turn: tuple[Scalar, Scalar] | None = None

    def stretched(self, v: Vec3) -> Vec3:
        """The vector in the frame of the two directions, its tangential parts times their alphas."""
        if self.turn is None:
            return Vec3(v.x * self.along, v.y * self.along, v.z)
        c, s = self.turn
        return Vec3((v.x * c + v.y * s) * self.along, (v.y * c - v.x * s) * self.across, v.z)

    def length(self, v: Vec3) -> Tensor:
        """Length of `stretched(v)`. Smith's G1 is 2 z / (z + length) (Heitz 2014, eqs. 72 and 86)."""
        if self.turn is None:
            result: Tensor = ((v.x * v.x + v.y * v.y) * (self.along * self.along) + v.z * v.z).sqrt()
            return result
        w = self.stretched(v)
        result = (w.x * w.x + w.y * w.y + w.z * w.z).sqrt()
        return result

    def mean_roughness(self) -> Tensor:
        """That of even facets which lose about as much light: of alpha midway between its two means, arithmetic and quadratic."""
        quadratic = ((self.along * self.along + self.across * self.across) * 0.5).sqrt()
        return ((self.along + self.across) * 0.25 + quadratic * 0.5).sqrt()

    def roughness_along(self, v: Vec3) -> Tensor:
        """That of even facets which rise about as much towards grazing angles, seen along v (unit length): at these it is that of v's
        azimuth."""
        w = self.stretched(v)
        mean = (self.along * self.along + self.across * self.across) * 0.5
        return greater(w.x * w.x + w.y * w.y + mean * (v.z * v.z), ALPHA_MIN * ALPHA_MIN).sqrt().sqrt()

    def distribution(self, h: Vec3) -> Tensor:
        """D(h) in 1/sr, h of unit length (Burley, "Physically Based Shading at Disney", 2012, appendix B.2, eq. 13)."""
        spread = self._spread(h)
        result: Tensor = self.along * self.across * INV_PI / (spread * spread)
        return result

    def reflection(self, h: Vec3, wi: Vec3, cosine: Tensor, seen: Seen) -> tuple[Tensor, Tensor, Tensor]:
        """D(h); D G2 / (4 wo.z), which is the lobe of white facets times the cosine of wi (>= 0); length(wi). One division for both."""
        length = self.length(wi)
        joint = greater(seen.cosine * length + cosine * seen.length, 1e-12)
        spread = self._spread(h)
        scale = self.along * self.across * INV_PI / (spread * spread * joint)
        return scale * joint, scale * cosine * 0.5, length

    def seen_from(self, wo: Vec3) -> Seen:
        """What the facets look like from wo (z >= 0)."""
        length = self.length(wo)
        return Seen(wo.z, length, 0.5 / (wo.z + length))

    def _spread(self, h: Vec3) -> Tensor:
        area = self.along * self.across
        if self.turn is None:
            spread = h.x * h.x + h.y * h.y + area * (h.z * h.z)
        else:
            c, s = self.turn
            x, y = h.x * c + h.y * s, h.y * c - h.x * s
            ratio = self.across / self.along
            spread = x * x * ratio + y * y / ratio + area * (h.z * h.z)
        return greater(spread, area)  # so it is, but for directions that are opposite and have no half vector

    def sample(self, wo: Vec3, x: Tensor, y: Tensor) -> Vec3:
        """A normal seen from wo (z >= 0), with density 2 D(h) (wo.h) / (wo.z + length(wo)); (x, y): a point uniform in the unit disk.

        Dupuy and Benyoub 2023, listing 3; the point of the disk is blown up to the cap, which needs no sine.
        """
        w = normalize(self.stretched(wo))
        height = 1.0 + w.z
        squared = x * x + y * y
        out = (height * (2.0 - squared * height)).sqrt()
        seen = Vec3(x * out + w.x, y * out + w.y, greater(height * (1.0 - squared), 1e-7))
        if self.turn is None:
            return normalize(Vec3(seen.x * self.along, seen.y * self.along, seen.z))
        c, s = self.turn
        p, q = seen.x * self.along, seen.y * self.across
        return normalize(Vec3(p * c - q * s, p * s + q * c, seen.z))


def isotropic(roughness: Any) -> Ggx:
    """The distribution of glTF's roughness, in [0, 1] (alpha is its square: glTF 2.0, appendix B.3.1)."""
    alpha = greater(roughness * roughness, ALPHA_MIN)
    return Ggx(alpha, alpha)


def anisotropic(roughness: Any, strength: Any, direction: tuple[Scalar, Scalar]) -> Ggx:
    """That of KHR_materials_anisotropy: rougher along `direction`, a unit vector of the tangent plane; strength in [0, 1]."""
    alpha = greater(roughness * roughness, ALPHA_MIN)
    return Ggx(alpha + (1.0 - alpha) * (strength * strength), alpha, direction)
