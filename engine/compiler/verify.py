"""What must hold of a lowered kernel.

- Each value is defined once, before its uses, in a block that dominates them: an arm's values end with the arm, a loop's with the
  loop, and only results leave.
- Types agree: of elementwise nodes as `graph.verify` says; a load has the type of its buffer, a store stores it, both are indexed
  by int32; state, next state and result of a loop are of one type, and so are the values of a branch's arms.
- Buffers are those of the kernel's list, and their `read` and `written` flags tell the truth.
- LANE names an axis that there is, with its size; the prelude knows no lane; IOTA stands there, or inside
  `serial`.
- Effects of a block happen in the order in which they were recorded. A version of a private array is not used after its successor
  was made, the arms of a branch apart.
- Blocks know their parents, their owners and their depth.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.compiler.kernel import Block, BranchItem, Item, Kernel, LoopItem, SerialItem
from engine.graph.dtypes import ArrayType, DType, bool_, int32
from engine.graph.uop import EFFECTS, ELEMENTWISE, Op, UOp
from engine.graph.verify import Describe, VerifyError, check_node, failing

_WALKS = {"linear": 0, "rows": 2, "tiles": 2}  # lane axes that a walk needs at least
_MODES = ("set", "add", "min", "max")
_ITEMS = ELEMENTWISE | EFFECTS | {Op.LANE, Op.IOTA, Op.LOAD, Op.GATHER, Op.STORE, Op.SPLIT, Op.ACROSS, Op.ARRAY, Op.PROJ}


def verify_kernel(kernel: Kernel, stage: str, describe: Describe = repr) -> None:
    """Raises VerifyError where a lowered kernel breaks a rule."""
    _Verifier(kernel, stage, describe).run()


class _Verifier:
    """One look at one kernel. `visible`: values that may be used here; `consumed`: array versions that have a successor."""

    def __init__(self, kernel: Kernel, stage: str, describe: Describe) -> None:
        self.kernel, self.stage, self.describe = kernel, stage, describe
        self.buffers = {b.leaf: b for b in kernel.buffers}
        self.visible: set[UOp] = set()
        self.defined: set[UOp] = set()
        self.consumed: set[UOp] = set()
        self.read: set[UOp] = set()
        self.written: set[UOp] = set()

    def fail(self, rule: str, node: UOp | None = None) -> None:
        raise VerifyError(self.stage, rule, self.describe(node) if node is not None else f"kernel {self.kernel.name}")

    def run(self) -> None:
        kernel = self.kernel
        if kernel.walk not in _WALKS or len(kernel.lanes) < _WALKS[kernel.walk] or kernel.workgroup < 1:
            self.fail(f"{len(kernel.lanes)} lane axes are not walked {kernel.walk!r} in workgroups of {kernel.workgroup}")
        if kernel.prelude.parent is not None or kernel.body.parent is not kernel.prelude:
            self.fail("the body lies inside the prelude")
        self.block(kernel.prelude, False)
        self.block(kernel.body, False)
        for buffer in kernel.buffers:
            leaf = buffer.leaf
            if leaf.dtype is not buffer.dtype or buffer.read != (leaf in self.read) or buffer.written != (leaf in self.written):
                self.fail("a buffer's entry tells its type, and whether it is read and written", leaf)

    # ---- blocks ----

    def block(self, block: Block, serial: bool) -> set[UOp]:
        """Checks a block; what it defines stays visible until the caller takes it away."""
        added: set[UOp] = set()
        last = -1.0
        for item in block.items:
            if not isinstance(item, UOp):
                added |= self.structure(item, block, serial)
                continue
            self.value(item, block, serial)
            if item.op in EFFECTS:
                if item.arg[-1] <= last:
                    self.fail("effects happen in the order in which they were recorded", item)
                last = item.arg[-1]
            if item.op != Op.STORE:
                self.define(item, added)
        return added

    def define(self, node: UOp, added: set[UOp]) -> None:
        if node in self.defined:
            self.fail("a value is defined once", node)
        self.defined.add(node)
        self.visible.add(node)
        added.add(node)

    def use(self, nodes: Iterable[UOp], user: UOp | None = None) -> None:
        for node in nodes:
            if node.op in (Op.CONST, Op.BUFFER, Op.DIM):
                continue
            if node not in self.visible:
                self.fail(f"a value is defined before its uses, in a block around them; the use: {user!r}", node)
            if node in self.consumed:
                self.fail(f"a version of a private array is not used after its successor was made; the use: {user!r}", node)

    def inside(self, block: Block, parent: Block, owner: Item, deeper: int) -> None:
        if block.parent is not parent or block.owner is not owner or block.depth != parent.depth + deeper:
            self.fail("blocks know their parents, their owners and their depth")

    # ---- control flow ----

    def structure(self, item: Item, block: Block, serial: bool) -> set[UOp]:
        if isinstance(item, LoopItem):
            results = self.loop(item, block, serial)
        elif isinstance(item, BranchItem):
            results = self.branch(item, block, serial)
        else:
            assert isinstance(item, SerialItem)
            results = self.serial(item, block)
        added: set[UOp] = set()
        for result in results:
            if result.op != Op.RESULT or result.arg[0] != item.region:
                self.fail(f"results of region {item.region} are its own", result)
            self.define(result, added)
        return added

    def loop(self, item: LoopItem, block: Block, serial: bool) -> list[UOp]:
        self.inside(item.test, block, item, 1)
        self.inside(item.body, item.test, item, 0 if item.body.depth == item.test.depth else 1)
        self.use(v.init for v in item.vars)
        for v in item.vars:
            if v.var.op != Op.LOOPVAR or any(n is not None and n.dtype is not v.var.dtype for n in (v.init, v.next, v.result)):
                self.fail("state, next state and result of a loop have one type", v.var)
        before = set(self.consumed)
        inner: set[UOp] = set()
        for v in item.vars:
            self.define(v.var, inner)
        inner |= self.block(item.test, serial)
        self.use([item.condition])
        if item.condition.dtype is not bool_:
            self.fail("a loop goes on while a bool holds", item.condition)
        inner |= self.block(item.body, serial)
        self.use(v.next for v in item.vars)
        self.visible -= inner
        self.consumed = before | {v.init for v in item.vars if isinstance(v.init.dtype, ArrayType)}
        return [v.result for v in item.vars if v.result is not None]

    def branch(self, item: BranchItem, block: Block, serial: bool) -> list[UOp]:
        self.use([item.selector])
        wanted = bool_ if item.kind == "cond" else int32
        if item.kind not in ("cond", "switch") or item.selector.dtype is not wanted:
            self.fail(f"a {item.kind} is decided by {wanted}", item.selector)
        if item.kind == "cond" and len(item.arms) != 2:
            self.fail("a cond has two arms", item.selector)
        for result, values in item.results:
            if len(values) != len(item.arms) or any(not _agree(v, result) for v in values):
                self.fail("a result has a value of its type from each arm", result)
        before, after = set(self.consumed), set(self.consumed)
        for k, arm in enumerate(item.arms):
            self.inside(arm, block, item, 0)
            self.consumed = set(before)
            inner = self.block(arm, serial)
            self.use(values[k] for _, values in item.results)
            after |= self.consumed
            after |= {values[k] for _, values in item.results if isinstance(values[k].dtype, ArrayType)}
            self.visible -= inner
        self.consumed = after
        return [result for result, _ in item.results]

    def serial(self, item: SerialItem, block: Block) -> list[UOp]:
        self.inside(item.body, block, item, 1)
        inner = self.block(item.body, True)
        self.use(value for _, value in item.results)
        for result, value in item.results:
            if not _agree(value, result):
                self.fail("a result of serial has the type of its value", result)
        self.visible -= inner
        return [result for result, _ in item.results]

    # ---- values ----

    def value(self, node: UOp, block: Block, serial: bool) -> None:
        fail = failing(self.stage, node, self.describe)
        if node.op not in _ITEMS:
            fail(f"{node.op} is no item of a block")
        check_node(node, fail)
        self.use(node.src, node)
        if node.op in ELEMENTWISE:
            if node.dtype.count != max(s.dtype.count for s in node.src):
                fail("a short vector is as wide as its widest source")
        elif node.op == Op.LANE:
            axis, size = node.arg
            known = 0 <= axis < len(self.kernel.lanes) and (size is self.kernel.lanes[axis] or size == self.kernel.lanes[axis])
            if not known or node.dtype is not int32:
                fail("LANE is the int32 coordinate along an axis of the kernel, with its size")
            if block is self.kernel.prelude:
                fail("the prelude knows no lane")
        elif node.op == Op.IOTA:
            if not (serial or block is self.kernel.prelude) or node.dtype.scalar is not int32 or node.dtype.count < 2:
                fail("IOTA is an int32 vector, inside serial or in the prelude")
        elif node.op in (Op.LOAD, Op.STORE):
            self.access(node)
        elif node.op == Op.GATHER:
            index, *rows = node.src
            if index.dtype.scalar is not int32 or any(r.op != Op.CONST or r.dtype is not node.dtype.scalar for r in rows):
                fail("a look-up among constants has an int32 index, and rows of its type")
        elif node.op in (Op.SPLIT, Op.ACROSS):
            source = node.src[0].dtype
            if source.count < 2 or (node.op == Op.SPLIT and not 0 <= node.arg < source.count):
                fail(f"{node.op} {node.arg} of {source}")
            if node.dtype is not (int32 if node.op == Op.ACROSS and node.arg in ("first", "last") else source.scalar):
                fail(f"{node.op} {node.arg} of {source} is not {node.dtype}")
        elif node.op in (Op.ARRAY_SET, Op.APPEND):
            self.consumed.add(node.src[0])
        if node.op in EFFECTS and block is self.kernel.prelude:
            fail("the prelude has no effects")
        if node.op == Op.STORE and block is not self.kernel.body:
            fail("stores stand in the body")

    def access(self, node: UOp) -> None:
        """A load or a store: its buffer, its index, its types, its gate."""
        fail = failing(self.stage, node, self.describe)
        leaf, index, *rest = node.src
        if leaf not in self.buffers:
            fail("memory is in the kernel's list of buffers")
        if not isinstance(index.dtype, DType) or index.dtype.scalar is not int32:
            fail(f"memory is indexed by int32, not {index.dtype}")
        if node.op == Op.LOAD:
            self.read.add(leaf)
            if not isinstance(node.dtype, DType) or node.dtype.scalar is not leaf.dtype:
                fail(f"a load from {leaf.dtype} memory is not {node.dtype}")
        else:
            self.written.add(leaf)
            if node.arg not in _MODES:
                fail(f"{node.arg!r} is no mode of a store")
            if node.arg != "set":
                self.read.add(leaf)
            if not rest or rest[0].dtype is not leaf.dtype:
                fail(f"a store to {leaf.dtype} memory of {rest[0].dtype if rest else 'nothing'}")
            rest = rest[1:]
        if len(rest) > 1 or any(gate.dtype.scalar is not bool_ for gate in rest):
            fail("an access has at most one gate, a bool")


def _agree(value: UOp, result: UOp) -> bool:
    """A value of a region and the result that it becomes: one type; a scalar may become a short vector."""
    if isinstance(value.dtype, ArrayType) or isinstance(result.dtype, ArrayType):
        return value.dtype is result.dtype
    return value.dtype.scalar is result.dtype.scalar and value.dtype.count in (1, result.dtype.count)
