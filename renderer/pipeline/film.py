"""The film: what has been gathered so far, kept on the device between frames.

A film has one size. Pictures that change theirs from one moment to the next (the viewer lowers its resolution while the camera moves)
come back to a few sizes again and again, so films that were used are kept for a while.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engine import Tensor, stack, where
from renderer.vec import Vec3

DIMS = ("height", "width")  # named sizes: another size runs the same kernels
MOST, MOST_BYTES = 8, 256 << 20  # canvases that are kept, and bytes of those that are not in use


@dataclass(frozen=True)
class Film:
    """`total`: float32[height, width, 3], sum of radiance samples; `refused`: int32[height, width], samples that were not finite."""

    total: Tensor
    refused: Tensor

    @staticmethod
    def empty(height: int, width: int) -> Film:
        """A film of this size."""
        return Film(Tensor(np.zeros((height, width, 3), np.float32), dims=DIMS), Tensor(np.zeros((height, width), np.int32), dims=DIMS))

    def accumulate(self, radiance: Vec3, refused: Tensor, keep: Tensor) -> Vec3:
        """Adds samples in place (`keep` false: begins anew) and returns the sums, a colour of the lane shape."""
        before = self.total
        sums = [where(keep, before[..., k], 0.0) + c for k, c in enumerate(radiance)]
        self.total.assign(stack(sums, -1))
        self.refused.assign(where(keep, self.refused, 0) + refused)
        return Vec3(*sums)


def blank(height: int, width: int) -> Tensor:
    """Memory for a tone-mapped picture: uint32[height, width]."""
    return Tensor(np.zeros((height, width), np.uint32), dims=DIMS)


class Canvas(NamedTuple):
    """A film and the picture that is made of it."""

    film: Film
    picture: Tensor


class Films:
    """Canvases by size: the ones used last, as many as fit."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], Canvas] = {}  # the one used last stands last

    def of(self, width: int, height: int) -> Canvas:
        """A canvas of this size; what is on it is of no use."""
        canvas = self._held.pop((width, height), None) or Canvas(Film.empty(height, width), blank(height, width))
        self._held[width, height] = canvas
        while len(self._held) > 1 and (len(self._held) > MOST or self.bytes - _bytes(width, height) > MOST_BYTES):
            del self._held[next(iter(self._held))]
        return canvas

    @property
    def bytes(self) -> int:
        """Of all that are held."""
        return sum(_bytes(*size) for size in self._held)


def _bytes(width: int, height: int) -> int:
    return width * height * (12 + 4 + 4)
