"""The bytes of a scene's file, whatever its format, or the one line that says why there are none."""

from __future__ import annotations

from pathlib import Path

from renderer.scene.files import read_file
from renderer.scene.model import SceneError


def read_bytes(file: Path) -> bytes:
    """All of a file. Raises `SceneError` where it is not there, cannot be read, or is empty."""
    try:
        data = read_file(file)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SceneError(f"{file}: {reason}; give the path of a .gltf, .glb, .obj, .ply or .stl file") from None
    if not data:
        raise SceneError(f"{file}: the file is empty; export or download it again")
    return data
