"""Elementwise operations against exact arithmetic on Python numbers."""

from __future__ import annotations

import itertools
import math
import operator
import struct
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from engine.graph import dtypes, numpy_ops
from engine.graph.dtypes import DType
from engine.graph.numpy_ops import evaluate
from engine.graph.uop import ELEMENTWISE, Op

INTS = [d for d in dtypes.ALL.values() if d.is_int]
FLOATS = [d for d in dtypes.ALL.values() if d.is_float]
INF, NAN = float("inf"), float("nan")


def wrap(dtype: DType, value: int) -> int:
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "i" and value >> (dtype.bits - 1) else value


def edges(dtype: DType) -> list[int]:
    values = [
        0,
        1,
        2,
        3,
        7,
        dtype.bits - 1,
        dtype.bits,
        dtype.bits + 1,
        int(dtype.max),
        int(dtype.max) - 1,
        int(dtype.min),
    ]
    return sorted({*values, *((-1, -2, -3, -7, int(dtype.min) + 1) if dtype.kind == "i" else ())})


def array(dtype: DType, values: Any) -> Any:
    return np.array(values, dtype.numpy)


@pytest.fixture(autouse=True)
def no_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_every_elementwise_operation_is_in_the_table() -> None:
    assert set(numpy_ops.OPS) == ELEMENTWISE


INT_BINARY: dict[str, Callable[[DType, int, int], int]] = {
    Op.ADD: lambda d, a, b: a + b,
    Op.SUB: lambda d, a, b: a - b,
    Op.MUL: lambda d, a, b: a * b,
    Op.IDIV: lambda d, a, b: a // b if b else 0,
    Op.MOD: lambda d, a, b: a % b if b else 0,
    Op.MAX: lambda d, a, b: max(a, b),
    Op.MIN: lambda d, a, b: min(a, b),
    Op.AND: lambda d, a, b: a & b,
    Op.OR: lambda d, a, b: a | b,
    Op.XOR: lambda d, a, b: a ^ b,
    Op.SHL: lambda d, a, b: a << b if 0 <= b < d.bits else 0,
    Op.SHR: lambda d, a, b: a >> b if 0 <= b < d.bits else -(a < 0),
    Op.POW: lambda d, a, b: pow(a, b, 1 << d.bits) if b >= 0 else (a ** (b & 1) if abs(a) == 1 else 0),
}


@pytest.mark.parametrize("dtype", INTS, ids=repr)
@pytest.mark.parametrize("op", INT_BINARY)
def test_integers_wrap_and_no_operand_traps(op: str, dtype: DType) -> None:
    pairs = list(itertools.product(edges(dtype), repeat=2))
    got = evaluate(op, dtype, [array(dtype, [p[k] for p in pairs]) for k in (0, 1)])
    assert got.dtype == dtype.numpy
    assert got.tolist() == [wrap(dtype, INT_BINARY[op](dtype, a, b)) for a, b in pairs]
    for divisor in edges(dtype):  # NumPy has a path of its own for one divisor
        column = evaluate(op, dtype, [array(dtype, edges(dtype)), array(dtype, [divisor])])
        assert column.tolist() == [wrap(dtype, INT_BINARY[op](dtype, a, divisor)) for a in edges(dtype)]


@pytest.mark.parametrize("dtype", INTS, ids=repr)
def test_unary_integers_wrap(dtype: DType) -> None:
    x = array(dtype, edges(dtype))
    expected: dict[str, Callable[[int], int]] = {
        Op.NEG: operator.neg, Op.ABS: abs, Op.NOT: operator.invert,
        Op.FLOOR: int, Op.CEIL: int, Op.TRUNC: int, Op.ROUND: int,
    }  # fmt: skip
    for op, function in expected.items():
        assert evaluate(op, dtype, [x]).tolist() == [wrap(dtype, function(v)) for v in edges(dtype)], op
    assert evaluate(Op.FMA, dtype, [x, x, x]).tolist() == [wrap(dtype, v * v + v) for v in edges(dtype)]


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, dtypes.bool_], ids=repr)
def test_comparisons_are_bool_and_false_beside_nan(dtype: DType) -> None:
    values: list[Any] = (
        [-INF, -1.0, 0.0, 1.5, INF, NAN] if dtype.is_float else edges(dtype) if dtype.is_int else [False, True]
    )
    pairs = list(itertools.product(values, repeat=2))
    a, b = (array(dtype, [p[k] for p in pairs]) for k in (0, 1))
    for op, function in {Op.LT: operator.lt, Op.LE: operator.le, Op.EQ: operator.eq, Op.NE: operator.ne}.items():
        got = evaluate(op, dtypes.bool_, [a, b])
        assert got.dtype == np.bool_
        assert got.tolist() == [function(x, y) for x, y in pairs]
    picked = evaluate(Op.WHERE, dtype, [a < b, a, b])
    assert picked.dtype == dtype.numpy
    assert np.array_equal(picked, array(dtype, [x if x < y else y for x, y in pairs]), equal_nan=dtype.is_float)


def test_logic_of_bools() -> None:
    a, b = array(dtypes.bool_, [0, 0, 1, 1]), array(dtypes.bool_, [0, 1, 0, 1])
    for op, expected in {Op.AND: [0, 0, 0, 1], Op.OR: [0, 1, 1, 1], Op.XOR: [0, 1, 1, 0]}.items():
        assert evaluate(op, dtypes.bool_, [a, b]).tolist() == expected
    assert evaluate(Op.NOT, dtypes.bool_, [a]).tolist() == [True, True, False, False]


@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
def test_float_arithmetic_follows_ieee(dtype: DType) -> None:
    values = [-INF, -2.5, -1.0, -0.0, 0.0, 0.1, 1.0, 3.0, INF, NAN]
    pairs = list(itertools.product(array(dtype, values).tolist(), repeat=2))
    a, b = (array(dtype, [p[k] for p in pairs]) for k in (0, 1))

    def close(op: str, function: Callable[[float, float], float]) -> None:
        got = evaluate(op, dtype, [a, b])
        assert got.dtype == dtype.numpy
        assert np.array_equal(got, array(dtype, [function(x, y) for x, y in pairs]), equal_nan=True), op

    def divide(x: float, y: float) -> float:
        if y == 0:
            return NAN if x == 0 or math.isnan(x) else math.copysign(INF, x) * math.copysign(1, y)
        return x / y

    close(Op.ADD, operator.add)
    close(Op.SUB, operator.sub)
    close(Op.MUL, operator.mul)
    close(Op.DIV, divide)
    close(Op.MAX, lambda x, y: NAN if x != x or y != y else max(x, y))
    close(Op.MIN, lambda x, y: NAN if x != x or y != y else min(x, y))


@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
def test_rounding_takes_halves_to_even_and_floats_divide_with_the_floor(dtype: DType) -> None:
    values = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.75, -2.75]
    x = array(dtype, values)
    whole: dict[str, Callable[[float], int]] = {
        Op.FLOOR: math.floor, Op.CEIL: math.ceil, Op.TRUNC: math.trunc, Op.ROUND: round
    }  # fmt: skip
    for op, function in whole.items():
        assert evaluate(op, dtype, [x]).tolist() == [function(v) for v in values], op
    two = array(dtype, [2.0])
    assert evaluate(Op.IDIV, dtype, [x, two]).tolist() == [v // 2 for v in values]
    assert evaluate(Op.MOD, dtype, [x, two]).tolist() == [v % 2 for v in values]
    assert evaluate(Op.MOD, dtype, [x, -two]).tolist() == [v % -2 for v in values]
    assert evaluate(Op.ABS, dtype, [x]).tolist() == [abs(v) for v in values]
    assert evaluate(Op.NEG, dtype, [x]).tolist() == [-v for v in values]


def test_fma_of_float32_rounds_once() -> None:
    rng = np.random.default_rng(1)
    a, b, c = (rng.normal(size=1000).astype(np.float32) for _ in range(3))
    got = evaluate(Op.FMA, dtypes.float32, [a, b, -a * b + np.float32(1e-8) * c])
    exact = [
        Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        for x, y, z in zip(a, b, -a * b + np.float32(1e-8) * c)
    ]
    assert np.array_equal(got, np.array([float(e) for e in exact], np.float32))


@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
def test_transcendentals_are_float64_rounded(dtype: DType) -> None:
    x = array(dtype, np.linspace(0.05, 0.95, 37))
    unary: dict[str, Callable[[float], float]] = {
        Op.SQRT: math.sqrt, Op.EXP: math.exp, Op.EXP2: math.exp2, Op.LOG: math.log, Op.LOG2: math.log2,
        Op.SIN: math.sin, Op.COS: math.cos, Op.TAN: math.tan,
        Op.ASIN: math.asin, Op.ACOS: math.acos, Op.ATAN: math.atan,
    }  # fmt: skip
    for op, function in unary.items():
        got = evaluate(op, dtype, [x])
        assert got.dtype == dtype.numpy
        expected = array(dtype, [function(v) for v in x.tolist()])
        assert np.allclose(got, expected, rtol=float(np.finfo(dtype.numpy).eps), atol=0), op
    for op, two in {Op.POW: math.pow, Op.ATAN2: math.atan2}.items():
        got = evaluate(op, dtype, [x, x[::-1]])
        expected = array(dtype, [two(v, w) for v, w in zip(x.tolist(), x[::-1].tolist())])
        assert np.allclose(got, expected, rtol=float(np.finfo(dtype.numpy).eps), atol=0), op
    assert np.isnan(evaluate(Op.LOG, dtype, [array(dtype, [-1.0])])[0])
    assert evaluate(Op.LOG, dtype, [array(dtype, [0.0])])[0] == -INF


@pytest.mark.parametrize("source", FLOATS, ids=repr)
@pytest.mark.parametrize("target", INTS, ids=repr)
def test_floats_cast_to_integers_truncate_and_saturate(source: DType, target: DType) -> None:
    powers = [s * m * 2.0**n for s in (1, -1) for n in (7, 8, 15, 16, 31, 32, 63, 64, 70) for m in (0.999, 1.0, 1.001)]
    with np.errstate(all="ignore"):
        x = array(source, [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, INF, -INF, NAN, source.max, source.min, *powers])
    got = evaluate(Op.CAST, target, [x])
    assert got.dtype == target.numpy

    def expected(value: float) -> int:
        if math.isnan(value):
            return 0
        limits = int(target.min), int(target.max)
        return limits[value > 0] if math.isinf(value) else max(limits[0], min(limits[1], math.trunc(value)))

    assert got.tolist() == [expected(v) for v in x.tolist()]


def test_other_casts() -> None:
    for source, target in itertools.product(INTS, repeat=2):
        got = evaluate(Op.CAST, target, [array(source, edges(source))])
        assert got.dtype == target.numpy
        assert got.tolist() == [wrap(target, v) for v in edges(source)]
    assert evaluate(Op.CAST, dtypes.bool_, [array(dtypes.float32, [0, -0.0, 0.1, NAN])]).tolist() == [
        False,
        False,
        True,
        True,
    ]
    assert evaluate(Op.CAST, dtypes.bool_, [array(dtypes.int8, [0, -1, 2])]).tolist() == [False, True, True]
    for target in (*INTS, *FLOATS):
        assert evaluate(Op.CAST, target, [array(dtypes.bool_, [0, 1])]).tolist() == [0, 1]
    assert evaluate(Op.CAST, dtypes.float32, [array(dtypes.int32, [16777217, -3])]).tolist() == [16777216.0, -3.0]
    assert evaluate(Op.CAST, dtypes.float16, [array(dtypes.float64, [1e9, 0.1])]).tolist() == [
        INF,
        float(np.float16(0.1)),
    ]


def test_bitcast_keeps_bits_and_refuses_other_sizes() -> None:
    values = [1.0, -0.0, 3.5]
    got = evaluate(Op.BITCAST, dtypes.uint32, [array(dtypes.float32, values)])
    assert got.tolist() == [struct.unpack("<I", struct.pack("<f", v))[0] for v in values]
    assert evaluate(Op.BITCAST, dtypes.float32, [got]).tolist() == values
    with pytest.raises(TypeError, match="bitcast from float32 to int64: the sizes differ"):
        evaluate(Op.BITCAST, dtypes.int64, [array(dtypes.float32, values)])


def test_zero_dimensional_operands_give_arrays_of_the_type() -> None:
    got = evaluate(Op.ADD, dtypes.int8, [np.array(127, np.int8), np.array(1, np.int8)])
    assert isinstance(got, np.ndarray)
    assert got.dtype == np.int8
    assert got.tolist() == -128
