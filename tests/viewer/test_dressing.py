"""One life of the viewer in which a wall is dressed anew: another variant, a layer that its kernels do not know, a picture around it.

What the panel does with a scene is in `test_panel_materials` and `test_panel_scene`; this is the whole way to the picture. Where a control
is, is found on a panel of the same size before, by the same clicks (`rehearsed`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from renderer.scene.gltf_write import write
from renderer.scene.images import write_image
from renderer.scene.importers import load
from renderer.scene.model import Environment, Scene
from tests.renderer.helpers.worlds import grey, look_at, quad, scene_of
from tests.viewer.xvfb import Viewer, Views

pytest.importorskip("imgui_bundle", reason="the viewer's packages are not installed: pip install 'rayfuse[viewer]'")

from tests.viewer.desk import Desk, Seen

SIZE = (800, 760)
MIDDLE, OUTSIDE = (243, 380), (20, 20)  # of the wall, and of what is around it, left of the panel
REACH = 10  # pixels, of the square that is looked at


def wall() -> Scene:
    """A grey wall under a white sky, red and blue in its variants."""
    scene = scene_of((quad([-1.7, -1, 0], [2, 0, 0], [0, 2, 0]), grey(0.3)), camera=look_at((0, 0, 4), (0, 0, 0), 0.8))
    scene.environment = Environment()
    shades = {"stone": (0.3, 0.3, 0.3), "red": (0.6, 0.0, 0.0), "blue": (0.0, 0.0, 0.6)}
    scene.materials = [replace(grey(shade), name=name) for name, shade in shades.items()]
    (geometry,) = scene.meshes[0].geometries
    scene.meshes[0].geometries[0] = replace(geometry, variants={0: 1, 1: 2})
    scene.variants = ["in red", "in blue"]
    return scene


def rehearsed(desk: Desk, seen: Seen, *names: str) -> dict[str, tuple[int, int]]:
    """Where the controls of these names are when each is clicked in turn on a desk that looks like the viewer, which then hides."""
    desk.figures.warnings.clear()
    places = {}
    desk.turn(4)
    for name in names:
        x, y = seen.middle(name)
        places[name] = (round(x), round(y))
        desk.to(x, y)
        desk.mouse("click", 1)
        desk.turn(4)
    desk.window.glfw.hide_window(desk.window.handle)
    desk.turn()
    return places


def press(viewer: Viewer, place: tuple[int, int]) -> None:
    """Clicks in the panel, whose graph is closed (first of all), and waits until a part of it looks otherwise."""
    viewer.point(place)
    before = viewer.pixels()[:, place[0] :].astype(int)
    viewer.click(place)
    viewer.until(lambda: (np.abs(viewer.pixels()[:, place[0] :] - before).max(-1) > 8).mean() > 0.005, f"a click at {place} is heard")


def colour(viewer: Viewer, place: tuple[int, int]) -> np.ndarray:
    """Of the picture there: red, green, blue, of 255."""
    x, y = place
    return viewer.pixels()[y - REACH : y + REACH, x - REACH : x + REACH].mean((0, 1))


def test_a_wall_is_dressed_anew(views: Views, desks: Callable[..., Desk], seen: Seen, tmp_path: Path) -> None:
    file, around = tmp_path / "wall.glb", tmp_path / "green.hdr"
    write(wall(), file)
    write_image(around, np.full((8, 16, 3), (0.02, 0.5, 0.02), np.float32))
    places = rehearsed(desks(SIZE, load(file)), seen, "Speed", "Renderer", "Picture", "variant")
    viewer = views(file, "--size", *SIZE, "--backend", "cpu", "--threads", 1)

    def even() -> bool:
        return bool(np.ptp(colour(viewer, MIDDLE)) < 12 and 40 < colour(viewer, MIDDLE).mean() < 220)

    viewer.until(even, "the wall is grey")
    for place in places.values():
        press(viewer, place)
    viewer.key("Down", "Return")
    viewer.until(lambda: colour(viewer, MIDDLE)[0] > 2 * colour(viewer, MIDDLE)[2], "the wall is red")
    viewer.key("ctrl+z")
    viewer.until(even, "the wall is grey again")
    viewer.drop(around)
    viewer.until(lambda: colour(viewer, OUTSIDE)[1] > 2 * colour(viewer, OUTSIDE)[0], "all around is green")
    viewer.until(lambda: colour(viewer, MIDDLE)[1] > 1.5 * colour(viewer, MIDDLE)[0], "and lights the wall")
    viewer.key("Escape")
    assert viewer.wait() == 0, viewer.said
    record = viewer.record()
    assert [compiled["background"] for compiled in record["compiles"]] == [True], "a picture around it is another kind of sky"
    edits = [event["value"] for event in record["events"] if event["kind"] == "edit"]
    assert [edit["variant"] for edit in edits] == [True, True, False] and edits[2]["environment"]


def test_a_layer_that_kernels_do_not_know_is_built_behind_the_old_picture(
    views: Views, desks: Callable[..., Desk], seen: Seen, tmp_path: Path
) -> None:
    file = tmp_path / "wall.glb"
    write(wall(), file)
    title, slider = "Diffuse transmission", "diffuse_transmission.factor"
    places = rehearsed(desks(SIZE, load(file)), seen, "Speed", "Renderer", "Picture", "Variants", "materials", "Surface", title, slider)
    viewer = views(file, "--size", *SIZE, "--backend", "cpu", "--threads", 1)
    viewer.until(lambda: 40 < colour(viewer, MIDDLE).mean() < 220, "the wall is there")
    for name in list(places)[:-1]:
        press(viewer, places[name])
    viewer.point(places[slider])
    dark = colour(viewer, MIDDLE).mean()
    viewer.click(places[slider])
    viewer.until(lambda: colour(viewer, MIDDLE).mean() > dark + 15, "light comes through the wall")
    viewer.key("ctrl+z")
    viewer.until(lambda: abs(colour(viewer, MIDDLE).mean() - dark) < 5, "the wall is as it was")
    viewer.key("ctrl+y")
    viewer.until(lambda: colour(viewer, MIDDLE).mean() > dark + 15, "light comes through again")
    viewer.key("Escape")
    assert viewer.wait() == 0, viewer.said
    compiles = viewer.record()["compiles"]
    assert [(compiled["background"], compiled["why"]) for compiled in compiles] == [(True, "scene wall.glb edited")]
