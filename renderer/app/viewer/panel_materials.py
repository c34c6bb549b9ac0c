"""The panel's section of materials: a list of all, and every field of the one that is chosen, in groups that open and close.

Which fields there are, and how each is set, says `material_fields`; here is only what a switch, a colour, a word or a number looks like,
and the two fields that a person sets otherwise than the model stores them: emission is linear radiance, shown as a colour and a strength,
and the base colour's alpha stands beside the alpha mode, where it matters.

A field that is not as in the file has a small button before it that takes it back there. A drag is one step of the history.

A layer that the scene's kernels have no code for can be turned on all the same: its group's head says "new code", and while that is built
in the background, "building"; the old picture stays meanwhile. It is said there, since nothing must move under a hand that drags.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from imgui_bundle import ImVec2, ImVec4, imgui

from renderer.app.viewer import theme
from renderer.app.viewer.material_fields import BRIGHTEST, CONTROLS, Control, groups, slots, value_of, with_value
from renderer.app.viewer.panel_shown import Shown, bright_swatch, scaled
from renderer.app.viewer.panel_textures import TextureRows
from renderer.app.viewer.panel_widgets import GUTTER, Edits, Rows, elide, tooltip, wrapped
from renderer.scene.model import Material
from renderer.shading.material_rows import Look, look_of

if TYPE_CHECKING:
    from renderer.app.viewer.editing import Editor
    from renderer.app.viewer.state import Figures

TEXTURES = frozenset(slots())
OPEN = "Surface"  # the group that is open at first
NEW_CODE, BUILDING = "new code", "building"
HOMES = {"facets": "metallic", "alpha": "alpha_mode", "clearcoat_normal": "clearcoat.normal_texture"}  # fields that need these
SLOWEST = 2e-3  # of the distance to the pivot: what a length changes by, a pixel of a drag


class MaterialSection:
    """`groups`: titles of groups, each with the fields in it."""

    def __init__(self, rows: Rows, edits: Edits, shown: Shown, textures: TextureRows) -> None:
        self._rows, self._edits, self._shown, self._textures = rows, edits, shown, textures
        self._groups = groups()
        self._special: dict[str, Callable[[Editor, int], None]] = {
            "base_color_factor": self._base_color, "emissive": self.emission, "alpha_mode": self._alpha, "alpha_cutoff": self._cutoff,
        }  # fmt: skip
        self._looked: tuple[Material, Look | None, Look, list[str]] | None = None

    def draw(self, editor: Editor, figures: Figures) -> None:
        """The list and the controls."""
        shown = self._shown
        if shown.material is None:
            wrapped("The scene has no materials.", theme.FAINT)
            return
        tip = "Looks through surfaces that have but a front, from behind, as rasterizers do. Those that are double sided stay"
        changed, culled = self._rows.check("Cull backs##cull backs", editor.scene.culled, tip)
        if changed:
            editor.set_culled(culled)
        materials = editor.scene.materials
        clicked = shown.materials.draw(shown.material_names, shown.material, lambda k: bright_swatch(materials[k].base_color_factor))
        if clicked is not None:
            shown.material = clicked
        number = shown.material
        self._rows.figure("Name", shown.material_names[number])
        look, lacking = self._look(materials[number], figures.look)
        if figures.building is None:
            lacking = []
        imgui.push_id(number)
        for title, paths in self._groups.items():
            if self._open(title, paths, look, figures.look, lacking):
                self._fields(editor, number, title, paths)
        if materials[number] != editor.loaded.materials[number] and imgui.button("All as in the file", ImVec2(-1.0, 0.0)):
            self._set(editor, number, "all", editor.loaded.materials[number])
        imgui.pop_id()

    def _look(self, material: Material, kernels: Look | None) -> tuple[Look, list[str]]:
        """What this material needs of kernels, and what of that these have not."""
        if self._looked is None or self._looked[0] is not material or self._looked[1] is not kernels:
            look = look_of([material], False)
            self._looked = (material, kernels, look, kernels.lacks(look) if kernels is not None else [])
        return self._looked[2:]

    def _open(self, title: str, paths: list[str], look: Look, kernels: Look | None, building: list[str]) -> bool:
        """The head of a group, whose fields follow if it is open; that of a layer which does nothing is faint. `building`: what kernels
        are being built for."""
        layer = paths[0].partition(".")[0]
        off = layer in LAYERS and not getattr(look.layers, layer)
        imgui.push_style_color(imgui.Col_.text, theme.FAINT if off else theme.TEXT)
        flags = imgui.TreeNodeFlags_.span_avail_width | imgui.TreeNodeFlags_.framed | imgui.TreeNodeFlags_.no_tree_push_on_open
        is_open = imgui.tree_node_ex(title, flags | (imgui.TreeNodeFlags_.default_open if title == OPEN else 0))
        imgui.pop_style_color()
        if any(HOMES.get(name, name) in (*paths, layer) for name in building):
            self._remark(title, BUILDING, theme.WARNING, "Its kernels are built in the background; the old picture stays meanwhile")
        elif kernels is not None and layer in LAYERS and not getattr(kernels.layers, layer):
            self._remark(title, NEW_CODE, theme.FAINT, "Not in this scene's kernels: turning it on builds new ones in the background")
        return is_open

    def _remark(self, title: str, text: str, color: ImVec4, tip: str) -> None:
        """At the right end of the head of this title, which was drawn last; as much of it as there is room for."""
        tooltip(tip)
        font, left, right = imgui.get_font_size(), imgui.get_item_rect_min().x, imgui.get_item_rect_max().x
        short = elide(text, right - left - imgui.calc_text_size(title).x - 3.5 * font)
        imgui.same_line(right - imgui.get_window_pos().x - imgui.calc_text_size(short).x - 0.5 * font)
        imgui.text_colored(color, short)

    def _fields(self, editor: Editor, number: int, title: str, paths: list[str]) -> None:
        gutter = GUTTER * imgui.get_font_size()
        imgui.indent(gutter)
        for path in paths:
            if path in self._special:
                self._special[path](editor, number)
            elif path in TEXTURES:
                self._texture(editor, number, title, path)
            else:
                self._field(editor, number, path)
        imgui.unindent(gutter)

    # ---- fields ----

    def _field(self, editor: Editor, number: int, path: str) -> None:
        """A field of the kind that its value is of."""
        control, material, loaded = CONTROLS[path], editor.scene.materials[number], editor.loaded.materials[number]
        value = value_of(material, path)
        what = plain(path.rpartition(".")[0] + " " + control.label)
        if self._rows.undo_button(path, value != value_of(loaded, path)):
            self._set(editor, number, what, with_value(material, path, value_of(loaded, path)))
        changed, value = self._control(path, control, value)
        if changed:
            self._set(editor, number, what, with_value(material, path, value))

    def _control(self, path: str, control: Control, value: Any) -> tuple[bool, Any]:
        label = f"{control.label}##{path}"
        if isinstance(value, bool):
            return self._rows.check(label, value, control.tip)
        if isinstance(value, tuple):
            return self._rows.color(label, value, control.tip)
        if control.options:
            names, words = zip(*control.options, strict=True)
            changed, k = self._rows.choice(label, words, names.index(value), control.tip)
            return changed, names[k]
        return self._number(label, control, value)

    def _number(self, label: str, control: Control, value: float) -> tuple[bool, float]:
        form, seen = control.form, value * control.unit
        if control.endless and math.isinf(value):
            form, seen = control.endless, 0.0
        if control.drag:
            speed = max(SLOWEST * self._shown.distance, 0.01 * seen)
            changed, seen = self._rows.drag(label, seen, control.low, max(control.high, seen), speed, form, control.tip)
        else:
            low, high = min(control.low, seen), max(control.high, seen)
            changed, seen = self._rows.slider(label, seen, low, high, form, control.tip)
        return changed, math.inf if control.endless and seen <= 0 else seen / control.unit

    def _set(self, editor: Editor, number: int, what: str, changed: Material) -> None:
        """Puts another material in the place of one, as part of the step that is under way."""
        self._edits.change(editor, f"{what} of {self._shown.material_names[number]}", lambda: editor.set_material(number, changed))

    def _base_color(self, editor: Editor, number: int) -> None:
        control, material = CONTROLS["base_color_factor"], editor.scene.materials[number]
        old, loaded = material.base_color_factor, editor.loaded.materials[number].base_color_factor
        changed = self._rows.undo_button("base_color_factor", old[:3] != loaded[:3])
        color = loaded[:3]
        if not changed:
            changed, color = self._rows.color(f"{control.label}##base_color_factor", old[:3], control.tip)
        if changed:
            self._set(editor, number, "colour", replace(material, base_color_factor=(*color, old[3])))

    def _alpha(self, editor: Editor, number: int) -> None:
        self._field(editor, number, "alpha_mode")
        material = editor.scene.materials[number]
        if material.alpha_mode == "OPAQUE":
            return
        *color, alpha = material.base_color_factor
        loaded = editor.loaded.materials[number].base_color_factor[3]
        changed = self._rows.undo_button("opacity", alpha != loaded)
        alpha = loaded if changed else alpha
        if not changed:
            changed, alpha = self._rows.slider("Opacity##opacity", alpha, 0.0, 1.0, "%.3f", "Alpha of the base colour")
        if changed:
            self._set(editor, number, "opacity", replace(material, base_color_factor=(color[0], color[1], color[2], alpha)))

    def _cutoff(self, editor: Editor, number: int) -> None:
        if editor.scene.materials[number].alpha_mode == "MASK":
            self._field(editor, number, "alpha_cutoff")

    def emission(self, editor: Editor, number: int) -> None:
        """Radiance, as a colour and a strength. Also what the section of lights shows of a material that shines."""
        material, loaded, colors = editor.scene.materials[number], editor.loaded.materials[number].emissive, self._shown.colors
        strength = max(material.emissive)
        color = scaled(material.emissive, 1 / strength) if strength > 0 else colors.get(number, (1.0, 1.0, 1.0))
        if self._rows.undo_button("emissive", material.emissive != loaded):
            self._set(editor, number, "emission", replace(material, emissive=loaded))
            return
        control = CONTROLS["emissive"]
        changed, value = self._rows.color(f"{control.label}##emissive", color, control.tip)
        if changed:
            top = max(value)
            color = scaled(value, 1 / top) if top > 0 else (1.0, 1.0, 1.0)
        form, step = "%.4g" if strength else "off", max(0.01, strength * 0.01)
        risen, strength = self._rows.drag("Radiance##strength", strength, 0.0, BRIGHTEST, step, form, "Emitted, W/(sr m²)")
        if changed or risen:
            colors[number] = color
            self._set(editor, number, "emission", replace(material, emissive=scaled(color, strength)))

    def _texture(self, editor: Editor, number: int, title: str, path: str) -> None:
        material, loaded = editor.scene.materials[number], editor.loaded.materials[number]
        changed = self._textures.slot(editor.scene, material, path, value_of(loaded, path))
        if changed is not None:
            self._set(editor, number, f"{plain(title)} texture", changed)


LAYERS = frozenset(part.name for part in fields(type(Look().layers)))


def plain(path: str) -> str:
    """The path of a field, or a title, in words."""
    return path.replace(".", " ").replace("_", " ").strip().lower()
