"""What both forms of traversal share: hits, reciprocal directions, and when a triangle is hit.

No ray passes between triangles that share an edge or a vertex (Woop, Benthin and Wald, "Watertight Ray/Triangle Intersection", JCGT
2013). Space is sheared along the ray, so that it becomes a point, the origin of a plane, and vertices become points of that plane, the
same ones for every triangle that has them. The side of an edge is the sign of x0 y1 - y0 x1, had by comparing the two products, each
rounded: rounding can make them equal, which counts as inside for both neighbours, but never turns the sign. Judging the difference
would not do, for it may be a fused multiply-add, which rounds one of the products only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from engine import Tensor, where
from renderer.vec import Vec3

NOTHING = -1  # `Hit.slot` where a ray hits nothing
DONE = 2**31 - 1  # no node: what lies below the first entry of a stack, and more than any distance's bits


class Hit(NamedTuple):
    """Nearest hit: `t` in units of the ray's direction, `slot` = leaf * slots + place in the leaf, NOTHING where there is none."""

    t: Any
    slot: Any


def inverse_of(direction: Vec3) -> Vec3:
    """1 / direction; components too small to divide by count as the smallest that can."""
    return direction.map(lambda c: 1.0 / where(c.abs() < 1e-18, where(c < 0, -1e-18, 1e-18), c))


def covered(a: Any, b: Any, c: Any) -> Tensor:
    """Whether triangles of the sheared plane cover its origin, edges included (see the head of the file)."""
    ab, ba = a.x * b.y, a.y * b.x
    bc, cb = b.x * c.y, b.y * c.x
    ca, ac = c.x * a.y, c.y * a.x
    covered: Tensor = ((ab >= ba) & (bc >= cb) & (ca >= ac)) | ((ab <= ba) & (bc <= cb) & (ca <= ac))
    return covered
