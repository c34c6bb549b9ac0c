"""Results of control flow, loop state and votes may be read at any place along their inner axes, known early or late.

What control flow computes is made where it stands. A place along an inner axis can be known later: in a `serial` region (a vector of
places), in a loop (a long reduction), or because the place itself is a result. And it may lie beyond an edge that `pad` has filled.
Eager mode, which computes everything lane by lane as Python, says what is right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine import Tensor, TraceError, arange, cond, group, jit, local_array, serial, switch, while_loop
from engine.frontend.eager import eager
from tests.engine.grouped import opened

DEVICES = [("reference", 4), ("cpu", 16)]
LANES, WIDTH, LONG = 5, 3, 70
Body = Callable[[Tensor, Tensor], Any]
HERE = r"test_computed_places\.py:\d+: "

x = (np.arange(LANES) * 7 % 5 - 1).astype(np.int32)
rows = (np.arange(LANES * WIDTH).reshape(LANES, WIDTH) * 5 % 11 - 4).astype(np.int32)


@pytest.fixture(params=DEVICES, ids=lambda p: f"{p[0]}{p[1]}")
def device(request: pytest.FixtureRequest) -> Any:
    yield from opened(*request.param)


def same_as_eagerly(function: Body, device: Any) -> None:
    """Compares a function of x and rows with itself in eager mode."""
    with eager():
        wanted = [r.numpy() for r in _several(function(Tensor(x), Tensor(rows)))]
    found = [r.numpy() for r in _several(jit(function, device=device)(Tensor(x), Tensor(rows)))]
    assert [f.tolist() for f in found] == [w.tolist() for w in wanted]


def _several(results: Any) -> tuple[Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


def looked_up(v: Tensor) -> Tensor:
    """A value that belongs to the region where it is made, as tables are read there: a function of `v` alone."""
    return (arange(7) * 3 % 7)[(v + 70) % 7]


# Results with an inner axis, in the hands of the caller: (x, rows) -> Tensor[lanes, WIDTH].
MADE: dict[str, Body] = {
    "cond": lambda x, rows: cond(x > 1, lambda: rows + 1, lambda: rows * x[..., None]),
    "switch": lambda x, rows: switch(x % 3, [lambda: rows + 1, lambda: rows * x[..., None], lambda: rows.flip(-1)]),
    "loop": lambda x, rows: while_loop(lambda i, q: i < x, lambda i, q: (i + 1, q * 2 + i[..., None]), (x * 0, rows))[1],
    "serial": lambda x, rows: serial(lambda: looked_up(rows * 3)),
    "vote": lambda x, rows: group.max(rows * 0 + 7),
}
# Ways to read them.
READ: dict[str, Body] = {
    "across": lambda x, v: serial(lambda: looked_up(v).sum(-1) + looked_up(v * x[..., None]).max(-1)),
    "positions": lambda x, v: serial(lambda: (looked_up(v) > 2).first_true(-1) * 10 + (looked_up(v) > 3).last_true(-1)),
    "vectors": lambda x, v: serial(lambda: looked_up(v) + v),
    "by a table": lambda x, v: v[arange(LANES), looked_up(x) % WIDTH],
    "by itself": lambda x, v: v[arange(LANES), v[arange(LANES), x & 1] % WIDTH],
    "beyond an edge": lambda x, v: v[:, :2].pad(((0, 0), (1, 1)))[arange(LANES), (x + 1) % 4] + v[arange(LANES), x % WIDTH],
}


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("made", MADE)
def test_results_are_read_outside_of_bodies(device: Any, made: str, read: str) -> None:
    same_as_eagerly(lambda x, rows: READ[read](x, MADE[made](x, rows)), device)


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("made", MADE)
def test_results_are_read_in_the_body_of_a_loop(device: Any, made: str, read: str) -> None:
    def run(x: Tensor, rows: Tensor) -> Any:
        def body(i: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
            read_there = READ[read](x + i, MADE[made](x + i, rows + i[..., None]))
            return i + 1, total * 3 + (read_there if read_there.ndim == 1 else read_there.sum(-1))

        return while_loop(lambda i, total: i < 3, body, (x * 0, x))[1]

    same_as_eagerly(run, device)


@pytest.mark.parametrize("made", MADE)
def test_results_are_read_in_an_arm(device: Any, made: str) -> None:
    def run(x: Tensor, rows: Tensor) -> Any:
        v = MADE[made](x, rows)
        return cond(x > 0, lambda: READ["across"](x, v), lambda: READ["by itself"](x, v))

    same_as_eagerly(run, device)


@pytest.mark.parametrize("read", READ)
def test_the_state_of_a_loop_is_read_in_its_body(device: Any, read: str) -> None:
    def run(x: Tensor, rows: Tensor) -> Any:
        def body(i: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
            found = READ[read](i + x, v)
            return i + 1, v + (found if found.ndim == 2 else found[..., None])

        return while_loop(lambda i, v: i < 3, body, (x * 0, rows))[1]

    same_as_eagerly(run, device)


@pytest.mark.parametrize("made", MADE)
def test_a_serial_region_reads_what_the_one_around_it_made(device: Any, made: str) -> None:
    def run(x: Tensor, rows: Tensor) -> Any:
        def around() -> Any:
            v = MADE[made](x, looked_up(rows))
            return serial(lambda: looked_up(v).sum(-1)) * 100 + looked_up(v).max(-1)

        return serial(around)

    same_as_eagerly(run, device)


def test_a_lane_alone_votes_on_a_vector(device: Any) -> None:
    def alone(x: Tensor, rows: Tensor) -> Any:
        v = looked_up(rows)
        most, many = group.max(v) - group.min(v + x[..., None]), group.count(v > 2) + group.any(v > 3).cast("int32")
        return (most * 3 + many).sum(-1) + group.first(v).max(-1)

    same_as_eagerly(lambda x, rows: serial(lambda: alone(x, rows)), device)


@pytest.mark.parametrize("late", ["a loop's result", "an array's element"])
def test_a_place_is_known_only_after_the_values(device: Any, late: str) -> None:
    """The place comes out of the same loop as the values, or out of an array that holds one of the values."""

    def run(x: Tensor, rows: Tensor) -> Any:
        def body(i: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
            k, v = while_loop(lambda k, v: k < (x + i) % 3, lambda k, v: (k + 1, v * 2 + 1), (x * 0, rows))
            if late == "an array's element":
                k = local_array(1, "int32").set(0, v[arange(LANES), k] % WIDTH)[0]
            return i + 1, total * 5 + v[arange(LANES), k]

        return while_loop(lambda i, total: i < 3, body, (x * 0, x))[1]

    same_as_eagerly(run, device)


def test_lanes_vote_on_each_place_of_an_inner_axis(device: Any) -> None:
    """Lanes that read different places of the outcome have voted on all of them: the outcome at a place is the same for all."""

    def run(x: Tensor, rows: Tensor) -> Any:
        def body(i: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
            v = group.max(rows * 0 + arange(WIDTH) * 5 + i[..., None])
            across = serial(lambda: looked_up(v).sum(-1))
            return i + 1, total * 7 + v[arange(LANES), looked_up(x) % WIDTH] + across

        return while_loop(lambda i, total: i < 3, body, (x * 0, x))[1]

    same_as_eagerly(run, device)


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "in a body"])
def test_a_long_inner_axis_is_reduced(device: Any, inside: bool) -> None:
    def run(x: Tensor, rows: Tensor) -> Any:
        long = rows[:, :1] + arange(LONG)

        def total(n: Tensor) -> Any:
            return cond(n > 1, lambda: long + x[..., None], lambda: long * 2).sum(-1)

        if not inside:
            return total(x)
        return while_loop(lambda i, t: i < 2, lambda i, t: (i + 1, t + total(x + i)), (x * 0, x))[1]

    same_as_eagerly(run, device)


def test_inner_axes_of_results_have_fixed_sizes() -> None:
    @jit
    def run(x: Tensor, rows: Tensor) -> Any:
        return cond(x > 1, lambda: rows + 1, lambda: rows).sum(-1)

    wanted = HERE + r"axis 1 of a body's result, which is not one of its lanes' 1, has a dynamic size; leave it out of dims="
    with pytest.raises(TraceError, match=wanted):
        run(Tensor(x, dims=("n",)), Tensor(rows, dims=("n", "m")))


def test_a_vote_on_an_axis_of_dynamic_size_is_refused_in_a_body() -> None:
    @jit
    def run(x: Tensor, rows: Tensor) -> Any:
        return while_loop(lambda i, t: i < 2, lambda i, t: (i + 1, t + group.max(rows).sum(-1)), (x * 0, x))[1]

    wanted = r"an inner axis of dynamic size is read at computed places; only tables can be read at computed places"
    with pytest.raises(TraceError, match=wanted):
        run(Tensor(x, dims=("n",)), Tensor(rows, dims=("n", "m")))
