"""What a rough surface reflects in all, and what that leaves for others.

Microfacets as in `microfacet` lose light: what one facet sends to another is dropped, at alpha 1 up to 69 % of it. And glTF's diffuse
part under a reflecting one is only right if it gets just what the reflection leaves. Both need the *directional albedo*: of white facets,

    E(mu) = integral of D G2 / (4 mu) over the hemisphere,       S(mu) = the same times (1 - wo.h)^5,

so that with Schlick's Fresnel a lobe reflects f0 (E - S) + f90 S (Karis, "Real Shading in Unreal Engine 4", 2013). With L = 1 - E, the
lobe L(mu_o) L(mu_i) / (pi avg L) gives back what is lost, reciprocally (Kulla and Conty, "Revisiting Physically Based Shading at
Imageworks", 2017), in the colour of light that bounced more than once (Fdez-Aguera, "A Multiple-Scattering Microfacet Model for Real-Time
Image-based Lighting", JCGT 2019, eq. 16). A diffuse base takes the same shape with what is left of it instead of L.

No tables, which would be gathers: a few operations. L is a ratio of polynomials in mu whose coefficients are polynomials in alpha,
largest error 0.0031; S / E is (1 - c)^5, c likewise, largest error of S 0.0069. The averages over the cosine are those of the fits, to
1e-3. All were fitted by least squares, reweighted towards the largest error, to E and S from 40,000 visible normals for each of 40 alphas
and 53 angles; the tests compare them with an integration of their own. The highest sum that a white surface reaches is 1.007, of uneven
(anisotropic) facets, which have no fits of their own, 1.045.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from engine import Tensor
from renderer.shading.fresnel import fifth
from renderer.vec import Vec3, greater

# Coefficients of powers of alpha, lowest first. L = alpha^2 mu (n0 + n1 mu) / (mu^3 + alpha (d2 mu^2 + alpha (d1 mu + alpha d0)))
_LOSS = (
    (0.53896137, -0.14783818, 1.84983627, -0.55529171),  # n0
    (0.43789711, 3.84214847, -8.38076457, 18.16912056),  # n1
    (-0.51268757, 7.07505848, -21.45674849, 27.89499346),  # d2
    (1.92615598, 4.64643663, -1.92206011, 3.78650774),  # d1
    (2.52371285, -6.40381696, 6.66137926, -2.46517888),  # d0
)
# S / E = (1 - c)^5 with c = (n2 mu^2 + alpha (n1 mu + alpha n0)) / (mu + alpha d)
_GRAZING = (
    (1.0, 1.69055092, 56.54091266),  # n2
    (0.87635834, 16.91245095, 29.88230035),  # n1
    (3.93466215, 116.19644312, -14.35134766),  # n0
    (0.71085292, 68.46140094, 165.13305666),  # d
)
_MEAN_LOSS = (0.07311216, 6.18002054, -16.77429161, 23.03602254, -17.01964646, 5.09639086)  # times sqrt(alpha)^3, of sqrt(alpha)
_MEAN_GRAZING = (0.04822399, -0.20112212, 0.36779007, -0.30829262, 0.09678916)  # of alpha


def _polynomial(coefficients: Sequence[float], x: Tensor) -> Tensor:
    total: Any = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    result: Tensor = total
    return result


class Albedo(NamedTuple):
    """The fits for one alpha each lane. `mean_loss`, `mean_grazing`: the averages of L and S over the cosine-weighted hemisphere."""

    loss_parts: tuple[Tensor, ...]
    grazing_parts: tuple[Tensor, ...]
    mean_loss: Tensor
    mean_grazing: Tensor

    def at(self, mu: Tensor) -> tuple[Tensor, Tensor]:
        """L(mu) = 1 - E(mu) and S(mu), for a cosine in [0, 1]. One division for both."""
        n0, n1, d2, d1, d0 = self.loss_parts
        m2, m1, m0, d = self.grazing_parts
        below_l, below_c = ((mu + d2) * mu + d1) * mu + d0, mu + d
        scale = 1.0 / (below_l * below_c)
        loss = mu * (n0 + n1 * mu) * below_c * scale
        c = ((m2 * mu + m1) * mu + m0) * below_l * scale
        return loss, (1.0 - loss) * fifth(greater(1.0 - c, 0.0))


def albedo(roughness: Tensor) -> Albedo:
    """The fits for glTF's roughness, in [sqrt(microfacet.ALPHA_MIN), 1]; its square is alpha."""
    alpha = roughness * roughness
    square = alpha * alpha
    n0, n1, d2, d1, d0 = (_polynomial(c, alpha) for c in _LOSS)
    g2, g1, g0, g = (_polynomial(c, alpha) for c in _GRAZING)
    return Albedo(
        (square * n0, square * n1, alpha * d2, square * d1, square * alpha * d0),
        (g2, alpha * g1, square * g0, alpha * g),
        greater(alpha * roughness * _polynomial(_MEAN_LOSS, roughness), 1e-6),
        _polynomial(_MEAN_GRAZING, alpha),
    )


def mean_fresnel(f0: Vec3, f90: Vec3) -> Vec3:
    """Schlick's average over the cosine-weighted hemisphere, exactly."""
    result: Vec3 = f0 + (f90 - f0) * (1.0 / 21.0)
    return result


def multiple(mean: Vec3, mean_loss: Tensor) -> Vec3:
    """The colour of light that met two facets or more: F^2 avg E / (1 - F avg L). 1 where F is, so that nothing is lost of it."""
    kept = 1.0 - mean_loss
    below = mean.map(lambda f: 1.0 - f * mean_loss)
    scale = kept / (below.x * below.y * below.z)
    result: Vec3 = mean * mean * Vec3(below.y * below.z, below.z * below.x, below.x * below.y) * scale
    return result


class Remainder(NamedTuple):
    """What the reflection of a dielectric leaves for what is under it: R(mu) = 1 - albedo, as constant + loss L - grazing S."""

    constant: Tensor
    loss: Tensor
    grazing: Tensor
    mean: Tensor

    def left(self, loss: Tensor, grazing: Tensor) -> Tensor:
        """R for L and S of a direction, at least 0. A base of albedo a reflects a R(mu_o) R(mu_i) / (pi mean)."""
        return greater(self.constant + self.loss * loss - self.grazing * grazing, 0.0)


def remainder(f0: Tensor, f90: Tensor, fits: Albedo) -> Remainder:
    """What a reflection of f0 and f90 leaves: of a coloured one the greatest channels, so that nothing is won in any."""
    mean = f0 + (f90 - f0) * (1.0 / 21.0)
    again = mean * mean * (1.0 - fits.mean_loss) / (1.0 - mean * fits.mean_loss)
    constant, loss, grazing = 1.0 - f0, f0 - again, f90 - f0
    # Where hardly anything is left the fits' errors would be all there is: then less than a fiftieth is given away.
    average = greater(constant + loss * fits.mean_loss - grazing * fits.mean_grazing, 0.02)
    return Remainder(constant, loss, grazing, average)
