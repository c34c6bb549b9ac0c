"""Scenes of what lies on surfaces and of how a file says it: pictures, variants, and ways to store the same shape."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from features_studio import document, lamp, rig, sphere, stand, studio
from gltf_document import Document, Json, Rgb, moved
from patterns import as_bytes, bricks, noise, normals_of, places, png, png_of_few, srgb, webp
from shapes import Floats, block, globe, knot, panel, quad, surface, turned


def surfaces() -> Document:
    """Pictures on surfaces: bumps without stored tangents, moved and repeated pictures, two sets of coordinates, holes, stained panes."""
    scene = document()
    lamp(scene, "key", (-5.0, 5.5, 5.0), (0, 1.0, 0), (2.2, 2.2), (24.0, 22.0, 19.0))
    lamp(scene, "fill", (5.5, 4.0, 4.0), (0, 1.0, 0), (2.5, 3.0), (3.6, 4.2, 5.4))
    scene.surrounded((0.20, 0.21, 0.23))
    # The wall: WebP colours, bumps, and roughness that differs between brick and mortar.
    height, number = bricks(64, 8, 0.16)
    relief = height * (0.8 + 0.2 * np.random.default_rng(3).random(64)[number]) - 0.18 * noise(64, 16, 4, 2) * height
    tone = np.random.default_rng(6).uniform(0.65, 1.15, 64)[number][..., None]
    colour = np.where(height[..., None] > 0.35, np.array([0.52, 0.17, 0.09]) * tone, (0.48, 0.45, 0.41))
    rough = as_bytes(np.stack([np.ones_like(height), 0.95 - 0.35 * height, 0 * height], -1))
    scale = [7.0, 4.0]
    wall = scene.material(
        "bricks",
        textures={
            "baseColorTexture": moved(scene.webp(webp(srgb(colour))), scale=scale),
            "metallicRoughnessTexture": moved(scene.texture(png(rough)), scale=scale),
        },
        metallic=1.0,
        normalTexture=moved(scene.texture(png(normals_of(relief, 3.0))), scale=scale),
    )
    scene.show("wall", panel((-5.6, 0, -2.2), (11.2, 0, 0), (0, 6.4, 0)), wall)
    # The floor: two tones of tiles, laid at an angle.
    u, v = places(32)
    tiles = png_of_few(np.where((u < 0.5) ^ (v < 0.5), 1, 0), [(0.86, 0.83, 0.78), (0.33, 0.36, 0.40)])
    slot = moved(scene.texture(tiles, nearest=True), scale=[6.0, 6.0], rotation=round(math.pi / 4, 6))
    floor = scene.material("tiles", roughness=0.28, textures={"baseColorTexture": slot})
    scene.show("floor", panel((-5.6, 0, 5.4), (11.2, 0, 0), (0, 0, -7.6)), floor)
    # Three frames: one arrow under the three rules of what lies beyond a picture's edge.
    arrow = np.zeros((32, 32), int)
    arrow[(np.abs(u - 0.5) < 0.09) & (v > 0.35) & (v < 0.88)] = 1
    arrow[(v > 0.12) & (v < 0.45) & (np.abs(u - 0.5) < (v - 0.12) * 0.95)] = 2
    arrow[(u < 0.06) | (v < 0.06)] = 3
    sign = png_of_few(arrow, [(0.95, 0.93, 0.86), (0.13, 0.33, 0.62), (0.88, 0.25, 0.13), (0.35, 0.62, 0.42)])
    frame = scene.material("frame", (0.10, 0.07, 0.05), 0.0, 0.35)
    for k, wrap in enumerate(("repeat", "mirror", "clamp")):
        x = -3.3 + 1.16 * k
        picture = moved(scene.texture(sign, wrap), offset=[-0.7, -0.7], scale=[2.4, 2.4])
        canvas = scene.material(f"picture, {wrap}", roughness=0.8, textures={"baseColorTexture": picture})
        scene.show(f"picture {wrap}", panel((x, 2.35, -2.09), (1.0, 0, 0), (0, 1.0, 0)), canvas)
        scene.show(f"frame {wrap}", block((x - 0.07, 2.28, -2.2), (x + 1.07, 3.42, -2.1)), frame)
    # A globe: continents and their soft shading (occlusion) by the first set of coordinates, a grid that glows by the second.
    shore = [(0.12, 0.30, 0.52), (0.42, 0.58, 0.62), (0.72, 0.66, 0.40), (0.40, 0.50, 0.24)]
    land = noise(64, 4, 17, 4)
    sea = png_of_few(np.digitize(land, (0.50, 0.56, 0.64)), [*shore])
    lines = np.where((u * 4 % 1 < 0.10) | (v * 4 % 1 < 0.10), 0, 1)
    grid = png_of_few(lines, [(1.0, 0.86, 0.45), (0.0, 0.0, 0.0)])
    ball = globe(16, 32)
    ball = replace(ball, texcoords=(ball.texcoords[0], np.round(ball.texcoords[0] * (3, 1.5), 9)))
    earth = scene.material(
        "globe",
        roughness=0.3,
        textures={"baseColorTexture": {"index": scene.texture(sea, ("repeat", "clamp"))}},
        emissiveFactor=[0.5, 0.5, 0.5],
        emissiveTexture={"index": scene.texture(grid), "texCoord": 1},
        occlusionTexture={"index": scene.texture(png(as_bytes(0.6 + 0.4 * land)), ("repeat", "clamp"))},
    )
    stand(scene, "globe", ball, earth, (-1.75, 0.86, 0.6), 0.7, 0.86)
    # Colours of vertices alone.
    tied = knot(2, 3, 0.24, 84, 12)
    hue = np.arctan2(tied.points[:, 1], tied.points[:, 0])
    rainbow = np.clip(0.5 + 0.55 * np.cos(hue[:, None] - np.array([0.0, 2.1, 4.2])), 0.02, 1) ** 2
    stand(scene, "knot", replace(tied, colours=rainbow), scene.material("vertex colours", roughness=0.25), (0.55, 0.98, -0.3), 0.4, 0.98)
    # A lattice with holes (mask), and panes that let light through by their alpha (blend).
    lattice = np.where(((u + v) * 4 % 1 < 0.3) | ((u - v) * 4 % 1 < 0.3), 1, 0)
    holes = scene.texture(png_of_few(lattice, [(0.2, 0.14, 0.1, 0.0), (0.62, 0.43, 0.26, 1.0)]))
    slats = {"baseColorTexture": moved(holes, scale=[3.0, 3.0])}
    fence = scene.material("lattice", roughness=0.7, textures=slats, alphaMode="MASK", doubleSided=True)
    scene.show("lattice", panel((1.55, 0.0, 0.9), (1.15, 0, 0.35), (0, 1.9, 0)), fence)
    hues: list[Rgb] = [(0.85, 0.12, 0.10), (0.95, 0.70, 0.12), (0.10, 0.45, 0.75), (0.15, 0.60, 0.30)]
    for k, (red, green, blue) in enumerate(hues):
        pane = scene.material(f"pane {k}", (red, green, blue, 0.6), 0.0, 0.1, alphaMode="BLEND", doubleSided=True)
        x, y = 1.15 + 0.92 * (k % 2), 2.05 + 0.92 * (k // 2)
        scene.show(f"pane {k}", quad((x, y, -1.4), (0.86, 0, 0), (0, 0.86, 0)), pane)
    scene.camera((0.0, 2.3, 8.6), (-0.05, 1.75, -0.6), 29.0)
    return scene


def variants() -> Document:
    """One vase, four materials (KHR_materials_variants), and a dust cover that is there and hidden (KHR_node_visibility)."""
    scene = document()
    studio(scene, (0.50, 0.49, 0.47))
    rig(scene)
    scene.surrounded((0.10, 0.10, 0.11))
    scene.variants += ["porcelain", "bronze", "glass", "lacquer"]
    u, v = places(96)
    lozenge = np.abs((u * 2) % 1 - 0.5) + np.abs((v * 3) % 1 - 0.5)
    ink = np.where(np.abs(lozenge - 0.5) < 0.035, 2, np.where(lozenge < 0.3, 1 + (np.abs(lozenge - 0.22) < 0.04), 0))
    scallop = (v - 0.10) * 5 - 0.45 * np.abs(np.sin(u * 6 * math.pi))
    ink = np.where((v < 0.17) | (v > 0.88), 0, ink)
    ink = np.where((scallop > -0.12) & (scallop < 0.02) | (np.abs(v - 0.19) < 0.012) | (np.abs(v - 0.87) < 0.012), 2, ink)
    ink = np.where(np.abs(v - 0.91) < 0.02, 1, ink)
    glaze = scene.texture(png_of_few(ink, [(0.94, 0.94, 0.93), (0.42, 0.52, 0.78), (0.09, 0.17, 0.50)]))
    picture = {"baseColorTexture": moved(glaze, scale=[4.0, 1.0])}
    coat: Json = {"clearcoat": {"clearcoatFactor": 1.0, "clearcoatRoughnessFactor": 0.02}}
    clear: Json = {
        "transmission": {"transmissionFactor": 1.0},
        "ior": {"ior": 1.5},
        "volume": {"thicknessFactor": 0.1, "attenuationDistance": 0.28, "attenuationColor": [0.30, 0.72, 0.75]},
    }
    kinds = {
        0: scene.material("porcelain", roughness=0.35, textures=picture, extensions=coat),
        1: scene.material("bronze", (0.72, 0.43, 0.18), 1.0, 0.26),
        2: scene.material("glass", roughness=0.0, extensions=clear),
        3: scene.material("lacquer", (0.50, 0.012, 0.012), 0.0, 0.5, extensions=coat),
    }
    outside = [(0.0, 0.0), (0.42, 0.0), (0.5, 0.12), (0.86, 0.95), (0.78, 1.5), (0.36, 1.98), (0.30, 2.25), (0.46, 2.55)]
    inside = [(max(r - 0.09, 0.0), max(y, 0.14)) for r, y in reversed(outside)]
    vase = turned([*outside, (0.415, 2.6), *inside], 44, 40)
    stand(scene, "vase", vase, kinds[0], (0.0, 0.253, 0.0), 0.5, 1.0, variants=kinds)
    plinth = scene.material("plinth", (0.12, 0.12, 0.13), 0.0, 0.4)
    scene.show("plinth", block((-0.85, 0.0, -0.85), (0.85, 0.25, 0.85)).turned(1, 0.35), plinth)
    cover = scene.mesh("dust cover", (sphere(2), scene.matt("dust cover", (0.8, 0.8, 0.8))), storage="quantized")
    scene.place("dust cover", cover, (0.0, 1.3, 0.0), 0.0, 1.5, extensions={"KHR_node_visibility": {"visible": False}})
    scene.camera((0.0, 2.4, 7.4), (0.0, 1.32, 0.0), 27.0)
    return scene


STORAGE = ("plain", "quantized", "meshopt", "meshopt of Khronos", "draco")


def storage() -> Document:
    """Five ways to store one shape, and the older way to say what it is made of (specular and glossiness)."""
    scene = document()
    studio(scene, (0.40, 0.41, 0.43))
    rig(scene)
    scene.surrounded((0.14, 0.14, 0.15))
    speckle = noise(64, 16, 40, 3)
    glaze = [(0.16, 0.30, 0.34), (0.24, 0.45, 0.48), (0.36, 0.58, 0.58), (0.55, 0.70, 0.64), (0.86, 0.74, 0.38)]
    stone, gold = png_of_few(np.digitize(speckle, (0.38, 0.46, 0.54, 0.62)), glaze), (speckle > 0.62)[..., None]
    shine = np.concatenate([0.25 + gold * np.array([0.5, 0.36, 0.1]), 0.55 + 0.4 * (speckle > 0.5)[..., None]], -1)
    older: Json = {
        "diffuseTexture": moved(scene.texture(stone), scale=[3.0, 2.0]),
        "specularGlossinessTexture": moved(scene.texture(png(as_bytes(shine))), scale=[3.0, 2.0]),
    }
    material = scene.material("specular and glossiness", extensions={"pbrSpecularGlossiness": older})

    def place(u: Floats, v: Floats) -> Floats:
        turn, rise = 2 * math.pi * u, math.pi * (v - 0.5)
        out = np.cos(rise) * (1 + 0.16 * np.cos(7 * turn + 2.2 * v * math.pi))
        return np.stack([out * np.sin(turn), 1.0 * np.sin(rise), out * np.cos(turn)], -1) / 1.17

    gourd = surface(place, 16, 42)
    plinth = scene.material("plinth", (0.20, 0.20, 0.21), 0.0, 0.5)
    column = scene.mesh("plinth", (block((-0.42, 0, -0.42), (0.42, 0.5, 0.42)), plinth))
    for k, way in enumerate(STORAGE):
        x, z = 1.32 * (k - 2), -0.35 * abs(k - 2)
        scene.place(f"plinth {k}", column, (x, 0, z))
        mesh = scene.mesh(way, (gourd, material), storage=way)
        scene.place(way, mesh, (x, 0.995, z), 0.2, 0.58)
    scene.camera((0.0, 2.1, 9.4), (0.0, 0.92, 0.0), 27.0)
    return scene
