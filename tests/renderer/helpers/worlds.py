"""Small worlds made in code: meshes as float32[n, 3, 3] (triangle, corner, xyz, counter-clockwise from the front), and scenes of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renderer.scene.model import Camera, Geometry, Instance, Material, Mesh, Orthographic, Perspective, Scene

Triangles = NDArray[np.float32]


def quad(corner: ArrayLike, first: ArrayLike, second: ArrayLike) -> Triangles:
    """A parallelogram of two triangles; its front is where first x second points."""
    o, a, b = (np.asarray(v, np.float64) for v in (corner, first, second))
    return np.array([[o, o + a, o + a + b], [o, o + a + b, o + b]], np.float32)


def icosphere(subdivisions: int, radius: float = 1.0, centre: ArrayLike = (0, 0, 0), inward: bool = False) -> Triangles:
    """A closed sphere of 20 * 4^subdivisions triangles whose neighbours share vertices bit by bit."""
    g = (1 + 5**0.5) / 2
    points = [np.roll([0.0, s, t * g], k) for k in range(3) for s in (-1, 1) for t in (-1, 1)]
    vertices = [p / np.linalg.norm(p) for p in points]
    edge = min(np.linalg.norm(vertices[0] - v) for v in vertices[1:]) * 1.01
    faces = []
    for i in range(12):
        for j in range(i):
            for k in range(j):
                a, b, c = vertices[i], vertices[j], vertices[k]
                if max(np.linalg.norm(a - b), np.linalg.norm(b - c), np.linalg.norm(c - a)) < edge:
                    out = np.dot(np.cross(b - a, c - a), a) > 0
                    faces.append((i, j, k) if out else (i, k, j))
    assert len(faces) == 20
    for _ in range(subdivisions):
        middle: dict[tuple[int, int], int] = {}

        def between(a: int, b: int, middle: dict[tuple[int, int], int] = middle) -> int:
            key = (min(a, b), max(a, b))
            if key not in middle:
                p = vertices[a] + vertices[b]
                middle[key] = len(vertices)
                vertices.append(p / np.linalg.norm(p))
            return middle[key]

        finer = []
        for a, b, c in faces:
            ab, bc, ca = between(a, b), between(b, c), between(c, a)
            finer += [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        faces = finer
    mesh = (np.array(vertices) * radius + np.asarray(centre)).astype(np.float32)[np.array(faces)]
    return mesh[:, ::-1].copy() if inward else mesh


def cube_grid(n: int, half: float = 1.0) -> Triangles:
    """A closed cube of 12 n^2 triangles, its faces outward, whose sides are grids of n x n squares that share vertices bit by bit."""
    ticks = (np.linspace(-1, 1, n + 1) * half).astype(np.float32)
    low, high = ticks[:-1], ticks[1:]
    u0, v0 = (a.ravel() for a in np.meshgrid(low, low))
    u1, v1 = (a.ravel() for a in np.meshgrid(high, high))
    sides = []
    for axis in range(3):
        for side in (-1, 1):

            def at(u: Triangles, v: Triangles, axis: int = axis, side: int = side) -> Triangles:
                p = np.empty((len(u), 3), np.float32)
                p[:, axis], p[:, (axis + 1) % 3], p[:, (axis + 2) % 3] = side * ticks[-1], u, v
                return p

            a, b, c, d = at(u0, v0), at(u1, v0), at(u1, v1), at(u0, v1)
            both = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
            sides.append(both if side > 0 else both[:, ::-1])
    return np.concatenate(sides)


def soup(count: int, seed: int, size: float = 0.1) -> Triangles:
    """Random triangles about the cube [-1, 1]^3."""
    random = np.random.default_rng(seed)
    return (random.uniform(-1, 1, (count, 1, 3)) + random.normal(0, size, (count, 3, 3))).astype(np.float32)


def look_at(eye: ArrayLike, target: ArrayLike, projection: Perspective | Orthographic | float = 0.8) -> Camera:
    """A camera at `eye`; a number is a vertical field of view in radians."""
    e = np.asarray(eye, np.float64)
    back = e - np.asarray(target, np.float64)
    back /= np.linalg.norm(back)
    right = np.cross([0.0, 1.0, 0.0] if abs(back[1]) < 0.99 else [0.0, 0.0, 1.0], back)
    right /= np.linalg.norm(right)
    world = np.eye(4)
    world[:3, 0], world[:3, 1], world[:3, 2], world[:3, 3] = right, np.cross(back, right), back, e
    return Camera("test", projection if not isinstance(projection, float) else Perspective(projection), world)


def grey(albedo: float | Sequence[float], emission: float | Sequence[float] = 0.0, double_sided: bool = False) -> Material:
    """A Lambert material."""
    base = np.broadcast_to(np.asarray(albedo, float), 3)
    glow = np.broadcast_to(np.asarray(emission, float), 3)
    return Material(
        base_color_factor=(*map(float, base), 1.0),
        emissive=tuple(map(float, glow)),
        double_sided=double_sided,
        metallic=0.0,
        specular_factor=0.0,
    )


def scene_of(*parts: tuple[Triangles, Material], camera: Camera | None = None) -> Scene:
    """A scene of meshes, each with its material."""
    geometries = [
        Geometry(np.ascontiguousarray(t.reshape(-1, 3)), np.arange(3 * len(t), dtype=np.uint32).reshape(-1, 3), None, k)
        for k, (t, _) in enumerate(parts)
    ]
    return Scene(
        Path("made in code"),
        [camera] if camera is not None else [],
        [material for _, material in parts],
        [Mesh("all", geometries)],
        [Instance(0, np.eye(4), "all", 0)],
    )


def transformed(scene: Scene, scale: float = 1.0, shift: ArrayLike = (0, 0, 0)) -> Scene:
    """The scene with its cameras, scaled about the origin and then moved."""
    matrix = np.eye(4)
    matrix[:3, :3] *= scale
    matrix[:3, 3] = shift
    cameras = []
    for camera in scene.cameras:
        world = camera.world.copy()
        world[:3, 3] = scale * world[:3, 3] + np.asarray(shift, float)
        cameras.append(Camera(camera.name, camera.projection, world))
    instances = [Instance(i.mesh, matrix @ i.world, i.name, i.node) for i in scene.instances]
    return Scene(scene.path, cameras, scene.materials, scene.meshes, instances)


def solid_angle_of_cap(radius: float, distance: float) -> float:
    """Solid angle of a sphere seen from outside."""
    return 2 * math.pi * (1 - math.sqrt(1 - (radius / distance) ** 2))
