"""The camera of a scene that brings none: it sees all that is drawn, and as little else as can be.

It looks from the front (+z in glTF), a bit from the right and from above. A scene that is flat would be seen nearly edge on if it lies or
stands across: at a floor it looks down from halfway up, at a wall that faces sideways from its side.

The scene is taken for its box, whose corners the picture is to hold. In the camera's axes a corner (x, y, z), z towards the eye,
is within the slope t to the right of an eye at (a, b, d) where x - a <= t (d - z), that is a + t d >= x + t z; to the left where
-a + t d >= -x + t z. With the largest right side of all corners these are two lines in a and d, and where they cross is the nearest
eye; the same in y. The eye stands at the farther of both distances, and there, in each axis, where the scene has as much room on
the one side as on the other.
"""

from __future__ import annotations

import math

import numpy as np

from renderer.scene.model import Camera, Float64s, Perspective, Scene

DEFAULT_YFOV = math.radians(35.0)
DEFAULT_VIEW = (0.5, 0.4, 1.0)  # from the scene towards the camera: the front of a glTF asset faces +z
FLAT = 0.1  # a side of the box that is less than this part of both others makes it a plate
FLAT_VIEWS = ((1.0, 0.3, 0.35), (0.35, 0.8, 1.0), (0.25, 0.2, 1.0))  # of a plate across x, y, z
MARGIN = 1.08  # of the picture's sides to what is in it


def default_camera(scene: Scene, aspect: float = 1.0) -> Camera:
    """A camera that frames the whole scene in pictures of this aspect (width over height) and wider ones; a box of two metres about the
    origin where nothing is drawn."""
    bounds = scene.bounds()
    if bounds is None:
        bounds = np.array([[-1.0] * 3, [1.0] * 3])
    size = bounds[1] - bounds[0]
    reach = float(size.max()) or 1.0
    axes = _axes(np.array(_view(size)))
    middle = bounds.mean(axis=0)
    corners = np.array([[i, j, k] for i in (-0.5, 0.5) for j in (-0.5, 0.5) for k in (-0.5, 0.5)]) * size @ axes
    slope = math.tan(DEFAULT_YFOV / 2) / MARGIN
    x, y, z = corners.T
    near = float(z.max()) + 0.1 * reach  # never in the scene, nor nearer to it than this
    distance = max(_nearest(x, z, slope * min(aspect, 1e3)), _nearest(y, z, slope), near)
    world = np.eye(4)
    world[:3, :3] = axes
    world[:3, 3] = middle + axes @ np.array([_between(x, distance - z), _between(y, distance - z), distance])
    return Camera("default", Perspective(DEFAULT_YFOV, None, distance * 1e-3, distance * 1e3), world)


def _view(size: Float64s) -> tuple[float, float, float]:
    """From where to look at a box of this size."""
    thin = int(size.argmin())
    return FLAT_VIEWS[thin] if size[thin] < FLAT * np.delete(size, thin).min() else DEFAULT_VIEW


def _axes(view: Float64s) -> Float64s:
    """float64[3, 3]: columns right, up and backward of a camera that stands level and looks against `view`."""
    back = view / np.linalg.norm(view)
    right = np.cross([0.0, 1.0, 0.0], back)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(back, right), back], axis=1)


def _nearest(place: Float64s, depth: Float64s, slope: float) -> float:
    """How far off an eye stands at least that is to have these places within a slope on both sides."""
    return float((depth * slope + place).max() + (depth * slope - place).max()) / (2 * slope)


def _between(place: Float64s, distance: Float64s) -> float:
    """Where an eye stands across that has places at these distances within the same slope on both sides: within s where p - a <= s d and
    a - p <= s d for all of them, which two places p, q allow where s >= (p - q) / (d_p + d_q)."""
    slopes = (place[:, None] - place) / (distance[:, None] + distance)
    outermost = int(slopes.argmax()) // len(place)
    return float(place[outermost] - slopes.max() * distance[outermost])
