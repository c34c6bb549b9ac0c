"""The kernels of some frames and of the engine's image graphs, as text: what `make kernels-diff` compares.

    python renderer/app/kernel_texts.py FOLDER        (FOLDER: with the scenes)

One JSON object on standard output: name of a kernel -> its text. Nothing is compiled, so every width is written on every machine.
Run as a file, it takes `engine` and `renderer` from where PYTHONPATH says: the text of another commit's kernels is written by this file.
So it uses little of either.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from engine import Jitted, Tensor, jit
from engine.bench import GRAPHS, inputs
from engine.inspect.paper import Paper
from renderer.pipeline.camera import camera_data
from renderer.pipeline.film import Films
from renderer.pipeline.frame import FrameSettings, Numbers, make_frame
from renderer.pipeline.session import pick_camera
from renderer.scene.importers import load
from renderer.scene.upload import upload

WIDTHS = (16, 8, 4)
SCENES = ("cornell", "gallery")
SIZE = (1280, 720)


def texts_of(name: str, function: Jitted, device: Paper, arguments: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Two texts of each kernel: as the compiler has lowered it, and as the emitter writes it."""
    for k, kernel in enumerate(function.plan_of(*arguments).kernels):
        place = f"{name}, kernel {k}, {device.group_width} lanes"
        yield f"{place}: kernel", device.lowered(kernel)
        yield f"{place}: LLVM IR", device.source(kernel)


def graphs(device: Paper) -> Iterator[tuple[str, str]]:
    """The kernels of `engine.bench`."""
    for name, arrays in inputs(*SIZE).items():
        graph = GRAPHS[name]
        made = jit(graph.function, static=("step",) if name == "atrous" else (), device=device)
        yield from texts_of(name, made, device, [Tensor(a) for a in arrays])


def frame(path: Path, device: Paper) -> Iterator[tuple[str, str]]:
    """The kernels of a scene's frame."""
    scene = load(path)
    width, height = SIZE
    data, (film, picture) = upload(scene, group=device.group_width).data, Films().of(width, height)
    view = camera_data(pick_camera(scene, None), width, height)
    yield from texts_of(path.stem, make_frame(device), device, [data, film, picture, view, Numbers(), FrameSettings()])


def main() -> None:
    """Writes them all."""
    folder = Path(sys.argv[1])
    found: dict[str, str] = {}
    for width in WIDTHS:
        device = Paper(width)
        found.update(graphs(device))
        for name in SCENES:
            found.update(frame(folder / f"{name}.gltf", device))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
