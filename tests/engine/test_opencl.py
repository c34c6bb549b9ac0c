"""The OpenCL device: memory, compiling, workgroups, launches; on whatever OpenCL there is."""

from __future__ import annotations

import gc
import marshal
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.runtime import events
from engine.runtime.cache import Cache
from engine.runtime.device import DeviceError, LaunchRequest
from engine.runtime.devices import failures, opencl_cut
from engine.runtime.devices.failures import CompileError, compile_error, complaint
from engine.runtime.devices.opencl import OpenCLDevice, gl_sharing
from engine.runtime.devices.opencl_binary import binary_of
from engine.runtime.devices.opencl_choice import NO_BINDING, NO_PLATFORM, Found, probe
from engine.runtime.devices.opencl_cut import next_span, spans
from tests.engine.opencl_written import DOUBLED, SCALED, Scaled, cached_in, opened, written

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20


@pytest.fixture
def device(tmp_path: Path) -> Iterator[OpenCLDevice]:
    with opened(cache=cached_in(tmp_path)) as made:
        yield made


def in_new_process(code: str, **environment: str) -> str:
    """What a program prints that can import from the checkout."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- which device ----


def test_a_missing_binding_is_told_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(DeviceError, match=r"^pyopencl is not installed; pip install 'rayfuse\[opencl\]'$"):
        probe()
    assert "\n" not in NO_BINDING


def test_a_machine_without_a_driver_is_told_what_to_install() -> None:
    pytest.importorskip("pyopencl", reason="pyopencl is not installed")
    told = in_new_process(
        """
        from engine.runtime.device import DeviceError
        from engine.runtime.devices.opencl import OpenCLDevice
        try:
            OpenCLDevice()
        except DeviceError as error:
            print(error)
        """,
        OCL_ICD_VENDORS="/nonexistent",
    )
    assert told.strip() == NO_PLATFORM
    assert "pocl-opencl-icd" in told


def test_a_device_is_chosen_by_number_or_by_a_part_of_its_name(device: OpenCLDevice) -> None:
    first = probe()[0]
    assert device.name == first.name and device.software == first.software
    for wanted in (0, first.name[:6].upper(), first.platform):
        with opened(device=wanted, cache=device.cache) as other:
            assert other.name == first.name
    for wanted in (99, -1, "no such thing"):
        with pytest.raises(DeviceError, match=f"there is no OpenCL device {wanted!r}; there are 0: ") as caught:
            OpenCLDevice(device=wanted)
        assert first.name in str(caught.value)


def test_graphics_processors_stand_first_the_largest_of_them_before_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order alone: no machine here has several. Devices are described as their drivers would."""
    cl = pytest.importorskip("pyopencl", reason="pyopencl is not installed")

    @dataclass
    class Platform:
        name: str
        devices: list[Any]

        def get_devices(self) -> list[Any]:
            return self.devices

    @dataclass
    class Handle:
        name: str
        type: int
        max_compute_units: int
        opencl_c_version: str = "OpenCL C 1.2 "
        compiler_available: bool = True
        driver_version: str = "1"
        extensions: str = ""
        platform: Any = None

    one = Platform("One", [Handle("host", cl.device_type.CPU, 64), Handle("small", cl.device_type.GPU, 8)])
    two = Platform("Two", [Handle("large", cl.device_type.GPU, 80), Handle("llvmpipe (LLVM 15)", cl.device_type.GPU, 99)])
    three = Platform("Three", [Handle("card", cl.device_type.ACCELERATOR, 500), Handle("ancient", cl.device_type.GPU, 9, "OpenCL C 1.1 ")])
    for platform in (one, two, three):
        for handle in platform.devices:
            handle.platform = platform
    monkeypatch.setattr(cl, "get_platforms", lambda: [one, two, three])
    found = probe()
    assert [each.name for each in found] == ["large", "small", "card", "llvmpipe (LLVM 15)", "host"]
    assert [each.software for each in found] == [False, False, False, True, True]
    monkeypatch.setattr(cl, "get_platforms", lambda: [Platform("Old", [three.devices[1]])])
    with pytest.raises(DeviceError, match=r"no OpenCL device compiles OpenCL C 1.2 \(ancient\); install a newer driver"):
        probe()


# ---- memory ----


def test_bytes_come_back_as_they_were_written(device: OpenCLDevice) -> None:
    for count in (0, 1, 3, 1000):
        sent = np.arange(count, dtype=np.uint8)
        buffer = device.allocate(count)
        assert buffer.nbytes == count
        buffer.write(sent)
        found = np.full(count, 255, np.uint8)
        buffer.read(found)
        np.testing.assert_array_equal(found, sent)
    beginning = np.zeros(10, np.uint8)
    buffer.read(beginning)
    np.testing.assert_array_equal(beginning, sent[:10])


def test_a_buffer_that_does_not_fit_is_refused_with_what_is_needed_and_free(device: OpenCLDevice) -> None:
    room = device.room
    most, total = room.largest // MIB, room.total // MIB
    with pytest.raises(MemoryError, match=f"a buffer of {most + 1:,} MiB does not fit .*: {total:,} of {total:,} MiB are free, and one "):
        device.allocate(room.largest + MIB)
    held = device.allocate(64 * MIB)
    room.total = 100 * MIB  # a smaller device
    with pytest.raises(MemoryError, match=r"a buffer of 37 MiB does not fit .*: 36 of 100 MiB are free"):
        device.allocate(37 * MIB)
    device.allocate(36 * MIB)
    del held
    assert room.taken == 0


def test_buffers_that_nobody_holds_are_given_back(device: OpenCLDevice) -> None:
    size = device.room.largest // 2
    for _ in range(200):  # all of them together would not fit
        device.allocate(size)
    assert device.room.taken == 0


def test_a_closed_device_holds_nothing_and_says_so(tmp_path: Path) -> None:
    with opened(cache=cached_in(tmp_path)) as device:
        buffer = device.allocate(1024)
        assert device.room.taken == 1024
        device.close()
        assert device.room.taken == 0
        with pytest.raises(DeviceError, match="is closed, and what it held is gone"):
            buffer.read(np.zeros(4, np.uint8))
        device.close()  # once more does no harm


def test_devices_and_plans_leave_no_trace(tmp_path: Path) -> None:
    if not Path("/proc/self/statm").exists():
        pytest.skip("hardware: only Linux tells the memory of a process in /proc")

    def once() -> None:
        with opened(cache=cached_in(tmp_path)) as device:
            Scaled(device, written(device), 1 << 20).run()

    resident = []
    for _ in range(20):
        once()
        gc.collect()
        with open("/proc/self/statm", encoding="ascii") as file:
            resident.append(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    assert resident[-1] - resident[9] < 16 * MIB, "10 devices with 4 MiB each"


# ---- compiling ----


def test_machine_code_is_compiled_once_and_then_comes_from_the_cache(tmp_path: Path) -> None:
    kinds: list[str] = []
    end = events.subscribe(lambda event: kinds.append(event.kind), ("compile", "cache_hit", "cache_miss"))
    try:
        with opened(cache=cached_in(tmp_path)) as device:
            first, again = written(device), written(device)
            assert (first.cached, again.cached) == (False, True)
            expected = Scaled(device, first, 1000).run()
        assert kinds == ["compile", "cache_miss"]
        with opened(cache=cached_in(tmp_path)) as device:
            program = written(device)
            assert program.cached
            np.testing.assert_array_equal(Scaled(device, program, 1000).run(), expected)
        assert kinds == ["compile", "cache_miss", "cache_hit"]
    finally:
        end()


@pytest.mark.parametrize("damage", [b"", b"nonsense", marshal.dumps((b"xx" * 200, None, None)), marshal.dumps(7)])
def test_machine_code_that_the_driver_does_not_take_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    with opened(cache=cached_in(tmp_path)) as device:
        program = written(device)
        expected = Scaled(device, program, 1000).run()
        device.cache.put(program.code.key, damage)
    with opened(cache=cached_in(tmp_path)) as device:
        program = written(device)
        assert not program.cached
        np.testing.assert_array_equal(Scaled(device, program, 1000).run(), expected)
    with opened(cache=cached_in(tmp_path)) as device:
        assert written(device).cached, "the bad entry has been replaced"


def test_a_kernel_that_does_not_compile_is_told_in_one_line_with_a_file_to_repeat_it(tmp_path: Path) -> None:
    with opened(cache=cached_in(tmp_path)) as device, pytest.raises(CompileError) as caught:
        written(device, SCALED.replace("+ scale;", "+ scales;"))
    error = caught.value
    assert isinstance(error, DeviceError) and error.kernel == "scaled"
    assert str(error).startswith("scaled does not compile with ") and "\n" not in str(error)
    assert "'scales'" in str(error) and "'scales'" in error.log
    assert error.path is not None and error.path in str(error)
    kept = Path(error.path).read_text(encoding="utf-8")
    assert Path(error.path).parent == tmp_path / "cache" / "failed"
    assert "x + scales;" in kept and all(line.strip() in kept for line in error.log.splitlines())


def test_files_of_kernels_that_failed_are_kept_up_to_some_tens_and_without_a_cache_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "KEPT", 3)
    for k in range(5):
        error = compile_error("k/1", "a compiler", f"text {k}", "note\n<x>:3: Error: no\n", cached_in(tmp_path))
        assert error.path is not None
        os.utime(error.path, (k, k))
    assert len(list((tmp_path / "cache" / "failed").iterdir())) == 3
    assert Path(error.path).exists(), "the newest is there"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    error = compile_error("k", "a compiler", "text", "", Cache(None))
    assert error.path is not None and Path(error.path).is_relative_to(tmp_path / "temporary")
    assert "the compiler gives no reason" in str(error)
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    error = compile_error("k", "a compiler", "text", "bad", Cache(None))
    assert error.path is None and str(error) == "k does not compile with a compiler: bad (no folder for its source can be written)"


def test_the_line_of_a_log_that_is_told_is_the_first_with_an_error() -> None:
    assert complaint("\n  x.cl:1:2: warning: unused\n x.cl:7:1: error: expected ';'\n error: more") == "x.cl:7:1: error: expected ';'"
    assert complaint("\nlink failed\nmore\n") == "link failed"


def test_what_a_device_lacks_is_told_by_name(device: OpenCLDevice) -> None:
    program = written(device)
    emitted = device._emit
    device._emit = lambda kernel, wanted: replace(emitted(kernel, wanted), features=frozenset({"tensor cores"}))  # type: ignore[method-assign]
    with pytest.raises(DeviceError, match=r"^scaled needs tensor cores, which .* has not$"):
        assert program.kernel is not None
        device.compile(program.kernel)


# ---- workgroups ----


@pytest.mark.parametrize("workgroup", [1, 64, 128, 256, 512])
def test_kernels_run_in_the_workgroup_that_was_asked_for(device: OpenCLDevice, workgroup: int) -> None:
    program = written(device, workgroup=workgroup)
    assert program.workgroup == min(workgroup, device.target.max_workgroup)
    count = 1919  # no multiple of any of them
    np.testing.assert_array_equal(Scaled(device, program, count, turns=0).run(), np.arange(count, dtype=np.float32) + np.float32(0.5))


@pytest.mark.parametrize("most", [1, 64, 128])
def test_a_workgroup_is_what_the_compiled_kernel_allows(most: int, tmp_path: Path) -> None:
    """On PoCL made to allow no more than this, behind a description that promises more."""
    with opened() as device:
        if not device.driver.startswith("Portable Computing Language"):
            pytest.skip("hardware: only PoCL can be told what to allow")
    told = in_new_process(
        f"""
        from dataclasses import replace
        from pathlib import Path
        from tests.engine.opencl_written import *
        for _ in range(2):  # found out, and then known from the cache
            with opened(cache=cached_in(Path({str(tmp_path)!r}))) as device:
                assert device.target.max_workgroup == {most}
                device.target = replace(device.target, max_workgroup=1024)
                program = written(device, workgroup=512)
                found = Scaled(device, program, 1919, turns=0).run()
                print(program.workgroup, bool((found == np.arange(1919) + np.float32(0.5)).all()), program.cached)
        """,
        POCL_MAX_WORK_GROUP_SIZE=str(most),
    )
    assert told.split() == [str(most), "True", "False", str(most), "True", "True"]


TOO_LARGE = SCALED.replace("%(workgroup)d", "%(workgroup)d > 128 ? 128 : %(workgroup)d")  # larger ones cannot be launched


def test_a_launch_that_lacks_resources_is_repeated_with_half_the_workgroup_and_one_warning(tmp_path: Path) -> None:
    heard: list[str] = []
    end = events.subscribe(lambda event: heard.append(event.fields["message"]), ("warning",))
    events.forget_warnings()
    try:
        with opened(cache=cached_in(tmp_path)) as device:
            expected = Scaled(device, written(device, workgroup=128), 1919).run()
        with opened(cache=cached_in(tmp_path)) as device:
            program = written(device, TOO_LARGE, workgroup=256)
            assert program.workgroup == 256
            packed, plan = device.pack(program), Scaled(device, program, 1919)
            for _ in range(3):
                np.testing.assert_array_equal(plan.run(), expected)
            assert program.workgroup == 128
            assert len(plan.plan.seconds) == 1 and plan.plan.seconds[0] > 0.0
            assert written(device, TOO_LARGE, workgroup=256).workgroup == 128, "it is not tried again"
        assert len(heard) == 1 and heard[0].startswith("scaled asks too much of ")
        assert "in workgroups of 256 (" in heard[0] and heard[0].endswith("it runs in ones of 128")
        with opened(cache=cached_in(tmp_path)) as device:
            assert device.unpack(packed) is None, "a stored plan for the larger size is traced again"
            assert written(device, TOO_LARGE, workgroup=256).workgroup == 128
        assert len(heard) == 1
    finally:
        end()


def test_a_stored_kernel_that_cannot_be_launched_says_that_the_next_start_will_do(tmp_path: Path) -> None:
    with opened(cache=cached_in(tmp_path)) as device:
        packed = device.pack(written(device, TOO_LARGE, workgroup=256))
    with opened(cache=cached_in(tmp_path)) as device:
        program = device.unpack(packed)
        assert program is not None and program.cached
        with pytest.raises(DeviceError, match=r"scaled cannot be launched in workgroups of 256 on .*; start again: it will have 128$"):
            Scaled(device, program, 1919).run()
        assert device.unpack(packed) is None


def test_a_kernel_that_cannot_do_with_less_is_refused(device: OpenCLDevice) -> None:
    program = written(device, TOO_LARGE, workgroup=256, least=256)
    with pytest.raises(DeviceError, match=r"scaled needs workgroups of 256, and .* runs it in at most 128"):
        Scaled(device, program, 1919).run()


# ---- launches ----


def test_parameters_and_sizes_are_those_of_the_run(device: OpenCLDevice) -> None:
    plan = Scaled(device, written(device), 1000, turns=0)
    for scale in (0.5, 2.0, 2.0, -1.0):
        plan.scale[0] = scale
        np.testing.assert_array_equal(plan.run(), np.arange(1000, dtype=np.float32) + np.float32(scale))
    plan.plan.resize({"n": 10})
    plan.scale[0] = 7.0
    found = plan.run()
    np.testing.assert_array_equal(found[:10], np.arange(10, dtype=np.float32) + 7.0)
    np.testing.assert_array_equal(found[10:], np.arange(10, 1000, dtype=np.float32) - 1.0)
    plan.plan.resize({"n": 0})
    plan.scale[0] = 8.0
    np.testing.assert_array_equal(plan.run(), found)
    assert plan.plan.seconds == [0.0]


def test_launches_run_in_order_and_buffers_can_be_exchanged(device: OpenCLDevice) -> None:
    program, count = written(device, DOUBLED), 5000
    ones, threes = np.full(count, 1, np.int32), np.full(count, 3, np.int32)
    state, first, second = (device.allocate(4 * count) for _ in range(3))
    for buffer, value in ((state, np.zeros(count, np.int32)), (first, ones), (second, threes)):
        buffer.write(value)
    plan = device.executable([LaunchRequest(program, [state, first]), LaunchRequest(program, [state, second])], None)
    plan.resize({"n": count})
    found = np.empty(count, np.int32)
    plan.run({})
    state.read(found)
    assert set(found.tolist()) == {(0 * 2 + 1) * 2 + 3}
    plan.rebind(1, 1, first)
    plan.run({})
    state.read(found)
    assert set(found.tolist()) == {(5 * 2 + 1) * 2 + 1}
    assert len(plan.seconds) == 2 and all(0.0 < s < 1.0 for s in plan.seconds)


def test_results_do_not_depend_on_how_a_launch_is_cut(device: OpenCLDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    program = written(device)
    count = 300 * 256 + 77
    expected = Scaled(device, program, count, turns=5).run()
    for longest, aim in ((1e-9, 1e-9), (1e-5, 1e-5), (1e-3, 2e-4)):
        monkeypatch.setattr(opencl_cut, "LONGEST_S", longest)
        monkeypatch.setattr(opencl_cut, "AIM_S", aim)
        plan = Scaled(device, program, count, turns=5)
        for _ in range(3):
            np.testing.assert_array_equal(plan.run(), expected)
        assert len(plan.plan._events) > 1


def test_no_dispatch_of_a_slow_launch_takes_much_longer_than_the_limit(device: OpenCLDevice) -> None:
    program, lanes, turns = written(device), 1 << 17, 50
    quick = Scaled(device, program, lanes, turns)
    quick.run()
    slow = Scaled(device, program, lanes, round(turns * 0.4 / quick.plan.seconds[0]))  # 0.4 s or so, were it one dispatch
    for _ in range(2):
        slow.run()
        taken = [(event.profile.end - event.profile.start) * 1e-9 for event in slow.plan._events]
        assert sum(taken) < opencl_cut.LONGEST_S or len(taken) > 1
        assert sorted(taken)[len(taken) // 2] < 1.5 * opencl_cut.LONGEST_S, "a busy machine stretches some, not most"


def test_pieces_cover_each_workgroup_once_whatever_the_pace() -> None:
    for groups in (0, 1, 7, 100, 12345):
        for pace in (None, 0.0, 1e-6, 1e-4, 0.04, 3.0):
            pieces = spans(groups, pace)
            assert [k for first, count in pieces for k in range(first, first + count)] == list(range(groups))
            assert all(count * (pace or 0) <= max(opencl_cut.LONGEST_S, pace or 0) for _, count in pieces)
            if pace is not None:
                found, piece = [], next_span(None, pace, groups, 4) if groups else None
                while piece is not None:
                    found += range(piece[0], sum(piece))
                    piece = next_span(piece, pace, groups, 4)
                assert found == list(range(groups))


def test_one_thread_compiles_while_another_draws(device: OpenCLDevice) -> None:
    plan = Scaled(device, written(device), 100_000, turns=3)
    expected = plan.run()
    problems: list[BaseException] = []

    def compile_others() -> None:
        try:
            for k in range(3):
                program = written(device, SCALED.replace("0.25f", f"0.{k + 1}f"))
                Scaled(device, program, 1000).run()
        except BaseException as error:
            problems.append(error)

    worker = threading.Thread(target=compile_others)
    worker.start()
    while worker.is_alive():
        np.testing.assert_array_equal(plan.run(), expected)
    worker.join()
    assert not problems


# ---- sharing with OpenGL ----


def test_memory_is_not_shared_with_opengl_where_the_driver_cannot(device: OpenCLDevice) -> None:
    problem = gl_sharing(device)
    if problem is None:
        pytest.skip("hardware: this driver shares with OpenGL")
    assert "\n" not in problem and (device.name in problem or "pyopencl" in problem)
    with pytest.raises(DeviceError, match=r"cl_khr_gl_sharing|built without OpenGL"):
        device.shared_buffer(1, 16)
    with pytest.raises(DeviceError, match=r"cl_khr_gl_sharing|built without OpenGL"):
        OpenCLDevice(share=True)


def test_the_extension_alone_is_not_enough(device: OpenCLDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyopencl

    able = replace(probe()[0], extensions="cl_khr_fp64 cl_khr_gl_sharing")
    lacking: Found = replace(able, extensions="cl_khr_gl_sharing_of_another_kind")
    assert gl_sharing(lacking) == f"the OpenCL driver of {able.name} has no cl_khr_gl_sharing"
    monkeypatch.setattr(pyopencl, "have_gl", lambda: False)
    assert "PYOPENCL_ENABLE_GL=ON" in (gl_sharing(able) or "")
    monkeypatch.setattr(pyopencl, "have_gl", lambda: True)
    assert gl_sharing(able) is None
    device.extensions = able.extensions
    with pytest.raises(DeviceError, match="was opened without a window to share with"):
        device.shared_buffer(1, 16)


def test_other_threads_run_while_a_driver_compiles(device: OpenCLDevice) -> None:
    """Asking for the binary is where PoCL compiles. A thread that counts must get on meanwhile: a window would stand still otherwise."""
    body = "\n".join(f"    if (x > {k}.5f) x = sin(x) * {k}.0f + cos(x * {k}.0f);" for k in range(60))
    body += f"\n    x += {time.time_ns() % 10**7}.0f;"  # a text that no cache of the driver's knows
    text = f"__kernel void busy(__global float *a) {{\n    float x = a[get_global_id(0)];\n{body}\n    a[get_global_id(0)] = x;\n}}\n"
    built, _ = device._build("busy", text)
    longest, stop = [0.0], threading.Event()

    def count() -> None:
        last = time.perf_counter()
        while not stop.is_set():
            time.sleep(0.001)
            now = time.perf_counter()
            longest[0], last = max(longest[0], now - last), now

    counting = threading.Thread(target=count)
    counting.start()
    began = time.perf_counter()
    binary = binary_of(device._cl, built)
    took = time.perf_counter() - began
    stop.set()
    counting.join()
    assert len(binary) > 1000
    if took < 0.5:
        pytest.skip("hardware: this driver compiles when a program is built")
    assert longest[0] < 0.5 * took
