"""Transcendental functions expanded into arithmetic: within their bounds of NumPy's float64, at the edges, and cheap.

Graphs are evaluated by NumPy in exact float32, in two ways: every operation rounded, and a product beside a sum
contracted into one rounding. A target may do either, or a mixture; both must be good.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.compiler.transcendental import expand
from engine.graph.dtypes import DType, bool_, float16, float32, float64, int32
from engine.graph.uop import Op, UOp, toposort

Array = npt.NDArray[Any]

OPERATIONS: dict[str, Callable[..., Any]] = {
    Op.ADD: np.add,
    Op.SUB: np.subtract,
    Op.MUL: np.multiply,
    Op.DIV: np.divide,
    Op.ABS: np.abs,
    Op.SQRT: np.sqrt,
    Op.FLOOR: np.floor,
    Op.LT: np.less,
    Op.LE: np.less_equal,
    Op.EQ: np.equal,
    Op.NE: np.not_equal,
    Op.AND: np.bitwise_and,
    Op.OR: np.bitwise_or,
    Op.XOR: np.bitwise_xor,
    Op.SHL: np.left_shift,
    Op.SHR: np.right_shift,
    Op.WHERE: np.where,
}
REFERENCE: dict[str, Callable[..., Any]] = {
    Op.EXP: np.exp,
    Op.EXP2: np.exp2,
    Op.LOG: np.log,
    Op.LOG2: np.log2,
    Op.SIN: np.sin,
    Op.COS: np.cos,
    Op.TAN: np.tan,
    Op.ASIN: np.arcsin,
    Op.ACOS: np.arccos,
    Op.ATAN: np.arctan,
    Op.ATAN2: np.arctan2,
    Op.POW: np.power,
}

SAMPLES = 150_000
PI = math.pi
EDGES = np.array(
    [0, 1, np.inf, np.nan, 1e-45, 1e-40, 2.0**-126, 3.4028235e38, 0.5, 2, 3, 2.5, 1e10, PI, PI / 2, 1 + 2.0**-23],
    np.float32,
)  # fmt: skip
EDGES = np.concatenate([EDGES, -EDGES])


def leaf(k: int, dtype: DType = float32) -> UOp:
    return UOp.new(Op.LOAD, dtype, (), k, ())


X, Y = leaf(0), leaf(1)


def contracted(node: UOp, values: dict[UOp, Array]) -> Array:
    """a*b + c, c + a*b or the differences, rounded once (the sum in float64 of an exact product)."""
    first, second = node.src
    sign = 1 if node.op == Op.ADD else -1
    if first.op == Op.MUL:
        a, b, c, signs = first.src[0], first.src[1], second, (1, sign)
    else:
        a, b, c, signs = second.src[0], second.src[1], first, (sign, 1)
    product = values[a].astype(np.float64) * values[b]
    result: Array = (signs[0] * product + signs[1] * values[c].astype(np.float64)).astype(np.float32)
    return result


def evaluate(root: UOp, leaves: dict[UOp, Array], contract: bool = False) -> Array:
    values: dict[UOp, Array] = {}
    with np.errstate(all="ignore"):
        for node in root.toposort():
            sources = [values[s] for s in node.src]
            value: Any
            if node in leaves:
                value = leaves[node]
            elif node.op == Op.CONST:
                value = np.asarray(node.arg, node.dtype.numpy)
            elif node.op == Op.CAST:
                value = sources[0].astype(node.dtype.numpy)
            elif node.op == Op.BITCAST:
                value = sources[0].view(node.dtype.numpy)
            elif contract and node.op in (Op.ADD, Op.SUB) and Op.MUL in (s.op for s in node.src):
                value = contracted(node, values)
            else:
                value = OPERATIONS[node.op](*sources)
            assert value.dtype == node.dtype.numpy, node
            values[node] = value
    return values[root]


def exact(op: str, *arguments: Array) -> Array:
    with np.errstate(all="ignore"):
        result: Array = REFERENCE[op](*(a.astype(np.float64) for a in arguments))
    return result


def ulps(got: Array, want: Array) -> Array:
    """The error in units in the last place; infinite where an infinity, a NaN or the sign of a zero is wrong."""
    with np.errstate(all="ignore"):
        rounded = want.astype(np.float32)
        unit = np.exp2(np.maximum(np.floor(np.log2(np.abs(want))), -126) - 23)
        error = np.abs(got.astype(np.float64) - want) / unit
        limit = float(np.finfo(np.float32).max)
        threshold = np.abs(np.abs(want) / limit - 1) < 3e-7  # one of the two may have become infinite already
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded)) | (threshold & (np.sign(got) == np.sign(rounded)))
    error = np.where(np.isfinite(rounded) & np.isfinite(got), error, np.where(same, 0.0, np.inf))
    result: Array = np.where((want == 0) & (np.signbit(got) != np.signbit(want)), np.inf, error)
    return result


def uniform(low: float, high: float, count: int = SAMPLES) -> Array:
    return np.random.default_rng(1).uniform(low, high, count).astype(np.float32)


def patterns(seed: int = 2) -> Array:
    """Numbers of every size and sign, infinities and NaN among them: random bits."""
    return np.random.default_rng(seed).integers(0, 2**32, SAMPLES, dtype=np.uint32).view(np.float32)


def around(points: Array, width: int = 50) -> Array:
    """The float32 numbers next to these."""
    bits = points.astype(np.float32).view(np.int32)[:, None] + np.arange(-width, width + 1, dtype=np.int32)
    return bits.ravel().view(np.float32)


def angles() -> Array:
    multiples = around(PI / 2 * np.arange(-19, 20))
    small = EDGES[np.abs(EDGES) <= 30]
    return np.concatenate([small, uniform(-30, 30, 4 * SAMPLES), uniform(-1, 1), multiples, uniform(-1e-6, 1e-6)])


def everything(*parts: Array) -> Array:
    return np.concatenate([EDGES, patterns(), *parts])


# op: arguments, bound in ulp, bound on the number of operations
UNARY: dict[str, tuple[Callable[[], Array], float, int]] = {
    Op.EXP: (lambda: everything(uniform(-105, 90), uniform(-1, 1)), 1.2, 29),
    Op.EXP2: (lambda: everything(uniform(-151, 130), uniform(-1, 1)), 1.2, 25),
    Op.LOG: (lambda: everything(uniform(0.4, 2.5), uniform(0.99, 1.01), uniform(0, 1.2e-38)), 1.0, 40),
    Op.LOG2: (lambda: everything(uniform(0.4, 2.5), uniform(0.99, 1.01), uniform(0, 1.2e-38)), 1.3, 38),
    Op.SIN: (angles, 1.505, 39),
    Op.COS: (angles, 1.505, 39),
    Op.TAN: (angles, 3.0, 33),
    Op.ASIN: (lambda: everything(uniform(-1, 1), uniform(0.499, 0.52), uniform(0.99, 1.0)), 2.5, 24),
    Op.ACOS: (lambda: everything(uniform(-1, 1), uniform(-0.52, -0.49), uniform(0.99, 1.0)), 1.5, 25),
    Op.ATAN: (lambda: everything(uniform(-3, 3), uniform(1, 1.3)), 2.5, 26),
}


def operations(*roots: UOp) -> int:
    return sum(node.op not in (Op.CONST, Op.BITCAST, Op.LOAD) for node in toposort(roots))


def unary(op: str) -> UOp:
    return expand(UOp.new(op, float32, (X,)))


def binary(op: str, y: UOp | float = Y) -> UOp:
    return expand(UOp.new(op, float32, (X, y if isinstance(y, UOp) else UOp.const(float32, y))))


def powers() -> tuple[Array, Array]:
    """Bases and exponents: all pairs of edges, random bits, results of every size, bases near 1, whole exponents."""
    x, y = (a.ravel() for a in np.meshgrid(EDGES, EDGES))
    bases = [x, patterns(3), uniform(0.3, 3), uniform(0.9, 1.1), uniform(-3, 3), patterns(4)]
    rest = np.random.default_rng(5).uniform(-1, 1, SAMPLES)
    exponents = [y, patterns(6), rest * 128, rest * 900, np.round(rest * 30), rest / 2]
    return np.concatenate(bases), np.concatenate([e.astype(np.float32) for e in exponents])


def power_size(x: Array, y: Array) -> Array:
    with np.errstate(all="ignore"):
        size: Array = np.nan_to_num(np.abs(y.astype(np.float64) * np.log2(np.abs(x.astype(np.float64)))))
    return size


@pytest.mark.parametrize("contract", [False, True], ids=["separate", "fused"])
@pytest.mark.parametrize("op", UNARY)
def test_functions_of_one_argument_stay_within_their_bound(op: str, contract: bool) -> None:
    arguments, bound, _ = UNARY[op]
    x = arguments()
    error = ulps(evaluate(unary(op), {X: x}, contract), exact(op, x))
    worst = int(error.argmax())
    assert error[worst] <= bound, f"{op}({x[worst]!r}) is off by {error[worst]} ulp"


@pytest.mark.parametrize("contract", [False, True], ids=["separate", "fused"])
def test_atan2_finds_the_quadrant_and_stays_within_its_bound(contract: bool) -> None:
    y, x = (a.ravel() for a in np.meshgrid(EDGES, EDGES))
    y, x = np.concatenate([y, patterns(3), uniform(-1, 1)]), np.concatenate([x, patterns(4), uniform(-1, 1)[::-1]])
    error = ulps(evaluate(binary(Op.ATAN2), {X: y, Y: x}, contract), exact(Op.ATAN2, y, x))
    worst = int(error.argmax())
    assert error[worst] <= 2.5, f"atan2({y[worst]!r}, {x[worst]!r}) is off by {error[worst]} ulp"


@pytest.mark.parametrize("contract", [False, True], ids=["separate", "fused"])
def test_pow_stays_within_its_bound(contract: bool) -> None:
    x, y = powers()
    error = ulps(evaluate(binary(Op.POW), {X: x, Y: y}, contract), exact(Op.POW, x, y))
    worst = int(error.argmax())
    assert error[worst] <= 1.7, f"pow({x[worst]!r}, {y[worst]!r}) is off by {error[worst]} ulp"
    assert error[power_size(x, y) <= 64].max() <= 1.4


BROKEN_POWERS = [1 / 2.2, 1 / 2.4, -0.3, 0.75, 2.2, 2.4, 1.5, -1.2, 3.7, -2.5, 100.3, -7.5]
WHOLE_POWERS = [0.0, 1.0, -1.0, 2.0, 3.0, -3.0, 4.0, 5.0, 6.0, 7.0, 33.0]


@pytest.mark.parametrize("y", [*BROKEN_POWERS, *WHOLE_POWERS, math.inf, -math.inf, math.nan])
def test_pow_with_a_constant_exponent_is_pow(y: float) -> None:
    x = everything(uniform(0, 1), uniform(-3, 3))
    want = exact(Op.POW, x, np.full_like(x, y))
    for contract in (False, True):
        error = ulps(evaluate(binary(Op.POW, y), {X: x}, contract), want)
        worst = int(error.argmax())
        assert error[worst] <= 3.0, f"pow({x[worst]!r}, {y}) is off by {error[worst]} ulp"


@pytest.mark.parametrize("y", [0.5, -0.5, -2.0])
def test_short_powers_are_pow_for_positive_bases(y: float) -> None:
    x = np.concatenate([[1.0, np.inf], uniform(1e-15, 1), uniform(1, 1e15)]).astype(np.float32)
    error = ulps(evaluate(binary(Op.POW, y), {X: x}), exact(Op.POW, x, np.full_like(x, y)))
    assert error.max() <= 2.0


@pytest.mark.parametrize("op", [Op.SIN, Op.COS])
def test_sine_and_cosine_of_large_angles_keep_an_absolute_bound_and_then_their_range(op: str) -> None:
    x = uniform(-1e5, 1e5)
    wild = np.concatenate([patterns(), around(2.0 ** np.arange(10, 127))])
    wild = wild[np.isfinite(wild)]
    for contract in (False, True):
        assert np.abs(evaluate(unary(op), {X: x}, contract) - exact(op, x)).max() < 1.2e-7
        assert np.abs(evaluate(unary(op), {X: wild}, contract)).max() <= 1.0


def test_exact_values_are_exact() -> None:
    integers = np.arange(-149, 128, dtype=np.float32)
    assert (evaluate(unary(Op.EXP2), {X: integers}) == np.exp2(integers.astype(np.float64))).all()
    assert (evaluate(unary(Op.LOG2), {X: np.exp2(integers.astype(np.float64)).astype(np.float32)}) == integers).all()
    zero, one = np.zeros(1, np.float32), np.ones(1, np.float32)
    assert evaluate(unary(Op.EXP), {X: zero}) == evaluate(unary(Op.COS), {X: zero}) == 1
    assert evaluate(unary(Op.LOG), {X: one}) == evaluate(unary(Op.ACOS), {X: one}) == 0


@settings(max_examples=200, deadline=None)
@given(st.floats(width=32), st.floats(width=32), st.booleans())
def test_any_two_numbers_give_what_numpy_gives(a: float, b: float, contract: bool) -> None:
    x, y = np.array([a], np.float32), np.array([b], np.float32)
    assert ulps(evaluate(binary(Op.POW), {X: x, Y: y}, contract), exact(Op.POW, x, y)).max() <= 1.7
    assert ulps(evaluate(binary(Op.ATAN2), {X: x, Y: y}, contract), exact(Op.ATAN2, x, y)).max() <= 2.5


@settings(max_examples=100, deadline=None)
@given(st.floats(-1000, 1000, width=32), st.integers(-60, 60))
def test_a_power_has_the_sign_of_its_parity_and_no_value_for_broken_exponents(a: float, n: int) -> None:
    x = np.array([a], np.float32)
    for y in (float(n), n + 0.5):
        variable = evaluate(binary(Op.POW), {X: x, Y: np.array([y], np.float32)})
        assert ulps(variable, exact(Op.POW, x, np.array([y]))).max() <= 1.7


def test_functions_stay_cheap() -> None:
    counts = {op: operations(unary(op)) for op in UNARY}
    assert {op: n for op, n in counts.items() if n > UNARY[op][2]} == {}
    assert operations(unary(Op.SIN), unary(Op.COS)) <= 44
    assert operations(binary(Op.ATAN2)) <= 35
    assert operations(binary(Op.POW)) <= 130
    assert operations(binary(Op.POW, 1 / 2.2)) <= 57
    assert operations(binary(Op.POW, 2.4)) <= 74
    assert [operations(binary(Op.POW, y)) for y in (0.0, 1.0, 0.5, 2.0, -1.0, 4.0)] == [0, 0, 1, 1, 1, 2]


@pytest.mark.parametrize("op", REFERENCE)
def test_vectors_stay_vectors(op: str) -> None:
    """A node of four elements gives four, with scalar constants; a scalar source beside a vector is allowed."""
    wide = float32.vec(4)
    vector = leaf(2, wide)
    pairs = [(vector, leaf(3, wide)), (X, vector), (vector, X), (vector, UOp.const(float32, 0.0))]
    for sources in pairs if op in (Op.POW, Op.ATAN2) else [(vector,)]:
        root = expand(UOp.new(op, wide, sources))
        assert root.dtype is wide
        for node in root.toposort():
            if node.op == Op.CONST:
                assert node.dtype.count == 1
            elif node.src:
                assert node.dtype.count == max(s.dtype.count for s in node.src)
                scalar = node.dtype.scalar
                assert scalar in (float32, int32, bool_)


def test_half_precision_goes_through_single() -> None:
    x = np.arange(0x7C00, dtype=np.uint16).view(np.float16)
    for op, y in ((Op.EXP, None), (Op.SIN, None), (Op.POW, 0.45)):
        half = leaf(4, float16)
        root = expand(UOp.new(op, float16, (half,) if y is None else (half, UOp.const(float16, y))))
        arguments = (x,) if y is None else (x, np.full_like(x, y))
        with np.errstate(all="ignore"):
            want = exact(op, *arguments).astype(np.float16)
        got = evaluate(root, {half: x})
        assert got.dtype == np.float16
        ordinary = np.isfinite(want) & (x < 1e4)
        np.testing.assert_allclose(got[ordinary], want[ordinary], rtol=1e-3, atol=1e-7)


def test_double_precision_is_left_alone() -> None:
    node = UOp.new(Op.SIN, float64, (leaf(5, float64),))
    assert expand(node) is node


def test_other_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match="not a transcendental node"):
        expand(X.alu(Op.ADD, Y))
