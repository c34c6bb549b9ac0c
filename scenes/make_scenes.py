"""Writes the scenes of this folder: `python scenes/make_scenes.py [FOLDER]` (needs NumPy only).

    cornell      the classic box: one lamp, two coloured walls, two blocks
    gallery      a colonnade with a daylight slit over the nave and coloured lamps hidden in the aisles
    study        knots and pebbles on plinths in a room with one tall window
    many_lights  a night garden lit by some hundreds of small lanterns

All are matt (Lambert: KHR_materials_specular with factor 0), all in metres, all one self-contained .gltf with its data
as base64.  Shapes that repeat are one mesh placed by many nodes.  Coordinates are rounded to a grid far coarser than
the last bit of a sine, so that every machine writes the same bytes, and a test can hold the files to this script.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

SPECULAR, STRENGTH = "KHR_materials_specular", "KHR_materials_emissive_strength"
POSITION_GRID, NORMAL_GRID = 2.0**14, 2.0**12
FLOAT, USHORT, UINT = 5126, 5123, 5125
UP = (0.0, 1.0, 0.0)

Floats = NDArray[np.float64]
Rgb = tuple[float, float, float]


@dataclass
class Shape:
    """Triangles: points float64[n, 3], faces int64[m, 3] counter-clockwise from outside, normals (None: flat)."""

    points: Floats
    faces: NDArray[np.int64]
    normals: Floats | None = None

    def moved(self, by: Sequence[float]) -> Shape:
        """The shape shifted."""
        return Shape(self.points + np.asarray(by, float), self.faces, self.normals)


def joined(shapes: Sequence[Shape]) -> Shape:
    """One flat shape of several."""
    starts = np.cumsum([0] + [len(shape.points) for shape in shapes[:-1]])
    faces = [shape.faces + start for shape, start in zip(shapes, starts)]
    return Shape(np.concatenate([shape.points for shape in shapes]), np.concatenate(faces))


@dataclass
class Document:
    """A glTF document being put together."""

    exact: bool = False  # coordinates as they are, not rounded to the grid
    blob: bytearray = field(default_factory=bytearray)
    parts: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {
            name: [] for name in ("nodes", "cameras", "meshes", "materials", "accessors", "bufferViews")
        }
    )

    def add(self, kind: str, element: dict[str, Any]) -> int:
        """Append to one of the arrays; returns the index."""
        self.parts[kind].append(element)
        return len(self.parts[kind]) - 1

    def matt(self, name: str, colour: Rgb, radiance: Rgb = (0.0, 0.0, 0.0)) -> int:
        """A Lambert material, a lamp if it has radiance."""
        material: dict[str, Any] = {
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

    def mesh(self, name: str, *parts: tuple[Shape, int]) -> int:
        """A mesh of (shape, material) parts."""
        return self.add("meshes", {"name": name, "primitives": [self._primitive(*part) for part in parts]})

    def place(
        self, name: str, mesh: int, at: Sequence[float] = (0, 0, 0), turn: float = 0.0, scale: float | Rgb = 1.0
    ) -> None:
        """A node for a mesh, turned about the vertical by `turn` radians."""
        node: dict[str, Any] = {"name": name, "mesh": mesh}
        if any(at):
            node["translation"] = [round(float(value), 6) for value in at]
        if turn:
            node["rotation"] = [0.0, round(math.sin(turn / 2), 9), 0.0, round(math.cos(turn / 2), 9)]
        if scale != 1.0:
            factors = scale if isinstance(scale, tuple) else (scale,) * 3
            node["scale"] = [round(float(value), 6) for value in factors]
        self.add("nodes", node)

    def show(self, name: str, shape: Shape, material: int) -> None:
        """A shape that stands where its coordinates say."""
        self.place(name, self.mesh(name, (shape, material)))

    def camera(self, eye: Sequence[float], target: Sequence[float], yfov: float) -> None:
        """The camera; `yfov` in degrees."""
        back = np.subtract(eye, target) / np.linalg.norm(np.subtract(eye, target))
        right = np.cross(UP, back) / np.linalg.norm(np.cross(UP, back))
        axes = (right, np.cross(back, right), back, np.asarray(eye, float))
        columns = [[*(round(float(value), 9) + 0.0 for value in axis), float(axis is axes[3])] for axis in axes]
        lens = {"yfov": round(math.radians(yfov), 9), "znear": 0.01, "zfar": 200.0}
        index = self.add("cameras", {"name": "camera", "type": "perspective", "perspective": lens})
        self.add(
            "nodes", {"name": "camera", "camera": index, "matrix": [value for column in columns for value in column]}
        )

    def text(self) -> str:
        """The finished file, one element a line."""
        lists = {name: elements for name, elements in self.parts.items() if elements}
        uri = "data:application/octet-stream;base64," + base64.b64encode(bytes(self.blob)).decode()
        lists["buffers"] = [{"byteLength": len(self.blob), "uri": uri}]
        lists["scenes"] = [{"nodes": list(range(len(self.parts["nodes"])))}]
        head = {
            "asset": {"version": "2.0", "generator": "scenes/make_scenes.py"},
            "extensionsUsed": [SPECULAR, STRENGTH],
            "scene": 0,
        }
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
        for key, elements in lists.items():
            rows = ",\n".join("  " + json.dumps(element, separators=(", ", ": ")) for element in elements)
            lines.append(f'"{key}": [\n{rows}\n]')
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def _primitive(self, shape: Shape, material: int) -> dict[str, Any]:
        points = shape.points if self.exact else np.round(shape.points * POSITION_GRID) / POSITION_GRID
        attributes = {"POSITION": self._accessor(points.astype("<f4") + np.float32(0), "VEC3", FLOAT, 34962)}
        if shape.normals is not None:
            normals = np.round(shape.normals * NORMAL_GRID) / NORMAL_GRID
            attributes["NORMAL"] = self._accessor(normals.astype("<f4") + np.float32(0), "VEC3", FLOAT, 34962)
        kind, code = ("<u2", USHORT) if len(points) < 65535 else ("<u4", UINT)
        indices = self._accessor(shape.faces.reshape(-1, 1).astype(kind), "SCALAR", code, 34963)
        return {"attributes": attributes, "indices": indices, "material": material}

    def _accessor(self, array: NDArray[Any], kind: str, component: int, target: int) -> int:
        view = {"buffer": 0, "byteOffset": len(self.blob), "byteLength": array.nbytes, "target": target}
        self.blob += array.tobytes() + bytes(-array.nbytes % 4)
        accessor = {
            "bufferView": self.add("bufferViews", view),
            "componentType": component,
            "count": len(array),
            "type": kind,
        }
        if target == 34962:
            accessor |= {"min": array.min(0).tolist(), "max": array.max(0).tolist()}
        return self.add("accessors", accessor)


# Shapes


def quad(corner: ArrayLike, first: ArrayLike, second: ArrayLike) -> Shape:
    """The parallelogram on two edges; its front is where first x second points."""
    a, u, v = (np.asarray(value, float) for value in (corner, first, second))
    return Shape(np.stack([a, a + u, a + u + v, a + v]), np.array([[0, 1, 2], [0, 2, 3]]))


def block(low: Sequence[float], high: Sequence[float]) -> Shape:
    """An axis-aligned box."""
    corners = np.array([[x, y, z] for z in (0, 1) for y in (0, 1) for x in (0, 1)])
    sides = [(0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5)]
    faces = [face for a, b, c, d in sides for face in ((a, b, c), (a, c, d))]
    return Shape(np.where(corners, high, low).astype(float), np.array(faces))


def grid_faces(rows: int, columns: int, closed_rows: bool, closed_columns: bool) -> NDArray[np.int64]:
    """Two triangles for each cell of a grid of points, row by row; closed directions wrap round."""
    row, column = np.meshgrid(
        np.arange(rows - (not closed_rows)), np.arange(columns - (not closed_columns)), indexing="ij"
    )
    below, beside = (row + 1) % rows, (column + 1) % columns
    a, b, c, d = row * columns + column, row * columns + beside, below * columns + beside, below * columns + column
    return np.concatenate([np.stack([a, b, c], -1).reshape(-1, 3), np.stack([a, c, d], -1).reshape(-1, 3)])


def smooth(points: Floats, faces: NDArray[np.int64]) -> Shape:
    """A shape with vertex normals, weighted by area."""
    corners = points[faces]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    total = np.zeros_like(points)
    for corner in range(3):
        np.add.at(total, faces[:, corner], normal)
    return Shape(points, faces, total / np.linalg.norm(total, axis=1, keepdims=True))


def lathe(profile: Sequence[tuple[float, float]], sides: int) -> Shape:
    """A surface of revolution about y of (radius, height) pairs, bottom up: smooth around, sharp at its rings."""
    rings = [pair for start, end in itertools.pairwise(profile) for pair in (start, end)]
    turn = np.arange(sides) * (2 * math.pi / sides)
    points = np.array([[r * np.sin(turn), np.full(sides, y), r * np.cos(turn)] for r, y in rings]).transpose(0, 2, 1)
    faces = np.concatenate([grid_faces(2, sides, False, True) + 2 * sides * k for k in range(len(profile) - 1)])
    return smooth(points.reshape(-1, 3), faces[:, [0, 1, 2]])


def icosphere(subdivisions: int) -> Shape:
    """The unit sphere: an icosahedron, each face split in four again and again."""
    golden = (1 + math.sqrt(5)) / 2
    corners = [(0.0, s, t * golden) for s in (-1, 1) for t in (-1, 1)]
    points = [np.roll(corner, shift) / math.hypot(1, golden) for shift in range(3) for corner in corners]
    near = [
        (a, b, c)
        for a in range(12)
        for b in range(a)
        for c in range(b)
        if max(np.linalg.norm(points[i] - points[j]) for i, j in ((a, b), (b, c), (c, a))) < 1.2
    ]
    faces = [f if np.dot(np.cross(points[f[0]], points[f[1]]), points[f[2]]) > 0 else f[::-1] for f in near]
    for _ in range(subdivisions):
        middles: dict[tuple[int, int], int] = {}
        split = []
        for face in faces:
            between = []
            for a, b in zip(face, face[1:] + face[:1]):
                key = (min(a, b), max(a, b))
                if key not in middles:
                    middles[key] = len(points)
                    points.append((points[a] + points[b]) / np.linalg.norm(points[a] + points[b]))
                between.append(middles[key])
            a, b, c = face
            ab, bc, ca = between
            split += [(a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca)]
        faces = split
    return Shape(np.array(points), np.array(faces))


def pebble(seed: int, depth: float, waves: int, subdivisions: int = 4) -> Shape:
    """A sphere of about unit radius, displaced by a few plane waves."""
    random = np.random.default_rng(seed)
    sphere = icosphere(subdivisions)
    pitch, phase = random.normal(size=(waves, 3)) * 2.6, random.uniform(0, 2 * math.pi, waves)
    height = np.sin((sphere.points[:, None, :] * pitch).sum(2) + phase).sum(1) / math.sqrt(waves)
    return smooth(sphere.points * (1 + depth * height)[:, None], sphere.faces)


def urchin(lobes: int, depth: float, subdivisions: int = 5) -> Shape:
    """A sphere with lobes in a golden spiral: every bump sits where a sunflower has a seed."""
    sphere = icosphere(subdivisions)
    rank = np.arange(lobes) + 0.5
    turn, y = rank * math.pi * (3 - math.sqrt(5)), 1 - 2 * rank / lobes
    centres = np.stack([np.sqrt(1 - y * y) * np.cos(turn), y, np.sqrt(1 - y * y) * np.sin(turn)], 1)
    nearest = (sphere.points[:, None, :] * centres).sum(2).max(1)
    spacing = 4 / lobes  # of 1 - cos, to where neighbouring bumps meet
    bump = np.sqrt(np.clip(1 - (1 - nearest) / spacing * 1.6, 0, None))
    return smooth(sphere.points * (1 + depth * bump)[:, None], sphere.faces)


def knot(winds: int, turns: int, thickness: float, length: int, sides: int) -> Shape:
    """A tube along the (winds, turns) torus knot about the z axis, outer radius about 1, smooth."""

    def path(angle: Floats) -> Floats:
        radius = 1 + 0.42 * np.cos(turns * angle)
        return np.stack(
            [radius * np.cos(winds * angle), radius * np.sin(winds * angle), 0.42 * np.sin(turns * angle)], 1
        )

    angle = np.linspace(0, 2 * math.pi, length, endpoint=False)
    centre = path(angle)
    along = path(angle + 1e-3) - path(angle - 1e-3)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    outward = centre - np.stack([np.cos(winds * angle), np.sin(winds * angle), 0 * angle], 1)
    outward -= along * (outward * along).sum(1, keepdims=True)
    outward /= np.linalg.norm(outward, axis=1, keepdims=True)
    across = np.cross(along, outward)
    round_ = np.arange(sides) * (2 * math.pi / sides)
    ring = outward[:, None] * np.cos(round_)[:, None] + across[:, None] * np.sin(round_)[:, None]
    points = (centre[:, None] + thickness * ring) / (1.42 + thickness)
    return Shape(points.reshape(-1, 3), grid_faces(length, sides, True, True), ring.reshape(-1, 3))


def arch(width: float, spring: float, top: float, radius: float, depth: float, steps: int = 24) -> Shape:
    """A wall panel in the plane of z and y, centred, `depth` thick along x, with a round-headed opening below."""
    angle = np.linspace(0, math.pi, steps + 1)
    z, y = -radius * np.cos(angle), spring + radius * np.sin(angle)
    sides = [(-width / 2, -radius), (radius, width / 2)]
    panels = []
    for side in (-1, 1):
        x = side * depth / 2
        cells = [((a, c), (b, d)) for a, b, c, d in zip(z, z[1:], y, y[1:])]
        cells += [((a, spring), (b, spring)) for a, b in sides]
        for (a, c), (b, d) in cells:
            points = np.array([[x, c, a], [x, d, b], [x, top, b], [x, top, a]])
            panels.append(Shape(points, np.array([[0, 2, 1], [0, 3, 2]])[:, ::side]))
    soffit = np.array([[[-depth / 2, b, a], [depth / 2, b, a]] for a, b in zip(z, y)]).reshape(-1, 3)
    panels.append(Shape(soffit, grid_faces(steps + 1, 2, False, False)))
    panels += [quad([-depth / 2, spring, a], [depth, 0, 0], [0, 0, b - a]) for a, b in sides]
    return joined(panels)


def room(low: Sequence[float], high: Sequence[float]) -> dict[str, Shape]:
    """The six inner sides of a box, seen from inside."""
    box = block(low, high)
    names = ("back", "front", "floor", "ceiling", "left", "right")
    return {name: Shape(box.points, box.faces[2 * k : 2 * k + 2, ::-1]) for k, name in enumerate(names)}


# Scenes


def cornell() -> Document:
    """The box of Cornell's graphics group, in the measures and colours that renderers are commonly compared with."""
    scene = Document(exact=True)
    white, red, green = (0.885809, 0.698859, 0.666422), (0.570068, 0.0430135, 0.0443706), (0.105421, 0.37798, 0.076425)
    walls: dict[str, tuple[tuple[Sequence[float], Sequence[float], Sequence[float]], Rgb]] = {
        "floor": (((-1, -1, 1), (2, 0, 0), (0, 0, -2)), white),
        "ceiling": (((-1, 1, -1), (2, 0, 0), (0, 0, 2)), white),
        "back": (((-1, -1, -1), (2, 0, 0), (0, 2, 0)), white),
        "red-wall": (((-1, -1, 1), (0, 0, -2), (0, 2, 0)), red),
        "green-wall": (((1, -1, -1), (0, 0, 2), (0, 2, 0)), green),
    }
    for name, (edges, colour) in walls.items():
        scene.show(name, quad(*edges), scene.matt(name, colour))
    # Half width along the front, half depth turned away, half height, centre.
    blocks = {
        "small-box": ((0.286891, 0.0877115), 0.3, (0.335, -0.7, 0.38)),
        "large-box": ((0.28491, -0.0939491), 0.61, (-0.33, -0.4, -0.28)),
    }
    for name, ((along, away), tall, centre) in blocks.items():
        box = block((-1, -1, -1), (1, 1, 1))
        x, y, z = box.points.T
        points = np.stack([along * x - away * z, tall * y, away * x + along * z], 1) + centre
        scene.show(name, Shape(points, box.faces), scene.matt(name, white))
    lamp = scene.matt("light", white, (18.387, 13.9873, 6.75357))
    scene.show("light", quad((-0.23, 0.99, -0.18), (0.46, 0, 0), (0, 0, 0.38)), lamp)
    scene.camera((0, 0, 3.9), (0, 0, 0), 39.3077)
    return scene


def gallery() -> Document:
    """Daylight through a slit in the nave's ceiling; amber lamps in the left aisle, blue ones in the right."""
    scene = Document()
    stone = scene.matt("stone", (0.74, 0.70, 0.64))
    pale, dark = scene.matt("pale tile", (0.60, 0.57, 0.53)), scene.matt("dark tile", (0.17, 0.18, 0.20))
    bronze, chalk = scene.matt("bronze", (0.70, 0.36, 0.11)), scene.matt("chalk", (0.82, 0.80, 0.76))
    day = scene.matt("daylight", (0.8, 0.8, 0.8), (2.6, 2.9, 3.2))
    amber = scene.matt("amber lamp", (0.8, 0.8, 0.8), (30.0, 11.0, 2.0))
    blue = scene.matt("blue lamp", (0.8, 0.8, 0.8), (2.4, 11.0, 26.0))
    front, back, half, nave, slit, low, high = 3.0, -25.0, 6.2, 3.0, 0.7, 5.6, 7.4
    deep, bay, bays = front - back, 4.0, 7

    tiles: tuple[list[Shape], list[Shape]] = ([], [])
    width, length = 2 * half / 14, deep / 32
    for i in range(14):
        for k in range(32):
            corner = (-half + i * width, 0, front - k * length)
            tiles[(i + k) % 2].append(quad(corner, (width, 0, 0), (0, 0, -length)))
    scene.place("floor", scene.mesh("floor", (joined(tiles[0]), pale), (joined(tiles[1]), dark)))

    walls = room((-half, 0, back), (half, low, front))
    shell = [walls["left"], walls["right"]]
    shell += [
        quad((-half, 0, back), (2 * half, 0, 0), (0, high, 0)),
        quad((half, 0, front), (-2 * half, 0, 0), (0, high, 0)),
    ]
    shell += [quad((x, low, back), (half - nave, 0, 0), (0, 0, deep)) for x in (-half, nave)]
    shell += [quad((x, high, back), (nave - slit, 0, 0), (0, 0, deep)) for x in (-nave, slit)]
    shell += [
        quad((-slit, high, front), (0, 0, -deep), (0, 0.6, 0)),
        quad((slit, high, back), (0, 0, deep), (0, 0.6, 0)),
    ]
    scene.show("shell", joined(shell), stone)
    scene.show("skylight", quad((-slit, high + 0.6, back), (2 * slit, 0, 0), (0, 0, deep)), day)

    profile = [(0.46, 0.24), (0.46, 0.32), (0.40, 0.40), (0.43, 0.46), (0.34, 0.54), (0.335, 1.6), (0.29, 3.1)]
    profile += [(0.34, 3.14), (0.30, 3.2), (0.46, 3.42)]
    ends = joined([block((-0.5, 0, -0.5), (0.5, 0.24, 0.5)), block((-0.5, 3.42, -0.5), (0.5, 3.6, 0.5))])
    column = scene.mesh("column", (lathe(profile, 40), chalk), (ends, stone))
    span = scene.mesh("arch", (arch(bay, 3.6, high, 1.55, 0.7), stone))
    for k in range(bays):
        for side, name in ((-1, "left"), (1, "right")):
            middle = front - bay * (k + 0.5)
            scene.place(f"{name} arch {k}", span, (side * nave, 0, middle))
            if k < bays - 1:
                scene.place(f"{name} column {k}", column, (side * nave, 0, middle - bay / 2))

    # Each lamp hangs high on the outer wall, behind a pier's width of it, and lights the aisle's ceiling and floor.
    for side, name, glow in ((-1, "amber", amber), (1, "blue", blue)):
        lamp = quad((-0.12, 0, -0.9), (0.24, 0, 0), (0, 0, 1.8))
        shade = block((-0.16, 0.01, -0.95), (0.16, 0.08, 0.95))
        hanging = scene.mesh(f"{name} lamp", (lamp, glow), (shade, dark))
        for k in range(bays):
            scene.place(f"{name} lamp {k}", hanging, (side * (half - 0.9), 4.6, front - bay * (k + 0.5)))

    scene.show(
        "plinth",
        joined([block((-0.9, 0, -9.9), (0.9, 0.2, -8.1)), block((-0.7, 0.2, -9.7), (0.7, 1.1, -8.3))]),
        chalk,
    )
    scene.place("knot", scene.mesh("knot", (knot(2, 3, 0.24, 240, 28), bronze)), (0, 2.38, -9.0), 0.5, 1.25)
    ball = scene.mesh("ball", (pebble(3, 0.0, 1, 4), chalk))
    for k, (x, z, size) in enumerate(((1.75, -4.9, 0.34), (1.1, -4.4, 0.2), (2.2, -4.2, 0.16))):
        scene.place(f"ball {k}", ball, (x, size, z), 0.0, size)
    scene.camera((-0.95, 1.6, 1.6), (0.3, 2.6, -9.0), 54.0)
    return scene


def study() -> Document:
    """A still life by a tall window: what diffuse light does to round things."""
    scene = Document()
    wall, floor, oak = (
        scene.matt("plaster", (0.76, 0.73, 0.68)),
        scene.matt("floor", (0.34, 0.24, 0.17)),
        scene.matt("plinth", (0.70, 0.68, 0.65)),
    )
    colours = {
        "terracotta": (0.62, 0.22, 0.11),
        "ochre": (0.72, 0.46, 0.12),
        "sage": (0.32, 0.44, 0.28),
        "slate": (0.16, 0.25, 0.38),
        "chalk": (0.84, 0.82, 0.78),
        "plum": (0.36, 0.13, 0.22),
    }
    paint = {name: scene.matt(name, colour) for name, colour in colours.items()}
    sky = scene.matt("window", (0.8, 0.8, 0.8), (4.6, 5.0, 5.6))
    glow = scene.matt("lamp", (0.8, 0.8, 0.8), (30.0, 14.0, 4.5))

    sides = room((-3.2, 0, -3.0), (3.2, 3.4, 6.5))
    for name, side in sides.items():
        if name not in ("floor", "right"):
            scene.show(name, side, wall)
    scene.show("right", sides["right"], paint["terracotta"])
    boards = [block((-3.2 + 0.4 * k + 0.006, -0.02, -3.0), (-3.2 + 0.4 * (k + 1) - 0.006, 0.0, 6.5)) for k in range(16)]
    scene.place(
        "floor", scene.mesh("floor", (joined(boards), floor), (sides["floor"].moved((0, -0.01, 0)), paint["slate"]))
    )
    for k in range(3):
        start = -1.5 + 1.15 * k
        scene.show(f"window {k}", quad((-3.18, 0.7, start), (0, 2.2, 0), (0, 0, 1.0)), sky)
    frame = [block((-3.2, 0.6, -1.64 + 1.15 * k), (-3.02, 3.0, -1.5 + 1.15 * k)) for k in range(4)]
    frame += [block((-3.2, y, -1.64), (-3.0, y + 0.1, 1.95)) for y in (0.6, 1.75, 2.9)]
    scene.show("window frame", joined(frame), paint["chalk"])

    steps = {"low": ((-1.9, 1.0), 0.45, 0.5), "mid": ((-0.55, -0.1), 0.85, 0.55), "tall": ((0.85, -1.0), 1.25, 0.5)}
    for name, ((x, z), tall, wide) in steps.items():
        scene.show(f"plinth {name}", block((x - wide, 0, z - wide), (x + wide, tall, z + wide)), oak)
    scene.show("plinth right", block((1.5, 0, 0.25), (2.5, 0.6, 1.25)), oak)

    trefoil = scene.mesh("trefoil", (knot(2, 3, 0.22, 200, 24), paint["ochre"]))
    cinquefoil = scene.mesh("cinquefoil", (knot(2, 5, 0.15, 256, 18), paint["chalk"]))
    scene.place("trefoil", trefoil, (-0.55, 1.38, -0.1), 0.6, 0.53)
    scene.place("cinquefoil", cinquefoil, (0.85, 1.8, -1.0), -0.45, 0.56)
    scene.place("urchin", scene.mesh("urchin", (urchin(90, 0.13, 5), paint["slate"])), (-1.9, 0.87, 1.0), 0.2, 0.39)
    stone = scene.mesh("stone", (pebble(7, 0.10, 6, 4), paint["plum"]))
    scene.place("stone", stone, (2.0, 0.92, 0.75), 1.2, 0.34)
    lamp = scene.mesh("lamp", (icosphere(2), glow))
    scene.place("lamp", lamp, (2.45, 0.16, -0.7), 0.0, 0.16)

    random = np.random.default_rng(11)
    kinds = [
        scene.mesh(f"pebble {name}", (pebble(20 + k, 0.07, 5, 3), paint[name]))
        for k, name in enumerate(("sage", "chalk", "terracotta", "ochre"))
    ]
    spots: list[tuple[float, float, float]] = []
    while len(spots) < 46:
        x, z, size = random.uniform(-1.6, 2.2), random.uniform(0.6, 2.2), random.uniform(0.05, 0.15)
        clear = abs(x - 2.0) > 0.5 + size or z > 1.25 + size
        clear = clear and (x > -1.4 + size or z > 1.5 + size)
        if clear and all(math.hypot(x - a, z - b) > 1.12 * (size + c) for a, b, c in spots):
            spots.append((x, z, size))
    for k, (x, z, size) in enumerate(spots):
        turn = random.uniform(0, 2 * math.pi)
        scene.place(f"pebble {k}", kinds[k % len(kinds)], (x, 0.72 * size, z), turn, (size, 0.72 * size, size))
    scene.camera((0.7, 1.62, 5.4), (0.06, 1.0, -0.2), 37.0)
    return scene


def many_lights() -> Document:
    """A walled garden at night: small lamps in a sunflower's spiral about a tower, and up its stair."""
    scene = Document()
    ground, stone = scene.matt("ground", (0.42, 0.40, 0.38)), scene.matt("stone", (0.55, 0.52, 0.48))
    tower, step = scene.matt("tower", (0.74, 0.70, 0.66)), scene.matt("step", (0.60, 0.58, 0.56))
    glows = [(17.0, 4.2, 0.5), (15.0, 6.5, 1.2), (13.0, 3.0, 3.6), (8.0, 2.2, 9.0), (2.2, 5.0, 15.0)]
    bulbs = [
        scene.mesh(f"lantern {k}", (icosphere(1), scene.matt(f"glow {k}", (0.8, 0.8, 0.8), radiance)))
        for k, radiance in enumerate(glows)
    ]
    scene.show("ground", quad((-40, 0, 40), (80, 0, 0), (0, 0, -80)), ground)

    body = [(1.30, 0.0), (1.30, 0.3), (1.05, 0.45), (0.95, 2.5), (0.82, 4.5), (0.66, 6.5), (0.62, 7.0), (0.9, 7.25)]
    body += [(0.9, 7.5), (0.0005, 8.6)]
    scene.show("tower", lathe(body, 72), tower)
    scene.show("wall", lathe([(15.0, 5.2), (15.0, 0.0)], 96), stone)
    tread = scene.mesh("tread", (block((0.0, -0.08, -0.16), (1.25, 0.0, 0.16)), step))
    count = 132
    for k in range(count):
        part = k / count
        turn, height, inner = 0.155 * k, 0.35 + 6.5 * part, 0.92 - 0.35 * part
        x, z = math.cos(turn), -math.sin(turn)
        scene.place(f"tread {k}", tread, (inner * x, height, inner * z), turn)
        if k % 2 == 0:
            place = ((inner + 1.12) * x, height + 0.1, (inner + 1.12) * z)
            scene.place(f"stair lantern {k}", bulbs[min(int(part * 5), 4)], place, 0.0, 0.075)
    scene.place("crown", bulbs[2], (0, 8.75, 0), 0.0, 0.2)

    random = np.random.default_rng(5)
    pillar = scene.mesh("pillar", (block((-0.5, 0, -0.5), (0.5, 1, 0.5)), stone))
    for k in range(60):
        turn = 2 * math.pi * k / 60
        scene.place(f"merlon {k}", pillar, (15.3 * math.cos(turn), 5.2, -15.3 * math.sin(turn)), turn, (0.8, 0.7, 0.8))
    golden = math.pi * (3 - math.sqrt(5))
    for k in range(14, 330):
        radius, turn = 0.62 * math.sqrt(k), golden * k
        x, z = radius * math.cos(turn), -radius * math.sin(turn)
        tall = random.uniform(0.12, 0.5) + 0.02 * radius
        if k % 4 == 0:
            size = random.uniform(0.16, 0.3)
            scene.place(f"pillar {k}", pillar, (x, 0, z), turn, (size, tall + random.uniform(0.1, 0.9), size))
        else:
            post = 0.11
            scene.place(f"post {k}", pillar, (x, 0, z), turn, (post, tall, post))
            scene.place(f"lantern {k}", bulbs[min(int(radius / 2.4), 4)], (x, tall + 0.1, z), 0.0, 0.1)
    scene.camera((0.0, 4.4, 13.4), (0.0, 3.75, 0.0), 48.0)
    return scene


SCENES: dict[str, Callable[[], Document]] = {
    "cornell": cornell,
    "gallery": gallery,
    "study": study,
    "many_lights": many_lights,
}


def main(folder: Path) -> None:
    """Write every scene into the folder."""
    for name, build in SCENES.items():
        path = folder / f"{name}.gltf"
        path.write_text(build().text(), encoding="utf-8", newline="\n")
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
