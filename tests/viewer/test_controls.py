"""The camera under the user's hand does what a hand expects, in scenes of any size."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from renderer.app.viewer.controls import (
    FARTHEST,
    NEAREST,
    SPEED,
    Extent,
    View,
    dolly,
    fly,
    framed,
    orbit,
    pan,
    pivoted,
    scene_view,
    view_of,
)
from renderer.scene.gltf import load
from renderer.scene.model import Camera, Float64s, Orthographic, Perspective, Scene

HEIGHT = 600.0
LENS = Perspective(math.radians(45))


def looking(eye: tuple[float, float, float], at: tuple[float, float, float], roll: float = 0.0, scale: float = 1.0) -> View:
    """A view from a point to the pivot."""
    back = np.subtract(eye, at) / np.linalg.norm(np.subtract(eye, at))
    right = np.cross([0.0, 1.0, 0.0], back)
    right /= np.linalg.norm(right)
    axes = np.stack([right, np.cross(back, right), back], axis=1)
    c, s = math.cos(roll), math.sin(roll)
    world = np.eye(4)
    world[:3, :3] = axes @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    world[:3, 3] = np.array(eye) * scale
    return View(Camera("", LENS, world), np.array(at, float) * scale)


def in_camera(view: View, point: Float64s) -> Float64s:
    """A point of the world as the camera sees it."""
    world = view.camera.world
    return np.asarray(world[:3, :3].T @ (point - world[:3, 3]))


def pixel(view: View, point: Float64s) -> Float64s:
    """Where a point is in a picture of HEIGHT: right and down from the middle, in pixels."""
    x, y, z = in_camera(view, point)
    projection = view.camera.projection
    half = projection.ymag if isinstance(projection, Orthographic) else math.tan(projection.yfov / 2) * -z
    return np.array([x, -y]) * (HEIGHT / 2 / half)


def eye(view: View) -> Float64s:
    return view.camera.world[:3, 3]


def test_the_pivot_keeps_its_place_while_the_camera_turns_about_it() -> None:
    view = pivoted(looking((1.0, 2.0, 5.0), (0.0, 1.0, 0.0)), np.array([0.7, 0.2, -1.0]))  # not in the middle of the picture
    turned = orbit(view, 130.0, -40.0, HEIGHT)
    assert np.linalg.norm(eye(turned) - eye(view)) > 1.0
    np.testing.assert_allclose(in_camera(turned, view.pivot), in_camera(view, view.pivot), atol=1e-12)


def test_dragging_over_the_whole_height_turns_half_way_round() -> None:
    view = looking((0.0, 0.0, 4.0), (0.0, 0.0, 0.0))
    np.testing.assert_allclose(eye(orbit(view, HEIGHT, 0.0, HEIGHT)), [0.0, 0.0, -4.0], atol=1e-12)
    right = orbit(view, HEIGHT / 2, 0.0, HEIGHT)  # what is dragged to the right shows its left side
    np.testing.assert_allclose(eye(right), [-4.0, 0.0, 0.0], atol=1e-12)
    down = orbit(view, 0.0, HEIGHT / 4, HEIGHT)
    assert eye(down)[1] == pytest.approx(4.0 * math.sin(math.pi / 4))  # what is dragged down shows its top


@pytest.mark.parametrize("roll", [0.0, 0.4])
def test_the_horizon_stays_as_it_was_through_thousands_of_movements(roll: float) -> None:
    view = looking((3.0, 1.0, 4.0), (0.0, 0.5, 0.0), roll)
    random = np.random.default_rng(5)
    for dx, dy in random.normal(0.0, 25.0, (5000, 2)):
        view = orbit(view, float(dx), float(dy), HEIGHT)
    axes = view.camera.world[:3, :3]
    np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-12)
    level = np.cross([0.0, 1.0, 0.0], axes[:, 2])
    level /= np.linalg.norm(level)
    assert math.atan2(np.dot(axes[:, 0], np.cross(axes[:, 2], level)), np.dot(axes[:, 0], level)) == pytest.approx(roll, abs=1e-9)
    assert view.distance == pytest.approx(math.sqrt(9 + 0.25 + 16))


def test_turning_back_comes_back() -> None:
    view = looking((3.0, 1.0, 4.0), (0.0, 0.5, 0.0))
    there = orbit(view, 70.0, 35.0, HEIGHT)
    np.testing.assert_allclose(orbit(there, -70.0, -35.0, HEIGHT).camera.world, view.camera.world, atol=1e-12)


@pytest.mark.parametrize("dy", [1e4, -1e4])
def test_the_camera_does_not_go_over_the_poles(dy: float) -> None:
    view = orbit(looking((0.0, 0.0, 4.0), (0.0, 0.0, 0.0)), 0.0, dy, HEIGHT)
    assert abs(eye(view)[1]) == pytest.approx(4.0, rel=1e-3)
    assert view.camera.world[1, 1] > 0  # up is up still
    back = orbit(view, 0.0, -math.copysign(HEIGHT / 4, dy), HEIGHT)
    assert abs(eye(back)[1]) < 3.0


def test_a_camera_that_looks_straight_down_can_be_turned() -> None:
    world = np.eye(4)
    world[:3, :3] = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]], float)  # looks along -y
    world[1, 3] = 5.0
    view = View(Camera("plan", LENS, world), np.zeros(3))
    np.testing.assert_allclose(orbit(view, 0.0, 0.0, HEIGHT).camera.world, world, atol=1e-12)
    turned = orbit(view, HEIGHT / 2, 0.0, HEIGHT)
    np.testing.assert_allclose(eye(turned), [0.0, 5.0, 0.0], atol=1e-9)
    assert abs(turned.camera.world[0, 0]) < 1e-9  # about the vertical, by a right angle
    assert eye(orbit(view, 0.0, -50.0, HEIGHT))[1] < 5.0  # and away from the pole


@pytest.mark.parametrize("projection", [LENS, Orthographic(2.0, 1.5)])
def test_what_is_at_the_pivot_follows_the_hand(projection: Perspective | Orthographic) -> None:
    view = looking((1.0, 2.0, 5.0), (0.0, 1.0, 0.0))
    view = replace(view, camera=replace(view.camera, projection=projection))
    moved = pan(view, 40.0, -25.0, HEIGHT)
    np.testing.assert_allclose(pixel(moved, view.pivot) - pixel(view, view.pivot), [40.0, -25.0], atol=1e-9)
    np.testing.assert_allclose(pixel(moved, moved.pivot), pixel(view, view.pivot), atol=1e-9)  # and the pivot comes along


def test_a_step_of_the_wheel_is_a_ratio_of_the_distance() -> None:
    view, extent = looking((0.0, 0.0, 4.0), (0.0, 0.0, 0.0)), Extent(np.zeros(3), 2.0)
    one, two = dolly(view, 1.0, extent), dolly(view, 2.0, extent)
    assert one.distance / view.distance == pytest.approx(two.distance / one.distance)
    assert one.distance < view.distance
    np.testing.assert_allclose(eye(dolly(two, -2.0, extent)), eye(view), atol=1e-12)
    assert np.array_equal(one.camera.world[:3, :3], view.camera.world[:3, :3])


def test_the_wheel_stops_before_the_pivot_and_before_infinity() -> None:
    view, extent = looking((0.0, 0.0, 4.0), (0.0, 0.0, 0.0)), Extent(np.zeros(3), 2.0)
    near, far = dolly(view, 1e3, extent), dolly(view, -1e3, extent)
    assert near.distance == pytest.approx(NEAREST * 2.0) and far.distance == pytest.approx(FARTHEST * 2.0)
    assert dolly(near, -10.0, extent).distance > near.distance
    stuck = replace(view, pivot=eye(view).copy())
    assert dolly(stuck, -3.0, extent).distance > 0.0  # on the pivot itself there is a way back


def test_an_orthographic_camera_zooms_by_its_extent() -> None:
    view = looking((0.0, 0.0, 4.0), (0.0, 0.0, 0.0))
    view = replace(view, camera=replace(view.camera, projection=Orthographic(4.0, 3.0)))
    closer = dolly(view, 2.0, Extent(np.zeros(3), 2.0))
    projection = closer.camera.projection
    assert isinstance(projection, Orthographic) and projection.ymag < 3.0
    assert projection.xmag / projection.ymag == pytest.approx(4.0 / 3.0)
    assert np.array_equal(eye(closer), eye(view))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_scenes_of_millimetres_and_of_kilometres_feel_alike(scale: float) -> None:
    def hand(view: View, extent: Extent) -> View:
        view = orbit(view, 40.0, 20.0, HEIGHT)
        view = pan(view, -30.0, 10.0, HEIGHT)
        view = dolly(view, 3.0, extent)
        return fly(view, 0.5, 0.0, 1.0, 0.4, extent)

    small = hand(looking((1.0, 2.0, 5.0), (0.0, 1.0, 0.0)), Extent(np.zeros(3), 2.0))
    large = hand(looking((1.0, 2.0, 5.0), (0.0, 1.0, 0.0), scale=scale), Extent(np.zeros(3), 2.0 * scale))
    np.testing.assert_allclose(eye(large), eye(small) * scale, rtol=1e-9)
    np.testing.assert_allclose(large.pivot, small.pivot * scale, rtol=1e-9)
    np.testing.assert_allclose(large.camera.world[:3, :3], small.camera.world[:3, :3], atol=1e-12)


def test_flying_goes_as_far_whatever_the_rate_of_frames() -> None:
    view, extent = looking((0.0, 0.0, 4.0), (0.0, 0.0, 0.0)), Extent(np.zeros(3), 2.0)
    at_once = fly(view, 0.0, 0.0, 1.0, 0.5, extent)
    np.testing.assert_allclose(eye(at_once), [0.0, 0.0, 4.0 - 0.5 * SPEED * 2.0])
    steps = view
    for _ in range(50):
        steps = fly(steps, 0.0, 0.0, 1.0, 0.01, extent)
    np.testing.assert_allclose(eye(steps), eye(at_once), atol=1e-12)
    assert at_once.distance == pytest.approx(view.distance)  # the pivot comes along
    aslant = fly(view, 1.0, 1.0, 1.0, 0.5, extent)
    assert np.linalg.norm(eye(aslant) - eye(view)) == pytest.approx(0.5 * SPEED * 2.0)  # three keys are no faster than one
    assert np.linalg.norm(eye(fly(view, 0.0, 0.0, 1.0, 0.5, extent, fast=True)) - eye(view)) > 1.5 * 0.5 * SPEED * 2.0


@pytest.mark.parametrize("aspect", [0.4, 1.0, 2.5])
@pytest.mark.parametrize("projection", [LENS, Orthographic(0.1, 0.1)])
def test_a_framed_scene_is_in_the_picture(cornell: Path, aspect: float, projection: Perspective | Orthographic) -> None:
    scene = load(cornell)
    extent = Extent.of(scene)
    view = looking((0.3, 9.0, 70.0), (0.0, 0.0, 50.0))
    view = framed(replace(view, camera=replace(view.camera, projection=projection)), extent, aspect)
    bounds = scene.bounds()
    assert bounds is not None
    corners = np.array([[bounds[i, 0], bounds[j, 1], bounds[k, 2]] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
    places = np.array([pixel(view, corner) for corner in corners])
    assert (np.abs(places[:, 1]) < HEIGHT / 2).all() and (np.abs(places[:, 0]) < HEIGHT / 2 * aspect).all()
    assert np.abs(places / (HEIGHT / 2) / [aspect, 1.0]).max() > 0.4  # and not lost in it
    np.testing.assert_allclose(view.pivot, extent.middle)


def test_a_view_turns_about_a_point_on_its_axis_as_far_off_as_the_scene() -> None:
    extent = Extent(np.array([0.0, 0.0, 1.0]), 2.0)
    ahead = looking((0.0, 0.0, 5.0), (1.0, 0.0, 0.0)).camera
    view = view_of(ahead, extent)
    x, y, z = in_camera(view, view.pivot)
    assert (x, y) == pytest.approx((0.0, 0.0), abs=1e-12)
    assert -z == pytest.approx(np.dot(extent.middle - eye(view), -ahead.world[:3, 2]))
    behind = view_of(looking((0.0, 0.0, 5.0), (0.0, 0.0, 9.0)).camera, extent)
    assert in_camera(behind, behind.pivot)[2] == pytest.approx(-1.0)  # half a radius ahead


def test_a_scene_without_anything_has_an_extent(cornell: Path) -> None:
    empty = Scene(cornell)
    assert Extent.of(empty).radius == 1.0
    assert scene_view(empty, Extent.of(empty), 3).distance > 0.0
