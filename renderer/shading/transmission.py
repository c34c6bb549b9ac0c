"""Light that goes through: refraction, colour by distance, colour by wavelength.

Without a volume (KHR_materials_transmission) a surface is a pane that is infinitely thin: light leaves it on the other side in the
direction of its mirror image, blurred by the roughness. With one (KHR_materials_volume) it is the boundary of a body: light is bent at
facets (Walter et al., "Microfacet Models for Refraction through Rough Surfaces", EGSR 2007), and inside it fades by the law of Beer and
Lambert.

Where the index depends on the wavelength (KHR_materials_dispersion) a path that is bent goes on for one of the three channels, drawn by
chance and weighed by 3; its indices lie half the spread n_F - n_C apart. Only what is bent pays: light that is reflected keeps all
colours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from engine import Tensor, where
from renderer.sampling.rng import Rng
from renderer.vec import Vec3, greater, lesser

WHITE = -1  # the channel of a path that has all colours
IOR_MAX = 10.0  # what the index 0 (full reflection) stands for
IOR_MIN = 1.003  # Below, a boundary that bends nothing would have no half vector; it bends by less than 0.2 degrees up to 45


def refracted(wo: Vec3, h: Vec3, cosine: Tensor, eta: Tensor) -> tuple[Vec3, Tensor]:
    """The direction beyond a facet h that wo sees under a cosine, and whether there is one (else it is some unit vector).

    eta: the index beyond over that on wo's side. Walter et al. 2007, eq. 40.
    """
    inverse = 1.0 / eta
    square = 1.0 - (1.0 - cosine * cosine) * (inverse * inverse)
    beyond = greater(square, 0.0).sqrt()
    return h * (inverse * cosine - beyond) - wo * inverse, square > 0


def extinction(color: Sequence[float], distance: float) -> list[float]:
    """The coefficient in 1/m of a medium that leaves `color` of white light after `distance` in metres (infinite: it takes nothing); what
    would win light takes none. On the host: rows of materials have it."""
    return [-math.log(min(max(c, 1e-6), 1.0)) / distance for c in color]


def transmittance(coefficient: Vec3, distance: Tensor) -> Vec3:
    """What a medium leaves of light over a distance in metres: Beer and Lambert."""
    return coefficient.map(lambda c: (-c * distance).exp())


class Dispersed(NamedTuple):
    """What a path refracts with: the channel that it has after a refraction, the index, and each channel's weight if it is refracted."""

    channel: Tensor
    ior: Tensor
    tint: Vec3


def disperse(channel: Tensor, ior: Tensor, dispersion: Tensor, rng: Rng) -> tuple[Dispersed, Rng]:
    """Draws a channel (0, 1, 2: red, green, blue) for a path that has none (`WHITE`) where a surface disperses.

    dispersion: 20 over Abbe's number, 0 or more. KHR_materials_dispersion, "Implementation".
    """
    u, rng = rng.next()
    splits = dispersion > 0
    drawn = lesser((u * 3.0).cast("int32"), 2)
    fresh = splits & (channel < 0)
    now = where(fresh, drawn, channel)
    shift = where(now < 0, 0.0, (now - 1).cast("float32"))
    spread = greater(ior + (ior - 1.0) * 0.025 * dispersion * shift, 1.0)
    tint = Vec3(*(where(fresh, where(drawn == k, 3.0, 0.0), 1.0) for k in range(3)))
    return Dispersed(now, where(splits, spread, ior), tint), rng
