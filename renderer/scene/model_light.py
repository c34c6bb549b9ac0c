"""Lights without a surface: glTF's punctual lights (KHR_lights_punctual).

A point or spot light sends out `intensity` in candela, taken as W/sr, times its colour; a directional one arrives with `intensity` in
lux, taken as W/m2. All shine along their own -z; a light stands where its node stands, whose scale does not matter. `range` is the
distance past which a light may be left out: a hint that a path tracer need not take, infinite where the file gives none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Light:
    """A punctual light where it stands. `world` is float64[4, 4], light to world, its axes of unit length; `node` the glTF node's number.

    `color` is linear; `inner_cone` and `outer_cone` are the angles from the axis, in radians, between which a spot light fades out.
    """

    name: str
    kind: Literal["directional", "point", "spot"]
    world: NDArray[np.float64]
    node: int
    color: tuple[float, float, float] = (1.0, 1.0, 1.0)
    intensity: float = 1.0
    range: float = math.inf
    inner_cone: float = 0.0
    outer_cone: float = math.pi / 4
