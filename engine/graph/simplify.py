"""The rules of simplification: constants, algebra, index arithmetic.

They hold exactly, for every value: integers wrap, nothing assumes that a float is finite or that -0 equals 0 (save `max` and
`min`, whose choice between zeros of two signs is open). Divisions vanish where their answer is known, which takes two kinds of
knowledge. `bounds` derives the least and greatest value of an integer from its sources (a lane's coordinate lies in its axis, a
remainder below its divisor); a sum is taken apart only where `bounds` shows that nothing in it wraps. And where sizes are known
only when the kernel runs, an address `a * size + b` is one of an array that exists, so that it does not wrap either. Constants
stand on the right of commutative operations.

`NEEDED` is the part of the rules without which addresses could not be told apart; it is all that `NOOPT=1` leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.graph import numpy_ops
from engine.graph.dtypes import DType, bool_, int32
from engine.graph.rewrite import Pattern, Rule, Rules, const, pattern, var
from engine.graph.uop import BINARY, COMMUTATIVE, TERNARY, UNARY, Op, UOp

Bounds = tuple[int, int]
_FULL = (int(int32.min), int(int32.max))

# ---- bounds ----


def bounds(node: UOp) -> Bounds:
    """The least and greatest value of an integer node. Conservative; constant time once its sources are known."""
    known = node.range
    if known is not None:
        return known
    stack = [node]
    while stack:
        top = stack[-1]
        missing = [s for s in top.src if s.range is None and _integer(s)] if top.op in _TRACKED else []
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        low, high = _interval(top)
        full = _full(top)
        known = top.range = (low, high) if full[0] <= low and high <= full[1] else full
    assert known is not None
    return known  # the last one done is the node itself


def exact(node: UOp) -> bool:
    """True where the integer operation at the top of `node` cannot wrap, whatever its sources hold."""
    bounds(node)
    low, high = _interval(node)
    full = _full(node)
    return full[0] <= low and high <= full[1]


def _integer(node: UOp) -> bool:
    return isinstance(node.dtype, DType) and node.dtype.kind in "iub"


def _full(node: UOp) -> Bounds:
    return (int(node.dtype.min), int(node.dtype.max)) if _integer(node) else _FULL


_TRACKED = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.IDIV, Op.MOD, Op.MIN, Op.MAX, Op.WHERE, Op.AND, Op.SHR, Op.CAST})


def _interval(node: UOp) -> Bounds:
    """Where the value lies before it is wrapped; the range of the type where nothing is known."""
    full, op = _full(node), node.op
    if op == Op.CONST and _integer(node):
        return int(node.arg), int(node.arg)
    if op == Op.LANE:
        size = node.arg[1]
        return (0, max(0, size - 1)) if isinstance(size, int) else (0, full[1] - 1)
    if op == Op.DIM:
        return 1, full[1]
    if op == Op.IOTA:
        return 0, node.dtype.count - 1
    if op not in _TRACKED or not all(_integer(s) for s in node.src):
        return full
    known = [s.range or full for s in (node.src[1:] if op == Op.WHERE else node.src)]
    (a, b), (c, d) = known[0], known[-1]
    if op == Op.ADD:
        return a + c, b + d
    if op == Op.SUB:
        return a - d, b - c
    if op == Op.MUL:
        corners = (a * c, a * d, b * c, b * d)
        return min(corners), max(corners)
    if op == Op.IDIV and c > 0:
        corners = (a // c, a // d, b // c, b // d)
        return min(corners), max(corners)
    if op == Op.MOD and c > 0:
        return 0, min(d - 1, b) if a >= 0 else d - 1
    if op == Op.MIN:
        return min(a, c), min(b, d)
    if op == Op.MAX:
        return max(a, c), max(b, d)
    if op == Op.WHERE:
        return min(a, c), max(b, d)
    if op == Op.AND and (a >= 0 or c >= 0):
        return 0, min(high for low, high in known if low >= 0)
    if op == Op.SHR and a >= 0 and c >= 0 and d < 64:
        return a >> d, b >> c
    if op == Op.CAST:
        return a, b
    return full


# ---- what the rules ask and do ----


def _number(node: UOp, value: float | int | bool) -> UOp | None:
    """A constant in place of `node`; None for short vectors, which have no constants."""
    return UOp.const(node.dtype, value) if node.dtype.count == 1 else None


def _same(n: UOp, x: UOp) -> UOp | None:
    """The other source, if it has the type of the whole (a scalar beside a vector has not)."""
    return x if x.dtype is n.dtype else None


def _make(op: str, dtype: DType, *sources: UOp) -> UOp:
    return SIMPLIFY.simplify(UOp.new(op, dtype, sources))


def _fold(node: UOp) -> UOp | None:
    """An operation on constants is a constant."""
    values = [np.asarray(s.arg, s.dtype.numpy) for s in node.src]
    return UOp.const(node.dtype.scalar, numpy_ops.evaluate(node.op, node.dtype.scalar, values).item())


def _is(value: int) -> Any:
    return lambda node: node.arg == value


def _is_size(node: UOp) -> bool:
    """A size that is known when the kernel runs: at least 1, and of an array that exists."""
    return node.op == Op.DIM or (node.op in (Op.ADD, Op.MUL) and not node.scope and all(s.op == Op.CONST or _is_size(s) for s in node.src))


def _below(x: UOp, s: UOp) -> bool:
    """x is a coordinate along an axis of size s."""
    return (x.op == Op.LANE and x.arg[1] is s) or (x.op == Op.MOD and x.src[1] is s and (_is_size(s) or bounds(s)[0] >= 1))


def _multiple(x: UOp, c: UOp) -> UOp | None:
    """x / c where x is visibly a multiple of c that does not wrap."""
    if x.op == Op.MUL and x.src[1].op == Op.CONST and x.src[1].arg % c.arg == 0 and exact(x):
        return _make(Op.MUL, x.dtype, x.src[0], UOp.const(x.dtype.scalar, x.src[1].arg // c.arg))
    return None


def _divide(n: UOp, x: UOp, c: UOp) -> UOp | None:
    """x // c where the answer is known, or a part of x is a multiple of c."""
    if c.arg <= 0:
        return None
    low, high = bounds(x)
    if low // c.arg == high // c.arg:
        return _number(n, low // c.arg)
    if x.op == Op.ADD and exact(x):
        a, b = x.src
        for whole, rest in ((a, b), (b, a)):
            multiple = _multiple(whole, c)
            if multiple is not None:
                return _make(Op.ADD, n.dtype, multiple, _make(Op.IDIV, rest.dtype, rest, c))
    return _multiple(x, c)


def _remainder(n: UOp, x: UOp, c: UOp) -> UOp | None:
    """x % c where x is in [0, c), or a part of x is a multiple of c."""
    if c.arg <= 0:
        return None
    low, high = bounds(x)
    if low >= 0 and high < c.arg:
        return x
    if x.op == Op.ADD and exact(x):
        a, b = x.src
        for whole, rest in ((a, b), (b, a)):
            if rest.dtype is n.dtype and _multiple(whole, c) is not None:
                return _make(Op.MOD, n.dtype, rest, c)
    return _number(n, 0) if _multiple(x, c) is not None else None


def _parts(x: UOp, s: UOp) -> tuple[UOp, UOp] | None:
    """a and b of x = a * s + b, where b is a coordinate below the size s."""
    if x.op == Op.ADD and _is_size(s):
        for a, b in (x.src, x.src[::-1]):
            if a.op == Op.MUL and a.src[1] is s and _below(b, s):
                return a.src[0], b
    return None


def _divide_size(n: UOp, x: UOp, s: UOp) -> UOp | None:
    """(a * s + b) // s for a size s, where b is a coordinate below s."""
    if _below(x, s):
        return _number(n, 0)
    parts = _parts(x, s)
    return _same(n, parts[0]) if parts is not None else None


def _remainder_size(n: UOp, x: UOp, s: UOp) -> UOp | None:
    """(a * s + b) % s for a size s, where b is a coordinate below s."""
    if _below(x, s):
        return _same(n, x)
    parts = _parts(x, s)
    return _same(n, parts[1]) if parts is not None else None


def _whole(n: UOp, x: UOp, s: UOp) -> UOp | None:
    """(x // s) * s + x % s, where s is not 0."""
    low, high = bounds(s)
    return _same(n, x) if low > 0 or high < 0 or _is_size(s) else None


def _compare(n: UOp, a: UOp, b: UOp) -> UOp | None:
    """Comparisons whose answer the bounds tell."""
    if not (_integer(a) and _integer(b)) or n.dtype is not bool_:
        return None
    (low, high), (low2, high2) = bounds(a), bounds(b)
    if n.op == Op.LT:
        if high < low2 or _below(a, b):
            return UOp.const(bool_, True)
        return UOp.const(bool_, False) if low >= high2 else None
    if high <= low2:
        return UOp.const(bool_, True)
    return UOp.const(bool_, False) if low > high2 else None


def _combine(n: UOp, x: UOp, c: UOp, d: UOp) -> UOp | None:
    """(x op c) op d for integer + and *."""
    return UOp.new(n.op, n.dtype, (x, _make(n.op, n.dtype.scalar, c, d)))


def _distribute(n: UOp, x: UOp, c: UOp, d: UOp) -> UOp | None:
    """(x + c) * d: the constant part apart, so that x * d is shared between neighbours."""
    return UOp.new(Op.ADD, n.dtype, (_make(Op.MUL, n.dtype, x, d), _make(Op.MUL, n.dtype.scalar, d, c)))


def _outward(n: UOp, x: UOp, y: UOp, c: UOp) -> UOp | None:
    """(x + c) + y = (x + y) + c: constants gather at the end. The others keep their order, so that neighbours share their sum."""
    first, second = (y, x) if n.src[0] is y else (x, y)
    return UOp.new(Op.ADD, n.dtype, (_make(Op.ADD, n.dtype, first, second), c))


# ---- the tables ----

_x, _y, _c, _d, _s = var("x"), var("y"), const("c"), const("d"), var("s")
_zero, _one = const("z", _is(0)), const("o", _is(1))
_true, _false = const("t", _is(1)), const("f", _is(0))
_not_const = var("y", lambda y: y.op != Op.CONST)
_size = var("d", _is_size)


def _p(op: str, *sources: Pattern, kinds: str = "", ordered: bool = False) -> Pattern:
    return pattern(op, *sources, name="n", kinds=kinds, ordered=ordered)


def _folding() -> list[Rule]:
    table: list[Rule] = []
    for ops, count in ((UNARY, 1), (BINARY, 2), (TERNARY, 3)):
        for op in sorted(ops):
            constants = [const(f"c{k}") for k in range(count)]
            table.append((pattern(op, *constants, name="node", ordered=True), lambda node, **_: _fold(node)))
    return table


_ARITHMETIC: list[Rule] = [
    # constants to the right
    *(
        (_p(op, _c, _not_const, ordered=True), lambda n, c, y: UOp.new(n.op, n.dtype, (y, c), n.arg))
        for op in sorted(COMMUTATIVE & BINARY)
    ),
    # neutral and absorbing numbers
    (_p(Op.ADD, _x, _zero, kinds="iu"), lambda n, x, z: _same(n, x)),
    (_p(Op.SUB, _x, _zero, kinds="iu"), lambda n, x, z: _same(n, x)),
    (_p(Op.MUL, _x, _one, kinds="iuf"), lambda n, x, o: _same(n, x)),
    (_p(Op.MUL, _x, _zero, kinds="iu"), lambda n, x, z: _number(n, 0)),
    (_p(Op.IDIV, _x, _one, kinds="iu"), lambda n, x, o: _same(n, x)),
    (_p(Op.MOD, _x, _one, kinds="iu"), lambda n, x, o: _number(n, 0)),
    (_p(Op.SUB, _x, _x, kinds="iu"), lambda n, x: _number(n, 0)),
    # sums and products of constants gather
    (_p(Op.ADD, pattern(Op.ADD, _x, _c), _d, kinds="iu"), _combine),
    (_p(Op.MUL, pattern(Op.MUL, _x, _c), _d, kinds="iu"), _combine),
    (_p(Op.MUL, pattern(Op.ADD, _x, _c), _d, kinds="iu"), _distribute),
    (_p(Op.MUL, pattern(Op.ADD, _x, _c), _size, kinds="iu"), _distribute),
    (_p(Op.ADD, pattern(Op.ADD, _x, _c), _not_const, kinds="iu"), _outward),
    # divisions
    (_p(Op.IDIV, _x, _c, kinds="iu"), _divide),
    (_p(Op.MOD, _x, _c, kinds="iu"), _remainder),
    (_p(Op.IDIV, _x, _s, kinds="iu"), _divide_size),
    (_p(Op.MOD, _x, _s, kinds="iu"), _remainder_size),
    (_p(Op.ADD, pattern(Op.MUL, pattern(Op.IDIV, _x, _s), _s), pattern(Op.MOD, _x, _s), kinds="iu"), _whole),
    # answers that the bounds tell
    (_p(Op.LT, var("a"), var("b")), _compare),
    (_p(Op.LE, var("a"), var("b")), _compare),
    # conditions
    (_p(Op.AND, _x, _true, kinds="b"), lambda n, x, t: _same(n, x)),
    (_p(Op.AND, _x, _false, kinds="b"), lambda n, x, f: _number(n, False)),
    (_p(Op.OR, _x, _false, kinds="b"), lambda n, x, f: _same(n, x)),
    (_p(Op.OR, _x, _true, kinds="b"), lambda n, x, t: _number(n, True)),
]

_VALUES: list[Rule] = [
    # neutral numbers
    (_p(Op.DIV, _x, _one), lambda n, x, o: _same(n, x)),
    (_p(Op.SHL, _x, _zero), lambda n, x, z: _same(n, x)),
    (_p(Op.SHR, _x, _zero), lambda n, x, z: _same(n, x)),
    # twice the same, there and back
    (_p(Op.AND, _x, _x), lambda n, x: x),
    (_p(Op.OR, _x, _x), lambda n, x: x),
    (_p(Op.NOT, pattern(Op.NOT, _x)), lambda n, x: x),
    (_p(Op.NEG, pattern(Op.NEG, _x)), lambda n, x: x),
    # selections
    (_p(Op.WHERE, _c, var("a"), var("b")), lambda n, c, a, b: _same(n, a if c.arg else b)),
    (_p(Op.WHERE, var("p"), _x, _x), lambda n, p, x: _same(n, x)),
    # conversions
    (_p(Op.CAST, _x), _same),
    (_p(Op.BITCAST, _x), _same),
]

NEEDED = Rules([*_folding(), *_ARITHMETIC])
SIMPLIFY = NEEDED + Rules(_VALUES)
