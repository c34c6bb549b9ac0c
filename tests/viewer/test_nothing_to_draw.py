"""A scene without a triangle in the window: its surroundings are shown, and whoever opened it can go on from there (C07, C19).

What has nothing to draw is no fault of the viewer's: a file that is being written, a heap of points, a model whose meshes were all
skipped. Without a window the same file is refused, since its picture would be of no use (exit code 2).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.renderer.helpers.gltf_file import QUAD, File, one_quad
from tests.viewer.test_end_to_end import ALIKE, HEIGHT, SCENES, bare, golden, until_shown, values
from tests.viewer.xvfb import ROOT, Pixels, Views

HEADER = "ply\nformat ascii 1.0\nelement vertex {}\nproperty float x\nproperty float y\nproperty float z\n"


def write_empty(folder: Path) -> dict[str, Path]:
    """Scenes of nothing, by what they are."""
    ply, skipped = folder / "empty.ply", File()
    ply.write_text(HEADER.format(1) + "element face 0\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n")
    skipped.node(mesh=skipped.mesh({"attributes": {"NORMAL": skipped.accessor(QUAD)}}))
    flat = one_quad(scale=[0, 0, 0])
    files = {"a PLY file without faces": ply, "a mesh that is skipped": skipped.write(folder, "skipped.glb")}
    return {**files, "triangles without extent": flat.write(folder, "flat.glb")}


def is_even(pixels: Pixels) -> bool:
    """Whether a picture is bright and, but for a line of text at its lower edge, of one colour."""
    sky = pixels[: HEIGHT - 80]
    return bool(sky.min() > 100 and np.ptp(sky.reshape(-1, 3), axis=0).max() <= 2)


def test_an_empty_scene_is_a_view_of_its_surroundings_and_the_next_file_opens(views: Views, tmp_path: Path) -> None:
    scene = write_empty(tmp_path)["a PLY file without faces"]
    viewer = bare(views, scene, "--backend", "cpu")
    viewer.until(lambda: "empty.ply — cpu" in viewer.title and is_even(viewer.pixels()), "the sky is shown")
    assert "warning: the scene has nothing to draw: there are no triangles" in viewer.said
    viewer.drag((100, 100), (160, 120))
    viewer.click((150, 100))
    viewer.until_still()
    assert is_even(viewer.pixels())
    viewer.drop(SCENES / "cornell.gltf")
    until_shown(viewer, golden("cornell"), "the box", 2 * ALIKE)
    viewer.key("Escape")
    assert viewer.wait() == 0, viewer.said
    record = viewer.record()
    assert values(record, "pick")[0] is None and record["samples_accumulated"] > 0
    assert "Traceback" not in viewer.said


@pytest.mark.parametrize("what", ["a PLY file without faces", "a mesh that is skipped", "triangles without extent"])
def test_without_a_window_it_is_refused_with_what_is_known_of_why(what: str, tmp_path: Path) -> None:
    scene = write_empty(tmp_path)[what]
    command = [sys.executable, "-m", "renderer.app.cli", "render", str(scene), "-o", "a.png", "--quiet", "--backend", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"rayfuse: error: {scene}: there is nothing to draw: no triangles in its scene")
    cause = {"a mesh that is skipped": "(meshes[0].primitives[0].attributes: there is no POSITION; it is skipped)"}
    assert cause.get(what, "") in done.stderr
    assert not (tmp_path / "a.png").exists()
