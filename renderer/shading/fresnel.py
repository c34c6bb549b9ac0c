"""How much of the light a smooth boundary reflects, by angle.

glTF asks for Schlick's approximation, f0 + (f90 - f0) (1 - cos)^5 ("An Inexpensive BRDF Model for Physically-based Rendering", 1994), of
dielectrics and metals alike; f0 of a dielectric comes from its index (normal incidence of Fresnel's equations). Inside a denser medium
the cosine is that of the ray outside, which makes the reflectance the same both ways and 1 beyond the critical angle.

A thin film interferes with itself: light reflected at its two sides differs in phase by the film's optical thickness, and each wavelength
makes something else of that. Belcour and Barla ("A Practical Extension to Microfacet Theory for the Modeling of Varying Iridescence",
SIGGRAPH 2017, section 4) integrate the Airy sum over the colour matching functions in the Fourier domain, where these are Gaussians.
KHR_materials_iridescence gives the variant used here: unpolarised, Schlick at both sides, phases of 0 or pi, two orders. As phases are 0
or pi the second order needs no sines or exponentials of its own: cos 2x = 2 cos^2 x - 1, and its Gaussian is the first's to the fourth.
"""

from __future__ import annotations

import math
from typing import Any

from engine import Tensor, where
from renderer.vec import Scalar, Vec3, greater, lesser

# Gaussian fits of the colour matching functions of CIE 1931 in frequency (Belcour and Barla 2017, supplemental): amplitude, centre (1/m)
# and variance (1/m^2); X has two.
_GAUSSIANS = (
    (5.4856e-13, 1.6810e6, 4.3278e9),
    (4.4201e-13, 1.7953e6, 9.3046e9),
    (5.2481e-13, 2.2084e6, 6.6121e9),
    (9.7470e-14, 2.2399e6, 4.5282e9),
)
_WHITE = 1.0685e-7
_XYZ_TO_REC709 = ((3.2404542, -1.5371385, -0.4985314), (-0.9692660, 1.8760108, 0.0415560), (0.0556434, -0.2040259, 1.0572252))


def fifth(x: Any) -> Tensor:
    """x^5."""
    square = x * x
    result: Tensor = square * square * x
    return result


def f0_of(ior: Any, outside: Any = 1.0) -> Tensor:
    """Reflectance at normal incidence between two indices; 1 for the index 0 (KHR_materials_ior: full reflection)."""
    ratio = (ior - outside) / (ior + outside)
    result: Tensor = ratio * ratio
    return result


def thin_film(cosine: Tensor, film_ior: Any, thickness: Any, bases: tuple[Vec3, ...]) -> tuple[Vec3, ...]:
    """Reflectance of a film on bases of the given f0 (seen through air), each a colour in [0, 1].

    cosine: of the ray in air, in [0, 1]; film_ior: 1 or more; thickness: in nanometres. KHR_materials_iridescence, "Iridescence Fresnel".
    """
    inverse = 1.0 / film_ior
    inside = (1.0 - inverse * inverse * (1.0 - cosine * cosine)).sqrt()
    r0 = f0_of(film_ior)
    first = r0 + (1.0 - r0) * fifth(1.0 - cosine)
    through = 1.0 - first
    phase = (2.0e-9 * 2.0 * math.pi) * film_ior * thickness * inside
    waves = []
    for amplitude, centre, variance in _GAUSSIANS:
        strength = amplitude * math.sqrt(2.0 * math.pi * variance) / _WHITE
        c, falloff = (phase * centre).cos(), (phase * phase * -variance).exp()
        fourth = falloff * falloff * (falloff * falloff)
        waves.append((c * falloff * strength, (2.0 * c * c - 1.0) * fourth * strength))
    grazing = fifth(1.0 - inside)
    return tuple(_on_base(base, film_ior, first, through, grazing, waves) for base in bases)


def _on_base(base: Vec3, film_ior: Any, first: Tensor, through: Tensor, grazing: Tensor, waves: list[tuple[Tensor, Tensor]]) -> Vec3:
    """The Airy sum up to the second order for one base (Belcour and Barla 2017, eqs. 3 and 8)."""
    constant, amplitude, phase = [], [], []
    for f0 in base:
        root = lesser(f0 + 1e-4, 0.9999).sqrt()
        ior = (1.0 + root) / (1.0 - root)
        r1 = f0_of(ior, film_ior)
        second = r1 + (1.0 - r1) * grazing
        both = lesser(greater(first * second, 1e-5), 0.9999)
        inner = through * through * second / (1.0 - both)
        constant.append(first + inner)
        amplitude.append(((inner - through) * both.sqrt(), (inner - through) * both))
        phase.append(where(ior < film_ior, 1.0, -1.0))  # cos(x + pi + 0 or pi): the film's own reflection has turned by pi
    # As in the extension, each channel's phase goes with one of X, Y and Z, and the amplitudes are those of the channel in the end.
    order_1 = (waves[0][0] * phase[0] + waves[3][0] * phase[0], waves[1][0] * phase[1], waves[2][0] * phase[2])
    order_2 = (waves[0][1] + waves[3][1], waves[1][1], waves[2][1])
    channels = []
    for row, c, (a1, a2) in zip(_XYZ_TO_REC709, constant, amplitude, strict=True):
        s1 = order_1[0] * row[0] + order_1[1] * row[1] + order_1[2] * row[2]
        s2 = order_2[0] * row[0] + order_2[1] * row[1] + order_2[2] * row[2]
        channels.append(lesser(greater(c + 2.0 * (a1 * s1 + a2 * s2), 0.0), 1.0))
    return Vec3(*channels)


def snell(cosine: Tensor, ratio: Scalar) -> Tensor:
    """Square of the cosine beyond a boundary, below 0 where nothing passes. ratio: this side's index over the other's."""
    result: Tensor = 1.0 - (1.0 - cosine * cosine) * (ratio * ratio)
    return result
