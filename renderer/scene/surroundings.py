"""What surrounds a scene by the user's word, in place of what the scene says: a picture in a file, a clear sky with a sun, or nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from renderer.scene.images import read_image
from renderer.scene.model import Environment, Scene, Sky


def surrounded(scene: Scene, choice: str | None) -> Scene:
    """The scene under `choice`: "sky", "none", or the path of an equirectangular picture; None leaves it as it is.

    Raises ImageError where there is no such picture.
    """
    if choice is None:
        return scene
    if choice == "none":
        return replace(scene, environment=Environment((0.0, 0.0, 0.0)))
    return replace(scene, environment=Environment(sky=Sky()) if choice == "sky" else pictured(Path(choice)))


def pictured(path: Path) -> Environment:
    """The surroundings that a picture file shows. Raises ImageError where there is none."""
    return Environment(image=read_image(path), source=path)
