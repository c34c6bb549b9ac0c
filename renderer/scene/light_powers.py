"""How much of a lamp's light each of its triangles sends: what its emissive texture shows there.

A lamp is chosen by its power, and a screen, a panel of switches or a city by night is mostly black: with the mean of a material's own
factor its dark triangles would be chosen as often as its bright ones. So each triangle has a glow, the mean luminance of the texture over
it, by which its power and the density of connecting to it are multiplied; both stay exactly known. The mean is taken at 16 places of the
triangle, at the level of detail whose texels are about as large as a sixteenth of it, so that nothing between the places is missed.

A part of the glow is the mean of the whole texture, for what is not quite right in that (textures that are seen blurred, places between
places). Where a triangle touches no texel that shines it is no lamp at all, and its glow is 0: what a blurred look-up still shows there is
found by scattering alone, with its full weight.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renderer.scene.environment_tables import LUMINANCE
from renderer.scene.levels import Use
from renderer.scene.model import Scene, Texture, TriangleSoup
from renderer.scene.model_texture import Wrap
from renderer.scene.soup import geometries_of
from renderer.scene.texture_tables import Block, TextureTables

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EVEN = 0.05  # the part of a glow that is that of the whole texture
_SPLIT = 4  # a triangle is looked at in its middle and those of 15 others, this many along an edge
_AT_ONCE = 1 << 14  # triangles
_VALUE = np.arange(256) / 255.0
_LINEAR = np.where(_VALUE <= 0.04045, _VALUE / 12.92, ((_VALUE + 0.055) / 1.055) ** 2.4)


def glow_of(scene: Scene, soup: TriangleSoup, tables: TextureTables) -> Floats:
    """float64[T], within [0, 1]: the mean luminance of the emissive texture of each triangle over it; 1 where there is none."""
    glow = np.ones(len(soup))
    # What is shared by placings of several materials has the same texture in all of them, and is a lamp if one of them is.
    lit = {m.emissive_texture for m in scene.materials if m.is_emissive}
    pictures: dict[int, tuple[_Picture, float, list[NDArray[np.bool_]]]] = {}
    for geometry, run in geometries_of(scene, soup):
        ref = scene.materials[soup.material[run.start]].emissive_texture
        if ref is None or ref not in lit or ref.texcoord >= len(geometry.texcoords):
            continue
        if ref.texture not in pictures:
            picture = _picture(scene.textures[ref.texture], tables)
            if picture is None:
                continue
            pictures[ref.texture] = picture, picture.mean(), picture.shining()
        picture, whole, shining = pictures[ref.texture]
        coordinates = np.nan_to_num(geometry.texcoords[ref.texcoord])
        for first in range(run.start, run.stop, _AT_ONCE):
            some = slice(first, min(first + _AT_ONCE, run.stop))
            uv = coordinates[soup.vertices[some]].astype(np.float64)
            uv = uv @ ref.matrix[:, :2].T + ref.matrix[:, 2]
            mean = (1.0 - EVEN) * picture.means(uv) + EVEN * whole
            glow[some] = np.where(picture.touches(uv, shining), mean, 0.0)
    return glow


def _picture(texture: Texture, tables: TextureTables) -> _Picture | None:
    """An emissive texture; None where it has no image, or one that an edit has brought and that is not on the device (yet)."""
    block = tables.blocks.get((texture.image, Use.colours)) if texture.image is not None else None
    return _Picture(tables.texels[block.start :], block, texture) if block is not None else None


class _Picture(NamedTuple):
    """An emissive texture: its texels, where they are, and how coordinates beyond it are meant."""

    texels: NDArray[np.uint32]
    block: Block
    texture: Texture

    def mean(self) -> float:
        """The mean luminance of the whole picture, exactly."""
        width, height = self.block.sizes[0]
        words = self.texels[: width * height]
        if self.block.pair is not None:
            return float(np.mean(_of_sixteen(words)))
        means = [np.bincount(words >> np.uint32(8 * k) & np.uint32(255), minlength=256) @ _LINEAR / len(words) for k in range(3)]
        return float(np.dot(means, LUMINANCE))

    def shining(self) -> list[NDArray[np.bool_]]:
        """Of each square of 1, 2, 4, ... texels along a side, whether a texel in or next to it shines: bool[rows, columns]."""
        width, height = self.block.sizes[0]
        mask = np.uint32(0xFFFFFF if self.block.pair is None else 0xFFFF)
        grid = (self.texels[: width * height] & mask != 0).reshape(height, width)
        for axis, wrap in enumerate((self.texture.wrap_t, self.texture.wrap_s)):  # neighbours are mixed into what is seen
            edges = np.pad(grid, [(int(axis == k),) * 2 for k in range(2)], mode="wrap" if wrap == "repeat" else "edge")
            edges = edges.swapaxes(0, axis)
            grid = (edges[:-2] | edges[1:-1] | edges[2:]).swapaxes(0, axis)
        found = [grid]
        while found[-1].size > 1:
            last = np.pad(found[-1], [(0, size % 2 if size > 1 else 0) for size in found[-1].shape])
            last = last[::2] | last[1::2] if len(last) > 1 else last
            found.append(last[:, ::2] | last[:, 1::2] if last.shape[1] > 1 else last)
        return found

    def means(self, uv: Floats) -> Floats:
        """float64[n]: of triangles float64[n, 3, 2] in the texture."""
        a, b = uv[:, 1] - uv[:, 0], uv[:, 2] - uv[:, 0]
        width, height = self.block.sizes[0]
        area = np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) * 0.5 * width * height
        for axis, wrap in enumerate((self.texture.wrap_s, self.texture.wrap_t)):
            if wrap == "clamp":  # beyond the picture there is its edge alone
                low, high = uv[..., axis].min(1), uv[..., axis].max(1)
                area *= (high.clip(0, 1) - low.clip(0, 1)) / np.maximum(high - low, 1e-30)
        level = np.ceil(np.log2(np.maximum(area / _SPLIT**2, 1.0)) / 2).astype(np.int64)
        level = np.minimum(level, len(self.block.sizes) - 1)
        starts = np.cumsum([0, *(w * h for w, h in self.block.sizes[:-1])])[level]
        sizes = np.array(self.block.sizes, np.int64)[level]
        total = np.zeros(len(uv))
        for weights in _middles():
            place = np.einsum("k,nkc->nc", weights, uv)
            column = _wrapped(_texel(place[:, 0], sizes[:, 0]), sizes[:, 0], self.texture.wrap_s)
            row = _wrapped(_texel(place[:, 1], sizes[:, 1]), sizes[:, 1], self.texture.wrap_t)
            words = self.texels[starts + row * sizes[:, 0] + column]
            if self.block.pair is not None:
                total += _of_sixteen(words)
            else:
                total += sum(_LINEAR[words >> np.uint32(8 * k) & np.uint32(255)] * LUMINANCE[k] for k in range(3))
        means: Floats = total / _SPLIT**2
        return means

    def touches(self, uv: Floats, shining: list[NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """bool[n]: whether a texel that shines may be seen somewhere in the box around a triangle; True where that is hard to say."""
        found = np.ones(len(uv), bool)
        columns, rows = (
            _range(uv[..., k], size, wrap)
            for k, (size, wrap) in enumerate(zip(self.block.sizes[0], (self.texture.wrap_s, self.texture.wrap_t)))
        )
        span = np.maximum(columns.last - columns.first, rows.last - rows.first)
        level = np.ceil(np.log2(np.maximum(span, 1))).astype(np.int64)  # at which the box lies in two squares each way at most
        for number in np.unique(level[columns.simple & rows.simple]):
            which = np.flatnonzero((level == number) & columns.simple & rows.simple)
            grid = shining[min(int(number), len(shining) - 1)]
            seen = np.zeros(len(which), bool)
            for row in (rows.first, rows.last):
                for column in (columns.first, columns.last):
                    y, x = (np.minimum(at[which] >> number, size - 1) for at, size in ((row, len(grid)), (column, grid.shape[1])))
                    seen |= grid[y, x]
            found[which] = seen
        return found


class _Range(NamedTuple):
    """Texels along an axis, int64[n] each: the first and the last of some; simple: they are all between the two."""

    first: Ints
    last: Ints
    simple: NDArray[np.bool_]


def _range(x: Floats, size: int, wrap: Wrap) -> _Range:
    """Of coordinates float64[n, 3]: the texels between them."""
    low, high = _texel(x.min(1), size), -_texel(-x.max(1), size) - 1
    high = np.maximum(low, high)
    turn = low // size
    if wrap == "clamp":
        return _Range(low.clip(0, size - 1), high.clip(0, size - 1), np.ones(len(x), bool))
    simple = turn == high // size
    first, last = (np.where(simple, at - turn * size, 0) for at in (low, high))
    if wrap == "mirror":
        back = turn % 2 == 1
        first, last = np.where(back, size - 1 - last, first), np.where(back, size - 1 - first, last)
    return _Range(first, last, simple)


def _texel(x: Floats, size: int | Ints) -> Ints:
    """The texel at a coordinate, as if the picture went on for ever (and not where no number can tell texels apart)."""
    texel: Ints = np.floor(np.clip(x, -1e9, 1e9) * size).astype(np.int64)
    return texel


def _wrapped(at: Ints, size: Ints, wrap: Wrap) -> Ints:
    """The texel that stands there."""
    if wrap == "clamp":
        return at.clip(0, size - 1)
    if wrap == "repeat":
        return at % size
    turned: Ints = at % (2 * size)
    return np.where(turned < size, turned, 2 * size - 1 - turned)


def _middles() -> list[Floats]:
    """float64[3] each: the weights of corners in the middles of _SPLIT ** 2 triangles that make up one."""
    found = []
    for i in range(_SPLIT):
        for j in range(_SPLIT - i):
            found.append(np.array([i + 1 / 3, j + 1 / 3]) / _SPLIT)
            if i + j < _SPLIT - 1:
                found.append(np.array([i + 2 / 3, j + 2 / 3]) / _SPLIT)
    return [np.array([1 - a - b, a, b]) for a, b in found]


def _of_sixteen(words: NDArray[np.uint32]) -> Floats:
    """The luminance of texels of 16 bits, which are grey."""
    value = (words & np.uint32(0xFFFF)) / 65535.0
    linear: Floats = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    return linear
