"""Whole pictures against others' of the same scenes: a converged reference, and a small path tracer that shares nothing with ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from renderer.scene.framing import default_camera
from renderer.scene.gltf import load
from tests.renderer import small_tracer
from tests.renderer.helpers.pictures import blocks, render
from tests.renderer.helpers.worlds import grey, icosphere, look_at, quad, scene_of

SAMPLES = {"cornell": 256, "room256k": 96}


@pytest.mark.parametrize("name", list(SAMPLES))
def test_blocks_of_pixels_agree_with_the_reference(shared: Path, name: str) -> None:
    """8 x 8 blocks of a picture of 128 x 128, depth 4, against one of many thousand samples: within its own noise."""
    scene = load(shared / f"data/bench/{name}.glb")
    theirs = np.load(shared / f"data/bench/reference/{name}_128.npy").astype(np.float64)[..., :3]
    ours = render(scene, (128, 128), frames=SAMPLES[name] // 16, spp=16, depth=4)
    assert ours.refused == 0
    relative = np.abs(ours.mean.mean((0, 1)) / theirs.mean((0, 1)) - 1)
    assert (relative < 0.01).all()
    noise = np.sqrt((ours.deviation.reshape(16, 8, 16, 8, 3) ** 2).sum((1, 3)).sum(-1) * 3) / 64  # channels are alike
    apart = np.abs(blocks(ours.mean) - blocks(theirs))
    assert np.quantile(apart / (blocks(theirs) + 1e-3), 0.95) < 0.07
    assert (apart < 5 * noise + 0.02 * blocks(theirs) + 1e-4).all()


@pytest.mark.parametrize("depth", [2, 4])
def test_the_small_tracer_agrees_on_the_box(cornell: Path, depth: int) -> None:
    """24 x 24 pixels; blocks of 8 x 8 and the whole, within the noise of both."""
    scene = load(cornell)
    theirs, error = small_tracer.render(scene, 24, 24, 64, depth, seed=1)
    ours = render(scene, (24, 24), frames=200, depth=depth)
    sigma = np.sqrt(error**2 + ours.deviation**2)
    for axis in range(3):
        apart = ours.mean[..., axis].astype(np.float64) - theirs[..., axis]
        whole = np.sqrt((sigma[..., axis] ** 2).sum()) / 576
        assert abs(apart.mean()) < 4.5 * whole
        for i in range(0, 24, 8):
            for j in range(0, 24, 8):
                noise = np.sqrt((sigma[i : i + 8, j : j + 8, axis] ** 2).sum()) / 64
                assert abs(apart[i : i + 8, j : j + 8].mean()) < 5 * noise + 1e-4


def test_the_small_tracer_agrees_on_lamps_of_many_kinds() -> None:
    """Two lamps of different colours, one double-sided and seen from behind, a ball, a floor: all that the integrator knows."""
    scene = scene_of(
        (quad([-3, 0, -3], [0, 0, 6], [6, 0, 0]), grey((0.7, 0.6, 0.5))),
        (icosphere(2, 0.7, (0.3, 0.7, 0)), grey((0.9, 0.3, 0.3))),
        (quad([-1.5, 2.2, -1], [1, 0, 0], [0, 0.3, 1]), grey(0.3, (6, 2, 1))),
        (quad([1.2, 0.4, -1], [0, 1, 0], [0.2, 0, 1]), grey(0.5, (0.5, 1, 4), double_sided=True)),
        camera=look_at((1.5, 2.5, 4), (0, 0.6, 0), 0.8),
    )
    theirs, error = small_tracer.render(scene, 16, 16, 64, 3, seed=2)
    ours = render(scene, (16, 16), frames=200, depth=3)
    sigma = np.sqrt(error**2 + ours.deviation**2)
    apart = np.abs(ours.mean - theirs).mean((0, 1))
    signed = (ours.mean - theirs).mean((0, 1))
    assert (np.abs(signed) < 4.5 * np.sqrt((sigma**2).sum((0, 1))) / 256).all()
    assert (apart < 1.5 * sigma.mean((0, 1)) + 1e-3).all()


@pytest.mark.parametrize("name", ["gallery", "many_lights", "study"])
def test_our_own_scenes_are_lit_and_finite(root: Path, name: str) -> None:
    scene = load(root / f"scenes/{name}.gltf")
    assert scene.cameras or default_camera(scene)
    picture = render(scene, (48, 32), frames=2, spp=4, depth=5)
    assert picture.refused == 0 and np.isfinite(picture.mean).all()
    assert picture.mean.mean() > 0.02
    assert picture.rgba[..., :3].std() > 10
