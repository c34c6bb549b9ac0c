"""Equal bodies of a switch become one body, and their constants data of each case.

Materials of a scene, say, are functions that differ in a few numbers. Written as arms of a switch they would be as many pieces of code,
run one after another by a group whose lanes want different ones. So the arms are compared once they are recorded: two are alike where
they are the same operations on the same values from outside, but for constants. Arms that are alike are one arm, the first of them; a
constant in which they differ becomes a look-up by the case that brought the lane there.

What the lane's case is, an arm is told by a LOOPVAR of its region: a scalar, so that it may stand wherever a constant stood. It is
the selector of its switch, and that is the case only where the switch has this one arm. So arms that are alike become a switch of one
arm, which costs nothing, and stands as an arm in the switch over those bodies that differ.

Arms with effects (private arrays, votes, prints) stay as they are, and so does what would do more work for each lane than before: a
reduction over more than the lane's own elements, or a table, that is not the same for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.frontend.trace import line_of, note_argument
from engine.graph.dtypes import ArrayType, bool_, int32
from engine.graph.uop import CONTROL, ELEMENTWISE, VIEWS, Op, RegionArg, Shape, UOp

_CHAIN = 4  # cases up to which a constant is selected, not looked up in a table
_FEW = 64  # elements that a reduction inside an arm may have, where it is not over a lane's own


class Arms:
    """The recorded arms of a switch. `results`: of each arm. `regions`: of each arm. `places`: a number before each region, for an arm
    around it."""

    def __init__(self, results: Sequence[Sequence[UOp]], regions: Sequence[int], places: Sequence[int], lanes: Shape) -> None:
        self.results, self.regions, self.places, self.lanes = results, regions, places, lanes

    def switch(self, case: UOp, parent: int) -> UOp:
        """The SWITCH by `case` (within the number of arms) in region `parent`, over as many bodies as there are different ones."""
        groups = self._groups()
        if len(groups) == 1 and len(groups[0]) > 1:
            return self._together(groups[0], case, parent)
        regions: list[int] = []
        sources: list[UOp] = []
        number: dict[int, UOp] = {}
        for k, group in enumerate(groups):
            number.update(dict.fromkeys(group, UOp.const(int32, k)))
            if len(group) == 1:
                regions.append(self.regions[group[0]])
                sources.extend(self.results[group[0]])
            else:
                regions.append(self.places[group[0]])
                inner = self._together(group, case, self.places[group[0]])
                likes = self.results[group[0]]
                sources.extend(UOp.new(Op.PROJ, n.dtype, (inner,), i, n.shape) for i, n in enumerate(likes))
        selector = case if len(groups) == len(self.results) else _look_up(case, number, parent)
        return UOp.new(Op.SWITCH, None, (selector, *sources), RegionArg(tuple(regions), parent, self._count, self.lanes), self.lanes)

    @property
    def _count(self) -> int:
        return len(self.results[0])

    def _groups(self) -> list[list[int]]:
        """The arms, those that are alike together."""
        groups: list[list[int]] = []
        for k in range(len(self.results)):
            for group in groups:
                if self._alike(group[0], k):
                    group.append(k)
                    break
            else:
                groups.append([k])
        return groups

    # ---- comparing ----

    def _alike(self, a: int, b: int) -> bool:
        """True where two arms do the same but for constants."""
        if any(isinstance(n.dtype, ArrayType) for n in self.results[a]):
            return False
        pairs: dict[tuple[str, int], int] = {}
        stack = list(zip(self.results[a], self.results[b], strict=True))
        seen: set[tuple[UOp, UOp]] = set()
        while stack:
            x, y = pair = stack.pop()
            if x is y or pair in seen:
                continue
            seen.add(pair)
            if x.op != y.op or x.dtype is not y.dtype or x.shape != y.shape or len(x.src) != len(y.src):
                return False
            if x.op == Op.CONST:
                continue
            if not self._same_operation(x, y):
                return False
            for m, n in _region_pairs(x, y):
                if m == n:
                    continue
                inside = m >= self.regions[a] and n >= self.regions[b]
                if not inside or pairs.setdefault(("a", m), n) != n or pairs.setdefault(("b", n), m) != m:
                    return False
            stack.extend(zip(x.src, y.src, strict=True))
        return True

    def _same_operation(self, x: UOp, y: UOp) -> bool:
        """True where two nodes of one op, type and shape do the same to their sources, and may do it for a lane's own case."""
        op = x.op
        if op == Op.POW:  # a constant exponent is another computation
            return x.src[1] is y.src[1]
        if op in ELEMENTWISE or op in VIEWS or op in (Op.STACK, Op.PROJ):
            same: bool = x.arg == y.arg
            return same
        if op == Op.REDUCE:
            return x.arg == y.arg and self._within_lane(x)
        if op == Op.GATHER:
            return x.arg[0] == y.arg[0] and x.src[0] is y.src[0]
        if op == Op.LOOPVAR:
            return bool(x.arg[1] == y.arg[1])
        if op in CONTROL:
            return bool(x.arg.count == y.arg.count and x.arg.lanes == y.arg.lanes and len(x.arg.regions) == len(y.arg.regions))
        return False

    def _within_lane(self, node: UOp) -> bool:
        """True for a reduction over inner axes of a lane, or over few elements."""
        axes, shape = node.arg[1], node.src[0].shape
        if self.lanes and shape[: len(self.lanes)] == self.lanes and min(axes) >= len(self.lanes):
            return True
        count = 1
        for axis in axes:
            if not isinstance(shape[axis], int):
                return False
            count *= shape[axis]
        return count <= _FEW

    # ---- joining ----

    def _together(self, group: list[int], case: UOp, parent: int) -> UOp:
        """A SWITCH of one arm, which is each of these."""
        region = self.regions[group[0]]
        mine = UOp.new(Op.LOOPVAR, int32, (), (region, 0), ())
        made: dict[tuple[UOp, ...], UOp] = {}
        roots = list(zip(*(self.results[k] for k in group), strict=True))
        stack = roots[::-1]
        while stack:
            nodes = stack[-1]
            if nodes in made:
                stack.pop()
                continue
            first = nodes[0]
            if all(n is first for n in nodes):
                made[nodes] = first
            elif first.op == Op.CONST:
                made[nodes] = _look_up(mine, dict(zip(group, nodes, strict=True)), region)
            else:
                sources = list(zip(*(n.src for n in nodes), strict=True))
                missing = [s for s in sources if s not in made]
                if missing:
                    stack.extend(reversed(missing))
                    continue
                made[nodes] = first.replace(src=tuple(made[s] for s in sources))
                line = line_of(first)
                if line is not None:
                    note_argument(made[nodes], line)
            stack.pop()
        arg = RegionArg((region,), parent, self._count, self.lanes)
        return UOp.new(Op.SWITCH, None, (case, *(made[r] for r in roots)), arg, self.lanes)


def _region_pairs(x: UOp, y: UOp) -> Iterator[tuple[int, int]]:
    """The regions that two nodes of one op name, side by side."""
    if x.op == Op.GATHER:
        yield x.arg[1], y.arg[1]
    elif x.op == Op.LOOPVAR:
        yield x.arg[0], y.arg[0]
    elif x.op in CONTROL:
        yield x.arg.parent, y.arg.parent
        yield from zip(x.arg.regions, y.arg.regions, strict=True)


def _look_up(case: UOp, values: dict[int, UOp], region: int) -> UOp:
    """The constant of a case: selected from few, else read from a table."""
    *most, last = values.items()
    if len(values) <= _CHAIN:
        result = last[1]
        for k, value in reversed(most):
            here = UOp.new(Op.EQ, bool_, (case, UOp.const(int32, k)))
            result = UOp.new(Op.WHERE, value.dtype, (here, value, result))
        return result
    rows = tuple(values.get(k, last[1]) for k in range(max(values) + 1))
    table = UOp.new(Op.STACK, last[1].dtype, rows, 0, (len(rows),))
    return UOp.new(Op.GATHER, table.dtype, (table, case), ((0,), region), case.shape)
