"""Every field of a material, as something that a person can set: what it is called, between which values, in which group.

The fields themselves are not listed here: they are those of `Material` and of its layers, in the order in which these have them, found by
`paths` ("roughness", "clearcoat.factor"). How a value is set follows from what it is: a switch, a colour, one of several words, a number.
What the model cannot tell, the name, the limits, the unit and a sentence of help, stands in CONTROLS, one line for each path; so a field
that is added to the model is seen to be missing there (a test compares, and knows the few exceptions from WITHOUT).

Textures are named by their slots, and need no line: a slot's label is made of its name. A group is a layer, or has several fields of the
material itself; a layer that is added to the model makes a group of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from renderer.scene.model_material import LAYER_DEFAULTS, LAYER_SLOTS, SLOTS, Material
from renderer.scene.model_texture import TextureRef

DEGREES = math.degrees(1.0)  # in a radian


@dataclass(frozen=True)
class Control:
    """How a field is shown. low, high: the ends of its slider, for what is shown; the value may lie beyond `high` in a file, then the
    slider goes as far. unit: what is shown, of one of the value's. drag: no slider, for values without a natural end. endless: what an
    infinite value is called; it is set by 0. options: of a word, what each value is called."""

    label: str
    tip: str
    low: float = 0.0
    high: float = 1.0
    form: str = "%.3f"
    unit: float = 1.0
    drag: bool = False
    endless: str = ""
    options: tuple[tuple[str, str], ...] = ()


ALPHA_MODES = (("OPAQUE", "opaque"), ("MASK", "mask"), ("BLEND", "blend"))
FARTHEST = 1e6  # m
BRIGHTEST = 1e6  # W/(sr m2)
CONTROLS = {
    "base_color_factor": Control("Colour", "Base colour: of a metal its reflection, of anything else its body"),
    "metallic": Control("Metallic", "0: not a metal, 1: a metal"),
    "roughness": Control("Roughness", "0: a mirror, 1: as dull as can be"),
    "emissive": Control("Emission", "The emitted light's colour; its brightest channel counts as 1", 0.0, BRIGHTEST),
    "specular_factor": Control("Specular", "Strength of the reflection of what is not a metal"),
    "specular_color_factor": Control("Spec. colour", "Colour of the reflection of what is not a metal, seen from the front"),
    "ior": Control("IOR", "Index of refraction: 1 reflects nothing, water 1.33, glass 1.5, diamond 2.4", 1.0, 3.0),
    "unlit": Control("Unlit", "Shows its colour as it is, without light and shadow"),
    "double_sided": Control("Double sided", "Its back looks (and shines) like its front"),
    "alpha_mode": Control("Alpha", "Whether the material lets through what is behind it", options=ALPHA_MODES),
    "alpha_cutoff": Control("Cutoff", "With a mask: where alpha is below this there is a hole"),
    "clearcoat.factor": Control("Strength", "How much of the surface has a layer of varnish; 0: none"),
    "clearcoat.roughness": Control("Roughness", "Of the varnish: 0 a mirror, 1 as dull as can be"),
    "sheen.color": Control("Colour", "Of the fibres that stand off the surface; black: there are none"),
    "sheen.roughness": Control("Roughness", "0: fibres that stand upright, seen at the rim only; 1: in all directions"),
    "transmission.factor": Control("Strength", "How much of the light that enters goes through; 0: none"),
    "diffuse_transmission.factor": Control("Strength", "How much of the light goes through and is spread, as by paper; 0: none"),
    "diffuse_transmission.color": Control("Colour", "Of the light that goes through"),
    "volume.thickness": Control("Thickness", "0: a thin wall; above: a body, m", 0.0, FARTHEST, "%.4g m", drag=True),
    "volume.attenuation_distance": Control(
        "Distance", "Where white light in the body has become its colour. 0: never", 0.0, FARTHEST, "%.4g m", drag=True, endless="endless"
    ),
    "volume.attenuation_color": Control("Colour", "Which white light in the body has after the distance"),
    "iridescence.factor": Control("Strength", "How much of the surface has a thin film; 0: none"),
    "iridescence.ior": Control("IOR", "Index of refraction of the film", 1.0, 3.0),
    "iridescence.thickness_minimum": Control("Thinnest", "Where the texture is black, nm", 0.0, 1200.0, "%.0f nm"),
    "iridescence.thickness_maximum": Control("Thickness", "Of the film; with a texture, where that is white, nm", 0.0, 1200.0, "%.0f nm"),
    "anisotropy.strength": Control("Strength", "How much longer highlights are along one direction; 0: not at all"),
    "anisotropy.rotation": Control("Rotation", "Of that direction from the tangent, anticlockwise", -180.0, 180.0, "%.0f°", DEGREES),
    "dispersion": Control("Dispersion", "How far a body's colours are refracted apart: 20 / Abbe number. 0: not, diamond 0.36", 0.0, 5.0),
}  # fmt: skip

# Fields that have no control, and why.
WITHOUT = {"name": "by it the viewer tells materials apart, and undo its steps"}

# The groups of the material's own fields; a layer is a group of its own.
GROUPS = {
    "base_color_factor": "Surface", "metallic": "Surface", "roughness": "Surface", "base_color_texture": "Surface",
    "metallic_roughness_texture": "Surface", "normal_texture": "Surface", "occlusion_texture": "Surface", "emissive": "Emission",
    "emissive_texture": "Emission", "ior": "Specular", "specular_factor": "Specular", "specular_color_factor": "Specular",
    "specular_texture": "Specular", "specular_color_texture": "Specular", "alpha_mode": "Opacity and sides",
    "alpha_cutoff": "Opacity and sides", "double_sided": "Opacity and sides", "unlit": "Opacity and sides", "dispersion": "Transmission",
}  # fmt: skip
SLOT_LABELS = {
    "base_color_texture": "Colour map", "metallic_roughness_texture": "Metal, rough", "color_texture": "Colour map",
    "specular_color_texture": "Colour map", "specular_texture": "Strength map", "texture": "Strength map", "occlusion_texture": "Occlusion",
}  # fmt: skip


def paths() -> Iterator[str]:
    """All fields of a material and of its layers, textures included."""
    for part in fields(Material):
        if part.name in LAYER_DEFAULTS:
            yield from (f"{part.name}.{own.name}" for own in fields(LAYER_DEFAULTS[part.name]))
        else:
            yield part.name


def slots() -> list[str]:
    """Those that are textures."""
    return [*SLOTS, *(f"{layer}.{name}" for layer, names in LAYER_SLOTS.items() for name in names)]


def groups() -> dict[str, list[str]]:
    """The fields of each group, by its title, those with a control first and then the textures."""
    found: dict[str, list[str]] = {}
    textures = slots()
    for path in sorted((path for path in paths() if path not in WITHOUT), key=textures.__contains__):
        layer, _, _ = path.rpartition(".")
        title = layer.replace("_", " ").capitalize() if layer else GROUPS[path]
        found.setdefault(title, []).append(path)
    return found


def slot_label(path: str) -> str:
    """What a slot is called within its group."""
    own = path.rpartition(".")[2]
    return SLOT_LABELS.get(own, own.removesuffix("_texture").replace("_", " ").capitalize() + " map")


def value_of(material: Material, path: str) -> Any:
    """The value of a field."""
    layer, _, own = path.rpartition(".")
    return getattr(getattr(material, layer) if layer else material, own)


def with_value(material: Material, path: str, value: object) -> Material:
    """The material with another value of a field."""
    layer, _, own = path.rpartition(".")
    changed = {layer: replace(getattr(material, layer), **{own: value})} if layer else {own: value}
    return replace(material, **changed)


def with_texture(material: Material, path: str, texture: int | None) -> Material:
    """The material with another texture in a slot, placed like the one before; None: with none."""
    before = value_of(material, path)
    ref = None if texture is None else TextureRef(texture) if before is None else replace(before, texture=texture)
    return with_value(material, path, ref)
