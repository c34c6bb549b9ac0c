"""KTX2 pictures of Basis Universal (KHR_texture_basisu): blocks that are smaller than any picture file of their size on a device.

Here they become pixels: what a path tracer saves by keeping blocks it pays for at every look-up. The transcoder of Basis Universal itself
does the work, in the package opengl-basisu (wheels of a megabyte for Linux, macOS and Windows; it needs NumPy alone and no OpenGL, whatever
its name says). It is an extra, `pip install 'rayfuse[basisu]'`, for few files have no other picture beside these; without it they are
placeholders, with a warning that says so. The two codecs that glTF allows are read, ETC1S and UASTC, with or without Zstandard; textures
of other kinds that a KTX2 file may hold are refused.

Files may have levels of detail. The finest is what is read, or a coarser one where the picture is to be shrunk anyway.
Format: Khronos KTX File Format Specification 2.0, chapters 3 and 5.
"""

from __future__ import annotations

import struct
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

IDENTIFIER = b"\xabKTX 20\xbb\r\n\x1a\n"
PACKAGE = "opengl_basisu"
MISSING = "is a KTX2 picture, for which the package opengl-basisu is needed (pip install 'rayfuse[basisu]')"


def is_ktx2(head: bytes) -> bool:
    """Whether a file that begins so is a KTX2 file."""
    return head[: len(IDENTIFIER)] == IDENTIFIER


def can_read() -> bool:
    """Whether the package that decodes them is installed."""
    return find_spec(PACKAGE) is not None


def size_of_ktx2(data: bytes) -> tuple[int, int]:
    """Width and height that a file claims. Raises ValueError where it is too short to say."""
    if len(data) < 80:
        raise ValueError("the file ends in its header")
    width, height = struct.unpack_from("<II", data, 20)
    return width, height


def has_alpha(data: bytes) -> bool:
    """Whether its pixels have alpha. Raises ValueError (or what is made of it) where the file cannot be read."""
    return bool(_opened(data).has_alpha)


def ktx2_pixels(data: bytes, halvings: int = 0) -> NDArray[np.uint8]:
    """uint8[height, width, 3 or 4] of a file, halved so many times or less. Raises ValueError where it cannot be read."""
    texture = _opened(data)
    image = texture.transcode("rgba8", level=min(halvings, texture.levels - 1))
    pixels = np.asarray(image.data, np.uint8).reshape(image.height, image.width, 4)
    return pixels if texture.has_alpha else np.ascontiguousarray(pixels[..., :3])


def _opened(data: bytes) -> Any:
    if not can_read():
        raise ValueError(MISSING)
    import opengl_basisu

    texture = opengl_basisu.open(data)
    if texture.faces != 1 or texture.layers != 1:
        raise ValueError("it is an array or a cube of pictures")
    return texture
