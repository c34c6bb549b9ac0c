"""What every elementwise operation means, said once, in NumPy.

The interpreter and the eager evaluator both compute with this table, so it is the definition that emitters are
tested against. Three rules shape it. The result has exactly the type of the node. Every operation is total: whatever
the bits of its operands, it has one stated result and never traps. And where NumPy leaves a choice, the choice is
written here:

- integers wrap; `idiv` and `mod` take the floor, as Python does; by zero they give 0; the least integer over -1 wraps;
- a shift count outside [0, bits) shifts everything out: 0, or the sign for `shr` of a signed type;
- `max` and `min` propagate NaN; `round` takes halves to even;
- a float cast to an integer is truncated, then saturates; NaN becomes 0; integers cast to narrower ones wrap;
- an integer to a negative power is 0, save for the bases 1 and -1;
- transcendentals are computed in float64 and rounded to the type: the best oracle at hand for a polynomial;
- `fma` is computed in float64 and rounded to the type. For float32 the product is exact and the sum is rounded
  twice, which differs from a fused operation in the last bit about once in 2^29; float64 is computed in fractions,
  exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.graph.dtypes import DType
from engine.graph.uop import Op

Array = NDArray[Any]
Function = Callable[..., Any]  # (result type, operand, ...) -> array or NumPy scalar


def _plain(function: Function) -> Function:
    """A NumPy function whose own result already has the type of its operands (or is bool)."""
    return lambda dtype, *operands: function(*operands)


def _float_only(function: Function) -> Function:
    """A rounding function: integers and bools are whole already."""
    return lambda dtype, x: function(x) if dtype.is_float else x


def _in_float64(function: Function) -> Function:
    """A function computed in float64; `evaluate` rounds the result to the type of the node."""
    return lambda dtype, *operands: function(*(x.astype(np.float64) for x in operands))


def _idiv(dtype: DType, a: Array, b: Array) -> Any:
    if dtype.is_float:
        return np.floor_divide(a, b)
    zero = b == 0
    return np.where(zero, dtype.numpy.type(0), np.floor_divide(a, np.where(zero, dtype.numpy.type(1), b)))


def _mod(dtype: DType, a: Array, b: Array) -> Any:
    if dtype.is_float:
        return np.remainder(a, b)
    zero = b == 0
    return np.where(zero, dtype.numpy.type(0), np.remainder(a, np.where(zero, dtype.numpy.type(1), b)))


def _shl(dtype: DType, x: Array, count: Array) -> Any:
    inside = (count >= 0) & (count < dtype.bits)
    return np.where(inside, np.left_shift(x, np.where(inside, count, 0).astype(dtype.numpy)), dtype.numpy.type(0))


def _shr(dtype: DType, x: Array, count: Array) -> Any:
    inside = (count >= 0) & (count < dtype.bits)
    shifted = np.right_shift(x, np.where(inside, count, 0).astype(dtype.numpy))
    if dtype.kind == "u":
        return np.where(inside, shifted, dtype.numpy.type(0))
    return np.where(inside, shifted, np.right_shift(x, dtype.numpy.type(dtype.bits - 1)))


def _pow(dtype: DType, a: Array, b: Array) -> Any:
    if dtype.is_float:
        return np.power(a.astype(np.float64), b.astype(np.float64))
    one, zero = dtype.numpy.type(1), dtype.numpy.type(0)
    if dtype.kind == "u":
        return np.power(a, b)
    power = np.power(a, np.where(b < 0, zero, b))
    unit = np.where(b & one, a, one)  # 1 or -1 to any power
    return np.where(b >= 0, power, np.where((a == one) | (a == -one), unit, zero))


def _exact_fma(a: float, b: float, c: float) -> float:
    """a * b + c of float64, rounded once."""
    plain = a * b + c
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return plain
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(exact) if exact else plain  # a zero has the sign that plain arithmetic gives it
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _fma(dtype: DType, a: Array, b: Array, c: Array) -> Any:
    if dtype.is_float and dtype.bits == 64:
        return np.asarray(np.frompyfunc(_exact_fma, 3, 1)(a, b, c), np.float64)
    if dtype.is_float:
        return a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    return a * b + c


def _cast(dtype: DType, x: Array) -> Any:
    if dtype.is_bool:
        return x != 0
    if x.dtype.kind != "f" or dtype.is_float:
        return x.astype(dtype.numpy)
    whole = np.trunc(x.astype(np.float64))
    above = 2.0 ** (dtype.bits - (dtype.kind == "i"))  # the first power of two that does not fit
    below = -above if dtype.kind == "i" else 0.0
    inside = (whole >= below) & (whole < above)
    least, greatest, zero = (dtype.numpy.type(n) for n in (dtype.min, dtype.max, 0))
    limit = np.where(whole >= above, greatest, np.where(whole < below, least, zero))  # zero for NaN
    return np.where(inside, np.where(inside, whole, 0).astype(dtype.numpy), limit)


def _bitcast(dtype: DType, x: Array) -> Any:
    if x.dtype.itemsize != dtype.itemsize:
        raise TypeError(f"bitcast from {x.dtype.name} to {dtype.scalar}: the sizes differ")
    return x.view(dtype.numpy)


OPS: dict[str, Function] = {
    Op.ADD: _plain(np.add),
    Op.SUB: _plain(np.subtract),
    Op.MUL: _plain(np.multiply),
    Op.DIV: _plain(np.true_divide),
    Op.IDIV: _idiv,
    Op.MOD: _mod,
    Op.NEG: _plain(np.negative),
    Op.ABS: _plain(np.abs),
    Op.MAX: _plain(np.maximum),
    Op.MIN: _plain(np.minimum),
    Op.FMA: _fma,
    Op.LT: _plain(np.less),
    Op.LE: _plain(np.less_equal),
    Op.EQ: _plain(np.equal),
    Op.NE: _plain(np.not_equal),
    Op.AND: _plain(np.bitwise_and),
    Op.OR: _plain(np.bitwise_or),
    Op.XOR: _plain(np.bitwise_xor),
    Op.NOT: _plain(np.invert),
    Op.SHL: _shl,
    Op.SHR: _shr,
    Op.WHERE: _plain(np.where),
    Op.SQRT: _plain(np.sqrt),
    Op.FLOOR: _float_only(np.floor),
    Op.CEIL: _float_only(np.ceil),
    Op.TRUNC: _float_only(np.trunc),
    Op.ROUND: _float_only(np.rint),
    Op.EXP: _in_float64(np.exp),
    Op.EXP2: _in_float64(np.exp2),
    Op.LOG: _in_float64(np.log),
    Op.LOG2: _in_float64(np.log2),
    Op.POW: _pow,
    Op.SIN: _in_float64(np.sin),
    Op.COS: _in_float64(np.cos),
    Op.TAN: _in_float64(np.tan),
    Op.ASIN: _in_float64(np.arcsin),
    Op.ACOS: _in_float64(np.arccos),
    Op.ATAN: _in_float64(np.arctan),
    Op.ATAN2: _in_float64(np.arctan2),
    Op.CAST: _cast,
    Op.BITCAST: _bitcast,
}


def evaluate(op: str, dtype: DType, operands: Sequence[Array]) -> Array:
    """The result of an elementwise operation on arrays that broadcast against each other.

    `dtype` is the type of the node, which the result has; operands have the types the graph gives them. No warning is
    raised whatever the values. Raises TypeError for a bitcast between sizes, and where NumPy has no such operation
    (`sub` of bools).
    """
    with np.errstate(all="ignore"):
        return np.asarray(OPS[op](dtype, *operands), dtype=dtype.numpy)
