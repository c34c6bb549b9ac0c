"""Workgroups of every size draw the same picture, to its last row and column; so do devices that allow only small ones (C55).

Sizes that no workgroup divides, and workgroups of one lane, are where indices go wrong. What a compiled kernel can be launched in is
found out from the kernel and not from the device's promise (tests/engine/test_opencl.py); here the picture is looked at.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine import Device, DeviceError, open_device
from renderer.scene.images import read_image
from renderer.scene.model import Environment, Scene
from tests.renderer.helpers.backends import device, picture
from tests.renderer.helpers.worlds import grey, icosphere, look_at, scene_of

__all__ = ["device"]  # the fixture
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("size", [(119, 67), (1, 1), (3, 130)])
def test_the_picture_is_the_same_in_workgroups_of_any_size_to_its_edges(device: Device, size: tuple[int, int]) -> None:
    if device.backend == "reference":
        return  # it has no workgroups
    scene = Scene(Path("empty"), environment=Environment((0.25, 0.5, 1.0)))
    shown = [picture(scene, device, size, depth=1, empty=True, workgroup=workgroup) for workgroup in (None, 1, 64, 128, 256)]
    assert all((one == [0.25, 0.5, 1.0]).all() for one in shown)
    if size == (119, 67):
        ball = scene_of((icosphere(1), grey(0.5)), camera=look_at((0, 0, 5), (0, 0, 0), 0.8))
        one, *others = (picture(ball, device, size, depth=2, workgroup=workgroup) for workgroup in (256, 64, 1))
        assert all(np.array_equal(other, one) for other in others)


@pytest.mark.parametrize("most", [1, 64, 128])
def test_a_device_that_allows_small_workgroups_draws_the_same_picture(most: int, cornell: Path, tmp_path: Path) -> None:
    """On PoCL made to allow no more than this; 512 is asked for."""
    try:
        opened = open_device("opencl")
    except DeviceError as error:
        pytest.skip(str(error))
    if not (opened.driver or "").startswith("Portable Computing Language"):
        pytest.skip("hardware: only PoCL can be told what to allow")
    opened.close()
    pictures = []
    for limit in (None, most):
        file = tmp_path / f"{limit}.npy"
        env = {**os.environ, "PYTHONPATH": str(ROOT), **({"POCL_MAX_WORK_GROUP_SIZE": str(limit)} if limit else {})}
        options = ("--backend", "opencl", "--size", "37", "23", "--spp", "2", "--depth", "3", "--workgroup", "512", "--quiet")
        command = [sys.executable, "-m", "renderer.app.cli", "render", str(cornell), "-o", str(file), *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=env)
        assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
        pictures.append(read_image(file))
    assert np.array_equal(*pictures)
