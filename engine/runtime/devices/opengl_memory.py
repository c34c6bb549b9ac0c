"""Memory of an OpenGL device.

A `Block` is one buffer object of the driver; an `OpenGLBuffer` is what the engine calls a buffer: so many bytes of a block, from some
offset on. A fresh buffer has a block of its own. Kernels that read more arrays than there are bindings read several through one, and
those must then lie in one block: `together` moves them there, on the device, along with whatever shared a block with one of them, so
that two plans that share arrays do not fetch them from each other for ever. Whoever has bound a buffer looks at `version`, which every
move raises, and binds anew.

Blocks are given back to the driver when no buffer is in them any more; that may happen on any thread.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from engine.runtime import events
from engine.runtime.devices import opengl_functions as gl
from engine.runtime.devices.opengl_context import GLThread, Owned
from engine.runtime.devices.opengl_limits import Limits, free_memory

ALIGNMENT = 256  # of a buffer in its block; no driver may ask for more
_GRAIN = 16  # what sizes are multiples of: the largest type of an array in a kernel
_MIB = 1 << 20


class Block(Owned):
    """One buffer object. `members`: the buffers in it."""

    def __init__(self, thread: GLThread, glo: int, nbytes: int) -> None:
        super().__init__(thread, thread.functions.DeleteBuffers, 1, (ctypes.c_uint * 1)(glo))
        self.glo, self.nbytes = glo, nbytes
        self.members: weakref.WeakSet[OpenGLBuffer] = weakref.WeakSet()


class OpenGLBuffer:
    """`nbytes` bytes of `block` from `offset` on, both of which may change: see `Memory.together`."""

    __slots__ = ("__weakref__", "_memory", "block", "nbytes", "offset")

    def __init__(self, memory: Memory, block: Block, offset: int, nbytes: int) -> None:
        self._memory, self.block, self.offset, self.nbytes = memory, block, offset, nbytes
        block.members.add(self)

    @property
    def glo(self) -> int:
        """The name of the buffer object, for contexts that share it; the contents begin at `offset`."""
        return self.block.glo

    @property
    def end(self) -> int:
        """The offset behind the last byte, in whole words."""
        return self.offset + _whole(self.nbytes, _GRAIN)

    def write(self, array: np.ndarray[Any, Any]) -> None:
        """The bytes of a contiguous array to the beginning of the buffer. Raises ValueError where they do not fit."""
        self._check(array)
        self._memory.thread.call(self._memory.write, self, array)

    def read(self, array: np.ndarray[Any, Any]) -> None:
        """The beginning of the buffer to a contiguous array. Raises ValueError where it is larger than the buffer."""
        self._check(array)
        self._memory.thread.call(self._memory.read, self, array)

    def _check(self, array: np.ndarray[Any, Any]) -> None:
        if array.nbytes > self.nbytes or not array.flags.c_contiguous:
            raise ValueError(f"an array of {array.nbytes} bytes, contiguous: {array.flags.c_contiguous}, for a buffer of {self.nbytes}")


class Memory:
    """Allocates and moves. `version` is raised by every move. All methods but `allocate` are called on the device's thread."""

    def __init__(self, thread: GLThread, limits: Limits) -> None:
        self.thread, self.limits = thread, limits
        self.version = 0

    def allocate(self, nbytes: int) -> OpenGLBuffer:
        """A buffer, its contents undefined. Raises MemoryError, with the sizes in MiB, where it cannot be had, or not be bound."""
        if nbytes > self.limits.binding_bytes:
            raise MemoryError(
                f"a buffer of {mib(nbytes)} does not fit: {self.limits.renderer} binds at most {mib(self.limits.binding_bytes)} at once; "
                "use a smaller size or scene, or --backend cpu"
            )
        return OpenGLBuffer(self, self.thread.call(self.block, nbytes), 0, nbytes)

    def block(self, nbytes: int, usage: int = gl.DYNAMIC_COPY) -> Block:
        """A buffer object of at least so many bytes. Raises MemoryError."""
        functions = self.thread.functions
        size = _whole(nbytes, _GRAIN)
        glo = functions.generate(functions.GenBuffers)
        functions.BindBuffer(gl.COPY_WRITE_BUFFER, glo)
        functions.BufferData(gl.COPY_WRITE_BUFFER, size, None, usage)
        block = Block(self.thread, glo, size)
        try:
            functions.check(f"allocating {mib(size)}")
        except MemoryError:
            free = free_memory(functions)
            left = "" if free is None else f", of which {mib(free)} are free"
            told = f"a buffer of {mib(nbytes)} does not fit the memory of {self.limits.renderer}{left}"
            raise MemoryError(f"{told}; use a smaller size or scene") from None
        return block

    def write(self, buffer: OpenGLBuffer, array: np.ndarray[Any, Any]) -> None:
        functions = self.thread.functions
        functions.BindBuffer(gl.COPY_WRITE_BUFFER, buffer.block.glo)
        functions.BufferSubData(gl.COPY_WRITE_BUFFER, buffer.offset, array.nbytes, array.ctypes.data)
        functions.check("writing a buffer")

    def read(self, buffer: OpenGLBuffer, array: np.ndarray[Any, Any]) -> None:
        functions = self.thread.functions
        functions.BindBuffer(gl.COPY_READ_BUFFER, buffer.block.glo)
        functions.GetBufferSubData(gl.COPY_READ_BUFFER, buffer.offset, array.nbytes, array.ctypes.data)
        functions.check("reading a buffer")

    def together(self, sets: Sequence[Sequence[OpenGLBuffer]], doing: str) -> None:
        """Moves buffers so that those of each set lie in one block and one binding reaches over them.

        Raises MemoryError where a set is larger than a binding. `doing` says what for.
        """
        for wanted in sets:
            size = _extent(wanted)
            if size > self.limits.binding_bytes:
                raise MemoryError(
                    f"{doing} reads {len(wanted)} buffers of {mib(size)} through one binding, and {self.limits.renderer} binds at most "
                    f"{mib(self.limits.binding_bytes)} at once; use a smaller scene, or --backend cpu"
                )
        for joined in _joined(sets):
            if all(self._reachable(wanted) for wanted in sets if wanted[0] in joined):
                continue
            everything = _with_neighbours(joined)
            self._move(everything if _extent(everything) <= self.limits.binding_bytes else joined)
        for wanted in sets:  # what hangs together may be too large for one binding
            if not self._reachable(wanted):
                self._move(wanted)
        if not all(self._reachable(wanted) for wanted in sets):
            raise MemoryError(
                f"{doing} reads the same buffers through several bindings of at most {mib(self.limits.binding_bytes)}, which is all that "
                f"{self.limits.renderer} binds at once, in ways that do not fit together; use a smaller scene, or --backend cpu"
            )

    def _reachable(self, buffers: Sequence[OpenGLBuffer]) -> bool:
        first = min(b.offset for b in buffers)
        return len({b.block for b in buffers}) == 1 and max(b.end for b in buffers) - first <= self.limits.binding_bytes

    def _move(self, buffers: Iterable[OpenGLBuffer]) -> None:
        """All of them into a new block."""
        functions = self.thread.functions
        moved = list(buffers)
        block = self.block(_extent(moved))
        events.record("allocate", bytes=block.nbytes)
        at = 0
        functions.BindBuffer(gl.COPY_WRITE_BUFFER, block.glo)
        for buffer in moved:
            functions.BindBuffer(gl.COPY_READ_BUFFER, buffer.block.glo)
            functions.CopyBufferSubData(gl.COPY_READ_BUFFER, gl.COPY_WRITE_BUFFER, buffer.offset, at, buffer.nbytes)
            buffer.block.members.discard(buffer)
            buffer.block, buffer.offset = block, at
            block.members.add(buffer)
            at += _whole(buffer.nbytes, ALIGNMENT)
        self.version += 1
        functions.check("moving buffers together")


def _whole(nbytes: int, grain: int) -> int:
    """The smallest multiple of `grain` that holds so many bytes, at least one."""
    return max(grain, -(-nbytes // grain) * grain)


def _extent(buffers: Iterable[OpenGLBuffer]) -> int:
    """Bytes of a block that holds these buffers."""
    return sum(_whole(buffer.nbytes, ALIGNMENT) for buffer in buffers)


def _joined(sets: Sequence[Sequence[OpenGLBuffer]]) -> list[list[OpenGLBuffer]]:
    """The union of sets that have buffers in common, for each such family of sets."""
    families: list[dict[OpenGLBuffer, None]] = []
    for wanted in sets:
        met = [family for family in families if any(buffer in family for buffer in wanted)]
        families = [family for family in families if family not in met]
        merged: dict[OpenGLBuffer, None] = {}
        for family in met:
            merged.update(family)
        merged.update(dict.fromkeys(wanted))
        families.append(merged)
    return [list(family) for family in families]


def _with_neighbours(buffers: Sequence[OpenGLBuffer]) -> list[OpenGLBuffer]:
    """These buffers and all others in their blocks."""
    found: dict[OpenGLBuffer, None] = {}
    for buffer in buffers:
        found.update(dict.fromkeys(sorted(buffer.block.members, key=lambda b: b.offset)))
    return list(found)


def mib(nbytes: int) -> str:
    """A number of bytes for a message."""
    return f"{nbytes / _MIB:.0f} MiB" if nbytes >= 10 * _MIB else f"{nbytes / _MIB:.2f} MiB"
