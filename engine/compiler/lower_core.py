"""The state of lowering, and how its nodes are made; see `lower` for what lowering does."""

from __future__ import annotations

from collections.abc import Container, Generator
from dataclasses import dataclass, field
from typing import Any

from engine.compiler.optimize import lane_axes
from engine.compiler.place import Component, Region
from engine.compiler.target import Target
from engine.compiler.transcendental import expand
from engine.graph.dtypes import DType, int32
from engine.graph.simplify import NEEDED, SIMPLIFY
from engine.graph.uop import CONTROL, ELEMENTWISE, TRANSCENDENTAL, Op, Shape, UOp, product, size_uop

REPEATS, COST = 4, 12  # a value asked for at more coordinates than this, and dearer than this, is stored
ONLY_TABLES = "only tables can be read at computed places"

Index = tuple[UOp, ...]
Request = tuple[UOp, Index, UOp | None, int]  # node, coordinates, gate, region that loads stay in
Answer = Generator[Request, UOp, UOp]


class NeedsCut(Exception):
    """`node` must be stored by an earlier kernel, for this reason."""

    def __init__(self, node: UOp, reason: str) -> None:
        super().__init__(reason)
        self.node, self.reason = node, reason


@dataclass
class Instance:
    """A control-flow node inside this kernel: its regions, and the components asked for so far."""

    node: UOp
    lanes: Index
    region: Region
    components: dict[tuple[int, Index], Component] = field(default_factory=dict)


def constant(value: int) -> UOp:
    """An int32 constant."""
    return UOp.const(int32, value)


class Core:
    """What every part of the lowering stands on."""

    def __init__(
        self, target: Target, lanes: Shape, materialized: dict[UOp, UOp], inner: int = 1, preferred: Container[UOp] = frozenset()
    ) -> None:
        self.target, self.lanes, self.materialized, self.preferred = target, lanes, materialized, preferred
        self.axes = lane_axes(lanes)
        self.simplify = (SIMPLIFY if target.optimise else NEEDED).simplify
        self.memo: dict[Request, UOp] = {}
        self.regions: dict[int, Region] = {0: Region(0, "prelude", None), 1: Region(1, "lanes", None)}
        self.regions[1].parent = self.regions[0]
        self.instances: dict[UOp, Instance] = {}
        self.by_region: dict[int, tuple[Instance, Region]] = {}  # region of the tensor level -> its place here
        self.homes: dict[UOp, dict[int, UOp]] = {}  # a private array of no body -> its lanes: axis from the last -> coordinate
        self.pending: list[tuple[Instance, Component, int, Index]] = []
        self.stores: list[UOp] = []
        self.effects: list[UOp] = []
        self.printing: list[Instance] = []
        self.repeats: dict[UOp, int] = {}
        self.looking_up: dict[UOp, bool] = {}
        self.costs: dict[UOp, int] = {}
        self.most_repeats = REPEATS * inner

    def value(self, node: UOp, index: Index, gate: UOp | None = None, pin: int = 0) -> UOp:
        """The element of `node` at `index` (valid only where `gate` holds); loads stay inside region `pin`."""
        raise NotImplementedError

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

    # ---- regions ----

    def new_region(self, kind: str, parent: Region) -> Region:
        """A region inside another."""
        number = len(self.regions)
        self.regions[number] = Region(number, kind, parent)
        parent.children.append(self.regions[number])
        return self.regions[number]

    def serial_of(self, node: UOp, pin: int = 0) -> int:
        """The serial region around the place where `node` belongs, 0 where there is none."""
        region: Region | None = self.by_region[node.scope][1] if node.scope in self.by_region else self.regions[pin]
        while region is not None:
            if region.kind == "serial":
                return region.number
            region = region.parent
        return 0

    def region_number(self, tensor_region: int) -> int:
        """The region that stands here for one of the tensor level."""
        return self.by_region[tensor_region][1].number if tensor_region in self.by_region else 1

    def within(self, source: UOp, index: Index) -> Index:
        """The coordinates of `source` at those of a shape that it broadcasts to."""
        return tuple(constant(0) if s == 1 else i for s, i in zip(source.shape, index[len(index) - len(source.shape) :], strict=True))

    # ---- cost ----

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
