"""What eager mode knows while it runs: named sizes, the live lane, what rehearsals taught.

`EagerState` turns fresh nodes into leaves that hold their values, and keeps three books. Of lanes: outside of bodies all lanes are
live, inside a body one is, in a rehearsal none. Of the forms of bodies: see `frontend.eager`. Of private arrays: which version was
replaced where. What one arm of a branch replaces, the others may still use, since each lane takes one of them: `undo` and
`redo` are for that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from engine.frontend import eager_ops
from engine.frontend.eager_ops import Array, Sizes
from engine.frontend.lanes import body_over
from engine.frontend.storage import Storage
from engine.frontend.tensor import Tensor
from engine.frontend.trace import TraceError, leaked, user_line
from engine.graph.dtypes import DType
from engine.graph.uop import BufferArg, Op, Shape, UOp, size_value, toposort


class Version(Protocol):
    """A version of a private array, as far as the books go: where it was replaced, None while it is the newest."""

    replaced_at: str | None


@dataclass
class EagerState:
    """`lanes`: sizes of the lane shape, None outside of bodies. `lane`: the live lane; None outside, and in rehearsals.

    `dims`: named sizes. `depth`: how many open bodies repeat (an array from outside must not change in them). `path`: the calls
    of bodies that are open, as numbers of the call within its body and of the function called. `forms`: by path.
    """

    dims: dict[str, int] = field(default_factory=dict)
    lanes: Sizes | None = None
    lane: Sizes | None = None
    depth: int = 0
    path: tuple[int, ...] = ()
    calls: itertools.count[int] = field(default_factory=itertools.count)
    forms: dict[tuple[int, ...], Any] = field(default_factory=dict)
    replaced: list[Version] = field(default_factory=list)

    # ---- values ----

    def sizes(self, shape: Shape) -> Sizes:
        """The numbers that sizes stand for. Raises TraceError for a name that has no value yet."""
        try:
            return tuple(size_value(s, self.dims) for s in shape)
        except KeyError as error:
            name = error.args[0]
            raise TraceError(f"{user_line()}: the size {name!r} is not known yet; give it: eager(dims={{{name!r}: ...}})") from None

    def leaf(self, array: Array, dtype: DType, shape: Shape) -> UOp:
        """The BUFFER of an array."""
        if array.shape != self.sizes(shape) or array.dtype != dtype.numpy:
            raise AssertionError(f"{array.dtype}{list(array.shape)} is not the {dtype}{list(self.sizes(shape))} that was announced")
        storage = Storage.of_array(array)
        return UOp.leaf(dtype, BufferArg(storage.slot, shape, "memory", storage))

    def array(self, node: UOp) -> Array:
        """The values of a node. A graph that was recorded before eager mode began is computed from its leaves."""
        values: dict[UOp, Array] = {}
        for n in toposort((node,)):
            values[n] = self._compute(n, [values[s] for s in n.src])
        return values[node]

    def _compute(self, node: UOp, sources: Sequence[Array]) -> Array:
        if node.op == Op.BUFFER:
            return self._memory(node)
        if node.op in (Op.CONST, Op.DIM):
            return np.asarray(node.arg if node.op == Op.CONST else self.sizes((node,))[0], node.dtype.numpy)
        if node.op not in eager_ops.KNOWN:
            raise TraceError(
                f"{user_line()}: control flow ({node.op}) was recorded before eager mode began; call the function inside of it"
            )
        return eager_ops.compute(node, sources, self.sizes(node.shape), self.live_elements)

    def _memory(self, node: UOp) -> Array:
        storage = node.arg.storage
        if storage is None:
            raise leaked(node)
        storage.check_generation(node.arg.generation)
        for size, value in zip(node.shape, storage.shape, strict=True):
            if isinstance(size, UOp) and size.op == Op.DIM and self.dims.setdefault(size.arg, value) != value:
                raise TraceError(f"{user_line()}: the size {size.arg!r} is {value} here and was {self.dims[size.arg]} before")
        held: Array = storage.host.reshape(storage.shape)
        return held

    def evaluate(self, node: UOp) -> UOp:
        """A fresh node as a leaf that holds its values."""
        return node if node.op in (Op.CONST, Op.BUFFER) else self.leaf(self.array(node), node.dtype, node.shape)

    def realize(self, tensors: list[Tensor]) -> None:
        """All is computed already, but for this: numbers get memory of their own, and `assign` writes."""
        for t in tensors:
            if t.uop.op == Op.ASSIGN:
                self.array(t.uop)
                t.uop = t.uop.src[0]
            elif t.uop.op != Op.BUFFER:
                t.uop = self.leaf(self.array(t.uop), t.dtype, t.shape)

    # ---- bodies ----

    @contextmanager
    def body(self, lanes: Shape, lane: Sizes | None, path: tuple[int, ...], repeats: bool) -> Iterator[None]:
        """A call of a function of control flow, with one lane live, or none."""
        before = self.lanes, self.lane, self.path, self.calls, self.depth
        self.lanes, self.lane, self.path, self.calls = self.sizes(lanes), lane, path, itertools.count()
        self.depth += repeats
        try:
            with body_over(lanes):
                yield
        finally:
            self.lanes, self.lane, self.path, self.calls, self.depth = before

    def next_path(self) -> tuple[int, ...]:
        """Names the call of control flow that begins here. Outside of bodies the books begin anew."""
        if self.lanes is None:
            self.forms.clear()
            self.replaced.clear()
        return (*self.path, next(self.calls))

    def lanes_to_run(self, lanes: Shape) -> list[Sizes]:
        """Outside of bodies, all lanes; inside, the live one."""
        if self.lanes is None:
            return list(np.ndindex(self.sizes(lanes)))
        return [] if self.lane is None else [self.lane]

    def form(self, path: tuple[int, ...], rehearse: Callable[[], Any]) -> Any:
        """What the bodies called at this path look like: kept while the outermost body around them runs."""
        if self.lane is None:
            return rehearse()
        if path not in self.forms:
            self.forms[path] = rehearse()
        return self.forms[path]

    def live_elements(self, shape: Sizes) -> Array:
        """Which elements of an array of this shape count: those of the live lane, or all if it has no lane axes."""
        if self.lanes is None:
            return np.ones(shape, np.bool_)
        live = np.zeros(shape, np.bool_)
        if self.lane is not None:
            place = _place(shape, self.lanes, self.lane)
            live[... if place is None else place] = True
        return live

    # ---- versions of private arrays ----

    def replace(self, version: Version) -> None:
        """Notes that a version has a successor."""
        version.replaced_at = user_line()
        self.replaced.append(version)

    def undo(self, since: int) -> list[tuple[Version, str | None]]:
        """Makes versions usable again that were replaced since the book had this length."""
        undone = [(version, version.replaced_at) for version in self.replaced[since:]]
        for version, _ in undone:
            version.replaced_at = None
        del self.replaced[since:]
        return undone

    def redo(self, undone: Sequence[tuple[Version, str | None]]) -> None:
        """Takes back what `undo` did."""
        for version, line in undone:
            version.replaced_at = line
            self.replaced.append(version)


def _place(shape: Sizes, lanes: Sizes, lane: Sizes) -> tuple[int, ...] | None:
    """Where in an array of this shape a lane's elements are; None where the front axes are not those of the lanes."""
    short = len(lanes) - len(shape)
    if short > 0:
        lanes, lane = lanes[short:], lane[short:]
    head = shape[: len(lanes)]
    if any(size not in (1, n) for size, n in zip(head, lanes, strict=True)):
        return None
    return tuple(0 if size == 1 else at for size, at in zip(head, lane, strict=True))
