"""Lowering of reductions: written out, across an inner vector, or as a loop.

A long reduction is a loop of the lane that wants the result. Where its elements lie side by side in memory (the rows of a picture, of
which each lane sums one), neighbouring lanes would read elements far apart. Such a loop stands in a `serial` region: lane after lane, each
goes along its row with a short vector of partial results, whose last step is masked; then what the vector holds is reduced. The
vector's width does not depend on the device, so that sums of floats are the same everywhere.
"""

from __future__ import annotations

from itertools import product as combinations
from typing import Any

from engine.compiler.lower_core import Answer, Core, Index, NeedsCut, Request, constant
from engine.compiler.place import Component, Region
from engine.graph.dtypes import DType, bool_, int32
from engine.graph.uop import Op, UOp, product, size_uop, toposort

UNROLL = 64  # elements of a reduction that are written out
ROW_BYTES = 128  # partial results of a reduction along a row
PRELUDE_REDUCTION = 4096  # elements of a reduction that every workgroup may repeat for itself
IDENTITY = {Op.ADD: 0, Op.MUL: 1, Op.OR: False, Op.AND: True}


class Reductions(Core):
    """REDUCE nodes."""

    # ---- reductions ----

    def _reduce(self, request: Request) -> Answer:
        node, index, gate, pin = request
        op, axes = node.arg[0], node.arg[1]
        if len(node.arg) == 3:
            return (yield from self._partial(request))
        if op in ("first", "last"):
            return (yield from self._first(request))
        source = node.src[0]
        sizes = [source.shape[a] for a in axes]
        serial = self.serial_of(node, pin)
        last = len(source.shape) - 1
        if serial and last in axes and isinstance(source.shape[last], int):
            return (yield from self._reduce_across(request, serial))
        count = product(sizes)
        if self.target.group > 1 and source in self.materialized and last in axes and source.shape[last] == self.target.group:
            shared = not node.scope and not pin and gate is None and all(i.op == Op.CONST for i in index)
            if shared and isinstance(count, int) and count <= UNROLL * self.target.group:
                return (yield from self._reduce_across(request, 0))
        if isinstance(count, int) and count <= UNROLL:
            total: UOp | None = None
            for place in combinations(*(range(int(n)) for n in sizes)):
                inside = list(index)
                for a, k in zip(axes, place, strict=True):
                    inside[a] = constant(k)
                value = yield source, tuple(inside), gate, pin
                total = value if total is None else self.make(op, node.dtype, total, value)
            return total if total is not None else UOp.const(node.dtype, IDENTITY[op])
        if not node.scope and not pin:
            self._check_reduction(node, index, count)
        place_of = self._loop_parent(node, index, gate, pin)

        def element(i: UOp, inside: UOp | None) -> Request:
            return source, self._place(index, axes, sizes, i), inside or gate, pin

        if not node.scope and not pin and gate is None and place_of.number <= (1 if self.lanes else 0):
            repeats = dict(self.repeats)
            probe = UOp.new(Op.LOOPVAR, int32, (), (place_of.number, 0))
            along = _lies_along(self, (yield element(probe, None)), probe)
            self.repeats = repeats
            if along:
                return (yield from self._reduce_row(node.dtype, op, size_uop(count), place_of, element))
        return (yield from self._reduce_loop(node.dtype, op, size_uop(count), place_of, lambda i: element(i, None)))

    def _first(self, request: Request) -> Answer:
        """Position of the first or last True along an axis."""
        node, index, gate, pin = request
        (which, (axis,)), source = node.arg, node.src[0]
        width = int(source.shape[axis])
        serial = self.serial_of(node, pin)
        if serial and axis == len(source.shape) - 1 and width > 1:
            iota = UOp.new(Op.IOTA, int32.vec(width), (), serial)
            value = yield source, (*index[:axis], iota, *index[axis + 1 :]), gate, pin
            if value.dtype.count == 1:
                found, none = (0, width) if which == "first" else (width - 1, -1)
                return self.make(Op.WHERE, int32, value, constant(found), constant(none))
            return UOp.new(Op.ACROSS, int32, (value,), which)
        result = constant(width if which == "first" else -1)
        for k in range(width - 1, -1, -1) if which == "first" else range(width):
            here = yield source, (*index[:axis], constant(k), *index[axis + 1 :]), gate, pin
            result = self.make(Op.WHERE, int32, here, constant(k), result)
        return result

    def _reduce_across(self, request: Request, region: int) -> Answer:
        """A reduction whose last axis lies across the SIMD unit: inside `serial`, and in the prelude (region 0)."""
        node, index, gate, pin = request
        op, axes = node.arg[0], node.arg[1]
        source = node.src[0]
        last = len(source.shape) - 1
        width = int(source.shape[last])
        iota = UOp.new(Op.IOTA, int32.vec(width), (), region)
        others = [a for a in axes if a != last]
        total: UOp | None = None
        for place in combinations(*(range(int(source.shape[a])) for a in others)):
            inside = list(index)
            inside[last] = iota
            for a, k in zip(others, place, strict=True):
                inside[a] = constant(k)
            value = yield source, tuple(inside), gate, pin
            total = value if total is None else self.make(op, node.dtype, total, value)
        assert total is not None
        return self._splat(total, width, op) if total.dtype.count == 1 else UOp.new(Op.ACROSS, node.dtype, (total,), op)

    def _splat(self, value: UOp, width: int, op: str) -> UOp:
        """The reduction of one value repeated."""
        if op == Op.ADD:
            return self.make(Op.MUL, value.dtype, value, UOp.const(value.dtype, width))
        if op == Op.MUL:
            result = value
            for _ in range(width - 1):
                result = self.make(Op.MUL, value.dtype, result, value)
            return result
        return value

    def _place(self, index: Index, axes: tuple[int, ...], sizes: list[Any], flat: UOp) -> Index:
        inside = list(index)
        for a, i in zip(axes, self.unflatten(flat, tuple(sizes)), strict=True):
            inside[a] = i
        return tuple(inside)

    def _check_reduction(self, node: UOp, index: Index, count: Any) -> None:
        """A long reduction runs where each of its results is used once; else it ends a kernel of its own."""
        used = {i.arg[0] for i in index if i.op == Op.LANE}
        plain = all(i.op in (Op.LANE, Op.CONST) for i in index)
        if plain and len(used) == sum(1 for s in self.lanes if not (isinstance(s, int) and s == 1)):
            return
        short = isinstance(count, int) and count <= PRELUDE_REDUCTION and self.cost(node.src[0]) <= 8
        if plain and not used and short:
            return
        raise NeedsCut(node, f"a reduction over {count if isinstance(count, int) else 'many'} elements whose results other lanes share")

    def _looks_up(self, node: UOp) -> bool:
        """True where a value needs tables or control flow, which have no place in the prelude."""
        found = self.looking_up.get(node)
        if found is None:
            below = toposort((node,), stop=lambda n: n in self.materialized and n is not node)
            found = any(n.op in (Op.GATHER, Op.PROJ) for n in below)
            self.looking_up[node] = found
        return found

    def _loop_parent(self, node: UOp, index: Index, gate: UOp | None, pin: int) -> Region:
        scope = max([pin, *(i.scope for i in index), gate.scope if gate is not None else 0])
        if node.scope in self.by_region:
            scope = max(scope, self.by_region[node.scope][1].number)
        return self.regions[max(scope, 1) if self._looks_up(node) else scope]

    def _reduce_loop(self, dtype: DType, op: str, count: UOp, parent: Region, element: Any) -> Answer:
        test, body = self.new_region("loop", parent), None
        body = self.new_region("body", test)
        test.body = body
        i = UOp.new(Op.LOOPVAR, int32, (), (test.number, 0))
        total = UOp.new(Op.LOOPVAR, dtype, (), (test.number, 1))
        value = yield element(i)
        test.condition = self.make(Op.LT, bool_, i, count)
        outcome = UOp.new(Op.RESULT, dtype, (), (test.number, 1, parent.number))
        test.components = [
            Component(i, constant(0), self.add(i, constant(1)), None),
            Component(total, _neutral(op, dtype), self.make(op, dtype, total, value), outcome),
        ]
        result = test.components[1].result
        assert result is not None
        return result

    def _reduce_row(self, dtype: DType, op: str, size: UOp, parent: Region, element: Any) -> Answer:
        """Lane after lane: chunks of a row added to a vector, then what is left of the row, then the vector's elements."""
        width = max(8, min(64, ROW_BYTES // dtype.itemsize))
        serial = self.new_region("serial", parent)
        test = self.new_region("loop", serial)
        test.body = self.new_region("body", test)
        iota = UOp.new(Op.IOTA, int32.vec(width), (), serial.number)
        everywhere = UOp.new(Op.EQ, bool_.vec(width), (iota, iota))
        nothing = UOp.new(Op.WHERE, dtype.vec(width), (everywhere, _neutral(op, dtype), _neutral(op, dtype)))
        first = UOp.new(Op.LOOPVAR, int32, (), (test.number, 0))
        total = UOp.new(Op.LOOPVAR, dtype.vec(width), (), (test.number, 1))
        whole = self.mul(self.make(Op.IDIV, int32, size, constant(width)), constant(width))
        repeats = dict(self.repeats)
        value = yield element(self.add(first, iota), None)
        test.condition = self.make(Op.LT, bool_, first, whole)
        result = UOp.new(Op.RESULT, dtype.vec(width), (), (test.number, 1, serial.number))
        test.components = [
            Component(first, constant(0), self.add(first, constant(width)), None),
            Component(total, nothing, self.make(op, dtype, total, value), result),
        ]
        left = self.make(Op.SUB, int32, size, whole)
        if not (left.op == Op.CONST and left.arg == 0):
            self.repeats = repeats  # the same element, as far as its cost goes
            place = self.add(whole, iota)
            inside = self.make(Op.LT, bool_, place, size)
            value = yield element(place, inside)
            result = self.make(op, dtype, result, self.make(Op.WHERE, dtype, inside, value, nothing))
        across = UOp.new(Op.ACROSS, dtype, (result,), op)
        outcome = UOp.new(Op.RESULT, dtype, (), (serial.number, 0, parent.number))
        serial.components = [Component(outcome, across, across, outcome, (across,))]
        return outcome

    def _partial(self, request: Request) -> Answer:
        """REDUCE with parts=(pieces, width): result [kept axes..., pieces, width]. The elements are taken for rows of `width`: lane
        (.., p, w) takes element w of the rows of piece p, the last piece also what is left after the last whole row.
        """
        node, index, _, pin = request
        op, axes, (pieces, width) = node.arg
        source = node.src[0]
        sizes = tuple(source.shape[a] for a in axes)
        kept = [a for a in range(len(source.shape)) if a not in axes]
        total = size_uop(product(sizes))
        rows = self.make(Op.IDIV, int32, total, constant(width))
        each = self.make(Op.IDIV, int32, self.add(rows, constant(pieces - 1)), constant(pieces))
        piece, place = index[-2], index[-1]
        first = self.mul(piece, each)
        count = self.make(Op.MIN, int32, each, self.make(Op.SUB, int32, rows, first))

        def element(row: UOp, gate: UOp | None) -> Request:
            flat = self.add(self.mul(row, constant(width)), place)
            inside: list[UOp] = [constant(0)] * len(source.shape)
            for a, i in zip((*kept, *axes), (*index[:-2], *self.unflatten(flat, sizes)), strict=True):
                inside[a] = i
            return source, tuple(inside), gate, pin

        parent = self._loop_parent(node, index, None, pin)
        result = yield from self._reduce_loop(node.dtype, op, count, parent, lambda j: element(self.add(first, j), None))
        left = self.make(Op.SUB, int32, total, self.mul(rows, constant(width)))
        if left.op == Op.CONST and left.arg == 0:
            return result
        gate = self.make(Op.AND, bool_, self.make(Op.EQ, bool_, piece, constant(pieces - 1)), self.make(Op.LT, bool_, place, left))
        value = yield element(rows, gate)
        return self.make(op, node.dtype, result, self.make(Op.WHERE, node.dtype, gate, value, _neutral(op, node.dtype)))


def _neutral(op: str, dtype: DType) -> UOp:
    """What `op` leaves as it is."""
    value: Any = IDENTITY.get(op)
    if value is None:
        extreme = (float("inf"), float("-inf")) if dtype.is_float else (dtype.max, dtype.min)
        value = extreme[op == Op.MAX]
    return UOp.const(dtype, value)


def _lies_along(core: Core, value: UOp, place: UOp) -> bool:
    """True where more loads of `value` lie side by side in memory along `place` than along the lanes of a group."""
    lanes = [axis for axis in core.axes if axis.op == Op.LANE]
    votes = 0
    for node in value.toposort():
        if node.op == Op.LOAD:
            votes += _step(node.src[1], place) == 1
            votes -= bool(lanes) and _step(node.src[1], lanes[-1]) == 1
    return votes > 0


def _step(address: UOp, variable: UOp) -> int | None:
    """By how much an address grows with a variable; None where that is no constant."""
    steps: dict[UOp, int | None] = {}
    for node in address.toposort():
        a, *rest = (steps[s] for s in node.src) if node.src else (0,)
        b = rest[0] if rest else 0
        if node is variable:
            steps[node] = 1
        elif all(steps[s] == 0 for s in node.src):
            steps[node] = 0
        elif node.op in (Op.ADD, Op.SUB) and a is not None and b is not None:
            steps[node] = a + b if node.op == Op.ADD else a - b
        elif node.op == Op.MUL and node.src[1].op == Op.CONST and a is not None:
            steps[node] = a * int(node.src[1].arg)
        else:
            steps[node] = None
    return steps[address]
