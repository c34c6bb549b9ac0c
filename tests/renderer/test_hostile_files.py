"""Files of every other kind, damaged: meshes, their materials, pictures, surroundings, packed data. Each is read, or refused in one line.

Small whole files are damaged at random in the ways of `helpers.damage`, cut at every byte, and given the numbers that hurt: sizes of which
a file of some bytes can have nothing. HYPOTHESIS_EXAMPLES asks for more of the random ones.
"""

from __future__ import annotations

import io
import os
import struct
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from renderer.scene.images import ImageError, read_image, write_image
from renderer.scene.importers import load
from tests.renderer.helpers.damage import LONGEST_S, answer, bounded, damaged
from tests.renderer.helpers.picture_files import encoded, png

EXAMPLES = 1500 if "HYPOTHESIS_EXAMPLES" in os.environ else 150
POINTS = np.array([[0, 0, 0], [2, 0, 0], [2, 1, 0], [1, 2, 0], [0, 1, 0]], np.float32)
FACES = ([0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4], [3, 2, 1, 0])

OBJ = b"""mtllib a.mtl
o thing
v 0 0 0 1 0 0
v 2 0 0 0 1 0
v 2 1 0 0 0 1
v 0 1 0 1 1 1
vt 0 0
vt 1 1
vn 0 0 1
g x y
usemtl a
s off
f 1/1/1 2/1/1 3/2/1 4/1/1
usemtl b
f -1//1 -2//-1 -3//1
f 1 2 \\
3
l 1 2
p 1
"""
MTL = b"""newmtl a
Kd 0.5 0.5 0.5
Ks 1 1 1
Ke 1 1 1
Ns 10
Ni 1.5
d 0.5
Tr 0.5
illum 2
Pr 0.5
Pm 0.5
Ps 0.1
Pc 0.1
Pcr 0.1
aniso 0.3
anisor 0.2
map_Kd -s 2 2 2 -o 0.5 0.5 0 -bm 0.5 -clamp on p.png
map_Bump -bm 2 p.png
map_d p.png
map_Ke p.png
newmtl b
Kd spectral x.rfl
"""


def ply(form: str) -> bytes:
    """A PLY file in one of the three forms."""
    header = f"ply\nformat {form} 1.0\ncomment made\nelement vertex {len(POINTS)}\nproperty float x\nproperty float y\nproperty float z\n"
    header += f"element face {len(FACES)}\nproperty list uchar int vertex_indices\nend_header\n"
    if form == "ascii":
        rows = [*POINTS.tolist(), *([len(face), *face] for face in FACES)]
        return (header + "\n".join(" ".join(map(str, row)) for row in rows) + "\n").encode()
    order = "<" if "little" in form else ">"
    faces = b"".join(struct.pack(f"{order}B{len(face)}i", len(face), *face) for face in FACES)
    return header.encode() + POINTS.astype(f"{order}f4").tobytes() + faces


def stl() -> bytes:
    triangles = POINTS[[0, 1, 2, 0, 2, 3]].reshape(-1, 9)
    return bytes(80) + struct.pack("<I", len(triangles)) + b"".join(struct.pack("<3f9fH", 0, 0, 1, *t, 0) for t in triangles)


def stl_text() -> bytes:
    corners = "".join(f"vertex {x} {y} {z}\n" for x, y, z in POINTS[:3])
    return f"solid a\nfacet normal 0 0 1\nouter loop\n{corners}endloop\nendfacet\nendsolid a\n".encode()


MESHES = {
    "a.obj": OBJ,
    "little.ply": ply("binary_little_endian"),
    "big.ply": ply("binary_big_endian"),
    "text.ply": ply("ascii"),
    "a.stl": stl(),
    "text.stl": stl_text(),
}
PIXELS = np.random.default_rng(0).integers(0, 256, (7, 9, 4), np.uint8)
PICTURES = {
    "colour.png": png(PIXELS[..., :3]),
    "palette.png": encoded(Image.fromarray(PIXELS[..., :3]).quantize(16), "PNG", transparency=bytes(range(16))),
    "deep.png": encoded(Image.fromarray(PIXELS[..., 0].astype(np.uint16) * 257), "PNG"),
    "a.jpg": encoded(Image.fromarray(PIXELS[..., :3]), "JPEG"),
    "cmyk.jpg": encoded(Image.fromarray(PIXELS, "CMYK"), "JPEG"),
    "progressive.jpg": encoded(Image.fromarray(PIXELS[..., :3]), "JPEG", progressive=True),
    "a.webp": encoded(Image.fromarray(PIXELS[..., :3]), "WEBP", lossless=True),
    "lossy.webp": encoded(Image.fromarray(PIXELS[..., :3]), "WEBP"),
}


@pytest.fixture(autouse=True)
def no_warnings_of_libraries() -> Any:
    """What NumPy or Pillow warn of is a line on the user's terminal that says nothing to them."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("name", MESHES)
def test_a_damaged_mesh_file_is_a_scene_or_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(PICTURES["colour.png"])
    (tmp_path / "a.mtl").write_bytes(MTL)
    path = tmp_path / name
    path.write_bytes(MESHES[name])
    assert answer(path) == "" and len(load(path).triangles()) > 0
    for seed in range(2 * EXAMPLES):
        path.write_bytes(damaged(MESHES[name], seed))
        answer(path, strict=seed % 5 == 0)


@pytest.mark.parametrize("name", MESHES)
def test_a_mesh_file_that_is_cut_anywhere_is_a_scene_or_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    for end in range(len(MESHES[name])):
        path.write_bytes(MESHES[name][:end])
        answer(path)


def test_a_damaged_library_of_materials_costs_a_material(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(PICTURES["colour.png"])
    (tmp_path / "a.obj").write_bytes(OBJ)
    for seed in range(EXAMPLES):
        (tmp_path / "a.mtl").write_bytes(damaged(MTL, seed))
        assert answer(tmp_path / "a.obj") == ""


@pytest.mark.parametrize("name", PICTURES)
def test_a_damaged_picture_costs_a_placeholder(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.obj").write_text("mtllib a.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nusemtl a\nf 1/1 2/1 3/1\n")
    (tmp_path / "a.mtl").write_text(f"newmtl a\nmap_Kd {name}\nmap_Bump {name}\n")
    data = PICTURES[name]
    for seed in range(EXAMPLES):
        (tmp_path / name).write_bytes(damaged(data, seed) if seed % 3 else data[: len(data) * seed // EXAMPLES])
        assert answer(tmp_path / "a.obj") == ""


@pytest.mark.parametrize("ending", [".hdr", ".exr", ".npy", ".png"])
def test_a_damaged_picture_of_surroundings_is_a_picture_or_one_line(ending: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """And the libraries that read it print nothing, on neither stream."""
    path = tmp_path / f"a{ending}"
    write_image(path, np.random.default_rng(1).random((8, 16, 3)))
    data = path.read_bytes()
    for seed in range(EXAMPLES):
        path.write_bytes(damaged(data, seed) if seed % 3 else data[: len(data) * seed // EXAMPLES])
        started = time.process_time()
        try:
            with np.errstate(all="ignore"):
                assert read_image(path).ndim == 3
        except ImageError as error:
            assert str(error).startswith(str(path)) and "\n" not in str(error)
        assert time.process_time() - started < LONGEST_S
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


# Sizes that cannot be


def png_of(width: int, height: int) -> bytes:
    """A PNG of some bytes whose header claims a size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(99))) + chunk(b"IEND", b"")


def npy_of(*shape: int) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return stream.getvalue() + bytes(64)


def webp_of(size: int) -> bytes:
    """A lossless WebP of some bytes whose header claims a square of a size."""
    data = bytearray(PICTURES["a.webp"])
    at = data.index(b"VP8L") + 9
    data[at : at + 4] = struct.pack("<I", (size - 1) | (size - 1) << 14 | 1 << 28)
    return bytes(data)


def ply_of(vertices: str, faces: str, rows: str = "0 0 0\n") -> bytes:
    head = f"ply\nformat ascii 1.0\nelement vertex {vertices}\nproperty float x\nproperty float y\nproperty float z\n"
    return f"{head}element face {faces}\nproperty list uchar int vertex_indices\nend_header\n{rows}".encode()


LARGE: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "a PLY of many vertices": ("a.ply", lambda: ply_of("99999999999", "1"), "it is cut off in its 99999999999 rows of vertex"),
    "a PLY of many faces": ("a.ply", lambda: ply_of("1", "9999999999"), "it is cut off in its 9999999999 rows of face"),
    "a PLY of more than can be counted": ("a.ply", lambda: ply_of("9" * 5000, "1"), "line 3"),
    "a PLY with a long list": ("a.ply", lambda: ply_of("1", "1", "0 0 0\n4000000000 0 0"), "a list of face has 4000000000 values"),
    "a PLY with a list that is no number": ("a.ply", lambda: ply_of("1", "1", "0 0 0\nnan 0 0"), "face"),
    "a PLY of properties of one name": (
        "a.ply",
        lambda: ply_of("1", "0").replace(b"float y", b"float x"),
        "line 5: 'property float x' is no line of a PLY header",
    ),
    "a binary PLY of many vertices": (
        "a.ply",
        lambda: ply("binary_little_endian").replace(b"vertex 5", b"vertex 999999999999"),
        "it is cut off in its 999999999999 rows of vertex",
    ),
    "an OBJ with a far vertex": ("a.obj", lambda: b"v 0 0 0\nf 1 1 99999999999\n", "v 99999999999 does not exist"),
    "an OBJ with a vertex past all numbers": ("a.obj", lambda: b"v 0 0 0\nf 1 1 " + b"9" * 400 + b"\n", "a.obj: line 2"),
}


@pytest.mark.parametrize("what", LARGE)
def test_sizes_beyond_the_file_are_refused_before_anything_is_allocated(what: str, tmp_path: Path) -> None:
    name, make, says = LARGE[what]
    path = tmp_path / name
    path.write_bytes(make())
    with bounded(4):
        assert says in answer(path)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.png", png_of(40_000, 40_000)),
        ("a.png", png_of(2**31 - 1, 2**31 - 1)),
        ("a.npy", npy_of(100_000, 100_000, 3)),
        ("a.npy", npy_of(2**62, 2**62, 3)),
        ("a.hdr", b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 16000 +X 16000\n" + bytes(99)),
    ],
    ids=["png", "png of no size at all", "npy", "npy past all numbers", "hdr"],
)
def test_surroundings_of_a_size_beyond_their_file_are_refused(name: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with bounded(4), pytest.raises(ImageError, match=r"are too many|cannot be in|are too few"):
        read_image(path)


@pytest.mark.parametrize("data", [png_of(40_000, 40_000), png_of(16_000, 16_000), webp_of(16_383)], ids=["huge", "large", "webp"])
def test_a_picture_of_a_size_beyond_its_file_is_a_placeholder_at_once(data: bytes, tmp_path: Path) -> None:
    from renderer.scene.texture_tables import texture_tables

    (tmp_path / "a.obj").write_text("mtllib a.mtl\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nusemtl a\nf 1/1 2/1 3/1\n")
    (tmp_path / "a.mtl").write_text("newmtl a\nmap_Kd p.png\n")
    (tmp_path / "p.png").write_bytes(data)
    heard: list[str] = []
    started = time.process_time()
    tables = texture_tables(load(tmp_path / "a.obj"), warn=heard.append)
    assert tables is not None and tables.texels.size == 1 and f"pixels are too many for {len(data)} bytes" in heard[0]
    assert time.process_time() - started < 1


def test_an_obj_file_whose_normals_have_more_numbers_than_three_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nvn 0 0 2 7 8\nvt 0 0 0 0\nf 1/1/1 2/1/1 3/1/1\n")
    normals = load(path).triangles().normals
    assert normals is not None and np.array_equal(normals, np.broadcast_to(np.float32([0, 0, 1]), (1, 3, 3)))
