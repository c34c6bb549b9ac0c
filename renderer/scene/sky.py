"""A clear sky with a sun in it, as a picture of the surroundings: light for scenes that bring none.

The sky is Preetham, Shirley and Smits, "A Practical Analytic Model for Daylight" (1999): five coefficients for each of luminance and
chromaticity, linear in the turbidity, in Perez's formula, times the value at the zenith. The sun is far larger than the real one, so that
its shadows are soft, and sends little more to level ground than the sky does, where the real one sends several times as much: shadows are
to be seen into. Its colour is what the blue of the sky lacks, so that white paper on level ground is white. Below the horizon there is a
ground that reflects what it gets.

The sun stands to the left behind the camera that looks at scenes which have none; how high, and how hazy the air is, says the `Sky`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from renderer.scene.environment_tables import LUMINANCE, solid_angles
from renderer.scene.model import Environment, Sky
from renderer.scene.soup import Float32s, Float64s

SIZE = (256, 512)
AZIMUTH = math.atan2(0.60, -0.62)  # of the sun, from +x towards +z
LOWEST, HIGHEST = 3.0, 90.0  # degrees of elevation for which there is a sky
CLEAREST, HAZIEST = 2.0, 10.0  # and of turbidity
SUN_RADIUS = math.radians(2.2)
SUN_SHARE = 0.62  # of what level ground receives
GROUND = (0.185, 0.18, 0.17)  # albedo
HORIZON = 0.03  # of the elevation's sine, over which sky and ground pass into each other
RADIANCE = 0.9  # of white paper on level ground

# Appendix A.2 of the paper: rows A to E of Perez's formula, each as slope and offset in the turbidity.
_PEREZ = {
    "Y": ((0.1787, -1.4630), (-0.3554, 0.4275), (-0.0227, 5.3251), (0.1206, -2.5771), (-0.0670, 0.3703)),
    "x": ((-0.0193, -0.2592), (-0.0665, 0.0008), (-0.0004, 0.2125), (-0.0641, -0.8989), (-0.0033, 0.0452)),
    "y": ((-0.0167, -0.2608), (-0.0950, 0.0092), (-0.0079, 0.2102), (-0.0441, -1.6537), (-0.0109, 0.0529)),
}
# Chromaticity of the zenith: by powers of the turbidity (2, 1, 0) down, of the sun's zenith angle (3 to 0) across.
_ZENITH = {
    "x": ((0.00166, -0.00375, 0.00209, 0.0), (-0.02903, 0.06377, -0.03202, 0.00394), (0.11693, -0.21196, 0.06052, 0.25886)),
    "y": ((0.00275, -0.00610, 0.00317, 0.0), (-0.04214, 0.08970, -0.04153, 0.00516), (0.15346, -0.26756, 0.06670, 0.26688)),
}
_RGB_OF_XYZ = np.array([[3.2406, -1.5372, -0.4986], [-0.9689, 1.8758, 0.0415], [0.0557, -0.2040, 1.0570]])


def picture_of(environment: Environment) -> Float32s | None:
    """The image of surroundings, made if they are a sky; the same array each time. None where they are the same all around."""
    return environment.image if environment.sky is None else clear_sky(environment.sky)


@lru_cache(maxsize=2)
def clear_sky(sky: Sky) -> Float32s:
    """float32[height, width, 3]: the picture, equirectangular as `Environment.image` is. What is beyond the limits counts as at them."""
    height, width = SIZE
    theta = (np.arange(height) + 0.5)[:, None] * (math.pi / height)
    phi = ((np.arange(width) + 0.5) / width - 0.5)[None, :] * (2 * math.pi)
    up = np.broadcast_to(np.cos(theta), SIZE)
    directions = np.stack([np.sin(theta) * np.cos(phi), up, np.sin(theta) * np.sin(phi)], -1)
    elevation = math.radians(min(max(sky.elevation, LOWEST), HIGHEST))
    sun = np.array([math.cos(elevation) * math.cos(AZIMUTH), math.sin(elevation), math.cos(elevation) * math.sin(AZIMUTH)])
    turbidity = min(max(sky.turbidity, CLEAREST), HAZIEST)
    towards = np.clip(directions @ sun, -1.0, 1.0)
    weight = (solid_angles(height, width)[:, None] * np.maximum(up, 0.0))[..., None]

    air = preetham(np.maximum(up, 1e-3), np.arccos(towards), math.pi / 2 - elevation, turbidity)
    from_air = (air * weight).sum((0, 1)) / math.pi  # of white paper
    air = air * (RADIANCE * (1 - SUN_SHARE) / float(from_air @ LUMINANCE))
    disk = np.clip((SUN_RADIUS - np.arccos(towards)) / (0.35 * SUN_RADIUS) + 0.5, 0.0, 1.0)[..., None]
    above = air + disk * ((RADIANCE - (air * weight).sum((0, 1)) / math.pi) * (math.pi / float((disk * weight).sum())))
    below = np.array(GROUND) * RADIANCE
    share = np.clip(up / (2 * HORIZON) + 0.5, 0.0, 1.0)[..., None]
    picture: Float32s = (above * share + below * (1 - share)).astype(np.float32)
    picture.setflags(write=False)
    return picture


def preetham(up: Float64s, gamma: Float64s, sun: float, turbidity: float) -> Float64s:
    """float64[..., 3]: relative radiance, linear Rec.709, where the sine of the elevation is `up` and the angle to the sun `gamma`; `sun`
    is its zenith angle, radians. Colours outside of what Rec.709 shows are brought to its border."""
    perez = {name: np.array([slope * turbidity + offset for slope, offset in rows]) for name, rows in _PEREZ.items()}
    chi = (4 / 9 - turbidity / 120) * (math.pi - 2 * sun)
    zenith = {"Y": (4.0453 * turbidity - 4.9710) * math.tan(chi) - 0.2155 * turbidity + 2.4192}
    for name, rows in _ZENITH.items():
        zenith[name] = float(np.array([turbidity**2, turbidity, 1.0]) @ np.array(rows) @ np.array([sun**3, sun**2, sun, 1.0]))
    value = {n: zenith[n] * _perez(c, up, gamma) / float(_perez(c, np.float64(1.0), np.float64(sun))) for n, c in perez.items()}
    scale = value["Y"] / value["y"]
    xyz = np.stack([value["x"] * scale, value["Y"], (1 - value["x"] - value["y"]) * scale], -1)
    return np.asarray(np.maximum(xyz @ _RGB_OF_XYZ.T, 0.0))


def _perez(c: NDArray[np.float64], up: NDArray[np.float64] | np.float64, gamma: NDArray[np.float64] | np.float64) -> Float64s:
    a, b, d, e, f = c  # A, B, C, D, E of the paper
    return np.asarray((1 + a * np.exp(b / up)) * (1 + d * np.exp(e * gamma) + f * np.cos(gamma) ** 2))
