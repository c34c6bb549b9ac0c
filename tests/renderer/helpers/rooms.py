"""A room with things in it: scenes in which each part has its own material, placed, textured and lit in all ways that there are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renderer.scene.model import Camera, Environment, Float32s, Geometry, Image, Instance, Light, Material, Mesh, Scene, Texture
from tests.renderer.helpers.picture_files import png
from tests.renderer.helpers.worlds import Triangles, grey, icosphere, look_at, quad

Floats = NDArray[np.float64]

EYE = look_at((1.2, 1.6, 3.4), (0, 0.6, 0), 0.7)
UV = np.array([[0, 1], [1, 1], [1, 0], [0, 1], [1, 0], [0, 0]], np.float32)  # a picture upright on a quad


@dataclass(frozen=True)
class Part:
    """A mesh, float32[n, 3, 3], and what else its corners have; normals float32[3 n, 3], and so on."""

    triangles: Triangles
    material: Material
    normals: Float32s | None = None
    texcoords: Float32s | None = None
    colours: Float32s | None = None
    worlds: tuple[Floats, ...] = ()  # where it stands, more than once


def ball(subdivisions: int, radius: float, centre: Any, material: Material, **more: Any) -> Part:
    """A sphere that looks smooth."""
    triangles = icosphere(subdivisions, radius, centre)
    away = triangles.reshape(-1, 3) - np.asarray(centre, np.float32)
    return Part(triangles, material, (away / np.linalg.norm(away, axis=1, keepdims=True)).astype(np.float32), **more)


def scene_of_parts(
    parts: list[Part],
    camera: Camera,
    *,
    pixels: tuple[tuple[NDArray[np.uint8], Texture], ...] = (),
    environment: Environment | None = None,
    lights: tuple[Light, ...] = (),
) -> Scene:
    """A scene in which each part is a mesh of its own; pixels: its textures, each with its picture, uint8[h, w, 3 or 4]."""
    scene = Scene(Path("made in code"), [camera], environment=environment or Environment((0.0, 0.0, 0.0)), lights=list(lights))
    for k, part in enumerate(parts):
        corners = np.ascontiguousarray(part.triangles.reshape(-1, 3))
        indices = np.arange(len(corners), dtype=np.uint32).reshape(-1, 3)
        texcoords = () if part.texcoords is None else (part.texcoords,)
        geometry = Geometry(corners, indices, part.normals, k, texcoords=texcoords, colours=part.colours)
        scene.materials.append(part.material)
        scene.meshes.append(Mesh(f"mesh {k}", [geometry]))
        scene.instances += [Instance(k, world, f"mesh {k}", k) for world in part.worlds or (np.eye(4),)]
    scene.images += [Image(f"picture {k}", png(picture), f"images[{k}]") for k, (picture, _) in enumerate(pixels)]
    scene.textures += [texture for _, texture in pixels]
    return scene


def picture(seed: int, shape: tuple[int, int], channels: int = 3) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (*shape, channels), np.uint8)


def around(size: tuple[int, int] = (32, 64), seed: int = 3) -> NDArray[np.float32]:
    """Surroundings without symmetry: coloured lobes of several widths on a gradient."""
    random = np.random.default_rng(seed)
    polar = (np.arange(size[0]) + 0.5) / size[0] * math.pi
    turn = ((np.arange(size[1]) + 0.5) / size[1] - 0.5) * 2 * math.pi
    sine = np.sin(polar)[:, None]
    d = np.stack([sine * np.cos(turn), np.broadcast_to(np.cos(polar)[:, None], size), sine * np.sin(turn)], -1)
    picture = 0.3 + 0.15 * (d @ [[0.3, 0.5, 0.8], [0.9, 0.2, 0.4], [0.1, 0.8, -0.5]])
    for _ in range(5):
        axis = random.normal(size=3)
        lobe = np.exp(random.uniform(3, 12) * (d @ (axis / np.linalg.norm(axis)) - 1))
        picture = picture + lobe[..., None] * random.uniform(0, 3, 3)
    return picture.astype(np.float32)


OPEN = Environment((1.0, 1.0, 1.0), 1.0, 37.0, around())


def room(*parts: Part, lamp: Material | None = None) -> list[Part]:
    """A floor, two walls, a lamp, and the parts."""
    return [
        Part(quad([-2, 0, -2], [0, 0, 4], [4, 0, 0]), grey((0.7, 0.6, 0.5))),
        Part(quad([-2, 0, -2], [4, 0, 0], [0, 3, 0]), grey((0.3, 0.5, 0.7))),
        Part(quad([-2, 0, 2], [0, 0, -4], [0, 3, 0]), grey((0.6, 0.2, 0.2))),
        Part(quad([-0.6, 2.6, -0.5], [1.2, 0, 0], [0, 0, 1.2]), lamp or grey(0.0, (9, 8, 6)), texcoords=UV),
        *parts,
    ]


def lamp_at(kind: Any, place: Any, target: Any, color: tuple[float, float, float], intensity: float, outer: float = math.pi / 4) -> Light:
    """A light that looks at `target`."""
    return Light(kind, kind, look_at(place, target).world, 0, color, intensity, inner_cone=outer - 5e-4, outer_cone=outer)


LIGHTS = (
    lamp_at("point", (-1.2, 1.8, 1.2), (0, 0, 0), (1.0, 0.5, 0.3), 2.0),
    lamp_at("spot", (1.5, 2.2, 0.5), (0, 0.4, -0.4), (0.3, 1.0, 0.5), 9.0, 0.4),
    lamp_at("directional", (1, 3, 2), (0, 0, 0), (0.4, 0.5, 1.0), 0.8),
)
