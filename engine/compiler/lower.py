"""From the tensor graph of one kernel to scalar code for one lane.

The question that lowering answers over and over is: what is the element of this node at these coordinates? Coordinates are
themselves kernel-level nodes: a lane's place along an axis (LANE), a constant (an inner axis, unrolled), the counter of a
reduction, a row of 0..T-1 (IOTA: the last inner axis inside a `serial` region). A movement node rewrites the coordinates, an
elementwise node asks its sources at the same ones, a gather asks its index and then its table there, and a buffer turns them
into an address. Answers are remembered, and simplified as they are made.

Loops are asked for components of their state. A component that nobody asks for does not exist, which is how dead state
vanishes: what a loop's condition and the components asked for need is found through a list of pending work.

A value of another lane can be had only through memory. Where one is asked of a node that is costly, or that cannot be computed
at other coordinates at all (control flow), `NeedsCut` tells the scheduler to store that node by an earlier kernel.
"""

from __future__ import annotations

from itertools import product as combinations
from typing import Any

from engine.compiler.kernel import Kernel, same_line
from engine.compiler.lower_control import Control
from engine.compiler.lower_core import COST, Answer, Index, NeedsCut, Request, constant
from engine.compiler.lower_movement import Movement
from engine.compiler.lower_reduce import Reductions
from engine.compiler.optimize import merge_axes
from engine.compiler.place import build_kernel
from engine.compiler.target import Target
from engine.graph.dtypes import int32
from engine.graph.uop import CONTROL, ELEMENTWISE, Op, UOp, product


class Lowerer(Movement, Reductions, Control):
    """Lowers one kernel: `store`, `scatter` and `effect` say what it does, `finish` completes its loops."""

    # ---- asking ----

    def store(self, buffer: UOp, value: UOp, mode: str = "set") -> None:
        """The kernel writes `value` to `buffer`, lanes by lanes; axes beyond the lanes are written out."""
        inner = value.shape[len(self.lanes) :]
        for place in combinations(*(range(int(n)) for n in inner)):
            self._store_at(buffer, value, (*self.axes, *(constant(k) for k in place)), mode)

    def _store_at(self, buffer: UOp, value: UOp, index: Index, mode: str) -> None:
        result = self.value(value, index)
        self.stores.append(UOp.new(Op.STORE, None, (buffer, self.flatten(buffer.shape, index), result), mode))

    def scatter(self, buffer: UOp, node: UOp) -> None:
        """The kernel's lanes are the written elements of a SCATTER node; it updates `buffer` in place."""
        mode = node.arg[1]
        value, *indices = node.src[1:]
        lanes = indices[0].shape
        inner = value.shape[len(lanes) :]
        at = [self.value(i, self.axes) for i in indices]
        at = [i if i.dtype is int32 else self.make(Op.CAST, int32, i) for i in at]
        for place in combinations(*(range(int(n)) for n in inner)):
            rest = tuple(constant(k) for k in place)
            written = self.value(value, (*self.axes, *rest))
            address = self.flatten(buffer.shape, (*at, *rest))
            self.stores.append(same_line(UOp.new(Op.STORE, None, (buffer, address, written), mode), node))

    def value(self, node: UOp, index: Index, gate: UOp | None = None, pin: int = 0) -> UOp:
        """The element of `node` at `index` (valid only where `gate` holds); loads stay inside region `pin`."""
        first: Request = (node, index, gate, pin)
        found = self.memo.get(first)
        if found is not None:
            return found
        stack: list[tuple[Request, Answer]] = []
        answer: UOp | None = None
        wanted = first
        while True:
            answer = self.memo.get(wanted)
            if answer is None:
                work = self._answer(wanted)
                if isinstance(work, UOp):
                    answer = self.memo[wanted] = work
                else:
                    stack.append((wanted, work))
            while True:  # hand answers down until somebody asks again
                if not stack:
                    assert answer is not None
                    return answer
                try:
                    wanted = next(stack[-1][1]) if answer is None else stack[-1][1].send(answer)
                    break
                except StopIteration as done:
                    answer = self.memo[stack.pop()[0]] = done.value

    def _answer(self, request: Request) -> UOp | Answer:
        """The answer where it is had at once, else the work that leads to it: it asks for others' answers."""
        node = request[0]
        held = self.materialized.get(node)
        if held is not None:
            return self._buffer((held, *request[1:]))
        op = node.op
        if node in self.preferred and self._other_lanes(request[1]) and self.cost(node) > COST:
            raise NeedsCut(node, "a result that is read by other lanes than its own")
        gate = request[2]
        if gate is not None and gate.dtype.count > 1 and all(i.dtype.count == 1 for i in request[1]):
            return self._for_one(request)
        if op in ELEMENTWISE:
            return self._elementwise(request)
        handler = _HANDLERS.get(op)
        if handler is None:
            raise AssertionError(f"cannot lower {node!r}")
        answer: UOp | Answer = handler(self, request)
        return answer

    def _other_lanes(self, index: Index) -> bool:
        """True where these coordinates are not those of the lane that asks."""
        differ: bool = index[: len(self.axes)] != self.axes
        return differ

    def finish(self) -> None:
        """Works off what the components asked for so far need in their loops."""
        while self.pending or self.printing:
            if not self.pending:
                holder = self.printing.pop()
                for kept in self._prints(holder.node):
                    self.effect(kept, holder.lanes)
                continue
            instance, component, k, inner = self.pending.pop()
            node = instance.node
            count = node.arg.count
            region = instance.region
            if region.condition is None:
                test = node.src[count]
                region.condition = self.value(test, instance.lanes if test.shape else ())
            source = node.src[count + 1 + k]
            component.next = self.value(source, (*instance.lanes, *inner) if source.shape else ())


_HANDLERS: dict[str, Any] = {
    Op.CONST: Lowerer._const,
    Op.DIM: Lowerer._const,
    Op.BUFFER: Lowerer._buffer,
    Op.ARANGE: Lowerer._arange,
    Op.RESHAPE: Lowerer._reshape,
    Op.PERMUTE: Lowerer._permute,
    Op.EXPAND: Lowerer._expand,
    Op.PAD: Lowerer._pad,
    Op.SHRINK: Lowerer._shrink,
    Op.FLIP: Lowerer._flip,
    Op.STRIDE: Lowerer._stride,
    Op.STACK: Lowerer._stack,
    Op.REDUCE: Lowerer._reduce,
    Op.GATHER: Lowerer._gather,
    Op.PROJ: Lowerer._proj,
    Op.LOOPVAR: Lowerer._loopvar,
    Op.ARRAY: Lowerer._array,
    Op.ARRAY_SET: Lowerer._array_set,
    Op.ARRAY_GET: Lowerer._array_get,
    Op.APPEND: Lowerer._append,
    Op.VOTE: Lowerer._vote,
    Op.PRINT: Lowerer._print,
    Op.CONTIGUOUS: Lowerer._cut_here,
    Op.ASSIGN: Lowerer._cut_here,
    Op.SCATTER: Lowerer._must_be_stored,
}


__all__ = ["Lowerer", "NeedsCut", "lower"]


def lower(
    name: str,
    stores: list[tuple[UOp, UOp]],
    lanes: tuple[Any, ...],
    target: Target,
    materialized: dict[UOp, UOp],
    preferred: set[UOp] | frozenset[UOp] = frozenset(),
) -> Kernel:
    """The kernel that writes each value of `stores` (buffer, node) over these lanes. `preferred`: nodes that get stored anyway, where
    a cut costs nothing. Raises NeedsCut, TraceError.
    """
    inner = 1
    for _, value in stores:
        count = product(value.shape[len(lanes) :])
        inner = max(inner, count if isinstance(count, int) else 1)
    work = Lowerer(target, lanes, materialized, inner, preferred)
    scattered = [node for _, node in stores if node.op == Op.SCATTER]
    for buffer, node in stores:
        if node.op == Op.SCATTER:
            work.scatter(buffer, node)
        elif node.op == Op.PRINT or node.op in CONTROL:
            work.effect(node, work.axes)
        else:
            work.store(buffer, node)
    work.finish()
    written, kernel_lanes = merge_axes(work.stores, work.regions, work.axes, fixed=bool(work.effects))
    return build_kernel(name, written, work.effects, work.regions, kernel_lanes, ordered=bool(scattered))
