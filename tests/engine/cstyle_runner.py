"""Runs the text of a kernel on PoCL (OpenCL) or llvmpipe (OpenGL), with NumPy arrays, and nothing of the engine's own devices.

`run` gives the buffers as a kernel leaves them; `TextDevice` runs whole plans. Packed buffers are put side by side into one, parameters
into one block, with some bytes before each so that wrong offsets are seen.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from engine.compiler.emit.cstyle import Source, emit
from engine.compiler.emit.dialect_glsl import GLSL, PARAMETER_BYTES
from engine.compiler.emit.dialect_opencl import OPENCL
from engine.compiler.kernel import Kernel
from engine.compiler.target import Target
from engine.graph.uop import Op, UOp, size_value
from engine.runtime.device import LaunchRequest
from engine.runtime.devices.interpreter import InterpretedPlan, InterpretedProgram, ReferenceDevice
from engine.runtime.devices.launch_layout import LaunchLayout
from tests.engine.kernel_maker import Maker

Array = np.ndarray[Any, Any]
DIALECTS = ("opencl", "opengl", "opengl textures")
_FORMATS = {
    "R8I": 0x8231, "R8UI": 0x8232, "R16I": 0x8233, "R16UI": 0x8234, "R32F": 0x822E, "R32I": 0x8235, "R32UI": 0x8236,
    "RG32F": 0x8230, "RG32I": 0x823B, "RG32UI": 0x823C, "RGBA32F": 0x8814, "RGBA32I": 0x8D82, "RGBA32UI": 0x8D70,
}  # fmt: skip
TARGETS = {
    "opencl": Target("opencl", contract=False),
    "opengl": Target("opengl", max_buffers=16, packs_read_only=True, contract=False, fuses=False),
    "opengl textures": Target("opengl", max_buffers=16, packs_read_only=True, max_textures=16, contract=False, fuses=False),
}


def finished(m: Maker) -> Kernel:
    """The kernel, its flags told as they are."""
    loaded = {item.src[0] for block in m.kernel.blocks() for item in block.items if isinstance(item, UOp) and item.op == Op.LOAD}
    stores = [item for item in m.body.items if isinstance(item, UOp) and item.op == Op.STORE]
    for buffer in m.kernel.buffers:
        buffer.written = any(s.src[0] is buffer.leaf for s in stores)
        buffer.read = buffer.leaf in loaded or any(s.src[0] is buffer.leaf and s.arg != "set" for s in stores)
    for block in m.kernel.blocks():
        for item in block.items:
            for inner in getattr(item, "arms", []):
                inner.owner = item
    return m.kernel


@functools.cache
def _opencl() -> tuple[Any, Any, Any]:
    cl = pytest.importorskip("pyopencl")
    platforms = cl.get_platforms()
    if not platforms:
        pytest.skip("no OpenCL platform")
    context = cl.Context([platforms[0].get_devices()[0]])
    return cl, context, cl.CommandQueue(context)


@functools.cache
def _opengl() -> Any:
    return pytest.importorskip("moderngl").create_standalone_context(backend="egl")


@functools.cache
def _opengl_thread() -> ThreadPoolExecutor:
    """The thread that the context is current on, and on no other: the main one may have a window's, in another test of this process."""
    pytest.importorskip("moderngl")
    return ThreadPoolExecutor(1, "opengl")


def emitted(kernel: Kernel, dialect: str, target: Target | None = None) -> Source:
    """The text of a kernel for one of `DIALECTS`."""
    return emit(kernel, OPENCL if dialect == "opencl" else GLSL, target or TARGETS[dialect])


def run(kernel: Kernel, arrays: Sequence[Array], dims: Mapping[str, int] | None, dialect: str, target: Target | None = None) -> list[Array]:
    """The kernel's buffers after it has run; `arrays` are those before, flat."""
    return launch(emitted(kernel, dialect, target), arrays, dict(dims or {}), dialect)


class TextPlan(InterpretedPlan):
    """Launches of texts, one after another, on copies of the arrays."""

    device: TextDevice

    def _launch(self, launch_: LaunchRequest, dims: dict[str, int]) -> None:
        program: InterpretedProgram = launch_.program  # type: ignore[assignment]
        arrays: list[Array] = []
        for buffer, array in zip(program.kernel.buffers, launch_.arrays, strict=True):
            assert isinstance(array, np.ndarray)
            arrays.append(array.reshape(-1)[: math.prod(size_value(s, dims) for s in buffer.shape)])
        after = run(program.kernel, arrays, dims, self.device.dialect, self.device.target)
        for buffer, array, result in zip(program.kernel.buffers, arrays, after, strict=True):
            if buffer.written:
                array[:] = result
            else:
                assert array.tobytes() == result.tobytes(), f"{program.kernel.name} wrote to {buffer.leaf!r}"


class TextDevice(ReferenceDevice):
    """A device that compiles texts; memory is the host's, copied for each launch."""

    def __init__(self, dialect: str) -> None:
        super().__init__()
        self.dialect, self.target = dialect, TARGETS[dialect]

    def executable(self, launches: Sequence[LaunchRequest], parameters: Array | None) -> TextPlan:
        return TextPlan(self, launches)


def launch(source: Source, arrays: Sequence[Array], dims: dict[str, int], dialect: str) -> list[Array]:
    """Compiles and runs a text."""
    parameters, pool, words = bytearray(16), bytearray(24), [dims.get(w.split(":")[1], 0) for w in source.words]
    for slot, array in zip(source.slots, arrays, strict=True):
        if slot.kind in ("parameter", "packed"):
            block = parameters if slot.kind == "parameter" else pool
            words[slot.word] = len(block) // 4
            block += array.tobytes()
            block += bytes(-len(block) % 8 + 8)
    own = [_padded(a) for a, s in zip(arrays, source.slots, strict=True) if s.kind == "own"]
    textures = [(_padded(a), s.format) for a, s in zip(arrays, source.slots, strict=True) if s.kind == "texture"]
    assert source.bindings == len(own) + (len(pool) > 24)
    if len(pool) > 24:
        own.append(np.frombuffer(bytes(pool), np.uint8))
    call = _call_opencl if dialect == "opencl" else functools.partial(_on_opengl_thread, textures)
    after = call(source, own, bytes(parameters), np.array(words, np.int32), LaunchLayout.of(source).workgroups(dims))
    left = iter(after)
    results = []
    for slot, array in zip(source.slots, arrays, strict=True):
        results.append(next(left)[: array.nbytes].view(array.dtype) if slot.kind == "own" else array)
    return results


def _padded(array: Array) -> Array:
    """The bytes of an array, some more where they are no whole words."""
    return np.frombuffer(array.tobytes() + bytes(-array.nbytes % 4 or (0 if array.nbytes else 4)), np.uint8)


def _call_opencl(source: Source, own: list[Array], parameters: bytes, words: Array, groups: int) -> list[Array]:
    cl, context, queue = _opencl()
    kernel = getattr(cl.Program(context, source.text).build(["-cl-fp32-correctly-rounded-divide-sqrt"]), source.name)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(context, flags, hostbuf=a) for a in own]
    arguments: list[Any] = [*buffers]
    if source.parameters:
        arguments.append(cl.Buffer(context, flags, hostbuf=np.frombuffer(parameters, np.uint8)))
    if groups:
        half = groups // 2 * source.workgroup  # in two parts, as long launches are
        for first, count in ((0, half), (half, groups * source.workgroup - half)):
            if count:
                kernel(queue, (count,), (source.workgroup,), *arguments, *words, global_offset=(first,))
    results = [a.copy() for a in own]
    for buffer, result in zip(buffers, results, strict=True):
        cl.enqueue_copy(queue, result, buffer)
    return results


def _on_opengl_thread(*arguments: Any) -> list[Array]:
    return _opengl_thread().submit(_call_opengl, *arguments).result()


def _call_opengl(
    textures: list[tuple[Array, str]], source: Source, own: list[Array], parameters: bytes, words: Array, groups: int
) -> list[Array]:
    context = _opengl()
    shader = context.compute_shader(source.text)
    buffers = [context.buffer(a.tobytes()) for a in own]
    for binding, buffer in enumerate(buffers):
        buffer.bind_to_storage_buffer(binding)
    held = [context.buffer(words.tobytes() + bytes(-words.nbytes % 16 or (0 if words.nbytes else 16)))]
    held[0].bind_to_uniform_block(0)
    if source.parameters:
        held.append(context.buffer(parameters + bytes(PARAMETER_BYTES - len(parameters))))
        held[1].bind_to_uniform_block(1)
    gl = ctypes.CDLL("libGL.so.1")
    names = (ctypes.c_uint * (len(textures) or 1))()
    gl.glGenTextures(len(textures), names)
    for unit, (array, format) in enumerate(textures):
        held.append(context.buffer(array.tobytes()))
        gl.glActiveTexture(0x84C0 + unit)
        gl.glBindTexture(0x8C2A, names[unit])
        gl.glTexBuffer(0x8C2A, _FORMATS[format], held[-1].glo)
    for first, count in ((0, groups // 2), (groups // 2, groups - groups // 2)):
        if count:
            if "first_group" in shader:
                shader["first_group"].value = first
            shader.run(count)
            context.memory_barrier()
    context.finish()
    results = [np.frombuffer(b.read(), np.uint8) for b in buffers]
    gl.glDeleteTextures(len(textures), names)
    for resource in (shader, *buffers, *held):
        resource.release()
    return results
