"""Loads, stores and private arrays in LLVM IR.

The cheapest form that is right is chosen from how the address depends on the lane: not at all, a scalar load; by one element a
lane, forwards or backwards, a vector load; by two to four elements a lane (the channels of a pixel), vector loads that the
channels share, and shuffles (`llvm_interleave`, for groups that are tiles `llvm_tiles`); by a number that each lane has, what
`llvm_rows` knows of tables; else a gather. Inside `serial` the same question is asked of the inner axis.

Masked lanes touch no memory. The wide loads of a full group of pixels may read a few elements beside the ones asked for, which is
what the spare bytes around every buffer are for (`frontend.storage`). Gates that the walk has tested for the whole group
(`assumed`) cost nothing.

A private array is scalars where it is uniform, else one vector for each element, so that a common index is a plain vector access
and an index of each lane's own is a gather from a column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.compiler.emit.llvm_interleave import CHANNELS, backwards, mask_of, merged, separated
from engine.compiler.emit.llvm_ops import literal, memory_type, suffix, vector
from engine.compiler.emit.llvm_rows import Rows
from engine.compiler.emit.llvm_tiles import Tiles
from engine.compiler.emit.llvm_walk import tile_shape
from engine.graph.dtypes import ArrayType, DType, int32
from engine.graph.uop import Op, UOp

if TYPE_CHECKING:
    from engine.compiler.emit.llvm import Emitter


class Memory:
    """The part of an emitter that knows memory."""

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter
        self.base: dict[UOp, str] = {}  # LANE of the group's first lane
        self.assumed: frozenset[UOp] = frozenset()  # gates that hold for every lane of the group
        self.rows = Rows(emitter)
        tiled = emitter.kernel.walk == "tiles" and emitter.width > 1
        self.tiles = Tiles(emitter, self, tile_shape(emitter.width)[1]) if tiled else None
        self.pixels: dict[UOp, list[UOp]] | None = None  # STOREs that are one channel each, with those of their pixel

    # ---- how an address depends on the lane ----

    def _varies(self, node: UOp) -> bool:
        """True where the register of `node` is a vector over the group."""
        return self.e.width > 1 and self.e.is_vector(node)

    def stride(self, node: UOp) -> int | None:
        """Elements by which an index grows from one lane (or inner element) to the next; None where that is no constant."""
        e = self.e
        if node.dtype.count == 1 and not self._varies(node):
            return 0
        if node.op == Op.IOTA:
            return 1
        if node.op == Op.LANE:
            return 1 if node in self.base and e.kernel.walk != "tiles" else None
        if node.op in (Op.ADD, Op.SUB):
            a, b = self.stride(node.src[0]), self.stride(node.src[1])
            return None if a is None or b is None else a + b if node.op == Op.ADD else a - b
        if node.op == Op.MUL and node.src[1].op == Op.CONST:
            a = self.stride(node.src[0])
            return None if a is None else a * int(node.src[1].arg)
        return None

    def first(self, node: UOp) -> str:
        """The index of the group's first lane (or of inner element 0), as a scalar. Only where `stride` knows it."""
        e = self.e
        if node.op in (Op.CONST, Op.DIM) or (node.dtype.count == 1 and not self._varies(node)):
            return e.raw(node)
        if node.op == Op.IOTA:
            return "0"
        if node.op == Op.LANE:
            return self.base[node]
        return self.once(f"first {id(node)}", lambda: e.emit(f"{node.op} i32 {self.first(node.src[0])}, {self.first(node.src[1])}"))

    def holds_for_all(self, gate: UOp) -> str | None:
        """i1: whether a comparison of indices holds for every lane of a full group; None where that takes more than two numbers."""
        e = self.e
        if gate.op not in (Op.LT, Op.LE) or gate.src[0].dtype is not int32:
            return None
        a, b = gate.src
        step_a, step_b = self.stride(a), self.stride(b)
        if step_a is None or step_b is None:
            return None
        last = (e.width - 1) * max(0, step_a - step_b)  # by how much a - b has grown where it is greatest
        left = self.first(a)
        if last:
            left = e.emit(f"add i32 {left}, {last}")
        return e.emit(f"icmp {'slt' if gate.op == Op.LT else 'sle'} i32 {left}, {self.first(b)}")

    def once(self, key: str, make: Callable[[], str]) -> str:
        """A register that `make` writes, or the one that it wrote before in an enclosing scope."""
        for known in reversed(self.e.splats):
            if key in known:
                return known[key]
        name = make()
        self.e.splats[-1][key] = name
        return name

    # ---- loads ----

    def load(self, node: UOp) -> str:
        """The register of a LOAD."""
        e = self.e
        buffer, index = node.src[0], node.src[1]
        gate = node.src[2] if len(node.src) == 3 else None
        dtype: DType = node.dtype.scalar
        inner = node.dtype.count
        kind = memory_type(dtype)
        pointer = e.buffers[buffer]
        if gate is not None and (gate in self.assumed or (gate.op == Op.CONST and gate.arg)):
            gate = None
        if inner == 1 and not self._varies(node):
            at = e.emit(f"getelementptr {kind}, ptr {pointer}, i32 {e.raw(index)}")
            allowed = None if gate is None else e.raw(gate)
            if e.checks is not None:
                allowed = e.checks.many(node, e.raw(index), e.checks.sizes[buffer], 1, allowed)
            if allowed is not None:
                e.globals.setdefault("@nothing = private unnamed_addr constant [64 x i8] zeroinitializer, align 64")
                at = e.emit(f"select i1 {allowed}, ptr {at}, ptr @nothing")
            loaded = e.emit(f"load {kind}, ptr {at}, align {dtype.itemsize}")
            return self._from_memory(dtype, 1, loaded)
        count = inner if inner > 1 else e.width
        mask = e.mask if inner == 1 else None
        if gate is not None:
            wanted = e.operand(gate, count)
            mask = wanted if mask is None else e.narrow(wanted)
        if e.checks is not None:
            mask = e.checks.many(node, e.operand(index, count), e.checks.sizes[buffer], count, mask)
        stride = self.stride(index)
        if stride == 1:
            loaded = self._load_row(self._at(pointer, kind, self.first(index)), dtype, count, mask)
        elif stride == -1:
            loaded = self._load_backwards(self._at(pointer, kind, self.first(index)), dtype, count, mask)
        elif stride in CHANNELS and inner == 1:
            loaded = self._load_channel(buffer, index, dtype, stride, mask)
        else:
            known = self._together(node, gate) if inner == 1 and e.checks is None else None
            if known is not None:
                return known
            addresses = e.emit(f"getelementptr {kind}, ptr {pointer}, {vector('i32', count)} {e.operand(index, count)}")
            loaded = self.gather(dtype, count, addresses, mask)
        return self._from_memory(dtype, count, loaded)

    def _together(self, node: UOp, gate: UOp | None) -> str | None:
        """The register of a LOAD that costs less with others, or from a small table; None where it takes a gather."""
        if self.tiles is not None and gate is None:
            loaded = self.tiles.load(node)
            if loaded is not None:
                return self._from_memory(node.dtype, self.e.width, loaded)
        return self.rows.look_up(node, gate)

    def _at(self, pointer: str, kind: str, index: str) -> str:
        return self.e.emit(f"getelementptr {kind}, ptr {pointer}, i32 {index}")

    def _load_row(self, at: str, dtype: DType, count: int, mask: str | None) -> str:
        e = self.e
        t = vector(memory_type(dtype), count)
        if mask is None:
            return e.emit(f"load {t}, ptr {at}, align {dtype.itemsize}")
        name = f"llvm.masked.load.{self._suffix(dtype, count)}.p0"
        e.declare(f"declare {t} @{name}(ptr, i32, {vector('i1', count)}, {t})")
        return e.emit(f"call {t} @{name}(ptr {at}, i32 {dtype.itemsize}, {vector('i1', count)} {mask}, {t} zeroinitializer)")

    def _load_backwards(self, at: str, dtype: DType, count: int, mask: str | None) -> str:
        """The row that ends at `at`, last element first."""
        e = self.e
        start = self._at(at, memory_type(dtype), str(1 - count))
        row = self._load_row(start, dtype, count, None if mask is None else e.emit(backwards(mask, count, "i1")))
        return e.emit(backwards(row, count, memory_type(dtype)))

    def pixel(self, index: UOp, stride: int) -> tuple[UOp, int, int]:
        """An index that grows by `stride` a lane as (rest, pixel, channel): rest + pixel * stride + channel."""
        if index.op == Op.ADD and index.src[1].op == Op.CONST:
            return index.src[0], *divmod(int(index.src[1].arg), stride)
        return index, 0, 0

    def _start(self, buffer: UOp, rest: UOp, kind: str) -> str:
        """Where the group's pixels begin, but for the constant part of the index."""
        pointer = self.e.buffers[buffer]
        return self.once(f"start {pointer} {id(rest)}", lambda: self._at(pointer, kind, self.first(rest)))

    def _load_channel(self, buffer: UOp, index: UOp, dtype: DType, stride: int, mask: str | None) -> str:
        """One element of every `stride`; the vectors between which they lie are loaded once for all channels."""
        e = self.e
        w, kind = e.width, memory_type(dtype)
        rest, pixel, channel = self.pixel(index, stride)
        key = f"{e.buffers[buffer]} {id(rest)} {pixel} {stride} {mask}"

        def row(j: int) -> str:
            at = self._at(self._start(buffer, rest, kind), kind, str(pixel * stride + j * w))
            return self._load_row(at, dtype, w, None if mask is None else self._channel_mask(mask, stride, j))

        rows = [self.once(f"row {j} {key}", lambda j=j: row(j)) for j in range(stride)]  # type: ignore[misc]
        return separated(rows, channel, w, kind, lambda text: self.once(f"{text}", lambda: e.emit(text)))

    def _channel_mask(self, mask: str, stride: int, row: int) -> str:
        """The mask of row `row` of the vectors that hold a masked group's pixels."""
        text = mask_of(mask, self.e.width, stride, row)
        return self.once(text, lambda: self.e.emit(text))

    def _suffix(self, dtype: DType, count: int) -> str:
        return f"v{count}i8" if dtype.is_bool else suffix(dtype, count)

    def gather(self, dtype: DType, count: int, addresses: str, mask: str | None) -> str:
        """The elements at as many addresses."""
        e = self.e
        t = vector(memory_type(dtype), count)
        name = f"llvm.masked.gather.{self._suffix(dtype, count)}.v{count}p0"
        e.declare(f"declare {t} @{name}({vector('ptr', count)}, i32, {vector('i1', count)}, {t})")
        live = mask if mask is not None else "splat (i1 true)"
        return e.emit(
            f"call {t} @{name}({vector('ptr', count)} {addresses}, i32 {dtype.itemsize}, {vector('i1', count)} {live}, {t} zeroinitializer)"
        )

    def _from_memory(self, dtype: DType, count: int, value: str) -> str:
        if not dtype.is_bool:
            return value
        return self.e.emit(f"icmp ne {vector('i8', count)} {value}, {'0' if count == 1 else 'zeroinitializer'}")

    def to_memory(self, dtype: DType, count: int, value: str) -> str:
        """A register as its buffers have it: bools are bytes."""
        if not dtype.is_bool:
            return value
        return self.e.emit(f"zext {vector('i1', count)} {value} to {vector('i8', count)}")

    def table(self, node: UOp) -> str:
        """The register of a look-up among constants."""
        e = self.e
        index, *rows = node.src
        dtype: DType = node.dtype.scalar
        count = node.dtype.count if node.dtype.count > 1 else e.width if self._varies(node) else 1
        kind = memory_type(dtype)
        values = ", ".join(f"{kind} {int(r.arg) if dtype.is_bool else literal(dtype, r.arg)}" for r in rows)
        text = f"private unnamed_addr constant [{len(rows)} x {kind}] [{values}], align 64"
        name = e.tables.setdefault(text, f"@table{len(e.tables)}")
        e.globals.setdefault(f"{name} = {text}")
        integers = vector("i32", count)
        last = e.ops.const(int32, count, len(rows) - 1)
        at = e.ops.call(f"llvm.umin.{suffix(int32, count)}", integers, (integers, e.operand(index, count)), (integers, last))
        place = e.emit(f"getelementptr {kind}, ptr {name}, {integers} {at}")
        if count == 1:
            return self._from_memory(dtype, 1, e.emit(f"load {kind}, ptr {place}, align {dtype.itemsize}"))
        return self._from_memory(dtype, count, self.gather(dtype, count, place, None))

    # ---- stores ----

    def store(self, node: UOp) -> None:
        """A STORE, for the lanes that are live."""
        e = self.e
        if e.checks is None:
            self._store(node)
            return
        buffer, index = node.src[:2]
        if self._varies(index):
            mask, e.mask = e.mask, e.checks.many(node, e.raw(index), e.checks.sizes[buffer], e.width, e.mask)
            self._store(node)
            e.mask = mask
        else:
            with e.checks.where(e.checks.one(node, e.raw(index), e.checks.sizes[buffer])):
                self._store(node)

    def _store(self, node: UOp) -> None:
        e = self.e
        buffer, index, value = node.src[:3]
        dtype: DType = buffer.dtype
        kind = memory_type(dtype)
        pointer = e.buffers[buffer]
        vectored = self._varies(index) or self._varies(value) or (e.width > 1 and bool(e.kernel.lanes))
        if node.arg != "set" or (e.kernel.ordered and vectored):
            self._ordered_store(node, dtype, vectored)
            return
        if not vectored or not self._varies(index):
            scalar = self._only(value) if self._varies(value) else e.raw(value)
            at = self._at(pointer, kind, e.raw(index))
            e.line(f"store {kind} {self.to_memory(dtype, 1, scalar)}, ptr {at}, align {dtype.itemsize}")
            return
        w = e.width
        if self.stride(index) == 1:
            data = self.to_memory(dtype, w, e.operand(value, w))
            self._store_row(self._at(pointer, kind, self.first(index)), dtype, data, e.mask)
            return
        if self.pixels is None:
            self.pixels = {} if e.checks is not None else self._find_pixels()
        pixel = self.pixels.get(node)
        if pixel is not None:
            if node is pixel[-1]:
                self._store_pixels(pixel, dtype)
            return
        if self.tiles is not None and e.checks is None and self.tiles.store(node):
            return
        data = self.to_memory(dtype, w, e.operand(value, w))
        self.scatter(dtype, data, e.emit(f"getelementptr {kind}, ptr {pointer}, {vector('i32', w)} {e.operand(index, w)}"))

    def scatter(self, dtype: DType, data: str, addresses: str) -> None:
        """Stores each live lane's element at its own address."""
        e = self.e
        w = e.width
        t = vector(memory_type(dtype), w)
        name = f"llvm.masked.scatter.{self._suffix(dtype, w)}.v{w}p0"
        e.declare(f"declare void @{name}({t}, {vector('ptr', w)}, i32, {vector('i1', w)})")
        live = e.mask if e.mask is not None else "splat (i1 true)"
        e.line(f"call void @{name}({t} {data}, {vector('ptr', w)} {addresses}, i32 {dtype.itemsize}, {vector('i1', w)} {live})")

    def _store_row(self, at: str, dtype: DType, data: str, mask: str | None) -> None:
        e = self.e
        w = e.width
        t = vector(memory_type(dtype), w)
        if mask is None:
            e.line(f"store {t} {data}, ptr {at}, align {dtype.itemsize}")
            return
        name = f"llvm.masked.store.{self._suffix(dtype, w)}.p0"
        e.declare(f"declare void @{name}({t}, ptr, i32, {vector('i1', w)})")
        e.line(f"call void @{name}({t} {data}, ptr {at}, i32 {dtype.itemsize}, {vector('i1', w)} {mask})")

    def _find_pixels(self) -> dict[UOp, list[UOp]]:
        """STOREs (the last items of the body) that together write every channel of a pixel, by each of them; the last one writes."""
        found: dict[tuple[UOp, UOp, int, int], dict[int, UOp]] = {}
        for item in self.e.kernel.body.items:
            if isinstance(item, UOp) and item.op == Op.STORE and item.arg == "set":
                stride = self.stride(item.src[1])
                if stride in CHANNELS:
                    rest, pixel, channel = self.pixel(item.src[1], stride)
                    found.setdefault((item.src[0], rest, pixel, stride), {})[channel] = item
        whole: dict[UOp, list[UOp]] = {}
        for (_, _, _, stride), channels in found.items():
            if len(channels) == stride:
                stores = list(channels.values())
                whole.update(dict.fromkeys(stores, stores))
        return whole

    def _store_pixels(self, stores: list[UOp], dtype: DType) -> None:
        """All channels of the group's pixels, side by side."""
        e = self.e
        w, kind, stride = e.width, memory_type(dtype), len(stores)
        data = [""] * stride
        for store in stores:
            rest, pixel, channel = self.pixel(store.src[1], stride)
            data[channel] = self.to_memory(dtype, w, e.operand(store.src[2], w))
        start = self._start(stores[0].src[0], rest, kind)
        for j, row in enumerate(merged(data, w, kind, e.emit)):
            mask = None if e.mask is None else self._channel_mask(e.mask, stride, j)
            self._store_row(self._at(start, kind, str(pixel * stride + j * w)), dtype, row, mask)

    def _only(self, value: UOp) -> str:
        """A lane's value where all that store go to one place: the last live lane's."""
        e = self.e
        return e.emit(f"extractelement {e.type_of(value)} {e.raw(value)}, i64 0")

    def _ordered_store(self, node: UOp, dtype: DType, vectored: bool) -> None:
        """Lane after lane, in order: what an update or a write to computed places needs."""
        e = self.e
        if not vectored:
            self._update(node, dtype, e.raw(node.src[1]), e.raw(node.src[2]))
            return
        w = e.width
        slots = {u: self.spill(u) for u in node.src[1:3] if self._varies(u)}
        bits = e.emit(f"bitcast {e.mask_type} {e.mask} to i{w}") if e.mask is not None else ""
        head, run, latch, done = (e.new_label(stem) for stem in ("lane", "live", "next", "join"))
        before, lane, following = e.label, e.fresh("lane"), e.fresh("lane")
        e.line(f"br label %{head}")
        e.start(head)
        e.line(f"{lane} = phi i64 [ 0, %{before} ], [ {following}, %{latch} ]")
        if bits:
            shifted = e.emit(f"lshr i{w} {bits}, {lane if w == 64 else e.emit(f'trunc i64 {lane} to i{w}')}")
            e.line(f"br i1 {e.emit(f'trunc i{w} {shifted} to i1')}, label %{run}, label %{latch}")
        else:
            e.line(f"br label %{run}")
        e.start(run)
        at, data = (self.reload(u, slots[u], lane) if u in slots else e.raw(u) for u in node.src[1:3])
        self._update(node, dtype, at, data)
        e.line(f"br label %{latch}")
        e.start(latch)
        e.line(f"{following} = add i64 {lane}, 1")
        e.line(f"br i1 {e.emit(f'icmp ult i64 {following}, {w}')}, label %{head}, label %{done}")
        e.start(done)

    def _update(self, node: UOp, dtype: DType, at: str, data: str) -> None:
        """One element written, or combined with what is there."""
        e = self.e
        kind = memory_type(dtype)
        place = e.emit(f"getelementptr {kind}, ptr {e.buffers[node.src[0]]}, i32 {at}")
        if node.arg != "set":
            old = self._from_memory(dtype, 1, e.emit(f"load {kind}, ptr {place}, align {dtype.itemsize}"))
            number, truth = {"add": (Op.ADD, Op.OR), "min": (Op.MIN, Op.AND), "max": (Op.MAX, Op.OR)}[node.arg]
            left, right = (UOp.new(Op.LOOPVAR, dtype, (), (0, k)) for k in range(2))
            data = e.ops.elementwise(UOp.new(truth if dtype.is_bool else number, dtype, (left, right)), 1, [old, data])
        e.line(f"store {kind} {self.to_memory(dtype, 1, data)}, ptr {place}, align {dtype.itemsize}")

    # ---- private arrays ----

    def _layout(self, root: UOp) -> tuple[DType, int, int]:
        """Element type, length, and elements side by side (1: uniform)."""
        kind = root.dtype
        assert isinstance(kind, ArrayType)
        return kind.dtype, kind.length, self.e.width if root in self.e.uniform.varying else 1

    def array(self, root: UOp) -> str:
        """Storage of an ARRAY node (kept when its block runs again: its contents are undefined then)."""
        known = self.e.arrays.get(root)
        if known is not None:
            return known
        dtype, length, side = self._layout(root)
        return self.e.alloca(f"[{length} x {vector(memory_type(dtype), side)}]", 64)

    def _place(self, root: UOp, index: UOp) -> tuple[str, bool]:
        """Address of an element; True where it is one address a lane."""
        e = self.e
        dtype, _, side = self._layout(root)
        storage, kind = e.arrays[root], memory_type(dtype)
        if side > 1 and self._varies(index):
            w = e.width
            columns = "<" + ", ".join(f"i32 {k}" for k in range(w)) + ">"
            row = e.emit(f"mul {vector('i32', w)} {e.raw(index)}, {e.ops.const(index.dtype, w, w)}")
            offset = e.emit(f"add {vector('i32', w)} {row}, {columns}")
            return e.emit(f"getelementptr {kind}, ptr {storage}, {vector('i32', w)} {offset}"), True
        if side > 1 and e.serial_lane is not None:
            row = e.emit(f"getelementptr {vector(kind, side)}, ptr {storage}, i32 {e.raw(index)}")
            return e.emit(f"getelementptr {kind}, ptr {row}, i64 {e.serial_lane}"), False
        if side == 1 and self._varies(index):
            return e.emit(f"getelementptr {kind}, ptr {storage}, {vector('i32', e.width)} {e.raw(index)}"), True
        return e.emit(f"getelementptr {vector(kind, side)}, ptr {storage}, i32 {e.raw(index)}"), False

    def _inside(self, node: UOp, root: UOp) -> UOp:
        """The index of an access, which with CHECK=1 is made to lie in the array."""
        checks = self.e.checks
        return node.src[1] if checks is None else checks.inside(node, node.src[1], self._layout(root)[1])

    def array_get(self, node: UOp) -> str:
        """The register of an ARRAY_GET."""
        e = self.e
        root = e.uniform.storage[node.src[0]]
        dtype, _, side = self._layout(root)
        place, many = self._place(root, self._inside(node, root))
        if many:
            return self._from_memory(dtype, e.width, self.gather(dtype, e.width, place, e.mask))
        if e.serial_lane is not None:
            side = 1
        loaded = e.emit(f"load {vector(memory_type(dtype), side)}, ptr {place}, align {dtype.itemsize * side}")
        return self._from_memory(dtype, side, loaded)

    def array_set(self, node: UOp) -> None:
        """An ARRAY_SET, for the lanes that are live."""
        e = self.e
        root = e.uniform.storage[node.src[0]]
        dtype, _, side = self._layout(root)
        place, many = self._place(root, self._inside(node, root))
        kind = memory_type(dtype)
        if many:
            self.scatter(dtype, self.to_memory(dtype, e.width, e.operand(node.src[2], e.width)), place)
            return
        if side == 1 or e.serial_lane is not None:
            data = self.to_memory(dtype, 1, e.raw(node.src[2]))
            e.line(f"store {kind} {data}, ptr {place}, align {dtype.itemsize}")
            return
        t = vector(kind, side)
        data = self.to_memory(dtype, side, e.operand(node.src[2], side))
        align = dtype.itemsize * side
        if e.mask is not None and self._is_narrower(node, root):
            old = e.emit(f"load {t}, ptr {place}, align {align}")
            data = e.emit(f"select {vector('i1', side)} {e.mask}, {t} {data}, {t} {old}")
        e.line(f"store {t} {data}, ptr {place}, align {align}")

    def _is_narrower(self, node: UOp, root: UOp) -> bool:
        return self.e.array_masks.get(root) != self.e.mask

    # ---- values of lanes, one after another ----

    def spill(self, value: UOp) -> str:
        """Memory with a varying value, one element a lane."""
        e = self.e
        dtype: DType = value.dtype
        slot = e.alloca(f"[{e.width} x {memory_type(dtype)}]", 64)
        data = self.to_memory(dtype, e.width, e.raw(value))
        e.line(f"store {vector(memory_type(dtype), e.width)} {data}, ptr {slot}, align {min(64, dtype.itemsize * e.width)}")
        return slot

    def reload(self, value: UOp, slot: str, lane: str) -> str:
        """A lane's element of spilled memory."""
        e = self.e
        kind = memory_type(value.dtype)
        at = e.emit(f"getelementptr {kind}, ptr {slot}, i64 {lane}")
        return self._from_memory(value.dtype, 1, e.emit(f"load {kind}, ptr {at}, align {value.dtype.itemsize}"))

    def put(self, slot: str, dtype: DType, lane: str, value: str) -> None:
        """Stores a lane's element."""
        e = self.e
        kind = memory_type(dtype)
        at = e.emit(f"getelementptr {kind}, ptr {slot}, i64 {lane}")
        e.line(f"store {kind} {self.to_memory(dtype, 1, value)}, ptr {at}, align {dtype.itemsize}")

    def fetch(self, slot: str, dtype: DType) -> str:
        """All lanes' elements as a vector."""
        e = self.e
        t = vector(memory_type(dtype), e.width)
        return self._from_memory(dtype, e.width, e.emit(f"load {t}, ptr {slot}, align {min(64, dtype.itemsize * e.width)}"))
