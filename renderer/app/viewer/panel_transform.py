"""A placing matrix as numbers that a person can read and set: position, rotation in degrees, scale; and back, without loss.

An affine matrix has twelve numbers, position, angles and scales only nine: where a parent was stretched after a child was turned, the
child is sheared. So three shears are kept beside the nine, out of sight, and any matrix comes back as it was, mirrored and flat ones too.
The linear part is split as L = R U (Gram-Schmidt on the columns, "unmatrix" in Graphics Gems II): R a rotation, U upper triangular
with the scales on its diagonal and shear times scale beside it. A mirroring is put into the sign of the x scale, as glTF writers do.

The angles are those of rotations about the world's x, then y, then z axis: R = Rz Ry Rx. Where y is a quarter turn only the difference
of the others is defined; x is then taken to be 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from renderer.scene.model import Float64s

Triple = tuple[float, float, float]
TINY = 1e-9  # a column that is so much shorter than the longest one has no direction
LOCKED = 1e-7  # cosine of the turn about y below which the other two angles cannot be told apart


@dataclass(frozen=True)
class Transform:
    """Position in metres, angles in degrees about x, y and z, scale along the object's own axes, shear (xy, xz, yz)."""

    position: Triple
    rotation: Triple
    scale: Triple
    shear: Triple = (0.0, 0.0, 0.0)

    def matrix(self) -> Float64s:
        """float64[4, 4], affine."""
        xy, xz, yz = self.shear
        x, y, z = self.scale
        result = np.eye(4)
        result[:3, :3] = rotation_matrix(self.rotation) @ np.array([[x, xy, xz], [0.0, y, yz], [0.0, 0.0, z]])
        result[:3, 3] = self.position
        return result

    @property
    def is_sheared(self) -> bool:
        """Whether position, angles and scale alone are not the whole truth."""
        return max(map(abs, self.shear)) > 1e-6 * max(map(abs, self.scale))


def decompose(matrix: Float64s) -> Transform:
    """The transform whose matrix is `matrix`, float64[4, 4], affine and finite."""
    linear = matrix[:3, :3]
    axes = _axes(linear)
    upper = axes.T @ linear
    if np.linalg.det(axes) < 0:
        axes[:, 0] = -axes[:, 0]
        upper[0] = -upper[0]
    return Transform(
        _triple(matrix[:3, 3]),
        angles(axes),
        _triple(upper.diagonal()),
        (float(upper[0, 1]), float(upper[0, 2]), float(upper[1, 2])),
    )


def rotation_matrix(degrees: Triple) -> Float64s:
    """Rz Ry Rx, float64[3, 3]."""
    x, y, z = (math.radians(angle) for angle in degrees)
    cx, cy, cz, sx, sy, sz = math.cos(x), math.cos(y), math.cos(z), math.sin(x), math.sin(y), math.sin(z)
    return np.array(
        [
            [cy * cz, sx * sy * cz - cx * sz, cx * sy * cz + sx * sz],
            [cy * sz, sx * sy * sz + cx * cz, cx * sy * sz - sx * cz],
            [-sy, sx * cy, cx * cy],
        ]
    )


def angles(rotation: Float64s) -> Triple:
    """Degrees about x, y, z of a rotation, float64[3, 3]; y within a quarter turn either way."""
    cosine = math.hypot(rotation[0, 0], rotation[1, 0])
    y = math.atan2(-rotation[2, 0], cosine)
    if cosine > LOCKED:
        x, z = math.atan2(rotation[2, 1], rotation[2, 2]), math.atan2(rotation[1, 0], rotation[0, 0])
    else:
        x, z = 0.0, math.atan2(-rotation[0, 1], rotation[1, 1])
    return math.degrees(x) + 0.0, math.degrees(y) + 0.0, math.degrees(z) + 0.0  # no angle is -0


def _axes(linear: Float64s) -> Float64s:
    """Orthonormal columns, float64[3, 3], made from those of `linear`; what has no direction gets one at a right angle to the rest."""
    longest = float(np.linalg.norm(linear, axis=0).max())
    axes = np.zeros((3, 3))
    missing = []
    for k in range(3):
        rest = linear[:, k]
        for _ in range(2):  # once more for what rounding left
            rest = rest - axes @ (axes.T @ rest)
        length = float(np.linalg.norm(rest))
        if length > TINY * longest:
            axes[:, k] = rest / length
        else:
            missing.append(k)
    for k in missing:
        rests = np.eye(3) - axes @ axes.T
        best = int(np.argmax(np.linalg.norm(rests, axis=0)))
        axes[:, k] = rests[:, best] / np.linalg.norm(rests[:, best])
    return axes


def _triple(values: Float64s) -> Triple:
    x, y, z = (float(value) for value in values)
    return x, y, z
