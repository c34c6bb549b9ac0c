"""Transcendental functions as arithmetic.

LLVM has no vector form of sin, exp or pow: `llvm.sin.v16f32` becomes sixteen calls of libm. `expand` turns such a node
into additions, multiplications and bit operations: no branch, no table, integers of 32 bits only, so that the graph is
as good on a SIMD vector as on a scalar. Every function goes the same way: reduce the argument to a short interval,
evaluate a polynomial there, undo the reduction. The methods are those of Cody and Waite (Software Manual for the
Elementary Functions, 1980) and of the Cephes library. The coefficients are our own minimax fits (least squares on
Chebyshev points, reweighted towards the largest error, each coefficient rounded to float32 before the next ones are
fitted).

The results are as good whether or not the target contracts a*b + c into one rounding: no step needs the rounding error
of a product, and where a product must be exact its factors are short (`n * HALF_PI[0]`, halves cut by a bit mask).
What is needed: float additions keep their order, (x + MAGIC) - MAGIC above all. That rounds x to an integer, which
then stands in the low bits of the sum and spares a conversion that would have to saturate. int32 wraps, and shifts
right with its sign.

float16 goes through float32. float64 nodes come back as they are: no hot path uses them, and libm has them.

Largest error in units in the last place of float32, against float64 NumPy, without and with contraction; operations
are counted without constants and bitcasts. In millions of samples, at the domain's edges and near the zeros:

    function  domain                    separate  fused  operations
    exp       all                           0.99   1.00          29
    exp2      all                           1.06   0.86          25
    log       all                           0.87   0.86          40
    log2      all                           1.28   0.98          38
    sin, cos  |x| <= 30                     1.50   1.49          39
    tan       |x| <= 30                     2.68   2.66          33
    asin      all                           2.37   2.35          24
    acos      all                           1.26   1.26          25
    atan      all                           2.17   1.99          26
    atan2     all                           2.18   1.87          35
    pow       |y log2 x| <= 64              1.22   1.00         130
    pow       all                           1.61   1.41         130
    pow       y = 1/2.2                     1.42   1.25          57
    pow       y = 2.4                       2.14   1.94          74

sin and cos of the same argument share the reduction and both polynomials: 44 operations together. Up to |x| = 1e5
their absolute error is below 1.2e-7; beyond, it grows with that of the reduction, and they stay in [-1, 1]. exp2 is
exact for integers, log2 for powers of two. Results and arguments may be denormal, if the target keeps denormals.

Edge cases (zeros, infinities, NaN, signs of zeros) are NumPy's, except that pow with the constant exponents 0.5 and
-0.5 is sqrt and its reciprocal: NaN for -inf, and the sign of -0 stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from engine.graph.dtypes import DType, bool_, float16, float32, int32
from engine.graph.uop import COMPARE, TRANSCENDENTAL, Op, UOp

INF, NAN = math.inf, math.nan
SIGN = -0x80000000  # the sign bit
HIGH_HALF = -0x1000  # keeps 12 of the 24 bits of a significand: products of two such halves are exact
MAGIC = 1.5 * 2.0**23  # x + MAGIC has no bits below 1: x rounded to nearest even, for |x| < 2^22
SCALE_MAGIC = MAGIC + 254.0  # the same, leaving n + 2 * 127 in the low bits, from which _scale makes 2^n
SQRT_HALF_BITS = 0x3F3504F3

LOG2_E = 1.4426950408889634
LOG2_E_HIGH, LOG2_E_LOW = 1.4423828125, 3.1222838896341e-04  # 12 bits, and the rest
LN2_HIGH, LN2_LOW = 0.693359375, -2.1219444005469057e-4  # 9 bits, and the rest: n * LN2_HIGH is exact
LOG2_5_4 = (0.3218994140625, 2.8680824862347863e-05)  # log2(5/4): 12 bits, and the rest
LOG2_3_4 = (-0.4149169921875, -0.00012050709134381855)  # log2(3/4), likewise
HALF_PI = (1.5703125, 0.0004825592041015625, 1.2675882317125797e-06, 2.5633440682570896e-12)  # 8, 8, 19 and 24 bits

# Coefficients, lowest order first. The comment gives the function of which they are the fit, on the reduced interval.
EXP = (0.49999994, 0.166665196, 0.0416682884, 0.0083688926, 0.00138193916)  # (exp(r) - 1 - r) / r^2
EXP2 = (0.693147182, 0.240226477, 0.0555035882, 0.00961850118, 0.00133914314, 0.000153292334)  # (2^r - 1) / r
LOG = (
    -0.5, 0.333333313, -0.250008196, 0.200012416, -0.166234091, 0.142015815, -0.131596133, 0.127621979, -0.076363951,
)  # (log(1 + f) - f) / f^2  # fmt: skip
LOG_TAIL = (
    0.333333522, -0.250000387, 0.199945018, -0.166580379, 0.14739415, -0.130458131,
)  # (log(1 + f) - f + f^2 / 2) / f^3, |f| < 0.146  # fmt: skip
LOG2 = (
    0.442695051, -0.721347511, 0.480896562, -0.360682935, 0.288616568, -0.239940181, 0.204178467, -0.188370883,
    0.186824515, -0.116102561,
)  # log2(1 + f) / f - 1  # fmt: skip
LOG2_SHORT = (
    0.442694962, -0.721352816, 0.480923206, -0.360238343, 0.287100106, -0.248893693, 0.234032348, -0.145743832,
)  # likewise: 2^-22.5 of the logarithm, enough below an exponent  # fmt: skip
SIN = (-0.166666538, 0.00833210628, -0.000195078741)  # (sin(r) / r - 1) / r^2, in r^2, |r| < pi/4
COS = (-0.5, 0.0416666456, -0.00138873083, 2.44321091e-05)  # (cos(r) - 1) / r^2, in r^2, |r| < pi/4
TAN = (
    0.333331555, 0.133388445, 0.0534070358, 0.0244465694, 0.00309197837, 0.00940270629,
)  # (tan(r) / r - 1) / r^2, in r^2, |r| < pi/4  # fmt: skip
ASIN = (0.166667521, 0.0749530941, 0.0454691499, 0.0241847783, 0.0421583056)  # likewise for asin, |r| < 1/2
ATAN = (
    -0.333331525, 0.199937671, -0.142110035, 0.106657855, -0.0755172372, 0.0432058573, -0.016364133, 0.00291972281,
)  # likewise for atan, |r| < 1  # fmt: skip


def expand(node: UOp) -> UOp:
    """The value of one transcendental node as a graph of basic operations on the node's sources.

    The result has the node's type, vectors too (power 0 of a vector included). A float64 node is returned unchanged.
    Raises ValueError for a node that is not transcendental.
    """
    if node.op not in TRANSCENDENTAL or not isinstance(node.dtype, DType):
        raise ValueError(f"not a transcendental node: {node!r}; expand takes {', '.join(sorted(TRANSCENDENTAL))}")
    if node.dtype.scalar is float16:
        wide = tuple(Value(UOp.const(float32, s.arg)) if s.is_const else Value(s).cast(float32) for s in node.src)
        return _expand32(node.op, wide).cast(float16).node
    if node.dtype.scalar is not float32:
        return node
    return _expand32(node.op, tuple(Value(s) for s in node.src)).node


def _expand32(op: str, sources: Sequence[Value]) -> Value:
    return _BINARY[op](sources[0], sources[1]) if op in _BINARY else _UNARY[op](sources[0])


class Value:
    """A node with Python's operators, so that the formulas below read as such. Numbers become constants of its type."""

    __slots__ = ("node",)

    def __init__(self, node: UOp) -> None:
        self.node = node

    def __add__(self, other: Value | float) -> Value:
        return _apply(Op.ADD, self, other)

    def __sub__(self, other: Value | float) -> Value:
        return _apply(Op.SUB, self, other)

    def __rsub__(self, other: float) -> Value:
        return _apply(Op.SUB, other, self)

    def __mul__(self, other: Value | float) -> Value:
        return _apply(Op.MUL, self, other)

    def __truediv__(self, other: Value | float) -> Value:
        return _apply(Op.DIV, self, other)

    def __rtruediv__(self, other: float) -> Value:
        return _apply(Op.DIV, other, self)

    def __and__(self, other: Value | int) -> Value:
        return _apply(Op.AND, self, other)

    def __or__(self, other: Value | int) -> Value:
        return _apply(Op.OR, self, other)

    def __xor__(self, other: Value | int) -> Value:
        return _apply(Op.XOR, self, other)

    def __lshift__(self, other: int) -> Value:
        return _apply(Op.SHL, self, other)

    def __rshift__(self, other: int) -> Value:
        return _apply(Op.SHR, self, other)

    def __lt__(self, other: Value | float) -> Value:
        return _apply(Op.LT, self, other)

    def __le__(self, other: Value | float) -> Value:
        return _apply(Op.LE, self, other)

    def __gt__(self, other: Value | float) -> Value:
        return _apply(Op.LT, other, self)

    def __ge__(self, other: Value | float) -> Value:
        return _apply(Op.LE, other, self)

    def equals(self, other: Value | float) -> Value:
        return _apply(Op.EQ, self, other)

    def differs(self, other: Value | float) -> Value:
        return _apply(Op.NE, self, other)

    def __abs__(self) -> Value:
        return _apply(Op.ABS, self)

    def floor(self) -> Value:
        return _apply(Op.FLOOR, self)

    def sqrt(self) -> Value:
        return _apply(Op.SQRT, self)

    def cast(self, scalar: DType) -> Value:
        return Value(UOp.new(Op.CAST, scalar.vec(self.node.dtype.count), (self.node,)))

    def bits(self) -> Value:
        return Value(UOp.new(Op.BITCAST, int32.vec(self.node.dtype.count), (self.node,)))

    def as_float(self) -> Value:
        return Value(UOp.new(Op.BITCAST, float32.vec(self.node.dtype.count), (self.node,)))


def _apply(op: str, *operands: Value | float) -> Value:
    """One operation; its numbers take the scalar type of its first value, its count is the largest of the sources'."""
    scalar = next(o.node.dtype.scalar for o in operands if isinstance(o, Value))
    nodes = tuple(o.node if isinstance(o, Value) else UOp.const(scalar, o) for o in operands)
    count = max(n.dtype.count for n in nodes)
    return Value(UOp.new(op, (bool_ if op in COMPARE else scalar).vec(count), nodes))


def _where(condition: Value, then: Value | float, otherwise: Value | float, scalar: DType = float32) -> Value:
    nodes = tuple(o.node if isinstance(o, Value) else UOp.const(scalar, o) for o in (then, otherwise))
    count = max(n.dtype.count for n in (condition.node, *nodes))
    return Value(UOp.new(Op.WHERE, scalar.vec(count), (condition.node, *nodes)))


def _polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Horner's scheme."""
    result = x * coefficients[-1] + coefficients[-2]
    for coefficient in reversed(coefficients[:-2]):
        result = result * x + coefficient
    return result


def _with_sign(magnitude: Value, sign: Value) -> Value:
    """A value that is not negative, with the sign bit of `sign`."""
    return (magnitude.bits() | (sign.bits() & SIGN)).as_float()


# ---- exponentials ----


def _clamp(x: Value, low: float, high: float) -> Value:
    """x within bounds; NaN stays NaN, which MIN and MAX do not promise on every target."""
    x = _where(x < low, low, x)
    return _where(x > high, high, x)


def _scale(x: Value, biased: Value) -> Value:
    """x * 2^n, given n + 254 in the low bits. In two steps, so that 2^n may lie outside the range of normal numbers."""
    half = biased >> 1
    return x * (half << 23).as_float() * ((biased - half) << 23).as_float()


def _exp(x: Value) -> Value:
    x = _clamp(x, -104.0, 89.0)  # there exp is 0 and infinity
    shifted = x * LOG2_E + SCALE_MAGIC
    n = shifted - SCALE_MAGIC
    r = x - n * LN2_HIGH - n * LN2_LOW
    return _scale(r * r * _polynomial(r, EXP) + r + 1.0, shifted.bits())


def _exp2(x: Value) -> Value:
    x = _clamp(x, -151.0, 129.0)
    shifted = x + SCALE_MAGIC
    r = x - (shifted - SCALE_MAGIC)
    return _scale(r * _polynomial(r, EXP2) + 1.0, shifted.bits())


# ---- logarithms ----


def _exponent_and_fraction(x: Value) -> tuple[Value, Value]:
    """e (a float32) and f with x = 2^e (1 + f), 1 + f from sqrt(1/2) to sqrt(2), for finite x > 0, denormals too."""
    tiny = x < 2.0**-126
    bits = _where(tiny, x * 2.0**23, x).bits()
    e = (bits - SQRT_HALF_BITS) >> 23
    f = (bits - (e << 23)).as_float() - 1.0
    return e.cast(float32) - _where(tiny, 23.0, 0.0), f


def _log_edges(x: Value, result: Value) -> Value:
    """The logarithm of every x, given its value for finite x > 0."""
    result = _where(x < INF, result, x)
    return _where(x > 0.0, result, _where(x.equals(0.0), -INF, NAN))


def _log(x: Value) -> Value:
    e, f = _exponent_and_fraction(x)
    return _log_edges(x, f + (f * f * _polynomial(f, LOG) + e * LN2_LOW) + e * LN2_HIGH)


def _log2(x: Value) -> Value:
    e, fraction = _exponent_and_log2(x, LOG2)
    return _log_edges(x, e + fraction)


# ---- powers: 2^(y log2 x) ----

ROOT = 0.84  # |y log2 x| stays below 126 for |y| up to here, whatever x
PLAIN = 4.0  # for a constant |y| up to here the logarithm need not be wider than float32
SATURATED = 152.0  # from here on 2^z is infinity, and 2^-z is 0


def _pow(x: Value, y: Value) -> Value:
    if y.node.is_const and math.isfinite(y.node.arg):
        return _pow_constant(x, float(y.node.arg))
    missing = abs(x) + abs(y)  # NaN if x or y is
    y = _clamp(y, -(2.0**31), 2.0**31)  # an even number: what holds for infinity holds for it
    high, half, floor = _high_half(y), y * 0.5, y.floor()
    whole = floor.equals(y)
    odd = whole & half.floor().differs(half)
    power, z = _exp2_product(_log2_pair(abs(x)), (y, high, y - high))
    result = _pow_edges(x, _scale(*power), z, (abs(x) < 1.0) ^ (y < 0.0))
    result = (result.bits() ^ _where(odd, x.bits() & SIGN, 0, int32)).as_float()
    undefined = (x < 0.0) & (x > -INF) & floor.differs(y)
    result = _where(undefined | missing.differs(missing), NAN, result)
    return _where(x.equals(1.0) | y.equals(0.0), 1.0, result)


def _pow_constant(x: Value, y: float) -> Value:
    if y == 0.0:
        return _where(x.equals(x), 1.0, 1.0) if x.node.dtype.count > 1 else Value(UOp.const(float32, 1.0))
    if y in _SHORT_POWERS:
        return _SHORT_POWERS[y](x)
    size = abs(x)
    mantissa, exponent = math.frexp(y)
    high = math.ldexp(math.trunc(mantissa * 4096), exponent - 12)
    factor = (y, high, y - high)
    if abs(y) <= ROOT:
        (power, biased), _ = _exp2_product(_exponent_and_log2(size, LOG2_SHORT), factor, MAGIC + 127.0)
        result = _where(x < 0.0, NAN, power * (biased << 23).as_float())
        return _where((size > 0.0) & (size < INF), result, size if y > 0.0 else 1.0 / size)
    scaled, z = _exp2_product(_exponent_and_log2(size, LOG2) if abs(y) <= PLAIN else _log2_pair(size), factor)
    small = size < 1.0 if y > 0.0 else size >= 1.0
    result = _pow_edges(x, _scale(*scaled), z, small)
    if y % 2.0 == 1.0:
        result = (result.bits() ^ (x.bits() & SIGN)).as_float()
    missing = x.differs(x)
    if not y.is_integer():
        missing = missing | ((x < 0.0) & (x > -INF))
    return _where(missing, NAN, result)


def _pow_edges(x: Value, result: Value, z: Value, vanishes: Value) -> Value:
    """|x|^y = 2^z, given its value within the range; beyond it, and for zeros and infinities, 0 or infinity."""
    saturated = (abs(z) >= SATURATED) | x.equals(0.0) | abs(x).equals(INF)
    return _where(saturated, _where(vanishes, 0.0, INF), result)


def _exp2_product(
    logarithm: tuple[Value, Value],
    factor: tuple[Value, Value, Value] | tuple[float, float, float],
    magic: float = SCALE_MAGIC,
) -> tuple[tuple[Value, Value], Value]:
    """2^(l y) as (p, bits of n + magic) with l y = z and 2^z = p 2^n; and z. `l` is (high, low), `y` is (y, high, low).

    The product of the high parts is exact, so that r = z - n has an absolute error like that of a number below 1.
    """
    high, low = logarithm
    y, y_high, y_low = factor
    head = high * y_high
    rest = high * y_low + low * y
    z = head + rest
    shifted = z + magic
    r = (head - (shifted - magic)) + rest
    return (r * _polynomial(r, EXP2) + 1.0, shifted.bits()), z


def _exponent_and_log2(x: Value, coefficients: Sequence[float]) -> tuple[Value, Value]:
    """log2(x) as the sum of an integer and a number between -1/2 and 1/2, for finite x > 0."""
    e, f = _exponent_and_fraction(x)
    return e, f + f * _polynomial(f, coefficients)


def _log2_pair(x: Value) -> tuple[Value, Value]:
    """log2(x), for finite x > 0, as the sum of a number of 12 bits and a small one, with a relative error near 2^-29.

    1 + f is brought closer to 1 by a factor 1 - a of 5/4, 1 or 3/4: exactly, as f - a and a f are exact. Then
    log(1 + f) = f - f^2/2 + f^3 p(f); with f = h + l, h of 12 bits, f^2 = h^2 + l (f + h), where h^2 is exact.
    """
    e, f = _exponent_and_fraction(x)
    below, above = f < -0.12, f > 0.14
    a = _where(below, -0.25, _where(above, 0.25, 0.0))
    base = e - _where(below, LOG2_5_4[0], _where(above, LOG2_3_4[0], 0.0))
    base_low = _where(below, LOG2_5_4[1], _where(above, LOG2_3_4[1], 0.0))
    f = (f - a) - f * a
    h = _high_half(f)
    half_square = h * h * 0.5
    total = f - half_square
    rest = ((f - total) - half_square) + (f * f * f * _polynomial(f, LOG_TAIL) - (f - h) * (f + h) * 0.5)
    log_high = _high_half(total + rest)
    log_low = (total - log_high) + rest
    product = log_high * LOG2_E_HIGH
    high = _high_half(base + product)
    return high, ((base - high) + product) + ((log_high * LOG2_E_LOW + log_low * LOG2_E) - base_low)


def _high_half(x: Value) -> Value:
    return (x.bits() & HIGH_HALF).as_float()


def _square(x: Value) -> Value:
    return x * x


_SHORT_POWERS: dict[float, Callable[[Value], Value]] = {
    -2.0: lambda x: _square(1.0 / x),
    -1.0: lambda x: 1.0 / x,
    -0.5: lambda x: 1.0 / x.sqrt(),
    0.5: Value.sqrt,
    1.0: lambda x: x,
    2.0: _square,
    3.0: lambda x: _square(x) * x,
    4.0: lambda x: _square(_square(x)),
    5.0: lambda x: _square(_square(x)) * x,
}


# ---- trigonometric functions ----


def _reduce(x: Value) -> tuple[Value, Value]:
    """r = x - n pi/2, and bits whose low ones are those of n. Far out, where the remainder is not small, r is 0."""
    shifted = x * (2.0 / math.pi) + MAGIC
    n = shifted - MAGIC
    r = x
    for part in HALF_PI:
        r = r - n * part
    return _where(abs(r) < 1.0, r, r * 0.0), shifted.bits()


def _odd_polynomial(r: Value, coefficients: Sequence[float]) -> Value:
    """r + r^3 p(r^2)."""
    square = r * r
    return r + square * r * _polynomial(square, coefficients)


def _sin_and_cos(x: Value) -> tuple[Value, Value, Value, Value]:
    """sin(r) and cos(r) for |x| = r + n pi/2, whether n is odd, the bits of n. sin(x) and cos(x) share these nodes."""
    r, quadrant = _reduce(abs(x))
    square = r * r
    return _odd_polynomial(r, SIN), square * _polynomial(square, COS) + 1.0, (quadrant & 1).differs(0), quadrant


def _sin(x: Value) -> Value:
    sin, cos, odd, quadrant = _sin_and_cos(x)
    return (_where(odd, cos, sin).bits() ^ (((quadrant << 30) ^ x.bits()) & SIGN)).as_float()


def _cos(x: Value) -> Value:
    sin, cos, odd, quadrant = _sin_and_cos(x)
    return (_where(odd, sin, cos).bits() ^ (((quadrant + 1) << 30) & SIGN)).as_float()


def _tan(x: Value) -> Value:
    r, quadrant = _reduce(x)
    result = _odd_polynomial(r, TAN)
    return _where((quadrant & 1).differs(0), -1.0 / result, result)


# ---- their inverses ----


def _asin_parts(x: Value, near_zero: Value) -> tuple[Value, Value]:
    """Whether |x| > 1/2; and asin(near_zero), or there asin(sqrt((1 - |x|) / 2)), half of what is left to pi/2."""
    size = abs(x)
    large = size > 0.5
    square = _where(large, (1.0 - size) * 0.5, x * x)
    s = _where(large, square.sqrt(), near_zero)
    return large, s + s * square * _polynomial(square, ASIN)


def _asin(x: Value) -> Value:
    large, angle = _asin_parts(x, abs(x))
    return _with_sign(_where(large, math.pi / 2 - angle * 2.0, angle), x)


def _acos(x: Value) -> Value:
    large, angle = _asin_parts(x, x)
    double = angle * 2.0
    return _where(large, _where(x < 0.0, math.pi - double, double), math.pi / 2 - angle)


def _atan(x: Value) -> Value:
    size = abs(x)
    steep = size > 1.0
    angle = _odd_polynomial(_where(steep, 1.0 / size, size), ATAN)
    return _with_sign(_where(steep, math.pi / 2 - angle, angle), x)


def _atan2(y: Value, x: Value) -> Value:
    width, height = abs(x), abs(y)
    steep = width < height
    short, long = _where(steep, width, height), _where(steep, height, width)
    # of equal lengths both may be 0 (the angle is 0) or infinite (it is pi/4)
    slope = _where(short.equals(long), _where(long > 0.0, 1.0, 0.0), short / long)
    angle = _odd_polynomial(slope, ATAN)
    angle = _where(steep, math.pi / 2 - angle, angle)
    angle = _where(x.bits() < 0, math.pi - angle, angle)
    return _with_sign(angle, y)


_UNARY: dict[str, Callable[[Value], Value]] = {
    Op.EXP: _exp,
    Op.EXP2: _exp2,
    Op.LOG: _log,
    Op.LOG2: _log2,
    Op.SIN: _sin,
    Op.COS: _cos,
    Op.TAN: _tan,
    Op.ASIN: _asin,
    Op.ACOS: _acos,
    Op.ATAN: _atan,
}
_BINARY: dict[str, Callable[[Value, Value], Value]] = {Op.POW: _pow, Op.ATAN2: _atan2}
