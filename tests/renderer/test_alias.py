"""Alias tables sample exactly what they are asked to, for any weights."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from renderer.sampling.alias import AliasTable, alias_table


def sampled(table: AliasTable) -> NDArray[np.float64]:
    """The distribution that sampling the table has: its own share of each column, plus what it gets as an alias."""
    own = table.probability.astype(np.float64)
    as_alias = np.bincount(table.alias, 1 - own, minlength=len(own))
    return np.asarray((own + as_alias) / len(own))


def check(weights: NDArray[np.floating]) -> AliasTable:
    table = alias_table(weights)
    relative = np.asarray(weights, np.float64) / np.max(weights)
    wanted = relative / relative.sum()
    n = len(weights)
    assert [array.dtype.name for array in table] == ["float32", "int32", "float32"]
    assert ((table.probability >= 0) & (table.probability <= 1)).all()
    assert ((table.alias >= 0) & (table.alias < n)).all()
    np.testing.assert_allclose(table.pmf, wanted, rtol=1e-6, atol=1e-44)
    # Shares of columns are float32: each can be off by half an ulp of 1, things with many aliases by the sum of these.
    columns = 1 + np.bincount(table.alias, minlength=n)
    assert (np.abs(sampled(table) - wanted) <= (columns * 2.0**-24 + 1e-9) / n + 2e-7 * wanted).all()
    never = table.pmf == 0
    assert never[np.asarray(weights) == 0].all()
    assert (table.probability[never] == 0).all()
    assert not never[table.alias].any()
    return table


@given(hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(0, 1e6)))
def test_the_table_samples_the_weights(weights: NDArray[np.float64]) -> None:
    if weights.any():
        check(weights)


@given(st.integers(1, 300), st.floats(0.1, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_weights_over_many_orders_of_magnitude_are_sampled_exactly(n: int, spread: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    weights = np.exp(random.normal(0, spread, n))
    weights[random.random(n) < 0.3] = 0
    weights[random.integers(n)] = 1
    check(weights)


@given(st.integers(1, 2000))
def test_equal_weights_need_no_alias(n: int) -> None:
    table = check(np.full(n, 0.1, np.float32))
    np.testing.assert_allclose(table.probability, 1, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-320, 1e-30, 1.0, 1e30, 1e308])
def test_the_scale_of_the_weights_does_not_matter(scale: float) -> None:
    check(np.array([1.0, 0.5, 0.25, 0.0, 1.0]) * scale)


def test_a_single_light_is_always_chosen() -> None:
    table = check(np.array([3.0], np.float32))
    assert table.probability[0] == 1
    assert table.pmf[0] == 1


def test_a_face_without_area_is_never_chosen() -> None:
    table = check(np.array([0.5, 0.0, 0.5]))
    random = np.random.default_rng(5)
    column = random.integers(0, 3, 100_000)
    chosen = np.where(random.random(100_000, np.float32) < table.probability[column], column, table.alias[column])
    counts = np.bincount(chosen, minlength=3)
    assert counts[1] == 0
    assert abs(counts[0] - 50_000) < 1_000


def test_weights_too_small_for_float32_are_never_chosen_rather_than_chosen_with_probability_zero() -> None:
    table = check(np.array([1e-60, 1.0, 2.0]))
    assert table.pmf[0] == 0


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, -1.0])
def test_a_wrong_weight_is_named(wrong: float) -> None:
    with pytest.raises(ValueError, match=rf"weight 2 is {wrong}; weights must be finite and not negative"):
        alias_table(np.array([1.0, 2.0, wrong, 4.0]))


@pytest.mark.parametrize("weights", [np.zeros(4), np.zeros(0)])
def test_nothing_to_sample_is_an_error(weights: NDArray[np.float64]) -> None:
    with pytest.raises(ValueError, match="no weight is positive"):
        alias_table(weights)


def test_weights_of_two_dimensions_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 2\); they must be one-dimensional"):
        alias_table(np.ones((2, 2)))


def test_a_million_weights_take_less_than_a_second() -> None:
    weights = np.random.default_rng(7).pareto(1.0, 1_000_000)
    start = time.process_time()
    check(weights)
    assert time.process_time() - start < 1
