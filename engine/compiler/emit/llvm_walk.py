"""How a kernel's lanes are walked on a CPU: workgroups, groups, lane coordinates.

    linear  one axis; a group is `width` neighbours
    rows    the last axis across the group, the others scalar
    tiles   the last two axes in tiles (4 x 4 for 16 lanes, 2 x 4 for 8, 2 x 2 for 4), so that lanes which part are close together

A workgroup is `kernel.workgroup // width` groups in this order; the CPU device's `Grid` counts them, for the launch.

Where the body has no control flow in which lanes part, it is written twice. One version is for groups that lie whole inside the
row and of which every lane passes the gates of its loads (the taps of a stencil all lie inside the picture): no masks, no tests.
Whether a group is such a one is told by its first and last lane alone, so by a few scalar comparisons. The other version has
everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.compiler.emit.llvm_ops import vector
from engine.compiler.kernel import Kernel
from engine.compiler.optimize import lanes_part
from engine.graph.dtypes import int32
from engine.graph.uop import ELEMENTWISE, Op, UOp, size_uop, toposort

if TYPE_CHECKING:
    from engine.compiler.emit.llvm import Emitter


def tile_shape(width: int) -> tuple[int, int]:
    """Rows and columns of a tile of `width` lanes."""
    return {1: (1, 1), 2: (1, 2), 4: (2, 2), 8: (2, 4), 16: (4, 4), 32: (4, 8)}[width]


def groups_in(kernel: Kernel, width: int) -> int:
    """Groups of a workgroup."""
    return max(1, kernel.workgroup // width)


def _lane_nodes(e: Emitter) -> list[UOp]:
    return [UOp.new(Op.LANE, int32, (), (a, s)) for a, s in enumerate(e.kernel.lanes)]


def emit_walk(e: Emitter) -> None:
    """The loop over groups, around the kernel's body."""
    kernel = e.kernel
    per = groups_in(kernel, e.width)
    first = e.emit(f"mul i64 %first, {per}")
    last = e.emit(f"mul i64 %last, {per}")
    sizes = []
    for s in kernel.lanes:
        node = size_uop(s)
        for n in node.toposort():
            if n.op != Op.DIM and n.op != Op.CONST and n not in e.names:
                e.value(n)
        sizes.append(e.emit(f"sext i32 {e.raw(node)} to i64"))
    if not kernel.lanes:
        once = e.emit(f"icmp sgt i64 {last}, {first}")
        run, done = e.new_label("run"), e.new_label("end")
        e.line(f"br i1 {once}, label %{run}, label %{done}")
        e.start(run)
        width, e.width = e.width, 1
        e.block(kernel.body)
        e.width = width
        e.line(f"br label %{done}")
        e.start(done)
        return
    if kernel.walk == "tiles":
        _tiles(e, first, last, sizes)
    else:
        _rows(e, first, last, sizes)


def _rows(e: Emitter, first: str, last: str, sizes: list[str]) -> None:
    """Groups along the last axis; with a body free of control flow, full groups have no mask."""
    lanes = _lane_nodes(e)
    w = e.width
    along = e.emit(f"add i64 {sizes[-1]}, {w - 1}")
    in_row = e.emit(f"udiv i64 {along}, {w}")
    total = in_row
    for s in sizes[:-1]:
        total = e.emit(f"mul i64 {total}, {s}")
    end = e.ops.call("llvm.smin.i64", "i64", ("i64", last), ("i64", total))
    row0 = e.emit(f"udiv i64 {first}, {in_row}")
    col0 = e.emit(f"urem i64 {first}, {in_row}")
    head, body, done, latch = e.new_label("group"), e.new_label("run"), e.new_label("end"), e.new_label("next")
    before = e.label
    e.line(f"br label %{head}")
    e.start(head)
    g, row, col = e.fresh("g"), e.fresh("row"), e.fresh("col")
    g2, row2, col2 = e.fresh("g"), e.fresh("row"), e.fresh("col")
    e.line(f"{g} = phi i64 [ {first}, %{before} ], [ {g2}, %{latch} ]")
    e.line(f"{row} = phi i64 [ {row0}, %{before} ], [ {row2}, %{latch} ]")
    e.line(f"{col} = phi i64 [ {col0}, %{before} ], [ {col2}, %{latch} ]")
    more = e.emit(f"icmp slt i64 {g}, {end}")
    e.line(f"br i1 {more}, label %{body}, label %{done}")
    e.start(body)
    with e.scope():
        rest = row
        for axis in range(len(lanes) - 2, -1, -1):
            if axis:
                coordinate = e.emit(f"urem i64 {rest}, {sizes[axis]}")
                rest = e.emit(f"udiv i64 {rest}, {sizes[axis]}")
            else:
                coordinate = rest
            e.names[lanes[axis]] = e.emit(f"trunc i64 {coordinate} to i32")
        base64 = e.emit(f"mul i64 {col}, {w}")
        base = e.emit(f"trunc i64 {base64} to i32")
        e.memory.base[lanes[-1]] = base
        if w > 1:
            spread = e.splat(base, "i32", w)
            e.names[lanes[-1]] = e.emit(f"add {vector('i32', w)} {spread}, <{', '.join(f'i32 {k}' for k in range(w))}>")
        else:
            e.names[lanes[-1]] = base
        _bodies(e, base, lanes[-1], sizes[-1])
    e.line(f"br label %{latch}")
    e.start(latch)
    e.line(f"{g2} = add i64 {g}, 1")
    stepped = e.emit(f"add i64 {col}, 1")
    wraps = e.emit(f"icmp eq i64 {stepped}, {in_row}")
    down = e.emit(f"add i64 {row}, 1")
    e.line(f"{row2} = select i1 {wraps}, i64 {down}, i64 {row}")
    e.line(f"{col2} = select i1 {wraps}, i64 0, i64 {stepped}")
    e.line(f"br label %{head}")
    e.start(done)


def _bodies(e: Emitter, base: str, lane: UOp, size: str) -> None:
    """The body for whole groups, and the body for all others. `size`: of the axis across the group; `base`: where the group begins."""
    w = e.width
    if w == 1:
        e.block(e.kernel.body)
        return
    ragged = not _divides(w, lane.arg[1])
    size32 = e.emit(f"trunc i64 {size} to i32")
    if lanes_part(e.kernel, e.uniform):
        e.mask = _inside(e, lane, size32) if ragged else None
        e.block(e.kernel.body)
        e.mask = None
        return
    tests = []
    if ragged:
        tests.append(e.emit(f"icmp sle i32 {e.emit(f'add i32 {base}, {w}')}, {size32}"))
    gates, passed = _gates(e)
    tests += passed
    if not tests:
        e.block(e.kernel.body)
        return
    whole, other, join = e.new_label("whole"), e.new_label("other"), e.new_label("join")
    test = tests[0]
    for more in tests[1:]:
        test = e.emit(f"and i1 {test}, {more}")
    e.line(f"br i1 {test}, label %{whole}, label %{other}")
    saved = dict(e.names)
    e.start(whole)
    with e.scope():
        e.memory.assumed = frozenset(gates)
        e.block(e.kernel.body)
        e.memory.assumed = frozenset()
    e.line(f"br label %{join}")
    e.names = dict(saved)
    e.start(other)
    with e.scope():
        e.mask = _inside(e, lane, size32) if ragged else None
        e.block(e.kernel.body)
        e.mask = None
    e.line(f"br label %{join}")
    e.names = saved
    e.start(join)


def _divides(w: int, size: object) -> bool:
    return isinstance(size, int) and size % w == 0


def _inside(e: Emitter, lane: UOp, size: str) -> str:
    """The mask of the lanes that exist."""
    return e.emit(f"icmp slt {vector('i32', e.width)} {e.names[lane]}, {e.splat(size, 'i32', e.width)}")


def _gates(e: Emitter) -> tuple[list[UOp], list[str]]:
    """The gates of the body's loads that few numbers decide for a whole group, and the tests that decide them."""
    gates: dict[UOp, None] = {}
    tests: dict[UOp, str] = {}
    for item in e.kernel.body.items:
        if not (isinstance(item, UOp) and item.op == Op.LOAD and len(item.src) == 3) or item.src[2] in gates:
            continue
        parts = _conjuncts(item.src[2])
        if not all(_known_at_start(e, p) for p in parts):
            continue
        found: dict[UOp, str] = {}
        for part in parts:
            test = tests.get(part) or e.memory.holds_for_all(part)
            if test is None:
                break
            found[part] = test
        else:
            tests.update(found)
            gates[item.src[2]] = None
    return list(gates), list(tests.values())


def _conjuncts(gate: UOp) -> list[UOp]:
    """The comparisons of which `gate` is the conjunction."""
    parts: list[UOp] = []
    stack = [gate]
    while stack:
        node = stack.pop()
        if node.op == Op.AND and node.dtype.is_bool:
            stack.extend(node.src)
        else:
            parts.append(node)
    return parts


def _known_at_start(e: Emitter, gate: UOp) -> bool:
    """True where a comparison is index arithmetic on coordinates and sizes; names the parts that all lanes share."""
    nodes = toposort((gate,), stop=lambda n: n in e.names)
    if not all(n in e.names or n.op in (Op.CONST, Op.DIM) or (n.op in ELEMENTWISE and n.dtype.is_int) for n in nodes[:-1]):
        return False
    for n in nodes[:-1]:
        if n not in e.names and n.op in ELEMENTWISE and not e.is_vector(n):
            e.value(n)
    return True


def _tiles(e: Emitter, first: str, last: str, sizes: list[str]) -> None:
    """Square tiles over the last two axes."""
    lanes = _lane_nodes(e)
    w = e.width
    th, tw = tile_shape(w)
    rows = e.emit(f"udiv i64 {e.emit(f'add i64 {sizes[-2]}, {th - 1}')}, {th}")
    cols = e.emit(f"udiv i64 {e.emit(f'add i64 {sizes[-1]}, {tw - 1}')}, {tw}")
    total = e.emit(f"mul i64 {rows}, {cols}")
    for s in sizes[:-2]:
        total = e.emit(f"mul i64 {total}, {s}")
    end = e.ops.call("llvm.smin.i64", "i64", ("i64", last), ("i64", total))
    head, body, done = e.new_label("group"), e.new_label("run"), e.new_label("end")
    before = e.label
    e.line(f"br label %{head}")
    e.start(head)
    g, g2 = e.fresh("g"), e.fresh("g")
    at = len(e.lines)
    more = e.emit(f"icmp slt i64 {g}, {end}")
    e.line(f"br i1 {more}, label %{body}, label %{done}")
    e.start(body)
    with e.scope():
        col = e.emit(f"urem i64 {g}, {cols}")
        rest = e.emit(f"udiv i64 {g}, {cols}")
        row = rest
        if len(lanes) > 2:
            row = e.emit(f"urem i64 {rest}, {rows}")
            rest = e.emit(f"udiv i64 {rest}, {rows}")
            for axis in range(len(lanes) - 3, -1, -1):
                coordinate = e.emit(f"urem i64 {rest}, {sizes[axis]}") if axis else rest
                rest = e.emit(f"udiv i64 {rest}, {sizes[axis]}") if axis else rest
                e.names[lanes[axis]] = e.emit(f"trunc i64 {coordinate} to i32")
        inside: list[str] = []
        for start, step, axis, offsets in (
            (row, th, -2, [k // tw for k in range(w)]),
            (col, tw, -1, [k % tw for k in range(w)]),
        ):
            origin = e.emit(f"trunc i64 {e.emit(f'mul i64 {start}, {step}')} to i32")
            size32 = e.emit(f"trunc i64 {sizes[axis]} to i32")
            if w == 1:
                e.names[lanes[axis]] = origin
                continue
            spread = e.splat(origin, "i32", w)
            e.names[lanes[axis]] = e.emit(f"add {vector('i32', w)} {spread}, <{', '.join(f'i32 {k}' for k in offsets)}>")
            if not _divides(step, lanes[axis].arg[1]):
                inside.append(_inside(e, lanes[axis], size32))
        if len(inside) == 2:
            e.mask = e.emit(f"and {vector('i1', w)} {inside[0]}, {inside[1]}")
        elif inside:
            e.mask = inside[0]
        e.block(e.kernel.body)
        e.mask = None
    e.line(f"{g2} = add i64 {g}, 1")
    e.lines[at:at] = [f"  {g} = phi i64 [ {first}, %{before} ], [ {g2}, %{e.label} ]"]
    e.line(f"br label %{head}")
    e.start(done)
