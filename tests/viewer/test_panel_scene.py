"""What the panel does to a scene beside its materials: variants, lights, surroundings; with a real mouse, or with keys alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from renderer.scene.importers import load
from renderer.scene.model import Environment, Sky
from renderer.scene.surroundings import surrounded

pytest.importorskip("imgui_bundle", reason="the viewer's packages are not installed: pip install 'rayfuse[viewer]'")

from imgui_bundle import imgui

from renderer.app.viewer.panel import PanelActions
from renderer.app.viewer.panel_environment import ADDED
from tests.viewer.desk import Desk, Seen, only_section
from tests.viewer.props import choose, click, drag, drawn, png, scene

Desks = Callable[..., Desk]


# ---- variants ----


def test_a_variant_is_shown_and_its_materials_are_those_of_the_selected_object(
    desks: Desks, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_section("Variants", monkeypatch)
    desk = desks((900, 700), scene())
    desk.turn(3)
    choose(desk, seen, "variant", 2)
    desk.until(lambda: desk.editor.scene.variant == 1, "the second variant is shown")
    assert desk.editor.undo_label == "variant worn" and desk.editor.take_changes().variant
    choose(desk, seen, "variant", -2)
    desk.until(lambda: desk.editor.scene.variant is None, "the scene is as in the file")
    desk.editor.undo()
    only_section("Objects", monkeypatch)
    desk.turn(3)
    click(desk, seen, "wall")
    desk.until(lambda: desk.editor.selected, "the object is selected")
    assert desk.editor.selected is not None and desk.editor.selected.material == 2


# ---- lights ----


def test_a_light_is_switched_off_and_on_and_has_its_intensity_again(desks: Desks, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    only_section("Lights", monkeypatch)
    desk = desks((1300, 900), scene())
    desk.turn(3)
    assert {"sun", "bulb", "torch"} <= set(seen.at)
    click(desk, seen, "bulb")
    desk.turn(3)
    before = desk.editor.scene.lights[1]
    click(desk, seen, "lamp on")
    desk.until(lambda: desk.editor.scene.lights[1] == replace(before, intensity=0.0), "the bulb is off")
    click(desk, seen, "lamp on")
    desk.until(lambda: desk.editor.scene.lights[1] == before, "the bulb is as it was")
    drag(desk, seen, "lamp intensity", 0.2, 0.8)
    desk.until(lambda: desk.editor.scene.lights[1].intensity > 50, "it is brighter")
    assert desk.editor.undo() == "intensity of bulb" and desk.editor.scene.lights[1] == before, "a drag is one step"
    drag(desk, seen, "lamp range", 0.9, -3.0)
    desk.until(lambda: math.isinf(desk.editor.scene.lights[1].range), "it reaches without end")
    desk.turn(3)
    click(desk, seen, "undo lamp range")
    desk.until(lambda: desk.editor.scene.lights[1] == before, "it is as in the file")


def test_the_cones_of_a_spot_stay_one_within_the_other(desks: Desks, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    only_section("Lights", monkeypatch)
    desk = desks((1300, 900), scene())
    desk.turn(3)
    click(desk, seen, "torch")
    desk.turn(3)
    for name, start, end in (("outer", 0.3, 0.05), ("inner", 0.1, 1.5), ("outer", 0.05, 0.9), ("inner", 0.05, 0.8), ("outer", 0.9, -1.0)):
        drag(desk, seen, f"lamp {name}", start, end)
        torch = desk.editor.scene.lights[2]
        assert 0 <= torch.inner_cone < torch.outer_cone <= math.pi / 2 + 1e-9
    assert torch != desk.editor.loaded.lights[2]


def test_a_material_that_shines_is_a_light_and_stays_one(desks: Desks, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    only_section("Lights", monkeypatch)
    lamp = scene()
    lamp.materials[2] = replace(lamp.materials[2], emissive=(4.0, 2.0, 1.0))
    desk = desks((1300, 900), lamp)
    desk.turn(3)
    click(desk, seen, "paper")
    desk.turn(3)
    drag(desk, seen, "strength", 0.9, -1.5)
    desk.until(lambda: desk.editor.scene.materials[2].emissive == (0.0, 0.0, 0.0), "it is off")
    desk.turn(40)
    assert "paper" in drawn(desk, seen)
    drag(desk, seen, "strength", 0.2, 0.8)
    r, g, b = desk.editor.scene.materials[2].emissive
    assert r > 0 and (g / r, b / r) == (0.5, 0.25), "it has its colour again"


# ---- surroundings ----


def test_each_kind_of_surroundings_is_chosen_and_going_back_loses_nothing(
    desks: Desks, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_section("Environment", monkeypatch)
    desk = desks((1300, 900), scene())
    desk.figures.lights = 1
    desk.turn(3)
    choose(desk, seen, "environment kind", 2)
    desk.until(lambda: desk.editor.scene.environment == Environment(sky=Sky()), "there is a sky")
    drag(desk, seen, "sun height", 0.5, 0.9)
    desk.until(lambda: sky(desk).elevation > 70, "the sun is high")
    assert desk.editor.undo_label == "sky"
    drag(desk, seen, "haze", 0.1, 0.6)
    desk.until(lambda: sky(desk).turbidity > 5, "the air is hazy")
    drag(desk, seen, "environment turn", 0.5, 0.75)
    desk.until(lambda: around(desk).turn > 60, "the sun is elsewhere")
    drag(desk, seen, "environment strength", 0.5, 0.8)
    desk.until(lambda: around(desk).strength > 2, "all is brighter")
    hazy = around(desk)
    choose(desk, seen, "environment kind", -1)
    desk.until(lambda: around(desk) == Environment(), "it is white all around")
    before = around(desk)
    drag(desk, seen, "environment turn", 0.5, 0.75)
    assert around(desk) == before, "turning that changes nothing"
    choose(desk, seen, "environment kind", 1)
    desk.until(lambda: around(desk) == hazy, "the sky is as it was")
    desk.turn(3)
    click(desk, seen, "undo environment")
    desk.until(lambda: desk.editor.scene.environment is None, "there is nothing around, as in the file")
    labels = []
    while desk.editor.can_undo:
        labels.append(desk.editor.undo())
    assert labels == [
        "environment as in the file", "environment sky", "environment colour", "environment strength", "environment turn", "sky", "sky",
        "environment sky",
    ]  # fmt: skip
    assert desk.editor.scene.environment is None


def around(desk: Desk) -> Environment:
    environment = desk.editor.scene.environment
    assert environment is not None
    return environment


def sky(desk: Desk) -> Sky:
    found = around(desk).sky
    assert found is not None
    return found


def test_a_picture_is_asked_for_by_its_path_and_shown_when_it_is_there(
    desks: Desks, seen: Seen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    only_section("Environment", monkeypatch)
    file = tmp_path / "studio.png"
    file.write_bytes(png((90, 90, 90)))
    desk = desks((1300, 900), scene())
    desk.turn(3)
    choose(desk, seen, "environment kind", 3)
    desk.until(lambda: desk.panel.wants_keyboard, "a path is asked for")
    assert desk.editor.scene.environment is None, "nothing is changed by asking"
    for key in (imgui.Key.mod_ctrl, imgui.Key.a):
        imgui.get_io().add_key_event(key, True)
        desk.turn(2)
    for key in (imgui.Key.a, imgui.Key.mod_ctrl):
        imgui.get_io().add_key_event(key, False)
    imgui.get_io().add_input_characters_utf8(str(file))
    desk.turn(3)
    click(desk, seen, "Take")
    desk.until(lambda: desk.asked, "it is asked for")
    assert desk.asked == [PanelActions(surround=file)]
    image = np.ones((100, 200, 3), np.float32)
    desk.editor.set_environment(Environment(image=image, source=file))
    seen.texts.clear()
    desk.turn(3)
    assert {"studio.png", "200 × 100"} <= set(seen.texts)


def test_a_scene_without_any_light_is_told_to_have_the_colour_that_lights_it(
    desks: Desks, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_section("Environment", monkeypatch)
    desk = desks((1300, 900), replace(scene(), lights=[]))
    desk.figures.lights = 0
    desk.turn(3)
    assert "The scene has no light of its own; a sky of this colour lights it." in seen.texts
    drag(desk, seen, "environment strength", 0.5, 0.3)
    desk.until(lambda: desk.editor.scene.environment is not None and around(desk).strength < 1, "it is darker")
    assert around(desk).radiance == (0.8, 0.9, 1.0), "and of the same colour"


def test_a_sky_that_was_added_to_a_dark_scene_is_told_to_be_none_of_the_files(
    desks: Desks, seen: Seen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    only_section("Environment", monkeypatch)
    desk = desks((1300, 900), surrounded(replace(scene(), lights=[]), None))
    desk.turn(3)
    assert ADDED in seen.texts and sky(desk) == Sky() and not desk.editor.dirty
    drag(desk, seen, "sun height", 0.5, 0.9)
    desk.until(lambda: sky(desk).elevation > 70, "the sun is high")
    drawn(desk, seen)
    click(desk, seen, "undo environment")
    desk.until(lambda: sky(desk) == Sky(), "the sky is as it was added")
    desk.editor.save(tmp_path / "saved.glb")
    saved = surrounded(load(tmp_path / "saved.glb"), None)
    assert saved.environment == desk.editor.scene.environment, "a saved scene has it"
    seen.texts.clear()
    desk.editor.scene.environment = saved.environment
    desk.turn(3)
    assert ADDED not in seen.texts, "and there it is the file's own"


# ---- room and keys ----


@pytest.mark.parametrize(("size", "share"), [((640, 480), 0.36), ((1280, 800), 0.3), ((500, 700), 0.45)])
def test_the_panel_leaves_most_of_the_window_to_the_picture(size: tuple[int, int], share: float, desks: Desks) -> None:
    desk = desks(size, scene())
    desk.turn(3)
    assert desk.panel.covered <= share * size[0]


def test_a_material_is_changed_by_keys_alone(desks: Desks, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    only_section("Materials", monkeypatch)
    desk = desks((640, 480), scene())
    desk.turn(5)
    before = desk.editor.scene.materials[0]

    def press(key: Any) -> None:
        for pressed in (True, False):
            imgui.get_io().add_key_event(key, pressed)
            desk.turn(2)

    for _ in range(80):
        press(imgui.Key.tab)
        if focused(desk, "metallic"):
            break
    assert focused(desk, "metallic"), "the tabulator comes to every control"
    imgui.get_io().add_input_characters_utf8("0.25")
    desk.turn(2)
    press(imgui.Key.enter)
    desk.until(lambda: desk.editor.scene.materials[0] == replace(before, metallic=0.25), "what was typed is taken")


def focused(desk: Desk, name: str) -> bool:
    """Whether the keys go to the control of this name."""
    found = []
    real = imgui.slider_float

    def slider(label: str, *arguments: Any) -> Any:
        result = real(label, *arguments)
        if label == f"##{name}":
            found.append(imgui.is_item_focused())
        return result

    imgui.slider_float = slider
    desk.turn()
    imgui.slider_float = real
    return any(found)
