"""LLVM IR of single operations: types, literals, arithmetic.

Everything is total: division by zero gives 0, shifts by too much give 0 (or the sign), floats that do not fit an integer
saturate and NaN becomes 0, since lanes that are masked out compute too and must not trap. Floats carry `contract` (a * b + c may
be rounded once) and no other licence. Integer sums and products of the engine's own index arithmetic stay within int32.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container

from engine.graph.dtypes import DType
from engine.graph.simplify import bounds
from engine.graph.uop import Op, UOp

_COMPARE = {Op.LT: ("slt", "ult", "olt"), Op.LE: ("sle", "ule", "ole"), Op.EQ: ("eq", "eq", "oeq"), Op.NE: ("ne", "ne", "une")}
_UNARY_CALL = {
    Op.SQRT: "sqrt", Op.FLOOR: "floor", Op.CEIL: "ceil", Op.TRUNC: "trunc", Op.ROUND: "roundeven", Op.EXP: "exp", Op.EXP2: "exp2",
    Op.LOG: "log", Op.LOG2: "log2", Op.SIN: "sin", Op.COS: "cos", Op.TAN: "tan", Op.ASIN: "asin", Op.ACOS: "acos", Op.ATAN: "atan",
}  # fmt: skip
_BINARY_CALL = {Op.POW: "pow", Op.ATAN2: "atan2"}
_FLOATS = {16: "half", 32: "float", 64: "double"}


def scalar_type(dtype: DType) -> str:
    """The register type of one element."""
    return _FLOATS[dtype.bits] if dtype.kind == "f" else f"i{dtype.bits}"


def memory_type(dtype: DType) -> str:
    """The type of one element in a buffer: bools are bytes."""
    return "i8" if dtype.is_bool else scalar_type(dtype)


def vector(element: str, count: int) -> str:
    """`element`, or a vector of `count` of them."""
    return element if count == 1 else f"<{count} x {element}>"


def literal(dtype: DType, value: float | int | bool) -> str:
    """A number, exact to the bit."""
    if dtype.kind == "f":
        if dtype.bits == 16:
            return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if dtype.kind == "b":
        return "true" if value else "false"
    return str(int(value))


def suffix(dtype: DType, count: int) -> str:
    """The name of a type inside an intrinsic's name."""
    base = f"f{dtype.bits}" if dtype.kind == "f" else f"i{dtype.bits}"
    return base if count == 1 else f"v{count}{base}"


class Operations:
    """Writes instructions through `emit(text) -> name` and asks for intrinsics through `declare`. `addresses`: sums that do not wrap."""

    def __init__(self, emit: Callable[[str], str], declare: Callable[[str], None], contract: bool, addresses: Container[UOp]) -> None:
        self.emit, self.declare, self.addresses = emit, declare, addresses
        self.flags = " contract" if contract else ""

    def call(self, name: str, returns: str, *arguments: tuple[str, str]) -> str:
        """Calls an intrinsic, declaring it."""
        types = ", ".join(t for t, _ in arguments)
        self.declare(f"declare {returns} @{name}({types})")
        return self.emit(f"call {returns} @{name}({', '.join(f'{t} {v}' for t, v in arguments)})")

    def const(self, dtype: DType, count: int, value: float | int | bool) -> str:
        """A literal of this width."""
        text = literal(dtype, value)
        return text if count == 1 else f"splat ({scalar_type(dtype)} {text})"

    def elementwise(self, node: UOp, count: int, a: list[str]) -> str:
        """The operation of `node` on operands of `count` elements (already of that width)."""
        dtype: DType = node.dtype.scalar
        source: DType = node.src[0].dtype.scalar
        op = node.op
        t = vector(scalar_type(dtype), count)
        s = vector(scalar_type(source), count)
        if op in _COMPARE:
            signed, unsigned, ordered = _COMPARE[op]
            if source.is_float:
                return self.emit(f"fcmp {ordered} {s} {a[0]}, {a[1]}")
            return self.emit(f"icmp {signed if source.kind == 'i' else unsigned} {s} {a[0]}, {a[1]}")
        if op == Op.WHERE:
            return self.emit(f"select {vector('i1', count)} {a[0]}, {t} {a[1]}, {t} {a[2]}")
        if op == Op.CAST:
            return self.cast(source, dtype, count, a[0])
        if op == Op.BITCAST:
            return self.emit(f"bitcast {s} {a[0]} to {t}")
        if op in (Op.AND, Op.OR, Op.XOR):
            return self.emit(f"{op} {t} {a[0]}, {a[1]}")
        if op == Op.NOT:
            return self.emit(f"xor {t} {a[0]}, {self.const(dtype, count, True if dtype.is_bool else -1)}")
        if dtype.is_float:
            return self._float(node, op, dtype, count, t, a)
        return self._integer(node, op, dtype, count, t, a)

    def _float(self, node: UOp, op: str, dtype: DType, count: int, t: str, a: list[str]) -> str:
        plain = {Op.ADD: "fadd", Op.SUB: "fsub", Op.MUL: "fmul", Op.DIV: "fdiv"}.get(op)
        if plain is not None:
            return self.emit(f"{plain}{self.flags} {t} {a[0]}, {a[1]}")
        if op == Op.NEG:
            return self.emit(f"fneg {t} {a[0]}")
        if op == Op.ABS:
            return self.call(f"llvm.fabs.{suffix(dtype, count)}", t, (t, a[0]))
        if op in (Op.MAX, Op.MIN):
            if node.src[1].op == Op.CONST and node.src[1].arg == node.src[1].arg:  # NaN on the left stays: one instruction
                test = self.emit(f"fcmp {'olt' if op == Op.MAX else 'ogt'} {t} {a[0]}, {a[1]}")
                return self.emit(f"select {vector('i1', count)} {test}, {t} {a[1]}, {t} {a[0]}")
            return self.call(f"llvm.{'maximum' if op == Op.MAX else 'minimum'}.{suffix(dtype, count)}", t, (t, a[0]), (t, a[1]))
        if op == Op.FMA:
            return self.call(f"llvm.fma.{suffix(dtype, count)}", t, *((t, x) for x in a))
        if op == Op.MOD:
            rest = self.emit(f"frem {t} {a[0]}, {a[1]}")
            zero = self.const(dtype, count, 0.0)
            negative = self.emit(f"fcmp olt {t} {rest}, {zero}")
            other = self.emit(f"fcmp olt {t} {a[1]}, {zero}")
            differ = self.emit(f"xor {vector('i1', count)} {negative}, {other}")
            some = self.emit(f"fcmp une {t} {rest}, {zero}")
            wrap = self.emit(f"and {vector('i1', count)} {differ}, {some}")
            moved = self.emit(f"fadd {t} {rest}, {a[1]}")
            return self.emit(f"select {vector('i1', count)} {wrap}, {t} {moved}, {t} {rest}")
        if op in _UNARY_CALL:
            return self.call(f"llvm.{_UNARY_CALL[op]}.{suffix(dtype, count)}", t, (t, a[0]))
        if op in _BINARY_CALL:
            return self.call(f"llvm.{_BINARY_CALL[op]}.{suffix(dtype, count)}", t, (t, a[0]), (t, a[1]))
        if op == Op.IDIV:
            quotient = self.emit(f"fdiv {t} {a[0]}, {a[1]}")
            return self.call(f"llvm.floor.{suffix(dtype, count)}", t, (t, quotient))
        raise AssertionError(f"no float {op}")

    def _integer(self, node: UOp, op: str, dtype: DType, count: int, t: str, a: list[str]) -> str:
        if op in (Op.ADD, Op.SUB, Op.MUL):
            return self.emit(f"{op}{' nsw' if node in self.addresses else ''} {t} {a[0]}, {a[1]}")
        if op == Op.NEG:
            return self.emit(f"sub {t} {self.const(dtype, count, 0)}, {a[0]}")
        if op == Op.ABS:
            return self.call(f"llvm.abs.{suffix(dtype, count)}", t, (t, a[0]), ("i1", "false"))
        if op in (Op.MAX, Op.MIN):
            name = ("s" if dtype.kind == "i" else "u") + op
            return self.call(f"llvm.{name}.{suffix(dtype, count)}", t, (t, a[0]), (t, a[1]))
        if op in (Op.SHL, Op.SHR):
            return self._shift(node, op, dtype, count, t, a)
        if op in (Op.IDIV, Op.MOD):
            return self._divide(node, op, dtype, count, t, a)
        raise AssertionError(f"no integer {op}")

    def _shift(self, node: UOp, op: str, dtype: DType, count: int, t: str, a: list[str]) -> str:
        name = "shl" if op == Op.SHL else "ashr" if dtype.kind == "i" else "lshr"
        amount = node.src[1]
        if amount.op == Op.CONST and 0 <= amount.arg < dtype.bits:
            return self.emit(f"{name} {t} {a[0]}, {a[1]}")
        most = self.const(dtype, count, dtype.bits - 1)
        fits = self.emit(f"icmp ule {t} {a[1]}, {most}")
        if name == "ashr":
            clipped = self.emit(f"select {vector('i1', count)} {fits}, {t} {a[1]}, {t} {most}")
            return self.emit(f"ashr {t} {a[0]}, {clipped}")
        safe = self.emit(f"select {vector('i1', count)} {fits}, {t} {a[1]}, {t} {self.const(dtype, count, 0)}")
        shifted = self.emit(f"{name} {t} {a[0]}, {safe}")
        return self.emit(f"select {vector('i1', count)} {fits}, {t} {shifted}, {t} {self.const(dtype, count, 0)}")

    def _divide(self, node: UOp, op: str, dtype: DType, count: int, t: str, a: list[str]) -> str:
        """Floor division and its remainder; 0 for a divisor of 0."""
        mask = vector("i1", count)
        x, d = node.src
        unsigned = dtype.kind == "u" or bounds(x)[0] >= 0
        if unsigned and bounds(d)[0] >= 1:
            return self.emit(f"{'udiv' if op == Op.IDIV else 'urem'} {t} {a[0]}, {a[1]}")
        zero, one = self.const(dtype, count, 0), self.const(dtype, count, 1)
        is_zero = self.emit(f"icmp eq {t} {a[1]}, {zero}")
        if dtype.kind == "u":
            safe = self.emit(f"select {mask} {is_zero}, {t} {one}, {t} {a[1]}")
            result = self.emit(f"{'udiv' if op == Op.IDIV else 'urem'} {t} {a[0]}, {safe}")
            return self.emit(f"select {mask} {is_zero}, {t} {zero}, {t} {result}")
        is_minus = self.emit(f"icmp eq {t} {a[1]}, {self.const(dtype, count, -1)}")
        odd = self.emit(f"or {mask} {is_zero}, {is_minus}")
        safe = self.emit(f"select {mask} {odd}, {t} {one}, {t} {a[1]}")
        quotient = self.emit(f"sdiv {t} {a[0]}, {safe}")
        product = self.emit(f"mul {t} {quotient}, {safe}")
        rest = self.emit(f"sub {t} {a[0]}, {product}")
        some = self.emit(f"icmp ne {t} {rest}, {zero}")
        signs = self.emit(f"xor {t} {rest}, {safe}")
        differ = self.emit(f"icmp slt {t} {signs}, {zero}")
        down = self.emit(f"and {mask} {some}, {differ}")
        if op == Op.MOD:
            moved = self.emit(f"add {t} {rest}, {safe}")
            result = self.emit(f"select {mask} {down}, {t} {moved}, {t} {rest}")
            return self.emit(f"select {mask} {odd}, {t} {zero}, {t} {result}")
        lower = self.emit(f"sub {t} {quotient}, {one}")
        result = self.emit(f"select {mask} {down}, {t} {lower}, {t} {quotient}")
        negated = self.emit(f"sub {t} {zero}, {a[0]}")
        special = self.emit(f"select {mask} {is_zero}, {t} {zero}, {t} {negated}")
        return self.emit(f"select {mask} {odd}, {t} {special}, {t} {result}")

    def cast(self, source: DType, wanted: DType, count: int, value: str) -> str:
        """A conversion of values."""
        s, t = vector(scalar_type(source), count), vector(scalar_type(wanted), count)
        if source is wanted:
            return value
        if wanted.is_bool:
            if source.is_float:
                return self.emit(f"fcmp une {s} {value}, {self.const(source, count, 0.0)}")
            return self.emit(f"icmp ne {s} {value}, {self.const(source, count, 0)}")
        if source.is_float and wanted.is_float:
            return self.emit(f"{'fpext' if wanted.bits > source.bits else 'fptrunc'} {s} {value} to {t}")
        if source.is_float and source.bits > 16 and wanted.bits < 32:
            return self._to_small_int(source, wanted, count, value)
        if source.is_float:
            name = f"llvm.fpto{'s' if wanted.kind == 'i' else 'u'}i.sat.{suffix(wanted, count)}.{suffix(source, count)}"
            return self.call(name, t, (s, value))
        if wanted.is_float:
            return self.emit(f"{'sitofp' if source.kind == 'i' else 'uitofp'} {s} {value} to {t}")
        if wanted.bits == source.bits:
            return value
        if wanted.bits < source.bits:
            return self.emit(f"trunc {s} {value} to {t}")
        return self.emit(f"{'sext' if source.kind == 'i' else 'zext'} {s} {value} to {t}")

    def _to_small_int(self, source: DType, wanted: DType, count: int, value: str) -> str:
        """A float as an integer of 8 or 16 bits, whose bounds floats hold exactly: NaN to 0, the rest between the bounds, and then
        through int32, which has a vector instruction where small integers have none."""
        s, mask = vector(scalar_type(source), count), vector("i1", count)
        zero, low, high = (self.const(source, count, float(v)) for v in (0, wanted.min, wanted.max))
        if wanted.min == 0:  # NaN is not above 0 either
            above = self.emit(f"fcmp ogt {s} {value}, {zero}")
            value = self.emit(f"select {mask} {above}, {s} {value}, {s} {zero}")
        else:
            number = self.emit(f"fcmp ord {s} {value}, {zero}")
            value = self.emit(f"select {mask} {number}, {s} {value}, {s} {zero}")
            above = self.emit(f"fcmp ogt {s} {value}, {low}")
            value = self.emit(f"select {mask} {above}, {s} {value}, {s} {low}")
        below = self.emit(f"fcmp olt {s} {value}, {high}")
        value = self.emit(f"select {mask} {below}, {s} {value}, {s} {high}")
        whole = self.emit(f"fptosi {s} {value} to {vector('i32', count)}")
        return self.emit(f"trunc {vector('i32', count)} {whole} to {vector(scalar_type(wanted), count)}")
