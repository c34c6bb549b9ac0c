"""The BSDF: what it reflects is what its albedo says, and it samples what it reflects."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine import Tensor, jit
from renderer.sampling.rng import Rng
from renderer.shading.bsdf import Lambert
from renderer.vec import Vec3
from tests.renderer.helpers.chance import chi_square
from tests.renderer.helpers.tracing import device

COUNT = 100_000


def evaluate(albedo: tuple[float, float, float], cosine: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """f [n, 3] and density [n] under cosines."""

    def both(cosine: Tensor) -> Any:
        bsdf, wi = Lambert(Vec3(*albedo)), Vec3((1 - cosine * cosine).sqrt(), cosine * 0, cosine)
        return bsdf.f(wi), bsdf.density(wi)

    f, density = jit(both, device=device())(Tensor(cosine.astype(np.float32)))
    return np.stack([c.numpy() for c in f], 1).astype(np.float64), density.numpy().astype(np.float64)


def sample(albedo: tuple[float, float, float]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Directions [n, 3], densities [n], weights [n, 3]."""

    def draw(lane: Tensor) -> Any:
        return Lambert(Vec3(*(lane.cast("float32") * 0 + a for a in albedo))).sample(Rng.start(lane, 0, 7))[0]

    s = jit(draw, device=device())(Tensor(np.arange(COUNT, dtype=np.uint32)))
    wi, weight = (np.stack([c.numpy() for c in v], 1).astype(np.float64) for v in (s.wi, s.weight))
    return wi, s.density.numpy().astype(np.float64), weight


@pytest.mark.parametrize("albedo", [(1.0, 1.0, 1.0), (0.8, 0.4, 0.0)])
def test_in_a_white_furnace_it_reflects_its_albedo(albedo: tuple[float, float, float]) -> None:
    n = 20_000
    cosine = (np.arange(n) + 0.5) / n
    f, density = evaluate(albedo, cosine)
    np.testing.assert_allclose(f.mean(0) * 2 * math.pi, albedo, rtol=1e-4, atol=1e-7)
    assert abs(density.mean() * 2 * math.pi - 1) < 1e-4


def test_nothing_goes_through() -> None:
    f, density = evaluate((1.0, 1.0, 1.0), np.array([-1.0, -0.5, -1e-6, 0.0]))
    assert not f.any() and not density.any()


def test_it_looks_the_same_both_ways() -> None:
    """Reciprocity: f over the cosine of the light is a constant."""
    cosine = np.array([0.1, 0.5, 0.9, 1.0])
    f, _ = evaluate((0.6, 0.5, 0.4), cosine)
    np.testing.assert_allclose(f / cosine[:, None], np.broadcast_to(np.array([0.6, 0.5, 0.4]) / math.pi, f.shape), rtol=1e-6)


def test_directions_are_sampled_with_the_density_that_is_stated() -> None:
    wi, density, weight = sample((0.7, 0.2, 0.1))
    f, stated = evaluate((0.7, 0.2, 0.1), wi[:, 2])
    np.testing.assert_allclose(density, stated, rtol=1e-5, atol=1e-7)
    seen = density > 1e-4
    np.testing.assert_allclose((f / np.maximum(density, 1e-9)[:, None])[seen], weight[seen], rtol=1e-4)
    expected, counts = [], []
    edges = np.linspace(0, 1, 21)
    for low, high in pairwise(edges):
        expected.append(COUNT * (high**2 - low**2))  # the integral of the density between two cosines
        counts.append(((wi[:, 2] >= low) & (wi[:, 2] < high)).sum())
    counts[-1] += (wi[:, 2] >= 1).sum()
    assert chi_square(np.array(counts), np.array(expected)) < 5


def test_a_sample_never_carries_more_than_the_albedo() -> None:
    _, _, weight = sample((1.0, 0.5, 0.0))
    np.testing.assert_array_equal(weight, np.broadcast_to([1.0, 0.5, 0.0], weight.shape))
