"""Packets: the group walks the tree together, with one stack and one node at a time that all its lanes test.

Loads of nodes and triangles are the group's, not the lane's. Best in small scenes, where lanes want about the same nodes whichever way
they go (`closest_packet`, `any_packet`: pairs of triangles in the leaves), and for the camera's rays in large ones (`closest_alike`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from engine import LocalArray, Tensor, cond, for_loop, group, local_array, where, while_loop
from renderer.bvh.intersect import (
    DONE,
    NOTHING,
    Hit,
    Pair,
    Plane,
    Point,
    covered,
    covered_pair,
    distance_to,
    entered,
    inverse_of,
    plane_of,
)
from renderer.vec import Ray, Vec3, cross, dot

if TYPE_CHECKING:
    from renderer.bvh.traverse import DeviceBVH


class _Test(NamedTuple):
    valid: Tensor  # the ray passes through, in front of its origin
    t: Tensor


def _triangle(bvh: DeviceBVH, plane: Plane, leaf: Tensor, i: Any) -> _Test:
    """Each lane's ray against triangle i of a leaf (one for the whole group)."""
    floats = [bvh.leaf[leaf, k, i] for k in range(9)]
    v0, v1, v2 = (Vec3(*floats[k : k + 3]) for k in (0, 3, 6))

    def project(v: Vec3) -> Point:
        return Point(dot(v, plane.x), dot(v, plane.y))

    origin, direction = plane.ray
    a, b, c = v0 - origin, v1 - origin, v2 - origin
    n = cross(v2 - v0, v0 - v1)  # not from a, b, c: it is one for the group, and does not depend on how far away the ray is
    t = dot(a, n) / dot(n, direction)
    mark = bvh.leaf[leaf, 9, i] if bvh.sides == "mixed" else None
    return _Test(covered(project(a), project(b), project(c), bvh.sides, mark) & (t > 0), t)


def _leaf_pair(bvh: DeviceBVH, leaf: Tensor, i: Any) -> Pair:
    """Pair i of a leaf (one for the whole group)."""
    c = [bvh.leaf[leaf, i, k] for k in range(18)]
    p, q, r, s, first, second = (Vec3(*c[k : k + 3]) for k in range(0, 18, 3))
    return Pair(p, q, r, s, first, second, bvh.leaf[leaf, i, 18] if bvh.sides == "mixed" else None)


def _child(bvh: DeviceBVH, node: Tensor, k: Any, inverse: Vec3, shifted: Vec3, t: Tensor) -> tuple[Tensor, Tensor]:
    """Whether each lane enters child k, and where."""
    plane = [bvh.bounds[node, row, k] for row in range(6)]
    return entered(Vec3(*plane[:3]), Vec3(*plane[3:]), inverse, shifted, t)


def _closest_pair(bvh: DeviceBVH, plane: Plane, leaf: Tensor, t: Tensor, slot: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest hit among a leaf's pairs and what is known."""
    ray = plane.ray

    def test(i: Tensor, t: Tensor, slot: Tensor) -> Any:
        pair = _leaf_pair(bvh, leaf, i)
        first, second = covered_pair(plane, pair, bvh.sides)

        def nearest() -> tuple[Tensor, Tensor]:
            here = leaf * bvh.leaf_size + i * 2
            one = distance_to(ray, pair.p, pair.first)
            if bvh.flat:
                nearer = (one > 0) & (one < t)
                found = where(first, here, here + 1)
                nearer = nearer & (first | second)
                return where(nearer, one, t), where(nearer, found, slot)
            two = distance_to(ray, pair.p, pair.second)
            nearer = first & (one > 0) & (one < t)
            t1, slot1 = where(nearer, one, t), where(nearer, here, slot)
            nearer = second & (two > 0) & (two < t1)
            return where(nearer, two, t1), where(nearer, here + 1, slot1)

        return cond(group.any(first | second), nearest, lambda: (t, slot))

    return for_loop(bvh.leaf_count[leaf], test, (t, slot))  # type: ignore[no-any-return]


def closest_packet(bvh: DeviceBVH, ray: Ray, t_max: Any) -> Hit:
    """The nearest hit, the group together, in a small tree with pairs in its leaves.

    Children are met in the order of their slots, up or down their node's longest side as most of the lanes run: every child that some
    lane enters goes on the stack, without a branch. Where rays go all ways, seeking the nearest child, and dropping what is behind
    every lane's hit, cost more than they save.
    """
    inverse = inverse_of(ray.direction)
    shifted = ray.origin * inverse
    plane = plane_of(ray, bvh.sides)
    upwards = [group.count(c > 0) * 2 >= group.count(c == c) for c in ray.direction]
    ahead = where(upwards[0], 1, 0) | where(upwards[1], 2, 0) | where(upwards[2], 4, 0)  # bit k: most rays run up axis k

    def running(top: Tensor, nodes: LocalArray, t: Tensor, slot: Tensor) -> Tensor:
        return top >= 0

    def step(top: Tensor, nodes: LocalArray, t: Tensor, slot: Tensor) -> Any:
        node = nodes[top]

        def inner(nodes: LocalArray) -> Any:
            count = bvh.child_count[node]
            forward = ((ahead >> bvh.axis[node]) & 1) != 0

            def visit(k: Tensor, top: Tensor, nodes: LocalArray) -> Any:
                place = where(forward, count - 1 - k, k)  # the last to be pushed is the first to be visited
                hits, _ = _child(bvh, node, place, inverse, shifted, t)
                nodes = nodes.set(top, bvh.child[node, place])
                return top + where(group.any(hits), 1, 0), nodes

            above, nodes = for_loop(count, visit, (top, nodes))
            return above - 1, nodes, t, slot

        def leaf(nodes: LocalArray) -> Any:
            t2, slot2 = _closest_pair(bvh, plane, -1 - node, t, slot)
            return top - 1, nodes, t2, slot2

        return cond(node >= 0, inner, leaf, nodes)

    nodes = local_array(bvh.stack + bvh.width + 2, "int32").set(0, 0)
    start = (Tensor(0), nodes, ray.direction.x * 0 + t_max, Tensor(NOTHING))
    result = while_loop(running, step, start)
    return Hit(result[2], result[3])


def any_packet(bvh: DeviceBVH, ray: Ray, t_max: Any) -> Tensor:
    """Whether anything is hit, the group together, in a small tree with pairs in its leaves; it stops when every lane knows."""
    inverse = inverse_of(ray.direction)
    shifted = ray.origin * inverse
    plane = plane_of(ray, bvh.sides)

    def running(top: Tensor, nodes: LocalArray, reach: Tensor) -> Tensor:
        return (top >= 0) & group.any(reach > 0)

    def step(top: Tensor, nodes: LocalArray, reach: Tensor) -> Any:
        node = nodes[top]

        def inner(nodes: LocalArray) -> Any:
            def visit(k: Tensor, top: Tensor, nodes: LocalArray) -> Any:
                hits, _ = _child(bvh, node, k, inverse, shifted, reach)
                nodes = nodes.set(top, bvh.child[node, k])
                return top + where(group.any(hits), 1, 0), nodes

            above, nodes = for_loop(bvh.child_count[node], visit, (top, nodes))
            return above - 1, nodes, reach

        def leaf(nodes: LocalArray) -> Any:
            number = -1 - node

            def test(i: Tensor, reach: Tensor) -> Tensor:
                pair = _leaf_pair(bvh, number, i)
                first, second = covered_pair(plane, pair, bvh.sides)

                def met() -> Tensor:
                    one = distance_to(ray, pair.p, pair.first)
                    if bvh.flat:
                        return where((first | second) & (one > 0) & (one < reach), -1.0, reach)
                    two = distance_to(ray, pair.p, pair.second)
                    hit = (first & (one > 0) & (one < reach)) | (second & (two > 0) & (two < reach))
                    return where(hit, -1.0, reach)

                result: Tensor = cond(group.any(first | second), met, lambda: reach)
                return result

            return top - 1, nodes, for_loop(bvh.leaf_count[number], test, reach)

        return cond(node >= 0, inner, leaf, nodes)

    nodes = local_array(bvh.stack + bvh.width + 2, "int32").set(0, 0)
    start = (Tensor(0), nodes, ray.direction.x * 0 + t_max)
    reach: Tensor = while_loop(running, step, start)[2]
    return reach < 0


def closest_alike(bvh: DeviceBVH, ray: Ray, t_max: Any) -> Hit:
    """The nearest hit, the group together, in a large tree with triangles in its leaves, for rays that go about the same way.

    The child whose nearest lane is nearest is visited next; the others wait on the stack with that distance, so that what lies behind
    every lane's hit is dropped. Distances are held as the bits of floats, which order alike.
    """
    inverse = inverse_of(ray.direction)
    shifted = ray.origin * inverse
    plane = plane_of(ray, bvh.sides)

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
                found = _triangle(bvh, plane, number, i)
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
