"""A scene as device Tensors: what the frame's kernels read.

Made from the model: all triangles in world space under one BVH, a row of floats for each triangle (unit normal, material, longest edge)
and each material (albedo, two-sided, radiance, density of light sampling), the table of emissive triangles, the sky's radiance. What a
scene does not have shapes the code: without emitters there is no light sampling in the kernels, without a sky nothing to be missed.

Tables have named sizes, so that scenes of other sizes and edited ones run the same kernels. Where lanes form vectors, small tables are
different: a look-up in a table of known size happens in registers and costs a fraction of a gather (a frame of a small room takes 7 %
longer without), so there a table of up to 128 rows has a power of two of them, and that number shapes the code. In tables that replace
others what shapes the code stays as it is, wherever the new contents allow it. Lanes that walk alone load four floats at once, so for
them rows are filled up to a multiple of four.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from engine import Tensor
from renderer.bvh.build import build
from renderer.bvh.pairs import LEAF, pair_leaves
from renderer.bvh.rows import WIDTH, bits, tree_rows
from renderer.bvh.stored import built
from renderer.bvh.traverse import DeviceBVH, Form, LoneBVH, Tree
from renderer.bvh.wide import WideBVH
from renderer.sampling.alias import alias_table
from renderer.scene.model import Environment, Scene, SceneError, TriangleSoup
from renderer.shading.light import ALIAS_ROW, FEW, LIGHT_ROW, AliasColumns, Lights

if TYPE_CHECKING:
    from numpy.typing import NDArray

SKY = (0.8, 0.9, 1.0)  # radiance of the sky that lights a scene without lights of its own
PACKET_TRIANGLES = 2048  # up to this many triangles a group walks the tree together
FEWEST_ROWS = 16  # of a table whose number of rows is known to the kernels
MOST_ROWS = {16: 128, 8: 32}  # of such a table, for groups of so many lanes: what the CPU looks up in registers
_LUMINANCE = np.array([0.2126, 0.7152, 0.0722])


@dataclass(frozen=True)
class SceneData:
    """The device's scene. `triangle`: float32[n, 5 or 8]; `material`: float32[m, 8]; `sky`: float32[3], radiance from where nothing is,
    W/(sr m2), None where there is no sky. Tables may be longer than what is in them."""

    bvh: Tree
    triangle: Tensor
    material: Tensor
    lights: Lights | None
    sky: Any


@dataclass(frozen=True)
class Uploaded:
    """The scene on the device, with what the host wants to know of it. `soup`: the triangles as `SceneData.triangle` numbers them."""

    data: SceneData
    soup: TriangleSoup
    seconds: dict[str, float]
    bytes: int

    @property
    def dropped(self) -> int:
        """Triangles that no ray can hit, left out."""
        return self.soup.degenerate + self.soup.non_finite


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


def upload(
    scene: Scene, *, group: int, form: Form | None = None, like: Uploaded | None = None, keep: bool = True
) -> Uploaded:
    """Builds the BVH and the tables. `group`: lanes of a group on the device; `form`: of traversal (None: what is best); `like`: tables
    that these are to replace; `keep`: a large tree may be kept on disk.

    Raises SceneError where there is nothing to draw.
    """
    started = time.perf_counter()
    soup = scene.triangles()
    if not len(soup):
        raise SceneError(f"{scene.path}: there is nothing to draw: no triangles in its scene")
    flattened = time.perf_counter()
    form = form or ("lone" if group == 1 else "packet" if len(soup) <= PACKET_TRIANGLES else "serial")
    width = {"lone": WIDTH, "packet": 16}.get(form, group if group in (16, 4) else 8)
    bvh = (built if keep else build)(soup.positions, width=width, leaf_size=width if form == "serial" else LEAF)
    ready = time.perf_counter()
    tables = _Tables(MOST_ROWS.get(group, 0))
    old = like.data if like is not None else None
    most = len(soup) + soup.degenerate  # a mesh that is flat now may be given a thickness
    data = SceneData(
        _tree(tables, soup, bvh, form, old.bvh if old else None),
        tables.made("triangles", _triangles(soup, 8 if form == "lone" else 5), old.triangle if old else None, spare=most - len(soup)),
        *_lit(tables, scene, soup, form, old),
    )
    done = time.perf_counter()
    seconds = {"bvh_build": ready - flattened, "upload": done - ready + flattened - started}
    return Uploaded(data, soup, seconds, tables.bytes)


def relit(uploaded: Uploaded, scene: Scene, *, group: int) -> Uploaded:
    """The tables after materials or the environment have changed: the tree and the triangles are shared."""
    tables, old = _Tables(MOST_ROWS.get(group, 0)), uploaded.data
    material, lights, sky = _lit(tables, scene, uploaded.soup, old.bvh.form, old)
    return replace(uploaded, data=replace(old, material=material, lights=lights, sky=sky))


def structure(data: SceneData) -> tuple[Any, ...]:
    """Everything about a scene's tables that shapes the code of kernels; hashable."""
    tree, lights = data.bvh, data.lights
    places = [tree.places] if isinstance(tree, DeviceBVH) else []
    tables = (*places, data.triangle, data.material, *([lights.rows] if lights is not None else []))
    rows = tuple(table.shape[0] if isinstance(table.shape[0], int) else None for table in tables)  # None: a named size
    few = lights.few if lights is not None else None
    shape = [getattr(tree, f.name) for f in fields(tree) if "static" in f.metadata]
    return (tree.form, *shape, few, data.sky is not None, rows)


class _Tables:
    """Makes Tensors of tables, and counts their bytes. `most`: rows up to which their number is known to the kernel."""

    def __init__(self, most: int) -> None:
        self.most, self.bytes = most, 0

    def named(self, name: str, array: NDArray[Any]) -> Tensor:
        """A table whose rows are counted by the named size."""
        self.bytes += array.nbytes
        return Tensor(array, dims=(name,))

    def made(self, name: str, array: NDArray[Any], old: Tensor | None = None, spare: int = 0) -> Tensor:
        """A table whose rows are counted by the named size, or by a number that is that of `old` if it can be; `spare`: rows by which it
        may grow."""
        known = None if old is None else old.shape[0] if isinstance(old.shape[0], int) else 0
        rows = len(array)
        if known is not None and (known == 0 or rows <= known):
            height = known
        else:
            height = max(FEWEST_ROWS, 1 << (rows + spare - 1).bit_length())
            height = height if height <= self.most else 0
        if not height:
            return self.named(name, array)
        padded = np.concatenate([array, np.zeros((height - rows, *array.shape[1:]), array.dtype)])
        self.bytes += padded.nbytes
        return Tensor(padded)


def _triangles(soup: TriangleSoup, floats: int) -> NDArray[np.float32]:
    """float32[n, floats]: unit normal, material, longest edge."""
    e1, e2, cross, length = _edges(soup)
    triangle = np.zeros((len(soup), floats), np.float32)
    triangle[:, :3] = cross / np.maximum(length, 1e-300)[:, None]
    triangle[:, 3] = bits(soup.material)
    triangle[:, 4] = _longest(e1, e2)
    return triangle


def _edges(soup: TriangleSoup, which: Any = slice(None)) -> tuple[Any, Any, Any, Any]:
    """Two edges of triangles, their cross product and its length, float64."""
    p = soup.positions[which].astype(np.float64)
    e1, e2 = p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]
    cross = np.cross(e1, e2)
    return e1, e2, cross, np.linalg.norm(cross, axis=1)


def _longest(e1: Any, e2: Any) -> Any:
    return np.sqrt(np.max([(e**2).sum(1) for e in (e1, e2, e2 - e1)], axis=0))


def _lit(tables: _Tables, scene: Scene, soup: TriangleSoup, form: Form, old: SceneData | None) -> tuple[Tensor, Lights | None, Any]:
    """The table of materials, the lights, the sky's radiance."""
    emission = np.array([m.emissive for m in scene.materials], np.float64).reshape(-1, 3)
    luminance = emission @ _LUMINANCE
    which = np.flatnonzero((luminance > 0)[soup.material])
    e1, e2, _, length = _edges(soup, which)
    power = length * 0.5 * luminance[soup.material[which]]
    total = float(power.sum())
    density = luminance / total if total > 0 else np.zeros(len(scene.materials))
    lights = None
    if total > 0:
        rows = np.zeros((len(which), LIGHT_ROW), np.float32)
        rows[:, 0:3], rows[:, 3:6], rows[:, 6:9] = soup.positions[which, 0], e1, e2
        material = soup.material[which]
        rows[:, 9:12] = emission[material]
        rows[:, 12] = density[material]
        rows[:, 13] = [1.0 if scene.materials[m].double_sided else 0.0 for m in material]
        rows[:, 14] = _longest(e1, e2)
        table = alias_table(power)
        held = old.lights.rows if old is not None and old.lights is not None else None
        alias = None
        if form == "lone":
            rows = np.pad(rows, ((0, 0), (0, ALIAS_ROW)))
            rows[:, LIGHT_ROW], rows[:, LIGHT_ROW + 1] = table.probability, bits(table.alias)
        else:
            alias = AliasColumns(*(tables.made("lights", a, held) for a in (table.probability, table.alias)))
        lights = Lights(alias, tables.made("lights", rows, held), count=len(which), few=len(which) <= FEW)
    row = np.zeros((len(scene.materials), 8), np.float32)
    for k, m in enumerate(scene.materials):
        row[k, :3] = m.base_color_factor[:3]
        row[k, 3] = 1.0 if m.double_sided else 0.0
        row[k, 4:7] = m.emissive
        row[k, 7] = density[k]
    surroundings = scene.environment or (Environment(SKY) if lights is None else None)
    sky = None
    if surroundings is not None:
        sky = np.asarray(surroundings.radiance, np.float32) * np.float32(surroundings.strength)
    return tables.made("materials", row, old.material if old is not None else None), lights, sky


def _tree(tables: _Tables, soup: TriangleSoup, bvh: WideBVH, form: Form, old: Tree | None) -> Tree:
    """The tree's tables."""
    stack = old.stack if old is not None and bvh.stack_bound <= old.stack else _stack_size(bvh.stack_bound)
    if form == "lone":
        pairs = pair_leaves(bvh, soup.positions, flat=old.flat if old is not None else None)
        rows = tree_rows(bvh, _widened(bvh), pairs)
        return LoneBVH(tables.named("nodes", rows.nodes), tables.named("pairs", rows.pairs), _box(soup), stack, pairs.flat)
    if form == "packet":
        pairs = pair_leaves(bvh, soup.positions, flat=old.flat if old is not None else None)
        leaf, count, places, flat = pairs.rows, pairs.number, pairs.triangle.reshape(len(pairs.number), -1), pairs.flat
    else:
        padding = bvh.leaf_triangle[:, None, :] < 0
        leaf = np.where(padding, np.float32(np.nan), bvh.leaf_vertices)  # NaN covers nothing
        count, places, flat = bvh.leaf_count, bvh.leaf_triangle, False
    held = old.places if isinstance(old, DeviceBVH) else None
    return DeviceBVH(
        bounds=tables.named("nodes", _widened(bvh)),
        child=tables.named("nodes", bvh.child),
        child_count=tables.named("nodes", (~bvh.empty).sum(axis=1, dtype=np.int32)),
        axis=tables.named("nodes", _sorted_along(bvh)),
        leaf=tables.named("leaves", leaf),
        leaf_count=tables.named("leaves", count),
        places=tables.made("slots", places.reshape(-1), held, spare=places.size // 4),
        box=Tensor(_box(soup)),
        width=bvh.width,
        leaf_size=places.shape[1],
        flat=flat,
        stack=stack,
        form=form,
    )


def _sorted_along(bvh: WideBVH) -> NDArray[np.int32]:
    """int32[nodes]: the axis along which each node's children are sorted, that of its longest side."""
    low = np.where(bvh.empty[:, None, :], np.inf, bvh.bounds[:, :3]).min(axis=2)
    high = np.where(bvh.empty[:, None, :], -np.inf, bvh.bounds[:, 3:]).max(axis=2)
    longest: NDArray[np.intp] = np.argmax(np.nan_to_num(high - low, neginf=0.0), axis=1)
    return longest.astype(np.int32)


def _stack_size(bound: int) -> int:
    """Stack entries in steps, and with some to spare, so that scenes of about the same depth, and edited ones, share kernels."""
    return max(32, 1 << (bound + bound // 2 - 1).bit_length())
