"""Random programs of control flow over lanes: loops, branches, private arrays, votes, serial regions, nested. See `programs`.

Types are one letter: i, u, f, b for int32, uint32, float32, bool; a capital letter has an inner axis after the lanes. Every loop
has a guard that ends it. Votes stand where all lanes of a group agree on the outcome whatever the group: before a loop or a
branch that each lane guards for itself, or in a predicate that holds for every live lane.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.engine.programs import Input, Program, Shape

LANES: list[Shape] = [(3,), (1,), (17,), (2, 3), (4, 4), (31, 5)]
DTYPE = {"i": "int32", "u": "uint32", "f": "float32", "b": "bool"}
CONSTANTS = {
    "i": ["0", "1", "-1", "2", "3", "7", "-5", "31", "32", "100", "2147483647", "-2147483648"],
    "u": ["0", "1", "2", "3", "31", "33", "255", "4294967295"],
    "f": ["0.0", "1.0", "-1.5", "2.5", "1e30", "inf", "-inf", "nan"],
    "b": ["True", "False"],
}

Draw = Callable[..., Any]


@dataclass(frozen=True)
class Variable:
    """`full`: its shape has the lanes in front; other variables may have the shape ()."""

    name: str
    type: str
    full: bool = True


@dataclass(frozen=True)
class PrivateArray:
    """The newest version of a private array. `key` names the array. `mutable`: it may be changed where we are."""

    key: str
    name: str
    type: str
    length: int
    mutable: bool


@dataclass
class Block:
    """Lines of one function of the program, and what they may name. `top`: outside of all bodies."""

    variables: list[Variable]
    arrays: dict[str, PrivateArray]
    depth: int
    top: bool = False
    lines: list[str] = field(default_factory=list)

    def inside(self, variables: list[Variable], repeats: bool) -> Block:
        """A body. One that repeats cannot change arrays from outside."""
        arrays = {k: PrivateArray(k, a.name, a.type, a.length, a.mutable and not repeats) for k, a in self.arrays.items()}
        return Block([*self.variables, *variables], arrays, self.depth - 1)

    def add(self, header: str, body: Block, result: list[str]) -> None:
        """A function with this body."""
        self.lines += [header, *(f"    {line}" for line in body.lines), f"    return {tuple_of(result)}"]


def tuple_of(parts: list[str]) -> str:
    """The text of a tuple."""
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


class Writer:
    """Writes a program, statement by statement."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.count = 0
        self.inputs: list[Input] = []
        self.lanes: Shape = self.one_of(LANES)
        self.inner = self.one_of([2, 3, 4, 8])
        self.dims = ("height", "width")[: len(self.lanes)] if self.number(0, 3) == 3 else ()
        self.left = self.number(2, 12)  # statements that may still have bodies
        self.tables: list[tuple[str, str, Shape]] = []  # name, type, shape
        self.top = Block([], {}, 3, True)

    # ---- pieces ----

    def one_of(self, options: list[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def number(self, least: int, most: int) -> int:
        return int(self.draw(st.integers(least, most)))

    def chance(self) -> bool:
        return bool(self.draw(st.booleans()))

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def input(self, name: str, type: str, shape: Shape, kind: str = "small") -> None:
        dims = self.dims if shape[: len(self.lanes)] == self.lanes else ()
        self.inputs.append(Input(name, DTYPE[type.lower()], shape, kind, self.number(0, 99), dims))

    def start(self) -> None:
        """Inputs of all types, and tables; some tables are computed."""
        whole = ["small", "bits"]
        for name, type, kinds in (("x", "i", whole), ("y", "u", whole), ("z", "f", ["wild"]), ("p", "b", ["small"])):
            self.input(name, type, self.lanes, self.one_of(kinds))
            self.top.variables.append(Variable(name, type))
        for name, type, kind in (("xs", "I", "small"), ("zs", "F", "wild")):
            self.input(name, type, (*self.lanes, self.inner), kind)
            self.top.variables.append(Variable(name, type))
        for name, type, shape, kind in (("s", "i", (5,), "small"), ("t", "f", (1,), "wild"), ("r", "i", (4, 3), "bits")):
            self.input(name, type, shape, kind)
            self.tables.append((name, type, shape))
        if len(self.lanes) == 1 and self.chance():
            self.tables.append(("x", "i", self.lanes))
        if self.chance():
            self.top.lines.append("s2 = s.flip(0) + 1")
            self.tables.append(("s2", "i", (5,)))
        if self.chance():
            self.array(self.top)
        if self.chance():
            self.top.lines.append("most = x.max()")
            self.top.variables.append(Variable("most", "i", False))

    def variable(self, block: Block, type: str, full: bool = False) -> str:
        """A variable of this type, newer ones first."""
        return str(self.one_of([v.name for v in reversed(block.variables) if v.type == type and (v.full or not full)]))

    # ---- expressions ----

    def expression(self, block: Block, type: str, level: int = 2) -> str:
        """An expression; with an inner axis if the type is a capital letter."""
        if level == 0 or self.number(0, 3) == 0:
            return self.leaf(block, type)
        return {"i": self.integer, "u": self.unsigned, "f": self.float, "b": self.truth}[type.lower()](block, type, level - 1)

    def leaf(self, block: Block, type: str) -> str:
        names = [v.name for v in reversed(block.variables) if v.type == type]
        if not names or self.number(0, 3) == 0:
            constant = f"{type.upper()}({self.one_of(CONSTANTS[type.lower()])})"
            if type.islower():
                return constant
            other = {"I": "xs", "U": "xs.cast('uint32')", "F": "zs", "B": "xs > 0"}[type]
            return f"where(xs > {self.number(-3, 3)}, {constant}, {other})"
        return str(self.one_of(names))

    def operand(self, block: Block, type: str, level: int) -> str:
        """For a type with an inner axis: the same, or one value for all of the axis."""
        if type.isupper() and self.chance():
            return f"({self.expression(block, type.lower(), level)})[..., None]"
        return f"({self.expression(block, type, level)})"

    def pair(self, block: Block, type: str, level: int) -> tuple[str, str]:
        """Two operands; where there is an inner axis, the first has it."""
        return f"({self.expression(block, type, level)})", self.operand(block, type, level)

    def with_case(self, letter: str, type: str) -> str:
        return letter.upper() if type.isupper() else letter

    def common(self, block: Block, type: str, level: int) -> str:
        """What all types have: selection, minimum, maximum, tables, private arrays, the inner axis in another order."""
        a, b = self.pair(block, type, level)
        options = [f"where({self.expression(block, self.with_case('b', type), level)}, {a}, {b})"]
        if type.isupper():
            options.append(f"{a}[..., ::-1]")
        else:
            options.append(f"where({self.agreed(block, level)}, {a}, {b})")
            options += [f"{array.name}[{self.place(block, array.length, level)}]" for array in block.arrays.values() if array.type == type]
        for name, kind, shape in self.tables:
            if kind == type.lower():
                index = f"({self.expression(block, self.with_case('i', type), level)}) % {shape[0]}"
                second = f", ({self.expression(block, 'i', level)}){'[..., None]' if type.isupper() else ''} % {shape[-1]}"
                options.append(f"{name}[{index}{second if len(shape) == 2 else ''}]")
        return str(self.one_of(options))

    def place(self, block: Block, length: int, level: int) -> str:
        """An index of a private array."""
        if self.chance():
            return str(self.number(0, length - 1))
        return f"({self.expression(block, 'i', level)}) % {length}"

    def agreed(self, block: Block, level: int) -> str:
        """A vote that holds for every live lane, whatever its group."""
        p, n = f"({self.expression(block, 'b', level)})", f"({self.expression(block, 'i', level)})"
        return str(
            self.one_of(
                [
                    f"group.any({p}) | ~{p}", f"~group.all({p}) | {p}", f"group.max({n}) >= {n}", f"group.min({n}) <= {n}",
                    f"group.count({p}) >= {p}.cast('int32')", f"(group.first({n}) == {n}) | (group.count(B(True)) > 1)",
                ]
            )
        )  # fmt: skip

    def reduction(self, block: Block, names: list[str], type: str, level: int) -> str:
        """Over the inner axis."""
        return f"({self.expression(block, type, level)}).{self.one_of(names)}(-1)"

    def integer(self, block: Block, type: str, level: int) -> str:
        kind = self.one_of(["arithmetic", "shift", "common", "unary", "cast", "reduction"])
        if kind == "common":
            return self.common(block, type, level)
        a, b = self.pair(block, type, level)
        if kind == "arithmetic":
            op = self.one_of(["+", "-", "*", "//", "%", "&", "|", "^", "maximum", "minimum"])
            return f"{op}({a}, {b})" if op.startswith("m") else f"{a} {op} {b}"
        if kind == "shift":
            return f"{a} {self.one_of(['<<', '>>'])} {b}"
        if kind == "unary":
            return str(self.one_of([f"-{a}", f"~{a}", f"abs({a})"]))
        if kind == "reduction" and type.islower():
            row, names = self.one_of([("I", ["sum", "min", "max", "argmin", "argmax"]), ("F", ["argmin", "argmax"])])
            return self.reduction(block, names, row, level)
        source = self.with_case(self.one_of(["u", "f", "b"]), type)
        return f"({self.expression(block, source, level)}).cast('int32')"

    def unsigned(self, block: Block, type: str, level: int) -> str:
        if self.chance():
            return self.common(block, type, level)
        a, b = self.pair(block, type, level)
        op = self.one_of(["+", "*", "-", "//", "%", ">>", "<<", "^", "&", "|", "maximum", "minimum", "cast"])
        if op == "cast":
            return f"({self.expression(block, self.with_case(self.one_of(['i', 'f', 'b']), type), level)}).cast('uint32')"
        return f"{op}({a}, {b})" if op.startswith("m") else f"{a} {op} {b}"

    def float(self, block: Block, type: str, level: int) -> str:
        kind = self.one_of(["arithmetic", "common", "unary", "cast", "reduction"])
        if kind == "common":
            return self.common(block, type, level)
        if kind == "cast":
            return f"({self.expression(block, self.with_case(self.one_of(['i', 'u', 'b']), type), level)}).cast('float32')"
        if kind == "reduction" and type.islower():
            return self.reduction(block, ["min", "max"], "F", level)
        a, b = self.pair(block, type, level)
        if kind == "unary":
            return str(self.one_of([f"-{a}", f"abs({a})", f"{a}.floor()", f"{a}.round()", f"abs({a}).sqrt()"]))
        op = self.one_of(["+", "-", "maximum", "minimum"])
        return f"{op}({a}, {b})" if op.startswith("m") else f"{a} {op} {b}"

    def truth(self, block: Block, type: str, level: int) -> str:
        kind = self.one_of(["compare", "logic", "common", "reduction", "product"])
        if kind == "common":
            return self.common(block, type, level)
        if kind == "reduction" and type.islower():
            return self.reduction(block, ["any", "all"], "B", level)
        if kind == "logic":
            a, b = self.pair(block, type, level)
            return str(self.one_of([f"{a} & {b}", f"{a} | {b}", f"{a} ^ {b}", f"~{a}"]))
        if kind == "product":
            a, b = self.pair(block, self.with_case("f", type), 0)
            return f"{a} * {b} < {self.operand(block, self.with_case('f', type), 0)}"
        a, b = self.pair(block, self.with_case(self.one_of(["i", "u", "f"]), type), level)
        return f"{a} {self.one_of(['<', '<=', '==', '!=', '>', '>='])} {b}"

    # ---- statements ----

    def statements(self, block: Block, least: int, most: int) -> None:
        for _ in range(self.number(least, most)):
            kinds = ["let", "let", "array", "array"]
            if block.depth > 0 and self.left > 0:
                kinds = ["loop", "branch", "choice", "serial", "append", *kinds, "loop", "branch"]
            kind = self.one_of(kinds)
            self.left -= kind not in ("let", "array")
            getattr(self, kind)(block)

    def let(self, block: Block) -> None:
        type = self.one_of(["i", "u", "f", "b", "I", "F", "B"])
        name = self.fresh("v")
        block.lines.append(f"{name} = {self.expression(block, type)}")
        block.variables.append(Variable(name, type, type.isupper()))

    def array(self, block: Block) -> None:
        """A new private array, or an element of one set."""
        found = [a for a in block.arrays.values() if a.mutable]
        if not found or self.number(0, 2) == 0:
            type, length, name = self.one_of(["i", "f", "b", "u"]), self.number(1, 5), self.fresh("a")
            fill = self.one_of(CONSTANTS[type])
            block.lines.append(f"{name} = local_array({length}, {DTYPE[type]!r}, fill={fill})")
            block.arrays[name] = PrivateArray(name, name, type, length, True)
            return
        self.put(block, self.one_of(found))

    def put(self, block: Block, a: PrivateArray) -> None:
        """Sets an element."""
        name = self.fresh("a")
        block.lines.append(f"{name} = {a.name}.set({self.place(block, a.length, 1)}, {self.expression(block, a.type)})")
        block.arrays[a.key] = PrivateArray(a.key, name, a.type, a.length, True)

    def results(self, block: Block) -> list[str]:
        """Types of what a body returns. At the top the first is one value a lane, so that the lanes are known."""
        types = [self.one_of(["i", "f", "u", "b", "i", "I", "F"]) for _ in range(self.number(1, 3))]
        return ["i", *types] if block.top else types

    def values(self, body: Block, types: list[str], top: bool) -> list[str]:
        """What a body returns; at the top the first has all lanes."""
        found = [self.expression(body, type) for type in types]
        if top:
            found[0] = f"x + ({found[0]})"
        return found

    def receive(self, block: Block, types: list[str], arrays: list[PrivateArray], first: str = "") -> str:
        """Names for results of these types, and new versions of these arrays; the left side of the assignment."""
        names = [self.fresh("v") for _ in types]
        block.variables += [Variable(n, t) for n, t in zip(names, types)]
        for a in arrays:
            name = self.fresh("a")
            names.append(name)
            block.arrays[a.key] = PrivateArray(a.key, name, a.type, a.length, a.mutable)
        return tuple_of([first, *names] if first else names)

    def loop(self, block: Block) -> None:
        """for_loop, while_loop, or a loop that goes on while any lane of the group does, guarded by each."""
        kind = self.one_of(["for", "while", "any"])
        types = self.results(block)
        starts = [self.expression(block, t, 1) for t in types]
        if block.top:
            starts[0] = "x"
        states = [Variable(self.fresh("q"), t) for t in types]
        arrays = [a for a in block.arrays.values() if a.mutable and self.chance()]
        names = [self.fresh("a") for _ in arrays]
        counter = self.fresh("n")
        body = block.inside([*states, Variable(counter, "i")], repeats=True)
        for a, name in zip(arrays, names):
            body.arrays[a.key] = PrivateArray(a.key, name, a.type, a.length, True)
        seen = Block([*block.variables, *states], dict(body.arrays), 0)  # what the condition may name
        limit = self.one_of(["3", "2", "1", "0", "(x & 3)", f"(({self.expression(block, 'i', 1)}) & 3)"])
        self.statements(body, 0, 3)
        for a in arrays:
            if self.chance():
                self.put(body, body.arrays[a.key])
        afters = []
        for state in states:  # invariants, swaps, chains
            same = [s.name for s in states if s.type == state.type]
            afters.append(self.one_of(same) if self.number(0, 2) == 0 else self.expression(body, state.type))
        afters += [body.arrays[a.key].name for a in arrays]
        arguments = [s.name for s in states] + names
        starts += [a.name for a in arrays]
        function = self.fresh("body")
        header = f"def {function}({', '.join([counter, *arguments])}):"
        if kind == "for":
            block.add(header, body, afters)
            block.lines.append(f"{self.receive(block, types, arrays)} = for_loop({limit}, {function}, {tuple_of(starts)})")
            return
        block.add(header, body, [f"{counter} + 1", *afters])
        test = self.fresh("going")
        going = f"({counter} < {limit}) & ({self.expression(seen, 'b', 1)})"
        block.lines.append(f"def {test}({', '.join([counter, *arguments])}): return {going}")
        if kind == "any":
            guarded, voted = self.fresh("body"), self.fresh("going")
            block.lines.append(f"def {voted}(*state): return group.any({test}(*state))")
            block.lines.append(f"def {guarded}(*state): return cond({test}(*state), {function}, lambda *s: s, *state)")
            function, test = guarded, voted
        block.lines.append(f"{self.receive(block, types, arrays, '_')} = while_loop({test}, {function}, {tuple_of(['I(0)', *starts])})")

    def arms(self, block: Block, count: int) -> tuple[list[str], list[str], list[PrivateArray]]:
        """Functions of the arms of a branch; the types of their results; the arrays that any of them changed."""
        types = self.results(block)
        bodies = []
        for _ in range(count):
            body = block.inside([], repeats=False)
            self.statements(body, 0, 2)
            bodies.append((body, self.values(body, types, block.top)))
        changed = [a for k, a in block.arrays.items() if any(body.arrays[k].name != a.name for body, _ in bodies)]
        names: list[str] = []
        for body, values in bodies:
            names.append(self.fresh("arm"))
            block.add(f"def {names[-1]}():", body, [*values, *(body.arrays[a.key].name for a in changed)])
        return names, types, changed

    def branch(self, block: Block) -> None:
        """cond, perhaps behind a vote that skips what no lane wants."""
        p = self.fresh("v")
        block.lines.append(f"{p} = ({self.expression(block, 'b')}){' ^ p' if block.top else ''}")
        (then, other), types, changed = self.arms(block, 2)
        each = f"lambda: cond({p}, {then}, {other})"
        call = self.one_of(
            [
                f"cond({p}, {then}, {other})", f"cond(group.any({p}), {each}, {other})", f"cond(group.all({p}), {then}, {each})",
                f"cond(group.first({p}), {each}, {each})", f"cond(group.count({p}) > 1, {each}, {each})",
            ]
        )  # fmt: skip
        block.lines.append(f"{self.receive(block, types, changed)} = {call}")

    def choice(self, block: Block) -> None:
        """switch; a case may occur twice."""
        index = self.expression(block, self.one_of(["i", "u"]), 1)
        names, types, changed = self.arms(block, self.number(1, 3))
        cases = [self.one_of(names) for _ in range(self.number(0, 2))] + names
        block.lines.append(f"{self.receive(block, types, changed)} = switch({index}, [{', '.join(cases)}])")

    def serial(self, block: Block) -> None:
        """The lanes one after another: inner axes, loops over them, private arrays of its own."""
        types = self.results(block)
        body = block.inside([], repeats=True)
        for _ in range(self.number(1, 3)):
            self.let(body)
        self.statements(body, 0, 2)
        function = self.fresh("alone")
        block.add(f"def {function}():", body, self.values(body, types, block.top))
        block.lines.append(f"{self.receive(block, types, [])} = serial({function})")

    def append(self, block: Block) -> None:
        """Fills a stack from rows of an inner axis, and empties it, from the top, into a value that depends on the order."""
        type = self.one_of(["I", "F"])
        rounds = self.number(1, 2)
        stack, top = self.fresh("stack"), self.fresh("top")
        block.lines.append(f"{stack} = local_array({self.inner * (rounds + 1)}, {DTYPE[type.lower()]!r})")
        at = "0"
        for _ in range(rounds):
            mask, values = f"({self.expression(block, 'B', 1)})", f"({self.expression(block, type, 1)})"
            after = self.fresh("stack")
            block.lines.append(f"{after}, {top} = {stack}.append_where({at}, {mask}, {values} + 0)")
            stack, at = after, top
        name = self.fresh("v")
        step = "total * 3 + s[top - 1].cast('int32')"
        block.lines.append(
            f"_, {name}, _ = while_loop(lambda top, total, s: top > 0, lambda top, total, s: (top - 1, {step}, s), "
            f"({top}, I({self.number(-1, 1)}), {stack}))"
        )
        block.variables.append(Variable(name, "i"))


@st.composite
def control_programs(draw: Draw) -> Program:
    """Programs of nested control flow with exact results."""
    writer = Writer(draw)
    writer.start()
    top = writer.top
    writer.statements(top, 2, 6)
    results = [writer.expression(top, type, 1) for type in writer.results(top)]
    names = ", ".join(i.name for i in writer.inputs)
    lines = [f"def program({names}):", *(f"    {line}" for line in top.lines), f"    return {tuple_of(results)}"]
    return Program(tuple(writer.inputs), "\n".join(lines) + "\n")
