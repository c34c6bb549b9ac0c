"""A scene that is saved and loaded again is the same scene, to the last bit where it counts."""

from __future__ import annotations

import io
import json
import math
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from renderer.pipeline.session import Session
from renderer.scene.gltf import load
from renderer.scene.gltf_write import encode, not_kept, write
from renderer.scene.model import (
    Camera,
    Copies,
    Environment,
    Geometry,
    Instance,
    Light,
    Material,
    Mesh,
    Orthographic,
    Perspective,
    Scene,
    SceneError,
)
from renderer.scene.model_material import (
    Anisotropy,
    Clearcoat,
    DiffuseTransmission,
    Iridescence,
    Sheen,
    Transmission,
    Volume,
)
from renderer.scene.model_texture import Image, Texture, TextureRef

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT.parent / "shared" / "data" / "models"
OURS = sorted((ROOT / "scenes").glob("*.gltf"))
THEIRS = sorted(path for kind in ("gltf", "glb") for path in MODELS.glob(f"[A-Z]*/**/*.{kind}"))


def saved(scene: Scene, folder: Path) -> Scene:
    """The scene after a way through a file."""
    write(scene, folder / "saved.glb")
    return load(folder / "saved.glb")


def check_same(scene: Scene, again: Scene) -> None:
    assert again.totals() == scene.totals()
    assert again.materials == scene.materials
    assert [instance.name for instance in again.instances] == [instance.name for instance in scene.instances]
    for one, other in zip(scene.instances, again.instances):
        assert np.array_equal(one.world, other.world)
    assert [camera.name for camera in again.cameras] == [camera.name for camera in scene.cameras]
    for ours, theirs in zip(scene.cameras, again.cameras):
        assert theirs.projection == ours.projection
        np.testing.assert_allclose(theirs.world, ours.world, rtol=0, atol=1e-12 * max(1.0, np.abs(ours.world).max()))
    before, after = scene.triangles(), again.triangles()
    assert after.positions.tobytes() == before.positions.tobytes()
    assert np.array_equal(after.material, before.material) and np.array_equal(after.instance, before.instance)
    assert (after.normals is None) == (before.normals is None)
    if before.normals is not None and after.normals is not None:
        np.testing.assert_allclose(after.normals, before.normals, atol=1e-6)
    check_same_vertices(scene, again)
    assert [pixels_of(scene, texture) for texture in scene.textures] == [pixels_of(again, texture) for texture in again.textures]
    assert [replace(texture, image=None) for texture in again.textures] == [replace(texture, image=None) for texture in scene.textures]
    assert again.variants == scene.variants
    for light, same in zip(scene.lights, again.lights, strict=True):
        assert replace(same, world=light.world, node=light.node) == light
        np.testing.assert_allclose(same.world, light.world, atol=1e-12 * max(1.0, np.abs(light.world).max()))


def check_same_vertices(scene: Scene, again: Scene) -> None:
    """What the vertices of all that is drawn carry beside positions and normals."""
    for one, other in zip(scene.instances, again.instances):
        for ours, theirs in zip(scene.meshes[one.mesh].geometries, again.meshes[other.mesh].geometries, strict=True):
            assert len(ours.texcoords) == len(theirs.texcoords)
            assert all(map(np.array_equal, ours.texcoords, theirs.texcoords))
            for mine, his in ((ours.colours, theirs.colours), (ours.tangents, theirs.tangents)):
                assert (mine is None) == (his is None)
                if mine is not None and his is not None:
                    np.testing.assert_allclose(his, mine, atol=1e-6)
            assert ours.variants == theirs.variants


def pixels_of(scene: Scene, texture: Texture) -> bytes | None:
    """The picture file of a texture, as bytes."""
    source = None if texture.image is None else scene.images[texture.image].source
    return source.read_bytes() if isinstance(source, Path) else None if source is None else bytes(source)


@pytest.mark.parametrize("file", OURS, ids=lambda path: path.stem)
def test_our_scenes_come_back_as_they_were(file: Path, tmp_path: Path) -> None:
    scene = load(file)
    again = saved(scene, tmp_path)
    check_same(scene, again)
    assert not again.warnings and not again.lost and not not_kept(scene)


@pytest.mark.skipif(not MODELS.is_dir(), reason="../shared/data is not there")
@pytest.mark.parametrize("file", THEIRS, ids=lambda path: path.stem)
def test_other_peoples_models_come_back_as_they_were(file: Path, tmp_path: Path) -> None:
    try:
        scene = load(file)
    except SceneError:
        return  # compressed: there is no scene to save
    check_same(scene, saved(scene, tmp_path))


def test_a_saved_scene_gives_the_same_picture(cornell: Path, tmp_path: Path) -> None:
    scene = load(cornell)
    pictures = []
    for shown in (scene, saved(scene, tmp_path)):
        session = Session(shown, width=48, height=32, backend="cpu", depth=4)
        session.frame()
        pictures.append(session.mean())
        session.close()
    assert pictures[0].mean() > 0.01 and np.array_equal(pictures[0], pictures[1])


def test_the_same_scene_gives_the_same_bytes() -> None:
    assert encode(load(OURS[0])) == encode(load(OURS[0]))


def triangle(**changes: object) -> Geometry:
    return replace(Geometry(np.eye(3, dtype=np.float32), np.array([[0, 1, 2]], np.uint32), None, 0), **changes)  # type: ignore[arg-type]


def scene_of(*materials: Material, cameras: tuple[Camera, ...] = (), geometries: tuple[Geometry, ...] = ()) -> Scene:
    shapes = list(geometries) or [triangle(material=number) for number in range(len(materials))]
    return Scene(Path("made.glb"), list(cameras), list(materials), [Mesh("shape", shapes)], [Instance(0, np.eye(4), "shape", 0)])


def document(scene: Scene) -> dict:
    data = encode(scene)
    length = struct.unpack_from("<I", data, 12)[0]
    return json.loads(data[20 : 20 + length])


def test_every_property_of_a_material_comes_back(tmp_path: Path) -> None:
    materials = (
        Material(),
        Material(
            "all", (0.1, 0.2, 0.3, 0.4), 0.25, 0.75, (17.3, 11.1, 0.7), 0.5, (2.0, 0.9, 0.1), 1.33, True, True, "MASK", 0.25
        ),
        Material("bright", emissive=(1e-3, 3e4, 0.1)),
        Material("blend", alpha_mode="BLEND", alpha_cutoff=0.1),
        Material("mirror", ior=0.0),
    )
    again = saved(scene_of(*materials), tmp_path)
    assert tuple(again.materials) == materials and not again.warnings


@given(st.tuples(*[st.just(0.0) | st.floats(1e-30, 1e6)] * 3))
def test_radiance_comes_back_exactly(emissive: tuple[float, float, float]) -> None:
    told = document(scene_of(Material("lamp", emissive=emissive)))["materials"][0]
    strength = told.get("extensions", {}).get("KHR_materials_emissive_strength", {}).get("emissiveStrength", 1.0)
    factor = told.get("emissiveFactor", (0.0, 0.0, 0.0))
    assert all(0.0 <= channel <= 1.0 for channel in factor)
    assert tuple(channel * strength for channel in factor) == emissive


def test_a_plain_material_says_nothing_and_needs_no_extension() -> None:
    told = document(scene_of(Material()))
    assert told["materials"] == [{}] and "extensionsUsed" not in told


def test_cameras_of_both_kinds_come_back(tmp_path: Path) -> None:
    turned = np.array([[0.0, 0.0, 1.0, 4.0], [0.0, 1.0, 0.0, 5.0], [-1.0, 0.0, 0.0, 6.0], [0.0, 0.0, 0.0, 1.0]])
    cameras = (
        Camera("wide", Perspective(1.2, None, 0.1), np.eye(4)),
        Camera("framed", Perspective(0.5, 1.5, 0.01, 100.0), turned),
        Camera("plan", Orthographic(2.0, 3.0, 0.0, 50.0), turned),
    )
    again = saved(scene_of(Material(), cameras=cameras), tmp_path)
    assert [(camera.name, camera.projection) for camera in again.cameras] == [(c.name, c.projection) for c in cameras]
    assert all(np.array_equal(one.world, other.world) for one, other in zip(cameras, again.cameras))


def picture(kind: str, colour: tuple[int, int, int]) -> bytes:
    stream = io.BytesIO()
    Pillow.new("RGB", (4, 2), colour).save(stream, kind)
    return stream.getvalue()


def test_pictures_and_how_they_are_sampled_come_back(tmp_path: Path) -> None:
    (tmp_path / "wood.jpg").write_bytes(picture("JPEG", (90, 60, 30)))
    images = [
        Image("stone", picture("PNG", (1, 2, 3)), "images[0]"),
        Image("gone", None, "images[1]"),
        Image("wood", tmp_path / "wood.jpg", "images[2]"),
        Image("cloth", picture("WEBP", (9, 8, 7)), "images[3]"),
    ]
    textures = [
        Texture(0, "nearest", "nearest", None, "clamp", "mirror", "floor"),
        Texture(1),
        Texture(2, min="nearest", mip="linear"),
        Texture(3, wrap_t="clamp"),
        Texture(None, mip="nearest"),
        Texture(2, min="nearest", mip="linear"),
    ]
    material = Material(
        base_color_texture=TextureRef(0, 1, (0.5, 0.25), 0.1, (2.0, 3.0)),
        metallic_roughness_texture=TextureRef(1),
        normal_texture=TextureRef(2, strength=0.5),
        occlusion_texture=TextureRef(3, strength=0.25),
        emissive_texture=TextureRef(5, scale=(1.0, 2.0)),
        specular_texture=TextureRef(2),
        clearcoat=Clearcoat(0.5, 0.25, TextureRef(0), TextureRef(2), TextureRef(3, strength=2.0)),
    )
    corners = np.random.default_rng(4).random((2, 3, 2), np.float32)
    normals, tangents = np.tile(np.float32([0, 0, 1]), (3, 1)), np.tile(np.float32([1, 0, 0, -1]), (3, 1))
    geometry = triangle(texcoords=tuple(corners), colours=np.full((3, 4), 0.5, np.float32), normals=normals, tangents=tangents)
    scene = replace(scene_of(material, geometries=(geometry,)), images=images, textures=textures)
    again = saved(scene, tmp_path)
    check_same_vertices(scene, again)
    assert again.materials == [material]
    assert [replace(texture, image=None) for texture in again.textures] == [replace(texture, image=None) for texture in textures]
    assert [pixels_of(again, texture) for texture in again.textures] == [pixels_of(scene, texture) for texture in textures]
    told = document(scene)
    assert [image["mimeType"] for image in told["images"]] == ["image/png", "image/jpeg", "image/webp"]
    assert told["extensionsRequired"] == ["EXT_texture_webp"] and "KHR_texture_transform" in told["extensionsUsed"]


def test_a_picture_that_is_no_longer_there_is_named(tmp_path: Path) -> None:
    scene = replace(scene_of(Material()), images=[Image("wood", tmp_path / "wood.jpg", "images[0]")])
    with pytest.raises(SceneError, match=r"its picture .*wood\.jpg cannot be read: no such file or directory; put it back$"):
        write(scene, tmp_path / "room.glb")
    assert not list(tmp_path.iterdir())


def test_every_layer_of_a_material_comes_back(tmp_path: Path) -> None:
    layers = Material(
        clearcoat=Clearcoat(0.5, 0.25),
        sheen=Sheen((0.1, 0.2, 0.3), 0.4),
        transmission=Transmission(0.5),
        diffuse_transmission=DiffuseTransmission(0.25, (0.3, 0.2, 0.1)),
        volume=Volume(0.5, None, 2.0, (0.9, 0.8, 0.7)),
        iridescence=Iridescence(0.5, 1.4, 50.0, 300.0),
        anisotropy=Anisotropy(0.5, 0.25),
        dispersion=0.5,
    )
    assert saved(scene_of(layers), tmp_path).materials == [layers]
    one_by_one = [replace(Material(), **{name: getattr(layers, name)}) for name in ("clearcoat", "sheen", "transmission", "volume")]
    assert saved(scene_of(*one_by_one), tmp_path).materials == one_by_one


def test_lights_variants_and_crowds_come_back(tmp_path: Path) -> None:
    world = np.eye(4)
    world[:3, 3] = (1.0, 2.0, 3.0)
    lights = [
        Light("sun", "directional", world, 1, (1.0, 0.5, 0.25), 3.0),
        Light("bulb", "point", world, 2, range=4.0),
        Light("lamp", "spot", world, 3, intensity=7.0, inner_cone=0.1, outer_cone=0.5),
    ]
    random = np.random.default_rng(5)
    turns = random.normal(size=(7, 4)).astype(np.float32)
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)
    copies = Copies(random.random((7, 3), np.float32), turns, random.random((7, 3), np.float32))
    scene = scene_of(Material("a"), Material("b"), geometries=(triangle(variants={0: 1, 2: 1}),))
    scene = replace(scene, lights=lights, variants=["red", "green", "blue"], instances=[Instance(0, world, "crowd", 0, copies)])
    again = saved(scene, tmp_path)
    assert [replace(light, world=world, node=0) for light in again.lights] == [replace(light, world=world, node=0) for light in lights]
    assert all(np.array_equal(light.world, world) for light in again.lights)
    assert again.variants == scene.variants and again.meshes[0].geometries[0].variants == {0: 1, 2: 1}
    (crowd,) = again.instances
    assert crowd.copies is not None
    for name in ("translation", "rotation", "scale"):
        np.testing.assert_allclose(getattr(crowd.copies, name), getattr(copies, name), atol=1e-6)
    assert again.triangles().positions.shape == (7, 3, 3)


def test_a_lens_and_surroundings_come_back(tmp_path: Path) -> None:
    cameras = (
        Camera("sharp near", Perspective(1.2, None, 0.1), np.eye(4), 0.05, 1.5),
        Camera("sharp somewhere", Orthographic(2.0, 3.0, 0.0, 50.0), np.eye(4), 0.1),
    )
    scene = replace(scene_of(Material(), cameras=cameras), environment=Environment((0.1, 0.2, 3.0), 2.5, 30.0))
    again = saved(scene, tmp_path)
    assert [(c.aperture, c.focus) for c in again.cameras] == [(0.05, 1.5), (0.1, None)]
    assert again.environment == scene.environment and not again.warnings


@pytest.mark.parametrize(
    ("owner", "extras", "warning"),
    [
        ("cameras", {"rayfuse": {"aperture": -1}}, "cameras[0].extras.rayfuse.aperture: expected `float` >= 0.0; it is ignored"),
        ("cameras", {"rayfuse": 7}, "cameras[0].extras.rayfuse: expected `object`, got `int`; it is ignored"),
        (
            "scenes",
            {"rayfuse": {"environment": {"radiance": [1, 2]}}},
            "scenes[0].extras.rayfuse.environment.radiance: expected `array` of length 3, got 2; it is ignored",
        ),
        ("cameras", "by another program", None),
        ("scenes", {"other": {"environment": 3}}, None),
        ("scenes", [1, 2], None),
    ],
)
def test_extras_that_say_nothing_to_us_are_passed_over(owner: str, extras: object, warning: str | None, tmp_path: Path) -> None:
    told = document(scene_of(Material(), cameras=(Camera("one", Perspective(1.0), np.eye(4)),)))
    told[owner][0]["extras"] = extras
    del told["meshes"], told["accessors"], told["bufferViews"], told["buffers"]
    told["nodes"] = told["nodes"][1:]
    told["scenes"][0]["nodes"] = [0]
    file = tmp_path / "extras.gltf"
    file.write_text(json.dumps(told))
    scene = load(file)
    assert sorted(scene.warnings) == sorted(["the scene has nothing to draw", *([warning] if warning else [])])
    assert scene.cameras[0].aperture == 0.0 and scene.environment is None


def test_the_json_says_what_the_specification_wants(tmp_path: Path) -> None:
    told = document(scene_of(Material("grey"), cameras=(Camera("plan", Orthographic(1.0, 1.0), np.eye(4)),)))
    assert told["asset"]["version"] == "2.0"
    assert told["accessors"][0]["min"] == [0.0, 0.0, 0.0] and told["accessors"][0]["max"] == [1.0, 1.0, 1.0]
    assert math.isfinite(told["cameras"][0]["orthographic"]["zfar"])
    assert all(view["byteOffset"] % 4 == 0 for view in told["bufferViews"])
    assert not any(value in ([], {}) for value in told.values())


def test_equal_arrays_are_stored_once() -> None:
    red, blue = (triangle(material=number, positions=np.eye(3, dtype=np.float32)) for number in (0, 1))
    told = document(scene_of(Material(), Material(), geometries=(red, blue)))
    assert len(told["accessors"]) == 2 and told["meshes"][0]["primitives"][0]["indices"] == told["meshes"][0]["primitives"][1]["indices"]


def test_many_vertices_have_wide_indices(tmp_path: Path) -> None:
    for count in (0xFFFF, 0x10000):
        positions = np.random.default_rng(3).random((count, 3), np.float32)
        indices = np.array([[0, 1, count - 1]], np.uint32)
        again = saved(scene_of(Material(), geometries=(triangle(positions=positions, indices=indices),)), tmp_path)
        assert np.array_equal(again.meshes[0].geometries[0].indices, indices) and not again.warnings


def test_values_that_no_triangle_uses_need_not_be_finite(tmp_path: Path) -> None:
    positions = np.vstack([np.eye(3), [[np.nan, np.inf, 0.0]]]).astype(np.float32)
    again = saved(scene_of(Material(), geometries=(triangle(positions=positions),)), tmp_path)
    assert len(again.triangles()) == 1 and not again.warnings


def test_an_empty_scene_is_a_file_too(tmp_path: Path) -> None:
    again = saved(Scene(Path("empty.glb"), meshes=[Mesh("", [])]), tmp_path)
    assert not again.instances and not again.meshes


def test_what_a_saved_file_loses_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rich.gltf"
    told = {
        "asset": {"version": "2.0"},
        "scenes": [{"nodes": []}, {"nodes": []}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
        "animations": [{}],
        "extensionsUsed": ["KHR_xmp", "KHR_materials_ior", "OF_somebody"],
    }
    file.write_text(json.dumps(told))
    assert not_kept(load(file)) == [
        "animations of rich.gltf are not kept",
        "KHR_xmp of rich.gltf are not kept",
        "OF_somebody of rich.gltf are not kept",
        "meshes that nothing places of rich.gltf are not kept",
        "other scenes of rich.gltf are not kept",
    ]


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SceneError, match=r"room\.gltf: scenes are saved as \.glb; name it room\.glb$"):
        write(scene_of(Material()), tmp_path / "room.gltf")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(SceneError, match=r"room\.glb: cannot be written: no such file or directory; free space or save elsewhere$"):
        write(scene_of(Material()), tmp_path / "nowhere" / "room.glb")


def test_a_full_disk_leaves_the_old_file_untouched(tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("hardware: no limit of file sizes on Windows")
    file = tmp_path / "room.glb"
    write(scene_of(Material("old")), file)
    before = file.read_bytes()
    program = f"""
import resource, signal
from pathlib import Path
from renderer.scene.gltf import load
from renderer.scene.gltf_write import write
from renderer.scene.model import SceneError
scene = load({str(OURS[0])!r})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write(scene, Path({str(file)!r}))
except SceneError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == f"{file}: cannot be written: file too large; free space or save elsewhere\n"
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]
