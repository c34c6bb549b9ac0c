"""debug_print: a line from inside a kernel, for each lane that is live (interpreter, CPU, eager mode).

A print has no value, so nothing would keep it. While a region is open it is kept with that region; when the region's control-flow node
is made, its prints become sources of that node, behind those of its results, and the node itself is kept where it stands. What is
left in the end, outside of any region, are roots of the trace beside the function's results (`jit`).

A line is printed once for each time that a lane comes by. So the results of control flow that prints are stored where it stands
outside of any region: two kernels that want them do not run it twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.frontend.lanes import joined, lane_shape, to_shape
from engine.frontend.tensor import Tensor, broadcast_shapes, is_eager, lift
from engine.frontend.trace import TraceError, current, next_number, note_line, user_line
from engine.graph.dtypes import bool_
from engine.graph.uop import Op, Shape, UOp


def debug_print(format: str, *values: Any, where: Any = True) -> None:
    """Prints `format.format(*values)`, a line, to standard error for each lane where `where` holds, when a jitted function runs.

    Values that have inner axes print a line for each of their elements. The lines of different lanes come in no particular order on
    the CPU, in lane order on the interpreter. Raises TypeError for a `where` that is no bool, ValueError for a format that
    does not go with the values, TraceError outside of jitted functions: a graph that is computed when somebody asks for a
    value would print at any time, or never.
    """
    mask = lift(where)
    if mask.dtype is not bool_:
        raise TypeError(f"{user_line()}: debug_print(where=) takes a bool, not {mask.dtype}")
    tensors = [lift(v) for v in values]
    _check_format(format, tensors)
    if is_eager():
        from engine.frontend import eager

        eager.debug_print(format, mask, tensors)
        return
    trace = current()
    if not trace.jit:
        raise TraceError(
            f"{user_line()}: debug_print outside of a jitted function has no time to print at; call it from one, or print x.numpy()"
        )
    nodes, shape = _together([mask, *tensors])
    node = UOp.new(Op.PRINT, None, tuple(nodes), (format, trace.region, next_number()), shape)
    trace.check_scope(node)
    trace.prints.setdefault(trace.region, []).append(note_line(node))


def _check_format(format: str, values: Sequence[Tensor]) -> None:
    """Raises ValueError where the format does not go with values of these types."""
    try:
        line(format, [value.dtype.numpy.type(0) for value in values])
    except (IndexError, KeyError, ValueError, AttributeError) as error:
        types = ", ".join(str(value.dtype) for value in values) or "none"
        raise ValueError(f"{user_line()}: debug_print: the format {format!r} does not go with its values ({types}): {error}") from None


def _together(tensors: Sequence[Tensor]) -> tuple[list[UOp], Shape]:
    """The values over one shape: that of the lanes, perhaps with inner axes after it; what is the same everywhere stays as it is."""
    shape, lanes = broadcast_shapes(*(t.shape for t in tensors)), lane_shape()
    if not lanes:
        return [(t if not t.shape else t.broadcast_to(shape)).uop for t in tensors], shape
    shape = joined([t.shape for t in tensors if t.shape], lanes, " of debug_print") if shape else ()
    return [t.uop if not t.shape else to_shape(t.uop, shape, lanes) for t in tensors], shape


def line(format: str, values: Sequence[Any]) -> str:
    """What is printed for these NumPy scalars: as Python prints bools, integers and floats, so a float32 shows its exact value."""
    return format.format(*(value.item() for value in values))


def take_prints(*regions: int) -> list[UOp]:
    """The prints of regions that have just been closed, to be kept by their control-flow node."""
    trace = current()
    return [node for region in regions for node in trace.prints.pop(region, [])]


def keep(node: UOp, prints: list[UOp]) -> UOp:
    """A control-flow node that has prints inside stays, even where nobody wants its results."""
    if prints:
        current().prints.setdefault(current().region, []).append(node)
    return node


def runs_once(node: UOp) -> bool:
    """True for control flow whose results must be stored, since it prints and several kernels may want them."""
    return node in current().prints.get(0, ())
