"""The window: GLFW's part of the viewer, and all that differs between displays.

A `Window` has an OpenGL context of 3.3 or later and tells a `Listener` what the user does, in one coordinate system: pixels of the
framebuffer, from the top left, whatever the display's scale. Keys come by the letter on them (`name`) for commands, and by their place
on an American keyboard (`place`) for flying, where the hand's position matters and not the label.

A display that cannot be used is a `DisplayError`: no server, no OpenGL, too old a version, packages not installed. It is found out
before the scene is read. What a platform merely lacks (a window's position or icon on Wayland) is passed over.

Two threads share a window. GLFW takes events, and makes, changes and destroys windows on the main thread only, and must never be kept
waiting there; drawing, and showing what was drawn, may take as long as the display likes. So the main thread does nothing but `pump`, and
a thread of the viewer's has the context and all the rest: it hears of events in `wait`, and what it wants done to the window is handed
to the main thread. Contexts that share objects with the window's (`SharedContext`) are hidden windows, made in the same way.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar, cast

from renderer.app.viewer import gl
from renderer.scene.overheard import overheard

HEADLESS = "without a window: rayfuse render SCENE -o FILE, rayfuse bench SCENE"
LEAST = (3, 3)
POLL_S = 1 / 60  # between two polls of events when nothing happens
T = TypeVar("T")
CURSORS = {
    "arrow": "ARROW_CURSOR", "text_input": "IBEAM_CURSOR", "hand": "HAND_CURSOR", "resize_ew": "HRESIZE_CURSOR",
    "resize_ns": "VRESIZE_CURSOR", "resize_all": "CROSSHAIR_CURSOR",
}  # fmt: skip


class DisplayError(Exception):
    """There is no display, or it cannot show the viewer. One line: what is missing, what to do instead (exit code 3)."""


@dataclass(frozen=True)
class Key:
    """A key that was pressed or released. `name`: the letter on it, or escape, space, f1...; `place`: the same on an American keyboard."""

    name: str
    place: str
    pressed: bool
    repeated: bool
    ctrl: bool
    shift: bool
    alt: bool = False
    super: bool = False

    @property
    def command(self) -> bool:
        """Whether it comes with the key for commands, which is another one on a Mac."""
        return self.super if sys.platform == "darwin" else self.ctrl


class Listener(Protocol):
    """Who wants to know. Positions and sizes are in pixels of the framebuffer."""

    def on_key(self, key: Key) -> None: ...

    def on_text(self, text: str) -> None:
        """A character was typed."""

    def on_button(self, button: int, pressed: bool) -> None: ...

    def on_move(self, x: float, y: float) -> None: ...

    def on_scroll(self, dx: float, dy: float) -> None:
        """The wheel turned by so many steps, to the left and away from the user."""

    def on_drop(self, paths: list[Path]) -> None: ...

    def on_focus(self, focused: bool) -> None: ...

    def on_damage(self) -> None:
        """The window has to be drawn again (uncovered, resized)."""


def load_glfw() -> Any:
    """The window library, ready. Raises DisplayError where it, the viewer's packages, or a display is missing."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise DisplayError(f"no display: neither DISPLAY nor WAYLAND_DISPLAY is set; {HEADLESS}")
    try:
        import imgui_bundle  # noqa: F401 - before glfw: it brings the GLFW that is to be used
        import moderngl  # noqa: F401

        glfw: Any = importlib.import_module("glfw")
        if sys.platform.startswith("linux") and not os.environ.get("DISPLAY"):
            glfw = _for_wayland(glfw)
    except ImportError as error:
        raise DisplayError(f"the viewer's packages are missing ({error}); pip install 'rayfuse[viewer]'; {HEADLESS}") from None
    glfw.ERROR_REPORTING = False  # asked for where it matters
    with overheard():  # libwayland complains on its own
        if not glfw.init():
            raise DisplayError(f"no display: {_problem(glfw)}; {HEADLESS}")
    return glfw


def _for_wayland(glfw: Any) -> Any:
    """The GLFW for Wayland that comes with the package glfw: that of imgui_bundle, which it is bound to so far, knows X11 only.

    The two may be in one process, as long as that of imgui_bundle, which cannot do without its functions for X11, was loaded first.
    """
    library = Path(glfw.__file__).parent / "wayland" / "libglfw.so"
    if not library.is_file():
        return glfw
    os.environ["PYGLFW_LIBRARY"] = str(library)
    for name in [name for name in sys.modules if name.partition(".")[0] == "glfw"]:
        del sys.modules[name]
    return importlib.import_module("glfw")


def _problem(glfw: Any) -> str:
    code, text = glfw.get_error()
    return text.decode(errors="replace").rstrip(".") if text else f"GLFW error {code:#x}"


def address_of(glfw: Any, name: str) -> int:
    """The address of an OpenGL function for the calling thread's context; 0 where there is none."""
    return ctypes.cast(glfw.get_proc_address(name), ctypes.c_void_p).value or 0


class SharedContext:
    """An OpenGL context for another thread that shares objects with the window's: what an OpenGL device asks for as its provider."""

    def __init__(self, window: Window, hidden: Any) -> None:
        self._window, self._hidden = window, hidden

    def make_current(self) -> None:
        """Makes it the context of the calling thread."""
        self._window.glfw.make_context_current(self._hidden)

    def release(self) -> None:
        """The calling thread has no context any more."""
        self._window.glfw.make_context_current(None)

    def load(self, name: str) -> int:
        """The address of an OpenGL function; 0 where there is none."""
        return self._window.load(name)

    def close(self) -> None:
        """The device has no more use for it; `destroy` is left to who asked for it."""

    def destroy(self) -> None:
        """Once no device uses it."""
        hidden = self._hidden
        self._window.on_main(lambda: self._window.glfw.destroy_window(hidden))


class Window:
    """A window of `size` (width, height in pixels of the framebuffer) and its context. Made on the main thread, current on none.

    `framebuffer`: width and height in pixels, (0, 0) while the window is minimised, on systems that say so; `visible`: whether there is
    anything to draw on; `scale`: of the display, 1 for some 96 pixels an inch.

    Raises DisplayError where the display has no OpenGL 3.3.
    """

    def __init__(self, glfw: Any, title: str, size: tuple[int, int]) -> None:
        self.glfw = glfw
        self._windowed: tuple[int, int, int, int] | None = None
        self._cursors: dict[str, Any] = {}
        self._bracket = ""  # the bracket that the latest key stands for already
        self._events: deque[tuple[str, tuple[Any, ...]]] = deque()  # not heard of yet
        self._jobs: deque[Callable[[], None]] = deque()  # for the main thread
        self._called = threading.Condition()  # for the viewer's: there is something to hear, or `wake`
        self._awake = self._over = False
        for hint, value in (
            (glfw.CONTEXT_VERSION_MAJOR, LEAST[0]),
            (glfw.CONTEXT_VERSION_MINOR, LEAST[1]),
            (glfw.OPENGL_PROFILE, glfw.OPENGL_CORE_PROFILE),
            (glfw.OPENGL_FORWARD_COMPAT, glfw.TRUE),
            (glfw.CONTEXT_ROBUSTNESS, glfw.LOSE_CONTEXT_ON_RESET),
            (glfw.SCALE_FRAMEBUFFER, glfw.TRUE),
            (glfw.SAMPLES, 0),
        ):
            glfw.window_hint(hint, value)
        self.handle = glfw.create_window(*size, title, None, None)
        if not self.handle:
            raise DisplayError(_too_old(glfw))
        width, height = glfw.get_framebuffer_size(self.handle)
        if width > size[0] and width * size[1] == height * size[0]:  # HiDPI: what was asked for are pixels of the framebuffer
            glfw.set_window_size(self.handle, size[0] * size[0] // width, size[1] * size[1] // height)
        glfw.set_window_size_limits(self.handle, 160, 120, glfw.DONT_CARE, glfw.DONT_CARE)
        self.framebuffer: tuple[int, int] = glfw.get_framebuffer_size(self.handle)
        self._size: tuple[int, int] = glfw.get_window_size(self.handle)
        self.scale = float(glfw.get_window_content_scale(self.handle)[0])
        self._iconified = False
        self._connect()

    def _connect(self) -> None:
        """Every size comes with its event: asking for it would wait for the display's answer, on a busy machine for long."""
        glfw, handle = self.glfw, self.handle
        glfw.set_key_callback(handle, self._key)
        glfw.set_char_callback(handle, self._char)
        glfw.set_mouse_button_callback(handle, lambda _, button, action, mods: self._tell("on_button", button, action == glfw.PRESS))
        glfw.set_cursor_pos_callback(handle, self._moved)
        glfw.set_scroll_callback(handle, lambda _, dx, dy: self._tell("on_scroll", dx, dy))
        glfw.set_drop_callback(handle, lambda _, paths: self._tell("on_drop", [Path(os.fsdecode(path)) for path in paths]))
        glfw.set_window_focus_callback(handle, lambda _, focused: self._tell("on_focus", bool(focused)))
        glfw.set_framebuffer_size_callback(handle, lambda _, width, height: self._changed("framebuffer", (width, height)))
        glfw.set_window_size_callback(handle, lambda _, width, height: self._changed("_size", (width, height)))
        glfw.set_window_iconify_callback(handle, lambda _, iconified: self._changed("_iconified", bool(iconified)))
        glfw.set_window_content_scale_callback(handle, lambda _, x, y: self._changed("scale", float(x)))
        for damaged in (glfw.set_window_refresh_callback, glfw.set_cursor_enter_callback, glfw.set_window_close_callback):
            damaged(handle, lambda *_: self._tell("on_damage"))

    # ---- the main thread ----

    def pump(self, polled: Callable[[], None]) -> None:
        """Takes events, and does what `on_main` is given, until `finish`; calls `polled` each time.

        What goes wrong here asks for the end like a click on the window's cross, and is raised after it: the viewer's thread may be
        waiting for an answer.
        """
        failure = None
        while not self._over:
            try:
                self.glfw.wait_events_timeout(POLL_S)
                polled()
                self._do_jobs()
            except Exception as error:
                failure = failure or error
                self.ask_to_close()
        self._do_jobs()
        if failure is not None:
            raise failure

    def ask_to_close(self) -> None:
        """As if the window's cross had been clicked. Takes no lock, so that a signal's handler may call it."""
        self.glfw.set_window_should_close(self.handle, True)

    def _do_jobs(self) -> None:
        while self._jobs:
            self._jobs.popleft()()

    def close(self) -> None:
        """Destroys the window and ends GLFW, once no thread has its context."""
        self.glfw.destroy_window(self.handle)
        self.glfw.terminate()

    def hide(self) -> None:
        self.glfw.hide_window(self.handle)

    def _changed(self, what: str, value: Any) -> None:
        setattr(self, what, value)
        self._tell("on_damage")

    def _tell(self, what: str, *values: Any) -> None:
        self._events.append((what, values))
        self._call()

    def _moved(self, _: Any, x: float, y: float) -> None:
        (width, height), (across, down) = self.framebuffer, self._size
        self._tell("on_move", x * width / max(across, 1), y * height / max(down, 1))

    def _key(self, _: Any, key: int, scancode: int, action: int, mods: int) -> None:
        glfw = self.glfw
        place = _PLACES.get(key) or (chr(key).lower() if 32 < key < 127 else "")
        label = glfw.get_key_name(key, scancode) if key > 32 and key < 127 else None
        name = str(label).lower() if label else place
        self._bracket = name if name in ("[", "]") else ""
        held = (bool(mods & bit) for bit in (glfw.MOD_CONTROL, glfw.MOD_SHIFT, glfw.MOD_ALT, glfw.MOD_SUPER))
        self._tell("on_key", Key(name, place, action != glfw.RELEASE, action == glfw.REPEAT, *held))

    def _char(self, _: Any, code: int) -> None:
        letter = chr(code)
        self._tell("on_text", letter)
        if letter in ("[", "]") and letter != self._bracket:  # those that take AltGr, as on a German keyboard, are no keys
            self._tell("on_key", Key(letter, letter, True, False, False, False))
            self._tell("on_key", Key(letter, letter, False, False, False, False))

    # ---- any thread ----

    def on_main(self, job: Callable[[], None]) -> None:
        """Has the main thread do something, some time soon."""
        self._jobs.append(job)
        self.glfw.post_empty_event()

    def wake(self) -> None:
        """Ends a `wait`."""
        self._awake = True
        self._call()

    def _call(self) -> None:
        with self._called:
            self._called.notify()

    def load(self, name: str) -> int:
        """The address of an OpenGL function for the calling thread's context; 0 where there is none."""
        return address_of(self.glfw, name)

    # ---- the viewer's thread ----

    def begin(self, *, vsync: bool) -> None:
        """Makes the context that of the calling thread."""
        self.glfw.make_context_current(self.handle)
        self.set_vsync(vsync)

    def finish(self) -> None:
        """Ends `pump`; the calling thread has no context any more."""
        self.glfw.make_context_current(None)
        self._over = True
        self.glfw.post_empty_event()

    def wait(self, seconds: float, *listeners: Listener) -> None:
        """Tells the listeners what has happened, in their order; waits so long, if nothing has."""
        with self._called:
            if not self._events and not self._awake and seconds > 0:
                self._called.wait(seconds)
            self._awake = False
        while listeners and self._events:
            what, values = self._events.popleft()
            for listener in listeners:
                getattr(listener, what)(*values)

    @property
    def visible(self) -> bool:
        return min(self.framebuffer) > 0 and not self._iconified

    @property
    def should_close(self) -> bool:
        """Whether the user has asked for the end."""
        return bool(self.glfw.window_should_close(self.handle))

    @property
    def clipboard(self) -> str:
        """The text that was copied last; "" where there is none."""
        text = self._ask(lambda: self.glfw.get_clipboard_string(self.handle))
        return text.decode(errors="replace") if text else ""

    @clipboard.setter
    def clipboard(self, text: str) -> None:
        self.on_main(lambda: self.glfw.set_clipboard_string(self.handle, text))

    def set_cursor(self, shape: str) -> None:
        """The mouse's shape over the window: one of `CURSORS`."""
        self.on_main(lambda: self._set_cursor(shape))

    def swap(self) -> None:
        """Shows what was drawn."""
        self.glfw.swap_buffers(self.handle)

    def set_vsync(self, on: bool) -> None:
        self.glfw.swap_interval(1 if on else 0)

    def set_title(self, title: str) -> None:
        self.on_main(lambda: self.glfw.set_window_title(self.handle, title))

    def toggle_full_screen(self) -> None:
        """To the whole of the monitor that the window is on, or back."""
        self.on_main(self._toggle_full_screen)

    def shared_context(self) -> SharedContext:
        """A context for another thread. Raises DisplayError where the driver refuses one."""
        hidden, problem = self._ask(self._hidden_window)
        if not hidden:
            raise DisplayError(f"no second OpenGL context: {problem}")
        return SharedContext(self, hidden)

    def _ask(self, question: Callable[[], T]) -> T:
        """What the main thread answers, or raises; it answers at once, since it does nothing else."""
        answers: SimpleQueue[tuple[T | None, Exception | None]] = SimpleQueue()

        def answer() -> None:
            try:
                answers.put((question(), None))
            except Exception as error:
                answers.put((None, error))

        self.on_main(answer)
        found, problem = answers.get()
        if problem is not None:
            raise problem
        return cast("T", found)

    # ---- what the main thread is asked for ----

    def _set_cursor(self, shape: str) -> None:
        if shape not in self._cursors:
            self._cursors[shape] = self.glfw.create_standard_cursor(getattr(self.glfw, CURSORS[shape]))
        self.glfw.set_cursor(self.handle, self._cursors[shape])

    def _hidden_window(self) -> tuple[Any, str]:
        glfw = self.glfw
        glfw.window_hint(glfw.VISIBLE, glfw.FALSE)
        hidden = glfw.create_window(16, 16, "", None, self.handle)
        problem = "" if hidden else _problem(glfw)
        glfw.window_hint(glfw.VISIBLE, glfw.TRUE)
        return hidden, problem

    def _toggle_full_screen(self) -> None:
        glfw = self.glfw
        if self._windowed is not None:
            x, y, width, height = self._windowed
            glfw.set_window_monitor(self.handle, None, x, y, width, height, glfw.DONT_CARE)
            self._windowed = None
            return
        monitor = self._monitor()
        if monitor is not None:
            mode = glfw.get_video_mode(monitor)
            self._windowed = (*glfw.get_window_pos(self.handle), *glfw.get_window_size(self.handle))
            glfw.set_window_monitor(self.handle, monitor, 0, 0, mode.size.width, mode.size.height, mode.refresh_rate)

    def _monitor(self) -> Any:
        """The monitor that shows most of the window; None where there is none."""
        glfw = self.glfw
        x, y = glfw.get_window_pos(self.handle)
        width, height = glfw.get_window_size(self.handle)

        def shown(monitor: Any) -> int:
            left, top = glfw.get_monitor_pos(monitor)
            mode = glfw.get_video_mode(monitor)
            wide: int = min(x + width, left + mode.size.width) - max(x, left)
            high: int = min(y + height, top + mode.size.height) - max(y, top)
            return max(wide, 0) * max(high, 0)

        return max(glfw.get_monitors() or [], key=shown, default=None)


_PLACES = {
    32: "space", 256: "escape", 257: "enter", 258: "tab", 259: "backspace", 260: "insert", 261: "delete", 262: "right_arrow",
    263: "left_arrow", 264: "down_arrow", 265: "up_arrow", 266: "page_up", 267: "page_down", 268: "home", 269: "end",
    **{289 + k: f"f{k}" for k in range(1, 13)}, **{320 + k: f"keypad{k}" for k in range(10)}, 330: "keypad_decimal", 335: "keypad_enter",
    340: "left_shift", 341: "left_ctrl", 342: "left_alt", 343: "left_super", 344: "right_shift", 345: "right_ctrl", 346: "right_alt",
    347: "right_super",
}  # fmt: skip


def _too_old(glfw: Any) -> str:
    """Why no window could be made: what OpenGL there is instead."""
    problem = _problem(glfw)
    glfw.default_window_hints()
    glfw.window_hint(glfw.VISIBLE, glfw.FALSE)
    plain = glfw.create_window(16, 16, "", None, None)
    if not plain:
        return f"no OpenGL on this display ({problem}); the viewer needs {LEAST[0]}.{LEAST[1]}; {HEADLESS}"
    glfw.make_context_current(plain)
    found = gl.version_text(lambda name: address_of(glfw, name))
    glfw.destroy_window(plain)
    return f"the viewer needs OpenGL {LEAST[0]}.{LEAST[1]}; this display has {found}; update the graphics driver, or {HEADLESS}"
