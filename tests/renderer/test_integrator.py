"""Light as it is: furnaces stay as bright as theory says, lamps light by their form factors, and nothing depends on how it is computed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine import Tensor
from renderer.scene.default_sky import SKY
from renderer.scene.gltf import load
from renderer.scene.model import Environment, Orthographic, Scene
from renderer.scene.upload import Uploaded
from tests.renderer.helpers.pictures import Rendered, render, uploaded
from tests.renderer.helpers.worlds import cube_grid, grey, icosphere, look_at, quad, scene_of, transformed

FORMS = ["packet", "serial"]
DARK = Environment((0.0, 0.0, 0.0))


def near(got: float, want: float, error: float, sigmas: float = 4.5) -> None:
    """A mean of samples against what it should be."""
    assert abs(got - want) < sigmas * error + 1e-5 * abs(want), f"{got} is not {want} within {sigmas} x {error}"


def mean_of(picture: Rendered) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean colour of a picture and its standard error (pixels are independent)."""
    pixels = picture.mean.reshape(-1, 3).astype(np.float64)
    error = np.sqrt((picture.deviation.reshape(-1, 3) ** 2).sum(0)) / len(pixels)
    return pixels.mean(0), error


# ---- furnaces ----


def furnace(albedo: Any, emission: Any, shape: str = "sphere") -> Scene:
    """A closed room whose walls all shine; the camera stands inside, off the centre."""
    walls = icosphere(2, inward=True) if shape == "sphere" else cube_grid(2)[:, ::-1]
    return scene_of((np.ascontiguousarray(walls), grey(albedo, emission)), camera=look_at((0.2, 0.1, 0.3), (0, 0.5, -1), 1.2))


@pytest.mark.parametrize("depth", [1, 2, 3, 6])
@pytest.mark.parametrize("shape", ["sphere", "cube"])
def test_a_room_of_shining_walls_is_as_bright_as_its_series_says(depth: int, shape: str) -> None:
    """Radiance E (1 + a + a^2 + ... ) up to the depth, in every direction."""
    albedo, emission = np.array([0.8, 0.5, 0.0]), np.array([1.0, 2.0, 0.5])
    picture = render(furnace(albedo, emission, shape), (32, 32), frames=24, depth=depth)
    mean, error = mean_of(picture)
    for k in range(3):
        near(mean[k], emission[k] * sum(albedo[k] ** i for i in range(depth)), error[k])
    assert (error < 0.01 * mean).all()
    assert picture.refused == 0


@pytest.mark.parametrize("depth", [1, 2, 12])
def test_a_white_furnace_grows_by_its_emission_with_each_bounce(depth: int) -> None:
    mean, error = mean_of(render(furnace(1.0, 0.25), (32, 32), frames=24, depth=depth))
    near(mean[0], 0.25 * depth, error[0])


@pytest.mark.parametrize("form", FORMS)
def test_a_ball_under_the_sky_reflects_its_albedo_of_it_exactly(form: str) -> None:
    """Nothing else is met by what leaves a convex body: each sample is sky or albedo times sky, no noise at all."""
    albedo = (0.8, 0.5, 0.25)
    scene = scene_of((icosphere(3), grey(albedo)), camera=look_at((0, 0, 5), (0, 0, 0), 0.6))
    picture = render(scene, (24, 24), depth=4, form=form).mean
    want = np.array(SKY) * albedo
    inside = picture[8:16, 8:16].reshape(-1, 3)
    np.testing.assert_allclose(inside, np.broadcast_to(want, inside.shape), rtol=1e-5)
    np.testing.assert_allclose(picture[0, 0], SKY, rtol=1e-6)


def test_a_white_ball_under_the_sky_cannot_be_seen() -> None:
    picture = render(scene_of((icosphere(3), grey(1.0)), camera=look_at((0, 0, 5), (0, 0, 0), 0.6)), (24, 24), depth=4).mean
    np.testing.assert_allclose(picture, np.broadcast_to(SKY, picture.shape), rtol=1e-5)


def test_white_walls_under_the_sky_give_no_more_light_than_the_sky() -> None:
    """A corner of white walls: what is cut off by the depth is missing, never the other way round."""
    walls = np.concatenate(
        [quad([0, 0, 0], [0, 0, 2], [2, 0, 0]), quad([0, 0, 0], [2, 0, 0], [0, 2, 0]), quad([0, 0, 0], [0, 2, 0], [0, 0, 2])]
    )
    scene = scene_of((walls, grey(1.0)), camera=look_at((4, 4, 4), (0.6, 0.6, 0.6), 0.4))
    before = np.zeros(3)
    for depth in (2, 3, 5, 10):
        mean, error = mean_of(render(scene, (24, 24), frames=16, depth=depth))
        assert (mean <= np.array(SKY) * (1 + 1e-6) + 4 * error).all()
        assert (mean >= before - 4 * error).all()
        before = mean
    assert (before > 0.97 * np.array(SKY)).all()


def test_depth_one_shows_what_shines_and_nothing_else() -> None:
    lamp = quad([-1, -1, 0], [2, 0, 0], [0, 2, 0])
    wall = quad([-4, -4, -1], [8, 0, 0], [0, 8, 0])
    picture = render(scene_of((lamp, grey(0.5, 3.0)), (wall, grey(0.9)), camera=look_at((0, 0, 4), (0, 0, 0), 0.2)), (16, 16), depth=1).mean
    np.testing.assert_array_equal(picture, np.full_like(picture, 3.0))


# ---- direct light ----


def floor_under_lamp(lamp: NDArray[np.float32], emission: float = 5.0, two_sided: bool = False) -> Scene:
    """A floor of albedo (0.8, 0.5, 0.2) at y = 0 with a lamp above; the camera looks straight down on (0, 0, 0) from below the lamp."""
    floor = quad([-20, 0, -20], [0, 0, 40], [40, 0, 0])
    camera = look_at((0, 0.5, 0), (0, 0, 0), Orthographic(0.002, 0.002))
    return scene_of((floor, grey((0.8, 0.5, 0.2))), (lamp, grey(0.0, emission, two_sided)), camera=camera)


def form_factor(lamp: NDArray[np.float32], n: int = 400) -> float:
    """Of a differential element at the origin, facing up, by quadrature over a parallelogram of two triangles."""
    o, a, b = lamp[0, 0].astype(float), lamp[0, 1].astype(float) - lamp[0, 0], lamp[1, 2].astype(float) - lamp[1, 0]
    s = (np.arange(n) + 0.5) / n
    points = o + s[:, None, None] * a + s[None, :, None] * b
    normal = np.cross(a, b)
    squared = (points**2).sum(-1)
    return float((points[..., 1] * np.abs(points @ normal) / squared**2).mean() / math.pi)


LAMPS = {
    "overhead": quad([-1, 1, -1], [2, 0, 0], [0, 0, 2]),
    "small": quad([0.3, 2, 0.1], [0.1, 0, 0], [0, 0, 0.1]),
    "close and wide": quad([-5, 0.6, -5], [10, 0, 0], [0, 0, 10]),
    "aslant": quad([1, 0.5, -1], [0, 0, 2], [0.4, 1.2, 0]),
}


def test_the_form_factor_of_a_square_overhead_is_the_textbooks() -> None:
    """Parallel square of half side a at height h: 4 times the corner's formula (Howell, A Catalog of Radiation Heat Transfer, B-3)."""
    a = 1.0
    corner = 2 * a / math.sqrt(1 + a * a) * math.atan(a / math.sqrt(1 + a * a)) / (2 * math.pi)
    assert abs(form_factor(LAMPS["overhead"]) - 4 * corner) < 1e-4


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", list(LAMPS))
def test_a_lamp_lights_a_floor_by_its_form_factor(name: str, form: str) -> None:
    lamp = LAMPS[name]
    scene = replace(floor_under_lamp(lamp), environment=DARK)
    mean, error = mean_of(render(scene, (32, 32), frames=32, depth=2, form=form))
    want = 5.0 * form_factor(lamp)
    for k, albedo in enumerate((0.8, 0.5, 0.2)):
        near(mean[k], albedo * want, error[k])
    assert error[0] < 0.005 * mean[0]


def test_a_lamp_shines_from_its_front_only_unless_it_is_double_sided() -> None:
    up = LAMPS["overhead"][:, ::-1].copy()  # its front away from the floor
    assert not render(replace(floor_under_lamp(up), environment=DARK), (8, 8), frames=4, depth=6).mean.any()
    mean, error = mean_of(render(floor_under_lamp(up, two_sided=True), (32, 32), frames=32, depth=2))
    near(mean[0], 0.8 * 5 * form_factor(LAMPS["overhead"]), error[0])


def test_a_lamp_seen_from_behind_is_dark() -> None:
    lamp = quad([-1, -1, 0], [2, 0, 0], [0, 2, 0])
    for eye, two_sided, want in (((0, 0, 3), False, 2.0), ((0, 0, -3), False, 0.0), ((0, 0, -3), True, 2.0)):
        picture = render(scene_of((lamp, grey(0.0, 2.0, two_sided)), camera=look_at(eye, (0, 0, 0), 0.2)), (4, 4)).mean
        np.testing.assert_array_equal(picture, np.full_like(picture, want))


def test_what_stands_between_throws_a_shadow() -> None:
    """A board over half of the lamp, close to it, takes half of its light."""
    lamp = LAMPS["overhead"]
    board = quad([-1.5, 0.999, -1.5], [1.5, 0, 0], [0, 0, 3])
    scene = floor_under_lamp(lamp)
    covered = scene_of(
        (scene.triangles().positions[:2], scene.materials[0]), (lamp, scene.materials[1]), (board, grey(0.0)), camera=scene.cameras[0]
    )
    mean, error = mean_of(render(covered, (32, 32), frames=16, depth=2))
    near(mean[0], 0.8 * 5 * form_factor(lamp) / 2, error[0], 6)


def test_many_lamps_light_like_one() -> None:
    """A lamp cut into 64 with emissions that average to the same, seen from afar."""
    random = np.random.default_rng(3)
    pieces = [quad([-1 + 0.25 * i, 1, -1 + 0.25 * j], [0.25, 0, 0], [0, 0, 0.25]) for i in range(8) for j in range(8)]
    emission = random.uniform(0, 10, 64)
    floor = quad([-20, 0, -20], [0, 0, 40], [40, 0, 0])
    want = sum(0.5 * e * form_factor(p, 40) for e, p in zip(emission, pieces))
    parts = [(p, grey(0.0, float(e))) for p, e in zip(pieces, emission)]
    camera = look_at((0, 0.5, 0), (0, 0, 0), Orthographic(0.002, 0.002))
    mean, error = mean_of(render(scene_of((floor, grey(0.5)), *parts, camera=camera), (32, 32), frames=32, depth=2))
    near(mean[0], want, error[0])


def test_a_triangle_without_area_in_a_lamp_changes_nothing() -> None:
    """C33."""
    lamp = LAMPS["overhead"]
    flat = np.array([[lamp[0, 0], lamp[0, 1], lamp[0, 0]]], np.float32)
    spoilt = render(floor_under_lamp(np.concatenate([lamp, flat])), (16, 16), frames=4, depth=3)
    clean = render(floor_under_lamp(lamp), (16, 16), frames=4, depth=3)
    assert spoilt.refused == 0
    np.testing.assert_array_equal(spoilt.mean, clean.mean)


def test_roulette_neither_adds_nor_takes_light() -> None:
    """Twelve segments, of which roulette may end a path from the fifth on: the series' sum all the same."""
    albedo = 0.7
    mean, error = mean_of(render(furnace(albedo, 1.0), (48, 48), frames=32, depth=12))
    near(mean[0], (1 - albedo**12) / (1 - albedo), error[0])
    assert error[0] < 0.002 * mean[0]


def test_roulette_ends_dark_paths() -> None:
    dark, light = (render(furnace(a, 1.0), (16, 16), depth=30, count=True).rays for a in (0.2, 0.95))
    assert dark is not None and light is not None
    assert dark[1] < 16 * 16 * 5 < light[1]


# ---- places and sizes (C35) ----


def speckles(picture: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Pixels darker than a quarter of the median of their 3 x 3 neighbours."""
    luminance = picture.astype(np.float64) @ [0.2126, 0.7152, 0.0722]
    h, w = luminance.shape
    around = np.stack([luminance[i : h - 2 + i, j : w - 2 + j] for i in range(3) for j in range(3)])
    return np.asarray(luminance[1:-1, 1:-1] < 0.25 * np.median(around, 0))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("scale", "shift"), [(1e-3, 0.0), (1e3, 0.0), (1.0, 1e4)])
def test_a_room_looks_the_same_at_any_size_and_place(cornell: Any, scale: float, shift: float, form: str) -> None:
    room = load(cornell)
    here = render(room, (48, 48), frames=160, form=form)
    there = render(transformed(room, scale, (shift, 0, 0)), (48, 48), frames=160, form=form)
    assert there.refused == 0
    luminance = [float(p.mean.mean((0, 1)) @ [0.2126, 0.7152, 0.0722]) for p in (here, there)]
    assert abs(luminance[1] / luminance[0] - 1) < 0.01
    assert not (speckles(there.mean) & ~speckles(here.mean)).any()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("tilt", [0.0, 0.3])
def test_a_large_floor_has_no_speckle_near_the_camera(form: str, tilt: float) -> None:
    """A plane of 2 km, level or tilted, under the sky: a convex thing, so every pixel that sees it has exactly its albedo."""
    c, s = math.cos(tilt), math.sin(tilt)
    floor = quad([-1000 * c + 0.37, -1000 * s, -1000], [0, 0, 2000], [2000 * c, 2000 * s, 0])
    scene = scene_of((floor, grey(0.5)), camera=look_at((0.5, 1.5, 2), (0, 0, 0), 0.5))
    picture = render(scene, (64, 64), frames=4, depth=3, form=form).mean
    want = np.broadcast_to(0.5 * np.array(SKY), picture.shape)
    wrong = (np.abs(picture - want) > 1e-4).any(-1)
    assert wrong.mean() < 0.001


@pytest.mark.parametrize("form", FORMS)
def test_a_shell_a_hair_above_a_lamp_hides_all_of_its_light(form: str) -> None:
    """Radii 1 and 1.00004: nothing of the lamp is seen, and nothing lights the shell from within."""
    inner, outer = icosphere(4), icosphere(4, 1.00004)
    scene = scene_of((inner, grey(0.0, (1, 0, 0))), (outer, grey(0.9)), camera=look_at((0, 0, 5), (0, 0, 0), 0.6))
    scene.environment = DARK
    assert not render(scene, (24, 24), frames=8, depth=3, form=form).mean.any()


@pytest.mark.parametrize("form", FORMS)
def test_a_lamp_a_hair_above_a_ball_lights_all_of_it(form: str) -> None:
    """The same the other way round, from within: the gap is there for every ray that leaves the ball."""
    inner, outer = icosphere(4), icosphere(4, 1.0004, inward=True)
    camera = look_at(inner[100].mean(0) * 1.0002, (0, 0, 0), Orthographic(0.005, 0.005))  # in the gap, before the middle of a face
    picture = render(scene_of((inner, grey(0.5)), (outer, grey(0.0, 1.0)), camera=camera), (24, 24), frames=64, depth=2, form=form)
    mean, error = mean_of(picture)
    near(mean[0], 0.5, error[0])
    assert (picture.mean > 0.2).all()  # no pixel is in the dark


# ---- what is not finite ----


def spoilt(scene: Scene, value: float) -> Uploaded:
    """The scene with an emission in its tables that is not a number."""
    held = uploaded(scene)
    table = held.data.material.numpy().copy()
    shining = table[:, 4:7].any(1)
    table[shining, 4] = value
    return replace(held, data=replace(held.data, material=Tensor(table)))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_samples_that_are_not_finite_are_refused_and_counted(value: float) -> None:
    """Paths that meet the spoilt lamp are left out, and only these."""
    scene = furnace(0.5, 1.0)
    picture = render(scene, (16, 16), frames=3, depth=2, data=spoilt(scene, value))
    assert picture.refused == 16 * 16 * 3
    assert not picture.mean.any()
    lamp = floor_under_lamp(LAMPS["overhead"])
    seen = render(lamp, (16, 16), frames=3, depth=3, data=spoilt(lamp, value))
    assert np.isfinite(seen.mean).all()
    assert 0 < seen.refused < 16 * 16 * 3
    assert seen.mean.any()


# ---- however it is computed ----


def equal(a: Rendered, b: Rendered) -> bool:
    return np.array_equal(a.mean, b.mean) and np.array_equal(a.rgba, b.rgba) and a.refused == b.refused


@pytest.mark.parametrize("size", [(1, 1), (3, 50), (61, 43), (64, 64)])
@pytest.mark.parametrize("form", FORMS)
def test_the_picture_does_not_depend_on_threads_or_workgroups(cornell: Any, size: tuple[int, int], form: str) -> None:
    room = load(cornell)
    one = render(room, size, form=form)
    for threads, workgroup in ((2, None), (3, None), (1, 256), (2, 512), (1, 48), (2, 1)):
        assert equal(render(room, size, form=form, threads=threads, workgroup=workgroup), one), (threads, workgroup)


@pytest.mark.parametrize("size", [(1, 1), (119, 67), (5, 300)])
def test_no_pixel_is_missing_at_the_edges_of_odd_sizes(size: tuple[int, int]) -> None:
    picture = render(furnace(0.5, 1.0), size, depth=1)
    np.testing.assert_array_equal(picture.mean, np.ones_like(picture.mean))
    assert (picture.rgba == picture.rgba[0, 0]).all() and picture.rgba[0, 0, 3] == 255


@pytest.mark.parametrize("form", FORMS)
def test_all_group_widths_draw_the_same_picture(cornell: Any, form: str) -> None:
    room = load(cornell)
    pictures = [render(room, (48, 48), frames=4, form=form, group=g).mean for g in (16, 8, 4)]
    for other in pictures[1:]:
        same = np.abs(other - pictures[0]).max(-1) <= 1e-3 * (1 + pictures[0].max(-1))
        assert same.mean() > 0.98


@pytest.mark.parametrize("form", FORMS)
def test_the_interpreter_draws_the_same_picture(cornell: Any, form: str) -> None:
    room = load(cornell)
    ours, oracle = (render(room, (32, 32), spp=4, depth=3, seed=5, form=form, backend=b).mean for b in ("cpu", "reference"))
    same = np.abs(ours - oracle).max(-1) <= 1e-3 * (1 + oracle.max(-1))
    assert same.mean() > 0.98


def test_packets_and_single_rays_draw_the_same_picture(cornell: Any) -> None:
    room = load(cornell)
    packet, serial = (render(room, (48, 48), frames=4, form=f).mean for f in FORMS)
    same = np.abs(packet - serial).max(-1) <= 1e-3 * (1 + packet.max(-1))
    assert same.mean() > 0.97


# ---- samples, seeds, rays ----


def test_frames_of_one_sample_are_one_frame_of_many(cornell: Any) -> None:
    """The samples of a pixel are numbered through: how they are dealt out to frames changes only the order of the sum."""
    room = load(cornell)
    once, often = render(room, (32, 32), frames=1, spp=8), render(room, (32, 32), frames=8, spp=1)
    np.testing.assert_allclose(once.mean, often.mean, rtol=1e-4, atol=1e-6)
    two = render(room, (32, 32), frames=2, spp=4)
    np.testing.assert_allclose(once.mean, two.mean, rtol=1e-4, atol=1e-6)


def test_another_seed_is_another_picture_of_the_same_thing(cornell: Any) -> None:
    room = load(cornell)
    a, b = render(room, (32, 32), frames=16), render(room, (32, 32), frames=16, seed=1)
    assert (a.mean != b.mean).any(-1).mean() > 0.95
    error = np.hypot(mean_of(a)[1], mean_of(b)[1])
    assert (np.abs(mean_of(a)[0] - mean_of(b)[0]) < 4.5 * error).all()
    assert equal(a, render(room, (32, 32), frames=16))


def test_rays_are_counted_where_they_are_shot() -> None:
    """On the floor under a lamp each path shoots one shadow ray; it follows its scattered ray, which as the last segment is traced only
    where the lamp is in its way."""
    paths = 16 * 16 * 2
    shadow, scattered = render(floor_under_lamp(LAMPS["overhead"]), (16, 16), depth=2, spp=2, count=True).rays
    assert shadow == paths and 0 < scattered < paths
    shadow, further = render(floor_under_lamp(LAMPS["overhead"]), (16, 16), depth=3, spp=2, count=True).rays
    assert shadow >= paths and further >= paths
    assert render(floor_under_lamp(LAMPS["overhead"]), (16, 16), depth=1, count=True).rays == (0, 0)
