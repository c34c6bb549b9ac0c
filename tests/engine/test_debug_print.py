"""debug_print says what each lane holds, once for each time the lane comes by, whatever runs the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import Tensor, TraceError, cond, debug_print, for_loop, jit, local_array, serial, switch, while_loop
from engine.frontend.eager import eager
from engine.runtime.cache import Cache
from engine.runtime.devices.cpu import CpuDevice
from engine.runtime.devices.interpreter import ReferenceDevice

RUNNERS = ["eager", "reference 1", "reference 4", "reference 16", "cpu 16", "cpu 8", "cpu 4"]
Run = Callable[..., list[str]]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DEBUG", "CHECK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Runs a program and returns what it printed, sorted."""
    kind, *width = request.param.split()
    device: Any = None
    if kind == "reference":
        device = ReferenceDevice(int(width[0]))
    elif kind == "cpu":
        device = CpuDevice(threads=2, group=int(width[0]), cache=Cache(None))

    def printed(program: Callable[..., Any], *args: Any) -> list[str]:
        if device is None:
            with eager():
                program(*[a if isinstance(a, Tensor) else Tensor(a) for a in args])
        else:
            jit(program, device=device)(*args)
        output = capsys.readouterr()
        assert output.out == ""
        return sorted(output.err.splitlines())

    yield printed
    if device is not None:
        device.close()


def numbers(count: int) -> Tensor:
    return Tensor(np.arange(count, dtype=np.int32))


def test_a_print_outside_of_bodies_is_a_line_for_each_element(run: Run) -> None:
    assert run(lambda x: debug_print("{}:{:.2f}", x, x * 0.5), numbers(5)) == ["0:0.00", "1:0.50", "2:1.00", "3:1.50", "4:2.00"]
    assert run(lambda x: debug_print("here"), numbers(5)) == ["here"]
    assert run(lambda n: debug_print("{}", n), 7) == ["7"]


def test_axes_that_lanes_do_not_have_are_printed_element_by_element(run: Run) -> None:
    grid = numbers(6).reshape(2, 3)
    assert run(lambda x: debug_print("{}", x), grid) == list("012345")
    assert run(lambda x: debug_print("{} {}", x, x.sum(axis=1, keepdims=True)), grid) == ["0 3", "1 3", "2 3", "3 12", "4 12", "5 12"]

    def inside(x: Tensor) -> Tensor:
        def body(total: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
            debug_print("{}", x)
            return total + x.sum(axis=1), n - 1

        return while_loop(lambda total, n: n > 0, body, (x[:, 0] * 0, x[:, 0] * 0 + 1))[0]

    assert run(inside, grid) == list("012345")


def test_a_mask_says_which_lanes_print(run: Run) -> None:
    assert run(lambda x: debug_print("{}", x, where=x % 3 == 1), numbers(20)) == ["1", "10", "13", "16", "19", "4", "7"]
    assert run(lambda x: debug_print("{}", x, where=x < 0), numbers(20)) == []
    assert run(lambda x: debug_print("{}", x, where=False), numbers(20)) == []


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"])
def test_values_of_every_type_are_exact(run: Run, dtype: str) -> None:
    kind = np.dtype(dtype)
    if kind.kind == "b":
        values = np.array([True, False, True])
    elif kind.kind == "f":
        values = np.array([0.1, -np.inf, 3e4, np.nan], kind)
    else:
        values = np.array([np.iinfo(kind).min, np.iinfo(kind).max, 7], kind)
    assert run(lambda x: debug_print("{}", x), Tensor(values)) == sorted(str(v.item()) for v in values)


def test_each_round_of_a_loop_prints_for_the_lanes_that_are_in_it(run: Run) -> None:
    def program(x: Tensor) -> Any:
        def test(v: Tensor, n: Tensor) -> Tensor:
            debug_print("test {} {}", x, n)
            return v < 4

        def body(v: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
            debug_print("body {} {}", x, n, where=n > 0)
            return v * 2, n + 1

        return while_loop(test, body, (x, 0))

    wanted = []
    for x in range(1, 7):
        v = x
        for n in range(9):
            wanted.append(f"test {x} {n}")
            if v >= 4:
                break
            wanted += [f"body {x} {n}"] if n else []
            v *= 2
    assert run(program, numbers(6) + 1) == sorted(wanted)


def test_a_branch_that_only_prints_is_taken(run: Run) -> None:
    def program(x: Tensor, flag: Tensor) -> Tensor:
        cond(x > 17, lambda: debug_print("large {}", x), lambda: None)
        cond(flag > 0, lambda: debug_print("yes"), lambda: debug_print("no"))
        switch(x, [lambda: debug_print("zero"), lambda: debug_print("one"), lambda: None])
        return x + 1

    assert run(program, numbers(20), 1) == ["large 18", "large 19", "one", "yes", "zero"]


def test_prints_nest_to_any_depth(run: Run) -> None:
    def program(x: Tensor) -> None:
        def body(i: Tensor, v: Tensor) -> Tensor:
            cond(v > 2, lambda: cond(i > 0, lambda: debug_print("{} {}", x, i), lambda: None), lambda: None)
            return v + 1

        for_loop(3, body, x)

    assert run(program, numbers(3)) == ["1 2", "2 1", "2 2"]


def test_the_lanes_of_serial_print_one_after_another(run: Run) -> None:
    def program(x: Tensor) -> Tensor:
        def each(v: Tensor) -> Tensor:
            row = v.reshape(-1, 1) + Tensor(np.arange(4, dtype=np.int32))
            debug_print("{} {}", v, row.sum(axis=1), where=v != 1)
            return row.max(axis=1)

        return serial(each, x)

    assert run(program, numbers(3)) == ["0 6", "2 14"]


def test_private_arrays_are_printed_as_they_are_at_that_place(run: Run) -> None:
    def program(x: Tensor) -> Tensor:
        a = local_array(2, "int32", fill=0)
        a = a.set(0, x)
        debug_print("{}", a[0])
        a = a.set(0, x + 10)
        debug_print("{}", a[0])
        return a[0]

    assert run(program, numbers(2)) == ["0", "1", "10", "11"]


def test_what_two_kernels_want_is_printed_once(run: Run) -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        def body(i: Tensor, v: Tensor) -> Tensor:
            debug_print("{}", v)
            return v + 1

        y = for_loop(1, body, x)
        return y, (y + y.sum()).contiguous() * 2, y.reshape(2, 2).sum(axis=0)

    assert run(program, numbers(4)) == list("0123")


def test_a_function_recorded_again_over_wider_lanes_prints_once(run: Run) -> None:
    def program(x: Tensor) -> Tensor:
        def body(i: Tensor, v: Tensor) -> Tensor:
            debug_print("{}", i)
            return v + x

        return for_loop(2, body, 0)

    assert run(program, numbers(2)) == ["0", "0", "1", "1"]


# ---- kernels and caches ----


def test_kernels_that_differ_in_a_format_alone_print_each_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    device = CpuDevice(threads=1, cache=Cache(None))
    for text in ("a {}", "b {}"):
        jit(lambda x, text: debug_print(text, x), static=("text",), name="same", device=device)(numbers(1), text)
    device.close()
    assert capsys.readouterr().err.splitlines() == ["a 0", "b 0"]


def test_kernels_from_the_cache_print(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for cached in (0, 1):
        device = CpuDevice(threads=1, cache=Cache(str(tmp_path)))
        function = jit(lambda x: debug_print("line {}", x), name="kept", device=device)
        function(numbers(2))
        device.close()
        assert function.stats.cache_hits == cached
        assert capsys.readouterr().err.splitlines() == ["line 0", "line 1"]


def test_a_kernel_that_prints_says_so() -> None:
    device = ReferenceDevice()
    (loud,) = jit(lambda x: debug_print("{}", x), device=device).plan_of(numbers(2)).kernels
    (silent,) = jit(lambda x: x + 1, device=device).plan_of(numbers(2)).kernels
    assert loud.stats["prints"] == 1 and "prints" not in silent.stats


# ---- errors ----


def test_a_format_that_does_not_go_with_the_values_is_refused() -> None:
    with pytest.raises(ValueError, match=r"test_debug_print\.py:\d+: debug_print: the format '\{\} \{\}' does not go .*int32"):
        jit(lambda x: debug_print("{} {}", x))(numbers(2))
    with pytest.raises(ValueError, match=r"format '\{:d\}' does not go with its values \(float32\)"):
        jit(lambda x: debug_print("{:d}", x))(numbers(2) * 0.5)


def test_a_mask_is_a_bool() -> None:
    with pytest.raises(TypeError, match=r"test_debug_print\.py:\d+: debug_print\(where=\) takes a bool, not int32"):
        jit(lambda x: debug_print("{}", x, where=x))(numbers(2))


def test_lazy_values_do_not_print() -> None:
    with pytest.raises(TraceError, match=r"test_debug_print\.py:\d+: debug_print outside of a jitted function"):
        debug_print("{}", numbers(2))
    with pytest.raises(TraceError, match="outside of a jitted function"):
        cond(numbers(2) > 0, lambda: debug_print("x"), lambda: None)
