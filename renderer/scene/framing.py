"""The camera of a scene that brings none: it sees all that is drawn, and as little else as can be.

It looks from the front (+z in glTF), a bit from the right and from above. A scene that is flat would be seen nearly edge on if it lies or
stands across: at a floor it looks down from halfway up, at a wall that faces sideways from its side.

The scene is taken for its box, whose corners the picture is to hold. In the camera's axes a corner (x, y, z), z towards the eye,
is within the slope t to the right of an eye at (a, b, d) where x - a <= t (d - z), that is a + t d >= x + t z; to the left where
-a + t d >= -x + t z. With the largest right side of all corners these are two lines in a and d, and where they cross is the nearest
eye, with the scene in the middle; the same in y. The eye stands at the farther of both distances.
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
    across, far_across = _nearest(corners[:, 0], corners[:, 2], slope * min(aspect, 1e3))
    up, far_up = _nearest(corners[:, 1], corners[:, 2], slope)
    distance = max(far_across, far_up, float(corners[:, 2].max()) + 0.1 * reach)  # never in the scene, nor nearer to it than this
    world = np.eye(4)
    world[:3, :3] = axes
    world[:3, 3] = middle + axes @ np.array([across, up, distance])
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


def _nearest(place: Float64s, depth: Float64s, slope: float) -> tuple[float, float]:
    """Where an eye stands across, and how far off at least, that is to have these places within a slope on both sides."""
    high, low = float((depth * slope + place).max()), float((depth * slope - place).max())
    return (high - low) / 2, (high + low) / (2 * slope)
