"""A session draws, turns, begins anew, and tells what it did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.runtime import events
from renderer.pipeline.session import DeviceError, Session, pick_camera
from renderer.scene.gltf import load
from renderer.scene.model import Environment, Image, Material, Scene, SceneError, Texture
from renderer.scene.model_texture import TextureRef
from tests.renderer.helpers.picture_files import png
from tests.renderer.helpers.worlds import grey, icosphere, look_at, quad, scene_of


def open_session(scene: Scene, width: int = 24, height: int = 16, **options: object) -> Session:
    return Session(scene, width=width, height=height, **{"backend": "cpu", "spp": 2, "depth": 3, "threads": 1, **options})  # type: ignore[arg-type]


@pytest.fixture
def session(cornell: Path) -> Iterator[Session]:
    opened = open_session(load(cornell))
    yield opened
    opened.close()


def test_it_draws_a_picture(session: Session) -> None:
    session.frame()
    assert session.samples == 2
    mean, rgba = session.mean(), session.rgba()
    assert mean.shape == (16, 24, 3) and mean.dtype == np.float32
    assert rgba.shape == (16, 24, 4) and rgba.dtype == np.uint8
    assert 0.05 < mean.mean() < 1 and (rgba[..., 3] == 255).all()
    assert session.nonfinite == 0


def test_frames_add_up_and_converge(session: Session) -> None:
    session.frame()
    first = session.mean().copy()
    for _ in range(63):
        session.frame()
    assert session.samples == 128
    later = session.mean().copy()
    session.frame()
    assert np.abs(session.mean() - later).mean() < 0.05 * np.abs(first - later).mean()


def test_while_frames_run_nothing_is_compiled_or_allocated(session: Session) -> None:
    session.frame()
    before = session.counters
    for k in range(8):
        session.orbit(0.5 * k)
        session.exposure = 1.0 + k
        session.frame()
    after = session.counters
    assert after == before
    assert after.kernels >= 1 and after.compiles >= 1


def test_beginning_anew_draws_the_same_picture_again(session: Session) -> None:
    session.frame()
    first = session.mean().copy()
    session.frame()
    session.reset()
    assert session.samples == 0
    session.frame()
    np.testing.assert_array_equal(session.mean(), first)


def test_turning_begins_a_new_picture_and_turning_back_gives_the_old_one(session: Session) -> None:
    session.frame()
    first = session.mean().copy()
    session.orbit(8.0)
    session.frame()
    assert session.samples == 2
    assert (session.mean() != first).any()
    session.orbit(0.0)
    session.frame()
    np.testing.assert_array_equal(session.mean(), first)


def test_turning_keeps_what_is_at_the_pivot_in_the_middle() -> None:
    """A small lamp in the middle of the scene stays in the middle of the picture."""
    shell = quad([-3, -3, -3], [6, 0, 0], [0, 6, 0]), quad([3, -3, 3], [-6, 0, 0], [0, 6, 0])
    lamp = (icosphere(2, 0.3), grey(0.0, 1.0))
    scene = scene_of(lamp, *((s, grey(0.0)) for s in shell), camera=look_at((0, 0, 2.5), (0, 0, 0), 0.8))
    opened = open_session(scene, 33, 33, depth=1, spp=4)
    for degrees in (0, 30, -30, 75):
        opened.orbit(degrees)
        opened.frame()
        light = opened.mean()[..., 0]
        places = np.argwhere(light > 0.5)
        assert np.abs(places.mean(0) - 16).max() < 0.6
    opened.close()


def test_seeds_differ(cornell: Path) -> None:
    pictures = []
    for seed in (0, 1):
        opened = open_session(load(cornell), seed=seed)
        opened.frame()
        pictures.append(opened.mean().copy())
        opened.close()
    assert (pictures[0] != pictures[1]).mean() > 0.5


def test_brighter_exposure_shows_brighter_and_changes_no_radiance(session: Session) -> None:
    session.frame()
    dim, mean = session.rgba().astype(int).copy(), session.mean().copy()
    session.reset()
    session.exposure = 4.0
    session.frame()
    assert session.rgba()[..., :3].mean() > dim[..., :3].mean() + 10
    np.testing.assert_array_equal(session.mean(), mean)


def test_it_counts_rays_without_disturbing_the_picture(session: Session) -> None:
    session.frame()
    before = session.mean().copy()
    rays = session.count_rays()
    assert rays["primary"] == 24 * 16 * 2
    assert 0 < rays["shadow"] <= 2 * rays["primary"]
    assert 0 < rays["indirect"] <= 2 * rays["primary"]
    np.testing.assert_array_equal(session.mean(), before)
    assert session.samples == 2


def test_it_times_its_kernels_without_disturbing_the_picture(session: Session) -> None:
    session.frame()
    before = session.mean().copy()
    kernels = session.kernel_times()
    assert len(kernels) == session.counters.kernels
    for kernel in kernels:
        assert kernel.name and kernel.median_ms > 0 and kernel.launches_per_frame == 1 and kernel.workgroup >= 1
    assert session.last_kernel_ms is not None and session.last_kernel_ms > 0
    np.testing.assert_array_equal(session.mean(), before)


def test_it_says_what_it_runs_on(session: Session) -> None:
    device = session.device
    assert device.backend == "cpu" and device.name and not device.software
    assert device.group_width in (4, 8, 16) and device.compute_units == 1
    assert device.bytes_allocated is not None and device.bytes_allocated > 24 * 16 * 16
    assert {"bvh_build", "upload", "trace", "compile"} <= set(session.times)
    assert all(seconds >= 0 for seconds in session.times.values())


def test_progress_is_told(cornell: Path) -> None:
    told: list[tuple[str, float]] = []
    opened = open_session(load(cornell), progress=lambda label, fraction: told.append((label, fraction)))
    opened.close()
    assert told and all(label and 0 <= fraction <= 1 for label, fraction in told)


def test_a_scene_without_light_is_lit_by_a_sky_and_says_so_once() -> None:
    """C25: a lamp in the file turns it off."""
    lines: list[str] = []
    end = events.subscribe(lambda event: lines.append(str(event)), ["warning"])
    lit = scene_of((icosphere(2), grey(0.5)), (quad([9, 0, 0], [1, 0, 0], [0, 1, 0]), grey(0.0, 1e-6)))
    for scene, said in ((scene_of((icosphere(2), grey(0.5))), 1), (lit, 0)):
        lines.clear()
        opened = open_session(scene)
        opened.frame()
        opened.frame()
        assert (opened.mean().mean() > 0.3) == bool(said)
        assert sum("sky" in line for line in lines) == said
        opened.close()
    end()


def test_a_scene_of_nothing_is_an_error_that_names_the_file() -> None:
    empty = scene_of((np.zeros((1, 3, 3), np.float32), grey(0.5)))
    empty.warnings[:] = ["the scene has nothing to draw", "meshes[0]: is bad; it is skipped"]
    cause = r"made in code: there is nothing to draw: no triangles in its scene \(meshes\[0\]: is bad; it is skipped\)$"
    with pytest.raises(SceneError, match=cause):
        open_session(empty)


PICTURED = replace(grey(0.5, 1.0), emissive_texture=TextureRef(0), normal_texture=TextureRef(0))


@pytest.mark.parametrize(
    "materials",
    [[], [grey(0.5, 1.0)], [PICTURED]],
    ids=["without a material", "with a lamp that shines from nowhere", "with pictures"],
)
def test_where_it_is_allowed_a_scene_of_nothing_is_a_view_of_its_surroundings(materials: list[Material]) -> None:
    """C19: what the viewer shows. Edits find what they need there too."""
    blue = Environment((0.25, 0.5, 1.0))
    scene = Scene(Path("empty.ply"), materials=materials, environment=blue)
    scene.images, scene.textures = [Image("", png(np.full((2, 2, 3), 200, np.uint8)), "images[0]")], [Texture(0)]
    opened = open_session(scene, empty=True, spp=2)
    opened.frame()
    assert np.array_equal(opened.mean(), np.broadcast_to(np.float32([0.25, 0.5, 1.0]), (16, 24, 3))) and opened.nonfinite == 0
    assert opened.pick(5, 5) is None
    opened.scene.environment = Environment((2.0, 2.0, 2.0))
    assert opened.update_environment() and opened.update_instances([])
    opened.frame()
    assert (opened.mean() == 2.0).all()
    opened.close()


def test_cameras_are_found_by_number_and_by_name() -> None:
    scene = scene_of((icosphere(1), grey(0.5)), camera=look_at((0, 0, 5), (0, 0, 0)))
    assert pick_camera(scene, None) is scene.cameras[0]
    assert pick_camera(scene, 0) is pick_camera(scene, "0") is pick_camera(scene, "test") is scene.cameras[0]
    for unknown in (1, "1", -1, "north"):
        with pytest.raises(SceneError, match=r"there is no camera .*; the scene's cameras: 0 \(test\)"):
            pick_camera(scene, unknown)
    with pytest.raises(SceneError, match="cameras: none"):
        pick_camera(Scene(Path("x.gltf")), "0")


def test_a_device_that_is_not_there_is_an_error() -> None:
    with pytest.raises(DeviceError):
        open_session(scene_of((icosphere(1), grey(0.5))), backend="abacus")


def test_triangles_that_are_not_finite_are_left_out() -> None:
    mesh = np.concatenate([icosphere(1), np.full((1, 3, 3), np.nan, np.float32)])
    opened = open_session(scene_of((mesh, grey(0.5)), camera=look_at((0, 0, 5), (0, 0, 0))))
    opened.frame()
    assert np.isfinite(opened.mean()).all() and opened.nonfinite == 0
    opened.close()


def test_the_interpreter_can_hold_a_session(cornell: Path) -> None:
    pictures = []
    for backend in ("cpu", "reference"):
        opened = open_session(load(cornell), 12, 12, backend=backend)
        opened.frame()
        pictures.append(opened.mean().copy())
        opened.close()
    same = np.abs(pictures[0] - pictures[1]).max(-1) <= 1e-3 * (1 + pictures[1].max(-1))
    assert same.mean() > 0.97
