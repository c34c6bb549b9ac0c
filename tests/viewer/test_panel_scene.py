"""What the panel does to a scene: each field of a material, its textures, variants, lights and surroundings, with a real mouse."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from renderer.scene.model import Environment, Geometry, Image, Instance, Light, Material, Mesh, Scene, Sky, Texture
from renderer.scene.model_material import Clearcoat, Transmission, Volume
from renderer.scene.model_texture import TextureRef

pytest.importorskip("imgui_bundle", reason="the viewer's packages are not installed: pip install 'rayfuse[viewer]'")

from imgui_bundle import imgui

from renderer.app.viewer.material_fields import CONTROLS, groups, value_of
from renderer.app.viewer.panel import PanelActions
from renderer.app.viewer.panel_materials import BUILDING, NEW_CODE
from renderer.app.viewer.state import Progress
from renderer.shading.material_rows import look_of
from tests.viewer.desk import Desk, Seen, only_section

Desks = Callable[..., Desk]
SHADES = ((200, 40, 40), (40, 200, 40), (128, 128, 255))


def scene() -> Scene:
    """A body of glass and a varnished wall with textures; two variants, three lights."""
    geometry = Geometry(
        np.eye(3, dtype=np.float32), np.array([[0, 1, 2]], np.uint32), None, 0, texcoords=(np.eye(3, 2, dtype=np.float32),),
        variants={0: 1, 1: 2},
    )  # fmt: skip
    glass = Material("glass", alpha_mode="MASK", transmission=Transmission(1.0), volume=Volume(0.5, None, 2.0, (0.5, 1.0, 0.5)))
    wall = Material("wall", base_color_texture=TextureRef(0), normal_texture=TextureRef(2, strength=0.5), clearcoat=Clearcoat(0.5, 0.25))
    return Scene(
        Path("study.glb"), materials=[glass, wall, Material("paper")], meshes=[Mesh("wall", [geometry])],
        instances=[Instance(0, np.eye(4), "wall", 0)], images=[Image(name, png(shade), "") for name, shade in zip("abc", SHADES)],
        textures=[Texture(0), Texture(1, wrap_s="mirror"), Texture(2, mip=None)], variants=["new", "worn"],
        lights=[
            Light("sun", "directional", np.eye(4), 1, intensity=2.0), Light("bulb", "point", np.eye(4), 2, (1.0, 0.5, 0.25), 40.0, 5.0),
            Light("torch", "spot", np.eye(4), 3, inner_cone=0.2, outer_cone=0.5),
        ],
    )  # fmt: skip


def png(shade: tuple[int, int, int]) -> bytes:
    """A file of 200 x 100 pixels of one colour."""
    stream = io.BytesIO()
    Pillow.new("RGB", (200, 100), shade).save(stream, "PNG")
    return stream.getvalue()


def only_group(title: str, patch: pytest.MonkeyPatch) -> None:
    """Of the groups of a material opens this one and closes all others."""
    real = imgui.tree_node_ex

    def node(label: str, flags: int = 0) -> Any:
        imgui.set_next_item_open(label == title)
        return real(label, flags)

    patch.setattr(imgui, "tree_node_ex", node)


def click(desk: Desk, seen: Seen, name: str) -> None:
    desk.to(*seen.middle(name))
    desk.mouse("click", 1)


def drag(desk: Desk, seen: Seen, name: str, start: float, end: float) -> None:
    """Presses at one share of a control's width, moves to another in two steps, and releases."""
    left, top, right, bottom = seen.at[name]
    desk.to(left + start * (right - left), (top + bottom) / 2)
    desk.mouse("mousedown", 1)
    for share in ((start + end) / 2, end):
        desk.to(left + share * (right - left), (top + bottom) / 2)
    desk.mouse("mouseup", 1)


def choose(desk: Desk, seen: Seen, name: str, downs: int) -> None:
    """Opens a list, goes down (or up) with the arrow keys, and takes what stands there."""
    click(desk, seen, name)
    desk.until(lambda: desk.panel.wants_keyboard, "the list is open")
    desk.turn(4)
    for key in [imgui.Key.down_arrow if downs > 0 else imgui.Key.up_arrow] * abs(downs) + [imgui.Key.enter]:
        for pressed in (True, False):
            imgui.get_io().add_key_event(key, pressed)
            desk.turn(2)
    desk.turn(2)


# ---- materials ----


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


def drawn(desk: Desk, seen: Seen) -> set[str]:
    """The controls that there are now."""
    seen.at.clear()
    desk.turn()
    return set(seen.at)


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
    desk = desks((900, 900), scene())
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
    assert "The scene has no light of its own; this neutral sky lights it." in seen.texts
    drag(desk, seen, "environment strength", 0.5, 0.3)
    desk.until(lambda: desk.editor.scene.environment is not None and around(desk).strength < 1, "it is darker")
    assert around(desk).radiance == (0.8, 0.9, 1.0), "and of the same colour"


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
