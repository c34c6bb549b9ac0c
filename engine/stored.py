"""Plans on disk: what a second process needs to run a jitted function without tracing it.

An entry of the disk cache holds the launches of one signature: for each kernel what the device needs to launch it (its machine code
is an entry of its own), which buffer stands in each slot, the shapes of outputs and temporaries as numbers and small expressions of
named sizes, and where the results come from. It holds no graphs, and reading it imports nothing of the compiler.

Its *key* is the signature in portable form (types by name, static values as plain data), the code and the values that the function
depends on (`engine.outside`, which states the limits), the device and what it compiles for, the workgroup, and the version of Python.
Within the entry stand the *files* that the trace ran through and all of the engine's, each with its size, its time and its hash. A file
whose time has changed is read; if its contents have changed, the entry is stale: the function is traced again, and stored again.

What is not stored: functions that capture memory (its contents are nobody's key), that print, or that are static in what no other
process can compare; small functions, which are traced about as quickly as an entry is read; and anything under `NOOPT=1`, `CHECK=1`
or `DEBUG=3` and above, which are there to look at what tracing and compiling do.
"""

from __future__ import annotations

import enum
import importlib
import marshal
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from engine.frontend import tree
from engine.frontend.trace import next_number
from engine.graph.dtypes import ALL, DType
from engine.graph.uop import BufferArg, UOp
from engine.outside import NotPortable, Outside, find_type, outside, portable, type_name
from engine.replay import Result
from engine.runtime import events
from engine.runtime.cache import digest
from engine.runtime.device import Device
from engine.runtime.packing import pack_shape, unpack_shape
from engine.runtime.plan import Launch, Plan
from engine.signature import Call

SMALL = 128  # operations in all kernels of a function up to which it is not stored
_FORMAT = 1
_ENGINE = os.path.dirname(os.path.abspath(__file__))

File = tuple[str, int, int, bytes]  # path, size, time of change in ns, hash


@dataclass(frozen=True)
class Key:
    """What an entry is found by, and the files that the key was made from."""

    text: str
    files: frozenset[str]


@dataclass(frozen=True)
class Stored:
    """What an entry gives: as if the function had been traced and compiled."""

    plan: Plan
    nodes: list[UOp]  # the placeholder of each argument leaf
    results: list[Result]
    spec: tree.Spec
    assigned: list[UOp]


# ---- keys ----


def key_of(name: str, function: Callable[..., Any], call: Call, device: Device, workgroup: int | None) -> Key | None:
    """The key of a signature; None where it is not to be stored, or nothing is."""
    if device.cache is None or device.cache.folder is None:
        return None
    if events.checking() or events.unoptimised() or events.debug_level() >= 3:
        return None
    try:
        found: Outside = outside(function, _types_in(call.key))
        parts = (
            _FORMAT, sys.implementation.cache_tag, name, function.__module__, function.__qualname__, workgroup, device.identity(),
            _plain(call.key), [(leaf.path, leaf.kind, leaf.dtype.name, pack_shape(leaf.shape)) for leaf in call.leaves], found.values,
        )  # fmt: skip
        return Key(digest("plan", repr(parts)), frozenset(found.files))  # plain data, so its text is as good as it is
    except (NotPortable, TypeError, RecursionError):
        return None


def _plain(part: Any) -> Any:
    """A part of a signature's key as plain data. Raises NotPortable."""
    if isinstance(part, tuple):
        return ("tuple", *(_plain(p) for p in part))
    if isinstance(part, DType):
        return ("dtype", part.name)
    if isinstance(part, UOp):
        return ("size", *pack_shape((part,)))
    return portable(part)


def _types_in(part: Any) -> Iterator[type]:
    """The types that a signature names."""
    if isinstance(part, type):
        yield part
    elif isinstance(part, tuple):
        for each in part:
            yield from _types_in(each)


# ---- files ----


def fingerprint(path: str) -> File:
    """What a file is now. Raises OSError where it cannot be read."""
    status = os.stat(path)
    with open(path, "rb") as file:
        return (path, status.st_size, status.st_mtime_ns, blake2b(file.read(), digest_size=20).digest())


def _engine_files() -> list[str]:
    found = []
    for folder, _, names in os.walk(_ENGINE):
        found += [os.path.join(folder, name) for name in names if name.endswith(".py")]
    return sorted(found)


def _checked(files: Iterable[File]) -> tuple[File, ...] | None:
    """The files as they are now, None where the contents of one are others. Those of the same size and time are not read."""
    now = []
    for known in files:
        path, size, changed, content = known
        try:
            status = os.stat(path)
            if (status.st_size, status.st_mtime_ns) != (size, changed):
                known = fingerprint(path)
                if known[3] != content:
                    return None
        except OSError:
            return None
        now.append(known)
    return tuple(now)


# ---- entries ----


def store(
    key: Key, plan: Plan, nodes: Sequence[UOp], results: Sequence[Result], spec: tree.Spec, assigned: Sequence[UOp], files: Iterable[str]
) -> None:
    """Stores a plan that was just made, if it is one to be stored. `files`: where the code stands that was seen while it was traced."""
    cache = plan.device.cache
    operations = sum(len(block.items) for kernel in plan.kernels for block in kernel.blocks())
    if cache is None or operations <= SMALL or any(r.captured is not None for r in results):
        return
    places: dict[UOp, tuple[str, int]] = {}
    for kind, leaves in (("argument", nodes), ("output", plan.outputs), ("temporary", plan.temporaries)):
        places.update((leaf, (kind, k)) for k, leaf in enumerate(leaves))
    try:
        launches = []
        for launch in plan.launches:
            packed = plan.device.pack(launch.program)
            if packed is None or any(leaf not in places for leaf in launch.leaves):
                return
            slots = tuple(places[leaf] for leaf in launch.leaves)
            launches.append((launch.name, pack_shape(launch.lanes), launch.reasons, slots, packed))
        own, between = (tuple((b.dtype.name, pack_shape(b.shape)) for b in buffers) for buffers in (plan.outputs, plan.temporaries))
        chosen = tuple((r.output, r.argument) for r in results)
        overwritten = tuple(places[node][1] for node in assigned)
        body = (own, between, tuple(launches), chosen, _pack_spec(spec), overwritten)
        paths = sorted({os.path.abspath(p) for p in (*key.files, *files, *_files_of_types(spec))}) + _engine_files()
        cache.put(key.text, marshal.dumps((tuple(map(fingerprint, paths)), body)))
    except (NotPortable, OSError):  # a type that cannot be found again; code without a file
        return


def load(key: Key, call: Call, device: Device) -> Stored | None:
    """The plan of a signature, None where there is none, or it is not what tracing would give now."""
    assert device.cache is not None
    data = device.cache.get(key.text)
    if data is None:
        return None
    try:
        files, body = marshal.loads(data)
        now = _checked(files)
        found = _unpack(body, call, device) if now is not None else None
    except (ValueError, TypeError, LookupError, EOFError, ImportError, AttributeError):  # not as we wrote it; a type that has moved
        return None
    if found is not None and now != files:
        device.cache.put(key.text, marshal.dumps((now, body)))
    return found


def _unpack(body: tuple[Any, ...], call: Call, device: Device) -> Stored | None:
    own, between, packed, chosen, spec, overwritten = body
    nodes = []
    for leaf in call.leaves:
        kind = "argument" if leaf.kind == "tensor" else "parameter"
        nodes.append(UOp.leaf(leaf.dtype, BufferArg(next_number(), leaf.shape, kind)))
    outputs, temporaries = (
        [UOp.leaf(ALL[dtype], BufferArg(k, unpack_shape(shape), kind)) for k, (dtype, shape) in enumerate(buffers)]
        for kind, buffers in (("output", own), ("temporary", between))
    )
    leaves = {"argument": nodes, "output": outputs, "temporary": temporaries}
    launches = []
    for name, lanes, reasons, slots, program in packed:
        ready = device.unpack(program)
        if ready is None:
            return None
        launches.append(Launch(name, unpack_shape(lanes), reasons, tuple(leaves[kind][k] for kind, k in slots), ready))
    seconds = {"schedule": 0.0, "compile": sum(launch.program.seconds for launch in launches)}
    plan = Plan(device, launches, temporaries, outputs, seconds)
    results = [Result(output=output, argument=argument) for output, argument in chosen]
    return Stored(plan, nodes, results, _unpack_spec(spec), [nodes[k] for k in overwritten])


# ---- trees of results ----


def _pack_spec(spec: tree.Spec) -> tuple[Any, ...]:
    """A tree's description as plain data. Raises NotPortable."""
    kind = spec[0]
    if kind == "leaf":
        return ("leaf",)
    if kind == "static":
        return ("static", _pack_value(spec[1]))
    label = type_name(spec[1]) if kind in ("named", "data") else tuple(map(_pack_value, spec[1])) if kind == "dict" else None
    return (kind, label, tuple(map(_pack_spec, spec[2])))


def _unpack_spec(packed: tuple[Any, ...]) -> tree.Spec:
    kind = packed[0]
    if kind == "leaf":
        return ("leaf",)
    if kind == "static":
        return ("static", _unpack_value(packed[1]))
    label = _type_at(packed[1]) if kind in ("named", "data") else tuple(map(_unpack_value, packed[1])) if kind == "dict" else None
    return (kind, label, tuple(map(_unpack_spec, packed[2])))


def _pack_value(value: Any) -> Any:
    """A value that is itself when it is read back: a string, None, a number, an enum, a type. Raises NotPortable."""
    if value is None or type(value) in (str, bytes, bool, int, float):
        return ("plain", value)
    if isinstance(value, type):
        return ("type", type_name(value))
    if isinstance(value, enum.Enum):
        return ("enum", type_name(type(value)), value.name)
    raise NotPortable(f"a {type(value).__name__} in the result")


def _unpack_value(packed: tuple[Any, ...]) -> Any:
    if packed[0] == "plain":
        return packed[1]
    kind = _type_at(packed[1])
    return kind if packed[0] == "type" else kind[packed[2]]


def _type_at(place: tuple[str, str]) -> Any:
    """The type of this name. Raises ImportError and AttributeError."""
    module, name = place
    importlib.import_module(module)
    found = find_type(module, name)
    if not isinstance(found, type):
        raise AttributeError(f"{module} has no type {name}")
    return found


def _files_of_types(spec: tree.Spec) -> Iterable[str]:
    """The files of the types that a result is made of."""
    if spec[0] in ("named", "data"):
        file = getattr(sys.modules.get(spec[1].__module__), "__file__", None)
        if file is not None:
            yield file
    for part in spec[2] if spec[0] not in ("leaf", "static") else ():
        yield from _files_of_types(part)
