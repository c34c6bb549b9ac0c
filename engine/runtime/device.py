"""Devices: what runs kernels. The protocol, the list, the choice.

A `Device` compiles kernels and makes executables of whole plans; its memory is host memory as long as its backend computes on the
host. The order of choice is that of speed; `CPU=1`, `REFERENCE=1` and so on force one. A device that cannot be used says in one
line what is missing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from engine.runtime import events

if TYPE_CHECKING:
    from engine.compiler.kernel import Kernel
    from engine.compiler.target import Target
    from engine.runtime.cache import Cache

BACKENDS = ("cuda", "hip", "metal", "opencl", "opengl", "webgpu", "cpu", "reference")
_FORCES = {
    "CUDA": "cuda", "HIP": "hip", "METAL": "metal", "CL": "opencl", "GL": "opengl", "WEBGPU": "webgpu", "CPU": "cpu",
    "REFERENCE": "reference",
}  # fmt: skip


class DeviceError(RuntimeError):
    """A device that cannot be used, with what is missing."""


@dataclass(frozen=True)
class DeviceStatus:
    """One backend on this machine: `problem` is None where it is usable, else one line."""

    backend: str
    name: str
    problem: str | None


@dataclass
class LaunchRequest:
    """One launch of a plan: a compiled kernel and the arrays of its buffers, in the order of its slots."""

    program: Program
    arrays: list[np.ndarray[Any, Any]]


class Program(Protocol):
    """A compiled kernel. `cached`: its machine code was there already."""

    cached: bool
    seconds: float


class Executable(Protocol):
    """A plan that is ready to run: every address is fixed."""

    def run(self, dims: dict[str, int]) -> None:
        """Runs all launches, to completion."""

    def resize(self, dims: dict[str, int]) -> None:
        """Adapts the launches to new values of the named sizes."""

    def rebind(self, launch: int, slot: int, array: np.ndarray[Any, Any]) -> None:
        """Points one buffer of a launch at other memory."""

    @property
    def seconds(self) -> list[float]:
        """Seconds that each launch of the last run took."""


class Device(Protocol):
    """What the rest of the engine knows of a backend."""

    backend: str
    name: str
    driver: str
    software: bool
    compute_units: int
    group_width: int
    memory_bytes: int | None
    target: Target

    def compile(self, kernel: Kernel) -> Program:
        """Machine code of a kernel, from the disk cache where it is there."""

    def source(self, kernel: Kernel) -> str:
        """The text that `compile` compiles."""

    @property
    def cache(self) -> Cache | None:
        """Where compiled code and plans are kept; None where nothing is."""

    def identity(self) -> tuple[Any, ...]:
        """Everything on the side of the device that machine code depends on, as plain data."""

    def pack(self, program: Program) -> tuple[Any, ...] | None:
        """A compiled kernel as plain data; None where it cannot be used by another process."""

    def unpack(self, packed: tuple[Any, ...]) -> Program | None:
        """The kernel that `pack` took apart; None where its machine code is gone from the disk cache."""

    def executable(self, launches: Sequence[LaunchRequest]) -> Executable:
        """A plan of these launches."""

    def close(self) -> None:
        """Ends threads and gives memory back."""


def _cpu(**options: Any) -> Device:
    from engine.runtime.devices.cpu import CpuDevice

    return CpuDevice(**options)


def _reference(**options: Any) -> Device:
    from engine.runtime.devices.interpreter import ReferenceDevice

    options.pop("threads", None)
    options.setdefault("nan_check", events.checking())
    return ReferenceDevice(**options)


_MAKERS: dict[str, Callable[..., Device]] = {"cpu": _cpu, "reference": _reference}
_default: Device | None = None
_choosing = threading.Lock()


def resolved(backend: str = "auto") -> str:
    """The backend that a name stands for, before anything is opened.

    Raises DeviceError for one that is unknown or not part of this version.
    """
    if backend == "auto":
        backend = forced() or "cpu"
    if backend not in BACKENDS:
        raise DeviceError(f"there is no backend {backend!r}; there are {', '.join(BACKENDS)}")
    if backend not in _MAKERS:
        raise DeviceError(f"the {backend} backend is not part of this version; use --backend cpu")
    return backend


def open_device(backend: str = "auto", **options: Any) -> Device:
    """A device of this backend. Options: `threads` (CPU), `group` (lanes of a group, for tests).

    Raises DeviceError for a backend that is unknown, not part of this version, or unusable here.
    """
    device = _MAKERS[resolved(backend)](**options)
    events.record("device", backend=device.backend, name=device.name, driver=device.driver, compute_units=device.compute_units)
    return device


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
            device = open_device(backend)
            rows.append(DeviceStatus(backend, device.name, None))
            device.close()
        except (DeviceError, ImportError, ValueError) as error:
            rows.append(DeviceStatus(backend, "", str(error).splitlines()[0]))
    return rows
