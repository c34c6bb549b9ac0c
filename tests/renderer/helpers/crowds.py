"""Scenes of things that are placed many times, turned, stretched and mirrored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from renderer.scene.model import Camera, Float64s, Instance, Material, Mesh, Scene, rotations
from tests.renderer.helpers.worlds import Triangles, scene_of


def placings(count: int, seed: int, spread: float = 4.0, stretch: tuple[float, float] = (0.3, 1.0)) -> Float64s:
    """float64[count, 4, 4]: turned every way, stretched unevenly, every other one mirrored, within a cube of half the side `spread`."""
    random = np.random.default_rng(seed)
    turns = random.normal(size=(count, 4))
    worlds = np.zeros((count, 4, 4))
    worlds[:, :3, :3] = rotations(turns / np.linalg.norm(turns, axis=1, keepdims=True)) * random.uniform(*stretch, (count, 1, 3))
    worlds[1::2, :3, 0] *= -1
    worlds[:, :3, 3] = random.uniform(-spread, spread, (count, 3))
    worlds[:, 3, 3] = 1
    return worlds


def crowd(
    worlds: Float64s, *kinds: tuple[Triangles, Material], rest: tuple[Triangles, Material] | None = None, camera: Camera | None = None
) -> Scene:
    """Each world has the next of the kinds in turn, every one a part of its own (as what moves is); `rest` stands where it is."""
    scene = scene_of(*kinds, *([rest] if rest is not None else []), camera=camera)
    geometries = scene.meshes[0].geometries
    meshes = [Mesh(f"kind {k}", [geometry]) for k, geometry in enumerate(geometries)]
    instances = [Instance(k % len(kinds), world, f"thing {k}", k, moving=True) for k, world in enumerate(worlds)]
    if rest is not None:
        instances.append(Instance(len(kinds), np.eye(4), "rest", len(worlds)))
    return replace(scene, meshes=meshes, instances=instances)
