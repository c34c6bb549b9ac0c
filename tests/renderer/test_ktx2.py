"""KTX2 pictures of Basis Universal: both codecs, with and without alpha, levels and Zstandard; and what is said without the package."""

from __future__ import annotations

import base64
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from renderer.scene.gltf import load
from renderer.scene.gltf_write import write
from renderer.scene.model import Image, Scene, SceneError
from renderer.scene.pictures import PictureError, Size, decode, size_of, stored
from renderer.scene.texture_tables import texture_tables
from tests.renderer.helpers.gltf_file import QUAD, File
from tests.renderer.helpers.picture_files import png
from tests.renderer.helpers.texturing import light

# Of 20 x 12 pixels, made with Basis Universal 2.1: red grows to the right, green downwards, blue is 60; alpha is 0 on the left.
FILES = {
    "etc1s": (
        "q0tUWCAyMLsNChoKAAAAAAEAAAAUAAAADAAAAAAAAAAAAAAAAQAAAAEAAAABAAAAaAAAACwAAACUAAAAJAAAALgAAAAAAAAAtQAAAAAAAABtAQAAAAAAAAoAAAAAAAAA"
        "AAAAAAAAAAAsAAAAAAAAAAIAKACjAQIAAwMAAAgAAAAAAAAAAAA/AAAAAAAAAAAA/////x8AAABLVFh3cml0ZXIAQmFzaXMgVW5pdmVyc2FsIDIuMTAAAA8ABwBCAAAA"
        "GwAAADAAAAAAAAAAAAAAAAAAAAAKAAAAAAAAAAAAAAAgwNQAAAAAYRgWTAVPDASIAjAAACAIe+HB6Aw2FIApAAAAAAAQqAkCMAUAAAAAEARRR9/7MkHI+qtOIAR7rkzQ"
        "iQEwBiYEEAAABAPAdwQQaRGUBlCVqk4vhpQKgz8BwUQAAAAAAADyX40AMAEAAAAAAICwArxtEAAAEIYfsbA0I0gCgAkAAAAAAAAEEABIL/4bq2XMek9s"
    ),
    "etc1s_alpha": (
        "q0tUWCAyMLsNChoKAAAAAAEAAAAUAAAADAAAAAAAAAAAAAAAAQAAAAEAAAABAAAAaAAAADwAAACkAAAAJAAAAMgAAAAAAAAA0gAAAAAAAACaAQAAAAAAABYAAAAAAAAA"
        "AAAAAAAAAAA8AAAAAAAAAAIAOACjAQIAAwMAAAgIAAAAAAAAAAA/AAAAAAAAAAAA/////0AAPw8AAAAAAAAAAP////8fAAAAS1RYd3JpdGVyAEJhc2lzIFVuaXZlcnNh"
        "bCAyLjEwAAASAAoASQAAACkAAAA4AAAAAAAAAAAAAAAAAAAADAAAAAwAAAAKAAAAIEAMAAAAgEHYksEpPQUCRAEYAAAQhFF4sLA5gw0FYAoAAAAAIAjilQjAFAAAAABA"
        "EEQdfe+TEQCA/ZIdBQSLNUkjIGytr+2SAISHh4cHqNT/B6hS/wegUv0HgFL9B6hS9QeoUtUHqEpVBwAAAFBVVVUFAcGbgAEAACAhBFRYGYfPBgQwIQAAAAAAAmmBF+CR"
        "oAAAAiH6gEQL20knSJgAYAIAAAAAAAABBACrKxdMqiELT9JcB214foIlW7AsBioB"
    ),
    "uastc": (
        "q0tUWCAyMLsNChoKAAAAAAEAAAAUAAAADAAAAAAAAAAAAAAAAQAAAAEAAAACAAAAaAAAACwAAACUAAAAJAAAAAAAAAAAAAAAAAAAAAAAAAC4AAAAAAAAAJEAAAAAAAAA"
        "8AAAAAAAAAAsAAAAAAAAAAIAKACmAQEAAwMAABAAAAAAAAAAAAB/AwAAAAAAAAAA/////x8AAABLVFh3cml0ZXIAQmFzaXMgVW5pdmVyc2FsIDIuMTAAACi1L/0g8EUE"
        "AHQGGOloWwCBmQEQMlR2mLrc/piCEe1bsIOZQQAzRHeIu8z/24KNotsncM5ByFHZYupz+9uChqIbDxjpqFQA6ZuY6hEtVbDrm5CGgtsn7ZGGghsPCOgAWAB1mQFAmHYQ"
        "jViwd5mRZ05PTg8gUC0tHAUmowCzIdNspP2w4XRDow/scJvuR4ZN8Jc="
    ),
    "uastc_mips": (
        "q0tUWCAyMLsNChoKAAAAAAEAAAAUAAAADAAAAAAAAAAAAAAAAQAAAAUAAAACAAAAyAAAACwAAAD0AAAAJAAAAAAAAAAAAAAAAAAAAAAAAADIAQAAAAAAAHoAAAAAAAAA"
        "8AAAAAAAAABzAQAAAAAAAFUAAAAAAAAAYAAAAAAAAABKAQAAAAAAACkAAAAAAAAAIAAAAAAAAAAxAQAAAAAAABkAAAAAAAAAEAAAAAAAAAAYAQAAAAAAABkAAAAAAAAA"
        "EAAAAAAAAAAsAAAAAAAAAAIAKACmAQIAAwMAABAAAAAAAAAAAAB/AAAAAAAAAAAA/////x8AAABLVFh3cml0ZXIAQmFzaXMgVW5pdmVyc2FsIDIuMTAAACi1L/0gEIEA"
        "ANeQkOc/da4AAAAAAAAAAAAotS/9IBCBAAB7glaSy+b/zjEzMDMwMzAzKLUv/SAgAQEA25SG2Euues5ByFHZc/tz+2FaJ+C6pNDzAAB3d/////8otS/9IGBlAgD0A5ui"
        "ntILpPjOETJUdpi63P6bktbOi6vbkgbO+5L4zsHM0d3i7vP/G7QO3wtkXc5ByHP7GxJA24tr24eG2vtSXQQAoBh3CznrzDabKLUv/SDwjQMA1ATbgs2jCxBwzkHIUdli"
        "6nP7yyiNoos/2yeGohsPm5HWgwsQ7c4RMlR2mLrc/puQ1oPLKNuQhoKLP+3bJ5GGghsP7VBOy2iLf07bZxtPThIgkJe2AcUQzELpsOCiDV7gSZaBw8LUht02wuEyKcbG"
        "aks="
    ),
}
Y, X = np.mgrid[:12, :20]
COLOURS = np.dstack([X * 12, Y * 20, np.full_like(X, 60)])
COVER = X // 10 * 255
ERROR = {"etc1s": 40, "etc1s_alpha": 40, "uastc": 9, "uastc_mips": 2}  # what the encoder lost


def data(name: str) -> bytes:
    return base64.b64decode(FILES[name])


def image(source: bytes | None, **more: Any) -> Image:
    return Image("made", source, "images[0]", **more)


@pytest.fixture
def package() -> None:
    pytest.importorskip("opengl_basisu", reason="the package opengl-basisu is not installed: pip install 'rayfuse[basisu]'")


def shown(extensions: dict[str, Any], *files: bytes) -> File:
    """A square that shows a texture."""
    file = File(images=[], textures=[extensions], materials=[{"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}])
    file.json |= {"extensionsUsed": ["KHR_texture_basisu"]}
    for picture in files:
        file.json["images"].append({"bufferView": file.view(picture)})
    file.node(mesh=file.quad(material=0))
    file.json["meshes"][0]["primitives"][0]["attributes"]["TEXCOORD_0"] = file.accessor(QUAD[:, :2], 5126, "VEC2")
    return file


BASISU = {"extensions": {"KHR_texture_basisu": {"source": 0}}}


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("name", FILES)
def test_pixels_are_those_that_were_packed(name: str) -> None:
    channels = 4 if name in ("etc1s_alpha", "uastc") else 3
    found = decode(image(data(name)))
    assert found.dtype == np.uint8 and found.shape == (12, 20, channels)
    assert size_of(image(data(name))) == Size(20, 12, channels, 1)
    seen = COVER > 0 if channels == 4 else np.ones_like(COVER, bool)  # what is not seen may have any colour
    assert np.abs(found[..., :3].astype(int) - COLOURS)[seen].max() <= ERROR[name]
    if channels == 4:
        assert np.abs(found[..., 3].astype(int) - COVER).max() <= ERROR[name]


@pytest.mark.usefixtures("package")
def test_a_coarser_level_of_the_file_is_taken_where_the_picture_is_shrunk() -> None:
    for halvings, shape in ((1, (6, 10, 3)), (2, (3, 5, 3)), (9, (1, 1, 3))):
        found = decode(image(data("uastc_mips")), halvings)
        assert found.shape == shape
        np.testing.assert_allclose(light(found / 255).mean((0, 1)), light(COLOURS / 255).mean((0, 1)), atol=0.02)
    assert decode(image(data("uastc")), 2).shape == (12, 20, 4), "a file without levels has its finest"


@pytest.mark.usefixtures("package")
def test_a_scene_shows_them_and_is_saved_with_pictures_that_all_can_read(tmp_path: Path) -> None:
    scene = shown(BASISU, data("uastc_mips")).load(tmp_path)
    assert scene.warnings == [] and scene.undrawn == [] and scene.lost == []
    assert texture_tables(scene) is not None
    write(scene, tmp_path / "saved.glb")
    again = load(tmp_path / "saved.glb")
    assert again.extensions == [] and np.array_equal(decode(again.images[0]), decode(scene.images[0]))
    made = stored(scene.images[0])
    assert made is not None and made[1:4] == b"PNG"


@pytest.mark.usefixtures("package")
def test_damaged_files_are_refused_with_a_reason() -> None:
    whole = data("uastc")
    random = np.random.default_rng(4)
    for length in (12, 60, 79, 90, 200, len(whole) - 1):
        with pytest.raises(PictureError, match="the picture is damaged"):
            decode(image(whole[:length]))
    claims = whole[:20] + struct.pack("<II", 1 << 20, 1 << 20) + whole[28:]
    with pytest.raises(PictureError, match="1048576 x 1048576 pixels are too many"):
        size_of(image(claims))
    plain = whole[:12] + struct.pack("<I", 37) + whole[16:44] + struct.pack("<I", 0) + whole[48:]
    with pytest.raises(PictureError, match="the picture is damaged"):
        decode(image(plain))
    for _ in range(200):  # whatever is in it, the program goes on
        bad = bytearray(whole)
        for place in random.integers(12, len(whole), 4):
            bad[place] = random.integers(256)
        with suppress(PictureError):
            decode(image(bytes(bad)))


def test_the_picture_beside_it_is_preferred(tmp_path: Path) -> None:
    plain = png(np.full((2, 2, 3), 77, np.uint8))
    scene = shown({"source": 1, **BASISU}, data("etc1s"), plain).load(tmp_path)
    assert scene.textures[0].image == 1 and scene.warnings == []


def test_without_the_package_a_placeholder_is_drawn_and_what_to_install_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opengl_basisu", None)  # what the import system takes for "not installed"
    file = shown(BASISU, data("etc1s"))
    file.json["extensionsRequired"] = ["KHR_texture_basisu"]
    scene: Scene = file.load(tmp_path)
    said = "images[0]: is a KTX2 picture, for which the package opengl-basisu is needed (pip install 'rayfuse[basisu]')"
    assert scene.warnings == [f"{said}; it is replaced by a placeholder"]
    with pytest.raises(SceneError, match="opengl-basisu is needed"):
        file.load(tmp_path, strict=True)
    with pytest.raises(PictureError, match=r"^is a KTX2 picture, for which the package opengl-basisu is needed \(pip install"):
        size_of(image(data("etc1s")))
    assert stored(image(data("etc1s"))) is None, "a saved scene has no picture that it could not read"
