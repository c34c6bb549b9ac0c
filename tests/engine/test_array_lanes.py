"""Whose a private array is: each lane has its own, wherever the array is made, filled and read.

The lanes of an array are its shape, as far as it has grown. Outside of all bodies a kernel may ask for several of its elements, or for
another lane's: a short last axis is written out by each lane, a sum goes over lanes, `flip` reads a neighbour. None of that may make
two lanes share one storage. Eager mode, which computes everything lane by lane as Python, says what is right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine import LocalArray, Tensor, TraceError, arange, cond, jit, local_array, serial, while_loop
from engine.frontend.eager import eager
from tests.engine.grouped import opened

DEVICES = [("reference", 4), ("cpu", 16)]
HERE = r"test_array_lanes\.py:\d+: "

x = np.arange(6, dtype=np.int32).reshape(2, 3)
y = (x * 5 % 7 + 1).astype(np.int32)
v = np.array([5, 7, 9], np.int32)


@pytest.fixture(params=DEVICES, ids=lambda p: f"{p[0]}{p[1]}")
def device(request: pytest.FixtureRequest) -> Any:
    yield from opened(*request.param)


def same_as_eagerly(function: Callable[..., Any], device: Any, dims: tuple[str, ...] = ()) -> None:
    """Compares a function of x, y (lanes [2, 3]) and v ([3]) with itself in eager mode. `dims`: names of the lanes' sizes."""
    with eager():
        wanted = [r.numpy() for r in _several(function(Tensor(x), Tensor(y), Tensor(v)))]
    tensors = Tensor(x, dims=dims), Tensor(y, dims=dims), Tensor(v, dims=dims[1:])
    found = [r.numpy() for r in _several(jit(function, device=device)(*tensors))]
    assert [f.tolist() for f in found] == [w.tolist() for w in wanted]


def _several(results: Any) -> tuple[Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


def filled(value: Tensor, at: Any = 0) -> LocalArray:
    """Two elements: `value` at a place, 0 at the other."""
    return local_array(2, "int32", fill=0).set(at, value)


# What is made of values that come out of an array, by the lanes of another shape or order.
READ: dict[str, Callable[[Tensor], Any]] = {
    "as it is": lambda g: g,
    "beside itself": lambda g: (g, g + 1),
    "summed": lambda g: g.sum(-1),
    "summed to one": lambda g: g.sum(),
    "reversed": lambda g: (g.flip(-1), g.flip(0) * g),
    "turned": lambda g: g.permute(1, 0),
    "a column": lambda g: g[:, 1] * 10 + g[:, 0],
    "padded": lambda g: g.pad(((0, 0), (1, 2))),
    "looked up": lambda g: g[g[:, 0] % 2, (g[:, 1] + 1) % 3],
    "by itself": lambda g: g[:, :, None] * 10 + g[:, None, :],
    "with more axes": lambda g: g[..., None] * arange(2),
    "stored": lambda g: g.contiguous().flip(0) + g,
}


@pytest.mark.parametrize("read", READ)
def test_a_value_is_its_own_lanes(device: Any, read: str) -> None:
    same_as_eagerly(lambda x, y, v: READ[read](filled(y, x % 2)[0]), device)


@pytest.mark.parametrize("read", READ)
def test_what_a_loop_leaves_in_an_array_is_its_own_lanes(device: Any, read: str) -> None:
    def run(x: Tensor, y: Tensor, v: Tensor) -> Any:
        step = lambda i, a: (i + 1, a.set(0, a[0] * 2 + i))  # noqa: E731
        count, array = while_loop(lambda i, a: i < x % 3, step, (x * 0, filled(y)))
        return READ[read](array[0] + count.flip(-1))

    same_as_eagerly(run, device)


@pytest.mark.parametrize("read", ["as it is", "summed", "reversed", "padded"])
def test_a_stack_is_its_own_lanes(device: Any, read: str) -> None:
    def run(x: Tensor, y: Tensor, v: Tensor) -> Any:
        rows = y[..., None] + arange(2)
        stack, top = local_array(6, "int32", fill=0).append_where(x % 2, rows % 3 > 0, rows)
        stack, top = stack.append_where(top, rows % 2 > 0, rows)
        return READ[read](top * 100 + stack.set(top, y)[0])

    same_as_eagerly(run, device)


def test_an_index_that_is_one_for_all_lanes(device: Any) -> None:
    same_as_eagerly(lambda x, y, v: (x + 0, filled(y + y)[Tensor(0, "int32") % 1]), device)


def test_lanes_of_dynamic_sizes(device: Any) -> None:
    same_as_eagerly(lambda x, y, v: (filled(y, x % 2)[0].sum(-1), filled(v)[x % 2]), device, ("height", "width"))


GROWING: dict[str, Callable[[Tensor, Tensor, Tensor], Any]] = {
    "a value of fewer lanes": lambda x, y, v: filled(v).set(1, y)[x % 2],
    "an index of fewer lanes": lambda x, y, v: filled(y, v % 2)[x % 2],
    "an index along the other axis": lambda x, y, v: filled(y, (arange(2) + 1)[:, None] % 2)[x % 2],
    "rows that all lanes share": lambda x, y, v: local_array(3).append_where(x % 2, arange(2) >= 0, arange(2) + 3)[0][x % 2],
}


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "in a body"])
@pytest.mark.parametrize("growing", GROWING)
def test_accesses_broadcast_to_the_lanes(device: Any, growing: str, inside: bool) -> None:
    def run(x: Tensor, y: Tensor, v: Tensor) -> Any:
        if not inside:
            return GROWING[growing](x, y, v)
        return while_loop(lambda i, t: i < x, lambda i, t: (i + 1, t * 3 + GROWING[growing](x + i, y, v)), (x * 0, x))[1]

    same_as_eagerly(run, device)


def test_control_flow_of_more_lanes_takes_an_array_of_fewer(device: Any) -> None:
    def run(x: Tensor, y: Tensor, v: Tensor) -> Any:
        _, few = while_loop(lambda i, a: i < v % 3, lambda i, a: (i + 1, a.set(1, a[0] * 2 + i)), (v * 0, filled(v)))
        _, more = while_loop(lambda i, a: i < x % 3, lambda i, a: (i + 1, a.set(1, a[1] * 2 + i)), (x * 0, few))
        more = cond(x > 2, lambda: more.set(0, v), lambda: more)
        return more[1] + more[0]

    same_as_eagerly(run, device)


def test_one_array_along_two_axes(device: Any) -> None:
    """A table of all pairs of lanes: what was read before and after a loop changed the array."""

    def run(x: Tensor, y: Tensor, v: Tensor) -> Any:
        array = filled(v)
        before = array[0]
        _, array = while_loop(lambda i, a: i < v % 3, lambda i, a: (i + 1, a.set(0, a[0] * 2 + i)), (v * 0, array))
        after = array.set(1, v + 1)
        return before[:, None] * 100 + after[0][None, :], after[1][:, None] + before[None, :]

    same_as_eagerly(run, device)


def test_another_lanes_value_is_put_into_the_array_that_it_came_from(device: Any) -> None:
    def run(x: Tensor, y: Tensor, v: Tensor) -> Any:
        turned = filled(v)
        turned = turned.set(1, turned[0].flip(-1))
        wider = filled(v)
        wider = wider.set(1, wider[0][:, None])
        return turned[0] * 10 + turned[1], wider[0] * 10 + wider[1]

    same_as_eagerly(run, device)


def test_an_array_that_nothing_changed_has_the_lanes_of_the_branch_it_went_through(device: Any) -> None:
    def run(x: Tensor, y: Tensor, v: Tensor) -> Any:
        array = local_array(2, "int32", fill=4)
        array = cond(x > 2, lambda: array, lambda: array)
        return array[1] + x

    same_as_eagerly(run, device)


def test_a_serial_region_reads_an_array_from_outside(device: Any) -> None:
    def run(x: Tensor, y: Tensor, v: Tensor) -> Any:
        array = filled(y)
        return serial(lambda: array[0] + x), array[0]

    same_as_eagerly(run, device)


def test_a_body_reads_no_other_lanes_array() -> None:
    @jit
    def run(v: Tensor) -> Any:
        def body(i: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
            return i + 1, total + filled(v)[0][(v + 1) % 3]

        return while_loop(lambda i, total: i < v % 4, body, (v * 0, v))[1]

    with pytest.raises(TraceError, match=HERE + "a body reads another lane's private array; only tables can be read at computed places"):
        run(Tensor(v))
