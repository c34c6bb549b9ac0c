"""The contents of a Tensor, wherever they are.

A `Storage` is what a BUFFER leaf stands for. Every write to a jitted function's output buffer raises `generation`; a Tensor that
remembers an older generation is stale, and reading it raises `StaleTensorError`.
"""

from __future__ import annotations

import contextlib
import mmap
from typing import TYPE_CHECKING, Any

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
    the last. What they hold is used nowhere.
    """
    size = count * dtype.itemsize
    raw = _pages(size) if size >= _HUGE else np.empty(size + 3 * _ALIGNMENT, np.uint8)
    start = _ALIGNMENT + -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size].view(dtype)


def _pages(size: int) -> np.ndarray[Any, Any]:
    """At least `size` bytes and the spare ones, in pages of 2 MiB where the system has them: tables that are read here and there find
    their addresses in fewer steps."""
    area = mmap.mmap(-1, size + 3 * _ALIGNMENT + _HUGE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them
            area.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(area, np.uint8)
    return whole[-whole.ctypes.data % _HUGE :]


class Storage:
    """Memory of one buffer: `host` is a flat array in row order, `shape` the sizes it has now (all numbers)."""

    __slots__ = ("__weakref__", "generation", "host", "producer", "shape", "slot")

    def __init__(self, host: np.ndarray[Any, Any], shape: tuple[int, ...]) -> None:
        global _count
        _count += 1
        self.slot = _count
        self.host, self.shape = host, shape
        self.generation = 0
        self.producer: str | None = None

    @staticmethod
    def of_array(array: np.ndarray[Any, Any]) -> Storage:
        """A copy of an array's contents."""
        host = aligned_empty(array.size, array.dtype)
        host[:] = array.reshape(-1)
        return Storage(host, array.shape)

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
        self.check(tensor)
        return np.array(self.host.reshape(self.shape))
