"""What all forms of traversal share: hits, boxes, pairs of triangles, and when a triangle is hit.

No ray passes between triangles that share an edge or a vertex (Woop, Benthin and Wald, "Watertight Ray/Triangle Intersection", JCGT
2013). Space is sheared along the ray, so that it becomes a point, the origin of a plane, and vertices become points of that plane, the
same ones for every triangle that has them. The side of an edge is the sign of x0 y1 - y0 x1, had by comparing the two products, each
rounded: rounding can make them equal, which counts as inside for both neighbours, but never turns the sign. Judging the difference
would not do, for it may be a fused multiply-add, which rounds one of the products only.

Triangles may have two sides or a front only (`Sides`), which is then all that rays meet. Where that matters the sheared plane is turned
so that fronts go round its origin to the left: the side of a triangle costs nothing, and in a tree of fronts the test is half as long.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from engine import Tensor, where
from renderer.vec import Ray, Vec3, dot, greater, lesser, select

NOTHING = -1  # `Hit.slot` where a ray hits nothing
Sides = Literal["both", "front", "mixed"]  # of the triangles in a tree; mixed: each has a mark, above 0 where it has both
DONE = 2**31 - 1  # no node: what lies below the first entry of a stack, and more than any distance's bits


class Hit(NamedTuple):
    """Nearest hit: `t` in units of the ray's direction; `slot`: the place of the triangle in the tree, which knows its number
    (`triangle`), NOTHING where there is none; `placing`: the number of the placing that it belongs to, None in a tree without any."""

    t: Any
    slot: Any
    placing: Any = None


def inverse_of(direction: Vec3) -> Vec3:
    """1 / direction; components too small to divide by count as the smallest that can."""
    return direction.map(lambda c: 1.0 / where(c.abs() < 1e-18, where(c < 0, -1e-18, 1e-18), c))


def covered(a: Any, b: Any, c: Any, sides: Sides, mark: Any = None) -> Tensor:
    """Whether triangles of the sheared plane cover its origin, edges included (see the head of the file)."""
    ab, ba = a.x * b.y, a.y * b.x
    bc, cb = b.x * c.y, b.y * c.x
    ca, ac = c.x * a.y, c.y * a.x
    return faced(((ab >= ba) & (bc >= cb) & (ca >= ac)), ((ab <= ba) & (bc <= cb) & (ca <= ac)), sides, mark)


def faced(front: Tensor, back: Tensor, sides: Sides, mark: Any) -> Tensor:
    """Whether what is covered from the front, or from the back, is met."""
    if sides == "front":
        return front
    return front | (back if sides == "both" else back & (mark > 0))


# ---- Boxes ----


def approached(box: Any, ray: Ray) -> Ray:
    """The ray moved forward to where it enters a box (`box[k, axis]`: low corner, high corner), if it begins outside. Distances count from
    the new origin."""
    inverse = inverse_of(ray.direction)
    low, high = (Vec3(*(box[k, axis] for axis in range(3))) for k in range(2))
    one, other = (low - ray.origin) * inverse, (high - ray.origin) * inverse
    near = greater(greater(lesser(one.x, other.x), lesser(one.y, other.y)), lesser(one.z, other.z))
    far = lesser(lesser(greater(one.x, other.x), greater(one.y, other.y)), greater(one.z, other.z))
    return Ray(ray.at(where((near > 0) & (near <= far), near, 0.0)), ray.direction)


def entered(low: Vec3, high: Vec3, inverse: Vec3, shifted: Vec3, t: Tensor) -> tuple[Tensor, Tensor]:
    """Whether each lane's ray enters a box before t, and where. `inverse`: 1 / direction; `shifted`: origin / direction."""
    x0, x1 = low.x * inverse.x - shifted.x, high.x * inverse.x - shifted.x
    y0, y1 = low.y * inverse.y - shifted.y, high.y * inverse.y - shifted.y
    z0, z1 = low.z * inverse.z - shifted.z, high.z * inverse.z - shifted.z
    near = greater(greater(lesser(x0, x1), lesser(y0, y1)), greater(lesser(z0, z1), 0.0))
    far = lesser(lesser(greater(x0, x1), greater(y0, y1)), lesser(greater(z0, z1), t))
    return near <= far, near


# ---- Pairs of triangles ----


class Plane(NamedTuple):
    """A ray and the two axes, across it, of its sheared plane."""

    ray: Ray
    x: Vec3
    y: Vec3


class Point(NamedTuple):
    """A point of a sheared plane."""

    x: Tensor
    y: Tensor


class Pair(NamedTuple):
    """Two triangles (p, q, r) and (p, r, s) of a leaf, and the normals of both."""

    p: Vec3
    q: Vec3
    r: Vec3
    s: Vec3
    first: Vec3
    second: Vec3
    mark: Any = None


def plane_of(ray: Ray, sides: Sides) -> Plane:
    """The sheared plane of each lane's ray: two axes of space stay, the one that the ray runs along most goes."""
    d = ray.direction
    ax, ay, az = d.x.abs(), d.y.abs(), d.z.abs()
    x_main, y_main = (ax >= ay) & (ax >= az), ay >= az
    scale = -1.0 / where(x_main, d.x, where(y_main, d.y, d.z))
    x = Vec3(
        where(x_main, d.y * scale, where(y_main, 0.0, 1.0)),
        where(x_main, 1.0, where(y_main, d.z * scale, 0.0)),
        where(x_main, 0.0, where(y_main, 1.0, d.x * scale)),
    )
    y = Vec3(
        where(x_main, d.z * scale, where(y_main, 1.0, 0.0)),
        where(x_main, 0.0, where(y_main, d.x * scale, 1.0)),
        where(x_main, 1.0, where(y_main, 0.0, d.y * scale)),
    )
    if sides == "both":
        return Plane(ray, x, y)
    swapped = scale < 0  # seen along the main axis, not against it
    return Plane(ray, select(swapped, y, x), select(swapped, x, y))


def covered_pair(plane: Plane, pair: Pair, sides: Sides) -> tuple[Tensor, Tensor]:
    """Whether each lane's ray goes through the first, through the second triangle of a pair (see the head of the file)."""
    x, y = dot(plane.ray.origin, plane.x), dot(plane.ray.origin, plane.y)

    def along(v: Vec3, axis: Vec3, start: Tensor) -> Tensor:
        """v along the axis, from `start`. Every sum has one product: of two, compilers may fuse either, and would place one vertex
        differently in two triangles."""
        place: Tensor = v.x * axis.x + (v.y * axis.y + (v.z * axis.z - start))
        return place

    def project(v: Vec3) -> Point:
        return Point(along(v, plane.x, x), along(v, plane.y, y))

    p, q, r, s = (project(v) for v in pair[:4])

    def side(a: Point, b: Point) -> tuple[Tensor, Tensor]:
        """Whether the origin lies left of, right of an edge (both on it)."""
        one, other = a.x * b.y, a.y * b.x
        return one >= other, one <= other

    pq, qr, rs, sp = side(p, q), side(q, r), side(r, s), side(s, p)
    rp, pr = side(r, p), side(p, r)
    first = faced(pq[0] & qr[0] & rp[0], pq[1] & qr[1] & rp[1], sides, pair.mark)
    second = faced(pr[0] & rs[0] & sp[0], pr[1] & rs[1] & sp[1], sides, pair.mark)
    return first, second


def distance_to(ray: Ray, point: Vec3, normal: Vec3) -> Tensor:
    """Where each lane's ray meets a plane."""
    return dot(point - ray.origin, normal) / dot(normal, ray.direction)
