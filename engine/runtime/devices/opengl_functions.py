"""The OpenGL functions that the backend calls, as Python functions, and the numbers of its enumerations.

A driver gives functions by name, and only where a context is current; `Functions` asks for all of them at once, so that one that is
missing is found when the device is opened. There are two kinds. Those that may take long (compiling, running, waiting, moving memory)
let other Python threads run meanwhile. The others write a command into the driver's queue and return at once: they keep the
interpreter's lock, since a thread that gives it up may wait five milliseconds until a busy one hands it back, and a frame makes some
hundred such calls.

Nothing here checks for errors: `check` does, after what may fail.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.runtime.device import DeviceError

VENDOR, RENDERER, VERSION, EXTENSIONS, NUM_EXTENSIONS = 0x1F00, 0x1F01, 0x1F02, 0x1F03, 0x821D
COMPUTE_SHADER, COMPILE_STATUS, LINK_STATUS, INFO_LOG_LENGTH = 0x91B9, 0x8B81, 0x8B82, 0x8B84
PROGRAM_BINARY_RETRIEVABLE_HINT, PROGRAM_BINARY_LENGTH, NUM_PROGRAM_BINARY_FORMATS = 0x8257, 0x8741, 0x87FE
UNIFORM_BLOCK_DATA_SIZE, INVALID_INDEX = 0x8A40, 0xFFFFFFFF
SHADER_STORAGE_BUFFER, UNIFORM_BUFFER, DISPATCH_INDIRECT_BUFFER = 0x90D2, 0x8A11, 0x90EE
COPY_READ_BUFFER, COPY_WRITE_BUFFER = 0x8F36, 0x8F37
DYNAMIC_COPY, DYNAMIC_DRAW = 0x88EA, 0x88E8
MAX_COMPUTE_STORAGE_BLOCKS, MAX_STORAGE_BINDINGS, MAX_STORAGE_BLOCK_SIZE = 0x90DB, 0x90DD, 0x90DE
MAX_UNIFORM_BLOCK_SIZE, UNIFORM_ALIGNMENT = 0x8A30, 0x8A34
MAX_COMPUTE_TEXTURES, MAX_TEXTURE_BUFFER_SIZE = 0x91BC, 0x8C2B
TEXTURE0, TEXTURE_BUFFER = 0x84C0, 0x8C2A
TEXEL_FORMATS = {  # number, bytes of a texel
    "R8I": (0x8231, 1), "R8UI": (0x8232, 1), "R16I": (0x8233, 2), "R16UI": (0x8234, 2), "R32I": (0x8235, 4), "R32UI": (0x8236, 4),
    "R32F": (0x822E, 4), "RG32I": (0x823B, 8), "RG32UI": (0x823C, 8), "RG32F": (0x8230, 8), "RGBA32I": (0x8D82, 16),
    "RGBA32UI": (0x8D70, 16), "RGBA32F": (0x8814, 16),
}  # fmt: skip
MAX_COMPUTE_INVOCATIONS, MAX_COMPUTE_SIZE, MAX_COMPUTE_COUNT, MAX_COMPUTE_SHARED = 0x90EB, 0x91BF, 0x91BE, 0x8262
NVX_TOTAL_MEMORY_KIB, NVX_FREE_MEMORY_KIB, ATI_FREE_BUFFER_MEMORY_KIB = 0x9048, 0x9049, 0x87FB
TIMESTAMP, QUERY_RESULT = 0x8E28, 0x8866
SYNC_COMPLETE, SYNC_FLUSH, TIMEOUT_EXPIRED, WAIT_FAILED = 0x9117, 0x0001, 0x911B, 0x911D
STORAGE_BARRIER, FETCH_BARRIER, ALL_BARRIERS = 0x2000, 0x0008, 0xFFFFFFFF
OUT_OF_MEMORY, CONTEXT_LOST = 0x0505, 0x0507

_INT, _UINT, _ENUM, _SIZE, _POINTER = ctypes.c_int, ctypes.c_uint, ctypes.c_uint, ctypes.c_ssize_t, ctypes.c_void_p

# name without "gl": type of the result, then those of the arguments
_QUICK: dict[str, tuple[Any, ...]] = {
    "ActiveTexture": (None, _ENUM),
    "AttachShader": (None, _UINT, _UINT),
    "BindBuffer": (None, _ENUM, _UINT),
    "BindBufferRange": (None, _ENUM, _UINT, _UINT, _SIZE, _SIZE),
    "BindTexture": (None, _ENUM, _UINT),
    "CreateProgram": (_UINT,),
    "CreateShader": (_UINT, _ENUM),
    "DeleteProgram": (None, _UINT),
    "DeleteQueries": (None, _INT, _POINTER),
    "DeleteShader": (None, _UINT),
    "DeleteSync": (None, _POINTER),
    "DeleteTextures": (None, _INT, _POINTER),
    "FenceSync": (_POINTER, _ENUM, _UINT),
    "GenBuffers": (None, _INT, _POINTER),
    "GenQueries": (None, _INT, _POINTER),
    "GenTextures": (None, _INT, _POINTER),
    "GetActiveUniformBlockiv": (None, _UINT, _UINT, _ENUM, _POINTER),
    "GetError": (_ENUM,),
    "GetInteger64v": (None, _ENUM, _POINTER),
    "GetIntegeri_v": (None, _ENUM, _UINT, _POINTER),
    "GetIntegerv": (None, _ENUM, _POINTER),
    "GetProgramInfoLog": (None, _UINT, _INT, _POINTER, _POINTER),
    "GetQueryObjectui64v": (None, _UINT, _ENUM, _POINTER),
    "GetShaderInfoLog": (None, _UINT, _INT, _POINTER, _POINTER),
    "GetString": (ctypes.c_char_p, _ENUM),
    "GetStringi": (ctypes.c_char_p, _ENUM, _UINT),
    "GetUniformBlockIndex": (_UINT, _UINT, ctypes.c_char_p),
    "GetUniformLocation": (_INT, _UINT, ctypes.c_char_p),
    "MemoryBarrier": (None, _UINT),
    "ProgramParameteri": (None, _UINT, _ENUM, _INT),
    "ProgramUniform1ui": (None, _UINT, _INT, _UINT),
    "QueryCounter": (None, _UINT, _ENUM),
    "ShaderSource": (None, _UINT, _INT, _POINTER, _POINTER),
    "TexBufferRange": (None, _ENUM, _ENUM, _UINT, _SIZE, _SIZE),
    "UseProgram": (None, _UINT),
}  # fmt: skip
_SLOW: dict[str, tuple[Any, ...]] = {
    "BufferData": (None, _ENUM, _SIZE, _POINTER, _ENUM),
    "BufferSubData": (None, _ENUM, _SIZE, _SIZE, _POINTER),
    "ClientWaitSync": (_ENUM, _POINTER, _UINT, ctypes.c_uint64),
    "CompileShader": (None, _UINT),
    "CopyBufferSubData": (None, _ENUM, _ENUM, _SIZE, _SIZE, _SIZE),
    "DeleteBuffers": (None, _INT, _POINTER),
    "DispatchCompute": (None, _UINT, _UINT, _UINT),
    "DispatchComputeIndirect": (None, _SIZE),
    "Finish": (None,),
    "GetBufferSubData": (None, _ENUM, _SIZE, _SIZE, _POINTER),
    "GetProgramBinary": (None, _UINT, _INT, _POINTER, _POINTER, _POINTER),
    "GetProgramiv": (None, _UINT, _ENUM, _POINTER),  # drivers compile in the background: this waits for the end of it
    "GetShaderiv": (None, _UINT, _ENUM, _POINTER),
    "LinkProgram": (None, _UINT),
    "ProgramBinary": (None, _UINT, _ENUM, _POINTER, _INT),
}  # fmt: skip
_TELL_RESETS = ("GL_KHR_robustness", "GL_ARB_ES3_2_compatibility")


class Functions:
    """The functions of the context that is current on this thread, each under its name without "gl".

    load: gives the address of a function by its full name, 0 where there is none. Raises DeviceError for one that is missing.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, load: Callable[[str], int]) -> None:
        for table, make in ((_QUICK, ctypes.PYFUNCTYPE), (_SLOW, ctypes.CFUNCTYPE)):
            for name, types in table.items():
                address = load(f"gl{name}")
                if not address:
                    raise DeviceError(f"OpenGL: the driver has no gl{name}, which is part of OpenGL 4.3; update the graphics driver")
                setattr(self, name, make(*types)(address))
        number = self.integer(NUM_EXTENSIONS)
        self.extensions = frozenset(self.GetStringi(EXTENSIONS, k).decode("ascii", "replace") for k in range(number))
        tells = not self.extensions.isdisjoint(_TELL_RESETS)  # a driver may give an address for what it does not have
        address = load("glGetGraphicsResetStatus") if tells else 0
        self._reset_status = ctypes.PYFUNCTYPE(_ENUM)(address) if address else None

    def integer(self, name: int) -> int:
        """The value of a limit."""
        value = ctypes.c_int64(0)
        self.GetInteger64v(name, ctypes.byref(value))
        return value.value

    def text(self, name: int) -> str:
        """A string that the driver says of itself."""
        found: bytes | None = self.GetString(name)
        return (found or b"").decode("utf-8", "replace")

    def generate(self, what: Callable[[int, Any], None]) -> int:
        """The name of one new object: `what` is GenBuffers, GenQueries or GenTextures."""
        name = ctypes.c_uint(0)
        what(1, ctypes.byref(name))
        return name.value

    def log(self, of: int, length: Callable[..., None], read: Callable[..., None]) -> str:
        """The compiler's messages: `length` is GetShaderiv or GetProgramiv, `read` GetShaderInfoLog or GetProgramInfoLog."""
        size = ctypes.c_int(0)
        length(of, INFO_LOG_LENGTH, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value + 1)
        read(of, size.value + 1, None, text)
        return text.value.decode("utf-8", "replace").strip("\0 \n")

    def errors(self) -> list[int]:
        """The errors since the last question, which are forgotten by it."""
        found: list[int] = []
        while len(found) < 8:  # a lost context may answer with the same error for ever
            error = self.GetError()
            if not error:
                break
            found.append(error)
        return found

    def check(self, doing: str) -> None:
        """Raises DeviceError where the device was lost or refused a command, MemoryError where it had no memory for it."""
        reset = self._reset_status() if self._reset_status is not None else 0
        found = self.errors()
        if reset or CONTEXT_LOST in found:
            raise DeviceError(f"the OpenGL device was lost while {doing} (reset status {reset:#x}): start again, with less work a frame")
        if OUT_OF_MEMORY in found:
            raise MemoryError(f"the OpenGL device is out of memory while {doing}: use a smaller size or scene")
        if found:
            raise DeviceError(f"OpenGL error {found[0]:#06x} while {doing}: please report it, with the output of `rayfuse info`")
