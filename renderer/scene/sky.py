"""Skies as pictures of the surroundings: a clear one with a sun in it, and a grey one with a lamp, for scenes that bring no light.

The clear sky is Preetham, Shirley and Smits, "A Practical Analytic Model for Daylight" (1999): five coefficients for each of luminance and
chromaticity, linear in the turbidity, in Perez's formula, times the value at the zenith. The sun is far larger than the real one, so that
its shadows are soft, and sends little more to level ground than the sky does, where the real one sends several times as much: shadows are
to be seen into. Its colour is what the blue of the sky lacks, so that white paper on level ground is white. Below the horizon there is a
ground that reflects what it gets.

The sun stands to the left behind the camera that looks at scenes which have none.

The grey one is what a photographer's studio is: it tints nothing, it is darkest below and brightest above, and a large soft lamp hangs
where the sun of the other one stands. In light that is the same from everywhere a white thing looks like the light behind it, and a mirror
too; here each side of a thing has a brightness of its own, and what is behind it is a grey that neither white nor black is lost in.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from renderer.scene.environment_tables import LUMINANCE, solid_angles
from renderer.scene.soup import Float32s, Float64s

SIZE = (256, 512)
TURBIDITY = 2.6
SUN = (-0.62, 0.72, 0.60)  # towards it; not of unit length
SUN_RADIUS = math.radians(2.2)
SUN_SHARE = 0.62  # of what level ground receives
GROUND = (0.185, 0.18, 0.17)  # albedo
HORIZON = 0.03  # of the elevation's sine, over which sky and ground pass into each other
RADIANCE = 0.9  # of white paper on level ground

STUDIO_SIZE = (64, 128)
FLOOR, WALL, CEILING = 0.10, 0.22, 0.80  # radiance straight down, at the horizon, straight up
LAMP_RADIUS = math.radians(20.0)

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


@lru_cache(maxsize=1)
def clear_sky() -> Float32s:
    """float32[height, width, 3]: the picture, equirectangular as `Environment.image` is."""
    height, width = SIZE
    up, towards = _directions(height, width)
    weight = (solid_angles(height, width)[:, None] * np.maximum(up, 0.0))[..., None]

    air = preetham(np.maximum(up, 1e-3), np.arccos(towards), math.acos(SUN[1] / float(np.linalg.norm(SUN))), TURBIDITY)
    from_air = (air * weight).sum((0, 1)) / math.pi  # of white paper
    air = air * (RADIANCE * (1 - SUN_SHARE) / float(from_air @ LUMINANCE))
    disk = np.clip((SUN_RADIUS - np.arccos(towards)) / (0.35 * SUN_RADIUS) + 0.5, 0.0, 1.0)[..., None]
    above = air + disk * ((RADIANCE - (air * weight).sum((0, 1)) / math.pi) * (math.pi / float((disk * weight).sum())))
    below = np.array(GROUND) * RADIANCE
    share = np.clip(up / (2 * HORIZON) + 0.5, 0.0, 1.0)[..., None]
    picture: Float32s = (above * share + below * (1 - share)).astype(np.float32)
    picture.setflags(write=False)
    return picture


@lru_cache(maxsize=1)
def studio_sky() -> Float32s:
    """float32[height, width, 3]: the grey sky with a lamp, as a picture like `clear_sky`; white paper on level ground is as
    bright in it."""
    height, width = STUDIO_SIZE
    up, towards = _directions(height, width)
    weight = solid_angles(height, width)[:, None] * np.maximum(up, 0.0)
    smooth = np.abs(up) ** 1.5
    walls = WALL + (np.where(up > 0, CEILING, FLOOR) - WALL) * smooth
    lamp = np.clip((LAMP_RADIUS - np.arccos(towards)) / (0.5 * LAMP_RADIUS) + 0.5, 0.0, 1.0)
    lamp = lamp * lamp * (3 - 2 * lamp)
    grey = walls + lamp * ((RADIANCE * math.pi - float((walls * weight).sum())) / float((lamp * weight).sum()))
    picture: Float32s = np.repeat(grey[..., None], 3, axis=2).astype(np.float32)
    picture.setflags(write=False)
    return picture


def _directions(height: int, width: int) -> tuple[Float64s, Float64s]:
    """Of each texel of a picture, float64[height, width]: the sine of its elevation, and the cosine of its angle to the sun."""
    theta = (np.arange(height) + 0.5)[:, None] * (math.pi / height)
    phi = ((np.arange(width) + 0.5) / width - 0.5)[None, :] * (2 * math.pi)
    up = np.broadcast_to(np.cos(theta), (height, width))
    directions = np.stack([np.sin(theta) * np.cos(phi), up, np.sin(theta) * np.sin(phi)], -1)
    return up, np.clip(directions @ (np.array(SUN) / np.linalg.norm(SUN)), -1.0, 1.0)


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
