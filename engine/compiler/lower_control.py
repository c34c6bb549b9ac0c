"""Lowering of tables, control flow and effects.

A control-flow node becomes a region of the kernel when the first of its results is asked for. Results and loop state are made
component by component, as they are asked for; what nobody asks for does not exist.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import product as combinations

from engine.compiler.kernel import same_line
from engine.compiler.lower_arrays import Arrays
from engine.compiler.lower_core import COST, ONLY_TABLES, Answer, Index, Instance, NeedsCut, Request, constant
from engine.compiler.place import Component, Region
from engine.frontend.trace import TraceError, line_of
from engine.graph.dtypes import DType, bool_, int32
from engine.graph.uop import EFFECTS, Op, RegionArg, UOp

_SELECTED = 4  # constants up to which one of them is selected, not read from a table
_WRITTEN_OUT = 64  # elements of an inner axis up to which one of them is selected, where the others could also be stored
_LATE = frozenset({*EFFECTS, Op.RESULT})
Picking = Generator[Request, UOp, tuple[Component, Index]]  # asks, then gives a component and what is to be picked from it


class Control(Arrays):
    """GATHER, PROJ, loop variables, private arrays, votes, prints."""

    # ---- tables ----

    def _gather(self, request: Request) -> Answer:
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
        if gate is None and len(inside) == 1 and _is_constant(table):
            where = looked_up[0]
            return same_line(UOp.new(Op.GATHER, table.dtype.vec(where.dtype.count), (where, *table.src), ((), 0), ()), node)
        if not table.scope and table not in self.materialized and table.op != Op.BUFFER and self.cost(table) > COST:
            raise NeedsCut(table, "a table that is computed and then looked up")
        own = max(pin, self.by_region[region][1].number if region in self.by_region else 0, 1)
        value = yield table, inside, gate, own
        for part in (value, *value.src):
            if part.op == Op.LOAD:
                same_line(part, node)
        return value

    # ---- control flow ----

    def _enter(self, node: UOp, lanes: Index) -> Instance:
        found = self.instances.get(node)
        if found is not None:
            if found.lanes != lanes:
                raise NeedsCut(node, "control flow whose results are read by more than one lane")
            return found
        arg: RegionArg = node.arg
        for i in lanes:
            if not (i.op == Op.LANE or (i.op == Op.CONST and i.arg == 0)):
                if node.scope:
                    raise TraceError(f"{line_of(node) or 'a body'}: a body reads another lane's value; {ONLY_TABLES}")
                raise NeedsCut(node, "control flow whose results other lanes read")
        parent = self.by_region[arg.parent][1] if arg.parent in self.by_region else self.regions[1]
        if node.op == Op.LOOP:
            region = self.new_region("loop", parent)
            region.body = self.new_region("body", region)
            instance = Instance(node, lanes, region)
            self.by_region[arg.regions[0]] = (instance, region)
            self.by_region[arg.regions[1]] = (instance, region.body)
        elif node.op == Op.SERIAL:
            region = self.new_region("serial", parent)
            instance = Instance(node, lanes, region)
            self.by_region[arg.regions[0]] = (instance, region)
        else:
            region = self.new_region(node.op, parent)
            instance = Instance(node, lanes, region)
            for number in arg.regions:
                arm = self.new_region("arm", region)
                region.arms.append(arm)
                self.by_region[number] = (instance, arm)
        self.instances[node] = instance
        if self._prints(node):
            self.printing.append(instance)
        return instance

    def _proj(self, request: Request) -> Answer:
        node, index, gate, pin = request
        owner, k = node.src[0], node.arg
        if owner.op == Op.APPEND:
            self.check_home(node, index, gate)
            version = yield owner, index if owner.shape else (), gate, pin
            top = self.memo.get((owner, index if owner.shape else (), gate, -2))
            return top if top is not None else UOp.new(Op.PROJ, int32, (version,), 1)
        depth = len(owner.arg.lanes)
        lanes, inner = index[:depth], index[depth:]
        if gate is not None and not owner.scope:
            raise NeedsCut(owner, "control flow whose results are read beyond the edges of its lanes")
        instance = self._enter(owner, lanes)
        whole = owner.op == Op.LOOP and self._is_vector(owner, k)
        axis = self._axis_to_select(request, depth, len(index) - whole, instance.region.parent)
        if axis is not None:
            return (yield from self._selected(request, axis))
        if owner.op == Op.LOOP:
            component, picked = yield from self._loop_component(instance, k, inner)
            if component.result is None:
                loop, parent = instance.region, instance.region.parent
                assert parent is not None
                component.result = UOp.new(Op.RESULT, component.var.dtype, (), (loop.number, component.var.arg[1], parent.number))
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
            values = [(yield source, self.within(source, full), None, 0)]
        else:
            if region.condition is None:
                selector = owner.src[0]
                region.condition = yield selector, lanes if selector.shape else (), None, 0
            values = []
            for n in range(len(region.arms)):
                source = owner.src[1 + n * count + k]
                values.append((yield source, self.within(source, full), None, 0))
        dtype = values[0].dtype
        if isinstance(dtype, DType):
            widest = max(values, key=lambda v: v.dtype.count)
            dtype = widest.dtype
        result = UOp.new(Op.RESULT, dtype, (), (region.number, len(region.components), region.parent.number))
        component = Component(result, values[0], values[0], result, tuple(values))
        region.components.append(component)
        instance.components[(k, inner)] = component
        return result

    def _loop_component(self, instance: Instance, k: int, inner: Index) -> Picking:
        """The k-th state component at these inner coordinates, and what is left to pick from a vector of them."""
        node = instance.node
        region = instance.region
        initial = node.src[k]
        picked: Index = ()
        if inner and self._is_vector(node, k):
            iota = UOp.new(Op.IOTA, int32.vec(int(initial.shape[-1])), (), self.serial_of(node))
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
            component.init = yield initial, self.within(initial, (*instance.lanes, *inner)), None, 0
            self.pending.append((instance, component, k, inner))
        return component, picked

    def _is_vector(self, loop: UOp, k: int) -> bool:
        """True where the k-th state of a loop lies across the SIMD unit: all of its last inner axis is one component."""
        shape = loop.src[k].shape
        return len(shape) > len(loop.arg.lanes) and isinstance(shape[-1], int) and shape[-1] > 1 and self.serial_of(loop) > 0

    # ---- inner axes at places that are computed ----

    def _axis_to_select(self, request: Request, first: int, end: int, around: Region | None, vote: bool = False) -> int | None:
        """The first of these axes along which a result of control flow (or a vote) in region `around` is not made at the place asked for.

        What control flow computes is made where it stands. So a place along an inner axis has to be known before it, not inside it or
        after it. Nor is a place that may lie beyond the axis' ends (there is a gate) one to make a result for. Lanes that vote inside a
        body (`vote`) have to vote on the same place.
        """
        _, index, gate, _ = request
        assert around is not None
        for axis in range(first, end):
            i = index[axis]
            if i.op != Op.CONST and (gate is not None or (vote and i.op != Op.IOTA) or not _is_known(i, around)):
                return axis
        return None

    def _selected(self, request: Request, axis: int) -> Answer:
        """An element of which the place along `axis` is known too late: those at all places are made, and one is selected."""
        node, index, _, _ = request
        size = node.shape[axis]
        if not node.scope and not (isinstance(size, int) and size <= _WRITTEN_OUT):
            raise NeedsCut(node.src[0] if node.op == Op.PROJ else node, "control flow whose results are read at computed places")
        if not isinstance(size, int):
            owner = node.src[0] if node.src else self.by_region[node.arg[0]][0].node
            raise TraceError(f"{line_of(owner) or 'a body'}: an inner axis of dynamic size is read at computed places; {ONLY_TABLES}")
        result: UOp | None = None
        for k in range(size):
            value = yield node, (*index[:axis], constant(k), *index[axis + 1 :]), None, 0
            here = self.make(Op.EQ, bool_, index[axis], constant(k))
            result = value if result is None else self.make(Op.WHERE, node.dtype, here, value, result)
        assert result is not None
        return result

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

    def _loopvar(self, request: Request) -> Answer:
        node, index, _, _ = request
        instance, _ = self.by_region[node.arg[0]]
        if instance.node.op == Op.SWITCH:  # in an arm: what the switch is decided by
            assert instance.region.condition is not None
            return instance.region.condition
        depth = len(instance.lanes)
        if index[:depth] != instance.lanes:
            raise TraceError(f"{line_of(instance.node) or 'a loop'}: a body reads another lane's state; {ONLY_TABLES}")
        inner, k = index[depth:], node.arg[1]
        axis = self._axis_to_select(request, depth, len(index) - self._is_vector(instance.node, k), instance.region.parent)
        if axis is not None:
            return (yield from self._selected(request, axis))
        component, picked = yield from self._loop_component(instance, k, inner)
        return self._pick(component.var, picked)

    def _prints(self, node: UOp) -> tuple[UOp, ...]:
        """The effects that a control-flow node keeps behind its results."""
        count = node.arg.count
        results = {Op.LOOP: 2 * count + 1, Op.SERIAL: count}.get(node.op, 1 + len(node.arg.regions) * count)
        return node.src[results:]

    def effect(self, node: UOp, lanes: Index) -> None:
        """A print, or control flow that holds some."""
        if node.op == Op.PRINT:
            places = list(combinations(*(range(int(n)) for n in node.shape[len(lanes) :])))
            for k, place in enumerate(places):
                line = self.value(node, (*lanes, *map(constant, place)) if node.shape else ())
                text, region, sequence = line.arg
                self.effects.append(same_line(line.replace(arg=(text, region, sequence + k / len(places))), node))
            return
        instance = self._enter(node, lanes)
        if instance.region.condition is None and node.op != Op.SERIAL:
            test = node.src[node.arg.count if node.op == Op.LOOP else 0]
            instance.region.condition = self.value(test, lanes if test.shape else ())

    def _print(self, request: Request) -> Answer:
        node, index, _, _ = request
        parts = []
        for source in node.src:
            parts.append((yield source, index if source.shape else (), None, 0))
        text, region, sequence = node.arg
        return same_line(UOp.new(Op.PRINT, None, tuple(parts), (text, self.region_number(region), sequence), ()), node)

    # ---- votes ----

    def _vote(self, request: Request) -> Answer:
        node, index, _, _ = request
        kind, tensor_region, sequence = node.arg
        region = self.region_number(tensor_region)
        holder = self.by_region.get(tensor_region)
        depth = len(holder[0].lanes) if holder is not None else 0
        axis = self._axis_to_select(request, depth, len(index), self.regions[region], vote=holder is not None)
        if axis is not None:
            return (yield from self._selected(request, axis))
        value = yield node.src[0], index if node.src[0].shape else (), None, 0
        if value.dtype.count > 1:  # in a serial region, whose one live lane agrees with itself
            return self.make(Op.CAST, int32, value) if kind == "count" else value
        return UOp.new(Op.VOTE, node.dtype, (value,), (kind, region, sequence), ())

    def _cut_here(self, request: Request) -> Answer:
        node, index, gate, pin = request
        return (yield node.src[-1], index, gate, pin)

    def _must_be_stored(self, request: Request) -> UOp:
        raise NeedsCut(request[0], "writes to computed places")


def _is_known(place: UOp, region: Region) -> bool:
    """True where a coordinate can be had anywhere in `region`: it needs no region inside, nor what stands in this one and may be later."""
    if place.op == Op.LANE:
        return True
    open_there: set[int] = set()
    outer: Region | None = region
    while outer is not None:
        open_there.add(outer.number)
        outer = outer.parent
    return all(n.scope in open_there and not (n.scope == region.number and n.op in _LATE) for n in place.toposort())


def _is_constant(table: UOp) -> bool:
    """True for a list of constants that is long enough to be read from memory."""
    return table.op == Op.STACK and len(table.src) > _SELECTED and all(s.op == Op.CONST for s in table.src)
