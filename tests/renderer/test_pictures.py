"""Pictures of a scene as pixels: every kind that files have, within the budget, and what takes the place of a bad one."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from renderer.scene.model import Image, Material, Scene, SceneError, Texture
from renderer.scene.model_material import Clearcoat
from renderer.scene.model_texture import TextureRef
from renderer.scene.pictures import decode, decode_images, picture_sizes, size_of, stored
from tests.renderer.helpers.picture_files import encoded, png

COLOURS = np.random.default_rng(1).integers(0, 256, (6, 9, 3), np.uint8)
GREY = COLOURS[..., 0]
SLOTS = {
    "base": lambda ref: Material(base_color_texture=ref),
    "normal": lambda ref: Material(normal_texture=ref),
    "varnish": lambda ref: Material(clearcoat=Clearcoat(1.0, normal_texture=ref)),
    "rough": lambda ref: Material(metallic_roughness_texture=ref),
}


def scene_of(*images: Image, slot: str = "base") -> Scene:
    """A scene whose materials show each of the images."""
    textures = [Texture(number) for number in range(len(images))]
    materials = [SLOTS[slot](TextureRef(number)) for number in range(len(images))]
    return Scene(Path("made.glb"), materials=materials, textures=textures, images=list(images))


def image(data: Any, number: int = 0, **more: Any) -> Image:
    return Image("made", data, f"images[{number}]", **more)


def palette(transparency: bytes | None) -> bytes:
    paletted = Pillow.fromarray(COLOURS).quantize(64)
    return encoded(paletted, "PNG", **({"transparency": transparency} if transparency is not None else {}))


def rgba_of(data: bytes) -> np.ndarray[Any, Any]:
    import io

    return np.asarray(Pillow.open(io.BytesIO(data)).convert("RGBA")).astype(int)


def test_a_palette_is_its_colours_and_keeps_its_transparency() -> None:
    plain, clear = palette(None), palette(bytes(range(64)))
    assert np.array_equal(decode(image(plain)), rgba_of(plain)[..., :3])
    found = decode(image(clear))
    assert found.shape == (6, 9, 4) and np.array_equal(found, rgba_of(clear)) and len(np.unique(found[..., 3])) > 5


@pytest.mark.parametrize("mode", ["L", "LA", "1", "RGB", "RGBA"])
def test_grey_and_black_and_white_are_as_they_would_be_in_colour(mode: str) -> None:
    source = Pillow.fromarray(COLOURS)
    source.putalpha(Pillow.fromarray(GREY))
    made = source.convert("L").convert("1") if mode == "1" else source.convert(mode)
    data = encoded(made, "PNG")
    found, expected = decode(image(data)).astype(int), rgba_of(data)
    channels = {1: [0, 0, 0], 2: [0, 0, 0, 1], 3: [0, 1, 2], 4: [0, 1, 2, 3]}[found.shape[2]]
    assert found.shape[2] == {"L": 1, "1": 1, "LA": 2, "RGB": 3, "RGBA": 4}[mode]
    assert np.array_equal(found[..., channels], expected[..., : len(channels)])


def test_grey_with_a_transparent_shade_has_alpha() -> None:
    data = encoded(Pillow.fromarray(np.array([[0, 128, 255]], np.uint8)), "PNG", transparency=128)
    assert decode(image(data)).tolist() == [[[0, 255], [128, 0], [255, 255]]]


def test_sixteen_bits_stay_sixteen() -> None:
    deep = np.arange(54, dtype=np.uint16).reshape(6, 9) * 1213
    found = decode(image(encoded(Pillow.fromarray(deep), "PNG")))
    assert found.dtype == np.uint16 and np.array_equal(found[..., 0], deep)
    assert size_of(image(encoded(Pillow.fromarray(deep), "PNG"))).bytes == deep.nbytes


def test_cmyk_jpegs_are_converted_and_webp_is_read() -> None:
    smooth = np.full((16, 16, 3), (200, 90, 30), np.uint8)
    jpeg = decode(image(encoded(Pillow.fromarray(smooth).convert("CMYK"), "JPEG", quality=95)))
    webp = decode(image(encoded(Pillow.fromarray(smooth), "WEBP", quality=95)))
    lossless = decode(image(encoded(Pillow.fromarray(COLOURS), "WEBP", lossless=True)))
    for found, slack in ((jpeg, 6), (webp, 6)):
        assert found.shape == (16, 16, 3) and np.abs(found.astype(int) - smooth).max() <= slack
    assert np.array_equal(lossless, COLOURS)


def test_only_what_materials_use_is_decoded(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(COLOURS))
    scene = scene_of(image(tmp_path / "a.png"), image(png(GREY)))
    scene.materials.pop()
    first, second = decode_images(scene)
    assert second is None and first is not None and np.array_equal(first, COLOURS)


@pytest.mark.parametrize(
    ("slot", "pixel"),
    [("base", [255, 0, 255, 255]), ("normal", [128, 128, 255, 255]), ("varnish", [128, 128, 255, 255]), ("rough", [255] * 4)],
)
def test_a_picture_that_is_damaged_is_one_pixel_that_fits_its_slot(tmp_path: Path, slot: str, pixel: list[int]) -> None:
    whole = png(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8))
    heard: list[str] = []
    scene = scene_of(image(whole[:3000], 0), image(b"GIF89a", 1), image(tmp_path / "gone.png", 2), image(None, 3), slot=slot)
    found = decode_images(scene, warn=heard.append)
    assert [pixels.tolist() for pixels in found if pixels is not None] == [[[pixel]]] * 4
    assert [text.split(":")[0] for text in heard] == ["images[0]", "images[1]", "images[2]"], "what had no source was told of at loading"
    assert "damaged" in heard[0] and "no PNG, JPEG or WebP" in heard[1] and "cannot be read: no such file" in heard[2]
    assert all(text.endswith("; a placeholder is drawn") for text in heard)
    with pytest.raises(SceneError, match=r"^made\.glb: images\[0\]: the picture is damaged"):
        decode_images(scene, strict=True)


def bomb(width: int, height: int) -> bytes:
    """A PNG whose header claims a size that its few bytes do not have."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


def test_a_header_that_claims_too_much_is_refused_before_anything_is_allocated() -> None:
    import tracemalloc

    heard: list[str] = []
    tracemalloc.start()
    (found,) = decode_images(scene_of(image(bomb(1 << 30, 1 << 30))), warn=heard.append)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None and found.shape == (1, 1, 4) and peak < 1 << 22
    assert heard == ["images[0]: 1073741824 x 1073741824 pixels are too many for 69 bytes; a placeholder is drawn"]


def test_pictures_past_the_budget_are_halved_the_largest_first_and_told() -> None:
    large, small = np.full((64, 64, 3), 40, np.uint8), np.full((8, 8, 3), 200, np.uint8)
    scene = scene_of(image(png(large), 0), image(png(small), 1), image(encoded(Pillow.fromarray(large), "JPEG"), 2))
    need = sum(size.bytes for size in picture_sizes(scene).values())
    assert need == 2 * large.nbytes + small.nbytes
    heard: list[str] = []
    assert all(pixels is not None and pixels.shape[0] in (64, 8) for pixels in decode_images(scene, budget=need, warn=heard.append))
    assert not heard
    found = decode_images(scene, budget=need // 3, warn=heard.append)
    shapes = [pixels.shape for pixels in found if pixels is not None]
    assert shapes == [(32, 32, 3), (8, 8, 3), (32, 32, 3)]
    assert sum(pixels.nbytes for pixels in found if pixels is not None) <= need // 3
    assert all(np.abs(pixels.astype(int) - value).max() <= 2 for pixels, value in zip(found, (40, 200, 40)) if pixels is not None)
    assert heard == [
        f"images[{k}]: shrunk from 64 x 64 to 32 x 32: all pictures need 0 MiB, but may have 0" for k in (0, 2)
    ]


def test_sixteen_pictures_of_eight_thousand_pixels_fit_into_two_gibibytes_by_their_headers() -> None:
    from renderer.scene.pictures import halvings_within

    scene = scene_of(*(image(bomb(8192, 8192), k) for k in range(16)))
    sizes = picture_sizes(scene)
    assert sum(size.bytes for size in sizes.values()) == 4 << 30
    halvings = halvings_within(sizes, 2 << 30)
    assert sum(sizes[k].halved(halvings[k]).bytes for k in sizes) <= 2 << 30 and max(halvings.values()) == 1


def test_halving_takes_the_mean_of_four_pixels() -> None:
    pixels = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
    found = decode(image(png(pixels)), 1)
    expected = pixels[:4].reshape(2, 2, 2, 2, 3).astype(float).mean((1, 3))
    assert found.shape == (2, 2, 3) and np.abs(found - expected).max() <= 0.5
    assert decode(image(png(pixels)), 9).shape == (1, 1, 3)


def test_roughness_is_made_from_glossiness() -> None:
    rgba = np.dstack([COLOURS, GREY])
    made = decode(image(png(rgba), recipe="glossiness", amount=0.5))
    assert np.abs(made[..., 1] / 255 - (1 - 0.5 * GREY / 255)).max() < 0.003 and not made[..., [0, 2]].any()
    assert (decode(image(png(COLOURS), recipe="glossiness", amount=0.25))[..., 1] == 191).all(), "without alpha it is as glossy as can be"


def test_normals_are_made_from_heights_and_normal_maps_are_left_alone() -> None:
    assert np.array_equal(decode(image(png(COLOURS), recipe="bump")), COLOURS)
    flat = decode(image(png(np.full((4, 4), 90, np.uint8)), recipe="bump"))
    assert np.abs(flat.astype(int) - [128, 128, 255]).max() <= 1
    ramp = np.tile(np.arange(16, dtype=np.uint8) * 10, (16, 1))
    across, down = (decode(image(png(heights), recipe="bump")).astype(int)[8, 8] for heights in (ramp, ramp.T))
    assert across[0] < 128 and abs(across[1] - 128) <= 1, "what rises to the right leans to the left"
    assert abs(down[0] - 128) <= 1 and down[1] > 128, "what rises downwards leans upwards"


def test_coverage_comes_from_another_picture_of_any_size(tmp_path: Path) -> None:
    (tmp_path / "mask.png").write_bytes(png(np.array([[0, 255]], np.uint8)))
    made = decode(image(png(COLOURS), alpha=tmp_path / "mask.png"))
    assert np.array_equal(made[..., :3], COLOURS) and made[0, :, 3].tolist() == [0] * 5 + [255] * 4
    (tmp_path / "mask.png").unlink()
    heard: list[str] = []
    decode_images(scene_of(image(png(COLOURS), alpha=tmp_path / "mask.png")), warn=heard.append)
    assert heard == ["images[0]: 'mask.png' cannot be read: no such file or directory; a placeholder is drawn"]


def test_what_is_saved_is_the_file_itself_or_what_was_made_of_it() -> None:
    data = encoded(Pillow.fromarray(COLOURS), "JPEG")
    assert stored(image(data)) == data and stored(image(None)) is None
    made = image(png(np.dstack([COLOURS, GREY])), recipe="glossiness", amount=0.5)
    again = stored(made)
    assert again is not None and np.array_equal(decode(image(again)), decode(made))


def test_many_pictures_decode_the_same_on_any_number_of_threads() -> None:
    random = np.random.default_rng(5)
    pictures = [random.integers(0, 256, (20 + k, 30, 3), np.uint8) for k in range(24)]
    scene = scene_of(*(image(png(pixels), k) for k, pixels in enumerate(pictures)))
    for threads in (1, 5, None):
        found = decode_images(scene, threads=threads)
        assert all(pixels is not None and np.array_equal(pixels, expected) for pixels, expected in zip(found, pictures))
