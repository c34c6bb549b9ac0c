"""glTF files into the scene model: what must load, and what it must become. Every file here is made by the test."""

from __future__ import annotations

import copy
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from renderer.scene import undrawn
from renderer.scene.framing import default_camera
from renderer.scene.gltf import load
from renderer.scene.gltf_mesh import assemble_triangles
from renderer.scene.model import Orthographic, Perspective, Scene, SceneError
from tests.renderer.helpers.gltf_file import QUAD, QUAD_INDICES, TYPES, File, glb, one_quad

KHR = "KHR_materials_"


def facing(scene: Scene) -> np.ndarray[Any, Any]:
    """Unit geometric normals of all triangles."""
    p = scene.triangles().positions.astype(float)
    normal = np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0])
    unit: np.ndarray[Any, Any] = normal / np.linalg.norm(normal, axis=1, keepdims=True)
    return unit


# Containers and buffers


def test_a_glb_and_a_gltf_with_a_data_uri_are_the_same_scene(tmp_path: Path) -> None:
    file = one_quad()
    binary = file.load(tmp_path)
    del file.json["buffers"]
    text = load(file.write(tmp_path, "scene.gltf"))
    assert binary.warnings == text.warnings == []
    assert np.array_equal(binary.triangles().positions, text.triangles().positions)
    assert np.array_equal(binary.triangles().positions.reshape(-1, 3), QUAD[QUAD_INDICES])


@pytest.mark.parametrize(
    ("uri", "name", "warns"),
    [
        ("data.bin", "data.bin", False),
        ("sub/folder/data.bin", "sub/folder/data.bin", False),
        ("sub/../data.bin", "data.bin", False),
        ("my%20data.bin", "my data.bin", False),
        ("my data.bin", "my data.bin", False),
        ("%C3%A9t%C3%A9%E2%9D%A4.bin", "été❤.bin", False),
        ("été❤.bin", "été❤.bin", False),
        ("example 10%.bin", "example 10%.bin", True),
        ("a%20b.bin", "a%20b.bin", True),
    ],
)
def test_buffer_files_are_found_by_decoded_name_then_by_raw_name(
    tmp_path: Path, uri: str, name: str, warns: bool
) -> None:
    file = one_quad()
    (tmp_path / "sub/folder").mkdir(parents=True)
    (tmp_path / name).write_bytes(file.blob)
    file.json["buffers"] = [{"byteLength": len(file.blob), "uri": uri}]
    scene = load(file.write(tmp_path, "scene.gltf"))
    assert len(scene.triangles()) == 2
    assert [text.split(":")[0] for text in scene.warnings] == ["buffers[0].uri"] * warns


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("../secret.bin", "leaves the folder"),
        ("%2e%2e/secret.bin", "leaves the folder"),
        ("sub/../../secret.bin", "leaves the folder"),
        ("/etc/hostname", "absolute or remote"),
        ("http://example.com/a.bin", "absolute or remote"),
        ("file:///etc/hostname", "absolute or remote"),
        ("C:\\data.bin", "absolute or remote"),
        ("gone.bin", "no file 'gone.bin'"),
        ("nul%00.bin", "no file"),
        ("", "no file"),
        ("x" * 5000, "no file"),
        ("data:text/plain", "without a comma"),
        ("data:;base64,A", "base64 is damaged"),
        ("data:;base64,AAAA", "byteLength is"),
    ],
)
def test_other_uris_are_refused_by_name(tmp_path: Path, uri: str, says: str) -> None:
    file = one_quad()
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret.bin").write_bytes(file.blob)
    file.json["buffers"] = [{"byteLength": len(file.blob), "uri": uri}]
    scene = load(file.write(inner, "scene.gltf"))
    assert len(scene.triangles()) == 0
    assert scene.warnings[0].startswith("buffers[0]") and says in scene.warnings[0]
    assert len(scene.warnings) == 2 and "nothing to draw" in scene.warnings[1]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty"),
        (b"glTF", "cut off"),
        (b"[]", "expected `object`"),
        (b"{}", "asset"),
        (b"solid cube", "not a glTF file"),
        (b"\xff\xfe{\0", "not a glTF file"),
        (b'{"asset":{"version":"1.0"}}', "glTF 1.0 is not supported"),
        (b'{"asset":{"version":"3.0"}}', "glTF 3.0 is not supported"),
        (b'{"asset":{"version":"two"}}', "not a version"),
        (b'{"asset":{"version":"2.0","minVersion":"2.1"}}', "minVersion"),
        (b'{"asset":{"version":"2.0"},"meshes":{}}', "meshes: expected `array`"),
        (b'{"asset":{"version":"2.0"},"scene":"hello"}', "scene: expected `int"),
        (b'{"asset":{"version":"2.0"},"extras":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
        (
            b'{"asset":{"version":"2.0"},"nodes":[{"extras":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
            "nested too deep",
        ),
        (glb(b'{"asset":{"version":"2.0"}}')[:-4], "cut off"),
        (struct.pack("<4sII", b"glTF", 1, 20) + bytes(8), "GLB version 1"),
        (struct.pack("<4sII", b"glTF", 2, 12), "too few"),
        (struct.pack("<4sIII4s", b"glTF", 2, 20, 0, b"BIN\0"), "not JSON"),
        (struct.pack("<4sIII4s", b"glTF", 2, 20, 1 << 30, b"JSON"), "cut off"),
        (struct.pack("<4sIII4s4s", b"glTF", 2, 24, 3, b"JSON", b"{}  "), "not a multiple of 4"),
    ],
)
def test_a_file_that_is_no_gltf_is_one_clear_line(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "bad.glb"
    path.write_bytes(data)
    with pytest.raises(SceneError, match=r"bad\.glb: ") as error:
        load(path)
    assert says in str(error.value) and "\n" not in str(error.value) and len(str(error.value)) < 400


def test_a_missing_file_and_a_folder_are_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(SceneError, match="no such file"):
        load(tmp_path / "none.glb")
    with pytest.raises(SceneError, match="directory"):
        load(tmp_path)


# Accessors


def test_interleaved_and_packed_data_are_bit_equal(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    positions = random.normal(size=(3, 3)).astype(np.float32)
    normals = random.normal(size=(3, 3))
    normals = (normals / np.linalg.norm(normals, axis=1, keepdims=True)).astype(np.float32)
    packed = File()
    attributes = {"POSITION": packed.accessor(positions), "NORMAL": packed.accessor(normals)}
    packed.node(mesh=packed.mesh({"attributes": attributes}))
    mixed = File()
    view = mixed.view(np.concatenate([positions, normals], 1).tobytes(), byteStride=24)
    entry = {"bufferView": view, "componentType": 5126, "count": 3, "type": "VEC3"}
    mixed.json["accessors"] = [entry, entry | {"byteOffset": 12}]
    mixed.node(mesh=mixed.mesh({"attributes": {"POSITION": 0, "NORMAL": 1}}))
    one, two = (file.load(tmp_path).meshes[0].geometries[0] for file in (packed, mixed))
    assert one.normals is not None and two.normals is not None
    assert one.positions.tobytes() == two.positions.tobytes() == positions.tobytes()
    assert one.normals.tobytes() == two.normals.tobytes() == normals.tobytes()


@pytest.mark.parametrize("component", [5121, 5123, 5125])
def test_sparse_values_lie_over_zeros_or_over_a_view(tmp_path: Path, component: int) -> None:
    file = File()
    values = file.view(QUAD[1:].tobytes())
    where = file.view(np.array([1, 2, 3], TYPES[component]).tobytes())
    sparse = {
        "count": 3,
        "indices": {"bufferView": where, "componentType": component},
        "values": {"bufferView": values},
    }
    bare = {"componentType": 5126, "count": 4, "type": "VEC3", "sparse": sparse}
    file.json["accessors"] = [bare]
    over = file.accessor(QUAD * 0 + 7)
    file.json["accessors"][over]["sparse"] = sparse
    indices = file.accessor(QUAD_INDICES, 5123, "SCALAR")
    for accessor in (0, over):
        file.node(mesh=file.mesh({"attributes": {"POSITION": accessor}, "indices": indices}))
    scene = file.load(tmp_path)
    first, second = (mesh.geometries[0].positions for mesh in scene.meshes)
    assert np.array_equal(first, QUAD)
    assert np.array_equal(second, [[7, 7, 7], *QUAD[1:]])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_form_of_accessor_gives_its_numbers_back(tmp_path: Path, data: st.DataObject) -> None:
    component = data.draw(st.sampled_from(sorted(TYPES)))
    dtype = np.dtype(TYPES[component])
    normalized = component in (5120, 5121, 5122, 5123) and data.draw(st.booleans())
    count = data.draw(st.integers(3, 40))
    stride = data.draw(st.sampled_from([None, *range(-(-3 * dtype.itemsize // 4) * 4, 253, 4)]))
    offset = data.draw(st.integers(0, 5)) * 4
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    if component == 5126:
        stored = random.normal(size=(count, 3)).astype(dtype)
    else:
        stored = random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (count, 3), dtype, endpoint=True)
    step = stride or 3 * dtype.itemsize
    raw = bytearray(random.bytes(offset + step * count))
    for row, element in enumerate(stored):
        raw[offset + row * step : offset + row * step + element.nbytes] = element.tobytes()
    file = File()
    view = file.view(bytes(raw), **({"byteStride": stride} if stride else {}))
    entry = {"bufferView": view, "byteOffset": offset, "componentType": component, "count": count, "type": "VEC3"}
    file.json["accessors"].append(entry | {"normalized": normalized})
    if data.draw(st.booleans()):
        chosen = np.sort(random.choice(count, data.draw(st.integers(1, count)), replace=False))
        stored[chosen] = stored[chosen[::-1]]
        kind = data.draw(st.sampled_from([5121, 5123, 5125]))
        file.json["accessors"][0]["sparse"] = {
            "count": len(chosen),
            "indices": {"bufferView": file.view(chosen.astype(TYPES[kind]).tobytes()), "componentType": kind},
            "values": {"bufferView": file.view(stored[chosen].tobytes())},
        }
    order = random.permutation(count).astype(np.uint32)[: count // 3 * 3]
    attributes = {"POSITION": 0}
    file.node(mesh=file.mesh({"attributes": attributes, "indices": file.accessor(order, 5125, "SCALAR")}))
    scene = file.load(tmp_path)
    expected = stored.astype(np.float32)
    if normalized:
        expected = np.maximum(expected / np.float32(np.iinfo(dtype).max), np.float32(-1))
    assert scene.warnings == []
    geometry = scene.meshes[0].geometries[0]
    assert np.array_equal(geometry.positions, expected)
    assert np.array_equal(geometry.indices, order.reshape(-1, 3))


@pytest.mark.parametrize(
    ("where", "change", "path"),
    [
        ("accessors", {"count": -5}, "accessors[0].count"),
        ("accessors", {"count": 0}, "accessors[0].count"),
        ("accessors", {"count": 5}, "accessors[0]"),
        ("accessors", {"count": 2**62}, "accessors[0]"),
        ("accessors", {"count": 1.5}, "accessors[0].count"),
        ("accessors", {"count": 10**30}, "accessors[0]"),
        ("accessors", {"count": 2**40, "bufferView": None}, "accessors[0].count"),
        ("accessors", {"componentType": 5124}, "accessors[0].componentType"),
        ("accessors", {"type": "VEC5"}, "accessors[0].type"),
        ("accessors", {"type": "VEC2"}, "meshes[0].primitives[0].attributes.POSITION"),
        ("accessors", {"byteOffset": -4}, "accessors[0].byteOffset"),
        ("accessors", {"bufferView": -1}, "accessors[0].bufferView"),
        ("accessors", {"bufferView": 9}, "accessors[0].bufferView"),
        ("bufferViews", {"byteLength": 2**53}, "bufferViews[0].byteLength"),
        ("bufferViews", {"byteLength": 0}, "bufferViews[0]"),
        ("bufferViews", {"byteOffset": -1}, "bufferViews[0]"),
        ("bufferViews", {"byteStride": 4}, "bufferViews[0].byteStride"),
        ("bufferViews", {"byteStride": 256}, "bufferViews[0].byteStride"),
        ("bufferViews", {"buffer": 1}, "bufferViews[0].buffer"),
        ("bufferViews", {"buffer": "x"}, "bufferViews[0].buffer"),
    ],
)
def test_a_bad_accessor_costs_its_primitive_and_is_named(
    tmp_path: Path, where: str, change: dict[str, Any], path: str
) -> None:
    file = one_quad()
    file.node(mesh=file.quad())
    file.json[where][0] = {k: v for k, v in (file.json[where][0] | change).items() if v is not None}
    scene = file.load(tmp_path)
    assert len(scene.triangles()) == 2, "the other square is still there"
    assert [text.split(": ")[0] for text in scene.warnings] == [path]
    with pytest.raises(SceneError, match="strict"):
        file.load(tmp_path, strict=True)


@pytest.mark.parametrize("index", [-1, 99])
def test_an_index_that_is_not_there_is_never_the_last_one(tmp_path: Path, index: int) -> None:
    file = one_quad()
    file.json["meshes"][0]["primitives"][0]["attributes"]["POSITION"] = index
    scene = file.load(tmp_path)
    assert len(scene.triangles()) == 0
    assert scene.warnings[0].startswith(f"meshes[0].primitives[0].attributes.POSITION: accessor {index} does not exist")


# Primitives


def test_lists_strips_and_fans_face_one_way_and_lines_are_skipped_with_a_warning_each(tmp_path: Path) -> None:
    file = File()
    zigzag = np.array([[i // 2, i % 2, 0] for i in range(6)], np.float32)
    ring = np.array([[0, 0, 0]] + [[math.cos(a), math.sin(a), 0] for a in np.linspace(0, 2, 5)], np.float32)
    strip, fan = ({"POSITION": file.accessor(points)} for points in (zigzag[:, [0, 1, 2]], ring))
    triangle = {"POSITION": file.accessor(QUAD[:3])}
    modes: list[tuple[dict[str, int], int]] = [(triangle, 0), (triangle, 1), (triangle, 4), (strip, 5), (fan, 6)]
    mesh = file.mesh(*({"attributes": attributes, "mode": mode} for attributes, mode in modes))
    file.node(mesh=mesh)
    scene = file.load(tmp_path)
    assert [len(geometry.indices) for geometry in scene.meshes[0].geometries] == [1, 4, 4]
    assert [text.split(":")[0] for text in scene.warnings] == [f"meshes[0].primitives[{k}].mode" for k in (0, 1)]
    normals = facing(scene)
    assert np.allclose(normals[:1], [0, 0, 1]) and np.allclose(normals[5:], [0, 0, 1])
    assert np.allclose(normals[1:5], normals[1]), "a strip's triangles all face one side"


def test_strips_and_fans_are_taken_apart_as_the_specification_says() -> None:
    order = np.arange(5, dtype=np.uint32)
    assert assemble_triangles(order, 5).tolist() == [[0, 1, 2], [1, 3, 2], [2, 3, 4]]
    assert assemble_triangles(order, 6).tolist() == [[1, 2, 0], [2, 3, 0], [3, 4, 0]]
    assert assemble_triangles(order, 4).tolist() == [[0, 1, 2]]
    assert len(assemble_triangles(order[:2], 5)) == len(assemble_triangles(order[:2], 6)) == 0


def test_the_good_part_of_a_file_is_drawn_and_each_bad_part_has_one_warning(tmp_path: Path) -> None:
    file = one_quad()
    file.node(mesh=file.mesh({"attributes": {"NORMAL": file.accessor(QUAD)}}))
    empty = file.accessor(QUAD)
    file.json["accessors"][empty]["count"] = 0
    file.node(mesh=file.mesh({"attributes": {"POSITION": empty}}))
    file.node(mesh=99)
    heard: list[str] = []
    scene = file.load(tmp_path, warn=heard.append)
    assert len(scene.triangles()) == 2
    assert heard == scene.warnings and len(heard) == 3
    assert heard[0].startswith("nodes[3].mesh: mesh 99 does not exist") and "there is no POSITION" in heard[1]
    assert heard[2].startswith("accessors[3].count: the count is 0, but must be at least 1")


def test_indices_past_the_vertices_or_of_the_wrong_kind_skip_the_primitive(tmp_path: Path) -> None:
    for values, component, kind, says in (
        ([0, 1, 65000], 5123, "SCALAR", "vertex index 65000, but there are 4 vertices"),
        ([0, 1, 2], 5126, "SCALAR", "indices are unsigned SCALARs"),
        ([0, 1, 2], 5122, "SCALAR", "indices are unsigned SCALARs"),
        ([0, 1, 2, 3], 5123, "VEC2", "indices are unsigned SCALARs"),
    ):
        file = one_quad()
        file.json["meshes"][0]["primitives"][0]["indices"] = file.accessor(values, component, kind)
        scene = file.load(tmp_path)
        assert says in scene.warnings[0] and len(scene.triangles()) == 0


def test_a_count_that_is_no_multiple_of_three_draws_the_whole_triangles(tmp_path: Path) -> None:
    file = File()
    file.node(mesh=file.mesh({"attributes": {"POSITION": file.accessor(QUAD)}}))
    scene = file.load(tmp_path)
    assert len(scene.triangles()) == 1 and "no whole number of triangles" in scene.warnings[0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_triangles_at_positions_that_are_not_finite_are_dropped_with_a_warning(tmp_path: Path, bad: float) -> None:
    file = File()
    points = QUAD.copy()
    points[3, 1] = bad
    attributes = {"POSITION": file.accessor(points)}
    file.node(mesh=file.mesh({"attributes": attributes, "indices": file.accessor(QUAD_INDICES, 5123, "SCALAR")}))
    scene = file.load(tmp_path)
    assert len(scene.triangles()) == 1 and np.isfinite(scene.triangles().positions).all()
    assert scene.warnings == [
        "meshes[0].primitives[0].attributes.POSITION: 1 positions are not finite; 1 triangles are dropped"
    ]
    bounds = scene.bounds()
    assert bounds is not None and np.array_equal(bounds, [[0, 0, 0], [1, 1, 0]])


def test_points_and_collapsed_edges_are_dropped_and_counted_and_the_good_triangle_stays(tmp_path: Path) -> None:
    file = File()
    p, q, r = QUAD[:3]
    points = np.array([p, p, p, p, p, q, p, q, r, p, (p + r) / 2, r])
    far = QUAD[:3] * 1e38 * 3
    file.node(mesh=file.mesh({"attributes": {"POSITION": file.accessor(points)}}), rotation=[0.5, 0.5, 0.5, 0.5])
    file.node(mesh=file.mesh({"attributes": {"POSITION": file.accessor(far)}}), scale=[10, 10, 10])
    soup = file.load(tmp_path).triangles()
    assert (len(soup), soup.degenerate, soup.non_finite) == (1, 3, 1)
    assert soup.normals is None and soup.material.tolist() == [0] and soup.instance.tolist() == [0]


def test_normals_are_renormalised_with_a_warning_and_flat_where_they_are_nothing(tmp_path: Path) -> None:
    file = File()
    normals = np.array([[0, 0, 5], [0, 0, 0], [math.nan, 0, 0], [0, 0, 1]])
    attributes = {"POSITION": file.accessor(QUAD), "NORMAL": file.accessor(normals)}
    file.node(mesh=file.mesh({"attributes": attributes, "indices": file.accessor(QUAD_INDICES, 5123, "SCALAR")}))
    scene = file.load(tmp_path)
    found = scene.triangles().normals
    assert found is not None and np.allclose(found, [0, 0, 1])
    assert "3 normals are not of unit length" in scene.warnings[0] and len(scene.warnings) == 1


def test_without_normals_every_triangle_is_flat_and_a_stray_tangent_is_ignored(tmp_path: Path) -> None:
    file = one_quad()
    random = np.random.default_rng(0)
    corners = random.normal(size=(12, 3))
    faces = random.integers(0, 12, (20, 3))
    attributes = {"POSITION": file.accessor(corners), "TANGENT": file.accessor(np.ones((12, 4)), kind="VEC4")}
    file.node(mesh=file.mesh({"attributes": attributes, "indices": file.accessor(faces, 5121, "SCALAR")}))
    smooth = {"POSITION": file.accessor(QUAD), "NORMAL": file.accessor(QUAD * 0 + np.array([0, 0, 1]))}
    file.node(mesh=file.mesh({"attributes": smooth, "indices": file.accessor(QUAD_INDICES, 5123, "SCALAR")}))
    scene = file.load(tmp_path)
    soup = scene.triangles()
    assert soup.normals is not None, "one geometry has normals, so the others have their flat ones written out"
    assert np.allclose(soup.normals, facing(scene)[:, None, :], atol=1e-5)
    assert np.ptp(soup.normals, axis=1).max() == 0


def test_quantised_positions_and_normals_are_read(tmp_path: Path) -> None:
    file = File(extensionsUsed=["KHR_mesh_quantization"], extensionsRequired=["KHR_mesh_quantization"])
    padded = np.zeros((4, 4), np.uint16)
    padded[:, :3] = QUAD * 65535
    turned = np.zeros((4, 4), np.int8)
    turned[:, 2] = 127
    entry = {"count": 4, "type": "VEC3", "normalized": True}
    views = [file.view(padded.tobytes(), byteStride=8), file.view(turned.tobytes(), byteStride=4)]
    kinds = zip(views, (5123, 5120))
    file.json["accessors"] = [entry | {"bufferView": view, "componentType": kind} for view, kind in kinds]
    indices = file.accessor(QUAD_INDICES, 5123, "SCALAR")
    file.node(mesh=file.mesh({"attributes": {"POSITION": 0, "NORMAL": 1}, "indices": indices}))
    scene = file.load(tmp_path)
    assert scene.warnings == [] and np.allclose(scene.meshes[0].geometries[0].positions, QUAD)
    found = scene.triangles().normals
    assert found is not None and np.allclose(found, [0, 0, 1])


# Nodes


def test_a_chain_of_many_thousand_nodes_adds_up(tmp_path: Path) -> None:
    file = File()
    depth = 20_000
    for k in range(depth):
        file.node(root=k == 0, translation=[0.5, 0, 0], children=[k + 1])
    file.node(root=False, mesh=file.quad())
    scene = file.load(tmp_path)
    assert scene.warnings == [] and scene.instances[0].world[0, 3] == depth / 2


def test_translation_rotation_scale_and_matrices_compose_from_the_root_down(tmp_path: Path) -> None:
    file = File()
    half = math.sqrt(0.5)
    leaf = {"mesh": file.quad(), "translation": [1, 0, 0], "scale": [2, 3, 4]}
    file.node(children=[1], matrix=[1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 10, 20, 30, 1])
    file.node(root=False, children=[2], rotation=[0, 0, half, half])
    file.node(root=False, **leaf)
    world = file.load(tmp_path).instances[0].world
    assert np.allclose(world, [[0, -3, 0, 10], [2, 0, 0, 21], [0, 0, 4, 30], [0, 0, 0, 1]])


@pytest.mark.parametrize("scale", [(-1, 1, 1), (1, -1, 1), (1, 1, -1), (-2, -3, -4), (-1, -1, 1)])
def test_mirrored_instances_keep_their_front(tmp_path: Path, scale: tuple[float, float, float]) -> None:
    """A closed box stays outward: the volume that its faces enclose keeps its sign."""
    file = File()
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
    faces = [
        (0, 1, 3),
        (0, 3, 2),
        (4, 6, 7),
        (4, 7, 5),
        (0, 4, 5),
        (0, 5, 1),
        (2, 3, 7),
        (2, 7, 6),
        (0, 2, 6),
        (0, 6, 4),
    ]
    faces += [(1, 5, 7), (1, 7, 3)]
    outward = corners * 2 - 1
    attributes = {
        "POSITION": file.accessor(corners),
        "NORMAL": file.accessor(outward / np.linalg.norm(outward, axis=1, keepdims=True)),
    }
    mesh = file.mesh({"attributes": attributes, "indices": file.accessor(faces, 5123, "SCALAR")})
    file.node(mesh=mesh, scale=list(scale))
    file.node(mesh=mesh)
    soup = file.load(tmp_path).triangles()
    volume = np.linalg.det(soup.positions.astype(float)).reshape(2, 12).sum(1) / 6
    assert np.allclose(volume, np.array([abs(math.prod(scale)), 1.0]))
    p = soup.positions.astype(float)
    geometric = np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0])
    assert soup.normals is not None
    assert ((soup.normals * geometric[:, None, :]).sum(-1) > 0).all(), "shading normals are on the front's side"


def test_normals_stay_perpendicular_under_uneven_scale_and_shear(tmp_path: Path) -> None:
    """A plane's normal transforms by the inverse transpose; a flattening scale of zero leaves it defined."""
    slope = np.array([[0, 0, 0], [1, 0, 1], [0, 1, 0]], float)
    normal = np.tile(np.array([-1, 0, 1]) / math.sqrt(2), (3, 1))
    for scale in ([5, 1, 0.25], [-2, 1, 3], [1, 1, 0]):
        file = File()
        attributes = {"POSITION": file.accessor(slope), "NORMAL": file.accessor(normal)}
        file.node(children=[1], scale=scale)
        turned = [0, math.sin(0.3), 0, math.cos(0.3)]
        file.node(root=False, mesh=file.mesh({"attributes": attributes}), rotation=turned)
        scene = file.load(tmp_path)
        found = scene.triangles().normals
        assert found is not None and np.allclose(np.abs(found[0] @ facing(scene)[0]), 1, atol=1e-6)
        assert (found[0] @ facing(scene)[0] > 0).all()


@pytest.mark.parametrize(
    ("links", "says"),
    [
        ([[1], [0]], "cycle: 0 -> 1 -> 0"),
        ([[0]], "cycle: 0 -> 0"),
        ([[1], [2], [3], [1]], "two parents, nodes 0 and 3"),
        ([[], [2], [3], [1]], "cycle: 1 -> 2 -> 3 -> 1"),
        ([[2], [2], []], "two parents, nodes 0 and 1"),
        ([[1, 1], []], "two parents, nodes 0 and 0"),
        ([[(k + 1) % 5000] for k in range(5000)], "cycle: 0 -> 1 -> 2"),
    ],
)
def test_nodes_that_are_no_trees_are_refused_with_their_numbers(
    tmp_path: Path, links: list[list[int]], says: str
) -> None:
    file = one_quad()
    file.json["nodes"] = [{"children": children} for children in links]
    with pytest.raises(SceneError) as error:
        file.load(tmp_path)
    assert says in str(error.value) and len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("node", "path"),
    [
        ({"rotation": [0, 0, 0, 0]}, "nodes[1].rotation"),
        ({"translation": ["x", 0, 0]}, "nodes[1].translation[0]"),
        ({"scale": [1e300, 1, 1], "children": [2]}, "nodes[2]"),
        ({"matrix": [1, 2, 3]}, "nodes[1].matrix"),
        ({"children": [77]}, "nodes[1].children[0]"),
        ({"children": 5}, "nodes[1].children"),
    ],
)
def test_a_broken_node_costs_its_subtree_only(tmp_path: Path, node: dict[str, Any], path: str) -> None:
    file = one_quad()
    file.node(**node)
    file.node(root=False, scale=[1e300, 1, 1], mesh=0)
    scene = file.load(tmp_path)
    assert [text.split(": ")[0] for text in scene.warnings] == [path] and len(scene.triangles()) == 2


def test_odd_transforms_are_used_with_a_warning(tmp_path: Path) -> None:
    file = one_quad(rotation=[0, 0, 0, 2])
    shear = [1, 0, 0, 0, 0.5, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
    file.node(mesh=0, matrix=shear)
    file.node(mesh=0, matrix=[1.0] * 16)
    scene = file.load(tmp_path)
    assert [text.split(":")[0] for text in scene.warnings] == [
        "nodes[0].rotation",
        "nodes[1].matrix",
        "nodes[2].matrix",
    ]
    assert np.allclose(scene.instances[0].world, np.eye(4))
    assert np.allclose(scene.instances[1].world, np.reshape(shear, (4, 4)).T)


def test_the_default_scene_is_shown_else_the_first_else_all_root_nodes(tmp_path: Path) -> None:
    file = File()
    mesh = file.quad()
    for k in range(3):
        file.node(root=False, mesh=mesh, name=f"n{k}")
    file.json["nodes"][0]["children"] = [2]
    file.json["scenes"] = [{"nodes": [0]}, {"nodes": [1]}]
    shown = {}
    changes: dict[str, dict[str, Any]] = {
        "second": {"scene": 1},
        "first": {"scene": None},
        "none": {"scene": None, "scenes": None},
    }
    for label, change in changes.items():
        other = copy.deepcopy(file)
        other.json = {k: v for k, v in (other.json | change).items() if v is not None}
        scene = other.load(tmp_path)
        shown[label] = [instance.name for instance in scene.instances]
        assert scene.warnings == []
    assert shown == {"second": ["n1"], "first": ["n0", "n2"], "none": ["n0", "n2", "n1"]}
    file.json["scene"] = 7
    scene = file.load(tmp_path)
    assert "scene 7 does not exist" in scene.warnings[0] and len(scene.instances) == 2


def test_gpu_instancing_places_a_mesh_many_times(tmp_path: Path) -> None:
    file = File(extensionsUsed=["EXT_mesh_gpu_instancing"])
    half = math.sqrt(0.5)
    attributes = {
        "TRANSLATION": file.accessor([[1, 0, 0], [2, 0, 0], [3, 0, 0]]),
        "ROTATION": file.accessor([[0, 0, 0, 1], [0, 0, half, half], [0, 0, 0, 1]], kind="VEC4"),
        "SCALE": file.accessor([[1, 1, 1], [1, 1, 1], [2, 2, 2]]),
    }
    extension = {"EXT_mesh_gpu_instancing": {"attributes": attributes}}
    file.node(mesh=file.quad(), translation=[0, 5, 0], extensions=extension)
    scene = file.load(tmp_path)
    (crowd,) = scene.instances
    worlds = crowd.worlds()
    assert crowd.count == 3 and worlds[:, :3, 3].tolist() == [[1, 5, 0], [2, 5, 0], [3, 5, 0]]
    assert np.allclose(worlds[1, :3, 0], [0, 1, 0], atol=1e-6) and worlds[2, 1, 1] == 2
    assert scene.totals().instances == 3 and scene.totals().triangles == 6
    assert scene.triangles().instance.tolist() == [0] * 6 and len(scene.triangles()) == 6
    bounds = scene.bounds()
    assert bounds is not None and bounds.tolist() == [[1, 5, 0], [5, 7, 0]]
    del attributes["SCALE"]
    attributes["ROTATION"] = file.accessor([[0, 0, 0, 1]], kind="VEC4")
    assert "different counts" in file.load(tmp_path).warnings[0]


# Cameras


def test_cameras_stand_where_their_nodes_are_and_their_scale_is_ignored(tmp_path: Path) -> None:
    file = one_quad()
    file.json["cameras"] = [
        {"type": "perspective", "name": "eye", "perspective": {"yfov": 0.8, "znear": 0.1}},
        {"type": "orthographic", "orthographic": {"xmag": 2, "ymag": 1.5, "znear": 0, "zfar": 9}},
    ]
    file.node(camera=0, translation=[0, 0, 3], scale=[2, 4, 8])
    file.node(camera=1, name="plan")
    file.node(camera=0, translation=[1, 0, 3])
    eye, plan, again = file.load(tmp_path).cameras
    assert eye.name == again.name == "eye" and plan.name == "plan"
    assert eye.projection == Perspective(0.8, None, 0.1, math.inf)
    assert plan.projection == Orthographic(2, 1.5, 0, 9)
    assert np.allclose(eye.world, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 3], [0, 0, 0, 1]])


@pytest.mark.parametrize(
    ("camera", "path"),
    [
        ({"type": "perspective", "perspective": {"yfov": 1.0, "znear": 10, "zfar": 1}}, "cameras[0].perspective"),
        ({"type": "perspective", "perspective": {"yfov": 0, "znear": 1}}, "cameras[0].perspective.yfov"),
        ({"type": "perspective", "perspective": {"yfov": 4, "znear": 1}}, "cameras[0].perspective.yfov"),
        ({"type": "perspective", "perspective": {"yfov": 1, "znear": 0}}, "cameras[0].perspective"),
        ({"type": "perspective"}, "cameras[0].perspective"),
        ({"type": "fisheye"}, "cameras[0].type"),
        (
            {"type": "orthographic", "orthographic": {"xmag": 0, "ymag": 1, "znear": 0, "zfar": 1}},
            "cameras[0].orthographic",
        ),
    ],
)
def test_a_bad_camera_is_left_out_and_the_scene_is_drawn(tmp_path: Path, camera: dict[str, Any], path: str) -> None:
    file = one_quad()
    file.json["cameras"] = [camera]
    file.node(camera=0)
    scene = file.load(tmp_path)
    assert scene.cameras == [] and len(scene.triangles()) == 2
    assert [text.split(": ")[0] for text in scene.warnings] == [path]


def test_the_default_camera_sees_the_whole_scene(tmp_path: Path) -> None:
    file = one_quad(translation=[100, 50, -20], scale=[3, 0.1, 7])
    file.node(mesh=0, translation=[104, 52, -20])
    scene = file.load(tmp_path)
    camera = default_camera(scene)
    assert isinstance(camera.projection, Perspective)
    assert np.allclose(camera.world[:3, :3].T @ camera.world[:3, :3], np.eye(3))
    assert np.linalg.det(camera.world[:3, :3]) == pytest.approx(1)
    points = scene.triangles().positions.reshape(-1, 3) - camera.world[:3, 3]
    seen = points @ camera.world[:3, :3]
    reach = -seen[:, 2] * math.tan(camera.projection.yfov / 2)
    assert (seen[:, 2] < 0).all() and (np.abs(seen[:, :2]).max(1) < reach).all()
    assert np.abs(seen[:, :2] / reach[:, None]).max() > 0.4, "and it is not lost in the distance"
    assert default_camera(Scene(tmp_path)).world.shape == (4, 4)


# Materials


def material_of(folder: Path, material: Any, **top: Any) -> tuple[Any, list[str]]:
    file = File(**top)
    file.json["materials"] = [material]
    file.node(mesh=file.quad(material=0))
    scene = file.load(folder)
    return scene.materials[0], scene.warnings


def test_material_factors_and_extensions_are_read(tmp_path: Path) -> None:
    used = [KHR + name for name in ("emissive_strength", "specular", "ior", "unlit")]
    material, warnings = material_of(
        tmp_path,
        {
            "name": "m",
            "pbrMetallicRoughness": {
                "baseColorFactor": [0.1, 0.2, 0.3, 0.4],
                "metallicFactor": 0,
                "roughnessFactor": 0.5,
            },
            "emissiveFactor": [1, 0.5, 0.25],
            "doubleSided": True,
            "alphaMode": "MASK",
            "alphaCutoff": 0.3,
            "extensions": {
                used[0]: {"emissiveStrength": 8},
                used[1]: {"specularFactor": 0, "specularColorFactor": [2, 1, 0.5]},
                used[2]: {"ior": 1.33},
                used[3]: {},
            },
        },
        extensionsUsed=used,
    )
    assert warnings == []
    assert material.base_color_factor == (0.1, 0.2, 0.3, 0.4) and material.emissive == (8, 4, 2)
    assert (material.metallic, material.roughness, material.specular_factor, material.ior) == (0, 0.5, 0, 1.33)
    assert material.specular_color_factor == (2, 1, 0.5) and material.unlit and material.double_sided
    assert (material.alpha_mode, material.alpha_cutoff) == ("MASK", 0.3)
    assert not material.is_emissive, "what is unlit is no lamp"


def test_a_primitive_without_material_gets_the_default_one_of_gltf(tmp_path: Path) -> None:
    file = one_quad()
    file.json["materials"] = [{"name": "unused"}]
    file.node(mesh=file.quad(material=5))
    scene = file.load(tmp_path)
    assert scene.triangles().material.tolist() == [1] * 4 and len(scene.materials) == 2
    default = scene.materials[1]
    assert (default.metallic, default.roughness, default.base_color_factor) == (1, 1, (1, 1, 1, 1))
    assert "material 5 does not exist" in scene.warnings[0]


@pytest.mark.parametrize(
    ("material", "attribute", "value", "path"),
    [
        ({"pbrMetallicRoughness": {"baseColorFactor": [5, -1, 0, 1]}}, "base_color_factor", (1, 0, 0, 1), "0].pbr"),
        ({"pbrMetallicRoughness": {"metallicFactor": 3}}, "metallic", 1, "metallicFactor"),
        ({"pbrMetallicRoughness": {"roughnessFactor": -1}}, "roughness", 0, "roughnessFactor"),
        ({"emissiveFactor": [2, 0, 0]}, "emissive", (1, 0, 0), "emissiveFactor[0]"),
        ({"alphaMode": "GLASS"}, "alpha_mode", "OPAQUE", "alphaMode"),
        ({"emissiveFactor": [1, 1]}, "emissive", (0, 0, 0), "emissiveFactor"),
        ({"extensions": {KHR + "ior": {"ior": 0.5}}}, "ior", 1, "ior"),
        ({"extensions": {KHR + "ior": "x"}}, "ior", 1.5, KHR + "ior"),
        ({"extensions": {KHR + "specular": {"specularFactor": 2}}}, "specular_factor", 1, "specularFactor"),
        ("not an object", "roughness", 1, "materials[0]"),
    ],
)
def test_values_out_of_range_are_clamped_and_wrong_types_replaced(
    tmp_path: Path, material: Any, attribute: str, value: Any, path: str
) -> None:
    found, warnings = material_of(tmp_path, material)
    assert getattr(found, attribute) == value
    assert warnings and path in warnings[0].split(": ")[0]


# Extensions, features, totals


def test_a_required_extension_that_is_not_there_refuses_the_file_by_name(tmp_path: Path) -> None:
    file = one_quad()
    file.json |= {"extensionsUsed": ["EXT_made_up"], "extensionsRequired": ["EXT_made_up"]}
    with pytest.raises(SceneError, match="extensionsRequired: EXT_made_up not supported; export it without them"):
        file.load(tmp_path)


def test_unknown_and_undrawn_extensions_load_with_a_warning(tmp_path: Path) -> None:
    file = one_quad()
    file.json["extensionsUsed"] = ["EXT_made_up", KHR + "specular", *sorted(undrawn.EXTENSIONS)]
    file.json["extensionsRequired"] = sorted(undrawn.EXTENSIONS)
    scene = file.load(tmp_path)
    told = [0, *range(2, 2 + len(undrawn.EXTENSIONS))]
    assert [text.split(":")[0] for text in scene.warnings] == [f"extensionsUsed[{place}]" for place in told]
    assert scene.undrawn == ["EXT_made_up", *sorted(undrawn.EXTENSIONS)] and len(scene.triangles()) == 2


def test_draco_without_plain_data_is_skipped_never_drawn_as_zeros(tmp_path: Path) -> None:
    draco = "KHR_draco_mesh_compression"
    file = one_quad()
    file.json["extensionsUsed"] = [draco]
    file.json["meshes"][0]["primitives"][0]["extensions"] = {draco: {"bufferView": 0, "attributes": {}}}
    assert file.load(tmp_path).warnings == [], "plain data beside the compressed is used"
    del file.json["accessors"][0]["bufferView"]
    scene = file.load(tmp_path)
    assert len(scene.triangles()) == 0
    assert scene.warnings[0].startswith(f"meshes[0].primitives[0].extensions.{draco}: the packed data is damaged")


def test_features_that_are_not_drawn_yet_are_said_once_a_kind(tmp_path: Path) -> None:
    file = File(textures=[{}], animations=[{}, {}])
    texture = {"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}
    file.json["materials"] = [texture, texture, {"normalTexture": {"index": 9}}]
    uv = file.accessor(QUAD[:, :2], kind="VEC2")
    attributes = {"POSITION": file.accessor(QUAD), "COLOR_0": file.accessor(QUAD), "TEXCOORD_0": uv}
    primitive = {"attributes": attributes, "indices": file.accessor(QUAD_INDICES, 5123, "SCALAR"), "material": 0}
    file.node(mesh=file.mesh(primitive, primitive))
    scene = file.load(tmp_path)
    assert len(scene.triangles()) == 4
    for kind, text in undrawn.FEATURES.items():
        assert sum(text in told for told in scene.warnings) == 1, kind
    assert scene.undrawn == list(undrawn.FEATURES)
    others = [told for told in scene.warnings if not any(text in told for text in undrawn.FEATURES.values())]
    assert others == [
        "materials[2].normalTexture.index: texture 9 does not exist (the file has 1); it is skipped",
        "textures[0]: has no picture that can be read; a placeholder is drawn",
    ]


def test_totals_count_what_is_drawn(tmp_path: Path) -> None:
    file = File()
    file.json["materials"] = [{}, {"emissiveFactor": [1, 1, 1]}]
    plain, lamp = file.quad(material=0), file.quad(material=1)
    file.quad(material=0)
    for mesh in (plain, lamp, lamp):
        file.node(mesh=mesh)
    totals = file.load(tmp_path).totals()
    assert (totals.triangles, totals.instances, totals.materials) == (6, 3, 2)
    assert (totals.lights, totals.light_triangles) == (2, 4)


def test_a_file_with_nothing_in_it_is_an_empty_scene_with_a_warning(tmp_path: Path) -> None:
    scene = File(scenes=[{}]).load(tmp_path)
    assert scene.warnings == ["the scene has nothing to draw"]
    assert scene.bounds() is None and len(scene.triangles()) == 0 and scene.totals().triangles == 0
    with pytest.raises(SceneError, match="nothing to draw"):
        load(tmp_path / "scene.glb", strict=True)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_a_scene_or_a_scene_error(tmp_path: Path, data: st.DataObject) -> None:
    file = File(materials=[{"emissiveFactor": [1, 1, 1]}], cameras=[{"type": "perspective"}])
    file.node(mesh=file.quad(material=0), children=[1], rotation=[0, 0, 0, 1])
    file.node(root=False, mesh=file.quad(), matrix=[1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1])
    raw = bytearray(file.glb())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(raw) - 1))
        change = data.draw(st.sampled_from(["byte", "digit", "cut", "copy"]))
        if change == "byte":
            raw[at] = data.draw(st.integers(0, 255))
        elif change == "digit":
            digits = [k for k, byte in enumerate(raw) if 48 <= byte <= 57]
            raw[digits[at % len(digits)]] = data.draw(st.sampled_from(b'0123456789-.e["n'))
        elif change == "copy":
            raw[at : at + 8] = raw[-8:]
        elif len(raw) > 40:
            del raw[at : at + data.draw(st.integers(1, 4))]
            raw += bytes(8)
    path = tmp_path / "damaged.glb"
    path.write_bytes(raw)
    try:
        scene = load(path)
        soup = scene.triangles()
    except SceneError as error:
        assert "\n" not in str(error)
        return
    assert np.isfinite(soup.positions).all() and len(soup.material) == len(soup)
    assert (soup.material < len(scene.materials)).all()
    default_camera(scene)
