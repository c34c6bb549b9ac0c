"""Jitted functions on the OpenCL device: pictures, memory, plans on disk, what DEBUG and NOOPT do."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import Tensor, jit, while_loop
from engine.runtime.devices.opencl import OpenCLDevice
from tests.engine.opencl_written import cached_in, opened

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20


@pytest.fixture
def device(tmp_path: Path) -> Iterator[OpenCLDevice]:
    with opened(cache=cached_in(tmp_path)) as made:
        yield made


def orbit(x: Any, colour: Any) -> Any:
    """Rows of pixels whose loops end at different times, in whole numbers."""
    turns, last = while_loop(lambda k, v: k < x % 7, lambda k, v: (k + 1, v * 3 + k), (x * 0, x))
    return (last + turns).cast("int32"), colour * 2.0 + 1.0


def orbit_in_numpy(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    last, turns = x.copy(), x % 7
    for k in range(7):
        last = np.where(k < turns, last * np.int32(3) + np.int32(k), last)
    return last + turns


@pytest.mark.parametrize("workgroup", [1, 64, 128, 256, 512])
def test_a_picture_is_the_same_for_every_workgroup_to_its_edges(device: OpenCLDevice, workgroup: int) -> None:
    height, width = 1079, 1919  # no multiple of any of them
    x = np.random.default_rng(1).integers(0, 1000, (height, width), dtype=np.int32)
    colour = np.full((height, width), 0.5, np.float32)
    frame = jit(orbit, device=device, workgroup=workgroup)
    pixels, doubled = frame(Tensor(x), Tensor(colour))
    np.testing.assert_array_equal(pixels.numpy(), orbit_in_numpy(x))
    assert (doubled.numpy() == 2.0).all()
    assert {kernel.workgroup for kernel in frame.kernels(Tensor(x), Tensor(colour))} == {workgroup}


def test_a_function_for_which_the_device_has_no_room_says_so_and_works_again_later(device: OpenCLDevice) -> None:
    double = jit(lambda x: x * 2.0, device=device)
    total, device.room.total = device.room.total, 3 * MIB
    x = Tensor(np.ones(1 << 19, np.float32))
    with pytest.raises(MemoryError, match=r"a buffer of 2 MiB does not fit .*: 1 of 3 MiB are free"):
        double(x)
    device.room.total = total
    assert (double(x).numpy() == 2.0).all()


STORED = """
    import sys
    from pathlib import Path
    import numpy as np
    from engine import Tensor, jit
    from engine.runtime import events
    from engine.runtime.cache import Cache
    from engine.runtime.devices.opencl import OpenCLDevice

    def frame(x, k):
        for step in range(60):
            x = (x * 1.01 + step * k).abs() - x
        return x

    device = OpenCLDevice(cache=Cache(Path("cache")))
    made = jit(frame, device=device)
    with events.counting() as counted:
        found = made(Tensor(np.linspace(0, 1, 1000, dtype=np.float32)), 0.5).numpy()
    emitters = sorted(m for m in sys.modules if m.startswith("engine.compiler.emit.") or m == "engine.compiler.schedule")
    print(counted.traces, counted.compiles, counted.cache_hits, len(emitters), made.stats.compiles[0].seconds < 10, found.tobytes().hex())
"""


def test_a_second_process_neither_traces_nor_compiles(tmp_path: Path) -> None:
    with opened(cache=cached_in(tmp_path)):
        pass
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(STORED))
    told = []
    for _ in range(2):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "POCL_CACHE_DIR": str(tmp_path / f"pocl{len(told)}")}
        done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        told.append(done.stdout.split())
    first, second = told
    assert first[:3] == ["1", "1", "0"] and int(first[3]) > 0
    assert second[:4] == ["0", "0", "1", "0"], "no trace, no compile, nothing of the compiler imported"
    assert second[5] == first[5]


def test_source_and_resources_are_shown_where_debug_asks_for_them(
    device: OpenCLDevice, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEBUG", "6")
    monkeypatch.delenv("CHECK", raising=False)
    jit(lambda x: x + 1.0, name="shown", device=device)(Tensor(np.ones(7, np.float32)))
    told = capsys.readouterr().err
    assert "source of shown_0" in told and "__kernel void shown_0" in told
    assert "resources of shown_0: Resources(" in told and "workgroups of up to" in told


def test_without_optimisation_the_driver_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with opened(cache=cached_in(tmp_path)) as plain:
        assert "-cl-opt-disable" not in plain.options and plain.target.contract
        monkeypatch.setenv("NOOPT", "1")
        with opened(cache=cached_in(tmp_path)) as device:
            assert "-cl-opt-disable" in device.options and not device.target.contract
            assert device.identity() != plain.identity()
            np.testing.assert_array_equal(jit(lambda x: x * 3.0, device=device)(Tensor([1.0, 2.0])).numpy(), [3.0, 6.0])
    assert not any("fast" in option or "unsafe" in option or "finite" in option for option in plain.options)
