"""A picture of the surroundings lights a scene as numerical integration says, whichever way its light is found."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine import Tensor, jit
from renderer.sampling.rng import Rng
from renderer.scene.environment_tables import MOST_TEXELS, environment_tables, halved, solid_angles
from renderer.scene.light_tables import lights_beyond
from renderer.scene.model import Environment, Light, Material, Orthographic, Scene
from renderer.scene.model_material import Transmission
from renderer.scene.parts import parts_of
from renderer.scene.upload import upload
from renderer.shading.environment import EnvironmentMap
from renderer.vec import Vec3
from tests.renderer.helpers.chance import chi_square
from tests.renderer.helpers.pictures import Rendered, render
from tests.renderer.helpers.tracing import device
from tests.renderer.helpers.worlds import grey, icosphere, look_at, quad, scene_of

Floats = NDArray[Any]
FORMS: list[Any] = [{"form": "packet"}, {"form": "serial"}, {"form": "lone"}]
TWO = np.array([[[4.0, 2.0, 1.0], [0.5, 1.0, 2.0]]], np.float32)  # two texels: one half of the world and the other
SUN = np.full((32, 64, 3), 0.01, np.float32)
SUN[9, 40] = 5e4


def noise(height: int, width: int) -> Floats:
    """A picture of great contrast, with black in it."""
    random = np.random.default_rng(height * width)
    colour = np.exp(random.uniform(-4, 4, (height, width, 3)))
    colour[random.uniform(size=(height, width)) < 0.3] = 0.0
    return colour.astype(np.float32)


def looked_up(picture: Floats, directions: Floats, turn: float = 0.0) -> Floats:
    """What unit vectors see, by the definition of the map: float64[n, 3]."""
    height, width = picture.shape[:2]
    x, y, z = directions.T.astype(float)
    u = ((np.arctan2(z, x) / (2 * math.pi) + 0.5 + turn / 360) % 1) * width - 0.5
    v = np.arccos(np.clip(y, -1, 1)) / math.pi * height - 0.5
    x0, y0 = np.floor(u).astype(int), np.floor(v).astype(int)
    a, b = (u - x0)[:, None], (v - y0)[:, None]

    def texel(x: Any, y: Any) -> Any:
        return picture[np.clip(y, 0, height - 1), x % width].astype(float)

    upper = texel(x0, y0) * (1 - a) + texel(x0 + 1, y0) * a
    return np.asarray(upper * (1 - b) + (texel(x0, y0 + 1) * (1 - a) + texel(x0 + 1, y0 + 1) * a) * b)


def reflected(picture: Floats, normal: Any, turn: float = 0.0) -> Floats:
    """Irradiance / pi of a surface under the picture, by a sum over directions: float64[3]."""
    cosines = 1 - (np.arange(800) + 0.5) / 400
    around = (np.arange(1600) + 0.5) * (2 * math.pi / 1600)
    y, phi = (a.ravel() for a in np.meshgrid(cosines, around))
    sine = np.sqrt(1 - y * y)
    directions = np.stack([sine * np.cos(phi), y, sine * np.sin(phi)], 1)
    facing = np.maximum(directions @ np.asarray(normal, float), 0.0)
    return np.asarray((looked_up(picture, directions, turn) * facing[:, None]).mean(0) * 4)


def map_of(picture: Floats, turn: float = 0.0) -> EnvironmentMap:
    scene = replace(scene_of((quad([0, 0, 0], [1, 0, 0], [0, 1, 0]), grey(0.5))), environment=Environment(image=picture, turn=turn))
    found = lights_beyond(scene, parts_of(scene).bounds(), 0.0, lambda name, array: Tensor(array, dims=(name,))).environment
    assert found is not None
    return found


def drawn(picture: Floats, count: int = 1 << 17, backend: str = "cpu", turn: float = 0.0) -> tuple[Floats, Floats, Floats]:
    """Directions, their radiance and their density, of as many samples."""

    def draw(around: EnvironmentMap, lane: Tensor) -> Any:
        return around.sample(Rng.start(lane, 0, 1))[0]

    found = jit(draw, device=device(backend))(map_of(picture, turn), Tensor(np.arange(count, dtype=np.uint32)))
    direction, radiance = (np.stack([c.numpy() for c in v], 1).astype(float) for v in (found.direction, found.radiance))
    return direction, radiance, found.density.numpy().astype(float)


def seen(picture: Floats, directions: Floats, turn: float = 0.0, backend: str = "cpu") -> tuple[Floats, Floats]:
    def see(around: EnvironmentMap, d: Tensor) -> Any:
        return around.seen(Vec3(d[:, 0], d[:, 1], d[:, 2]))

    radiance, density = jit(see, device=device(backend))(map_of(picture, turn), Tensor(directions.astype(np.float32)))
    return np.stack([c.numpy() for c in radiance], 1).astype(float), density.numpy().astype(float)


def unit_vectors(count: int) -> Floats:
    v = np.random.default_rng(count).normal(size=(count, 3))
    return np.asarray(v / np.linalg.norm(v, axis=1, keepdims=True))


def test_the_middle_of_the_picture_is_towards_x_and_what_is_right_of_it_towards_z() -> None:
    picture = np.zeros((8, 16, 3), np.float32)
    picture[3:5, 7:9], picture[3:5, 11:13], picture[0], picture[7] = (1, 0, 0), (0, 0, 1), (0, 1, 0), (1, 1, 0)
    radiance, _ = seen(picture, np.array([[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, -1, 0], [-1, 0, 0]], float))
    np.testing.assert_allclose(radiance, [[1, 0, 0], [0, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 0]], atol=1e-5)


def test_a_turn_moves_the_picture_counter_clockwise_seen_from_above() -> None:
    """By 90 degrees: what was towards +x stands towards -z."""
    picture = np.zeros((8, 16, 3), np.float32)
    picture[3:5, 7:9] = 1.0
    radiance, _ = seen(picture, np.array([[1, 0, 0], [0, 0, -1], [0, 0, 1]], float), turn=90.0)
    np.testing.assert_allclose(radiance[:, 0], [0, 1, 0], atol=1e-5)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("size", [(1, 1), (1, 2), (5, 3), (16, 33)])
def test_radiance_is_interpolated_round_the_seam_and_not_beyond_the_poles(size: Any, backend: str) -> None:
    picture, directions = noise(*size) + np.float32(0.1), unit_vectors(2000)
    radiance, _ = seen(picture, directions, 25.0, backend)
    np.testing.assert_allclose(radiance, looked_up(picture, directions, 25.0), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("size", [(1, 2), (6, 9), (16, 32)])
def test_directions_are_drawn_with_the_density_that_is_stated(size: Any) -> None:
    """Counts in parts of texels, each of the same solid angle; the density that a look-up gives is that of the sample."""
    picture = noise(*size)
    picture[0, 0] = 3.0
    direction, radiance, density = drawn(picture)
    height, width = size
    fine = 4
    column = (np.arctan2(direction[:, 2], direction[:, 0]) / (2 * math.pi) + 0.5) % 1 * width
    row = np.arccos(np.clip(direction[:, 1], -1, 1)) / math.pi * height
    x, y = np.minimum(column.astype(int), width - 1), np.minimum(row.astype(int), height - 1)
    edges = np.sin(np.arange(height + 1) * math.pi / 2 / height) ** 2
    within = np.clip(((1 - direction[:, 1]) / 2 - edges[y]) / (edges[y + 1] - edges[y]), 0, 0.999)
    cell = ((y * width + x) * fine + ((column - x) * fine).astype(int)) * fine + (within * fine).astype(int)
    counts = np.bincount(cell, minlength=height * width * fine * fine)
    tables = environment_tables(picture)
    assert tables is not None
    chances = tables.texels[:, 3].reshape(size) * solid_angles(height, width)[:, None]
    assert chances.sum() == pytest.approx(1.0, abs=1e-6), "the density integrates to one"
    assert chi_square(counts, np.repeat(chances.ravel(), fine * fine) * (len(direction) / fine**2)) < 5
    inside = (np.abs(column - np.round(column)) > 1e-3) & (np.abs(row - np.round(row)) > 1e-3)
    again, stated = seen(picture, direction)
    np.testing.assert_allclose(stated[inside], density[inside], rtol=1e-5)
    np.testing.assert_allclose(again, radiance, rtol=1e-2, atol=1e-3)


def test_wherever_light_comes_from_there_is_density_and_their_ratio_is_bounded() -> None:
    picture = noise(12, 24)
    radiance, density = seen(picture, unit_vectors(20000))
    luminance = radiance @ [0.2126, 0.7152, 0.0722]
    tables = environment_tables(picture)
    assert tables is not None and (density[luminance > 0] > 0).all()
    assert (luminance / np.maximum(density, 1e-12) < 17 * tables.flux).all(), "a corner of a texel has at least 1/64 in its mean"


def test_the_total_radiance_is_what_samples_say() -> None:
    picture = noise(9, 20)
    _, radiance, density = drawn(picture)
    ratio = radiance / density[:, None]
    everywhere = looked_up(picture, unit_vectors(400000)) * (4 * math.pi)
    error = np.hypot(ratio.std(0) / math.sqrt(len(ratio)), everywhere.std(0) / math.sqrt(len(everywhere)))
    assert (np.abs(ratio.mean(0) - everywhere.mean(0)) < 4.5 * error).all()


def test_the_interpreter_draws_the_same_directions() -> None:
    for a, b in zip(drawn(noise(7, 11), 512, "cpu"), drawn(noise(7, 11), 512, "reference")):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_what_is_no_radiance_is_none_and_very_large_pictures_are_halved() -> None:
    broken = np.ones((4, 8, 3), np.float32)
    broken[0, 0], broken[1, 1], broken[2, 2] = np.nan, -5.0, np.inf
    tables = environment_tables(broken)
    assert tables is not None and np.isfinite(tables.texels).all() and (tables.texels >= 0).all()
    assert environment_tables(np.zeros((4, 8, 3), np.float32)) is None
    np.testing.assert_allclose(halved(np.arange(24, dtype=np.float32).reshape(2, 4, 3))[0, :, 0], [7.5, 13.5])
    large = environment_tables(np.ones((1, MOST_TEXELS + 2, 3), np.float32))
    assert large is not None and (large.height, large.width) == (1, MOST_TEXELS // 2 + 1)


# ---- pictures ----


def wall(normal: Any = (1, 0, 0)) -> Scene:
    """A white wall that faces a horizontal direction, and a camera close before it."""
    n = np.asarray(normal, float)
    across = np.cross([0, 1, 0], n)
    camera = look_at(0.05 * n, (0, 0, 0), Orthographic(1e-3, 1e-3))
    return scene_of((quad(-across * 50 - np.array([0, 50, 0]), across * 100, [0, 100, 0]), grey((0.8, 0.5, 0.2))), camera=camera)


def mean_of(picture: Rendered) -> tuple[Floats, Floats]:
    pixels = picture.mean.reshape(-1, 3).astype(float)
    return pixels.mean(0), np.sqrt((picture.deviation.reshape(-1, 3) ** 2).sum(0)) / len(pixels)


def near(picture: Rendered, want: Floats, within: float) -> None:
    got, error = mean_of(picture)
    assert (np.abs(got - want) < 4.5 * error + 1e-4 * np.abs(want)).all(), f"{got} is not {want} within 4.5 x {error}"
    assert (error < within * want).all(), f"{error} is more noise than {within} of {want}"


@pytest.mark.parametrize("options", FORMS, ids=str)
@pytest.mark.parametrize("turn", [0.0, 70.0])
def test_a_wall_under_two_texels_is_as_bright_as_integration_says(turn: float, options: Any) -> None:
    scene = replace(wall(), environment=Environment((1.0, 1.0, 0.5), 2.0, turn, TWO))
    want = np.array([0.8, 0.5, 0.2]) * reflected(TWO, (1, 0, 0), turn) * np.array([2.0, 2.0, 1.0])
    near(render(scene, (32, 32), frames=16, depth=2, **options), want, 0.01)


def test_a_small_sun_is_found_without_noise() -> None:
    turn = 360 * (40.5 / 64 - 0.5)  # the sun before the wall
    scene = replace(wall(), environment=Environment(image=SUN, turn=turn))
    near(render(scene, (16, 16), frames=16, depth=2), np.array([0.8, 0.5, 0.2]) * reflected(SUN, (1, 0, 0), turn), 0.02)


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("options", FORMS, ids=str)
def test_a_picture_of_one_colour_is_a_sky_of_that_colour(options: Any, depth: int) -> None:
    """White furnace: a ball of albedo 0.8 in a world of 1, and the world beside it."""
    scene = scene_of((icosphere(3), grey(0.8)), camera=look_at((0, 0, 5), (0, 0, 0), 0.6))
    picture = render(replace(scene, environment=Environment(image=np.ones((4, 8, 3), np.float32))), (24, 24), 16, depth=depth, **options)
    np.testing.assert_allclose(picture.mean[0], np.ones_like(picture.mean[0]), rtol=1e-5)
    inside, error = picture.mean[8:16, 8:16].astype(float).mean((0, 1)), picture.deviation[8:16, 8:16].mean() / 8
    assert (np.abs(inside - (0.8 if depth > 1 else 0.0)) < 4.5 * error + 1e-5).all()


MATERIALS = {
    "metal": Material(base_color_factor=(0.9, 0.6, 0.3, 1.0), metallic=1.0, roughness=0.3),
    "smooth plastic": Material(base_color_factor=(0.5, 0.1, 0.1, 1.0), metallic=0.0, roughness=0.05),
    "glass": Material(base_color_factor=(1.0, 1.0, 1.0, 1.0), metallic=0.0, roughness=0.1, transmission=Transmission(1.0)),
}


@pytest.mark.parametrize("name", list(MATERIALS))
def test_whatever_a_ball_is_made_of_it_looks_the_same_however_light_is_found(name: str) -> None:
    """A sky of one colour is found by scattering alone, a picture of that colour by connecting, too."""
    scene = scene_of((icosphere(3), MATERIALS[name]), camera=look_at((0, 0, 5), (0, 0, 0), 0.6))
    image = np.ones((4, 8, 3), np.float32)
    skies = [Environment((0.7, 0.8, 1.0)), Environment((0.7, 0.8, 1.0), image=image)]
    (a, da), (b, db) = (mean_of(render(replace(scene, environment=sky), (24, 24), frames=48, depth=6)) for sky in skies)
    assert (np.abs(a - b) < 4.5 * np.hypot(da, db) + 1e-4).all() and (np.hypot(da, db) < 0.005).all(), f"{a}, {b}"


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("kinds", ["lamp map", "map bulb", "lamp bulb", "lamp map bulb"])
def test_of_several_kinds_of_lights_each_adds_its_own(kinds: str, many: bool) -> None:
    """Triangles, a picture and a point light together are the sum of each alone."""

    def world(kinds: str) -> Scene:
        parts = [quad([-1, 1, -1], [0.2, 0, 0], [0, 0, 0.2])] * (20 if many else 1) if "lamp" in kinds else []
        camera = look_at((0, 0.05, 0), (0, 0, 0), Orthographic(1e-3, 1e-3))
        lamps = [(part + np.float32(0.001 * k), grey(0.0, 30.0 / len(parts))) for k, part in enumerate(parts)]
        scene = scene_of((quad([-9, 0, -9], [0, 0, 18], [18, 0, 0]), grey(0.5)), *lamps, camera=camera)
        place = np.eye(4)
        place[:3, 3] = 1, 2, 1
        scene.lights = [Light("bulb", "point", place, 0, intensity=8.0)] if "bulb" in kinds else []
        scene.environment = Environment(image=noise(4, 8)) if "map" in kinds else Environment((0.0, 0.0, 0.0))
        return scene

    alone = [mean_of(render(world(kind), (24, 24), frames=24, depth=3)) for kind in kinds.split()]
    got, error = mean_of(render(world(kinds), (24, 24), frames=24, depth=3))
    want, spread = sum(a[0] for a in alone), np.sqrt(error**2 + sum(a[1] ** 2 for a in alone))
    assert (np.abs(got - want) < 4.5 * spread + 0.01 * want).all(), f"{got} is not {want} within {spread}"
    assert (error < 0.02 * got).all()


def test_a_black_picture_is_darkness() -> None:
    scene = replace(wall(), environment=Environment(image=np.zeros((2, 4, 3), np.float32)))
    assert upload(scene, group=16).data.environment is None
    assert not render(scene, (8, 8)).mean.any()
