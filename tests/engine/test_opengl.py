"""The OpenGL backend on the driver that is here (Mesa's llvmpipe does), with kernels written by hand."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from engine.compiler.emit.cstyle import Slot, Source
from engine.runtime import events
from engine.runtime.cache import Cache
from engine.runtime.device import DeviceError, LaunchRequest
from engine.runtime.devices import opengl_functions as gl
from engine.runtime.devices import opengl_plan
from engine.runtime.devices.failures import CompileError
from engine.runtime.devices.opengl import OpenGLDevice, probe
from engine.runtime.devices.opengl_context import StandaloneContext
from engine.runtime.devices.opengl_memory import OpenGLBuffer
from engine.runtime.devices.opengl_plan import OpenGLPlan

OWN = Slot("own", 0, -1)
PACKED = (Slot("packed", 1, 0), Slot("packed", 1, 1))
MIB = 1 << 20


@pytest.fixture(scope="module")
def device() -> Iterator[OpenGLDevice]:
    try:
        opened = OpenGLDevice(cache=Cache(None))
    except DeviceError as error:
        pytest.skip(f"no OpenGL 4.3: {error}")
    yield opened
    opened.close()


def glsl(body: str, workgroup: int, lanes: tuple[int, ...] = (1000,), slots: tuple[Slot, ...] = (OWN,), outside: str = "") -> Source:
    """A kernel over lanes `i` of `a[]` (binding 0), `p[]` (binding 1), offsets `at.x` and `at.y` in it, and `values[]` (parameters)."""
    count = int(np.prod(lanes))
    text = f"""#version 430
layout(local_size_x = {workgroup}) in;
layout(std430, binding = 0) buffer Own {{ uint a[]; }};
layout(std430, binding = 1) readonly buffer Packed {{ uint p[]; }};
layout(std140, binding = 0) uniform Launch {{ ivec4 at; }};
layout(std140, binding = 1) uniform Parameters {{ uvec4 values[16]; }};
layout(location = 0) uniform uint first_group;
{outside}
void main() {{
    uint i = (gl_WorkGroupID.x + first_group) * {workgroup}u + gl_LocalInvocationID.x;
    if (i >= {count}u) return;
    {body}
}}
"""
    words = tuple(f"slot:{k}" for k, slot in enumerate(slots) if slot.word >= 0)
    parameters = any(slot.kind == "parameter" for slot in slots)
    return Source("main", text, workgroup, lanes, (1, workgroup), slots, words, 2, parameters, frozenset(), False)


def filled(device: OpenGLDevice, values: np.ndarray) -> OpenGLBuffer:
    buffer = device.allocate(values.nbytes)
    buffer.write(values)
    return buffer


def contents(buffer: OpenGLBuffer) -> np.ndarray:
    values = np.empty(buffer.nbytes // 4, np.uint32)
    buffer.read(values)
    return values


def run(device: OpenGLDevice, source: Callable[[int], Source], memory: list, workgroup: int = 64, name: str = "kernel") -> np.ndarray:
    """What `a` holds after one run of a kernel."""
    plan = device.executable([LaunchRequest(device.compile_source(name, source, workgroup), memory)], None)
    plan.resize({})
    plan.run({})
    return contents(memory[0])


class Borrowed:
    """A provider around a context that something else made, which keeps a list of what is asked of it."""

    def __init__(self) -> None:
        self.context = StandaloneContext()
        self.asked: list[str] = []
        self.threads: set[int] = set()

    def make_current(self) -> None:
        self._note("make_current")
        self.context.make_current()

    def release(self) -> None:
        self._note("release")
        self.context.release()

    def load(self, name: str) -> int:
        self.threads.add(threading.get_ident())
        return self.context.load(name)

    def close(self) -> None:
        self._note("close")
        self.context.close()

    def _note(self, what: str) -> None:
        self.asked.append(what)
        self.threads.add(threading.get_ident())


def heavy(terms: int) -> Callable[[int], Source]:
    """A kernel that no cache has, with so many loops."""
    body = "".join(f" for (uint k = 0u; k < 9u; k++) x = sin(x * 1.{time.time_ns() % 10**6}{j}) + {j}.5;" for j in range(terms))
    return lambda workgroup: glsl(f"float x = float(i); {body} a[i] = uint(x);", workgroup)


def python(code: str, root: Path, **environment: str) -> str:
    """The last line that a process of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=root, env={**os.environ, **environment}, check=False
    )
    assert done.stdout, done.stderr
    return done.stdout.splitlines()[-1]


PROBE = """
from engine.runtime.device import DeviceError
from engine.runtime.devices.opengl import probe
try: print(probe())
except DeviceError as error: print(error)
"""


# ---- what the device is, and what is missing where it is none ----


def test_a_renderer_on_the_processor_is_software(device: OpenGLDevice) -> None:
    assert device.software == any(name in device.name for name in ("llvmpipe", "softpipe", "swrast", "SwiftShader"))
    limits = probe()
    assert (limits.renderer, limits.software) == (device.name, device.software)
    assert device.driver == f"OpenGL {limits.version}"
    assert limits.version.startswith("4.")


def test_the_target_has_the_driver_s_limits(device: OpenGLDevice) -> None:
    assert device.target.max_buffers >= 8  # what OpenGL 4.3 promises
    assert device.target.max_workgroup >= 128
    assert 32 << 10 <= device.target.shared_bytes <= 64 << 10


def test_without_the_package_the_error_says_how_to_install_it(root: Path) -> None:
    told = python("import sys; sys.modules['glcontext'] = None\n" + PROBE, root)
    assert told == "moderngl is not installed; pip install 'rayfuse[viewer]'"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="hardware: EGL is for Linux")
def test_without_the_library_the_error_names_it_and_the_package(root: Path) -> None:
    told = python(PROBE, root, GLCONTEXT_LINUX_LIBEGL="libEGL-none.so.1")
    assert told == "OpenGL: libEGL-none.so.1 is not installed; Debian: apt-get install libegl1 libgl1 libgl1-mesa-dri"


def test_an_old_driver_is_refused_with_its_version(device: OpenGLDevice, root: Path) -> None:
    if "Mesa" not in device.driver:
        pytest.skip("hardware: only Mesa can pretend to be older")
    told = python(PROBE, root, MESA_GL_VERSION_OVERRIDE="4.2")
    assert told.startswith("OpenGL 4.3 is needed, and this driver has 4.2 ") and "--backend cpu" in told


# ---- launches ----


@pytest.mark.parametrize("workgroup", [1, 64, 128, 256])
def test_each_pixel_is_written_once_whatever_the_workgroup(device: OpenGLDevice, workgroup: int) -> None:
    width, height = 1919, 1079  # no workgroup divides it; more groups of one lane than a dispatch may have
    image = filled(device, np.zeros(width * height, np.uint32))
    got = run(device, lambda n: glsl("a[i] += i + 1u;", n, (height, width)), [image], workgroup)
    assert np.array_equal(got, np.arange(1, width * height + 1, dtype=np.uint32))


def test_a_workgroup_is_what_was_asked_for(device: OpenGLDevice) -> None:
    body = "a[i] = gl_WorkGroupSize.x;"
    for workgroup in (256, 512):
        if workgroup <= device.limits.workgroup:
            program = device.compile_source("size", lambda n: glsl(body, n), workgroup)
            assert program.workgroup == workgroup
            assert set(run(device, lambda n: glsl(body, n), [device.allocate(4000)], workgroup)) == {workgroup}


def test_a_workgroup_without_resources_is_halved_with_one_warning(device: OpenGLDevice) -> None:
    """Each lane asks for 256 bytes of shared memory: not even the smallest limit is kept by 1024 lanes, every one by 64."""

    def greedy(workgroup: int) -> Source:
        shared = f"shared uint held[{workgroup * 64}];"
        return glsl("held[gl_LocalInvocationID.x * 64u] = i; a[i] = held[gl_LocalInvocationID.x * 64u];", workgroup, outside=shared)

    events.forget_warnings()
    heard: list[str] = []
    end = events.subscribe(lambda event: heard.append(event.fields["message"]), ["warning"])
    try:
        asked = min(1024, device.limits.workgroup)
        program = device.compile_source("greedy", greedy, asked)
    finally:
        end()
    assert program.workgroup < asked
    assert len(heard) == 1
    assert heard[0].startswith(f"greedy runs in workgroups of {program.workgroup} instead of {asked}: ")
    assert np.array_equal(run(device, greedy, [device.allocate(4000)], asked), np.arange(1000))


def test_parameters_are_those_of_the_run(device: OpenGLDevice) -> None:
    block = np.zeros(64, np.uint8)
    number = block[24:28].view(np.uint32)
    slots = (OWN, Slot("parameter", -1, 0))

    def source(n: int) -> Source:
        return glsl("a[i] = values[at.x / 4][at.x % 4] + i;", n, slots=slots)

    target = device.allocate(4000)
    plan = device.executable([LaunchRequest(device.compile_source("number", source, 64), [target, number])], block)
    plan.resize({})
    for value in (7, 7, 100):
        number[:] = value
        plan.run({})
        assert np.array_equal(contents(target), np.arange(1000) + value)


def test_launches_see_what_those_before_them_wrote(device: OpenGLDevice) -> None:
    first = device.compile_source("first", lambda n: glsl("a[i] = i;", n), 64)
    second = device.compile_source("second", lambda n: glsl("a[i] = p[at.x + 999u - i];", n, slots=(OWN, Slot("packed", 1, 0))), 64)
    between, target = device.allocate(4000), device.allocate(4000)
    plan = device.executable([LaunchRequest(first, [between]), LaunchRequest(second, [target, between])], None)
    plan.resize({})
    plan.run({})
    assert np.array_equal(contents(target), np.arange(1000)[::-1])
    assert len(plan.seconds) == 2 and all(0 < seconds < 5 for seconds in plan.seconds)


def test_a_long_launch_is_cut_into_short_dispatches(device: OpenGLDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of each lane are chosen so that the launch takes a good part of a second on a slow device."""
    sizes: list[int] = []
    dispatch = device.thread.functions.DispatchCompute

    def counted(x: int, y: int, z: int) -> None:
        sizes.append(x)
        dispatch(x, y, z)

    monkeypatch.setattr(device.thread.functions, "DispatchCompute", counted)
    steps = 4000 if device.software else 2_000_000
    body = f"float x = float(i); for (uint k = 0u; k < {steps}u; k++) x = x * 0.5 + 1.0; a[i] = i + uint(x > 3.0);"
    lanes = 1 << 18
    program = device.compile_source("long", lambda n: glsl(body, n, (lanes,)), 64)
    target = device.allocate(4 * lanes)
    plan = device.executable([LaunchRequest(program, [target])], None)
    plan.resize({})
    plan.run({})
    assert np.array_equal(contents(target), np.arange(lanes))
    assert sum(sizes) == lanes // 64
    assert sizes[0] <= 16 and all(later <= 8 * before for before, later in pairwise(sizes))  # nobody knew how long it takes
    known = plan.seconds[0]
    sizes.clear()
    plan.run({})
    assert np.array_equal(contents(target), np.arange(lanes))
    assert sum(sizes) == lanes // 64
    assert (len(sizes) == 1) == (known < 0.1)


def test_other_threads_run_while_the_device_works(device: OpenGLDevice) -> None:
    body = "float x = float(i); for (uint k = 0u; k < 2000u; k++) x = x * 0.5 + 1.0; a[i] = uint(x);"
    program = device.compile_source("busy", lambda n: glsl(body, n, (1 << 18,)), 64)
    plan = device.executable([LaunchRequest(program, [device.allocate(4 << 18)])], None)
    plan.resize({})
    worker = threading.Thread(target=plan.run, args=({},))
    gaps, last = [], time.perf_counter()
    worker.start()
    while worker.is_alive():
        time.sleep(0.0005)
        gaps.append(time.perf_counter() - last)
        last = time.perf_counter()
    if sum(plan.seconds) > 0.05:
        assert len(gaps) > 5 and sorted(gaps)[len(gaps) // 2] < 0.02


def test_many_threads_use_one_device(device: OpenGLDevice) -> None:
    wrong: list[int] = []

    def work(k: int) -> None:
        for turn in range(5):
            buffer = filled(device, np.full(1000, k, np.uint32))
            got = run(device, lambda n, turn=turn: glsl(f"a[i] = a[i] * 1000u + {turn}u;", n), [buffer], name=f"thread{turn}")
            if not np.array_equal(got, np.full(1000, k * 1000 + turn)):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- memory ----


def test_buffers_that_share_a_binding_are_moved_together(device: OpenGLDevice) -> None:
    """Three buffers, two plans: one reads the first two through one binding, the other the last two."""
    values = [np.arange(1000, dtype=np.uint32) * 10**k for k in range(3)]
    buffers = [filled(device, each) for each in values]
    source = lambda n: glsl("a[i] = p[at.x + i] + p[at.y + i];", n, slots=(OWN, *PACKED))  # noqa: E731
    program = device.compile_source("sum", source, 64)
    targets = [device.allocate(4000), device.allocate(4000)]
    plans = []
    for k in (0, 1):
        plan = device.executable([LaunchRequest(program, [targets[k], buffers[k], buffers[k + 1]])], None)
        plan.resize({})
        plan.run({})
        plans.append(plan)
    assert len({buffer.glo for buffer in buffers}) == 1
    assert all(buffer.offset % 256 == 0 for buffer in buffers)
    assert all(np.array_equal(contents(buffer), each) for buffer, each in zip(buffers, values))
    buffers[1].write(values[1] + 1)  # the moved one, which both plans must read
    moves = device.memory.version
    for k in (0, 1, 0, 1):
        plans[k].run({})
        assert np.array_equal(contents(targets[k]), values[k] + values[k + 1] + 1)
    assert device.memory.version == moves  # the two plans do not fetch them from each other


def test_buffers_that_take_turns_are_moved_once(device: OpenGLDevice) -> None:
    both = [filled(device, np.full(1000, k, np.uint32)) for k in (1, 2)]
    fixed, target = filled(device, np.full(1000, 10, np.uint32)), device.allocate(4000)
    source = lambda n: glsl("a[i] = p[at.x + i] + p[at.y + i];", n, slots=(OWN, *PACKED))  # noqa: E731
    plan = device.executable([LaunchRequest(device.compile_source("turns", source, 64), [target, both[0], fixed])], None)
    plan.resize({})
    versions = []
    for turn in range(6):
        plan.rebind(0, 1, both[turn % 2])
        plan.run({})
        assert np.array_equal(contents(target), np.full(1000, 11 + turn % 2))
        versions.append(device.memory.version)
    assert versions[1:] == [versions[1]] * 5


def test_a_buffer_above_the_binding_size_is_refused_with_both_sizes(device: OpenGLDevice) -> None:
    most = device.limits.binding_bytes
    with pytest.raises(MemoryError) as caught:
        device.allocate(most + 44 * MIB)
    told = str(caught.value)
    assert f"{most // MIB + 44} MiB" in told and f"{most // MIB} MiB" in told and "\n" not in told


def test_buffers_too_large_for_one_binding_are_refused_with_both_sizes(device: OpenGLDevice) -> None:
    if device.limits.binding_bytes > 256 * MIB:
        pytest.skip("hardware: this driver binds more than a test may allocate")
    half = device.limits.binding_bytes * 3 // 4
    source = lambda n: glsl("a[i] = p[at.x + i] + p[at.y + i];", n, slots=(OWN, *PACKED))  # noqa: E731
    with pytest.raises(MemoryError) as caught:
        run(device, source, [device.allocate(4000), device.allocate(half), device.allocate(half)])
    assert f"{2 * half // MIB} MiB" in str(caught.value) and f"{device.limits.binding_bytes // MIB} MiB" in str(caught.value)


FULL = """
import resource
from engine.runtime.cache import Cache
from engine.runtime.devices.opengl import OpenGLDevice
device = OpenGLDevice(cache=Cache(None))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (250 << 20),) * 2)
held = []
try:
    while len(held) < 6:
        held.append(device.allocate(100 << 20))
except MemoryError as error:
    del held[:]
    device.allocate(50 << 20)  # it goes on
    print(error)
"""


def test_a_full_memory_is_said_with_the_size(device: OpenGLDevice, root: Path) -> None:
    if not device.software or not sys.platform.startswith("linux"):
        pytest.skip("hardware: only the memory of a process can be limited")
    told = python(FULL, root)
    assert told == f"a buffer of 100 MiB does not fit the memory of {device.name}; use a smaller size or scene"


def test_an_array_larger_than_its_buffer_is_refused(device: OpenGLDevice) -> None:
    buffer = device.allocate(16)
    with pytest.raises(ValueError, match="20 bytes"):
        buffer.write(np.zeros(5, np.uint32))
    with pytest.raises(ValueError, match="contiguous: False"):
        buffer.read(np.zeros(4, np.uint32)[::2])


# ---- compiling ----


def test_a_text_that_does_not_compile_names_kernel_reason_and_file(device: OpenGLDevice) -> None:
    with pytest.raises(CompileError) as caught:
        device.compile_source("broken", lambda n: glsl("a[i] = nonsense;", n), 64)
    told = str(caught.value)
    assert told.startswith("broken does not compile with the OpenGL driver of ") and "nonsense" in told and "\n" not in told
    assert caught.value.path is not None and "a[i] = nonsense;" in Path(caught.value.path).read_text(encoding="utf-8")


def test_what_the_device_lacks_is_said_before_anything_is_compiled(device: OpenGLDevice) -> None:
    extensions = device.thread.functions.extensions
    device.thread.functions.extensions = frozenset()
    try:
        with pytest.raises(DeviceError, match=r"wide computes with 64-bit integers, which .* lacks \(GL_ARB_gpu_shader_int64\)"):
            device.compile_source("wide", lambda n: replace(glsl("a[i] = 1u;", n), features=frozenset({"int64"})), 64)
    finally:
        device.thread.functions.extensions = extensions


STORED = """
import marshal, sys
import numpy as np
from engine.runtime import events
from engine.runtime.cache import Cache
from engine.runtime.device import LaunchRequest
from engine.runtime.devices.opengl import OpenGLDevice
device = OpenGLDevice(cache=Cache("FOLDER"))
with events.counting() as moved:
    program = device.unpack(marshal.loads(bytes.fromhex("PACKED")))
if program is None:
    print("gone")
else:
    target, got = device.allocate(4000), np.empty(1000, np.uint32)
    plan = device.executable([LaunchRequest(program, [target])], None)
    plan.resize({})
    plan.run({})
    target.read(got)
    compiler = any(name.startswith("engine.compiler.emit") for name in sys.modules)
    print(np.array_equal(got, np.arange(1000) * 3), moved.compiles, moved.cache_hits, compiler, program.workgroup)
device.close()
"""


def test_another_process_runs_a_stored_kernel_without_the_compiler(device: OpenGLDevice, tmp_path: Path, root: Path) -> None:
    import marshal

    other = OpenGLDevice(cache=Cache(tmp_path))
    program = other.compile_source("triple", lambda n: glsl("a[i] = i * 3u;", n), 128)
    assert not program.cached
    packed = marshal.dumps(other.pack(program)).hex()
    other.close()
    code = STORED.replace("FOLDER", str(tmp_path)).replace("PACKED", packed)
    assert python(code, root) == "True 0 1 False 128"
    # a driver that refuses the binary gets the text
    cache = Cache(tmp_path)
    data = cache.get(program.key)
    assert data is not None
    form, binary, text = marshal.loads(data)
    assert not other.limits.binaries or len(binary) > 100
    cache.put(program.key, marshal.dumps((form, b"x" * len(binary), text)))
    assert python(code, root) == "True 0 1 False 128"
    again = cache.get(program.key)
    assert again is not None and marshal.loads(again)[1] != b"x" * len(binary)  # and the bad one is replaced
    cache.clear()
    assert python(code, root) == "gone"


def test_the_same_text_compiles_once(device: OpenGLDevice) -> None:
    with events.counting() as moved:
        first = device.compile_source("once", lambda n: glsl("a[i] = 77u;", n), 64)
        second = device.compile_source("once", lambda n: glsl("a[i] = 77u;", n), 64)
    assert moved.compiles == 1
    assert second.cached and second.linked is first.linked


def test_the_first_run_of_a_program_is_not_its_compilation(device: OpenGLDevice) -> None:
    """Drivers put off making machine code until a program is dispatched, which compiling therefore includes."""
    program = device.compile_source("heavy", heavy(6), 64)
    plan = device.executable([LaunchRequest(program, [device.allocate(4000)])], None)
    plan.resize({})
    began = time.perf_counter()
    plan.run({})
    assert time.perf_counter() - began < program.seconds


def test_other_threads_run_while_a_program_is_compiled(device: OpenGLDevice) -> None:
    worker = threading.Thread(target=device.compile_source, args=("heavy", heavy(20), 64))
    turns, began = 0, time.perf_counter()
    worker.start()
    while worker.is_alive():
        time.sleep(0.001)
        turns += 1
    taken = time.perf_counter() - began
    if taken > 0.1:
        assert turns > taken / 0.05  # one that is kept waiting by the compiler has a single turn


# ---- ends ----


def test_a_closed_device_says_so(device: OpenGLDevice) -> None:
    other = OpenGLDevice(cache=Cache(None))
    buffer = other.allocate(16)
    other.close()
    other.close()
    with pytest.raises(DeviceError, match="the OpenGL device is closed: open another one"):
        buffer.read(np.zeros(4, np.uint32))


def plan_of(device: OpenGLDevice) -> OpenGLPlan:
    """Something to run."""
    program = device.compile_source("kernel", lambda n: glsl("a[i] = i;", n), 64)
    plan = device.executable([LaunchRequest(program, [device.allocate(4000)])], None)
    plan.resize({})
    return plan


def test_a_lost_device_is_an_error_and_not_a_hang(device: OpenGLDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """No driver here can be lost, so the answers of one that is are put in its place: the error again and again, and no end of waiting."""
    plan, functions = plan_of(device), device.thread.functions
    with monkeypatch.context() as patch:
        patch.setattr(functions, "GetError", lambda: gl.CONTEXT_LOST)
        with pytest.raises(DeviceError, match=r"^the OpenGL device was lost while running a plan .*: start again, with less work a frame$"):
            plan.run({})
    with monkeypatch.context() as patch:
        patch.setattr(functions, "ClientWaitSync", lambda *_: gl.TIMEOUT_EXPIRED)
        patch.setattr(opengl_plan, "_PATIENCE_S", 0.05)
        with pytest.raises(DeviceError, match=r"^the OpenGL device .* does not answer: start again, with less work a frame"):
            plan.run({})
    plan.run({})


def test_nothing_is_left_of_what_was_made(device: OpenGLDevice) -> None:
    before = threading.active_count()
    for turn in range(5):
        provider = Borrowed()
        other = OpenGLDevice(context=provider, cache=Cache(None))
        fresh = len(other.thread._owned)
        held = [filled(other, np.arange(64, dtype=np.uint32)) for _ in range(200)]
        programs = [other.compile_source(f"p{k}", lambda n, k=k: glsl(f"a[i] = {k}u;", n, (64,)), 64) for k in range(20)]
        plans = [other.executable([LaunchRequest(program, [held[0]])], None) for program in programs]
        assert len(other.thread._owned) > fresh + 200 + 20
        names = [buffer.glo for buffer in held]
        del held, plans, programs
        other._programs.clear()
        gc.collect()
        assert len(other.thread._owned) == fresh
        is_buffer = ctypes.CFUNCTYPE(ctypes.c_ubyte, ctypes.c_uint)(other.thread.call(provider.load, "glIsBuffer"))
        assert not any(other.thread.call(is_buffer, name) for name in names)  # the driver has them back
        if turn % 2:
            other.close()
        del other
        gc.collect()
    deadline = time.perf_counter() + 5
    while threading.active_count() > before and time.perf_counter() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before  # a device that nobody holds ends by itself


def test_a_program_that_does_not_close_its_device_ends(root: Path, device: OpenGLDevice) -> None:
    code = "from engine.runtime.devices.opengl import OpenGLDevice\nd = OpenGLDevice()\nb = d.allocate(64)\nprint('made')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, cwd=root, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "made\n", "")


def test_a_context_is_used_on_one_thread_and_given_back(device: OpenGLDevice) -> None:
    provider = Borrowed()
    other = OpenGLDevice(context=provider, cache=Cache(None))
    run(other, lambda n: glsl("a[i] = 1u;", n), [other.allocate(4000)])
    other.close()
    assert provider.asked == ["make_current", "release", "close"]
    assert len(provider.threads) == 1 and threading.get_ident() not in provider.threads
