"""The film: what has been gathered so far, kept on the device between frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine import Tensor, stack, where
from renderer.vec import Vec3


@dataclass(frozen=True)
class Film:
    """`total`: float32[height, width, 3], sum of radiance samples; `refused`: int32[height, width], samples that were not finite.

    Height and width are named sizes: another size runs the same kernels.
    """

    total: Tensor
    refused: Tensor

    @staticmethod
    def empty(height: int, width: int) -> Film:
        """A film of this size."""
        dims = ("height", "width")
        return Film(Tensor(np.zeros((height, width, 3), np.float32), dims=dims), Tensor(np.zeros((height, width), np.int32), dims=dims))

    def accumulate(self, radiance: Vec3, refused: Tensor, keep: Tensor) -> Vec3:
        """Adds samples in place (`keep` false: begins anew) and returns the sums, a colour of the lane shape."""
        before = self.total
        sums = [where(keep, before[..., k], 0.0) + c for k, c in enumerate(radiance)]
        self.total.assign(stack(sums, -1))
        self.refused.assign(where(keep, self.refused, 0) + refused)
        return Vec3(*sums)
