"""What a viewer does with a session: parameters, sizes, targets, edits and clicks compile nothing, and the picture begins anew only
where it is another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import Device, DeviceError, Tensor, open_device
from engine.runtime import choice, events
from engine.runtime.devices.cpu import CpuDevice
from renderer.pipeline import film
from renderer.pipeline.film import MOST, Films, blank
from renderer.pipeline.session import Counters, Session
from renderer.scene.gltf import load
from renderer.scene.model import Camera, Environment, Instance, Orthographic, Scene
from tests.renderer.helpers.worlds import grey, icosphere, look_at, quad, scene_of


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    opened = open_device("cpu", threads=1)
    yield opened
    opened.close()


def open_session(scene: Scene, device: Device | None, width: int = 24, height: int = 16, **options: Any) -> Session:
    return Session(scene, width=width, height=height, device=device, **{"depth": 3, **options})


@pytest.fixture
def session(cornell: Path, device: Device) -> Session:
    return open_session(load(cornell), device)


def work(counters: Counters) -> tuple[int, int]:
    return counters.compiles, counters.kernels


# ---- parameters ----


CHANGES: list[tuple[str, Callable[[Session], None], bool]] = [
    ("exposure", lambda s: setattr(s, "exposure", 3.0), False),
    ("tone mapper", lambda s: setattr(s, "tonemapper", "agx"), False),
    ("samples a frame", lambda s: setattr(s, "spp", 3), False),
    ("the same depth", lambda s: setattr(s, "depth", 3), False),
    ("the same camera", lambda s: s.set_camera(replace(s.camera, world=s.camera.world.copy())), False),
    ("the same camera by another name", lambda s: s.set_camera(replace(s.camera, name="other")), False),
    ("a focus that no lens looks at", lambda s: s.set_camera(replace(s.camera, focus=2.0)), False),
    ("the same size", lambda s: s.resize(s.width, s.height), False),
    ("a size of nothing", lambda s: s.resize(0, 12), False),
    ("strength of what is not there", lambda s: s.update_environment(), False),  # type: ignore[func-returns-value]
    ("no edit at all", lambda s: (s.update_materials([]), s.update_instances([])), False),  # type: ignore[return-value, func-returns-value]
    ("another depth", lambda s: setattr(s, "depth", 5), True),
    ("another camera", lambda s: s.set_camera(look_at((0.3, 1, 3.9), (0, 1, 0))), True),
    ("a lens", lambda s: s.set_camera(replace(s.camera, aperture=0.1)), True),
    ("parallel rays", lambda s: s.set_camera(replace(s.camera, projection=Orthographic(1.0, 1.0))), True),
    ("another size", lambda s: s.resize(31, 9), True),
    ("a turn", lambda s: s.orbit(5.0), True),
]


@pytest.mark.parametrize(("what", "change", "anew"), CHANGES, ids=[c[0] for c in CHANGES])
def test_a_change_compiles_nothing_and_begins_anew_only_if_the_picture_is_another(
    what: str, change: Callable[[Session], None], anew: bool, session: Session
) -> None:
    for _ in range(3):
        session.frame()
    before, structure = work(session.counters), session.structure()
    change(session)
    assert session.samples == (0 if anew else 3)
    session.frame()
    assert session.samples == session.spp * 1 + (0 if anew else 3)
    assert work(session.counters) == before
    assert session.structure() == structure
    assert session.mean().any() and np.isfinite(session.mean()).all()


def test_exposure_and_tone_mapper_show_at_the_next_frame(session: Session) -> None:
    session.frame()
    shown = {}
    for name in ("filmic", "linear", "agx"):
        session.tonemapper = name
        session.frame()
        shown[name] = session.rgba().astype(int).mean()
    assert session.samples == 4 and len({round(v) for v in shown.values()}) == 3
    with pytest.raises(ValueError, match="there is no tone mapper 'aces'"):
        session.tonemapper = "aces"
    assert session.tonemapper == "agx"


@pytest.mark.parametrize("made_for", [1, 4])
def test_samples_are_dealt_out_to_frames_as_one_likes(made_for: int, cornell: Path, device: Device) -> None:
    """However the session was made: the same samples, added up in another order."""
    session = open_session(load(cornell), device, spp=made_for)
    session.spp = 1
    for _ in range(6):
        session.frame()
    one = session.mean().copy()
    session.reset()
    for spp in (3, 1, 2):
        session.spp = spp
        session.frame()
        assert len(session.last_kernels) == 1 and session.last_kernels[0].launches_per_frame == (spp if made_for == 1 else 1)
    assert session.samples == 6 and session.counters.compiles == 1
    np.testing.assert_allclose(session.mean(), one, rtol=1e-4, atol=1e-6)


def test_depth_is_that_of_a_session_made_with_it(cornell: Path, device: Device) -> None:
    session = open_session(load(cornell), device)
    for depth in (1, 2, 3, 8):
        session.depth = depth
        session.frame()
        other = open_session(load(cornell), device, depth=depth)
        other.frame()
        np.testing.assert_array_equal(session.mean(), other.mean())


def test_frames_that_stand_alone_differ_in_noise_only(session: Session) -> None:
    session.accumulate = False
    pictures = []
    for _ in range(64):
        session.frame()
        assert session.samples == 1
        pictures.append(session.mean().copy())
    assert (pictures[0] != pictures[1]).any()
    session.accumulate = True
    session.reset()
    for _ in range(64):
        session.frame()
    np.testing.assert_allclose(np.mean(pictures, axis=0), session.mean(), rtol=1e-4, atol=1e-6)


def test_the_last_frame_that_stands_alone_is_the_first_that_is_kept(session: Session) -> None:
    session.accumulate = False
    for _ in range(3):
        session.frame()
    alone = session.mean().copy()
    session.accumulate = True
    session.frame()
    assert session.samples == 2
    second = 2 * session.mean() - alone
    assert np.abs(second - alone).max() > 0.01 and second.min() > -1e-4


def test_the_sky_is_as_strong_as_one_likes(device: Device) -> None:
    scene = scene_of((icosphere(2), grey(0.5)), camera=look_at((0, 0, 5), (0, 0, 0)))
    session = open_session(replace(scene, environment=Environment((1.0, 2.0, 4.0), 0.5)), device)
    session.frame()
    once = session.mean().copy()
    np.testing.assert_allclose(once[0, 0], (0.5, 1.0, 2.0), rtol=1e-6)
    session.scene.environment = Environment((1.0, 2.0, 4.0), 1.5)
    assert session.update_environment()
    assert session.samples == 0
    session.frame()
    np.testing.assert_allclose(session.mean(), 3 * once, rtol=1e-5)


def test_the_timings_are_those_of_the_frame(session: Session) -> None:
    session.frame()
    (kernel,) = session.last_kernels
    assert kernel.median_ms == session.last_kernel_ms is not None and kernel.median_ms > 0 and kernel.workgroup >= 1


# ---- sizes ----


@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 300), (16384, 16), (3, 1000)])
def test_extreme_sizes_are_drawn_whole_and_compile_nothing(width: int, height: int, session: Session) -> None:
    session.frame()
    before = work(session.counters)
    session.resize(width, height)
    session.depth = 1
    session.frame()
    mean, rgba = session.mean(), session.rgba()
    assert mean.shape == (height, width, 3) and rgba.shape == (height, width, 4)
    assert np.isfinite(mean).all() and (rgba[..., 3] == 255).all()
    assert work(session.counters) == before


def test_a_session_can_begin_without_a_size(cornell: Path, device: Device) -> None:
    session = open_session(load(cornell), device, width=0, height=0)
    session.frame()
    assert session.mean().shape == (1, 1, 3)
    session.resize(24, 16)
    session.frame()
    assert session.mean().shape == (16, 24, 3)


def test_coming_back_to_a_size_allocates_nothing(session: Session) -> None:
    sizes = [(24, 16), (48, 32), (36, 24)]
    for size in sizes:
        session.resize(*size)
        session.frame()
    held, before = session.device.bytes_allocated, session.counters
    for size in (*sizes, *reversed(sizes)):
        session.resize(*size)
        session.frame()
        assert session.samples == (2 if size == sizes[-1] and session.samples == 2 else 1)
    assert session.counters == before and session.device.bytes_allocated == held


def test_films_are_kept_for_a_few_sizes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    films = Films()
    first = films.of(8, 8)
    for k in range(MOST - 1):
        films.of(9 + k, 8)
    assert films.of(8, 8) is first
    films.of(100, 8)
    films.of(101, 8)
    assert films.of(8, 8) is first  # used not long ago
    for k in range(MOST):
        films.of(9 + k, 8)
    assert films.of(8, 8) is not first
    monkeypatch.setattr(film, "MOST_BYTES", 500 * 400 * 20 - 1)
    large = films.of(500, 400)
    assert films.of(500, 400) is large and films.bytes >= 500 * 400 * 20
    other = films.of(400, 400)  # beside it there is no room for the large one
    assert films.of(400, 400) is other and films.bytes == 400 * 400 * 20


def test_a_resized_picture_is_that_of_a_session_of_that_size(cornell: Path, device: Device) -> None:
    session = open_session(load(cornell), device, 40, 10)
    session.orbit(7.0)
    session.frame()
    session.resize(24, 16)
    session.frame()
    other = open_session(load(cornell), device, 24, 16)
    other.orbit(7.0)
    other.frame()
    np.testing.assert_array_equal(session.mean(), other.mean())


# ---- targets ----


def over(width: int, height: int) -> tuple[np.ndarray[Any, Any], Tensor]:
    """Memory of ours, and a Tensor in it."""
    raw = np.zeros(width * height + 32, np.uint32)
    start = -raw.ctypes.data % 64 // 4
    memory = raw[start : start + width * height].reshape(height, width)
    return memory, Tensor.over(memory, dims=("height", "width"))


def test_frames_are_written_to_targets_in_turn(session: Session) -> None:
    session.frame()
    targets = [over(24, 16) for _ in range(3)]
    for _, target in targets:
        session.frame(target)
    before = session.counters
    for k in range(6):
        memory, target = targets[k % 3]
        memory[:] = 0
        session.frame(target)
        np.testing.assert_array_equal(memory.view(np.uint8).reshape(16, 24, 4), session.rgba())
        assert (memory >> 24 == 255).all()
    assert session.counters == before
    assert session.samples == 10
    kept = targets[0][0].copy()
    session.exposure = 5.0
    session.frame()
    np.testing.assert_array_equal(targets[0][0], kept)
    assert (session.rgba().view(np.uint32)[..., 0] != kept).any()


def test_a_target_of_another_size_is_refused(session: Session) -> None:
    with pytest.raises(ValueError, match=r"the size '(height|width)' is \d+ in film.total and \d+ in picture"):
        session.frame(blank(16, 25))
    session.frame()


# ---- edits ----


def same_picture(session: Session, scene: Scene, device: Device) -> bool:
    """Whether the session draws what one made of the scene would, but for the few paths that another tree sends elsewhere."""
    session.reset()
    other = open_session(scene, device, session.width, session.height)
    for _ in range(4):
        session.frame()
        other.frame()
    a, b = session.mean(), other.mean()
    return bool((np.abs(a - b).max(-1) <= 1e-3 * (1 + b.max(-1))).mean() > 0.95)


def test_edits_are_drawn_and_compile_nothing(session: Session, device: Device) -> None:
    scene = session.scene
    session.frame()
    before, structure, first = work(session.counters), session.structure(), session.mean().copy()
    box = next(k for k, i in enumerate(scene.instances) if i.name == "small-box")
    paint = scene.meshes[scene.instances[box].mesh].geometries[0].material
    scene.materials[paint] = replace(scene.materials[paint], base_color_factor=(0.9, 0.1, 0.1, 1.0))
    assert session.update_materials([paint]) and session.samples == 0
    session.frame()
    assert (session.mean() != first).any()
    world = scene.instances[box].world.copy()
    world[0, 3] += 0.2
    scene.instances[box] = replace(scene.instances[box], world=world)
    assert session.update_instances([box]) and session.samples == 0
    session.frame()
    assert same_picture(session, scene, device)
    assert work(session.counters) == before and session.structure() == structure


def test_an_edit_beyond_the_structure_is_refused_and_the_picture_goes_on(device: Device) -> None:
    scene = scene_of(
        (icosphere(2), grey(0.5)), (quad([-5, -2, -5], [0, 0, 10], [10, 0, 0]), grey(0.5)), camera=look_at((0, 0, 5), (0, 0, 0))
    )
    session = open_session(scene, device)
    session.frame()
    first, material, instance = session.mean().copy(), scene.materials[0], scene.instances[0]
    scene.materials[0] = replace(material, emissive=(1.0, 1.0, 1.0))  # the first lamp
    assert not session.update_materials([0])
    assert session.samples == 1
    scene.materials[0] = material
    assert session.update_materials([0])
    scene.instances[0] = replace(instance, world=np.diag([0.0, 0.0, 0.0, 1.0]))  # nothing is left
    assert not session.update_instances([0])
    scene.instances[0] = instance
    scene.environment = Environment((2.0, 2.0, 2.0))
    assert session.update_environment()
    session.frame()
    np.testing.assert_allclose(session.mean()[0, 0], (2.0, 2.0, 2.0), rtol=1e-6)
    scene.environment = None
    assert session.update_environment()
    session.frame()
    np.testing.assert_array_equal(session.mean(), first)


def test_a_scene_read_again_is_drawn_from_the_same_place(cornell: Path, device: Device) -> None:
    session = open_session(load(cornell), device)
    session.orbit(4.0)
    session.frame()
    before = work(session.counters)
    again = load(cornell)
    for k, instance in enumerate(again.instances):
        if "box" in instance.name:
            again.instances[k] = replace(instance, world=instance.world @ np.diag([1.0, 0.7, 1.0, 1.0]))
    assert session.update_geometry(again) and session.scene is again
    assert session.samples == 0
    session.frame()
    other = open_session(again, device)
    other.orbit(4.0)
    other.frame()
    assert (np.abs(session.mean() - other.mean()).max(-1) <= 1e-3).mean() > 0.95
    assert work(session.counters) == before
    assert not session.update_geometry(scene_of((icosphere(2), grey(0.5))))
    assert session.scene is again


# ---- clicks ----


def test_a_click_finds_what_the_pixel_shows(device: Device) -> None:
    """Two quads side by side, one of them a mesh's second geometry, placed twice."""
    left, right = quad([-2, -1, 0], [2, 0, 0], [0, 2, 0]), quad([0, -1, 0], [2, 0, 0], [0, 2, 0])
    scene = scene_of((left, grey(0.3)), (right, grey(0.6)), camera=look_at((0, 0, 4), (0, 0, 0), 0.8))
    farther = np.eye(4)
    farther[:3, 3] = (0, 1.2, -2)
    scene.instances.append(Instance(0, farther, "again", 1))
    session = open_session(scene, device, 41, 31)
    session.prepare_pick()
    before = work(session.counters)
    cases = {(10, 15): (0, 0, 0), (30, 15): (0, 1, 1), (19, 4): (1, 0, 0), (21, 4): (1, 1, 1)}
    for (x, y), (instance, material, geometry) in cases.items():
        found = session.pick(x, y)
        assert found is not None
        assert (found.instance, found.material, found.geometry) == (instance, material, geometry)
        depth = 4.0 if instance == 0 else 6.0
        half = np.tan(0.4) * depth
        where = ((x + 0.5) / 41 * 2 - 1) * half * 41 / 31, (1 - (y + 0.5) / 31 * 2) * half
        np.testing.assert_allclose(found.point, (*where, 4 - depth), atol=1e-4)
        np.testing.assert_allclose(found.distance, np.hypot(depth, np.hypot(*where)), rtol=1e-5)
    assert session.pick(20, 0) is None
    assert work(session.counters) == before


@pytest.mark.parametrize("camera", [look_at((0, 0, 50), (0, 0, 0), 0.05), look_at((0, 0, 50), (0, 0, 0), Orthographic(2.0, 2.0))])
def test_a_click_from_afar_and_through_any_camera_hits_the_middle(camera: Camera, device: Device) -> None:
    scene = scene_of((icosphere(3), grey(0.5)), camera=replace(camera, aperture=0.3))
    found = open_session(scene, device, 33, 33).pick(16, 16)
    assert found is not None
    np.testing.assert_allclose(found.point, (0, 0, 1), atol=0.02)
    np.testing.assert_allclose(found.distance, 49, atol=0.02)


def test_clicks_follow_edits(session: Session) -> None:
    scene = session.scene
    x, y = 12, 8
    before = session.pick(x, y)
    assert before is not None
    world = scene.instances[before.instance].world.copy()
    world[:3, 3] += (0, 50, 0)
    scene.instances[before.instance] = replace(scene.instances[before.instance], world=world)
    assert session.update_instances([before.instance])
    after = session.pick(x, y)
    assert after is None or after.instance != before.instance


# ---- devices ----


def test_a_device_that_was_given_stays_open(cornell: Path) -> None:
    given = open_device("cpu", threads=1)
    for _ in range(2):
        session = open_session(load(cornell), given)
        session.frame()
        session.close()
        assert session.mean().any()
    given.close()


class Broken(CpuDevice):
    """A device whose driver compiles nothing."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.backend, self.name = "opencl", "a broken driver"

    def compile(self, kernel: Any) -> Any:
        raise DeviceError("the compiler ended with\nan error")


def test_where_the_best_device_cannot_compile_the_next_is_taken_with_a_warning(
    cornell: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JIT_CACHE", str(tmp_path))
    for variable in ("CPU", "CL", "GL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(choice, "_MAKERS", {"opencl": Broken, "cpu": CpuDevice})
    monkeypatch.setattr(choice, "_has_hardware", lambda: True)
    told: list[str] = []
    end = events.subscribe(lambda event: told.append(event.fields["message"]), {"warning"})
    session = Session(load(cornell), width=8, height=8, threads=1)
    session.frame()
    assert session.device.backend == "cpu" and session.mean().any()
    session.close()
    assert [t for t in told if "broken" in t] == [
        f"a broken driver (opencl) is not used: the compiler ended with an error; {session.device.name} is taken instead"
    ]
    with pytest.raises(DeviceError, match="the compiler ended"):
        Session(load(cornell), width=8, height=8, backend="opencl")
    end()
