"""A scene as device Tensors: what the frame's kernels read.

Made from the model: all triangles in world space under one BVH, a row of floats for each triangle (unit normal, material, longest edge)
and each material (see `shading.material_rows`), the table of emissive triangles, the sky's radiance. What a scene does not have shapes the
code: without emitters there is no light sampling in the kernels, without a sky nothing to be missed, without lacquer no clearcoat.

Tables have named sizes, so that scenes of other sizes and edited ones run the same kernels. Where lanes form vectors, small tables are
different: a look-up in a table of known size happens in registers and costs a fraction of a gather (a frame of a small room takes 7 %
longer without), so there a table of up to 128 rows has a power of two of them, and that number shapes the code. In tables that replace
others what shapes the code stays as it is, wherever the new contents allow it. Lanes that walk alone load four floats at once, so for
them rows are filled up to a multiple of four.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from engine import Tensor, events
from renderer.bvh.build import build
from renderer.bvh.pairs import LEAF, pair_leaves
from renderer.bvh.rows import WIDTH, bits, tree_rows
from renderer.bvh.stored import built
from renderer.bvh.traverse import DeviceBVH, Form, LoneBVH, Tree
from renderer.bvh.wide import WideBVH
from renderer.sampling.alias import alias_table
from renderer.scene.default_sky import SKY
from renderer.scene.light_tables import lights_beyond
from renderer.scene.model import Scene, SceneError, Texture, TriangleSoup
from renderer.shading.corner_rows import NO_CORNERS, Corners, corner_rows, corners_of
from renderer.shading.environment import EnvironmentMap
from renderer.shading.glass import glass_table
from renderer.shading.light import ALIAS_ROW, FEW, LIGHT_ROW, AliasColumns, Lights
from renderer.shading.material_rows import PLAIN, Look, look_of, material_rows
from renderer.shading.punctual import Punctual
from renderer.shading.texture import Textures

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from renderer.scene.texture_tables import TextureTables

PACKET_TRIANGLES = 2048  # up to this many triangles a group walks the tree together
FEWEST_ROWS = 16  # of a table whose number of rows is known to the kernels
MOST_ROWS = {16: 128, 8: 32}  # of such a table, for groups of so many lanes: what the CPU looks up in registers
_LUMINANCE = np.array([0.2126, 0.7152, 0.0722])


@dataclass(frozen=True)
class SceneData:
    """The device's scene. `triangle`: float32[n, 5 or 8]; `material`: float32[m, k], k by `look`, which says what the materials have in
    them; `sky`: float32[3], radiance from where nothing is, W/(sr m2), None where there is no sky; `corner`: float32[n, k], k by
    `corners`, which says what triangles have at their corners, None where that is nothing. Tables may be longer than what is in them.
    """

    bvh: Tree
    triangle: Tensor
    material: Tensor
    lights: Lights | None
    sky: Any
    look: Look = field(default=PLAIN, metadata={"static": True})
    corner: Tensor | None = None
    textures: Textures | None = None
    corners: Corners = field(default=NO_CORNERS, metadata={"static": True})
    environment: EnvironmentMap | None = None  # never beside `sky`
    punctual: Punctual | None = None
    glass: Tensor | None = None  # float32[n, 4]: of `shading.glass`, where there are bodies
    shares: Any = None  # float32[2]: how connecting chooses among kinds of lights, see `light_tables`; None where there are not several


class _Held(NamedTuple):
    """Textures on the device, and the list of a scene that they were made from."""

    textures: list[Texture]
    tables: TextureTables


@dataclass(frozen=True)
class Uploaded:
    """The scene on the device, with what the host wants to know of it. `soup`: the triangles as `SceneData.triangle` numbers them."""

    data: SceneData
    soup: TriangleSoup
    seconds: dict[str, float]
    bytes: int
    pictures: _Held | None = None

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
    triangles = _triangles(soup, 8 if form == "lone" else 5)
    lit, pictures = _lit(tables, scene, soup, form, old, like.pictures if like is not None else None)
    corners = _corners(scene, soup, triangles[:, :3], lit["look"], old)
    corner = None
    if corners != NO_CORNERS:
        corner = tables.named("triangle_corners", corner_rows(scene, soup, triangles[:, :3], corners))
    data = SceneData(
        _tree(tables, soup, bvh, form, old.bvh if old else None),
        tables.made("triangles", triangles, old.triangle if old else None, spare=most - len(soup)),
        **lit,
        corner=corner,
        corners=corners,
    )
    done = time.perf_counter()
    seconds = {"bvh_build": ready - flattened, "upload": done - ready + flattened - started}
    return Uploaded(data, soup, seconds, tables.bytes + (pictures.tables.bytes if pictures is not None else 0), pictures)


def relit(uploaded: Uploaded, scene: Scene, *, group: int) -> Uploaded:
    """The tables after materials or the environment have changed: the tree and the triangles are shared."""
    tables, old = _Tables(MOST_ROWS.get(group, 0)), uploaded.data
    lit, pictures = _lit(tables, scene, uploaded.soup, old.bvh.form, old, uploaded.pictures)
    corners = old.corners
    if lit["look"] != old.look:  # if corners are to have more, these tables will not do
        corners = _corners(scene, uploaded.soup, _triangles(uploaded.soup, 5)[:, :3], lit["look"], old)
    return replace(uploaded, data=replace(old, **lit, corners=corners), pictures=pictures)


def structure(data: SceneData) -> tuple[Any, ...]:
    """Everything about a scene's tables that shapes the code of kernels; hashable."""
    tree, lights = data.bvh, data.lights
    places = [tree.places] if isinstance(tree, DeviceBVH) else []
    tables = (*places, data.triangle, data.material, *([lights.rows] if lights is not None else []))
    rows = tuple(table.shape[0] if isinstance(table.shape[0], int) else None for table in tables)  # None: a named size
    few = lights.few if lights is not None else None
    shape = [getattr(tree, f.name) for f in fields(tree) if "static" in f.metadata]
    there = (data.sky is not None, data.environment is not None, data.punctual is not None, data.shares is not None)
    return (tree.form, *shape, few, *there, rows, data.look, data.corners, data.textures.features if data.textures is not None else None)


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


def _corners(scene: Scene, soup: TriangleSoup, face: NDArray[np.float32], look: Look, old: SceneData | None) -> Corners:
    """What kernels must know of corners, or the old ones' if that is enough."""
    corners = corners_of(scene, soup, face, look.directed, look.texcoords)
    return old.corners if old is not None and old.corners.covers(corners) else corners


def _edges(soup: TriangleSoup, which: Any = slice(None)) -> tuple[Any, Any, Any, Any]:
    """Two edges of triangles, their cross product and its length, float64."""
    p = soup.positions[which].astype(np.float64)
    e1, e2 = p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]
    cross = np.cross(e1, e2)
    return e1, e2, cross, np.linalg.norm(cross, axis=1)


def _longest(e1: Any, e2: Any) -> Any:
    return np.sqrt(np.max([(e**2).sum(1) for e in (e1, e2, e2 - e1)], axis=0))


def _lit(
    tables: _Tables, scene: Scene, soup: TriangleSoup, form: Form, old: SceneData | None, pictures: _Held | None
) -> tuple[dict[str, Any], _Held | None]:
    """The fields of `SceneData` that materials and lights decide: the table of materials, the lights, what surrounds the scene; and the
    textures, those that are there already (`pictures`) if they are of this scene."""
    look = look_of(scene.materials, _has_alpha(scene))
    if old is not None and old.look.covers(look):
        look = old.look
    pictures = _pictures(scene, pictures) if look.slots else None
    if pictures is None:  # no image of them is to be had
        look = replace(look, slots=())
    emission = np.array([(0.0, 0.0, 0.0) if m.unlit else m.emissive for m in scene.materials], np.float64).reshape(-1, 3)
    luminance = emission @ _LUMINANCE
    which = np.flatnonzero((luminance > 0)[soup.material])
    e1, e2, _, length = _edges(soup, which)
    power = length * 0.5 * luminance[soup.material[which]]
    total = float(power.sum())
    added = None if old is None or old.lights is None else old.sky is not None and np.array_equal(old.sky, np.array(SKY, np.float32))
    beyond = lights_beyond(scene, soup, math.pi * total, tables.named, added)
    density = luminance / total * beyond.triangles if total > 0 else np.zeros(len(scene.materials))
    lights = None
    if total > 0:
        rows = np.zeros((len(which), LIGHT_ROW), np.float32)
        rows[:, 0:3], rows[:, 3:6], rows[:, 6:9] = soup.positions[which, 0], e1, e2
        material = soup.material[which]
        rows[:, 9:12] = emission[material]
        rows[:, 12] = density[material]
        rows[:, 13] = [1.0 if scene.materials[m].double_sided else 0.0 for m in material]
        rows[:, 14], rows[:, 15] = _longest(e1, e2), bits(which.astype(np.int32))
        table = alias_table(power)
        lamps = old.lights.rows if old is not None and old.lights is not None else None
        alias = None
        if form == "lone":
            rows = np.pad(rows, ((0, 0), (0, ALIAS_ROW)))
            rows[:, LIGHT_ROW], rows[:, LIGHT_ROW + 1] = table.probability, bits(table.alias)
        else:
            alias = AliasColumns(*(tables.made("lights", a, lamps) for a in (table.probability, table.alias)))
        lights = Lights(alias, tables.made("lights", rows, lamps), count=len(which), few=len(which) <= FEW)
    rows_before = old.material if old is not None and old.look == look else None
    number = pictures.tables.number if pictures is not None else lambda ref, slot: -1
    made = {
        "material": tables.made("materials", material_rows(scene.materials, look, density, number), rows_before),
        "lights": lights, "look": look, "sky": beyond.sky,
        "environment": beyond.environment, "punctual": beyond.punctual, "shares": beyond.shares,
        "textures": pictures.tables.textures if pictures is not None else None,
        "glass": tables.named("glass", glass_table()) if look.layers.volume else None,
    }  # fmt: skip
    return made, pictures


def _pictures(scene: Scene, held: _Held | None) -> _Held | None:
    """The textures of a scene, those that are there already if they are all it needs."""
    if held is not None and held.textures is scene.textures:
        return held
    from renderer.scene.texture_tables import texture_tables  # with the decoders of pictures: a good part of a first frame's imports

    made = texture_tables(scene, warn=lambda text: events.record("warning", message=text))
    return None if made is None else _Held(scene.textures, made)


def _has_alpha(scene: Scene) -> bool:
    """Whether some vertex has an alpha that is not 1."""
    return any(geometry.colours is not None and bool((geometry.colours[:, 3] < 1).any()) for _, _, geometry, _, _ in scene.placed())


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
