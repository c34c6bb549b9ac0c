"""Random programs of array operations: elementwise, movement, reductions, tables, over all types. See `programs`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from engine.frontend.tensor import Tensor
from engine.frontend.trace import Trace, tracing
from engine.graph.dtypes import DType
from tests.engine.programs import NAMES, Input, Program, Shape

SHAPES: list[Shape] = [(3,), (1,), (7,), (17,), (4, 5), (1, 6), (3, 1), (2, 3, 4), (31, 5), (2, 2, 2, 2)]
LONG: list[Shape] = [(70,), (5000,), (3, 100), (2, 4200), (130, 33)]
DTYPES = [
    "int32", "float32", "bool", "uint32", "int8", "uint8", "int16", "uint16", "int64", "uint64", "float64", "float16"
]  # fmt: skip
MOST = 20_000  # elements of a value
ROW = 20  # elements of a row that is scattered: each is a store of its own in the kernel

Draw = Callable[..., Any]


@dataclass(frozen=True)
class Value:
    """A variable of a program. `bound`: no element is greater in magnitude. `whole`: elements are integers that the type holds.

    `product`: a float that a product went into, rounded: adding to it may be contracted, so nothing is added to it.
    """

    name: str
    tensor: Tensor
    bound: float
    whole: bool
    product: bool = False

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    @property
    def shape(self) -> Shape:
        return self.tensor.shape

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def limit(dtype: DType) -> float:
    """Whole numbers up to this are exact in a float type; no integer of an integer type is greater."""
    if dtype.is_float:
        return float(2 ** {16: 11, 32: 24, 64: 53}[dtype.bits])
    return float(2**dtype.bits)


class Writer:
    """Writes a program line by line. Types and shapes are those of the front end, which records each line as it is written."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.inputs: list[Input] = []
        self.values: list[Value] = []
        self.names = dict(NAMES)

    # ---- pieces ----

    def one_of(self, options: list[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def number(self, least: int, most: int) -> int:
        return int(self.draw(st.integers(least, most)))

    def input(self, dtype: str, shape: Shape, kind: str) -> None:
        name = f"x{len(self.inputs)}"
        recipe = Input(name, dtype, shape, kind, self.number(0, 999))
        self.inputs.append(recipe)
        tensor = Tensor(recipe.array())
        self.names[name] = tensor
        bound = 8.0 if kind == "small" else 3.0 if kind == "[-3, 3]" else math.inf if tensor.dtype.is_float else limit(tensor.dtype)
        self.values.append(Value(name, tensor, bound, kind in ("small", "bits")))

    def pick(self, test: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """One of the values for which the test holds, newer ones first."""
        found = [v for v in reversed(self.values) if test(v)]
        return self.one_of(found) if found else None

    def write(self, text: str, bound: float, whole: bool = True, product: bool = False) -> None:
        """The next line. A bound beyond the type says that integers wrapped, or that floats were rounded."""
        name = f"v{len(self.lines)}"
        try:
            tensor = eval(text, self.names)
        except Exception as error:
            raise AssertionError("\n".join([*self.lines, f"{name} = {text}", f"{type(error).__name__}: {error}"])) from error
        self.names[name] = tensor
        self.lines.append(f"{name} = {text}")
        most = limit(tensor.dtype)
        if tensor.dtype.kind == "u" and not self.unsigned(text):
            bound = most
        if tensor.dtype.is_float:
            fits = whole and bound <= most
            value = Value(name, tensor, bound if fits else math.inf, fits, product and not fits)
        else:
            value = Value(name, tensor, min(bound, most), True)
        if value.size <= MOST:
            self.values.append(value)

    def unsigned(self, text: str) -> bool:
        """Whether no operand of a line is signed, and nothing is subtracted: else an unsigned result may have wrapped."""
        operands = [v for v in self.values if re.search(rf"\b{v.name}\b", text)]
        return "-" not in text and "~" not in text and all(v.dtype.kind in "ub" for v in operands)

    def partner(self, a: Value, test: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """A value that broadcasts with `a`."""

        def broadcasts(b: Value) -> bool:
            pairs = zip(reversed(a.shape), reversed(b.shape))
            return all(m == n or 1 in (m, n) for m, n in pairs) and max(a.size, 1) * max(b.size, 1) <= 40 * MOST and test(b)

        return self.pick(broadcasts)

    # ---- elementwise ----

    def arithmetic(self) -> None:
        a = self.pick()
        b = self.partner(a) if a else None
        if a is None or b is None:
            return
        op = self.one_of(["+", "-", "*", "maximum", "minimum"])
        text = f"{op}({a.name}, {b.name})" if op.startswith("m") else f"{a.name} {op} {b.name}"
        bound = {"+": a.bound + b.bound, "-": a.bound + b.bound, "*": a.bound * b.bound}.get(op, max(a.bound, b.bound))
        if op in "+-" and (a.product or b.product):
            return
        whole = a.whole and b.whole
        self.write(text, bound, whole, a.product or b.product or op == "*")

    def with_number(self) -> None:
        a = self.pick(lambda v: not v.dtype.is_bool)
        if a is None:
            return
        number = self.one_of([1, 2, 3, -1, 7, 0] + ([0.5, -2.5] if a.dtype.is_float else []))
        op = self.one_of(["+", "-", "*", "maximum", "minimum"])
        if op in "+-" and a.product:
            return
        left, right = (a.name, number) if self.draw(st.booleans()) else (number, a.name)
        text = f"{op}({left}, {right})" if op.startswith("m") else f"{left} {op} {right}"
        bound = a.bound * abs(number) if op == "*" else a.bound + abs(number)
        self.write(text, bound, a.whole and isinstance(number, int), a.product or op == "*")

    def compare(self) -> None:
        a = self.pick()
        b = self.partner(a) if a else None
        if a and b:
            self.write(f"{a.name} {self.one_of(['<', '<=', '>', '>=', '==', '!='])} {b.name}", 1)

    def bits(self) -> None:
        a = self.pick(lambda v: not v.dtype.is_float)
        b = self.partner(a, lambda v: not v.dtype.is_float) if a else None
        if a is None or b is None:
            return
        op = self.one_of(["&", "|", "^", "<<", ">>", "//", "%"])
        if {a.dtype.name, b.dtype.name} & {"uint64"} and {a.dtype.kind, b.dtype.kind} == {"i", "u"}:
            return  # these two are float64 together
        self.write(f"{a.name} {op} {b.name}", math.inf)

    def quotient(self) -> None:
        """Floats are divided only by what is not zero: the sign of zero is left open."""
        a = self.pick(lambda v: v.whole and v.bound <= 1024)
        b = self.partner(a, lambda v: v.whole and v.bound <= 1024) if a else None
        if a is None or b is None:
            return
        op = self.one_of(["/", "//", "%"])
        divisor = b.name if not b.dtype.is_float and not (op != "/" and a.dtype.is_float) else f"maximum(abs({b.name}), 1)"
        self.write(f"{a.name} {op} {divisor}", a.bound + b.bound + 1, op != "/")

    def unary(self) -> None:
        a = self.pick()
        if a is None:
            return
        options = ["-{}", "abs({})", "{}.sign()", "{}.square()", "{}.isnan()"]
        options += ["~{}"] if not a.dtype.is_float else ["{}.floor()", "{}.ceil()", "{}.trunc()", "{}.round()", "abs({}).sqrt()"]
        text = self.one_of(options)
        if a.dtype.is_bool:
            text = "~{}"
        square = "square" in text
        whole = a.whole and "sqrt" not in text
        self.write(text.format(a.name), a.bound**2 if square else a.bound + 1, whole, a.product or square)

    def select(self) -> None:
        c = self.pick(lambda v: v.dtype.is_bool)
        a = self.partner(c) if c else None
        b = self.partner(a) if a else None
        if c is None or a is None or b is None or not _together(c.shape, a.shape, b.shape):
            return
        self.write(f"where({c.name}, {a.name}, {b.name})", max(a.bound, b.bound), a.whole and b.whole, a.product or b.product)

    def cast(self) -> None:
        a = self.pick()
        if a is None:
            return
        dtype = self.one_of(DTYPES)
        same = {"int32": "uint32", "uint32": "float32", "int64": "float64", "uint16": "int16", "int8": "uint8"}.get(a.dtype.name)
        if same and self.draw(st.booleans()):
            self.write(f"{a.name}.bitcast({same!r})", math.inf, False)
        else:
            self.write(f"{a.name}.cast({dtype!r})", a.bound, a.whole or not dtype.startswith("f"), a.product)

    # ---- movement ----

    def move(self) -> None:
        a = self.pick(lambda v: len(v.shape) > 0)
        if a is None:
            return
        n = len(a.shape)
        kind = self.one_of(["slice", "permute", "reshape", "flip", "pad", "broadcast", "axis", "contiguous"])
        bound = a.bound
        if kind == "slice":
            text = f"{a.name}[{', '.join(self.span(size) for size in a.shape)}]"
        elif kind == "permute":
            text = f"{a.name}.permute({', '.join(map(str, self.draw(st.permutations(range(n)))))})"
        elif kind == "reshape":
            text = f"{a.name}.reshape({', '.join(map(str, self.split(a.size)))})"
        elif kind == "flip":
            text = f"{a.name}.flip({self.number(0, n - 1)})"
        elif kind == "pad":
            value = self.one_of([0, 1]) if a.dtype.is_bool else self.one_of([0, 3])
            widths = ", ".join(f"({self.number(0, 2)}, {self.number(0, 2)})" for _ in a.shape)
            text, bound = f"{a.name}.pad(({widths},), {bool(value) if a.dtype.is_bool else value})", max(bound, 3)
        elif kind == "broadcast":
            text = f"{a.name}.broadcast_to({(self.number(1, 3), *(self.number(2, 4) if s == 1 else s for s in a.shape))})"
        elif kind == "axis":
            text = f"{a.name}.expand_dims({self.number(0, n)})"
        else:
            text = f"{a.name}.contiguous()"
        self.write(text, bound, a.whole, a.product)

    def span(self, size: int) -> str:
        kind = self.one_of(["all", "index", "step", "back"])
        if kind == "all" or size == 1:
            return ":"
        if kind == "index":
            return str(self.number(-size, size - 1))
        first = self.number(0, size - 1)
        last = self.number(first, size - 1)
        step = self.number(1, 3)
        if kind == "step":
            return f"{first}:{last + 1}:{step}"
        return f"{last}:{first - 1 if first else ''}:{-step}"

    def split(self, size: int) -> list[int]:
        """A shape with this many elements."""
        divisor = self.one_of([d for d in (1, 2, 3, 4, 5, 7, size) if size % d == 0])
        return [divisor, size // divisor] if self.draw(st.booleans()) else [size // divisor, divisor, 1]

    def join(self) -> None:
        a = self.pick(lambda v: len(v.shape) > 0 and v.size <= MOST // 4)
        b = self.pick(lambda v: a is not None and v.shape == a.shape) if a else None
        if a is None or b is None:
            return
        axis = self.number(0, len(a.shape) - 1)
        name = self.one_of(["stack", "concatenate"])
        parts = ", ".join([a.name, b.name, a.name][: self.number(1, 3)])
        self.write(f"{name}([{parts}], {axis})", max(a.bound, b.bound), a.whole and b.whole, a.product or b.product)

    # ---- reductions ----

    def reduce(self) -> None:
        a = self.pick(lambda v: len(v.shape) > 0)
        if a is None:
            return
        axes: Any = self.one_of([None, *range(len(a.shape))] + ([(0, len(a.shape) - 1)] if len(a.shape) > 1 else []))
        many = a.size if axes is None else math.prod(a.shape[k] for k in (axes if isinstance(axes, tuple) else (axes,)))
        options = ["max", "min", "any", "all"]
        options += ["argmax", "argmin"] if not isinstance(axes, tuple) else []
        options += ["sum"] if not a.dtype.is_float or (a.whole and a.bound * many <= limit(a.dtype)) else []
        options += ["mean"] if a.whole and a.bound * many <= (limit(a.dtype) if a.dtype.is_float else 2**24) else []
        options += ["prod"] if not a.dtype.is_float and many <= 5000 else []
        name = self.one_of(options)
        bound = a.bound * many if name == "sum" else float(a.size) if name.startswith("arg") else a.bound
        keep = ", keepdims=True" if self.draw(st.booleans()) else ""
        self.write(f"{a.name}.{name}({axes}{keep})", math.inf if name == "prod" else bound, a.whole and name != "mean", a.product)

    def product(self) -> None:
        a = self.pick(lambda v: 0 < len(v.shape) <= 2 and v.whole)
        b = self.pick(lambda v: a is not None and 0 < len(v.shape) <= 2 and v.whole and v.shape[-2:][0] == a.shape[-1]) if a else None
        if a is None or b is None or a.dtype.is_bool or b.dtype.is_bool or a.size * b.shape[-1] > 4 * MOST:
            return
        bound = a.bound * b.bound * a.shape[-1]
        dtype = (a.tensor[..., :1].flatten()[0] * b.tensor[..., :1].flatten()[0]).dtype
        if not dtype.is_float or bound <= limit(dtype):
            self.write(f"{a.name} @ {b.name}", bound)

    # ---- tables ----

    def index(self, size: int, test: Callable[[Value], bool] = lambda v: True) -> tuple[str, Value] | None:
        """An index that lies within an axis of this size."""
        i = self.pick(lambda v: v.size <= 500 and test(v))
        if i is None:
            return None
        return (f"{i.name}.cast('int32') % {size}", i)

    def gather(self) -> None:
        a = self.pick(lambda v: len(v.shape) > 0)
        found = self.index(a.shape[0]) if a else None
        if a is None or found is None:
            return
        text, i = found
        if len(a.shape) > 1 and self.draw(st.booleans()):
            other = self.index(a.shape[-1], lambda v: v.shape == i.shape)
            assert other is not None
            key = f"{text}, {'..., ' if len(a.shape) > 2 else ''}{other[0]}"
            count = i.size * math.prod(a.shape[1:-1])
        else:
            key, count = text, i.size * math.prod(a.shape[1:])
        if count <= MOST:
            self.write(f"{a.name}[{key}]", a.bound, a.whole, a.product)

    def scatter(self) -> None:
        a = self.pick(lambda v: len(v.shape) > 0 and math.prod(v.shape[1:]) <= ROW)
        found = self.index(a.shape[0], lambda v: v.size <= 40) if a else None
        if a is None or found is None:
            return
        text, i = found
        rest = (*i.shape, *a.shape[1:])
        v = self.pick(lambda v: len(v.shape) <= len(rest) and _together(v.shape, rest) == rest and not v.product)
        if v is None:
            return
        modes = ["set", "min", "max"]
        if not a.dtype.is_bool and not a.product and (not a.dtype.is_float or (a.whole and v.whole)):
            modes.append("add")
        mode = self.one_of(modes)
        bound = a.bound + v.bound * i.size if mode == "add" else max(a.bound, v.bound)
        if mode == "add" and a.dtype.is_float and bound > limit(a.dtype):
            return
        self.write(f"{a.name}.scatter({text}, {v.name}, {mode!r})", bound, a.whole and v.whole, a.product or v.product)

    # ---- smooth functions ----

    def smooth(self) -> None:
        a = self.pick()
        b = self.partner(a) if a else None
        assert a is not None and b is not None
        x, y = a.name, b.name
        text = self.one_of(
            [
                f"{x}.sin()", f"{x}.cos()", f"({x} * 0.4).tan()", f"{x}.clip(-3, 3).exp()", f"{x}.clip(-3, 3).exp2()",
                f"({x}.abs() + 0.5).log()", f"({x}.abs() + 0.5).log2()", f"({x} / 4).clip(-0.9, 0.9).arcsin()",
                f"({x} / 4).clip(-0.9, 0.9).arccos()", f"{x}.arctan()", f"{x}.arctan2({y}.abs() + 0.5)",
                f"({x}.abs() + 0.5) ** {y}.clip(-3, 3)", f"{x} * {y}", f"{x} + {y}", f"{x} / ({y}.abs() + 0.5)",
                f"({x}.abs() + 0.1).sqrt()", f"({x}.abs() + 0.1).rsqrt()", f"{x}.fma({y}, 1)", f"{x}.mean(-1, keepdims=True)",
            ]
        )  # fmt: skip
        self.write(f"({text}).clip(-20, 20)", math.inf, False)


def _together(*shapes: Shape) -> Shape | None:
    """The broadcast of these shapes, None where there is none."""
    result: list[int] = []
    for k in range(1, max(map(len, shapes)) + 1):
        sizes = {s[-k] for s in shapes if len(s) >= k} - {1}
        if len(sizes) > 1:
            return None
        result.append(sizes.pop() if sizes else 1)
    return tuple(reversed(result))


def _program(writer: Writer, results: list[str], tolerance: float = 0.0) -> Program:
    names = ", ".join(i.name for i in writer.inputs)
    lines = [f"def program({names}):", *(f"    {line}" for line in writer.lines), f"    return ({', '.join(results)},)"]
    return Program(tuple(writer.inputs), "\n".join(lines) + "\n", tolerance)


STEPS = [
    "arithmetic", "with_number", "compare", "bits", "quotient", "unary", "select", "cast", "move", "move", "join", "reduce",
    "reduce", "product", "gather", "scatter",
]  # fmt: skip


@st.composite
def expressions(draw: Draw, most_tries: int = 24) -> Program:
    """Programs of array operations with exact results."""
    writer = Writer(draw)
    with tracing(Trace()):
        for _ in range(writer.number(1, 3)):
            dtype = writer.one_of(DTYPES)
            kinds = ["small", "wild"] if dtype.startswith("f") else ["small", "bits"]
            shape = writer.one_of(LONG if writer.number(0, 9) == 9 else SHAPES)
            writer.input(dtype, shape, writer.one_of(kinds))
        for _ in range(writer.number(3, most_tries)):  # a try that finds no operands writes nothing
            getattr(writer, writer.one_of(STEPS))()
    made = [line.split(" = ")[0] for line in writer.lines] or [writer.inputs[0].name]
    return _program(writer, made[-writer.number(1, 3) :])


@st.composite
def smooth_expressions(draw: Draw, most_steps: int = 6) -> Program:
    """Programs of transcendental and other rounded functions, to be compared with a tolerance."""
    writer = Writer(draw)
    with tracing(Trace()):
        dtype = writer.one_of(["float32", "float64"])
        shape = writer.one_of(SHAPES)
        for _ in range(writer.number(1, 2)):
            writer.input(dtype, shape, "[-3, 3]")
        for _ in range(writer.number(1, most_steps)):
            writer.smooth()
    return _program(writer, [line.split(" = ")[0] for line in writer.lines][-2:], 1e-3)
