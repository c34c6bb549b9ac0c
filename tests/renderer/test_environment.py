"""What surrounds a scene lights it, alone or beside lamps, and its light is counted once."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from renderer.scene.default_sky import SKY
from renderer.scene.model import Environment, Orthographic, Scene
from renderer.scene.upload import upload
from tests.renderer.helpers.pictures import Rendered, render
from tests.renderer.helpers.worlds import Triangles, grey, icosphere, look_at, quad, scene_of

FORMS = ["packet", "serial"]


def under(sky: Any, scene: Scene, strength: float = 1.0) -> Scene:
    return replace(scene, environment=Environment(tuple(np.broadcast_to(np.asarray(sky, float), 3).tolist()), strength))


def mean_of(picture: Rendered) -> tuple[Any, Any]:
    """Mean colour and its standard error."""
    pixels = picture.mean.reshape(-1, 3).astype(np.float64)
    return pixels.mean(0), np.sqrt((picture.deviation.reshape(-1, 3) ** 2).sum(0)) / len(pixels)


def near(got: Any, want: Any, error: Any) -> None:
    assert (np.abs(got - want) < 4.5 * error + 1e-5 * np.abs(want)).all(), f"{got} is not {want} within 4.5 x {error}"


def ball(albedo: Any, emission: Any = 0.0) -> Scene:
    return scene_of((icosphere(3), grey(albedo, emission)), camera=look_at((0, 0, 5), (0, 0, 0), 0.6))


def cover(lamp: Triangles) -> float:
    """The form factor of a parallelogram of two triangles, seen by an element at the origin that faces up."""
    o, a, b = lamp[0, 0].astype(float), lamp[0, 1].astype(float) - lamp[0, 0], lamp[1, 2].astype(float) - lamp[1, 0]
    s = (np.arange(400) + 0.5) / 400
    points = o + s[:, None, None] * a + s[None, :, None] * b
    return float((points[..., 1] * np.abs(points @ np.cross(a, b)) / (points**2).sum(-1) ** 2).mean() / math.pi)


@pytest.mark.parametrize("form", FORMS)
def test_a_ball_reflects_its_albedo_of_what_surrounds_it(form: str) -> None:
    picture = render(under((2.0, 1.0, 0.25), ball((0.8, 0.5, 0.25)), 1.5), (24, 24), form=form).mean
    inside = picture[8:16, 8:16].reshape(-1, 3)
    np.testing.assert_allclose(inside, np.broadcast_to((2.4, 0.75, 0.09375), inside.shape), rtol=1e-5)
    np.testing.assert_allclose(picture[0, 0], (3.0, 1.5, 0.375), rtol=1e-6)


@pytest.mark.parametrize("depth", [1, 2, 3, 6])
@pytest.mark.parametrize("form", FORMS)
def test_a_shining_ball_in_a_shining_world_cannot_be_seen_where_both_are_alike(form: str, depth: int) -> None:
    """Emission 0.4 and albedo 0.6 of a world of 1: each point of the ball sends 0.4 + 0.6, at every depth from 2 on."""
    picture = render(under(1.0, ball(0.6, 0.4)), (24, 24), depth=depth, form=form).mean
    inside = picture[8:16, 8:16]
    np.testing.assert_allclose(inside, np.full_like(inside, 0.4 if depth == 1 else 1.0), rtol=1e-5)
    np.testing.assert_allclose(picture[0], np.ones_like(picture[0]), rtol=1e-6)


LAMPS = {"overhead": quad([-1, 1, -1], [2, 0, 0], [0, 0, 2]), "close and wide": quad([-5, 0.6, -5], [10, 0, 0], [0, 0, 10])}
TURNED = quad([-1, 1, -1], [0, 0, 2], [2, 0, 0])  # "overhead", shining upwards, away from the floor


def floor_under(lamp: Triangles, emission: float, many: bool = False) -> Scene:
    """A floor under a lamp, which is cut into many where wanted: the camera looks down on the point below its middle."""
    parts = [lamp]
    if many:
        o, a, b = lamp[0, 0], lamp[0, 1] - lamp[0, 0], lamp[1, 2] - lamp[1, 0]
        parts = [quad(o + a * i / 5 + b * j / 5, a / 5, b / 5) for i in range(5) for j in range(5)]
    camera = look_at((0, 0.5, 0), (0, 0, 0), Orthographic(0.002, 0.002))
    floor = quad([-200, 0, -200], [0, 0, 400], [400, 0, 0])
    return scene_of((floor, grey((0.8, 0.5, 0.2))), *((p, grey(0.0, emission)) for p in parts), camera=camera)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", list(LAMPS))
def test_a_lamp_takes_from_the_sky_what_it_covers_and_adds_its_own(name: str, form: str, many: bool) -> None:
    """Radiance of the floor: albedo times (lamp x form factor + sky x the rest). Few lamps are sought by the last segment, many are not."""
    sky, share = np.array([0.5, 1.0, 2.0]), cover(LAMPS[name])
    scene = under(sky, floor_under(LAMPS[name], 5.0, many))
    lights = upload(scene, group=16).data.lights
    assert lights is not None and lights.few != many
    mean, error = mean_of(render(scene, (32, 32), frames=32, depth=2, form=form))
    near(mean, np.array([0.8, 0.5, 0.2]) * (5.0 * share + sky * (1 - share)), error)
    assert (error < 0.01 * mean).all()


@pytest.mark.parametrize("many", [False, True])
def test_a_lamp_seen_from_behind_hides_the_sky(many: bool) -> None:
    mean, error = mean_of(render(under(1.0, floor_under(TURNED, 5.0, many)), (32, 32), frames=32, depth=2))
    near(mean, np.array([0.8, 0.5, 0.2]) * (1 - cover(LAMPS["overhead"])), error)


@pytest.mark.parametrize("depth", [2, 3, 8])
def test_few_lamps_and_many_give_the_same_light_under_a_sky(depth: int) -> None:
    few, many = (render(under(0.7, floor_under(LAMPS["close and wide"], 2.0, m)), (32, 32), frames=32, depth=depth) for m in (False, True))
    (a, da), (b, db) = mean_of(few), mean_of(many)
    near(a, b, np.hypot(da, db))


def test_a_closed_room_sees_no_sky() -> None:
    """A furnace of shining walls, whatever is outside."""
    room = scene_of((icosphere(2, inward=True), grey(0.5, 1.0)), camera=look_at((0.2, 0.1, 0.3), (0, 0.5, -1), 1.2))
    inside, outside = (render(s, (16, 16), frames=4, depth=4) for s in (room, under(1e6, room)))
    np.testing.assert_array_equal(inside.mean, outside.mean)


def test_without_surroundings_a_scene_without_lamps_has_a_neutral_sky_and_one_with_lamps_has_none() -> None:
    assert upload(ball(0.5, 1.0), group=16).data.sky is None
    np.testing.assert_array_equal(upload(ball(0.5), group=16).data.sky, np.array(SKY, np.float32))
    np.testing.assert_array_equal(upload(under(0.0, ball(0.5)), group=16).data.sky, np.zeros(3, np.float32))
