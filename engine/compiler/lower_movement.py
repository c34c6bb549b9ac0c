"""Lowering of memory, movement and arithmetic: coordinates in, the element out."""

from __future__ import annotations

from typing import Any

from engine.compiler.lower_core import COST, Answer, Core, Index, NeedsCut, Request, constant
from engine.graph.dtypes import bool_, int32
from engine.graph.uop import COMPARE, Op, UOp, product, size_uop


class Movement(Core):
    """Leaves, movement nodes, elementwise nodes."""

    # ---- leaves ----

    def _const(self, request: Request) -> UOp:
        return request[0]

    def _buffer(self, request: Request) -> UOp:
        buffer, index, gate, pin = request
        address = self.flatten(buffer.shape, index)
        sources = (buffer, address) if gate is None else (buffer, address, gate)
        count = max(address.dtype.count, gate.dtype.count if gate is not None else 1)
        return UOp.new(Op.LOAD, buffer.dtype.vec(count), sources, pin)

    def _arange(self, request: Request) -> UOp:
        return request[1][0]

    # ---- movement ----

    def _reshape(self, request: Request) -> Answer:
        node, index, gate, pin = request
        inside = self.reindex(node.src[0].shape, node.shape, index)
        return (yield node.src[0], inside, gate, pin)

    def reindex(self, inside: tuple[Any, ...], outside: tuple[Any, ...], index: Index) -> Index:
        """Coordinates in shape `inside` of coordinates in `outside`, the same elements in row order: group by group of equal size."""
        result: list[UOp] = []
        i = o = 0
        while i < len(inside) or o < len(outside):
            i0, o0 = i, o
            a: Any = 1
            b: Any = 1
            if i < len(inside):
                a, i = inside[i], i + 1
            if o < len(outside):
                b, o = outside[o], o + 1
            while not _equal(a, b):
                if i < len(inside) and (o >= len(outside) or _less(a, b)):
                    a, i = product((a, inside[i])), i + 1
                elif o < len(outside):
                    b, o = product((b, outside[o])), o + 1
                elif i < len(inside):
                    a, i = product((a, inside[i])), i + 1
                else:
                    raise AssertionError(f"reshape between {outside} and {inside}")
            part_in, part_out = inside[i0:i], outside[o0:o]
            if len(part_in) == 1 and len(part_out) == 1:
                result.append(index[o0])
            else:
                flat = self.flatten(part_out, index[o0:o]) if len(part_out) != 1 else index[o0]
                if not part_out:
                    flat = constant(0)
                result.extend(self.unflatten(flat, part_in) if len(part_in) != 1 else (flat,))
        return tuple(result)

    def _permute(self, request: Request) -> Answer:
        node, index, gate, pin = request
        inside = [constant(0)] * len(index)
        for place, axis in enumerate(node.arg):
            inside[axis] = index[place]
        return (yield node.src[0], tuple(inside), gate, pin)

    def _expand(self, request: Request) -> Answer:
        node, index, gate, pin = request
        source = node.src[0]
        zero = constant(0)
        inside = tuple(i if s == n else zero for i, s, n in zip(index, source.shape, node.shape, strict=True))
        return (yield source, inside, gate, pin)

    def _pad(self, request: Request) -> Answer:
        node, index, gate, pin = request
        source = node.src[0]
        inside: list[UOp] = []
        valid: UOp | None = None
        for i, size, (lo, hi) in zip(index, source.shape, node.arg, strict=True):
            at = self.make(Op.SUB, int32, i, constant(lo)) if not lo else self.add(i, constant(-lo))
            inside.append(at)
            tests = []
            if lo:
                tests.append(self.make(Op.LE, bool_, constant(0), at))
            if hi:
                tests.append(self.make(Op.LT, bool_, at, size_uop(size)))
            for test in tests:
                valid = test if valid is None else self.make(Op.AND, bool_, valid, test)
        if valid is None or (valid.op == Op.CONST and valid.arg):
            return (yield source, tuple(inside), gate, pin)
        if valid.op == Op.CONST:
            return UOp.const(node.dtype, 0)
        both = valid if gate is None else self.make(Op.AND, bool_, gate, valid)
        value = yield source, tuple(inside), both, pin
        if value.op == Op.LOAD and len(value.src) == 3 and value.src[2] is both:
            return value  # a gated load is zero beyond its gate
        return self.make(Op.WHERE, node.dtype, valid, value, UOp.const(node.dtype, 0))

    def _shrink(self, request: Request) -> Answer:
        node, index, gate, pin = request
        return (yield node.src[0], tuple(self.add(i, constant(lo)) for i, lo in zip(index, node.arg, strict=True)), gate, pin)

    def _flip(self, request: Request) -> Answer:
        node, index, gate, pin = request
        inside = list(index)
        for axis in node.arg:
            last = self.add(size_uop(node.shape[axis]), constant(-1))
            inside[axis] = self.make(Op.SUB, int32, last, index[axis])
        return (yield node.src[0], tuple(inside), gate, pin)

    def _stride(self, request: Request) -> Answer:
        node, index, gate, pin = request
        return (yield node.src[0], tuple(self.mul(i, constant(n)) for i, n in zip(index, node.arg, strict=True)), gate, pin)

    def _stack(self, request: Request) -> Answer:
        node, index, gate, pin = request
        which, rest = index[node.arg], index[: node.arg] + index[node.arg + 1 :]
        if which.op == Op.CONST:
            source = node.src[which.arg]
            return (yield source, rest if source.shape else (), gate, pin)
        result: UOp | None = None
        for k, source in enumerate(node.src):
            value = yield source, rest if source.shape else (), gate, pin
            if result is None:
                result = value
            else:
                result = self.make(Op.WHERE, node.dtype, self.make(Op.LT, bool_, which, constant(k)), result, value)
        assert result is not None
        return result

    def _for_one(self, request: Request) -> Answer:
        """An element that no coordinate along an inner vector leads to any more: what the gate says of those does not matter."""
        node, index, gate, pin = request
        left: UOp | None = None
        stack = [gate]
        while stack:
            part = stack.pop()
            assert part is not None
            if part.op == Op.AND and part.dtype.count > 1:
                stack.extend(reversed(part.src))
            elif part.dtype.count == 1:
                left = part if left is None else self.make(Op.AND, bool_, left, part)
        return (yield node, index, left, pin)

    # ---- arithmetic ----

    def _elementwise(self, request: Request) -> Answer:
        node, index, gate, pin = request
        if not node.scope and index:
            self._count_repeat(node, index)
        values = []
        for source in node.src:
            values.append((yield source, index if source.shape else (), gate, pin))
        return self.make(node.op, bool_ if node.op in COMPARE else node.dtype, *values, arg=node.arg)

    def _count_repeat(self, node: UOp, index: Index) -> None:
        """Asks for a cut where recomputing a value at many coordinates costs more than storing it."""
        count = self.repeats.get(node, 0) + 1
        self.repeats[node] = count
        if count > self.most_repeats and self.cost(node) > COST and any(_depends_on_lane(i) for i in index):
            raise NeedsCut(node, f"read at {count} places of its neighbourhood; each time it would take {self.cost(node)} operations")


def _equal(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def _less(a: Any, b: Any) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int)
    return len(a.toposort()) <= len(b.toposort())


def _depends_on_lane(node: UOp) -> bool:
    return node.scope > 0
