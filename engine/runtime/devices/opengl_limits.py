"""What an OpenGL driver says of itself and of its limits, read once when a device is opened."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from engine.runtime.devices import opengl_functions as gl
from engine.runtime.devices.opengl_context import is_software
from engine.runtime.devices.opengl_functions import Functions

_SHARED = (32 << 10, 64 << 10)  # bytes of shared memory that a workgroup may be given: at least, at most
_ALIGNMENT = 256  # the largest that a driver may ask for offsets of bindings


@dataclass(frozen=True)
class Limits:
    """A driver. Sizes in bytes; binding_bytes and uniform_bytes: the most that one storage or uniform binding may span.
    textures: buffers that a kernel may read as textures, of at most `texels` texels each.

    memory_bytes: the device's own memory, None where the driver does not tell. binaries: whether it hands out compiled programs.
    """

    renderer: str
    version: str
    vendor: str
    software: bool
    storage_blocks: int
    binding_bytes: int
    uniform_bytes: int
    uniform_alignment: int
    textures: int
    texels: int
    workgroup: int
    shared_bytes: int
    dispatch: int
    memory_bytes: int | None
    binaries: bool


def read_limits(functions: Functions) -> Limits:
    """The driver of the current context."""
    renderer = functions.text(gl.RENDERER)
    least, most = _SHARED
    return Limits(
        renderer=renderer,
        version=functions.text(gl.VERSION),
        vendor=functions.text(gl.VENDOR),
        software=is_software(renderer),
        storage_blocks=min(functions.integer(gl.MAX_COMPUTE_STORAGE_BLOCKS), functions.integer(gl.MAX_STORAGE_BINDINGS)),
        binding_bytes=functions.integer(gl.MAX_STORAGE_BLOCK_SIZE),
        uniform_bytes=functions.integer(gl.MAX_UNIFORM_BLOCK_SIZE),
        uniform_alignment=min(_ALIGNMENT, max(16, functions.integer(gl.UNIFORM_ALIGNMENT))),
        textures=functions.integer(gl.MAX_COMPUTE_TEXTURES),
        texels=functions.integer(gl.MAX_TEXTURE_BUFFER_SIZE),
        workgroup=min(functions.integer(gl.MAX_COMPUTE_INVOCATIONS), _first(functions, gl.MAX_COMPUTE_SIZE)),
        shared_bytes=min(most, max(least, functions.integer(gl.MAX_COMPUTE_SHARED))),
        dispatch=min(65535, _first(functions, gl.MAX_COMPUTE_COUNT)),
        memory_bytes=_memory(functions, gl.NVX_TOTAL_MEMORY_KIB),
        binaries=functions.integer(gl.NUM_PROGRAM_BINARY_FORMATS) > 0,
    )


def free_memory(functions: Functions) -> int | None:
    """Bytes of the device's memory that are free now, None where the driver does not tell."""
    return _memory(functions, gl.NVX_FREE_MEMORY_KIB)


def _memory(functions: Functions, nvx: int) -> int | None:
    """A figure of the device's memory: one of NVIDIA's extension, else the free memory that AMD's tells."""
    if "GL_NVX_gpu_memory_info" in functions.extensions:
        return functions.integer(nvx) * 1024
    if "GL_ATI_meminfo" in functions.extensions:
        values = (ctypes.c_int * 4)()
        functions.GetIntegerv(gl.ATI_FREE_BUFFER_MEMORY_KIB, values)
        return int(values[0]) * 1024
    return None


def _first(functions: Functions, name: int) -> int:
    """The first of a limit's three values."""
    value = ctypes.c_int(0)
    functions.GetIntegeri_v(name, 0, ctypes.byref(value))
    return value.value
