"""Every backend draws the same picture, pixel by pixel.

The random numbers of a pixel are those of its place, its sample and the seed, on all devices alike, so paths are the same until a rounding
error decides something: which of two surfaces is nearer, whether a random number is below a threshold. Where nothing is decided otherwise,
pictures differ by rounding alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from renderer.scene.gltf import load
from renderer.scene.model import Material, Scene, Texture
from renderer.scene.model_material import Clearcoat, Transmission, Volume
from renderer.scene.model_texture import TextureRef
from tests.renderer.helpers.pictures import Floats, render
from tests.renderer.helpers.rooms import EYE, LIGHTS, OPEN, UV, Part, ball, picture, room, scene_of_parts
from tests.renderer.helpers.worlds import grey, quad

ROUNDING = 1e-3  # of a pixel's value: what rounding errors make of it on their way through four segments
DECIDED = 0.01  # of the pixels, in which a path may have gone elsewhere


@lru_cache(None)
def furnished() -> Scene:
    """Textures of two kinds, a veil and a mask, tinted glass, varnish; a lamp, punctual lights and surroundings."""
    glass = Material(metallic=0.0, roughness=0.0, transmission=Transmission(1.0), volume=Volume(1.0, None, 0.5, (0.9, 0.6, 0.3)))
    varnished = Material(base_color_factor=(0.8, 0.2, 0.1, 1.0), metallic=0.0, roughness=0.4, clearcoat=Clearcoat(1.0, 0.1))
    mask = replace(grey(1.0), alpha_mode="MASK", base_color_texture=TextureRef(0))
    veil = replace(grey(0.0), alpha_mode="BLEND", base_color_factor=(0.2, 0.8, 0.3, 0.5))
    parts = room(
        ball(3, 0.4, (-0.6, 0.4, 0.2), glass),
        ball(3, 0.4, (0.5, 0.4, 0.4), varnished),
        Part(quad([-1.2, 0.9, -0.8], [1.3, 0, 0], [0, 0.2, 1.3]), mask, texcoords=UV),
        Part(quad([0.1, 0.1, 0.9], [0.8, 0, 0], [0, 1.2, 0]), veil),
    )
    parts[1] = replace(parts[1], material=replace(grey(1.0), base_color_texture=TextureRef(1)), texcoords=UV * 2)
    pixels = (
        (picture(4, (8, 8), 4), Texture(0, mag="nearest", min="nearest", mip=None)),
        (picture(5, (8, 8), 3), Texture(1, wrap_s="mirror")),
    )
    return scene_of_parts(parts, EYE, pixels=pixels, lights=LIGHTS, environment=OPEN)


def drawn(scene: Scene, backend: str) -> Floats:
    picture = render(scene, (48, 48), spp=8, depth=4, seed=3, backend=backend)
    assert picture.refused == 0
    return picture.mean


def apart(one: Floats, other: Floats) -> np.ndarray:
    """How far pixels are apart, relative; of channels the most."""
    return np.asarray((np.abs(one - other) / (other + 0.01 * other.mean())).max(-1))


@pytest.fixture(scope="module")
def expected(root: Path) -> dict[str, tuple[Scene, Floats]]:
    """The scenes, and what the CPU makes of them."""
    scenes = {"furnished": furnished(), "cornell": load(root / "scenes/cornell.gltf")}
    return {name: (scene, drawn(scene, "cpu")) for name, scene in scenes.items()}


@pytest.mark.parametrize("backend", ["opencl", "opengl"])
@pytest.mark.parametrize("name", ["furnished", "cornell"])
def test_pixels_are_those_of_the_cpu(name: str, backend: str, expected: dict[str, tuple[Scene, Floats]]) -> None:
    scene, want = expected[name]
    seen = drawn(scene, backend)
    assert want.std() > 0.1 * want.mean()
    assert (apart(seen, want) > ROUNDING).mean() <= DECIDED
    np.testing.assert_allclose(seen.mean((0, 1)), want.mean((0, 1)), rtol=0.01)


def test_another_seed_is_another_picture(expected: dict[str, tuple[Scene, Floats]]) -> None:
    """What is compared is the paths, not what they tend to."""
    scene, want = expected["cornell"]
    other = render(scene, (48, 48), spp=8, depth=4, seed=4).mean
    assert (apart(other, want) > ROUNDING).mean() > 0.8
