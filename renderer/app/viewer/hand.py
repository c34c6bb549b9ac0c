"""What the user's hands do, turned into commands and movements of the camera.

The window tells of keys, buttons and positions one by one; what they mean depends on what went before. A press that is released where
it began is a click, two of them in quick succession a double click, anything else a drag. Keys for flying count as long as they are
held, and by their place on the keyboard; keys for commands count once, by their letter. Where Dear ImGui wants the mouse or the keyboard
(the panel is under the pointer, a field is being typed in) it has them, but a release is always heard: what was held must come free.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from renderer.app.viewer.controls import Extent, View, dolly, fly, orbit, pan
from renderer.app.viewer.window import Key

LEFT, RIGHT, MIDDLE = 0, 1, 2
STILL = 4.0  # pixels that a click may move, at a display's scale of 1
DOUBLE_S = 0.35  # between the two clicks of a double one
COMMANDS = {
    "escape": "quit", "f1": "panel", "[": "workgroup 256", "]": "workgroup 512", "p": "screenshot", "r": "reset", "f": "frame",
    "space": "pause", "f11": "full screen",
}  # fmt: skip
WITH_CTRL = {"z": "undo", "y": "redo", "s": "save"}
FLY = {"d": (1, 0, 0), "a": (-1, 0, 0), "e": (0, 1, 0), "q": (0, -1, 0), "w": (0, 0, 1), "s": (0, 0, -1)}  # right, up, ahead


class Actions(Protocol):
    """What hands can do."""

    def command(self, name: str) -> None:
        """One of the values of COMMANDS and WITH_CTRL."""

    def move(self, change: Callable[[View], View]) -> None:
        """Moves the camera."""

    def click(self, x: float, y: float, double: bool) -> None:
        """A click into the picture, in pixels of the framebuffer."""

    def open(self, path: Path) -> None:
        """A file was dropped on the window: a scene, or a picture to surround it."""

    def damaged(self) -> None:
        """The window must be drawn again."""

    def wants_mouse(self) -> bool:
        """Whether the panel has the mouse."""

    def wants_keyboard(self) -> bool:
        """Whether the panel has the keyboard."""

    @property
    def extent(self) -> Extent: ...

    @property
    def height(self) -> float:
        """Of the framebuffer, in pixels."""

    @property
    def scale(self) -> float:
        """Of the display."""


@dataclass
class Hand:
    """A `window.Listener`."""

    actions: Actions
    _at: tuple[float, float] = (0.0, 0.0)
    _pressed_at: tuple[float, float] = (0.0, 0.0)
    _button: int | None = None  # that drags
    _dragging: bool = False
    _clicked: tuple[float, float, float] = (-1.0, 0.0, 0.0)  # when, where
    _held: set[str] = field(default_factory=set)
    _fast: bool = False

    # ---- keys ----

    def on_key(self, key: Key) -> None:
        self.actions.damaged()
        if key.place in ("left_shift", "right_shift"):
            self._fast = key.pressed
        if not key.pressed:
            self._held.discard(key.place)
            return
        if self.actions.wants_keyboard():
            return
        if key.command:
            command = WITH_CTRL.get(key.name)
            if command is not None:
                self.actions.command("redo" if command == "undo" and key.shift else command)
        elif key.place in FLY:
            self._held.add(key.place)
        elif not key.repeated and key.name in COMMANDS:
            self.actions.command(COMMANDS[key.name])

    def on_text(self, text: str) -> None:
        self.actions.damaged()

    def fly(self, seconds: float) -> None:
        """Flies for the time since the last turn, if keys for it are held."""
        if not self._held:
            return
        right, up, ahead = (sum(FLY[place][axis] for place in self._held) for axis in range(3))
        extent, fast = self.actions.extent, self._fast
        self.actions.move(lambda view: fly(view, right, up, ahead, seconds, extent, fast))

    @property
    def at(self) -> tuple[float, float]:
        """Where the mouse is, in pixels of the framebuffer."""
        return self._at

    @property
    def flying(self) -> bool:
        """Whether keys for flying are held."""
        return bool(self._held)

    def let_go(self) -> None:
        """Nothing is held any more: the window has lost the keyboard."""
        self._held.clear()
        self._button, self._dragging, self._fast = None, False, False

    # ---- mouse ----

    def on_button(self, button: int, pressed: bool) -> None:
        self.actions.damaged()
        if pressed:
            if self._button is None and not self.actions.wants_mouse():
                self._button, self._pressed_at, self._dragging = button, self._at, False
            return
        if button != self._button:
            return
        clicked = button == LEFT and not self._dragging
        self._button, self._dragging = None, False
        if clicked:
            self._click(time.perf_counter())

    def _click(self, now: float) -> None:
        when, x, y = self._clicked
        double = now - when < DOUBLE_S and self._near((x, y))
        self._clicked = (-1.0, 0.0, 0.0) if double else (now, *self._at)
        self.actions.click(*self._at, double)

    def _near(self, place: tuple[float, float]) -> bool:
        return max(abs(self._at[0] - place[0]), abs(self._at[1] - place[1])) <= STILL * self.actions.scale

    def on_move(self, x: float, y: float) -> None:
        self.actions.damaged()
        before, self._at = self._at, (x, y)
        if self._button is None:
            return
        if not self._dragging:
            if self._near(self._pressed_at):
                return
            self._dragging, before = True, self._pressed_at
        dx, dy, height = x - before[0], y - before[1], self.actions.height
        if self._button == LEFT:
            self.actions.move(lambda view: orbit(view, dx, dy, height))
        else:
            self.actions.move(lambda view: pan(view, dx, dy, height))

    def on_scroll(self, dx: float, dy: float) -> None:
        self.actions.damaged()
        if dy and not self.actions.wants_mouse():
            extent = self.actions.extent
            self.actions.move(lambda view: dolly(view, dy, extent))

    def on_drop(self, paths: list[Path]) -> None:
        if paths:
            self.actions.open(paths[0])

    def on_focus(self, focused: bool) -> None:
        self.actions.damaged()
        if not focused:
            self.let_go()

    def on_damage(self) -> None:
        self.actions.damaged()
