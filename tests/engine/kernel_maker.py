"""Kernels built by hand, for tests of what runs them.

`Maker` writes the items of a kernel in the order they run, as lowering would place them: `op` appends to the current
block, `loop`, `branch` and `serial` open inner blocks. `results` and `lanewise` run the kernel on the interpreter.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from engine.compiler.kernel import Block, BranchItem, Kernel, KernelBuffer, LoopItem, LoopVar, SerialItem, is_inline
from engine.graph.dtypes import ArrayType, DType, bool_, int32
from engine.graph.uop import BufferArg, Op, UOp
from engine.runtime.devices.reference import run

WIDTHS = (1, 4, 16)


class Maker:
    """Builds a kernel in the order it runs, as lowering would place it."""

    def __init__(self, lanes: Sequence[Any], walk: str = "linear", ordered: bool = False) -> None:
        self.prelude = Block(None, 0)
        self.body = Block(self.prelude, 1)
        self.kernel = Kernel("made", [], tuple(lanes), walk, self.prelude, self.body, ordered=ordered)
        self.block = self.body
        self.numbers = itertools.count(1)

    # -- items --

    def op(self, op: str, dtype: Any, *src: UOp | int | float | bool, arg: Any = None) -> UOp:
        """An item in the current block; numbers become constants of the type of the first node."""
        scalar = next((s.dtype.scalar for s in src if isinstance(s, UOp) and isinstance(s.dtype, DType)), dtype)
        nodes = tuple(s if isinstance(s, UOp) else UOp.const(scalar, s) for s in src)
        node = UOp.new(op, dtype, nodes, arg)
        if not is_inline(node) and not any(node in block.items for block in self.block.chain()):
            self.block.items.append(node)
        return node

    def buffer(self, dtype: DType, *shape: Any, kind: str = "memory") -> UOp:
        leaf = UOp.new(Op.BUFFER, dtype, (), BufferArg(len(self.kernel.buffers), shape, kind), shape)
        self.kernel.buffers.append(KernelBuffer(leaf, dtype, shape, True, True))
        return leaf

    def lane(self, axis: int = 0) -> UOp:
        return self.op(Op.LANE, int32, arg=(axis, self.kernel.lanes[axis]))

    def load(self, leaf: UOp, index: Any, gate: UOp | None = None) -> UOp:
        index = index if isinstance(index, UOp) else UOp.const(int32, index)
        dtype = leaf.dtype.vec(index.dtype.count)
        return self.op(Op.LOAD, dtype, leaf, index, *(() if gate is None else (gate,)), arg=0)

    def store(self, leaf: UOp, index: Any, value: UOp, gate: UOp | None = None, mode: str = "set") -> None:
        index = index if isinstance(index, UOp) else UOp.const(int32, index)
        self.op(Op.STORE, None, leaf, index, value, *(() if gate is None else (gate,)), arg=mode)

    def array(self, dtype: DType, length: int) -> UOp:
        return self.op(Op.ARRAY, ArrayType(dtype, length), arg=(next(self.numbers), 0))

    def put(self, array: UOp, index: UOp | int, value: UOp | int | float) -> UOp:
        index = index if isinstance(index, UOp) else UOp.const(int32, index)
        value = value if isinstance(value, UOp) else UOp.const(array.dtype.dtype, value)
        return self.op(Op.ARRAY_SET, array.dtype, array, index, value, arg=(0, next(self.numbers)))

    def take(self, array: UOp, index: UOp | int) -> UOp:
        index = index if isinstance(index, UOp) else UOp.const(int32, index)
        return self.op(Op.ARRAY_GET, array.dtype.dtype, array, index, arg=(0, next(self.numbers)))

    def vote(self, kind: str, value: UOp) -> UOp:
        dtype = {"any": bool_, "all": bool_, "count": int32}.get(kind, value.dtype)
        return self.op(Op.VOTE, dtype, value, arg=(kind, 0, next(self.numbers)))

    def iota(self, count: int) -> UOp:
        return self.op(Op.IOTA, int32.vec(count), arg=0)

    # -- structures --

    @contextlib.contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        before, self.block = self.block, block
        yield
        self.block = before

    def loop(
        self,
        init: list[UOp],
        test: Callable[..., UOp],
        body: Callable[..., list[UOp]],
        wanted: Sequence[int] | None = None,
    ) -> list[UOp]:
        """The results that are wanted (all, unless told)."""
        region, before = next(self.numbers), self.block
        variables = [UOp.new(Op.LOOPVAR, v.dtype, (), (region, k, ())) for k, v in enumerate(init)]
        test_block = Block(before, before.depth + 1)
        body_block = Block(test_block, before.depth + 1)
        with self.inside(test_block):
            condition = test(*variables)
        with self.inside(body_block):
            following = body(*variables)
        wanted = range(len(init)) if wanted is None else wanted
        results = [UOp.new(Op.RESULT, v.dtype, (), (region, k, 1)) if k in wanted else None for k, v in enumerate(init)]
        loop_vars = [LoopVar(*parts) for parts in zip(variables, init, following, results)]
        before.items.append(LoopItem(region, loop_vars, test_block, condition, body_block))
        return [result for result in results if result is not None]

    def branch(self, kind: str, selector: UOp, arms: Sequence[Callable[[], list[UOp]]]) -> list[UOp]:
        region, before = next(self.numbers), self.block
        blocks = [Block(before, before.depth) for _ in arms]
        values = []
        for block, arm in zip(blocks, arms):
            with self.inside(block):
                values.append(arm())
        results = [(UOp.new(Op.RESULT, v[0].dtype, (), (region, k, 1)), v) for k, v in enumerate(zip(*values))]
        before.items.append(BranchItem(region, kind, selector, blocks, results))
        return [result for result, _ in results]

    def serial(self, function: Callable[[], list[UOp]]) -> list[UOp]:
        region, before = next(self.numbers), self.block
        block = Block(before, before.depth + 1)
        with self.inside(block):
            values = function()
        results = [(UOp.new(Op.RESULT, v.dtype, (), (region, k, 1)), v) for k, v in enumerate(values)]
        before.items.append(SerialItem(region, block, results))
        return [result for result, _ in results]


def const(dtype: DType, value: float) -> UOp:
    return UOp.const(dtype, value)


def number(value: int) -> UOp:
    return UOp.const(int32, value)


def results(kernel: Kernel, inputs: Sequence[Any], out: Any, width: int = 1, **options: Any) -> Any:
    """What the kernel leaves in its last buffer."""
    memory = out.copy()
    run(kernel, [*inputs, memory], group_width=width, **options)
    return memory


def lanewise(count: int, build: Callable[[Maker, UOp], UOp], width: int = 1, **options: Any) -> list[Any]:
    """One value a lane: what `build` makes of the lane's number."""
    m = Maker((count,))
    lane = m.lane()
    value = build(m, lane)
    out = m.buffer(value.dtype, count)
    m.store(out, lane, value)
    got: list[Any] = results(m.kernel, [], np.zeros(count, value.dtype.numpy), width, **options).tolist()
    return got
