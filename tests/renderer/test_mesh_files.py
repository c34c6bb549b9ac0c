"""OBJ, PLY and STL files into the scene model, and the door that tells them apart. Every file here is made by the test."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from renderer.scene import undrawn
from renderer.scene.gltf_write import write
from renderer.scene.importers import load
from renderer.scene.model import Geometry, Scene, SceneError
from renderer.scene.named_files import scene_files
from renderer.scene.pictures import decode
from renderer.scene.polygons import triangulate
from tests.renderer.helpers.gltf_file import one_quad
from tests.renderer.helpers.picture_files import png

SQUARE = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\n"


def obj(folder: Path, text: str, **options: Any) -> Scene:
    (folder / "a.obj").write_bytes(text.encode())
    return load(folder / "a.obj", **options)


def honest(scene: Scene) -> list[str]:
    """The warnings but for those of what is not drawn yet."""
    return [text for text in scene.warnings if not any(text.endswith(told) for told in undrawn.FEATURES.values())]


def only(scene: Scene) -> Geometry:
    ((geometry,),) = (mesh.geometries for mesh in scene.meshes)
    return geometry


def area(scene: Scene) -> np.ndarray[Any, Any]:
    """Half the sum of all cross products: the area of what is flat, as a vector."""
    p = scene.triangles().positions.astype(float)
    total: np.ndarray[Any, Any] = np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]).sum(0) / 2
    return total


# OBJ


@pytest.mark.parametrize(
    "face",
    ["f 1 2 3 4", "f -4 -3 -2 -1", "f 1/1 2/2 3/3 4/4", "f 1/1/1 2/2/1 3/3/1 4/4/1", "f 1//1 2//1 3//1 4//1", "f 1/1/ 2/2/ 3/3/ 4/4/",
     "f 1 2 \\\n 3 4", "  f\t1\t2 3  4  # a comment", "f 1/-4/-1 2/-3/-1 3/-2/-1 4/-1/-1"],
)  # fmt: skip
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_square_is_a_square_however_it_is_written(tmp_path: Path, face: str, newline: str) -> None:
    text = f"# made\no square\n{SQUARE}vt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nvn 0 0 2\n{face}"
    scene = obj(tmp_path, text.replace("\n", newline))
    assert scene.warnings == [] and np.allclose(area(scene), [0, 0, 1]) and scene.instances[0].name == "square"
    geometry = only(scene)
    assert len(geometry.positions) == 4
    if "/" in face.replace("//", ""):
        assert geometry.texcoords[0][geometry.positions[:, 0] + geometry.positions[:, 1] == 0].tolist() == [[0, 1]], "v is turned over"
    assert (geometry.normals is not None) == ("//" in face or (face.count("/") == 8 and "/ " not in face))
    if geometry.normals is not None:
        assert np.allclose(geometry.normals, [0, 0, 1])


def test_without_materials_it_is_neutral_flat_and_two_sided(tmp_path: Path) -> None:
    scene = obj(tmp_path, SQUARE + "f 1 2 3\n")
    (material,) = scene.materials
    assert scene.warnings == [] and only(scene).normals is None and material.double_sided
    assert material.metallic == 0.0 and max(material.emissive) == 0.0 and len(set(material.base_color_factor[:3])) == 1


def test_a_library_that_is_missing_is_said_with_its_line_and_the_rest_is_drawn(tmp_path: Path) -> None:
    scene = obj(tmp_path, "# made\nmtllib gone.mtl\n" + SQUARE + "usemtl red\nf 1 2 3\nusemtl blue\nf 1 3 4\n")
    assert scene.warnings == ["line 2: no file 'gone.mtl' beside the scene file; its materials are replaced by the default material"]
    assert len(scene.triangles()) == 2 and len(scene.materials) == 1
    with pytest.raises(SceneError, match="strict"):
        load(tmp_path / "a.obj", strict=True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("f 0 1 2", "line 5: v 0 does not exist (the file has 4; the first is 1)"),
        ("f 1 2 5", "line 5: v 5 does not exist"),
        ("f -1 -2 -5", "line 5: v -5 does not exist"),
        ("f 1 2 3\n\nf 1/1 2/1 3/1", "line 7: vt 1 does not exist (the file has none"),
        ("f 1//1 2//1 3//2\nvn 0 0 1", "line 5: vn 2 does not exist"),
        ("f 1 2 x", "line 5: something is no whole number"),
        ("f 1 2 2.5", "line 5: something is no whole number"),
        ("f 1/1 2 3", "line 5: its corners are not all"),
        ("f 1/2/3/4 1/2/3/4 1/2/3/4", "line 5: its corners are not all"),
        ("f 1 2 \\\n3\nf 1 2 9", "line 7: v 9 does not exist"),
        ("v 1 2\nf 1 2 3", "line 5: 3 numbers are needed"),
        ("v 1 2 three\nf 1 2 3", "line 5: something is no number"),
    ],
)
def test_what_an_obj_file_gets_wrong_is_said_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(SceneError) as error:
        obj(tmp_path, SQUARE + text + "\n")
    assert str(error.value).startswith(f"{tmp_path / 'a.obj'}: {says}") and "\n" not in str(error.value)
    assert str(error.value).endswith("; correct the file or export it again")


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_mark_of_the_byte_order_is_no_part_of_the_first_line(tmp_path: Path, mark: str) -> None:
    (tmp_path / "a.mtl").write_text(mark + "newmtl red\nKd 1 0 0\n", encoding="utf-8")
    scene = obj(tmp_path, mark + SQUARE + "mtllib a.mtl\nusemtl red\nf 1 2 3\n")
    assert scene.warnings == [] and only(scene).positions.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    assert scene.materials[only(scene).material].base_color_factor == (1, 0, 0, 1)


def test_names_have_number_signs_in_them_and_comments_begin_after_a_blank(tmp_path: Path) -> None:
    (tmp_path / "C#.png").write_bytes(png(np.zeros((2, 2, 3), np.uint8)))
    (tmp_path / "a#1.mtl").write_text("newmtl Mat#1\nKd 1 0 0 # red\nmap_Kd C#.png\n#newmtl x\nnewmtl Mat#2 # the other\nKd 0 1 0\n")
    scene = obj(tmp_path, "mtllib a#1.mtl # materials\n" + SQUARE + "usemtl Mat#1\nf 1 2 3\nusemtl Mat#2\nf 1 3 4\n")
    assert scene.warnings == [] and [m.name for m in scene.materials] == ["Mat#1", "Mat#2"]
    assert [g.material for mesh in scene.meshes for g in mesh.geometries] == [0, 1]
    assert scene.images[0].source == tmp_path / "C#.png"
    assert set(scene_files(tmp_path / "a.obj")) == {tmp_path / name for name in ("a.obj", "a#1.mtl", "C#.png")}


@pytest.mark.parametrize("name", ["50% grey.png", "100%.png", "a%20b.png", "grün.png"])
def test_names_of_pictures_are_taken_as_they_are_written(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(png(np.zeros((2, 2, 3), np.uint8)))
    (tmp_path / "5% a.mtl").write_text(f"newmtl a\nmap_Kd {name}\n", encoding="utf-8")
    scene = obj(tmp_path, "mtllib 5% a.mtl\n" + SQUARE + "usemtl a\nf 1 2 3\n", strict=True)
    assert scene.warnings == [] and scene.images[0].source == tmp_path / name


def test_a_library_whose_name_is_too_long_for_a_file_is_missing(tmp_path: Path) -> None:
    scene = obj(tmp_path, f"mtllib {'a' * 300}.mtl\nmtllib {'b ' * 300}.mtl\n" + SQUARE + "f 1 2 3\n")
    assert len(scene.triangles()) == 1 and scene.warnings and all("no file" in text for text in scene.warnings)


def test_numbers_that_count_back_count_from_their_own_line(tmp_path: Path) -> None:
    upper = SQUARE.replace(" 0\n", " 5\n")
    scene = obj(tmp_path, SQUARE + "f -4 -3 -2\n" + upper + "f -4 -3 -2\nf 1 2 3\n")
    assert scene.triangles().positions[:, :, 2].tolist() == [[0, 0, 0], [5, 5, 5], [0, 0, 0]]


def test_groups_are_meshes_and_materials_geometries(tmp_path: Path) -> None:
    (tmp_path / "two.mtl").write_text("newmtl red\nKd 1 0 0\nnewmtl green\nKd 0 1 0\n")
    boxed = "usemtl red\nf 1 2 3\no box\nf 1 2 3\nusemtl green\nf 1 3 4\n"
    scene = obj(tmp_path, "mtllib two.mtl\n" + SQUARE + boxed + "g lid\nf 1 2 4\no box\nf 2 3 4\nusemtl no\nf 1 2 3\n")
    names = {instance.name: [g.material for g in scene.meshes[instance.mesh].geometries] for instance in scene.instances}
    assert names == {"a": [0], "box": [0, 1, 2], "lid": [1]} and len(scene.triangles()) == 6
    assert scene.warnings == ["usemtl no: there is no such material; the default is used"]
    assert [material.base_color_factor[:3] for material in scene.materials[:2]] == [(1, 0, 0), (0, 1, 0)]


def test_materials_say_what_their_exporters_meant(tmp_path: Path) -> None:
    (tmp_path / "m.mtl").write_text(
        "# made\nnewmtl glass\n\tKd 0.1 0.2 0.3\nKs 0.25 0.5 0.5\nNs 198\nKe 1 2 3\nd 0.25\nNi 1.33\nillum 2\n"
        "newmtl new\nPr 0.4\nPm 1\nPc 0.5\nPcr 0.1\nPs 0.2\naniso 0.3\nanisor 0.5\nTr 0.25\n"
        "newmtl odd\nKd 2 0 0\nNs many\nd 1\nKs spectral file.rfl 1\n"
    )
    scene = obj(tmp_path, "mtllib m.mtl\n" + SQUARE + "f 1 2 3\n")
    glass, new, odd, _ = scene.materials
    assert glass.base_color_factor == (0.1, 0.2, 0.3, 0.25) and glass.alpha_mode == "BLEND" and glass.ior == 1.33
    assert glass.roughness == pytest.approx(0.1) and glass.emissive == (1, 2, 3) and glass.metallic == 0
    assert glass.specular_factor == 1.0 and glass.specular_color_factor == (0.5, 1.0, 1.0)
    assert (new.roughness, new.metallic, new.clearcoat.factor, new.clearcoat.roughness) == (0.4, 1, 0.5, 0.1)
    assert new.sheen.color == (0.2, 0.2, 0.2) and new.anisotropy.strength == 0.3 and new.anisotropy.rotation == pytest.approx(np.pi)
    assert new.base_color_factor[3] == 0.75
    assert odd.base_color_factor[:3] == (1, 0, 0) and odd.alpha_mode == "OPAQUE" and odd.roughness == 1.0
    assert scene.warnings == [
        "m.mtl: line 20: 2 is not within 0 and 1; 1 is used",
        "m.mtl: line 23: 'ks spectral file.rfl 1' is not read; the default is used",
        "m.mtl: line 21: 'ns many' is not read; the default is used",
    ]


def test_pictures_of_a_library_are_found_beside_it_and_nowhere_else(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "my maps").mkdir(parents=True)
    colours = np.random.default_rng(0).integers(0, 255, (2, 2, 3), np.uint8)
    for name in ("in/wood.png", "in/my maps/bump map.png", "in/mask.png", "secret.png"):
        (tmp_path / name).write_bytes(png(colours if "wood" in name or "secret" in name else colours[..., 0]))
    (folder / "m.mtl").write_text(
        "newmtl wood\nmap_Kd -s 2 3 1 -o 0.5 0 -clamp on C:\\models\\wood.png\nmap_Bump -bm 0.5 my maps\\bump map.png\nmap_d mask.png\n"
        "newmtl more\nmap_Kd wood.png\nmap_Ke wood.png\nmap_Kn gone.png\nmap_Ka wood.png\nmap_d wood.png\n"
        "newmtl out\nmap_Kd ../secret.png\n"
    )
    scene = obj(folder, "mtllib m.mtl\n" + SQUARE + "vt 0 0\nvt 1 0\nvt 0 1\nusemtl wood\nf 1/1 2/2 3/3\n")
    wood, more, out, *_ = scene.materials
    base = wood.base_color_texture
    assert base is not None and wood.normal_texture is not None and wood.alpha_mode == "BLEND"
    # A corner of the picture in OBJ's sense: (u, v) there is at (2u + 0.5, 3v), counted upwards.
    assert np.allclose(base.matrix @ [0.25, 1 - 0.5, 1], [1.0, 1 - 1.5]) and scene.textures[base.texture].wrap_s == "clamp"
    cut, normals = (decode(scene.images[scene.textures[ref.texture].image or 0]) for ref in (base, wood.normal_texture))
    assert np.array_equal(cut, np.dstack([colours, colours[..., 0]]))
    assert (normals[..., 2] > 128).all(), "heights have become normals"
    assert more.emissive == (1, 1, 1) and more.emissive_texture == more.base_color_texture and more.normal_texture is None
    assert out.base_color_texture is None
    told = "\n".join(honest(scene))
    assert "no file 'gone.png'" in told and "map_ka: is a picture that is not read" in told and "no file 'secret.png'" in told
    assert "m.mtl: line 4: options: are those of m.mtl: line 2 here, of which it becomes a part" in told
    assert len(honest(scene)) == 4


def channels(seed: int, size: tuple[int, int] = (3, 5)) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 256, size).astype(np.uint8)


def library(folder: Path, text: str, **pictures: np.ndarray[Any, Any]) -> Scene:
    """A scene with a library and picture files beside it."""
    for name, pixels in pictures.items():
        (folder / f"{name}.png").write_bytes(png(pixels))
    (folder / "m.mtl").write_text("newmtl m\n" + text)
    return obj(folder, "mtllib m.mtl\n" + SQUARE + "vt 0 0\nvt 1 0\nvt 0 1\nusemtl m\nf 1/1 2/2 3/3\n")


def picture(scene: Scene, ref: Any) -> np.ndarray[Any, Any]:
    """The pixels that a slot of the scene's first material shows."""
    assert ref is not None
    return decode(scene.images[scene.textures[ref.texture].image or 0])


@pytest.mark.parametrize("told", ["Pr 0.5\nPm 0.25\n", ""])
def test_roughness_and_metalness_become_one_picture(told: str, tmp_path: Path) -> None:
    rough, metal = channels(1), channels(2, (6, 5))
    scene = library(tmp_path, told + "map_Pr rough.png\nmap_Pm metal.png\n", rough=rough, metal=metal)
    (material, *_) = scene.materials
    found = picture(scene, material.metallic_roughness_texture)
    assert np.array_equal(found[..., 1], rough) and np.array_equal(found[..., 2], metal[::2])
    assert (material.roughness, material.metallic) == ((0.5, 0.25) if told else (1.0, 1.0))
    for line, wanted in (("map_Pr rough.png\n", [rough, 255]), ("map_Pm rough.png\n", [255, rough])):
        scene = library(tmp_path, line, rough=rough)
        found = picture(scene, scene.materials[0].metallic_roughness_texture)
        assert all(np.array_equal(found[..., k + 1], np.broadcast_to(value, rough.shape)) for k, value in enumerate(wanted))
        assert scene.materials[0].metallic == (1.0 if "Pm" in line else 0.0) and scene.warnings == []


def test_values_come_from_the_channel_that_is_asked_for(tmp_path: Path) -> None:
    """As exporters have occlusion, roughness and metalness in one picture."""
    orm = np.dstack([channels(k) for k in range(4)])
    text = "map_Pr -imfchan g orm.png\nmap_Pm -imfchan b orm.png\nmap_d -imfchan m orm.png\n"
    scene = library(tmp_path, text, orm=orm)
    (material, *_) = scene.materials
    assert np.array_equal(picture(scene, material.metallic_roughness_texture)[..., 1:], orm[..., 1:3])
    cover = picture(scene, material.base_color_texture)
    assert np.array_equal(cover[..., 3], orm[..., 3]) and (cover[..., :3] == 255).all() and material.alpha_mode == "BLEND"
    assert material.base_color_factor == (0.8, 0.8, 0.8, 1.0), "coverage has no colour"


def test_an_exponents_picture_is_a_roughness(tmp_path: Path) -> None:
    shine = channels(3)
    scene = library(tmp_path, "Ns 200\nmap_Ns shine.png\n", shine=shine)
    (material, *_) = scene.materials
    wanted = np.sqrt(2 / (200 * (shine / 255) + 2))
    assert np.abs(picture(scene, material.metallic_roughness_texture)[..., 1] / 255 - wanted).max() < 0.003 and material.roughness == 1.0


def test_each_picture_has_its_place_and_a_number_that_is_not_told_is_one(tmp_path: Path) -> None:
    names = {"map_Kd": "base_color_texture", "map_Ks": "specular_color_texture", "map_Ke": "emissive_texture", "norm": "normal_texture"}
    colours = {f"p{k}": np.dstack([channels(10 * k + c) for c in range(3)]) for k in range(7)}
    text = "".join(f"{key} p{k}.png\n" for k, key in enumerate([*names, "map_Ps", "map_Pc", "map_Pcr"]))
    scene = library(tmp_path, text, **colours)
    (material, *_) = scene.materials
    slots = [getattr(material, slot) for slot in names.values()]
    slots += [material.sheen.color_texture, material.clearcoat.texture, material.clearcoat.roughness_texture]
    assert all(np.array_equal(picture(scene, slot), colours[f"p{k}"]) for k, slot in enumerate(slots))
    assert material.base_color_factor == (1, 1, 1, 1) and material.emissive == (1, 1, 1)
    assert (material.specular_factor, material.specular_color_factor) == (1.0, (1, 1, 1)) and material.sheen.color == (1, 1, 1)
    assert (material.clearcoat.factor, material.clearcoat.roughness) == (1, 1) and scene.warnings == []
    assert scene.undrawn == []
    (told, *_) = library(tmp_path, "Ks 0.25 0.25 0\nKe 0 2 0\nKd 0.5 0.5 0.5\nPc 0.5\n" + text, **colours).materials
    assert (told.specular_factor, told.specular_color_factor) == (0.5, (1, 1, 0)) and told.emissive == (0, 2, 0)
    assert told.base_color_factor[:3] == (0.5,) * 3 and told.clearcoat.factor == 0.5


def test_options_that_have_a_place_are_read_and_the_others_told(tmp_path: Path) -> None:
    scene = library(
        tmp_path,
        "norm -bm 0.25 -s 2 -o 0.5 p.png\nmap_Kd -mm 0 1 -t 0 0 0 -blendu on -clamp on p.png\n"
        "map_Ks -mm 0.1 0.5 p.png\nmap_Ke -t 0.1 -boost 0 p.png\n",
        p=np.dstack([channels(c) for c in range(3)]),
    )
    (material, *_) = scene.materials
    assert material.normal_texture is not None and material.normal_texture.strength == 0.25
    assert material.normal_texture.scale == (2.0, 1.0) and material.normal_texture.offset[0] == 0.5
    assert material.base_color_texture is not None
    assert scene.textures[material.base_color_texture.texture].wrap_t == "clamp"
    assert sorted(scene.warnings) == [
        "m.mtl: line 4: -mm: has no place in the model; the picture is used without it",
        "m.mtl: line 5: -t: has no place in the model; the picture is used without it",
    ]


def test_what_a_picture_of_a_library_is_made_of_is_saved_as_made(tmp_path: Path) -> None:
    text = "map_Pr rough.png\nmap_Pm metal.png\nmap_d cover.png\n"
    scene = library(tmp_path, text, rough=channels(1), metal=channels(2), cover=channels(4))
    write(scene, tmp_path / "saved.glb")
    again = load(tmp_path / "saved.glb")
    for slot in ("metallic_roughness_texture", "base_color_texture"):
        assert np.array_equal(*(picture(of, getattr(of.materials[0], slot)) for of in (scene, again)))


def test_lines_points_and_what_is_not_known_are_left_out(tmp_path: Path) -> None:
    scene = obj(tmp_path, "p 1\nl 1 2\nl 2 3\ns off\nwhatever 3\n" + SQUARE + "f 1 2\nf 1 2 3\n")
    assert len(scene.triangles()) == 1
    assert scene.warnings == [
        "line 1: points are not drawn",
        "line 2: lines are not drawn",
        "line 10: faces of fewer than three corners are skipped",
    ]


def test_vertex_colours_of_an_obj_file_are_display_values(tmp_path: Path) -> None:
    scene = obj(tmp_path, "v 0 0 0 1 0 0\nv 1 0 0 0.5 0.5 0.5\nv 0 1 0 0 0 1\nf 1 2 3\n")
    found = only(scene).colours
    assert found is not None and np.allclose(found, [[1, 0, 0, 1], [0.214041, 0.214041, 0.214041, 1], [0, 0, 1, 1]], atol=1e-5)


def test_an_obj_file_of_several_kinds_of_faces_reads_each(tmp_path: Path) -> None:
    text = SQUARE + "vt 0 0\nvt 0.5 0.25\nvn 1 0 0\nf 1 2 3\nf 1/1 2/2 3/1\nf 1//1 2//1 3//1\nf 1/2/1 3/2/1 4/2/1 2/2/1\n"
    scene = obj(tmp_path, text)
    geometry = only(scene)
    assert scene.warnings == [] and len(geometry.indices) == 5 and geometry.normals is not None
    assert geometry.normals[geometry.indices[0]].tolist() == [[0, 0, 0]] * 3, "no normal: flat at that corner"
    assert geometry.texcoords[0][geometry.indices[1]].tolist() == [[0, 1], [0.5, 0.75], [0, 1]]


def test_an_obj_file_without_faces_is_an_empty_scene(tmp_path: Path) -> None:
    for text in (SQUARE, "# nothing\n"):
        scene = obj(tmp_path, text)
        assert scene.warnings == ["the scene has nothing to draw: there are no triangles"] and not scene.instances


# Polygons


def ring(sides: int, seed: int, star: bool = False) -> np.ndarray[Any, Any]:
    """A polygon in a plane that is turned somehow; a star is not convex."""
    random = np.random.default_rng(seed)
    angles = np.arange(sides) / sides * 2 * np.pi
    radius = np.where(np.arange(sides) % 2, 0.3, 1.0) if star else 1.0
    turned, _ = np.linalg.qr(random.normal(size=(3, 3)))
    flat = np.stack([np.cos(angles) * radius, np.sin(angles) * radius, np.zeros(sides)], 1)
    found: np.ndarray[Any, Any] = flat @ turned + random.normal(size=3)
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 11), st.booleans(), st.integers(0, 2**31)), min_size=1, max_size=12))
def test_polygons_are_covered_once_by_triangles_that_face_as_they_do(polygons: list[tuple[int, bool, int]]) -> None:
    rings = [ring(sides, seed, star and sides % 2 == 0 and sides > 4) for sides, star, seed in polygons]
    positions = np.concatenate(rings).reshape(-1, 3)
    counts = np.array([len(polygon) for polygon in rings])
    triangles, owner = triangulate(counts, positions)
    assert np.bincount(owner, minlength=len(rings)).tolist() == [max(0, sides - 2) for sides in counts]
    corners = positions[triangles]
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    for number, polygon in enumerate(rings):
        if len(polygon) < 3:
            continue
        whole = np.cross(polygon, np.roll(polygon, -1, 0)).sum(0)
        mine = cross[owner == number]
        assert (mine @ whole > -1e-9).all() and np.allclose(mine.sum(0), whole), "no triangle is turned over, so none covers another"


def test_a_quadrilateral_that_is_not_convex_is_split_on_its_inside() -> None:
    dart = np.array([[0, 0, 0], [2, -2, 0], [0, 3, 0], [-2, -2, 0]], float)
    for start in range(4):
        triangles, _ = triangulate(np.array([4]), np.roll(dart, start, 0))
        p = np.roll(dart, start, 0)[triangles]
        assert (np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0])[:, 2] > 0).all()


# PLY


def ply(folder: Path, header: str, body: bytes, **options: Any) -> Scene:
    (folder / "a.ply").write_bytes(f"ply\n{header}end_header\n".encode() + body)
    return load(folder / "a.ply", **options)


TRIANGLE = np.array([[0, 0, 0], [1, 0, 0], [0.1, 1, 0.3]])


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", ["float", "double"])
def test_binary_ply_of_both_orders_with_colours_and_properties_that_nobody_knows(tmp_path: Path, order: str, kind: str) -> None:
    letter = "f4" if kind == "float" else "f8"
    row = np.dtype([("flag", "i1"), ("p", order + letter, 3), ("c", "u1", 3), ("q", order + "u2")])
    vertices = np.zeros(3, row)
    vertices["p"], vertices["c"] = TRIANGLE, [[255, 0, 0], [188, 188, 188], [0, 0, 255]]
    face = struct.pack(order + "B3IhB2f", 3, 0, 1, 2, -7, 2, 0.5, 0.25)
    name = {"<": "binary_little_endian", ">": "binary_big_endian"}[order]
    header = (
        f"format {name} 1.0\ncomment made\nelement vertex 3\nproperty char flag\nproperty {kind} x\nproperty {kind} y\nproperty {kind} z\n"
        "property uchar red\nproperty uchar green\nproperty uchar blue\nproperty ushort quality\n"
        "element face 1\nproperty list uchar uint vertex_indices\nproperty short kind\nproperty list uchar float texcoord\n"
        "element edge 5\nproperty int a\n"
    )
    scene = ply(tmp_path, header, vertices.tobytes() + face)
    geometry = only(scene)
    assert np.array_equal(geometry.positions, TRIANGLE.astype(np.float32)) and geometry.indices.tolist() == [[0, 1, 2]]
    assert geometry.colours is not None and np.allclose(geometry.colours[:, 0], [1, 0.502886, 0], atol=1e-5) and honest(scene) == []


FACES = [[0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4], [2, 1, 0]]
PENTAGON = np.array([[0, 0, 0], [2, 0, 0], [2, 1, 0], [1, 2, 0], [0, 1, 0]], np.float32)


def ply_header(form: str, faces: int, count: str = "uchar", index: str = "int", more: str = "") -> str:
    vertex = "element vertex 5\nproperty float x\nproperty float y\nproperty float z\n"
    return f"format {form} 1.0\n{vertex}element face {faces}\n{more}property list {count} {index} vertex_index\n"


@pytest.mark.parametrize("faces", [FACES, FACES[1:2] * 3, FACES[:1] * 2, FACES[::-1]])
@pytest.mark.parametrize("count", ["uchar", "ushort", "int"])
def test_faces_of_any_number_of_corners_in_every_form(tmp_path: Path, faces: list[list[int]], count: str) -> None:
    expected = sum(np.cross(PENTAGON[f], np.roll(PENTAGON[f], -1, 0)).sum(0) / 2 for f in faces)
    letter = {"uchar": "B", "ushort": "H", "int": "i"}[count]
    for form, order in (("ascii", ""), ("binary_little_endian", "<"), ("binary_big_endian", ">")):
        if not order:
            body = "\n".join(" ".join(map(str, p)) for p in PENTAGON.tolist())
            body += "\n" + "\n".join(f"7 {len(f)} {' '.join(map(str, f))}" for f in faces) + "\n"
            data = body.encode()
        else:
            data = PENTAGON.astype(order + "f4").tobytes()
            data += b"".join(struct.pack(f"{order}b{letter}{len(f)}i", 7, len(f), *f) for f in faces)
        scene = ply(tmp_path, ply_header(form, len(faces), count, more="property char flag\n"), data)
        assert scene.warnings == [] and np.allclose(area(scene), expected), form
        assert len(scene.triangles()) == sum(len(f) - 2 for f in faces)


@pytest.mark.parametrize(("kind", "scale"), [("uchar", 255.0), ("float", 1.0)])
def test_dark_colours_of_a_text_file_are_dark(tmp_path: Path, kind: str, scale: float) -> None:
    header = "format ascii 1.0\nelement vertex 3\n" + "".join(f"property float {name}\n" for name in "xyz")
    header += "".join(f"property {kind} {name}\n" for name in ("red", "green", "blue"))
    body = b"0 0 0 1 1 1\n1 0 0 1 0 0\n0 1 0 0 0 0\n3 0 1 2\n"
    colours = only(ply(tmp_path, header + "element face 1\nproperty list uchar int vertex_indices\n", body)).colours
    value = 1.0 if scale == 1.0 else 1 / 255 / 12.92
    assert colours is not None and np.allclose(colours[:, :3], [[value] * 3, [value, 0, 0], [0, 0, 0]], atol=1e-6)


def test_normals_and_coordinates_of_a_ply_file(tmp_path: Path) -> None:
    header = "format ascii 1.0\nelement vertex 3\n" + "".join(
        f"property float {name}\n" for name in ("x", "y", "z", "nx", "ny", "nz", "s", "t")
    )
    body = b"0 0 0 0 0 2 0 0\n1 0 0 0 0 1 1 0\n0 1 0 0 0 0 0 1\n3 0 1 2\n"
    scene = ply(tmp_path, header + "element face 1\nproperty list uchar int vertex_indices\n", body)
    geometry = only(scene)
    assert geometry.normals is not None and geometry.normals.tolist() == [[0, 0, 1], [0, 0, 1], [0, 0, 0]]
    assert geometry.texcoords[0].tolist() == [[0, 1], [1, 1], [0, 0]]
    assert scene.warnings == ["vertex.nx: 1 normals have no direction; flat there"]


@pytest.mark.parametrize(("form", "body"), [("ascii", b"0 0 0\n" * 5), ("binary_little_endian", bytes(60))])
def test_a_ply_file_without_faces_has_nothing_to_draw(tmp_path: Path, form: str, body: bytes) -> None:
    scene = ply(tmp_path, ply_header(form, 0), body)
    assert scene.warnings == ["the scene has nothing to draw: there are no triangles"] and scene.bounds() is None
    points = ply(tmp_path, ply_header(form, 0).split("element face")[0], body)
    assert points.warnings[0] == "face: there are no faces, and points are not drawn"


@pytest.mark.parametrize(
    ("header", "body", "says"),
    [
        ("", b"", "its header states no format"),
        ("format ascii 2.0\nelement vertex x\n", b"", "line 3: 'element vertex x' is no line of a PLY header"),
        ("format ebcdic 1.0\n", b"", "line 2: 'format ebcdic 1.0' is no line"),
        ("format ascii 1.0\nelement vertex -1\n", b"", "line 3: 'element vertex -1'"),
        ("format ascii 1.0\nelement vertex 1\nproperty quad x\n", b"", "line 4: 'property quad x'"),
        ("format ascii 1.0\nelement vertex 1\nproperty float a\n", b"1\n", "its vertices have no x, y and z"),
        (ply_header("ascii", 1), b"0 0 0\n" * 4, "it is cut off in its 5 rows of vertex"),
        (ply_header("ascii", 1), b"0 0 0\n" * 5 + b"3 0 1\n", "it is cut off in its 1 rows of face|a list of face has 3 values"),
        (ply_header("ascii", 1), b"0 0 zero\n" * 5, "something in its data is no number"),
        (ply_header("ascii", 1), b"0 0 0\n" * 5 + b"3 0 1 5\n", "a face has vertex 5, but there are 5"),
        (ply_header("ascii", 1), b"0 0 0\n" * 5 + b"3 0 1 -1\n", "a face has vertex -1, but there are 5"),
        (ply_header("ascii", 10**15), b"0 0 0\n" * 5, "it is cut off in its 1000000000000000 rows of face"),
        (ply_header("binary_little_endian", 1), bytes(40), "it is cut off in its 5 rows of vertex: 40 bytes are left"),
        (ply_header("binary_little_endian", 10**15), bytes(64), "it is cut off in its 1000000000000000 rows of face"),
        (ply_header("binary_little_endian", 1), bytes(60) + b"\xff" + bytes(9), "a list of face has 255 values|it is cut off"),
        (ply_header("binary_little_endian", 1, "int"), bytes(60) + b"\xff" * 8, "a list of face has -1 values"),
        (ply_header("binary_little_endian", 2), bytes(60) + b"\3" + bytes(12) + b"\xff", "it is cut off in its 2 rows of face"),
    ],
)
def test_what_is_wrong_with_a_ply_file_is_one_clear_line(tmp_path: Path, header: str, body: bytes, says: str) -> None:
    with pytest.raises(SceneError) as error:
        ply(tmp_path, header, body)
    assert any(words in str(error.value) for words in says.split("|")), error.value
    assert str(error.value).startswith(str(tmp_path / "a.ply")) and "\n" not in str(error.value)


# STL


def stl(corners: Any, head: bytes = b"made", extra: bytes = b"") -> bytes:
    record = np.zeros(len(corners), np.dtype([("n", "<f4", 3), ("c", "<f4", (3, 3)), ("a", "<u2")]))
    record["c"] = corners
    return head.ljust(80) + struct.pack("<I", len(corners)) + record.tobytes() + extra


TWO = np.array([[[0, 0, 0], [1, 0, 0], [1, 1, 0]], [[0, 0, 0], [1, 1, 0], [0, 1, 0]]], np.float32)
TEXT = "solid made\n" + "".join(
    "facet normal 0 0 0\n outer loop\n" + "".join(f"  vertex {x:g} {y:g} {z:g}\n" for x, y, z in t) + " endloop\nendfacet\n" for t in TWO
)


@pytest.mark.parametrize(
    "data", [stl(TWO), stl(TWO, b"solid facet"), f"{TEXT}endsolid\n".encode(), TEXT.upper().replace("\n", "\r\n").encode()]
)
def test_stl_in_both_forms_shares_its_corners(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.stl").write_bytes(data)
    scene = load(tmp_path / "a.stl")
    assert scene.warnings == [] and np.array_equal(scene.triangles().positions, TWO)
    assert len(only(scene).positions) == 4 and only(scene).normals is None


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"solid", "neither a text nor a binary STL file"),
        (b"x" * 60, "neither a text nor a binary STL file"),
        (TEXT.replace("vertex 1 1 0", "vertex 1 1", 1).encode(), "line 6: a vertex needs three numbers"),
        (TEXT.replace("vertex 1 1 0", "vertex 1 1 o", 1).encode(), "line 6: something is no number"),
        (TEXT.replace("  vertex 1 1 0\n", "", 1).encode(), "5 vertices are no whole number of triangles"),
    ],
)
def test_what_is_wrong_with_an_stl_file_is_one_clear_line(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "a.stl").write_bytes(data)
    with pytest.raises(SceneError) as error:
        load(tmp_path / "a.stl")
    assert says in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("data", "triangles", "warning"),
    [
        (stl(TWO)[:-10], 1, "triangles: the file is cut off: 1 of 2 triangles are there"),
        (stl(TWO, extra=b"abc"), 2, "triangles: 3 bytes after the last triangle are ignored"),
        (stl(np.where(TWO == 1, np.nan, TWO)), 0, "vertices: "),
        (stl(TWO[:0]), 0, "the scene has nothing to draw"),
    ],
)
def test_what_is_odd_about_an_stl_file_is_told_and_the_rest_drawn(tmp_path: Path, data: bytes, triangles: int, warning: str) -> None:
    (tmp_path / "a.stl").write_bytes(data)
    scene = load(tmp_path / "a.stl")
    assert len(scene.triangles()) == triangles and scene.warnings[0].startswith(warning)


# All of them


def test_a_file_is_known_by_its_content_then_by_its_ending(tmp_path: Path) -> None:
    for name, data in (
        ("glb.obj", one_quad().glb()),
        ("ply.stl", b"ply\n" + ply_header("ascii", 1).encode() + b"end_header\n" + b"0 0 0\n1 0 0\n0 1 0\n0 0 0\n0 0 0\n3 0 1 2\n"),
        ("A.OBJ", (SQUARE + "f 1 2 3\n").encode()),
        ("a.Stl", stl(TWO)),
    ):
        (tmp_path / name).write_bytes(data)
        assert len(load(tmp_path / name).triangles()) > 0, name
    (tmp_path / "notes.txt").write_text("no scene")
    with pytest.raises(SceneError, match="not a glTF file"):
        load(tmp_path / "notes.txt")


@pytest.mark.parametrize("name", ["a.obj", "a.ply", "a.stl", "a.gltf"])
def test_a_file_that_is_not_there_or_empty_is_said_to_be_so(tmp_path: Path, name: str) -> None:
    with pytest.raises(SceneError, match=r"no such file or directory; give the path of a \.gltf, \.glb, \.obj, \.ply or \.stl file$"):
        load(tmp_path / name)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(SceneError, match=r"the file is empty; export or download it again$"):
        load(tmp_path / name)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_a_scene_or_a_scene_error(tmp_path: Path, data: st.DataObject) -> None:
    body = b"".join(struct.pack(f"<B{len(f)}i", len(f), *f) for f in FACES)
    text = "\n".join(" ".join(map(str, row)) for row in [*PENTAGON.tolist(), *([len(f), *f] for f in FACES)])
    wholes = {
        "a.obj": (SQUARE + "vt 0 1\nvn 0 0 1\nusemtl a\nf 1/1/1 2/1/1 3/1/1 4/1/1\nf -1//1 -2//1 -3//1\n").encode(),
        "b.ply": f"ply\n{ply_header('binary_little_endian', 4)}end_header\n".encode() + PENTAGON.tobytes() + body,
        "c.ply": f"ply\n{ply_header('ascii', 4)}end_header\n{text}\n".encode(),
        "d.stl": stl(TWO),
        "e.stl": TEXT.encode(),
    }
    name = data.draw(st.sampled_from(sorted(wholes)))
    raw = bytearray(wholes[name])
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(raw) - 1))
        change = data.draw(st.sampled_from(["byte", "digit", "cut", "copy"]))
        if change == "byte":
            raw[at] = data.draw(st.integers(0, 255))
        elif change == "digit":
            raw[at] = data.draw(st.sampled_from(b"0123456789-.e/ \n"))
        elif change == "copy":
            raw[at:at] = raw[at : at + 9]
        elif len(raw) > 20:
            del raw[at : at + data.draw(st.integers(1, 6))]
    (tmp_path / name).write_bytes(raw)
    try:
        scene = load(tmp_path / name)
        soup = scene.triangles()
    except SceneError as error:
        assert "\n" not in str(error)
        return
    assert np.isfinite(soup.positions).all() and (soup.material < len(scene.materials)).all()


def test_a_hundred_thousand_triangles_load_in_a_second_of_work(tmp_path: Path) -> None:
    side = 224
    u, v = np.meshgrid(np.linspace(0, 1, side), np.linspace(0, 1, side))
    points = np.stack([u, v, np.sin(9 * u) * 0.1], -1).reshape(-1, 3)
    corner = np.arange(side * side).reshape(side, side)
    a, b, c, d = (x.reshape(-1) for x in (corner[:-1, :-1], corner[:-1, 1:], corner[1:, 1:], corner[1:, :-1]))
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    vertices = "".join(f"v {x:.6f} {y:.6f} {z:.6f}\n" for x, y, z in points.tolist())
    triangles = "".join(f"f {i}//{i} {j}//{j} {k}//{k}\n" for i, j, k in (faces + 1).tolist())
    (tmp_path / "a.obj").write_text(vertices + vertices.replace("v ", "vn ") + triangles)
    (tmp_path / "b.stl").write_bytes(stl(points[faces]))
    for name in ("a.obj", "b.stl"):
        started = time.process_time()
        scene = load(tmp_path / name)
        assert scene.totals().triangles == len(faces) > 99_000 and len(only(scene).positions) == side * side
        assert time.process_time() - started < 1.0, name


def test_an_obj_file_that_is_saved_as_gltf_is_the_same_scene(tmp_path: Path) -> None:
    colours = np.random.default_rng(0).integers(0, 255, (2, 2, 3), np.uint8)
    (tmp_path / "wood.png").write_bytes(png(colours))
    (tmp_path / "height.png").write_bytes(png(colours[..., 0]))
    (tmp_path / "m.mtl").write_text("newmtl wood\nNs 50\nKe 3 2 1\nd 0.5\nmap_Kd -o 0.5 0.25 wood.png\nmap_Bump height.png\nPc 0.5\n")
    scene = obj(tmp_path, "mtllib m.mtl\n" + SQUARE + "vn 0 0 1\nvt 0 0\nvt 1 0\nvt 1 1\nusemtl wood\nf 1/1/1 2/2/1 3/3/1\nf 1 3 4\n")
    write(scene, tmp_path / "saved.glb")
    again = load(tmp_path / "saved.glb")
    assert again.materials == scene.materials and again.totals() == scene.totals()
    assert again.triangles().positions.tobytes() == scene.triangles().positions.tobytes()
    assert np.array_equal(only(again).texcoords[0][only(again).indices], only(scene).texcoords[0][only(scene).indices])
    for old, new in zip(scene.textures, again.textures, strict=True):
        before, after = (decode(of.images[texture.image or 0]) for of, texture in ((scene, old), (again, new)))
        assert np.array_equal(before, after), "what was made from heights is stored as normals"
