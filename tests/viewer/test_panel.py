"""The panel in a window of its own: it fits, it can be used with a mouse, and its handles are where the renderer draws things.

What it does to a scene's materials, lights and surroundings is in `test_panel_materials` and `test_panel_scene`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine import Tensor
from renderer.app.viewer.state import Figures, Progress
from renderer.pipeline.camera import camera_data
from renderer.scene import gltf
from renderer.scene.model import Camera, Orthographic, Perspective

pytest.importorskip("imgui_bundle", reason="the viewer's packages are not installed: pip install 'rayfuse[viewer]'")

from imgui_bundle import imgui

from renderer.app.viewer import gizmo, panel_figures, panel_files, panel_notes
from renderer.app.viewer.editing import Selection
from renderer.app.viewer.panel import MOST_SHARE, PanelActions
from renderer.app.viewer.panel_transform import Transform, angles, decompose, rotation_matrix
from renderer.app.viewer.panel_widgets import NameList
from tests.viewer.desk import GREY, Desk, Seen, only_section, open_all

SIZES = [(640, 480, 1.0), (1280, 800, 1.0), (500, 700, 1.0), (2560, 1440, 1.0), (1280, 960, 2.0), (2560, 1440, 2.0)]


# ---- it fits ----


@pytest.mark.parametrize(("width", "height", "scale"), SIZES)
def test_the_panel_stays_within_the_window_and_nothing_in_it_is_cut_off(
    desks: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch, width: int, height: int, scale: float
) -> None:
    open_all(monkeypatch)
    desk = desks((width, height))
    desk.window.scale = scale
    desk.editor.selected = Selection(3, 0, desk.editor.scene.instances[3].mesh, np.zeros(3))
    desk.figures.error = "scenes/study.gltf: nodes[2].mesh: there is no mesh 7; the file has 3. Correct the file, it is read again. " * 8
    desk.figures.software, desk.figures.backend = True, "opengl"
    desk.turn(4)
    window = imgui.internal.find_window_by_name("panel")
    assert (window.pos.x + window.size.x, window.pos.y, window.size.y) == pytest.approx((width, 0, height))
    assert 200 * scale <= window.size.x <= max(width * MOST_SHARE, 200 * scale)
    assert desk.panel.covered == window.size.x
    sections = imgui.internal.find_window_by_name(f"panel/sections_{window.get_id('sections'):08X}")
    assert sections.size.y >= 0.35 * height  # an error of many lines scrolls in its box
    inner = sections.size.x - (imgui.get_style().scrollbar_size if sections.scrollbar_y else 0)
    assert sections.content_size.x <= inner + 1


def test_the_picture_is_covered_by_nothing_but_the_panel(desks: Callable[..., Desk]) -> None:
    desk = desks((900, 500))
    desk.figures.error = "an error"
    desk.turn(4)
    column = round(desk.panel.covered)
    ground = np.array([round(255 * value) for value in GREY])
    assert np.abs(desk.pixels()[:, : 900 - column - 1].astype(int) - ground).max() <= 1
    assert np.abs(desk.pixels()[:, 900 - column + 1 :].astype(int) - ground).max() > 50
    desk.figures.error = ""
    desk.settings.show_panel = False
    desk.turn(2)
    assert np.abs(desk.pixels().astype(int) - ground).max() <= 1
    assert desk.panel.covered == 0


def test_nothing_moves_while_figures_change(desks: Callable[..., Desk], seen: Seen) -> None:
    desk = desks((900, 900))
    desk.turn(3)
    before = dict(seen.at)
    desk.figures.frame_ms.extend([1234.5] * 240)
    desk.figures.rays_per_s, desk.figures.samples, desk.figures.host_bytes = None, 10**9, None
    desk.figures.frames += 1
    desk.figures.kernels = [replace(kernel, ms=kernel.ms * 1e4) for kernel in desk.figures.kernels]
    time.sleep(panel_figures.EVERY_S)
    desk.turn(3)
    assert seen.at == before


def test_the_width_is_dragged_at_the_left_edge(desks: Callable[..., Desk]) -> None:
    desk = desks((1200, 600))
    desk.turn(3)
    edge = 1200 - desk.panel.covered + 2
    desk.to(edge, 300)
    desk.mouse("mousedown", 1)
    desk.to(edge - 100, 300)
    desk.mouse("mouseup", 1)
    assert desk.panel.covered == pytest.approx(1200 - edge + 100, abs=3)
    desk.to(edge - 100, 300)
    desk.mouse("mousedown", 1)
    desk.to(20, 300)
    desk.mouse("mouseup", 1)
    assert desk.panel.covered == pytest.approx(1200 * MOST_SHARE)


# ---- the mouse ----


def test_a_click_on_512_sets_the_workgroup(desks: Callable[..., Desk], seen: Seen) -> None:
    desk = desks()
    desk.turn(3)
    desk.to(*seen.middle("512"))
    assert desk.panel.wants_mouse
    desk.mouse("click", 1)
    desk.until(lambda: desk.settings.workgroup == 512, "the workgroup is 512")
    desk.to(*seen.middle("auto"))
    desk.mouse("click", 1)
    desk.until(lambda: desk.settings.workgroup is None, "the workgroup is left to the device")
    desk.to(50, 50)
    assert not desk.panel.wants_mouse
    assert not desk.panel.has_mouse(50, 900) and not desk.panel.has_mouse(900 - desk.panel.covered - 1, 900)
    assert desk.panel.has_mouse(900 - desk.panel.covered + 1, 900), "it has come to the panel, which has not been drawn since"


def test_a_drag_of_a_slider_is_one_step_of_the_history(desks: Callable[..., Desk], seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    only_section("Materials", monkeypatch)
    desk = desks((900, 900))
    desk.turn(3)
    before = desk.editor.scene.materials[0]
    left, top, right, bottom = seen.at["roughness"]
    desk.to(left + 0.9 * (right - left), (top + bottom) / 2)
    desk.mouse("mousedown", 1)
    roughness = []
    for share in (0.7, 0.5, 0.3, 0.2):
        desk.to(left + share * (right - left), (top + bottom) / 2)
        roughness.append(desk.editor.scene.materials[0].roughness)
    desk.mouse("mouseup", 1)
    assert sorted(roughness, reverse=True) == roughness and len(set(roughness)) == 4
    assert desk.editor.scene.materials[0] == replace(before, roughness=roughness[-1])
    assert desk.editor.undo_label == f"roughness of {before.name}"
    desk.to(*seen.middle("Undo"))
    desk.mouse("click", 1)
    desk.until(lambda: desk.editor.scene.materials[0] == before, "the material is as it was")
    assert not desk.editor.can_undo and desk.editor.can_redo


def test_handles_move_the_selected_object_along_their_axis_in_one_step(desks: Callable[..., Desk]) -> None:
    desk = desks()
    scene = desk.editor.scene
    desk.settings.show_panel = False
    number = next(k for k, instance in enumerate(scene.instances) if on_screen(desk, gizmo_place(desk, k)))
    desk.turn(2)
    desk.editor.selected = Selection(number, 0, scene.instances[number].mesh, np.zeros(3))
    before = scene.instances[number].world.copy()
    start = gizmo_place(desk, number)
    ahead = start + np.array([1e-3, 0, 0])
    along = pixel_of(desk, ahead) - pixel_of(desk, start)
    along /= np.linalg.norm(along)
    # the arrow is a tenth of clip space long, before the perspective shortens it: look for a place on it
    grip = None
    for length in range(24, 60, 4):
        grip = pixel_of(desk, start) + along * length
        desk.to(*grip)
        if desk.panel.wants_mouse:
            break
    assert grip is not None and desk.panel.wants_mouse
    desk.mouse("mousedown", 1)
    for length in (10, 20, 30):
        desk.to(*(grip + along * length))
    desk.mouse("mouseup", 1)
    moved = scene.instances[number].world
    assert moved[0, 3] > before[0, 3]
    assert np.array_equal(moved[:, :3], before[:, :3])
    assert moved[1:3, 3] == pytest.approx(before[1:3, 3], abs=1e-4)
    now = pixel_of(desk, gizmo_place(desk, number))
    assert now == pytest.approx(pixel_of(desk, start) + along * 30, abs=3)  # it followed the mouse
    assert desk.editor.undo_label == f"move {scene.instances[number].name}"
    desk.editor.undo()
    assert np.array_equal(scene.instances[number].world, before)
    assert not desk.editor.can_undo


def gizmo_place(desk: Desk, number: int) -> np.ndarray[Any, Any]:
    """Where an instance's handles stand in the world."""
    instance = desk.editor.scene.instances[number]
    return np.asarray((instance.world @ [*gizmo.pivot(desk.editor.scene, instance.mesh), 1])[:3])


def pixel_of(desk: Desk, point: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    width, height = desk.window.framebuffer
    return project(desk.view.camera, point, width, height)


def on_screen(desk: Desk, point: np.ndarray[Any, Any]) -> bool:
    width, height = desk.window.framebuffer
    x, y = pixel_of(desk, point)
    return bool(0.3 * width < x < 0.7 * width and 0.3 * height < y < 0.7 * height)


def test_a_backend_that_cannot_be_used_is_grey_and_says_why(desks: Callable[..., Desk], seen: Seen) -> None:
    desk = desks()
    desk.turn(3)
    x, y = seen.middle("auto")
    desk.to(x, y - imgui.get_frame_height_with_spacing())  # the row above
    desk.mouse("click", 1)
    desk.until(lambda: "cuda" in seen.at, "the list of backends is open")
    desk.turn(2)
    assert desk.panel.wants_keyboard  # Esc is for the list
    desk.to(*seen.middle("cuda"))
    seen.texts.clear()
    desk.until(lambda: "no driver: libcuda.so.1 was not found" in seen.texts, "the reason is shown")
    desk.mouse("click", 1)
    assert desk.settings.backend == "auto"
    desk.to(*seen.middle("opengl"))
    desk.mouse("click", 1)
    desk.until(lambda: desk.settings.backend == "opengl", "the backend is chosen")
    desk.until(lambda: not desk.panel.wants_keyboard, "the list is closed")


@pytest.mark.parametrize(
    ("button", "field"),
    [("Photo", "screenshot"), ("Reset", "reset_camera"), ("Frame", "frame_scene"), ("Full", "full_screen"), ("Reload", "reload")],
)
def test_a_button_of_the_head_asks_once(desks: Callable[..., Desk], seen: Seen, button: str, field: str) -> None:
    desk = desks()
    desk.turn(3)
    desk.to(*seen.middle(button))
    assert not desk.asked
    desk.mouse("click", 1)
    desk.until(lambda: desk.asked, f"{field} is asked for")
    desk.turn(3)
    assert desk.asked == [PanelActions(**{field: True})]  # type: ignore[arg-type]


def test_the_keys_are_told_and_escape_closes_them(desks: Callable[..., Desk], seen: Seen) -> None:
    desk = desks()
    desk.turn(3)
    desk.to(*seen.middle("Keys"))
    desk.mouse("click", 1)
    desk.until(lambda: desk.panel.wants_keyboard, "the help is open")
    seen.texts.clear()
    desk.turn()
    assert {"orbit", "workgroup 256, 512", "screenshot", "quit"} <= set(seen.texts)
    imgui.get_io().add_key_event(imgui.Key.escape, True)
    desk.until(lambda: not desk.panel.wants_keyboard, "the help is closed")


def test_a_lens_is_handed_back_and_the_scene_stays(desks: Callable[..., Desk], seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    only_section("Camera", monkeypatch)
    desk = desks()
    desk.turn(3)
    left, top, right, bottom = seen.at["Field of view"]
    desk.to(left + 0.8 * (right - left), (top + bottom) / 2)
    desk.mouse("mousedown", 1)
    desk.until(lambda: desk.asked, "the camera is changed")
    desk.mouse("mouseup", 1)
    camera = desk.asked[0].camera
    assert camera is not None and isinstance(camera.projection, Perspective)
    assert np.degrees(camera.projection.yfov) == pytest.approx(0.8 * 150, rel=0.05)
    assert camera.world is desk.view.camera.world
    assert not desk.editor.can_undo
    desk.view = replace(desk.view, camera=camera)
    desk.turn(3)
    desk.to(*seen.middle("Keep this view"))
    desk.mouse("click", 1)
    desk.until(lambda: desk.editor.can_undo, "the view is the scene's camera")
    assert desk.editor.scene.cameras[0].projection == camera.projection


# ---- what is said ----


def test_an_error_is_in_the_panel_and_a_line_of_it_where_that_is_hidden(desks: Callable[..., Desk], seen: Seen) -> None:
    desk = desks()
    desk.figures.error = "scene.gltf: there is no mesh 7; correct the file\nand more"
    desk.turn(2)
    assert desk.figures.error in seen.texts
    desk.settings.show_panel = False
    seen.texts.clear()
    desk.turn(2)
    assert seen.texts[0] == "scene.gltf: there is no mesh 7; correct the file  (F1: the panel)"


def test_a_notice_goes_after_its_time(desks: Callable[..., Desk], seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = desks()
    desk.figures.message = "saved picture.png"
    desk.turn(2)
    assert "saved picture.png" in seen.texts
    assert desk.figures.message
    monkeypatch.setattr(panel_notes, "NOTICE_S", 0.0)
    desk.figures.message = "another"
    desk.turn(3)
    assert not desk.figures.message


def test_a_build_in_the_background_and_the_first_one_are_told(desks: Callable[..., Desk], seen: Seen) -> None:
    desk = desks()
    desk.figures.building = Progress("compiling", 0.5, [("reading", 0.25)], 1.5)
    desk.turn(2)
    assert {"compiling", "1.5 s"} <= set(seen.texts)
    assert "reading" not in seen.texts
    desk.figures.frames = 0
    desk.turn(2)
    assert {"reading", "0.25 s"} <= set(seen.texts)
    seen.texts.clear()
    desk.overlay.begin()
    desk.panel.draw_loading(desk.figures, "study.gltf")
    desk.overlay.end()
    assert {"study.gltf", "compiling", "reading"} <= set(seen.texts)


def test_software_is_told_of_devices_that_pass_for_a_gpu() -> None:
    figures = Figures(backend="opengl", device="llvmpipe", software=True)
    assert panel_notes.software_text(figures) == "opengl runs in software here (llvmpipe): its times say nothing of a GPU."
    figures.backend = "cpu"
    assert panel_notes.software_text(figures) == ""


def test_a_list_of_thousands_draws_the_rows_that_are_seen(desks: Callable[..., Desk], seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    only_section("Materials", monkeypatch)
    desk = desks()
    materials = desk.editor.scene.materials
    materials.extend(replace(materials[0], name=f"stone {k}") for k in range(5000))
    desk.turn(3)
    seen.calls.clear()
    desk.turn()
    assert 1 <= seen.calls["selectable"] <= NameList.ROWS + 2


def test_the_search_finds_names_that_have_all_its_words() -> None:
    names = NameList("things")
    names._names, names._lower = ("Red stone", "red tree", "Stone wall"), ["red stone", "red tree", "stone wall"]
    for search, found in (("", [0, 1, 2]), ("red", [0, 1]), ("STONE  red", [0]), ("blue", [])):
        names._search = search
        names._find()
        assert list(names._found) == found


def test_a_name_for_a_file_is_judged_while_it_is_typed(tmp_path: Path, cornell: Path) -> None:
    assert panel_files.wrong_to_load(cornell) == ""
    assert panel_files.wrong_to_load(tmp_path / "none.gltf") == "There is no such file"
    assert panel_files.wrong_to_load(Path(__file__)) == "A scene's file ends in .gltf, .glb, .obj, .ply, .stl"
    bunny = tmp_path / "bunny.PLY"
    bunny.write_bytes(b"ply\n")
    assert panel_files.wrong_to_load(bunny) == "", "whatever can be dropped on the window can be opened"
    assert panel_files.wrong_to_surround(cornell) == "A picture's file ends in .png, .exr, .hdr, .npy"
    assert panel_files.wrong_to_surround(tmp_path / "none.hdr") == "There is no such file"
    assert panel_files.wrong_to_save(tmp_path / "scene.glb") == ""
    assert panel_files.wrong_to_save(tmp_path / "scene.gltf") == "The file's name has to end in .glb"
    assert panel_files.wrong_to_save(tmp_path / "no" / "scene.glb") == f"There is no folder {tmp_path / 'no'}"
    assert panel_files.name_to_save(Path("a/scene.gltf")) == Path("a/scene-edited.glb")


# ---- numbers ----


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 1e4), min_size=1, max_size=50), st.none() | st.floats(1, 500), st.floats(0, 1e5))
def test_the_graph_shows_nearly_all_frames_and_the_target(ms: list[float], target: float | None, before: float) -> None:
    found = panel_figures.statistics(np.array(ms), target, before)
    assert min(ms) <= found.median <= found.p95 * (1 + 1e-9) <= max(ms) * (1 + 1e-9)
    assert found.ceiling >= found.p95 and found.ceiling >= (target or 0)
    assert found.ceiling <= 10 * max(found.p95, target or 0)
    assert panel_figures.statistics(np.array(ms), target, found.ceiling).ceiling == found.ceiling  # it does not jump


def test_sizes_are_told_in_units_that_a_person_reads() -> None:
    assert [panel_figures.in_bytes(n) for n in (None, 12, 2048, 150 << 20, 3 << 29)] == ["–", "12 B", "2.0 KiB", "150 MiB", "1.5 GiB"]
    assert [panel_figures.in_rays(n) for n in (None, 12.4e6, 2.5e9)] == ["–", "12.4 M/s", "2.50 G/s"]


numbers = st.floats(-10, 10).filter(lambda value: value == 0 or abs(value) > 1e-4)
matrices = st.lists(numbers, min_size=12, max_size=12).map(lambda values: np.vstack([np.reshape(values, (3, 4)), [0, 0, 0, 1]]))
turns = st.tuples(st.floats(-180, 180), st.floats(-89, 89), st.floats(-180, 180))
sizes = st.floats(0.01, 100)


@settings(deadline=None)
@given(matrices)
def test_a_matrix_comes_back_from_its_numbers(matrix: np.ndarray[Any, Any]) -> None:
    assert decompose(matrix).matrix() == pytest.approx(matrix, abs=1e-12 * max(1.0, float(np.abs(matrix).max())))


@settings(deadline=None)
@given(matrices, st.integers(0, 2), st.sampled_from(["flat", "mirrored", "degenerate"]))
def test_so_do_flat_and_mirrored_ones(matrix: np.ndarray[Any, Any], axis: int, kind: str) -> None:
    matrix = matrix.copy()
    if kind == "flat":
        matrix[:3, axis] = 0
    elif kind == "mirrored":
        matrix[:3, axis] *= -1
    else:
        matrix[:3, axis] = matrix[:3, (axis + 1) % 3]
    assert decompose(matrix).matrix() == pytest.approx(matrix, abs=1e-12 * max(1.0, float(np.abs(matrix).max())))


@settings(deadline=None)
@given(turns, st.tuples(sizes, sizes, sizes), st.tuples(numbers, numbers, numbers))
def test_numbers_come_back_from_their_matrix(rotation: Any, scale: Any, position: Any) -> None:
    found = decompose(Transform(position, rotation, scale).matrix())
    assert found.position == position
    assert found.scale == pytest.approx(scale)
    assert not found.is_sheared
    assert np.cos(np.radians(np.subtract(found.rotation, rotation))) == pytest.approx(1.0)


@settings(deadline=None)
@given(st.floats(-180, 180), st.sampled_from([-90.0, 90.0]), st.floats(-180, 180))
def test_a_quarter_turn_about_y_is_the_same_rotation(x: float, y: float, z: float) -> None:
    rotation = rotation_matrix((x, y, z))
    assert rotation_matrix(angles(rotation)) == pytest.approx(rotation, abs=1e-6)


# ---- where the handles are ----


def project(camera: Camera, point: np.ndarray[Any, Any], width: int, height: int) -> np.ndarray[Any, Any]:
    """The place in the picture, in pixels, that the gizmo's matrices give a point of the world."""
    near, far = gizmo.planes(camera, point)
    clip = gizmo.projection_matrix(camera, width / height, near, far) @ gizmo.view_matrix(camera) @ [*point, 1.0]
    assert np.abs(clip[:3]).max() <= abs(clip[3]) * (1 + 1e-9) or np.abs(clip[2]) <= abs(clip[3]) * (1 + 1e-9)
    x, y = clip[:2] / clip[3]
    return np.array([(x + 1) / 2 * width, (1 - y) / 2 * height])


@settings(max_examples=15, deadline=None)  # each traces a small graph
@given(
    turns, st.tuples(numbers, numbers, numbers), st.tuples(st.floats(-3, 3), st.floats(-3, 3), st.floats(0.5, 20)),
    st.floats(5, 120), st.booleans(), st.sampled_from([(640, 480), (300, 900), (1920, 1080)]),
)  # fmt: skip
def test_a_point_is_seen_in_the_pixel_whose_ray_hits_it(
    rotation: Any, eye: Any, place: tuple[float, float, float], degrees: float, parallel: bool, size: tuple[int, int]
) -> None:
    projection = Orthographic(2.0, 3.0) if parallel else Perspective(float(np.radians(degrees)))
    camera = Camera("", projection, Transform(eye, rotation, (1.0, 1.0, 1.0)).matrix())
    x, y, depth = place
    point = (camera.world @ [x, y, -depth, 1.0])[:3]
    width, height = size
    column, row = project(camera, point, width, height)
    assume(abs(column) < 1e5 and abs(row) < 1e5)
    ray = camera_data(camera, width, height).towards(Tensor(np.float32(column / width * 2 - 1)), Tensor(np.float32(1 - row / height * 2)))
    origin, direction = (np.array([float(Tensor(part).numpy()) for part in vector]) for vector in (ray.origin, ray.direction))
    away = np.linalg.norm(np.cross(point - origin, direction)) / np.linalg.norm(direction)
    assert away < 1e-4 * (1 + np.linalg.norm(point - origin) + np.linalg.norm(point))


def test_handles_stand_at_the_origin_or_in_the_middle_of_what_lies_elsewhere(root: Path) -> None:
    scene = gltf.load(root / "scenes" / "study.gltf")
    for number, mesh in enumerate(scene.meshes):
        points = np.concatenate([geometry.positions[geometry.indices].reshape(-1, 3) for geometry in mesh.geometries])
        low, high = points.min(0), points.max(0)
        place = gizmo.pivot(scene, number)
        assert (low <= place + 1e-6).all() and (place <= high + 1e-6).all()
        assert not place.any() or not ((low <= 0) & (high >= 0)).all()


@settings(deadline=None)
@given(matrices, turns, st.tuples(numbers, numbers, numbers))
def test_turning_about_the_handles_leaves_them_where_they_are(before: np.ndarray[Any, Any], turn: Any, about: Any) -> None:
    handles = before.copy()
    handles[:3, 3] += before[:3, :3] @ about
    after = handles.copy()
    after[:3, :3] = rotation_matrix(turn) @ after[:3, :3]
    after[:3, 3] += 1e-6  # what float32 left of it
    world = gizmo.changed(handles, after, np.array(about), "rotate")
    assert world[:3, :3] @ about + world[:3, 3] == pytest.approx(handles[:3, 3], abs=1e-9)
    assert np.array_equal(world[:3, :3], after[:3, :3])
    after[:3, 3] = 5.0
    assert np.array_equal(gizmo.changed(handles, after, np.zeros(3), "translate")[:3, :3], handles[:3, :3])
