"""Wavefront OBJ: lines of vertices and of faces that refer to them by number.

A file of a million triangles has three million lines, so nothing here looks at lines one by one but those that name things (groups,
materials). All bytes are one array; lines are told apart by their first letters; the lines of one kind are cut out together and their
numbers read in one go. A face's corner is position/coordinates/normal, each a number from 1 or, counted back from the line itself, from
-1; which of them are there shows in the count of slashes. Corners with the same three numbers become one vertex.

What the format leaves open is answered in `mesh_files`; materials are in `mtl`. Faces of a group (or object) are one mesh, those of a
material in it one geometry. The v axis of OBJ points up, glTF's down: it is turned over.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renderer.scene.gltf_json import Diagnostics
from renderer.scene.lines import NEWLINE, Lines, Part
from renderer.scene.mesh_files import (
    NEUTRAL,
    finished,
    finite_triangles,
    numbers,
    unit_normals,
    with_alpha,
)
from renderer.scene.model import Float32s, Geometry, Instance, Mesh, Scene, SceneError
from renderer.scene.mtl import Library, read_libraries
from renderer.scene.polygons import triangulate
from renderer.scene.scene_file import read_bytes
from renderer.scene.weld import equal_rows

Ints = NDArray[np.int64]
Float64s = NDArray[np.float64]

SLASH = 47
KINDS = ("v", "vt", "vn", "f")
COMMENT = re.compile(rb"(^|(?<=\s))#[^\n]*", re.MULTILINE)
UNDRAWN = {"p": "points", "l": "lines", "curv": "curves", "curv2": "curves", "surf": "free-form surfaces"}


@dataclass(frozen=True, eq=False)
class _Faces:
    """Corners of faces, one face's after another's: line of each face, counts of corners, and numbers from 0, -1 for none."""

    line: Ints
    counts: Ints
    position: Ints
    texcoord: Ints
    normal: Ints


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is looked for and told
def load(path: str | Path, *, strict: bool = False, warn: Callable[[str], None] | None = None) -> Scene:
    """Load an .obj file and the .mtl files that it names; see `renderer.scene.importers.load`."""
    file = Path(path)
    diagnostics = Diagnostics(file, strict, warn)
    return _Reading(file, diagnostics).scene()


class _Reading:
    """One file being read."""

    def __init__(self, file: Path, diagnostics: Diagnostics) -> None:
        self.file, self.diagnostics = file, diagnostics
        data = read_bytes(file)
        if b"\0" in data[:4096]:
            raise SceneError(f"{file}: not an OBJ file: it is not text; give the path of another file")
        data = data.removeprefix(BOM_UTF8).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        # A line that goes on is joined with the next; the place where that happens keeps line numbers true.
        self.joined = np.array([data.count(b"\n", 0, m.start()) for m in re.finditer(rb"\\ *\n", data)] if b"\\" in data else [], np.int64)
        data = re.sub(rb"\\ *\n", b" ", data) if len(self.joined) else data
        self.lines = Lines(COMMENT.sub(b"", data) if b"#" in data else data)
        self.kind = {name: self.lines.begin_with(name.encode()) for name in KINDS}

    def scene(self) -> Scene:
        vertices = self.part("v")
        rows = self.floats(vertices, 3)
        positions, colours = rows[:, :3], self.colours(rows, vertices)
        texcoords, normals = self.floats(self.part("vt"), 1), self.floats(self.part("vn"), 3)[:, :3]
        if texcoords.shape[1] == 1:
            texcoords = np.concatenate([texcoords, np.zeros_like(texcoords)], 1)
        names = self.named()
        faces = self.faces(len(positions), len(texcoords), len(normals))
        scene = Scene(self.file)
        libraries = [(line, name) for line, kind, name in names if kind == "mtllib"]
        library = read_libraries(libraries, self.file.parent, self.diagnostics, self.number)
        scene.images, scene.textures = library.images, library.textures
        for kind in dict.fromkeys(kind for _, kind, _ in names if kind in UNDRAWN):
            line = next(line for line, other, _ in names if other == kind)
            self.diagnostics.warning(f"line {self.number(line)}", f"{UNDRAWN[kind]} are not drawn")
        arrays = _Arrays(
            positions.astype(np.float32),
            (texcoords[:, :2] * [1.0, -1.0] + [0.0, 1.0]).astype(np.float32),
            unit_normals(normals, "vn", self.diagnostics),
            colours,
        )
        self.place(scene, faces, positions, arrays, names, library)
        return finished(scene, self.diagnostics)

    def number(self, line: int) -> int:
        """The number, from 1, that an editor shows for a line."""
        # Each join before it hides one line; the n-th join was at line `joined[n]`, n lines of which are hidden by then.
        hidden = int((self.joined - np.arange(len(self.joined)) < line).sum())
        return line + hidden + 1

    def wrong(self, line: int, what: str) -> SceneError:
        return SceneError(f"{self.file}: line {self.number(line)}: {what}; correct the file or export it again")

    def part(self, kind: str) -> Part:
        """The lines of a kind."""
        return self.lines.part(self.kind[kind], len(kind))

    def floats(self, part: Part, least: int) -> Float64s:
        """The numbers of lines that have `least` or more, float64[lines, columns]; NaN where a line has fewer than others."""
        if not len(part.line):
            return np.zeros((0, least))
        if int(part.words.min()) < least:
            raise self.wrong(int(part.line[np.argmin(part.words)]), f"{least} numbers are needed")
        try:
            values = numbers(part.text)
        except ValueError:
            raise self.wrong(self.unreadable(part), "something is no number") from None
        columns = int(part.words.max())
        if int(part.words.min()) == columns:
            return values.reshape(len(part.line), columns)
        table = np.full((len(part.line), columns), np.nan)
        table[np.arange(columns) < part.words[:, None]] = values
        return table

    def unreadable(self, part: Part) -> int:
        """The first line of a part that is not numbers."""
        for line, text in zip(part.line.tolist(), part.text.split(b"\n")):
            try:
                numbers(text)
            except ValueError:
                return int(line)
        return int(part.line[0])

    def colours(self, rows: Float64s, part: Part) -> Float32s | None:
        """Linear colours of vertices, where lines have red, green and blue behind x, y and z."""
        if rows.shape[1] < 6 or not (part.words >= 6).any():
            return None
        rgb = rows[:, -3:].copy()
        rgb[~np.isfinite(rgb).all(1)] = 1.0
        return with_alpha(rgb)

    def named(self) -> list[tuple[int, str, str]]:
        """The lines that name something, or are of a kind that is not drawn: line, keyword, the rest of it."""
        others = np.flatnonzero(~np.logical_or.reduce(list(self.kind.values())) & (self.lines.words > 0)).tolist()
        found = []
        for line in others:
            kind, _, rest = self.lines.text(line).replace("\t", " ").partition(" ")
            found.append((line, kind, rest.strip()))
        return found

    def faces(self, positions: int, texcoords: int, normals: int) -> _Faces:
        """The corners of all faces, their numbers checked and counted from 0. Raises `SceneError` with the line at fault."""
        part = self.part("f")
        if not len(part.line):
            none = np.zeros(0, np.int64)
            return _Faces(none, none, none, none, none)
        text = re.sub(rb"/(?=\s)", b"/0", part.text).replace(b"//", b"/0/")
        octets = np.frombuffer(text, np.uint8)
        ends = np.searchsorted(np.flatnonzero(octets == SLASH), np.flatnonzero(octets == NEWLINE))
        slashes = np.diff(ends, prepend=0)
        each = slashes // np.maximum(part.words, 1) + 1  # numbers of a corner
        odd = (slashes != (each - 1) * part.words) | (each > 3) | (part.words == 0)
        if odd.any():
            raise self.wrong(int(part.line[np.argmax(odd)]), "its corners are not all v, v/vt, v/vt/vn or v//vn")
        text = text.replace(b"/", b" ")
        try:
            values = numbers(text, np.int64)
            if len(values) != int((part.words * each).sum()):
                raise ValueError
        except ValueError:
            whole = Part(part.line, text, part.words)
            raise self.wrong(self.unreadable(whole), "something is no whole number") from None
        if (each == each[0]).all():
            table = values.reshape(-1, int(each[0]))
            columns = [table[:, k] if k < each[0] else np.zeros(len(table), np.int64) for k in range(3)]
        else:
            corner_each = np.repeat(each, part.words)
            at = np.cumsum(corner_each) - corner_each
            columns = [np.where(k < corner_each, values[np.minimum(at + k, len(values) - 1)], 0) for k in range(3)]
        lines = np.repeat(part.line, part.words)
        limits = (("v", positions), ("vt", texcoords), ("vn", normals))
        resolved = [self.resolved(column, lines, kind, total) for column, (kind, total) in zip(columns, limits)]
        return _Faces(part.line, part.words, *resolved)

    def resolved(self, column: Ints, lines: Ints, kind: str, total: int) -> Ints:
        """Numbers from 1, or counted back from their line, as numbers from 0; 0 is none, which only a position may not be."""
        below = column < 0
        found = column - 1
        if below.any():
            before = np.cumsum(self.kind[kind])  # lines of the kind up to and with each line
            found[below] = column[below] + before[lines[below]]
        bad = (found < 0) & (column != 0) | (found >= total)
        if kind == "v":
            bad |= column == 0
        if bad.any():
            first = int(np.argmax(bad))
            have = f"the file has {total}" if total else "the file has none"
            raise self.wrong(int(lines[first]), f"{kind} {column[first]} does not exist ({have}; the first is 1)")
        return found

    def place(
        self, scene: Scene, faces: _Faces, positions: Float64s, arrays: _Arrays, names: list[tuple[int, str, str]], library: Library
    ) -> None:
        """Puts the faces into meshes and their instances, by the group and the material that stand before them."""
        if (faces.counts < 3).any():
            line = int(faces.line[np.argmax(faces.counts < 3)])
            self.diagnostics.warning(f"line {self.number(line)}", "faces of fewer than three corners are skipped")
        triangles, owner = triangulate(faces.counts, positions[faces.position])
        group_names, group = _standing(faces.line, [(line, name) for line, kind, name in names if kind in ("o", "g")])
        paint_names, paint = _standing(faces.line, [(line, name) for line, kind, name in names if kind == "usemtl"])
        scene.materials = list(library.materials)
        known = {material.name: number for number, material in reversed(list(enumerate(scene.materials)))}
        numbers_, worn = [], set(np.unique(paint).tolist())
        for place, name in enumerate(paint_names):
            if name and name not in known and library.complete:
                self.diagnostics.warning(f"usemtl {name}", "there is no such material; the default is used")
            if name not in known and place in worn:
                if NEUTRAL not in scene.materials:
                    scene.materials.append(NEUTRAL)
                known[name] = scene.materials.index(NEUTRAL)
            numbers_.append(known.get(name, 0))  # 0: no face wears it
        key = (group * len(paint_names) + paint)[owner]
        order = np.argsort(key, kind="stable")
        edges = np.flatnonzero(np.diff(key[order], prepend=-1, append=-1)) if len(key) else np.zeros(0, np.int64)
        meshes: dict[int, list[Geometry]] = {}
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist()):
            which = order[begin:end]
            geometry = arrays.geometry(faces, triangles[which], numbers_[int(key[which[0]]) % len(paint_names)])
            indices = finite_triangles(geometry.indices, geometry.positions, "v", self.diagnostics)
            if len(indices):
                kept = Geometry(
                    geometry.positions,
                    indices,
                    geometry.normals,
                    geometry.material,
                    texcoords=geometry.texcoords,
                    colours=geometry.colours,
                )
                meshes.setdefault(int(key[which[0]]) // len(paint_names), []).append(kept)
        for number, geometries in meshes.items():
            name = group_names[number] or self.file.stem
            scene.instances.append(Instance(len(scene.meshes), np.eye(4), name, len(scene.meshes)))
            scene.meshes.append(Mesh(name, geometries))


@dataclass(frozen=True, eq=False)
class _Arrays:
    """What faces refer to, ready for geometries."""

    positions: Float32s
    texcoords: Float32s
    normals: Float32s
    colours: Float32s | None

    def geometry(self, faces: _Faces, triangles: Ints, material: int) -> Geometry:
        """The geometry of triangles, int64[m, 3] numbers of corners."""
        corners = triangles.reshape(-1)
        v, t, n = faces.position[corners], faces.texcoord[corners], faces.normal[corners]
        has_t, has_n = bool((t >= 0).any()), bool((n >= 0).any())
        if (not has_t or np.array_equal(t, v)) and (not has_n or np.array_equal(n, v)):
            first, vertex = _used(v, len(self.positions))
            t_, n_ = first, first
            v_ = first
        else:
            first, vertex = equal_rows(np.stack([v, t, n], 1).astype(np.int32))
            v_, t_, n_ = v[first], t[first], n[first]
        return Geometry(
            self.positions[v_],
            vertex.reshape(-1, 3).astype(np.uint32),
            _taken(self.normals, n_) if has_n else None,
            material,
            texcoords=(_taken(self.texcoords, t_),) if has_t else (),
            colours=None if self.colours is None else self.colours[v_],
        )


def _used(numbers_: Ints, total: int) -> tuple[Ints, Ints]:
    """The different numbers, in order, and the place of each among them."""
    there = np.zeros(total, bool)
    there[numbers_] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[numbers_]


def _taken(values: Float32s, which: Ints) -> Float32s:
    """The rows of these numbers, zero where there is none (-1)."""
    found: Any = values[which]
    if (which < 0).any():
        found[which < 0] = 0.0
    return found  # type: ignore[no-any-return]


def _standing(lines: Ints, named: list[tuple[int, str]]) -> tuple[list[str], Ints]:
    """The names that hold, "" first, and for each of `lines` the number of the one that was said last before it."""
    names = {"": 0}
    numbers_ = [0] + [names.setdefault(name, len(names)) for _, name in named]
    last = np.searchsorted(np.array([line for line, _ in named], np.int64), lines)
    return list(names), np.array(numbers_, np.int64)[last]
