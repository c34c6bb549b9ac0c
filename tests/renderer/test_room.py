"""What pictures may take is known before any is decoded: they are made smaller, or the answer is how much is needed and free."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import open_device
from renderer.scene.importers import load
from renderer.scene.model import SceneError
from renderer.scene.room import BUDGET, LIMIT, free_host_memory, memory_limit, picture_budget
from tests.renderer.helpers.gltf_file import File
from tests.renderer.helpers.picture_files import chunk

MIB = 1 << 20
ROOT = Path(__file__).resolve().parents[2]


def plain_png(size: int, colour: tuple[int, ...]) -> bytes:
    """A square PNG of one colour with alpha."""
    pack = zlib.compressobj(1)
    strip = (b"\0" + bytes(colour) * size) * 64
    body = b"".join(pack.compress(strip) for _ in range(size // 64)) + pack.flush()
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 6, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def tiles(folder: Path, count: int, picture: Any) -> Path:
    """A scene of squares, four in a row, each of a material of its own with `picture(k)` on it; they shine."""
    file = File(images=[], textures=[], materials=[])
    texcoords = file.accessor([[0, 0], [1, 0], [1, 1], [0, 1]], 5126, "VEC2")
    for k in range(count):
        file.json["images"].append({"bufferView": file.view(picture(k)), "mimeType": "image/png"})
        file.json["textures"].append({"source": k})
        textured = {"baseColorTexture": {"index": k}}
        file.json["materials"].append({"pbrMetallicRoughness": textured, "extensions": {"KHR_materials_unlit": {}}})
        corners = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]) + np.array([k % 4, k // 4, 0])
        attributes = {"POSITION": file.accessor(corners), "TEXCOORD_0": texcoords}
        indices = file.accessor([0, 1, 2, 0, 2, 3], 5123, "SCALAR")
        file.node(mesh=file.mesh({"attributes": attributes, "indices": indices, "material": k}))
    file.json["extensionsUsed"] = ["KHR_materials_unlit"]
    camera = {"type": "orthographic", "orthographic": {"xmag": 2, "ymag": count / 8, "znear": 0.1, "zfar": 10}}
    file.json["cameras"] = [camera]
    file.node(camera=0, translation=[2, count / 8, 1])
    return file.write(folder)


COLOURS = [(10 + 14 * k, 250 - 12 * k, 100 + 3 * k, 255) for k in range(16)]
LOADER = """
import resource, sys
most = int(sys.argv[1])
if most:
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
from renderer.app.cli import main
code = main(sys.argv[2:])
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
sys.exit(code)
"""


def render(scene: Path, most: int = 0, limit: str = "") -> tuple[int, str, int]:
    """The exit code of rendering a scene with so many bytes of address space and this limit; what it said; the peak of its memory, MiB."""
    import os

    command = [sys.executable, "-c", LOADER, most, "render", scene, "-o", scene.with_name("out.npy"), "--backend", "cpu"]
    ran = subprocess.run(
        [*map(str, command), "--size", "64", str(16 * 4), "--spp", "4", "--threads", "2"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=scene.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT), LIMIT: limit},
    )
    peak = [line.split()[1] for line in ran.stdout.splitlines() if line.startswith("peak")]
    return ran.returncode, ran.stderr, int(peak[0]) if peak else 0


def test_sixteen_pictures_past_the_limit_are_shrunk_and_shown(tmp_path: Path) -> None:
    """An eighth as wide as pictures of 8192 pixels, within a sixty-fourth of 2 GiB."""
    small = tiles(tmp_path, 16, lambda k: plain_png(64, COLOURS[k]))
    alone = [render(small)[2] for _ in range(2)][-1]  # the first may have had to compile
    code, said, peak = render(tiles(tmp_path, 16, lambda k: plain_png(1024, COLOURS[k])), limit="32M")
    assert code == 0, said
    lines = [line for line in said.splitlines() if "shrunk" in line]
    assert len(lines) == 16 and all("images[" in line for line in lines)
    assert "images[3]: shrunk from 1024 x 1024 to 256 x 256: all pictures need 85 MiB, but may have 16" in said
    assert "images[15]: shrunk from 1024 x 1024 to 512 x 512: all pictures need 85 MiB, but may have 16" in said
    # two threads, each with a picture of 1 Mi pixels: 12 bytes a pixel while it is decoded and halved
    assert peak < alone + 16 + 2 * 12 + 25, "never more than the budget and a picture a thread"


def test_what_is_seen_of_shrunk_pictures_is_their_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from renderer.pipeline.session import Session

    monkeypatch.setenv(LIMIT, "1M")
    scene = load(tiles(tmp_path, 16, lambda k: plain_png(256, COLOURS[k])))
    session = Session(scene, width=40, height=40, backend="cpu", spp=16)
    session.frame()
    seen = session.mean()
    assert session.texture_bytes <= MIB // 2 + 4096
    session.close()
    for k, colour in enumerate(COLOURS):
        stored = np.array(colour[:3]) / 255
        linear = np.where(stored <= 0.04045, stored / 12.92, ((stored + 0.055) / 1.055) ** 2.4)
        np.testing.assert_allclose(seen[35 - 10 * (k // 4), 5 + 10 * (k % 4)], linear, atol=2e-3)


@pytest.mark.skipif(sys.platform != "linux", reason="hardware: limits of address space are Linux's")
def test_where_there_is_no_room_for_one_picture_the_answer_is_how_much_is_needed_and_free(tmp_path: Path) -> None:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 16384, 16384, 8, 6, 0, 0, 0))
    claims = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"") + bytes(1 << 15)
    scene = tiles(tmp_path, 16, lambda k: claims)
    code, said, _ = render(scene, most=2000 * MIB)
    assert code == 4, said
    (line,) = [line for line in said.splitlines() if "error" in line]
    assert "error: out of memory: " in line and "images[0]: decoding 16384 x 16384 pixels needs 3072 MiB, and " in line
    free = int(line.split(", and ")[1].split()[0])
    assert 0 < free < 3072 and "MiB are free" in line


@pytest.mark.parametrize(
    ("text", "bytes"), [("", None), ("2G", 2 << 30), ("1.5 GiB", 3 << 29), ("800m", 800 << 20), ("64KB", 64 << 10), ("12345", 12345)]
)
def test_the_limit_is_a_number_of_bytes(text: str, bytes: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, text)
    assert memory_limit() == bytes


@pytest.mark.parametrize("text", ["much", "G", "-2G", "2T", "nan", "1e400"])
def test_a_limit_that_is_none_is_said(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, text)
    with pytest.raises(SceneError, match=f"^{LIMIT}={text}: is no number of bytes; write 2G or 800M$"):
        memory_limit()


@pytest.mark.parametrize("backend", ["cpu", "reference", "opencl", "opengl"])
def test_a_budget_is_half_of_the_limit_and_no_more_than_a_buffer(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine import DeviceError

    try:
        device = open_device(backend)
    except DeviceError as error:
        pytest.skip(f"{backend}: {error}")
    try:
        monkeypatch.delenv(LIMIT, raising=False)
        most = picture_budget(device)
        assert 0 < most <= min(BUDGET, device.buffer_bytes or BUDGET)
        monkeypatch.setenv(LIMIT, "10M")
        assert picture_budget(device) == 5 << 20
    finally:
        device.close()
    free = free_host_memory()
    assert free is None or free > 0
