"""What `serial` puts across the SIMD unit means the same without it: positions of True, appending in either order, remainders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Tensor, arange, for_loop, jit, local_array, open_device, serial
from tests.engine.grouped import opened

DEVICES = [("reference", 1), ("reference", 4), ("cpu", 4), ("cpu", 8), ("cpu", 16)]


@pytest.fixture(params=DEVICES, ids=lambda p: f"{p[0]}{p[1]}")
def device(request: pytest.FixtureRequest) -> Any:
    yield from opened(*request.param)


def _masks(lanes: int, width: int) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(3)
    masks = random.random((lanes, width)) < random.random((lanes, 1))
    masks[0], masks[-1] = False, True
    return masks


@pytest.mark.parametrize("alone", [False, True], ids=["together", "serial"])
@pytest.mark.parametrize("width", [4, 8, 16])
def test_the_first_and_the_last_true_are_where_numpy_finds_them(device: Any, width: int, alone: bool) -> None:
    masks = _masks(37, width)

    def positions(table: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        mask = table[row]
        return mask.first_true(-1), mask.last_true(-1)

    def run(table: Tensor) -> tuple[Tensor, Tensor]:
        rows = arange(37)
        return serial(lambda r: positions(table, r), rows) if alone else positions(table, rows)

    first, last = jit(run, device=device)(Tensor(masks))
    assert first.numpy().tolist() == [int(np.argmax(m)) if m.any() else width for m in masks]
    assert last.numpy().tolist() == [width - 1 - int(np.argmax(m[::-1])) if m.any() else -1 for m in masks]


@pytest.mark.parametrize("alone", [False, True], ids=["together", "serial"])
@pytest.mark.parametrize("dtype", ["int32", "float32", "int64", "float64", "uint8", "int16"])
@pytest.mark.parametrize("width", [3, 4, 8, 16])
def test_append_where_stores_what_the_mask_keeps_in_either_order(device: Any, width: int, dtype: str, alone: bool) -> None:
    masks = _masks(21, width)
    values = np.random.default_rng(5).integers(0, 100, (21, width)).astype(dtype)
    backwards = np.arange(21) % 3 == 0

    def append(table: Tensor, keep: Tensor, turned: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        stack = local_array(3 * width + 2, dtype, fill=0)
        stack, top = stack.append_where(2, keep[row], table[row], reverse=turned[row])
        stack, top = stack.append_where(top, keep[row], table[row])
        total = for_loop(top, lambda i, sum: sum * 3 + stack[i].cast("int64"), Tensor(0, "int64"))
        return top, total

    def run(table: Tensor, keep: Tensor, turned: Tensor) -> tuple[Tensor, Tensor]:
        rows = arange(21)
        return serial(lambda r: append(table, keep, turned, r), rows) if alone else append(table, keep, turned, rows)

    top, total = jit(run, device=device)(Tensor(values), Tensor(masks), Tensor(backwards))
    for lane in range(21):
        kept = values[lane][masks[lane]].astype(np.int64)
        stored = [0, 0, *(kept[::-1] if backwards[lane] else kept), *kept]
        wanted = np.int64(0)
        with np.errstate(over="ignore"):
            for v in stored:
                wanted = wanted * np.int64(3) + np.int64(v)
        assert top.numpy()[lane] == len(stored)
        assert total.numpy()[lane] == wanted


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 20), st.integers(1, 5), st.integers(1, 20), st.integers(1, 40), st.booleans())
def test_a_remainder_in_an_index_stays(rows: int, middle: int, columns: int, lanes: int, serially: bool) -> None:
    """An index that is itself a quotient or remainder by the axis' size is not taken for the table's own arithmetic."""
    table = np.arange(rows * middle * columns, dtype=np.float32).reshape(rows, middle, columns)
    places = np.random.default_rng(lanes).integers(0, rows * columns, lanes)

    def look(t: Tensor, s: Tensor) -> Tensor:
        def at(s: Tensor) -> Tensor:
            return t[s // columns, middle - 1, s % columns] + t[s % rows, 0, (s // rows) % columns]

        return serial(at, s) if serially else at(s)

    device = open_device("cpu", threads=1)
    result = jit(look, device=device)(Tensor(table), Tensor(places.astype(np.int32))).numpy()
    wanted = table[places // columns, middle - 1, places % columns] + table[places % rows, 0, (places // rows) % columns]
    assert np.array_equal(result, wanted)
