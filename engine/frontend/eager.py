"""Eager mode: the user's Python itself, lane by lane. The oracle of tracing.

Interpreters of a recorded graph agree with each other on a wrong recording. Here nothing is recorded. Inside `with eager():`
every operation is computed as soon as it is written, with NumPy, and control flow runs the user's functions for one lane after
another: a loop goes round for as long as that lane's own condition holds, a branch calls the one function that this lane takes.

Values keep the shapes that they have when recorded. A body sees Tensors over all lanes, of which only the live lane's elements
mean something; of what it returns that lane's elements are kept. A vote is asked of a group of one lane. Private arrays are
written, and their indices checked, for the live lane.

What a recording learns from the bodies (lanes of a loop whose condition is one for all, inner axes, the types of numbers, the
shape of a result that no lane computes) is learnt by calling them once, or a few times, with no lane live: a *rehearsal*. A body
inside a body is rehearsed the first time it is reached; it is known by the path of calls that leads to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.frontend import tree
from engine.frontend.eager_arrays import EagerArray, Store
from engine.frontend.eager_ops import Array, Sizes
from engine.frontend.eager_state import EagerState
from engine.frontend.lanes import Wider, check_lanes, common_lanes, joined, lane_shape, laned, serial_lanes, to_shape
from engine.frontend.printing import line
from engine.frontend.tensor import Tensor, broadcast_shapes, lift, set_eager, set_realizer
from engine.frontend.trace import Trace, TraceError, tracing, user_line
from engine.graph.dtypes import DType, int32
from engine.graph.uop import Op, Shape

Value = Tensor | EagerArray
Function = Callable[..., Any]

_state: EagerState | None = None


@contextmanager
def eager(dims: Mapping[str, int] | None = None) -> Iterator[None]:
    """Computes everything at once, without recording, and runs control flow lane by lane. Slow, simple, and right.

    `dims`: values of named sizes that the program uses before it meets a Tensor that has them. Inside, what recording would
    refuse is refused; an index out of bounds, and a private element that was never set, raise LaneError.
    """
    global _state
    before, _state = _state, EagerState(dict(dims or {}))
    evaluator, realizer = set_eager(_state.evaluate), set_realizer(_state.realize)
    try:
        with tracing(Trace()):
            yield
    finally:
        _state = before
        set_eager(evaluator)
        set_realizer(realizer)


def _current() -> EagerState:
    assert _state is not None
    return _state


# ---- values of a body ----


@dataclass(frozen=True)
class _Form:
    """What a rehearsal taught: the lanes; structure, types (with the length of a private array) and shapes of what comes out."""

    lanes: Shape
    spec: tree.Spec
    like: list[Value]
    kinds: list[tuple[DType, int]]
    shapes: list[Shape]


def _is_leaf(value: Any) -> bool:
    return isinstance(value, (Tensor, EagerArray, bool, int, float))


def _value(leaf: Any, like: DType | None = None) -> Value:
    """A leaf as a value: numbers take the type `like` if they can, a private array must be its newest version."""
    if isinstance(leaf, EagerArray):
        leaf.check()
        return leaf
    return lift(leaf, like)


def _kind(value: Value) -> tuple[DType, int]:
    return (value.dtype, 0) if isinstance(value, Tensor) else (value.store.dtype, value.length)


def _named(kind: tuple[DType, int]) -> str:
    return f"{kind[0]}[{kind[1]}]" if kind[1] else str(kind[0])


def _same_kinds(what: str, paths: Sequence[str], values: Sequence[Value], others: Sequence[Value]) -> None:
    """Raises TraceError where types, or the arrays that versions belong to, differ."""
    for path, value, other in zip(paths, values, others, strict=True):
        if _kind(value) != _kind(other):
            kinds = f"{_named(_kind(other))} and {_named(_kind(value))}"
            raise TraceError(f"{user_line()}: {what} has {kinds} for {path or 'its value'}; cast() one of them")
        if isinstance(value, EagerArray) and isinstance(other, EagerArray) and value.store is not other.store:
            raise TraceError(f"{user_line()}: {what} has different local arrays for {path or 'its value'}")


class _Kept:
    """What the lanes of a body return, lane by lane."""

    def __init__(self, state: EagerState, form: _Form) -> None:
        self.state, self.form = state, form
        self.arrays: list[Array] = [
            np.zeros(state.sizes(shape), dtype.numpy) for shape, (dtype, _) in zip(form.shapes, form.kinds, strict=True)
        ]

    def keep(self, lane: Sizes, values: Sequence[Value]) -> None:
        """Copies a lane's elements."""
        for array, value, shape in zip(self.arrays, values, self.form.shapes, strict=True):
            if isinstance(value, Tensor):
                array[lane] = self.state.array(to_shape(value.uop, shape, self.form.lanes))[lane]

    def results(self, like: Sequence[Value]) -> Any:
        """What comes out of the control flow. `like`: versions of the private arrays among it."""
        form = self.form
        leaves: list[Value] = []
        for array, value, shape, (dtype, _) in zip(self.arrays, like, form.shapes, form.kinds, strict=True):
            leaves.append(value.version(form.lanes) if isinstance(value, EagerArray) else Tensor.of(self.state.leaf(array, dtype, shape)))
        return tree.unflatten(form.spec, leaves)


def _settled(lanes: Shape, free: bool, rehearse: Callable[[Shape], _Form]) -> _Form:
    """A rehearsal over these lanes, or wider ones where it asks for them and they are `free` to grow."""
    while True:
        try:
            return rehearse(lanes)
        except Wider as wider:
            if not free:
                raise
            lanes = broadcast_shapes(wider.shape, lanes)


# ---- control flow: what `frontend.control` and its neighbours call ----


def while_loop(cond: Function, body: Function, state: Any) -> Any:
    """Each lane by itself: while cond(state): state = body(state)."""
    leaves, spec, paths = tree.flatten(state, _is_leaf)
    loop = _Loop(_current(), cond, body, spec, paths, [_value(leaf) for leaf in leaves])
    return loop.run()


@dataclass(frozen=True)
class _Loop:
    """One call of while_loop."""

    state: EagerState
    cond: Function
    body: Function
    spec: tree.Spec
    paths: list[str]
    inits: list[Value]

    def run(self) -> Any:
        state, free, path = self.state, lane_shape() is None, self.state.next_path()
        for init in self.inits:
            if isinstance(init, EagerArray):
                init.check()
                state.replace(init)
        form = state.form(path, lambda: _settled(lane_shape() or (), free, lambda lanes: self.rehearse(lanes, free, path)))
        kept = _Kept(state, form)
        for lane in state.lanes_to_run(form.lanes):
            values = self.start(form)
            while self.test(form, path, lane, values)[lane]:
                values = self.step(form, path, lane, values)
            kept.keep(lane, values)
        return kept.results(self.inits)

    def rehearse(self, lanes: Shape, free: bool, path: tuple[int, ...]) -> _Form:
        """Condition and body with no lane live, until the shapes of the state have settled."""
        shapes = [laned(v.shape, lanes, p) for v, p in zip(self.inits, self.paths, strict=True)]
        for _ in range(8):
            form = _Form(lanes, self.spec, self.inits, [_kind(v) for v in self.inits], shapes)
            self.test(form, path, None, self.start(form))
            values = self.step(form, path, None, self.start(form))
            grown = [joined((v.shape, s), lanes, p) for v, s, p in zip(values, shapes, self.paths, strict=True)]
            if free and not lanes and common_lanes(grown):
                raise Wider(common_lanes(grown))
            if grown == shapes:
                return form
            shapes = grown
        raise TraceError(f"{user_line()}: the shapes of a loop's state keep growing: {shapes}")

    def start(self, form: _Form) -> list[Value]:
        """The state at the beginning, in values of its own."""
        state, values = self.state, list[Value]()
        for init, shape in zip(self.inits, form.shapes, strict=True):
            if isinstance(init, EagerArray):
                values.append(init.version(form.lanes, deeper=1))
            else:
                array = state.array(to_shape(init.uop, shape, form.lanes))
                values.append(Tensor.of(state.leaf(array, init.dtype, shape)))
        return values

    def test(self, form: _Form, path: tuple[int, ...], lane: Sizes | None, values: list[Value]) -> Array:
        with self.state.body(form.lanes, lane, (*path, 0), repeats=True):
            going = lift(_call(self.cond, tree.unflatten(self.spec, list(values))))
            if not going.dtype.is_bool:
                raise TraceError(f"{user_line()}: the condition of a loop is a bool Tensor, not {going.dtype}")
            check_lanes(going.shape, form.lanes, "a condition")
            return np.broadcast_to(self.state.array(going.uop), self.state.sizes(form.lanes))

    def step(self, form: _Form, path: tuple[int, ...], lane: Sizes | None, values: list[Value]) -> list[Value]:
        with self.state.body(form.lanes, lane, (*path, 1), repeats=True):
            returned, spec, paths = tree.flatten(_call(self.body, tree.unflatten(self.spec, list(values))), _is_leaf)
            if spec != self.spec:
                raise TraceError(
                    f"{user_line()}: the body of a loop returns another structure than its state: {paths or 'nothing'} where "
                    f"{self.paths or 'nothing'} came in"
                )
            after = [_value(leaf, kind[0]) for leaf, kind in zip(returned, form.kinds, strict=True)]
            _same_kinds("the state of a loop", paths, after, self.inits)
            return after


def _call(function: Function, state: Any) -> Any:
    return function(*state) if type(state) is tuple else function(state)


def cond(predicate: Any, then: Function, otherwise: Function, *args: Any) -> Any:
    """Each lane calls the one function that it takes."""
    test = lift(predicate)
    if not test.dtype.is_bool:
        raise TraceError(f"{user_line()}: cond() takes a bool predicate, not {test.dtype}; compare first (x != 0)")
    return _branch("cond", test.where(0, 1), (then, otherwise), args)


def switch(index: Any, functions: Sequence[Function], *args: Any) -> Any:
    """Each lane calls the function that its index names; an index beyond the ends takes the nearest."""
    selector = lift(index)
    if not selector.dtype.is_int:
        raise TraceError(f"{user_line()}: switch() takes an integer index, not {selector.dtype}")
    if not functions:
        raise TraceError(f"{user_line()}: switch() of no functions")
    last = min(len(functions) - 1, int(selector.dtype.max))
    return _branch("switch", selector.clip(0, last).cast(int32), tuple(functions), args)


def serial(function: Function, *args: Any) -> Any:
    """Each lane calls the function."""
    return _branch("serial", lift(0), (function,), args)


def _branch(op: str, selector: Tensor, functions: tuple[Function, ...], args: tuple[Any, ...]) -> Any:
    """Each lane calls the function that the selector names."""
    state, outer, path = _current(), lane_shape(), _current().next_path()
    free, lanes = outer is None, selector.shape if outer is None else outer
    check_lanes(selector.shape, lanes, "a condition")
    since = len(state.replaced)
    replaced: dict[int, tuple[Any, str | None]] = {}  # versions that any arm replaced, by identity
    given = [leaf.shape for leaf in tree.flatten(args, _is_leaf)[0] if isinstance(leaf, Tensor)]

    def arm(k: int, lanes: Shape, lane: Sizes | None) -> tuple[list[Any], tree.Spec, list[str]]:
        try:
            with state.body(lanes, lane, (*path, k), repeats=op == "serial"):
                leaves, spec, paths = tree.flatten(functions[k](*args), _is_leaf)
                for leaf in leaves:
                    _value(leaf)
                for leaf in leaves:
                    if isinstance(leaf, EagerArray) and leaf.replaced_at is None:
                        state.replace(leaf)
                return leaves, spec, paths
        finally:
            replaced.update((id(version), (version, line)) for version, line in state.undo(since))

    def rehearse(lanes: Shape) -> _Form:
        replaced.clear()
        form = _form_of_arms(op, [arm(k, lanes, None) for k in range(len(functions))], lanes)
        common = serial_lanes(given, form.shapes) if op == "serial" else common_lanes(form.shapes)
        if free and not lanes and common:
            raise Wider(common)
        return form

    form: _Form = state.form(path, lambda: _settled(lanes, free, rehearse))
    kept, like = _Kept(state, form), form.like
    choice = np.broadcast_to(state.array(selector.uop), state.sizes(form.lanes))
    for lane in state.lanes_to_run(form.lanes):
        leaves, spec, paths = arm(int(choice[lane]), form.lanes, lane)
        values = [_of_arm(leaf, kind[0]) for leaf, kind in zip(leaves, form.kinds, strict=False)]
        if spec != form.spec or [_kind(v) for v in values] != form.kinds:
            raise TraceError(f"{user_line()}: a function given to {op}() does not return the same at each call: {paths}")
        like = values if not free else like
        _same_kinds(f"{op}()", paths, values, like)
        kept.keep(lane, values)
    state.redo(list(replaced.values()))
    return kept.results(like)


def _of_arm(leaf: Any, like: DType | None) -> Value:
    """A result of an arm. Numbers, and Tensors that are made of one, take the type `like` if they can."""
    if isinstance(leaf, EagerArray):
        return leaf
    if like is not None and isinstance(leaf, Tensor) and leaf.uop.op == Op.CONST:
        leaf = leaf.uop.arg
    return lift(leaf, like)


def _form_of_arms(op: str, arms: Sequence[tuple[list[Any], tree.Spec, list[str]]], lanes: Shape) -> _Form:
    """What the arms have in common. Numbers among the results take the type of what the other arms return."""
    _, spec, paths = arms[0]
    for _, other, others in arms:
        if other != spec:
            raise TraceError(f"{user_line()}: the branches of {op}() return different structures: {paths} and {others}")
    firm: list[DType | None] = []
    for column in zip(*(leaves for leaves, _, _ in arms), strict=True):
        types = [leaf.dtype for leaf in column if isinstance(leaf, Tensor) and leaf.uop.op != Op.CONST]
        firm.append(types[0] if types else None)
    values = [[_of_arm(leaf, dtype) for leaf, dtype in zip(leaves, firm, strict=True)] for leaves, _, _ in arms]
    for arm in values:
        _same_kinds(f"{op}()", paths, arm, values[0])
        if op == "serial" and any(isinstance(value, EagerArray) for value in arm):
            raise TraceError(f"{user_line()}: serial() returns a local array; return what is read from it")
    shapes = [joined([v.shape for v in column], lanes, path) for column, path in zip(zip(*values, strict=True), paths, strict=True)]
    return _Form(lanes, spec, values[0], [_kind(v) for v in values[0]], shapes)


def local_array(length: int, dtype: DType) -> EagerArray:
    """A new private array for each lane."""
    state = _current()
    return EagerArray(Store(state, int(length), dtype), (), state.depth)


def debug_print(format: str, where: Tensor, values: Sequence[Tensor]) -> None:
    """A line for each live lane where the mask holds."""
    state = _current()
    shape = state.sizes(broadcast_shapes(where.shape, *(v.shape for v in values)))
    mask, *arrays = (np.broadcast_to(state.array(x.uop), shape) for x in (where, *values))
    for lane in map(tuple, np.argwhere(state.live_elements(shape) & mask).tolist()):
        print(line(format, [array[lane] for array in arrays]), file=sys.stderr)


def vote(kind: str, value: Tensor) -> Tensor:
    """What a group of one lane knows together."""
    return value.cast(int32) if kind == "count" else value
