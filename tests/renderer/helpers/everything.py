"""A small glTF file that has one of everything the importer reads, for tests that break it in every place.

Two textured squares (one packed by meshoptimizer, one by Draco where those packages are there), a shape key, a skin, sparse numbers,
cameras of both kinds, lights of all kinds, materials with every extension, variants, a crowd, hidden nodes, extras of ours.
"""

from __future__ import annotations

import copy
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from PIL import Image

from tests.renderer.helpers.gltf_file import QUAD, QUAD_INDICES, File
from tests.renderer.helpers.picture_files import encoded, png

KHR = "KHR_materials_"
DRACO, MESHOPT = "KHR_draco_mesh_compression", "EXT_meshopt_compression"


def everything() -> File:
    """The file, for the caller to change."""
    return copy.deepcopy(_everything())


@cache
def _everything() -> File:
    file = File()
    picture = np.random.default_rng(0).integers(0, 255, (4, 4, 3), np.uint8)
    data = [(png(picture), "image/png"), (encoded(Image.fromarray(picture), "JPEG"), "image/jpeg")]
    file.json["images"] = [{"bufferView": file.view(stored), "mimeType": kind} for stored, kind in data]
    file.json["samplers"] = [{"magFilter": 9729, "minFilter": 9987, "wrapS": 10497, "wrapT": 33071}]
    file.json["textures"] = [
        {"source": 0, "sampler": 0},
        {"source": 1, "extensions": {"EXT_texture_webp": {"source": 1}, "KHR_texture_basisu": {"source": 1}}},
    ]
    file.json["materials"] = [_material(), {"alphaMode": "MASK", "alphaCutoff": 0.3, "doubleSided": True}]
    file.json["cameras"] = [
        {"type": "perspective", "perspective": {"yfov": 0.8, "znear": 0.1, "zfar": 9.0, "aspectRatio": 1.5}},
        {"type": "orthographic", "orthographic": {"xmag": 1.0, "ymag": 1.0, "znear": 0.0, "zfar": 9.0}},
    ]
    file.json["cameras"][0]["extras"] = {"rayfuse": {"aperture": 0.01, "focus": 2.0}}
    file.json["scenes"][0]["extras"] = {"rayfuse": {"environment": {"radiance": [1.0, 1.0, 1.0], "strength": 1.0, "turn": 3.0}}}
    file.json["extensions"] = {
        "KHR_lights_punctual": {
            "lights": [
                {"type": "directional", "intensity": 2.0, "color": [1.0, 0.5, 0.5]},
                {"type": "spot", "range": 3.0, "spot": {"innerConeAngle": 0.1, "outerConeAngle": 0.4}},
            ]
        },
        "KHR_materials_variants": {"variants": [{"name": "one"}, {"name": "two"}]},
    }
    primitive = _shaped(file)
    shaped = file.mesh(primitive)
    file.json["meshes"][shaped]["weights"] = [0.5]
    sparse = {"count": 2, "indices": {"bufferView": file.view(b"\0\2"), "byteOffset": 0, "componentType": 5121}}
    sparse |= {"values": {"bufferView": file.view(np.ones((2, 3), np.float32).tobytes()), "byteOffset": 0}}
    file.json["accessors"].append({"componentType": 5126, "count": 4, "type": "VEC3", "sparse": sparse})
    moved = len(file.json["accessors"]) - 1
    strip = file.mesh({"attributes": {"POSITION": moved}, "mode": 5}, {"attributes": {"POSITION": moved}, "mode": 6, "material": 1})
    file.node(children=[1, 2, 3], matrix=[1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1], name="root")
    file.node(root=False, mesh=shaped, skin=0, weights=[0.25])
    file.node(root=False, camera=0, translation=[0, 0, 3], extensions={"KHR_lights_punctual": {"light": 0}})
    file.node(root=False, camera=1, rotation=[0, 0, 0, 1], scale=[1, 1, 1], extensions={"KHR_lights_punctual": {"light": 1}})
    crowd = {"TRANSLATION": file.accessor(np.eye(3)), "ROTATION": file.accessor(np.eye(4)[:3], kind="VEC4")}
    crowd["SCALE"] = file.accessor(np.ones((3, 3)))
    file.node(mesh=strip, extensions={"EXT_mesh_gpu_instancing": {"attributes": crowd}})
    file.node(mesh=strip, extensions={"KHR_node_visibility": {"visible": True}})
    file.json["skins"] = [{"joints": [0, 2], "inverseBindMatrices": file.accessor(np.tile(np.eye(4), (2, 1, 1)), kind="MAT4")}]
    times, turns = file.accessor([0.0, 1.0], kind="SCALAR"), file.accessor(np.eye(4)[2:], kind="VEC4")
    channels = [{"sampler": 0, "target": {"node": 1, "path": "rotation"}}]
    file.json["animations"] = [{"samplers": [{"input": times, "output": turns, "interpolation": "LINEAR"}], "channels": channels}]
    _packed(file)
    used = sorted({name for name in _names(file.json) if name.startswith(("KHR_", "EXT_"))})
    file.json["extensionsUsed"] = used
    file.json["extensionsRequired"] = []
    return file


def _names(part: Any) -> Any:
    """All keys of all objects."""
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else []:
        yield from _names(value)
    if isinstance(part, dict):
        yield from part


def _material() -> dict[str, Any]:
    extensions = {
        "anisotropy": {"anisotropyStrength": 0.5, "anisotropyRotation": 2.0, "anisotropyTexture": {"index": 0}},
        "clearcoat": {"clearcoatFactor": 0.7, "clearcoatNormalTexture": {"index": 1, "scale": 0.5}},
        "diffuse_transmission": {"diffuseTransmissionFactor": 0.3, "diffuseTransmissionColorFactor": [0.1, 0.2, 0.3]},
        "dispersion": {"dispersion": 0.4},
        "emissive_strength": {"emissiveStrength": 4.0},
        "ior": {"ior": 1.4},
        "iridescence": {"iridescenceFactor": 0.9, "iridescenceThicknessMinimum": 50.0, "iridescenceThicknessMaximum": 300.0},
        "sheen": {"sheenColorFactor": [0.5, 0.4, 0.3], "sheenRoughnessFactor": 0.6},
        "specular": {"specularFactor": 0.8, "specularColorFactor": [1.0, 1.0, 0.5]},
        "transmission": {"transmissionFactor": 1.0, "transmissionTexture": {"index": 1}},
        "volume": {"thicknessFactor": 0.01, "attenuationDistance": 0.5, "attenuationColor": [0.9, 0.8, 0.7]},
    }
    moved = {"offset": [0.5, 0.0], "rotation": 0.1, "scale": [2.0, 2.0], "texCoord": 0}
    return {
        "name": "all of it",
        "pbrMetallicRoughness": {
            "baseColorFactor": [1.0, 0.5, 0.5, 1.0],
            "metallicFactor": 0.5,
            "roughnessFactor": 0.5,
            "baseColorTexture": {"index": 0, "texCoord": 0, "extensions": {"KHR_texture_transform": moved}},
            "metallicRoughnessTexture": {"index": 1},
        },
        "normalTexture": {"index": 0, "scale": 0.5},
        "occlusionTexture": {"index": 1, "strength": 0.25},
        "emissiveTexture": {"index": 0},
        "emissiveFactor": [1.0, 0.5, 0.0],
        "alphaMode": "BLEND",
        "extensions": {KHR + name: values for name, values in extensions.items()},
    }


def _shaped(file: File) -> dict[str, Any]:
    """A square with every attribute, a shape key and a material for each variant."""
    uv = file.accessor(QUAD[:, :2], kind="VEC2")
    attributes = {
        "POSITION": file.accessor(QUAD),
        "NORMAL": file.accessor(np.tile([0.0, 0.0, 1.0], (4, 1))),
        "TANGENT": file.accessor(np.tile([1.0, 0.0, 0.0, 1.0], (4, 1)), kind="VEC4"),
        "TEXCOORD_0": uv,
        "TEXCOORD_1": uv,
        "COLOR_0": file.accessor(np.full((4, 4), 200), 5121, "VEC4", normalized=True),
        "JOINTS_0": file.accessor(np.tile([0, 1, 0, 0], (4, 1)), 5121, "VEC4"),
        "WEIGHTS_0": file.accessor(np.tile([0.5, 0.5, 0.0, 0.0], (4, 1)), kind="VEC4"),
    }
    target = {"POSITION": file.accessor(QUAD * 0.1), "NORMAL": file.accessor(QUAD * 0.0)}
    mappings = [{"material": 0, "variants": [0]}, {"material": 1, "variants": [1]}]
    return {
        "attributes": attributes,
        "indices": file.accessor(QUAD_INDICES, 5123, "SCALAR"),
        "material": 0,
        "mode": 4,
        "targets": [target],
        "extensions": {"KHR_materials_variants": {"mappings": mappings}},
    }


def _packed(file: File) -> None:
    """Squares that are packed, where the packages are there."""
    if find_spec("meshopt") is not None:
        import meshopt

        data = meshopt.encode_gltf_buffer(QUAD, "ATTRIBUTES")
        view = file.view(data)
        packed = dict(file.json["bufferViews"][view], byteStride=12, count=4, mode="ATTRIBUTES", filter="NONE")
        file.json["bufferViews"][view] |= {"byteStride": 12, "extensions": {MESHOPT: packed}}
        file.json["accessors"].append({"bufferView": view, "componentType": 5126, "type": "VEC3", "count": 4})
        indices = file.accessor(QUAD_INDICES, 5123, "SCALAR")
        positions = len(file.json["accessors"]) - 2
        file.node(mesh=file.mesh({"attributes": {"POSITION": positions}, "indices": indices}))
    if find_spec("DracoPy") is not None:
        import DracoPy

        data = DracoPy.encode(QUAD, QUAD_INDICES.reshape(-1, 3).astype(np.uint32), quantization_bits=14)
        mesh = DracoPy.decode(data)
        first = len(file.json["accessors"])
        file.json["accessors"] += [
            {"componentType": 5126, "type": "VEC3", "count": len(mesh.points)},
            {"componentType": 5125, "type": "SCALAR", "count": int(mesh.faces.size)},
        ]
        draco = {"bufferView": file.view(data), "attributes": {"POSITION": mesh.attributes[0]["unique_id"]}}
        file.node(mesh=file.mesh({"attributes": {"POSITION": first}, "indices": first + 1, "extensions": {DRACO: draco}}))

