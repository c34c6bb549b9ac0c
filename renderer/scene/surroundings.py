"""What surrounds a scene by the user's word, in place of what the scene says: a picture in a file, a clear sky with a sun, or nothing.

Without a word, a scene that nothing would light is under the clear sky, and one that has light stays as it is. A surface that shines no
brighter than white paper does under that sky is no lamp: it is a label that is to be read, a screen, a diode on a helmet, and what it
belongs to would be drawn in the dark. Such is all that glTF can say without KHR_materials_emissive_strength.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine import events
from renderer.scene.images import read_image
from renderer.scene.model import Environment, Scene, Sky

GLOW = 1.0  # radiance of a surface's brightest channel, above which it is a lamp


def surrounded(scene: Scene, choice: str | None) -> Scene:
    """The scene under `choice`: "sky", "none", or the path of an equirectangular picture; None leaves it as it is, unless it is dark: then
    it is under a clear sky, which is said in a warning.

    Raises ImageError where there is no such picture.
    """
    if choice is None:
        glow = _brightest(scene)
        if scene.environment is not None or scene.lights or glow > GLOW:
            return scene
        but = " but what glows" if glow else ""
        events.record("warning", message=f"the scene has no light of its own{but}; a clear sky with a sun lights it")
        return replace(scene, environment=Environment(sky=Sky()))
    if choice == "none":
        return replace(scene, environment=Environment((0.0, 0.0, 0.0)))
    return replace(scene, environment=Environment(sky=Sky()) if choice == "sky" else pictured(Path(choice)))


def pictured(path: Path) -> Environment:
    """The surroundings that a picture file shows. Raises ImageError where there is none."""
    return Environment(image=read_image(path), source=path)


def _brightest(scene: Scene) -> float:
    """The radiance of the surface that is drawn and shines the most, in its brightest channel."""
    geometries = (g for number in {i.mesh for i in scene.instances} for g in scene.meshes[number].geometries if len(g.indices))
    return max((max(scene.materials[g.material_in(scene.variant)].emissive) for g in geometries), default=0.0)
