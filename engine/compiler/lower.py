"""From the tensor graph of one kernel to scalar code for one lane.

The question that lowering answers over and over is: what is the element of this node at these coordinates? Coordinates are
themselves kernel-level nodes: a lane's place along an axis (LANE), a constant (an inner axis, unrolled), the counter of a
reduction, a row of 0..T-1 (IOTA: the last inner axis inside a `serial` region). A movement node rewrites the coordinates, an
elementwise node asks its sources at the same ones, a gather asks its index and then its table there, and a buffer turns them
into an address. Answers are remembered, and simplified as they are made.

Loops are asked for components of their state. A component that nobody asks for does not exist, which is how dead state
vanishes: what a loop's condition and the components asked for need is found through a list of pending work.

A value of another lane can be had only through memory. Where one is asked of a node that is costly, or that cannot be computed
at other coordinates at all (control flow), `NeedsCut` tells the scheduler to store that node by an earlier kernel.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import product as combinations
from typing import Any

from engine.compiler.kernel import Kernel
from engine.compiler.optimize import lane_axes, merge_axes
from engine.compiler.place import Component, Region, build_kernel
from engine.compiler.target import Target
from engine.compiler.transcendental import expand
from engine.frontend.trace import TraceError, line_of
from engine.graph.dtypes import ArrayType, DType, bool_, int32
from engine.graph.simplify import NEEDED, SIMPLIFY
from engine.graph.uop import COMPARE, CONTROL, ELEMENTWISE, TRANSCENDENTAL, Op, RegionArg, UOp, product, size_uop

UNROLL = 64  # elements of a reduction that are written out
PRELUDE_REDUCTION = 4096  # elements of a reduction that every workgroup may repeat for itself
_REPEATS, _COST = 4, 12  # a value asked for at more coordinates than this, and dearer than this, is stored

Index = tuple[UOp, ...]
Request = tuple[UOp, Index, UOp | None, int]
_IDENTITY = {Op.ADD: 0, Op.MUL: 1, Op.OR: False, Op.AND: True}


class NeedsCut(Exception):
    """`node` must be stored by an earlier kernel, for this reason."""

    def __init__(self, node: UOp, reason: str) -> None:
        super().__init__(reason)
        self.node, self.reason = node, reason


@dataclass
class _Instance:
    """A control-flow node inside this kernel: its regions, and the components asked for so far."""

    node: UOp
    lanes: Index
    region: Region
    components: dict[tuple[int, Index], Component] = field(default_factory=dict)


def constant(value: int) -> UOp:
    """An int32 constant."""
    return UOp.const(int32, value)


class Lowerer:
    """Lowers one kernel. `materialized`: nodes that memory holds already, with their buffers."""

    def __init__(self, target: Target, lanes: tuple[Any, ...], materialized: dict[UOp, UOp], inner: int = 1, preferred: Any = frozenset()) -> None:
        self.target, self.lanes, self.materialized, self.preferred = target, lanes, materialized, preferred
        self.axes = lane_axes(lanes)
        self.simplify = (SIMPLIFY if target.optimise else NEEDED).simplify
        self.memo: dict[Request, UOp] = {}
        self.regions: dict[int, Region] = {0: Region(0, "prelude", None), 1: Region(1, "lanes", None)}
        self.regions[1].parent = self.regions[0]
        self.instances: dict[UOp, _Instance] = {}
        self.by_region: dict[int, tuple[_Instance, Region]] = {}  # region of the tensor level -> its place here
        self.pending: list[tuple[_Instance, Component, int, Index]] = []
        self.stores: list[UOp] = []
        self.effects: list[UOp] = []
        self.printing: list[_Instance] = []
        self.repeats: dict[UOp, int] = {}
        self.costs: dict[UOp, int] = {}
        self.most_repeats = _REPEATS * inner

    # ---- making nodes ----

    def make(self, op: str, dtype: DType, *sources: UOp, arg: Any = None) -> UOp:
        """A simplified node; its width is that of its widest source."""
        count = 1
        for s in sources:
            if s.dtype.count > count:
                count = s.dtype.count
        node = self.simplify(UOp.new(op, dtype.scalar.vec(count), sources, arg))
        if node.op in TRANSCENDENTAL and self.target.expands_transcendentals:
            return self._expanded(node)
        return node

    def _expanded(self, node: UOp) -> UOp:
        key: Request = (node, (), None, -1)
        if key not in self.memo:
            self.memo[key] = expand(node)
        return self.memo[key]

    def add(self, a: UOp, b: UOp) -> UOp:
        return self.make(Op.ADD, a.dtype, a, b)

    def mul(self, a: UOp, b: UOp) -> UOp:
        return self.make(Op.MUL, a.dtype, a, b)

    def flatten(self, shape: tuple[Any, ...], index: Index) -> UOp:
        """Row-order address of coordinates, as ((i0 * n1 + i1) * n2 + i2)..."""
        address: UOp | None = None
        for size, i in zip(shape, index, strict=True):
            if address is None:
                address = i
            elif isinstance(size, int) and size == 1:
                continue
            else:
                address = self.add(self.mul(address, size_uop(size)), i)
        return address if address is not None else constant(0)

    def unflatten(self, flat: UOp, shape: tuple[Any, ...]) -> Index:
        """The coordinates in `shape` of a row-order position."""
        long = [a for a, size in enumerate(shape) if not (isinstance(size, int) and size == 1)]
        index = [constant(0)] * len(shape)
        for a in reversed(long):
            if a == long[0]:  # what is left is the first coordinate
                index[a] = flat
                break
            n = size_uop(shape[a])
            index[a] = self.make(Op.MOD, int32, flat, n)
            flat = self.make(Op.IDIV, int32, flat, n)
        return tuple(index)

    # ---- asking ----

    def store(self, buffer: UOp, value: UOp, mode: str = "set") -> None:
        """The kernel writes `value` to `buffer`, lanes by lanes; axes beyond the lanes are written out."""
        inner = value.shape[len(self.lanes) :]
        for place in combinations(*(range(int(n)) for n in inner)):
            self._store_at(buffer, value, (*self.axes, *(constant(k) for k in place)), mode)

    def _store_at(self, buffer: UOp, value: UOp, index: Index, mode: str) -> None:
        result = self.value(value, index)
        self.stores.append(UOp.new(Op.STORE, None, (buffer, self.flatten(buffer.shape, index), result), mode))

    def scatter(self, buffer: UOp, node: UOp) -> None:
        """The kernel's lanes are the written elements of a SCATTER node; it updates `buffer` in place."""
        axes, mode = node.arg
        value, *indices = node.src[1:]
        lanes = indices[0].shape
        inner = value.shape[len(lanes) :]
        at = [self.value(i, self.axes) for i in indices]
        at = [i if i.dtype is int32 else self.make(Op.CAST, int32, i) for i in at]
        for place in combinations(*(range(int(n)) for n in inner)):
            rest = tuple(constant(k) for k in place)
            written = self.value(value, (*self.axes, *rest))
            address = self.flatten(buffer.shape, (*at, *rest))
            self.stores.append(UOp.new(Op.STORE, None, (buffer, address, written), mode))

    def value(self, node: UOp, index: Index, gate: UOp | None = None, pin: int = 0) -> UOp:
        """The element of `node` at `index` (valid only where `gate` holds); loads stay inside region `pin`."""
        first: Request = (node, index, gate, pin)
        found = self.memo.get(first)
        if found is not None:
            return found
        stack: list[tuple[Request, Generator[Request, UOp, UOp]]] = [(first, self._answer(first))]
        answer: UOp | None = None
        while stack:
            request, work = stack[-1]
            try:
                wanted = work.send(answer) if answer is not None else next(work)
            except StopIteration as done:
                answer = done.value
                assert answer is not None
                self.memo[request] = answer
                stack.pop()
                continue
            answer = self.memo.get(wanted)
            if answer is None:
                stack.append((wanted, self._answer(wanted)))
        assert answer is not None
        return answer

    def _answer(self, request: Request) -> Generator[Request, UOp, UOp]:
        node = request[0]
        held = self.materialized.get(node)
        if held is not None:
            return self._buffer((held, *request[1:]))
        op = node.op
        if node in self.preferred and self._other_lanes(request[1]) and self.cost(node) > _COST:
            raise NeedsCut(node, "a result that is read by other lanes than its own")
        if op in ELEMENTWISE:
            return self._elementwise(request)
        handler = _HANDLERS.get(op)
        if handler is None:
            raise AssertionError(f"cannot lower {node!r}")
        answer: Generator[Request, UOp, UOp] = handler(self, request)
        return answer

    def _other_lanes(self, index: Index) -> bool:
        """True where these coordinates are not those of the lane that asks."""
        return index[: len(self.axes)] != self.axes

    # ---- leaves ----

    def _const(self, request: Request) -> Generator[Request, UOp, UOp]:
        return request[0]
        yield

    def _buffer(self, request: Request) -> Generator[Request, UOp, UOp]:
        buffer, index, gate, pin = request
        address = self.flatten(buffer.shape, index)
        sources = (buffer, address) if gate is None else (buffer, address, gate)
        count = max(address.dtype.count, gate.dtype.count if gate is not None else 1)
        return UOp.new(Op.LOAD, buffer.dtype.vec(count), sources, pin)
        yield

    def _arange(self, request: Request) -> Generator[Request, UOp, UOp]:
        return request[1][0]
        yield

    # ---- movement ----

    def _reshape(self, request: Request) -> Generator[Request, UOp, UOp]:
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

    def _permute(self, request: Request) -> Generator[Request, UOp, UOp]:
        node, index, gate, pin = request
        inside = [constant(0)] * len(index)
        for place, axis in enumerate(node.arg):
            inside[axis] = index[place]
        return (yield node.src[0], tuple(inside), gate, pin)

    def _expand(self, request: Request) -> Generator[Request, UOp, UOp]:
        node, index, gate, pin = request
        source = node.src[0]
        zero = constant(0)
        inside = tuple(i if s == n else zero for i, s, n in zip(index, source.shape, node.shape, strict=True))
        return (yield source, inside, gate, pin)

    def _pad(self, request: Request) -> Generator[Request, UOp, UOp]:
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

    def _shrink(self, request: Request) -> Generator[Request, UOp, UOp]:
        node, index, gate, pin = request
        return (yield node.src[0], tuple(self.add(i, constant(lo)) for i, lo in zip(index, node.arg, strict=True)), gate, pin)

    def _flip(self, request: Request) -> Generator[Request, UOp, UOp]:
        node, index, gate, pin = request
        inside = list(index)
        for axis in node.arg:
            last = self.add(size_uop(node.shape[axis]), constant(-1))
            inside[axis] = self.make(Op.SUB, int32, last, index[axis])
        return (yield node.src[0], tuple(inside), gate, pin)

    def _stride(self, request: Request) -> Generator[Request, UOp, UOp]:
        node, index, gate, pin = request
        return (yield node.src[0], tuple(self.mul(i, constant(n)) for i, n in zip(index, node.arg, strict=True)), gate, pin)

    def _stack(self, request: Request) -> Generator[Request, UOp, UOp]:
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

    # ---- arithmetic ----

    def _elementwise(self, request: Request) -> Generator[Request, UOp, UOp]:
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
        if count > self.most_repeats and self.cost(node) > _COST and any(_depends_on_lane(i) for i in index):
            raise NeedsCut(node, f"read at {count} or more places of its neighbourhood; recomputing it there costs about {self.cost(node)} operations each")

    def cost(self, node: UOp) -> int:
        """Operations it takes to compute one element, down to memory (transcendentals count 10)."""
        if node not in self.costs:
            for n in node.toposort():
                if n in self.costs:
                    continue
                own = 10 if n.op in TRANSCENDENTAL else 1 if n.op in ELEMENTWISE else 1000 if n.op in CONTROL else 0
                if n in self.materialized or n.op == Op.BUFFER:
                    self.costs[n] = 1
                elif n.op == Op.REDUCE:
                    size = product(n.src[0].shape[a] for a in n.arg[1])
                    self.costs[n] = min(10**9, (self.costs[n.src[0]] + 1) * (size if isinstance(size, int) else 4096))
                else:
                    self.costs[n] = min(10**9, own + sum(self.costs[s] for s in n.src))
        return self.costs[node]

    # ---- reductions ----

    def _reduce(self, request: Request) -> Generator[Request, UOp, UOp]:
        node, index, gate, pin = request
        op, axes = node.arg[0], node.arg[1]
        if len(node.arg) == 3:
            return (yield from self._partial(request))
        if op == "first":
            return (yield from self._first(request))
        source = node.src[0]
        sizes = [source.shape[a] for a in axes]
        serial = self._serial_of(node, pin)
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
            return total if total is not None else UOp.const(node.dtype, _IDENTITY[op])
        if not node.scope and not pin:
            self._check_reduction(node, index, count)
        place_of = self._loop_parent(node, index, gate, pin)
        return (yield from self._reduce_loop(node.dtype, op, size_uop(count), place_of, lambda i: (source, self._place(index, axes, sizes, i), gate, pin)))

    def _first(self, request: Request) -> Generator[Request, UOp, UOp]:
        """Position of the first True along an axis."""
        node, index, gate, pin = request
        (axis,), source = node.arg[1], node.src[0]
        width = int(source.shape[axis])
        serial = self._serial_of(node, pin)
        if serial and axis == len(source.shape) - 1 and width > 1:
            iota = UOp.new(Op.IOTA, int32.vec(width), (), serial)
            value = yield source, (*index[:axis], iota, *index[axis + 1 :]), gate, pin
            if value.dtype.count == 1:
                return self.make(Op.WHERE, int32, value, constant(0), constant(width))
            return UOp.new(Op.ACROSS, int32, (value,), "first")
        result = constant(width)
        for k in range(width - 1, -1, -1):
            here = yield source, (*index[:axis], constant(k), *index[axis + 1 :]), gate, pin
            result = self.make(Op.WHERE, int32, here, constant(k), result)
        return result

    def _reduce_across(self, request: Request, region: int) -> Generator[Request, UOp, UOp]:
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

    def _loop_parent(self, node: UOp, index: Index, gate: UOp | None, pin: int) -> Region:
        scope = max([pin, *(i.scope for i in index), gate.scope if gate is not None else 0])
        if node.scope in self.by_region:
            scope = max(scope, self.by_region[node.scope][1].number)
        return self.regions[scope]

    def _reduce_loop(self, dtype: DType, op: str, count: UOp, parent: Region, element: Any) -> Generator[Request, UOp, UOp]:
        test, body = self._new_region("loop", parent), None
        body = self._new_region("body", test)
        test.body = body
        i = UOp.new(Op.LOOPVAR, int32, (), (test.number, 0))
        total = UOp.new(Op.LOOPVAR, dtype, (), (test.number, 1))
        value = yield element(i)
        test.condition = self.make(Op.LT, bool_, i, count)
        test.components = [
            Component(i, constant(0), self.add(i, constant(1)), None),
            Component(total, _neutral(op, dtype), self.make(op, dtype, total, value), UOp.new(Op.RESULT, dtype, (), (test.number, 1, parent.number))),
        ]
        result = test.components[1].result
        assert result is not None
        return result

    def _partial(self, request: Request) -> Generator[Request, UOp, UOp]:
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

    # ---- tables ----

    def _gather(self, request: Request) -> Generator[Request, UOp, UOp]:
        node, index, gate, pin = request
        axes, region = node.arg
        table, *indices = node.src
        before = axes[0]
        rank = len(indices[0].shape)
        at = index[before : before + rank]
        looked_up = []
        for i in indices:
            value = yield i, at if i.shape else (), gate, pin
            looked_up.append(value if value.dtype.scalar is int32 else self.make(Op.CAST, int32, value))
        inside = (*index[:before], *looked_up, *index[before + rank :])
        if not table.scope and table not in self.materialized and table.op != Op.BUFFER and self.cost(table) > _COST:
            raise NeedsCut(table, "a table that is computed and then looked up")
        own = max(pin, self.by_region[region][1].number if region in self.by_region else 0, 1)
        return (yield table, inside, gate, own)

    # ---- control flow ----

    def _new_region(self, kind: str, parent: Region) -> Region:
        number = len(self.regions)
        self.regions[number] = Region(number, kind, parent)
        parent.children.append(self.regions[number])
        return self.regions[number]

    def _serial_of(self, node: UOp, pin: int = 0) -> int:
        """The serial region around the place where `node` belongs, 0 where there is none."""
        region: Region | None = self.by_region[node.scope][1] if node.scope in self.by_region else self.regions[pin]
        while region is not None:
            if region.kind == "serial":
                return region.number
            region = region.parent
        return 0

    def _enter(self, node: UOp, lanes: Index) -> _Instance:
        found = self.instances.get(node)
        if found is not None:
            if found.lanes != lanes:
                raise NeedsCut(node, "control flow whose results are read by more than one lane")
            return found
        arg: RegionArg = node.arg
        for i in lanes:
            if not (i.op == Op.LANE or (i.op == Op.CONST and i.arg == 0)):
                if node.scope:
                    raise TraceError(f"{line_of(node) or 'a body'}: a body reads another lane's value; only tables can be read at computed places")
                raise NeedsCut(node, "control flow whose results other lanes read")
        parent = self.by_region[arg.parent][1] if arg.parent in self.by_region else self.regions[1]
        if node.op == Op.LOOP:
            region = self._new_region("loop", parent)
            region.body = self._new_region("body", region)
            instance = _Instance(node, lanes, region)
            self.by_region[arg.regions[0]] = (instance, region)
            self.by_region[arg.regions[1]] = (instance, region.body)
        elif node.op == Op.SERIAL:
            region = self._new_region("serial", parent)
            instance = _Instance(node, lanes, region)
            self.by_region[arg.regions[0]] = (instance, region)
        else:
            region = self._new_region(node.op, parent)
            instance = _Instance(node, lanes, region)
            for number in arg.regions:
                arm = self._new_region("arm", region)
                region.arms.append(arm)
                self.by_region[number] = (instance, arm)
        self.instances[node] = instance
        if self._prints(node):
            self.printing.append(instance)
        return instance

    def _proj(self, request: Request) -> Generator[Request, UOp, UOp]:
        node, index, gate, pin = request
        owner, k = node.src[0], node.arg
        if owner.op == Op.APPEND:
            version = yield owner, index if owner.shape else (), gate, pin
            top = self.memo.get((owner, index if owner.shape else (), gate, -2))
            return top if top is not None else UOp.new(Op.PROJ, int32, (version,), 1)
        depth = len(owner.arg.lanes)
        lanes, inner = index[:depth], index[depth:]
        if gate is not None and not owner.scope:
            raise NeedsCut(owner, "control flow whose results are read beyond the edges of its lanes")
        instance = self._enter(owner, lanes)
        if owner.op == Op.LOOP:
            component, picked = yield from self._loop_component(instance, k, inner)
            if component.result is None:
                parent = instance.region.parent
                assert parent is not None
                component.result = UOp.new(Op.RESULT, component.var.dtype, (), (instance.region.number, component.var.arg[1], parent.number))
            return self._pick(component.result, picked)
        found = instance.components.get((k, inner))
        if found is not None:
            assert found.result is not None
            return found.result
        region = instance.region
        assert region.parent is not None
        count = owner.arg.count
        full = (*lanes, *inner)
        if owner.op == Op.SERIAL:
            source = owner.src[k]
            values = [(yield source, full if source.shape else (), gate, 0)]
        else:
            if region.condition is None:
                selector = owner.src[0]
                region.condition = yield selector, lanes if selector.shape else (), None, 0
            values = []
            for n in range(len(region.arms)):
                source = owner.src[1 + n * count + k]
                values.append((yield source, full if source.shape else (), gate, 0))
        dtype = values[0].dtype
        if isinstance(dtype, DType):
            widest = max(values, key=lambda v: v.dtype.count)
            dtype = widest.dtype
        result = UOp.new(Op.RESULT, dtype, (), (region.number, len(region.components), region.parent.number))
        component = Component(result, values[0], values[0], result, tuple(values))
        region.components.append(component)
        instance.components[(k, inner)] = component
        return result

    def _loop_component(self, instance: _Instance, k: int, inner: Index) -> Generator[Request, UOp, tuple[Component, Index]]:
        """The k-th state component at these inner coordinates, and what is left to pick from a vector of them."""
        node = instance.node
        region = instance.region
        initial = node.src[k]
        picked: Index = ()
        serial = self._serial_of(node) if inner else 0
        if inner and serial and isinstance(initial.shape[-1], int) and initial.shape[-1] > 1:
            iota = UOp.new(Op.IOTA, int32.vec(int(initial.shape[-1])), (), serial)
            picked, inner = (inner[-1],), (*inner[:-1], iota)
        key = (k, inner)
        component = instance.components.get(key)
        if component is None:
            dtype = initial.dtype
            if isinstance(dtype, DType) and picked:
                dtype = dtype.vec(inner[-1].dtype.count)
            var = UOp.new(Op.LOOPVAR, dtype, (), (region.number, len(region.components)))
            component = Component(var, var, var, None)
            region.components.append(component)
            instance.components[key] = component
            component.init = yield initial, (*instance.lanes, *inner) if initial.shape else (), None, 0
            self.pending.append((instance, component, k, inner))
        return component, picked

    def _pick(self, value: UOp, picked: Index) -> UOp:
        if not picked or picked[0].op == Op.IOTA:
            return value
        if picked[0].op == Op.CONST:
            return UOp.new(Op.SPLIT, value.dtype.scalar, (value,), picked[0].arg)
        result = UOp.new(Op.SPLIT, value.dtype.scalar, (value,), 0)
        for k in range(1, value.dtype.count):
            here = self.make(Op.EQ, bool_, picked[0], constant(k))
            result = self.make(Op.WHERE, value.dtype.scalar, here, UOp.new(Op.SPLIT, value.dtype.scalar, (value,), k), result)
        return result

    def _loopvar(self, request: Request) -> Generator[Request, UOp, UOp]:
        node, index, _, _ = request
        instance, _ = self.by_region[node.arg[0]]
        depth = len(instance.lanes)
        if index[:depth] != instance.lanes:
            raise TraceError(f"{line_of(instance.node) or 'a loop'}: a body reads another lane's state; only tables can be read at computed places")
        inner = index[depth:]
        for place, i in enumerate(inner):
            if i.op not in (Op.CONST, Op.IOTA):  # a computed place along an inner axis: select
                result: UOp | None = None
                for k in range(int(node.shape[depth + place])):
                    value = yield node, (*index[: depth + place], constant(k), *index[depth + place + 1 :]), None, 0
                    here = self.make(Op.EQ, bool_, i, constant(k))
                    result = value if result is None else self.make(Op.WHERE, node.dtype, here, value, result)
                assert result is not None
                return result
        component, picked = yield from self._loop_component(instance, node.arg[1], inner)
        return self._pick(component.var, picked)

    def _prints(self, node: UOp) -> tuple[UOp, ...]:
        """The effects that a control-flow node keeps behind its results."""
        count = node.arg.count
        results = {Op.LOOP: 2 * count + 1, Op.SERIAL: count}.get(node.op, 1 + len(node.arg.regions) * count)
        return node.src[results:]

    def effect(self, node: UOp, lanes: Index) -> None:
        """A print, or control flow that holds some."""
        if node.op == Op.PRINT:
            self.effects.append(self.value(node, lanes if node.shape else ()))
            return
        instance = self._enter(node, lanes)
        if instance.region.condition is None and node.op != Op.SERIAL:
            test = node.src[node.arg.count if node.op == Op.LOOP else 0]
            instance.region.condition = self.value(test, lanes if test.shape else ())

    def _print(self, request: Request) -> Generator[Request, UOp, UOp]:
        node, index, _, _ = request
        parts = []
        for source in node.src:
            parts.append((yield source, index if source.shape else (), None, 0))
        text, region, sequence = node.arg
        return UOp.new(Op.PRINT, None, tuple(parts), (text, self._region_number(region), sequence), ())

    def finish(self) -> None:
        """Works off what the components asked for so far need in their loops."""
        while self.pending or self.printing:
            if not self.pending:
                holder = self.printing.pop()
                for inner in self._prints(holder.node):
                    self.effect(inner, holder.lanes)
                continue
            instance, component, k, inner = self.pending.pop()
            node = instance.node
            count = node.arg.count
            region = instance.region
            if region.condition is None:
                test = node.src[count]
                region.condition = self.value(test, instance.lanes if test.shape else ())
            source = node.src[count + 1 + k]
            component.next = self.value(source, (*instance.lanes, *inner) if source.shape else ())

    # ---- effects ----

    def _region_number(self, tensor_region: int) -> int:
        return self.by_region[tensor_region][1].number if tensor_region in self.by_region else 1

    def _array(self, request: Request) -> Generator[Request, UOp, UOp]:
        node = request[0]
        return UOp.new(Op.ARRAY, node.dtype, (), (node.arg[0], self._region_number(node.arg[1])), ())
        yield

    def _array_set(self, request: Request) -> Generator[Request, UOp, UOp]:
        node, index, _, _ = request
        array, at, value = node.src
        parts = []
        for source in (array, at, value):
            parts.append((yield source, self._lanes_of(source, index), None, 0))
        return UOp.new(Op.ARRAY_SET, node.dtype, tuple(parts), (self._region_number(node.arg[0]), node.arg[1]), ())

    def _lanes_of(self, source: UOp, index: Index) -> Index:
        return index if source.shape else ()

    def _array_get(self, request: Request) -> Generator[Request, UOp, UOp]:
        node, index, _, _ = request
        parts = []
        for source in node.src:
            parts.append((yield source, self._lanes_of(source, index), None, 0))
        return UOp.new(Op.ARRAY_GET, node.dtype, tuple(parts), (self._region_number(node.arg[0]), node.arg[1]), ())

    def _append(self, request: Request) -> Generator[Request, UOp, UOp]:
        node, index, gate, _ = request
        array, top, mask, values = node.src
        version = yield array, self._lanes_of(array, index), None, 0
        at = yield top, self._lanes_of(top, index), None, 0
        width = int(values.shape[-1])
        assert isinstance(node.dtype, ArrayType)
        region = self._region_number(node.arg[0])
        serial = self._serial_of(node)
        if serial:
            iota = UOp.new(Op.IOTA, int32.vec(width), (), serial)
            keep = yield mask, (*index, iota), None, 0
            stored = yield values, (*index, iota), None, 0
            zero = self.make(Op.MUL, int32, iota, constant(0))
            if keep.dtype.count == 1:
                keep = UOp.new(Op.WHERE, bool_.vec(width), (UOp.new(Op.EQ, bool_.vec(width), (zero, zero)), keep, keep))
            if stored.dtype.count == 1:
                stored = UOp.new(Op.WHERE, stored.dtype.vec(width), (UOp.new(Op.EQ, bool_.vec(width), (zero, zero)), stored, stored))
            return UOp.new(Op.APPEND, node.dtype, (version, at, keep, stored), (region, node.arg[1]), ())
        for k in range(width):
            keep = yield mask, (*index, constant(k)), None, 0
            stored = yield values, (*index, constant(k)), None, 0
            version = UOp.new(Op.ARRAY_SET, node.dtype, (version, at, stored), (region, node.arg[1] + k / width), ())
            at = self.add(at, self.make(Op.CAST, int32, keep))
        self.memo[(node, index, gate, -2)] = at
        return version

    def _vote(self, request: Request) -> Generator[Request, UOp, UOp]:
        node, index, _, _ = request
        kind, region, sequence = node.arg
        value = yield node.src[0], index if node.src[0].shape else (), None, 0
        return UOp.new(Op.VOTE, node.dtype, (value,), (kind, self._region_number(region), sequence), ())

    def _cut_here(self, request: Request) -> Generator[Request, UOp, UOp]:
        node, index, gate, pin = request
        return (yield node.src[-1], index, gate, pin)

    def _must_be_stored(self, request: Request) -> Generator[Request, UOp, UOp]:
        raise NeedsCut(request[0], "writes to computed places")
        yield


def _equal(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def _less(a: Any, b: Any) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int)
    return len(a.toposort()) <= len(b.toposort())


def _neutral(op: str, dtype: DType) -> UOp:
    """What `op` leaves as it is."""
    value: Any = _IDENTITY.get(op)
    if value is None:
        extreme = (float("inf"), float("-inf")) if dtype.is_float else (dtype.max, dtype.min)
        value = extreme[op == Op.MAX]
    return UOp.const(dtype, value)


def _depends_on_lane(node: UOp) -> bool:
    return node.scope > 0


_HANDLERS: dict[str, Any] = {
    Op.CONST: Lowerer._const,
    Op.DIM: Lowerer._const,
    Op.BUFFER: Lowerer._buffer,
    Op.ARANGE: Lowerer._arange,
    Op.RESHAPE: Lowerer._reshape,
    Op.PERMUTE: Lowerer._permute,
    Op.EXPAND: Lowerer._expand,
    Op.PAD: Lowerer._pad,
    Op.SHRINK: Lowerer._shrink,
    Op.FLIP: Lowerer._flip,
    Op.STRIDE: Lowerer._stride,
    Op.STACK: Lowerer._stack,
    Op.REDUCE: Lowerer._reduce,
    Op.GATHER: Lowerer._gather,
    Op.PROJ: Lowerer._proj,
    Op.LOOPVAR: Lowerer._loopvar,
    Op.ARRAY: Lowerer._array,
    Op.ARRAY_SET: Lowerer._array_set,
    Op.ARRAY_GET: Lowerer._array_get,
    Op.APPEND: Lowerer._append,
    Op.VOTE: Lowerer._vote,
    Op.PRINT: Lowerer._print,
    Op.CONTIGUOUS: Lowerer._cut_here,
    Op.ASSIGN: Lowerer._cut_here,
    Op.SCATTER: Lowerer._must_be_stored,
}


def lower(
    name: str,
    stores: list[tuple[UOp, UOp]],
    lanes: tuple[Any, ...],
    target: Target,
    materialized: dict[UOp, UOp],
    preferred: set[UOp] | frozenset[UOp] = frozenset(),
) -> Kernel:
    """The kernel that writes each value of `stores` (buffer, node) over these lanes. `preferred`: nodes that get stored anyway, where
    a cut costs nothing. Raises NeedsCut, TraceError.
    """
    inner = 1
    for _, value in stores:
        count = product(value.shape[len(lanes) :])
        inner = max(inner, count if isinstance(count, int) else 1)
    work = Lowerer(target, lanes, materialized, inner, preferred)
    scattered = [node for _, node in stores if node.op == Op.SCATTER]
    for buffer, node in stores:
        if node.op == Op.SCATTER:
            work.scatter(buffer, node)
        elif node.op == Op.PRINT or node.op in CONTROL:
            work.effect(node, work.axes)
        else:
            work.store(buffer, node)
    work.finish()
    written, kernel_lanes = merge_axes(work.stores, work.regions, work.axes, fixed=bool(work.effects))
    return build_kernel(name, written, work.effects, work.regions, kernel_lanes, ordered=bool(scattered))
