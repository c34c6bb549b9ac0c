"""Long reductions along rows: each lane goes along its own row with a short vector, whatever the row's length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from engine import Device, Tensor, jit
from engine.compiler.kernel import Kernel, SerialItem
from engine.runtime.cache import Cache
from engine.runtime.devices.cpu import CpuDevice
from engine.runtime.devices.interpreter import ReferenceDevice

DEVICES: dict[str, Callable[[], Any]] = {
    "reference 1": lambda: ReferenceDevice(1),
    "reference 4": lambda: ReferenceDevice(4),
    "cpu 16": lambda: CpuDevice(threads=1, group=16, cache=Cache(None)),
    "cpu 8": lambda: CpuDevice(threads=1, group=8, cache=Cache(None)),
    "cpu 4": lambda: CpuDevice(threads=1, group=4, cache=Cache(None)),
}
LENGTHS = [65, 96, 127, 128, 129, 1000]


@pytest.fixture(scope="module", params=list(DEVICES))
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    made = DEVICES[request.param]()
    yield made
    made.close()


def picture(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    values = np.random.default_rng(sum(shape)).integers(-50, 50, shape)
    kind = np.dtype(dtype).kind
    return (values / 8 if kind == "f" else np.abs(values) if kind == "u" else values).astype(dtype)


def goes_along_rows(kernel: Kernel) -> bool:
    return any(isinstance(item, SerialItem) for block in kernel.blocks() for item in block.items)


def softmax(x: Any) -> Any:
    e = (x - x.max(1, keepdims=True)).exp() if isinstance(x, Tensor) else np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize("width", LENGTHS)
def test_sums_and_extrema_of_rows(device: Device, width: int) -> None:
    x = picture(37, width)
    compiled = jit(lambda t: (t.sum(1), t.max(1), t.min(1), (t * t + 1).sum(1)), device=device)
    found = compiled(Tensor(x))
    for result, wanted in zip(found, (x.sum(1), x.max(1), x.min(1), (x * x + 1).sum(1)), strict=True):
        np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-5)
    assert all(goes_along_rows(k) for k in compiled.plan_of(Tensor(x)).kernels)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "float16", "float64", "bool"])
def test_rows_of_every_type(device: Device, dtype: str) -> None:
    x = picture(21, 150, dtype=np.dtype(dtype))
    found = jit(lambda t: (t.max(1), t.any(1), t.all(1), t.sum(1)), device=device)(Tensor(x))
    wanted = (x.max(1), x.any(1), x.all(1), x.sum(1))
    for result, value in zip(found[:3], wanted[:3], strict=True):
        assert result.numpy().tolist() == value.tolist()
    np.testing.assert_allclose(found[3].numpy().astype(np.float64), wanted[3].astype(np.float64), rtol=2e-3)


def test_extrema_of_rows_with_nan(device: Device) -> None:
    x = picture(20, 200)
    x[3, 150] = x[7, 199] = x[9, 0] = np.nan
    found = jit(lambda t: (t.max(1), t.argmax(1), t.argmin(1)), device=device)(Tensor(x))
    assert found[0].numpy().tobytes() == x.max(1).tobytes() or np.array_equal(found[0].numpy(), x.max(1), equal_nan=True)
    assert found[1].numpy().tolist() == x.argmax(1).tolist()
    assert found[2].numpy().tolist() == x.argmin(1).tolist()


@pytest.mark.parametrize("width", LENGTHS)
def test_reductions_of_what_depends_on_reductions(device: Device, width: int) -> None:
    x = picture(19, width)
    found = jit(lambda t: (softmax(t), ((t - t.mean(1, keepdims=True)) ** 2).mean(1)), device=device)(Tensor(x))
    np.testing.assert_allclose(found[0].numpy(), softmax(x), rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(found[1].numpy(), x.var(1), rtol=1e-4)


def test_rows_with_names_for_sizes_have_any_length(device: Device) -> None:
    compiled = jit(lambda t: (t.sum(1), t.max(1), softmax(t)), device=device)
    for height, width in [(5, 3), (40, 1), (3, 31), (17, 32), (9, 33), (33, 500)]:
        x = picture(height, width)
        found = compiled(Tensor(x, dims=("height", "width")))
        np.testing.assert_allclose(found[0].numpy(), x.sum(1), rtol=1e-5)
        assert found[1].numpy().tolist() == x.max(1).tolist()
        np.testing.assert_allclose(found[2].numpy(), softmax(x), rtol=1e-4, atol=1e-7)
    assert compiled.stats.misses == 1


def test_rows_of_more_axes(device: Device) -> None:
    x = picture(3, 7, 90)
    found = jit(lambda t: (t.sum(2), t.sum((1, 2)), t[:, ::2, 5:].max(2), t.pad(((0, 0), (0, 0), (2, 9))).min(2)), device=device)(Tensor(x))
    wanted = (x.sum(2), x.sum((1, 2)), x[:, ::2, 5:].max(2), np.pad(x, ((0, 0), (0, 0), (2, 9))).min(2))
    for result, value in zip(found, wanted, strict=True):
        np.testing.assert_allclose(result.numpy(), value, rtol=1e-5)


def test_a_matrix_times_a_vector(device: Device) -> None:
    x, v = picture(30, 300), picture(300)
    np.testing.assert_allclose(jit(lambda t, u: t @ u, device=device)(Tensor(x), Tensor(v)).numpy(), x @ v, rtol=1e-5)


def test_columns_are_summed_by_neighbouring_lanes(device: Device) -> None:
    x = picture(200, 50)
    for program, wanted in ((lambda t: t.sum(0), x.sum(0)), (lambda t: t.permute(1, 0).max(1), x.max(0))):
        compiled = jit(program, device=device)
        np.testing.assert_allclose(compiled(Tensor(x)).numpy(), wanted, rtol=1e-5)
        assert not any(goes_along_rows(k) for k in compiled.plan_of(Tensor(x)).kernels)


def test_a_sum_of_a_few_thousand_that_every_workgroup_repeats(device: Device) -> None:
    x = picture(3000)
    found = jit(lambda t: t - t.mean(), device=device)(Tensor(x))
    np.testing.assert_allclose(found.numpy(), x - x.mean(), rtol=1e-4, atol=1e-5)


def test_sums_of_floats_are_the_same_on_every_device() -> None:
    x = np.random.default_rng(0).random((11, 777)).astype(np.float32)
    sums = set()
    for make in DEVICES.values():
        device = make()
        sums.add(jit(lambda t: (t.sum(1), t.prod(1)), device=device)(Tensor(x))[0].numpy().tobytes())
        device.close()
    assert len(sums) == 1
