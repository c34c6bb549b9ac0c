"""From scalar nodes to a tree of blocks: where each value is computed.

After lowering there is a set of stores, a tree of regions (what the user wrote), and between them pure nodes that could stand in
many places. Global code motion, after Click ("Global Code Motion, Global Value Numbering", PLDI 1995): a node's *earliest* block
is that of its scope (the innermost region whose values it needs), its *latest* is the innermost block that encloses all its
uses. Between the two it goes to the block of least loop depth, and among those to the innermost, so that loop-invariant work
leaves loops and work that only one branch needs sinks into it. What does not depend on the lane ends in the prelude.

Loads have the region that recorded them in their scope: they may sink, but never rise to where their index may be invalid.
Effects (arrays, votes) stay where they were recorded, in the order in which they were recorded: each depends on the one before
it in its region, and a region that holds effects takes its place in that order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from engine.compiler.kernel import Block, BranchItem, Item, Kernel, KernelBuffer, LoopItem, LoopVar, SerialItem, is_inline, same_line
from engine.graph.dtypes import ArrayType
from engine.graph.uop import EFFECTS, Op, Shape, UOp


@dataclass(eq=False)
class Component:
    """A value that goes through control flow: loop state (var, init, next, result) or a branch's result (values by arm)."""

    var: UOp
    init: UOp
    next: UOp
    result: UOp | None
    values: tuple[UOp, ...] = ()


@dataclass(eq=False)
class Region:
    """A body while it is being lowered. Kinds: prelude, lanes, loop (its test) and body, cond and switch (no block) and arm, serial."""

    number: int
    kind: str
    parent: Region | None
    children: list[Region] = field(default_factory=list)
    components: list[Component] = field(default_factory=list)
    condition: UOp | None = None  # of a loop; the selector of a branch
    body: Region | None = None
    arms: list[Region] = field(default_factory=list)


Thing = UOp | Region  # what is ordered: values, and regions as wholes


class _Placer:
    def __init__(self, stores: list[UOp], regions: dict[int, Region]) -> None:
        self.stores, self.regions = stores, regions
        self.blocks: dict[int, Block] = {}
        self.before: dict[Thing, list[Thing]] = {}  # effects: what must have happened
        prelude = Block(None, 0)
        body = Block(prelude, 1)
        self.blocks[0], self.blocks[1] = prelude, body

    def make_blocks(self) -> None:
        """One block for each region that has code."""
        for number in sorted(self.regions):
            region = self.regions[number]
            if number < 2 or region.kind in ("cond", "switch"):
                continue
            parent = region.parent
            assert parent is not None
            around = parent.parent if parent.kind in ("cond", "switch") else parent
            assert around is not None
            outer = self.blocks[around.number]
            self.blocks[number] = Block(outer, outer.depth + (region.kind in ("loop", "serial")))

    # ---- order ----

    def inputs(self, region: Region) -> list[UOp]:
        """Every value that a region as a whole refers to."""
        values: list[UOp] = []
        if region.condition is not None:
            values.append(region.condition)
        for c in region.components:
            values.extend(c.values or (c.init, c.next))
        return values

    def needs(self, thing: Thing) -> list[Thing]:
        extra = self.before.get(thing, [])
        if isinstance(thing, Region):
            return [*extra, *self.inputs(thing)]
        if thing.op == Op.RESULT:
            return [self.regions[thing.arg[0]]]
        if thing.op == Op.STORE:
            return list(thing.src[1:])
        return [*extra, *thing.src]

    def holders(self, effects: list[UOp]) -> list[Thing]:
        """The regions around effects that have no value: they are there for the effects' sake."""
        found: dict[Thing, None] = {}
        for effect in effects:
            region: Region | None = self.regions[effect.arg[1]]
            while region is not None and region.number > 1:
                if region.kind not in ("arm", "body"):
                    found[region] = None
                region = region.parent
        return list(reversed(found))

    def sort(self, roots: list[Thing]) -> list[Thing]:
        """All things below the roots, each after what it needs."""
        order: list[Thing] = []
        seen: set[Thing] = set()
        for root in roots:
            if root in seen:
                continue
            seen.add(root)
            stack: list[tuple[Thing, Iterator[Thing]]] = [(root, iter(self.needs(root)))]
            while stack:
                thing, rest = stack[-1]
                for need in rest:
                    if need not in seen:
                        seen.add(need)
                        stack.append((need, iter(self.needs(need))))
                        break
                else:
                    order.append(thing)
                    stack.pop()
        return order

    def chain_effects(self, order: list[Thing]) -> None:
        """Adds what orders effects: within a region, each after the one before; regions with effects in their place among them."""
        entries: dict[int, list[tuple[float, Thing]]] = {}
        first: dict[int, float] = {}
        for thing in order:
            if isinstance(thing, UOp) and thing.op in EFFECTS:
                region, sequence = thing.arg[-2], thing.arg[-1]
                entries.setdefault(region, []).append((sequence, thing))
                first[region] = min(sequence, first.get(region, sequence))
        for number in sorted(first, reverse=True):  # inner regions have greater numbers
            self._lift(number, first, entries)
        for listed in entries.values():
            listed.sort(key=lambda e: e[0])
            for (_, earlier), (_, later) in itertools.pairwise(listed):
                self.before.setdefault(later, []).append(earlier)

    def _lift(self, number: int, first: dict[int, float], entries: dict[int, list[tuple[float, Thing]]]) -> None:
        region = self.regions[number]
        at = first[number]
        while region.parent is not None and region.number > 1:
            parent = region.parent
            if region.kind == "arm":
                region = parent
                continue
            if region.kind == "body":
                region = parent
                continue
            listed = entries.setdefault(parent.number, [])
            if any(t is region for _, t in listed):
                k = next(i for i, (_, t) in enumerate(listed) if t is region)
                listed[k] = (min(at, listed[k][0]), region)
            else:
                listed.append((at, region))
            region = parent

    # ---- placement ----

    def place(self, order: list[Thing]) -> dict[Thing, Block]:
        """The block of each value and region."""
        latest: dict[UOp, Block] = {}
        chosen: dict[Thing, Block] = {}

        def use(value: UOp, block: Block) -> None:
            if value.op in (Op.CONST, Op.BUFFER, Op.DIM, Op.LOOPVAR):
                return
            known = latest.get(value)
            latest[value] = block if known is None else _common(known, block)

        body = self.blocks[1]
        for store in self.stores:
            for source in store.src[1:]:
                use(source, body)
        for thing in reversed(order):
            if isinstance(thing, Region):
                around = thing.parent
                assert around is not None
                outer = self.blocks[around.number]
                chosen[thing] = outer
                self._use_region(thing, outer, use)
                continue
            if thing.op == Op.STORE or thing.op in (Op.CONST, Op.BUFFER, Op.DIM, Op.LOOPVAR, Op.RESULT):
                continue
            if thing.op in EFFECTS or thing.op == Op.ARRAY:
                block = self.blocks[thing.arg[1] if thing.op in (Op.ARRAY, Op.VOTE, Op.PRINT) else thing.arg[0]]
            else:
                early = self.blocks[thing.scope]
                late = latest[thing]
                block = best = late
                while block is not early:
                    assert block.parent is not None, f"{thing!r} is used outside of its scope"
                    block = block.parent
                    if block.depth < best.depth:
                        best = block
                block = best
            chosen[thing] = block
            for source in thing.src:
                use(source, block)
        return chosen

    def _use_region(self, region: Region, outer: Block, use: Any) -> None:
        if region.kind == "loop":
            assert region.body is not None and region.condition is not None
            use(region.condition, self.blocks[region.number])
            for c in region.components:
                use(c.init, outer)
                use(c.next, self.blocks[region.body.number])
        elif region.kind == "serial":
            for c in region.components:
                use(c.values[0], self.blocks[region.number])
        else:
            assert region.condition is not None
            use(region.condition, outer)
            for c in region.components:
                for arm, value in zip(region.arms, c.values, strict=True):
                    use(value, self.blocks[arm.number])

    def item(self, region: Region) -> Item:
        """The item of a region; its blocks know it as their owner."""
        made: Item
        if region.kind == "loop":
            assert region.body is not None and region.condition is not None
            made = LoopItem(
                region.number,
                [LoopVar(c.var, c.init, c.next, c.result) for c in region.components],
                self.blocks[region.number],
                region.condition,
                self.blocks[region.body.number],
            )
            inner = [self.blocks[region.number], self.blocks[region.body.number]]
        elif region.kind == "serial":
            made = SerialItem(region.number, self.blocks[region.number], [(c.var, c.values[0]) for c in region.components])
            inner = [self.blocks[region.number]]
        else:
            assert region.condition is not None
            arms = [self.blocks[a.number] for a in region.arms]
            made = BranchItem(region.number, region.kind, region.condition, arms, [(c.var, c.values) for c in region.components])
            inner = arms
        for block in inner:
            block.owner = made
        return made


def _common(a: Block, b: Block) -> Block:
    """The innermost block around both."""
    above = set(a.chain())
    for block in b.chain():
        if block in above:
            return block
    raise AssertionError("blocks of different kernels")


def _drop_invariant_state(regions: dict[int, Region], stores: list[UOp]) -> list[UOp]:
    """Loop state that never changes is the value it began with."""
    same: dict[UOp, UOp] = {}
    for region in regions.values():
        if region.kind == "loop":
            kept = []
            for c in region.components:
                if c.next is c.var and not isinstance(c.var.dtype, ArrayType):
                    same[c.var] = c.init
                    if c.result is not None:
                        same[c.result] = c.init
                else:
                    kept.append(c)
            region.components = kept
    if not same:
        return stores
    changed: dict[UOp, UOp] = {}

    def renewed(root: UOp) -> UOp:
        for node in root.toposort():
            if node in changed:
                continue
            if node in same:
                target = same[node]
                while target in same:
                    target = same[target]
                changed[node] = renewed(target) if target is not node else node
            else:
                sources = tuple(changed[s] for s in node.src)
                changed[node] = node if sources == node.src else same_line(node.replace(src=sources), node)
        return changed[root]

    for region in regions.values():
        if region.condition is not None:
            region.condition = renewed(region.condition)
        for c in region.components:
            c.init, c.next = renewed(c.init), renewed(c.next)
            c.values = tuple(renewed(v) for v in c.values)
    return [same_line(s.replace(src=tuple(v if v.op == Op.BUFFER else renewed(v) for v in s.src)), s) for s in stores]


def build_kernel(
    name: str, stores: list[UOp], effects: list[UOp], regions: dict[int, Region], lanes: Shape, ordered: bool = False
) -> Kernel:
    """Places everything that the stores need and returns the kernel."""
    renewed = _drop_invariant_state(regions, [*stores, *effects])
    stores, effects = renewed[: len(stores)], renewed[len(stores) :]
    placer = _Placer(stores, regions)
    placer.make_blocks()
    roots: list[Thing] = [*effects, *placer.holders(effects), *stores]
    placer.chain_effects(placer.sort(roots))
    order = placer.sort(roots)
    chosen = placer.place(order)
    buffers: dict[UOp, KernelBuffer] = {}

    def touch(leaf: UOp, written: bool) -> None:
        known = buffers.setdefault(leaf, KernelBuffer(leaf, leaf.dtype, leaf.shape, False, False))
        known.read |= not written
        known.written |= written

    for thing in order:
        if isinstance(thing, Region):
            chosen[thing].items.append(placer.item(thing))
        elif thing.op != Op.STORE and not is_inline(thing):
            if thing.op == Op.LOAD:
                touch(thing.src[0], False)
            chosen[thing].items.append(thing)
    body = placer.blocks[1]
    for store in stores:
        touch(store.src[0], True)
        if store.arg != "set":
            touch(store.src[0], False)
        body.items.append(store)
    walk = "rows" if len(lanes) > 1 else "linear"
    kernel = Kernel(name, list(buffers.values()), lanes, walk, placer.blocks[0], body, ordered=ordered)
    if effects:
        kernel.stats["prints"] = len(effects)
    return kernel
