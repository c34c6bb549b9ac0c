"""Reflectances: Schlick's, of thin films; and what bodies do to light that goes through them."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from engine import Tensor, jit
from renderer.sampling.rng import Rng
from renderer.shading.fresnel import f0_of, thin_film
from renderer.shading.transmission import WHITE, disperse, extinction, refracted, transmittance
from renderer.vec import Vec3
from tests.renderer.helpers import optics
from tests.renderer.helpers.scattering import ALL, evaluate, sample, seen_from
from tests.renderer.helpers.tracing import device


def on_device(function: Any, *arrays: Any) -> Any:
    return jit(function, device=device())(*(Tensor(np.ascontiguousarray(a, np.float32)) for a in arrays))


def test_indices_become_reflectances() -> None:
    ior = np.array([1.5, 1.0, 1.788789, 2.42, 0.0])
    np.testing.assert_allclose(on_device(f0_of, ior).numpy(), [0.04, 0, 0.08, 0.1724, 1], atol=1e-4)


def films(cosine: Any, film: Any, thickness: Any, base: Any) -> Any:
    def run(c: Tensor, film: Tensor, thickness: Tensor, r: Tensor, g: Tensor, b: Tensor) -> Any:
        return thin_film(c, film, thickness, (Vec3(r, g, b),))[0]

    given = np.broadcast_arrays(*(np.asarray(a, float) for a in (cosine, film, thickness, *base)))
    return np.stack([c.numpy() for c in on_device(run, *given)], -1)


@pytest.mark.parametrize("base", [(0.04, 0.04, 0.04), (0.9, 0.6, 0.3), (0.0, 0.5, 1.0)])
def test_a_films_colours_are_those_of_the_airy_sum(base: tuple[float, float, float]) -> None:
    cases = np.array(list(product((0.05, 0.4, 0.8, 1.0), (1.1, 1.33, 1.8), (0, 150, 400, 900))))
    expected = [optics.thin_film(*case, np.array(base)) for case in cases]
    np.testing.assert_allclose(films(*cases.T, base), expected, atol=2e-4)


def test_a_film_of_air_is_no_film() -> None:
    """Seen along the normal. At other angles Schlick's rise belongs to both sides of the film, of air or not."""
    np.testing.assert_allclose(films(1.0, 1.0, 300.0, (0.5, 0.1, 0.04)), [[0.5, 0.1, 0.04]], atol=0.006)


def test_a_film_of_no_thickness_reflects_like_its_base_and_a_thick_one_is_colourless() -> None:
    thin, thick = films(1.0, 1.3, np.array([1.0, 20_000.0]), (0.04, 0.04, 0.04))
    np.testing.assert_allclose(thin, 0.04, atol=0.006)
    assert np.ptp(thick) < 1e-3  # no interference is left
    coloured = films(1.0, 1.3, 400.0, (0.04, 0.04, 0.04))
    assert np.ptp(coloured) > 0.01


def test_iridescence_replaces_the_reflectance_of_metals_and_dielectrics() -> None:
    wo = seen_from(0.8, 1)
    mirror = wo * [-1, -1, 1]
    for metallic, base in ((0, 0.04), (1, 0.6)):
        values = {"metallic": metallic, "base_color": 0.6, "roughness": 0.1}
        bare, _ = evaluate(wo, mirror, ALL, **values)
        film, _ = evaluate(wo, mirror, ALL, **values, iridescence=1, iridescence_thickness=250)
        expected = optics.thin_film(0.8, 1.3, 250, np.full(3, base)) / optics.schlick(base, 1, 0.8)
        np.testing.assert_allclose(film[0] / bare[0], expected, rtol=0.01)


def test_light_is_bent_by_snell_and_stays_inside_beyond_the_critical_angle() -> None:
    angles = np.radians([10, 40, 41, 42, 80])

    def run(x: Tensor, z: Tensor) -> Any:
        zero = z * 0
        return refracted(Vec3(x, zero, z), Vec3(zero, zero, zero + 1.0), z, zero + 1 / 1.5)

    wi, possible = on_device(run, np.sin(angles), np.cos(angles))
    assert possible.numpy().tolist() == [True, True, True, False, False]
    np.testing.assert_allclose(-wi.x.numpy()[:3], np.sin(angles[:3]) * 1.5, rtol=1e-5)
    assert (wi.z.numpy() <= 0).all()


def test_a_medium_leaves_its_colour_after_its_distance_and_the_square_after_twice() -> None:
    color, distances = (0.9, 0.5, 0.0), np.array([0.0, 2.0, 4.0])

    def left(distance: float, color: tuple[float, ...]) -> Any:
        def run(way: Tensor) -> Any:
            return transmittance(Vec3(*(way * 0 + c for c in extinction(color, distance))), way)

        return np.stack([c.numpy() for c in on_device(run, distances)], 1)

    np.testing.assert_allclose(left(2.0, color), [[1, 1, 1], color, np.square(color)], atol=1e-5)
    np.testing.assert_array_equal(left(math.inf, color), 1)
    np.testing.assert_array_equal(left(2.0, (1.5, 1.0, 1.0)), 1)


def test_dispersion_draws_a_channel_once_and_spreads_the_indices_by_abbes_number() -> None:
    count = 30_000
    channels = np.resize([WHITE, 0, 2], count).astype(np.int32)

    def run(channel: Tensor, lane: Tensor, dispersion: Tensor) -> Any:
        return disperse(channel, channel.cast("float32") * 0 + 1.5, dispersion, Rng.start(lane, 0, 3))[0]

    made = jit(run, device=device())
    given = (Tensor(channels), Tensor(np.arange(count, dtype=np.uint32)))
    split = made(*given, Tensor(np.ones(count, np.float32)))
    drawn, ior = split.channel.numpy().copy(), split.ior.numpy().copy()
    tint = np.stack([c.numpy() for c in split.tint], 1)
    fresh = channels == WHITE
    np.testing.assert_array_equal(drawn[~fresh], channels[~fresh])
    assert np.abs(np.bincount(drawn[fresh]) / fresh.sum() - 1 / 3).max() < 0.02
    spread = 0.5 / 20  # (n - 1) / V, from red to blue, V = 20
    np.testing.assert_allclose(ior, 1.5 + (drawn - 1) * spread / 2, rtol=1e-6)
    np.testing.assert_allclose(tint[fresh], np.eye(3)[drawn[fresh]] * 3)
    np.testing.assert_allclose(tint[~fresh], 1)
    none = made(*given, Tensor(np.zeros(count, np.float32)))
    np.testing.assert_array_equal(none.channel.numpy(), channels)
    np.testing.assert_array_equal(none.ior.numpy(), np.float32(1.5))
    assert all((c.numpy() == 1).all() for c in none.tint)


def test_blue_is_bent_more_than_red() -> None:
    wo = seen_from(0.5, 4000)
    x = []
    for ior in (1.45, 1.55):
        drawn = sample(wo, ALL, transmission=1, thickness=1, roughness=0, dispersed_ior=ior)
        x.append(np.median(np.linalg.norm(drawn.wi[drawn.through, :2], axis=1)))
    np.testing.assert_allclose(x, math.sqrt(0.75) / np.array([1.45, 1.55]), rtol=1e-3)
