"""Pictures that are made from others, because the model has another place for what they say (`Image.recipe`).

Older formats have a picture for each value, or heights where the model has normals. What is made has as many bits a channel as what it is
made from. Where two pictures go into one, the first gives the size, and the nearest pixel of the second is taken.

    ""          the picture as it is; a second one becomes its alpha channel
    bump        normals from heights that tile; a picture with colours is a normal map already
    glossiness  green: the roughness 1 - amount * alpha
    coverage    white, with the picture as alpha
    roughness   green: the picture; blue: the second one
    shininess   green: the roughness sqrt(2 / (amount * picture + 2)) of a Phong exponent; blue: the second one
    metalness   blue: the picture
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from renderer.scene.model_texture import Image

Pixels = NDArray[Any]  # uint8 or uint16, [height, width, channels]
Values = NDArray[np.float32]

CHANNELS = {"bump": 3, "glossiness": 3, "coverage": 4, "roughness": 3, "shininess": 3, "metalness": 3}  # of what is made
BUMP = 4.0  # pixels that white stands above black in a map of heights of strength 1


def made(image: Image, pixels: Pixels, second: Pixels | None) -> Pixels:
    """The picture that an image asks for, of its file's pixels and those of its second file."""
    if image.recipe == "bump":
        return _bump(pixels, image.amount)
    if image.recipe == "glossiness":
        alpha = picked(pixels, "a")
        return _packed(pixels, {1: 1.0 - np.float32(image.amount) * alpha})
    first, other = picked(pixels, image.picks[0]), None if second is None else _fitted(picked(second, image.picks[1]), pixels)
    if image.recipe == "coverage":
        return _packed(pixels, {0: 1.0, 1: 1.0, 2: 1.0, 3: first})
    if image.recipe == "metalness":
        return _packed(pixels, {1: 1.0, 2: first})
    if image.recipe:
        rough = first if image.recipe == "roughness" else np.sqrt(2.0 / (np.float32(image.amount) * first + 2.0))
        return _packed(pixels, {1: rough, 2: 1.0 if other is None else other})
    return pixels if other is None else _with_alpha(pixels, other)


def picked(pixels: Pixels, channel: str) -> Values:
    """float32[height, width] within [0, 1]: red, green, blue or alpha ("r", "g", "b", "a"; 1 where there is none), or luminance ("l")."""
    scale, channels = np.float32(np.iinfo(pixels.dtype).max), pixels.shape[2]
    if channel == "a":
        return pixels[..., -1].astype(np.float32) / scale if channels in (2, 4) else np.ones(pixels.shape[:2], np.float32)
    if channels < 3:
        return pixels[..., 0].astype(np.float32) / scale
    if channel != "l":
        return pixels[..., "rgb".index(channel)].astype(np.float32) / scale
    grey: Values = (pixels[..., :3].astype(np.float32) / scale) @ np.array([0.2126, 0.7152, 0.0722], np.float32)
    return grey


def eight_bits(pixels: Pixels) -> NDArray[np.uint8]:
    """Pixels of 16 bits a channel with 8."""
    narrow: NDArray[np.uint8] = ((pixels.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)
    return narrow


def _rounded(values: Any, like: Pixels) -> Pixels:
    """Values within [0, 1] as numbers of as many bits as others have."""
    most = int(np.iinfo(like.dtype).max)
    rounded: Pixels = (np.clip(values, 0.0, 1.0) * np.float32(most) + np.float32(0.5)).astype(like.dtype)
    return rounded


def _packed(like: Pixels, channels: dict[int, Any]) -> Pixels:
    """A picture of the size and bits of another with these values in its channels, three or four; 0 elsewhere."""
    packed = np.zeros((*like.shape[:2], max(3, *(k + 1 for k in channels))), like.dtype)
    for number, values in channels.items():
        packed[..., number] = _rounded(values, like)
    return packed


def _fitted(values: Values, like: Pixels) -> Values:
    """Values at the nearest places of a picture of another size."""
    rows, columns = (np.arange(size) * have // size for size, have in zip(like.shape[:2], values.shape))
    fitted: Values = values[rows][:, columns]
    return fitted


def _with_alpha(pixels: Pixels, alpha: Values) -> NDArray[np.uint8]:
    """The picture's colours and an alpha."""
    colour = np.broadcast_to(pixels[..., :1], (*pixels.shape[:2], 3)) if pixels.shape[2] < 3 else pixels[..., :3]
    colour = colour if colour.dtype == np.uint8 else eight_bits(colour)
    return np.concatenate([colour, _rounded(alpha, colour)[..., None]], 2)


def _bump(pixels: Pixels, strength: float) -> Pixels:
    if pixels.shape[2] >= 3 and int(np.ptp(pixels[..., :3].astype(np.int32), axis=2).max()) > np.iinfo(pixels.dtype).max // 100:
        return np.ascontiguousarray(pixels[..., :3])
    height = picked(pixels, "l") * np.float32(strength * BUMP)
    across = (np.roll(height, 1, 1) - np.roll(height, -1, 1)) / 2
    down = (np.roll(height, 1, 0) - np.roll(height, -1, 0)) / 2
    normal = np.stack([across, -down, np.ones_like(height)], 2)
    return _rounded(normal / np.linalg.norm(normal, axis=2, keepdims=True) * 0.5 + 0.5, pixels)
