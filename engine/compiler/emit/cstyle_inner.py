"""Inner axes of `serial` in C-like languages: their elements are variables, and all that is done across them is written out.

A reduction combines halves, then goes from the left, as the interpreter does, so that a sum of floats has one meaning. APPEND stores each
value at the top in its turn, and moves the top on where the value is kept: no branch, and what lies beyond the top in the end is junk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.compiler.emit.dialect import register
from engine.graph.dtypes import DType, int32
from engine.graph.uop import Op, UOp

if TYPE_CHECKING:
    from engine.compiler.emit.cstyle import Emitter

_REDUCTIONS = (Op.ADD, Op.MUL, Op.MAX, Op.MIN, Op.AND, Op.OR)


def across(e: Emitter, node: UOp) -> str:
    """A reduction over an inner axis: its text."""
    source, op = node.src[0], node.arg
    dtype: DType = source.dtype.scalar
    values = list(e.elements(source, source.dtype.count))
    if op in _REDUCTIONS:
        operation = UOp.new(op, dtype, (UOp.new(Op.LOOPVAR, dtype, (), (0, 0)), UOp.new(Op.LOOPVAR, dtype, (), (0, 1))))
        while len(values) % 2 == 0:
            half = len(values) // 2
            values = [_step(e, operation, a, b) for a, b in zip(values[:half], values[half:], strict=True)]
        total = values[0]
        for value in values[1:]:
            total = _step(e, operation, total, value)
        return total
    if op == "bits":
        bits = " | ".join(f"({v} ? {1 << k}u : 0u)" for k, v in enumerate(values[:32]))
        return e.dialect.converted(register(node.dtype), bits)
    if op == "count":
        return f"({' + '.join(f'({v} ? 1 : 0)' for v in values)})"
    order = list(enumerate(values))
    places = " : ".join(f"{v} ? {k}" for k, v in (order if op == "first" else reversed(order)))
    return f"({places} : {len(values) if op == 'first' else -1})"


def _step(e: Emitter, operation: UOp, a: str, b: str) -> str:
    return e.declare(register(operation.dtype), e.ops.elementwise(operation, [a, b]))


def append(e: Emitter, node: UOp) -> None:
    """Writes an APPEND, and names its new top."""
    array, top, keep, values, reverse = node.src
    name = e.storage[node] = e.storage[array]
    count = max(values.dtype.count, keep.dtype.count)
    at = e.declare("int", e.text(top), "top")
    kept, data = (list(e.elements(v, count)) for v in (keep, values))
    turned = e.settled(reverse)
    if turned == "true":
        kept, data = kept[::-1], data[::-1]
    elif turned != "false":
        turned = e.ops.named("bool", turned)
        kept, data = (
            [e.declare(register(v.dtype), f"({turned} ? {b} : {a})") for a, b in zip(texts, texts[::-1], strict=True)]
            for v, texts in ((keep, kept), (values, data))
        )
    for p, value in zip(kept, data, strict=True):
        e.line(f"{name}[{at}] = {value};")
        e.line(f"{at} += {p} ? 1 : 0;")
    e.names[UOp.new(Op.PROJ, int32, (node,), 1)] = (at,)
