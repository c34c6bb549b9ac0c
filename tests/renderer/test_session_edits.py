"""What is changed in a running session looks like a session made of the changed scene, and compiles nothing, or is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from engine import Device, open_device
from renderer.pipeline.session import Session
from renderer.scene.model import Environment, Image, Light, Material, Scene, Texture
from renderer.scene.model_texture import TextureRef
from tests.renderer.helpers.picture_files import png
from tests.renderer.helpers.worlds import grey, look_at, quad, scene_of

SIZE = {"width": 24, "height": 16, "depth": 3}


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    opened = open_device("cpu", threads=1)
    yield opened
    opened.close()


def wall(*others: Material) -> Scene:
    """A white wall under a white sky; materials beside its own."""
    scene = scene_of((quad([-2, -2, 0], [4, 0, 0], [0, 4, 0]), grey(0.5)), camera=look_at((0, 0, 4), (0, 0, 0), 0.8))
    scene.environment = Environment()
    scene.materials += others
    return scene


def drawn(session: Session) -> np.ndarray:
    session.reset()
    session.frame()
    return session.mean().copy()


def check_like_new(session: Session, device: Device) -> None:
    """The session draws what a new one of its scene draws."""
    other = Session(session.scene, device=device, **SIZE)
    np.testing.assert_allclose(drawn(session), drawn(other), rtol=1e-5, atol=1e-6)


# ---- variants ----


def in_variants(scene: Scene, **numbers: int) -> Scene:
    """The scene whose only geometry has another material in each variant."""
    (geometry,) = scene.meshes[0].geometries
    scene.variants = list(numbers)
    scene.meshes[0].geometries[0] = replace(geometry, variants=dict(enumerate(numbers.values())))
    return scene


def test_a_variant_has_its_materials_and_a_click_finds_them(device: Device) -> None:
    scene = in_variants(wall(grey((0.8, 0.1, 0.1)), grey((0.1, 0.1, 0.8))), red=1, blue=2)
    session = Session(scene, device=device, **SIZE)
    session.prepare_pick()
    plain, compiles = drawn(session), session.counters.compiles
    for variant, channel in ((0, 0), (1, 2)):
        scene.variant = variant
        assert session.update_variant() and session.samples == 0
        assert drawn(session)[8, 12].argmax() == channel
        check_like_new(session, device)
        found = session.pick(12, 8)
        assert found is not None and found.material == variant + 1
    scene.variant = None
    assert session.update_variant()
    np.testing.assert_array_equal(drawn(session), plain)
    assert session.counters.compiles == compiles


def test_a_variant_that_shines_needs_other_kernels(device: Device) -> None:
    scene = in_variants(wall(grey(0.5, 2.0)), lamp=1)
    session = Session(scene, device=device, **SIZE)
    before = drawn(session)
    scene.variant = 0
    assert not session.update_variant()
    np.testing.assert_array_equal(drawn(session), before)


# ---- lights ----


def test_a_light_is_changed_and_the_last_one_that_goes_out_needs_other_kernels(device: Device) -> None:
    scene = replace(wall(), environment=None)
    above = np.eye(4)
    above[:3, 3] = (0.0, 0.0, 3.0)
    scene.lights = [Light("bulb", "point", above, 1, intensity=3.0), Light("torch", "spot", above, 2, intensity=3.0)]
    session = Session(scene, device=device, **SIZE)
    compiles = (drawn(session), session.counters.compiles)[1]
    changes = [{"color": (1.0, 0.2, 0.1)}, {"intensity": 9.0}, {"range": 3.5}, {"intensity": 0.0}]
    for change in changes:
        scene.lights[0] = replace(scene.lights[0], **change)  # type: ignore[arg-type]
        assert session.update_lights([0])
        check_like_new(session, device)
    scene.lights[1] = replace(scene.lights[1], outer_cone=0.3, inner_cone=0.25)
    assert session.update_lights([1])
    check_like_new(session, device)
    assert session.counters.compiles == compiles
    scene.lights[1] = replace(scene.lights[1], intensity=0.0)
    assert not session.update_lights([1])


# ---- textures ----


def textured() -> Scene:
    """The wall with a red texture; green is in the same slot of another material, and blue is used nowhere."""
    scene = wall()
    (geometry,) = scene.meshes[0].geometries
    uv = geometry.positions[:, :2] * np.float32(0.25) + np.float32(0.5)
    scene.meshes[0].geometries[0] = replace(geometry, texcoords=(uv,))
    shades = [np.full((4, 4, 3), shade, np.uint8) for shade in ((220, 20, 20), (20, 220, 20), (20, 20, 220))]
    shades[0][:2] = 20
    scene.images = [Image("", png(pixels), f"images[{k}]") for k, pixels in enumerate(shades)]
    scene.textures = [Texture(k) for k in range(3)]
    scene.materials[0] = replace(grey(0.8), base_color_texture=TextureRef(0))
    scene.materials.append(replace(grey(0.8), base_color_texture=TextureRef(1, offset=(0.5, 0.0))))
    return scene


def test_a_texture_is_taken_away_exchanged_and_moved_without_new_kernels(device: Device) -> None:
    scene = textured()
    session = Session(scene, device=device, **SIZE)
    first, compiles = drawn(session), session.counters.compiles
    assert first[4, 12].argmax() == 0 and first[12, 12].max() < 0.1
    for ref in (TextureRef(1), None, TextureRef(0, offset=(0.0, 0.5)), TextureRef(0, rotation=1.5, scale=(2.0, 3.0)), TextureRef(0)):
        scene.materials[0] = replace(scene.materials[0], base_color_texture=ref)
        assert session.update_materials([0])
        check_like_new(session, device)
    np.testing.assert_array_equal(drawn(session), first)
    assert session.counters.compiles == compiles


def test_a_texture_that_is_not_on_the_device_needs_a_new_session(device: Device) -> None:
    """Blue has not been decoded, neither as a colour nor as numbers."""
    scene = textured()
    session = Session(scene, device=device, **SIZE)
    first = drawn(session)
    scene.materials[0] = replace(scene.materials[0], base_color_texture=TextureRef(2))
    assert not session.update_materials([0])
    np.testing.assert_array_equal(drawn(session), first)
    check = Session(scene, device=device, **SIZE)
    assert drawn(check)[8, 12].argmax() == 2
    shiny = replace(scene.materials[0], specular_factor=1.0, base_color_texture=TextureRef(0))
    scene.materials[0] = replace(shiny, metallic_roughness_texture=TextureRef(0))
    scene.materials[1] = replace(scene.materials[1], metallic_roughness_texture=TextureRef(1))
    numbers = Session(scene, device=device, **SIZE)
    scene.materials[0] = shiny
    assert numbers.update_materials([0])
    scene.materials[0] = replace(shiny, metallic_roughness_texture=TextureRef(2))
    assert not numbers.update_materials([0])


def test_a_lamp_that_is_given_a_picture_that_is_not_on_the_device_needs_a_new_session(device: Device) -> None:
    scene = textured()
    scene.materials[0] = replace(scene.materials[0], emissive=(1.0, 1.0, 1.0), emissive_texture=TextureRef(0))
    session = Session(scene, device=device, **SIZE)
    before, own = drawn(session), scene.materials[0]
    scene.materials[0] = replace(own, emissive_texture=TextureRef(2))
    assert not session.update_materials([0])
    np.testing.assert_array_equal(drawn(session), before)
    scene.materials[0] = replace(own, emissive=(0.5, 2.0, 1.0))
    assert session.update_materials([0])
    check_like_new(session, device)


def test_a_picture_that_is_not_to_be_had_does_not_keep_an_edit_away(device: Device) -> None:
    scene = textured()
    scene.textures.append(Texture(None))
    session = Session(scene, device=device, **SIZE)
    scene.materials[0] = replace(scene.materials[0], base_color_texture=TextureRef(3))
    assert session.update_materials([0])
    check_like_new(session, device)
