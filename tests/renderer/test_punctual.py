"""Lights without a surface light what they should, as strongly as physics says, and throw shadows."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from renderer.scene.default_sky import SKY
from renderer.scene.importers import load
from renderer.scene.model import Light, Orthographic, Scene
from renderer.scene.punctual_tables import punctual_rows
from renderer.scene.upload import upload
from tests.renderer.helpers.pictures import render
from tests.renderer.helpers.worlds import grey, look_at, quad, scene_of

MODEL = Path(__file__).parents[2].parent / "shared/data/models/DirectionalLight/DirectionalLight.glb"
ALBEDO = np.array([0.8, 0.5, 0.2])
SPOT = {"inner_cone": 0.2, "outer_cone": 0.7}


def light(kind: Any, place: Any = (0, 0, 0), towards: Any = (0, -1, 0), **values: Any) -> Light:
    """A light at a place that shines in a direction."""
    shines = np.asarray(towards, float) / np.linalg.norm(towards)
    return Light("lamp", kind, look_at(place, np.asarray(place, float) + shines).world, 0, **values)


def floor(*lights: Light, above: Any = (), at: Any = (0.0, 0.0)) -> Scene:
    """A floor with lights; the camera looks straight down on one point of it, from low enough to be under what is `above`."""
    camera = look_at((at[0], 0.05, at[1]), (at[0], 0, at[1]), Orthographic(1e-3, 1e-3))
    ground = (quad([-50, 0, -50], [0, 0, 100], [100, 0, 0]), grey(tuple(ALBEDO)))
    return replace(scene_of(ground, *((part, grey(0.0)) for part in above), camera=camera), lights=list(lights))


def seen(scene: Scene, **options: Any) -> Any:
    """The mean colour, which of a single light has no noise."""
    return render(scene, (8, 8), depth=2, **options).mean.reshape(-1, 3).astype(float).mean(0)


@pytest.mark.parametrize("options", [{"form": "packet"}, {"form": "serial"}, {"form": "lone"}, {"backend": "reference"}], ids=str)
@pytest.mark.parametrize("at", [(0.0, 0.0), (1.5, -2.0)])
def test_a_point_light_sends_its_intensity_by_the_square_of_the_distance_and_the_cosine(at: Any, options: Any) -> None:
    lamp = light("point", (0, 2, 0), (1, 2, 3), color=(1.0, 0.5, 0.25), intensity=30.0)
    squared = 4 + at[0] ** 2 + at[1] ** 2
    irradiance = 30.0 * np.array([1.0, 0.5, 0.25]) * (2 / math.sqrt(squared)) / squared
    np.testing.assert_allclose(seen(floor(lamp, at=at), **options), ALBEDO / math.pi * irradiance, rtol=2e-3)


@pytest.mark.parametrize("tilt", [0.0, 0.5, 1.2])
def test_a_directional_light_arrives_in_lux_wherever_it_stands(tilt: float) -> None:
    lamp = light("directional", (7, -3, 9), (math.sin(tilt), -math.cos(tilt), 0), intensity=5.0)
    np.testing.assert_allclose(seen(floor(lamp, at=(3.0, 1.0))), ALBEDO / math.pi * 5.0 * math.cos(tilt), rtol=1e-4)


@pytest.mark.parametrize("angle", [0.0, 0.1, 0.3, 0.5, 0.69, 0.75])
def test_a_spot_fades_between_its_cones_as_the_extension_says(angle: float) -> None:
    lamp = light("spot", (0, 2, 0), intensity=10.0, **SPOT)
    inner, outer = math.cos(SPOT["inner_cone"]), math.cos(SPOT["outer_cone"])
    fading = min(max((math.cos(angle) - outer) / (inner - outer), 0.0), 1.0) ** 2
    wanted = ALBEDO / math.pi * 10.0 * fading * math.cos(angle) ** 3 / 4
    np.testing.assert_allclose(seen(floor(lamp, at=(2 * math.tan(angle), 0.0))), wanted, rtol=5e-3)


@pytest.mark.parametrize("reach", [2.5, 4.0, 1.9])
def test_a_range_is_the_window_that_the_extension_recommends(reach: float) -> None:
    lamp = light("point", (0, 2, 0), intensity=10.0, range=reach)
    window = max(1 - (2 / reach) ** 4, 0.0)
    np.testing.assert_allclose(seen(floor(lamp)), ALBEDO / math.pi * 10.0 / 4 * window, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("kind", ["point", "spot", "directional"])
def test_what_stands_between_throws_a_shadow_and_what_stands_behind_none(kind: Any) -> None:
    lamp = light(kind, (0, 2, 0), intensity=10.0)
    bare = seen(floor(lamp))
    assert (bare > 0.1).all()
    between, behind = (quad([-1, y, -1], [2, 0, 0], [0, 0, 2]) for y in (1.0, 3.0))
    assert not seen(floor(lamp, above=[between])).any()
    if kind != "directional":  # which comes from beyond everything
        np.testing.assert_allclose(seen(floor(lamp, above=[behind])), bare, rtol=1e-6)


def test_a_light_below_the_floor_does_not_shine_through_it() -> None:
    assert not seen(floor(light("point", (0, -2, 0), intensity=10.0))).any()
    assert not seen(floor(light("directional", towards=(0, 1, 0), intensity=10.0))).any()


def test_of_several_lights_each_adds_its_own() -> None:
    lamps = [
        light("point", (0, 2, 0), intensity=9.0, color=(1.0, 0.2, 0.1)), light("spot", (1, 3, 0), (-1, -3, 0), intensity=40.0, **SPOT),
        light("directional", towards=(1, -1, 1), intensity=2.0), light("point", (-9, 1, 9), intensity=0.5),
    ]  # fmt: skip
    wanted = sum(seen(floor(lamp)) for lamp in lamps)
    picture = render(floor(*lamps), (32, 32), frames=32, depth=2)
    pixels = picture.mean.reshape(-1, 3).astype(float)
    error = np.sqrt((picture.deviation.reshape(-1, 3) ** 2).sum(0)) / len(pixels)
    assert (np.abs(pixels.mean(0) - wanted) < 4.5 * error).all() and (error < 0.02 * wanted).all()


def test_lights_are_chosen_half_by_their_power() -> None:
    """In a scene of radius 2: 4 pi, 2 pi (1 - cos(pi / 3)) and 4 pi W for one unit each; what sends out nothing is not there."""
    kinds = [light("point"), light("spot", outer_cone=math.pi / 3), light("directional"), light("point", intensity=0.0)]
    rows, power = punctual_rows(kinds, 2.0)
    np.testing.assert_allclose(rows[:, 15], 0.5 * np.array([4, 1, 4]) / 9 + 0.5 / 3, rtol=1e-5)
    assert power == pytest.approx(9 * math.pi)


def test_a_scene_with_a_light_has_no_sky_and_one_whose_light_is_out_has() -> None:
    assert upload(floor(light("point", (0, 2, 0))), group=16).data.sky is None
    dark = upload(floor(light("point", (0, 2, 0), intensity=0.0)), group=16).data
    assert dark.punctual is None
    np.testing.assert_array_equal(dark.sky, np.array(SKY, np.float32))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_no_ray_meets_a_light_without_a_surface(depth: int) -> None:
    """A camera in the open that looks at a point light and at where a beam comes from sees nothing."""
    scene = floor(light("point", (0, 2, 0), intensity=1e4), light("directional", intensity=1e4))
    scene.cameras = [look_at((0, 1, 0), (0, 3, 0.001))]
    assert not render(scene, (8, 8), depth=depth).mean.any()


@pytest.mark.skipif(not MODEL.is_file(), reason="../shared/data is not there")
def test_the_spheres_of_the_directional_light_model_are_lit() -> None:
    scene = load(MODEL)
    assert scene.lights and "KHR_lights_punctual" not in scene.undrawn
    picture = render(scene, (48, 36), frames=4).mean
    assert np.isfinite(picture).all() and 0.02 < (picture.sum(-1) > 0.01).mean() < 0.9
