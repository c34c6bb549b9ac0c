"""What surrounds a scene by the user's word, in place of what the scene says: a picture in a file, a clear sky with a sun, or nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from renderer.scene.model import Environment, Scene

NOT_SAVED = "surroundings from a picture"


def surrounded(scene: Scene, choice: str | None) -> Scene:
    """The scene under `choice`: "sky", "none", or the path of an equirectangular picture; None leaves it as it is.

    Raises ImageError where there is no such picture.
    """
    if choice is None:
        return scene
    if choice == "none":
        return replace(scene, environment=Environment((0.0, 0.0, 0.0)))
    if choice == "sky":
        from renderer.scene.sky import clear_sky

        image = clear_sky()
    else:
        from renderer.scene.images import read_image

        image = read_image(Path(choice))
    return replace(scene, environment=Environment(image=image), lost=[*scene.lost, NOT_SAVED])
