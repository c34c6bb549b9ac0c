"""What glTF says of materials is what the picture shows: alpha, bodies, surfaces without lighting, smooth normals, textures."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from renderer.bvh.traverse import Form
from renderer.scene.model import Camera, Environment, Geometry, Image, Material, Orthographic, Scene, Texture
from renderer.scene.model_material import Clearcoat, Transmission, Volume
from renderer.scene.model_texture import TextureRef
from renderer.scene.tangents import with_tangents
from renderer.scene.upload import relit, structure, upload
from renderer.shading.corner_rows import between
from tests.renderer.helpers.pictures import Rendered, render
from tests.renderer.helpers.worlds import cube_grid, grey, icosphere, look_at, quad, scene_of

FRONT = look_at([0, 0, 5], [0, 0, 0], Orthographic(0.9, 0.9))
BACK = look_at([0, 0, -5], [0, 0, 0], Orthographic(0.9, 0.9))
SHEET = quad([-1, -1, 0], [2, 0, 0], [0, 2, 0])  # seen by FRONT from its front, all over the picture
NEAR = SHEET + np.array([0, 0, 1], np.float32)
UV = np.array([[0, 1], [1, 1], [1, 0], [0, 1], [1, 0], [0, 0]], np.float32)  # the picture upright on a quad
GLASS = Material(metallic=0.0, roughness=0.0, transmission=Transmission(1.0))


def unlit(*colour: float, **values: Any) -> Material:
    return Material(base_color_factor=(*colour, 1.0)[:4] if len(colour) == 3 else colour, unlit=True, **values)  # type: ignore[arg-type]


def mean(scene: Scene, **options: Any) -> NDArray[np.float64]:
    return np.asarray(render(scene, **{"size": (8, 8), "spp": 4, **options}).mean.astype(np.float64).mean((0, 1)))


def only(scene: Scene, part: int = 0, **values: Any) -> Scene:
    """The scene with one of its geometries changed."""
    geometries = list(scene.meshes[0].geometries)
    geometries[part] = replace(geometries[part], **values)
    return replace(scene, meshes=[replace(scene.meshes[0], geometries=geometries)])


def pictured(scene: Scene, pixels: ArrayLike, **sampling: Any) -> Scene:
    """The scene with a picture, uint8[height, width, channels], as its texture 0, and places in it on its first geometry."""
    from PIL import Image as Pillow

    data = io.BytesIO()
    Pillow.fromarray(np.asarray(pixels, np.uint8)).save(data, "PNG")
    texture = Texture(0, **{"mag": "nearest", "min": "nearest", "mip": None, **sampling})
    return replace(only(scene, texcoords=(UV,)), images=[Image("", data.getvalue(), "images[0]")], textures=[texture])


# ---- surfaces without lighting ----


@pytest.mark.parametrize("light", [0.0, 3.0])
@pytest.mark.parametrize("camera", [FRONT, BACK])
def test_an_unlit_surface_has_its_colour_whatever_shines_on_it(light: float, camera: Camera) -> None:
    scene = replace(scene_of((SHEET, unlit(0.2, 0.5, 0.8)), camera=camera), environment=Environment((light, light, light)))
    np.testing.assert_allclose(mean(scene), [0.2, 0.5, 0.8], rtol=1e-5)


def test_others_see_an_unlit_surface_as_the_camera_does() -> None:
    floor = quad([-1, -1, 0], [2, 0, 0], [0, 2, 0])
    dome = icosphere(1, 20.0, inward=True)
    scene = scene_of((floor, grey(0.5)), (dome, unlit(0.4, 0.4, 0.4)), camera=look_at([0, 0, 5], [0, 0, 0], Orthographic(0.9, 0.9)))
    np.testing.assert_allclose(mean(scene), 0.2, rtol=1e-4)


# ---- alpha ----


def layered(alpha: float, mode: str, cutoff: float = 0.5) -> Scene:
    sheet = unlit(0.0, 0.0, 0.0, alpha, alpha_mode=mode, alpha_cutoff=cutoff)
    return scene_of((NEAR, sheet), (SHEET, unlit(1.0, 0.8, 0.6)), camera=FRONT)


@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.9])
def test_of_what_is_behind_a_blended_surface_as_much_is_seen_as_its_alpha_leaves(alpha: float) -> None:
    seen = mean(layered(alpha, "BLEND"), size=(32, 32), spp=64)
    np.testing.assert_allclose(seen, (1 - alpha) * np.array([1.0, 0.8, 0.6]), atol=0.006)


@pytest.mark.parametrize(("alpha", "cutoff", "passes"), [(0.4, 0.5, 1), (0.5, 0.5, 0), (0.9, 1.5, 1), (0.2, 0.1, 0)])
def test_a_mask_shows_all_or_nothing(alpha: float, cutoff: float, passes: int) -> None:
    np.testing.assert_allclose(mean(layered(alpha, "MASK", cutoff)), passes * np.array([1.0, 0.8, 0.6]), rtol=1e-5)


def test_an_opaque_surface_has_no_alpha() -> None:
    assert not mean(layered(0.1, "OPAQUE")).any()


@pytest.mark.parametrize("form", ["packet", "serial"])
def test_lamps_shine_through_what_lets_light_pass(form: Any) -> None:
    """Three sheets of alpha 0.5 leave an eighth of the light that arrives, whichever way it is found."""
    lamp = quad([-0.5, -0.5, 3], [0, 1, 0], [1, 0, 0])
    black = Material(base_color_factor=(0, 0, 0, 0.5), metallic=0.0, specular_factor=0.0, alpha_mode="BLEND")
    sheets = np.concatenate([quad([-3, -3, z], [6, 0, 0], [0, 6, 0]) for z in (0.5, 1.0, 2.0)])
    camera = look_at([0, -3, 0.3], [0, 0, 0], 0.3)
    plain = scene_of((SHEET, grey(0.8)), (lamp, grey(0.0, 5.0)), camera=camera)
    veiled = scene_of((SHEET, grey(0.8)), (lamp, grey(0.0, 5.0)), (sheets, black), camera=camera)
    want = mean(plain, size=(16, 16), spp=64, depth=2, form=form)
    np.testing.assert_allclose(mean(veiled, size=(16, 16), spp=256, depth=2, form=form), want / 8, rtol=0.02)


# ---- bodies ----


def test_light_fades_in_a_body_by_the_way_that_it_goes() -> None:
    slab = cube_grid(1, 1.5)
    clear = replace(GLASS, ior=1.0, volume=Volume(1.0, attenuation_distance=2.0, attenuation_color=(0.9, 0.5, 0.1)))
    scene = replace(scene_of((slab, clear), camera=FRONT), environment=Environment((1.0, 1.0, 1.0)))
    np.testing.assert_allclose(mean(scene, depth=8), np.array([0.9, 0.5, 0.1]) ** 1.5, rtol=0.01)


@pytest.mark.parametrize("roughness", [0.0, 0.1, 0.5, 1.0])
def test_white_glass_in_a_white_furnace_is_white(roughness: float) -> None:
    glass = replace(GLASS, roughness=roughness, volume=Volume(1.0))
    scene = replace(scene_of((icosphere(1, 2.0), glass), camera=FRONT), environment=Environment((1.0, 1.0, 1.0)))
    np.testing.assert_allclose(mean(scene, size=(16, 16), spp=64, depth=64), 1.0, atol=0.02)


def test_a_body_twice_as_large_takes_twice_as_much() -> None:
    """The distance of attenuation is one of the world, whatever the scale of the node."""
    clear = replace(GLASS, ior=1.0, volume=Volume(1.0, attenuation_distance=2.0, attenuation_color=(0.9, 0.5, 0.1)))
    scene = replace(scene_of((cube_grid(1, 0.5), clear), camera=FRONT), environment=Environment((1.0, 1.0, 1.0)))
    large = replace(scene, instances=[replace(scene.instances[0], world=np.diag([2.0, 2.0, 2.0, 1.0]))])
    np.testing.assert_allclose(render(large, (8, 8), spp=4, depth=8).mean[3:5, 3:5].mean((0, 1)), [0.9, 0.5, 0.1], rtol=0.01)
    half = np.array([0.9, 0.5, 0.1]) ** 0.5
    np.testing.assert_allclose(render(scene, (8, 8), spp=4, depth=8).mean[3:5, 3:5].mean((0, 1)), half, rtol=0.01)


@pytest.mark.parametrize("roughness", [0.0, 0.6])
@pytest.mark.parametrize("inner", [0.0, 0.9])
@pytest.mark.parametrize("inside", [False, True])
def test_bodies_in_bodies_and_over_bodies_neither_win_light_nor_lose_it(inside: bool, inner: float, roughness: float) -> None:
    """White glass in or across white glass, seen from without and from within the first."""
    glass = replace(GLASS, roughness=roughness, volume=Volume(1.0))
    other = (icosphere(2, 0.6, centre=(inner, 0, 0)), replace(glass, ior=1.8))
    camera = look_at([0, 0, 0.9], [0, 0, 0], 0.8) if inside else FRONT
    scene = replace(scene_of((icosphere(2, 1.2), glass), other, camera=camera), environment=Environment((1.0, 1.0, 1.0)))
    seen = render(scene, (16, 16), spp=64, depth=96).mean
    assert abs(seen.mean() - 1) < 0.02 and np.isfinite(seen).all() and seen.min() > 0


@pytest.mark.parametrize("count", [1, 3])
def test_panes_tint_by_their_base_colour_each_time(count: int) -> None:
    """Thin walls without a volume, of the index 1, seen straight on."""
    pane = replace(GLASS, ior=1.0, base_color_factor=(0.9, 0.5, 0.1, 1.0))
    sheets = np.concatenate([SHEET + np.array([0, 0, z], np.float32) for z in range(count)])
    scene = replace(scene_of((sheets, pane), camera=FRONT), environment=Environment((1.0, 1.0, 1.0)))
    np.testing.assert_allclose(mean(scene, depth=8), np.array([0.9, 0.5, 0.1]) ** count, rtol=1e-3)


def test_a_pane_does_not_shift_what_is_behind_it() -> None:
    halves = scene_of(
        (quad([-1, -1, 0], [1, 0, 0], [0, 2, 0]), unlit(1, 0, 0)),
        (quad([0, -1, 0], [1, 0, 0], [0, 2, 0]), unlit(0, 1, 0)),
        (NEAR, GLASS),
        camera=FRONT,
    )
    halves.environment = Environment((0.0, 0.0, 0.0))
    seen = render(halves, (8, 8), spp=64).mean
    assert (seen[:, :4, 1] == 0).all() and (seen[:, 4:, 0] == 0).all()
    np.testing.assert_allclose([seen[:, :4, 0].mean(), seen[:, 4:, 1].mean()], 0.96, atol=0.02)


# ---- smooth surfaces ----

MIRROR = Material(roughness=0.0)
TILT = np.array([np.sin(0.5), 0.0, np.cos(0.5)], np.float32)  # a ray along -z comes back 1 rad towards +x


def mirrored(camera: Camera = FRONT) -> Scene:
    """A mirror that faces the camera; red stands on the right, where TILT looks, blue behind the camera's back."""
    right = quad([9, -30, -30], [0, 0, 60], [0, 60, 0])
    back = quad([-60, -60, 40 * np.sign(camera.world[2, 3])], [120, 0, 0], [0, 120, 0])
    return scene_of((SHEET, MIRROR), (right, unlit(1, 0, 0)), (back, unlit(0, 0, 1)), camera=camera)


@pytest.mark.parametrize("camera", [FRONT, BACK])
def test_a_mirror_looks_where_its_normals_say(camera: Camera) -> None:
    flat = mirrored(camera)
    tilt = TILT if camera is FRONT else TILT * [-1, 1, 1]  # from behind, the normal is the opposite one
    tilted = only(flat, normals=np.tile(np.asarray(tilt, np.float32), (6, 1)))
    np.testing.assert_allclose(mean(flat), [0, 0, 1], atol=1e-3)
    np.testing.assert_allclose(mean(tilted), [1, 0, 0], atol=1e-3)


@pytest.mark.parametrize("degrees", [0, 30, 44, 46, 60, 75, 89])
def test_no_slope_is_black_however_steep_its_normals(degrees: float) -> None:
    """In a white furnace all of it is in a mirror, where the image of what comes in lies below the triangle too."""
    tilt = np.radians(degrees)
    normals = np.tile(np.array([np.sin(tilt), 0.0, np.cos(tilt)], np.float32), (6, 1))
    scene = replace(only(scene_of((SHEET, MIRROR), camera=FRONT), normals=normals), environment=Environment((1.0, 1.0, 1.0)))
    np.testing.assert_allclose(mean(scene, depth=2), 1.0, atol=2e-2)


def test_normals_are_those_between_the_corners() -> None:
    """Seen through kernels: the same mixture that NumPy makes."""
    random = np.random.default_rng(1)
    scene = scene_of((SHEET, grey(0.5)), camera=FRONT)
    normals = np.abs(random.normal(size=(6, 3))) + np.array([0, 0, 1])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    held = upload(only(scene, normals=normals.astype(np.float32)), group=16)
    assert held.data.corner is not None and held.data.corners.normals
    from engine import Tensor, jit
    from renderer.vec import Vec3
    from tests.renderer.helpers.tracing import device

    def at(corner: Any, triangle: Any, point: Any) -> Any:
        return tuple(between(held.data.corners, corner, triangle, Vec3(*(point[:, k] for k in range(3)))).normal())

    weights = random.dirichlet([1, 1, 1], 64)
    points = np.einsum("nc,cx->nx", weights, held.parts.soup.positions[0]).astype(np.float32)
    got = jit(at, device=device())(held.data.corner, Tensor(np.zeros(64, np.int32)), Tensor(points))
    np.testing.assert_allclose(np.stack([c.numpy() for c in got], 1), weights @ held.parts.soup.normals[0], atol=1e-5)  # type: ignore[index]


def test_normals_of_the_triangles_own_make_no_other_code() -> None:
    scene = scene_of((SHEET, grey(0.5)), camera=FRONT)
    same = only(scene, normals=np.tile(np.array([0, 0, 1], np.float32), (6, 1)))
    assert structure(upload(same, group=16).data) == structure(upload(scene, group=16).data)


def test_a_smooth_surface_in_a_furnace_reflects_no_more_than_it_is_given() -> None:
    ball = icosphere(1, 0.8)
    smooth = scene_of((ball, grey(0.5)), camera=FRONT)
    normals = ball.reshape(-1, 3) / np.linalg.norm(ball.reshape(-1, 3), axis=1, keepdims=True)
    smooth = replace(only(smooth, normals=normals.astype(np.float32)), environment=Environment((1.0, 1.0, 1.0)))
    seen = render(smooth, (16, 16), spp=64, depth=8).mean
    middle = seen[6:10, 6:10].mean()
    assert 0.45 < middle < 0.51


# ---- textures ----


@pytest.mark.parametrize("backend", ["cpu", "opencl", "opengl"])
def test_a_picture_lies_upright_on_a_surface(backend: str) -> None:
    colours = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 255]]], np.uint8)
    scene = scene_of((SHEET, unlit(1, 1, 1, base_color_texture=TextureRef(0))), camera=FRONT)
    seen = render(pictured(scene, colours), (4, 4), spp=2, backend=backend).mean
    np.testing.assert_allclose(seen, np.repeat(np.repeat(colours / 255.0, 2, 0), 2, 1), atol=1e-4)


def test_a_texture_is_moved_as_its_slot_says() -> None:
    colours = np.array([[[255, 0, 0], [0, 255, 0]]], np.uint8)
    moved = TextureRef(0, offset=(0.5, 0.0))
    scene = scene_of((SHEET, unlit(1, 1, 1, base_color_texture=moved)), camera=FRONT)
    seen = render(pictured(scene, colours), (4, 4), spp=2).mean
    np.testing.assert_allclose(seen[:, :2], np.broadcast_to([0, 1, 0], (4, 2, 3)), atol=1e-4)


def test_colours_of_vertices_and_factor_and_texture_are_multiplied() -> None:
    half = np.full((2, 2, 3), 188, np.uint8)  # linear 0.503
    scene = scene_of((SHEET, unlit(0.8, 0.8, 0.8, base_color_texture=TextureRef(0))), camera=FRONT)
    scene = only(pictured(scene, half), colours=np.tile(np.array([1.0, 0.5, 0.25, 1.0], np.float32), (6, 1)))
    np.testing.assert_allclose(mean(scene), 0.8 * 0.5029 * np.array([1.0, 0.5, 0.25]), rtol=1e-3)


def test_alpha_of_a_texture_cuts_holes() -> None:
    pixels = np.array([[[0, 0, 0, 0], [0, 0, 0, 255]]], np.uint8)
    sheet = unlit(0, 0, 0, alpha_mode="MASK", base_color_texture=TextureRef(0))
    scene = scene_of((NEAR, sheet), (SHEET, unlit(0.5, 0.5, 0.5)), camera=FRONT)
    seen = render(pictured(scene, pixels), (4, 4), spp=2).mean
    np.testing.assert_allclose(seen[:, :2], 0.5, rtol=1e-4)
    assert not seen[:, 2:].any()


@pytest.mark.parametrize(("scale", "turns"), [((1, 1, 1), (1, 1)), ((-1, 1, 1), (-1, 1)), ((1, -1, 1), (1, -1)), ((-1, -1, 1), (-1, -1))])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_normal_map_turns_a_mirror_as_normals_do(axis: int, scale: tuple[int, ...], turns: tuple[int, int]) -> None:
    """Red along u, green up the picture, and both with the surface where it is mirrored: then the light comes from the other wall."""
    walls = [quad([9 * side, -30, -30], [0, 0, 60], [0, 60, 0]) for side in (1, -1)]
    walls += [quad([-30, 9 * side, -30], [0, 0, 60], [60, 0, 0]) for side in (1, -1)]
    colours = [(0.9, 0.1, 0.1), (0.1, 0.9, 0.1), (0.1, 0.1, 0.9), (0.9, 0.9, 0.1)]  # right, left, above, below
    lit = [(wall, unlit(*colour)) for wall, colour in zip(walls, colours, strict=True)]
    scene = scene_of((SHEET, replace(MIRROR, normal_texture=TextureRef(0))), camera=FRONT)
    pixel = np.rint(np.array([TILT, TILT[[1, 0, 2]]])[axis] * 127 + 128).astype(np.uint8)
    scene = pictured(scene, np.tile(pixel, (2, 2, 1)))
    geometry: Geometry = with_tangents(scene.meshes[0].geometries[0], 0)
    scene = only(scene, **{name: getattr(geometry, name) for name in ("positions", "indices", "normals", "tangents", "texcoords")})
    around = scene_of(*lit)
    geometries = [replace(g, material=k + 1) for k, g in enumerate(around.meshes[0].geometries)]
    sheet = replace(scene.instances[0], world=np.diag([*map(float, scale), 1.0]))
    scene = replace(
        scene,
        materials=[*scene.materials, *around.materials],
        meshes=[*scene.meshes, replace(around.meshes[0], geometries=geometries)],
        instances=[sheet, replace(around.instances[0], mesh=1)],
    )
    np.testing.assert_allclose(mean(scene), colours[2 * axis + (turns[axis] < 0)], atol=1e-3)


def test_textures_make_metal_and_smoothness() -> None:
    """Blue 0: no metal; green 0: smooth."""
    scene = mirrored()
    scene.materials[0] = replace(MIRROR, roughness=1.0, metallic_roughness_texture=TextureRef(0))
    np.testing.assert_allclose(mean(pictured(scene, [[[0, 0, 255]]])), [0, 0, 1], atol=1e-3)
    dull = mean(pictured(scene, [[[0, 255, 255]]]), spp=64)
    assert dull[0] > 0.1 and dull[2] < 0.9


def test_a_lamp_with_a_picture_lights_as_its_bright_part_does() -> None:
    left, whole = quad([-1, -1, 2], [0, 2, 0], [1, 0, 0]), quad([-1, -1, 2], [0, 2, 0], [2, 0, 0])
    camera = look_at([0, -4, 1], [0, 0, 0], 0.3)
    halves = np.array([[[255, 255, 255], [0, 0, 0]]], np.uint8)
    lamp = replace(grey(0.0, 4.0), emissive_texture=TextureRef(0))
    scene = scene_of((whole, lamp), (SHEET, grey(0.8)), camera=camera)
    uv = np.array([[0, 1], [0, 0], [1, 0], [0, 1], [1, 0], [1, 1]], np.float32)
    textured = only(pictured(scene, halves), texcoords=(uv,))
    want = render(scene_of((left, grey(0.0, 4.0)), (SHEET, grey(0.8)), camera=camera), (16, 16), spp=256, depth=2).mean
    forms: tuple[Form, ...] = ("packet", "serial")
    for form in forms:
        got = render(textured, (16, 16), spp=256, depth=2, form=form).mean
        np.testing.assert_allclose(got.mean((0, 1)), want.mean((0, 1)), rtol=0.01)


# ---- edits ----


def test_values_of_a_material_are_data_and_what_it_has_is_code() -> None:
    scene = scene_of((SHEET, Material()), (NEAR, grey(0.5)), camera=FRONT)
    held = upload(scene, group=16)

    def edited(**values: Any) -> Any:
        return structure(relit(held, replace(scene, materials=[replace(scene.materials[0], **values), scene.materials[1]]), group=16).data)

    same = structure(held.data)
    assert edited(roughness=0.1) == edited(metallic=0.0, specular_factor=0.0) == edited(ior=2.0) == same
    assert edited(clearcoat=Clearcoat(1.0)) != same
    assert edited(unlit=True) != same


def test_matt_scenes_have_rows_of_eight_floats() -> None:
    held: Any = upload(scene_of((SHEET, grey(0.5)), camera=FRONT), group=16).data
    assert held.material.shape[1] == 8 and held.corner is None and held.textures is None


def test_pictures_are_drawn_alike_by_all_devices() -> None:
    scene = replace(layered(0.5, "BLEND"), environment=Environment((1.0, 1.0, 1.0)))
    scene.materials[1] = replace(GLASS, volume=Volume(1.0, attenuation_distance=1.0, attenuation_color=(0.5, 0.6, 0.7)), dispersion=1.0)
    first: Rendered = render(scene, (16, 16), spp=64)
    for backend in ("opencl", "opengl"):
        other = render(scene, (16, 16), spp=64, backend=backend)
        np.testing.assert_allclose(other.mean.mean((0, 1)), first.mean.mean((0, 1)), rtol=0.02)
