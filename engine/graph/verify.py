"""What must hold of a graph of tensors, and of any single node.

A pass that breaks a rule would show only as wrong pixels, much later. So tests, and `CHECK=1`, verify the graph between passes;
an error names the pass, the node and the rule. The rules of a lowered kernel are in `compiler.verify`; what an elementwise node
may look like is the same on both levels and stands here.

- Each operation has its number of sources. Elementwise sources have the type of the whole, except where the operation says
  otherwise (comparisons, `where`, shifts, conversions); constants are values of their type.
- Elementwise sources have the shape of the whole or the shape (). Movement gives the shape that its argument says.
- Control flow has as many sources as its regions and results ask for. Each region belongs to one node. A value of a region is
  used inside of it only: in the sources that are its body, and in bodies inside of that.
- A version of a private array has one successor in a region.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.graph.dtypes import ArrayType, DType, bool_, int32
from engine.graph.uop import (
    BINARY,
    COMPARE,
    CONTROL,
    ELEMENTWISE,
    TERNARY,
    TRANSCENDENTAL,
    UNARY,
    VIEWS,
    BufferArg,
    Op,
    RegionArg,
    UOp,
    product,
    toposort,
)  # fmt: skip

Fail = Callable[[str], None]
Describe = Callable[[UOp], str]

ARITY = {
    **dict.fromkeys((Op.CONST, Op.BUFFER, Op.DIM, Op.ARANGE, Op.LOOPVAR, Op.ARRAY, Op.LANE, Op.IOTA, Op.RESULT), 0),
    **dict.fromkeys((*VIEWS, *UNARY, Op.REDUCE, Op.CONTIGUOUS, Op.PROJ, Op.VOTE, Op.SPLIT, Op.ACROSS), 1),
    **dict.fromkeys((*BINARY, Op.ASSIGN, Op.ARRAY_GET), 2),
    **dict.fromkeys((*TERNARY, Op.ARRAY_SET), 3),
    Op.APPEND: 5,
}
_AT_LEAST = {Op.STACK: 1, Op.GATHER: 2, Op.SCATTER: 3, Op.PRINT: 1}
_BITS = frozenset({Op.AND, Op.OR, Op.XOR, Op.NOT})
_REDUCERS = frozenset({Op.ADD, Op.MUL, Op.MAX, Op.MIN, Op.AND, Op.OR})
VOTES = frozenset({"any", "all", "count", "min", "max", "first"})


class VerifyError(AssertionError):
    """A graph that breaks a rule: a fault of the engine, not of its user."""

    def __init__(self, stage: str, rule: str, node: object) -> None:
        super().__init__(f"after the pass {stage!r}: {rule}: {node}")
        self.stage, self.rule, self.node = stage, rule, node


def failing(stage: str, node: UOp, describe: Describe = repr) -> Fail:
    """What a check of `node` calls with the rule that is broken."""

    def fail(rule: str) -> None:
        raise VerifyError(stage, rule, describe(node))

    return fail


# ---- single nodes, on both levels ----


def check_node(node: UOp, fail: Fail) -> None:
    """Arity, and the types of elementwise nodes, constants and accesses of private arrays."""
    wanted = ARITY.get(node.op)
    if wanted is not None and len(node.src) != wanted:
        fail(f"{node.op} has {wanted} sources, not {len(node.src)}")
    if len(node.src) < _AT_LEAST.get(node.op, 0):
        fail(f"{node.op} has at least {_AT_LEAST[node.op]} sources, not {len(node.src)}")
    if node.op in ELEMENTWISE:
        _check_elementwise(node, fail)
    elif node.op == Op.CONST:
        _check_const(node, fail)
    elif node.op in (Op.ARRAY_SET, Op.ARRAY_GET, Op.APPEND):
        _check_array(node, fail)
    elif node.op == Op.ARRAY and not isinstance(node.dtype, ArrayType):
        fail("a private array has an array type")
    elif node.op == Op.VOTE:
        kind = node.arg[0]
        if kind not in VOTES:
            fail(f"{kind!r} is no vote")
        source = node.src[0].dtype
        if kind in ("any", "all", "count") and source is not bool_:
            fail(f"group.{kind} takes bool, not {source}")
        if node.dtype is not {"any": bool_, "all": bool_, "count": int32}.get(kind, source):
            fail(f"group.{kind} of {source} is not {node.dtype}")


def _check_elementwise(node: UOp, fail: Fail) -> None:
    op = node.op
    if not isinstance(node.dtype, DType) or not all(isinstance(s.dtype, DType) for s in node.src):
        fail("elementwise operations take and give scalars")
    whole: DType = node.dtype.scalar
    types: list[DType] = [s.dtype.scalar for s in node.src]
    if op == Op.CAST:
        return
    if op == Op.BITCAST:
        if types[0].bits != whole.bits:
            fail(f"a bitcast keeps the size: {types[0]} to {whole}")
    elif op in COMPARE:
        if whole is not bool_ or types[0] is not types[1]:
            fail(f"a comparison of equal types gives bool: {types[0]}, {types[1]} to {whole}")
    elif op == Op.WHERE:
        if types[0] is not bool_ or types[1] is not whole or types[2] is not whole:
            fail(f"where(bool, T, T) gives T: {types} to {whole}")
    elif any(t is not whole for t in types):
        fail(f"the sources have the type of the whole: {types} to {whole}")
    if op in _BITS and whole.is_float:
        fail(f"bitwise operations take no {whole}")
    if op in (Op.SHL, Op.SHR) and not whole.is_int:
        fail(f"shifts take integers, not {whole}")
    if (op in TRANSCENDENTAL or op == Op.SQRT) and not whole.is_float and op != Op.POW:
        fail(f"{op} takes floats, not {whole}")


def _check_const(node: UOp, fail: Fail) -> None:
    if not isinstance(node.dtype, DType) or node.dtype.count != 1:
        fail(f"a constant is a scalar, not {node.dtype}")
    if not isinstance(node.arg, {"b": bool, "f": float}.get(node.dtype.kind, int)):
        fail(f"a constant of type {node.dtype} is no {type(node.arg).__name__}")
    if node.arg == node.arg and UOp.const(node.dtype, node.arg).arg != node.arg:
        fail(f"{node.arg!r} is no value of {node.dtype}")


def _check_array(node: UOp, fail: Fail) -> None:
    array = node.src[0].dtype
    if not isinstance(array, ArrayType):
        fail(f"the first source of {node.op} is a private array, not {array}")
    if node.src[1].dtype is not int32:
        fail(f"a private array is indexed by int32, not {node.src[1].dtype}")
    if node.op == Op.ARRAY_GET:
        if node.dtype.scalar is not array.dtype:
            fail(f"an element of {array} is not {node.dtype}")
        return
    if node.dtype is not array:
        fail(f"a successor of {array} has its type, not {node.dtype}")
    stored = node.src[3 if node.op == Op.APPEND else 2]
    if stored.dtype.scalar is not array.dtype:
        fail(f"what is stored in {array} is not {stored.dtype}")
    if node.op == Op.APPEND and node.src[2].dtype.scalar is not bool_:
        fail(f"the mask of append_where is bool, not {node.src[2].dtype}")


# ---- graphs of tensors ----


def verify_graph(roots: Sequence[UOp], stage: str, describe: Describe = repr) -> None:
    """Raises VerifyError where a graph of tensors breaks a rule."""
    order = toposort(roots)
    parents: dict[int, int] = {}
    for node in order:
        fail = failing(stage, node, describe)
        check_node(node, fail)
        if node.op in CONTROL:
            _check_control(node, parents, fail)
        check = _SHAPES.get(node.op) or (_elementwise_shape if node.op in ELEMENTWISE else None)
        if check is not None:
            check(node, fail)
    for root in roots:
        if root.scope:
            failing(stage, root, describe)("a value of a region leaves it through the results of its control flow")
    successors: dict[tuple[UOp, int], UOp] = {}
    for node in order:
        fail = failing(stage, node, describe)
        if node.scope and node.scope not in parents:
            fail(f"region {node.scope} belongs to no control flow of this graph")
        if node.op in CONTROL:
            _check_scopes(node, parents, fail)
        elif node.op in (Op.ARRAY_SET, Op.APPEND):
            other = successors.setdefault((node.src[0], node.arg[0]), node)
            if other is not node:
                fail(f"a version of a private array has one successor; another is {other!r}")


def _check_control(node: UOp, parents: dict[int, int], fail: Fail) -> None:
    """Regions, counts and types of a control-flow node; enters its regions with what is around each."""
    arg, op = node.arg, node.op
    if not isinstance(arg, RegionArg):
        fail("control flow has a RegionArg")
    bodies = {Op.LOOP: 2, Op.COND: 2, Op.SERIAL: 1}.get(op, len(arg.regions))
    if len(arg.regions) != bodies or not bodies:
        fail(f"{op} has {bodies} regions, not {len(arg.regions)}")
    wanted = {Op.LOOP: 2 * arg.count + 1, Op.SERIAL: arg.count}.get(op, 1 + bodies * arg.count)
    if len(node.src) < wanted:
        fail(f"{op} with {arg.count} results has {wanted} sources, not {len(node.src)}")
    if any(s.op != Op.PRINT and s.op not in CONTROL for s in node.src[wanted:]):
        fail(f"behind the {wanted} sources of {op} stand prints, and control flow that holds some")
    around = arg.parent
    for region in arg.regions:
        if region in parents or region <= around:
            fail(f"region {region} belongs to one node, and is numbered after the region around it")
        parents[region] = around
        around = region if op == Op.LOOP else around
    if op == Op.LOOP:
        pairs = zip(node.src[: arg.count], node.src[arg.count + 1 : wanted], strict=True)
        selector, kind = node.src[arg.count], bool_
    else:
        arms = [node.src[1 + k * arg.count : 1 + (k + 1) * arg.count] for k in range(bodies)]
        pairs = zip(arms[0], arms[-1], strict=True) if op != Op.SERIAL else zip((), (), strict=True)
        selector, kind = node.src[0] if node.src else node, bool_ if op == Op.COND else int32
    if op != Op.SERIAL and selector.dtype is not kind:
        fail(f"{op} is decided by {kind}, not {selector.dtype}")
    for first, second in pairs:
        if first.dtype is not second.dtype:
            fail(f"results of one place have one type: {first.dtype} and {second.dtype}")


def _check_scopes(node: UOp, parents: dict[int, int], fail: Fail) -> None:
    """Each source of control flow needs only regions that are open where it is computed."""
    arg, op = node.arg, node.op
    if op == Op.LOOP:
        places = [*[arg.parent] * arg.count, arg.regions[0], *[arg.regions[1]] * arg.count]
    elif op == Op.SERIAL:
        places = [arg.regions[0]] * arg.count
    else:
        places = [arg.parent, *(region for region in arg.regions for _ in range(arg.count))]
    kept = node.src[len(places) :]  # prints, and control flow that holds some: in any of the bodies
    for source, place in zip(node.src, [*places, *(s.scope if s.scope in arg.regions else arg.parent for s in kept)], strict=True):
        around = place
        while around and around != source.scope:
            around = parents.get(around, 0)
        if around != source.scope:
            fail(f"a source of region {source.scope} is used in region {place}, which is not inside of it")


# ---- shapes ----


def _same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def _equal(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(map(_same, a, b))


def _elementwise_shape(node: UOp, fail: Fail) -> None:
    for source in node.src:
        if source.shape and not _equal(source.shape, node.shape):
            fail(f"elementwise sources have the shape {node.shape} or (), not {source.shape}")


def _reshape(node: UOp, fail: Fail) -> None:
    if not _same(product(node.shape), product(node.src[0].shape)):
        fail(f"a reshape keeps the number of elements: {node.src[0].shape} to {node.shape}")


def _permute(node: UOp, fail: Fail) -> None:
    inside = node.src[0].shape
    if sorted(node.arg) != list(range(len(inside))) or not _equal(node.shape, [inside[a] for a in node.arg]):
        fail(f"a permutation {node.arg} of {inside} is not {node.shape}")


def _expand(node: UOp, fail: Fail) -> None:
    inside = node.src[0].shape
    if len(inside) != len(node.shape) or not all(_same(a, b) or _same(a, 1) for a, b in zip(inside, node.shape, strict=True)):
        fail(f"{inside} does not expand to {node.shape}")


def _pad(node: UOp, fail: Fail) -> None:
    inside = node.src[0].shape
    if not len(node.arg) == len(inside) == len(node.shape):
        fail("a pad has (before, after) for each axis")
    for size, (before, after), whole in zip(inside, node.arg, node.shape, strict=True):
        if before < 0 or after < 0 or (isinstance(size, int) and not _same(size + before + after, whole)):
            fail(f"{size} with {before} before and {after} after is not {whole}")


def _shrink(node: UOp, fail: Fail) -> None:
    inside = node.src[0].shape
    if not len(node.arg) == len(inside) == len(node.shape):
        fail("a window has a first element for each axis")
    for size, first, count in zip(inside, node.arg, node.shape, strict=True):
        if first < 0 or (isinstance(size, int) and isinstance(count, int) and first + count > size):
            fail(f"the window of {count} from {first} leaves an axis of {size}")


def _flip(node: UOp, fail: Fail) -> None:
    if not _equal(node.shape, node.src[0].shape) or not all(0 <= a < len(node.shape) for a in node.arg):
        fail(f"a flip of axes {node.arg} keeps the shape {node.src[0].shape}")


def _stride(node: UOp, fail: Fail) -> None:
    for size, step, count in zip(node.src[0].shape, node.arg, node.shape, strict=True):
        if step < 1 or (isinstance(size, int) and not _same(count, -(-size // step))):
            fail(f"every {step}th of {size} elements are not {count}")


def _stack(node: UOp, fail: Fail) -> None:
    rest = (*node.shape[: node.arg], *node.shape[node.arg + 1 :])
    if not _same(node.shape[node.arg], len(node.src)) or any(s.shape and not _equal(s.shape, rest) for s in node.src):
        fail(f"a stack of {len(node.src)} along axis {node.arg} is not {node.shape}")
    if any(s.dtype is not node.dtype for s in node.src):
        fail("what is stacked has one type")


def _reduce(node: UOp, fail: Fail) -> None:
    op, axes, *parts = node.arg
    inside = node.src[0].shape
    taken, made = (bool_, int32) if op in ("first", "last") else (node.dtype, node.dtype)  # the position of a True
    if (op not in _REDUCERS and op not in ("first", "last")) or node.src[0].dtype is not taken or node.dtype is not made:
        fail(f"a reduction by {op} of {node.src[0].dtype} is not {node.dtype}")
    if not all(0 <= a < len(inside) for a in axes):
        fail(f"axes {axes} of {inside}")
    kept = [s for a, s in enumerate(inside) if a not in axes]
    wanted = [*kept, *parts[0]] if parts else [1 if a in axes else s for a, s in enumerate(inside)]
    if not _equal(node.shape, wanted):
        fail(f"a reduction of axes {axes} of {inside} has the shape {wanted}, not {node.shape}")


def _indices(node: UOp, indices: Sequence[UOp], axes: tuple[int, ...], fail: Fail) -> None:
    if len(indices) != len(axes):
        fail(f"{len(axes)} axes are looked up by {len(indices)} indices")
    for index in indices:
        if not index.dtype.is_int or not _equal(index.shape, indices[0].shape):
            fail("indices are integers of one shape")


def _gather(node: UOp, fail: Fail) -> None:
    axes, table = node.arg[0], node.src[0]
    _indices(node, node.src[1:], axes, fail)
    first = axes[0]
    if axes != tuple(range(first, first + len(axes))):
        fail(f"the axes looked up are neighbours, not {axes}")
    wanted = (*table.shape[:first], *node.src[1].shape, *table.shape[first + len(axes) :])
    if not _equal(node.shape, wanted) or node.dtype is not table.dtype:
        fail(f"a look-up in {table.dtype} {table.shape} has the shape {wanted}, not {node.dtype} {node.shape}")


def _scatter(node: UOp, fail: Fail) -> None:
    target, value = node.src[:2]
    _indices(node, node.src[2:], node.arg[0], fail)
    wanted = (*node.src[2].shape, *target.shape[len(node.arg[0]) :])
    if not _equal(value.shape, wanted) or not _equal(node.shape, target.shape):
        fail(f"what is written has the shape {wanted}, not {value.shape}")
    if value.dtype is not target.dtype or node.dtype is not target.dtype:
        fail(f"{value.dtype} is written to {target.dtype}")
    if node.arg[1] not in ("set", "add", "min", "max"):
        fail(f"{node.arg[1]!r} is no mode of scatter")


def _contiguous(node: UOp, fail: Fail) -> None:
    if not _equal(node.shape, node.src[0].shape) or node.dtype is not node.src[0].dtype:
        fail("a stored value is the value")


def _assign(node: UOp, fail: Fail) -> None:
    target, value = node.src
    if target.op != Op.BUFFER:
        fail("only memory is assigned")
    if not _equal(target.shape, value.shape) or target.dtype is not value.dtype or not _equal(node.shape, target.shape):
        fail(f"{value.dtype} {value.shape} is assigned to {target.dtype} {target.shape}")


def _proj(node: UOp, fail: Fail) -> None:
    owner, k = node.src[0], node.arg
    if owner.op == Op.APPEND:
        if k != 1 or node.dtype is not int32:
            fail("append_where gives an array and an int32")
        return
    if owner.op not in CONTROL or not 0 <= k < owner.arg.count:
        fail(f"result {k} of {owner!r}")
    first = owner.src[k if owner.op in (Op.LOOP, Op.SERIAL) else 1 + k]
    if node.dtype is not first.dtype:
        fail(f"result {k} has the type {first.dtype}, not {node.dtype}")


def _buffer(node: UOp, fail: Fail) -> None:
    if not isinstance(node.arg, BufferArg) or not _equal(node.shape, node.arg.shape):
        fail("memory has the shape that its argument tells")


_SHAPES: dict[str, Callable[[UOp, Fail], None]] = {
    Op.BUFFER: _buffer, Op.RESHAPE: _reshape, Op.PERMUTE: _permute, Op.EXPAND: _expand, Op.PAD: _pad, Op.SHRINK: _shrink,
    Op.FLIP: _flip, Op.STRIDE: _stride, Op.STACK: _stack, Op.REDUCE: _reduce, Op.GATHER: _gather, Op.SCATTER: _scatter,
    Op.CONTIGUOUS: _contiguous, Op.ASSIGN: _assign, Op.PROJ: _proj,
}  # fmt: skip
