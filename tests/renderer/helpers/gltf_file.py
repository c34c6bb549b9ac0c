"""glTF files in the making, for tests: a document that can be edited at will before it is written."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from renderer.scene.gltf import load
from renderer.scene.model import Scene

TYPES = {5120: "i1", 5121: "u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}
QUAD = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], np.float32)
QUAD_INDICES = np.array([0, 1, 2, 0, 2, 3], np.uint16)


class File:
    """A glTF file in the making: `json` may be edited at will before it is written."""

    def __init__(self, **top: Any) -> None:
        self.blob = b""
        self.json: dict[str, Any] = {"asset": {"version": "2.0"}, "bufferViews": [], "accessors": [], "meshes": []}
        self.json |= {"nodes": [], "scenes": [{"nodes": []}], "scene": 0, **top}

    def view(self, data: bytes, **more: Any) -> int:
        self.blob += bytes(-len(self.blob) % 4)
        view = {"buffer": 0, "byteOffset": len(self.blob), "byteLength": len(data), **more}
        self.json["bufferViews"].append(view)
        self.blob += data
        return len(self.json["bufferViews"]) - 1

    def accessor(self, values: Any, component: int = 5126, kind: str = "VEC3", **more: Any) -> int:
        array = np.asarray(values, TYPES[component])
        count = array.size // WIDTHS[kind]
        entry = {"bufferView": self.view(array.tobytes()), "componentType": component, "type": kind, "count": count}
        self.json["accessors"].append(entry | more)
        return len(self.json["accessors"]) - 1

    def mesh(self, *primitives: dict[str, Any]) -> int:
        self.json["meshes"].append({"primitives": list(primitives)})
        return len(self.json["meshes"]) - 1

    def node(self, root: bool = True, **node: Any) -> int:
        self.json["nodes"].append(node)
        if root:
            self.json["scenes"][0]["nodes"].append(len(self.json["nodes"]) - 1)
        return len(self.json["nodes"]) - 1

    def quad(self, **primitive: Any) -> int:
        """A unit square that faces +z."""
        attributes = {"POSITION": self.accessor(QUAD)}
        indices = self.accessor(QUAD_INDICES, 5123, "SCALAR")
        return self.mesh({"attributes": attributes, "indices": indices, **primitive})

    def glb(self) -> bytes:
        if self.blob:
            self.json["buffers"] = [{"byteLength": len(self.blob)}]
        text = json.dumps(self.json).encode()
        return glb(text, self.blob)

    def write(self, folder: Path, name: str = "scene.glb") -> Path:
        path = folder / name
        if name.endswith(".glb"):
            path.write_bytes(self.glb())
            return path
        if self.blob and "buffers" not in self.json:
            uri = "data:application/octet-stream;base64," + base64.b64encode(self.blob).decode()
            self.json["buffers"] = [{"byteLength": len(self.blob), "uri": uri}]
        path.write_text(json.dumps(self.json), encoding="utf-8")
        return path

    def load(self, folder: Path, **options: Any) -> Scene:
        return load(self.write(folder), **options)


def glb(text: bytes, binary: bytes = b"") -> bytes:
    text += b" " * (-len(text) % 4)
    binary += bytes(-len(binary) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text
    if binary:
        chunks += struct.pack("<I4s", len(binary), b"BIN\0") + binary
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def one_quad(**node: Any) -> File:
    file = File()
    file.node(mesh=file.quad(), **node)
    return file
