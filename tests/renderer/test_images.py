"""Picture files: what is written comes back, and what goes wrong is one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from renderer.scene.images import ImageError, read_image, write_image
from tests.renderer.helpers.picture_files import deep_png

ROOT = Path(__file__).parents[2]
HDR = ROOT.parent / "shared" / "data" / "models" / "hdr"


def picture(channels: int = 3, height: int = 7, width: int = 11) -> NDArray[np.float32]:
    values = np.random.default_rng(0).random((height, width, channels)) ** 4 * 50
    return values.astype(np.float32)


@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("ending", [".exr", ".npy", ".NPY"])
def test_float_formats_give_back_every_bit(tmp_path: Path, ending: str, channels: int) -> None:
    pixels = picture(channels)
    pixels[0, 0] = np.array([np.inf, -1.5, 1e-40, 0.25])[:channels]
    write_image(tmp_path / f"a{ending}", pixels)
    found = read_image(tmp_path / f"a{ending}")
    assert found.dtype == np.float32 and found.tobytes() == pixels.tobytes()


def test_hdr_keeps_each_pixel_within_the_step_of_its_brightest_channel(tmp_path: Path) -> None:
    pixels = picture(4)
    pixels[0, :5, :3] = np.array([[0, 0, 0], [1e-38, 0, 0], [1e30, 1, 1], [255.9, 255.9, 1], [1, 1, 1]])
    write_image(tmp_path / "a.hdr", pixels)
    found = read_image(tmp_path / "a.hdr")
    assert found.shape == (7, 11, 3)
    brightest = pixels[..., :3].max(2, keepdims=True)
    assert (np.abs(found - pixels[..., :3]) <= brightest / 250).all()
    assert np.array_equal(found[0, 4], [1, 1, 1])


def test_hdr_has_no_place_for_negative_and_nan(tmp_path: Path) -> None:
    write_image(tmp_path / "a.hdr", np.array([[[np.nan, -1, 2], [np.inf, 0, 0], [0, 0, 1e-45]]]))
    found = read_image(tmp_path / "a.hdr")
    assert np.array_equal(found[0, 0], [0, 0, 2]) and found[0, 1, 0] > 1e38 and np.isfinite(found).all()


@pytest.mark.parametrize("width", [5, 8, 40, 300])
def test_run_length_scanlines_are_read(tmp_path: Path, width: int) -> None:
    """Encoded here by the book: per plane, runs of two or more equal bytes, literals else."""
    random = np.random.default_rng(width)
    rgbe = np.repeat(random.integers(0, 255, (3, width // 4 + 1, 4), np.uint8), 4, 1)[:, :width]
    rgbe[:, ::5] = random.integers(0, 255, rgbe[:, ::5].shape, np.uint8)
    body = b""
    for row in rgbe:
        if width < 8:
            body += row.tobytes()
            continue
        body += bytes([2, 2, width >> 8, width & 255])
        for plane in row.T:
            at = 0
            while at < width:
                run = 1
                while at + run < width and run < 127 and plane[at + run] == plane[at]:
                    run += 1
                body += bytes([128 + run, plane[at]]) if run > 1 else bytes([1, plane[at]])
                at += run
    path = tmp_path / "a.hdr"
    path.write_bytes(b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 3 +X %d\n" % width + body)
    expected = rgbe[..., :3] * np.ldexp(1.0, rgbe[..., 3:].astype(int) - 136) * (rgbe[..., 3:] > 0)
    assert np.allclose(read_image(path), expected, rtol=1e-6)


@pytest.mark.skipif(not HDR.is_dir(), reason="../shared/data is not there")
def test_environments_of_others_are_read() -> None:
    for path in sorted(HDR.glob("*.hdr")):
        pixels = read_image(path)
        assert pixels.shape[1] == 2 * pixels.shape[0] and np.isfinite(pixels).all() and pixels.max() > 10


def test_png_holds_the_tone_mapped_bytes(tmp_path: Path) -> None:
    for channels in (3, 4):
        shown = np.random.default_rng(1).integers(0, 256, (5, 6, channels), np.uint8)
        write_image(tmp_path / "a.png", picture(channels), tonemapped=shown)
        assert np.array_equal(np.asarray(Image.open(tmp_path / "a.png")), shown)


def test_png_of_linear_values_goes_through_the_srgb_curve_and_back(tmp_path: Path) -> None:
    ramp = np.linspace(0, 1, 256).repeat(4).reshape(1, 256, 4)
    write_image(tmp_path / "a.png", ramp)
    assert np.asarray(Image.open(tmp_path / "a.png"))[0, 55, 0] == 128, "0.2157 is the middle grey of sRGB"
    assert np.abs(read_image(tmp_path / "a.png") - ramp).max() < 5e-3
    write_image(tmp_path / "b.png", np.array([[[np.nan, 7, -7]]]))
    assert np.array_equal(read_image(tmp_path / "b.png"), [[[0, 1, 0]]])


def test_grey_and_palette_pngs_become_rgb(tmp_path: Path) -> None:
    colours = Image.fromarray(np.random.default_rng(2).integers(0, 256, (4, 4, 3), np.uint8)).convert("P")
    colours.save(tmp_path / "p.png")
    Image.fromarray(np.full((4, 4), 255, np.uint8)).save(tmp_path / "l.png")
    assert read_image(tmp_path / "p.png").shape == (4, 4, 3)
    assert np.array_equal(read_image(tmp_path / "l.png"), np.ones((4, 4, 3)))


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_pngs_of_sixteen_bits_are_read_to_the_last_bit(tmp_path: Path, channels: int) -> None:
    stored = np.random.default_rng(channels).integers(0, 65536, (5, 7, channels), np.uint16)
    (tmp_path / "deep.png").write_bytes(deep_png(stored))
    found = read_image(tmp_path / "deep.png")
    curve = stored / 65535
    linear = np.where(curve <= 0.04045, curve / 12.92, ((curve + 0.055) / 1.055) ** 2.4)
    assert found.shape == (5, 7, 4 if channels in (2, 4) else 3)
    assert np.allclose(found[..., :3], linear[..., :3] if channels > 2 else linear[..., :1], atol=1e-6)
    if channels in (2, 4):
        assert np.allclose(found[..., 3], curve[..., -1], atol=1e-6)


def test_an_unknown_ending_names_those_that_there_are(tmp_path: Path) -> None:
    for act in (lambda path: write_image(path, picture()), read_image):
        with pytest.raises(ImageError, match=r"'\.tga' is no picture format .* use \.exr, \.hdr, \.npy, \.png"):
            act(tmp_path / "a.tga")


def test_a_missing_folder_and_a_wrong_shape_are_said(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="there is no folder"):
        write_image(tmp_path / "none" / "a.png", picture())
    for shape in ((4, 4), (4, 4, 2), (0, 4, 3)):
        with pytest.raises(ImageError, match="a picture has shape"):
            write_image(tmp_path / "a.exr", np.zeros(shape))
    with pytest.raises(ImageError, match="no such file"):
        read_image(tmp_path / "gone.hdr")
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_is_a_folder_is_one_line_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "a.exr").mkdir()
    with pytest.raises(ImageError, match="cannot be written: is a directory") as error:
        write_image(tmp_path / "a.exr", picture())
    assert "\n" not in str(error.value) and [path.name for path in tmp_path.iterdir()] == ["a.exr"]


@pytest.mark.skipif(sys.platform == "win32", reason="hardware: resource limits are POSIX")
@pytest.mark.parametrize("ending", ["png", "exr", "hdr", "npy"])
def test_a_full_disk_leaves_the_old_picture(tmp_path: Path, ending: str) -> None:
    """A limit on the size of files stands for the disk: writing fails half-way."""
    path = tmp_path / f"a.{ending}"
    path.write_bytes(b"old")
    code = f"""
import resource, sys, numpy as np
sys.path.insert(0, {str(ROOT)!r})
from renderer.scene.images import ImageError, write_image
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_image({str(path)!r}, np.random.default_rng(0).random((64, 64, 3)))
except ImageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "cannot be written: file too large" in done.stdout and done.stdout.count("\n") == 1
    assert path.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_picture_is_a_picture_or_an_image_error(tmp_path: Path, data: Any) -> None:
    ending = data.draw(st.sampled_from([".png", ".hdr", ".npy"]))
    path = tmp_path / f"a{ending}"
    write_image(path, picture(3, 4, 9))
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw[: data.draw(st.integers(0, len(raw)))])
    try:
        assert read_image(path).ndim == 3
    except ImageError as error:
        assert "\n" not in str(error)
