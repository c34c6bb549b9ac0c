"""The lane shape of the open bodies, and the shapes that values have over it.

The outermost body decides: its lanes are the shape of its condition (of its index, for `switch`). Bodies inside it have the same
lanes. Where that condition is one for all lanes (a counted loop, a branch on a parameter), the lanes are learnt while the body is
recorded: from a condition further in, from a private array that lanes fill differently, or from the results. `Wider` says
that something like this was met; the outermost body is then recorded again, over the wider lanes.

A value inside a body has the lane shape, perhaps with inner axes after it, or a shape that broadcasts to the lane shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from engine.frontend.tensor import Tensor, broadcast_shapes, broadcasts
from engine.frontend.trace import TraceError, current, user_line
from engine.graph.dtypes import ArrayType
from engine.graph.uop import Shape, UOp


class Wider(Exception):
    """Something of this lane shape stands inside bodies without lanes: the outermost is recorded again, over these lanes."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.shape = shape


def lane_shape() -> Shape | None:
    """The lane shape of the innermost open body, None outside of any."""
    lanes = current().lanes
    return lanes[-1] if lanes else None


@contextmanager
def body_over(lanes: Shape) -> Iterator[None]:
    """Opens a body over these lanes."""
    opened = current().lanes
    opened.append(lanes)
    try:
        yield
    finally:
        opened.pop()


def check_lanes(shape: Shape, lanes: Shape, what: str) -> None:
    """Raises TraceError where `what`, of this shape, does not go with the lanes; Wider where there are no lanes yet."""
    if not broadcasts(shape, lanes):
        if not lanes:
            raise Wider(shape)
        raise TraceError(f"{user_line()}: {what} of shape {shape} inside a body whose lanes have shape {lanes}")


def laned(shape: Shape, lanes: Shape, path: str) -> Shape:
    """The shape that state of this shape has over these lanes. Raises TraceError, naming the leaf, where it has none."""
    if len(shape) >= len(lanes) and broadcasts(shape[: len(lanes)], lanes):
        return (*lanes, *shape[len(lanes) :])
    if broadcasts(shape, lanes):
        return lanes
    raise TraceError(f"{user_line()}: state{path} has shape {shape}, which does not go with lanes of shape {lanes}")


def joined(shapes: Sequence[Shape], lanes: Shape, path: str) -> Shape:
    """The shape over these lanes that holds values of all these shapes: inner axes broadcast against each other."""
    inner = [laned(s, lanes, path)[len(lanes) :] for s in shapes]
    return (*lanes, *broadcast_shapes(*inner))


def to_shape(node: UOp, shape: Shape, lanes: Shape) -> UOp:
    """The value broadcast to `shape`, which is `joined` from its own: lanes in front, inner axes last."""
    if isinstance(node.dtype, ArrayType) or node.shape == shape:
        return node
    x = Tensor.of(node)
    front, inner = x.shape[: len(lanes)], x.shape[len(lanes) :]
    ones = (1,) * (len(lanes) - len(front))
    more = (1,) * (len(shape) - len(lanes) - len(inner))
    return x.reshape(*ones, *front, *more, *inner).broadcast_to(shape).uop


def common_lanes(shapes: Sequence[Shape]) -> Shape:
    """The lanes of a body whose condition is one for all: what the shapes of its values have in common, from the front."""
    shaped = [s for s in shapes if s]
    rank = min(map(len, shaped), default=0)
    try:
        return broadcast_shapes(*(s[:rank] for s in shaped))
    except ValueError:
        return broadcast_shapes(*shaped)


def serial_lanes(given: Sequence[Shape], shapes: Sequence[Shape]) -> Shape:
    """The lanes of a serial region that no condition tells: the front axes of its results' shapes that an argument has alone."""
    lanes = common_lanes(shapes)
    for shape in given:
        if shape and shape == lanes[: len(shape)]:
            lanes = shape
    return lanes
