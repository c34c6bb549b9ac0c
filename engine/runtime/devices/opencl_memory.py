"""Memory of an OpenCL device: buffers that are given back when nobody holds them, and the account of what they take.

OpenCL does not tell how much of a device's memory is free, and many drivers take memory only when a kernel first uses it, where a
failure is hard to explain. So what this process has taken is counted here, and a buffer that cannot fit is refused before the driver
hears of it, with the sizes that matter.

A *shared* buffer is one of OpenGL's, seen as OpenCL memory. Whoever touches it acquires it first and releases it afterwards; OpenGL
must have finished with it by then (glFinish), and may use it again once the acquirer has waited.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import numpy as np

from engine.runtime.device import DeviceError
from engine.runtime.devices.opencl_choice import binding

_MIB = 1 << 20
_LEAST = 4  # bytes of a buffer, since OpenCL has none that are empty


class OpenCLBuffer:
    """Memory on a device. nbytes: as it was asked for. memory: pyopencl's object, None once the device is closed."""

    shared = False

    def __init__(self, room: Room, memory: Any, nbytes: int, held: int) -> None:
        self.room, self.memory, self.nbytes, self._held = room, memory, nbytes, held

    def write(self, array: np.ndarray[Any, Any]) -> None:
        """The bytes of a contiguous array to the beginning; done when it returns."""
        if array.nbytes:
            self._copy(lambda cl, queue: cl.enqueue_copy(queue, self.memory, array, is_blocking=True))

    def read(self, array: np.ndarray[Any, Any]) -> None:
        """The beginning to a contiguous array, once the kernels before it in the device's queue have finished."""
        if array.nbytes:
            self._copy(lambda cl, queue: cl.enqueue_copy(queue, array, self.memory, is_blocking=True))

    def _copy(self, copy: Callable[[Any, Any], Any]) -> None:
        cl, queue = binding(), self.room.queue
        if self.memory is None:
            raise DeviceError(f"{self.room.name} is closed, and what it held is gone")
        try:
            if self.shared:
                cl.enqueue_acquire_gl_objects(queue, [self.memory])
            copy(cl, queue)
            if self.shared:
                cl.enqueue_release_gl_objects(queue, [self.memory]).wait()
        except cl.Error as error:
            raise self.room.failure(error, f"{self.nbytes} bytes could not be copied") from error

    def release(self) -> None:
        """Gives the memory back now."""
        memory, self.memory = self.memory, None
        if memory is not None:
            self.room.give(self._held)
            memory.release()

    def __del__(self) -> None:
        self.release()


class SharedBuffer(OpenCLBuffer):
    """A buffer of OpenGL's, which takes no memory of its own."""

    shared = True


class Room:
    """The memory of one device. largest, total: bytes of one buffer, and of all of them. taken: bytes of those there are."""

    def __init__(self, context: Any, queue: Any, name: str, largest: int, total: int) -> None:
        self.context, self.queue, self.name = context, queue, name
        self.largest, self.total, self.taken = largest, total, 0
        self._lock = threading.RLock()  # a buffer may die in the thread that allocates another
        self._live: WeakSet[OpenCLBuffer] = WeakSet()

    def allocate(self, nbytes: int) -> OpenCLBuffer:
        """A new buffer, its contents undefined. Raises MemoryError, with what is needed and free in MiB."""
        cl = binding()
        held = max(_LEAST, -(-nbytes // _LEAST) * _LEAST)
        with self._lock:
            self._check(held)
            try:
                memory = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, held)
            except cl.Error as error:
                raise self._refused(held) from error
            self.taken += held
            buffer = OpenCLBuffer(self, memory, nbytes, held)
            self._live.add(buffer)
        return buffer

    def shared(self, gl_name: int, nbytes: int) -> SharedBuffer:
        """OpenGL's buffer object of this name. The context must have been made to share, which is the caller's to see to."""
        cl = binding()
        try:
            memory = cl.GLBuffer(self.context, cl.mem_flags.READ_WRITE, gl_name)
        except cl.Error as error:
            raise self.failure(error, f"OpenGL's buffer {gl_name} cannot be shared") from error
        buffer = SharedBuffer(self, memory, nbytes, 0)
        with self._lock:
            self._live.add(buffer)
        return buffer

    def give(self, held: int) -> None:
        """Accounts for a buffer that is gone."""
        with self._lock:
            self.taken -= held

    def failure(self, error: Any, what: str) -> DeviceError | MemoryError:
        """What to raise where the driver refuses something: MemoryError where it has run out of memory."""
        cl = binding()
        if error.code in (cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE, cl.status_code.OUT_OF_HOST_MEMORY):
            return MemoryError(f"{what}: {self.name} ran out of memory with {_mib(self.taken)} of {_mib(self.total)} MiB in buffers")
        return DeviceError(f"{self.name}: {what} ({str(error).splitlines()[0]})")

    def close(self) -> None:
        """Gives back the memory of all buffers, whoever holds them."""
        for buffer in list(self._live):
            buffer.release()
        self.context = self.queue = None

    def _check(self, held: int) -> None:
        if held > min(self.largest, self.total - self.taken):
            raise self._refused(held)

    def _refused(self, held: int) -> MemoryError:
        free = _mib(max(0, self.total - self.taken))
        return MemoryError(
            f"a buffer of {_mib(held, up=True)} MiB does not fit {self.name}: {free} of {_mib(self.total)} MiB are free, and one buffer "
            f"has at most {_mib(self.largest)} MiB"
        )


def _mib(nbytes: int, up: bool = False) -> str:
    """Whole MiB: those that are there, or with `up` those that are needed."""
    return f"{-(-nbytes // _MIB) if up else nbytes // _MIB:,}"
