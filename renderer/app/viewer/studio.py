"""From what is wanted to the pictures that are seen: settings, scene and camera in, finished frames out.

A `Studio` has the document, the workers on their stage, and the pacing. In its turn, once a turn of the loop, it compares what is wanted
with what the workers were told: structure becomes a build in the background, edits become updates of running sessions, all else goes
into the `Shot` that the next frame takes up. Then it takes the newest finished frame to its presenter, and notes in the figures and the
recorder what that frame has to tell. It draws nothing and hears of no event: that is the loop's (`app`).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from renderer.app.host import peak_memory
from renderer.app.opening import FrameOptions
from renderer.app.terminal import one_line
from renderer.app.viewer.beside import RayCount, Usable
from renderer.app.viewer.building import Build, Recipe, Stage, Structure, may_share
from renderer.app.viewer.controls import is_orthographic, pivoted
from renderer.app.viewer.document import Document
from renderer.app.viewer.editing import Selection, take_up
from renderer.app.viewer.pacing import Pacing, size_at
from renderer.app.viewer.present import Frame, Presenter, Screen, presenter_for
from renderer.app.viewer.recorder import Recorder
from renderer.app.viewer.reload import Changed, Watcher
from renderer.app.viewer.state import CompileFigure, Figures, KernelFigure, Settings
from renderer.app.viewer.window import DisplayError, Window
from renderer.app.viewer.worker import Built, Shot, Worker
from renderer.scene.model import Scene

if TYPE_CHECKING:
    from renderer.pipeline.pick import Pick
    from renderer.pipeline.session import Session
    from renderer.scene.model import Camera

COUNT_AFTER = 8  # samples at rest, after which rays are counted


class Loop(Protocol):
    """What the studio asks of the loop that it works for. `later` and `warn` may be called from any thread."""

    def later(self, function: Callable[[], None]) -> None:
        """Runs a function in the next turn."""

    def damaged(self, turns: int = ...) -> None:
        """The window must be drawn again."""

    def say(self, message: str) -> None:
        """A notice at the window's edge."""

    def warn(self, message: str) -> None:
        """Something about the scene or the device that is to be known."""


class Studio:
    """`presenter` has the picture to be seen, None before there is one; `full` is the picture's size at rest; `failure` is what kept
    the first picture from coming."""

    def __init__(
        self, options: FrameOptions, material: Path | None, settings: Settings, figures: Figures, recorder: Recorder, window: Window,
        screen: Screen, loop: Loop,
    ) -> None:  # fmt: skip
        self.options, self.settings, self.figures, self.recorder = options, settings, figures, recorder
        self.window, self.screen, self.loop = window, screen, loop
        self.document = Document(options.scene, material)
        self.pacing = Pacing()
        self.presenter: Presenter | None = None
        self.failure: Exception | None = None
        self._stage = Stage(self._make)
        self._watcher = Watcher(lambda changed: loop.later(lambda: self._file_changed(changed)), loop.say)
        self._framebuffer = (0, 0)
        self.full = size_at(window.framebuffer, settings.render_scale)
        self._taking_ms: float | None = None  # spent on a picture that is not drawn yet
        self._size = self.full  # that pictures were asked for in last
        self._refusal = ""  # the error that tells that there is no memory for one
        self._steady: tuple[Any, ...] = ()  # what makes the picture, as it was in the turn before
        self._seen: Camera | None = None  # that was recorded last
        self._told = {"backend": settings.backend, "workgroup": settings.workgroup}
        self._camera = settings.camera
        self._usable: Usable | None = None
        self._count: RayCount | None = None
        self._counted: tuple[Any, ...] = ()

    def turn(self, now: float) -> None:
        """Once a turn of the loop. `now`: seconds of `time.perf_counter`."""
        if self._stage.outgrown():
            self.document.restructure()
        self._follow_settings()
        self._advance_build()
        self._follow_edits()
        self.turn_at_rest(now)
        self._look_beside()
        self._stage.sweep()

    def turn_at_rest(self, now: float) -> None:
        """The part of a turn that gets the next picture of what is there."""
        self._shoot(now)
        self._take()

    def drawn(self, ms: float) -> None:
        """The presenter's picture was drawn into the window, in this time."""
        if self._taking_ms is not None:
            ms, self._taking_ms = ms + self._taking_ms, None
            self.recorder.presented(ms)
            before = self.figures.present_ms
            self.figures.present_ms = ms if before is None else before + 0.1 * (ms - before)

    def go_home(self) -> None:
        """To the camera that is chosen in the list, as the scene has it."""
        width, height = self.full
        self.document.go_home(self._camera, width / max(1, height))

    def click(self, x: float, y: float, double: bool) -> None:
        """A click at a place of the picture, from 0 to 1 from its top left: selects, and twice sets the pivot."""
        if self._stage.active is not None:
            self._stage.active.worker.post(functools.partial(self._pick, (x, y), double))

    def close(self, seconds: float) -> bool:
        """Ends all threads, waiting so long; False where one is in what cannot be broken off."""
        self.presenter = None
        self._watcher.close()
        if self._usable is not None:
            self._usable.close()
        return self._stage.close(seconds) and (self._count is None or not self._count.alive)

    # ---- what is wanted ----

    def _follow_settings(self) -> None:
        """Takes note of what the panel or a key has set."""
        settings = self.settings
        for name, told in self._told.items():
            value = getattr(settings, name)
            if value != told:
                self._told[name] = value
                self.recorder.event(name, "auto" if value is None else value)
        if settings.camera != self._camera:
            self._camera = settings.camera
            self.go_home()
        self._stage.want(self.document.structure(settings, self._stage.active))

    def _file_changed(self, changed: Changed) -> None:
        """A file that is shown has been written, by somebody else."""
        if self.document.is_own(changed.path):
            return
        self.recorder.event("reload", str(changed.path))
        if changed.kind == "scene":
            self.document.open(self.document.source.path)
        else:
            self.document.read_shading_again()

    def _follow_edits(self) -> None:
        """Hands what was changed in the scene to the sessions of it."""
        editor = self.document.editor
        changes = editor.take_changes() if editor is not None else None
        if editor is None or not changes:
            return
        numbers = {name: sorted(getattr(changes, name)) for name in ("materials", "instances", "cameras", "lights")}
        self.recorder.event("edit", {**numbers, "environment": changes.environment, "variant": changes.variant, "culled": changes.culled})
        self.loop.damaged()
        if self._camera in changes.cameras:
            self.document.follow_camera(self._camera)
        if changes.variant:
            self._count_scene(editor.scene)
        if changes.seen:
            self.pacing.moved(time.perf_counter())
            for build in self._stage.builds():
                build.untold.append((editor.scene, changes))
                build.worker.post(functools.partial(self._update, build))

    def _update(self, build: Build, session: Session) -> None:
        """On a worker's thread: parts of a scene are others now."""
        if not take_up(build.untold, session):
            self.loop.later(functools.partial(setattr, build, "outgrown", True))

    # ---- building ----

    def _make(self, structure: Structure, why: str) -> Build:
        """Starts a worker for a structure."""
        context = None
        if may_share(structure.backend):
            try:
                context = self.window.shared_context()
            except DisplayError as error:
                self.loop.say(str(error))
        scene = self.document.known(structure.scene)
        recipe = Recipe(
            structure=structure,
            options=self.options,
            size=self.full,
            scene=scene,
            camera=self.document.camera if scene is not None else None,
            context=context,
            warn=self.loop.warn,
        )
        self._watch(structure)
        worker = Worker(recipe.build, self.window.wake, why)
        worker.start()
        return Build(structure, worker, context)

    def _watch(self, structure: Structure) -> None:
        self._watcher.watch("scene", structure.scene.path)
        self._watcher.watch("shading", structure.shading.path if structure.shading is not None else None)

    def _advance_build(self) -> None:
        """Looks after the build that is under way: its presenter, its first frame, its failure."""
        failed = self._stage.failed()
        if failed is not None:
            self._build_failed(failed)
        active, coming = self._stage.active, self._stage.coming
        if active is not None and active.worker.failure is not None and not self.figures.error:
            self.figures.error = one_line(active.worker.failure)
            self.loop.damaged()
        if active is not None and active.worker.trouble is not None:
            self._refuse(active.worker.trouble)
            active.worker.trouble = None
        self.figures.building = coming.worker.progress if coming is not None else None
        if coming is None:
            return
        self.loop.damaged(1)
        worker, built = coming.worker, coming.worker.built
        if built is None:
            return
        if worker.presenter is None:
            coming.scene, coming.orthographic = built.scene, is_orthographic(built.session.camera)
            worker.presenter = presenter_for(self.screen, built.device, built.not_shared)
        frame = worker.exchange.take()
        if frame is not None:
            self._swap(coming, built, worker.presenter, frame)

    def _build_failed(self, error: Exception) -> None:
        """The old picture stays, and the settings that belong to it come back; without an old picture it is the end, unless the scene
        is another one than was asked for: it was dropped on the window too early."""
        active = self._stage.active
        if active is None and self.document.source.path == self.options.scene:
            self.failure = error
            return
        if active is None:
            self.loop.say(one_line(error))
            self.document.open(self.options.scene)
            return
        if self.document.source.same_file(active.structure.scene):
            active.outgrown = False  # it was built for just that, perhaps: not tried again before something else is changed
        self.figures.error = one_line(error)
        self.settings.backend, self.settings.workgroup = active.structure.backend, active.structure.workgroup
        self._told = {"backend": self.settings.backend, "workgroup": self.settings.workgroup}
        self.document.revert(active.structure)
        self._watch(active.structure)
        self.loop.damaged()

    def _swap(self, build: Build, built: Built, presenter: Presenter, frame: Frame) -> None:
        """The coming worker has its first picture: from now on it is seen."""
        first = self._stage.active is None
        self._stage.swap()
        worker, session, figures = build.worker, built.session, self.figures
        if self.document.adopt(built.scene, session.camera, build.structure.scene, self.settings):
            self._camera = self.settings.camera
            self._count_scene(built.scene)
        counters, facts, lanes = session.counters, worker.facts, build.structure.workgroup
        assert facts is not None, "known with the session"
        self.window.set_title(f"rayfuse — {built.scene.path.name} — {facts.backend}{f' {lanes}' if lanes else ''}")
        figures.compiles.append(CompileFigure(self.recorder.now, worker.why, worker.seconds, counters.cache_misses))
        if first:
            for label, seconds in worker.progress.steps:
                self.recorder.warmup_step(label, seconds)
            self._usable = Usable()
        else:
            self.recorder.compiled(worker.why, worker.seconds, background=True)
        self.recorder.device(facts)
        self.recorder.presenting(presenter.path, presenter.reason)
        figures.error, figures.building, figures.look = "", None, session.look
        figures.device, figures.driver, figures.backend, figures.software = facts.name, facts.driver or "", facts.backend, facts.software
        figures.present_path, figures.present_reason, figures.present_ms = presenter.path, presenter.reason, None
        figures.frame_ms.clear()
        self.pacing.ms_per_pixel = None
        self._counted, figures.rays_per_s = (), None
        self._show(presenter, frame)

    def _count_scene(self, scene: Scene) -> None:
        totals, figures = scene.totals(), self.figures
        figures.triangles, figures.instances, figures.lights = totals.triangles, totals.instances, totals.lights

    # ---- pictures ----

    def _shoot(self, now: float) -> None:
        """Tells the workers what to draw."""
        settings, window = self.settings, self.window
        if window.visible and window.framebuffer != self._framebuffer:
            self._framebuffer = self.figures.window = window.framebuffer
            self.recorder.event("resize", list(self._framebuffer))
            self.loop.damaged()
        self.full = size_at(self._framebuffer, settings.render_scale)
        active, camera = self._stage.active, self.document.camera
        steady = (camera, self.full, settings.spp, settings.depth)
        if self._steady and (camera is not self._steady[0] or steady[1:] != self._steady[1:]):
            self.pacing.moved(now)
        self._steady = steady
        self._tell_of_camera(self.pacing.moving(now))
        size = self._size = size_at(self._framebuffer, self.pacing.scale(now, self._framebuffer, settings.target_ms, settings.render_scale))
        for build in (active, self._stage.coming):
            if build is None or build.worker.built is None or build.worker.presenter is None:
                continue
            seen = self.document.editor is not None and build.scene is self.document.editor.scene
            fits = seen and camera is not None and is_orthographic(camera) == build.orthographic
            shot = Shot(
                camera=camera if fits and camera is not None else build.worker.built.session.camera,
                size=size,
                spp=settings.spp,
                depth=settings.depth,
                exposure=settings.exposure,
                tonemapper=settings.tonemapper,
                accumulate=settings.accumulate,
                max_samples=settings.max_samples,
                paused=not window.visible,
            )
            try:
                build.worker.presenter.reserve(*size)
            except MemoryError as error:
                self._refuse(error)
                continue
            build.worker.show(shot)

    def _refuse(self, error: MemoryError) -> None:
        """Tells that there is no memory for the picture that is wanted; until there is one of that size."""
        refusal = f"out of memory: {one_line(error)}"
        if refusal != self._refusal:
            self._refusal = self.figures.error = refusal
            self.loop.damaged()

    def _tell_of_camera(self, moving: bool) -> None:
        """Records where the camera is when it has come to rest."""
        view = self.document.view
        if view is None or moving or view.camera is self._seen:
            return
        if self._seen is not None:
            eye, pivot = ([round(float(x), 6) for x in point] for point in (view.camera.world[:3, 3], view.pivot))
            self.recorder.event("camera", {"eye": eye, "pivot": pivot})
        self._seen = view.camera

    def _take(self) -> None:
        """Takes the newest finished picture of the active worker, and the times of all since the last."""
        active = self._stage.active
        if active is None:
            return
        worker, figures = active.worker, self.figures
        while worker.times:
            ms, pixels = worker.times.popleft()
            self.recorder.frame(ms)
            self.pacing.drawn(ms, pixels)
            figures.frame_ms.append(ms)
            figures.frames += 1
        if worker.compiles:
            worker.compiles = 0
            self.recorder.compiled("a frame needed code that was not there", 0.0, background=False)
        presenter = worker.presenter
        if presenter is not None and presenter.idle():
            frame = worker.exchange.take()
            if frame is not None:
                self._show(presenter, frame)
                if self._refusal and frame.size == self._size:
                    figures.error = "" if figures.error == self._refusal else figures.error
                    self._refusal = ""

    def _show(self, presenter: Presenter, frame: Frame) -> None:
        """A new picture goes into the window with the next turn that is drawn."""
        figures = self.figures
        started = time.perf_counter()
        presenter.show(frame)
        self._taking_ms = (time.perf_counter() - started) * 1e3
        self.presenter = presenter
        figures.picture, figures.samples, figures.nonfinite = frame.size, frame.samples, frame.nonfinite
        if frame.device_bytes != figures.device_bytes:
            figures.device_bytes, figures.host_bytes = frame.device_bytes, peak_memory()
        figures.kernels = [KernelFigure(kernel.name, kernel.median_ms, kernel.workgroup) for kernel in frame.kernels]
        self.loop.damaged(1)

    def _look_beside(self) -> None:
        """Figures that come from elsewhere: rays, usable backends."""
        figures, active = self.figures, self._stage.active
        if self._usable is not None:
            answer = self._usable.answer()
            if answer is not None:
                figures.usable, self._usable = answer, None
        if active is None or active.worker.built is None:
            return
        count = self._count
        counted = count is not None and count.session is active.worker.built.session
        if counted and count is not None and count.rays_per_sample is not None and self.pacing.ms_per_pixel:
            figures.rays_per_s = count.rays_per_sample * self.settings.spp / self.pacing.ms_per_pixel * 1e3
        key = (active.worker, *self._steady)
        idle = self._stage.coming is None and (count is None or not count.alive)
        if idle and figures.samples >= COUNT_AFTER and not same(key, self._counted):
            self._counted = key
            self._count = RayCount(active.worker.built.session)

    # ---- clicks ----

    def _pick(self, place: tuple[float, float], double: bool, session: Session) -> None:
        """On a worker's thread: what is seen at a place of the picture, from 0 to 1 from its top left."""
        found = session.pick(int(place[0] * session.width), int(place[1] * session.height))
        scene = session.scene
        self.loop.later(lambda: self._picked(scene, found, double))

    def _picked(self, scene: Scene, found: Pick | None, double: bool) -> None:
        editor = self.document.editor
        if editor is None or scene is not editor.scene:
            return
        self.loop.damaged()
        if found is None:
            editor.selected = None
            self.recorder.event("pick", None)
            return
        editor.selected = Selection(found.instance, found.material, scene.instances[found.instance].mesh, found.point)
        self.recorder.event("pick", {"instance": found.instance, "material": found.material, "pivot": double})
        if double:
            self.document.move(lambda view: pivoted(view, found.point))


def same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether all parts are equal, or the same objects."""
    plain = (int, float, tuple)
    return len(one) == len(other) and all(a is b or (type(a) in plain and a == b) for a, b in zip(one, other))
