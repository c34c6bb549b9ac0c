"""Textures of materials: the columns of a row that name them, and what kernels read through them.

A slot of glTF's material ("base_color_texture", "clearcoat.roughness_texture") exists in a scene's kernels where some material of the
scene has a texture in it that matters. Then each row has the number of its texture there (-1: none, which multiplies by 1), and where
materials differ in these, the set of texture coordinates and the transform of them. What all materials of the scene have alike is in the
code.

Occlusion says how much light misses a corner that a path tracer finds out by itself, so it is not read; of a body's thickness matters only
whether there is any, so neither is its texture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine import Tensor, where
from renderer.bvh.rows import bits
from renderer.scene.model import Material
from renderer.scene.model_texture import TextureRef
from renderer.shading.corner_rows import Between
from renderer.shading.texture import RayCone, Textures, footprint, stretch, transformed
from renderer.vec import Vec3

UNREAD = ("occlusion_texture", "volume.thickness_texture")
NORMALS = ("normal_texture", "clearcoat.normal_texture")
_MATT = ("base_color_texture", "emissive_texture", "normal_texture")
_SRGB = ("base_color_texture", "emissive_texture", "specular_color_texture", "sheen.color_texture", "diffuse_transmission.color_texture")
_TRANSFORM = ("a", "b", "c", "d", "e", "f")
Number = Callable[[TextureRef | None, str, bool], int]
_CHANNELS = {
    "metallic_roughness_texture": "gb",
    "specular_texture": "a",
    "clearcoat.texture": "r",
    "clearcoat.roughness_texture": "g",
    "sheen.roughness_texture": "a",
    "transmission.texture": "r",
    "diffuse_transmission.texture": "a",
    "iridescence.texture": "r",
    "iridescence.thickness_texture": "g",
}


@dataclass(frozen=True)
class Slot:
    """A slot that kernels read. texcoords: the sets of coordinates that its textures use; moved: some of them are transformed."""

    name: str
    texcoords: tuple[int, ...]
    moved: bool

    def columns(self) -> Iterator[str]:
        """The names of its columns."""
        yield self.name
        if self.name in NORMALS:
            yield f"{self.name} strength"
        if len(self.texcoords) > 1:
            yield f"{self.name} set"
        if self.moved:
            yield from (f"{self.name} {part}" for part in _TRANSFORM)

    def values(self, ref: TextureRef | None, number: Number, covers: bool) -> dict[str, float]:
        """What a material has in these columns; covers: the alpha of its base colour says how much of it is there."""
        place = ref or TextureRef(0)
        return {
            self.name: float(bits(np.array([number(ref, self.name, covers)], np.int32))[0]),
            f"{self.name} strength": place.strength,
            f"{self.name} set": place.texcoord,
            **{f"{self.name} {part}": v for part, v in zip(_TRANSFORM, place.matrix.ravel().tolist(), strict=True)},
        }

    def covers(self, other: Slot) -> bool:
        """Whether kernels for this can read what those for the other can."""
        return set(self.texcoords) >= set(other.texcoords) and self.moved >= other.moved


def channels_of(slot: str) -> str:
    """The channels of its texture that kernels read."""
    return _CHANNELS.get(slot, "rgba" if slot == "base_color_texture" else "rgb")


def read_slots(material: Material, facets: bool) -> Iterator[tuple[str, TextureRef]]:
    """The textures of a material that matter; facets: whether the scene has more than matt surfaces."""
    for name, ref in material.textures():
        layer, _, own = name.rpartition(".")
        if name in UNREAD or (material.unlit and name != "base_color_texture") or not (facets or name in _MATT):
            continue
        if layer and not _there(material, layer):
            continue
        if own == "emissive_texture" and not material.is_emissive:
            continue
        yield name, ref


def _there(material: Material, layer: str) -> bool:
    """Whether a material has an extension's layer at all."""
    if layer == "sheen":
        return max(material.sheen.color) > 0
    if layer == "anisotropy":
        return material.anisotropy.strength > 0
    return bool(getattr(material, layer).factor > 0)


def slots_of(materials: Sequence[Material], facets: bool) -> tuple[Slot, ...]:
    """The slots of a scene with these materials."""
    used: dict[str, list[TextureRef]] = {}
    for material in materials:
        for name, ref in read_slots(material, facets):
            used.setdefault(name, []).append(ref)
    plain = TextureRef(0).matrix
    return tuple(
        Slot(name, tuple(sorted({ref.texcoord for ref in refs})), any((ref.matrix != plain).any() for ref in refs))
        for name, refs in sorted(used.items())
    )


class Pictures:
    """The textures of a material at a place. cone: the ray's, at the place (None: the finest levels are read); cosine: of its angle."""

    def __init__(self, slots: Sequence[Slot], row: Any, place: Between, textures: Textures, cone: RayCone | None, cosine: Any) -> None:
        self.slots = {slot.name: slot for slot in slots}
        self.row, self.place, self.textures, self.cone, self.cosine = row, place, textures, cone, cosine

    def __contains__(self, name: str) -> bool:
        return name in self.slots

    def values(self, name: str, channels: str) -> tuple[Tensor, ...]:
        """What is in channels of a slot; 1 where a material has none."""
        number, uv, width = self._at(self.slots[name])
        return self.textures.sample(number, uv, width, srgb=name in _SRGB, channels=channels)

    def alpha(self) -> Tensor:
        """That of the base colour, at its finest: what a mask leaves of a mean is not the mean of what it leaves."""
        number, uv, _ = self._at(self.slots["base_color_texture"])
        return self.textures.sample(number, uv, channels="a")[0]

    def colour(self, name: str) -> Vec3:
        """The colour in a slot."""
        return Vec3(*self.values(name, "rgb"))

    def normal(self, name: str) -> Vec3:
        """The normal in a slot, in tangent space."""
        number, uv, width = self._at(self.slots[name])
        return self.textures.normal(number, uv, width, self.row[f"{name} strength"])

    def _at(self, slot: Slot) -> tuple[Tensor, tuple[Tensor, Tensor], Any]:
        """The texture's number, the place in it, and the width there of what is seen."""
        (u, v), scale = self.place.texcoord(slot.texcoords[0])
        for texcoord in slot.texcoords[1:]:
            (u2, v2), scale2 = self.place.texcoord(texcoord)
            chosen = self.row[f"{slot.name} set"] == texcoord
            u, v, scale = where(chosen, u2, u), where(chosen, v2, v), where(chosen, scale2, scale)
        number = where(scale < 0, -1, self.row[slot.name].bitcast("int32"))
        width = None if self.cone is None else footprint(self.cone.width, self.cosine, scale)
        if slot.moved:
            matrix = [self.row[f"{slot.name} {part}"] for part in _TRANSFORM]
            u, v = transformed(matrix, (u, v))
            width = None if width is None else width * stretch(matrix)
        return number, (u, v), width
