"""What a scene file may name: files at or below its own folder, and nothing else, whatever form the name has.

A scene comes from somebody else. What it names is opened on the machine of whoever looks at it, so a name that is absolute, remote, or
climbs out of the folder, in plain or in disguise, is refused before anything is opened (Python tells of each file that it opens). What
stands in the folder was put there by its owner: links are followed. Devices and pipes are not read at all: they might never end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from renderer.scene.gltf import load
from renderer.scene.images import ImageError, read_image
from renderer.scene.importers import load as load_any
from renderer.scene.model import SceneError
from tests.renderer.helpers.damage import answer
from tests.renderer.helpers.gltf_file import QUAD, one_quad
from tests.renderer.helpers.picture_files import png

OUTSIDE = [
    "{outside}", "file://{outside}", "FILE://{outside}", "file:{outside}", "http://127.0.0.1:9/{name}", "https://127.0.0.1:9/{name}",
    "//127.0.0.1/{name}", "../{name}", "a/../../{name}", "./.././{name}", "%2e%2e/{name}", "%2E%2E%2F{name}", "..%2f{name}",
    "sub/%2e%2e/%2e%2e/{name}", "%2f..{outside}", "\\\\server\\share\\{name}", "..\\{name}", "C:\\{name}", "c:/{name}", "C:{name}",
    "%5c%5cserver%5cshare%5c{name}", "{name}\0.png", "~/{name}", "$HOME/{name}", "%00../{name}", "%c0%ae%c0%ae/{name}",
]  # fmt: skip


OPENED: list[str] | None = None  # the files that Python opens, and that it asks a network, go here while it is there


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if OPENED is not None and event == "open":
        OPENED.append(str(arguments[0]))
    elif OPENED is not None and event.startswith("socket."):
        OPENED.append(f"secret: {event}")


sys.addaudithook(_heard)  # which nothing can take away again


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """The paths of the files that are opened meanwhile."""
    global OPENED
    OPENED = []
    try:
        yield OPENED
    finally:
        OPENED = None


@pytest.mark.parametrize("uri", OUTSIDE)
def test_nothing_outside_the_folder_of_the_scene_is_read(uri: str, tmp_path: Path) -> None:
    folder = tmp_path / "scene"
    (folder / "sub").mkdir(parents=True)
    file = one_quad(material=0)
    outside = tmp_path / "secret.png"
    outside.write_bytes(png(QUAD.astype("u1")[:, :3].reshape(2, 2, 3)))
    (tmp_path / "secret.bin").write_bytes(file.blob)
    name = uri.format(outside=outside, name="secret.png")
    file.json["images"] = [{"uri": name}]
    file.json["textures"] = [{"source": 0}]
    file.json["materials"] = [{"emissiveTexture": {"index": 0}}]
    picture, buffer = file.write(folder, "picture.gltf"), folder / "buffer.gltf"
    with opened_files() as seen:
        assert answer(picture) == ""
        scene = load(picture)
    assert scene.images[0].source is None and scene.warnings[0].startswith("images[0].uri: ") and len(scene.instances) == 1
    file.json["buffers"] = [{"byteLength": len(file.blob), "uri": name.replace(".png", ".bin")}]
    file.write(folder, "buffer.gltf")
    with opened_files() as again:
        scene = load(buffer)
        assert answer(buffer, strict=True)
    assert not scene.instances and any(text.startswith("buffers[0].uri: ") for text in scene.warnings)
    assert str(picture) in seen and str(buffer) in again
    assert not [path for path in seen + again if "secret" in path and not path.startswith(str(folder))]


def test_a_link_in_the_folder_is_the_owners_word_and_is_followed_but_not_to_a_device(tmp_path: Path) -> None:
    folder = tmp_path / "scene"
    folder.mkdir()
    file = one_quad()
    blob = tmp_path / "elsewhere.bin"
    blob.write_bytes(file.blob)
    file.json["buffers"] = [{"byteLength": len(file.blob), "uri": "linked.bin"}]
    path = file.write(folder, "scene.gltf")
    link = folder / "linked.bin"
    link.symlink_to(blob)
    assert len(load(path).instances) == 1
    for target in ("/dev/zero", "/dev/stdin", str(folder / "linked.bin"), str(tmp_path)):
        link.unlink()
        link.symlink_to(target)
        assert "buffers[0].uri: no file 'linked.bin' beside the scene file" in load(path).warnings[0], target
    link.unlink()
    os.mkfifo(link)
    assert "no file 'linked.bin'" in load(path).warnings[0], "and no pipe is waited for"


@pytest.mark.parametrize("name", ["scene.glb", "scene.gltf", "scene.obj", "scene.ply", "scene.stl", "scene"])
def test_a_pipe_or_a_device_in_place_of_a_scene_is_refused_and_not_waited_for(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    assert "is a device or a pipe, not a file; give the path of" in answer(tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    assert "is a device or a pipe, not a file" in answer(tmp_path / name)


def test_a_name_that_no_file_can_have_is_told(tmp_path: Path) -> None:
    for name in ("a\0b.glb", "a\0b.obj", "n" * 5000 + ".glb"):
        with pytest.raises(SceneError, match="give the path of a"):
            load(tmp_path / name)


SQUARE = "v 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\n"


@pytest.mark.parametrize("name", [uri for uri in OUTSIDE if "\0" not in uri])
def test_nor_is_it_where_an_obj_file_or_its_library_names_it(name: str, tmp_path: Path) -> None:
    """A picture's absolute path is tried by its last part, beside the library: there is none of that name."""
    folder = tmp_path / "scene"
    (folder / "sub").mkdir(parents=True)
    outside = tmp_path / "secret.png"
    outside.write_bytes(png(QUAD.astype("u1")[:, :3].reshape(2, 2, 3)))
    (tmp_path / "secret.mtl").write_text("newmtl a\nKd 1 0 0\n")
    told = name.format(outside=outside, name="secret.png")
    (folder / "a.mtl").write_text("".join(f"newmtl {key}\n{key} {told}\n" for key in ("map_Kd", "map_Ke", "map_d", "map_Bump", "norm")))
    (folder / "a.obj").write_text(f"mtllib a.mtl\nmtllib {told.replace('.png', '.mtl')}\n{SQUARE}usemtl map_Kd\nf 1/1 2/1 3/1\n")
    with opened_files() as seen:
        assert answer(folder / "a.obj") == ""
        scene = load_any(folder / "a.obj")
    assert scene.images == [] and len(scene.instances) == 1 and len(scene.materials) >= 5
    assert sum("secret" in warning for warning in scene.warnings) >= 2
    assert not [path for path in seen if "secret" in path and not path.startswith(str(folder))]


def test_an_obj_file_that_names_itself_or_its_library_that_names_the_file_ends(tmp_path: Path) -> None:
    (tmp_path / "a.obj").write_text(f"mtllib a.obj\nmtllib a.mtl\nmtllib a.mtl\ncall a.obj\n{SQUARE}f 1 2 3\n")
    (tmp_path / "a.mtl").write_text("mtllib a.mtl\ncall a.mtl\nmap_Kd a.obj\nnewmtl a\nmap_Kd a.mtl\nrefl a.obj\n")
    assert answer(tmp_path / "a.obj") == ""


def test_a_pipe_in_place_of_surroundings_is_refused(tmp_path: Path) -> None:
    for name in ("a.hdr", "a.exr", "a.png", "a.npy"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(ImageError, match="is a device or a pipe, not a file; give the path of a picture"):
            read_image(tmp_path / name)
