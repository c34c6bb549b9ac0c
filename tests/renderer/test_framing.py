"""The camera of a scene without one: all is in the picture, and fills it, whatever the scene's shape and size and the picture's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from renderer.pipeline.camera import camera_data
from renderer.scene.framing import MARGIN, default_camera
from renderer.scene.model import Camera, Scene
from tests.renderer.helpers.worlds import grey, scene_of


def box(size: tuple[float, float, float], middle: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Scene:
    """Two triangles across the box's diagonal plane, which touch all its sides."""
    low, high = (np.array(middle) + np.array(size) * s / 2 for s in (-1, 1))
    a, b, c, d = low, np.array([high[0], low[1], high[2]]), high, np.array([low[0], high[1], low[2]])
    return scene_of((np.array([[a, b, c], [a, c, d]], np.float32), grey(0.5)))


def corners(scene: Scene) -> NDArray[np.float64]:
    bounds = scene.bounds()
    assert bounds is not None
    return np.array([[bounds[i, 0], bounds[j, 1], bounds[k, 2]] for i in (0, 1) for j in (0, 1) for k in (0, 1)])


def places(camera: Camera, points: NDArray[np.float64], width: int, height: int) -> NDArray[np.float64]:
    """Where points are in the picture, from -1 to 1; all are in front of the camera."""
    seen = camera_data(camera, width, height)
    local = (points - camera.world[:3, 3]) @ camera.world[:3, :3]
    assert (local[:, 2] < 0).all()
    return np.asarray(local[:, :2] / -local[:, 2:] / seen.extent)


SIZES = [(1, 1, 1), (10, 1, 3), (1, 20, 1), (1, 1, 30), (4, 3, 0), (4, 0, 3), (0, 4, 3), (1e-3, 2e-3, 1e-3), (5e3, 1e3, 5e3)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("width", "height"), [(1280, 720), (400, 400), (300, 900)])
def test_a_scene_is_in_the_middle_of_the_picture_and_touches_its_margins(size: tuple[float, ...], width: int, height: int) -> None:
    scene = box(size, (7.0, -3.0, 2.0))  # type: ignore[arg-type]
    at = places(default_camera(scene, width / height), corners(scene), width, height)
    most, least = at.max(0), at.min(0)
    assert np.abs(at).max() <= 1 / MARGIN + 1e-4
    np.testing.assert_allclose(most, -least, atol=1e-4)
    assert most.max() == pytest.approx(1 / MARGIN, abs=1e-3)


@pytest.mark.parametrize("size", [(4, 3, 0.1), (4, 0.1, 3), (0.1, 4, 3)])
def test_a_plate_shows_its_face_and_not_its_edge(size: tuple[float, float, float]) -> None:
    normal = np.array(size) == min(size)
    view = default_camera(box(size)).world[:3, 2]
    assert view[normal][0] > 0.55


def test_the_camera_stands_level_in_front_to_the_right_and_above() -> None:
    camera = default_camera(box((1, 1, 1)))
    right, up, back = camera.world[:3, :3].T
    np.testing.assert_allclose(camera.world[:3, :3].T @ camera.world[:3, :3], np.eye(3), atol=1e-12)
    np.testing.assert_allclose(np.cross(right, up), back, atol=1e-12)
    assert right[1] == 0 and back[2] > back[0] > 0 and back[1] > 0


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_needle_along_any_axis_and_a_scene_of_nothing_are_framed_too(axis: int, tmp_path: Path) -> None:
    size = [0.0, 0.0, 0.0]
    size[axis] = 2.0
    thin = np.zeros((1, 3, 3), np.float32)
    thin[0, 1] = size
    thin[0, 2, (axis + 1) % 3] = 1e-6
    scene = scene_of((thin, grey(0.5)))
    assert np.abs(places(default_camera(scene), corners(scene), 64, 64)).max() < 1
    assert np.isfinite(default_camera(Scene(tmp_path)).world).all()
