"""One frame: the only place where the stages are put together.

`make_frame` gives the jitted function. Its arguments are run-time data (scene, film, picture, camera, numbers), but for `settings`,
which are what shapes the code; so does the shading that the function was made with. The frame's kernel traces the paths, adds them to
the film in place, and writes the picture.
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
from renderer.shading.bsdf import MakeBSDF, make_bsdf
from renderer.vec import Vec3


@dataclass(frozen=True)
class FrameSettings:
    """What shapes the code of a frame. many: samples are taken in a loop, as many as `Numbers.spp` says (else one); count: rays are
    counted."""

    many: bool = False
    count: bool = False


@dataclass(frozen=True)
class Numbers:
    """The numbers of a frame. first: that of its first sample in each pixel's stream of them; gathered: samples a pixel that the film has
    (0: it begins anew); max_depth: segments of a path; tonemapper: place in TONEMAPPERS."""

    first: Any = 0
    gathered: Any = 0
    spp: Any = 1
    max_depth: Any = 8
    seed: Any = 0
    exposure: Any = 1.0
    tonemapper: Any = 0


class Rays(NamedTuple):
    """int32[height, width] each: rays of the frame."""

    shadow: Tensor
    indirect: Tensor


def frame(
    scene: SceneData, film: Film, picture: Tensor, camera: CameraData, numbers: Numbers, settings: FrameSettings, shading: MakeBSDF
) -> Rays | None:
    """Traces, accumulates, and tone-maps into `picture` (uint32[height, width], red in the lowest byte). Returns rays where counted."""
    height, width = film.refused.shape
    row, column = arange(height)[:, None], arange(width)[None, :]
    pixel = (row * Tensor.of(width) if not isinstance(width, int) else row * width) + column
    rows, columns = row.broadcast_to(pixel.shape), column.broadcast_to(pixel.shape)

    cone = camera.cone(_number(height)) if scene.textures is not None else None

    def one(index: Any, total: Vec3, refused: Tensor, shadow: Tensor, indirect: Tensor) -> tuple[Vec3, Tensor, Tensor, Tensor]:
        rng = Rng.start(pixel.cast("uint32"), numbers.first + index, numbers.seed)
        ray, rng = camera.ray(columns, rows, _number(width), _number(height), rng)
        path = path_trace(scene, ray, rng, numbers.max_depth, shading, cone)
        r = path.radiance
        good = (r.x + r.y + r.z).isfinite()
        colour = Vec3(*(where(good, c, 0.0) for c in r))
        return total + colour, refused + where(good, 0, 1), shadow + path.shadow_rays, indirect + path.indirect_rays

    zero = pixel * 0
    start = (Vec3(zero * 0.0, zero * 0.0, zero * 0.0), zero, zero, zero)
    spp = numbers.spp if settings.many else 1
    colour, refused, shadow, indirect = for_loop(spp, one, start) if settings.many else one(0, *start)
    total = film.accumulate(colour, refused, numbers.gathered > 0)
    count = (numbers.gathered + spp).cast("float32")
    picture.assign(rgba8(total * (1.0 / count), numbers.exposure, numbers.tonemapper))
    return Rays(shadow, indirect) if settings.count else None


def _number(size: Any) -> Any:
    return size if isinstance(size, int) else Tensor.of(size).cast("float32")


def make_frame(device: Device, workgroup: int | None = None, shading: MakeBSDF = make_bsdf) -> Jitted:
    """The jitted frame function on a device: (scene, film, picture, camera, numbers, settings) as `frame` takes them."""

    def shaded(
        scene: SceneData, film: Film, picture: Tensor, camera: CameraData, numbers: Numbers, settings: FrameSettings
    ) -> Rays | None:
        return frame(scene, film, picture, camera, numbers, settings, shading)

    made: Jitted = jit(shaded, static=("settings",), name="frame", device=device, workgroup=workgroup)
    return made
