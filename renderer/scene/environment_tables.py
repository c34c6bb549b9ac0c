"""The tables by which a picture of the surroundings lights a scene: made on the host, once for each picture.

Each texel gets the probability with which it is chosen as the place where light comes from: the mean luminance over it, times its solid
angle. Radiance is interpolated between texels, so the mean of a texel is that of a tent over it and its neighbours (1/8, 6/8, 1/8 along
either axis), and a black texel beside a bright one is chosen too. Beside the colour of a texel stands the density by solid angle, 1/sr.

Pictures are cleaned first: what is not finite or negative is no radiance. Very large ones are halved, texel by texel, until a number of
24 bits can name each texel with some to spare.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renderer.sampling.alias import alias_table

MOST_TEXELS = 1 << 23  # 4096 x 2048
BRIGHTEST = np.float32(1e9)  # W/(sr m2), of a texel: squares of it are finite
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])


class EnvironmentTables(NamedTuple):
    """texels: float32[height * width, 4], radiance and density; probability float32 and alias int32[height * width]: the alias table;
    width, height; flux: the integral of luminance over all directions, W/m2."""

    texels: NDArray[np.float32]
    probability: NDArray[np.float32]
    alias: NDArray[np.int32]
    width: int
    height: int
    flux: float


def environment_tables(picture: NDArray[np.float32]) -> EnvironmentTables | None:
    """The tables of an equirectangular picture, float32[height, width, 3 or 4], top row first. None where nothing in it shines."""
    colour = cleaned(picture)
    while colour.shape[0] * colour.shape[1] > MOST_TEXELS:
        colour = halved(colour)
    height, width = colour.shape[:2]
    luminance = _tent(_tent(colour @ LUMINANCE, 1, wrap=True), 0, wrap=False)
    solid = solid_angles(height, width)[:, None]
    weight = (luminance * solid).ravel()
    flux = float(weight.sum())
    if not flux > 0:
        return None
    table = alias_table(weight)
    texels = np.empty((height, width, 4), np.float32)
    texels[..., :3] = colour
    texels[..., 3] = table.pmf.reshape(height, width) / solid
    return EnvironmentTables(texels.reshape(-1, 4), table.probability, table.alias, width, height, flux)


def cleaned(picture: NDArray[np.float32]) -> NDArray[np.float32]:
    """float32[height, width, 3]: radiance, finite and not negative."""
    colour = np.nan_to_num(picture[..., :3], nan=0.0, posinf=float(BRIGHTEST), neginf=0.0)
    return np.clip(colour, np.float32(0), BRIGHTEST)


def halved(colour: NDArray[np.float32]) -> NDArray[np.float32]:
    """The picture at half its size: means of two by two texels; an odd row or column at the end is left out."""
    height, width = (max(n // 2, 1) for n in colour.shape[:2])
    down, across = min(colour.shape[0], 2), min(colour.shape[1], 2)
    cut = colour[: height * down, : width * across]
    mean: NDArray[np.float32] = cut.reshape(height, down, width, across, 3).mean((1, 3), dtype=np.float32)
    return mean


def solid_angles(height: int, width: int) -> NDArray[np.float64]:
    """float64[height]: the solid angle of a texel in each row, sr."""
    edges = np.arange(height + 1) * (math.pi / 2 / height)
    return np.asarray(np.diff(np.sin(edges) ** 2) * (4 * math.pi / width))


def _tent(values: NDArray[np.float64], axis: int, wrap: bool) -> NDArray[np.float64]:
    """The means over texels of what is interpolated between their middles along an axis."""
    before, after = np.roll(values, 1, axis), np.roll(values, -1, axis)
    if not wrap:  # what lies beyond the first and the last row is as they are
        before[0], after[-1] = values[0], values[-1]
    return np.asarray(0.125 * before + 0.75 * values + 0.125 * after)
