"""The machine code of an OpenCL program, fetched while other threads run.

Some drivers compile when they are asked for the binary, which takes seconds, and pyopencl holds Python's lock while it asks: a window
would stand still. The same question is put here through ctypes, which gives the lock up. The function is the one that pyopencl itself
calls, found in the library that it has loaded; where that does not have it, pyopencl asks.
"""

from __future__ import annotations

import ctypes
from typing import Any

_BINARY_SIZES, _BINARIES = 0x1165, 0x1166  # CL_PROGRAM_BINARY_SIZES, CL_PROGRAM_BINARIES


def binary_of(cl: Any, built: Any) -> bytes:
    """The binary of a program that was built for one device. cl: the module pyopencl."""
    ask = _function(cl)
    handle = getattr(built, "int_ptr", None)
    if ask is None or handle is None:
        return bytes(built.get_info(cl.program_info.BINARIES)[0])
    size = ctypes.c_size_t()
    if ask(handle, _BINARY_SIZES, ctypes.sizeof(size), ctypes.byref(size), None) == 0 and size.value:
        data = ctypes.create_string_buffer(size.value)
        places = (ctypes.c_void_p * 1)(ctypes.addressof(data))
        if ask(handle, _BINARIES, ctypes.sizeof(places), places, None) == 0:
            return data.raw
    return bytes(built.get_info(cl.program_info.BINARIES)[0])


def _function(cl: Any) -> Any:
    """`clGetProgramInfo`; None where it cannot be found."""
    try:
        function = ctypes.CDLL(cl._cl.__file__).clGetProgramInfo
    except (AttributeError, OSError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
    function.restype = ctypes.c_int
    return function
