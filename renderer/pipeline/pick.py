"""What a pixel shows: one ray through its middle, for the user who clicks on it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from engine import Device, Jitted, Tensor, arange, jit, where
from renderer.bvh.traverse import NOTHING, Tree
from renderer.pipeline.camera import CameraData
from renderer.scene.parts import Parts
from renderer.vec import Ray, Vec3, dot, normalize

_FAR = 3.0e38


class Pick(NamedTuple):
    """What was hit: the instance's number in the scene, the material's, the geometry's in the instance's mesh; point: float64[3] in the
    world, m; distance: from the middle of the camera's lens (from its plane, where it is orthographic), m."""

    instance: int
    material: int
    geometry: int
    point: np.ndarray[Any, Any]
    distance: float


class Found(NamedTuple):
    """What the kernel tells: `triangle` int32[1], -1 for nothing; `placing` int32[1], None where there is none; `distance` float32[1];
    `point`, each float32[1]."""

    triangle: Tensor
    placing: Tensor | None
    distance: Tensor
    point: Vec3


def pick(bvh: Tree, camera: CameraData, x: Any, y: Any) -> Found:
    """The nearest hit at a place of the picture, from -1 to 1, right and up. Lenses look through their middle."""
    lane = arange(1).cast("float32") * 0
    middle = camera.towards(lane + x, lane + y)
    start = Ray(middle.origin, normalize(middle.direction))
    ray = bvh.approach(start)
    hit = bvh.closest(ray, _FAR)
    met = hit.slot != NOTHING
    point = ray.at(hit.t)
    off = point - start.origin
    return Found(where(met, bvh.triangle(where(met, hit.slot, 0)), -1), hit.placing, dot(off, off).sqrt(), point)


def make_pick(device: Device) -> Jitted:
    """The jitted function."""
    made: Jitted = jit(pick, name="pick", device=device)
    return made


def picked(found: Found, parts: Parts) -> Pick | None:
    """What a result of the kernel says of the parts that the tables were made from; None where nothing was hit."""
    triangle = int(found.triangle.item())
    if triangle < 0:
        return None
    soup, placings = parts.soup, parts.placings
    instance, material, geometry = (int(numbers[triangle]) for numbers in (soup.instance, soup.material, soup.geometry))
    if placings is not None and found.placing is not None:
        placing = int(found.placing.item())
        instance = int(placings.instance[placing]) if placings.instance[placing] >= 0 else instance
        material = int(placings.material[placing]) if placings.material[placing] >= 0 else material
    point = np.array([c.item() for c in found.point], np.float64)
    return Pick(instance, material, geometry, point, float(found.distance.item()))
