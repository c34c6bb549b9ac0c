"""Sizes that have names change from call to call without a new compilation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from engine import Device, Dim, Tensor, arange, jit, open_device, set_default_device, where, while_loop
from engine.runtime import events


@pytest.fixture(autouse=True, scope="module", params=["reference", "cpu"])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    device = open_device(request.param, **({"threads": 1} if request.param == "cpu" else {}))
    before = set_default_device(device)
    yield device
    set_default_device(before)
    device.close()


def picture(height: int, width: int, channels: int = 3) -> np.ndarray[Any, Any]:
    return np.random.default_rng(height * 31 + width).random((height, width, channels), np.float32)


def named(array: np.ndarray[Any, Any]) -> Tensor:
    return Tensor(array, dims=("height", "width"))


def test_resizing_compiles_nothing_and_is_right() -> None:
    @jit
    def graded(x: Any, gain: Any) -> Any:
        grey = (x * gain).mean(axis=-1)
        return grey, where(grey > 0.5, 1.0, grey).sum(), x.flip(0)

    for k, (height, width) in enumerate([(4, 6), (7, 3), (1, 1), (33, 17), (4, 6), (2, 300)]):
        x = picture(height, width)
        with events.counting() as counted:
            grey, total, flipped = graded(named(x), 2.0)
        want = (x * np.float32(2)).mean(axis=-1)
        np.testing.assert_allclose(grey.numpy(), want, rtol=1e-6)
        np.testing.assert_allclose(total.item(), np.where(want > 0.5, 1, want).sum(), rtol=1e-5)
        assert (flipped.numpy() == x[::-1]).all()
        if k:
            assert (counted.traces, counted.compiles) == (0, 0)
            assert counted.allocations > 0
    with events.counting() as counted:
        graded(named(picture(2, 300)), 3.0)
    assert counted.allocations == 0
    assert graded.stats.misses == 1


def test_control_flow_over_a_dynamic_picture() -> None:
    @jit
    def escape(x: Any, limit: Any) -> Any:
        rows = arange(x.shape[0]).reshape(x.shape[0], 1)
        _, n = while_loop(lambda v, n: (v < limit) & (n < 20), lambda v, n: (v * 1.5 + 0.1, n + 1), (x, (x * 0).cast("int32")))
        return n + rows

    for height, width in [(5, 9), (16, 4), (3, 40)]:
        x = picture(height, width, 1)[:, :, 0]
        want = np.zeros(x.shape, np.int32)
        v = x.copy()
        for _ in range(20):
            live = v < 3
            want += live
            v = np.where(live, (v * np.float32(1.5) + np.float32(0.1)), v)
        assert (escape(named(x), 3.0).numpy() == want + np.arange(height)[:, None]).all()
    assert escape.stats.misses == 1


def test_sizes_of_one_name_must_agree() -> None:
    @jit
    def blend(x: Any, y: Any) -> Any:
        return x["film"] + y

    blend({"film": named(picture(2, 3))}, named(picture(2, 3)))
    with pytest.raises(ValueError, match=r"test_dynamic_sizes.py:\d+: blend\(\): the size 'width' is 3 in x\['film'\] and 4 in y"):
        blend({"film": named(picture(2, 3))}, named(picture(2, 4)))
    x, y = picture(5, 4), picture(5, 4)
    assert (blend({"film": named(x)}, named(y)).numpy() == x + y).all()
    with pytest.raises(ValueError, match=r"the size 'height' is 2 in one Tensor and 3 in another"):
        (named(picture(2, 3)) + named(picture(3, 3))).realize()
    with pytest.raises(ValueError, match=r"the size 'height' is 2 in x\['film'\] and 5 in y"):
        blend.warmup({"film": Tensor.spec((Dim("height", 2), Dim("width", 3), 3))}, Tensor.spec((Dim("height", 5), Dim("width", 3), 3)))


def test_a_result_keeps_its_names_when_it_is_fed_back_or_copied() -> None:
    @jit
    def advance(previous: Any, fresh: Any, weight: Any) -> Any:
        return previous * (1 - weight) + fresh.flip(1) * weight

    first, second = picture(3, 5), picture(6, 2)
    for x in (first, second):
        got = advance(named(x), named(x), 0.0)
        want = x
        for _ in range(3):
            got = advance(got, named(x), 0.25)
            want = want * np.float32(0.75) + x[:, ::-1] * np.float32(0.25)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)
    kept = got.copy()
    np.testing.assert_allclose(advance(kept, named(second), 0.0).numpy(), kept.numpy(), rtol=1e-6)
    assert advance.stats.misses == 1


def test_warming_up_with_specs_is_all_that_the_first_call_needs() -> None:
    @jit
    def frame(film: Any, scale: Any) -> Any:
        return film.contiguous().sum(axis=-1) * scale

    frame.warmup(Tensor.spec((Dim("height", 8), Dim("width", 6), 3)), 1.0)
    x = picture(8, 6)
    film = named(x)
    with events.counting() as counted:
        got = frame(film, 2.0)
    assert (counted.traces, counted.compiles, counted.allocations) == (0, 0, 0)
    np.testing.assert_allclose(got.numpy(), x.sum(-1) * 2, rtol=1e-6)
    frame.warmup(Tensor.spec((Dim("height", 100), Dim("width", 6), 3)), 1.0)
    np.testing.assert_allclose(got.numpy(), x.sum(-1) * 2, rtol=1e-6)  # warming up touches no result
    y = picture(9, 2)
    np.testing.assert_allclose(frame(named(y), 1.0).numpy(), y.sum(-1), rtol=1e-6)
    assert frame.stats.misses == 1


def test_results_passed_on_follow_their_producer_when_it_is_resized() -> None:
    double = jit(lambda x: x * 2, name="double")
    negate = jit(lambda x: -x, name="negate")
    for height, width in [(2, 3), (5, 4), (2, 3)]:
        x = picture(height, width)
        assert (negate(double(named(x))).numpy() == -2 * x).all()
    assert double.stats.misses == negate.stats.misses == 1


def test_captured_tensors_tell_sizes_too() -> None:
    table = Tensor(np.arange(5, dtype=np.float32), dims=("entries",))

    @jit
    def total(k: Any) -> Any:
        return table.sum() * k

    assert total(2.0).item() == 20


def test_a_size_that_nobody_tells() -> None:
    padded = jit(lambda x: x.pad(((1, 1), (0, 0), (0, 0))), name="padded")
    halved = jit(lambda x: x * 0.5, name="halved")
    x = picture(3, 2)
    grown = padded(named(x))
    assert grown.numpy().shape == (5, 2, 3)
    with pytest.raises(ValueError, match=r"halved\(\): axis 0 of x is 5, but no argument tells the size 'height'"):
        halved(grown)
    assert halved(grown.copy()).numpy().shape == (5, 2, 3)


def test_assigned_state_of_dynamic_size() -> None:
    @jit
    def accumulate(film: Any, x: Any) -> Any:
        film.assign(film + x)
        return film

    for height, width in [(2, 3), (4, 5)]:
        film, x = named(np.zeros((height, width, 3), np.float32)), picture(height, width)
        for _ in range(3):
            accumulate(film, named(x))
        np.testing.assert_allclose(film.numpy(), x * 3, rtol=1e-6)
    assert accumulate.stats.misses == 1
