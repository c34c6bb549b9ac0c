"""A lamp with a picture is chosen by what its picture shows: as quiet as its bright part alone, and never wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Tensor
from renderer.bvh.traverse import Form
from renderer.scene.light_powers import EVEN, glow_of
from renderer.scene.model import Environment, Geometry, Image, Instance, Material, Mesh, Scene, Texture
from renderer.scene.model_texture import TextureRef
from renderer.scene.texture_tables import texture_tables
from renderer.scene.upload import relit, upload
from tests.renderer.helpers.picture_files import deep_png, png
from tests.renderer.helpers.pictures import Rendered, render, uploaded
from tests.renderer.helpers.texturing import light, wrapped
from tests.renderer.helpers.worlds import grey, look_at, quad, scene_of

LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
FLOOR = quad([-1, -1, 0], [2, 0, 0], [0, 2, 0])
FORMS: tuple[Form, ...] = ("packet", "serial", "lone")


def lamp_of(cells: int, pixels: Any, ref: TextureRef | None = None, **sampling: Any) -> Scene:
    """A lamp of 2 x cells x cells triangles, 2 m wide, 2 m above a floor, facing it, with a picture on all of it."""
    at = np.linspace(0, 1, cells + 1)
    u, v = (a.ravel() for a in np.meshgrid(at, at))
    corner = (np.arange(cells)[:, None] * (cells + 1) + np.arange(cells)).reshape(-1, 1)
    faces = np.concatenate([corner + np.array([0, cells + 1, cells + 2]), corner + np.array([0, cells + 2, 1])]).astype(np.uint32)
    points = np.stack([2 * u - 1, 2 * v - 1, np.full_like(u, 2)], 1).astype(np.float32)
    lamp = Geometry(points, faces, None, 1, texcoords=(np.stack([u, v], 1).astype(np.float32),))
    scene = scene_of((FLOOR, grey(0.8)), camera=look_at([0, -4, 1], [0, 0, 0], 0.3))
    pixels = np.asarray(pixels)
    data = png(pixels.astype(np.uint8)) if pixels.dtype != np.uint16 else deep_png(pixels)
    return replace(
        scene,
        materials=[*scene.materials, replace(grey(0.0, 4.0), emissive_texture=ref or TextureRef(0))],
        meshes=[*scene.meshes, Mesh("lamp", [lamp])],
        instances=[*scene.instances, Instance(1, np.eye(4), "lamp", 1)],
        images=[Image("", data, "images[0]")],
        textures=[Texture(0, **{"mag": "nearest", "min": "nearest", "mip": None, **sampling})],
    )


def glow(scene: Scene) -> np.ndarray[Any, Any]:
    """Of the lamp's triangles."""
    tables = texture_tables(scene)
    assert tables is not None
    soup = scene.triangles()
    found = glow_of(scene, soup, tables)
    assert (found[soup.material == 0] == 1).all()
    return found[soup.material == 1]


def seen_over(scene: Scene, pixels: Any, samples: int = 40) -> np.ndarray[Any, Any]:
    """The mean luminance of the picture over each of the lamp's triangles, by looking at many places."""
    lamp, texture, ref = scene.meshes[1].geometries[0], scene.textures[0], scene.materials[1].emissive_texture
    assert ref is not None
    a, b = (at.ravel() for at in np.meshgrid(*[(np.arange(samples) + 0.5) / samples] * 2))
    inside = a + b < 1
    weights = np.stack([1 - a - b, a, b], 1)[inside]
    place = np.einsum("pk,nkc->npc", weights, lamp.texcoords[0][lamp.indices].astype(np.float64)) @ ref.matrix[:, :2].T + ref.matrix[:, 2]
    values = (light(np.asarray(pixels) / 255) @ LUMINANCE)[
        wrapped(np.floor(place[..., 1] * len(pixels)).astype(int), len(pixels), texture.wrap_t),
        wrapped(np.floor(place[..., 0] * len(pixels[0])).astype(int), len(pixels[0]), texture.wrap_s),
    ]
    return np.asarray(values.mean(1))


def noise(width: int, height: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3))


@pytest.mark.parametrize(("wrap_s", "wrap_t"), [("repeat", "repeat"), ("mirror", "clamp"), ("clamp", "mirror")])
@pytest.mark.parametrize("ref", [TextureRef(0), TextureRef(0, offset=(0.3, -1.7), rotation=0.4, scale=(2.5, 1.5))])
def test_the_glow_of_a_triangle_is_the_mean_of_what_it_shows(wrap_s: Any, wrap_t: Any, ref: TextureRef) -> None:
    rough = noise(8, 8).repeat(16, 0).repeat(16, 1)
    whole = float((light(rough / 255) @ LUMINANCE).mean())
    for cells in (1, 2, 16):
        scene = lamp_of(cells, rough, ref, wrap_s=wrap_s, wrap_t=wrap_t)
        wanted = (1 - EVEN) * seen_over(scene, rough) + EVEN * whole
        assert np.abs(glow(scene) - wanted).max() < 0.1 and abs(glow(scene).mean() - wanted.mean()) < (0.01 if cells > 2 else 0.03)
    grey16 = np.full((4, 4, 1), 40000, np.uint16)
    np.testing.assert_allclose(glow(lamp_of(2, grey16)), light(40000 / 65535), atol=1e-4)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from(["repeat", "mirror", "clamp"]), st.integers(1, 70), st.integers(1, 70))
def test_only_triangles_that_show_no_light_at_all_are_no_lamps(seed: int, wrap: Any, width: int, height: int) -> None:
    random = np.random.default_rng(seed)
    dots = np.zeros((height, width, 3), np.uint8)
    for _ in range(random.integers(1, 3)):
        dots[random.integers(height), random.integers(width)] = random.integers(0, 256, 3)
    ref = TextureRef(0, offset=tuple(random.uniform(-3, 3, 2)), rotation=random.uniform(0, 7), scale=tuple(random.uniform(-2, 2, 2)))
    scene = lamp_of(int(random.integers(1, 9)), dots, ref, wrap_s=wrap, wrap_t=wrap)
    assert not (seen_over(scene, dots, 60)[glow(scene) == 0] > 0).any()


def test_a_lamp_whose_picture_is_black_but_for_a_dot_has_few_triangles() -> None:
    dots = np.zeros((64, 64, 3), np.uint8)
    dots[37, 11] = 1, 0, 0  # the faintest there is
    lights = upload(lamp_of(16, dots), group=16).data.lights
    assert lights is not None and lights.count == 4, "the dot and its neighbours lie in two of the lamp's squares"
    assert upload(lamp_of(4, np.zeros((8, 8, 3))), group=16).data.lights is None


@pytest.mark.parametrize("group", [16, 1])
def test_densities_of_connecting_are_those_of_hits_and_sum_up_to_one(group: int) -> None:
    held = upload(lamp_of(8, noise(32, 32) * (noise(32, 32, 1) > 200)), group=group)
    data: Any = held.data
    rows = data.lights.rows.numpy()[: data.lights.count]
    triangle = rows[:, 15].copy().view(np.int32)
    area = np.linalg.norm(np.cross(rows[:, 3:6], rows[:, 6:9]), axis=1) / 2
    assert abs(float((area * rows[:, 12]).sum()) - 1) < 1e-5
    column = data.corner.numpy()[:, data.corners.places()["glow"]]
    at_hits = data.material.numpy()[held.parts.soup.material, 7] * column
    np.testing.assert_allclose(at_hits[triangle], rows[:, 12], rtol=1e-6)
    assert set(np.flatnonzero(at_hits)) == set(triangle.tolist())


def window(cells: int) -> tuple[Scene, Scene]:
    """A lamp that shines in one of cells x cells squares, by its picture; and that square alone, without one."""
    squares = np.zeros((cells, cells, 3), np.uint8)
    squares[cells // 2, cells // 2] = 255
    low, size = -1 + 2 * (cells // 2) / cells, 2 / cells
    alone = scene_of(
        (FLOOR, grey(0.8)),
        (quad([low, low, 2], [0, size, 0], [size, 0, 0]), grey(0.0, 4.0)),
        camera=look_at([0, -4, 1], [0, 0, 0], 0.3),
    )
    return lamp_of(cells, squares.repeat(8, 0).repeat(8, 1)), alone


@pytest.mark.parametrize("form", FORMS)
def test_a_wall_of_dark_triangles_is_as_quiet_as_its_window_alone(form: Form) -> None:
    """And as bright. Chosen evenly, its triangles would have let one sample in 400 see the light: a twentyfold deviation."""
    wall, alone = window(20)
    got, wanted = (render(scene, (8, 8), 64, 4, depth=2, form=form) for scene in (wall, alone))
    assert (np.abs(got.mean - wanted.mean) < 6 * np.hypot(got.deviation, wanted.deviation) + 1e-6).all()
    assert abs(got.mean.mean() / wanted.mean.mean() - 1) < 0.03
    assert got.deviation.mean() < 1.5 * wanted.deviation.mean()


def test_colours_that_the_luminance_does_not_foresee_are_right_all_the_same() -> None:
    """A blue lamp with a picture that is red where it is bright: nearly all of its light comes from where it is dark."""
    squares = np.array([[[255, 0, 3], [0, 0, 255]], [[0, 0, 255], [255, 0, 0]]], np.uint8).repeat(8, 0).repeat(8, 1)
    scene = lamp_of(4, squares)
    scene.materials[1] = replace(scene.materials[1], emissive=(0.01, 0.0, 5.0))
    assert_agrees(render(scene, (8, 8), 64, 8, depth=3), scene)


def assert_agrees(got: Rendered, scene: Scene) -> None:
    """That a picture of a scene is the one that scattering alone finds: without lights to connect to, every hit counts fully."""
    held = uploaded(scene)
    materials = held.data.material.numpy().copy()
    materials[:, 7] = 0.0
    blind = replace(held, data=replace(held.data, lights=None, material=Tensor(materials)))
    wanted = render(scene, (8, 8), 256, 64, depth=3, data=blind)
    assert (np.abs(got.mean - wanted.mean) < 6 * np.hypot(got.deviation, wanted.deviation) + 1e-5).all()
    total, by_chance = got.mean.mean((0, 1)), wanted.mean.mean((0, 1))
    np.testing.assert_allclose(total, by_chance, rtol=0.06, atol=1e-5)


def test_an_edit_of_a_lamp_takes_its_glow_along() -> None:
    """Another picture in the lamp; and a factor alone, which leaves the table of corners what it is."""
    left = np.zeros((8, 8, 3), np.uint8)
    left[:, :4] = 255
    scene = lamp_of(8, left)
    scene.images.append(Image("", png(left[:, ::-1].copy()), "images[1]"))
    scene.textures.append(replace(scene.textures[0], image=1))
    scene.materials.append(Material(name="nobody's", emissive=(1.0, 1.0, 1.0), emissive_texture=TextureRef(1)))
    held = upload(scene, group=16)
    brighter = relit(held, replaced(scene, emissive=(9.0, 9.0, 9.0)), group=16)
    assert brighter.data.corner is held.data.corner
    other = replaced(scene, emissive_texture=TextureRef(1))
    again, fresh = relit(held, other, group=16), upload(other, group=16)
    assert again.data.corner is not None and fresh.data.corner is not None and held.data.corner is not None
    assert np.array_equal(again.data.corner.numpy(), fresh.data.corner.numpy())
    assert not np.array_equal(again.data.corner.numpy(), held.data.corner.numpy())
    assert again.data.lights is not None and fresh.data.lights is not None
    assert np.array_equal(again.data.lights.rows.numpy(), fresh.data.lights.rows.numpy())


def replaced(scene: Scene, **values: Any) -> Scene:
    materials = list(scene.materials)
    materials[1] = replace(materials[1], **values)
    return replace(scene, materials=materials)


def test_lamps_without_pictures_have_no_glow(cornell: Path) -> None:
    plain = replace(lamp_of(2, noise(4, 4)), environment=Environment())
    textured = replaced(plain, emissive_texture=None, base_color_texture=TextureRef(0))
    held = upload(textured, group=16)
    assert held.glow is None and not held.data.corners.glow and "glow" not in held.data.corners.places()
    assert upload(plain, group=16).data.corners.glow
