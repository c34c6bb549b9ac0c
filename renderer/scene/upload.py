"""A scene as device Tensors: what the frame's kernels read.

Made from the model: its triangles as parts (`scene.parts`) under trees (`scene.tree_tables`), a row of floats for each triangle (unit
normal, material, longest edge) and each material (see `shading.material_rows`), the table of emissive triangles, the sky's radiance. What
a scene does not have shapes the code: without emitters there is no light sampling in the kernels, without a sky nothing to be missed,
without lacquer no clearcoat, and nothing of placings where all is one part.

Tables have named sizes, so that scenes of other sizes and edited ones run the same kernels (but see `scene.tables`). In tables that
replace others what shapes the code stays as it is, wherever the new contents allow it. Lanes that walk alone load four floats at once,
so for them rows are filled up to a multiple of four.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from engine import Tensor, events
from renderer.bvh.rows import bits
from renderer.bvh.traverse import DeviceBVH, Form, Tree
from renderer.sampling.alias import alias_table
from renderer.scene.environment_tables import LUMINANCE
from renderer.scene.light_tables import lights_beyond
from renderer.scene.light_tree import light_tree
from renderer.scene.model import Material, Scene, SceneError, Texture, TriangleSoup
from renderer.scene.parts import Kind, Parts, kinds_of, moved, parts_of, repainted
from renderer.scene.room import BUDGET
from renderer.scene.tables import Tables
from renderer.scene.tree_tables import Grown, placed, tree_tables, trees_of
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
    """The scene on the device, with what the host wants to know of it. `parts`: the triangles as `SceneData.triangle` numbers them, and the
    placings as the tree does; `roots`: int32[parts], see `tree_tables`; `kinds`: of the materials; `variant`: of the scene; `glow`:
    float64[triangles], see `light_powers`, None where no lamp has a texture."""

    data: SceneData
    parts: Parts
    roots: NDArray[np.int32]
    kinds: tuple[Kind, ...]
    variant: int | None
    seconds: dict[str, float]
    bytes: int
    pictures: _Held | None = None
    glow: Any = None

    @property
    def dropped(self) -> int:
        """Triangles that no ray can hit, left out."""
        return self.parts.soup.degenerate + self.parts.soup.non_finite


def upload(
    scene: Scene,
    *,
    group: int,
    form: Form | None = None,
    like: Uploaded | None = None,
    keep: bool = True,
    shared: bool = True,
    empty: bool = False,
    budget: int = BUDGET,
) -> Uploaded:
    """Builds the BVH and the tables. `group`: lanes of a group on the device; `form`: of traversal (None: what is best); `like`: tables
    that these are to replace; `keep`: a large tree may be kept on disk; `shared`: False where all is to be one part; `empty`: a scene of
    nothing is its surroundings; `budget`: bytes that pictures may take.

    Raises SceneError where there is nothing to draw, unless that is allowed.
    """
    started = time.perf_counter()
    decoded = _decoded_beside(scene, like.pictures if like is not None else None, budget)
    parts = parts_of(scene, shared=shared and form != "packet")
    if not len(parts.soup):
        if not empty:
            raise SceneError(nothing_to_draw(scene))
        parts = replace(parts, soup=_point(parts.soup), first=np.arange(2))
    soup = parts.soup
    flattened = time.perf_counter()
    form = form or ("lone" if group == 1 else "packet" if len(soup) <= PACKET_TRIANGLES and parts.placings is None else "serial")
    trees = trees_of(parts, form, group, keep=keep)
    ready = time.perf_counter()
    tables = Tables(group)
    old = like.data if like is not None else None
    most = len(soup) + soup.degenerate  # a mesh that is flat now may be given a thickness
    kinds = kinds_of(scene)
    both = np.array([kind.shows_back for kind in kinds] or [False])[soup.material]
    grown = tree_tables(tables, parts, trees, both, form, old.bvh if old else None)
    triangles = _triangles(soup, 8 if form == "lone" else 5)
    lit, pictures, glow = _lit(tables, scene, grown.parts, form, old, decoded(), budget)
    corners = _corners(scene, soup, triangles[:, :3], lit["look"], old)
    corner = None
    if corners != NO_CORNERS:
        corner = tables.named("triangle_corners", corner_rows(scene, soup, triangles[:, :3], corners, glow))
    data = SceneData(
        grown.tree,
        tables.made("triangles", triangles, old.triangle if old else None, spare=most - len(soup)),
        **lit,
        corner=corner,
        corners=corners,
    )
    done = time.perf_counter()
    seconds = {"bvh_build": ready - flattened, "upload": done - ready + flattened - started}
    held = tables.bytes + (pictures.tables.bytes if pictures is not None else 0)
    return Uploaded(data, grown.parts, grown.roots, kinds, scene.variant, seconds, held, pictures, glow)


def nothing_to_draw(scene: Scene) -> str:
    """The error of a scene without triangles: which file, and the first thing that its importer had to say of why."""
    causes = [text for text in scene.warnings if "nothing to draw" not in text]
    return f"{scene.path}: there is nothing to draw: no triangles in its scene" + (f" ({causes[0]})" if causes else "")


def _point(soup: TriangleSoup) -> TriangleSoup:
    """For a scene of nothing, one triangle that is a point, which no ray can hit: so its tables and its kernels are as any other's."""
    none, nobody = np.zeros(1, np.int32), np.full(1, -1, np.int32)
    vertices = np.zeros((1, 3), np.uint32)
    return replace(soup, positions=np.zeros((1, 3, 3), np.float32), material=none, instance=nobody, geometry=none, vertices=vertices)


def relit(uploaded: Uploaded, scene: Scene, *, group: int, budget: int = BUDGET) -> Uploaded:
    """The tables after materials, the variant or the environment have changed: the tree is shared, unless it knows of what has."""
    tables, old, form = Tables(group), uploaded.data, uploaded.data.bvh.form
    kinds, parts = kinds_of(scene), uploaded.parts
    if scene.variant != uploaded.variant:
        parts = repainted(parts, scene)
    if not _as_kind(uploaded, parts, kinds):
        return upload(scene, group=group, form=form, like=uploaded, keep=False, empty=True, budget=budget)
    soup, triangle = parts.soup, old.triangle
    if parts is not uploaded.parts:
        triangle = tables.made("triangles", _triangles(soup, 8 if form == "lone" else 5), triangle)
        if parts.placings is not None:
            grown = placed(tables, Grown(old.bvh, parts, uploaded.roots), old.bvh)
            old, parts = replace(old, bvh=grown.tree), grown.parts
    lit, pictures, glow = _lit(tables, scene, parts, form, old, uploaded.pictures, budget)
    corners = old.corners
    if lit["look"] != old.look:  # if corners are to have more, these tables will not do
        corners = _corners(scene, soup, _triangles(soup, 5)[:, :3], lit["look"], old)
    corner = old.corner
    if corners == old.corners and glow is not None and not np.array_equal(glow, uploaded.glow):
        corner = tables.named("triangle_corners", corner_rows(scene, soup, _triangles(soup, 5)[:, :3], corners, glow))
    data = replace(old, **lit, triangle=triangle, corner=corner, corners=corners)
    return replace(uploaded, data=data, parts=parts, kinds=kinds, variant=scene.variant, pictures=pictures, glow=glow)


def _as_kind(uploaded: Uploaded, parts: Parts, kinds: tuple[Kind, ...]) -> bool:
    """Whether all triangles are of the kinds that they were of when the trees were built."""
    if parts is uploaded.parts:
        return kinds == uploaded.kinds
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys((*uploaded.kinds, *kinds)))}
    before, now = (np.array([numbers[kind] for kind in told]) for told in (uploaded.kinds, kinds))
    if not np.array_equal(before[uploaded.parts.soup.material], now[parts.soup.material]):
        return False
    if parts.placings is None or uploaded.parts.placings is None:
        return True
    own, was = parts.placings.material, uploaded.parts.placings.material
    return np.array_equal(before[was[was >= 0]], now[own[own >= 0]])


def moved_to(uploaded: Uploaded, scene: Scene, numbers: Collection[int], *, group: int, budget: int = BUDGET) -> Uploaded | None:
    """The tables after instances of these numbers were placed anew, if only placings have changed: the trees of parts and the triangles
    are shared. None where there is more to do."""
    parts = moved(uploaded.parts, scene, numbers)
    if parts is None or parts.placings is None:
        return None
    tables, old = Tables(group), uploaded.data
    grown = placed(tables, Grown(old.bvh, parts, uploaded.roots), old.bvh)
    # The glow stays what the table of corners knows, even if materials are to be taken up next.
    lit, pictures, glow = _lit(tables, scene, grown.parts, old.bvh.form, old, uploaded.pictures, budget, uploaded.glow)
    return replace(uploaded, data=replace(old, bvh=grown.tree, **lit), parts=grown.parts, pictures=pictures, glow=glow)


def has_pictures(uploaded: Uploaded, scene: Scene) -> bool:
    """Whether what is on the device has all textures that the scene's materials have in slots that kernels read."""
    look, held = uploaded.data.look, uploaded.pictures
    used = {
        (ref.texture, slot, material.alpha_mode != "OPAQUE")
        for material in scene.materials
        for slot, ref in material.textures()
        if look.has(slot)
    }
    needed = [use for use in used if scene.textures[use[0]].image is not None]
    return all(held is not None and held.tables.holds(*use) for use in needed)


def structure(data: SceneData) -> tuple[Any, ...]:
    """Everything about a scene's tables that shapes the code of kernels; hashable."""
    tree, lights = data.bvh, data.lights
    places = [tree.places] if isinstance(tree, DeviceBVH) else []
    tables = (*places, data.triangle, data.material, *([lights.rows] if lights is not None else []))
    rows = tuple(table.shape[0] if isinstance(table.shape[0], int) else None for table in tables)  # None: a named size
    few = lights.few if lights is not None else None  # and else there is a tree of them
    levels = (tree, tree.top) if tree.top is not None else (tree,)
    shape = [getattr(level, f.name) for level in levels for f in fields(level) if "static" in f.metadata]
    there = (data.sky is not None, data.environment is not None, data.punctual is not None, data.shares is not None)
    return (tree.form, *shape, few, *there, rows, data.look, data.corners, data.textures.features if data.textures is not None else None)


def _triangles(soup: TriangleSoup, floats: int) -> NDArray[np.float32]:
    """float32[n, floats]: unit normal, material, longest edge."""
    e1, e2, cross, length = _edges(soup.positions)
    triangle = np.zeros((len(soup), floats), np.float32)
    triangle[:, :3] = cross / np.maximum(length, 1e-300)[:, None]
    triangle[:, 3] = bits(soup.material)
    triangle[:, 4] = _longest(e1, e2)
    return triangle


def _corners(scene: Scene, soup: TriangleSoup, face: NDArray[np.float32], look: Look, old: SceneData | None) -> Corners:
    """What kernels must know of corners, or the old ones' if that is enough."""
    corners = corners_of(scene, soup, face, look.directed, look.texcoords, look.has("emissive_texture"))
    return old.corners if old is not None and old.corners.covers(corners) else corners


def _edges(corners: NDArray[np.float32]) -> tuple[Any, Any, Any, Any]:
    """Two edges of triangles, their cross product and its length, float64."""
    p = corners.astype(np.float64)
    e1, e2 = p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]
    cross = np.cross(e1, e2)
    return e1, e2, cross, np.linalg.norm(cross, axis=1)


def _longest(e1: Any, e2: Any) -> Any:
    return np.sqrt(np.max([(e**2).sum(1) for e in (e1, e2, e2 - e1)], axis=0))


def _lit(
    tables: Tables, scene: Scene, parts: Parts, form: Form, old: SceneData | None, pictures: _Held | None, budget: int, glow: Any = None
) -> tuple[dict[str, Any], _Held | None, Any]:
    """The fields of `SceneData` that materials and lights decide: the table of materials, the lights, what surrounds the scene; the
    textures, those that are there already (`pictures`) if they are of this scene; and the glow of triangles (None: to be found)."""
    if not scene.materials:  # nothing has one, but there is no table without a row
        scene = replace(scene, materials=[Material()])
    look = look_of(scene.materials, _has_alpha(scene))
    if old is not None and old.look.covers(look):
        look = old.look
    pictures = _pictures(scene, pictures, budget) if look.slots else None
    if pictures is None:  # no image of them is to be had
        look = replace(look, slots=())
    emission = np.array([(0.0, 0.0, 0.0) if m.unlit else m.emissive for m in scene.materials], np.float64).reshape(-1, 3)
    luminance = emission @ LUMINANCE
    if glow is None and pictures is not None and look.has("emissive_texture"):
        glow = _glow(scene, parts.soup, pictures)
    lamps = parts.lamps(luminance > 0, glow)
    e1, e2, _, length = _edges(lamps.corners)
    share = 1.0 if glow is None else glow[lamps.triangle]
    power = length * 0.5 * luminance[lamps.material] * share
    total = float(power.sum())
    beyond = lights_beyond(scene, parts.bounds(), math.pi * total, tables.named)
    density = luminance / total * beyond.triangles if total > 0 else np.zeros(len(scene.materials))
    lights = None
    if total > 0:
        rows = np.zeros((len(power), LIGHT_ROW), np.float32)
        rows[:, 0:3], rows[:, 3:6], rows[:, 6:9] = lamps.corners[:, 0], e1, e2
        rows[:, 9:12] = emission[lamps.material]
        rows[:, 12] = density[lamps.material] * share
        two_sided = np.array([material.double_sided for material in scene.materials], bool)[lamps.material]
        rows[:, 13] = np.where(two_sided, lamps.placing + 1, -lamps.placing)
        rows[:, 14], rows[:, 15] = _longest(e1, e2), bits(lamps.triangle)
        before = old.lights.rows if old is not None and old.lights is not None else None
        alias = tree = None
        few = len(rows) <= FEW
        if few:
            table = alias_table(power)
            if form == "lone":
                rows = np.pad(rows, ((0, 0), (0, ALIAS_ROW)))
                rows[:, LIGHT_ROW], rows[:, LIGHT_ROW + 1] = table.probability, bits(table.alias)
            else:
                alias = AliasColumns(*(tables.made("lights", a, before) for a in (table.probability, table.alias)))
        else:
            tree = light_tree(parts, lamps, power, two_sided, tables.named)
        lights = Lights(alias, tables.made("lights", rows, before), count=len(rows), few=few, tree=tree)
    rows_before = old.material if old is not None and old.look == look else None
    number = pictures.tables.number if pictures is not None else lambda ref, slot, covers: -1
    made = {
        "material": tables.made("materials", material_rows(scene.materials, look, density, number), rows_before),
        "lights": lights, "look": look, "sky": beyond.sky,
        "environment": beyond.environment, "punctual": beyond.punctual, "shares": beyond.shares,
        "textures": pictures.tables.textures if pictures is not None else None,
        "glass": tables.named("glass", glass_table()) if look.layers.volume else None,
    }  # fmt: skip
    return made, pictures, glow


def _glow(scene: Scene, soup: TriangleSoup, pictures: _Held) -> NDArray[np.float64]:
    from renderer.scene.light_powers import glow_of  # where there are textured lamps

    return glow_of(scene, soup, pictures.tables)


def _decoded_beside(scene: Scene, held: _Held | None, budget: int) -> Callable[[], _Held | None]:
    """Decodes the scene's pictures, if they are not there already, while others build its trees: what to call for them, which waits, and
    raises what was raised meanwhile."""
    if not look_of(scene.materials, False).slots or (held is not None and held.textures is scene.textures):
        return lambda: held
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(1, thread_name_prefix="pictures")
    coming = pool.submit(_pictures, scene, held, budget)
    pool.shutdown(wait=False)
    return coming.result


def _pictures(scene: Scene, held: _Held | None, budget: int) -> _Held | None:
    """The textures of a scene, those that are there already if they are all it needs."""
    if held is not None and held.textures is scene.textures:
        return held
    from renderer.scene.texture_tables import texture_tables  # with the decoders of pictures: a good part of a first frame's imports

    made = texture_tables(scene, budget=budget, warn=lambda text: events.record("warning", message=text))
    return None if made is None else _Held(scene.textures, made)


def _has_alpha(scene: Scene) -> bool:
    """Whether some vertex has an alpha that is not 1."""
    return any(geometry.colours is not None and bool((geometry.colours[:, 3] < 1).any()) for _, _, geometry, _, _ in scene.placed())
