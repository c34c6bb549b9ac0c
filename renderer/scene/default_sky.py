"""Whether a scene without surroundings is put under a sky.

One with punctual lights is not: who puts these in means them. Emissive surfaces may be lamps, or they may be signs: a label that shall be
read in any light, the display of a dashboard. Signs leave the rest of the scene black. What shines brighter than white paper does under
the sky is a lamp; glTF cannot even say so without KHR_materials_emissive_strength. What is left is told apart by what it does: it is
estimated what irradiance it brings to all that does not shine, with nothing in between, and of that the mean over the tenth of the area
that gets most, so that a lamp counts by what stands in its light. **Where that is less than a twentieth of what the sky would bring, the
sky is added**, and that is said. In rooms with lamps it is several times as much, of labels in the plane of what they name half.

The estimate takes pairs of points, of emissive surfaces by power and of others by area, at places that are always the same; textures count
as white. Of very many triangles some are looked at, and of very many placings some are written out, so that it takes little time and
no memory to speak of.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renderer.scene.environment_tables import LUMINANCE
from renderer.scene.model import QUIET, Scene
from renderer.scene.sky import RADIANCE
from renderer.scene.soup import Float64s, TriangleSoup, flattened, joined

GLOW = 1.0  # radiance of a surface's brightest channel, above which it is a lamp
SHARE = 0.05  # of the irradiance under the sky, below which emissive surfaces do not count as lamps
MOST_TRIANGLES = 1 << 16
MOST_DRAWN = 1 << 22  # triangles, beyond which not all placings are written out
_LAMPS, _OTHERS = 32, 1024  # points


def needs_sky(scene: Scene) -> bool:
    """Whether a sky is added to a scene."""
    if scene.environment is not None or scene.lights:
        return False
    glow = brightest(scene)
    if glow == 0 or glow > GLOW:
        return glow == 0
    return brought(scene) < SHARE * math.pi * RADIANCE


def brightest(scene: Scene) -> float:
    """The radiance of the surface that is drawn and shines the most, in its brightest channel."""
    geometries = (g for number in {i.mesh for i in scene.instances} for g in scene.meshes[number].geometries if len(g.indices))
    materials = (scene.materials[g.material_in(scene.variant)] for g in geometries)
    return max((max(material.emissive) for material in materials if material.is_emissive), default=0.0)


def brought(scene: Scene) -> float:
    """Irradiance in W/m2 (luminance) that emissive triangles bring to the others, nothing being in between: the mean over the tenth of
    these that gets most; infinite where there are no others."""
    materials, (soup, weight) = scene.materials, _thinned(scene)
    radiance = np.array([float(np.dot(m.emissive, LUMINANCE)) if m.is_emissive else 0.0 for m in materials])
    glows = (radiance > 0)[soup.material]
    if not glows.any():
        return 0.0
    if glows.all():
        return math.inf
    both_sides = np.array([m.double_sided for m in materials])
    shining, dark = _some(glows), _some(~glows)
    each = glows.sum() / len(shining)  # stands for so many
    lamps = _points(soup, shining, radiance[soup.material[shining]] * weight[shining] * each, _LAMPS)
    others = _points(soup, dark, weight[dark], _OTHERS)
    lamp_material, other_material = soup.material[lamps.triangle], soup.material[others.triangle]
    away = lamps.place[None] - others.place[:, None]
    square = np.maximum((away**2).sum(-1), 1e-30)
    leaving, arriving = -(away * lamps.normal[None]).sum(-1), (away * others.normal[:, None]).sum(-1)
    leaving = np.where(both_sides[lamp_material][None], np.abs(leaving), np.maximum(leaving, 0))
    arriving = np.where(both_sides[other_material][:, None], np.abs(arriving), np.maximum(arriving, 0))
    # Each lamp's point stands for a disk of its area a, which sends L a / (d^2 + a / pi) along its axis.
    disk = lamps.total / _LAMPS / radiance[lamp_material] / math.pi
    irradiance = (leaving * arriving / (square * (square + disk))).sum(1) * (lamps.total / _LAMPS)
    return float(np.sort(irradiance)[-_OTHERS // 10 :].mean())


@QUIET
def _thinned(scene: Scene) -> tuple[TriangleSoup, Float64s]:
    """Triangles of a scene, and how many each of them stands for: of what is placed very often, some placings are written out."""
    uses = list(scene.placed())
    step = -(-sum(len(use[2].indices) * len(use[0]) for use in uses) // MOST_DRAWN)
    if step <= 1:
        soup = scene.triangles()
        return soup, np.ones(len(soup))
    soups, weights = [], []
    for ids, number, geometry, material, worlds in uses:
        soups.append(flattened([(ids[::step], number, geometry, material, worlds[::step])]))
        weights.append(np.full(len(soups[-1]), len(ids) / len(ids[::step])))
    return joined(soups), np.concatenate(weights)


def _some(which: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The numbers of these triangles, evenly chosen where they are many."""
    numbers = np.flatnonzero(which)
    return numbers[:: -(-len(numbers) // MOST_TRIANGLES)]


class _Points(NamedTuple):
    """Points on triangles: of each its triangle, its place and its unit normal; total: the sum of all triangles' areas times weights."""

    triangle: NDArray[np.intp]
    place: Float64s
    normal: Float64s
    total: float


def _points(soup: TriangleSoup, triangles: NDArray[np.intp], weights: Float64s, count: int) -> _Points:
    """Points by area times weight."""
    p = soup.positions[triangles].astype(np.float64)
    e1, e2 = p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]
    normal = np.cross(e1, e2)
    double = np.linalg.norm(normal, axis=1)
    sums = np.cumsum(double * weights)
    k = np.arange(count)
    chosen = np.minimum(np.searchsorted(sums, (k + 0.5) / count * sums[-1]), len(triangles) - 1)
    u, v = (k * 0.7548776662466927 + 0.5) % 1.0, (k * 0.5698402909980532 + 0.5) % 1.0
    over = u + v > 1
    u, v = np.where(over, 1 - u, u)[:, None], np.where(over, 1 - v, v)[:, None]
    unit = normal[chosen] / np.maximum(double[chosen], 1e-300)[:, None]
    return _Points(triangles[chosen], p[chosen, 0] + e1[chosen] * u + e2[chosen] * v, unit, float(sums[-1]) / 2)
