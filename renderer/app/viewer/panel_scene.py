"""The panel's sections that change the scene: lights, materials, objects and the selected one.

All changes go through the editor, a drag as one step. A material's controls are a table, one line for each of its fields, so that a
field that is added to the model is seen to be missing here (a test compares). Emission is linear radiance in the model; to a person it is
a colour and a strength. The colour of what is turned off would be lost with that, so the last one is kept here.

A light stays in the list of lights once it was one: who turns it down to nothing wants to turn it up again.

A transform is shown as position, angles and scale (`panel_transform`). While these are dragged they are not read back from the matrix:
another triple of angles can mean the same rotation, and the numbers under the mouse would jump.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from imgui_bundle import ImVec2, imgui

from renderer.app.viewer import theme
from renderer.app.viewer.editing import Selection
from renderer.app.viewer.gizmo import MODES
from renderer.app.viewer.panel_transform import Transform, decompose
from renderer.app.viewer.panel_widgets import Edits, NameList, Rows, elide, swatch, wrapped
from renderer.app.viewer.state import Settings
from renderer.scene.model import Scene

if TYPE_CHECKING:
    from renderer.app.viewer.editing import Editor

ALPHA_MODES = ("OPAQUE", "MASK", "BLEND")
BRIGHTEST = 1e6  # radiance
LOOK_EVERY = 30  # frames between two searches for materials that have become lights
Color = tuple[float, float, float]


class SceneSections:
    """The sections' memory: which material is shown, what was searched for, names brought into lists."""

    def __init__(self, rows: Rows, edits: Edits) -> None:
        self._rows, self._edits = rows, edits
        self._scene: Scene | None = None
        self._selection: Selection | None = None
        self.material: int | None = None
        self._materials, self._lights, self._objects = NameList("materials"), NameList("lights"), NameList("objects")
        self._transform: tuple[bytes, Transform] = (b"", decompose(np.eye(4)))

    def follow(self, editor: Editor) -> None:
        """Takes note of another scene, and of what was clicked; once a frame, before the sections."""
        scene = editor.scene
        if scene is not self._scene:
            self._scene, self.material = scene, 0 if scene.materials else None
            self._material_names = [material.name or f"material {k}" for k, material in enumerate(scene.materials)]
            self._object_names = [instance.name or f"object {k}" for k, instance in enumerate(scene.instances)]
            self._emitters: set[int] = set()
            self._light_numbers: list[int] = []
            self._light_names: list[str] = []
            self._colors: dict[int, Color] = {}
            self._until_look = 0
        if editor.selected is not self._selection:
            self._selection = editor.selected
            if self._selection is not None:
                self.material = self._selection.material
                self._materials.show(self._selection.material)
                self._objects.show(self._selection.instance)

    # ---- lights ----

    def light_count(self, editor: Editor) -> int:
        """How many materials shine, or did since the scene was opened."""
        self._find_lights(editor.scene)
        return len(self._light_numbers)

    def lights(self, editor: Editor) -> None:
        """The materials that shine: a colour and a strength each."""
        if not self._light_numbers:
            wrapped("No material of this scene emits light. Give one an emission strength and it is listed here.", theme.FAINT)
            return
        shown = self._light_numbers.index(self.material) if self.material in self._light_numbers else None
        clicked = self._lights.draw(
            self._light_names, shown, lambda place: self._swatch(editor.scene.materials[self._light_numbers[place]].emissive)
        )
        if clicked is not None:
            self.material = self._light_numbers[clicked]
        if self.material in self._light_numbers:
            imgui.push_id("light")
            self._emission(editor, self.material)
            imgui.pop_id()

    def _find_lights(self, scene: Scene) -> None:
        self._until_look -= 1
        if self._until_look > 0:
            return
        self._until_look = LOOK_EVERY
        emitters = self._emitters | {k for k, material in enumerate(scene.materials) if material.is_emissive}
        if emitters != self._emitters:
            self._emitters, self._light_numbers = emitters, sorted(emitters)
            self._light_names = [self._material_names[k] for k in self._light_numbers]

    def _emission(self, editor: Editor, number: int) -> None:
        material = editor.scene.materials[number]
        strength = max(material.emissive)
        color = _scaled(material.emissive, 1 / strength) if strength > 0 else self._colors.get(number, (1.0, 1.0, 1.0))
        changed, value = self._rows.color("Emission", color, "The emitted light's colour; its brightest channel counts as 1")
        if changed:
            top = max(value)
            color = _scaled(value, 1 / top) if top > 0 else (1.0, 1.0, 1.0)
            self._colors[number] = color
            self._set(editor, number, "emission of", emissive=_scaled(color, strength))
        changed, strength = self._rows.drag(
            "Strength", strength, 0.0, BRIGHTEST, max(0.01, strength * 0.01), "%.4g" if strength else "off", "Emitted radiance, W/(sr m²)"
        )
        if changed:
            self._colors[number] = color
            self._set(editor, number, "emission of", emissive=_scaled(color, strength))

    # ---- materials ----

    def materials(self, editor: Editor) -> None:
        """The list of all, and the controls of the one that is chosen in it or in the picture."""
        if self.material is None:
            wrapped("The scene has no materials.", theme.FAINT)
            return
        clicked = self._materials.draw(
            self._material_names, self.material, lambda k: self._swatch(editor.scene.materials[k].base_color_factor)
        )
        if clicked is not None:
            self.material = clicked
        imgui.push_id(self.material)
        for control in dict.fromkeys(MATERIAL_CONTROLS.values()):
            control(self, editor, self.material)
        imgui.pop_id()

    def _set(self, editor: Editor, number: int, what: str, **values: object) -> None:
        """Gives fields of a material other values, as part of the step that is under way."""
        changed = replace(editor.scene.materials[number], **values)  # type: ignore[arg-type]
        name = self._material_names[number]
        self._edits.change(editor, f"{what} {name}", lambda: editor.set_material(number, changed))

    def _swatch(self, linear: tuple[float, ...]) -> None:
        brightest = max(1.0, *linear[:3])
        swatch("##color", [value / brightest for value in linear[:3]])

    def _name(self, editor: Editor, number: int) -> None:
        self._rows.figure("Name", self._material_names[number])

    def _base_color(self, editor: Editor, number: int) -> None:
        old = editor.scene.materials[number].base_color_factor
        changed, color = self._rows.color("Colour", old[:3], "Base colour: of a metal its reflection, of anything else its body")
        if changed:
            self._set(editor, number, "colour of", base_color_factor=(*color, old[3]))

    def _slider(self, editor: Editor, number: int, field: str, label: str, tip: str, low: float = 0.0, high: float = 1.0) -> None:
        changed, value = self._rows.slider(label, getattr(editor.scene.materials[number], field), low, high, "%.3f", tip)
        if changed:
            self._set(editor, number, f"{label.lower()} of", **{field: value})

    def _metallic(self, editor: Editor, number: int) -> None:
        self._slider(editor, number, "metallic", "Metallic", "0: not a metal, 1: a metal")

    def _roughness(self, editor: Editor, number: int) -> None:
        self._slider(editor, number, "roughness", "Roughness", "0: a mirror, 1: as dull as can be")

    def _ior(self, editor: Editor, number: int) -> None:
        tip = "Index of refraction: 1 reflects nothing, water 1.33, glass 1.5, diamond 2.4"
        self._slider(editor, number, "ior", "IOR", tip, 1.0, max(3.0, editor.scene.materials[number].ior))

    def _specular(self, editor: Editor, number: int) -> None:
        self._slider(editor, number, "specular_factor", "Specular", "Strength of the reflection of what is not a metal")

    def _specular_color(self, editor: Editor, number: int) -> None:
        old = editor.scene.materials[number].specular_color_factor
        changed, color = self._rows.color("Spec. colour", old, "Colour of the reflection of what is not a metal, seen from the front")
        if changed:
            self._set(editor, number, "specular colour of", specular_color_factor=color)

    def _flag(self, editor: Editor, number: int, field: str, label: str, tip: str) -> None:
        changed, value = self._rows.check(label, getattr(editor.scene.materials[number], field), tip)
        if changed:
            self._set(editor, number, f"{label.lower()} of", **{field: value})

    def _unlit(self, editor: Editor, number: int) -> None:
        self._flag(editor, number, "unlit", "Unlit", "Shows its colour as it is, without light and shadow")

    def _double_sided(self, editor: Editor, number: int) -> None:
        self._flag(editor, number, "double_sided", "Double sided", "Its back looks (and shines) like its front")

    def _alpha(self, editor: Editor, number: int) -> None:
        material = editor.scene.materials[number]
        current = ALPHA_MODES.index(material.alpha_mode)
        changed, k = self._rows.choice("Alpha", ["opaque", "mask", "blend"], current, "Whether the material lets through what is behind it")
        if changed:
            self._set(editor, number, "alpha mode of", alpha_mode=ALPHA_MODES[k])
        if material.alpha_mode == "OPAQUE":
            return
        changed, alpha = self._rows.slider("Opacity", material.base_color_factor[3], 0.0, 1.0, "%.3f", "Alpha of the base colour")
        if changed:
            self._set(editor, number, "opacity of", base_color_factor=(*material.base_color_factor[:3], alpha))
        if material.alpha_mode == "MASK":
            self._slider(editor, number, "alpha_cutoff", "Cutoff", "Where alpha is below this there is a hole")

    # ---- objects ----

    def objects(self, editor: Editor) -> None:
        """The list of what stands in the scene; a click selects."""
        selected = editor.selected
        clicked = self._objects.draw(self._object_names, None if selected is None else selected.instance)
        if clicked is not None:
            editor.selected = self._selection_of(editor.scene, clicked)

    def _selection_of(self, scene: Scene, number: int) -> Selection:
        instance = scene.instances[number]
        geometries = scene.meshes[instance.mesh].geometries
        material = geometries[0].material if geometries else (self.material or 0)
        return Selection(number, material, instance.mesh, instance.world[:3, 3].copy())

    def selected(self, editor: Editor, settings: Settings) -> None:
        """What was clicked: what it is, where it stands, how the handles work."""
        selected = editor.selected
        if selected is None:
            return
        scene = editor.scene
        instance, mesh = scene.instances[selected.instance], scene.meshes[selected.mesh]
        rows = self._rows
        rows.figure("Name", self._object_names[selected.instance])
        triangles = sum(len(geometry.indices) for geometry in mesh.geometries)
        rows.figure("Mesh", f"{mesh.name or f'mesh {selected.mesh}'}, {triangles:,} triangles")
        self._materials_of(editor, sorted({geometry.material for geometry in mesh.geometries}))
        modes = list(MODES)
        tip = "What dragging the handles in the picture does"
        changed, k = rows.segments("Handles", list(MODES.values()), modes.index(settings.gizmo), tip)
        if changed:
            settings.gizmo = modes[k]
        key = instance.world.tobytes()
        if key != self._transform[0]:
            self._transform = (key, decompose(instance.world))
        before = self._transform[1]
        step = max(1e-4, 0.005 * max(1.0, *map(abs, before.position)))
        moved, position = rows.triple("Position", before.position, step, "", "Metres: x, y, z")
        turned, rotation = rows.triple("Rotation", before.rotation, 0.5, "°", "Degrees about x, then y, then z")
        step = 0.005 * max(1e-3, *map(abs, before.scale))
        sized, scale = rows.triple("Scale", before.scale, step, "", "Along the object's own x, y, z")
        if before.is_sheared:
            imgui.text_colored(theme.FAINT, "Sheared as well; that stays")
        if moved or turned or sized:
            after = Transform(_three(position), _three(rotation), _three(scale), before.shear)
            world = after.matrix()
            verb = "move" if moved else "rotate" if turned else "scale"
            number = selected.instance
            self._edits.change(editor, f"{verb} {self._object_names[number]}", lambda: editor.move_instance(number, world))
            self._transform = (editor.scene.instances[number].world.tobytes(), after)
        if imgui.button("Deselect", ImVec2(-1.0, 0.0)):
            editor.selected = None

    def _materials_of(self, editor: Editor, numbers: list[int]) -> None:
        """Links to the materials of the selected object; a click shows one in the section of materials."""
        if not numbers:
            return
        rows = self._rows
        if len(numbers) == 1:
            rows.label("Material")
            self._material_link(editor, numbers[0])
            return
        place = numbers.index(self.material) if self.material in numbers else 0
        changed, k = rows.choice("Materials", [self._material_names[number] for number in numbers], place, "Of these, the one shown below")
        if changed:
            self.material = numbers[k]
            self._materials.show(numbers[k])

    def _material_link(self, editor: Editor, number: int) -> None:
        imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() + imgui.get_style().frame_padding.y)
        self._swatch(editor.scene.materials[number].base_color_factor)
        imgui.same_line()
        if imgui.text_link(elide(self._material_names[number], imgui.get_content_region_avail().x)):
            self.material = number
            self._materials.show(number)


Control = Callable[[SceneSections, "Editor", int], None]

# Which control shows (and, the name apart, changes) which field of a material.
MATERIAL_CONTROLS: dict[str, Control] = {
    "name": SceneSections._name,
    "base_color_factor": SceneSections._base_color,
    "metallic": SceneSections._metallic,
    "roughness": SceneSections._roughness,
    "ior": SceneSections._ior,
    "emissive": SceneSections._emission,
    "specular_factor": SceneSections._specular,
    "specular_color_factor": SceneSections._specular_color,
    "double_sided": SceneSections._double_sided,
    "unlit": SceneSections._unlit,
    "alpha_mode": SceneSections._alpha,
    "alpha_cutoff": SceneSections._alpha,
}


def _scaled(color: tuple[float, ...], factor: float) -> Color:
    red, green, blue = (value * factor for value in color)
    return red, green, blue


def _three(values: list[float]) -> tuple[float, float, float]:
    x, y, z = values
    return x, y, z
