"""Rays through the tree of a scene, on any device and in every form; and through Embree, which knows nothing of ours."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine import Device, DeviceError, Jitted, Tensor, jit, open_device
from renderer.bvh.traverse import Form, Tree
from renderer.scene.model import Scene
from renderer.scene.upload import upload
from renderer.vec import Ray, Vec3, dot
from tests.renderer.helpers.worlds import Triangles, grey, scene_of

FAR = 3.0e38
Floats = NDArray[np.float32]


@lru_cache(None)
def device(backend: str = "cpu", group: int | None = None, threads: int | None = 1) -> Device:
    """One device of each kind for the whole session."""
    if backend in ("opencl", "opengl"):  # whose lanes are alone
        return _or_skip(backend)
    options: dict[str, Any] = {} if group is None else {"group": group}
    return open_device(backend, threads=threads, **options)


def _or_skip(backend: str) -> Device:
    try:
        return open_device(backend)
    except DeviceError as error:
        import pytest

        pytest.skip(f"no {backend} device: {error}")


class Hits(NamedTuple):
    """t: float32[n], infinite where nothing is hit; triangle: int32[n], number in the soup, -1 for nothing; any: bool[n]."""

    t: Floats
    triangle: NDArray[np.int32]
    any: NDArray[np.bool_]

    @property
    def hit(self) -> NDArray[np.bool_]:
        return np.asarray(self.triangle >= 0)


def _trace(bvh: Tree, origin: Tensor, direction: Tensor, reach: float) -> tuple[Tensor, Tensor, Tensor]:
    given = Ray(Vec3(*(origin[:, k] for k in range(3))), Vec3(*(direction[:, k] for k in range(3))))
    ray = bvh.approach(given)
    hit = bvh.closest(ray, reach)
    found = hit.slot >= 0
    triangle = found.where(bvh.triangle(found.where(hit.slot, 0)), -1)
    moved = ray.origin - given.origin
    return hit.t + dot(moved, given.direction) / dot(given.direction, given.direction), triangle, bvh.any(ray, reach)


@lru_cache(None)
def _tracing(on: Device) -> Jitted:
    made: Jitted = jit(_trace, device=on)
    return made


class Tracer:
    """Closest and any hits of rays with a scene (or bare triangles). In the form "lone" they
    go to an OpenCL device instead of the CPU: its lanes are alone."""

    def __init__(self, scene: Scene | Triangles, form: Form = "packet", group: int | None = None, backend: str = "cpu") -> None:
        if isinstance(scene, np.ndarray):
            scene = scene_of((scene, grey(0.5)))
        self.soup = scene.triangles().positions
        if form == "lone" and backend == "cpu":
            backend, group = "opencl", None
        self.device = device(backend, group)
        width = 16 if backend == "reference" and group is None else self.device.group_width
        self.data = upload(scene, group=width, form=form).data

    def __call__(self, origins: Any, directions: Any, reach: float = FAR) -> Hits:
        o = np.ascontiguousarray(np.broadcast_to(np.asarray(origins, np.float32), np.shape(directions)))
        d = np.ascontiguousarray(directions, np.float32)
        run = _tracing(self.device)
        results = run(self.data.bvh, Tensor(o, dims=("rays",)), Tensor(d, dims=("rays",)), float(reach))
        t, triangle, anything = (r.numpy().copy() for r in results)
        return Hits(np.where(triangle >= 0, t, np.inf).astype(np.float32), triangle, anything)


class Embree:
    """The same through Intel's Embree (embreex)."""

    def __init__(self, triangles: Triangles) -> None:
        import pytest

        pytest.importorskip("embreex")
        from embreex import mesh_construction, rtcore_scene

        self.scene = rtcore_scene.EmbreeScene()
        mesh_construction.TriangleMesh(self.scene, np.ascontiguousarray(triangles))

    def __call__(self, origins: Floats, directions: Floats) -> Hits:
        found = self.scene.run(np.ascontiguousarray(origins, np.float32), np.ascontiguousarray(directions, np.float32), output=1)
        triangle = np.asarray(found["primID"], np.int32)
        return Hits(np.where(triangle >= 0, found["tfar"], np.inf).astype(np.float32), triangle, triangle >= 0)


def plane_distance(triangles: Triangles, origins: Any, directions: Any) -> NDArray[np.float64]:
    """Where rays meet the planes of triangles (one each), in float64."""
    v, o, d = (np.asarray(a, np.float64) for a in (triangles, origins, directions))
    n = np.cross(v[:, 1] - v[:, 0], v[:, 2] - v[:, 0])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((n * (v[:, 0] - o)).sum(1) / (n * d).sum(1))


def edge_distance(triangles: Triangles, origins: Any, directions: Any) -> NDArray[np.float64]:
    """How near rays pass to the nearest edge of triangles (one each), relative to the longest edge, in float64."""
    v, o, d = (np.asarray(a, np.float64) for a in (triangles, origins, directions))
    point = o + d * plane_distance(triangles, o, d)[:, None]
    n = np.cross(v[:, 1] - v[:, 0], v[:, 2] - v[:, 0])
    distances, longest = [], np.zeros(len(v))
    for k in range(3):
        a, e = v[:, k], v[:, (k + 1) % 3] - v[:, k]
        length = np.linalg.norm(e, axis=1)
        longest = np.maximum(longest, length)
        distances.append(np.abs((np.cross(e, point - a) * n).sum(1)) / (np.linalg.norm(n, axis=1) * length))
    return np.asarray(np.min(distances, axis=0) / longest)


def random_rays(count: int, seed: int, low: Any = (-1, -1, -1), high: Any = (1, 1, 1)) -> tuple[Floats, Floats]:
    """Origins uniform in a box, directions uniform."""
    random = np.random.default_rng(seed)
    origins = random.uniform(low, high, (count, 3))
    directions = random.normal(size=(count, 3))
    return origins.astype(np.float32), (directions / np.linalg.norm(directions, axis=1, keepdims=True)).astype(np.float32)
