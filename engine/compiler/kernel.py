"""A lowered kernel: scalar code for one lane, as a tree of blocks.

    prelude          computed once a workgroup: nothing in it depends on the lane
    body             computed for each lane
      LoopItem         vars; test block -> condition; body block -> next values
      BranchItem       selector; one block an arm; results picked from the arm that ran (cond: arm 0 where true, arm 1 where false)
      SerialItem       body block, run for one lane of the group after another; inner axes are short vectors (dtype.count > 1)

Items of a block run in order. An item is a `UOp` of the kernel level or one of the structures above. Constants, buffers and
DIMs are no items: they are written where they are used. Each value is placed in exactly one block, which dominates its uses.
A GATHER is a look-up among constants (its sources: the index, the constants).

Private arrays are updated in place. Every version of an array (ARRAY, ARRAY_SET, APPEND, a LOOPVAR or RESULT of an
`ArrayType`) names the same storage, the one of the ARRAY at its beginning; the order of items is the order of the updates,
and an old version is never read after its successor was made (the front end refuses that).

What "lane" means to control flow: a lane that leaves a loop, or does not take an arm, is masked: it loads, stores, sets and
votes nothing until the others have caught up. A block may be skipped when no lane of the group is live.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from engine.frontend.trace import line_of, note_argument
from engine.graph.dtypes import DType
from engine.graph.uop import BufferArg, Op, Shape, UOp


@dataclass(eq=False)
class Block:
    """A straight line of items. `depth` counts the loops (and serial regions) around it; the lane loop is the first."""

    parent: Block | None
    depth: int
    owner: LoopItem | BranchItem | SerialItem | None = None
    items: list[Item] = field(default_factory=list)

    def chain(self) -> Iterator[Block]:
        """This block and those around it, innermost first."""
        block: Block | None = self
        while block is not None:
            yield block
            block = block.parent


@dataclass(eq=False)
class LoopVar:
    """One component of a loop's state: `var` inside the loop, `result` (a RESULT node) after it, None where nobody asks."""

    var: UOp
    init: UOp
    next: UOp
    result: UOp | None


@dataclass(eq=False)
class LoopItem:
    """`while condition: state = body(state)`, per lane. The body block lies inside the test block."""

    region: int
    vars: list[LoopVar]
    test: Block
    condition: UOp
    body: Block


@dataclass(eq=False)
class BranchItem:
    """`cond` (two arms: true, false; bool selector) or `switch` (int32 selector, clamped to the last arm)."""

    region: int
    kind: str  # "cond" | "switch"
    selector: UOp
    arms: list[Block]
    results: list[tuple[UOp, tuple[UOp, ...]]]  # RESULT node, value from each arm


@dataclass(eq=False)
class SerialItem:
    """The lanes of a group one after another."""

    region: int
    body: Block
    results: list[tuple[UOp, UOp]]  # RESULT node, value


Item = UOp | LoopItem | BranchItem | SerialItem


class Visitor(Protocol):
    """Whoever does something of its own for each kind of item."""

    def loop(self, loop: LoopItem, /) -> None: ...
    def branch(self, branch: BranchItem, /) -> None: ...
    def serial(self, item: SerialItem, /) -> None: ...
    def value(self, node: UOp, /) -> None: ...


def visit(item: Item, visitor: Visitor) -> None:
    """Hands an item to what the visitor has for its kind."""
    if isinstance(item, LoopItem):
        visitor.loop(item)
    elif isinstance(item, BranchItem):
        visitor.branch(item)
    elif isinstance(item, SerialItem):
        visitor.serial(item)
    else:
        visitor.value(item)


@dataclass(eq=False)
class KernelBuffer:
    """Memory that a kernel touches: `leaf` is the BUFFER node of the kernel's graph."""

    leaf: UOp
    dtype: DType
    shape: Shape
    read: bool
    written: bool

    @property
    def is_parameter(self) -> bool:
        arg = self.leaf.arg
        assert isinstance(arg, BufferArg)
        return arg.kind == "parameter"

    @property
    def can_share(self) -> bool:
        """True for memory that was there before the plan began and is only read: it can share a binding with other such memory."""
        arg = self.leaf.arg
        assert isinstance(arg, BufferArg)
        return not self.written and arg.kind in ("memory", "argument")


@dataclass(eq=False)
class Kernel:
    """What an emitter turns into code. `lanes` are the sizes of the lane axes; LANE nodes have `arg=(axis, size)`.

    walk: "linear" (one lane axis, neighbours side by side), "rows" (the last axis across the group, the others uniform) or
    "tiles" (two axes, square tiles across the group). `ordered`: lanes must run in row order, one after another (scatter).
    `stats`: "density" (operations a lane); "prints" and "checks" (how many debug_prints and checked accesses there are, where there are
    some: the machine code of such a kernel calls back into the process that traced it).
    """

    name: str
    buffers: list[KernelBuffer]
    lanes: Shape
    walk: str
    prelude: Block
    body: Block
    workgroup: int = 256
    ordered: bool = False
    stats: dict[str, Any] = field(default_factory=dict)

    def blocks(self) -> Iterator[Block]:
        """Every block, outer ones first, in order of execution."""
        stack = [self.body, self.prelude]
        while stack:
            block = stack.pop()
            yield block
            for item in reversed(block.items):
                stack.extend(reversed(inner_blocks(item)))


def same_line(node: UOp, source: UOp) -> UOp:
    """`node`, for errors made at the user's line that made `source`."""
    line = line_of(source)
    if line is not None and line_of(node) is None:
        note_argument(node, line)
    return node


def inner_blocks(item: Item) -> list[Block]:
    """The blocks directly inside an item."""
    if isinstance(item, LoopItem):
        return [item.test, item.body]
    if isinstance(item, BranchItem):
        return item.arms
    if isinstance(item, SerialItem):
        return [item.body]
    return []


def item_inputs(item: Item) -> list[UOp]:
    """The values an item reads itself (not those its inner blocks read)."""
    if isinstance(item, LoopItem):
        return [v.init for v in item.vars]
    if isinstance(item, BranchItem):
        return [item.selector]
    if isinstance(item, SerialItem):
        return []
    return list(item.src)


def is_inline(node: UOp) -> bool:
    """Nodes that are no items: written where they are used."""
    return node.op in (Op.CONST, Op.BUFFER, Op.DIM, Op.LOOPVAR, Op.RESULT)
