"""In scenes that are culled, what has but a front is there for what comes from the front and for nothing else, in every form of
traversal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from renderer.bvh.traverse import Form
from renderer.scene.model import Camera, Material, Scene
from renderer.scene.model_material import Transmission
from renderer.scene.upload import relit, structure, upload
from tests.renderer.helpers import worlds
from tests.renderer.helpers.crowds import crowd, placings
from tests.renderer.helpers.pictures import render
from tests.renderer.helpers.tracing import Floats, Tracer, device, random_rays
from tests.renderer.helpers.worlds import Triangles, grey, icosphere, look_at, quad, soup

KINDS: list[tuple[Form, int]] = [("packet", 16), ("packet", 4), ("serial", 16), ("serial", 8), ("serial", 4), ("lone", 1)]
SINGLE, DOUBLE = grey(0.5), grey(0.5, double_sided=True)


def scene_of(*parts: tuple[Triangles, Material], camera: Camera | None = None) -> Scene:
    """A scene that is culled."""
    return replace(worlds.scene_of(*parts, camera=camera), culled=True)


def of_each_kind(triangles: Triangles, double: NDArray[np.bool_]) -> Scene:
    return scene_of((triangles[~double], SINGLE), (triangles[double], DOUBLE))


def expected(scene: Scene, origins: Floats, directions: Floats) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Nearest distances in float64 (infinite for none), one triangle after another, and which rays are clear of every edge."""
    soup_, double = scene.triangles(), np.array([m.double_sided for m in scene.materials])
    nearest, clear = np.full(len(origins), np.inf), np.ones(len(origins), bool)
    o, d = origins.astype(np.float64), directions.astype(np.float64)
    for corners, material in zip(soup_.positions.astype(np.float64), soup_.material, strict=True):
        e1, e2 = corners[1] - corners[0], corners[2] - corners[0]
        across = np.cross(d, e2)
        det = across @ e1
        start = o - corners[0]
        u = (start * across).sum(1) / det
        along = np.cross(start, e1)
        v, t = (d * along).sum(1) / det, (along @ e2) / det
        least = np.minimum(np.minimum(u, v), 1 - u - v)
        clear &= (np.abs(least) > 1e-4) | (t < 0)
        hit = (least > 0) & (t > 0) & ((det > 0) | double[material])
        nearest = np.where(hit & (t < nearest), t, nearest)
    return nearest, clear


def check(scene: Scene, form: Form, group: int | None, rays: int, backend: str = "cpu") -> Tracer:
    origins, directions = random_rays(rays, 7)
    tracer = Tracer(scene, form, group, backend)
    hits = tracer(origins, directions)
    want, clear = expected(scene, origins, directions)
    assert clear.mean() > 0.9 and 0.1 < np.isfinite(want).mean() < 0.999
    assert ((hits.hit == np.isfinite(want)) | ~clear).all() and ((hits.any == hits.hit) | ~clear).all()
    both = clear & hits.hit
    np.testing.assert_allclose(hits.t[both], want[both], rtol=1e-3, atol=1e-4)
    return tracer


@pytest.mark.parametrize(("form", "group"), KINDS)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_rays_meet_fronts_and_what_has_two_sides(form: Form, group: int, share: float) -> None:
    """Triangles at random, and quads whose halves look the same way, or opposite ways."""
    quads = np.concatenate([quad(*np.random.default_rng(k).uniform(-1, 1, (3, 3))) for k in range(40)])
    turned = quads.copy()
    turned[1::2] = turned[1::2, ::-1]
    triangles = np.concatenate([soup(60, 1, 0.4), quads, turned + np.float32(0.01)])
    double = np.random.default_rng(3).random(len(triangles)) < share
    tracer = check(of_each_kind(triangles, double), form, group, 4000)
    assert tracer.data.bvh.sides == {0.0: "front", 0.5: "mixed", 1.0: "both"}[share]


@pytest.mark.parametrize("form", ["packet", "serial", "lone"])
def test_the_interpreter_agrees(form: Form) -> None:
    triangles = soup(60, 2, 0.4)
    for double in (np.zeros(60, bool), np.arange(60) % 2 == 0):
        check(of_each_kind(triangles, double), form, None, 60, "reference")


@pytest.mark.parametrize("form", ["serial", "lone"])
def test_a_mirrored_thing_keeps_its_front(form: Form) -> None:
    """Half of the placings mirror; seen from outside every ball is there, from its middle none is."""
    places = placings(16, 4, spread=20.0)
    scene = replace(crowd(places, (icosphere(3), SINGLE)), culled=True)
    tracer = Tracer(scene, form)
    assert tracer.data.bvh.top is not None and tracer.data.bvh.sides == "front"
    middles = np.repeat(places[:, :3, 3], 20, axis=0).astype(np.float32)
    _, directions = random_rays(len(middles), 1)
    assert not tracer(middles, directions, 1.0).any.any()
    away = middles - 3 * directions
    hits = tracer(away, directions)
    assert hits.hit.all() and (hits.t < 3.0).all()


def test_bodies_and_lamps_have_two_sides() -> None:
    assert grey(0.5, 1.0).shows_back
    glass = replace(SINGLE, transmission=Transmission(factor=1.0))
    assert glass.shows_back and DOUBLE.shows_back and not SINGLE.shows_back
    assert upload(scene_of((soup(20, 1), glass)), group=16).data.bvh.sides == "both"


def test_without_a_word_all_have_two_sides() -> None:
    """Files with their faces the wrong way round are seen like others."""
    assert upload(worlds.scene_of((soup(20, 1), SINGLE)), group=16).data.bvh.sides == "both"


FRONT = look_at([0, 0, 4], [0, 0, 0])
WALL = quad([-1, -1, 1], [2, 0, 0], [0, 2, 0])  # its front towards the camera
BACK = np.ascontiguousarray(WALL[:, ::-1])
SCREEN = quad([-1, -1, -1], [2, 0, 0], [0, 2, 0])


@pytest.mark.parametrize("backend", ["cpu", "opencl"])
@pytest.mark.parametrize("depth", [1, 2])
def test_one_looks_through_backs(depth: int, backend: str) -> None:
    """A lamp behind a wall: hidden by its front and by what has two sides, seen through its back; but lamps have a dark back."""
    lamp = (SCREEN, grey(0.0, (2.0, 3.0, 4.0)))
    for wall, material, seen in ((WALL, SINGLE, 0.0), (BACK, SINGLE, 1.0), (BACK, DOUBLE, 0.0), (BACK, grey(0.0, 5.0), 0.0)):
        scene = scene_of(lamp, (wall, replace(material, base_color_factor=(0.0, 0.0, 0.0, 1.0))), camera=FRONT)
        mean = render(scene, (8, 8), depth=depth, backend=backend).mean
        np.testing.assert_allclose(mean[4, 4], np.array([2.0, 3.0, 4.0]) * seen, rtol=1e-5)


@pytest.mark.parametrize("form", ["packet", "serial"])
def test_a_surface_is_lit_by_what_it_sees(form: Form) -> None:
    """A floor below a ceiling that faces down is dark, wherever that may be looked through; one that sees the back of a roof is lit."""
    lamp = quad([-1, 3, -1], [2, 0, 0], [0, 0, 2])
    floor = quad([-1, 0, 1], [2, 0, 0], [0, 0, -2])
    roof = quad([-2, 1, 2], [4, 0, 0], [0, 0, -4])
    camera = look_at([0, 0.9, 0], [0, 0, 0])

    def seen(*parts: Triangles) -> float:
        scene = scene_of((lamp, grey(0.0, 10.0)), (floor, SINGLE), *((part, SINGLE) for part in parts), camera=camera)
        return float(render(scene, (8, 8), spp=64, depth=2, form=form).mean.mean())

    open_, below_back, below_front = seen(), seen(roof), seen(np.ascontiguousarray(roof[:, ::-1]))
    assert open_ > 0.1 and below_front == 0.0
    np.testing.assert_allclose(below_back, open_, rtol=1e-4)


@pytest.mark.parametrize("group", [16, 1])
def test_a_material_that_is_given_another_side_is_drawn_with_it(group: int) -> None:
    """Among surfaces with a front only it takes other code; among both kinds it does not."""
    ball = (icosphere(1), SINGLE)
    alone = scene_of((BACK, SINGLE), ball, camera=FRONT)
    edited = replace(alone, materials=[DOUBLE, SINGLE])
    held = upload(alone, group=group)
    assert structure(relit(held, edited, group=group).data) != structure(held.data)
    mixed = upload(edited, group=group)
    again = relit(mixed, alone, group=group)
    assert structure(again.data) == structure(mixed.data)
    backend = "opencl" if group == 1 else "cpu"
    if device(backend).group_width == group:
        pictures = [render(alone, (8, 8), data=data, backend=backend).mean for data in (again, held)]
        np.testing.assert_array_equal(*pictures)
