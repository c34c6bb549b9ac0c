"""The interpreter against plain Python loops over lanes: memory, control flow, votes, errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from engine.graph.dtypes import as_dtype, bool_, float32, int32
from engine.graph.uop import Op, UOp, dim
from engine.runtime.devices import reference
from engine.runtime.devices.reference import CheckError, run
from engine.runtime.devices.reference_lanes import Walk
from tests.engine.kernel_maker import WIDTHS, Maker, const, lanewise, number, results

# ---- lanes, memory, sizes ----


def test_every_walk_visits_each_lane_once_and_groups_are_neighbours() -> None:
    for kind, sizes, width in itertools.product(
        ("linear", "rows", "tiles"), ((5, 7), (2, 9, 6), (1, 1)), (1, 2, 4, 8, 16)
    ):
        walk = Walk(kind, sizes, width)
        seen = []
        for group in range(walk.groups):
            coordinates, numbers = walk.lanes(group, group + 1)
            lanes = list(zip(*(c.tolist() for c in coordinates)))
            assert 1 <= len(lanes) <= width
            assert set(numbers.tolist()) == {0}
            if kind == "rows":
                assert len({lane[:-1] for lane in lanes}) == 1
            if kind == "tiles":
                assert len({lane[:-2] for lane in lanes}) == 1
                assert max(lane[-2] for lane in lanes) - lanes[0][-2] < {1: 1, 2: 1, 4: 2, 8: 2, 16: 4}[width]
            seen += lanes
        assert sorted(seen) == list(itertools.product(*map(range, sizes)))
    assert [c.tolist() for c in Walk("tiles", (4, 8), 16).lanes(1, 2)[0]] == [
        [y for y in range(4) for _ in range(4)], [4, 5, 6, 7] * 4
    ]  # fmt: skip
    assert Walk("linear", (), 4).lanes(0, 1)[1].tolist() == [0]
    assert Walk("tiles", (0, 3), 4).groups == 0
    with pytest.raises(ValueError, match="no such walk: 'spiral'"):
        Walk("spiral", (3,), 1)


@pytest.mark.parametrize("walk", ["rows", "tiles"])
@pytest.mark.parametrize("width", WIDTHS)
def test_dynamic_sizes_parameters_and_a_prelude(walk: str, width: int) -> None:
    h, w = dim("h"), dim("w")
    m = Maker((h, w), walk)
    source, scale, out = m.buffer(float32, h, w), m.buffer(float32, kind="parameter"), m.buffer(float32, h, w)
    with m.inside(m.prelude):
        doubled = m.op(Op.MUL, float32, m.load(scale, 0), 2.0)
        area = m.op(Op.MUL, int32, h, w)
    index = m.op(Op.ADD, int32, m.op(Op.MUL, int32, m.lane(0), w), m.lane(1))
    mirrored = m.op(Op.SUB, int32, m.op(Op.SUB, int32, area, 1), index)
    m.store(out, index, m.op(Op.MUL, float32, m.load(source, mirrored), doubled))
    image, picture = np.arange(35, dtype=np.float32), np.zeros(35, np.float32)
    run(m.kernel, [image, np.array([1.5], np.float32), picture], {"h": 5, "w": 7}, group_width=width)
    assert picture.tolist() == (image[::-1] * 3).tolist()


def test_a_kernel_without_lane_axes_runs_once() -> None:
    m = Maker(())
    out = m.buffer(int32)
    m.store(out, 0, m.op(Op.ADD, int32, m.load(out, 0), 1))
    assert results(m.kernel, [], np.array([41], np.int32)).tolist() == [42]


def test_large_domains_run_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "LANES_A_CHUNK", 32)
    for width in WIDTHS:
        got = lanewise(1000, lambda m, lane: m.vote("first", lane), width)
        assert got == [lane // width * width for lane in range(1000)]


def test_buffers_must_fit_exactly() -> None:
    m = Maker((4,))
    out = m.buffer(int32, 4)
    m.store(out, m.lane(), number(1))
    with pytest.raises(ValueError, match=r"buffer 0 of kernel made is float32\[4\]; it must be int32\[4\]"):
        run(m.kernel, [np.zeros(4, np.float32)])
    with pytest.raises(ValueError, match="kernel made has 1 buffers, not 2"):
        run(m.kernel, [np.zeros(4, np.int32)] * 2)
    with pytest.raises(ValueError, match="group_width is 3; it must be a power of two"):
        run(m.kernel, [np.zeros(4, np.int32)], group_width=3)


def test_gated_loads_give_zero_and_do_not_check_the_index() -> None:
    m = Maker((6,))
    lane, table, out = m.lane(), m.buffer(int32, 3), m.buffer(int32, 6)
    gate = m.op(Op.LT, bool_, lane, 3)
    m.store(out, lane, m.load(table, lane, gate))
    got = results(m.kernel, [np.array([5, 6, 7], np.int32)], np.full(6, -1, np.int32))
    assert got.tolist() == [5, 6, 7, 0, 0, 0]


def test_gated_stores_leave_the_rest() -> None:
    m = Maker((6,))
    lane, out = m.lane(), m.buffer(int32, 4)
    m.store(out, lane, lane, m.op(Op.LT, bool_, lane, 2))
    assert results(m.kernel, [], np.full(4, -1, np.int32)).tolist() == [0, 1, -1, -1]


@pytest.mark.parametrize(
    ("mode", "expected"), [("set", [8, 9, 7]), ("add", [118, 122, 111]), ("min", [0, 1, 2]), ("max", [100, 100, 100])]
)
def test_scatter_modes_meet_in_lane_order(mode: str, expected: list[int]) -> None:
    m = Maker((10,), ordered=True)
    lane, out = m.lane(), m.buffer(int32, 3)
    targets = m.buffer(int32, 10)
    m.store(out, m.load(targets, lane), lane, mode=mode)
    memory = np.full(3, 100, np.int32)
    run(m.kernel, [memory, np.array([0, 1, 2, 0, 1, 2, 0, 2, 0, 1], np.int32)])
    hits = [sum(k for k, t in enumerate([0, 1, 2, 0, 1, 2, 0, 2, 0, 1]) if t == n) for n in range(3)]
    assert memory.tolist() == ([100 + h for h in hits] if mode == "add" else expected)


def test_lanes_of_an_ordered_kernel_see_what_earlier_lanes_stored() -> None:
    m = Maker((2, 3), "tiles", ordered=True)
    out = m.buffer(int32, 7)
    flat = m.op(Op.ADD, int32, m.op(Op.MUL, int32, m.lane(0), 3), m.lane(1))
    following = m.op(Op.ADD, int32, flat, 1)
    m.store(out, following, m.op(Op.ADD, int32, m.load(out, flat), following))
    assert results(m.kernel, [], np.zeros(7, np.int32), 4).tolist() == [0, 1, 3, 6, 10, 15, 21]


def test_two_stores_of_an_ordered_kernel_alternate() -> None:
    m = Maker((3,), ordered=True)
    out = m.buffer(int32, 1)
    m.store(out, 0, m.lane(), mode="add")
    m.store(out, 0, m.lane(), mode="set")
    assert results(m.kernel, [], np.zeros(1, np.int32)).tolist() == [2]
    m = Maker((3,), ordered=True)
    out, lane = m.buffer(int32, 1), m.lane()

    def body(i: UOp) -> list[UOp]:
        m.store(out, 0, m.op(Op.SUB, int32, m.op(Op.MUL, int32, lane, 10), i))
        return [m.op(Op.ADD, int32, i, 1)]

    rounds = m.op(Op.SUB, int32, number(3), lane)  # earlier lanes stay longer
    m.loop([number(0)], lambda i: m.op(Op.LT, bool_, i, rounds), body, wanted=())
    assert results(m.kernel, [], np.zeros(1, np.int32)).tolist() == [20]


# ---- control flow ----


def collatz(n: int, limit: int) -> tuple[int, int]:
    steps, total = 0, 0
    while n > 1 and steps < limit:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps, total = steps + 1, total + n
    return steps, total


@pytest.mark.parametrize("width", WIDTHS)
def test_lanes_leave_a_loop_one_by_one_and_keep_their_state(width: int) -> None:
    def build(m: Maker, lane: UOp) -> UOp:
        limit = m.op(Op.MUL, int32, m.op(Op.MOD, int32, lane, 7), 20)

        def test(n: UOp, steps: UOp, total: UOp) -> UOp:
            return m.op(Op.AND, bool_, m.op(Op.LT, bool_, number(1), n), m.op(Op.LT, bool_, steps, limit))

        def body(n: UOp, steps: UOp, total: UOp) -> list[UOp]:
            even = m.op(Op.EQ, bool_, m.op(Op.MOD, int32, n, 2), 0)
            (following,) = m.branch(
                "cond", even,
                [lambda: [m.op(Op.IDIV, int32, n, 2)], lambda: [m.op(Op.ADD, int32, m.op(Op.MUL, int32, n, 3), 1)]],
            )  # fmt: skip
            return [following, m.op(Op.ADD, int32, steps, 1), m.op(Op.ADD, int32, total, following)]

        steps, total = m.loop([lane, number(0), number(0)], test, body, wanted=(1, 2))
        return m.op(Op.ADD, int32, m.op(Op.MUL, int32, steps, 1000000), total)

    assert lanewise(100, build, width) == [s * 1000000 + t for s, t in (collatz(n, n % 7 * 20) for n in range(100))]


@pytest.mark.parametrize("width", WIDTHS)
def test_loops_nest_in_switches_in_loops(width: int) -> None:
    def plain(lane: int) -> int:
        total = 0
        for i in range(lane % 5 + 1):
            case = max(0, min(2, lane - i - 2))
            if case == 0:
                total += i
            elif case == 1:
                for j in range(lane % 3):
                    total += j * i + lane
            else:
                total = total * 2 + (1 if total % 3 == 0 else 0)
        return total

    def build(m: Maker, lane: UOp) -> UOp:
        rounds = m.op(Op.ADD, int32, m.op(Op.MOD, int32, lane, 5), 1)
        inner_rounds = m.op(Op.MOD, int32, lane, 3)

        def body(i: UOp, total: UOp) -> list[UOp]:
            def inner() -> list[UOp]:
                def step(j: UOp, t: UOp) -> list[UOp]:
                    grown = m.op(Op.ADD, int32, m.op(Op.ADD, int32, t, m.op(Op.MUL, int32, j, i)), lane)
                    return [m.op(Op.ADD, int32, j, 1), grown]

                return [m.loop([number(0), total], lambda j, t: m.op(Op.LT, bool_, j, inner_rounds), step)[1]]

            def double() -> list[UOp]:
                third = m.op(Op.EQ, bool_, m.op(Op.MOD, int32, total, 3), 0)
                (bonus,) = m.branch("cond", third, [lambda: [number(1)], lambda: [number(0)]])
                return [m.op(Op.ADD, int32, m.op(Op.MUL, int32, total, 2), bonus)]

            case = m.op(Op.SUB, int32, m.op(Op.SUB, int32, lane, i), 2)
            (following,) = m.branch("switch", case, [lambda: [m.op(Op.ADD, int32, total, i)], inner, double])
            return [m.op(Op.ADD, int32, i, 1), following]

        return m.loop([number(0), number(0)], lambda i, t: m.op(Op.LT, bool_, i, rounds), body)[1]

    assert lanewise(50, build, width) == [plain(lane) for lane in range(50)]


@pytest.mark.parametrize("width", WIDTHS)
def test_uniform_control_flow_and_a_loop_that_never_runs(width: int) -> None:
    def build(m: Maker, lane: UOp) -> UOp:
        three = m.loop([number(0)], lambda i: m.op(Op.LT, bool_, i, 3), lambda i: [m.op(Op.ADD, int32, i, 1)])[0]
        never = m.loop([lane], lambda i: const(bool_, False), lambda i: [m.op(Op.ADD, int32, i, 1)])[0]
        (picked,) = m.branch("cond", m.op(Op.EQ, bool_, three, 3), [lambda: [never], lambda: [number(-1)]])
        return m.op(Op.ADD, int32, picked, three)

    assert lanewise(9, build, width) == [lane + 3 for lane in range(9)]


def test_masked_lanes_neither_load_nor_store() -> None:
    m = Maker((8,))
    lane, table, out = m.lane(), m.buffer(int32, 4), m.buffer(int32, 8)

    def inside() -> list[UOp]:
        value = m.load(table, lane)  # out of bounds for the other lanes
        m.store(out, lane, value)
        return [value]

    m.branch("cond", m.op(Op.LT, bool_, lane, 4), [inside, lambda: [number(0)]])
    got = results(m.kernel, [np.array([4, 3, 2, 1], np.int32)], np.full(8, -1, np.int32))
    assert got.tolist() == [4, 3, 2, 1, -1, -1, -1, -1]


def test_a_value_used_outside_its_block_is_not_found() -> None:
    m = Maker((4,))
    out, lane = m.buffer(int32, 4), m.lane()
    leaked: list[UOp] = []

    def arm() -> list[UOp]:
        leaked.append(m.op(Op.ADD, int32, lane, 5))
        return [number(0)]

    m.branch("cond", m.op(Op.LT, bool_, lane, 2), [arm, lambda: [number(0)]])
    m.store(out, lane, leaked[0])
    with pytest.raises(LookupError, match="is used where no block around has computed it"):
        results(m.kernel, [], np.zeros(4, np.int32))


# ---- votes ----

VOTES: dict[str, Callable[[list[int]], int]] = {"min": min, "max": max, "first": lambda v: v[0]}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ["any", "all", "count", "min", "max", "first"])
def test_votes_see_the_live_lanes_of_their_group(kind: str, width: int) -> None:
    def value(lane: int) -> int:
        return lane * 7 % 11

    def build(m: Maker, lane: UOp) -> UOp:
        x = m.op(Op.MOD, int32, m.op(Op.MUL, int32, lane, 7), 11)

        def arm() -> list[UOp]:
            ballot = m.op(Op.LT, bool_, x, 4) if kind in ("any", "all", "count") else x
            vote = m.vote(kind, ballot)
            return [m.op(Op.CAST, int32, vote) if vote.dtype is bool_ else vote]

        live = m.op(Op.NE, bool_, m.op(Op.MOD, int32, lane, 3), 0)
        return m.branch("cond", live, [arm, lambda: [number(-1)]])[0]

    expected = []
    for lane in range(45):
        group = [g for g in range(lane // width * width, min(45, lane // width * width + width)) if g % 3]
        ballots = [value(g) < 4 for g in group]
        booleans = {"any": any(ballots), "all": all(ballots), "count": sum(ballots)}
        result = int(booleans[kind]) if kind in booleans else VOTES[kind]([value(g) for g in group] or [0])
        expected.append(result if lane % 3 else -1)
    assert lanewise(45, build, width) == expected


@pytest.mark.parametrize("width", WIDTHS)
def test_lanes_that_left_a_loop_do_not_vote(width: int) -> None:
    def build(m: Maker, lane: UOp) -> UOp:
        def body(i: UOp, total: UOp) -> list[UOp]:
            voted = m.vote("count", const(bool_, True))
            return [m.op(Op.ADD, int32, i, 1), m.op(Op.ADD, int32, total, voted)]

        return m.loop([number(0), number(0)], lambda i, t: m.op(Op.LT, bool_, i, lane), body)[1]

    def plain(lane: int) -> int:
        group = range(lane // width * width, min(20, lane // width * width + width))
        return sum(sum(other > i for other in group) for i in range(lane))

    assert lanewise(20, build, width) == [plain(lane) for lane in range(20)]


def test_votes_of_tiles_see_the_tile() -> None:
    m = Maker((6, 10), "tiles")
    out = m.buffer(int32, 60)
    flat = m.op(Op.ADD, int32, m.op(Op.MUL, int32, m.lane(0), 10), m.lane(1))
    m.store(out, flat, m.vote("max", flat))
    got = results(m.kernel, [], np.zeros(60, np.int32), 16).reshape(6, 10)
    expected = [[min(5, y // 4 * 4 + 3) * 10 + min(9, x // 4 * 4 + 3) for x in range(10)] for y in range(6)]
    assert got.tolist() == expected


# ---- prints and errors ----


def test_prints_come_in_lane_order_from_live_lanes(capsys: pytest.CaptureFixture[str]) -> None:
    m = Maker((6,))
    lane = m.lane()
    half = m.op(Op.MUL, float32, m.op(Op.CAST, float32, lane), 0.1)

    def arm() -> list[UOp]:
        odd = m.op(Op.EQ, bool_, m.op(Op.MOD, int32, lane, 2), 1)
        m.op(Op.PRINT, None, odd, lane, half, arg=("lane {}: {:.2f}", 0, 1))
        return []

    m.branch("cond", m.op(Op.LT, bool_, lane, 4), [arm, list])
    run(m.kernel, [])
    assert capsys.readouterr().err == "lane 1: 0.10\nlane 3: 0.30\n"


@pytest.mark.parametrize("index", [-1, 4])
def test_an_index_out_of_bounds_names_kernel_lane_and_size(index: int) -> None:
    for store in (False, True):
        m = Maker((2, 3), "rows")
        table = m.buffer(int32, 4)
        bad = m.op(Op.AND, bool_, m.op(Op.EQ, bool_, m.lane(0), 1), m.op(Op.EQ, bool_, m.lane(1), 2))
        place = m.op(Op.WHERE, int32, bad, number(index), number(0))
        if store:
            m.store(table, place, number(1))
        else:
            m.load(table, place)
        with pytest.raises(CheckError) as caught:
            run(m.kernel, [np.zeros(4, np.int32)], group_width=4, describe=lambda node: f"{node.op} at scene.py:12")
        op = "store" if store else "load"
        text = f"kernel made, in lane (1, 2): {op} at scene.py:12: index {index} is outside a size of 4"
        assert str(caught.value) == text
        assert (caught.value.kernel, caught.value.lane, caught.value.node.op) == ("made", (1, 2), op)


def test_errors_in_the_prelude_have_no_lane() -> None:
    m = Maker((2,))
    table = m.buffer(int32, 4)
    with m.inside(m.prelude):
        m.load(table, 4)
    with pytest.raises(CheckError, match=r"kernel made, in the prelude: .*index 4 is outside a size of 4") as caught:
        run(m.kernel, [np.zeros(4, np.int32)])
    assert caught.value.lane is None


def test_the_operation_that_makes_a_nan_is_named() -> None:
    def build(m: Maker, lane: UOp) -> UOp:
        x = m.op(Op.SUB, float32, m.op(Op.CAST, float32, lane), 2.0)
        return m.op(Op.ADD, float32, m.op(Op.DIV, float32, x, x), 1.0)

    with pytest.raises(CheckError, match=r"in lane \(2,\): <div float32>: makes a NaN of 0.0, 0.0"):
        lanewise(4, build, nan_check=True)
    assert np.isnan(lanewise(4, build)[2])


def test_a_nan_that_comes_from_memory_is_not_blamed_on_what_reads_it() -> None:
    m = Maker((3,))
    lane, data, out = m.lane(), m.buffer(float32, 3), m.buffer(float32, 3)
    m.store(out, lane, m.op(Op.ADD, float32, m.load(data, lane), 1.0))
    got = results(m.kernel, [np.array([1, np.nan, 3], np.float32)], np.zeros(3, np.float32), nan_check=True)
    assert np.array_equal(got, [2, np.nan, 4], equal_nan=True)


def test_all_types_pass_through_memory() -> None:
    for name in ("bool", "int8", "uint16", "int64", "uint64", "float16", "float64"):
        dtype = as_dtype(name)
        got = lanewise(3, lambda m, lane, dtype=dtype: m.op(Op.CAST, dtype, lane))  # type: ignore[misc]
        assert got == np.arange(3).astype(dtype.numpy).tolist()
