"""Single operations in C-like languages: literals, arithmetic, conversions.

A value is a text, either an *atom* (a name, a literal, a call) or something in parentheses, so that texts can be put beside operators
without thought. An operand that an operation names twice, or hands to a function, is made an atom first (`named`): nothing is computed
twice, and what a dialect calls precise stays so, which a function's argument would not be.

Every operation is total and means what `graph.numpy_ops` says: division by zero gives 0, shifts by too much give 0 (or the sign),
floats that do not fit an integer saturate and NaN becomes 0, `max` and `min` hand NaN on.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Container
from decimal import Decimal

from engine.compiler.emit.dialect import Dialect, register
from engine.compiler.target import Target
from engine.frontend.trace import line_of
from engine.graph.dtypes import DType
from engine.graph.simplify import bounds, exact
from engine.graph.uop import TRANSCENDENTAL, Op, UOp

_ATOM = re.compile(r"[\w.]+")
_INFIX = {Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.DIV: "/", Op.AND: "&", Op.OR: "|", Op.XOR: "^"}
_COMPARE = {Op.LT: "<", Op.LE: "<=", Op.EQ: "==", Op.NE: "!="}
_CALL = {Op.FLOOR: "floor", Op.CEIL: "ceil", Op.TRUNC: "trunc", Op.ROUND: "round", Op.SQRT: "sqrt"}
_DIGITS = 9  # of a decimal literal; longer ones are written by their bits


def is_atom(text: str) -> bool:
    """True for a name or a literal: a text that may be repeated at no cost."""
    return _ATOM.fullmatch(text) is not None or (text[0] == "(" and text[1:2] == "-" and _ATOM.fullmatch(text[2:-1]) is not None)


def bare(text: str) -> str:
    """A text without the parentheses around all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for k, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if k == len(text) - 1 else text
    return text


class Operations:
    """Writes operations. `name(kind, text)` declares a variable of that value, `constant(kind, text, comment)` a constant of the whole
    text, `need(function)` asks for a helper function. `addresses`: sums that do not wrap."""

    def __init__(
        self,
        dialect: Dialect,
        target: Target,
        name: Callable[[str, str], str],
        constant: Callable[[str, str, str], str],
        need: Callable[[str], None],
        addresses: Container[UOp],
    ) -> None:
        self.dialect, self.target, self.addresses = dialect, target, addresses
        self.name, self.constant, self.need = name, constant, need

    def named(self, kind: str, text: str) -> str:
        """The text, or a variable of its value where it is more than an atom."""
        return text if is_atom(text) else self.name(kind, text)

    def helper(self, function: str, *arguments: str) -> str:
        """A call of a helper function."""
        self.need(function)
        return f"{function}({', '.join(map(bare, arguments))})"

    # ---- literals ----

    def literal(self, dtype: DType, value: float | int | bool) -> str:
        """A number, exact to the bit."""
        kind = register(dtype)
        if kind == "bool":
            return "true" if value else "false"
        if kind in ("float", "double"):
            return self._float_literal(kind, float(value))
        suffix = self.dialect.suffix[kind]
        number = int(value)
        if kind in ("int", "long") and number == -(1 << (63 if kind == "long" else 31)):
            return f"(-{-(number + 1)}{suffix} - 1{suffix})"
        return f"(-{-number}{suffix})" if number < 0 else f"{number}{suffix}"

    def number(self, dtype: DType, value: float | int | bool) -> str:
        """A number, as a 0 that compilers do not see where they take products and quotients with one for 0."""
        if not dtype.is_float or value or self.dialect.keeps_zero:
            return self.literal(dtype, value)
        zero = "zero" if dtype.bits < 64 else self.dialect.converted("double", "zero")
        return f"(-{zero})" if math.copysign(1.0, value) < 0 else zero

    def _float_literal(self, kind: str, value: float) -> str:
        if math.isfinite(value):
            digits = Decimal(value)
            shown = len(digits.as_tuple().digits) <= _DIGITS and -6 <= digits.adjusted() <= _DIGITS
            negative = math.copysign(1.0, value) < 0
            if shown and (value or not negative):
                text = f"{abs(digits):f}" if digits != digits.to_integral() else f"{abs(int(digits))}.0"
            elif self.dialect.hex_floats:
                text = re.sub(r"\.?0*p", "p", abs(value).hex())
            else:
                text = ""
            if text:
                text += self.dialect.suffix[kind]
                return f"(-{text})" if negative else text
        if kind == "float":
            bits = struct.unpack("<I", struct.pack("<f", value))[0]
            return self.constant(kind, self.dialect.same_bits("uint", "float", f"0x{bits:08x}u"), f"{value:.9g}")
        low, high = struct.unpack("<II", struct.pack("<d", value))
        return self.constant(kind, self.dialect.join[kind].format(f"0x{low:08x}u", f"0x{high:08x}u"), repr(value))

    # ---- operations ----

    def elementwise(self, node: UOp, a: list[str]) -> str:
        """One element of an operation, given that of each operand."""
        op = node.op
        dtype: DType = node.dtype.scalar
        source: DType = node.src[0].dtype.scalar
        if op in _COMPARE:
            return self._compare(op, source, a)
        if op == Op.WHERE:
            return f"({a[0]} ? {a[1]} : {a[2]})"
        if op == Op.CAST:
            return self.cast(source, dtype, a[0])
        if op == Op.BITCAST:
            return self.bits(source, dtype, a[0])
        if dtype.is_bool:
            return self._logic(op, a)
        if dtype.is_float:
            return self._rounded(dtype, self._float(node, op, dtype, register(dtype), a))
        return self._integer(node, op, dtype, register(dtype), a)

    def _compare(self, op: str, source: DType, a: list[str]) -> str:
        if source.is_bool and op in (Op.LT, Op.LE):
            return self._logic(Op.AND if op == Op.LT else Op.OR, [f"(!{a[0]})", a[1]])
        return f"({a[0]} {_COMPARE[op]} {a[1]})"

    def _logic(self, op: str, a: list[str]) -> str:
        if op == Op.NOT:
            return f"(!{a[0]})"
        if op in (Op.AND, Op.MIN, Op.MUL):
            return f"({a[0]} {'&' if self.dialect.bitwise_bools else '&&'} {a[1]})"
        if op in (Op.OR, Op.MAX, Op.ADD):
            return f"({a[0]} {'|' if self.dialect.bitwise_bools else '||'} {a[1]})"
        assert op == Op.XOR, f"no {op} of bools"
        return f"({a[0]} != {a[1]})"

    def _rounded(self, dtype: DType, text: str) -> str:
        """A result as its type holds it: float16 is computed in more bits."""
        return text if dtype.bits != 16 else self.helper("round_half", self.named("float", text))

    def _float(self, node: UOp, op: str, dtype: DType, kind: str, a: list[str]) -> str:
        functions = self.dialect.functions
        if op in (Op.MUL, Op.DIV) and not self.dialect.keeps_zero:
            a = [self._hidden(k, node, kind, x) for k, x in enumerate(a)]
        if op in _INFIX:
            return f"({a[0]} {_INFIX[op]} {a[1]})"
        if op == Op.NEG:
            return f"(-{a[0]})"
        if op == Op.ABS:
            return f"{functions['abs']}({bare(self.named(kind, a[0]))})"
        if op in (Op.MAX, Op.MIN):
            x, y = (self.named(kind, t) for t in a)
            better = f"{x} {'<' if op == Op.MAX else '>'} {y}"
            if node.src[1].op != Op.CONST or node.src[1].arg != node.src[1].arg:  # NaN on the left stays
                better = f"{better} || {y} != {y}"
            if self.dialect.precise:
                better = self.name("bool", better)
            return f"({better} ? {y} : {x})"
        if op == Op.FMA:
            return self._fma(dtype, kind, [self.named(kind, t) for t in a])
        if op in (Op.MOD, Op.IDIV):
            x, y = (self.named(kind, t) for t in a)
            return self.helper(f"floor_{'remainder' if op == Op.MOD else 'divide'}_{kind}", x, y)
        if op in TRANSCENDENTAL and op in self.dialect.missing.get(kind, ()):
            where = f"{line_of(node)}: " if line_of(node) else ""
            raise ValueError(
                f"{where}{self.dialect.name} has no {op} of {dtype}; cast to float32, or use the cpu backend"
            )
        name = _CALL.get(op, op)
        assert op in _CALL or op in TRANSCENDENTAL, f"no float {op}"
        arguments = ", ".join(bare(self.named(kind, t)) for t in a)
        return f"{functions.get(name, name)}({arguments})"

    def _hidden(self, k: int, node: UOp, kind: str, text: str) -> str:
        """An operand of a product or a quotient: an integer may be one that the compiler finds to be 0, which it must not tell here."""
        operand, other = node.src[k], node.src[1 - k]
        made = operand.op == Op.CAST and operand.src[0].dtype.is_int
        if not made or (other.op == Op.CONST and math.isfinite(other.arg) and (other.arg or node.op == Op.MUL)):
            return text
        return f"({text} + {self.number(node.dtype.scalar, 0.0)})"

    def _fma(self, dtype: DType, kind: str, a: list[str]) -> str:
        if dtype.bits == 16:
            return self.helper("fma_half", *a)
        if self.target.fuses:
            return f"fma({', '.join(map(bare, a))})"
        if kind == "float":  # the product is exact
            x, y, z = (self.dialect.converted("double", bare(t)) for t in a)
            return self.dialect.converted("float", f"{x} * {y} + {z}")
        return self.helper("fma_double", *a)

    # ---- integers ----

    def _integer(self, node: UOp, op: str, dtype: DType, kind: str, a: list[str]) -> str:
        if op in (Op.AND, Op.OR, Op.XOR):
            return f"({a[0]} {_INFIX[op]} {a[1]})"
        if op in (Op.ADD, Op.SUB, Op.MUL, Op.FMA, Op.NEG):
            return self._sum(node, op, dtype, kind, a)
        if op == Op.NOT:
            return self._cut(dtype, f"(~{a[0]})") if dtype.kind == "u" else f"(~{a[0]})"
        if op == Op.ABS:
            if dtype.kind == "u":
                return a[0]
            x = self.named(kind, a[0])
            return self._cut(dtype, f"({x} < {self.literal(dtype, 0)} ? {self._sum(node, Op.NEG, dtype, kind, [x])} : {x})")
        if op in (Op.MAX, Op.MIN) and dtype.bits == 64:  # Mesa 22 dies of min(min(a, 3), min(b, 3)) in 64 bits
            x, y = (self.named(kind, t) for t in a)
            return f"({x} {'>' if op == Op.MAX else '<'} {y} ? {x} : {y})"
        if op in (Op.MAX, Op.MIN):
            return f"{op}({bare(a[0])}, {bare(a[1])})"
        if op in (Op.SHL, Op.SHR):
            return self._shift(node, op, dtype, kind, a)
        if op in (Op.IDIV, Op.MOD):
            return self._divide(node, op, dtype, kind, a)
        if op in (Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND):
            return a[0]
        raise AssertionError(f"no integer {op}")

    def _cut(self, dtype: DType, text: str) -> str:
        """A register's value as a type of 8 or 16 bits has it."""
        if dtype.bits >= 32:
            return text
        if dtype.kind == "u":
            return f"({text} & 0x{(1 << dtype.bits) - 1:x}u)"
        left = 32 - dtype.bits
        return f"(({text} << {left}) >> {left})"

    def _sum(self, node: UOp, op: str, dtype: DType, kind: str, a: list[str]) -> str:
        """What may wrap around: where the language does not say that signed integers do, as unsigned ones."""
        free = kind not in ("int", "long") or self.dialect.wraps or dtype.bits < 32 or node in self.addresses or _fits(node)
        wide = "u" + kind if not free else kind
        x = a if free else [self._as(kind, wide, t) for t in a]
        if op == Op.NEG:
            text = f"(-{x[0]})" if free and kind in ("int", "long") else f"({self._zero(wide)} - {x[0]})"
        elif op == Op.FMA:
            text = f"({x[0]} * {x[1]} + {x[2]})"
        else:
            text = f"({x[0]} {_INFIX[op]} {x[1]})"
        return self._cut(dtype, text if free else self._as(wide, kind, bare(text)))

    def _zero(self, kind: str) -> str:
        return f"0{self.dialect.suffix[kind]}"

    def _as(self, kind: str, wanted: str, text: str) -> str:
        return self.dialect.converted(wanted, bare(text))

    def _shift(self, node: UOp, op: str, dtype: DType, kind: str, a: list[str]) -> str:
        amount = node.src[1]
        wide, sign = dtype.bits - 1, dtype.kind == "i" and op == Op.SHR
        low, high = bounds(amount)
        if low >= 0 and high <= wide:
            by = str(low) if low == high else a[1] if kind == "uint" else self.dialect.converted("uint", bare(a[1]))
            return self._shifted(op, dtype, kind, a[0], by)
        whole = self.named(kind, a[1])
        count = self.dialect.converted("uint", bare(whole))
        if sign:
            most = f"(({whole} < {self.literal(dtype, 0)} || {whole} > {self.literal(dtype, wide)}) ? {wide}u : {count})"
            return self._shifted(op, dtype, kind, a[0], most)
        inside = f"{whole} <= {self.literal(dtype, wide)}"
        if dtype.kind == "i":
            inside = f"({whole} >= {self.literal(dtype, 0)} && {inside})"
        return f"({inside} ? {self._shifted(op, dtype, kind, a[0], f'({count} & {wide}u)')} : {self.literal(dtype, 0)})"

    def _shifted(self, op: str, dtype: DType, kind: str, x: str, by: str) -> str:
        if op == Op.SHR:
            return f"({x} >> {by})"
        if kind in ("int", "long") and not self.dialect.wraps:
            return self._cut(dtype, self._as("u" + kind, kind, f"{self._as(kind, 'u' + kind, x)} << {by}"))
        return self._cut(dtype, f"({x} << {by})")

    def _divide(self, node: UOp, op: str, dtype: DType, kind: str, a: list[str]) -> str:
        """Floor division and its remainder; 0 for a divisor of 0."""
        x, d = node.src
        sign = "/" if op == Op.IDIV else "%"
        unsigned = dtype.kind == "u"
        if bounds(d)[0] >= 1 and (unsigned or bounds(x)[0] >= 0):
            return f"({a[0]} {sign} {a[1]})"
        if unsigned:
            zero, one = (self.literal(dtype, n) for n in (0, 1))
            y = self.named(kind, a[1])
            return f"({y} == {zero} ? {zero} : {a[0]} {sign} max({y}, {one}))"
        x_text, y_text = (self.named(kind, t) for t in a)
        text = self.helper(f"floor_{'divide' if op == Op.IDIV else 'remainder'}_{kind}", x_text, y_text)
        return self._cut(dtype, text)

    # ---- conversions ----

    def cast(self, source: DType, wanted: DType, text: str) -> str:
        """A conversion of values."""
        if source is wanted:
            return text
        kind, into = register(source), register(wanted)
        if wanted.is_bool:
            return f"({text} != {self.literal(source, 0)})"
        if source.is_bool:
            return f"({text} ? {self.literal(wanted, 1)} : {self.number(wanted, 0)})"
        if source.is_float and wanted.is_float:
            if wanted.bits == 16:
                x = self.named(kind, text)
                if kind == "double":
                    x = self.named("float", self.helper("odd_float", x))
                return self.helper("round_half", x)
            return text if kind == into else self.dialect.converted(into, bare(text))
        if source.is_float:
            return self._to_integer(kind, wanted, into, self.named(kind, text))
        if wanted.is_float:  # 64-bit integers too: beyond 2^24 every float16 is infinite
            return self._rounded(wanted, self.dialect.converted(into, bare(text)))
        if kind != into:
            if kind == "int" and into == "ulong":
                kind, text = "long", self._widened(kind, "long", text)
            text = self._widened(kind, into, text)
        if wanted.bits < source.bits or (wanted.bits == source.bits < 32) or (source.kind == "i" and wanted.kind == "u"):
            return self._cut(wanted, text)
        return text

    def _widened(self, kind: str, into: str, text: str) -> str:
        """A conversion between kinds of integers."""
        written = self.dialect.widen.get(f"{kind} {into}")
        return written.format(self.named(kind, text)) if written else self.dialect.converted(into, bare(text))

    def _to_integer(self, kind: str, wanted: DType, into: str, text: str) -> str:
        """A float as an integer, between the bounds of its type; NaN is 0."""
        name = self.dialect.functions.get(f"{into} {kind}")
        whole = f"{name}({bare(text)})" if name else self.helper(f"{into}_of_{kind}", text)
        if wanted.bits >= 32:
            return whole
        if wanted.kind == "u":
            return f"min({whole}, {self.literal(wanted, wanted.max)})"
        return f"clamp({whole}, {bare(self.literal(wanted, wanted.min))}, {self.literal(wanted, wanted.max)})"

    def bits(self, source: DType, wanted: DType, text: str) -> str:
        """The bits of one type as another of the same size."""
        if source is wanted:
            return text
        if 16 in (source.bits, wanted.bits) and (source.is_float or wanted.is_float):
            if source.is_float:
                return self.cast_bits(wanted, self.helper("half_bits", self.named("float", text)))
            return self.helper("half_value", f"{self.dialect.converted('uint', bare(text))} & 0xffffu")
        if source.is_bool or wanted.is_bool or not (source.is_float or wanted.is_float):
            return self.cast(source, wanted, text)
        return self.dialect.same_bits(register(source), register(wanted), bare(self.named(register(source), text)))

    def cast_bits(self, wanted: DType, text: str) -> str:
        """The low bits of a uint as a value of an integer type of 8 or 16 bits, or a float16."""
        if wanted.is_float:
            return self.helper("half_value", text)
        if wanted.kind == "u":
            return f"({text} & 0x{(1 << wanted.bits) - 1:x}u)"
        return self._cut(wanted, self.dialect.converted("int", bare(text)))


def _fits(node: UOp) -> bool:
    """True where bounds of the operands tell that the result does not wrap."""
    return node.op in (Op.ADD, Op.SUB, Op.MUL) and exact(node)
