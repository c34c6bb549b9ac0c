"""The pixels of a scene's pictures: decoded in parallel, within a budget that is worked out before anything is decoded.

A header says how large a picture is; the sum over all that materials use is compared with the budget, and while it is too large the
largest picture is halved. So a scene with sixteen pictures of 8192 x 8192 neither fills the device nor stops: it is drawn coarser, and
a message names the old and the new size. A picture whose header claims more than any device can hold is not decoded at all.

What comes out is what a kernel needs: uint8 or uint16 [height, width, channels], 1 channel for grey, 2 with alpha, 3 or 4 for colour,
palettes and CMYK turned into colours; 16 bits stay 16 where a picture is grey, and become 8 where it has colours. Values are as
stored, through the sRGB curve or not: the slot decides. A picture that cannot be decoded becomes one pixel with a warning: magenta
where it is a colour, the straight normal of a normal map, else white. Pillow does the decoding, and lets other threads run meanwhile.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renderer.scene.model import Image, Scene, SceneError

Pixels = NDArray[Any]  # uint8 or uint16, [height, width, channels]

BUDGET = 4 << 30  # bytes of all pictures together, where the caller names none
MOST_PIXELS = 1 << 28  # of one picture
FEW_PIXELS = 1 << 26  # that a picture may have however small its file
PIXELS_A_BYTE = 1 << 14  # and for each byte of it: twice what deflate reaches with a bit a pixel
KINDS = ["PNG", "JPEG", "WEBP"]
CHANNELS = {"1": 1, "L": 1, "I;16": 1, "I": 1, "LA": 2, "RGB": 3, "CMYK": 3, "YCbCr": 3, "RGBA": 4}  # by Pillow's mode
NORMALS = ("normal_texture", "clearcoat.normal_texture")
COLOURS = ("base_color_texture", "emissive_texture", "specular_color_texture", "sheen.color_texture")
MAGENTA, UP, WHITE = (255, 0, 255, 255), (128, 128, 255, 255), (255, 255, 255, 255)


@dataclass(frozen=True)
class Size:
    """What a picture's header says: pixels, channels and bytes a channel once it is decoded."""

    width: int
    height: int
    channels: int
    depth: int

    @property
    def bytes(self) -> int:
        return self.width * self.height * self.channels * self.depth

    def halved(self, times: int) -> Size:
        """The size after so many halvings, each at least one pixel."""
        return Size(max(1, self.width >> times), max(1, self.height >> times), self.channels, self.depth)


Cost = Callable[[int, Size], int]  # bytes that an image takes, by its number, if it has that size


class PictureError(Exception):
    """A picture that cannot be decoded; the text says why."""


def used_images(scene: Scene) -> dict[int, str]:
    """The images that materials use, each with the first slot that uses it."""
    used: dict[int, str] = {}
    for material in scene.materials:
        for slot, ref in material.textures():
            image = scene.textures[ref.texture].image
            if image is not None and (image not in used or slot in COLOURS):
                used[image] = slot
    return used


def picture_sizes(scene: Scene) -> dict[int, Size]:
    """What the pictures that materials use will take, by image, from their headers; without those that cannot be read."""
    sizes = {}
    for number in used_images(scene):
        try:
            sizes[number] = size_of(scene.images[number])
        except PictureError:
            continue
    return sizes


def decode_images(
    scene: Scene,
    *,
    budget: int = BUDGET,
    strict: bool = False,
    warn: Callable[[str], None] | None = None,
    threads: int | None = None,
    cost: Cost | None = None,
) -> list[Pixels | None]:
    """The pixels of each of the scene's images, None for those that no material uses.

    `budget`: bytes of all together, by `cost` (None: as decoded); `threads`: None for one a processor. `warn` hears, a line each, of
    pictures that were shrunk and of those that could not be decoded; with `strict` the latter raise `SceneError`.
    """
    used = used_images(scene)
    sizes: dict[int, Size] = {}
    failures: dict[int, str] = {}
    for number in used:
        try:
            sizes[number] = size_of(scene.images[number])
        except PictureError as error:
            failures[number] = str(error)
    halvings = halvings_within(sizes, budget, cost)
    need = sum((cost or _decoded)(number, size) for number, size in sizes.items())
    found: list[Pixels | None] = [None] * len(scene.images)

    def decoded(number: int) -> None:
        try:
            found[number] = decode(scene.images[number], halvings[number])
        except PictureError as error:
            failures[number] = str(error)

    if sizes:
        workers = min(len(sizes), threads or os.cpu_count() or 1)
        with ThreadPoolExecutor(workers, thread_name_prefix="picture") as pool:
            list(pool.map(decoded, sorted(sizes, key=lambda number: -sizes[number].bytes)))
    for number in sorted(used):
        image = scene.images[number]
        if number in failures:
            found[number] = _placeholder(used[number])
            text = f"{image.at}: {failures[number]}; a placeholder is drawn"
            if strict:
                raise SceneError(f"{scene.path}: {text} (an error because of strict mode)")
            # A picture that was not to be had has been told of by the importer.
            if warn is not None and image.source is not None:
                warn(text)
        elif halvings[number] and warn is not None:
            old, new = sizes[number], sizes[number].halved(halvings[number])
            sums = f"all pictures need {need >> 20} MiB, but may have {budget >> 20}"
            warn(f"{image.at}: shrunk from {old.width} x {old.height} to {new.width} x {new.height}: {sums}")
    return found


def size_of(image: Image) -> Size:
    """What an image will take, from its header. Raises `PictureError`."""
    with _opened(image.source) as picture:
        channels = _channels(picture)
        depth = 2 if picture.mode.startswith("I") else 1
        if image.recipe:
            channels, depth = 3, 1
        elif image.alpha is not None:
            channels, depth = 4, 1
        return Size(picture.width, picture.height, channels, depth)


def decode(image: Image, halvings: int = 0) -> Pixels:
    """The pixels of an image, halved in size so many times. Raises `PictureError`."""
    pixels = _pixels(image.source, halvings)
    if image.recipe == "glossiness":
        pixels = _roughness(pixels, image.amount)
    elif image.recipe == "bump":
        pixels = _bump(pixels, image.amount)
    if image.alpha is not None:
        pixels = _with_alpha(pixels, image.alpha)
    return pixels


def stored(image: Image) -> bytes | None:
    """The image as the bytes of a PNG, JPEG or WebP file, None where there is none. Raises OSError where its file cannot be read."""
    if image.source is None:
        return None
    data = image.source.read_bytes() if isinstance(image.source, Path) else bytes(image.source)
    if not image.recipe and image.alpha is None:
        return data
    from PIL import Image as Pillow

    stream = io.BytesIO()
    try:
        pixels = decode(image)
    except PictureError:
        return data
    Pillow.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(stream, "PNG")
    return stream.getvalue()


def kind_of(data: bytes) -> str:
    """The media type of a picture file."""
    return "image/png" if data[:4] == b"\x89PNG" else "image/jpeg" if data[:3] == b"\xff\xd8\xff" else "image/webp"


def _data(source: bytes | memoryview | Path | None) -> bytes:
    if source is None:
        raise PictureError("there is no picture")
    if not isinstance(source, Path):
        return bytes(source)
    try:
        return source.read_bytes()
    except OSError as error:
        raise PictureError(f"'{source.name}' cannot be read: {(error.strerror or str(error)).lower()}") from None


def _opened(source: bytes | memoryview | Path | None) -> Any:
    """Pillow's picture, its header read and its size found sane. Raises `PictureError`."""
    from PIL import Image as Pillow

    Pillow.MAX_IMAGE_PIXELS = None  # the check below is ours, so that its answer is a message and not a warning
    data = _data(source)
    size = len(data)
    try:
        picture = Pillow.open(io.BytesIO(data), formats=KINDS)
    except Exception as error:  # on a damaged file decoders raise whatever they like
        raise PictureError(f"is no PNG, JPEG or WebP picture ({type(error).__name__})") from None
    width, height = picture.size
    if not 0 < width * height <= min(MOST_PIXELS, max(FEW_PIXELS, PIXELS_A_BYTE * size)):
        picture.close()
        raise PictureError(f"{width} x {height} pixels are too many for {size} bytes")
    return picture


def _channels(picture: Any) -> int:
    """The channels that a picture of Pillow's will have."""
    transparent = "transparency" in picture.info
    if picture.mode in ("P", "PA"):
        return 4 if transparent or picture.mode == "PA" or picture.palette.mode == "RGBA" else 3
    channels = CHANNELS.get(picture.mode)
    if channels is None:
        raise PictureError(f"its pixels are of a kind that is not known ({picture.mode})")
    return channels + 1 if transparent and channels in (1, 3) and picture.mode[0] != "I" else channels


def _pixels(source: bytes | memoryview | Path | None, halvings: int) -> Pixels:
    with _opened(source) as picture:
        channels, size = _channels(picture), Size(picture.width, picture.height, 1, 1)
        try:
            if halvings and picture.format == "JPEG":
                small = size.halved(halvings)
                picture.draft(picture.mode, (small.width, small.height))  # the decoder halves for nothing
            if picture.mode.startswith("I"):
                pixels: Pixels = np.asarray(picture).astype(np.uint16)[..., None]
            else:
                wanted = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[channels]
                pixels = np.asarray(picture if picture.mode == wanted else picture.convert(wanted), np.uint8)
                pixels = pixels.reshape(*pixels.shape[:2], channels)
        except Exception as error:  # on a damaged file decoders raise whatever they like
            reason = (str(error) or type(error).__name__).splitlines()[0][:100]
            raise PictureError(f"the picture is damaged ({reason})") from None
    while pixels.shape[:2] > (1, 1) and _larger(pixels, size.halved(halvings)):
        pixels = _half(pixels)
    return pixels


def _larger(pixels: Pixels, size: Size) -> bool:
    return bool(pixels.shape[0] > size.height or pixels.shape[1] > size.width)


def _half(pixels: Pixels) -> Pixels:
    """Half as wide and high, each pixel the mean of four; a last odd row or column is left out."""
    height, width, channels = pixels.shape
    rows, columns = (2 if height > 1 else 1), (2 if width > 1 else 1)
    blocks = pixels[: height // rows * rows, : width // columns * columns]
    blocks = blocks.reshape(height // rows, rows, width // columns, columns, channels)
    mean = (blocks.sum((1, 3), np.uint32) + rows * columns // 2) // (rows * columns)
    halved: Pixels = mean.astype(pixels.dtype)
    return halved


def halvings_within(sizes: dict[int, Size], budget: int, cost: Cost | None = None) -> dict[int, int]:
    """How often each picture is halved, the largest first, until all are within the budget; `cost`: the bytes of a picture of a size."""
    cost = cost or _decoded
    halvings = dict.fromkeys(sizes, 0)
    now = dict(sizes)
    bytes_of = {number: cost(number, size) for number, size in sizes.items()}
    while sum(bytes_of.values()) > budget:
        largest = max(now, key=lambda number: bytes_of[number])
        if now[largest].width == now[largest].height == 1:
            break
        halvings[largest] += 1
        now[largest] = sizes[largest].halved(halvings[largest])
        bytes_of[largest] = cost(largest, now[largest])
    return halvings


def _decoded(number: int, size: Size) -> int:
    return size.bytes


def _placeholder(slot: str) -> NDArray[np.uint8]:
    pixel = UP if slot in NORMALS else MAGENTA if slot in COLOURS else WHITE
    return np.array([[pixel]], np.uint8)


def _grey(pixels: Pixels) -> NDArray[np.float32]:
    """Luminance within [0, 1], float32[height, width]."""
    scale = np.float32(np.iinfo(pixels.dtype).max)
    values = pixels.astype(np.float32) / scale
    if values.shape[2] < 3:
        return values[..., 0]
    grey: NDArray[np.float32] = values[..., :3] @ np.array([0.2126, 0.7152, 0.0722], np.float32)
    return grey


def _bytes(values: Any) -> NDArray[np.uint8]:
    """Values within [0, 1] as bytes."""
    rounded: NDArray[np.uint8] = (np.clip(values, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
    return rounded


def _roughness(pixels: Pixels, glossiness: float) -> NDArray[np.uint8]:
    """Green: one minus glossiness times alpha, as a metallic-roughness texture has it."""
    alpha = _grey(pixels[..., 3:]) if pixels.shape[2] == 4 else np.ones(pixels.shape[:2], np.float32)
    made = np.zeros((*pixels.shape[:2], 3), np.uint8)
    made[..., 1] = _bytes(1.0 - np.float32(glossiness) * alpha)
    return made


def _bump(pixels: Pixels, strength: float) -> Pixels:
    """A normal map from a grey picture of heights that tile; a picture with colours is a normal map already."""
    if pixels.shape[2] >= 3 and int(np.ptp(pixels[..., :3].astype(np.int32), axis=2).max()) > 2:
        return np.ascontiguousarray(pixels[..., :3])
    height = _grey(pixels) * np.float32(strength * BUMP)
    across = (np.roll(height, 1, 1) - np.roll(height, -1, 1)) / 2
    down = (np.roll(height, 1, 0) - np.roll(height, -1, 0)) / 2
    normal = np.stack([across, -down, np.ones_like(height)], 2)
    return _bytes(normal / np.linalg.norm(normal, axis=2, keepdims=True) * 0.5 + 0.5)


def _with_alpha(pixels: Pixels, file: Path) -> NDArray[np.uint8]:
    """The picture as RGBA, its alpha the luminance of another picture file, taken at the nearest pixels."""
    alpha = _grey(_pixels(file, 0))
    rows, columns = (np.arange(size) * have // size for size, have in zip(pixels.shape[:2], alpha.shape))
    colour = np.broadcast_to(pixels, (*pixels.shape[:2], 3)) if pixels.shape[2] < 3 else pixels[..., :3]
    colour = colour if colour.dtype == np.uint8 else (colour >> 8).astype(np.uint8)
    return np.concatenate([colour, _bytes(alpha[rows][:, columns])[..., None]], 2)


BUMP = 4.0  # pixels that white stands above black in a map of heights of strength 1
