"""The few OpenGL calls that moderngl does not have: mapped pixel buffers, buffer textures, fences, the state of the context.

They are reached through the loader of whoever made the context and called with ctypes, which lets go of Python's lock during a call. What
an older OpenGL does not have is said (`can_map`), and the caller takes another way. Names and constants are those of the registry.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Collection
from typing import Any

PIXEL_UNPACK_BUFFER = 0x88EC
TEXTURE_2D, TEXTURE_BUFFER, TEXTURE0 = 0x0DE1, 0x8C2A, 0x84C0
RGBA, UNSIGNED_BYTE, R32UI = 0x1908, 0x1401, 0x8236
_MAP = 0x0001 | 0x0002 | 0x0040 | 0x0080  # read, write, persistent, coherent
_GPU_COMMANDS_COMPLETE = 0x9117
_TIMEOUT_EXPIRED = 0x911B
_VERSION, _RENDERER = 0x1F02, 0x1F01

_uint, _int, _pointer, _size = ctypes.c_uint, ctypes.c_int, ctypes.c_void_p, ctypes.c_ssize_t
if sys.platform == "win32":
    _CALL = ctypes.WINFUNCTYPE
else:
    _CALL = ctypes.CFUNCTYPE


Load = Callable[[str], int]  # the address of an OpenGL function of the current context; 0 where there is none


def entry(load: Load, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """An OpenGL function that the current context has."""
    address = load(name)
    assert address, f"{name} is there"
    return _CALL(result, *arguments)(address)


def version_text(load: Load) -> str:
    """What the driver says of the current context: version and renderer."""
    get_string = entry(load, "glGetString", ctypes.c_char_p, _uint)
    version, renderer = (get_string(name) or b"unknown" for name in (_VERSION, _RENDERER))
    return f"OpenGL {version.decode(errors='replace')} on {renderer.decode(errors='replace')}"


class Gl:
    """Functions of the current context. `version`: 100 times major plus 10 times minor; `extensions`: their names."""

    def __init__(self, load: Load, version: int, extensions: Collection[str]) -> None:
        found = functools.partial(entry, load)
        self.bind_buffer = found("glBindBuffer", None, _uint, _uint)
        self._gen_buffers = found("glGenBuffers", None, _int, _pointer)
        self._delete_buffers = found("glDeleteBuffers", None, _int, _pointer)
        self._gen_textures = found("glGenTextures", None, _int, _pointer)
        self._delete_textures = found("glDeleteTextures", None, _int, _pointer)
        self.active_texture = found("glActiveTexture", None, _uint)
        self.bind_texture = found("glBindTexture", None, _uint, _uint)
        self.tex_buffer = found("glTexBuffer", None, _uint, _uint, _uint)
        self._tex_sub_image = found("glTexSubImage2D", None, _uint, _int, _int, _int, _int, _int, _uint, _uint, _pointer)
        self._map_range = found("glMapBufferRange", _pointer, _uint, _size, _size, _uint)
        self._unmap = found("glUnmapBuffer", ctypes.c_ubyte, _uint)
        self._fence_sync = found("glFenceSync", _pointer, _uint, _uint)
        self._client_wait = found("glClientWaitSync", _uint, _pointer, _uint, ctypes.c_uint64)
        self._delete_sync = found("glDeleteSync", None, _pointer)
        self.finish = found("glFinish", None)
        # A driver may give an address for any name, so that this must be asked of the version.
        self._storage: Callable[..., Any] | None = None
        if version >= 440 or "GL_ARB_buffer_storage" in extensions:
            self._storage = found("glBufferStorage", None, _uint, _size, _pointer, _uint)
        self._reset_status: Callable[[], int] | None = None
        if version >= 450:
            self._reset_status = found("glGetGraphicsResetStatus", _uint)
        elif "GL_ARB_robustness" in extensions:
            self._reset_status = found("glGetGraphicsResetStatusARB", _uint)

    @property
    def can_map(self) -> bool:
        """Whether buffers can stay mapped while they are read (OpenGL 4.4, or ARB_buffer_storage)."""
        return self._storage is not None

    def new_texture(self) -> int:
        """The name of a new texture."""
        name = _uint()
        self._gen_textures(1, ctypes.byref(name))
        return name.value

    def delete_texture(self, name: int) -> None:
        self._delete_textures(1, ctypes.byref(_uint(name)))

    def mapped_buffer(self, nbytes: int) -> tuple[int, int]:
        """A pixel buffer that stays mapped, for reading and writing: its name, its address. Raises MemoryError."""
        assert self._storage is not None
        name = _uint()
        self._gen_buffers(1, ctypes.byref(name))
        self.bind_buffer(PIXEL_UNPACK_BUFFER, name)
        self._storage(PIXEL_UNPACK_BUFFER, nbytes, None, _MAP)
        address = self._map_range(PIXEL_UNPACK_BUFFER, 0, nbytes, _MAP)
        self.bind_buffer(PIXEL_UNPACK_BUFFER, 0)
        if not address:
            self._delete_buffers(1, ctypes.byref(name))
            raise MemoryError(f"a pixel buffer of {nbytes / 2**20:.1f} MiB for the window")
        return name.value, address

    def delete_mapped(self, name: int) -> None:
        """Unmaps and deletes a buffer; its address is void afterwards."""
        self.bind_buffer(PIXEL_UNPACK_BUFFER, name)
        self._unmap(PIXEL_UNPACK_BUFFER)
        self.bind_buffer(PIXEL_UNPACK_BUFFER, 0)
        self._delete_buffers(1, ctypes.byref(_uint(name)))

    def upload(self, texture: int, width: int, height: int, buffer: int, offset: int) -> None:
        """A pixel buffer, from a byte on, into an RGBA8 texture of this size."""
        self.bind_buffer(PIXEL_UNPACK_BUFFER, buffer)
        self.active_texture(TEXTURE0)
        self.bind_texture(TEXTURE_2D, texture)
        self._tex_sub_image(TEXTURE_2D, 0, 0, 0, width, height, RGBA, UNSIGNED_BYTE, offset)
        self.bind_buffer(PIXEL_UNPACK_BUFFER, 0)

    def fence(self) -> int:
        """A mark behind all that was asked for so far."""
        mark: int = self._fence_sync(_GPU_COMMANDS_COMPLETE, 0)
        return mark

    def passed(self, fence: int) -> bool:
        """Whether everything before the mark is done (asked without waiting); the mark is gone then."""
        if self._client_wait(fence, 1, 0) == _TIMEOUT_EXPIRED:  # 1: flush, so that it will be done some time
            return False
        self._delete_sync(fence)
        return True

    def forget(self, fence: int) -> None:
        """Takes a mark away."""
        self._delete_sync(fence)

    def lost(self) -> bool:
        """Whether the context is gone: the graphics processor or its driver was reset."""
        return self._reset_status is not None and self._reset_status() != 0
