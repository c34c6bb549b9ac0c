"""How the invocations of a C-like kernel become lanes.

    linear, rows    invocations in row order; coordinates by division
    tiles           a workgroup is a tile of the last two axes (256 lanes: 16 x 16, 512: 16 rows of 32), its lanes in Morton order, so
                    that 8, 16 or 32 neighbours lie close together and part seldom; coordinates of the tile by division
    ordered         one invocation, a loop for each axis

Lanes that do not exist (the last workgroup, tiles at the edges) return at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.compiler.emit.cstyle_ops import bare
from engine.graph.dtypes import int32
from engine.graph.uop import Op, UOp, product, size_uop

if TYPE_CHECKING:
    from engine.compiler.emit.cstyle import Emitter


def tile_of(workgroup: int) -> tuple[int, int]:
    """Rows and columns of a workgroup's tile: as square as its number of lanes allows, no higher than wide."""
    rows = max(r for r in range(1, workgroup + 1) if workgroup % r == 0 and r * r <= workgroup)
    return rows, workgroup // rows


def walk(e: Emitter, workgroup: int, tile: tuple[int, int]) -> None:
    """Writes the code of a kernel: coordinates, prelude, body."""
    kernel = e.kernel
    lanes = [UOp.new(Op.LANE, int32, (), (axis, size)) for axis, size in enumerate(kernel.lanes)]
    if kernel.ordered or not lanes:
        e.block(kernel.prelude)
        for axis, lane in enumerate(lanes):
            name, size = f"x{axis}", _size(e, lane.arg[1])
            e.names[lane] = (name,)
            e.line(f"for (int {name} = 0; {name} < {size}; ++{name}) {{")
            e.depth += 1
        e.block(kernel.body)
        for _ in lanes:
            e.depth -= 1
            e.line("}")
        return
    if tile[0] > 1:
        _tiles(e, lanes, workgroup, tile)
    else:
        _rows(e, lanes, workgroup)
    e.block(kernel.prelude)
    e.block(kernel.body)


def _size(e: Emitter, size: int | UOp) -> str:
    """A size as text: a number, a name, or a variable of what it is computed from."""
    if not isinstance(size, UOp):
        return str(size)
    for node in size.toposort():
        if node.op not in (Op.DIM, Op.CONST) and node not in e.names:
            e.value(node)
    return e.ops.named("int", e.text(size_uop(size)))


def _unsigned(e: Emitter, text: str) -> str:
    return f"{text}u" if text.isdigit() else e.dialect.converted("uint", bare(text))


def _rows(e: Emitter, lanes: list[UOp], workgroup: int) -> None:
    sizes = [_size(e, lane.arg[1]) for lane in lanes]
    total = product(lane.arg[1] for lane in lanes)
    if not isinstance(total, int) or total % workgroup:
        count = str(total) if isinstance(total, int) else " * ".join(_unsigned(e, s) for s in sizes)
        e.line(f"if (lane >= {count + 'u' if isinstance(total, int) else count}) return;")
    _coordinates(e, lanes, sizes, "lane", "row")


def _coordinates(e: Emitter, lanes: list[UOp], sizes: list[str], rest: str, stem: str) -> None:
    """Names the coordinates of the element `rest` of axes of these sizes, the last one first."""
    for axis in range(len(lanes) - 1, -1, -1):
        here = rest
        if axis:
            here = f"{rest} % {_unsigned(e, sizes[axis])}"
            rest = e.declare("uint", f"{rest} / {_unsigned(e, sizes[axis])}", stem)
        e.line(f"{e.dialect.types['int']} x{axis} = {e.dialect.converted('int', here)};")
        e.names[lanes[axis]] = (f"x{axis}",)


def _tiles(e: Emitter, lanes: list[UOp], workgroup: int, tile: tuple[int, int]) -> None:
    rows, columns = tile
    sizes = [_size(e, lane.arg[1]) for lane in lanes]
    across, down = (_tiles_along(e, size, step) for size, step in ((sizes[-1], columns), (sizes[-2], rows)))
    rest = e.declare("uint", f"lane / {workgroup}u", "tile")
    place = e.declare("uint", f"lane % {workgroup}u", "place")
    left, top = f"{rest} % {across}", f"{rest} / {across}"
    if len(lanes) > 2:
        rest = e.declare("uint", top, "tile")
        top = f"{rest} % {down}"
        rest = e.declare("uint", f"{rest} / {down}", "tile")
    for name, axis, origin, step, within in (
        (f"x{len(lanes) - 2}", -2, top, rows, _within(place, workgroup, columns, False)),
        (f"x{len(lanes) - 1}", -1, left, columns, _within(place, workgroup, columns, True)),
    ):
        e.line(f"int {name} = {e.dialect.converted('int', f'({origin}) * {step}u + {within}')};")
        e.names[lanes[axis]] = (name,)
    outside = [
        f"{e.names[lanes[axis]][0]} >= {sizes[axis]}"
        for axis, step in ((-2, rows), (-1, columns))
        if not (sizes[axis].isdigit() and int(sizes[axis]) % step == 0)
    ]
    if outside:
        e.line(f"if ({' || '.join(outside)}) return;")
    _coordinates(e, lanes[:-2], sizes, rest, "tile")


def _tiles_along(e: Emitter, size: str, step: int) -> str:
    """Tiles along an axis, as text."""
    if size.isdigit():
        return f"{-(-int(size) // step)}u"
    return f"(({_unsigned(e, size)} + {step - 1}u) / {step}u)"


def _within(place: str, workgroup: int, columns: int, along: bool) -> str:
    """The column (`along`) or the row of a lane in its tile: every other bit of its place, where the tile has a power of two of lanes."""
    if workgroup & (workgroup - 1):
        return f"{place} {'%' if along else '/'} {columns}u"
    bits = range(0 if along else 1, workgroup.bit_length() - 1, 2)
    parts = [f"(({place} >> {b - k}) & {1 << k}u)" if b > k else f"({place} & {1 << k}u)" for k, b in enumerate(bits)]
    return f"({' | '.join(parts)})"
