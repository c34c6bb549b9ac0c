"""The node hierarchy of a glTF file: checked to be a forest, then walked to world matrices.

glTF stores children; nothing in the format keeps two nodes from naming the same child, or a chain from biting its tail.
Both are refused for the whole file, with the node numbers, because no picture of such a file would be the right one; a
child or transform that is merely broken costs its own subtree.  Once every node has at most one parent, the nodes of a
cycle are exactly those from which following parents never ends, so one pass of colouring finds them.  All is loops over
an explicit stack: files with chains of many thousands of nodes exist, and Python's stack is 1,000 deep.

A quaternion or matrix that is off (not of unit length, sheared, last row not 0 0 0 1) is used as far as it makes sense,
with a warning.  Format: Khronos glTF 2.0 specification, section 3.5; EXT_mesh_gpu_instancing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from renderer.scene.accessors import AccessorReader
from renderer.scene.gltf_json import Diagnostics, Document, Node, PartError, decode_part
from renderer.scene.model import Copies, Float64s, SceneError, rotations

INSTANCING = "EXT_mesh_gpu_instancing"
VISIBILITY = "KHR_node_visibility"
UNIT_TOLERANCE = 1e-2  # of a quaternion's length: quantised ones are off by half a per cent
SHEAR_TOLERANCE = 1e-3
ROUNDING = 1e-6  # of a quaternion of float32 numbers
IDENTITY = np.eye(4)
IDENTITY.flags.writeable = False


class _Visibility(msgspec.Struct):
    visible: bool = True


class _Instancing(msgspec.Struct):
    attributes: dict[str, int]


def check_forest(document: Document) -> None:
    """Raise `SceneError` naming the nodes if one has two parents or some form a cycle. Broken nodes count as leaves."""
    parent: dict[int, int] = {}
    for number in range(len(document.nodes)):
        for child in _children(document, number):
            if child in parent:
                raise SceneError(
                    f"{document.file}: nodes[{child}] has two parents, nodes {parent[child]} and {number}; "
                    "glTF nodes form trees: give each parent a node of its own"
                )
            parent[child] = number
    finished: set[int] = set()
    for start in parent:
        chain: dict[int, None] = {}
        at: int | None = start
        while at is not None and at not in finished:
            if at in chain:
                members = list(chain)[list(chain).index(at) :]
                raise SceneError(
                    f"{document.file}: nodes form a cycle: {_cycle_text(members)}; "
                    "glTF nodes form trees: remove one of the links"
                )
            chain[at] = None
            at = parent.get(at)
        finished.update(chain)


def walk_scene(
    document: Document, diagnostics: Diagnostics, feature: Callable[[str, str], None]
) -> Iterator[tuple[int, Node, Float64s]]:
    """Nodes of the scene to show, parents before children in the file's order: (number, node, world float64[4, 4]).

    A node that KHR_node_visibility hides is left out with all below it, and told to `feature`.
    """
    visited: set[int] = set()
    stack = [(number, used_at, IDENTITY) for number, used_at in reversed(_scene_roots(document, diagnostics))]
    while stack:
        number, used_at, above = stack.pop()
        try:
            node = document.nodes.get(number, used_at)
            if number in visited:
                raise PartError(used_at, f"node {number} is in the scene already")
            visited.add(number)
            if VISIBILITY in node.extensions:
                where = f"nodes[{number}].extensions.{VISIBILITY}"
                if not decode_part(node.extensions[VISIBILITY], _Visibility, where).visible:
                    feature("hidden nodes", where)
                    continue
            local = local_matrix(node, f"nodes[{number}]", diagnostics)
        except PartError as error:
            diagnostics.skipped(error, f"nodes[{number}]", "is skipped with all below it")
            continue
        world = above if local is None else above @ local
        if not np.isfinite(world).all():
            diagnostics.warning(f"nodes[{number}]", "its place in the world is not finite; skipped with all below it")
            continue
        yield number, node, world
        below = [(child, f"nodes[{number}].children[{place}]", world) for place, child in enumerate(node.children)]
        stack.extend(reversed(below))


def local_matrix(node: Node, path: str, diagnostics: Diagnostics) -> Float64s | None:
    """The node's transform, float64[4, 4], None for identity. Raises `PartError` where nothing can be made of it."""
    if node.matrix is not None:
        matrix = np.array(node.matrix, np.float64).reshape(4, 4).T
        if not np.array_equal(matrix[3], (0.0, 0.0, 0.0, 1.0)):
            diagnostics.warning(f"{path}.matrix", "the last row is not 0 0 0 1; it is taken to be")
            matrix[3] = (0.0, 0.0, 0.0, 1.0)
        elif _is_sheared(matrix[:3, :3]):
            diagnostics.warning(f"{path}.matrix", "has shear, which glTF forbids; used as it stands")
        return matrix
    if node.translation is None and node.rotation is None and node.scale is None:
        return None
    matrix = np.eye(4)
    if node.rotation is not None:
        length = math.sqrt(sum(value * value for value in node.rotation))
        if not 0.0 < length < math.inf:
            raise PartError(f"{path}.rotation", "a quaternion of length zero or too long")
        if abs(length - 1.0) > UNIT_TOLERANCE:
            diagnostics.warning(f"{path}.rotation", f"a quaternion of length {length:.4g}; normalised")
        matrix[:3, :3] = rotations(np.array([node.rotation]) / length)[0]
    if node.scale is not None:
        matrix[:3, :3] *= node.scale
    if node.translation is not None:
        matrix[:3, 3] = node.translation
    return matrix


def read_copies(node: Node, path: str, reader: AccessorReader) -> Copies | None:
    """The places that EXT_mesh_gpu_instancing gives the node's mesh, None where the node has no such extension.

    Raises `PartError` if the extension's attributes cannot be read or do not fit together.
    """
    raw = node.extensions.get(INSTANCING)
    if raw is None:
        return None
    path = f"{path}.extensions.{INSTANCING}"
    attributes = decode_part(raw, _Instancing, path).attributes
    kinds = {"TRANSLATION": "VEC3", "ROTATION": "VEC4", "SCALE": "VEC3"}
    read = {
        name: reader.read_floats(attributes[name], f"{path}.attributes.{name}", kind)
        for name, kind in kinds.items()
        if name in attributes
    }
    counts = {len(values) for values in read.values()}
    if len(counts) != 1:
        problem = "none of TRANSLATION, ROTATION, SCALE" if not counts else "attributes of different counts"
        raise PartError(f"{path}.attributes", problem)
    count = counts.pop()
    translation, rotation, scale = (read.get(name) for name in kinds)
    if not all(np.isfinite(values).all() for values in read.values()):
        raise PartError(f"{path}.attributes", "transforms that are not finite")
    if rotation is None:
        rotation = np.tile(np.array([0, 0, 0, 1], np.float32), (count, 1))
    else:
        length = np.linalg.norm(rotation.astype(np.float64), axis=1, keepdims=True)
        if not (length > 0).all():
            raise PartError(f"{path}.attributes.ROTATION", "a quaternion of length zero")
        if (np.abs(length - 1.0) > ROUNDING).any():
            rotation = (rotation / length).astype(np.float32)
    return Copies(
        np.zeros((count, 3), np.float32) if translation is None else translation,
        rotation,
        np.ones((count, 3), np.float32) if scale is None else scale,
    )


def _children(document: Document, number: int) -> list[int]:
    """The children of a node that exist."""
    try:
        children = document.nodes.get(number, "").children
    except PartError:
        return []
    return [child for child in children if 0 <= child < len(document.nodes)]


def _scene_roots(document: Document, diagnostics: Diagnostics) -> list[tuple[int, str]]:
    """The root nodes to show, each with the JSON path that names it.

    The file's default scene; without a default the first scene; without scenes every node that is nobody's child.
    """
    if not len(document.scenes):
        if document.root.scene is not None:
            diagnostics.warning(
                "scene", f"scene {document.root.scene} does not exist (the file has none); all nodes are shown"
            )
        everyone = range(len(document.nodes))
        children = {child for number in everyone for child in _children(document, number)}
        return [(number, f"nodes[{number}]") for number in everyone if number not in children]
    chosen = document.root.scene or 0
    try:
        roots = document.scenes.get(chosen, "scene").nodes
    except PartError as error:
        if chosen == 0:
            diagnostics.skipped(error, "the scene")
            return []
        diagnostics.skipped(error, "the default scene", "is replaced by scenes[0]")
        chosen = 0
        try:
            roots = document.scenes.get(0, "scene").nodes
        except PartError as second:
            diagnostics.skipped(second, "scenes[0]")
            return []
    return [(number, f"scenes[{chosen}].nodes[{place}]") for place, number in enumerate(roots)]


def _is_sheared(linear: Float64s) -> bool:
    """Whether the columns of a 3x3 matrix are not perpendicular."""
    length = np.linalg.norm(linear, axis=0)
    products = linear.T @ linear - np.diag(length * length)
    return bool((np.abs(products) > SHEAR_TOLERANCE * np.outer(length, length) + 1e-30).any())


def _cycle_text(members: list[int]) -> str:
    """The cycle from its lowest node in the direction of children, shortened in the middle if it is long."""
    downwards = members[::-1]
    first = downwards.index(min(downwards))
    ring = downwards[first:] + downwards[:first] + [downwards[first]]
    shown = [str(number) for number in (ring if len(ring) <= 12 else ring[:10])]
    return " -> ".join(shown + ([] if len(ring) <= 12 else ["...", str(ring[-1])]))
