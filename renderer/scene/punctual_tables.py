"""The table of punctual lights: rows for the kernels, and the probabilities by which they are chosen (KHR_lights_punctual).

Half of the probability goes by power, half is shared evenly: a bulb close by may light a place far more than a sun whose power, over all
of a large scene, is a thousand times its own. Powers are luminances times what a light sends out, in W: of a point 4 pi I, of a spot I
times the solid angle of its outer cone, of a directional light its irradiance times the disk that the scene shows it. Lights that send out
nothing are left out. A range that is not finite is none. The layout of a row is that of `shading.punctual`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from renderer.sampling.alias import alias_table
from renderer.scene.environment_tables import LUMINANCE
from renderer.scene.model_light import Light
from renderer.shading.punctual import PUNCTUAL_ROW

NARROWEST = 0.001  # of the difference of the cosines between which a spot fades, as the extension has it


def punctual_power(light: Light, radius: float) -> float:
    """The luminous power of a light in a scene of this radius, W; 0 for what is no number."""
    strength = light.intensity * float(np.dot(light.color, LUMINANCE))
    if not (strength > 0 and math.isfinite(strength) and np.isfinite(light.world).all()):
        return 0.0
    if light.kind == "directional":
        return strength * math.pi * radius * radius
    return strength * (4 * math.pi if light.kind == "point" else 2 * math.pi * (1 - math.cos(light.outer_cone)))


def punctual_rows(lights: Sequence[Light], radius: float) -> tuple[NDArray[np.float32], float]:
    """float32[n, PUNCTUAL_ROW] of the lights that shine, and their power in all."""
    powers = [punctual_power(light, radius) for light in lights]
    shining = [(light, power) for light, power in zip(lights, powers, strict=True) if power > 0]
    rows = np.zeros((len(shining), PUNCTUAL_ROW), np.float32)
    if not shining:
        return rows, 0.0
    total = sum(powers)
    table = alias_table(np.array([0.5 * power / total + 0.5 / len(shining) for _, power in shining]))
    for row, (light, _) in zip(rows, shining, strict=True):
        row[0:3] = light.world[:3, 3]
        row[3] = light.kind == "directional"
        row[4:7] = -light.world[:3, 2]
        row[8:11] = np.multiply(light.color, light.intensity)
        row[11] = 1.0
        if light.kind == "spot":
            outer = math.cos(light.outer_cone)
            row[7] = 1.0 / max(NARROWEST, math.cos(light.inner_cone) - outer)
            row[11] = -outer * row[7]
        if light.kind != "directional" and math.isfinite(light.range) and light.range > 0:
            row[12] = 1.0 / light.range**2
    rows[:, 13], rows[:, 14], rows[:, 15] = table.probability, table.alias.view(np.float32), table.pmf
    return rows, float(total)
