"""Screenshots: the picture as it is shown, in its own resolution and without the panel, written as PNG.

A screenshot that is wanted waits until the picture has its full resolution. It is then drawn once more, into memory instead of the
window, so that every way of presenting gives it the same way, and no worker has to be asked. Compressing it takes long enough to be
noticed, so threads do that.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from renderer.app.viewer.present import Presenter, Screen


class Photos:
    """`said(path, problem)` is called from any thread when a file is written (problem is "") or cannot be."""

    def __init__(self, said: Callable[[Path, str], None]) -> None:
        self.wanted: list[Path] = []
        self._said = said
        self._names: set[Path] = set()  # given out: the file of the last one may not be there yet
        self._threads: list[threading.Thread] = []

    def next_name(self, scene: Path) -> Path:
        """A name in the current folder that no file has, another one each time."""
        names = (Path(f"rayfuse-{scene.stem}-{number}.png") for number in itertools.count(1))
        name = next(name for name in names if not name.exists() and name not in self._names)
        self._names.add(name)
        return name

    def take(self, screen: Screen, presenter: Presenter, size: tuple[int, int]) -> None:
        """Writes what is shown to all the files that are wanted."""
        if not self.wanted:
            return
        picture = screen.read(presenter, size)
        for path in self.wanted:
            writer = threading.Thread(target=self._write, args=(picture, path), name="rayfuse-photo", daemon=True)
            writer.start()
            self._threads.append(writer)
        self.wanted = []

    def finish(self, seconds: float) -> None:
        """Waits so long for files that are being written."""
        for writer in self._threads:
            writer.join(seconds)

    def _write(self, picture: np.ndarray[Any, Any], path: Path) -> None:
        from PIL import Image

        try:
            Image.fromarray(picture).save(path)
        except OSError as error:
            self._said(path, f"{path}: {error.strerror or error}")
        else:
            self._said(path, "")
