"""The OpenGL backend: kernels as GLSL compute shaders of OpenGL 4.3, on whatever the driver computes with.

The device puts the parts together: a thread with the context (`opengl_context`), the driver's limits (`opengl_limits`), memory
(`opengl_memory`), programs (`opengl_program`) and plans (`opengl_plan`). It may be used from any thread. Kernels are kept by their text:
in this process, and in the disk cache across processes. A lane is one invocation and groups are one lane wide, since OpenGL promises
nothing about invocations in lock step.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.compiler.target import Target
from engine.runtime import events
from engine.runtime.cache import Cache
from engine.runtime.device import LaunchRequest, Program
from engine.runtime.devices.launch_layout import LaunchLayout
from engine.runtime.devices.opengl_context import ContextProvider, GLThread, StandaloneContext
from engine.runtime.devices.opengl_limits import Limits, read_limits
from engine.runtime.devices.opengl_memory import Memory, OpenGLBuffer
from engine.runtime.devices.opengl_plan import OpenGLPlan
from engine.runtime.devices.opengl_program import Compiler, OpenGLProgram

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.compiler.emit.cstyle import Source
    from engine.compiler.kernel import Kernel


_FMA = """#version 430
layout(local_size_x = 1) in;
layout(std430, binding = 0) buffer Values { float v[]; };
void main() {
    precise float x = fma(v[0], v[0], v[1]);
    v[2] = x;
}
"""


def probe() -> Limits:
    """The driver that a device without a window would run on. Raises DeviceError, with what is missing."""
    thread = GLThread(StandaloneContext())
    try:
        return thread.call(read_limits, thread.functions)
    finally:
        thread.close()


class OpenGLDevice:
    """An OpenGL driver. `context`: who provides the context, None for one without a window.

    Raises DeviceError where there is no context, or one below OpenGL 4.3.
    """

    backend = "opengl"
    host_memory = False

    def __init__(self, *, context: ContextProvider | None = None, cache: Cache | None = None) -> None:
        self.cache = cache if cache is not None else Cache.from_environment()
        self.thread = GLThread(context if context is not None else StandaloneContext())
        self.limits = self.thread.call(read_limits, self.thread.functions)
        self.name, self.driver = self.limits.renderer, f"OpenGL {self.limits.version}"
        self.software, self.memory_bytes = self.limits.software, self.limits.memory_bytes
        # Buffers that are only read share a binding, or are textures where that is faster.
        texels = 4 * self.limits.texels if self.software else self.limits.binding_bytes
        self.buffer_bytes: int | None = min(self.limits.binding_bytes // 2, texels)
        self.compute_units: int | None = None  # OpenGL does not tell
        self.group_width = 1
        self.memory = Memory(self.thread, self.limits)
        self.compiler = Compiler(self.thread, self.limits, self.memory, self.cache)
        self._programs: dict[str, OpenGLProgram] = {}
        optimise = not events.unoptimised()
        self.target = Target(
            "opengl",
            max_buffers=self.limits.storage_blocks,
            max_workgroup=self.limits.workgroup,
            shared_bytes=self.limits.shared_bytes,
            packs_read_only=True,
            max_textures=self.limits.textures if self.software else 0,  # graphics processors read storage blocks as fast
            contract=optimise,
            fuses=self._fuses(),
            optimise=optimise,
        )

    def _fuses(self) -> bool:
        """Whether `fma` rounds once, which OpenGL leaves to the driver: found out by one multiplication, and kept in the disk cache."""
        key = self.compiler.key("fma rounds once")
        known = self.cache.get(key)
        if known is None:
            layout = LaunchLayout("main", 1, (1,), (1, 1), False, (("own", 0, -1),), (), 1, False)
            linked = self.compiler.program("fma", _FMA)
            buffer, values = self.allocate(12), np.array([1 + 2**-12, -1 - 2**-11, 0], np.float32)
            buffer.write(values)
            plan = self.executable([LaunchRequest(OpenGLProgram("fma", key, layout, linked, False, 0.0), [buffer])], None)
            plan.run({})
            buffer.read(values)
            known = b"1" if values[2] == 2**-24 else b"0"
            self.cache.put(key, known)
        return known == b"1"

    def identity(self) -> tuple[Any, ...]:
        limits = self.limits
        switches = (self.target.optimise, self.target.fuses)
        return (self.backend, limits.renderer, limits.version, limits.vendor, limits.workgroup, *switches)

    def allocate(self, nbytes: int) -> OpenGLBuffer:
        return self.memory.allocate(nbytes)

    def source(self, kernel: Kernel) -> str:
        return self._emit(kernel, kernel.workgroup).text

    def _emit(self, kernel: Kernel, workgroup: int) -> Source:
        from engine.compiler.emit.cstyle import emit
        from engine.compiler.emit.dialect_glsl import GLSL

        return emit(replace(kernel, workgroup=min(workgroup, self.limits.workgroup)), GLSL, self.target)

    def compile(self, kernel: Kernel) -> OpenGLProgram:
        return self.compile_source(kernel.name, lambda workgroup: self._emit(kernel, workgroup), kernel.workgroup)

    def compile_source(self, name: str, emit: Callable[[int], Source], workgroup: int) -> OpenGLProgram:
        """The program of `emit(workgroup)`; of a smaller one where the driver has no resources for it. Raises CompileError."""
        started = time.perf_counter()
        source = emit(workgroup)
        known = self._programs.get(self.compiler.key(source.text))
        if known is not None:
            return replace(known, layout=LaunchLayout.of(source), cached=True, seconds=time.perf_counter() - started)
        events.show(4, f"source of {name}\n{source.text}")
        source, key, linked, cached = self.compiler.make(name, emit, workgroup)
        return self._keep(OpenGLProgram(name, key, LaunchLayout.of(source), linked, cached, time.perf_counter() - started))

    def _keep(self, program: OpenGLProgram) -> OpenGLProgram:
        """Tells of a kernel that is ready, and remembers it."""
        events.record("cache_hit" if program.cached else "compile", kernel=program.name, seconds=program.seconds)
        if not program.cached:
            events.record("cache_miss", kernel=program.name)
        self._programs[program.key] = program
        return program

    def pack(self, program: Program) -> tuple[Any, ...]:
        assert isinstance(program, OpenGLProgram)
        return (program.name, program.key, program.layout.pack())

    def unpack(self, packed: tuple[Any, ...]) -> OpenGLProgram | None:
        started = time.perf_counter()
        name, key, fields = packed
        layout = LaunchLayout.unpack(fields)
        known = self._programs.get(key)
        if known is not None:
            return replace(known, layout=layout, cached=True, seconds=time.perf_counter() - started)
        linked = self.compiler.cached(name, key)
        if linked is None:
            return None
        return self._keep(OpenGLProgram(name, key, layout, linked, True, time.perf_counter() - started))

    def executable(self, launches: Sequence[LaunchRequest], parameters: np.ndarray[Any, Any] | None) -> OpenGLPlan:
        return OpenGLPlan(self, launches, parameters)

    def close(self) -> None:
        """Gives the context back and ends its thread; what lay in the device's memory is gone."""
        self._programs.clear()
        self.thread.close()
