"""One ray after another: the children of a node, and the triangles of a leaf, lie across the SIMD unit.

Best where rays go their own ways. Children lie along their node's longest side in the order of their slots, so the ray's direction
along that axis tells in which order it may meet them, without comparing distances: the first is visited next, the others are appended
to the stack, the last of them first, with their distances, so that what turns out to be behind the closest hit is dropped when it is
popped. (Seeking the nearest by its distance instead takes a reduction across the vector before the next node is known, and visits
more nodes, since the others stay in no order.)

Trees of placings (`placings`) are walked in the same manner: what such a tree has in its leaves is another walk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from engine import LocalArray, Tensor, arange, cond, local_array, serial, where, while_loop
from renderer.bvh.intersect import DONE, NOTHING, Hit, Sides, covered, inverse_of
from renderer.vec import Ray, Vec3, cross, dot, greater, lesser

if TYPE_CHECKING:
    from renderer.bvh.traverse import DeviceBVH, Top


class Nodes(Protocol):
    """What there is to walk: the tables of `traverse.DeviceBVH` that have these names, and how many entries may have to wait."""

    @property
    def bounds(self) -> Tensor: ...
    @property
    def child(self) -> Tensor: ...
    @property
    def axis(self) -> Tensor: ...
    @property
    def width(self) -> int: ...
    @property
    def stack(self) -> int: ...


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


def _children(bvh: Nodes, node: Tensor, slabs: _Slabs, t: Tensor) -> tuple[Tensor, Tensor]:
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


def _shear(ray: Ray, sides: Sides) -> _Sheared:
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

    t, axes, start = turned(d), turned(Vec3(Tensor(0), Tensor(1), Tensor(2))), turned(o)
    if sides != "both":  # the other axes change places where the ray runs up the main one
        t, axes, start = (Vec3(where(t.z > 0, v.y, v.x), where(t.z > 0, v.x, v.y), v.z) for v in (t, axes, start))
    scale = 1.0 / t.z
    return _Sheared(axes, _across(Vec3(t.x * scale, t.y * scale, scale)), _across(start))


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
    mark = bvh.leaf[leaf, 9] if bvh.sides == "mixed" else None
    return covered(a, b, c, bvh.sides, mark) & (distance > 0) & (distance < t[..., None]), distance


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


def _walk(tree: Nodes, root: Any, ray: Ray, known: tuple[Any, ...], leaf_of: Callable[..., tuple[Any, ...]]) -> tuple[Any, ...]:
    """From a node down, the nearest first. `known`: the distance behind which nothing counts, and whatever else is known of what is
    there; `leaf_of(number, *known)`: the same after a leaf."""
    width, slabs, d = tree.width, _slabs(ray), ray.direction
    places = arange(width)
    ahead = where(d.x > 0, 1, 0) | where(d.y > 0, 2, 0) | where(d.z > 0, 4, 0)  # bit k: along axis k the ray runs upwards

    def running(node: Tensor, top: Tensor, nodes: LocalArray, nears: LocalArray, *known: Any) -> Tensor:
        return top >= 0

    def step(node: Tensor, top: Tensor, nodes: LocalArray, nears: LocalArray, *known: Any) -> Any:
        def pop(nodes: LocalArray, nears: LocalArray, top: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
            """The next entry that is not behind t already; top is below it afterwards."""

            def behind(top: Tensor) -> Tensor:
                return (top > 0) & (nears[top] >= t)

            top = while_loop(behind, lambda top: top - 1, top)
            return nodes[top], top - 1

        def inner(nodes: LocalArray, nears: LocalArray) -> Any:
            hits, near = _children(tree, node, slabs, known[0])
            forward = ((ahead >> tree.axis[node]) & 1) != 0

            def found(nodes: LocalArray, nears: LocalArray) -> Any:
                place = where(forward, hits.first_true(-1), hits.last_true(-1))
                others = hits & (places != place[..., None])
                nodes, above = nodes.append_where(top + 1, others, tree.child[node], reverse=forward)
                nears, _ = nears.append_where(top + 1, others, near, reverse=forward)
                return tree.child[node, place], above - 1, nodes, nears, *known

            def missed(nodes: LocalArray, nears: LocalArray) -> Any:
                following, below = pop(nodes, nears, top, known[0])
                return following, below, nodes, nears, *known

            return cond(hits.any(-1), found, missed, nodes, nears)

        def leaf(nodes: LocalArray, nears: LocalArray) -> Any:
            after = leaf_of(-1 - node, *known)
            following, below = pop(nodes, nears, top, after[0])
            return following, below, nodes, nears, *after

        return cond(node >= 0, inner, leaf, nodes, nears)

    nodes = local_array(tree.stack + width + 2, "int32").set(0, 0)
    nears = local_array(tree.stack + width + 2, "float32").set(0, 0.0)
    return while_loop(running, step, (root, Tensor(0), nodes, nears, *known))[4:]  # type: ignore[no-any-return]


def _nearest(bvh: DeviceBVH, root: Any, ray: Ray, t_max: Any) -> tuple[Tensor, Tensor]:
    """The nearest triangle below a node: the distance (t_max where there is none) and the slot."""
    sheared = _shear(ray, bvh.sides)

    def leaf(number: Tensor, t: Tensor, slot: Tensor) -> tuple[Tensor, Tensor]:
        hits, distance = _leaf_tests(bvh, number, sheared, t)

        def closer() -> tuple[Tensor, Tensor]:
            bits = where(hits, distance.bitcast("int32"), DONE)
            nearest = bits.min(-1)
            place = (bits == nearest[..., None]).first_true(-1)
            return nearest.bitcast("float32"), number * bvh.leaf_size + place

        return cond(hits.any(-1), closer, lambda: (t, slot))  # type: ignore[no-any-return]

    t, slot = _walk(bvh, root, ray, (t_max, Tensor(NOTHING)), leaf)
    return _on_plane(bvh, ray, t, slot), slot


def _nearest_placed(bvh: DeviceBVH, top: Top, ray: Ray, t_max: Any) -> Hit:
    """The nearest triangle of all placings."""

    def leaf(number: Tensor, t: Tensor, slot: Tensor, placing: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inside = top.placings.enter(number, ray)

        def visit() -> tuple[Tensor, Tensor, Tensor]:
            distance, found = _nearest(bvh, inside.root, inside.ray, t - inside.near)
            hit = found != NOTHING
            return where(hit, inside.near + distance, t), where(hit, found, slot), where(hit, number, placing)

        return cond(inside.meets & (inside.near < t), visit, lambda: (t, slot, placing))  # type: ignore[no-any-return]

    return Hit(*_walk(top, Tensor(0), ray, (t_max, Tensor(NOTHING), Tensor(0)), leaf))


def closest_single(bvh: DeviceBVH, ray: Ray, t_max: Any) -> Hit:
    """The nearest hit, one ray after another."""

    def trace(ray: Ray, t_max: Tensor) -> Hit:
        if bvh.top is not None:
            return _nearest_placed(bvh, bvh.top, ray, t_max)
        return Hit(*_nearest(bvh, Tensor(0), ray, t_max))

    hit: Hit = serial(trace, ray, ray.direction.x * 0 + t_max)
    return hit


def _meets(tree: Nodes, root: Any, ray: Ray, t_max: Any, leaf_of: Callable[[Tensor], Tensor]) -> Tensor:
    """From a node down, whatever comes first. `leaf_of(number)`: whether something in a leaf is met, which ends the walk."""
    width, slabs = tree.width, _slabs(ray)

    def running(top: Tensor, nodes: LocalArray, found: Tensor) -> Tensor:
        return (top >= 0) & ~found

    def step(top: Tensor, nodes: LocalArray, found: Tensor) -> Any:
        node = nodes[top]

        def inner(nodes: LocalArray) -> Any:
            hits, _ = _children(tree, node, slabs, t_max)
            nodes, above = nodes.append_where(top, hits, tree.child[node])
            return above - 1, nodes, found

        return cond(node >= 0, inner, lambda nodes: (top - 1, nodes, leaf_of(-1 - node)), nodes)

    nodes = local_array(tree.stack + width + 2, "int32").set(0, root)
    return while_loop(running, step, (Tensor(0), nodes, Tensor(False)))[2]  # type: ignore[no-any-return]


def any_single(bvh: DeviceBVH, ray: Ray, t_max: Any) -> Tensor:
    """Whether anything is hit, one ray after another."""

    def below(root: Any, ray: Ray, t_max: Tensor) -> Tensor:
        sheared = _shear(ray, bvh.sides)
        return _meets(bvh, root, ray, t_max, lambda number: _leaf_tests(bvh, number, sheared, t_max)[0].any(-1))

    def trace(ray: Ray, t_max: Tensor) -> Tensor:
        top = bvh.top
        if top is None:
            return below(Tensor(0), ray, t_max)

        def leaf(number: Tensor) -> Tensor:
            inside = top.placings.enter(number, ray)
            reach = t_max - inside.near
            result: Tensor = cond(inside.meets & (reach > 0), lambda: below(inside.root, inside.ray, reach), lambda: Tensor(False))
            return result

        return _meets(top, Tensor(0), ray, t_max, leaf)

    occluded: Tensor = serial(trace, ray, ray.direction.x * 0 + t_max)
    return occluded
