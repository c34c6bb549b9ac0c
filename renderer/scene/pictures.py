"""The pixels of a scene's pictures, and the plan by which they are decoded: how large each may be, worked out before any is.

A header says how large a picture is; the sum over all that materials use is compared with the budget, and while it is too large the
largest picture is halved. So a scene with sixteen pictures of 8192 x 8192 neither fills the device nor stops: it is drawn coarser, and
a message names the old and the new size. A picture whose header claims more than any device can hold is not decoded at all.

What comes out is what a kernel needs: uint8 or uint16 [height, width, channels], 1 channel for grey, 2 with alpha, 3 or 4 for colour,
palettes and CMYK turned into colours. Values are as stored, through the sRGB curve or not: the slot decides. A picture that cannot be
decoded becomes one pixel with a warning: magenta where it is a colour, the straight normal of a normal map, else white. Pillow does the
decoding, and lets other threads run meanwhile; PNGs of 16 bits have `deep_png`, Basis Universal has `ktx2`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from renderer.scene.deep_png import CHANNELS as CHANNELS_OF_DEEP
from renderer.scene.deep_png import SIGNATURE, deep_pixels, has_clear_colour, is_deep
from renderer.scene.ktx2 import has_alpha, is_ktx2, ktx2_pixels, size_of_ktx2
from renderer.scene.model import Image, Scene, SceneError
from renderer.scene.recipes import CHANNELS as CHANNELS_OF_RECIPES
from renderer.scene.recipes import Pixels, eight_bits, made

T = TypeVar("T")

MOST_PIXELS = 1 << 28  # of one picture
FEW_PIXELS = 1 << 26  # that a picture may have however small its file
PIXELS_A_BYTE = 1 << 14  # and for each byte of it: twice what deflate reaches with a bit a pixel
KINDS = ["PNG", "JPEG", "WEBP"]
CHANNELS = {"1": 1, "L": 1, "LA": 2, "RGB": 3, "CMYK": 3, "YCbCr": 3, "RGBA": 4}  # by Pillow's mode
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

    @property
    def decoding(self) -> int:
        """The most bytes that are taken while such a picture is decoded and made smaller: the decoder's pixels, ours, and a half of
        them with 16 bits a channel; of deep ones also the file's bytes as they are and split."""
        return self.width * self.height * (4 + self.channels * self.depth + self.channels) + (2 * self.bytes if self.depth > 1 else 0)

    def halved(self, times: int) -> Size:
        """The size after so many halvings, each at least one pixel."""
        return Size(max(1, self.width >> times), max(1, self.height >> times), self.channels, self.depth)


ONE_PIXEL = Size(1, 1, 4, 1)
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


@dataclass(frozen=True)
class Plan:
    """The sizes to which pictures are made, by image: what their headers say, halved `halvings` times. `failures`: of those whose header
    cannot be read, why; they are placeholders. need, budget: bytes of all as they are, and that they may take."""

    sizes: dict[int, Size]
    halvings: dict[int, int]
    failures: dict[int, str]
    need: int
    budget: int

    def size(self, image: int) -> Size:
        """The size of an image; one pixel for a placeholder."""
        return self.sizes[image].halved(self.halvings[image]) if image in self.sizes else ONE_PIXEL

    def shrunk(self, scene: Scene, failures: Collection[int] = ()) -> Iterator[str]:
        """A line for each picture that is made smaller than it is, but for those that could not be decoded after all."""
        for number in sorted(self.sizes):
            if self.halvings[number] and number not in failures:
                old, new = self.sizes[number], self.size(number)
                sums = f"all pictures need {self.need >> 20} MiB, but may have {self.budget >> 20}"
                yield f"{scene.images[number].at}: shrunk from {old.width} x {old.height} to {new.width} x {new.height}: {sums}"


def planned(scene: Scene, images: Iterable[int], budget: int, cost: Cost, free: int | None = None) -> Plan:
    """The plan for some of the scene's images: `cost` of all of them within `budget`, in bytes, if halving can do that. `free`: bytes
    that the host has, None where that is not known. The budget is less where there would be none left to decode the largest picture in;
    raises MemoryError where there is not even room for that."""
    sizes: dict[int, Size] = {}
    failures: dict[int, str] = {}
    for number in images:
        try:
            sizes[number] = size_of(scene.images[number])
        except PictureError as error:
            failures[number] = str(error)
    need = sum(cost(number, size) for number, size in sizes.items())
    if sizes and free is not None:
        largest = max(sizes, key=lambda number: sizes[number].decoding)
        size = sizes[largest]
        if size.decoding >= free:
            raise MemoryError(
                f"{scene.path}: {scene.images[largest].at}: decoding {size.width} x {size.height} pixels needs {size.decoding >> 20} MiB, "
                f"and {free >> 20} MiB are free"
            )
        budget = min(budget, free - size.decoding)
    return Plan(sizes, halvings_within(sizes, budget, cost), failures, need, budget)


def failed(scene: Scene, failures: dict[int, str], warn: Callable[[str], None] | None) -> None:
    """Tells of pictures that could not be decoded, by image; where the scene is strict the first raises `SceneError`."""
    for number in sorted(failures):
        image = scene.images[number]
        text = f"{image.at}: {failures[number]}; a placeholder is drawn"
        if scene.strict:
            raise SceneError(f"{scene.path}: {text} (an error because of strict mode)")
        if warn is not None and image.source is not None:  # a picture that was not to be had has been told of by the importer
            warn(text)


def size_of(image: Image) -> Size:
    """What an image will take, from its header. Raises `PictureError`."""
    size = _file_size(_data(image.source))
    if image.recipe:
        return replace(size, channels=CHANNELS_OF_RECIPES[image.recipe])
    return size if image.second is None else replace(size, channels=4, depth=1)


def _file_size(data: bytes) -> Size:
    if is_ktx2(data):
        size = _checked(*_read(size_of_ktx2, data), 4, 1, len(data))  # before the file is opened
        return size if _read(has_alpha, data) else replace(size, channels=3)
    with _opened(data) as picture:
        deep = picture.format == "PNG" and is_deep(data[:33])
        channels = CHANNELS_OF_DEEP[data[25]] + has_clear_colour(data) if deep else _channels(picture)
        return _checked(picture.width, picture.height, channels, 2 if deep else 1, len(data))


def _checked(width: int, height: int, channels: int, depth: int, bytes: int) -> Size:
    """A size that is no larger than a file of so many bytes can have. Raises `PictureError`."""
    if not 0 < width * height <= min(MOST_PIXELS, max(FEW_PIXELS, PIXELS_A_BYTE * bytes)):
        raise PictureError(f"{width} x {height} pixels are too many for {bytes} bytes")
    return Size(width, height, channels, depth)


def _read(what: Callable[..., T], *data: Any) -> T:
    """What a decoder makes of a file. Raises `PictureError` with its reason."""
    try:
        return what(*data)
    except MemoryError:
        raise
    except Exception as error:  # on a damaged file decoders raise whatever they like
        reason = (str(error) or type(error).__name__).splitlines()[0][:100]
        raise PictureError(reason if reason.startswith("is ") else f"the picture is damaged ({reason})") from None


def decode(image: Image, halvings: int = 0) -> Pixels:
    """The pixels of an image; those that may be halved so many times come smaller already where that is cheaper. Raises `PictureError`."""
    pixels = _pixels(image.source, 0 if image.recipe else halvings)
    return made(image, pixels, None if image.second is None else _pixels(image.second, 0))


def placeholder(slot: str) -> NDArray[np.uint8]:
    """uint8[1, 1, 4]: what is seen of a picture of a slot that cannot be decoded."""
    pixel = UP if slot in NORMALS else MAGENTA if slot in COLOURS else WHITE
    return np.array([[pixel]], np.uint8)


def stored(image: Image) -> bytes | None:
    """The image as the bytes of a PNG, JPEG or WebP file, None where none is to be had. Raises OSError where its file cannot be read."""
    if image.source is None:
        return None
    data = image.source.read_bytes() if isinstance(image.source, Path) else bytes(image.source)
    if not image.recipe and image.second is None and not is_ktx2(data):
        return data
    from PIL import Image as Pillow

    stream = io.BytesIO()
    try:
        pixels = decode(image)
    except PictureError:
        return None if is_ktx2(data) else data
    if pixels.shape[2] > 1 and pixels.dtype == np.uint16:
        pixels = eight_bits(pixels)
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


def _opened(data: bytes) -> Any:
    """Pillow's picture, its header read. Raises `PictureError`."""
    from PIL import Image as Pillow

    Pillow.MAX_IMAGE_PIXELS = None  # the check of the size is ours, so that its answer is a message and not a warning
    try:
        picture = Pillow.open(io.BytesIO(data), formats=KINDS)
    except Exception as error:  # on a damaged file decoders raise whatever they like
        raise PictureError(f"is no PNG, JPEG or WebP picture ({type(error).__name__})") from None
    if data[:8] == SIGNATURE and data[25] == 0 and data[24] in (2, 4) and "transparency" in picture.info:
        picture.info["transparency"] *= 255 // ((1 << data[24]) - 1)  # it widens the shades to bytes, and not that which is transparent
    return picture


def _channels(picture: Any) -> int:
    """The channels that a picture of Pillow's will have."""
    transparent = "transparency" in picture.info
    if picture.mode in ("P", "PA"):
        return 4 if transparent or picture.mode == "PA" or picture.palette.mode == "RGBA" else 3
    channels = CHANNELS.get(picture.mode)
    if channels is None:
        raise PictureError(f"its pixels are of a kind that is not known ({picture.mode})")
    return channels + 1 if transparent and channels in (1, 3) else channels


def _pixels(source: bytes | memoryview | Path | None, halvings: int) -> Pixels:
    data = _data(source)
    size = _file_size(data)
    if is_ktx2(data):
        return _read(ktx2_pixels, data, halvings)
    return _read(deep_pixels, data) if size.depth > 1 else _read(_shallow_pixels, data, size, halvings)


def _shallow_pixels(data: bytes, size: Size, halvings: int) -> Pixels:
    """uint8 of a picture that Pillow reads."""
    with _opened(data) as picture:
        if halvings and picture.format == "JPEG":
            small = size.halved(halvings)
            picture.draft(picture.mode, (small.width, small.height))  # the decoder halves for nothing
        wanted = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[size.channels]
        pixels = np.asarray(picture if picture.mode == wanted else picture.convert(wanted), np.uint8)
        return pixels.reshape(*pixels.shape[:2], size.channels)


def halvings_within(sizes: dict[int, Size], budget: int, cost: Cost) -> dict[int, int]:
    """How often each picture is halved, the largest first, until all are within the budget; `cost`: the bytes of a picture of a size."""
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
