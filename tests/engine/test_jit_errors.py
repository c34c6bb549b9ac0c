"""What goes wrong with jitted functions is told with the user's line and the cure."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from engine import ImpureFunctionError, Tensor, TraceError, cond, jit, open_device, set_default_device, where, while_loop
from engine.graph.uop import Op

EXPOSURE = 1.0
TABLE = Tensor([1.0, 2.0])


@pytest.fixture(autouse=True, scope="module")
def interpreter() -> Iterator[None]:
    before = set_default_device(open_device("reference"))
    yield
    set_default_device(before)


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECK", "1")


def row(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float32))


# ---- values that are not known yet, and values that are over ----


@pytest.mark.parametrize("read", [bool, int, float, lambda x: x.numpy(), lambda x: [1, 2, 3][x]])
def test_reading_a_value_while_tracing(read: Any) -> None:
    @jit
    def frame(x: Any) -> Any:
        return x + read(x)

    with pytest.raises(TraceError, match=r"test_jit_errors.py:\d+: .* while the function is being traced"):
        frame(Tensor(np.int32(1)))


def test_a_value_that_leaks_out_of_its_trace() -> None:
    kept: list[Tensor] = []

    @jit
    def frame(camera: Any) -> Any:
        kept.append(camera["position"] * 2)
        return camera["position"] + 1

    assert frame({"position": row(1, 2)}).tolist() == [2, 3]
    told = r"test_jit_errors.py:\d+: this uses a value .* from the argument camera\['position'\] of frame\(\) \(.*:\d+\).*Return it"
    with pytest.raises(TraceError, match=told):
        kept[0].numpy()
    with pytest.raises(TraceError, match=told):
        (kept[0] + 1).realize()
    with pytest.raises(TraceError, match=told):
        frame({"position": kept[0]})
    assert frame({"position": row(1, 2)}).tolist() == [2, 3]


def test_a_value_of_another_trace() -> None:
    kept: list[Tensor] = []

    @jit
    def first(x: Any) -> Any:
        kept.append(x)
        return x * 2

    @jit
    def second(y: Any) -> Any:
        return y + kept[0]

    first(row(1, 2))
    told = r"while second\(\) is traced, it uses a value of another trace.*the argument x of first\(\) \(.*:\d+\)"
    with pytest.raises(TraceError, match=told):
        second(row(3, 4))


def test_a_value_of_a_body_that_is_over() -> None:
    kept: list[Tensor] = []

    def body(x: Tensor) -> Tensor:
        kept.append(x * 3)
        return x * 2

    @jit
    def frame(x: Any) -> Any:
        while_loop(lambda v: v < 10, body, x)
        return kept[-1]

    with pytest.raises(TraceError, match="body"):
        frame(row(1, 2))
    with pytest.raises(TraceError, match=r"used outside of it; return it from there instead"):
        kept[-1].numpy()


# ---- assignments ----


def test_assigning_a_captured_tensor() -> None:
    state = row(1, 2)

    @jit
    def frame(x: Any) -> Any:
        state.assign(x)
        return x

    told = r"test_jit_errors.py:\d+: assign to a Tensor that is not an argument.*pass it as an argument"
    with pytest.raises(ImpureFunctionError, match=told):
        frame(row(3, 4))
    assert state.tolist() == [1, 2]
    state.assign(row(5, 6))
    assert state.tolist() == [5, 6]


def test_assigning_a_number_or_a_computed_value() -> None:
    @jit
    def number(k: Any) -> Any:
        return k.assign(k + 1)

    @jit
    def computed(x: Any) -> Any:
        return (x + 1).assign(x)

    with pytest.raises(TraceError, match=r"assign to a number argument; only a Tensor has memory, so pass a Tensor"):
        number(1.0)
    with pytest.raises(TraceError, match=r"assign to a computed Tensor"):
        computed(row(1))


def test_a_refused_assignment_outside_leaves_the_tensor() -> None:
    x = row(1, 2)
    kept: list[Tensor] = []
    jit(lambda y: kept.append(y) or y + 1, name="f")(row(1, 2))
    with pytest.raises(TraceError):
        x.assign(kept[0])
    assert x.tolist() == [1, 2]


# ---- arguments ----


def test_results_of_other_functions_are_not_captured() -> None:
    make = jit(lambda x: x * 2, name="make")
    table = make(row(1, 2))

    @jit
    def frame(x: Any) -> Any:
        return x + table

    told = r"frame\(\) captures a result of make\(\), whose buffer is used again; pass it as an argument"
    with pytest.raises(ImpureFunctionError, match=told):
        frame(row(1, 2))


def test_a_spec_is_no_argument_of_a_call() -> None:
    with pytest.raises(TypeError, match=r"test_jit_errors.py:\d+: x is a spec, which has no values; specs are for warmup"):
        jit(lambda x: x + 1)(Tensor.spec((2,)))


@dataclass
class Changing:
    depth: int


@dataclass(frozen=True)
class Fixed:
    values: Any


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([1, 2], r"settings is static and holds a list, which can change and has no hash; use a tuple or a frozen dataclass"),
        (Changing(3), r"settings is static and holds a Changing, which can change"),
        (Fixed({"a": 1}), r"settings.values is static and holds a dict"),
        (Fixed((1, np.zeros(2))), r"settings.values\[1\] is static and holds a ndarray; data cannot be part of a specialisation"),
        (Fixed(TABLE), r"settings.values is static and holds a Tensor"),
    ],
)
def test_static_values_that_cannot_be(value: Any, told: str) -> None:
    @jit(static=("settings",))
    def frame(x: Any, settings: Any) -> Any:
        return x + 1

    frame(row(1), 3)
    with pytest.raises(TypeError, match=told):
        frame(row(1), value)


# ---- CHECK=1 ----


def test_a_function_that_is_another_each_time(checked: None) -> None:
    @jit
    def noisy(x: Any) -> Any:
        return x + random.random()

    with pytest.raises(
        ImpureFunctionError,
        match=r"test_jit_errors.py:\d+: noisy\(\) records another graph .* a second time: const .* became const .*pass such values",
    ):
        noisy(row(1, 2))


def test_a_function_with_control_flow_is_the_same_each_time(checked: None) -> None:
    @jit
    def pure(x: Any, k: Any) -> Any:
        y = while_loop(lambda v: v < 100, lambda v: v * 2 + cond(v > 5, lambda: v, lambda: v + k), x)
        return y, TABLE[where(y > 100, 1, 0)]

    y, _ = pure(row(1, 2), 1.0)
    assert (y.numpy() >= 100).all()


def exposed(x: Any) -> Any:
    return x * EXPOSURE


def test_a_global_that_changes_after_tracing(checked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    @jit
    def frame(x: Any) -> Any:
        return exposed(x)

    assert frame(row(1, 2)).tolist() == [1, 2]
    monkeypatch.setitem(globals(), "EXPOSURE", 2.0)
    told = r"frame\(\) \(.*:\d+\) reads the global EXPOSURE, which was 1.0 when .* traced and is 2.0 now.*Pass it as an argument"
    with pytest.raises(ImpureFunctionError, match=told):
        frame(row(1, 2))


def test_captured_values_that_change_after_tracing(checked: None) -> None:
    gain, table, weights = 1.0, row(1, 2), np.ones(2, np.float32)

    @jit
    def frame(x: Any) -> Any:
        return x * gain + table * weights

    assert frame(row(1, 2)).tolist() == [2, 4]
    table.assign(row(5, 6))
    assert frame(row(1, 2)).tolist() == [6, 8]
    weights[0] = 2
    with pytest.raises(ImpureFunctionError, match="reads the captured weights, which was other data"):
        frame(row(1, 2))
    weights[0] = 1
    frame(row(1, 2))
    table = row(1, 2)
    with pytest.raises(ImpureFunctionError, match="reads the captured table"):
        frame(row(1, 2))


def test_the_reference_backend_finds_where_a_nan_comes_from(checked: None) -> None:
    @jit(device=open_device("reference"))
    def frame(x: Any) -> Any:
        return (x - x) / (x - x)

    with pytest.raises(RuntimeError, match=re.compile(r"frame_0, in lane \(0,\)", re.DOTALL)):
        frame(row(1, 2))


def test_an_index_outside_of_a_table_is_named(checked: None) -> None:
    @jit(device=open_device("reference"))
    def frame(i: Any) -> Any:
        return TABLE[i]

    with pytest.raises(RuntimeError, match=r"in lane \(1,\).*5"):
        frame(Tensor(np.array([0, 5], np.int32)))


def test_a_kernel_that_breaks_a_rule_is_found_between_passes(checked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.compiler import schedule
    from engine.graph.verify import VerifyError

    lower = schedule.lower

    def broken(*arguments: Any, **keywords: Any) -> Any:
        kernel = lower(*arguments, **keywords)
        kernel.body.items = [i for i in kernel.body.items if getattr(i, "op", "") != Op.LOAD]
        return kernel

    monkeypatch.setattr(schedule, "lower", broken)
    with pytest.raises(VerifyError, match=r"after the pass 'lower': a value is defined before its uses"):
        jit(lambda x: x + 1)(row(1, 2))
