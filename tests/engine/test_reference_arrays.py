"""The interpreter against plain Python: private arrays, serial regions and inner vectors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine.graph.dtypes import DType, bool_, float32, int32, uint32
from engine.graph.uop import Op, UOp
from engine.runtime.devices.reference import CheckError
from tests.engine.kernel_maker import WIDTHS, Maker, const, lanewise, number, results

# ---- private arrays ----


@pytest.mark.parametrize("width", WIDTHS)
def test_a_stack_in_a_divergent_loop(width: int) -> None:
    def plain(lane: int) -> int:
        stack, total = [lane], 0
        while stack:
            n = stack.pop()
            total += n * n + len(stack)
            if n > 1:
                stack += [n // 2, n - 2]
        return total

    def build(m: Maker, lane: UOp) -> UOp:
        stack = m.put(m.array(int32, 32), 0, lane)

        def body(top: UOp, stack: UOp, total: UOp) -> list[UOp]:
            n = m.take(stack, top)
            total = m.op(Op.ADD, int32, total, m.op(Op.ADD, int32, m.op(Op.MUL, int32, n, n), top))

            def push() -> list[UOp]:
                first = m.put(stack, top, m.op(Op.IDIV, int32, n, 2))
                above = m.op(Op.ADD, int32, top, 1)
                return [above, m.put(first, above, m.op(Op.SUB, int32, n, 2))]

            many = m.op(Op.LT, bool_, number(1), n)
            top, stack = m.branch("cond", many, [push, lambda: [m.op(Op.SUB, int32, top, 1), stack]])
            return [top, stack, total]

        return m.loop([number(0), stack, number(0)], lambda top, s, t: m.op(Op.LE, bool_, number(0), top), body)[2]

    assert lanewise(24, build, width) == [plain(lane) for lane in range(24)]


def test_arrays_are_updated_in_place_by_the_lanes_that_are_live() -> None:
    def build(m: Maker, lane: UOp) -> UOp:
        flags = m.put(m.array(bool_, 2), 0, const(bool_, False))
        odd = m.op(Op.EQ, bool_, m.op(Op.MOD, int32, lane, 2), 1)
        (flags,) = m.branch("cond", odd, [lambda: [m.put(flags, 0, const(bool_, True))], lambda: [flags]])
        return m.op(Op.CAST, int32, m.take(flags, 0))

    assert lanewise(5, build) == [0, 1, 0, 1, 0]


def test_two_arrays_may_not_meet() -> None:
    def arms(m: Maker, lane: UOp) -> UOp:
        made = [lambda: [m.put(m.array(int32, 1), 0, 5)]] * 2
        return m.take(m.branch("cond", m.op(Op.LT, bool_, lane, 2), made)[0], 0)

    def rounds(m: Maker, lane: UOp) -> UOp:
        start = m.put(m.array(int32, 1), 0, 0)
        return m.take(m.loop([start], lambda a: m.op(Op.LT, bool_, m.take(a, 0), 5), lambda a: arms_of(m))[0], 0)

    def arms_of(m: Maker) -> list[UOp]:
        return [m.put(m.array(int32, 1), 0, 5)]

    for build in (arms, rounds):
        with pytest.raises(
            ValueError, match="kernel made: two private arrays meet where versions of one were expected"
        ):
            lanewise(4, build)


def test_private_arrays_are_checked() -> None:
    def never(m: Maker, lane: UOp) -> UOp:
        small = m.op(Op.LT, bool_, lane, 2)
        array = m.array(int32, 3)
        (array,) = m.branch("cond", small, [lambda: [m.put(array, 1, 5)], lambda: [array]])
        return m.take(array, 1)

    with pytest.raises(CheckError, match=r"lane \(2,\): .*element 1 of a private array of 3 was never set"):
        lanewise(4, never)
    assert lanewise(4, never, check=False) == [5, 5, 0, 0]
    for build in (
        lambda m, lane: m.take(m.array(int32, 3), lane),
        lambda m, lane: m.take(m.put(m.array(int32, 3), lane, 1), lane),
    ):
        with pytest.raises(CheckError, match=r"lane \(\d,\): .*(index 3 is outside a size of 3|was never set)"):
            lanewise(4, build)


# ---- serial regions and inner vectors ----


@pytest.mark.parametrize("width", WIDTHS)
def test_in_a_serial_region_each_lane_is_alone(width: int) -> None:
    def build(m: Maker, lane: UOp) -> UOp:
        def alone() -> list[UOp]:
            return [m.vote("max", lane), m.vote("count", const(bool_, True))]

        (largest, count) = m.serial(alone)
        return m.op(Op.ADD, int32, m.op(Op.MUL, int32, largest, 10), m.op(Op.ADD, int32, count, m.vote("first", lane)))

    assert lanewise(20, build, width) == [lane * 10 + 1 + lane // width * width for lane in range(20)]


ACROSS: dict[str, tuple[DType, Callable[[list[Any]], Any]]] = {
    "add": (float32, lambda v: float(sum(v))),
    "mul": (float32, lambda v: float(np.prod(v))),
    "max": (float32, max),
    "min": (float32, min),
    "and": (bool_, all),
    "or": (bool_, any),
    "count": (int32, sum),
    "bits": (uint32, lambda v: sum(1 << k for k, b in enumerate(v) if b)),
    "first": (int32, lambda v: v.index(True) if any(v) else len(v)),
}


@pytest.mark.parametrize("op", ACROSS)
@pytest.mark.parametrize("count", [1, 5])
def test_reductions_across_an_inner_vector(op: str, count: int) -> None:
    dtype, function = ACROSS[op]
    source = dtype if op in ("add", "mul", "max", "min") else bool_
    m = Maker((6,))
    lane, table, out = m.lane(), m.buffer(source, 6 * count), m.buffer(dtype, 6)

    def body() -> list[UOp]:
        kind = int32.vec(count)
        index = m.op(Op.ADD, kind, m.op(Op.MUL, int32, lane, count), m.iota(count))
        return [m.op(Op.ACROSS, dtype, m.load(table, index), arg=op)]

    m.store(out, lane, m.serial(body)[0])
    numbers = np.random.default_rng(4).integers(0, 3, 6 * count)
    data = (numbers == 1) if source is bool_ else numbers.astype(np.float32)
    got = results(m.kernel, [data], np.zeros(6, dtype.numpy))
    assert got.tolist() == [function(data[k * count : k * count + count].tolist()) for k in range(6)]


def test_sums_across_wrap_and_masks_of_ints_combine() -> None:
    def build(m: Maker, lane: UOp) -> UOp:
        vector = m.op(Op.ADD, uint32.vec(3), m.op(Op.CAST, uint32.vec(3), m.iota(3)), UOp.const(uint32, 2**32 - 2))
        parts = [m.op(Op.ACROSS, uint32, vector, arg=op) for op in ("add", "and", "or")]
        return m.op(Op.SUB, uint32, m.op(Op.XOR, uint32, parts[1], parts[2]), parts[0])

    assert lanewise(2, build) == [(0xFFFFFFFF - (2**32 - 3)) % 2**32] * 2


def test_vectors_meet_scalars_and_gates_of_lanes() -> None:
    m = Maker((5,))
    four, flags = int32.vec(4), bool_.vec(4)
    lane, table, out = m.lane(), m.buffer(int32, 20), m.buffer(int32, 20)

    def body() -> list[UOp]:
        index = m.op(Op.ADD, four, m.op(Op.MUL, int32, lane, 4), m.iota(4))
        low = m.op(Op.LT, flags, m.iota(4), lane)
        value = m.load(table, index, low)
        chosen = m.op(Op.WHERE, four, low, value, m.op(Op.NEG, int32, lane))  # vector, vector, scalar
        by_lane = m.op(Op.WHERE, four, m.op(Op.EQ, bool_, lane, 2), chosen, m.op(Op.MAX, four, chosen, lane))
        m.store(out, index, by_lane, m.op(Op.NE, bool_, lane, 1))
        return [m.op(Op.SPLIT, int32, by_lane, arg=3)]

    m.serial(body)
    data = np.arange(100, 120, dtype=np.int32)
    expected = []
    for lane_number, k in itertools.product(range(5), range(4)):
        value = int(data[lane_number * 4 + k]) if k < lane_number else -lane_number
        expected.append(-9 if lane_number == 1 else value if lane_number == 2 else max(value, lane_number))
    assert results(m.kernel, [data], np.full(20, -9, np.int32)).tolist() == expected


def test_split_constants_and_scalars_spread_to_vectors() -> None:
    def build(m: Maker, lane: UOp) -> UOp:
        spread = m.op(Op.CAST, float32.vec(3), lane)
        total = m.op(Op.ADD, float32.vec(3), spread, UOp.const(float32.vec(3), 0.5))
        return m.op(Op.SPLIT, float32, total, arg=2)

    assert lanewise(3, build) == [0.5, 1.5, 2.5]


def test_loop_state_and_branch_results_may_be_vectors() -> None:
    def build(m: Maker, lane: UOp) -> UOp:
        four = int32.vec(4)

        def body() -> list[UOp]:
            def step(i: UOp, v: UOp) -> list[UOp]:
                odd = m.op(Op.EQ, bool_, m.op(Op.MOD, int32, i, 2), 1)
                shifted = m.op(Op.ADD, int32, i, lane)
                (v,) = m.branch(
                    "cond", odd, [lambda: [m.op(Op.ADD, four, v, shifted)], lambda: [m.op(Op.MUL, four, v, 2)]]
                )
                return [m.op(Op.ADD, int32, i, 1), v]

            v = m.loop([number(0), m.iota(4)], lambda i, v: m.op(Op.LT, bool_, i, lane), step)[1]
            return [m.op(Op.ACROSS, int32, v, arg="add")]

        return m.serial(body)[0]

    def plain(lane: int) -> int:
        v = [0, 1, 2, 3]
        for i in range(lane):
            v = [x + i + lane if i % 2 else x * 2 for x in v]
        return sum(v)

    assert lanewise(9, build, 4) == [plain(lane) for lane in range(9)]


def append_kernel(length: int, look: int) -> tuple[Maker, UOp]:
    """Each lane appends, from slot `lane` on, those of 10 x lane + 0..3 that a mask picks; then it reads one slot."""
    m = Maker((4,))
    lane, masks, out = m.lane(), m.buffer(bool_, 16), m.buffer(int32, 8)
    four = int32.vec(4)
    index = m.op(Op.ADD, four, m.op(Op.MUL, int32, lane, 4), m.iota(4))
    values = m.op(Op.ADD, four, m.op(Op.MUL, int32, lane, 10), m.iota(4))
    array = m.array(int32, length)
    append = m.op(Op.APPEND, array.dtype, array, lane, m.load(masks, index), values, UOp.const(bool_, False), arg=(0, 99))
    top = m.op(Op.PROJ, int32, append, arg=1)
    m.store(out, lane, top)
    m.store(out, m.op(Op.ADD, int32, lane, 4), m.take(append, m.op(Op.ADD, int32, lane, look)))
    return m, append


def test_append_keeps_order_and_moves_the_top() -> None:
    masks = np.array([[1, 0, 1, 0], [0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 1, 1]], np.bool_).ravel()
    m, _ = append_kernel(8, 1)
    assert results(m.kernel, [masks], np.zeros(8, np.int32)).tolist() == [2, 3, 6, 5, 2, 12, 21, 33]


def test_what_lies_after_an_append_is_undefined() -> None:
    masks = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 1, 1], [0, 0, 1, 1]], np.bool_).ravel()
    m, _ = append_kernel(8, 1)
    with pytest.raises(CheckError, match=r"lane \(1,\).*element 2 of a private array of 8 was never set"):
        results(m.kernel, [masks], np.zeros(8, np.int32))

    def build(m: Maker, lane: UOp) -> UOp:
        array = m.put(m.put(m.array(int32, 6), 0, 1), 3, 7)
        kind = bool_.vec(4)
        append = m.op(Op.APPEND, array.dtype, array, number(1), UOp.const(kind, False), m.iota(4), UOp.const(bool_, False), arg=(0, 7))
        return m.take(append, 3)

    with pytest.raises(CheckError, match="element 3 of a private array of 6 was never set"):
        lanewise(2, build)


def test_append_needs_room_for_all_slots() -> None:
    m, append = append_kernel(6, 0)
    with pytest.raises(
        CheckError, match=r"in lane \(3,\).*4 slots from 3 on do not fit a private array of 6"
    ) as caught:
        results(m.kernel, [np.ones(16, np.bool_)], np.zeros(8, np.int32))
    assert caught.value.node is append
