"""The panel: everything of the viewer that can be set and read, in a column on the right of the window, and the handles in the picture.

`Panel.draw` builds one turn of it between Dear ImGui's new_frame and render, which the loop calls (`overlay`). It changes `Settings` in
place, changes the scene through the `Editor`, and returns as `PanelActions` what only the loop can do. It keeps nothing of what it shows:
settings, figures and scene may be others with every call. Hidden, it still draws the handles, notices, and a line for an error.

The column is as wide as the user drags it, between the narrowest that can be read and 45 per cent of the window; before that, a third
of the window, within limits. Its head stays: buttons, the error if there is one. Below it the sections scroll; they are collapsing
headers, and those that one needs first are open.

The window's listeners hear of every event, also of those over the panel; they ask `wants_mouse` and `wants_keyboard`, which hold since the
turn that was drawn last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from imgui_bundle import ImVec2, imgui

from renderer.app.viewer import panel_render, theme
from renderer.app.viewer.gizmo import Gizmo
from renderer.app.viewer.panel_environment import EnvironmentSection, kind_of, surroundings_of
from renderer.app.viewer.panel_figures import FigureSections
from renderer.app.viewer.panel_files import LOAD, SAVE, SURROUND, FileDialog, name_to_save
from renderer.app.viewer.panel_lights import LightSection
from renderer.app.viewer.panel_materials import MaterialSection
from renderer.app.viewer.panel_notes import Notes, error_box, keys_table, notice_box, progress_card, software_text
from renderer.app.viewer.panel_scene import SceneSections
from renderer.app.viewer.panel_shown import Shown
from renderer.app.viewer.panel_textures import TextureRows
from renderer.app.viewer.panel_widgets import Edits, Rows, close_on_escape, elide, tooltip, wrapped
from renderer.app.viewer.state import Figures, Progress, Settings
from renderer.app.viewer.thumbnails import Thumbnails
from renderer.pipeline.tonemap import TONEMAPPERS
from renderer.scene.model import Camera

if TYPE_CHECKING:
    from renderer.app.viewer.editing import Editor

WIDTH, LEAST_WIDTH = 340.0, 220.0  # at scale 1
SHARE, MOST_SHARE = 0.33, 0.45  # of the window
HANDLE = 5.0  # width of the edge that is dragged
FIXED = (
    imgui.WindowFlags_.no_title_bar | imgui.WindowFlags_.no_resize | imgui.WindowFlags_.no_move | imgui.WindowFlags_.no_collapse
    | imgui.WindowFlags_.no_saved_settings | imgui.WindowFlags_.no_bring_to_front_on_focus | imgui.WindowFlags_.no_scrollbar
    | imgui.WindowFlags_.no_scroll_with_mouse
)  # fmt: skip
OPEN = imgui.TreeNodeFlags_.default_open
TOOLS = (
    ("Open", theme.ICON_OPEN, "Open another scene (or drop a file on the window)"),
    ("Save", theme.ICON_SAVE, "Save the scene with its changes"),
    ("Reload", theme.ICON_RELOAD, "Read the scene again from its file"),
    ("Frame", theme.ICON_FRAME, "Move the camera so that it sees the whole scene (F)"),
    ("Reset", theme.ICON_HOME, "Put the camera back where it was (R)"),
    ("Photo", theme.ICON_PHOTO, "Save the picture (P)"),
    ("Full", theme.ICON_FULL_SCREEN, "Full screen (F11)"),
    ("Keys", theme.ICON_HELP, "Mouse and keys. F1 hides this panel"),
)


class View(Protocol):
    """Where the picture is seen from."""

    @property
    def camera(self) -> Camera: ...

    @property
    def distance(self) -> float:
        """Metres from the eye to the pivot."""


@dataclass(frozen=True)
class PanelActions:
    """What the user asked for in this turn and the loop has to do. `camera`: the camera in view with another lens."""

    screenshot: bool = False
    reset_camera: bool = False
    frame_scene: bool = False
    full_screen: bool = False
    reload: bool = False
    open: Path | None = None
    save: Path | None = None
    surround: Path | None = None
    camera: Camera | None = None


class Panel:
    """The panel of one window. `fonts`: what `theme.load_fonts` returned for its context."""

    def __init__(self, fonts: theme.Fonts, thumbnails: Thumbnails) -> None:
        self._fonts = fonts
        rows, edits, self._shown = Rows(icons=fonts.icons), Edits(), Shown()
        self._rows, self._edits = rows, edits
        self._textures = TextureRows(rows, thumbnails)
        self._materials = MaterialSection(rows, edits, self._shown, self._textures)
        self._lights = LightSection(rows, edits, self._shown, self._materials)
        self._environment = EnvironmentSection(rows, edits)
        self._scene = SceneSections(rows, edits, self._shown)
        self._figures = FigureSections(rows)
        self._notes, self._gizmo, self._files = Notes(), Gizmo(), FileDialog()
        self._width: float | None = None  # that was dragged, at scale 1
        self._popup = False
        self.covered = 0.0  # of the window's width, in Dear ImGui's units

    @property
    def wants_mouse(self) -> bool:
        """Whether the mouse is the panel's: over it, dragging a control, or at the handles of the selected object."""
        return imgui.get_io().want_capture_mouse or self._gizmo.hovered or self._gizmo.busy

    def has_mouse(self, x: float, width: float) -> bool:
        """`wants_mouse`, and whether the mouse, at `x` in a window of this width, has come to the column since the turn drawn last."""
        return self.wants_mouse or x >= width - self.covered

    @property
    def wants_keyboard(self) -> bool:
        """Whether keys are the panel's: text is being typed, or something is open that Esc closes."""
        return imgui.get_io().want_text_input or self._popup

    def draw(self, settings: Settings, figures: Figures, editor: Editor, view: View) -> PanelActions:
        """One turn."""
        display = imgui.get_io().display_size
        self._figures.follow(figures, settings)
        if self._shown.follow(editor, view.distance):
            self._textures.forget()
            self._environment.forget()
        self._gizmo.draw(editor, view.camera, settings.gizmo, display.x, display.y)
        actions = PanelActions()
        self.covered = self._column_width(display.x) if settings.show_panel else 0.0
        if settings.show_panel:
            actions = self._column(settings, figures, editor, view.camera)
        free = display.x - self.covered
        if figures.frames == 0 and figures.building is not None:
            progress_card(figures.building, editor.scene.path.name, "", self._fonts.bold, free)
        self._notes.draw(figures, free, display.y, panel=settings.show_panel)
        self._popup = imgui.is_popup_open("", imgui.PopupFlags_.any_popup_id | imgui.PopupFlags_.any_popup_level)
        self._edits.settle(editor)
        return actions

    def draw_loading(self, figures: Figures, title: str) -> None:
        """The whole window while there is no scene yet: what is being done, or why there will be none."""
        self.covered, self._popup = 0.0, False
        progress_card(figures.building or Progress(), title, figures.error, self._fonts.bold, imgui.get_io().display_size.x)

    # ---- the column ----

    def _column_width(self, window: float) -> float:
        scale = imgui.get_style().font_scale_dpi
        wanted = self._width if self._width is not None else min(WIDTH, SHARE * window / scale)
        return min(max(wanted, LEAST_WIDTH) * scale, window * MOST_SHARE)

    def _column(self, settings: Settings, figures: Figures, editor: Editor, camera: Camera) -> PanelActions:
        display = imgui.get_io().display_size
        imgui.set_next_window_pos(ImVec2(display.x - self.covered, 0.0))
        imgui.set_next_window_size(ImVec2(self.covered, display.y))
        imgui.begin("panel", None, FIXED)
        self._edge(display.x)
        actions = self._head(editor)
        error_box(figures.error, display.y * 0.3)
        imgui.begin_child("sections", ImVec2(0.0, 0.0), imgui.ChildFlags_.nav_flattened)  # keys come to all controls as to those above
        self._rows.measure()
        software = software_text(figures)
        if software:
            notice_box(software)
        lens = self._sections(settings, figures, editor, camera)
        imgui.end_child()
        imgui.end()
        return replace(actions, camera=lens)

    def _edge(self, window: float) -> None:
        """The column's left edge, which changes its width."""
        start = imgui.get_cursor_pos()
        imgui.set_cursor_pos(ImVec2(0.0, 0.0))
        scale = imgui.get_style().font_scale_dpi
        imgui.invisible_button("edge", ImVec2(HANDLE * scale, imgui.get_window_height()))
        if imgui.is_item_hovered() or imgui.is_item_active():
            imgui.set_mouse_cursor(imgui.MouseCursor_.resize_ew)
            corner = imgui.get_window_pos()
            color = imgui.get_color_u32(imgui.Col_.separator_active if imgui.is_item_active() else imgui.Col_.separator_hovered)
            imgui.get_window_draw_list().add_line(corner, ImVec2(corner.x, corner.y + imgui.get_window_height()), color, 2 * scale)
        if imgui.is_item_active():
            self._width = min(max((window - imgui.get_mouse_pos().x) / scale, LEAST_WIDTH), window * MOST_SHARE / scale)
        imgui.set_cursor_pos(start)

    def _head(self, editor: Editor) -> PanelActions:
        """Two lines of buttons that are always there."""
        half = (imgui.get_content_region_avail().x - imgui.get_style().item_spacing.x) / 2
        if self._history_button("Undo", theme.ICON_UNDO, editor.undo_label, half):
            editor.undo()
        imgui.same_line()
        if self._history_button("Redo", theme.ICON_REDO, editor.redo_label, half):
            editor.redo()
        clicked = self._toolbar("" if editor.dirty else " (there are none)")
        if clicked == "Open":
            self._files.open(LOAD, editor.scene.path)
        elif clicked == "Save":
            self._files.open(SAVE, name_to_save(editor.scene.path))
        elif clicked == "Keys":
            imgui.open_popup("keys")
        if imgui.begin_popup("keys"):
            keys_table()
            close_on_escape()
            imgui.end_popup()
        chosen = self._files.draw()
        return PanelActions(
            screenshot=clicked == "Photo",
            reset_camera=clicked == "Reset",
            frame_scene=clicked == "Frame",
            full_screen=clicked == "Full",
            reload=clicked == "Reload",
            open=chosen if self._files.purpose is LOAD else None,
            save=chosen if self._files.purpose is SAVE else None,
            surround=chosen if self._files.purpose is SURROUND else None,
        )

    def _history_button(self, word: str, icon: str, label: str | None, width: float) -> bool:
        imgui.begin_disabled(label is None)
        text = f"{icon}  {label or word}" if self._fonts.icons else f"{word} {label or ''}"
        text = elide(text, width - 2 * imgui.get_style().frame_padding.x)
        imgui.push_style_var(imgui.StyleVar_.button_text_align, ImVec2(0.0, 0.5))
        clicked = imgui.button(f"{text}###{word}", ImVec2(width, 0.0))
        imgui.pop_style_var()
        imgui.end_disabled()
        tooltip(f"{word}: {label}" if label else f"Nothing to {word.lower()}")
        return clicked

    def _toolbar(self, unsaved: str) -> str:
        """Buttons of one width, in one line or, where that is too narrow, in two; the word of the one that was clicked."""
        style = imgui.get_style()
        tools = [(word, icon, tip + unsaved if word == "Save" else tip) for word, icon, tip in TOOLS]
        widest = max(imgui.calc_text_size(self._face(word, icon)).x for word, icon, _ in tools) + style.frame_padding.x
        room = imgui.get_content_region_avail().x + style.item_spacing.x
        columns = next(n for n in (8, 4, 2, 1) if n == 1 or room / n - style.item_spacing.x >= widest)
        width = room / columns - style.item_spacing.x
        clicked = ""
        for k, (word, icon, tip) in enumerate(tools):
            if k % columns:
                imgui.same_line()
            if imgui.button(f"{self._face(word, icon)}###{word}", ImVec2(width, 0.0)):
                clicked = word
            tooltip(tip)
        return clicked

    def _face(self, word: str, icon: str) -> str:
        return icon if self._fonts.icons else word

    # ---- sections ----

    def _section(self, title: str, *, is_open: bool = True) -> bool:
        imgui.push_font(self._fonts.bold, 0.0)
        shown = imgui.collapsing_header(title, OPEN if is_open else 0)
        imgui.pop_font()
        return shown

    def _sections(self, settings: Settings, figures: Figures, editor: Editor, view: Camera) -> Camera | None:
        """All of them; the camera in view with another lens, if it got one."""
        rows, scene = self._rows, editor.scene
        lens = None
        if self._section("Renderer"):
            panel_render.renderer(rows, settings, figures)
        if self._section("Picture"):
            panel_render.picture(rows, settings, tuple(TONEMAPPERS))
        if scene.variants and self._section("Variants"):
            self._scene.variants(editor)
        around = surroundings_of(scene, figures.lights)
        if self._section(f"Environment: {kind_of(around)}###environment", is_open=False) and self._environment.draw(editor, figures.lights):
            source = around.source if around.source is not None else self._files.last_picture or scene.path.parent
            self._files.open(SURROUND, source)
        if self._section("Camera", is_open=False):
            lens, kept = panel_render.camera(rows, settings, scene, view)
            if kept:
                editor.set_camera(settings.camera, replace(view, name=scene.cameras[settings.camera].name))
        if editor.selected is not None and self._section("Selected object"):
            self._scene.selected(editor, settings)
        if self._section("Speed"):
            self._figures.speed(figures, settings)
        if self._section(f"Lights ({len(self._shown.light_names)})###lights", is_open=False):
            self._lights.draw(editor)
        if self._section(f"Materials ({len(scene.materials)})###materials", is_open=False):
            self._materials.draw(editor, figures)
        if self._section(f"Objects ({len(scene.instances)})###objects", is_open=False):
            self._scene.objects(editor)
        if self._section(f"Compiles ({len(figures.compiles)})###compiles", is_open=False):
            self._figures.compiles(figures)
        if self._section("Device and memory", is_open=False):
            self._figures.device(figures)
        if figures.warnings and self._section(f"Warnings ({len(figures.warnings)})###warnings", is_open=False):
            for line in figures.warnings:
                wrapped(f"• {line}")
        return lens
