"""Plans on threads: the table of launches that machine code reads, and the pool of threads that runs it.

A `LaunchTable` holds one record for each kernel launch of a plan; `Pool.run` passes it to the machine code of
`native_ir` in one call, without the GIL. A kernel is `void kernel(ptr buffers, ptr parameters, i64 first, i64 last)`:
it runs the workgroups [first, last). It is called in the default floating-point environment (round to nearest,
denormals kept) on every thread, and must not depend on which thread calls it: chunks go to whoever is free.

Workers are daemon threads of Python that enter machine code once and stay there, spinning or asleep, until the pool
ends. They never hold the GIL while they wait or work. Python's own exit would be too late for them, since it may free
what they stand in, so a pool ends its threads at `close()`, when it is collected, and before the interpreter goes
down.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from engine.runtime import events
from engine.runtime.cache import Cache, digest
from engine.runtime.devices import native_ir, native_system
from engine.runtime.devices.known_host import llvm_identity
from engine.runtime.devices.native import PASSES, compile_ir, load_object
from engine.runtime.devices.native_host import Host, host

SPIN_NS = 50_000  # how long an idle thread spins before it sleeps, where every thread has a core

_RECORD = np.dtype([(name, np.int64) for name in ("function", "buffers", "parameters", "workgroups", "chunk", "flags")])


@dataclass(frozen=True)
class Launch:
    """One kernel launch of a plan: addresses as integers, workgroups in all and at a time (`chunk`, at least 1).

    ordered: all workgroups run on the calling thread, from first to last, in one call.
    """

    function: int
    buffers: Sequence[int]
    parameters: int
    workgroups: int
    chunk: int = 1
    ordered: bool = False


class LaunchTable:
    """The launches of a plan as the machine code reads them. Fields can be replaced between runs; nothing moves.

    address: of the records, for `Pool.run`. times: (launches, 2) int64, start and end in nanoseconds, filled by a run
    that is given `times_address`. keep: whatever must live as long as the table: libraries, buffers, the parameter
    block. A launch of 0 workgroups does nothing.
    """

    def __init__(self, launches: Sequence[Launch], keep: Iterable[Any] = ()) -> None:
        self.keep = list(keep)
        counts = [len(launch.buffers) for launch in launches]
        self._first_slot = [0, *itertools.accumulate(counts)]
        self._slots = np.zeros(max(1, sum(counts)), np.uint64)
        self._records = np.zeros(len(launches), _RECORD)
        for i, launch in enumerate(launches):
            first = self._first_slot[i]
            self._slots[first : first + counts[i]] = launch.buffers
            pointers = self._slots.ctypes.data + first * self._slots.itemsize
            flags = native_ir.ORDERED if launch.ordered else 0
            self._records[i] = (launch.function, pointers, launch.parameters, launch.workgroups, launch.chunk, flags)
        self.address = int(self._records.ctypes.data)
        self.times = np.zeros((len(launches), 2), np.int64)
        self.times_address = int(self.times.ctypes.data)

    def __len__(self) -> int:
        return len(self._records)

    def set_workgroups(self, launch: int, workgroups: int, chunk: int | None = None) -> None:
        """Change how many workgroups a launch has, and how many a thread takes at a time."""
        self._records["workgroups"][launch] = workgroups
        if chunk is not None:
            self._records["chunk"][launch] = chunk

    def set_buffer(self, launch: int, slot: int, address: int) -> None:
        """Point one buffer of a launch elsewhere. Raises IndexError for a slot that the launch does not have."""
        first, end = self._first_slot[launch], self._first_slot[launch + 1]
        if not 0 <= slot < end - first:
            raise IndexError(f"launch {launch} has {end - first} buffers, no slot {slot}")
        self._slots[first + slot] = address

    def set_parameters(self, launch: int, address: int) -> None:
        """Point a launch to another parameter block."""
        self._records["parameters"][launch] = address


_Run = Callable[[int, int, int, int], None]
_Signal = Callable[[int], None]


@dataclass(frozen=True)
class _Runtime:
    """The compiled loops of `native_ir`, as ctypes functions that release the GIL."""

    run: _Run
    work: _Signal
    stop: _Signal


_runtimes: dict[str, _Runtime] = {}
_runtime_lock = threading.Lock()


def _runtime(wait: str, cache: Cache | None, target: Host) -> _Runtime:
    with _runtime_lock:
        if wait in _runtimes:
            return _runtimes[wait]
        text = native_system.runtime_ir(wait)
        key = digest("native runtime", text, target.triple, target.cpu, target.features, llvm_identity(), PASSES)
        data = cache.get(key) if cache else None
        if data is None:
            data = compile_ir(text, name="runtime", passes=("always-inline", *PASSES), target=target)
            if cache:
                cache.put(key, data)
        library = load_object(data)
        pointer, word = ctypes.c_void_p, ctypes.c_int64
        run = ctypes.CFUNCTYPE(None, pointer, pointer, word, pointer)(library.address(native_ir.RUN))
        work = ctypes.CFUNCTYPE(None, pointer)(library.address(native_ir.WORKER))
        stop = ctypes.CFUNCTYPE(None, pointer)(library.address(native_ir.WAKE_ALL))
        _resident.append(library)
        _runtimes[wait] = _Runtime(run, work, stop)
        return _runtimes[wait]


_resident: list[Any] = []  # memory that machine code may use until the process ends


class _Crew:
    """The worker threads of a pool in one process, and the control block that they share with the caller."""

    def __init__(self, runtime: _Runtime, threads: int, spin_ns: int, wait: str, place: bool) -> None:
        self.pid = os.getpid()
        self.runtime = runtime
        self._memory = ctypes.create_string_buffer(native_ir.CONTROL_BYTES + 128)
        self.control = (ctypes.addressof(self._memory) + 127) & ~127
        self._ids = (ctypes.c_int32 * threads)()
        ctypes.c_int64.from_address(self.control + native_ir.SPIN_NS).value = spin_ns
        self._word(native_ir.CPU).value = -1
        if place:
            ctypes.c_void_p.from_address(self.control + native_ir.IDS).value = ctypes.addressof(self._ids)
        if wait == "pthread":
            libc = ctypes.CDLL(None)
            libc.pthread_mutex_init(ctypes.c_void_p(self.control + native_ir.MUTEX), None)
            libc.pthread_cond_init(ctypes.c_void_p(self.control + native_ir.CONDITION), None)
        self.workers = [
            threading.Thread(target=runtime.work, args=(self.control,), name=f"rayfuse-{i}", daemon=True)
            for i in range(1, threads)
        ]

    def _word(self, offset: int) -> ctypes.c_int32:
        return ctypes.c_int32.from_address(self.control + offset)

    def start(self) -> None:
        """Start the workers. Where the system refuses some, those that started are enough for correct results."""
        started = 1
        for worker in self.workers:
            try:
                if worker.ident is None:  # an interrupt may have cut an earlier start short
                    worker.start()
            except RuntimeError as error:
                events.warn_once("threads", f"only {started} of {len(self.workers) + 1} threads started: {error}")
                break
            self._ids[started - 1] = worker.native_id or 0
            started += 1
        self._word(native_ir.THREADS).value = started
        # A thread needs the GIL once, to enter machine code; short runs would keep it waiting for that.
        patience = time.monotonic() + 0.05
        while self._word(native_ir.ARRIVED).value < started - 1 and time.monotonic() < patience:
            time.sleep(0.00005)

    def stop(self) -> None:
        """End the workers; those of another process (before a fork) are not ours to end."""
        if self.pid != os.getpid():
            return
        self.runtime.stop(self.control)
        for worker in self.workers:
            if worker.ident is not None and worker is not threading.current_thread():  # a collection may happen there
                worker.join(timeout=2.0)
                if worker.is_alive():  # inside a kernel that does not end
                    _resident.append(self)


class Pool:
    """Threads that run plans. The calling thread is one of them; the others are parked in machine code.

    An idle worker spins for `spin_ns`, then sleeps in the system. Where there are more threads than cores nobody spins;
    where there are not, the workers keep off the caller's core (Linux).
    Runs of one pool exclude each other; different pools are independent. A pool ends its threads at `close()`, when
    it is collected, and at the end of the process. In a forked child it starts its own threads at its first run.

    threads: how many, the caller included (default: `host().threads`). wait: how idle threads sleep (`futex`,
    `address`, `pthread`; default: what the system has). cache: where the compiled loops may be kept between
    processes. here: the host, where the caller knows it already. Raises ValueError for fewer than one thread.
    """

    def __init__(
        self,
        threads: int | None = None,
        *,
        spin_ns: int | None = None,
        wait: str | None = None,
        cache: Cache | None = None,
        here: Host | None = None,
    ) -> None:
        here = here or host(threads=threads)
        self.threads = here.threads
        self._roomy = here.threads <= here.cores
        self._spin_ns = (SPIN_NS if self._roomy else 0) if spin_ns is None else spin_ns
        self._wait = wait or native_system.waiting()
        self._runtime = _runtime(self._wait, cache, here)
        self._call = self._runtime.run
        self._closed = False
        self._assemble()
        _pools.add(self)

    def _assemble(self) -> None:
        """Set up for a process in which no thread of this pool runs yet. The first run starts them."""
        self._lock = threading.Lock()
        self._control = 0
        self._crew = _Crew(self._runtime, self.threads, self._spin_ns, self._wait, self._roomy)
        self._end = weakref.finalize(self, self._crew.stop)

    def run(self, table: int, count: int, times: int = 0) -> None:
        """Run the first `count` launches of the records at address `table`, one after another, and return when all
        are done.

        times: address of `count` pairs of int64, which receive the start and end of each launch in nanoseconds of a
        monotonic clock; 0 for none. An interrupt (Ctrl-C) takes effect after the plan, which is always left complete.
        Raises RuntimeError when the pool is closed.
        """
        with self._lock:
            self._call(self._control or self._start(), table, count, times)

    def _start(self) -> int:
        if self._closed:
            raise RuntimeError("this pool of threads is closed")
        self._crew.start()
        self._control = self._crew.control
        return self._control

    def close(self) -> None:
        """Wait for a run in progress, end the threads, and refuse further runs. Closing twice is no error."""
        with self._lock:
            self._closed = True
            self._control = 0
            self._end()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for pool in list(_pools):
        pool._assemble()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
