"""The CPU backend: kernels as machine code through LLVM, plans on a pool of threads.

A plan is a table of launches in native memory; running it is one native call, whatever the number of kernels. Workgroups are
handed out as threads come for them, several at a time where they are small. Kernels are kept by their IR: in this process, and
in the disk cache across processes. What runs needs neither the compiler nor LLVM; both are imported when something is compiled.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.compiler.target import Target
from engine.frontend.printing import line
from engine.frontend.storage import Buffer, Memory
from engine.graph.uop import Op, Shape, UOp, size_value
from engine.runtime import events
from engine.runtime.cache import Cache, digest
from engine.runtime.device import UNTOLD, DeviceError, LaunchRequest, Program, Resources
from engine.runtime.devices.known_host import known_host, llvm_identity
from engine.runtime.devices.native import PASSES, CompileError, Library, LoadError, assembly, compile_ir, load_object
from engine.runtime.devices.native_pool import Launch, LaunchTable, Pool
from engine.runtime.packing import pack_shape, unpack_shape

if TYPE_CHECKING:
    from engine.compiler.kernel import Kernel
    from engine.runtime.devices.reference import CheckError

_PIECES = 24  # chunks a thread should find in a launch, so that all end at about the same time


_PRINTER = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p)
_CHECKER = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_int32))


class Printer:
    """What a kernel's debug_prints call, on whichever thread they run. It lives as long as the code that calls it."""

    def __init__(self, prints: Sequence[UOp], record: int) -> None:
        self._record = record  # bytes for a value of a group
        self.formats: list[str] = [node.arg[0] for node in prints]
        self.types = [[value.dtype.numpy for value in node.src[1:]] for node in prints]
        self._function = _PRINTER(self._print)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def _print(self, number: int, lanes: int, records: int) -> None:
        """The lines of one group."""
        columns = [
            np.frombuffer(ctypes.string_at(records + k * self._record, self._record), kind)
            for k, kind in enumerate(self.types[number])
        ]
        live = [lane for lane in range(lanes.bit_length()) if lanes >> lane & 1]
        if live:
            print("\n".join(line(self.formats[number], [column[lane] for column in columns]) for lane in live), file=sys.stderr)


class Checker:
    """What a kernel's checks call (CHECK=1), on whichever thread they run. `error`: the first violation, until it is raised."""

    def __init__(self, name: str, nodes: Sequence[UOp]) -> None:
        self.name, self.nodes = name, nodes
        self.error: CheckError | None = None
        self._function = _CHECKER(self._check)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def _check(self, number: int, index: int, size: int, axes: int, coordinates: Any) -> None:
        from engine.runtime.devices.reference import CheckError, described

        if self.error is None:
            node = self.nodes[number]
            lane = None if axes < 0 else tuple(coordinates[:axes])
            what = f"index {index} is outside a size of {size}"
            if node.op == Op.APPEND:
                what = f"{node.src[3].dtype.count} slots from {index} on do not fit a private array of {node.dtype.length}"
            self.error = CheckError(self.name, node, what, lane, described(node))

    def settle(self) -> None:
        """Raises CheckError where there was a violation."""
        error, self.error = self.error, None
        if error is not None:
            raise error


@dataclass(frozen=True)
class Grid:
    """How a kernel's lanes are cut into workgroups: each size by its step, then `per` of these pieces a workgroup."""

    sizes: Shape
    steps: tuple[int, ...]
    per: int

    @staticmethod
    def of(kernel: Kernel, width: int) -> Grid:
        """The grid that the emitter walks: tiles over the last two axes, or groups along the last one."""
        from engine.compiler.emit.llvm_walk import groups_in, tile_shape

        last = tile_shape(width) if kernel.walk == "tiles" else (width,) if kernel.lanes else ()
        return Grid(kernel.lanes, (1,) * (len(kernel.lanes) - len(last)) + last, groups_in(kernel, width))

    def workgroups(self, dims: dict[str, int]) -> int:
        """How many cover the lanes, given the values of the named sizes."""
        pieces = 1
        for size, step in zip(self.sizes, self.steps, strict=True):
            pieces *= -(-size_value(size, dims) // step)
        return -(-pieces // self.per)


@dataclass
class CpuProgram:
    """A kernel's machine code, and what a launch of it needs to know. `dims`: the sizes it reads; `key`: of its code in the cache."""

    name: str
    key: str
    library: Library
    grid: Grid
    dims: list[str]
    ordered: bool
    cached: bool
    seconds: float
    workgroup: int
    resources: Resources = UNTOLD
    printer: Printer | None = None
    checker: Checker | None = None


class CpuPlan:
    """Launches with every address fixed."""

    def __init__(self, device: CpuDevice, launches: Sequence[LaunchRequest]) -> None:
        self.device = device
        self.launches = list(launches)
        self.programs: list[CpuProgram] = [launch.program for launch in launches]  # type: ignore[misc]
        self.checkers = [p.checker for p in self.programs if p.checker is not None]
        self.sizes = [np.zeros(max(1, len(p.dims)), np.int32) for p in self.programs]
        rows = [
            Launch(p.library.address(p.name), [a.ctypes.data for a in launch.arrays], size.ctypes.data, 0, 1, p.ordered)
            for p, launch, size in zip(self.programs, self.launches, self.sizes, strict=True)
        ]
        self.table = LaunchTable(rows, keep=[self.programs, self.sizes])  # `launches` keeps the arrays, which may change
        self.address, self.count = self.table.address, len(rows)

    def resize(self, dims: dict[str, int]) -> None:
        threads = self.device.pool.threads
        for i, program in enumerate(self.programs):
            for k, name in enumerate(program.dims):
                self.sizes[i][k] = dims[name]
            number = program.grid.workgroups(dims)
            self.table.set_workgroups(i, number, max(1, number // (threads * _PIECES)))

    def rebind(self, launch: int, slot: int, memory: Memory) -> None:
        self.launches[launch].arrays[slot] = memory
        self.table.set_buffer(launch, slot, memory.ctypes.data)

    def run(self, dims: dict[str, int]) -> None:
        self.device.pool.run(self.address, self.count, self.table.times_address)
        for checker in self.checkers:
            checker.settle()

    @property
    def seconds(self) -> list[float]:
        return [float(end - start) * 1e-9 for start, end in self.table.times]


class CpuDevice:
    """This machine's processor. `threads`: None takes what affinity and quotas allow. `group`: SIMD lanes (16, 8, 4), None the widest.

    `NOOPT=1` when it is opened: kernels are compiled as written, without passes and without fma. `CHECK=1`: with checks of every index.
    """

    backend = "cpu"
    host_memory = True

    def __init__(self, threads: int | None = None, group: int | None = None, contract: bool = True, cache: Cache | None = None) -> None:
        self.cache = cache if cache is not None else Cache.from_environment()
        try:
            known = known_host(group, threads, self.cache)
        except ValueError as error:
            raise DeviceError(str(error)) from error
        self.host = known.host
        self.name = f"{_processor() or self.host.cpu}"
        self.driver = f"LLVM {known.llvm}"
        self.software = False
        self.compute_units, self.group_width = self.host.threads, self.host.width
        self.memory_bytes = _memory()
        self.buffer_bytes: int | None = None
        self.optimise = not events.unoptimised()
        self.contract = contract and self.optimise
        self.check = events.checking()
        self.target = Target("cpu", group=self.group_width, contract=self.contract, optimise=self.optimise)
        self._pool: Pool | None = None
        self._programs: dict[str, CpuProgram] = {}

    @property
    def pool(self) -> Pool:
        """The threads, started when first needed."""
        if self._pool is None:
            self._pool = Pool(cache=self.cache, here=self.host)
        return self._pool

    def identity(self) -> tuple[Any, ...]:
        host, switches = self.host, (self.optimise, self.contract, self.check)
        return (self.backend, host.triple, host.cpu, host.features, host.width, llvm_identity(), PASSES, *switches)

    def source(self, kernel: Kernel) -> str:
        from engine.compiler.emit.llvm import emit

        return emit(kernel, self.group_width, self.contract, self.check)

    def compile(self, kernel: Kernel) -> CpuProgram:
        from engine.compiler.emit.llvm import dim_names
        from engine.compiler.emit.llvm_check import CHECK, checked_of
        from engine.compiler.emit.llvm_print import PRINT, RECORD, prints_of

        started = time.perf_counter()
        ir = self.source(kernel)
        key = digest("cpu", ir, self.host.triple, self.host.cpu, self.host.features, llvm_identity(), PASSES, self.optimise)
        if self.check:
            kernel.stats["checks"] = len(checked_of(kernel))
        known = self._programs.get(key)
        if known is not None:
            grid, seconds = Grid.of(kernel, self.group_width), time.perf_counter() - started
            return replace(known, grid=grid, ordered=kernel.ordered, cached=True, seconds=seconds, workgroup=kernel.workgroup)
        events.show(4, f"source of {kernel.name}\n{ir}")
        data = self.cache.get(key)
        cached = data is not None
        if data is None:
            data = compile_ir(ir, name=kernel.name, optimise=self.optimise, target=self.host)
            self.cache.put(key, data)
        if events.debug_level() >= 6:
            listing = assembly(ir, name=kernel.name, optimise=self.optimise, target=self.host)
            events.show(6, f"assembly of {kernel.name}\n{listing}\n{resources(kernel.name, listing)}")
        prints = prints_of(kernel)
        printer = Printer(prints, RECORD) if prints else None
        checker = Checker(kernel.name, checked_of(kernel)) if self.check else None
        library = load_object(data, {name: f.address for name, f in ((PRINT, printer), (CHECK, checker)) if f is not None})
        library.address(kernel.name)  # linked now, and not when it is launched
        grid, dims = Grid.of(kernel, self.group_width), dim_names(kernel, self.check)
        seconds = time.perf_counter() - started
        program = CpuProgram(kernel.name, key, library, grid, dims, kernel.ordered, cached, seconds, kernel.workgroup)
        return self._keep(replace(program, printer=printer, checker=checker))

    def _keep(self, program: CpuProgram) -> CpuProgram:
        """Tells of a kernel that is ready, and remembers it."""
        events.record("cache_hit" if program.cached else "compile", kernel=program.name, seconds=program.seconds)
        if not program.cached:
            events.record("cache_miss", kernel=program.name)
        self._programs[program.key] = program
        return program

    def pack(self, program: Program) -> tuple[Any, ...] | None:
        assert isinstance(program, CpuProgram)
        grid = program.grid
        if program.printer is not None or program.checker is not None:  # it calls back into the process that traced it
            return None
        return (program.name, program.key, program.dims, program.ordered, pack_shape(grid.sizes), grid.steps, grid.per, program.workgroup)

    def unpack(self, packed: tuple[Any, ...]) -> CpuProgram | None:
        started = time.perf_counter()
        name, key, dims, ordered, sizes, steps, per, workgroup = packed
        grid = Grid(unpack_shape(sizes), steps, per)
        known = self._programs.get(key)
        if known is not None:
            return replace(known, grid=grid, ordered=ordered, cached=True, seconds=time.perf_counter() - started, workgroup=workgroup)
        data = self.cache.get(key)
        if data is None:
            return None
        try:
            library = load_object(data)
            library.address(name)
        except LoadError:
            return None
        return self._keep(CpuProgram(name, key, library, grid, dims, ordered, True, time.perf_counter() - started, workgroup))

    def executable(self, launches: Sequence[LaunchRequest], parameters: np.ndarray[Any, Any] | None) -> CpuPlan:
        return CpuPlan(self, launches)

    def allocate(self, nbytes: int) -> Buffer:
        raise AssertionError("kernels work on the host's memory")

    def close(self) -> None:
        """Ends the threads."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def resources(name: str, listing: str) -> str:
    """One line on what a kernel's assembly uses: instructions, those that move vectors to and from the stack, its frame."""
    rows = [row.strip() for row in listing.splitlines()]
    instructions = [row for row in rows if row and not row.startswith((".", "#", "//")) and not row.split()[0].endswith(":")]
    spills = sum(1 for row in instructions if "Spill" in row or "Reload" in row)
    frames = re.findall(r"\bsub\w*\s+(?:\$(\d+), %rsp|sp, sp, #(\d+))", listing)
    frame = max((int(x86 or arm) for x86, arm in frames), default=0)
    return f"{name}: {len(instructions)} instructions, {spills} spills and reloads, {frame} bytes of stack"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for row in file:
                if row.startswith("model name"):
                    return row.split(":", 1)[1].strip()
    except OSError:
        pass
    return ""


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


__all__ = ["CompileError", "CpuDevice", "CpuPlan", "CpuProgram"]
