"""What becomes of a graph: how many kernels, for which reasons, and the same numbers as NumPy on every backend."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import Tensor, arange, concatenate, full, jit, matmul, open_device, stack, where, while_loop, zeros
from engine.graph.uop import BufferArg, Op, UOp
from engine.runtime.device import Device
from engine.runtime.plan import Plan, make_plan

Array = np.ndarray[Any, Any]
DEVICES = {
    "reference": lambda: open_device("reference"),
    "cpu": lambda: open_device("cpu"),
    "cpu in groups of 4": lambda: open_device("cpu", group=4),
}


@pytest.fixture(scope="module", params=list(DEVICES))
def device(request: pytest.FixtureRequest) -> Any:
    opened = DEVICES[request.param]()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def reference() -> Any:
    return open_device("reference")


def image(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).random(shape, dtype=np.float32)


def reasons(plan: Plan) -> str:
    """Why each cut of a plan was made."""
    return "; ".join(reason for item in plan.items for reason in item.reasons)


def check(device: Device, function: Callable[..., Any], wanted: Any, *arguments: Any, kernels: int | None = None) -> Plan:
    """Runs a jitted function on the device, compares with what NumPy gave, counts the kernels; returns the plan."""
    made = jit(function, device=device)
    given = [Tensor(a) if isinstance(a, np.ndarray) else a for a in arguments]
    results = made(*given)
    found = [r.numpy() for r in (results if isinstance(results, tuple) else (results,))]
    for got, want in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert got.shape == np.shape(want)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)
    plan = made.plan_of(*given)
    if kernels is not None:
        assert len(plan.items) == kernels, reasons(plan)
    return plan


# ---- what fuses ----


def test_a_chain_of_elementwise_operations_is_one_kernel_over_one_axis(device: Device) -> None:
    x = image(6, 5, 3)
    plan = check(device, lambda t: ((t * 2 + 1).sqrt() - 0.5).clip(0, 1), np.clip(np.sqrt(x * 2 + 1) - 0.5, 0, 1), x, kernels=1)
    assert plan.kernels[0].lanes == (90,)


def test_a_number_on_the_left_keeps_the_shape(device: Device) -> None:
    x = image(4, 5)
    check(device, lambda t: 1.0 / (2.0 - t), 1 / (2 - x), x, kernels=1)


def test_values_over_the_same_lanes_share_a_kernel(device: Device) -> None:
    x = image(7, 9)
    check(device, lambda t: (t + 1, t * t, t > 0.5), (x + 1, x * x, x > 0.5), x, kernels=1)


def test_values_over_other_lanes_do_not(device: Device) -> None:
    x = image(7, 9)
    check(device, lambda t: (t + 1, t.sum(1)), (x + 1, x.sum(1)), x, kernels=2)


def test_a_stencil_of_a_cheap_value_recomputes_it(device: Device) -> None:
    x = image(9, 11)

    def blur(t: Any) -> Any:
        y = (t * 2).pad(((1, 1), (1, 1)))
        return sum(y[i : i + 9, j : j + 11] for i in range(3) for j in range(3))

    padded = np.pad(x * 2, 1)
    check(device, blur, sum(padded[i : i + 9, j : j + 11] for i in range(3) for j in range(3)), x, kernels=1)


def test_a_stencil_of_a_costly_value_stores_it_and_says_why(device: Device) -> None:
    x = image(9, 11)

    def blur(t: Any) -> Any:
        y = (t.sin() + t.exp()).pad(((1, 1), (1, 1)))
        return sum(y[i : i + 9, j : j + 11] for i in range(3) for j in range(3))

    padded = np.pad(np.sin(x) + np.exp(x), 1)
    plan = check(device, blur, sum(padded[i : i + 9, j : j + 11] for i in range(3) for j in range(3)), x, kernels=2)
    assert "places of its neighbourhood" in reasons(plan)


def test_contiguous_cuts_and_says_why(device: Device) -> None:
    x = image(4, 5)
    plan = check(device, lambda t: (t + 1).contiguous() * 2, (x + 1) * 2, x, kernels=2)
    assert "the author wants it stored" in reasons(plan)


def test_channels_share_what_they_have_in_common(device: Device) -> None:
    x = image(8, 10, 3)

    def normalised(t: Any) -> Any:
        return t / (t * t).sum(-1, keepdims=True).sqrt()

    check(device, normalised, x / np.sqrt((x * x).sum(-1, keepdims=True)), x, kernels=1)


@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "bool", "float64"])
def test_interleaved_channels_are_loaded_and_stored_in_place(device: Device, channels: int, dtype: str) -> None:
    x = (image(5, 37, channels) * 255).astype(dtype)
    check(device, lambda t: t.flip(-1), x[..., ::-1], x, kernels=1)
    check(device, lambda t: t[..., channels - 1], x[..., channels - 1], x, kernels=1)


def test_every_other_column_and_rows_in_reverse(device: Device) -> None:
    x = image(6, 41)
    check(device, lambda t: t[:, 1::2] + t[:, ::-1][:, :20], x[:, 1::2] + x[:, ::-1][:, :20], x, kernels=1)


def test_a_border_is_zero_on_all_four_sides(device: Device) -> None:
    x = image(5, 33, 3)
    pad = ((2, 1), (3, 4), (0, 0))
    check(device, lambda t: t.pad(pad), np.pad(x, pad), x, kernels=1)
    check(device, lambda t: t.pad(pad)[..., :2] + 1, np.pad(x, pad)[..., :2] + 1, x, kernels=1)


# ---- reductions ----


def test_rows_and_columns_are_summed_in_one_kernel_each(device: Device) -> None:
    x = image(33, 70)
    check(device, lambda t: t.sum(0), x.sum(0), x, kernels=1)
    check(device, lambda t: t.sum(1), x.sum(1), x, kernels=1)
    check(device, lambda t: (t * 2).max(1, keepdims=True), (x * 2).max(1, keepdims=True), x, kernels=1)


def test_a_small_reduction_is_written_out_where_it_is_used(device: Device) -> None:
    x = image(6, 7, 5, 5)
    check(device, lambda t: t - t.mean((2, 3), keepdims=True), x - x.mean((2, 3), keepdims=True), x, kernels=1)


@pytest.mark.parametrize("count", [8193, 16 * 600, 100_003])
def test_a_long_reduction_is_split_in_two(device: Device, count: int) -> None:
    x = image(count)
    check(device, lambda t: (t * t).sum(), (x.astype(np.float64) ** 2).sum(), x, kernels=2)
    check(device, lambda t: (t.max(), t.min(), (t > 2).any(), (t >= 0).all()), (x.max(), x.min(), False, True), x)


def test_what_follows_a_long_reduction_needs_no_kernel_of_its_own(device: Device) -> None:
    x = image(100, 100)
    mean = x.mean(dtype=np.float64)
    check(device, lambda t: t / t.mean() + t.max(), x / mean + x.max(), x, kernels=2)


def test_long_reductions_keep_an_axis(device: Device) -> None:
    x = image(100, 100, 3)
    check(device, lambda t: t.sum((0, 1)), x.sum((0, 1), dtype=np.float64), x, kernels=2)
    check(device, lambda t: t - t.mean((0, 1)), x - x.mean((0, 1), dtype=np.float64), x)


def test_reductions_of_reductions(device: Device) -> None:
    x = image(90, 100)
    deviation = np.sqrt(((x - x.mean()) ** 2).mean())
    check(device, lambda t: ((t - t.mean()).square()).mean().sqrt(), deviation, x, kernels=3)
    check(device, lambda t: t.sum(1).max(), x.sum(1).max(), x)


def test_softmax(device: Device) -> None:
    x = image(20, 100) * 5
    e = np.exp(x - x.max(1, keepdims=True))

    def softmax(t: Any) -> Any:
        e = (t - t.max(1, keepdims=True)).exp()
        return e / e.sum(1, keepdims=True)

    plan = check(device, softmax, e / e.sum(1, keepdims=True), x, kernels=3)
    assert "whose results other lanes share" in reasons(plan)


def test_positions_of_extrema_of_computed_values(device: Device) -> None:
    x = image(50, 200)
    check(device, lambda t: ((t - 0.5).abs().argmax(1), t.argmin()), (np.abs(x - 0.5).argmax(1), x.argmin()), x)


def test_a_reduction_feeds_a_stencil_feeds_a_reduction(device: Device) -> None:
    x = image(30, 40, 50)

    def graph(t: Any) -> Any:
        rows = t.mean(2).pad(((1, 1), (0, 0)))
        return (rows[:-2] + rows[2:]).max(0)

    padded = np.pad(x.mean(2), ((1, 1), (0, 0)))
    check(device, graph, (padded[:-2] + padded[2:]).max(0), x)


def test_a_large_matrix_product_is_one_kernel(device: Device) -> None:
    a, b = image(33, 100), image(100, 47, seed=1)
    check(device, matmul, a @ b, a, b, kernels=1)


def test_a_product_of_products(device: Device) -> None:
    a, b = image(20, 80), image(80, 80, seed=1)
    check(device, lambda s, t: (s @ t) @ t, (a @ b) @ b, a, b)


def test_a_small_matrix_for_every_pixel(device: Device) -> None:
    x, m = image(7, 9, 3), image(3, 3, seed=1)
    check(device, lambda t, u: t @ u, x @ m, x, m, kernels=1)


# ---- odd outputs ----


def test_outputs_that_are_views_constants_and_arguments(device: Device) -> None:
    x = image(4, 6)

    def graph(t: Any) -> Any:
        return t.T, t[1], full((3, 2), 7.0), t, zeros((2,)), Tensor(3)

    check(device, graph, (x.T, x[1], np.full((3, 2), 7.0), x, np.zeros(2), 3), x)


def test_the_same_value_twice(device: Device) -> None:
    x = image(4, 6)

    def graph(t: Any) -> Any:
        y = t + 1
        z = (y * 2).contiguous()
        return y, y, z, z, z + 1

    check(device, graph, (x + 1, x + 1, x * 2 + 2, x * 2 + 2, x * 2 + 3), x)


def test_the_same_value_in_two_buffers(device: Device) -> None:
    x = image(4, 6)
    y = Tensor(x) + 1
    z = (y * 2).contiguous()
    leaves = [UOp.new(Op.BUFFER, y.dtype, (), BufferArg(k, (4, 6), "output"), (4, 6)) for k in range(5)]
    plan = make_plan(list(zip(leaves, [n.uop for n in (y, y, z, z, z + 1)], strict=True)), device, "twice")
    plan.prepare({}, {})
    plan.run()
    for leaf, wanted in zip(leaves, (x + 1, x + 1, x * 2 + 2, x * 2 + 2, x * 2 + 3), strict=True):
        np.testing.assert_allclose(plan.storages[leaf].host.reshape(4, 6), wanted, rtol=1e-6)


def test_axes_of_size_one_and_zero(device: Device) -> None:
    x = image(1, 5, 1)
    check(device, lambda t: (t + 1, t.sum(1), t.reshape(5), t[0]), (x + 1, x.sum(1), x.reshape(5), x[0]), x)
    check(device, lambda t: t[0, :1, 0] * 2, x[0, :1, 0] * 2, x, kernels=1)
    y = image(0, 4)
    check(device, lambda t: (t + 1, t.sum(0), t.sum(), t.reshape(4, 0)), (y + 1, y.sum(0), 0.0, y.reshape(4, 0)), y)


def test_a_scalar_result_of_scalars(device: Device) -> None:
    check(device, lambda a, b: a * b + 1, 7.0, 2.0, 3.0, kernels=1)


def test_joined_and_stacked_pieces(device: Device) -> None:
    x, y = image(4, 6), image(4, 3, seed=1)
    check(device, lambda s, t: concatenate([s, t * 2], 1), np.concatenate([x, y * 2], 1), x, y, kernels=1)
    check(device, lambda s: stack([s, s * 2, s.sin()], -1), np.stack([x, x * 2, np.sin(x)], -1), x, kernels=1)
    check(device, lambda s: stack([s, s * 2], 0), np.stack([x, x * 2], 0), x, kernels=1)


def test_a_table_that_is_computed_is_stored_before_it_is_looked_up(device: Device) -> None:
    x = image(50)
    index = np.random.default_rng(1).integers(0, 50, (8, 9)).astype(np.int32)
    table = np.sin(x) * np.exp(x)
    plan = check(device, lambda t, i: (t.sin() * t.exp())[i], table[index], x, index, kernels=2)
    assert "looked up" in reasons(plan)


# ---- memory that is overwritten ----


def test_assignment_in_place_is_one_kernel_without_copies(device: Device) -> None:
    x = image(6, 9)
    state = Tensor(x)

    def step(s: Any) -> Any:
        return s.assign(s * 2 + 1)

    made = jit(step, device=device)
    made(state)
    made(state)
    np.testing.assert_allclose(state.numpy(), (x * 2 + 1) * 2 + 1, rtol=1e-6)
    assert made.stats.kernels == 1


def test_a_stencil_into_its_own_input_takes_a_detour(device: Device) -> None:
    x = image(9, 21)
    state = Tensor(x)

    def step(s: Any) -> Any:
        around = s.pad(((1, 1), (1, 1)))
        return s.assign((around[:-2, 1:-1] + around[2:, 1:-1] + around[1:-1, :-2] + around[1:-1, 2:]) * 0.25)

    made = jit(step, device=device)
    wanted = x
    for _ in range(3):
        made(state)
        p = np.pad(wanted, 1)
        wanted = (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]) * np.float32(0.25)
    np.testing.assert_allclose(state.numpy(), wanted, rtol=1e-5)
    assert made.stats.kernels == 2
    assert "other lanes' old contents" in reasons(made.plan_of(state))


def test_two_buffers_swap_in_one_kernel(device: Device) -> None:
    x, y = image(6, 9), image(6, 9, seed=1)
    a, b = Tensor(x), Tensor(y)

    def swap(s: Any, t: Any) -> Any:
        old, new = s + 0, t + 0
        return s.assign(new), t.assign(old)

    made = jit(swap, device=device)
    made(a, b)
    np.testing.assert_array_equal(a.numpy(), y)
    np.testing.assert_array_equal(b.numpy(), x)
    assert made.stats.kernels == 1


def test_buffers_of_different_shapes_swap(device: Device) -> None:
    x, y = image(6, 10), image(20, 3, seed=1)
    a, b = Tensor(x), Tensor(y)

    def swap(s: Any, t: Any) -> Any:
        old, new = s.T.reshape(20, 3), t.T.reshape(6, 10)
        return s.assign(new), t.assign(old)

    jit(swap, device=device)(a, b)
    np.testing.assert_array_equal(a.numpy(), y.T.reshape(6, 10))
    np.testing.assert_array_equal(b.numpy(), x.T.reshape(20, 3))


def test_old_contents_are_read_elsewhere_before_they_are_replaced(device: Device) -> None:
    x = image(6, 9)
    state = Tensor(x)

    def step(s: Any) -> Any:
        mirrored = s[:, ::-1] + 1
        return mirrored, s.assign(s * 3), mirrored.sum()

    made = jit(step, device=device)
    mirrored, new, total = made(state)
    np.testing.assert_allclose(mirrored.numpy(), x[:, ::-1] + 1, rtol=1e-6)
    np.testing.assert_allclose(new.numpy(), x * 3, rtol=1e-6)
    np.testing.assert_allclose(total.numpy(), (x + 1).sum(), rtol=1e-5)


def test_new_contents_are_read_elsewhere_after_they_are_written(device: Device) -> None:
    x = image(40, 9)
    state = Tensor(x)

    def step(s: Any) -> Any:
        s.assign(s.sin() * s.exp() + s.cos())
        p = s.pad(((2, 2), (0, 0)))
        return sum(p[i : i + 40] for i in range(5)), s

    made = jit(step, device=device)
    blurred, _ = made(state)
    new = np.sin(x) * np.exp(x) + np.cos(x)
    p = np.pad(new, ((2, 2), (0, 0)))
    np.testing.assert_allclose(state.numpy(), new, rtol=1e-5)
    np.testing.assert_allclose(blurred.numpy(), sum(p[i : i + 40] for i in range(5)), rtol=1e-5)


def test_old_and_new_contents_in_one_value(device: Device) -> None:
    x = image(40, 9)
    state = Tensor(x)

    def step(s: Any) -> Any:
        before = s + 0
        s.assign((s.sin() * s.exp() + s.cos()).contiguous())
        return before[::-1] - s[:, ::-1]

    made = jit(step, device=device)
    difference = made(state)
    new = np.sin(x) * np.exp(x) + np.cos(x)
    np.testing.assert_allclose(state.numpy(), new, rtol=1e-5)
    np.testing.assert_allclose(difference.numpy(), x[::-1] - new[:, ::-1], rtol=1e-4, atol=1e-5)


def test_an_accumulator_uses_its_own_mean(device: Device) -> None:
    x = image(100, 100)
    state = Tensor(x)
    jit(lambda s: s.assign(s - s.mean()), device=device)(state)
    np.testing.assert_allclose(state.numpy(), x - x.mean(dtype=np.float64), atol=1e-6)


def test_scatter_into_an_assigned_buffer(device: Device) -> None:
    x, index = image(10, 3), np.array([1, 7, 1, 1], np.int32)
    value = image(4, 3, seed=1)
    state = Tensor(x)
    made = jit(lambda s, i, v: s.assign(s.scatter(i, v, "add")), device=device)
    made(state, Tensor(index), Tensor(value))
    wanted = x.copy()
    np.add.at(wanted, index, value)
    np.testing.assert_allclose(state.numpy(), wanted, rtol=1e-6)
    assert "computed places" in reasons(made.plan_of(state, Tensor(index), Tensor(value)))


def test_scatter_of_scatter_and_its_readers(device: Device) -> None:
    x, index = image(10), np.array([1, 7, 3], np.int32)

    def graph(t: Any, i: Any) -> Any:
        first = t.scatter(i, 5.0)
        second = first.scatter(i + 1, first[i] * 2, "max")
        return first.sum(), second, second[::-1]

    first = x.copy()
    first[index] = 5
    second = first.copy()
    np.maximum.at(second, index + 1, first[index] * 2)
    check(device, graph, (first.sum(), second, second[::-1]), x, index)


def test_a_scatter_of_one_value(device: Device) -> None:
    x = image(10)
    wanted = x.copy()
    wanted[3] = 2
    check(device, lambda t, i: t.scatter(i, 2.0), wanted, x, np.array([3], np.int32))


def test_a_histogram(device: Device) -> None:
    x = image(500)
    wanted = np.histogram(x, 16, (0, 1))[0]
    check(device, lambda t: zeros((16,), "int32").scatter((t * 16).int(), 1, "add"), wanted, x)


# ---- sizes that are known when the kernel runs ----


def test_pictures_of_any_size_run_the_same_kernels(device: Device) -> None:
    def graph(t: Any) -> Any:
        grey = t.mean(-1)
        p = grey.pad(((1, 1), (1, 1)))
        edges = (p[2:, 1:-1] - p[:-2, 1:-1]).abs()
        return t * 2, edges, t / t.mean(), t.reshape(-1).max()

    made = jit(graph, device=device)
    for h, w in ((8, 16), (5, 33), (1, 1), (100, 40)):
        x = image(h, w, 3)
        found = [r.numpy() for r in made(Tensor(x, dims=("height", "width")))]
        p = np.pad(x.mean(-1), 1)
        wanted = (x * 2, np.abs(p[2:, 1:-1] - p[:-2, 1:-1]), x / x.mean(dtype=np.float64), x.max())
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert len(made.stats.compiles) == 1


def test_axes_of_any_size_merge_too(device: Device) -> None:
    made = jit(lambda t: t * 2 + 1, device=device)
    x = Tensor(image(5, 7, 3), dims=("height", "width"))
    np.testing.assert_allclose(made(x).numpy(), image(5, 7, 3) * 2 + 1, rtol=1e-6)
    assert len(made.plan_of(x).kernels[0].lanes) == 1


# ---- control flow ----


def test_a_loop_read_by_other_lanes_is_stored(device: Device) -> None:
    x = image(9, 20)

    def graph(t: Any) -> Any:
        count, _ = while_loop(lambda n, v: v < 3.0, lambda n, v: (n + 1, v * 1.5), (t * 0, t + 0.1))
        p = count.pad(((0, 0), (1, 1)))
        return p[:, :-2] + p[:, 2:]

    count, value = np.zeros_like(x), x + np.float32(0.1)
    while (live := value < 3).any():
        count, value = count + live, np.where(live, value * np.float32(1.5), value)
    p = np.pad(count, ((0, 0), (1, 1)))
    plan = check(device, graph, p[:, :-2] + p[:, 2:], x, kernels=2)
    assert "control flow" in reasons(plan)


# ---- limits ----


def test_kernels_stay_within_the_buffers_that_a_device_binds(reference: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "target", dataclasses.replace(reference.target, max_buffers=4))
    arrays = [image(5, 6, seed=k) for k in range(9)]

    def graph(*ts: Any) -> Any:
        return sum(ts[1:], ts[0]) * 2, *[t + 1 for t in ts]

    def nine(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, i: Any) -> Any:
        return graph(a, b, c, d, e, f, g, h, i)

    plan = check(reference, nine, (sum(arrays) * 2, *[a + 1 for a in arrays]), *arrays)
    assert all(len(item.bufs) <= 4 for item in plan.items)
    assert "binds at most 4 buffers" in reasons(plan)


# ---- random graphs ----

STEPS = (
    "add", "mul", "sin", "row sum", "column max", "transpose", "flip", "shift", "blur", "look up", "contiguous", "mean", "where",
    "assign",
)  # fmt: skip


def play(program: list[tuple[str, int, int]], start: list[Any], numpy: bool) -> list[Any]:
    """Runs a program of steps on (4, 6) values, on arrays or on Tensors; each step appends a value. Assignments come last."""
    values = [v * 1.0 for v in start]  # the old contents, whatever is assigned later
    final: dict[int, Any] = {}
    for step, i, j in program:
        a, b = values[i % len(values)], values[j % len(values)]
        if step == "add":
            made = a + b * 0.5
        elif step == "mul":
            made = a * b
        elif step == "sin":
            made = np.sin(a) * np.exp(b * -0.1) if numpy else a.sin() * (b * -0.1).exp()
        elif step == "row sum":
            made = b - (a.sum(1, keepdims=True)) * 0.1
        elif step == "column max":
            made = b - a.max(0, keepdims=True)
        elif step == "transpose":
            made = a.T.reshape(4, 6)
        elif step == "flip":
            made = a[:, ::-1] + b[::-1]
        elif step == "shift":
            p = np.pad(a, ((1, 1), (0, 0))) if numpy else a.pad(((1, 1), (0, 0)))
            made = p[2:] - b
        elif step == "blur":
            p = np.pad(a, ((1, 1), (1, 1))) if numpy else a.pad(((1, 1), (1, 1)))
            made = sum(p[y : y + 4, x : x + 6] for y in range(3) for x in range(3)) * (1 / 9)
        elif step == "look up":
            index = (np.arange(24, dtype=np.int32).reshape(4, 6) * 7 + j) % 4
            made = a[index if numpy else Tensor(index), (arange(24) % 6).reshape(4, 6) if not numpy else np.arange(24).reshape(4, 6) % 6]
        elif step == "contiguous":
            made = a * 1 if numpy else (a * 1).contiguous()
        elif step == "mean":
            made = b * a.mean()
        elif step == "where":
            made = np.where(a < b, a, b * 2) if numpy else where(a < b, a, b * 2)
        else:
            target = i % len(start)
            if target in final:
                continue
            final[target] = made = a * 0.5 + b
            if not numpy:
                start[target].assign(made)
                made = start[target]
        values.append(made)
    results = [v * (k + 2.0) for k, v in enumerate(values[len(start) :])]
    return [*results, *[final.get(k, start[k]) if numpy else start[k] for k in range(len(start))]]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=9))
def test_random_graphs_with_assignments_agree_with_numpy(device: Device, program: list[tuple[str, int, int]]) -> None:
    arrays = [image(4, 6, seed=k) for k in range(2)]
    wanted = play(program, [a.astype(np.float64) for a in arrays], numpy=True)
    tensors = [Tensor(a) for a in arrays]
    made = jit(lambda s, t: tuple(play(program, [s, t], numpy=False)), device=device)
    found = [r.numpy() for r in made(*tensors)]
    for got, want in zip(found, wanted, strict=True):
        scale = max(1.0, float(np.abs(want).max()))
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * scale)
    for tensor, want in zip(tensors, wanted[-2:], strict=True):
        np.testing.assert_allclose(tensor.numpy(), want, rtol=1e-4, atol=1e-3)


# ---- memory between kernels ----


def test_values_that_are_not_alive_together_share_memory(device: Device) -> None:
    def chain(t: Any) -> Any:
        first = (t + 1).contiguous()
        x = first
        for _ in range(6):
            x = (x * 0.5).contiguous()
        return x + first  # the first of the chain lives to the end

    x = image(30, 40)
    plan = check(device, chain, (x + 1) / 64 + x + 1, x, kernels=8)
    assert len(plan.temporaries) == 7
    addresses = {memory.ctypes.data for memory in plan.scratch.values()}
    assert len(addresses) == 3
    assert plan.bytes_allocated == 4 * x.nbytes


def test_temporaries_of_any_size_share_memory(device: Device) -> None:
    def chain(t: Any) -> Any:
        a = (t + 1).contiguous()
        b = (a.sum(1) * 2).contiguous()
        c = (b[:5] + 3).contiguous()
        return c * 2

    made = jit(chain, device=device)
    for height, width in ((7, 9), (50, 64), (5, 3)):
        x = image(height, width)
        result = made(Tensor(x, dims=("height", "width")))
        np.testing.assert_allclose(result.numpy(), (((x + 1).sum(1) * 2)[:5] + 3) * 2, rtol=1e-5)
