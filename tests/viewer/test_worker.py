"""The thread that draws: what it is told it shows, what it is not told costs nothing, and it can be stopped at any time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("moderngl", reason="the viewer's packages are not installed: pip install 'rayfuse[viewer]'")

from engine import Device, DeviceError, Tensor
from engine.runtime import choice
from engine.runtime.devices.cpu import CpuDevice
from renderer.app.opening import FrameOptions
from renderer.app.viewer.building import Build, Recipe, Source, Stage, Structure
from renderer.app.viewer.present import SLOTS, Frame
from renderer.app.viewer.worker import Built, Say, Shot, Worker
from renderer.pipeline.session import Session
from renderer.scene.gltf import load
from renderer.scene.model import Camera, Scene, SceneError

SIZE = (24, 16)
PATIENCE = 60.0


class Memory:
    """A presenter without a window: slots are arrays."""

    path, reason = "memory", ""

    def __init__(self) -> None:
        self.slots: dict[tuple[int, int, int], Tensor] = {}

    def reserve(self, width: int, height: int) -> None:
        """There is always room."""

    def target(self, slot: int, width: int, height: int) -> Tensor:
        key = (slot, width, height)
        if key not in self.slots:
            self.slots[key] = Tensor(np.zeros((height, width), np.uint32), dims=("height", "width"))
        return self.slots[key]

    def deliver(self, device: Device, slot: int, target: Tensor) -> Any:
        return target.numpy()

    def show(self, frame: Frame) -> None: ...

    def draw(self) -> None: ...

    def idle(self) -> bool:
        return True

    def release(self) -> None:
        self.slots = {}


def options(scene: Path, **changed: Any) -> FrameOptions:
    plain = FrameOptions(
        scene=scene, backend="cpu", width=SIZE[0], height=SIZE[1], spp=1, depth=3, seed=0, camera=None, workgroup=None, threads=2,
        denoiser="none", strict=False, quiet=True,
    )  # fmt: skip
    return replace(plain, **changed)


def recipe(path: Path, scene: Scene | None = None, workgroup: int | None = None, **changed: Any) -> Recipe:
    structure = Structure("cpu", workgroup, Source(path), None)
    return Recipe(structure, options(path, **changed), SIZE, scene, None, None, lambda message: None)


def until(condition: Callable[[], Any], what: str) -> Any:
    """Waits for something that another thread does."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
        time.sleep(0.002)


@pytest.fixture(scope="module")
def scene(cornell: Path) -> Scene:
    return load(cornell)


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    made: list[Worker] = []
    yield made
    for worker in made:
        worker.stop()
    assert all(worker.join(PATIENCE) for worker in made)


def shot_of(camera: Camera, **changed: Any) -> Shot:
    plain = Shot(
        camera=camera, size=SIZE, spp=1, depth=3, exposure=0.0, tonemapper="filmic",
        accumulate=True, max_samples=0,
    )  # fmt: skip
    return replace(plain, **changed)


def started(worker: Worker) -> Built:
    """Builds, with a place for its pictures."""
    worker.start()
    built: Built = until(lambda: worker.built or worker.failure, "the session is built")
    assert worker.failure is None, worker.failure
    worker.presenter = Memory()
    return built


def frame_of(worker: Worker, fits: Callable[[Frame], bool], what: str) -> Frame:
    """The first picture that fits."""

    def look() -> Frame | None:
        assert worker.failure is None, worker.failure
        frame = worker.exchange.take()
        return frame if frame is not None and fits(frame) else None

    found: Frame = until(look, what)
    return found


def test_pictures_gather_samples_until_there_are_enough(scene: Scene, cornell: Path, workers: list[Worker]) -> None:
    woken = threading.Event()
    worker = Worker(recipe(cornell, scene).build, woken.set, "first frame")
    workers.append(worker)
    built = started(worker)
    assert worker.exchange.take() is None  # nothing was asked for yet
    worker.show(shot_of(built.session.camera, max_samples=6))
    last = frame_of(worker, lambda frame: frame.samples == 6, "six samples")
    assert last.memory.shape == (SIZE[1], SIZE[0]) and last.memory.std() > 0
    assert woken.is_set() and len(worker.times) == 6
    time.sleep(0.1)
    assert worker.exchange.take() is None and len(worker.times) == 6  # then it rests
    worker.show(shot_of(built.session.camera, max_samples=9))
    assert frame_of(worker, lambda frame: frame.samples == 9, "three more").slot in range(SLOTS)


def test_another_exposure_keeps_the_samples_and_another_camera_does_not(scene: Scene, cornell: Path, workers: list[Worker]) -> None:
    worker = Worker(recipe(cornell, scene).build, lambda: None, "first frame")
    workers.append(worker)
    camera = started(worker).session.camera
    worker.show(shot_of(camera, max_samples=8))
    dark = frame_of(worker, lambda frame: frame.samples == 8, "eight samples").memory & 255
    worker.show(shot_of(camera, exposure=2.0, max_samples=9))
    bright = frame_of(worker, lambda frame: frame.samples == 9, "one more").memory & 255
    assert bright.mean() > dark.mean() + 10
    world = camera.world.copy()
    world[2, 3] += 0.1
    worker.show(shot_of(replace(camera, world=world), exposure=2.0, max_samples=4))
    assert frame_of(worker, lambda frame: frame.samples <= 4, "begun anew").samples <= 4
    worker.show(shot_of(replace(camera, world=world), exposure=2.0, size=(10, 30), max_samples=1))
    assert frame_of(worker, lambda frame: frame.size == (10, 30), "another size").memory.shape == (30, 10)
    worker.show(shot_of(camera, size=(200, 100), max_samples=1))
    more = frame_of(worker, lambda frame: frame.size == (200, 100), "a larger size")
    assert worker.facts is not None and (more.device_bytes or 0) >= (worker.facts.bytes_allocated or 0) + 200 * 100 * 16
    assert worker.compiles == 0  # none of that needed other code


def test_nothing_is_drawn_while_nothing_can_be_seen(scene: Scene, cornell: Path, workers: list[Worker]) -> None:
    worker = Worker(recipe(cornell, scene).build, lambda: None, "first frame")
    workers.append(worker)
    camera = started(worker).session.camera
    worker.show(shot_of(camera, max_samples=3))
    frame_of(worker, lambda frame: frame.samples == 3, "three samples")
    worker.show(shot_of(camera, max_samples=0, paused=True))
    time.sleep(0.1)
    assert len(worker.times) == 3
    worker.show(shot_of(camera, max_samples=0))
    assert frame_of(worker, lambda frame: True, "it goes on").samples >= 4  # where it was


def test_functions_run_between_frames_on_the_workers_thread(scene: Scene, cornell: Path, workers: list[Worker]) -> None:
    worker = Worker(recipe(cornell, scene).build, lambda: None, "first frame")
    workers.append(worker)
    found: list[Any] = []
    worker.post(lambda session: found.append(threading.current_thread().name))  # before there is a session
    camera = started(worker).session.camera
    until(lambda: found, "the function has run")
    assert found[0].startswith("rayfuse-worker")
    worker.show(shot_of(camera))
    worker.post(lambda session: found.append(session.pick(SIZE[0] // 2, SIZE[1] // 2)))
    until(lambda: len(found) == 2, "the second one has run")
    assert found[1] is not None and 0 <= found[1].instance < len(scene.instances)


def test_what_keeps_a_session_from_being_built_is_kept(cornell: Path, tmp_path: Path, workers: list[Worker]) -> None:
    broken = tmp_path / "broken.gltf"
    broken.write_text("{")
    woken = threading.Event()
    for path, changed, text in ((broken, {}, "broken.gltf"), (cornell, {"camera": "nobody"}, "there is no camera 'nobody'")):
        woken.clear()
        worker = Worker(recipe(path, **changed).build, woken.set, "first frame")
        workers.append(worker)
        worker.start()
        assert worker.join(PATIENCE) and woken.is_set()
        assert isinstance(worker.failure, SceneError) and text in str(worker.failure) and worker.built is None


def test_the_camera_that_was_named_is_one_of_the_scene_beside_it(cornell: Path, tmp_path: Path, workers: list[Worker]) -> None:
    other = tmp_path / "other.gltf"
    other.write_bytes(cornell.read_bytes())
    named = replace(recipe(cornell, camera="nobody"), structure=Structure("cpu", None, Source(other), None))
    worker = Worker(named.build, lambda: None, "scene other.gltf")
    workers.append(worker)
    assert started(worker).session.camera is not None


class Broken(CpuDevice):
    """A device whose driver compiles nothing."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.backend, self.name = "opencl", "a broken driver"

    def compile(self, kernel: Any) -> Any:
        raise DeviceError("the compiler ended")


def test_where_the_best_device_cannot_compile_the_next_is_taken(
    cornell: Path, workers: list[Worker], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JIT_CACHE", str(tmp_path))
    monkeypatch.setattr(choice, "forced", lambda: None)
    monkeypatch.setattr(choice, "_MAKERS", {"opencl": Broken, "cpu": CpuDevice})
    monkeypatch.setattr(choice, "_has_hardware", lambda: True)
    monkeypatch.setattr("engine.gl_sharing", lambda device: "there is nothing to share")
    auto = replace(recipe(cornell), structure=Structure("auto", None, Source(cornell), None))
    worker = Worker(auto.build, lambda: None, "first frame")
    workers.append(worker)
    assert started(worker).session.device.backend == "cpu"
    named = Worker(replace(auto, structure=replace(auto.structure, backend="opencl")).build, lambda: None, "backend auto -> opencl")
    workers.append(named)
    named.start()
    assert named.join(PATIENCE) and isinstance(named.failure, DeviceError)


def test_a_frame_that_fails_ends_the_worker_and_is_kept(scene: Scene, cornell: Path, workers: list[Worker]) -> None:
    worker = Worker(recipe(cornell, scene).build, lambda: None, "first frame")
    workers.append(worker)
    camera = started(worker).session.camera
    worker.show(shot_of(camera, tonemapper="none of these"))
    assert worker.join(PATIENCE)
    assert isinstance(worker.failure, ValueError)


HUGE = (2_000_000, 2_000_000)  # of which no machine has the memory


def test_a_picture_without_memory_is_told_of_and_the_next_one_is_drawn(scene: Scene, cornell: Path, workers: list[Worker]) -> None:
    woken = threading.Event()
    worker = Worker(recipe(cornell, scene).build, woken.set, "first frame")
    workers.append(worker)
    camera = started(worker).session.camera
    worker.show(shot_of(camera, max_samples=2))
    frame_of(worker, lambda frame: frame.samples == 2, "two samples")
    woken.clear()
    worker.show(shot_of(camera, size=HUGE))
    until(lambda: worker.trouble, "it is told")
    assert woken.is_set() and str(worker.trouble)
    worker.post(lambda session: worker.show(shot_of(camera, max_samples=3)))  # it hears still
    assert frame_of(worker, lambda frame: frame.size == SIZE, "the size before").memory.std() > 0
    assert worker.alive and worker.failure is None and worker.compiles == 0


def test_a_build_ends_at_its_next_step_when_it_is_stopped(workers: list[Worker]) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def build(say: Say) -> Built:
        say("one", 0.1)
        reached.set()
        go_on.wait(PATIENCE)
        say("two", 0.2)
        raise AssertionError("it went on")

    worker = Worker(build, lambda: None, "first frame")
    workers.append(worker)
    worker.start()
    assert reached.wait(PATIENCE)
    worker.stop()
    go_on.set()
    assert worker.join(PATIENCE) and worker.failure is None and worker.built is None
    assert worker.progress.label == "one"


def test_progress_tells_each_step_and_its_time(scene: Scene, cornell: Path, workers: list[Worker]) -> None:
    worker = Worker(recipe(cornell).build, lambda: None, "first frame")
    workers.append(worker)
    started(worker)
    steps = [label for label, _ in worker.progress.steps]
    assert steps.index("loading the scene") < steps.index("building the tree") < steps.index("preparing clicks")
    assert (worker.progress.label, worker.progress.fraction) == ("ready", 1.0)
    assert sum(seconds for _, seconds in worker.progress.steps) == pytest.approx(worker.progress.seconds)


# ---- the stage ----


class Play:
    """A stage whose builds wait for their cue."""

    def __init__(self, path: Path, scene: Scene) -> None:
        self.cues: dict[Structure, threading.Event] = {}
        self.whys: list[str] = []
        self.stage = Stage(self._make)
        self._path, self._scene = path, scene

    def _make(self, structure: Structure, why: str) -> Build:
        cue = self.cues.setdefault(structure, threading.Event())
        inner = recipe(self._path, self._scene, structure.workgroup)

        def build(say: Say) -> Built:
            cue.wait(PATIENCE)
            say("on", 0.0)
            if structure.backend == "no such":
                inner_with = replace(inner, structure=structure)
                return inner_with.build(say)
            return inner.build(say)

        self.whys.append(why)
        worker = Worker(build, lambda: None, why)
        worker.start()
        return Build(structure, worker, None)

    def swap(self, structure: Structure) -> None:
        """Lets a build finish, draw, and be seen."""
        self.cues[structure].set()
        coming = self.stage.coming
        assert coming is not None and coming.structure == structure
        built = until(lambda: coming.worker.built, "it is built")
        coming.worker.presenter = Memory()
        coming.worker.show(shot_of(built.session.camera))
        frame_of(coming.worker, lambda frame: True, "a first frame")
        self.stage.swap()


@pytest.fixture
def play(scene: Scene, cornell: Path) -> Iterator[Play]:
    made = Play(cornell, scene)
    yield made
    for cue in made.cues.values():
        cue.set()
    assert made.stage.close(PATIENCE)


def test_the_old_picture_goes_on_until_the_new_one_is_there(play: Play, cornell: Path) -> None:
    first = Structure("cpu", None, Source(cornell), None)
    second = replace(first, workgroup=512)
    play.stage.want(first)
    play.swap(first)
    old = play.stage.active
    assert old is not None
    play.stage.want(second)
    play.stage.want(second)  # every turn
    assert play.stage.active is old and play.whys == ["first frame", "workgroup auto -> 512"]
    frames = len(old.worker.times)
    until(lambda: len(old.worker.times) > frames + 3, "the old one draws")
    play.swap(second)
    assert play.stage.active is not old
    assert old.worker.join(PATIENCE)
    play.stage.sweep()
    assert [build.worker.why for build in play.stage.builds()] == ["workgroup auto -> 512"]


def test_the_newest_wish_wins(play: Play, cornell: Path) -> None:
    first = Structure("cpu", None, Source(cornell), None)
    play.stage.want(first)
    play.swap(first)
    play.stage.want(replace(first, workgroup=256))
    overtaken = play.stage.coming
    play.stage.want(replace(first, workgroup=512))
    assert overtaken is not None and play.stage.coming is not overtaken
    play.cues[replace(first, workgroup=256)].set()
    assert overtaken.worker.join(PATIENCE) and overtaken.worker.built is None
    play.stage.want(first)  # back to what is there: nothing to build
    assert play.stage.coming is None and len(play.whys) == 3
    play.stage.want(replace(first, workgroup=512))
    assert play.stage.coming is not None


def test_a_build_that_fails_changes_nothing_and_is_not_tried_again(play: Play, cornell: Path) -> None:
    first = Structure("cpu", None, Source(cornell), None)
    bad = replace(first, backend="no such")
    play.stage.want(first)
    play.swap(first)
    active = play.stage.active
    play.stage.want(bad)
    play.cues[bad].set()
    failure = until(play.stage.failed, "it fails")
    assert "there is no backend 'no such'" in str(failure) and play.stage.failed() is None
    play.stage.want(bad)
    assert play.stage.coming is None and play.stage.active is active
    assert active is not None and active.worker.alive


def test_a_build_without_memory_for_its_first_picture_has_failed(play: Play, cornell: Path) -> None:
    first = Structure("cpu", None, Source(cornell), None)
    play.stage.want(first)
    coming = play.stage.coming
    assert coming is not None
    play.cues[first].set()
    built = until(lambda: coming.worker.built, "it is built")
    coming.worker.presenter = Memory()
    coming.worker.show(shot_of(built.session.camera, size=HUGE))
    assert isinstance(until(play.stage.failed, "it fails"), MemoryError)
    assert play.stage.coming is None and coming.worker.join(PATIENCE)


def test_a_drag_that_outgrows_a_session_begins_one_build_and_not_one_with_each_turn(play: Play, cornell: Path) -> None:
    first = Structure("cpu", None, Source(cornell), None)
    play.stage.want(first)
    play.swap(first)
    active = play.stage.active
    assert active is not None and not play.stage.outgrown()
    active.outgrown = True
    assert play.stage.outgrown() and not play.stage.outgrown(), "told once"
    play.stage.want(replace(first, workgroup=512))
    active.outgrown = True  # the hand moves on
    assert not play.stage.outgrown(), "what is on its way will do"
    play.stage.want(first)
    assert play.stage.outgrown(), "nothing is on its way any more"
    play.stage.want(replace(first, workgroup=512))
    coming = play.stage.coming
    assert coming is not None
    coming.outgrown = True
    assert play.stage.outgrown(), "that one will not do either"


def test_why_something_is_built_is_told_in_words(cornell: Path) -> None:
    plain = Structure("auto", None, Source(cornell), None)
    other = Source(Path("other.glb"))
    for changed, words in (
        ({"backend": "opengl"}, "backend auto -> opengl"),
        ({"workgroup": 512, "backend": "cpu"}, "backend auto -> cpu, workgroup auto -> 512"),
        ({"scene": other}, "scene other.glb"),
        ({"scene": replace(plain.scene, reads=1)}, "scene cornell.gltf read again"),
        ({"scene": replace(plain.scene, changes=1)}, "scene cornell.gltf edited"),
        ({"shading": Source(Path("gold.py"))}, "shading gold.py"),
        ({"orthographic": True}, "orthographic camera"),
    ):
        assert replace(plain, **changed).why(plain) == words
    assert plain.why(replace(plain, shading=other)) == "shading built in"


def test_sessions_are_the_workers_own(scene: Scene, cornell: Path, workers: list[Worker]) -> None:
    """Two at a time, as during a swap, give the same picture."""
    pair = [Worker(recipe(cornell, scene).build, lambda: None, "first frame") for _ in range(2)]
    workers.extend(pair)
    sessions: list[Session] = [started(worker).session for worker in pair]
    for worker, session in zip(pair, sessions):
        worker.show(shot_of(session.camera, max_samples=4))
    one, other = (frame_of(worker, lambda frame: frame.samples == 4, "four samples").memory for worker in pair)
    assert np.array_equal(one, other)
