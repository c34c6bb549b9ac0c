"""A real window without a screen: the X server Xvfb, the viewer as a process of its own, and a hand for its keys and mouse.

`Screen` starts an Xvfb on a free display; `Screen.view` starts `rayfuse view` there, as a user would, and finds its window. `Viewer`
then presses, drags, resizes, closes and drops files (xdotool, and `x11` for what it cannot), looks at the window's pixels (Pillow's
grab of an X display) and waits: every wait is for something that can be seen or read (`until`), with much patience and never a fixed
sleep, so that a slow machine is only slow. What the viewer said, and a picture of what it showed last, are in the message of a wait
that failed.

Fixtures `screen` (one Xvfb a test run) and `views` (viewers that are ended with the test). Tests that need them skip where Xvfb,
xdotool or the viewer's packages are missing.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageGrab

from tests.viewer import x11

Pixels = NDArray[np.uint8]
T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 90.0  # seconds; a machine under load may need them, a working one does not
STEP = 0.05  # seconds between two looks
NEEDED = {"Xvfb": "xvfb", "xdotool": "xdotool"}  # program -> Debian package
PACKAGES = ("glfw", "moderngl", "imgui_bundle")


def missing() -> str | None:
    """What keeps a window from opening here and how to get it; None where nothing does."""
    programs = [package for program, package in NEEDED.items() if shutil.which(program) is None]
    if programs:
        return f"no {' and no '.join(programs)}: apt-get install {' '.join(programs)} libgl1-mesa-dri"
    if any(importlib.util.find_spec(package) is None for package in PACKAGES):
        return "the viewer's packages are not installed: pip install 'rayfuse[viewer]'"
    return None


class Screen:
    """An X server of our own. `size`: pixels of its screen."""

    def __init__(self, size: tuple[int, int] = (1400, 1000)) -> None:
        width, height = size
        command = ["Xvfb", "-displayfd", "1", "-screen", "0", f"{width}x{height}x24", "+extension", "GLX", "-noreset", "-nolisten", "tcp"]
        self._server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._server.stdout is not None
        number = self._server.stdout.readline().strip()  # an empty line: it has ended
        if not number:
            raise RuntimeError("Xvfb did not start")
        self.display = f":{number}"
        self.env = {**os.environ, "DISPLAY": self.display, "WAYLAND_DISPLAY": "", "PYTHONPATH": str(ROOT)}

    def xdotool(self, *arguments: object) -> str:
        """Runs xdotool; what it printed, empty where it failed."""
        command = ["xdotool", *map(str, arguments)]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=PATIENCE).stdout.strip()

    def view(self, scene: Path, *options: object, env: dict[str, str] | None = None, folder: Path) -> Viewer:
        """Starts `rayfuse view`, with a record in `folder`, where it also runs; waits for nothing."""
        return Viewer(self, scene, options, env or {}, folder)

    def pixels(self) -> Pixels:
        """uint8[height, width, 3]: the whole screen."""
        return np.asarray(ImageGrab.grab(xdisplay=self.display).convert("RGB"))

    def close(self) -> None:
        self._server.terminate()
        self._server.wait(PATIENCE)


class Viewer:
    """A `rayfuse view` that runs, and its window. Places are pixels from the window's upper left corner."""

    def __init__(self, screen: Screen, scene: Path, options: tuple[object, ...], env: dict[str, str], folder: Path) -> None:
        self.screen, self.folder = screen, folder
        self._record = folder / f"record-{time.monotonic_ns()}.json"
        self._said = tempfile.TemporaryFile("w+", dir=folder)  # noqa: SIM115 - lives as long as the process
        arguments = [str(scene), "--record", str(self._record), *map(str, options)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "renderer.app.cli", "view", *arguments],
            env={**screen.env, **env},
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            text=True,
        )
        self._window = ""

    # ---- looking ----

    @property
    def said(self) -> str:
        """What has been written to standard error so far."""
        self._said.seek(0)
        return self._said.read()

    @property
    def window(self) -> str:
        """The number of the window, once it is there."""
        if not self._window:
            self._window = self.until(self._find, "a window opens")
        return self._window

    def _find(self) -> str:
        return self.screen.xdotool("search", "--onlyvisible", "--pid", self.process.pid, "--name", "rayfuse").partition("\n")[0]

    @property
    def title(self) -> str:
        """The window's title."""
        return self.screen.xdotool("getwindowname", self.window)

    def place(self) -> tuple[int, int, int, int]:
        """Left, top, width, height of the window on the screen."""
        told = dict(line.split("=") for line in self.screen.xdotool("getwindowgeometry", "--shell", self.window).splitlines())
        if "X" not in told:
            pytest.fail(f"the viewer has no window any more\n{self.said}")
        return int(told["X"]), int(told["Y"]), int(told["WIDTH"]), int(told["HEIGHT"])

    def pixels(self) -> Pixels:
        """uint8[height, width, 3]: what the window shows."""
        left, top, width, height = self.place()
        return self.screen.pixels()[top : top + height, left : left + width]

    def until(self, condition: Callable[[], T], what: str, patience: float = PATIENCE) -> T:
        """Waits until the condition holds (is true), and returns what it gave. Fails where the viewer ends or the patience does."""
        deadline = time.monotonic() + patience
        while True:
            found = condition()
            if found:
                return found
            if self.process.poll() is not None:
                pytest.fail(f"the viewer ended with {self.process.returncode} before: {what}\n{self.said}")
            if time.monotonic() > deadline:
                pytest.fail(f"after {patience:g} s still not: {what}\n{self.said}\n{self._last_picture()}")
            time.sleep(STEP)

    def until_still(self, tolerance: float = 1.0, looks: int = 4) -> Pixels:
        """Waits until the window's pixels differ by less than this on average (of 255) over so many looks; the last of them."""
        seen: list[Pixels] = []

        def still() -> bool:
            seen.append(self.pixels())
            del seen[:-looks]
            return len(seen) == looks and all(p.shape == seen[0].shape and difference(p, seen[0]) < tolerance for p in seen)

        self.until(still, "the picture comes to rest")
        return seen[-1]

    def _last_picture(self) -> str:
        file = Path(tempfile.gettempdir()) / f"rayfuse-viewer-{self.process.pid}.png"
        Image.fromarray(self.screen.pixels()).save(file)
        return f"what was on the screen: {file}"

    # ---- doing ----

    def key(self, *names: str) -> None:
        """Presses and releases keys by their X names (bracketright, F1, Escape, ctrl+z), one after the other."""
        self.screen.xdotool("windowfocus", "--sync", self.window, *(part for name in names for part in ("key", name)))

    def drag(self, start: tuple[int, int], end: tuple[int, int], *, button: int = 1, steps: int = 12) -> None:
        """Presses a mouse button, moves in steps, releases."""
        left, top, _, _ = self.place()
        points = np.linspace(start, end, steps + 1).round().astype(int) + np.array((left, top))
        moves: list[object] = [part for x, y in points for part in ("mousemove", x, y)]
        first, rest = moves[:3], moves[3:]
        self.screen.xdotool("windowfocus", "--sync", self.window, *first, "mousedown", button, *rest, "mouseup", button)

    def point(self, at: tuple[int, int]) -> None:
        """Moves the mouse there and waits until the window has taken note, as far as that can be seen."""
        left, top, _, _ = self.place()
        self.screen.xdotool("mousemove", at[0] + left, at[1] + top)
        self.until_still()

    def click(self, at: tuple[int, int], *, button: int = 1, times: int = 1) -> None:
        """Clicks; buttons 4 and 5 turn the wheel up and down."""
        left, top, _, _ = self.place()
        self.screen.xdotool("mousemove", at[0] + left, at[1] + top, "click", "--repeat", times, "--delay", 60, button)

    def resize(self, width: int, height: int) -> None:
        """Gives the window another size, and waits until the server has it."""
        self.screen.xdotool("windowsize", self.window, width, height)
        self.until(lambda: self.place()[2:] == (width, height), f"the window is {width} x {height}")

    def close(self) -> None:
        """What a window manager does when the cross is clicked."""
        x11.close(self.screen.display, int(self.window))

    def drop(self, file: Path) -> None:
        """Drops a file on the middle of the window."""
        left, top, width, height = self.place()
        x11.drop(self.screen.display, int(self.window), (left + width // 2, top + height // 2), file)

    def wait(self, patience: float = PATIENCE) -> int:
        """Waits for the viewer's end; its exit code."""
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the viewer did not end within {patience:g} s\n{self.said}")

    def record(self) -> dict[str, Any]:
        """The record that was written at the end."""
        read: dict[str, Any] = json.loads(self._record.read_text())
        return read

    def end(self) -> None:
        """Ends the process, whatever it does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(PATIENCE)
        self._said.close()


def difference(one: Pixels, other: Pixels) -> float:
    """Mean absolute difference of two pictures of one size, of 255."""
    return float(np.abs(one.astype(np.int16) - other.astype(np.int16)).mean())


@pytest.fixture(scope="session")
def screen() -> Iterator[Screen]:
    """An X server for the whole run."""
    lacking = missing()
    if lacking:
        pytest.skip(lacking)
    opened = Screen()
    yield opened
    opened.close()


Views = Callable[..., Viewer]


@pytest.fixture
def views(screen: Screen, tmp_path: Path) -> Iterator[Views]:
    """Starts viewers, which end with the test: `views(scene, *options, env=...)`."""
    started: list[Viewer] = []

    def start(scene: Path, *options: object, env: dict[str, str] | None = None) -> Viewer:
        started.append(screen.view(scene, *options, env=env, folder=tmp_path))
        return started[-1]

    yield start
    for viewer in started:
        viewer.end()
