"""Simplified graphs have the same values, for every value of their leaves; and the rules do what lowering needs of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.graph import dtypes, numpy_ops
from engine.graph.dtypes import DType, bool_, float32, int8, int32, int64, uint8, uint32
from engine.graph.rewrite import Rules, const, pattern, rewrite, var
from engine.graph.simplify import NEEDED, SIMPLIFY, bounds
from engine.graph.uop import BINARY, COMPARE, ELEMENTWISE, UNARY, Op, UOp, dim, toposort

COUNT = 12  # values of each leaf
INTEGERS = (int32, uint32, int8, uint8, int64)
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, float("inf"), float("-inf"), float("nan"), 3.4e38, 1e-45)
SHARED_OPS = (Op.ADD, Op.SUB, Op.MUL, Op.IDIV, Op.MOD, Op.MIN, Op.MAX, Op.NEG, Op.ABS, Op.WHERE, Op.LT, Op.LE, Op.EQ)
INT_OPS = (*SHARED_OPS, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR, Op.NOT)
FLOAT_OPS = (*SHARED_OPS, Op.DIV, Op.FLOOR, Op.SQRT, Op.NE)
BOOL_OPS = (Op.AND, Op.OR, Op.XOR, Op.NOT, Op.WHERE, Op.EQ)


def leaf(dtype: DType, number: int) -> UOp:
    return UOp.new(Op.LOOPVAR, dtype, (), (1, number), ())


def lane(size: int, axis: int = 0) -> UOp:
    return UOp.new(Op.LANE, int32, (), (axis, size))


def new(op: str, *sources: UOp, dtype: DType | None = None) -> UOp:
    made = dtype or (bool_ if op in COMPARE else sources[-1].dtype)
    return UOp.new(op, made, sources)


def simple(op: str, *sources: UOp, dtype: DType | None = None) -> UOp:
    return SIMPLIFY.simplify(new(op, *sources, dtype=dtype))


def values(root: UOp, known: dict[UOp, Any]) -> Any:
    """The values of a graph, by the definition of its operations."""
    found = dict(known)
    for node in toposort((root,)):
        if node in found:
            continue
        if node.op == Op.CONST:
            found[node] = np.asarray(node.arg, node.dtype.numpy)
        else:
            assert node.op in ELEMENTWISE, f"{node!r} was not among the leaves"
            found[node] = numpy_ops.evaluate(node.op, node.dtype, [found[s] for s in node.src])
    return found[root]


def ints(dtype: DType) -> st.SearchStrategy[int]:
    low, high = int(dtype.min), int(dtype.max)
    near = st.sampled_from([n for n in (low, low + 1, -8, -1, 0, 1, 2, 3, 4, 8, 12, 16, 127, high - 1, high) if low <= n <= high])
    return st.one_of(near, st.integers(low, high), st.integers(max(low, -20), min(high, 20)))


def elements(dtype: DType) -> st.SearchStrategy[Any]:
    if dtype.is_float:
        return st.one_of(st.sampled_from(SPECIAL), st.floats(width=32))
    return st.booleans() if dtype.is_bool else ints(dtype)


def same(a: Any, b: Any, zeros: bool) -> bool:
    """Equal bits, NaN equal to NaN; `zeros`: whatever the sign of a zero."""
    if a.dtype.kind != "f":
        return bool((a == b).all())
    both = np.isnan(a) & np.isnan(b)
    signs = np.signbit(a) == np.signbit(b)
    return bool((both | ((a == b) & (signs | (zeros & (a == 0))))).all())


Both = tuple[UOp, UOp]


def both(op: str, *sources: Both) -> Both:
    """A node as written and as simplified."""
    return new(op, *(s[0] for s in sources)), simple(op, *(s[1] for s in sources))


# What the rules look for, and nearly: chance alone would hardly build it. a, b: any values; k, c: small constants.
SHAPES: list[Callable[..., Both]] = [
    lambda f, a, b, k, c: f(Op.IDIV, f(Op.ADD, f(Op.MUL, a, k), b), c),
    lambda f, a, b, k, c: f(Op.MOD, f(Op.ADD, f(Op.MUL, a, k), b), c),
    lambda f, a, b, k, c: f(Op.IDIV, f(Op.MUL, a, k), c),
    lambda f, a, b, k, c: f(Op.MOD, f(Op.MUL, a, k), c),
    lambda f, a, b, k, c: f(Op.ADD, f(Op.MUL, f(Op.IDIV, a, b), b), f(Op.MOD, a, b)),
    lambda f, a, b, k, c: f(Op.ADD, f(Op.MUL, f(Op.IDIV, a, k), k), f(Op.MOD, a, k)),
    lambda f, a, b, k, c: f(Op.ADD, f(Op.ADD, a, k), f(Op.ADD, b, c)),
    lambda f, a, b, k, c: f(Op.MUL, f(Op.ADD, a, k), c),
    lambda f, a, b, k, c: f(Op.IDIV, f(Op.ADD, f(Op.MUL, a, b), f(Op.MOD, a, b)), b),
    lambda f, a, b, k, c: f(Op.MOD, f(Op.ADD, f(Op.MUL, a, b), f(Op.MOD, a, b)), b),
    lambda f, a, b, k, c: f(Op.MOD, f(Op.MOD, a, k), c),
    lambda f, a, b, k, c: f(Op.MIN, f(Op.MAX, a, k), f(Op.ADD, b, c)),
]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[UOp, UOp, dict[UOp, Any]]:
    """A graph as written, as simplified, and values for its leaves."""
    kind = draw(st.sampled_from((*INTEGERS, int32, int32, float32, float32)))
    known: dict[UOp, Any] = {}
    pool: dict[DType, list[tuple[UOp, UOp]]] = {kind: [], bool_: []}
    for k in range(3):
        node = leaf(kind, k)
        known[node] = np.array(draw(st.lists(elements(kind), min_size=COUNT, max_size=COUNT)), kind.numpy)
        pool[kind].append((node, node))
    if kind is int32:
        for axis, size in enumerate((draw(st.integers(1, 40)), 1 << 30)):
            node = lane(size, axis)
            known[node] = np.array(draw(st.lists(st.integers(0, size - 1), min_size=COUNT, max_size=COUNT)), np.int32)
            pool[kind].append((node, node))
    predicate = leaf(bool_, 9)
    known[predicate] = np.array(draw(st.lists(st.booleans(), min_size=COUNT, max_size=COUNT)))
    pool[bool_].append((predicate, predicate))
    last = pool[kind][0]
    for _ in range(draw(st.integers(1, 14))):
        dtype = draw(st.sampled_from((kind, kind, kind, bool_)))
        op = draw(st.sampled_from(BOOL_OPS if dtype is bool_ else INT_OPS if kind.is_int else FLOAT_OPS))

        def operand(wanted: DType) -> tuple[UOp, UOp]:
            if draw(st.integers(0, 2)) == 0:
                number = UOp.const(wanted, draw(elements(wanted)))
                return number, number
            recent = pool[wanted][-4:] if draw(st.booleans()) else pool[wanted]
            return draw(st.sampled_from(recent))

        def multiple(wanted: DType) -> tuple[UOp, UOp]:
            number = UOp.const(wanted, draw(st.sampled_from((2, 3, 4, 6, 12))))
            return number, number

        if dtype.is_int and draw(st.booleans()):
            last = SHAPES[draw(st.integers(0, len(SHAPES) - 1))](both, operand(kind), operand(kind), *(multiple(kind) for _ in range(2)))
            pool[kind].append(last)
            continue
        wanted = [bool_, dtype, dtype] if op == Op.WHERE else [dtype] if op in UNARY else [dtype, dtype]
        last = both(op, *(operand(w) for w in wanted))
        pool[last[0].dtype].append(last)
    return last[0], last[1], known


@pytest.mark.parametrize("dtype", INTEGERS)
def test_what_the_rules_look_for_keeps_its_values_at_every_extreme(dtype: DType) -> None:
    low, high = int(dtype.min), int(dtype.max)
    numbers = [n for n in (low, low + 1, -12, -5, -1, 0, 1, 2, 3, 7, 12, 100, high // 3, high - 1, high) if low <= n <= high]
    a, b = (grid.reshape(-1) for grid in np.meshgrid(np.array(numbers, dtype.numpy), np.array(numbers, dtype.numpy)))
    x, y = leaf(dtype, 0), leaf(dtype, 1)
    known = {x: a, y: b}
    if dtype is int32:
        known |= {lane(40): a.clip(0, 39), lane(1 << 30, 1): b.clip(0, (1 << 30) - 1)}
    pairs = [(x, y), (y, x), (lane(40), lane(1 << 30, 1)), (lane(1 << 30, 1), lane(40))]
    for first, second in pairs if dtype is int32 else pairs[:2]:
        for shape in SHAPES:
            for k in (2, 3, 12):
                for c in (2, 3, 4, 12):
                    constants = [(n, n) for n in (UOp.const(dtype, k), UOp.const(dtype, c))]
                    plain, simplified = shape(both, (first, first), (second, second), *constants)
                    assert same(values(plain, known), values(simplified, known), False), (plain, simplified)


@settings(max_examples=400, deadline=None)
@given(graphs())
def test_simplified_scalar_graphs_keep_their_values_and_bounds_hold(made: tuple[UOp, UOp, dict[UOp, Any]]) -> None:
    plain, simplified, known = made
    assert simplified.dtype is plain.dtype
    zeros = any(n.op in (Op.MAX, Op.MIN) for n in plain.toposort())
    assert same(values(plain, known), values(simplified, known), zeros)
    for node in plain.toposort():
        if node.op in ELEMENTWISE and node.dtype.is_int:
            low, high = bounds(node)
            got = values(node, known)
            assert low <= int(got.min()) and int(got.max()) <= high, node


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_index_arithmetic_over_sizes_known_later(data: st.DataObject) -> None:
    """Coordinates, sizes and their products: whatever addresses of arrays that exist are made of."""
    height, width = dim("height"), dim("width")
    sizes = {height: data.draw(st.integers(1, 60)), width: data.draw(st.integers(1, 60))}
    y, x = UOp.new(Op.LANE, int32, (), (0, height)), UOp.new(Op.LANE, int32, (), (1, width))
    known: dict[UOp, Any] = {node: np.full(COUNT, n, np.int32) for node, n in sizes.items()}
    for node in (y, x):
        most = sizes[node.arg[1]] - 1
        known[node] = np.array(data.draw(st.lists(st.integers(0, most), min_size=COUNT, max_size=COUNT)), np.int32)
    pool = [(n, n) for n in (y, x, height, width)]
    for _ in range(data.draw(st.integers(1, 10))):
        op = data.draw(st.sampled_from((Op.ADD, Op.MUL, Op.MUL, Op.IDIV, Op.MOD, Op.SUB)))
        a = data.draw(st.sampled_from(pool))
        number = UOp.const(int32, data.draw(st.integers(-3, 9)))
        b = data.draw(st.sampled_from([*pool, (height, height), (width, width), (number, number)]))
        pool.append(both(op, a, b))
        exact = {**known}
        for node in pool[-1][0].toposort():  # an address that wraps is one of no array
            if node not in exact:
                wide = [exact[s].astype(np.int64) for s in node.src]
                exact[node] = np.asarray(node.arg) if node.op == Op.CONST else numpy_ops.evaluate(node.op, int64, wide)
                assume(bool((np.abs(exact[node]) < 1 << 31).all()))
    plain, simplified = pool[-1]
    assert same(values(plain, known), values(simplified, known), False)


# ---- what lowering needs ----


@pytest.mark.parametrize(("height", "width"), [(7, 5), (7, "width"), ("height", "width")])
@pytest.mark.parametrize("rules", [SIMPLIFY, NEEDED])
def test_a_flattened_coordinate_comes_apart_again(height: Any, width: Any, rules: Rules) -> None:
    size = dim(width) if isinstance(width, str) else UOp.const(int32, width)
    y = UOp.new(Op.LANE, int32, (), (0, dim(height) if isinstance(height, str) else height))
    x = UOp.new(Op.LANE, int32, (), (1, size if isinstance(width, str) else width))
    make = rules.simplify
    flat = make(new(Op.ADD, make(new(Op.MUL, y, size)), x))
    assert make(new(Op.IDIV, flat, size)) is y
    assert make(new(Op.MOD, flat, size)) is x


def test_neighbours_share_their_address() -> None:
    y, x, width = lane(100), lane(80, 1), UOp.const(int32, 80)
    here = simple(Op.ADD, simple(Op.MUL, y, width), x)
    below = simple(Op.ADD, simple(Op.MUL, simple(Op.ADD, y, UOp.const(int32, 1)), width), simple(Op.ADD, x, UOp.const(int32, -1)))
    assert below.op == Op.ADD and below.src == (here, UOp.const(int32, 79))


@pytest.mark.parametrize(
    ("made", "unchanged"),
    [
        (lambda x: (Op.MOD, x, UOp.const(float32, 1.0)), True),  # the fraction
        (lambda x: (Op.IDIV, x, UOp.const(float32, 1.0)), True),  # the floor
        (lambda x: (Op.ADD, x, UOp.const(float32, 0.0)), True),  # -0 + 0 is 0
        (lambda x: (Op.MUL, x, UOp.const(float32, 0.0)), True),  # NaN and infinity
        (lambda x: (Op.SUB, x, x), True),
        (lambda x: (Op.MUL, x, UOp.const(float32, 1.0)), False),
        (lambda x: (Op.DIV, x, UOp.const(float32, 1.0)), False),
    ],
)
def test_floats_keep_what_only_reals_could_lose(made: Any, unchanged: bool) -> None:
    x = leaf(float32, 0)
    op, *sources = made(x)
    assert (simple(op, *sources) is new(op, *sources)) is unchanged


def test_short_vectors_keep_their_width() -> None:
    wide = UOp.new(Op.IOTA, int32.vec(8), (), 2)
    truth = UOp.new(Op.LT, bool_.vec(8), (wide, UOp.const(int32, 100)))
    for op, dtype, sources in [
        (Op.MUL, int32, (wide, UOp.const(int32, 0))),
        (Op.MOD, int32, (wide, UOp.const(int32, 1))),
        (Op.IDIV, int32, (wide, UOp.const(int32, 100))),
        (Op.SUB, int32, (wide, wide)),
        (Op.AND, bool_, (truth, UOp.const(bool_, False))),
        (Op.OR, bool_, (truth, UOp.const(bool_, True))),
        (Op.LT, bool_, (wide, UOp.const(int32, 100))),
    ]:
        made = SIMPLIFY.simplify(UOp.new(op, dtype.vec(8), sources))
        assert made.dtype is dtype.vec(8), op


# ---- the matcher ----


def test_a_pattern_binds_names_and_tries_both_orders() -> None:
    a, b, c = (leaf(int32, k) for k in range(3))
    rules = Rules([(pattern(Op.ADD, pattern(Op.MUL, var("x"), var("y")), var("x")), lambda x, y: y)])
    assert rules.simplify(new(Op.ADD, a, new(Op.MUL, a, b))) is b
    assert rules.simplify(new(Op.ADD, new(Op.MUL, a, b), a)) is b
    assert rules.once(new(Op.ADD, c, new(Op.MUL, a, b))) is None


def test_rules_are_tried_in_order_and_kinds_are_looked_at() -> None:
    floats = Rules([(pattern(Op.NEG, var("x"), kinds="f"), lambda x: x)])
    rules = floats + Rules([(pattern(Op.NEG, var("x")), lambda x: UOp.const(x.dtype, 0))])
    assert rules.simplify(new(Op.NEG, leaf(float32, 0))) is leaf(float32, 0)
    assert rules.simplify(new(Op.NEG, leaf(int32, 0))).arg == 0


def test_rules_that_do_not_settle_are_reported() -> None:
    swap = Rules([(pattern(Op.SUB, var("a"), var("b")), lambda a, b: new(Op.SUB, b, a))])
    with pytest.raises(RuntimeError, match="do not settle"):
        swap.simplify(new(Op.SUB, leaf(int32, 0), leaf(int32, 1)))


def test_rewriting_a_deep_graph_goes_sources_first_and_once() -> None:
    x, one = leaf(int32, 0), UOp.const(int32, 1)
    node, seen = x, []
    for _ in range(20_000):
        node = new(Op.ADD, node, one)
    rules = Rules([(pattern(Op.ADD, var("a"), const("c")), lambda a, c: seen.append(a) or new(Op.SUB, a, UOp.const(int32, -1)))])
    made = rewrite((node,), rules)[node]
    assert len(seen) == 20_000 and made.op == Op.SUB and not any(n.op == Op.ADD for n in made.toposort())


def test_inner_nodes_that_a_rule_makes_are_rewritten_too() -> None:
    x = leaf(int32, 0)
    rules = Rules(
        [
            (pattern(Op.SHL, var("a"), const("c")), lambda a, c: new(Op.MUL, new(Op.NEG, new(Op.NEG, a)), UOp.const(int32, 1 << c.arg))),
            (pattern(Op.NEG, pattern(Op.NEG, var("a"))), lambda a: a),
        ]
    )
    made = rewrite((new(Op.SHL, x, UOp.const(int32, 3)),), rules)
    assert made[new(Op.SHL, x, UOp.const(int32, 3))] is new(Op.MUL, x, UOp.const(int32, 8))


def test_every_foldable_operation_folds() -> None:
    for op in sorted(BINARY | UNARY):
        dtype = float32 if op not in (Op.AND, Op.OR, Op.XOR, Op.NOT, Op.SHL, Op.SHR) else int32
        sources = [UOp.const(dtype, 3)] * (1 if op in UNARY else 2)
        assert simple(op, *sources, dtype=bool_ if op in COMPARE else dtype).op == Op.CONST, op


def test_simplifying_costs_little_where_nothing_fits() -> None:
    x, y = leaf(float32, 0), leaf(float32, 1)
    nodes = [new(op, x, y) for op in (Op.ADD, Op.MUL, Op.SUB, Op.DIV, Op.MAX)]
    for node in nodes:
        SIMPLIFY.simplify(node)
    best = min(_seconds(nodes) for _ in range(5))
    assert best < 20e-6  # about 1 us; far above that only if tables are searched again for each node


def _seconds(nodes: list[UOp]) -> float:
    started = time.perf_counter()
    for _ in range(200):
        for node in nodes:
            SIMPLIFY.simplify(node)
    return (time.perf_counter() - started) / (200 * len(nodes))


def test_all_types_are_known_to_the_tests() -> None:
    assert set(INTEGERS) <= set(dtypes.ALL.values())
