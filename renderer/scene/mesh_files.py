"""What the importers of plain mesh files (OBJ, PLY, STL) share: such a file has triangles and little else.

They say nothing of units, so a length of 1 is a metre, and nothing reliable of sides, so surfaces are seen from both. What a file gives
no material is matt and light grey. Vertex colours in these formats are values for a display: they are taken through the sRGB curve.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renderer.scene.gltf_json import Diagnostics
from renderer.scene.model import Float32s, Geometry, Instance, Material, Mesh, Scene

NEUTRAL = Material("default", (0.8, 0.8, 0.8, 1.0), 0.0, 1.0, double_sided=True)


def numbers(text: bytes, dtype: Any = np.float64) -> NDArray[Any]:
    """Numbers that are written as text, apart by white space. Raises ValueError where something is none."""
    return np.fromstring(text, dtype, sep=" ")


def linear(colours: NDArray[Any]) -> Float32s:
    """Display values within [0, 1] through the sRGB curve: float32 of the same shape."""
    clipped = np.clip(np.nan_to_num(colours), 0.0, 1.0)
    straight: Float32s = np.where(clipped <= 0.04045, clipped / 12.92, ((clipped + 0.055) / 1.055) ** 2.4).astype(np.float32)
    return straight


def with_alpha(colours: NDArray[Any]) -> Float32s:
    """Linear colours float32[n, 4] of display values [n, 3 or 4] within [0, 1]; alpha is linear."""
    found = np.ones((len(colours), 4), np.float32)
    found[:, :3] = linear(colours[:, :3])
    if colours.shape[1] > 3:
        found[:, 3] = np.clip(colours[:, 3], 0.0, 1.0)
    return found


def unit_normals(normals: NDArray[Any], what: str, diagnostics: Diagnostics) -> Float32s:
    """Normals [n, 3] of unit length, zero (flat) where that cannot be, with a warning where one is not finite."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        length = np.linalg.norm(normals, axis=1, keepdims=True)
        usable = np.isfinite(length) & (length > 0.0)
        found: Float32s = np.where(usable, normals / length, 0.0).astype(np.float32)
    bad = len(length) - int(usable.sum())
    if bad:
        diagnostics.warning(what, f"{bad} normals have no direction; flat there")
    return found


def finite_triangles(
    indices: NDArray[np.uint32], positions: Float32s, what: str, diagnostics: Diagnostics
) -> NDArray[np.uint32]:
    """Without the triangles that touch a position that is not finite."""
    finite = np.logical_and.reduce(np.isfinite(positions), axis=1)
    if finite.all():
        return indices
    kept = finite[indices].all(1)
    told = f"{int((~finite).sum())} positions are not finite; {int((~kept).sum())} triangles are dropped"
    diagnostics.warning(what, told)
    left: NDArray[np.uint32] = indices[kept]
    return left


def lone_scene(file: Path, geometry: Geometry, diagnostics: Diagnostics) -> Scene:
    """A scene of one geometry, which stands where its numbers say."""
    scene = Scene(file, materials=[NEUTRAL])
    if len(geometry.indices):
        scene.meshes.append(Mesh(file.stem, [geometry]))
        scene.instances.append(Instance(0, np.eye(4), file.stem, 0))
    return finished(scene, diagnostics)


def finished(scene: Scene, diagnostics: Diagnostics) -> Scene:
    """The scene with the warnings that were given; one without triangles says so."""
    if not scene.instances:
        diagnostics.warning("", "the scene has nothing to draw: there are no triangles")
    scene.warnings.extend(diagnostics.messages)
    return scene
