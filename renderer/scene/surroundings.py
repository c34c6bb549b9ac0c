"""What surrounds a scene by the user's word, in place of what the scene says: a picture in a file, a clear sky with a sun, or nothing.

Without a word, a scene that nothing would light gets a neutral sky, and one that has light stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine import events
from renderer.scene.model import Environment, Scene

NOT_SAVED = "surroundings from a picture"


def surrounded(scene: Scene, choice: str | None) -> Scene:
    """The scene under `choice`: "sky", "none", or the path of an equirectangular picture; None leaves it as it is,
    unless it is dark: then it is under a neutral sky, which is said in a warning.

    Raises ImageError where there is no such picture.
    """
    if choice is None:
        if scene.environment is not None or scene.lights or scene.totals().lights:
            return scene
        from renderer.scene.sky import studio_sky

        events.record("warning", message="the scene has no light of its own; a neutral sky lights it")
        return replace(scene, environment=Environment(image=studio_sky()))
    if choice == "none":
        return replace(scene, environment=Environment((0.0, 0.0, 0.0)))
    if choice == "sky":
        from renderer.scene.sky import clear_sky

        image = clear_sky()
    else:
        from renderer.scene.images import read_image

        image = read_image(Path(choice))
    return replace(scene, environment=Environment(image=image), lost=[*scene.lost, NOT_SAVED])
