"""The small dialog that asks for a file's name: to open another scene, or to save this one.

A field with a path and a button; what is wrong with the path is said below it while it is typed, and the button is grey as long as
anything is. There is no browser of folders: a scene is opened from the command line or dropped on the window by those who prefer that.
"""

from __future__ import annotations

from pathlib import Path

from imgui_bundle import ImVec2, imgui

from renderer.app.viewer import theme
from renderer.app.viewer.panel_widgets import close_on_escape, wrapped
from renderer.scene.importers import BY_ENDING


def wrong_to_load(path: Path) -> str:
    """Why no scene can be read from there; empty where one may."""
    if not path.is_file():
        return "There is no such file"
    return "" if path.suffix.lower() in BY_ENDING else f"A scene's file ends in {', '.join(BY_ENDING)}"


def wrong_to_save(path: Path) -> str:
    """Why no scene can be written there; empty where one may."""
    if path.suffix.lower() != ".glb":
        return "The file's name has to end in .glb"
    if not path.parent.is_dir():
        return f"There is no folder {path.parent}"
    return "This is a folder" if path.is_dir() else ""


def name_to_save(scene: Path) -> Path:
    """A name for the changed scene that does not overwrite the one it was read from."""
    return scene.with_name(f"{scene.stem}-edited.glb")


class FileDialog:
    """Closed until one of `open_to_load` and `open_to_save` is called; `draw` is called in every turn."""

    def __init__(self) -> None:
        self._saving = False
        self._text = ""
        self._wanted = False

    def open_to_load(self, scene: Path) -> None:
        self._saving, self._text, self._wanted = False, str(scene), True

    def open_to_save(self, scene: Path) -> None:
        self._saving, self._text, self._wanted = True, str(name_to_save(scene)), True

    def draw(self) -> tuple[Path | None, Path | None]:
        """The file to open and the one to save to, in the turn in which the user said so."""
        if self._wanted:
            imgui.open_popup("file")
        chosen = None
        font, room = imgui.get_font_size(), imgui.get_io().display_size.x
        imgui.set_next_window_size(ImVec2(min(font * 30, room - 2 * font), 0.0))
        imgui.set_next_window_pos(ImVec2(room / 2, font * 6), imgui.Cond_.appearing, ImVec2(0.5, 0.0))
        if imgui.begin_popup("file"):
            imgui.text_unformatted("Save the scene as" if self._saving else "Open a scene")
            if self._wanted:
                imgui.set_keyboard_focus_here()
            imgui.set_next_item_width(-1.0)
            entered, self._text = imgui.input_text("##path", self._text, imgui.InputTextFlags_.enter_returns_true)
            path = Path(self._text).expanduser()
            wrong = wrong_to_save(path) if self._saving else wrong_to_load(path)
            if wrong:
                wrapped(wrong, theme.WARNING)
            else:
                wrapped("The file that is there is replaced" if self._saving and path.exists() else " ", theme.WARNING)
            imgui.begin_disabled(bool(wrong))
            clicked = imgui.button("Save" if self._saving else "Open", ImVec2(font * 6, 0.0))
            imgui.end_disabled()
            imgui.same_line()
            if imgui.button("Cancel", ImVec2(font * 6, 0.0)):
                imgui.close_current_popup()
            if (clicked or entered) and not wrong:
                chosen = path
                imgui.close_current_popup()
            close_on_escape()
            imgui.end_popup()
        self._wanted = False
        return (None, chosen) if self._saving else (chosen, None)
