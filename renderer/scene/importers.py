"""A scene file of any kind into the scene model: the one door to all importers.

A file is known by how it begins where its format has a mark (GLB, PLY), else by its ending; what is neither is taken for glTF, whose
importer says what is wrong with it. An importer is imported when a file needs it. To add a format, write a module with a function
`load` like the one below, and a line in `BY_ENDING`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from renderer.scene.files import read_file
from renderer.scene.model import Scene

BY_MARK = {b"glTF": "gltf", b"ply\n": "ply", b"ply\r": "ply"}
BY_ENDING = {".gltf": "gltf", ".glb": "gltf", ".obj": "obj", ".ply": "ply", ".stl": "stl"}


class Importer(Protocol):
    """What every importer offers."""

    def __call__(self, path: str | Path, *, strict: bool = False, warn: Callable[[str], None] | None = None) -> Scene: ...


def load(path: str | Path, *, strict: bool = False, warn: Callable[[str], None] | None = None) -> Scene:
    """Load a .gltf, .glb, .obj, .ply or .stl file.

    `warn` is called with each warning, one line that begins with the place in the file; `Scene.warnings` keeps them all.  With `strict`
    the first of them is a `SceneError` instead.  Raises `SceneError` for a file that cannot be shown at all.  A file with nothing to
    draw gives a scene without instances, and a warning.
    """
    file = Path(path)
    importer = cast(Importer, import_module(f"renderer.scene.{kind_of(file)}").load)
    scene = importer(file, strict=strict, warn=warn)
    scene.strict = strict
    return scene


def format_of(path: Path) -> str:
    """The name of a scene file's format."""
    kind, marked = _kind(path)
    return f"glTF 2.0, {'binary' if marked else 'JSON'}" if kind == "gltf" else kind.upper()


def kind_of(file: Path) -> str:
    """The importer of a file, by name."""
    return _kind(file)[0]


def _kind(file: Path) -> tuple[str, bool]:
    """The importer of a file, and whether a mark at its beginning tells it."""
    try:
        head = read_file(file, 4)
    except OSError:  # the importer has a text for it
        head = b""
    marked = BY_MARK.get(head)
    return marked or BY_ENDING.get(file.suffix.lower(), "gltf"), marked is not None
