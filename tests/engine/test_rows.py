"""Look-ups of rows and in small tables, and pixels in tiles: what replaces gathers and scatters means what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Tensor, arange, cond, jit, open_device, stack, where, while_loop

DEVICES = [("reference", 4), ("cpu", 4), ("cpu", 8), ("cpu", 16)]


@pytest.fixture(scope="module", params=DEVICES, ids=lambda p: f"{p[0]}{p[1]}")
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    backend, group = request.param
    try:
        opened = open_device(backend, group=group)
    except RuntimeError as error:
        pytest.skip(str(error))
    yield opened
    opened.close()


def _table(random: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    if dtype == "bool":
        return random.random(shape) < 0.5
    return random.integers(0, 120, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "uint32", "float64", "bool"])
@pytest.mark.parametrize("rows", [1, 8, 9, 33, 65, 129, 300])
@pytest.mark.parametrize("columns", [1, 3, 5, 16, 17])
def test_columns_of_rows_are_those_of_numpy(device: Any, rows: int, columns: int, dtype: str) -> None:
    random = np.random.default_rng(rows * columns)
    table = _table(random, (rows, columns), dtype)
    chosen = random.integers(0, rows, 37).astype(np.int32)

    def run(table: Tensor, chosen: Tensor) -> tuple[Tensor, ...]:
        return tuple(table[chosen, k] for k in range(columns))

    found = jit(run, device=device)(Tensor(table), Tensor(chosen))
    for k in range(columns):
        assert np.array_equal(found[k].numpy(), table[chosen, k])


@pytest.mark.parametrize("rows", [3, 40, 150])
def test_a_table_may_have_its_rows_along_the_last_axis(device: Any, rows: int) -> None:
    random = np.random.default_rng(rows)
    table = _table(random, (6, rows), "float32")
    chosen = random.integers(0, rows, 21).astype(np.int32)
    found = jit(lambda table, chosen: tuple(table[k, chosen] for k in range(6)), device=device)(Tensor(table), Tensor(chosen))
    for k in range(6):
        assert np.array_equal(found[k].numpy(), table[k, chosen])


@pytest.mark.parametrize("offset", [-1, 1, 5])
def test_rows_beside_the_one_that_is_named(device: Any, offset: int) -> None:
    random = np.random.default_rng(2)
    for rows in (20, 400):
        table = _table(random, (rows, 5), "int32")
        chosen = random.integers(6, rows - 6, 50).astype(np.int32)

        def run(table: Tensor, chosen: Tensor) -> tuple[Tensor, ...]:
            return tuple(table[chosen + offset, k] for k in range(5))

        found = jit(run, device=device)(Tensor(table), Tensor(chosen))
        for k in range(5):
            assert np.array_equal(found[k].numpy(), table[chosen + offset, k])


@given(st.integers(0, 1 << 30))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_dead_lanes_may_hold_any_index(device: Any, seed: int) -> None:
    """Lanes leave a loop and an arm with indices far outside of the table."""
    random = np.random.default_rng(seed)
    rows, columns = int(random.choice([2, 8, 36, 100, 500, 3000])), int(random.integers(1, 17))
    read = sorted(random.choice(columns, int(random.integers(1, columns + 1)), replace=False).tolist())
    lanes = int(random.integers(1, 60))
    table = random.integers(-50, 50, (rows, columns)).astype(np.int32)
    start = random.integers(0, rows, lanes).astype(np.int32)
    turns = random.integers(0, 6, lanes).astype(np.int32)
    wild = 0x3FFFFFFF

    def run(table: Tensor, start: Tensor, turns: Tensor) -> tuple[Tensor, Tensor]:
        def step(turn: Tensor, row: Tensor, total: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            values = [table[row, k] for k in read]
            added = cond(values[0] > 0, lambda: sum((table[row, k] for k in read), total * 0), lambda: values[-1] * 3)
            following = (row + 1) % rows
            return turn + 1, where(turn + 1 < turns, following, wild), total * 5 + added

        _, row, total = while_loop(lambda turn, row, total: turn < turns, step, (turns * 0, where(turns > 0, start, wild), turns * 0))
        return row, total

    row, total = jit(run, device=device)(Tensor(table), Tensor(start), Tensor(turns))
    for lane in range(lanes):
        at, wanted = (int(start[lane]), 0) if turns[lane] else (wild, 0)
        for turn in range(turns[lane]):
            values = [int(table[at, k]) for k in read]
            wanted = wanted * 5 + (sum(values) if values[0] > 0 else values[-1] * 3)
            at = (at + 1) % rows if turn + 1 < turns[lane] else wild
        assert row.numpy()[lane] == at
        assert total.numpy()[lane] == (wanted + (1 << 31)) % (1 << 32) - (1 << 31)


def _turns(pixel: Tensor) -> Tensor:
    """Control flow in which lanes part, so that lanes are walked in tiles: 0, 1 or 2 for each pixel."""
    wanted: Tensor = pixel % 3
    turns: Tensor = while_loop(lambda n: n < wanted, lambda n: n + 1, wanted * 0)
    return turns


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "bool"])
@pytest.mark.parametrize("size", [(8, 16), (9, 7), (30, 3)])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
def test_pixels_are_read_changed_and_written(device: Any, channels: int, size: tuple[int, int], dtype: str, dynamic: bool) -> None:
    height, width = size
    random = np.random.default_rng(channels)
    picture = _table(random, (height, width, channels), dtype)
    plane = random.integers(0, 99, size).astype(np.int32)

    def run(picture: Tensor, plane: Tensor) -> Tensor:
        h, w = plane.shape
        row, column = arange(h)[:, None], arange(w)[None, :]
        pixel = row * (w if isinstance(w, int) else Tensor.of(w)) + column
        turns = _turns(pixel)
        before = [picture[..., k] for k in range(channels)]
        picture.assign(stack([where(turns == 1, b, (turns + k).cast(dtype)) for k, b in enumerate(before)], -1))
        was = plane + turns
        plane.assign(was * 2)
        return was

    dims = ("h", "w") if dynamic else ()
    a, b = Tensor(picture, dims=dims), Tensor(plane, dims=dims)
    was = jit(run, device=device)(a, b).numpy()
    turns = np.arange(height * width).reshape(size) % 3
    assert np.array_equal(was, plane + turns)
    assert np.array_equal(b.numpy(), (plane + turns) * 2)
    for k in range(channels):
        assert np.array_equal(a.numpy()[..., k], np.where(turns == 1, picture[..., k], (turns + k).astype(dtype)))


@pytest.mark.parametrize("size", [(8, 8), (7, 13)])
def test_pixels_read_in_an_arm_and_beside_their_own_place(device: Any, size: tuple[int, int]) -> None:
    height, width = size
    picture = np.random.default_rng(4).integers(0, 99, (height + 1, width + 2, 3)).astype(np.int32)

    def run(picture: Tensor) -> Tensor:
        row, column = arange(height)[:, None], arange(width)[None, :]
        pixel = row * width + column
        turns = _turns(pixel)
        y, x = row.broadcast_to(pixel.shape), column.broadcast_to(pixel.shape)

        def arm() -> Tensor:
            found: Tensor = picture[y + 1, x + 2, 1] * 7 + picture[y, x + 1, 2] - picture[y, 2 * x // 2, 0]
            return found

        return cond(turns == 1, arm, lambda: picture[y, x, 0])  # type: ignore[no-any-return]

    found = jit(run, device=device)(Tensor(picture)).numpy()
    p = picture.astype(np.int64)
    other = p[1:, 2:, 1] * 7 + p[:-1, 1:-1, 2] - p[:-1, :-2, 0]
    turns = np.arange(height * width).reshape(size) % 3
    assert np.array_equal(found, np.where(turns == 1, other, p[:-1, :-2, 0]))
