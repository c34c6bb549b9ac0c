"""The textures of a scene as tables for the device: pictures decoded, made smaller step by step, and packed.

A picture becomes a block of texels for each level of detail, from its own size down to one pixel, each half as wide and high as the one
before. A pixel of a level is the mean of the area that it covers (with odd sizes, parts of pixels too), so the mean of a picture is that
of all its levels. Means are taken of what the numbers stand for: colours through the sRGB curve of light, all else of the numbers; a
normal map's shorter mean normals are made unit length when they are looked up. So that no rounding adds up, levels are made from each
other with 16 bits a channel: what is stored is rounded to eight.

An image that is used both as a colour and as numbers has two chains of levels; textures that differ in their sampling share one. What
one picture takes on the device, 4 bytes a pixel and a third more for the levels, is counted before anything is decoded, and pictures are
halved until it fits (`pictures`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine import Tensor
from renderer.scene.model import Scene, Texture
from renderer.scene.model_texture import TextureRef
from renderer.scene.pictures import BUDGET, COLOURS, Cost, Pixels, Size, decode_images, halvings_within, picture_sizes
from renderer.shading.texture import (
    CLAMP,
    COARSEST,
    MIRROR,
    NEAREST_MAG,
    NEAREST_MIN,
    NEAREST_MIP,
    REPEAT,
    SIXTEEN,
    WRAP_S,
    WRAP_T,
    TextureFeatures,
    Textures,
)

MOST_TEXELS = 1 << 31  # that an int32 can number
ALIGNMENT = 64  # bytes
_WRAPS = {"repeat": REPEAT, "clamp": CLAMP, "mirror": MIRROR}
_SRGB_SLOTS = {*COLOURS, "diffuse_transmission.color_texture"}
_STRIP = 1 << 22  # pixels that are made smaller at a time
_VALUE = np.arange(256) / 255.0
_DECODE = {
    False: (np.arange(256) * 257).astype(np.uint16),
    True: np.rint(np.where(_VALUE <= 0.04045, _VALUE / 12.92, ((_VALUE + 0.055) / 1.055) ** 2.4) * 65535).astype(np.uint16),
}
_LIGHT = np.arange(65536) / 65535.0
_ENCODE = {
    False: np.rint(_LIGHT * 255).astype(np.uint8),
    True: np.rint(np.where(_LIGHT <= 0.0031308, _LIGHT * 12.92, 1.055 * _LIGHT ** (1 / 2.4) - 0.055) * 255).astype(np.uint8),
}


@dataclass(frozen=True)
class TextureTables:
    """The tables, and the number that a texture has in them: of a texture of the scene, by whether its slot has colours. `bytes` and
    `seconds`: what they take and took."""

    textures: Textures
    numbers: dict[tuple[int, bool], int]
    bytes: int
    seconds: float

    def number(self, ref: TextureRef | None, slot: str) -> int:
        """The number that kernels know a slot's texture by; -1 for none."""
        return -1 if ref is None else self.numbers.get((ref.texture, is_srgb(slot)), -1)


def is_srgb(slot: str) -> bool:
    """Whether what is in a slot is stored through the sRGB curve (alpha never is)."""
    return slot in _SRGB_SLOTS


def texture_tables(
    scene: Scene,
    *,
    budget: int = BUDGET,
    strict: bool = False,
    warn: Callable[[str], None] | None = None,
    threads: int | None = None,
) -> TextureTables | None:
    """The tables of all textures that the scene's materials use; None where there are none.

    `budget`: bytes that the texels may take; the other options are those of `decode_images`. Raises MemoryError where there are more
    texels than can be numbered, SceneError with `strict`.
    """
    started = time.perf_counter()
    uses = _uses(scene)
    if not uses:
        return None
    chains, cost = _chains(scene, uses), texel_bytes(scene)
    if budget >= 4 * MOST_TEXELS:
        _check(scene, budget, cost)
    pixels = decode_images(scene, budget=budget, strict=strict, warn=warn, threads=threads, cost=cost)
    blocks: dict[tuple[int, bool], _Block] = {}
    total = 0
    for image, chain in chains.items():
        picture = pixels[image]
        assert picture is not None
        for srgb, mips in chain.items():
            sizes = level_sizes(picture.shape[1], picture.shape[0], mips)
            blocks[image, srgb] = _Block(total, sizes, picture.dtype == np.uint16)
            total += sum(width * height for width, height in sizes)
    texels = _aligned(total)

    def fill(image: int) -> None:
        picture, pixels[image] = pixels[image], None  # pixels go as soon as they are packed
        assert picture is not None
        for srgb in chains[image]:
            block = blocks[image, srgb]
            _fill(texels[block.start :], picture, block.sizes, srgb)

    by_size = sorted(chains, key=lambda image: -cost(image, Size(*max(blocks[image, srgb].sizes[0] for srgb in chains[image]), 1, 1)))
    with ThreadPoolExecutor(min(len(by_size), threads or os.cpu_count() or 1), thread_name_prefix="texture") as pool:
        list(pool.map(fill, by_size))
    numbers, levels = _rows(scene, uses, blocks)
    textures = Textures(Tensor.over(texels, dims=("texture_texels",)), Tensor(levels, dims=("texture_levels",)), _features(levels[:, 3]))
    return TextureTables(textures, numbers, texels.nbytes + levels.nbytes, time.perf_counter() - started)


def texel_bytes(scene: Scene) -> Cost:
    """What the images that materials use take on the device, levels of detail and all, by their sizes."""
    chains = _chains(scene, _uses(scene))

    def cost(image: int, size: Size) -> int:
        return sum(4 * width * height for mips in chains[image].values() for width, height in level_sizes(size.width, size.height, mips))

    return cost


class _Block(NamedTuple):
    """Where the texels of an image begin, width and height of its levels, whether a texel has 16 bits."""

    start: int
    sizes: list[tuple[int, int]]
    sixteen: bool


def _chains(scene: Scene, uses: list[tuple[int, bool]]) -> dict[int, dict[bool, bool]]:
    """The images of these textures; of each whether it has levels of detail, by whether it is used as colours."""
    chains: dict[int, dict[bool, bool]] = {}
    for number, srgb in uses:
        texture = scene.textures[number]
        assert texture.image is not None
        chain = chains.setdefault(texture.image, {})
        chain[srgb] = chain.get(srgb, False) or texture.mip is not None
    return chains


def _check(scene: Scene, budget: int, cost: Cost) -> None:
    """Raises MemoryError if pictures as small as the budget makes them are still too many."""
    sizes = picture_sizes(scene)
    halvings = halvings_within(sizes, budget, cost)
    texels = sum(cost(number, size.halved(halvings[number])) for number, size in sizes.items()) // 4
    if texels >= MOST_TEXELS:
        raise MemoryError(
            f"{scene.path}: its textures have {texels} texels with their levels of detail, but only {MOST_TEXELS - 1} can be numbered; "
            "use fewer or smaller pictures"
        )


def _rows(
    scene: Scene, uses: list[tuple[int, bool]], blocks: dict[tuple[int, bool], _Block]
) -> tuple[dict[tuple[int, bool], int], NDArray[np.int32]]:
    """The numbers of the textures, and `Textures.levels`."""
    rows: list[tuple[int, int, int, int]] = []
    numbers = {}
    for number, srgb in uses:
        texture = scene.textures[number]
        assert texture.image is not None
        block = blocks[texture.image, srgb]
        sizes = block.sizes if texture.mip is not None else block.sizes[:1]
        rules = _rules(texture, len(sizes) - 1, block.sixteen)
        numbers[number, srgb] = len(rows)
        place = block.start
        for width, height in sizes:
            rows.append((place, width, height, rules))
            place += width * height
    return numbers, np.array(rows, np.int32)


def _aligned(count: int) -> NDArray[np.uint32]:
    """Memory that kernels can work on as it is."""
    raw = np.empty(count * 4 + ALIGNMENT, np.uint8)
    first = -raw.ctypes.data % ALIGNMENT
    return raw[first : first + count * 4].view(np.uint32)


def level_sizes(width: int, height: int, mips: bool = True) -> list[tuple[int, int]]:
    """Width and height of each level, down to one pixel; without `mips` of the first only."""
    sizes = [(width, height)]
    while mips and sizes[-1] != (1, 1):
        sizes.append((max(1, sizes[-1][0] // 2), max(1, sizes[-1][1] // 2)))
    return sizes


def _uses(scene: Scene) -> list[tuple[int, bool]]:
    """The textures that materials use and that have an image, each with whether as colours, in order."""
    uses: dict[tuple[int, bool], None] = {}
    for material in scene.materials:
        for slot, ref in material.textures():
            if scene.textures[ref.texture].image is not None:
                uses[ref.texture, is_srgb(slot)] = None
    return list(uses)


def _rules(texture: Texture, coarsest: int, sixteen: bool) -> int:
    rules = coarsest | _WRAPS[texture.wrap_s] << WRAP_S | _WRAPS[texture.wrap_t] << WRAP_T
    rules |= (texture.mag == "nearest") << NEAREST_MAG | (texture.min == "nearest") << NEAREST_MIN
    return rules | (texture.mip == "nearest") << NEAREST_MIP | sixteen << SIXTEEN


def _features(column: NDArray[np.int32]) -> TextureFeatures:
    rules = [int(rule) for rule in np.unique(column)]
    wraps = {rule >> shift & 3 for rule in rules for shift in (WRAP_S, WRAP_T)}

    def some(bit: int) -> bool:
        return any(rule >> bit & 1 for rule in rules)

    return TextureFeatures(
        repeat=REPEAT in wraps,
        clamp=CLAMP in wraps,
        mirror=MIRROR in wraps,
        nearest=some(NEAREST_MAG) or some(NEAREST_MIN),
        mips=any(rule & COARSEST for rule in rules),
        nearest_mip=some(NEAREST_MIP),
        sixteen=some(SIXTEEN),
    )


def _fill(texels: NDArray[np.uint32], picture: Pixels, sizes: list[tuple[int, int]], srgb: bool) -> None:
    """Writes all levels of a picture, one after another."""
    width, height = sizes[0]
    _pack(texels[: width * height].reshape(height, width), picture)
    place, fine = width * height, picture
    curves = [srgb and not _is_alpha(channel, picture.shape[2]) for channel in range(picture.shape[2])]
    for width, height in sizes[1:]:
        fine = _halved(fine, curves)
        stored = _through(_ENCODE, fine, curves) if picture.dtype == np.uint8 else fine
        _pack(texels[place : place + width * height].reshape(height, width), stored)
        place += width * height


def _is_alpha(channel: int, channels: int) -> bool:
    return channels in (2, 4) and channel == channels - 1


def _pack(into: NDArray[np.uint32], pixels: Pixels) -> None:
    """Texels of pixels: uint32[height, width]."""
    channels = pixels.shape[2]
    if pixels.dtype == np.uint16:
        np.bitwise_or(pixels[..., 0].astype(np.uint32), np.uint32(0xFFFF0000), out=into)
        return
    into[...] = 0xFF000000
    parts = into.view(np.uint8).reshape(*into.shape, 4)
    parts[..., :3] = pixels[..., : 3 if channels >= 3 else 1]
    if channels in (2, 4):
        parts[..., 3] = pixels[..., -1]


def _through(tables: dict[bool, NDArray[Any]], values: NDArray[Any], curves: list[bool]) -> NDArray[Any]:
    """Each channel looked up in the table of its curve."""
    if len(set(curves)) == 1:
        whole: NDArray[Any] = tables[curves[0]][values]
        return whole
    made = np.empty(values.shape, tables[False].dtype)
    for channel, curve in enumerate(curves):
        made[..., channel] = tables[curve][values[..., channel]]
    return made


def _halved(pixels: Pixels, curves: list[bool]) -> NDArray[np.uint16]:
    """uint16: half as wide and high, in linear values of 16 bits. `curves`: of each channel, whether bytes are through the sRGB curve."""
    height, width, channels = pixels.shape
    rows, columns = max(1, height // 2), max(1, width // 2)
    made = np.empty((rows, columns, channels), np.uint16)
    step = max(1, _STRIP // (2 * width))
    for first in range(0, rows, step):
        last = min(rows, first + step)
        # an odd height: each row of the result also has a part of a third row
        part = pixels[2 * first : min(height, 2 * last + 1)]
        if pixels.dtype == np.uint8:
            part = _through(_DECODE, part, curves)
        down = _pairs(part, height, first, last)
        made[first:last] = (_pairs(down.swapaxes(0, 1), width, 0, columns).swapaxes(0, 1) + np.float32(0.5)).astype(np.uint16)
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
