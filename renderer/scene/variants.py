"""The variant in which a scene is shown (KHR_materials_variants), by the user's word."""

from __future__ import annotations

from dataclasses import replace

from renderer.scene.model import Scene, SceneError


def in_variant(scene: Scene, choice: int | str | None) -> Scene:
    """The scene in the variant of this name or number; None leaves it as it is.

    Raises SceneError for a variant that the scene does not have.
    """
    if choice is None:
        return scene
    if isinstance(choice, int) and 0 <= choice < len(scene.variants):
        return replace(scene, variant=choice)
    if str(choice) in scene.variants:
        return replace(scene, variant=scene.variants.index(str(choice)))
    names = ", ".join(f"{number} ({name})" for number, name in enumerate(scene.variants)) or "none"
    raise SceneError(f"{scene.path}: there is no variant {choice!r}; the scene's variants: {names}")
