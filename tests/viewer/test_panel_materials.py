"""What the panel does to materials: each field, each texture, with a real mouse, one step for a drag, and back to the file's value."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from renderer.scene.model_material import Clearcoat
from renderer.scene.model_texture import TextureRef

pytest.importorskip("imgui_bundle", reason="the viewer's packages are not installed: pip install 'rayfuse[viewer]'")

from renderer.app.viewer.material_fields import CONTROLS, groups, value_of
from renderer.app.viewer.panel_materials import BUILDING, NEW_CODE
from renderer.app.viewer.state import Progress
from renderer.shading.material_rows import look_of
from tests.viewer.desk import Desk, Seen, only_section
from tests.viewer.props import SHADES, choose, click, drag, drawn, only_group, scene

Desks = Callable[..., Desk]


@pytest.mark.parametrize("title", groups())
def test_each_field_is_changed_alone_by_its_control_in_one_step_and_taken_back_to_the_files_value(
    title: str, desks: Desks, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_section("Materials", monkeypatch)
    only_group(title, monkeypatch)
    desk = desks((1300, 980), scene())
    desk.turn(4)
    before = desk.editor.scene.materials[0]
    for path in [path for path in groups()[title] if path in CONTROLS]:
        value, control = value_of(before, path), CONTROLS[path]
        if isinstance(value, bool):
            click(desk, seen, path)
        elif control.options:
            choose(desk, seen, path, 1)
        elif path == "emissive":
            drag(desk, seen, "strength", 0.3, 0.9)
        elif isinstance(value, tuple):
            drag(desk, seen, path, 0.05, -0.15 if value[0] else 0.25)  # its red: less, or more
        else:
            drag(desk, seen, path, 0.2, 0.7)
        desk.until(lambda path=path, value=value: value_of(desk.editor.scene.materials[0], path) != value, f"{path} is changed")
        after = desk.editor.scene.materials[0]
        others = [other for other in CONTROLS if other != path]
        assert [value_of(after, other) for other in others] == [value_of(before, other) for other in others]
        label = desk.editor.undo_label
        assert label is not None and label.endswith(" of glass")
        desk.editor.undo()
        assert desk.editor.scene.materials[0] == before and not desk.editor.can_undo, "a drag is one step"
        desk.editor.redo()
        desk.turn(3)
        click(desk, seen, f"undo {path}")
        desk.until(lambda: desk.editor.scene.materials[0] == before, f"{path} is as in the file")
        desk.editor.undo()
        desk.editor.undo()
        assert desk.editor.scene.materials[0] == before and not desk.editor.can_undo
        desk.turn(3)
        assert f"undo {path}" not in drawn(desk, seen), "what is as in the file needs no way back"


def test_opacity_and_cutoff_are_there_where_they_matter(desks: Desks, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    only_section("Materials", monkeypatch)
    only_group("Opacity and sides", monkeypatch)
    desk = desks((900, 900), scene())
    desk.turn(3)
    for mode, there in (("MASK", {"opacity", "alpha_cutoff"}), ("BLEND", {"opacity"}), ("OPAQUE", set())):
        desk.editor.set_material(0, replace(desk.editor.scene.materials[0], alpha_mode=mode))
        desk.turn(3)
        assert drawn(desk, seen) & {"opacity", "alpha_cutoff"} == there
    desk.editor.set_material(0, replace(desk.editor.scene.materials[0], alpha_mode="BLEND"))
    desk.turn(3)
    drag(desk, seen, "opacity", 0.9, 0.4)
    desk.until(lambda: desk.editor.scene.materials[0].base_color_factor[3] == pytest.approx(0.4, abs=0.03), "it is half transparent")


def test_a_distance_that_is_turned_down_to_nothing_is_endless(desks: Desks, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    only_section("Materials", monkeypatch)
    only_group("Volume", monkeypatch)
    desk = desks((900, 900), scene())
    desk.turn(3)
    drag(desk, seen, "volume.attenuation_distance", 0.9, -3.0)
    desk.until(lambda: math.isinf(desk.editor.scene.materials[0].volume.attenuation_distance), "it is endless")
    drag(desk, seen, "volume.attenuation_distance", 0.2, 0.8)
    desk.until(lambda: 0 < desk.editor.scene.materials[0].volume.attenuation_distance < 100, "and has an end again")


def test_a_layer_without_code_says_so_and_that_it_is_built(desks: Desks, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    only_section("Materials", monkeypatch)
    only_group("Sheen", monkeypatch)
    desk = desks((900, 950), scene())
    desk.figures.look = look_of(desk.editor.scene.materials, False)
    desk.turn(3)
    assert remarks(desk, seen) == ["new code"] * 4, "for sheen, diffuse transmission, iridescence, anisotropy"
    places = {name: place for name, place in seen.at.items() if name.startswith("sheen")}
    material = desk.editor.scene.materials[0]
    desk.editor.set_material(0, replace(material, sheen=replace(material.sheen, color=(0.5, 0.5, 0.5))))
    desk.figures.building = Progress("compiling", 0.5)
    assert remarks(desk, seen) == ["building", *["new code"] * 3]
    desk.figures.building, desk.figures.look = None, look_of(desk.editor.scene.materials, False)
    assert remarks(desk, seen) == ["new code"] * 3
    assert places == {name: seen.at[name] for name in places} and places, "nothing has moved"
    assert "undo sheen.color" in seen.at


def remarks(desk: Desk, seen: Seen) -> list[str]:
    """What the heads of groups say, from top to bottom."""
    desk.turn()
    seen.texts.clear()
    desk.turn()
    return [text for text in seen.texts if text in (NEW_CODE, BUILDING)]


def test_all_of_a_material_is_taken_back_at_once(desks: Desks, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    only_section("Materials", monkeypatch)
    desk = desks((900, 980), scene())
    before = desk.editor.scene.materials[0]
    desk.turn(3)
    assert "All as in the file" not in seen.at
    desk.editor.set_material(0, replace(before, roughness=0.1, metallic=0.2, clearcoat=Clearcoat(1.0)))
    desk.turn(3)
    click(desk, seen, "All as in the file")
    desk.until(lambda: desk.editor.scene.materials[0] == before, "it is as in the file")
    assert desk.editor.undo() == "all of glass" and desk.editor.scene.materials[0].roughness == 0.1


def test_backs_are_culled_by_a_switch_and_there_again_by_undo(desks: Desks, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    only_section("Materials", monkeypatch)
    desk = desks((900, 900), scene())
    desk.turn(3)
    click(desk, seen, "cull backs")
    desk.until(lambda: desk.editor.scene.culled, "backs are culled")
    assert desk.editor.take_changes().culled and desk.editor.undo() == "look through backs" and not desk.editor.scene.culled


def test_materials_of_one_name_are_told_apart(desks: Desks, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    only_section("Materials", monkeypatch)
    twins = scene()
    twins.materials[2] = replace(twins.materials[2], name="wall")
    desk = desks((900, 900), twins)
    desk.turn(3)
    assert {"glass", "wall #1", "wall #2"} <= set(seen.at)


# ---- textures ----


@pytest.fixture
def wall(desks: Desks, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk on which the surface of the wall is open."""
    only_section("Materials", monkeypatch)
    desk = desks((1300, 980), scene())
    desk.turn(3)
    click(desk, seen, "wall")
    desk.turn(3)
    return desk


def test_a_texture_is_shown_small_with_its_name_and_what_the_file_says_of_it(wall: Desk, seen: Seen) -> None:
    image = wall.editor.scene.images[0]
    wall.until(lambda: wall.thumbnails.of(image).texture, "the picture is decoded")
    found = wall.thumbnails.of(image)
    assert found.size is not None and (found.size.width, found.size.height) == (200, 100)
    assert found.texture is not None and max(found.texture.size) <= 64
    assert np.frombuffer(found.texture.read(alignment=1), np.uint8).reshape(-1, 3).mean(0) == pytest.approx(SHADES[0], abs=1)
    left, top, right, bottom = (round(edge) for edge in seen.at["details base_color_texture"])
    wall.to(100, 100)
    shown = wall.pixels()[top + 4 : bottom - 4, left + 4 : right - 4].reshape(-1, 3).mean(0)
    assert shown == pytest.approx(SHADES[0], abs=8), "the panel shows it"
    click(wall, seen, "details base_color_texture")
    wall.until(lambda: "200 × 100, repeated, linear, linear between levels; coordinates 0" in seen.texts, "the details are open")
    click(wall, seen, "details base_color_texture")
    wall.turn(2)
    assert "base_color_texture offset" not in drawn(wall, seen)


def test_a_texture_is_taken_away_and_comes_back_with_undo(wall: Desk, seen: Seen) -> None:
    before = wall.editor.scene.materials[1]
    click(wall, seen, "remove base_color_texture")
    wall.until(lambda: wall.editor.scene.materials[1] == replace(before, base_color_texture=None), "it is gone")
    assert wall.editor.undo() == "surface texture of wall" and wall.editor.scene.materials[1] == before


def test_another_texture_of_the_scene_is_chosen_for_a_slot(wall: Desk, seen: Seen) -> None:
    before = wall.editor.scene.materials[1]
    choose(wall, seen, "base_color_texture", 1)
    wall.until(lambda: wall.editor.scene.materials[1].base_color_texture == TextureRef(1), "the next one in the list")
    choose(wall, seen, "occlusion_texture", 1)
    wall.until(lambda: wall.editor.scene.materials[1].occlusion_texture == TextureRef(0), "the first one, where there was none")
    wall.editor.undo()
    wall.editor.undo()
    assert wall.editor.scene.materials[1] == before and not wall.editor.can_undo


def test_a_texture_is_moved_and_a_normal_map_made_stronger(wall: Desk, seen: Seen) -> None:
    before = wall.editor.scene.materials[1].normal_texture
    assert before is not None
    click(wall, seen, "details normal_texture")
    wall.turn(3)
    for what, start, end, check in (
        ("offset", 0.2, 0.4, lambda ref: ref.offset[0] > 0 and replace(ref, offset=(0.0, 0.0)) == before),
        ("rotation", 0.5, 0.75, lambda ref: 1.2 < ref.rotation < 2.0 and replace(ref, rotation=0.0) == before),
        ("scale", 0.2, 0.4, lambda ref: ref.scale[0] > 1 and replace(ref, scale=(1.0, 1.0)) == before),
        ("strength", 0.25, 0.75, lambda ref: ref.strength == pytest.approx(1.5, abs=0.1) and replace(ref, strength=0.5) == before),
    ):
        drag(wall, seen, f"normal_texture {what}", start, end)
        wall.until(lambda check=check: check(wall.editor.scene.materials[1].normal_texture), f"{what} is another, and nothing else")
        wall.editor.undo()
        assert wall.editor.scene.materials[1].normal_texture == before and not wall.editor.can_undo
        wall.turn(2)
