"""What the viewer's parts share: what the user has set, and what the window shows of the machine's work.

`Settings` is written by the panel and the keys, and read by the loop once a turn: it compares with what the renderer was told last, and
tells it the difference. Whether that is a parameter (taken up by the next frame) or a matter of structure (a new session is built in
the background) is the loop's business and nobody else's. `Figures` goes the other way: written by the loop, read by the panel. Neither
knows of GLFW, OpenGL or a thread, so both can be made and looked at in tests.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from renderer.shading.material_rows import Look

HISTORY = 240  # frames in the graph of frame times


@dataclass
class Settings:
    """What the user may change while the viewer runs. None: left to the device."""

    backend: str = "auto"
    workgroup: int | None = None
    depth: int = 8
    spp: int = 1  # samples a pixel a frame
    render_scale: float = 1.0  # of the framebuffer's size, at rest
    target_ms: float | None = 33.0  # while the camera moves the scale is lowered to keep this; None: never
    accumulate: bool = True
    max_samples: int = 0  # the picture is finished at so many; 0: goes on for ever
    exposure: float = 0.0  # stops: radiance is multiplied by 2 to this power
    tonemapper: str = "filmic"
    camera: int = 0  # in the scene's list; len(list): the default one
    show_panel: bool = True
    vsync: bool = True
    gizmo: str = "translate"  # "translate" | "rotate" | "scale"


@dataclass
class Progress:
    """How far the building of a session is; `steps`: what has been done, with its seconds."""

    label: str = ""
    fraction: float = 0.0
    steps: list[tuple[str, float]] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True)
class KernelFigure:
    """A kernel of the frame: its time in ms, its workgroup."""

    name: str
    ms: float
    workgroup: int


@dataclass(frozen=True)
class CompileFigure:
    """A session built in the background: when (seconds since the window opened), why, how long it took, how many kernels were new."""

    at_s: float
    why: str
    seconds: float
    kernels: int


@dataclass
class Figures:
    """What the panel shows. Times in ms, sizes in pixels, memory in bytes; None where a figure cannot be had."""

    device: str = ""
    driver: str = ""
    backend: str = ""
    software: bool = False
    window: tuple[int, int] = (0, 0)  # framebuffer
    picture: tuple[int, int] = (0, 0)  # what is rendered
    samples: int = 0
    frames: int = 0
    frame_ms: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    kernels: list[KernelFigure] = field(default_factory=list)
    rays_per_s: float | None = None
    compiles: list[CompileFigure] = field(default_factory=list)
    device_bytes: int | None = None
    host_bytes: int | None = None
    present_path: str = ""
    present_reason: str = ""
    present_ms: float | None = None
    nonfinite: int = 0
    triangles: int = 0
    instances: int = 0
    lights: int = 0
    usable: dict[str, str | None] = field(default_factory=dict)  # backend -> None, or why it cannot be used
    warnings: list[str] = field(default_factory=list)
    message: str = ""  # a notice at the edge of the window, for some seconds
    error: str = ""  # stays until what caused it is mended (a scene or a shading module that does not load)
    building: Progress | None = None  # a session on its way; the old picture stays meanwhile
    look: Look | None = None  # what the kernels that draw know of materials
