"""The verifiers accept what the engine makes, and catch each rule's violation, naming pass, rule and node."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Tensor, arange, cond, group, jit, local_array, open_device, serial, set_default_device, switch, while_loop
from engine.compiler.kernel import Block, BranchItem, Kernel, KernelBuffer, LoopItem, SerialItem, inner_blocks
from engine.compiler.print import graph_text, text
from engine.compiler.verify import verify_kernel
from engine.graph.dtypes import ArrayType, bool_, float32, int32, int64
from engine.graph.uop import EFFECTS, BufferArg, Op, RegionArg, UOp, dim
from engine.graph.verify import VerifyError, verify_graph


@pytest.fixture(autouse=True, scope="module")
def interpreter() -> Iterator[None]:
    before = set_default_device(open_device("reference"))
    yield
    set_default_device(before)


def program(x: Any, table: Any, k: Any) -> Any:
    """A bit of everything."""
    stack = local_array(4, "int32", 0)

    def body(i: Any, v: Any, a: Any) -> Any:
        near = cond(v > k, lambda: v * 0.5, lambda: v + table[i % 4])
        a = a.set(i % 4, i + a[(i + 1) % 4])
        return i + 1, near + group.any(near > 3).where(1.0, 2.0), a

    i, v, a = while_loop(lambda i, v, a: (i < 20) & (v < 50), body, (arange(8) * 0, x, stack))
    chosen = switch(i % 3, [lambda: v, lambda: v.sin(), lambda: v * a[2]])
    inner = serial(lambda c: (c.expand_dims(1) * table).max(axis=1), chosen)
    return inner.sum() + table.argmax(), chosen, a[1], table.scatter(i % 4, chosen, "add")


def kernels() -> list[Kernel]:
    x, table = Tensor(np.arange(8, dtype=np.float32)), Tensor(np.ones(4, np.float32))
    return jit(program, name="made").plan_of(x, table, 2.0).kernels


def big() -> Kernel:
    """The kernel with the control flow, fresh (mutants change it)."""
    return max(kernels(), key=lambda k: sum(1 for _ in k.blocks()))


def test_what_the_engine_makes_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECK", "1")
    for kernel in kernels():
        verify_kernel(kernel, "again")


def test_texts_of_equal_programs_are_equal() -> None:
    one, two = ([text(k) for k in kernels()] for _ in range(2))
    assert one == two
    assert "loop" in "".join(one) and "serial:" in "".join(one) and "switch" in "".join(one)


# ---- tensor graphs ----

MEMORY = BufferArg(1, (4, 3))
X = UOp.new(Op.BUFFER, float32, (), MEMORY, (4, 3))
I = UOp.new(Op.BUFFER, int32, (), BufferArg(2, (5,)), (5,))  # noqa: E741
P = UOp.new(Op.BUFFER, bool_, (), BufferArg(3, (4, 3)), (4, 3))
ONE, TRUE = UOp.const(float32, 1), UOp.const(bool_, True)
A = UOp.new(Op.ARRAY, ArrayType(int32, 4), (), (90, 0), ())
ZERO = UOp.const(int32, 0)


def loop(*sources: UOp, arg: RegionArg | None = None) -> UOp:
    return UOp.new(Op.LOOP, None, sources, arg or RegionArg((71, 72), 0, 1, ()), ())


V = UOp.new(Op.LOOPVAR, float32, (), (71, 0), ())
SET = UOp.new(Op.ARRAY_SET, A.dtype, (A, ZERO, ZERO), (0, 91), ())

BROKEN: dict[str, tuple[Callable[[], UOp], str]] = {
    "arity": (lambda: UOp.new(Op.ADD, float32, (X,)), "add has 2 sources, not 1"),
    "stack of nothing": (lambda: UOp.new(Op.STACK, float32, (), 0, (0,)), "stack has at least 1"),
    "types": (lambda: UOp.new(Op.ADD, float32, (X, ZERO)), "the sources have the type of the whole"),
    "comparison": (lambda: UOp.new(Op.LT, float32, (X, X)), "a comparison of equal types gives bool"),
    "where": (lambda: UOp.new(Op.WHERE, float32, (X, X, X)), r"where\(bool, T, T\) gives T"),
    "bits of floats": (lambda: UOp.new(Op.XOR, float32, (X, X)), "bitwise operations take no float32"),
    "shift of floats": (lambda: UOp.new(Op.SHL, float32, (X, X)), "shifts take integers"),
    "sine of integers": (lambda: UOp.new(Op.SIN, int32, (I,)), "sin takes floats"),
    "bitcast": (lambda: UOp.new(Op.BITCAST, int64, (X,)), "a bitcast keeps the size"),
    "constant": (lambda: UOp.new(Op.CONST, int32, (), 1 << 40), "is no value of int32"),
    "constant kind": (lambda: UOp.new(Op.CONST, int32, (), 1.5), "a constant of type int32 is no float"),
    "shapes": (lambda: UOp.new(Op.ADD, int32, (I, UOp.new(Op.ARANGE, int32, (), (4,), (4,)))), "elementwise sources have the shape"),
    "buffer": (lambda: UOp.new(Op.BUFFER, float32, (), MEMORY, (3,)), "memory has the shape"),
    "reshape": (lambda: UOp.new(Op.RESHAPE, float32, (X,), None, (5,)), "a reshape keeps the number of elements"),
    "permute": (lambda: UOp.new(Op.PERMUTE, float32, (X,), (1, 0), (4, 3)), "a permutation"),
    "expand": (lambda: UOp.new(Op.EXPAND, float32, (X,), None, (4, 6)), "does not expand"),
    "pad": (lambda: UOp.new(Op.PAD, float32, (X,), ((1, 0), (0, 0)), (4, 3)), "4 with 1 before and 0 after is not 4"),
    "shrink": (lambda: UOp.new(Op.SHRINK, float32, (X,), (2, 0), (4, 3)), "leaves an axis of 4"),
    "flip": (lambda: UOp.new(Op.FLIP, float32, (X,), (2,), (4, 3)), "a flip of axes"),
    "stride": (lambda: UOp.new(Op.STRIDE, float32, (X,), (2, 1), (3, 3)), "every 2th of 4"),
    "stack": (lambda: UOp.new(Op.STACK, float32, (X, X), 0, (3, 4, 3)), "a stack of 2"),
    "reduce": (lambda: UOp.new(Op.REDUCE, float32, (X,), (Op.ADD, (1,)), (4,)), "a reduction of axes"),
    "reducer": (lambda: UOp.new(Op.REDUCE, float32, (X,), (Op.SUB, (1,)), (4, 1)), "a reduction by sub"),
    "gather": (lambda: UOp.new(Op.GATHER, float32, (X, I), ((0,), 0), (4, 3)), "a look-up in"),
    "index": (lambda: UOp.new(Op.GATHER, float32, (X, X), ((0,), 0), (4, 3, 3)), "indices are integers"),
    "axes": (lambda: UOp.new(Op.GATHER, float32, (X, I), ((0, 1), 0), (5,)), "2 axes are looked up by 1"),
    "scatter": (lambda: UOp.new(Op.SCATTER, float32, (X, X, I), ((0,), "set"), (4, 3)), "what is written has the shape"),
    "assign": (lambda: UOp.new(Op.ASSIGN, float32, (X, ONE)), "is assigned to float32"),
    "assign to a value": (lambda: UOp.new(Op.ASSIGN, float32, (UOp.new(Op.NEG, float32, (X,)), X)), "only memory is assigned"),
    "contiguous": (lambda: UOp.new(Op.CONTIGUOUS, int32, (X,)), "a stored value is the value"),
    "result": (lambda: UOp.new(Op.PROJ, float32, (loop(ONE, TRUE, V),), 1, ()), "result 1 of"),
    "result type": (lambda: UOp.new(Op.PROJ, int32, (loop(ONE, TRUE, V),), 0, ()), "result 0 has the type float32"),
    "loop sources": (lambda: loop(ONE, TRUE), "loop with 1 results has 3 sources, not 2"),
    "loop condition": (lambda: loop(ONE, ONE, V), "loop is decided by bool"),
    "loop state": (lambda: loop(ONE, TRUE, ZERO), "results of one place have one type"),
    "regions": (lambda: loop(ONE, TRUE, V, arg=RegionArg((71,), 0, 1, ())), "loop has 2 regions, not 1"),
    "region numbers": (lambda: loop(ONE, TRUE, V, arg=RegionArg((71, 70), 0, 1, ())), "is numbered after the region around it"),
    "scope": (lambda: loop(V, TRUE, V), "which is not inside of it"),
    "no control flow": (lambda: UOp.new(Op.NEG, float32, (V,)), "a value of a region leaves it through the results"),
    "array index": (lambda: UOp.new(Op.ARRAY_GET, int32, (A, ONE), (0, 92), ()), "a private array is indexed by int32"),
    "array element": (lambda: UOp.new(Op.ARRAY_GET, float32, (A, ZERO), (0, 92), ()), "is not float32"),
    "array value": (lambda: UOp.new(Op.ARRAY_SET, A.dtype, (A, ZERO, ONE), (0, 92), ()), "what is stored in"),
    "vote": (lambda: UOp.new(Op.VOTE, bool_, (ONE,), ("any", 0, 92)), "group.any takes bool"),
    "vote kind": (lambda: UOp.new(Op.VOTE, bool_, (TRUE,), ("most", 0, 92)), "'most' is no vote"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_rule_of_tensor_graphs(name: str) -> None:
    make, told = BROKEN[name]
    with pytest.raises(VerifyError, match=f"after the pass 'testing': .*{told}") as caught:
        verify_graph([make()], "testing")
    assert caught.value.stage == "testing"


def test_an_array_version_has_one_successor() -> None:
    other = UOp.new(Op.ARRAY_SET, A.dtype, (A, ZERO, UOp.const(int32, 1)), (0, 93), ())
    gets = [UOp.new(Op.ARRAY_GET, int32, (a, ZERO), (0, 94 + k), ()) for k, a in enumerate((SET, other))]
    verify_graph(gets[:1], "testing")
    with pytest.raises(VerifyError, match="a version of a private array has one successor"):
        verify_graph(gets, "testing")


def test_good_graphs_of_dynamic_shape_are_accepted() -> None:
    height = dim("height")
    x = UOp.new(Op.BUFFER, float32, (), BufferArg(5, (height, 3)), (height, 3))
    padded = UOp.new(Op.PAD, float32, (x,), ((1, 1), (0, 0)), (UOp.new(Op.ADD, int32, (height, UOp.const(int32, 2))), 3))
    verify_graph([padded, loop(ONE, TRUE, V)], "testing")
    assert "pad" in graph_text([padded]) and "[height + 2, 3]" in graph_text([padded])


# ---- kernels ----


def positions(kernel: Kernel, wanted: Callable[[Any], bool]) -> list[tuple[Block, int]]:
    return [(block, k) for block in kernel.blocks() for k, item in enumerate(block.items) if wanted(item)]


def is_value(item: Any) -> bool:
    return isinstance(item, UOp) and item.op != Op.STORE


def used(kernel: Kernel) -> set[UOp]:
    """Every value that something refers to."""
    found: set[UOp] = set()
    for block in kernel.blocks():
        for item in block.items:
            if isinstance(item, UOp):
                found.update(item.src)
            elif isinstance(item, LoopItem):
                found.update([item.condition, *(n for v in item.vars for n in (v.init, v.next))])
            elif isinstance(item, BranchItem):
                found.update([item.selector, *(n for _, values in item.results for n in values)])
            else:
                found.update(n for _, n in item.results)
    return found


def drop_a_value(kernel: Kernel, pick: Callable[[list[Any]], Any]) -> None:
    needed = used(kernel)
    block, k = pick(positions(kernel, lambda item: is_value(item) and item in needed))
    del block.items[k]


def define_twice(kernel: Kernel, pick: Callable[[list[Any]], Any]) -> None:
    block, k = pick(positions(kernel, lambda item: is_value(item) and item.op not in EFFECTS))
    block.items.insert(k, block.items[k])


def define_too_late(kernel: Kernel, pick: Callable[[list[Any]], Any]) -> None:
    """Moves a value behind what follows it and uses it."""
    pairs = [
        (block, k, j)
        for block, k in positions(kernel, is_value)
        for j in range(k + 1, len(block.items))
        if isinstance(block.items[j], UOp) and block.items[k] in block.items[j].src
    ]
    block, k, j = pick(pairs)
    block.items.insert(j, block.items.pop(k))


def define_in_a_branch(kernel: Kernel, pick: Callable[[list[Any]], Any]) -> None:
    """Moves a value that is used around a structure into it."""
    pairs = [
        (block, k, inner)
        for block, k in positions(kernel, is_value)
        for j in range(k + 1, len(block.items))
        for inner in inner_blocks(block.items[j])
        if any(isinstance(later, UOp) and block.items[k] in later.src for later in block.items[j + 1 :])
    ]
    block, k, inner = pick(pairs)
    inner.items.append(block.items.pop(k))


def swap_effects(kernel: Kernel, pick: Callable[[list[Any]], Any]) -> None:
    pairs = []
    for block in kernel.blocks():
        at = [k for k, item in enumerate(block.items) if isinstance(item, UOp) and item.op in EFFECTS]
        pairs += [(block, a, b) for a, b in itertools.pairwise(at)]
    block, a, b = pick(pairs)
    block.items[a], block.items[b] = block.items[b], block.items[a]


def forget_a_buffer(kernel: Kernel, pick: Callable[[list[Any]], Any]) -> None:
    kernel.buffers.remove(pick(kernel.buffers))


def lie_about_a_buffer(kernel: Kernel, pick: Callable[[list[Any]], Any]) -> None:
    buffer = pick(kernel.buffers)
    if pick([True, False]):
        buffer.read = not buffer.read
    else:
        buffer.written = not buffer.written


def disown_a_block(kernel: Kernel, pick: Callable[[list[Any]], Any]) -> None:
    block = pick([b for b in kernel.blocks() if b.parent is not None and b is not kernel.body])
    change = pick(["parent", "owner", "depth"])
    if change == "depth":
        block.depth += 2
    else:
        setattr(block, change, None)


def mix_state(kernel: Kernel, pick: Callable[[list[Any]], Any]) -> None:
    loops = [item for block in kernel.blocks() for item in block.items if isinstance(item, LoopItem)]
    var = pick([v for item in loops for v in item.vars])
    var.init = UOp.const(int64, 0)


def mix_results(kernel: Kernel, pick: Callable[[list[Any]], Any]) -> None:
    branches = [item for block in kernel.blocks() for item in block.items if isinstance(item, (BranchItem, SerialItem))]
    item = pick([b for b in branches if b.results])
    k = pick(list(range(len(item.results))))
    result, values = item.results[k]
    wrong = UOp.const(int64, 0)
    item.results[k] = (result, (wrong, *values[1:]) if isinstance(item, BranchItem) else wrong)


MUTATIONS = (
    drop_a_value, define_twice, define_too_late, define_in_a_branch, swap_effects, forget_a_buffer, lie_about_a_buffer,
    disown_a_block, mix_state, mix_results,
)  # fmt: skip


@pytest.mark.parametrize("mutate", MUTATIONS)
@settings(max_examples=12, deadline=None)
@given(st.data())
def test_mutants_of_a_kernel_are_caught(mutate: Any, data: st.DataObject) -> None:
    kernel = big()
    verify_kernel(kernel, "before")
    mutate(kernel, lambda choices: choices[data.draw(st.integers(0, len(choices) - 1))])
    with pytest.raises(VerifyError, match="after the pass 'mutation': "):
        verify_kernel(kernel, "mutation")


def small(*items: UOp, lanes: tuple[Any, ...] = (8,), walk: str = "linear", buffers: tuple[UOp, ...] = ()) -> Kernel:
    prelude = Block(None, 0)
    listed = [KernelBuffer(b, b.dtype, b.shape, False, True) for b in buffers]
    return Kernel("small", listed, lanes, walk, prelude, Block(prelude, 1, items=list(items)))


LANE = UOp.new(Op.LANE, int32, (), (0, 8))
OUT = UOp.new(Op.BUFFER, float32, (), BufferArg(0, (8,)), (8,))


def store(index: UOp, value: UOp, *gate: UOp, mode: str = "set") -> UOp:
    return UOp.new(Op.STORE, None, (OUT, index, value, *gate), mode)


SINGLE: dict[str, tuple[Callable[[], Kernel], str]] = {
    "lane axis": (lambda: small(UOp.new(Op.LANE, int32, (), (1, 8))), "LANE is the int32 coordinate"),
    "lane size": (lambda: small(UOp.new(Op.LANE, int32, (), (0, 9))), "LANE is the int32 coordinate"),
    "walk": (lambda: small(LANE, walk="tiles"), "1 lane axes are not walked 'tiles'"),
    "iota": (lambda: small(UOp.new(Op.IOTA, int32.vec(4), (), 1)), "IOTA is an int32 vector, inside serial or in the prelude"),
    "item": (lambda: small(UOp.new(Op.RESHAPE, float32, (ONE,), None, ())), "reshape is no item of a block"),
    "types": (lambda: small(LANE, UOp.new(Op.ADD, float32, (LANE, LANE))), "the sources have the type of the whole"),
    "width": (lambda: small(LANE, UOp.new(Op.ADD, int32.vec(4), (LANE, LANE))), "a short vector is as wide as its widest source"),
    "store type": (lambda: small(LANE, store(LANE, ZERO), buffers=(OUT,)), "a store to float32 memory of int32"),
    "store index": (lambda: small(store(ONE, ONE), buffers=(OUT,)), "memory is indexed by int32, not float32"),
    "store mode": (lambda: small(store(ZERO, ONE, mode="mul"), buffers=(OUT,)), "'mul' is no mode of a store"),
    "gate": (lambda: small(store(ZERO, ONE, ONE), buffers=(OUT,)), "at most one gate, a bool"),
    "load type": (lambda: small(UOp.new(Op.LOAD, int32, (OUT, ZERO), 1), buffers=(OUT,)), "a load from float32 memory is not int32"),
    "unknown buffer": (lambda: small(store(ZERO, ONE)), "memory is in the kernel's list"),
    "split": (lambda: small(LANE, UOp.new(Op.SPLIT, int32, (LANE,), 0)), "split 0 of int32"),
    "order": (lambda: small(store(LANE, ONE), LANE, buffers=(OUT,)), "a value is defined before its uses"),
}


@pytest.mark.parametrize("name", SINGLE)
def test_each_rule_of_single_items(name: str) -> None:
    make, told = SINGLE[name]
    with pytest.raises(VerifyError, match=told):
        verify_kernel(make(), "testing")


def test_array_versions_are_linear() -> None:
    first = UOp.new(Op.ARRAY_SET, A.dtype, (A, ZERO, ZERO), (1, 2), ())
    late = UOp.new(Op.ARRAY_GET, int32, (A, ZERO), (1, 3), ())
    with pytest.raises(VerifyError, match="is not used after its successor was made"):
        verify_kernel(small(A, first, late), "testing")
    verify_kernel(small(A, first, UOp.new(Op.ARRAY_GET, int32, (first, ZERO), (1, 3), ())), "testing")


def test_the_prelude_knows_no_lane_and_stores_nothing() -> None:
    kernel = small()
    kernel.prelude.items.append(LANE)
    with pytest.raises(VerifyError, match="the prelude knows no lane"):
        verify_kernel(kernel, "testing")
    kernel = small(buffers=(OUT,))
    kernel.prelude.items.append(store(ZERO, ONE))
    with pytest.raises(VerifyError, match="stores stand in the body"):
        verify_kernel(kernel, "testing")
