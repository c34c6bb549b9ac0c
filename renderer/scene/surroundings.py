"""What surrounds a scene by the user's word, in place of what the scene says: a picture in a file, a clear sky with a sun, or nothing.

Without a word, a scene that nothing would light (`default_sky`) is under the clear sky, and one that has light stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine import events
from renderer.scene.default_sky import brightest, needs_sky
from renderer.scene.model import Environment, Scene, Sky

NOTHING = "the scene has no light of its own; a clear sky with a sun lights it"
LABELS = "what shines in the scene leaves the rest of it dark; a clear sky with a sun is added (--env none: without)"


def surrounded(scene: Scene, choice: str | None) -> Scene:
    """The scene under `choice`: "sky", "none", or the path of an equirectangular picture; None leaves it as it is, unless it is dark: then
    it is under a clear sky, which is said in a warning.

    Raises ImageError where there is no such picture.
    """
    if choice is None:
        if not needs_sky(scene):
            return scene
        events.record("warning", message=LABELS if brightest(scene) > 0 else NOTHING)
        return replace(scene, environment=Environment(sky=Sky(), added=True))
    if choice == "none":
        return replace(scene, environment=Environment((0.0, 0.0, 0.0)))
    return replace(scene, environment=Environment(sky=Sky()) if choice == "sky" else pictured(Path(choice)))


def pictured(path: Path) -> Environment:
    """The surroundings that a picture file shows. Raises ImageError where there is none."""
    from renderer.scene.images import read_image

    return Environment(image=read_image(path), source=path)
