"""A scene on a device, ready to draw: owns the device's buffers and the jitted frame.

What the commands and the viewer work with. Two kinds of settings meet here. Parameters (camera, size, samples a frame, depth, exposure,
tone mapper, light and material values) are plain values handed to the frame at each call: changing one compiles nothing, and the
picture begins anew only where it would be another one. What shapes the code (`structure`) is settled when the session is made; the
`update_*` methods say when an edit has gone beyond it, and a new session is needed.

Films are kept by their sizes, a few of them, so that a picture whose resolution follows the time it takes allocates nothing when it
comes back to a size. The tone-mapped picture is written to memory of the caller's, or else to the film's own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from engine import Device, DeviceError, Tensor, candidates, events, open_device
from renderer.bvh.traverse import Form
from renderer.pipeline.camera import CameraData, camera_data
from renderer.pipeline.film import Film, Films
from renderer.pipeline.frame import FrameSettings, Numbers, make_frame
from renderer.pipeline.pick import Pick, make_pick, picked
from renderer.pipeline.tonemap import number_of
from renderer.scene.framing import default_camera
from renderer.scene.model import Camera, Scene, SceneError
from renderer.scene.parts import movable
from renderer.scene.room import picture_budget
from renderer.scene.upload import Uploaded, has_pictures, moved_to, relit, structure, upload
from renderer.shading.bsdf import make_bsdf
from renderer.shading.material_rows import Look
from renderer.shading.module import explained, make_bsdf_of

Progress = Callable[[str, float], None]

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


def pick_camera(scene: Scene, wanted: Camera | int | str | None, aspect: float = 1.0) -> Camera:
    """The camera itself, or that of this name or number; the first where none is named, one that frames the scene where there is none,
    in pictures of this aspect (width over height).

    Raises SceneError for a camera that the scene does not have.
    """
    if wanted is None:
        return scene.cameras[0] if scene.cameras else default_camera(scene, aspect)
    if isinstance(wanted, Camera):
        return wanted
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

    width, height: of the picture, in pixels; a size of nothing counts as one. backend: where "auto", a device that turns out not to be
    able to compile the frame is left for the next, with a warning. device: one that is open already, and stays so when the session is
    closed. shading: a module with a `make_bsdf` (see `shading.bsdf`). empty: a scene without triangles is a view of its surroundings.

    Raises DeviceError (unusable backend), SceneError (nothing to draw, unknown camera), ShadingError (a shading module with mistakes),
    MemoryError.

    Attributes that may be set at any time: `spp`, samples a pixel a frame; `depth`, segments of a path at most; `exposure`, a factor;
    `tonemapper`, a name of TONEMAPPERS; `accumulate`, False: each frame stands alone; `seed`, taken up when the picture begins anew.
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
        camera: Camera | int | str | None = None,
        workgroup: int | None = None,
        threads: int | None = None,
        progress: Progress | None = None,
        device: Device | None = None,
        shading: ModuleType | None = None,
        empty: bool = False,
    ) -> None:
        self.scene, self.seed, self.spp = scene, seed, spp
        self.width, self.height = max(1, width), max(1, height)
        self.camera = pick_camera(scene, camera, self.width / self.height)
        self.accumulate = True
        self.exposure = 1.0
        self.samples = 0  # a pixel, in the film
        self.last_kernel_ms: float | None = None
        self._depth, self._tonemapper = depth, "filmic"
        self._first = 0  # the next sample's number in the stream
        self._shading, self._empty = shading, empty
        self._make_bsdf = make_bsdf_of(shading) if shading is not None else make_bsdf
        self._written = getattr(shading, "make_bsdf", None)  # what a module that is read again has another of
        self._settings = FrameSettings(many=spp > 1)
        self._start = events.counters.copy()
        self._films = Films()
        self._middle = middle_of(scene)
        self._pivot = pivot_of(self.camera, self._middle)
        self._view = camera_data(self.camera, self.width, self.height, 0.0, self._pivot)
        self._owns = device is None
        self._engine = device if device is not None else open_device(backend, threads=threads)
        try:
            self._prepare(backend, workgroup, threads, progress)
        except BaseException:
            self.close()
            raise

    # ---- building ----

    def _prepare(self, backend: str, workgroup: int | None, threads: int | None, progress: Progress | None) -> None:
        """Uploads and compiles: on the device, or the next where that cannot."""
        while True:
            try:
                self._build(workgroup, progress or (lambda label, fraction: None))
                return
            except DeviceError as error:
                other = device_after(self._engine, backend, error, threads=threads) if self._owns else None
                if other is None:
                    raise
                self._engine = other

    def _build(self, workgroup: int | None, progress: Progress) -> None:
        progress("building the tree", 0.1)
        self._budget = picture_budget(self._engine)
        self._uploaded = upload(self.scene, group=self._engine.group_width, budget=self._budget, empty=self._empty)
        if self._uploaded.dropped:
            events.record("warning", message=f"{self._uploaded.dropped} triangles without extent (or not finite) are left out")
        if self._uploaded.data.sky is not None and self.scene.environment is None:
            events.record("warning", message="the scene has no light of its own; a sky of one colour lights it")
        self.times = dict(self._uploaded.seconds)
        self._data, self._surroundings = self._uploaded.data, self.scene.environment
        self._canvas = self._films.of(self.width, self.height)
        self._picture = self._canvas.picture
        self._frame = make_frame(self._engine, workgroup, self._make_bsdf)
        self._pick = make_pick(self._engine)
        try:
            self._frame.warmup(*self._arguments(), progress=progress)
        except Exception as error:
            told = explained(error, self._shading)
            if told is None:
                raise
            raise told from error
        self._kernels = self._frame.kernels(*self._arguments())
        self._seconds = [0.0] * len(self._kernels)
        self._launches = 1
        self.times["trace"] = self._frame.stats.trace_seconds
        self.times["compile"] = self._frame.stats.compile_seconds

    def structure(self) -> tuple[Any, ...]:
        """What shapes the code of the kernels, hashable: sessions of equal structure run the same ones."""
        return (
            *self._engine.identity(), self._engine.name, self._frame.workgroup, self._settings, self._written,
            structure(self._uploaded.data),
        )  # fmt: skip

    # ---- frames ----

    def _arguments(
        self, settings: FrameSettings | None = None, film: Film | None = None, picture: Tensor | None = None, spp: int = 1
    ) -> tuple[Any, ...]:
        numbers = Numbers(
            self._first,
            self.samples,
            spp,
            self._depth,
            np.uint32(self.seed),
            float(self.exposure),
            number_of(self._tonemapper),
        )
        return (
            self._data,
            film or self._canvas.film,
            picture if picture is not None else self._canvas.picture,
            self._view,
            numbers,
            settings or self._settings,
        )

    def frame(self, target: Tensor | None = None) -> None:
        """One frame of `spp` samples a pixel, to device completion; adds to the film (or begins it anew), and writes the tone-mapped
        picture to `target`: uint32[height, width] with these named sizes (None: memory of the session's own)."""
        if not self.accumulate:
            self.samples = 0
        self._picture = target if target is not None else self._canvas.picture
        launches = [self.spp] if self._settings.many else [1] * self.spp  # made for one sample, it takes more in as many launches
        self._launches = len(launches)
        seconds = [0.0] * len(self._kernels)
        for spp in launches:
            self._frame(*self._arguments(picture=self._picture, spp=spp))
            self._first += spp
            self.samples += spp
            seconds = [a + b for a, b in zip(seconds, self._frame.kernel_seconds, strict=True)]
        self._seconds = seconds
        self.last_kernel_ms = sum(seconds) * 1e3 if seconds else None

    def reset(self) -> None:
        """Begins the picture anew at the next frame."""
        self.samples = 0
        if self.accumulate:
            self._first = 0  # the same picture again; frames that stand alone differ in their noise

    # ---- parameters ----

    @property
    def depth(self) -> int:
        """Segments of a path at most."""
        return self._depth

    @depth.setter
    def depth(self, depth: int) -> None:
        if depth != self._depth:
            self._depth = depth
            self.reset()

    @property
    def tonemapper(self) -> str:
        """A name of TONEMAPPERS; setting another raises ValueError."""
        return self._tonemapper

    @tonemapper.setter
    def tonemapper(self, name: str) -> None:
        number_of(name)
        self._tonemapper = name

    def set_camera(self, camera: Camera) -> None:
        """Looks through another camera. The picture goes on where it sees the same."""
        self.camera = camera
        self._pivot = pivot_of(self.camera, self._middle)
        self.orbit(0.0)

    def orbit(self, degrees: float) -> None:
        """Turns the camera about the vertical through its pivot, relative to where it was set."""
        self._look(camera_data(self.camera, self.width, self.height, degrees, self._pivot))

    def _look(self, view: CameraData) -> None:
        if not view.same(self._view):
            self._view = view
            self.reset()

    def resize(self, width: int, height: int) -> None:
        """Makes the picture this large; a size of nothing is none, and keeps the one that is there. Raises MemoryError."""
        if width < 1 or height < 1 or (width, height) == (self.width, self.height):
            return
        self._canvas = self._films.of(width, height)  # first: where there is no memory for it the session stays as it was
        self.width, self.height = width, height
        self._picture = self._canvas.picture
        turned = self._view
        self._view = replace(turned, extent=camera_data(self.camera, width, height).extent)
        self.reset()

    # ---- edits ----

    def update_materials(self, numbers: Collection[int]) -> bool:
        """Takes up materials of the scene that were replaced; False where that needs a new session, and this one stays as it was."""
        return not numbers or self._relight()

    def update_lights(self, numbers: Collection[int]) -> bool:
        """Takes up punctual lights of the scene that were replaced; False where that needs a new session, and this one stays as it was."""
        return not numbers or self._relight()

    def update_environment(self) -> bool:
        """Takes up what surrounds the scene; False where that needs a new session, and this one stays as it was. A picture that is only
        brighter or turned is not uploaded again."""
        before, now, data = self._surroundings, self.scene.environment, self._uploaded.data
        if now == before:
            return True
        if before is None or now is None or not now.same_picture(before):
            return self._relight()
        self._surroundings = now
        scale = np.asarray(now.radiance, np.float32) * np.float32(now.strength)
        if data.environment is not None:
            self._data = replace(data, environment=replace(data.environment, scale=scale, shift=now.turn / 360.0))
            self.reset()
        elif not now.is_picture:
            self._data = replace(data, sky=scale)
            self.reset()
        return True

    def update_variant(self) -> bool:
        """Takes up the variant of the scene that is shown; False where that needs a new session, and this one stays as it was."""
        return self._relight()

    def update_instances(self, numbers: Collection[int]) -> bool:
        """Takes up instances of the scene that were replaced; False where that needs a new session, and this one stays as it was."""
        if not numbers:
            return True
        uploaded = self._uploaded
        anew = moved_to(uploaded, self.scene, numbers, group=self._engine.group_width, budget=self._budget)
        if anew is not None:
            return self._replace(anew, self.scene)
        if uploaded.parts.placings is None and movable(self.scene, numbers):
            return False  # from now on what moves is a part
        return self._upload_again(self.scene, uploaded.data.bvh.form)

    def update_geometry(self, scene: Scene) -> bool:
        """Draws another scene from the same camera; False where that needs a new session, and this one stays as it was."""
        if not self._upload_again(scene):
            return False
        self.scene, self._middle = scene, middle_of(scene)
        return True

    def _relight(self) -> bool:
        return self._replace(relit(self._uploaded, self.scene, group=self._engine.group_width, budget=self._budget), self.scene)

    def _upload_again(self, scene: Scene, form: Form | None = None) -> bool:
        group = self._engine.group_width
        try:
            again = upload(
                scene, group=group, form=form, like=self._uploaded, keep=False, budget=self._budget, empty=self._empty
            )
            return self._replace(again, scene)
        except SceneError:  # nothing to draw is left
            return False

    def _replace(self, uploaded: Uploaded, scene: Scene) -> bool:
        """Other tables, if the kernels can read them."""
        if structure(uploaded.data) != structure(self._uploaded.data) or not has_pictures(uploaded, scene):
            return False
        self._uploaded = uploaded
        self._data, self._surroundings = uploaded.data, scene.environment
        self.reset()
        return True

    # ---- results ----

    def mean(self) -> np.ndarray[Any, Any]:
        """float32[height, width, 3]: the accumulated picture, linear."""
        total = self._canvas.film.total.numpy()
        return np.asarray(total / np.float32(max(1, self.samples)), np.float32)

    def rgba(self) -> np.ndarray[Any, Any]:
        """uint8[height, width, 4]: the tone-mapped picture of the last frame."""
        packed: np.ndarray[Any, Any] = self._picture.numpy()
        return packed.astype("<u4", copy=False).view(np.uint8).reshape(self.height, self.width, 4)

    @property
    def nonfinite(self) -> int:
        """Samples that were not finite, and therefore left out, since the picture began."""
        return int(self._canvas.film.refused.numpy().sum())

    def pick(self, x: int, y: int) -> Pick | None:
        """What stands at the middle of a pixel (column, row from the top), None where nothing does. The first call compiles a kernel,
        unless `prepare_pick` has."""
        return picked(self._pick(*self._picking(x, y)), self._uploaded.parts)

    def prepare_pick(self) -> None:
        """Compiles what `pick` needs."""
        self._pick.warmup(*self._picking(0, 0))

    def _picking(self, x: int, y: int) -> tuple[Any, ...]:
        place = (x + 0.5) / self.width * 2 - 1, 1 - (y + 0.5) / self.height * 2
        return (self._data.bvh, self._view, *place)

    # ---- figures ----

    @property
    def device(self) -> DeviceFacts:
        d = self._engine
        held = self._uploaded.bytes + self._frame.bytes_allocated + self._pick.bytes_allocated + self._films.bytes
        return DeviceFacts(d.backend, d.name, d.driver, d.compute_units, d.group_width, d.memory_bytes, d.software, held)

    @property
    def look(self) -> Look:
        """What its kernels know of materials."""
        return self._uploaded.data.look

    @property
    def texture_bytes(self) -> int:
        """Of these, the bytes of textures."""
        held = self._uploaded.pictures
        return held.tables.bytes if held is not None else 0

    @property
    def counters(self) -> Counters:
        now = events.counters - self._start
        stats = (self._frame.stats, self._pick.stats)
        return Counters(
            sum(s.kernels for s in stats),
            sum(s.cache_hits for s in stats),
            sum(s.cache_misses for s in stats),
            sum(len(s.compiles) for s in stats),
            now.allocations,
        )

    @property
    def last_kernels(self) -> list[KernelTime]:
        """The kernels of the last frame, each with the time that its launches took together."""
        return [self._timed(k, seconds, self._launches) for k, seconds in enumerate(self._seconds)]

    def kernel_times(self) -> list[KernelTime]:
        """Times of the frame's kernels, each the median of a few frames (of a film of its own)."""
        canvas = Films().of(self.width, self.height)
        arguments = self._arguments(film=canvas.film, picture=canvas.picture, spp=self.spp if self._settings.many else 1)
        rows = [self._frame.time_kernels(*arguments) for _ in range(_TIMED_FRAMES)]
        launches = 1 if self._settings.many else self.spp
        return [self._timed(k, float(np.median([row[k] for row in rows])) * launches, launches) for k in range(len(self._kernels))]

    def _timed(self, number: int, seconds: float, launches: int) -> KernelTime:
        kernel = self._kernels[number]
        r = kernel.resources
        return KernelTime(kernel.name, launches, seconds * 1e3, kernel.workgroup, r.registers, r.spill_bytes, r.shared_bytes)

    def count_rays(self) -> dict[str, int]:
        """Rays of a frame: primary, shadow and indirect, counted in a frame of its own."""
        settings = FrameSettings(many=True, count=True)
        counting = make_frame(self._engine, self._frame.workgroup, self._make_bsdf)
        canvas = Films().of(self.width, self.height)
        rays = counting(*self._arguments(settings, canvas.film, canvas.picture, self.spp))
        shadow, indirect = (int(r.numpy().astype(np.int64).sum()) for r in rays)
        return {"primary": self.width * self.height * self.spp, "shadow": shadow, "indirect": indirect}

    def close(self) -> None:
        """Ends the device's threads, if the session opened it."""
        if self._owns:
            self._engine.close()


def middle_of(scene: Scene) -> np.ndarray[Any, Any]:
    """The middle of what is in a scene."""
    bounds = scene.bounds()
    return np.asarray(bounds.mean(axis=0)) if bounds is not None else np.zeros(3)


def pivot_of(camera: Camera, middle: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The point that a camera turns about: on its axis, as far away as the scene's middle."""
    eye, back = camera.world[:3, 3], camera.world[:3, 2]
    distance = max(float(np.dot(middle - eye, -back)), 1e-3 * float(np.linalg.norm(middle - eye)) + 1e-6)
    return np.asarray(eye - back * distance)


def device_after(failed: Device, backend: str, error: DeviceError, **options: Any) -> Device | None:
    """The next best device of those that `backend` stands for, in the place of one that cannot do the work, which is closed, and said
    so in a warning; None where there is none. Options as for `open_device`."""
    names = candidates(backend)
    for name in names[names.index(failed.backend) + 1 :]:
        try:
            device = open_device(name, **options)
        except DeviceError:
            continue
        if not device.software or name == names[-1]:
            failed.close()
            reason = " ".join(str(error).split())
            events.record("warning", message=f"{failed.name} ({failed.backend}) is not used: {reason}; {device.name} is taken instead")
            return device
        device.close()
    return None


__all__ = ["Counters", "DeviceError", "DeviceFacts", "KernelTime", "Session", "pick_camera"]
