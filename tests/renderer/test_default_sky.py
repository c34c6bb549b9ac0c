"""When a scene is put under a sky: where what shines in it leaves the rest dark."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from renderer.app import cli
from renderer.scene import default_sky
from renderer.scene.default_sky import SHARE, brightest, brought, needs_sky
from renderer.scene.gltf_write import encode
from renderer.scene.importers import load
from renderer.scene.model import Environment, Instance, Light, Mesh, Scene
from renderer.scene.sky import RADIANCE
from renderer.scene.surroundings import LABELS, surrounded
from tests.renderer.helpers.pictures import render
from tests.renderer.helpers.worlds import Triangles, cube_grid, grey, icosphere, look_at, quad, scene_of

FLOOR = quad([-1, -1, 0], [2, 0, 0], [0, 2, 0])
THRESHOLD = SHARE * math.pi * RADIANCE
MODELS = Path(__file__).parents[2].parent / "shared" / "data" / "models"


def lit(lamp: Triangles, radiance: float, *, floor: Triangles = FLOOR, double_sided: bool = False) -> Scene:
    camera = look_at([0, -3, 3], [0, 0, 0], 0.6)
    return scene_of((floor, grey(0.5)), (lamp, grey(0.0, radiance, double_sided)), camera=camera)


def has_sky(scene: Scene) -> bool:
    return surrounded(scene, None).environment is not None


def test_the_estimate_is_the_irradiance_of_what_is_lit_best() -> None:
    """A far lamp above a floor: L A / d^2; a floor under a closed dome of light: pi L; the same at any scale."""
    lamp = quad([-0.1, -0.1, 10], [0, 0.2, 0], [0.2, 0, 0])
    assert brought(lit(lamp, 5.0)) == pytest.approx(5 * 0.04 / 100, rel=0.03)
    assert brought(lit(lamp[:, ::-1], 5.0)) == 0
    assert brought(lit(lamp[:, ::-1], 5.0, double_sided=True)) == pytest.approx(5 * 0.04 / 100, rel=0.03)
    dome = icosphere(3, 30.0, inward=True)
    assert brought(lit(dome, 2.0)) == pytest.approx(2 * math.pi, rel=0.15)
    assert brought(lit(lamp * 1e3, 5.0, floor=FLOOR * 1e3)) == pytest.approx(brought(lit(lamp, 5.0)), rel=1e-4)


def test_what_a_lamp_does_not_reach_does_not_count() -> None:
    """A floor of nine times the area, the rest of it far away."""
    lamp = quad([-0.1, -0.1, 3], [0, 0.2, 0], [0.2, 0, 0])
    far = np.concatenate([FLOOR, quad([1e4, -2, 0], [4, 0, 0], [0, 4, 0]), quad([-1e4, -2, 0], [4, 0, 0], [0, 4, 0])])
    assert brought(lit(lamp, 5.0, floor=far)) == pytest.approx(brought(lit(lamp, 5.0)), rel=0.15)


def test_a_small_lamp_counts_beside_a_large_dim_one() -> None:
    bulb, sign = quad([-0.01, -0.01, 1], [0, 0.02, 0], [0.02, 0, 0]), quad([-1, -1, -2], [0, 2, 0], [2, 0, 0])
    scene = scene_of((FLOOR, grey(0.5)), (sign, grey(0.0, 1e-4)), (bulb, grey(0.0, 3e4)))
    alone = scene_of((FLOOR, grey(0.5)), (bulb, grey(0.0, 3e4)))
    assert brought(scene) == pytest.approx(brought(alone), rel=0.1)


def test_of_very_many_triangles_and_placings_those_looked_at_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ceiling of tiles, each a lamp that is placed, and a floor of many triangles."""
    tile, ticks = quad([0, 0, 2], [0, 0.1, 0], [0.1, 0, 0]), np.linspace(-1, 0.9, 20)
    floor = np.concatenate([quad([x, y, 0], [0.1, 0, 0], [0, 0.1, 0]) for x in ticks for y in ticks])
    scene = scene_of((floor, grey(0.5)), (tile, grey(0.0, 1.0)))
    scene.meshes[:] = [Mesh("", [geometry]) for geometry in scene.meshes[0].geometries]
    worlds = np.tile(np.eye(4), (400, 1, 1))
    worlds[:, :2, 3] = np.stack(np.meshgrid(ticks, ticks), -1).reshape(-1, 2)
    scene.instances[:] = [Instance(0, np.eye(4), "floor", 0), *(Instance(1, world, "tile", 1) for world in worlds)]
    whole = brought(scene)
    assert whole == pytest.approx(brought(lit(quad([-1, -1, 2], [0, 2, 0], [2, 0, 0]), 1.0)), rel=0.05)
    for name in ("MOST_TRIANGLES", "MOST_DRAWN"):
        monkeypatch.setattr(default_sky, name, 97)
        assert brought(scene) == pytest.approx(whole, rel=0.1)


def test_lamps_keep_the_sky_away_and_labels_do_not() -> None:
    lamp = quad([-0.5, -0.5, 2], [0, 1, 0], [1, 0, 0])
    label = quad([1.1, -0.5, 0], [0.5, 0, 0], [0, 1, 0])  # beside the floor, in its plane
    full = brought(lit(lamp, 1.0))
    for radiance, dark in ((1.2 * THRESHOLD / full, False), (0.8 * THRESHOLD / full, True)):
        assert radiance < 1 and has_sky(lit(lamp, radiance)) == dark
    assert has_sky(lit(label, 1.0)) and has_sky(lit(cube_grid(1, 0.5), 0.0))
    assert not has_sky(lit(label, 1.01)), "brighter than paper: whatever it lights, it is meant to"


def test_what_the_file_or_the_user_says_of_light_is_heeded() -> None:
    label = lit(quad([1.1, -0.5, 0], [0.5, 0, 0], [0, 1, 0]), 1.0)
    assert has_sky(label)
    assert not has_sky(replace(label, lights=[Light("sun", "directional", np.eye(4), 0, intensity=1e-3)]))
    said = replace(label, environment=Environment((0.1, 0.1, 0.1)))
    assert surrounded(said, None) is said
    seen = render(surrounded(label, "none"), (8, 8), spp=8, depth=1).mean
    assert seen.max() <= 1.0 and (seen.reshape(-1, 3).max(1) == 0).mean() > 0.5, "black but for the label"


@pytest.mark.parametrize("strength", [1.0, 5.0])
def test_what_is_unlit_is_no_lamp_whatever_emission_it_names(strength: float) -> None:
    scene = lit(quad([-0.5, -0.5, 2], [0, 1, 0], [1, 0, 0]), strength)
    unlit = replace(scene, materials=[replace(material, unlit=True) for material in scene.materials])
    assert brightest(unlit) == 0 and has_sky(unlit) and unlit.totals().lights == 0
    assert brought(unlit) == 0 and scene.totals().lights == 1 and brightest(scene) == strength


def test_where_all_shines_nothing_is_added() -> None:
    glowing = scene_of((FLOOR, grey(0.0, 1e-3)))
    assert math.isinf(brought(glowing)) and not has_sky(glowing)


def test_the_sky_beside_a_label_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = lit(quad([1.1, -0.5, 0], [0.5, 0, 0], [0, 1, 0]), 1.0)
    (tmp_path / "label.glb").write_bytes(encode(scene))
    options = ["--size", "4", "4", "--spp", "1", "--backend", "cpu", "-o", str(tmp_path / "picture.png")]
    assert cli.main(["render", str(tmp_path / "label.glb"), *options]) == 0
    assert capsys.readouterr().err.count(LABELS) == 1
    assert cli.main(["render", str(tmp_path / "label.glb"), "--env", "none", *options]) == 0
    assert "sky" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "sky"), [("ClearCoatTest/ClearCoatTest.glb", True), ("EmissiveStrengthTest/EmissiveStrengthTest.glb", False)]
)
def test_of_real_files_labels_and_lamps_are_told_apart(name: str, sky: bool) -> None:
    if not (MODELS / name).is_file():
        pytest.skip("../shared/data is not there")
    scene = load(MODELS / name)
    assert needs_sky(scene) == sky
