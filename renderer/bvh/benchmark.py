"""The builder's benchmark: `python -m renderer.bvh.benchmark [TRIANGLES.npy] [--width 16] [--leaf-size 16]`.

Without a file it builds over a room full of bumpy spheres, about as many triangles as the usual test scene. It
prints what a user waits for (the first build, with the compilation of the builder), then the median of the following
ones, and how good the tree is.
"""

from __future__ import annotations

import argparse
import statistics as stats
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from renderer.bvh import build, statistics, verify


def bumpy_spheres(spheres: int = 40, rings: int = 40, segments: int = 80, seed: int = 1) -> NDArray[np.float32]:
    """Triangles float32[spheres * rings * segments * 2, 3, 3] of spheres with a relief, scattered in a cube of 2
    m."""
    random = np.random.default_rng(seed)
    theta, phi = np.meshgrid(np.linspace(0, np.pi, rings + 1), np.linspace(0, 2 * np.pi, segments + 1), indexing="ij")
    direction = np.stack((np.sin(theta) * np.cos(phi), np.cos(theta), np.sin(theta) * np.sin(phi)), axis=-1)
    relief = 1 + 0.05 * np.sin(9 * phi) * np.sin(7 * theta)
    radius = random.uniform(0.05, 0.3, (spheres, 1, 1, 1))
    grid = random.uniform(-1, 1, (spheres, 1, 1, 3)) + radius * (direction * relief[..., None])
    a, b, c, d = grid[:, :-1, :-1], grid[:, 1:, :-1], grid[:, 1:, 1:], grid[:, :-1, 1:]
    quads = np.stack((np.stack((a, b, c), axis=-2), np.stack((a, c, d), axis=-2)), axis=3)
    return np.ascontiguousarray(quads.reshape(-1, 3, 3), np.float32)


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its table."""
    parser = argparse.ArgumentParser(prog="python -m renderer.bvh.benchmark", description="Times the BVH builder.")
    parser.add_argument(
        "triangles", nargs="?", type=Path, help="a .npy file of float32[n, 3, 3]; default: bumpy spheres"
    )
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--leaf-size", type=int, default=16)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args(arguments)
    triangles = np.load(options.triangles) if options.triangles else bumpy_spheres()

    seconds = []
    for _ in range(options.runs + 1):
        start = time.perf_counter()
        bvh = build(triangles, width=options.width, leaf_size=options.leaf_size)
        seconds.append(time.perf_counter() - start)
    start = time.perf_counter()
    verify(bvh, triangles)
    verified = time.perf_counter() - start

    found = statistics(bvh)
    print(f"triangles        {found.triangles:12,}   width {bvh.width}, leaf size {bvh.leaf_size}")
    print(f"first build      {seconds[0] * 1e3:12.1f} ms")
    print(f"build            {stats.median(seconds[1:]) * 1e3:12.1f} ms   median of {options.runs}")
    print(f"verified in      {verified * 1e3:12.1f} ms")
    print(f"nodes            {found.nodes:12,}   {found.children_per_node:.2f} children each")
    print(f"leaves           {found.leaves:12,}   {found.leaf_fill:.1%} filled")
    print(f"depth            {found.depth:12}   stack bound {found.stack_bound}")
    print(f"SAH cost         {found.sah_cost:12.2f}   nodes {found.node_cost:.2f}, leaves {found.leaf_cost:.2f}")
    print(f"memory           {found.bytes / 2**20:12.1f} MiB")


if __name__ == "__main__":
    main()
