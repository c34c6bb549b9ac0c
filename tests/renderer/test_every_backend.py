"""What went wrong for others on some device, on every device that is here: flat triangles, lamps with flat parts, shells, sizes.

Sessions as the commands make them, so that tables, kernels and launches are all in it. One picture is the standard for another: what must
make no difference makes none, and where devices differ in the last bits of their arithmetic, means agree within their noise.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from engine import Device, open_device
from renderer.pipeline.session import Session
from renderer.scene.model import Environment, Material, Scene
from renderer.scene.model_material import Transmission, Volume
from tests.renderer.helpers.backends import device, picture
from tests.renderer.helpers.worlds import grey, icosphere, look_at, quad, scene_of

__all__ = ["device"]  # the fixture
DARK = Environment((0.0, 0.0, 0.0))


# ---- C31 ----


def test_flat_triangles_are_never_seen_and_the_good_one_is(device: Device) -> None:
    """A point and two lines beside it; and a thousand equal triangles are one."""
    p, q = [-0.5, 0.5, 0.1], [0.5, -0.5, 0.1]
    flat = np.array([[p, p, p], [p, p, q], [p, q, q]], np.float32)
    good = np.array([[[-0.5, -0.5, 0], [0.5, -0.5, 0], [0.5, 0.5, 0]]], np.float32)
    camera = look_at((0, 0, 5), (0, 0, 0), 0.4)
    size, clean = (20, 20), scene_of((good, grey(0.0, (0, 1, 0))), camera=camera)
    clean.environment = DARK
    spoilt = scene_of((np.concatenate([good, flat]), grey(0.0, (0, 1, 0))), camera=camera)
    many = scene_of((np.repeat(good, 1000, 0), grey(0.0, (0, 1, 0))), camera=camera)
    spoilt.environment = many.environment = DARK
    want = picture(clean, device, size, spp=4, depth=1)
    assert np.array_equal(picture(spoilt, device, size, spp=4, depth=1), want)
    assert np.array_equal(picture(many, device, size, spp=4, depth=1), want)
    covered = want[..., 1].sum()  # pixels: the triangle is half of a square that is seen in this many
    side = 20 / (2 * 5 * np.tan(0.2))
    assert abs(covered - side * side / 2) < side


# ---- C33 ----


@cache
def room(flat: bool) -> Scene:
    """A floor under a lamp, which has a flat triangle or has none."""
    lamp = quad([-0.5, 1, -0.5], [1, 0, 0], [0, 0, 1])
    if flat:
        lamp = np.concatenate([lamp, np.array([[lamp[0, 0], lamp[0, 1], lamp[0, 0]]], np.float32)])
    floor = quad([-1, 0, 1], [2, 0, 0], [0, 0, -2])
    made = scene_of((floor, grey(0.7)), (lamp, grey(0.0, 5.0)), camera=look_at((0, 0.6, 2), (0, 0.2, 0), 0.9))
    made.environment = DARK
    return made


@cache
def standard() -> float:
    """The mean of the floor under the clean lamp, on the CPU."""
    device = open_device("cpu")
    mean = float(picture(room(False), device, (24, 16), spp=16, frames=16, depth=3).mean())
    device.close()
    return mean


def test_a_lamp_with_a_flat_triangle_lights_as_one_without_and_alike_everywhere(device: Device) -> None:
    frames = 2 if device.backend == "reference" else 16
    clean, spoilt = (picture(room(flat), device, (24, 16), spp=16, frames=frames, depth=3) for flat in (False, True))
    assert abs(spoilt.mean() / clean.mean() - 1) < 0.005
    assert abs(clean.mean() / standard() - 1) < (0.03 if device.backend == "reference" else 0.01)
    assert (clean[8:] > 0).any()


# ---- C35 ----


def test_a_red_ball_within_a_clear_shell_a_hair_above_it_is_seen(device: Device) -> None:
    """Radii 1 and 1.00004: a path through the glass meets the ball and not the glass again, wherever it is."""
    glass = Material("glass", metallic=0.0, roughness=0.0, transmission=Transmission(1.0), volume=Volume(1.0))
    red = grey((0.8, 0.05, 0.05))
    for shift in (0.0, 10.0):
        middle = np.array([shift, 0, 0])
        balls = [(icosphere(3, 1.0, middle), red), (icosphere(3, 1.00004, middle), glass)]
        scene = scene_of(*balls, camera=look_at(np.add(middle, (0, 0, 5)), middle, 0.3))
        seen = picture(scene, device, (9, 9), spp=4 if device.backend == "reference" else 64, depth=4)
        red_, green, blue = seen[3:6, 3:6].mean((0, 1))
        assert red_ > 3 * green and red_ > 3 * blue and red_ > 0.2, shift


# ---- C43 ----


def test_sizes_of_nothing_change_nothing_and_extreme_ones_are_drawn(device: Device) -> None:
    """What a window that is minimised and restored tells, and splitters that are dragged shut."""
    scene = scene_of((icosphere(2), grey(0.5)), camera=look_at((0, 0, 5), (0, 0, 0), 0.8))
    session = Session(scene, width=24, height=16, device=device, spp=1, depth=2)
    for _ in range(3):
        session.frame()
    before, held = session.mean(), session.device.bytes_allocated
    allocations, compiles = session.counters.allocations, session.counters.compiles
    for size in ((0, 0), (1, 0), (0, 1), (-1, 5), (24, 16)):
        session.resize(*size)
        assert (session.width, session.height, session.samples) == (24, 16, 3)
    assert np.array_equal(session.mean(), before)
    assert session.counters.allocations == allocations and session.device.bytes_allocated == held
    session.frame()
    assert session.samples == 4
    large = (1024, 1) if device.backend == "reference" else (16384, 16)
    for size in ((1, 1), large, (1, 512), (24, 16)):
        session.resize(*size)
        session.frame()
        shown = session.mean()
        assert shown.shape == (size[1], size[0], 3) and np.isfinite(shown).all() and session.nonfinite == 0
        assert shown.any()
    assert session.counters.compiles == compiles
    session.close()
