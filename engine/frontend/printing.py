"""debug_print: a line from inside a kernel, for each lane that is live (interpreter and CPU).

A print has no value, so nothing would keep it. While a region is open it is kept with that region; when the region's control-flow node
is made, its prints become sources of that node, behind those of its results. Prints outside of any region are roots of the trace.
"""

from __future__ import annotations

from typing import Any

from engine.frontend.tensor import broadcast_shapes, is_eager, lift
from engine.frontend.trace import current, next_number, note_line, user_line
from engine.graph.dtypes import bool_
from engine.graph.uop import Op, UOp


def debug_print(format: str, *values: Any, where: Any = True) -> None:
    """Prints `format.format(*values)` to standard error for each lane where `where` holds, when a jitted function runs.

    The lines of different lanes come in no particular order on the CPU, in lane order on the interpreter. Raises TypeError for a `where` that is
    no bool.
    """
    mask = lift(where)
    if mask.dtype is not bool_:
        raise TypeError(f"{user_line()}: debug_print(where=) takes a bool, not {mask.dtype}")
    tensors = [lift(v) for v in values]
    if is_eager():
        from engine.frontend import eager

        eager.debug_print(format, mask, tensors)
        return
    shape = broadcast_shapes(mask.shape, *(t.shape for t in tensors))
    sources = [(t if not t.shape else t.broadcast_to(shape)).uop for t in (mask, *tensors)]
    trace = current()
    node = UOp.new(Op.PRINT, None, tuple(sources), (format, trace.region, next_number()), shape)
    trace.prints.setdefault(trace.region, []).append(note_line(node))


def take_prints(*regions: int) -> list[UOp]:
    """The prints of regions that have just been closed, to be kept by their control-flow node."""
    trace = current()
    return [node for region in regions for node in trace.prints.pop(region, [])]


def keep(node: UOp, prints: list[UOp]) -> UOp:
    """A control-flow node that has prints inside stays, even where nobody wants its results."""
    if prints:
        current().prints.setdefault(current().region, []).append(node)
    return node

