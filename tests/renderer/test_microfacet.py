"""Rough facets: distributed as the papers say, seen as the papers say, and no light lost among them.

REFLECTION and REFRACTION hold values of Mitsuba 3.9.1 (`scalar_rgb`): of `roughconductor` (ggx, no material, sample_visible) the density,
of `roughdielectric` (ggx) `eval` over 1 - F with Fresnel's F of the facet. Angles in radians.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from engine import Tensor, jit
from renderer.sampling.warp import disk
from renderer.shading.energy import albedo
from renderer.shading.glass_table import entered, left_by_reflection
from renderer.shading.microfacet import ALPHA_MIN, anisotropic, isotropic
from renderer.vec import Vec3
from tests.renderer.helpers.chance import chi_square
from tests.renderer.helpers.optics import albedos, dot, ggx, mirror_facets, schlick, seen_mirrors
from tests.renderer.helpers.scattering import ALL, cell_of, cells, directions, evaluate, seen_from
from tests.renderer.helpers.tracing import device

REFLECTION = (  # alpha_u, alpha_v, polar and azimuthal angle of one direction, of the other, density
    (0.3, 0.3, 1.146504, 5.073868, 1.294195, 1.924995, 1.7505),
    (0.3, 0.3, 0.1701099, 2.407557, 0.4441913, -0.0576475, 0.5511694),
    (0.05, 0.05, 0.6654318, 6.117889, 0.6516755, 2.99557, 37.32092),
    (0.05, 0.05, 0.822275, 1.704716, 0.8206134, -1.431214, 46.36931),
    (0.9, 0.9, 1.14808, 1.987319, 1.458016, -1.227284, 0.1452128),
    (0.9, 0.9, 1.139843, 3.184388, 1.151424, 0.07798721, 0.1469684),
    (0.4, 0.1, 0.982936, 5.464156, 0.3614799, -0.2773779, 0.01325998),
    (0.4, 0.1, 1.233854, 0.1162881, 0.2248895, -2.656784, 0.9228249),
    (0.4, 0.1, 0.7543732, 2.742269, 0.5028757, 0.879688, 0.01312221),
)
REFRACTION = (  # alpha, index, side of wo (1: outside), angles of wo and of wi from that side, f
    (0.3, 1.5, 1, 0.1130827, 5.860646, 3.004143, 2.457815, 7.040856),
    (0.3, 1.5, 1, 0.4310927, 5.972424, 2.834077, 2.823518, 11.70308),
    (0.3, 1.5, -1, 0.4421026, 2.912817, 2.481565, -0.3349616, 14.64991),
    (0.3, 1.33, 1, 0.818671, 1.21848, 2.570264, -1.934859, 14.1809),
    (0.3, 1.33, -1, 0.5958384, 4.544687, 2.112536, 1.342765, 2.427897),
    (0.1, 1.5, 1, 0.7416012, 5.323081, 2.67796, 2.155942, 65.09008),
    (0.1, 1.5, -1, 0.5618383, 2.055757, 2.291723, -1.005111, 20.27226),
    (0.1, 1.33, 1, 0.872235, 5.204852, 2.5295, 2.057061, 126.6079),
    (0.1, 1.33, -1, 0.5321878, 1.750213, 2.406573, -1.352232, 125.5812),
)


def on_device(function: Any, *arrays: Any) -> Any:
    return jit(function, device=device())(*(Tensor(np.ascontiguousarray(a, np.float32)) for a in arrays))


def facet_density(wo: Any, h: Any, roughness: float) -> Any:
    """D of the renderer."""

    def run(x: Tensor, y: Tensor, z: Tensor) -> Any:
        return isotropic(Tensor(roughness)).distribution(Vec3(x, y, z))

    return on_device(run, *h.T).numpy()


@pytest.mark.parametrize("roughness", [0.2, 0.5, 1.0])
def test_facets_have_the_area_of_the_surface(roughness: float) -> None:
    """The integral of D cos over the hemisphere is 1."""
    t = (np.arange(20_000) + 0.5) / 20_000
    angle = t**2 * math.pi / 2
    h = directions(angle, 0.7)
    d = facet_density(h, h, roughness)
    assert abs((d * np.cos(angle) * np.sin(angle) * 2 * math.pi * 2 * t * math.pi / 2).mean() - 1) < 2e-4
    np.testing.assert_allclose(d, ggx(h, roughness**2, roughness**2), rtol=2e-5)


@pytest.mark.parametrize(("roughness", "strength", "cosine"), [(0.7, 0.0, 0.9), (0.6, 0.0, 0.15), (0.5, 0.6, 0.5), (1.0, 0.0, 0.02)])
def test_normals_are_drawn_as_they_are_seen(roughness: float, strength: float, cosine: float) -> None:
    count, rows, columns = 100_000, 16, 24
    u, v = np.random.default_rng(1).random((2, count), np.float32)
    turn = (math.cos(0.5), math.sin(0.5))
    wo = seen_from(cosine, 1)[0]

    def draw(u: Tensor, v: Tensor) -> Any:
        made = anisotropic(Tensor(roughness), Tensor(strength), turn) if strength else isotropic(Tensor(roughness))
        x, y = disk(u, v)
        return made.sample(Vec3(*(u * 0 + float(c) for c in wo)), x, y)

    h = np.stack([c.numpy() for c in on_device(draw, u, v)], 1)
    np.testing.assert_allclose(np.linalg.norm(h, axis=1), 1, atol=1e-5)
    grid = cells(rows, columns, 24)
    alpha = roughness**2
    turned = np.stack([grid[..., 0] * turn[0] + grid[..., 1] * turn[1], grid[..., 1] * turn[0] - grid[..., 0] * turn[1], grid[..., 2]], -1)
    wide = alpha + (1 - alpha) * strength**2
    seen = np.maximum(grid @ wo, 0) * np.where(grid[..., 2] > 0, ggx(turned, wide, alpha), 0)
    expected = seen.mean(-1) / seen.mean(-1).sum() * count
    counts = np.zeros((rows, columns), int)
    np.add.at(counts, cell_of(h, rows, columns), 1)
    assert chi_square(counts, expected) < 5


def test_densities_of_reflections_are_those_of_mitsuba() -> None:
    table = np.array(REFLECTION)
    along, across = table[:, 0], table[:, 1]
    wo, wi = directions(table[:, 2], table[:, 3]), directions(table[:, 4], table[:, 5])
    strength = np.sqrt((along - across) / (1 - across))
    _, density = evaluate(wo, wi, ALL, metallic=1, roughness=np.sqrt(across), anisotropy=strength)
    # What the facets lose is drawn by the cosine: with the chance `even`, the rest by facets.
    for k, row in enumerate(table):
        if row[0] == row[1]:
            even = 1 - albedos(float(np.cos(row[2])), row[0])[0]
            assert abs(density[k] / (row[6] * (1 - even) + even * wi[k, 2] / math.pi) - 1) < 0.01, row
    np.testing.assert_allclose(seen_mirrors(wo, wi, along, across), table[:, 6], rtol=2e-5)
    facets = evaluate(wo, wi, ALL, base_color=0, specular=1, ior=0, roughness=np.sqrt(across), anisotropy=strength, transmission=0)[0]
    lost = facets[:, 0] - mirror_facets(wo, wi, along, across)
    assert (lost > -1e-4 * facets[:, 0] - 1e-5).all()  # the light lost between facets comes on top


def test_refraction_is_that_of_mitsuba_scaled_so_that_nothing_is_lost() -> None:
    """Mitsuba's facets lose light among them; ours give it back, by what they let through of light under the cosine outside."""
    table = np.array(REFRACTION)
    wo, wi = directions(table[:, 3], table[:, 4]), directions(table[:, 5], table[:, 6])
    f, _ = evaluate(wo, wi, ALL, table[:, 2] > 0, transmission=1, thickness=1, roughness=np.sqrt(table[:, 0]), ior=table[:, 1])
    eta = np.where(table[:, 2] > 0, table[:, 1], 1 / table[:, 1])
    half = wo + wi * eta[:, None]
    half /= np.linalg.norm(half, axis=1, keepdims=True)
    outer = np.where(table[:, 2] > 0, np.abs(dot(half, wo)), np.abs(dot(half, wi)))  # the cosine in air
    passes = 1 - schlick(((table[:, 1] - 1) / (table[:, 1] + 1)) ** 2, 1, outer)
    ours = f[:, 0] / passes / eta**2  # Mitsuba's radiance is not over the index
    for k, (alpha, ior, outside) in enumerate(table[:, :3]):
        mu, f0 = np.abs([(wo if outside > 0 else wi)[k, 2]]), ((ior - 1) / (ior + 1)) ** 2
        share, q = entered(mu, alpha, ior, 1 << 14)
        scale = left_by_reflection(mu, math.sqrt(alpha), f0) / (share * (1 - f0) * (1 - q))
        assert scale[0] > 1 and abs(ours[k] / scale[0] / table[k, 7] - 1) < 0.01


def test_the_fitted_albedos_are_those_of_the_integral() -> None:
    cosines, roughnesses = np.array([0.05, 0.1, 0.25, 0.5, 0.75, 1.0]), np.array([0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0])

    def run(roughness: Tensor, cosine: Tensor) -> Any:
        fits = albedo(roughness)
        return *fits.at(cosine), fits.mean_loss, fits.mean_grazing

    grid = [a.ravel() for a in np.meshgrid(roughnesses, cosines, indexing="ij")]
    loss, grazing, _, _ = (a.numpy() for a in on_device(run, *grid))
    true = np.array([albedos(c, r * r, 600) for r, c in zip(*grid, strict=True)])
    np.testing.assert_allclose(1 - loss, true[:, 0], atol=0.006)
    np.testing.assert_allclose(grazing, true[:, 1], atol=0.01)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    fine = [a.ravel() for a in np.meshgrid(roughnesses, (nodes + 1) / 2, indexing="ij")]
    loss, grazing, mean_loss, mean_grazing = (a.numpy().reshape(len(roughnesses), -1) for a in on_device(run, *fine))
    cosine_weights = weights * (nodes + 1) / 2
    np.testing.assert_allclose(mean_loss[:, 0], loss @ cosine_weights, atol=2e-3)
    np.testing.assert_allclose(mean_grazing[:, 0], grazing @ cosine_weights, atol=2e-3)


@pytest.mark.parametrize("roughness", [0.15, 0.4, 0.8])
def test_a_metal_reflects_by_its_facets_and_what_they_lose(roughness: float) -> None:
    """f is D F G2 / (4 cos) and the lobe of Kulla and Conty, whose E are integrated here."""
    random = np.random.default_rng(2)
    wo, wi = (directions(np.arccos(random.uniform(0.1, 1, 60)), random.uniform(0, 6, 60)) for _ in range(2))
    color, alpha = np.array([0.95, 0.6, 0.2]), roughness**2
    f, _ = evaluate(wo, wi, base_color=color, metallic=1, roughness=roughness)
    h = wo + wi
    h /= np.linalg.norm(h, axis=1, keepdims=True)
    loss = [np.array([1 - albedos(c, alpha, 300)[0] for c in w[:, 2]]) for w in (wo, wi)]
    nodes, weights = np.polynomial.legendre.leggauss(24)
    mean = sum(w * (x + 1) / 2 * (1 - albedos((x + 1) / 2, alpha, 300)[0]) for x, w in zip(nodes, weights, strict=True))
    average = color + (1 - color) / 21
    again = average**2 * (1 - mean) / (1 - average * mean)
    single = mirror_facets(wo, wi, alpha, alpha)[:, None] * schlick(color, 1, dot(wo, h)[:, None])
    expected = single + (loss[0] * loss[1] * wi[:, 2] / (math.pi * mean))[:, None] * again
    np.testing.assert_allclose(f, expected, rtol=0.03, atol=0.004)


def test_the_narrowest_lobe_is_even_in_float32() -> None:
    """A mirror's density about its peak follows D, though the lobe is a hundredth of a degree wide."""
    wo = directions(0.9, 0.4)[None].repeat(200, 0)
    lean = np.linspace(0, 3 * ALPHA_MIN, 200)
    h = directions(lean, 1.1)
    wi = (2 * dot(wo, h)[:, None] * h - wo).astype(np.float32).astype(float)
    f, density = evaluate(wo, wi, base_color=1, metallic=1, roughness=0)
    true = seen_mirrors(wo, wi, ALPHA_MIN, ALPHA_MIN)
    np.testing.assert_allclose(density, true, rtol=0.01)
    np.testing.assert_allclose(f[:, 0] / density, 1, rtol=1e-3)
