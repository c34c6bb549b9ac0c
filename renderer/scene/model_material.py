"""What a surface is made of: glTF's metallic-roughness model with its ratified extensions, as factors and textures.

Every value is the product of a factor and a texture that may be absent. The extensions are small classes of their own, always there;
what each is by default has no effect on light, so nothing needs to ask first whether a material has one, and comparing with the
default tells it. Emission holds KHR_materials_emissive_strength multiplied in. Specular-glossiness, a workflow of older files, is
turned into this one when it is read: its specular colour is exactly a dielectric of index 0 with that specular colour (the meaning
that KHR_materials_ior gives to 0), so kernels know one model.

Colours are linear Rec.709, lengths metres, angles radians; the thickness of a thin film is in nanometres as in the extension.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from renderer.scene.model_texture import TextureRef

Colour = tuple[float, float, float]
WHITE: Colour = (1.0, 1.0, 1.0)
BLACK: Colour = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Clearcoat:
    """A layer of varnish (KHR_materials_clearcoat). `texture`: red; `roughness_texture`: green."""

    factor: float = 0.0
    roughness: float = 0.0
    texture: TextureRef | None = None
    roughness_texture: TextureRef | None = None
    normal_texture: TextureRef | None = None


@dataclass(frozen=True)
class Sheen:
    """Fibres that stand off the surface (KHR_materials_sheen). `color_texture`: RGB; `roughness_texture`: alpha."""

    color: Colour = BLACK
    roughness: float = 0.0
    color_texture: TextureRef | None = None
    roughness_texture: TextureRef | None = None


@dataclass(frozen=True)
class Transmission:
    """Light that passes through (KHR_materials_transmission). `texture`: red."""

    factor: float = 0.0
    texture: TextureRef | None = None


@dataclass(frozen=True)
class DiffuseTransmission:
    """Light that passes through and is spread (KHR_materials_diffuse_transmission). `texture`: alpha; `color_texture`: RGB."""

    factor: float = 0.0
    color: Colour = WHITE
    texture: TextureRef | None = None
    color_texture: TextureRef | None = None


@dataclass(frozen=True)
class Volume:
    """What is behind the surface (KHR_materials_volume). `thickness` 0: nothing, the surface is a thin wall. `thickness_texture`: green.

    White light that has gone `attenuation_distance` has become `attenuation_color`.
    """

    thickness: float = 0.0
    thickness_texture: TextureRef | None = None
    attenuation_distance: float = math.inf
    attenuation_color: Colour = WHITE


@dataclass(frozen=True)
class Iridescence:
    """A thin film (KHR_materials_iridescence), its thickness in nm. `texture`: red; `thickness_texture`: green, from minimum to maximum."""

    factor: float = 0.0
    ior: float = 1.3
    thickness_minimum: float = 100.0
    thickness_maximum: float = 400.0
    texture: TextureRef | None = None
    thickness_texture: TextureRef | None = None


@dataclass(frozen=True)
class Anisotropy:
    """Roughness that differs by direction (KHR_materials_anisotropy). `rotation`: anticlockwise from the tangent.

    `texture`: red and green are the direction within [-1, 1], blue the strength.
    """

    strength: float = 0.0
    rotation: float = 0.0
    texture: TextureRef | None = None


@dataclass(frozen=True)
class Material:
    """One glTF material. `emissive` is linear radiance, its strength multiplied in.

    `base_color_texture`: RGB and alpha; `metallic_roughness_texture`: blue metallic, green roughness; `occlusion_texture`: red;
    `specular_texture`: alpha; `specular_color_texture`: RGB. `dispersion` is 20 / Abbe number.
    """

    name: str = ""
    base_color_factor: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    metallic: float = 1.0
    roughness: float = 1.0
    emissive: Colour = BLACK
    specular_factor: float = 1.0
    specular_color_factor: Colour = WHITE
    ior: float = 1.5
    unlit: bool = False
    double_sided: bool = False
    alpha_mode: str = "OPAQUE"
    alpha_cutoff: float = 0.5
    base_color_texture: TextureRef | None = None
    metallic_roughness_texture: TextureRef | None = None
    normal_texture: TextureRef | None = None
    occlusion_texture: TextureRef | None = None
    emissive_texture: TextureRef | None = None
    specular_texture: TextureRef | None = None
    specular_color_texture: TextureRef | None = None
    clearcoat: Clearcoat = Clearcoat()
    sheen: Sheen = Sheen()
    transmission: Transmission = Transmission()
    diffuse_transmission: DiffuseTransmission = DiffuseTransmission()
    volume: Volume = Volume()
    iridescence: Iridescence = Iridescence()
    anisotropy: Anisotropy = Anisotropy()
    dispersion: float = 0.0

    @property
    def is_emissive(self) -> bool:
        """Whether a surface of this material is a light; one that is unlit shows its base colour and lights nothing."""
        return max(self.emissive) > 0.0 and not self.unlit

    @property
    def shows_back(self) -> bool:
        """Whether there is anything to be met from behind in a scene that is culled, where surfaces with a front only have no back.
        A body has both sides, or nothing that is in it could be seen, and so has a lamp, whose back is dark."""
        return self.double_sided or self.is_emissive or self.transmission.factor > 0 or self.diffuse_transmission.factor > 0

    def textures(self) -> Iterator[tuple[str, TextureRef]]:
        """The slots that have a texture, by name ("base_color_texture", "clearcoat.texture")."""
        for name in SLOTS:
            ref = getattr(self, name)
            if ref is not None:
                yield name, ref
        for layer, names in LAYER_SLOTS.items():
            part = getattr(self, layer)
            if part is not LAYER_DEFAULTS[layer]:
                for name in names:
                    ref = getattr(part, name)
                    if ref is not None:
                        yield f"{layer}.{name}", ref


LAYER_DEFAULTS = {
    name: getattr(Material, name)
    for name in ("clearcoat", "sheen", "transmission", "diffuse_transmission", "volume", "iridescence", "anisotropy")
}
SLOTS = tuple(name for name in Material.__annotations__ if name.endswith("texture"))
LAYER_SLOTS = {
    layer: tuple(name for name in type(default).__annotations__ if name.endswith("texture")) for layer, default in LAYER_DEFAULTS.items()
}
