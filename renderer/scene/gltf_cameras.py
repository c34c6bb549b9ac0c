"""What stands in a node of a glTF file beside a mesh: cameras, punctual lights, and the scene's surroundings.

Cameras and lights have a place and a direction, and no size: the scale and shear of the nodes above them are ignored. A camera without
a picture (a range of depth that is none) is left out; a light's numbers are put within their bounds with a warning each.
Format: Khronos glTF 2.0 specification, section 3.10; KHR_lights_punctual; `renderer.scene.gltf_extras` for what is ours.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec
import numpy as np

from renderer.scene.gltf_extras import Lens, read_environment, read_lens
from renderer.scene.gltf_json import Camera as CameraJson
from renderer.scene.gltf_json import Diagnostics, Document, Node, PartError, Vec3, decode_part, within
from renderer.scene.model import Camera, Environment, Float64s, Light, Orthographic, Perspective

LIGHTS = "KHR_lights_punctual"
NARROWEST = 1e-4  # outer angle of a spot light, in radians


class _Spot(msgspec.Struct, rename="camel"):
    inner_cone_angle: float = 0.0
    outer_cone_angle: float = math.pi / 4


class _Light(msgspec.Struct, rename="camel"):
    type: Literal["directional", "point", "spot"]
    name: str = ""
    color: Vec3 = (1.0, 1.0, 1.0)
    intensity: float = 1.0
    range: float | None = None
    spot: _Spot | None = None


class _Lights(msgspec.Struct):
    lights: list[msgspec.Raw]


class _Lit(msgspec.Struct):
    light: int


def read_camera(document: Document, node: Node, path: str, world: Float64s, diagnostics: Diagnostics) -> Camera | None:
    """The camera of a node, `path` its JSON path; None where it has none. Raises `PartError` where it has no picture."""
    if node.camera is None:
        return None
    source = document.cameras.get(node.camera, f"{path}.camera")
    name = source.name or node.name or f"camera {node.camera}"
    where = f"cameras[{node.camera}]"
    projection = _projection(source, where)
    try:
        lens = read_lens(source.extras, f"{where}.extras")
    except PartError as error:
        diagnostics.skipped(error, f"{where}.extras", "is ignored")
        lens = Lens()
    return Camera(name, projection, rigid(world, f"{path}.camera"), lens.aperture, lens.focus)


def check_camera(document: Document, number: int, used_at: str) -> None:
    """Raise `PartError` where a camera has no picture; whatever shows it."""
    _projection(document.cameras.get(number, used_at), f"cameras[{number}]")


def read_light(document: Document, node: Node, number: int, world: Float64s, diagnostics: Diagnostics) -> Light | None:
    """The punctual light of a node; None where it has none. Raises `PartError` where it cannot be read."""
    raw = node.extensions.get(LIGHTS)
    if raw is None:
        return None
    used_at = f"nodes[{number}].extensions.{LIGHTS}"
    index = decode_part(raw, _Lit, used_at).light
    root = f"extensions.{LIGHTS}"
    if LIGHTS not in document.root.extensions:
        raise PartError(root, "is missing, but nodes have lights")
    lights = decode_part(document.root.extensions[LIGHTS], _Lights, root).lights
    if not 0 <= index < len(lights):
        raise PartError(f"{used_at}.light", f"light {index} does not exist (the file has {len(lights) or 'none'})")
    path = f"{root}.lights[{index}]"
    source = decode_part(lights[index], _Light, path)
    red, green, blue = (within(value, 0.0, 1.0, f"{path}.color[{i}]", diagnostics) for i, value in enumerate(source.color))
    spot = source.spot or _Spot()
    outer = within(spot.outer_cone_angle, NARROWEST, math.pi / 2, f"{path}.spot.outerConeAngle", diagnostics)
    reach = math.inf
    if source.range is not None and source.range > 0.0:
        reach = source.range
    elif source.range is not None:
        diagnostics.warning(f"{path}.range", f"{source.range:g} is not positive; the light reaches everything")
    return Light(
        source.name or node.name or f"light {index}",
        source.type,
        rigid(world, used_at),
        number,
        (red, green, blue),
        within(source.intensity, 0.0, math.inf, f"{path}.intensity", diagnostics),
        reach,
        within(spot.inner_cone_angle, 0.0, outer, f"{path}.spot.innerConeAngle", diagnostics),
        outer,
    )


def read_surroundings(document: Document, diagnostics: Diagnostics) -> Environment | None:
    """What the shown scene's extras say of its surroundings."""
    number = document.root.scene or 0
    path = f"scenes[{number}]"
    try:
        return read_environment(document.scenes.get(number, path).extras, f"{path}.extras")
    except PartError as error:
        if error.path.startswith(f"{path}.extras"):
            diagnostics.skipped(error, f"{path}.extras", "is ignored")
        return None


def _projection(source: CameraJson, path: str) -> Perspective | Orthographic:
    """The projection of a camera. Raises `PartError` for one that has no picture."""
    path = f"{path}.{source.type}"
    if source.type == "perspective":
        lens = source.perspective
        if lens is None:
            raise PartError(path, "is missing")
        if not 0.0 < lens.yfov < math.pi:
            raise PartError(f"{path}.yfov", f"{lens.yfov:g} is not within 0 and pi")
        if lens.aspect_ratio is not None and lens.aspect_ratio <= 0.0:
            raise PartError(f"{path}.aspectRatio", f"{lens.aspect_ratio:g} is not positive")
        zfar = math.inf if lens.zfar is None else lens.zfar
        _check_range(lens.znear, zfar, lens.znear > 0.0, path)
        return Perspective(lens.yfov, lens.aspect_ratio, lens.znear, zfar)
    box = source.orthographic
    if box is None:
        raise PartError(path, "is missing")
    if box.xmag == 0.0 or box.ymag == 0.0:
        raise PartError(path, "xmag and ymag must not be 0")
    _check_range(box.znear, box.zfar, box.znear >= 0.0, path)
    return Orthographic(box.xmag, box.ymag, box.znear, box.zfar)


def _check_range(znear: float, zfar: float, fine: bool, path: str) -> None:
    if not fine or zfar <= znear:
        raise PartError(path, f"znear {znear:g} and zfar {zfar:g} are no range of depth")


def rigid(world: Float64s, path: str) -> Float64s:
    """The matrix with perpendicular unit axes: scale and shear are ignored (specification, section 3.10.1)."""
    rigid = world.copy()
    back, up = world[:3, 2], world[:3, 1]
    side = np.cross(up, back)
    for column, axis in ((2, back), (0, side)):
        length = np.linalg.norm(axis)
        if not 0.0 < length < math.inf:
            raise PartError(path, "stands in a transform without volume")
        rigid[:3, column] = axis / length
    rigid[:3, 1] = np.cross(rigid[:3, 2], rigid[:3, 0])
    if np.dot(world[:3, 0], rigid[:3, 0]) < 0.0:
        rigid[:3, 0] *= -1.0
    return rigid
