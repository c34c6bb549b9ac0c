"""A glTF document being put together: what the scripts of this folder say a scene with.

Elements are appended, and an index comes back, as in the file itself. All ends in one text, an element a line, the data beside it as
base64: a scene is one file. Every number that a sine may have a part in is rounded to a grid far coarser than the last bit of one, so
that every machine writes the same bytes, and a test can hold the files to their script.

`extensionsUsed` is what the elements use: it cannot come to differ from them. An extension without which the file would be read wrong
is in `REQUIRED`. With `shared`, equal arrays are stored once (spheres of twenty materials are one sphere); `exact` keeps coordinates as
they are.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from packing import draco, meshopt_attributes, meshopt_indices
from shapes import UP, Floats, Shape

SPECULAR, STRENGTH = "KHR_materials_specular", "KHR_materials_emissive_strength"
QUANTIZATION, DRACO = "KHR_mesh_quantization", "KHR_draco_mesh_compression"
MESHOPT = {"meshopt": "EXT_meshopt_compression", "meshopt of Khronos": "KHR_meshopt_compression"}
INSTANCING, LIGHTS, VARIANTS = "EXT_mesh_gpu_instancing", "KHR_lights_punctual", "KHR_materials_variants"
WEBP, TRANSFORM = "EXT_texture_webp", "KHR_texture_transform"
REQUIRED = (QUANTIZATION, DRACO, *MESHOPT.values(), INSTANCING, WEBP)
POSITION_GRID, NORMAL_GRID, TEXCOORD_GRID = 2.0**14, 2.0**12, 2.0**14
BYTE, UBYTE, SHORT, USHORT, UINT, FLOAT = 5120, 5121, 5122, 5123, 5125, 5126
CODES = {"i1": BYTE, "u1": UBYTE, "i2": SHORT, "u2": USHORT, "u4": UINT, "f4": FLOAT}
VERTICES, FACES = 34962, 34963
ARRAYS = ("nodes", "cameras", "meshes", "materials", "textures", "samplers", "images", "accessors", "bufferViews")
WRAPS = {"repeat": 10497, "mirror": 33648, "clamp": 33071}

Rgb = tuple[float, float, float]
Json = dict[str, Any]


@dataclass
class Document:
    """A glTF document being put together."""

    generator: str = "scenes/make_scenes.py"
    exact: bool = False
    shared: bool = False
    blob: bytearray = field(default_factory=bytearray)
    parts: dict[str, list[Json]] = field(default_factory=lambda: {name: [] for name in ARRAYS})
    lights: list[Json] = field(default_factory=list)
    variants: list[str] = field(default_factory=list)
    surroundings: Json = field(default_factory=dict)  # the extras of the scene
    metadata: Json = field(default_factory=dict)  # extensions of the asset
    unpacked: int = 0  # bytes that packed views have when they are unpacked
    _stored: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def add(self, kind: str, element: Json) -> int:
        """Append to one of the arrays; returns the index."""
        self.parts[kind].append(element)
        return len(self.parts[kind]) - 1

    # Materials

    def matt(self, name: str, colour: Rgb, radiance: Rgb = (0.0, 0.0, 0.0)) -> int:
        """A Lambert material, a lamp if it has radiance."""
        material: Json = {
            "name": name,
            "pbrMetallicRoughness": {
                "baseColorFactor": [*colour, 1.0],
                "metallicFactor": 0.0,
                "roughnessFactor": 1.0,
            },
            "extensions": {SPECULAR: {"specularFactor": 0.0}},
        }
        peak = max(radiance)
        if peak > 0.0:
            material["emissiveFactor"] = [channel / peak for channel in radiance]
            material["extensions"][STRENGTH] = {"emissiveStrength": peak}
        return self.add("materials", material)

    def material(
        self,
        name: str,
        colour: Sequence[float] = (1.0, 1.0, 1.0),
        metallic: float = 0.0,
        roughness: float = 1.0,
        textures: Mapping[str, Json] | None = None,
        extensions: Mapping[str, Json] | None = None,
        **others: Any,
    ) -> int:
        """A material: `colour` with or without alpha, `extensions` by their names without "KHR_materials_" before them, `textures` of the
        metallic-roughness block, `others` as they stand in glTF."""
        rgba = [*(round(value, 4) for value in colour), 1.0][:4]
        surface = {"baseColorFactor": rgba, "metallicFactor": metallic, "roughnessFactor": round(roughness, 4), **(textures or {})}
        material: Json = {"name": name, "pbrMetallicRoughness": surface, **others}
        if extensions:
            material["extensions"] = {f"KHR_materials_{key}": value for key, value in extensions.items()}
        return self.add("materials", material)

    def texture(self, picture: bytes, wrap: str | tuple[str, str] = "repeat", nearest: bool = False) -> int:
        """A texture of a PNG file; `wrap` along both axes or each."""
        return self.add("textures", {"source": self._image(picture, "image/png"), "sampler": self._sampler(wrap, nearest)})

    def webp(self, picture: bytes, wrap: str | tuple[str, str] = "repeat") -> int:
        """A texture of a WebP file, with nothing beside it."""
        source = {WEBP: {"source": self._image(picture, "image/webp")}}
        return self.add("textures", {"sampler": self._sampler(wrap, False), "extensions": source})

    # Meshes and nodes

    def mesh(
        self,
        name: str,
        *parts: tuple[Shape, int],
        storage: str = "plain",
        variants: Mapping[int, int] | None = None,
    ) -> int:
        """A mesh of (shape, material) parts.

        storage: "plain"; "quantized", 16 bits a coordinate, for shapes within the cube of side 2; a name of `MESHOPT`, the same, packed;
        "draco".
        variants: materials by variant, where they are others.
        """
        primitives = []
        for shape, material in parts:
            made = self._draco(shape) if storage == "draco" else self._primitive(shape, storage)
            made["material"] = material
            if variants:
                mappings = [{"material": number, "variants": [variant]} for variant, number in variants.items()]
                made.setdefault("extensions", {})[VARIANTS] = {"mappings": mappings}
            primitives.append(made)
        return self.add("meshes", {"name": name, "primitives": primitives})

    def place(
        self,
        name: str,
        mesh: int,
        at: Sequence[float] = (0, 0, 0),
        turn: float = 0.0,
        scale: float | Rgb = 1.0,
        **others: Any,
    ) -> None:
        """A node for a mesh, turned about the vertical by `turn` radians."""
        node: Json = {"name": name, "mesh": mesh}
        if any(at):
            node["translation"] = [round(float(value), 6) for value in at]
        if turn:
            node["rotation"] = [0.0, round(math.sin(turn / 2), 9), 0.0, round(math.cos(turn / 2), 9)]
        if scale != 1.0:
            factors = scale if isinstance(scale, tuple) else (scale,) * 3
            node["scale"] = [round(float(value), 6) for value in factors]
        self.add("nodes", {**node, **others})

    def show(self, name: str, shape: Shape, material: int) -> None:
        """A shape that stands where its coordinates say."""
        self.place(name, self.mesh(name, (shape, material)))

    def crowd(self, **arrays: Floats) -> Json:
        """The extension of a node that places its mesh many times: translation, rotation (x y z w), scale, each float[n, k]."""
        attributes = {}
        for name, values in arrays.items():
            if name == "rotation":
                stored: NDArray[Any] = np.round(values * 32767).astype("<i2")
                attributes["ROTATION"] = self._accessor(stored, "VEC4", None, normalized=True)
            else:
                rounded = (np.round(values * 1024) / 1024).astype("<f4")
                attributes[name.upper()] = self._accessor(rounded, "VEC3", None)
        return {INSTANCING: {"attributes": attributes}}

    def camera(
        self,
        eye: Sequence[float],
        target: Sequence[float],
        yfov: float,
        name: str = "camera",
        *,
        lens: tuple[float, float] | None = None,
        height: float | None = None,
    ) -> None:
        """A camera; `yfov` in degrees. `lens`: its radius, and the distance that is sharp. `height`: of an orthographic one's view."""
        camera: Json = {"name": name, "type": "perspective"}
        if height is None:
            camera["perspective"] = {"yfov": round(math.radians(yfov), 9), "znear": 0.01, "zfar": 200.0}
        else:
            box = {"xmag": round(height / 2 * 4 / 3, 6), "ymag": round(height / 2, 6), "znear": 0.0, "zfar": 200.0}
            camera |= {"type": "orthographic", "orthographic": box}
        if lens is not None:
            camera["extras"] = {"rayfuse": {"aperture": lens[0], "focus": round(lens[1], 4)}}
        self.add("nodes", {"name": name, "camera": self.add("cameras", camera), "matrix": looking(eye, target)})

    def light(self, kind: str, name: str, eye: Sequence[float], target: Sequence[float], colour: Rgb, power: float, **spot: float) -> None:
        """A punctual light at `eye` that shines on `target`; `power` in W/sr or W/m2, `spot`: inner and outer angle in degrees."""
        light: Json = {"type": kind, "name": name, "color": list(colour), "intensity": power}
        if kind == "spot":
            light["spot"] = {f"{name}ConeAngle": round(math.radians(value), 6) for name, value in spot.items()}
        self.lights.append(light)
        lit = {LIGHTS: {"light": len(self.lights) - 1}}
        self.add("nodes", {"name": name, "matrix": looking(eye, target), "extensions": lit})

    def surrounded(self, radiance: Rgb) -> None:
        """Light of one colour from everywhere."""
        self.surroundings = {"rayfuse": {"environment": {"radiance": list(radiance)}}}

    # The file

    def text(self) -> str:
        """The finished file, one element a line."""
        lists: Json = {name: elements for name, elements in self.parts.items() if elements}
        uri = "data:application/octet-stream;base64," + base64.b64encode(bytes(self.blob)).decode()
        lists["buffers"] = [{"byteLength": len(self.blob), "uri": uri}]
        if self.unpacked:
            lists["buffers"].append({"byteLength": self.unpacked, "extensions": {MESHOPT["meshopt"]: {"fallback": True}}})
        shown: Json = {"nodes": list(range(len(self.parts["nodes"])))}
        lists["scenes"] = [{**shown, "extras": self.surroundings} if self.surroundings else shown]
        root: Json = {}
        if self.lights:
            root[LIGHTS] = {"lights": self.lights}
        if self.variants:
            root[VARIANTS] = {"variants": [{"name": name} for name in self.variants]}
        root |= self.metadata
        used = list(dict.fromkeys([*_extensions(lists), *root, *self._primitives_that_are_quantized()]))
        head: Json = {"asset": {"version": "2.0", "generator": self.generator}, "extensionsUsed": used}
        required = [name for name in used if name in REQUIRED]
        if required:
            head["extensionsRequired"] = required
        if root:
            head["extensions"] = root
        head["scene"] = 0
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
        for key, elements in lists.items():
            rows = ",\n".join("  " + json.dumps(element, separators=(", ", ": ")) for element in elements)
            lines.append(f'"{key}": [\n{rows}\n]')
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def _primitives_that_are_quantized(self) -> list[str]:
        """The extension without an element of its own: vertices that are not floats."""
        primitives = [primitive for mesh in self.parts["meshes"] for primitive in mesh["primitives"]]
        positions = {primitive["attributes"]["POSITION"] for primitive in primitives}
        return [QUANTIZATION] if any(self.parts["accessors"][k]["componentType"] != FLOAT for k in positions) else []

    def _primitive(self, shape: Shape, storage: str) -> Json:
        attributes = {}
        for name, (values, normalized) in self._vertices(shape, storage != "plain").items():
            kind = f"VEC{values.shape[1]}"
            attributes[name] = self._accessor(values, kind, VERTICES, normalized=normalized, packed=MESHOPT.get(storage))
        indices = shape.faces.reshape(-1, 1).astype("<u2" if len(shape.points) < 65535 else "<u4")
        return {"attributes": attributes, "indices": self._accessor(indices, "SCALAR", FACES, packed=MESHOPT.get(storage))}

    def _vertices(self, shape: Shape, quantized: bool) -> dict[str, tuple[NDArray[Any], bool]]:
        """The attributes as they are stored, each with whether its integers stand for fractions."""
        found: dict[str, tuple[NDArray[Any], bool]] = {}
        if quantized:
            found["POSITION"] = np.round(shape.points * 32767).astype("<i2"), True
            if shape.normals is not None:
                found["NORMAL"] = np.round(shape.normals * 32767).astype("<i2"), True
        else:
            points = shape.points if self.exact else np.round(shape.points * POSITION_GRID) / POSITION_GRID
            found["POSITION"] = points.astype("<f4") + np.float32(0), False
            if shape.normals is not None:
                normals = np.round(shape.normals * NORMAL_GRID) / NORMAL_GRID
                found["NORMAL"] = normals.astype("<f4") + np.float32(0), False
        for number, texcoords in enumerate(shape.texcoords):
            if quantized and texcoords.min() >= 0.0 and texcoords.max() <= 1.0:
                found[f"TEXCOORD_{number}"] = np.round(texcoords * 65535).astype("<u2"), True
            else:
                rounded = np.round(texcoords * TEXCOORD_GRID) / TEXCOORD_GRID
                found[f"TEXCOORD_{number}"] = rounded.astype("<f4") + np.float32(0), False
        if shape.colours is not None:
            found["COLOR_0"] = np.round(shape.colours * 255).astype("u1"), True
        return found

    def _draco(self, shape: Shape) -> Json:
        """A primitive whose numbers are in a Draco mesh alone."""
        vertices = {name: values for name, (values, _) in self._vertices(shape, False).items()}
        data = draco(shape.faces, list(vertices.values()), list(vertices))
        view = self.add("bufferViews", self._view(data))
        packed = {"bufferView": view, "attributes": {name: number for number, name in enumerate(vertices)}}
        accessors = {}
        for name, values in vertices.items():
            told: Json = {"componentType": FLOAT, "count": len(values), "type": f"VEC{values.shape[1]}"}
            if name == "POSITION":
                told |= {"min": values.min(0).tolist(), "max": values.max(0).tolist()}
            accessors[name] = self.add("accessors", told)
        indices = self.add("accessors", {"componentType": UINT, "count": shape.faces.size, "type": "SCALAR"})
        return {"attributes": accessors, "indices": indices, "extensions": {DRACO: packed}}

    def _accessor(
        self, array: NDArray[Any], kind: str, target: int | None, *, normalized: bool = False, packed: str | None = None
    ) -> int:
        key = (array.tobytes(), array.dtype.str, kind, target, packed)
        if self.shared and key in self._stored:
            return self._stored[key]
        width = array.itemsize * array.shape[1]
        padded = -width % 4 if target == VERTICES else 0  # vertices begin at multiples of four bytes
        data = np.pad(array.view("u1").reshape(len(array), width), ((0, 0), (0, padded))) if padded else array
        view = self._packed(array, data, target, packed) if packed else self._view(data.tobytes())
        if target is not None:
            view["target"] = target
        if padded or (packed and target == VERTICES):
            view["byteStride"] = width + padded
        accessor: Json = {
            "bufferView": self.add("bufferViews", view),
            "componentType": CODES[array.dtype.str[1:]],
            "count": len(array),
            "type": kind,
        }
        if normalized:
            accessor["normalized"] = True
        if target == VERTICES:
            accessor |= {"min": array.min(0).tolist(), "max": array.max(0).tolist()}
        self._stored[key] = self.add("accessors", accessor)
        return self._stored[key]

    def _packed(self, array: NDArray[Any], data: NDArray[Any], target: int | None, extension: str) -> Json:
        """A view of which only the packed bytes are in the file: a second buffer without bytes stands for the unpacked ones."""
        count, stride = len(data), data.nbytes // len(data)
        if target == FACES:
            mode, encoded = "INDICES", meshopt_indices(array[:, 0])
        else:
            mode, encoded = "ATTRIBUTES", meshopt_attributes(data)
        told = self._view(encoded) | {"byteStride": stride, "count": count, "mode": mode}
        view = {"buffer": 1, "byteOffset": self.unpacked, "byteLength": data.nbytes, "extensions": {extension: told}}
        self.unpacked += data.nbytes + -data.nbytes % 4
        return view

    def _view(self, data: bytes) -> Json:
        view = {"buffer": 0, "byteOffset": len(self.blob), "byteLength": len(data)}
        self.blob += data + bytes(-len(data) % 4)
        return view

    def _image(self, picture: bytes, kind: str) -> int:
        if (picture, kind) not in self._stored:
            view = self.add("bufferViews", self._view(picture))
            self._stored[picture, kind] = self.add("images", {"bufferView": view, "mimeType": kind})
        return self._stored[picture, kind]

    def _sampler(self, wrap: str | tuple[str, str], nearest: bool) -> int:
        across, down = (wrap, wrap) if isinstance(wrap, str) else wrap
        filters = {"magFilter": 9728, "minFilter": 9728} if nearest else {"magFilter": 9729, "minFilter": 9987}
        sampler = {**filters, "wrapS": WRAPS[across], "wrapT": WRAPS[down]}
        if sampler in self.parts["samplers"]:
            return self.parts["samplers"].index(sampler)
        return self.add("samplers", sampler)


def looking(eye: Sequence[float], target: Sequence[float]) -> list[float]:
    """The matrix, column by column, of something at `eye` whose -z axis goes through `target`."""
    back = np.subtract(eye, target) / np.linalg.norm(np.subtract(eye, target))
    up = UP if abs(back[1]) < 0.999 else (0.0, 0.0, -1.0)
    right = np.cross(up, back) / np.linalg.norm(np.cross(up, back))
    axes = (right, np.cross(back, right), back, np.asarray(eye, float))
    columns = [[*(round(float(value), 9) + 0.0 for value in axis), float(axis is axes[3])] for axis in axes]
    return [value for column in columns for value in column]


def moved(texture: int, texcoord: int = 0, **transform: Any) -> Json:
    """A slot of a material: its texture, and how its coordinates are moved (offset, rotation, scale)."""
    slot: Json = {"index": texture}
    if texcoord:
        slot["texCoord"] = texcoord
    if transform:
        slot["extensions"] = {TRANSFORM: transform}
    return slot


def _extensions(part: Any) -> Iterator[str]:
    """The names of the extensions in a part of the file, in order."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "extensions":
                yield from value
            yield from _extensions(value)
    elif isinstance(part, list):
        for value in part:
            yield from _extensions(value)
