"""Writes the scenes of this folder: `python scenes/make_scenes.py [FOLDER]` (needs NumPy only).

    cornell      the classic box: one lamp, two coloured walls, two blocks
    gallery      a colonnade with a daylight slit over the nave and coloured lamps hidden in the aisles
    study        knots and pebbles on plinths in a room with one tall window
    many_lights  a night garden lit by some hundreds of small lanterns

All are matt (Lambert: KHR_materials_specular with factor 0), all in metres, all one self-contained .gltf with its data
as base64.  Shapes that repeat are one mesh placed by many nodes.  Coordinates are rounded to a grid far coarser than
the last bit of a sine, so that every machine writes the same bytes, and a test can hold the files to this script.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from gltf_document import Document, Rgb
from shapes import Shape, arch, block, icosphere, joined, knot, lathe, pebble, quad, room, urchin


def cornell() -> Document:
    """The box of Cornell's graphics group, in the measures and colours that renderers are commonly compared with."""
    scene = Document(exact=True)
    white, red, green = (0.885809, 0.698859, 0.666422), (0.570068, 0.0430135, 0.0443706), (0.105421, 0.37798, 0.076425)
    walls: dict[str, tuple[tuple[Sequence[float], Sequence[float], Sequence[float]], Rgb]] = {
        "floor": (((-1, -1, 1), (2, 0, 0), (0, 0, -2)), white),
        "ceiling": (((-1, 1, -1), (2, 0, 0), (0, 0, 2)), white),
        "back": (((-1, -1, -1), (2, 0, 0), (0, 2, 0)), white),
        "red-wall": (((-1, -1, 1), (0, 0, -2), (0, 2, 0)), red),
        "green-wall": (((1, -1, -1), (0, 0, 2), (0, 2, 0)), green),
    }
    for name, (edges, colour) in walls.items():
        scene.show(name, quad(*edges), scene.matt(name, colour))
    # Half width along the front, half depth turned away, half height, centre.
    blocks = {
        "small-box": ((0.286891, 0.0877115), 0.3, (0.335, -0.7, 0.38)),
        "large-box": ((0.28491, -0.0939491), 0.61, (-0.33, -0.4, -0.28)),
    }
    for name, ((along, away), tall, centre) in blocks.items():
        box = block((-1, -1, -1), (1, 1, 1))
        x, y, z = box.points.T
        points = np.stack([along * x - away * z, tall * y, away * x + along * z], 1) + centre
        scene.show(name, Shape(points, box.faces), scene.matt(name, white))
    lamp = scene.matt("light", white, (18.387, 13.9873, 6.75357))
    scene.show("light", quad((-0.23, 0.99, -0.18), (0.46, 0, 0), (0, 0, 0.38)), lamp)
    scene.camera((0, 0, 3.9), (0, 0, 0), 39.3077)
    return scene


def gallery() -> Document:
    """Daylight through a slit in the nave's ceiling; amber lamps in the left aisle, blue ones in the right."""
    scene = Document()
    stone = scene.matt("stone", (0.74, 0.70, 0.64))
    pale, dark = scene.matt("pale tile", (0.60, 0.57, 0.53)), scene.matt("dark tile", (0.17, 0.18, 0.20))
    bronze, chalk = scene.matt("bronze", (0.70, 0.36, 0.11)), scene.matt("chalk", (0.82, 0.80, 0.76))
    day = scene.matt("daylight", (0.8, 0.8, 0.8), (2.6, 2.9, 3.2))
    amber = scene.matt("amber lamp", (0.8, 0.8, 0.8), (30.0, 11.0, 2.0))
    blue = scene.matt("blue lamp", (0.8, 0.8, 0.8), (2.4, 11.0, 26.0))
    front, back, half, nave, slit, low, high = 3.0, -25.0, 6.2, 3.0, 0.7, 5.6, 7.4
    deep, bay, bays = front - back, 4.0, 7

    tiles: tuple[list[Shape], list[Shape]] = ([], [])
    width, length = 2 * half / 14, deep / 32
    for i in range(14):
        for k in range(32):
            corner = (-half + i * width, 0, front - k * length)
            tiles[(i + k) % 2].append(quad(corner, (width, 0, 0), (0, 0, -length)))
    scene.place("floor", scene.mesh("floor", (joined(tiles[0]), pale), (joined(tiles[1]), dark)))

    walls = room((-half, 0, back), (half, low, front))
    shell = [walls["left"], walls["right"]]
    shell += [
        quad((-half, 0, back), (2 * half, 0, 0), (0, high, 0)),
        quad((half, 0, front), (-2 * half, 0, 0), (0, high, 0)),
    ]
    shell += [quad((x, low, back), (half - nave, 0, 0), (0, 0, deep)) for x in (-half, nave)]
    shell += [quad((x, high, back), (nave - slit, 0, 0), (0, 0, deep)) for x in (-nave, slit)]
    shell += [
        quad((-slit, high, front), (0, 0, -deep), (0, 0.6, 0)),
        quad((slit, high, back), (0, 0, deep), (0, 0.6, 0)),
    ]
    scene.show("shell", joined(shell), stone)
    scene.show("skylight", quad((-slit, high + 0.6, back), (2 * slit, 0, 0), (0, 0, deep)), day)

    profile = [(0.46, 0.24), (0.46, 0.32), (0.40, 0.40), (0.43, 0.46), (0.34, 0.54), (0.335, 1.6), (0.29, 3.1)]
    profile += [(0.34, 3.14), (0.30, 3.2), (0.46, 3.42)]
    ends = joined([block((-0.5, 0, -0.5), (0.5, 0.24, 0.5)), block((-0.5, 3.42, -0.5), (0.5, 3.6, 0.5))])
    column = scene.mesh("column", (lathe(profile, 40), chalk), (ends, stone))
    span = scene.mesh("arch", (arch(bay, 3.6, high, 1.55, 0.7), stone))
    for k in range(bays):
        for side, name in ((-1, "left"), (1, "right")):
            middle = front - bay * (k + 0.5)
            scene.place(f"{name} arch {k}", span, (side * nave, 0, middle))
            if k < bays - 1:
                scene.place(f"{name} column {k}", column, (side * nave, 0, middle - bay / 2))

    # Each lamp hangs high on the outer wall, behind a pier's width of it, and lights the aisle's ceiling and floor.
    for side, name, glow in ((-1, "amber", amber), (1, "blue", blue)):
        lamp = quad((-0.12, 0, -0.9), (0.24, 0, 0), (0, 0, 1.8))
        shade = block((-0.16, 0.01, -0.95), (0.16, 0.08, 0.95))
        hanging = scene.mesh(f"{name} lamp", (lamp, glow), (shade, dark))
        for k in range(bays):
            scene.place(f"{name} lamp {k}", hanging, (side * (half - 0.9), 4.6, front - bay * (k + 0.5)))

    scene.show(
        "plinth",
        joined([block((-0.9, 0, -9.9), (0.9, 0.2, -8.1)), block((-0.7, 0.2, -9.7), (0.7, 1.1, -8.3))]),
        chalk,
    )
    scene.place("knot", scene.mesh("knot", (knot(2, 3, 0.24, 240, 28), bronze)), (0, 2.38, -9.0), 0.5, 1.25)
    ball = scene.mesh("ball", (pebble(3, 0.0, 1, 4), chalk))
    for k, (x, z, size) in enumerate(((1.75, -4.9, 0.34), (1.1, -4.4, 0.2), (2.2, -4.2, 0.16))):
        scene.place(f"ball {k}", ball, (x, size, z), 0.0, size)
    scene.camera((-0.95, 1.6, 1.6), (0.3, 2.6, -9.0), 54.0)
    return scene


def study() -> Document:
    """A still life by a tall window: what diffuse light does to round things."""
    scene = Document()
    wall, floor, oak = (
        scene.matt("plaster", (0.76, 0.73, 0.68)),
        scene.matt("floor", (0.34, 0.24, 0.17)),
        scene.matt("plinth", (0.70, 0.68, 0.65)),
    )
    colours = {
        "terracotta": (0.62, 0.22, 0.11),
        "ochre": (0.72, 0.46, 0.12),
        "sage": (0.32, 0.44, 0.28),
        "slate": (0.16, 0.25, 0.38),
        "chalk": (0.84, 0.82, 0.78),
        "plum": (0.36, 0.13, 0.22),
    }
    paint = {name: scene.matt(name, colour) for name, colour in colours.items()}
    sky = scene.matt("window", (0.8, 0.8, 0.8), (4.6, 5.0, 5.6))
    glow = scene.matt("lamp", (0.8, 0.8, 0.8), (30.0, 14.0, 4.5))

    sides = room((-3.2, 0, -3.0), (3.2, 3.4, 6.5))
    for name, side in sides.items():
        if name not in ("floor", "right"):
            scene.show(name, side, wall)
    scene.show("right", sides["right"], paint["terracotta"])
    boards = [block((-3.2 + 0.4 * k + 0.006, -0.02, -3.0), (-3.2 + 0.4 * (k + 1) - 0.006, 0.0, 6.5)) for k in range(16)]
    scene.place(
        "floor", scene.mesh("floor", (joined(boards), floor), (sides["floor"].moved((0, -0.01, 0)), paint["slate"]))
    )
    for k in range(3):
        start = -1.5 + 1.15 * k
        scene.show(f"window {k}", quad((-3.18, 0.7, start), (0, 2.2, 0), (0, 0, 1.0)), sky)
    frame = [block((-3.2, 0.6, -1.64 + 1.15 * k), (-3.02, 3.0, -1.5 + 1.15 * k)) for k in range(4)]
    frame += [block((-3.2, y, -1.64), (-3.0, y + 0.1, 1.95)) for y in (0.6, 1.75, 2.9)]
    scene.show("window frame", joined(frame), paint["chalk"])

    steps = {"low": ((-1.9, 1.0), 0.45, 0.5), "mid": ((-0.55, -0.1), 0.85, 0.55), "tall": ((0.85, -1.0), 1.25, 0.5)}
    for name, ((x, z), tall, wide) in steps.items():
        scene.show(f"plinth {name}", block((x - wide, 0, z - wide), (x + wide, tall, z + wide)), oak)
    scene.show("plinth right", block((1.5, 0, 0.25), (2.5, 0.6, 1.25)), oak)

    trefoil = scene.mesh("trefoil", (knot(2, 3, 0.22, 200, 24), paint["ochre"]))
    cinquefoil = scene.mesh("cinquefoil", (knot(2, 5, 0.15, 256, 18), paint["chalk"]))
    scene.place("trefoil", trefoil, (-0.55, 1.38, -0.1), 0.6, 0.53)
    scene.place("cinquefoil", cinquefoil, (0.85, 1.8, -1.0), -0.45, 0.56)
    scene.place("urchin", scene.mesh("urchin", (urchin(90, 0.13, 5), paint["slate"])), (-1.9, 0.87, 1.0), 0.2, 0.39)
    stone = scene.mesh("stone", (pebble(7, 0.10, 6, 4), paint["plum"]))
    scene.place("stone", stone, (2.0, 0.92, 0.75), 1.2, 0.34)
    lamp = scene.mesh("lamp", (icosphere(2), glow))
    scene.place("lamp", lamp, (2.45, 0.16, -0.7), 0.0, 0.16)

    random = np.random.default_rng(11)
    kinds = [
        scene.mesh(f"pebble {name}", (pebble(20 + k, 0.07, 5, 3), paint[name]))
        for k, name in enumerate(("sage", "chalk", "terracotta", "ochre"))
    ]
    spots: list[tuple[float, float, float]] = []
    while len(spots) < 46:
        x, z, size = random.uniform(-1.6, 2.2), random.uniform(0.6, 2.2), random.uniform(0.05, 0.15)
        clear = abs(x - 2.0) > 0.5 + size or z > 1.25 + size
        clear = clear and (x > -1.4 + size or z > 1.5 + size)
        if clear and all(math.hypot(x - a, z - b) > 1.12 * (size + c) for a, b, c in spots):
            spots.append((x, z, size))
    for k, (x, z, size) in enumerate(spots):
        turn = random.uniform(0, 2 * math.pi)
        scene.place(f"pebble {k}", kinds[k % len(kinds)], (x, 0.72 * size, z), turn, (size, 0.72 * size, size))
    scene.camera((0.7, 1.62, 5.4), (0.06, 1.0, -0.2), 37.0)
    return scene


def many_lights() -> Document:
    """A walled garden at night: small lamps in a sunflower's spiral about a tower, and up its stair."""
    scene = Document()
    ground, stone = scene.matt("ground", (0.42, 0.40, 0.38)), scene.matt("stone", (0.55, 0.52, 0.48))
    tower, step = scene.matt("tower", (0.74, 0.70, 0.66)), scene.matt("step", (0.60, 0.58, 0.56))
    glows = [(17.0, 4.2, 0.5), (15.0, 6.5, 1.2), (13.0, 3.0, 3.6), (8.0, 2.2, 9.0), (2.2, 5.0, 15.0)]
    bulbs = [
        scene.mesh(f"lantern {k}", (icosphere(1), scene.matt(f"glow {k}", (0.8, 0.8, 0.8), radiance)))
        for k, radiance in enumerate(glows)
    ]
    scene.show("ground", quad((-40, 0, 40), (80, 0, 0), (0, 0, -80)), ground)

    body = [(1.30, 0.0), (1.30, 0.3), (1.05, 0.45), (0.95, 2.5), (0.82, 4.5), (0.66, 6.5), (0.62, 7.0), (0.9, 7.25)]
    body += [(0.9, 7.5), (0.0005, 8.6)]
    scene.show("tower", lathe(body, 72), tower)
    scene.show("wall", lathe([(15.0, 5.2), (15.0, 0.0)], 96), stone)
    tread = scene.mesh("tread", (block((0.0, -0.08, -0.16), (1.25, 0.0, 0.16)), step))
    count = 132
    for k in range(count):
        part = k / count
        turn, height, inner = 0.155 * k, 0.35 + 6.5 * part, 0.92 - 0.35 * part
        x, z = math.cos(turn), -math.sin(turn)
        scene.place(f"tread {k}", tread, (inner * x, height, inner * z), turn)
        if k % 2 == 0:
            place = ((inner + 1.12) * x, height + 0.1, (inner + 1.12) * z)
            scene.place(f"stair lantern {k}", bulbs[min(int(part * 5), 4)], place, 0.0, 0.075)
    scene.place("crown", bulbs[2], (0, 8.75, 0), 0.0, 0.2)

    random = np.random.default_rng(5)
    pillar = scene.mesh("pillar", (block((-0.5, 0, -0.5), (0.5, 1, 0.5)), stone))
    for k in range(60):
        turn = 2 * math.pi * k / 60
        scene.place(f"merlon {k}", pillar, (15.3 * math.cos(turn), 5.2, -15.3 * math.sin(turn)), turn, (0.8, 0.7, 0.8))
    golden = math.pi * (3 - math.sqrt(5))
    for k in range(14, 330):
        radius, turn = 0.62 * math.sqrt(k), golden * k
        x, z = radius * math.cos(turn), -radius * math.sin(turn)
        tall = random.uniform(0.12, 0.5) + 0.02 * radius
        if k % 4 == 0:
            size = random.uniform(0.16, 0.3)
            scene.place(f"pillar {k}", pillar, (x, 0, z), turn, (size, tall + random.uniform(0.1, 0.9), size))
        else:
            post = 0.11
            scene.place(f"post {k}", pillar, (x, 0, z), turn, (post, tall, post))
            scene.place(f"lantern {k}", bulbs[min(int(radius / 2.4), 4)], (x, tall + 0.1, z), 0.0, 0.1)
    scene.camera((0.0, 4.4, 13.4), (0.0, 3.75, 0.0), 48.0)
    return scene


SCENES: dict[str, Callable[[], Document]] = {
    "cornell": cornell,
    "gallery": gallery,
    "study": study,
    "many_lights": many_lights,
}


def main(folder: Path) -> None:
    """Write every scene into the folder."""
    for name, build in SCENES.items():
        path = folder / f"{name}.gltf"
        path.write_text(build().text(), encoding="utf-8", newline="\n")
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
