"""With CHECK=1 the first index that lies outside is an error that names the user's line, and nothing outside is touched."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from engine import Device, Tensor, cond, for_loop, jit, local_array, open_device, serial, set_default_device
from engine.frontend.eager import eager
from engine.frontend.trace import Trace, tracing
from engine.runtime.devices.reference import CheckError
from tests.engine.control_programs import control_programs
from tests.engine.expression_programs import expressions
from tests.engine.programs import Program


@functools.cache
def opened(name: str, width: int) -> Device:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JIT_CACHE", "off")
        patch.setenv("CHECK", "1")
        return open_device(name, group=width, threads=1)


@pytest.fixture(params=["reference 4", "cpu 16", "cpu 8", "cpu 4"])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    name, width = request.param.split()
    yield opened(name, int(width))


def tables() -> tuple[Tensor, Tensor]:
    """A table of 10, and indices of which lanes 3 and 6 lie outside."""
    index = np.zeros(40, np.int32)
    index[:9] = [1, 2, 3, 12, 5, 4, -1, 9, 0]
    return Tensor(np.arange(10, dtype=np.float32)), Tensor(index)


def refuses(
    device: Device,
    program: Callable[..., Any],
    *args: Any,
    lane: str = "(3,)",
    what: str = "index 12 is outside a size of 10",
) -> None:
    """A call fails with this lane and these words, and with the line of `program` that ends in "# here"; and so does the next."""
    rows, first = inspect.getsourcelines(program)
    line = first + next(k for k, row in enumerate(rows) if row.rstrip().endswith("# here"))
    place = f".*test_check\\.py:{line}"
    function = jit(program, device=device)
    for _ in range(2):
        with pytest.raises(CheckError, match=re.escape(f"in lane {lane}: ") + place + ": " + re.escape(what)):
            function(*args)


def test_a_look_up_outside_of_its_table(device: Device) -> None:
    def program(table: Tensor, index: Tensor) -> Tensor:
        return table[index]  # here

    refuses(device, program, *tables())


def test_a_look_up_of_one_place_for_all_lanes(device: Device) -> None:
    def program(table: Tensor, n: Tensor) -> Tensor:
        return table * table[n]  # here

    refuses(device, program, tables()[0], Tensor(10, "int32"), lane="(0,)", what="index 10 is outside a size of 10")


def test_a_write_outside_of_its_target(device: Device) -> None:
    def program(target: Tensor, index: Tensor, value: Tensor) -> Tensor:
        return target.scatter(index, value)  # here

    def update(target: Tensor, index: Tensor, value: Tensor) -> Tensor:
        return target.scatter(index, value, mode="add")  # here

    refuses(device, program, *tables(), Tensor(2.0))
    refuses(device, update, *tables(), Tensor(2.0))


def test_what_lies_beside_a_target_is_not_touched(device: Device) -> None:
    memory = Tensor(np.zeros(10, np.float32))

    @jit(device=device)
    def frame(target: Tensor, index: Tensor, value: Tensor) -> None:
        target.assign(target.scatter(index, value))

    with pytest.raises(CheckError):
        frame(memory, tables()[1], Tensor(2.0))
    assert set(memory.numpy().tolist()) <= {0.0, 2.0}


def test_a_private_array_is_set_and_read_within_its_length(device: Device) -> None:
    def sets(x: Tensor, index: Tensor) -> Tensor:
        a = local_array(8, "float32")
        a = a.set(index, x)  # here
        return x

    def program(x: Tensor, index: Tensor, other: Tensor) -> Tensor:
        a = local_array(8, "float32")
        a = a.set(index, x)  # here
        return a[other]

    def reads(x: Tensor, index: Tensor, other: Tensor) -> Tensor:
        a = local_array(8, "float32")
        a = a.set(other, x)
        return a[index]  # here

    x, zero = Tensor(np.ones(40, np.float32)), Tensor(np.zeros(40, np.int32))
    index = np.zeros(40, np.int32)
    index[3] = 12
    refuses(device, program, x, Tensor(index), zero, what="index 12 is outside a size of 8")
    wrong = Tensor(np.where(index == 12, -4, 0).astype(np.int32))
    refuses(device, reads, x, wrong, zero, what="index -4 is outside a size of 8")
    assert jit(sets, device=device)(x, Tensor(index)).numpy()[0] == 1  # an array that nobody reads is no array


def test_an_index_in_serial_and_in_loops(device: Device) -> None:
    def in_serial(table: Tensor, index: Tensor) -> Tensor:
        return serial(lambda i: table[i], index)  # here

    def in_a_loop(table: Tensor, index: Tensor, count: Tensor) -> Tensor:
        return for_loop(count, lambda i, v: v + table[index + i], index.cast("float32"))  # here

    refuses(device, in_serial, *tables())
    refuses(device, in_a_loop, *tables(), Tensor(np.where(np.arange(40) == 3, 1, 0).astype(np.int32)))


def test_slots_of_append_where_fit_the_array(device: Device) -> None:
    def program(x: Tensor, top: Tensor, row: Tensor, zero: Tensor) -> Tensor:
        def each(x: Tensor, top: Tensor, zero: Tensor) -> Tensor:
            a, after = local_array(12, "float32").append_where(top, row < x.reshape(-1, 1), row + x.reshape(-1, 1))  # here
            return a[top.minimum(zero)] + after

        return serial(each, x, top, zero)

    rows = Tensor(np.zeros((1, 8), np.float32)), Tensor(np.zeros(40, np.int32))
    x, top = Tensor(np.ones(40, np.float32)), np.zeros(40, np.int32)
    assert jit(program, device=device)(x, Tensor(top), *rows).numpy().tolist() == [9.0] * 40
    top[5] = 5
    refuses(device, program, x, Tensor(top), *rows, lane="(5,)", what="8 slots from 5 on do not fit a private array of 12")


def test_lanes_that_do_not_look_do_not_count(device: Device) -> None:
    table, index = tables()

    def program(table: Tensor, index: Tensor) -> Tensor:
        return cond((index >= 0) & (index < table.shape[0]), lambda: table[index], lambda: 0.0)

    wanted = [1, 2, 3, 0, 5, 4, 0, 9] + [0] * 32
    assert jit(program, device=device)(table, index).numpy().tolist() == wanted


def test_sizes_with_names_are_those_of_the_call(device: Device) -> None:
    table, index = tables()

    def program(table: Tensor, index: Tensor) -> Tensor:
        return table[index]  # here

    named = Tensor(table.numpy(), dims=("n",))
    refuses(device, program, named, index)
    longer = Tensor(np.arange(13, dtype=np.float32), dims=("n",))
    with pytest.raises(CheckError, match="index -1 is outside a size of 13"):
        jit(program, device=device)(longer, index)


def test_kernels_that_differ_in_lines_alone_name_each_its_own(device: Device) -> None:
    def first(table: Tensor, index: Tensor) -> Tensor:
        return table[index]  # here

    def second(table: Tensor, index: Tensor) -> Tensor:
        return table[index]  # here

    for program in (first, second):
        program.__name__ = "program"
        refuses(device, program, *tables())


# ---- programs without mistakes ----

few = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))


def same(program: Program) -> None:
    """What is computed with checks is what is computed eagerly."""
    with eager():
        wanted = [result.numpy() for result in program.function(*program.tensors())]
    for width in (4, 8, 16):
        before = set_default_device(opened("cpu", width))
        try:
            with tracing(Trace()):
                found = [result.numpy() for result in jit(program.function)(*program.tensors())]
        finally:
            set_default_device(before)
        program.check(found, wanted, f"cpu with checks, groups of {width}")


@few
@given(program=control_programs())
def test_control_flow_with_checks(program: Program) -> None:
    same(program)


@few
@given(program=expressions())
def test_expressions_with_checks(program: Program) -> None:
    same(program)
