"""Lanes that walk alone: each ray with a stack of its own, in a binary tree laid out in rows of four floats.

The form for devices on which a lane is alone (groups of one: graphics processors, and processors through OpenGL or OpenCL). Their
hardware hides what lanes do differently, as long as they are at the same kind of work: so a ray goes down to a leaf in one loop, and
through the leaf in another (Aila and Laine, "Understanding the Efficiency of Ray Traversal on GPUs", 2009). Of two children the nearer one
is visited first, the other waits on the stack. Narrow nodes are best, since nothing tests children side by side.

Such devices load four floats at the price of one, so tables are rows of four: what belongs to one box, one pair, stands together (see
`rows`). A reference to a child is one number: above 0 a node, below 0 the pair -1 - number, the first of a leaf; 0 is what lies at the
bottom of the stack, so that each loop asks for a sign only. In a tree of placings the leaf -1 - number is a placing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from engine import LocalArray, Tensor, cond, local_array, where, while_loop
from renderer.bvh.intersect import NOTHING, Hit, Pair, Plane, Sides, approached, covered_pair, distance_to, entered, inverse_of, plane_of
from renderer.bvh.placings import Placings
from renderer.bvh.rows import DONE, ROOT
from renderer.vec import Ray, Vec3


@dataclass(frozen=True)
class LoneTop:
    """The tree of placings above the parts' trees: rows as those of `LoneBVH`, a placing in each leaf."""

    nodes: Tensor  # float32[nodes, 16]
    placings: Placings
    stack: int = field(metadata={"static": True})


@dataclass(frozen=True)
class LoneBVH:
    """A binary tree on the device, in the rows that `rows.tree_rows` makes, and what shapes the code; with `top`, the trees of parts."""

    nodes: Tensor  # float32[nodes, 16]
    pairs: Tensor  # float32[pairs, 20 where pairs are flat, else 24]
    box: Any  # float32[2, 3]: all boxes lie within, in the world
    stack: int = field(metadata={"static": True})
    flat: bool = field(metadata={"static": True})  # pairs lie in one plane
    sides: Sides = field(metadata={"static": True})
    top: LoneTop | None = None
    form: ClassVar[Literal["lone"]] = "lone"

    def approach(self, ray: Ray) -> Ray:
        """The ray moved forward to where it enters the scene's box, if it begins outside."""
        return approached(self.box, ray)

    def triangle(self, slot: Tensor) -> Tensor:
        """int32: the number of the triangle of a hit."""
        return slot

    def closest(self, ray: Ray, t_max: Any) -> Hit:
        """The nearest hit with 0 < t < t_max."""
        top = self.top
        if top is None:
            return Hit(*self._nearest(ROOT, ray, t_max))

        def leaf(number: Tensor, t: Tensor, slot: Tensor, placing: Tensor) -> Any:
            inside = top.placings.enter(-1 - number, ray)
            reach = where(inside.meets, t - inside.near, -1.0)
            distance, found = self._nearest(inside.root, inside.ray, reach)
            hit = found != NOTHING
            known = where(hit, inside.near + distance, t), where(hit, found, slot), where(hit, -1 - number, placing)
            return Tensor(True), number, known

        start = (t_max, Tensor(NOTHING), Tensor(0))
        return Hit(*_walk(top.nodes, top.stack, ROOT, ray, start, leaf))

    def _nearest(self, root: Any, ray: Ray, t_max: Any) -> tuple[Tensor, Tensor]:
        """The nearest hit below a node."""
        plane = plane_of(ray, self.sides)

        def leaf(number: Tensor, t: Tensor, slot: Tensor) -> Any:
            pair, numbers, last = self._pair(-1 - number)
            return last, number - 1, self._nearer(plane, pair, numbers, t, slot)

        return _walk(self.nodes, self.stack, root, ray, (t_max, Tensor(NOTHING)), leaf)

    def closest_alike(self, ray: Ray, t_max: Any) -> Hit:
        """The nearest hit, for rays that go about the same way: a lane that is alone does not care."""
        return self.closest(ray, t_max)

    def any(self, ray: Ray, t_max: Any) -> Tensor:
        """bool: whether anything is hit with 0 < t < t_max. Children are visited in whatever order: one hit is enough."""
        top = self.top
        if top is None:
            return self._meets(ROOT, ray, t_max)

        def leaf(number: Tensor) -> Any:
            inside = top.placings.enter(-1 - number, ray)
            return Tensor(True), number, self._meets(inside.root, inside.ray, where(inside.meets, t_max - inside.near, -1.0))

        return _meets_walk(top.nodes, top.stack, ROOT, ray, t_max, leaf)

    def _meets(self, root: Any, ray: Ray, t_max: Any) -> Tensor:
        """Whether anything is hit below a node."""
        plane = plane_of(ray, self.sides)

        def leaf(number: Tensor) -> Any:
            pair, _, last = self._pair(-1 - number)
            return last, number - 1, self._blocks(plane, pair, t_max)

        return _meets_walk(self.nodes, self.stack, root, ray, t_max, leaf)

    def _pair(self, number: Tensor) -> tuple[Pair, tuple[Tensor, Tensor], Tensor]:
        """A pair, the numbers of its triangles, and whether it is the last of its leaf."""
        row = [self.pairs[number, k] for k in range(20 if self.flat else 24)]
        p, q, r, s, first, second = (Vec3(*row[k : k + 3]) for k in (0, 4, 8, 12, 16, 16 if self.flat else 20))
        pair = Pair(p, q, r, s, first, second, row[15] if self.sides == "mixed" else None)
        return pair, (row[3].bitcast("int32"), row[7].bitcast("int32")), row[11] == 0

    def _nearer(self, plane: Plane, pair: Pair, numbers: tuple[Tensor, Tensor], t: Tensor, slot: Tensor) -> tuple[Tensor, Tensor]:
        """The nearer one of what is known and what the ray hits of a pair."""
        first, second = covered_pair(plane, pair, self.sides)
        one = distance_to(plane.ray, pair.p, pair.first)
        if self.flat:
            nearer = (first | second) & (one > 0) & (one < t)
            return where(nearer, one, t), where(nearer, where(first, *numbers), slot)
        nearer = first & (one > 0) & (one < t)
        t, slot = where(nearer, one, t), where(nearer, numbers[0], slot)
        two = distance_to(plane.ray, pair.p, pair.second)
        nearer = second & (two > 0) & (two < t)
        return where(nearer, two, t), where(nearer, numbers[1], slot)

    def _blocks(self, plane: Plane, pair: Pair, reach: Any) -> Tensor:
        """Whether the ray hits anything of a pair before `reach`."""
        first, second = covered_pair(plane, pair, self.sides)
        one = distance_to(plane.ray, pair.p, pair.first)
        if self.flat:
            blocks: Tensor = (first | second) & (one > 0) & (one < reach)
            return blocks
        two = distance_to(plane.ray, pair.p, pair.second)
        blocks = (first & (one > 0) & (one < reach)) | (second & (two > 0) & (two < reach))
        return blocks


def _walk(
    table: Tensor, stack: int, root: Any, ray: Ray, known: tuple[Any, ...], leaf_of: Callable[..., tuple[Any, Any, tuple[Any, ...]]]
) -> tuple[Any, ...]:
    """From a node down, the nearest first. `known`: the distance behind which nothing counts, and whatever else is known of what is there;
    `leaf_of(number, *known)`: whether a leaf ends with this, what comes next in it, and what is known then."""

    def step(node: Tensor, top: Tensor, stack: LocalArray, *known: Any) -> Any:
        node, top, stack = _descended(table, ray, node, top, stack, known[0], nearest=True)

        def test(node: Tensor, top: Tensor, *known: Any) -> Any:
            last, following, after = leaf_of(node, *known)
            return where(last, stack[top], following), top - where(last, 1, 0), *after

        return _laid(while_loop(lambda node, top, *known: node < 0, test, (node, top, *known)), stack)

    start = (Tensor(root), Tensor(0), local_array(stack, "int32").set(0, DONE), *known)
    return while_loop(lambda node, *rest: node != DONE, step, start)[3:]  # type: ignore[no-any-return]


def _laid(state: tuple[Any, ...], stack: LocalArray) -> tuple[Any, ...]:
    node, top, *known = state
    return node, top, stack, *known


def _meets_walk(
    table: Tensor, stack: int, root: Any, ray: Ray, t_max: Any, leaf_of: Callable[[Tensor], tuple[Any, Any, Tensor]]
) -> Tensor:
    """From a node down, until something in a leaf is met: whether it is. `leaf_of(number)`: whether a leaf ends with this, what comes next
    in it, and whether this is met."""

    def step(node: Tensor, top: Tensor, stack: LocalArray, found: Tensor) -> Any:
        node, top, stack = _descended(table, ray, node, top, stack, t_max, nearest=False)

        def test(node: Tensor, top: Tensor, found: Tensor) -> Any:
            last, following, blocked = leaf_of(node)
            onward = where(last, stack[top], following)
            return where(blocked, DONE, onward), top - where(last, 1, 0), blocked

        node, top, found = while_loop(lambda node, top, found: node < 0, test, (node, top, found))
        return node, top, stack, found

    start = (Tensor(root), Tensor(0), local_array(stack, "int32").set(0, DONE), Tensor(False))
    result: Tensor = while_loop(lambda node, top, stack, found: node != DONE, step, start)[3]
    return result


def _descended(
    nodes: Tensor, ray: Ray, node: Tensor, top: Tensor, stack: LocalArray, t: Any, *, nearest: bool
) -> tuple[Any, Any, LocalArray]:
    """From a node down to a leaf, or to the end. `nearest`: by way of the nearest children."""
    inverse = inverse_of(ray.direction)
    shifted = ray.origin * inverse

    def visit(node: Tensor, top: Tensor, stack: LocalArray) -> Any:
        row = [nodes[node, k] for k in range(16)]
        one, here = entered(Vec3(*row[0:3]), Vec3(*row[4:7]), inverse, shifted, t)
        two, there = entered(Vec3(*row[8:11]), Vec3(*row[12:15]), inverse, shifted, t)
        first, second = row[3].bitcast("int32"), row[11].bitcast("int32")

        def both(stack: LocalArray) -> Any:
            if not nearest:
                return first, top + 1, stack.set(top + 1, second)
            swapped = there < here
            return where(swapped, second, first), top + 1, stack.set(top + 1, where(swapped, first, second))

        def at_most_one(stack: LocalArray) -> Any:
            following = cond(one | two, lambda: (where(one, first, second), top), lambda: (stack[top], top - 1))
            return *following, stack

        return cond(one & two, both, at_most_one, stack)

    return while_loop(lambda node, top, stack: node > 0, visit, (node, top, stack))  # type: ignore[no-any-return]
