"""Pictures of a scene as pixels: every kind that files have, within the budget, and what takes the place of a bad one."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from renderer.scene.model import Image, Material, Scene, Texture
from renderer.scene.model_texture import TextureRef
from renderer.scene.pictures import PictureError, Size, decode, placeholder, planned, size_of, stored
from tests.renderer.helpers.picture_files import chunk, deep_png, encoded, png

COLOURS = np.random.default_rng(1).integers(0, 256, (6, 9, 3), np.uint8)
GREY = COLOURS[..., 0]
def scene_of(*images: Image) -> Scene:
    """A scene whose materials show each of the images."""
    textures = [Texture(number) for number in range(len(images))]
    materials = [Material(base_color_texture=TextureRef(number)) for number in range(len(images))]
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


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("interlaced", [False, True])
def test_sixteen_bits_stay_sixteen_in_pictures_of_every_kind(channels: int, interlaced: bool) -> None:
    """Written by the letter of the specification, each row with another filter."""
    random = np.random.default_rng(channels)
    for height, width in ((13, 11), (1, 1), (2, 5), (8, 1)):
        deep = random.integers(0, 65536, (height, width, channels)).astype(np.uint16)
        data = deep_png(deep, interlaced)
        found = decode(image(data))
        assert found.dtype == np.uint16 and np.array_equal(found, deep)
        size = size_of(image(data))
        assert (size.width, size.height, size.channels, size.depth) == (width, height, channels, 2)
        narrow = rgba_of(data)[..., [0, 3] if channels == 2 else [0, 1, 2, 3][:channels]] if channels > 1 else None
        assert narrow is None or np.abs(narrow - deep // 256).max() <= 1, "another reader sees the same picture"
    grey = Pillow.fromarray(np.arange(54, dtype=np.uint16).reshape(6, 9) * 1213)
    assert np.array_equal(decode(image(encoded(grey, "PNG")))[..., 0], np.asarray(grey))


@pytest.mark.parametrize("channels", [1, 3])
def test_a_transparent_colour_of_sixteen_bits_is_that_colour_to_the_last_bit(channels: int) -> None:
    deep = np.full((2, 2, channels), 40000, np.uint16)
    deep[0, 0, -1] += 1
    found = decode(image(deep_png(deep, clear=deep[1, 1])))
    assert found[..., -1].tolist() == [[65535, 0], [0, 0]] and np.array_equal(found[..., :-1], deep)
    assert size_of(image(deep_png(deep, clear=deep[1, 1]))).channels == channels + 1


@pytest.mark.parametrize("channels", [1, 3])
def test_a_transparent_colour_is_one_that_the_file_has_and_not_one_that_it_speaks_of(channels: int) -> None:
    values = np.array([[[1, 2, 3], [4, 5, 6]]], np.uint16)[..., :channels] * 4097
    clear = chunk(b"tRNS", values[0, 0].astype(">u2").tobytes())
    plain = deep_png(values)
    for before, more in ((chunk(b"tEXt", b"Comment\0no tRNS here"), 0), (chunk(b"tEXt", b"Comment\0no IDAT here") + clear, 1)):
        data = plain[:33] + before + plain[33:]
        found = decode(image(data))
        assert size_of(image(data)).channels == found.shape[2] == channels + more
        assert np.array_equal(found[..., :channels], values)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_a_transparent_shade_of_few_bits_is_that_shade(bits: int) -> None:
    shades = min(8, 1 << bits)
    packed = int("".join(f"{shade:0{bits}b}" for shade in range(shades)).ljust(8 * -(-shades * bits // 8), "0"), 2)
    row = b"\0" + packed.to_bytes(-(-shades * bits // 8), "big")
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", shades, 1, bits, 0, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + header + chunk(b"tRNS", b"\0\1") + chunk(b"IDAT", zlib.compress(row)) + chunk(b"IEND", b"")
    found = decode(image(data))
    assert found[0, :, 0].tolist() == [shade * 255 // ((1 << bits) - 1) for shade in range(shades)]
    assert found[0, :, 1].tolist() == [0 if shade == 1 else 255 for shade in range(shades)]


def test_what_is_made_of_sixteen_bits_has_sixteen(tmp_path: Path) -> None:
    slope = (np.arange(64, dtype=np.uint16) * 16)[None].repeat(8, 0)[..., None]  # a quarter of a grey of 8 bits from one to the next
    made = decode(image(deep_png(slope), recipe="bump"))
    assert made.dtype == np.uint16 and len(np.unique(made[:, 5:60])) <= 3 and (made[:, 5:60, 0] < 32767).all()
    colours = np.random.default_rng(1).integers(0, 65536, (4, 4, 3)).astype(np.uint16)
    assert np.array_equal(decode(image(deep_png(colours), recipe="bump")), colours)
    saved = stored(image(deep_png(slope), recipe="bump"))
    assert saved is not None and np.abs(decode(image(saved)).astype(int) - made / 257).max() <= 0.51


def test_cmyk_jpegs_are_converted_and_webp_is_read() -> None:
    smooth = np.full((16, 16, 3), (200, 90, 30), np.uint8)
    jpeg = decode(image(encoded(Pillow.fromarray(smooth).convert("CMYK"), "JPEG", quality=95)))
    webp = decode(image(encoded(Pillow.fromarray(smooth), "WEBP", quality=95)))
    lossless = decode(image(encoded(Pillow.fromarray(COLOURS), "WEBP", lossless=True)))
    for found, slack in ((jpeg, 6), (webp, 6)):
        assert found.shape == (16, 16, 3) and np.abs(found.astype(int) - smooth).max() <= slack
    assert np.array_equal(lossless, COLOURS)


@pytest.mark.parametrize(
    ("slot", "pixel"),
    [
        ("base_color_texture", [255, 0, 255, 255]),
        ("normal_texture", [128, 128, 255, 255]),
        ("clearcoat.normal_texture", [128, 128, 255, 255]),
        ("metallic_roughness_texture", [255] * 4),
    ],
)
def test_a_placeholder_fits_its_slot(slot: str, pixel: list[int]) -> None:
    assert placeholder(slot).tolist() == [[pixel]]


def test_a_picture_that_is_damaged_is_refused_with_the_reason(tmp_path: Path) -> None:
    whole = png(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8))
    deep = deep_png(np.random.default_rng(0).integers(0, 65535, (64, 64, 3)).astype(np.uint16))
    for source, reason in (
        (whole[:3000], "the picture is damaged"),
        (deep[:3000], "the picture is damaged"),
        (deep[:3000] + b"x" + deep[3001:], "the picture is damaged .*a part that is not whole"),
        (b"GIF89a", "is no PNG, JPEG or WebP picture"),
        (tmp_path / "gone.png", "'gone.png' cannot be read: no such file"),
        (None, "there is no picture"),
    ):
        with pytest.raises(PictureError, match=reason):
            decode(image(source))


def bomb(width: int, height: int, depth: int = 8) -> bytes:
    """A PNG whose header claims a size that its few bytes do not have."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, 6, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


@pytest.mark.parametrize("depth", [8, 16])
def test_a_header_that_claims_too_much_is_refused_before_anything_is_allocated(depth: int) -> None:
    import tracemalloc

    tracemalloc.start()
    with pytest.raises(PictureError, match=r"^1073741824 x 1073741824 pixels are too many for \d+ bytes$"):
        decode(image(bomb(1 << 30, 1 << 30, depth)))
    with pytest.raises(PictureError, match="the picture is damaged"):
        decode(image(bomb(16, 1 << 10, depth)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 22


def as_decoded(_: int, size: Size) -> int:
    return size.bytes


def test_pictures_past_the_budget_are_halved_the_largest_first_and_told() -> None:
    large, small = np.full((64, 64, 3), 40, np.uint8), np.full((8, 8, 3), 200, np.uint8)
    scene = scene_of(image(png(large), 0), image(png(small), 1), image(encoded(Pillow.fromarray(large), "JPEG"), 2), image(b"", 3))
    need = sum(size_of(each).bytes for each in scene.images[:3])
    assert need == 2 * large.nbytes + small.nbytes
    whole = planned(scene, range(4), need, as_decoded)
    assert not any(whole.halvings.values()) and not list(whole.shrunk(scene)) and whole.need == need
    plan = planned(scene, range(4), need // 3, as_decoded)
    assert [(plan.size(k).width, plan.size(k).height) for k in range(4)] == [(32, 32), (8, 8), (32, 32), (1, 1)]
    assert sum(plan.size(k).bytes for k in range(3)) <= need // 3 and list(plan.failures) == [3]
    assert list(plan.shrunk(scene)) == [
        f"images[{k}]: shrunk from 64 x 64 to 32 x 32: all pictures need 0 MiB, but may have 0" for k in (0, 2)
    ]


def test_sixteen_pictures_of_eight_thousand_pixels_fit_into_two_gibibytes_by_their_headers() -> None:
    scene = scene_of(*(image(bomb(8192, 8192), k) for k in range(16)))
    plan = planned(scene, range(16), 2 << 30, as_decoded)
    assert plan.need == 4 << 30
    assert sum(plan.size(k).bytes for k in range(16)) <= 2 << 30 and max(plan.halvings.values()) == 1


def test_pictures_leave_room_for_decoding_the_largest() -> None:
    scene = scene_of(*(image(bomb(1024, 1024), k) for k in range(4)))
    size = size_of(scene.images[0])
    assert (size.bytes, size.decoding) == (4 << 20, 12 << 20)
    assert planned(scene, range(4), 16 << 20, as_decoded, free=28 << 20).budget == 16 << 20
    tight = planned(scene, range(4), 16 << 20, as_decoded, free=20 << 20)
    assert tight.budget == 8 << 20 and sum(tight.size(k).bytes for k in range(4)) <= 8 << 20
    with pytest.raises(MemoryError) as error:
        planned(scene, range(4), 16 << 20, as_decoded, free=11 << 20)
    assert str(error.value) == "made.glb: images[0]: decoding 1024 x 1024 pixels needs 12 MiB, and 11 MiB are free"


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
    made = decode(image(png(COLOURS), second=tmp_path / "mask.png"))
    assert np.array_equal(made[..., :3], COLOURS) and made[0, :, 3].tolist() == [0] * 5 + [255] * 4
    (tmp_path / "mask.png").unlink()
    with pytest.raises(PictureError, match=r"^'mask\.png' cannot be read: no such file or directory$"):
        decode(image(png(COLOURS), second=tmp_path / "mask.png"))


def test_what_is_saved_is_the_file_itself_or_what_was_made_of_it() -> None:
    data = encoded(Pillow.fromarray(COLOURS), "JPEG")
    assert stored(image(data)) == data and stored(image(None)) is None
    made = image(png(np.dstack([COLOURS, GREY])), recipe="glossiness", amount=0.5)
    again = stored(made)
    assert again is not None and np.array_equal(decode(image(again)), decode(made))
