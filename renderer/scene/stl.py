"""STL: a heap of triangles, as numbers or as text.

The binary form is a header of 80 bytes, a count, and 50 bytes a triangle; whether a file is binary is told by its length, because many
binary files begin with the word "solid" like the text form. Corners that have the same coordinates become one vertex; the normals that
the file states are redundant, and often wrong, so surfaces are flat by their corners.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

from renderer.scene.gltf_json import Diagnostics
from renderer.scene.lines import Lines, Part
from renderer.scene.mesh_files import finite_triangles, lone_scene, numbers
from renderer.scene.model import Float32s, Geometry, Scene, SceneError
from renderer.scene.scene_file import read_bytes
from renderer.scene.weld import equal_rows

RECORD = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
HEADER = 84


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is looked for and told
def load(path: str | Path, *, strict: bool = False, warn: Callable[[str], None] | None = None) -> Scene:
    """Load an .stl file; see `renderer.scene.importers.load`."""
    file = Path(path)
    diagnostics = Diagnostics(file, strict, warn)
    data = read_bytes(file)
    corners = _corners(file, data, diagnostics)
    first, vertex = equal_rows(corners + np.float32(0.0))  # -0 is 0
    positions = corners[first]
    indices = finite_triangles(vertex.reshape(-1, 3).astype(np.uint32), positions, "vertices", diagnostics)
    return lone_scene(file, Geometry(positions, indices, None, 0), diagnostics)


def _corners(file: Path, data: bytes, diagnostics: Diagnostics) -> Float32s:
    """The corners of all triangles, float32[3m, 3]."""
    count = struct.unpack_from("<I", data, HEADER - 4)[0] if len(data) >= HEADER else -1
    there = max(0, (len(data) - HEADER) // RECORD.itemsize)
    text = data[:5].lower() == b"solid" and re.search(rb"facet|endsolid", data[:4096], re.IGNORECASE) is not None
    if count >= 0 and (count == there or not text):
        if count > there:
            diagnostics.warning("triangles", f"the file is cut off: {there} of {count} triangles are there")
        elif len(data) > HEADER + count * RECORD.itemsize:
            diagnostics.warning("triangles", f"{len(data) - HEADER - count * RECORD.itemsize} bytes after the last triangle are ignored")
        corners = np.frombuffer(data, RECORD, min(count, there), HEADER)["corners"]
        return np.ascontiguousarray(corners, np.float32).reshape(-1, 3)
    if not text:
        raise SceneError(f"{file}: neither a text nor a binary STL file, or cut off; export or copy it again")
    return _text(file, data)


def _text(file: Path, data: bytes) -> Float32s:
    """The corners of a text file: what follows each word "vertex"."""
    lines = Lines(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
    part = lines.part(lines.begin_with(b"vertex") | lines.begin_with(b"VERTEX"), len("vertex"))
    odd = part.words != 3
    if odd.any():
        raise SceneError(f"{file}: line {int(part.line[np.argmax(odd)]) + 1}: a vertex needs three numbers; export the file again")
    try:
        corners = numbers(part.text)
    except ValueError:
        raise SceneError(f"{file}: line {_unreadable(part)}: something is no number; export the file again") from None
    if len(part.line) % 3:
        raise SceneError(f"{file}: {len(part.line)} vertices are no whole number of triangles; export the file again")
    return corners.astype(np.float32).reshape(-1, 3)


def _unreadable(part: Part) -> int:
    """The number, from 1, of the first line of a part that is not numbers."""
    for line, text in zip(part.line.tolist(), part.text.split(b"\n")):
        try:
            numbers(text)
        except ValueError:
            return int(line) + 1
    return int(part.line[0]) + 1
