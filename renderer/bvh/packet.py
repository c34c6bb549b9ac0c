"""Packets: the group walks the tree together, with one stack and one node at a time that all its lanes test.

Loads of nodes and triangles are the group's, not the lane's. Best while the lanes want about the same nodes: camera rays, and small
scenes. In a tree of two children a node's nearer child, by the vote of the lanes that enter both, is visited next; in a wide tree the
child whose nearest lane is nearest. Others wait on the stack, in a wide tree with that distance, so that what lies behind every lane's
hit is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from engine import LocalArray, Tensor, cond, for_loop, group, local_array, where, while_loop
from renderer.bvh.intersect import DONE, NOTHING, Hit, covered, inverse_of
from renderer.vec import Ray, Vec3, cross, dot, greater, lesser

if TYPE_CHECKING:
    from renderer.bvh.traverse import DeviceBVH


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
    return _Test(covered(project(a), project(b), project(c)) & (t > 0), t)


def _leaf_triangle(bvh: DeviceBVH, leaf: Tensor, i: Any) -> tuple[Vec3, Vec3, Vec3]:
    """Vertices of triangle i of a leaf (one for the whole group)."""
    c = [bvh.leaf_vertices[leaf, k, i] for k in range(9)]
    return Vec3(*c[0:3]), Vec3(*c[3:6]), Vec3(*c[6:9])


def _child(bvh: DeviceBVH, node: Tensor, k: Any, inverse: Vec3, shifted: Vec3, t: Tensor) -> tuple[Tensor, Tensor]:
    """Whether each lane enters child k, and where."""
    plane = [bvh.bounds[node, row, k] for row in range(6)]
    x0, x1 = plane[0] * inverse.x - shifted.x, plane[3] * inverse.x - shifted.x
    y0, y1 = plane[1] * inverse.y - shifted.y, plane[4] * inverse.y - shifted.y
    z0, z1 = plane[2] * inverse.z - shifted.z, plane[5] * inverse.z - shifted.z
    near = greater(greater(lesser(x0, x1), lesser(y0, y1)), greater(lesser(z0, z1), 0.0))
    far = lesser(lesser(greater(x0, x1), greater(y0, y1)), lesser(greater(z0, z1), t))
    return near <= far, near


def _descend(
    bvh: DeviceBVH, node: Tensor, top: Tensor, stack: LocalArray, one: tuple[Tensor, Tensor], two: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, LocalArray]:
    """The next node of a packet, after testing the two children of one (whether and where each lane enters them)."""
    left, right = bvh.child[node, 0], bvh.child[node, 1]
    hits, nears = zip(one, two, strict=True)
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
    inverse = inverse_of(ray.direction)
    shifted = ray.origin * inverse
    plane = _plane(ray)

    def running(node: Tensor, top: Tensor, stack: LocalArray, t: Tensor, slot: Tensor) -> Tensor:
        return node != DONE

    def step(node: Tensor, top: Tensor, stack: LocalArray, t: Tensor, slot: Tensor) -> Any:
        def inner(stack: LocalArray) -> Any:
            left, right = (_child(bvh, node, k, inverse, shifted, t) for k in range(2))
            return (*_descend(bvh, node, top, stack, left, right), t, slot)

        def leaf(stack: LocalArray) -> Any:
            number = -1 - node

            def test(i: Tensor, t: Tensor, slot: Tensor) -> tuple[Tensor, Tensor]:
                found = _triangle(plane, *_leaf_triangle(bvh, number, i))
                nearer = found.valid & (found.t < t)
                return where(nearer, found.t, t), where(nearer, number * bvh.leaf_size + i, slot)

            t2, slot2 = for_loop(bvh.leaf_count[number], test, (t, slot))
            return stack[top], top - 1, stack, t2, slot2

        return cond(node >= 0, inner, leaf, stack)

    stack = local_array(bvh.stack + 2, "int32").set(0, DONE)
    start = (Tensor(0), Tensor(0), stack, ray.direction.x * 0 + t_max, Tensor(NOTHING))
    _, _, _, t, slot = while_loop(running, step, start)
    return Hit(t, slot)


def any_packet(bvh: DeviceBVH, ray: Ray, t_max: Any) -> Tensor:
    """Whether anything is hit, the group together; it stops when every lane knows."""
    inverse = inverse_of(ray.direction)
    shifted = ray.origin * inverse
    plane = _plane(ray)

    def running(node: Tensor, top: Tensor, stack: LocalArray, reach: Tensor) -> Tensor:
        return (node != DONE) & group.any(reach > 0)

    def step(node: Tensor, top: Tensor, stack: LocalArray, reach: Tensor) -> Any:
        def inner(stack: LocalArray) -> Any:
            left, right = (_child(bvh, node, k, inverse, shifted, reach) for k in range(2))
            return (*_descend(bvh, node, top, stack, left, right), reach)

        def leaf(stack: LocalArray) -> Any:
            number = -1 - node

            def test(i: Tensor, reach: Tensor) -> Tensor:
                found = _triangle(plane, *_leaf_triangle(bvh, number, i))
                return where(found.valid & (found.t < reach), -1.0, reach)

            return stack[top], top - 1, stack, for_loop(bvh.leaf_count[number], test, reach)

        return cond(node >= 0, inner, leaf, stack)

    stack = local_array(bvh.stack + 2, "int32").set(0, DONE)
    start = (Tensor(0), Tensor(0), stack, ray.direction.x * 0 + t_max)
    reach: Tensor = while_loop(running, step, start)[3]
    return reach < 0


def closest_wide_packet(bvh: DeviceBVH, ray: Ray, t_max: Any) -> Hit:
    """The nearest hit in a wide tree, the group together. Distances on the stack are held as the bits of floats, which order alike."""
    inverse = inverse_of(ray.direction)
    shifted = ray.origin * inverse
    plane = _plane(ray)

    def pop(nodes: LocalArray, nears: LocalArray, top: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """The next entry that is not behind every lane's hit."""
        farthest = group.max(t.bitcast("int32"))
        top = while_loop(lambda top: (top > 0) & (nears[top] >= farthest), lambda top: top - 1, top)
        return nodes[top], top - 1

    def running(node: Tensor, top: Tensor, nodes: LocalArray, nears: LocalArray, t: Tensor, slot: Tensor) -> Tensor:
        return node != DONE

    def step(node: Tensor, top: Tensor, nodes: LocalArray, nears: LocalArray, t: Tensor, slot: Tensor) -> Any:
        def inner(nodes: LocalArray, nears: LocalArray) -> Any:
            def visit(k: Tensor, best: Tensor, distance: Tensor, top: Tensor, nodes: LocalArray, nears: LocalArray) -> Any:
                hits, near = _child(bvh, node, k, inverse, shifted, t)

                def entered(nodes: LocalArray, nears: LocalArray) -> Any:
                    mine, here = bvh.child[node, k], group.min(where(hits, near.bitcast("int32"), DONE))
                    closer = here < distance
                    nodes = nodes.set(top + 1, where(closer, best, mine))
                    nears = nears.set(top + 1, where(closer, distance, here))
                    above = where(best == DONE, top, top + 1)
                    return where(closer, mine, best), where(closer, here, distance), above, nodes, nears

                def passed(nodes: LocalArray, nears: LocalArray) -> Any:
                    return best, distance, top, nodes, nears

                return cond(group.any(hits), entered, passed, nodes, nears)

            start = (Tensor(DONE), Tensor(DONE), top, nodes, nears)
            best, _, above, nodes, nears = for_loop(bvh.child_count[node], visit, start)

            def descend(nodes: LocalArray, nears: LocalArray) -> Any:
                return best, above, nodes, nears

            def back(nodes: LocalArray, nears: LocalArray) -> Any:
                following, below = pop(nodes, nears, top, t)
                return following, below, nodes, nears

            return (*cond(best != DONE, descend, back, nodes, nears), t, slot)

        def leaf(nodes: LocalArray, nears: LocalArray) -> Any:
            number = -1 - node

            def test(i: Tensor, t: Tensor, slot: Tensor) -> tuple[Tensor, Tensor]:
                found = _triangle(plane, *_leaf_triangle(bvh, number, i))
                nearer = found.valid & (found.t < t)
                return where(nearer, found.t, t), where(nearer, number * bvh.leaf_size + i, slot)

            t2, slot2 = for_loop(bvh.leaf_count[number], test, (t, slot))
            following, below = pop(nodes, nears, top, t2)
            return following, below, nodes, nears, t2, slot2

        return cond(node >= 0, inner, leaf, nodes, nears)

    nodes = local_array(bvh.stack + 2, "int32").set(0, DONE)
    nears = local_array(bvh.stack + 2, "int32").set(0, 0)
    start = (Tensor(0), Tensor(0), nodes, nears, ray.direction.x * 0 + t_max, Tensor(NOTHING))
    result = while_loop(running, step, start)
    return Hit(result[4], result[5])
