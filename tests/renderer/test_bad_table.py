"""The table of broken and borderline files, row by row, through the command: exit code, one line with file and cause, no traceback.

What the table says of a file is done in one of two ways. A file that is broken as a whole is refused. One of which a part is broken is
shown without that part, with a warning; in strict mode it is refused too, also where nothing in the scene uses the part. A file of which
nothing is left to draw ends the command with exit code 2, but `info` reads it.

The table lies in `../shared/data`; without it these tests skip, and test_hostile_gltf.py has files of the same kinds.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from renderer.app import cli

BAD = Path(__file__).parents[2].parent / "shared" / "data" / "models" / "bad"
needs_table = pytest.mark.skipif(not BAD.is_dir(), reason="../shared/data is not there")
LONGEST_S = 20.0  # of processor time

# What the one line of the refusal says, in strict mode.
CAUSES = {
    "validator/glb__empty_file.glb": "the file is empty",
    "validator/glb__only_header.glb": "declares 12 bytes, too few for a JSON chunk",
    "validator/glb__invalid_version.glb": "GLB version 0, but only version 2 is supported",
    "validator/glb__zero_length.glb": "declares 0 bytes, too few for a JSON chunk",
    "validator/glb__truncated_chunk_data.glb": "cut off: 47 bytes of 48",
    "validator/glb__unaligned_chunk.glb": "chunk 0 is 27 bytes, not a multiple of 4",
    "validator/glb__misplaced_bin_chunk.glb": "GLB chunk 2 is a misplaced BIN chunk",
    "validator/glb__invalid_json_chunk.glb": "JSON is malformed",
    "validator/glb__extra_data.glb": "1 bytes after the declared end",
    "validator/glb__bom.glb": "byte order mark",
    "validator/json__empty_file.gltf": "the file is empty",
    "validator/json__invalid_object.gltf": "root: expected `object`, got `array`",
    "validator/asset__1_0_version.gltf": "glTF 1.0 is not supported",
    "validator/asset__min_version_invalid.gltf": "asset.minVersion: glTF 2.1 is not supported",
    "validator/root__invalid_collection_type.gltf": "samplers: expected `array`, got `object`",
    "validator/buffer__not_found.gltf": "buffers[0].uri: no file 'not_found.bin'",
    "validator/buffer__invalid_uri_data_bytelength.gltf": "buffers[0].byteLength: byteLength is 2, but there are 1 bytes",
    "validator/buffer__no_bin_chunk.glb": "buffers[0]: has no uri, and the file has no binary chunk",
    "validator/buffer__non_relative_uri.gltf": "buffers[0].uri: 'http://example.com/buffer.bin' is absolute or remote",
    "validator/buffer_view__invalid_length.gltf": "bufferViews[0].byteLength: ends at byte 5 of buffer 0, which has 4",
    "validator/buffer_view__invalid_stride_too_big.gltf": "bufferViews[0].byteStride: stride 4 is more than the 1 bytes",
    "validator/accessor__unresolved_bufferviews.gltf": "accessors[0].bufferView: buffer view 0 does not exist",
    "validator/accessor__unknown_type.gltf": "accessors[0].type: invalid enum value 'NotaVEC3'",
    "validator/accessor__alignment.gltf": "buffers[0]: has no uri",  # before its accessors can be looked at
    "validator/accessor_data__invalid_elements_float.gltf": "accessors[0]: 3 of its numbers are not finite",
    "validator/mesh__primitive_no_position.gltf": "there is no POSITION",
    "validator/mesh__unresolved_material.gltf": "meshes[0].primitives[0].material: material 0 does not exist",
    "validator/mesh__indices_invalid_format.gltf": "indices are unsigned SCALARs",
    "validator/mesh__morph_weights_wrong_count.gltf": "meshes[0].weights: 2 weights for 1 morph targets",
    "validator/mesh_data__index_buffer_oob.gltf": "vertex index 5, but there are 4 vertices",
    "validator/mesh_data__normals_tangents_non_unit_invalid_sign.gltf": "textures[0]: has no picture",  # another of its faults
    "validator/node__node_loop.gltf": "nodes form a cycle: 0 -> 1 -> 2 -> 0",
    "validator/node__node_parent_override.gltf": "nodes[2] has two parents, nodes 0 and 1",
    "validator/node__unresolved_mesh.gltf": "nodes[0].mesh: mesh 0 does not exist",
    "validator/node__infinite_transform.gltf": "nodes[0].translation[0]: number out of range",
    "validator/node__matrix_indecomposable.gltf": "nodes[0].matrix: the last row is not 0 0 0 1",
    "validator/scene__unresolved_node.gltf": "scenes[0].nodes[0]: node 0 does not exist",
    "validator/skin__unresolved_joint.gltf": "skins[0].joints[0]: node 0 does not exist",
    "validator/animation__unresolved_channel_target.gltf": "animations[0].channels[0].target.node: node 0 does not exist",
    "validator/animation_data__invalid_input_values.gltf": "animations[0].samplers[0].input: its times do not increase",
    "validator/image__not_found.gltf": "images[0].uri: no file 'not_found.png'",
    "validator/image__unrecognized_format.gltf": "images[0]: is no PNG, JPEG, WebP or KTX2 picture",
    "validator/texture__unresolved_source.gltf": "textures[0].source: image 0 does not exist",
    "validator/material__unresolved_basecolor.gltf": "materials[0].pbrMetallicRoughness.baseColorTexture.index: texture 0 does not exist",
    "validator/camera__perspective_z.gltf": "cameras[0].perspective: znear 10 and zfar 1 are no range",
    "validator/root__undefined_used_extensions.gltf": "extensionsRequired: KHR_extension not supported",
    "assimp_inf/BoxWithInfinites.glb": "24 positions are not finite",
    "assimp_oob/IndexOutOfRange.gltf": "vertex index 255, but there are 24 vertices",
    "assimp_recursive/RecursiveNodes.gltf": "nodes form a cycle: 0 -> 1 -> 0",
    "assimp_schema/sceneWrongType.gltf": "scene: expected `int | null`, got `str`",
    "assimp_emptyscene/SceneWithoutNodes.gltf": "nothing to draw",
    "assimp_wrong_badExtension/badExtension.gltf": "KHR_texture_transform: expected `object`, got `str`",
    "assetgen_04/Compatibility_04.gltf": "asset.minVersion: glTF 2.1 is not supported",
    "box_mutations/truncated_4.glb": "cut off inside the GLB header",
    "box_mutations/truncated_19.glb": "cut off: 19 bytes of 1664",
    "box_mutations/truncated_1564.glb": "cut off: 1564 bytes of 1664",
    "box_mutations/index_out_of_range.glb": "vertex index 65000, but there are 24 vertices",
    "box_mutations/inf_position.glb": "1 positions are not finite",
    "box_mutations/count_negative.glb": "accessors[2].count: the count is -5",
    "box_mutations/view_length_overflow.glb": "bufferViews[0].byteLength: ends at byte 9007199254741568",
    "box_mutations/accessor_index_minus1.glb": "attributes.POSITION: accessor -1 does not exist",
    "box_mutations/node_cycle.glb": "nodes form a cycle: 0 -> 1 -> 0",
    "box_mutations/unknown_required_extension.glb": "EXT_does_not_exist not supported",
    "box_mutations/lines_mode.glb": "lines are not drawn",
    "box_mutations/float_indices.glb": "component type 5126; indices are unsigned",
    "box_mutations/colour_out_of_range.glb": "baseColorFactor[0]: 5 is not within 0 and 1",
    "box_mutations/accessor_no_count.glb": "accessors[1]: object missing required field `count`",
    "box_mutations/uri_escapes_folder.glb": "buffers[0].uri: '../../../../etc/hostname' leaves the folder",
    "box_mutations/json_deep_nesting.glb": "expected `object`, got `array`",
}
FINE = ("must load", "read it")  # these have no fault


def rows() -> list[tuple[str, str, str]]:
    """(file, what a loader should do, whether the whole scene is reachable)."""
    if not BAD.is_dir():
        return []
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in (BAD / "BAD.md").read_text().splitlines()]
    return [(row[0], row[2], row[4]) for row in cells if len(row) >= 5 and (BAD / row[0]).is_file()]


def run(capsys: pytest.CaptureFixture[str], *arguments: object, quiet: bool = False) -> tuple[int, list[str]]:
    """Exit code and lines of standard error of a command, which ends in time; without those that tell of progress."""
    started = time.process_time()
    code = cli.main([str(argument) for argument in (*arguments, "--quiet")[: None if quiet else -1]])
    assert time.process_time() - started < LONGEST_S
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.endswith("%")]
    assert "Traceback" not in err and all(line.startswith("rayfuse: ") and len(line) < 520 for line in lines), err
    assert arguments[0] == "info" or out == ""
    return code, lines


@needs_table
def test_the_table_has_no_file_that_is_not_looked_at_here() -> None:
    fine = {name for name, should, _ in rows() if should.startswith(FINE)}
    assert {name for name, _, _ in rows()} == CAUSES.keys() | fine and len(fine) == 3


@needs_table
@pytest.mark.parametrize(("name", "should", "reachable"), rows(), ids=[row[0] for row in rows()])
def test_a_row_of_the_table(name: str, should: str, reachable: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, picture = BAD / name, tmp_path / "a.png"
    command = ["render", file, "-o", picture, "--backend", "cpu", "--size", 16, 16, "--spp", 1]
    code, lines = run(capsys, *command)
    errors = [line for line in lines if line.startswith("rayfuse: error: ")]
    warnings = [line for line in lines if line.startswith("rayfuse: warning: ") and "with a sun lights it" not in line]
    if code == 0:
        assert picture.stat().st_size > 0 and not errors
        assert should.startswith(FINE) == (not warnings)
    else:
        assert code == 2 and len(errors) == 1 and errors[0].startswith(f"rayfuse: error: {file}: ") and not picture.exists()
        assert not (should.startswith((*FINE, "load")) and reachable == "yes" and "not drawn" not in should)
        if reachable == "yes":
            _, alone = run(capsys, *command, quiet=True)
            assert alone == errors and ("nothing to draw" not in errors[0] or warnings[0].removeprefix("rayfuse: warning: ") in errors[0])
    read, _ = run(capsys, "info", file)
    if should.startswith((*FINE, "load")):
        assert read == 0
    strict_code, strict = run(capsys, *command, "--strict")
    if should.startswith(FINE):
        assert strict_code == 0 and code == 0
    else:
        assert strict_code == 2 and sum("with a sun lights it" not in line for line in strict) == 1
        assert strict[-1].startswith(f"rayfuse: error: {file}: ") and CAUSES[name] in strict[-1]
