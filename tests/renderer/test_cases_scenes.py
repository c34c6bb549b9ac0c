"""Scene files that others have stumbled over, from the file to the picture: what must make no difference is the same picture.

The parts are tested where they belong (test_gltf.py and its like); here are the cases as their users told them.
"""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from numpy.typing import NDArray

from renderer.pipeline.camera import camera_data
from renderer.pipeline.session import Session
from renderer.scene.gltf import load
from renderer.scene.model import Perspective, Scene
from renderer.scene.pictures import decode
from tests.renderer.helpers.gltf_file import QUAD, QUAD_INDICES, File, one_quad
from tests.renderer.helpers.picture_files import png

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "models"


def picture(scene: Scene, size: tuple[int, int] = (24, 16)) -> NDArray[np.float32]:
    session = Session(scene, width=size[0], height=size[1], backend="cpu", spp=4, depth=3)
    session.frame()
    found = session.mean().copy()
    session.close()
    return found


def test_interleaved_and_packed_data_are_the_same_picture(tmp_path: Path) -> None:
    """C01. One triangle, stride 24, positions without an offset and normals at 12."""
    positions = np.array([[-1, -1, 0], [1, -1, 0], [0, 1, 0]], np.float32)
    normals = np.tile(np.float32([0, 0.6, 0.8]), (3, 1))
    packed = File()
    packed.node(mesh=packed.mesh({"attributes": {"POSITION": packed.accessor(positions), "NORMAL": packed.accessor(normals)}}))
    mixed = File()
    view = mixed.view(np.concatenate([positions, normals], 1).tobytes(), byteStride=24)
    entry = {"bufferView": view, "componentType": 5126, "count": 3, "type": "VEC3"}
    mixed.json["accessors"] = [entry, entry | {"byteOffset": 12}]
    mixed.node(mesh=mixed.mesh({"attributes": {"POSITION": 0, "NORMAL": 1}}))
    one, two = (picture(file.load(tmp_path)) for file in (packed, mixed))
    assert one.std() > 0 and np.array_equal(one, two)


def test_sparse_indices_of_bytes_are_those_of_shorts(tmp_path: Path) -> None:
    """C03: Khronos' sample, with its indices written anew."""
    folder = DATA / "SimpleSparseAccessor-Embedded"
    if not folder.is_dir():
        pytest.skip("../shared/data is not there")
    (file,) = folder.glob("*.gltf")
    told: dict[str, Any] = json.loads(file.read_text())
    scene = load(file)
    sparse = next(accessor["sparse"] for accessor in told["accessors"] if "sparse" in accessor)
    view = told["bufferViews"][sparse["indices"]["bufferView"]]
    data = base64.b64decode(told["buffers"][view["buffer"]]["uri"].partition(",")[2])
    numbers = np.frombuffer(data, "<u2", sparse["count"], view.get("byteOffset", 0) + sparse["indices"].get("byteOffset", 0))
    told["buffers"].append({"byteLength": len(numbers), "uri": f"data:;base64,{base64.b64encode(numbers.astype('u1').tobytes()).decode()}"})
    told["bufferViews"].append({"buffer": len(told["buffers"]) - 1, "byteLength": len(numbers)})
    sparse["indices"] |= {"bufferView": len(told["bufferViews"]) - 1, "componentType": 5121, "byteOffset": 0}
    (tmp_path / "bytes.gltf").write_text(json.dumps(told))
    again = load(tmp_path / "bytes.gltf")
    assert np.array_equal(again.meshes[0].geometries[0].positions, scene.meshes[0].geometries[0].positions)
    assert not again.warnings


def test_the_good_part_is_drawn_and_the_rest_is_told_of(tmp_path: Path) -> None:
    """C07: a cube, a primitive with nothing but normals, a mesh whose accessors have a count of 0."""
    file = one_quad()
    alone = picture(file.load(tmp_path))
    file.node(mesh=file.mesh({"attributes": {"NORMAL": file.accessor(QUAD)}}))
    nothing = file.accessor(QUAD)
    file.json["accessors"][nothing]["count"] = 0
    file.node(mesh=file.mesh({"attributes": {"POSITION": nothing, "NORMAL": nothing}}))
    scene = file.load(tmp_path)
    assert len(scene.warnings) == 2 and len(scene.instances) == 1
    assert np.array_equal(picture(scene), alone)


@pytest.mark.parametrize("names", [("my box.bin", "a b c.png"), ("Würfel ♻.bin", "ü ñ.png"), ("50% of it.bin", "100%.png")])
@pytest.mark.parametrize("encoded", [True, False])
def test_blanks_and_letters_of_all_kinds_in_names_are_no_trouble(names: tuple[str, str], encoded: bool, tmp_path: Path) -> None:
    """C09, C11: whether the file percent-encodes them, as it should, or not; the same as a copy with plain names."""
    def write(folder: Path, buffer: str, image: str, told: tuple[str, str]) -> Path:
        folder.mkdir()
        file = File(materials=[{"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}], textures=[{"source": 0}])
        attributes = {"POSITION": file.accessor(QUAD), "TEXCOORD_0": file.accessor(QUAD[:, :2], kind="VEC2")}
        indices = file.accessor(QUAD_INDICES, 5123, "SCALAR")
        file.node(mesh=file.mesh({"attributes": attributes, "indices": indices, "material": 0}))
        (folder / buffer).write_bytes(file.blob)
        (folder / image).write_bytes(png(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)))
        file.json |= {"buffers": [{"byteLength": len(file.blob), "uri": told[0]}], "images": [{"uri": told[1]}]}
        return file.write(folder, "box with spaces.gltf")

    plain = load(write(tmp_path / "plain", "box.bin", "a.png", ("box.bin", "a.png")))
    told = (quote(names[0]), quote(names[1])) if encoded else names
    scene = load(write(tmp_path / "with spaces", *names, told))
    assert not plain.warnings and len(scene.warnings) == (0 if encoded or "%" not in names[0] else 2)
    assert np.array_equal(decode(scene.images[0]), decode(plain.images[0]))
    assert np.array_equal(picture(scene), picture(plain))


@pytest.mark.parametrize("name", ["Box-Draco", "BoxMeshopt"])
def test_a_packed_box_has_twelve_triangles_and_sides_of_one(name: str) -> None:
    """C13."""
    if not (DATA / name).is_dir():
        pytest.skip("../shared/data is not there")
    pytest.importorskip("DracoPy" if "Draco" in name else "meshopt", reason="the decoder is not installed")
    (file,) = [path for path in (DATA / name).rglob("*.gl*") if path.suffix in (".glb", ".gltf")]
    scene = load(file)
    bounds = scene.bounds()
    assert bounds is not None and len(scene.triangles()) == 12
    np.testing.assert_allclose(bounds[1] - bounds[0], 1.0, atol=2e-3)


def test_an_unknown_extension_that_is_only_used_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """C13."""
    file = one_quad()
    file.json["extensionsUsed"] = ["EXT_does_not_exist"]
    scene = file.load(tmp_path)
    assert scene.warnings == ["extensionsUsed[0]: EXT_does_not_exist is not known; the scene is drawn without it"]
    assert len(scene.triangles()) == 2


def test_an_icosahedron_without_normals_has_twenty_of_them(tmp_path: Path) -> None:
    """C21: of 12 shared vertices, with a stray TANGENT."""
    g = (1 + 5**0.5) / 2
    corners = np.array([np.roll([0.0, s, t * g], k) for k in range(3) for s in (-1, 1) for t in (-1, 1)])
    near = np.linalg.norm(corners[:, None] - corners, axis=2) < 2.01
    faces = [(i, j, k) for i in range(12) for j in range(i) for k in range(j) if near[i, j] and near[j, k] and near[i, k]]
    faces = [(i, j, k) if np.linalg.det(corners[[i, j, k]]) > 0 else (i, k, j) for i, j, k in faces]
    file = File()
    attributes = {"POSITION": file.accessor(corners), "TANGENT": file.accessor(np.ones((12, 4)), kind="VEC4")}
    file.node(mesh=file.mesh({"attributes": attributes, "indices": file.accessor(faces, 5121, "SCALAR")}))
    scene = file.load(tmp_path)
    soup = scene.triangles()
    p = soup.positions.astype(float)
    normals = np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    assert len(soup) == 20 and len(np.unique(np.round(normals, 5), axis=0)) == 20
    assert soup.normals is None and soup.tangents is None, "flat: the normals are the triangles' own"


@pytest.mark.parametrize("aspect", [None, 1.0])
def test_a_camera_keeps_its_vertical_angle_when_the_window_changes(cornell: Path, aspect: float | None) -> None:
    """C27: the session after a resize is the one that was opened at that size."""
    scene = load(cornell)
    scene.cameras[:] = [replace(scene.cameras[0], projection=Perspective(0.8, aspect, 0.1, 100.0))]
    session = Session(scene, width=64, height=36, backend="cpu", spp=2, depth=2)
    for width, height in ((25, 45), (40, 40), (64, 36)):
        session.resize(width, height)
        session.frame()
        view = camera_data(scene.cameras[0], width, height)
        np.testing.assert_allclose(session._view.extent, view.extent)
        assert np.array_equal(session.mean(), picture_of(scene, width, height))
    session.close()


def picture_of(scene: Scene, width: int, height: int) -> NDArray[np.float32]:
    session = Session(scene, width=width, height=height, backend="cpu", spp=2, depth=2)
    session.frame()
    found = session.mean().copy()
    session.close()
    return found


def test_a_copy_of_our_own_scene_elsewhere_is_the_same_picture(cornell: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a folder, 100% elsewhere"
    folder.mkdir()
    shutil.copy(cornell, folder / "cor nell.gltf")
    assert np.array_equal(picture(load(folder / "cor nell.gltf")), picture(load(cornell)))
