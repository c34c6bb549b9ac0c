"""Which device is taken: a software device never before the CPU, what is forced is taken, what is missing is named."""

from __future__ import annotations

import subprocess
import sys

import pytest

from engine import DeviceError, devices, open_device
from engine.runtime import choice, events


def test_without_a_graphics_processor_auto_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_has_hardware", lambda: False)
    monkeypatch.setattr(choice, "forced", lambda: None)
    assert choice.candidates("auto") == ["cpu"]


def test_a_software_device_is_never_preferred_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here every OpenGL and OpenCL device is one: even where hardware is expected, the CPU is what opens."""
    monkeypatch.setattr(choice, "_has_hardware", lambda: True)
    monkeypatch.setattr(choice, "forced", lambda: None)
    assert choice.candidates("auto")[-1] == "cpu" and {"opencl", "opengl"} <= set(choice.candidates("auto"))
    with_hardware = [row for row in devices() if row.problem is None and not row.software and row.backend not in ("cpu", "reference")]
    if with_hardware:
        pytest.skip("hardware: there is a real graphics processor here")
    device = open_device("auto")
    assert device.backend == "cpu" and not device.software
    device.close()


@pytest.mark.parametrize(("variable", "backend"), [("CPU", "cpu"), ("GL", "opengl"), ("CL", "opencl"), ("REFERENCE", "reference")])
def test_the_environment_forces_a_backend(variable: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in choice._FORCES:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(variable, "1")
    assert choice.candidates("auto") == [backend]
    assert choice.candidates("cpu") == ["cpu"], "what is named on the command line is taken all the same"


def test_an_unknown_backend_is_refused_with_the_known_ones() -> None:
    with pytest.raises(DeviceError, match="there is no backend 'vulkan'; there are cuda, hip"):
        choice.candidates("vulkan")


def test_every_backend_is_listed_usable_or_with_what_is_missing() -> None:
    rows = devices()
    assert [row.backend for row in rows] == list(choice.BACKENDS)
    for row in rows:
        assert (row.problem is None) == bool(row.name), row
        assert row.problem is None or "\n" not in row.problem


@pytest.mark.parametrize("backend", ["opengl", "opencl"])
def test_a_software_device_is_flagged_and_said_once_in_a_process(backend: str) -> None:
    row = next(row for row in devices() if row.backend == backend)
    if row.problem is not None:
        pytest.skip(row.problem)
    if not row.software:
        pytest.skip("hardware: there is a real graphics processor here")
    heard: list[str] = []
    events.forget_warnings()
    stop = events.subscribe(lambda event: heard.append(event.fields["message"]), {"warning"})
    try:
        for _ in range(2):
            device = open_device(backend)
            assert device.software
            device.close()
    finally:
        stop()
    assert len(heard) == 1 and "software device" in heard[0]


def test_the_cpu_backend_imports_nothing_of_the_others() -> None:
    program = (
        "import sys; from engine import open_device, Tensor; open_device('cpu'); (Tensor([1.0]) + 1).numpy();"
        "print([m for m in ('moderngl', 'glcontext', 'glfw', 'pyopencl', 'imgui_bundle') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
