"""Lowering of tables, control flow and effects.

A control-flow node becomes a region of the kernel when the first of its results is asked for. Results and loop state are made
component by component, as they are asked for; what nobody asks for does not exist.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import product as combinations

from engine.compiler.kernel import same_line
from engine.compiler.lower_core import COST, Answer, Core, Index, Instance, NeedsCut, Request, constant
from engine.compiler.place import Component
from engine.frontend.trace import TraceError, line_of
from engine.graph.dtypes import ArrayType, DType, bool_, int32
from engine.graph.uop import Op, RegionArg, UOp

_SELECTED = 4  # constants up to which one of them is selected, not read from a table
ONLY_TABLES = "only tables can be read at computed places"
Picking = Generator[Request, UOp, tuple[Component, Index]]  # asks, then gives a component and what is to be picked from it


class Control(Core):
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

    def _loop_component(self, instance: Instance, k: int, inner: Index) -> Picking:
        """The k-th state component at these inner coordinates, and what is left to pick from a vector of them."""
        node = instance.node
        region = instance.region
        initial = node.src[k]
        picked: Index = ()
        serial = self.serial_of(node) if inner else 0
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

    def _loopvar(self, request: Request) -> Answer:
        node, index, _, _ = request
        instance, _ = self.by_region[node.arg[0]]
        if instance.node.op == Op.SWITCH:  # in an arm: what the switch is decided by
            assert instance.region.condition is not None
            return instance.region.condition
        depth = len(instance.lanes)
        if index[:depth] != instance.lanes:
            raise TraceError(f"{line_of(instance.node) or 'a loop'}: a body reads another lane's state; {ONLY_TABLES}")
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
        return same_line(UOp.new(Op.PRINT, None, tuple(parts), (text, self._region_number(region), sequence), ()), node)

    # ---- effects ----

    def _region_number(self, tensor_region: int) -> int:
        return self.by_region[tensor_region][1].number if tensor_region in self.by_region else 1

    def _array(self, request: Request) -> UOp:
        node = request[0]
        return UOp.new(Op.ARRAY, node.dtype, (), (node.arg[0], self._region_number(node.arg[1])), ())

    def _array_set(self, request: Request) -> Answer:
        node, index, _, _ = request
        array, at, value = node.src
        parts = []
        for source in (array, at, value):
            parts.append((yield source, self._lanes_of(source, index), None, 0))
        return same_line(UOp.new(Op.ARRAY_SET, node.dtype, tuple(parts), (self._region_number(node.arg[0]), node.arg[1]), ()), node)

    def _lanes_of(self, source: UOp, index: Index) -> Index:
        return index if source.shape else ()

    def _array_get(self, request: Request) -> Answer:
        node, index, _, _ = request
        parts = []
        for source in node.src:
            parts.append((yield source, self._lanes_of(source, index), None, 0))
        return same_line(UOp.new(Op.ARRAY_GET, node.dtype, tuple(parts), (self._region_number(node.arg[0]), node.arg[1]), ()), node)

    def _append(self, request: Request) -> Answer:
        node, index, gate, _ = request
        array, top, mask, values, reverse = node.src
        version = yield array, self._lanes_of(array, index), None, 0
        at = yield top, self._lanes_of(top, index), None, 0
        turned = yield reverse, self._lanes_of(reverse, index), None, 0
        width = int(values.shape[-1])
        assert isinstance(node.dtype, ArrayType)
        region = self._region_number(node.arg[0])
        serial = self.serial_of(node)
        if serial:
            iota = UOp.new(Op.IOTA, int32.vec(width), (), serial)
            keep = yield mask, (*index, iota), None, 0
            stored = yield values, (*index, iota), None, 0
            zero = self.make(Op.MUL, int32, iota, constant(0))
            if keep.dtype.count == 1:
                keep = UOp.new(Op.WHERE, bool_.vec(width), (UOp.new(Op.EQ, bool_.vec(width), (zero, zero)), keep, keep))
            if stored.dtype.count == 1:
                stored = UOp.new(Op.WHERE, stored.dtype.vec(width), (UOp.new(Op.EQ, bool_.vec(width), (zero, zero)), stored, stored))
            return same_line(UOp.new(Op.APPEND, node.dtype, (version, at, keep, stored, turned), (region, node.arg[1]), ()), node)
        for k in range(width):
            keep = yield mask, (*index, constant(k)), None, 0
            stored = yield values, (*index, constant(k)), None, 0
            if not (turned.op == Op.CONST and not turned.arg):
                other = (*index, constant(width - 1 - k))
                keep = self.make(Op.WHERE, bool_, turned, (yield mask, other, None, 0), keep)
                stored = self.make(Op.WHERE, stored.dtype, turned, (yield values, other, None, 0), stored)
            version = UOp.new(Op.ARRAY_SET, node.dtype, (version, at, stored), (region, node.arg[1] + k / width), ())
            same_line(version, node)
            at = self.add(at, self.make(Op.CAST, int32, keep))
        self.memo[(node, index, gate, -2)] = at
        return version

    def _vote(self, request: Request) -> Answer:
        node, index, _, _ = request
        kind, region, sequence = node.arg
        value = yield node.src[0], index if node.src[0].shape else (), None, 0
        return UOp.new(Op.VOTE, node.dtype, (value,), (kind, self._region_number(region), sequence), ())

    def _cut_here(self, request: Request) -> Answer:
        node, index, gate, pin = request
        return (yield node.src[-1], index, gate, pin)

    def _must_be_stored(self, request: Request) -> UOp:
        raise NeedsCut(request[0], "writes to computed places")


def _is_constant(table: UOp) -> bool:
    """True for a list of constants that is long enough to be read from memory."""
    return table.op == Op.STACK and len(table.src) > _SELECTED and all(s.op == Op.CONST for s in table.src)
