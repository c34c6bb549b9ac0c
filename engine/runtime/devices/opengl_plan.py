"""Plans on an OpenGL device: launches one after another, with one wait at the end.

What a launch binds is a table that is made once: the program, the range of each storage binding, the textures that buffers are read
through, the range of its launch words (named sizes, and where buffers begin that share a binding). It is made anew when a buffer was
replaced or moved, or a named size changed. A run uploads the parameters where they differ from those of the run before, goes through
the table, and waits for the device.

Drivers reset a device that works on one dispatch for more than a second or two, and a window cannot be drawn meanwhile. So a launch
that may take long is cut into dispatches of some eighty milliseconds, each from another first workgroup on. How many workgroups that
are is measured: the first run begins with a few and goes on from there, later ones begin with what the one before found out.

The time of each launch is taken by the device: a time stamp in front of each and one behind the last.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.frontend.storage import Memory as AnyMemory
from engine.runtime.device import DeviceError, LaunchRequest
from engine.runtime.devices import opengl_functions as gl
from engine.runtime.devices.opengl_context import GLThread, Owned
from engine.runtime.devices.opengl_memory import Block, OpenGLBuffer, mib
from engine.runtime.devices.opengl_program import OpenGLProgram

if TYPE_CHECKING:
    from engine.runtime.devices.opengl import OpenGLDevice

_SLICE_S = 0.08  # what a dispatch of a long launch should take
_WHOLE_S = 0.1  # what a launch may take that is one dispatch
_FIRST = 16  # workgroups of the first dispatch of a launch that was never run
_GROWTH = 8.0  # how many times larger the next dispatch may be
_WAIT_NS, _PATIENCE_S = 1_000_000_000, 60.0
_WORDS, _PARAMETERS = 0, 1  # uniform bindings


class _Launch:
    """One launch: what it binds, how many workgroups it has, and how they are cut."""

    def __init__(self, request: LaunchRequest) -> None:
        assert isinstance(request.program, OpenGLProgram)
        self.program, self.memory = request.program, list(request.arrays)
        self.bindings: tuple[tuple[int, int, int, int], ...] = ()  # number, buffer object, offset, bytes
        self.textures: tuple[tuple[int, _Texture], ...] = ()  # unit, texture
        self.words = (0, 0)  # offset and bytes in the block of launch words
        self.groups = 0
        self.group_s = 0.0  # seconds of a workgroup as last measured; 0: not known yet
        self.first = _FIRST  # workgroups of the first dispatch, where it is cut

    def packed(self) -> list[OpenGLBuffer]:
        """The buffers that share a binding."""
        return [buffer for (kind, _, _), buffer in zip(self.program.layout.slots, self.memory, strict=True) if kind == "packed"]

    def bind(self) -> dict[int, int]:
        """Makes the table of bindings. The result: the offset, in words, at which each packed slot begins in its binding."""
        packed = self.packed()
        begin = min((buffer.offset for buffer in packed), default=0)
        end = max((buffer.end for buffer in packed), default=0)
        table: dict[int, tuple[int, int, int, int]] = {}
        offsets: dict[int, int] = {}
        for k, ((kind, number, _), buffer) in enumerate(zip(self.program.layout.slots, self.memory, strict=True)):
            if kind == "own":
                table[number] = (number, buffer.block.glo, buffer.offset, buffer.end - buffer.offset)
            elif kind == "packed":
                table[number] = (number, buffer.block.glo, begin, end - begin)
                offsets[k] = (buffer.offset - begin) // 4
        self.bindings = tuple(table.values())
        return offsets


class _Texture(Owned):
    """A view of a buffer, as a texture of one texel after another."""

    def __init__(self, thread: GLThread, buffer: OpenGLBuffer, format: str, most: int) -> None:
        functions, size = thread.functions, buffer.end - buffer.offset
        number, each = gl.TEXEL_FORMATS[format]
        if size // each > most:
            raise MemoryError(f"a buffer of {mib(size)} is read as a texture of {size // each} texels, and the driver has at most {most}")
        self.glo = functions.generate(functions.GenTextures)
        super().__init__(thread, functions.DeleteTextures, 1, (ctypes.c_uint * 1)(self.glo))
        functions.BindTexture(gl.TEXTURE_BUFFER, self.glo)
        functions.TexBufferRange(gl.TEXTURE_BUFFER, number, buffer.block.glo, buffer.offset, size)


class _Objects(Owned):
    """What a plan owns on the device: launch words, parameters, time stamps."""

    def __init__(self, thread: GLThread, words: Block, parameters: Block | None, queries: Any) -> None:
        super().__init__(thread, thread.functions.DeleteQueries, len(queries), queries)
        self.words, self.parameters, self.queries = words, parameters, queries


class OpenGLPlan:
    """Launches with every binding fixed."""

    def __init__(self, device: OpenGLDevice, launches: Sequence[LaunchRequest], parameters: np.ndarray[Any, Any] | None) -> None:
        self.device, self.memory, self.thread = device, device.memory, device.thread
        self.launches = [_Launch(request) for request in launches]
        self.parameters = parameters
        self.seconds: list[float] = []
        self._uploaded: bytes | None = None
        self._dims: dict[str, int] = {}
        self._version = -1  # of the memory, when the tables were made; -1: they must be made anew
        step, at = device.limits.uniform_alignment, 0
        for launch in self.launches:
            size = max(16, -(-len(launch.program.layout.words) // 4) * 16)
            launch.words = (at, size)
            at += -(-size // step) * step
        self._words = np.zeros(max(4, at // 4), np.int32)
        self._objects: _Objects = self.thread.call(self._allocate)

    def _allocate(self) -> _Objects:
        """Memory for words and parameters, and the queries. Raises MemoryError."""
        functions, limits = self.thread.functions, self.device.limits
        block = None
        spans = [launch.program.linked.parameter_bytes for launch in self.launches if launch.program.layout.parameters]
        if spans:
            needed, most = self.parameters.nbytes if self.parameters is not None else 0, min(*spans, limits.uniform_bytes)
            if needed > most:
                told = f"the parameters take {mib(needed)}, and {limits.renderer} gives kernels at most {mib(most)} of them"
                raise MemoryError(f"{told}; pass large arrays as Tensors")
            block = self.memory.block(max(*spans, needed), gl.DYNAMIC_DRAW)
        queries = (ctypes.c_uint * (len(self.launches) + 1))()
        functions.GenQueries(len(queries), queries)
        return _Objects(self.thread, self.memory.block(self._words.nbytes, gl.DYNAMIC_DRAW), block, queries)

    def resize(self, dims: dict[str, int]) -> None:
        self._dims = dict(dims)
        for launch in self.launches:
            launch.groups = launch.program.layout.workgroups(dims)
        self._version = -1

    def rebind(self, launch: int, slot: int, memory: AnyMemory) -> None:
        self.launches[launch].memory[slot] = memory
        self._version = -1

    def run(self, dims: dict[str, int]) -> None:
        """Runs all launches, to completion. Raises DeviceError where the device is lost, MemoryError where it has no memory."""
        if dims != self._dims:
            self.resize(dims)
        self.thread.call(self._run)

    # ---- on the device's thread ----

    def _run(self) -> None:
        functions = self.thread.functions
        if self._version != self.memory.version:
            self._bind()
        if self._objects.parameters is not None:
            self._upload_parameters(self._objects.parameters)
        queries = self._objects.queries
        for k, launch in enumerate(self.launches):
            if k:  # not behind the last: a barrier takes a tenth of a millisecond where it sends the driver's threads round
                functions.MemoryBarrier(gl.STORAGE_BARRIER | gl.FETCH_BARRIER)
            functions.UseProgram(launch.program.linked.glo)
            functions.BindBufferRange(gl.UNIFORM_BUFFER, _WORDS, self._objects.words.glo, *launch.words)
            for binding in launch.bindings:
                functions.BindBufferRange(gl.SHADER_STORAGE_BUFFER, *binding)
            for unit, texture in launch.textures:
                functions.ActiveTexture(gl.TEXTURE0 + unit)
                functions.BindTexture(gl.TEXTURE_BUFFER, texture.glo)
            functions.QueryCounter(queries[k], gl.TIMESTAMP)
            self._dispatch(launch)
        functions.QueryCounter(queries[len(self.launches)], gl.TIMESTAMP)
        functions.MemoryBarrier(gl.ALL_BARRIERS)
        self._wait()
        functions.check("running a plan")
        self._read_times()

    def _bind(self) -> None:
        """Makes the tables and the launch words. Raises MemoryError."""
        sets = [packed for launch in self.launches if (packed := launch.packed())]
        if sets:
            self.memory.together(sets, f"a plan of {len(self.launches)} kernels")
        base = self.parameters.ctypes.data if self.parameters is not None else 0
        textures: dict[tuple[int, int, str], _Texture] = {}
        for launch in self.launches:
            found = []
            for (kind, number, _), memory in zip(launch.program.layout.slots, launch.memory, strict=True):
                if kind.startswith("texture"):
                    format = kind.split()[1]
                    key = (memory.block.glo, memory.offset, format)
                    if key not in textures:
                        textures[key] = _Texture(self.thread, memory, format, self.device.limits.texels)
                    found.append((number, textures[key]))
            launch.textures = tuple(found)
            layout = launch.program.layout
            offsets = launch.bind()
            for k, ((kind, _, _), memory) in enumerate(zip(layout.slots, launch.memory, strict=True)):
                if kind == "parameter":
                    offsets[k] = (memory.ctypes.data - base) // 4
            at = launch.words[0] // 4
            for k, word in enumerate(layout.words):
                of, name = word.split(":", 1)
                self._words[at + k] = self._dims[name] if of == "dim" else offsets[int(name)]
        functions = self.thread.functions
        functions.BindBuffer(gl.UNIFORM_BUFFER, self._objects.words.glo)
        functions.BufferSubData(gl.UNIFORM_BUFFER, 0, self._words.nbytes, self._words.ctypes.data)
        self._version = self.memory.version

    def _upload_parameters(self, block: Block) -> None:
        functions = self.thread.functions
        if self.parameters is not None:
            now = self.parameters.tobytes()
            if now != self._uploaded:
                functions.BindBuffer(gl.UNIFORM_BUFFER, block.glo)
                functions.BufferSubData(gl.UNIFORM_BUFFER, 0, len(now), now)
                self._uploaded = now
        functions.BindBufferRange(gl.UNIFORM_BUFFER, _PARAMETERS, block.glo, 0, block.nbytes)

    def _dispatch(self, launch: _Launch) -> None:
        """All workgroups of a launch: at once where that is known to be short, else piece by piece, each waited for."""
        groups, most = launch.groups, self.device.limits.dispatch
        program = launch.program.linked
        whole = groups == 1 or 0.0 < launch.group_s * groups <= _WHOLE_S or program.first_group < 0
        at, step = 0, groups if whole else launch.first
        while at < groups:
            now = min(step, groups - at, most)
            if program.first_group >= 0 and program.first != at:
                self.thread.functions.ProgramUniform1ui(program.glo, program.first_group, at)
                program.first = at
            if whole:
                self.thread.functions.DispatchCompute(now, 1, 1)
            else:
                began = time.perf_counter()
                self.thread.functions.DispatchCompute(now, 1, 1)
                self._wait()
                taken = time.perf_counter() - began
                step = max(1, int(now * min(_GROWTH, _SLICE_S / max(taken, 1e-6))))
                if at == 0:
                    launch.first = step
            at += now

    def _wait(self) -> None:
        """Until the device has done everything. Raises DeviceError where it does not."""
        functions = self.thread.functions
        fence = functions.FenceSync(gl.SYNC_COMPLETE, 0)
        began = time.perf_counter()
        try:
            while (answer := functions.ClientWaitSync(fence, gl.SYNC_FLUSH, _WAIT_NS)) in (gl.TIMEOUT_EXPIRED, gl.WAIT_FAILED):
                functions.check("running a plan")
                if answer == gl.WAIT_FAILED or time.perf_counter() - began > _PATIENCE_S:
                    name = self.device.limits.renderer
                    raise DeviceError(f"the OpenGL device {name} does not answer: start again, with less work a frame (--spp, --size)")
        finally:
            functions.DeleteSync(fence)

    def _read_times(self) -> None:
        value, stamps = ctypes.c_uint64(0), []
        for query in self._objects.queries:
            self.thread.functions.GetQueryObjectui64v(query, gl.QUERY_RESULT, ctypes.byref(value))
            stamps.append(value.value)
        self.seconds = [max(0, end - begin) * 1e-9 for begin, end in pairwise(stamps)]
        for launch, seconds in zip(self.launches, self.seconds, strict=True):
            if launch.groups:
                launch.group_s = max(seconds, 1e-9) / launch.groups
