"""Pictures for the scenes of this folder: patterns from a few numbers, and the files they are stored in, written with NumPy alone.

PNG and WebP are written without compression: a zlib of another make would pack the same picture into other bytes, and the scenes are
to be the same on every machine. So pictures are small, and those of few colours have a palette. A pattern is a float array
[height, width] or [height, width, 3] within [0, 1]; heights tile, and become normal maps.

Format: PNG (ISO/IEC 15948), zlib's stored blocks (RFC 1951, section 3.2.4); WebP's lossless bitstream with prefix codes that are all
eight bits long; Radiance's .hdr.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
PNG_KINDS = {1: 0, 3: 2, 4: 6}  # colour type by channels
PALETTE_KIND = 3
MOST_STORED = 65535  # bytes of a stored block


# Files


def png(pixels: Bytes) -> bytes:
    """A PNG file of uint8[height, width] or [height, width, 1, 3 or 4]."""
    whole = pixels.reshape(*pixels.shape[:2], -1)
    return _png(whole.reshape(len(whole), -1), whole.shape[1], 8, PNG_KINDS[whole.shape[2]], [])


def png_of_few(numbers: NDArray[Any], palette: Sequence[Sequence[float]]) -> bytes:
    """A PNG file of up to 16 colours, four bits a pixel: numbers int[height, width, even], palette [n, 3 or 4] within [0, 1]."""
    rows = (numbers[:, 0::2] << 4 | numbers[:, 1::2]).astype(np.uint8)
    colours = as_bytes(np.array([colour[:3] for colour in palette]))
    extra = [(b"PLTE", colours.tobytes())]
    if len(palette[0]) == 4:
        extra.append((b"tRNS", as_bytes(np.array([colour[3] for colour in palette])).tobytes()))
    return _png(rows, numbers.shape[1], 4, PALETTE_KIND, extra)


def _png(rows: Bytes, width: int, depth: int, kind: int, extra: list[tuple[bytes, bytes]]) -> bytes:
    raw = np.pad(rows, ((0, 0), (1, 0))).tobytes()  # each row after the number of its filter, which is none
    parts = [raw[k : k + MOST_STORED] for k in range(0, len(raw), MOST_STORED)]
    stored = b"".join(
        struct.pack("<BHH", part is parts[-1], len(part), len(part) ^ 0xFFFF) + part for part in parts
    )
    data = b"\x78\x01" + stored + struct.pack(">I", zlib.adler32(raw))
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, len(rows), depth, kind, 0, 0, 0)), *extra, (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )


def webp(pixels: Bytes) -> bytes:
    """A lossless WebP file of uint8[height, width, 3]."""
    height, width = pixels.shape[:2]

    def number(value: int, bits: int) -> list[int]:
        return [value >> k & 1 for k in range(bits)]

    def eight_bits(symbols: int) -> list[int]:
        """A prefix code whose first 256 symbols have eight bits each, and the others none."""
        lengths = [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]  # of the code for code lengths: it has 0 and 8, in the order of the format
        told = [bit for length in lengths for bit in number(length, 3)]
        return [0, *number(len(lengths) - 4, 4), *told, 0, *[1] * 256, *[0] * (symbols - 256)]

    head = [*number(width - 1, 14), *number(height - 1, 14), 0, *number(0, 3)]  # no alpha, version 0
    head += [0, 0, 0]  # no transform, no cache of colours, one group of codes
    head += [*eight_bits(256 + 24), *eight_bits(256), *eight_bits(256)]  # green and lengths, red, blue
    head += [1, 0, 1, *number(255, 8)]  # alpha: one symbol, which takes no bits
    head += [1, 0, 0, 0]  # distances: never used
    bits = np.unpackbits(pixels[..., [1, 0, 2]].reshape(-1, 1), axis=1).reshape(-1)  # of a code the highest bit comes first
    stream = np.packbits(np.concatenate([np.array(head, np.uint8), bits]), bitorder="little").tobytes()
    body = b"\x2f" + stream
    body = b"VP8L" + struct.pack("<I", len(body)) + body + bytes(len(body) % 2)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def radiance(picture: Floats) -> bytes:
    """A Radiance file of linear radiance [height, width, 3]."""
    brightest = np.maximum(picture.max(2), 1e-32)
    exponent = np.ceil(np.log2(brightest) + 1e-6).astype(int)
    mantissa = np.floor(picture * np.exp2(8.0 - exponent)[..., None]).clip(0, 255)
    pixels = np.concatenate([mantissa, (exponent + 128)[..., None]], 2).astype(np.uint8)
    height, width = picture.shape[:2]
    return f"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y {height} +X {width}\n".encode() + pixels.tobytes()


# From numbers to bytes


def as_bytes(values: Any) -> Bytes:
    """Values within [0, 1], rounded; a bit up, so that what is just a half does not depend on the machine."""
    rounded: Bytes = np.floor(np.clip(values, 0.0, 1.0) * 255.0 + 0.5 + 1e-6).astype(np.uint8)
    return rounded


def srgb(linear: Any) -> Bytes:
    """Linear colours within [0, 1] through the sRGB curve, as bytes."""
    values = np.clip(np.asarray(linear, float), 0.0, 1.0)
    return as_bytes(np.where(values <= 0.0031308, values * 12.92, 1.055 * values ** (1 / 2.4) - 0.055))


def normals_of(height: Floats, slope: float) -> Bytes:
    """A normal map of heights that tile; `slope`: pixels that a height of 1 stands above 0."""
    across = (np.roll(height, -1, 1) - np.roll(height, 1, 1)) / 2 * slope
    down = (np.roll(height, -1, 0) - np.roll(height, 1, 0)) / 2 * slope
    normal = np.stack([-across, down, np.ones_like(height)], 2)  # green points up, against v
    return as_bytes(normal / np.linalg.norm(normal, axis=2, keepdims=True) * 0.5 + 0.5)


# Patterns


def places(size: int) -> tuple[Floats, Floats]:
    """The middles of the pixels of a square picture within [0, 1]: (u, v), v downwards."""
    at = (np.arange(size) + 0.5) / size
    u, v = np.meshgrid(at, at)
    return u, v


def noise(size: int, cells: int, seed: int, octaves: int = 1) -> Floats:
    """Smooth noise [size, size] within [0, 1] that tiles, each octave twice as fine and half as strong."""
    total, weight = np.zeros((size, size)), 0.0
    for octave in range(octaves):
        count = cells << octave
        values = np.random.default_rng(seed + octave).random((count, count))
        at = np.arange(size) * count / size
        k = at.astype(int)
        t = (at - k) ** 2 * (3 - 2 * (at - k))
        for axis in (0, 1):
            first, second = np.take(values, k % count, axis), np.take(values, (k + 1) % count, axis)
            blend = t[:, None] if axis == 0 else t[None, :]
            values = first * (1 - blend) + second * blend
        total += values * 0.5**octave
        weight += 0.5**octave
    return total / weight


def bricks(size: int, courses: int, joint: float) -> tuple[Floats, NDArray[np.int64]]:
    """A wall that tiles: height [size, size], 1 on bricks and 0 in joints with soft edges, and the number of each pixel's brick."""
    u, v = places(size)
    row = np.floor(v * courses).astype(int)
    along = u * courses / 2 + 0.5 * (row % 2)
    column = np.floor(along).astype(int) % (courses // 2)
    # Distance to the nearest joint, in heights of a brick, which is twice as wide.
    side = np.minimum(along % 1, 1 - along % 1) * 2
    edge = np.minimum(np.minimum(v * courses % 1, 1 - v * courses % 1), side)
    height = np.clip((edge - joint / 2) / joint, 0, 1)
    return height * height * (3 - 2 * height), row * courses + column


def weave(size: int, threads: int) -> tuple[Floats, NDArray[np.int64]]:
    """Plain weave that tiles: height [size, size], and whether each pixel shows warp (1) or weft (0)."""
    u, v = places(size)
    x, y = u * threads, v * threads
    over = (np.floor(x) + np.floor(y)).astype(int) % 2
    across = np.where(over == 1, x % 1, y % 1) - 0.5
    along = np.where(over == 1, y % 1, x % 1) - 0.5
    height = np.sqrt(np.clip(1 - (2 * across) ** 2 * 0.95, 0, 1)) * (0.55 + 0.45 * np.cos(along * np.pi))
    return height, over
