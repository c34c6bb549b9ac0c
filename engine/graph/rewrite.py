"""Rewrite rules as data.

A rule is a pattern and a function: where the pattern matches a node, the function is called with the nodes that the pattern
named and returns the node to put in its place, or None to decline. `Rules` is a table of rules, tried in order.
`Rules.simplify(node)` applies rules to one node whose sources are simplified already, until none fits; `rewrite` applies them
to a whole graph, sources first, without recursion.

    x, z = var("x"), const("z", test=lambda z: z.arg == 0)
    Rules([(pattern(Op.ADD, x, z, kinds="iu"), lambda x, z: x)])

Simplifying happens for every node that lowering makes, so it has to cost next to nothing where no rule fits. Which rules can fit
depends mostly on the operation, on the kind of its type and on the operations of its sources. For each such combination that
comes up the candidates are picked from the table once; most combinations have none, and then a look into a dict is all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from engine.graph.dtypes import DType
from engine.graph.uop import COMMUTATIVE, Op, UOp, toposort

Test = Callable[[UOp], bool]


class Pattern:
    """What a node must look like. `name` binds the node; equal names must bind the same node.

    kinds: letters of the kinds of type that fit ("iu": integers; empty: all). The sources of a commutative operation are tried in
    both orders, and the first that fits stays; with `ordered`, in their own order only.
    """

    __slots__ = ("kinds", "name", "op", "ordered", "sources", "test")

    def __init__(
        self,
        op: str | None = None,
        sources: tuple[Pattern, ...] | None = None,
        name: str | None = None,
        test: Test | None = None,
        kinds: str = "",
        ordered: bool = False,
    ) -> None:
        self.op, self.sources, self.name, self.test, self.kinds = op, sources, name, test, kinds
        self.ordered = ordered or op not in COMMUTATIVE

    def possible(self, op: str, kind: str, source_ops: tuple[str, ...]) -> bool:
        """False where no node of this operation and kind, with sources of these operations, can match."""
        if (self.op is not None and self.op != op) or (self.kinds and kind not in self.kinds):
            return False
        if self.sources is None:
            return True
        if len(self.sources) != len(source_ops):
            return False
        orders = [source_ops] if self.ordered else [source_ops, source_ops[::-1]]
        return any(all(p.op is None or p.op == o for p, o in zip(self.sources, ops, strict=True)) for ops in orders)

    def match(self, node: UOp, bound: dict[str, UOp]) -> bool:
        """True where the node fits; fills `bound`."""
        if self.op is not None and node.op != self.op:
            return False
        if self.kinds and (not isinstance(node.dtype, DType) or node.dtype.kind not in self.kinds):
            return False
        if self.name is not None and bound.setdefault(self.name, node) is not node:
            return False
        if self.test is not None and not self.test(node):
            return False
        if self.sources is None:
            return True
        if len(self.sources) != len(node.src):
            return False
        if self.ordered:
            return all(p.match(s, bound) for p, s in zip(self.sources, node.src, strict=True))
        saved = dict(bound)
        first, second = self.sources
        if first.match(node.src[0], bound) and second.match(node.src[1], bound):
            return True
        bound.clear()
        bound.update(saved)
        return first.match(node.src[1], bound) and second.match(node.src[0], bound)


def pattern(
    op: str, *sources: Pattern, name: str | None = None, test: Test | None = None, kinds: str = "", ordered: bool = False
) -> Pattern:
    """A node of this operation with these sources (none given: any)."""
    return Pattern(op, sources or None, name, test, kinds, ordered)


def var(name: str, test: Test | None = None) -> Pattern:
    """Any node, under this name."""
    return Pattern(None, None, name, test)


def const(name: str, test: Test | None = None) -> Pattern:
    """A constant, under this name."""
    return Pattern(Op.CONST, None, name, test)


Rule = tuple[Pattern, Callable[..., UOp | None]]


class Rules:
    """A table of rules; the first that fits wins."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = list(rules)
        self._candidates: dict[tuple[Any, ...], tuple[Rule, ...]] = {}

    def __add__(self, other: Rules) -> Rules:
        return Rules([*self.rules, *other.rules])

    def candidates(self, node: UOp) -> tuple[Rule, ...]:
        """The rules that can fit a node of this form."""
        dtype, src = node.dtype, node.src
        kind = dtype.kind if type(dtype) is DType else ""
        if len(src) == 2:
            key: tuple[Any, ...] = (node.op, kind, src[0].op, src[1].op)
        elif len(src) == 1:
            key = (node.op, kind, src[0].op)
        else:
            key = (node.op, kind, *[s.op for s in src])
        found = self._candidates.get(key)
        if found is None:
            found = tuple(rule for rule in self.rules if rule[0].possible(node.op, kind, key[2:]))
            self._candidates[key] = found
        return found

    def once(self, node: UOp) -> UOp | None:
        """The node that the first fitting rule makes of `node`; None where none fits."""
        for match, function in self.candidates(node):
            bound: dict[str, UOp] = {}
            if match.match(node, bound):
                made = function(**bound)
                if made is not None and made is not node:
                    return made
        return None

    def simplify(self, node: UOp, most: int = 64) -> UOp:
        """Applies rules at the top of `node` until none fits. Raises RuntimeError where they go on for ever."""
        for _ in range(most):
            made = self.once(node)
            if made is None:
                return node
            node = made
        raise RuntimeError(f"rewrite rules do not settle at {node!r}")


def rewrite(roots: Iterable[UOp], rules: Rules) -> dict[UOp, UOp]:
    """Every node below `roots` with what the rules make of it, sources first."""
    done: dict[UOp, UOp] = {}
    becomes: dict[UOp, UOp] = {}  # what a rule made of a node, while the inner nodes that it made with it wait for their turn
    for node in toposort(roots):
        stack = [node]
        while stack:
            top = stack[-1]
            if top in done:
                stack.pop()
            elif top in becomes:
                made = becomes[top]
                if made in done:
                    done[top] = done[made]
                else:
                    stack.append(made)
            elif waiting := [s for s in top.src if s not in done]:
                stack.extend(waiting)
            else:
                sources = tuple(done[s] for s in top.src)
                made = rules.simplify(top if sources == top.src else top.replace(src=sources))
                if all(done.get(s) is s for s in made.src):
                    done[top] = done[made] = made
                else:
                    becomes[top] = made
    return done
