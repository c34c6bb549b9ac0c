"""Lowering of private arrays.

An array belongs to a lane, and each lane of the kernel has one storage for it. Accesses broadcast as everything does, so the lanes of an
array are its shape as far as it has grown; an access by fewer lanes is one that several lanes make alike.

Outside of all bodies a value may be asked for at any coordinates, and for several of them by one lane of the kernel (a last axis that is
written out, a reduction, a neighbour). For an array that would be as many lanes' accesses to one storage. So there every access to an array
stands at one place, its *home*: along each axis a lane of the kernel. What is asked for elsewhere is stored by a kernel of its own
(`NeedsCut`), over the lanes of the array.
"""

from __future__ import annotations

from engine.compiler.kernel import same_line
from engine.compiler.lower_core import ONLY_TABLES, Answer, Core, Index, NeedsCut, Request, constant
from engine.frontend.arrays import array_root
from engine.frontend.trace import TraceError, line_of
from engine.graph.dtypes import ArrayType, bool_, int32
from engine.graph.uop import Op, UOp


class Arrays(Core):
    """ARRAY, ARRAY_SET, ARRAY_GET, APPEND."""

    def check_home(self, node: UOp, index: Index, gate: UOp | None) -> None:
        """Raises NeedsCut, inside a body TraceError, where an access is asked for elsewhere than at the home of its array."""
        version = node.src[0]
        access = version if node.op == Op.PROJ else node
        holder = self.by_region.get(access.arg[0])
        if holder is not None:
            lanes = holder[0].lanes
            home = dict(enumerate(reversed(lanes)))
        else:
            home = self.homes.setdefault(array_root(version, {}), {})
        for axis, (size, i) in enumerate(zip(reversed(node.shape), reversed(index), strict=True)):
            if isinstance(size, int) and size == 1:
                continue
            of_a_lane = i.op == Op.LANE or (i.op == Op.CONST and i.arg == 0)
            if of_a_lane and i is home.setdefault(axis, i) and (gate is None or holder is not None):
                continue
            if holder is not None:
                raise TraceError(f"{line_of(access) or 'a body'}: a body reads another lane's private array; {ONLY_TABLES}")
            raise NeedsCut(node, "a private array that is read by other lanes than its own")

    def _array(self, request: Request) -> UOp:
        node = request[0]
        return UOp.new(Op.ARRAY, node.dtype, (), (node.arg[0], self.region_number(node.arg[1])), ())

    def _array_set(self, request: Request) -> Answer:
        node, index, gate, _ = request
        self.check_home(node, index, gate)
        array, at, value = node.src
        parts = []
        for source in (array, at, value):
            parts.append((yield source, self.within(source, index), None, 0))
        return same_line(UOp.new(Op.ARRAY_SET, node.dtype, tuple(parts), (self.region_number(node.arg[0]), node.arg[1]), ()), node)

    def _array_get(self, request: Request) -> Answer:
        node, index, gate, _ = request
        self.check_home(node, index, gate)
        parts = []
        for source in node.src:
            parts.append((yield source, self.within(source, index), None, 0))
        return same_line(UOp.new(Op.ARRAY_GET, node.dtype, tuple(parts), (self.region_number(node.arg[0]), node.arg[1]), ()), node)

    def _append(self, request: Request) -> Answer:
        node, index, gate, _ = request
        self.check_home(node, index, gate)
        array, top, mask, values, reverse = node.src
        version = yield array, self.within(array, index), None, 0
        at = yield top, self.within(top, index), None, 0
        turned = yield reverse, self.within(reverse, index), None, 0
        width = int(values.shape[-1])
        assert isinstance(node.dtype, ArrayType)
        region = self.region_number(node.arg[0])
        serial = self.serial_of(node)
        if serial:
            iota = UOp.new(Op.IOTA, int32.vec(width), (), serial)
            keep = yield mask, self.within(mask, (*index, iota)), None, 0
            stored = yield values, self.within(values, (*index, iota)), None, 0
            zero = self.make(Op.MUL, int32, iota, constant(0))
            if keep.dtype.count == 1:
                keep = UOp.new(Op.WHERE, bool_.vec(width), (UOp.new(Op.EQ, bool_.vec(width), (zero, zero)), keep, keep))
            if stored.dtype.count == 1:
                stored = UOp.new(Op.WHERE, stored.dtype.vec(width), (UOp.new(Op.EQ, bool_.vec(width), (zero, zero)), stored, stored))
            return same_line(UOp.new(Op.APPEND, node.dtype, (version, at, keep, stored, turned), (region, node.arg[1]), ()), node)
        for k in range(width):
            keep = yield mask, self.within(mask, (*index, constant(k))), None, 0
            stored = yield values, self.within(values, (*index, constant(k))), None, 0
            if not (turned.op == Op.CONST and not turned.arg):
                other = (*index, constant(width - 1 - k))
                keep = self.make(Op.WHERE, bool_, turned, (yield mask, self.within(mask, other), None, 0), keep)
                stored = self.make(Op.WHERE, stored.dtype, turned, (yield values, self.within(values, other), None, 0), stored)
            version = UOp.new(Op.ARRAY_SET, node.dtype, (version, at, stored), (region, node.arg[1] + k / width), ())
            same_line(version, node)
            at = self.add(at, self.make(Op.CAST, int32, keep))
        self.memo[(node, index, gate, -2)] = at
        return version
