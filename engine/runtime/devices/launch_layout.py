"""How a kernel that was compiled from C-like source is launched: what is left of the emitter's `Source` once its text is compiled.

A launch needs to know how many workgroups cover the lanes, and how each buffer and each named size reaches the code. That is plain
data, so a stored plan holds it, and a process that runs one needs nothing of the compiler.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.graph.uop import Shape, size_value
from engine.runtime.packing import pack_shape, unpack_shape

if TYPE_CHECKING:
    from engine.compiler.emit.cstyle import Source


@dataclass(frozen=True)
class LaunchLayout:
    """The fields of a `Source` of the same names. slots: kind (of a texture with its format: "texture R32F"), binding and word of each
    buffer, in the order of the kernel's buffers."""

    name: str
    workgroup: int
    lanes: Shape
    tile: tuple[int, int]
    ordered: bool
    slots: tuple[tuple[str, int, int], ...]
    words: tuple[str, ...]
    bindings: int
    parameters: bool

    @staticmethod
    def of(source: Source) -> LaunchLayout:
        """The layout of a text."""
        slots = tuple((f"{slot.kind} {slot.format}".strip(), slot.binding, slot.word) for slot in source.slots)
        grid = (source.workgroup, source.lanes, source.tile, source.ordered)
        return LaunchLayout(source.name, *grid, slots, source.words, source.bindings, source.parameters)

    def workgroups(self, dims: dict[str, int]) -> int:
        """Workgroups that cover the lanes, given the values of the named sizes; 0 where there is no lane."""
        sizes = [size_value(size, dims) for size in self.lanes]
        if self.ordered:
            return min(1, math.prod(sizes))
        rows, columns = self.tile
        if rows > 1:
            return math.prod(sizes[:-2]) * -(-sizes[-2] // rows) * -(-sizes[-1] // columns)
        return -(-math.prod(sizes) // columns)

    def pack(self) -> tuple[Any, ...]:
        """The layout as plain data."""
        grid = (self.workgroup, pack_shape(self.lanes), self.tile, self.ordered)
        return (self.name, *grid, self.slots, self.words, self.bindings, self.parameters)

    @staticmethod
    def unpack(packed: tuple[Any, ...]) -> LaunchLayout:
        """The layout that `pack` took apart. Raises ValueError for what it did not make."""
        name, workgroup, lanes, *rest = packed
        return LaunchLayout(name, workgroup, unpack_shape(lanes), *rest)
