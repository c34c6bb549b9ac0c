"""The viewer under a Wayland compositor, with no X server to fall back on (C41).

The compositor is Weston, shown in a window of the X server that the other tests have (which is how it comes to a keyboard and a mouse);
the viewer is not told of that X server. What Wayland does not let a program do, such as to place its window, is passed over in silence.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.viewer.test_end_to_end import SCENES, values
from tests.viewer.xvfb import PATIENCE, ROOT, Screen, Viewer

SECONDS = float(os.environ.get("RAYFUSE_WAYLAND_SECONDS", "0"))  # that it goes on before its end: 60 is the case as it was told
SOCKET = "rayfuse-test"


@pytest.fixture(scope="module")
def wayland(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Screen]:
    """An X server on which Weston runs; `env` is that of its clients."""
    if shutil.which("weston") is None:
        pytest.skip("no weston: apt-get install weston")
    for program in ("Xvfb", "xdotool"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program}: apt-get install xvfb xdotool")
    folder = tmp_path_factory.mktemp("wayland")
    folder.chmod(0o700)
    screen = Screen()
    options = ["--backend=x11-backend.so", "--use-pixman", "--shell=kiosk-shell.so", "--idle-time=0", "--width=800", "--height=600"]
    env = {**screen.env, "XDG_RUNTIME_DIR": str(folder)}
    log = folder / "weston.log"
    weston = subprocess.Popen(["weston", f"--socket={SOCKET}", f"--log={log}", *options], env=env, stderr=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE
    while not (folder / SOCKET).exists():
        assert weston.poll() is None and time.monotonic() < until, log.read_text() if log.exists() else "no log"
        time.sleep(0.05)
    x11 = screen.env
    screen.env = {**env, "WAYLAND_DISPLAY": SOCKET, "DISPLAY": ""}
    yield screen
    screen.env = x11
    weston.terminate()
    weston.wait(PATIENCE)
    screen.close()


def press(screen: Screen, *arguments: object) -> None:
    """A hand on the X server's keyboard and mouse, which are Weston's."""
    command = ["xdotool", *map(str, arguments)]
    subprocess.run(command, env={**screen.env, "DISPLAY": screen.display}, timeout=PATIENCE, check=True)


def test_it_shows_a_scene_hears_hands_and_says_nothing(wayland: Screen, tmp_path: Path) -> None:
    options = ("--backend", "cpu", "--size", 320, 240, "--screenshot", tmp_path / "last.png")
    viewer: Viewer = wayland.view(SCENES / "cornell.gltf", *options, folder=tmp_path)
    try:
        viewer.until(lambda: np.ptp(wayland.pixels()[100:500, 100:700, 0]) > 100, "the box is shown")
        press(wayland, "mousemove", 400, 300, "click", 1)
        for keys in (("F1",), ("F11",), ("F11",), ("r",)):
            press(wayland, "key", *keys)
        time.sleep(SECONDS)
        viewer.until(lambda: _at_rest(wayland), "the picture comes to rest")
        press(wayland, "key", "Escape")
        assert viewer.wait() == 0, viewer.said
        assert viewer.said == "", "not a word of what the platform lacks"
        record = viewer.record()
    finally:
        viewer.end()
    assert values(record, "close") == ["escape"] and values(record, "key")[:2] == ["panel", "full screen"]
    assert record["samples_accumulated"] > 0 and (tmp_path / "last.png").stat().st_size > 1000


def _at_rest(screen: Screen) -> bool:
    before = screen.pixels().astype(int)
    time.sleep(0.3)
    return bool(np.abs(screen.pixels() - before).mean() < 2.0)


@pytest.mark.parametrize("env", [{"WAYLAND_DISPLAY": "nowhere"}, {"WAYLAND_DISPLAY": "nowhere", "XDG_RUNTIME_DIR": ""}])
def test_a_compositor_that_is_not_there_is_one_line(env: dict[str, str], cornell: Path) -> None:
    pytest.importorskip("imgui_bundle", reason="the viewer's packages are not installed: pip install 'rayfuse[viewer]'")
    command = [sys.executable, "-m", "renderer.app.cli", "view", str(cornell)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DISPLAY": "", **env}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment)
    assert done.returncode == 3 and done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("rayfuse: error: no display: ") and "rayfuse render" in done.stderr
