"""Scenes of what surfaces are made of: one for each family of glTF's material extensions.

Each is a still life in a studio: a floor that bends up into the wall behind, lamps that are large and out of sight, so that what is to
be seen is the material and not the light. Lengths are metres, though nothing here is as large as it says.
"""

from __future__ import annotations

import math

import numpy as np
from features_studio import document, lamp, rig, sphere, stand, studio
from gltf_document import Document, Json, Rgb, moved
from patterns import as_bytes, noise, normals_of, places, png, png_of_few, srgb, weave
from shapes import Floats, Shape, block, cut_gem, globe, hull_of, joined, knot, panel, quad, surface, turned


def metals() -> Document:
    """Five rows of seven spheres: roughness of a metal and of plastic, from plastic to metal, index of refraction, colour of the gloss."""
    scene = document()
    studio(scene, (0.42, 0.42, 0.44))
    rig(scene)
    scene.surrounded((0.22, 0.22, 0.24))
    ball, stair = sphere(), scene.matt("stair", (0.30, 0.30, 0.32))
    gold, red, sea = (1.0, 0.74, 0.30), (0.66, 0.04, 0.05), (0.10, 0.44, 0.52)
    hues = [(1, 0.15, 0.1), (1, 0.5, 0.05), (0.9, 0.9, 0.1), (0.15, 0.9, 0.2), (0.1, 0.6, 1), (0.25, 0.2, 1), (0.9, 0.15, 0.8)]
    for row in range(5):
        z, y = 1.6 - 1.05 * row, 0.62 * row
        if row:
            scene.show(f"step {row}", block((-4.3, 0, z - 0.525), (4.3, y, z + 0.525)), stair)
        for column in range(7):
            part = column / 6
            gloss: Json = {"specularColorFactor": list(hues[column]), "specularFactor": 1.0}
            told = (
                ("gold", gold, 1.0, part, {}),
                ("plastic", red, 0.0, part, {}),
                ("towards metal", sea, part, 0.22, {}),
                ("ior", (0.02, 0.02, 0.025), 0.0, 0.08, {"ior": {"ior": round(1.0 + 1.4 * part, 3)}}),
                ("gloss", (0.03, 0.03, 0.03), 0.0, 0.25, {"specular": gloss, "ior": {"ior": 2.2}}),
            )[row]
            name, colour, metallic, roughness, extensions = told
            material = scene.material(f"{name} {column}", colour, round(metallic, 3), roughness, extensions=extensions)
            mesh = scene.mesh(f"{name} {column}", (ball, material), storage="quantized")
            scene.place(f"{name} {column}", mesh, (1.18 * (column - 3), y + 0.46, z), 0.0, 0.46)
    scene.camera((0.0, 5.6, 9.6), (0.0, 1.25, -0.6), 36.0)
    return scene


def lacquer() -> Document:
    """Varnish over paint and wood (clear coat), and metal that was brushed (anisotropy)."""
    scene = document()
    studio(scene, (0.16, 0.165, 0.18))
    lamp(scene, "key", (-4.5, 5.0, 4.0), (0, 0.8, 0), (1.2, 4.5), (20.0, 18.5, 16.0))
    lamp(scene, "fill", (5.5, 3.5, 3.0), (0, 0.8, 0), (0.8, 4.5), (9.0, 11.0, 15.0))
    lamp(scene, "top", (0, 6.5, -0.5), (0, 0, -0.5), (6.0, 1.0), (11.0, 11.0, 11.0))
    # Brushed: a disc on its edge, turned on a lathe, and a pot. Its u, and with it the tangent, goes round.
    disc = turned([(0.0, 0.0), (0.5, 0.02), (0.93, 0.05), (1.0, 0.02), (0.96, -0.02)], 14, 60).turned(0, math.pi / 2)
    steel = scene.material("brushed steel", (0.78, 0.78, 0.80), 1.0, 0.42, extensions={"anisotropy": {"anisotropyStrength": 0.92}})
    stand(scene, "disc", disc, steel, (-2.15, 1.22, -1.3), 0.42, 1.25)
    pot = turned([(0.0, 0.0), (0.62, 0.0), (0.86, 0.22), (0.92, 0.6), (0.74, 1.0), (0.66, 1.12), (0.72, 1.2)], 18, 44)
    along: Json = {"anisotropyStrength": 0.85, "anisotropyRotation": round(math.pi / 2, 6)}
    copper = scene.material("brushed copper", (0.95, 0.60, 0.45), 1.0, 0.38, extensions={"anisotropy": along}, doubleSided=True)
    stand(scene, "pot", pot, copper, (2.45, 0.0, -0.75), 0.0, 0.95)
    u, v = places(32)
    swirl, spread = np.arctan2(v - 0.5, u - 0.5) + math.pi / 4, np.clip(np.hypot(u - 0.5, v - 0.5) * 6, 0, 1)
    fan = np.stack([np.cos(swirl) * 0.5 + 0.5, np.sin(swirl) * 0.5 + 0.5, spread], -1)
    directed = {"anisotropyStrength": 1.0, "anisotropyTexture": moved(scene.texture(png(as_bytes(fan))))}
    tray = scene.material("engine-turned", (0.88, 0.84, 0.74), 1.0, 0.40, extensions={"anisotropy": directed})
    scene.show("tray", panel((-3.1, 0.012, 2.35), (6.2, 0, 0), (0, 0, -2.1), (9, 3)), tray)
    # Varnished: flakes under clear varnish, a coat with the skin of an orange, wood.
    paint = scene.material("car paint", (0.02, 0.09, 0.30), 0.75, 0.48, extensions={"clearcoat": {"clearcoatFactor": 1.0}})
    tied = knot(2, 3, 0.26, 96, 14)
    stand(scene, "knot", tied, paint, (0.15, 1.52, -0.9), 0.3, 1.5)
    skin = scene.texture(png(normals_of(noise(64, 16, 5, 2), 1.1)))
    peel: Json = {"clearcoatFactor": 1.0, "clearcoatRoughnessFactor": 0.04, "clearcoatNormalTexture": moved(skin, scale=[5.0, 2.5])}
    red = scene.material("orange peel", (0.55, 0.02, 0.02), 0.0, 0.55, extensions={"clearcoat": peel})
    stand(scene, "bead", globe(16, 32), red, (-1.05, 0.53, 1.25), 0.5, 0.52)
    grain = np.sin((noise(96, 3, 9, 3) * 9 + places(96)[0] * 14) * 2 * math.pi) * 0.5 + 0.5
    dark, bright = np.array([0.48, 0.30, 0.18]), np.array([0.68, 0.48, 0.31])  # through the sRGB curve, as a palette is
    palette = [tuple(bright + (dark - bright) * k / 7) for k in range(8)]
    board = scene.texture(png_of_few(np.floor(grain * 7 + 0.5).astype(int), palette))
    coat = {"clearcoat": {"clearcoatFactor": 1.0, "clearcoatRoughnessFactor": 0.02}}
    varnished = scene.material("varnished wood", textures={"baseColorTexture": {"index": board}}, roughness=0.6, extensions=coat)
    stand(scene, "apple", globe(16, 32), varnished, (1.3, 0.49, 1.3), 0.9, 0.48)
    scene.camera((0.0, 2.3, 8.6), (0.0, 1.15, -0.3), 31.0)
    return scene


def draped(folds: int, seed: int) -> Shape:
    """A cloth over a ball on a post: round above, with folds that deepen towards its hem. Its top is at height 1."""
    shift = np.random.default_rng(seed).uniform(0, 2 * math.pi, 3)

    def place(u: Floats, v: Floats) -> Floats:
        turn = 2 * math.pi * u
        length = 2.15 * np.clip(v, 0, None)  # from the top along the cloth
        bend = np.minimum(length / 0.42, math.pi * 0.5)
        hang = np.maximum(length - 0.42 * math.pi * 0.5, 0.0)
        radius = 0.42 * np.sin(bend) + 0.13 * hang
        wave = np.cos(folds * turn + shift[0]) + 0.45 * np.cos((folds - 3) * turn + shift[1]) + 0.3 * np.cos(2 * turn + shift[2])
        radius = radius * (1 + 0.22 * np.minimum(hang / 0.8, 1.0) ** 1.3 * wave)
        height = 1.0 - 0.42 * (1 - np.cos(bend)) - hang * 0.985
        return np.stack([radius * np.sin(turn), height, -radius * np.cos(turn)], -1)

    return surface(place, 30, 96)


def cloth() -> Document:
    """Velvet, felt and plain cloth: sheen is the light that fibres catch where one looks along the surface."""
    scene = document()
    studio(scene, (0.46, 0.44, 0.42))
    rig(scene, 0.7)
    for x in (-5.5, 5.5):
        lamp(scene, f"rim {x:g}", (x, 4.5, -2.6), (0, 1.0, 0), (1.6, 2.6), (13.0, 13.0, 13.0))
    height, over = weave(64, 8)
    bumps = moved(scene.texture(png(normals_of(height, 3.0))), scale=[14.0, 7.0])
    threads = {"normalTexture": {**bumps, "scale": 0.55}, "doubleSided": True}
    shades = png_of_few(over, [(1.0, 1.0, 1.0), (0.86, 0.86, 0.86)])
    colour = {"baseColorTexture": moved(scene.texture(shades), scale=[14.0, 7.0])}
    wine, teal, straw = (0.10, 0.004, 0.012), (0.006, 0.05, 0.075), (0.40, 0.23, 0.05)
    kinds: list[tuple[str, Rgb, Json]] = [
        ("plain", wine, {}),
        ("velvet", wine, {"sheen": {"sheenColorFactor": [1.0, 0.42, 0.50], "sheenRoughnessFactor": 0.3}}),
        ("felt", teal, {"sheen": {"sheenColorFactor": [0.30, 0.80, 0.85], "sheenRoughnessFactor": 0.7}}),
        ("silk", straw, {"sheen": {"sheenColorFactor": [1.0, 0.92, 0.75], "sheenRoughnessFactor": 0.18}}),
    ]
    shape = draped(9, 3)
    for k, (name, base, extensions) in enumerate(kinds):
        material = scene.material(name, base, 0.0, 0.85, colour, extensions, **threads)
        low, size = shape.points.min(0)[1], 1.42
        stand(scene, name, shape, material, (1.62 * (k - 1.5), -low * size + 0.004, -0.5 * (k % 2)), 0.9 * k, size)
    scene.camera((0.0, 3.1, 10.6), (0.0, 1.2, 0.0), 27.5)
    return scene


def vessel(outside: list[tuple[float, float]], wall: float, columns: int = 36) -> Shape:
    """A glass to drink from: up the outside, over the rim, down the inside, closed."""
    inside = [(max(r - wall, 0.0), max(y, wall * 2.2)) for r, y in reversed(outside)]
    rim = [(outside[-1][0] - wall / 2, outside[-1][1] + wall / 2)]
    return turned([*outside, *rim, *inside], 4 * len(outside) + 6, columns)


def glass() -> Document:
    """Clear and rough glass, water's index and diamond's, a bubble without a wall's thickness, and colours that deepen with the way."""
    scene = document()
    stripes: tuple[list[Shape], list[Shape]] = ([], [])
    for k in range(20):
        stripes[k % 2].append(quad((-8 + 0.8 * k, 0, -3.0), (0.8, 0, 0), (0, 6, 0)))
    light, dark = scene.matt("light stripe", (0.80, 0.80, 0.78)), scene.matt("dark stripe", (0.10, 0.13, 0.18))
    scene.place("wall", scene.mesh("wall", (joined(stripes[0]), light), (joined(stripes[1]), dark)))
    scene.show("table", quad((-8, 0, 6), (16, 0, 0), (0, 0, -9)), scene.matt("table", (0.62, 0.60, 0.57)))
    rig(scene, 0.8)
    scene.surrounded((0.16, 0.17, 0.19))

    def made(name: str, ior: float, roughness: float = 0.0, thickness: float = 1.0, **volume: object) -> int:
        extensions: Json = {"transmission": {"transmissionFactor": 1.0}, "ior": {"ior": ior}}
        if thickness:
            extensions["volume"] = {"thicknessFactor": thickness, **volume}
        return scene.material(name, roughness=roughness, extensions=extensions)

    ball = sphere(3)
    kinds = [
        ("bubble", made("thin wall", 1.5, thickness=0.0)),
        ("water", made("water", 1.33)),
        ("clear", made("clear glass", 1.52)),
        ("diamond", made("diamond", 2.4)),
        ("frosted", made("frosted glass", 1.5, 0.34)),
    ]
    for k, (name, material) in enumerate(kinds):
        stand(scene, name, ball, material, (0.98 * (k - 2), 0.45, 1.3), 0.0, 0.45)
    amber = made("amber", 1.5, 0.0, 1.0, attenuationDistance=0.45, attenuationColor=[0.95, 0.42, 0.05])
    bottle = made("bottle green", 1.5, 0.0, 1.0, attenuationDistance=0.22, attenuationColor=[0.10, 0.52, 0.22])
    cobalt = made("cobalt", 1.5, 0.0, 1.0, attenuationDistance=0.30, attenuationColor=[0.06, 0.16, 0.80])
    tied = knot(2, 3, 0.27, 84, 12)
    stand(scene, "amber knot", tied, amber, (0.1, 0.95, -1.0), 0.4, 0.92)
    jar = vessel([(0.0, 0.0), (0.55, 0.0), (0.66, 0.1), (0.68, 0.8), (0.42, 1.25), (0.26, 1.5), (0.25, 1.95), (0.34, 2.15)], 0.07)
    stand(scene, "bottle", jar, bottle, (-1.75, 0.003, -0.9), 0.0, 0.92)
    bowl = vessel([(0.0, 0.0), (0.35, 0.0), (0.42, 0.06), (0.85, 0.5), (1.0, 1.1)], 0.09)
    stand(scene, "bowl", bowl, cobalt, (1.85, 0.003, -0.9), 0.0, 0.95)
    scene.camera((0.0, 2.75, 9.2), (0.0, 0.84, 0.0), 27.0)
    return scene


def gems() -> Document:
    """Glass that bends blue more than red (dispersion): a prism that looks round the corner at slits of light, and cut stones."""
    scene = document()
    scene.show("table", quad((-9, 0, 7), (18, 0, 0), (0, 0, -14)), scene.material("table", (0.11, 0.11, 0.12), 0.0, 0.4))
    scene.show("wall", quad((-9, 0, -5.5), (18, 0, 0), (0, 8, 0)), scene.matt("wall", (0.10, 0.10, 0.12)))
    for k in range(6):
        turn = 2 * math.pi * (k + 0.5) / 6
        warm = (13.0, 11.5, 9.5) if k % 2 else (9.5, 11.2, 13.5)
        lamp(scene, f"box {k}", (3.6 * math.sin(turn), 5.0, 3.4 * math.cos(turn) + 0.6), (0, 0.4, 0.6), (1.5, 1.5), warm)
    scene.surrounded((0.10, 0.10, 0.115))

    def made(name: str, ior: float, dispersion: float, colour: Rgb = (1.0, 1.0, 1.0), distance: float = 1.0) -> int:
        volume: Json = {"thicknessFactor": 1.0}
        if min(colour) < 1.0:
            volume |= {"attenuationDistance": distance, "attenuationColor": list(colour)}
        extensions = {
            "transmission": {"transmissionFactor": 1.0},
            "ior": {"ior": ior},
            "volume": volume,
            "dispersion": {"dispersion": dispersion},
        }
        return scene.material(name, roughness=0.0, extensions=extensions)

    # An index of 1.62 bends light that goes through alike on both sides of a 60 degree wedge by 48 degrees, half at each face.
    half, side = math.radians(24.1), 1.5
    way, out = np.array([math.sin(half), math.cos(half)]), np.array([math.cos(half), -math.sin(half)])
    high = side * math.sqrt(3) / 2
    corners = [-out * high * 2 / 3, out * high / 3 - way * side / 2, out * high / 3 + way * side / 2]
    prism = hull_of([(float(x), float(y)) for x, y in corners], 1.9).turned(0, -math.pi / 2)
    scene.place("prism", scene.mesh("prism", (prism, made("flint", 1.62, 1.6))), (-0.1, 0.954, -1.6))
    bent = np.array([math.sin(2 * half), -math.cos(2 * half)])
    middle, along = np.array([-0.1, -1.6]) + 4.6 * bent, np.array([-bent[1], bent[0]])
    for k in range(5):
        x, z = middle + along * 0.95 * (k - 2)
        lamp(scene, f"slit {k}", (x, 1.0, z), (x - bent[0], 1.0, z - bent[1]), (0.34, 2.6), (4.0, 4.0, 4.0))
    stone = cut_gem()
    kinds = [
        ("diamond", made("diamond", 2.42, 0.9), (0.0, 1.5), 0.56, 0.2),
        ("sapphire", made("sapphire", 1.77, 0.6, (0.10, 0.25, 0.92), 0.5), (-1.3, 1.0), 0.5, 0.5),
        ("ruby", made("ruby", 1.77, 0.6, (0.90, 0.06, 0.10), 0.6), (1.3, 1.0), 0.5, 0.8),
        ("zircon", made("zircon", 1.95, 1.6), (-1.95, -0.6), 0.62, 1.1),
        ("citrine", made("citrine", 1.55, 0.8, (0.98, 0.66, 0.12), 0.5), (1.95, -0.6), 0.6, 1.4),
    ]
    tilt = math.atan2(0.85, 1.0)
    for name, material, (x, z), size, turn in kinds:
        lying = stone.turned(1, 0.4).turned(0, tilt)
        low = lying.points.min(0)[1] * size
        stand(scene, name, lying, material, (x, 0.004 - low, z), turn, size)
    scene.camera((0.0, 2.5, 8.0), (0.0, 0.86, -0.3), 28.0)
    return scene


def film() -> Document:
    """Colours of thin films: soap bubbles, whose skin thins towards the top, heat-tinted steel, a beetle's wing."""
    scene = document()
    studio(scene, (0.024, 0.026, 0.032))
    lamp(scene, "key", (-5.0, 5.0, 5.5), (0, 1.6, 0), (4.5, 4.5), (19.0, 18.5, 17.5))
    lamp(scene, "fill", (6.0, 4.5, 4.5), (0, 1.6, 0), (3.0, 5.0), (13.0, 14.0, 16.0))
    lamp(scene, "top", (0, 7.5, -1.0), (0, 0, -1.0), (7.0, 3.5), (11.0, 11.0, 11.0))
    scene.surrounded((0.7, 0.7, 0.75))
    _, v = places(64)
    swirl = np.clip(v + (noise(64, 4, 21, 3) - 0.5) * 0.45, 0, 1)
    skin = scene.texture(png(as_bytes(np.stack([np.ones_like(v), swirl, np.ones_like(v)], -1))), ("repeat", "clamp"))
    soap: Json = {
        "iridescenceFactor": 1.0,
        "iridescenceIor": 1.33,
        "iridescenceThicknessMinimum": 120.0,
        "iridescenceThicknessMaximum": 720.0,
        "iridescenceThicknessTexture": moved(skin),
    }
    pane = {"iridescence": soap, "transmission": {"transmissionFactor": 1.0}, "ior": {"ior": 1.33}}
    bubble = scene.mesh("bubble", (globe(18, 36), scene.material("soap", roughness=0.0, extensions=pane)), storage="quantized")
    floating = [(-1.85, 2.1, -0.6, 0.95), (-0.3, 3.2, -1.2, 0.62), (0.75, 2.3, -0.3, 0.5), (-2.75, 3.4, -1.6, 0.45)]
    floating.append((1.75, 3.3, -1.3, 0.55))
    for k, (x, y, z, size) in enumerate(floating):
        scene.place(f"bubble {k}", bubble, (x, y, z), 1.3 * k, size)
    ball = sphere(3)
    for k in range(9):
        thickness = 40.0 + 50.0 * k
        tint = {"iridescenceFactor": 1.0, "iridescenceIor": 2.0, "iridescenceThicknessMaximum": thickness}
        steel = scene.material(f"steel {thickness:g} nm", (0.62, 0.58, 0.55), 1.0, 0.16, extensions={"iridescence": tint})
        mesh = scene.mesh(f"steel {thickness:g} nm", (ball, steel), storage="quantized")
        scene.place(f"steel {thickness:g} nm", mesh, (0.55 * (k - 4), 0.25, 1.5), 0.0, 0.25)
    wing = {"iridescenceFactor": 1.0, "iridescenceIor": 1.9, "iridescenceThicknessMaximum": 430.0}
    shell = scene.material("beetle", (0.32, 0.34, 0.30), 1.0, 0.2, extensions={"iridescence": wing})
    stand(scene, "knot", knot(2, 5, 0.2, 120, 10), shell, (1.95, 1.2, -0.9), 0.5, 1.05)
    tint = {**soap, "iridescenceIor": 2.1, "iridescenceThicknessMinimum": 60.0, "iridescenceThicknessMaximum": 520.0}
    egg = turned([(0.0, 0.0), (0.5, 0.08), (0.78, 0.55), (0.66, 1.15), (0.34, 1.55), (0.0, 1.68)], 18, 36)
    titanium = scene.material("titanium", (0.55, 0.53, 0.50), 1.0, 0.14, extensions={"iridescence": tint})
    stand(scene, "egg", egg, titanium, (-0.15, 0.003, -0.5), 0.6, 0.82)
    scene.camera((0.0, 2.6, 9.0), (0.0, 1.75, -0.2), 29.0)
    return scene


def leaf(length: float, width: float, droop: float, rows: int = 12, columns: int = 6) -> Shape:
    """A leaf along +z from the origin: pointed, folded along its midrib, bending down; a picture of it within [0, 1]."""

    def place(u: Floats, v: Floats) -> Floats:
        side = u * 2 - 1
        half = width * np.sin(math.pi * np.clip(v, 0, 1)) ** 0.8 * (1 - 0.35 * v)
        fold = 0.22 * half * np.abs(side) ** 1.5
        bend = droop * v * v
        return np.stack([half * side, fold + length * (0.22 * v - 0.5 * bend), length * v * (1 - 0.12 * bend)], -1)

    return surface(place, rows, columns)


def lanterns() -> Document:
    """Paper and leaves: light that goes through and is spread (diffuse transmission)."""
    scene = document()
    scene.show("table", quad((-8, 0, 6), (16, 0, 0), (0, 0, -10)), scene.material("table", (0.20, 0.13, 0.09), 0.0, 0.5))
    scene.show("wall", quad((-8, 0, -3.2), (16, 0, 0), (0, 8, 0)), scene.matt("wall", (0.36, 0.38, 0.44)))
    lamp(scene, "dusk", (-5, 6, 4.5), (0, 1, 0), (3.5, 3.5), (1.6, 2.1, 3.0))
    lamp(scene, "window", (1.9, 2.55, -3.15), (1.9, 2.55, 0), (1.9, 2.3), (3.4, 4.0, 4.8))
    scene.surrounded((0.03, 0.036, 0.05))
    fibre = noise(96, 12, 31, 3)
    paper = moved(scene.texture(png(srgb(0.72 + 0.28 * fibre))), scale=[6.0, 3.0])

    def through(name: str, colour: Rgb, tint: Rgb, factor: float, textures: Json | None = None, **others: object) -> int:
        layer: Json = {"diffuseTransmissionFactor": factor, "diffuseTransmissionColorFactor": list(tint)}
        if textures:
            layer["diffuseTransmissionColorTexture"] = textures["baseColorTexture"]
        return scene.material(name, colour, 0.0, 0.9, textures, {"diffuse_transmission": layer}, doubleSided=True, **others)

    glow = scene.matt("flame", (0.8, 0.8, 0.8), (10.0, 6.6, 3.2))
    bulb = scene.mesh("flame", (sphere(2), glow))
    bases = {"baseColorTexture": paper}
    shades: list[tuple[str, list[tuple[float, float]], Rgb, tuple[float, float], float]] = [
        ("round", [(0.18, 0.02), (0.62, 0.2), (0.82, 0.72), (0.62, 1.25), (0.18, 1.42)], (0.93, 0.72, 0.45), (-1.95, -0.9), 1.1),
        ("tall", [(0.42, 0.02), (0.46, 0.5), (0.44, 1.2), (0.46, 1.9), (0.42, 2.3)], (0.94, 0.90, 0.80), (-0.35, -1.5), 1.1),
        ("small", [(0.14, 0.02), (0.46, 0.14), (0.54, 0.42), (0.4, 0.72), (0.14, 0.85)], (0.90, 0.30, 0.18), (-0.75, 0.8), 0.95),
    ]
    for name, profile, tint, (x, z), size in shades:
        skin = through(f"paper {name}", (0.86, 0.84, 0.80), tint, 0.62, bases)
        ribbed = turned(profile, 22, 40)
        stand(scene, f"shade {name}", ribbed, skin, (x, 0, z), 0.3, size)
        middle = (profile[0][1] + profile[-1][1]) / 2 * size
        scene.place(f"flame {name}", bulb, (x, middle, z), 0.0, 0.24 * size)
    # A plant before the window: the leaves that have the light behind them are the bright ones.
    u, v = places(64)
    rib = np.exp(-(((u - 0.5) * 38) ** 2)) + 0.8 * np.exp(-((np.sin((v + np.abs(u - 0.5) * 0.7) * 2 * math.pi * 7) / 0.22) ** 2))
    veins = np.clip(rib, 0, 1)[..., None]
    green = np.array([0.16, 0.50, 0.05]) * (1 - veins) + np.array([0.55, 0.82, 0.30]) * veins
    blade = {"baseColorTexture": {"index": scene.texture(png(srgb(green)), "clamp")}}
    foliage = through("leaf", (1.0, 1.0, 1.0), (1.0, 1.0, 0.7), 0.62, blade)
    mesh = scene.mesh("leaf", (leaf(1.5, 0.34, 0.9), foliage))
    random = np.random.default_rng(12)
    for k in range(17):
        turn, rise = k * math.pi * (3 - math.sqrt(5)), 0.35 + 0.75 * k / 17
        half = turn / 2
        tilt = -rise + random.uniform(-0.15, 0.15)
        # turned about the vertical, after being raised about its own x axis
        sy, cy, sx, cx = math.sin(half), math.cos(half), math.sin(tilt / 2), math.cos(tilt / 2)
        rotation = [round(value, 9) for value in (cy * sx, sy * cx, -sy * sx, cy * cx)]
        scene.add("nodes", {
            "name": f"leaf {k}", "mesh": mesh, "translation": [1.75, round(0.95 + 0.045 * k, 4), -0.9], "rotation": rotation,
            "scale": [round(0.75 + 0.35 * random.random(), 4)] * 3,
        })  # fmt: skip
    pot = turned([(0.0, 0.0), (0.4, 0.0), (0.44, 0.05), (0.56, 0.8), (0.6, 0.86), (0.52, 0.88), (0.48, 0.78), (0.0, 0.76)], 26, 32)
    clay = scene.material("clay", (0.48, 0.19, 0.10), 0.0, 0.75)
    stand(scene, "pot", pot, clay, (1.75, 0.0, -0.9), 0.0, 1.1)
    scene.camera((0.0, 2.2, 8.4), (0.0, 1.3, -0.4), 30.0)
    return scene
