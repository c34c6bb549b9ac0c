"""Picture files: what the renderer writes (.png, .exr, .hdr, .npy) and what it reads (environments, tests).

Arrays are [height, width, 3 or 4], top row first, linear Rec.709 float32; only PNG holds display values, 8 bits through
the sRGB curve.  A file appears under its name complete or not at all: it is written beside it under a temporary name
and renamed.  Pillow and OpenEXR are imported by the format that needs them.

Radiance RGBE (G. Ward, "Real Pixels", Graphics Gems II, 1991): three mantissas share one exponent byte e, and a value
is mantissa / 256 * 2^(e - 128).  We write flat scanlines, which every reader takes: the run-length marker is (2, 2,
below 128), and one mantissa of a normalised pixel is at least 128.  We read flat scanlines and adaptive run lengths:
the four bytes in separate planes, each of runs (a count above 128: the next byte, count - 128 times) and literals.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renderer.scene.deep_png import deep_pixels, is_deep
from renderer.scene.files import read_file, write_whole
from renderer.scene.model import Float32s
from renderer.scene.overheard import overheard

F = TypeVar("F")
RUN_LENGTH_WIDTHS = range(8, 32768)  # widths whose scanlines may be run-length coded
LONGEST_RUN = 127
MOST_PIXELS = 1 << 28
BRIGHTEST = 1.69e38  # of what RGBE can hold
RESOLUTION = re.compile(rb"-Y (\d{1,9}) \+X (\d{1,9})")


class ImageError(Exception):
    """A picture that cannot be written or read. The message is one line: which file, what is wrong, what to do."""


def write_image(path: str | Path, array: ArrayLike, *, tonemapped: NDArray[np.uint8] | None = None) -> None:
    """Write a picture in the format of the name's ending: .png, .exr, .hdr or .npy.

    `array`: linear [height, width, 3 or 4], stored as float32 (.exr, .npy) or RGBE (.hdr: without alpha; NaN and
    negative values become 0).  `tonemapped`: uint8 [height, width, 3 or 4], what .png holds; without it .png holds
    `array` clipped to [0, 1] through the sRGB curve.  Raises `ImageError` for an unknown ending, a missing folder, an
    array of another shape, and a file that cannot be written; what was there under that name then stays.
    """
    file = Path(path)
    encode = _by_ending(_ENCODERS, file, "written")
    pixels: NDArray[Any] = np.asarray(array, np.float32)
    if tonemapped is not None and encode is _encode_png:
        pixels = np.asarray(tonemapped, np.uint8)
    _check_shape(file, pixels)
    if not file.parent.is_dir():
        raise ImageError(f"{file}: there is no folder {file.parent}; create it, or write elsewhere")
    try:
        write_whole(file, encode(np.ascontiguousarray(pixels)))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ImageError(f"{file}: cannot be written: {reason}; free space or write elsewhere") from None


def read_image(path: str | Path) -> Float32s:
    """Read a .png, .exr, .hdr or .npy as linear float32 [height, width, 3 or 4].

    PNG colours are taken as sRGB and made linear; alpha is linear. Raises `ImageError` for what is not such a picture.
    """
    file = Path(path)
    decode = _by_ending(_DECODERS, file, "read")
    try:
        data = read_file(file)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ImageError(f"{file}: cannot be read: {reason}; give the path of a picture") from None
    try:
        pixels = decode(data)
    except Exception as error:  # on a damaged file the decoders of others raise whatever they like
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ImageError(f"{file}: cannot be read: {reason}; the file may be damaged") from None
    _check_shape(file, pixels)
    return pixels


def _by_ending(formats: dict[str, F], file: Path, done: str) -> F:
    """The entry for the name's ending."""
    found = formats.get(file.suffix.lower())
    if found is None:
        names = ", ".join(sorted(formats))
        raise ImageError(f"{file}: the ending '{file.suffix}' is no picture format that can be {done}; use {names}")
    return found


def _check_shape(file: Path, pixels: NDArray[Any]) -> None:
    if pixels.ndim != 3 or pixels.shape[2] not in (3, 4) or not pixels.size:
        raise ImageError(f"{file}: a picture has shape [height, width, 3 or 4], this has {list(pixels.shape)}")


def _encode_png(pixels: NDArray[Any]) -> bytes:
    from PIL import Image

    if pixels.dtype != np.uint8:
        with np.errstate(invalid="ignore"):
            linear = np.clip(np.nan_to_num(pixels), 0.0, 1.0)
        curved = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
        curved[..., 3:] = linear[..., 3:]
        pixels = (curved * 255 + 0.5).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def _decode_png(data: bytes) -> Float32s:
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # the check is ours, and its answer an error
    with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
        if image.width * image.height > MOST_PIXELS:
            raise ValueError(f"{image.width} by {image.height} pixels are too many")
        if is_deep(data[:33]):
            values = deep_pixels(data).astype(np.float32) / np.float32(65535)
            if values.shape[2] < 3:  # of grey
                values = values[..., [0, 0, 0, *range(1, values.shape[2])]]
        else:
            transparent = "A" in image.getbands() or "transparency" in image.info
            values = np.asarray(image.convert("RGBA" if transparent else "RGB")).astype(np.float32) / np.float32(255)
    colour = values[..., :3]
    values[..., :3] = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return values


def _encode_exr(pixels: NDArray[Any]) -> bytes:
    import OpenEXR

    name = "RGBA"[: pixels.shape[2]]
    header = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
    stream = io.BytesIO()
    OpenEXR.File(header, {name: pixels}).write(stream)
    return stream.getvalue()


def _decode_exr(data: bytes) -> Float32s:
    import OpenEXR

    with overheard() as told:
        try:
            with OpenEXR.File(io.BytesIO(data)) as image:
                channels = {name: channel.pixels for name, channel in image.channels().items()}
        except Exception as error:
            lines = [line.partition(") ")[2] for line in told() if "EXR_ERR" in line]
            raise ValueError(lines[0] if lines else str(error)) from None
    for name in ("RGBA", "RGB"):
        if name in channels:
            return np.asarray(channels[name], np.float32)
    if "Y" not in channels:
        raise ValueError(f"its channels are {', '.join(sorted(channels))}, not R, G, B")
    return np.repeat(np.asarray(channels["Y"], np.float32)[..., None], 3, 2)


def _encode_npy(pixels: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, pixels, allow_pickle=False)
    return stream.getvalue()


def _decode_npy(data: bytes) -> Float32s:
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    if math.prod(shape) * dtype.itemsize > len(data):
        raise ValueError(f"{len(data)} bytes are too few for {list(shape)}")
    loaded: Float32s = np.load(io.BytesIO(data), allow_pickle=False).astype(np.float32)
    return loaded


def _encode_hdr(pixels: NDArray[Any]) -> bytes:
    height, width = pixels.shape[:2]
    colour = np.clip(np.nan_to_num(pixels[..., :3].astype(np.float64)), 0.0, BRIGHTEST)
    brightest = colour.max(2)
    _, exponent = np.frexp(brightest)
    rgbe = np.zeros((height, width, 4), np.uint8)
    # Round to nearest, unless that would carry the mantissa to 256.
    mantissas = np.minimum(np.ldexp(colour, (8 - exponent)[..., None]) + 0.5, 255.0)
    visible = (brightest > 0) & (exponent > -128)
    rgbe[visible, :3] = mantissas[visible].astype(np.uint8)
    rgbe[visible, 3] = (exponent[visible] + 128).astype(np.uint8)
    header = f"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y {height} +X {width}\n"
    return header.encode() + rgbe.tobytes()


def _decode_hdr(data: bytes) -> Float32s:
    header, blank, rest = data.partition(b"\n\n")
    line, newline, body = rest.partition(b"\n")
    resolution = RESOLUTION.fullmatch(line)
    if header[:2] != b"#?" or b"32-bit_rle_rgbe" not in header or not blank or not newline or resolution is None:
        raise ValueError("not a Radiance RGBE picture of top-down rows")
    height, width = int(resolution[1]), int(resolution[2])
    if not 0 < height * width <= min(MOST_PIXELS, LONGEST_RUN * len(body)):
        raise ValueError(f"{width} by {height} pixels cannot be in {len(body)} bytes")
    rgbe = np.zeros((height, width, 4), np.uint8)
    at = 0
    for row in range(height):
        start = body[at : at + 4]
        if start[:2] == b"\2\2" and len(start) == 4 and start[2] < 128 and width in RUN_LENGTH_WIDTHS:
            if start[2] << 8 | start[3] != width:
                raise ValueError(f"row {row} is of another width")
            planes, at = _expand_runs(body, at + 4, 4 * width)
            rgbe[row] = np.frombuffer(planes, np.uint8).reshape(4, width).T
        else:
            if len(body) - at < 4 * width:
                raise ValueError(f"cut off in row {row} of {height}")
            rgbe[row] = np.frombuffer(body, np.uint8, 4 * width, at).reshape(width, 4)
            at += 4 * width
    scale = np.ldexp(np.float32(1), rgbe[..., 3].astype(np.int32) - 136)
    scale[rgbe[..., 3] == 0] = 0
    values: Float32s = rgbe[..., :3].astype(np.float32) * scale[..., None]
    return values


def _expand_runs(data: bytes, at: int, length: int) -> tuple[bytearray, int]:
    """`length` bytes from runs and literals that begin at `at`, and where they end."""
    out = bytearray()
    while len(out) < length:
        if at + 1 >= len(data):
            raise ValueError("cut off inside a run")
        count = data[at]
        if count > 128:
            out += data[at + 1 : at + 2] * (count - 128)
            at += 2
        else:
            out += data[at + 1 : at + 1 + count]
            at += 1 + count
    if len(out) != length:
        raise ValueError("a run goes past the end of its row")
    return out, at


_ENCODERS: dict[str, Callable[[NDArray[Any]], bytes]] = {
    ".exr": _encode_exr,
    ".hdr": _encode_hdr,
    ".npy": _encode_npy,
    ".png": _encode_png,
}
_DECODERS: dict[str, Callable[[bytes], Float32s]] = {
    ".exr": _decode_exr,
    ".hdr": _decode_hdr,
    ".npy": _decode_npy,
    ".png": _decode_png,
}
