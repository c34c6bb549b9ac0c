"""The panel's section of lights: the file's punctual lights, then the materials that shine, in one list.

A punctual light has a colour and an intensity (a point or a spot in W/sr, glTF's candela; a directional one in W/m², its lux), a range,
and a spot its two angles. It is off where its intensity is nothing; what it was is kept, so that it can be turned on again, and undo has
it too. A material that shines has a colour and a strength, as in the section of materials.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from imgui_bundle import imgui

from renderer.app.viewer import theme
from renderer.app.viewer.panel_materials import MaterialSection
from renderer.app.viewer.panel_shown import Shown, bright_swatch, scaled
from renderer.app.viewer.panel_widgets import GUTTER, Edits, Rows, wrapped
from renderer.scene.model import Light

if TYPE_CHECKING:
    from renderer.app.viewer.editing import Editor

BRIGHTEST = 1e7  # of an intensity
FARTHEST = 1e6  # m, of a range
WIDEST = 90.0  # degrees from the axis: half a sphere
APART = 0.05  # degrees, that the inner cone stays within the outer one
UNITS = {"point": "W/sr", "spot": "W/sr", "directional": "W/m²"}


class LightSection:
    """The list, and the controls of the light that is chosen."""

    def __init__(self, rows: Rows, edits: Edits, shown: Shown, materials: MaterialSection) -> None:
        self._rows, self._edits, self._shown, self._materials = rows, edits, shown, materials

    def draw(self, editor: Editor) -> None:
        shown = self._shown
        if not shown.light_names:
            wrapped("No light, and no material that emits any. Give a material an emission and it is listed here.", theme.FAINT)
            return
        lamps = len(shown.lamp_names)
        chosen = shown.lamp
        if chosen is None and shown.material in shown.emitters:
            chosen = lamps + shown.emitters.index(shown.material)
        clicked = shown.lights.draw(shown.light_names, chosen, lambda place: bright_swatch(self._color(editor, place)))
        if clicked is not None and clicked < lamps:
            shown.lamp = clicked
        elif clicked is not None:
            shown.lamp = None
            shown.choose_material(shown.emitters[clicked - lamps])
        gutter = GUTTER * imgui.get_font_size()
        imgui.indent(gutter)
        imgui.push_id("light")
        if shown.lamp is not None:
            self._lamp(editor, shown.lamp)
        elif shown.material is not None and shown.material in shown.emitters:
            self._materials.emission(editor, shown.material)
        imgui.pop_id()
        imgui.unindent(gutter)

    def _color(self, editor: Editor, place: int) -> tuple[float, ...]:
        lamps = len(self._shown.lamp_names)
        if place >= lamps:
            return editor.scene.materials[self._shown.emitters[place - lamps]].emissive
        light = editor.scene.lights[place]
        return light.color if light.intensity > 0 else (0.0, 0.0, 0.0)

    # ---- punctual lights ----

    def _lamp(self, editor: Editor, number: int) -> None:
        rows, light, loaded = self._rows, editor.scene.lights[number], editor.loaded.lights[number]
        rows.figure("Kind", light.kind)
        intensities = self._shown.intensities
        before = light.intensity if light.intensity > 0 else intensities.get(number, loaded.intensity or 1.0)
        changed, on = rows.check("On##lamp on", light.intensity > 0, "Off is an intensity of 0, also in a saved file")
        if changed:
            intensities[number] = before
            self._set(editor, number, "switch", replace(light, intensity=before if on else 0.0))
            return
        if self._field(editor, number, "color"):
            return
        changed, color = rows.color("Colour##lamp color", light.color)
        if changed:
            top = max(color)  # its brightness is that of the intensity
            self._set(editor, number, "colour", replace(light, color=scaled(color, 1 / top) if top > 1 else color))
        if self._field(editor, number, "intensity"):
            return
        unit = UNITS[light.kind]
        form = f"%.4g {unit}" if light.intensity > 0 else "off"
        step = max(0.001, light.intensity * 0.01)
        changed, intensity = rows.drag("Intensity##lamp intensity", light.intensity, 0.0, BRIGHTEST, step, form, f"In {unit}; 0: off")
        if changed:
            intensities[number] = before
            self._set(editor, number, "intensity", replace(light, intensity=intensity))
        if light.kind != "directional":
            self._range(editor, number, light)
        if light.kind == "spot":
            self._cones(editor, number, light)

    def _range(self, editor: Editor, number: int, light: Light) -> None:
        if self._field(editor, number, "range"):
            return
        endless = not math.isfinite(light.range)
        seen = 0.0 if endless else light.range
        changed, seen = self._rows.drag(
            "Range##lamp range", seen, 0.0, FARTHEST, max(2e-3 * self._shown.distance, seen * 0.01), "endless" if endless else "%.4g m",
            "Where its light has faded to nothing. 0: nowhere, as nature has it",
        )  # fmt: skip
        if changed:
            self._set(editor, number, "range", replace(light, range=seen if seen > 0 else math.inf))

    def _cones(self, editor: Editor, number: int, light: Light) -> None:
        inner, outer = math.degrees(light.inner_cone), math.degrees(light.outer_cone)
        if not self._field(editor, number, "outer_cone"):
            changed, degrees = self._rows.slider("Outer cone##lamp outer", outer, 0.1, WIDEST, "%.1f°", "Angle from the axis where it ends")
            if changed:
                cone = math.radians(degrees), math.radians(min(inner, degrees - APART))
                self._set(editor, number, "cone", replace(light, outer_cone=cone[0], inner_cone=cone[1]))
                return
        if not self._field(editor, number, "inner_cone"):
            tip = "Angle from the axis where it begins to fade"
            changed, degrees = self._rows.slider("Inner cone##lamp inner", inner, 0.0, max(outer - APART, inner), "%.1f°", tip)
            if changed:
                self._set(editor, number, "cone", replace(light, inner_cone=math.radians(min(degrees, outer - APART))))

    def _field(self, editor: Editor, number: int, name: str) -> bool:
        """Before the row of a field: takes it back to the file's value if the user says so, and then returns True."""
        light, loaded = editor.scene.lights[number], editor.loaded.lights[number]
        value = getattr(loaded, name)
        if not self._rows.undo_button(f"lamp {name}", getattr(light, name) != value):
            return False
        back = replace(light, **{name: value})
        if back.inner_cone >= back.outer_cone:  # the two belong together
            back = replace(back, inner_cone=loaded.inner_cone, outer_cone=loaded.outer_cone)
        self._set(editor, number, name.replace("_", " "), back)
        return True

    def _set(self, editor: Editor, number: int, what: str, light: Light) -> None:
        self._edits.change(editor, f"{what} of {self._shown.lamp_names[number]}", lambda: editor.set_light(number, light))
