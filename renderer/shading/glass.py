"""What rough glass loses among its facets, and where it goes: the boundary of a body keeps all light there is.

Facets that bend light lose what other facets stand in the way of, up to two thirds of it. What is to become of that follows from two
things. A boundary that lets the share A of the light of all directions in lets, both ways being the same, A / ior^2 of the light inside
out: so from inside most is reflected, whatever it does to get there. And the reflection of the outside is `energy`'s, as on any other
surface, which leaves R(mu) for what goes through. Hence:

    refraction is scaled by s = R(mu) / T(mu), mu the cosine *outside*, whichever way light goes. T is what facets let through of light
    from outside, so from there a white furnace is white, and f over the squared index stays the same both ways;
    what is then still lost inside, l(mu), comes back there in the lobe l(mu_o) l(mu_i) / (pi mean l), as reflections get theirs.

T and l depend on cosine, roughness and index in ways that a few operations do not follow (l falls from 1 to 0 within a degree where the
index is near 1), so unlike the fits of `energy` they are read from a table, which `glass_table` makes and explains: 8 rows of four
numbers, between which is interpolated. Only scenes with bodies have it, and only rough ones look. It is for a reflectance at the normal
that follows from the index, and 1 at the horizon. T is exact for others too (KHR_materials_specular, films); inside, the more a boundary
is like a mirror, the less there is of that lobe and the more of the one that `energy` gives mirrors back, so that nothing is won. A white
furnace then stays white to 1 % for all roughnesses and indices from 1 to 2.5; inside films it loses up to 9 %, inside boundaries of much
more reflection than their index has up to 18 %, and uneven (anisotropic) facets, of which the table knows nothing, are off by up to 19 %
at the highest strength.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine import Tensor, cond
from renderer.shading.fresnel import f0_of
from renderer.shading.glass_table import COSINES, FILE, INDICES, ROUGHNESSES
from renderer.vec import greater, lesser

SMOOTH = 0.04  # a roughness up to which nothing is lost but within a tenth of a degree of the horizon


@lru_cache(maxsize=1)
def glass_table() -> NDArray[np.float32]:
    """float32[INDICES * ROUGHNESSES * COSINES, 4]: the table that `Glass` reads."""
    stored: NDArray[np.uint16] = np.load(FILE)
    return stored.reshape(-1, 4) * np.float32(1 / 65535)


class Lost(NamedTuple):
    """At a cosine: `scale`, by which refraction is multiplied that leaves or arrives outside under it; `inside`: l of it."""

    scale: Tensor
    inside: Tensor


class Glass(NamedTuple):
    """The boundary of a body, each lane one. body: where there is one; inverse: of its index; bend: 1 - inverse^2; f0, f90: as it reflects;
    mean: of l."""

    table: Tensor
    body: Tensor
    inverse: Tensor
    bend: Tensor
    f0: Tensor
    f90: Tensor
    mean: Tensor

    def lost(self, mu: Tensor, roughness: Tensor, left: Tensor, needed: Tensor) -> Lost:
        """At a cosine and a roughness in [0, 1], where `needed` (else 1 and 0). left: what reflection leaves of light under it
        (`energy.Remainder`)."""

        def looked_up() -> Lost:
            first, share = self._columns(roughness)
            h, q, inside = _read(self.table, first, share, mu)
            alpha = roughness * roughness
            square = greater(mu * mu + self.bend * (1.5 * h - 0.5), 0.0)
            z = square.sqrt()
            passed = 2.0 * z / greater(z + (alpha * alpha * (1.0 - square) + square).sqrt(), 1e-12)
            bends = passed * ((1.0 - self.f0) - (self.f90 - self.f0) * q)
            return Lost(left / greater(bends, 1e-3), inside)

        return cond(self._rough(roughness) & needed, looked_up, lambda: Lost(mu * 0 + 1.0, mu * 0))  # type: ignore[no-any-return]

    def averaged(self, roughness: Tensor) -> Glass:
        """With the mean of l."""

        def mean() -> Tensor:
            first, share = self._columns(roughness)
            total: Any = 0.0
            for row, weight in zip(first, share, strict=True):
                total = total + self.table[row, 3] * weight
            result: Tensor = total
            return result

        return self._replace(mean=cond(self._rough(roughness), mean, lambda: roughness * 0))

    def mirrors(self) -> Tensor:
        """How far f0 is from that of the index (0) to that of a mirror (1)."""
        own = f0_of(self.inverse)
        return greater((self.f0 - own) / greater(1.0 - own, 1e-6), 0.0)

    def inner(self, lost: Tensor) -> Tensor:
        """l of a cosine over pi and the mean, and less where reflection is more than that of the index."""
        return lost * greater(1.0 - self.mirrors(), 0.0) / (math.pi * greater(self.mean, 1e-6))

    def _rough(self, roughness: Tensor) -> Tensor:
        return self.body & (roughness > SMOOTH)

    def _columns(self, roughness: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Of the four columns of the table between which a roughness lies: the first row, and the weight."""
        i, p = _between(self.bend.sqrt(), INDICES)
        k, q = _between(roughness, ROUGHNESSES)
        corner = (i * ROUGHNESSES + k) * COSINES
        first = tuple(corner + step for step in (0, COSINES, ROUGHNESSES * COSINES, (ROUGHNESSES + 1) * COSINES))
        return first, ((1.0 - p) * (1.0 - q), (1.0 - p) * q, p * (1.0 - q), p * q)


def glass_of(table: Tensor, ior: Tensor, roughness: Tensor, body: Tensor, f0: Tensor, f90: Tensor) -> Glass:
    """The glass of an index (1 or more) and a mean roughness in [0, 1], where `body`; table: `glass_table`; f0, f90: as it reflects."""
    inverse = 1.0 / ior
    return Glass(table, body, inverse, 1.0 - inverse * inverse, f0, f90, roughness).averaged(roughness)


def _read(table: Tensor, first: tuple[Tensor, ...], share: tuple[Tensor, ...], mu: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """h, q and l at a cosine."""
    place, part = _between(mu.sqrt(), COSINES)
    h: Any = 0.0
    q: Any = 0.0
    inside: Any = 0.0
    for corner, weight in zip(first, share, strict=True):
        for row, w in ((corner + place, weight * (1.0 - part)), (corner + place + 1, weight * part)):
            h, q, inside = h + table[row, 0] * w, q + table[row, 1] * w, inside + table[row, 2] * w
    return h, q, inside


def _between(x: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Of x in [0, 1] on an axis of the table: the step below, and the part of the way to the next."""
    scaled = x * float(steps - 1)
    place = lesser(scaled.cast("int32"), steps - 2)
    return place, scaled - place.cast("float32")
