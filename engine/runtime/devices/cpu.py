"""The CPU backend: kernels as machine code through LLVM, plans on a pool of threads.

A plan is a table of launches in native memory; running it is one native call, whatever the number of kernels. Workgroups are
handed out as threads come for them, several at a time where they are small. Kernels are kept by their IR: in this process, and
in the disk cache across processes.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from engine.compiler.emit.llvm import dim_names, emit
from engine.compiler.emit.llvm_check import CHECK, checked_of
from engine.compiler.emit.llvm_print import PRINT, RECORD, prints_of
from engine.compiler.emit.llvm_walk import workgroups
from engine.compiler.kernel import Kernel
from engine.compiler.target import Target
from engine.frontend.printing import line
from engine.graph.uop import Op, UOp
from engine.runtime import events
from engine.runtime.cache import Cache, digest
from engine.runtime.device import DeviceError, LaunchRequest
from engine.runtime.devices.native import PASSES, CompileError, Library, assembly, compile_ir, load_object
from engine.runtime.devices.native_host import host
from engine.runtime.devices.native_pool import Launch, LaunchTable, Pool
from engine.runtime.devices.reference import CheckError, described

_PIECES = 24  # chunks a thread should find in a launch, so that all end at about the same time


_PRINTER = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p)
_CHECKER = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_int32))


class Printer:
    """What a kernel's debug_prints call, on whichever thread they run. It lives as long as the code that calls it."""

    def __init__(self, prints: Sequence[UOp]) -> None:
        self.formats: list[str] = [node.arg[0] for node in prints]
        self.types = [[value.dtype.numpy for value in node.src[1:]] for node in prints]
        self._function = _PRINTER(self._print)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def _print(self, number: int, lanes: int, records: int) -> None:
        """The lines of one group."""
        columns = [
            np.frombuffer(ctypes.string_at(records + k * RECORD, RECORD), kind) for k, kind in enumerate(self.types[number])
        ]
        live = [lane for lane in range(lanes.bit_length()) if lanes >> lane & 1]
        if live:
            print("\n".join(line(self.formats[number], [column[lane] for column in columns]) for lane in live), file=sys.stderr)


class Checker:
    """What a kernel's checks call (CHECK=1), on whichever thread they run. `error`: the first violation, until it is raised."""

    def __init__(self, kernel: Kernel) -> None:
        self.name, self.nodes = kernel.name, checked_of(kernel)
        self.error: CheckError | None = None
        self._function = _CHECKER(self._check)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def _check(self, number: int, index: int, size: int, axes: int, coordinates: Any) -> None:
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


@dataclass
class CpuProgram:
    """A kernel's machine code, and the names of the sizes it reads."""

    kernel: Kernel
    library: Library
    address: int
    dims: list[str]
    cached: bool
    seconds: float
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
            Launch(p.address, [a.ctypes.data for a in launch.arrays], size.ctypes.data, 0, 1, p.kernel.ordered)
            for p, launch, size in zip(self.programs, self.launches, self.sizes, strict=True)
        ]
        self.table = LaunchTable(rows, keep=[self.programs, self.sizes])  # `launches` keeps the arrays, which may change
        self.address, self.count = self.table.address, len(rows)

    def resize(self, dims: dict[str, int]) -> None:
        threads = self.device.pool.threads
        for i, program in enumerate(self.programs):
            for k, name in enumerate(program.dims):
                self.sizes[i][k] = dims[name]
            number = workgroups(program.kernel, self.device.group_width, dims)
            self.table.set_workgroups(i, number, max(1, number // (threads * _PIECES)))

    def rebind(self, launch: int, slot: int, array: np.ndarray[Any, Any]) -> None:
        self.launches[launch].arrays[slot] = array
        self.table.set_buffer(launch, slot, array.ctypes.data)

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

    def __init__(self, threads: int | None = None, group: int | None = None, contract: bool = True, cache: Cache | None = None) -> None:
        try:
            self.host = host(group, threads)
        except ValueError as error:
            raise DeviceError(str(error)) from error
        self.name = f"{_processor() or self.host.cpu}"
        self.driver = "LLVM " + ".".join(map(str, llvm.llvm_version_info))
        self.software = False
        self.compute_units, self.group_width = self.host.threads, self.host.width
        self.memory_bytes = _memory()
        self.optimise = not events.unoptimised()
        self.contract = contract and self.optimise
        self.check = events.checking()
        self.target = Target("cpu", group=self.group_width, contract=self.contract, optimise=self.optimise)
        self.cache = cache if cache is not None else Cache.from_environment()
        self._pool: Pool | None = None
        self._programs: dict[str, CpuProgram] = {}

    @property
    def pool(self) -> Pool:
        """The threads, started when first needed."""
        if self._pool is None:
            self._pool = Pool(self.host.threads, cache=self.cache)
        return self._pool

    def source(self, kernel: Kernel) -> str:
        return emit(kernel, self.group_width, self.contract, self.check)

    def compile(self, kernel: Kernel) -> CpuProgram:
        started = time.perf_counter()
        ir = self.source(kernel)
        key = digest("cpu", ir, self.host.triple, self.host.cpu, self.host.features, llvm.llvm_version_info, PASSES, self.optimise)
        if self.check:
            kernel.stats["checks"] = len(checked_of(kernel))
        known = self._programs.get(key)
        if known is not None:
            return CpuProgram(kernel, known.library, known.address, known.dims, True, time.perf_counter() - started, known.printer, known.checker)
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
        printer = Printer(prints) if prints else None
        checker = Checker(kernel) if self.check else None
        symbols = {name: f.address for name, f in ((PRINT, printer), (CHECK, checker)) if f is not None}
        library = load_object(data, symbols)
        seconds = time.perf_counter() - started
        events.record("cache_hit" if cached else "compile", kernel=kernel.name, seconds=seconds)
        if not cached:
            events.record("cache_miss", kernel=kernel.name)
        dims = dim_names(kernel, self.check)
        program = CpuProgram(kernel, library, library.address(kernel.name), dims, cached, seconds, printer, checker)
        self._programs[key] = program
        return program

    def executable(self, launches: Sequence[LaunchRequest]) -> CpuPlan:
        return CpuPlan(self, launches)

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
