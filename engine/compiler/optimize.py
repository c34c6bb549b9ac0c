"""What is decided about a kernel as a whole: its lane axes, how its lanes are walked.

A kernel begins with one lane axis for each axis of what it computes. Axes of size 1 are no axes. Two neighbouring axes of sizes m
and n become one of size m * n where nobody asks for their coordinates i and j apart, only for i * n + j: that is so wherever all
that a kernel touches lies in memory in the order of its lanes. It needs no look at the tensor graph: nodes are interned, so
i * n + j is one node, and what is left of i and j once that node is replaced tells whether somebody asked.
"""

from __future__ import annotations

from engine.compiler.kernel import BranchItem, Kernel, LoopItem, SerialItem, inner_blocks, same_line
from engine.compiler.place import Region
from engine.compiler.target import Target
from engine.compiler.uniform import Uniformity
from engine.graph.dtypes import int32
from engine.graph.simplify import SIMPLIFY
from engine.graph.uop import TRANSCENDENTAL, Op, Shape, UOp, product, size_uop, toposort

HEAVY, LIGHT = 256, 512
_DENSE = 400  # operations a lane from which a kernel counts as heavy
_SPREAD = 64  # workgroups that a launch should have at least, where its lanes allow
_APART = 1 << 16  # numbers of axes that are being merged begin here


# ---- axes ----


def lane_axes(lanes: Shape) -> tuple[UOp, ...]:
    """The coordinate of a lane along each axis: a LANE node, or 0 where the size is 1."""
    axes: list[UOp] = []
    number = 0
    for size in lanes:
        if isinstance(size, int) and size == 1:
            axes.append(UOp.const(int32, 0))
        else:
            axes.append(UOp.new(Op.LANE, int32, (), (number, size)))
            number += 1
    return tuple(axes)


def merge_axes(stores: list[UOp], regions: dict[int, Region], axes: tuple[UOp, ...], fixed: bool = False) -> tuple[list[UOp], Shape]:
    """The stores over as few lane axes as they allow, and the sizes of these.

    Kernels whose lanes have control flow keep their axes, and so do those with other effects than their stores (`fixed`).
    """
    left = [a for a in axes if a.op == Op.LANE]
    if fixed or any(r.parent is not None and r.parent.number > 0 for r in regions.values()):
        return stores, tuple(a.arg[1] for a in left)
    done: list[UOp] = []
    while left:
        first = left.pop(0)
        while left:
            second = left[0]
            size = second.arg[1]
            scaled = SIMPLIFY.simplify(UOp.new(Op.MUL, int32, (first, size_uop(size))))
            together = SIMPLIFY.simplify(UOp.new(Op.ADD, int32, (scaled, second)))
            merged = UOp.new(Op.LANE, int32, (), (_APART + first.arg[0] % _APART, product((first.arg[1], size))))
            changed = _replaced(stores, {together: merged})
            if {first, second} & set(toposort(changed)):
                break
            stores, first = changed, merged
            left.pop(0)
        done.append(first)
    final = {a: UOp.new(Op.LANE, int32, (), (number, a.arg[1])) for number, a in enumerate(done)}
    return _replaced(stores, final), tuple(a.arg[1] for a in done)


def _replaced(roots: list[UOp], known: dict[UOp, UOp]) -> list[UOp]:
    """The roots with some nodes exchanged, simplified again where they change."""
    made: dict[UOp, UOp] = {}
    for node in toposort(roots, stop=lambda n: n in known):
        if node in known:
            made[node] = known[node]
            continue
        sources = tuple(made[s] for s in node.src)
        made[node] = node if sources == node.src else same_line(SIMPLIFY.simplify(node.replace(src=sources)), node)
    return [made[r] for r in roots]


# ---- walk and workgroup ----


def density(kernel: Kernel) -> int:
    """Operations a lane, loops counted 8 times for each depth (nothing is known of their length)."""
    total = 0
    for block in kernel.blocks():
        if block is kernel.prelude:
            continue
        weight = 8 ** max(0, block.depth - 1)
        total += weight * sum(
            10 if item.op in TRANSCENDENTAL else 4 if item.op == Op.LOAD else 1 for item in block.items if isinstance(item, UOp)
        )
    return total


def launch_shape(kernel: Kernel, target: Target, workgroup: int | None = None) -> None:
    """Sets `walk` and `workgroup`: square tiles for two axes with control flow in which lanes part, 256 lanes for heavy kernels, 512
    for light ones, fewer where the lanes would not fill enough workgroups; or what the user fixed."""
    kernel.walk = "rows" if len(kernel.lanes) > 1 else "linear"
    if len(kernel.lanes) > 1 and not kernel.ordered and lanes_part(kernel):
        kernel.walk = "tiles"
    kernel.stats["density"] = density(kernel)
    wanted = workgroup or (HEAVY if kernel.stats["density"] >= _DENSE else LIGHT)
    count = product(kernel.lanes)
    if workgroup is None and isinstance(count, int) and has_control(kernel):
        while wanted > 2 * target.group and count < wanted * _SPREAD:
            wanted //= 2
    kernel.workgroup = min(wanted, target.max_workgroup)


def has_control(kernel: Kernel) -> bool:
    """True where the lanes' code has control flow."""
    return any(isinstance(item, (LoopItem, BranchItem, SerialItem)) for item in kernel.body.items)


def lanes_part(kernel: Kernel, uniformity: Uniformity | None = None) -> bool:
    """True where lanes of a group may take different ways, or take turns."""
    if not has_control(kernel):
        return False
    stack = [kernel.body]
    while stack:
        for item in stack.pop().items:
            if isinstance(item, SerialItem):
                return True
            stack.extend(inner_blocks(item))
    return bool((uniformity or Uniformity(kernel)).divergent)
