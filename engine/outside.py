"""What a jitted function depends on beside its arguments: the code that it can reach, and the values that this code sees.

A plan on disk may be used only by a process in which tracing would have recorded the same graph. Three things tell that,
each without tracing:

- the *code*: every function that is reached from the jitted one through globals, modules, captured variables, default
  arguments and the classes among them, outside of the engine, NumPy and the standard library;
- the *values* that this code sees: numbers, strings, enums, arrays, and tuples, lists, dicts and dataclasses of these;
- the *files* that both stand in, to which `Witness` adds those of every function that was on the stack while nodes
  were recorded.

The limits. A global of another kind (a logger, a cache, an object with a state of its own) is taken to be constant; a
captured variable or a default argument of another kind is not, and the function is not stored. What code asks the system
for while it is traced (the environment, the clock, a file) is not seen. `CHECK=1` traces every time, and compares.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from engine.frontend import tensor
from engine.frontend.trace import Trace, current
from engine.graph.uop import Op

_ENGINE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_FOREIGN = frozenset((*sys.stdlib_module_names, "engine", "numpy", "llvmlite"))  # "builtins" is in it
_MOST = 1 << 20  # bytes of an array that are looked at
_LONGEST = 4096  # elements of a collection


class NotPortable(Exception):
    """A value that another process cannot compare with its own."""


def portable(value: Any) -> Any:
    """A value as plain data, equal in all processes where it is the same and nowhere else. Raises NotPortable."""
    if value is None or type(value) in (bool, int, float, str, bytes):
        return value
    if isinstance(value, enum.Enum):
        return ("enum", *type_name(type(value)), value.name)
    if isinstance(value, type):
        return ("type", *type_name(value))
    if isinstance(value, np.generic):
        return ("number", value.dtype.str, value.tobytes())
    if isinstance(value, np.ndarray) and value.nbytes <= _MOST and value.dtype.kind in "biufc":
        return ("array", value.dtype.str, value.shape, blake2b(value.tobytes(), digest_size=20).digest())
    if isinstance(value, (tuple, list, dict, set, frozenset)) and len(value) > _LONGEST:
        raise NotPortable(f"{len(value)} values")
    if isinstance(value, (tuple, list)):
        return ("sequence", *type_name(type(value)), *(portable(v) for v in value))
    if isinstance(value, (set, frozenset)):
        return ("set", *sorted(repr(portable(v)) for v in value))
    if isinstance(value, dict):
        return ("dict", *((portable(k), portable(v)) for k, v in value.items()))
    if dataclasses.is_dataclass(value):
        return ("data", *type_name(type(value)), *(portable(getattr(value, f.name)) for f in dataclasses.fields(value)))
    raise NotPortable(f"a {type(value).__name__}")


def type_name(kind: type) -> tuple[str, str]:
    """Module and name by which another process finds this type. Raises NotPortable where it would find another, or none."""
    if find_type(kind.__module__, kind.__qualname__) is not kind:
        raise NotPortable(f"the local type {kind.__qualname__}")
    return (kind.__module__, kind.__qualname__)


def find_type(module: str, name: str) -> Any:
    """What stands under this name in a module that is imported, None where nothing does."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


@dataclasses.dataclass
class Outside:
    """What a function depends on. `values`: plain data, in the order in which it was reached; `files`: where the code stands."""

    values: list[Any]
    files: set[str]


def outside(function: Callable[..., Any], types: Iterable[type] = ()) -> Outside:
    """What is reached from a function, and from the types of its arguments.

    Raises NotPortable where the function captures what cannot be compared.
    """
    found = Outside([], set())
    done: set[int] = set()
    stack: list[Any] = [*types, function]
    while stack:
        each = stack.pop()
        inner = getattr(each, "__wrapped__", each) if not isinstance(each, type) else each  # of a jitted or a cached function
        if not isinstance(inner, (FunctionType, type)) or _is_foreign(inner.__module__):
            continue
        mark = id(inner if isinstance(inner, type) else inner.__code__)
        if mark in done:
            continue
        done.add(mark)
        if isinstance(inner, type):
            stack.extend(_members(inner, found.values))
        else:
            if not inner.__code__.co_filename.startswith("<"):  # of code without a file the key has everything
                found.files.add(inner.__code__.co_filename)
            stack.extend(_function(inner, found.values))
    return found


def _is_foreign(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _FOREIGN


def _function(function: FunctionType, values: list[Any]) -> Iterator[Any]:
    """Notes a function and the values it sees; yields the functions and classes among them."""
    values.append((function.__module__, function.__qualname__))
    for code in _codes(function.__code__):
        values.append((code.co_code, code.co_names, [repr(c) for c in code.co_consts if isinstance(c, (int, float, str, bytes, tuple))]))
        for name in code.co_names:
            if name not in function.__globals__:
                continue
            value = function.__globals__[name]
            if isinstance(value, ModuleType):
                attributes = [] if _is_foreign(value.__name__) else [a for a in code.co_names if a in value.__dict__]
                for attribute in attributes:
                    yield from _value(f"{name}.{attribute}", value.__dict__[attribute], values, False)
            else:
                yield from _value(name, value, values, False)
    for k, value in enumerate((*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())):
        yield from _value(f"default {k}", value, values, True)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield from _value(name, cell.cell_contents, values, True)
        except ValueError:  # not assigned yet
            continue


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _members(kind: type, values: list[Any]) -> Iterator[Any]:
    """Methods of a class, and what its attributes hold."""
    for name, member in vars(kind).items():
        inner = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if isinstance(inner, FunctionType):
            yield inner
        elif not name.startswith("__"):
            yield from _value(f"{kind.__qualname__}.{name}", inner, values, False)
    yield from (base for base in kind.__bases__)


def _value(name: str, value: Any, values: list[Any], captured: bool) -> Iterator[Any]:
    """Notes one value; yields the code that belongs to it. `captured`: it is an error where it cannot be compared."""
    if isinstance(value, functools.partial):
        yield value.func
        value = (value.args, value.keywords)
    elif isinstance(value, MethodType):
        yield value.__func__
        value = value.__self__
    if isinstance(value, tensor.Tensor):
        if value.uop.op not in (Op.CONST, Op.BUFFER):
            raise NotPortable("a Tensor that is not computed yet")
        values.append((name, value.dtype.name, value.uop.arg if value.uop.op == Op.CONST else None))  # memory: see `stored`
    elif isinstance(value, (FunctionType, type)) or hasattr(value, "__wrapped__"):
        yield value
        values.append((name, value.__module__, value.__qualname__))
    elif isinstance(value, (BuiltinFunctionType, np.ufunc, ModuleType)):
        values.append((name, value.__name__))
    else:
        yield type(value)
        if isinstance(value, (tuple, list, set, frozenset, dict)) and len(value) <= _LONGEST:
            yield from (value.values() if isinstance(value, dict) else value)
        try:
            values.append((name, portable(value)))
        except NotPortable:
            if captured:
                raise


# ---- while a function is traced ----


class Witness(Trace):
    """A trace that remembers the code that was on the stack, below the function `until`, when nodes were recorded."""

    def __init__(self, until: CodeType) -> None:
        super().__init__()
        self.codes: dict[int, CodeType] = {}  # by id, since to hash code is to hash all of it
        self.own: dict[int, CodeType] = {}  # the engine's
        self.until = until
        self.last: FrameType | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Looks at the stack for each node that is recorded inside."""
        global _watching
        with _lock:
            _watching += 1
            tensor.set_witness(_look)
        try:
            yield
        finally:
            self.last = None
            with _lock:
                _watching -= 1
                if not _watching:
                    tensor.set_witness(None)

    def code_files(self) -> set[str]:
        """The files of that code, without the engine's own, and without the code that dataclasses and named tuples write themselves."""
        written = [c for c in self.codes.values() if not (c.co_filename.startswith("<") and c.co_name.startswith("__"))]
        return {c.co_filename for c in written if not c.co_filename.startswith(_ENGINE)}


_watching = 0
_lock = threading.Lock()


def _look() -> None:
    """Notes the stack, unless it is the function that was seen last that records again. Called for each node, so without detours."""
    trace = current()
    if not isinstance(trace, Witness):
        return
    own, last, until = trace.own, trace.last, trace.until
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if id(code) not in own:
            if frame is last:
                return
            if not code.co_filename.startswith(_ENGINE):
                break
            own[id(code)] = code
        if code is until:  # the jit itself made this one
            return
        frame = frame.f_back
    trace.last = frame
    while frame is not None and frame.f_code is not until:
        trace.codes[id(frame.f_code)] = frame.f_code
        frame = frame.f_back
