"""Trees on disk: `build` for a scene that was built before, by this version of the builder.

A large tree takes longer to build than to read back. The disk cache of kernels holds it under the hash of the triangles, the
tree's shape and the builder's own sources, so nothing stale is ever found. What is stored is what took the time: the boxes, the
children, and which triangles are in each leaf; the leaves' vertices are gathered from the triangles, which are at hand.

Small trees are built: that is as quick. Very large ones are built too: their entries would fill the cache's folder, whose
limit counts entries and not bytes.
"""

from __future__ import annotations

import marshal
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine import Cache, digest
from renderer.bvh.build import build, vertices_of
from renderer.bvh.wide import WideBVH

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST, MOST = 16_384, 2_097_152
"""Triangles from which, and up to which, a tree is kept on disk."""

_BUILDER = ("binary.py", "build.py", "collapse.py", "kernel.py", "stored.py", "wide.py")


def built(triangles: NDArray[np.float32], *, width: int, leaf_size: int) -> WideBVH:
    """`renderer.bvh.build.build` of these triangles, from the disk cache where it is there."""
    cache = Cache.from_environment() if LEAST <= len(triangles) <= MOST else Cache(None)
    if cache.folder is None:
        return build(triangles, width=width, leaf_size=leaf_size)
    triangles = np.ascontiguousarray(triangles, np.float32)
    key = digest("bvh", _version(), width, leaf_size, list(triangles.shape), sha256(triangles.data).digest())
    data = cache.get(key)
    if data is not None:
        return _unpack(data, triangles, width, leaf_size)
    bvh = build(triangles, width=width, leaf_size=leaf_size)
    cache.put(key, _pack(bvh))
    return bvh


@lru_cache(maxsize=1)
def _version() -> bytes:
    """A hash of the sources that a tree depends on."""
    state = sha256()
    for name in _BUILDER:
        state.update(Path(__file__).with_name(name).read_bytes())
    return state.digest()


def _pack(bvh: WideBVH) -> bytes:
    head = (len(bvh.child), len(bvh.leaf_triangle), bvh.depth, bvh.stack_bound)
    return marshal.dumps((head, bvh.bounds.tobytes(), bvh.child.tobytes(), bvh.leaf_triangle.tobytes()))


def _unpack(data: bytes, triangles: NDArray[np.float32], width: int, leaf_size: int) -> WideBVH:
    (nodes, leaves, depth, stack_bound), bounds, child, leaf_triangle = marshal.loads(data)
    inside = np.frombuffer(leaf_triangle, np.int32).reshape(leaves, leaf_size)
    return WideBVH(
        bounds=np.frombuffer(bounds, np.float32).reshape(nodes, 6, width),
        child=np.frombuffer(child, np.int32).reshape(nodes, width),
        leaf_vertices=vertices_of(triangles, inside),
        leaf_triangle=inside,
        leaf_count=(inside >= 0).sum(axis=1).astype(np.int32),
        depth=depth,
        stack_bound=stack_bound,
    )
