"""Pytrees: nested dataclasses, named tuples, tuples, lists and dicts with Tensors (and numbers) at their leaves.

`flatten` takes one apart into its leaves and a hashable description of the rest; `unflatten` puts it together again, with other
leaves. Strings, None, enums and whatever is no container and no leaf become part of the description: they are static.
A dataclass field with `metadata={"static": True}` is static as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

Spec = tuple[Any, ...]


def flatten(tree: Any, is_leaf: Callable[[Any], bool]) -> tuple[list[Any], Spec, list[str]]:
    """Leaves, description, and the path of each leaf (".camera.position[0]"). Equal descriptions compare equal."""
    leaves: list[Any] = []
    paths: list[str] = []

    def walk(node: Any, path: str) -> Spec:
        if is_leaf(node):
            leaves.append(node)
            paths.append(path)
            return ("leaf",)
        if isinstance(node, tuple) and hasattr(node, "_fields"):
            return ("named", type(node), tuple(walk(v, f"{path}.{k}") for k, v in zip(node._fields, node, strict=True)))
        if isinstance(node, (tuple, list)):
            return (type(node).__name__, None, tuple(walk(v, f"{path}[{i}]") for i, v in enumerate(node)))
        if isinstance(node, dict):
            return ("dict", tuple(node), tuple(walk(v, f"{path}[{k!r}]") for k, v in node.items()))
        if dataclasses.is_dataclass(node) and not isinstance(node, type):
            parts: list[Spec] = []
            for field in dataclasses.fields(node):
                value = getattr(node, field.name)
                parts.append(("static", value) if field.metadata.get("static") else walk(value, f"{path}.{field.name}"))
            return ("data", type(node), tuple(parts))
        return ("static", node)

    return leaves, walk(tree, ""), paths


def unflatten(spec: Spec, leaves: list[Any]) -> Any:
    """The tree of this description with these leaves."""
    feed = iter(leaves)

    def build(part: Spec) -> Any:
        kind = part[0]
        if kind == "leaf":
            return next(feed)
        if kind == "static":
            return part[1]
        if kind == "named":
            return part[1](*[build(p) for p in part[2]])
        if kind == "tuple":
            return tuple(build(p) for p in part[2])
        if kind == "list":
            return [build(p) for p in part[2]]
        if kind == "dict":
            return dict(zip(part[1], [build(p) for p in part[2]], strict=True))
        return rebuild(part[1], [build(p) for p in part[2]])

    return build(spec)


def rebuild(kind: type, values: Sequence[Any]) -> Any:
    """A dataclass instance with these fields, made without its `__init__` (which may check or convert them)."""
    made: Any = object.__new__(kind)
    for field, value in zip(dataclasses.fields(kind), values, strict=True):
        object.__setattr__(made, field.name, value)
    return made
