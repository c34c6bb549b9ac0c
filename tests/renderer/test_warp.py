"""Warps turn uniform numbers into points and directions with exactly the density that they state."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine import Jitted, Tensor, jit
from renderer.sampling import warp
from renderer.vec import Vec3, basis_around, dot
from tests.renderer.helpers.chance import chi_square
from tests.renderer.helpers.tracing import device

COUNT = 200_000


def on_device(function: Callable[..., Any], *arrays: NDArray[Any]) -> Any:
    made: Jitted = jit(function, device=device())
    return made(*(Tensor(np.ascontiguousarray(a, np.float32)) for a in arrays))


def uniform(seed: int, columns: int = 2, count: int = COUNT) -> list[NDArray[np.float32]]:
    return list(np.random.default_rng(seed).random((columns, count), np.float32))


def test_the_disk_is_covered_evenly() -> None:
    x, y = (a.numpy() for a in on_device(warp.disk, *uniform(1)))
    radius = np.hypot(x, y)
    assert radius.max() <= 1 + 1e-6
    counts = np.histogram2d(radius**2, np.arctan2(y, x), [16, 24], [[0, 1.000001], [-math.pi, math.pi]])[0]
    assert chi_square(counts.astype(int), np.full((16, 24), COUNT / 384)) < 5


def test_the_disk_has_its_corners_and_its_middle() -> None:
    u, v = np.array([0.5, 0, 1, 0, 1, 0.5, 1]), np.array([0.5, 0, 0, 1, 1, 1, 0.5])
    x, y = (a.numpy() for a in on_device(warp.disk, u, v))
    h = math.sqrt(0.5)
    np.testing.assert_allclose(np.stack([x, y], 1), [[0, 0], [-h, -h], [h, -h], [-h, h], [h, h], [0, 1], [1, 0]], atol=1e-6)


def test_the_disk_keeps_neighbours_together() -> None:
    """Strata of the square stay strata: a small square becomes a region of the disk of pi / 4 times its area, and compact."""
    u, v = uniform(2, count=1000)
    x, y = (a.numpy() for a in on_device(warp.disk, u, v))
    x2, y2 = (a.numpy() for a in on_device(warp.disk, np.minimum(u + 1e-3, 1), v))
    assert np.hypot(x2 - x, y2 - y).max() < 3e-3


def test_the_cosine_hemisphere_is_sampled_by_its_cosine() -> None:
    direction, density = on_device(warp.cosine_hemisphere, *uniform(3))
    x, y, z = (c.numpy() for c in direction)
    np.testing.assert_allclose(x * x + y * y + z * z, 1, atol=2e-6)
    assert z.min() >= 0
    np.testing.assert_allclose(density.numpy(), z / math.pi, atol=1e-6)
    # the cosine's square is uniform, and so is the azimuth
    counts = np.histogram2d(z * z, np.arctan2(y, x), [16, 24], [[0, 1.000001], [-math.pi, math.pi]])[0]
    assert chi_square(counts.astype(int), np.full((16, 24), COUNT / 384)) < 5


def test_the_density_of_the_hemisphere_integrates_to_one() -> None:
    n = 400
    cosine = (np.arange(n) + 0.5) / n
    assert abs((cosine / math.pi).mean() * 2 * math.pi - 1) < 1e-6
    _, density = on_device(warp.cosine_hemisphere, *uniform(4))
    inverse = 1 / np.maximum(density.numpy(), 1e-3)  # the mean of 1 / density is the solid angle
    np.testing.assert_allclose(inverse.mean(), 2 * math.pi, rtol=0.01)


def test_triangles_are_covered_evenly() -> None:
    b1, b2 = (a.numpy() for a in on_device(warp.triangle, *uniform(5)))
    assert (b1 >= 0).all() and (b2 >= 0).all() and (b1 + b2 <= 1 + 1e-6).all()
    n = 20
    i, j = np.minimum((b1 * n).astype(int), n - 1), np.minimum((b2 * n).astype(int), n - 1)
    counts = np.zeros((n, n), int)
    np.add.at(counts, (i, j), 1)
    cell = np.array([[1.0 if a + b < n - 1 else 0.5 if a + b == n - 1 else 0.0 for b in range(n)] for a in range(n)])
    on_the_rim = cell == 0.0
    assert counts[on_the_rim].sum() < COUNT * 1e-4
    assert chi_square(counts[~on_the_rim], COUNT * cell[~on_the_rim] / cell.sum()) < 5


def test_the_corners_of_the_square_are_corners_of_the_triangle() -> None:
    b1, b2 = (a.numpy() for a in on_device(warp.triangle, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])))
    assert np.stack([b1, b2], 1).tolist() == [[0, 0], [0, 0], [1, 0], [0, 1]]


def test_bases_are_right_handed_and_at_right_angles_around_any_direction() -> None:
    random = np.random.default_rng(6)
    n = random.normal(size=(5000, 3))
    n[:6] = [[0, 0, 1], [0, 0, -1], [1, 0, 0], [-1, 0, 0], [0, 1, 0], [1e-7, 1e-7, -1]]
    n /= np.linalg.norm(n, axis=1, keepdims=True)

    def bases(x: Tensor, y: Tensor, z: Tensor) -> Any:
        s, t, around = basis_around(Vec3(x, y, z))
        return dot(s, s), dot(t, t), dot(s, t), dot(s, around), dot(t, around), s, t

    ss, tt, st, sn, tn, s, t = on_device(bases, *n.T)
    for unit_length in (ss, tt):
        np.testing.assert_allclose(unit_length.numpy(), 1, atol=1e-6)
    for right_angle in (st, sn, tn):
        np.testing.assert_allclose(right_angle.numpy(), 0, atol=1e-6)
    s, t = (np.stack([c.numpy() for c in v], 1) for v in (s, t))
    np.testing.assert_allclose((np.cross(s, t) * n).sum(1), 1, atol=1e-6)
