"""LLVM IR for a CPU: a group of lanes is a SIMD vector.

Uniform values are scalars, varying ones vectors of `width` elements; inside a `serial` region values are scalars and inner axes
are vectors of their own width. Control flow that all lanes take together is branches. Control flow in which lanes part keeps a
mask: each arm runs under the part of the mask that takes it and is skipped when that part is empty; a loop runs while any lane
lives. Memory of masked lanes is never touched; their registers hold anything, so whatever reaches a vote or a merge is selected
by the mask first.

A kernel becomes `void name(ptr buffers, ptr dims, i64 first, i64 last)`: workgroups [first, last), `buffers` a table of
pointers in the order of `kernel.buffers`, `dims` the int32 values of `dim_names(kernel)`. The text is written directly: building
it from objects takes six times as long.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from engine.compiler.emit.llvm_address import addresses
from engine.compiler.emit.llvm_append import append
from engine.compiler.emit.llvm_check import Checks
from engine.compiler.emit.llvm_check import comments as lines_checked
from engine.compiler.emit.llvm_memory import Memory
from engine.compiler.emit.llvm_ops import Operations, literal, memory_type, scalar_type, suffix, vector
from engine.compiler.emit.llvm_print import comments, debug_print, prints_of
from engine.compiler.emit.llvm_walk import emit_walk
from engine.compiler.kernel import Block, BranchItem, Item, Kernel, LoopItem, SerialItem, visit
from engine.compiler.uniform import Uniformity, captured
from engine.graph.dtypes import ArrayType, DType, int32
from engine.graph.uop import ELEMENTWISE, Op, UOp

_REDUCE = {Op.ADD: "add", Op.MUL: "mul", Op.MAX: "max", Op.MIN: "min", Op.AND: "and", Op.OR: "or"}


def dim_names(kernel: Kernel, check: bool = False) -> list[str]:
    """The named sizes that a kernel reads (with `check`, those of its buffers too), in the order of its table of them."""
    names: dict[str, None] = {}
    sizes: list[Any] = list(kernel.lanes)
    if check:
        sizes += [size for buffer in kernel.buffers for size in buffer.shape]
    for block in kernel.blocks():
        for item in block.items:
            if isinstance(item, UOp):
                for s in item.src:
                    if s.op == Op.DIM:
                        names.setdefault(s.arg)
            elif isinstance(item, LoopItem):
                sizes += [v for var in item.vars for v in (var.init, var.next)] + [item.condition]
            elif isinstance(item, BranchItem):
                sizes += [item.selector, *(v for _, values in item.results for v in values)]
            else:
                sizes += [v for _, v in item.results]
    for size in sizes:
        if isinstance(size, UOp):
            for node in size.toposort():
                if node.op == Op.DIM:
                    names.setdefault(node.arg)
    return list(names)


class Emitter:
    """Writes one kernel. `names` maps values to registers; `lines` is the function's body so far."""

    def __init__(self, kernel: Kernel, width: int, contract: bool = True, check: bool = False) -> None:
        self.kernel, self.width = kernel, width
        self.uniform = Uniformity(kernel)
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.declarations: dict[str, None] = {}
        self.globals: dict[str, None] = {}
        self.names: dict[UOp, str] = {}
        self.splats: list[dict[str, str]] = [{}]
        self.scalarised: set[UOp] = set()
        self.mask: str | None = None
        self.serial_lane: str | None = None
        self.in_prelude = True
        self.label = "entry"
        self.count = 0
        self.buffers = {b.leaf: f"%buf{i}" for i, b in enumerate(kernel.buffers)}
        self.dims = {name: f"%dim{i}" for i, name in enumerate(dim_names(kernel, check))}
        self.arrays: dict[UOp, str] = {}
        self.array_masks: dict[UOp, str | None] = {}  # the mask under which each array was made
        self.prints = prints_of(kernel)
        self.tables: dict[str, str] = {}  # of constants: text -> name
        self.int32 = int32
        self.ops = Operations(self.emit, self.declare, contract, set() if check else addresses(kernel))
        self.memory = Memory(self)
        self.checks = Checks(self) if check else None

    # ---- text ----

    def fresh(self, stem: str = "v") -> str:
        self.count += 1
        return f"%{stem}{self.count}"

    def emit(self, text: str) -> str:
        """An instruction with a result."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def line(self, text: str) -> None:
        """An instruction without one."""
        self.lines.append(f"  {text}")

    def declare(self, text: str) -> None:
        self.declarations.setdefault(text)

    def new_label(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def start(self, label: str) -> None:
        """Begins a basic block."""
        self.lines.append(f"{label}:")
        self.label = label

    def alloca(self, kind: str, align: int) -> str:
        """Memory of this call, reserved at its beginning."""
        name = self.fresh("mem")
        self.allocas.append(f"  {name} = alloca {kind}, align {align}")
        return name

    @contextmanager
    def scope(self) -> Any:
        """Broadcasts made inside are not seen outside."""
        self.splats.append({})
        try:
            yield
        finally:
            self.splats.pop()

    # ---- values ----

    def is_vector(self, value: UOp) -> bool:
        """True where the register of `value` has one element a lane."""
        if value in self.scalarised or value.op in (Op.CONST, Op.DIM):
            return False
        return self.uniform.varies(value)

    def type_of(self, value: UOp) -> str:
        dtype: DType = value.dtype
        if dtype.count > 1:
            return vector(scalar_type(dtype), dtype.count)
        return vector(scalar_type(dtype), self.width if self.is_vector(value) else 1)

    def raw(self, value: UOp) -> str:
        """The register or literal of a value, as it is."""
        if value.op == Op.CONST:
            return literal(value.dtype, value.arg)
        if value.op == Op.DIM:
            return self.dims[value.arg]
        return self.names[value]

    def operand(self, value: UOp, count: int) -> str:
        """A value as `count` elements: itself, or broadcast."""
        if value.op == Op.CONST:
            return self.ops.const(value.dtype, count, value.arg)
        if count == 1 or value.dtype.count > 1 or self.is_vector(value):
            return self.raw(value)
        return self.splat(self.raw(value), scalar_type(value.dtype), count)

    def splat(self, scalar: str, kind: str, count: int) -> str:
        """A register broadcast to `count` elements (once in a scope)."""
        key = f"{kind} {scalar} {count}"
        for known in reversed(self.splats):
            if key in known:
                return known[key]
        first = self.emit(f"insertelement <{count} x {kind}> poison, {kind} {scalar}, i64 0")
        whole = self.emit(f"shufflevector <{count} x {kind}> {first}, <{count} x {kind}> poison, <{count} x i32> zeroinitializer")
        self.splats[-1][key] = whole
        return whole

    def any_lane(self, mask: str) -> str:
        """i1: whether a mask has a lane."""
        if self.width == 1:
            return mask
        bits = self.emit(f"bitcast <{self.width} x i1> {mask} to i{self.width}")
        return self.emit(f"icmp ne i{self.width} {bits}, 0")

    @property
    def mask_type(self) -> str:
        return vector("i1", self.width)

    def narrow(self, condition: str) -> str:
        """The lanes of the mask for which a vector condition holds (poison in dead lanes does no harm)."""
        if self.mask is None:
            return condition
        return self.emit(f"select {self.mask_type} {self.mask}, {self.mask_type} {condition}, {self.mask_type} {self._no_lanes}")

    @property
    def _no_lanes(self) -> str:
        return "false" if self.width == 1 else "zeroinitializer"

    @property
    def all_lanes(self) -> str:
        return "true" if self.width == 1 else "splat (i1 true)"

    # ---- blocks ----

    def block(self, block: Block) -> None:
        """The items of a block, in order."""
        for item in block.items:
            visit(item, self)

    def value(self, node: UOp) -> None:
        """One operation."""
        op = node.op
        if op in ELEMENTWISE:
            count = node.dtype.count if node.dtype.count > 1 else self.width if self.is_vector(node) else 1
            self.names[node] = self.ops.elementwise(node, count, [self.operand(s, count) for s in node.src])
        elif op == Op.LOAD:
            self.names[node] = self.memory.load(node)
        elif op == Op.GATHER:
            self.names[node] = self.memory.table(node)
        elif op == Op.STORE:
            self.memory.store(node)
        elif op == Op.ARRAY:
            self.arrays[node] = self.memory.array(node)
            self.array_masks[node] = self.mask
        elif op == Op.ARRAY_GET:
            self.names[node] = self.memory.array_get(node)
        elif op == Op.ARRAY_SET:
            self.memory.array_set(node)
        elif op == Op.APPEND:
            root = self.uniform.storage[node.src[0]]
            if self.checks is not None:
                self.checks.append(node, root.dtype, self.arrays[root])
            else:
                append(self, node, root.dtype.dtype, self.arrays[root])
        elif op == Op.PROJ:
            pass  # APPEND named its new top
        elif op == Op.VOTE:
            self.names[node] = self.vote(node)
        elif op == Op.ACROSS:
            self.names[node] = self.across(node)
        elif op == Op.SPLIT:
            source = node.src[0]
            self.names[node] = self.emit(f"extractelement {self.type_of(source)} {self.raw(source)}, i64 {node.arg}")
        elif op == Op.IOTA:
            self.names[node] = "<" + ", ".join(f"i32 {k}" for k in range(node.dtype.count)) + ">"
        elif op == Op.PRINT:
            debug_print(self, node)
        elif op != Op.LANE:  # LANE: the walk has named it
            raise AssertionError(f"no LLVM for {node!r}")

    # ---- loops ----

    def loop(self, loop: LoopItem) -> None:
        divergent = loop in self.uniform.divergent and self.serial_lane is None
        state = [v for v in loop.vars if not isinstance(v.var.dtype, ArrayType)]
        head, body, done = self.new_label("head"), self.new_label("body"), self.new_label("done")
        outer_mask, before = self.mask, self.label
        starts = []
        for v in state:
            count = v.var.dtype.count if v.var.dtype.count > 1 else self.width if self.is_vector(v.var) else 1
            starts.append(self.operand(v.init, count))
        frozen = {v.var: self.fresh("acc") for v in state if divergent and v.result is not None and not self.is_vector(v.var)}
        frozen_starts = {v.var: self.operand(v.init, self.width) for v in state if v.var in frozen}
        before = self.label
        self.line(f"br label %{head}")
        self.start(head)
        at = len(self.lines)
        for v in state:
            self.names[v.var] = self.fresh("s")
        live = self.fresh("live") if divergent else None
        if divergent:
            self.mask = live
        with self.scope():
            self.block(loop.test)
            if divergent:
                going = self.narrow(self.operand(loop.condition, self.width))
                self.line(f"br i1 {self.any_lane(going)}, label %{body}, label %{done}")
            else:
                going = ""
                self.line(f"br i1 {self.raw(loop.condition)}, label %{body}, label %{done}")
            self.start(body)
            if divergent:
                self.mask = going
            with self.scope():
                self.block(loop.body)
                nexts = []
                for v in state:
                    count = v.var.dtype.count if v.var.dtype.count > 1 else self.width if self.is_vector(v.var) else 1
                    following = self.operand(v.next, count)
                    if divergent and v.result is not None and self.is_vector(v.var) and v.next is not v.var:
                        kind = self.type_of(v.var)
                        following = self.emit(f"select {self.mask_type} {going}, {kind} {following}, {kind} {self.names[v.var]}")
                    nexts.append(following)
                frozen_next = {}
                for v in state:
                    if v.var in frozen:
                        kind = vector(scalar_type(v.var.dtype), self.width)
                        following = self.operand(v.next, self.width)
                        frozen_next[v.var] = self.emit(f"select {self.mask_type} {going}, {kind} {following}, {kind} {frozen[v.var]}")
            after = self.label
            self.line(f"br label %{head}")
        phis = []
        for v, start, following in zip(state, starts, nexts, strict=True):
            phis.append(f"  {self.names[v.var]} = phi {self.type_of(v.var)} [ {start}, %{before} ], [ {following}, %{after} ]")
        for v in state:
            if v.var in frozen:
                kind = vector(scalar_type(v.var.dtype), self.width)
                phis.append(f"  {frozen[v.var]} = phi {kind} [ {frozen_starts[v.var]}, %{before} ], [ {frozen_next[v.var]}, %{after} ]")
        if divergent:
            entering = outer_mask if outer_mask is not None else self.all_lanes
            phis.append(f"  {live} = phi {self.mask_type} [ {entering}, %{before} ], [ {going}, %{after} ]")
        self.lines[at:at] = phis
        self.start(done)
        self.mask = outer_mask
        for v in state:
            if v.result is not None:
                self.names[v.result] = frozen.get(v.var, self.names[v.var])

    # ---- branches ----

    def branch(self, branch: BranchItem) -> None:
        if len(branch.arms) == 1:  # a switch of one arm is no choice
            self.block(branch.arms[0])
            for result, given in self._results(branch):
                self.names[result] = self.operand(given[0], self._count(result))
        elif branch in self.uniform.divergent and self.serial_lane is None:
            self._divergent_branch(branch)
        else:
            self._uniform_branch(branch)

    def _results(self, branch: BranchItem) -> list[tuple[UOp, tuple[UOp, ...]]]:
        return [(r, values) for r, values in branch.results if not isinstance(r.dtype, ArrayType)]

    def _uniform_branch(self, branch: BranchItem) -> None:
        results = self._results(branch)
        done = self.new_label("join")
        labels = [self.new_label("arm") for _ in branch.arms]
        if branch.kind == "cond":
            self.line(f"br i1 {self.raw(branch.selector)}, label %{labels[0]}, label %{labels[1]}")
        else:
            last = len(labels) - 1
            clamped = self.ops.call("llvm.smax.i32", "i32", ("i32", self.raw(branch.selector)), ("i32", "0"))
            cases = " ".join(f"i32 {k}, label %{labels[k]}" for k in range(last))
            self.line(f"switch i32 {clamped}, label %{labels[last]} [ {cases} ]")
        incoming: list[list[str]] = [[] for _ in results]
        for k, (arm, label) in enumerate(zip(branch.arms, labels, strict=True)):
            self.start(label)
            with self.scope():
                self.block(arm)
                values = [self.operand(given[k], self._count(r)) for r, given in results]
            for n, value in enumerate(values):
                incoming[n].append(f"[ {value}, %{self.label} ]")
            self.line(f"br label %{done}")
        self.start(done)
        for (result, _), pairs in zip(results, incoming, strict=True):
            self.names[result] = self.emit(f"phi {self.type_of(result)} {', '.join(pairs)}")

    def _count(self, value: UOp) -> int:
        return value.dtype.count if value.dtype.count > 1 else self.width if self.is_vector(value) else 1

    def _divergent_branch(self, branch: BranchItem) -> None:
        results = self._results(branch)
        outer = self.mask
        selector = self.operand(branch.selector, self.width)
        conditions: list[str] = []
        if branch.kind == "cond":
            inverse = self.emit(f"xor {self.mask_type} {selector}, {self.all_lanes}")
            conditions = [selector, inverse]
        else:
            kind = vector("i32", self.width)
            zero, last = self.ops.const(int32, self.width, 0), self.ops.const(int32, self.width, len(branch.arms) - 1)
            name = suffix(int32, self.width)
            clamped = self.ops.call(f"llvm.smax.{name}", kind, (kind, selector), (kind, zero))
            clamped = self.ops.call(f"llvm.smin.{name}", kind, (kind, clamped), (kind, last))
            conditions = [self.emit(f"icmp eq {kind} {clamped}, {self.ops.const(int32, self.width, k)}") for k in range(len(branch.arms))]
        merged: list[str | None] = [None] * len(results)
        for k, arm in enumerate(branch.arms):
            if arm.items:
                taken = self.narrow(conditions[k])
                enter, skip = self.new_label("arm"), self.new_label("join")
                before = self.label
                self.line(f"br i1 {self.any_lane(taken)}, label %{enter}, label %{skip}")
                self.start(enter)
                self.mask = taken
                with self.scope():
                    self.block(arm)
                    values = [self.operand(given[k], self._count(r)) for r, given in results]
                end = self.label
                self.line(f"br label %{skip}")
                self.start(skip)
                self.mask = outer
                merges = []
                for (r, _), v in zip(results, values, strict=True):
                    nothing = self.ops.const(r.dtype, 1, 0) if self._count(r) == 1 else "zeroinitializer"
                    merges.append(self.emit(f"phi {self.type_of(r)} [ {v}, %{end} ], [ {nothing}, %{before} ]"))
                values = merges
            else:
                values = [self.operand(given[k], self._count(r)) for r, given in results]
            for n, (result, given) in enumerate(results):
                if not self.is_vector(result):  # the same value in all arms
                    merged[n] = self.operand(given[0], self._count(result))
                    continue
                known = merged[n]
                if known is None:
                    merged[n] = values[n]
                else:
                    kind = self.type_of(result)
                    merged[n] = self.emit(f"select {self.mask_type} {conditions[k]}, {kind} {values[n]}, {kind} {known}")
        for (result, _), name_ in zip(results, merged, strict=True):
            assert name_ is not None
            self.names[result] = name_

    # ---- serial ----

    def serial(self, item: SerialItem) -> None:
        if self.serial_lane is not None or self.in_prelude:  # already one lane at a time
            self.block(item.body)
            for result, value in item.results:
                self.names[result] = self.operand(value, self._count(result))
            return
        lanes = self.width
        elsewhere = (Op.CONST, Op.DIM, Op.BUFFER, Op.ARRAY)
        held = [u for u in captured(item) if u.op not in elsewhere and isinstance(u.dtype, DType) and self.is_vector(u)]
        slots = {u: self.memory.spill(u) for u in held}
        outs = {r: self.alloca(f"[{lanes} x {memory_type(r.dtype)}]", 64) for r, _ in item.results}
        mask = self.mask
        if mask is None:
            bits = "-1"
        else:
            bits = self.emit(f"bitcast {self.mask_type} {mask} to i{lanes}") if lanes > 1 else self.emit(f"zext i1 {mask} to i1")
        head, done = self.new_label("each"), self.new_label("done")
        before = self.label
        self.line(f"br label %{head}")
        self.start(head)
        left, fewer = self.fresh("left"), self.fresh("fewer")
        at = len(self.lines)
        index = self.ops.call(f"llvm.cttz.i{lanes}", f"i{lanes}", (f"i{lanes}", left), ("i1", "true"))
        lane = self.emit(f"zext i{lanes} {index} to i64") if lanes < 64 else index
        saved = dict(self.names)
        with self.scope():
            for u, slot in slots.items():
                self.names[u] = self.memory.reload(u, slot, lane)
                self.scalarised.add(u)
            self.serial_lane, self.mask = lane, None
            self.block(item.body)
            for result, value in item.results:
                self.memory.put(outs[result], result.dtype, lane, self.operand(value, 1))
            self.serial_lane, self.mask = None, mask
        less = self.emit(f"sub i{lanes} {left}, 1")
        self.line(f"{fewer} = and i{lanes} {left}, {less}")
        more = self.emit(f"icmp ne i{lanes} {fewer}, 0")
        self.line(f"br i1 {more}, label %{head}, label %{done}")
        self.lines[at:at] = [f"  {left} = phi i{lanes} [ {bits}, %{before} ], [ {fewer}, %{self.label} ]"]
        self.start(done)
        for u in slots:
            self.scalarised.discard(u)
            self.names[u] = saved[u]
        for result, _ in item.results:
            self.names[result] = self.memory.fetch(outs[result], result.dtype)

    # ---- votes and inner vectors ----

    def vote(self, node: UOp) -> str:
        """What the live lanes know together; a scalar."""
        kind, source = node.arg[0], node.src[0]
        dtype: DType = source.dtype
        alone = self.serial_lane is not None or self.width == 1 or self.in_prelude
        if alone or (kind != "count" and not self.is_vector(source)):
            return self.emit(f"zext i1 {self.raw(source)} to i32") if kind == "count" else self.raw(source)
        w = self.width
        value = self.operand(source, w)
        t = vector(scalar_type(dtype), w)
        if kind in ("any", "count"):
            bits = self.emit(f"bitcast {self.mask_type} {self.narrow(value)} to i{w}")
            if kind == "any":
                return self.emit(f"icmp ne i{w} {bits}, 0")
            number = self.ops.call(f"llvm.ctpop.i{w}", f"i{w}", (f"i{w}", bits))
            return self.emit(f"zext i{w} {number} to i32")
        if kind == "all":
            inverse = self.emit(f"xor {self.mask_type} {value}, {self.all_lanes}")
            return self.emit(f"xor i1 {self.any_lane(self.narrow(inverse))}, true")
        if kind == "first":
            if self.mask is None:
                return self.emit(f"extractelement {t} {value}, i64 0")
            bits = self.emit(f"bitcast {self.mask_type} {self.mask} to i{w}")
            index = self.ops.call(f"llvm.cttz.i{w}", f"i{w}", (f"i{w}", bits), ("i1", "true"))
            return self.emit(f"extractelement {t} {value}, i{w} {index}")
        if self.mask is not None:
            if dtype.is_float:
                neutral: float = float("-inf") if kind == "max" else float("inf")
            else:
                neutral = dtype.min if kind == "max" else dtype.max
            value = self.emit(f"select {self.mask_type} {self.mask}, {t} {value}, {t} {self.ops.const(dtype, w, neutral)}")
        return self._reduced(kind, dtype, w, value)

    def _reduced(self, op: str, dtype: DType, count: int, value: str) -> str:
        kind, t = scalar_type(dtype), vector(scalar_type(dtype), count)
        name = suffix(dtype, count)
        if dtype.is_float:
            if op in (Op.ADD, Op.MUL):
                return self._halved(op, dtype, count, value)
            return self.ops.call(f"llvm.vector.reduce.f{op}imum.{name}", kind, (t, value))
        if op in (Op.MAX, Op.MIN):
            op = ("s" if dtype.kind == "i" else "u") + op
        return self.ops.call(f"llvm.vector.reduce.{op}.{name}", kind, (t, value))

    def _halved(self, op: str, dtype: DType, count: int, value: str) -> str:
        """A sum or product of floats: the upper half of the elements to the lower, while they are even in number; the rest in order."""
        kind = scalar_type(dtype)
        while count % 2 == 0:
            t, half = f"<{count} x {kind}>", count // 2
            parts = []
            for first in (0, half):
                places = ", ".join(f"i32 {first + k}" for k in range(half))
                parts.append(self.emit(f"shufflevector {t} {value}, {t} poison, <{half} x i32> <{places}>"))
            value = self.emit(f"f{op}{self.ops.flags} <{half} x {kind}> {parts[0]}, {parts[1]}")
            count = half
        total, *rest = (self.emit(f"extractelement <{count} x {kind}> {value}, i64 {k}") for k in range(count))
        for element in rest:
            total = self.emit(f"f{op}{self.ops.flags} {kind} {total}, {element}")
        return total

    def across(self, node: UOp) -> str:
        """A reduction over an inner vector."""
        source, op = node.src[0], node.arg
        dtype: DType = source.dtype.scalar
        count = source.dtype.count
        value = self.raw(source)
        if op in _REDUCE:
            if dtype.is_bool:
                bits = self.emit(f"bitcast <{count} x i1> {value} to i{count}")
                return self.emit(f"icmp ne i{count} {bits}, 0" if op == Op.OR else f"icmp eq i{count} {bits}, -1")
            return self._reduced(op, dtype, count, value)
        bits = self.emit(f"bitcast <{count} x i1> {value} to i{count}")
        if op == "first":
            index = self.ops.call(f"llvm.cttz.i{count}", f"i{count}", (f"i{count}", bits), ("i1", "false"))
            return self._to_i32(index, count)
        if op == "last":
            above = self.ops.call(f"llvm.ctlz.i{count}", f"i{count}", (f"i{count}", bits), ("i1", "false"))
            return self.emit(f"sub i32 {count - 1}, {self._to_i32(above, count)}")
        if op == "count":
            return self._to_i32(self.ops.call(f"llvm.ctpop.i{count}", f"i{count}", (f"i{count}", bits)), count)
        return self._to_i32(bits, count)

    def _to_i32(self, value: str, bits: int) -> str:
        if bits == 32:
            return value
        return self.emit(f"{'zext' if bits < 32 else 'trunc'} i{bits} {value} to i32")

    # ---- the function ----

    def function(self) -> str:
        """The module's text."""
        opening = []
        for i, name in enumerate(self.buffers.values()):
            opening.append(f"  {name}.at = getelementptr ptr, ptr %buffers, i64 {i}")
            opening.append(f"  {name} = load ptr, ptr {name}.at, align 8, !invariant.load !0")
        for i, name in enumerate(self.dims.values()):
            opening.append(f"  {name}.at = getelementptr i32, ptr %dims, i64 {i}")
            opening.append(f"  {name} = load i32, ptr {name}.at, align 4, !invariant.load !0")
        remarks = comments(self.kernel)
        if self.checks is not None:
            self.checks.begin()
            remarks += lines_checked(self.kernel)
        self.block(self.kernel.prelude)
        self.in_prelude = False
        emit_walk(self)
        signature = f"define void @{self.kernel.name}(ptr %buffers, ptr %dims, i64 %first, i64 %last) #0 {{"
        attributes = 'attributes #0 = { nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" }'
        body = [signature, "entry:", *opening, *self.allocas, *self.lines, "  ret void", "}"]
        return "\n".join([*remarks, *self.globals, *self.declarations, "", *body, "", attributes, "!0 = !{}", ""])


def emit(kernel: Kernel, width: int, contract: bool = True, check: bool = False) -> str:
    """The LLVM IR module of a kernel for groups of `width` lanes. `check`: every index is compared with its size (`CHECK=1`)."""
    return Emitter(kernel, width, contract, check).function()


__all__ = ["Emitter", "Item", "dim_names", "emit"]
