"""The graph node, and the list of operations.

Everything the engine does is done to one kind of node, the `UOp`: `op, dtype, src, arg`. Nodes are interned: making a node
that exists returns the one that exists, so equal graphs are the same object, common subexpressions are shared for free, and
`is` compares whole graphs. Nodes never change.

Two levels use the same nodes. At the *tensor* level a node has a shape and stands for all elements; movement nodes (`VIEWS`)
move elements without computing. At the *kernel* level (after `compiler.lower`) shapes are gone: a node is one scalar of one
lane, addresses are explicit, `LANE` tells which lane it is. `graph.verify` states the rules of each level.

What must not be merged carries its own identity: control flow, private arrays, votes and prints have the number of the region
that recorded them (and, where their order matters, a sequence number) in `arg`. A number is given once in a process, so that a
value of an older trace is known for what it is; texts of kernels, and so the keys of the cache, leave these numbers out.
"""

from __future__ import annotations

import struct
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from engine.graph.dtypes import ArrayType, DType, bool_, int32


class Op:
    """Names of operations. Plain strings: they hash fast and read well in dumps."""

    # leaves
    CONST = "const"  # arg: the number
    BUFFER = "buffer"  # arg: BufferArg; memory of a device, contiguous, row by row
    DIM = "dim"  # arg: name of a size that is known when the kernel runs
    ARANGE = "arange"  # arg: (size,); element i is i
    LOOPVAR = "loopvar"  # arg: (region, k, shape); the k-th state component inside a loop
    ARRAY = "array"  # arg: (id, region); a new private array, contents undefined
    # movement (tensor level)
    RESHAPE, PERMUTE, EXPAND, PAD, SHRINK, FLIP, STRIDE = "reshape", "permute", "expand", "pad", "shrink", "flip", "stride"
    STACK = "stack"  # src: equal shapes; arg: axis of the new dimension
    # arithmetic
    ADD, SUB, MUL, DIV, IDIV, MOD, NEG, ABS = "add", "sub", "mul", "div", "idiv", "mod", "neg", "abs"
    MAX, MIN, FMA = "max", "min", "fma"
    LT, LE, EQ, NE = "lt", "le", "eq", "ne"
    AND, OR, XOR, NOT, SHL, SHR = "and", "or", "xor", "not", "shl", "shr"
    WHERE = "where"
    SQRT, FLOOR, CEIL, TRUNC, ROUND = "sqrt", "floor", "ceil", "trunc", "round"
    EXP, EXP2, LOG, LOG2, POW = "exp", "exp2", "log", "log2", "pow"
    SIN, COS, TAN, ASIN, ACOS, ATAN, ATAN2 = "sin", "cos", "tan", "asin", "acos", "atan", "atan2"
    CAST, BITCAST = "cast", "bitcast"
    # many elements into one, and table look-up
    REDUCE = "reduce"  # arg: (op, axes); reduced axes stay with size 1
    GATHER = "gather"  # src: table, indices (equal shapes); arg: (axes, region); result: table's axes, the indexed ones replaced
    SCATTER = "scatter"  # src: target, value, indices; arg: (axes, mode); result: the target after the writes
    CONTIGUOUS = "contiguous"  # a cut that the author wants
    ASSIGN = "assign"  # src: buffer, value; the buffer after the write
    # control flow: src are what flows in and out, PROJ picks one result
    LOOP = "loop"  # src: initial state, condition, next state; arg: RegionArg
    COND = "cond"  # src: predicate, then results, else results; arg: RegionArg
    SWITCH = "switch"  # src: index, results of case 0, of case 1, ...; arg: RegionArg
    SERIAL = "serial"  # src: results; arg: RegionArg
    PROJ = "proj"  # src: a control-flow node; arg: k
    ARRAY_SET = "array_set"  # src: array, index, value; arg: (region, sequence)
    ARRAY_GET = "array_get"  # src: array, index; arg: (region, sequence)
    APPEND = "append"  # src: array, top, mask, values (one inner axis), reverse; arg: (region, sequence); PROJ 0: array, 1: new top
    VOTE = "vote"  # src: value; arg: (kind, region, sequence)
    PRINT = "print"  # src: mask, values; arg: (format, region, sequence)
    # kernel level only
    LANE = "lane"  # arg: (axis, extent or None): this lane's coordinate along a lane axis
    IOTA = "iota"  # arg: region; dtype int32 x T: 0..T-1, inside the serial region
    LOAD = "load"  # src: buffer, index[, gate]; arg: region; zero where the gate is false
    SINK = "sink"  # src: the STOREs of a kernel
    STORE = "store"  # src: buffer, index, value[, gate]; arg: mode
    RESULT = "result"  # arg: (region, k, parent region): the k-th value that leaves a control-flow region
    SPLIT = "split"  # src: vector; arg: k; one element of an inner vector
    ACROSS = "across"  # src: vector; arg: op; reduction of an inner vector (bits and first set of a mask too)


VIEWS = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.PAD, Op.SHRINK, Op.FLIP, Op.STRIDE})
UNARY = frozenset(
    {
        Op.NEG, Op.ABS, Op.NOT, Op.SQRT, Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND, Op.EXP, Op.EXP2, Op.LOG, Op.LOG2,
        Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN, Op.CAST, Op.BITCAST,
    }
)  # fmt: skip
COMPARE = frozenset({Op.LT, Op.LE, Op.EQ, Op.NE})
BINARY = COMPARE | {
    Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.IDIV, Op.MOD, Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR, Op.POW,
    Op.ATAN2,
}  # fmt: skip
TERNARY = frozenset({Op.WHERE, Op.FMA})
ELEMENTWISE = UNARY | BINARY | TERNARY
COMMUTATIVE = frozenset({Op.ADD, Op.MUL, Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR, Op.EQ, Op.NE})
TRANSCENDENTAL = frozenset(
    {Op.EXP, Op.EXP2, Op.LOG, Op.LOG2, Op.POW, Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN, Op.ATAN2}
)
CONTROL = frozenset({Op.LOOP, Op.COND, Op.SWITCH, Op.SERIAL})
EFFECTS = frozenset({Op.ARRAY_SET, Op.ARRAY_GET, Op.APPEND, Op.VOTE, Op.PRINT})

Shape = tuple[Any, ...]  # of int, or of int32 UOps made of DIM (sizes known when the kernel runs)


class BufferArg:
    """What a BUFFER leaf stands for: slot `slot` of a kernel or plan (a unique number outside of one), and its shape.

    `kind`: "memory", "argument" (of a traced function) or "parameter" (a scalar or small array, in the parameter block).
    `storage` is the memory itself where there is some already; it lives as long as a graph refers to it. `generation`: which
    contents of a buffer that is used again are meant; None where nobody uses it again.
    """

    __slots__ = ("generation", "kind", "shape", "slot", "storage")

    def __init__(self, slot: int, shape: Shape, kind: str = "memory", storage: Any = None, generation: int | None = None) -> None:
        self.slot, self.shape, self.kind, self.storage, self.generation = slot, shape, kind, storage, generation

    def _key(self) -> tuple[Any, ...]:
        return (self.slot, self.shape, self.kind)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BufferArg) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"{'p' if self.kind == 'parameter' else 'b'}{self.slot}{list(self.shape)}"


class RegionArg:
    """Identity of a control-flow node: the regions of its bodies, the region it stands in, its results, its lane shape."""

    __slots__ = ("count", "lanes", "parent", "regions")

    def __init__(self, regions: tuple[int, ...], parent: int, count: int, lanes: Shape) -> None:
        self.regions, self.parent, self.count, self.lanes = regions, parent, count, lanes

    def _key(self) -> tuple[Any, ...]:
        return (self.regions, self.parent, self.count, self.lanes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RegionArg) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"r{','.join(map(str, self.regions))} in r{self.parent}, {self.count} results"


class UOp:
    """One interned node. Make it through `UOp.new` (or the helpers below), never by changing one."""

    __slots__ = ("__weakref__", "arg", "dtype", "op", "range", "scope", "shape", "src")
    range: tuple[int, int] | None  # least and greatest value of an integer, once `simplify.bounds` was asked
    scope: int  # the innermost region whose values this node needs; regions inside others have greater numbers; 0: none
    op: str
    dtype: Any  # DType | ArrayType | None
    src: tuple[UOp, ...]
    arg: Any
    shape: Shape

    @staticmethod
    def new(op: str, dtype: DType | ArrayType | None, src: tuple[UOp, ...] = (), arg: Any = None, shape: Shape | None = None) -> UOp:
        """The node of these parts. `shape`: given for nodes whose shape the sources do not tell; else the first source's."""
        key = (op, dtype, src, arg if type(arg) is not float or op != "const" else _double.pack(arg), shape)
        known = _interned.get(key)
        if known is not None:
            found = known()
            if found is not None:
                return found
        self = UOp()
        self.op, self.dtype, self.src, self.arg = op, dtype, src, arg
        self.shape = shape if shape is not None else (src[0].shape if src else ())
        self.range = None
        scope = 0
        if op in CONTROL:
            scope = arg.parent
        else:
            for s in src:
                if s.scope > scope:
                    scope = s.scope
            own = _SCOPE.get(op)
            if own is not None:
                scope = max(scope, own(arg))
        self.scope = scope
        with _interning:  # another thread may have made it meanwhile
            known = _interned.get(key)
            found = known() if known is not None else None
            if found is not None:
                return found
            _interned[key] = _Reference(self, _forget, key)
        return self

    @staticmethod
    def leaf(dtype: DType, arg: BufferArg) -> UOp:
        """A BUFFER node that is not interned: its memory is nobody else's, so no equal node can exist. Cheap, for every frame."""
        self = UOp()
        self.op, self.dtype, self.src, self.arg, self.shape, self.scope, self.range = Op.BUFFER, dtype, (), arg, arg.shape, 0, None
        return self

    @staticmethod
    def const(dtype: DType, value: bool | int | float) -> UOp:
        """A number of this type: wrapped to the range of an integer type, rounded to the precision of a float type."""
        kind = dtype.kind
        if kind == "f":
            value = float(value)
            if dtype.bits == 32:
                value = _as_float32(value)
            elif dtype.bits == 16:
                value = float(dtype.numpy.type(value))
        elif kind == "b":
            value = bool(value)
        else:
            value = int(value) & ((1 << dtype.bits) - 1)
            if kind == "i" and value >> (dtype.bits - 1):
                value -= 1 << dtype.bits
        return UOp.new(Op.CONST, dtype, (), value)

    def alu(self, op: str, *others: UOp) -> UOp:
        """An arithmetic node on this and others of equal shapes and types."""
        dtype = bool_ if op in COMPARE else others[0].dtype if op == Op.WHERE else self.dtype
        if op in COMPARE and self.dtype.count > 1:
            dtype = bool_.vec(self.dtype.count)
        return UOp.new(op, dtype, (self, *others))

    @property
    def is_const(self) -> bool:
        return self.op == Op.CONST

    def replace(self, **parts: Any) -> UOp:
        """The node with some parts exchanged."""
        op, sources = parts.get("op", self.op), parts.get("src", self.src)
        shape = parts.get("shape", self.shape)
        if op in ELEMENTWISE and sources and sources[0].shape == shape:
            shape = None  # as `new` has it
        return UOp.new(op, parts.get("dtype", self.dtype), sources, parts.get("arg", self.arg), shape)

    def toposort(self) -> list[UOp]:
        """All nodes this one depends on, itself last, each after its sources."""
        return toposort((self,))

    def __repr__(self) -> str:
        arg = "" if self.arg is None else f" {self.arg!r}"
        return f"<{self.op} {self.dtype}{list(self.shape) if self.shape else ''}{arg}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_load_graph, (dump_graph((self,)),))


_SCOPE: dict[str, Callable[[Any], int]] = {
    Op.LOOPVAR: lambda arg: arg[0],
    Op.ARRAY: lambda arg: arg[1],
    Op.GATHER: lambda arg: arg[1],
    Op.ARRAY_SET: lambda arg: arg[0],
    Op.ARRAY_GET: lambda arg: arg[0],
    Op.APPEND: lambda arg: arg[0],
    Op.VOTE: lambda arg: arg[1],
    Op.PRINT: lambda arg: arg[1],
    # kernel level: region 0 is the prelude, 1 the lane's body
    Op.LANE: lambda arg: 1,
    Op.IOTA: lambda arg: arg,
    Op.LOAD: lambda arg: arg,
    Op.RESULT: lambda arg: arg[2],
}


class _Reference(weakref.ref[UOp]):
    """An entry of the table of nodes: weak, and it knows its key."""

    __slots__ = ("key",)
    key: tuple[Any, ...]

    def __new__(cls, node: UOp, forget: Callable[[Any], None], key: tuple[Any, ...]) -> _Reference:
        self = super().__new__(cls, node, forget)
        self.key = key
        return self

    def __init__(self, node: UOp, forget: Callable[[Any], None], key: tuple[Any, ...]) -> None:
        super().__init__(node, forget)  # type: ignore[call-arg]


def _forget(reference: Any) -> None:
    with _interning:
        key = reference.key
        if _interned.get(key) is reference:
            del _interned[key]


_interned: dict[tuple[Any, ...], _Reference] = {}
_interning = threading.RLock()
_float, _double = struct.Struct("<f"), struct.Struct("<d")


def _as_float32(value: float) -> float:
    try:
        return float(_float.unpack(_float.pack(value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def toposort(roots: Iterable[UOp], stop: Callable[[UOp], bool] | None = None) -> list[UOp]:
    """Every node below `roots`, each after its sources, in a stable order. Nodes for which `stop` holds have no sources."""
    done: dict[UOp, None] = {}
    stack = list(roots)[::-1]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        ready = True
        if stop is None or not stop(node):
            for source in node.src[::-1]:
                if source not in done:
                    stack.append(source)
                    ready = False
        if ready:
            done[node] = None
            stack.pop()
    return list(done)


def dump_graph(roots: Iterable[UOp]) -> list[tuple[Any, ...]]:
    """A graph as a flat list (sources by number): what is hashed for cache keys and pickled. Roots are the last entries."""
    roots = tuple(roots)
    numbers: dict[UOp, int] = {}
    rows: list[tuple[Any, ...]] = []
    for node in toposort(roots):
        numbers[node] = len(rows)
        sources = tuple(numbers[s] for s in node.src)
        rows.append((node.op, node.dtype, sources, _portable(node.arg, numbers), _portable(node.shape, numbers)))
    rows.append(("roots", None, tuple(numbers[r] for r in roots), None, None))
    return rows


def _portable(value: Any, numbers: dict[UOp, int]) -> Any:
    """Sizes inside arguments and shapes are graphs themselves; they travel nested."""
    if isinstance(value, UOp):
        return ("size", dump_graph((value,)))
    if isinstance(value, tuple):
        return tuple(_portable(v, numbers) for v in value)
    if isinstance(value, BufferArg):
        return ("bufferarg", value.slot, _portable(value.shape, numbers), value.kind)
    if isinstance(value, RegionArg):
        return ("regionarg", value.regions, value.parent, value.count, _portable(value.lanes, numbers))
    return value


def _restore(value: Any) -> Any:
    if isinstance(value, tuple):
        if value and value[0] == "size":
            return _load_graph(value[1])
        if value and value[0] == "bufferarg":
            return BufferArg(value[1], _restore(value[2]), value[3])
        if value and value[0] == "regionarg":
            return RegionArg(value[1], value[2], value[3], _restore(value[4]))
        return tuple(_restore(v) for v in value)
    return value


def load_graph(rows: list[tuple[Any, ...]]) -> list[UOp]:
    """The roots of a graph that `dump_graph` made."""
    nodes: list[UOp] = []
    for op, dtype, src, arg, shape in rows[:-1]:
        sources = tuple(nodes[i] for i in src)
        restored = _restore(shape)
        inherited = sources[0].shape if sources else ()
        given = None if restored == inherited and op in ELEMENTWISE | {Op.CONST} else restored
        nodes.append(UOp.new(op, dtype, sources, _restore(arg), given))
    return [nodes[i] for i in rows[-1][2]]


def _load_graph(rows: list[tuple[Any, ...]]) -> UOp:
    return load_graph(rows)[0]


# ---- sizes: ints, or int32 graphs of DIM ----


def dim(name: str) -> UOp:
    """A size with this name, known when the kernel runs. int32, at least 1."""
    return UOp.new(Op.DIM, int32, (), name)


def product(sizes: Iterable[Any]) -> Any:
    """Product of sizes (ints or UOps); numbers are gathered in front so that equal products are equal nodes."""
    number, rest = 1, None
    for size in sizes:
        if isinstance(size, UOp):
            rest = size if rest is None else UOp.new(Op.MUL, int32, (rest, size))
        else:
            number *= int(size)
    if rest is None:
        return number
    return rest if number == 1 else UOp.new(Op.MUL, int32, (rest, UOp.const(int32, number)))


def size_value(size: Any, dims: dict[str, int]) -> int:
    """The number a size stands for, given the values of the named dims."""
    if not isinstance(size, UOp):
        return int(size)
    if size.op == Op.DIM:
        return dims[size.arg]
    if size.op == Op.CONST:
        return int(size.arg)
    a, b = (size_value(s, dims) for s in size.src)
    return {Op.MUL: a * b, Op.ADD: a + b, Op.SUB: a - b, Op.IDIV: a // b if b else 0}[size.op]


def size_uop(size: Any) -> UOp:
    """A size as an int32 node."""
    return size if isinstance(size, UOp) else UOp.const(int32, size)
