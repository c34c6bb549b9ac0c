"""PNG files of 16 bits a channel, which the decoder at hand (Pillow) reads at 8 where they have colours.

It need not be replaced, for PNG's filters work on bytes: each byte is predicted from the byte that stands in the same place of the pixel
to the left, above, and above left, and from nothing else. So the bytes of a pixel are streams of their own, and a picture of three 16-bit
channels is two pictures of three 8-bit channels, the high bytes and the low bytes, each with the filters of the whole. Those are written
as uncompressed PNGs, which any decoder takes, and put together again. Two bytes a pixel are grey with alpha to it, four are RGBA.

Interlaced files are seven pictures one after another (Adam7), of which the same holds. What tRNS calls transparent gets an alpha of 0.
Format: W3C, "Portable Network Graphics (PNG) Specification", third edition, chapters 8 to 11.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # by colour type
_STREAMS = {2: ((0, 1),), 4: ((0, 1, 2, 3),), 6: ((0, 2, 4), (1, 3, 5)), 8: ((0, 2, 4, 6), (1, 3, 5, 7))}  # by bytes of a pixel
_TYPE = {2: 4, 3: 2, 4: 6}  # the colour type of pictures of 8-bit channels
_ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))  # x, y, and their steps


def is_deep(head: bytes) -> bool:
    """Whether a file whose first 33 bytes these are is a PNG of 16 bits a channel."""
    return head[:8] == SIGNATURE and head[12:16] == b"IHDR" and head[24:25] == b"\x10" and head[25:26] in b"\0\2\4\6"


def deep_pixels(data: bytes) -> NDArray[np.uint16]:
    """uint16[height, width, 1 to 4] of such a file. Raises ValueError where it is damaged."""
    width, height, _, kind, compression, filtering, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    if compression or filtering or interlaced > 1:
        raise ValueError("a method that PNG does not know")
    parts = list(_chunks(data))
    each = 2 * CHANNELS[kind]
    passes = _passes(width, height, interlaced)
    size = sum(rows * (1 + columns * each) for columns, rows in passes)
    raw = zlib.decompressobj().decompress(b"".join(body for name, body in parts if name == b"IDAT"), size)
    if len(raw) != size:
        raise ValueError(f"{len(raw)} of {size} bytes are there")
    streams = [_decoded(_stream(raw, passes, each, places), width, height, interlaced, len(places)) for places in _STREAMS[each]]
    if each <= 4:
        pixels = streams[0].view(">u2").astype(np.uint16)
    else:
        pixels = streams[0].astype(np.uint16)
        pixels <<= 8
        pixels |= streams[1]
    clear = next((body for name, body in parts if name == b"tRNS"), None)
    if clear is None or kind not in (0, 2):
        return pixels
    seen = (pixels != np.frombuffer(clear[: 2 * CHANNELS[kind]], ">u2")).any(2, keepdims=True)
    return np.concatenate([pixels, np.where(seen, np.uint16(65535), np.uint16(0))], 2)


def has_clear_colour(data: bytes) -> bool:
    """Whether such a file, of grey or RGB, names a colour that is transparent; its pixels have one channel more then."""
    return data[25] in (0, 2) and any(data[at + 4 : at + 8] == b"tRNS" for at, _ in _places(data))


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Name and contents of each part of a file. Raises ValueError where one is damaged."""
    for at, length in _places(data):
        name, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if data[at + 8 + length : at + 12 + length] != struct.pack(">I", zlib.crc32(body, zlib.crc32(name))):
            raise ValueError(f"a part that is not whole, at byte {at}")
        yield name, body


def _places(data: bytes) -> Iterator[tuple[int, int]]:
    """Where each part of a file begins, and how many bytes it holds."""
    at = len(SIGNATURE)
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        yield at, length
        at += 12 + length


def _passes(width: int, height: int, interlaced: int) -> list[tuple[int, int]]:
    """Columns and rows of the pictures that a file has one after another."""
    if not interlaced:
        return [(width, height)]
    sizes = [(-(-(width - x) // dx), -(-(height - y) // dy)) for x, y, dx, dy in _ADAM7]
    return [(columns, rows) for columns, rows in sizes if columns > 0 and rows > 0]


def _stream(raw: bytes, passes: list[tuple[int, int]], each: int, places: tuple[int, ...]) -> bytes:
    """Of all rows the filter and these bytes of each pixel."""
    made, at = [], 0
    for columns, rows in passes:
        size = rows * (1 + columns * each)
        table = np.frombuffer(raw, np.uint8, size, at).reshape(rows, -1)
        part = np.empty((rows, 1 + columns * len(places)), np.uint8)
        part[:, 0] = table[:, 0]
        part[:, 1:] = table[:, 1:].reshape(rows, columns, each)[:, :, places].reshape(rows, -1)
        made.append(part.tobytes())
        at += size
    return b"".join(made)


def _decoded(rows: bytes, width: int, height: int, interlaced: int, channels: int) -> NDArray[np.uint8]:
    """uint8[height, width, channels] of rows of 8-bit channels, filtered as PNG has them."""
    from PIL import Image as Pillow

    header = struct.pack(">IIBBBBB", width, height, 8, _TYPE[channels], 0, 0, interlaced)
    file = SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(body, zlib.crc32(name)))
        for name, body in ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 0)), (b"IEND", b""))
    )
    with Pillow.open(io.BytesIO(file), formats=["PNG"]) as picture:
        return np.asarray(picture, np.uint8).reshape(height, width, channels)
