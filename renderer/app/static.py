"""The frame as a good programmer writes it by hand, timed like ours: `rayfuse bench --static`.

What a just-in-time compiler is worth shows beside what one would have written without it. shaders_ref/ has the same frame as one compute
shader of GLSL 4.30, with the same algorithm and the same random numbers, so that its picture is ours but for rounding. `StaticSession` runs
it on the OpenGL device that the renderer's own kernels would run on, over the same tables, and has what a benchmark asks of a `Session`.

All that takes time once (compiling, which many drivers put off until a shader is first used, allocating, finding out how long a dispatch
takes) is done before the first frame. A frame writes its parameters, dispatches, and waits until the device is done.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from engine import events
from engine.runtime.devices import opengl_functions as gl
from engine.runtime.devices.opengl_context import StandaloneContext
from engine.runtime.devices.opengl_functions import Functions
from engine.runtime.devices.opengl_limits import Limits, read_limits
from renderer.app.opening import UsageError
from renderer.app.static_program import MAIN, Program, assembled, check_there
from renderer.app.static_tables import Tables, defines_of, frame_block, look, tables_of
from renderer.pipeline.camera import CameraData, camera_data
from renderer.pipeline.session import Counters, DeviceFacts, KernelTime, middle_of, pick_camera, pivot_of
from renderer.pipeline.tonemap import TONEMAPPERS, number_of
from renderer.scene.model import Scene
from renderer.scene.upload import upload
from renderer.shading.material_rows import PLAIN

WORKGROUP = 256  # lanes, where nothing else is asked for
_TILE = (8, 4)  # pixels, as in frame.comp
_TIMED_FRAMES = 3  # runs for the time of the kernel

_TEXTURE_BUFFER, _TEXTURE0, _RGBA32F, _MOST_TEXELS = 0x8C2A, 0x84C0, 0x8814, 0x8C2B
_FILM, _PICTURE, _RAYS = range(3)  # storage bindings
_PARAMETERS = 0  # uniform binding


class _TextureFunctions:
    """The OpenGL functions for buffer textures, which the engine has no use for."""

    def __init__(self, load: Callable[[str], int]) -> None:
        number, size = ctypes.c_uint, ctypes.c_int
        self.generate = ctypes.PYFUNCTYPE(None, size, ctypes.c_void_p)(load("glGenTextures"))
        self.activate = ctypes.PYFUNCTYPE(None, number)(load("glActiveTexture"))
        self.bind = ctypes.PYFUNCTYPE(None, number, number)(load("glBindTexture"))
        self.attach = ctypes.PYFUNCTYPE(None, number, number, number)(load("glTexBuffer"))


class _Results(NamedTuple):
    """Buffers that a frame writes."""

    film: int
    picture: int


class StaticSession:
    """One scene on the OpenGL device, drawn by the shaders of shaders_ref/. Building it builds the BVH, uploads and compiles.

    Raises DeviceError (no OpenGL 4.3), SceneError (nothing to draw, unknown camera), UsageError (no shaders, or a workgroup larger than
    the driver's, or materials that the shaders do not draw), MemoryError. It belongs to the thread that made it.
    """

    texture_bytes = 0

    def __init__(
        self,
        scene: Scene,
        *,
        width: int,
        height: int,
        spp: int = 1,
        depth: int = 8,
        seed: int = 0,
        camera: int | str | None = None,
        workgroup: int | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> None:
        say = progress or (lambda label, fraction: None)
        check_there()
        self.scene, self.spp = scene, spp
        self.width, self.height = width, height
        self.camera = pick_camera(scene, camera, width / height)
        self.samples = 0
        self.workgroup = workgroup or WORKGROUP
        self._pivot = pivot_of(self.camera, middle_of(scene))
        self._view = camera_data(self.camera, width, height, 0.0, self._pivot)
        self._context = StandaloneContext()
        self._context.make_current()
        try:
            self._gl = Functions(self._context.load)
            self._limits = self._checked_limits()
            say("building the tree", 0.1)
            uploaded = upload(scene, group=1, shared=False)
            if uploaded.data.look != PLAIN:
                told = f"{scene.path}: the hand-written shaders draw matt surfaces without textures only, and its materials have more"
                raise UsageError(f"{told}; take --static away")
            self.times: dict[str, float] = dict(uploaded.seconds)
            started = time.perf_counter()
            self._bytes = 0
            self._defines = {"WORKGROUP": self.workgroup, **defines_of(uploaded.data)}
            self._bind_tables(tables_of(uploaded.data))
            self._block = frame_block(uploaded.data, self._view, (width, height), spp=spp, depth=depth, seed=seed)
            self._parameters = self._buffer(gl.UNIFORM_BUFFER, self._block.nbytes)
            self._gl.BindBufferRange(gl.UNIFORM_BUFFER, _PARAMETERS, self._parameters, 0, self._block.nbytes)
            self._own = self._results()
            self._bind_results(self._own)
            self._queries = (ctypes.c_uint * 2)()
            self._gl.GenQueries(2, self._queries)
            self._gl.check("uploading the scene")
            self.times["upload"] += time.perf_counter() - started
            say("compiling the shaders", 0.5)
            started = time.perf_counter()
            self._program = self._program_of(count_rays=False)
            self.times["compile"] = time.perf_counter() - started
        except BaseException:
            self.close()
            raise
        self.last_kernel_ms: float | None = None
        if uploaded.dropped:
            events.record("warning", message=f"{uploaded.dropped} triangles without extent (or not finite) are left out")
        if uploaded.data.sky is not None and scene.environment is None:
            events.record("warning", message="the scene has no light of its own; a sky of one colour lights it")
        if uploaded.data.corners.normals:
            events.record("warning", message="the hand-written shaders draw smooth surfaces (NORMAL) as flat ones")
        if uploaded.data.punctual is not None:
            events.record("warning", message="the hand-written shaders leave out the scene's punctual lights (KHR_lights_punctual)")

    # ---- before the first frame ----

    def _checked_limits(self) -> Limits:
        limits = read_limits(self._gl)
        if self.workgroup > limits.workgroup:
            told = f"--workgroup {self.workgroup}: {limits.renderer} has at most {limits.workgroup} lanes a workgroup"
            raise UsageError(f"{told}; use 256 or 512")
        return limits

    def _bind_tables(self, tables: Tables) -> None:
        """Makes a buffer texture of each table, bound for good. Raises MemoryError."""
        textures, most = _TextureFunctions(self._context.load), self._gl.integer(_MOST_TEXELS)
        for unit, rows in enumerate(tables):
            if len(rows) > most:
                raise MemoryError(f"a table of the scene has {len(rows)} rows, and {self._limits.renderer} reads at most {most}")
            buffer = self._buffer(_TEXTURE_BUFFER, rows.nbytes, rows)
            textures.activate(_TEXTURE0 + unit)
            textures.bind(_TEXTURE_BUFFER, self._gl.generate(textures.generate))
            textures.attach(_TEXTURE_BUFFER, _RGBA32F, buffer)

    def _buffer(self, target: int, nbytes: int, contents: np.ndarray[Any, Any] | None = None) -> int:
        """The name of a new buffer. Raises MemoryError."""
        name = self._gl.generate(self._gl.GenBuffers)
        self._gl.BindBuffer(target, name)
        self._gl.BufferData(target, nbytes, None if contents is None else contents.ctypes.data, gl.DYNAMIC_COPY)
        self._gl.check("allocating memory")
        self._bytes += nbytes
        return name

    def _results(self) -> _Results:
        """Memory for a film and a picture."""
        pixels = self.width * self.height
        return _Results(self._buffer(gl.SHADER_STORAGE_BUFFER, pixels * 16), self._buffer(gl.SHADER_STORAGE_BUFFER, pixels * 4))

    def _bind_results(self, results: _Results) -> None:
        pixels = self.width * self.height
        self._gl.BindBufferRange(gl.SHADER_STORAGE_BUFFER, _FILM, results.film, 0, pixels * 16)
        self._gl.BindBufferRange(gl.SHADER_STORAGE_BUFFER, _PICTURE, results.picture, 0, pixels * 4)

    def _program_of(self, *, count_rays: bool) -> Program:
        """The shaders, compiled, and run once. Raises DeviceError."""
        tiles = -(-self.width // _TILE[0]) * -(-self.height // _TILE[1])
        groups = -(-tiles * _TILE[0] * _TILE[1] // self.workgroup)
        program = Program(self._gl, assembled(self._defines | {"COUNT_RAYS": int(count_rays)}), groups, self._limits.dispatch)
        self._write_parameters()
        program.rehearse()
        self._gl.check("drawing the first frame")
        return program

    # ---- frames ----

    def frame(self) -> None:
        """One frame of `spp` samples a pixel, to device completion; adds to the film, or begins it anew."""
        self._write_parameters()
        self._gl.QueryCounter(self._queries[0], gl.TIMESTAMP)
        self._program.run()
        self._gl.QueryCounter(self._queries[1], gl.TIMESTAMP)
        self._gl.MemoryBarrier(gl.ALL_BARRIERS)
        self._gl.Finish()
        self._gl.check("drawing a frame")
        self.samples += self.spp
        self.last_kernel_ms = self._kernel_ms()

    def _write_parameters(self) -> None:
        self._block[0]["samples"] = self.samples
        self._gl.BindBuffer(gl.UNIFORM_BUFFER, self._parameters)
        self._gl.BufferSubData(gl.UNIFORM_BUFFER, 0, self._block.nbytes, self._block.ctypes.data)

    def _kernel_ms(self) -> float:
        """Milliseconds between the two time stamps."""
        stamps = (ctypes.c_uint64 * 2)()
        for k in range(2):
            self._gl.GetQueryObjectui64v(self._queries[k], gl.QUERY_RESULT, ctypes.byref(stamps, 8 * k))
        return (stamps[1] - stamps[0]) / 1e6

    def reset(self) -> None:
        """Begins the picture anew at the next frame."""
        self.samples = 0

    @property
    def tonemapper(self) -> str:
        """A name of TONEMAPPERS; setting another raises ValueError."""
        return list(TONEMAPPERS)[int(self._block[0]["tonemapper"])]

    @tonemapper.setter
    def tonemapper(self, name: str) -> None:
        self._block[0]["tonemapper"] = number_of(name)

    def orbit(self, degrees: float) -> None:
        """Turns the camera about the vertical through its pivot, relative to where it started."""
        view: CameraData = camera_data(self.camera, self.width, self.height, degrees, self._pivot)
        if not view.same(self._view):
            self._view = view
            look(self._block, view)
            self.reset()

    # ---- results ----

    def mean(self) -> np.ndarray[Any, Any]:
        """float32[height, width, 3]: the accumulated picture, linear."""
        film = self._read(self._own.film, np.empty((self.height, self.width, 4), np.float32))
        return np.asarray(film[..., :3] / np.float32(max(1, self.samples)), np.float32)

    def rgba(self) -> np.ndarray[Any, Any]:
        """uint8[height, width, 4]: the tone-mapped picture of the last frame."""
        packed = self._read(self._own.picture, np.empty((self.height, self.width), "<u4"))
        return packed.view(np.uint8).reshape(self.height, self.width, 4)

    @property
    def nonfinite(self) -> int:
        """Samples that were not finite, and therefore left out, since the picture began."""
        return int(self._read(self._own.film, np.empty((self.height, self.width, 4), np.float32))[..., 3].sum())

    def _read(self, buffer: int, into: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        self._gl.BindBuffer(gl.COPY_READ_BUFFER, buffer)
        self._gl.GetBufferSubData(gl.COPY_READ_BUFFER, 0, into.nbytes, into.ctypes.data)
        self._gl.check("reading a result")
        return into

    # ---- figures ----

    @property
    def device(self) -> DeviceFacts:
        d = self._limits
        return DeviceFacts("opengl", d.renderer, f"OpenGL {d.version}", None, None, d.memory_bytes, d.software, self._bytes)

    @property
    def counters(self) -> Counters:
        """One kernel, compiled when the session began; what a driver keeps of it on disk is not known. Frames compile and allocate
        nothing: there is no code in them that could."""
        return Counters(kernels=1, cache_hits=0, cache_misses=1, compiles=1, allocations=0)

    def kernel_times(self) -> list[KernelTime]:
        """The time of the kernel, the median of a few frames (of a film of its own)."""
        samples = self.samples
        self._bind_results(self._results())
        times = []
        for _ in range(_TIMED_FRAMES):
            self.frame()
            times.append(self._kernel_ms())
        self._bind_results(self._own)
        self.samples = samples
        return [KernelTime(MAIN, self._program.dispatches, float(np.median(times)), self.workgroup)]

    def count_rays(self) -> dict[str, int]:
        """Rays of a frame: primary, shadow and indirect, counted by a variant of the shaders in a frame of its own."""
        counts = np.empty((self.width * self.height, 2), np.uint32)
        buffer = self._buffer(gl.SHADER_STORAGE_BUFFER, counts.nbytes)
        self._gl.BindBufferRange(gl.SHADER_STORAGE_BUFFER, _RAYS, buffer, 0, counts.nbytes)
        self._bind_results(self._results())
        self._program_of(count_rays=True)
        self._gl.MemoryBarrier(gl.ALL_BARRIERS)
        shadow, indirect = (int(n) for n in self._read(buffer, counts).sum(axis=0, dtype=np.int64))
        self._bind_results(self._own)
        return {"primary": self.width * self.height * self.spp, "shadow": shadow, "indirect": indirect}

    def close(self) -> None:
        """Gives the context back, and with it all that is in the device's memory."""
        self._context.release()
        self._context.close()
