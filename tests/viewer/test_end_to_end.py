"""The viewer as its user has it: a real window, keys, mouse and files; what it shows is looked at, what it did is read in its record.

Each test is one life of the viewer with several statements about it, since starting one costs more than all that happens in it. What
is shown is compared with pictures of our own scenes (goldens/), as means over small squares: so few samples suffice, and any device's
noise is as good as another's. (Fewer are needed for the box than for the gallery, whose noise the tone mapper makes darker, and which is
shown smaller to have them soon.) `python -m tests.viewer.test_end_to_end` makes the goldens anew; look at them before they are committed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from renderer.scene.gltf import load
from renderer.scene.model import Camera, Perspective
from tests.viewer.xvfb import PATIENCE, ROOT, Pixels, Screen, Viewer, Views

SCENES = ROOT / "scenes"
GOLDENS = Path(__file__).parent / "goldens"
WIDTH, HEIGHT = 320, 240
SIZES = {"cornell": (WIDTH, HEIGHT), "gallery": (160, 120)}  # of the goldens
SQUARE = 8  # pixels a side
ALIKE = 3.0  # mean difference of squares, of 255, below which two pictures of many samples are the same
ROUGHLY = 8.0  # and of some samples
ENOUGH = 64  # samples a pixel for that
OTHER = 8.0  # and above which they are different ones


def squares(pixels: Pixels) -> NDArray[np.float64]:
    """Means over squares of pixels."""
    height, width = (length // SQUARE * SQUARE for length in pixels.shape[:2])
    return pixels[:height, :width].reshape(height // SQUARE, SQUARE, width // SQUARE, SQUARE, 3).mean((1, 3))


def unlike(one: Pixels, other: Pixels) -> float:
    """How different two pictures are, in 1/255; infinite where their sizes are."""
    return float(np.abs(squares(one) - squares(other)).mean()) if one.shape == other.shape else np.inf


def golden(name: str) -> Pixels:
    return np.asarray(Image.open(GOLDENS / f"{name}.png").convert("RGB"))


def until_shown(viewer: Viewer, picture: Pixels, what: str, alike: float = ALIKE) -> None:
    """Waits until the window shows this picture, over all of it."""
    viewer.until(lambda: unlike(viewer.pixels(), picture) < alike, f"the window shows {what}")


def until_other(viewer: Viewer, picture: Pixels, what: str) -> None:
    """Waits until the window shows something else than this picture."""
    viewer.until(lambda: unlike(viewer.pixels(), picture) > OTHER, what)


def bare(views: Views, scene: Path, *options: object, env: dict[str, str] | None = None) -> Viewer:
    """A small viewer whose panel is hidden, as soon as it has a window."""
    viewer = views(scene, "--size", WIDTH, HEIGHT, *options, env=env)
    viewer.key("F1")
    return viewer


def values(record: dict[str, Any], kind: str) -> list[Any]:
    """What events of a kind there were."""
    return [event["value"] for event in record["events"] if event["kind"] == kind]


@pytest.mark.parametrize("backend", ["cpu", "opengl", "opencl"])
def test_a_backend_shows_the_right_pictures_and_builds_in_the_background(views: Views, backend: str) -> None:
    viewer = bare(views, SCENES / "cornell.gltf", "--backend", backend)
    until_shown(viewer, golden("cornell"), "the box")
    for key, lanes in (("bracketright", 512), ("bracketleft", 256)):
        viewer.key(key)
        viewer.until(lambda lanes=lanes: f"{backend} {lanes}" in viewer.title, f"workgroup {lanes} is taken up")
    viewer.resize(*SIZES["gallery"])
    viewer.drop(SCENES / "gallery.gltf")
    until_shown(viewer, golden("gallery"), "the gallery, which was dropped on it", ROUGHLY)
    viewer.key("Escape")
    assert viewer.wait() == 0, viewer.said
    record = viewer.record()
    assert record["device"]["backend"] == backend
    assert values(record, "workgroup") == [512, 256]
    assert values(record, "open") == [str(SCENES / "gallery.gltf")]
    assert len(record["compiles"]) == 3 and all(compiled["background"] for compiled in record["compiles"])
    assert record["samples_accumulated"] > 4 and record["frames"] > 4
    assert record["frame_ms"]["median"] > 0 and record["present_ms"]["median"] > 0
    assert record["present"]["path"] and (record["present"]["reason"] or backend != "opencl")  # which is copied here, and says why
    assert values(record, "close") == ["escape"]
    assert viewer.said.count("software device") <= 1, "what is to be known of a device is said once"


def test_the_picture_follows_hands_and_sizes_without_new_code(views: Views) -> None:
    viewer = bare(views, SCENES / "cornell.gltf", "--backend", "cpu")
    home = golden("cornell")
    until_shown(viewer, home, "the box")
    viewer.drag((160, 120), (220, 150))
    until_other(viewer, home, "a drag turns the camera")
    viewer.key("r")
    until_shown(viewer, home, "the first picture again after R")
    viewer.drag((160, 120), (220, 150), button=2)
    until_other(viewer, home, "a drag of the middle button moves the camera")
    viewer.key("f")
    viewer.key("r")
    viewer.click((160, 120), button=5, times=6)
    until_other(viewer, home, "the wheel zooms out")
    viewer.key("r")
    until_shown(viewer, home, "the first picture again")
    viewer.key("F1")
    until_other(viewer, home, "F1 shows the panel")
    viewer.key("F1")
    until_shown(viewer, home, "the picture without the panel")
    for width, height in ((480, 240), (200, 360), (480, 480), (WIDTH, HEIGHT)):
        viewer.resize(width, height)
        viewer.until(lambda width=width, height=height: viewer.pixels().shape == (height, width, 3), "the size is taken up")
    until_shown(viewer, home, "the picture in its first size")
    viewer.close()
    assert viewer.wait() == 0, viewer.said
    record = viewer.record()
    assert [WIDTH, HEIGHT] in values(record, "resize") and [200, 360] in values(record, "resize")
    assert record["compiles"] == [] and record["samples_accumulated"] > 1
    assert values(record, "close") == ["window"]


def test_an_object_is_moved_by_its_handles_and_moved_back_by_undo(views: Views, cornell: Path) -> None:
    from renderer.app.viewer.gizmo import pivot

    scene = load(cornell)
    (box,) = (instance for instance in scene.instances if instance.name == "large-box")
    corners = scene.meshes[box.mesh].geometries[0].positions
    middle, (x, y) = (in_window(scene.cameras[0], at) for at in ((corners.min(0) + corners.max(0)) / 2, pivot(scene, box.mesh)))
    viewer = bare(views, cornell, "--backend", "cpu")
    home = golden("cornell")
    until_shown(viewer, home, "the box")
    viewer.click(middle)
    handles = (slice(y - 16, y + 16), slice(x - 16, x + 16))
    viewer.until(lambda: unlike(viewer.pixels()[handles], home[handles]) > OTHER, "the large box has handles")
    viewer.point((x, y))
    viewer.drag((x, y), (x + 60, y))
    outside = (4, HEIGHT // 2)
    viewer.point(outside)
    viewer.click(outside)  # the handles go
    moved = viewer.until_still()
    assert unlike(moved, home) > OTHER, "the large box stands where it was dragged"
    viewer.key("ctrl+z")
    until_shown(viewer, home, "the large box where it was")
    viewer.key("ctrl+y")
    until_shown(viewer, moved, "the large box where it was dragged")
    viewer.key("Escape")
    assert viewer.wait() == 0, viewer.said
    record = viewer.record()
    assert record["compiles"] == [] and len(values(record, "edit")) >= 3


def in_window(camera: Camera, point: NDArray[Any]) -> tuple[int, int]:
    """The pixel where a point of the world is seen, with the window's first size."""
    assert isinstance(camera.projection, Perspective)
    x, y, z, _ = np.linalg.inv(camera.world) @ (*point.tolist(), 1.0)
    scale = HEIGHT / 2 / np.tan(camera.projection.yfov / 2) / -z
    return round(WIDTH / 2 + x * scale), round(HEIGHT / 2 - y * scale)


def test_a_scene_that_is_edited_is_shown_anew_and_a_broken_one_is_not(views: Views, tmp_path: Path) -> None:
    scene = tmp_path / "room.gltf"
    text = (SCENES / "cornell.gltf").read_text()
    scene.write_text(text)
    viewer = bare(views, scene, "--backend", "cpu")
    home = golden("cornell")
    until_shown(viewer, home, "the box")
    told = json.loads(text)
    for material in told["materials"]:
        surface = material.setdefault("pbrMetallicRoughness", {})
        surface["baseColorFactor"] = [0.05, 0.1, 0.8, 1.0]
    beside = tmp_path / "new"
    beside.write_text(json.dumps(told))
    beside.replace(scene)
    viewer.until(lambda: viewer.pixels()[60:180].mean((0, 1)).argmax() == 2, "the box is blue")
    blue = viewer.until_still()
    scene.write_text(text[: len(text) // 2])
    viewer.until(lambda: has_error(viewer.pixels()), "an error is told")
    assert unlike(viewer.pixels()[:120], blue[:120]) < ALIKE, "the old picture stays"
    scene.write_text(text)
    until_shown(viewer, home, "the box as it was, and no error")
    viewer.key("Escape")
    assert viewer.wait() == 0, viewer.said
    record = viewer.record()
    assert len(values(record, "reload")) >= 3
    assert all(compiled["background"] for compiled in record["compiles"])


def has_error(pixels: Pixels) -> bool:
    """Whether the line that stands for an error is at the window's lower edge: light red letters."""
    red, green, blue = (pixels[-60:, :, channel].astype(int) for channel in range(3))
    return int(((red > 180) & (green < 150) & (blue < 150) & (red - green > 60)).sum()) > 40


PLAIN = """
from renderer.shading.bsdf import Lambert, Surface

def make_bsdf(surface: Surface) -> Lambert:
    return Lambert(surface.albedo)
"""
FLOOR = (slice(205, 230), slice(70, 150))  # where it is seen from the first camera


def snow() -> str:
    """The module of the manual."""
    (block,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "viewer.md").read_text(), re.MULTILINE | re.DOTALL)
    return str(block)


def test_a_shading_module_that_is_edited_is_taken_up_and_a_faulty_one_is_told_of(views: Views, tmp_path: Path) -> None:
    module = tmp_path / "shading.py"
    module.write_text(PLAIN)
    viewer = bare(views, SCENES / "cornell.gltf", "--backend", "cpu", "--material", module)
    home = golden("cornell")
    until_shown(viewer, home, "the box")
    blue = snow().replace("Vec3(0.85, 0.9, 0.95)", "Vec3(0.05, 0.1, 0.9)")
    assert blue != snow()
    module.write_text(blue)
    viewer.until(lambda: viewer.pixels()[FLOOR].mean((0, 1)).argmax() == 2, "blue snow lies on the floor")
    snowy = viewer.until_still()
    module.write_text(blue.replace("surface.albedo", "surface.albedoo"))
    viewer.until(lambda: has_error(viewer.pixels()), "the module's mistake is told")
    assert unlike(viewer.pixels()[:120], snowy[:120]) < ALIKE, "the old picture stays"
    module.write_text(PLAIN)
    until_shown(viewer, home, "the box as it was, and no error")
    viewer.key("Escape")
    assert viewer.wait() == 0, viewer.said
    assert all("shading" in compiled["why"] for compiled in viewer.record()["compiles"])


def test_the_window_closes_at_once_while_the_first_picture_is_prepared(views: Views, tmp_path: Path) -> None:
    taken = []
    while not taken or (taken[-1] >= 2.0 and len(taken) < 3):  # others may have the processors for a moment, but not each time
        cache = {"XDG_CACHE_HOME": str(tmp_path / f"cache-{len(taken)}")}  # an empty one: everything has to be compiled
        viewer = views(SCENES / "gallery.gltf", "--backend", "opengl", env=cache)
        viewer.until(lambda viewer=viewer: processor_seconds(viewer.process.pid) > 1.0, "it is at work")
        assert viewer.window
        started = time.monotonic()
        viewer.close()
        assert viewer.wait() == 0, viewer.said
        taken.append(time.monotonic() - started)
    assert min(taken) < 2.0, taken
    record = viewer.record()
    assert record["warmup"]["seconds"] > 0 and values(record, "close") == ["window"]


def test_a_key_that_is_pressed_before_there_is_a_picture_is_heard(views: Views, tmp_path: Path) -> None:
    viewer = views(SCENES / "gallery.gltf", "--backend", "cpu", env={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    viewer.key("Escape")
    assert viewer.wait() == 0, viewer.said
    record = viewer.record()
    assert values(record, "close") == ["escape"]
    assert record["frames"] == 0 and record["frame_ms"] is None and record["device"] is None


def test_an_interrupt_is_a_wish_to_close(views: Views, tmp_path: Path) -> None:
    viewer = bare(views, SCENES / "cornell.gltf", "--backend", "cpu")
    viewer.process.send_signal(signal.SIGINT)  # whatever it is at
    assert viewer.wait() == 0 and not viewer.said
    assert values(viewer.record(), "close") == ["window"]


def test_a_broken_file_that_is_dropped_before_there_is_a_picture_is_not_the_end(views: Views, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gltf"
    broken.write_text("{")
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    viewer = views(SCENES / "gallery.gltf", "--size", WIDTH, HEIGHT, "--backend", "cpu", env=cache)
    viewer.drop(broken)
    viewer.until(lambda: "gallery.gltf — cpu" in viewer.title, "the scene that was asked for is shown")
    viewer.key("Escape")
    assert viewer.wait() == 0, viewer.said
    assert values(viewer.record(), "open") == [str(broken)]


def processor_seconds(process: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_the_viewer_ends_by_itself_and_leaves_a_picture(views: Views, tmp_path: Path) -> None:
    shot = tmp_path / "shot.png"
    for seconds in (6, 30, 90):  # a slow machine gets more
        viewer = bare(views, SCENES / "cornell.gltf", "--backend", "cpu", "--exit-after", seconds, "--screenshot", shot)
        assert viewer.wait(2 * PATIENCE) == 0, viewer.said
        if viewer.record()["samples_accumulated"] > ENOUGH:
            break
    assert unlike(np.asarray(Image.open(shot).convert("RGB")), golden("cornell")) < ALIKE
    assert values(viewer.record(), "close") == ["exit-after"]


def view(*arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs `rayfuse view` where no window is to be expected."""
    command = [sys.executable, "-m", "renderer.app.cli", "view", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment)


def test_without_a_display_the_ways_without_a_window_are_named(cornell: Path) -> None:
    done = view(cornell, DISPLAY="", WAYLAND_DISPLAY="")
    assert done.returncode == 3 and done.stdout == ""
    assert done.stderr.startswith("rayfuse: error: no display") and "rayfuse render" in done.stderr and done.stderr.count("\n") == 1


def test_a_record_that_could_not_be_written_is_refused_before_the_window_opens(screen: Screen, cornell: Path, tmp_path: Path) -> None:
    done = view(cornell, "--record", tmp_path / "nowhere" / "record.json", DISPLAY=screen.display)
    assert done.returncode == 2 and "there is no folder" in done.stderr and done.stderr.count("\n") == 1


def test_a_scene_that_is_broken_from_the_start_ends_the_viewer(views: Views, tmp_path: Path) -> None:
    scene = tmp_path / "broken.gltf"
    scene.write_text("{")
    viewer = views(scene, "--size", WIDTH, HEIGHT, "--backend", "cpu")
    assert viewer.wait() == 2
    assert "broken.gltf" in viewer.said and viewer.said.count("\n") == 1


def make_goldens() -> None:
    """Renders the pictures, without a window and with many samples."""
    GOLDENS.mkdir(exist_ok=True)
    for name, size in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "picture.png"
            options = ("--size", *map(str, size), "--spp", "1024", "--backend", "cpu", "--quiet", "-o", str(file))
            command = [sys.executable, "-m", "renderer.app.cli", "render", str(SCENES / f"{name}.gltf"), *options]
            subprocess.run(command, check=True, cwd=ROOT)
            Image.open(file).convert("RGB").save(GOLDENS / f"{name}.png", optimize=True)


if __name__ == "__main__":
    make_goldens()
