"""Which values are the same for all lanes of a group.

An emitter keeps such values scalar: their arithmetic costs one lane's worth, their loads are scalar loads, branches on them are
real branches. The analysis begins by taking everything for uniform and walks the blocks until nothing changes: what depends on
the lane is varying; a loop whose condition varies is divergent, and what leaves it is varying even where it was uniform inside,
since lanes leave at different times; a branch likewise. Inside a `serial` region one lane runs alone, so everything is uniform.

A private array is uniform while every element that is ever stored in it, and every index it is stored at, is uniform, and no
store happens under a narrower mask than the one at its creation.
"""

from __future__ import annotations

from engine.compiler.kernel import Block, BranchItem, Item, Kernel, LoopItem, SerialItem
from engine.graph.dtypes import ArrayType
from engine.graph.uop import Op, UOp


class Uniformity:
    """The result: `varying` values, `divergent` loops and branches, the storage of each array version."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.varying: set[UOp] = set()
        self.divergent: set[Item] = set()
        self.storage: dict[UOp, UOp] = {}
        self._array_block: dict[UOp, Block] = {}
        self._changed = True
        varying_axes = {"linear": {0}, "rows": {len(kernel.lanes) - 1}, "tiles": {len(kernel.lanes) - 2, len(kernel.lanes) - 1}}
        self._axes = varying_axes[kernel.walk] if kernel.walk != "linear" or len(kernel.lanes) == 1 else set(range(len(kernel.lanes)))
        while self._changed:
            self._changed = False
            self._block(kernel.prelude, True)
            self._block(kernel.body, False)

    def varies(self, value: UOp) -> bool:
        """True where lanes of a group may hold different values."""
        if value.op == Op.LANE:
            return value.arg[0] in self._axes
        return value in self.varying

    def _mark(self, value: UOp) -> None:
        if value not in self.varying:
            self.varying.add(value)
            self._changed = True

    def _block(self, block: Block, serial: bool) -> None:
        for item in block.items:
            if isinstance(item, UOp):
                self._value(item, block, serial)
            elif isinstance(item, LoopItem):
                self._loop(item, serial)
            elif isinstance(item, BranchItem):
                self._branch(item, serial)
            else:
                self._block(item.body, True)
                if not serial:
                    for result, _ in item.results:
                        self._mark(result)

    def _value(self, item: UOp, block: Block, serial: bool) -> None:
        if item.op == Op.ARRAY:
            self.storage[item] = item
            self._array_block[item] = block
            return
        if item.op in (Op.ARRAY_SET, Op.APPEND):
            root = self.storage[item.src[0]]
            self.storage[item] = root
            if not serial and (any(self.varies(s) for s in item.src[1:]) or self._narrower(block, self._array_block[root])):
                self._mark(root)
            return
        if serial or item.op == Op.VOTE or item.dtype is None:
            return
        if item.op == Op.ARRAY_GET:
            if self.storage[item.src[0]] in self.varying or self.varies(item.src[1]):
                self._mark(item)
        elif any(self.varies(s) for s in item.src):
            self._mark(item)

    def _narrower(self, block: Block, outer: Block) -> bool:
        """True where fewer lanes may be live in `block` than in `outer`, which encloses it."""
        while block is not outer:
            if block.owner in self.divergent:
                return True
            assert block.parent is not None
            block = block.parent
        return False

    def _loop(self, loop: LoopItem, serial: bool) -> None:
        for v in loop.vars:
            if isinstance(v.var.dtype, ArrayType):
                self.storage[v.var] = self.storage[v.init]
                if v.result is not None:
                    self.storage[v.result] = self.storage[v.init]
            elif not serial and self.varies(v.init):
                self._mark(v.var)
        self._block(loop.test, serial)
        if not serial and self.varies(loop.condition) and loop not in self.divergent:
            self.divergent.add(loop)
            self._changed = True
        self._block(loop.body, serial)
        if serial:
            return
        for v in loop.vars:
            if isinstance(v.var.dtype, ArrayType):
                continue
            if self.varies(v.next):
                self._mark(v.var)
            if v.result is not None and (self.varies(v.var) or loop in self.divergent):
                self._mark(v.result)

    def _branch(self, branch: BranchItem, serial: bool) -> None:
        divergent = not serial and len(branch.arms) > 1 and self.varies(branch.selector)
        if divergent and branch not in self.divergent:
            self.divergent.add(branch)
            self._changed = True
        for arm in branch.arms:
            self._block(arm, serial)
        for result, values in branch.results:
            if isinstance(result.dtype, ArrayType):
                self.storage[result] = self.storage[values[0]]
            elif not serial and (any(self.varies(v) for v in values) or (divergent and any(v is not values[0] for v in values))):
                self._mark(result)


def captured(item: SerialItem) -> list[UOp]:
    """Values made outside of a serial region and used inside of it."""
    inside: set[UOp] = set()
    used: dict[UOp, None] = {}
    stack = [item.body]

    def use(value: UOp) -> None:
        used.setdefault(value)

    while stack:
        block = stack.pop()
        for entry in block.items:
            if isinstance(entry, UOp):
                inside.add(entry)
                for s in entry.src:
                    use(s)
            elif isinstance(entry, LoopItem):
                for v in entry.vars:
                    inside.update((v.var, *([v.result] if v.result else [])))
                    use(v.init)
                    use(v.next)
                use(entry.condition)
                stack += [entry.test, entry.body]
            elif isinstance(entry, BranchItem):
                use(entry.selector)
                for result, values in entry.results:
                    inside.add(result)
                    for value in values:
                        use(value)
                stack += entry.arms
            else:
                for result, value in entry.results:
                    inside.add(result)
                    use(value)
                stack.append(entry.body)
    for _, value in item.results:
        use(value)
    return [u for u in used if u not in inside]
