"""Lanes that walk alone: each ray with a stack of its own, in a binary tree laid out in rows of four floats.

The form for devices on which a lane is alone (groups of one: graphics processors, and processors through OpenGL or OpenCL). Their
hardware hides what lanes do differently, as long as they are at the same kind of work: so a ray goes down to a leaf in one loop, and
through the leaf in another (Aila and Laine, "Understanding the Efficiency of Ray Traversal on GPUs", 2009). Of two children the nearer one
is visited first, the other waits on the stack. Narrow nodes are best, since nothing tests children side by side.

Such devices load four floats at the price of one, so tables are rows of four: what belongs to one box, one pair, stands together (see
`rows`). A reference to a child is one number: above 0 a node, below 0 the pair -1 - number, the first of a leaf; 0 is what lies at the
bottom of the stack, so that each loop asks for a sign only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from engine import LocalArray, Tensor, cond, local_array, where, while_loop
from renderer.bvh.intersect import NOTHING, Hit, Pair, Plane, approached, covered_pair, distance_to, entered, inverse_of, plane_of
from renderer.bvh.rows import DONE, ROOT
from renderer.vec import Ray, Vec3


@dataclass(frozen=True)
class LoneBVH:
    """A binary tree on the device, in the rows that `rows.tree_rows` makes, and what shapes the code."""

    nodes: Tensor  # float32[nodes, 16]
    pairs: Tensor  # float32[pairs, 20 where pairs are flat, else 24]
    box: Any  # float32[2, 3]: all boxes lie within
    stack: int = field(metadata={"static": True})
    flat: bool = field(metadata={"static": True})  # pairs lie in one plane
    form: ClassVar[Literal["lone"]] = "lone"

    def approach(self, ray: Ray) -> Ray:
        """The ray moved forward to where it enters the scene's box, if it begins outside."""
        return approached(self.box, ray)

    def triangle(self, slot: Tensor) -> Tensor:
        """int32: the number of the triangle of a hit."""
        return slot

    def closest(self, ray: Ray, t_max: Any) -> Hit:
        """The nearest hit with 0 < t < t_max."""
        plane = plane_of(ray)

        def step(node: Tensor, top: Tensor, stack: LocalArray, t: Tensor, slot: Tensor) -> Any:
            node, top, stack = self._descended(ray, node, top, stack, t, nearest=True)

            def test(node: Tensor, top: Tensor, t: Tensor, slot: Tensor) -> Any:
                pair, numbers, last = self._pair(-1 - node)
                following, below = where(last, stack[top], node - 1), top - where(last, 1, 0)
                return following, below, *self._nearer(plane, pair, numbers, t, slot)

            node, top, t, slot = while_loop(lambda node, top, t, slot: node < 0, test, (node, top, t, slot))
            return node, top, stack, t, slot

        start = (Tensor(ROOT), Tensor(0), self._stack(), t_max, Tensor(NOTHING))
        _, _, _, t, slot = while_loop(lambda node, top, stack, t, slot: node != DONE, step, start)
        return Hit(t, slot)

    def closest_alike(self, ray: Ray, t_max: Any) -> Hit:
        """The nearest hit, for rays that go about the same way: a lane that is alone does not care."""
        return self.closest(ray, t_max)

    def any(self, ray: Ray, t_max: Any) -> Tensor:
        """bool: whether anything is hit with 0 < t < t_max. Children are visited in whatever order: one hit is enough."""
        plane = plane_of(ray)

        def step(node: Tensor, top: Tensor, stack: LocalArray, found: Tensor) -> Any:
            node, top, stack = self._descended(ray, node, top, stack, t_max, nearest=False)

            def test(node: Tensor, top: Tensor, found: Tensor) -> Any:
                pair, _, last = self._pair(-1 - node)
                blocked = self._blocks(plane, pair, t_max)
                following = where(last, stack[top], node - 1)
                return where(blocked, DONE, following), top - where(last, 1, 0), blocked

            node, top, found = while_loop(lambda node, top, found: node < 0, test, (node, top, found))
            return node, top, stack, found

        start = (Tensor(ROOT), Tensor(0), self._stack(), Tensor(False))
        result: Tensor = while_loop(lambda node, top, stack, found: node != DONE, step, start)[3]
        return result

    def _stack(self) -> LocalArray:
        return local_array(self.stack, "int32").set(0, DONE)

    def _descended(self, ray: Ray, node: Tensor, top: Tensor, stack: LocalArray, t: Any, *, nearest: bool) -> tuple[Any, Any, LocalArray]:
        """From a node down to a leaf, or to the end. `nearest`: by way of the nearest children."""
        inverse = inverse_of(ray.direction)
        shifted = ray.origin * inverse

        def visit(node: Tensor, top: Tensor, stack: LocalArray) -> Any:
            row = [self.nodes[node, k] for k in range(16)]
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

    def _pair(self, number: Tensor) -> tuple[Pair, tuple[Tensor, Tensor], Tensor]:
        """A pair, the numbers of its triangles, and whether it is the last of its leaf."""
        row = [self.pairs[number, k] for k in range(20 if self.flat else 24)]
        p, q, r, s, first, second = (Vec3(*row[k : k + 3]) for k in (0, 4, 8, 12, 16, 16 if self.flat else 20))
        return Pair(p, q, r, s, first, second), (row[3].bitcast("int32"), row[7].bitcast("int32")), row[11] == 0

    def _nearer(self, plane: Plane, pair: Pair, numbers: tuple[Tensor, Tensor], t: Tensor, slot: Tensor) -> tuple[Tensor, Tensor]:
        """The nearer one of what is known and what the ray hits of a pair."""
        first, second = covered_pair(plane, pair)
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
        first, second = covered_pair(plane, pair)
        one = distance_to(plane.ray, pair.p, pair.first)
        if self.flat:
            blocks: Tensor = (first | second) & (one > 0) & (one < reach)
            return blocks
        two = distance_to(plane.ray, pair.p, pair.second)
        blocks = (first & (one > 0) & (one < reach)) | (second & (two > 0) & (two < reach))
        return blocks
