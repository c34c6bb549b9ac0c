"""Checks that a traced function depends on nothing but its arguments (`CHECK=1`).

Tracing bakes in whatever else the function looked at. Two checks find what was baked in wrongly: the function is traced twice and
both graphs are compared, which finds random numbers, clocks and counters; and the plain values that it sees from outside (globals
and captured variables, in it and in the functions of its package that it calls) are remembered and compared at each call.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from engine.frontend import trace
from engine.frontend.tensor import Tensor
from engine.graph.uop import BufferArg, Op, RegionArg, UOp, toposort

_ENGINE = os.path.dirname(os.path.dirname(os.path.abspath(trace.__file__))) + os.sep
_PLAIN = (bool, int, float, str, bytes, type(None), np.generic)
_UNKNOWN = object()
_MOST = 1 << 20  # bytes of an array that are looked at

# Where `arg` holds numbers that differ from trace to trace: of regions, arrays, effects.
_NUMBERED = {
    Op.LOOPVAR: (0,), Op.ARRAY: (0, 1), Op.GATHER: (1,), Op.ARRAY_SET: (0, 1), Op.ARRAY_GET: (0, 1), Op.APPEND: (0, 1),
    Op.VOTE: (1, 2), Op.PRINT: (1, 2),
}  # fmt: skip


# ---- what a function sees from outside ----


def seen(function: Callable[..., Any]) -> dict[str, Any]:
    """Plain values, Tensors and arrays outside of the function that it reads, by name."""
    values: dict[str, Any] = {}
    done: set[CodeType] = set()
    stack: list[Any] = [function]
    package = function.__module__.split(".")[0]
    while stack:
        inner = getattr(stack[-1], "function", stack[-1])  # a jitted function stands for the one that it was made of
        stack.pop()
        if not isinstance(inner, FunctionType) or inner.__code__ in done or inner.__code__.co_filename.startswith(_ENGINE):
            continue
        if (inner.__module__ or "").split(".")[0] != package:
            continue
        done.add(inner.__code__)
        for name, value in _outside(inner):
            if isinstance(value, (*_PLAIN, tuple, Tensor, np.ndarray)):
                values.setdefault(name, _mark(value))
            else:
                stack.append(value)
    return values


def _outside(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Names and values of the globals (attributes of modules, too) and captured variables in a function's code."""
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes.extend(c for c in code.co_consts if isinstance(c, CodeType))
        for name in code.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, ModuleType):
                for attribute in code.co_names:
                    if attribute in value.__dict__ and isinstance(value.__dict__[attribute], (*_PLAIN, FunctionType)):
                        yield f"global {name}.{attribute}", value.__dict__[attribute]
            elif name in function.__globals__:
                yield f"global {name}", value
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"captured {name}", cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def _mark(value: Any) -> Any:
    """What tells whether a value is still the same: itself, or for Tensors and arrays what they hold or stand for."""
    if isinstance(value, Tensor):
        return value.uop.arg.storage if value.uop.op == Op.BUFFER else _UNKNOWN
    if isinstance(value, np.ndarray):
        return value.tobytes() if value.nbytes <= _MOST else _UNKNOWN
    if isinstance(value, tuple):
        return tuple(_mark(v) for v in value if isinstance(v, (*_PLAIN, tuple)))
    return value


def changed(before: dict[str, Any], now: dict[str, Any]) -> tuple[str, str, str] | None:
    """The first outside value that is another than before: its name, and both values in words."""
    for name, old in before.items():
        new = now.get(name, old)
        if old is _UNKNOWN or new is _UNKNOWN or old is new:
            continue
        if type(old) is not type(new) or (old != new and old == old):
            return name, _readable(old), _readable(new)
    return None


def _readable(mark: Any) -> str:
    text = repr(mark) if isinstance(mark, (*_PLAIN, tuple)) and not isinstance(mark, bytes) else "other data"
    return text if len(text) <= 80 else text[:77] + "..."


# ---- comparing two traces ----


def fingerprint(roots: Sequence[UOp]) -> list[tuple[Any, ...]]:
    """A graph as rows, equal for two traces of a pure function: everything but the numbers that a trace gives away."""
    numbers: dict[Any, int] = {0: 0}
    places: dict[UOp, int] = {}
    rows: list[tuple[Any, ...]] = []

    def renamed(number: Any) -> int:
        return numbers.setdefault(number, len(numbers))

    def portable(value: Any) -> Any:
        if isinstance(value, UOp):
            return tuple(fingerprint((value,)))
        if isinstance(value, tuple):
            return tuple(map(portable, value))
        if isinstance(value, RegionArg):
            return (*map(renamed, value.regions), renamed(value.parent), value.count, portable(value.lanes))
        if isinstance(value, BufferArg):
            held = renamed((value.kind, value.slot)) if value.storage is None else 0
            data = value.storage.host if value.storage is not None else None
            contents = data.tobytes() if data is not None and data.nbytes <= _MOST else None
            return (value.kind, held, contents, portable(value.shape))
        return repr(value) if isinstance(value, float) else value

    for node in toposort(roots):
        arg = node.arg
        if node.op in _NUMBERED:
            arg = tuple(renamed(a) if k in _NUMBERED[node.op] else a for k, a in enumerate(arg))
        places[node] = len(rows)
        rows.append((node.op, repr(node.dtype), tuple(places[s] for s in node.src), portable(arg), portable(node.shape)))
    rows.append(tuple(places[r] for r in roots))
    return rows


def first_difference(one: Sequence[UOp], two: Sequence[UOp]) -> str | None:
    """In words, where two traces of one function part; None where they are the same."""
    left, right = fingerprint(one), fingerprint(two)
    if left == right:
        return None
    nodes = toposort(one)
    for node, a, b in zip(nodes, left, right, strict=False):
        if a != b:
            line = next((trace.line_of(n) for n in nodes[nodes.index(node) :] if trace.line_of(n)), None)
            what = f"{node.op} {a[3]!r} became {b[0]} {b[3]!r}" if node.arg is not None else f"{node.op} became {b[0]}"
            return what + (f" near {line}" if line else "")
    return f"{len(left)} operations became {len(right)}"
