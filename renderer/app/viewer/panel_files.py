"""The small dialog that asks for a file's name: to open another scene, to save this one, or to surround it with a picture.

A field with a path and a button; what is wrong with the path is said below it while it is typed, and the button is grey as long as
anything is. There is no browser of folders: a file is named on the command line or dropped on the window by those who prefer that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from imgui_bundle import ImVec2, imgui

from renderer.app.opening import PICTURES
from renderer.app.viewer import theme
from renderer.app.viewer.panel_widgets import close_on_escape, wrapped
from renderer.scene.importers import BY_ENDING


def wrong_to_load(path: Path) -> str:
    """Why no scene can be read from there; empty where one may."""
    if not path.is_file():
        return "There is no such file"
    return "" if path.suffix.lower() in BY_ENDING else f"A scene's file ends in {', '.join(BY_ENDING)}"


def wrong_to_surround(path: Path) -> str:
    """Why no picture can be read from there; empty where one may."""
    if not path.is_file():
        return "There is no such file"
    return "" if path.suffix.lower() in PICTURES else f"A picture's file ends in {', '.join(PICTURES)}"


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


@dataclass(frozen=True)
class Purpose:
    """What a file is asked for: the dialog's title, its button, and why a path will not do."""

    title: str
    button: str
    wrong: Callable[[Path], str]


LOAD = Purpose("Open a scene", "Open", wrong_to_load)
SAVE = Purpose("Save the scene as", "Save", wrong_to_save)
SURROUND = Purpose("Surround the scene with a picture", "Take", wrong_to_surround)


class FileDialog:
    """Closed until `open` is called; `draw` is called in every turn. `last_picture`: what was chosen last to surround a scene."""

    def __init__(self) -> None:
        self.purpose = LOAD
        self.last_picture: Path | None = None
        self._text = ""
        self._wanted = False

    def open(self, purpose: Purpose, path: Path) -> None:
        """Asks for a file; `path` is what stands there at first."""
        self.purpose, self._text, self._wanted = purpose, str(path), True

    def draw(self) -> Path | None:
        """The file, in the turn in which the user said so."""
        if self._wanted:
            imgui.open_popup("file")
        chosen, purpose = None, self.purpose
        font, room = imgui.get_font_size(), imgui.get_io().display_size.x
        imgui.set_next_window_size(ImVec2(min(font * 30, room - 2 * font), 0.0))
        imgui.set_next_window_pos(ImVec2(room / 2, font * 6), imgui.Cond_.appearing, ImVec2(0.5, 0.0))
        if imgui.begin_popup("file"):
            imgui.text_unformatted(purpose.title)
            if self._wanted:
                imgui.set_keyboard_focus_here()
            imgui.set_next_item_width(-1.0)
            entered, self._text = imgui.input_text("##path", self._text, imgui.InputTextFlags_.enter_returns_true)
            path = Path(self._text).expanduser()
            wrong = purpose.wrong(path)
            if wrong:
                wrapped(wrong, theme.WARNING)
            else:
                wrapped("The file that is there is replaced" if purpose is SAVE and path.exists() else " ", theme.WARNING)
            imgui.begin_disabled(bool(wrong))
            clicked = imgui.button(purpose.button, ImVec2(font * 6, 0.0))
            imgui.end_disabled()
            imgui.same_line()
            if imgui.button("Cancel", ImVec2(font * 6, 0.0)):
                imgui.close_current_popup()
            if (clicked or entered) and not wrong:
                chosen = path
                self.last_picture = path if purpose is SURROUND else self.last_picture
                imgui.close_current_popup()
            close_on_escape()
            imgui.end_popup()
        self._wanted = False
        return chosen
