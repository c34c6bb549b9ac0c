"""The panel's sections of what stands in the scene: the list of objects, the selected one, and which variant is shown.

All changes go through the editor, a drag as one step. A transform is shown as position, angles and scale (`panel_transform`). While these
are dragged they are not read back from the matrix: another triple of angles can mean the same rotation, and the numbers under the mouse
would jump.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from imgui_bundle import ImVec2, imgui

from renderer.app.viewer import theme
from renderer.app.viewer.editing import Selection
from renderer.app.viewer.gizmo import MODES
from renderer.app.viewer.panel_shown import Shown, bright_swatch
from renderer.app.viewer.panel_transform import Transform, decompose
from renderer.app.viewer.panel_widgets import Edits, Rows, elide
from renderer.app.viewer.state import Settings
from renderer.scene.model import Scene

if TYPE_CHECKING:
    from renderer.app.viewer.editing import Editor


class SceneSections:
    """The sections' memory: the transform that is being dragged."""

    def __init__(self, rows: Rows, edits: Edits, shown: Shown) -> None:
        self._rows, self._edits, self._shown = rows, edits, shown
        self._transform: tuple[bytes, Transform] = (b"", decompose(np.eye(4)))

    def variants(self, editor: Editor) -> None:
        """Which of the file's variants is shown."""
        scene = editor.scene
        current = 0 if scene.variant is None else scene.variant + 1
        names = ["as in the file", *(name or f"variant {k}" for k, name in enumerate(scene.variants))]
        changed, k = self._rows.choice("Variant##variant", names, current, "Other materials of the same objects, by name")
        if changed:
            self._edits.change(editor, f"variant {names[k]}", lambda: editor.set_variant(k - 1 if k else None))

    # ---- objects ----

    def objects(self, editor: Editor) -> None:
        """The list of what stands in the scene; a click selects."""
        selected = editor.selected
        clicked = self._shown.objects.draw(self._shown.object_names, None if selected is None else selected.instance)
        if clicked is not None:
            editor.selected = self._selection_of(editor.scene, clicked)

    def _selection_of(self, scene: Scene, number: int) -> Selection:
        instance = scene.instances[number]
        geometries = scene.meshes[instance.mesh].geometries
        material = geometries[0].material_in(scene.variant) if geometries else (self._shown.material or 0)
        return Selection(number, material, instance.mesh, instance.world[:3, 3].copy())

    def selected(self, editor: Editor, settings: Settings) -> None:
        """What was clicked: what it is, where it stands, how the handles work."""
        selected = editor.selected
        if selected is None:
            return
        scene = editor.scene
        instance, mesh = scene.instances[selected.instance], scene.meshes[selected.mesh]
        rows = self._rows
        rows.figure("Name", self._shown.object_names[selected.instance])
        triangles = sum(len(geometry.indices) for geometry in mesh.geometries)
        rows.figure("Mesh", f"{mesh.name or f'mesh {selected.mesh}'}, {triangles:,} triangles")
        self._materials_of(editor, sorted({geometry.material_in(scene.variant) for geometry in mesh.geometries}))
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
            self._edits.change(editor, f"{verb} {self._shown.object_names[number]}", lambda: editor.move_instance(number, world))
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
        place = numbers.index(self._shown.material) if self._shown.material in numbers else 0
        names = [self._shown.material_names[number] for number in numbers]
        changed, k = rows.choice("Materials", names, place, "Of these, the one shown below")
        if changed:
            self._shown.choose_material(numbers[k])

    def _material_link(self, editor: Editor, number: int) -> None:
        imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() + imgui.get_style().frame_padding.y)
        bright_swatch(editor.scene.materials[number].base_color_factor)
        imgui.same_line()
        if imgui.text_link(elide(self._shown.material_names[number], imgui.get_content_region_avail().x)):
            self._shown.choose_material(number)


def _three(values: list[float]) -> tuple[float, float, float]:
    x, y, z = values
    return x, y, z
