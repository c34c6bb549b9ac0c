"""One frame: the only place where the stages are put together.

`make_frame(settings)` gives the jitted function; its arguments are run-time data (scene, film, camera, numbers), `settings` is what
shapes the code. The frame's kernel traces the paths, adds them to the film in place, and writes the picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from engine import Device, Jitted, Tensor, arange, for_loop, jit, where
from renderer.pipeline.camera import CameraData
from renderer.pipeline.film import Film
from renderer.pipeline.integrator import path_trace
from renderer.pipeline.tonemap import rgba8
from renderer.sampling.rng import Rng
from renderer.scene.upload import SceneData
from renderer.vec import Vec3


@dataclass(frozen=True)
class FrameSettings:
    """What shapes the code of a frame. spp: samples a pixel a frame; max_depth: segments of a path; count: rays are counted."""

    spp: int = 1
    max_depth: int = 8
    count: bool = False


class Picture(NamedTuple):
    """`rgba`: uint32[height, width], red in the lowest byte. `rays`: int32[height, width] each (shadow, indirect), where counted."""

    rgba: Tensor
    rays: Any


def frame(
    scene: SceneData,
    film: Film,
    camera: CameraData,
    sample: int,
    seed: int,
    keep: bool,
    exposure: float,
    settings: FrameSettings,
) -> Picture:
    """Traces, accumulates, tone-maps. `sample`: number of samples a pixel that the film has; `keep`: False begins a new film."""
    height, width = film.refused.shape
    row, column = arange(height)[:, None], arange(width)[None, :]
    pixel = (row * Tensor.of(width) if not isinstance(width, int) else row * width) + column
    rows, columns = row.broadcast_to(pixel.shape), column.broadcast_to(pixel.shape)

    def one(index: Any, total: Vec3, refused: Tensor, shadow: Tensor, indirect: Tensor) -> tuple[Vec3, Tensor, Tensor, Tensor]:
        rng = Rng.start(pixel.cast("uint32"), sample + index, seed)
        ray, rng = camera.ray(columns, rows, _number(width), _number(height), rng)
        path = path_trace(scene, ray, rng, settings.max_depth)
        r = path.radiance
        good = (r.x + r.y + r.z).isfinite()
        colour = Vec3(*(where(good, c, 0.0) for c in r))
        return total + colour, refused + where(good, 0, 1), shadow + path.shadow_rays, indirect + path.indirect_rays

    zero = pixel * 0
    start = (Vec3(zero * 0.0, zero * 0.0, zero * 0.0), zero, zero, zero)
    if settings.spp == 1:
        colour, refused, shadow, indirect = one(0, *start)
    else:
        colour, refused, shadow, indirect = for_loop(settings.spp, one, start)
    total = film.accumulate(colour, refused, _flag(keep))
    count = (_flag(keep).where(_int(sample), 0) + settings.spp).cast("float32")
    rgba = rgba8(total * (1.0 / count), exposure)
    return Picture(rgba, (shadow, indirect) if settings.count else None)


def _number(size: Any) -> Any:
    return size if isinstance(size, int) else Tensor.of(size).cast("float32")


def _flag(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor(bool(value))


def _int(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor(int(value))


def make_frame(device: Device, workgroup: int | None = None) -> Jitted:
    """The jitted frame function on a device."""
    made: Jitted = jit(frame, static=("settings",), device=device, workgroup=workgroup)
    return made
