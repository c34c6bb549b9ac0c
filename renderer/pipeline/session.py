"""A scene on a device, ready to draw: owns the device's buffers and the jitted frame.

What the commands (and later the viewer) work with. Parameters (camera, seed, exposure) are plain values handed to the frame at each
call; nothing here knows a backend or a kernel's inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine import Device, DeviceError, open_device
from engine.runtime import events
from renderer.pipeline.camera import CameraData, camera_data
from renderer.pipeline.film import Film
from renderer.pipeline.frame import FrameSettings, make_frame
from renderer.scene.model import Camera, Scene, SceneError, default_camera
from renderer.scene.upload import upload

_TIMED_FRAMES = 3  # runs for the times of single kernels


@dataclass(frozen=True)
class KernelTime:
    """One kernel of the frame: how often it is launched, its time in ms, and what the compiler says of it (None where it does not)."""

    name: str
    launches_per_frame: int
    median_ms: float
    workgroup: int
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None


@dataclass
class DeviceFacts:
    """What is known of the device, and the bytes that the session holds there."""

    backend: str
    name: str
    driver: str | None
    compute_units: int | None
    group_width: int | None
    memory_bytes: int | None
    software: bool
    bytes_allocated: int | None


@dataclass(frozen=True)
class Counters:
    """Monotone counts since the session began."""

    kernels: int
    cache_hits: int
    cache_misses: int
    compiles: int
    allocations: int


def pick_camera(scene: Scene, wanted: int | str | None) -> Camera:
    """The camera of this name or number; the first where none is named, one that frames the scene where there is none.

    Raises SceneError for a camera that the scene does not have.
    """
    if wanted is None:
        return scene.cameras[0] if scene.cameras else default_camera(scene)
    if isinstance(wanted, int) or str(wanted).lstrip("-").isdigit():
        number = int(wanted)
        if 0 <= number < len(scene.cameras):
            return scene.cameras[number]
    for camera in scene.cameras:
        if camera.name == str(wanted):
            return camera
    names = ", ".join(f"{k} ({c.name})" if c.name else str(k) for k, c in enumerate(scene.cameras)) or "none"
    raise SceneError(f"{scene.path}: there is no camera {wanted!r}; the scene's cameras: {names}")


class Session:
    """One scene on one device. Building it builds the BVH, uploads, traces and compiles; `frame` draws.

    Raises DeviceError (unusable backend), SceneError (nothing to draw, unknown camera), MemoryError.
    """

    def __init__(
        self,
        scene: Scene,
        *,
        width: int,
        height: int,
        backend: str = "auto",
        spp: int = 1,
        depth: int = 8,
        seed: int = 0,
        camera: int | str | None = None,
        workgroup: int | None = None,
        threads: int | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> None:
        say = progress or (lambda label, fraction: None)
        self.scene, self.seed, self.spp = scene, seed, spp
        self.camera = pick_camera(scene, camera)
        self.width, self.height = width, height
        self._engine = open_device(backend, threads=threads)
        self._start = events.counters.copy()
        say("building the tree", 0.1)
        self._uploaded = upload(scene, group=self._engine.group_width)
        if self._uploaded.dropped:
            events.record("warning", message=f"{self._uploaded.dropped} triangles without extent (or not finite) are left out")
        if self._uploaded.data.sky:
            events.record("warning", message="the scene has no light of its own; a neutral sky lights it")
        self.times = dict(self._uploaded.seconds)
        self._film = Film.empty(height, width)
        self._pivot = self._find_pivot()
        self._view = camera_data(self.camera, width, height)
        self.exposure = 1.0
        self.samples = 0
        self._settings = FrameSettings(spp=spp, max_depth=depth)
        self._frame = make_frame(self._engine, workgroup)
        self._frame.warmup(*self._arguments(), progress=progress)
        self.times["trace"] = self._frame.stats.trace_seconds
        self.times["compile"] = self._frame.stats.compile_seconds
        self._picture: Any = None
        self.last_kernel_ms: float | None = None

    def _arguments(
        self, settings: FrameSettings | None = None, film: Film | None = None, camera: CameraData | None = None
    ) -> tuple[Any, ...]:
        return (
            self._uploaded.data,
            film or self._film,
            camera or self._view,
            self.samples,
            self.seed,
            self.samples > 0,
            float(self.exposure),
            settings or self._settings,
        )

    def frame(self) -> None:
        """One frame of `spp` samples a pixel, to device completion; adds to the film."""
        self._picture = self._frame(*self._arguments())
        self.samples += self.spp
        seconds = self._frame.kernel_seconds
        self.last_kernel_ms = sum(seconds) * 1e3 if seconds else None

    def reset(self) -> None:
        """Begins the picture anew at the next frame."""
        self.samples = 0

    def orbit(self, degrees: float) -> None:
        """Turns the camera about the vertical through its pivot, relative to where it started; begins the picture anew."""
        self._view = camera_data(self.camera, self.width, self.height, degrees, self._pivot)
        self.reset()

    def _find_pivot(self) -> np.ndarray[Any, Any]:
        """The point that the camera turns about: on its axis, as far away as the scene's middle."""
        bounds = self.scene.bounds()
        eye, back = self.camera.world[:3, 3], self.camera.world[:3, 2]
        middle = bounds.mean(axis=0) if bounds is not None else np.zeros(3)
        distance = max(float(np.dot(middle - eye, -back)), 1e-3 * float(np.linalg.norm(middle - eye)) + 1e-6)
        return np.asarray(eye - back * distance)

    # ---- results ----

    def mean(self) -> np.ndarray[Any, Any]:
        """float32[height, width, 3]: the accumulated picture, linear."""
        total = self._film.total.numpy()
        return np.asarray(total / np.float32(max(1, self.samples)), np.float32)

    def rgba(self) -> np.ndarray[Any, Any]:
        """uint8[height, width, 4]: the tone-mapped picture of the last frame."""
        packed: np.ndarray[Any, Any] = self._picture.rgba.numpy()
        return packed.astype("<u4", copy=False).view(np.uint8).reshape(self.height, self.width, 4)

    @property
    def nonfinite(self) -> int:
        """Samples that were not finite, and therefore left out, since the picture began."""
        return int(self._film.refused.numpy().sum())

    # ---- figures ----

    @property
    def device(self) -> DeviceFacts:
        d: Device = self._engine
        held = self._uploaded.bytes + self._frame.bytes_allocated + self.width * self.height * 16
        return DeviceFacts(d.backend, d.name, d.driver, d.compute_units, d.group_width, d.memory_bytes, d.software, held)

    @property
    def counters(self) -> Counters:
        now, stats = events.counters - self._start, self._frame.stats
        return Counters(stats.kernels, stats.cache_hits, stats.cache_misses, len(stats.compiles), now.allocations)

    def kernel_times(self) -> list[KernelTime]:
        """Times of the frame's kernels, each the median of a few frames (of a film of its own)."""
        film = Film.empty(self.height, self.width)
        arguments = self._arguments(film=film)
        rows = [self._frame.time_kernels(*arguments) for _ in range(_TIMED_FRAMES)]
        result = []
        for k, kernel in enumerate(self._frame.kernels(*arguments)):
            median = float(np.median([row[k] for row in rows])) * 1e3
            result.append(KernelTime(kernel.name, 1, median, kernel.workgroup))
        return result

    def count_rays(self) -> dict[str, int]:
        """Rays of a frame: primary, shadow and indirect, counted in a frame of its own."""
        settings = FrameSettings(self._settings.spp, self._settings.max_depth, count=True)
        counting = make_frame(self._engine, self._frame.workgroup)
        picture = counting(*self._arguments(settings, Film.empty(self.height, self.width)))
        shadow, indirect = (int(r.numpy().astype(np.int64).sum()) for r in picture.rays)
        return {"primary": self.width * self.height * self.spp, "shadow": shadow, "indirect": indirect}

    def close(self) -> None:
        """Ends the device's threads."""
        self._engine.close()


__all__ = ["Counters", "DeviceError", "DeviceFacts", "KernelTime", "Session", "pick_camera"]
