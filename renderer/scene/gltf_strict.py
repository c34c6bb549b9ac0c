"""All of a glTF file, looked at: what strict mode adds to loading.

Loading reads what the scene shows, so a buffer that is missing, a view past its end or a skin without its joints cost nothing where no
primitive uses them, and are not told. Whoever asks for strictness wants to know whether the file is right: here every element of every
table is decoded, every index in it followed, all numbers read, and the first fault is the `SceneError` that names its JSON path.

Not here: what the readers tell in strict mode anyway (nodes that form no trees, materials, textures, pictures, meshes), and rules of
the specification whose breach changes no picture. Format: Khronos glTF 2.0 specification, chapter 3; animations, section 3.11.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from renderer.scene.accessors import AccessorReader
from renderer.scene.compression import MESHOPT, MeshoptView
from renderer.scene.gltf_cameras import check_camera
from renderer.scene.gltf_json import Diagnostics, Document, PartError, Table, decode_part
from renderer.scene.gltf_nodes import local_matrix


class _Sampler(msgspec.Struct):
    input: int
    output: int


class _Target(msgspec.Struct):
    node: int | None = None


class _Channel(msgspec.Struct):
    sampler: int
    target: _Target


class _Animation(msgspec.Struct):
    channels: list[_Channel]
    samplers: list[_Sampler]


def check_all(document: Document, reader: AccessorReader, diagnostics: Diagnostics) -> None:
    """Raises `SceneError` at the first fault of a file that is read in strict mode."""
    try:
        _check_numbers(document, reader)
        _check_nodes(document, diagnostics)
        for number in range(len(document.cameras)):
            check_camera(document, number, "")
        _check_skins(document, reader)
        for number, raw in enumerate(document.root.animations):
            _check_animation(document, reader, raw, f"animations[{number}]")
    except PartError as error:
        diagnostics.warning(error.path, error.message)


def _check_numbers(document: Document, reader: AccessorReader) -> None:
    """Buffers, views and accessors."""
    for number in range(len(document.buffers)):
        if number not in _fallbacks(document):
            reader.buffer(number, f"buffers[{number}]")
    for number in range(len(document.buffer_views)):
        data, stride = reader.view(number, f"bufferViews[{number}]")
        if stride is not None and stride > len(data):
            raise PartError(f"bufferViews[{number}].byteStride", f"stride {stride} is more than the {len(data)} bytes of the view")
    for number in range(len(document.accessors)):
        path = f"accessors[{number}]"
        if not reader.is_backed(number, path):  # of a Draco mesh, which is read with it
            continue
        values = reader.read(number, path)
        bad = values.size - int(np.isfinite(values).sum())
        if bad:
            raise PartError(path, f"{bad} of its numbers are not finite")


def _fallbacks(document: Document) -> set[int]:
    """The buffers that only readers without decompression need: all of whose views are packed, and lie in another buffer."""
    plain: set[int] = set()
    packed: set[int] = set()
    for number in range(len(document.buffer_views)):
        view = document.buffer_views.get(number, f"bufferViews[{number}]")
        name = next((name for name in MESHOPT if name in view.extensions), None)
        (plain if name is None else packed).add(view.buffer)
        if name is not None:
            plain.add(decode_part(view.extensions[name], MeshoptView, f"bufferViews[{number}].extensions.{name}").buffer)
    return packed - plain


def _check_nodes(document: Document, diagnostics: Diagnostics) -> None:
    """Nodes, and the scenes that show them."""
    tables: dict[str, Table[Any]] = {"mesh": document.meshes, "camera": document.cameras, "skin": document.skins}
    for number in range(len(document.nodes)):
        path = f"nodes[{number}]"
        node = document.nodes.get(number, path)
        for place, child in enumerate(node.children):
            document.nodes.check(child, f"{path}.children[{place}]")
        for name, table in tables.items():
            index = getattr(node, name)
            if index is not None:
                table.check(index, f"{path}.{name}")
        local_matrix(node, path, diagnostics)
    for number in range(len(document.scenes)):
        path = f"scenes[{number}]"
        for place, root in enumerate(document.scenes.get(number, path).nodes):
            document.nodes.check(root, f"{path}.nodes[{place}]")


def _check_skins(document: Document, reader: AccessorReader) -> None:
    for number in range(len(document.skins)):
        path = f"skins[{number}]"
        skin = document.skins.get(number, path)
        for place, joint in enumerate(skin.joints):
            document.nodes.check(joint, f"{path}.joints[{place}]")
        if skin.inverse_bind_matrices is not None:
            found = reader.read_floats(skin.inverse_bind_matrices, f"{path}.inverseBindMatrices", "MAT4")
            if len(found) < len(skin.joints):
                raise PartError(f"{path}.inverseBindMatrices", f"{len(found)} matrices for {len(skin.joints)} joints")


def _check_animation(document: Document, reader: AccessorReader, raw: msgspec.Raw, path: str) -> None:
    animation = decode_part(raw, _Animation, path)
    for place, channel in enumerate(animation.channels):
        where = f"{path}.channels[{place}]"
        if not 0 <= channel.sampler < len(animation.samplers):
            raise PartError(f"{where}.sampler", f"sampler {channel.sampler} does not exist (the animation has {len(animation.samplers)})")
        if channel.target.node is not None:
            document.nodes.check(channel.target.node, f"{where}.target.node")
    for place, sampler in enumerate(animation.samplers):
        where = f"{path}.samplers[{place}]"
        times = reader.read_floats(sampler.input, f"{where}.input", "SCALAR")[:, 0]
        if times[0] < 0.0 or (np.diff(times) <= 0.0).any():
            raise PartError(f"{where}.input", "its times do not increase from 0")
        document.accessors.check(sampler.output, f"{where}.output")
