"""The contents of a Tensor, wherever they are.

A `Storage` is what a BUFFER leaf stands for. Its contents are in the host's memory, in a buffer of a device, or in both; `newest` is
the memory that kernels were last given, and what they write there makes the other place old. Nothing is copied before somebody asks
for it: a table that only a device reads is uploaded once, a film that only a device writes never comes back.

Every write to a jitted function's output buffer raises `generation`; a Tensor that remembers an older generation is stale, and reading
it raises `StaleTensorError`.
"""

from __future__ import annotations

import contextlib
import mmap
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from engine.frontend.trace import user_line

if TYPE_CHECKING:
    from engine.frontend.tensor import Tensor

_ALIGNMENT = 64
_HUGE = 2 << 20  # bytes of a large page, and from which memory is taken in such pages
_count = 0


class StaleTensorError(RuntimeError):
    """A result of an earlier call of a jitted function was read after a later call had replaced it."""


def aligned_empty(count: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """1-D array of `count` elements whose memory begins at a multiple of 64 bytes, with 64 spare bytes on either side.

    Kernels may read the spare bytes: a vector load of whole pixels begins before the first channel that is wanted, and ends behind
    the last. What they hold is used nowhere. Raises MemoryError.
    """
    size = count * dtype.itemsize
    raw = _pages(size) if size >= _HUGE else np.empty(size + 3 * _ALIGNMENT, np.uint8)
    start = _ALIGNMENT + -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size].view(dtype)


def _pages(size: int) -> np.ndarray[Any, Any]:
    """At least `size` bytes and the spare ones, in pages of 2 MiB where the system has them: tables that are read here and there find
    their addresses in fewer steps."""
    try:
        area = mmap.mmap(-1, size + 3 * _ALIGNMENT + _HUGE)
    except OSError as error:  # by which the system says so
        raise MemoryError(f"an array of {size / 2**20:,.0f} MiB") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them
            area.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(area, np.uint8)
    return whole[-whole.ctypes.data % _HUGE :]


class Buffer(Protocol):
    """Memory on a device, given back when nobody holds the object any more."""

    nbytes: int

    def write(self, array: np.ndarray[Any, Any]) -> None:
        """The bytes of a contiguous array to the beginning of the buffer; done when it returns."""

    def read(self, array: np.ndarray[Any, Any]) -> None:
        """The beginning of the buffer to a contiguous array, once what writes it has finished."""


class Place(Protocol):
    """What a Storage knows of a device: whether kernels there work on the host's memory, and if not, how to get the device's own."""

    host_memory: bool

    def allocate(self, nbytes: int) -> Buffer:
        """A new buffer, its contents undefined. Raises MemoryError, with the sizes in MiB, where the device has no room for it."""


Memory = Any  # np.ndarray (flat, in row order) or Buffer


def allocate(place: Place, count: int, dtype: np.dtype[Any]) -> Memory:
    """Memory for `count` elements where the kernels of a device work."""
    return aligned_empty(count, dtype) if place.host_memory else place.allocate(count * dtype.itemsize)


class Storage:
    """Memory of one buffer: `count` elements of `dtype` in row order, `shape` the sizes it has now (all numbers)."""

    __slots__ = (
        "__weakref__", "_buffer", "_host", "_host_valid", "_place", "count", "dtype", "generation", "newest", "producer", "shape", "slot",
    )  # fmt: skip

    def __init__(self, host: np.ndarray[Any, Any] | None, shape: tuple[int, ...], dtype: np.dtype[Any] | None = None) -> None:
        global _count
        _count += 1
        self.slot = _count
        self.shape = shape
        self.dtype: np.dtype[Any] = host.dtype if host is not None else np.dtype(dtype)
        self.count = host.size if host is not None else int(np.prod(shape, dtype=np.int64))
        self.generation = 0
        self.producer: str | None = None
        self._host, self._host_valid = host, host is not None
        self._buffer: Buffer | None = None
        self._place: Place | None = None
        self.newest: Memory = host

    @staticmethod
    def of_array(array: np.ndarray[Any, Any]) -> Storage:
        """A copy of an array's contents."""
        host = aligned_empty(array.size, array.dtype)
        host[:] = array.reshape(-1)
        return Storage(host, array.shape)

    @staticmethod
    def empty(place: Place, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Storage:
        """New memory where the kernels of a device work, its contents undefined."""
        made = Storage(None, shape, dtype)
        made.replace(place, allocate(place, made.count, made.dtype), shape)
        return made

    @property
    def nbytes(self) -> int:
        """Bytes of the contents."""
        return self.count * self.dtype.itemsize

    @property
    def host(self) -> np.ndarray[Any, Any]:
        """The contents in the host's memory, flat; brought there first where only a device has them."""
        if self._host is None:
            self._host = aligned_empty(self.count, self.dtype)
        if not self._host_valid:
            assert self._buffer is not None
            self._buffer.read(self._host)
            self._host_valid = True
        return self._host

    def on(self, place: Place) -> Memory:
        """The contents as the kernels of a device want them, brought there first where they are not. Raises MemoryError."""
        if place.host_memory:
            self.newest = self.host
            return self.newest
        if self._place is not place:
            host, self._buffer = self.host, place.allocate(self.nbytes)
            self._buffer.write(host)
            self._place = place
        elif self.newest is not self._buffer:  # written on the host since
            assert self._buffer is not None
            self._buffer.write(self.host)
        self.newest = self._buffer
        return self._buffer

    def is_on(self, place: Place) -> bool:
        """Whether the kernels of a device need no new memory for the contents."""
        return place.host_memory or self._place is place

    def written(self, place: Place) -> None:
        """Kernels of a device that has the contents write them: what is elsewhere is old."""
        self._host_valid = place.host_memory
        self.newest = self._host if place.host_memory else self._buffer

    def replace(self, place: Place, memory: Memory, shape: tuple[int, ...]) -> None:
        """Other memory of a device, whose contents are the contents from now on."""
        self.shape, self.count = shape, int(np.prod(shape, dtype=np.int64))
        self._host, self._host_valid = (memory, True) if place.host_memory else (None, False)
        self._buffer, self._place = (None, None) if place.host_memory else (memory, place)
        self.newest = memory

    def check(self, tensor: Tensor) -> None:
        """Raises StaleTensorError where the contents that `tensor` stood for have been replaced."""
        self.check_generation(tensor.generation)

    def check_generation(self, generation: int | None) -> None:
        """Raises StaleTensorError where the contents of this generation have been replaced."""
        if generation is not None and generation != self.generation:
            later = self.generation - generation
            raise StaleTensorError(
                f"{user_line()}: this result of {self.producer or 'a jitted function'} was replaced by a later call "
                f"({later} call{'s' if later > 1 else ''} ago): its buffer is reused. Read it before the next call, or keep a copy() of it"
            )

    def read(self, tensor: Tensor) -> np.ndarray[Any, Any]:
        """A copy of the contents in their shape. Raises StaleTensorError."""
        into = np.empty(self.shape, self.dtype)
        self.read_into(tensor, into)
        return into

    def read_into(self, tensor: Tensor, into: np.ndarray[Any, Any]) -> None:
        """Copies the contents to a contiguous array of their size and type. Raises StaleTensorError, and ValueError for another one."""
        self.check(tensor)
        if into.dtype != self.dtype or into.size != self.count or not into.flags.c_contiguous:
            wanted = f"a contiguous {self.dtype}{list(self.shape)}"
            raise ValueError(f"{user_line()}: the array is {into.dtype}{list(into.shape)}; wanted is {wanted}")
        if self._host_valid:
            assert self._host is not None
            into.reshape(-1)[:] = self._host
        else:
            assert self._buffer is not None
            self._buffer.read(into)
        self.check(tensor)  # a call on another thread may have begun meanwhile
