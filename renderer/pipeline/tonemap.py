"""From radiance to the screen: exposure, a tone curve, the sRGB transfer function, eight bits a channel.

A tone mapper takes a linear colour of any brightness to one within [0, 1]. There are several, since each gives up something else:
"filmic" has contrast and lets bright colours turn, "linear" is exact and clips, "reinhard" keeps hues and goes grey, "agx" lets bright
colours fade to white as film does, "khronos neutral" keeps the colours of what is lit normally as they are. Which one is taken is a
number that the kernel reads: all are in its code, and a branch that is the same for every pixel costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine import Tensor, maximum, minimum, switch, where
from renderer.vec import Vec3, dot, greater, lesser

_BRIGHTEST = 1e6  # white long since; powers of what is brighter could overflow
_LUMINANCE = Vec3(0.2126, 0.7152, 0.0722)


def filmic(x: Tensor) -> Tensor:
    """A fit of the ACES reference curve to [0, 1] (Narkowicz, "ACES Filmic Tone Mapping Curve", 2015)."""
    return ((x * (2.51 * x + 0.03)) / (x * (2.43 * x + 0.59) + 0.14)).clip(0, 1)


def linear(colour: Vec3) -> Vec3:
    """As it is; what is brighter than the screen is cut off."""
    return colour.map(lambda c: c.clip(0, 1))


def reinhard(colour: Vec3) -> Vec3:
    """Luminance L becomes L / (1 + L), hue stays (Reinhard et al., "Photographic Tone Reproduction for Digital Images", 2002, eq. 3)."""
    return (colour * (1.0 / (1.0 + dot(colour, _LUMINANCE)))).map(lambda c: c.clip(0, 1))


def agx(colour: Vec3) -> Vec3:
    """Sobotka's AgX, its base look, by Wrensch's fit ("Minimal AgX Implementation", 2022): colours are drawn together, 16.5 stops put
    through a curve of degree six (mean squared error 3.7e-6), and drawn apart again; the result is meant for a screen of exponent 2.2."""
    inset = Vec3(
        dot(colour, Vec3(0.842479062253094, 0.0784335999999992, 0.0792237451477643)),
        dot(colour, Vec3(0.0423282422610123, 0.878468636469772, 0.0791661274605434)),
        dot(colour, Vec3(0.0423756549057051, 0.0784336, 0.879142973793104)),
    )
    low, high = -12.47393, 4.026069  # stops about 1

    def curve(c: Tensor) -> Tensor:
        x = (greater(c, 1e-10).log2().clip(low, high) - low) * (1.0 / (high - low))
        return (((((15.5 * x - 40.14) * x + 31.96) * x - 6.868) * x + 0.4298) * x + 0.1191) * x - 0.00232

    shaped = inset.map(curve)
    outset = Vec3(
        dot(shaped, Vec3(1.19687900512017, -0.0980208811401368, -0.0990297440797205)),
        dot(shaped, Vec3(-0.0528968517574562, 1.15190312990417, -0.0989611768448433)),
        dot(shaped, Vec3(-0.0529716355144438, -0.0980434501171241, 1.15107367264116)),
    )
    return outset.map(lambda c: c.clip(0, 1) ** 2.2)


def khronos_neutral(colour: Vec3) -> Vec3:
    """The Khronos PBR Neutral tone mapper (specification of 2024): the reflection of a dielectric, 4 %, is taken off; what is then darker
    than 0.76 stays, the peak of what is brighter is compressed below 1, and the colour fades to white as far as the peak had to move."""
    start, desaturation = 0.8 - 0.04, 0.15
    least = minimum(minimum(colour.x, colour.y), colour.z)
    colour = colour - where(least < 0.08, least - 6.25 * least * least, 0.04)
    peak = maximum(maximum(colour.x, colour.y), colour.z)
    room = 1 - start
    lowered = 1 - room * room / (greater(peak, start) + room - start)
    fade = 1 - 1 / (desaturation * (peak - lowered) + 1)
    scale = lowered / greater(peak, start)
    return colour.map(lambda c: where(peak < start, c, c * scale * (1 - fade) + lowered * fade).clip(0, 1))


TONEMAPPERS: dict[str, Callable[[Vec3], Vec3]] = {
    "filmic": lambda colour: colour.map(filmic),
    "linear": linear,
    "reinhard": reinhard,
    "agx": agx,
    "khronos neutral": khronos_neutral,
}
"""By the names under which users choose them."""


def number_of(tonemapper: str) -> int:
    """What `rgba8` takes for a tone mapper. Raises ValueError for a name that is none."""
    names = list(TONEMAPPERS)
    if tonemapper not in names:
        raise ValueError(f"there is no tone mapper {tonemapper!r}; there are {', '.join(names)}")
    return names.index(tonemapper)


def srgb(x: Tensor) -> Tensor:
    """Linear to sRGB (IEC 61966-2-1), for values in [0, 1]."""
    return where(x <= 0.0031308, 12.92 * x, 1.055 * x ** (1 / 2.4) - 0.055)


def rgba8(colour: Vec3, exposure: Any, tonemapper: Any) -> Tensor:
    """uint32 pixels, red in the lowest byte, opaque; `exposure` multiplies radiance; `tonemapper`: int32, place in TONEMAPPERS."""
    exposed = colour.map(lambda c: lesser(c * exposure, _BRIGHTEST))
    mapped: Vec3 = switch(tonemapper, tuple(TONEMAPPERS.values()), exposed)
    r, g, b = ((srgb(c) * 255 + 0.5).cast("int32").cast("uint32") for c in mapped)
    return r | (g << 8) | (b << 16) | 0xFF000000
