"""Screenshots get names that are free, also while the file of the one before is not there yet, and a problem is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from renderer.app.viewer.photos import Photos


class Still:
    """A screen that shows one picture."""

    def __init__(self, picture: np.ndarray[Any, Any]) -> None:
        self.picture = picture

    def read(self, presenter: Any, size: tuple[int, int]) -> np.ndarray[Any, Any]:
        return self.picture


def test_names_are_free_and_each_is_given_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rayfuse-room-2.png").touch()
    photos = Photos(lambda path, problem: None)
    names = [photos.next_name(Path("scenes/room.glb")).name for _ in range(3)]  # none of them is written yet
    assert names == ["rayfuse-room-1.png", "rayfuse-room-3.png", "rayfuse-room-4.png"]


def test_what_cannot_be_written_is_told_and_the_rest_is_written(tmp_path: Path) -> None:
    from PIL import Image

    told: dict[Path, str] = {}
    photos = Photos(told.__setitem__)
    picture = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
    good, bad = tmp_path / "good.png", tmp_path / "no folder" / "bad.png"
    photos.wanted += [good, bad]
    screen: Any = Still(picture)
    presenter: Any = None
    photos.take(screen, presenter, (7, 5))
    photos.finish(60.0)
    assert photos.wanted == [] and told[good] == "" and "No such file" in told[bad]
    assert np.array_equal(np.asarray(Image.open(good)), picture)
