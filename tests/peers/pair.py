"""rayfuse and Mitsuba 3 in turn on scenes that are made matt: times of frames, times to the first frame, and whether the pictures agree.

    PEERS=PYTHON python -m tests.peers.pair SCENE... [--env FILE] [--size 640 360] [--depth 8] [--rounds 3] [--frames 30] [--check 256]

PEERS names an interpreter with mitsuba in it (3.9.1 was used; its `llvm_ad_rgb` needs a libLLVM, which DRJIT_LIBLLVM_PATH may name).
Each scene is loaded, all its materials become Lambert's with their base colours and textures, lamps and the picture of the surroundings
stay. From that are made a glTF file, for `rayfuse bench`, and a folder for Mitsuba. A round is a process of each, one sample a pixel a
frame, the median of the frames; round 0 fills the caches of kernels and does not count. Surfaces' textures have levels of detail in one
and none in the other.

Standard output is a table for docs/performance.md and the parts of the time to the first frame. Pictures of half the size are compared at
the end, by the means of blocks of 16 x 16 pixels (`--check 0`: not).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from renderer.scene import gltf_write
from renderer.scene.importers import load
from renderer.scene.model import Material, Scene
from renderer.scene.surroundings import surrounded
from tests.peers.mitsuba_scene import Mitsuba, MitsubaError, Untranslatable, describe
from tests.renderer.helpers.beside import agreement
from tests.renderer.helpers.pictures import render

VARIANT = "llvm_ad_rgb"
ROOT = Path(__file__).resolve().parents[2]
PASSES = 8
OURS = ("import", "load", "bvh_build", "upload", "trace", "compile")  # pictures are decoded in the upload
THEIRS = ("import", "load and decode", "tree", "trace, compile and draw")


@dataclass(frozen=True)
class Prepared:
    """A matt scene in two forms: `file` for us, `folder` for Mitsuba."""

    name: str
    scene: Scene
    file: Path
    folder: Path


@dataclass(frozen=True)
class Round:
    """Median milliseconds of a frame, seconds from the start of the process to the first frame's end, and what they went into."""

    frame_ms: float
    first_s: float
    parts_s: dict[str, float]


def matt(material: Material) -> Material:
    """Lambert's surface of the same colour."""
    return Material(
        material.name,
        (*material.base_color_factor[:3], 1.0),
        metallic=0.0,
        specular_factor=0.0,
        emissive=material.emissive,
        base_color_texture=material.base_color_texture,
        emissive_texture=material.emissive_texture,
    )


def prepare(path: Path, work: Path, options: argparse.Namespace) -> Prepared:
    """Writes both forms."""
    scene = load(path)
    scene = replace(scene, materials=[matt(material) for material in scene.materials])
    file, folder = work / f"{path.stem}.glb", work / path.stem
    gltf_write.write(scene, file)
    folder.mkdir()
    scene = surrounded(scene, options.env)
    describe(scene, folder, size=tuple(options.size), depth=options.depth, roulette=5)
    return Prepared(path.stem, scene, file, folder)


def ours(prepared: Prepared, options: argparse.Namespace) -> Round:
    """A process of `rayfuse bench`."""
    command = [sys.executable, "-m", "renderer.app.cli", "bench", str(prepared.file), "--backend", "cpu", "--json", "-", "--quiet"]
    command += ["--size", *map(str, options.size), "--spp", "1", "--depth", str(options.depth), "--frames", str(options.frames)]
    command += ["--env", options.env] if options.env else []
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    if done.returncode:
        sys.exit(f"{' '.join(command)}\nexit {done.returncode}: {done.stderr.strip()}")
    record = json.loads(done.stdout)
    seconds = record["time_s"]
    return Round(record["frame_ms"]["median"], seconds["to_first_frame"], {part: seconds[part] for part in OURS})


def theirs(prepared: Prepared, python: str, options: argparse.Namespace) -> Round:
    """A process of Mitsuba."""
    with Mitsuba(python, VARIANT) as mitsuba:
        loaded, tree = mitsuba.load(prepared.folder)
        (first,) = mitsuba.draw(1)
        age = mitsuba.age()
        frames = mitsuba.draw(1, passes=options.frames + 3, seed=1)[3:]
        went = dict(zip(THEIRS, (mitsuba.started.seconds, loaded - tree, tree, first), strict=True))
        return Round(statistics.median(frames) * 1e3, age, went)


def compared(prepared: Prepared, python: str, options: argparse.Namespace) -> str:
    """How far the two pictures are apart, of textures without levels of detail, which Mitsuba has none of."""
    sharp = replace(prepared.scene, textures=[replace(texture, mip=None) for texture in prepared.scene.textures])
    spp, size = options.check // PASSES, (options.size[0] // 2, options.size[1] // 2)
    mine = render(sharp, size, frames=PASSES, spp=spp, depth=options.depth, threads=os.cpu_count() or 1)
    describe(sharp, prepared.folder, size=size, depth=options.depth, roulette=5)
    with Mitsuba(python, VARIANT) as mitsuba:
        mitsuba.load(prepared.folder)
        their = mitsuba.pictures(prepared.folder / "theirs.npy", spp, PASSES, seed=100)
    return str(agreement(mine.mean, mine.deviation, their.astype(np.float64), 16))


def row(prepared: Prepared, rounds: list[tuple[Round, Round]]) -> str:
    """A row of the table: ranges where there were several rounds."""

    def span(values: list[float], form: str) -> str:
        low, high = (format(v, form) for v in (min(values), max(values)))
        return low if low == high else f"{low} to {high}"

    frames = [[side.frame_ms for side in pair] for pair in rounds]
    first = [[side.first_s for side in pair] for pair in rounds]
    mine, their = zip(*frames, strict=True)
    ratio = statistics.median(b / a for a, b in frames)
    ours_first, their_first = zip(*first, strict=True)
    cells = [prepared.name, f"{prepared.scene.totals().triangles:,}", span([*mine], ".1f"), span([*their], ".1f"), f"x {ratio:.1f}"]
    return f"| {' | '.join([*cells, span([*ours_first], '.2f'), span([*their_first], '.2f')])} |"


def parts(rounds: list[tuple[Round, Round]]) -> str:
    """What the time to the first frame went into, medians."""

    def told(side: list[Round]) -> str:
        named = {part: statistics.median(r.parts_s[part] for r in side) for part in side[0].parts_s}
        return ", ".join(f"{part} {seconds:.2f}" for part, seconds in named.items())

    mine, their = zip(*rounds, strict=True)
    return f"  rayfuse: {told([*mine])}\n  Mitsuba: {told([*their])}"


def main() -> None:
    """Runs the rounds and prints."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.pair", description="rayfuse and Mitsuba 3 in turn on matt scenes.")
    parser.add_argument("scenes", nargs="+", type=Path)
    parser.add_argument("--env", help="a picture of the surroundings")
    parser.add_argument("--size", type=int, nargs=2, default=(640, 360))
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frames", type=int, default=30)
    parser.add_argument("--check", type=int, default=256, help="samples a pixel of the pictures that are compared; 0: none are")
    options: Any = parser.parse_args()
    python = os.environ.get("PEERS")
    if python is None:
        parser.error("PEERS=PYTHON must name an interpreter that has mitsuba")
    with tempfile.TemporaryDirectory() as work:
        try:
            run([prepare(path, Path(work), options) for path in options.scenes], python, options)
        except (MitsubaError, Untranslatable) as error:
            sys.exit(f"Mitsuba: {error}")


def run(scenes: list[Prepared], python: str, options: argparse.Namespace) -> None:
    """All rounds of all scenes."""
    rounds: dict[str, list[tuple[Round, Round]]] = {scene.name: [] for scene in scenes}
    for k in range(options.rounds + 1):
        for scene in scenes:
            pair = ours(scene, options), theirs(scene, python, options)
            if k:
                rounds[scene.name].append(pair)
            print(f"round {k}, {scene.name}: {pair[0].frame_ms:.1f} ms, Mitsuba {pair[1].frame_ms:.1f} ms", file=sys.stderr)
    print(f"| scene | triangles | rayfuse ms | Mitsuba ms | frames | first frame s | Mitsuba s |\n|{' --- |' * 7}")
    for scene in scenes:
        print(row(scene, rounds[scene.name]))
    print("\nto the first frame, seconds:")
    for scene in scenes:
        print(f"{scene.name}\n{parts(rounds[scene.name])}")
    if options.check:
        print("\npictures, blocks of 16 x 16 pixels:")
        for scene in scenes:
            print(f"{scene.name}: {compared(scene, python, options)}")


if __name__ == "__main__":
    main()
