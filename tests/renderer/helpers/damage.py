"""Damage, done to files in the ways that disks, networks, exporters and attackers do it, and the answer that is expected.

Whatever has become of a file, reading it gives a scene (with warnings) or `SceneError`, one line that names it; never another error, never
a wait without end, never memory out of proportion to the file. `answer` reads a file, and does with the scene what every command does
before it draws: triangles, pictures, a camera, a summary.
"""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from renderer.scene.framing import default_camera
from renderer.scene.importers import load
from renderer.scene.model import SceneError
from renderer.scene.summary import summary
from renderer.scene.texture_tables import texture_tables

LONGEST_S = 5.0  # of processor time, for one small file
INSERTED = (b"99999999999999999999", b"1e999", b"nan", b"-inf", b"-", b"0x1p9", b"\0", b"\xff\xfe", b"\xc3\xa9", b"\\\n", b"#", b"/", b"\r")
WORDS = (b"\xff\xff\xff\xff", b"\0\0\0\x80", b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\0\0\xc0\x7f", b"\0\0\x80\xff")


def answer(path: Path, *, strict: bool = False) -> str:
    """"" where the file is read as a scene, else the error's text. Fails for all that is neither."""
    started = time.process_time()
    try:
        scene = load(path, strict=strict)
        soup = scene.triangles()
        tables = texture_tables(scene, threads=1)
        default_camera(scene)
        summary(scene)
    except SceneError as error:
        text = str(error)
        assert text.startswith(str(path.parent)) and "\n" not in text and len(text) < 700, text
        assert "Traceback" not in text and "Error(" not in text
        return text
    finally:
        assert time.process_time() - started < LONGEST_S
    assert np.isfinite(soup.positions).all() and (soup.material < len(scene.materials)).all()
    assert tables is None or tables.texels.size
    assert all("\n" not in warning for warning in scene.warnings)
    return ""


def damaged(data: bytes, seed: int) -> bytes:
    """The bytes with one to five faults; the same for the same seed."""
    chance = random.Random(seed)
    raw = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 3, 5))):
        if raw:
            FAULTS[chance.randrange(len(FAULTS))](raw, chance.randrange(len(raw)), chance)
    return bytes(raw)


def _byte(raw: bytearray, at: int, chance: random.Random) -> None:
    raw[at] = chance.randrange(256)


def _bit(raw: bytearray, at: int, chance: random.Random) -> None:
    raw[at] ^= 1 << chance.randrange(8)


def _letter(raw: bytearray, at: int, chance: random.Random) -> None:
    raw[at] = chance.choice(b"0123456789-.e/ \n")


def _again(raw: bytearray, at: int, chance: random.Random) -> None:
    raw[at:at] = raw[at : at + chance.randrange(1, 40)]


def _lost(raw: bytearray, at: int, chance: random.Random) -> None:
    del raw[at : at + chance.randrange(1, 9)]


def _word(raw: bytearray, at: int, chance: random.Random) -> None:
    raw[at : at + 4] = chance.choice(WORDS)


def _insert(raw: bytearray, at: int, chance: random.Random) -> None:
    raw[at:at] = chance.choice(INSERTED)


def _cut(raw: bytearray, at: int, chance: random.Random) -> None:
    del raw[at:]


FAULTS: list[Callable[[bytearray, int, random.Random], None]] = [_byte, _bit, _letter, _again, _lost, _word, _insert, _cut]


@contextmanager
def bounded(mebibytes: float) -> Iterator[None]:
    """Fails where the block has more memory at a time than this, above what there was. Pillow's and Draco's own is not counted."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < mebibytes * 2**20, f"{(peak - before) / 2**20:.1f} MiB"
