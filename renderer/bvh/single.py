"""One ray after another: the children of a node, and the triangles of a leaf, lie across the SIMD unit.

Best where rays go their own ways. Children lie along their node's longest side in the order of their slots, so the ray's direction
along that axis tells in which order it may meet them, without comparing distances: the first is visited next, the others are appended
to the stack, the last of them first, with their distances, so that what turns out to be behind the closest hit is dropped when it is
popped. (Seeking the nearest by its distance instead takes a reduction across the vector before the next node is known, and visits
more nodes, since the others stay in no order.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from engine import LocalArray, Tensor, arange, cond, local_array, serial, where, while_loop
from renderer.bvh.intersect import DONE, NOTHING, Hit, covered, inverse_of
from renderer.vec import Ray, Vec3, cross, dot, greater, lesser

if TYPE_CHECKING:
    from renderer.bvh.traverse import DeviceBVH


def _across(v: Vec3) -> Vec3:
    """A lane's vector beside an inner axis."""
    return v.map(lambda c: c[..., None])


class _Slabs(NamedTuple):
    """What a ray needs for boxes: rows of the near planes, reciprocals."""

    rows: Vec3
    inverse: Vec3
    shifted: Vec3


def _slabs(ray: Ray) -> _Slabs:
    inverse = inverse_of(ray.direction)
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
        z = bvh.leaf[leaf, k.z + first] - origin.z
        x = bvh.leaf[leaf, k.x + first] - origin.x
        y = bvh.leaf[leaf, k.y + first] - origin.y
        return Vec3(x - shear.x * z, y - shear.y * z, z)

    def weight(p: Vec3, q: Vec3) -> Tensor:
        result: Tensor = (p.x * q.y - p.y * q.x).abs()
        return result

    a, b, c = corner(0), corner(3), corner(6)
    u, v, w = weight(b, c), weight(c, a), weight(a, b)
    distance = (u * a.z + v * b.z + w * c.z) * shear.z / (u + v + w)
    return covered(a, b, c) & (distance > 0) & (distance < t[..., None]), distance


def _on_plane(bvh: DeviceBVH, ray: Ray, t: Tensor, slot: Tensor) -> Tensor:
    """The distance of a hit once more, from the triangle's plane: an error of the vertices' distance along the plane does not enter,
    unless the ray runs along it too."""

    def again() -> Tensor:
        leaf, place = slot // bvh.leaf_size, slot % bvh.leaf_size
        c = [bvh.leaf[leaf, k, place] for k in range(9)]
        v0 = Vec3(*c[0:3])
        n = cross(Vec3(*c[6:9]) - v0, v0 - Vec3(*c[3:6]))
        slope = dot(n, ray.direction)
        distance = dot(v0 - ray.origin, n) / slope
        steep = slope * slope > 1e-6 * dot(n, n) * dot(ray.direction, ray.direction)
        return where(steep & (distance > 0), distance, t)

    result: Tensor = cond(slot >= 0, again, lambda: t)
    return result


def closest_single(bvh: DeviceBVH, ray: Ray, t_max: Any) -> Hit:
    """The nearest hit, one ray after another."""
    width = bvh.width
    places = arange(width)

    def trace(ray: Ray, t_max: Tensor) -> Hit:
        slabs, sheared = _slabs(ray), _shear(ray)
        d = ray.direction
        ahead = where(d.x > 0, 1, 0) | where(d.y > 0, 2, 0) | where(d.z > 0, 4, 0)  # bit k: along axis k the ray runs upwards

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
                forward = ((ahead >> bvh.axis[node]) & 1) != 0

                def found(nodes: LocalArray, nears: LocalArray) -> Any:
                    place = where(forward, hits.first_true(-1), hits.last_true(-1))
                    others = hits & (places != place[..., None])
                    nodes, above = nodes.append_where(top + 1, others, bvh.child[node], reverse=forward)
                    nears, _ = nears.append_where(top + 1, others, near, reverse=forward)
                    return bvh.child[node, place], above - 1, nodes, nears, t, slot

                def missed(nodes: LocalArray, nears: LocalArray) -> Any:
                    following, below = pop(nodes, nears, top, t)
                    return following, below, nodes, nears, t, slot

                return cond(hits.any(-1), found, missed, nodes, nears)

            def leaf(nodes: LocalArray, nears: LocalArray) -> Any:
                number = -1 - node
                hits, distance = _leaf_tests(bvh, number, sheared, t)

                def closer() -> tuple[Tensor, Tensor]:
                    bits = where(hits, distance.bitcast("int32"), DONE)
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


def any_single(bvh: DeviceBVH, ray: Ray, t_max: Any) -> Tensor:
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
