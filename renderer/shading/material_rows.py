"""The table of materials: one row of floats each, and what kernels make of a row.

A scene's materials together say what its kernels must know of the material model (`Look`): a scene of matt surfaces has rows of eight
floats and no code for anything else, one with a lacquered ball has the columns of clearcoat in every row. Which columns a row has, and
where, follows from the look alone (`places`), so that the host that writes rows and the kernels that read them agree by construction.
Rows are filled up to a multiple of four floats.

The first eight floats are in every scene: base colour, two-sided, emission, density of light sampling. Next to them, where surfaces do
more than reflect in all directions alike, stand the values of metallic-roughness, ior and specular; then come, feature by feature, those
of the extensions, with neutral values where a material does not use them. A body's colour by distance is there as its extinction (1/m).

Surfaces without lighting (KHR_materials_unlit) emit their base colour to both sides, whatever shines on them, and end paths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine import Tensor, where
from renderer.scene.model import Material
from renderer.shading.gltf_material import Features, MaterialPoint
from renderer.shading.slots import NORMALS, Number, Pictures, Slot, read_slots, slots_of
from renderer.shading.transmission import extinction
from renderer.vec import Vec3, greater

MATT = Features()
COMMON = 8  # floats that every row has
OPAQUE, BLEND = -1.0, -2.0  # cutoffs that are none
_FACETS = ("metallic", "roughness", "ior", "specular", "specular_red", "specular_green", "specular_blue")
_ALPHA = ("alpha", "cutoff")
_LAYERS = {
    "anisotropy": ("anisotropy", "anisotropy_cosine", "anisotropy_sine"),
    "clearcoat": ("clearcoat", "clearcoat_roughness"),
    "sheen": ("sheen_red", "sheen_green", "sheen_blue", "sheen_roughness"),
    "transmission": ("transmission",),
    "volume": ("thickness", "extinction_red", "extinction_green", "extinction_blue"),
    "dispersion": ("dispersion",),
    "diffuse_transmission": ("diffuse_transmission", "diffuse_red", "diffuse_green", "diffuse_blue"),
    "iridescence": ("iridescence", "iridescence_ior", "iridescence_thickness"),
}

# What slots multiply: channels of their textures and values of the material.
_READ = {
    "metallic_roughness_texture": ("bg", ("metallic", "roughness")),
    "specular_texture": ("a", ("specular",)),
    "clearcoat.texture": ("r", ("clearcoat",)),
    "clearcoat.roughness_texture": ("g", ("clearcoat_roughness",)),
    "sheen.roughness_texture": ("a", ("sheen_roughness",)),
    "transmission.texture": ("r", ("transmission",)),
    "diffuse_transmission.texture": ("a", ("diffuse_transmission",)),
    "iridescence.texture": ("r", ("iridescence",)),
}
_READ_COLOURS = {
    "specular_color_texture": "specular_color",
    "sheen.color_texture": "sheen_color",
    "diffuse_transmission.color_texture": "diffuse_transmission_color",
}


@dataclass(frozen=True)
class Look:
    """What kernels know of the materials of a scene. facets: not all is matt; layers: the extensions in it (with facets); alpha: some
    surfaces let light pass as if they were not there; unlit: some end paths; slots: the textures."""

    facets: bool = False
    layers: Features = MATT
    alpha: bool = False
    unlit: bool = False
    slots: tuple[Slot, ...] = ()

    def covers(self, other: Look) -> bool:
        """Whether kernels for this look can draw all that those for the other can."""
        return not self.lacks(other)

    def lacks(self, other: Look) -> list[str]:
        """The names of features and slots that the other has and this has not (or not as the other needs them)."""
        mine, theirs = _parts(self), _parts(other)
        slots = {slot.name: slot for slot in self.slots}
        unread = [slot.name for slot in other.slots if slot.name not in slots or not slots[slot.name].covers(slot)]
        return [name for name in mine if theirs[name] and not mine[name]] + unread

    @property
    def texcoords(self) -> tuple[int, ...]:
        """The sets of texture coordinates that are used."""
        return tuple(sorted({texcoord for slot in self.slots for texcoord in slot.texcoords}))

    def has(self, slot: str) -> bool:
        """Whether kernels read a slot."""
        return any(each.name == slot for each in self.slots)

    @property
    def directed(self) -> bool:
        """Whether surfaces have a direction, the tangent."""
        return self.layers.anisotropy or any(self.has(slot) for slot in NORMALS)

    @property
    def lamps_are_plain(self) -> bool:
        """Whether the light of an emissive triangle is what its row says, and nothing on the way changes it."""
        return not (self.alpha or self.unlit or self.layers.volume or self.layers.clearcoat or self.has("emissive_texture"))


PLAIN = Look()


def _parts(look: Look) -> dict[str, bool]:
    return {
        "facets": look.facets,
        "alpha": look.alpha,
        "unlit": look.unlit,
        **{f.name: getattr(look.layers, f.name) for f in fields(look.layers)},
    }


def look_of(materials: Sequence[Material], transparent: bool) -> Look:
    """The look of a scene with these materials; transparent: vertices have an alpha that is not 1."""
    lit = [m for m in materials if not m.unlit]
    bodies = [m for m in lit if m.volume.thickness > 0 and (m.transmission.factor > 0 or m.diffuse_transmission.factor > 0)]
    layers = Features(
        anisotropy=any(m.anisotropy.strength > 0 for m in lit),
        clearcoat=any(m.clearcoat.factor > 0 for m in lit),
        clearcoat_normal=any(m.clearcoat.factor > 0 and (m.normal_texture or m.clearcoat.normal_texture) is not None for m in lit),
        sheen=any(max(m.sheen.color) > 0 for m in lit),
        transmission=any(m.transmission.factor > 0 for m in lit),
        volume=bool(bodies),
        dispersion=any(m.dispersion > 0 and m.transmission.factor > 0 for m in bodies),
        diffuse_transmission=any(m.diffuse_transmission.factor > 0 for m in lit),
        iridescence=any(m.iridescence.factor > 0 for m in lit),
    )
    facets = layers != MATT or any(m.metallic > 0 or m.specular_factor > 0 for m in lit)
    alpha = any(_lets_pass(m, transparent) for m in materials)
    return Look(facets, layers, alpha, len(lit) < len(materials), slots_of(materials, facets))


def _lets_pass(m: Material, transparent: bool) -> bool:
    """Whether light may pass a surface as if it were not there."""
    if m.alpha_mode == "OPAQUE":
        return False
    least = 0.0 if transparent or m.base_color_texture is not None else m.base_color_factor[3]
    return least < (m.alpha_cutoff if m.alpha_mode == "MASK" else 1.0)


def places(look: Look) -> dict[str, int]:
    """The column of each value that rows have behind the first eight floats."""
    names = [*(_FACETS if look.facets else ()), *(["unlit"] if look.unlit else ()), *(_ALPHA if look.alpha else ())]
    for feature, columns in _LAYERS.items():
        names += columns if getattr(look.layers, feature) else ()
    for slot in look.slots:
        names += slot.columns()
    if look.has("iridescence.thickness_texture"):
        names.append("iridescence_least")
    return {name: COMMON + k for k, name in enumerate(names)}


def width_of(look: Look) -> int:
    """Floats of a row."""
    return -(-(COMMON + len(places(look))) // 4) * 4


def material_rows(materials: Sequence[Material], look: Look, density: NDArray[np.float64], number: Number) -> NDArray[np.float32]:
    """float32[m, width_of(look)]; density: of light sampling by area, 1/m2, for each material; number: of the texture in a slot."""
    rows = np.zeros((len(materials), width_of(look)), np.float32)
    place = places(look)
    for row, m, d in zip(rows, materials, density, strict=True):
        row[:3] = m.base_color_factor[:3]
        row[3] = 1.0 if m.double_sided or m.unlit else 0.0
        row[4:7] = m.base_color_factor[:3] if m.unlit else m.emissive
        row[7] = 0.0 if m.unlit else d
        values = _values(m)
        refs = dict(read_slots(m, look.facets))
        for slot in look.slots:
            values |= slot.values(refs.get(slot.name), number, m.alpha_mode != "OPAQUE")
        for name, column in place.items():
            row[column] = values[name]
    return rows


def _values(m: Material) -> dict[str, float]:
    """All that the columns of a row may be asked for."""
    cutoff = {"MASK": m.alpha_cutoff, "BLEND": BLEND}.get(m.alpha_mode, OPAQUE)
    body = m.volume.thickness > 0
    far = m.volume.attenuation_distance if body else math.inf
    return {
        "metallic": m.metallic,
        "roughness": m.roughness,
        "ior": m.ior,
        "specular": m.specular_factor,
        **_colour("specular", m.specular_color_factor),
        "unlit": 1.0 if m.unlit else 0.0,
        "alpha": m.base_color_factor[3],
        "cutoff": cutoff,
        "anisotropy": m.anisotropy.strength,
        "anisotropy_cosine": math.cos(m.anisotropy.rotation),
        "anisotropy_sine": math.sin(m.anisotropy.rotation),
        "clearcoat": m.clearcoat.factor,
        "clearcoat_roughness": m.clearcoat.roughness,
        **_colour("sheen", m.sheen.color),
        "sheen_roughness": m.sheen.roughness,
        "transmission": m.transmission.factor,
        "thickness": m.volume.thickness,
        **_colour("extinction", extinction(m.volume.attenuation_color, far)),
        "dispersion": m.dispersion if body else 0.0,
        "diffuse_transmission": m.diffuse_transmission.factor,
        **_colour("diffuse", m.diffuse_transmission.color),
        "iridescence": m.iridescence.factor,
        "iridescence_ior": m.iridescence.ior,
        "iridescence_thickness": m.iridescence.thickness_maximum,
        "iridescence_least": m.iridescence.thickness_minimum,
    }


def _colour(name: str, value: Sequence[float]) -> dict[str, float]:
    return {f"{name}_{channel}": part for channel, part in zip(("red", "green", "blue"), value, strict=True)}


class Row:
    """A row as kernels read it: the values by their names. Columns that nobody asks for cost nothing."""

    def __init__(self, look: Look, table: Tensor, number: Tensor) -> None:
        self.look, self._places = look, places(look)
        self.floats = [table[number, k] for k in range(width_of(look))]

    def __getitem__(self, name: str) -> Tensor:
        return self.floats[self._places[name]]

    def colour(self, name: str) -> Vec3:
        """The three columns of a colour."""
        return Vec3(*(self[f"{name}_{channel}"] for channel in ("red", "green", "blue")))

    def opacity(self, alpha: Tensor) -> Tensor:
        """The chance that light does not pass where the material has this alpha (with the look's alpha)."""
        cutoff = self["cutoff"]
        return where(cutoff >= 0, where(alpha >= cutoff, 1.0, 0.0), where(cutoff > (OPAQUE + BLEND) / 2, 1.0, alpha))

    def point(self, base_color: Vec3, pictures: Pictures | None) -> MaterialPoint:
        """The material (with the look's facets) of this colour; what dispersion draws for a path and a clearcoat's normal are not in it."""
        layers = self.look.layers
        values: dict[str, Any] = {name: self[name] for name in ("metallic", "roughness", "ior", "specular")}
        values["specular_color"] = self.colour("specular")
        for feature, columns in _LAYERS.items():
            if getattr(layers, feature):
                values |= {name: self[name] for name in columns if name in MaterialPoint._fields}
        if layers.anisotropy:
            values["anisotropy_direction"] = (self["anisotropy_cosine"], self["anisotropy_sine"])
        if layers.sheen:
            values["sheen_color"] = self.colour("sheen")
        if layers.diffuse_transmission:
            values["diffuse_transmission_color"] = self.colour("diffuse")
        if pictures is not None:
            self._read(values, pictures)
        return MaterialPoint(base_color, **values)

    def _read(self, values: dict[str, Any], pictures: Pictures) -> None:
        """Multiplies values by what the textures say."""
        for slot, (channels, names) in _READ.items():
            if slot in pictures:
                for name, texel in zip(names, pictures.values(slot, channels), strict=True):
                    values[name] = values[name] * texel
        for slot, name in _READ_COLOURS.items():
            if slot in pictures:
                values[name] = values[name] * pictures.colour(slot)
        if "iridescence.thickness_texture" in pictures:
            (share,) = pictures.values("iridescence.thickness_texture", "g")
            least = self["iridescence_least"]
            values["iridescence_thickness"] = least + (values["iridescence_thickness"] - least) * share
        if "anisotropy.texture" in pictures:
            x, y, strength = pictures.values("anisotropy.texture", "rgb")
            there = self["anisotropy.texture"].bitcast("int32") >= 0
            x, y = where(there, x * 2.0 - 1.0, 1.0), where(there, y * 2.0 - 1.0, 0.0)
            scale = 1.0 / greater(x * x + y * y, 1e-12).sqrt()
            cosine, sine = values["anisotropy_direction"]
            values["anisotropy_direction"] = ((x * cosine - y * sine) * scale, (x * sine + y * cosine) * scale)
            values["anisotropy"] = values["anisotropy"] * strength
