"""Bounding volume hierarchies: built on the host, read by traversal kernels."""

from renderer.bvh.build import build
from renderer.bvh.verify import BVHError, Statistics, sah_cost, statistics, verify
from renderer.bvh.wide import EMPTY_CHILD, WIDTHS, WideBVH

__all__ = ["EMPTY_CHILD", "WIDTHS", "BVHError", "Statistics", "WideBVH", "build", "sah_cost", "statistics", "verify"]
