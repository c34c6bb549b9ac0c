"""The variant that a scene is shown in: chosen by name or number, told of where there is none."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from renderer.scene.importers import load
from renderer.scene.model import SceneError
from renderer.scene.variants import in_variant

NAMES = ["porcelain", "bronze", "glass", "lacquer"]


@pytest.fixture(scope="module")
def path(root: Path) -> Path:
    """A vase of four materials."""
    return root / "scenes" / "features" / "variants.gltf"


def test_a_name_or_a_number_changes_the_material_and_nothing_leaves_it(path: Path) -> None:
    scene = load(path)
    (vase,) = (mesh.geometries[0] for mesh in scene.meshes if mesh.name == "vase")

    def shown(choice: int | str | None) -> str:
        return scene.materials[vase.material_in(in_variant(scene, choice).variant)].name

    assert scene.variants == NAMES
    assert [shown(name) for name in NAMES] == [shown(k) for k in range(4)] == NAMES
    assert in_variant(scene, None) is scene and scene.variant is None and shown(None) == "porcelain"


@pytest.mark.parametrize("choice", ["paper", 4])
def test_a_variant_that_is_not_there_is_an_error_that_names_those_that_are(path: Path, choice: int | str) -> None:
    with pytest.raises(SceneError, match=r"there is no variant .*; the scene's variants: 0 \(porcelain\), 1 \(bronze\)"):
        in_variant(load(path), choice)


def test_the_command_draws_the_variant(
    rayfuse: Callable[..., subprocess.CompletedProcess[str]], path: Path, cornell: Path, tmp_path: Path
) -> None:
    means = []
    for number, name in enumerate(("porcelain", "bronze")):
        options = ("--backend", "cpu", "--size", 24, 18, "--spp", 4, "--depth", 3, "--quiet", "--variant", name)
        done = rayfuse("render", path, "-o", tmp_path / f"{number}.npy", *options)
        assert (done.returncode, done.stderr) == (0, "")
        middle = np.load(tmp_path / f"{number}.npy")[7:13, 10:14].mean((0, 1))
        means.append(middle / middle.sum())
    assert means[1][2] < 0.6 * means[0][2], "bronze has less blue than porcelain with blue on it"
    refused = rayfuse("render", cornell, "-o", tmp_path / "a.png", "--variant", "bronze", "--quiet")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "there is no variant 'bronze'; the scene's variants: none" in refused.stderr
