"""A jitted function gives what the plain function gives; changed data never compiles, and memory is never mixed up."""

from __future__ import annotations

import enum
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

from engine import StaleTensorError, Tensor, jit, open_device, set_default_device, where, while_loop
from engine.jit import Jitted
from engine.runtime import events


@pytest.fixture(autouse=True, scope="module")
def interpreter() -> Iterator[None]:
    """Most of this is about what happens around kernels, so the device that compiles nothing does."""
    before = set_default_device(open_device("reference"))
    yield
    set_default_device(before)


def row(*values: float, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.array(values, dtype))


# ---- signatures ----


def test_new_values_of_numbers_and_tensors_compile_nothing() -> None:
    @jit
    def scaled(x: Any, k: Any, offset: Any) -> Any:
        return x * k + offset

    assert scaled(row(1, 2), 3.0, 1).tolist() == [4, 7]
    with events.counting() as counted:
        assert scaled(row(5, 6), -1.0, 2).tolist() == [-3, -4]
        assert scaled(row(5, 6), np.float32(2), np.int32(0)).tolist() == [10, 12]
    assert (counted.traces, counted.compiles, counted.allocations) == (0, 0, 0)
    assert (scaled.stats.misses, scaled.stats.hits, len(scaled.stats.compiles)) == (1, 2, 1)


def test_one_dimensional_shapes_and_dtypes_are_part_of_the_signature() -> None:
    @jit
    def doubled(x: Any) -> Any:
        return x + x

    for x in (row(1), row(1, 2), row(1, 2, 3), row(1, 2, dtype=np.int32), row(5)):
        assert doubled(x).tolist() == (2 * x.numpy()).tolist()
    assert doubled.stats.misses == 4


def test_small_arrays_are_parameters() -> None:
    @jit
    def moved(x: Any, matrix: Any) -> Any:
        return matrix @ x

    for k in range(3):
        matrix = np.eye(2, dtype=np.float32) * k
        assert moved(row(1, 2), matrix).tolist() == [k, 2 * k]
    assert moved.stats.misses == 1
    with pytest.raises(TypeError, match=r"argument matrix is a NumPy array of 2048 elements.*Make it a Tensor once"):
        moved(row(1, 2), np.zeros(2048, np.float32))


def test_keywords_defaults_and_variable_arguments_arrive_as_in_python() -> None:
    @jit
    def mixed(x: Any, k: Any = 2.0, *rest: Any, plus: Any = 1.0, **named: Any) -> Any:
        for each in rest:
            x = x + each
        for name in sorted(named):
            x = x - named[name]
        return x * k + plus

    assert mixed(row(1)).tolist() == [3]
    assert mixed(row(1), k=3.0).tolist() == [4]
    assert mixed(row(1), 3.0, 1.0, 2.0, plus=0.5).tolist() == [12.5]
    assert mixed(row(1), plus=0.0, a=1.0).tolist() == [0]
    assert mixed.stats.misses == 3  # another number of arguments is another structure
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        mixed()


class Kind(enum.IntEnum):
    PLAIN = 0
    TWICE = 2


class Light(NamedTuple):
    position: Any
    power: Any


@dataclass(frozen=True)
class Material:
    colour: Any
    roughness: Any
    kind: Kind = Kind.PLAIN
    label: str = field(default="", metadata={"static": True})


@dataclass(frozen=True)
class Scene:
    materials: list[Material]
    lights: dict[str, Light]
    sizes: tuple[Any, ...]


def scene(power: float = 1.0, kind: Kind = Kind.PLAIN, label: str = "a") -> Scene:
    materials = [Material(row(1, 2), 0.5, kind, label), Material(row(3, 4), 0.25)]
    return Scene(materials, {"sun": Light(row(5, 6), power)}, (7, np.float32(8)))


def test_trees_of_dataclasses_named_tuples_and_dicts() -> None:
    @jit
    def shaded(s: Any) -> Any:
        total = s.lights["sun"].position * s.lights["sun"].power + s.sizes[0] * s.sizes[1]
        for m in s.materials:
            total = total + m.colour * m.roughness * (2.0 if m.kind is Kind.TWICE else 1.0)
        return Scene([], {"total": Light(total, s.materials[0].label)}, (total * 2, 3.5))

    out = shaded(scene())
    assert isinstance(out, Scene) and isinstance(out.lights["total"], Light) and out.materials == []
    assert out.lights["total"].position.tolist() == [62.25, 64]
    assert out.lights["total"].power == "a"
    assert out.sizes[0].tolist() == [124.5, 128] and out.sizes[1].item() == 3.5
    assert shaded(scene(2.0)).lights["total"].position.tolist() == [67.25, 70]
    assert shaded.stats.misses == 1
    assert shaded(scene(kind=Kind.TWICE)).lights["total"].position.tolist() == [62.75, 65]
    assert shaded(scene(label="b")).lights["total"].power == "b"
    assert shaded.stats.misses == 3


@dataclass(frozen=True)
class Settings:
    depth: Any
    mode: str = "fast"


def test_static_values_specialise_and_types_of_numbers_count() -> None:
    @jit(static=("settings", "n"))
    def power(x: Any, settings: Settings, n: Any) -> Any:
        for _ in range(settings.depth):
            x = x * 2
        return x + n

    assert power(row(1), Settings(2), 1).tolist() == [5]
    assert power(row(1), Settings(2), 1).tolist() == [5]
    assert power(row(1), Settings(3), 1).tolist() == [9]
    assert power(row(1), Settings(3), 1.0).tolist() == [9]
    assert power(row(1), Settings(3), True).tolist() == [9]
    assert power(row(1), Settings(3), float("nan")).isnan().tolist() == [True]
    assert power(row(1), Settings(3), float("nan")).isnan().tolist() == [True]
    assert (power.stats.misses, power.stats.hits) == (5, 2)


def test_each_compile_says_why() -> None:
    @jit(static=("settings",))
    def shown(s: Any, x: Any, settings: Settings) -> Any:
        return s.lights["sun"].position + x

    shown(scene(), 1.0, Settings(4))
    shown(scene(), 1, Settings(4))
    shown(scene(), 1.0, Settings(8, "fine"))
    longer = Scene(scene().materials, {"sun": Light(row(1, 2, 3), 1.0)}, (7, np.float32(8)))
    shown(longer, 1.0, Settings(4))
    why = [compiled.why for compiled in shown.stats.compiles]
    assert why[0].startswith("first call (") and "test_jit.py:" in why[0]
    assert why[1].startswith("x: float32 -> int32 (")
    assert why[2].startswith("settings.depth: 4 -> 8; settings.mode: 'fast' -> 'fine' (")
    assert why[3].startswith("s.lights['sun'].position: float32[2] -> float32[3] (")


def test_another_default_device_is_another_compilation() -> None:
    @jit
    def same(x: Any) -> Any:
        return x + 1

    same(row(1))
    before = set_default_device(open_device("reference", group=4))
    try:
        assert same(row(1)).tolist() == [2]
    finally:
        set_default_device(before)
    assert same.stats.misses == 2 and same.stats.compiles[1].why.startswith("device: NumPy interpreter -> NumPy interpreter")


def test_numbers_beyond_their_type() -> None:
    @jit
    def same(x: Any) -> Any:
        return x + 0

    same(1)
    with pytest.raises(OverflowError, match=r"x is 5000000000, which does not fit int32; pass np.int64"):
        same(5_000_000_000)
    assert same(np.int64(5_000_000_000)).item() == 5_000_000_000
    assert same(np.uint32(4_000_000_000)).item() == 4_000_000_000
    assert same(1e300).item() == float("inf")
    assert [same(v).item() for v in (True, np.uint8(200), np.float16(0.5), -7)] == [True, 200, 0.5, -7]


# ---- memory ----


def test_results_of_an_earlier_call_are_stale() -> None:
    @jit
    def frame(x: Any) -> Any:
        return x + 1, x - 1

    first, other = frame(row(1))
    kept = first.copy()
    lazy = other * 10
    frame(row(2))
    frame(row(3))
    told = r"test_jit.py:\d+: this result of frame\(\) was replaced by a later call \(2 calls ago\).*copy\(\)"
    with pytest.raises(StaleTensorError, match=told):
        first.numpy()
    with pytest.raises(StaleTensorError, match="replaced by a later call"):
        lazy.numpy()  # a graph that was recorded from the old result does not read the new one
    with pytest.raises(StaleTensorError, match="replaced by a later call"):
        frame(first)
    assert kept.tolist() == [2]
    assert frame(row(4))[0].tolist() == [5]


def test_the_same_buffers_at_each_call() -> None:
    @jit
    def frame(x: Any) -> Any:
        return x.sum(), x * 2

    addresses = {frame(row(k, k + 1))[1].uop.arg.storage.host.ctypes.data for k in range(4)}
    assert len(addresses) == 1


def test_results_that_are_arguments_constants_captured_or_twice_the_same() -> None:
    table = row(7, 8)

    @jit
    def many(x: Any, k: Any, small: Any) -> Any:
        y = x * k
        return x, y, y, Tensor(3.0), 4, k, small, table, None

    x = row(1, 2)
    out = many(x, 5.0, np.array([1.5], np.float32))
    assert out[0] is x and out[7] is table and out[8] is None
    assert out[1].uop is out[2].uop
    assert [t.tolist() for t in out[1:7]] == [[5, 10], [5, 10], 3, 4, 5, [1.5]]
    assert many.stats.kernels >= 1


def test_assigned_arguments_are_state() -> None:
    @jit
    def accumulate(film: Any, x: Any) -> Any:
        before = film * 1
        film.assign(film + x)
        return film, before, film.sum()

    film = row(1, 2)
    out, before, total = accumulate(film, row(10, 20))
    assert out is film and film.tolist() == [11, 22]
    assert before.tolist() == [1, 2] and total.item() == 33
    accumulate(film, row(1, 1))
    assert film.tolist() == [12, 23]
    assert accumulate.stats.misses == 1


def test_a_lazy_tensor_becomes_memory_when_it_is_passed() -> None:
    @jit
    def bump(state: Any, k: Any) -> Any:
        state.assign(state + k)
        return state

    state = row(1, 2) * 2
    scalar = Tensor(5.0)
    for _ in range(3):
        bump(state, scalar)
    assert state.tolist() == [17, 19] and scalar.item() == 5


def test_an_assigned_argument_passed_twice_is_refused() -> None:
    @jit
    def update(state: Any, other: Any) -> Any:
        state.assign(state + other.flip())
        return state

    x = row(1, 2)
    assert update(x, row(1, 2)).tolist() == [3, 3]
    with pytest.raises(ValueError, match=r"other and state are the same memory, and update\(\) assigns to state; pass a copy\(\)"):
        update(x, x)
    assert update(x, x.copy()).tolist() == [6, 6]


def test_a_result_fed_back_takes_turns_between_two_buffers() -> None:
    @jit
    def blurred(x: Any, k: Any) -> Any:
        return x.flip() + k, x

    blurred(row(0, 0, 0), 0.0)
    want = np.array([3, 2, 1], np.float32)
    x, _ = blurred(row(1, 2, 3), 0.0)
    for step in range(5):
        x, _ = blurred(x, 1.0)
        want = want[::-1] + 1
        assert x.tolist() == want.tolist(), step
    with events.counting() as counted:
        x, _ = blurred(x, 1.0)
    assert counted.allocations == 0
    assert x.tolist() == (want[::-1] + 1).tolist()


def test_feeding_back_two_results_crosswise() -> None:
    @jit
    def step(a: Any, b: Any) -> Any:
        return b.flip(), a + 1

    a, b = np.array([1, 2], np.float32), np.array([30, 40], np.float32)
    x, y = step(Tensor(a), Tensor(b))
    for _ in range(4):
        a, b = b[::-1], a + 1
        assert (x.tolist(), y.tolist()) == (a.tolist(), b.tolist())
        x, y = step(x, y)


def test_a_result_of_the_function_itself_cannot_be_assigned_by_it() -> None:
    @jit
    def update(state: Any) -> Any:
        new = state * 2
        state.assign(state + 1)
        return new

    new = update(row(1, 2))
    with pytest.raises(ValueError, match=r"state is a result of update\(\), which assigns to it"):
        update(new)
    kept = new.copy()
    update(kept)
    assert kept.tolist() == [3, 5]


def test_a_result_of_another_function_can_be_state() -> None:
    @jit
    def start(x: Any) -> Any:
        return x * 2

    @jit
    def update(state: Any) -> Any:
        state.assign(state + 1)
        return state

    state = start(row(1, 2))
    twin = Tensor.of(state.uop)
    for _ in range(3):
        update(state)
    assert state.tolist() == [5, 7]
    start(row(0, 0))
    with pytest.raises(StaleTensorError):
        state.numpy()
    with pytest.raises(StaleTensorError):
        (twin + 0).numpy()


def test_a_captured_tensor_is_a_constant_buffer_and_follows_assignments() -> None:
    table = row(1, 2, 3)

    @jit
    def look_up(i: Any) -> Any:
        return table[i]

    index = row(2, 0, dtype=np.int32)
    assert look_up(index).tolist() == [3, 1]
    table.assign(row(10, 20, 30))
    assert look_up(index).tolist() == [30, 10]
    assert look_up.stats.misses == 1


def test_a_captured_tensor_cannot_be_state_at_the_same_time() -> None:
    table = row(1, 2)

    @jit
    def update(state: Any) -> Any:
        state.assign(table.flip() + state)
        return state

    assert update(row(0, 0)).tolist() == [2, 1]
    with pytest.raises(ValueError, match=r"state is a Tensor that update\(\) captures too"):
        update(table)
    assert update(table.copy()).tolist() == [3, 3] and table.tolist() == [1, 2]


# ---- composition ----


def test_a_jitted_function_inside_another_is_a_part_of_it() -> None:
    @jit(static=("n",))
    def inner(x: Any, k: Any, n: int) -> Any:
        return x * k + n, k

    @jit
    def outer(x: Any, k: Any) -> Any:
        a, _ = inner(x, k, 1)
        b, two = inner(a, 2, 0)
        return b + two

    assert outer(row(1, 2), 3.0).tolist() == [10, 16]
    assert inner.stats.misses == 0 and outer.stats.kernels == 1


def test_a_jitted_function_inside_a_body_is_a_part_of_it() -> None:
    @jit
    def halved(x: Any) -> Any:
        return where(x > 1, x * 0.5, x)

    x, n = while_loop(lambda x, n: (x > 1) & (n < 10), lambda x, n: (halved(x), n + 1), (row(1, 8, 5), row(0, 0, 0, dtype=np.int32)))
    assert x.tolist() == [1, 1, 0.625] and n.tolist() == [0, 3, 3]
    assert halved.stats.misses == 0


def test_two_threads_share_a_function() -> None:
    @jit
    def slow(x: Any, k: Any) -> Any:
        return x * k

    wrong: list[Any] = []

    def work(k: int) -> None:
        for step in range(20):
            x = row(*range(2 + (step + k) % 3))
            try:
                got = slow(x, float(k)).copy()
                if got.tolist() != (x.numpy() * k).tolist():
                    wrong.append((k, got.tolist()))
            except StaleTensorError:
                continue  # the other thread's call came between: said, not mixed up
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert slow.stats.misses == 3


def test_reading_a_tensor_is_possible_while_another_thread_traces() -> None:
    tracing, read = threading.Event(), threading.Event()

    @jit
    def waits(x: Any) -> Any:
        tracing.set()
        assert read.wait(10)
        return x + 1

    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(waits(row(1)).tolist()))
    thread.start()
    assert tracing.wait(10)
    assert (row(1, 2) * 2).tolist() == [2, 4]
    read.set()
    thread.join()
    assert results == [[2]]


def test_known_signatures_run_on_while_a_new_one_is_compiled() -> None:
    tracing, go = threading.Event(), threading.Event()

    @jit(static=("n",))
    def frame(x: Any, n: int) -> Any:
        if n:
            tracing.set()
            assert go.wait(10)
        return x + n

    assert frame(row(1), 0).tolist() == [1]
    thread = threading.Thread(target=lambda: frame.warmup(row(1), 5))
    thread.start()
    assert tracing.wait(10)
    assert frame(row(2), 0).tolist() == [2]  # does not wait for the other
    go.set()
    thread.join()
    assert frame(row(1), 5).tolist() == [6]
    assert frame.stats.misses == 2


# ---- warm-up, figures ----


def test_warming_up_leaves_nothing_to_compile_or_allocate() -> None:
    @jit
    def frame(scene: Any, k: Any) -> Any:
        return scene["a"] * k + scene["b"]

    told: list[tuple[str, float]] = []
    frame.warmup({"a": Tensor.spec((3,)), "b": Tensor.spec((3,))}, 1.0, progress=lambda label, at: told.append((label, at)))
    assert told[0] == ("tracing frame", 0.0) and told[-1] == ("ready", 1.0)
    assert [at for _, at in told] == sorted(at for _, at in told)
    arguments = {"a": row(1, 2, 3), "b": row(4, 5, 6)}
    with events.counting() as counted:
        assert frame(arguments, 2.0).tolist() == [6, 9, 12]
    assert (counted.traces, counted.compiles, counted.allocations) == (0, 0, 0)
    assert (frame.stats.misses, frame.stats.hits) == (1, 1)


def test_kernels_are_listed_and_timed() -> None:
    @jit(workgroup=128)
    def frame(x: Any) -> Any:
        return x.contiguous().sum(), x * 2

    x = Tensor(np.ones((40, 30), np.float32))
    kernels = frame.kernels(x)
    assert frame.stats.misses == 1 and frame.stats.hits == 0
    assert all(k.name.startswith("frame_") and k.workgroup == 128 and "kernel" in k.source() for k in kernels)
    assert frame.kernel_seconds == []
    (total, _), seconds = frame.timed_call(x)
    assert total.item() == 1200
    assert len(seconds) == len(kernels) == len(frame.time_kernels(x)) and all(0 <= s < 10 for s in seconds)
    assert frame.bytes_allocated >= 1200 * 4 + 4
    assert frame.plan_of(x).kernels[0].name == kernels[0].name


def test_a_failing_function_leaves_everything_usable() -> None:
    fail = [True]

    @jit
    def sometimes(x: Any) -> Any:
        x.assign(x + 1)
        y = while_loop(lambda v: v < 10, lambda v: v * (2 if not fail[0] else 1 / 0), x)
        return y

    x = row(1, 2)
    with pytest.raises(ZeroDivisionError):
        sometimes(x)
    assert x.tolist() == [1, 2] and (x + 1).tolist() == [2, 3]
    fail[0] = False
    assert sometimes(x).tolist() == [16, 12]
    assert x.tolist() == [2, 3]


def test_the_decorator_keeps_name_and_text_and_refuses_unknown_statics() -> None:
    @jit(name="other")
    def frame(x: Any) -> Any:
        """Doubles."""
        return x * 2

    assert isinstance(frame, Jitted) and (frame.name, frame.__name__, frame.__doc__) == ("other", "frame", "Doubles.")
    with pytest.raises(TypeError, match=r"jit\(static=\['y'\]\): frame\(\) has the arguments \['x'\]"):
        jit(frame.function, static=("y",))
