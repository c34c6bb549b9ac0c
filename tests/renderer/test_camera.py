"""Cameras see what is in front of them, upright, round, and the whole of each pixel."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from engine import Jitted, Tensor, jit
from renderer.pipeline.camera import CameraData, camera_data
from renderer.sampling.rng import Rng
from renderer.scene.framing import default_camera
from renderer.scene.gltf import load
from renderer.scene.model import Camera, Orthographic, Perspective
from tests.renderer.helpers.chance import chi_square
from tests.renderer.helpers.pictures import render
from tests.renderer.helpers.tracing import device
from tests.renderer.helpers.worlds import grey, icosphere, look_at, quad, scene_of, soup

SIZES = [(1280, 720), (500, 900), (300, 300)]


class Rays(NamedTuple):
    """Origins and directions, float64[height, width, 3]."""

    origin: NDArray[np.float64]
    direction: NDArray[np.float64]


def _rays(camera: CameraData, rows: Tensor, columns: Tensor, width: int, height: int, sample: int) -> Any:
    row, column = rows[:, None], columns[None, :]
    pixel = row * width + column
    rng = Rng.start(pixel.cast("uint32"), sample, 0)
    columns, rows = column.broadcast_to(pixel.shape), row.broadcast_to(pixel.shape)
    ray, _ = camera.ray(columns, rows, float_of(width), float_of(height), rng)
    return ray


def float_of(value: Any) -> Any:
    return value.cast("float32") if isinstance(value, Tensor) else float(value)


@lru_cache(None)
def _tracing() -> Jitted:
    made: Jitted = jit(_rays, device=device())
    return made


def rays(camera: Camera, width: int, height: int, sample: int = 0) -> Rays:
    ray = _tracing()(
        camera_data(camera, width, height),
        Tensor(np.arange(height, dtype=np.int32)),
        Tensor(np.arange(width, dtype=np.int32)),
        width,
        height,
        sample,
    )
    parts = [np.stack([np.broadcast_to(c.numpy(), (height, width)) for c in v], -1).astype(np.float64) for v in ray]
    return Rays(*parts)


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("aspect", [None, 1.0])
def test_the_vertical_field_of_view_is_kept_in_every_window(width: int, height: int, aspect: float | None) -> None:
    """C27: and every ray goes through its own pixel."""
    camera = look_at((0, 0, 5), (0, 0, 0), Perspective(0.8, aspect))
    d = rays(camera, width, height).direction
    np.testing.assert_allclose(np.linalg.norm(d, axis=-1), 1, atol=1e-6)
    half = math.tan(0.4)
    column = (d[..., 0] / -d[..., 2] / (half * width / height) + 1) / 2 * width
    row = (1 - d[..., 1] / -d[..., 2] / half) / 2 * height
    slack = 1e-3
    assert (np.abs(column - np.arange(width) - 0.5) <= 0.5 + slack).all()
    assert (np.abs(row - np.arange(height)[:, None] - 0.5) <= 0.5 + slack).all()


def test_a_wide_window_sees_the_horizontal_angle_that_follows() -> None:
    d = rays(look_at((0, 0, 5), (0, 0, 0), 0.8), 1280, 720).direction
    angle = math.atan(-d[360, -1, 0] / d[360, -1, 2]) + math.atan(d[360, 0, 0] / d[360, 0, 2])
    assert abs(angle - 1.2891) < 0.002


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_an_orthographic_camera_keeps_its_vertical_extent(width: int, height: int) -> None:
    r = rays(look_at((1, 2, 5), (1, 2, 0), Orthographic(3.0, 3.0)), width, height)
    np.testing.assert_allclose(r.direction, np.broadcast_to([0, 0, -1], r.direction.shape), atol=1e-7)
    assert np.ptp(r.origin[..., 2]) == 0
    assert abs(r.origin[0, :, 1].mean() - (2 + 3 - 3 / height)) < 3 * 2 / height
    np.testing.assert_allclose(np.ptp(r.origin[..., 1]), 6, atol=6 / height * 2)
    np.testing.assert_allclose(np.ptp(r.origin[..., 0]), 6 * width / height, atol=6 / height * 2)


def spread(weights: NDArray[np.float64]) -> float:
    """Standard deviation of the places that are so weighted."""
    place = np.arange(len(weights))
    middle = weights @ place / weights.sum()
    return math.sqrt(weights @ (place - middle) ** 2 / weights.sum())


@pytest.mark.parametrize(("width", "height"), [(320, 180), (125, 225), (160, 160)])
@pytest.mark.parametrize("projection", [0.8, Perspective(0.8, 1.0), Orthographic(2.0, 2.0)])
def test_a_ball_is_round(width: int, height: int, projection: Any) -> None:
    """C27: width over height is 1 to a hundredth, in all windows."""
    camera = look_at((0, 0, 5), (0, 0, 0), projection)
    ball = scene_of((icosphere(4), grey(0.0, 1.0)), camera=camera)
    covered = render(ball, (width, height), depth=1, frames=4).mean[..., 0].astype(np.float64)
    wide, high = spread(covered.sum(0)), spread(covered.sum(1))
    assert abs(wide / high - 1) < 0.01


def test_the_picture_is_upright_and_not_mirrored() -> None:
    camera = look_at((0, 0, 5), (0, 0, 0), 0.8)
    red = quad([1, -0.5, 0], [1, 0, 0], [0, 1, 0])  # to the right
    green = quad([-0.5, 1, 0], [1, 0, 0], [0, 1, 0])  # above
    shown = render(scene_of((red, grey(0, (1, 0, 0))), (green, grey(0, (0, 1, 0))), camera=camera), (32, 32), depth=1).mean
    assert shown[12:20, 20:, 0].sum() > 0.95 * shown[..., 0].sum() > 1
    assert shown[:12, 12:20, 1].sum() > 0.95 * shown[..., 1].sum() > 1


def test_a_pixel_is_sampled_evenly() -> None:
    """The box filter: places within the pixels are uniform, over the picture and over the samples of one pixel."""
    camera, n = look_at((0, 0, 5), (0, 0, 0), Orthographic(1.0, 1.0)), 128
    origin = rays(camera, n, n).origin
    u = np.clip((origin[..., 0] + 1) / 2 * n - np.arange(n), 0, 0.9999)
    v = np.clip((1 - origin[..., 1]) / 2 * n - np.arange(n)[:, None], 0, 0.9999)
    counts = np.histogram2d(u.ravel(), v.ravel(), 12, [[0, 1], [0, 1]])[0]
    assert chi_square(counts.astype(int), np.full((12, 12), n * n / 144)) < 5
    one = np.stack([rays(camera, 4, 4, sample).origin[1, 2, :2] for sample in range(256)])
    assert np.abs(((one[:, 0] + 1) * 2 - 2).mean() - 0.5) < 5 * (1 / 12 / 256) ** 0.5
    assert np.abs(((1 - one[:, 1]) * 2 - 1).mean() - 0.5) < 5 * (1 / 12 / 256) ** 0.5


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (300, 300)])
@pytest.mark.parametrize(("scale", "shift"), [(1e-3, 0.0), (1.0, 0.0), (1e3, 50.0)])
def test_without_a_camera_the_whole_scene_is_in_the_picture(width: int, height: int, scale: float, shift: float) -> None:
    scene = scene_of(((soup(50, 1) * np.float32(scale) + np.float32(shift)).astype(np.float32), grey(0.5)))
    camera = default_camera(scene)
    seen = camera_data(camera, width, height)
    corners = scene.triangles().positions.reshape(-1, 3).astype(np.float64)
    local = (corners - camera.world[:3, 3]) @ camera.world[:3, :3]
    assert (local[:, 2] < 0).all()
    places = local[:, :2] / -local[:, 2:] / seen.extent
    assert np.abs(places).max() < 1
    assert np.abs(places[:, 1]).max() > 0.4  # and not a speck


def test_turning_the_camera_keeps_its_pivot_where_it_was() -> None:
    camera = look_at((1, 2, 5), (0.3, 0.4, 0), 0.8)
    pivot = np.array([0.3, 0.4, 0.0])

    def seen(turn: float) -> NDArray[np.float64]:
        place = camera_data(camera, 64, 64, turn, pivot).place.astype(np.float64)
        return place[:3] @ (pivot - place[3])

    for turn in (0.5, -10, 90, 180):
        np.testing.assert_allclose(seen(turn), seen(0), atol=2e-6)
        place = camera_data(camera, 64, 64, turn, pivot).place
        np.testing.assert_allclose(place[:3] @ place[:3].T, np.eye(3), atol=1e-6)
        assert abs(place[3, 1] - 2) < 1e-6  # about the vertical
    np.testing.assert_allclose(camera_data(camera, 64, 64, 360, pivot).place, camera_data(camera, 64, 64).place, atol=1e-5)
    there, back = (camera_data(camera, 64, 64, t, pivot).place[3] for t in (10, -10))
    assert np.linalg.norm(there - back) > 1


def test_the_files_camera_is_the_one_that_is_used(cornell: Any) -> None:
    scene = load(cornell)
    assert scene.cameras
    place = camera_data(scene.cameras[0], 64, 64).place
    np.testing.assert_allclose(place[3], scene.cameras[0].world[:3, 3], rtol=1e-6)


# ---- the lens ----


def with_lens(camera: Camera, aperture: float, focus: float | None) -> Camera:
    return replace(camera, aperture=aperture, focus=focus)


def test_without_an_aperture_all_rays_come_from_one_point() -> None:
    camera = look_at((1, 2, 5), (0, 0, 0), 0.8)
    sharp, same = rays(camera, 64, 48), rays(with_lens(camera, 0.0, 3.0), 64, 48)
    assert np.ptp(sharp.origin, axis=(0, 1)).max() == 0
    np.testing.assert_array_equal(sharp.direction, same.direction)


def test_rays_begin_evenly_all_over_the_lens() -> None:
    n, radius = 256, 0.25
    camera = with_lens(look_at((1, 2, 5), (1, 2, 0), 0.8), radius, 3.0)
    origin = rays(camera, n, n).origin
    x, y = ((origin[..., k] - (1, 2)[k]) / radius for k in range(2))
    np.testing.assert_allclose(origin[..., 2], 5, atol=1e-6)
    r, angle = np.hypot(x, y), np.arctan2(y, x)
    assert r.max() <= 1 + 1e-6
    counts = np.histogram2d(np.minimum(r * r, 0.99999).ravel(), angle.ravel(), (8, 12), ((0, 1), (-math.pi, math.pi)))[0]
    assert chi_square(counts.astype(int), np.full((8, 12), n * n / 96)) < 5


@pytest.mark.parametrize("projection", [0.8, Orthographic(2.0, 2.0)])
def test_in_the_plane_of_focus_every_ray_is_where_its_pixel_is(projection: Any) -> None:
    width, height, focus = 40, 30, 3.0
    camera = look_at((1, 2, 5), (1, 2, 0), projection)
    half = math.tan(0.4) * focus if isinstance(projection, float) else 2.0
    ray = rays(with_lens(camera, 0.3, focus), width, height)
    np.testing.assert_allclose(np.linalg.norm(ray.direction, axis=-1), 1, atol=1e-6)
    point = ray.origin + ray.direction * (focus / -ray.direction[..., 2:])
    column = ((point[..., 0] - 1) / (half * width / height) + 1) / 2 * width
    row = (1 - (point[..., 1] - 2) / half) / 2 * height
    assert (np.abs(column - np.arange(width) - 0.5) <= 0.5 + 1e-3).all()
    assert (np.abs(row - np.arange(height)[:, None] - 0.5) <= 0.5 + 1e-3).all()


@pytest.mark.parametrize(("focus", "distance"), [(2.0, 6.0), (6.0, 2.0), (4.0, 4.0), (2.8, 4.0)])
def test_a_point_out_of_focus_becomes_the_circle_of_confusion(focus: float, distance: float) -> None:
    """Of radius A |1 / d - 1 / f| as a tangent: a small square that shines has the spread of such a circle, and is no larger."""
    size, aperture, half = 64, 0.15, math.tan(0.2)
    side = 2 * half * distance / size * 2  # two pixels
    lamp = quad([-side / 2, -side / 2, 0], [side, 0, 0], [0, side, 0])
    camera = with_lens(look_at((0, 0, distance), (0, 0, 0), 0.4), aperture, focus)
    light = render(scene_of((lamp, grey(0.0, 1.0)), camera=camera), (size, size), depth=1, spp=16, frames=64).mean[..., 0]
    light = light.astype(np.float64)
    radius = aperture * abs(1 / distance - 1 / focus) / half * size / 2  # in pixels
    if focus == distance:
        assert light.sum() == light[31:33, 31:33].sum() == 4
        return
    assert radius > 2
    within = math.sqrt(radius**2 / 4 + 4 / 12 + 1 / 12)  # a disk's spread along an axis, a square's of two pixels, a pixel's
    for axis in range(2):
        assert abs(spread(light.sum(axis)) / within - 1) < 0.03
    rows, columns = np.nonzero(light)
    assert np.hypot(rows - 31.5, columns - 31.5).max() <= radius + 2 * math.sqrt(2)
    assert abs(light.sum() / 4 - 1) < 0.05  # as much light as two pixels by two


def test_a_camera_that_names_no_focus_is_focused_on_its_pivot() -> None:
    camera = with_lens(look_at((0, 0, 5), (0, 0, 0)), 0.1, None)
    assert camera_data(camera, 8, 8, 0.0, np.array([0.5, 0.0, 2.0])).focus == 3
    assert camera_data(camera, 8, 8, 70.0, np.array([0.0, 0.0, 1.0])).focus == 4
    assert camera_data(with_lens(camera, 0.1, 7.0), 8, 8, 70.0, np.zeros(3)).focus == 7


def test_lenses_and_projections_are_run_time_data() -> None:
    pinhole = look_at((0, 0, 5), (0, 0, 0))
    cameras = (pinhole, with_lens(pinhole, 0.1, 2.0), look_at((0, 0, 5), (0, 0, 0), Orthographic(1, 1)))
    rays(cameras[0], 8, 8)
    before = len(_tracing().stats.compiles)
    for camera in cameras:
        rays(camera, 8, 8)
    assert len(_tracing().stats.compiles) == before
