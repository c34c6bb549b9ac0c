"""Edits of scenes of two levels, in any order: a session draws what a new one of its scene draws, or asks for a new one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from renderer.pipeline.session import Session
from renderer.scene.model import Copies, Environment, Mesh, Scene
from renderer.scene.model_texture import TextureRef
from renderer.scene.parts import parts_of
from renderer.scene.upload import Uploaded, has_pictures, moved_to, relit, structure, upload
from tests.renderer.helpers.crowds import crowd, placings
from tests.renderer.helpers.pictures import render
from tests.renderer.helpers.tracing import device
from tests.renderer.helpers.worlds import cube_grid, grey, icosphere, look_at, quad
from tests.renderer.test_placings import patterned

BALL, FLOOR = icosphere(3), quad([-6, -5, -6], [0, 0, 12], [12, 0, 0])
COUNT = 16
SIZE: dict[str, Any] = {"width": 24, "height": 16, "depth": 3}


def many(**options: Any) -> Scene:
    """Balls and boxes above a floor, under a white sky."""
    kinds = (BALL, grey(0.5)), (cube_grid(10), grey(0.7))
    scene = crowd(placings(COUNT, 1, **options), *kinds, rest=(FLOOR, grey(0.5)), camera=look_at([0, 1, 11], [0, 0, 0]))
    return replace(scene, environment=Environment())


def drawn(session: Session) -> np.ndarray:
    session.reset()
    session.frame()
    return session.mean().copy()


def check_like_new(session: Session) -> np.ndarray:
    """The picture, which is that of a new session."""
    here, there = drawn(session), drawn(Session(session.scene, device=session._engine, **SIZE))
    np.testing.assert_allclose(here, there, rtol=1e-4, atol=1e-5)
    return here


def in_place(scene: Scene, number: int, world: np.ndarray) -> None:
    scene.instances[number] = replace(scene.instances[number], world=world)


def at(*place: float, scale: Any = 1.0) -> np.ndarray:
    world = np.diag([*np.broadcast_to(np.asarray(scale, float), 3), 1.0])
    world[:3, 3] = place
    return world


def test_what_had_no_extent_is_there_when_it_is_given_one() -> None:
    scene = many()
    in_place(scene, 0, at(0, 0, 5, scale=0.0))
    session = Session(scene, device=device(), **SIZE)
    before = check_like_new(session)
    for scale in (1.0, (1.0, 0.0, 1.0), 1.5, 0.0, 0.5):
        in_place(scene, 0, at(0, 0, 5, scale=scale))
        assert session.update_instances([0])
        assert (check_like_new(session) != before).any() == (scale != 0.0)


def test_what_is_flat_moves_in_a_large_scene_without_another_session() -> None:
    """It stays in the world's part, until it is given an extent."""
    scene = many()
    scene.instances = [replace(instance, moving=False) for instance in scene.instances]
    session = Session(scene, device=device(), **SIZE)
    for height in (0.0, 1.0):
        scene.instances[0] = replace(scene.instances[0], world=at(0, height, 5, scale=(1.0, 0.0, 1.0)), moving=True)
        assert session.update_instances([0])
        check_like_new(session)
    in_place(scene, 0, at(0, 0, 5))
    assert not session.update_instances([0])


def test_placed_lamps_are_found_by_their_triangle_and_placing_whatever_is_edited() -> None:
    """Of every placing the lights are its triangles', with its sides, and know it; balls share a part, whatever they are made of."""
    scene = many()
    ball, box = scene.meshes[0].geometries[0], scene.meshes[1].geometries[0]
    scene.materials[:] = [grey(0.5, 3.0), grey(0.5), grey(0.5, 1.0, double_sided=True)]
    materials = ([ball], [replace(ball, material=1)], [replace(box, material=0), replace(box, material=2), replace(box, material=1)])
    scene.meshes[:2] = [Mesh(str(k), list(geometries)) for k, geometries in enumerate(materials)]
    scene.instances = [replace(i, mesh=3 if i.name == "rest" else k % 3) for k, i in enumerate(scene.instances)]

    def check(held: Uploaded) -> None:
        lights, parts = held.data.lights, held.parts
        assert lights is not None and lights.tree is not None and lights.tree.first is not None and parts.placings is not None
        rows, light, first = lights.rows.numpy()[: lights.count], lights.tree.light.numpy(), lights.tree.first.numpy()
        shines, both = (np.array([getattr(m, name) for m in scene.materials]) for name in ("is_emissive", "double_sided"))
        seen = 0
        for number, (part, own) in enumerate(zip(parts.placings.part, parts.placings.material, strict=True)):
            triangles = np.arange(*parts.first[part : part + 2])
            material = parts.soup.material[triangles] if own < 0 else np.full(len(triangles), own)
            triangles, material = triangles[shines[material]], material[shines[material]]
            mine, seen = rows[light[triangles] + first[number]], seen + len(triangles)
            corners = parts.soup.positions[triangles, 0] @ parts.placings.world[number, :3, :3].T + parts.placings.world[number, :3, 3]
            np.testing.assert_allclose(mine[:, :3], corners, atol=1e-4)
            np.testing.assert_array_equal(mine[:, 13], np.where(both[material], number + 1, -number))
            np.testing.assert_array_equal(mine[:, 15].view(np.int32), triangles)
        assert seen == lights.count > 1000

    held: Uploaded | None = upload(scene, group=16)
    assert held is not None
    check(held)
    for number in (0, 1, 2):
        in_place(scene, number, at(number, 2, -3, scale=(1.0, -1.5, 0.5)))
        held = moved_to(held, scene, [number], group=16)
        assert held is not None
        check(held)
    for number, material in ((0, grey(0.5, 1.0, double_sided=True)), (1, grey(0.5, 2.0)), (2, grey(0.1))):
        scene.materials[number] = material
        held = relit(held, scene, group=16)
        check(held)


def test_meshes_that_part_in_a_variant_are_no_part_together() -> None:
    """Two meshes of the same arrays and, without a variant, the same materials."""
    scene = many()
    geometry = scene.meshes[0].geometries[0]
    other = replace(geometry, material=1)
    scene.materials[2:] = [grey(0.5), grey((0.9, 0.0, 0.0)), grey((0.0, 0.0, 0.9))]
    scene.meshes[:2] = [Mesh(name, [replace(geometry, variants={0: number}), other]) for name, number in (("red", 3), ("blue", 4))]
    scene.variants = ["coloured"]
    session = Session(scene, device=device(), **SIZE)
    plain = check_like_new(session)
    for variant in (0, None):
        scene.variant = variant
        assert session.update_variant()
        assert (np.abs(check_like_new(session) - plain).max() > 0.1) == (variant == 0)


def test_a_click_tells_geometries_by_their_numbers_in_their_own_meshes() -> None:
    worlds = np.tile(np.eye(4), (COUNT, 1, 1))
    worlds[:, 0, 3] = 3.0 * np.arange(COUNT)
    scene = crowd(worlds, (BALL, grey(0.1)), (BALL, grey(0.9)), camera=look_at([15, 0, 10], [15, 0, 0]))
    geometry = scene.meshes[0].geometries[0]
    scene.meshes[1] = Mesh("second", [replace(geometry, indices=geometry.indices[:0]), replace(geometry, material=1)])
    session = Session(scene, device=device(), **SIZE)
    found = session.pick(12, 8)
    assert found is not None and (found.instance, found.material, found.geometry) == (5, 1, 1)


def copied(scene: Scene) -> Scene:
    """Two instances with copies, of which one has no extent and one is mirrored."""
    places = np.random.default_rng(1).uniform(-3, 3, (20, 3)).astype(np.float32)
    turns = np.tile(np.array([0, 0, 0, 1], np.float32), (20, 1))
    scales = np.full((20, 3), 0.3, np.float32)
    scales[0], scales[1, 0] = 0, -0.3
    for number, some in ((0, slice(20)), (1, slice(1, 4))):
        copies = Copies(places[some], turns[some], scales[some])
        scene.instances[number] = replace(scene.instances[number], world=np.eye(4), copies=copies)
    return scene


@pytest.mark.parametrize(("backend", "seed"), [("cpu", 0), ("cpu", 1), ("opencl", 2)])
def test_edits_in_any_order_and_their_undoing(backend: str, seed: int) -> None:
    scene = copied(many())
    for mesh in scene.meshes:
        mesh.geometries[0] = replace(mesh.geometries[0], variants={0: 3})
    scene.materials.append(grey(0.5, (0.9, 0.2, 0.2)))
    scene.variants = ["red"]
    scene.materials[0] = grey(0.5, 2.0)
    session = Session(scene, device=device(backend), **SIZE)
    random = np.random.default_rng(seed)
    before, first = (list(scene.instances), list(scene.materials)), check_like_new(session)

    def move() -> bool:
        numbers = [int(n) for n in random.integers(0, 6, 2)]
        for number in numbers:
            world = scene.instances[number].world.copy()
            world[:3, :3] *= random.uniform(0.6, 1.4, (1, 3))
            world[:3, 3] += random.normal(0, 0.5, 3)
            in_place(scene, number, world)
        return session.update_instances(numbers)

    def paint() -> bool:
        scene.materials[1] = grey(float(random.uniform(0.1, 0.9)))
        scene.materials[0] = grey(0.5, float(random.uniform(1.0, 3.0)), double_sided=bool(random.random() < 0.5))
        return session.update_materials([0, 1])

    def vary() -> bool:
        scene.variant = None if scene.variant == 0 else 0
        return session.update_variant()

    def surround() -> bool:
        scene.environment = Environment(strength=float(random.uniform(0.5, 2.0)))
        return session.update_environment()

    edits: list[Callable[[], bool]] = [move, paint, vary, surround]
    for number in random.permutation([0, 0, 1, 2, 2, 3]):
        assert edits[number]()
        check_like_new(session)
    scene.instances[:], scene.materials[:] = before
    scene.variant, scene.environment = None, Environment()
    assert session.update_variant() and session.update_instances(range(6)) and session.update_environment()
    np.testing.assert_allclose(check_like_new(session), first, rtol=1e-4, atol=1e-5)


def test_a_part_is_a_lamp_by_the_material_that_shines() -> None:
    """A ball that is placed with two materials of one emissive texture, of which the second alone shines."""
    scene = many()
    scene = patterned(scene, replace(grey(0.5), emissive_texture=TextureRef(0)))
    scene.materials[1] = replace(scene.materials[0], emissive=(4.0, 4.0, 4.0))
    scene.meshes[1] = Mesh("lamp", [replace(scene.meshes[0].geometries[0], material=1)])
    held = [upload(scene, group=16, form="serial", shared=shared) for shared in (True, False)]
    lights = [one.data.lights for one in held]
    assert len(held[0].parts.soup) == len(BALL) + len(FLOOR)
    assert lights[0] is not None and lights[1] is not None and lights[0].count == lights[1].count
    tables = [one.rows.numpy() for one in lights if one is not None]
    powers = [np.sort(np.linalg.norm(np.cross(rows[:, 3:6], rows[:, 6:9]), axis=1) * rows[:, 12]) for rows in tables]
    np.testing.assert_allclose(powers[0], powers[1], rtol=1e-3, atol=1e-7)
    scene.materials[0] = replace(scene.materials[0], emissive=(1.0, 1.0, 1.0))
    again = relit(held[0], scene, group=16)
    assert has_pictures(again, scene) and structure(again.data) == structure(held[0].data)
    assert again.data.lights is not None and again.data.lights.count > lights[0].count


def test_the_glow_of_lamps_does_not_depend_on_which_edit_is_taken_up_first() -> None:
    """A lamp is switched on that has a picture of its own, and moved."""
    scene = many()
    scene = patterned(scene, replace(grey(0.5), emissive=(1.0, 1.0, 1.0), emissive_texture=TextureRef(0)))
    scene.materials[1] = replace(scene.materials[0], emissive=(0.0, 0.0, 0.0), emissive_texture=TextureRef(0, offset=(0.2, 0.1)))
    held = upload(scene, group=16)
    scene.materials[1] = replace(scene.materials[1], emissive=(2.0, 2.0, 2.0))
    in_place(scene, 1, at(1, 2, 3))
    one = moved_to(held, scene, [1], group=16)
    assert one is not None and one.data.lights is not None and one.data.lights.count > 0
    one, other = relit(one, scene, group=16), moved_to(relit(held, scene, group=16), scene, [1], group=16)
    new = upload(scene, group=16)
    assert other is not None and (held.glow != new.glow).any()
    for again in (one, other):
        np.testing.assert_array_equal(again.glow, new.glow)
        assert again.data.corner is not None and new.data.corner is not None
        np.testing.assert_array_equal(again.data.corner.numpy(), new.data.corner.numpy())


def test_what_is_too_far_away_for_floats_is_written_out_and_dropped() -> None:
    scene = many()
    for number, place in ((0, 1e39), (1, 1e300)):
        in_place(scene, number, at(place, 0, 0))
    parts = parts_of(scene)
    assert parts.placings is not None and parts.soup.non_finite == len(BALL) + len(cube_grid(10))
    assert np.isfinite(parts.bounds().astype(np.float32)).all()
    assert render(scene, (24, 16)).refused == 0
