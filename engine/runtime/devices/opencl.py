"""The OpenCL backend: kernels as OpenCL C, compiled by the driver of whatever device there is.

The emitter writes a kernel for one size of workgroup. What a device can run depends on what its compiler made of the kernel, so the
size is settled here: the one that was asked for, less where the compiled kernel allows no more, or where a launch fails for want of
resources. A smaller size means other text. What was found out is kept beside the machine code, so that it is found out once.

Machine code lies in the disk cache, by the text and everything of the driver that it depends on. A driver may refuse an entry
(another build of the same version): then it is made anew. What runs from there needs no compiler of ours.
"""

from __future__ import annotations

import marshal
import re
import threading
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.compiler.target import Target
from engine.runtime import events
from engine.runtime.cache import Cache, digest
from engine.runtime.device import DeviceError, LaunchRequest, Program, Resources
from engine.runtime.devices.failures import compile_error
from engine.runtime.devices.launch_layout import LaunchLayout
from engine.runtime.devices.opencl_binary import binary_of
from engine.runtime.devices.opencl_choice import binding, choose, options, probe
from engine.runtime.devices.opencl_memory import OpenCLBuffer, Room, SharedBuffer
from engine.runtime.devices.opencl_plan import OpenCLPlan
from engine.runtime.devices.opencl_sharing import gl_sharing, sharing_device

if TYPE_CHECKING:
    from engine.compiler.emit.cstyle import Source
    from engine.compiler.kernel import Kernel

_POINTER = 8  # bytes of an argument that is a buffer
_SPARE_ARGUMENTS = 64 * 4  # bytes that named sizes and offsets may take of a kernel's arguments


@dataclass(frozen=True)
class Code:
    """A kernel as the driver built it. key: of its machine code in the cache; allowed: the largest workgroup it can run in."""

    key: str
    built: Any
    layout: LaunchLayout
    resources: Resources
    allowed: int


@dataclass
class OpenCLProgram:
    """A compiled kernel. `code` is exchanged when a launch needs a smaller workgroup; `kernel`: None where it came from a stored plan."""

    code: Code
    cached: bool
    seconds: float
    kernel: Kernel | None = None

    @property
    def name(self) -> str:
        return self.code.layout.name

    @property
    def workgroup(self) -> int:
        return self.code.layout.workgroup

    @property
    def resources(self) -> Resources:
        return self.code.resources


class OpenCLDevice:
    """A device of OpenCL. `device`: its number in `probe`'s order or a part of its name, None the best. `share`: True for the device and
    beside the context that draws OpenGL on this thread, so that `shared_buffer` works.

    `NOOPT=1` when it is opened: the driver's compiler optimises nothing, and nothing is contracted to fma. Raises DeviceError.
    """

    backend = "opencl"
    host_memory = False
    group_width = 1

    def __init__(self, *, device: str | int | None = None, cache: Cache | None = None, share: bool = False, contract: bool = True) -> None:
        cl = self._cl = binding()
        found, properties = sharing_device() if share else (choose(device), None)
        self.cache = cache if cache is not None else Cache.from_environment()
        handle = found.handle
        self.name, self.driver, self.software = found.name, found.driver, found.software
        self.compute_units, self.extensions = found.compute_units, found.extensions
        self.memory_bytes: int | None = handle.global_mem_size
        self.buffer_bytes: int | None = handle.max_mem_alloc_size
        optimise = not events.unoptimised()
        self.options = tuple(options(cl, found, optimise))
        self.target = Target(
            "opencl",
            group=1,
            max_buffers=(handle.max_parameter_size - _SPARE_ARGUMENTS) // _POINTER,
            max_workgroup=min(handle.max_work_group_size, handle.max_work_item_sizes[0]),
            shared_bytes=handle.local_mem_size,
            contract=contract and optimise,
            optimise=optimise,
        )
        self._features = {"int64", *(("float64",) if handle.double_fp_config else ()), *(("float16",) if self._has("cl_khr_fp16") else ())}
        try:
            context = cl.Context([handle], properties)
            queue = cl.CommandQueue(context, handle, cl.command_queue_properties.PROFILING_ENABLE)
        except cl.Error as error:
            raise DeviceError(f"{found.name} cannot be opened: {str(error).splitlines()[0]}") from error
        self._handle, self._context, self._can_share = handle, context, share
        self.room = Room(context, queue, found.name, handle.max_mem_alloc_size, handle.global_mem_size)
        self._codes: dict[str, Code] = {}
        self._limits: dict[str, int | None] = {}  # by key of the machine code: the workgroup to emit for instead
        self._lock = threading.RLock()

    def _has(self, extension: str) -> bool:
        return extension in self.extensions.split()

    def identity(self) -> tuple[Any, ...]:
        target = self.target
        return (self.backend, self.name, self.driver, self.options, target.max_workgroup, target.contract, target.optimise)

    # ---- memory ----

    def allocate(self, nbytes: int) -> OpenCLBuffer:
        return self.room.allocate(nbytes)

    def shared_buffer(self, gl_name: int, nbytes: int) -> SharedBuffer:
        """OpenGL's buffer object `gl_name` of `nbytes` as memory for kernels; the device must have been opened with `share`.

        Raises DeviceError, with the reason, where that is not to be had.
        """
        problem = gl_sharing(self)
        if problem is None and not self._can_share:
            problem = f"{self.name} was opened without a window to share with"
        if problem is not None:
            raise DeviceError(problem)
        return self.room.shared(gl_name, nbytes)

    # ---- compiling ----

    def source(self, kernel: Kernel) -> str:
        return self._emit(kernel, kernel.workgroup).text

    def _emit(self, kernel: Kernel, workgroup: int) -> Source:
        """The text of a kernel for workgroups of at most this size."""
        from engine.compiler.emit.cstyle import emit
        from engine.compiler.emit.dialect_opencl import OPENCL

        return emit(kernel if workgroup == kernel.workgroup else replace(kernel, workgroup=workgroup), OPENCL, self.target)

    def compile(self, kernel: Kernel) -> OpenCLProgram:
        started = time.perf_counter()
        with self._lock:
            code, cached, fresh = self._settled(kernel, self._emit(kernel, kernel.workgroup))
        seconds = time.perf_counter() - started
        if fresh:
            _tell(code, cached, seconds)
        return OpenCLProgram(code, cached, seconds, kernel)

    def shrink(self, program: OpenCLProgram, error: Any) -> None:
        """Compiles a program for half its workgroup, since a launch failed for want of resources; it is so from now on.

        Raises DeviceError where the kernel came from a stored plan: the next process traces it again, for the smaller size.
        """
        before, resources = program.workgroup, program.resources
        with self._lock:
            self._limit(program.code, before // 2)
            if program.kernel is None:
                raise DeviceError(
                    f"{program.name} cannot be launched in workgroups of {before} on {self.name} ({str(error).splitlines()[0]}); start "
                    f"again: it will have {before // 2}"
                ) from error
            program.code, _, _ = self._settled(program.kernel, self._emit(program.kernel, before // 2))
        known = {
            "registers": resources.registers, "bytes of spilled registers": resources.spill_bytes,
            "bytes of private memory": resources.private_bytes, "bytes of shared memory": resources.shared_bytes,
        }  # fmt: skip
        takes = ", ".join(f"{value} {what}" for what, value in known.items() if value is not None) or "its needs are not told"
        events.warn_once(
            f"workgroup of {program.code.key}",
            f"{program.name} asks too much of {self.name} in workgroups of {before} ({takes}): it runs in ones of {program.workgroup}",
        )

    def _settled(self, kernel: Kernel, source: Source) -> tuple[Code, bool, bool]:
        """The code of a kernel with the largest workgroup that it can run in; whether it was cached, and whether it is new here."""
        missing = sorted(source.features - self._features)
        if missing:
            raise DeviceError(f"{kernel.name} needs {' and '.join(missing)}, which {self.name} has not")
        while True:
            key = digest("opencl", source.text, self.name, self.driver, self.options)
            limit = self._known_limit(key)
            if limit is None:
                code, cached, fresh = self._code(key, kernel.name, source)
                if code.allowed >= source.workgroup:
                    return code, cached, fresh
                limit = 1 << (max(1, code.allowed).bit_length() - 1)
                self._limit(code, limit)
            smaller = self._emit(kernel, limit)
            if smaller.workgroup >= source.workgroup:
                raise DeviceError(f"{kernel.name} needs workgroups of {source.workgroup}, and {self.name} runs it in at most {limit}")
            source = smaller

    def _code(self, key: str, name: str, source: Source) -> tuple[Code, bool, bool]:
        """The code of a text: from this process, the disk cache, or the compiler."""
        layout = LaunchLayout.of(source)
        known = self._codes.get(key)
        if known is not None:
            return replace(known, layout=layout), True, False
        events.show(4, f"source of {name}\n{source.text}")
        code = self._load(key, layout)
        if code is not None:
            return code, True, True
        built, log = self._build(name, source.text)
        binary = binary_of(self._cl, built)
        registers, spills = _registers(log)
        self.cache.put(key, marshal.dumps((binary, registers, spills)))
        return self._keep(key, built, layout, registers, spills, binary), False, True

    def _load(self, key: str, layout: LaunchLayout) -> Code | None:
        """The code that the disk cache holds; None where it holds none, or one that the driver does not take."""
        data = self.cache.get(key)
        if data is None:
            return None
        try:
            binary, registers, spills = marshal.loads(data)
            built = self._cl.Program(self._context, [self._handle], [binary])
            _quietly(built, self.options)
            return self._keep(key, built, layout, registers, spills, binary)
        except (self._cl.Error, ValueError, TypeError, EOFError):
            return None

    def _build(self, name: str, text: str) -> tuple[Any, str]:
        """The driver's program of a text, and its log. Raises CompileError."""
        built = self._cl.Program(self._context, text)
        try:
            _quietly(built, self.options)
        except self._cl.Error as error:
            raise compile_error(name, f"{self.driver} for {self.name}", text, _log(error), self.cache) from error
        return built, built.get_build_info(self._handle, self._cl.program_build_info.LOG) or ""

    def _keep(self, key: str, built: Any, layout: LaunchLayout, registers: int | None, spills: int | None, binary: bytes) -> Code:
        """Asks what a program takes, and remembers it."""
        kernel, info = self._cl.Kernel(built, layout.name), self._cl.kernel_work_group_info
        private = None if self.software else kernel.get_work_group_info(info.PRIVATE_MEM_SIZE, self._handle)
        shared = kernel.get_work_group_info(info.LOCAL_MEM_SIZE, self._handle)
        allowed = kernel.get_work_group_info(info.WORK_GROUP_SIZE, self._handle)
        code = Code(key, built, layout, Resources(registers, spills, shared, private), allowed)
        if events.debug_level() >= 6:
            listing = f"\n{binary.decode()}" if binary.lstrip().startswith(b"//") else ""  # NVIDIA's binaries are PTX
            events.show(6, f"resources of {layout.name}: {code.resources}, workgroups of up to {allowed}{listing}")
        self._codes[key] = code
        return code

    # ---- workgroups ----

    def _known_limit(self, key: str) -> int | None:
        """The workgroup to emit for instead of this text, None where it is good as it is."""
        if key not in self._limits:
            data = self.cache.get(digest("opencl workgroup", key))
            self._limits[key] = int(data) if data is not None and data.isdigit() else None
        return self._limits[key]

    def _limit(self, code: Code, workgroup: int) -> None:
        self._limits[code.key] = workgroup
        self.cache.put(digest("opencl workgroup", code.key), b"%d" % workgroup)

    # ---- plans ----

    def pack(self, program: Program) -> tuple[Any, ...]:
        assert isinstance(program, OpenCLProgram)
        return (program.code.key, program.code.layout.pack())

    def unpack(self, packed: tuple[Any, ...]) -> OpenCLProgram | None:
        started = time.perf_counter()
        key, layout = packed[0], LaunchLayout.unpack(packed[1])
        with self._lock:
            if self._known_limit(key) is not None:
                return None
            known = self._codes.get(key)
            code = replace(known, layout=layout) if known is not None else self._load(key, layout)
        if code is None:
            return None
        seconds = time.perf_counter() - started
        if known is None:
            _tell(code, True, seconds)
        return OpenCLProgram(code, True, seconds)

    def executable(self, launches: Sequence[LaunchRequest], parameters: np.ndarray[Any, Any] | None) -> OpenCLPlan:
        return OpenCLPlan(self, launches, parameters)

    def close(self) -> None:
        """Gives back all memory and machine code; buffers of the device that are still held cannot be read any more."""
        with self._lock:
            if self._context is not None:
                self.room.queue.finish()
                self.room.close()
                self._codes.clear()
                self._context = None


def _tell(code: Code, cached: bool, seconds: float) -> None:
    """Tells of a kernel that is ready."""
    events.record("cache_hit" if cached else "compile", kernel=code.layout.name, seconds=seconds)
    if not cached:
        events.record("cache_miss", kernel=code.layout.name)


def _quietly(program: Any, options: Sequence[str]) -> None:
    """Builds a program; what the compiler says while it succeeds is for the log alone. pyopencl's own cache stays out of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program.build(list(options), cache_dir=False)


def _log(error: Any) -> str:
    """The compiler's log in pyopencl's error, without what pyopencl says around it."""
    text = str(error)
    begun = re.search(r"^Build on <.*>:\s*$", text, re.MULTILINE)
    return re.split(r"^\(options: .*\)", text[begun.end() if begun else 0 :], maxsplit=1, flags=re.MULTILINE)[0].strip()


def _registers(log: str) -> tuple[int | None, int | None]:
    """Registers and bytes of spilled ones, as NVIDIA's compiler tells them; None where a log does not."""
    used = re.search(r"Used (\d+) registers", log)
    spilled = re.search(r"(\d+) bytes spill stores", log)
    return (int(used[1]) if used else None, int(spilled[1]) if spilled else None)


__all__ = ["OpenCLDevice", "OpenCLProgram", "gl_sharing", "probe"]
