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

from renderer.scene.model import Image, Material, Scene, Texture
from renderer.scene.model_material import Clearcoat
from renderer.scene.model_texture import TextureRef
from renderer.scene.texture_tables import TextureTables, level_sizes, texture_tables
from tests.renderer.helpers.picture_files import png
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


def test_sixteen_bits_stay_sixteen() -> None:
    grey = RANDOM.integers(0, 65536, (4, 6)).astype(np.uint16)
    made = made_of(textured((grey, Texture(0, "nearest")), (smooth(4, 4, 3), Texture(1, "nearest"))))
    assert made.textures.features.sixteen
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
    other = look(made.textures, made.number(TextureRef(1), "occlusion_texture"), [0.5], [0.5], [1e3], channels="a")
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
    number = np.array([made.number(TextureRef(k), "occlusion_texture") for k in range(5)])[which]
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
    assert made.number(TextureRef(0), "occlusion_texture") == 0


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


def test_a_damaged_picture_is_one_pixel() -> None:
    heard: list[str] = []
    scene = textured((smooth(4, 4, 3), Texture(0)), slot="base_color_texture")
    scene.images[0] = Image("made", b"nothing", "images[0]")
    made = made_of(scene, warn=heard.append)
    np.testing.assert_allclose(look(made.textures, 0, [0.3], [0.7], [0.1], srgb=True), [[1, 0, 1, 1]], atol=1e-6)
    assert len(heard) == 1 and "a placeholder is drawn" in heard[0]


def header(width: int, height: int) -> bytes:
    """A PNG whose header claims a size, and that has nothing else."""
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", b""), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def test_more_texels_than_can_be_numbered_are_refused_before_any_is_decoded() -> None:
    images = [Image("made", header(16384, 16384), f"images[{k}]") for k in range(7)]
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
