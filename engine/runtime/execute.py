"""Lazy execution: what `Tensor.numpy()` and `realize()` do outside of jitted functions.

The graph below the tensors is scheduled, compiled and run at once, and the tensors become memory. Compiled kernels are kept by
the device, so that the same computation on the same shapes compiles once.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from engine.frontend.storage import Storage
from engine.frontend.tensor import Tensor, set_realizer
from engine.frontend.trace import leaked, user_line
from engine.graph.uop import BufferArg, Op, UOp, toposort
from engine.runtime.choice import default_device
from engine.runtime.plan import make_plan


def memory(storage: Storage, like: UOp, generation: int | None = None) -> UOp:
    """A leaf for the contents of this storage, of the type and shape of `like`."""
    return UOp.leaf(like.dtype, BufferArg(storage.slot, like.shape, "memory", storage, generation))


def check_leaves(nodes: Iterable[UOp]) -> None:
    """Raises TraceError where values of a trace that is over are used, StaleTensorError where contents have been replaced."""
    for node in nodes:
        if node.op == Op.BUFFER:
            if node.arg.storage is None:
                raise leaked(node)
            node.arg.storage.check_generation(node.arg.generation)


def sizes_of(nodes: Iterable[UOp]) -> dict[str, int]:
    """Values of the named sizes in a graph, from the memory that its leaves stand for. Raises ValueError where two differ."""
    dims: dict[str, int] = {}
    for node in nodes:
        if node.op == Op.BUFFER and node.arg.storage is not None:
            for size, number in zip(node.shape, node.arg.storage.shape, strict=True):
                if isinstance(size, UOp) and size.op == Op.DIM and dims.setdefault(size.arg, number) != number:
                    raise ValueError(
                        f"{user_line()}: the size {size.arg!r} is {dims[size.arg]} in one Tensor and {number} in another; give sizes "
                        "that differ different names"
                    )
    return dims


def realize(tensors: list[Tensor]) -> None:
    """Computes the tensors that are not memory yet. Raises TraceError, StaleTensorError and ValueError, with the user's line."""
    outputs: list[tuple[UOp, UOp]] = []
    wanted: list[Tensor] = []
    for t in tensors:
        node = t.uop
        if node.op == Op.BUFFER:
            check_leaves((node,))
        elif node.op == Op.CONST:
            t.uop, t.generation = memory(Storage.of_array(np.asarray(node.arg, t.dtype.numpy)), node), None
        else:
            leaf = node.src[0]
            if node.op != Op.ASSIGN:
                leaf = UOp.new(Op.BUFFER, t.dtype, (), BufferArg(len(outputs), t.shape, "output"), t.shape)
            outputs.append((leaf, node))
            wanted.append(t)
    if not wanted:
        return
    nodes = toposort([node for _, node in outputs])
    try:
        check_leaves(nodes)
        dims = sizes_of(nodes)
        plan = make_plan(outputs, default_device(), "lazy")
        plan.prepare({}, dims)
        plan.run()
        check_leaves(nodes)  # a call on another thread may have replaced what was being read
    except BaseException:
        for t in wanted:  # an assignment that failed leaves its tensor as it was
            t.uop = t.uop.src[0] if t.uop.op == Op.ASSIGN else t.uop
        raise
    for t, (leaf, node) in zip(wanted, outputs, strict=True):
        if node.op == Op.ASSIGN:
            storage: Storage = leaf.arg.storage
            storage.written(plan.device)
            storage.generation += 1
            t.generation = storage.generation if t.generation is not None else None
            t.uop = leaf if t.generation is None else memory(storage, leaf, t.generation)
        else:
            t.uop, t.generation = memory(plan.storages[leaf], node), None


set_realizer(realize)
