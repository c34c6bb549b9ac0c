"""Lights beyond emissive triangles, as the kernels have them, and how connecting divides itself between the kinds of lights.

There are up to three kinds: emissive triangles, a picture of the surroundings, punctual lights. At each point of a path one kind is
chosen, then a light of it. Half of the probability goes by the power that the kinds send into the scene, half is shared evenly: power
says nothing of walls, and a room whose lamps are dim beside the sun outside must not starve. A sky of one colour is no kind: it is found
by scattering, for which it is made.

A scene that nothing lights has a sky of one colour. Files seldom come to that: commands put them under a clear sky (`scene.surroundings`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine import Tensor
from renderer.scene.environment_tables import LUMINANCE, EnvironmentTables, environment_tables
from renderer.scene.model import Environment, Scene
from renderer.scene.punctual_tables import punctual_rows
from renderer.scene.sky import picture_of
from renderer.scene.soup import Float32s, Float64s
from renderer.shading.environment import EnvironmentMap
from renderer.shading.punctual import Punctual

SKY = (0.8, 0.9, 1.0)  # radiance of the sky that lights a scene without lights of its own


class Beyond(NamedTuple):
    """sky: float32[3], None where there is none; environment, punctual: None where there are none; shares: float32[2], below the first a
    random number chooses a triangle, below the second the environment, else a punctual light; None where there is one kind at most.
    triangles: the probability with which triangles are chosen."""

    sky: NDArray[np.float32] | None
    environment: EnvironmentMap | None
    punctual: Punctual | None
    shares: NDArray[np.float32] | None
    triangles: float


def lights_beyond(scene: Scene, bounds: Float64s, power: float, named: Callable[[str, NDArray[Any]], Tensor]) -> Beyond:
    """The lights of a scene within `bounds`, float64[2, 3], but for its triangles, whose luminous power is `power`, W; `named` makes a
    table of a named size."""
    radius = float(np.linalg.norm(bounds[1] - bounds[0])) / 2
    rows, punctual_power = punctual_rows(scene.lights, radius)
    surroundings = scene.environment
    if surroundings is None and power == 0 and not len(rows):
        surroundings = Environment(SKY)
    sky = scale = tables = None
    if surroundings is not None:
        scale = np.asarray(surroundings.radiance, np.float32) * np.float32(surroundings.strength)
        picture = picture_of(surroundings)
        tables = _tables_of(_Same(picture)) if picture is not None else None
        sky = np.where(picture is None, scale, np.float32(0)) if tables is None else None
    strength = float(np.dot(np.asarray(scale, np.float64), LUMINANCE)) if scale is not None else 0.0
    flux = tables.flux * math.pi * radius * radius * strength if tables is not None else 0.0
    chances = _chances((power, flux, punctual_power), (power > 0, tables is not None, len(rows) > 0))
    environment = punctual = None
    if tables is not None and surroundings is not None:
        environment = EnvironmentMap(
            named("texels", tables.texels), named("texels", tables.probability), named("texels", tables.alias),
            tables.width, tables.height, scale, surroundings.turn / 360.0, chances[1],
        )  # fmt: skip
    if len(rows):
        rows[:, 15] *= np.float32(chances[2])
        punctual = Punctual(named("punctual", rows), len(rows))
    several = sum(chance > 0 for chance in chances) > 1
    shares = np.array([chances[0], chances[0] + chances[1]], np.float32) if several else None
    return Beyond(sky, environment, punctual, shares, chances[0])


def _chances(powers: tuple[float, ...], there: tuple[bool, ...]) -> tuple[float, ...]:
    """Probabilities of kinds of lights, 0 for those that are not there."""
    total, kinds = sum(powers), sum(there)
    by_power = [power / total if total > 0 else here / kinds for power, here in zip(powers, there, strict=True)] if kinds else [0.0] * 3
    return tuple(0.5 * p + 0.5 / kinds if here else 0.0 for p, here in zip(by_power, there, strict=True))


class _Same:
    """An array that equals itself alone."""

    def __init__(self, array: Float32s) -> None:
        self.array = array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.array is other.array

    def __hash__(self) -> int:
        return id(self.array)


@lru_cache(maxsize=1)  # so that an edit of the scene does not make them again
def _tables_of(picture: _Same) -> EnvironmentTables | None:
    return environment_tables(picture.array)
