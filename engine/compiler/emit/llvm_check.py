"""CHECK=1 in LLVM IR: every index is compared with its size before memory is touched.

A violation calls back into the device, which keeps the first and raises it as an error when the launch is over: the number of the
operation, the index, the size, and where the lane is. The machine code goes on without the access: loads give 0, stores are left out, a
private array is accessed at 0. Masked lanes do not count. Numbers are those of `checked_of(kernel)`, so whoever loads the code
knows the operation, and by it the user's line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.compiler.emit.llvm_append import append
from engine.compiler.emit.llvm_ops import vector
from engine.compiler.kernel import Kernel
from engine.frontend.trace import line_of
from engine.graph.dtypes import ArrayType, int32
from engine.graph.uop import Op, UOp, product, size_uop

if TYPE_CHECKING:
    from engine.compiler.emit.llvm import Emitter

CHECK = "rayfuse_check"  # void (i32 number, i32 index, i32 size, i32 axes, ptr coordinates); axes: -1 where no lane is told
_CHECKED = frozenset({Op.LOAD, Op.STORE, Op.ARRAY_GET, Op.ARRAY_SET, Op.APPEND})


def checked_of(kernel: Kernel) -> list[UOp]:
    """The operations whose indices are checked; an operation's number is its place here."""
    return [item for block in kernel.blocks() for item in block.items if isinstance(item, UOp) and item.op in _CHECKED]


def comments(kernel: Kernel) -> list[str]:
    """The user's line of each operation, as comments: kernels that differ in lines alone are not the same where lines are reported."""
    return [f"; check {k}: {line_of(node)}" for k, node in enumerate(checked_of(kernel))]


class Checks:
    """The part of an emitter that checks indices."""

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter
        self.numbers = {node: k for k, node in enumerate(checked_of(emitter.kernel))}
        self.sizes: dict[UOp, str] = {}
        self.coordinates: str | None = None

    def begin(self) -> None:
        """Computes the sizes of the buffers."""
        e = self.e
        for buffer in e.kernel.buffers:
            size = size_uop(product(buffer.shape))
            for n in size.toposort():
                if n.op not in (Op.CONST, Op.DIM) and n not in e.names:
                    e.value(n)
            self.sizes[buffer.leaf] = e.raw(size)

    def one(self, node: UOp, index: str, size: str, gate: str | None = None) -> str:
        """i1: whether the access of a scalar index, made where `gate` holds, may go on."""
        e = self.e
        fits = e.emit(f"icmp ult i32 {index}, {size}")
        fine = fits if gate is None else e.emit(f"or i1 {fits}, {e.emit(f'xor i1 {gate}, true')}")
        with self.where(e.emit(f"xor i1 {fine}, true")):
            self._report(node, index, size, self._some_lane())
        return fits

    def many(self, node: UOp, index: str, size: str, count: int, mask: str | None) -> str:
        """The part of a mask (None: all) for which an access of a vector of indices may go on. Elements are lanes, but for inner axes."""
        e = self.e
        if count == 1:
            fits = self.one(node, index, size, mask)
            return fits if mask is None else e.emit(f"and i1 {fits}, {mask}")
        kind, masks = vector("i32", count), vector("i1", count)
        limit = e.splat(size, "i32", count)
        fits = e.emit(f"icmp ult {kind} {index}, {limit}")
        live = "splat (i1 true)" if mask is None else mask
        bad = e.emit(f"select {masks} {live}, {masks} {e.emit(f'xor {masks} {fits}, splat (i1 true)')}, {masks} zeroinitializer")
        bits = e.emit(f"bitcast {masks} {bad} to i{count}")
        with self.where(e.emit(f"icmp ne i{count} {bits}, 0")):
            place = self._first(bits, count)
            found = e.emit(f"extractelement {kind} {index}, i64 {place}")
            self._report(node, found, size, self._some_lane() if self._is_inner(node) else place)
        return fits if mask is None else e.emit(f"select {masks} {mask}, {masks} {fits}, {masks} zeroinitializer")

    def inside(self, node: UOp, index: UOp, length: int) -> UOp:
        """An index of a private array of this length that is within it; where the given one is not, that is reported, and it is 0."""
        e = self.e
        size = str(length)
        clamped = UOp.new(Op.LOOPVAR, int32, (), (0, self.numbers[node]))  # a value of its own
        if index.op != Op.CONST and e.width > 1 and e.is_vector(index):
            kind, masks = vector("i32", e.width), vector("i1", e.width)
            fits = self.many(node, e.raw(index), size, e.width, e.mask)
            e.names[clamped] = e.emit(f"select {masks} {fits}, {kind} {e.raw(index)}, {kind} zeroinitializer")
            e.uniform.varying.add(clamped)
        else:
            fits = self.one(node, e.raw(index), size)
            e.names[clamped] = e.emit(f"select i1 {fits}, i32 {e.raw(index)}, i32 0")
        return clamped

    def append(self, node: UOp, kind: ArrayType, storage: str) -> None:
        """An APPEND whose slots are within the array."""
        e = self.e
        room = max(0, kind.length - node.src[3].dtype.count + 1)
        top = self.inside(node, node.src[1], room)
        inside = node.replace(src=(node.src[0], top, *node.src[2:]))
        after = UOp.new(Op.PROJ, int32, (inside,), 1)
        e.names[after] = e.raw(top)
        if room:
            append(e, inside, kind.dtype, storage)
        e.names[UOp.new(Op.PROJ, int32, (node,), 1)] = e.names[after]

    # ---- reports ----

    def _is_inner(self, node: UOp) -> bool:
        """True where the elements of an access lie along an inner axis, and are no lanes."""
        return bool(node.op == Op.LOAD and node.dtype.count > 1)

    @contextmanager
    def where(self, condition: str) -> Iterator[None]:
        """What is written inside runs where an i1 holds; registers made inside are not seen outside."""
        e = self.e
        inside, after = e.new_label("bad"), e.new_label("fine")
        e.line(f"br i1 {condition}, label %{inside}, label %{after}")
        e.start(inside)
        with e.scope():
            yield
        e.line(f"br label %{after}")
        e.start(after)

    def _first(self, bits: str, count: int) -> str:
        """The number of the lowest bit that is set, as i64."""
        e = self.e
        at = e.ops.call(f"llvm.cttz.i{count}", f"i{count}", (f"i{count}", bits), ("i1", "true"))
        return at if count == 64 else e.emit(f"zext i{count} {at} to i64")

    def _some_lane(self) -> str | None:
        """A live lane of the group; None in the prelude, where there is none."""
        e = self.e
        if e.in_prelude:
            return None
        if e.serial_lane is not None:
            return e.serial_lane
        if e.mask is None or e.width == 1:
            return "0"
        return self._first(e.emit(f"bitcast {e.mask_type} {e.mask} to i{e.width}"), e.width)

    def _report(self, node: UOp, index: str, size: str, lane: str | None) -> None:
        e = self.e
        sizes = e.kernel.lanes
        if self.coordinates is None:
            self.coordinates = e.alloca(f"[{max(1, len(sizes))} x i32]", 4)
        axes = -1 if lane is None else len(sizes)
        for axis in range(axes):
            coordinate = UOp.new(Op.LANE, int32, (), (axis, sizes[axis]))
            value = e.raw(coordinate)
            if e.width > 1 and e.is_vector(coordinate):
                value = e.emit(f"extractelement {vector('i32', e.width)} {value}, i64 {lane}")
            at = e.emit(f"getelementptr i32, ptr {self.coordinates}, i64 {axis}")
            e.line(f"store i32 {value}, ptr {at}, align 4")
        e.declare(f"declare void @{CHECK}(i32, i32, i32, i32, ptr)")
        e.line(f"call void @{CHECK}(i32 {self.numbers[node]}, i32 {index}, i32 {size}, i32 {axes}, ptr {self.coordinates})")
