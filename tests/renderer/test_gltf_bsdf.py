"""glTF's material: it keeps the light there is, is the same both ways, and samples what it scatters."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from renderer.shading import glass_table as glass_maker
from renderer.shading.glass import glass_table
from renderer.shading.gltf_material import Features
from renderer.shading.sheen import ROUGHNESS_MIN
from tests.renderer.helpers.chance import chi_square
from tests.renderer.helpers.optics import charlie, dot, schlick
from tests.renderer.helpers.scattering import ALL, PLAIN, Drawn, Floats, cell_of, cells, directions, evaluate, sample, seen_from

COUNT = 40_000
COSINES = (0.02, 0.1, 0.3, 0.6, 1.0)
ROUGHNESSES = (0.0, 0.1, 0.3, 0.6, 1.0)


def reflected(drawn: Drawn) -> Floats:
    """What a furnace of radiance 1 on both sides sends back: [3]."""
    return np.asarray(drawn.weight.mean(0))


def both_sides(random: np.random.Generator, count: int, low: float = 0.05) -> tuple[Floats, Floats, Floats]:
    """Directions above; above; below."""
    cosine = random.uniform(low, 1, (3, count)) * np.array([1, 1, -1])[:, None]
    azimuth = random.uniform(0, 2 * math.pi, (3, count))
    above, other, below = directions(np.arccos(cosine), azimuth)
    return above, other, below


# Furnaces


@pytest.mark.parametrize("roughness", ROUGHNESSES)
def test_a_white_metal_reflects_all_light(roughness: float) -> None:
    for cosine in COSINES:
        drawn = sample(seen_from(cosine, COUNT), metallic=1, roughness=roughness)
        noise = 4 * drawn.weight[:, 0].std() / math.sqrt(COUNT)
        assert abs(reflected(drawn)[0] - 1) < 0.007 + noise, (cosine, reflected(drawn))


@pytest.mark.parametrize("roughness", ROUGHNESSES)
def test_a_white_dielectric_reflects_nearly_all_light(roughness: float) -> None:
    for cosine in COSINES:
        drawn = sample(seen_from(cosine, COUNT), roughness=roughness)
        noise = 4 * drawn.weight[:, 0].std() / math.sqrt(COUNT)
        assert 0.97 < reflected(drawn)[0] < 1.007 + noise, (cosine, reflected(drawn))


def test_uneven_facets_lose_and_win_little() -> None:
    """They have no fits of their own: see `renderer.shading.energy`."""
    for metallic, strength, cosine, azimuth in product((0, 1), (0.3, 0.7), (0.1, 0.5, 1.0), (0.0, 0.8, 1.6)):
        drawn = sample(seen_from(cosine, 8000, azimuth), ALL, metallic=metallic, roughness=0.3, anisotropy=strength)
        assert 0.8 < reflected(drawn)[0] < 1.045 + 4 * drawn.weight[:, 0].std() / 89, (metallic, strength, cosine, azimuth)


def test_at_the_horizon_the_narrowest_lobes_stay_sane() -> None:
    for values in ({"metallic": 1}, {"transmission": 1}, {"transmission": 1, "specular": 0}, {"transmission": 1, "thickness": 1}):
        for cosine in (0.0, 1e-6, 1e-3):
            drawn = sample(seen_from(cosine, 8000), ALL, roughness=0, **values)
            assert 0.85 < reflected(drawn)[0] < 1.01 and drawn.weight.max() < 50, (values, cosine)


def test_a_white_pane_loses_nothing() -> None:
    for roughness, cosine in product(ROUGHNESSES, COSINES):
        pane = reflected(sample(seen_from(cosine, COUNT), ALL, transmission=0.7, roughness=roughness))[0]
        assert abs(pane - 1) < 0.015, (roughness, cosine, pane)


def furnaces(kinds: int, each: int, wo: Floats, outside: NDArray[Any], **values: NDArray[Any]) -> tuple[Floats, Floats]:
    """What a white furnace gets back of materials, each seen along one direction: the brightest channel, and its noise, [kinds]."""
    repeated = {name: np.repeat(value, each, 0) for name, value in values.items()}
    drawn = sample(np.repeat(wo, each, 0), ALL, np.repeat(outside, each), **repeated)
    weight = drawn.weight.reshape(kinds, each, 3)
    return weight.mean(1).max(1), weight.std(1).max(1) / math.sqrt(each)


def glasses(random: np.random.Generator, kinds: int) -> dict[str, Floats]:
    """Any roughness, any index from 1 to 2.5."""
    return {
        "roughness": random.uniform(0, 1, kinds),
        "ior": 1 + 1.5 * random.uniform(0, 1, kinds) ** 2,
        "transmission": np.ones(kinds),
        "thickness": np.ones(kinds),
    }


@pytest.mark.parametrize("outside", [1, 0])
def test_white_glass_keeps_all_light_whatever_its_roughness_and_its_index(outside: int) -> None:
    """From both sides, to 1 % and the noise, from the normal to three degrees above the horizon."""
    random, kinds = np.random.default_rng(11), 300
    wo = directions(np.arccos(random.uniform(0.05, 1, kinds)), random.uniform(0, 6, kinds))
    for transmission in (1.0, 0.6):
        values = {**glasses(random, kinds), "transmission": np.full(kinds, transmission)}
        mean, noise = furnaces(kinds, 2000, wo, np.full(kinds, outside), **values)
        off = np.abs(mean - 1) - 4 * noise
        worst = off.argmax()
        assert off[worst] < 0.01, (mean[worst], wo[worst, 2], {name: value[worst] for name, value in values.items()})


@pytest.mark.parametrize("outside", [1, 0])
def test_glass_of_other_reflection_than_its_index_wins_nothing_and_loses_little(outside: int) -> None:
    """KHR_materials_specular and films; a mirror to all sides keeps what it has."""
    random, kinds = np.random.default_rng(12), 200
    wo = directions(np.arccos(random.uniform(0.05, 1, kinds)), random.uniform(0, 6, kinds))
    cases: list[tuple[dict[str, Floats], float]] = [
        ({"specular": random.uniform(0, 1, kinds)}, 0.06),
        ({"iridescence": np.ones(kinds), "iridescence_thickness": random.uniform(100, 800, kinds)}, 0.05 if outside else 0.09),
        ({"specular_color": np.full((kinds, 3), 1e6)}, 0.02),
        ({"specular_color": np.repeat(random.uniform(1, 20, (kinds, 1)), 3, 1)}, 0.02 if outside else 0.25),
    ]
    for more, loss in cases:
        mean, noise = furnaces(kinds, 2000, wo, np.full(kinds, outside), **glasses(random, kinds), **more)
        assert (mean < 1.012 + 4 * noise).all(), (list(more), (mean - 4 * noise).max())
        assert (mean > 1 - loss - 4 * noise).all(), (list(more), (mean + 4 * noise).min())


STACKS: dict[str, tuple[dict[str, Any], float, float]] = {  # of white layers: what they may lose and win at most, and why
    "film on metal": ({"metallic": 1, "iridescence": 1}, 0.005, 0.007),
    "film on plastic": ({"iridescence": 1}, 0.005, 0.007),
    "tinted plastic": ({"specular_color": (5, 1, 0.5)}, 0.006, 0.009),
    "dull plastic": ({"specular": 0.5}, 0.005, 0.007),
    "leaf": ({"diffuse_transmission": 0.5}, 0.006, 0.009),
    "half glass": ({"transmission": 0.5, "thickness": 1}, 0.008, 0.009),
    "coated glass": ({"transmission": 1, "thickness": 1, "clearcoat": 1, "clearcoat_roughness": 0.1}, 0.03, 0.009),  # as other coats
    "coat": ({"clearcoat": 1, "clearcoat_roughness": 0.1}, 0.045, 0.009),  # pays on the way in or out, whichever is more
    "coated metal": ({"clearcoat": 1, "clearcoat_roughness": 0.1, "metallic": 1}, 0.045, 0.009),
    "rough coat": ({"clearcoat": 1, "clearcoat_roughness": 0.6}, 0.02, 0.012),
    "sheen": ({"sheen_color": (1, 1, 1), "sheen_roughness": 0.5}, 0.13, 0.009),  # so it is specified: the lesser of both ways
    "brushed metal": ({"metallic": 1, "anisotropy": 0.7}, 0.065, 0.027),  # uneven facets have no fits of their own
}


@pytest.mark.parametrize("name", STACKS)
def test_white_layers_lose_and_win_no_more_than_is_known(name: str) -> None:
    values, loss, gain = STACKS[name]
    grid = [(r, c) for r in (0.0, 0.2, 0.4, 0.7, 1.0) for c in (0.05, 0.2, 0.5, 0.8, 1.0)]
    wo = np.stack([directions(np.arccos(c), 0.3) for _, c in grid])
    values = {key: np.repeat(np.asarray(value, float)[None], len(grid), 0) for key, value in values.items()}
    mean, noise = furnaces(len(grid), 20_000, wo, np.ones(len(grid)), roughness=np.array([r for r, _ in grid]), **values)
    assert (mean > 1 - loss - 4 * noise).all(), (grid[int(mean.argmin())], mean.min())
    assert (mean < 1 + gain + 4 * noise).all(), (grid[int(mean.argmax())], mean.max())


def test_the_table_of_rough_glass_is_what_its_maker_integrates() -> None:
    stored = glass_table().reshape(glass_maker.INDICES, glass_maker.ROUGHNESSES, glass_maker.COSINES, 4)
    for i, k in ((3, 9), (11, 5), (13, 15)):
        bend, roughness = (i / (glass_maker.INDICES - 1)) ** 2, k / (glass_maker.ROUGHNESSES - 1)
        made = glass_maker.column(1 / math.sqrt(1 - bend), roughness, samples=2048)
        np.testing.assert_allclose(stored[i, k], made, atol=0.02)
        assert np.abs(stored[i, k] - made).mean() < 0.003


def test_a_leaf_passes_on_what_it_does_not_reflect() -> None:
    drawn = sample(
        seen_from(0.7, COUNT), ALL, diffuse_transmission=0.6, diffuse_transmission_color=(1, 0.5, 0), base_color=(0, 1, 1), specular=0
    )
    through = (drawn.weight * drawn.through[:, None]).mean(0)
    np.testing.assert_allclose(through, [0.6, 0.3, 0], atol=0.01)
    np.testing.assert_allclose(reflected(drawn) - through, [0, 0.4, 0.4], atol=0.01)


def random_materials(random: np.random.Generator, count: int, extreme: float) -> dict[str, Any]:
    """One material a lane; values are 0 or 1 with the chance `extreme` each."""

    def unit(*shape: int) -> Floats:
        values = random.random((count, *shape))
        ends = random.random((count, *shape)) < extreme
        return np.where(ends, np.round(values), values)

    angle = random.uniform(0, 2 * math.pi, count)
    return {
        "base_color": unit(3),
        "metallic": unit(),
        "roughness": unit(),
        "specular": unit(),
        "specular_color": unit(3) * random.choice([1, 1, 20], (count, 1)),
        "ior": np.where(unit() > 0, 1 + 1.5 * unit(), 0),
        "anisotropy": unit(),
        "anisotropy_direction": np.stack([np.cos(angle), np.sin(angle)], 1),
        "clearcoat": unit(),
        "clearcoat_roughness": unit(),
        "clearcoat_normal": directions(0.6 * unit() * (random.random(count) < 0.5), angle),
        "sheen_color": unit(3) * (random.random((count, 1)) < 0.5),
        "sheen_roughness": unit(),
        "transmission": unit(),
        "thickness": unit() * (random.random(count) < 0.5),
        "diffuse_transmission": unit(),
        "diffuse_transmission_color": unit(3),
        "iridescence": unit(),
        "iridescence_ior": 1 + unit(),
        "iridescence_thickness": 1000 * unit(),
    }


def test_no_material_gives_more_light_than_it_gets() -> None:
    """200 materials of all features, in the brightest channel, to within the noise and the 0.7 % of the fits."""
    random = np.random.default_rng(3)
    kinds, each = 200, 1000
    values = random_materials(random, kinds, 0.4)
    values["clearcoat_normal"] = (0, 0, 1)
    repeated = {k: np.repeat(v, each, 0) if np.ndim(v) and k != "clearcoat_normal" else v for k, v in values.items()}
    wo = np.repeat(directions(np.arccos(random.uniform(0.02, 1, kinds)), random.uniform(0, 6, kinds)), each, 0)
    drawn = sample(wo, ALL, np.repeat(random.integers(0, 2, kinds), each), **repeated)
    weight = drawn.weight.reshape(kinds, each, 3)
    mean, noise = weight.mean(1), weight.std(1) / math.sqrt(each)
    assert (mean < 1.01 + 4.5 * noise).all(), np.argwhere(mean >= 1.01 + 4.5 * noise)
    assert mean.max() > 0.9


def test_light_inside_white_glass_is_reflected_beyond_the_critical_angle() -> None:
    drawn = sample(seen_from(0.6, COUNT), ALL, 0, transmission=1, thickness=1, roughness=0)
    assert not drawn.through.any()
    np.testing.assert_allclose(drawn.wi[:, 2], 0.6, atol=2e-2)
    np.testing.assert_allclose(drawn.weight, 1, atol=1e-3)


# The same both ways


@pytest.mark.parametrize(
    "values",
    [
        {"base_color": (0.8, 0.4, 0.1), "roughness": 0.4},
        {"base_color": (0.8, 0.4, 0.1), "roughness": 0.7, "metallic": 0.6, "specular": 0.5, "specular_color": (1, 0.2, 2)},
        {"metallic": 1, "roughness": 0.5, "anisotropy": 0.8, "anisotropy_direction": (0.6, 0.8)},
        {"clearcoat": 0.8, "clearcoat_roughness": 0.3, "sheen_color": (0.5, 0.2, 0.9), "sheen_roughness": 0.4, "base_color": 0.5},
        {"sheen_color": (1, 1, 1), "sheen_roughness": 0.15, "roughness": 0.3},
        {"transmission": 0.7, "roughness": 0.5, "diffuse_transmission": 0.4, "clearcoat": 0.5, "sheen_color": (0.5, 0.2, 0.9)},
    ],
)
def test_it_looks_the_same_both_ways(values: dict[str, Any]) -> None:
    """Helmholtz: f over the cosine of light does not change when the two directions change places."""
    a, b, below = both_sides(np.random.default_rng(4), 500)
    mirrored = a * [1, 1, -1]
    for there, back in (((a, b), (b, a)), ((a, below), (below * [1, 1, -1], mirrored))):
        there_f, back_f = evaluate(*there, ALL, **values)[0], evaluate(*back, ALL, **values)[0]
        # of a pane: from behind, everything is mirrored
        np.testing.assert_allclose(there_f / np.abs(there[1][:, 2:]), back_f / np.abs(back[1][:, 2:]), rtol=2e-3, atol=1e-5)


def test_refraction_is_the_same_both_ways_but_for_the_indices() -> None:
    """f(in, out) / n_in^2 = f(out, in) / n_out^2, of radiance over the squared index (Veach 1997, eq. 5.14)."""
    a, _, b = both_sides(np.random.default_rng(5), 4000, 0.3)
    flip = np.array([1, 1, -1.0])
    for roughness in (0.3, 0.5, 1.0):
        values = {"transmission": 0.8, "thickness": 1, "roughness": roughness, "ior": 1.4, "base_color": (0.9, 0.5, 0.2)}
        enters = evaluate(a, b, ALL, 1, **values)[0] / np.abs(b[:, 2:])
        leaves = evaluate(b * flip, a * flip, ALL, 0, **values)[0] / a[:, 2:]
        seen = enters[:, 0] > 1e-3
        assert seen.sum() > 500
        np.testing.assert_allclose(leaves[seen], enters[seen] / 1.4**2, rtol=5e-3)


def test_light_that_stays_inside_is_the_same_both_ways() -> None:
    a, b, _ = both_sides(np.random.default_rng(14), 2000)
    for values in ({"roughness": 0.4, "ior": 1.5}, {"roughness": 1.0, "ior": 1.2, "transmission": 0.7}):
        there, back = (evaluate(*pair, ALL, 0, **{"transmission": 1, "thickness": 1, **values})[0] for pair in ((a, b), (b, a)))
        np.testing.assert_allclose(there / b[:, 2:], back / a[:, 2:], rtol=2e-3, atol=1e-5)


# Sampling

LOBES: dict[str, dict[str, Any]] = {
    "plastic": {"base_color": (0.5, 0.3, 0.1), "roughness": 0.55},
    "metal": {"metallic": 1, "roughness": 0.6, "base_color": (0.9, 0.6, 0.3)},
    "brushed": {"metallic": 1, "roughness": 0.6, "anisotropy": 0.7, "anisotropy_direction": (0.8, 0.6)},
    "coat": {"base_color": 0, "specular": 0, "clearcoat": 1, "clearcoat_roughness": 0.6},
    "turned coat": {"base_color": 0.2, "clearcoat": 1, "clearcoat_roughness": 0.6, "clearcoat_normal": tuple(directions(0.4, 1.0))},
    "velvet": {"base_color": 0.1, "specular": 0.3, "sheen_color": (0.9, 0.3, 0.6), "sheen_roughness": 0.5},
    "pane": {"transmission": 0.8, "roughness": 0.6, "base_color": (0.9, 0.9, 0.5)},
    "body": {"transmission": 1, "thickness": 1, "roughness": 0.65, "ior": 1.6},
    "frosted": {"transmission": 0.8, "thickness": 1, "roughness": 1.0, "ior": 2.2},
    "leaf": {"diffuse_transmission": 0.5, "diffuse_transmission_color": (0.2, 0.9, 0.2), "roughness": 0.6},
    "everything": {
        "base_color": (0.7, 0.5, 0.3), "metallic": 0.2, "roughness": 0.6, "clearcoat": 0.7, "clearcoat_roughness": 0.6,
        "sheen_color": (0.3, 0.2, 0.5), "sheen_roughness": 0.5, "transmission": 0.5, "diffuse_transmission": 0.5, "anisotropy": 0.4,
        "iridescence": 0.7,
    },
}  # fmt: skip


@pytest.mark.parametrize(("name", "outside"), [*product(LOBES, (1,)), ("body", 0), ("frosted", 0), ("everything", 0)])
def test_directions_are_sampled_with_the_density_that_is_stated(name: str, outside: int) -> None:
    rows, columns, fine, count = 16, 16, 12, 60_000
    for cosine in (0.25, 0.8):
        drawn = sample(seen_from(cosine, count), ALL, outside, **LOBES[name])
        used = drawn.density > 0
        grid = cells(rows, columns, fine).reshape(-1, 3)
        density = evaluate(seen_from(cosine, len(grid)), grid, ALL, outside, **LOBES[name])[1].reshape(rows, columns, -1).mean(-1)
        expected = density * (4 * math.pi / (rows * columns))
        absorbed = 1 - used.mean()
        assert abs(expected.sum() + absorbed - 1) < 0.01, (cosine, expected.sum(), absorbed)
        counts = np.zeros((rows, columns), int)
        np.add.at(counts, cell_of(drawn.wi[used], rows, columns), 1)
        assert chi_square(counts, expected / expected.sum() * used.sum()) < 5, cosine
        assert (drawn.through[used] == (drawn.wi[used, 2] < 0)).all()


@pytest.mark.parametrize("name", LOBES)
def test_a_sample_tells_its_own_density_and_weight(name: str) -> None:
    wo = seen_from(0.5, 2000)
    drawn = sample(wo, ALL, **LOBES[name])
    f, density = evaluate(wo, drawn.wi, ALL, **LOBES[name])
    used = drawn.density > 1e-3
    np.testing.assert_allclose(drawn.density[used], density[used], rtol=1e-4)
    np.testing.assert_allclose((drawn.weight * drawn.density[:, None])[used], f[used], rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(drawn.wi, axis=1), 1, atol=2e-5)
    assert not drawn.weight[drawn.density == 0].any()


@pytest.mark.parametrize("name", LOBES)
def test_samples_carry_the_light_that_f_promises(name: str) -> None:
    """The mean weight is the integral of f."""
    wo = seen_from(0.6, COUNT)
    drawn = sample(wo, ALL, **LOBES[name])
    grid = cells(32, 32, 10).reshape(-1, 3)
    f = evaluate(seen_from(0.6, len(grid)), grid, ALL, **LOBES[name])[0]
    noise = drawn.weight.std(0).max() / math.sqrt(COUNT)
    np.testing.assert_allclose(drawn.weight.mean(0), f.mean(0) * 4 * math.pi, atol=4 * noise + 0.004)


@given(seed=st.integers(0, 2**32 - 1), extreme=st.sampled_from([0.0, 0.5, 1.0]))
@settings(max_examples=25, deadline=None)
def test_nothing_is_negative_or_infinite(seed: int, extreme: float) -> None:
    """2048 materials of all features at once, grazing directions among the rest."""
    random, count = np.random.default_rng(seed), 2048
    values = random_materials(random, count, extreme)
    cosine = np.where(random.random(count) < 0.3, random.choice([0, 1e-7, 1e-4, 1], count), random.random(count))
    wo, outside = directions(np.arccos(cosine), random.uniform(0, 6, count)), random.integers(0, 2, count)
    drawn = sample(wo, ALL, outside, seed % 1000, **values)
    for part in (drawn.wi, drawn.density, drawn.weight):
        assert np.isfinite(part).all()
    assert (drawn.density >= 0).all() and (drawn.weight >= 0).all()
    other = directions(random.uniform(0, math.pi, count), random.uniform(0, 6, count))
    for wi in (drawn.wi, other, wo, -wo, wo * [-1, -1, 1], wo * [-1, -1, -1]):
        f, density = evaluate(wo, wi, ALL, outside, **values)
        assert np.isfinite(f).all() and np.isfinite(density).all() and (f >= 0).all() and (density >= 0).all()
        assert not f[density == 0].any()


# Special cases


def test_without_reflection_it_is_lamberts() -> None:
    a, b, below = both_sides(np.random.default_rng(6), 100)
    f, density = evaluate(a, b, specular=0, base_color=(0.8, 0.4, 0), roughness=0.5)
    np.testing.assert_allclose(f, b[:, 2:] / math.pi * np.array([0.8, 0.4, 0]), rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(density, b[:, 2] / math.pi, rtol=1e-3)
    f, density = evaluate(a, below, base_color=1)
    assert not f.any() and not density.any()


def test_a_feature_that_a_material_does_not_use_changes_nothing() -> None:
    a, b, _ = both_sides(np.random.default_rng(7), 300)
    values = {"base_color": (0.7, 0.3, 0.2), "metallic": 0.3, "roughness": 0.4, "specular": 0.8}
    for plain, full in zip(evaluate(a, b, PLAIN, **values), evaluate(a, b, ALL, **values), strict=True):
        np.testing.assert_allclose(full, plain, rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, 0.04),
        ({"ior": 1.0}, 0.0),
        ({"ior": 2.0}, 1 / 9),
        ({"ior": 0.0}, 1.0),
        ({"specular": 0.5}, 0.02),
        ({"specular_color": (5, 5, 5)}, 0.2),
        ({"specular_color": (100, 100, 100)}, 1.0),
        ({"metallic": 1, "base_color": (0.6, 0.6, 0.6)}, 0.6),
        ({"metallic": 0.5, "base_color": (0.6, 0.6, 0.6)}, 0.32),
    ],
)
def test_a_mirror_reflects_by_its_index_and_colour(values: dict[str, Any], expected: float) -> None:
    """At the normal, at the peak of the narrowest lobe: f is F D / (4 cos)."""
    wo = seen_from(1, 1)
    f, _ = evaluate(wo, wo, **{"roughness": 0, "base_color": (0, 0, 0), **values})
    assert abs(f[0, 0] * 4 * math.pi * 1e-8 - expected) < 1e-3


def test_a_smooth_surface_is_a_mirror_and_smooth_glass_obeys_snell() -> None:
    wo = seen_from(0.5, 5000)
    drawn = sample(wo, ALL, transmission=1, thickness=1, roughness=0, ior=1.5)
    mirror = drawn.wi[~drawn.through]
    assert np.median(np.linalg.norm(mirror - wo[0] * [-1, -1, 1], axis=1)) < 3e-4
    beyond = drawn.wi[drawn.through]
    assert np.median(np.abs(np.linalg.norm(beyond[:, :2], axis=1) - math.sqrt(0.75) / 1.5)) < 3e-4
    assert abs((~drawn.through).mean() - schlick(0.04, 1, 0.5)) < 0.02
    pane = sample(wo, ALL, transmission=1, roughness=0)
    assert np.median(np.linalg.norm(pane.wi[pane.through] + wo[0], axis=1)) < 3e-4  # straight on


def test_a_coat_reflects_and_darkens() -> None:
    wo = seen_from(1, 1)
    bare, _ = evaluate(wo, wo, ALL, base_color=0.5, specular=0)
    coated, _ = evaluate(wo, wo, ALL, base_color=0.5, specular=0, clearcoat=1, clearcoat_roughness=0.5)
    lobe = 0.04 / (4 * math.pi * 0.5**4)
    np.testing.assert_allclose(coated, bare * 0.96 + lobe, rtol=5e-3)


def test_sheen_is_charlies() -> None:
    a, b, _ = both_sides(np.random.default_rng(8), 400, 0.1)
    for roughness in (0.3, 0.6, 1.0):
        f, _ = evaluate(a, b, ALL, base_color=0, specular=0, sheen_color=(1, 0.5, 0), sheen_roughness=roughness)
        np.testing.assert_allclose(f[:, 0], charlie(a, b, roughness), rtol=2e-3, atol=1e-5)
        np.testing.assert_allclose(f[:, 1], f[:, 0] / 2, rtol=1e-5)
    assert (evaluate(a, b, ALL, base_color=0, specular=0, sheen_color=1, sheen_roughness=0)[0] >= 0).all()
    narrow = [evaluate(a, b, ALL, base_color=0, specular=0, sheen_color=1, sheen_roughness=r)[0] for r in (0, ROUGHNESS_MIN)]
    np.testing.assert_array_equal(*narrow)


def test_what_is_under_sheen_gets_what_sheen_leaves() -> None:
    """The albedo of the sheen is not underrated, so that the sum never passes 1; nor by much."""
    for roughness, cosine in product((0.3, 0.5, 0.8, 1.0), (0.1, 0.3, 0.6, 0.9)):
        grid = cells(32, 32, 8)[:16].reshape(-1, 3)
        wo = seen_from(cosine, len(grid))
        albedo = charlie(wo, grid, roughness).mean() * 2 * math.pi
        down = directions(0.0, 0.0)[None]
        bare, under = (evaluate(wo[:1], down, ALL, specular=0, sheen_color=c, sheen_roughness=roughness)[0][0, 0] for c in (0, 1))
        left = (under - charlie(wo[:1], down, roughness)[0]) / bare
        assert 1 - albedo - 0.05 < left < 1 - albedo + 0.005, (roughness, cosine, albedo, left)


def test_a_coats_normal_is_its_own() -> None:
    turned = directions(0.3, 0.0)
    wo = seen_from(1, 1, 0.0)
    mirror = 2 * turned[2] * turned - wo[0]
    f = evaluate(wo, mirror[None], ALL, base_color=0, specular=0, clearcoat=1, clearcoat_roughness=0.1, clearcoat_normal=tuple(turned))[0]
    off = evaluate(wo, wo, ALL, base_color=0, specular=0, clearcoat=1, clearcoat_roughness=0.1, clearcoat_normal=tuple(turned))[0]
    expected = schlick(0.04, 1, turned[2]) / (4 * turned[2] * math.pi * 0.1**4)
    assert abs(f[0, 0] / expected - 1) < 0.01 and off[0, 0] < 1e-3 * f[0, 0]


def test_features_that_need_others_say_so() -> None:
    with pytest.raises(ValueError, match="clearcoat_normal needs clearcoat"):
        Features(clearcoat_normal=True)
    with pytest.raises(ValueError, match="dispersion needs transmission and volume"):
        Features(dispersion=True, transmission=True)


def test_dispersed_light_is_one_channel() -> None:
    a, _, below = both_sides(np.random.default_rng(9), 200, 0.5)
    values = {"transmission": 1, "thickness": 1, "roughness": 0.6}
    all_colors, _ = evaluate(a, below, ALL, **values)
    blue, _ = evaluate(a, below, ALL, **values, dispersed_tint=(0, 0, 3))
    np.testing.assert_allclose(blue, all_colors * [0, 0, 3], rtol=1e-5)
    above: NDArray[np.float64] = below * [1, 1, -1]
    np.testing.assert_array_equal(evaluate(a, above, ALL, **values)[0], evaluate(a, above, ALL, **values, dispersed_tint=(0, 0, 3))[0])
    assert (dot(a, a) > 0.99).all()
