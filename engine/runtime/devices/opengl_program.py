"""Kernels as OpenGL programs: from text, or from the driver's own binary.

A `Compiler` makes program objects. What the driver hands out as a binary goes to the disk cache together with the text, so that a
driver that refuses it later (it may, at any time) gets the text instead; drivers that hand out none are given the text each time.

Linking is not the end of compiling: some drivers make machine code only when a program is first dispatched, which may take as long as
all before it. So each program is dispatched here once over no workgroups at all: an indirect dispatch, since drivers return early from a
direct one that is empty. What then still fails for lack of resources is tried again with half the workgroup, down to a few lanes, and
one warning tells of it.
"""

from __future__ import annotations

import ctypes
import marshal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.runtime import events
from engine.runtime.cache import Cache, digest
from engine.runtime.device import DeviceError, Resources
from engine.runtime.devices import opengl_functions as gl
from engine.runtime.devices.failures import compile_error, complaint
from engine.runtime.devices.launch_layout import LaunchLayout
from engine.runtime.devices.opengl_context import GLThread, Owned
from engine.runtime.devices.opengl_limits import Limits
from engine.runtime.devices.opengl_memory import Block, Memory

if TYPE_CHECKING:
    from engine.compiler.emit.cstyle import Source

_LEAST = 32  # lanes of a workgroup below which no driver's resources are short
_EXTENSIONS = {"int64": ("GL_ARB_gpu_shader_int64", "64-bit integers")}


class ProgramObject(Owned):
    """A linked program. `first_group`: where its uniform of that name stands, -1 where it has none; `first`: the value it has.

    parameter_bytes: what its block of parameters spans, 0 where it has none.
    """

    def __init__(self, thread: GLThread, glo: int, first_group: int, parameter_bytes: int) -> None:
        super().__init__(thread, thread.functions.DeleteProgram, glo)
        self.glo, self.first_group, self.parameter_bytes = glo, first_group, parameter_bytes
        self.first = 0


@dataclass
class OpenGLProgram:
    """A kernel that is ready to run. `key`: of its binary and text in the cache."""

    name: str
    key: str
    layout: LaunchLayout
    linked: ProgramObject
    cached: bool
    seconds: float
    resources: Resources = field(default_factory=Resources)

    @property
    def workgroup(self) -> int:
        """Lanes of a workgroup as the device runs it, which may be fewer than were asked for."""
        return self.layout.workgroup


class LinkError(RuntimeError):
    """The driver compiled a text, and made no program of it: `args[0]` is its log."""


class Compiler:
    """Makes programs of texts. Its methods may be called on any thread."""

    def __init__(self, thread: GLThread, limits: Limits, memory: Memory, cache: Cache) -> None:
        self.thread, self.limits, self.cache = thread, limits, cache
        self.compiler = f"the OpenGL driver of {limits.renderer}, {limits.version}"
        self._nothing: Block = thread.call(_no_workgroups, thread.functions, memory)

    def key(self, text: str) -> str:
        """What the binary of a text is found by."""
        return digest("opengl", text, self.limits.renderer, self.limits.version, self.limits.vendor)

    def check_features(self, kernel: str, source: Source) -> None:
        """Raises DeviceError where a text needs what the device has not."""
        for feature in sorted(source.features):
            extension, told = _EXTENSIONS.get(feature, ("", ""))
            if extension and extension not in self.thread.functions.extensions:
                raise DeviceError(f"{kernel} computes with {told}, which {self.limits.renderer} lacks ({extension}); use --backend cpu")

    def make(self, kernel: str, emit: Callable[[int], Source], workgroup: int) -> tuple[Source, str, ProgramObject, bool]:
        """The program of `emit(workgroup)`, or of a smaller workgroup where the driver has no resources for it.

        The result: the text that it was made of, its key, the program, and whether its binary was in the cache. Raises CompileError,
        and DeviceError for features that are lacking.
        """
        asked, problem = workgroup, ""
        while True:
            source = emit(workgroup)
            self.check_features(kernel, source)
            key = self.key(source.text)
            program = self.cached(kernel, key)
            if program is not None:
                return source, key, program, True
            try:
                program = self.program(kernel, source.text)
                break
            except (LinkError, MemoryError) as error:
                problem = problem or str(error)
                smaller = source.workgroup // 2
                if smaller < _LEAST:
                    raise compile_error(kernel, self.compiler, source.text, problem, self.cache) from error
                workgroup = smaller
        if problem:
            events.warn_once(
                f"opengl workgroup {key}", f"{kernel} runs in workgroups of {source.workgroup} instead of {asked}: {complaint(problem)}"
            )
        return source, key, program, False

    def program(self, kernel: str, text: str) -> ProgramObject:
        """The program of a text, which goes to the disk cache. Raises CompileError, LinkError and MemoryError."""
        return self.thread.call(self._from_text, kernel, self.key(text), text)

    def cached(self, kernel: str, key: str) -> ProgramObject | None:
        """The program of this key from the disk cache, None where it is not there."""
        data = self.cache.get(key)
        if data is None:
            return None
        try:
            form, binary, text = marshal.loads(data)
            return self.thread.call(self._from_binary, kernel, key, form, binary, text)
        except (ValueError, TypeError, EOFError, LinkError):  # not as we wrote it; a text that the driver refuses by now
            return None

    def _from_binary(self, kernel: str, key: str, form: int, binary: bytes, text: str) -> ProgramObject:
        """On the thread. Raises LinkError and CompileError where the driver refuses binary and text."""
        functions = self.thread.functions
        if binary:
            program = functions.CreateProgram()
            functions.ProgramBinary(program, form, binary, len(binary))
            refused = functions.errors() or not _status(functions.GetProgramiv, program, gl.LINK_STATUS)
            if not refused:
                return self._ready(kernel, program)
            functions.DeleteProgram(program)
        return self._from_text(kernel, key, text)

    def _from_text(self, kernel: str, key: str, text: str) -> ProgramObject:
        """On the thread. Keeps text and binary in the cache. Raises CompileError, LinkError and MemoryError."""
        functions = self.thread.functions
        shader = functions.CreateShader(gl.COMPUTE_SHADER)
        program = functions.CreateProgram()
        try:
            lines = (ctypes.c_char_p * 1)(text.encode())
            functions.ShaderSource(shader, 1, lines, None)
            functions.CompileShader(shader)
            if not _status(functions.GetShaderiv, shader, gl.COMPILE_STATUS):
                log = functions.log(shader, functions.GetShaderiv, functions.GetShaderInfoLog)
                raise compile_error(kernel, self.compiler, text, log, self.cache)
            functions.ProgramParameteri(program, gl.PROGRAM_BINARY_RETRIEVABLE_HINT, 1)
            functions.AttachShader(program, shader)
            functions.LinkProgram(program)
            if not _status(functions.GetProgramiv, program, gl.LINK_STATUS):
                log = functions.log(program, functions.GetProgramiv, functions.GetProgramInfoLog)
                raise LinkError(log or "the driver does not link it, and does not say why")
            made = self._ready(kernel, program)
        except BaseException:
            functions.DeleteProgram(program)
            raise
        finally:
            functions.DeleteShader(shader)
        self.cache.put(key, marshal.dumps((*self._binary(program), text)))
        return made

    def _ready(self, kernel: str, program: int) -> ProgramObject:
        """A linked program after its first dispatch, which is over nothing. Raises MemoryError where it takes too many resources."""
        functions = self.thread.functions
        functions.UseProgram(program)
        functions.BindBuffer(gl.DISPATCH_INDIRECT_BUFFER, self._nothing.glo)
        functions.DispatchComputeIndirect(0)
        functions.Finish()
        functions.check(f"making machine code of {kernel}")
        block = functions.GetUniformBlockIndex(program, b"Parameters")
        size = ctypes.c_int(0)
        if block != gl.INVALID_INDEX:
            functions.GetActiveUniformBlockiv(program, block, gl.UNIFORM_BLOCK_DATA_SIZE, ctypes.byref(size))
        return ProgramObject(self.thread, program, functions.GetUniformLocation(program, b"first_group"), size.value)

    def _binary(self, program: int) -> tuple[int, bytes]:
        """Form and bytes of a linked program; (0, b"") where the driver hands out none."""
        functions = self.thread.functions
        size = _status(functions.GetProgramiv, program, gl.PROGRAM_BINARY_LENGTH) if self.limits.binaries else 0
        if size == 0:
            return 0, b""
        data, length, form = ctypes.create_string_buffer(size), ctypes.c_int(0), ctypes.c_uint(0)
        functions.GetProgramBinary(program, size, ctypes.byref(length), ctypes.byref(form), data)
        return (0, b"") if functions.errors() else (form.value, data.raw[: length.value])


def _status(ask: Callable[..., None], what: int, name: int) -> int:
    """One integer of a shader or a program."""
    value = ctypes.c_int(0)
    ask(what, name, ctypes.byref(value))
    return value.value


def _no_workgroups(functions: gl.Functions, memory: Memory) -> Block:
    """What an indirect dispatch over nothing reads: three zeros."""
    block = memory.block(12, gl.DYNAMIC_DRAW)
    zeros: Any = (ctypes.c_uint * 3)(0, 0, 0)
    functions.BindBuffer(gl.COPY_WRITE_BUFFER, block.glo)
    functions.BufferSubData(gl.COPY_WRITE_BUFFER, 0, 12, zeros)
    return block
