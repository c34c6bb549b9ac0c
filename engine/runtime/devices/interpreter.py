"""The reference backend: the bounds-checking interpreter as a device. Slow, and right."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.compiler.kernel import Kernel
from engine.compiler.print import text
from engine.compiler.target import Target
from engine.frontend.storage import Buffer, Memory
from engine.graph.uop import size_value
from engine.runtime.device import UNTOLD, LaunchRequest, Program, Resources
from engine.runtime.devices import reference


@dataclass
class InterpretedProgram:
    """A kernel that needs no compiling."""

    kernel: Kernel
    cached: bool = True
    seconds: float = 0.0
    resources: Resources = UNTOLD

    @property
    def workgroup(self) -> int:
        return self.kernel.workgroup


class InterpretedPlan:
    """Launches, one after another."""

    def __init__(self, device: ReferenceDevice, launches: Sequence[LaunchRequest]) -> None:
        self.device, self.launches = device, list(launches)
        self.seconds: list[float] = []

    def _launch(self, launch: LaunchRequest, dims: dict[str, int]) -> None:
        program: InterpretedProgram = launch.program  # type: ignore[assignment]
        kernel = program.kernel
        arrays = []
        for buffer, array in zip(kernel.buffers, launch.arrays, strict=True):
            count = int(np.prod([size_value(s, dims) for s in buffer.shape], dtype=np.int64))
            arrays.append(array.reshape(-1)[:count])
        width, nans = self.device.group_width, self.device.nan_check
        reference.run(kernel, arrays, dims, group_width=width, nan_check=nans, describe=reference.described)

    def run(self, dims: dict[str, int]) -> None:
        self.seconds = []
        for launch in self.launches:
            start = time.perf_counter()
            self._launch(launch, dims)
            self.seconds.append(time.perf_counter() - start)

    def resize(self, dims: dict[str, int]) -> None:
        """Nothing is fixed to sizes here."""

    def rebind(self, launch: int, slot: int, memory: Memory) -> None:
        self.launches[launch].arrays[slot] = memory


class ReferenceDevice:
    """The interpreter. `group`: lanes of a group (1, 4, 16)."""

    backend = "reference"
    host_memory = True

    def __init__(self, group: int = 1, nan_check: bool = False) -> None:
        self.name = "NumPy interpreter"
        self.driver = f"numpy {np.__version__}, Python {platform.python_version()}"
        self.software, self.compute_units, self.group_width = True, 1, group
        self.memory_bytes: int | None = None
        self.buffer_bytes: int | None = None
        self.cache = None
        self.nan_check = nan_check
        self.target = Target("reference", group=group, expands_transcendentals=False, contract=False)

    def compile(self, kernel: Kernel) -> InterpretedProgram:
        return InterpretedProgram(kernel)

    def source(self, kernel: Kernel) -> str:
        return text(kernel)

    def identity(self) -> tuple[Any, ...]:
        return (self.backend, self.driver, self.group_width)

    def pack(self, program: Program) -> None:
        """Graphs are interpreted, so there is no machine code to keep."""

    def unpack(self, packed: tuple[Any, ...]) -> None:
        """Never asked for, since `pack` gives nothing."""

    def executable(self, launches: Sequence[LaunchRequest], parameters: np.ndarray[Any, Any] | None) -> InterpretedPlan:
        return InterpretedPlan(self, launches)

    def allocate(self, nbytes: int) -> Buffer:
        raise AssertionError("kernels work on the host's memory")

    def close(self) -> None:
        """Holds nothing."""
