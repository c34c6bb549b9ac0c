"""Kernels as OpenCL C and as GLSL mean what the interpreter says: every operation on every type, every way of buffers into the code.

The texts run on PoCL and on llvmpipe, through `cstyle_runner`. Neither flushes denormal numbers, and both round division and square
roots correctly, so results are compared to the bit, but for the bits of NaN and the sign of zero.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from engine import Tensor, arange, cond, for_loop, jit, local_array, serial, stack, switch, while_loop
from engine.compiler.emit.cstyle_walk import _within, tile_of
from engine.compiler.target import Target
from engine.graph import numpy_ops
from engine.graph.dtypes import ALL, DType, bool_, float32, float64, int32, uint8
from engine.graph.uop import Op, UOp, dim
from tests.engine.cstyle_runner import DIALECTS, Array, TextDevice, emitted, finished, run
from tests.engine.kernel_maker import Maker, number

every = pytest.mark.parametrize("dialect", DIALECTS)
OPENGL = ("opengl", "opengl textures")

COMMON = [Op.MAX, Op.MIN, Op.LT, Op.LE, Op.EQ, Op.NE]
NUMBERS = [Op.ADD, Op.SUB, Op.MUL]
INTEGERS = [*COMMON, *NUMBERS, Op.IDIV, Op.MOD, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR]
FLOATS = [*COMMON, *NUMBERS, Op.DIV, Op.MOD]
LOGIC = [*COMMON, Op.AND, Op.OR, Op.XOR]
UNARY = {"b": [Op.NOT], "i": [Op.NEG, Op.ABS, Op.NOT], "u": [Op.NEG, Op.ABS, Op.NOT]}
UNARY["f"] = [Op.NEG, Op.ABS, Op.SQRT, Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND]


def operands(dtype: DType) -> tuple[Array, Array]:
    """All pairs of the edges of a type, and some random ones."""
    rng = np.random.default_rng(7)
    if dtype.is_bool:
        edges: Any = [False, True]
    elif dtype.is_int:
        edges = [*{int(dtype.min), int(dtype.min) + 1, 0, 1, 2, 3, 7, dtype.bits - 1, dtype.bits, dtype.bits + 1, int(dtype.max)}]
        edges += [-1, -2, -7] if dtype.kind == "i" else []
    else:
        tiny = float(np.finfo(dtype.numpy).smallest_subnormal)
        edges = [0.0, -0.0, 1.0, -1.5, 2.5, 0.1, -7.25, 3e4, float(dtype.max), tiny, -3 * tiny, math.inf, -math.inf, math.nan]
    values = np.array(edges, dtype.numpy)
    with np.errstate(all="ignore"):
        more = (rng.normal(size=(2, 60)) * 100).astype(dtype.numpy)
    a, b = (part.ravel() for part in np.meshgrid(values, values))
    return np.concatenate([a, more[0]]), np.concatenate([b, more[1]])


def same(found: Array, wanted: Array, what: str) -> None:
    np.testing.assert_array_equal(found, wanted, err_msg=what)  # NaN equals NaN, 0 equals -0


# ---- operations ----


@every
@pytest.mark.parametrize("name", ALL)
def test_operations_mean_what_numpy_ops_says(name: str, dialect: str) -> None:
    dtype = ALL[name]
    a, b = operands(dtype)
    count = len(a)
    m = Maker((count,))
    lane = m.lane()
    left, right = m.buffer(dtype, count), m.buffer(dtype, count)
    x, y = m.load(left, lane), m.load(right, lane)
    plain, truth = m.buffer(dtype, 64 * count), m.buffer(bool_, 64 * count)
    made: dict[bool, list[UOp]] = {False: [], True: []}
    for op in {"b": LOGIC, "f": FLOATS}.get(dtype.kind, INTEGERS):
        made[op in COMMON[2:]].append(m.op(op, bool_ if op in COMMON[2:] else dtype, x, y))
    for op in UNARY[dtype.kind]:
        made[False].append(m.op(op, dtype, x))
    made[False].append(m.op(Op.WHERE, dtype, m.op(Op.EQ, bool_, x, y), y, x))
    if dtype.kind != "b":
        made[False].append(m.op(Op.FMA, dtype, x, y, x))
    for is_truth, nodes in made.items():
        for k, node in enumerate(nodes):
            m.store(truth if is_truth else plain, m.op(Op.ADD, int32, lane, number(k * count)), node)
    kernel = finished(m)
    results = run(kernel, [a, b, np.zeros(64 * count, dtype.numpy), np.zeros(64 * count, bool)], {}, dialect)
    for is_truth, nodes in made.items():
        for k, node in enumerate(nodes):
            sources = {x: a, y: b}
            values = [sources.get(s, a == b) for s in node.src]
            wanted, found = numpy_ops.evaluate(node.op, node.dtype, values), results[2 + is_truth][k * count : (k + 1) * count]
            if node.op == Op.FMA and dtype is float64 and dialect in OPENGL:  # emulated there, but for the largest and smallest numbers
                usual = (a == 0) | ((np.abs(a) > 1e-150) & (np.abs(a) < 1e150))
                wanted, found = wanted[usual], found[usual]
            same(found, wanted, f"{node.op} of {dtype}")


@every
@pytest.mark.parametrize("name", ALL)
def test_casts_saturate_wrap_and_round(name: str, dialect: str) -> None:
    dtype = ALL[name]
    values = operands(dtype)[0]
    if dtype.is_float:
        with np.errstate(all="ignore"):
            edges = [s * (2.0**k + d) for k in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 1) for s in (1, -1)]
            values = np.concatenate([values, np.array([*edges, 65504, 65519.9, 65520, 1e-7, 6e-8, 2.98e-8, 1e300], dtype.numpy)])
    count = len(values)
    m = Maker((count,))
    lane = m.lane()
    x = m.load(m.buffer(dtype, count), lane)
    wanted = [t for t in ALL.values() if t is not dtype]
    arrays = [np.zeros(count, t.numpy) for t in wanted]
    for t in wanted:
        m.store(m.buffer(t, count), lane, m.op(Op.CAST, t, x))
    results = run(finished(m), [values, *arrays], {}, dialect)[1:]
    for t, found in zip(wanted, results, strict=True):
        same(found, numpy_ops.evaluate(Op.CAST, t, [values]), f"{dtype} to {t}")


@every
def test_small_integers_made_wide_compare_as_what_they_are(dialect: str) -> None:
    def compared(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        wide, other = (x * -8).cast("int64"), (y + 1).cast("uint64")
        return wide <= 63, wide >= 0, wide < -64, wide == 32, other > 3, wide << wide

    x = np.arange(-9, 9, dtype=np.int32)
    y = x.view(np.uint32)
    found = [r.numpy() for r in jit(compared, device=TextDevice(dialect))(Tensor(x), Tensor(y))]
    wide, other = (x * -8).astype(np.int64), (y + np.uint32(1)).astype(np.uint64)
    shifted = np.where((wide >= 0) & (wide < 64), wide << np.clip(wide, 0, 63), 0)
    for result, wanted in zip(found, (wide <= 63, wide >= 0, wide < -64, wide == 32, other > 3, shifted), strict=True):
        assert np.array_equal(result, wanted)


@every
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_bitcasts_keep_every_bit(bits: int, dialect: str) -> None:
    rng = np.random.default_rng(bits)
    types = [t for t in ALL.values() if t.bits == bits]
    source = types[1]
    values = rng.integers(0, 1 << min(bits, 63), 4096 if bits > 16 else 1 << bits, np.uint64).astype(source.numpy)
    m = Maker((len(values),))
    lane = m.lane()
    x = m.load(m.buffer(source, len(values)), lane)
    arrays = []
    for t in types:
        for u in types:
            y = m.op(Op.BITCAST, u, m.op(Op.BITCAST, t, x)) if u is not t else m.op(Op.BITCAST, t, x)
            if u is not source or t is not source:
                m.store(m.buffer(u, len(values)), lane, y)
                arrays.append(np.zeros(len(values), u.numpy))
    with np.errstate(all="ignore"):  # the bits of NaN may change
        numbers = ~np.isnan(values.view(types[-1].numpy)) if bits > 8 else np.ones(len(values), bool)
    for found in run(finished(m), [values, *arrays], {}, dialect)[1:]:
        assert np.array_equal(found.view(source.numpy)[numbers], values[numbers])


@every
def test_constants_arrive_to_the_bit(dialect: str) -> None:
    rng = np.random.default_rng(3)
    singles = [v for v in rng.integers(0, 1 << 32, 40, np.uint64).astype(np.uint32).view(np.float32) if v == v]
    singles += [0.1, -0.0, 1e-45, math.inf, -math.inf, 2.0**-24, 1e22, 16777216.0]
    doubles = [v for v in rng.integers(0, 1 << 63, 20, np.uint64).view(np.float64) if v == v] + [0.1, -0.5, 5e-324, -math.inf, 1e22]
    for dtype, values in ((float32, singles), (float64, doubles), (int32, [int(int32.min), -1, int(int32.max)])):
        m = Maker(())
        out = m.buffer(dtype, len(values))
        for k, v in enumerate(values):
            m.store(out, number(k), UOp.const(dtype, int(v) if dtype.is_int else float(v)))
        (found,) = run(finished(m), [np.zeros(len(values), dtype.numpy)], {}, dialect)
        assert found.tobytes() == np.array(values, dtype.numpy).tobytes()


@every
def test_what_a_compiler_finds_to_be_zero_still_makes_nan(dialect: str) -> None:
    def quotients(x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        never, least = (n < n).cast("float32"), while_loop(lambda i, s: i < 0, lambda i, s: (i + 1, s + x), (n * 0, x * 0.0))[1]
        quotient = (never + n.cast("float32")) / never
        whole = (n - n).cast("float32") / x, (n & 0).cast("float32") * x
        return quotient, never / x, never * x, *whole, x * 0.0, 0.0 / x, x / 0.0, x - x, least / x

    x = np.array([math.nan, math.inf, -math.inf, 1, 0, 3e38], np.float32)
    found = jit(quotients, device=TextDevice(dialect))(Tensor(x), Tensor(np.arange(1, 7, dtype=np.int32)))
    with np.errstate(all="ignore"):
        zero = x * 0
        wanted = (np.full(6, math.inf), 0 / x, zero, 0 / x, zero, zero, 0 / x, x / 0, x - x, zero / x)
    for k, (result, value) in enumerate(zip(found, wanted, strict=True)):
        same(result.numpy(), np.asarray(value), str(k))


@every
def test_constant_tables_are_looked_up_within_their_bounds(dialect: str) -> None:
    m = Maker((12,))
    lane = m.lane()
    at = m.op(Op.SUB, int32, lane, number(2))
    rows = {dtype: [UOp.const(dtype, v) for v in (1, 0, 3, 1)] for dtype in (bool_, uint8, int32, float32, float64)}
    arrays = []
    for dtype, values in rows.items():
        found = m.op(Op.GATHER, dtype, at, *values, arg=((), 0))
        m.store(m.buffer(dtype, 12), lane, found)
        arrays.append(np.zeros(12, dtype.numpy))
    results = run(finished(m), arrays, {}, dialect)
    for dtype, result in zip(rows, results, strict=True):
        assert result[2:6].tolist() == np.array([1, 0, 3, 1]).astype(dtype.numpy).tolist()


# ---- control flow ----


@every
def test_loop_state_moves_all_at_once(dialect: str) -> None:
    def turned(n: Tensor) -> tuple[Tensor, ...]:
        """Three values in a circle, two that swap, one that reads them before they move."""
        a, b, c, d, e, s = (n * 0 + k for k in range(1, 7))
        i, *rest = while_loop(
            lambda i, *_: i < n, lambda i, a, b, c, d, e, s: (i + 1, b, c, a, e, d, s * 3 + a - d), (n * 0, a, b, c, d, e, s)
        )
        return (i, *rest)

    results = jit(turned, device=TextDevice(dialect))(Tensor(np.arange(9, dtype=np.int32)))
    for n in range(9):
        a, b, c, d, e, s = 1, 2, 3, 4, 5, 6
        for _ in range(n):
            a, b, c, d, e, s = b, c, a, e, d, s * 3 + a - d
        assert [int(r.numpy()[n]) for r in results] == [n, a, b, c, d, e, s]


@every
def test_a_switch_takes_the_nearest_arm(dialect: str) -> None:
    def choose(k: Tensor, x: Tensor) -> Tensor:
        chosen: Tensor = switch(k, [lambda x: x + 1, lambda x: x * x, lambda x: -x], x)
        only: Tensor = switch(k, [lambda x: x * 10], x)
        return chosen + only

    k = np.array([-5, 0, 1, 2, 3, 100], np.int32)
    found = jit(choose, device=TextDevice(dialect))(Tensor(k), Tensor(k + 7)).numpy()
    x = k + 7
    assert found.tolist() == (np.select([k <= 0, k == 1], [x + 1, x * x], -x) + 10 * x).tolist()


@every
def test_private_arrays_keep_what_each_lane_puts_there(dialect: str) -> None:
    def sort(rows: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        """Insertion sort of a row, and how many flags of a second array are set."""
        values, flags = local_array(5, "float32"), local_array(5, "bool", fill=False)

        def insert(i: Tensor, values: Any, flags: Any) -> tuple[Any, Any]:
            x = rows[:, 0] * 0 + switch(i, [lambda k=k: rows[:, k] for k in range(5)])
            j, values = while_loop(
                lambda j, v: cond((j > 0), lambda: v[(j - 1).clip(0, 4)] > x, lambda: x != x),
                lambda j, v: (j - 1, v.set(j, v[j - 1])), (i + keep * 0, values),
            )  # fmt: skip
            return values.set(j, x), flags.set(i, (keep >> i) & 1 == 1)

        values, flags = for_loop(5, insert, (values, flags))
        total = for_loop(5, lambda i, t: t * 10 + values[i], keep.cast("float32") * 0)
        return total, for_loop(5, lambda i, t: t + flags[i].cast("int32"), keep * 0)

    rows = np.random.default_rng(2).integers(0, 10, (33, 5)).astype(np.float32)
    keep = np.arange(33, dtype=np.int32)
    total, set_ = jit(sort, device=TextDevice(dialect))(Tensor(rows), Tensor(keep))
    assert total.numpy().tolist() == [float("".join(str(int(v)) for v in sorted(r))) for r in rows]
    assert set_.numpy().tolist() == [bin(k & 31).count("1") for k in keep]


@every
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
def test_append_stores_what_a_mask_keeps_in_either_order(dialect: str, dtype: str) -> None:
    width, lanes = 5, 23
    rng = np.random.default_rng(1)
    masks, values = rng.random((lanes, width)) < 0.5, rng.integers(0, 100, (lanes, width)).astype(dtype)
    backwards = np.arange(lanes) % 3 == 0

    def append(table: Tensor, keep: Tensor, turned: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        def alone(table: Tensor, keep: Tensor, turned: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            stack, top = local_array(3 * width, dtype, fill=0).append_where(1, keep, table, reverse=turned)
            stack, top = stack.append_where(top, keep, table, reverse=True)
            total = for_loop(top, lambda i, sum: sum * 3 + stack[i].cast("int64"), Tensor(0, "int64"))
            return top, total, keep.first_true(-1) + keep.last_true(-1) * 10

        results: tuple[Tensor, Tensor, Tensor] = serial(alone, table, keep, turned)
        return results

    top, total, places = jit(append, device=TextDevice(dialect))(Tensor(values), Tensor(masks), Tensor(backwards))
    for lane in range(lanes):
        kept = values[lane][masks[lane]].astype(object)
        stored = [0, *(kept[::-1] if backwards[lane] else kept), *kept[::-1]]
        assert top.numpy()[lane] == len(stored)
        assert total.numpy()[lane] == sum(int(v) * 3**k for k, v in enumerate(reversed(stored)))
        true = np.flatnonzero(masks[lane])
        assert places.numpy()[lane] == (true[0] + 10 * true[-1] if len(true) else width - 10)


# ---- lanes ----


def coordinates(kernel_lanes: tuple[Any, ...], walk: str, workgroup: int) -> Maker:
    """A kernel that adds 1 + its row-order number to the element of each lane."""
    m = Maker(kernel_lanes, walk=walk)
    m.kernel.workgroup = workgroup
    flat = m.lane(0)
    for axis in range(1, len(kernel_lanes)):
        size = kernel_lanes[axis]
        scaled = m.op(Op.MUL, int32, flat, size if isinstance(size, UOp) else number(size))
        flat = m.op(Op.ADD, int32, scaled, m.lane(axis))
    out = m.buffer(int32, *kernel_lanes)
    m.store(out, flat, m.op(Op.ADD, int32, m.load(out, flat), m.op(Op.ADD, int32, flat, number(1))))
    return m


@every
@pytest.mark.parametrize("workgroup", [1, 64, 100, 256, 512])
@pytest.mark.parametrize(("walk", "shape"), [("tiles", (119, 79)), ("tiles", (3, 17, 33)), ("rows", (37, 29)), ("linear", (1001,))])
def test_every_lane_runs_once_whatever_the_workgroup(dialect: str, workgroup: int, walk: str, shape: tuple[int, ...]) -> None:
    count = math.prod(shape)
    (found,) = run(finished(coordinates(shape, walk, workgroup)), [np.zeros(count, np.int32)], {}, dialect)
    assert np.array_equal(found, np.arange(1, count + 1))


@every
def test_named_sizes_are_known_when_the_kernel_runs(dialect: str) -> None:
    kernel = finished(coordinates((dim("height"), dim("width")), "tiles", 256))
    for height, width in ((1919, 1079), (1, 1), (16, 32)):
        count = height * width
        (found,) = run(kernel, [np.zeros(count, np.int32)], {"height": height, "width": width}, dialect)
        assert np.array_equal(found, np.arange(1, count + 1))


@pytest.mark.parametrize("workgroup", [16, 64, 128, 256, 512])
def test_neighbouring_lanes_lie_in_small_tiles(workgroup: int) -> None:
    rows, columns = tile_of(workgroup)
    assert rows * columns == workgroup
    places = [
        tuple(eval(_within("p", workgroup, columns, along).replace("u", ""), {"p": p}) for along in (False, True)) for p in range(workgroup)
    ]
    assert sorted(places) == [(y, x) for y in range(rows) for x in range(columns)]
    for width, (high, wide) in ((8, (2, 4)), (16, (4, 4))):
        for first in range(0, workgroup, width):
            ys, xs = zip(*places[first : first + width], strict=True)
            assert max(ys) - min(ys) < high and max(xs) - min(xs) < wide


@every
def test_scattered_writes_happen_in_row_order(dialect: str) -> None:
    rng = np.random.default_rng(5)
    index = rng.integers(0, 7, (6, 9)).astype(np.int32)
    for dtype in ("float32", "int16", "uint8"):
        values = rng.integers(0, 9, (6, 9)).astype(dtype)
        for mode in ("set", "add", "max"):
            f = jit(lambda t, i, v, mode=mode: t.scatter(i, v, mode=mode), device=TextDevice(dialect))
            found = f(Tensor(np.ones(7, dtype)), Tensor(index), Tensor(values)).numpy()
            wanted = np.ones(7, dtype)
            if mode == "set":
                wanted[index.ravel()] = values.ravel()
            else:
                {"add": np.add, "max": np.maximum}[mode].at(wanted, index, values)
            assert np.array_equal(found, wanted), (dtype, mode)


# ---- buffers ----


@pytest.mark.parametrize("dialect", OPENGL)
def test_small_elements_of_different_lanes_share_words(dialect: str) -> None:
    rng = np.random.default_rng(8)
    for dtype in ("bool", "int8", "uint16", "float16"):
        values = rng.integers(0, 2 if dtype == "bool" else 90, 1003).astype(dtype)
        f = jit(lambda t: t.flip(0), device=TextDevice(dialect))
        assert np.array_equal(f(Tensor(values)).numpy(), values[::-1])
    (kernel,) = f.plan_of(Tensor(values)).kernels
    assert "atomicOr" in emitted(kernel, dialect).text


@pytest.mark.parametrize("dialect", OPENGL)
def test_a_pixel_of_four_bytes_is_one_store(dialect: str) -> None:
    def picture(grey: Tensor) -> Tensor:
        value = while_loop(lambda v: v > 255, lambda v: v - 100, grey)
        return stack([value, value + 1, value * 0 + 7, 255 - value], axis=-1).cast("uint8")

    device = TextDevice(dialect)
    grey = np.arange(0, 900, 7, dtype=np.int32).reshape(3, 43)
    f = jit(picture, device=device)
    found = f(Tensor(grey)).numpy()
    value = np.where(grey > 255, (grey - 256) % 100 + 156, grey)
    assert np.array_equal(found, np.stack([value, value + 1, value * 0 + 7, 255 - value], -1).astype(np.uint8))
    text = emitted(f.plan_of(Tensor(grey)).kernels[-1], dialect).text
    assert "atomic" not in text


def packing(device: TextDevice) -> tuple[Any, list[Tensor], Array]:
    """A function of more arrays of all types than fit, its arguments, what it gives."""
    rng = np.random.default_rng(4)
    types = ["float32", "int32", "uint32", "bool", "int8", "uint16", "float16", "int64", "float64"]
    arrays = [rng.integers(0, 2 if t == "bool" else 100, (40 + k, 3)).astype(t) for k, t in enumerate(types)]

    def total(*tables: Tensor) -> Tensor:
        return sum((t[:31, 1].cast("float64") for t in tables), arange(31).cast("float64") * 0)

    wanted = sum(a[:31, 1].astype(np.float64) for a in arrays)
    return jit(total, device=device), [Tensor(a) for a in arrays], np.asarray(wanted)


@pytest.mark.parametrize("textures", [0, 3])
def test_what_is_only_read_shares_a_binding_where_there_are_too_few(textures: int) -> None:
    device = TextDevice("opengl")
    device.target = dataclasses.replace(device.target, max_buffers=4, max_textures=textures)
    f, tensors, wanted = packing(device)
    assert np.array_equal(f(*tensors).numpy(), wanted)
    (kernel,) = f.plan_of(*tensors).kernels
    source = emitted(kernel, "opengl", device.target)
    kinds = [s.kind for s in source.slots]
    assert source.bindings == 4 == kinds.count("own") + 1
    assert kinds.count("texture") == textures
    assert [source.words[s.word] for s in source.slots if s.kind == "packed"] == [
        f"slot:{k}" for k, kind in enumerate(kinds) if kind == "packed"
    ]


def test_a_kernel_with_too_many_buffers_says_so() -> None:
    m = Maker((4,))
    lane = m.lane()
    for _ in range(3):
        m.store(m.buffer(int32, 4), lane, lane)
    target = Target("opengl", max_buffers=2, packs_read_only=True)
    with pytest.raises(ValueError, match="made: a kernel needs 3 buffers; opengl binds 2"):
        emitted(finished(m), "opengl", target)


def test_parameters_lie_in_their_block() -> None:
    def scaled(x: Tensor, factor: float, many: Tensor, flag: bool) -> Tensor:
        return x * factor + many[x.cast("int32") % 3] + flag

    x = np.arange(10, dtype=np.float32)
    many = np.array([10, 20, 30], np.int64)
    for dialect in DIALECTS:
        f = jit(scaled, device=TextDevice(dialect))
        assert np.array_equal(f(Tensor(x), 2.5, many, True).numpy(), x * 2.5 + many[x.astype(int) % 3] + 1)
        source = emitted(f.plan_of(Tensor(x), 2.5, many, True).kernels[0], dialect)
        assert source.parameters and [s.kind for s in source.slots].count("parameter") == 3


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", [*(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "float16", "float32"])
def test_chains_of_bounds_survive_the_compiler(dialect: str, name: str) -> None:
    """min(min(a, c), min(b, c)) and its kin: a driver's rewriting of such chains has crashed the process, in 64 bits."""

    def bounded(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        low = a.minimum(3).minimum(b.minimum(3)).minimum((a + b).minimum(3))
        high = a.maximum(2).maximum(b.maximum(2)).maximum((a + b).maximum(2))
        return low, high

    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 9, 50).astype(name) for _ in range(2))
    low, high = jit(bounded, device=TextDevice(dialect))(Tensor(a), Tensor(b))
    assert np.array_equal(low.numpy(), np.minimum(np.minimum(a, b), np.minimum(a + b, np.array(3, name))))
    assert np.array_equal(high.numpy(), np.maximum(np.maximum(a, b), np.maximum(a + b, np.array(2, name))))
