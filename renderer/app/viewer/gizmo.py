"""The handles in the picture that move, turn and size the selected object, and the matrices that put them where the renderer draws it.

ImGuizmo draws and drags; it wants OpenGL's view and projection. Both follow from the scene's camera exactly as the renderer's rays do
(`renderer.pipeline.camera`): the vertical field of view (or extent) is kept, the picture's shape gives the horizontal one. The planes
near and far mean nothing to a path tracer. They are chosen about the object here, because ImGuizmo inverts the matrices in float32.

What is dragged comes back in float32 too. To keep what was not dragged exact, only the part that the mode can change is taken from it:
the position while moving, the three axes while turning and sizing. All of a drag, from press to release, is one step of the editor's
history.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from imgui_bundle import imgui
from imgui_bundle.imguizmo import im_guizmo

from renderer.scene.model import Camera, Float64s, Mesh, Orthographic, Scene

if TYPE_CHECKING:
    from renderer.app.viewer.editing import Editor

MODES = {"translate": "Move", "rotate": "Rotate", "scale": "Scale"}
OPERATIONS = {
    "translate": im_guizmo.OPERATION.translate,
    "rotate": im_guizmo.OPERATION.rotate,
    "scale": im_guizmo.OPERATION.scale,
}
REACH = 100.0  # the planes lie so many times nearer and farther than the object


def view_matrix(camera: Camera) -> Float64s:
    """World to camera, float64[4, 4]: the inverse of where the camera stands."""
    world = camera.world
    view = np.eye(4)
    view[:3, :3] = np.linalg.inv(world[:3, :3])
    view[:3, 3] = -view[:3, :3] @ world[:3, 3]
    return view


def projection_matrix(camera: Camera, aspect: float, near: float, far: float) -> Float64s:
    """Camera to OpenGL's clip space, float64[4, 4], for a picture of this width over height."""
    result = np.zeros((4, 4))
    projection = camera.projection
    if isinstance(projection, Orthographic):
        result[0, 0], result[1, 1] = 1 / (projection.ymag * aspect), 1 / projection.ymag
        result[2, 2], result[2, 3] = -2 / (far - near), -(far + near) / (far - near)
        result[3, 3] = 1.0
        return result
    half = math.tan(projection.yfov / 2)
    result[0, 0], result[1, 1] = 1 / (half * aspect), 1 / half
    result[2, 2], result[2, 3] = -(far + near) / (far - near), -2 * far * near / (far - near)
    result[3, 2] = -1.0
    return result


def planes(camera: Camera, point: Float64s) -> tuple[float, float]:
    """Distances of planes near and far that have `point`, float64[3], well between them."""
    away = float(np.linalg.norm(point - camera.world[:3, 3]))
    if isinstance(camera.projection, Orthographic):
        reach = REACH * max(away, camera.projection.ymag)
        return -reach, reach
    return max(away, 1e-9) / REACH, max(away, 1e-9) * REACH


def pivot(scene: Scene, mesh: int) -> Float64s:
    """Where the handles stand in the mesh's own space, float64[3]: its origin, or the middle of its box where that lies outside.

    Many files have their objects' places worked into the vertices, all origins being the world's.
    """
    corners = [geometry.positions[geometry.indices] for geometry in scene.meshes[mesh].geometries if len(geometry.indices)]
    if not corners:
        return np.zeros(3)
    low = np.min([points.min((0, 1)) for points in corners], 0).astype(np.float64)
    high = np.max([points.max((0, 1)) for points in corners], 0).astype(np.float64)
    return np.zeros(3) if (low <= 0).all() and (high >= 0).all() else (low + high) / 2


def changed(before: Float64s, after: Float64s, about: Float64s, mode: str) -> Float64s:
    """Where an object comes to stand whose handles stood at `before` and are at `after` now, float64[4, 4] both, `about` being the handles'
    place in the object's own space, float64[3]. Only what the mode can change is taken from `after`."""
    result = before.copy()
    if mode == "translate":
        result[:3, 3] = after[:3, 3]
    else:
        result[:3, :3] = after[:3, :3]
    result[:3, 3] -= result[:3, :3] @ about
    return result


def _columns(matrix: Float64s) -> im_guizmo.Matrix16:
    return im_guizmo.Matrix16(matrix.T.ravel().tolist())


class Gizmo:
    """The handles of the object that is selected; without one there are none."""

    def __init__(self) -> None:
        self.busy = False  # being dragged
        self.hovered = False
        self._known: tuple[Mesh | None, Float64s] = (None, np.zeros(3))

    def draw(self, editor: Editor, camera: Camera, mode: str, width: float, height: float) -> None:
        """Draws and drags, in the picture's rectangle (0, 0, width, height) in Dear ImGui's units."""
        selected = editor.selected
        if selected is None or selected.instance >= len(editor.scene.instances):
            self._release(editor)
            self.hovered = False
            return
        instance = editor.scene.instances[selected.instance]
        im_guizmo.set_orthographic(isinstance(camera.projection, Orthographic))
        im_guizmo.set_drawlist(imgui.get_background_draw_list())
        im_guizmo.set_rect(0.0, 0.0, width, height)
        about = self._pivot(editor.scene, instance.mesh)
        before = instance.world.copy()
        before[:3, 3] += before[:3, :3] @ about
        near, far = planes(camera, before[:3, 3])
        place = _columns(before)
        moved = im_guizmo.manipulate(
            _columns(view_matrix(camera)),
            _columns(projection_matrix(camera, width / height, near, far)),
            OPERATIONS[mode],
            im_guizmo.MODE.world if mode == "translate" else im_guizmo.MODE.local,
            place,
        )
        self.hovered = im_guizmo.is_over()
        if im_guizmo.is_using() and not self.busy:
            self.busy = True
            editor.begin(f"{MODES[mode].lower()} {instance.name or f'object {selected.instance}'}")
        if moved and self.busy:
            world = changed(before, np.asarray(place.values, np.float64).reshape(4, 4).T, about, mode)
            if np.isfinite(world).all():
                editor.move_instance(selected.instance, world)
        if not im_guizmo.is_using():
            self._release(editor)

    def _pivot(self, scene: Scene, mesh: int) -> Float64s:
        if self._known[0] is not scene.meshes[mesh]:
            self._known = (scene.meshes[mesh], pivot(scene, mesh))
        return self._known[1]

    def _release(self, editor: Editor) -> None:
        if self.busy:
            self.busy = False
            editor.end()
