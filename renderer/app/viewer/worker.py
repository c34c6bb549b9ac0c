"""The thread that draws: builds a session, then frame after frame of it, and never makes the window wait.

One worker owns one session from the first line of its code to the last, and is the only one to touch it. The window's thread talks to
it in two ways. `show` says what the picture is to be now, as one `Shot`; only the latest counts, and the worker tells the session what
has changed in it before the next frame. `post` hands over a function that is run between two frames: for a click, a changed material.
Finished frames go to the window through the presenter's slots.

A worker that is not needed any more is told to `stop`. It does so after the frame in hand, or at the next step of building; what the
compiler has begun cannot be broken off, so whoever stops a worker must not wait for it, but look now and then whether it has ended.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from renderer.app.viewer.present import Exchange, Frame, Presenter
from renderer.app.viewer.state import Progress

if TYPE_CHECKING:
    from engine import Device
    from renderer.pipeline.session import DeviceFacts, Session
    from renderer.scene.model import Camera, Scene

TIMES = 4096
FIRST_COUNT = 16  # samples a pixel after which those that are not finite are counted first; then at twice as many each time
Say = Callable[[str, float], None]


@dataclass(frozen=True)
class Shot:
    """What the picture is to be: everything that the next frame takes up without compiling. Lengths in metres, exposure in stops."""

    camera: Camera = field(compare=False)  # told apart by identity: comparing matrices is not for every turn
    size: tuple[int, int]  # of the picture: width, height
    spp: int
    depth: int
    exposure: float
    tonemapper: str
    accumulate: bool
    max_samples: int  # 0: without end
    paused: bool = False  # nothing can be seen: nothing is drawn

    def same(self, other: Shot | None) -> bool:
        """Whether nothing is different."""
        return other is not None and self.camera is other.camera and self == other


@dataclass(frozen=True)
class Built:
    """What building gives: the scene, a session of it, the device that it is on, and why that shares no memory with the window."""

    scene: Scene
    session: Session
    device: Device
    not_shared: str = ""


class Stopped(Exception):
    """The worker was told to stop while it was building."""


class Worker:
    """Builds by `build(say)`, then draws; calls `wake` when there is something to look at.

    `why`: what it was made for, in words. `built` is None until the session is ready, and with it `facts`: then `presenter` is to be set,
    before the first `show`. `failure` holds what ended the worker early; `trouble`, what the picture that was asked for last has no
    memory for: the worker waits for another one, since the window may become smaller again.
    """

    def __init__(self, build: Callable[[Say], Built], wake: Callable[[], None], why: str) -> None:
        self.why = why
        self.presenter: Presenter | None = None
        self.built: Built | None = None
        self.failure: Exception | None = None
        self.progress = Progress("starting")
        self.exchange = Exchange()
        self.times: deque[tuple[float, int]] = deque(maxlen=TIMES)  # of frames, not looked at yet: ms, pixels
        self.compiles = 0  # during frames: stays 0, or something went wrong
        self._build, self._wake = build, wake
        self.facts: DeviceFacts | None = None
        self.trouble: MemoryError | None = None
        self._shot: Shot | None = None
        self._refused: Shot | None = None  # that there is no memory for
        self._told: Shot | None = None
        self._posted: deque[Callable[[Session], None]] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._nonfinite, self._count_at = 0, FIRST_COUNT
        self._began = time.perf_counter()
        self._thread = threading.Thread(target=self._run, name=f"rayfuse-worker-{why}", daemon=True)

    # ---- the window's side ----

    def start(self) -> None:
        self._thread.start()

    def show(self, shot: Shot) -> None:
        """What to draw from now on."""
        if not shot.same(self._shot):
            with self._changed:
                self._shot = shot
                self._changed.notify()

    def post(self, function: Callable[[Session], None]) -> None:
        """Runs a function between two frames (after building, if that is still going on)."""
        with self._changed:
            self._posted.append(function)
            self._changed.notify()

    def stop(self) -> None:
        """Ends it as soon as may be; returns at once."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    @property
    def alive(self) -> bool:
        """Whether its thread runs still."""
        return self._thread.is_alive()

    def join(self, seconds: float) -> bool:
        """Waits so long for its end; whether it has ended."""
        self._thread.join(max(seconds, 0.0))
        return not self._thread.is_alive()

    @property
    def seconds(self) -> float:
        """Since it was made, or that building took."""
        return self.progress.seconds if self.built is not None else time.perf_counter() - self._began

    # ---- its own ----

    def _run(self) -> None:
        try:
            built = self._build(self._say)
            try:
                self._say("ready", 1.0)
                self.facts = built.session.device
                self.built = built
                self._wake()
                self._draw(built)
            finally:
                built.session.close()
                built.device.close()
        except Stopped:
            pass
        except Exception as error:
            self.failure = error
        self._wake()

    def _say(self, label: str, fraction: float) -> None:
        """Progress of building. Raises Stopped where nobody wants it any more."""
        if self._stopping:
            raise Stopped
        before, now = self.progress, time.perf_counter() - self._began
        steps = before.steps
        if label != before.label:
            since = sum(seconds for _, seconds in steps)
            steps = [*steps, (before.label, now - since)]
        self.progress = Progress(label, fraction, steps, now)
        self._wake()

    def _draw(self, built: Built) -> None:
        session = built.session
        while True:
            with self._changed:
                while not self._stopping and not self._posted and not self._wanted(session):
                    self._changed.wait()
                if self._stopping:
                    return
                posted, shot = list(self._posted), self._shot
                self._posted.clear()
            try:
                for function in posted:
                    function(session)
                if shot is not None and shot is not self._refused:
                    self._take_up(session, shot)
                    if self._wanted(session):
                        self._frame(built, shot)
            except MemoryError as error:
                self.trouble, self._refused, self._told = error, shot, None
                self._wake()

    def _wanted(self, session: Session) -> bool:
        """Whether there is a frame to draw."""
        shot = self._shot
        if shot is None or shot.paused or shot is self._refused:
            return False
        return not shot.same(self._told) or shot.max_samples == 0 or session.samples < shot.max_samples

    def _take_up(self, session: Session, shot: Shot) -> None:
        """Tells the session what is different from what it was told last; whether that begins a new picture is its own affair."""
        told, self._told = self._told, shot
        if told is None or shot.size != told.size:
            session.resize(*shot.size)
        if told is None or shot.camera is not told.camera:
            session.set_camera(shot.camera)
        for name in ("spp", "depth", "tonemapper", "accumulate"):
            if told is None or getattr(shot, name) != getattr(told, name):
                setattr(session, name, getattr(shot, name))
        if told is None or shot.exposure != told.exposure:
            session.exposure = 2.0**shot.exposure

    def _frame(self, built: Built, shot: Shot) -> None:
        session, presenter = built.session, self.presenter
        assert presenter is not None, "set before the first shot"
        slot = self.exchange.drawing
        compiled = session.counters.compiles
        started = time.perf_counter()
        target = presenter.target(slot, *shot.size)
        session.frame(target)
        memory = presenter.deliver(built.device, slot, target)
        ms = (time.perf_counter() - started) * 1e3
        self.compiles += session.counters.compiles - compiled
        self.times.append((ms, shot.size[0] * shot.size[1]))
        if session.samples <= shot.spp:
            self._nonfinite, self._count_at = 0, FIRST_COUNT
        elif session.samples >= self._count_at:  # it is read back from the device: now and then
            self._nonfinite, self._count_at = session.nonfinite, 2 * session.samples
        told = (session.samples, self._nonfinite, session.last_kernels, session.device.bytes_allocated)
        if self.exchange.publish(Frame(slot, memory, shot.size, *told)):
            self._wake()
