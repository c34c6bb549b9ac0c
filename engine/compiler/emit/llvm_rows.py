"""Look-ups in tables by an index of each lane's own, without a gather.

A gather costs an access for every lane, and some more: 24 cycles and up for 16 lanes. Two kinds of look-ups do with less. In both the
index is `row * columns + column`, with a row of each lane's own and numbers for the rest, and the elements have four bytes.

    small tables   Tables of a known size that the kernel only reads. A column of up to a few vectors is looked up in registers: an
                   instruction takes from two vectors (AVX-512) or one (AVX2) the elements that a vector of indices names, and selects
                   by the index's upper bits do the rest. The columns that are read are copied side by side when the kernel begins (a
                   table of one column is used as it lies). Dead lanes may hold any index: no memory is touched for a lane.
    rows           Three or four of four columns side by side: each lane's part of its row is loaded as one short vector, and the vectors
                   of all lanes are transposed. Dead lanes read the table's first row.

Rows are found among the LOADs of one block, since they share its mask. The first of them emits all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.compiler.emit.llvm_ops import memory_type, vector
from engine.graph.dtypes import DType, int32
from engine.graph.uop import BufferArg, Op, UOp

if TYPE_CHECKING:
    from engine.compiler.emit.llvm import Emitter

_PERMUTES = {8: "llvm.x86.avx2.permps", 16: "llvm.x86.avx512.permvar.sf.512"}  # of one vector, by the lanes of a group
_PERMUTES_OF_TWO = {16: "llvm.x86.avx512.vpermi2var.ps.512"}
_VECTORS = {8: 4, 16: 8}  # of a column, up to which it is looked up in registers
_LONGEST_ROW = 16
_FEWEST = 3  # of four columns, that make rows worth their transposition


def parts(index: UOp) -> tuple[UOp, int, int]:
    """An index as (start, columns, column): start + column, where `start` is a row's number times `columns` (1: the number itself)."""
    column = 0
    rest = index
    while rest.op == Op.ADD and rest.src[1].op == Op.CONST:
        column += int(rest.src[1].arg)
        rest = rest.src[0]
    if rest.op == Op.MUL and rest.src[1].op == Op.CONST and 0 <= column < int(rest.src[1].arg):
        return rest, int(rest.src[1].arg), column
    return index, 1, 0


class Rows:
    """The part of an emitter that knows tables."""

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter
        self.read_only = {b.leaf for b in emitter.kernel.buffers if not b.written}
        self.copies: dict[tuple[UOp, int, int], str] = {}  # (table, columns, column) -> the column's copy
        self.together = _rows(emitter)
        self.loaded: dict[UOp, str] = {}  # elements of rows that have been transposed, until their LOAD is reached

    def look_up(self, node: UOp, gate: UOp | None) -> str | None:
        """The register of a LOAD whose index is each lane's own; None where that takes a gather."""
        e = self.e
        dtype: DType = node.dtype
        if dtype.bits != 32 or not e.is_vector(node.src[1]):
            return None
        found = self.small(node)
        if found is None and gate is None:
            return self.row(node)
        if found is None or gate is None:
            return found
        t = vector(memory_type(dtype), e.width)
        wanted = e.operand(gate, e.width)
        return e.emit(f"select {e.mask_type} {wanted}, {t} {found}, {t} zeroinitializer")

    # ---- small tables ----

    def small(self, node: UOp) -> str | None:
        """The register of a LOAD (its gate left aside) from a small table; None where the table is none."""
        e = self.e
        buffer, index = node.src[:2]
        dtype: DType = node.dtype
        w = e.width
        if w not in _PERMUTES or buffer not in self.read_only or dtype.bits != 32 or buffer.dtype is not dtype:
            return None
        size = _elements(buffer)
        if not size:
            return None
        start, columns, column = parts(index)
        height = -(-size // columns)
        if column >= size or height > _VECTORS[w] * w:
            return None
        row = start if columns == 1 else start.src[0]
        bare = columns == 1 and not _is_parameter(buffer)  # its memory is followed by spare bytes
        place = e.buffers[buffer] if bare else self._column(buffer, columns, column, height)
        count = -(-height // w)
        kind = vector("float", w)
        at = e.raw(row)
        data = []
        for j in range(count):
            at_vector = e.emit(f"getelementptr float, ptr {place}, i64 {j * w}") if j else place
            data.append(e.emit(f"load {kind}, ptr {at_vector}, align {4 if bare else 64}"))
        found = self._permuted(data, at)
        return found if dtype.is_float else e.emit(f"bitcast {kind} {found} to {vector('i32', w)}")

    def _permuted(self, data: list[str], at: str) -> str:
        """Elements `at` of vectors that follow one another."""
        e = self.e
        w = e.width
        kind, integers = vector("float", w), vector("i32", w)
        if w in _PERMUTES_OF_TWO and len(data) > 1:
            if len(data) % 2:
                data = [*data, data[-1]]
            pairs = zip(data[::2], data[1::2], strict=True)
            found = [e.ops.call(_PERMUTES_OF_TWO[w], kind, (kind, a), (integers, at), (kind, b)) for a, b in pairs]
            bit = 2 * w
        else:
            found = [e.ops.call(_PERMUTES[w], kind, (kind, a), (integers, at)) for a in data]
            bit = w
        while len(found) > 1:
            upper = self._bit(at, bit)
            merged = [
                e.emit(f"select {vector('i1', w)} {upper}, {kind} {b}, {kind} {a}") for a, b in zip(found[::2], found[1::2], strict=False)
            ]
            found = merged + found[len(merged) * 2 :]
            bit *= 2
        return found[0]

    def _bit(self, at: str, bit: int) -> str:
        """The lanes whose index has this bit."""
        e = self.e
        w = e.width
        integers = vector("i32", w)

        def make() -> str:
            some = e.emit(f"and {integers} {at}, {e.ops.const(int32, w, bit)}")
            return e.emit(f"icmp ne {integers} {some}, zeroinitializer")

        return e.memory.once(f"bit {bit} {at}", make)

    def _column(self, buffer: UOp, columns: int, column: int, height: int) -> str:
        """A copy of one column of a table, made when the kernel begins."""
        key = (buffer, columns, column)
        known = self.copies.get(key)
        if known is not None:
            return known
        e = self.e
        w = e.width
        count = -(-height // w)
        filled = -(-(_elements(buffer) - column) // columns)
        place = e.alloca(f"[{count * w} x i32]", 64)
        lines, e.lines = e.lines, e.allocas
        integers = vector("i32", w)
        for j in range(count):
            at = "<" + ", ".join(f"i32 {min(j * w + i, filled - 1) * columns + column}" for i in range(w)) + ">"
            addresses = e.emit(f"getelementptr i32, ptr {e.buffers[buffer]}, {integers} {at}")
            data = e.memory.gather(int32, w, addresses, None)
            start = e.emit(f"getelementptr i32, ptr {place}, i64 {j * w}")
            e.line(f"store {integers} {data}, ptr {start}, align 64")
        e.lines = lines
        self.copies[key] = place
        return place

    # ---- rows ----

    def row(self, node: UOp) -> str | None:
        """The register of a LOAD of a column of a row, of which others are read too; None where there are too few."""
        if node in self.loaded:
            return self.loaded.pop(node)
        e = self.e
        quad = self.together.get(node)
        if quad is None or node in e.names:
            return None
        first, loads = quad
        start = parts(node.src[1])[0]
        w = e.width
        kind, integers = memory_type(node.dtype), vector("i32", w)
        at = e.raw(start)
        if e.mask is not None:
            at = e.emit(f"select {e.mask_type} {e.mask}, {integers} {at}, {integers} zeroinitializer")
        slot = e.memory.once(f"lanes {at}", lambda: self._spilled(at))
        table = e.emit(f"getelementptr {kind}, ptr {e.buffers[node.src[0]]}, i64 {first}")
        rows = []
        for lane in range(w):
            place = e.emit(f"getelementptr i32, ptr {slot}, i64 {lane}")
            number = e.emit(f"load i32, ptr {place}, align 4")
            place = e.emit(f"getelementptr {kind}, ptr {table}, i32 {number}")
            rows.append(e.emit(f"load <4 x {kind}>, ptr {place}, align 4"))
        columns = self._transposed(rows, kind)
        self.loaded.update({load: columns[c - first] for c, load in loads.items()})
        return self.loaded.pop(node)

    def _spilled(self, at: str) -> str:
        """Memory with a number for each lane: scalars come from there sooner than from a vector."""
        e = self.e
        slot = e.alloca(f"[{e.width} x i32]", 64)
        e.line(f"store {vector('i32', e.width)} {at}, ptr {slot}, align {4 * e.width}")
        return slot

    def _transposed(self, rows: list[str], kind: str) -> list[str]:
        """Four vectors over the lanes from four elements of each lane.

        First lanes 0, 4, 8, ... lie side by side in one vector, lanes 1, 5, 9, ... in another and so on; then each block of four
        elements in these four vectors is transposed in place, by two rounds that processors have instructions for.
        """
        e = self.e
        w = e.width

        def shuffle(a: str, b: str, size: int, places: list[int]) -> str:
            t = f"<{size} x {kind}>"
            indices = ", ".join(f"i32 {p}" for p in places)
            return e.emit(f"shufflevector {t} {a}, {t} {b}, <{len(places)} x i32> <{indices}>")

        quads = []
        for k in range(4):
            pieces, size = rows[k::4], 4
            while len(pieces) > 1:
                pieces = [shuffle(a, b, size, list(range(2 * size))) for a, b in zip(pieces[::2], pieces[1::2], strict=True)]
                size *= 2
            quads.append(pieces[0])

        def order(*places: int) -> list[int]:
            """These places of each block: below 4 in the first vector, from 4 on in the second."""
            return [b + p if p < 4 else w + b + p - 4 for b in range(0, w, 4) for p in places]

        columns = []
        for places in (order(0, 4, 1, 5), order(2, 6, 3, 7)):
            a, b = shuffle(quads[0], quads[1], w, places), shuffle(quads[2], quads[3], w, places)
            columns += [shuffle(a, b, w, order(0, 1, 4, 5)), shuffle(a, b, w, order(2, 3, 6, 7))]
        return columns


def _rows(emitter: Emitter) -> dict[UOp, tuple[int, dict[int, UOp]]]:
    """By LOADs: the first of the four columns that are loaded with it, and the LOADs of these columns."""
    e = emitter
    result: dict[UOp, tuple[int, dict[int, UOp]]] = {}
    if e.width < 4:
        return result
    for block in e.kernel.blocks():
        found: dict[tuple[UOp, UOp, int], dict[int, UOp]] = {}
        for item in block.items:
            if not isinstance(item, UOp):
                continue
            if item.op == Op.STORE:
                found.clear()
            if item.op != Op.LOAD or len(item.src) != 2 or item.dtype.count > 1 or item.dtype.bits != 32:
                continue
            buffer, index = item.src
            start, columns, column = parts(index)
            if 1 < columns <= _LONGEST_ROW and e.uniform.varies(index) and not _is_parameter(buffer):
                loads = found.setdefault((buffer, start, columns), {})
                if column not in loads:
                    loads[column] = item
                    result[item] = (columns, loads)
    return {load: quad for loads in {id(v): v for _, v in result.values()}.values() for quad in _quads(loads) for load in quad[1].values()}


def _quads(loads: dict[int, UOp]) -> list[tuple[int, dict[int, UOp]]]:
    """LOADs by column, in fours of columns that follow one another, but for such as have too few to be worth it."""
    quads: list[tuple[int, dict[int, UOp]]] = []
    left = sorted(loads)
    while left:
        taken = [c for c in left if c < left[0] + 4]
        if len(taken) >= _FEWEST:
            quads.append((left[0], {c: loads[c] for c in taken}))
            left = left[len(taken) :]
        else:
            left = left[1:]
    return quads


def _is_parameter(buffer: UOp) -> bool:
    arg = buffer.arg
    return isinstance(arg, BufferArg) and arg.kind == "parameter"


def _elements(buffer: UOp) -> int:
    """The number of elements of a buffer; 0 where it is not known."""
    arg = buffer.arg
    assert isinstance(arg, BufferArg)
    size = 1
    for s in arg.shape:
        if not isinstance(s, int):
            return 0
        size *= s
    return size
