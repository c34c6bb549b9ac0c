"""The hand-written shaders draw our picture, and are timed as our kernels are."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from engine import DeviceError
from engine.runtime import events
from renderer.app import cli, record, static_program
from renderer.app.opening import UsageError
from renderer.pipeline.session import Session
from renderer.pipeline.tonemap import TONEMAPPERS
from renderer.scene.gltf import load
from renderer.scene.model import Environment, Light, Orthographic, Scene
from tests.renderer.helpers.worlds import grey, icosphere, look_at, quad, scene_of

Rayfuse = Callable[..., "subprocess.CompletedProcess[str]"]

WIDTH, HEIGHT = 64, 48
SAME = 1e-3
"""Mean absolute difference of two pictures, as a part of their mean. A path that goes another way by the last bit of a number, one in some
thousands, makes such a difference in a picture of this size; any other random number, weight or offset makes a hundred times as much."""


@pytest.fixture(scope="module", autouse=True)
def opengl() -> None:
    """OpenGL is there, or these tests are skipped."""
    from engine.runtime.devices.opengl import probe

    try:
        probe()
    except DeviceError as error:
        pytest.skip(str(error))


def pictures(scene: Scene, **options: int) -> tuple[np.ndarray, np.ndarray]:
    """The linear pictures of two frames: ours from the CPU, and that of the shaders. Both agree on the rays, too."""
    from renderer.app.static import StaticSession

    ours = Session(scene, width=WIDTH, height=HEIGHT, backend="cpu", threads=1, seed=7, **options)  # type: ignore[arg-type]
    theirs = StaticSession(scene, width=WIDTH, height=HEIGHT, seed=7, **options)  # type: ignore[arg-type]
    try:
        for session in (ours, theirs):
            session.frame()
            session.frame()
        rays, counted = ours.count_rays(), theirs.count_rays()
        assert all(abs(counted[kind] - rays[kind]) <= 2 + 1e-3 * rays[kind] for kind in ("primary", "shadow", "indirect"))
        assert theirs.nonfinite == ours.nonfinite == 0
        shown = np.abs(theirs.rgba().astype(int) - ours.rgba())
        assert (shown > 1).mean() < 1e-3
        return ours.mean(), theirs.mean()
    finally:
        ours.close()
        theirs.close()


def difference(scene: Scene, **options: int) -> float:
    """The mean absolute difference of both pictures, as a part of their mean."""
    ours, theirs = pictures(scene, **options)
    assert ours.mean() > 0.01
    return float(np.abs(theirs - ours).mean() / ours.mean())


def spheres(*, light: bool) -> Scene:
    """Two balls on a floor: curved meshes, whose pairs are not flat, under a lamp or under the sky."""
    parts = [
        (icosphere(2, 0.5, (-0.6, 0.5, 0.0)), grey((0.8, 0.5, 0.2))),
        (icosphere(1, 0.4, (0.5, 0.4, 0.3)), grey(0.6)),
        (quad((-3, 0, 3), (6, 0, 0), (0, 0, -6)), grey(0.5)),
    ]
    if light:
        parts.append((icosphere(0, 0.2, (0.3, 1.6, 0.5)), grey(0.0, emission=8.0)))
    return scene_of(*parts, camera=look_at((0.5, 1.2, 3.5), (0, 0.4, 0)))


def test_the_picture_of_a_room_is_ours(cornell: Path) -> None:
    assert difference(load(cornell), depth=4) < SAME


def test_so_is_that_of_many_segments_and_samples(cornell: Path) -> None:
    assert difference(load(cornell), depth=8, spp=3) < SAME


def test_so_is_that_of_the_lights_alone(cornell: Path) -> None:
    assert difference(load(cornell), depth=1) < SAME


def test_so_is_that_of_balls_under_the_sky() -> None:
    assert difference(spheres(light=False), depth=5) < SAME


def test_so_is_that_of_lamps_under_the_sky() -> None:
    scene = spheres(light=True)
    scene.environment = Environment((0.2, 0.3, 0.4), 0.5)
    assert difference(scene, depth=3) < SAME


def test_so_is_that_of_more_lights_than_a_ray_is_compared_with() -> None:
    lamps = [(icosphere(0, 0.05, (x, 1.5, z)), grey(0.0, emission=20.0)) for x in (-1, 0, 1) for z in (-1, 1)]
    scene = scene_of((quad((-2, 0, 2), (4, 0, 0), (0, 0, -4)), grey(0.7)), *lamps, camera=look_at((0, 2, 4), (0, 0.5, 0)))
    assert difference(scene, depth=3) < SAME


def test_lights_without_a_surface_are_left_out_and_that_is_said() -> None:
    from renderer.app.static import StaticSession

    scene = spheres(light=True)
    scene.lights = [Light("bulb", "point", np.eye(4), 0)]
    heard: list[str] = []
    end = events.subscribe(lambda event: heard.append(event.fields["message"]), {"warning"})
    try:
        StaticSession(scene, width=8, height=8).close()
    finally:
        end()
    assert "the hand-written shaders leave out the scene's punctual lights (KHR_lights_punctual)" in heard


def test_so_is_that_through_a_lens() -> None:
    scene = spheres(light=True)
    scene.cameras = [replace(camera, aperture=0.1, focus=3.0) for camera in scene.cameras]
    assert difference(scene, depth=2) < SAME


def test_so_is_that_without_perspective() -> None:
    scene = spheres(light=True)
    scene.cameras = [replace(camera, projection=Orthographic(1.5, 1.2)) for camera in scene.cameras]
    assert difference(scene, depth=2) < SAME


def test_a_picture_that_is_cut_into_dispatches_of_any_workgroup_is_the_same(cornell: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from renderer.app.static import StaticSession

    drawn = []
    for workgroup, slice_s in ((None, 1.0), (512, 1.0), (100, 1e-4)):
        monkeypatch.setattr(static_program, "_WHOLE_S", slice_s)
        monkeypatch.setattr(static_program, "_SLICE_S", slice_s)
        session = StaticSession(load(cornell), width=WIDTH + 3, height=HEIGHT + 1, depth=3, workgroup=workgroup)
        session.frame()
        drawn.append(session.mean())
        (kernel,) = session.kernel_times()
        assert (kernel.workgroup, kernel.launches_per_frame > 1) == (workgroup or 256, slice_s < 1)
        session.close()
    np.testing.assert_array_equal(drawn[1], drawn[0])
    np.testing.assert_array_equal(drawn[2], drawn[0])


@pytest.mark.parametrize("name", TONEMAPPERS)
def test_each_tone_mapper_is_ours(name: str) -> None:
    from renderer.app.static import StaticSession

    floor, lamp = quad((-2, 0, 2), (4, 0, 0), (0, 0, -4)), icosphere(2, 0.3, (0.3, 0.6, 0.5))
    # black, dim colours, and what is far brighter than a screen
    parts = ((floor, grey((0.8, 0.3, 0.05))), (lamp, grey(0.0, emission=30.0)))
    scene = scene_of(*parts, camera=look_at((0.5, 1.2, 3.5), (0, 0.4, 0)))
    ours = Session(scene, width=WIDTH, height=HEIGHT, backend="cpu", threads=1, spp=4)
    theirs = StaticSession(scene, width=WIDTH, height=HEIGHT, spp=4)
    try:
        ours.tonemapper = theirs.tonemapper = name
        assert theirs.tonemapper == name
        ours.frame()
        theirs.frame()
        expected, found = ours.rgba().astype(int), theirs.rgba().astype(int)
        assert len(np.unique(expected)) > 100, "the picture has many shades"
        assert (np.abs(found - expected) > 1).mean() < 2e-3
        with pytest.raises(ValueError, match="there is no tone mapper 'sepia'"):
            theirs.tonemapper = "sepia"
    finally:
        ours.close()
        theirs.close()


def test_turning_begins_a_new_picture_and_turning_back_gives_the_old_one(cornell: Path) -> None:
    from renderer.app.static import StaticSession

    session = StaticSession(load(cornell), width=WIDTH, height=HEIGHT, depth=2)
    session.frame()
    first = session.mean()
    session.frame()
    session.orbit(5.0)
    session.frame()
    assert session.samples == 1
    assert (session.mean() != first).any()
    session.orbit(0.0)
    session.frame()
    np.testing.assert_array_equal(session.mean(), first)
    session.close()


def test_a_benchmark_gives_the_record_of_our_own_kernels(rayfuse: Rayfuse, cornell: Path, tmp_path: Path) -> None:
    small = ("--size", 32, 24, "--depth", 3, "--frames", 4, "--warmup", 1, "--json", "-", "--quiet")
    target = tmp_path / "picture.npy"
    static = rayfuse("bench", cornell, "--static", "--workgroup", 128, *small, "--image", target)
    ours = rayfuse("bench", cornell, "--backend", "cpu", *small)
    assert (static.returncode, static.stderr, ours.returncode) == (0, "", 0)
    got, other = (msgspec.json.decode(done.stdout, type=record.Record) for done in (static, ours))
    assert (got.device.backend, got.settings.workgroup, got.settings.integrator) == ("opengl", 128, other.settings.integrator)
    assert (got.scene, got.rays.primary) == (other.scene, other.rays.primary)
    assert got.rays.total_per_frame == pytest.approx(other.rays.total_per_frame, rel=1e-3)
    assert got.image.mean_rgb == pytest.approx(other.image.mean_rgb, rel=1e-3)
    assert [(kernel.name, kernel.workgroup, kernel.launches_per_frame) for kernel in got.kernels] == [("frame.comp", 128, 1)]
    assert got.compile.during_frames == got.memory.allocations_during_frames == 0
    assert len(got.frame_ms.series) == got.measured_frames == 4
    assert 0 <= (got.host_overhead_ms.median or 0) < got.frame_ms.median
    assert np.load(target).shape == (24, 32, 3)


@pytest.fixture(scope="module")
def shaders(root: Path) -> Path:
    return root / "shaders_ref"


def test_every_file_is_part_of_the_program_once(shaders: Path) -> None:
    files = static_program.assembled({}, shaders).files
    assert sorted(files) == sorted(path.name for path in shaders.iterdir() if path.suffix in (".glsl", ".comp"))


def test_files_include_files_and_a_complaint_names_their_lines(tmp_path: Path) -> None:
    (tmp_path / "frame.comp").write_text('#version 430\n\n#include "a.glsl"\n#include "b.glsl"\nlast\n')
    (tmp_path / "a.glsl").write_text('#include "b.glsl"\nin a\n')
    (tmp_path / "b.glsl").write_text("in b\n")
    program = static_program.assembled({"SPEED": 3}, tmp_path)
    assert program.files == ["frame.comp", "b.glsl", "a.glsl"]
    assert program.text.splitlines() == ["#version 430", "#define SPEED 3", "", "in b", "in a", "last"]
    told = program.named("0:4(12): error: oh\n0(5) : error: no\n0(99) : off")
    assert told == "b.glsl:1(12): error: oh\na.glsl:2 : error: no\n0(99) : off"


def test_what_the_driver_does_not_take_is_told_with_its_file_and_line(tmp_path: Path, shaders: Path, cornell: Path) -> None:
    from renderer.app import static

    for path in shaders.iterdir():
        (tmp_path / path.name).write_text(path.read_text())
    broken = (shaders / "light.glsl").read_text().splitlines()
    line = broken.index("float errorAt(LightPoint light) { return OFFSET * max(largest(light.point), light.size); }")
    broken[line] = "float errorAt(LightPoint light) { return nowhere; }"
    (tmp_path / "light.glsl").write_text("\n".join(broken))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(static, "assembled", lambda defines: static_program.assembled(defines, tmp_path))
        with pytest.raises(DeviceError, match=rf"does not take the shaders of shaders_ref/: light\.glsl:{line + 1}.*nowhere"):
            static.StaticSession(load(cornell), width=8, height=8)


def test_without_the_shaders_it_is_said_where_they_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as told:
        static_program.check_there(tmp_path)
    assert str(told.value) == (
        f"--static: {tmp_path / 'frame.comp'} is not there, since only a checkout has the shaders; run rayfuse from one"
    )


def test_a_workgroup_beyond_the_driver_is_refused(cornell: Path) -> None:
    from renderer.app.static import StaticSession

    with pytest.raises(UsageError, match=r"--workgroup 1000000: .* has at most \d+ lanes a workgroup; use 256 or 512"):
        StaticSession(load(cornell), width=8, height=8, workgroup=1_000_000)


def test_materials_that_the_shaders_do_not_draw_are_refused(cornell: Path) -> None:
    from renderer.app.static import StaticSession

    scene = load(cornell)
    scene.materials[0] = replace(scene.materials[0], metallic=1.0)
    with pytest.raises(UsageError) as told:
        StaticSession(scene, width=8, height=8)
    assert str(told.value) == (
        f"{cornell}: the hand-written shaders draw matt surfaces without textures only, and its materials have more; take --static away"
    )


@pytest.mark.parametrize("backend", ["cpu", "opencl"])
def test_other_backends_have_no_hand_written_shaders(backend: str, cornell: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", str(cornell), "--static", "--backend", backend]) == 2
    told = f"rayfuse: error: --static: the hand-written shaders run on OpenGL alone; take --backend {backend} away\n"
    assert capsys.readouterr().err == told
