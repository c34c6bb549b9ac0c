"""Sheen: light that fibres standing on a surface send back, brightest at grazing angles.

The "Charlie" distribution of Conty Estevez and Kulla ("Production Friendly Microfacet Sheen BRDF", SIGGRAPH 2017 course notes), an
exponentiated sine of the angle to the normal, with their fitted shadowing, as KHR_materials_sheen asks for. There alpha is the square of
the sheen's roughness. Fresnel is left out.

What lies under a sheen is scaled by what the sheen leaves (the extension's "albedo scaling"), for which its directional albedo is needed:
a fit here, log2 E as a polynomial in mu whose coefficients are polynomials in the roughness and its inverse; it is held above the true E
(by 0.04 at most), so that nothing shines by itself. At low roughness and grazing angles the model's own albedo passes 1, up to 1.46:
there the lobe is divided by it. Roughness below ROUGHNESS_MIN is taken as that: its fibres are seen within five degrees of the horizon
alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from engine import Tensor, where
from renderer.vec import Vec3, greater, lesser

ROUGHNESS_MIN = 0.15
_SHADOWING = (  # (1 - alpha)^2 = 0 and 1: the parameters a to e
    (21.5473, 25.3245),
    (3.82987, 3.32435),
    (0.19823, 0.16801),
    (-1.97760, -1.27393),
    (-4.32054, -4.85967),
)
# Of mu^0 to mu^3, the coefficients of 1, r, r^2, r^3 and 1/r
_ALBEDO = (
    (0.5721757, -6.0821438, 10.3174075, -4.9904887, 0.1160523),
    (-10.8355528, 32.4168631, -40.7622148, 16.4026594, -1.4170167),
    (16.2785485, -67.0173458, 88.891581, -36.471715, 1.9975205),
    (23.9469754, -17.4841326, -7.5137972, 7.986815, -8.9383677),
)


class Charlie(NamedTuple):
    """One sheen each lane: what depends on its roughness alone."""

    exponent: Tensor
    shadowing: tuple[Tensor, ...]
    middle: Tensor
    albedo_parts: tuple[Tensor, ...]

    def shadow(self, mu: Tensor) -> Tensor:
        """Lambda of Smith's shadowing, for a cosine in [0, 1] (Conty and Kulla 2017, section 3)."""
        near = mu < 0.5
        value = self._l(where(near, mu, 1.0 - mu))
        return where(near, value, 2.0 * self.middle - value).exp()

    def _l(self, x: Tensor) -> Tensor:
        a, b, c, d, e = self.shadowing
        power = (greater(x, 1e-6).log2() * c).exp2()
        return a / (1.0 + b * power) + d * x + e

    def albedo(self, mu: Tensor) -> Tensor:
        """E(mu), or somewhat more; it can pass 1."""
        a, b, c, d = self.albedo_parts
        return (((d * mu + c) * mu + b) * mu + a).exp2() * 1.02 + 0.007

    def f(self, h: Vec3, mu_o: Tensor, shadow_o: Tensor, shadow_i: Tensor) -> Tensor:
        """The lobe times the cosine of light, which cancels."""
        sine = lesser(h.x * h.x + h.y * h.y, 1.0)
        distribution = (2.0 + 2.0 * self.exponent) * (greater(sine, 1e-30).log2() * self.exponent).exp2() * (0.5 / math.pi)
        return distribution * 0.25 / (greater(mu_o, 1e-4) * (1.0 + shadow_o + shadow_i))


def charlie(roughness: Tensor) -> Charlie:
    """The sheen of glTF's sheen roughness, in [0, 1]."""
    r = greater(roughness, ROUGHNESS_MIN)
    alpha = r * r
    share = (1.0 - alpha) * (1.0 - alpha)
    shadowing = tuple(p + (q - p) * share for p, q in _SHADOWING)
    inverse = 1.0 / r
    parts = tuple(a + ((d * r + c) * r + b) * r + e * inverse for a, b, c, d, e in _ALBEDO)
    made = Charlie(0.5 * inverse * inverse, shadowing, alpha, parts)
    return made._replace(middle=made._l(alpha * 0 + 0.5))
