"""What the window is about: files that are opened, saved and read again, and the camera that belongs to them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("moderngl", reason="the viewer's packages are not installed: pip install 'rayfuse[viewer]'")

from renderer.app.viewer.building import Source, Structure
from renderer.app.viewer.document import Document
from renderer.app.viewer.state import Settings
from renderer.scene.gltf import load


@pytest.fixture
def document(cornell: Path, tmp_path: Path) -> Document:
    file = tmp_path / "room.glb"
    opened = Document(file, None)
    scene = load(cornell)
    assert opened.adopt(scene, scene.cameras[0], opened.source, Settings())
    return opened


def test_a_scene_that_is_saved_over_its_own_file_is_not_to_be_read_again(document: Document) -> None:
    path = document.source.path
    assert not document.is_own(path)
    document.save(path)
    assert document.is_own(path) and document.is_own(Path(os.path.relpath(path)))
    path.write_bytes(path.read_bytes() + b" ")
    assert not document.is_own(path), "somebody else has written it"
    document.save(path)
    path.unlink()
    assert not document.is_own(path)


def test_saving_beside_leaves_all_files_but_its_own(document: Document, tmp_path: Path) -> None:
    foreign = tmp_path / "room-edited.glb"
    foreign.write_bytes(b"of somebody else")
    for _ in range(2):
        assert document.save_beside().startswith(f"saved {tmp_path / 'room-edited-2.glb'}")
    assert foreign.read_bytes() == b"of somebody else" and not document.source.path.exists()
    assert load(tmp_path / "room-edited-2.glb").instances


def test_a_file_that_is_read_again_keeps_the_view_and_another_one_does_not(document: Document, cornell: Path) -> None:
    settings = Settings()
    document.move(lambda view: replace(view, pivot=view.pivot + 1.0))
    moved = document.camera
    document.open(document.source.path)
    again = load(cornell)
    assert document.known(document.source) is None and document.adopt(again, again.cameras[0], document.source, settings)
    assert document.camera is moved and document.editor is not None and document.editor.scene is again
    document.open(cornell)
    other = load(cornell)
    assert document.adopt(other, other.cameras[0], document.source, settings) and document.camera is not moved


def test_what_cannot_be_had_is_taken_back(document: Document, tmp_path: Path) -> None:
    shown = Structure("cpu", None, document.source, None)
    document.open(tmp_path / "broken.glb")
    assert document.source == Source(tmp_path / "broken.glb") and document.editor is not None
    document.revert(shown)
    assert document.source == shown.scene and document.known(document.source) is document.editor.scene
