"""Rays against the tree of a scene: closest hit and any hit.

There are three ways to walk the tree: `packet` (the lanes of a group together), `single` (one ray after another, the tree's own width
across the SIMD unit), and `lone` (each lane by itself). Which is taken is a matter of structure: where lanes are alone, `lone`; where they
form vectors, in small scenes all rays go as packets, in large ones the camera's, alike as they are, and all others alone. Slabs are tested
by fused multiply-adds against boxes that `upload` has widened by their rounding error for origins within the scene; `approach` takes
others there.

A scene that places the same things many times has two levels: parts with trees of their own, and above them a tree of placings
(`placings`), in which a leaf is one placing. In such scenes rays go alone, the camera's too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from engine import Tensor
from renderer.bvh.intersect import NOTHING, Hit, Sides, approached
from renderer.bvh.lone import LoneBVH, LoneTop
from renderer.bvh.packet import any_packet, closest_alike, closest_packet
from renderer.bvh.placings import Placings
from renderer.bvh.single import any_single, closest_single
from renderer.vec import Ray

Form = Literal["packet", "serial", "lone"]


@dataclass(frozen=True)
class Top:
    """The tree of placings above the parts' trees: tables as those of `DeviceBVH`, a placing in each leaf."""

    bounds: Tensor
    child: Tensor
    axis: Tensor
    placings: Placings
    width: int = field(metadata={"static": True})
    stack: int = field(metadata={"static": True})


@dataclass(frozen=True)
class DeviceBVH:
    """A `WideBVH` on a device where lanes form vectors: Tensors of the same shapes, and what shapes the code; with `top`, those of parts,
    one after another."""

    bounds: Tensor
    child: Tensor
    child_count: Tensor  # int32[nodes]
    axis: Tensor  # int32[nodes]: along which a node's children are sorted
    # "packet": float32[leaves, 2, 18], see `pairs`; "serial": float32[leaves, 9, leaf_size], as `WideBVH` has it. One more where sides are
    # mixed: the mark
    leaf: Tensor
    leaf_count: Tensor  # int32[leaves], of pairs or of triangles
    places: Tensor  # int32[leaves * leaf_size]: the triangle in each place of the leaves, -1 where there is none
    box: Tensor  # float32[2, 3]: all boxes lie within, in the world
    width: int = field(metadata={"static": True})
    leaf_size: int = field(metadata={"static": True})  # places for triangles in a leaf
    stack: int = field(metadata={"static": True})
    flat: bool = field(metadata={"static": True})  # pairs lie in one plane
    sides: Sides = field(metadata={"static": True})
    form: Literal["packet", "serial"] = field(metadata={"static": True})
    top: Top | None = None  # "serial" only

    def approach(self, ray: Ray) -> Ray:
        """The ray moved forward to where it enters the scene's box, if it begins outside: boxes are tested with enough precision only
        from there. Distances count from the new origin."""
        return approached(self.box, ray)

    def triangle(self, slot: Tensor) -> Tensor:
        """int32: the number of the triangle of a hit."""
        return self.places[slot]

    def closest(self, ray: Ray, t_max: Any) -> Hit:
        """The nearest hit with 0 < t < t_max."""
        return closest_packet(self, ray, t_max) if self.form == "packet" else closest_single(self, ray, t_max)

    def closest_alike(self, ray: Ray, t_max: Any) -> Hit:
        """The nearest hit, for rays that go about the same way in a group, as the camera's do."""
        if self.top is not None:
            return closest_single(self, ray, t_max)
        return closest_packet(self, ray, t_max) if self.form == "packet" else closest_alike(self, ray, t_max)

    def any(self, ray: Ray, t_max: Any) -> Tensor:
        """bool: whether anything is hit with 0 < t < t_max."""
        return any_packet(self, ray, t_max) if self.form == "packet" else any_single(self, ray, t_max)


Tree = DeviceBVH | LoneBVH

__all__ = ["NOTHING", "DeviceBVH", "Form", "Hit", "LoneBVH", "LoneTop", "Placings", "Sides", "Top", "Tree"]
