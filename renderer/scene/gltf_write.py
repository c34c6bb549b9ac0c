"""The scene model into a glTF 2.0 file (.glb), such that loading it gives the same scene again.

One node for each instance, camera and light, its world matrix as JSON numbers: Python writes a float64 in the fewest digits that read
back as the same value, so nothing moves. One primitive for each geometry; arrays of equal content are stored once. Materials and
pictures are told by `gltf_write_materials`; what glTF has no word for (a lens, surroundings) stands in `extras`: `gltf_extras`.

The same scene gives the same bytes. The file is written whole or not at all (`renderer.scene.files`). What the model does not hold of
the file that was loaded (animations) is not in the new one: `not_kept` names it. Format: Khronos glTF 2.0 specification, chapters 3 to
5; EXT_mesh_gpu_instancing, EXT_texture_webp, KHR_lights_punctual, KHR_materials_variants, KHR_texture_transform.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from renderer.scene.files import write_whole
from renderer.scene.gltf_extras import camera_extras, scene_extras
from renderer.scene.gltf_write_materials import Json, filled, material_json, named, texture_tables
from renderer.scene.model import Camera, Copies, Float32s, Float64s, Geometry, Light, Perspective, Scene, SceneError

ENDING = ".glb"
ARRAY_BUFFER, ELEMENT_ARRAY_BUFFER = 34962, 34963
FLOAT, UNSIGNED_SHORT, UNSIGNED_INT = 5126, 5123, 5125
VECTORS = {2: "VEC2", 3: "VEC3", 4: "VEC4"}
LARGEST = 2**32 - 1  # bytes of a GLB: its header counts in 32 bits
FAR = float(np.finfo(np.float32).max)  # glTF's orthographic cameras must end somewhere
INSTANCING, LIGHTS, VARIANTS = "EXT_mesh_gpu_instancing", "KHR_lights_punctual", "KHR_materials_variants"
REQUIRED = {INSTANCING, "EXT_texture_webp"}  # without them there would be nothing in its place


def write(scene: Scene, path: Path) -> None:
    """Writes the scene to a .glb file.

    Raises SceneError for another ending, a scene too large for the format, and a place that cannot be written; what stood there
    before is untouched then.
    """
    if path.suffix.lower() != ENDING:
        raise SceneError(f"{path}: scenes are saved as {ENDING}; name it {path.with_suffix(ENDING).name}")
    try:
        data = encode(scene)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SceneError(f"{path}: cannot be written: its picture {error.filename} cannot be read: {reason}; put it back") from None
    if len(data) > LARGEST:
        raise SceneError(f"{path}: cannot be written: {len(data) >> 20} MiB, but a .glb holds at most 4095; save a smaller scene")
    try:
        write_whole(path, data)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SceneError(f"{path}: cannot be written: {reason}; free space or save elsewhere") from None


def not_kept(scene: Scene) -> list[str]:
    """What of the file that was loaded is not in a saved one, a line each."""
    lost = [f"{name} of {scene.path.name} are not kept" for name in scene.lost]
    if scene.environment is not None and scene.environment.image is not None:
        lost.append("surroundings from a picture are not kept")
    return lost


def encode(scene: Scene) -> bytes:
    """The scene as the bytes of a .glb file. Raises OSError where a picture's file cannot be read any more."""
    buffer = _Buffer()
    numbers: dict[int, int] = {}  # of meshes, here -> in the file, which has no empty ones
    meshes: list[Json] = []
    for number, mesh in enumerate(scene.meshes):
        if mesh.geometries:
            numbers[number] = len(meshes)
            meshes.append(named(mesh.name, {"primitives": [_primitive(geometry, buffer) for geometry in mesh.geometries]}))
    nodes = [
        _node(instance.name, instance.world, {"mesh": numbers[instance.mesh]} | _copies(instance.copies, buffer))
        for instance in scene.instances
        if instance.mesh in numbers
    ]
    nodes += [_node(camera.name, camera.world, {"camera": number}) for number, camera in enumerate(scene.cameras)]
    nodes += [_node(light.name, light.world, {"extensions": {LIGHTS: {"light": k}}}) for k, light in enumerate(scene.lights)]
    document: Json = {
        "asset": {"version": "2.0", "generator": "rayfuse"},
        "scene": 0,
        "scenes": [filled({"nodes": list(range(len(nodes))), "extras": scene_extras(scene.environment)})],
        "nodes": nodes,
        "cameras": [_camera(camera) for camera in scene.cameras],
        "materials": [material_json(material) for material in scene.materials],
        "meshes": meshes,
        **texture_tables(scene.textures, scene.images, buffer.store),
        "extensions": filled(
            {
                LIGHTS: filled({"lights": [_light(light) for light in scene.lights]}),
                VARIANTS: filled({"variants": [{"name": name} for name in scene.variants]}),
            }
        ),
        "accessors": buffer.accessors,
        "bufferViews": buffer.views,
        "buffers": [{"byteLength": len(buffer.data)}] if buffer.data else [],
    }
    used = set(_extensions(document))
    document |= {"extensionsUsed": sorted(used), "extensionsRequired": sorted(used & REQUIRED)}
    text = msgspec.json.encode(filled(document))
    chunks = _chunk(b"JSON", text, b" ") + (_chunk(b"BIN\0", bytes(buffer.data), b"\0") if buffer.data else b"")
    return struct.pack("<4sII", b"glTF", 2, min(12 + len(chunks), LARGEST)) + chunks


class _Buffer:
    """The binary chunk, its views and accessors; equal arrays are put there once, and one that is met again is not looked at again."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.views: list[Json] = []
        self.accessors: list[Json] = []
        self._known: dict[tuple[str, bytes], int] = {}
        self._same: dict[tuple[str, int, int], int] = {}  # by use, by which array, and for how many vertices

    def store(self, data: bytes, target: int | None = None) -> int:
        """Puts bytes at the end; the number of their view."""
        view = {"buffer": 0, "byteOffset": len(self.data), "byteLength": len(data)}
        self.views.append(view if target is None else view | {"target": target})
        self.data += data + bytes(-len(data) % 4)
        return len(self.views) - 1

    def add(self, use: str, array: NDArray[Any], target: int | None, accessor: Json) -> int:
        """The number of an accessor of `array`, one row or one number an element. `use`: arrays of another use stay apart."""
        stored = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        key = (use, hashlib.sha256(stored).digest())
        if key not in self._known:
            self._known[key] = len(self.accessors)
            self.accessors.append({"bufferView": self.store(stored, target), "count": len(array), **accessor})
        return self._known[key]

    def vectors(self, use: str, vectors: Float32s, target: int | None = ARRAY_BUFFER) -> int:
        """An accessor of float32[n, 2..4]; glTF wants the limits of positions, and no value that is not finite."""
        same = (use, id(vectors), len(vectors))
        if same in self._same:
            return self._same[same]
        finite = np.where(np.isfinite(vectors), vectors, np.float32(0.0))
        accessor: Json = {"componentType": FLOAT, "type": VECTORS[vectors.shape[1]]}
        if use == "POSITION":
            accessor |= {"min": finite.min(0).tolist(), "max": finite.max(0).tolist()}
        self._same[same] = self.add(use, finite, target, accessor)
        return self._same[same]

    def indices(self, indices: NDArray[np.uint32], vertices: int) -> int:
        """An accessor of vertex numbers, of 16 bits where they suffice (the highest number is not allowed)."""
        same = ("indices", id(indices), vertices)
        if same in self._same:
            return self._same[same]
        short = vertices <= 0xFFFF
        narrow = indices.reshape(-1).astype(np.uint16 if short else np.uint32)
        accessor = {"componentType": UNSIGNED_SHORT if short else UNSIGNED_INT, "type": "SCALAR"}
        self._same[same] = self.add(f"indices {narrow.itemsize}", narrow, ELEMENT_ARRAY_BUFFER, accessor)
        return self._same[same]


def _primitive(geometry: Geometry, buffer: _Buffer) -> Json:
    vertices = {"POSITION": geometry.positions, "NORMAL": geometry.normals, "TANGENT": geometry.tangents, "COLOR_0": geometry.colours}
    vertices |= {f"TEXCOORD_{number}": texcoords for number, texcoords in enumerate(geometry.texcoords)}
    attributes = {name: buffer.vectors(name, array) for name, array in vertices.items() if array is not None}
    indices = buffer.indices(geometry.indices, len(geometry.positions))
    by_material: dict[int, list[int]] = {}
    for variant, material in sorted(geometry.variants.items()):
        by_material.setdefault(material, []).append(variant)
    mappings = [{"material": material, "variants": variants} for material, variants in by_material.items()]
    told = {"attributes": attributes, "indices": indices, "material": geometry.material}
    return told | ({"extensions": {VARIANTS: {"mappings": mappings}}} if mappings else {})


def _node(name: str, world: Float64s, what: Json) -> Json:
    """A node that stands in the world by itself."""
    matrix = {} if np.array_equal(world, np.eye(4)) else {"matrix": world.T.reshape(-1).tolist()}
    return named(name, what | matrix)


def _copies(copies: Copies | None, buffer: _Buffer) -> Json:
    """The extension of a node whose mesh is placed many times."""
    if copies is None:
        return {}
    places = {"TRANSLATION": copies.translation, "ROTATION": copies.rotation, "SCALE": copies.scale}
    attributes = {name: buffer.vectors(f"copies {name}", array, None) for name, array in places.items()}
    return {"extensions": {INSTANCING: {"attributes": attributes}}}


def _light(light: Light) -> Json:
    told: Json = {"type": light.kind, "color": light.color, "intensity": light.intensity}
    if light.range < math.inf:
        told["range"] = light.range
    if light.kind == "spot":
        told["spot"] = {"innerConeAngle": light.inner_cone, "outerConeAngle": light.outer_cone}
    return named(light.name, told)


def _camera(camera: Camera) -> Json:
    lens, extras = camera.projection, filled({"extras": camera_extras(camera)})
    if isinstance(lens, Perspective):
        projection = {"yfov": lens.yfov, "znear": lens.znear}
        projection |= {"aspectRatio": lens.aspect_ratio} if lens.aspect_ratio is not None else {}
        projection |= {"zfar": lens.zfar} if lens.zfar < math.inf else {}
        return named(camera.name, {"type": "perspective", "perspective": projection} | extras)
    box = {"xmag": lens.xmag, "ymag": lens.ymag, "znear": lens.znear, "zfar": min(lens.zfar, FAR)}
    return named(camera.name, {"type": "orthographic", "orthographic": box} | extras)


def _extensions(part: Any) -> Iterator[str]:
    """The names of the extensions that a document uses, anywhere."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name == "extensions":
                yield from value
            if name != "extras":
                yield from _extensions(value)
    elif isinstance(part, list):
        for value in part:
            yield from _extensions(value)


def _chunk(kind: bytes, data: bytes, filler: bytes) -> bytes:
    padded = data + filler * (-len(data) % 4)
    return struct.pack("<I4s", min(len(padded), LARGEST), kind) + padded
