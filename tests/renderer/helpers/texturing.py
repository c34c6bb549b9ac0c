"""Textures for tests, seen on a device; and the same with NumPy in float64 by the letter of the specification: integers are wrapped, then
four texels are mixed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine import Tensor, jit
from renderer.scene.model import Image, Material, Scene, Texture
from renderer.scene.model_texture import TextureRef
from renderer.shading.texture import Textures
from tests.renderer.helpers.picture_files import deep_png, png
from tests.renderer.helpers.tracing import device

Floats = NDArray[np.float64]


def material(slot: str, ref: TextureRef) -> Material:
    """A material with one texture, in a slot of its own."""
    return Material(**{slot: ref})  # type: ignore[arg-type]


def textured(*pairs: tuple[NDArray[Any], Texture], slot: str = "metallic_roughness_texture") -> Scene:
    """A scene of as many materials, each with a texture of a picture of its own in the same slot."""
    files = [png(pixels) if pixels.dtype == np.uint8 else deep_png(pixels.reshape(*pixels.shape[:2], -1)) for pixels, _ in pairs]
    images = [Image("made", file, f"images[{k}]") for k, file in enumerate(files)]
    textures = [texture for _, texture in pairs]
    return Scene(
        Path("made.glb"), materials=[material(slot, TextureRef(k)) for k in range(len(pairs))], textures=textures, images=images
    )


def look(textures: Textures, texture: Any, u: Any, v: Any, seen: Any = None, backend: str = "cpu", **more: Any) -> Floats:
    """float64[n, channels]: the textures at (u, v); `seen`: footprints."""
    count = len(np.atleast_1d(u))

    def run(textures: Textures, texture: Tensor, u: Tensor, v: Tensor, seen: Any) -> Any:
        return textures.sample(texture, (u, v), seen, **more)

    def lanes(values: Any, dtype: Any) -> Tensor:
        return Tensor(np.broadcast_to(np.asarray(values, dtype), count).copy(), dims=("lanes",))

    given = [lanes(texture, np.int32), lanes(u, np.float32), lanes(v, np.float32), None if seen is None else lanes(seen, np.float32)]
    found = jit(run, device=device(backend))(textures, *given)
    return np.stack([np.broadcast_to(c.numpy(), count) for c in found], 1).astype(np.float64)


def light(stored: Any) -> Floats:
    """sRGB to linear, IEC 61966-2-1."""
    v = np.asarray(stored, np.float64)
    return np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)


def stored(linear: Any) -> Floats:
    """Linear to sRGB, IEC 61966-2-1."""
    v = np.asarray(linear, np.float64)
    return np.where(v <= 0.0031308, v * 12.92, 1.055 * v ** (1 / 2.4) - 0.055)


def wrapped(i: Any, size: int, how: str) -> NDArray[np.int64]:
    """The texel that stands at an integer, anywhere: OpenGL 4.6, table 8.22."""
    if how == "repeat":
        return np.mod(i, size)
    if how == "clamp":
        return np.clip(i, 0, size - 1)
    i = np.mod(i, 2 * size)
    return np.where(i < size, i, 2 * size - 1 - i)


def one_level(level: Floats, u: Floats, v: Floats, texture: Texture, how: str) -> Floats:
    """float64[n, channels] of a level float64[h, w, channels]; `how`: "nearest" or "linear"."""
    height, width = level.shape[:2]
    if how == "nearest":
        i, j = np.floor(u * width).astype(np.int64), np.floor(v * height).astype(np.int64)
        return level[wrapped(j, height, texture.wrap_t), wrapped(i, width, texture.wrap_s)]
    x, y = u * width - 0.5, v * height - 0.5
    i, j = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
    result = np.zeros((len(u), level.shape[2]))
    for di in (0, 1):
        for dj in (0, 1):
            weight = (x - i if di else 1 - x + i) * (y - j if dj else 1 - y + j)
            result += weight[:, None] * level[wrapped(j + dj, height, texture.wrap_t), wrapped(i + di, width, texture.wrap_s)]
    return result


def sampled(levels: list[Floats], u: Floats, v: Floats, lod: Floats, texture: Texture) -> Floats:
    """float64[n, channels]: the levels at (u, v), from fine to coarse."""
    far = lod > 0
    result = np.where(
        far[:, None], one_level(levels[0], u, v, texture, texture.min), one_level(levels[0], u, v, texture, texture.mag)
    )
    if texture.mip is None:
        return result
    held = np.clip(lod, 0, len(levels) - 1)
    each = np.stack(
        [np.where(far[:, None], one_level(level, u, v, texture, texture.min), result if k == 0 else 0) for k, level in enumerate(levels)]
    )
    lane = np.arange(len(u))
    if texture.mip == "nearest":
        return each[np.floor(held + 0.5).astype(int), lane]
    low = np.floor(held).astype(int)
    part = (held - low)[:, None]
    return each[low, lane] * (1 - part) + each[np.minimum(low + 1, len(levels) - 1), lane] * part
