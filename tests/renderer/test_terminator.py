"""Where day becomes night on smooth surfaces of few triangles: as on the curved surface that they stand for, without leaks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine import Tensor, jit
from renderer.bvh.traverse import Form
from renderer.scene.model import Environment, Geometry, Instance, Light, Material, Mesh, Orthographic, Scene
from renderer.scene.upload import structure, upload
from renderer.shading.corner_rows import between
from renderer.vec import Vec3
from tests.renderer.helpers.pictures import render
from tests.renderer.helpers.tracing import device
from tests.renderer.helpers.worlds import grey, icosphere, look_at, quad, scene_of

SUN = np.array([1.0, 0.35, 0.35]) / np.linalg.norm([1.0, 0.35, 0.35])
BLACK = Environment((0.0, 0.0, 0.0))
FRONT = look_at([0, 0, 5], [0, 0, 0], Orthographic(1.1, 1.1))


def ball(around: int, down: int, radius: float = 1.0, inward: bool = False) -> Geometry:
    """A sphere of so many segments, with its normals."""
    polar, azimuth = np.meshgrid(np.linspace(0, math.pi, down + 1), np.linspace(0, 2 * math.pi, around + 1), indexing="ij")
    normals = np.stack([np.sin(polar) * np.cos(azimuth), np.cos(polar), np.sin(polar) * np.sin(azimuth)], -1).reshape(-1, 3)
    a = (np.arange(down)[:, None] * (around + 1) + np.arange(around)).ravel()
    b, c, d = a + 1, a + around + 1, a + around + 2
    triangles = np.concatenate([np.stack([a, b, c], 1), np.stack([b, d, c], 1)]).astype(np.uint32)
    side = -1 if inward else 1
    return Geometry((normals * radius).astype(np.float32), triangles[:, ::side].copy(), (normals * side).astype(np.float32), 0)


def lit(geometry: Geometry, material: Material, *, camera: Any = FRONT, environment: Environment = BLACK, lights: Any = ()) -> Scene:
    scene = scene_of((icosphere(0), material), camera=camera)
    mesh = Mesh("ball", [geometry])
    return replace(scene, meshes=[mesh], instances=[Instance(0, np.eye(4), "", 0)], environment=environment, lights=list(lights))


def sunlit(geometry: Geometry, form: Form = "packet") -> NDArray[np.float64]:
    world = np.eye(4)
    right = np.cross([0.0, 1.0, 0.0], SUN)
    world[:3, 0], world[:3, 2] = right / np.linalg.norm(right), SUN
    world[:3, 1] = np.cross(world[:3, 2], world[:3, 0])
    sun = Light("sun", "directional", world, 0, intensity=math.pi)
    return np.asarray(render(lit(geometry, grey(1.0), lights=[sun]), (64, 64), spp=16, depth=2, form=form).mean[..., 0], np.float64)


@pytest.mark.parametrize("form", ["packet", "serial"])
@pytest.mark.parametrize(("around", "down"), [(12, 8), (8, 6)])
def test_a_coarse_ball_in_the_sun_is_as_bright_as_a_sphere(around: int, down: int, form: Form) -> None:
    """White under an irradiance of pi: the cosine to the sun, day and night, but for what facets do to the place of the normal."""
    x, y = np.meshgrid((np.arange(64) + 0.5) / 32 * 1.1 - 1.1, 1.1 - (np.arange(64) + 0.5) / 32 * 1.1)
    within = x * x + y * y < 0.75**2
    normal = np.stack([x, y, np.sqrt(np.maximum(1 - x * x - y * y, 0))], -1)
    off = np.abs(sunlit(ball(around, down), form) - np.maximum(normal @ SUN, 0))[within]
    assert off.mean() < 0.2 / around and off.max() < 0.8 / around, (off.mean(), off.max())


def test_it_hides_the_night_side() -> None:
    seen = sunlit(ball(12, 8))
    assert not seen[20:44, 12:18].any() and seen[20:44, 44:50].min() > 0.5


@pytest.mark.parametrize("material", [grey(1.0), Material(metallic=1.0, roughness=0.6), Material(metallic=0.0, roughness=0.3)])
def test_a_coarse_smooth_ball_in_a_white_furnace_is_white(material: Material) -> None:
    scene = lit(ball(12, 8), material, environment=Environment((1.0, 1.0, 1.0)))
    seen = render(scene, (32, 32), spp=64, depth=16).mean
    assert abs(seen.mean() - 1) < 0.006 and seen.max() < 1.2


@pytest.mark.parametrize("inside", [False, True])
def test_no_light_gets_through_a_closed_smooth_surface(inside: bool) -> None:
    """The lamp on one side of a shell, the camera on the other; the shell's front to the camera."""
    shell = ball(8, 6, 1.0, inward=inside)
    lamp = icosphere(2, 0.4) if not inside else icosphere(2, 30.0, inward=True)
    camera = look_at([0, 0, 5], [0, 0, 0], 0.5) if not inside else look_at([0.2, 0.1, 0.2], [0, 0, -1], 1.5)
    scene = lit(shell, grey(0.8, double_sided=True), camera=camera)
    shining = scene_of((lamp, grey(0.0, 5.0)))
    scene.materials.append(shining.materials[0])
    scene.meshes[0].geometries.append(replace(shining.meshes[0].geometries[0], material=1))
    assert not render(scene, (32, 32), spp=64, depth=6).mean.any()


def test_a_triangle_without_a_curve_is_left_where_it_is() -> None:
    """Normals that all are the triangle's, in a scene with a ball, and normals that lean towards each other (a hollow)."""
    lifted = _lifts(np.tile([0.0, 0.0, 1.0], (3, 1)))
    np.testing.assert_allclose(lifted, 0, atol=1e-6)
    corners = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    inwards = np.array([0.3, 0.3, 0.5]) - corners
    np.testing.assert_allclose(_lifts(inwards / np.linalg.norm(inwards, axis=1, keepdims=True)), 0, atol=1e-6)


def test_a_point_is_lifted_to_the_mean_of_its_places_on_the_corners_planes() -> None:
    random = np.random.default_rng(2)
    for _ in range(4):
        normals = random.normal(size=(3, 3)) + np.array([0, 0, 2])
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        for side in (1.0, -1.0):
            got, points, weights, corners = _lifts(normals, side, told=True)
            heights = np.minimum(np.einsum("ncx,cx->nc", points[:, None] - corners, normals * side), 0)
            np.testing.assert_allclose(got, -np.einsum("nc,nc,cx->nx", weights, heights, normals * side), atol=2e-5)


def _lifts(normals: NDArray[Any], side: float = 1.0, told: bool = False) -> Any:
    """Of 64 points of one triangle the lift, and what it was made of."""
    sheet = scene_of((np.array([[[0, 0, 0], [1, 0, 0], [0, 1, 0]]], np.float32), grey(0.5)), camera=FRONT)
    ball_there = ball(8, 6)
    geometry = replace(sheet.meshes[0].geometries[0], normals=normals.astype(np.float32))
    scene = replace(sheet, meshes=[Mesh("both", [geometry, ball_there])])
    held = upload(scene, group=16)
    weights = np.random.default_rng(1).dirichlet([1, 1, 1], 64)
    points = np.einsum("nc,cx->nx", weights, held.parts.soup.positions[0]).astype(np.float32)

    def at(corner: Any, triangle: Any, point: Any, side: Any) -> Any:
        place = Vec3(*(point[:, k] for k in range(3)))
        return tuple(between(held.data.corners, corner, triangle, place).lift(place, side))

    sides = Tensor(np.full(64, side, np.float32))
    got = jit(at, device=device())(held.data.corner, Tensor(np.zeros(64, np.int32)), Tensor(points), sides)
    lifted = np.stack([c.numpy() for c in got], 1)
    return (lifted, points.astype(np.float64), weights, held.parts.soup.positions[0].astype(np.float64)) if told else lifted


def test_flat_scenes_have_no_code_for_it() -> None:
    flat = scene_of((quad([-1, -1, 0], [2, 0, 0], [0, 2, 0]), grey(0.5)), camera=FRONT)
    assert not upload(flat, group=16).data.corners.normals
    assert structure(upload(flat, group=16).data) != structure(upload(lit(ball(8, 6), grey(0.5)), group=16).data)
