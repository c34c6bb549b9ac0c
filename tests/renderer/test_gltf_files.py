"""Real glTF files: sample models, broken files with the answer each deserves, and the scenes of our own.

The models lie in `../shared/data` beside the project; without them those tests skip, and test_gltf.py still covers all.
"""

from __future__ import annotations

import importlib
import time
from pathlib import Path

import numpy as np
import pytest

from renderer.scene.gltf import load
from renderer.scene.model import Perspective, SceneError

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
MODELS, BAD = DATA / "models", DATA / "models" / "bad"
needs_data = pytest.mark.skipif(not MODELS.is_dir(), reason="../shared/data is not there")
OWN = ("cornell", "gallery", "study", "many_lights")


def models() -> list[Path]:
    found = sorted(path for path in MODELS.rglob("*") if path.suffix in (".glb", ".gltf"))
    return [path for path in found if "bad" not in path.relative_to(MODELS).parts]


def bad_rows() -> list[tuple[str, str, str]]:
    """(file, what a loader should do, whether the whole scene is reachable) of the table of broken files."""
    if not BAD.is_dir():
        return []
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in (BAD / "BAD.md").read_text().splitlines()]
    return [(row[0], row[2], row[4]) for row in rows if len(row) >= 5 and (BAD / row[0]).is_file()]


@needs_data
@pytest.mark.parametrize("path", models(), ids=lambda path: str(path.parent.name))
def test_every_sample_model_loads_whole(path: Path) -> None:
    scene = load(path)
    soup = scene.triangles()
    assert len(soup) + soup.degenerate == scene.totals().triangles > 0 and soup.non_finite == 0
    assert soup.degenerate < 0.1 * len(soup) + 1
    assert not [text for text in scene.warnings if "yet" not in text], "only what is not drawn yet is warned of"
    bounds = scene.bounds()
    assert bounds is not None and np.isfinite(bounds).all()
    inside = soup.positions.reshape(-1, 3)
    slack = 1e-5 * np.abs(bounds).max()
    assert (inside >= bounds[0] - slack).all() and (inside <= bounds[1] + slack).all()
    if soup.normals is not None:
        assert np.allclose(np.linalg.norm(soup.normals, axis=2), 1, atol=1e-5)


@needs_data
@pytest.mark.parametrize(("name", "should", "reachable"), bad_rows(), ids=[row[0] for row in bad_rows()])
def test_every_broken_file_is_refused_or_loaded_with_a_warning(name: str, should: str, reachable: str) -> None:
    started = time.perf_counter()
    try:
        scene = load(BAD / name)
    except SceneError as error:
        assert should.startswith("reject"), error
        assert name.split("/")[1] in str(error) and "\n" not in str(error) and len(str(error)) < 600
    else:
        assert np.isfinite(scene.triangles().positions).all()
        assert should.startswith(("must load", "read it")) or scene.warnings
        if reachable == "yes" and should.startswith(("load", "must load")) and "not drawn" not in should:
            assert len(scene.triangles()) > 0
    if should.startswith("reject"):
        with pytest.raises(SceneError):
            load(BAD / name, strict=True)
    assert time.perf_counter() - started < 2


@needs_data
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("assimp_recursive/RecursiveNodes.gltf", "cycle: 0 -> 1 -> 0"),
        ("validator/node__node_parent_override.gltf", "nodes[2] has two parents, nodes 0 and 1"),
        ("box_mutations/unknown_required_extension.glb", "EXT_does_not_exist"),
        ("box_mutations/truncated_1564.glb", "1564 bytes of 1664"),
        ("validator/root__invalid_collection_type.gltf", "samplers: expected `array`"),
    ],
)
def test_refusals_name_the_cause(name: str, words: str) -> None:
    with pytest.raises(SceneError) as error:
        load(BAD / name)
    assert words in str(error.value)


@needs_data
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("box_mutations/accessor_index_minus1.glb", "meshes[0].primitives[0].attributes.POSITION"),
        ("box_mutations/count_negative.glb", "accessors[2].count"),
        ("box_mutations/uri_escapes_folder.glb", "buffers[0].uri"),
        ("box_mutations/view_length_overflow.glb", "bufferViews[0].byteLength"),
        ("box_mutations/colour_out_of_range.glb", "materials[0].pbrMetallicRoughness.baseColorFactor[0]"),
        ("box_mutations/lines_mode.glb", "meshes[0].primitives[0].mode"),
        ("validator/camera__perspective_z.gltf", ""),
    ],
)
def test_warnings_name_the_json_path(name: str, path: str) -> None:
    assert load(BAD / name).warnings[0].startswith(path)


@needs_data
def test_the_sparse_sample_moves_its_vertices_and_the_instanced_one_has_125_boxes() -> None:
    sparse = load(MODELS / "SimpleSparseAccessor-Embedded/SimpleSparseAccessor.gltf")
    heights = np.unique(sparse.meshes[0].geometries[0].positions[:, 1])
    assert len(heights) > 2, "unmoved, the vertices lie in two rows"
    crowd = load(MODELS / "SimpleInstancing/SimpleInstancing.glb")
    assert [instance.count for instance in crowd.instances] == [125] and crowd.totals().instances == 125


@needs_data
def test_a_quarter_million_triangles_load_in_a_tenth_of_a_second() -> None:
    path = DATA / "bench" / "room256k.glb"
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        scene = load(path)
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 0.1
    totals = scene.totals()
    assert (totals.triangles, totals.lights, totals.light_triangles) == (256_014, 1, 2)


def test_the_scenes_of_the_project_are_what_their_script_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "scenes")
    module = importlib.import_module("make_scenes")
    module.main(tmp_path)
    assert sorted(module.SCENES) == sorted(OWN) == sorted(path.stem for path in (ROOT / "scenes").glob("*.gltf"))
    for name in OWN:
        assert (tmp_path / f"{name}.gltf").read_bytes() == (ROOT / "scenes" / f"{name}.gltf").read_bytes(), name


@pytest.mark.parametrize("name", OWN)
def test_the_scenes_of_the_project_are_clean_small_lit_and_framed(name: str) -> None:
    path = ROOT / "scenes" / f"{name}.gltf"
    assert path.stat().st_size < 1_500_000
    scene = load(path, strict=True)
    totals = scene.totals()
    assert totals.lights > 0 and len(scene.cameras) == 1 and isinstance(scene.cameras[0].projection, Perspective)
    assert all(material.specular_factor == 0 and material.metallic == 0 for material in scene.materials)
    soup = scene.triangles()
    assert soup.degenerate < 0.001 * len(soup) and soup.non_finite == 0
    if soup.normals is not None:
        p = soup.positions.astype(float)
        geometric = np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0])
        assert ((soup.normals * geometric[:, None]).sum(2) > 0).mean() > 0.995, "shading and winding agree"


def test_many_lights_has_some_hundreds_of_lights() -> None:
    assert 200 < load(ROOT / "scenes" / "many_lights.gltf").totals().lights < 1000


@needs_data
def test_cornell_is_the_box_that_others_are_measured_with() -> None:
    ours, theirs = load(ROOT / "scenes" / "cornell.gltf"), load(DATA / "bench" / "cornell.glb")
    for scene in (ours, theirs):
        assert len(scene.triangles()) == 36
    a, b = (np.unique(np.round(s.triangles().positions.reshape(-1, 3), 5), axis=0) for s in (ours, theirs))
    assert np.allclose(a, b, atol=2e-5)
    assert np.allclose(ours.cameras[0].world, theirs.cameras[0].world)
    lenses = [scene.cameras[0].projection for scene in (ours, theirs)]
    assert all(isinstance(lens, Perspective) for lens in lenses)
    assert abs(lenses[0].yfov - lenses[1].yfov) < 1e-8  # type: ignore[union-attr]
    assert [m.base_color_factor for m in ours.materials] == [m.base_color_factor for m in theirs.materials]
    assert np.allclose(ours.materials[-1].emissive, theirs.materials[-1].emissive)
    area, facing = [], []
    for scene in (ours, theirs):
        p = scene.triangles().positions.astype(float)
        cross = np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0])
        area.append(np.linalg.norm(cross, axis=1).sum())
        facing.append((cross * (p.mean(1) - [0, 0, 0])).sum())
    assert np.allclose(area[0], area[1], rtol=1e-6) and np.allclose(facing[0], facing[1], rtol=1e-5)
