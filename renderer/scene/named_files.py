"""Which files a scene is in: its own, and those that it names, for whoever wants to know when one of them changes.

Nothing is loaded for it. A glTF file names buffers and pictures; an OBJ file names libraries of materials, which name pictures. The rules
of looking for them are the importers': names may be percent-encoded or not, several libraries may stand in one line, a picture whose path
is somebody else's is looked for by its last part. Where there is more than one place to look at, all are told, there or not: a file that
turns up in one of them is a change too. Files outside the folder of the scene are not read, so they do not count.
"""

from __future__ import annotations

import os
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import msgspec

from renderer.scene.gltf_json import Diagnostics, PartError, decode_part, read_document
from renderer.scene.importers import kind_of
from renderer.scene.model import SceneError
from renderer.scene.mtl import pictures_of
from renderer.scene.obj import COMMENT

_LIBRARIES = re.compile(rb"^[ \t]*mtllib[ \t]+([^\r\n]+)", re.MULTILINE)


class _Uri(msgspec.Struct):
    uri: str | None = None


def scene_files(scene: Path) -> list[Path]:
    """The scene file and the files that it names, there or not; empty where it cannot be read."""
    kind = kind_of(scene)
    try:
        named = _of_gltf(scene) if kind == "gltf" else _of_obj(scene) if kind == "obj" else iter(())
        return list(dict.fromkeys([scene, *named]))
    except (SceneError, OSError):
        return []


def _of_gltf(scene: Path) -> Iterator[Path]:
    root = read_document(scene, Diagnostics(scene, False, None)).root
    for raw in (*root.buffers, *root.images):
        try:
            uri = decode_part(raw, _Uri, "").uri
        except PartError:
            continue
        if uri and uri[:5].lower() != "data:":
            yield from (scene.parent / name for name in dict.fromkeys((unquote(uri), uri)))


def _of_obj(scene: Path) -> Iterator[Path]:
    for names in _LIBRARIES.findall(scene.read_bytes().removeprefix(BOM_UTF8)):
        whole = COMMENT.sub(b"", names).decode("utf-8", "replace").strip()
        for name in dict.fromkeys((whole, *whole.split())):
            for library in _inside(scene.parent, name):
                yield library
                try:
                    text = library.read_bytes().decode("utf-8-sig", "replace")
                except (OSError, ValueError):
                    continue
                for picture in pictures_of(text):
                    yield from _inside(library.parent, picture)
                    yield from _inside(library.parent, picture.replace("\\", "/").rsplit("/", 1)[-1])


def _inside(folder: Path, name: str) -> Iterator[Path]:
    """The places at or below a folder where a file of this name may be."""
    name = name.replace("\\", "/")
    for each in dict.fromkeys((unquote(name), name)):
        inside = os.path.normpath(each)
        if not (os.path.isabs(inside) or inside.split(os.sep)[0] == os.pardir or re.match(r"[A-Za-z][A-Za-z0-9+.\-]*:", each)):
            yield folder / inside

