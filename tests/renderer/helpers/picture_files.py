"""Picture files of every kind that textures come in, for tests."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    """A PNG of uint8[h, w], [h, w, 3] or [h, w, 4]."""
    return encoded(Image.fromarray(pixels), "PNG")


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()
