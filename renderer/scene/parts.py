"""A scene as parts and placings: what a two-level BVH is built from.

A part is some triangles in coordinates of their own, about the middle of their box; a placing says where one stands. What is placed many
times is a part, so that memory grows with what is different and not with what is drawn; so is what moves (`Instance.moving`), so that
moving it leaves the trees of all parts alone. All the rest is one part more, the world's, which stands where it is: fewer trees that lie
upon each other are faster to trace. Most scenes are nothing but the world's part, in its own coordinates, and have no placings.

Meshes are the same part where they have the same arrays, even where their materials differ: files refer to the same accessors again and
again. A part of one geometry takes its material from its placing then.

Sharing has its price where parts overlap, since a ray walks each of their trees from the root (`docs/performance.md`), and gains where
less memory is touched. So a scene is shared where that saves three quarters of what would be held and parts do not crowd each other, or
where it saves very much. Things of few triangles are not worth a placing, and those that are placed as good as flat have no way back from
the world to the part: both go to the world's part.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renderer.scene.model import QUIET, Geometry, Scene
from renderer.scene.model_texture import TextureRef
from renderer.scene.soup import Float32s, Float64s, Placed, TriangleSoup, flattened, geometries_of, joined, transform

SHARED = 65_536  # triangles drawn, from which a scene may be shared
MUCH = 1_048_576  # triangles saved, that are worth it whatever is drawn
CROWDED = 16.0  # placings that a ray meets in the mean, above which sharing less than that is too dear
FEWEST = 16  # triangles of a mesh that is worth placings
MOST_PARTS = 4096  # a tree each
MOVABLE = 16_384  # triangles drawn, from which what moves is a part: less is built again in no time
NARROWEST = 1e-4  # of a placing's largest stretch, its least: below it stands as good as flat
FINEST, COARSEST = 1e-9, 1e9  # stretches of placings, beyond which floats do not go there and back
FARTHEST = 1e18  # coordinates of placings, the squares of which are floats


@dataclass(frozen=True)
class Placings:
    """Where parts stand, n times. part: int32[n]; world: float64[n, 4, 4], the part to the world; instance: int32[n], number in
    `Scene.instances`, -1 for the world's part, whose triangles know; copy: int32[n], which of the instance's placings; material: int32[n],
    of all triangles, -1 where they say it themselves."""

    part: NDArray[np.int32]
    world: Float64s
    instance: NDArray[np.int32]
    copy: NDArray[np.int32]
    material: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.part)

    def only(self, which: NDArray[np.integer[Any]]) -> Placings:
        """Those of these numbers, in this order."""
        return Placings(*(getattr(self, each.name)[which] for each in fields(self)))


class Kind(NamedTuple):
    """What of a material the triangles of a part have in common wherever they are placed."""

    shows_back: bool
    emissive_texture: TextureRef | None


def kinds_of(scene: Scene) -> tuple[Kind, ...]:
    """The kinds of the scene's materials."""
    return tuple(Kind(material.shows_back or not scene.culled, material.emissive_texture) for material in scene.materials)


class Lamps(NamedTuple):
    """Triangles that shine, n of them: float32[n, 3, 3], their corners in the world, counter-clockwise from the front; int32[n] each, their
    materials, their numbers in the soup, their placings' (0 where there are none), and the how manieth they are of their placing, whose
    lamps stand together in the order of these ranks."""

    corners: Float32s
    material: NDArray[np.int32]
    triangle: NDArray[np.int32]
    placing: NDArray[np.int32]
    rank: NDArray[np.int32]


@dataclass(frozen=True)
class Parts:
    """`soup`: the triangles of all parts, one part after another, each in its own coordinates; `first`: int64[parts + 1], where each
    begins; `middle`: float64[parts, 3], what was its middle, in the coordinates of its mesh; `half`: float64[parts, 3], half the sides of
    its box about the origin; `placings`: None where all is one part that stands in the world as it is.

    In a soup of parts that are placed, `instance` is that of one placing of the part, and `degenerate` and `non_finite` count what was
    dropped as often as it is placed.
    """

    soup: TriangleSoup
    first: NDArray[np.int64]
    middle: Float64s
    half: Float64s
    placings: Placings | None

    def lamps(self, shines: NDArray[np.bool_], glow: Float64s | None = None) -> Lamps:
        """Every triangle as placed of materials that shine, bool[materials]; `glow`: float64[triangles], 0 where they do not after all."""
        soup, placings = self.soup, self.placings
        glows = np.ones(len(soup), bool) if glow is None else glow > 0
        if placings is None:
            which = np.flatnonzero(shines[soup.material] & glows)
            none, ranks = np.zeros(len(which), np.int32), np.arange(len(which), dtype=np.int32)
            return Lamps(soup.positions[which], soup.material[which], which.astype(np.int32), none, ranks)
        found = [Lamps(soup.positions[:0], *(np.zeros(0, np.int32),) * 4)]
        for part in np.unique(placings.part) if shines.any() else ():
            first, last = self.first[part : part + 2]
            numbers = np.flatnonzero(placings.part == part)
            own = placings.material[numbers]
            numbers = numbers[(own < 0) | shines[own]]
            which = first + np.flatnonzero(glows[first:last] & ((own >= 0).any() | shines[soup.material[first:last]]))
            if len(which) and len(numbers):
                found.append(self._lit(which, numbers))
        return Lamps(*(np.concatenate(columns) for columns in zip(*found, strict=True)))

    def _lit(self, which: NDArray[np.int64], numbers: NDArray[np.intp]) -> Lamps:
        """Triangles of a part at placings of it, one placing after another."""
        assert self.placings is not None
        worlds, own = self.placings.world[numbers], self.placings.material[numbers]
        corners = transform(self.soup.positions[which].reshape(-1, 3), worlds).astype(np.float32).reshape(len(worlds), -1, 3, 3)
        mirrored = np.linalg.det(worlds[:, :3, :3]) < 0
        corners[mirrored] = corners[mirrored][:, :, [0, 2, 1]]
        material = np.where(own[:, None] < 0, self.soup.material[which], own[:, None]).astype(np.int32)
        triangle = np.broadcast_to(which.astype(np.int32), material.shape)
        placing = np.broadcast_to(numbers.astype(np.int32)[:, None], material.shape)
        rank = np.broadcast_to(np.arange(len(which), dtype=np.int32), material.shape)
        return Lamps(corners.reshape(-1, 3, 3), *(a.reshape(-1) for a in (material, triangle, placing, rank)))

    def boxes(self) -> Float64s:
        """float64[n, 2, 3]: the box of each placing in the world, (low, high), around its turned box."""
        assert self.placings is not None
        linear, shift = self.placings.world[:, :3, :3], self.placings.world[:, :3, 3]
        reach = (np.abs(linear) @ self.half[self.placings.part][:, :, None])[:, :, 0]
        return np.stack([shift - reach, shift + reach], 1)

    @property
    def world_triangles(self) -> int:
        """Of the world's part, which comes first, if there is one."""
        alone = self.placings is None or (self.placings.instance < 0).any()
        return int(self.first[1]) if alone else 0

    def bounds(self) -> Float64s:
        """float64[2, 3]: a box of all that is drawn (low, high). There must be something."""
        if self.placings is None:
            corners = self.soup.positions.reshape(-1, 3).T  # by axis: reductions along rows are quick
            return np.array([[axis.min() for axis in corners], [axis.max() for axis in corners]], np.float64)
        boxes = self.boxes()
        return np.stack([boxes[:, 0].min(0), boxes[:, 1].max(0)])


class _Use(NamedTuple):
    """A mesh as drawn: its geometries with their numbers and materials; int32[k] instances, int32[k] which of the placings of each, and
    float64[k, 4, 4] where they stand."""

    geometries: list[tuple[int, Geometry, int]]
    ids: NDArray[np.int32]
    copies: NDArray[np.int32]
    worlds: Float64s

    @property
    def triangles(self) -> int:
        """Of one placing."""
        return sum(len(geometry.indices) for _, geometry, _ in self.geometries)

    def key(self, kinds: Sequence[Kind]) -> tuple[Any, ...]:
        """What equal parts have in common: the arrays, their numbers in the mesh, and their materials, in all variants, or if a placing
        can say that the kind of the one. `kinds`: of each material."""
        arrays = [(n, *map(id, (g.positions, g.indices, g.normals, g.tangents, g.colours, *g.texcoords))) for n, g, _ in self.geometries]
        if len(arrays) == 1:
            return (*arrays, kinds[self.geometries[0][2]])
        return (*arrays, *((g.material, *sorted(g.variants.items())) for _, g, _ in self.geometries))

    def only(self, which: NDArray[np.bool_]) -> _Use:
        """Some of its placings."""
        return _Use(self.geometries, self.ids[which], self.copies[which], self.worlds[which])

    def placed(self) -> list[Placed]:
        """Each geometry with all its placings."""
        return [(self.ids, number, geometry, material, self.worlds) for number, geometry, material in self.geometries]


class _Part(NamedTuple):
    """A part and where it stands: int32[k], int32[k], float64[k, 4, 4], int32[k]."""

    soup: TriangleSoup
    ids: NDArray[np.int32]
    copies: NDArray[np.int32]
    worlds: Float64s
    materials: NDArray[np.int32]


@QUIET
def parts_of(scene: Scene, *, shared: bool = True) -> Parts:
    """The parts of a scene. `shared`: False for one part, the world's, whatever is in it."""
    uses = _uses(scene)
    rest, groups = _divided(scene, uses) if shared else (uses, [])
    world = flattened(place for use in rest for place in use.placed())
    if not groups:
        return _alone(world)
    parts = [_part(group) for group in groups]
    none = np.full(1, -1, np.int32)
    parts.insert(0, _Part(world, none, none, np.eye(4)[None], none))
    dropped: dict[str, Any] = {name: sum(getattr(part.soup, name) for part in parts) for name in ("degenerate", "non_finite")}
    there = [part for part in parts if len(part.soup)]
    if not there:
        return replace(_alone(world), soup=replace(world, **dropped))
    return _gathered(there, dropped)


def counts_of(scene: Scene) -> tuple[int, int]:
    """How many triangles the parts of a scene have together, and how many placings there are (0: all is the world's part), counted without
    making them; those that no ray can hit are among them."""
    rest, groups = _divided(scene, _uses(scene))
    alone = sum(use.triangles * len(use.ids) for use in rest)
    if not groups:
        return alone, 0
    placings = sum(len(use.ids) for group in groups for use in group)
    return alone + sum(group[0].triangles for group in groups), placings + bool(alone)


def _alone(world: TriangleSoup) -> Parts:
    """A scene that is one part, and stands where it is."""
    return Parts(world, np.array([0, len(world)]), np.zeros((1, 3)), np.zeros((1, 3)), None)


def movable(scene: Scene, numbers: Collection[int]) -> bool:
    """Whether some of these instances are parts of their own: the scene is large, and they move and do not stand as good as flat."""
    some = (scene.instances[number] for number in numbers)
    upright = any(instance.moving and _upright(instance.worlds()).any() for instance in some)
    return upright and scene.totals().triangles >= MOVABLE


def _uses(scene: Scene) -> list[_Use]:
    """Meshes as drawn, in the order of `Scene.placed`."""
    uses: dict[int, _Use] = {}
    for ids, number, geometry, material, worlds in scene.placed():
        copies = (np.arange(len(ids)) - np.searchsorted(ids, ids)).astype(np.int32)  # numbers of instances ascend
        use = uses.setdefault(int(ids[0]), _Use([], ids, copies, worlds))  # an instance has one mesh
        use.geometries.append((number, geometry, material))
    return list(uses.values())


def _divided(scene: Scene, uses: list[_Use]) -> tuple[list[_Use], list[list[_Use]]]:
    """What belongs to the world's part, and groups of what shares a part."""
    drawn = sum(use.triangles * len(use.ids) for use in uses)
    if drawn < MOVABLE:
        return uses, []
    kinds = kinds_of(scene)
    moving = np.array([instance.moving for instance in scene.instances], bool)
    apart: dict[tuple[Any, ...], list[_Use]] = {}
    rest: list[_Use] = []
    several: dict[tuple[Any, ...], list[tuple[_Use, NDArray[np.bool_]]]] = {}
    for use in uses:
        key, upright = use.key(kinds), _upright(use.worlds)
        several.setdefault(key, []).append((use, upright))
    counts = {key: sum(int(upright.sum()) for _, upright in members) for key, members in several.items()}
    saved = {k: (counts[k] - 1) * members[0][0].triangles for k, members in several.items() if members[0][0].triangles >= FEWEST}
    best = sorted((k for k in saved if saved[k] > 0), key=lambda k: -saved[k])[:MOST_PARTS]
    spared = sum(saved[k] for k in best)
    worth = drawn >= SHARED and (spared >= MUCH or (4 * spared >= 3 * drawn and _crowding([several[k] for k in best]) <= CROWDED))
    sharing = set(best) if worth else set()
    for key, members in several.items():
        for use, upright in members:
            mine = upright & (moving[use.ids] | (key in sharing))
            if mine.any():
                apart.setdefault(key, []).append(use.only(mine))
            if not mine.all():
                rest.append(use.only(~mine))
    return rest, list(apart.values())


def _crowding(shared: list[list[tuple[_Use, NDArray[np.bool_]]]]) -> float:
    """How many boxes of placings a line through all of them meets, in the mean: their areas over that of the box around them, since lines
    that meet a convex body meet another in it as the areas are (Crofton)."""
    lows, highs = [], []
    for use, upright in (member for members in shared for member in members):
        corners = np.concatenate([geometry.positions for _, geometry, _ in use.geometries]).astype(np.float64)
        corners = corners[np.isfinite(corners).all(1)]
        if not len(corners) or not upright.any():
            continue
        low, high = corners.min(0), corners.max(0)
        middle = transform(((low + high) / 2)[None], use.worlds[upright])[:, 0]
        reach = np.abs(use.worlds[upright][:, :3, :3]) @ ((high - low) / 2)
        lows.append(middle - reach)
        highs.append(middle + reach)
    if not lows:
        return 0.0
    low, high = np.concatenate(lows), np.concatenate(highs)
    size = np.concatenate([high - low, [high.max(0) - low.min(0)]])
    areas = (size * np.roll(size, 1, 1)).sum(1)
    return float(areas[:-1].sum() / areas[-1])


def _upright(worlds: Float64s) -> NDArray[np.bool_]:
    """bool[k]: which placings have a way back that floats can go."""
    linear = worlds[:, :3, :3]
    there = np.asarray(np.isfinite(worlds).all((1, 2)))
    least, most = stretches(np.where(there[:, None, None], linear, 0.0))
    near = np.abs(worlds[:, :3, 3]).max(1, initial=0.0) < FARTHEST
    return np.asarray(there & near & (least > NARROWEST * most) & (least > FINEST) & (most < COARSEST))


def stretches(linear: Float64s) -> tuple[Float64s, Float64s]:
    """The least and the most by which maps float64[k, 3, 3] stretch: float64[k] each."""
    found: Any = np.linalg.svd(linear, compute_uv=False)
    return found[:, -1], found[:, 0]


def _part(group: list[_Use]) -> _Part:
    """What the members of a group share, and where it stands."""
    one = group[0]
    soup = flattened((one.ids[:1], number, geometry, material, np.eye(4)[None]) for number, geometry, material in one.geometries)
    ids, copies, worlds = (np.concatenate([getattr(use, name) for use in group]) for name in ("ids", "copies", "worlds"))
    materials = [np.full(len(use.ids), use.geometries[0][2] if len(one.geometries) == 1 else -1, np.int32) for use in group]
    more = len(ids) - 1
    return _Part(_with_dropped(soup, soup.degenerate * more, soup.non_finite * more), ids, copies, worlds, np.concatenate(materials))


def _with_dropped(soup: TriangleSoup, degenerate: int, non_finite: int) -> TriangleSoup:
    return replace(soup, degenerate=soup.degenerate + degenerate, non_finite=soup.non_finite + non_finite)


def _gathered(parts: list[_Part], dropped: dict[str, Any]) -> Parts:
    """Parts with triangles, about their middles; `dropped`: how many triangles of the scene were."""
    soups, middles, halves, worlds = [], [], [], []
    for part in parts:
        corners = part.soup.positions.astype(np.float64)
        low, high = corners.min((0, 1)), corners.max((0, 1))
        middle = (low + high) / 2
        soups.append(replace(part.soup, positions=(corners - middle).astype(np.float32)))
        middles.append(middle)
        halves.append((high - low) / 2)
        worlds.append(_from_middle(part.worlds, middle))
    placings = Placings(
        np.repeat(np.arange(len(parts), dtype=np.int32), [len(part.ids) for part in parts]),
        np.concatenate(worlds),
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.copies for part in parts]),
        np.concatenate([part.materials for part in parts]),
    )
    soup = replace(joined(soups), **dropped)
    first = np.cumsum([0, *(len(part.soup) for part in parts)])
    return Parts(soup, first, np.array(middles), np.array(halves), placings)


def _from_middle(worlds: Float64s, middle: Float64s) -> Float64s:
    """Where what is about a middle stands, float64[k, 4, 4] or float64[4, 4]; middle: float64[3] or float64[k, 3]."""
    result = worlds.copy()
    result[..., :3, 3] += (worlds[..., :3, :3] @ middle[..., None])[..., 0]
    return result


@QUIET
def moved(parts: Parts, scene: Scene, numbers: Collection[int]) -> Parts | None:
    """The same parts after instances of these numbers have been placed anew; None where it takes another division, because one of them is
    in the world's part, stands as good as flat now, or was so small that nothing of it was there."""
    placings, wanted = parts.placings, np.array(sorted(numbers), np.int32)
    if np.isin(wanted, parts.soup.instance[: parts.world_triangles]).any():
        return None
    if placings is None:
        return parts  # nothing of them is drawn
    world = placings.world.copy()
    for number in wanted:
        mine, instance = np.flatnonzero(placings.instance == number), scene.instances[number]
        if len(mine) != instance.count and any(len(geometry.indices) for geometry in scene.meshes[instance.mesh].geometries):
            return None
        placed = instance.worlds()[placings.copy[mine]]
        if not _upright(placed).all():
            return None
        world[mine] = _from_middle(placed, parts.middle[placings.part[mine]])
    return replace(parts, placings=replace(placings, world=world))


def repainted(parts: Parts, scene: Scene) -> Parts:
    """The same parts in the materials of the variant that the scene shows now."""
    soup, placings = parts.soup, parts.placings
    material = soup.material.copy()
    for geometry, run in geometries_of(scene, soup):
        material[run] = geometry.material_in(scene.variant)
    soup = replace(soup, material=material)
    if placings is None:
        return replace(parts, soup=soup)
    own = placings.material.copy()
    for number in np.flatnonzero(own >= 0):
        mesh = scene.instances[placings.instance[number]].mesh
        (geometry,) = (g for g in scene.meshes[mesh].geometries if len(g.indices))
        own[number] = geometry.material_in(scene.variant)
    return replace(parts, soup=soup, placings=replace(placings, material=own))
