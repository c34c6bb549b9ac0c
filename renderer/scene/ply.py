"""PLY (Stanford polygon files): elements with properties that the header declares, as text or as bytes of either order.

Nothing about the layout is fixed but the header. Elements of plain numbers are one structured array; an element with lists is one too
as long as all its lists are as long as in its first row, which the counts then confirm, and else is walked row by row. Of all elements
`vertex` and `face` are used, of all properties those for positions, normals, colours and texture coordinates, under the names that
exporters give them; all else is passed over. Format: G. Turk, "The PLY Polygon File Format", 1994.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renderer.scene.gltf_json import Diagnostics
from renderer.scene.mesh_files import finite_triangles, lone_scene, numbers, unit_normals, with_alpha
from renderer.scene.model import Float32s, Geometry, Scene, SceneError
from renderer.scene.polygons import triangulate
from renderer.scene.scene_file import read_bytes

TYPES = {
    **dict.fromkeys(("char", "int8"), "i1"),
    **dict.fromkeys(("uchar", "uint8"), "u1"),
    **dict.fromkeys(("short", "int16"), "i2"),
    **dict.fromkeys(("ushort", "uint16"), "u2"),
    **dict.fromkeys(("int", "int32"), "i4"),
    **dict.fromkeys(("uint", "uint32"), "u4"),
    **dict.fromkeys(("float", "float32"), "f4"),
    **dict.fromkeys(("double", "float64"), "f8"),
}
ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
LISTS = ("vertex_indices", "vertex_index")
COLOURS = (("red", "green", "blue", "alpha"), ("diffuse_red", "diffuse_green", "diffuse_blue", "diffuse_alpha"), ("r", "g", "b", "a"))
TEXCOORDS = (("s", "t"), ("u", "v"), ("texture_u", "texture_v"), ("texture_s", "texture_t"))
LONGEST_HEADER = 1 << 16

Column = NDArray[Any]
Lists = tuple[NDArray[np.int64], NDArray[Any]]  # how long each list is, and all their values
Table = dict[str, "Column | Lists"]


@dataclass(frozen=True)
class Property:
    """A property: its name and type, and for a list the type of its length."""

    name: str
    type: str
    length: str | None


@dataclass(frozen=True)
class Element:
    """An element: so many rows of these properties."""

    name: str
    rows: int
    properties: list[Property]

    @property
    def smallest(self) -> int:
        """Bytes of a row, in the binary form, that has nothing in its lists."""
        return sum(np.dtype(p.length or p.type).itemsize for p in self.properties)


class _Cut(Exception):
    """The file ends, or stops making sense, inside an element."""


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is looked for and told
def load(path: str | Path, *, strict: bool = False, warn: Callable[[str], None] | None = None) -> Scene:
    """Load a .ply file; see `renderer.scene.importers.load`."""
    file = Path(path)
    diagnostics = Diagnostics(file, strict, warn)
    data = read_bytes(file)
    order, elements, start = _header(file, data)
    tables: dict[str, Table] = {}
    values: NDArray[np.float64] | None = None
    at = start
    try:
        if order == "":
            values, at = _text_numbers(data[start:]), 0
        for element in elements:
            if element.name in ("vertex", "face") or element is not elements[-1]:
                if values is not None:
                    table, at = _text_rows(element, values, at)
                else:
                    table, at = _binary_rows(element, data, at, order)
                tables.setdefault(element.name, table)
    except _Cut as error:
        raise SceneError(f"{file}: {error}; export or copy it again") from None
    whole = {p.name for element in elements if element.name == "vertex" for p in element.properties if p.type[0] != "f"}
    return lone_scene(file, _geometry(file, tables, whole, diagnostics), diagnostics)


def _header(file: Path, data: bytes) -> tuple[str, list[Element], int]:
    """The byte order ("" for text), the elements, and where they begin."""
    end = data.find(b"end_header", 0, LONGEST_HEADER)
    stop = data.find(b"\n", end) + 1 if end >= 0 else 0
    if data[:3] != b"ply" or not stop:
        raise SceneError(f"{file}: not a PLY file: it has no header from 'ply' to 'end_header'; export it again")
    order: str | None = None
    elements: list[Element] = []
    for row, line in enumerate(data[:end].decode("ascii", "replace").splitlines(), 1):
        words = line.split()
        try:
            if words[:1] == ["format"]:
                order = ORDERS[words[1]]
            elif words[:1] == ["element"]:
                rows = int(words[2])
                if rows < 0:
                    raise ValueError
                elements.append(Element(words[1], rows, []))
            elif words[:2] == ["property", "list"]:
                length, kind, name = words[2:5]
                if TYPES[length][0] == "f":
                    raise ValueError
                _declare(elements[-1], Property(name, TYPES[kind], TYPES[length]))
            elif words[:1] == ["property"]:
                _declare(elements[-1], Property(words[2], TYPES[words[1]], None))
        except (KeyError, IndexError, ValueError):
            raise SceneError(f"{file}: line {row}: '{line[:60]}' is no line of a PLY header; export the file again") from None
    if order is None:
        raise SceneError(f"{file}: its header states no format; export it again")
    return order, elements, stop


def _declare(element: Element, property: Property) -> None:
    """Adds a property to an element. Raises ValueError where it has one of that name: nobody could tell which is meant."""
    if any(other.name == property.name for other in element.properties):
        raise ValueError
    element.properties.append(property)


def _text_numbers(body: bytes) -> NDArray[np.float64]:
    """All numbers of a text file. Raises `_Cut`."""
    try:
        found: NDArray[np.float64] = numbers(body)
    except ValueError:
        raise _Cut("something in its data is no number") from None
    return found


def _text_rows(element: Element, values: NDArray[np.float64], at: int) -> tuple[Table, int]:
    """The rows of an element from the numbers of a text file that begin at `at`, and where they end."""
    if all(p.length is None for p in element.properties):
        width = len(element.properties)
        end = at + element.rows * width
        if end > len(values):
            raise _Cut(f"it is cut off in its {element.rows} rows of {element.name}")
        rows = values[at:end].reshape(element.rows, width)
        return {p.name: rows[:, k] for k, p in enumerate(element.properties)}, end
    if element.rows > len(values) - at:
        raise _Cut(f"it is cut off in its {element.rows} rows of {element.name}")
    even = _even_text_rows(element, values, at)
    return even if even is not None else _uneven_text_rows(element, values, at)


def _even_text_rows(element: Element, values: NDArray[np.float64], at: int) -> tuple[Table, int] | None:
    """As `_text_rows`, where each list is as long in every row; None where that is not so."""
    table: Table = {}
    lengths, width = [], 0
    for p in element.properties if element.rows else []:
        if p.length is not None:
            if at + width >= len(values) or not 0 <= values[at + width] < len(values):
                return None
            lengths.append((width, int(values[at + width])))
            width += lengths[-1][1]
        width += 1
    end = at + element.rows * width
    if end > len(values):
        return None
    rows = values[at:end].reshape(element.rows, width)
    if not all((rows[:, column] == length).all() for column, length in lengths):
        return None
    column = 0
    for p in element.properties:
        if p.length is None:
            table[p.name] = rows[:, column] if width else np.zeros(0)
        else:
            length = lengths.pop(0)[1] if lengths else 0
            table[p.name] = np.full(element.rows, length), rows[:, column + 1 : column + 1 + length].reshape(-1)
            column += length
        column += 1
    return table, end


def _uneven_text_rows(element: Element, values: NDArray[np.float64], at: int) -> tuple[Table, int]:
    """As `_text_rows`, row by row."""
    plain: dict[str, list[int]] = {p.name: [] for p in element.properties}
    counts: dict[str, list[int]] = {p.name: [] for p in element.properties}
    whole = values[at:].astype(np.int64) if np.isfinite(values[at:]).all() else np.zeros(0, np.int64)
    numbers_ = whole.tolist()
    place, last = 0, len(numbers_)
    for _ in range(element.rows):
        for p in element.properties:
            if place >= last:
                raise _Cut(f"it is cut off in its {element.rows} rows of {element.name}")
            plain[p.name].append(place)
            place += 1
            if p.length is not None:
                length = numbers_[place - 1]
                if not 0 <= length <= last - place:
                    raise _Cut(f"a list of {element.name} has {length} values, which are not there")
                counts[p.name].append(length)
                place += length
    table: Table = {}
    for p in element.properties:
        begins = np.array(plain[p.name], np.int64) + at
        if p.length is None:
            table[p.name] = values[begins]
        else:
            lengths = np.array(counts[p.name], np.int64)
            table[p.name] = lengths, values[_ranges(begins + 1, lengths)]
    return table, at + place


def _binary_rows(element: Element, data: bytes, at: int, order: str) -> tuple[Table, int]:
    """The rows of an element from the bytes that begin at `at`, and where they end."""
    if element.rows * element.smallest > len(data) - at:
        raise _Cut(f"it is cut off in its {element.rows} rows of {element.name}: {len(data) - at} bytes are left")
    if element.rows == 0:
        none: Lists = (np.zeros(0, np.int64), np.zeros(0))
        return {p.name: np.zeros(0) if p.length is None else none for p in element.properties}, at
    fields: list[tuple[str, str, int]] = []
    place = at
    for k, p in enumerate(element.properties):
        length = 1
        if p.length is not None:
            dtype = np.dtype(order + p.length)
            if place + dtype.itemsize > len(data):
                return _uneven_binary_rows(element, data, at, order)
            length = int(np.frombuffer(data, dtype, 1, place)[0])
            if not 0 <= length <= len(data) - place:
                raise _Cut(f"a list of {element.name} has {length} values, which are not there")
            fields.append((f"{k} length", order + p.length, 1))
            place += dtype.itemsize
        fields.append((str(k), order + p.type, length))
        place += np.dtype(p.type).itemsize * length
    record = np.dtype([(name, kind, (count,)) for name, kind, count in fields])
    if element.rows * record.itemsize > len(data) - at:
        return _uneven_binary_rows(element, data, at, order)
    rows = np.frombuffer(data, record, element.rows, at)
    table: Table = {}
    for k, p in enumerate(element.properties):
        if p.length is None:
            table[p.name] = rows[str(k)][:, 0]
            continue
        counts = rows[f"{k} length"][:, 0]
        if not (counts == counts[0]).all():
            return _uneven_binary_rows(element, data, at, order)
        table[p.name] = counts.astype(np.int64), rows[str(k)].reshape(-1)
    return table, at + element.rows * record.itemsize


def _uneven_binary_rows(element: Element, data: bytes, at: int, order: str) -> tuple[Table, int]:
    """As `_binary_rows`, row by row."""
    begins: dict[str, list[int]] = {p.name: [] for p in element.properties}
    counts: dict[str, list[int]] = {p.name: [] for p in element.properties}
    byte_order, last = ("little" if order == "<" else "big"), len(data)
    steps = [(p.name, np.dtype(p.length).itemsize if p.length else 0, np.dtype(p.type).itemsize) for p in element.properties]
    for _ in range(element.rows):
        for name, head, size in steps:
            length = 1
            if head:
                length = data[at] if head == 1 and at < last else int.from_bytes(data[at : at + head], byte_order)  # type: ignore[arg-type]
                at += head
                counts[name].append(length)
            begins[name].append(at)
            at += size * length
        if at > last:
            raise _Cut(f"it is cut off in its {element.rows} rows of {element.name}")
    octets = np.frombuffer(data, np.uint8)
    table: Table = {}
    for p, (name, _, size) in zip(element.properties, steps):
        lengths = np.array(counts[name] if p.length else [1] * element.rows, np.int64)
        places = _ranges(np.array(begins[name], np.int64), lengths, size)
        values = octets[places[:, None] + np.arange(size)].reshape(-1).view(order + p.type)
        table[name] = (lengths, values) if p.length else values
    return table, at


def _ranges(begins: NDArray[np.int64], lengths: NDArray[np.int64], step: int = 1) -> NDArray[np.int64]:
    """begins[0], begins[0] + step, ... lengths[0] of them, then those of the next, one after another."""
    before = np.cumsum(lengths) - lengths
    inside = np.arange(int(lengths.sum())) - np.repeat(before, lengths)
    return np.repeat(begins, lengths) + inside * step


def _geometry(file: Path, tables: dict[str, Table], whole: set[str], diagnostics: Diagnostics) -> Geometry:
    """The triangles of a file; `whole`: the properties of vertices that are declared as integers."""
    vertex = tables.get("vertex", {})
    positions = _columns(vertex, ("x", "y", "z"))
    if positions is None:
        raise SceneError(f"{file}: its vertices have no x, y and z; export it again")
    faces = next((tables["face"][name] for name in LISTS if name in tables.get("face", {})), None)
    if not isinstance(faces, tuple):
        diagnostics.warning("face", "there are no faces, and points are not drawn")
        faces = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    counts, corners = faces[0], faces[1].astype(np.int64)
    if len(corners) and (corners.min() < 0 or corners.max() >= len(positions)):
        lowest = int(corners.min())
        bad = lowest if lowest < 0 else int(corners.max())
        raise SceneError(f"{file}: a face has vertex {bad}, but there are {len(positions)}; export the file again")
    if (counts < 3).any():
        diagnostics.warning("face", f"{int((counts < 3).sum())} faces of fewer than three corners are skipped")
    triangles, _ = triangulate(counts, positions[corners])
    narrow = positions.astype(np.float32)
    indices = finite_triangles(corners[triangles].astype(np.uint32).reshape(-1, 3), narrow, "vertex", diagnostics)
    normals = _columns(vertex, ("nx", "ny", "nz"))
    return Geometry(
        narrow,
        indices,
        None if normals is None else unit_normals(normals, "vertex.nx", diagnostics),
        0,
        texcoords=_texcoords(vertex),
        colours=_colours(vertex, whole),
    )


def _columns(table: Table, names: tuple[str, ...]) -> NDArray[np.float64] | None:
    """The properties of these names side by side, float64[n, names]; None where one is missing."""
    found = [column for name in names if isinstance(column := table.get(name), np.ndarray)]
    return np.stack(found, 1).astype(np.float64) if len(found) == len(names) else None


def _colours(table: Table, whole: set[str]) -> Float32s | None:
    """Linear colours float32[n, 4]; integers are parts of the highest that their type holds, in a text file of 255, where floats above 1
    are taken for such as well."""
    for names in COLOURS:
        found = _columns(table, names)
        found = found if found is not None else _columns(table, names[:3])
        if found is not None:
            kind = np.asarray(table[names[0]]).dtype
            parts = names[0] in whole or (len(found) > 0 and found.max() > 1.0)
            return with_alpha(found / (np.iinfo(kind).max if kind.kind in "iu" else 255.0) if parts else found)
    return None


def _texcoords(table: Table) -> tuple[Float32s, ...]:
    """One set, its v turned to point down."""
    for names in TEXCOORDS:
        found = _columns(table, names)
        if found is not None:
            return ((found * [1.0, -1.0] + [0.0, 1.0]).astype(np.float32),)
    return ()
