"""Random numbers: uniform in every direction that a picture has, independent of each other, the same on every device."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine import Jitted, Tensor, arange, jit, stack
from renderer.sampling.rng import Rng, pcg, unit
from tests.renderer.helpers.chance import chi_square, correlation
from tests.renderer.helpers.tracing import device

PIXELS, NUMBERS = 4096, 8


@lru_cache(None)
def _streams(backend: str, group: int | None) -> Jitted:
    def streams(sample: int, seed: int) -> Tensor:
        rng = Rng.start(arange(PIXELS).cast("uint32"), sample, seed)
        numbers = []
        for _ in range(NUMBERS):
            u, rng = rng.next()
            numbers.append(u)
        return stack(numbers, -1)

    made: Jitted = jit(streams, device=device(backend, group))
    return made


def numbers(sample: int = 0, seed: int = 0, backend: str = "cpu", group: int | None = None) -> NDArray[np.float32]:
    """float32[pixels, numbers of the stream]."""
    return np.asarray(_streams(backend, group)(sample, seed).numpy().copy())


def python_pcg(value: int) -> int:
    """The published hash, in Python's own integers."""
    state = (value * 747796405 + 2891336453) & 0xFFFFFFFF
    word = (((state >> ((state >> 28) + 4)) ^ state) * 277803737) & 0xFFFFFFFF
    return (word >> 22) ^ word


def test_the_hash_is_the_published_one() -> None:
    values = np.array([0, 1, 2, 12345, 2**31, 2**32 - 1], np.uint32)
    hashed = jit(pcg, device=device())(Tensor(values)).numpy()
    assert hashed.tolist() == [python_pcg(int(v)) for v in values]


def test_a_number_is_at_least_0_and_below_1() -> None:
    bits = Tensor(np.array([0, 255, 256, 2**32 - 1], np.uint32))
    assert jit(unit, device=device())(bits).numpy().tolist() == [0.0, 0.0, 2.0**-24, 1 - 2.0**-24]
    drawn = numbers()
    assert drawn.min() >= 0 and drawn.max() < 1


@pytest.mark.parametrize(("backend", "group"), [("cpu", 16), ("cpu", 8), ("cpu", 4), ("reference", None)])
def test_every_device_draws_the_same_numbers(backend: str, group: int | None) -> None:
    np.testing.assert_array_equal(numbers(3, 5, backend, group), numbers(3, 5))


def test_the_streams_of_all_pixels_fill_the_unit_interval_evenly() -> None:
    for k in range(NUMBERS):
        counts = np.histogram(numbers()[:, k], 64, (0, 1))[0]
        assert chi_square(counts, np.full(64, PIXELS / 64)) < 5


def test_the_samples_of_one_pixel_fill_the_unit_interval_evenly() -> None:
    drawn = np.stack([numbers(sample)[:16] for sample in range(512)])
    for pixel in range(16):
        counts = np.histogram(drawn[:, pixel], 32, (0, 1))[0]
        assert chi_square(counts, np.full(32, 512 * NUMBERS / 32)) < 5


def test_pairs_of_numbers_fill_the_unit_square_evenly() -> None:
    drawn = np.concatenate([numbers(sample) for sample in range(8)])
    for a, b in ((0, 1), (1, 2), (2, 5), (0, 7)):
        counts = np.histogram2d(drawn[:, a], drawn[:, b], 24, [[0, 1], [0, 1]])[0]
        assert chi_square(counts.astype(int), np.full((24, 24), len(drawn) / 576)) < 5


def neighbours() -> list[tuple[str, Any, Any]]:
    now, later, other = numbers(0), numbers(1), numbers(0, 1)
    square = now.reshape(64, 64, NUMBERS)
    return [
        ("pixels of a row", square[:, 1:], square[:, :-1]),
        ("pixels of a column", square[1:], square[:-1]),
        ("successive frames", now, later),
        ("seeds", now, other),
        ("the next pixel in the next frame", now[1:], later[:-1]),
        ("the next number of the stream", now[:, 1:], now[:, :-1]),
        ("the next pixel's number before", now[1:, :-1], now[:-1, 1:]),
    ]


@pytest.mark.parametrize("what", range(7))
def test_neighbours_are_not_correlated(what: int) -> None:
    name, a, b = neighbours()[what]
    assert abs(correlation(a, b)) < 4.5, name


def test_no_two_pixels_or_frames_share_their_numbers() -> None:
    first = np.concatenate([numbers(sample, seed)[:, :3] for sample in range(4) for seed in range(3)])
    distinct = np.unique(first, axis=0)
    assert len(first) - len(distinct) <= 2


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1])
@pytest.mark.parametrize("sample", [0, 1, 2**30])
def test_any_sample_and_seed_has_a_stream(sample: int, seed: int) -> None:
    drawn = numbers(sample, seed)
    assert abs(drawn.mean() - 0.5) < 5 * (1 / 12 / drawn.size) ** 0.5
