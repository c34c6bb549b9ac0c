"""While the camera moves frames keep the time they were given; at rest the picture is whole."""

from __future__ import annotations

from itertools import pairwise

import pytest

from renderer.app.viewer.pacing import FINER_AFTER, LADDER, REST_AFTER, Pacing, size_at

FULL = (1280, 720)


def drive(pacing: Pacing, ms_per_pixel: float, seconds: float, target: float, start: float = 0.0, overhead: float = 0.0) -> list[float]:
    """Moves all the time on a device of this speed; the time of each frame in ms."""
    now, times = start, []
    while now < start + seconds:
        pacing.moved(now)
        width, height = size_at(FULL, pacing.scale(now, FULL, target, 1.0))
        ms = overhead + ms_per_pixel * width * height
        pacing.drawn(ms, width * height)
        times.append(ms)
        now += ms / 1e3
    return times


def test_at_rest_the_picture_has_its_full_size() -> None:
    pacing = Pacing()
    pacing.drawn(500.0, FULL[0] * FULL[1])
    assert pacing.scale(10.0, FULL, 33.0, 1.0) == 1.0
    assert pacing.scale(10.0, FULL, 33.0, 0.5) == 0.5
    pacing.moved(10.0)
    assert pacing.scale(10.0, FULL, 33.0, 1.0) < 1.0
    assert pacing.scale(10.0 + REST_AFTER, FULL, 33.0, 1.0) == 1.0


def test_without_a_target_nothing_is_coarsened() -> None:
    pacing = Pacing()
    pacing.drawn(500.0, FULL[0] * FULL[1])
    pacing.moved(1.0)
    assert pacing.scale(1.0, FULL, None, 1.0) == 1.0


@pytest.mark.parametrize("whole_ms", [5.0, 60.0, 200.0, 900.0])
@pytest.mark.parametrize("overhead", [0.0, 2.0])
def test_frames_keep_the_target_on_devices_of_any_speed(whole_ms: float, overhead: float) -> None:
    times = drive(Pacing(), whole_ms / (FULL[0] * FULL[1]), 6.0, 33.0, overhead=overhead)
    settled = times[len(times) // 2 :]
    assert max(settled) <= 33.0 * 1.1
    assert max(settled) >= min(33.0, whole_ms) * 0.4  # and no coarser than need be


def test_a_device_that_becomes_faster_is_used() -> None:
    pacing = Pacing()
    slow = drive(pacing, 400.0 / (FULL[0] * FULL[1]), 3.0, 33.0)
    rung = pacing.rung
    fast = drive(pacing, 20.0 / (FULL[0] * FULL[1]), 3.0, 33.0, start=3.0)
    assert slow[-1] <= 36.0 and rung > 0
    assert pacing.rung == 0 and fast[-1] == pytest.approx(20.0, rel=1e-3)


def test_the_size_does_not_flicker_while_the_cost_wavers() -> None:
    pacing, now, scales = Pacing(), 0.0, []
    for frame in range(400):
        pacing.moved(now)
        scale = pacing.scale(now, FULL, 33.0, 1.0)
        width, height = size_at(FULL, scale)
        pacing.drawn((130.0 if frame % 2 else 110.0) * width * height / (FULL[0] * FULL[1]), width * height)
        scales.append(scale)
        now += 0.033
    changes = sum(a != b for a, b in pairwise(scales[10:]))
    assert changes <= now / FINER_AFTER  # never more often than a finer one is tried
    assert set(scales[10:]) <= set(LADDER)


def test_a_picture_has_at_least_one_pixel() -> None:
    assert size_at((1280, 720), 0.5) == (640, 360)
    assert size_at((3, 1), 0.1) == (1, 1)
    assert size_at((0, 0), 1.0) == (1, 1)
