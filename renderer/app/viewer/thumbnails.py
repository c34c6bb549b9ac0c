"""Small pictures of a scene's textures, for the panel: decoded beside the loop, kept on the window's side.

A scene may have a hundred pictures of 4096 pixels a side, and the panel shows a few of them at a time. So a picture is asked for when it
is first to be seen; a thread of its own decodes it, as small as the decoder can make it, and the next turns find it. What cannot be
decoded is a grey square, like what is still on its way: the kernels' own message has told why.

A small picture shows what is stored, as a screen would: colours as they look, a normal map in its pale blue. Alpha is left out, so that
what is transparent can be seen. All calls come from the thread of the loop, which has the window's context.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import moderngl
import numpy as np
from numpy.typing import NDArray

from renderer.scene.model import Image
from renderer.scene.pictures import PictureError, Size, decode, size_of

SIDE = 64  # pixels, of the longer side at most


@dataclass
class Thumbnail:
    """`size`: of the whole picture, None where it is not known (yet). `texture`: its number in OpenGL, None before it is there."""

    size: Size | None = None
    texture: moderngl.Texture | None = None


class Thumbnails:
    """Of one window. `wake` is called, on any thread, when there is something new to see."""

    def __init__(self, context: moderngl.Context, wake: Callable[[], None] = lambda: None) -> None:
        self._context, self._wake = context, wake
        self._known: dict[Image, Thumbnail] = {}
        self._wanted: queue.SimpleQueue[Image | None] = queue.SimpleQueue()
        self._done: deque[tuple[Image, Size | None, NDArray[np.uint8] | None]] = deque()
        self._thread: threading.Thread | None = None

    def of(self, image: Image) -> Thumbnail:
        """What there is of a picture by now."""
        while self._done:
            done, size, pixels = self._done.popleft()
            if done in self._known:
                self._known[done] = Thumbnail(size, self._uploaded(pixels) if pixels is not None else None)
        found = self._known.get(image)
        if found is None:
            found = self._known[image] = Thumbnail()
            self._wanted.put(image)
            if self._thread is None:
                self._thread = threading.Thread(target=self._decode, name="rayfuse-thumbnails", daemon=True)
                self._thread.start()
        return found

    def forget(self) -> None:
        """Another scene is shown: gives all back."""
        for thumbnail in self._known.values():
            if thumbnail.texture is not None:
                thumbnail.texture.release()
        self._known.clear()

    def close(self) -> None:
        """Ends the thread and gives all back; the context must be there still."""
        self.forget()
        self._wanted.put(None)

    def _uploaded(self, pixels: NDArray[np.uint8]) -> moderngl.Texture:
        height, width = pixels.shape[:2]
        return self._context.texture((width, height), 3, np.ascontiguousarray(pixels), alignment=1)

    def _decode(self) -> None:
        """On the thread."""
        while (image := self._wanted.get()) is not None:
            if image not in self._known:  # nobody asks any more
                continue
            size = pixels = None
            try:
                size = size_of(image)
                pixels = small(image, size)
            except (PictureError, MemoryError):
                pass
            self._done.append((image, size, pixels))
            self._wake()


def small(image: Image, size: Size) -> NDArray[np.uint8]:
    """uint8[height, width, 3]: a picture whose header says `size`, made smaller until it is no longer than SIDE. Raises `PictureError`."""
    from PIL import Image as Pillow

    halvings = max(0, (max(size.width, size.height) - 1) // SIDE).bit_length()
    pixels = decode(image, halvings)
    if pixels.dtype == np.uint16:
        pixels = (pixels >> 8).astype(np.uint8)
    colours = pixels[..., :3] if pixels.shape[2] >= 3 else pixels[..., :1]
    whole = np.broadcast_to(colours, (*pixels.shape[:2], 3)).astype(np.uint8)
    return np.asarray(Pillow.fromarray(whole).reduce(-(-max(pixels.shape[:2]) // SIDE)))  # what the decoder has not made smaller
