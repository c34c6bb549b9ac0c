"""Which device is taken: the list of backends, the order of choice, the default.

The order is that of speed, and a device that is only software is never preferred to the CPU backend, which is faster on the same
silicon. Whether there is any hardware to ask for is seen from the system's device files where it has such, since asking the drivers
takes longer than a first frame. `CPU=1`, `GL=1` and so on force a backend. A backend that cannot be used says in one line what is
missing and how to get it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from glob import glob
from typing import Any

from engine.runtime import events
from engine.runtime.device import Device, DeviceError

BACKENDS = ("cuda", "hip", "metal", "opencl", "opengl", "webgpu", "cpu", "reference")
_FORCES = {
    "CUDA": "cuda", "HIP": "hip", "METAL": "metal", "CL": "opencl", "GL": "opengl", "WEBGPU": "webgpu", "CPU": "cpu",
    "REFERENCE": "reference",
}  # fmt: skip
_GPU_FILES = ("/dev/dri/renderD*", "/dev/nvidia[0-9]*", "/dev/kfd", "/dev/dxg", "/dev/mali*")


@dataclass(frozen=True)
class DeviceStatus:
    """One backend on this machine: `problem` is None where it is usable, else one line. `software`: it computes on the processor."""

    backend: str
    name: str
    problem: str | None
    software: bool = False


def _cpu(**options: Any) -> Device:
    from engine.runtime.devices.cpu import CpuDevice

    options.pop("context", None)
    return CpuDevice(**options)


def _reference(**options: Any) -> Device:
    from engine.runtime.devices.interpreter import ReferenceDevice

    for other in ("threads", "context"):
        options.pop(other, None)
    options.setdefault("nan_check", events.checking())
    return ReferenceDevice(**options)


def _opencl(**options: Any) -> Device:
    from engine.runtime.devices.opencl import OpenCLDevice

    for other in ("threads", "context"):
        options.pop(other, None)
    return OpenCLDevice(**options)


def _opengl(**options: Any) -> Device:
    from engine.runtime.devices.opengl import OpenGLDevice

    options.pop("threads", None)
    return OpenGLDevice(**options)


_MAKERS: dict[str, Callable[..., Device]] = {"opencl": _opencl, "opengl": _opengl, "cpu": _cpu, "reference": _reference}
_default: Device | None = None
_choosing = threading.Lock()


def resolved(backend: str = "auto") -> str:
    """The backend that a name stands for, the first of `candidates`. Raises DeviceError for one that is unknown or not of this version."""
    return candidates(backend)[0]


def candidates(backend: str = "auto") -> list[str]:
    """The backends that a name stands for, best first: one that is named alone, for "auto" all that this machine may have.

    Raises DeviceError for one that is unknown or not part of this version.
    """
    if backend == "auto":
        backend = forced() or "auto"
    if backend == "auto":
        return [b for b in BACKENDS if b in _MAKERS and b not in ("cpu", "reference") and _has_hardware()] + ["cpu"]
    if backend not in BACKENDS:
        raise DeviceError(f"there is no backend {backend!r}; there are {', '.join(BACKENDS)}")
    if backend not in _MAKERS:
        raise DeviceError(f"the {backend} backend is not part of this version; use --backend cpu")
    return [backend]


def _has_hardware() -> bool:
    """Whether there may be a graphics processor. Only Linux tells without a driver being asked."""
    return sys.platform != "linux" or any(glob(pattern) for pattern in _GPU_FILES)


def open_device(backend: str = "auto", **options: Any) -> Device:
    """A device of this backend; for "auto" the best that is no mere software. Options: `threads` (CPU), `group` (lanes of a group, for
    tests), `context` (OpenGL: who provides it), `share` (OpenCL: beside the OpenGL context that is current on this thread).

    Raises DeviceError for a backend that is unknown, not part of this version, or unusable here.
    """
    names = candidates(backend)
    for name in names:
        try:
            device = _MAKERS[name](**options)
        except DeviceError:
            if name == names[-1]:
                raise
            continue
        if device.software and name != names[-1]:
            device.close()
            continue
        facts = {"backend": device.backend, "name": device.name, "driver": device.driver, "compute_units": device.compute_units}
        events.record("device", **facts)
        if device.software and name not in ("cpu", "reference"):
            events.warn_once(
                f"software {device.name}", f"{device.name} is a software device, slower than the CPU backend on the same processor"
            )
        return device
    raise AssertionError("there is always a last candidate")


def gl_sharing(device: Device) -> str | None:
    """Why a device of this kind cannot work in OpenGL's buffers, in one line; None where it can, opened with `share`."""
    if device.backend != "opencl":
        return f"{device.backend} shares nothing with OpenGL"
    from engine.runtime.devices import opencl

    assert isinstance(device, opencl.OpenCLDevice)
    return opencl.gl_sharing(device)


def forced() -> str | None:
    """The backend that the environment forces, None where it forces none."""
    for variable, backend in _FORCES.items():
        if os.environ.get(variable, "") not in ("", "0"):
            return backend
    return None


def default_device() -> Device:
    """The device that graphs run on when nobody names one; opened once."""
    global _default
    if _default is None:
        with _choosing:
            if _default is None:
                _default = open_device()
    return _default


def set_default_device(device: Device | None) -> Device | None:
    """Makes `device` the default (None: chosen again when needed); returns the one before."""
    global _default
    before, _default = _default, device
    return before


def devices() -> list[DeviceStatus]:
    """Every backend, usable or why not."""
    rows = []
    for backend in BACKENDS:
        if backend not in _MAKERS:
            rows.append(DeviceStatus(backend, "", "not part of this version"))
            continue
        try:
            device = _MAKERS[backend]()
            rows.append(DeviceStatus(backend, device.name, None, device.software and backend not in ("cpu", "reference")))
            device.close()
        except (DeviceError, ImportError, ValueError) as error:
            rows.append(DeviceStatus(backend, "", str(error).splitlines()[0]))
    return rows
