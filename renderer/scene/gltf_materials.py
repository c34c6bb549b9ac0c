"""Materials of a glTF file: factors read, ranges enforced, extensions folded in.

A value outside its range is clamped with a warning at its own JSON path; a material that does not decode is replaced by
glTF's default one.  Extensions are decoded one by one, so a broken one is lost alone.  What the renderer does not draw
yet (textures) is reported through `unsupported`: once for the file, not once for each of a hundred materials.
Format: Khronos glTF 2.0 specification, section 3.9; KHR_materials_emissive_strength, _specular, _ior, _unlit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import msgspec

from renderer.scene.gltf_json import Diagnostics, Document, PartError, TextureInfo, Vec3, decode_part
from renderer.scene.gltf_json import Material as MaterialJson
from renderer.scene.model import Material

E = TypeVar("E")
Unsupported = Callable[[str, str], None]  # told of the kind and the JSON path of what will not be drawn


class _EmissiveStrength(msgspec.Struct, rename="camel"):
    emissive_strength: float = 1.0


class _Specular(msgspec.Struct, rename="camel"):
    specular_factor: float = 1.0
    specular_color_factor: Vec3 = (1.0, 1.0, 1.0)
    specular_texture: TextureInfo | None = None
    specular_color_texture: TextureInfo | None = None


class _Ior(msgspec.Struct):
    ior: float = 1.5


class _Unlit(msgspec.Struct):
    pass


def read_materials(document: Document, diagnostics: Diagnostics, unsupported: Unsupported) -> list[Material]:
    """All materials of the file, numbered as there."""
    materials = []
    for number in range(len(document.materials)):
        path = f"materials[{number}]"
        try:
            materials.append(_read_material(document, number, path, diagnostics, unsupported))
        except PartError as error:
            diagnostics.skipped(error, path, "is replaced by the default material")
            materials.append(Material())
    return materials


def _read_material(
    document: Document, number: int, path: str, diagnostics: Diagnostics, unsupported: Unsupported
) -> Material:
    source = document.materials.get(number, path)
    factors = source.pbr_metallic_roughness
    strength = _extension(source, "KHR_materials_emissive_strength", _EmissiveStrength, path, diagnostics)
    specular = _extension(source, "KHR_materials_specular", _Specular, path, diagnostics) or _Specular()
    ior = _extension(source, "KHR_materials_ior", _Ior, path, diagnostics)
    unlit = _extension(source, "KHR_materials_unlit", _Unlit, path, diagnostics)
    pbr, extensions = f"{path}.pbrMetallicRoughness", f"{path}.extensions"
    specular_path = f"{extensions}.KHR_materials_specular"
    textures = {
        f"{pbr}.baseColorTexture": factors.base_color_texture,
        f"{pbr}.metallicRoughnessTexture": factors.metallic_roughness_texture,
        f"{path}.normalTexture": source.normal_texture,
        f"{path}.occlusionTexture": source.occlusion_texture,
        f"{path}.emissiveTexture": source.emissive_texture,
        f"{specular_path}.specularTexture": specular.specular_texture,
        f"{specular_path}.specularColorTexture": specular.specular_color_texture,
    }
    for place, texture in textures.items():
        if texture is not None:
            _note_texture(document, texture, place, diagnostics, unsupported)

    def within(value: float, low: float, high: float, where: str) -> float:
        if low <= value <= high:
            return value
        clamped = min(max(value, low), high)
        limits = f"within {low:g} and {high:g}" if math.isfinite(high) else f"{low:g} or more"
        diagnostics.warning(where, f"{value:g} is not {limits}; {clamped:g} is used")
        return clamped

    power = 1.0 if strength is None else strength.emissive_strength
    power = within(power, 0.0, math.inf, f"{extensions}.KHR_materials_emissive_strength.emissiveStrength")
    red, green, blue, alpha = (
        within(value, 0.0, 1.0, f"{pbr}.baseColorFactor[{i}]") for i, value in enumerate(factors.base_color_factor)
    )
    emitted_red, emitted_green, emitted_blue = (
        within(value, 0.0, 1.0, f"{path}.emissiveFactor[{i}]") * power for i, value in enumerate(source.emissive_factor)
    )
    tint_red, tint_green, tint_blue = (
        within(value, 0.0, math.inf, f"{specular_path}.specularColorFactor[{i}]")
        for i, value in enumerate(specular.specular_color_factor)
    )
    index = 1.5 if ior is None else ior.ior
    return Material(
        name=source.name,
        base_color_factor=(red, green, blue, alpha),
        metallic=within(factors.metallic_factor, 0.0, 1.0, f"{pbr}.metallicFactor"),
        roughness=within(factors.roughness_factor, 0.0, 1.0, f"{pbr}.roughnessFactor"),
        emissive=(emitted_red, emitted_green, emitted_blue),
        specular_factor=within(specular.specular_factor, 0.0, 1.0, f"{specular_path}.specularFactor"),
        specular_color_factor=(tint_red, tint_green, tint_blue),
        # 0 is the extension's way of asking for full reflection at every angle.
        ior=index if index == 0.0 else within(index, 1.0, math.inf, f"{extensions}.KHR_materials_ior.ior"),
        unlit=unlit is not None,
        double_sided=source.double_sided,
        alpha_mode=source.alpha_mode,
        alpha_cutoff=within(source.alpha_cutoff, 0.0, math.inf, f"{path}.alphaCutoff"),
    )


def _extension(source: MaterialJson, name: str, kind: type[E], path: str, diagnostics: Diagnostics) -> E | None:
    """A material extension, None where it is absent or (with a warning) malformed."""
    raw = source.extensions.get(name)
    if raw is None:
        return None
    where = f"{path}.extensions.{name}"
    try:
        return decode_part(raw, kind, where)
    except PartError as error:
        diagnostics.skipped(error, where)
        return None


def _note_texture(
    document: Document, texture: TextureInfo, path: str, diagnostics: Diagnostics, unsupported: Unsupported
) -> None:
    """Check that the texture exists, and tell that it is not drawn."""
    try:
        document.textures.check(texture.index, f"{path}.index")
    except PartError as error:
        diagnostics.skipped(error, path)
        return
    unsupported("textures", path)
