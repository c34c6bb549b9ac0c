"""The gallery of features: its files are what their script writes, show all that the loader draws, and are drawn."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from renderer.pipeline.session import Session
from renderer.scene import undrawn
from renderer.scene.gltf import EXTENSIONS
from renderer.scene.importers import load
from renderer.scene.surroundings import surrounded

FOLDER = Path(__file__).parents[2] / "scenes"
NAMES = sorted(path.stem for path in (FOLDER / "features").glob("*.gltf"))
MOST_BYTES, MOST_PICTURE_BYTES = 200_000, 60_000


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The scripts of the folder `scenes`, by name, which import each other from there."""
    monkeypatch.syspath_prepend(FOLDER)
    yield {name: importlib.import_module(name) for name in ("make_features", "render_features", "features_light")}


def test_the_files_are_what_their_script_writes(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    scripts["make_features"].main(tmp_path)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == sorted(path.name for path in (FOLDER / "features").iterdir())
    for name in written:
        assert (tmp_path / name).read_bytes() == (FOLDER / "features" / name).read_bytes(), name


def test_every_extension_that_is_drawn_is_in_a_scene_of_the_gallery() -> None:
    shown: set[str] = set()
    for name in NAMES:
        shown |= set(json.loads((FOLDER / "features" / f"{name}.gltf").read_text(encoding="utf-8")).get("extensionsUsed", []))
    optional = {"KHR_texture_basisu"}  # read by a package that not everybody has, and these scenes are for all
    assert shown == EXTENSIONS - set(undrawn.EXTENSIONS) - set(undrawn.METADATA) - optional


@pytest.mark.parametrize("name", NAMES)
def test_a_scene_loads_without_a_warning_and_its_picture_is_finite_and_not_black(name: str) -> None:
    path = FOLDER / "features" / f"{name}.gltf"
    assert path.stat().st_size < MOST_BYTES
    heard: list[str] = []
    scene = load(path, strict=True, warn=heard.append)
    assert not heard and not scene.warnings and not scene.undrawn
    for camera in scene.cameras:
        session = Session(surrounded(scene, "sky" if name == "terrace" else None), width=32, height=24, backend="cpu", spp=4, camera=camera)
        try:
            session.frame()
            mean = session.mean()
        finally:
            session.close()
        assert np.isfinite(mean).all() and session.nonfinite == 0
        assert 0.02 < mean.mean() < 2.0, "neither black nor burnt out"
        assert np.ptp(mean.mean(2)) > 0.05, "there is something in it"


def test_the_surroundings_at_dusk_are_read_as_they_were_made(scripts: dict[str, ModuleType]) -> None:
    scene = surrounded(load(FOLDER / "features" / "terrace.gltf"), str(FOLDER / "features" / "dusk.hdr"))
    assert scene.environment is not None and scene.environment.image is not None
    made = scripts["features_light"].dusk()
    brightest = made.max(2, keepdims=True)
    assert (np.abs(scene.environment.image[..., :3] - made) < brightest / 120).all(), "eight bits a channel below the brightest one"


def test_the_dahlia_has_ten_thousand_petals_of_one_mesh() -> None:
    scene = load(FOLDER / "features" / "dahlia.gltf")
    crowds = [instance for instance in scene.instances if instance.copies is not None]
    assert sum(instance.count for instance in crowds) == 10_000 and len({instance.mesh for instance in crowds}) == 1


def test_five_ways_of_storing_a_shape_give_the_same_shape() -> None:
    scene = load(FOLDER / "features" / "storage.gltf")
    gourds = [mesh.geometries[0] for mesh in scene.meshes if mesh.name != "plinth" and len(mesh.geometries[0].positions) > 500]
    assert len(gourds) == 5
    for geometry in gourds[1:]:
        assert np.array_equal(geometry.indices, gourds[0].indices)
        assert np.abs(geometry.positions - gourds[0].positions).max() < 1e-4
        assert geometry.normals is not None and gourds[0].normals is not None
        assert np.abs(geometry.normals - gourds[0].normals).max() < 1e-3


def test_the_page_says_what_the_scenes_are_and_shows_their_pictures(scripts: dict[str, ModuleType]) -> None:
    script = scripts["render_features"]
    written = script.PAGE.read_text(encoding="utf-8")
    assert written == script.page(), "python scenes/render_features.py writes it"
    named = set(re.findall(r"\((images/features/[\w-]+\.jpg)\)", written))
    assert named == {f"images/features/{path.name}" for path in script.PICTURES.iterdir()}
    assert all((script.PAGE.parent / name).stat().st_size < MOST_PICTURE_BYTES for name in named)
