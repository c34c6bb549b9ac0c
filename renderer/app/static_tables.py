"""A scene's tables as the textures of four floats a texel that the hand-written shaders read, and the parameters of a frame.

The tables are those that `scene.upload` makes for the renderer's own kernels where lanes walk alone: both read the same rows.
shaders_ref/scene.glsl and the files that it names say what is where.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from renderer.bvh.traverse import LoneBVH
from renderer.pipeline.camera import CameraData
from renderer.scene.upload import SceneData
from renderer.shading.light import ALIAS_ROW, LIGHT_ROW

Rows = NDArray[np.float32]

_BLOCK = np.dtype(
    {
        "names": ["place", "extent", "size", "low", "aperture", "high", "focus", "sky", "exposure", "samples", "spp", "seed",
                  "orthographic", "max_depth", "light_count", "tonemapper", "light_root"],
        "formats": ["(4,4)f4", "(2,)f4", "(2,)i4", "(3,)f4", "f4", "(3,)f4", "f4", "(3,)f4", "f4", "u4", "u4", "u4", "u4",
                    "i4", "i4", "i4", "i4"],
        "offsets": [0, 64, 72, 80, 92, 96, 108, 112, 124, 128, 132, 136, 140, 144, 148, 152, 156],
        "itemsize": 160,
    }
)  # fmt: skip


class Tables(NamedTuple):
    """float32[rows, 4] each, in the order of the textures' bindings."""

    nodes: Rows
    pairs: Rows
    triangles: Rows
    materials: Rows
    lights: Rows
    aliases: Rows
    light_nodes: Rows
    light_links: Rows
    light_places: Rows


def tables_of(scene: SceneData) -> Tables:
    """The tables of a scene that was uploaded for lanes that walk alone."""
    tree = scene.bvh
    assert isinstance(tree, LoneBVH), "tables for vectors of lanes have no rows"
    lights = scene.lights.rows.numpy() if scene.lights is not None else np.zeros((1, LIGHT_ROW + ALIAS_ROW), np.float32)
    nodes, pairs, triangles, materials = (t.numpy().reshape(-1, 4) for t in (tree.nodes, tree.pairs, scene.triangle, scene.material))
    none = np.zeros((1, 4), np.float32)
    if scene.lights is not None and scene.lights.tree is not None:
        chosen = scene.lights.tree
        place = chosen.place.numpy()[chosen.light.numpy()]
        places = np.pad(place, (0, -len(place) % 4)).view(np.float32).reshape(-1, 4)
        many = (chosen.nodes.numpy().reshape(-1, 4), chosen.links.numpy().reshape(-1, 4), places)
        return Tables(nodes, pairs, triangles, materials, lights.reshape(-1, 4), none, *many)
    rows, aliases = (np.ascontiguousarray(part).reshape(-1, 4) for part in np.hsplit(lights, [LIGHT_ROW]))
    return Tables(nodes, pairs, triangles, materials, rows, aliases, none, none, none)


def defines_of(scene: SceneData) -> dict[str, int]:
    """What of a scene shapes the shaders' code."""
    return {
        "STACK": scene.bvh.stack,
        "FLAT": int(scene.bvh.flat),
        "SIDES": ("both", "front", "mixed").index(scene.bvh.sides),
        "LIGHTS": int(scene.lights is not None),
        "FEW_LIGHTS": int(scene.lights is not None and scene.lights.few),
        "SKY": int(scene.sky is not None),
    }


def frame_block(
    scene: SceneData, camera: CameraData, size: tuple[int, int], *, spp: int, depth: int, seed: int
) -> NDArray[np.void]:
    """The block of a frame's parameters (std140), for a film that is empty and the filmic curve: a record array of one, whose fields may be
    set."""
    block = np.zeros(1, _BLOCK)
    row = block[0]
    row["low"], row["high"] = scene.bvh.box
    row["sky"] = scene.sky if scene.sky is not None else 0.0
    row["light_count"] = scene.lights.count if scene.lights is not None else 0
    row["size"], row["spp"], row["max_depth"], row["seed"], row["exposure"] = size, spp, depth, seed, 1.0
    look(block, camera)
    return block


def look(block: NDArray[np.void], camera: CameraData) -> None:
    """Sets the camera of a block."""
    row = block[0]
    row["place"][:, :3], row["extent"] = camera.place, camera.extent
    row["orthographic"], row["aperture"], row["focus"] = camera.orthographic, camera.aperture, camera.focus
