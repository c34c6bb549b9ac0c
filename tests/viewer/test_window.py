"""A display that cannot show the viewer is told of in one line, with what to do instead; what needs no display asks for none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from renderer.app import cli
from renderer.app.viewer.window import DisplayError
from tests.viewer.xvfb import ROOT, Screen, Views

HEADLESS = ("rayfuse render", "rayfuse bench")
GRAPHICS = ("glfw", "moderngl", "glcontext", "imgui_bundle", "pyopencl", "watchfiles")


def refused(scene: Path, env: dict[str, str], *options: str) -> str:
    """The one line with which `rayfuse view` ends, by exit code 3."""
    done = subprocess.run(
        [sys.executable, "-m", "renderer.app.cli", "view", str(scene), *options],
        capture_output=True, text=True, timeout=120, cwd=ROOT, env={**os.environ, "WAYLAND_DISPLAY": "", **env},
    )  # fmt: skip
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 3 and len(lines) == 1 and not done.stdout, done
    return lines[0]


def without(folder: Path, *packages: str) -> dict[str, str]:
    """An environment in which these packages cannot be imported."""
    for package in packages:
        (folder / f"{package}.py").write_text(f"raise ModuleNotFoundError(\"No module named '{package}'\")\n")
    return {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}


def test_a_display_that_is_not_there(cornell: Path) -> None:
    pytest.importorskip("glfw", reason="the viewer's packages are not installed: pip install 'rayfuse[viewer]'")
    line = refused(cornell, {"DISPLAY": ":31999"})
    assert "no display" in line and ":31999" in line and all(command in line for command in HEADLESS)


def test_the_scene_is_not_read_before_there_is_a_display(tmp_path: Path) -> None:
    assert "no display" in refused(tmp_path / "there is none.glb", {"DISPLAY": ""})


@pytest.mark.parametrize("package", ["imgui_bundle", "moderngl", "glfw"])
def test_packages_that_are_missing(cornell: Path, tmp_path: Path, package: str) -> None:
    line = refused(cornell, {"DISPLAY": ":31999", **without(tmp_path, package)})
    assert f"No module named '{package}'" in line and "pip install 'rayfuse[viewer]'" in line
    assert all(command in line for command in HEADLESS)


def test_an_opengl_that_is_too_old_is_named(screen: Screen, cornell: Path) -> None:
    line = refused(cornell, {**screen.env, "MESA_GL_VERSION_OVERRIDE": "3.0"})
    assert "needs OpenGL 3.3" in line and "this display has OpenGL 3.0" in line and all(command in line for command in HEADLESS)


def test_an_opengl_without_compute_shaders_has_no_opengl_backend(screen: Screen, cornell: Path) -> None:
    line = refused(cornell, {**screen.env, "MESA_GL_VERSION_OVERRIDE": "4.1"}, "--backend", "opengl")
    assert "OpenGL 4.3 is needed" in line and "4.1" in line and "--backend cpu" in line


def test_an_old_opengl_shows_the_other_backends(views: Views, cornell: Path) -> None:
    env = {"MESA_GL_VERSION_OVERRIDE": "3.3", "MESA_EXTENSION_OVERRIDE": "-GL_ARB_buffer_storage"}
    viewer = views(cornell, "--size", 160, 120, "--backend", "cpu", "--screenshot", "shot.png", env=env)
    viewer.until(lambda: "cpu" in viewer.title, "a picture is shown")
    viewer.key("Escape")
    assert viewer.wait() == 0, viewer.said
    record = viewer.record()
    assert record["present"]["path"] == "copied" and "older than 4.4" in record["present"]["reason"]
    assert record["samples_accumulated"] > 0 and (viewer.folder / "shot.png").stat().st_size > 1000


LIFE = """
import threading
from renderer.app.viewer.window import Window, load_glfw

def fails():
    raise ZeroDivisionError("on the main thread")

window = Window(load_glfw(), "a window", (200, 150))

def life():
    window.begin(vsync=False)
    try:
        window._ask(fails)
    except ZeroDivisionError as error:
        print("answered:", error)
    window.on_main(fails)
    while not window.should_close:
        window.wait(0.01)
    window.finish()

thread = threading.Thread(target=life, daemon=True)
thread.start()
try:
    window.pump(lambda: None)
except ZeroDivisionError as error:
    thread.join()
    print("raised:", error)
window.close()
"""


def test_what_goes_wrong_on_the_main_thread_leaves_nobody_waiting(screen: Screen) -> None:
    done = subprocess.run([sys.executable, "-c", LIFE], capture_output=True, text=True, timeout=120, env=screen.env)
    assert done.stdout.splitlines() == ["answered: on the main thread", "raised: on the main thread"], done.stderr
    assert done.returncode == 0 and not done.stderr


def test_a_lost_context_ends_the_viewer_by_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("imgui_bundle", reason="the viewer's packages are not installed: pip install 'rayfuse[viewer]'")
    from renderer.app.viewer.app import CONTEXT_LOST

    assert cli.report(DisplayError(CONTEXT_LOST)) == 3
    said = capsys.readouterr().err
    assert "context is lost" in said and "start the viewer again" in said


def test_commands_without_a_window_import_nothing_of_graphics(cornell: Path, tmp_path: Path) -> None:
    env = {**os.environ, "DISPLAY": "", "WAYLAND_DISPLAY": "", **without(tmp_path, *GRAPHICS)}
    picture = tmp_path / "picture.png"
    for command in (
        ["render", str(cornell), "-o", str(picture), "--size", "16", "16", "--spp", "1", "--backend", "cpu"],
        ["bench", str(cornell), "--size", "16", "16", "--frames", "1", "--warmup", "0", "--backend", "cpu", "--json", "-"],
        ["view", "--help"],
    ):
        called = [sys.executable, "-m", "renderer.app.cli", *command]
        done = subprocess.run(called, capture_output=True, text=True, timeout=120, cwd=ROOT, env=env)
        assert done.returncode == 0, done.stderr
    assert picture.exists()
