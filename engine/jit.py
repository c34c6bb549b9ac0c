"""jit: trace once, compile once per signature, replay into reused buffers.

The *signature* of a call is the structure of its arguments, the shape and dtype of every Tensor (sizes that have names stand for
themselves, whatever their value), the device, and the value of whatever is static. Python numbers and small arrays are
parameters: they reach the kernels as data. A signature that is new is traced (nothing runs), scheduled, compiled and given its
memory; one that is known is replayed: parameters are written, and one call runs the plan. The plan of a new signature is kept on
disk, where the next process finds it and traces nothing (`engine.stored`). The output buffers are the same at each
call, so a result of an earlier call is stale, and reading it raises `StaleTensorError`.

Inside the trace of another jitted function, inside a body of control flow, and in eager mode, a jitted function is only a
function: it becomes part of what is around it.

Threads may share a jitted function. Calls of one signature exclude each other; while a new signature is compiled, those that are
known go on running.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from engine import stored
from engine.frontend import tree
from engine.frontend.tensor import Tensor, TensorSpec, is_eager
from engine.frontend.trace import (
    ImpureFunctionError,
    TraceError,
    current,
    leaked,
    next_number,
    note_argument,
    tracing,
    user_line,
)  # fmt: skip
from engine.graph.uop import BufferArg, Op, UOp, toposort
from engine.outside import Witness
from engine.replay import Replay, Result
from engine.runtime import events
from engine.runtime.choice import default_device
from engine.runtime.device import Device, Resources
from engine.runtime.execute import check_leaves
from engine.runtime.plan import Plan, Progress, make_plan
from engine.signature import NUMBERS, Call, builder, describe, difference, is_leaf, matcher

_RECENT = 4  # signatures that are tried before a call is taken apart in full


@dataclass
class Compile:
    """Why and when something was compiled. `at`: seconds of `time.time`."""

    why: str
    seconds: float
    kernels: int
    at: float


@dataclass
class Stats:
    """Counts of one jitted function. `compiles`: one entry for each signature, with the reason.

    `trace_seconds` includes scheduling and lowering. `cache_hits` and `cache_misses` count kernels; those of a plan that comes from the
    disk, which is neither traced nor scheduled, are hits.
    """

    hits: int = 0
    misses: int = 0
    compiles: list[Compile] = field(default_factory=list)
    trace_seconds: float = 0.0
    compile_seconds: float = 0.0
    kernels: int = 0
    cache_hits: int = 0
    cache_misses: int = 0


@dataclass(frozen=True)
class KernelInfo:
    """A kernel of a compiled function. `lanes`: numbers, or names of sizes. `reasons`: why it is a kernel of its own. `resources`: what
    the compiler says that it takes."""

    name: str
    lanes: tuple[Any, ...]
    workgroup: int
    reasons: tuple[str, ...]
    resources: Resources
    source: Callable[[], str]


@dataclass(frozen=True)
class _Traced:
    """What one trace recorded. `files`: of the code that it ran through."""

    nodes: list[UOp]  # the placeholder of each argument leaf
    outputs: list[tuple[UOp, UOp]]  # buffer to be written, node; a node that only prints has a buffer of kind "effect", which is no memory
    assigned: list[UOp]  # placeholders that are overwritten
    results: list[Result]
    spec: tree.Spec
    captured: list[UOp]  # memory from outside of the function
    files: set[str]


class Jitted:
    """A function that runs as compiled kernels. Made by `jit`."""

    def __init__(
        self, function: Callable[..., Any], static: Sequence[str], name: str | None, device: Device | None, workgroup: int | None
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = name or function.__name__
        self.workgroup = workgroup
        self.stats = Stats()
        self._device = device
        self._signature = inspect.signature(function)
        self._parameters = list(self._signature.parameters)
        self._static = frozenset((static,) if isinstance(static, str) else static)
        unknown = self._static - set(self._parameters)
        if unknown:
            raise TypeError(f"jit(static={sorted(unknown)}): {self.name}() has the arguments {self._parameters}")
        kinds = {p.kind for p in self._signature.parameters.values()}
        self._positional = kinds <= {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
        self._replays: dict[Any, Replay] = {}
        self._facts: list[dict[str, str]] = []  # of the signatures, in words
        self._recent: tuple[Replay, ...] = ()
        self._outside: dict[Replay, dict[str, Any]] = {}  # with CHECK=1: what the function saw when it was traced
        self._compiling = threading.RLock()

    @property
    def device(self) -> Device:
        """Where it runs: the device it was made for, else the default device."""
        return self._device if self._device is not None else default_device()

    # ---- calls ----

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Runs the function; compiles first if the signature is new."""
        trace = current()
        if trace.jit or trace.region or is_eager():
            return self._inline(args, keywords)
        return self._run(self._arguments(args, keywords))

    def timed_call(self, *args: Any, **keywords: Any) -> tuple[Any, list[float]]:
        """Runs the function: its result, and the seconds that each kernel took, in the order of `kernels()`."""
        result = self(*args, **keywords)
        return result, self.kernel_seconds

    def time_kernels(self, *args: Any, **keywords: Any) -> list[float]:
        """Runs the function, and returns the seconds that each kernel took, in the order of `kernels()`."""
        return self.timed_call(*args, **keywords)[1]

    @property
    def kernel_seconds(self) -> list[float]:
        """Seconds that each kernel of the latest call took, in the order of `kernels()`; empty before the first call."""
        return self._recent[0].plan.kernel_seconds if self._recent else []

    def warmup(self, *args: Any, progress: Progress | None = None, **keywords: Any) -> None:
        """Traces, compiles and allocates for these arguments (or `Tensor.spec`s of them) without running anything.

        progress(label, fraction) is told how far it is.
        """
        arguments = self._arguments(args, keywords)
        call = describe(self._parameters, self._static, arguments)
        self._replay_of(call, arguments, progress).prepare(call.of_kind("tensor"))
        if progress is not None:
            progress("ready", 1.0)

    def plan_of(self, *args: Any, **keywords: Any) -> Plan:
        """The plan for these arguments (or specs of them), compiled where it is not yet, with the graphs of its kernels."""
        arguments = self._arguments(args, keywords)
        call = describe(self._parameters, self._static, arguments)
        return self._with_graphs(self._replay_of(call, arguments, None).plan, call, arguments)

    def kernels(self, *args: Any, **keywords: Any) -> list[KernelInfo]:
        """The kernels for these arguments (or specs of them), in the order in which they run; compiled where they are not yet.

        The `source` of one that came from the disk traces the function again.
        """
        arguments = self._arguments(args, keywords)
        call = describe(self._parameters, self._static, arguments)
        plan = self._replay_of(call, arguments, None).plan

        def source(number: int) -> str:
            return plan.device.source(self._with_graphs(plan, call, arguments).kernels[number])

        return [
            KernelInfo(each.name, each.lanes, each.workgroup, each.reasons, each.program.resources, functools.partial(source, number))
            for number, each in enumerate(plan.launches)
        ]

    def _with_graphs(self, plan: Plan, call: Call, arguments: Sequence[Any]) -> Plan:
        """This plan, or the same traced again where it came from the disk."""
        if plan.items or not plan.launches:
            return plan
        return make_plan(self._trace(call, arguments).outputs, plan.device, self.name, self.workgroup)

    @property
    def bytes_allocated(self) -> int:
        """Bytes of the buffers of all signatures: results, values between kernels, parameters."""
        return sum(replay.bytes_allocated for replay in self._replays.values())

    def _run(self, arguments: Sequence[Any]) -> Any:
        device = self.device
        for replay in self._recent:
            found = replay.match(arguments)
            if found is not None and replay.plan.device is device and replay.accepts(found[0]):
                tensors, numbers, arrays = found
                self.stats.hits += 1
                break
        else:
            call = describe(self._parameters, self._static, arguments)
            spec = next((leaf.path for leaf in call.leaves if leaf.type is TensorSpec), None)
            if spec is not None:
                raise TypeError(f"{user_line()}: {spec} is a spec, which has no values; specs are for warmup()")
            before = self.stats.misses
            replay = self._replay_of(call, arguments, None)
            self.stats.hits += self.stats.misses == before
            tensors, numbers, arrays = (call.of_kind(kind) for kind in ("tensor", "number", "array"))
        if replay is not (self._recent or (None,))[0]:
            self._recent = (replay, *(r for r in self._recent if r is not replay))[:_RECENT]
        if self._outside and replay in self._outside:
            self._check_outside(self._outside[replay])
        return replay.run(tensors, numbers, arrays)

    def _arguments(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Sequence[Any]:
        """The value of each parameter. Raises TypeError as Python does."""
        if not keywords and self._positional and len(args) == len(self._parameters):
            return args
        bound = self._signature.bind(*args, **keywords)
        bound.apply_defaults()
        return [bound.arguments[name] for name in self._parameters]

    def _call_function(self, arguments: Sequence[Any]) -> Any:
        bound = inspect.BoundArguments(self._signature, dict(zip(self._parameters, arguments, strict=True)))
        return self.function(*bound.args, **bound.kwargs)

    def _inline(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """The function as a part of what is being recorded around it. Numbers are Tensors in it, as they are when it is traced."""
        given = []
        for name, value in zip(self._parameters, self._arguments(args, keywords), strict=True):
            if name not in self._static:
                leaves, spec, _ = tree.flatten(value, is_leaf)
                value = tree.unflatten(spec, [leaf if isinstance(leaf, Tensor) else Tensor(leaf) for leaf in leaves])
            given.append(value)
        leaves, spec, _ = tree.flatten(self._call_function(given), _is_result)
        return tree.unflatten(spec, [leaf if isinstance(leaf, Tensor) else Tensor(leaf) for leaf in leaves])

    # ---- compiling ----

    def _replay_of(self, call: Call, arguments: Sequence[Any], progress: Progress | None) -> Replay:
        """What runs this signature, compiled if it is new."""
        key = (self.device, call.key)
        replay = self._replays.get(key)
        if replay is None:
            with self._compiling:
                replay = self._replays.get(key)
                if replay is None:
                    self.stats.misses += 1
                    replay = self._compile(call, arguments, progress)
                    self._replays[key] = replay
                    self._facts.append(call.facts)
        return replay

    def _compile(self, call: Call, arguments: Sequence[Any], progress: Progress | None) -> Replay:
        started = time.perf_counter()
        device, stats = self.device, self.stats
        why = self._why(call, device)
        key = stored.key_of(self.name, self.function, call, device, self.workgroup)
        known = stored.load(key, call, device) if key is not None else None
        outside = None
        if known is not None:
            why += ", from the disk cache"
            plan, spec, captured = known.plan, known.spec, []
            nodes, results, assigned = known.nodes, known.results, known.assigned
        else:
            if progress is not None:
                progress(f"tracing {self.name}", 0.0)
            outside = _purity().seen(self.function) if events.checking() else None
            tracing_began = time.perf_counter()
            traced = self._trace(call, arguments)
            if events.checking():
                self._check_trace(traced, self._trace(call, arguments))
            recorded = time.perf_counter() - tracing_began
            events.record("trace", function=self.name, seconds=recorded)
            plan = make_plan(traced.outputs, device, self.name, self.workgroup, progress)
            stats.trace_seconds += recorded + plan.seconds["schedule"]
            spec, captured = traced.spec, traced.captured
            nodes, results, assigned = traced.nodes, traced.results, traced.assigned
            if key is not None and not captured:
                stored.store(key, plan, nodes, results, spec, assigned, traced.files)
        replay = Replay(
            self.name, plan, matcher(call, arguments), call.leaves, nodes, plan.outputs, results, builder(spec), assigned, captured
        )
        if outside is not None:
            self._outside[replay] = outside
        cached = sum(launch.program.cached for launch in plan.launches)
        stats.compile_seconds += plan.seconds["compile"]
        stats.kernels += len(plan.launches)
        stats.cache_hits += cached
        stats.cache_misses += len(plan.launches) - cached
        stats.compiles.append(Compile(why, time.perf_counter() - started, len(plan.launches), time.time()))
        events.show(1, f"{self.name}: {len(plan.launches)} kernels in {stats.compiles[-1].seconds * 1e3:.1f} ms; {why}")
        return replay

    def _trace(self, call: Call, arguments: Sequence[Any]) -> _Traced:
        """Calls the function with placeholders, and sorts what it returned and assigned."""
        nodes = []
        for leaf in call.leaves:
            kind = "argument" if leaf.kind == "tensor" else "parameter"
            node = UOp.new(Op.BUFFER, leaf.dtype, (), BufferArg(next_number(), leaf.shape, kind), leaf.shape)
            note_argument(node, f"the argument {leaf.path} of {self.name}() ({self._place()})")
            nodes.append(node)
        trace = Witness(sys._getframe().f_code)
        trace.jit = True
        with tracing(trace), trace.watching():
            given = list(_placeholders(call.specs, arguments, nodes))
            leaves, spec, _ = tree.flatten(self._call_function(given), _is_result)
            returned = [leaf if isinstance(leaf, Tensor) else Tensor(leaf) for leaf in leaves]
        outputs = [(target, tensor.uop) for target, tensor in trace.assigned.items()]
        places = {node: target for target, node in outputs}
        captured: dict[UOp, None] = {}
        roots = [*(n for _, n in outputs), *(t.uop for t in returned), *trace.prints.get(0, ())]
        self._check_graph(roots, set(nodes), captured)
        tensors = [node for node in nodes if node.arg.kind == "argument"]
        results: list[Result] = []
        written: dict[UOp, int] = {}
        for tensor in returned:
            node = tensor.uop
            if node in places or node in tensors:
                results.append(Result(argument=tensors.index(places.get(node, node))))
            elif node.op == Op.BUFFER and node.arg.storage is not None:
                results.append(Result(captured=tensor))
            else:
                if node not in written:
                    written[node] = len(written)
                    buffer = BufferArg(written[node], node.shape, "output")
                    outputs.append((UOp.new(Op.BUFFER, node.dtype, (), buffer, node.shape), node))
                results.append(Result(output=written[node]))
        for effect in trace.prints.get(0, ()):
            outputs.append((UOp.new(Op.BUFFER, None, (), BufferArg(len(outputs), (), "effect"), ()), effect))
        return _Traced(nodes, outputs, list(trace.assigned), results, spec, list(captured), trace.code_files())

    def _check_graph(self, roots: Sequence[UOp], own: set[UOp], captured: dict[UOp, None]) -> None:
        """Collects the memory that the function captured. Raises TraceError for values that do not belong to this trace."""
        for root in roots:
            if root.scope:
                raise TraceError(
                    f"{self._place()}: {self.name}() returns a value made inside a control-flow body; return it from the body"
                )
        for node in toposort(roots):
            if node.op != Op.BUFFER or node in own:
                continue
            if node.arg.storage is None:
                raise TraceError(f"{self._place()}: while {self.name}() is traced, it uses a value of another trace. {leaked(node)}")
            if node.arg.generation is not None:
                check_leaves((node,))
                raise ImpureFunctionError(
                    f"{self._place()}: {self.name}() captures a result of {node.arg.storage.producer}, whose buffer is used again; "
                    "pass it as an argument, or capture a copy() of it"
                )
            captured[node] = None

    # ---- reasons and checks ----

    def _why(self, call: Call, device: Device) -> str:
        """What is new about this signature, compared with the nearest known one."""
        line = user_line()
        if not self._facts:
            return f"first call ({line})"
        changes = min((difference(call.facts, known) for known in self._facts), key=len)
        if not changes:
            names = sorted({d.name for d, _ in self._replays})
            same = any(d is device for d, _ in self._replays)
            other = f"device: {', '.join(names)} -> {device.name}"
            changes = ["a static value that looks the same is another object" if same else other]
        return f"{'; '.join(changes)} ({line})"

    def _place(self) -> str:
        code = self.function.__code__
        path = code.co_filename
        return f"{os.path.relpath(path) if path.startswith(os.getcwd() + os.sep) else path}:{code.co_firstlineno}"

    def _check_trace(self, first: _Traced, second: _Traced) -> None:
        what = _purity().first_difference([n for _, n in first.outputs], [n for _, n in second.outputs])
        if what is not None:
            raise ImpureFunctionError(
                f"{self._place()}: {self.name}() records another graph when it is traced a second time: {what}. It depends on "
                "something that changes by itself (random numbers, time, a counter); pass such values as arguments"
            )

    def _check_outside(self, before: dict[str, Any]) -> None:
        changed = _purity().changed(before, _purity().seen(self.function))
        if changed is not None:
            name, old, new = changed
            raise ImpureFunctionError(
                f"{user_line()}: {self.name}() ({self._place()}) reads the {name}, which was {old} when the function was traced and is "
                f"{new} now; the compiled kernels still use the old value. Pass it as an argument"
            )


def _purity() -> ModuleType:
    """The checks of `CHECK=1`, imported only where they are asked for."""
    from engine import purity

    return purity


def _is_result(value: Any) -> bool:
    return isinstance(value, (Tensor, *NUMBERS))


def _placeholders(specs: Sequence[tree.Spec | None], arguments: Sequence[Any], nodes: Sequence[UOp]) -> Iterator[Any]:
    """The arguments that a function is traced with."""
    first = 0
    for spec, value in zip(specs, arguments, strict=True):
        if spec is None:
            yield value
            continue
        count = len(tree.flatten(value, is_leaf)[0])
        yield tree.unflatten(spec, [Tensor.of(node) for node in nodes[first : first + count]])
        first += count


def jit(
    function: Callable[..., Any] | None = None,
    *,
    static: Sequence[str] = (),
    name: str | None = None,
    device: Device | None = None,
    workgroup: int | None = None,
) -> Any:
    """Makes a function of Tensors run as compiled kernels (a decorator, with or without arguments).

    static: names of arguments whose values are part of the specialisation (they must be hashable). device: where it runs (None:
    the default device). workgroup: lanes of a workgroup for every kernel (None: by density). The result has `warmup`, `stats`,
    `kernels`, `timed_call` and `time_kernels`.
    """
    if function is None:
        return lambda f: Jitted(f, static, name, device, workgroup)
    return Jitted(function, static, name, device, workgroup)
