"""The camera under the user's hand: orbit, pan, zoom, fly, frame, as functions from one view to the next.

A `View` is a camera and a pivot, the point that dragging turns about and that the wheel draws near. Every function takes a view and
a movement of the hand (pixels, wheel steps, seconds) and returns another view; nothing is kept between calls, so that the same
movements give the same picture, whatever the rate of frames.

Orientation is taken apart into yaw about the world's vertical, pitch and roll, and put together from them again, so that the horizon
stays as it was and rounding never adds up. Pitch stops just short of the poles. Lengths come from the view itself (the distance of the
pivot) or from the scene's radius, never from a constant in metres: a ring of millimetres and a landscape of kilometres feel alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from renderer.scene.framing import default_camera
from renderer.scene.model import Camera, Float64s, Orthographic, Perspective, Scene

POLE = math.radians(89.5)  # the steepest pitch that orbiting reaches
TURN = math.pi  # radians for a drag over the whole height of the window
ZOOM = 0.15  # of the logarithm of the distance, a step of the wheel
NEAREST = 1e-5  # of the scene's radius: the wheel goes no nearer to the pivot
FARTHEST = 1e3
SPEED = 0.6  # scene radii a second when flying; FAST times that with shift
FAST = 4.0
MARGIN = 1.05  # around the scene when it is framed
UP = np.array([0.0, 1.0, 0.0])


@dataclass(frozen=True)
class View:
    """What the window looks at: `camera` as it stands now, and `pivot`, float64[3], in metres."""

    camera: Camera
    pivot: Float64s

    @property
    def distance(self) -> float:
        """Metres from the eye to the pivot."""
        return float(np.linalg.norm(self.camera.world[:3, 3] - self.pivot))


@dataclass(frozen=True)
class Extent:
    """A scene's middle, float64[3], and the radius of the sphere about its box (never 0)."""

    middle: Float64s
    radius: float

    @staticmethod
    def of(scene: Scene) -> Extent:
        """Of all that is drawn; a ball of one metre where that is nothing."""
        bounds = scene.bounds()
        if bounds is None:
            return Extent(np.zeros(3), 1.0)
        return Extent(bounds.mean(axis=0), float(np.linalg.norm(bounds[1] - bounds[0])) / 2 or 1.0)


def is_orthographic(camera: Camera) -> bool:
    """Whether a camera's rays are parallel, which is a matter of structure."""
    return isinstance(camera.projection, Orthographic)


def view_of(camera: Camera, extent: Extent) -> View:
    """A camera's view. The pivot is on its axis, as far off as the scene's middle (half a radius where that is behind it)."""
    eye, back = camera.world[:3, 3], camera.world[:3, 2]
    depth = float(np.dot(extent.middle - eye, -back))
    return View(camera, eye - back * (depth if depth > NEAREST * extent.radius else extent.radius / 2))


def scene_view(scene: Scene, extent: Extent, camera: int, aspect: float = 1.0) -> View:
    """The view of the scene's camera of this number; of one that frames the scene in pictures of this aspect (width over
    height) where there is none of that number."""
    there = 0 <= camera < len(scene.cameras)
    return view_of(scene.cameras[camera] if there else default_camera(scene, aspect), extent)


def orbit(view: View, dx: float, dy: float, height: float) -> View:
    """Turns about the pivot, which keeps its place in the picture, by a drag of (dx, dy) pixels, dy down, in a window of this height."""
    yaw, pitch, roll = _angles(view.camera.world)
    scale = TURN / max(height, 1.0)
    low, high = min(-POLE, pitch), max(POLE, pitch)  # a camera beyond the pole may come back, and goes no further
    before = _rotation(yaw, pitch, roll)
    after = _rotation(yaw - dx * scale, float(np.clip(pitch - dy * scale, low, high)), roll)
    eye = view.pivot + after @ (before.T @ (view.camera.world[:3, 3] - view.pivot))
    return replace(view, camera=_placed(view.camera, after, eye))


def pan(view: View, dx: float, dy: float, height: float) -> View:
    """Moves eye and pivot so that what is at the pivot's depth follows a drag of (dx, dy) pixels."""
    world = view.camera.world
    depth = max(float(np.dot(view.pivot - world[:3, 3], -world[:3, 2])), 0.0) or view.distance
    projection = view.camera.projection
    half = projection.ymag if isinstance(projection, Orthographic) else math.tan(projection.yfov / 2) * depth
    pixel = 2 * half / max(height, 1.0)
    return _moved(view, world[:3, 1] * (dy * pixel) - world[:3, 0] * (dx * pixel))


def dolly(view: View, steps: float, extent: Extent) -> View:
    """Draws near to the pivot (steps > 0) or away from it, each step by the same ratio; an orthographic camera's extent changes instead."""
    ratio = math.exp(-ZOOM * steps)
    projection = view.camera.projection
    if isinstance(projection, Orthographic):
        size = float(np.clip(projection.ymag * ratio, NEAREST * extent.radius, FARTHEST * extent.radius))
        by = size / projection.ymag if projection.ymag else 1.0
        zoomed = replace(projection, xmag=projection.xmag * by, ymag=size)
        return replace(view, camera=replace(view.camera, projection=zoomed))
    offset = view.camera.world[:3, 3] - view.pivot
    now = float(np.linalg.norm(offset))
    if now == 0.0:  # on the pivot itself: there is no way towards it, and away is backwards
        offset, now = view.camera.world[:3, 2] * NEAREST * extent.radius, NEAREST * extent.radius
    low, high = min(NEAREST * extent.radius, now), max(FARTHEST * extent.radius, now)
    eye = view.pivot + offset * (float(np.clip(now * ratio, low, high)) / now)
    return replace(view, camera=_placed(view.camera, view.camera.world[:3, :3], eye))


def fly(view: View, right: float, up: float, ahead: float, seconds: float, extent: Extent, fast: bool = False) -> View:
    """Flies for so many seconds: right and ahead along the camera's axes, up along the vertical, each from -1 to 1. The pivot comes too."""
    world = view.camera.world
    direction = world[:3, 0] * right + UP * up - world[:3, 2] * ahead
    length = float(np.linalg.norm(direction))
    if length == 0.0:
        return view
    return _moved(view, direction / max(length, 1.0) * (SPEED * (FAST if fast else 1.0) * extent.radius * seconds))


def pivoted(view: View, point: Float64s) -> View:
    """Turns about this point from now on; the picture stays."""
    return replace(view, pivot=np.array(point, np.float64))


def framed(view: View, extent: Extent, aspect: float) -> View:
    """Backs off, or comes near, until the whole scene is in a picture of this aspect (width over height); looks at its middle."""
    camera = view.camera
    back = camera.world[:3, 2]
    projection = camera.projection
    radius = MARGIN * extent.radius
    if isinstance(projection, Orthographic):
        half = radius / min(1.0, aspect)
        camera = replace(camera, projection=replace(projection, xmag=half * aspect, ymag=half))
        distance = 2 * radius
    else:
        distance = radius / math.sin(_narrowest(projection, aspect))
    return View(_placed(camera, camera.world[:3, :3], extent.middle + back * distance), extent.middle.copy())


def _narrowest(projection: Perspective, aspect: float) -> float:
    """Half of the smaller of the two angles of view."""
    return math.atan(math.tan(projection.yfov / 2) * min(1.0, aspect))


def _moved(view: View, by: Float64s) -> View:
    camera = view.camera
    return View(_placed(camera, camera.world[:3, :3], camera.world[:3, 3] + by), view.pivot + by)


def _placed(camera: Camera, rotation: Float64s, eye: Float64s) -> Camera:
    world = np.eye(4)
    world[:3, :3], world[:3, 3] = rotation, eye
    return replace(camera, world=world)


def _angles(world: Float64s) -> tuple[float, float, float]:
    """Yaw, pitch and roll, in radians, of a camera's axes: `_rotation` of them gives the axes back."""
    back = world[:3, 2]
    pitch = -math.asin(float(np.clip(back[1], -1.0, 1.0)))
    level = math.hypot(float(back[0]), float(back[2]))
    yaw = math.atan2(float(back[0]), float(back[2])) if level > 1e-9 else 0.0
    rest = _rotation(yaw, pitch, 0.0).T @ world[:3, :3]
    return yaw, pitch, math.atan2(float(rest[1, 0]), float(rest[0, 0]))


def _rotation(yaw: float, pitch: float, roll: float) -> Float64s:
    """float64[3, 3]: about z by roll, then about x by pitch, then about y (the vertical) by yaw."""
    cy, sy, cp, sp, cr, sr = (f(a) for a in (yaw, pitch, roll) for f in (math.cos, math.sin))
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_x = np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
    about_z = np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])
    turned: Float64s = about_y @ about_x @ about_z
    return turned
