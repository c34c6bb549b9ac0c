"""What a call of a jitted function is specialised for, and how to tell quickly that nothing of that has changed.

`describe` takes the arguments of a call apart: into leaves (Tensors, numbers, small arrays, each with its path), a hashable key
made of everything else (structure, shapes, dtypes, static values), and the same in words, by path, for `stats`. Two calls with
equal keys share one compilation.

Taking a tree of dataclasses apart anew for every frame would cost more than running it. So for each signature that was compiled,
`matcher` writes a Python function that knows the structure: it reads the leaves out of the arguments by name, checks the types
on the way, and answers None where anything else came along.
"""

from __future__ import annotations

import dataclasses
import enum
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.compiler.print import shape_text
from engine.frontend import tree
from engine.frontend.tensor import Dim, Tensor, TensorSpec
from engine.frontend.trace import user_line
from engine.graph.dtypes import DType, as_dtype, bool_
from engine.graph.uop import Shape, dim

SMALL = 1024  # elements up to which a NumPy array is a parameter
NUMBERS = (bool, int, float, np.bool_, np.number)
Leaves = tuple[tuple[Tensor, ...], tuple[Any, ...], tuple[Any, ...]]  # Tensors, numbers, arrays
Matcher = Callable[[Sequence[Any]], Leaves | None]


@dataclass(frozen=True)
class Leaf:
    """One leaf of the arguments: a "tensor", a "number" or an "array"."""

    path: str
    kind: str
    dtype: DType
    shape: Shape
    type: type


@dataclass(frozen=True)
class Call:
    """The arguments of one call, taken apart."""

    key: tuple[Any, ...]
    leaves: list[Leaf]
    values: list[Any]
    specs: list[tree.Spec | None]  # of each parameter; None where it is static
    facts: dict[str, str]  # everything in the key, by path, as people read it

    def of_kind(self, kind: str) -> tuple[Any, ...]:
        """The values of the leaves of one kind."""
        return tuple(v for v, leaf in zip(self.values, self.leaves, strict=True) if leaf.kind == kind)


def is_leaf(value: Any) -> bool:
    """True for what reaches kernels as data. Enums are static, those of integers too."""
    return isinstance(value, (Tensor, TensorSpec, np.ndarray, *NUMBERS)) and not isinstance(value, enum.Enum)


def describe(parameters: Sequence[str], static: frozenset[str], arguments: Sequence[Any]) -> Call:
    """Takes the arguments of a call apart. Raises TypeError, naming the argument, for what cannot be one."""
    key: list[Any] = []
    leaves: list[Leaf] = []
    values: list[Any] = []
    specs: list[tree.Spec | None] = []
    facts: dict[str, str] = {}
    for name, value in zip(parameters, arguments, strict=True):
        if name in static:
            key.append(freeze(value, name))
            specs.append(None)
            _static_facts(value, name, facts)
            continue
        found, spec, paths = tree.flatten(value, is_leaf)
        key.append(_freeze_spec(spec, name))
        specs.append(spec)
        _structure_facts(spec, name, facts)
        for each, path in zip(found, paths, strict=True):
            leaf = _leaf(each, name + path)
            leaves.append(leaf)
            values.append(each)
            key.append((leaf.kind, leaf.dtype, leaf.shape))
            facts[leaf.path] = f"{leaf.dtype}{shape_text(leaf.shape)}" if leaf.kind != "number" else str(leaf.dtype)
    return Call(tuple(key), leaves, values, specs, facts)


def _leaf(value: Any, path: str) -> Leaf:
    if isinstance(value, Tensor):
        return Leaf(path, "tensor", value.dtype, value.shape, Tensor)
    if isinstance(value, TensorSpec):
        return Leaf(path, "tensor", value.dtype, tuple(dim(s.name) if isinstance(s, Dim) else s for s in value.shape), TensorSpec)
    if isinstance(value, np.ndarray):
        if value.size > SMALL:
            raise TypeError(
                f"{user_line()}: the argument {path} is a NumPy array of {value.size} elements; arrays up to {SMALL} are parameters. "
                "Make it a Tensor once, and pass that"
            )
        return Leaf(path, "array", as_dtype(value.dtype), value.shape, np.ndarray)
    if isinstance(value, np.generic):
        return Leaf(path, "number", as_dtype(value.dtype), (), type(value))
    return Leaf(path, "number", bool_ if isinstance(value, bool) else as_dtype(int if isinstance(value, int) else float), (), type(value))


def freeze(value: Any, path: str) -> Any:
    """A hashable stand-in for a static value: equal only where type and value are (1, 1.0 and True are three; NaN is itself).

    Raises TypeError, naming the argument, for Tensors, arrays and whatever can change.
    """
    kind = type(value)
    if value is None or kind in (str, bytes) or isinstance(value, (type, enum.Enum)):
        return value
    if isinstance(value, (bool, int)):
        return (kind, int(value))
    if kind is float:
        return (kind, struct.pack("<d", value))
    if isinstance(value, np.generic):
        return (kind, value.tobytes())
    if isinstance(value, tuple):
        return (kind, *(freeze(v, f"{path}[{i}]") for i, v in enumerate(value)))
    if dataclasses.is_dataclass(value) and getattr(kind, "__hash__", None) not in (None, object.__hash__):
        return (kind, *(freeze(getattr(value, f.name), f"{path}.{f.name}") for f in dataclasses.fields(value)))
    if isinstance(value, (Tensor, TensorSpec, np.ndarray)):
        raise TypeError(
            f"{user_line()}: {path} is static and holds a {kind.__name__}; data cannot be part of a specialisation: pass it in an argument "
            "that is not static"
        )
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"{user_line()}: {path} is static and holds a {kind.__name__}, which can change and has no hash; use a tuple or a frozen "
            "dataclass"
        ) from None
    return value


def _freeze_spec(spec: tree.Spec, path: str) -> Any:
    """`freeze` of what a tree has around its leaves."""
    kind = spec[0]
    if kind == "leaf":
        return kind
    if kind == "static":
        return freeze(spec[1], path)
    label = freeze(spec[1], path) if kind == "dict" else spec[1]
    return (kind, label, *(_freeze_spec(part, path + step) for part, step in zip(spec[2], _steps(spec), strict=True)))


def _is_frozen(frozen: Any, value: Any) -> bool:
    """True where `freeze` of the value gives this."""
    try:
        return bool(freeze(value, "") == frozen)
    except TypeError:
        return False


# ---- in words ----


def _static_facts(value: Any, path: str, facts: dict[str, str]) -> None:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        facts[path] = type(value).__name__
        for field in dataclasses.fields(value):
            _static_facts(getattr(value, field.name), f"{path}.{field.name}", facts)
    else:
        text = repr(value)
        facts[path] = text if len(text) <= 80 else text[:77] + "..."


def _structure_facts(spec: tree.Spec, path: str, facts: dict[str, str]) -> None:
    kind = spec[0]
    if kind == "static":
        _static_facts(spec[1], path, facts)
    elif kind != "leaf":
        label = spec[1].__name__ if kind in ("named", "data") else kind
        facts[path] = f"{label} of {len(spec[2])}"
        for child, step in zip(spec[2], _steps(spec), strict=True):
            _structure_facts(child, path + step, facts)


def _steps(spec: tree.Spec) -> list[str]:
    """What is written behind a container to get each of its parts."""
    kind = spec[0]
    if kind == "named":
        return [f".{name}" for name in spec[1]._fields]
    if kind == "data":
        return [f".{field.name}" for field in dataclasses.fields(spec[1])]
    if kind == "dict":
        return [f"[{key!r}]" for key in spec[1]]
    return [f"[{i}]" for i in range(len(spec[2]))]


def difference(new: dict[str, str], old: dict[str, str]) -> list[str]:
    """What differs between two signatures: path, old and new value."""
    paths = [*old, *(path for path in new if path not in old)]
    return [
        f"{path}: {old.get(path, 'nothing')} -> {new.get(path, 'nothing')}" for path in paths if old.get(path) != new.get(path)
    ]


# ---- the written functions ----


class _Writer:
    """Lines of a Python function, and the objects that they refer to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.objects: dict[str, Any] = {}

    def refer(self, value: Any) -> str:
        name = f"c{len(self.objects)}"
        self.objects[name] = value
        return name

    def function(self, name: str) -> Any:
        exec("\n".join(self.lines), self.objects)
        return self.objects[name]


def matcher(call: Call, arguments: Sequence[Any]) -> Matcher:
    """A function that takes arguments of this structure, with these static values, apart; None for any others.

    It checks all of the signature but shapes and dtypes of Tensors, and it is strict: numbers of another type than those of
    `call` do not pass, though they may have the same key.
    """
    writer = _Writer()
    found: dict[str, list[str]] = {"tensor": [], "number": [], "array": []}
    leaves = iter(call.leaves)
    names = [f"a{k}" for k in range(len(arguments))]
    writer.lines.append("def match(arguments):")
    if names:
        writer.lines.append(f"    {', '.join(names)}, = arguments")

    def require(condition: str) -> None:
        writer.lines.append(f"    if not ({condition}): return None")

    def constant(value: Any, place: str) -> None:
        known, frozen = writer.refer(value), writer.refer(freeze(value, place))
        require(f"{place} is {known} or {writer.refer(_is_frozen)}({frozen}, {place})")

    def walk(spec: tree.Spec, place: str) -> None:
        kind = spec[0]
        if kind == "static":
            constant(spec[1], place)
            return
        if kind == "leaf":
            leaf = next(leaves)
            require(f"type({place}) is {writer.refer(Tensor if leaf.kind == 'tensor' else leaf.type)}")
            if leaf.kind == "array":
                require(f"{place}.shape == {leaf.shape!r} and {place}.dtype == {writer.refer(leaf.dtype.numpy)}")
            found[leaf.kind].append(place)
            return
        container = {"tuple": tuple, "list": list, "dict": dict}.get(kind) or spec[1]
        require(f"type({place}) is {writer.refer(container)}")
        if kind in ("tuple", "list"):
            require(f"len({place}) == {len(spec[2])}")
        elif kind == "dict":
            require(f"tuple({place}) == {writer.refer(spec[1])}")
        steps = [f"[{writer.refer(key)}]" for key in spec[1]] if kind == "dict" else _steps(spec)
        for part, step in zip(spec[2], steps, strict=True):
            local = f"v{len(writer.lines)}"
            writer.lines.append(f"    {local} = {place}{step}")
            walk(part, local)

    for name, spec, value in zip(names, call.specs, arguments, strict=True):
        if spec is None:
            constant(value, name)
        else:
            walk(spec, name)
    groups = (f"({''.join(place + ', ' for place in found[kind])})" for kind in ("tensor", "number", "array"))
    writer.lines.append(f"    return {', '.join(groups)}")
    made: Matcher = writer.function("match")
    return made


def builder(spec: tree.Spec) -> Callable[[Sequence[Any]], Any]:
    """A function that puts a tree of this description together from its leaves."""
    writer = _Writer()
    count = 0

    def walk(part: tree.Spec) -> str:
        nonlocal count
        kind = part[0]
        if kind == "leaf":
            count += 1
            return f"leaves[{count - 1}]"
        if kind == "static":
            return writer.refer(part[1])
        parts = [walk(p) for p in part[2]]
        if kind == "named":
            return f"{writer.refer(part[1])}({', '.join(parts)})"
        if kind == "list":
            return f"[{', '.join(parts)}]"
        if kind == "dict":
            return f"{{{', '.join(f'{writer.refer(k)}: {p}' for k, p in zip(part[1], parts, strict=True))}}}"
        items = f"({''.join(p + ', ' for p in parts)})"
        return items if kind == "tuple" else f"{writer.refer(tree.rebuild)}({writer.refer(part[1])}, {items})"

    expression = walk(spec)
    writer.lines = ["def build(leaves):", f"    return {expression}"]
    made: Callable[[Sequence[Any]], Any] = writer.function("build")
    return made
