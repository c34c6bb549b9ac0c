"""Contents are where they were last written, whoever asks for them: the host, the CPU's kernels, a device with memory of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Device, DeviceError, StaleTensorError, Tensor, jit, open_device, set_default_device
from engine.frontend.storage import aligned_empty
from engine.runtime import events

OWN = ("opencl", "opengl")


@pytest.fixture(scope="module")
def opened() -> Iterator[dict[str, Device]]:
    found: dict[str, Device] = {"cpu": open_device("cpu")}
    for backend in OWN:
        try:
            found[backend] = open_device(backend)
        except DeviceError as error:
            for device in found.values():
                device.close()
            pytest.skip(str(error))
    yield found
    for device in found.values():
        device.close()


def add(state: Tensor, amount: float) -> Tensor:
    state.assign(state + amount)
    return state * 2.0


def test_what_one_device_wrote_the_next_one_reads(opened: dict[str, Device]) -> None:
    """A Tensor goes round the devices, each adding to it in place; the sum is right after every step."""
    steps = {name: jit(add, device=device, name=f"add_{name}") for name, device in opened.items()}
    state, total = Tensor(np.zeros((3, 5), np.float32)), 0.0
    for turn, name in enumerate(["opengl", "cpu", "opencl", "opencl", "opengl", "cpu", "cpu", "opengl", "opencl"]):
        total += turn + 1
        doubled = steps[name](state, float(turn + 1))
        np.testing.assert_array_equal(doubled.numpy(), np.full((3, 5), 2 * total, np.float32))
        np.testing.assert_array_equal(state.numpy(), np.full((3, 5), total, np.float32))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["cpu", "opencl", "opengl"]), st.booleans()), min_size=1, max_size=8))
def test_any_order_of_devices_and_readings_gives_the_same_sum(opened: dict[str, Device], order: list[tuple[str, bool]]) -> None:
    steps = {name: jit(add, device=device, name=f"add_{name}") for name, device in opened.items()}
    state = Tensor(np.arange(4, dtype=np.float32))
    for number, (name, read) in enumerate(order):
        steps[name](state, 1.0)
        if read:
            np.testing.assert_array_equal(state.numpy(), np.arange(4) + number + 1)
    np.testing.assert_array_equal(state.numpy(), np.arange(4) + len(order))


@pytest.mark.parametrize("backend", OWN)
def test_a_device_is_given_a_table_once_and_frames_move_nothing(backend: str, opened: dict[str, Device]) -> None:
    step = jit(add, device=opened[backend], name="add_counted")
    state = Tensor(np.zeros(1000, np.float32))
    step(state, 1.0)
    written: list[int] = []
    memory = state.buffer_on(opened[backend])
    kind = type(memory)
    original = kind.write

    def counted(self: Any, array: np.ndarray[Any, Any]) -> None:
        written.append(array.nbytes)
        original(self, array)

    before = events.counters.copy()
    kind.write = counted
    try:
        for _ in range(20):
            step(state, 1.0)
    finally:
        kind.write = original
    assert not written and (events.counters - before).allocations == 0
    assert state.buffer_on(opened[backend]) is memory
    np.testing.assert_array_equal(state.numpy(), np.full(1000, 21, np.float32))


@pytest.mark.parametrize("backend", OWN)
def test_results_and_state_feed_back_on_a_device(backend: str, opened: dict[str, Device]) -> None:
    """A result passed back takes turns with a second buffer, and an old one is stale, as on the CPU."""
    device = opened[backend]
    grow = jit(lambda x, k: x * 1.0 + k, device=device, name="grow")
    first = grow(Tensor(np.zeros(7, np.float32)), 1.0)
    second = grow(first, 2.0)
    third = grow(second, 3.0)
    np.testing.assert_array_equal(third.numpy(), np.full(7, 6, np.float32))
    with pytest.raises(StaleTensorError, match="replaced by a later call"):
        first.numpy()


@pytest.mark.parametrize("backend", OWN)
def test_named_sizes_resize_on_a_device_without_a_compile(backend: str, opened: dict[str, Device]) -> None:
    scale = jit(lambda x, k: x * k, device=opened[backend], name="scale")
    for size in (5, 1000, 3, 1001):
        picture = np.random.default_rng(size).random((size, 4), np.float32)
        np.testing.assert_array_equal(scale(Tensor(picture, dims=("height",)), 3.0).numpy(), picture * np.float32(3))
    assert len(scale.stats.compiles) == 1


@pytest.mark.parametrize("backend", OWN)
def test_parameters_of_every_kind_arrive(backend: str, opened: dict[str, Device]) -> None:
    def mix(x: Tensor, number: float, whole: int, flag: bool, row: Any) -> Tensor:
        return x * number + whole + row[1] * 100.0 + Tensor.of(flag.uop).where(1000.0, 0.0)  # type: ignore[attr-defined]

    mixed = jit(mix, device=opened[backend])
    x = Tensor(np.arange(3, dtype=np.float32))
    for number, whole, flag, row in ((2.0, 5, True, [1, 2, 3]), (0.5, -7, False, [0, -1, 9])):
        got = mixed(x, number, whole, flag, np.array(row, np.float32)).numpy()
        np.testing.assert_array_equal(got, np.arange(3) * np.float32(number) + whole + row[1] * 100.0 + (1000.0 if flag else 0.0))


def test_memory_of_the_callers_is_written_in_place() -> None:
    """`Tensor.over`: the CPU's kernels write where the caller said, and other targets in turn compile and allocate nothing."""
    raw = np.zeros(4096, np.uint8)
    start = -raw.ctypes.data % 64
    places = [raw[start + 1024 * k : start + 1024 * k + 256].view(np.float32).reshape(8, 8) for k in range(2)]
    device = open_device("cpu")
    fill = jit(lambda target, k: target.assign(target * 0.0 + k), device=device, name="fill")
    targets = [Tensor.over(place, dims=("height", "width")) for place in places]
    fill(targets[0], 1.0)
    fill(targets[1], 2.0)
    before = events.counters.copy()
    for turn in range(6):
        fill(targets[turn % 2], float(turn))
    assert (events.counters - before).allocations == 0 and len(fill.stats.compiles) == 1
    assert (places[0] == 4).all() and (places[1] == 5).all()
    device.close()


def test_memory_that_is_not_aligned_is_refused() -> None:
    raw = np.zeros(256, np.uint8)
    start = -raw.ctypes.data % 64 + 4
    with pytest.raises(ValueError, match="begins at a multiple of 64 bytes"):
        Tensor.over(raw[start : start + 64])


def test_reading_into_an_array_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"float64\[3\]; wanted is a contiguous float32\[3\]"):
        Tensor([1.0, 2.0, 3.0]).read_into(np.zeros(3))


@pytest.mark.parametrize("backend", OWN)
def test_lazy_execution_on_a_device(backend: str, opened: dict[str, Device]) -> None:
    """What is computed outside of jitted functions runs on the default device, temporaries and long reductions included."""
    before = set_default_device(opened[backend])
    try:
        x = np.random.default_rng(1).random((64, 2000), np.float32)
        np.testing.assert_allclose((Tensor(x) + 1).sum().numpy(), (x.astype(np.float64) + 1).sum(), rtol=1e-5)
        np.testing.assert_array_equal(Tensor(x).max(axis=1).numpy(), x.max(axis=1))
        state = Tensor(np.zeros(4, np.float32))
        state.assign(state + 3)
        np.testing.assert_array_equal((state * 2).numpy(), np.full(4, 6, np.float32))
    finally:
        set_default_device(before)


def test_memory_that_the_system_has_not_is_told_with_its_size() -> None:
    with pytest.raises(MemoryError, match="134,217,728 MiB"):
        aligned_empty(1 << 45, np.dtype(np.float32))
