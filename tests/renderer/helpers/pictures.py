"""Frames of scenes, as arrays."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine import Device, Jitted
from renderer.bvh.traverse import Form
from renderer.pipeline.camera import camera_data
from renderer.pipeline.film import Films
from renderer.pipeline.frame import FrameSettings, Numbers, make_frame
from renderer.scene.framing import default_camera
from renderer.scene.model import Scene
from renderer.scene.upload import Uploaded, upload
from tests.renderer.helpers.tracing import device

Floats = NDArray[np.float32]


class Rendered(NamedTuple):
    """mean: float32[height, width, 3]; deviation: float64[height, width, 3], standard error of it, from the frames' spread; refused:
    samples that were left out; rgba: uint8[height, width, 4]; rays: (shadow, indirect) of the last frame where counted."""

    mean: Floats
    deviation: NDArray[np.float64]
    refused: int
    rgba: NDArray[np.uint8]
    rays: tuple[int, int] | None


@lru_cache(None)
def frame_function(on: Device, workgroup: int | None = None) -> Jitted:
    """The frame function on a device: one for all scenes, so that equal kernels are traced once."""
    return make_frame(on, workgroup)


def uploaded(scene: Scene, form: Form | None = None, group: int | None = None, backend: str = "cpu") -> Uploaded:
    """The scene in the form of tree that a device of this kind traverses."""
    width = 16 if backend == "reference" and group is None else device(backend, group).group_width
    return upload(scene, group=width, form=form)


def render(
    scene: Scene,
    size: tuple[int, int] = (16, 16),
    frames: int = 1,
    spp: int = 1,
    depth: int = 4,
    seed: int = 0,
    form: Form | None = None,
    group: int | None = None,
    backend: str = "cpu",
    threads: int = 1,
    workgroup: int | None = None,
    count: bool = False,
    data: Uploaded | None = None,
) -> Rendered:
    """Renders `frames` frames of `spp` samples a pixel from the scene's first camera (or the default one); size is (width, height)."""
    on = device(backend, group, threads)
    held = (data or uploaded(scene, form, group, backend)).data
    width, height = size
    camera = camera_data((scene.cameras or [default_camera(scene)])[0], width, height)
    film, picture = Films().of(width, height)
    run = frame_function(on, workgroup)
    settings = FrameSettings(spp > 1, count)
    before = np.zeros((height, width, 3), np.float64)
    squares = np.zeros_like(before)
    for k in range(frames):
        traced = run(held, film, picture, camera, Numbers(k * spp, k * spp, spp, depth, seed), settings)
        if frames > 1:
            total = film.total.numpy().astype(np.float64)
            squares += ((total - before) / spp) ** 2
            before = total
    mean = film.total.numpy() / np.float32(frames * spp)
    variance = np.maximum(squares / frames - mean.astype(np.float64) ** 2, 0)
    rays = tuple(int(r.numpy().astype(np.int64).sum()) for r in traced) if count else None
    rgba = picture.numpy().astype("<u4").view(np.uint8).reshape(height, width, 4).copy()
    return Rendered(
        mean, np.sqrt(variance / max(1, frames - 1)), int(film.refused.numpy().sum()), rgba, None if rays is None else (rays[0], rays[1])
    )


def blocks(picture: NDArray[np.floating], size: int = 8) -> NDArray[np.float64]:
    """Sums over the channels of the means of size x size blocks of pixels."""
    h, w = picture.shape[0] // size, picture.shape[1] // size
    cut = picture[: h * size, : w * size, :3].astype(np.float64)
    return np.asarray(cut.reshape(h, size, w, size, 3).mean((1, 3)).sum(-1))
