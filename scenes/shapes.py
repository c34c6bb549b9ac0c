"""Shapes for the scenes of this folder: triangles from a few numbers.

Corners are counter-clockwise seen from outside. What is round has normals, what is flat has none; what carries a picture has texture
coordinates, whose v grows downwards as in glTF. Nothing here knows a file format.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

UP = (0.0, 1.0, 0.0)

Floats = NDArray[np.float64]


@dataclass
class Shape:
    """Triangles: points float64[n, 3], faces int64[m, 3] counter-clockwise from outside, normals (None: flat); texcoords float64[n, 2] for
    each set, colours float64[n, 3 or 4], linear, or None."""

    points: Floats
    faces: NDArray[np.int64]
    normals: Floats | None = None
    texcoords: tuple[Floats, ...] = ()
    colours: Floats | None = None

    def moved(self, by: Sequence[float]) -> Shape:
        """The shape shifted."""
        return replace(self, points=self.points + np.asarray(by, float))

    def turned(self, axis: int, angle: float) -> Shape:
        """The shape turned about a coordinate axis, anticlockwise as one looks against it."""
        sine, cosine = math.sin(angle), math.cos(angle)
        turn = np.eye(3)
        first, second = (axis + 1) % 3, (axis + 2) % 3
        turn[first, first] = turn[second, second] = cosine
        turn[first, second], turn[second, first] = -sine, sine
        return replace(self, points=self.points @ turn.T, normals=None if self.normals is None else self.normals @ turn.T)

    def scaled(self, by: float) -> Shape:
        """The shape larger or smaller."""
        return replace(self, points=self.points * by)


def joined(shapes: Sequence[Shape]) -> Shape:
    """One flat shape of several."""
    starts = np.cumsum([0] + [len(shape.points) for shape in shapes[:-1]])
    faces = [shape.faces + start for shape, start in zip(shapes, starts)]
    return Shape(np.concatenate([shape.points for shape in shapes]), np.concatenate(faces))


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


# Shapes that carry pictures


def panel(corner: ArrayLike, first: ArrayLike, second: ArrayLike, repeat: tuple[float, float] = (1.0, 1.0)) -> Shape:
    """A parallelogram like `quad`, with its picture upright along the second edge, so often along each; smooth, so that it has tangents."""
    flat = quad(corner, first, second)
    normal = np.cross(np.asarray(first, float), np.asarray(second, float))
    across, down = repeat
    texcoords = np.array([[0, down], [across, down], [across, 0], [0, 0]], float)
    return replace(flat, normals=np.tile(normal / np.linalg.norm(normal), (4, 1)), texcoords=(texcoords,))


def surface(place: Callable[[Floats, Floats], Floats], rows: int, columns: int, repeat: tuple[float, float] = (1.0, 1.0)) -> Shape:
    """A smooth surface: `place` takes u and v within [0, 1] to points [..., 3]; its front is where d/du x d/dv points.

    rows and columns: of cells. A picture lies on it upright along v, so often along each. Cells without area (at a pole) have no face.
    """
    v, u = np.meshgrid(np.linspace(0, 1, rows + 1), np.linspace(0, 1, columns + 1), indexing="ij")
    points, step = place(u, v), 1e-4
    # A pole has no derivative along u, but the one just beside it points the same way.
    inside = np.clip(v, 2 * step, 1 - 2 * step)
    along = place(u + step, inside) - place(u - step, inside)
    up = place(u, inside + step) - place(u, inside - step)
    normals = np.cross(along, up).reshape(-1, 3)
    faces = grid_faces(rows + 1, columns + 1, False, False)
    corners = points.reshape(-1, 3)[faces]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    texcoords = np.stack([u * repeat[0], (1 - v) * repeat[1]], -1).reshape(-1, 2)
    unit = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    return Shape(points.reshape(-1, 3), faces[area > 1e-12], unit, (texcoords,))


def globe(rows: int = 24, columns: int = 48, repeat: tuple[float, float] = (1.0, 1.0)) -> Shape:
    """The unit sphere by latitude and longitude."""

    def place(u: Floats, v: Floats) -> Floats:
        turn, rise = 2 * math.pi * u, math.pi * (v - 0.5)
        return np.stack([np.cos(rise) * np.sin(turn), np.sin(rise), np.cos(rise) * np.cos(turn)], -1)

    return surface(place, rows, columns, repeat)


def turned(profile: Sequence[tuple[float, float]], rows: int, columns: int, repeat: tuple[float, float] = (1.0, 1.0)) -> Shape:
    """A surface of revolution about y, smooth along a curve through (radius, height) pairs, bottom up (Catmull and Rom's spline)."""
    pairs = np.array([profile[0], *profile, profile[-1]], float)

    def place(u: Floats, v: Floats) -> Floats:
        at = np.clip(v, 0, 1) * (len(profile) - 1)
        k = np.minimum(at.astype(int), len(profile) - 2)
        t = (at - k)[..., None]
        a, b, c, d = (pairs[k + i] for i in range(4))
        curve = b + t * ((c - a) / 2 + t * (a - 2.5 * b + 2 * c - d / 2 + t * (1.5 * (b - c) + (d - a) / 2)))
        radius, turn = np.maximum(curve[..., 0], 0.0), 2 * math.pi * u
        return np.stack([radius * np.sin(turn), curve[..., 1], radius * np.cos(turn)], -1)

    return surface(place, rows, columns, repeat)


def ring(radius: float, thickness: float, rows: int = 20, columns: int = 64) -> Shape:
    """A torus about y."""

    def place(u: Floats, v: Floats) -> Floats:
        turn, roll = 2 * math.pi * u, 2 * math.pi * v
        out = radius + thickness * np.cos(roll)
        return np.stack([out * np.sin(turn), thickness * np.sin(roll), out * np.cos(turn)], -1)

    return surface(place, rows, columns)


def tube(points: Floats, thickness: float, sides: int = 8, closed: bool = False) -> Shape:
    """A round tube along a line of points float64[n, 3], smooth; its ends are open."""
    count = len(points)
    along = (np.roll(points, -1, 0) - np.roll(points, 1, 0)) if closed else np.gradient(points, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    across = np.zeros_like(points)
    start = np.cross(along[0], UP if abs(along[0, 1]) < 0.9 else (1.0, 0.0, 0.0))
    for k in range(count):  # carried along, so that the tube does not twist
        start = start - along[k] * np.dot(start, along[k])
        start /= np.linalg.norm(start)
        across[k] = start
    other = np.cross(along, across)
    turn = np.arange(sides) * (2 * math.pi / sides)
    normals = across[:, None] * np.cos(turn)[:, None] + other[:, None] * np.sin(turn)[:, None]
    faces = grid_faces(count, sides, closed, True)
    return Shape((points[:, None] + thickness * normals).reshape(-1, 3), faces, normals.reshape(-1, 3))


def cut_gem(sides: int = 8) -> Shape:
    """A brilliant, flat facets, about y: girdle of radius 1, table above, point below."""
    step = 2 * math.pi / sides

    def circle(radius: float, height: float, shift: float) -> Floats:
        turn = (np.arange(sides) + shift) * step
        return np.stack([radius * np.sin(turn), np.full(sides, height), radius * np.cos(turn)], 1)

    table, star, girdle, low = circle(0.56, 0.36, 0.0), circle(0.82, 0.22, 0.5), circle(1.0, 0.03, 0.0), circle(1.0, -0.03, 0.0)
    middle, tip = circle(0.52, -0.50, 0.5), np.array([[0.0, -0.88, 0.0]])
    points = np.concatenate([table, star, girdle, low, middle, tip, [[0.0, 0.36, 0.0]]])
    faces = []
    for k in range(sides):
        a, b = k, (k + 1) % sides
        t, s, g, w, m, centre, top = 0, sides, 2 * sides, 3 * sides, 4 * sides, 5 * sides, 5 * sides + 1
        faces += [(top, t + a, t + b), (t + a, s + a, t + b), (t + a, s + (a - 1) % sides, g + a), (t + a, g + a, s + a)]
        faces += [(s + a, g + a, g + b), (g + a, w + a, w + b), (g + a, w + b, g + b)]
        faces += [(w + a, m + a, w + b), (w + b, m + a, m + (a + 1) % sides), (m + a, centre, m + (a + 1) % sides)]
    return Shape(points, np.array(faces))


def hull_of(outline: Sequence[tuple[float, float]], depth: float) -> Shape:
    """A straight prism: the convex outline (x, y), anticlockwise, drawn out along z, its middle at z = 0."""
    count = len(outline)
    front = [(x, y, depth / 2) for x, y in outline]
    back = [(x, y, -depth / 2) for x, y in outline]
    faces = [(0, k, k + 1) for k in range(1, count - 1)] + [(count, count + k + 1, count + k) for k in range(1, count - 1)]
    for k in range(count):
        following = (k + 1) % count
        faces += [(k, count + k, count + following), (k, count + following, following)]
    return Shape(np.array(front + back), np.array(faces))
