"""Every backend that is here, as a fixture, and pictures drawn on one as the commands draw them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine import Device, DeviceError, open_device
from renderer.pipeline.session import Session
from renderer.scene.model import Scene

BACKENDS = ("cpu", "reference", "opencl", "opengl")


@pytest.fixture(scope="module", params=BACKENDS)
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """Each in turn."""
    yield from opened(request.param)


def opened(backend: str) -> Iterator[Device]:
    """A backend's device, closed in the end; where it is not here the test skips."""
    try:
        device = open_device(backend)
    except DeviceError as error:
        pytest.skip(str(error))
    yield device
    device.close()


def picture(scene: Scene, device: Device, size: tuple[int, int], *, frames: int = 1, **options: Any) -> NDArray[np.float64]:
    """The mean radiance of a scene, float64[height, width, 3]; every sample of it is finite."""
    session = Session(scene, width=size[0], height=size[1], device=device, **options)
    for _ in range(frames):
        session.frame()
    found = session.mean().astype(np.float64)
    assert session.nonfinite == 0 and np.isfinite(found).all()
    session.close()
    return found
