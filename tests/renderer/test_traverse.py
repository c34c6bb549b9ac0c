"""Rays meet what is there: as Embree finds it, in every form, at every group width, and never between triangles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from renderer.bvh.traverse import Form
from renderer.scene.gltf import load
from renderer.scene.model import Scene
from tests.renderer.helpers.tracing import Embree, Floats, Hits, Tracer, edge_distance, plane_distance, random_rays
from tests.renderer.helpers.worlds import Triangles, cube_grid, grey, icosphere, quad, scene_of, soup

FORMS: list[Form] = ["packet", "serial", "lone"]
KINDS: list[tuple[Form, int]] = [(form, group) for form in ("packet", "serial") for group in (16, 8, 4)] + [("lone", 1)]


# ---- against Embree ----


def box_of(triangles: Triangles) -> tuple[Floats, Floats]:
    corners = triangles.reshape(-1, 3)
    return corners.min(0), corners.max(0)


def agree(ours: Hits, theirs: Hits, triangles: Triangles, origins: Floats, directions: Floats) -> int:
    """Checks hits against Embree's; returns at how many rays the two found different triangles (lying upon each other).

    Where only one hits, or they hit different distances, the ray must pass by an edge (1e-5 of its length), and there may be one such
    ray in 20,000. Distances: 1e-4 relative, or half a unit in the last place of the scene's largest coordinate, for origins cannot be
    nearer to a surface than they are rounded. Rays that begin on a surface are left out: to Embree that is a hit, to us it is not.
    """
    unit = float(np.abs(triangles).max()) * 2.0**-24
    judged = theirs.t > unit
    assert judged.mean() > 0.9999
    both = ours.hit & theirs.hit & judged
    apart = (ours.hit != theirs.hit) & judged
    with np.errstate(invalid="ignore"):
        apart |= both & (np.abs(ours.t - theirs.t) > np.maximum(1e-4 * theirs.t, unit))
    assert apart.sum() <= len(origins) // 20_000
    for one, other in ((ours, theirs), (theirs, ours)):
        first = np.flatnonzero(apart & one.hit & (one.t < other.t))
        assert (edge_distance(triangles[one.triangle[first]], origins[first], directions[first]) < 1e-5).all()
    assert (ours.any == ours.hit).all()
    return int((both & (ours.triangle != theirs.triangle)).sum())


def same_as_embree(scene: Scene, form: Form, group: int | None = None, count: int = 100_000, seed: int = 1) -> None:
    tracer = Tracer(scene, form, group)
    origins, directions = random_rays(count, seed, *box_of(tracer.soup))
    others = agree(tracer(origins, directions), Embree(tracer.soup)(origins, directions), tracer.soup, origins, directions)
    assert others <= count // 200  # of triangles that lie upon each other


@pytest.mark.parametrize("form", FORMS)
def test_a_hundred_thousand_rays_in_a_room_hit_what_embree_says(shared: Path, form: Form) -> None:
    same_as_embree(load(shared / "data/bench/room256k.glb"), form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", ["FlightHelmet-384px", "ModernHall", "SheenTestGrid", "NormalTangentTest"])
def test_a_hundred_thousand_rays_in_a_model_hit_what_embree_says(shared: Path, model: str, form: Form) -> None:
    same_as_embree(load(shared / f"data/models/{model}/{model}.glb"), form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["cornell", "gallery", "many_lights", "study"])
def test_rays_in_our_own_scenes_hit_what_embree_says(root: Path, name: str, form: Form) -> None:
    same_as_embree(load(root / f"scenes/{name}.gltf"), form, count=20_000)


@pytest.mark.parametrize(("form", "group"), KINDS)
def test_every_width_of_group_hits_what_embree_says(form: Form, group: int) -> None:
    same_as_embree(scene_of((soup(3000, 1), grey(0.5))), form, group, count=40_000)


@pytest.mark.parametrize("form", FORMS)
def test_the_interpreter_hits_what_embree_says(form: Form) -> None:
    triangles = soup(300, 2, 0.2)
    origins, directions = random_rays(200, 3)
    tracer = Tracer(triangles, form, backend="reference")
    agree(tracer(origins, directions), Embree(tracer.soup)(origins, directions), tracer.soup, origins, directions)


def test_widths_and_forms_find_the_same_triangles() -> None:
    triangles = soup(2000, 4)
    origins, directions = random_rays(20_000, 5)
    found = [Tracer(triangles, form, group)(origins, directions) for form, group in KINDS]
    for other in found[1:]:
        assert (other.triangle != found[0].triangle).sum() <= 1
        same = other.triangle == found[0].triangle
        np.testing.assert_allclose(other.t[same], found[0].t[same], rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize(("form", "group"), KINDS)
def test_something_is_in_the_way_exactly_if_the_nearest_hit_is_nearer(form: Form, group: int) -> None:
    tracer = Tracer(soup(3000, 6), form, group)
    origins, directions = random_rays(30_000, 7)
    nearest = tracer(origins, directions).t
    reach = 0.6
    within = tracer(origins, directions, reach)
    clear = np.abs(nearest - reach) > 1e-5
    assert (within.any == (nearest < reach))[clear].all()
    assert (within.hit == (nearest < reach))[clear].all()
    assert 0.1 < within.any.mean() < 0.9


# ---- no way between triangles ----


def aims(mesh: Triangles, count: int, seed: int) -> Floats:
    """Points on edges of the mesh: a third of them vertices, others middles, the rest anywhere along them."""
    random = np.random.default_rng(seed)
    triangle, corner = random.integers(len(mesh), size=count), random.integers(3, size=count)
    along = random.random((count, 1)).astype(np.float32)
    along[: count // 3], along[count // 3 : count // 2] = 0, 0.5
    a, b = mesh[triangle, corner], mesh[triangle, (corner + 1) % 3]
    return np.asarray(a + (b - a) * along, np.float32)


PLACES = [(1.0, 0.0), (1e-3, 0.0), (1e3, 0.0), (1.0, 1e4)]
CLOSED: list[tuple[str, Callable[[], Triangles]]] = [("sphere", lambda: icosphere(4)), ("cube", lambda: cube_grid(20))]


def placed(mesh: Triangles, scale: float, shift: float) -> Triangles:
    return np.asarray(mesh * np.float32(scale) + np.array([shift, 0, 0], np.float32), np.float32)


@pytest.mark.parametrize(("form", "group", "backend"), [*((*kind, "cpu") for kind in KINDS), ("lone", 1, "opengl")])
@pytest.mark.parametrize(("name", "make"), CLOSED, ids=[name for name, _ in CLOSED])
@pytest.mark.parametrize(("scale", "shift"), PLACES)
def test_no_ray_leaves_a_closed_mesh_by_its_edges_or_vertices(
    name: str, make: Callable[[], Triangles], form: Form, group: int, backend: str, scale: float, shift: float
) -> None:
    mesh = placed(make(), scale, shift)
    targets = aims(mesh, 30_000, 8)
    inside = (np.random.default_rng(9).uniform(-0.5, 0.5, targets.shape) * scale + [shift, 0, 0]).astype(np.float32)
    inside[::4] = [shift, 0, 0]  # from the very middle: rays along axes and diagonals among them
    hits = Tracer(mesh, form, group, backend)(inside, targets - inside)
    assert (~hits.hit).sum() == 0
    assert (~hits.any).sum() == 0
    assert np.abs(hits.t - 1).max() < (5e-6 if shift == 0 else 5e-3)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("name", "make"), CLOSED, ids=[name for name, _ in CLOSED])
@pytest.mark.parametrize(("scale", "shift"), PLACES)
@pytest.mark.parametrize("distance", [3, 30, 1000])
def test_no_ray_from_far_away_enters_a_closed_mesh(
    name: str, make: Callable[[], Triangles], form: Form, scale: float, shift: float, distance: float
) -> None:
    mesh = placed(make(), scale, shift)
    away = np.array([0.48, 0.6, 0.64])
    eye = (away * distance * scale + [shift, 0, 0]).astype(np.float32)
    targets = aims(mesh, 40_000, 10)
    local = (targets - np.array([shift, 0, 0], np.float32)) / scale
    normal = local if name == "sphere" else np.where(np.abs(local) > 0.999, local, 0)
    unshaded = ((normal * away).sum(1) > 0.45) & (np.linalg.norm(normal, axis=1) < 1.1)  # not on the cube's own edges
    targets = targets[unshaded]
    assert len(targets) > 5000
    hits = Tracer(mesh, form)(eye, targets - eye)
    assert hits.hit.all() and hits.any.all()
    assert (np.abs(hits.t - 1) * distance < 0.05).all()


@pytest.mark.parametrize(("form", "group"), KINDS)
def test_the_grid_of_a_picture_finds_no_hole_in_a_mesh_seen_from_far_away(form: Form, group: int) -> None:
    """Rays as a camera has them, 1,000 radii away, at a cube whose edges run along the rows and columns."""
    mesh = cube_grid(16)
    x, y = (a.ravel() for a in np.meshgrid(np.linspace(-0.98, 0.98, 113), np.linspace(-0.98, 0.98, 113)))
    eye = np.array([0, 0, 1000], np.float32)
    directions = np.stack([x, y, np.full_like(x, -999)], 1)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    hits = Tracer(mesh, form, group)(eye, directions)
    assert hits.hit.all()
    assert np.abs(hits.t - 999).max() < 0.01


# ---- rays that are special ----


@pytest.mark.parametrize(("form", "group"), KINDS)
def test_rays_along_the_axes_hit(form: Form, group: int) -> None:
    """Two components of the direction are zero (of either sign)."""
    tracer = Tracer(cube_grid(7), form, group)
    random = np.random.default_rng(11)
    origins = random.uniform(-0.9, 0.9, (3000, 3)).astype(np.float32)
    ticks = np.linspace(-1, 1, 8).astype(np.float32)
    origins[1000:] = ticks[random.integers(1, 7, (2000, 3))]  # in the planes of boxes and on the lines between triangles
    axis, side = random.integers(3, size=3000), random.choice([-1.0, 1.0], 3000)
    zero = random.choice(np.array([0.0, -0.0], np.float32), (3000, 3))
    directions = zero.astype(np.float32)
    directions[np.arange(3000), axis] = side
    hits = tracer(origins, directions)
    assert hits.hit.all() and hits.any.all()
    np.testing.assert_allclose(hits.t, 1 - side * origins[np.arange(3000), axis], rtol=1e-5)


@pytest.mark.parametrize(("form", "group"), KINDS)
def test_rays_in_the_plane_of_a_face_pass_it_and_hit_what_stands_behind(form: Form, group: int) -> None:
    floor = quad([-1, 0, -1], [0, 0, 2], [2, 0, 0])
    wall = quad([1, -1, -1], [0, 2, 0], [0, 0, 2])
    tracer = Tracer(np.concatenate([floor, wall]), form, group)
    random = np.random.default_rng(12)
    origins = np.zeros((2000, 3), np.float32)
    origins[:, 0], origins[:, 2] = random.uniform(-3, 0.9, 2000), random.uniform(-0.5, 0.5, 2000)
    directions = np.zeros_like(origins)
    directions[:, 0], directions[:, 2] = 1, random.uniform(-0.1, 0.1, 2000)
    hits = tracer(origins, directions)
    assert (hits.triangle >= 2).all()
    np.testing.assert_allclose(hits.t, 1 - origins[:, 0], rtol=1e-5)


@pytest.mark.parametrize(("form", "group"), KINDS)
def test_a_ray_does_not_hit_the_surface_that_it_starts_from_by_more_than_rounding(form: Form, group: int) -> None:
    """Started a few units in the last place above a surface it passes on; started below it hits at that distance."""
    sphere = icosphere(3)
    tracer = Tracer(sphere, form, group)
    random = np.random.default_rng(14)
    triangle = random.integers(len(sphere), size=5000)
    weights = random.dirichlet([1, 1, 1], 5000)
    points = np.einsum("nk,nkc->nc", weights, sphere[triangle].astype(np.float64))
    normals = points / np.linalg.norm(points, axis=1, keepdims=True)
    above = tracer((points + 1e-6 * normals).astype(np.float32), normals.astype(np.float32))
    assert not above.hit.any() and not above.any.any()
    below = tracer((points - 1e-5 * normals).astype(np.float32), normals.astype(np.float32))
    assert below.hit.all()
    assert (np.abs(below.t - 1e-5) < 1e-6).all()


@pytest.mark.parametrize("form", FORMS)
def test_the_length_of_a_direction_only_scales_distances(form: Form) -> None:
    tracer = Tracer(soup(1000, 15), form)
    origins, directions = random_rays(5000, 16)
    one = tracer(origins, directions)
    for length in (1e-4, 64.0, 1e4):
        other = tracer(origins, directions * np.float32(length))
        assert (one.triangle != other.triangle).sum() <= 1
        both = one.hit & (one.triangle == other.triangle)
        np.testing.assert_allclose(other.t[both] * length, one.t[both], rtol=2e-5)


# ---- triangles that are special (C31) ----


@pytest.mark.parametrize(("form", "group"), KINDS)
def test_triangles_without_extent_are_never_hit_and_the_good_one_is(form: Form, group: int) -> None:
    p, q = [0.1, 0.2, 0.0], [0.3, 0.4, 0.0]
    mesh = np.array([[p, p, p], [p, p, q], [[0, 0, 0], [1, 0, 0], [1, 1, 0]]], np.float32)
    targets = np.array([p, q, [0.8, 0.3, 0], [0.3, 0.8, 0]], np.float32)
    eye = np.array([0.2, 0.2, 1], np.float32)
    assert Tracer(scene_of((mesh, grey(0.5))), form, group)(eye, targets - eye).hit.tolist() == [False, False, True, False]


@pytest.mark.parametrize(("form", "group"), KINDS)
def test_one_triangle_alone_covers_its_area(form: Form, group: int) -> None:
    one = np.array([[[0, 0, 0], [1, 0, 0], [0, 1, 0]]], np.float32)
    tracer = Tracer(one, form, group)
    n = 200
    x, y = (a.ravel() for a in np.meshgrid((np.arange(n) + 0.5) / n, (np.arange(n) + 0.5) / n))
    origins = np.stack([x, y, np.full_like(x, 0.5)], 1)
    hits = tracer(origins, np.broadcast_to(np.array([0, 0, -1], np.float32), origins.shape))
    assert abs(hits.hit.sum() - n * n / 2) <= n  # a row of pixels
    assert (hits.hit == (x + y <= 1))[np.abs(x + y - 1) > 1e-6].all()


@pytest.mark.parametrize(("form", "group"), KINDS)
def test_a_thousand_equal_triangles_are_one_surface(form: Form, group: int) -> None:
    one = np.array([[[0, 0, 0], [1, 0, 0], [0, 1, 0]]], np.float32)
    tracer = Tracer(np.repeat(one, 1000, 0), form, group)
    assert tracer.data.bvh.stack <= 128
    hits = tracer(np.array([0.2, 0.2, 1], np.float32), np.array([[0, 0, -1], [0.1, 0.1, -1], [2, 0, -1]], np.float32))
    assert hits.hit.tolist() == [True, True, False]
    np.testing.assert_allclose(hits.t[:2], 1)


@pytest.mark.parametrize(("form", "group"), KINDS)
def test_rays_that_meet_nothing_say_so(form: Form, group: int) -> None:
    """Empty places of nodes and leaves are hit by no ray, from inside their scene or from without."""
    tracer = Tracer(soup(5, 17, 0.01), form, group)
    origins, directions = random_rays(4000, 18, (-3, -3, -3), (3, 3, 3))
    hits, exact = tracer(origins, directions), exact_hits(tracer.soup, origins, directions)
    assert (hits.hit == np.isfinite(exact)).mean() > 0.9995
    assert (~hits.hit).sum() > 3900


def exact_hits(triangles: Triangles, origins: Floats, directions: Floats) -> NDArray[np.float64]:
    """Nearest hits by brute force in float64, infinite where there are none."""
    nearest = np.full(len(origins), np.inf)
    for triangle in triangles:
        v = np.broadcast_to(triangle.astype(np.float64), (len(origins), 3, 3))
        t = plane_distance(v, origins, directions)
        point = origins + t[:, None] * directions.astype(np.float64)
        n = np.cross(v[:, 1] - v[:, 0], v[:, 2] - v[:, 0])
        inside = np.all([(np.cross(v[:, (k + 1) % 3] - v[:, k], point - v[:, k]) * n).sum(1) >= 0 for k in range(3)], axis=0)
        nearest = np.where(inside & (t > 0) & (t < nearest), t, nearest)
    return nearest
