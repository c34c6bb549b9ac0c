"""From a graph of tensors to the list of kernels: what is fused, and why each cut is made.

Everything fuses until something forbids it. A node is *stored* by a kernel of its own, and read from memory by the others, when

- the author asks for it (`contiguous`), or it writes to computed places (`scatter`); or
- a kernel cannot have it otherwise: a long reduction whose results other lanes share, control flow or a costly value that other
  lanes read, a computed table that is looked up. Lowering finds these and raises `NeedsCut`; or
- it overwrites memory whose old contents are still wanted (below); or
- a kernel would touch more buffers than the device can bind.

Each cut is one entry of `cuts`, with its reason; then the kernels are made again, those that the cut does not concern from memory.
That ends, as every round cuts a node more, and there are finitely many.

A reduction of very many elements to few is split in two: a kernel with one partial result for each of 512 lanes, and the rest,
which is short enough to be repeated by whoever reads the result. Values over the same lanes that do not wait for each other share
a kernel.

`assign` overwrites memory in place. Kernels that read the old contents run before the one that writes, those that read the new
contents after it; a kernel may do both itself where each lane reads only the place that it writes. Where no such order exists
(a stencil into its own input, two buffers that swap) the new contents go to a temporary, which is copied at the end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn

from engine.compiler.kernel import Kernel
from engine.compiler.lower import NeedsCut, lower
from engine.compiler.optimize import launch_shape
from engine.compiler.target import Target
from engine.frontend.arrays import array_root
from engine.graph.dtypes import DType
from engine.graph.uop import CONTROL, ELEMENTWISE, BufferArg, Op, Shape, UOp, product, toposort

PIECES, WIDTH = 32, 16  # partial results of a split reduction
_LONG = 8192  # elements from which a reduction is split
_FEW = 64  # results up to which it is
_INNER = 4  # last axes up to this size may be written out by each lane
_ROUNDS = 1000  # attempts at a schedule; each but the last adds a cut
_OF_LANES = CONTROL | {Op.ARRAY_SET, Op.APPEND, Op.ARRAY_GET}
_LAST = 1 << 30  # level of copies that nothing waits for


@dataclass(eq=False)
class ExecItem:
    """One kernel launch: `ast` (a SINK of STOREs of tensor-level nodes), the buffers it touches, and its lowered form."""

    ast: UOp
    bufs: list[UOp]
    kernel: Kernel
    reasons: list[str] = field(default_factory=list)


@dataclass(eq=False)
class Schedule:
    """Kernels in order of execution, and the buffers that have to be made for values between them."""

    items: list[ExecItem]
    temporaries: list[UOp]


# ---- rewriting before, and choices for one value ----


def split_reductions(roots: list[UOp]) -> list[UOp]:
    """Long reductions to few elements, in two steps."""
    done: dict[UOp, UOp] = {}
    for node in toposort(roots):
        sources = tuple(done[s] for s in node.src)
        fresh = node if sources == node.src else node.replace(src=sources)
        if node.op == Op.REDUCE and not node.scope and len(node.arg) == 2:
            op, axes = node.arg
            count = product(node.src[0].shape[a] for a in axes)
            kept = tuple(s for a, s in enumerate(node.src[0].shape) if a not in axes)
            few = product(kept)
            if isinstance(few, int) and few <= _FEW and (not isinstance(count, int) or count > _LONG):
                shape = (*kept, PIECES, WIDTH)
                partial = UOp.new(Op.REDUCE, node.dtype, fresh.src, (op, axes, (PIECES, WIDTH)), shape)
                stored = UOp.new(Op.CONTIGUOUS, node.dtype, (partial,))
                last = (len(kept), len(kept) + 1)
                rest = UOp.new(Op.REDUCE, node.dtype, (stored,), (op, last), (*kept, 1, 1))
                fresh = rest if rest.shape == node.shape else UOp.new(Op.RESHAPE, node.dtype, (rest,), None, node.shape)
        done[node] = fresh
    return [done[r] for r in roots]


def choose_lanes(node: UOp, stored: dict[UOp, UOp]) -> Shape:
    """The lane axes of the kernel that computes `node`: leading axes of its shape. The others are written out by each lane.

    `stored`: what the kernel reads from memory. Control flow and private arrays have their own lanes. A short last axis (the channels of a
    pixel) is written out, so that its elements share what they have in common, unless every element is computed like every other: then
    all axes are lanes, and lowering merges them into one.
    """
    shape = node.shape
    inside = toposort((node,), stop=lambda n: n is not node and (n in stored or _is_scalar(n)))
    lanes: Shape = ()
    for n in inside:
        if n.op in _OF_LANES and not n.scope and n not in stored:
            own = n.arg.lanes if n.op in CONTROL else n.shape
            if len(own) > len(lanes) and shape[: len(own)] == own:
                lanes = own
    if lanes or not shape:
        return lanes
    alike = all(_is_scalar(n) or (n.shape == shape and _keeps_place(n, stored)) for n in inside)
    if len(shape) > 1 and isinstance(shape[-1], int) and shape[-1] <= _INNER and not alike:
        shape = shape[:-1]
    while shape and isinstance(shape[-1], int) and shape[-1] == 1:
        shape = shape[:-1]
    return shape


def _values_of(node: UOp, roots: list[UOp]) -> list[UOp]:
    """What control flow results in; of a version of a private array, what depends on the array: all that can be stored of them."""
    order = toposort(roots)
    if node.op in CONTROL:
        return [n for n in order if n.op == Op.PROJ and n.src[0] is node and isinstance(n.dtype, DType)]
    reached = {array_root(node, {})}
    for n in order:
        if not reached.isdisjoint(n.src):
            reached.add(n)
    return [n for n in order if n in reached and n.op in (Op.ARRAY_GET, Op.PROJ) and not n.scope and isinstance(n.dtype, DType)]


def _is_scalar(node: UOp) -> bool:
    """One element: the same for all lanes."""
    for size in node.shape:  # asked of every node, mostly in vain: a loop is quicker than all()
        if not isinstance(size, int) or size != 1:
            return False
    return node.op not in CONTROL


def _keeps_place(node: UOp, stored: dict[UOp, UOp]) -> bool:
    """An element depends on the same element of the sources (and on scalars)."""
    if node in stored or node.op in ELEMENTWISE or node.op in (Op.BUFFER, Op.CONTIGUOUS, Op.ASSIGN):
        return True
    return node.op == Op.EXPAND and _is_scalar(node.src[0])


# ---- the scheduler ----


class _Again(Exception):
    """Something was cut or set apart: the kernels have to be made again."""


@dataclass(frozen=True)
class _Store:
    """`buffer` receives `node`. scatter: the buffer holds the target already, only the writes of a SCATTER are left."""

    buffer: UOp
    node: UOp
    lanes: Shape
    scatter: bool = False

    @property
    def value(self) -> UOp:
        """What is computed: of a SCATTER that is still to be begun, its target."""
        return self.node.src[0] if self.node.op == Op.SCATTER and not self.scatter else self.node


@dataclass(eq=False)
class _Group:
    """Stores that share a kernel, and what that kernel depends on."""

    stores: list[_Store]
    item: ExecItem
    level: int
    old: set[UOp] = field(default_factory=set)  # assigned buffers whose old contents it reads
    new: set[UOp] = field(default_factory=set)  # buffers whose contents an earlier kernel makes


class _Scheduler:
    """The state of scheduling: what is cut, where each cut value is stored, which stores must stand alone."""

    def __init__(self, outputs: list[tuple[UOp, UOp]], target: Target, name: str, workgroup: int | None) -> None:
        split = split_reductions([node for _, node in outputs])
        self.outputs = [(buffer, node) for (buffer, _), node in zip(outputs, split, strict=True)]
        self.name = re.sub(r"\W+", "_", name).strip("_") or "kernel"
        self.target, self.workgroup = target, workgroup
        self.assigned = {buffer: node for buffer, node in self.outputs if node.op == Op.ASSIGN}
        self.preferred = frozenset(node for _, node in self.outputs)
        self.cuts: dict[UOp, str] = {}
        self.stored: dict[UOp, UOp] = {}  # a cut node -> the buffer that holds it
        self.temporaries: list[UOp] = []
        self.apart: set[UOp] = set()  # buffers whose store has a kernel to itself
        self.lowered: dict[tuple[object, ...], Kernel] = {}
        for node in toposort(split):
            if node.scope:
                continue
            if node.op == Op.CONTIGUOUS and node.src[0].op != Op.BUFFER:
                first_step = node.src[0].op == Op.REDUCE and len(node.src[0].arg) == 3  # as `split_reductions` makes it
                self._cut(node, "the first step of a long reduction" if first_step else "contiguous(): the author wants it stored")
            elif node.op == Op.SCATTER:
                self._cut(node, "scatter writes to computed places")

    # ---- cuts ----

    def _cut(self, node: UOp, reason: str) -> None:
        """Stores `node`: in the output that it is, else in a temporary."""
        self.cuts[node] = reason
        self.stored[node] = next((b for b, n in self.outputs if n is node), None) or self._temporary(node)

    def _temporary(self, node: UOp) -> UOp:
        arg = BufferArg(len(self.temporaries), node.shape, "temporary")
        self.temporaries.append(UOp.new(Op.BUFFER, node.dtype, (), arg, node.shape))
        return self.temporaries[-1]

    def _take_detour(self, buffer: UOp, reason: str) -> None:
        """The new contents of an assigned buffer go to a temporary first."""
        node = self.assigned[buffer]
        self.cuts[node] = reason
        self.stored[node] = self._temporary(node)

    def _takes_detour(self, buffer: UOp) -> bool:
        return self.stored.get(self.assigned[buffer], buffer) is not buffer

    def _cut_as_asked(self, need: NeedsCut) -> None:
        node = need.node
        if node.op not in CONTROL and isinstance(node.dtype, DType):
            if node in self.cuts:
                raise need
            self._cut(node, need.reason)
            return
        results = [n for n in _values_of(node, [r for _, r in self.outputs]) if n not in self.cuts]
        if not results:
            raise need
        for n in results:  # each result is a value of its own
            self._cut(n, need.reason)

    # ---- rounds ----

    def run(self) -> Schedule:
        """Makes kernels until nothing asks for another cut, and puts them in order."""
        for _ in range(_ROUNDS):
            try:
                groups = [self._group(level, stores) for level, stores in self._grouped()]
                items = [g.item for g in self._ordered(groups)]
            except NeedsCut as need:
                self._cut_as_asked(need)
            except _Again:
                pass
            else:
                for number, item in enumerate(items):
                    item.kernel.name = f"{self.name}_{number}"
                used = {b.leaf for item in items for b in item.kernel.buffers}
                return Schedule(items, [t for t in self.temporaries if t in used])
        raise RuntimeError(f"{self.name}: the schedule does not settle after {_ROUNDS} rounds")

    def _grouped(self) -> list[tuple[int, list[_Store]]]:
        """All stores, those of equal lanes and equal level together. A store's level is above that of all it waits for."""
        ready: dict[UOp, int] = {}  # level from which a node's sources can be had
        level: dict[UOp, int] = {}
        for n in toposort([*self.cuts, *(node for _, node in self.outputs)]):
            level[n] = max([ready[s] for s in n.src], default=0)
            ready[n] = level[n] + (0 if n not in self.cuts else 2 if n.op == Op.SCATTER else 1)
        groups: dict[tuple[object, ...], list[_Store]] = {}

        def add(at: int, store: _Store) -> None:
            alone = store.buffer if store.scatter or store.buffer in self.apart else None
            groups.setdefault((at, store.lanes, alone), []).append(store)

        for node, buffer in self.stored.items():
            others = {n: b for n, b in self.stored.items() if n is not node}
            value = node.src[0] if node.op == Op.SCATTER else node
            add(level[node], _Store(buffer, node, choose_lanes(value, others)))
            if node.op == Op.SCATTER:
                add(level[node] + 1, _Store(buffer, node, node.src[2].shape, scatter=True))
        for buffer, node in self.outputs:
            if node not in self.stored:
                add(level[node], _Store(buffer, node, choose_lanes(node, self.stored)))
            elif self.stored[node] is not buffer:  # the end of a detour, or a second copy
                add(_LAST if buffer in self.assigned else ready[node], _Store(buffer, self.stored[node], node.shape))
        return sorted(((int(str(key[0])), stores) for key, stores in groups.items()), key=lambda entry: entry[0])

    # ---- one kernel ----

    def _group(self, level: int, stores: list[_Store]) -> _Group:
        """Lowers stores into one kernel. Raises NeedsCut, or _Again where they cannot be one."""
        computed = {s.node for s in stores if not s.scatter}
        outside = {n: b for n, b in self.stored.items() if n not in computed}
        reached = toposort([s.value for s in stores], stop=outside.__contains__ if outside else None)
        if any(s.scatter for s in stores):
            reached = toposort(stores[0].node.src[1:], stop=lambda n: n in outside)
        held = {n: outside[n] for n in reached if n in outside}
        key = (tuple(stores), tuple(held.items()))
        kernel = self.lowered.get(key)
        if kernel is None:
            pairs = [(s.buffer, s.node if s.scatter else outside.get(s.value, s.value)) for s in stores]
            kernel = lower(self.name, pairs, stores[0].lanes, self.target, held, self.preferred)
            launch_shape(kernel, self.target, self.workgroup)
            self.lowered[key] = kernel
        sink = UOp.new(Op.SINK, None, tuple(UOp.new(Op.STORE, None, (s.buffer, s.node), "set", ()) for s in stores), None, ())
        reasons = [f"{s.node.op}{_sizes(s.node.shape)}: {self.cuts[s.node]}" for s in stores if s.node in self.cuts]
        group = _Group(stores, ExecItem(sink, [b.leaf for b in kernel.buffers], kernel, reasons), level)
        self._check_limit(group, reached)
        made = set(self.stored.values())
        group.new = {*held.values(), *(n for n in reached if n in made), *(s.buffer for s in stores if s.scatter)}
        group.old = self._old_contents(stores, reached)
        self._check_contents(group)
        return group

    def _old_contents(self, stores: list[_Store], reached: list[UOp]) -> set[UOp]:
        """Assigned buffers that appear as leaves, which is how their old contents are written."""
        found = {s.value for s in stores if s.value in self.assigned}
        for n in reached:
            if n in self.stored and not any(s.value is n for s in stores):
                continue
            for s in n.src[1:] if n.op == Op.ASSIGN else n.src:
                if s in self.assigned:
                    found.add(s)
        return found

    def _check_contents(self, group: _Group) -> None:
        """No kernel may want old and new contents of one buffer, or overwrite what other lanes have still to read."""
        for buffer in group.old & group.new:
            self._take_detour(buffer, "its old and new contents are wanted by one kernel")
            raise _Again
        for s in group.stores:
            if s.buffer in group.old and _reads_elsewhere(group.item.kernel, s.buffer):
                if len(group.stores) > 1:
                    self.apart.add(s.buffer)
                else:
                    self._take_detour(s.buffer, "its new contents depend on other lanes' old contents")
                raise _Again

    def _check_limit(self, group: _Group, reached: list[UOp]) -> None:
        """A kernel that touches more buffers than the device binds is divided: by its stores, else by a cut inside."""
        limit = self.target.max_buffers
        needed = _bindings(group.item.kernel, self.target)
        if needed <= limit:
            return
        together = [s.buffer for s in group.stores if s.buffer not in self.apart]
        if len(group.stores) > 1 and together:
            self.apart.update(together)
            raise _Again
        leaves: dict[UOp, frozenset[UOp]] = {}
        for n in reached:
            own = frozenset({n}) if n.op == Op.BUFFER or n in self.stored else frozenset()
            leaves[n] = own.union(*(leaves[s] for s in n.src if s in leaves))
        inside = [
            n
            for n in reached
            if n.op in ELEMENTWISE and n.shape and not n.scope and n not in self.cuts and 1 < len(leaves[n]) < limit
        ]
        if not inside:
            raise ValueError(f"{self.name}: a kernel needs {needed} buffers; {self.target.name} binds {limit}")
        self._cut(max(inside, key=lambda n: len(leaves[n])), f"a kernel binds at most {limit} buffers on {self.target.name}")
        raise _Again

    # ---- order ----

    def _ordered(self, groups: list[_Group]) -> list[_Group]:
        """Writers of a value before its readers; readers of old contents before what overwrites them."""
        writers: dict[UOp, list[int]] = {}
        for i, group in enumerate(groups):
            for s in group.stores:
                writers.setdefault(s.buffer, []).append(i)
        waits: list[set[int]] = [set() for _ in groups]
        for i, group in enumerate(groups):
            for buffer in group.new:
                waits[i].update(w for w in writers.get(buffer, ()) if w != i and (groups[w].level < group.level))
            for buffer in group.old:
                for w in writers.get(buffer, ()):
                    if w != i:
                        waits[w].add(i)
        order: list[int] = []
        placed: set[int] = set()
        while len(order) < len(groups):
            ready = next((i for i in range(len(groups)) if i not in placed and waits[i] <= placed), None)
            if ready is None:
                self._loosen([groups[i] for i in range(len(groups)) if i not in placed])
            order.append(ready)
            placed.add(ready)
        return [groups[i] for i in order]


    def _loosen(self, groups: list[_Group]) -> NoReturn:
        """These wait for each other, as one of them overwrites what another has yet to read: lets it run later."""
        writing = [(g, s.buffer) for g in groups for s in g.stores if s.buffer in self.assigned and not self._takes_detour(s.buffer)]
        for group, buffer in writing:
            if len(group.stores) > 1:  # others wait for what it computes beside
                self.apart.add(buffer)
                raise _Again
        self._take_detour(writing[0][1], "its old contents are wanted by kernels that cannot all run before")
        raise _Again


def _bindings(kernel: Kernel, target: Target) -> int:
    """Buffers that a device has to bind for a kernel: parameters lie in a block, some are read as textures, and what can share a binding
    does where it must."""
    apart = [b for b in kernel.buffers if not b.is_parameter]
    readable = [b for b in apart if not b.written and b.dtype.bits <= 32][: target.max_textures]
    own = [b for b in apart if b not in readable]
    sharing = sum(b.can_share for b in own) if target.packs_read_only else 0
    return len(own) - max(0, sharing - 1) if len(own) > target.max_buffers else len(own)


def _sizes(shape: Shape) -> list[int | str]:
    return [s if isinstance(s, int) else "size" for s in shape]


def _reads_elsewhere(kernel: Kernel, buffer: UOp) -> bool:
    """True where a kernel that writes `buffer` reads it at other places than those that the same lane writes."""
    loads, stores = set(), set()
    for block in kernel.blocks():
        for item in block.items:
            if isinstance(item, UOp) and item.src and item.src[0] is buffer:
                if item.op == Op.LOAD:
                    loads.add(item.src[1])
                elif item.op == Op.STORE:
                    stores.add(item.src[1])
    return not loads <= stores


def schedule(outputs: list[tuple[UOp, UOp]], target: Target, name: str = "kernel", workgroup: int | None = None) -> Schedule:
    """The kernels that compute each (buffer, node) of `outputs` into its buffer. ASSIGN nodes have the assigned buffer as theirs."""
    return _Scheduler(outputs, target, name, workgroup).run()
