"""Tables of scenes: other sizes run the same kernels, edits replace what they change, and the structure says when that is not enough."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import Jitted, Tensor
from renderer.bvh.traverse import LoneBVH
from renderer.pipeline.camera import camera_data
from renderer.pipeline.film import Films
from renderer.pipeline.frame import FrameSettings, Numbers, make_frame
from renderer.scene.gltf import load
from renderer.scene.model import Environment, Instance, Scene
from renderer.scene.upload import Uploaded, relit, structure, upload
from tests.renderer.helpers.tracing import Embree, Tracer, device, random_rays
from tests.renderer.helpers.worlds import cube_grid, grey, icosphere, look_at, quad, scene_of, soup

GROUP = 16


def arrays(held: Uploaded) -> list[Tensor]:
    data, tree = held.data, held.data.bvh
    if isinstance(tree, LoneBVH):
        found = [tree.nodes, tree.pairs, data.triangle, data.material]
    else:
        found = [tree.bounds, tree.leaf, data.triangle, data.material, tree.places]
        found += [tree.child, tree.child_count, tree.axis, tree.leaf_count]
    if data.lights is not None:
        found += [data.lights.rows, *(data.lights.alias or ())]
    return found


def draw(run: Jitted, held: Uploaded, scene: Scene) -> np.ndarray[Any, Any]:
    film, picture = Films().of(12, 8)
    run(held.data, film, picture, camera_data(scene.cameras[0], 12, 8), Numbers(max_depth=3), FrameSettings())
    return np.asarray(film.total.numpy())


def room(*things: Any, lamps: int = 1) -> Scene:
    """Things above a floor, under so many lamps."""
    floor = quad([-5, -2, -5], [0, 0, 10], [10, 0, 0]), grey(0.5)
    lights = [(quad([k, 4, 0], [0.5, 0, 0], [0, 0, 0.5]), grey(0.0, 5.0)) for k in range(lamps)]
    return scene_of(floor, *lights, *((thing, grey(0.7)) for thing in things), camera=look_at((0, 1, 8), (0, 0, 0)))


# ---- sizes ----


@pytest.mark.parametrize("group", [16, 8, 4, 1])
def test_scenes_of_other_sizes_have_the_same_structure(group: int) -> None:
    small, large = room(soup(3000, 1), lamps=2), room(soup(3400, 2), soup(50, 3), lamps=3)
    held = [upload(scene, group=group) for scene in (small, large)]
    assert structure(held[0].data) == structure(held[1].data)
    sizes = [[t.numpy().shape for t in arrays(each)] for each in held]
    assert all(sizes[0][k] != sizes[1][k] for k in range(3))


def test_scenes_of_other_sizes_compile_nothing() -> None:
    run = make_frame(device())
    scenes = (room(soup(3000, 1), lamps=2), room(soup(3400, 2), soup(50, 3), lamps=3), room(soup(2800, 4)))
    pictures = [draw(run, upload(scene, group=device().group_width), scene) for scene in scenes]
    assert len(run.stats.compiles) == 1
    assert all(picture.any() for picture in pictures)


def test_small_scenes_of_about_the_same_size_compile_nothing() -> None:
    run = make_frame(device())
    for scene in (room(icosphere(0), cube_grid(1)), room(icosphere(0), cube_grid(1)[:9], lamps=2)):
        draw(run, upload(scene, group=device().group_width), scene)
    assert len(run.stats.compiles) == 1


def test_where_every_lane_is_alone_all_tables_have_named_sizes(cornell: Path) -> None:
    held = upload(load(cornell), group=1)
    assert not any(isinstance(t.shape[0], int) for t in arrays(held))
    assert isinstance(held.data.bvh, LoneBVH)


def test_rows_for_lanes_that_walk_alone_are_whole_texels(cornell: Path) -> None:
    for t in arrays(upload(load(cornell), group=1)):
        assert t.ndim == 2 and t.shape[1] % 4 == 0


def test_bytes_are_those_of_the_tables(cornell: Path) -> None:
    for group in (16, 1):
        held = upload(load(cornell), group=group)
        assert held.bytes == sum(t.numpy().nbytes for t in arrays(held))


def test_what_does_not_shape_the_code_is_not_in_the_structure(cornell: Path) -> None:
    scene = load(cornell)
    held = upload(scene, group=GROUP)
    brighter = replace(scene, materials=[replace(m, emissive=tuple(3 * e for e in m.emissive)) for m in scene.materials])
    assert structure(upload(brighter, group=GROUP).data) == structure(held.data)
    dark = replace(scene, materials=[replace(m, emissive=(0.0, 0.0, 0.0)) for m in scene.materials])
    outside = replace(scene, environment=Environment((1.0, 1.0, 1.0)))
    kinds = {structure(upload(s, group=GROUP).data) for s in (scene, dark, outside)}
    assert len(kinds) == 3


# ---- a tree for lanes that walk alone ----


@pytest.mark.parametrize("group", [None, 4])
def test_the_tree_for_single_lanes_hits_what_embree_says(group: int | None) -> None:
    """Its kernels are the same ones, whatever the group; here they run on the CPU."""
    triangles = np.concatenate([soup(3000, 1), icosphere(3)])
    tracer = Tracer(triangles, "packet", group)
    tracer.data = upload(scene_of((triangles, grey(0.5))), group=1).data
    origins, directions = random_rays(40_000, 2)
    ours, theirs = tracer(origins, directions), Embree(tracer.soup)(origins, directions)
    assert (ours.hit != theirs.hit).sum() <= 2
    both = ours.hit & theirs.hit
    assert both.mean() > 0.5
    assert (np.abs(ours.t[both] - theirs.t[both]) > np.maximum(1e-4 * theirs.t[both], 1e-7)).sum() <= 2
    assert (ours.any == ours.hit).all()


# ---- edits ----


def changed(scene: Scene, number: int, **values: Any) -> Scene:
    materials = list(scene.materials)
    materials[number] = replace(materials[number], **values)
    return replace(scene, materials=materials)


def moved(scene: Scene, number: int, by: Any, scale: float = 1.0) -> Scene:
    world = scene.instances[number].world.copy()
    world[:3, 3] += by
    world[:3, :3] *= scale
    instances = list(scene.instances)
    instances[number] = replace(instances[number], world=world)
    return replace(scene, instances=instances)


def test_a_changed_material_is_drawn_as_if_the_scene_had_been_loaded_with_it(cornell: Path) -> None:
    scene, run = load(cornell), make_frame(device())
    group = device().group_width
    held = upload(scene, group=group)
    draw(run, held, scene)
    lamp = next(k for k, m in enumerate(scene.materials) if m.is_emissive)
    box = scene.meshes[scene.instances[-1].mesh].geometries[0].material
    for edited in (
        changed(scene, box, base_color_factor=(0.1, 0.9, 0.3, 1.0)),
        changed(scene, lamp, emissive=(1.0, 2.0, 30.0)),
        changed(scene, lamp, double_sided=True),
        changed(scene, box, emissive=(5.0, 5.0, 5.0)),
    ):
        again = relit(held, edited, group=group)
        assert structure(again.data) == structure(held.data)
        assert again.data.bvh is held.data.bvh
        np.testing.assert_array_equal(draw(run, again, edited), draw(run, upload(edited, group=group), edited))
    assert len(run.stats.compiles) == 1


def test_the_first_lamp_and_the_last_need_other_code() -> None:
    lit = room(icosphere(1))
    dark = changed(lit, 1, emissive=(0.0, 0.0, 0.0))
    for before, after in ((lit, dark), (dark, lit)):
        held = upload(before, group=GROUP)
        assert structure(relit(held, after, group=GROUP).data) != structure(held.data)


def test_a_moved_object_is_drawn_where_it_is_and_compiles_nothing(cornell: Path) -> None:
    scene, run = load(cornell), make_frame(device())
    group = device().group_width
    held = upload(scene, group=group)
    still = draw(run, held, scene)
    number = next(k for k, i in enumerate(scene.instances) if "box" in i.name.lower())
    for by, scale in (((0.05, 0.0, 0.0), 1.0), ((0.0, 0.1, 0.02), 0.5), ((-0.1, 0.0, 0.1), 1.5), ((0.0, 0.0, 0.0), 0.0)):
        edited = moved(scene, number, by, scale)
        again = upload(edited, group=group, form="packet", like=held, keep=False)
        assert structure(again.data) == structure(held.data)
        drawn = draw(run, again, edited)
        assert (drawn != still).any()
        want = draw(make_frame(device()), upload(edited, group=group), edited)
        same = np.abs(drawn - want).max(-1) <= 1e-3 * (1 + want.max(-1))
        assert same.mean() > 0.95
    assert len(run.stats.compiles) == 1


def test_what_has_grown_beyond_its_table_says_so() -> None:
    """A table whose number of rows the kernels know cannot take more; one of named size can take any number."""
    few, many = room(icosphere(0)), room(icosphere(2))
    held = upload(few, group=16)
    assert structure(upload(many, group=16, form="packet", like=held).data) != structure(held.data)
    held = upload(few, group=1)
    assert structure(upload(many, group=1, like=held).data) == structure(held.data)
    held = upload(many, group=16)
    assert structure(upload(few, group=16, form="packet", like=held).data) == structure(held.data)


def test_triangles_keep_the_numbers_of_what_they_belong_to() -> None:
    scene = room(icosphere(1), quad([0, 0, 0], [1, 0, 0], [0, 1, 0]))
    again = Instance(0, np.diag([1.0, 1.0, -1.0, 1.0]), "again", 1)
    soup_ = upload(replace(scene, instances=[*scene.instances, again]), group=GROUP).soup
    for k, geometry in enumerate(scene.meshes[0].geometries):
        for instance in range(2):
            mine = (soup_.geometry == k) & (soup_.instance == instance)
            assert mine.sum() == len(geometry.indices) and (soup_.material[mine] == geometry.material).all()
