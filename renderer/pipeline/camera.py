"""The camera: from pixels to rays, as run-time parameters of the kernels.

A camera is twelve numbers of placement and two of extent, so that moving it, zooming and resizing compile nothing; only the kind of
projection shapes the code. Pixels are sampled by a box filter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine import Tensor
from renderer.sampling.rng import Rng
from renderer.scene.model import Camera, Orthographic
from renderer.vec import Ray, Vec3, normalize


@dataclass(frozen=True)
class CameraData:
    """`place`: float32[4, 3], rows right, up, backward (unit vectors) and position in metres. `extent`: half width and half height of the
    picture, as tangents (perspective) or metres (orthographic)."""

    place: Any
    extent: Any
    orthographic: bool = field(metadata={"static": True})

    def ray(self, column: Tensor, row: Tensor, width: Any, height: Any, rng: Rng) -> tuple[Ray, Rng]:
        """A ray through a random point of each pixel; directions of unit length."""
        u, rng = rng.next()
        v, rng = rng.next()
        p = self.place
        right, up, back, eye = (Vec3(p[k, 0], p[k, 1], p[k, 2]) for k in range(4))
        x = ((column.cast("float32") + u) / width * 2 - 1) * self.extent[0]
        y = (1 - (row.cast("float32") + v) / height * 2) * self.extent[1]
        if self.orthographic:
            zero = x * 0
            return Ray(eye + right * x + up * y, Vec3(zero - back.x, zero - back.y, zero - back.z)), rng
        zero = x * 0
        return Ray(Vec3(zero + eye.x, zero + eye.y, zero + eye.z), normalize(right * x + up * y - back)), rng


def camera_data(camera: Camera, width: int, height: int, turn: float = 0.0, pivot: np.ndarray[Any, Any] | None = None) -> CameraData:
    """The parameters of a camera for a picture of this size, turned by `turn` degrees about the vertical through `pivot`.

    The vertical field of view is kept, whatever the picture's shape; so is an orthographic camera's vertical extent.
    """
    world = camera.world.copy()
    if turn and pivot is not None:
        angle = math.radians(turn)
        c, s = math.cos(angle), math.sin(angle)
        rotation = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
        world[:3, :3] = rotation @ world[:3, :3]
        world[:3, 3] = pivot + rotation @ (world[:3, 3] - pivot)
    aspect = width / height
    projection = camera.projection
    half = projection.ymag if isinstance(projection, Orthographic) else math.tan(projection.yfov / 2)
    place = np.ascontiguousarray(world[:3, :4].T, np.float32)
    return CameraData(place, np.array([half * aspect, half], np.float32), orthographic=isinstance(projection, Orthographic))
