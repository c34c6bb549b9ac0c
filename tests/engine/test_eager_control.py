"""Eager mode's control flow against plain Python loops over lanes, and the errors it raises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from engine.frontend import functions as f
from engine.frontend import group
from engine.frontend.arrays import LocalArray, local_array
from engine.frontend.control import cond, for_loop, serial, switch, while_loop
from engine.frontend.eager import eager
from engine.frontend.eager_ops import LaneError
from engine.frontend.printing import debug_print
from engine.frontend.tensor import Tensor
from engine.frontend.trace import TraceError

HERE = r"test_eager_control\.py:\d+: "


@pytest.fixture(autouse=True)
def in_eager_mode() -> Iterator[None]:
    with eager():
        yield


def same(found: Any, wanted: Any) -> None:
    """Equal in dtype, shape and every element."""
    array, wanted = found.numpy(), np.asarray(wanted)
    assert (array.dtype, array.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_array_equal(array, wanted)


def ints(*values: int) -> Tensor:
    return Tensor(np.array(values, np.int32))


def collatz(n: int) -> int:
    steps = 0
    while n != 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


# ---- loops ----


def test_each_lane_leaves_its_loop_when_its_own_condition_fails() -> None:
    start = np.arange(1, 28, dtype=np.int32).reshape(9, 3)

    def step(n: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        return cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1), steps + 1

    n, steps = while_loop(lambda n, steps: n != 1, step, (Tensor(start), Tensor(0)))
    same(n, np.ones_like(start))
    same(steps, np.vectorize(collatz)(start).astype(np.int32))


def test_loops_inside_loops_and_captured_values() -> None:
    rows, limit = ints(3, 0, 2), ints(4, 9, 1)

    def row(i: Tensor, total: Tensor) -> Tensor:
        return for_loop(limit, lambda j, t: t + i * 10 + j, total)

    found = for_loop(rows, row, Tensor(0))
    same(found, np.array([sum(i * 10 + j for i in range(n) for j in range(m)) for n, m in ((3, 4), (0, 9), (2, 1))], np.int32))


def test_a_swap_of_state_and_a_loop_of_no_rounds() -> None:
    a, b = for_loop(ints(0, 1, 2, 3), lambda i, a, b: (b, a), (ints(1, 1, 1, 1), ints(2, 2, 2, 2)))
    same(a, np.array([1, 2, 1, 2], np.int32))
    same(b, np.array([2, 1, 2, 1], np.int32))
    same(for_loop(0, lambda i, x: x + ints(5, 6), Tensor(1)), np.array([1, 1], np.int32))
    same(while_loop(lambda x: x < 0, lambda x: x / 0, 1.5), np.float32(1.5))


def test_state_is_any_tree_and_keeps_its_inner_axes() -> None:
    class Point(NamedTuple):
        at: Tensor
        seen: dict[str, Any]

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    point = for_loop(ints(1, 2), lambda i, p: Point(p.at * 2, {"n": p.seen["n"] + 1}), Point(Tensor(x), {"n": 0}))
    same(point.at, x * np.array([[2], [4]], np.float32))
    same(point.seen["n"], np.array([1, 2], np.int32))


def test_a_loop_with_one_count_for_all_learns_its_lanes() -> None:
    x, v = ints(1, 2), Tensor(np.ones((2, 3), np.float32))
    same(for_loop(3, lambda i, s: s + x, Tensor(0)), np.array([3, 6], np.int32))
    same(for_loop(3, lambda i, s: cond(x > 1, lambda: s + i, lambda: s), Tensor(0)), np.array([0, 3], np.int32))
    s, w = for_loop(2, lambda i, s, w: (s + 1, w + s[:, None].float()), (x, v))
    same(s, np.array([3, 4], np.int32))
    same(w, np.array([[4] * 3, [6] * 3], np.float32))
    same(for_loop(3, lambda i, s: s * 2, Tensor(1)), np.int32(8))


def test_bodies_over_named_sizes() -> None:
    x = Tensor(np.arange(6, dtype=np.int32).reshape(2, 3), dims=("height", "width"))
    found = while_loop(lambda n: n < 4, lambda n: n + 3, x)
    assert found.shape == x.shape
    np.testing.assert_array_equal(found.numpy(), [[6, 4, 5], [6, 4, 5]])


# ---- branches ----


def test_a_branch_runs_one_function_a_lane() -> None:
    index, table = ints(0, 7, 2), ints(10, 20, 30)
    same(cond(index < 3, lambda i: table[i], lambda i: -i, index), np.array([10, -7, 30], np.int32))
    same(cond(index < 3, lambda: 1, lambda: index.float()), np.array([1, 7, 1], np.float32))
    same(switch(ints(-5, 0, 1, 9), [lambda: 10, lambda: 11, lambda: 12]), np.array([10, 10, 11, 12], np.int32))


def test_a_branch_on_one_value_for_all() -> None:
    x = ints(1, 2, 3)
    same(cond(Tensor(True), lambda: x, lambda: 0), np.array([1, 2, 3], np.int32))
    same(cond(Tensor(False), lambda: x, lambda: 0), np.zeros(3, np.int32))
    same(cond(Tensor(True), lambda: cond(x > 1, lambda: 1, lambda: 2), lambda: 3), np.array([2, 1, 1], np.int32))
    assert cond(Tensor(True), lambda: (), lambda: ()) == ()


def test_inner_axes_of_results() -> None:
    x = np.arange(6, dtype=np.int32).reshape(3, 2)
    same(cond(ints(0, 1, 0) == 1, lambda: Tensor(x), lambda: 7), np.where([[False], [True], [False]], x, 7).astype(np.int32))
    same(cond(ints(0, 1, 0) == 1, lambda: Tensor(x), lambda: ints(5, 6, 7)), np.array([[5, 5], [2, 3], [7, 7]], np.int32))


def test_serial_gives_what_the_function_gives() -> None:
    x = np.array([[3, 1, 2], [5, 9, 4]], np.float32)
    low, first = serial(lambda v: (v.min(-1), (v == v.min(-1, keepdims=True)).argmax(-1)), Tensor(x))
    same(low, x.min(-1))
    same(first, np.array([1, 2], np.int32))
    same(serial(lambda v, n: for_loop(n, lambda i, s: s + v[..., 1], 0.0), Tensor(x), ints(2, 1)), np.array([2, 9], np.float32))


# ---- votes ----


def test_a_vote_is_asked_of_a_group_of_one_lane() -> None:
    x = ints(4, -1, 7)
    same(group.any(x > 0), np.array([True, False, True]))
    same(group.all(x > 0), np.array([True, False, True]))
    same(group.count(x > 0), np.array([1, 0, 1], np.int32))
    for vote in (group.min, group.max, group.first):
        same(vote(x), np.array([4, -1, 7], np.int32))
    rounds = while_loop(lambda n: group.any(n < x), lambda n: n + 1, Tensor(0))
    same(rounds, np.array([4, 0, 7], np.int32))
    with pytest.raises(TypeError, match=HERE + r"group\.any takes a bool Tensor, not int32"):
        group.any(x)


# ---- private arrays ----


def test_private_arrays_are_private() -> None:
    lanes = f.arange(4)
    stack = for_loop(lanes, lambda i, a: a.set(i, lanes * 10 + i), local_array(4, "int32", fill=-1))
    assert stack.length == 4
    for k in range(4):
        same(stack[k], np.array([n * 10 + k if k < n else -1 for n in range(4)], np.int32))
    same(stack[lanes], np.full(4, -1, np.int32))


def test_an_array_outside_of_bodies_grows_with_what_is_stored() -> None:
    a = local_array(2, "float32").set(0, 1.5)
    same(a[0], np.float32(1.5))
    a = a.set(ints(1, 0, 1), Tensor([2.0, 3.0, 4.0]))
    same(a[0], np.array([1.5, 3.0, 1.5], np.float32))
    same(a[ints(1, 0, 1)], np.array([2, 3, 4], np.float32))


def test_arms_of_a_branch_change_an_array_each_for_its_own_lanes() -> None:
    x = ints(0, 1, 2, 3)
    a = local_array(2, fill=9)
    a, seen = cond(x % 2 == 0, lambda: (a.set(0, x), 1), lambda: (a.set(1, x).set(0, -x), a_of(2)))
    same(a[0], np.array([0, -1, 2, -3], np.int32))
    same(a[1], np.array([9, 1, 9, 3], np.int32))
    same(seen, np.array([1, 2, 1, 2], np.int32))


def a_of(value: int) -> Tensor:
    return local_array(1).set(0, value)[0]


def test_append_where_keeps_the_order_and_leaves_the_rest_undefined() -> None:
    values = Tensor(np.arange(8, dtype=np.int32).reshape(2, 4))
    a, top = local_array(8).set(0, 99).append_where(1, values % 3 != 1, values)
    same(top, np.array([4, 3], np.int32))
    assert [a[k].tolist() for k in range(3)] == [[99, 99], [0, 5], [2, 6]]
    a, top = cond(ints(1, 0) == 1, lambda: a.append_where(top, values > 1, values), lambda: (a, top))
    same(top, np.array([6, 3], np.int32))
    same(cond(ints(1, 0) == 1, lambda: a[5], lambda: a[2]), np.array([3, 6], np.int32))
    with pytest.raises(LaneError, match=HERE + r"in lane \(1,\): element 3 of a local array of 8 is read, and was never set"):
        a[3]
    with pytest.raises(LaneError, match=HERE + r"in lane \(0,\): 4 elements from 6 on do not fit a local array of 8"):
        a.append_where(top, values > 1, values)


def test_a_new_array_in_each_round_is_empty() -> None:
    def body(i: Tensor, s: Tensor) -> Tensor:
        a = local_array(2)
        return s + cond(i == 0, lambda: a.set(0, 5), lambda: a.set(1, 5))[0]

    with pytest.raises(LaneError, match=HERE + r"in lane \(0,\): element 0 of a local array of 2 is read"):
        for_loop(ints(2, 1), body, 0)
    same(for_loop(ints(1, 1), body, 0), np.array([5, 5], np.int32))


# ---- what is checked, for the live lane only ----


def test_an_index_is_checked_for_the_live_lane_only() -> None:
    table, index = ints(1, 2, 3), ints(0, 5, 2)
    same(cond(index < 3, lambda: table[index], lambda: 0), np.array([1, 0, 3], np.int32))
    same(cond(index < 3, lambda: local_array(3, fill=4)[index], lambda: 0), np.array([4, 0, 4], np.int32))
    with pytest.raises(LaneError, match=HERE + r"in lane \(1,\): index 5 is outside a size of 3") as caught:
        cond(index < 6, lambda: table[index], lambda: 0)
    assert caught.value.lane == (1,)
    with pytest.raises(LaneError, match=r"in lane \(1,\): index 5 is outside a size of 3"):
        cond(index < 6, lambda: local_array(3, fill=4)[index], lambda: 0)
    with pytest.raises(LaneError, match=r"in lane \(0,\): index 3 is outside a size of 3"):
        cond(index < 6, lambda: local_array(3).set(index + 3, 0)[0], lambda: 0)


def test_reading_an_element_never_set() -> None:
    a = local_array(3).set(1, 7)
    same(a[1], np.int32(7))
    with pytest.raises(LaneError, match=HERE + r"in lane \(\): element 2 of a local array of 3 is read, and was never set"):
        a[2]
    same(cond(ints(1, 2) == 1, lambda i: a[i], lambda i: 0, ints(1, 2)), np.array([7, 0], np.int32))


# ---- refusals ----


def test_an_old_version_of_an_array_is_refused() -> None:
    old = local_array(2)
    new = old.set(0, 1)
    with pytest.raises(TraceError, match=HERE + rf"this version of a local array was replaced at .*{HERE[:-2]} "):
        old[0]
    with pytest.raises(TraceError, match="was replaced"):
        old.set(0, 2)
    after = cond(ints(1, 2) == 1, lambda: new.set(0, 3), lambda: new)
    with pytest.raises(TraceError, match="was replaced"):
        new[0]
    last = for_loop(2, lambda i, a: a, after)
    with pytest.raises(TraceError, match="was replaced"):
        after[0]
    same(last[0], np.array([3, 1], np.int32))
    with pytest.raises(TraceError, match="was replaced"):
        for_loop(2, lambda i, a: a.set(0, last[0]), last)


def test_an_array_from_outside_is_not_changed_in_a_body_that_repeats() -> None:
    a = local_array(2, fill=0)
    text = HERE + "a local array from outside is changed inside a body that repeats; make it part of the loop's state"
    with pytest.raises(TraceError, match=text):
        for_loop(2, lambda i, s: s + a.set(0, 1)[0], 0)
    with pytest.raises(TraceError, match=text):
        serial(lambda: a.set(0, 1)[0])
    same(for_loop(2, lambda i, s: s + a[0], 1), np.int32(1))


def test_arrays_keep_their_type_and_their_lanes() -> None:
    a = local_array(2)
    with pytest.raises(TypeError, match=HERE + r"float32 stored in a local array of int32; cast\(\) it first"):
        a.set(0, 1.5)
    with pytest.raises(TypeError, match=HERE + "a local array is indexed by an integer, not float32"):
        a[0.5]
    with pytest.raises(TypeError, match="append_where takes a bool mask and int32 values, not int32 and int32"):
        a.append_where(0, ints(1, 1), ints(1, 1))
    with pytest.raises(TraceError, match=r"an access to a local array of shape \(2, 3\) inside a body whose lanes have shape \(2,\)"):
        for_loop(ints(1, 2), lambda i, a: a.set(0, Tensor(np.zeros((2, 3), np.int32))), a)


def test_a_loop_keeps_the_structure_and_the_types_of_its_state() -> None:
    with pytest.raises(TraceError, match=HERE + "the condition of a loop is a bool Tensor, not int32"):
        while_loop(lambda x: x, lambda x: x, 1)
    text = "the body of a loop returns another structure than its state: [''] where ['[0]', '[1]'] came in"
    with pytest.raises(TraceError, match=HERE + re.escape(text)):
        while_loop(lambda x, y: x < 3, lambda x, y: x + 1, (0, 1))
    with pytest.raises(TraceError, match=HERE + re.escape("the state of a loop has int32 and float32 for [1]; cast() one of them")):
        while_loop(lambda x, y: x < 3, lambda x, y: (x + 1, y * 0.5), (0, 1))
    with pytest.raises(TraceError, match="the state of a loop has different local arrays"):
        for_loop(2, lambda i, a: local_array(2), local_array(2))
    with pytest.raises(TraceError, match=re.escape("state[1] has shape (2,), which does not go with lanes of shape (3,)")):
        for_loop(ints(1, 2, 3), lambda i, s: s, ints(1, 2))


def test_branches_agree() -> None:
    p = ints(0, 1) == 1
    with pytest.raises(TraceError, match=HERE + r"cond\(\) takes a bool predicate, not int32; compare first \(x != 0\)"):
        cond(ints(0, 1), lambda: 1, lambda: 2)
    with pytest.raises(TraceError, match=HERE + r"switch\(\) takes an integer index, not bool"):
        switch(p, [lambda: 1])
    with pytest.raises(TraceError, match=HERE + r"switch\(\) of no functions"):
        switch(ints(0), [])
    with pytest.raises(TraceError, match=HERE + r"the branches of cond\(\) return different structures"):
        cond(p, lambda: (1, 2), lambda: 1)
    with pytest.raises(TraceError, match=HERE + r"cond\(\) has int32 and float32 for its value; cast\(\) one of them"):
        cond(p, lambda: ints(1, 2), lambda: Tensor([1.5, 2.5]))
    with pytest.raises(TraceError, match=HERE + r"cond\(\) has different local arrays for its value"):
        cond(p, lambda: local_array(2), lambda: local_array(2))
    with pytest.raises(TraceError, match=HERE + r"serial\(\) returns a local array; return what is read from it"):
        serial(lambda: local_array(2))
    with pytest.raises(TraceError, match=HERE + r"a condition of shape \(3,\) inside a body whose lanes have shape \(2,\)"):
        cond(p, lambda: cond(ints(1, 2, 3) > 1, lambda: 1, lambda: 2), lambda: 1)


def test_memory_is_written_outside_of_bodies() -> None:
    x = ints(1, 2)
    with pytest.raises(TraceError, match=HERE + "scatter inside a control-flow body"):
        for_loop(2, lambda i, s: s.scatter(ints(0), 1), x)
    with pytest.raises(TraceError, match=HERE + "assign inside a control-flow body"):
        cond(x > 1, lambda: x.assign(0), lambda: x)


def test_control_flow_recorded_before_is_not_run() -> None:
    from engine.frontend.tensor import set_eager

    evaluate = set_eager(None)
    recorded = for_loop(2, lambda i, s: s + 1, 0)
    set_eager(evaluate)
    with pytest.raises(TraceError, match=HERE + r"control flow \(loopvar\) was recorded before eager mode began; call the function"):
        recorded + 1


def test_a_local_array_is_one_in_either_mode() -> None:
    assert isinstance(local_array(2), LocalArray)


def test_prints_come_from_live_lanes(capsys: pytest.CaptureFixture[str]) -> None:
    x = ints(3, 0, 2)

    def body(i: Tensor, s: Tensor) -> Tensor:
        debug_print("round {} of {}: {}", i, x, s, where=s != 1)
        return s + 1

    for_loop(x, body, Tensor(0))
    debug_print("{}", x, where=x > 1)
    assert capsys.readouterr().err.splitlines() == ["round 0 of 3: 0", "round 2 of 3: 2", "round 0 of 2: 0", "3", "2"]
