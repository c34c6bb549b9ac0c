"""The film adds up what is finite, begins anew when told to, and is shown as a screen shows it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine import Jitted, Tensor, jit, stack
from renderer.pipeline.camera import camera_data
from renderer.pipeline.film import Film, Films
from renderer.pipeline.frame import FrameSettings, Numbers, make_frame
from renderer.pipeline.tonemap import filmic, rgba8, srgb
from renderer.scene.gltf import load
from renderer.vec import Vec3
from tests.renderer.helpers.pictures import uploaded
from tests.renderer.helpers.tracing import device


def _add(film: Film, colour: Tensor, refused: Tensor, keep: bool) -> Tensor:
    flag = keep if isinstance(keep, Tensor) else Tensor(keep)
    return stack(list(film.accumulate(Vec3(*(colour[..., k] for k in range(3))), refused, flag)), -1)


@lru_cache(None)
def _adding() -> Jitted:
    made: Jitted = jit(_add, device=device())
    return made


def add(film: Film, colour: NDArray[np.float32], refused: NDArray[np.int32], keep: bool) -> NDArray[np.float32]:
    dims = ("height", "width")
    sums = _adding()(film, Tensor(colour, dims=dims), Tensor(refused, dims=dims), keep)
    return np.asarray(sums.numpy().copy())


def test_a_film_is_the_sum_of_what_it_was_given() -> None:
    random = np.random.default_rng(1)
    film = Film.empty(7, 5)
    samples = random.random((6, 7, 5, 3), np.float32)
    lost = random.integers(0, 2, (6, 7, 5)).astype(np.int32)
    for k in range(6):
        sums = add(film, samples[k], lost[k], k > 0)
        np.testing.assert_allclose(sums, samples[: k + 1].sum(0), rtol=1e-6)
        np.testing.assert_array_equal(film.total.numpy(), sums)
        np.testing.assert_array_equal(film.refused.numpy(), lost[: k + 1].sum(0))


def test_beginning_anew_forgets_everything_even_what_is_not_finite() -> None:
    film = Film.empty(3, 3)
    ones, none = np.ones((3, 3, 3), np.float32), np.zeros((3, 3), np.int32)
    add(film, ones * np.float32(np.nan), none + 4, False)
    sums = add(film, ones, none, False)
    np.testing.assert_array_equal(sums, ones)
    np.testing.assert_array_equal(film.refused.numpy(), none)


def test_films_of_all_sizes_are_filled_by_the_same_kernels() -> None:
    """C43: a window of another size compiles nothing."""
    for height, width in ((4, 4), (1, 1), (1, 300), (211, 3), (4, 4)):
        film = Film.empty(height, width)
        ones = np.ones((height, width, 3), np.float32)
        np.testing.assert_array_equal(add(film, ones, np.zeros((height, width), np.int32), False), ones)
    assert len(_adding().stats.compiles) == 1


def test_a_window_of_another_size_and_another_camera_compile_nothing(cornell: Any) -> None:
    scene, on = load(cornell), device()
    data, run = uploaded(scene).data, make_frame(on)
    for k, (width, height) in enumerate(((32, 32), (17, 9), (1, 1), (64, 3))):
        camera = camera_data(scene.cameras[0], width, height, 10.0 * k, np.zeros(3))
        film, picture = Films().of(width, height)
        run(data, film, picture, camera, Numbers(seed=k, max_depth=3, exposure=1.0 + k), FrameSettings())
        assert picture.numpy().shape == (height, width) and picture.numpy().all()
    assert len(run.stats.compiles) == 1


# ---- to the screen ----


def shown(values: Any, exposure: float = 1.0) -> NDArray[np.uint8]:
    """uint8[n, 4] of linear colours float[n, 3]."""
    v = np.asarray(values, np.float32).reshape(-1, 3)

    def convert(colour: Tensor, exposure: float) -> Tensor:
        return rgba8(Vec3(*(colour[:, k] for k in range(3))), exposure, 0)

    packed: NDArray[np.uint32] = jit(convert, device=device())(Tensor(v), exposure).numpy()
    return packed.astype("<u4").view(np.uint8).reshape(-1, 4).copy()


def curve(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The tone curve and transfer function as published, in float64."""
    y = np.clip((x * (2.51 * x + 0.03)) / (x * (2.43 * x + 0.59) + 0.14), 0, 1)
    return np.where(y <= 0.0031308, 12.92 * y, 1.055 * y ** (1 / 2.4) - 0.055) * 255


def test_black_is_black_and_opaque() -> None:
    assert shown([0, 0, 0]).tolist() == [[0, 0, 0, 255]]


def test_red_is_the_lowest_byte() -> None:
    assert shown([[100, 0, 0], [0, 100, 0], [0, 0, 100]]).tolist() == [[255, 0, 0, 255], [0, 255, 0, 255], [0, 0, 255, 255]]


def test_greys_follow_the_published_curve() -> None:
    x = np.concatenate([np.linspace(0, 2, 500), np.geomspace(1e-5, 1e6, 500)])
    got = shown(np.repeat(x[:, None], 3, 1))[:, 0].astype(float)
    assert np.abs(got - curve(x)).max() <= 0.51
    assert (np.diff(got[:500]) >= 0).all()


def test_exposure_is_a_factor() -> None:
    x = np.random.default_rng(2).random((50, 3))
    assert np.abs(shown(x, 4.0).astype(int) - shown(x * 4)).max() <= 1


@pytest.mark.parametrize("value", [1e30, 3e38])
def test_what_is_very_bright_is_white(value: float) -> None:
    """An overflow in the curve must not come out black."""
    assert shown([value] * 3).tolist() == [[255, 255, 255, 255]]


def test_the_transfer_function_has_no_step() -> None:
    x = np.array([0.0, 0.0031307, 0.0031309, 0.5, 1.0], np.float32)
    y = jit(srgb, device=device())(Tensor(x)).numpy()
    np.testing.assert_allclose(y, [0, 0.040449, 0.040451, 0.735357, 1], atol=2e-5)
    z = jit(filmic, device=device())(Tensor(x)).numpy()
    assert z[0] == 0 and z.max() <= 1
