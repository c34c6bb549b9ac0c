"""The table of rough glass: what facets that bend light let through of it, and what they lose of it, integrated on the host.

For an index, a roughness and a cosine there are four numbers (`glass` says what they are for):

    h        of T(mu), what facets without Fresnel's reflection would pass on of light from outside. Light bent by a smooth boundary, of the
             cosine z, is masked on its way out by G1(z) = 2 z / (z + sqrt(alpha^2 (1 - z^2) + z^2)); a rough one's T is G1 of
             z^2 = mu^2 + (1 - 1 / ior^2) h. A smooth boundary has h = 1 - mu^2, an index of 1 any h, and in between h hardly depends on
             the index, so it is h that stands in the table and not T, whose reciprocal is needed to a small part of itself. As h lies
             between -1/2 and 1, it is (h + 1/2) / (3/2) that is stored
    q        the mean of (1 - wo.h)^5 over what passes, for Schlick's Fresnel
    l        what is lost inside: 1 - (what facets reflect, totally among the rest) - (what they let out, scaled as `glass` scales it)
    mean     the average of l over the cosine-weighted hemisphere, the same for all cosines

Integrals go over normals that are seen (`microfacet`), drawn by an additive recurrence, as which each weighs the light that its facet
sends on by the masking of that light. `python -m renderer.shading.glass_table` writes the file that `glass` reads, in a minute.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine import Tensor
from renderer.shading.energy import albedo, remainder

Floats = NDArray[np.float64]

FILE = Path(__file__).with_name("glass_table.npy")
INDICES, ROUGHNESSES, COSINES = 16, 16, 32  # steps of sqrt(1 - 1 / ior^2), of the roughness, of the root of the cosine, each from 0 to 1
CHANNELS = ("h", "q", "l", "mean")
_SAMPLES = 1 << 14
_LEAST = 1e-4  # of cosines, and of alpha
_HIGHEST = 1.0 - 1e-3  # of sqrt(1 - 1 / ior^2): the index 22 stands for all above


class Facet(NamedTuple):
    """Facets seen under a cosine (a row each), and what they do with its light. cosine: to the facet; mirrored, bent: the cosines of what
    is reflected and refracted, below 0 where it goes to the wrong side; total: whether all is reflected."""

    cosine: Floats
    mirrored: Floats
    bent: Floats
    total: NDArray[np.bool_]


def masked(z: ArrayLike, alpha: float) -> Floats:
    """Smith's G1 of a cosine; 0 below the surface (Heitz 2014, eqs. 72 and 86)."""
    z = np.asarray(z, np.float64)
    return np.where(z > 0, 2 * z / (np.maximum(z, 1e-9) + _length(z, alpha)), 0.0)


def both_masked(wo: Floats, wi: Floats, alpha: float) -> Floats:
    """G2 / G1(wo) of reflection, height-correlated (Heitz 2014, eq. 99)."""
    a, b = _length(wo, alpha), _length(wi, alpha)
    return np.where(wi > 0, wi * (wo + a) / np.maximum(wo * b + wi * a, 1e-12), 0.0)


def _length(z: Floats, alpha: float) -> Floats:
    z = np.minimum(np.abs(z), 1.0)
    return np.sqrt(alpha * alpha * (1 - z * z) + z * z)


def facets(mu: Floats, alpha: float, eta: float, samples: int) -> Facet:
    """What is seen from each of these cosines; eta: the index beyond over that on this side."""
    k = np.arange(samples)
    u, v = (k * 0.7548776662466927) % 1.0, (k + 0.5) / samples
    wo = np.stack([np.sqrt(1 - mu * mu), 0 * mu, mu], -1)
    stretched = wo * [alpha, alpha, 1]
    w = stretched / np.linalg.norm(stretched, axis=-1, keepdims=True)
    z = (1 - v) * (1 + w[:, 2:]) - w[:, 2:]  # of the cap (Dupuy and Benyoub 2023)
    out = np.sqrt(np.clip(1 - z * z, 0, 1))
    seen = (np.stack([out * np.cos(2 * np.pi * u), out * np.sin(2 * np.pi * u), z], -1) + w[:, None]) * [alpha, alpha, 1]
    h = seen / np.linalg.norm(seen, axis=-1, keepdims=True)
    cosine = np.clip((wo[:, None] * h).sum(-1), 0, 1)
    square = 1 - (1 - cosine**2) / eta**2
    beyond = np.sqrt(np.maximum(square, 0))
    bent = wo[:, None, 2] / eta - h[..., 2] * (cosine / eta - beyond)
    return Facet(cosine, 2 * cosine * h[..., 2] - wo[:, None, 2], np.where(square > 0, bent, -1.0), square <= 0)


def entered(mu: Floats, alpha: float, ior: float, samples: int) -> tuple[Floats, Floats]:
    """T and q of light from outside."""
    seen = facets(mu, alpha, ior, samples)
    passes = masked(seen.bent, alpha)
    share = passes.mean(1)
    return share, (passes * (1 - seen.cosine) ** 5).mean(1) / np.maximum(share, 1e-12)


def lost_inside(mu: Floats, alpha: float, ior: float, scale: tuple[Floats, Floats], samples: int) -> Floats:
    """l, of light from inside. scale: cosines outside and what `glass` scales refraction by there."""
    seen, f0 = facets(mu, alpha, 1 / ior, samples), ((ior - 1) / (ior + 1)) ** 2
    outer = np.sqrt(np.clip(1 - (1 - seen.cosine**2) * ior**2, 0, 1))
    fresnel = np.where(seen.total, 1.0, f0 + (1 - f0) * (1 - outer) ** 5)
    reflected = fresnel * both_masked(mu[:, None], seen.mirrored, alpha)
    out = (1 - fresnel) * masked(seen.bent, alpha) * np.interp(np.sqrt(np.clip(seen.bent, 0, 1)), np.sqrt(scale[0]), scale[1])
    return np.asarray(1 - reflected.mean(1) - out.mean(1))


def passed(h: Floats, mu: Floats, alpha: float, ior: float) -> Floats:
    """T of h."""
    return masked(np.sqrt(np.maximum(mu**2 + (1 - 1 / ior**2) * h, 0)), alpha)


def place(share: Floats, mu: Floats, alpha: float, ior: float) -> Floats:
    """h of T, the inverse of `passed`; that of a smooth boundary where it decides nothing."""
    smooth = 1 - mu**2
    ratio = (2 - share) / share  # sqrt(alpha^2 (1 - z^2) + z^2) / z
    h = (alpha * alpha / (ratio**2 - 1 + alpha * alpha) - mu**2) / (1 - 1 / ior**2)
    return np.where(np.abs(passed(smooth, mu, alpha, ior) - share) < 1e-5, smooth, np.clip(h, -0.5, 1))


def left_by_reflection(mu: Floats, roughness: float, f0: float) -> Floats:
    """R of `energy`, by its fits."""
    fits = albedo(Tensor(np.full(len(mu), roughness, np.float32)))
    loss, grazing = fits.at(Tensor(mu.astype(np.float32)))
    one = Tensor(np.ones(len(mu), np.float32))
    return remainder(one * f0, one, fits).left(loss, grazing).numpy().astype(np.float64)


def column(ior: float, roughness: float, samples: int = _SAMPLES) -> Floats:
    """float64[COSINES, 4]: the rows of an index and a roughness."""
    mu = np.maximum(np.linspace(0, 1, COSINES) ** 2, _LEAST)
    alpha, f0 = max(roughness * roughness, _LEAST), ((ior - 1) / (ior + 1)) ** 2
    share, q = entered(mu, alpha, ior, samples)
    h = place(share, mu, alpha, ior)
    fine = np.maximum(np.linspace(0, 1, 256) ** 2, _LEAST)
    between = [np.interp(np.sqrt(fine), np.sqrt(mu), values) for values in (h, q)]
    passes = passed(between[0], fine, alpha, ior) * (1 - f0) * (1 - between[1])
    scale = left_by_reflection(fine, max(roughness, math.sqrt(_LEAST)), f0) / np.maximum(passes, 1e-12)
    lost = np.clip(lost_inside(mu, alpha, ior, (fine, scale), samples), 0, 1)
    t = np.linspace(0, 1, 2000)
    mean = np.trapezoid(np.interp(t, np.linspace(0, 1, COSINES), lost) * 4 * t**3, t)  # 2 mu d mu, mu = t^2
    return np.stack([(h + 0.5) / 1.5, q, lost, np.full(COSINES, mean)], -1)


def table() -> Floats:
    """float64[INDICES, ROUGHNESSES, COSINES, 4]."""
    made = np.empty((INDICES, ROUGHNESSES, COSINES, len(CHANNELS)))
    for i, e in enumerate(np.clip(np.linspace(0, 1, INDICES), 0.03, _HIGHEST)):  # an index of 1 has no half vectors
        for k, roughness in enumerate(np.linspace(0, 1, ROUGHNESSES)):
            made[i, k] = column(1 / math.sqrt(1 - e * e), roughness)
    return made


if __name__ == "__main__":
    np.save(FILE, np.rint(table() * 65535).astype(np.uint16))
