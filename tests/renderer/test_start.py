"""The way to the first frame: what is on disk is not made again, and what is not needed is not imported."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.runtime.cache import Cache
from renderer.bvh import build, stored
from renderer.bvh.wide import WideBVH

Run = Callable[..., "subprocess.CompletedProcess[str]"]

LATE = (
    "engine.compiler.schedule", "engine.compiler.emit.llvm", "engine.purity", "PIL", "OpenEXR", "rich", "renderer.app.record",
    "llvmlite.binding", "tempfile",
)  # fmt: skip

FIRST_FRAME = f"""
import json, sys
from renderer.app import bench, cli

def measure(session, options, progress):
    session.frame()
    print(json.dumps([name for name in {LATE!r} if name in sys.modules]))
    raise SystemExit(0)

bench.measure = measure
cli.main(["bench", sys.argv[1], "--backend", "cpu", "--size", "16", "16", "--quiet", "--json", "-"])
"""


def test_a_second_process_traces_nothing_and_draws_the_same_picture(rayfuse: Run, cornell: Path, tmp_path: Path) -> None:
    records = []
    for _ in range(2):
        done = rayfuse(
            "bench", cornell, "--backend", "cpu", "--size", 40, 24, "--frames", 2, "--warmup", 1, "--json", "-", "--quiet",
            env={"JIT_CACHE": str(tmp_path / "cache")},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        records.append(json.loads(done.stdout))
    first, second = records
    assert first["time_s"]["trace"] > 0 and first["compile"]["cache_misses"] == first["compile"]["kernels"]
    assert second["time_s"]["trace"] == 0 and second["compile"]["cache_misses"] == 0
    assert second["compile"]["kernels"] == first["compile"]["kernels"] == second["compile"]["cache_hits"]
    assert second["image"]["sha256"] == first["image"]["sha256"]


def test_what_a_warm_start_does_not_import(root: Path, cornell: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(root))
    imported = []
    for _ in range(2):
        command = [sys.executable, "-c", FIRST_FRAME, str(cornell)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        imported.append(json.loads(done.stdout))
    assert "engine.compiler.schedule" in imported[0]
    assert imported[1] == []


# ---- trees on disk ----


def scattered(count: int, seed: int = 1) -> np.ndarray[Any, Any]:
    """Small triangles all over a cube."""
    random = np.random.default_rng(seed)
    corners = random.random((count, 1, 3)) + 0.02 * random.random((count, 3, 3))
    return corners.astype(np.float32)


def equal(one: WideBVH, other: WideBVH) -> bool:
    for name in (f.name for f in fields(WideBVH)):
        a, b = getattr(one, name), getattr(other, name)
        if not np.array_equal(a, b) or getattr(a, "dtype", None) != getattr(b, "dtype", None):
            return False
    return all(getattr(other, name).flags.c_contiguous for name in ("bounds", "child", "leaf_vertices", "leaf_triangle"))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setenv("JIT_CACHE", str(tmp_path))
    return Cache(tmp_path)


def trees(cache: Cache) -> int:
    """Entries beside that of the builder's own code, and the host's description."""
    assert cache.folder is not None
    return sum(b"\x7fELF" not in p.read_bytes()[:80] and p.stat().st_size > 4096 for p in Path(cache.folder).glob("*.entry"))


@pytest.mark.parametrize(("width", "leaf_size"), [(2, 4), (8, 8), (16, 16)])
def test_a_tree_from_the_disk_is_the_tree(cache: Cache, monkeypatch: pytest.MonkeyPatch, width: int, leaf_size: int) -> None:
    triangles = scattered(stored.LEAST)
    triangles[7, 1, 2] = np.nan
    expected = build(triangles, width=width, leaf_size=leaf_size)
    assert equal(expected, stored.built(triangles, width=width, leaf_size=leaf_size)) and trees(cache) == 1
    monkeypatch.setattr(stored, "build", None)  # calling it would fail
    assert equal(expected, stored.built(triangles, width=width, leaf_size=leaf_size))


def test_another_scene_shape_or_builder_is_another_tree(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    triangles = scattered(stored.LEAST)
    stored.built(triangles, width=8, leaf_size=8)
    moved = triangles.copy()
    moved[-1, 2, 2] = np.nextafter(moved[-1, 2, 2], np.float32(2))
    for count, (other, width) in enumerate(((moved, 8), (triangles[:-1].repeat(2, axis=0), 8), (triangles, 4)), start=2):
        assert equal(build(other, width=width, leaf_size=8), stored.built(other, width=width, leaf_size=8))
        assert trees(cache) == count
    monkeypatch.setattr(stored, "_version", lambda: b"another builder")
    stored.built(triangles, width=8, leaf_size=8)
    assert trees(cache) == 5


def test_a_damaged_tree_is_built_again(cache: Cache) -> None:
    triangles = scattered(stored.LEAST)
    expected = stored.built(triangles, width=8, leaf_size=8)
    for entry in Path(str(cache.folder)).glob("*.entry"):
        entry.write_bytes(entry.read_bytes()[:-1])
    assert equal(expected, stored.built(triangles, width=8, leaf_size=8))


def test_small_scenes_and_no_cache_are_built(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    small = scattered(stored.LEAST - 1)
    assert equal(build(small, width=8, leaf_size=8), stored.built(small, width=8, leaf_size=8)) and trees(cache) == 0
    monkeypatch.setenv("JIT_CACHE", "off")
    large = scattered(stored.LEAST)
    assert equal(build(large, width=8, leaf_size=8), stored.built(large, width=8, leaf_size=8)) and trees(cache) == 0
