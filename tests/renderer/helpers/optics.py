"""Formulas of surfaces in NumPy, written from the papers in their own terms (angles, tangents, slopes), for comparison."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def dot(a: Floats, b: Floats) -> Floats:
    """Scalar products of rows."""
    return np.asarray((a * b).sum(-1))


def half_vector(wo: Floats, wi: Floats) -> Floats:
    """Between two directions."""
    h = wo + wi
    return np.asarray(h / np.linalg.norm(h, axis=-1, keepdims=True))


def ggx(h: Floats, along: ArrayLike, across: ArrayLike) -> Floats:
    """D, by the tangent of the angle (Heitz 2014, eq. 85)."""
    tangent = (h[..., 0] / h[..., 2] / along) ** 2 + (h[..., 1] / h[..., 2] / across) ** 2
    return np.asarray(1 / (math.pi * np.asarray(along) * across * h[..., 2] ** 4 * (1 + tangent) ** 2))


def shadowing(w: Floats, along: ArrayLike, across: ArrayLike) -> Floats:
    """Smith's Lambda (Heitz 2014, eqs. 72 and 86)."""
    slopes = ((w[..., 0] * along) ** 2 + (w[..., 1] * across) ** 2) / w[..., 2] ** 2
    return np.asarray((np.sqrt(1 + slopes) - 1) / 2)


def mirror_facets(wo: Floats, wi: Floats, along: ArrayLike, across: ArrayLike) -> Floats:
    """Reflection by facets that reflect all, times the cosine of light: D G2 / (4 cos), G2 height-correlated (Heitz 2014, eq. 99)."""
    g = 1 / (1 + shadowing(wo, along, across) + shadowing(wi, along, across))
    return np.asarray(ggx(half_vector(wo, wi), along, across) * g / (4 * np.abs(wo[..., 2])))


def seen_mirrors(wo: Floats, wi: Floats, along: ArrayLike, across: ArrayLike) -> Floats:
    """The density of reflections at visible normals: D G1 / (4 cos) (Heitz 2018, eq. 3)."""
    return np.asarray(ggx(half_vector(wo, wi), along, across) / (1 + shadowing(wo, along, across)) / (4 * wo[..., 2]))


def schlick(f0: ArrayLike, f90: ArrayLike, cosine: ArrayLike) -> Floats:
    """Schlick's approximation of Fresnel's reflectance."""
    return np.asarray(np.asarray(f0) + (np.asarray(f90) - f0) * (1 - np.asarray(cosine)) ** 5)


def albedos(cosine: float, alpha: float, n: int = 800) -> tuple[float, float]:
    """E and S of `renderer.shading.energy`, by a midpoint rule over the half vectors, in the square root of the slope."""
    t, azimuth = (np.arange(n) + 0.5) / n, 2 * np.pi * (np.arange(n // 2) + 0.5) / (n // 2)
    tangent = alpha * np.sqrt(t / (1 - t))  # the distribution of slopes, so that each strip has the same area of facets
    z = 1 / np.sqrt(1 + tangent**2)
    sine = tangent * z
    h = np.stack(np.broadcast_arrays(sine[:, None] * np.cos(azimuth), sine[:, None] * np.sin(azimuth), z[:, None]), -1)
    wo = np.array([math.sqrt(1 - cosine * cosine), 0, cosine])
    to_wo = h @ wo
    wi = 2 * to_wo[..., None] * h - wo
    used = (wi[..., 2] > 1e-9) & (to_wo > 0)
    safe = np.where(used[..., None], wi, [0, 0, 1.0])
    g = 1 / (1 + shadowing(np.broadcast_to(wo, safe.shape), alpha, alpha) + shadowing(safe, alpha, alpha))
    # integral of f over wi: D G2 / (4 cos) * 4 (wo.h) dh, and D z dh is uniform in (t, azimuth)
    weight = np.where(used, g * to_wo / (cosine * h[..., 2]), 0.0)
    return float(weight.mean()), float((weight * (1 - np.clip(to_wo, 0, 1)) ** 5).mean())


def charlie(wo: Floats, wi: Floats, roughness: float) -> Floats:
    """Sheen times the cosine of light: KHR_materials_sheen, "Implementation Notes", its alpha the square of the roughness."""
    alpha = roughness**2
    share = (1 - alpha) ** 2

    def fitted(x: Floats) -> Floats:
        a, b, c, d, e = (
            low * (1 - share) + high * share
            for low, high in ((21.5473, 25.3245), (3.82987, 3.32435), (0.19823, 0.16801), (-1.9776, -1.27393), (-4.32054, -4.85967))
        )
        return np.asarray(a / (1 + b * x**c) + d * x + e)

    def shadow(x: Floats) -> Floats:
        return np.where(x < 0.5, np.exp(fitted(x)), np.exp(2 * fitted(np.array(0.5)) - fitted(1 - x)))

    h = half_vector(wo, wi)
    d = (2 + 1 / alpha) * np.sqrt(np.maximum(1 - h[..., 2] ** 2, 0)) ** (1 / alpha) / (2 * math.pi)
    return np.asarray(d / (4 * wo[..., 2] * (1 + shadow(wo[..., 2]) + shadow(wi[..., 2]))))


def thin_film(cosine: float, film: float, thickness: float, f0: Floats, orders: int = 2) -> Floats:
    """A film's reflectance in RGB: the Airy sum term by term, each integrated over the matching functions by its Gaussians' transform
    (Belcour and Barla 2017, section 4), with the approximations of KHR_materials_iridescence. thickness: nanometres."""
    beyond = math.sqrt(1 - (1 - cosine**2) / film**2)
    r12 = float(schlick(((film - 1) / (film + 1)) ** 2, 1, cosine))
    index = (1 + np.sqrt(f0 + 1e-4)) / (1 - np.sqrt(np.minimum(f0 + 1e-4, 0.9999)))
    r23 = schlick(((index - film) / (index + film)) ** 2, 1, beyond)
    product = np.clip(r12 * r23, 1e-5, 0.9999)
    direct = (1 - r12) ** 2 * r23 / (1 - product)
    total = r12 + direct
    path, turn = 2 * film * thickness * 1e-9 * beyond, np.pi + np.where(index < film, np.pi, 0.0)
    to_rgb = np.array([[3.2404542, -1.5371385, -0.4985314], [-0.969266, 1.8760108, 0.041556], [0.0556434, -0.2040259, 1.0572252]])
    for m in range(1, orders + 1):
        k = 2 * np.pi * m * path
        xyz = np.zeros(3)
        lobes = (
            (0, 5.4856e-13, 1.681e6, 4.3278e9),
            (1, 4.4201e-13, 1.7953e6, 9.3046e9),
            (2, 5.2481e-13, 2.2084e6, 6.6121e9),
            (0, 9.747e-14, 2.2399e6, 4.5282e9),
        )
        for channel, value, place, spread in lobes:
            xyz[channel] += value * math.sqrt(2 * math.pi * spread) * np.cos(place * k + m * turn[channel]) * math.exp(-spread * k * k)
        total = total + 2 * (direct - (1 - r12)) * product ** (m / 2) * (to_rgb @ (xyz / 1.0685e-7))
    return np.asarray(np.clip(total, 0, 1))
