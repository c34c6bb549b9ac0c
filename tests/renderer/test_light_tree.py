"""Many lights are chosen by where light is wanted: as often as is said, each of them, and the picture stays what it was."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from engine import Tensor, jit
from renderer.sampling.rng import Rng
from renderer.scene import upload as upload_module
from renderer.scene.light_tree import light_rows
from renderer.scene.model import Environment, Orthographic, Scene
from renderer.scene.upload import relit, structure, upload
from renderer.shading.light import FEW, Lights
from renderer.shading.light_tree import Receiver
from renderer.vec import Vec3
from tests.renderer.helpers.chance import chi_square
from tests.renderer.helpers.pictures import render
from tests.renderer.helpers.tracing import device
from tests.renderer.helpers.worlds import Triangles, cube_grid, grey, icosphere, look_at, quad, scene_of

COUNT = 200_000
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])


def scattered(count: int, seed: int, size: float = 0.1) -> Triangles:
    """Triangles of all directions about the cube [-1, 1]^3."""
    random = np.random.default_rng(seed)
    return (random.uniform(-1, 1, (count, 1, 3)) + random.normal(0, size, (count, 3, 3))).astype(np.float32)


def lamps(count: int, seed: int = 5, decades: float = 3.0) -> Scene:
    """Scattered lamps whose radiance differs by so many decades, a third of them two-sided."""
    triangles = scattered(count, seed)
    strengths = 10 ** np.linspace(0, decades, 12)
    parts = [(triangles[k::12], grey(0, float(e), double_sided=k % 3 == 0)) for k, e in enumerate(strengths)]
    return scene_of(*parts)


def lights_of(scene: Scene, group: int = 16) -> Lights:
    lights = upload(scene, group=group).data.lights
    assert lights is not None and lights.tree is not None
    return lights


def corners_of(lights: Lights) -> NDArray[np.float64]:
    """float64[n, 3, 3]."""
    rows = lights.rows.numpy()[: lights.count].astype(np.float64)
    return np.stack([rows[:, 0:3], rows[:, 0:3] + rows[:, 3:6], rows[:, 0:3] + rows[:, 6:9]], 1)


def powers_of(lights: Lights) -> NDArray[np.float64]:
    """float64[n], of sum 1."""
    rows = lights.rows.numpy()[: lights.count].astype(np.float64)
    power = np.linalg.norm(np.cross(rows[:, 3:6], rows[:, 6:9]), axis=1) * (rows[:, 9:12] @ LUMINANCE)
    return np.asarray(power / power.sum())


def receivers(points: ArrayLike, normals: ArrayLike) -> list[Tensor]:
    p, n = (np.asarray(v, np.float64).reshape(-1, 3) for v in (points, normals))
    n = n / np.linalg.norm(n, axis=1, keepdims=True)
    return [Tensor(np.ascontiguousarray(c, np.float32)) for c in (*p.T, *n.T)]


def favours(lights: Lights, points: ArrayLike, normals: ArrayLike, both: bool = False, backend: str = "cpu") -> NDArray[np.float64]:
    """float64[receivers, lights]: how much likelier each light is for each receiver than by its power."""

    def ask(lights: Lights, light: Tensor, *at: Tensor) -> Tensor:
        assert lights.tree is not None
        x, y, z, nx, ny, nz = (c[:, None].broadcast_to((len(count), light.shape[0])) for c in at)
        return lights.tree.favour(light[None, :].broadcast_to(x.shape), Receiver(Vec3(x, y, z), Vec3(nx, ny, nz)), both)

    given = receivers(points, normals)
    count = range(given[0].shape[0])
    found = jit(ask, device=device(backend))(lights, Tensor(np.arange(lights.count, dtype=np.int32)), *given)
    return np.asarray(found.numpy().astype(np.float64))


def chosen(lights: Lights, point: ArrayLike, normal: ArrayLike, both: bool, count: int, backend: str = "cpu") -> tuple[Any, Any]:
    """int[count], float[count]: lights that were chosen for one receiver, and their favours."""

    def draw(lights: Lights, lane: Tensor, *at: Tensor) -> Any:
        assert lights.tree is not None
        u, rng = Rng.start(lane, 0, 1).next()
        v, _ = rng.next()
        return lights.tree.choose(Receiver(Vec3(*at[:3]), Vec3(*at[3:])), both, u, v)

    light, favour = jit(draw, device=device(backend))(lights, Tensor(np.arange(count, dtype=np.uint32)), *receivers(point, normal))
    return light.numpy(), favour.numpy().astype(np.float64)


# ---- probabilities ----

PLACES = {
    "inside": ((0.1, 0.2, -0.1), (0, 1, 0)),
    "outside": ((0.5, -4.0, 1.0), (0, 1, 0.3)),
    "behind": ((0.5, -2.0, 0.0), (0, -1, 0)),
    "far away": ((300.0, 50.0, 0.0), (-1, 0, 0)),
}


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("place", list(PLACES))
def test_lights_are_chosen_as_often_as_their_favour_says(place: str, both: bool) -> None:
    lights = lights_of(lamps(600))
    point, normal = PLACES[place]
    expected = favours(lights, point, normal, both)[0] * powers_of(lights)
    found, favour = chosen(lights, point, normal, both, COUNT)
    assert chi_square(np.bincount(found, minlength=600), COUNT * expected) < 5
    np.testing.assert_allclose(favour * powers_of(lights)[found], expected[found], rtol=2e-5)


def test_a_random_number_goes_far_enough_for_many_thousands_of_lights() -> None:
    """Each of 15,000 equal lights on a ball is chosen at its turn, seen from the middle."""
    lights = lights_of(scene_of((icosphere(5)[:15_000, ::-1], grey(0, 1.0))))
    point, normal = (0.0, 0.0, 0.0), (0, 0, 1)
    expected = favours(lights, point, normal, True)[0] * powers_of(lights)
    found, _ = chosen(lights, point, normal, True, 4 * COUNT)
    assert chi_square(np.bincount(found, minlength=15_000), 4 * COUNT * expected) < 5


@pytest.mark.parametrize(("backend", "group"), [("cpu", 16), ("cpu", 4), ("reference", 16), ("opencl", 1), ("opengl", 1)])
@pytest.mark.parametrize("both", [False, True])
def test_the_probabilities_of_all_lights_add_up_to_one(both: bool, backend: str, group: int) -> None:
    random = np.random.default_rng(2)
    count = 4 if backend == "reference" else 200
    points, normals = random.uniform(-1.5, 1.5, (count, 3)), random.normal(size=(count, 3))
    lights = lights_of(lamps(60 if backend == "reference" else 700), group)
    total = favours(lights, points, normals, both, backend) @ powers_of(lights)
    np.testing.assert_allclose(total, 1.0, rtol=1e-4)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_no_light_is_ever_out_of_reach(scale: float) -> None:
    """Whatever the bounds of its company say: also one of a billionth of their power, and whether the receiver stands within a light,
    among them, or far away. Lights and receivers face anywhere."""
    triangles = scattered(300, 3) * np.float32(scale)
    weak = np.array([[5, 5, 5], [5.1, 5, 5], [5, 5, 5.1]], np.float32)[None] * np.float32(scale)
    scene = scene_of((triangles, grey(0, 1e6)), (weak, grey(0, 1e-3)))
    lights = lights_of(scene)
    random = np.random.default_rng(4)
    points = np.concatenate([triangles[:50].mean(1), random.uniform(-6, 6, (200, 3)) * scale, random.normal(size=(50, 3)) * 1e3 * scale])
    found = favours(lights, points, random.normal(size=(300, 3)))
    assert np.isfinite(found).all() and (found > 0).all()


def test_near_lights_are_favoured_and_those_that_shine_elsewhere_are_not() -> None:
    """A row of lamps over a floor, every second one of which shines upwards."""
    row = [quad([x, 1, 0], [0.1, 0, 0], [0, 0, 0.1])[:, :: 1 if x % 2 else -1] for x in range(40)]  # the odd ones shine down
    lights = lights_of(scene_of((np.concatenate(row), grey(0, 1.0))))
    chance = (favours(lights, (9.05, 0.0, 0.05), (0, 1, 0))[0] * powers_of(lights)).reshape(-1, 2).sum(1)
    assert chance.argmax() == 9 and chance[9] > 0.3
    assert chance[::2].sum() < 0.02


# ---- the tree ----


def test_nodes_know_the_means_and_variances_of_what_is_below_them() -> None:
    triangles = scattered(200, 6)
    random = np.random.default_rng(1)
    power, two_sided = random.uniform(0.1, 3, 200), np.zeros(200, np.bool_)
    nodes, links, place = light_rows(triangles, power, two_sided)
    corners = triangles.astype(np.float64)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    bits = links.view(np.int32).reshape(-1, 2, 4)
    below: dict[int, list[int]] = {}  # lights of pairs

    def lights_below(link: int) -> list[int]:
        if link < 0:
            return [-1 - link]
        below[link] = [light for child in bits[link, :, 2] for light in lights_below(int(child))]
        return below[link]

    assert sorted(lights_below(0)) == list(range(200))
    u = random.uniform(0, 1, (2, 4000))
    inside = np.where(u.sum(0) > 1, 1 - u, u)  # points of a triangle, evenly
    for pair in range(0, 199, 7):
        for side in range(2):
            child = int(bits[pair, side, 2])
            own = lights_below(child)
            share = power[own] / power[own].sum()
            a, b, c = (corners[own, k] for k in range(3))
            points = a[:, None] + inside[0, :, None] * (b - a)[:, None] + inside[1, :, None] * (c - a)[:, None]
            centre, normal = share @ corners[own].mean(1), share @ normals[own]
            variance = share @ ((points - centre) ** 2).sum(2).mean(1)
            row, link = nodes[pair, 8 * side : 8 * side + 8], links[pair, 4 * side : 4 * side + 4]
            np.testing.assert_allclose(row[:3], centre, atol=1e-5)
            np.testing.assert_allclose(2 * row[3], variance, rtol=0.05)
            np.testing.assert_allclose(row[4:7], normal, atol=1e-5)
            np.testing.assert_allclose(4 * row[7], share @ ((normals[own] - normal) ** 2).sum(1), atol=1e-5)
            np.testing.assert_allclose(link[:2], (0.5, power[own].sum() / power[below[pair]].sum()), rtol=1e-5)
            assert (place[-1 - child] if child < 0 else bits[child, 0, 3]) == 2 * pair + side
    assert (bits[0, :, 3] == -1).all()


def test_lights_back_to_back_make_one_that_shines_to_both_sides() -> None:
    """Two-sided lights in one plane whose windings differ have one normal, as the opposite ones of one-sided lights do not."""
    plane = np.concatenate([quad([x, 0, z], [0.4, 0, 0], [0, 0, 0.4]) for x in range(5) for z in range(5)])
    mixed = np.where((np.arange(50) % 2 == 0)[:, None, None], plane, plane[:, ::-1])
    for two_sided in (True, False):
        nodes = light_rows(mixed, np.ones(50), np.full(50, two_sided)).nodes.reshape(-1, 2, 8)
        length = np.linalg.norm(nodes[0, :, 4:7], axis=1)
        assert (length > 0.999).all() if two_sided else (length < 0.5).all()


def test_lights_in_one_place_have_a_tree_too() -> None:
    same = np.repeat(scattered(1, 7), 100, axis=0)
    nodes, _, place = light_rows(same, np.ones(100), np.zeros(100, np.bool_))
    assert len(nodes) == 99 and len(set(place.tolist())) == 100 and np.isfinite(nodes).all()


def test_lights_without_an_area_leave_the_others_what_they_are() -> None:
    """Such as small ones far from the origin, whose corners are the same floats."""
    corners, two_sided = np.concatenate([scattered(40, 8), np.full((3, 3, 3), 0.5, np.float32)]), np.zeros(43, np.bool_)
    nodes, links, _ = light_rows(corners, np.concatenate([np.ones(40), np.zeros(3)]), two_sided)
    assert np.isfinite(nodes).all() and np.isfinite(links[:, [0, 1, 4, 5]]).all()
    cross = np.cross(corners[:40, 1] - corners[:40, 0], corners[:40, 2] - corners[:40, 0]).astype(np.float64)
    mean = (cross / np.linalg.norm(cross, axis=1)[:, None]).mean(0)
    np.testing.assert_allclose(links[0, [1, 5]] @ nodes[0].reshape(2, 8)[:, 4:7], mean, atol=1e-5)


# ---- light ----


def irradiance(corners: NDArray[np.float64], point: ArrayLike) -> NDArray[np.float64]:
    """float64[n]: of a surface that faces up, by triangles of radiance 1 wholly above it, where they face it (negative where not): Lambert,
    "Photometria" (1760), as in Baum, Rushmeier and Winget (SIGGRAPH 1989)."""
    v = corners - np.asarray(point, np.float64)
    v /= np.linalg.norm(v, axis=2, keepdims=True)
    w = np.roll(v, -1, axis=1)
    across = np.cross(v, w)
    angle = np.arctan2(np.linalg.norm(across, axis=2), (v * w).sum(2))
    return np.asarray(-(angle * across[..., 1] / np.linalg.norm(across, axis=2)).sum(1) / 2)


def lit_floor(count: int, seed: int, two_sided: bool) -> tuple[Scene, float]:
    """A floor under scattered lamps, none before another as seen from the origin, which the camera looks at; and the irradiance there."""
    random = np.random.default_rng(seed)
    z, turn = random.uniform(0.15, 1, count), np.arange(count) * 2.399963
    out = np.stack([np.sqrt(1 - z * z) * np.cos(turn), z, np.sqrt(1 - z * z) * np.sin(turn)], 1) * random.uniform(1, 3, (count, 1))
    size = 0.02 * np.linalg.norm(out, axis=1)[:, None, None]
    triangles = (out[:, None] + random.normal(size=(count, 3, 3)) * size).astype(np.float32)
    strengths = 10 ** random.uniform(0, 2, 6)
    parts = [(triangles[k::6], grey(0, float(e), double_sided=two_sided)) for k, e in enumerate(strengths)]
    camera = look_at((0, 0.1, 0), (0, 0, 0), Orthographic(1e-3, 1e-3))
    floor = quad([-9, 0, -9], [0, 0, 18], [18, 0, 0]), grey(0.5)
    sent = [irradiance(t.astype(np.float64), (0, 0, 0)) * m.emissive[0] for t, m in parts]
    return scene_of(floor, *parts, camera=camera), float(sum((np.abs(e) if two_sided else e.clip(0)).sum() for e in sent))


@pytest.mark.parametrize("two_sided", [False, True])
def test_light_of_connecting_alone_is_that_of_all_lights(two_sided: bool) -> None:
    """No scattering, no shadows: the mean of radiance times cosines over density is Lambert's irradiance of each triangle."""
    scene, exact = lit_floor(90, 8, two_sided)
    lights = lights_of(scene)

    def draw(lights: Lights, lane: Tensor, *at: Tensor) -> Any:
        return lights.sample(Receiver(Vec3(*at[:3]), Vec3(*at[3:])), False, Rng.start(lane, 0, 3))[0]

    drawn = jit(draw, device=device())(lights, Tensor(np.arange(COUNT, dtype=np.uint32)), *receivers((0, 0, 0), (0, 1, 0)))
    point, normal = (np.stack([c.numpy() for c in v], 1).astype(np.float64) for v in (drawn.point, drawn.normal))
    squared = (point**2).sum(1)
    facing = -(point * normal).sum(1)
    cosines = np.where(drawn.two_sided.numpy(), np.abs(facing), facing.clip(0)) * point[:, 1].clip(0) / squared
    light = drawn.radiance.x.numpy() * cosines / squared / drawn.density.numpy()
    assert abs(light.mean() - exact) < 4.5 * light.std() / math.sqrt(COUNT)
    assert light.std() < exact  # by power it would be five times that


@pytest.mark.parametrize("form", ["packet", "serial", "lone"])
@pytest.mark.parametrize("two_sided", [False, True])
def test_connecting_and_scattering_together_find_all_light_once(two_sided: bool, form: Any) -> None:
    """Albedo / pi of the irradiance. Lamps do shade each other a little beyond: they are far apart."""
    scene, exact = lit_floor(90, 8, two_sided)
    picture = render(scene, (48, 48), frames=24, depth=2, form=form)
    error = math.sqrt((picture.deviation[..., 0] ** 2).sum()) / 48**2
    assert abs(float(picture.mean[..., 0].astype(np.float64).mean()) - exact * 0.5 / math.pi) < 4.5 * error
    assert error < 0.005 * exact


def pavilion(*more: tuple[Triangles, Any], two_sided: bool = False) -> Scene:
    """A room with a pillar and 24 lanterns of twenty triangles each, some behind the pillar."""
    room = cube_grid(1)[:, ::-1] * np.float32((4, 2, 4))
    pillar = cube_grid(1) * np.float32((0.3, 2, 0.3))
    places = np.random.default_rng(9).uniform((-3.5, -1.5, -3.5), (3.5, 1.5, 3.5), (24, 3))
    lanterns = [(icosphere(0, 0.08, p), grey(0, (5.0 * (k % 5 + 1), 9.0, 4.0), double_sided=two_sided)) for k, p in enumerate(places)]
    return scene_of(
        (np.concatenate([room, pillar]), grey((0.7, 0.6, 0.5))), *lanterns, *more, camera=look_at((3.5, 1, 3.5), (-1, -0.5, -1), 1.1)
    )


def gallery_sky() -> Environment:
    image = np.zeros((8, 16, 3), np.float32)
    image[1:4, 3:6] = (8.0, 6.0, 4.0)
    return Environment((1.0, 1.0, 1.0), 1.0, image=image + np.float32(0.1))


GLASS = replace(grey(0.9), transmission=replace(grey(0.9).transmission, factor=0.9), roughness=0.1, metallic=0.0)
VEIL = replace(grey(0.8), alpha_mode="BLEND", base_color_factor=(0.8, 0.8, 0.8, 0.5))
SCENES: dict[str, Any] = {
    "lanterns": pavilion,
    "two-sided": lambda: pavilion(two_sided=True),
    "beside a picture of the surroundings": lambda: replace(open_to_the_sky(), environment=gallery_sky()),
    "with glass": lambda: pavilion((icosphere(2, 0.7, (-1.0, -0.8, 1.0)), GLASS)),
    "veiled": lambda: pavilion((quad([-2, -1.5, 2], [3, 0, -3], [0, 2, 0]), VEIL)),
}


def open_to_the_sky() -> Scene:
    lanterns = [(icosphere(0, 0.1, (k % 5 - 2, 0.4, k // 5 - 2)), grey(0, 6.0)) for k in range(25)]
    ground = quad([-4, 0, -4], [0, 0, 8], [8, 0, 0]), grey(0.6)
    return scene_of(ground, *lanterns, camera=look_at((0, 2.5, 5), (0, 0, 0), 0.9))


@pytest.mark.parametrize("name", list(SCENES))
def test_the_picture_is_that_of_lights_chosen_by_power(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = SCENES[name]()
    by_place = upload(scene, group=device().group_width)
    monkeypatch.setattr(upload_module, "FEW", 10**9)
    by_power = upload(scene, group=device().group_width)
    lights = by_place.data.lights, by_power.data.lights
    assert lights[0] is not None and lights[0].tree is not None and lights[1] is not None and lights[1].tree is None
    seen = [render(scene, (40, 24), frames=16, spp=4, depth=4, seed=k, data=held) for k, held in enumerate((by_place, by_power))]
    means = [picture.mean.astype(np.float64).mean((0, 1)) for picture in seen]
    errors = [np.sqrt((picture.deviation**2).sum((0, 1))) / 960 for picture in seen]
    assert (np.abs(means[0] - means[1]) < 4.5 * np.hypot(*errors)).all(), f"{means} within {errors}"
    assert errors[0].max() < 0.02 * means[0].max()


@pytest.mark.parametrize("backend", ["opencl", "opengl", "reference"])
def test_other_devices_draw_the_same_picture(backend: str) -> None:
    scene = open_to_the_sky()
    size, spp = ((12, 8), 1) if backend == "reference" else ((48, 32), 4)
    held = upload(scene, group=16 if backend == "reference" else 1)
    got, wanted = (render(scene, size, spp=spp, depth=3, backend=each, data=held) for each in (backend, "cpu"))
    same = np.abs(got.mean - wanted.mean).max(-1) <= 1e-3 * (1 + wanted.mean.max(-1))
    assert same.mean() > 0.97
    assert abs(float(got.mean.mean()) - float(wanted.mean.mean())) < 0.02 * float(wanted.mean.mean())


# ---- edits ----


@pytest.mark.parametrize("group", [16, 1])
def test_an_edit_of_lamps_shapes_no_code_until_they_are_few(group: int) -> None:
    scene = lamps(300)
    held = upload(scene, group=group)
    brighter = replace(scene, materials=[replace(m, emissive=(9.0, 1.0, 3.0)) for m in scene.materials])
    fewer = replace(scene, materials=[m if k < 6 else grey(0.5) for k, m in enumerate(scene.materials)])
    few = replace(scene, materials=[m if k < 1 else grey(0.5) for k, m in enumerate(scene.materials)])
    for edited in (brighter, fewer):
        again = relit(held, edited, group=group)
        assert structure(again.data) == structure(held.data)
        assert again.data.lights is not None and again.data.lights.tree is not None
        tree = upload(edited, group=group).data.lights
        assert tree is not None and tree.tree is not None
        for name in ("nodes", "links", "place", "light"):
            mine, fresh = (getattr(t, name).numpy() for t in (again.data.lights.tree, tree.tree))
            np.testing.assert_array_equal(mine[: len(fresh)], fresh)
    dimmed = relit(held, few, group=group)
    assert dimmed.data.lights is not None and dimmed.data.lights.count == 25 <= FEW and dimmed.data.lights.tree is None
    assert structure(dimmed.data) != structure(held.data)


def test_the_number_of_lights_compiles_nothing() -> None:
    at = Receiver(Vec3(0.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0))
    function = jit(lambda tree, light: tree.favour(light, at, False), device=device())
    for count in (300, 450, 5000):
        function(lights_of(lamps(count)).tree, Tensor(np.arange(8, dtype=np.int32)))
    assert len(function.stats.compiles) == 1
