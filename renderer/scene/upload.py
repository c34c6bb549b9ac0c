"""A scene as device Tensors: what the frame's kernels read.

Built once from the model: all triangles in world space under one BVH, a row of floats for each triangle (unit normal, material,
longest edge) and each material (albedo, radiance, density of light sampling), the table of emissive triangles. What a scene does
not have shapes the code: without emitters there is no light sampling in the kernels, with them no sky.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from engine import Tensor
from renderer.bvh.pairs import LEAF, pair_leaves
from renderer.bvh.stored import built
from renderer.bvh.traverse import DeviceBVH
from renderer.bvh.wide import WideBVH
from renderer.sampling.alias import alias_table
from renderer.scene.model import Scene, SceneError, TriangleSoup
from renderer.shading.light import LIGHT_ROW, Lights

if TYPE_CHECKING:
    from numpy.typing import NDArray

SKY = (0.8, 0.9, 1.0)  # radiance of the sky that lights a scene without lights of its own
PACKET_TRIANGLES = 2048  # up to this many triangles a group walks the tree together
_LUMINANCE = np.array([0.2126, 0.7152, 0.0722])


@dataclass(frozen=True)
class SceneData:
    """The device's scene. `triangle`: float32[n, 5]; `material`: float32[m, 8]; `slot`: int32[leaves * leaf_size] -> triangle."""

    bvh: DeviceBVH
    slot: Tensor
    triangle: Tensor
    material: Tensor
    lights: Lights | None
    sky: bool = field(metadata={"static": True})


@dataclass(frozen=True)
class Uploaded:
    """The scene on the device, with what the host wants to know of it."""

    data: SceneData
    seconds: dict[str, float]
    bytes: int
    dropped: int


def _widened(bvh: WideBVH) -> NDArray[np.float32]:
    """Boxes grown by the rounding error of the slab test for rays that begin within the scene's reach: a few units in the last place."""
    bounds = bvh.bounds.copy()
    finite = np.abs(bounds[np.isfinite(bounds)])
    reach = float(finite.max()) if finite.size else 1.0
    grow = np.float32(reach * 2.0**-20)
    bounds[:, :3] -= grow
    bounds[:, 3:] += grow
    return bounds


def _box(soup: TriangleSoup) -> NDArray[np.float32]:
    """float32[2, 3]: the box of all triangles, with a margin that keeps what lies in its sides off them."""
    corners = soup.positions.reshape(-1, 3)
    low, high = corners.min(axis=0), corners.max(axis=0)
    margin = np.float32(1e-3) * (high - low).max() + np.float32(1e-5) * np.abs(corners).max()
    return np.stack([low - margin, high + margin])


def upload(scene: Scene, *, group: int, packet: bool | None = None) -> Uploaded:
    """Builds the BVH and the tables. `group`: lanes of a group on the device; `packet`: the form of traversal (None: by the scene's size).

    Raises SceneError where there is nothing to draw.
    """
    started = time.perf_counter()
    soup = scene.triangles()
    if not len(soup):
        raise SceneError(f"{scene.path}: there is nothing to draw: no triangles in its scene")
    flattened = time.perf_counter()
    together = packet if packet is not None else len(soup) <= PACKET_TRIANGLES
    width = 16 if together else {16: 16, 8: 8, 4: 4}.get(group, 8)
    bvh = built(soup.positions, width=width, leaf_size=LEAF if together else width)
    ready = time.perf_counter()
    data = _tables(scene, soup, bvh, together)
    done = time.perf_counter()
    tree = data.bvh
    arrays = [tree.bounds, tree.child, tree.child_count, tree.axis, tree.leaf, tree.leaf_count, tree.box]
    arrays += [data.slot, data.triangle, data.material]
    if data.lights is not None:
        arrays += [data.lights.probability, data.lights.alias, data.lights.rows]
    total = sum(t.size * t.dtype.itemsize for t in arrays)
    seconds = {"bvh_build": ready - flattened, "upload": done - ready + flattened - started}
    return Uploaded(data, seconds, total, soup.degenerate + soup.non_finite)


def _tables(scene: Scene, soup: TriangleSoup, bvh: WideBVH, together: bool) -> SceneData:
    p = soup.positions.astype(np.float64)
    e1, e2 = p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]
    cross = np.cross(e1, e2)
    length = np.linalg.norm(cross, axis=1)
    normals = cross / np.maximum(length, 1e-300)[:, None]
    longest = np.sqrt(np.max([(e**2).sum(1) for e in (e1, e2, e2 - e1)], axis=0))
    triangle = np.empty((len(soup), 5), np.float32)
    triangle[:, :3] = normals
    triangle[:, 3] = soup.material.astype(np.int32).view(np.float32)
    triangle[:, 4] = longest

    emission = np.array([m.emissive for m in scene.materials], np.float64).reshape(-1, 3)
    power = length * 0.5 * (emission @ _LUMINANCE)[soup.material]
    total = float(power.sum())
    lights = None
    density = np.zeros(len(scene.materials))
    if total > 0:
        density = (emission @ _LUMINANCE) / total
        lights = _lights(scene, p, e1, e2, emission, density, soup, power, longest)
    material = np.zeros((len(scene.materials), 8), np.float32)
    for k, m in enumerate(scene.materials):
        material[k, :3] = m.base_color_factor[:3]
        material[k, 3] = 1.0 if m.double_sided else 0.0
        material[k, 4:7] = m.emissive
        material[k, 7] = density[k]
    if together:
        pairs = pair_leaves(bvh, soup.positions)
        leaf, count, places, flat = pairs.rows, pairs.number, pairs.triangle.reshape(len(pairs.number), -1), pairs.flat
    else:
        padding = bvh.leaf_triangle[:, None, :] < 0
        leaf = np.where(padding, np.float32(np.nan), bvh.leaf_vertices)  # NaN covers nothing
        count, places, flat = bvh.leaf_count, bvh.leaf_triangle, False
    device = DeviceBVH(
        Tensor(_widened(bvh)),
        Tensor(bvh.child),
        Tensor((~bvh.empty).sum(axis=1, dtype=np.int32)),
        Tensor(_sorted_along(bvh)),
        Tensor(leaf),
        Tensor(count),
        Tensor(_box(soup)),
        width=bvh.width,
        leaf_size=places.shape[1],
        flat=flat,
        stack=_stack_size(bvh.stack_bound),
        form="packet" if together else "serial",
    )
    return SceneData(device, Tensor(places.reshape(-1)), Tensor(triangle), Tensor(material), lights, sky=lights is None)


def _sorted_along(bvh: WideBVH) -> NDArray[np.int32]:
    """int32[nodes]: the axis along which each node's children are sorted, that of its longest side."""
    low = np.where(bvh.empty[:, None, :], np.inf, bvh.bounds[:, :3]).min(axis=2)
    high = np.where(bvh.empty[:, None, :], -np.inf, bvh.bounds[:, 3:]).max(axis=2)
    longest: NDArray[np.intp] = np.argmax(np.nan_to_num(high - low, neginf=0.0), axis=1)
    return longest.astype(np.int32)


def _stack_size(bound: int) -> int:
    """Stack entries in steps, so that scenes of about the same depth share kernels."""
    return max(16, 1 << (bound - 1).bit_length())


def _lights(
    scene: Scene, p: Any, e1: Any, e2: Any, emission: Any, density: Any, soup: TriangleSoup, power: NDArray[np.float64], longest: Any
) -> Lights:
    """The table of emissive triangles."""
    which = np.flatnonzero(power > 0)
    table = alias_table(power[which])
    rows = np.zeros((len(which), LIGHT_ROW), np.float32)
    rows[:, 0:3], rows[:, 3:6], rows[:, 6:9] = p[which, 0], e1[which], e2[which]
    material = soup.material[which]
    rows[:, 9:12] = emission[material]
    rows[:, 12] = density[material]
    rows[:, 13] = [1.0 if scene.materials[m].double_sided else 0.0 for m in material]
    rows[:, 14] = longest[which]
    return Lights(Tensor(table.probability), Tensor(table.alias), Tensor(rows), count=len(which))
