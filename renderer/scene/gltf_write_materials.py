"""Materials, textures and pictures of a scene as the JSON of a glTF file.

The other direction of `gltf_materials` and `gltf_textures`: a value is written only where it is not glTF's default, an extension only
where one of its values is. Pictures go into the file as the bytes that they were read from; one that the model derives from another
(`Image.recipe`) is decoded and stored as PNG. A picture that is not to be had leaves its texture without a source.

Radiance is factor x strength, the factor within [0, 1]: the strength is the brightest channel where the product is then exact, else the
next power of two, by which division and multiplication are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from renderer.scene.gltf_textures import FILTERS, WRAPS
from renderer.scene.model import Image, Material, Texture
from renderer.scene.model_texture import TextureRef
from renderer.scene.pictures import kind_of, stored

Json = dict[str, Any]

KHR = "KHR_materials_"
DEFAULT = Material()
FILTER_NUMBERS = {filters: number for number, filters in FILTERS.items() if number is not None}
WRAP_NUMBERS = {wrap: number for number, wrap in WRAPS.items()}
WEBP = "EXT_texture_webp"


def material_json(material: Material) -> Json:
    """The JSON of one material."""
    factor, strength = _emission(material.emissive)
    surface = changed(
        baseColorFactor=(material.base_color_factor, DEFAULT.base_color_factor),
        metallicFactor=(material.metallic, DEFAULT.metallic),
        roughnessFactor=(material.roughness, DEFAULT.roughness),
        baseColorTexture=(_slot(material.base_color_texture), None),
        metallicRoughnessTexture=(_slot(material.metallic_roughness_texture), None),
    )
    rest = changed(
        emissiveFactor=(factor, DEFAULT.emissive),
        alphaCutoff=(material.alpha_cutoff, DEFAULT.alpha_cutoff),
        doubleSided=(material.double_sided, DEFAULT.double_sided),
        normalTexture=(_slot(material.normal_texture, "scale"), None),
        occlusionTexture=(_slot(material.occlusion_texture, "strength"), None),
        emissiveTexture=(_slot(material.emissive_texture), None),
    )
    if material.alpha_mode != DEFAULT.alpha_mode or "alphaCutoff" in rest:
        rest["alphaMode"] = material.alpha_mode
    extensions = filled(_layers(material)) | filled({KHR + "emissive_strength": changed(emissiveStrength=(strength, 1.0))})
    extensions |= {KHR + "unlit": {}} if material.unlit else {}
    return named(material.name, filled({"pbrMetallicRoughness": surface, "extensions": dict(sorted(extensions.items()))}) | rest)


def _layers(material: Material) -> Json:
    """The extensions of a material, empty where they say nothing."""
    coat, sheen, volume, film = material.clearcoat, material.sheen, material.volume, material.iridescence
    passed, spread, grain = material.transmission, material.diffuse_transmission, material.anisotropy
    return {
        KHR + "anisotropy": changed(
            anisotropyStrength=(grain.strength, 0.0),
            anisotropyRotation=(grain.rotation, 0.0),
            anisotropyTexture=(_slot(grain.texture), None),
        ),
        KHR + "clearcoat": changed(
            clearcoatFactor=(coat.factor, 0.0),
            clearcoatRoughnessFactor=(coat.roughness, 0.0),
            clearcoatTexture=(_slot(coat.texture), None),
            clearcoatRoughnessTexture=(_slot(coat.roughness_texture), None),
            clearcoatNormalTexture=(_slot(coat.normal_texture, "scale"), None),
        ),
        KHR + "diffuse_transmission": changed(
            diffuseTransmissionFactor=(spread.factor, 0.0),
            diffuseTransmissionColorFactor=(spread.color, DEFAULT.diffuse_transmission.color),
            diffuseTransmissionTexture=(_slot(spread.texture), None),
            diffuseTransmissionColorTexture=(_slot(spread.color_texture), None),
        ),
        KHR + "dispersion": changed(dispersion=(material.dispersion, 0.0)),
        KHR + "ior": changed(ior=(material.ior, DEFAULT.ior)),
        KHR + "iridescence": changed(
            iridescenceFactor=(film.factor, 0.0),
            iridescenceIor=(film.ior, DEFAULT.iridescence.ior),
            iridescenceThicknessMinimum=(film.thickness_minimum, DEFAULT.iridescence.thickness_minimum),
            iridescenceThicknessMaximum=(film.thickness_maximum, DEFAULT.iridescence.thickness_maximum),
            iridescenceTexture=(_slot(film.texture), None),
            iridescenceThicknessTexture=(_slot(film.thickness_texture), None),
        ),
        KHR + "sheen": changed(
            sheenColorFactor=(sheen.color, DEFAULT.sheen.color),
            sheenRoughnessFactor=(sheen.roughness, 0.0),
            sheenColorTexture=(_slot(sheen.color_texture), None),
            sheenRoughnessTexture=(_slot(sheen.roughness_texture), None),
        ),
        KHR + "specular": changed(
            specularFactor=(material.specular_factor, DEFAULT.specular_factor),
            specularColorFactor=(material.specular_color_factor, DEFAULT.specular_color_factor),
            specularTexture=(_slot(material.specular_texture), None),
            specularColorTexture=(_slot(material.specular_color_texture), None),
        ),
        KHR + "transmission": changed(
            transmissionFactor=(passed.factor, 0.0), transmissionTexture=(_slot(passed.texture), None)
        ),
        KHR + "volume": changed(
            thicknessFactor=(volume.thickness, 0.0),
            thicknessTexture=(_slot(volume.thickness_texture), None),
            attenuationDistance=(volume.attenuation_distance, math.inf),
            attenuationColor=(volume.attenuation_color, DEFAULT.volume.attenuation_color),
        ),
    }


def texture_tables(textures: list[Texture], images: list[Image], store: Callable[[bytes], int]) -> Json:
    """The lists `textures`, `samplers` and `images`. `store` puts bytes into the file and returns the number of their buffer view.

    Raises OSError where a picture's file cannot be read any more.
    """
    numbers: dict[int, int] = {}  # of images: here -> in the file, which has only those that can be had
    told_images: list[Json] = []
    for number, image in enumerate(images):
        data = stored(image)
        if data is not None:
            numbers[number] = len(told_images)
            told_images.append(named(image.name, {"bufferView": store(data), "mimeType": kind_of(data)}))
    samplers: list[Json] = []
    told_textures = []
    for texture in textures:
        sampler = changed(
            magFilter=(FILTER_NUMBERS[texture.mag, None], FILTER_NUMBERS["linear", None]),
            minFilter=(FILTER_NUMBERS[texture.min, texture.mip], FILTER_NUMBERS["linear", "linear"]),
            wrapS=(WRAP_NUMBERS[texture.wrap_s], WRAP_NUMBERS["repeat"]),
            wrapT=(WRAP_NUMBERS[texture.wrap_t], WRAP_NUMBERS["repeat"]),
        )
        told: Json = {}
        if sampler:
            if sampler not in samplers:
                samplers.append(sampler)
            told["sampler"] = samplers.index(sampler)
        source = numbers.get(texture.image) if texture.image is not None else None
        if source is not None and told_images[source]["mimeType"] == "image/webp":
            told["extensions"] = {WEBP: {"source": source}}
        elif source is not None:
            told["source"] = source
        told_textures.append(named(texture.name, told))
    return {"textures": told_textures, "samplers": samplers, "images": told_images}


def changed(**values: tuple[Any, Any]) -> Json:
    """Of properties as (value, default) those that are not the default."""
    return {name: value for name, (value, default) in values.items() if value != default}


def filled(values: Json) -> Json:
    """Without empty arrays and objects, which glTF forbids."""
    return {name: value for name, value in values.items() if value not in ([], {})}


def named(name: str, values: Json) -> Json:
    return {"name": name, **values} if name else values


def _slot(ref: TextureRef | None, strength: str = "") -> Json | None:
    """The JSON of a slot; `strength` is what its strength is called there."""
    if ref is None:
        return None
    moved = changed(offset=(ref.offset, (0.0, 0.0)), rotation=(ref.rotation, 0.0), scale=(ref.scale, (1.0, 1.0)))
    told = {"index": ref.texture, **changed(texCoord=(ref.texcoord, 0))}
    told |= changed(**{strength: (ref.strength, 1.0)}) if strength else {}
    return told | ({"extensions": {"KHR_texture_transform": moved}} if moved else {})


def _emission(emissive: tuple[float, float, float]) -> tuple[tuple[float, ...], float]:
    """Radiance as glTF's factor within [0, 1] and strength, whose products are exactly the radiance."""
    brightest = max(emissive)
    if brightest <= 1.0:
        return emissive, 1.0
    factor = tuple(channel / brightest for channel in emissive)
    if tuple(channel * brightest for channel in factor) == emissive:
        return factor, brightest
    power = 2.0 ** math.ceil(math.log2(brightest))
    return tuple(channel / power for channel in emissive), power
