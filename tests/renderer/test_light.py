"""Few lights are found by their power, points on them evenly, and the stated density is the true one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from engine import Tensor, jit
from renderer.sampling.rng import Rng
from renderer.scene.model import Scene
from renderer.scene.upload import upload
from renderer.shading.light import Lights, weight_of_connecting, weight_of_scattering
from renderer.shading.light_tree import Receiver
from renderer.vec import Ray, Vec3
from tests.renderer.helpers.chance import chi_square
from tests.renderer.helpers.tracing import device
from tests.renderer.helpers.worlds import grey, icosphere, quad, scene_of

COUNT = 100_000
ANYWHERE = Receiver(Vec3(0.0, 0.0, 0.0), Vec3(0.0, 0.0, 1.0))


class Samples(NamedTuple):
    """Points, normals, radiance, density by area, two-sidedness of samples."""

    point: NDArray[np.float64]
    normal: NDArray[np.float64]
    radiance: NDArray[np.float64]
    density: NDArray[np.float64]
    two_sided: NDArray[np.bool_]


def lights_of(scene: Scene) -> Lights:
    lights = upload(scene, group=16).data.lights
    assert lights is not None
    return lights


def sample(lights: Lights, count: int = COUNT, backend: str = "cpu") -> Samples:
    def draw(lights: Lights, lane: Tensor) -> Any:
        return lights.sample(ANYWHERE, False, Rng.start(lane, 0, 1))[0]

    found = jit(draw, device=device(backend))(lights, Tensor(np.arange(count, dtype=np.uint32)))
    point, normal, radiance = (
        np.stack([np.broadcast_to(c.numpy(), count) for c in v], 1).astype(np.float64) for v in (found.point, found.normal, found.radiance)
    )
    return Samples(point, normal, radiance, found.density.numpy().astype(np.float64), np.broadcast_to(found.two_sided.numpy(), count))


def three_lights() -> Scene:
    """Three squares of 1, 4 and 2 m2, of luminances 6, 1 and 0.5 (powers as 6 : 4 : 1), and something that does not shine."""
    return scene_of(
        (quad([0, 0, 0], [1, 0, 0], [0, 1, 0]), grey(0.2, 6.0)),
        (quad([0, 0, 1], [2, 0, 0], [0, 2, 0]), grey(0.2, 1.0, double_sided=True)),
        (quad([0, 0, 2], [2, 0, 0], [0, 1, 0]), grey(0.2, 0.5)),
        (quad([0, 0, 3], [2, 0, 0], [0, 1, 0]), grey(0.2)),
    )


def test_lights_are_chosen_by_their_power() -> None:
    drawn = sample(lights_of(three_lights()))
    counts = np.bincount(np.round(drawn.point[:, 2]).astype(int), minlength=4)
    assert counts[3] == 0
    assert chi_square(counts[:3], COUNT * np.array([6, 4, 1]) / 11) < 5


def test_the_density_is_luminance_over_total_power() -> None:
    """Powers without the factor pi, which cancels: 6 + 4 + 1 = 11."""
    drawn = sample(lights_of(three_lights()))
    luminance = drawn.radiance @ [0.2126, 0.7152, 0.0722]
    np.testing.assert_allclose(drawn.density, luminance / 11, rtol=1e-5)
    np.testing.assert_allclose(drawn.normal, np.broadcast_to([0, 0, 1], drawn.normal.shape), atol=1e-6)
    assert (drawn.two_sided == (np.round(drawn.point[:, 2]) == 1)).all()


def test_the_density_integrates_to_one_over_all_lights() -> None:
    """The mean of 1 / density is the area of what shines."""
    drawn = sample(lights_of(three_lights()))
    np.testing.assert_allclose((1 / drawn.density).mean(), 1 + 4 + 2, rtol=0.02)


def test_a_coloured_light_counts_by_its_luminance() -> None:
    scene = scene_of(
        (quad([0, 0, 0], [1, 0, 0], [0, 1, 0]), grey(0, (1, 0, 0))), (quad([0, 0, 1], [1, 0, 0], [0, 1, 0]), grey(0, (0, 0, 1)))
    )
    counts = np.bincount(np.round(sample(lights_of(scene)).point[:, 2]).astype(int))
    assert chi_square(counts, COUNT * np.array([0.2126, 0.0722]) / 0.2848) < 5


def test_points_lie_evenly_on_a_light() -> None:
    scene = scene_of((quad([0, 0, 0], [3, 0, 0], [0, 2, 0]), grey(0, 1.0)))
    point = sample(lights_of(scene)).point
    counts = np.histogram2d(point[:, 0], point[:, 1], [18, 12], [[0, 3], [0, 2]])[0]
    assert chi_square(counts.astype(int), np.full((18, 12), COUNT / 216)) < 5


def test_points_lie_evenly_on_a_mesh_of_many_triangles() -> None:
    sphere = icosphere(0)
    point = sample(lights_of(scene_of((sphere, grey(0, 1.0))))).point
    corners = sphere.astype(np.float64)
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    apart = np.abs(point @ normal.T - (corners[:, 0] * normal).sum(1))  # from the triangles' planes
    assert chi_square(np.bincount(apart.argmin(1), minlength=20), np.full(20, COUNT / 20)) < 5


def test_a_triangle_without_area_is_never_chosen_and_changes_nothing() -> None:
    """C33."""
    good = quad([0, 0, 0], [1, 0, 0], [0, 1, 0])
    flat = np.array([[[0, 0, 5], [1, 0, 5], [2, 0, 5]], [[0, 0, 5]] * 3], np.float32)
    lights = lights_of(scene_of((np.concatenate([good, flat]), grey(0, 2.0))))
    clean = lights_of(scene_of((good, grey(0, 2.0))))
    drawn, wanted = sample(lights), sample(clean)
    for a, b in zip(drawn, wanted):
        assert np.isfinite(a).all()
        np.testing.assert_array_equal(a, b)


def test_light_without_emission_is_no_light() -> None:
    assert upload(scene_of((quad([0, 0, 0], [1, 0, 0], [0, 1, 0]), grey(0.5, 0.0))), group=16).data.lights is None


@pytest.mark.parametrize("distance", [0.5, 2.0, 50.0])
def test_the_density_by_solid_angle_integrates_to_one(distance: float) -> None:
    """The mean of 1 / density over samples is the solid angle: that of a disk's circumscribed square, 4 asin(sin a sin b)."""
    half = 1.0
    drawn = sample(lights_of(scene_of((quad([-half, -half, distance], [0, 2 * half, 0], [2 * half, 0, 0]), grey(0, 1.0)))))
    squared = (drawn.point**2).sum(1)
    cosine = -(drawn.point * drawn.normal).sum(1) / np.sqrt(squared)
    density = drawn.density * squared / cosine
    exact = 4 * math.asin(half**2 / (half**2 + distance**2))
    np.testing.assert_allclose((1 / np.asarray(density)).mean(), exact, rtol=0.01)


def test_the_power_heuristic_shares_light_between_the_two_ways_of_finding_it() -> None:
    random = np.random.default_rng(8)
    by_area, squared, cosine, scattering = (np.exp(random.uniform(-9, 9, 4000)).astype(np.float32) for _ in range(4))
    cosine = np.minimum(cosine, 1.0).astype(np.float32)
    given = [Tensor(a) for a in (by_area, squared, cosine, scattering)]
    connecting, found = (jit(f, device=device())(*given).numpy() for f in (weight_of_connecting, weight_of_scattering))
    a = by_area.astype(np.float64) * squared / cosine
    p = scattering.astype(np.float64)
    np.testing.assert_allclose(connecting * a, a * a / (a * a + p * p), rtol=1e-5, atol=1e-30)
    np.testing.assert_allclose(found, p * p / (a * a + p * p), rtol=1e-5, atol=1e-30)
    nothing = jit(weight_of_scattering, device=device())(*(Tensor(np.array([v], np.float32)) for v in (0.0, 4.0, 0.5, 0.0)))
    assert nothing.item() == 1  # no light sampling could have found it


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_the_nearest_emissive_triangle_is_the_one_that_all_triangles_together_tell(backend: str) -> None:
    random = np.random.default_rng(9)
    corners = random.uniform(-1, 1, (12, 3, 3)).astype(np.float32)
    lights = lights_of(scene_of((corners, grey(0, 1.0))))
    origins = random.uniform(-2, 2, (400, 3)).astype(np.float32)
    directions = random.normal(size=(400, 3)).astype(np.float32)

    def seek(lights: Lights, o: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        ray = Ray(Vec3(o[:, 0], o[:, 1], o[:, 2]), Vec3(d[:, 0], d[:, 1], d[:, 2]))
        return lights.nearest(ray, 3.0e38)

    t, number = (r.numpy() for r in jit(seek, device=device(backend))(lights, Tensor(origins), Tensor(directions)))
    rows = lights.rows.numpy().astype(np.float64)[: lights.count]
    wanted = np.full((400, len(rows)), np.inf)
    for k, row in enumerate(rows):
        columns = (-directions, row[3:6], row[6:9])
        matrix = np.stack([np.broadcast_to(c, (400, 3)) for c in columns], 2)
        s, u, v = np.linalg.solve(matrix, (origins - row[0:3])[:, :, None])[:, :, 0].T
        wanted[:, k] = np.where((s > 0) & (u >= 0) & (v >= 0) & (u + v <= 1), s, np.inf)
    hit = np.isfinite(wanted.min(1))
    assert 20 < hit.sum() < 400
    assert np.array_equal(number >= 0, hit)
    assert np.array_equal(number[hit], wanted.argmin(1)[hit])
    np.testing.assert_allclose(t[hit], wanted.min(1)[hit], rtol=1e-4)


def test_the_interpreter_draws_the_same_points() -> None:
    lights = lights_of(three_lights())
    one, other = sample(lights, 256), sample(lights, 256, "reference")
    for a, b in zip(one, other):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
