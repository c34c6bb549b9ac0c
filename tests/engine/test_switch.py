"""Equal bodies of a switch become one, their constants data of each case; what comes out is what each function says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from engine import Tensor, cond, for_loop, group, jit, local_array, serial, stack, switch, where, while_loop
from engine.compiler.kernel import BranchItem, Kernel
from engine.frontend.eager import eager
from engine.runtime.cache import Cache
from engine.runtime.devices.cpu import CpuDevice
from engine.runtime.devices.interpreter import ReferenceDevice

Function = Callable[..., Any]
LANES = 37


@pytest.fixture(scope="module", params=["reference 1", "reference 16", "cpu 16", "cpu 8", "cpu 4"])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    kind, width = request.param.split()
    made: Any = ReferenceDevice(int(width)) if kind == "reference" else CpuDevice(threads=1, group=int(width), cache=Cache(None))
    yield made
    made.close()


def arms_of(kernel: Kernel) -> list[int]:
    """Arms of each switch of a kernel, but for those of one arm, which are no choice."""
    items = [item for block in kernel.blocks() for item in block.items if isinstance(item, BranchItem) and item.kind == "switch"]
    return [len(item.arms) for item in items if len(item.arms) > 1]


def index_of(count: int, dtype: Any = np.int32) -> Tensor:
    """Cases, and some beyond both ends."""
    return Tensor((np.arange(LANES) * 7 % (count + 2) - 1).astype(dtype))


def values() -> Tensor:
    return Tensor(np.linspace(-2, 3, LANES, dtype=np.float32))


def check(device: Any, functions: Sequence[Function], arms: list[int], *extra: Tensor) -> None:
    """The values are those of eager mode, and the kernel has switches of these sizes."""
    index, x = index_of(len(functions)), values()

    def program(index: Tensor, x: Tensor, *extra: Tensor) -> Any:
        return switch(index, functions, x, *extra)

    with eager():
        wanted = program(index, x, *extra)
    compiled = jit(program, device=device)
    found = compiled(index, x, *extra)
    for a, b in zip(wanted if isinstance(wanted, tuple) else (wanted,), found if isinstance(found, tuple) else (found,), strict=True):
        assert a.dtype is b.dtype
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=2e-6, atol=1e-6)
    (kernel,) = compiled.plan_of(index, x, *extra).kernels
    assert arms_of(kernel) == arms


def test_thirty_materials_of_one_form_are_one_arm(device: Any) -> None:
    def material(k: int) -> Function:
        def shade(x: Tensor) -> Any:
            albedo = stack([0.03 * k, 0.5, 1 - 0.01 * k])
            lit = (albedo * (x * 0.25 + k).reshape(-1, 1)).sum(axis=-1)
            return where(x > 0.1 * k, lit, 0.0), albedo * x.reshape(-1, 1), for_loop(3, lambda i, v: v * 0.5 + k, x), k % 2 == 0, 1000 * k

        return shade

    check(device, [material(k) for k in range(30)], [])


def test_the_kernel_of_equal_bodies_does_not_grow_with_their_number() -> None:
    device = CpuDevice(threads=1, group=8, cache=Cache(None))

    def size(count: int) -> int:
        functions = [lambda x, k=k: (x * k + 0.5).sin() * (k + 1) for k in range(count)]
        plan = jit(lambda i, x: switch(i, functions, x), device=device).plan_of(index_of(count), values())
        return len(device.source(plan.kernels[0]).splitlines())

    assert size(40) == size(20) < size(2) + 20
    device.close()


@pytest.mark.parametrize("count", [2, 4, 5, 9])
def test_constants_of_every_type_keep_their_type_and_value(device: Any, count: int) -> None:
    def case(k: int) -> Function:
        number = Tensor(k, "int8"), Tensor((1 << 63) + k, "uint64"), Tensor(-(1 << 62) + k, "int64"), Tensor(0.1 * k, "float64")
        return lambda x: (*number, Tensor(k / 3, "float16"), k % 3 == 0, x + (1 << 30) * k)

    check(device, [case(k) for k in range(count)], [])


def test_zeros_of_both_signs_infinities_and_nan_are_constants_as_any(device: Any) -> None:
    numbers = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45]
    index = Tensor(np.arange(LANES, dtype=np.int32) % 6)
    functions = [lambda k=k: Tensor(k, "float32") for k in numbers]
    found = jit(lambda i: switch(i, functions), device=device)(index).numpy()
    wanted = np.array(numbers, np.float32)[np.arange(LANES) % 6]
    assert found.tobytes() == wanted.tobytes()


def test_bodies_of_two_forms_are_two_arms(device: Any) -> None:
    functions = [(lambda x, k=k: x * k) if k % 3 else (lambda x, k=k: (x + k).abs()) for k in range(9)]
    check(device, functions, [2])


def test_one_body_that_is_like_no_other_is_an_arm_of_its_own(device: Any) -> None:
    check(device, [lambda x: x * 2, lambda x: x.sqrt(), lambda x: x * 3, lambda x: -x, lambda x: x * 2], [3])


def test_equal_functions_are_one(device: Any) -> None:
    check(device, [lambda x: x.exp() + 1] * 6, [])


def test_bodies_are_alike_where_their_captured_values_are_the_same(device: Any) -> None:
    table = Tensor(np.arange(50, dtype=np.float32) ** 2)
    other = Tensor(np.ones(50, np.float32))
    check(device, [lambda x, t, o, k=k: t[x.cast("int32") + k] * k for k in range(2, 8)], [], table, other)
    check(device, [lambda x, t, o, k=k: (t if k % 2 else o)[x.cast("int32") + k] for k in range(2, 8)], [2], table, other)


def test_control_flow_inside_of_equal_bodies_is_merged_with_them(device: Any) -> None:
    def case(k: int) -> Function:
        def body(x: Tensor) -> Any:
            grown = while_loop(lambda v, n: (v < 3 * k) & (n < 6), lambda v, n: (v * 1.5 + k, n + 1), (x, 0))[1]
            inner = switch(grown, [lambda j=j: x + j + k for j in range(5)])
            return cond(x > 0.1 * k, lambda: inner * k, lambda: inner - k), serial(lambda v: v + k, x)

        return body

    check(device, [case(k) for k in range(7)], [])


def test_a_switch_inside_of_a_loop(device: Any) -> None:
    index, x = index_of(6), values()

    def program(index: Tensor, x: Tensor) -> Tensor:
        functions = [lambda v, k=k: v * 0.5 + k for k in range(6)]
        return while_loop(lambda v, n: n < index, lambda v, n: (switch(index - n, functions, v), n + 1), (x, index * 0))[0]

    with eager():
        wanted = program(index, x).numpy()
    np.testing.assert_allclose(jit(program, device=device)(index, x).numpy(), wanted, rtol=1e-6)


def test_effects_keep_bodies_apart(device: Any) -> None:
    def with_array(k: int) -> Function:
        def body(x: Tensor) -> Tensor:
            a = local_array(2, "float32", fill=0).set(1, x * k)
            return a[1] + a[0]

        return body

    check(device, [with_array(k) for k in range(3)], [3])
    check(device, [lambda x, k=k: where(group.any(x > 100), 0.0, x * k) for k in range(3)], [3])


def test_powers_keep_their_exponents(device: Any) -> None:
    check(device, [lambda x, k=k: x**k for k in (1.5, 2.5, 3.5)], [3])


def test_a_reduction_of_everything_stays_outside(device: Any) -> None:
    x, big = values(), Tensor(np.arange(3000, dtype=np.float32))

    def program(index: Tensor, x: Tensor, big: Tensor) -> Tensor:
        return switch(index, [lambda k=k: x + (big * k).max() for k in range(3)])

    compiled = jit(program, device=device)
    index = Tensor(np.arange(LANES, dtype=np.int32) % 3)
    np.testing.assert_allclose(compiled(index, x, big).numpy(), x.numpy() + 2999 * (np.arange(LANES) % 3), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint32, np.uint64])
def test_an_index_of_any_integer_type_takes_the_nearest_function_beyond_the_ends(device: Any, dtype: Any) -> None:
    low, high = (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    index = Tensor(np.array([low, 0, 1, 2, 3, 100, high], dtype))
    found = jit(lambda i: switch(i, [lambda k=k: 10 * k for k in range(3)]), device=device)(index)
    assert found.numpy().tolist() == [0, 0, 10, 20, 20, 20, 20]
    many = jit(lambda i: switch(i, [lambda k=k: 10 * k for k in range(300)]), device=device)(index)
    assert many.numpy().tolist() == [0, 0, 10, 20, 30, 1000, 10 * min(high, 299)]


def test_a_list_of_constants_is_looked_up(device: Any) -> None:
    index = Tensor(np.arange(LANES, dtype=np.int32) % 6)
    numbers = [1.5, -2.0, 0.0, 7.0, 9.0, -1.0]
    table = jit(lambda i: stack([Tensor(v, "float32") for v in numbers])[i], device=device)
    assert table(index).numpy().tolist() == [numbers[k % 6] for k in range(LANES)]
    (kernel,) = table.plan_of(index).kernels
    assert len(kernel.buffers) == 2
