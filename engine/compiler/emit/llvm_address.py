"""Which sums and products are parts of addresses, and therefore do not wrap.

An index that is used lies in its buffer, and so do the parts it is made of; only a sum that wraps around twice could come back into
range, and such an index is out of bounds by the engine's rules. Told so (`nsw`), LLVM widens a whole address at once, and folds its
constants into the instruction that loads. Only nodes whose every use is in an address count: a number that is also looked at for itself
(a hash, say) may wrap.
"""

from __future__ import annotations

from engine.compiler.kernel import BranchItem, Kernel, LoopItem, SerialItem
from engine.graph.dtypes import int32
from engine.graph.uop import Op, UOp

_SUMS = (Op.ADD, Op.SUB, Op.MUL)


def addresses(kernel: Kernel) -> set[UOp]:
    """The int32 sums and products that are used in addresses only."""
    inside: set[UOp] = set()
    elsewhere: set[UOp] = set()
    users: dict[UOp, list[UOp]] = {}
    for block in kernel.blocks():
        for item in block.items:
            if isinstance(item, LoopItem):
                elsewhere.update(v for var in item.vars for v in (var.init, var.next))
                elsewhere.add(item.condition)
            elif isinstance(item, BranchItem):
                elsewhere.add(item.selector)
                elsewhere.update(v for _, values in item.results for v in values)
            elif isinstance(item, SerialItem):
                elsewhere.update(v for _, v in item.results)
            elif item.op in (Op.LOAD, Op.STORE):
                inside.add(item.src[1])
                elsewhere.update(item.src[2:])
            else:
                for source in item.src:
                    users.setdefault(source, []).append(item)
    found: set[UOp] = set()
    stack = list(inside)
    while stack:
        node = stack.pop()
        if node in found or node.op not in _SUMS or node.dtype.scalar is not int32 or node in elsewhere:
            continue
        if any(user not in found for user in users.get(node, ())):
            continue
        found.add(node)
        stack.extend(node.src)
    return found
