"""The viewer: a window, a worker that draws, and the loop that keeps the two in step. `rayfuse view`.

Three kinds of threads. The main thread has nothing to do but to take the window's events, so that it is never late (`window`). The loop,
on a thread of its own, has the OpenGL context and everything that is seen: each turn it hears of events, lets the hands move the camera,
has the studio compare what is wanted with what the workers were told, takes the newest finished picture, and draws it with the panel over
it, if there is anything new to see; then it sleeps until something happens. Workers draw, and build what needs other code (`studio`).

The window opens before the scene is read. The way to the first picture is the same as that to any other structure, only that there is
no old picture meanwhile, and that its failure is the end: then the error is raised, and the command line says it.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import moderngl

from engine import events
from renderer.app.opening import PICTURES, FrameOptions
from renderer.app.terminal import one_line, say
from renderer.app.viewer import gl
from renderer.app.viewer.controls import Extent, View, framed
from renderer.app.viewer.hand import Hand
from renderer.app.viewer.overlay import Overlay
from renderer.app.viewer.panel import Panel, PanelActions
from renderer.app.viewer.photos import Photos
from renderer.app.viewer.present import Screen
from renderer.app.viewer.recorder import Recorder
from renderer.app.viewer.state import Figures, Settings
from renderer.app.viewer.studio import Studio
from renderer.app.viewer.thumbnails import Thumbnails
from renderer.app.viewer.window import DisplayError, Window
from renderer.scene.model import Environment, SceneError

SWITCH_S = 1e-3  # how long a worker may hold Python's lock against the loop
MOST_HZ = 120.0
IDLE_S = 1 / 30  # between two polls of events when nothing happens
SETTLE = 3  # turns that are drawn after an event: Dear ImGui takes that many to come to rest
GRACE_S = 1.2  # for workers to end; what is in the compiler then ends with the process
LONGEST_STEP_S = 0.1  # of flying, after a turn that took long
GROUND = (0.08, 0.08, 0.085)  # before there is a picture
LAST_PICTURE_S = 2.0  # that the end waits for the picture of --screenshot
CONTEXT_LOST = "the OpenGL context is lost (the graphics driver was reset); start the viewer again"


@dataclass(frozen=True)
class ViewOptions:
    """What `rayfuse view` was asked for. `frame.spp` is a frame's; `exit_after` in seconds."""

    frame: FrameOptions
    record: Path | None = None
    exit_after: float | None = None
    screenshot: Path | None = None
    material: Path | None = None


def run(options: ViewOptions, glfw: Any) -> int:
    """Shows the scene until the user has enough; the exit code. `glfw`: from `window.load_glfw`. To be called on the main thread.

    Raises DisplayError where there is no window to be had, and SceneError, DeviceError or MemoryError where there is no first picture.
    """
    window = Window(glfw, f"rayfuse — {options.frame.scene.name}", (options.frame.width, options.frame.height))
    life = Life(options, window)
    # Ctrl-C is a wish like any other: an exception, wherever it would strike, might take an answer away that the loop waits for.
    interrupt = signal.signal(signal.SIGINT, lambda *_: window.ask_to_close())
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    thread = threading.Thread(target=life.run, name="rayfuse-viewer", daemon=True)
    thread.start()
    try:
        window.pump(life.recorder.polled)
        thread.join()
    finally:
        sys.setswitchinterval(before)
        signal.signal(signal.SIGINT, interrupt)
    if life.clean:
        window.close()
    if life.error is not None:
        raise life.error
    if not life.clean:  # what the compiler has begun cannot be broken off, and must not keep the process
        window.hide()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    return 0


class Life:
    """The viewer on a thread of its own, and what came of it: `error`, and whether it left no thread behind (`clean`)."""

    def __init__(self, options: ViewOptions, window: Window) -> None:
        self.recorder = Recorder()
        self.error: BaseException | None = None
        self.clean = True
        self._options, self._window = options, window

    def run(self) -> None:
        """From the first turn to the last."""
        window = self._window
        try:
            window.begin(vsync=True)
            viewer = Viewer(self._options, window, self.recorder)
            try:
                viewer.run()
                viewer.last_picture()
            finally:
                self.clean = False
                self.clean = viewer.close()
        except BaseException as error:
            self.error = error
        finally:
            window.finish()


class Viewer:
    """One window and all that belongs to it. It is the `hand.Actions` of its hand."""

    def __init__(self, options: ViewOptions, window: Window, recorder: Recorder) -> None:
        frame = options.frame
        self.options = options
        self.settings = Settings(
            backend=frame.backend, workgroup=frame.workgroup, depth=frame.depth, spp=frame.spp, exposure=frame.exposure
        )
        self.figures = Figures()
        self.window, self.recorder = window, recorder
        self._opened = self._turned_at = time.perf_counter()
        self._inbox: deque[Callable[[], None]] = deque()
        self._redraw = SETTLE
        self._warned: set[str] = set()
        self.context = moderngl.create_context()
        self.gl = gl.Gl(self.window.load, self.context.version_code, self.context.extensions)
        self.screen = Screen(self.context, self.gl)
        self.overlay, self.hand = Overlay(self.window), Hand(self)
        self.thumbnails = Thumbnails(self.context, self.window.wake)
        self.panel = Panel(self.overlay.fonts, self.thumbnails)
        self.studio = Studio(frame, options.material, self.settings, self.figures, self.recorder, self.window, self.screen, self)
        self.document = self.studio.document
        self.photos = Photos(lambda path, problem: self.later(lambda: self._photo_taken(path, problem)))
        self._unsubscribe = events.subscribe(lambda event: self.warn(event.fields["message"]), {"warning"})
        self._vsync = self.settings.vsync
        self._drawn_at = -1.0
        self._ended = ""

    # ---- the loop ----

    def run(self) -> None:
        """Turns until the end. Raises what kept the first picture from coming, and DisplayError where the context is lost."""
        while not self._ended:
            self.window.wait(self._patience(), self.overlay, self.hand)
            self._turn()
        if self.studio.failure is not None:
            raise self.studio.failure

    def _patience(self) -> float:
        """Seconds to sleep unless something happens."""
        if self._redraw and self.window.visible:
            return max(0.0, self._drawn_at + 1 / MOST_HZ - time.perf_counter())
        return IDLE_S

    def _turn(self) -> None:
        now = time.perf_counter()
        seconds, self._turned_at = min(now - self._turned_at, LONGEST_STEP_S), now
        self._post()
        self.hand.fly(seconds)
        self.studio.turn(now)
        if self.settings.vsync != self._vsync:
            self._vsync = self.settings.vsync
            self.window.set_vsync(self._vsync)
        presenter, full = self.studio.presenter, self.studio.full
        if presenter is not None and self.photos.wanted and self.figures.picture == full:
            self.photos.take(self.screen, presenter, full)
        if self._redraw and self.window.visible and now - self._drawn_at >= 0.9 / MOST_HZ:
            self._redraw -= 1
            self._draw(now)
        if self.studio.failure is not None:
            self._end("failed")
        if self.window.should_close:
            self._end("window")
        elif self.options.exit_after is not None and now - self._opened >= self.options.exit_after:
            self._end("exit-after")

    def _post(self) -> None:
        while self._inbox:
            self._inbox.popleft()()

    def later(self, function: Callable[[], None]) -> None:
        """Runs a function in the next turn; any thread may call this."""
        self._inbox.append(function)
        self.window.wake()

    def _end(self, how: str) -> None:
        if not self._ended:
            self._ended = how
            self.recorder.event("close", how)

    def say(self, message: str) -> None:
        """A notice at the window's edge."""
        self.figures.message = message
        self.damaged()

    def warn(self, message: str) -> None:
        """A warning, from any thread. Each is given once: a scene is built again with every change of structure."""
        if message in self._warned:
            return
        self._warned.add(message)
        if not self.options.frame.quiet:
            say(f"warning: {message}")
        self.later(lambda: self.figures.warnings.append(message))

    def _draw(self, now: float) -> None:
        """Draws the picture and the panel."""
        if self.gl.lost():
            raise DisplayError(CONTEXT_LOST)
        self._drawn_at = now
        self.gl.finish()  # without Python's lock: what follows would wait with it, and keep the window's events waiting too
        self.context.screen.use()
        self.context.viewport = (0, 0, *self.window.framebuffer)
        self.context.clear(*GROUND)
        presenter = self.studio.presenter
        if presenter is not None:
            started = time.perf_counter()
            presenter.draw()
            self.studio.drawn((time.perf_counter() - started) * 1e3)
        self.overlay.begin()
        if self.document.editor is not None and self.document.view is not None:
            self._do(self.panel.draw(self.settings, self.figures, self.document.editor, self.document.view))
        else:
            self.panel.draw_loading(self.figures, self.document.source.path.name)
        self.overlay.end()
        self.window.swap()
        if presenter is not None:
            self.recorder.warmed()

    # ---- commands ----

    def _do(self, asked: PanelActions) -> None:
        """What a turn of the panel has asked for."""
        for name, wanted in (
            ("screenshot", asked.screenshot), ("reset", asked.reset_camera), ("frame", asked.frame_scene),
            ("full screen", asked.full_screen),
        ):  # fmt: skip
            if wanted:
                self._command(name)
        if asked.reload:
            self.recorder.event("reload", str(self.document.source.path))
            self.document.open(self.document.source.path)
        if asked.open is not None:
            self.open(asked.open)
        if asked.surround is not None:
            self.surround(asked.surround)
        if asked.save is not None:
            self._save(functools.partial(self.document.save, asked.save))
        camera = asked.camera
        if camera is not None:
            self.move(lambda view: replace(view, camera=camera))

    def command(self, name: str) -> None:
        self.recorder.event("key", name)
        self._command(name)

    def _command(self, name: str) -> None:
        document, editor = self.document, self.document.editor
        self.damaged()
        if name == "quit":
            self._end("escape")
        elif name == "panel":
            self.settings.show_panel = not self.settings.show_panel
        elif name.startswith("workgroup "):
            self.settings.workgroup = int(name.removeprefix("workgroup "))
        elif name == "screenshot":
            self.photos.wanted.append(self.photos.next_name(document.source.path))
        elif name == "full screen":
            self.window.toggle_full_screen()
        elif name == "reset":
            self.studio.go_home()
        elif name == "frame":
            width, height = self.window.framebuffer
            aspect = width / max(1, height)
            document.move(lambda view: framed(view, document.extent, aspect))
        elif name == "pause":
            self.say("animations are not played yet")
        elif editor is None:
            return
        elif name in ("undo", "redo"):
            label = editor.undo() if name == "undo" else editor.redo()
            self.say(f"{name}: {label}" if label else f"nothing to {name}")
        elif name == "save":
            self._save(document.save_beside)

    def surround(self, path: Path) -> None:
        """Surrounds the scene with a picture, which is read beside the loop: a large one takes a second or more."""
        self.recorder.event("surround", str(path))
        threading.Thread(target=self._read_surroundings, args=(path,), name="rayfuse-surroundings", daemon=True).start()

    def _read_surroundings(self, path: Path) -> None:
        from renderer.scene.images import ImageError
        from renderer.scene.surroundings import pictured

        try:
            around = pictured(path)
        except ImageError as error:
            problem = one_line(error)
            self.later(lambda: self.say(problem))
            return
        self.later(lambda: self._surround(around))

    def _surround(self, around: Environment) -> None:
        editor = self.document.editor
        if editor is None:
            self.say("there is no scene yet to surround")
            return
        assert around.image is not None and around.source is not None, "as read from a file"
        editor.set_environment(around)
        height, width = around.image.shape[:2]
        self.say(f"surrounded by {around.source.name}, {width} × {height}")

    def _save(self, save: Callable[[], str]) -> None:
        try:
            self.say(save())
        except SceneError as error:
            self.say(one_line(error))

    def _photo_taken(self, path: Path, problem: str) -> None:
        if not problem:
            self.recorder.event("screenshot", str(path))
        self.say(problem or f"saved {path}")

    # ---- what hands can do ----

    def move(self, change: Callable[[View], View]) -> None:
        self.document.move(change)
        self.damaged()

    def click(self, x: float, y: float, double: bool) -> None:
        width, height = self.window.framebuffer
        if width and height:
            self.studio.click(x / width, y / height, double)

    def open(self, path: Path) -> None:
        if path.suffix.lower() in PICTURES:
            self.surround(path)
            return
        self.recorder.event("open", str(path))
        self.document.open(path)
        self.damaged()

    def damaged(self, turns: int = SETTLE) -> None:
        self._redraw = max(self._redraw, turns)

    def wants_mouse(self) -> bool:
        return self.panel.has_mouse(self.hand.at[0], self.window.framebuffer[0])

    def wants_keyboard(self) -> bool:
        return self.panel.wants_keyboard

    @property
    def extent(self) -> Extent:
        return self.document.extent

    @property
    def height(self) -> float:
        return float(self.window.framebuffer[1])

    @property
    def scale(self) -> float:
        return self.window.scale

    # ---- the end ----

    def last_picture(self) -> None:
        """Writes the picture of --screenshot: in full size, if that comes within a moment."""
        path = self.options.screenshot
        if path is None:
            return
        studio = self.studio
        if studio.presenter is None:
            say(f"warning: {path} is not written: there was no picture yet")
            return
        studio.pacing.rest()
        until = time.perf_counter() + LAST_PICTURE_S
        while self.figures.picture != studio.full and time.perf_counter() < until:
            self.window.wait(IDLE_S)
            studio.turn_at_rest(time.perf_counter())
        self.photos.wanted.append(path)
        self.photos.take(self.screen, studio.presenter, self.figures.picture)
        self.photos.finish(LAST_PICTURE_S)
        self._post()

    def close(self) -> bool:
        """Ends everything; whether every worker has ended, or only the end of the process stops what it is in."""
        self._unsubscribe()
        clean = self.studio.close(GRACE_S)
        if self.options.record is not None:
            self.recorder.write(self.options.record, self.figures.samples)
        if clean:
            self.thumbnails.close()
            self.overlay.close()
        return clean

