"""Jitted functions on the OpenGL backend: the same as elsewhere, and nothing is compiled, moved or allocated once they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from engine import Tensor, for_loop, jit
from engine.runtime import events
from engine.runtime.cache import Cache
from engine.runtime.choice import set_default_device
from engine.runtime.device import DeviceError
from engine.runtime.devices.cpu import CpuDevice
from engine.runtime.devices.opengl import OpenGLDevice


@pytest.fixture(scope="module")
def device() -> Iterator[OpenGLDevice]:
    try:
        opened = OpenGLDevice(cache=Cache(None))
    except DeviceError as error:
        pytest.skip(f"no OpenGL 4.3: {error}")
    before = set_default_device(opened)
    yield opened
    set_default_device(before)
    opened.close()


def steps(x: Tensor, times: Tensor) -> Tensor:
    """A loop of a few operations for each element of x, its length given by data."""
    return for_loop(times, lambda k, v: v * 1.25 + (v + k).sin() * 0.5, x)


@pytest.mark.parametrize("workgroup", [1, 64, 128, 256])
def test_a_picture_is_the_same_for_every_workgroup(device: OpenGLDevice, workgroup: int) -> None:
    height, width = 1079, 1919
    rows = Tensor(np.arange(height, dtype=np.float32).reshape(height, 1) / height)
    columns = Tensor(np.arange(width, dtype=np.float32).reshape(1, width) / width)

    @jit(workgroup=workgroup)
    def picture(rows: Tensor, columns: Tensor) -> Tensor:
        return ((rows * 255).cast("uint32") << 8) | (columns * 255).cast("uint32") | 0x10000

    got = picture(rows, columns).numpy()
    y = (np.arange(height, dtype=np.float32) / np.float32(height) * 255).astype(np.uint32)
    x = (np.arange(width, dtype=np.float32) / np.float32(width) * 255).astype(np.uint32)
    assert np.array_equal(got, (y[:, None] << 8) | x | 0x10000)
    assert [kernel.workgroup for kernel in picture.kernels(rows, columns)] == [min(workgroup, device.limits.workgroup)]


def test_a_function_may_read_more_arrays_than_there_are_bindings(device: OpenGLDevice) -> None:
    count = device.limits.storage_blocks + 8
    tables = [np.arange(50 + k, dtype=np.int32) * (k + 1) for k in range(count)]

    @jit
    def total(tables: tuple[Tensor, ...], index: Tensor) -> Tensor:
        found = index * 0
        for table in tables:
            found = found + table[index]
        return found

    index = np.arange(50, dtype=np.int32)
    held = tuple(Tensor(table) for table in tables)
    expected = sum(table[:50] for table in tables)
    assert np.array_equal(total(held, Tensor(index)).numpy(), expected)
    assert len(total.kernels(held, Tensor(index))) == 1
    # another function that shares half of them, and the first again
    assert np.array_equal(total(held[: count // 2] * 2, Tensor(index)).numpy(), 2 * sum(table[:50] for table in tables[: count // 2]))
    assert np.array_equal(total(held, Tensor(index)).numpy(), expected)


def test_frames_compile_allocate_and_move_nothing(device: OpenGLDevice) -> None:
    """A film that is fed back, a table, a number that changes: what a renderer does in each frame."""
    count = device.limits.storage_blocks + 4
    tables = tuple(Tensor(np.full(64, k, np.float32)) for k in range(count))

    @jit
    def frame(film: Tensor, tables: tuple[Tensor, ...], exposure: float) -> tuple[Tensor, Tensor]:
        light = tables[0]
        for table in tables[1:]:
            light = light + table
        film = film + light * exposure
        return film, film * 2

    film, expected = Tensor(np.zeros(64, np.float32)), 0.0
    light = count * (count - 1) / 2
    for number in range(8):
        if number == 3:
            before, moves = events.counters.copy(), device.memory.version
        film, shown = frame(film, tables, float(number))
        expected += light * number
        assert np.array_equal(shown.numpy(), np.full(64, 2 * expected))
    moved = events.counters - before
    assert (moved.compiles, moved.allocations, device.memory.version) == (0, 0, moves)
    assert np.array_equal(film.numpy(), np.full(64, expected))


def test_a_second_process_finds_the_plan_on_disk(device: OpenGLDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices that share a cache and nothing else are as those of different processes."""
    for name in ("CHECK", "NOOPT", "DEBUG"):  # under which nothing is stored
        monkeypatch.delenv(name, raising=False)
    values, times = np.linspace(-2, 2, 300, dtype=np.float32), np.arange(300, dtype=np.int32) % 7
    results = []
    for turn in range(2):
        other = OpenGLDevice(cache=Cache(tmp_path))

        def long(x: Tensor, times: Tensor) -> Tensor:
            for _ in range(12):
                x = steps(x, times).cos()
            return x

        function: Callable[..., Tensor] = jit(device=other)(long)
        with events.counting() as moved:
            results.append(function(Tensor(values), Tensor(times)).numpy())
        assert (moved.compiles == 0) == (turn == 1)
        assert (moved.traces == 0) == (turn == 1)
        other.close()
    assert np.array_equal(*results)


def test_arguments_may_come_from_the_processor_and_go_back(device: OpenGLDevice) -> None:
    values, times = np.linspace(-2, 2, 300, dtype=np.float32), np.arange(300, dtype=np.int32) % 7
    cpu = CpuDevice(threads=1, cache=Cache(None))
    there, here = jit(device=cpu)(steps), jit(device=device)(steps)
    x, n = Tensor(values), Tensor(times)
    once, twice = there(x, n).numpy(), here(there(x, n), n).numpy()
    assert np.allclose(here(x, n).numpy(), once, rtol=1e-4, atol=1e-5)
    assert np.allclose(there(here(x, n), n).numpy(), twice, rtol=1e-3, atol=1e-4)
    cpu.close()
