"""What the scenes of `features` have in common: a floor, lamps, and shapes stored in as few bytes as do.

A lamp is a rectangle that shines to one side; a studio a floor that bends up into the wall behind, so that no edge is to be seen.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gltf_document import Document, Rgb
from shapes import Shape, grid_faces, icosphere, quad

GENERATOR = "scenes/make_features.py"


def document() -> Document:
    """An empty scene, whose equal arrays are stored once."""
    return Document(generator=GENERATOR, shared=True)


def sphere(subdivisions: int = 4) -> Shape:
    """The unit sphere, smooth."""
    ball = icosphere(subdivisions)
    return Shape(ball.points, ball.faces, ball.points)


def studio(scene: Document, colour: Rgb, width: float = 16.0, near: float = 8.0, far: float = -5.0, high: float = 9.0) -> None:
    """A floor at height 0 that bends up into a wall."""
    bend, steps = 2.5, 12
    angle = np.linspace(0, math.pi / 2, steps + 1)
    line = [(near, 0.0), *((far + bend - bend * math.sin(a), bend - bend * math.cos(a)) for a in angle), (far, high)]
    points = np.array([[(-width / 2, y, z), (width / 2, y, z)] for z, y in line]).reshape(-1, 3)
    slopes = [(0.0, 1.0), *((math.sin(a), math.cos(a)) for a in angle), (1.0, 0.0)]
    normals = np.repeat(np.array([(0.0, y, z) for z, y in slopes]), 2, axis=0)
    scene.show("studio", Shape(points, grid_faces(len(line), 2, False, False)[:, ::-1], normals), scene.matt("studio", colour))


def lamp(scene: Document, name: str, middle: Rgb, towards: Rgb, size: tuple[float, float], radiance: Rgb) -> None:
    """A rectangle that shines to its front: width and height, upright where it can be."""
    front = np.subtract(towards, middle) / np.linalg.norm(np.subtract(towards, middle))
    up = np.array([0.0, 1.0, 0.0]) if abs(front[1]) < 0.99 else np.array([0.0, 0.0, -1.0])
    right = np.cross(up, front) / np.linalg.norm(np.cross(up, front))
    above = np.cross(front, right)
    corner = np.asarray(middle, float) - right * size[0] / 2 - above * size[1] / 2
    scene.show(name, quad(corner, right * size[0], above * size[1]), scene.matt(name, (0.8, 0.8, 0.8), radiance))


def rig(scene: Document, power: float = 1.0) -> None:
    """A large warm lamp from the left, a cool one from the right, one overhead."""
    lamp(scene, "key", (-5.5, 5.5, 4.5), (0, 0.8, 0), (3.6, 3.6), (9.0 * power, 8.2 * power, 7.2 * power))
    lamp(scene, "fill", (6.5, 3.5, 3.0), (0, 0.8, 0), (2.0, 4.0), (3.0 * power, 3.6 * power, 4.6 * power))
    lamp(scene, "top", (0, 7.5, -1.0), (0, 0, -1.0), (5.0, 2.0), (4.0 * power, 4.0 * power, 4.0 * power))


def stand(
    scene: Document,
    name: str,
    shape: Shape,
    material: int,
    at: Rgb,
    turn: float = 0.0,
    size: float = 1.0,
    storage: str = "quantized",
    **others: Any,
) -> None:
    """A shape in a place, `size` times as large; it is stored as large as the cube of side 2, whose coordinates fit in 16 bits each."""
    reach = float(np.abs(shape.points).max())
    mesh = scene.mesh(name, (shape.scaled(1 / reach), material), storage=storage, **others)
    scene.place(name, mesh, at, turn, reach * size)
