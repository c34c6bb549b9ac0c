"""C-like source of a kernel, for devices whose compilers take source: one invocation is one lane.

A group is one lane, so a vote is its operand, `serial` is what stands inside, and an inner axis is as many variables as it has
elements. Control flow becomes loops and branches of the language; loop state and results are variables declared outside. What differs
between languages is a table (`dialect`); operations, memory and the walk over the lanes have files of their own.

The text is there to be read: one statement a line, values that are used once in the block that makes them are written where they are
used. Nothing is written twice, and nothing moves past a store: what is read from memory that the kernel writes, or from a private
array, has a variable. In a dialect with `precise` values of floats are named before they reach a place that has no such declaration:
a store, a condition, a call. Comparisons of floats are always named there: Mesa takes `x > c ? c : x` for a minimum otherwise, which
loses NaN.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from engine.compiler.emit.cstyle_inner import across, append
from engine.compiler.emit.cstyle_library import functions
from engine.compiler.emit.cstyle_memory import Layout, Memory, Place, layout
from engine.compiler.emit.cstyle_ops import Operations, bare, is_atom
from engine.compiler.emit.cstyle_source import Frame, Slot, Source
from engine.compiler.emit.cstyle_walk import tile_of, walk
from engine.compiler.emit.dialect import Dialect, register
from engine.compiler.emit.llvm import dim_names
from engine.compiler.emit.llvm_address import addresses
from engine.compiler.kernel import Block, BranchItem, Kernel, LoopItem, SerialItem, visit
from engine.compiler.print import shape_text
from engine.compiler.target import Target
from engine.frontend.trace import line_of
from engine.graph.dtypes import ArrayType, DType, float32
from engine.graph.uop import COMPARE, ELEMENTWISE, Op, UOp

_TURNED = 8  # statements of a loop's test that are written twice
_LONGEST = 88  # letters of a text that is still written where it is used
_PLAIN_ZERO = COMPARE | {Op.ADD, Op.SUB, Op.MAX, Op.MIN}  # where a compiler may know that an operand is 0
_STEMS = {"bool": "p", "int": "i", "uint": "u", "long": "l", "ulong": "w", "float": "f", "double": "d"}


class Emitter:
    """Writes one kernel. `names`: the texts of a value's elements (one, but for inner axes)."""

    def __init__(self, kernel: Kernel, dialect: Dialect, target: Target) -> None:
        self.kernel, self.dialect, self.target = kernel, dialect, target
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.names: dict[UOp, tuple[str, ...]] = {}
        self.storage: dict[UOp, str] = {}  # versions of private arrays -> the variable
        self.wanted: dict[str, None] = {}  # helper functions
        self.constants: dict[tuple[str, str], tuple[str, str]] = {}
        self.layout: Layout = layout(kernel, dialect, target)
        self.memory = Memory(self, self.layout)
        self.ops = Operations(dialect, target, self.declare, self.constant, self._need, addresses(kernel))
        self.dims = {name: "n_" + re.sub(r"\W", "_", name) for name in dim_names(kernel)}
        self.written = {b.leaf for b in kernel.buffers if b.written}
        self.once = self._used_once()
        self.loose: set[str] = set()  # texts of floats, and of comparisons of floats, that no variable holds yet
        self.factors: dict[UOp, tuple[str, str]] = {}  # of products that are written where they are used

    # ---- text ----

    def line(self, text: str) -> None:
        """A statement."""
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        """A name that no other variable has."""
        self.count += 1
        return f"{stem}{self.count}"

    def declare(self, kind: str, text: str, stem: str = "") -> str:
        """A variable of this kind of register with a value."""
        name = self.fresh(stem or _STEMS[kind])
        self.line(f"{self.typed(kind)} {name} = {bare(text)};")
        return name

    def typed(self, kind: str) -> str:
        """How the declaration of a variable begins."""
        precise = self.dialect.precise if kind in ("bool", "float", "double") else ""
        return f"{precise}{self.dialect.types[kind]}"

    def constant(self, kind: str, text: str, comment: str) -> str:
        """A constant that is written once, at the top."""
        key = (kind, text)
        if key not in self.constants:
            self.constants[key] = (f"c{len(self.constants)}", comment)
        return self.constants[key][0]

    def _need(self, function: str) -> None:
        self.wanted.setdefault(function)

    # ---- values ----

    def _used_once(self) -> set[UOp]:
        """Values with one use, by a scalar in the block that makes them."""
        made: dict[UOp, Block] = {}
        uses: dict[UOp, int] = {}
        place: dict[UOp, Block] = {}

        def use(values: Iterable[UOp], block: Block, times: int = 1) -> None:
            for value in values:
                uses[value] = uses.get(value, 0) + times
                place[value] = block

        for block in self.kernel.blocks():
            for item in block.items:
                if isinstance(item, UOp):
                    made[item] = block
                    scalar = item.dtype is None or isinstance(item.dtype, ArrayType) or item.dtype.count == 1
                    use(item.src, block, 1 if scalar and item.op != Op.APPEND else 2)
                elif isinstance(item, LoopItem):
                    use((v.init for v in item.vars), block)
                    use([item.condition], item.test)
                    use((v.next for v in item.vars), item.body)
                elif isinstance(item, BranchItem):
                    use([item.selector], block, 1 if item.kind == "cond" else 2)
                    for _, values in item.results:
                        for arm, value in zip(item.arms, values, strict=True):
                            use([value], arm)
                else:
                    use((value for _, value in item.results), item.body)
        return {v for v, n in uses.items() if n == 1 and v in made and made[v] is place[v]}

    def elements(self, value: UOp, count: int = 1) -> tuple[str, ...]:
        """The texts of a value's elements, as many as `count`."""
        if value.op == Op.CONST:
            known: tuple[str, ...] = (self.ops.number(value.dtype.scalar, value.arg),)
        elif value.op == Op.DIM:
            known = (self.dims[value.arg],)
        else:
            known = self.names[value]
        return known if len(known) == count else known * count

    def text(self, value: UOp) -> str:
        """The text of a scalar."""
        (found,) = self.elements(value)
        return found

    def settled(self, value: UOp) -> str:
        """The text of a scalar for a place where a dialect's `precise` does not reach."""
        return self.settle(register(value.dtype), self.text(value))

    def settle(self, kind: str, text: str) -> str:
        """A text, or a variable of it where it computes with floats that are to be precise."""
        if not self.dialect.precise or is_atom(text) or text not in self.loose:
            return text
        return self.declare(kind, text)

    def name(self, node: UOp, texts: list[str], stem: str = "") -> None:
        """Gives a value its texts: variables, or what is to be written where the value is used."""
        kind = register(node.dtype)
        inline = node in self.once and len(texts) == 1 and len(texts[0]) <= _LONGEST and self._pure(node)
        floats = any(isinstance(s.dtype, DType) and s.dtype.is_float for s in (node, *node.src))
        if inline and not (self.dialect.precise and floats and kind == "bool"):
            if floats or any(self.elements(s)[0] in self.loose for s in node.src if s in self.names and s.dtype.count == 1):
                self.loose.add(texts[0])
            self.names[node] = (texts[0],)
        else:
            self.names[node] = tuple(t if is_atom(t) else self.declare(kind, t, stem) for t in texts)

    def _pure(self, node: UOp) -> bool:
        return node.op in ELEMENTWISE or node.op in (Op.GATHER, Op.VOTE) or (node.op == Op.LOAD and node.src[0] not in self.written)

    # ---- blocks ----

    def block(self, block: Block) -> None:
        """The items of a block, in order."""
        self.memory.texels.append({})
        for straight, items in groupby(block.items, key=lambda item: isinstance(item, UOp)):
            run = list(items)
            if straight:
                self.memory.ahead = self.memory.rows(run)
            for item in run:
                visit(item, self)
        self.memory.texels.pop()

    def value(self, node: UOp) -> None:
        """One operation."""
        op = node.op
        if op in ELEMENTWISE:
            self.name(node, self.elementwise(node))
        elif op == Op.LOAD:
            self.name(node, self.memory.load(node))
        elif op == Op.GATHER:
            self.name(node, self.memory.table(node))
        elif op == Op.STORE:
            self.memory.store(node)
        elif op == Op.ARRAY:
            self.storage[node] = self.memory.array(node)
        elif op == Op.ARRAY_GET:
            array = self.storage[node.src[0]]
            self.names[node] = (self.declare(register(node.dtype), f"{array}[{bare(self.settled(node.src[1]))}]"),)
        elif op == Op.ARRAY_SET:
            array = self.storage[node] = self.storage[node.src[0]]
            index, data = self.settled(node.src[1]), self.settled(node.src[2])
            self.line(f"{array}[{bare(index)}] = {bare(data)};")
        elif op == Op.APPEND:
            append(self, node)
        elif op == Op.PROJ:
            pass  # APPEND named its new top
        elif op == Op.VOTE:
            value = self.text(node.src[0])
            self.name(node, [self.ops.cast(node.src[0].dtype, node.dtype, value) if node.arg[0] == "count" else value])
        elif op == Op.ACROSS:
            self.name(node, [across(self, node)])
        elif op == Op.SPLIT:
            self.names[node] = (self.elements(node.src[0], node.src[0].dtype.count)[node.arg],)
        elif op == Op.IOTA:
            self.names[node] = tuple(str(k) for k in range(node.dtype.count))
        elif op == Op.PRINT:
            where = f"{line_of(node)}: " if line_of(node) else ""
            raise ValueError(
                f"{where}debug_print runs on cpu and reference, not on {self.dialect.name}; take it out, or use one of these backends"
            )
        elif op != Op.LANE:  # LANE: the walk has named it
            raise AssertionError(f"no C for {node!r}")

    def elementwise(self, node: UOp) -> list[str]:
        """The elements of an operation."""
        count = node.dtype.count
        operands = [self.elements(s, count) for s in node.src]
        if node.op in _PLAIN_ZERO:
            for k, s in enumerate(node.src):
                operands[k] = (self.ops.literal(s.dtype, s.arg),) * count if s.op == Op.CONST else operands[k]
        if register(node.dtype) not in ("bool", "float", "double"):  # their variables are not precise
            operands = [tuple(self.settle(register(s.dtype), t) for t in o) for s, o in zip(node.src, operands, strict=True)]
        if node.dtype is float32 and self.fusing:
            if node.op == Op.MUL:
                self.factors[node] = operands[0][0], operands[1][0]
            elif node.op in (Op.ADD, Op.SUB):
                fused = self.fused(node)
                if fused:
                    return [fused]
        return [self.ops.elementwise(node, [o[k] for o in operands]) for k in range(count)]

    def fused(self, node: UOp) -> str | None:
        """A sum of a product that has no other use, rounded once."""
        for k, s in enumerate(node.src):
            if s in self.factors and s in self.once and self.text(s) in self.loose:
                a, b = (self.ops.named("float", f) for f in self.factors[s])
                c = self.ops.named("float", self.text(node.src[1 - k]))
                if node.op == Op.SUB:
                    a, c = (f"-{a}", c) if k == 1 else (a, f"-{c}")
                return f"fma({bare(a)}, {bare(b)}, {bare(c)})"
        return None

    @property
    def fusing(self) -> bool:
        """True where a * b + c is to be written as `fma`."""
        return self.target.contract and self.target.fuses and not self.dialect.contracts

    # ---- control flow ----

    def loop(self, loop: LoopItem) -> None:
        """State in variables declared before. The test stands before the loop and again at its end, where it is short: a processor's
        driver masks lanes off and takes one more turn, with no lane in it, to find out at the head that all have left."""
        state = [v for v in loop.vars if not isinstance(v.var.dtype, ArrayType)]
        for v in loop.vars:
            if isinstance(v.var.dtype, ArrayType):
                self.storage[v.var] = self.storage[v.init]
                if v.result is not None:
                    self.storage[v.result] = self.storage[v.init]
        for v in state:
            kind, count = register(v.var.dtype), v.var.dtype.count
            self.names[v.var] = tuple(self.declare(kind, t, "s") for t in self.elements(v.init, count))
        at = len(self.lines)
        self.block(loop.test)
        test = self.settled(loop.condition)
        asked = self.lines[at:]
        again = [_again(line) for line in asked]
        turned = len(asked) <= _TURNED and all(again)
        if turned:
            self.line(f"if ({bare(test)}) do {{")
        else:
            self.lines[at:] = ["    " * self.depth + "for (;;) {", *("    " + line for line in asked)]
            self.line(f"    if (!{test if is_atom(test) else f'({bare(test)})'}) break;")
        self.depth += 1
        self.block(loop.body)
        moves = []
        for v in state:
            for target, following in zip(self.names[v.var], self.elements(v.next, v.var.dtype.count), strict=True):
                if following != target:
                    moves.append((register(v.var.dtype), target, following))
        self.assign(moves)
        if turned:
            self.lines += [f"    {line}" for line in again]
        self.depth -= 1
        self.line(f"}} while ({bare(test)});" if turned else "}")
        for v in state:
            if v.result is not None:
                self.names[v.result] = self.names[v.var]

    def assign(self, moves: list[tuple[str, str, str]]) -> None:
        """Assignments (kind, variable, text) that happen together: a variable is overwritten once nobody else reads it."""
        targets = {target for _, target, _ in moves}
        reads = {target: {w for w in re.findall(r"\w+", text) if w in targets and w != target} for _, target, text in moves}
        readers = dict.fromkeys(targets, 0)
        for used in reads.values():
            for name in used:
                readers[name] += 1
        texts = {target: (kind, text) for kind, target, text in moves}
        ready = [t for _, t, _ in moves if not readers[t]]
        waiting = dict.fromkeys(t for _, t, _ in moves if readers[t])
        while texts:
            if not ready:  # a circle: the old value of one is kept
                held = next(iter(waiting))
                copy = self.declare(texts[held][0], held, "old")
                for target, used in reads.items():
                    if target in texts and held in used:
                        kind, text = texts[target]
                        texts[target] = (kind, re.sub(rf"\b{held}\b", copy, text))
                        used.discard(held)
                del waiting[held]
                readers[held] = 0
                ready.append(held)
            target = ready.pop()
            _, text = texts.pop(target)
            self.line(f"{target} = {bare(text)};")
            for name in reads[target]:
                readers[name] -= 1
                if not readers[name] and name in waiting:
                    del waiting[name]
                    ready.append(name)

    def branch(self, branch: BranchItem) -> None:
        """Arms that assign to the results' variables. A switch takes the nearest arm for a selector that names none."""
        selector = self.settled(branch.selector)
        if branch.kind == "switch" and len(branch.arms) > 2:
            selector = self.ops.named("int", selector)
        outs: list[tuple[UOp, tuple[UOp, ...]]] = []
        for result, values in branch.results:
            if not isinstance(result.dtype, ArrayType):
                outs.append((result, values))
                kind = register(result.dtype)
                self.names[result] = tuple(self.fresh("r") for _ in range(result.dtype.count))
                for name in self.names[result]:
                    self.line(f"{self.typed(kind)} {name};")
        last = len(branch.arms) - 1
        for k, arm in enumerate(branch.arms):
            if last == 0:
                self.line("{")
            elif branch.kind == "cond":
                self.line(f"if ({bare(selector)}) {{" if k == 0 else "} else {")
            else:
                test = f"if ({bare(selector)} {'<=' if k == 0 else '=='} {k}) {{"
                self.line(test if k == 0 else f"}} else {test}" if k < last else "} else {")
            self.depth += 1
            self.block(arm)
            for result, values in outs:
                for name, text in zip(self.names[result], self.elements(values[k], result.dtype.count), strict=True):
                    self.line(f"{name} = {bare(text)};")
            self.depth -= 1
        self.line("}")
        for result, values in branch.results:
            if isinstance(result.dtype, ArrayType):
                self.storage[result] = self.storage[values[0]]

    def serial(self, item: SerialItem) -> None:
        """A lane is alone in its group: what stands inside, with no more ado."""
        self.block(item.body)
        for result, value in item.results:
            kind = register(result.dtype)
            self.names[result] = tuple(
                t if is_atom(t) else self.declare(kind, t) for t in self.elements(value, result.dtype.count)
            )

    # ---- the whole ----

    def source(self) -> Source:
        """The kernel's text."""
        kernel, dialect = self.kernel, self.dialect
        one = kernel.ordered or not kernel.lanes
        workgroup = 1 if one else kernel.workgroup
        tile = (1, workgroup) if one or kernel.walk != "tiles" else tile_of(workgroup)
        walk(self, workgroup, tile)
        code = "\n".join(self.lines)
        features = self._features()
        frame = Frame(
            kernel.name,
            self._comments(workgroup, tile),
            self.layout.own,
            self.layout.textures,
            self.layout.packed,
            self.layout.parameters,
            [*self.dims.values(), *self.layout.offsets],
            workgroup,
            kernel.ordered,
            not one,
            not dialect.keeps_zero and re.search(r"\bzero\b", code) is not None,
            self.target.contract,
            features,
            [(name, kind, text, comment) for (kind, text), (name, comment) in self.constants.items()],
            functions(dialect, list(self.wanted)),
            self.memory.tables_text(),
            self.lines,
        )
        first = len(self.dims)
        words = (*(f"dim:{name}" for name in self.dims), *(f"slot:{k}" for k in self.layout.shared))
        slots = tuple(
            Slot(s.kind, s.binding, first + s.offset if s.offset >= 0 else -1, self._format(s, b.dtype))
            for s, b in zip(self.layout.slots, kernel.buffers, strict=True)
        )
        return Source(
            kernel.name, dialect.frame(frame), workgroup, kernel.lanes, tile, slots, words, len(self.layout.own) + self.layout.packed,
            self.layout.parameters, features, kernel.ordered,
        )  # fmt: skip

    def _format(self, place: Place, dtype: DType) -> str:
        """The format of a texture's texels."""
        if place.kind != "texture":
            return ""
        return {1: "R", 2: "RG", 4: "RGBA"}[place.wide] + self.dialect.texels[dtype.name][1]

    def _comments(self, workgroup: int, tile: tuple[int, int]) -> list[str]:
        kernel = self.kernel
        shape = f"tiles of {tile[0]} x {tile[1]}" if tile[0] > 1 else f"workgroups of {workgroup}"
        shape = "one after another" if kernel.ordered else shape
        lines = [f"// {kernel.name}: lanes {shape_text(kernel.lanes)}, {shape}"]
        for place, buffer in zip(self.layout.slots, kernel.buffers, strict=True):
            use = "read and written" if buffer.read and buffer.written else "written" if buffer.written else "read"
            where = "" if place.kind == "own" else f", {place.kind}"
            lines.append(f"// {place.name}: {buffer.dtype}{shape_text(buffer.shape)}, {use}{where}")
        return lines

    def _features(self) -> frozenset[str]:
        found: set[str] = set()
        types = {b.dtype for b in self.kernel.buffers}
        for block in self.kernel.blocks():
            for item in block.items:
                if isinstance(item, UOp):
                    for node in (item, *item.src):
                        kind = node.dtype.dtype if isinstance(node.dtype, ArrayType) else node.dtype
                        if kind is not None:
                            types.add(kind.scalar)
        for dtype in types:
            if dtype.bits == 64:
                found.add("float64" if dtype.is_float else "int64")
        if not self.target.fuses and any(
            isinstance(i, UOp) and i.op == Op.FMA and i.dtype.scalar is float32 for block in self.kernel.blocks() for i in block.items
        ):
            found.add("float64")
        return frozenset(found)


def _again(line: str) -> str:
    """A declaration as an assignment to what it declared; "" for other statements."""
    found = re.fullmatch(r"( *)(?:precise )?\w+ (\w+ = .*;)", line)
    return found[1] + found[2] if found else ""


def emit(kernel: Kernel, dialect: Dialect, target: Target) -> Source:
    """The text of a kernel in a dialect (`dialect_opencl.OPENCL`, `dialect_glsl.GLSL`) within the limits of a target.

    Raises ValueError, with the user's line, for what the language lacks: prints, float64 functions in GLSL.
    """
    return Emitter(kernel, dialect, target).source()


__all__ = ["Emitter", "Slot", "Source", "emit"]
