"""The native runtime: every workgroup of every launch runs exactly once, in plan order, and nothing hangs."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.runtime.cache import Cache
from engine.runtime.devices import native, native_host, native_pool, native_system
from engine.runtime.devices.native import Library
from engine.runtime.devices.native_host import host
from engine.runtime.devices.native_pool import Launch, LaunchTable, Pool

ROOT = Path(__file__).resolve().parents[2]

# count: adds one to element i of buffer 0 for each workgroup i, so that a workgroup run twice or never shows.
# step: b[i] = 3 * a[i] + a[n - 1 - i] + parameter, which needs the whole launch before it to have ended.
# nap: what `count` does, slowly. mode: stores the product of two parameters for each workgroup.
KERNELS = """
define void @count(ptr %buffers, ptr %parameters, i64 %first, i64 %last) {
entry:
  %b = load ptr, ptr %buffers
  br label %loop
loop:
  %i = phi i64 [ %first, %entry ], [ %i1, %loop ]
  %p = getelementptr i64, ptr %b, i64 %i
  %v = atomicrmw add ptr %p, i64 1 monotonic
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %last
  br i1 %more, label %loop, label %out
out:
  ret void
}
define void @step(ptr %buffers, ptr %parameters, i64 %first, i64 %last) {
entry:
  %a = load ptr, ptr %buffers
  %b_at = getelementptr ptr, ptr %buffers, i64 1
  %b = load ptr, ptr %b_at
  %n = load i64, ptr %parameters
  %c_at = getelementptr i64, ptr %parameters, i64 1
  %c = load i64, ptr %c_at
  br label %loop
loop:
  %i = phi i64 [ %first, %entry ], [ %i1, %loop ]
  %ri = sub i64 %n, %i
  %r = add i64 %ri, -1
  %pa = getelementptr i64, ptr %a, i64 %i
  %pr = getelementptr i64, ptr %a, i64 %r
  %pb = getelementptr i64, ptr %b, i64 %i
  %x = load i64, ptr %pa
  %y = load i64, ptr %pr
  %x3 = mul i64 %x, 3
  %xy = add i64 %x3, %y
  %z = add i64 %xy, %c
  store i64 %z, ptr %pb
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %last
  br i1 %more, label %loop, label %out
out:
  ret void
}
define void @nap(ptr %buffers, ptr %parameters, i64 %first, i64 %last) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k1, %loop ]
  %x = phi i64 [ %first, %entry ], [ %x1, %loop ]
  %m = mul i64 %x, 6364136223846793005
  %x1 = add i64 %m, %k
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, 20000
  br i1 %more, label %loop, label %out
out:
  %small = and i64 %x1, 1
  %parity = mul i64 %small, 0
  %f = add i64 %first, %parity
  call void @count(ptr %buffers, ptr %parameters, i64 %f, i64 %last)
  ret void
}
define void @mode(ptr %buffers, ptr %parameters, i64 %first, i64 %last) {
entry:
  %b = load ptr, ptr %buffers
  %tiny = load volatile float, ptr %parameters
  %half_at = getelementptr float, ptr %parameters, i64 1
  %half = load volatile float, ptr %half_at
  br label %loop
loop:
  %i = phi i64 [ %first, %entry ], [ %i1, %loop ]
  %product = fmul float %tiny, %half
  %p = getelementptr float, ptr %b, i64 %i
  store float %product, ptr %p
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %last
  br i1 %more, label %loop, label %out
out:
  ret void
}
"""


@pytest.fixture(scope="module")
def kernels() -> Library:
    return native.load_object(native.compile_ir(KERNELS, name="test kernels"))


@pytest.fixture(scope="module", params=["system", "pthread"])
def wait(request: pytest.FixtureRequest) -> str:
    if request.param == "system":
        return native_system.waiting()
    if sys.platform == "win32":
        pytest.skip("Windows has no pthread")
    return "pthread"


def run(pool: Pool, table: LaunchTable) -> None:
    pool.run(table.address, len(table))


def counting_table(kernels: Library, counts: np.ndarray, chunk: int, name: str = "count") -> LaunchTable:
    return LaunchTable([Launch(kernels.address(name), [counts.ctypes.data], 0, len(counts), chunk)], keep=[counts])


class Chain:
    """Launches that each need all of the one before, and what they should give."""

    def __init__(self, kernels: Library, size: int, length: int, chunk: int) -> None:
        self.buffers = [np.arange(size, dtype=np.int64), np.zeros(size, np.int64)]
        self.parameters = np.array([[size, k] for k in range(length)], np.int64)
        address = kernels.address("step")
        a, b = (buffer.ctypes.data for buffer in self.buffers)
        self.table = LaunchTable(
            [
                Launch(address, [b, a] if k % 2 else [a, b], self.parameters[k].ctypes.data, size, chunk)
                for k in range(length)
            ]
        )
        value = np.arange(size, dtype=np.int64)
        for k in range(length):
            value = 3 * value + value[::-1] + k
        self.expected = value
        self.result = self.buffers[length % 2]
        self.start = np.arange(size, dtype=np.int64)

    def check(self, pool: Pool) -> None:
        self.buffers[0][:] = self.start
        run(pool, self.table)
        assert np.array_equal(self.result, self.expected)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("spin_ns", [0, 50_000])
def test_twenty_dependent_launches_run_in_order(kernels: Library, wait: str, threads: int, spin_ns: int) -> None:
    chains = [Chain(kernels, size, 20, chunk) for size, chunk in ((1000, 7), (64, 1), (3, 1), (1, 1))]
    with Pool(threads, spin_ns=spin_ns, wait=wait) as pool:
        for _ in range(10):
            for chain in chains:
                chain.check(pool)


@pytest.mark.parametrize("threads", [2, 3])
def test_twenty_thousand_tiny_plans_in_a_row(kernels: Library, threads: int) -> None:
    # Two plans that differ in everything take turns: a worker late for one would show in the other.
    few, many = np.zeros(3, np.int64), np.zeros(16, np.int64)
    tables = [counting_table(kernels, few, 1), counting_table(kernels, many, 3)]
    with Pool(threads) as pool:
        for i in range(20_000):
            run(pool, tables[i & 1])
    assert (few == 10_000).all()
    assert (many == 10_000).all()


def test_workers_that_sleep_wake_up(kernels: Library, wait: str) -> None:
    counts = np.zeros(64, np.int64)
    table = counting_table(kernels, counts, 1, "nap")
    with Pool(3, spin_ns=0, wait=wait) as pool:
        for _ in range(60):
            run(pool, table)
            time.sleep(0.001)
    assert (counts == 60).all()


@pytest.fixture(scope="module")
def pools() -> Iterator[dict[int, Pool]]:
    made = {threads: Pool(threads) for threads in (1, 2, 3, 8)}
    yield made
    for pool in made.values():
        pool.close()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(-1, 400), st.booleans()), max_size=8),
    st.sampled_from([1, 2, 3, 8]),
)
def test_each_workgroup_runs_exactly_once(
    kernels: Library, pools: dict[int, Pool], shapes: list[tuple[int, int, bool]], threads: int
) -> None:
    counts = [np.zeros(workgroups, np.int64) for workgroups, _, _ in shapes]
    address = kernels.address("count")
    table = LaunchTable(
        [
            Launch(address, [count.ctypes.data], 0, workgroups, chunk, ordered)
            for count, (workgroups, chunk, ordered) in zip(counts, shapes, strict=True)
        ]
    )
    run(pools[threads], table)
    for count in counts:
        assert (count == 1).all()


def test_an_ordered_launch_is_one_call_on_the_calling_thread(pools: dict[int, Pool]) -> None:
    seen: list[tuple[int, int, int]] = []
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    kernel = signature(lambda _, __, first, last: seen.append((threading.get_ident(), first, last)))
    address = ctypes.cast(kernel, ctypes.c_void_p).value or 0
    run(pools[3], LaunchTable([Launch(address, [], 0, 100, 1, ordered=True), Launch(address, [], 0, 5, 5)]))
    assert seen == [(threading.get_ident(), 0, 100), (threading.get_ident(), 0, 5)]


def test_chunks_tile_the_workgroups(pools: dict[int, Pool]) -> None:
    seen: list[tuple[int, int]] = []
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    kernel = signature(lambda _, __, first, last: seen.append((first, last)))
    address = ctypes.cast(kernel, ctypes.c_void_p).value or 0
    run(pools[2], LaunchTable([Launch(address, [], 0, 10, 4)]))
    assert sorted(seen) == [(0, 4), (4, 8), (8, 10)]


def test_a_table_can_be_patched_between_runs(kernels: Library, pools: dict[int, Pool]) -> None:
    first, second = np.zeros(100, np.int64), np.zeros(100, np.int64)
    table = counting_table(kernels, first, 1)
    before = table.address
    table.set_workgroups(0, 40, chunk=3)
    table.set_buffer(0, 0, second.ctypes.data)
    run(pools[2], table)
    assert table.address == before
    assert not first.any()
    assert second.tolist() == [1] * 40 + [0] * 60
    with pytest.raises(IndexError, match="launch 0 has 1 buffers, no slot 1"):
        table.set_buffer(0, 1, 0)


def test_parameters_can_be_replaced(kernels: Library, pools: dict[int, Pool]) -> None:
    source, target = np.ones(8, np.int64), np.zeros(8, np.int64)
    one, other = np.array([8, 1], np.int64), np.array([8, 100], np.int64)
    address = kernels.address("step")
    table = LaunchTable([Launch(address, [source.ctypes.data, target.ctypes.data], one.ctypes.data, 8)])
    table.set_parameters(0, other.ctypes.data)
    run(pools[2], table)
    assert target.tolist() == [104] * 8


def test_times_are_monotonic_and_cover_the_work(kernels: Library, pools: dict[int, Pool]) -> None:
    counts = np.zeros(30, np.int64)
    launch = Launch(kernels.address("nap"), [counts.ctypes.data], 0, 30, 1)
    table = LaunchTable([launch] * 5)
    began = time.perf_counter_ns()
    pools[2].run(table.address, len(table), table.times_address)
    spent = time.perf_counter_ns() - began
    flat = table.times.reshape(-1)
    assert (np.diff(flat) >= 0).all()
    assert (table.times[:, 1] > table.times[:, 0]).all()
    assert flat[-1] - flat[0] <= spent


def test_several_pools_at_once(kernels: Library) -> None:
    def work(results: list[bool]) -> None:
        chain = Chain(kernels, 200, 10, 3)
        with Pool(2) as pool:
            for _ in range(100):
                chain.check(pool)
        results.append(True)

    results: list[bool] = []
    threads = [threading.Thread(target=work, args=(results,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [True] * 3


def test_one_pool_may_be_called_from_several_threads(kernels: Library) -> None:
    counts = np.zeros(20, np.int64)
    table = counting_table(kernels, counts, 1)
    with Pool(2) as pool:

        def work() -> None:
            for _ in range(300):
                run(pool, table)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert (counts == 900).all()


def test_floats_are_the_default_ones_on_every_thread(kernels: Library, pools: dict[int, Pool]) -> None:
    out = np.zeros(64, np.float32)
    parameters = np.array([1.1754944e-38, 0.5], np.float32)  # the product is denormal
    run(pools[3], LaunchTable([Launch(kernels.address("mode"), [out.ctypes.data], parameters.ctypes.data, 64, 1)]))
    assert (out == np.float32(5.877472e-39)).all()
    assert out[0] > 0


@pytest.mark.skipif(native_system.waiting() != "futex", reason="threads are placed on Linux only")
@pytest.mark.skipif(native_host.usable_cores() < 2, reason="one core: nowhere else to be")
def test_workers_keep_off_the_core_of_the_caller(kernels: Library) -> None:
    counts = np.zeros(9, np.int64)
    table = counting_table(kernels, counts, 1)
    allowed = os.sched_getaffinity(0)
    with Pool(2) as pool, Pool(native_host.usable_cores() + 1) as crowded:
        run(pool, table)
        run(crowded, table)
        (worker,) = pool._crew.workers
        left = os.sched_getaffinity(worker.native_id or 0)
        assert left < allowed
        assert len(left) == len(allowed) - 1
        for each in crowded._crew.workers:
            assert os.sched_getaffinity(each.native_id or 0) == allowed


def test_a_closed_pool_refuses_and_its_threads_are_gone(kernels: Library, wait: str) -> None:
    counts = np.zeros(20, np.int64)
    table = counting_table(kernels, counts, 1)
    pool = Pool(4, wait=wait)
    run(pool, table)
    time.sleep(0.002)  # by now the workers sleep
    workers = [thread for thread in threading.enumerate() if thread in pool._crew.workers]
    assert len(workers) == 3
    began = time.perf_counter()
    pool.close()
    pool.close()
    assert time.perf_counter() - began < 1.0
    assert not any(thread.is_alive() for thread in workers)
    with pytest.raises(RuntimeError, match="closed"):
        run(pool, table)


def test_a_pool_that_is_dropped_ends_its_threads(kernels: Library) -> None:
    pool = Pool(2)
    run(pool, counting_table(kernels, np.zeros(9, np.int64), 1))
    (worker,) = pool._crew.workers
    assert worker.is_alive()
    del pool
    assert not worker.is_alive()


PROGRAM = """
import os, signal, sys, threading, time
import numpy as np
from engine.runtime.devices import native
from engine.runtime.devices.native_pool import Launch, LaunchTable, Pool
sys.path.insert(0, "tests/engine")
from test_native import KERNELS
lib = native.load_object(native.compile_ir(KERNELS, name="test"))
counts = np.zeros(50, np.int64)
table = LaunchTable([Launch(lib.address("nap"), [counts.ctypes.data], 0, 50, 1)])
pool = Pool(3)
pool.run(table.address, 1)
assert (counts == 1).all()
"""


def program(body: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM + textwrap.dedent(body)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.mark.parametrize(
    "ending",
    [
        "pass",  # without close, the workers spinning
        "time.sleep(0.01)",  # without close, the workers asleep
        "keep = [pool]; keep.append(keep)",  # in a cycle
        "threading.Thread(target=lambda: [pool.run(table.address, 1) for _ in range(10**9)], daemon=True).start()\n"
        "time.sleep(0.02)",  # while another thread is running plans
    ],
)
def test_a_process_ends_cleanly_without_close(ending: str) -> None:
    result = program(ending)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_runs_plans_with_threads_of_its_own() -> None:
    result = program(
        """
        child = os.fork()
        counts[:] = 0
        pool.run(table.address, 1)
        assert (counts == 1).all()
        if child == 0:
            assert all(worker.is_alive() for worker in pool._crew.workers)
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        pool.close()
        if os.fork() == 0:
            try:
                pool.run(table.address, 1)
            except RuntimeError:
                os._exit(0)
        assert os.wait()[1] == 0
        """
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer on this system")
def test_an_interrupt_leaves_a_plan_complete_and_the_pool_usable(kernels: Library) -> None:
    counts = np.zeros(40, np.int64)
    table = counting_table(kernels, counts, 1, "nap")
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    done = 0
    try:
        with Pool(2) as pool:
            for i in range(20):
                before = counts.copy()
                signal.setitimer(signal.ITIMER_REAL, 0.0003 + 0.0001 * i)
                try:
                    while True:
                        run(pool, table)
                except KeyboardInterrupt:
                    done += 1
                assert counts.min() == counts.max() >= before.max()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert done == 20


def test_a_small_plan_costs_microseconds(kernels: Library, pools: dict[int, Pool]) -> None:
    counts = np.zeros(1, np.int64)
    table = counting_table(kernels, counts, 1)
    best = math.inf
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(200):
            pools[2].run(table.address, 1)
        best = min(best, (time.perf_counter() - began) / 200)
    assert best < 5e-6  # 0.7 us measured; the rest is for busy machines


# --- compiling and loading ------------------------------------------------------------------------------------------


def test_a_compile_error_names_the_kernel_and_leaves_a_reproducer() -> None:
    text = "define void @f( {"
    with pytest.raises(native.CompileError, match=r"(?s)tone/map does not compile: .*expected type") as caught:
        native.compile_ir(text, name="tone/map")
    path = Path(caught.value.path)
    assert path.read_text() == text
    path.unlink()
    assert caught.value.name == "tone/map"


def test_a_module_that_does_not_verify_is_a_compile_error() -> None:
    text = "define i32 @f(i32 %x) {\n %y = add i32 %z, 1\n %z = add i32 %x, 1\n ret i32 %y\n}"
    with pytest.raises(native.CompileError, match="dominate") as caught:
        native.compile_ir(text, name="order")
    Path(caught.value.path).unlink()


def test_objects_that_are_damaged_or_lack_symbols_are_load_errors(capfd: pytest.CaptureFixture[str]) -> None:
    data = native.compile_ir("define i32 @f() {\n ret i32 3\n}", name="three")
    for bad in (b"rubbish", data[:100]):
        with pytest.raises(native.LoadError, match="object file cannot be loaded"):
            native.load_object(bad)
    with pytest.raises(native.LoadError, match="g cannot be loaded"):
        native.load_object(data).address("g")
    needy = native.compile_ir("declare i32 @h()\ndefine i32 @f() {\n %x = call i32 @h()\n ret i32 %x\n}", name="needy")
    with pytest.raises(native.LoadError, match="f cannot be loaded"):
        native.load_object(needy).address("f")
    answer = ctypes.CFUNCTYPE(ctypes.c_int32)(lambda: 42)
    given_h = native.load_object(needy, {"h": ctypes.cast(answer, ctypes.c_void_p).value or 0})
    assert ctypes.CFUNCTYPE(ctypes.c_int32)(given_h.address("f"))() == 42
    given_h.close()
    with pytest.raises(native.LoadError, match="closed"):
        given_h.address("f")
    capfd.readouterr()


def test_functions_of_libm_resolve() -> None:
    names = ("sinf", "expf", "fmodf", "powf", "fmod", "sin")
    body = "".join(
        f"declare {t} @{n}({t}{', ' + t if n in ('fmodf', 'powf', 'fmod') else ''})\n"
        for n in names
        for t in ["float" if n.endswith("f") else "double"]
    )
    text = body + (
        "define float @f(float %x, float %y) {\n"
        " %a = call float @sinf(float %x)\n"
        " %b = call float @fmodf(float %x, float %y)\n"
        " %c = call float @powf(float %a, float %b)\n ret float %c\n}"
    )
    library = native.load_object(native.compile_ir(text, name="libm"))
    f = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float, ctypes.c_float)(library.address("f"))
    assert f(7.5, 2.0) == pytest.approx(math.sin(7.5) ** math.fmod(7.5, 2.0), rel=1e-5)


VECTOR = """
define void @f(ptr %p) {
  %x = load <16 x float>, ptr %p, align 4
  %y = fmul <16 x float> %x, %x
  %z = call <16 x float> @llvm.fmuladd.v16f32(<16 x float> %y, <16 x float> %x, <16 x float> %y)
  store <16 x float> %z, ptr %p, align 4
  ret void
}
declare <16 x float> @llvm.fmuladd.v16f32(<16 x float>, <16 x float>, <16 x float>)
"""


def test_a_forced_width_gives_the_code_of_the_narrower_machine() -> None:
    widest = host().width
    if host().machine not in ("x86_64", "amd64"):
        pytest.skip("register names of x86-64")
    registers = {16: "%zmm", 8: "%ymm", 4: "%xmm"}
    for width in (16, 8, 4):
        if width > widest:
            with pytest.raises(ValueError, match="lanes of float32"):
                host(width=width)
            continue
        text = native.assembly(VECTOR, target=host(width=width))
        assert registers[width] in text
        assert not any(registers[wider] in text for wider in registers if wider > width)
        assert ("fmadd" in text) == (width > 4)
        values = np.linspace(0, 1, 16, dtype=np.float32)
        x = values.copy()
        library = native.load_object(native.compile_ir(VECTOR, name="vector", target=host(width=width)))
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.address("f"))(x.ctypes.data)
        np.testing.assert_allclose(x, values**3 + values**2, rtol=1e-6)


def test_without_optimisation_the_result_is_the_same(kernels: Library, pools: dict[int, Pool]) -> None:
    library = native.load_object(native.compile_ir(KERNELS, name="plain", optimise=False))
    chain = Chain(library, 50, 6, 4)
    chain.check(pools[2])


@pytest.mark.parametrize(
    ("triple", "machine", "wait", "clock"),
    [
        ("x86_64-unknown-linux-gnu", "x86_64", "futex", 1),
        ("aarch64-unknown-linux-gnu", "aarch64", "futex", 1),
        ("arm64-apple-darwin23", "arm64", "pthread", 8),
        ("x86_64-pc-windows-msvc", "amd64", "address", -1),
        ("riscv64-unknown-linux-gnu", "riscv64", "futex", 1),
    ],
)
def test_the_runtime_can_be_generated_for_every_system(triple: str, machine: str, wait: str, clock: int) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(native_system.runtime_ir(wait, machine, clock, 10_000_000))
    module.verify()
    machine_code = llvm.Target.from_triple(triple).create_target_machine(opt=2, reloc="pic", codemodel="small")
    assert machine_code.emit_object(module)


def test_the_runtime_comes_from_the_disk_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_pool, "_runtimes", {})
    cache = Cache(tmp_path)
    Pool(1, cache=cache).close()
    assert cache.statistics().entries == 1
    native_pool._runtimes.clear()
    monkeypatch.setattr(native_pool, "compile_ir", None)  # calling it would fail
    Pool(1, cache=cache).close()
    assert cache.hits == 1


# --- the host ------------------------------------------------------------------------------------------------------


def test_threads_and_width_follow_environment_and_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYFUSE_THREADS", "5")
    monkeypatch.setenv("RAYFUSE_CPU_WIDTH", "4")
    assert (host().threads, host().width) == (5, 4)
    assert host(threads=2).threads == 2
    monkeypatch.setenv("RAYFUSE_THREADS", "many")
    with pytest.raises(ValueError, match="RAYFUSE_THREADS='many' is not a whole number"):
        host()
    with pytest.raises(ValueError, match="0 threads cannot do any work"):
        host(threads=0)
    monkeypatch.delenv("RAYFUSE_THREADS")
    with pytest.raises(ValueError, match="vector width of 5"):
        host(width=5)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_affinity_limits_the_threads() -> None:
    mask = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(mask)})
        assert native_host.usable_cores() == 1
    finally:
        os.sched_setaffinity(0, mask)


def test_the_quota_of_control_groups_is_read(tmp_path: Path) -> None:
    membership = tmp_path / "cgroup"
    inner = tmp_path / "v2" / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "cpu.max").write_text("max 100000\n")
    (inner.parent / "cpu.max").write_text("150000 100000\n")
    membership.write_text("0::/a/b\n")
    assert native_host.cpu_quota(membership, tmp_path / "v2") == 1.5

    group = tmp_path / "v1" / "cpu,cpuacct" / "job"
    group.mkdir(parents=True)
    (group / "cpu.cfs_quota_us").write_text("250000")
    (group / "cpu.cfs_period_us").write_text("100000")
    membership.write_text("4:memory:/x\n3:cpu,cpuacct:/job\n")
    assert native_host.cpu_quota(membership, tmp_path / "v1") == 2.5
    (group / "cpu.cfs_quota_us").write_text("-1")
    assert native_host.cpu_quota(membership, tmp_path / "v1") == math.inf
    assert native_host.cpu_quota(tmp_path / "missing", tmp_path) == math.inf
