"""Meshes of glTF files beyond positions: coordinates, colours, tangents, shapes and skins at rest, crowds, compressed numbers."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from renderer.scene.gltf import load
from renderer.scene.model import Geometry, Scene, SceneError
from renderer.scene.tangents import with_tangents
from tests.renderer.helpers.gltf_file import QUAD, QUAD_INDICES, File, one_quad
from tests.renderer.helpers.picture_files import png

DRACO, MESHOPT = "KHR_draco_mesh_compression", "EXT_meshopt_compression"
HALF = math.sqrt(0.5)


def only(scene: Scene) -> Geometry:
    (mesh,) = [mesh for mesh in scene.meshes if mesh.geometries]
    (geometry,) = mesh.geometries
    return geometry


def with_attributes(attributes: dict[str, tuple[Any, int, str, bool]], **primitive: Any) -> File:
    """A square with attributes given as (values, component type, type, normalised)."""
    file = File()
    told = {
        name: file.accessor(values, component, kind, **({"normalized": True} if normalised else {}))
        for name, (values, component, kind, normalised) in attributes.items()
    }
    told["POSITION"] = file.accessor(QUAD)
    indices = file.accessor(QUAD_INDICES, 5123, "SCALAR")
    file.node(mesh=file.mesh({"attributes": told, "indices": indices, **primitive}))
    return file


def normal_mapped(file: File) -> File:
    """The file with a normal map on material 0."""
    file.json |= {
        "images": [{"bufferView": file.view(png(np.full((1, 1, 3), 128, np.uint8))), "mimeType": "image/png"}],
        "textures": [{"source": 0}],
        "materials": [{"normalTexture": {"index": 0}}],
    }
    return file


def test_colours_are_opaque_unless_they_say_otherwise_and_stay_within_bounds(tmp_path: Path) -> None:
    rgb = np.array([[0, 0, 0], [255, 0, 0], [0, 51, 0], [0, 0, 255]])
    found = only(with_attributes({"COLOR_0": (rgb, 5121, "VEC3", True)}).load(tmp_path)).colours
    assert found is not None and np.allclose(found, [[0, 0, 0, 1], [1, 0, 0, 1], [0, 0.2, 0, 1], [0, 0, 1, 1]])
    odd = [[2, 0.5, -1, 0.5], [math.nan, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]]
    scene = with_attributes({"COLOR_0": (odd, 5126, "VEC4", False)}).load(tmp_path)
    found = only(scene).colours
    assert found is not None and found.tolist() == [[1, 0.5, 0, 0.5], [0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]]
    assert "colours are not within 0 and 1; clamped" in scene.warnings[0]


def test_sets_of_coordinates_are_kept_up_to_the_first_that_is_bad(tmp_path: Path) -> None:
    good = (QUAD[:, :2] * 255, 5121, "VEC2", True)
    scene = with_attributes({"TEXCOORD_0": good, "TEXCOORD_1": (QUAD, 5126, "VEC3", False), "TEXCOORD_2": good}).load(tmp_path)
    assert [texcoords.tolist() for texcoords in only(scene).texcoords] == [QUAD[:, :2].tolist()]
    assert scene.warnings[0].startswith("meshes[0].primitives[0].attributes.TEXCOORD_1: accessor 1 is VEC3 where VEC2 is needed")


def test_tangents_are_kept_and_put_right_where_they_are_off(tmp_path: Path) -> None:
    normals = (np.tile([0, 0, 1], (4, 1)), 5126, "VEC3", False)
    tangents = [[1, 0, 0, 1], [0, 2, 0, -1], [0, 1, 0, 0.5], [-1, 0, 0, -1]]
    scene = with_attributes({"NORMAL": normals, "TANGENT": (tangents, 5126, "VEC4", False)}).load(tmp_path)
    found = only(scene).tangents
    assert found is not None and found.tolist() == [[1, 0, 0, 1], [0, 1, 0, -1], [0, 1, 0, 1], [-1, 0, 0, -1]]
    assert "2 tangents are not of unit length or of no side" in scene.warnings[0]


def test_a_normal_map_without_tangents_gets_them_along_u(tmp_path: Path) -> None:
    """Seen from the front: u to the right, v downwards, so the tangent points to the right, and the bitangent, upwards, is on its left."""
    uv = np.stack([QUAD[:, 0], 1 - QUAD[:, 1]], 1)
    for texcoords, tangent in (
        (uv, [1, 0, 0, 1]),
        (1 - uv, [-1, 0, 0, 1]),
        (uv * [-1, 1], [-1, 0, 0, -1]),
        (uv[:, ::-1], [0, -1, 0, -1]),
    ):
        file = normal_mapped(with_attributes({"TEXCOORD_0": (texcoords, 5126, "VEC2", False)}, material=0))
        geometry = only(file.load(tmp_path))
        assert geometry.tangents is not None and geometry.normals is not None
        assert np.allclose(geometry.tangents, np.array(tangent), atol=1e-6) and np.allclose(geometry.normals, [0, 0, 1])


def test_a_vertex_across_which_the_map_is_mirrored_is_split(tmp_path: Path) -> None:
    points = np.array([[-1, 0, 0], [0, 0, 0], [1, 0, 0], [-1, 1, 0], [0, 1, 0], [1, 1, 0]], np.float32)
    faces = np.array([[0, 1, 4], [0, 4, 3], [1, 2, 5], [1, 5, 4]], np.uint32)
    uv = np.stack([np.abs(points[:, 0]), 1 - points[:, 1]], 1)
    normals = np.tile(np.array([0, 0, 1], np.float32), (6, 1))
    colours = np.linspace(0, 1, 24, dtype=np.float32).reshape(6, 4)
    plain = Geometry(points, faces, normals, 0, texcoords=(uv,), colours=colours)
    made = with_tangents(plain, 0)
    assert made.tangents is not None and len(made.positions) == 8, "the two vertices of the seam are there twice"
    corners = made.tangents[made.indices]
    assert np.allclose(corners[:2], [-1, 0, 0, -1]) and np.allclose(corners[2:], [1, 0, 0, 1])
    assert made.colours is not None
    for old, new in ((points, made.positions), (uv, made.texcoords[0]), (colours, made.colours)):
        assert np.array_equal(old[faces], new[made.indices])


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32))
def test_derived_tangents_are_unit_perpendicular_and_one_for_equal_corners(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(3, 30))
    normals = random.normal(size=(count, 3))
    normals = (normals / np.linalg.norm(normals, axis=1, keepdims=True)).astype(np.float32)
    geometry = Geometry(
        random.normal(size=(count, 3)).astype(np.float32),
        random.integers(0, count, (40, 3), np.uint32),
        normals,
        0,
        texcoords=(random.integers(0, 3, (count, 2)).astype(np.float32),),
    )
    made = with_tangents(geometry, 0)
    assert made.tangents is not None and made.normals is not None
    assert np.allclose(np.linalg.norm(made.tangents[:, :3], axis=1), 1, atol=1e-5) and set(made.tangents[:, 3]) <= {-1.0, 1.0}
    assert np.abs((made.tangents[:, :3] * made.normals).sum(1)).max() < 1e-3
    assert np.array_equal(made.positions[made.indices], geometry.positions[geometry.indices])
    # The same corners without shared vertices have the same tangents.
    flat = geometry.indices.reshape(-1)
    alone = replace(
        geometry,
        positions=geometry.positions[flat],
        indices=np.arange(len(flat), dtype=np.uint32).reshape(-1, 3),
        normals=normals[flat],
        texcoords=(geometry.texcoords[0][flat],),
    )
    apart = with_tangents(alone, 0)
    assert apart.tangents is not None
    assert np.allclose(apart.tangents[apart.indices], made.tangents[made.indices], atol=1e-4)


def test_shapes_are_blended_by_the_weights_of_the_mesh_or_of_the_node(tmp_path: Path) -> None:
    file = File()
    up, wide = (file.accessor(np.tile(delta, (4, 1))) for delta in ([0, 0, 1], [2, 0, 0]))
    normals = file.accessor(np.tile([0, 0, 1], (4, 1)))
    tilt = file.accessor(np.tile([1, 0, 0], (4, 1)))
    attributes = {"POSITION": file.accessor(QUAD), "NORMAL": normals}
    indices = file.accessor(QUAD_INDICES, 5123, "SCALAR")
    targets = [{"POSITION": up, "NORMAL": tilt}, {"POSITION": wide}]
    mesh = file.mesh({"attributes": attributes, "indices": indices, "targets": targets})
    file.json["meshes"][mesh]["weights"] = [0.5, 0]
    file.node(mesh=mesh)
    file.node(mesh=mesh, weights=[1.0, 0.25])
    file.node(mesh=mesh, weights=[0, 0])
    file.node(mesh=mesh, weights=[1.0, 0.25])
    scene = file.load(tmp_path)
    assert scene.warnings == [] and len(scene.meshes) == 3 and "morph targets" in scene.lost
    shapes = [scene.meshes[instance.mesh].geometries[0] for instance in scene.instances]
    assert shapes[1] is shapes[3], "the same weights share a mesh"
    for shape, offset in zip(shapes, ([0, 0, 0.5], [0.5, 0, 1], [0, 0, 0])):
        assert np.allclose(shape.positions, QUAD + np.array(offset, np.float32))
    assert shapes[1].normals is not None and np.allclose(shapes[1].normals, [HALF, 0, HALF], atol=1e-6)


def test_a_shape_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    file = one_quad()
    short = file.accessor(QUAD[:2])
    file.json["meshes"][0]["primitives"][0]["targets"] = [{"POSITION": short}, {"POSITION": 99}]
    file.json["meshes"][0]["weights"] = [1, 1]
    scene = file.load(tmp_path)
    assert np.array_equal(only(scene).positions, QUAD)
    assert [text.split(":")[0] for text in scene.warnings] == [
        "meshes[0].primitives[0].targets[0].POSITION",
        "meshes[0].primitives[0].targets[1].POSITION",
    ]


def skinned(joints: Any, weights: Any, inverse: Any = None) -> File:
    """A square on two joints: node 1 at (10, 0, 0), node 2 below it, turned by a quarter about z."""
    file = with_attributes(
        {
            "JOINTS_0": (np.array(joints), 5121, "VEC4", False),
            "WEIGHTS_0": (np.array(weights), 5126, "VEC4", False),
            "NORMAL": (np.tile([1, 0, 0], (4, 1)), 5126, "VEC3", False),
        }
    )
    file.json["nodes"][0] |= {"skin": 0, "translation": [0, 0, 99]}
    file.node(translation=[10, 0, 0], children=[2])
    file.node(root=False, rotation=[0, 0, HALF, HALF])
    file.json["skins"] = [{"joints": [1, 2]}]
    if inverse is not None:
        file.json["skins"][0]["inverseBindMatrices"] = file.accessor(np.asarray(inverse).transpose(0, 2, 1), kind="MAT4")
    return file


def test_a_skin_puts_vertices_where_its_joints_stand_and_not_where_its_node_is(tmp_path: Path) -> None:
    one, other, both = [1, 0, 0, 0], [0, 1, 0, 0], [0.5, 0.5, 0, 0]
    bind = np.stack([np.eye(4), np.eye(4)])
    bind[0, :3, 3] = -10, 0, 5
    scene = skinned([[0, 1, 0, 0]] * 4, [one, other, both, [0, 0, 0, 2]], bind).load(tmp_path)
    assert scene.warnings == [] and "skins" in scene.lost
    (instance,) = scene.instances
    assert np.array_equal(instance.world, np.eye(4)) and instance.node == 0
    first, second = QUAD + np.array([0, 0, 5]), np.stack([10 - QUAD[:, 1], QUAD[:, 0], QUAD[:, 2]], 1)
    geometry = only(scene)
    assert np.allclose(geometry.positions, [first[0], second[1], (first[2] + second[2]) / 2, first[3]])
    assert geometry.normals is not None
    assert np.allclose(geometry.normals, [[1, 0, 0], [0, 1, 0], [HALF, HALF, 0], [1, 0, 0]], atol=1e-6)


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ({"joints": [1, 77]}, "skins[0].joints[1]: node 77 is not in the scene"),
        ({"joints": []}, "skins[0].joints: is empty"),
        ({"joints": "all"}, "skins[0].joints: expected `array`"),
        ({"joints": [1]}, "meshes[0].primitives[0].attributes.JOINTS_0: joint 1, but the skin has 1"),
        ({"joints": [1, 2], "inverseBindMatrices": 0}, "skins[0].inverseBindMatrices: accessor 0 is VEC4 where MAT4 is needed"),
    ],
)
def test_a_skin_that_cannot_be_used_leaves_the_mesh_as_it_is(tmp_path: Path, change: dict[str, Any], warning: str) -> None:
    file = skinned([[1, 0, 0, 0]] * 4, [[1, 0, 0, 0]] * 4)
    file.json["skins"] = [change]
    scene = file.load(tmp_path)
    assert len(scene.warnings) == 1 and scene.warnings[0].startswith(warning)
    assert np.array_equal(only(scene).positions, QUAD)


def test_a_crowd_of_a_hundred_thousand_costs_its_arrays(tmp_path: Path) -> None:
    count = 100_000
    file = File(extensionsUsed=["EXT_mesh_gpu_instancing"])
    places = np.random.default_rng(0).normal(size=(count, 3)).astype(np.float32)
    attributes = {"TRANSLATION": file.accessor(places)}
    file.node(mesh=file.quad(), scale=[2, 2, 2], extensions={"EXT_mesh_gpu_instancing": {"attributes": attributes}})
    scene = file.load(tmp_path)
    totals, bounds = scene.totals(), scene.bounds()
    assert len(scene.instances) == 1 and (totals.instances, totals.triangles) == (count, 2 * count)
    assert bounds is not None and np.allclose(bounds, [places.min(0) * 2, (places.max(0) + np.array([1, 1, 0])) * 2])
    assert np.allclose(scene.instances[0].worlds()[7], [*np.c_[np.eye(3) * 2, places[7] * 2], [0, 0, 0, 1]])


@pytest.mark.parametrize("rotation", [[0, 0, 0, 0], [math.nan, 0, 0, 1]])
def test_a_crowd_with_a_place_that_is_none_is_skipped(tmp_path: Path, rotation: list[float]) -> None:
    file = one_quad()
    attributes = {"ROTATION": file.accessor([rotation], kind="VEC4")}
    file.node(mesh=0, extensions={"EXT_mesh_gpu_instancing": {"attributes": attributes}})
    scene = file.load(tmp_path)
    assert len(scene.instances) == 1 and scene.warnings[0].startswith("nodes[1].extensions.EXT_mesh_gpu_instancing.attributes")


def test_hidden_nodes_hide_all_below_them(tmp_path: Path) -> None:
    file = File(extensionsUsed=["KHR_node_visibility"])
    mesh = file.quad()
    file.node(children=[1], mesh=mesh, extensions={"KHR_node_visibility": {"visible": False}})
    file.node(root=False, mesh=mesh)
    file.node(mesh=mesh, extensions={"KHR_node_visibility": {"visible": True}})
    scene = file.load(tmp_path)
    assert [instance.node for instance in scene.instances] == [2] and scene.lost == ["hidden nodes"] and scene.warnings == []


# Compressed numbers


def compressed(data: bytes, raw: np.ndarray[Any, Any], mode: str, **more: Any) -> tuple[File, dict[str, Any]]:
    """A file whose only accessor so far is on a packed view, and the extension of that view."""
    file = File(extensionsUsed=[MESHOPT], extensionsRequired=[MESHOPT])
    view = file.view(data)
    stride = raw.strides[0]
    packed = {"buffer": 0, "byteOffset": 0, "byteLength": len(data), "byteStride": stride, "count": len(raw), "mode": mode, **more}
    file.json["bufferViews"][view] = {"buffer": 1, "byteLength": raw.nbytes, "extensions": {MESHOPT: packed}}
    file.json["bufferViews"][view] |= {"byteStride": stride} if mode == "ATTRIBUTES" else {}
    return file, packed


def write_meshopt(file: File, folder: Path) -> Path:
    path = file.write(folder)
    # The second buffer is the one that a reader without the extension would need: it is not there.
    text = json.loads(path.read_bytes()[20 : 20 + int.from_bytes(path.read_bytes()[12:16], "little")])
    text["buffers"].append({"byteLength": 1 << 20, "extensions": {MESHOPT: {"fallback": True}}})
    (folder / "scene.bin").write_bytes(file.blob)
    text["buffers"][0]["uri"] = "scene.bin"
    (folder / "scene.gltf").write_text(json.dumps(text))
    return folder / "scene.gltf"


def meshopt() -> Any:
    return pytest.importorskip("meshopt", reason="the package meshopt is not installed")


@pytest.mark.parametrize("count", [3, 1000, 30_000])
def test_positions_packed_by_meshoptimizer_come_out_to_the_bit(tmp_path: Path, count: int) -> None:
    points = np.random.default_rng(count).normal(size=(count, 3)).astype(np.float32)
    file, _ = compressed(meshopt().encode_gltf_buffer(points, "ATTRIBUTES"), points, "ATTRIBUTES")
    file.json["accessors"].append({"bufferView": 0, "componentType": 5126, "type": "VEC3", "count": count})
    file.node(mesh=file.mesh({"attributes": {"POSITION": 0}}))
    scene = load(write_meshopt(file, tmp_path))
    assert np.array_equal(only(scene).positions, points)


@pytest.mark.parametrize(("mode", "kind"), [("TRIANGLES", np.uint32), ("TRIANGLES", np.uint16), ("INDICES", np.uint16)])
def test_indices_packed_by_meshoptimizer_draw_the_same_triangles(tmp_path: Path, mode: str, kind: Any) -> None:
    order = np.random.default_rng(1).integers(0, 4, 300).astype(kind)
    file, _ = compressed(meshopt().encode_gltf_buffer(order.astype(np.uint32), mode), order, mode)
    component = 5123 if kind is np.uint16 else 5125
    file.json["accessors"].append({"bufferView": 0, "componentType": component, "type": "SCALAR", "count": 300})
    file.node(mesh=file.mesh({"attributes": {"POSITION": file.accessor(QUAD)}, "indices": 0}))
    scene = load(write_meshopt(file, tmp_path))
    found = only(scene).indices.astype(int)
    turned = np.stack([np.roll(found, k, 1) for k in range(3)])  # the codec may turn a triangle round
    assert (turned == order.reshape(-1, 3)).all(2).any(0).all()


def test_directions_packed_with_a_filter_are_unit_vectors(tmp_path: Path) -> None:
    normals = np.random.default_rng(2).normal(size=(4, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    filtered = meshopt().encode_filter_oct(np.c_[normals, np.ones(4)], 4, 8)
    file, _ = compressed(meshopt().encode_gltf_buffer(filtered, "ATTRIBUTES"), filtered, "ATTRIBUTES", filter="OCTAHEDRAL")
    file.json["accessors"].append({"bufferView": 0, "componentType": 5120, "type": "VEC3", "count": 4, "normalized": True})
    attributes = {"NORMAL": 0, "POSITION": file.accessor(QUAD)}
    file.node(mesh=file.mesh({"attributes": attributes, "indices": file.accessor(QUAD_INDICES, 5123, "SCALAR")}))
    found = only(load(write_meshopt(file, tmp_path))).normals
    assert found is not None and np.abs(found - normals).max() < 0.03


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"count": 2**40}, ".count: 1099511627776 elements cannot be in"),
        ({"count": 0}, ".count: count 0 is none"),
        ({"byteStride": 3}, ".byteStride: stride 3 is none"),
        ({"byteLength": 2**40}, ".byteLength: ends at byte"),
        ({"byteOffset": -1}, ": byteOffset -1"),
        ({"buffer": 7}, ".buffer: buffer 7 does not exist"),
        ({"mode": "STRIPS"}, ".mode: invalid enum value 'STRIPS'"),
        ({"byteLength": 9}, ": the packed data is damaged"),
    ],
)
def test_a_packed_view_that_is_damaged_costs_its_primitive(tmp_path: Path, change: dict[str, Any], where: str) -> None:
    points = QUAD.repeat(100, 0)
    file, packed = compressed(meshopt().encode_gltf_buffer(points, "ATTRIBUTES"), points, "ATTRIBUTES")
    packed |= change
    file.json["accessors"].append({"bufferView": 0, "componentType": 5126, "type": "VEC3", "count": 400})
    file.node(mesh=file.mesh({"attributes": {"POSITION": 0}}))
    file.node(mesh=file.quad())
    scene = load(write_meshopt(file, tmp_path))
    assert len(scene.triangles()) == 2 and scene.warnings[0].startswith(f"bufferViews[0].extensions.{MESHOPT}{where}")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_packed_data_with_wrong_bytes_never_stops_the_program(tmp_path: Path, data: st.DataObject) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    points = random.normal(size=(60, 3)).astype(np.float32)
    raw = bytearray(meshopt().encode_gltf_buffer(points, "ATTRIBUTES"))
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    file, _ = compressed(bytes(raw), points, "ATTRIBUTES")
    file.json["accessors"].append({"bufferView": 0, "componentType": 5126, "type": "VEC3", "count": 60})
    file.node(mesh=file.mesh({"attributes": {"POSITION": 0}}))
    soup = load(write_meshopt(file, tmp_path)).triangles()
    assert np.isfinite(soup.positions).all()


def draco_file(points: Any, faces: Any) -> tuple[File, bytes]:
    package = pytest.importorskip("DracoPy", reason="the package DracoPy is not installed")
    data: bytes = package.encode(points, faces, quantization_bits=14)
    mesh = package.decode(data)
    file = File(extensionsUsed=[DRACO], extensionsRequired=[DRACO])
    count = len(mesh.points)
    file.json["accessors"] = [
        {"componentType": 5126, "type": "VEC3", "count": count},
        {"componentType": 5125, "type": "SCALAR", "count": mesh.faces.size},
    ]
    packed = {"bufferView": file.view(data), "attributes": {"POSITION": mesh.attributes[0]["unique_id"]}}
    file.node(mesh=file.mesh({"attributes": {"POSITION": 0}, "indices": 1, "extensions": {DRACO: packed}}))
    return file, data


def test_a_draco_mesh_has_its_triangles_where_they_were(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    points = random.random((200, 3)).astype(np.float32)
    faces = random.permutation(200)[:198].reshape(-1, 3).astype(np.uint32)
    file, _ = draco_file(points, faces)
    scene = file.load(tmp_path)
    assert scene.warnings == []
    key = [tuple(map(tuple, np.round(sorted(triangle.tolist()), 2))) for triangle in points[faces]]
    again = [tuple(map(tuple, np.round(sorted(triangle.tolist()), 2))) for triangle in scene.triangles().positions]
    close = sum(any(np.allclose(a, b, atol=0.011) for b in key) for a in again)
    assert close == len(again) == len(faces)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda file: file.json["accessors"][0].update(count=5), "the packed data has 198 values, the accessor says 5"),
        (lambda file: file.json["bufferViews"][0].update(byteLength=40), "the packed data is damaged"),
        (
            lambda file: file.json["meshes"][0]["primitives"][0]["extensions"][DRACO]["attributes"].update(POSITION=9),
            "the packed data has no attribute 9",
        ),
        (lambda file: file.json["meshes"][0]["primitives"][0]["extensions"][DRACO].pop("bufferView"), "missing required field"),
    ],
)
def test_a_draco_mesh_that_is_damaged_is_skipped(tmp_path: Path, damage: Any, says: str) -> None:
    file, _ = draco_file(np.random.default_rng(4).random((200, 3)).astype(np.float32), np.arange(198, dtype=np.uint32).reshape(-1, 3))
    damage(file)
    scene = file.load(tmp_path)
    assert len(scene.triangles()) == 0 and says in scene.warnings[0]
    assert scene.warnings[0].startswith(f"meshes[0].primitives[0].extensions.{DRACO}")
    with pytest.raises(SceneError, match="strict"):
        file.load(tmp_path, strict=True)


@pytest.mark.parametrize(("name", "package"), [(DRACO, "DracoPy"), (MESHOPT, "meshopt")])
def test_a_compression_whose_package_is_missing_is_said_by_name(
    tmp_path: Path, name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, package, None)  # what the import system takes for "not installed"
    file = one_quad()
    file.json |= {"extensionsUsed": [name], "extensionsRequired": [name]}
    with pytest.raises(SceneError, match=f"extensionsRequired: {name} needs the package {package}; pip install {package}$"):
        file.load(tmp_path)
