"""Materials, textures and lights of glTF files: what the model holds of them, and what becomes of what is wrong."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from renderer.scene.model import Light, Material, Scene, SceneError, Texture
from renderer.scene.model_material import Anisotropy, Clearcoat, DiffuseTransmission, Iridescence, Sheen, Transmission, Volume
from renderer.scene.model_texture import TextureRef
from renderer.scene.summary import summary
from tests.renderer.helpers.gltf_file import QUAD, QUAD_INDICES, File, one_quad
from tests.renderer.helpers.picture_files import png

KHR = "KHR_materials_"
LIGHTS = "KHR_lights_punctual"


def textured(material: dict[str, Any], textures: int = 1, **top: Any) -> File:
    """A square with that material, coordinates and a picture for each texture."""
    file = File(materials=[material], textures=[{"source": k} for k in range(textures)], **top)
    file.json["images"] = [
        {"bufferView": file.view(png(np.full((2, 3, 3), 10 * k, np.uint8))), "mimeType": "image/png"} for k in range(textures)
    ]
    uv = file.accessor(QUAD[:, :2], kind="VEC2")
    attributes = {"POSITION": file.accessor(QUAD), "TEXCOORD_0": uv, "TEXCOORD_1": uv}
    indices = file.accessor(QUAD_INDICES, 5123, "SCALAR")
    file.node(mesh=file.mesh({"attributes": attributes, "indices": indices, "material": 0}))
    return file


def honest(scene: Scene) -> list[str]:
    """The warnings but for those of what is not drawn yet."""
    return [text for text in scene.warnings if "yet" not in text]


def test_every_texture_of_a_material_is_held_with_its_place(tmp_path: Path) -> None:
    def slot(index: int, **more: Any) -> dict[str, Any]:
        return {"index": index, **more}

    extensions = {
        KHR + "anisotropy": {"anisotropyStrength": 0.5, "anisotropyRotation": 2.0, "anisotropyTexture": slot(5)},
        KHR + "clearcoat": {
            "clearcoatFactor": 0.7,
            "clearcoatRoughnessFactor": 0.2,
            "clearcoatTexture": slot(6),
            "clearcoatRoughnessTexture": slot(7),
            "clearcoatNormalTexture": slot(8, scale=0.5),
        },
        KHR + "diffuse_transmission": {
            "diffuseTransmissionFactor": 0.3,
            "diffuseTransmissionColorFactor": [0.1, 0.2, 0.3],
            "diffuseTransmissionTexture": slot(9),
            "diffuseTransmissionColorTexture": slot(10),
        },
        KHR + "dispersion": {"dispersion": 0.4},
        KHR + "emissive_strength": {"emissiveStrength": 4.0},
        KHR + "ior": {"ior": 1.4},
        KHR + "iridescence": {
            "iridescenceFactor": 0.9,
            "iridescenceIor": 1.2,
            "iridescenceThicknessMinimum": 50.0,
            "iridescenceThicknessMaximum": 300.0,
            "iridescenceTexture": slot(11),
            "iridescenceThicknessTexture": slot(12),
        },
        KHR + "sheen": {
            "sheenColorFactor": [0.5, 0.4, 0.3],
            "sheenRoughnessFactor": 0.6,
            "sheenColorTexture": slot(13),
            "sheenRoughnessTexture": slot(14),
        },
        KHR + "specular": {
            "specularFactor": 0.8,
            "specularColorFactor": [2.0, 1.0, 0.5],
            "specularTexture": slot(15),
            "specularColorTexture": slot(16),
        },
        KHR + "transmission": {"transmissionFactor": 1.0, "transmissionTexture": slot(17)},
        KHR + "volume": {
            "thicknessFactor": 0.01,
            "thicknessTexture": slot(18),
            "attenuationDistance": 0.5,
            "attenuationColor": [0.9, 0.8, 0.7],
        },
    }
    material = {
        "name": "all of it",
        "pbrMetallicRoughness": {"baseColorTexture": slot(0, texCoord=1), "metallicRoughnessTexture": slot(1)},
        "normalTexture": slot(2, scale=-0.5),
        "occlusionTexture": slot(3, strength=0.25),
        "emissiveTexture": slot(4),
        "emissiveFactor": [1.0, 0.5, 0.0],
        "extensions": extensions,
    }
    scene = textured(material, 19, extensionsUsed=sorted(extensions)).load(tmp_path)
    assert honest(scene) == [] and len(scene.images) == len(scene.textures) == 19
    ref = TextureRef
    assert scene.materials == [
        Material(
            "all of it",
            emissive=(4.0, 2.0, 0.0),
            specular_factor=0.8,
            specular_color_factor=(2.0, 1.0, 0.5),
            ior=1.4,
            base_color_texture=ref(0, 1),
            metallic_roughness_texture=ref(1),
            normal_texture=ref(2, strength=-0.5),
            occlusion_texture=ref(3, strength=0.25),
            emissive_texture=ref(4),
            specular_texture=ref(15),
            specular_color_texture=ref(16),
            clearcoat=Clearcoat(0.7, 0.2, ref(6), ref(7), ref(8, strength=0.5)),
            sheen=Sheen((0.5, 0.4, 0.3), 0.6, ref(13), ref(14)),
            transmission=Transmission(1.0, ref(17)),
            diffuse_transmission=DiffuseTransmission(0.3, (0.1, 0.2, 0.3), ref(9), ref(10)),
            volume=Volume(0.01, ref(18), 0.5, (0.9, 0.8, 0.7)),
            iridescence=Iridescence(0.9, 1.2, 50.0, 300.0, ref(11), ref(12)),
            anisotropy=Anisotropy(0.5, 2.0, ref(5)),
            dispersion=0.4,
        )
    ]
    assert sorted(used.texture for _, used in scene.materials[0].textures()) == list(range(19))
    told = summary(scene).textures
    assert (told.textures, told.images, told.decoded_bytes) == (19, 19, 19 * 18)


@pytest.mark.parametrize(
    ("extension", "values", "found"),
    [
        ("anisotropy", {"anisotropyStrength": 2.0}, ("anisotropy", Anisotropy(1.0))),
        ("clearcoat", {"clearcoatFactor": -1.0}, ("clearcoat", Clearcoat())),
        ("dispersion", {"dispersion": -1.0}, ("dispersion", 0.0)),
        ("iridescence", {"iridescenceFactor": 9.0, "iridescenceIor": 0.5}, ("iridescence", Iridescence(1.0, 1.0))),
        ("sheen", {"sheenColorFactor": [3.0, 0.0, 0.0]}, ("sheen", Sheen((1.0, 0.0, 0.0)))),
        ("transmission", {"transmissionFactor": 1.5}, ("transmission", Transmission(1.0))),
        ("transmission", {"transmissionFactor": "all"}, ("transmission", Transmission())),
        ("transmission", [1], ("transmission", Transmission())),
        ("volume", {"attenuationDistance": 0.0}, ("volume", Volume())),
        ("volume", {"attenuationColor": [1.0, 2.0, 0.0]}, ("volume", Volume(attenuation_color=(1.0, 1.0, 0.0)))),
        ("emissive_strength", {"emissiveStrength": -1.0}, ("emissive", (0.0, 0.0, 0.0))),
    ],
)
def test_values_of_extensions_out_of_range_are_put_right_with_a_warning(
    tmp_path: Path, extension: str, values: Any, found: tuple[str, Any]
) -> None:
    file = textured({"extensions": {KHR + extension: values}})
    scene = file.load(tmp_path)
    assert getattr(scene.materials[0], found[0]) == found[1]
    assert scene.warnings and all(text.startswith(f"materials[0].extensions.{KHR}{extension}") for text in honest(scene))
    with pytest.raises(SceneError, match=f"{KHR}{extension}"):
        file.load(tmp_path, strict=True)


def test_a_texture_transform_scales_then_turns_then_moves(tmp_path: Path) -> None:
    moved = {"offset": [0.5, 0.25], "rotation": math.pi / 2, "scale": [2.0, 3.0], "texCoord": 1}
    slot = {"index": 0, "texCoord": 0, "extensions": {"KHR_texture_transform": moved}}
    scene = textured({"pbrMetallicRoughness": {"baseColorTexture": slot}}).load(tmp_path)
    ref = scene.materials[0].base_color_texture
    assert ref is not None and ref.texcoord == 1
    # v points down: turned anticlockwise by a quarter, what pointed to the right (u) points up (-v), what pointed down to the right.
    assert np.allclose(ref.matrix, [[0, 3, 0.5], [-2, 0, 0.25]])
    assert np.allclose(TextureRef(0).matrix, [[1, 0, 0], [0, 1, 0]])


def test_samplers_are_words_and_their_default_is_smooth_and_repeats(tmp_path: Path) -> None:
    file = textured({"emissiveTexture": {"index": 1}, "normalTexture": {"index": 0}, "occlusionTexture": {"index": 2}}, 3)
    file.json["samplers"] = [
        {"magFilter": 9728, "minFilter": 9985, "wrapS": 33071, "wrapT": 33648},
        {"magFilter": 9987, "minFilter": 7, "wrapS": 1},
    ]
    file.json["textures"][0]["sampler"], file.json["textures"][2]["sampler"] = 0, 1
    scene = file.load(tmp_path)
    assert scene.textures == [
        Texture(0, "nearest", "linear", "nearest", "clamp", "mirror"),
        Texture(1, "linear", "linear", "linear", "repeat", "repeat"),
        Texture(2, "linear", "linear", "linear", "repeat", "repeat"),
    ]
    assert [text.split(":")[0] for text in honest(scene)] == ["samplers[1].minFilter", "samplers[1].wrapS"]


def test_webp_is_preferred_and_basis_universal_is_the_last_choice(tmp_path: Path) -> None:
    file = textured({"emissiveTexture": {"index": 0}, "normalTexture": {"index": 1}, "occlusionTexture": {"index": 2}}, 4)
    ktx2 = file.view(b"\xabKTX 20\xbb\r\n\x1a\n" + bytes(80))
    file.json["images"].append({"bufferView": ktx2, "mimeType": "image/ktx2"})
    file.json["textures"] = [
        {"source": 0, "extensions": {"EXT_texture_webp": {"source": 3}}},
        {"source": 1, "extensions": {"KHR_texture_basisu": {"source": 4}}},
        {"extensions": {"KHR_texture_basisu": {"source": 4}}},
    ]
    scene = file.load(tmp_path)
    assert [texture.image for texture in scene.textures] == [3, 1, 4]
    assert scene.images[2].source is None, "what nothing shows is not kept"


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ({"images": [{"uri": "gone.png"}]}, "images[0].uri: no file 'gone.png' beside the scene file"),
        ({"images": [{"uri": "../out.png"}]}, "images[0].uri: '../out.png' leaves the folder"),
        ({"images": [{"uri": "https://example.com/a.png"}]}, "images[0].uri: 'https://example.com/a.png' is absolute or remote"),
        ({"images": [{"uri": "data:image/png;base64,AAAA"}]}, "images[0]: is no PNG, JPEG, WebP or KTX2 picture"),
        ({"images": [{}]}, "images[0]: has neither a uri nor a buffer view"),
        ({"images": [{"bufferView": 99}]}, "images[0].bufferView: buffer view 99 does not exist"),
        ({"images": ["x"]}, "images[0]: expected `object`"),
        ({"images": []}, "textures[0].source: image 0 does not exist (the file has none)"),
        ({"textures": [{}]}, "textures[0]: has no picture that can be read"),
        ({"textures": [{"source": -1}]}, "textures[0].source: image -1 does not exist"),
        ({"textures": []}, "materials[0].emissiveTexture.index: texture 0 does not exist (the file has none)"),
    ],
)
def test_a_picture_that_cannot_be_had_is_named_and_the_scene_is_drawn(tmp_path: Path, change: dict[str, Any], warning: str) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "out.png").write_bytes(png(np.zeros((1, 1, 3), np.uint8)))
    file = textured({"emissiveTexture": {"index": 0}})
    file.json |= change
    scene = file.load(tmp_path / "inner")
    assert len(honest(scene)) == 1 and honest(scene)[0].startswith(warning)
    assert len(scene.triangles()) == 2 and all(image.source is None for image in scene.images)
    with pytest.raises(SceneError):
        file.load(tmp_path / "inner", strict=True)


def test_what_is_wrong_with_a_picture_that_nothing_shows_is_told_in_strict_mode_only(tmp_path: Path) -> None:
    file = one_quad()
    file.json |= {"images": [{"uri": "gone.png"}], "textures": [{"source": 0}, {"source": 7}]}
    assert file.load(tmp_path).warnings == []
    with pytest.raises(SceneError, match=r"gone\.png|image 7"):
        file.load(tmp_path, strict=True)


def test_a_set_of_coordinates_that_is_not_there_is_told(tmp_path: Path) -> None:
    scene = textured({"emissiveTexture": {"index": 0, "texCoord": 2}}).load(tmp_path)
    assert honest(scene) == [
        "meshes[0].primitives[0].attributes: there is no TEXCOORD_2, which the emissive_texture of its material uses; it is not drawn here"
    ]


def test_specular_glossiness_becomes_a_dielectric_of_that_reflection(tmp_path: Path) -> None:
    old = {
        "diffuseFactor": [0.1, 0.2, 0.3, 0.4],
        "specularFactor": [0.5, 0.6, 0.7],
        "glossinessFactor": 0.75,
        "specularGlossinessTexture": {"index": 0, "texCoord": 1},
    }
    extension = KHR + "pbrSpecularGlossiness"
    plain = {name: value for name, value in old.items() if "Texture" not in name}
    (found,) = textured({"extensions": {extension: plain}}).load(tmp_path).materials
    assert found.base_color_factor == (0.1, 0.2, 0.3, 0.4) and found.metallic == 0.0 and found.roughness == 0.25
    # Index 0 reflects all at every angle, so the specular colour alone is what is reflected at normal incidence.
    assert found.ior == 0.0 and found.specular_color_factor == (0.5, 0.6, 0.7)
    scene = textured({"extensions": {extension: old}}).load(tmp_path)
    (found,) = scene.materials
    assert found.specular_color_texture == TextureRef(0, 1) and found.metallic_roughness_texture == TextureRef(1, 1)
    made = scene.images[scene.textures[1].image or 0]
    assert found.roughness == 1.0 and made.recipe == "glossiness" and made.amount == 0.75 and made.source == scene.images[0].source


def test_variants_choose_the_material_of_what_is_drawn(tmp_path: Path) -> None:
    variants = "KHR_materials_variants"
    file = File(materials=[{}, {"emissiveFactor": [1, 1, 1]}, {}], extensionsUsed=[variants])
    file.json["extensions"] = {variants: {"variants": [{"name": "day"}, {"name": "night"}, {"name": "dawn"}]}}
    mappings = [{"material": 1, "variants": [1, 2]}]
    file.node(mesh=file.quad(material=0, extensions={variants: {"mappings": mappings}}))
    scene = file.load(tmp_path)
    assert scene.warnings == [] and scene.variants == ["day", "night", "dawn"] and scene.variant is None
    found = []
    for scene.variant in (None, 0, 1, 2):
        found.append((scene.triangles().material.tolist(), scene.totals().lights))
    assert found == [([0, 0], 0), ([0, 0], 0), ([1, 1], 1), ([1, 1], 1)]
    for bad in ([{"material": 9, "variants": [0]}], [{"material": 1, "variants": [3]}], [{"material": 1}], 5):
        file.json["meshes"][0]["primitives"][0]["extensions"][variants] = {"mappings": bad}
        scene = file.load(tmp_path)
        assert scene.warnings[0].startswith(f"meshes[0].primitives[0].extensions.{variants}.mappings") and len(scene.triangles()) == 2


def lit(*lights: dict[str, Any], **node: Any) -> File:
    file = one_quad()
    file.json |= {"extensionsUsed": [LIGHTS], "extensions": {LIGHTS: {"lights": list(lights)}}}
    for number in range(len(lights)):
        file.node(extensions={LIGHTS: {"light": number}}, **node)
    return file


def test_punctual_lights_stand_where_their_nodes_are_whatever_their_scale(tmp_path: Path) -> None:
    lights: list[dict[str, Any]] = [
        {"type": "point", "name": "bulb", "color": [1.0, 0.5, 0.25], "intensity": 40.0, "range": 10.0},
        {"type": "spot", "spot": {"innerConeAngle": 0.1, "outerConeAngle": 0.5}},
        {"type": "directional", "intensity": 3.0},
    ]
    scene = lit(*lights, translation=[1, 2, 3], scale=[5, 5, 5]).load(tmp_path)
    world = np.eye(4)
    world[:3, 3] = 1, 2, 3
    bulb, spot, sun = scene.lights
    assert all(np.allclose(light.world, world) for light in scene.lights) and [light.node for light in scene.lights] == [1, 2, 3]
    told = [(light.name, light.kind, light.color, light.intensity, light.range) for light in scene.lights]
    assert told == [
        ("bulb", "point", (1.0, 0.5, 0.25), 40.0, 10.0),
        ("light 1", "spot", (1.0, 1.0, 1.0), 1.0, math.inf),
        ("light 2", "directional", (1.0, 1.0, 1.0), 3.0, math.inf),
    ]
    assert (spot.inner_cone, spot.outer_cone) == (0.1, 0.5) and isinstance(bulb, Light) and sun.kind == "directional"
    told = summary(scene).lights
    assert (told.emissive, told.directional, told.point, told.spot) == (0, 1, 1, 1)


@pytest.mark.parametrize(
    ("light", "warning"),
    [
        ({"type": "laser"}, f"extensions.{LIGHTS}.lights[0].type: invalid enum value 'laser'; the light of nodes[1] is skipped"),
        ({"type": "point", "intensity": -1}, f"extensions.{LIGHTS}.lights[0].intensity: -1 is not 0 or more; 0 is used"),
        ({"type": "point", "range": 0}, f"extensions.{LIGHTS}.lights[0].range: 0 is not positive; the light reaches everything"),
        (
            {"type": "spot", "spot": {"innerConeAngle": 0.5, "outerConeAngle": 0.25}},
            f"extensions.{LIGHTS}.lights[0].spot.innerConeAngle: 0.5 is not within 0 and 0.25; 0.25 is used",
        ),
    ],
)
def test_a_light_out_of_bounds_is_put_right_or_left_out(tmp_path: Path, light: dict[str, Any], warning: str) -> None:
    scene = lit(light).load(tmp_path)
    assert honest(scene) == [warning] and len(scene.triangles()) == 2
    assert len(scene.lights) == (0 if "skipped" in warning else 1)


def test_a_light_that_does_not_exist_is_named(tmp_path: Path) -> None:
    file = lit({"type": "point"})
    file.node(extensions={LIGHTS: {"light": -1}})
    file.node(extensions={LIGHTS: {}})
    told = honest(file.load(tmp_path))
    assert told[0].startswith(f"nodes[2].extensions.{LIGHTS}.light: light -1 does not exist (the file has 1)")
    assert told[1].startswith(f"nodes[3].extensions.{LIGHTS}: object missing required field `light`")
    del file.json["extensions"]
    assert "is missing, but nodes have lights" in honest(file.load(tmp_path))[0]
