"""Devices: what runs kernels, as the rest of the engine sees them.

A `Device` compiles kernels and makes executables of whole plans. Where its kernels work on the host's memory (`host_memory`), what a
launch is given are NumPy arrays; elsewhere they are the device's own buffers, and only parameters stay arrays: views of one block of
bytes, which a run takes along as a whole. Which device is taken is the business of `choice`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from engine.frontend.storage import Buffer, Memory

if TYPE_CHECKING:
    from engine.compiler.kernel import Kernel
    from engine.compiler.target import Target
    from engine.runtime.cache import Cache


class DeviceError(RuntimeError):
    """A device that cannot be used, with what is missing."""


@dataclass(frozen=True)
class Resources:
    """What a compiled kernel takes: registers and bytes of spilled registers, of shared and private memory. None: not told."""

    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    private_bytes: int | None = None


UNTOLD = Resources()


@dataclass
class LaunchRequest:
    """One launch of a plan: a compiled kernel and the memory of its buffers, in the order of its slots.

    Memory is a flat NumPy array, or a Buffer of the device; that of a parameter is always an array, a view of the plan's block of them.
    """

    program: Program
    arrays: list[Memory]


class Program(Protocol):
    """A compiled kernel. `cached`: its machine code was there already. `workgroup`: lanes of one, as the device runs it."""

    cached: bool
    seconds: float

    @property
    def workgroup(self) -> int: ...

    @property
    def resources(self) -> Resources:
        """What the compiler says that a workgroup or lane takes."""


class Executable(Protocol):
    """A plan that is ready to run: every address is fixed."""

    def run(self, dims: dict[str, int]) -> None:
        """Runs all launches, to completion."""

    def resize(self, dims: dict[str, int]) -> None:
        """Adapts the launches to new values of the named sizes."""

    def rebind(self, launch: int, slot: int, memory: Memory) -> None:
        """Points one buffer of a launch at other memory."""

    @property
    def seconds(self) -> list[float]:
        """Seconds that each launch of the last run took."""


class Device(Protocol):
    """What the rest of the engine knows of a backend. memory_bytes, buffer_bytes: what it has, and what one buffer may have, None where
    that is not known or not bounded."""

    backend: str
    name: str
    driver: str
    software: bool
    group_width: int
    memory_bytes: int | None
    buffer_bytes: int | None
    host_memory: bool
    target: Target

    @property
    def compute_units(self) -> int | None:
        """Cores, or what the device calls such; None where it does not tell."""

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

    def allocate(self, nbytes: int) -> Buffer:
        """Memory of the device's own, where it has any. Raises MemoryError, with the sizes in MiB."""

    def executable(self, launches: Sequence[LaunchRequest], parameters: np.ndarray[Any, Any] | None) -> Executable:
        """A plan of these launches. `parameters`: the block of bytes that the parameters' arrays are views of."""

    def close(self) -> None:
        """Ends threads and gives memory back."""


class SharingDevice(Device, Protocol):
    """A device whose kernels can work in OpenGL's buffers, once it was opened with `share`."""

    def shared_buffer(self, gl_name: int, nbytes: int) -> Buffer:
        """OpenGL's buffer object `gl_name` of `nbytes`. Raises DeviceError, with the reason, where that is not to be had."""
