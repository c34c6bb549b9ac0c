"""Scenes of light and of what looks at it: punctual lights, sky, lenses, lamps of glass, and a crowd of ten thousand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from features_studio import document, lamp, sphere, stand, studio
from gltf_document import Document, Json, Rgb, moved
from patterns import bricks, normals_of, places, png, png_of_few
from shapes import Floats, Shape, block, joined, knot, lathe, panel, quad, surface, tube, turned, urchin


def stage() -> Document:
    """Punctual lights: three spots whose colours add up to white, a point light behind, and a directional one that edges everything."""
    scene = document()
    boards = scene.material("boards", (0.50, 0.48, 0.46), 0.0, 0.55)
    scene.show("floor", quad((-9, 0, 7), (18, 0, 0), (0, 0, -14)), boards)
    scene.show("backdrop", quad((-9, 0, -3.6), (18, 0, 0), (0, 9, 0)), scene.matt("backdrop", (0.72, 0.72, 0.72)))
    plaster = scene.material("plaster", (0.80, 0.79, 0.77), 0.0, 0.6)
    column = lathe([(0.62, 0.0), (0.62, 0.14), (0.5, 0.2), (0.46, 1.0), (0.54, 1.06), (0.54, 1.16)], 40)
    for k, x in enumerate((-2.3, 0.0, 2.3)):
        cap = quad((x - 0.38, 1.161, 0.38), (0.76, 0, 0), (0, 0, -0.76))
        scene.show(f"cap {k}", cap, plaster)
        if k == 0:
            mesh = scene.mesh("column", (column, plaster))
        scene.place(f"column {k}", mesh, (x, 0, 0))
    stand(scene, "trefoil", knot(2, 3, 0.24, 90, 12), plaster, (0.0, 1.98, 0.0), 0.35, 0.82)
    stand(scene, "urchin", urchin(50, 0.17, 4), plaster, (-2.3, 1.78, 0.0), 0.0, 0.62)
    stand(scene, "vase", turned([(0.0, 0.0), (0.3, 0.0), (0.56, 0.4), (0.28, 0.9), (0.4, 1.15)], 20, 32), plaster, (2.3, 1.17, 0), 0.0, 1.1)
    for name, x, colour in (("red", -3.4, (1.0, 0.06, 0.04)), ("green", 0.0, (0.05, 1.0, 0.08)), ("blue", 3.4, (0.06, 0.12, 1.0))):
        scene.light("spot", name, (x, 6.2, 5.2), (0.0, 1.4, 0.0), colour, 120.0, inner=13.0, outer=20.0)
    scene.light("point", "amber", (0.0, 0.45, -1.9), (0, 0, 0), (1.0, 0.55, 0.18), 3.0)
    scene.light("directional", "moon", (-6.0, 5.0, -1.5), (0, 1.0, 0), (0.6, 0.75, 1.0), 0.35)
    scene.camera((0.0, 2.3, 8.8), (0.0, 1.75, -0.6), 30.0)
    return scene


def terrace() -> Document:
    """Out of doors: a round temple by a pool. The file has no light of its own; what surrounds it is the picture's choice."""
    scene = document()
    stone, pale = scene.material("stone", (0.66, 0.61, 0.53), 0.0, 0.7), scene.material("marble", (0.82, 0.80, 0.76), 0.0, 0.35)
    tiles: tuple[list[Shape], list[Shape]] = ([], [])
    for i in range(-7, 7):
        for k in range(-6, 6):
            if not (-3 <= i < 3 and 2 <= k < 5):
                tiles[(i + k) % 2].append(quad((i, 0, k + 1.0), (1, 0, 0), (0, 0, -1)))
    dark = scene.material("dark tile", (0.42, 0.37, 0.32), 0.0, 0.5)
    scene.place("paving", scene.mesh("paving", (joined(tiles[0]), stone), (joined(tiles[1]), dark)))
    sides = [quad((-3, -0.8, 2), (6, 0, 0), (0, 0.8, 0)), quad((3, -0.8, 5), (-6, 0, 0), (0, 0.8, 0))]
    sides += [quad((-3, -0.8, 5), (0, 0, -3), (0, 0.8, 0)), quad((3, -0.8, 2), (0, 0, 3), (0, 0.8, 0))]
    basin = scene.material("basin", (0.30, 0.55, 0.56), 0.0, 0.6)
    scene.show("basin", joined([*sides, quad((-3, -0.8, 5), (6, 0, 0), (0, 0, -3))]), basin)

    def waves(u: Floats, v: Floats) -> Floats:
        x, z = 6 * u - 3, 5 - 3 * v
        ripple = np.sin(7.1 * x + 3.3 * z) + np.sin(4.7 * x - 8.9 * z) + np.sin(11.0 * z + 1.7 * x)
        return np.stack([x, -0.14 + 0.006 * ripple, z], -1)

    water = scene.material("water", (0.012, 0.085, 0.105), 0.0, 0.04, extensions={"ior": {"ior": 1.33}})
    scene.show("water", surface(waves, 16, 32), water)
    for k in range(3):
        step = lathe([(3.0 - 0.3 * k, 0.14 * k), (3.0 - 0.3 * k, 0.14 * (k + 1)), (0.0005, 0.14 * (k + 1))], 48)
        scene.place(f"step {k}", scene.mesh(f"step {k}", (step, pale)), (0, 0, -2.6))
    shaft = lathe([(0.2, 0.0), (0.2, 0.08), (0.15, 0.12), (0.145, 1.0), (0.12, 1.9), (0.19, 2.0), (0.19, 2.08)], 20)
    column = scene.mesh("column", (shaft, pale))
    for k in range(10):
        turn = 2 * math.pi * (k + 0.5) / 10
        scene.place(f"column {k}", column, (2.0 * math.sin(turn), 0.42, -2.6 + 2.0 * math.cos(turn)))
    ring = lathe([(1.75, 2.5), (2.3, 2.5), (2.3, 2.62), (2.36, 2.66), (2.36, 2.8), (2.1, 2.8)], 64)
    scene.place("entablature", scene.mesh("entablature", (ring, pale)), (0, 0, -2.6))
    copper = scene.material("green copper", (0.22, 0.50, 0.42), 0.0, 0.6)
    dome = lathe([(2.1 * math.cos(a), 2.8 + 1.5 * math.sin(a)) for a in np.linspace(0, math.pi / 2 - 0.02, 12)], 48)
    scene.place("dome", scene.mesh("dome", (dome, copper)), (0, 0, -2.6))
    gold = scene.material("gilding", (1.0, 0.72, 0.28), 1.0, 0.3)
    ball = sphere(3)
    stand(scene, "finial", ball, gold, (0.0, 4.5, -2.6), 0.0, 0.26)
    stand(scene, "orb", ball, gold, (0.0, 1.25, -2.6), 0.0, 0.62)
    stand(scene, "mirror ball", ball, scene.material("mirror", (0.93, 0.94, 0.95), 1.0, 0.08), (3.7, 0.62, 0.4), 0.0, 0.62)
    green = scene.material("cypress", (0.045, 0.115, 0.040), 0.0, 0.9)
    random = np.random.default_rng(8)
    crown = [(0.12, 0.0), (0.12, 0.3), (0.5, 0.5), (0.56, 1.1), (0.42, 2.2), (0.2, 3.2), (0.001, 3.9)]
    tree = scene.mesh("cypress", (lathe(crown, 16), green))
    trees = [(-6.2, -1.5), (-5.2, -4.6), (-3.6, -6.4), (3.6, -6.4), (5.2, -4.6), (6.3, -1.8), (-7.6, -5.2), (7.6, -5.0)]
    for k, (x, z) in enumerate(trees):
        scene.place(f"cypress {k}", tree, (x, 0, z), random.uniform(0, 6), float(round(random.uniform(0.8, 1.25), 3)))
    scene.show("meadow", quad((-150, -0.82, 150), (300, 0, 0), (0, 0, -300)), scene.matt("meadow", (0.20, 0.26, 0.09)))
    scene.camera((3.4, 1.9, 9.6), (0.15, 1.55, -1.2), 36.0)
    return scene


def dusk() -> Floats:
    """A picture of surroundings for `terrace`: a red evening with a low sun. Linear radiance [64, 128, 3], top row first."""
    height, width = 64, 128
    rise = math.pi / 2 - (np.arange(height) + 0.5)[:, None] * math.pi / height
    turn = ((np.arange(width) + 0.5)[None, :] / width - 0.5) * 2 * math.pi
    direction = np.stack(np.broadcast_arrays(np.cos(rise) * np.cos(turn), np.sin(rise), np.cos(rise) * np.sin(turn)), -1)
    sun = np.array([-0.86, 0.20, -0.12])
    towards = direction @ (sun / np.linalg.norm(sun))
    high = np.clip(direction[..., 1], 0, 1)[..., None]
    sky = np.array([0.10, 0.20, 0.46]) * (1 - np.exp(-3.0 * high)) + np.array([0.95, 0.42, 0.20]) * np.exp(-7.0 * high)
    glow = np.exp((towards[..., None] - 1) * np.array([5.0, 7.0, 11.0])) * np.array([2.2, 1.0, 0.35])
    disc = np.where(towards[..., None] > math.cos(math.radians(4.5)), np.array([170.0, 90.0, 36.0]), 0.0)
    ground = np.array([0.10, 0.085, 0.075]) * np.exp(4 * np.minimum(direction[..., 1:2], 0))
    return np.where(direction[..., 1:2] > 0, sky * 0.55 + glow + disc, ground)


PAWN = [(0.0, 0.0), (0.42, 0.0), (0.44, 0.1), (0.36, 0.18), (0.2, 0.34), (0.15, 0.62), (0.2, 0.78), (0.3, 0.82), (0.17, 0.86)]
HEAD = [(0.17, 0.86), (0.27, 1.0), (0.25, 1.16), (0.14, 1.28), (0.0, 1.31)]


def lens() -> Document:
    """A lens with an opening: chessmen on a board, one of them sharp; a second camera looks at the same without perspective."""
    scene = document()
    boxwood, ebony = scene.material("boxwood", (0.72, 0.50, 0.26), 0.0, 0.28), scene.material("ebony", (0.05, 0.035, 0.03), 0.0, 0.2)
    light, dark = scene.material("maple", (0.70, 0.58, 0.40), 0.0, 0.3), scene.material("walnut", (0.16, 0.075, 0.035), 0.0, 0.3)
    squares: tuple[list[Shape], list[Shape]] = ([], [])
    for i in range(8):
        for k in range(8):
            squares[(i + k) % 2].append(quad((i - 4, 0, 4.0 - k), (1, 0, 0), (0, 0, -1)))
    scene.place("board", scene.mesh("board", (joined(squares[0]), dark), (joined(squares[1]), light)))
    scene.show("frame", block((-4.4, -0.3, -4.4), (4.4, -0.004, 4.4)), dark)
    scene.show("table", quad((-40, -0.302, 30), (80, 0, 0), (0, 0, -60)), scene.matt("table", (0.10, 0.09, 0.085)))
    man = turned([*PAWN, *HEAD[1:]], 34, 28)
    king = turned([(r * 1.15, y * 1.5) for r, y in [*PAWN, (0.2, 1.0), (0.32, 1.28), (0.26, 1.3), (0.0, 1.42)]], 34, 28)
    for colour, material, rows, side in (("white", boxwood, (3.5, 2.5), 1), ("black", ebony, (-3.5, -2.5), -1)):
        reach = float(np.abs(man.points).max())
        pawn = scene.mesh(f"{colour} pawn", (man.scaled(1 / reach), material), storage="quantized")
        for k in range(8):
            forward = 2.0 * side if (k == 4 or (k == 3 and side < 0)) else 0.0
            scene.place(f"{colour} pawn {k}", pawn, (k - 3.5, 0, rows[1] - forward), 0.0, 0.82 * reach)
        tall = float(np.abs(king.points).max())
        piece = scene.mesh(f"{colour} piece", (king.scaled(1 / tall), material), storage="quantized")
        for k in range(8):
            size = (0.7, 0.78, 0.85, 0.98, 1.05, 0.85, 0.78, 0.7)[k]
            scene.place(f"{colour} piece {k}", piece, (k - 3.5, 0, rows[0]), 0.0, size * tall)
    random = np.random.default_rng(4)
    ball = sphere(1)
    hues = [(1.0, 0.55, 0.2), (1.0, 0.3, 0.12), (0.3, 0.6, 1.0), (1.0, 0.8, 0.5)]
    bulbs = [
        scene.mesh(f"bulb {k}", (ball, scene.matt(f"bulb {k}", (0.8, 0.8, 0.8), (36.0 * r, 36.0 * g, 36.0 * b))))
        for k, (r, g, b) in enumerate(hues)
    ]
    for k in range(36):
        place = (random.uniform(-17, -12), random.uniform(0.4, 5.5), random.uniform(-9, 8))
        scene.place(f"bulb {k}", bulbs[k % 4], place, 0.0, 0.13)
    lamp(scene, "key", (-5, 7, 5), (0, 0, 0), (4, 4), (8.0, 7.4, 6.6))
    lamp(scene, "fill", (10, 6, 8), (0, 0, 0), (5, 4), (3.6, 4.3, 5.5))
    scene.surrounded((0.05, 0.055, 0.07))
    eye, sharp = np.array([6.9, 1.9, 1.25]), np.array([0.5, 0.7, 0.5])
    scene.camera(tuple(eye), (0.0, 0.82, -0.05), 30.0, "lens", lens=(0.11, float(np.linalg.norm(sharp - eye))))
    scene.camera((7.0, 6.2, 7.0), (0.0, 0.35, 0.0), 0.0, "orthographic", height=9.0)
    return scene


def dahlia() -> Document:
    """Ten thousand petals: five nodes, each of which places one mesh two thousand times (EXT_mesh_gpu_instancing)."""
    scene = document()
    studio(scene, (0.10, 0.13, 0.12), 26.0, 14.0, -9.0, 16.0)
    lamp(scene, "key", (-7, 11, 6), (0, 1, 0), (5, 5), (17.0, 15.8, 14.0))
    lamp(scene, "fill", (9, 6, 5), (0, 1, 0), (4, 5), (4.5, 5.6, 7.5))
    scene.surrounded((0.13, 0.14, 0.16))

    def place(u: Floats, v: Floats) -> Floats:
        side, half = 1 - 2 * u, 0.32 * np.sin(math.pi * np.clip(v, 0, 1) ** 0.75) ** 0.8
        return np.stack([half * side, 0.35 * v * v + 0.9 * half * side * side, v], -1)

    petal = surface(place, 5, 4)
    part = petal.points[:, 2:] ** 2
    colours = np.array([0.45, 0.004, 0.06]) * (1 - part) + np.array([1.0, 0.50, 0.26]) * part
    petal = replace(petal, colours=colours, texcoords=())
    satin = scene.material("petal", (1.0, 1.0, 1.0), 0.0, 0.55, doubleSided=True)
    mesh = scene.mesh("petal", (petal, satin), storage="quantized")
    sectors, count = 5, 2000
    rank = (np.arange(count) + 0.5) / count
    turn, out = np.arange(count) * math.pi * (3 - math.sqrt(5)) / sectors, np.sqrt(rank)
    rise = 1.5 - 1.6 * out  # how far a petal stands up: in the middle they are closed, the last ones hang
    where = np.stack([3.6 * out * np.sin(turn), 0.9 + 2.2 * np.sqrt(np.clip(1 - out**2.4, 0, 1)), 3.6 * out * np.cos(turn)], 1)
    sy, cy, sx, cx = np.sin(turn / 2), np.cos(turn / 2), np.sin(-rise / 2), np.cos(-rise / 2)
    stands = np.stack([cy * sx, sy * cx, -sy * sx, cy * cx], 1)
    crowd = scene.crowd(translation=where, rotation=stands, scale=np.repeat((0.22 + 0.95 * out)[:, None], 3, 1))
    for k in range(sectors):
        scene.place(f"petals {k}", mesh, (0, 0, 0), 2 * math.pi * k / sectors, extensions=crowd)
    green = scene.material("leaf", (0.06, 0.16, 0.04), 0.0, 0.6, doubleSided=True)
    blade = scene.mesh("leaf", (surface(place, 10, 6), green), storage="quantized")
    for k in range(9):
        scene.place(f"leaf {k}", blade, (0, 0.25, 0), 2 * math.pi * (k + 0.35) / 9, (5.6, 1.2, 5.8))
    scene.camera((0.0, 8.2, 12.4), (0.0, 1.35, 0.35), 33.0)
    return scene


def neon() -> Document:
    """Tubes of light (emissive strength), forty small lamps, and a poster that no light falls on (unlit)."""
    scene = document()
    height, number = bricks(64, 8, 0.1)
    tones = np.random.default_rng(2).integers(0, 3, 64)[number]
    clay = [(0.42, 0.34, 0.33), (0.37, 0.30, 0.30), (0.47, 0.38, 0.36), (0.22, 0.21, 0.21)]
    wall = png_of_few(np.where(height > 0.5, tones, 3), clay)
    textures = {"baseColorTexture": moved(scene.texture(wall), scale=[8.0, 6.0])}
    bumps = {"normalTexture": moved(scene.texture(png(normals_of(height, 2.2))), scale=[8.0, 6.0])}
    brick = scene.material("bricks", roughness=0.7, textures=textures, **bumps)
    scene.show("wall", panel((-8, 0, -2), (16, 0, 0), (0, 9, 0)), brick)
    scene.show("street", quad((-8, 0, 8), (16, 0, 0), (0, 0, -10)), scene.material("wet street", (0.06, 0.06, 0.07), 0.0, 0.14))

    def glow(name: str, colour: Rgb, strength: float) -> int:
        power: Json = {"emissive_strength": {"emissiveStrength": strength}}
        return scene.material(name, (0.0, 0.0, 0.0), 0.0, 1.0, extensions=power, emissiveFactor=list(colour))

    scene.surrounded((0.035, 0.035, 0.05))
    lamp(scene, "shop", (0, 5.0, 9.0), (0, 0.8, 0), (6.0, 1.5), (1.1, 1.2, 1.5))
    t = np.linspace(0, 1, 40)
    arc = np.linspace(0, 2 * math.pi, 48, endpoint=False)
    lobes = 13 * np.cos(arc) - 5 * np.cos(2 * arc) - 2 * np.cos(3 * arc) - np.cos(4 * arc)
    heart = np.stack([16 * np.sin(arc) ** 3, lobes, 0 * arc], 1) / 17
    moon = np.stack([np.sin(arc), np.cos(arc), 0 * arc], 1)
    bolt = np.array([(0.25, 1.0, 0), (-0.35, -0.05, 0), (0.08, -0.05, 0), (-0.22, -1.0, 0), (0.42, 0.16, 0), (0.0, 0.16, 0)])
    bolt = np.concatenate([a + (b - a) * np.arange(8)[:, None] / 8 for a, b in zip(bolt, np.roll(bolt, -1, 0))])
    wave = np.stack([4.6 * t - 2.3, 0.16 * np.sin(t * 8 * math.pi), 0 * t], 1)
    signs: list[tuple[str, Floats, bool, Rgb, float, tuple[float, float], float]] = [
        ("heart", heart, True, (1.0, 0.05, 0.16), 16.0, (-1.9, 2.75), 0.85),
        ("moon", moon, True, (0.25, 0.55, 1.0), 13.0, (0.15, 3.25), 0.72),
        ("bolt", bolt, True, (1.0, 0.62, 0.06), 14.0, (2.05, 2.7), 1.05),
        ("wave", wave, False, (0.05, 1.0, 0.62), 9.0, (0.42, 1.2), 1.0),
    ]
    for name, line, closed, colour, strength, (x, y), size in signs:
        shape = tube(line * size, 0.05, 8, closed)
        stand(scene, name, shape, glow(name, colour, strength), (x, y, -1.78))
    bulb = scene.mesh("bulb", (sphere(1), glow("bulb", (1.0, 0.72, 0.38), 40.0)))
    for k in range(40):
        x = -3.4 + 6.8 * k / 39
        scene.place(f"bulb {k}", bulb, (x, 4.25 - 0.32 * (1 - (k % 10 / 4.5 - 1) ** 2), -1.6), 0.0, 0.045)
    u, v = places(48)
    stripes = np.where((u + v) * 6 % 1 < 0.5, 0, 1)
    stripes[np.hypot(u - 0.5, v - 0.42) < 0.26] = 2
    stripes[(v > 0.78) & (v < 0.9) & (np.abs(u - 0.5) < 0.36)] = 3
    inks = [(0.95, 0.80, 0.30), (0.92, 0.74, 0.22), (0.80, 0.14, 0.12), (0.10, 0.10, 0.14)]
    sheet = scene.texture(png_of_few(stripes, inks), nearest=True)
    paper = scene.material("poster", textures={"baseColorTexture": {"index": sheet}}, extensions={"unlit": {}})
    scene.show("poster", panel((-3.2, 0.5, -1.95), (1.05, 0, 0), (0, 1.4, 0)), paper)
    chrome, wood = scene.material("chrome", (0.9, 0.9, 0.92), 1.0, 0.06), scene.material("crate", (0.4, 0.38, 0.36), 0.0, 0.6)
    stand(scene, "ball", sphere(3), chrome, (1.6, 0.5, 0.9), 0.0, 0.5)
    stand(scene, "crate", block((-1, -1, -1), (1, 1, 1)), wood, (-1.4, 0.42, 0.5), 0.5, 0.42)
    scene.camera((0.0, 2.1, 8.4), (0.0, 2.05, -1.0), 30.0)
    return scene
