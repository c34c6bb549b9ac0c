"""Scenes of two levels: what is placed many times is held once, and is met, seen and lit as if every placing were written out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine import events
from renderer.bvh.traverse import Form
from renderer.pipeline.session import Session
from renderer.scene import parts as scene_parts
from renderer.scene.model import Copies, Geometry, Image, Material, Mesh, Scene, Texture
from renderer.scene.model_texture import TextureRef
from renderer.scene.parts import Parts, moved, parts_of
from renderer.scene.upload import moved_to, relit, structure, upload
from tests.renderer.helpers.crowds import crowd, placings
from tests.renderer.helpers.picture_files import png
from tests.renderer.helpers.pictures import Rendered, render
from tests.renderer.helpers.tracing import FAR, Embree, Floats, Hits, Tracer, device, edge_distance, random_rays
from tests.renderer.helpers.worlds import cube_grid, grey, icosphere, look_at, quad, soup, transformed

KINDS: list[tuple[Form, int]] = [("serial", 16), ("serial", 8), ("serial", 4), ("lone", 1)]
BALL, FLOOR = icosphere(3), quad([-6, -5, -6], [0, 0, 12], [12, 0, 0])
COUNT = 16  # balls that are enough for a scene of two levels


def many(count: int = COUNT, seed: int = 1, **options: Any) -> Scene:
    """Balls and boxes, strewn about, above a floor."""
    return crowd(placings(count, seed, **options), (BALL, grey(0.5)), (cube_grid(10), grey(0.7)), rest=(FLOOR, grey(0.5)))


def rays_about(scene: Scene, count: int, seed: int = 3) -> tuple[Floats, Floats]:
    bounds = scene.bounds()
    assert bounds is not None
    return random_rays(count, seed, *bounds.astype(np.float32))


def agree(ours: Hits, scene: Scene, origins: Floats, directions: Floats) -> None:
    """Hits are Embree's in the scene written out, to some units in the last place of its largest coordinate: on the way to a part and back
    numbers are rounded a few times. Where only one hits, the ray passes by an edge."""
    triangles = scene.triangles().positions
    theirs = Embree(triangles)(origins, directions)
    unit = float(np.abs(triangles).max()) * 2.0**-24
    judged = theirs.t > 8 * unit  # rays that begin on a surface
    apart = (ours.hit != theirs.hit) & judged
    assert apart.sum() <= len(origins) // 20_000
    first = np.flatnonzero(apart & theirs.hit)
    assert (edge_distance(triangles[theirs.triangle[first]], origins[first], directions[first]) < 1e-4).all()
    both = ours.hit & theirs.hit & judged
    assert both.mean() > 0.05
    slope = np.abs((directions * _normals(triangles)[np.maximum(theirs.triangle, 0)]).sum(1))
    allowed = np.maximum(1e-5 * theirs.t, 8 * unit / np.maximum(slope, 1e-3))
    assert (np.abs(ours.t[both] - theirs.t[both]) <= allowed[both]).mean() > 0.9998
    assert (ours.any == ours.hit).all()


def _normals(triangles: Floats) -> Floats:
    n = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    return n / np.linalg.norm(n, axis=1, keepdims=True)


# ---- hits ----


@pytest.mark.parametrize(("form", "group"), KINDS)
def test_crowds_are_hit_where_embree_hits_them_written_out(form: Form, group: int) -> None:
    scene = many(40)
    tracer = Tracer(scene, form, group)
    assert tracer.data.bvh.top is not None
    origins, directions = rays_about(scene, 40_000)
    agree(tracer(origins, directions), scene, origins, directions)


@pytest.mark.parametrize("form", ["serial", "lone"])
def test_the_interpreter_finds_the_same(form: Form) -> None:
    scene = many()
    origins, directions = rays_about(scene, 100)
    one, other = (Tracer(scene, form, backend=backend)(origins, directions) for backend in ("reference", "cpu"))
    assert (one.hit == other.hit).all() and one.hit.any()
    np.testing.assert_allclose(one.t[one.hit], other.t[one.hit], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("scale", "shift"), [(1e-3, 0.0), (1e3, 0.0), (1.0, 1e3)])
@pytest.mark.parametrize("form", ["serial", "lone"])
def test_it_does_not_matter_how_large_a_scene_is_or_where(form: Form, scale: float, shift: float) -> None:
    scene = transformed(many(), scale, (shift, 0, 0))
    scene.instances = [replace(instance, moving=True) for instance in scene.instances]
    origins, directions = rays_about(scene, 20_000)
    tracer = Tracer(scene, form)
    assert tracer.data.bvh.top is not None
    agree(tracer(origins, directions), scene, origins, directions)


@pytest.mark.parametrize("form", ["serial", "lone"])
def test_specks_in_a_wide_scene_are_hit(form: Form) -> None:
    """Balls of a millimetre in a scene of a hundred metres, from far away and at their middles."""
    worlds = placings(COUNT, 5, spread=50.0, stretch=(1e-3, 1e-3))
    scene = crowd(worlds, (BALL, grey(0.5)))
    random = np.random.default_rng(2)
    targets = np.repeat(worlds[:, :3, 3], 500, axis=0)
    origins = random.uniform(-50, 50, targets.shape).astype(np.float32)
    way = targets - origins
    distance = np.linalg.norm(way, axis=1)
    hits = Tracer(scene, form)(origins, (way / distance[:, None]).astype(np.float32))
    assert hits.hit.all() and hits.any.all()
    before = hits.t < distance - 2e-3  # another ball that stands before it
    assert (np.abs(hits.t - distance)[~before] < 1.1e-3 + 1e-5 * distance[~before]).all()


@pytest.mark.parametrize("form", ["serial", "lone"])
def test_no_ray_passes_between_the_triangles_of_a_part(form: Form) -> None:
    """From the middle of a closed ball every ray meets it, edges and corners included."""
    worlds = placings(COUNT, 9, spread=3.0)
    scene = crowd(worlds, (icosphere(3, inward=True), grey(0.5)))
    corners = scene.triangles().positions
    directions = np.concatenate([corners[:, 0], (corners[:, 0] + corners[:, 1]) / 2, corners.mean(1)])
    middles = np.repeat(worlds[:, :3, 3], len(corners) // COUNT, axis=0)
    order = np.argsort(np.argsort(worlds[:, 0, 3]))  # every ball's middle, with every direction that leads to it
    assert len(order) == COUNT
    origins = np.tile(middles, (3, 1)).astype(np.float32)
    hits = Tracer(scene, form)(origins, (directions - origins).astype(np.float32))
    assert hits.hit.all() and (hits.t <= 1 + 1e-4).all()


# ---- pictures ----


CHECKS = (np.indices((8, 8)).sum(0) % 2 * 200 + 40).astype(np.uint8)
BUMPS = np.random.default_rng(4).normal((0.0, 0.0, 1.0), (0.25, 0.25, 0.1), (16, 16, 3))


def patterned(scene: Scene, material: Material) -> Scene:
    """The scene with smooth normals, texture coordinates, colours at the vertices and pictures, for materials that want them."""
    bumps = (np.clip(BUMPS, -1, 1) * 127 + 128).astype(np.uint8)
    images = [Image(name, png(pixels), name) for name, pixels in (("checks", np.stack([CHECKS] * 3, -1)), ("bumps", bumps))]
    meshes = []
    for mesh in scene.meshes:
        geometry = mesh.geometries[0]
        p = geometry.positions
        n = p / np.linalg.norm(p, axis=1, keepdims=True)
        uv = np.stack([np.arctan2(n[:, 0], n[:, 2]) / np.pi, n[:, 1]], 1).astype(np.float32)
        tangents = np.cross([0.0, 1.0, 0.1], n)
        tangents /= np.linalg.norm(tangents, axis=1, keepdims=True)
        side = np.where(n[:, :1] > 0, 1.0, -1.0)
        colours = np.concatenate([np.abs(n), np.ones((len(n), 1))], 1)
        arrays = {"normals": n, "tangents": np.concatenate([tangents, side], 1), "colours": colours}
        meshes.append(Mesh(mesh.name, [replace(geometry, texcoords=(uv,), **{k: v.astype(np.float32) for k, v in arrays.items()})]))
    return replace(
        scene, meshes=meshes, images=images, textures=[Texture(0), Texture(1)], materials=[material, *scene.materials[1:]]
    )  # fmt: skip


def lamp(**values: Any) -> Material:
    return replace(grey(0.5), emissive=(4.0, 3.0, 2.0), **values)


def both_ways(scene: Scene, **options: Any) -> tuple[Rendered, Rendered]:
    """The scene in two levels, and written out."""
    on = device(options.get("backend", "cpu"), options.get("group"))
    held = [upload(scene, group=on.group_width, form="lone" if on.group_width == 1 else "serial", shared=way) for way in (True, False)]
    assert held[0].parts.placings is not None and held[1].parts.placings is None
    two, one = (render(scene, (48, 32), spp=4, depth=3, data=data, **options) for data in held)
    return two, one


LOOKS = {
    "matt": grey(0.5),
    "patterned": replace(grey(0.8), base_color_texture=TextureRef(0), normal_texture=TextureRef(1)),
    "brushed": replace(grey(0.8), metallic=1.0, roughness=0.4, normal_texture=TextureRef(1), metallic_roughness_texture=TextureRef(0)),
    "lamps": lamp(),
    "lamps from both sides": lamp(double_sided=True),
    "pictured lamps": lamp(emissive_texture=TextureRef(0)),
    "masked": replace(grey(0.8), base_color_texture=TextureRef(0), alpha_mode="BLEND", base_color_factor=(1.0, 1.0, 1.0, 0.5)),
}


def scene_with(name: str) -> Scene:
    bare = crowd(placings(COUNT, 2, spread=3.0), (BALL, LOOKS[name]), rest=(FLOOR, grey(0.5)), camera=look_at([0, 1, 11], [0, 0, 0]))
    return bare if name in ("matt", "lamps") else patterned(bare, LOOKS[name])


@pytest.mark.parametrize("backend", ["cpu", "opencl"])
@pytest.mark.parametrize("name", [name for name in LOOKS if "lamps" not in name])
def test_a_crowd_looks_as_it_does_written_out(name: str, backend: str) -> None:
    """The same paths meet the same things, but for the few that rounding sends another way."""
    two, one = both_ways(scene_with(name), backend=backend)
    assert two.refused == one.refused == 0 and one.mean.max() > 0.1
    same = np.abs(two.mean - one.mean).max(-1) <= 2e-3 * (1 + one.mean.max(-1))
    assert same.mean() > 0.97
    assert np.abs(two.mean.mean((0, 1)) - one.mean.mean((0, 1))).max() < 0.02 * one.mean.mean()


@pytest.mark.parametrize("backend", ["cpu", "opencl"])
@pytest.mark.parametrize("name", [name for name in LOOKS if "lamps" in name])
def test_a_crowd_of_lamps_gives_the_light_that_it_gives_written_out(name: str, backend: str) -> None:
    """The lamps have other numbers, so the same random number finds another one: pictures differ by their noise."""
    two, one = both_ways(scene_with(name), backend=backend, frames=16)
    noise = np.hypot(two.deviation, one.deviation)
    away = np.abs(two.mean.astype(np.float64) - one.mean)
    assert one.mean.max() > 1 and (away <= 5 * noise + 2e-3 * (1 + one.mean)).mean() > 0.985
    whole = two.mean.mean((0, 1)) - one.mean.mean((0, 1))
    assert (np.abs(whole) < 4 * np.sqrt((noise**2).sum((0, 1))) / one.mean[..., 0].size + 1e-3 * one.mean.mean()).all()


# ---- what is a part ----


def unique(parts: Parts) -> int:
    return len(parts.soup)


def test_memory_grows_with_what_is_different() -> None:
    few, more = (upload(crowd(placings(count, 1), (BALL, grey(0.5))), group=16) for count in (20, 220))
    assert unique(few.parts) == unique(more.parts) == len(BALL)
    assert (more.bytes - few.bytes) / 200 < 300  # a row and a leaf each


def shares(scene: Scene) -> bool:
    return parts_of(replace(scene, instances=[replace(i, moving=False) for i in scene.instances])).placings is not None


def test_scenes_are_shared_where_it_saves_much() -> None:
    assert shares(crowd(placings(60, 1), (BALL, grey(0.5))))
    assert not shares(crowd(placings(40, 1), (BALL, grey(0.5)))), "small as it is"
    assert not shares(crowd(placings(60, 1, spread=0.1), (BALL, grey(0.5)))), "a ray would be in nearly all of them"
    assert not shares(crowd(placings(6000, 1), (soup(12, 1), grey(0.5)))), "things of a few triangles are cheaper written out"
    once = soup(60_000, 2)
    assert not shares(crowd(placings(60, 1), (BALL, grey(0.5)), rest=(once, grey(0.5)))), "most of it is there once"


def test_what_is_flat_or_not_finite_is_written_out() -> None:
    worlds = placings(COUNT + 2, 1)
    worlds[0, :3, :3] = np.diag([1.0, 1.0, 0.0])
    worlds[1, 0, 3] = np.nan
    parts = parts_of(crowd(worlds, (BALL, grey(0.5))))
    assert parts.placings is not None and sorted(parts.placings.instance) == [-1, *range(2, COUNT + 2)]
    assert parts.world_triangles > 0 and parts.soup.non_finite == len(BALL)
    assert parts_of(crowd(worlds[:2], (soup(20_000, 1), grey(0.5)))).placings is None


def test_dropped_triangles_count_wherever_they_are_placed() -> None:
    flat = np.concatenate([BALL, np.zeros((3, 3, 3), np.float32)])
    scene = crowd(placings(COUNT, 1), (flat, grey(0.5)))
    parts = parts_of(scene)
    assert parts.placings is not None and parts.soup.degenerate == scene.triangles().degenerate == 3 * COUNT


def test_the_same_arrays_are_one_part_whatever_their_materials() -> None:
    scene = crowd(placings(COUNT, 1), (BALL, grey(0.1)), (BALL, grey(0.9)))
    one = scene.meshes[0].geometries[0]
    same = replace(one, material=1)
    parts = parts_of(replace(scene, meshes=[scene.meshes[0], Mesh("same", [same])]))
    assert parts.placings is not None and unique(parts) == len(BALL)
    assert (parts.placings.material == parts.placings.instance % 2).all()
    pair = [Mesh(name, [replace(one, material=m), replace(one, material=1 - m)]) for m, name in enumerate("ab")]
    parts = parts_of(replace(scene, meshes=pair))
    assert unique(parts) == 4 * len(BALL), "parts of several geometries say what they are made of"


def test_lamps_are_those_of_the_scene_written_out() -> None:
    scene = crowd(placings(COUNT, 3), (BALL, lamp()), (cube_grid(9), grey(0.5)), rest=(FLOOR, lamp()))
    shines = np.array([m.is_emissive for m in scene.materials])
    found, want = parts_of(scene).lamps(shines), parts_of(scene, shared=False).lamps(shines)

    def ordered(corners: Floats) -> Floats:
        rows = corners.reshape(len(corners), -1)
        return rows[np.lexsort(np.round(rows, 3).T)]

    assert len(found.corners) == len(want.corners) == COUNT // 2 * len(BALL) + len(FLOOR)
    np.testing.assert_allclose(ordered(found.corners), ordered(want.corners), atol=2e-6)


def test_a_hundred_thousand_placings_are_one_tree() -> None:
    worlds = placings(100_000, 1, spread=100.0)
    scene = crowd(worlds[:1], (icosphere(1), grey(0.5)))
    turns = np.tile(np.array([0, 0, 0, 1], np.float32), (len(worlds), 1))
    copies = Copies(worlds[:, :3, 3].astype(np.float32), turns, np.ones((len(worlds), 3), np.float32))
    scene.instances = [replace(scene.instances[0], world=np.eye(4), copies=copies, moving=False)]
    held = upload(scene, group=16, keep=False)
    assert held.parts.placings is not None and len(held.parts.placings) == 100_000 and unique(held.parts) == 80
    assert held.bytes < 25e6


def test_a_variant_is_drawn_as_if_it_had_been_loaded_and_the_trees_are_kept() -> None:
    scene = crowd(placings(COUNT, 3), (BALL, grey((0.9, 0.1, 0.1))), (cube_grid(9), grey((0.1, 0.9, 0.1))), rest=(FLOOR, grey(0.5)))
    scene.materials.append(grey((0.1, 0.1, 0.9)))
    for mesh in scene.meshes:
        mesh.geometries[0] = replace(mesh.geometries[0], variants={0: 3} if mesh.name != "kind 1" else {})
    scene.variants = ["blue"]
    group = device().group_width
    held = upload(scene, group=group)
    shown = replace(scene, variant=0)
    again = relit(held, shown, group=group)
    assert again.data.bvh.leaf is held.data.bvh.leaf and structure(again.data) == structure(held.data)  # type: ignore[union-attr]
    options: dict[str, Any] = {"spp": 2, "depth": 2}
    blue, want, plain = (render(scene, (48, 32), data=data, **options).mean for data in (again, upload(shown, group=group), held))
    np.testing.assert_array_equal(blue, want)
    assert (blue != plain).any()
    np.testing.assert_array_equal(render(scene, (48, 32), data=relit(again, scene, group=group), **options).mean, plain)


# ---- what moves ----


def test_moving_an_instance_rebuilds_only_the_top() -> None:
    scene = many()
    group = device().group_width
    held = upload(scene, group=group)
    world = scene.instances[3].world.copy()
    world[:3, 3] += (0.5, -0.25, 1.0)
    edited = replace(scene, instances=[replace(i, world=world) if k == 3 else i for k, i in enumerate(scene.instances)])
    again = moved_to(held, edited, [3], group=group)
    assert again is not None and structure(again.data) == structure(held.data)
    assert again.data.bvh.leaf is held.data.bvh.leaf and again.data.triangle is held.data.triangle  # type: ignore[union-attr]
    options: dict[str, Any] = {"spp": 2, "depth": 2}
    there, want = (render(edited, (48, 32), data=data, **options).mean for data in (again, upload(edited, group=group)))
    np.testing.assert_array_equal(there, want)
    assert (there != render(scene, (48, 32), data=held, **options).mean).any()


def test_what_is_in_the_worlds_part_cannot_be_moved_alone() -> None:
    scene = many()
    parts = parts_of(scene)
    floor = len(scene.instances) - 1
    assert moved(parts, scene, [floor]) is None and moved(parts, scene, [0]) is not None
    flattened = scene.instances[0].world * np.array([1, 1, 0, 1])
    scene.instances[0] = replace(scene.instances[0], world=flattened)
    assert moved(parts, scene, [0]) is None, "as good as flat: written out from now on"


def test_a_session_takes_up_what_has_moved_and_compiles_nothing() -> None:
    scene = many()
    session = Session(scene, width=32, height=24, backend="cpu")
    session.frame()
    before, first = events.counters.copy(), session.mean()
    world = scene.instances[0].world.copy()
    world[:3, 3] = (0.0, 0.0, 2.0)
    scene.instances[0] = replace(scene.instances[0], world=world)
    assert session.update_instances([0])
    session.frame()
    assert (events.counters - before).compiles == 0 and (session.mean() != first).any()
    session.close()


def test_the_first_move_in_a_large_scene_needs_another_session_and_the_next_does_not() -> None:
    scene = many()
    scene.instances = [replace(instance, moving=False) for instance in scene.instances]
    session = Session(scene, width=16, height=16, backend="cpu")
    scene.instances[2] = replace(scene.instances[2], moving=True)
    assert not session.update_instances([2])
    session.close()
    session = Session(scene, width=16, height=16, backend="cpu")
    assert session.update_instances([2])
    scene.instances[4] = replace(scene.instances[4], moving=True)
    assert session.update_instances([4]), "another one becomes a part: the same kernels"
    session.close()


def test_a_click_finds_the_instance_and_its_own_material() -> None:
    worlds = np.tile(np.eye(4), (COUNT, 1, 1))
    worlds[:, 0, 3] = 3.0 * np.arange(COUNT)
    scene = crowd(worlds, (BALL, grey(0.1)), (BALL, grey(0.9)), camera=look_at([12, 0, 10], [12, 0, 0]))
    scene.meshes[1] = Mesh("same", [replace(scene.meshes[0].geometries[0], material=1)])
    for backend in ("cpu", "opencl"):
        on = device(backend)
        session = Session(scene, width=65, height=65, device=on)
        session.prepare_pick()
        found = session.pick(32, 32)
        assert found is not None and (found.instance, found.material, found.geometry) == (4, 0, 0)
        np.testing.assert_allclose(found.point, [12, 0, 1], atol=0.05)
        session.close()


def test_thresholds_are_what_the_head_of_the_file_says() -> None:
    """A scene just below and just above three quarters saved."""
    triangles = 1 << 15
    kinds = [Geometry(np.zeros((3, 3), np.float32), np.zeros((triangles, 3), np.uint32), None, 0)]
    assert scene_parts.SHARED <= 4 * triangles < 4 * scene_parts.MUCH
    for count, shared in ((3, False), (4, True)):
        scene = crowd(placings(count, 1), (BALL, grey(0.5)))
        scene.meshes[0] = Mesh("kind", kinds)
        uses = scene_parts._uses(replace(scene, instances=[replace(i, moving=False) for i in scene.instances]))
        assert bool(scene_parts._divided(replace(scene, instances=[replace(i, moving=False) for i in scene.instances]), uses)[1]) is shared


def test_rays_have_their_length_in_every_part() -> None:
    """The distance of a hit does not depend on how a part is stretched."""
    scene = crowd(placings(COUNT, 8, stretch=(0.01, 0.3)), (BALL, grey(0.5)))
    origins, directions = rays_about(scene, 5000)
    hits = Tracer(scene, "serial")(origins, directions * np.float32(3.0), FAR)
    single = Tracer(scene, "serial")(origins, directions, FAR)
    np.testing.assert_allclose(hits.t[hits.hit] * 3.0, single.t[hits.hit], rtol=1e-4, atol=1e-5)
