"""Memory in C-like languages: where buffers are found, loads, stores, private arrays, tables of constants.

A buffer reaches the code in one of four ways (`layout`). Mostly it has a binding of its own. Parameters lie in the one block of
parameters of the plan. On devices that read textures faster, buffers that a kernel only reads are textures; a texel is two or four
elements where all indices allow it (rows of even length, from an even element on), and is fetched once in a block for all of them. With
the first texel of a row come the others that are read before control flow parts: neighbours in memory are fetched one after another.
Mesa's llvmpipe does not change that order, and what computes between two fetches costs it a twelfth of a path tracer's frame.
And where a kernel touches more buffers than the device binds, those that it only reads, and that were there before the plan began,
share one binding: words of 32 bits, each buffer from its own offset on, the smallest first. The offsets are launch words, as the named
sizes are.

What lies in words is cut out of them: elements of 8 and 16 bits (and bools, which are bytes) by shifts, those of 64 bits joined of
two. To store such an element is to change a part of a word that other lanes may be changing too: two atomic operations, that clear
its bits and set them; unless a lane stores all elements of a word together, as with the channels of a pixel.

Indices are int32, and so are the addresses made of them: a binding has fewer than 2^31 elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.compiler.emit.cstyle_ops import bare, is_atom
from engine.compiler.emit.dialect import Dialect, register
from engine.compiler.kernel import Item, Kernel
from engine.compiler.target import Target
from engine.graph.dtypes import ArrayType, DType
from engine.graph.simplify import bounds
from engine.graph.uop import Op, UOp

if TYPE_CHECKING:
    from engine.compiler.emit.cstyle import Emitter

Row = tuple[UOp, UOp | None]  # a buffer, and the part of an index that is computed
Texel = tuple[Row, int]  # its row, and its number in that


@dataclass(frozen=True)
class Place:
    """How a buffer reaches the code. offset: which of the offsets tells where it begins in what it shares; -1 for an own one."""

    kind: str  # "own" | "texture" | "packed" | "parameter"
    name: str
    binding: int
    offset: int
    wide: int = 1  # elements of a texel


@dataclass(frozen=True)
class Layout:
    """All of a kernel's buffers. own: name, dtype, read, written. textures: name, dtype, elements of a texel. shared: the slots that
    have an offset; offsets: their names."""

    slots: tuple[Place, ...]
    own: list[tuple[str, DType, bool, bool]]
    textures: list[tuple[str, DType, int]]
    shared: tuple[int, ...]
    offsets: tuple[str, ...]
    packed: bool
    parameters: bool


def layout(kernel: Kernel, dialect: Dialect, target: Target) -> Layout:
    """Gives each buffer its way into the code. Raises ValueError where the target binds too few."""
    ways = ["parameter" if b.is_parameter else "own" for b in kernel.buffers]
    readable = [k for k, b in enumerate(kernel.buffers) if ways[k] == "own" and not b.written and b.dtype.name in dialect.texels]
    for k in readable[: target.max_textures]:
        ways[k] = "texture"
    excess = ways.count("own") - target.max_buffers
    if excess > 0:
        free = [k for k, b in enumerate(kernel.buffers) if ways[k] == "own" and target.packs_read_only and b.can_share]
        if len(free) <= excess:
            raise ValueError(f"{kernel.name}: a kernel needs {ways.count('own')} buffers; {target.name} binds {target.max_buffers}")
        for k in sorted(free, key=lambda k: _bytes(kernel.buffers[k].leaf))[: excess + 1]:
            ways[k] = "packed"
    own: list[tuple[str, DType, bool, bool]] = []
    textures: list[tuple[str, DType, int]] = []
    wide = _texel_sizes(kernel, [kernel.buffers[k].leaf for k, way in enumerate(ways) if way == "texture"])
    shared: list[int] = []
    slots: list[Place] = []
    for k, (b, kind) in enumerate(zip(kernel.buffers, ways, strict=True)):
        name = f"{'p' if kind == 'parameter' else 'b'}{k}"
        if kind == "own":
            slots.append(Place(kind, name, len(own), -1))
            own.append((name, b.dtype, b.read, b.written))
        elif kind == "texture":
            slots.append(Place(kind, name, len(textures), -1, wide[b.leaf]))
            textures.append((name, b.dtype, wide[b.leaf]))
        else:
            slots.append(Place(kind, name, -1 if kind == "parameter" else ways.count("own"), len(shared)))
            shared.append(k)
    offsets = tuple(f"at_{slots[k].name}" for k in shared)
    return Layout(tuple(slots), own, textures, tuple(shared), offsets, "packed" in ways, "parameter" in ways)


def _texel_sizes(kernel: Kernel, leaves: list[UOp]) -> dict[UOp, int]:
    """How many elements a texel of each of these buffers has: 4 or 2 where all indices are multiples of it plus a number, else 1."""
    sizes = {}
    for leaf in leaves:
        count = math.prod(s for s in leaf.shape if isinstance(s, int)) if leaf.dtype.bits == 32 else 1
        sizes[leaf] = next(n for n in (4, 2, 1) if count % n == 0)
    together: dict[UOp, set[tuple[UOp | None, int]]] = {leaf: set() for leaf in leaves}
    single: dict[UOp, int] = dict.fromkeys(leaves, 0)
    for block in kernel.blocks():
        for item in block.items:
            if isinstance(item, UOp) and item.op == Op.LOAD and item.src[0] in sizes:
                leaf = item.src[0]
                rest, number = _split(item.src[1])
                if len(item.src) > 2 or item.dtype.count > 1:
                    sizes[leaf] = 1
                while rest is not None and not _multiple(rest, sizes[leaf]):
                    sizes[leaf] //= 2
                together[leaf].add((rest, number // 4))
                single[leaf] += 1
    return {leaf: size if len(together[leaf]) < single[leaf] else 1 for leaf, size in sizes.items()}


def _bytes(leaf: UOp) -> float:
    return float(math.prod(s if isinstance(s, int) else math.inf for s in leaf.shape) * leaf.dtype.itemsize)


class Memory:
    """The part of an emitter that knows memory."""

    def __init__(self, emitter: Emitter, places: Layout) -> None:
        self.e = emitter
        self.places = {b.leaf: p for b, p in zip(emitter.kernel.buffers, places.slots, strict=True)}
        self.offsets = places.offsets
        self.tables: dict[tuple[DType, tuple[float, ...]], str] = {}
        self.whole: dict[UOp, list[UOp]] | None = None  # STOREs that fill a word together
        self.texels: list[dict[Texel, str]] = [{}]  # variables of fetched texels, of the blocks around, innermost last
        self.ahead: dict[Row, list[int]] = {}  # numbers of the texels that operations read before the next loop or branch

    # ---- elements in words ----

    def in_words(self, leaf: UOp) -> bool:
        """True where the code sees the buffer as words of 32 bits."""
        return self.places[leaf].kind in ("packed", "parameter") or leaf.dtype.name not in self.e.dialect.memory

    def word(self, leaf: UOp, index: str) -> str:
        """A word of a buffer that lies in words."""
        place = self.places[leaf]
        if place.kind == "own":
            return f"{place.name}[{bare(index)}]"
        offset = self.offsets[place.offset]
        at = offset if index == "0" else f"{offset} + {index}"
        return f"pool[{at}]" if place.kind == "packed" else self.e.dialect.parameter.format(at)

    def element(self, leaf: UOp, index: str) -> str:
        """An element of a buffer."""
        e, dtype = self.e, leaf.dtype
        if self.places[leaf].kind == "texture":
            return self.from_memory(dtype, f"texelFetch({self.places[leaf].name}, {bare(index)}).x")
        if not self.in_words(leaf):
            return self.from_memory(dtype, f"{self.places[leaf].name}[{bare(index)}]")
        kind = register(dtype)
        if dtype.bits == 64:
            low, high = _scaled(index, 2, 0), _scaled(index, 2, 1)
            return e.dialect.join[kind].format(self.word(leaf, low), self.word(leaf, high))
        if dtype.bits == 32:
            return e.dialect.same_bits("uint", kind, self.word(leaf, index))
        word, shift = self.position(dtype, index)
        bits = self.word(leaf, word)
        bits = bits if shift == "0" else f"({bits} >> {shift})"
        return self.of_bits(dtype, bits)

    def position(self, dtype: DType, index: str) -> tuple[str, str]:
        """Word, and first bit in it, of an element of 8 or 16 bits."""
        each = 4 // dtype.itemsize
        if index.isdigit():
            return str(int(index) // each), str(int(index) % each * dtype.itemsize * 8)
        index = self.e.ops.named("int", index)
        log = each.bit_length() - 1
        return f"({index} >> {log})", f"(({index} & {each - 1}) << {5 - log})"

    def of_bits(self, dtype: DType, bits: str) -> str:
        """An element of 8 or 16 bits, from the low bits of a word."""
        if dtype.is_bool:
            return f"(({bits} & 0xffu) != 0u)"
        return self.e.ops.cast_bits(dtype, f"{bits} & 0xffffu" if dtype.is_float else bits)

    def to_bits(self, dtype: DType, text: str) -> str:
        """An element of 8 or 16 bits as a word, the other bits 0."""
        if dtype.is_bool:
            return f"({text} ? 1u : 0u)"
        if dtype.is_float:
            return self.e.ops.helper("half_bits", self.e.ops.named("float", text))
        return f"({self.e.dialect.converted('uint', bare(text))} & 0x{(1 << dtype.bits) - 1:x}u)"

    def from_memory(self, dtype: DType, text: str) -> str:
        """An element of memory that has the type of its elements, as a register holds it."""
        if dtype.is_bool:
            return f"({text} != {self.e.dialect.byte_zero})"
        if dtype.is_float and dtype.bits == 16:
            return self.e.ops.helper("half_value", text)
        return text if dtype.bits >= 32 or self.e.dialect.precise else self.e.dialect.converted(register(dtype), text)

    # ---- loads ----

    def load(self, node: UOp) -> list[str]:
        """The elements of a LOAD."""
        e = self.e
        leaf, index, *gates = node.src
        count = node.dtype.count
        wide = self.places[leaf].wide
        if wide > 1:
            rest, number = _split(index)
            return [f"{self._texel((leaf, rest), number // wide)}.{'xyzw'[number % wide]}"]
        indices = [e.settle("int", t) for t in e.elements(index, count)]
        allowed = [e.settle("bool", t) for t in e.elements(gates[0], count)] if gates else ["true"] * count
        return [self._one(leaf, i, g) for i, g in zip(indices, allowed, strict=True)]

    def rows(self, operations: Sequence[Item]) -> dict[Row, list[int]]:
        """Which texels of which rows these operations read, in the order of memory."""
        found: dict[Row, set[int]] = {}
        for node in operations:
            if isinstance(node, UOp) and node.op == Op.LOAD and self.places[node.src[0]].wide > 1:
                rest, number = _split(node.src[1])
                found.setdefault((node.src[0], rest), set()).add(number // self.places[node.src[0]].wide)
        return {row: sorted(numbers) for row, numbers in found.items()}

    def _texel(self, row: Row, wanted: int) -> str:
        """The variable of a texel. Where no block around has it, it is fetched, and with it what else of the row will be read."""
        known = self._known(row, wanted)
        if known:
            return known
        for number in self.ahead[row]:
            if not self._known(row, number):
                self._fetch(row, number)
        return self._known(row, wanted)

    def _known(self, row: Row, number: int) -> str:
        return next((texels[row, number] for texels in reversed(self.texels) if (row, number) in texels), "")

    def _fetch(self, row: Row, number: int) -> None:
        e = self.e
        leaf, rest = row
        wide = self.places[leaf].wide
        at = str(number)
        if rest is not None:
            start = e.text(rest.src[0]) if rest.op == Op.MUL else ""
            if start and is_atom(start) and rest.src[1].op == Op.CONST and rest.src[1].arg % wide == 0:
                base = f"{start} * {rest.src[1].arg // wide}"
            else:
                base = f"({e.settle('int', e.text(rest))} >> {wide.bit_length() - 1})"
            at = base + (f" + {number}" if number else "")
        name = e.fresh("t")
        kind = f"{e.dialect.vectors[register(leaf.dtype)]}{wide}"
        e.line(f"{kind} {name} = texelFetch({self.places[leaf].name}, {bare(at)}){'.xy' if wide == 2 else ''};")
        self.texels[-1][row, number] = name

    def _one(self, leaf: UOp, index: str, gate: str) -> str:
        """An element, 0 where the gate is closed: then it is the first that is read."""
        e = self.e
        if gate == "false":
            return e.ops.literal(leaf.dtype, 0)
        if gate != "true":
            gate = e.ops.named("bool", gate)
            index = e.declare("int", f"({gate} ? {index} : 0)")
        loaded = self.element(leaf, index)
        return loaded if gate == "true" else f"({gate} ? {loaded} : {e.ops.literal(leaf.dtype, 0)})"

    def table(self, node: UOp) -> list[str]:
        """The elements of a look-up among constants."""
        e = self.e
        index, *rows = node.src
        dtype: DType = node.dtype.scalar
        name = self.tables.setdefault((dtype, tuple(r.arg for r in rows)), f"table{len(self.tables)}")
        last = len(rows) - 1
        low, high = bounds(index)
        found = []
        for text in e.elements(index, node.dtype.count):
            at = bare(e.settle("int", text))
            if low < 0 or high > last:
                at = f"min({e.dialect.converted('uint', at)}, {last}u)"
            found.append(f"{name}[{at}]" + (" != 0" if dtype.is_bool and e.dialect.bitwise_bools else ""))
        return found

    def tables_text(self) -> list[str]:
        """The declarations of all tables."""
        e = self.e
        lines = []
        for (dtype, values), name in self.tables.items():
            kind = e.dialect.types[register(dtype)]
            texts = ", ".join(bare(e.ops.literal(dtype, v)) for v in values)
            lines.append(e.dialect.table.format(type=kind, name=name, length=len(values), values=texts))
        return lines

    # ---- stores ----

    def store(self, node: UOp) -> None:
        """A STORE."""
        e = self.e
        leaf, index, value = node.src[:3]
        dtype: DType = leaf.dtype
        if len(node.src) > 3:
            e.line(f"if ({bare(e.settled(node.src[3]))}) {{")
            e.depth += 1
        if self.in_words(leaf) and node.arg == "set" and not e.kernel.ordered:
            if self.whole is None:
                self.whole = self._whole_words()
            stores = self.whole.get(node)
            if stores is None:
                self._part(leaf, e.settled(index), e.settled(value), True)
            elif node is stores[-1]:
                self._word(stores)
        else:
            at = e.settled(index)
            data = e.settled(value)
            if node.arg != "set":
                at = e.ops.named("int", at)
                old = e.declare(register(dtype), self.element(leaf, at))
                operation = {"add": Op.ADD, "min": Op.MIN, "max": Op.MAX}[node.arg]
                left, right = (UOp.new(Op.LOOPVAR, dtype, (), (0, k)) for k in range(2))
                data = e.declare(register(dtype), e.ops.elementwise(UOp.new(operation, dtype, (left, right)), [old, data]))
            if self.in_words(leaf):
                self._part(leaf, at, data, False)
            else:
                data = e.ops.helper("half_bits", e.ops.named("float", data)) if dtype.is_float and dtype.bits == 16 else data
                e.line(f"{self.places[leaf].name}[{bare(at)}] = {bare(data)};")
        if len(node.src) > 3:
            e.depth -= 1
            e.line("}")

    def _part(self, leaf: UOp, index: str, data: str, together: bool) -> None:
        """Stores an element of 8 or 16 bits. `together`: other lanes may store to the same word at the same time."""
        e, dtype = self.e, leaf.dtype
        word, shift = self.position(dtype, index)
        shift = e.ops.named("int", shift)
        target = self.word(leaf, bare(word))
        mask = f"~(0x{(1 << (8 * dtype.itemsize)) - 1:x}u << {shift})"
        bits = f"{self.to_bits(dtype, data)} << {shift}"
        if together:
            e.line(f"atomicAnd({target}, {mask});")
            e.line(f"atomicOr({target}, {bits});")
        else:
            e.line(f"{target} = ({target} & {mask}) | ({bits});")

    def _whole_words(self) -> dict[UOp, list[UOp]]:
        """STOREs of a lane that fill a word together, in the order of their elements, by each of them; the last one in the body writes."""
        found: dict[tuple[UOp, UOp | None, int], dict[int, UOp]] = {}
        for item in self.e.kernel.body.items:
            if isinstance(item, UOp) and item.op == Op.STORE and item.arg == "set" and len(item.src) == 3 and self.in_words(item.src[0]):
                each = 4 // item.src[0].dtype.itemsize
                rest, number = _split(item.src[1])
                if rest is None or _multiple(rest, each):
                    found.setdefault((item.src[0], rest, number // each), {})[number % each] = item
        whole: dict[UOp, list[UOp]] = {}
        for (leaf, _, _), parts in found.items():
            if len(parts) == 4 // leaf.dtype.itemsize:
                stores = list(parts.values())
                whole.update(dict.fromkeys(stores, stores))
        return whole

    def _word(self, stores: list[UOp]) -> None:
        """Stores a whole word."""
        e = self.e
        leaf = stores[0].src[0]
        dtype: DType = leaf.dtype
        each = 4 // dtype.itemsize
        parts = [""] * each
        for store in stores:
            place = _split(store.src[1])[1] % each
            bits = self.to_bits(dtype, e.settled(store.src[2]))
            parts[place] = bits if place == 0 else f"({bits} << {place * 8 * dtype.itemsize})"
        word, _ = self.position(dtype, e.settled(stores[0].src[1]))
        e.line(f"{self.word(leaf, bare(word))} = {' | '.join(parts)};")

    # ---- private arrays ----

    def array(self, node: UOp) -> str:
        """Declares a private array."""
        e, kind = self.e, node.dtype
        assert isinstance(kind, ArrayType)
        name = e.fresh("a")
        e.line(f"{e.typed(register(kind.dtype))} {name}[{kind.length}];")
        return name


def _scaled(index: str, factor: int, more: int) -> str:
    """The text of index * factor + more."""
    if index.isdigit():
        return str(int(index) * factor + more)
    inside = index if is_atom(index) else f"({bare(index)})"
    return f"{inside} * {factor} + {more}" if more else f"{inside} * {factor}"


def _split(index: UOp) -> tuple[UOp | None, int]:
    """An index as what is computed, and a number that is added."""
    if index.op == Op.CONST:
        return None, int(index.arg)
    if index.op == Op.ADD and index.src[1].op == Op.CONST:
        return index.src[0], int(index.src[1].arg)
    return index, 0


def _multiple(node: UOp, number: int) -> bool:
    """True where an index is known to be a multiple of a small power of two."""
    stack = [node]
    while stack:
        top = stack.pop()
        if number == 1:
            return True
        if top.op in (Op.ADD, Op.SUB):
            stack.extend(top.src)
        elif top.op == Op.CONST or top.op == Op.MUL:
            factor = top if top.op == Op.CONST else top.src[1]
            if factor.op != Op.CONST or int(factor.arg) % number:
                return False
        else:
            return False
    return True
