"""A device that runs nothing: it is there for the text of the kernels that it would run.

Whatever needs kernels without a device takes one of these: the comparison of two commits' kernels, and tests of what is generated.
Traced and lowered is as for the real target; `compile` gives nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.compiler.emit.llvm import emit
from engine.compiler.kernel import Kernel
from engine.compiler.print import text
from engine.compiler.target import Target
from engine.runtime.cache import Cache
from engine.runtime.device import UNTOLD, Resources


@dataclass
class Nothing:
    """What `Paper` makes of a kernel."""

    workgroup: int
    cached: bool = False
    seconds: float = 0.0
    resources: Resources = UNTOLD


class Paper:
    """A CPU of any SIMD width (16, 8, 4 lanes), whether the machine has it or not."""

    backend, name, driver, software = "paper", "paper", "", True
    host_memory = True
    compute_units: int | None = None
    memory_bytes: int | None = None
    buffer_bytes: int | None = None

    def __init__(self, width: int) -> None:
        self.group_width, self.cache = width, Cache(None)
        self.target = Target("cpu", group=width)

    def compile(self, kernel: Kernel) -> Nothing:
        return Nothing(kernel.workgroup)

    def source(self, kernel: Kernel) -> str:
        return emit(kernel, self.group_width)

    def lowered(self, kernel: Kernel) -> str:
        """The kernel as the compiler has lowered it, before it is written in a language."""
        return text(kernel)

    def identity(self) -> tuple[Any, ...]:
        return (self.backend, self.group_width)

    def pack(self, program: Any) -> None:
        return None

    def unpack(self, packed: tuple[Any, ...]) -> None:
        return None

    def executable(self, launches: Sequence[Any], parameters: Any) -> Any:
        raise NotImplementedError("paper runs nothing")

    def allocate(self, nbytes: int) -> Any:
        raise NotImplementedError("paper keeps nothing")

    def close(self) -> None:
        """There is nothing to give back."""
