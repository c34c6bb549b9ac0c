"""The textures of a scene as tables for the device: which levels of which pictures there are, where, and how they are sampled.

Each picture that a kernel reads becomes a block of texels for each level of detail (`levels`). A picture that is used in several ways, as
a colour and as numbers say, has a block for each; textures that differ in their sampling share one. What one picture takes on the
device, 4 bytes a pixel and a third more for the levels, is counted before anything is decoded, and pictures are made smaller until all
fit (`pictures`). Where each block begins is known by then, so a thread decodes a picture, writes its levels, and forgets its pixels: beside
the texels there is never more than one picture a thread, and only as many threads work as there is memory for.

Each texture has a row for each of its levels: where its block begins, its width and height, and the rules of sampling.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine import Tensor
from renderer.scene.levels import Pair, Use, level_sizes, pair_of, write_levels
from renderer.scene.model import Scene, Texture
from renderer.scene.model_texture import TextureRef
from renderer.scene.pictures import COLOURS, PictureError, Plan, Size, decode, failed, placeholder, planned, used_images
from renderer.scene.room import BUDGET, free_host_memory
from renderer.shading.slots import UNREAD, channels_of
from renderer.shading.texture import (
    CLAMP,
    COARSEST,
    MIRROR,
    NEAREST_MAG,
    NEAREST_MIN,
    NEAREST_MIP,
    REPEAT,
    SIXTEEN,
    UPPER,
    WRAP_S,
    WRAP_T,
    TextureFeatures,
    Textures,
)

MOST_TEXELS = 1 << 31  # that an int32 can number
ALIGNMENT = 64  # bytes
_WRAPS = {"repeat": REPEAT, "clamp": CLAMP, "mirror": MIRROR}
_SRGB_SLOTS = {*COLOURS, "diffuse_transmission.color_texture"}


@dataclass(frozen=True)
class TextureTables:
    """The tables, and the number that a texture has in them: of a texture of the scene, by its use. `texels`: the texels in the host's
    memory; `blocks`: where they are, of each image and use; `bytes` and `seconds`: what the tables take and took."""

    textures: Textures
    numbers: dict[tuple[int, Use], int]
    texels: NDArray[np.uint32] = field(repr=False)
    blocks: dict[tuple[int, Use], Block] = field(repr=False)
    bytes: int
    seconds: float

    def number(self, ref: TextureRef | None, slot: str, covers: bool = False) -> int:
        """The number that kernels know a slot's texture by; -1 for none. `covers`: the material's alpha says how much of it is there."""
        return -1 if ref is None else self.numbers.get((ref.texture, use_of(slot, covers)), -1)

    def holds(self, texture: int, slot: str, covers: bool) -> bool:
        """Whether a texture of the scene is here as the slot has it."""
        return (texture, use_of(slot, covers)) in self.numbers


class Block(NamedTuple):
    """Where the texels of an image begin, width and height of its levels, and what texels of 16 bits have in them (None: of 8)."""

    start: int
    sizes: list[tuple[int, int]]
    pair: Pair | None


class _Chain(NamedTuple):
    """Levels of an image for one use. mips: whether there is more than the first; read: the channels that kernels read."""

    mips: bool
    read: frozenset[str]


def use_of(slot: str, covers: bool = False) -> Use:
    """What is in a slot; `covers`: the alpha of its material's base colour says how much of it is there."""
    if slot not in _SRGB_SLOTS:
        return Use.numbers
    return Use.covered if covers and slot == "base_color_texture" else Use.colours


def texture_tables(
    scene: Scene,
    *,
    budget: int = BUDGET,
    warn: Callable[[str], None] | None = None,
    threads: int | None = None,
) -> TextureTables | None:
    """The tables of all textures that kernels read for the scene's materials; None where there are none.

    `budget`: bytes that the texels may take; `threads`: None for one a processor. `warn` hears, a line each, of pictures that were shrunk
    and of those that could not be decoded; where the scene is `strict` the latter raise SceneError. Raises MemoryError where there are
    more texels than can be numbered, or no room for one picture.
    """
    started = time.perf_counter()
    chains = _chains(scene)
    if not chains:
        return None
    plan = planned(scene, chains, budget, texel_bytes(scene), free_host_memory())
    blocks: dict[tuple[int, Use], Block] = {}
    total = 0
    for image, uses in chains.items():
        size = plan.size(image)
        for use, chain in uses.items():
            sizes = level_sizes(size.width, size.height, chain.mips)
            pair = pair_of(size.channels, set(chain.read), use) if size.depth > 1 else None
            blocks[image, use] = Block(total, sizes, pair)
            total += sum(width * height for width, height in sizes)
    if total >= MOST_TEXELS:
        raise MemoryError(
            f"{scene.path}: its textures have {total} texels with their levels of detail, but only {MOST_TEXELS - 1} can be numbered; "
            "use fewer or smaller pictures"
        )
    texels = _aligned(scene, total)
    failures = dict(plan.failures)
    slots = used_images(scene)

    def fill(image: int) -> None:
        try:
            picture = decode(scene.images[image], plan.halvings.get(image, 0))
        except PictureError as error:
            failures.setdefault(image, str(error))
            picture = placeholder(slots[image])
            for use in chains[image]:
                blocks[image, use] = Block(blocks[image, use].start, [(1, 1)], None)
        for use in chains[image]:
            block = blocks[image, use]
            write_levels(texels[block.start :], picture, block.sizes, use, block.pair)

    by_size = sorted(chains, key=lambda image: -plan.sizes[image].bytes if image in plan.sizes else 0)
    with ThreadPoolExecutor(_workers(plan, texels.nbytes, threads), thread_name_prefix="texture") as pool:
        list(pool.map(fill, by_size))
    failed(scene, failures, warn)
    for line in plan.shrunk(scene, failures):
        if warn is not None:
            warn(line)
    numbers, levels = _rows(scene, blocks)
    textures = Textures(Tensor.over(texels, dims=("texture_texels",)), Tensor(levels, dims=("texture_levels",)), _features(levels[:, 3]))
    return TextureTables(textures, numbers, texels, blocks, texels.nbytes + levels.nbytes, time.perf_counter() - started)


def texel_bytes(scene: Scene) -> Callable[[int, Size], int]:
    """What the images that kernels read take on the device, levels of detail and all, by their numbers and sizes."""
    chains = _chains(scene)

    def cost(image: int, size: Size) -> int:
        levels = (level_sizes(size.width, size.height, chain.mips) for chain in chains.get(image, {}).values())
        return sum(4 * width * height for sizes in levels for width, height in sizes)

    return cost


def _workers(plan: Plan, held: int, threads: int | None) -> int:
    """How many threads there is memory for beside `held` bytes, at least one."""
    count = max(1, min(len(plan.sizes), threads or os.cpu_count() or 1))
    free = free_host_memory()
    if free is None or not plan.sizes:
        return count
    return max(1, min(count, (free - held) // max(size.decoding for size in plan.sizes.values())))


def _uses(scene: Scene) -> dict[tuple[int, Use], set[str]]:
    """The textures that kernels read and that have an image, in order, each with what it is used as: the channels that are read."""
    uses: dict[tuple[int, Use], set[str]] = {}
    for material in scene.materials:
        for slot, ref in material.textures():
            if slot not in UNREAD and scene.textures[ref.texture].image is not None:
                use = use_of(slot, material.alpha_mode != "OPAQUE")
                uses.setdefault((ref.texture, use), set()).update(channels_of(slot))
    return uses


def _chains(scene: Scene) -> dict[int, dict[Use, _Chain]]:
    """The images of these textures, and what levels they need for each use."""
    chains: dict[int, dict[Use, _Chain]] = {}
    lamps = {m.emissive_texture.texture for m in scene.materials if m.emissive_texture is not None}  # `light_powers` wants all levels
    for (number, use), read in _uses(scene).items():
        texture = scene.textures[number]
        assert texture.image is not None
        of_image = chains.setdefault(texture.image, {})
        before = of_image.get(use, _Chain(False, frozenset()))
        of_image[use] = _Chain(before.mips or texture.mip is not None or number in lamps, before.read | read)
    return chains


def _rows(scene: Scene, blocks: dict[tuple[int, Use], Block]) -> tuple[dict[tuple[int, Use], int], NDArray[np.int32]]:
    """The numbers of the textures, and `Textures.levels`."""
    rows: list[tuple[int, int, int, int]] = []
    numbers = {}
    for number, use in _uses(scene):
        texture = scene.textures[number]
        assert texture.image is not None
        block = blocks[texture.image, use]
        sizes = block.sizes if texture.mip is not None else block.sizes[:1]
        rules = _rules(texture, len(sizes) - 1, block.pair)
        numbers[number, use] = len(rows)
        place = block.start
        for width, height in sizes:
            rows.append((place, width, height, rules))
            place += width * height
    return numbers, np.array(rows, np.int32)


def _aligned(scene: Scene, count: int) -> NDArray[np.uint32]:
    """Memory that kernels can work on as it is. Raises MemoryError, with what is needed and free."""
    try:
        raw = np.empty(count * 4 + ALIGNMENT, np.uint8)
    except MemoryError:
        free = free_host_memory()
        left = "" if free is None else f", and {free >> 20} MiB are free"
        raise MemoryError(f"{scene.path}: its textures need {count * 4 >> 20} MiB{left}") from None
    first = -raw.ctypes.data % ALIGNMENT
    return raw[first : first + count * 4].view(np.uint32)


def _rules(texture: Texture, coarsest: int, pair: Pair | None) -> int:
    rules = coarsest | _WRAPS[texture.wrap_s] << WRAP_S | _WRAPS[texture.wrap_t] << WRAP_T
    rules |= (texture.mag == "nearest") << NEAREST_MAG | (texture.min == "nearest") << NEAREST_MIN
    rules |= (texture.mip == "nearest") << NEAREST_MIP
    return rules if pair is None else rules | 1 << SIXTEEN | pair.high << UPPER


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
        sixteen=tuple(sorted({rule >> UPPER & 3 for rule in rules if rule >> SIXTEEN & 1})),
    )
