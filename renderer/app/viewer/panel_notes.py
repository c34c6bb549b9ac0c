"""What the viewer has to say at the moment: errors, notices, progress, and the keys.

An error stays in the panel, above everything else, until what caused it is mended; it does not lie over the picture. With the panel
hidden one line at the window's lower edge says that there is one. A notice stands at that edge for some seconds; a build in the
background has a small card there for as long as it lasts. Before there is a picture the window shows what is being done, how far it is,
and what has taken how long.
"""

from __future__ import annotations

import time

from imgui_bundle import ImVec2, imgui

from renderer.app.viewer import theme
from renderer.app.viewer.panel_widgets import elide, elided, wrapped
from renderer.app.viewer.state import Figures, Progress

NOTICE_S = 6.0  # that a notice is shown
STEPS = 12  # of the progress, shown at most
OVERLAY = (
    imgui.WindowFlags_.no_decoration | imgui.WindowFlags_.no_inputs | imgui.WindowFlags_.no_nav | imgui.WindowFlags_.no_saved_settings
    | imgui.WindowFlags_.no_focus_on_appearing
)  # fmt: skip
KEYS = (
    ("Left drag", "orbit"),
    ("Middle drag", "pan"),
    ("Wheel", "zoom"),
    ("Click", "select an object"),
    ("Double click", "set the pivot"),
    ("W A S D Q E", "fly; with Shift faster"),
    ("F", "frame the scene"),
    ("R", "reset the camera"),
    ("[  ]", "workgroup 256, 512"),
    ("Ctrl Z, Ctrl Y", "undo, redo"),
    ("Ctrl S", "save beside the scene's file"),
    ("P", "screenshot"),
    ("F1", "this panel"),
    ("F11", "full screen"),
    ("Esc", "quit"),
)


def error_box(text: str, most: float) -> None:
    """The error, whole, in a box at most `most` high that scrolls; nothing without one."""
    if not text:
        return
    imgui.push_style_color(imgui.Col_.child_bg, theme.ERROR_GROUND)
    imgui.set_next_window_size_constraints(ImVec2(0.0, 0.0), ImVec2(1e6, most))
    flags = imgui.ChildFlags_.always_use_window_padding | imgui.ChildFlags_.auto_resize_y
    if imgui.begin_child("error", ImVec2(0.0, 0.0), flags):
        wrapped(text, theme.ERROR)
    imgui.end_child()
    imgui.pop_style_color()


def notice_box(text: str) -> None:
    """A remark that stays, in the panel."""
    imgui.push_style_color(imgui.Col_.child_bg, theme.WARNING_GROUND)
    flags = imgui.ChildFlags_.always_use_window_padding | imgui.ChildFlags_.auto_resize_y
    if imgui.begin_child(text, ImVec2(0.0, 0.0), flags):
        wrapped(text, theme.WARNING)
    imgui.end_child()
    imgui.pop_style_color()


def software_text(figures: Figures) -> str:
    """What is to be known of a device that is none; empty for a real one."""
    if not figures.software or figures.backend in ("cpu", "reference"):
        return ""
    return f"{figures.backend} runs in software here ({figures.device}): its times say nothing of a GPU."


class Notes:
    """What lies over the picture's lower edge: notice, background build, error while the panel is hidden."""

    def __init__(self) -> None:
        self._message = ""
        self._until = 0.0

    def draw(self, figures: Figures, width: float, height: float, *, panel: bool) -> None:
        """`width`, `height`: the part of the window that the panel leaves free. Takes the message out of the figures after its time."""
        now = time.monotonic()
        if figures.message != self._message:
            self._message, self._until = figures.message, now + NOTICE_S
        if figures.message and now > self._until:
            figures.message = self._message = ""
        edge = height - imgui.get_font_size() * 0.8
        if figures.error and not panel:
            edge = self._strip("error", f"{_first_line(figures.error)}  (F1: the panel)", width, edge, error=True)
        if figures.message:
            edge = self._strip("notice", figures.message, width, edge)
        if figures.building is not None:
            self._build(figures.building, width, edge)

    def _strip(self, name: str, text: str, width: float, bottom: float, *, error: bool = False) -> float:
        """One text in the middle of the lower edge, over a few lines if it must; where the next one ends."""
        most = max(width - 2 * imgui.get_font_size(), 40.0)
        padding = imgui.get_style().window_padding.x
        wrap = min(imgui.calc_text_size(text).x, most - 2 * padding) + 1.0
        imgui.set_next_window_pos(ImVec2(width / 2, bottom), imgui.Cond_.always, ImVec2(0.5, 1.0))
        imgui.set_next_window_bg_alpha(0.92)
        imgui.push_style_var(imgui.StyleVar_.window_rounding, imgui.get_style().frame_rounding)
        imgui.push_style_color(imgui.Col_.window_bg, theme.ERROR_GROUND if error else theme.GROUND)
        imgui.begin(f"##{name}", None, OVERLAY | imgui.WindowFlags_.always_auto_resize)
        imgui.push_text_wrap_pos(padding + wrap)
        imgui.text_colored(theme.ERROR if error else theme.TEXT, text)
        imgui.pop_text_wrap_pos()
        top = imgui.get_window_pos().y
        imgui.end()
        imgui.pop_style_color()
        imgui.pop_style_var()
        return top - imgui.get_style().item_spacing.y

    def _build(self, progress: Progress, width: float, bottom: float) -> None:
        card = min(imgui.get_font_size() * 22, width - imgui.get_font_size() * 2)
        imgui.set_next_window_pos(ImVec2(width / 2, bottom), imgui.Cond_.always, ImVec2(0.5, 1.0))
        imgui.set_next_window_size(ImVec2(card, 0.0))
        imgui.set_next_window_bg_alpha(0.92)
        imgui.push_style_var(imgui.StyleVar_.window_rounding, imgui.get_style().frame_rounding)
        imgui.begin("##building", None, OVERLAY)
        _bar(progress)
        imgui.end()
        imgui.pop_style_var()


def _bar(progress: Progress) -> None:
    seconds = f"{progress.seconds:.1f} s"
    right = imgui.calc_text_size(seconds).x
    start, room = imgui.get_cursor_pos_x(), imgui.get_content_region_avail().x
    imgui.text_unformatted(elide(progress.label, room - right - imgui.get_font_size()))
    imgui.same_line(start + room - right)
    imgui.text_colored(theme.FAINT, seconds)
    imgui.progress_bar(min(max(progress.fraction, 0.0), 1.0), ImVec2(-1.0, imgui.get_font_size() * 0.4), "")


def progress_card(progress: Progress, title: str, error: str, bold: imgui.ImFont | None, free: float) -> None:
    """The middle of the window, as far as it is free (Dear ImGui's units from the left), before there is a picture."""
    display = imgui.get_io().display_size
    font = imgui.get_font_size()
    width = min(font * 26, free - 2 * font)
    imgui.set_next_window_pos(ImVec2(free / 2, display.y / 2), imgui.Cond_.always, ImVec2(0.5, 0.5))
    imgui.set_next_window_size_constraints(ImVec2(width, 0.0), ImVec2(width, display.y - 2 * font))
    imgui.push_style_var(imgui.StyleVar_.window_padding, ImVec2(font * 1.2, font))
    imgui.push_style_var(imgui.StyleVar_.window_rounding, imgui.get_style().frame_rounding * 1.5)
    flags = imgui.WindowFlags_.no_decoration | imgui.WindowFlags_.always_auto_resize | imgui.WindowFlags_.no_saved_settings
    imgui.begin("##progress", None, flags | imgui.WindowFlags_.no_move)
    imgui.push_font(bold, theme.FONT_SIZE * 1.2)
    elided(title)
    imgui.pop_font()
    imgui.spacing()
    _bar(progress)
    imgui.spacing()
    hidden = max(0, len(progress.steps) - STEPS)
    if hidden:
        imgui.text_colored(theme.FAINT, f"{hidden} steps before these")
    for label, seconds in progress.steps[hidden:]:
        taken = f"{seconds:.2f} s"
        start, room = imgui.get_cursor_pos_x(), imgui.get_content_region_avail().x
        imgui.text_colored(theme.FAINT, elide(label, room - font * 5))
        imgui.same_line(start + room - imgui.calc_text_size(taken).x)
        imgui.text_colored(theme.FAINT, taken)
    error_box(error, display.y * 0.4)
    imgui.end()
    imgui.pop_style_var(2)


def keys_table() -> None:
    """Mouse and keys."""
    if imgui.begin_table("keys", 2, imgui.TableFlags_.sizing_fixed_fit):
        for key, meaning in KEYS:
            imgui.table_next_row()
            imgui.table_next_column()
            imgui.text_unformatted(key)
            imgui.table_next_column()
            imgui.text_colored(theme.FAINT, meaning)
        imgui.end_table()


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0]
