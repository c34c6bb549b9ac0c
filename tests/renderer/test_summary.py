"""`rayfuse info SCENE`: what is counted, what is told as not drawn, and estimates that are near what an upload takes."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from renderer.scene import undrawn
from renderer.scene.importers import format_of, load
from renderer.scene.model import Environment, Sky
from renderer.scene.parts import counts_of, parts_of
from renderer.scene.summary import SCHEMA, features_of, summary
from renderer.scene.surroundings import surrounded
from renderer.scene.upload import upload
from tests.renderer.helpers.gltf_file import QUAD, QUAD_INDICES, File

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def two_materials_one_shape() -> File:
    """A square of two materials, stored once: the first stands once, the second in a node and in a crowd of five."""
    varnished = {"extensions": {"KHR_materials_clearcoat": {"clearcoatFactor": 1.0}}}
    file = File(materials=[varnished, {"alphaMode": "BLEND", "doubleSided": True}])
    shared = {"attributes": {"POSITION": file.accessor(QUAD)}, "indices": file.accessor(QUAD_INDICES, 5123, "SCALAR")}
    first, second = (file.mesh({**shared, "material": k}) for k in range(2))
    places = file.accessor(np.arange(15, dtype=np.float32).reshape(5, 3))
    file.node(mesh=first)
    file.node(mesh=second)
    file.node(mesh=second, extensions={"EXT_mesh_gpu_instancing": {"attributes": {"TRANSLATION": places}}})
    file.json["extensionsUsed"] = ["KHR_materials_clearcoat", "EXT_mesh_gpu_instancing"]
    return file


def test_triangles_that_share_their_arrays_count_once_as_unique_and_each_time_as_drawn(tmp_path: Path) -> None:
    facts = summary(two_materials_one_shape().load(tmp_path)).geometry
    assert (facts.triangles, facts.unique_triangles) == (14, 2)
    assert (facts.meshes, facts.instances, facts.vertices) == (2, 7, 4)
    assert facts.extent == ((0.0, 0.0, 0.0), (13.0, 14.0, 14.0))


def test_equal_shapes_in_arrays_of_their_own_are_not_shared(tmp_path: Path) -> None:
    file = File()
    file.node(mesh=file.quad())
    file.node(mesh=file.quad())
    scene = file.load(tmp_path)
    assert summary(scene).geometry.unique_triangles == 4


def test_materials_are_counted_by_what_they_use(tmp_path: Path) -> None:
    facts = summary(two_materials_one_shape().load(tmp_path)).materials
    assert facts.count == 2 and facts.features == {"clearcoat": 1, "metallic": 2}
    assert facts.alpha_modes == {"OPAQUE": 1, "BLEND": 1} and facts.double_sided == 1


def test_each_feature_of_a_material_has_its_name(tmp_path: Path) -> None:
    extensions = {
        "KHR_materials_sheen": {"sheenColorFactor": [1, 1, 1]},
        "KHR_materials_transmission": {"transmissionFactor": 1.0},
        "KHR_materials_volume": {"thicknessFactor": 1.0},
        "KHR_materials_dispersion": {"dispersion": 1.0},
        "KHR_materials_ior": {"ior": 1.4},
        "KHR_materials_specular": {"specularFactor": 0.5},
        "KHR_materials_iridescence": {"iridescenceFactor": 1.0},
        "KHR_materials_anisotropy": {"anisotropyStrength": 1.0},
        "KHR_materials_diffuse_transmission": {"diffuseTransmissionFactor": 1.0},
        "KHR_materials_unlit": {},
    }
    file = File(materials=[{"extensions": extensions, "emissiveFactor": [1, 0, 0], "pbrMetallicRoughness": {"metallicFactor": 0}}])
    file.node(mesh=file.quad(material=0))
    told = {name.removeprefix("KHR_materials_").replace("_", " ") for name in extensions}
    assert set(features_of(file.load(tmp_path).materials[0])) == told
    file.json["materials"][0]["extensions"].pop("KHR_materials_unlit")
    assert set(features_of(file.load(tmp_path).materials[0])) == told - {"unlit"} | {"emission"}


def test_extensions_are_drawn_or_not_drawn_with_a_reason_or_unknown(tmp_path: Path) -> None:
    file = File()
    file.node(mesh=file.quad())
    file.json["extensionsUsed"] = ["KHR_materials_sheen", "KHR_xmp", "EXT_made_up", *undrawn.EXTENSIONS]
    file.json["extensionsRequired"] = ["KHR_materials_sheen"]
    told = {fact.name: fact for fact in summary(file.load(tmp_path)).extensions}
    assert (told["KHR_materials_sheen"].state, told["KHR_materials_sheen"].required) == ("drawn", True)
    assert (told["EXT_made_up"].state, told["EXT_made_up"].required) == ("unknown", False)
    for name in ("KHR_xmp", *undrawn.EXTENSIONS):
        assert told[name].state == "not drawn" and told[name].why
    assert len(told) == 3 + len(undrawn.EXTENSIONS)


def test_what_moves_is_told_as_at_rest(tmp_path: Path) -> None:
    file = File(animations=[{}])
    deltas = file.accessor(QUAD)
    file.node(mesh=file.quad(targets=[{"POSITION": deltas}]))
    facts = summary(file.load(tmp_path))
    assert facts.rest_pose == ["animations", "morph targets"] and "animations" in facts.undrawn
    assert facts.warnings and "as it rests" in facts.warnings[0]


def test_lights_cameras_and_surroundings_are_told(tmp_path: Path, root: Path) -> None:
    dark = File()
    dark.node(mesh=dark.quad())
    assert "clear sky" in summary(dark.load(tmp_path)).lights.surroundings
    stage = summary(load(root / "scenes" / "features" / "stage.gltf"))
    assert (stage.lights.directional, stage.lights.point, stage.lights.spot, stage.lights.emissive) == (1, 1, 3, 0)
    assert stage.lights.surroundings == "nothing" and "punctual lights" in stage.costs.kernels
    lens, flat = summary(load(root / "scenes" / "features" / "lens.gltf")).cameras
    assert (lens.name, lens.projection, lens.aperture) == ("lens", "perspective", 0.11) and abs(lens.height - 30.0) < 1e-6
    assert (flat.name, flat.projection, flat.height) == ("orthographic", "orthographic", 9.0)
    assert summary(load(root / "scenes" / "features" / "variants.gltf")).variants == ["porcelain", "bronze", "glass", "lacquer"]


@pytest.mark.parametrize("name", ["cloth", "stage", "glass", "dahlia", "neon", "gems"])
@pytest.mark.parametrize(("walk", "group"), [("cpu", 8), ("gpu", 1)])
def test_the_bytes_that_were_foretold_are_near_those_of_an_upload(name: str, walk: str, group: int, root: Path) -> None:
    scene = load(root / "scenes" / "features" / f"{name}.gltf")
    costs = getattr(summary(scene, (64, 48)).costs, walk)
    held = upload(surrounded(scene, None), group=group, form="lone" if group == 1 else "serial", keep=False).bytes
    assert math.isclose(costs.total - costs.frame, held, rel_tol=0.15)
    assert costs.frame == 64 * 48 * 20 and 0 < costs.bvh_seconds < 1


def crowd(copies: int, places: int = 0) -> File:
    """A wavy sheet of 200 triangles in so many nodes, and in one node at so many places."""
    file = File()
    steps = np.arange(11, dtype=np.float32)
    x, y = (a.reshape(-1) for a in np.meshgrid(steps, steps))
    corners = np.stack([x, y, np.sin(x) * np.cos(y)], 1)
    cell = (np.arange(10)[:, None] * 11 + np.arange(10)).reshape(-1)
    triangles = np.stack([cell, cell + 1, cell + 12, cell, cell + 12, cell + 11], 1).reshape(-1)
    sheet = file.mesh({"attributes": {"POSITION": file.accessor(corners)}, "indices": file.accessor(triangles, 5123, "SCALAR")})
    for k in range(copies):
        file.node(mesh=sheet, translation=[0, 0, 3 * k])
    if places:
        shifts = file.accessor(np.arange(places * 3, dtype=np.float32).reshape(-1, 3))
        file.node(mesh=sheet, extensions={"EXT_mesh_gpu_instancing": {"attributes": {"TRANSLATION": shifts}}})
        file.json["extensionsUsed"] = ["EXT_mesh_gpu_instancing"]
    return file


@pytest.mark.parametrize(("copies", "places"), [(1, 0), (60, 40), (90, 0), (4, 400)])
def test_what_is_shared_is_what_parts_share(copies: int, places: int, tmp_path: Path) -> None:
    scene = crowd(copies, places).load(tmp_path)
    made = parts_of(scene)
    assert counts_of(scene) == (len(made.soup), 0 if made.placings is None else len(made.placings))
    drawn = 200 * (copies + places)
    assert counts_of(scene)[0] == (200 if drawn > 65_536 else drawn)


def test_a_crowd_too_small_to_be_shared_costs_what_is_drawn(tmp_path: Path) -> None:
    facts = [summary(crowd(copies).load(tmp_path)) for copies in (1, 100)]
    assert [f.geometry.unique_triangles for f in facts] == [200, 200]
    assert facts[1].costs.cpu.tree == 100 * facts[0].costs.cpu.tree and facts[1].costs.cpu.bvh_seconds > 0.01


def test_surroundings_are_told_as_what_they_are_and_cost_what_they_take(tmp_path: Path) -> None:
    file = File()
    file.node(mesh=file.quad())
    scene = file.load(tmp_path)
    assert "added" in summary(scene).lights.surroundings
    for environment, words, pixels in (
        (None, "added", 256 * 512),
        (Environment((0.5, 0.5, 0.5)), "one colour", 0),
        (Environment(strength=2.0, sky=Sky(12.0, 4.0)), "a clear sky whose sun is 12 degrees high, of turbidity 4, times 2 2 2", 256 * 512),
        (Environment(image=np.ones((4, 8, 3), np.float32)), "a picture of 8 x 4", 32),
    ):
        scene.environment = environment
        facts = summary(scene)
        assert words in facts.lights.surroundings and facts.costs.cpu.surroundings == 24 * pixels


def test_a_limit_of_memory_counts_for_what_is_foretold(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = load(root / "scenes" / "features" / "surfaces.gltf")
    free = summary(scene).textures
    monkeypatch.setenv("RAYFUSE_MEMORY_LIMIT", str(free.device_bytes))
    tight = summary(scene).textures
    assert tight.budget_bytes == free.device_bytes // 2 and tight.shrunk > 0 and tight.device_bytes <= tight.budget_bytes


def test_textures_are_measured_by_their_headers(root: Path) -> None:
    facts = summary(load(root / "scenes" / "features" / "surfaces.gltf")).textures
    assert facts.images == 9 and facts.unread == 0 and facts.shrunk == 0
    assert facts.largest is not None and (facts.largest.width, facts.largest.height) == (64, 64)
    assert facts.decoded_bytes < facts.device_bytes < facts.budget_bytes


def test_a_picture_that_cannot_be_read_is_a_warning_and_an_error_in_strict_mode(rayfuse: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    surface = {"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}, "occlusionTexture": {"index": 1}}
    images = [{"uri": "bad.png"}, {"uri": "bad.png", "name": "not drawn"}]
    file = File(materials=[surface], textures=[{"source": 0}, {"source": 1}], images=images)
    texcoords = file.accessor([[0, 0], [1, 0], [1, 1], [0, 1]], 5126, "VEC2")
    file.node(mesh=file.quad(attributes={"POSITION": file.accessor(QUAD), "TEXCOORD_0": texcoords}, material=0))
    facts = summary(file.load(tmp_path))
    assert facts.textures.unread == 2 and facts.textures.device_bytes == 0
    (warning,) = facts.warnings
    assert warning.startswith("images[0]: is no PNG") and warning.endswith("a placeholder is drawn")
    done = rayfuse("info", file.write(tmp_path), "--strict")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert warning in done.stderr and "strict" in done.stderr


def test_formats_have_names(tmp_path: Path) -> None:
    file = File()
    file.node(mesh=file.quad())
    (tmp_path / "a.glb").write_bytes(file.glb())
    (tmp_path / "b.obj").write_text("v 0 0 0\n")
    (tmp_path / "c.gltf").write_text("{}")
    assert [format_of(tmp_path / name) for name in ("a.glb", "b.obj", "c.gltf")] == ["glTF 2.0, binary", "OBJ", "glTF 2.0, JSON"]


# The command


def test_the_table_has_the_facts_and_each_warning_a_line(rayfuse: Run, root: Path, tmp_path: Path) -> None:
    path = root / "scenes" / "features" / "dahlia.gltf"
    done = rayfuse("info", path, "--size", 640, 480)
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("glTF 2.0, JSON", "10,012 times", "unique", "EXT_mesh_gpu_instancing", "640 x 480", "colours of vertices", "about"):
        assert words in done.stdout, words
    file = two_materials_one_shape()
    file.json["extensionsUsed"].append("EXT_made_up")
    (tmp_path / "odd.glb").write_bytes(file.glb())
    lines = rayfuse("info", tmp_path / "odd.glb").stdout.splitlines()
    assert [line for line in lines if line.startswith("warning: ")] == [
        "warning: extensionsUsed[2]: EXT_made_up is not known; the scene is drawn without it"
    ]
    quiet = rayfuse("info", tmp_path / "odd.glb", "--quiet")
    assert (quiet.returncode, quiet.stderr) == (0, "") and "warning" not in quiet.stdout and "EXT_made_up" in quiet.stdout


def test_json_goes_to_a_file_or_to_standard_output_alone(rayfuse: Run, cornell: Path, tmp_path: Path) -> None:
    done = rayfuse("info", cornell, "--json", "-")
    facts: dict[str, Any] = json.loads(done.stdout)
    assert facts["schema"] == SCHEMA and facts["geometry"]["triangles"] == 36
    assert facts["lights"]["emissive_triangles"] == 2 and facts["costs"]["size"] == [1280, 720]
    assert rayfuse("info", cornell, "--json", tmp_path / "facts.json").stdout.startswith(str(cornell))
    assert json.loads((tmp_path / "facts.json").read_text()) == facts


def test_the_page_about_it_names_every_field(root: Path, cornell: Path) -> None:
    page = (root / "docs" / "info.md").read_text(encoding="utf-8")

    def names(part: Any) -> set[str]:
        fields = getattr(part, "__dataclass_fields__", {})
        return set(fields).union(*(names(getattr(part, name)) for name in fields))

    assert [name for name in sorted(names(summary(load(cornell)))) if f'"{name}"' not in page] == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("glass", "not a glTF file"),
        (None, "no such file"),
    ],
)
def test_a_file_that_cannot_be_shown_is_one_line_and_exit_code_2(content: str | None, said: str, rayfuse: Run, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "a.gltf").write_text(content)
    done = rayfuse("info", tmp_path / "a.gltf")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr and "a.gltf" in done.stderr


def test_of_an_empty_file_it_is_told_that_nothing_is_in_it(rayfuse: Run, tmp_path: Path) -> None:
    (tmp_path / "a.gltf").write_text('{"asset": {"version": "2.0"}}')
    done = rayfuse("info", tmp_path / "a.gltf", "--json", "-")
    facts = json.loads(done.stdout)
    assert done.returncode == 0 and facts["geometry"]["triangles"] == facts["materials"]["count"] == 0
    assert facts["geometry"]["extent"] is None
    assert rayfuse("info", tmp_path / "a.gltf").returncode == 0


def test_the_facts_of_a_scene_open_no_device_and_decode_no_picture(root: Path) -> None:
    program = (
        "import sys; from renderer.app import cli; "
        "cli.main(['info', 'scenes/features/surfaces.gltf', '--json', '-']); "
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root, check=True)
    assert not {"llvmlite", "pyopencl", "moderngl", "rich"} & set(done.stderr.split())
