"""From radiance to the screen: exposure, a filmic curve, the sRGB transfer function, eight bits a channel."""

from __future__ import annotations

from typing import Any

from engine import Tensor, where
from renderer.vec import Vec3, lesser


def filmic(x: Tensor) -> Tensor:
    """A fit of the ACES reference curve to [0, 1] (Narkowicz, "ACES Filmic Tone Mapping Curve", 2015)."""
    x = lesser(x, 1e6)  # white long since; the square of what is brighter could overflow
    return ((x * (2.51 * x + 0.03)) / (x * (2.43 * x + 0.59) + 0.14)).clip(0, 1)


def srgb(x: Tensor) -> Tensor:
    """Linear to sRGB (IEC 61966-2-1), for values in [0, 1]."""
    return where(x <= 0.0031308, 12.92 * x, 1.055 * x ** (1 / 2.4) - 0.055)


def rgba8(colour: Vec3, exposure: Any) -> Tensor:
    """uint32 pixels, red in the lowest byte, opaque; `exposure` multiplies radiance."""
    r, g, b = ((srgb(filmic(c * exposure)) * 255 + 0.5).cast("int32").cast("uint32") for c in colour)
    return r | (g << 8) | (b << 16) | 0xFF000000
