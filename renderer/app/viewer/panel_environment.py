"""The panel's section of what surrounds the scene: nothing, one colour, a sky with a sun, or a picture in a file.

Each kind has its rows; strength and turn are numbers of the kernels, and so is another picture, and the height of the sun: none of them
compiles anything. Another kind may, since a scene without surroundings has no code for them; then it is built in the background. What a
kind was when another was chosen is kept, so that going to and fro loses nothing. All changes are steps of the history.

A scene that has lost its lights and has no surroundings is lit by a sky of one colour. It is shown as the colour that it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from imgui_bundle import ImVec2, imgui

from renderer.app.viewer import theme
from renderer.app.viewer.panel_widgets import GUTTER, Edits, Rows, tooltip, wrapped
from renderer.scene.light_tables import SKY
from renderer.scene.model import Environment, Scene, Sky
from renderer.scene.sky import CLEAREST, HAZIEST, HIGHEST, LOWEST

if TYPE_CHECKING:
    from renderer.app.viewer.editing import Editor

KINDS = ("none", "colour", "sky", "picture")
BLACK = Environment((0.0, 0.0, 0.0))
STRONGEST = 100.0
ADDED = "Not of the file: the scene is dark without it. A saved scene has it."
UNIFORM = "This is the same all around: turning it changes nothing"


def kind_of(environment: Environment) -> str:
    """One of KINDS."""
    if environment.sky is not None:
        return "sky"
    if environment.image is not None:
        return "picture"
    return "colour" if any(environment.radiance) else "none"


def surroundings_of(scene: Scene, lights: int) -> Environment:
    """What is around a scene with so many lamps, said or not."""
    if scene.environment is not None:
        return scene.environment
    return BLACK if lights or any(light.intensity > 0 for light in scene.lights) else Environment(SKY)


class EnvironmentSection:
    """`draw` is called in every turn in which the section is open."""

    def __init__(self, rows: Rows, edits: Edits) -> None:
        self._rows, self._edits = rows, edits
        self._kept: dict[str, Environment] = {}

    def forget(self) -> None:
        """Another scene is shown."""
        self._kept.clear()

    def draw(self, editor: Editor, lights: int) -> bool:
        """`lights`: lamps of the scene. Whether the user wants to choose a picture."""
        scene = editor.scene
        around = surroundings_of(scene, lights)
        kind = kind_of(around)
        self._kept[kind] = around
        gutter = GUTTER * imgui.get_font_size()
        imgui.indent(gutter)
        wanted = self._kind(editor, kind)
        if kind == "picture":
            wanted = self._picture(around) or wanted
        elif kind == "sky":
            self._sky(editor, around)
        if kind != "none":
            self._numbers(editor, around)
        if scene.environment is None and kind == "colour":
            wrapped("The scene has no light of its own; a sky of this colour lights it.", theme.FAINT)
        if around.added:
            wrapped(ADDED, theme.FAINT)
        imgui.unindent(gutter)
        return wanted

    def _kind(self, editor: Editor, kind: str) -> bool:
        """The choice of the kind; whether a picture is wanted that is not known yet."""
        if self._rows.undo_button("environment", editor.scene.environment != editor.loaded.environment):
            self._set(editor, "environment as in the file", editor.loaded.environment)
            return False
        tip = "Surroundings: nothing, one colour, a sky with a sun, or a picture (choose its file, or drop it on the window)"
        changed, k = self._rows.choice("Kind##environment kind", KINDS, KINDS.index(kind), tip)
        if not changed:
            return False
        chosen = KINDS[k]
        if chosen == "picture" and chosen not in self._kept:
            return True
        new = {"none": BLACK, "colour": Environment(), "sky": Environment(sky=Sky())}
        self._set(editor, f"environment {chosen}", self._kept.get(chosen) or new[chosen])
        return False

    def _picture(self, around: Environment) -> bool:
        """The file; whether another is wanted."""
        assert around.image is not None
        height, width = around.image.shape[:2]
        name = around.source.name if around.source is not None else "of the scene"
        self._rows.figure("File", name, f"{around.source or 'A picture'}: {width} × {height}")
        self._rows.figure("Size", f"{width} × {height}")
        clicked = imgui.button("Choose a picture", ImVec2(-1.0, 0.0))
        tooltip("An equirectangular .hdr, .exr, .png or .npy; one that is dropped on the window is taken as well")
        return clicked

    def _sky(self, editor: Editor, around: Environment) -> None:
        sky = around.sky
        assert sky is not None
        tip = "Of the sun, above the horizon. Its direction is the turn"
        risen, elevation = self._rows.slider("Sun height##sun height", sky.elevation, LOWEST, HIGHEST, "%.0f°", tip)
        tip = "Turbidity of the air: 2 clear, 6 hazy, 10 thick"
        thicker, turbidity = self._rows.slider("Haze##haze", sky.turbidity, CLEAREST, HAZIEST, "%.1f", tip)
        if risen or thicker:
            self._set(editor, "sky", replace(around, sky=Sky(elevation, turbidity)))

    def _numbers(self, editor: Editor, around: Environment) -> None:
        label = "Tint" if around.is_picture else "Colour"
        changed, radiance = self._rows.color(f"{label}##environment color", around.radiance, "A factor on what arrives")
        if changed:
            self._set(editor, "environment colour", replace(around, radiance=radiance))
        changed, strength = self._rows.slider(
            "Strength##environment strength", around.strength, 0.0, max(STRONGEST, around.strength), "%.2f",
            "Factor on the surroundings' light", logarithmic=True,
        )  # fmt: skip
        if changed:
            self._set(editor, "environment strength", replace(around, strength=strength))
        tip = "Turns the surroundings about the vertical" if around.is_picture else UNIFORM
        imgui.begin_disabled(not around.is_picture)
        changed, turn = self._rows.slider("Turn##environment turn", around.turn, -180.0, 180.0, "%.0f°", tip)
        imgui.end_disabled()
        if changed:
            self._set(editor, "environment turn", replace(around, turn=turn))

    def _set(self, editor: Editor, label: str, environment: Environment | None) -> None:
        self._edits.change(editor, label, lambda: editor.set_environment(environment))
