"""A file that has changed is told of once it is whole, however it was written."""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from renderer.app.viewer import reload
from renderer.app.viewer.reload import Changed, Watcher
from renderer.scene.named_files import scene_files

PATIENCE = 30.0  # seconds
QUIET = 0.65  # seconds, with what it takes to settle longer than the watcher's longest wait here


class Watching:
    """A watcher, and what it has posted."""

    def __init__(self) -> None:
        self.posted: queue.Queue[Changed] = queue.Queue()
        self.said: list[str] = []
        self.watcher = Watcher(self.posted.put, self.said.append)

    def next(self) -> Changed:
        return self.posted.get(timeout=PATIENCE)

    def until_known(self, *files: Path) -> None:
        """Waits until the watcher's thread has found the files that belong to the scene, and has seen how these are."""
        deadline = time.monotonic() + PATIENCE
        while not set(files) <= self.watcher._watched["scene"].known.keys():
            assert time.monotonic() < deadline, "the scene's files are not found"
            time.sleep(0.01)

    def nothing_more(self) -> bool:
        """Whether nothing is posted for a while."""
        try:
            self.posted.get(timeout=QUIET + reload.SETTLED)
        except queue.Empty:
            return True
        return False


@pytest.fixture
def watching(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watching]:
    pytest.importorskip("watchfiles", reason="watchfiles is not installed: pip install 'rayfuse[viewer]'")
    monkeypatch.setattr(reload, "LONGEST", 300)
    made = Watching()
    yield made
    made.watcher.close()


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """A scene with a buffer and a picture in other files."""
    file = tmp_path / "room.gltf"
    write_scene(file, "a name.bin")
    (tmp_path / "a name.bin").write_bytes(bytes(12))
    return file


def write_scene(file: Path, buffer: str) -> None:
    uris = [{"byteLength": 12, "uri": buffer.replace(" ", "%20")}, {"byteLength": 1, "uri": "data:,a"}, {"byteLength": 12}]
    told = {"asset": {"version": "2.0"}, "buffers": uris, "images": [{"uri": "pictures/wood.png"}, {"bufferView": 0}]}
    file.write_text(json.dumps(told))


def test_files_that_a_scene_names_belong_to_it(scene: Path) -> None:
    folder = scene.parent
    assert scene_files(scene) == [scene, folder / "a name.bin", folder / "a%20name.bin", folder / "pictures" / "wood.png"]
    scene.write_text("{")
    assert scene_files(scene) == []


def write_obj(folder: Path) -> tuple[Path, Path, Path]:
    """An OBJ file with a library and a picture in another folder each: the three."""
    (folder / "my maps").mkdir()
    scene, library, picture = folder / "room.obj", folder / "paint.mtl", folder / "my maps" / "wood.png"
    scene.write_bytes(b"# mtllib none.mtl\r\n mtllib paint.mtl\r\nv 0 0 0\r\nv 1 0 0\nv 0 1 0\nusemtl a\nf 1 2 3\n")
    pictures = "map_Kd -s 2 2 2 C:\\art\\my maps\\wood.png\nKd 1 0 0\n#map_Ks no.png\n\tmap_Bump\t-bm 2 my maps/wood.png\n"
    library.write_text(f"newmtl a\n{pictures}")
    picture.write_bytes(b"wood")
    return scene, library, picture


def test_files_that_an_obj_file_and_its_libraries_name_belong_to_it(tmp_path: Path) -> None:
    scene, library, picture = write_obj(tmp_path)
    named = scene_files(scene)
    assert named[:2] == [scene, library] and picture in named
    assert {file.name for file in named} == {"room.obj", "paint.mtl", "wood.png"}
    scene.write_text("mtllib a b.mtl c.mtl\nmtllib ../out.mtl\nf 1 2 3\n")
    assert scene_files(scene) == [scene, *(tmp_path / name for name in ("a b.mtl c.mtl", "a", "b.mtl", "c.mtl"))]
    for other in ("a.ply", "a.stl"):
        assert scene_files(tmp_path / other) == [tmp_path / other]
    assert scene_files(tmp_path / "gone.obj") == []


def test_a_change_of_a_library_or_its_picture_is_one_of_the_obj_file(watching: Watching, tmp_path: Path) -> None:
    scene, library, picture = write_obj(tmp_path)
    watching.watcher.watch("scene", scene)
    watching.until_known(library, picture)
    picture.write_bytes(b"oak")
    assert watching.next() == Changed("scene", scene)
    library.write_text("newmtl a\nmap_Kd other.png\n")
    assert watching.next() == Changed("scene", scene)
    watching.until_known(tmp_path / "other.png")
    (tmp_path / "other.png").write_bytes(b"new")
    assert watching.next() == Changed("scene", scene)
    assert watching.nothing_more()


def test_a_scene_written_in_place_or_replaced_or_made_anew_is_one_change_each(watching: Watching, scene: Path) -> None:
    watching.watcher.watch("scene", scene)
    scene.write_text(scene.read_text() + " ")
    assert watching.next() == Changed("scene", scene)
    beside = scene.with_name("new")
    beside.write_text(scene.read_text() + " ")
    os.replace(beside, scene)
    assert watching.next() == Changed("scene", scene)
    text = scene.read_text()
    scene.unlink()
    assert watching.nothing_more()
    scene.write_text(text)
    assert watching.next() == Changed("scene", scene)
    assert watching.nothing_more()


def test_a_change_of_a_buffer_or_a_picture_is_one_of_the_scene(watching: Watching, scene: Path) -> None:
    watching.watcher.watch("scene", scene)
    watching.until_known(scene.parent / "a name.bin")
    (scene.parent / "a name.bin").write_bytes(bytes(13))
    assert watching.next() == Changed("scene", scene)
    (scene.parent / "pictures").mkdir()
    (scene.parent / "pictures" / "wood.png").write_bytes(b"not there before")
    assert watching.next() == Changed("scene", scene)
    (scene.parent / "unrelated.bin").write_bytes(bytes(13))
    assert watching.nothing_more()


def test_a_scene_that_names_other_files_is_watched_with_those(watching: Watching, scene: Path) -> None:
    watching.watcher.watch("scene", scene)
    (scene.parent / "below").mkdir()
    (scene.parent / "below" / "other.bin").write_bytes(bytes(12))
    write_scene(scene, "below/other.bin")
    assert watching.next() == Changed("scene", scene)
    watching.until_known(scene.parent / "below" / "other.bin")
    (scene.parent / "below" / "other.bin").write_bytes(bytes(14))
    assert watching.next() == Changed("scene", scene)
    scene.write_text("{")
    assert watching.next() == Changed("scene", scene)
    (scene.parent / "below" / "other.bin").write_bytes(bytes(15))  # a scene that is broken keeps the files it had
    assert watching.next() == Changed("scene", scene)


def test_a_file_that_is_still_written_is_taken_up_once_when_it_is_whole(
    watching: Watching, scene: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload, "SETTLED", 1.0)  # so that this thread may be kept waiting for a while
    watching.watcher.watch("scene", scene)
    text = scene.read_text() + " " * 100
    with scene.open("w") as file:
        for start in range(0, len(text), 8):
            file.write(text[start : start + 8])
            file.flush()
            time.sleep(0.02)
    watching.next()
    assert scene.read_text() == text and watching.nothing_more()


def test_each_kind_has_one_file_and_the_one_before_is_left_alone(watching: Watching, scene: Path, tmp_path: Path) -> None:
    other, module = tmp_path / "other.gltf", tmp_path / "shading.py"
    shutil.copy(scene, other)
    module.write_text("a = 1")
    watching.watcher.watch("scene", scene)
    watching.watcher.watch("scene", other)
    watching.watcher.watch("shading", module)
    module.write_text("a = 22")
    assert watching.next() == Changed("shading", module)
    scene.write_text("{}")
    assert watching.nothing_more()
    watching.watcher.watch("shading", None)
    module.write_text("a = 333")
    other.write_text("{}")
    assert watching.next() == Changed("scene", other)
    assert watching.nothing_more()


def test_watching_a_file_again_does_not_miss_what_has_just_happened(watching: Watching, scene: Path) -> None:
    watching.watcher.watch("scene", scene)
    watching.until_known(scene.parent / "a name.bin")
    scene.write_text(scene.read_text() + " ")
    watching.watcher.watch("scene", scene)
    assert watching.next() == Changed("scene", scene)


def test_a_change_is_found_without_the_systems_notices(watching: Watching, scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_watcher(*folders: str, **options: object) -> Iterator[set[object]]:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr("watchfiles.watch", no_watcher)
    watching.watcher.watch("scene", scene)
    scene.write_text(scene.read_text() + " ")
    assert watching.next() == Changed("scene", scene)


def test_closing_ends_the_thread(scene: Path) -> None:
    pytest.importorskip("watchfiles", reason="watchfiles is not installed: pip install 'rayfuse[viewer]'")
    watching = Watching()
    watching.watcher.watch("scene", scene)
    started = time.monotonic()
    watching.watcher.close()
    assert time.monotonic() - started < PATIENCE / 3
    assert not any(thread.name == "rayfuse-watcher" for thread in threading.enumerate())


def test_without_watchfiles_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, scene: Path) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(reload.importlib.util, "find_spec", lambda name: None if name == "watchfiles" else found(name))
    watching = Watching()
    watching.watcher.watch("scene", scene)
    watching.watcher.close()
    assert watching.said == ["files are not watched for changes: pip install watchfiles"]
