"""Textures on the device: what colour a picture has at a place, seen from some distance.

All pictures of a scene are one table of texels, each level of each picture a block of its own, so nothing is shared between pictures and
no size is special. A texture is a run of rows in a second table, one a level from fine to coarse: where the block begins, its width and
height, and the rules of sampling packed into one integer. Lanes may therefore have different textures. Wrapping is arithmetic on
indices; colours are decoded before they are mixed.

The level comes from a ray cone: how wide the ray has become, seen on the surface and measured in uv (Akenine-Moeller et al., "Improved
Shader and Texture Level of Detail Using Ray Cones", JCGT 2021, section 2). With W x H texels and a footprint f it is log2(f sqrt(W H)).

Costs: a look-up reads four texels, and four more only where lanes lie between two levels. What no texture of the scene needs (mirrored
wrapping, texels that are not mixed, 16 bits) is not in the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine import Tensor, cond, where
from renderer.vec import Vec3, greater, lesser, normalize

UV = tuple[Any, Any]

# The rules of sampling: bits of the last integer of a row.
COARSEST = 31  # the number of the coarsest level is in the lowest five
WRAP_S, WRAP_T = 5, 7  # two each
REPEAT, CLAMP, MIRROR = range(3)
NEAREST_MAG, NEAREST_MIN, NEAREST_MIP, SIXTEEN = 9, 10, 11, 12
UPPER = 13  # two bits: with 16 bits, the channel in the upper half of a texel

_ROOM = 1e-30  # a square that is not 0
# ((c + 0.055) / 1.055) ** 2.4 for c in [0.04, 1]: fitted to 4e-5 of its value, a fortieth of an eight-bit step, and exact at 1.
_CURVE = (0.14470364, -0.5514799, 0.89941359, -0.89140993, 0.88085228, 0.48145145, 0.035622556, 0.00084623281)


@dataclass(frozen=True)
class TextureFeatures:
    """What the textures of a scene need, and kernels therefore have code for. `repeat`, `clamp`, `mirror`: ways of wrapping; `nearest`:
    texels that are not mixed; `mips`: levels; `nearest_mip`: levels that are not mixed; `sixteen`: the channels that texels of 16 bits
    have in their upper half."""

    repeat: bool = True
    clamp: bool = False
    mirror: bool = False
    nearest: bool = False
    mips: bool = True
    nearest_mip: bool = False
    sixteen: tuple[int, ...] = ()


class _Row(NamedTuple):
    """A texture: the number of its first row; of the finest level the first texel, width and height; the rules."""

    number: Tensor
    start: Tensor
    width: Tensor
    height: Tensor
    rules: Tensor

    def has(self, bit: int) -> Tensor:
        """Whether a rule holds."""
        return (self.rules & (1 << bit)) != 0


class _Axis(NamedTuple):
    """Two neighbouring texels along an axis, and how much of the second there is."""

    first: Tensor
    second: Tensor
    part: Tensor


@dataclass(frozen=True)
class Textures:
    """The textures of a scene. `texels`: uint32[n], red in the lowest byte (of 16 bits: two channels, see `scene.levels.Pair`);
    `levels`: int32[m, 4], of each level the first texel, width, height, rules. A texture is the number of its finest level, -1 is none."""

    texels: Tensor
    levels: Tensor
    features: TextureFeatures = field(metadata={"static": True})

    def sample(
        self, texture: Tensor, uv: UV, footprint: Any = None, *, srgb: bool = False, channels: str = "rgba"
    ) -> tuple[Tensor, ...]:
        """The values of textures at uv, in [0, 1], one Tensor for each letter of `channels`; 1 where `texture` is -1.

        footprint: width in uv of what is seen, None for the finest level. srgb: red, green and blue are stored through the sRGB curve.
        """
        decode = [_linear if srgb and channel != "a" else None for channel in channels]

        def seen() -> tuple[Tensor, ...]:
            row = _Row(texture, *(self.levels[texture, k] for k in range(4)))
            if footprint is None:
                return self._texels(row, None, uv, row.has(NEAREST_MAG), channels, decode)
            level = (footprint * footprint * (row.width * row.height).cast("float32") + _ROOM).log2() * 0.5
            sharp = where(level > 0, row.has(NEAREST_MIN), row.has(NEAREST_MAG))
            if not self.features.mips:
                return self._texels(row, None, uv, sharp, channels, decode)
            level = lesser(greater(level, 0.0), (row.rules & COARSEST).cast("float32"))
            fine = level.floor()
            part = level - fine
            if self.features.nearest_mip:
                whole = row.has(NEAREST_MIP)
                fine, part = where(whole, (level + 0.5).floor(), fine), where(whole, 0.0, part)
            number = fine.cast("int32")

            def between(*finer: Tensor) -> tuple[Tensor, ...]:
                coarser = self._texels(row, number + 1, uv, sharp, channels, decode)
                return tuple(_mix(a, b, part) for a, b in zip(finer, coarser, strict=True))

            def alone(*finer: Tensor) -> tuple[Tensor, ...]:
                return finer

            mixed: tuple[Tensor, ...] = cond(part > 0, between, alone, *self._texels(row, number, uv, sharp, channels, decode))
            return mixed

        def none() -> tuple[float, ...]:
            return (1.0,) * len(channels)

        return cond(texture >= 0, seen, none)  # type: ignore[no-any-return]

    def normal(self, texture: Tensor, uv: UV, footprint: Any = None, scale: Any = 1.0) -> Vec3:
        """The normals of normal maps in tangent space, unit length; `scale` multiplies x and y. (0, 0, 1) where `texture` is -1."""
        r, g, b = self.sample(texture, uv, footprint, channels="rgb")
        x, y, z = ((c * 2.0 - 1.0) for c in (r, g, b))
        there = texture >= 0
        tilted = normalize(Vec3(x * scale, y * scale, greater(z, 1e-3)))
        return Vec3(where(there, tilted.x, 0.0), where(there, tilted.y, 0.0), where(there, tilted.z, 1.0))

    def _texels(
        self, row: _Row, level: Any, uv: UV, sharp: Tensor, channels: str, decode: Sequence[Callable[[Tensor], Tensor] | None]
    ) -> tuple[Tensor, ...]:
        """Four texels of a level (None: the finest), mixed; where `sharp` only the nearest counts."""
        start, width, height = row.start, row.width, row.height
        if level is not None:
            start = self.levels[row.number + level, 0]
            width, height = ((size >> level).maximum(1) for size in (width, height))
        s = self._axis(uv[0], width, (row.rules >> WRAP_S) & 3, sharp)
        t = self._axis(uv[1], height, (row.rules >> WRAP_T) & 3, sharp)
        upper, lower = start + t.first * width, start + t.second * width
        words = [self.texels[place].bitcast("int32") for place in (upper + s.first, upper + s.second, lower + s.first, lower + s.second)]
        found = []
        for channel, curve in zip(channels, decode, strict=True):
            a, b, c, d = (self._value(row, word, channel) for word in words)
            if curve is not None:
                a, b, c, d = curve(a), curve(b), curve(c), curve(d)
            found.append(_mix(_mix(a, b, s.part), _mix(c, d, s.part), t.part))
        return tuple(found)

    def _value(self, row: _Row, word: Tensor, channel: str) -> Tensor:
        """A channel of a texel, in [0, 1]."""
        value = ((word >> (8 * "rgba".index(channel))) & 255).cast("float32") * (1 / 255)
        if not self.features.sixteen:
            return value
        low, high = ((word >> shift) & 65535 for shift in (0, 16))
        wide: Any = None
        for upper in self.features.sixteen:
            found = high if "rgba".index(channel) == upper else low
            found = found.cast("float32") * (1 / 65535)
            if channel == "b" and upper == 1:
                found = _missing(low, high)
            wide = found if wide is None else where(((row.rules >> UPPER) & 3) == upper, found, wide)
        return where(row.has(SIXTEEN), wide, value)

    def _axis(self, x: Any, size: Tensor, wrap: Tensor, sharp: Tensor) -> _Axis:
        """The texels about a coordinate. One that is not finite counts as 0."""
        features = self.features
        x = self._wrapped(x, wrap)
        place = lesser(greater(x, 0.0), 1.0) * size.cast("float32")
        if features.nearest:
            place = where(sharp, place, place - 0.5)
        else:
            place = place - 0.5
        floor = place.floor()
        part = place - floor
        first = floor.cast("int32")
        before: Any = 0  # what stands in for the texels before the first and after the last
        after: Any = size - 1
        if features.repeat and not (features.clamp or features.mirror):
            before, after = size - 1, 0
        elif features.repeat:
            repeats = wrap == REPEAT
            before, after = where(repeats, size - 1, 0), where(repeats, 0, size - 1)
        second = where(first + 1 >= size, after, first + 1)
        if features.nearest:
            part = where(sharp, 0.0, part)
            first = where(first >= size, after, first)
        return _Axis(where(first < 0, before, first), second, part)

    def _wrapped(self, x: Any, wrap: Tensor) -> Tensor:
        """A coordinate taken into [0, 1] where it repeats or is mirrored. Mirroring is exact: beyond the edges of [0, 1] a mirrored
        picture goes on as one that is clamped does for half a texel, and no look-up reaches farther."""
        ways: list[tuple[int, Tensor]] = []
        if self.features.clamp:
            ways.append((CLAMP, x))
        if self.features.mirror:
            half = x * 0.5
            ways.append((MIRROR, 1.0 - (1.0 - (half - half.floor()) * 2.0).abs()))
        if self.features.repeat:
            ways.append((REPEAT, x - x.floor()))
        value = ways[0][1]
        for way, other in ways[1:]:
            value = where(wrap == way, other, value)
        return value


class RayCone(NamedTuple):
    """How wide a ray has become: `width` in metres where it begins, `spread` the metres that it widens in a metre."""

    width: Any
    spread: Any

    def after(self, t: Any) -> RayCone:
        """The cone a distance further on."""
        return RayCone(self.width + self.spread * t, self.spread)


def footprint(width: Any, cosine: Any, uv_per_metre: Any) -> Tensor:
    """The width in uv of what a cone of a width (m) sees of a surface: the longer axis of the ellipse in which they meet, by which the
    paper takes the level. `cosine`: of the ray and the geometric normal, of either sign; `uv_per_metre`: see `scene.texture_tables`."""
    result: Tensor = width * uv_per_metre / greater(cosine.abs(), 1e-3)
    return result


def transformed(matrix: Sequence[Any], uv: UV) -> UV:
    """uv after KHR_texture_transform: `matrix` has the six values of `TextureRef.matrix`, row by row."""
    a, b, c, d, e, f = matrix
    return a * uv[0] + b * uv[1] + c, d * uv[0] + e * uv[1] + f


def stretch(matrix: Sequence[Any]) -> Tensor:
    """How much larger a footprint is after the transform, whose six values are Tensors: the root of its change of area."""
    a, b, _, d, e, _ = matrix
    result: Tensor = (a * e - b * d).abs().sqrt()
    return result


def _missing(red: Tensor, green: Tensor) -> Tensor:
    """The blue of a normal of which red and green (of 16 bits) are known."""
    x, y = (value.cast("float32") * (2 / 65535) - 1.0 for value in (red, green))
    result: Tensor = greater(1.0 - x * x - y * y, 0.0).sqrt() * 0.5 + 0.5
    return result


def _mix(a: Tensor, b: Tensor, part: Tensor) -> Tensor:
    """a where the part is 0, b where it is 1."""
    return a + (b - a) * part


def _linear(c: Tensor) -> Tensor:
    """sRGB to linear (IEC 61966-2-1), for values in [0, 1]."""
    value: Any = _CURVE[0]
    for coefficient in _CURVE[1:]:
        value = value * c + coefficient
    return where(c <= 0.04045, c * (1 / 12.92), value)
