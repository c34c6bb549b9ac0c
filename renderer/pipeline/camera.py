"""The camera: from pixels to rays, as run-time parameters of the kernels.

A camera is twelve numbers of placement, two of extent and three of its lens and projection, so that moving it, zooming, opening its
lens, taking another one and resizing compile nothing: what differs between kinds of cameras is a branch that all lanes take together.
Pixels are sampled by a box filter.

The lens is thin: all rays that leave a point of the plane of focus meet again in one point of the picture, wherever they pass the lens.
So a ray begins at a random point of the lens and runs through the point of that plane that the pixel shows. A point at the distance d
becomes a circle whose radius, as a tangent, is the lens's radius times |1 / d - 1 / focus|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine import Tensor, cond, where
from renderer.sampling.rng import Rng
from renderer.sampling.warp import disk
from renderer.scene.model import Camera, Orthographic
from renderer.shading.texture import RayCone
from renderer.vec import Ray, Vec3, normalize, select

DEFAULT_FOCUS = 1.0  # metres, where nobody says what is to be sharp


@dataclass(frozen=True)
class CameraData:
    """`place`: float32[4, 3], rows right, up, backward (unit vectors) and position in metres. `extent`: half width and half height of the
    picture, as tangents (perspective) or metres (orthographic). `aperture`: radius of the lens, `focus`: distance of what is sharp, m."""

    place: Any
    extent: Any
    orthographic: Any  # bool
    aperture: Any
    focus: Any

    def ray(self, column: Tensor, row: Tensor, width: Any, height: Any, rng: Rng) -> tuple[Ray, Rng]:
        """A ray through a random point of each pixel; directions of unit length."""
        u, rng = rng.next()
        v, rng = rng.next()
        middle = self.towards((column.cast("float32") + u) / width * 2 - 1, 1 - (row.cast("float32") + v) / height * 2)

        def pinhole(rng: Rng) -> tuple[Ray, Rng]:
            return Ray(middle.origin, normalize(middle.direction)), rng

        def lens(rng: Rng) -> tuple[Ray, Rng]:
            u, rng = rng.next()
            v, rng = rng.next()
            x, y = disk(u, v)
            off = self._axis(0) * (x * self.aperture) + self._axis(1) * (y * self.aperture)
            return Ray(middle.origin + off, normalize(middle.direction * self.focus - off)), rng

        return cond(Tensor(self.aperture) > 0, lens, pinhole, rng)  # type: ignore[no-any-return]

    def cone(self, height: Any) -> RayCone:
        """How wide rays are, of a picture of this many rows: a pixel's height."""
        step = Tensor(self.extent[1]) * (2.0 / height)
        parallel = Tensor(self.orthographic)
        return RayCone(where(parallel, step, 0.0), where(parallel, 0.0, step))

    def towards(self, x: Tensor, y: Tensor) -> Ray:
        """The ray through the middle of the lens and a place of the picture (-1 to 1, right and up); its direction reaches a unit into
        the depth."""
        x, y = x * self.extent[0], y * self.extent[1]
        back, eye = self._axis(2), self._axis(3)
        across = self._axis(0) * x + self._axis(1) * y
        parallel = Tensor(self.orthographic)
        return Ray(select(parallel, eye + across, eye), select(parallel, -back, across - back))

    def _axis(self, k: int) -> Vec3:
        return Vec3(self.place[k, 0], self.place[k, 1], self.place[k, 2])

    def same(self, other: CameraData) -> bool:
        """Whether both, of numbers, see the same."""
        lens = (self.orthographic, self.aperture, self.focus if self.aperture else None)
        others = (other.orthographic, other.aperture, other.focus if other.aperture else None)
        return lens == others and np.array_equal(self.place, other.place) and np.array_equal(self.extent, other.extent)


def camera_data(camera: Camera, width: int, height: int, turn: float = 0.0, pivot: np.ndarray[Any, Any] | None = None) -> CameraData:
    """The parameters of a camera for a picture of this size, turned by `turn` degrees about the vertical through `pivot`.

    The vertical field of view is kept, whatever the picture's shape; so is an orthographic camera's vertical extent. A camera that does
    not say at what distance it is focused is so at that of the pivot.
    """
    world = camera.world.copy()
    focus = camera.focus
    if focus is None and pivot is not None:
        focus = float(np.dot(world[:3, 3] - pivot, world[:3, 2]))
    if turn and pivot is not None:
        angle = math.radians(turn)
        c, s = math.cos(angle), math.sin(angle)
        rotation = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
        world[:3, :3] = rotation @ world[:3, :3]
        world[:3, 3] = pivot + rotation @ (world[:3, 3] - pivot)
    aspect = width / height
    projection = camera.projection
    orthographic = isinstance(projection, Orthographic)
    half = projection.ymag if isinstance(projection, Orthographic) else math.tan(projection.yfov / 2)
    return CameraData(
        np.ascontiguousarray(world[:3, :4].T, np.float32),
        np.array([half * aspect, half], np.float32),
        orthographic,
        float(camera.aperture),
        float(focus) if focus is not None and focus > 0 else DEFAULT_FOCUS,
    )
