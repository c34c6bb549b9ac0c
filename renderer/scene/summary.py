"""What is in a scene, as plain data for whoever shows it: `rayfuse info`, a panel, a test.

Counts are of what is drawn (instanced triangles each time). The bytes of pictures are those of their decoded pixels, from the headers:
nothing is decoded for it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from renderer.scene.model import Scene
from renderer.scene.pictures import picture_sizes, used_images


def summary(scene: Scene) -> dict[str, Any]:
    """Plain data: names and numbers, lists and dicts of them.

    `lights` counts emissive geometries as placed and punctual lights by kind; `textures` are those that materials use, `images` their
    pictures and `image_bytes` what those take decoded; `undrawn` names features and extensions that are not in the picture.
    """
    totals = scene.totals()
    refs = [ref for material in scene.materials for _, ref in material.textures()]
    sizes = picture_sizes(scene)
    return {
        "triangles": totals.triangles,
        "instances": totals.instances,
        "meshes": sum(1 for mesh in scene.meshes if mesh.geometries),
        "vertices": sum(len(geometry.positions) for mesh in scene.meshes for geometry in mesh.geometries),
        "materials": totals.materials,
        "cameras": [camera.name for camera in scene.cameras],
        "lights": {"emissive": totals.lights, **dict(sorted(Counter(light.kind for light in scene.lights).items()))},
        "textures": len({ref.texture for ref in refs}),
        "images": len(used_images(scene)),
        "image_bytes": sum(size.bytes for size in sizes.values()),
        "variants": list(scene.variants),
        "extensions": list(scene.extensions),
        "undrawn": list(scene.undrawn),
        "warnings": len(scene.warnings),
    }
