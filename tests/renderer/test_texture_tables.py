"""The tables of a scene's textures: levels of detail keep the mean of what is seen, and what they take is counted before it is made."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Pillow

from renderer.scene.levels import level_sizes
from renderer.scene.model import Image, Material, Scene, SceneError, Texture
from renderer.scene.model_material import Clearcoat
from renderer.scene.model_texture import TextureRef
from renderer.scene.texture_tables import TextureTables, texture_tables
from tests.renderer.helpers.picture_files import encoded, png
from tests.renderer.helpers.texturing import light, look, material, stored, textured

RANDOM = np.random.default_rng(6)


def made_of(scene: Scene, **more: Any) -> TextureTables:
    made = texture_tables(scene, **more)
    assert made is not None
    return made


def blocks(made: TextureTables, number: int) -> list[NDArray[np.uint8]]:
    """The levels from a texture's row on, as bytes [h, w, 4]."""
    texels, rows = made.textures.texels.numpy(), made.textures.levels.numpy()
    count = (rows[number, 3] & 31) + 1
    found = []
    for start, width, height, rules in rows[number : number + count]:
        assert rules == rows[number, 3]
        found.append(texels[start : start + width * height].view(np.uint8).reshape(height, width, 4))
    return found


def area_means(pixels: NDArray[Any], width: int, height: int) -> NDArray[np.float64]:
    """The means of equal areas: each pixel repeated until they divide."""
    rows, columns = pixels.shape[:2]
    fine = pixels.astype(np.float64).repeat(height, 0).repeat(width, 1)
    return fine.reshape(height, rows, width, columns, -1).mean((1, 3))


def smooth(width: int, height: int, channels: int) -> NDArray[np.uint8]:
    return RANDOM.integers(0, 256, (height, width, channels)).astype(np.uint8)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_levels_are_those_of_pillow_where_sizes_are_even(channels: int) -> None:
    pixels = smooth(64, 32, channels)
    scene = textured((pixels[..., 0] if channels == 1 else pixels, Texture(0)))
    found = blocks(made_of(scene), 0)
    assert [level.shape[1::-1] for level in found] == [(64, 32), (32, 16), (16, 8), (8, 4), (4, 2), (2, 1), (1, 1)]
    for level in found:
        for channel in range(3):
            plane = Pillow.fromarray(np.ascontiguousarray(pixels[..., channel if channels > 1 else 0]))
            wanted = np.asarray(plane.resize(level.shape[1::-1], Pillow.Resampling.BOX)).astype(int)
            assert np.abs(level[..., channel] - wanted).max() <= 1
    if channels != 4:
        assert all((level[..., 3] == 255).all() for level in found)


@pytest.mark.parametrize("size", [(5, 3), (7, 1), (1, 9), (13, 6), (31, 17), (3, 2)])
def test_levels_of_any_size_keep_the_mean(size: tuple[int, int]) -> None:
    pixels = smooth(*size, 4)
    found = blocks(made_of(textured((pixels, Texture(0)))), 0)
    assert [level.shape[1::-1] for level in found] == level_sizes(*size)
    wanted = pixels.astype(np.float64)
    for level in found[1:]:
        wanted = area_means(wanted, *level.shape[1::-1])
        assert np.abs(level - wanted).max() < 0.52
    np.testing.assert_allclose(wanted[0, 0], pixels.reshape(-1, 4).mean(0), atol=1e-9)


def test_colours_are_averaged_as_light_and_alpha_as_it_is() -> None:
    pixels = smooth(16, 16, 4)
    found = blocks(made_of(textured((pixels, Texture(0)), slot="base_color_texture")), 0)
    linear = light(pixels[..., :3] / 255)
    for level in found[1:]:
        size = level.shape[1::-1]
        assert np.abs(level[..., :3] - stored(area_means(linear, *size)) * 255).max() < 0.6
        assert np.abs(level[..., 3:] - area_means(pixels[..., 3:], *size)).max() < 0.52
    assert np.abs(found[-1][0, 0, :3] - pixels[..., :3].reshape(-1, 3).mean(0)).min() > 5  # it matters


def test_tall_pictures_are_made_smaller_in_strips_that_do_not_show() -> None:
    """More pixels than one strip has, of an odd height: a third row of one strip is the first of the next."""
    pixels = smooth(2048, 4097, 1)
    scene = textured((pixels[..., 0], Texture(0)))
    first = blocks(made_of(scene), 0)[1][..., 0]
    rows = np.arange(2048, dtype=np.float64)[:, None]
    plane = pixels[..., 0].astype(np.float64)
    down = ((2048 - rows) * plane[0:4096:2] + 2048 * plane[1::2] + (rows + 1) * plane[2::2]) / 4097
    assert np.abs(first - down.reshape(2048, 1024, 2).mean(2)).max() < 0.52


def test_sixteen_bits_of_grey_stay_sixteen() -> None:
    grey = RANDOM.integers(0, 65536, (4, 6)).astype(np.uint16)
    made = made_of(textured((grey, Texture(0, "nearest")), (smooth(4, 4, 3), Texture(1, "nearest"))))
    assert made.textures.features.sixteen == (3,)
    row, column = np.mgrid[:4, :6].reshape(2, -1)
    found = look(made.textures, 0, (column + 0.5) / 6, (row + 0.5) / 4, channels="rba")
    np.testing.assert_allclose(found[:, :2], grey.reshape(-1, 1).repeat(2, 1) / 65535, atol=2e-7)
    assert (found[:, 2] == 1).all()
    start, width, height, _ = made.textures.levels.numpy()[1]
    coarser = made.textures.texels.numpy()[start : start + 6]
    assert (width, height) == (3, 2)
    assert np.abs((coarser & 65535).reshape(2, 3) - area_means(grey[..., None], 3, 2)[..., 0]).max() < 0.52
    assert (coarser >> 16 == 65535).all()
    far = look(made.textures, 0, [0.5], [0.5], [1e3], channels="g")
    np.testing.assert_allclose(far, grey.mean() / 65535, atol=2e-5)
    other = look(made.textures, made.number(TextureRef(1), "metallic_roughness_texture"), [0.5], [0.5], [1e3], channels="a")
    assert other == 1.0


def test_an_image_used_as_colour_and_as_numbers_has_levels_for_both() -> None:
    """And textures that only sample differently share them."""
    pixels = smooth(8, 8, 3)
    image = Image("made", png(pixels), "images[0]")
    textures = [Texture(0), Texture(0, "nearest", "nearest", None, "clamp", "mirror")]
    materials = [
        Material(base_color_texture=TextureRef(0), metallic_roughness_texture=TextureRef(0)),
        Material(base_color_texture=TextureRef(1), clearcoat=Clearcoat(1.0, texture=TextureRef(1))),
    ]
    made = made_of(Scene(Path("made.glb"), materials=materials, textures=textures, images=[image]))
    chain = sum(w * h for w, h in level_sizes(8, 8))
    assert made.textures.texels.numpy().size == 2 * chain
    assert made.bytes == 2 * chain * 4 + made.textures.levels.numpy().nbytes
    rows = made.textures.levels.numpy()
    start = {
        (k, slot): rows[made.number(TextureRef(k), slot), 0]
        for k in (0, 1)
        for slot in ("base_color_texture", "metallic_roughness_texture", "clearcoat.texture")
    }
    assert start[0, "base_color_texture"] == start[1, "base_color_texture"]
    assert start[0, "metallic_roughness_texture"] == start[1, "clearcoat.texture"] != start[0, "base_color_texture"]
    assert (rows[made.number(TextureRef(1), "base_color_texture"), 3] & 31) == 0
    features = made.textures.features
    assert (features.repeat, features.clamp, features.mirror, features.nearest, features.mips) == (True,) * 5
    assert not features.sixteen and not features.nearest_mip


def test_one_texture_never_shows_another() -> None:
    """Black and white pictures of small and odd sizes, seen everywhere and at every level."""
    sizes = [(1, 1), (3, 1), (1, 5), (7, 7), (2, 9)]
    pairs = [(np.full((h, w, 3), 255 * (k % 2), np.uint8), Texture(k)) for k, (w, h) in enumerate(sizes)]
    made = made_of(textured(*pairs))
    u, v = RANDOM.uniform(-3, 3, (2, 2000))
    which = RANDOM.integers(0, 5, 2000)
    number = np.array([made.number(TextureRef(k), "metallic_roughness_texture") for k in range(5)])[which]
    found = look(made.textures, number, u, v, 2.0 ** RANDOM.uniform(-6, 3, 2000), channels="rgb")
    np.testing.assert_allclose(found, (which % 2)[:, None].repeat(3, 1), atol=1e-6)


@pytest.mark.parametrize(("width", "height"), [(8192, 16), (16, 8192)])
def test_a_picture_of_eight_thousand_pixels_is_seen_to_its_last(width: int, height: int) -> None:
    pixels = smooth(width, height, 3)
    made = made_of(textured((pixels, Texture(0, "nearest"))))
    row, column = RANDOM.integers(0, height, 500), RANDOM.integers(0, width, 500)
    row[0], column[0] = height - 1, width - 1
    found = look(made.textures, 0, (column + 0.5) / width, (row + 0.5) / height, channels="rgb")
    np.testing.assert_array_equal(np.rint(found * 255), pixels[row, column])


def test_a_scene_without_pictures_has_no_tables() -> None:
    assert texture_tables(Scene(Path("made.glb"), materials=[Material()])) is None
    lost = Scene(Path("made.glb"), materials=[material("base_color_texture", TextureRef(0))], textures=[Texture(None)])
    assert texture_tables(lost) is None


def test_a_slot_without_a_picture_has_no_number() -> None:
    made = made_of(textured((smooth(2, 2, 3), Texture(0))))
    assert made.number(None, "base_color_texture") == -1
    assert made.number(TextureRef(0), "metallic_roughness_texture") == 0


def test_what_is_on_the_device_keeps_within_the_budget() -> None:
    """Counted with four bytes a pixel and its levels, even of grey pictures."""
    scene = textured((np.zeros((1024, 1024), np.uint8), Texture(0)), (smooth(64, 64, 3), Texture(1)))
    whole = made_of(scene)
    assert whole.textures.texels.numpy().nbytes == 4 * sum(w * h for size in (1024, 64) for w, h in level_sizes(size, size))
    heard: list[str] = []
    small = made_of(scene, budget=2 << 20, warn=heard.append)
    assert small.textures.texels.numpy().nbytes <= 2 << 20
    assert heard == ["images[0]: shrunk from 1024 x 1024 to 512 x 512: all pictures need 5 MiB, but may have 2"]
    assert made_of(scene, budget=whole.bytes, warn=heard.append).bytes == whole.bytes
    assert len(heard) == 1


@pytest.mark.parametrize("slot", ["base_color_texture", "metallic_roughness_texture"])
def test_a_picture_that_was_shrunk_has_the_levels_of_the_whole_one_but_for_the_first(slot: str) -> None:
    for size in ((64, 32), (61, 33), (5, 64)):
        scene = textured((smooth(*size, 4), Texture(0)), slot=slot)
        whole = made_of(scene)
        for budget in (whole.bytes // 2, whole.bytes // 8):
            shrunk = blocks(made_of(scene, budget=budget), 0)
            assert 0 < len(shrunk) < len(blocks(whole, 0))
            assert all(np.array_equal(a, b) for a, b in zip(shrunk[::-1], blocks(whole, 0)[::-1]))
    jpeg = textured((smooth(8, 8, 3), Texture(0)), slot=slot)
    plain = np.full((67, 131, 3), (30, 120, 220), np.uint8)
    jpeg.images[0] = Image("made", encoded(Pillow.fromarray(plain), "JPEG"), "images[0]")
    for budget, size in ((20000, (65, 33)), (6000, (32, 16)), (400, (8, 4)), (100, (4, 2))):
        found = blocks(made_of(jpeg, budget=budget), 0)
        assert found[0].shape[1::-1] == size, "decoders that halve round up"
        assert np.abs(found[0][..., :3].astype(int) - plain[0, 0]).max() <= 3


def test_pictures_that_no_kernel_reads_are_not_decoded() -> None:
    scene = textured((smooth(4, 4, 3), Texture(0)), (smooth(8, 8, 3), Texture(1)))
    scene.materials[1] = material("occlusion_texture", TextureRef(1))
    scene.images.append(Image("nobody's", b"nothing", "images[2]"))
    heard: list[str] = []
    made = made_of(scene, warn=heard.append)
    assert [image for image, _ in made.blocks] == [0] and not heard
    assert made.number(TextureRef(1), "occlusion_texture") == -1


@pytest.mark.parametrize("slot", ["base_color_texture", "normal_texture"])
def test_a_damaged_picture_is_one_pixel(slot: str, tmp_path: Path) -> None:
    heard: list[str] = []
    scene = textured(*((smooth(64, 64, 3), Texture(k)) for k in range(5)), slot=slot)
    source = scene.images[0].source
    assert isinstance(source, bytes)
    for k, bad in enumerate((b"nothing", source[:3000], tmp_path / "gone.png", None)):
        scene.images[k] = Image("made", bad, f"images[{k}]")
    made = made_of(scene, warn=heard.append)
    number = [made.number(TextureRef(k), slot) for k in range(4)]
    seen = look(made.textures, number, [0.3] * 4, [0.7] * 4, [0.1] * 4)
    np.testing.assert_allclose(seen, np.broadcast_to([1, 0, 1, 1] if "base" in slot else [128 / 255, 128 / 255, 1, 1], (4, 4)), atol=1e-6)
    assert np.array_equal(blocks(made, made.number(TextureRef(4), slot))[0], blocks(made_of(textured_alone(scene, 4, slot)), 0)[0])
    assert [text.split(":")[0] for text in heard] == ["images[0]", "images[1]", "images[2]"], "what had no source was told of at loading"
    assert "is no PNG" in heard[0] and "is damaged" in heard[1] and "cannot be read" in heard[2]
    assert all(text.endswith("; a placeholder is drawn") for text in heard)
    scene.strict = True
    with pytest.raises(SceneError, match=r"^made\.glb: images\[0\]: is no PNG.* \(an error because of strict mode\)$"):
        texture_tables(scene)


def textured_alone(scene: Scene, number: int, slot: str) -> Scene:
    """A scene of one of the textures of another."""
    return Scene(Path("made.glb"), materials=[material(slot, TextureRef(0))], textures=[Texture(0)], images=[scene.images[number]])


def cover(mode: str) -> Material:
    return Material(base_color_texture=TextureRef(0), alpha_mode=mode)


@pytest.mark.parametrize("mode", ["MASK", "BLEND"])
def test_what_is_not_there_leaves_no_rim_around_what_is(mode: str) -> None:
    """Leaves of one green on transparent black are that green at every distance and between all texels; their coverage is kept."""
    alpha = (RANDOM.random((32, 32)) < 0.2).astype(np.uint8) * 255
    leaves = np.dstack([np.full((32, 32, 3), (30, 140, 60), np.uint8) * (alpha > 0)[..., None], alpha]).astype(np.uint8)
    scene = textured((leaves, Texture(0)), slot="base_color_texture")
    scene.materials = [cover(mode)]
    made = made_of(scene)
    number = made.number(TextureRef(0), "base_color_texture", True)
    assert number >= 0 and made.number(TextureRef(0), "base_color_texture", False) == -1
    for level in blocks(made, number):
        assert np.abs(level[..., :3].astype(int) - (30, 140, 60)).max() <= 1
        assert abs(float(level[..., 3].mean()) - alpha.mean()) < 1.0
    u, v = RANDOM.random((2, 300))
    seen = look(made.textures, number, u, v, 2.0 ** RANDOM.uniform(-7, 1, 300), srgb=True, channels="rgb")
    np.testing.assert_allclose(seen, np.broadcast_to(light(np.array([30, 140, 60]) / 255), (300, 3)), atol=0.004)


def test_colours_count_by_their_alpha_and_only_where_alpha_is_coverage() -> None:
    pixels = smooth(16, 8, 4)
    scene = textured((pixels, Texture(0)), slot="base_color_texture")
    scene.materials = [cover("BLEND"), cover("OPAQUE")]
    made = made_of(scene)
    covered, plain = (made.number(TextureRef(0), "base_color_texture", covers) for covers in (True, False))
    linear, alpha = light(pixels[..., :3] / 255), pixels[..., 3:] / 255.0
    for level in blocks(made, covered)[1:]:
        size = level.shape[1::-1]
        wanted = area_means(linear * alpha, *size) / area_means(alpha, *size)
        assert np.abs(level[..., :3] - stored(wanted) * 255).max() < 0.6
    assert np.array_equal(blocks(made, plain)[0], pixels), "an opaque surface shows what a transparent one hides"
    assert np.abs(blocks(made, plain)[-1][0, 0, :3] - stored(linear.mean((0, 1))) * 255).max() < 0.6
    nothing = np.zeros((4, 4, 4), np.uint8)
    scene = textured((nothing, Texture(0)), slot="base_color_texture")
    scene.materials = [cover("MASK")]
    assert not made_of(scene).textures.texels.numpy().any()


DEEP = RANDOM.integers(0, 65536, (12, 10, 3)).astype(np.uint16)


def every_texel(width: int, height: int) -> tuple[Any, Any]:
    row, column = np.mgrid[:height, :width].reshape(2, -1)
    return (column + 0.5) / width, (row + 0.5) / height


@pytest.mark.parametrize(
    ("slot", "channels", "upper"),
    [("metallic_roughness_texture", "gb", 2), ("clearcoat.texture", "r", 3), ("clearcoat.roughness_texture", "g", 3)],
)
def test_sixteen_bits_of_the_channels_that_are_read_are_kept(slot: str, channels: str, upper: int) -> None:
    layer, _, name = slot.rpartition(".")
    scene = textured((DEEP, Texture(0, "nearest")))
    if layer:
        scene.materials = [Material(clearcoat=Clearcoat(1.0, 0.5, **{name: TextureRef(0)}))]
    made = made_of(scene)
    assert made.textures.features.sixteen == (upper,)
    seen = look(made.textures, made.number(TextureRef(0), slot), *every_texel(10, 12), channels=channels)
    wanted = DEEP[..., ["rgb".index(c) for c in channels]].reshape(120, -1) / 65535
    np.testing.assert_allclose(seen, wanted, atol=2e-7)
    far = look(made.textures, made.number(TextureRef(0), slot), [0.5], [0.5], [1e3], channels=channels)
    np.testing.assert_allclose(far[0], wanted.mean(0), atol=2e-5)


def test_a_normal_map_of_sixteen_bits_keeps_them() -> None:
    """Directions as close to one another as eight bits cannot tell apart, beside a map of eight bits."""
    tilt = np.linspace(0, 0.01, 64)
    normal = np.stack([np.sin(tilt), -np.sin(tilt), np.sqrt(1 - 2 * np.sin(tilt) ** 2)], 1)[None].repeat(4, 0)
    deep = np.rint((normal + 1) / 2 * 65535).astype(np.uint16)
    shallow = np.rint((normal + 1) / 2 * 255).astype(np.uint8)
    made = made_of(textured((deep, Texture(0, "nearest")), (shallow, Texture(1, "nearest")), slot="normal_texture"))
    assert made.textures.features.sixteen == (1,)
    u, v = every_texel(64, 4)

    def off(number: int) -> float:
        seen = look(made.textures, made.number(TextureRef(number), "normal_texture"), u, v, channels="rgb") * 2 - 1
        return float(np.abs(seen - normal.reshape(-1, 3)).max())

    assert off(0) < 4e-5 and off(1) > 2e-3
    far = look(made.textures, made.number(TextureRef(0), "normal_texture"), [0.5], [0.5], [1e3], channels="rgb")[0] * 2 - 1
    np.testing.assert_allclose(far, [np.sin(0.005), -np.sin(0.005), 1], atol=1e-3)


def test_sixteen_bits_become_eight_where_a_texel_has_no_room_for_them() -> None:
    rgba = np.dstack([DEEP, DEEP[..., 0]])
    for slot in ("base_color_texture", "emissive_texture"):
        made = made_of(textured((rgba, Texture(0)), slot=slot))
        assert made.textures.features.sixteen == () and np.abs(blocks(made, 0)[0] - rgba / 257).max() < 0.51


def test_grey_colours_of_sixteen_bits_are_averaged_as_light() -> None:
    board = (np.indices((8, 8)).sum(0) % 2 * 65535).astype(np.uint16)
    made = made_of(textured((board, Texture(0)), slot="base_color_texture"))
    assert made.textures.features.sixteen == (3,)
    np.testing.assert_allclose(look(made.textures, 0, [0.3], [0.6], [10.0], srgb=True, channels="rgb"), 0.5, atol=1e-4)


def header(width: int, height: int) -> bytes:
    """A PNG whose header claims a size, and that has nothing else."""
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", b""), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def test_more_texels_than_can_be_numbered_are_refused_before_any_is_decoded() -> None:
    images = [Image("made", header(16384, 16384) + bytes(1 << 15), f"images[{k}]") for k in range(7)]
    materials = [material("base_color_texture", TextureRef(k)) for k in range(7)]
    scene = Scene(Path("made.glb"), materials=materials, textures=[Texture(k) for k in range(7)], images=images)
    with pytest.raises(MemoryError) as error:
        texture_tables(scene, budget=1 << 40)
    assert str(error.value) == (
        "made.glb: its textures have 2505397587 texels with their levels of detail, but only 2147483647 can be numbered; "
        "use fewer or smaller pictures"
    )


def test_pictures_are_packed_the_same_by_any_number_of_threads() -> None:
    scene = textured(*((smooth(33 + k, 20, 3), Texture(k)) for k in range(6)))
    one, many = (made_of(scene, threads=threads).textures.texels.numpy() for threads in (1, 6))
    np.testing.assert_array_equal(one, many)


def test_strict_makes_a_damaged_picture_an_error_of_the_command(tmp_path: Path, rayfuse: Any) -> None:
    (tmp_path / "wood.png").write_bytes(png(smooth(64, 64, 3))[:3000])
    (tmp_path / "m.mtl").write_text("newmtl wood\nmap_Kd wood.png\n")
    (tmp_path / "s.obj").write_text("mtllib m.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 0 1\nusemtl wood\nf 1/1 2/2 3/3\n")
    asked = ("render", tmp_path / "s.obj", "-o", tmp_path / "o.png", "--size", "8", "8", "--spp", "1", "--backend", "cpu")
    plain, strict = rayfuse(*asked), rayfuse(*asked, "--strict")
    assert plain.returncode == 0 and "the picture is damaged" in plain.stderr
    assert strict.returncode == 2 and strict.stderr.count("error") == 2 and "(an error because of strict mode)" in strict.stderr
    assert "m.mtl: line 2: the picture is damaged" in strict.stderr
