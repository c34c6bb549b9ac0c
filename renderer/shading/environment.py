"""Light from a picture of the surroundings: what a ray that meets nothing sees, and directions chosen where that is bright.

The picture is equirectangular: a row is a band between two polar angles from +y downwards, a column a sector about the vertical. Its
middle lies towards +x and its right-hand quarter towards +z, so that it is seen unmirrored from within. Radiance is interpolated between
the middles of texels, round the seam, and not beyond the first and the last row.

Directions are chosen texel by texel, in constant time (alias table), and evenly by solid angle inside one. A texel weighs its mean
interpolated luminance times its solid angle (`scene.environment_tables`): wherever light is there is some density, and the ratio of the
two is bounded by the contrast of neighbours. The density of a direction stands beside its texel's colour, so that light found by
scattering costs one look-up.

`turn` and the strength are numbers of the kernels, so changing them compiles nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from engine import Tensor, where
from renderer.sampling.rng import Rng
from renderer.shading.light import FAR, Towards
from renderer.vec import Vec3, greater

TAU = 2 * math.pi


@dataclass(frozen=True)
class EnvironmentMap:
    """A picture of the surroundings on the device. `texels`: float32[width * height, 4], radiance in W/(sr m2) and density of choosing in
    1/sr; `probability`, `alias`: its alias table (`sampling.alias`); `scale`: float32[3], a factor on radiance; `shift`: how far the
    picture is turned, in turns; `share`: the probability with which the environment is chosen among the kinds of lights."""

    texels: Tensor
    probability: Tensor
    alias: Tensor
    width: Any  # int
    height: Any  # int
    scale: Any
    shift: Any
    share: Any

    def radiance(self, direction: Vec3) -> Vec3:
        """What a unit vector of the world looks at."""
        column, row = self._place(direction)
        return self._interpolated(column, row)

    def density(self, direction: Vec3) -> Tensor:
        """Of choosing this unit vector, 1/sr, the choice of the environment among the lights included."""
        return self._density(*self._place(direction))

    def seen(self, direction: Vec3) -> tuple[Vec3, Tensor]:
        """Radiance and density of a unit vector."""
        column, row = self._place(direction)
        return self._interpolated(column, row), self._density(column, row)

    def sample(self, rng: Rng) -> tuple[Towards, Rng]:
        """A direction from which light comes."""
        which, rng = rng.next()
        share, rng = rng.next()  # of its own: the fraction of `which` has too few bits where texels are many
        u, rng = rng.next()
        v, rng = rng.next()
        count = self.width * self.height
        drawn = (which * count).cast("int32").minimum(count - 1)
        texel = where(share < self.probability[drawn], drawn, self.alias[drawn])
        row = texel // self.width
        column = texel - row * self.width
        column, row = column.cast("float32"), row.cast("float32")
        # Even by solid angle: in the square of the sine of half the polar angle, which is exact near the pole.
        half_step = (math.pi / 2) / Tensor(self.height).cast("float32")
        upper, lower = (half_step * row).sin(), (half_step * (row + 1.0)).sin()
        square = upper * upper + (lower * lower - upper * upper) * v
        cosine, sine = 1.0 - 2.0 * square, 2.0 * greater(square * (1.0 - square), 0.0).sqrt()
        across = column + u
        around = TAU * (across / Tensor(self.width).cast("float32") - 0.5 - self.shift)
        direction = Vec3(sine * around.cos(), cosine, sine * around.sin())
        down = sine.arctan2(cosine) * (1 / math.pi) * Tensor(self.height).cast("float32")
        radiance = self._interpolated(across, down)
        density = self.texels[texel, 3] * self.share
        return Towards(direction, FAR, direction, radiance, density, Tensor(1.0), Tensor(1.0), density > 0), rng

    def _place(self, d: Vec3) -> tuple[Tensor, Tensor]:
        """Column and row of a unit vector, in texels."""
        around = d.z.arctan2(d.x) * (1 / TAU) + 0.5 + self.shift
        width, height = (Tensor(n).cast("float32") for n in (self.width, self.height))
        return (around - around.floor()) * width, (d.x * d.x + d.z * d.z).sqrt().arctan2(d.y) * (1 / math.pi) * height

    def _density(self, column: Tensor, row: Tensor) -> Tensor:
        x = column.cast("int32").minimum(self.width - 1)
        y = row.cast("int32").minimum(self.height - 1)
        density: Tensor = self.texels[y * self.width + x, 3] * self.share
        return density

    def _interpolated(self, column: Tensor, row: Tensor) -> Vec3:
        left, above = (column - 0.5).floor(), (row - 0.5).floor()
        across, down = column - 0.5 - left, row - 0.5 - above
        x0, y = left.cast("int32"), above.cast("int32")
        x1 = x0 + 1
        x0, x1 = where(x0 < 0, x0 + self.width, x0), where(x1 >= self.width, x1 - self.width, x1)
        y0, y1 = y.maximum(0), (y + 1).minimum(self.height - 1)
        corners = ((x0, y0, 1.0 - across, 1.0 - down), (x1, y0, across, 1.0 - down), (x0, y1, 1.0 - across, down), (x1, y1, across, down))
        total = Vec3(0.0, 0.0, 0.0)
        for x, y, a, b in corners:
            texel = y * self.width + x
            total = total + Vec3(*(self.texels[texel, k] for k in range(3))) * (a * b)
        return total * Vec3(*(self.scale[k] for k in range(3)))
