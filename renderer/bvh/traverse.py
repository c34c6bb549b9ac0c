"""Rays against the wide BVH: closest hit and any hit, in two forms.

*Packet*: the group walks the tree together, with one stack and one node at a time that all its lanes test; loads of nodes and
triangles are the group's, not the lane's. Best while the lanes want about the same nodes, and for small scenes.
*Serial*: one ray after another; the children of a node (and the triangles of a leaf) lie across the SIMD unit. Best where rays go
their own ways. A node's nearest child is visited next, the others are appended to the stack with their distances, so that what
turns out to be behind the closest hit is dropped when it is popped.

No ray passes between triangles that share an edge or a vertex (Woop, Benthin and Wald, "Watertight Ray/Triangle Intersection", JCGT
2013). Space is sheared along the ray, so that it becomes a point, the origin of a plane, and vertices become points of that plane, the
same ones for every triangle that has them. The side of an edge is the sign of x0 y1 - y0 x1, had by comparing the two products, each
rounded: rounding can make them equal, which counts as inside for both neighbours, but never turns the sign. Judging the difference
would not do, for it may be a fused multiply-add, which rounds one of the products only. Slabs are tested by fused multiply-adds
against boxes that `upload` has widened by their rounding error for origins within the scene; `approach` takes others there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine import LocalArray, Tensor, arange, cond, for_loop, group, local_array, serial, where, while_loop
from renderer.vec import Ray, Vec3, cross, dot, greater, lesser

NOTHING = -1  # `Hit.slot` where a ray hits nothing
_DONE = 2**31 - 1  # what lies below the first entry of a packet's stack


class Hit(NamedTuple):
    """Nearest hit: `t` in units of the ray's direction, `slot` = leaf * leaf_size + place in the leaf, NOTHING where there is none."""

    t: Any
    slot: Any


@dataclass(frozen=True)
class DeviceBVH:
    """A `WideBVH` on the device: Tensors of the same shapes, and what shapes the code."""

    bounds: Tensor
    child: Tensor
    leaf_vertices: Tensor
    leaf_count: Tensor
    box: Tensor  # float32[2, 3]: all boxes lie within
    width: int = field(metadata={"static": True})
    leaf_size: int = field(metadata={"static": True})
    stack: int = field(metadata={"static": True})
    form: str = field(metadata={"static": True})  # "packet" | "serial"

    def approach(self, ray: Ray) -> Ray:
        """The ray moved forward to where it enters the scene's box, if it begins outside: boxes are tested with enough precision only
        from there. Distances count from the new origin."""
        inverse = _inverse(ray.direction)
        low, high = (Vec3(*(self.box[k, axis] for axis in range(3))) for k in range(2))
        one, other = (low - ray.origin) * inverse, (high - ray.origin) * inverse
        near = greater(greater(lesser(one.x, other.x), lesser(one.y, other.y)), lesser(one.z, other.z))
        far = lesser(lesser(greater(one.x, other.x), greater(one.y, other.y)), greater(one.z, other.z))
        return Ray(ray.at(where((near > 0) & (near <= far), near, 0.0)), ray.direction)

    def closest(self, ray: Ray, t_max: Any) -> Hit:
        """The nearest hit with 0 < t < t_max."""
        return closest_packet(self, ray, t_max) if self.form == "packet" else closest_serial(self, ray, t_max)

    def any(self, ray: Ray, t_max: Any) -> Tensor:
        """bool: whether anything is hit with 0 < t < t_max."""
        return any_packet(self, ray, t_max) if self.form == "packet" else any_serial(self, ray, t_max)


def _inverse(direction: Vec3) -> Vec3:
    """1 / direction; components too small to divide by count as the smallest that can."""
    return direction.map(lambda c: 1.0 / where(c.abs() < 1e-18, where(c < 0, -1e-18, 1e-18), c))


def _covered(a: Any, b: Any, c: Any) -> Tensor:
    """Whether triangles of the sheared plane cover its origin, edges included (see the head of the file)."""
    ab, ba = a.x * b.y, a.y * b.x
    bc, cb = b.x * c.y, b.y * c.x
    ca, ac = c.x * a.y, c.y * a.x
    covered: Tensor = ((ab >= ba) & (bc >= cb) & (ca >= ac)) | ((ab <= ba) & (bc <= cb) & (ca <= ac))
    return covered


# ---- packets ----


class _Plane(NamedTuple):
    """A ray and the two axes, across it, of its sheared plane."""

    ray: Ray
    x: Vec3
    y: Vec3


class _Point(NamedTuple):
    """A point of a sheared plane."""

    x: Tensor
    y: Tensor


def _plane(ray: Ray) -> _Plane:
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
    return _Plane(ray, x, y)


class _Test(NamedTuple):
    valid: Tensor  # the ray passes through, in front of its origin
    t: Tensor


def _triangle(plane: _Plane, v0: Vec3, v1: Vec3, v2: Vec3) -> _Test:
    """Each lane's ray against one triangle."""

    def project(v: Vec3) -> _Point:
        return _Point(dot(v, plane.x), dot(v, plane.y))

    origin, direction = plane.ray
    a, b, c = v0 - origin, v1 - origin, v2 - origin
    n = cross(v2 - v0, v0 - v1)  # not from a, b, c: it is one for the group, and does not depend on how far away the ray is
    t = dot(a, n) / dot(n, direction)
    return _Test(_covered(project(a), project(b), project(c)) & (t > 0), t)


def _leaf_triangle(bvh: DeviceBVH, leaf: Tensor, i: Any) -> tuple[Vec3, Vec3, Vec3]:
    """Vertices of triangle i of a leaf (one for the whole group)."""
    c = [bvh.leaf_vertices[leaf, k, i] for k in range(9)]
    return Vec3(*c[0:3]), Vec3(*c[3:6]), Vec3(*c[6:9])


def _boxes(bvh: DeviceBVH, node: Tensor, ray: Ray, inverse: Vec3, shifted: Vec3, t: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Whether each lane enters each child, and where."""
    hits, nears = [], []
    for k in range(bvh.width):
        plane = [bvh.bounds[node, row, k] for row in range(6)]
        x0, x1 = plane[0] * inverse.x - shifted.x, plane[3] * inverse.x - shifted.x
        y0, y1 = plane[1] * inverse.y - shifted.y, plane[4] * inverse.y - shifted.y
        z0, z1 = plane[2] * inverse.z - shifted.z, plane[5] * inverse.z - shifted.z
        near = greater(greater(lesser(x0, x1), lesser(y0, y1)), greater(lesser(z0, z1), 0.0))
        far = lesser(lesser(greater(x0, x1), greater(y0, y1)), lesser(greater(z0, z1), t))
        hits.append(near <= far)
        nears.append(near)
    return hits, nears


def _descend(
    bvh: DeviceBVH, node: Tensor, top: Tensor, stack: LocalArray, hits: list[Tensor], nears: list[Tensor]
) -> tuple[Tensor, Tensor, LocalArray]:
    """The next node of a packet, after testing the two children of one."""
    left, right = bvh.child[node, 0], bvh.child[node, 1]
    first, second = group.any(hits[0]), group.any(hits[1])

    def both(stack: LocalArray) -> tuple[Tensor, Tensor, LocalArray]:
        agree = group.count(hits[0] & (~hits[1] | (nears[0] <= nears[1])))
        left_first = agree * 2 >= group.count(hits[0] | hits[1])
        stack = stack.set(top + 1, where(left_first, right, left))
        return where(left_first, left, right), top + 1, stack

    def not_both(stack: LocalArray) -> tuple[Tensor, Tensor, LocalArray]:
        def one(stack: LocalArray) -> tuple[Tensor, Tensor, LocalArray]:
            return where(first, left, right), top, stack

        def none(stack: LocalArray) -> tuple[Tensor, Tensor, LocalArray]:
            return stack[top], top - 1, stack

        return cond(first | second, one, none, stack)  # type: ignore[no-any-return]

    return cond(first & second, both, not_both, stack)  # type: ignore[no-any-return]


def closest_packet(bvh: DeviceBVH, ray: Ray, t_max: Any) -> Hit:
    """The nearest hit, the group together."""
    inverse = _inverse(ray.direction)
    shifted = ray.origin * inverse
    plane = _plane(ray)

    def running(node: Tensor, top: Tensor, stack: LocalArray, t: Tensor, slot: Tensor) -> Tensor:
        return node != _DONE

    def step(node: Tensor, top: Tensor, stack: LocalArray, t: Tensor, slot: Tensor) -> Any:
        def inner(stack: LocalArray) -> Any:
            hits, nears = _boxes(bvh, node, ray, inverse, shifted, t)
            return (*_descend(bvh, node, top, stack, hits, nears), t, slot)

        def leaf(stack: LocalArray) -> Any:
            number = -1 - node

            def test(i: Tensor, t: Tensor, slot: Tensor) -> tuple[Tensor, Tensor]:
                found = _triangle(plane, *_leaf_triangle(bvh, number, i))
                nearer = found.valid & (found.t < t)
                return where(nearer, found.t, t), where(nearer, number * bvh.leaf_size + i, slot)

            t2, slot2 = for_loop(bvh.leaf_count[number], test, (t, slot))
            return stack[top], top - 1, stack, t2, slot2

        return cond(node >= 0, inner, leaf, stack)

    stack = local_array(bvh.stack + 2, "int32").set(0, _DONE)
    start = (Tensor(0), Tensor(0), stack, ray.direction.x * 0 + t_max, Tensor(NOTHING))
    _, _, _, t, slot = while_loop(running, step, start)
    return Hit(t, slot)


def any_packet(bvh: DeviceBVH, ray: Ray, t_max: Any) -> Tensor:
    """Whether anything is hit, the group together; it stops when every lane knows."""
    inverse = _inverse(ray.direction)
    shifted = ray.origin * inverse
    plane = _plane(ray)

    def running(node: Tensor, top: Tensor, stack: LocalArray, reach: Tensor) -> Tensor:
        return (node != _DONE) & group.any(reach > 0)

    def step(node: Tensor, top: Tensor, stack: LocalArray, reach: Tensor) -> Any:
        def inner(stack: LocalArray) -> Any:
            hits, nears = _boxes(bvh, node, ray, inverse, shifted, reach)
            return (*_descend(bvh, node, top, stack, hits, nears), reach)

        def leaf(stack: LocalArray) -> Any:
            number = -1 - node

            def test(i: Tensor, reach: Tensor) -> Tensor:
                found = _triangle(plane, *_leaf_triangle(bvh, number, i))
                return where(found.valid & (found.t < reach), -1.0, reach)

            return stack[top], top - 1, stack, for_loop(bvh.leaf_count[number], test, reach)

        return cond(node >= 0, inner, leaf, stack)

    stack = local_array(bvh.stack + 2, "int32").set(0, _DONE)
    start = (Tensor(0), Tensor(0), stack, ray.direction.x * 0 + t_max)
    reach: Tensor = while_loop(running, step, start)[3]
    return reach < 0


# ---- one ray after another ----


def _across(v: Vec3) -> Vec3:
    """A lane's vector beside an inner axis."""
    return v.map(lambda c: c[..., None])


class _Slabs(NamedTuple):
    """What a ray needs for boxes: rows of the near planes, reciprocals."""

    rows: Vec3
    inverse: Vec3
    shifted: Vec3


def _slabs(ray: Ray) -> _Slabs:
    inverse = _inverse(ray.direction)
    return _Slabs(inverse.map(lambda c: where(c < 0, 3, 0)), _across(inverse), _across(ray.origin * inverse))


def _children(bvh: DeviceBVH, node: Tensor, slabs: _Slabs, t: Tensor) -> tuple[Tensor, Tensor]:
    """Whether the ray enters each child before t, and where (inner axis: children)."""
    r, i, s = slabs
    nx, fx = bvh.bounds[node, r.x], bvh.bounds[node, 3 - r.x]
    ny, fy = bvh.bounds[node, r.y + 1], bvh.bounds[node, 4 - r.y]
    nz, fz = bvh.bounds[node, r.z + 2], bvh.bounds[node, 5 - r.z]
    near = greater(greater(nx * i.x - s.x, ny * i.y - s.y), greater(nz * i.z - s.z, 0.0))
    far = lesser(lesser(fx * i.x - s.x, fy * i.y - s.y), lesser(fz * i.z - s.z, t[..., None]))
    return near <= far, near


class _Sheared(NamedTuple):
    """A ray made to run along an axis: the axes' numbers (that of the direction's largest component last), shear, origin."""

    axes: Vec3
    shear: Vec3
    origin: Vec3


def _shear(ray: Ray) -> _Sheared:
    d, o = ray.direction, ray.origin
    ax, ay, az = d.x.abs(), d.y.abs(), d.z.abs()
    x_first, y_first = (ax >= ay) & (ax >= az), ay >= az

    def turned(v: Vec3) -> Vec3:
        """The components in the order of the axes, the main one last."""
        return Vec3(
            where(x_first, v.y, where(y_first, v.z, v.x)),
            where(x_first, v.z, where(y_first, v.x, v.y)),
            where(x_first, v.x, where(y_first, v.y, v.z)),
        )

    t = turned(d)
    scale = 1.0 / t.z
    return _Sheared(turned(Vec3(Tensor(0), Tensor(1), Tensor(2))), _across(Vec3(t.x * scale, t.y * scale, scale)), _across(turned(o)))


def _leaf_tests(bvh: DeviceBVH, leaf: Tensor, ray: _Sheared, t: Tensor) -> tuple[Tensor, Tensor]:
    """Whether the ray hits each triangle of a leaf before t, and where (inner axis: triangles)."""
    k, shear, origin = ray

    def corner(first: int) -> Vec3:
        z = bvh.leaf_vertices[leaf, k.z + first] - origin.z
        x = bvh.leaf_vertices[leaf, k.x + first] - origin.x
        y = bvh.leaf_vertices[leaf, k.y + first] - origin.y
        return Vec3(x - shear.x * z, y - shear.y * z, z)

    def weight(p: Vec3, q: Vec3) -> Tensor:
        result: Tensor = (p.x * q.y - p.y * q.x).abs()
        return result

    a, b, c = corner(0), corner(3), corner(6)
    u, v, w = weight(b, c), weight(c, a), weight(a, b)
    distance = (u * a.z + v * b.z + w * c.z) * shear.z / (u + v + w)
    return _covered(a, b, c) & (distance > 0) & (distance < t[..., None]), distance


def _on_plane(bvh: DeviceBVH, ray: Ray, t: Tensor, slot: Tensor) -> Tensor:
    """The distance of a hit once more, from the triangle's plane: an error of the vertices' distance along the plane does not enter,
    unless the ray runs along it too."""

    def again() -> Tensor:
        leaf, place = slot // bvh.leaf_size, slot % bvh.leaf_size
        c = [bvh.leaf_vertices[leaf, k, place] for k in range(9)]
        v0 = Vec3(*c[0:3])
        n = cross(Vec3(*c[6:9]) - v0, v0 - Vec3(*c[3:6]))
        slope = dot(n, ray.direction)
        distance = dot(v0 - ray.origin, n) / slope
        steep = slope * slope > 1e-6 * dot(n, n) * dot(ray.direction, ray.direction)
        return where(steep & (distance > 0), distance, t)

    result: Tensor = cond(slot >= 0, again, lambda: t)
    return result


def closest_serial(bvh: DeviceBVH, ray: Ray, t_max: Any) -> Hit:
    """The nearest hit, one ray after another."""
    width = bvh.width
    places = arange(width)

    def trace(ray: Ray, t_max: Tensor) -> Hit:
        slabs, sheared = _slabs(ray), _shear(ray)

        def running(node: Tensor, top: Tensor, nodes: LocalArray, nears: LocalArray, t: Tensor, slot: Tensor) -> Tensor:
            return top >= 0

        def step(node: Tensor, top: Tensor, nodes: LocalArray, nears: LocalArray, t: Tensor, slot: Tensor) -> Any:
            def pop(nodes: LocalArray, nears: LocalArray, top: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
                """The next entry that is not behind t already; top is below it afterwards."""

                def behind(top: Tensor) -> Tensor:
                    return (top > 0) & (nears[top] >= t)

                top = while_loop(behind, lambda top: top - 1, top)
                return nodes[top], top - 1

            def inner(nodes: LocalArray, nears: LocalArray) -> Any:
                hits, near = _children(bvh, node, slabs, t)
                children = bvh.child[node]
                # nearest child: the smallest distance with the child's place in its last bits
                key = where(hits, (near.bitcast("int32") & -width) | places, _DONE).min(-1)

                def found(nodes: LocalArray, nears: LocalArray) -> Any:
                    place = key & (width - 1)
                    others = hits & (places != place[..., None])
                    nodes, above = nodes.append_where(top + 1, others, children)
                    nears, _ = nears.append_where(top + 1, others, near)
                    return bvh.child[node, place], above - 1, nodes, nears, t, slot

                def missed(nodes: LocalArray, nears: LocalArray) -> Any:
                    following, below = pop(nodes, nears, top, t)
                    return following, below, nodes, nears, t, slot

                return cond(key != _DONE, found, missed, nodes, nears)

            def leaf(nodes: LocalArray, nears: LocalArray) -> Any:
                number = -1 - node
                hits, distance = _leaf_tests(bvh, number, sheared, t)

                def closer() -> tuple[Tensor, Tensor]:
                    bits = where(hits, distance.bitcast("int32"), _DONE)
                    nearest = bits.min(-1)
                    place = (bits == nearest[..., None]).first_true(-1)
                    return nearest.bitcast("float32"), number * bvh.leaf_size + place

                t2, slot2 = cond(hits.any(-1), closer, lambda: (t, slot))
                following, below = pop(nodes, nears, top, t2)
                return following, below, nodes, nears, t2, slot2

            return cond(node >= 0, inner, leaf, nodes, nears)

        nodes = local_array(bvh.stack + width + 2, "int32").set(0, 0)
        nears = local_array(bvh.stack + width + 2, "float32").set(0, 0.0)
        start = (Tensor(0), Tensor(0), nodes, nears, t_max, Tensor(NOTHING))
        result = while_loop(running, step, start)
        return Hit(_on_plane(bvh, ray, result[4], result[5]), result[5])

    hit: Hit = serial(trace, ray, ray.direction.x * 0 + t_max)
    return hit


def any_serial(bvh: DeviceBVH, ray: Ray, t_max: Any) -> Tensor:
    """Whether anything is hit, one ray after another."""
    width = bvh.width

    def trace(ray: Ray, t_max: Tensor) -> Tensor:
        slabs, sheared = _slabs(ray), _shear(ray)

        def running(top: Tensor, nodes: LocalArray, found: Tensor) -> Tensor:
            return (top >= 0) & ~found

        def step(top: Tensor, nodes: LocalArray, found: Tensor) -> Any:
            node = nodes[top]

            def inner(nodes: LocalArray) -> Any:
                hits, _ = _children(bvh, node, slabs, t_max)
                nodes, above = nodes.append_where(top, hits, bvh.child[node])
                return above - 1, nodes, found

            def leaf(nodes: LocalArray) -> Any:
                hits, _ = _leaf_tests(bvh, -1 - node, sheared, t_max)
                return top - 1, nodes, hits.any(-1)

            return cond(node >= 0, inner, leaf, nodes)

        nodes = local_array(bvh.stack + width + 2, "int32").set(0, 0)
        return while_loop(running, step, (Tensor(0), nodes, Tensor(False)))[2]  # type: ignore[no-any-return]

    occluded: Tensor = serial(trace, ray, ray.direction.x * 0 + t_max)
    return occluded
