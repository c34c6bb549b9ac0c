"""Dear ImGui in the viewer's window: its context, the events that it hears of, and the drawing of what it made.

imgui-bundle has a backend for GLFW, but that asks the display for the window's size, the focus and the mouse anew in each turn. On X11
every question waits for the server's answer, and where kernels keep all cores busy ten of them take longer than the frame. So the
`Overlay` listens to the window like everybody else and asks nothing. Drawing is left to the bundle's backend for OpenGL.
"""

from __future__ import annotations

import time
from pathlib import Path

from imgui_bundle import ImVec2, imgui, imguizmo, implot

from renderer.app.viewer import theme
from renderer.app.viewer.window import CURSORS, Key, Window

GLSL = "#version 330 core"
BUTTONS = 5  # of a mouse, as many as Dear ImGui knows


class Overlay:
    """Between `begin` and `end` the panel may be built; `end` draws it over what is in the framebuffer. A `window.Listener`."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._context = imgui.create_context()
        self._plots = implot.create_context()
        io = imgui.get_io()
        io.set_ini_filename("")  # nothing is kept in the user's folder
        io.config_flags |= imgui.ConfigFlags_.nav_enable_keyboard
        io.backend_flags |= imgui.BackendFlags_.has_mouse_cursors
        platform = imgui.get_platform_io()
        platform.platform_get_clipboard_text_fn = lambda _: window.clipboard
        platform.platform_set_clipboard_text_fn = lambda _, text: setattr(window, "clipboard", text)
        self.fonts = theme.load_fonts()
        self._scale = 0.0
        self._cursor = "arrow"
        self._begun_at = time.perf_counter()
        imgui.backends.opengl3_init(GLSL)

    def begin(self) -> None:
        """Begins a turn."""
        if self._window.scale != self._scale:  # also when the window moves to another monitor
            self._scale = self._window.scale
            theme.apply(self._scale)
        io = imgui.get_io()
        now = time.perf_counter()
        io.delta_time, self._begun_at = max(now - self._begun_at, 1e-6), now
        io.display_size = ImVec2(*self._window.framebuffer)
        io.display_framebuffer_scale = ImVec2(1.0, 1.0)  # positions are pixels of the framebuffer everywhere
        imgui.backends.opengl3_new_frame()
        imgui.new_frame()
        imguizmo.im_guizmo.begin_frame()

    def end(self) -> None:
        """Draws."""
        imgui.render()
        imgui.backends.opengl3_render_draw_data(imgui.get_draw_data())
        cursor = _CURSORS.get(imgui.get_mouse_cursor(), "arrow")
        if cursor != self._cursor:
            self._cursor = cursor
            self._window.set_cursor(cursor)

    def close(self) -> None:
        """Gives everything back; the window must be there still."""
        imgui.backends.opengl3_shutdown()
        implot.destroy_context(self._plots)
        imgui.destroy_context(self._context)

    # ---- what the window tells ----

    def on_key(self, key: Key) -> None:
        io = imgui.get_io()
        for modifier, held in zip(_MODIFIERS, (key.ctrl, key.shift, key.alt, key.super)):
            io.add_key_event(modifier, held)
        known = _KEYS.get(key.name) or _KEYS.get(key.place)
        if known is not None:
            io.add_key_event(known, key.pressed)

    def on_text(self, text: str) -> None:
        imgui.get_io().add_input_characters_utf8(text)

    def on_button(self, button: int, pressed: bool) -> None:
        if button < BUTTONS:
            imgui.get_io().add_mouse_button_event(button, pressed)

    def on_move(self, x: float, y: float) -> None:
        imgui.get_io().add_mouse_pos_event(x, y)

    def on_scroll(self, dx: float, dy: float) -> None:
        imgui.get_io().add_mouse_wheel_event(dx, dy)

    def on_drop(self, paths: list[Path]) -> None:
        """Not its affair."""

    def on_focus(self, focused: bool) -> None:
        imgui.get_io().add_focus_event(focused)

    def on_damage(self) -> None:
        """Not its affair."""


_CURSORS = {getattr(imgui.MouseCursor_, name): name for name in CURSORS}
_MODIFIERS = (imgui.Key.mod_ctrl, imgui.Key.mod_shift, imgui.Key.mod_alt, imgui.Key.mod_super)
_PUNCTUATION = {
    "'": "apostrophe", ",": "comma", "-": "minus", ".": "period", "/": "slash", ";": "semicolon", "=": "equal", "[": "left_bracket",
    "\\": "backslash", "]": "right_bracket", "`": "grave_accent",
}  # fmt: skip
_KEYS = {
    **{name: getattr(imgui.Key, name) for name in dir(imgui.Key) if name.islower() and isinstance(getattr(imgui.Key, name), imgui.Key)},
    **{str(digit): getattr(imgui.Key, f"_{digit}") for digit in range(10)},
    **{letter: getattr(imgui.Key, name) for letter, name in _PUNCTUATION.items()},
}
