"""Our pictures against Mitsuba 3's, of scenes that both can express: nothing but the formulas of light is shared between the two.

Scenes are written to a glTF file that we read, and to Mitsuba's own description that a process with Mitsuba reads (`PEERS=PYTHON` names
an interpreter that has it, else this one is asked). How far two pictures may be apart by chance is measured, see `helpers.beside`; what
is allowed beside that is half a per cent of each block of pixels where both have the same formulas, and otherwise said at the test.

Where they have not: glTF's Fresnel is Schlick's, Mitsuba's dielectrics have the exact one; our facets shadow each other height-correlated
and get back what they lose among them, Mitsuba's shadow separately and do not. The light of a point on a plane is then predicted from
Mitsuba's by these formulas, written down in `helpers.optics`.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from renderer.scene.model import Environment, Material, Orthographic, Scene, Sky, Texture
from renderer.scene.model_material import Anisotropy, Clearcoat, Transmission, Volume
from renderer.scene.model_texture import TextureRef
from renderer.scene.sky import clear_sky
from tests.peers.mitsuba_scene import Json, Mitsuba, MitsubaError, colour, twosided
from tests.renderer.helpers import optics
from tests.renderer.helpers.beside import Beside
from tests.renderer.helpers.rooms import EYE, LIGHTS, OPEN, UV, Floats, Part, around, ball, lamp_at, picture, room, scene_of_parts
from tests.renderer.helpers.worlds import cube_grid, grey, look_at, quad

VARIANTS = ("llvm_ad_rgb", "scalar_rgb")  # the second needs no LLVM, and half as much time again
SAME = 0.005  # where both have the same formulas
SCHLICK = 0.01  # allowed for its Fresnel: up to 0.035 from the exact one, at 60 and at 85 degrees, the other way about


def peer() -> str:
    """The interpreter that has Mitsuba."""
    return os.environ.get("PEERS", sys.executable)


@pytest.fixture(scope="module")
def mitsuba() -> Iterator[Mitsuba]:
    if "PEERS" not in os.environ and importlib.util.find_spec("mitsuba") is None:
        pytest.skip("peers: no Mitsuba here; PEERS=PYTHON names an interpreter that has it")
    for variant in VARIANTS:
        try:
            started = Mitsuba(peer(), variant)
        except MitsubaError as error:
            failed = str(error)
            continue
        with started:
            yield started
        return
    pytest.skip(f"peers: {peer()} does not run Mitsuba: {failed}")


@pytest.fixture
def beside(mitsuba: Mitsuba, tmp_path: Path) -> Beside:
    return Beside(mitsuba, tmp_path)


SMOOTH = ball(4, 0.6, (0, 0.6, 0), grey((0.8, 0.7, 0.3)))


# ---- geometry, colours, cameras ----


def test_matt_surfaces_with_smooth_normals(beside: Beside) -> None:
    beside.compare(scene_of_parts(room(SMOOTH), EYE), 6, SAME)


def test_a_difference_of_two_per_cent_is_seen(beside: Beside) -> None:
    """The comparison can fail."""
    scene = scene_of_parts(room(SMOOTH), EYE)
    darker = twosided({"type": "diffuse", "reflectance": colour(np.array([0.7, 0.6, 0.5]) * 0.98)})
    with pytest.raises(AssertionError):
        beside.compare(scene, 6, SAME, bsdfs={0: darker})


def test_textures_are_wrapped_mixed_decoded_and_moved(beside: Beside) -> None:
    ways = ("repeat", "mirror", "clamp")
    made = [(picture(k, (5, 7)), Texture(0, mip=None, wrap_s=way, wrap_t=way)) for k, way in enumerate(ways)]  # type: ignore[arg-type]
    made = [(pixels, replace(texture, image=k)) for k, (pixels, texture) in enumerate(made)]
    made.append((picture(9, (4, 4)), Texture(3, mag="nearest", min="nearest", mip=None)))
    moved = TextureRef(1, scale=(0.8, 1.3), rotation=0.4, offset=(0.2, -0.1))
    refs = [TextureRef(0), moved, TextureRef(2, offset=(0.3, 0.3)), TextureRef(3)]
    parts = []
    for k, ref in enumerate(refs):
        corner = [-1.05 + 1.05 * (k % 2), -1.05 + 1.05 * (k // 2), 0]
        surface = replace(grey(1.0 if k else (0.9, 0.5, 0.7)), base_color_texture=ref)
        parts.append(Part(quad(corner, [1, 0, 0], [0, 1, 0]), surface, texcoords=UV * 2.6 - 0.7))
    scene = scene_of_parts(parts, look_at((0, 0, 5), (0, 0, 0), Orthographic(1.1, 1.1)), pixels=tuple(made), environment=Environment())
    beside.compare(scene, 2, SAME)


def test_colours_of_vertices(beside: Beside) -> None:
    directions = SMOOTH.triangles.reshape(-1, 3) - np.float32([0, 0.6, 0])
    colours = np.concatenate([np.abs(directions) / 0.6, np.ones((len(directions), 1))], 1).astype(np.float32)
    beside.compare(scene_of_parts(room(replace(SMOOTH, material=grey(1.0), colours=colours)), EYE), 4, SAME)


def placed(seed: int, count: int) -> tuple[Floats, ...]:
    """Matrices of all kinds: turned, moved, scaled unevenly."""
    random = np.random.default_rng(seed)
    worlds = []
    for _ in range(count):
        world = np.eye(4)
        world[:3, :3] = np.linalg.qr(random.normal(size=(3, 3)))[0] @ np.diag(random.uniform(0.1, 0.35, 3))
        world[:3, 3] = random.uniform([-1.2, 0.2, -1.2], [1.2, 1.8, 1.0])
        worlds.append(world)
    return tuple(worlds)


def test_instances_stand_where_they_are_placed(beside: Beside) -> None:
    many = ball(3, 1.0, (0, 0, 0), grey((0.8, 0.7, 0.3)), worlds=placed(5, 24))
    floor = Part(quad([-2, 0, -2], [0, 0, 4], [4, 0, 0]), grey((0.7, 0.6, 0.5)))
    beside.compare(scene_of_parts([floor, many], EYE, environment=OPEN), 4, SAME)


def test_holes_and_veils(beside: Beside) -> None:
    pixels = picture(4, (6, 6), 4)
    holes = replace(grey(1.0), alpha_mode="MASK", base_color_texture=TextureRef(0))
    veil = replace(grey(0.0), alpha_mode="BLEND", base_color_factor=(0.2, 0.8, 0.3, 0.6))
    parts = room(
        Part(quad([-1.2, 0.9, -0.8], [1.3, 0, 0], [0, 0.2, 1.3]), holes, texcoords=UV),
        Part(quad([0.1, 0.1, 0.5], [1, 0, 0], [0, 1.2, 0]), veil),
    )
    texture = Texture(0, mag="nearest", min="nearest", mip=None)
    beside.compare(scene_of_parts(parts, EYE, pixels=((pixels, texture),)), 5, SAME, integrator="volpath")


@pytest.mark.parametrize("focus", [2.6, 4.2])
def test_a_thin_lens(beside: Beside, focus: float) -> None:
    camera = replace(EYE, aperture=0.12, focus=focus)
    beside.compare(scene_of_parts(room(SMOOTH), camera), 3, SAME)


def test_a_parallel_view(beside: Beside) -> None:
    camera = look_at((1.2, 1.6, 3.4), (0, 0.8, 0), Orthographic(1.4, 1.4))
    beside.compare(scene_of_parts(room(SMOOTH), camera), 3, SAME)


# ---- lights ----


def test_surroundings(beside: Beside) -> None:
    environment = Environment((0.9, 1.0, 0.8), 1.7, 37.0, around())
    parts = [Part(quad([-2, 0, -2], [0, 0, 4], [4, 0, 0]), grey((0.7, 0.6, 0.5))), SMOOTH]
    beside.compare(scene_of_parts(parts, EYE, environment=environment), 4, SAME)


def test_a_sky_with_a_sun(beside: Beside) -> None:
    parts = [Part(quad([-2, 0, -2], [0, 0, 4], [4, 0, 0]), grey((0.7, 0.6, 0.5))), SMOOTH]
    beside.compare(scene_of_parts(parts, EYE, environment=Environment(turn=-20.0, image=clear_sky(Sky()))), 4, SAME)


def test_lights_without_a_surface(beside: Beside) -> None:
    parts = room(SMOOTH)
    parts[3] = replace(parts[3], material=grey(0.5))
    beside.compare(scene_of_parts(parts, EYE, lights=LIGHTS), 4, SAME)


def test_lights_of_all_kinds_together(beside: Beside) -> None:
    scene = scene_of_parts(room(SMOOTH), EYE, lights=LIGHTS, environment=Environment((0.5, 0.6, 0.7), 1.0, 80.0, around()))
    beside.compare(scene, 4, SAME)


def test_a_lamp_with_a_picture(beside: Beside) -> None:
    lamp = replace(grey(0.0, (14, 12, 9)), emissive_texture=TextureRef(0))
    texture = Texture(0, mip=None, wrap_s="clamp", wrap_t="clamp")
    beside.compare(scene_of_parts(room(SMOOTH, lamp=lamp), EYE, pixels=((picture(6, (4, 4)), texture),)), 4, SAME)


# ---- metal, plastic and varnish by the light of a point ----

PLANE = quad([-6, 0, -6], [0, 0, 12], [12, 0, 0])  # all that is to be seen
ABOVE = look_at((0.3, 1.2, 1.5), (0, 0, -0.2), 0.8)
BULB = (-0.4, 0.9, -0.9)
BULB_POWER = 3.0


def flat(triangles: NDArray[np.float32], material: Material) -> Part:
    """A quad on which a picture would lie upright; normals are told, without which there are no tangents."""
    normal = np.cross(triangles[0, 1] - triangles[0, 0], triangles[0, 2] - triangles[0, 0])
    return Part(triangles, material, np.tile((normal / np.linalg.norm(normal)).astype(np.float32), (6, 1)), UV)


def table(material: Material) -> Scene:
    """A plane under a point that shines."""
    light = lamp_at("point", BULB, (0, 0, 0), (1.0, 1.0, 1.0), BULB_POWER)
    return scene_of_parts([flat(PLANE, material)], ABOVE, lights=(light,))


def lines_of_sight(size: int) -> tuple[Floats, Floats, Floats]:
    """Where the pixels' middles see the plane: wo and wi, float64[size, size, 3], normal +z; and what arrives at a surface facing it."""
    ticks = (np.arange(size) + 0.5) / size * 2 - 1
    x, y = np.meshgrid(ticks, -ticks)
    half = math.tan(0.4)
    world = ABOVE.world
    d = x[..., None] * half * world[:3, 0] + y[..., None] * half * world[:3, 1] - world[:3, 2]
    point = world[:3, 3] - d * (world[1, 3] / d[..., 1])[..., None]
    to_light = np.array(BULB) - point
    squared = (to_light**2).sum(-1)
    turned = (-d / np.linalg.norm(d, axis=-1, keepdims=True))[..., [2, 0, 1]]
    return turned, (to_light / np.sqrt(squared)[..., None])[..., [2, 0, 1]], BULB_POWER / squared


def separate_to_joint(wo: Floats, wi: Floats, alpha: float) -> Floats:
    """Height-correlated masking and shadowing over separate ones (Heitz 2014, eqs. 98 and 99)."""
    o, i = optics.shadowing(wo, alpha, alpha), optics.shadowing(wi, alpha, alpha)
    return np.asarray((1 + o) * (1 + i) / (1 + o + i))


def given_back(wo: Floats, wi: Floats, alpha: float) -> Floats:
    """What white facets lose among them (Kulla and Conty 2017), times the cosine of light."""
    cosines = (np.arange(24) + 0.5) / 24
    lost = np.array([1 - optics.albedos(c, alpha, 400)[0] for c in cosines])
    mean = 2 * (lost * cosines).mean()
    at = [np.interp(w[..., 2], cosines, lost) for w in (wo, wi)]
    return np.asarray(at[0] * at[1] / (math.pi * mean) * wi[..., 2])


@pytest.mark.parametrize(("roughness", "tolerance"), [(0.2, 0.025), (0.5, 0.01), (1.0, 0.01)])
def test_rough_metal(beside: Beside, roughness: float, tolerance: float) -> None:
    """What is given back is known to us to 0.003 of all light (`shading.energy`). Off the highlight of smooth facets, where hardly any
    light is, it is up to a sixth of what there is."""
    alpha = roughness**2
    wo, wi, arriving = lines_of_sight(beside.size)
    ratio, more = separate_to_joint(wo, wi, alpha)[..., None], (given_back(wo, wi, alpha) * arriving)[..., None]
    white = twosided({"type": "roughconductor", "material": "none", "distribution": "ggx", "alpha": alpha})
    scene = table(Material(roughness=roughness, metallic=1.0))
    beside.compare(scene, 2, tolerance, lambda theirs: theirs * ratio + more, bsdfs={0: white})


def exact_fresnel(cosine: Floats, ior: float) -> Floats:
    beyond = np.sqrt(1 - (1 - cosine**2) / ior**2)
    s = (cosine - ior * beyond) / (cosine + ior * beyond)
    p = (ior * cosine - beyond) / (ior * cosine + beyond)
    return np.asarray((s * s + p * p) / 2)


@pytest.mark.parametrize("roughness", [0.2, 0.6])
def test_a_coat_of_varnish_on_black(beside: Beside, roughness: float) -> None:
    alpha = roughness**2
    wo, wi, _ = lines_of_sight(beside.size)
    cosine = optics.dot(wo, optics.half_vector(wo, wi))
    ratio = separate_to_joint(wo, wi, alpha) * optics.schlick(0.04, 1, cosine) / exact_fresnel(cosine, 1.5)
    varnish = {"type": "roughplastic", "distribution": "ggx", "alpha": alpha, "int_ior": 1.5, "diffuse_reflectance": colour(0.0)}
    scene = table(replace(grey(0.0), clearcoat=Clearcoat(1.0, roughness)))
    beside.compare(scene, 2, SAME, lambda theirs: theirs * ratio[..., None], bsdfs={0: twosided(varnish)})


def principled(base: tuple[float, float, float], metallic: float, roughness: float) -> Json:
    return twosided({"type": "principled", "base_color": colour(base), "metallic": metallic, "roughness": roughness, "specular": 0.5})


GOLD = (0.9, 0.6, 0.2)


def test_coloured_metal(beside: Beside) -> None:
    """Mitsuba's `principled` has Schlick's Fresnel as glTF has. What facets lose they get back in the colour of metal met twice."""
    alpha = 0.3**2
    wo, wi, arriving = lines_of_sight(beside.size)
    ratio = separate_to_joint(wo, wi, alpha)[..., None]
    mean = np.array(GOLD) + (1 - np.array(GOLD)) / 21
    more = (given_back(wo, wi, alpha) * arriving)[..., None] * mean**2
    scene = table(Material(base_color_factor=(*GOLD, 1.0), roughness=0.3, metallic=1.0))
    beside.compare(scene, 2, 0.04, lambda theirs: theirs * ratio + more, bsdfs={0: principled(GOLD, 1.0, 0.3)})


# ---- surfaces that shine, in surroundings ----

def shown(material: Material, environment: Environment = OPEN, subdivisions: int = 4) -> Scene:
    """A ball on a floor under an open sky."""
    parts = [Part(quad([-2, 0, -2], [0, 0, 4], [4, 0, 0]), grey((0.7, 0.6, 0.5))), ball(subdivisions, 0.6, (0, 0.65, 0), material)]
    return scene_of_parts(parts, EYE, environment=environment)


def test_a_mirror(beside: Beside) -> None:
    beside.compare(shown(Material(roughness=0.0)), 4, SAME, bsdfs={1: twosided({"type": "conductor", "material": "none"})})


def test_coloured_metal_in_surroundings(beside: Beside) -> None:
    material = Material(base_color_factor=(*GOLD, 1.0), metallic=1.0, roughness=0.2)
    beside.compare(shown(material), 4, SAME, bsdfs={1: principled(GOLD, 1.0, 0.2)})


def test_metal_with_a_grain(beside: Beside) -> None:
    """Seen from above, where such facets lose a fortieth of the light, which is given back by us alone: it is what the tolerance is for."""
    along, across = 0.04 + 0.96 * 0.4**2, 0.04
    brushed = {"type": "roughconductor", "material": "none", "distribution": "ggx", "alpha_u": along, "alpha_v": across}
    eye = look_at((0.2, 2.5, 0.6), (0, 0, 0), 0.6)
    scene = scene_of_parts([flat(PLANE, Material(roughness=0.2, anisotropy=Anisotropy(0.4)))], eye, environment=OPEN)
    beside.compare(scene, 2, 0.08, bsdfs={0: twosided(brushed)})


def test_plastic(beside: Beside) -> None:
    """glTF's base colour b is what a base reflects of the light that gets through to it and out again. Mitsuba's, a, is what it reflects
    each time, of which the part F is sent back from within: b = a (1 - F) / (1 - a F). The rest is Schlick's Fresnel beside the exact one.
    Rough plastic is not compared: in a white furnace Mitsuba's loses a twelfth of the light, ours none."""
    cosines = (np.arange(1000) + 0.5) / 1000
    within = 1 - (1 - 2 * (exact_fresnel(cosines, 1.5) * cosines).mean()) / 1.5**2
    base = np.array(GOLD) / (1 - within + np.array(GOLD) * within)
    plastic = {"type": "plastic", "int_ior": 1.5, "diffuse_reflectance": colour(base), "nonlinear": True}
    material = Material(base_color_factor=(*GOLD, 1.0), metallic=0.0, roughness=0.0)
    beside.compare(shown(material), 4, SCHLICK, bsdfs={1: twosided(plastic)})


def test_a_normal_map(beside: Beside) -> None:
    tilts = np.random.default_rng(2).normal(0, 0.15, (6, 6, 2))
    normals = np.concatenate([tilts, np.ones((6, 6, 1))], -1)
    pixels = np.rint(normals / np.linalg.norm(normals, axis=-1, keepdims=True) * 127 + 128).astype(np.uint8)
    surface = replace(grey((0.7, 0.6, 0.5)), normal_texture=TextureRef(0))
    texture = Texture(0, mag="nearest", min="nearest", mip=None)
    scene = scene_of_parts([flat(quad([-1, 0, -1], [0, 0, 2], [2, 0, 0]), surface)], ABOVE, pixels=((pixels, texture),), environment=OPEN)
    beside.compare(scene, 3, SAME)


GLASS = Material(metallic=0.0, roughness=0.0, transmission=Transmission(1.0), volume=Volume(1.0))




def behind(material: Material) -> Scene:
    """A coloured room seen through a block that faces the eye, so that Schlick has no say."""
    block = Part(cube_grid(1, 0.7) * np.float32([1, 1, 0.4]) + np.float32([0, 0.8, 1.0]), material)
    camera = look_at((0.1, 0.9, 4), (0, 0.8, 0), 0.5)
    return scene_of_parts([*room(SMOOTH)[:3], SMOOTH, block], camera, environment=OPEN)


def test_a_block_of_glass(beside: Beside) -> None:
    beside.compare(behind(GLASS), 8, SAME, bsdfs={4: {"type": "dielectric", "int_ior": 1.5}})


@pytest.mark.parametrize(("roughness", "ior"), [(0.0, 1.5), (0.2, 1.5), (0.0, 1.8)])
def test_a_ball_of_glass(beside: Beside, roughness: float, ior: float) -> None:
    glass: Json = {"type": "roughdielectric", "distribution": "ggx", "alpha": roughness**2} if roughness else {"type": "dielectric"}
    beside.compare(shown(replace(GLASS, roughness=roughness, ior=ior)), 10, SCHLICK, bsdfs={1: glass | {"int_ior": ior}})


def test_a_ball_of_coloured_glass(beside: Beside) -> None:
    left = (0.9, 0.7, 0.5)
    tinted = replace(GLASS, volume=Volume(1.0, attenuation_distance=0.5, attenuation_color=left))
    medium = {"type": "homogeneous", "albedo": 0.0, "sigma_t": colour(-np.log(left) / 5), "scale": 10.0}  # a colour is at most 1
    glass = {"type": "dielectric", "int_ior": 1.5}
    beside.compare(shown(tinted), 10, SCHLICK, bsdfs={1: glass}, inside={1: medium}, integrator="volpathmis")


# ---- the comparison of times ----


def test_a_pair_of_runs_makes_a_table(mitsuba: Mitsuba, root: Path) -> None:
    """`tests.peers.pair` has nothing to be right about but its form, and that the pictures agree."""
    options = ["--size", "64", "48", "--rounds", "1", "--frames", "2", "--depth", "3", "--check", "64"]
    command = [sys.executable, "-m", "tests.peers.pair", str(root / "scenes/cornell.gltf"), *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, env={**os.environ, "PEERS": peer()}, timeout=300)
    if "Mitsuba: " in done.stderr:
        pytest.skip(f"peers: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    table, parts, pictures = done.stdout.split("\n\n")
    name, triangles, ours, theirs, ratio, *first = table.splitlines()[2].strip("| ").split(" | ")
    assert (name, triangles, ratio[:2]) == ("cornell", "36", "x ")
    assert all(float(value) > 0 for value in (ours, theirs, *first))
    assert "  rayfuse: import " in parts and "  Mitsuba: import " in parts
    whole = re.search(r"cornell: whole ([\d.]+)% \(([\d.]+)% beyond chance\)", pictures)
    assert whole is not None and float(whole[2]) < 0.5
