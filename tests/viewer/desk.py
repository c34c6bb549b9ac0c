"""A window with the viewer's panel in it and nothing else, for tests that use it as a person would.

The window and Dear ImGui are the viewer's own, on an X server without a screen; the picture is a plain colour. Where a control is, is
read from Dear ImGui in passing (`Seen`); what the mouse does there goes through the X server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import moderngl
import numpy as np
import pytest
from imgui_bundle import imgui

from renderer.app.viewer.controls import View
from renderer.app.viewer.editing import Editor
from renderer.app.viewer.overlay import Overlay
from renderer.app.viewer.panel import Panel, PanelActions
from renderer.app.viewer.state import CompileFigure, Figures, KernelFigure, Settings
from renderer.app.viewer.thumbnails import Thumbnails
from renderer.app.viewer.window import Window, load_glfw
from renderer.scene.framing import default_camera
from renderer.scene.importers import load
from renderer.scene.model import Scene
from tests.viewer.xvfb import Screen

PATIENCE = 20.0  # s
GREY = (0.5, 0.5, 0.5)


class Desk:
    """A window with a panel, about a scene."""

    def __init__(self, glfw: Any, screen: Screen, scene: Scene, size: tuple[int, int]) -> None:
        self._screen = screen
        self.window = Window(glfw, "panel", size)
        glfw.set_window_pos(self.window.handle, 0, 0)
        self.window.begin(vsync=False)
        self.context = moderngl.create_context()
        self.overlay = Overlay(self.window)
        self.thumbnails = Thumbnails(self.context)
        self.panel = Panel(self.overlay.fonts, self.thumbnails)
        self.settings, self.figures = Settings(), sample_figures()
        self.editor = Editor(scene)
        self.view = View(scene.cameras[0] if scene.cameras else default_camera(scene), np.zeros(3))
        self.asked: list[PanelActions] = []

    def turn(self, count: int = 1) -> None:
        """So many turns of the loop; what they ask for is kept in `asked`."""
        for _ in range(count):
            self.window.glfw.poll_events()
            self.window.wait(0, self.overlay)
            self.context.screen.use()
            self.context.clear(*GREY)
            self.overlay.begin()
            actions = self.panel.draw(self.settings, self.figures, self.editor, self.view)
            self.overlay.end()
            self.window.swap()
            if actions != PanelActions():
                self.asked.append(actions)

    def until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"still not: {what}"
            self.turn()

    def mouse(self, *what: object) -> None:
        """Words of xdotool, then some turns in which what they did arrives."""
        self._screen.xdotool(*what)
        self.turn(4)

    def to(self, x: float, y: float) -> None:
        """Moves the mouse, and waits until the window knows."""
        self._screen.xdotool("mousemove", round(x), round(y))
        mouse = imgui.get_io().mouse_pos
        self.until(lambda: (mouse.x, mouse.y) == (round(x), round(y)), f"the mouse is at {x}, {y}")
        self.turn(2)

    def pixels(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """uint8[height, width, 3] of what was drawn last."""
        width, height = self.window.framebuffer
        data = self.context.screen.read((0, 0, width, height), 3, alignment=1)
        return np.frombuffer(data, np.uint8).reshape(height, width, 3)[::-1]

    def close(self) -> None:
        self.thumbnails.close()
        self.overlay.close()
        self.context.release()
        self.window.close()


def sample_figures() -> Figures:
    figures = Figures(
        device="a device with a rather long name (of some company, with 256 bits)", driver="Driver 1.2.3", backend="cpu", samples=245,
        window=(640, 480), picture=(640, 480), frames=100, rays_per_s=12.4e6, device_bytes=1 << 27, host_bytes=1 << 29,
        present_path="mapped pixel buffer", present_reason="a reason that takes more than one line of the panel's width", present_ms=0.4,
        usable={"cpu": None, "opengl": None, "cuda": "no driver: libcuda.so.1 was not found"}, warnings=["a warning"],
    )  # fmt: skip
    figures.frame_ms.extend(20.0 + k % 7 for k in range(240))
    figures.kernels = [KernelFigure("trace_and_shade_with_a_long_name_0", 12.25, 256), KernelFigure("tonemap_1", 1.3, 512)]
    figures.compiles = [CompileFigure(12.3, "workgroup 256 -> 512", 1.84, 3)]
    return figures


@pytest.fixture(scope="module")
def glfw(screen: Screen) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISPLAY", screen.display)
        patch.delenv("WAYLAND_DISPLAY", raising=False)
        yield load_glfw


@pytest.fixture
def desks(glfw: Any, screen: Screen, root: Path) -> Iterator[Callable[..., Desk]]:
    """Opens desks, which are closed with the test: `desks((width, height), scene)`, with the scene of a study where none is given."""
    opened: list[Desk] = []

    def open_one(size: tuple[int, int] = (900, 700), scene: Scene | None = None) -> Desk:
        opened.append(Desk(glfw(), screen, scene if scene is not None else load(root / "scenes" / "study.gltf"), size))
        return opened[-1]

    yield open_one
    for desk in opened:
        desk.close()


class Seen:
    """Where Dear ImGui put its controls in the latest turn, by the end of their label: left, top, right, bottom. It calls the real ones."""

    KINDS = (
        "button", "slider_float", "slider_int", "drag_float", "drag_float2", "drag_float3", "combo", "begin_combo", "collapsing_header",
        "selectable", "checkbox", "color_edit3", "tree_node_ex",
    )  # fmt: skip

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.at: dict[str, tuple[float, float, float, float]] = {}
        self.calls: dict[str, int] = {}
        self.texts: list[str] = []
        for kind in self.KINDS:
            patch.setattr(imgui, kind, self._control(kind, getattr(imgui, kind)))
        for kind, place in (("text_unformatted", 0), ("text_colored", 1)):
            patch.setattr(imgui, kind, self._text(place, getattr(imgui, kind)))

    def _control(self, kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def control(label: str, *arguments: Any) -> Any:
            result = real(label, *arguments)
            low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
            self.at[label.rpartition("##")[2].lstrip("#")] = (low.x, low.y, high.x, high.y)
            self.calls[kind] = self.calls.get(kind, 0) + 1
            return result

        return control

    def _text(self, place: int, real: Callable[..., Any]) -> Callable[..., Any]:
        def text(*arguments: Any) -> Any:
            self.texts.append(arguments[place])
            return real(*arguments)

        return text

    def middle(self, name: str) -> tuple[float, float]:
        left, top, right, bottom = self.at[name]
        return (left + right) / 2, (top + bottom) / 2


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(monkeypatch)


def open_all(patch: pytest.MonkeyPatch) -> None:
    """Opens every section of the panel."""
    real = imgui.collapsing_header

    def opened(label: str, flags: int = 0) -> Any:
        imgui.set_next_item_open(True)
        return real(label, flags)

    patch.setattr(imgui, "collapsing_header", opened)


def only_section(name: str, patch: pytest.MonkeyPatch) -> None:
    """Opens this section of the panel and closes all others; the latest call counts."""
    real = getattr(imgui.collapsing_header, "real", imgui.collapsing_header)

    def header(label: str, flags: int = 0) -> Any:
        imgui.set_next_item_open(label.startswith(name))
        return real(label, flags)

    header.real = real  # type: ignore[attr-defined]
    patch.setattr(imgui, "collapsing_header", header)
