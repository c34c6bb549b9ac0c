"""Materials of a glTF file: factors and textures read, ranges enforced, extensions folded in.

A value outside its range is clamped with a warning at its own JSON path; a material that does not decode is replaced by
glTF's default one.  Extensions are decoded one by one, so a broken one is lost alone.

Specular-glossiness becomes metallic-roughness: diffuse is the base colour of a dielectric of index 0, whose reflection
at normal incidence is its specular colour; the roughness is one minus the glossiness, and where that is a texture's
alpha a picture is derived.  Format: Khronos glTF 2.0 specification, section 3.9, and its KHR_materials extensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from renderer.scene.gltf_json import Diagnostics, Document, PartError, TextureInfo, Vec3, Vec4, decode_part, within
from renderer.scene.gltf_json import Material as MaterialJson
from renderer.scene.gltf_textures import TextureReader
from renderer.scene.model_material import (
    Anisotropy,
    Clearcoat,
    Colour,
    DiffuseTransmission,
    Iridescence,
    Material,
    Sheen,
    Transmission,
    Volume,
)
from renderer.scene.model_texture import TextureRef

Changes = dict[str, Any]  # of a material's fields
ONES, ZEROS = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)


class _Object(msgspec.Struct, rename="camel"):
    pass


class _EmissiveStrength(_Object):
    emissive_strength: float = 1.0


class _Specular(_Object):
    specular_factor: float = 1.0
    specular_color_factor: Vec3 = ONES
    specular_texture: TextureInfo | None = None
    specular_color_texture: TextureInfo | None = None


class _Ior(_Object):
    ior: float = 1.5


class _Unlit(_Object):
    pass


class _Clearcoat(_Object):
    clearcoat_factor: float = 0.0
    clearcoat_roughness_factor: float = 0.0
    clearcoat_texture: TextureInfo | None = None
    clearcoat_roughness_texture: TextureInfo | None = None
    clearcoat_normal_texture: TextureInfo | None = None


class _Sheen(_Object):
    sheen_color_factor: Vec3 = ZEROS
    sheen_roughness_factor: float = 0.0
    sheen_color_texture: TextureInfo | None = None
    sheen_roughness_texture: TextureInfo | None = None


class _Transmission(_Object):
    transmission_factor: float = 0.0
    transmission_texture: TextureInfo | None = None


class _DiffuseTransmission(_Object):
    diffuse_transmission_factor: float = 0.0
    diffuse_transmission_color_factor: Vec3 = ONES
    diffuse_transmission_texture: TextureInfo | None = None
    diffuse_transmission_color_texture: TextureInfo | None = None


class _Volume(_Object):
    thickness_factor: float = 0.0
    thickness_texture: TextureInfo | None = None
    attenuation_distance: float | None = None
    attenuation_color: Vec3 = ONES


class _Iridescence(_Object):
    iridescence_factor: float = 0.0
    iridescence_ior: float = 1.3
    iridescence_thickness_minimum: float = 100.0
    iridescence_thickness_maximum: float = 400.0
    iridescence_texture: TextureInfo | None = None
    iridescence_thickness_texture: TextureInfo | None = None


class _Anisotropy(_Object):
    anisotropy_strength: float = 0.0
    anisotropy_rotation: float = 0.0
    anisotropy_texture: TextureInfo | None = None


class _Dispersion(_Object):
    dispersion: float = 0.0


class _SpecularGlossiness(_Object):
    diffuse_factor: Vec4 = (1.0, 1.0, 1.0, 1.0)
    specular_factor: Vec3 = ONES
    glossiness_factor: float = 1.0
    diffuse_texture: TextureInfo | None = None
    specular_glossiness_texture: TextureInfo | None = None


def read_materials(document: Document, diagnostics: Diagnostics, textures: TextureReader) -> list[Material]:
    """All materials of the file, numbered as there."""
    materials = []
    for number in range(len(document.materials)):
        path = f"materials[{number}]"
        try:
            source = document.materials.get(number, path)
            materials.append(_Reading(source, path, diagnostics, textures).material())
        except PartError as error:
            diagnostics.skipped(error, path, "is replaced by the default material")
            materials.append(Material())
    return materials


class _Reading:
    """One material being read."""

    def __init__(self, source: MaterialJson, path: str, diagnostics: Diagnostics, textures: TextureReader) -> None:
        self.source, self.path, self.diagnostics, self.textures = source, path, diagnostics, textures

    def material(self) -> Material:
        """The material without its extensions, then with each that the file gives it."""
        source, path = self.source, self.path
        surface, pbr = source.pbr_metallic_roughness, f"{path}.pbrMetallicRoughness"
        found = Material(
            name=source.name,
            base_color_factor=self.rgba(surface.base_color_factor, f"{pbr}.baseColorFactor"),
            metallic=self.within(surface.metallic_factor, 0.0, 1.0, f"{pbr}.metallicFactor"),
            roughness=self.within(surface.roughness_factor, 0.0, 1.0, f"{pbr}.roughnessFactor"),
            emissive=self.colour(source.emissive_factor, 1.0, f"{path}.emissiveFactor"),
            double_sided=source.double_sided,
            alpha_mode=source.alpha_mode,
            alpha_cutoff=self.within(source.alpha_cutoff, 0.0, math.inf, f"{path}.alphaCutoff"),
            base_color_texture=self.textures.ref(surface.base_color_texture, f"{pbr}.baseColorTexture"),
            metallic_roughness_texture=self.textures.ref(surface.metallic_roughness_texture, f"{pbr}.metallicRoughnessTexture"),
            normal_texture=self.normal(source.normal_texture, f"{path}.normalTexture"),
            occlusion_texture=self.occlusion(source.occlusion_texture, f"{path}.occlusionTexture"),
            emissive_texture=self.textures.ref(source.emissive_texture, f"{path}.emissiveTexture"),
        )
        for name, raw in source.extensions.items():
            read = EXTENSIONS.get(name)
            if read is None:
                continue
            kind, take = read
            at = f"{path}.extensions.{name}"
            try:
                found = replace(found, **take(self, decode_part(raw, kind, at), at))
            except PartError as error:
                self.diagnostics.skipped(error, at)
        return found

    def within(self, value: float, low: float, high: float, path: str) -> float:
        return within(value, low, high, path, self.diagnostics)

    def colour(self, values: Vec3, high: float, path: str) -> Colour:
        red, green, blue = (self.within(value, 0.0, high, f"{path}[{i}]") for i, value in enumerate(values))
        return red, green, blue

    def rgba(self, values: Vec4, path: str) -> Vec4:
        red, green, blue, alpha = (self.within(value, 0.0, 1.0, f"{path}[{i}]") for i, value in enumerate(values))
        return red, green, blue, alpha

    def normal(self, info: TextureInfo | None, path: str) -> TextureRef | None:
        return self.textures.ref(info, path, info.scale if info else 1.0)

    def occlusion(self, info: TextureInfo | None, path: str) -> TextureRef | None:
        return self.textures.ref(info, path, self.within(info.strength, 0.0, 1.0, f"{path}.strength") if info else 1.0)


def _emissive_strength(of: _Reading, told: _EmissiveStrength, at: str) -> Changes:
    power = of.within(told.emissive_strength, 0.0, math.inf, f"{at}.emissiveStrength")
    red, green, blue = (min(max(channel, 0.0), 1.0) * power for channel in of.source.emissive_factor)
    return {"emissive": (red, green, blue)}


def _specular(of: _Reading, told: _Specular, at: str) -> Changes:
    return {
        "specular_factor": of.within(told.specular_factor, 0.0, 1.0, f"{at}.specularFactor"),
        "specular_color_factor": of.colour(told.specular_color_factor, math.inf, f"{at}.specularColorFactor"),
        "specular_texture": of.textures.ref(told.specular_texture, f"{at}.specularTexture"),
        "specular_color_texture": of.textures.ref(told.specular_color_texture, f"{at}.specularColorTexture"),
    }


def _ior(of: _Reading, told: _Ior, at: str) -> Changes:
    # 0 is the extension's way of asking for full reflection at every angle.
    return {"ior": told.ior if told.ior == 0.0 else of.within(told.ior, 1.0, math.inf, f"{at}.ior")}


def _unlit(of: _Reading, told: _Unlit, at: str) -> Changes:
    return {"unlit": True}


def _clearcoat(of: _Reading, told: _Clearcoat, at: str) -> Changes:
    layer = Clearcoat(
        of.within(told.clearcoat_factor, 0.0, 1.0, f"{at}.clearcoatFactor"),
        of.within(told.clearcoat_roughness_factor, 0.0, 1.0, f"{at}.clearcoatRoughnessFactor"),
        of.textures.ref(told.clearcoat_texture, f"{at}.clearcoatTexture"),
        of.textures.ref(told.clearcoat_roughness_texture, f"{at}.clearcoatRoughnessTexture"),
        of.normal(told.clearcoat_normal_texture, f"{at}.clearcoatNormalTexture"),
    )
    return {"clearcoat": layer}


def _sheen(of: _Reading, told: _Sheen, at: str) -> Changes:
    layer = Sheen(
        of.colour(told.sheen_color_factor, 1.0, f"{at}.sheenColorFactor"),
        of.within(told.sheen_roughness_factor, 0.0, 1.0, f"{at}.sheenRoughnessFactor"),
        of.textures.ref(told.sheen_color_texture, f"{at}.sheenColorTexture"),
        of.textures.ref(told.sheen_roughness_texture, f"{at}.sheenRoughnessTexture"),
    )
    return {"sheen": layer}


def _transmission(of: _Reading, told: _Transmission, at: str) -> Changes:
    factor = of.within(told.transmission_factor, 0.0, 1.0, f"{at}.transmissionFactor")
    return {"transmission": Transmission(factor, of.textures.ref(told.transmission_texture, f"{at}.transmissionTexture"))}


def _diffuse_transmission(of: _Reading, told: _DiffuseTransmission, at: str) -> Changes:
    layer = DiffuseTransmission(
        of.within(told.diffuse_transmission_factor, 0.0, 1.0, f"{at}.diffuseTransmissionFactor"),
        of.colour(told.diffuse_transmission_color_factor, 1.0, f"{at}.diffuseTransmissionColorFactor"),
        of.textures.ref(told.diffuse_transmission_texture, f"{at}.diffuseTransmissionTexture"),
        of.textures.ref(told.diffuse_transmission_color_texture, f"{at}.diffuseTransmissionColorTexture"),
    )
    return {"diffuse_transmission": layer}


def _volume(of: _Reading, told: _Volume, at: str) -> Changes:
    distance = math.inf
    if told.attenuation_distance is not None and told.attenuation_distance > 0.0:
        distance = told.attenuation_distance
    elif told.attenuation_distance is not None:
        of.diagnostics.warning(f"{at}.attenuationDistance", f"{told.attenuation_distance:g} is not positive; nothing is absorbed")
    layer = Volume(
        of.within(told.thickness_factor, 0.0, math.inf, f"{at}.thicknessFactor"),
        of.textures.ref(told.thickness_texture, f"{at}.thicknessTexture"),
        distance,
        of.colour(told.attenuation_color, 1.0, f"{at}.attenuationColor"),
    )
    return {"volume": layer}


def _iridescence(of: _Reading, told: _Iridescence, at: str) -> Changes:
    layer = Iridescence(
        of.within(told.iridescence_factor, 0.0, 1.0, f"{at}.iridescenceFactor"),
        of.within(told.iridescence_ior, 1.0, math.inf, f"{at}.iridescenceIor"),
        of.within(told.iridescence_thickness_minimum, 0.0, math.inf, f"{at}.iridescenceThicknessMinimum"),
        of.within(told.iridescence_thickness_maximum, 0.0, math.inf, f"{at}.iridescenceThicknessMaximum"),
        of.textures.ref(told.iridescence_texture, f"{at}.iridescenceTexture"),
        of.textures.ref(told.iridescence_thickness_texture, f"{at}.iridescenceThicknessTexture"),
    )
    return {"iridescence": layer}


def _anisotropy(of: _Reading, told: _Anisotropy, at: str) -> Changes:
    layer = Anisotropy(
        of.within(told.anisotropy_strength, 0.0, 1.0, f"{at}.anisotropyStrength"),
        told.anisotropy_rotation,
        of.textures.ref(told.anisotropy_texture, f"{at}.anisotropyTexture"),
    )
    return {"anisotropy": layer}


def _dispersion(of: _Reading, told: _Dispersion, at: str) -> Changes:
    return {"dispersion": of.within(told.dispersion, 0.0, math.inf, f"{at}.dispersion")}


def _specular_glossiness(of: _Reading, told: _SpecularGlossiness, at: str) -> Changes:
    glossiness = of.within(told.glossiness_factor, 0.0, 1.0, f"{at}.glossinessFactor")
    both = of.textures.ref(told.specular_glossiness_texture, f"{at}.specularGlossinessTexture")
    rough = None if both is None else replace(both, texture=of.textures.derived(both.texture, "glossiness", glossiness))
    return {
        "base_color_factor": of.rgba(told.diffuse_factor, f"{at}.diffuseFactor"),
        "base_color_texture": of.textures.ref(told.diffuse_texture, f"{at}.diffuseTexture"),
        "metallic": 0.0,
        "roughness": 1.0 - glossiness if rough is None else 1.0,
        "metallic_roughness_texture": rough,
        "ior": 0.0,
        "specular_color_factor": of.colour(told.specular_factor, 1.0, f"{at}.specularFactor"),
        "specular_color_texture": both,
    }


EXTENSIONS: dict[str, tuple[type[Any], Callable[[_Reading, Any, str], Changes]]] = {
    "KHR_materials_anisotropy": (_Anisotropy, _anisotropy),
    "KHR_materials_clearcoat": (_Clearcoat, _clearcoat),
    "KHR_materials_diffuse_transmission": (_DiffuseTransmission, _diffuse_transmission),
    "KHR_materials_dispersion": (_Dispersion, _dispersion),
    "KHR_materials_emissive_strength": (_EmissiveStrength, _emissive_strength),
    "KHR_materials_ior": (_Ior, _ior),
    "KHR_materials_iridescence": (_Iridescence, _iridescence),
    "KHR_materials_pbrSpecularGlossiness": (_SpecularGlossiness, _specular_glossiness),
    "KHR_materials_sheen": (_Sheen, _sheen),
    "KHR_materials_specular": (_Specular, _specular),
    "KHR_materials_transmission": (_Transmission, _transmission),
    "KHR_materials_unlit": (_Unlit, _unlit),
    "KHR_materials_volume": (_Volume, _volume),
}
