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
from engine.compiler.emit.llvm import emit
from engine.compiler.kernel import Kernel
from engine.compiler.print import text
from engine.compiler.target import Target
from engine.runtime.cache import Cache
from renderer.pipeline.camera import camera_data
from renderer.pipeline.film import Film
from renderer.pipeline.frame import FrameSettings, make_frame
from renderer.pipeline.session import pick_camera
from renderer.scene.gltf import load
from renderer.scene.upload import upload

WIDTHS = (16, 8, 4)
SCENES = ("cornell", "gallery")
DEPTH = 4
SIZE = (1280, 720)


class Nothing:
    """What `Paper` makes of a kernel."""

    cached, seconds = False, 0.0


class Paper:
    """A CPU of any width that runs nothing: it is there for the text of its kernels."""

    backend, name, driver, software = "paper", "paper", "", True
    compute_units = 1
    memory_bytes: int | None = None

    def __init__(self, width: int) -> None:
        self.group_width, self.cache = width, Cache(None)
        self.target = Target("cpu", group=width)

    def compile(self, kernel: Kernel) -> Nothing:
        return Nothing()

    def source(self, kernel: Kernel) -> str:
        return emit(kernel, self.group_width)

    def identity(self) -> tuple[Any, ...]:
        return (self.backend, self.group_width)

    def pack(self, program: Any) -> None:
        return None

    def unpack(self, packed: tuple[Any, ...]) -> None:
        return None

    def executable(self, launches: Sequence[Any]) -> Any:
        raise NotImplementedError("paper runs nothing")

    def close(self) -> None:
        """There is nothing to give back."""


def texts_of(name: str, function: Jitted, device: Paper, arguments: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Two texts of each kernel: as the compiler has lowered it, and as the emitter writes it."""
    for k, kernel in enumerate(function.plan_of(*arguments).kernels):
        place = f"{name}, kernel {k}, {device.group_width} lanes"
        yield f"{place}: kernel", text(kernel)
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
    data, film = upload(scene, group=device.group_width).data, Film.empty(height, width)
    view = camera_data(pick_camera(scene, None), width, height)
    yield from texts_of(path.stem, make_frame(device), device, [data, film, view, 0, 0, False, 1.0, FrameSettings(1, DEPTH)])


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
