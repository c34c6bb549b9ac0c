"""Control flow that stays control flow: loops, branches, private arrays, votes, lanes one after another.

A function given to `while_loop`, `cond`, ... is called once (a loop's, a few times until the shapes of its state have settled),
with Tensors that stand for the values of whichever lane runs it; what it does is recorded as the body of a region. The shape of
the condition is the *lane shape*: every element of it is a lane, and lanes go their own ways. State has the lane shape, perhaps
with inner axes after it. Inside a body the lane shape of a nested loop or branch is that of the body around it.

A plain tuple as state is spread over the arguments of the functions; any other pytree arrives as one argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.frontend import tree
from engine.frontend.arrays import LocalArray, array_root
from engine.frontend.control_merge import Arms
from engine.frontend.lanes import Wider, body_over, check_lanes, common_lanes, joined, lane_shape, laned, serial_lanes, to_shape
from engine.frontend.printing import keep, runs_once, take_prints
from engine.frontend.tensor import Tensor, broadcast_shapes, is_eager, lift
from engine.frontend.trace import TraceError, current, next_number, note_line, user_line
from engine.graph.dtypes import ArrayType, DType, int32
from engine.graph.uop import Op, RegionArg, Shape, UOp


def _is_leaf(value: Any) -> bool:
    return isinstance(value, (Tensor, LocalArray, bool, int, float))


def _call(function: Callable[..., Any], state: Any) -> Any:
    return function(*state) if type(state) is tuple else function(state)


def _wrap(node: UOp) -> Tensor | LocalArray:
    return LocalArray(node) if isinstance(node.dtype, ArrayType) else Tensor.of(node)


def _node(leaf: Any, like: UOp | None = None) -> UOp:
    if isinstance(leaf, LocalArray):
        current().check_array(leaf.uop)
        node = leaf.uop
    else:
        node = lift(leaf, like.dtype if like is not None else None).uop
    current().check_scope(node)
    return node


def _results(owner: UOp, like: Sequence[UOp], shapes: Sequence[Shape]) -> list[Tensor | LocalArray]:
    """What comes out of a control-flow node: values of the types of `like`. Raises TraceError for inner axes of dynamic size."""
    depth = len(owner.arg.lanes)
    for n, shape in zip(like, shapes, strict=True):
        for axis in range(depth, len(shape)) if depth and isinstance(n.dtype, DType) else ():
            if not isinstance(shape[axis], int):
                raise TraceError(
                    f"{user_line()}: axis {axis} of a body's result, which is not one of its lanes' {depth}, has a dynamic size; leave it "
                    "out of dims="
                )
    results = [_wrap(UOp.new(Op.PROJ, n.dtype, (owner,), k, s)) for k, (n, s) in enumerate(zip(like, shapes, strict=True))]
    if runs_once(owner):
        return [r.contiguous() if isinstance(r, Tensor) else r for r in results]
    return results


def while_loop(cond: Callable[..., Any], body: Callable[..., Any], state: Any) -> Any:
    """Per lane: while cond(state): state = body(state). Returns the state at which the lane left.

    cond returns a bool Tensor; body returns a tree like `state`, of the same dtypes. Raises TraceError, naming the user's line
    and the leaf, where they differ.
    """
    if is_eager():
        from engine.frontend import eager

        return eager.while_loop(cond, body, state)
    leaves, spec, paths = tree.flatten(state, _is_leaf)
    inits = [_node(leaf) for leaf in leaves]
    outer = lane_shape()
    lanes: Shape = outer if outer is not None else ()
    shapes = [laned(n.shape, lanes, p) for n, p in zip(inits, paths, strict=True)]
    trace = current()
    for init in inits:
        if isinstance(init.dtype, ArrayType):
            trace.consume(init)  # inside, the array has the versions that are the loop's state, and no others
    for _ in range(8):
        consumed = dict(trace.consumed)
        try:
            regions, test, nexts = _record_loop(cond, body, (inits, spec, paths), shapes, lanes)
            grown = [joined((n.shape, s), lanes, p) for n, s, p in zip(nexts, shapes, paths, strict=True)]
            if outer is None and not lanes and common_lanes(grown):
                raise Wider(common_lanes(grown))
        except Wider as wider:
            if outer is not None:
                raise
            lanes = broadcast_shapes(wider.shape, lanes)
            shapes = [laned(s, lanes, p) for s, p in zip(shapes, paths, strict=True)]
            trace.consumed = consumed
            continue
        if grown != shapes:
            shapes, trace.consumed = grown, consumed
            continue
        started = [to_shape(n, s, lanes) for n, s in zip(inits, shapes, strict=True)]
        with trace.reopen(*regions):
            ended = [to_shape(n, s, lanes) for n, s in zip(nexts, shapes, strict=True)]
        arg = RegionArg(regions, trace.region, len(inits), lanes)
        prints = take_prints(*regions)
        loop = keep(note_line(UOp.new(Op.LOOP, None, (*started, test, *ended, *prints), arg, lanes)), prints)
        return tree.unflatten(spec, _results(loop, inits, shapes))
    raise TraceError(f"{user_line()}: the shapes of a loop's state keep growing: {shapes}")


def _record_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    state: tuple[list[UOp], tree.Spec, list[str]],
    shapes: list[Shape],
    lanes: Shape,
) -> tuple[tuple[int, int], UOp, list[UOp]]:
    """One recording of a loop over these lanes: its regions, its condition, its next state. Raises Wider, TraceError."""
    inits, spec, paths = state
    trace = current()
    with trace.enter("loop") as region, body_over(lanes):
        variables = [UOp.new(Op.LOOPVAR, n.dtype, (), (region, k), s) for k, (n, s) in enumerate(zip(inits, shapes, strict=True))]
        test = lift(_call(cond, tree.unflatten(spec, [_wrap(v) for v in variables])))
        if not test.dtype.is_bool:
            raise TraceError(f"{user_line()}: the condition of a loop is a bool Tensor, not {test.dtype}")
        trace.check_scope(test.uop)
        check_lanes(test.shape, lanes, "a condition")
        with trace.enter("body") as inside:
            returned, spec2, paths2 = tree.flatten(_call(body, tree.unflatten(spec, [_wrap(v) for v in variables])), _is_leaf)
            nexts = [_node(leaf, v) for leaf, v in zip(returned, variables, strict=False)]
    if spec2 != spec:
        raise TraceError(
            f"{user_line()}: the body of a loop returns another structure than its state: {paths2 or 'nothing'} where "
            f"{paths or 'nothing'} came in"
        )
    roots = dict(zip(variables, inits, strict=True))
    for node, variable, init, path in zip(nexts, variables, inits, paths, strict=True):
        if node.dtype is not variable.dtype:
            raise TraceError(
                f"{user_line()}: state{path} of a loop is {variable.dtype} before and {node.dtype} after the body; cast() one of them"
            )
        if isinstance(node.dtype, ArrayType) and array_root(node, roots) is not array_root(init, {}):
            raise TraceError(f"{user_line()}: state{path} comes back from the loop as another local array than went in")
    return (region, inside), test.uop, nexts


def for_loop(n: Any, body: Callable[..., Any], state: Any) -> Any:
    """for i in range(n): state = body(i, *state). `n`: a number or an integer Tensor (of the lane shape: each lane its own count)."""
    count = lift(n, int32)

    def step(i: Tensor, inner: Any) -> tuple[Tensor, Any]:
        return i + 1, body(i, *inner) if type(inner) is tuple else body(i, inner)

    zero = Tensor(0, count.dtype)
    return while_loop(lambda i, _: i < count, step, (zero, state))[1]


def cond(predicate: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *args: Any) -> Any:
    """then(*args) for the lanes where the predicate holds, otherwise(*args) for the others: a branch, not a selection.

    Both return trees of one structure and the same dtypes. Raises TraceError, naming the leaf, where they differ.
    """
    if is_eager():
        from engine.frontend import eager

        return eager.cond(predicate, then, otherwise, *args)
    test = lift(predicate)
    if not test.dtype.is_bool:
        raise TraceError(f"{user_line()}: cond() takes a bool predicate, not {test.dtype}; compare first (x != 0)")
    return _branch(Op.COND, test, (then, otherwise), args)


def switch(index: Any, functions: Sequence[Callable[..., Any]], *args: Any) -> Any:
    """functions[index](*args), per lane; an index beyond the ends takes the nearest function. All return one structure.

    Functions that do the same but for constants become one, and these constants data of each case (see `control_merge`).
    """
    if is_eager():
        from engine.frontend import eager

        return eager.switch(index, functions, *args)
    selector = lift(index)
    if not selector.dtype.is_int:
        raise TraceError(f"{user_line()}: switch() takes an integer index, not {selector.dtype}")
    if not functions:
        raise TraceError(f"{user_line()}: switch() of no functions")
    last = min(len(functions) - 1, int(selector.dtype.max))
    return _branch(Op.SWITCH, selector.clip(0, last).cast(int32), tuple(functions), args)


def _branch(op: str, selector: Tensor, functions: tuple[Callable[..., Any], ...], args: tuple[Any, ...]) -> Any:
    outer = lane_shape()
    lanes: Shape = outer if outer is not None else selector.shape
    current().check_scope(selector.uop)
    check_lanes(selector.shape, lanes, "a condition")
    while True:
        consumed = dict(current().consumed)
        try:
            return _record_branch(op, selector, functions, args, lanes)
        except Wider as wider:
            if outer is not None:
                raise
            lanes = wider.shape
            current().consumed = consumed


def _record_branch(op: str, selector: Tensor, functions: tuple[Callable[..., Any], ...], args: tuple[Any, ...], lanes: Shape) -> Any:
    """One recording of a branch over these lanes. Raises Wider, TraceError."""
    trace = current()
    before, after = dict(trace.consumed), dict(trace.consumed)
    regions: list[int] = []
    places: list[int] = []
    arms: list[list[UOp]] = []
    given: list[list[Any]] = []
    first: tuple[Any, list[str]] | None = None
    for function in functions:
        trace.consumed = dict(before)
        places.append(next_number())
        with trace.enter("arm") as region, body_over(lanes):
            leaves, spec, paths = tree.flatten(function(*args), _is_leaf)
            nodes = [_node(leaf) for leaf in leaves]
        regions.append(region)
        after.update(trace.consumed)
        if first is None:
            first = (spec, paths)
        elif spec != first[0]:
            raise TraceError(f"{user_line()}: the branches of {op}() return different structures: {first[1]} and {paths}")
        arms.append(nodes)
        given.append(leaves)
    assert first is not None
    trace.consumed = after
    for k, path in enumerate(first[1]):
        _same_type(op, arms, given, k, path)
    columns = [[n.shape for n in column] for column in zip(*arms, strict=True)]
    shapes = [joined(column, lanes, path) for column, path in zip(columns, first[1], strict=True)]
    if lane_shape() is None and not lanes and common_lanes(shapes):
        raise Wider(common_lanes(shapes))
    with trace.reopen(*regions):
        with_shapes = [[to_shape(n, s, lanes) for n, s in zip(arm, shapes, strict=True)] for arm in arms]
    chosen = to_shape(selector.uop, lanes, lanes)
    prints = take_prints(*regions)
    if op == Op.SWITCH and not prints:
        node = Arms(with_shapes, regions, places, lanes).switch(chosen, trace.region)
    else:
        arg = RegionArg(tuple(regions), trace.region, len(shapes), lanes)
        node = UOp.new(op, None, (chosen, *(n for arm in with_shapes for n in arm), *prints), arg, lanes)
    node = keep(note_line(node), prints)
    for arm in arms:
        for n in arm:
            if isinstance(n.dtype, ArrayType) and n not in trace.consumed:
                trace.consume(n)
    return tree.unflatten(first[0], _results(node, arms[0], shapes))


def _same_type(op: str, arms: list[list[UOp]], given: list[list[Any]], k: int, path: str) -> None:
    """Numbers among the k-th results take the type of the others; raises TraceError where types or arrays differ."""
    firm = [arm[k].dtype for arm in arms if arm[k].op != Op.CONST]
    if firm and isinstance(firm[0], DType):
        for arm, leaves in zip(arms, given, strict=True):
            if arm[k].op == Op.CONST:
                arm[k] = lift(arm[k].arg if isinstance(leaves[k], Tensor) else leaves[k], firm[0]).uop
    column = [arm[k] for arm in arms]
    kinds = {repr(n.dtype): n.dtype for n in column}
    if len(kinds) > 1:
        raise TraceError(f"{user_line()}: the branches of {op}() return {' and '.join(kinds)} for result{path}; cast() one of them")
    if isinstance(column[0].dtype, ArrayType) and len({array_root(n, {}) for n in column}) > 1:
        raise TraceError(f"{user_line()}: the branches of {op}() return different local arrays for result{path}")


def serial(function: Callable[..., Any], *args: Any) -> Any:
    """function(*args), the lanes of a group one after another, inner axes across the SIMD unit. The values are those of function(*args)."""
    if is_eager():
        from engine.frontend import eager

        return eager.serial(function, *args)
    trace = current()
    outer = lane_shape()
    lanes: Shape = outer if outer is not None else ()
    given = [leaf.shape for leaf in tree.flatten(args, _is_leaf)[0] if isinstance(leaf, Tensor)]
    while True:
        consumed = dict(trace.consumed)
        try:
            with trace.enter("serial") as region, body_over(lanes):
                returned, spec, paths = tree.flatten(function(*args), _is_leaf)
                nodes = [_node(leaf) for leaf in returned]
            common = serial_lanes(given, [n.shape for n in nodes])
            if outer is None and not lanes and common:
                raise Wider(common)
            break
        except Wider as wider:
            if outer is not None:
                raise
            lanes = wider.shape
            trace.consumed = consumed
    for node, path in zip(nodes, paths, strict=True):
        if isinstance(node.dtype, ArrayType):
            raise TraceError(f"{user_line()}: serial() returns a local array (result{path}); return what is read from it")
    shapes = [laned(n.shape, lanes, p) for n, p in zip(nodes, paths, strict=True)]
    with trace.reopen(region):
        nodes = [to_shape(n, s, lanes) for n, s in zip(nodes, shapes, strict=True)]
    prints = take_prints(region)
    arg = RegionArg((region,), trace.region, len(nodes), lanes)
    node = keep(note_line(UOp.new(Op.SERIAL, None, (*nodes, *prints), arg, lanes)), prints)
    return tree.unflatten(spec, _results(node, nodes, shapes))
