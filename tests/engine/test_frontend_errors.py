"""What the front end refuses, it refuses with the user's file and line and a cure."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import currentframe
from typing import Any

import numpy as np
import pytest

from engine.frontend import functions as f
from engine.frontend import group
from engine.frontend.arrays import local_array
from engine.frontend.control import cond, for_loop, serial, switch, while_loop
from engine.frontend.tensor import Tensor, set_realizer
from engine.frontend.trace import Trace, TraceError, tracing

HERE = r"\S*test_frontend_errors\.py:(\d+)"
X = Tensor(np.array([1.0, 2.0, 3.0], np.float32))
I = Tensor(np.array([0, 1, 2], np.int32))  # noqa: E741


@contextmanager
def refused(kind: type[Exception], text: str) -> Iterator[None]:
    """The block raises `kind`; its message begins with a line of this file that was running, and has `text`."""
    with pytest.raises(kind) as caught:
        yield
    message = str(caught.value)
    assert text in message
    named = re.match(HERE + ": ", message)
    running = [line for frame, line in traceback.walk_tb(caught.value.__traceback__) if frame.f_code.co_filename == __file__]
    assert named and int(named[1]) in running, message


@pytest.fixture
def jit() -> Iterator[Trace]:
    """A trace like that of a jitted function."""
    trace = Trace()
    trace.jit = True
    with tracing(trace):
        yield trace


# ---- shapes and types ----


def test_shapes_that_do_not_broadcast() -> None:
    with refused(ValueError, "shapes (3,) and (2,) do not broadcast: axis -1 has two sizes"):
        X + Tensor([1.0, 2.0])
    with refused(ValueError, "shape (3,) does not broadcast to (3, 2)"):
        X.broadcast_to((3, 2))
    with refused(ValueError, "shapes (3,) and (4,) do not broadcast"):
        f.where(X > 1, Tensor(np.zeros(4)), 0)
    with refused(ValueError, "shapes ('height', 'width') and (3,) do not broadcast"):
        Tensor(np.zeros((2, 3), np.float32), dims=("height", "width")) + X


def test_reshapes_that_do_not_count() -> None:
    with refused(ValueError, "cannot reshape (3,) to (2, 2): the element counts differ"):
        X.reshape(2, 2)
    with refused(ValueError, "cannot reshape (3,) to (2, -1): 3 elements"):
        X.reshape(2, -1)
    with refused(ValueError, "squeeze of axis 0, whose size is 3 and not 1"):
        X.squeeze(0)
    with refused(ValueError, "permute((0, 0)) of a Tensor with 2 axes names each axis once"):
        X[None].permute(0, 0)
    with refused(ValueError, "axis 1 of a Tensor with 1 axes"):
        X.flip(1)
    with refused(ValueError, "pad takes (before, after), not negative, for each of 1 axes; got ((1, -1),)"):
        X.pad(((1, -1),))


def test_joins_and_products_of_other_shapes() -> None:
    with refused(ValueError, "concatenate along axis 0 of shapes [(1, 3), (3, 1)]: the other axes differ"):
        f.concatenate([X[None], X[:, None]])
    with refused(ValueError, "stack of nothing"):
        f.stack([])
    with refused(ValueError, "@ of shapes (1, 3) and (1, 3): 3 columns meet 1 rows"):
        X[None] @ X[None]
    with refused(ValueError, "@ takes at least one axis on each side"):
        X @ Tensor(1.0)


def test_reductions_of_nothing_and_of_axes_that_are_not_there() -> None:
    with refused(ValueError, "max over an axis of size 0 has no value"):
        X[:0].max()
    with refused(ValueError, "axis 2 of a Tensor with 1 axes"):
        X.sum(2)
    with refused(ValueError, "a reduction names an axis twice: (0, -1)"):
        X.sum((0, -1))


def test_operations_that_a_type_does_not_have() -> None:
    with refused(TypeError, "bitwise and of float32; use bitcast('uint32') first if the bits are meant"):
        X & 1
    with refused(TypeError, "~ of a float32 Tensor; bitwise operations take integers and bools"):
        _ = ~X
    with refused(TypeError, "where() takes a bool condition, not float32; compare first (x != 0)"):
        f.where(X, 1, 0)
    with refused(TypeError, "bitcast from float32 to int8: the sizes differ; cast() converts values"):
        X.bitcast("int8")
    with refused(TypeError, "int32 ** a negative number; cast to a float first"):
        I.pow(-1)
    with refused(TypeError, "str is no Tensor and no number"):
        f.where("yes", 1, 0)
    with pytest.raises(TypeError, match="no such dtype: 'float8'; the engine has bool, int8"):
        X.cast("float8")


def test_indices() -> None:
    with refused(IndexError, "index 3 of axis 0, whose size is 3"):
        X[3]
    with refused(IndexError, "2 indices for a Tensor with 1 axes"):
        X[0, 0]
    with refused(IndexError, "an index Tensor has type float32; indices are integers (use where for masks)"):
        X[X]
    with refused(IndexError, "an index Tensor has type bool; indices are integers (use where for masks)"):
        X[X > 1]
    wide = Tensor(np.zeros((2, 3), np.float32), dims=("height",))
    with refused(IndexError, "negative index of axis 0, whose size is dynamic"):
        wide[-1]
    with refused(IndexError, "a slice with a step or a negative start along a dynamic size"):
        wide[::2]
    with refused(TypeError, "iteration over a dynamically sized Tensor"):
        list(wide)
    with refused(TypeError, "iteration over a 0-d Tensor"):
        list(X[0])


# ---- values that are not known yet ----


@pytest.mark.parametrize(
    ("what", "use"),
    [
        ("the truth value", lambda x: 1 if x else 2),
        ("the truth value", lambda x: x > 0 and x < 1),
        ("int()", int),
        ("float()", float),
        ("the value as an index", lambda x: [1, 2, 3][x]),
    ],
)
def test_a_value_used_as_python_number_while_tracing(what: str, use: Callable[[Any], Any], jit: Trace) -> None:
    cure = "use where(condition, a, b) to select values or cond(condition, f, g) to branch"
    with refused(TraceError, f"{what} of a Tensor is not known while the function is being traced; {cure}"):
        use(X[0] if what == "the truth value" else I[0])


def test_a_value_read_while_tracing(jit: Trace) -> None:
    text = "a value is read while the function is being traced; return it and read it outside"
    for read in (Tensor.numpy, Tensor.realize, Tensor.item, Tensor.tolist, Tensor.copy, np.asarray):
        with refused(TraceError, text):
            read(X)


def test_a_value_of_a_body_used_as_python_number() -> None:
    def body(i: Tensor, s: Tensor) -> Tensor:
        return s + 1 if i == 2 else s

    with refused(TraceError, "the truth value of a Tensor is not known while the function is being traced"):
        for_loop(3, body, X)


def test_reading_without_a_runtime() -> None:
    before = set_realizer(None)
    try:
        with pytest.raises(RuntimeError, match="no runtime: import engine, not a part of it"):
            (X + 1).numpy()
    finally:
        set_realizer(before)


# ---- bodies ----


def test_a_value_of_a_body_used_outside() -> None:
    kept: list[Tensor] = []

    def body(i: Tensor, s: Tensor) -> Tensor:
        kept.append(s * 2)
        return s + 1

    for_loop(I, body, X)
    with refused(TraceError, "a value made inside a loop (recorded at"):
        kept[-1] + 1
    with pytest.raises(TraceError, match=r"is used outside of it; return it from there instead"):
        kept[-1] + 1
    cond(X > 1, lambda: kept.append(X * group.max(X)) or X, lambda: X)
    with refused(TraceError, "a value made inside a branch (recorded at"):
        kept[-1] + 1
    arrays = []
    serial(lambda x: arrays.append(local_array(2, "float32").set(0, x)) or x, X)
    with refused(TraceError, "a value made inside serial() (recorded at"):
        arrays[-1][0]


def test_a_value_of_one_arm_used_in_the_other() -> None:
    kept: list[Tensor] = []
    with refused(TraceError, "is used outside of it; return it from there instead"):
        cond(X > 1, lambda: kept.append(group.first(X)) or X, lambda: kept[-1])
    with refused(TraceError, "is used outside of it; return it from there instead"):
        cond(X > 1, lambda: kept.append(group.first(X)) or X, lambda: group.max(X) + kept[-1])


def test_a_value_of_a_body_in_every_other_place() -> None:
    kept: list[Tensor] = []
    for_loop(I, lambda i, s: kept.append(s) or s + 1, I)
    lost = kept[-1]
    for use in (
        lambda: X[lost],
        lambda: X.scatter(lost, 1),
        lambda: X.copy().assign(lost.float()),
        lambda: cond(lost > 1, lambda: X, lambda: X),
        lambda: switch(lost, [lambda: X]),
        lambda: while_loop(lambda x: lost > 1, lambda x: x, X),
        lambda: for_loop(2, lambda i, x: lost, I),
        lambda: for_loop(lost, lambda i, x: x, X),
        lambda: serial(lambda: lost),
        lambda: local_array(3)[lost],
        lambda: local_array(3).set(0, lost),
        lambda: group.max(lost),
        lost.realize,
    ):
        with pytest.raises(TraceError, match=rf"made inside a loop \(recorded at {HERE}\) is used outside of it; return it"):
            use()


def test_the_state_of_a_loop_keeps_its_type() -> None:
    with refused(TraceError, "state[1] of a loop is int32 before and float32 after the body; cast() one of them"):
        while_loop(lambda x, n: x < 3, lambda x, n: (x + 1, n + 0.5), (X, 0))
    with refused(TraceError, "state[1]['n'] of a loop is int32 before and int64 after"):
        for_loop(3, lambda i, s: {"n": s["n"] + Tensor(1, "int64")}, {"n": 0})
    with refused(TraceError, "the condition of a loop is a bool Tensor, not float32"):
        while_loop(lambda x: x, lambda x: x - 1, X)


def test_the_state_of_a_loop_keeps_its_structure_and_lanes() -> None:
    text = "the body of a loop returns another structure than its state: ['[0]', '[1]', '[2]'] where ['[0]', '[1]'] came in"
    with refused(TraceError, text):
        while_loop(lambda x, n: x < 3, lambda x, n: (x, n, n), (X, 0))
    with refused(TraceError, "another structure than its state: nothing where [''] came in"):
        while_loop(lambda x: x < 3, lambda x: None, X)
    with refused(TraceError, "state[1] has shape (2,), which does not go with lanes of shape (3,)"):
        while_loop(lambda x, n: x < 3, lambda x, n: (x + 1, n), (X, Tensor([1, 2])))
    with refused(TraceError, "a condition of shape (2,) inside a body whose lanes have shape (3,)"):
        for_loop(I, lambda i, s: cond(Tensor([True, False]), lambda: s, lambda: s), X)


def test_branches_return_the_same_structure_and_types() -> None:
    with refused(TraceError, "the branches of cond() return different structures: ['[0]', '[1]'] and ['']"):
        cond(X > 1, lambda: (X, X), lambda: X)
    with refused(TraceError, "the branches of cond() return float32 and int32 for result[1]; cast() one of them"):
        cond(X > 1, lambda: (X, X), lambda: (X, I))
    with refused(TraceError, "the branches of switch() return different structures"):
        switch(I, [lambda: X, lambda: X, lambda: (X,)])
    with refused(TraceError, "the branches of switch() return float32 and bool for result; cast() one of them"):
        switch(I, [lambda: X, lambda: X > 1])
    with refused(TraceError, "cond() takes a bool predicate, not int32; compare first (x != 0)"):
        cond(I, lambda: X, lambda: X)
    with refused(TraceError, "switch() takes an integer index, not float32"):
        switch(X, [lambda: X])
    with refused(TraceError, "switch() of no functions"):
        switch(I, [])


def test_votes_take_bools() -> None:
    for vote in (group.any, group.all, group.count):
        with refused(TypeError, f"group.{vote.__name__} takes a bool Tensor, not int32"):
            vote(I)


def test_memory_is_written_outside_of_bodies_and_only_memory() -> None:
    with refused(TraceError, "scatter inside a control-flow body; return the index and value and scatter outside"):
        for_loop(I, lambda i, s: s.scatter(I, 1), X)
    with refused(TraceError, "assign inside a control-flow body; return the value and assign it outside"):
        cond(X > 1, lambda: X.assign(X + 1), lambda: X)
    with refused(TraceError, "assign to a computed Tensor; only memory can be assigned: an argument, a realized Tensor"):
        (X + 1).assign(X)
    with refused(TypeError, "assign of float32 to int32 memory; cast() it first"):
        I.assign(X)
    with refused(ValueError, "shape (2,) does not broadcast to (3,)"):
        X.assign(Tensor([1.0, 2.0]))
    with refused(ValueError, "scatter mode 'mul'; there are set, add, min, max"):
        X.scatter(I, 1, "mul")
    with refused(IndexError, "a scatter index has type float32; indices are integers"):
        X.scatter(X, 1)


# ---- private arrays ----


def test_an_old_version_of_a_private_array() -> None:
    old = local_array(4)
    new = old.set(0, I)
    line = currentframe().f_lineno - 1  # type: ignore[union-attr]
    cause = "(by set(), or as the state of a loop); arrays change in place, so use the newest version"
    text = f"test_frontend_errors.py:{line} {cause}"
    with refused(TraceError, text):
        old[0]
    with refused(TraceError, text):
        old.set(1, 0)
    with refused(TraceError, text):
        for_loop(2, lambda i, a: a, old)
    with refused(TraceError, "this version of a local array was replaced at"):
        cond(X > 1, lambda: new.set(1, 1), lambda: new.set(2, 2).set(3, 3))
        new.set(0, 0)
    with refused(TraceError, "this version of a local array was replaced at"):
        a = local_array(4, fill=0)
        for_loop(2, lambda i, s: s.set(0, a[0]), a)


def test_arms_change_an_array_each() -> None:
    new = local_array(4)
    after = cond(X > 1, lambda: new.set(1, 1), lambda: new.set(2, 2))
    assert after[0].shape == (3,)


def test_an_array_changed_in_a_loop_without_being_its_state() -> None:
    a = local_array(4, fill=0)
    cure = "make it part of the loop's state (return it from the body)"
    with refused(TraceError, f"a local array from outside is changed inside a loop body; {cure}"):
        for_loop(I, lambda i, s: s + a.set(i, 1)[0], I)
    with refused(TraceError, f"a local array from outside is changed inside a serial body; {cure}"):
        serial(lambda x: x + a.set(0, 1)[0], I)
    with refused(TraceError, "comes back from the loop as another local array than went in"):
        for_loop(I, lambda i, s: local_array(4), a)


def test_what_a_private_array_takes() -> None:
    a = local_array(4)
    with refused(TypeError, "float32 stored in a local array of int32; cast() it first"):
        a.set(0, X)
    with refused(TypeError, "a local array is indexed by an integer, not float32"):
        a[X]
    with refused(TypeError, "append_where takes a bool mask and int32 values, not int32 and int32"):
        a.append_where(0, I, I)
    with refused(TraceError, "an access to a local array of shape (3, 2) inside a body whose lanes have shape (3,)"):
        for_loop(I, lambda i, a: a.set(0, Tensor(np.zeros((3, 2), np.int32))), a)
    with refused(TraceError, "the branches of cond() return different local arrays for result"):
        cond(X > 1, lambda: local_array(2), lambda: local_array(2))
    with refused(TraceError, "serial() returns a local array (result); return what is read from it"):
        serial(lambda: local_array(2))
    with refused(TraceError, "the branches of cond() return int32[2] and float32[2] for result; cast() one of them"):
        cond(X > 1, lambda: local_array(2), lambda: local_array(2, "float32"))
