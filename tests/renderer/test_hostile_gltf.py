"""glTF files that are wrong in every place, one after another: each is a scene or one clear line, and soon.

A file with one of everything (`helpers.everything`) is taken; each value in its JSON becomes each of what a wrong exporter or a bad mind
would put there, each property goes, the file is cut at each byte of its headers and at many others, and bytes are changed at random.

Of places that are alike (`accessors[*].count`) one is taken, and of values most; with HYPOTHESIS_EXAMPLES set all of both, which takes
minutes.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from renderer.scene.gltf import load
from tests.renderer.helpers.damage import answer, bounded, damaged
from tests.renderer.helpers.everything import everything
from tests.renderer.helpers.gltf_file import File, glb, one_quad

GONE = "(gone)"
BEYOND = "(1e999)"  # a number that no float holds
INTEGERS: tuple[Any, ...] = (-1, 0, 7, 2**24, 2**31, 2**63, 1e30, "x", None, [], {}, True, BEYOND, GONE)
VALUES: tuple[Any, ...] = (*INTEGERS, 2**64, -1e30, 1e-40, "", [1], {"a": 1})
ALL = "HYPOTHESIS_EXAMPLES" in os.environ
FEW = 4  # values for what is no whole number
EXAMPLES = 2400 if ALL else 400  # of random damage


def places(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value in a JSON document."""
    items: Any = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def places_of_each_kind(document: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The path of each value, or of one of those that differ by their numbers only."""
    kinds = {tuple(0 if isinstance(key, int) and not ALL else key for key in path): path for path in places(document)}
    return list(kinds.values())


def at(document: Any, path: tuple[Any, ...]) -> Any:
    """The value at a path."""
    for key in path:
        document = document[key]
    return document


def cases(document: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Paths, and what is to stand there."""
    for number, path in enumerate(places_of_each_kind(document)):
        if ALL:
            values = VALUES
        elif type(at(document, path)) is int:
            values = INTEGERS
        else:
            values = tuple(VALUES[(number + 7 * k) % len(VALUES)] for k in range(FEW))
        yield from ((path, value) for value in values)


def changed(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> bytes:
    """The document's JSON with another value at a path; the document stays as it was."""
    holder = at(document, path[:-1])
    key, before = path[-1], list(holder.items()) if isinstance(holder, dict) else list(holder)
    if value is GONE:
        del holder[key]
    else:
        holder[key] = value
    text = json.dumps(document).replace(f'"{BEYOND}"', "1e999").encode()
    holder.clear()
    (holder.update if isinstance(holder, dict) else holder.extend)(before)
    return text


def whole() -> tuple[dict[str, Any], bytes]:
    """The JSON and the bytes of the file that has everything."""
    file = everything()
    document: dict[str, Any] = json.loads(json.dumps(file.json))
    document["buffers"] = [{"byteLength": len(file.blob)}]
    return document, file.blob


def test_the_file_that_has_everything_is_read_whole(tmp_path: Path) -> None:
    scene = everything().load(tmp_path)
    assert [text for text in scene.warnings if "yet" not in text] == []
    assert len(scene.cameras) == len(scene.lights) == len(scene.variants) == 2 and scene.totals().triangles >= 18


def test_whatever_stands_in_its_json_the_answer_is_a_scene_or_one_line(tmp_path: Path) -> None:
    document, blob = whole()
    wrong = list(cases(document))
    assert len(wrong) > 1500
    refused = 0
    for number, (path, value) in enumerate(wrong):
        file = tmp_path / "changed.glb"
        file.write_bytes(glb(changed(document, path, value), blob))
        try:
            refused += bool(answer(file, strict=number % 5 == 0))
        except Exception as error:
            error.add_note(f"with {value!r} at {path}")
            raise
    assert 0.01 < refused / len(wrong) < 0.5, "most of what is wrong costs a part and not the file, except in strict mode"


def test_it_takes_no_memory_that_the_file_does_not_account_for(tmp_path: Path) -> None:
    """Sizes are checked before anything is allocated: a file of some kilobytes takes megabytes at most, whatever its numbers say."""
    document, blob = whole()
    sizes = [path for path in places_of_each_kind(document) if path[-1] in ("count", "byteLength", "byteOffset", "byteStride")]
    assert len(sizes) > 10
    file = tmp_path / "large.glb"
    with bounded(40):
        for path in sizes:
            for value in (2**22, 2**26, 2**31 - 1, 2**62):
                file.write_bytes(glb(changed(document, path, value), blob))
                answer(file)


def test_zeros_without_bytes_are_as_many_as_the_file_can_have_a_use_for(tmp_path: Path) -> None:
    file = one_quad()
    file.json["accessors"].append({"componentType": 5126, "type": "VEC3", "count": 2**20})
    file.node(mesh=file.mesh({"attributes": {"POSITION": 2}}))
    scene = file.load(tmp_path)
    assert scene.warnings == [
        "accessors[2].count: count 1048576 is too many for an accessor without buffer view; meshes[1].primitives[0] is skipped"
    ]
    file.json["accessors"][2]["count"] = 1000
    assert len(file.load(tmp_path).instances) == 2
    file.blob += bytes(2**18)  # a larger file may have more of them: shapes of a large mesh are sparse
    file.json["accessors"][2]["count"] = 2**20
    assert len(file.load(tmp_path).meshes[1].geometries[0].positions) == 2**20


def test_cut_off_anywhere_it_is_refused_with_how_much_is_there(tmp_path: Path) -> None:
    data = everything().glb()
    json_length = struct.unpack_from("<I", data, 12)[0]
    binary = 20 + json_length
    ends = {*range(30), *range(binary - 4, binary + 12), *range(len(data) - 8, len(data)), *range(30, len(data), 97)}
    path = tmp_path / "cut.glb"
    for end in sorted(ends):
        path.write_bytes(data[:end])
        text = answer(path)
        if end == 0:
            assert "the file is empty" in text
        elif end >= 12:
            assert f"cut off: {end} bytes of {len(data)}" in text
        else:
            assert "cut off inside the GLB header" in text or "not a glTF file" in text, text


def test_a_header_whose_lengths_do_not_fit_is_refused(tmp_path: Path) -> None:
    data = bytearray(everything().glb())
    path = tmp_path / "lengths.glb"
    binary = 20 + struct.unpack_from("<I", data, 12)[0]
    for at in (4, 8, 12, binary):
        for value in (0, 1, 3, 4, 11, 12, 19, 20, len(data) - 1, len(data) + 4, 2**31, 2**32 - 1, 2**32 - 4):
            wrong = bytearray(data)
            struct.pack_into("<I", wrong, at, value)
            path.write_bytes(wrong)
            assert answer(path, strict=True), (at, value)
            answer(path)


def test_bytes_that_are_wrong_at_random(tmp_path: Path) -> None:
    """Pictures, packed meshes and their extensions are in there too."""
    data = everything().glb()
    binary = 20 + struct.unpack_from("<I", data, 12)[0]
    path = tmp_path / "random.glb"
    for seed in range(EXAMPLES):
        if seed % 2:  # of the same length, so that the header does not catch it
            body = damaged(data[binary + 8 :], seed)[: len(data) - binary - 8]
            path.write_bytes(data[: binary + 8] + body + bytes(len(data) - binary - 8 - len(body)))
        else:
            path.write_bytes(glb(damaged(data[20:binary], seed), data[binary + 8 :]))
        answer(path, strict=seed % 7 == 0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"[" * 100_000, "expected `object`, got `array`"),
        (b'{"asset":{"version":"2.0"},"nodes":' + b"[" * 100_000, "nested too deep|JSON is malformed"),
        (b'{"asset":{"version":"2.0"},"extras":' + b'{"a":' * 100_000, "nested too deep|JSON is malformed|truncated"),
        (b'{"asset":{"version":"2.0"},"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", ""),
    ],
)
def test_json_of_any_depth_is_no_trouble(text: bytes, says: str, tmp_path: Path) -> None:
    for name, data in (("deep.gltf", text), ("deep.glb", glb(text))):
        (tmp_path / name).write_bytes(data)
        found = answer(tmp_path / name)
        assert not says or any(part in found for part in says.split("|")), found


def test_deep_values_where_something_is_read_cost_their_part(tmp_path: Path) -> None:
    file = one_quad()
    file.json["materials"] = [{"extras": "(deep)", "extensions": {"KHR_materials_ior": "(deep)"}}]
    file.json["nodes"][0]["extras"] = file.json["scenes"][0]["extras"] = "(deep)"
    text = json.dumps(file.json | {"buffers": [{"byteLength": len(file.blob)}]}).encode()
    path = tmp_path / "deep.glb"
    for depth in (500, 5000, 200_000):
        path.write_bytes(glb(text.replace(b'"(deep)"', b"[" * depth + b"]" * depth), file.blob))
        answer(path)
        answer(path, strict=True)


@pytest.mark.parametrize("length", [3_000, 100_000])
def test_chains_of_nodes_of_any_length_are_walked(length: int, tmp_path: Path) -> None:
    file = File()
    mesh = file.quad()
    file.json["nodes"] = [{"children": [k + 1], "translation": [0.0, 0.0, 0.125]} for k in range(length - 1)] + [{"mesh": mesh}]
    file.json["scenes"] = [{"nodes": [0]}]
    path = file.write(tmp_path)
    scene = load(path)
    assert scene.instances[0].world[2, 3] == (length - 1) * 0.125
    file.json["nodes"][-1]["children"] = [length // 2]
    file.write(tmp_path)
    assert "two parents" in answer(path)
    file.json["scenes"] = [{"nodes": [length // 2]}]
    file.json["nodes"][length // 2 - 1].pop("children")
    file.write(tmp_path)
    assert "nodes form a cycle" in answer(path)
