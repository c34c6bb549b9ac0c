"""Picture files of every kind that textures come in, for tests."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
from PIL import Image


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    """A PNG of uint8[h, w], [h, w, 3] or [h, w, 4]."""
    return encoded(Image.fromarray(pixels), "PNG")


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    """A part of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def deep_png(pixels: np.ndarray[Any, Any], interlaced: bool = False, clear: Any = None) -> bytes:
    """A PNG of uint16[h, w, 1 to 4], as the specification has it: every filter is used, one row after another. `clear`: the colour that is
    transparent."""
    height, width, channels = pixels.shape
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    rows = b"".join(_filtered(pixels[y::dy, x::dx]) for y, x, dy, dx in (passes if interlaced else [(0, 0, 1, 1)]))
    header = struct.pack(">IIBBBBB", width, height, 16, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 0, 0, interlaced)
    transparent = b"" if clear is None else chunk(b"tRNS", np.asarray(clear, ">u2").tobytes())
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + transparent + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _filtered(pixels: np.ndarray[Any, Any]) -> bytes:
    """The rows of a picture, each with its filter before it."""
    height, width, channels = pixels.shape
    if not height or not width:
        return b""
    each, made = 2 * channels, []
    above = np.zeros(width * each, int)
    for number, row in enumerate(pixels.astype(">u2").reshape(height, -1).view(np.uint8).astype(int)):
        left, corner = (np.concatenate([np.zeros(each, int), line[:-each]]) for line in (row, above))
        predicted = [0 * row, left, above, (left + above) // 2, _paeth(left, above, corner)][number % 5]
        made.append(bytes([number % 5]) + ((row - predicted) % 256).astype(np.uint8).tobytes())
        above = row
    return b"".join(made)


def _paeth(a: Any, b: Any, c: Any) -> Any:
    guess = a + b - c
    off_a, off_b, off_c = abs(guess - a), abs(guess - b), abs(guess - c)
    return np.where((off_a <= off_b) & (off_a <= off_c), a, np.where(off_b <= off_c, b, c))
