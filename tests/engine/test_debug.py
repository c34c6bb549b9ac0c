"""DEBUG tells more at each level, NOOPT=1 computes the same, and neither costs anything when it is not asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from engine import Tensor, cond, jit, open_device, set_default_device, where, while_loop
from engine.runtime.cache import Cache
from engine.runtime.devices.cpu import CpuDevice


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DEBUG", "NOOPT", "CHECK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cpu() -> Iterator[CpuDevice]:
    device = CpuDevice(threads=1, cache=Cache(None))
    yield device
    device.close()


def program(x: Any, k: Any) -> Any:
    v, n = while_loop(lambda v, n: (v < 10) & (n < 8), lambda v, n: (v * k + 0.25, n + 1), (x, (x * 0).cast("int32")))
    y = cond(v > 12, lambda: v.sin() * 2, lambda: (v % 1.0) / 1.0)
    grid = y.reshape(4, 4)
    return where(n > 3, y, v), grid.flip(1).sum(axis=0), (grid[:, ::2] * 3 + 1).contiguous().max()


def data() -> Tensor:
    return Tensor(np.linspace(-3, 9, 16, dtype=np.float32))


@pytest.mark.parametrize(
    ("level", "told", "untold"),
    [
        (0, [], ["rayfuse"]),
        (1, ["device backend=reference", "frame: ", "kernels in ", "first call ("], ["workgroups of"]),
        (2, ["frame_0: ", " ms, workgroups of "], ["schedule"]),
        (3, ["schedule frame_0: 16 lanes", "fus", "contiguous(): the author wants it stored"], ["graph of"]),
        (5, ["graph of frame as traced", "graph of frame_0 as scheduled", "graph of frame_0 as lowered", "    while ", "loop "], []),
    ],
)
def test_each_level_of_debug_says_more(
    level: int, told: list[str], untold: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if level:
        monkeypatch.setenv("DEBUG", str(level))
    device = open_device("reference")
    jit(program, name="frame", device=device)(data(), 1.5)
    output = capsys.readouterr()
    assert output.out == ""
    assert [text for text in told if text not in output.err] == []
    assert [text for text in untold if text in output.err] == []


def test_source_and_assembly_of_machine_code(cpu: CpuDevice, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUG", "6")
    jit(lambda x: x * 2 + 1, name="frame", device=cpu)(data())
    output = capsys.readouterr().err
    assert "source of frame_0\n" in output and "define void @frame_0" in output
    assert "assembly of frame_0\n" in output
    assert "frame_0: " in output and "instructions, " in output and "bytes of stack" in output


def test_unoptimised_code_has_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [t.copy() for t in jit(program, device=open_device("reference"))(data(), 1.5)]
    monkeypatch.setenv("NOOPT", "1")
    device = CpuDevice(threads=1, cache=Cache(None))
    assert not device.contract and not device.target.optimise and not device.optimise
    frame = jit(program, device=device)
    for got, want in zip(frame(data(), 1.5), wanted, strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5)
    assert all("contract" not in k.source() for k in frame.kernels(data(), 1.5))
    device.close()


def test_optimised_and_unoptimised_objects_are_not_confused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def compiles(device: CpuDevice) -> int:
        frame = jit(lambda x: x.cast("int32") + 1, name="frame", device=device)
        assert frame(data()).numpy().sum() == 16 + int(np.trunc(np.linspace(-3, 9, 16, dtype=np.float32)).sum())
        device.close()
        return frame.stats.cache_misses

    cache = Cache(tmp_path)
    assert compiles(CpuDevice(threads=1, cache=cache)) == 1
    assert compiles(CpuDevice(threads=1, cache=cache)) == 0
    monkeypatch.setenv("NOOPT", "1")
    assert compiles(CpuDevice(threads=1, cache=cache)) == 1


def test_lazy_tensors_are_told_of_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    before = set_default_device(open_device("reference"))
    try:
        monkeypatch.setenv("DEBUG", "2")
        assert (data() + 1).numpy().shape == (16,)
    finally:
        set_default_device(before)
    assert "lazy_0: " in capsys.readouterr().err
