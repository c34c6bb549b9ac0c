"""Numbers that a file has once are held once, however many primitives draw them: what the BVH is built once for is known by that."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from renderer.scene.gltf import load
from renderer.scene.gltf_write import write
from renderer.scene.model import Geometry, Scene
from tests.renderer.helpers.gltf_file import File
from tests.renderer.helpers.picture_files import png

GRID = 64


def arrays(geometry: Geometry) -> list[Any]:
    """All that a geometry has at its vertices, and its triangles."""
    return [geometry.positions, geometry.indices, geometry.normals, geometry.tangents, geometry.colours, *geometry.texcoords]


def drawn(scene: Scene) -> list[Geometry]:
    return [geometry for mesh in scene.meshes for geometry in mesh.geometries]


def held(scene: Scene) -> int:
    """The bytes of all different arrays."""
    found = {id(array): array.nbytes for geometry in drawn(scene) for array in arrays(geometry) if array is not None}
    return sum(found.values())


def wave(file: File, *, mode: int = 4, indices: int = 5123, normals: float = 1.0, again: bool = False) -> dict[str, Any]:
    """A primitive of a bumpy square of GRID x GRID vertices, its normals of this length; `again`: by accessors of their own that say the
    same."""
    if not again:
        y, x = np.mgrid[0:GRID, 0:GRID] / (GRID - 1.0)
        points = np.stack([x, y, 0.1 * np.sin(9 * x) * np.cos(7 * y)], 2).reshape(-1, 3)
        up = np.stack([-0.9 * np.cos(9 * x) * np.cos(7 * y), 0.7 * np.sin(9 * x) * np.sin(7 * y), np.ones_like(x)], 2).reshape(-1, 3)
        up *= normals / np.linalg.norm(up, axis=1, keepdims=True)
        corner = (np.arange(GRID - 1)[:, None] * GRID + np.arange(GRID - 1)).reshape(-1, 1)
        quads = corner + np.array([0, 1, GRID + 1, 0, GRID + 1, GRID])
        order = quads.reshape(-1) if mode == 4 else np.arange(GRID * GRID)
        file.accessor(points)
        file.accessor(up)
        file.accessor(np.rint(np.stack([x, y], 2).reshape(-1, 2) * 65535), 5123, "VEC2", normalized=True)
        file.accessor(np.rint(np.stack([x, y, x], 2).reshape(-1, 3) * 255), 5121, "VEC3", normalized=True)
        file.accessor(order, indices, "SCALAR")
    else:
        file.json["accessors"] += [dict(accessor) | {"name": "the same"} for accessor in file.json["accessors"][-5:]]
    last = len(file.json["accessors"])
    names = ("POSITION", "NORMAL", "TEXCOORD_0", "COLOR_0")
    attributes = {name: last - 5 + k for k, name in enumerate(names)}
    # colours as bytes of three are no multiple of four; the reader copes, with a warning
    return {"attributes": attributes, "indices": last - 1, "mode": mode}


def painted(file: File, count: int, normal_map: bool) -> None:
    """Materials of as many colours, all with the same normal map or without."""
    file.json["materials"] = [{"pbrMetallicRoughness": {"baseColorFactor": [k / count, 0.5, 0.5, 1]}} for k in range(count)]
    if normal_map:
        file.json |= {
            "images": [{"bufferView": file.view(png(np.full((1, 1, 3), 128, np.uint8))), "mimeType": "image/png"}],
            "textures": [{"source": 0}],
        }
        for material in file.json["materials"]:
            material["normalTexture"] = {"index": 0}


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"mode": 5},
        {"mode": 6, "indices": 5125},
        {"normals": 2.0},  # put right by the reader
        {"normal_map": True},  # with tangents derived
        {"again": True},
    ],
    ids=str,
)
def test_meshes_of_the_same_accessors_have_the_same_arrays_and_their_own_materials(how: dict[str, Any], tmp_path: Path) -> None:
    file = File()
    again, normal_map = how.pop("again", False), how.pop("normal_map", False)
    primitive = wave(file, **how)
    for material in range(5):
        primitive = wave(file, again=True, **how) if again else primitive
        file.node(mesh=file.mesh({**primitive, "material": material}))
    painted(file, 5, normal_map)
    scene = file.load(tmp_path)
    geometries = drawn(scene)
    assert [geometry.material for geometry in geometries] == list(range(5))
    assert (geometries[0].tangents is not None) == normal_map
    for geometry in geometries[1:]:
        assert all(one is other for one, other in zip(arrays(geometries[0]), arrays(geometry), strict=True))
    assert all(not array.flags.writeable for array in arrays(geometries[0]) if array is not None)
    write(scene, tmp_path / "saved.glb")
    saved = load(tmp_path / "saved.glb")
    assert held(saved) == held(scene)
    assert (tmp_path / "saved.glb").stat().st_size < 1.2 * held(scene) + 4000


def test_what_is_done_otherwise_to_the_same_numbers_is_apart(tmp_path: Path) -> None:
    file = File()
    primitive = wave(file)
    lone = {"attributes": {"POSITION": primitive["attributes"]["POSITION"]}, "indices": primitive["indices"]}
    strip = {**lone, "mode": 5}
    painted(file, 2, True)
    del file.json["materials"][0]["normalTexture"]
    file.node(mesh=file.mesh({**primitive, "material": 0}, {**primitive, "material": 1}, lone, strip))
    plain, mapped, flat, turned = drawn(file.load(tmp_path))
    assert plain.tangents is None and mapped.tangents is not None
    assert flat.normals is None and flat.positions is plain.positions and flat.indices is plain.indices
    assert turned.positions is plain.positions and not np.array_equal(turned.indices, plain.indices)


def test_meshes_of_the_same_packed_data_have_the_same_arrays(tmp_path: Path) -> None:
    package = pytest.importorskip("DracoPy", reason="the package DracoPy is not installed")
    points, faces = np.random.default_rng(1).random((90, 3), np.float32), np.arange(90, dtype=np.uint32).reshape(-1, 3)
    data = package.encode(points, faces)
    mesh, name = package.decode(data), "KHR_draco_mesh_compression"
    file = File(extensionsUsed=[name])
    packed = {"bufferView": file.view(data), "attributes": {"POSITION": mesh.attributes[0]["unique_id"]}}
    for material in range(3):  # each with accessors of its own, as exporters have it
        file.json["accessors"] += [
            {"componentType": 5126, "type": "VEC3", "count": len(mesh.points)},
            {"componentType": 5125, "type": "SCALAR", "count": mesh.faces.size},
        ]
        told = {"attributes": {"POSITION": 2 * material}, "indices": 2 * material + 1, "material": material}
        file.node(mesh=file.mesh({**told, "extensions": {name: packed}}))
    painted(file, 3, False)
    first, *others = drawn(file.load(tmp_path))
    assert len(first.indices) == 30
    assert all(other.positions is first.positions and other.indices is first.indices for other in others)


def test_primitives_with_one_heap_of_vertices_share_it_whatever_part_they_draw(tmp_path: Path) -> None:
    file = File()
    primitive = wave(file, normals=3.0)
    halves = [file.accessor(part, 5123, "SCALAR") for part in (np.arange(300), np.arange(300, 900))]
    file.node(mesh=file.mesh(*({**primitive, "indices": half} for half in halves)))
    first, second = drawn(file.load(tmp_path))
    assert first.indices is not second.indices
    for name in ("positions", "normals", "colours"):
        assert getattr(first, name) is getattr(second, name) is not None
    assert first.texcoords[0] is second.texcoords[0]


def test_poses_of_shapes_are_apart_and_equal_ones_are_not(tmp_path: Path) -> None:
    file = File()
    primitive = wave(file) | {"targets": [{"POSITION": file.accessor(np.ones((GRID * GRID, 3)))}]}
    meshes = [file.mesh({**primitive, "material": k}) for k in range(2)]
    painted(file, 2, False)
    for mesh in meshes:
        for weight in (0.0, 0.5, 1.0):
            file.node(mesh=mesh, weights=[weight])
    geometries = drawn(file.load(tmp_path))
    assert len(geometries) == 6 and len({id(geometry.positions) for geometry in geometries}) == 3
    assert len({id(geometry.indices) for geometry in geometries}) == 1


def test_the_memory_of_a_scene_grows_with_what_is_different_in_it(tmp_path: Path) -> None:
    def peak(count: int) -> tuple[int, int]:
        file = File()
        primitive = wave(file, normals=2.0)
        for material in range(count):
            file.node(mesh=file.mesh({**primitive, "material": material}))
        painted(file, count, True)
        path = file.write(tmp_path, f"{count}.glb")
        tracemalloc.start()
        scene = load(path)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most, held(scene)

    one, hundred = peak(1), peak(100)
    assert one[1] == hundred[1]
    assert hundred[0] - one[0] < 1 << 20  # what 99 meshes, materials and nodes are; their numbers would be 40 MiB


def test_models_of_a_hundred_balls_hold_one(shared: Path) -> None:
    for name, different in {
        "MetalRoughSpheresNoTextures/MetalRoughSpheresNoTextures.glb": 1 << 20,
        "IridescenceDielectricSpheres-glTF/IridescenceDielectricSpheres.gltf": 1 << 17,
        "AnisotropyStrengthTest/AnisotropyStrengthTest.glb": 1 << 18,
    }.items():
        scene = load(shared / "data" / "models" / name)
        assert held(scene) < different < sum(array.nbytes for one in drawn(scene) for array in arrays(one) if array is not None) / 8
