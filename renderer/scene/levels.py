"""A picture as texels of the device: levels of detail, each half as wide and high as the one before, down to one pixel.

A pixel of a level is the mean of the area that it covers (with odd sizes, parts of pixels too), so the mean of a picture is that of all
its levels. Means are taken of what the numbers stand for: colours through the sRGB curve of light, all else of the numbers; a normal map's
shorter mean normals are made unit length when they are looked up. So that no rounding adds up, levels are made from each other with 16
bits a channel: what is stored is rounded.

Where alpha says how much of a colour is there at all (`Use.covered`), colours count by it, so that what is not there leaves no dark rim,
and the colour of texels that are not there at all is that of the next coarser level around them: it is seen only mixed into its
neighbours.

A texel is 32 bits: four channels of eight, or two of sixteen, which are enough for a normal (the third is what is missing to unit
length), for metallic-roughness, and for grey with alpha; `pair_of` says which two.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renderer.scene.recipes import Pixels, eight_bits

_STRIP = 1 << 17  # pixels that are worked on at a time: what is made on the way stays in the caches
ALPHA = 3


class Use(Enum):
    """What the channels of a picture are to those who look it up: numbers; colours stored through the sRGB curve; such colours whose alpha
    says how much of them is there."""

    numbers = "numbers"
    colours = "colours"
    covered = "covered"


class Pair(NamedTuple):
    """Which channels (0 to 3) a texel of 16 bits has in its lower and upper half. Whoever reads another one of red, green and blue gets the
    lower half, but blue where the upper half is green: that is a normal's."""

    low: int
    high: int


def pair_of(channels: int, read: set[str], use: Use) -> Pair | None:
    """How a picture of 16 bits is stored of which these channels are read ("r", "g", "b", "a"); None: with 8 bits a channel."""
    if channels <= 2:
        return Pair(0, ALPHA)
    if use is not Use.numbers:
        return None
    if read == {"r", "g", "b"}:
        return Pair(0, 1)
    wanted = sorted("rgba".index(channel) for channel in read)
    return Pair(wanted[0], wanted[1]) if len(wanted) == 2 else Pair(wanted[0] % ALPHA, ALPHA) if len(wanted) == 1 else None


def level_sizes(width: int, height: int, mips: bool = True) -> list[tuple[int, int]]:
    """Width and height of each level, down to one pixel; without `mips` of the first only."""
    sizes = [(width, height)]
    while mips and sizes[-1] != (1, 1):
        sizes.append((max(1, sizes[-1][0] // 2), max(1, sizes[-1][1] // 2)))
    return sizes


def write_levels(texels: NDArray[np.uint32], picture: Pixels, sizes: list[tuple[int, int]], use: Use, pair: Pair | None) -> None:
    """Writes all levels, one after another, to the beginning of `texels`; `picture` may be larger than the first of them."""
    if picture.dtype == np.uint16 and pair is None:
        picture = eight_bits(picture)
    bits = 8 * picture.itemsize
    curves = [use is not Use.numbers and not _is_alpha(channel, picture.shape[2]) for channel in range(picture.shape[2])]
    covered = use is Use.covered and picture.shape[2] in (2, 4)
    made, raw = picture, True  # the last level; whether it is as stored, and not linear values

    def halve() -> None:
        nonlocal made, raw
        made, raw = _halved(made, _tables(_linear, bits, curves) if raw else None, covered), False

    width, height = sizes[0]
    while made.shape[0] >= 2 * height or made.shape[1] >= 2 * width:
        halve()
    made = made[:height, :width]
    place, views = 0, []
    for number, (width, height) in enumerate(sizes):
        if number:
            halve()
        view = texels[place : place + width * height].reshape(height, width)
        _pack(view, made if raw else _through(made, _tables(_stored, bits, curves)), pair)
        views.append(view)
        place += width * height
    if covered and pair is None:
        for finer, coarser in zip(views[-2::-1], views[:0:-1]):
            _fill_gaps(finer, coarser)


def _is_alpha(channel: int, channels: int) -> bool:
    return channels in (2, 4) and channel == channels - 1


# ---- storing ----


def _pack(into: NDArray[np.uint32], pixels: Pixels, pair: Pair | None) -> None:
    """Texels of pixels: uint32[height, width]."""
    channels = pixels.shape[2]
    if pair is not None:
        if pair == (0, 1) and channels >= 3:
            pixels = _unit(pixels)
        high = -1 if pair.high == ALPHA else pair.high
        opaque = pair.high == ALPHA and channels in (1, 3)
        upper = np.uint32(0xFFFF) if opaque else pixels[..., high].astype(np.uint32)
        np.bitwise_or(pixels[..., pair.low].astype(np.uint32), upper << np.uint32(16), out=into)
        return
    into[...] = 0xFF000000
    parts = into.view(np.uint8).reshape(*into.shape, 4)
    parts[..., :3] = pixels[..., : 3 if channels >= 3 else 1]
    if channels in (2, 4):
        parts[..., 3] = pixels[..., -1]


def _unit(pixels: Pixels) -> Pixels:
    """Normals of 16 bits as such of unit length; straight up where there is none."""
    made = np.empty((*pixels.shape[:2], 3), np.uint16)
    for first in range(0, len(pixels), step := max(1, _STRIP // pixels.shape[1])):
        normal = pixels[first : first + step, :, :3].astype(np.float32) * np.float32(2 / 65535) - 1
        length = np.sqrt(np.einsum("ijk,ijk->ij", normal, normal))[..., None]
        normal = np.where(length > 0, normal / np.maximum(length, np.float32(1e-6)), np.array([0, 0, 1], np.float32))
        made[first : first + step] = normal * np.float32(32767.5) + np.float32(32768)
    return made


def _fill_gaps(finer: NDArray[np.uint32], coarser: NDArray[np.uint32]) -> None:
    """Gives texels of 8 bits whose alpha is 0 the colour of the texel of the next level that covers them."""
    columns = np.minimum(np.arange(finer.shape[1]) // 2, coarser.shape[1] - 1)
    for first in range(0, len(finer), step := max(1, _STRIP // finer.shape[1])):
        part = finer[first : first + step]
        gaps = part < np.uint32(1 << 24)
        if gaps.any():
            rows = np.minimum(np.arange(first, first + len(part)) // 2, coarser.shape[0] - 1)
            around = coarser[rows[:, None], columns] & np.uint32(0xFFFFFF)
            np.copyto(part, around, where=gaps)


# ---- curves ----


@lru_cache(maxsize=4)
def _linear(bits: int, curve: bool) -> NDArray[np.uint16]:
    """What stored numbers of so many bits stand for, with 16 bits; `curve`: through the sRGB curve (IEC 61966-2-1)."""
    value = np.arange(1 << bits) / ((1 << bits) - 1)
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4) if curve else value
    return np.rint(linear * 65535).astype(np.uint16)


@lru_cache(maxsize=4)
def _stored(bits: int, curve: bool) -> Pixels:
    """The other way: stored numbers of values of 16 bits."""
    value = np.arange(65536) / 65535.0
    stored = np.where(value <= 0.0031308, value * 12.92, 1.055 * value ** (1 / 2.4) - 0.055) if curve else value
    return np.rint(stored * ((1 << bits) - 1)).astype(np.uint16 if bits == 16 else np.uint8)


def _tables(of: Any, bits: int, curves: list[bool]) -> list[Pixels] | None:
    """The table of each channel; None where numbers of 16 bits stay what they are."""
    return None if bits == 16 and not any(curves) else [of(bits, curve) for curve in curves]


def _through(values: Pixels, tables: list[Pixels] | None) -> Pixels:
    """Each channel looked up in its table."""
    if tables is None:
        return values
    if all(table is tables[0] for table in tables):
        return tables[0][values]
    made = np.empty(values.shape, tables[0].dtype)
    for channel, table in enumerate(tables):
        made[..., channel] = table[values[..., channel]]
    return made


# ---- halving ----


def _halved(pixels: Pixels, tables: list[Pixels] | None, covered: bool) -> NDArray[np.uint16]:
    """uint16: half as wide and high, in linear values of 16 bits; `tables` make such of the pixels. `covered`: colours count by alpha."""
    height, width, channels = pixels.shape
    rows, columns = max(1, height // 2), max(1, width // 2)
    made = np.empty((rows, columns, channels), np.uint16)
    step = max(1, _STRIP // (2 * width))
    for first in range(0, rows, step):
        last = min(rows, first + step)
        # an odd height: each row of the result also has a part of a third row
        part: NDArray[Any] = _through(pixels[2 * first : min(height, 2 * last + 1)], tables)
        if covered:
            alpha = part[..., -1:].astype(np.float32)
            part = np.concatenate([part[..., :-1] * alpha, alpha], 2)
        down = _pairs(part, height, first, last)
        mean = _pairs(down.swapaxes(0, 1), width, 0, columns).swapaxes(0, 1)
        if covered:
            mean[..., :-1] /= np.maximum(mean[..., -1:], np.float32(1e-6))
        made[first:last] = (mean + np.float32(0.5)).astype(np.uint16)
    return made


def _pairs(values: NDArray[Any], size: int, first: int, last: int) -> NDArray[np.float32]:
    """The means over the areas of the results [first, last) along axis 0, which has `size` values in all; `values` begin at 2 * first."""
    if size == 1:
        return values.astype(np.float32)
    count = last - first
    even = values[0 : 2 * count : 2].astype(np.float32)
    odd = values[1 : 2 * count : 2].astype(np.float32)
    if size % 2 == 0:
        return (even + odd) * np.float32(0.5)
    half = size // 2
    i = np.arange(first, last, dtype=np.float32).reshape(-1, *(1,) * (values.ndim - 1))
    third = values[2 : 2 * count + 1 : 2].astype(np.float32)
    return ((half - i) * even + half * odd + (i + 1) * third) * np.float32(1 / size)
