"""A path tracer in NumPy, of a page and a half, that shares nothing with the renderer: an independent check of its pictures.

Everything is done the plain way: every ray is tried against every triangle (Moeller and Trumbore, 1997) in float64; lights are chosen
by area, not by power; light sampling and scattering are not combined by multiple importance sampling: light is gathered by sampling
lights alone, and emission counts only where the camera sees it; there is no roulette.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renderer.scene.gltf import load
from renderer.scene.model import Perspective, Scene

Floats = NDArray[np.float64]


class World(NamedTuple):
    """Triangles: vertices [n, 3, 3], unit normals, albedo and emission [n, 3], whether they shine from behind too."""

    vertices: Floats
    normal: Floats
    albedo: Floats
    emission: Floats
    two_sided: NDArray[np.bool_]
    area: Floats


def world_of(scene: Scene) -> World:
    """The world of a scene."""
    soup = scene.triangles()
    v = soup.positions.astype(np.float64)
    cross = np.cross(v[:, 1] - v[:, 0], v[:, 2] - v[:, 0])
    length = np.linalg.norm(cross, axis=1)
    materials = [scene.materials[m] for m in soup.material]
    return World(
        v,
        cross / length[:, None],
        np.array([m.base_color_factor[:3] for m in materials]),
        np.array([m.emissive for m in materials], np.float64),
        np.array([m.double_sided for m in materials]),
        length / 2,
    )


def intersect(world: World, origin: Floats, direction: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """Distance (infinite for none) and triangle of the nearest hit of each ray."""
    v0, e1, e2 = world.vertices[:, 0], world.vertices[:, 1] - world.vertices[:, 0], world.vertices[:, 2] - world.vertices[:, 0]
    across = np.cross(direction[:, None], e2[None])
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = 1 / (across * e1).sum(-1)
        offset = origin[:, None] - v0[None]
        u = (offset * across).sum(-1) * inverse
        q = np.cross(offset, e1[None])
        v = (direction[:, None] * q).sum(-1) * inverse
        t = (q * e2).sum(-1) * inverse
        t = np.where((u >= 0) & (v >= 0) & (u + v <= 1) & (t > 1e-7), t, np.inf)
    nearest = t.argmin(1)
    return t[np.arange(len(t)), nearest], nearest


def camera_rays(scene: Scene, width: int, height: int, random: np.random.Generator) -> tuple[Floats, Floats]:
    """One ray through a random point of each pixel, row by row."""
    camera = scene.cameras[0]
    assert isinstance(camera.projection, Perspective)
    row, column = np.divmod(np.arange(width * height), width)
    half = np.tan(camera.projection.yfov / 2)
    x = ((column + random.random(len(column))) / width * 2 - 1) * half * width / height
    y = (1 - (row + random.random(len(row))) / height * 2) * half
    direction = np.stack([x, y, -np.ones_like(x)], 1) @ camera.world[:3, :3].T
    return np.broadcast_to(camera.world[:3, 3], direction.shape).copy(), direction / np.linalg.norm(direction, axis=1, keepdims=True)


def trace(world: World, origin: Floats, direction: Floats, depth: int, random: np.random.Generator) -> Floats:
    """Radiance [n, 3] along rays, of paths with up to `depth` segments."""
    count = len(origin)
    radiance, throughput = np.zeros((count, 3)), np.ones((count, 3))
    lane = np.arange(count)
    shining = np.flatnonzero(world.emission.any(1))
    total = world.area[shining].sum()
    for segment in range(1, depth + 1):
        t, hit = intersect(world, origin, direction)
        found = np.isfinite(t)
        lane, origin, direction, t, hit = lane[found], origin[found], direction[found], t[found], hit[found]
        if not len(lane):
            break
        front = (world.normal[hit] * direction).sum(1) < 0
        if segment == 1:
            radiance[lane] += world.emission[hit] * (front | world.two_sided[hit])[:, None]
        if segment == depth:
            break
        normal = np.where(front[:, None], world.normal[hit], -world.normal[hit])
        point = origin + t[:, None] * direction + 1e-9 * normal
        albedo = world.albedo[hit]
        if len(shining):
            light = random.choice(shining, len(lane), p=world.area[shining] / total)
            weights = random.dirichlet([1, 1, 1], len(lane))
            away = (weights[:, :, None] * world.vertices[light]).sum(1) - point
            squared = (away**2).sum(1)
            towards = away / np.sqrt(squared)[:, None]
            here, there = (normal * towards).sum(1), -(world.normal[light] * towards).sum(1)
            there = np.where(world.two_sided[light], np.abs(there), there)
            blocker, _ = intersect(world, point, towards)
            seen = (here > 0) & (there > 0) & (blocker > np.sqrt(squared) * (1 - 1e-6))
            factor = np.where(seen, here * there / squared * total / np.pi, 0)
            radiance[lane] += throughput[lane] * albedo * world.emission[light] * factor[:, None]
        throughput[lane] *= albedo
        towards = random.normal(size=(len(lane), 3))
        towards /= np.linalg.norm(towards, axis=1, keepdims=True)
        direction = normal + towards  # uniform on the sphere that touches the surface: by the cosine
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        origin = point
    return radiance


def render(scene: Scene, width: int, height: int, samples: int, depth: int, seed: int = 0) -> tuple[Floats, Floats]:
    """The picture [height, width, 3] and its standard error."""
    random, world = np.random.default_rng(seed), world_of(scene)
    total, squares = np.zeros((width * height, 3)), np.zeros((width * height, 3))
    for _ in range(samples):
        radiance = trace(world, *camera_rays(scene, width, height, random), depth, random)
        total += radiance
        squares += radiance**2
    mean = total / samples
    error = np.sqrt(np.maximum(squares / samples - mean**2, 0) / max(1, samples - 1))
    return mean.reshape(height, width, 3), error.reshape(height, width, 3)


if __name__ == "__main__":
    picture, _ = render(load(Path(__file__).parents[2] / "scenes" / "cornell.gltf"), 64, 64, 16, 4)
    for row in picture[::2].mean(-1):
        print("".join(" .:-=+*#%@"[min(9, int(9.99 * min(1, v) ** 0.5))] for v in row))
