"""Every field of a material can be set in the viewer, to any value that its control has, and is saved as it was set."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from renderer.app.viewer.material_fields import (
    CONTROLS,
    GROUPS,
    WITHOUT,
    Control,
    groups,
    paths,
    slot_label,
    slots,
    value_of,
    with_texture,
    with_value,
)
from renderer.scene.gltf_write import write
from renderer.scene.importers import load
from renderer.scene.model import Geometry, Image, Instance, Material, Mesh, Scene, Texture
from renderer.scene.model_texture import TextureRef
from renderer.scene.upload import relit, structure, upload
from renderer.shading.material_rows import look_of


def all_fields() -> set[str]:
    """What the model has, found without the code that is tested."""
    found = set()
    for part in fields(Material):
        value = getattr(Material(), part.name)
        found |= {f"{part.name}.{own.name}" for own in fields(value)} if is_dataclass(value) else {part.name}
    return found


def test_each_field_of_a_material_has_a_control_or_a_reason_why_not() -> None:
    assert set(paths()) == all_fields()
    assert all_fields() == set(CONTROLS) | set(slots()) | set(WITHOUT)
    assert not set(CONTROLS) & set(WITHOUT) and all(WITHOUT.values())


def test_each_of_them_is_in_one_group() -> None:
    shown = [path for group in groups().values() for path in group]
    assert sorted(shown) == sorted(all_fields() - set(WITHOUT))
    assert set(GROUPS) == {path for path in shown if "." not in path}
    for group in groups().values():
        labels = [CONTROLS[path].label if path in CONTROLS else slot_label(path) for path in group]
        assert len(set(labels)) == len(labels), "no two rows of a group have one name"


def values(path: str, control: Control) -> list[Any]:
    """What a control can set, its ends among them."""
    value = value_of(Material(), path)
    if isinstance(value, bool):
        return [False, True]
    if control.options:
        return [name for name, _ in control.options]
    if isinstance(value, tuple):
        top = 4.0 if path == "emissive" else 1.0
        return [value, (0.0,) * len(value), (top,) * len(value), (0.25 * top, 0.5, 0.125, 0.75)[: len(value)]]
    low, high = control.low / control.unit, min(control.high, 1e4) / control.unit
    inside = [low, high, low + 0.3 * (high - low), low + 0.7071 * (high - low)]
    return [math.inf if control.endless and each == 0 else each for each in inside]


def scene_of(materials: list[Material], textures: int = 0) -> Scene:
    texcoords = (np.eye(3, 2, dtype=np.float32),) * 2
    triangle = Geometry(np.eye(3, dtype=np.float32), np.array([[0, 1, 2]], np.uint32), None, 0, texcoords=texcoords)
    return Scene(
        Path("scene.glb"), materials=materials, meshes=[Mesh("", [triangle])], instances=[Instance(0, np.eye(4), "", 0)],
        images=[Image(f"picture {k}", picture(k), "") for k in range(textures)],
        textures=[Texture(k, wrap_s="clamp", name=f"texture {k}") for k in range(textures)],
    )  # fmt: skip


def picture(shade: int) -> bytes:
    """A small PNG file of one colour."""
    import io

    from PIL import Image as Pillow

    stream = io.BytesIO()
    Pillow.new("RGB", (8, 4), (shade * 60, 90, 120)).save(stream, "PNG")
    return stream.getvalue()


def saved(scene: Scene, folder: Path) -> Scene:
    write(scene, folder / "saved.glb")
    return load(folder / "saved.glb")


def test_whatever_a_control_can_set_is_read_back_from_the_saved_file(tmp_path: Path) -> None:
    made = [with_value(Material("plain"), path, value) for path, control in CONTROLS.items() for value in values(path, control)]
    everything = Material("everything")
    for path, control in CONTROLS.items():
        everything = with_value(everything, path, values(path, control)[-1])
    assert saved(scene_of([*made, everything]), tmp_path).materials == [*made, everything]


def test_so_is_a_texture_in_every_slot_wherever_it_is_moved(tmp_path: Path) -> None:
    made = []
    for path in slots():
        strength = 0.75 if path.endswith("normal_texture") or path == "occlusion_texture" else 1.0
        put = with_texture(Material("m"), path, 0)
        made += [put, with_texture(put, path, 2), with_value(put, path, TextureRef(1, 1, (0.25, -0.5), 0.7, (2.0, 3.0), strength))]
    again = saved(scene_of(made, textures=3), tmp_path)
    assert again.materials == made and [texture.name for texture in again.textures] == ["texture 0", "texture 1", "texture 2"]


def test_another_texture_lies_as_the_one_before_and_one_that_is_taken_away_leaves_nothing() -> None:
    placed = TextureRef(1, 1, (0.25, -0.5), 0.7, (2.0, 3.0))
    for path in slots():
        material = with_value(Material("m"), path, placed)
        assert value_of(with_texture(material, path, 4), path) == replace(placed, texture=4)
        assert with_texture(material, path, None) == Material("m")
        assert value_of(with_texture(Material("m"), path, 4), path) == TextureRef(4)


@pytest.mark.parametrize("path", sorted(CONTROLS))
def test_a_field_is_changed_alone(path: str) -> None:
    for value in values(path, CONTROLS[path]):
        changed = with_value(Material("m"), path, value)
        assert value_of(changed, path) == value
        assert with_value(changed, path, value_of(Material(), path)) == Material("m")


def test_a_value_within_what_kernels_know_of_materials_shapes_no_code() -> None:
    """Beside a material that has everything, another may be set to anything."""
    everything = Material("everything", alpha_mode="BLEND")
    for path, control in CONTROLS.items():
        if path not in ("alpha_mode", "unlit", "double_sided"):
            everything = with_value(everything, path, values(path, control)[-1])
    lit = [everything, replace(Material("unlit"), unlit=True), Material("paint", emissive=(1.0, 1.0, 1.0))]
    scene = scene_of(lit)
    before = upload(scene, group=8)
    for path, control in CONTROLS.items():
        for value in values(path, control):
            scene.materials[2] = with_value(lit[2], path, value)
            assert structure(relit(before, scene, group=8).data) == structure(before.data), f"{path} = {value}"


def test_a_layer_that_is_turned_on_is_named_where_kernels_have_no_code_for_it() -> None:
    look = look_of([Material("paint")], False)
    for path, names in (
        ("clearcoat.factor", ["clearcoat"]), ("sheen.color", ["sheen"]), ("transmission.factor", ["transmission"]),
        ("anisotropy.strength", ["anisotropy"]), ("iridescence.factor", ["iridescence"]), ("unlit", ["facets", "unlit"]),
        ("diffuse_transmission.factor", ["diffuse_transmission"]), ("roughness", []), ("volume.thickness", []),
    ):  # fmt: skip
        other = look_of([with_value(Material("paint"), path, values(path, CONTROLS[path])[-1])], False)
        assert look.lacks(other) == [name for name in names if name != "facets"] and look.covers(other) == (not look.lacks(other))
    slot = look_of([with_texture(Material("paint"), "base_color_texture", 0)], False)
    assert look.lacks(slot) == ["base_color_texture"] and not slot.lacks(look)
