"""A plan on disk is used where tracing would give the same kernels, and nowhere else; and then nothing is traced."""

from __future__ import annotations

import ctypes
import enum
import json
import marshal
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from engine import Tensor, jit, stored
from engine.compiler.emit.llvm_walk import groups_in, tile_shape
from engine.compiler.kernel import Kernel
from engine.graph.uop import size_value
from engine.jit import Jitted
from engine.native import compile_host_code
from engine.outside import NotPortable, outside, portable
from engine.runtime import events
from engine.runtime.cache import Cache
from engine.runtime.devices import native, native_image
from engine.runtime.devices.cpu import CpuDevice, Grid
from engine.runtime.packing import pack_shape, unpack_shape

ROOT = Path(__file__).resolve().parents[2]
STEPS = 60  # enough operations for a plan to be stored


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The switches under which nothing is stored, off."""
    for name in ("CHECK", "NOOPT", "DEBUG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Callable[..., CpuDevice]]:
    """Makes devices that share one cache and nothing else, as the devices of different processes do."""
    made: list[CpuDevice] = []

    def make(**options: Any) -> CpuDevice:
        made.append(CpuDevice(threads=1, cache=Cache(tmp_path / "cache"), **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def from_disk(made: Jitted) -> bool:
    """Whether the function's latest signature came from the disk."""
    told = made.stats.compiles[-1].why.endswith("from the disk cache")
    assert told == (made.stats.trace_seconds == 0), "a function that was not traced has no seconds of tracing"
    return told


AMOUNT = 0.25


def long(x: Any, k: Any) -> Any:
    for step in range(STEPS):
        x = x * k + AMOUNT * step
        x = x.minimum(100.0) - x.abs() * 0.001
    return x


def called(function: Callable[..., Any], device: CpuDevice, *arguments: Any, **options: Any) -> tuple[Jitted, Any]:
    """A new jitted function, called once."""
    made: Jitted = jit(function, device=device, **options)
    return made, made(*arguments)


def data(dtype: Any = np.float32, count: int = 40) -> Tensor:
    return Tensor(np.arange(count).astype(dtype))


# ---- what comes back ----


def test_a_stored_plan_gives_the_same_values_and_says_where_it_is_from(device: Callable[..., CpuDevice]) -> None:
    first, expected = called(long, device(), data(), 0.5)
    with events.counting() as counted:
        second, again = called(long, device(), data(), 0.5)
    assert not from_disk(first) and from_disk(second)
    assert (counted.traces, counted.compiles, counted.cache_misses) == (0, 0, 0)
    assert second.stats.compiles[0].why.startswith("first call (") and "test_stored_plans.py:" in second.stats.compiles[0].why
    assert (second.stats.kernels, second.stats.cache_hits, second.stats.cache_misses) == (1, 1, 0)
    assert np.array_equal(again.numpy(), expected.numpy())
    assert np.array_equal(second(data(), 0.25).numpy(), first(data(), 0.25).numpy())
    assert second.stats.hits == 1


class Mode(enum.Enum):
    FAST = 1


class Pair(NamedTuple):
    one: Any
    other: Any


@dataclass(frozen=True)
class Picture:
    rows: Any
    mode: Mode
    parts: dict[str, Any]


def pictured(x: Any, state: Any, k: Any) -> Any:
    state.assign(state + k)
    y = long(x, k)
    return Picture(y, Mode.FAST, {"pair": Pair(state, y.sum()), "none": None, "list": [x, "text", (y + 1,)]})


def test_trees_of_results_and_assigned_arguments(device: Callable[..., CpuDevice]) -> None:
    results = []
    for expected in (False, True):
        state = data()
        made, picture = called(pictured, device(), data(), state, 0.5)
        assert from_disk(made) is expected
        assert isinstance(picture, Picture) and picture.mode is Mode.FAST and isinstance(picture.parts["pair"], Pair)
        assert list(picture.parts) == ["pair", "none", "list"] and picture.parts["none"] is None
        assert picture.parts["list"][1] == "text" and isinstance(picture.parts["list"][2], tuple)
        assert np.array_equal(state.numpy(), data().numpy() + 0.5) and np.array_equal(picture.parts["pair"].one.numpy(), state.numpy())
        results.append([t.numpy() for t in (picture.rows, picture.parts["pair"].other, *picture.parts["list"][2])])
    assert all(np.array_equal(a, b) for a, b in zip(*results, strict=True))


def test_another_size_compiles_nothing(device: Callable[..., CpuDevice]) -> None:
    def sized(height: int, width: int) -> Tensor:
        return Tensor(np.linspace(0, 1, height * width, dtype=np.float32).reshape(height, width), dims=("height", "width"))

    called(long, device(), sized(5, 7), 0.5)
    made, _ = called(long, device(), sized(5, 7), 0.5)
    assert from_disk(made)
    fresh: Jitted = jit(lambda x, k: long(x, k), device=device())
    with events.counting() as counted:
        results = [made(sized(*size), 0.5).numpy() for size in ((1, 1), (33, 18), (5, 7))]
    assert (counted.traces, counted.compiles) == (0, 0) and made.stats.misses == 1
    for size, result in zip(((1, 1), (33, 18), (5, 7)), results, strict=True):
        assert np.array_equal(result, fresh(sized(*size), 0.5).numpy())


def test_kernels_and_graphs_can_still_be_looked_at(device: Callable[..., CpuDevice]) -> None:
    first, _ = called(long, device(), data(), 0.5)
    second, _ = called(long, device(), data(), 0.5)
    assert from_disk(second)
    known, again = first.kernels(data(), 0.5)[0], second.kernels(data(), 0.5)[0]
    assert (known.name, known.lanes, known.workgroup, known.reasons) == (again.name, again.lanes, again.workgroup, again.reasons)
    assert known.source() == again.source()
    assert len(second.plan_of(data(), 0.5).kernels) == 1


# ---- what makes another entry ----


@pytest.mark.parametrize(
    "change", ["dtype", "shape", "static", "width", "workgroup", "name", "number", "contract", "structure"]
)
def test_another_signature_or_device_is_another_entry(device: Callable[..., CpuDevice], change: str) -> None:
    def stepped(x: Any, k: Any, settings: Any) -> Any:
        for _ in range(settings):
            x = long(x, k)
        return x

    def run(**other: Any) -> Jitted:
        given = {"x": data(), "k": 0.5, "settings": 1, "options": {}, "device": {}, **other}
        made: Jitted = jit(stepped, static=("settings",), device=device(**given["device"]), **given["options"])
        made(given["x"], given["k"], given["settings"])
        return made

    narrower = {16: 8, 8: 4, 4: 4}[device().group_width]
    if change == "width" and narrower == device().group_width:
        pytest.skip("hardware: there is no narrower width")
    others: dict[str, dict[str, Any]] = {
        "dtype": {"x": data(np.float64)}, "shape": {"x": data(count=41)}, "static": {"settings": 2}, "number": {"k": 2},
        "structure": {"k": np.full(1, 0.5, np.float32)}, "width": {"device": {"group": narrower}},
        "contract": {"device": {"contract": False}}, "workgroup": {"options": {"workgroup": 512}}, "name": {"options": {"name": "other"}},
    }  # fmt: skip
    assert not from_disk(run())
    assert not from_disk(run(**others[change]))
    assert from_disk(run()) and from_disk(run(**others[change]))


def test_values_that_the_function_sees_are_part_of_the_key(device: Callable[..., CpuDevice], monkeypatch: pytest.MonkeyPatch) -> None:
    assert not from_disk(called(long, device(), data(), 0.5)[0])
    monkeypatch.setitem(globals(), "AMOUNT", 0.75)
    changed, result = called(long, device(), data(), 0.5)
    assert not from_disk(changed)
    monkeypatch.undo()
    before, other = called(long, device(), data(), 0.5)
    assert from_disk(before) and not np.array_equal(other.numpy(), result.numpy())


def test_captured_values_and_defaults_are_part_of_the_key(device: Callable[..., CpuDevice]) -> None:
    def made_with(captured: Any, default: Any) -> Callable[..., Any]:
        def inner(x: Any, k: Any = default) -> Any:
            return long(x, 0.5) * captured + k

        return inner

    for captured, default in ((1.0, 2.0), (1.5, 2.0), (1.0, 2.5), (True, 2.0), ((1.0,), 2.0)):
        function = made_with(captured[0] if isinstance(captured, tuple) else captured, default)
        first, expected = called(function, device(), data())
        assert from_disk(first) is isinstance(captured, tuple)
        again, result = called(function, device(), data())
        assert from_disk(again) and np.array_equal(result.numpy(), expected.numpy())


def test_functions_of_one_name_on_one_line_are_told_apart(device: Callable[..., CpuDevice]) -> None:
    one, other = (lambda x: long(x, 0.5) + 1), (lambda x: long(x, 0.5) - 1)
    assert not from_disk(called(one, device(), data())[0])
    assert not from_disk(called(other, device(), data())[0])
    assert from_disk(called(one, device(), data())[0])


# ---- what is not stored ----


def test_captured_memory_is_not_stored(device: Callable[..., CpuDevice]) -> None:
    table = data()
    assert not from_disk(called(lambda x: long(x, 0.5) + table, device(), data())[0])
    table = Tensor(table.numpy() + 1)
    made, result = called(lambda x: long(x, 0.5) + table, device(), data())
    assert not from_disk(made) and np.array_equal(result.numpy(), (called(long, device(), data(), 0.5)[1] + table).numpy())


def test_what_no_other_process_could_compare_is_not_stored(device: Callable[..., CpuDevice]) -> None:
    class Local(NamedTuple):
        value: Any

    class Odd:
        amount = 2.0

    odd = Odd()
    for function in (lambda x: Local(long(x, 0.5)), lambda x: long(x, odd.amount)):
        for _ in range(2):
            assert not from_disk(called(function, device(), data())[0])
    with pytest.raises(NotPortable, match="local type"):
        portable(Local(1))


def test_small_functions_are_traced(device: Callable[..., CpuDevice]) -> None:
    for _ in range(2):
        assert not from_disk(called(lambda x: x + 1, device(), data())[0])


@pytest.mark.parametrize(("name", "value"), [("CHECK", "1"), ("NOOPT", "1"), ("DEBUG", "3")])
def test_switches_that_look_into_the_compiler_trace(
    device: Callable[..., CpuDevice], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    called(long, device(), data(), 0.5)
    monkeypatch.setenv(name, value)
    for _ in range(2):
        assert not from_disk(called(long, device(), data(), 0.5)[0])
    monkeypatch.delenv(name)
    assert from_disk(called(long, device(), data(), 0.5)[0])


def test_without_a_cache_everything_is_traced() -> None:
    for _ in range(2):
        made = CpuDevice(threads=1, cache=Cache(None))
        assert not from_disk(called(long, made, data(), 0.5)[0])
        made.close()


# ---- entries that are no use ----


def test_damaged_entries_are_dropped_and_made_again(device: Callable[..., CpuDevice], tmp_path: Path) -> None:
    expected = called(long, device(), data(), 0.5)[1].numpy()
    for damage in (lambda old: old[:-1] + bytes([old[-1] ^ 1]), lambda old: old[: len(old) // 2], lambda old: b""):
        for entry in (tmp_path / "cache").glob("*.entry"):
            entry.write_bytes(damage(entry.read_bytes()))
        made, result = called(long, device(), data(), 0.5)
        assert not from_disk(made) and np.array_equal(result.numpy(), expected)
        assert from_disk(called(long, device(), data(), 0.5)[0])


def test_an_entry_that_makes_no_sense_is_made_again(device: Callable[..., CpuDevice], monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str] = []
    real = stored.load
    monkeypatch.setattr(stored, "load", lambda key, *rest: (keys.append(key.text), real(key, *rest))[1])
    expected = called(long, device(), data(), 0.5)[1].numpy()
    cache = device().cache
    for nonsense in (b"", b"nonsense", *map(marshal.dumps, ((), ((), (1, 2, 3)), ((), ((),) * 6)))):
        cache.put(keys[0], nonsense)
        made, result = called(long, device(), data(), 0.5)
        assert not from_disk(made) and np.array_equal(result.numpy(), expected)
        assert from_disk(called(long, device(), data(), 0.5)[0])


def test_a_plan_whose_machine_code_is_gone_is_made_again(device: Callable[..., CpuDevice], tmp_path: Path) -> None:
    expected = called(long, device(), data(), 0.5)[1].numpy()
    for entry in (tmp_path / "cache").glob("*.entry"):
        if b"\x7fELF" in entry.read_bytes()[:80]:
            entry.unlink()
    made, result = called(long, device(), data(), 0.5)
    assert not from_disk(made) and made.stats.cache_misses == 1 and np.array_equal(result.numpy(), expected)


def test_the_limit_counts_plans_too(tmp_path: Path) -> None:
    for k in range(5):
        made = CpuDevice(threads=1, cache=Cache(tmp_path, limit=2))
        called(lambda x, k=k: long(x, 0.5) * k, made, data())
        made.close()
        assert Cache(tmp_path, limit=2).statistics().entries <= 2


# ---- real processes ----

HELPER = """
def scale():
    return 2.0

def helped(x):
    return x * scale() + 1
"""

PROGRAM = """
import json, sys
import numpy as np
import helper
from engine import Tensor, jit
from engine.runtime import events

@jit
def drawn(x, k):
    for step in range(60):
        x = (x * k + x.abs() * 0.01).minimum(50.0) + step
    return helper.helped(x)

with events.counting() as counted:
    y = drawn(Tensor(np.linspace(-1, 1, 1000, dtype=np.float32)), 0.5).numpy()
compilers = [m for m in ("engine.compiler.schedule", "engine.compiler.lower", "engine.compiler.emit.llvm") if m in sys.modules]
stats = drawn.stats
print(json.dumps({"why": stats.compiles[0].why, "traces": counted.traces, "compiles": counted.compiles, "traced": stats.trace_seconds,
                  "values": y.tobytes().hex()[:4000], "compilers": compilers, "misses": stats.cache_misses}))
"""


class Program:
    """A program in a folder of its own, run in processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write(HELPER)
        (folder / "program.py").write_text(PROGRAM)

    def write(self, helper: str) -> None:
        (self.folder / "helper.py").write_text(textwrap.dedent(helper))

    def start(self, **env: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "JIT_CACHE": str(self.folder / "cache"), "CPU": "1", **env}
        command = [sys.executable, "-B", "program.py"]
        return subprocess.Popen(command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, **env: str) -> dict[str, Any]:
        return self.result(self.start(**env))

    def result(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0 and not err, err
        result: dict[str, Any] = json.loads(out)
        return result


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_a_second_process_traces_nothing_and_compiles_nothing(program: Program) -> None:
    first, second = program.run(), program.run()
    assert (first["traces"], first["misses"]) == (1, 1) and first["compilers"]
    assert (second["traces"], second["compiles"], second["misses"], second["traced"]) == (0, 0, 0, 0)
    assert second["compilers"] == [], "nothing of the compiler is imported"
    assert second["why"] == f"{first['why']}, from the disk cache"
    assert second["values"] == first["values"]


def test_a_changed_source_file_is_traced_again(program: Program) -> None:
    first = program.run()
    program.write(HELPER.replace("2.0", "3.0"))
    changed = program.run()
    assert changed["traces"] == 1 and changed["values"] != first["values"]
    assert program.run()["traces"] == 0
    program.write(HELPER + "\n# a remark\n")  # in the file, not in the code: retraced, and the same kernel
    remarked = program.run()
    assert (remarked["traces"], remarked["misses"]) == (1, 0) and remarked["values"] == first["values"]


def test_a_file_that_only_looks_newer_is_read_and_known_again(program: Program) -> None:
    program.run()
    os.utime(program.folder / "helper.py", ns=(1, 1))
    sizes = {path.name: path.stat().st_mtime_ns for path in (program.folder / "cache").iterdir()}
    assert program.run()["traces"] == 0
    assert {path.name: path.stat().st_mtime_ns for path in (program.folder / "cache").iterdir()} != sizes, "its time is stored"
    assert program.run()["traces"] == 0


def test_no_cache_is_no_error(program: Program) -> None:
    for _ in range(2):
        assert program.run(JIT_CACHE="0")["traces"] == 1
    assert not (program.folder / "0").exists()


def test_eight_processes_at_once(program: Program) -> None:
    started = [program.start(RAYFUSE_THREADS="1") for _ in range(8)]
    results = [program.result(process) for process in started]
    assert len({result["values"] for result in results}) == 1
    assert program.run(RAYFUSE_THREADS="1")["traces"] == 0


# ---- the parts ----


def test_what_is_reached_from_a_function() -> None:
    found = outside(pictured)
    assert __file__ in found.files
    text = repr(found.values)
    assert "'AMOUNT', 0.25" in text and "'STEPS', 60" in text and "Mode" in text and "numpy" not in text
    assert len({repr(portable(value)) for value in (1, 1.0, True, "1", b"1", np.int32(1))}) == 6  # as they are in a key
    assert portable(Mode.FAST) != portable(Mode.FAST.value) and portable((1, 2)) != portable([1, 2])
    assert portable(np.float32(1)) != portable(1.0) and portable(np.zeros(2)) != portable(np.zeros(3))


def test_sizes_as_plain_data() -> None:
    height = Tensor(np.zeros((4, 3), np.float32), dims=("height",)).shape[0]
    area = (Tensor.of(height) * 3).uop
    shape = (2, height, area)
    assert unpack_shape(marshal.loads(marshal.dumps(pack_shape(shape)))) == shape
    with pytest.raises(ValueError, match="'sin' makes no size"):
        unpack_shape((("sin", None, 3),))


def workgroups(kernel: Kernel, width: int, dims: dict[str, int]) -> int:
    """Number of workgroups that cover the kernel's lanes, given the values of the named sizes."""
    sizes = [size_value(s, dims) for s in kernel.lanes]
    if any(s == 0 for s in sizes):
        return 0
    if kernel.walk == "tiles":
        h, w = tile_shape(width)
        sizes[-2:] = [-(-sizes[-2] // h), -(-sizes[-1] // w)]
    elif sizes:
        sizes[-1] = -(-sizes[-1] // width)
    groups = 1
    for s in sizes:
        groups *= s
    return -(-groups // groups_in(kernel, width))


@pytest.mark.parametrize("width", [1, 4, 8, 16])
def test_a_grid_counts_workgroups_as_the_emitter_walks_them(device: Callable[..., CpuDevice], width: int) -> None:
    def branching(x: Any) -> Any:
        from engine import cond

        return cond(x > 0, lambda v: long(v, 0.5), lambda v: v * 2, x)

    for function in (lambda x: x + 1, lambda x: x.sum(), lambda x: x.sum(axis=1), branching):
        kernels = jit(function, device=device()).plan_of(Tensor(np.ones((37, 53), np.float32), dims=("h", "w"))).kernels
        for kernel in kernels:
            for dims in ({"h": 37, "w": 53}, {"h": 1, "w": 1}, {"h": 0, "w": 5}, {"h": 1080, "w": 1920}):
                assert Grid.of(kernel, width).workgroups(dims) == workgroups(kernel, width, dims)


CODE = """
declare float @sinf(float)
declare float @outside(float)
@table = private constant [4 x float] [float 1.0, float 2.0, float 4.0, float 8.0]
define float @near(i64 %i) {
  %at = getelementptr float, ptr @table, i64 %i
  %v = load float, ptr %at
  %w = fmul float %v, 3.0
  ret float %w
}
define float @far(float %x) {
  %s = call float @sinf(float %x)
  ret float %s
}
"""
CALLS_OUT = CODE + "define float @further(float %x) {\n  %s = call float @outside(float %x)\n  ret float %s\n}\n"


@pytest.mark.skipif(not native_image.HERE, reason="hardware: objects are linked without LLVM on Linux for x86-64")
def test_an_image_runs_as_what_llvm_links_does(monkeypatch: pytest.MonkeyPatch) -> None:
    made = native.compile_ir(CODE, name="image")
    images = native.load_object(made)
    monkeypatch.setattr(native_image, "HERE", False)
    linked = native.load_object(made)
    for library in (images, linked):
        near = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(library.address("near"))
        far = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(library.address("far"))
        assert [near(i) for i in range(4)] == [3, 6, 12, 24] and far(0.5) == np.float32(np.sin(np.float32(0.5)))
        with pytest.raises(native.LoadError, match="nothing cannot be loaded"):
            library.address("nothing")


@pytest.mark.skipif(not native_image.HERE, reason="hardware: objects are linked without LLVM on Linux for x86-64")
def test_an_image_is_refused_where_llvm_must_link() -> None:
    def known(name: str) -> int | None:
        return 4096 if name == "sinf" else None

    plain, calls, writes = (
        native.compile_ir(text, name="image") for text in (CODE, CALLS_OUT, CODE + "@written = global i32 5\n")
    )
    assert native_image.link(plain, known) is not None
    assert native_image.link(calls, known) is None and native_image.link(writes, known) is None
    for cut in (b"", plain[:50], plain[:200], plain[:-40], b"MZ" + plain[2:], plain[:18] + b"\xb7" + plain[19:]):
        assert native_image.link(cut, known) is None


def test_host_code_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JIT_CACHE", str(tmp_path))
    text = "define i32 @answer(i32 %x) {\n  %y = add i32 %x, 41\n  ret i32 %y\n}\n"
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)
    assert prototype(compile_host_code(text, "answer"))(1) == 42
    monkeypatch.setattr("engine.native.compile_ir", None)  # calling it would fail
    assert prototype(compile_host_code(text, "answer"))(2) == 43
