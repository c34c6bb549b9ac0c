"""How many pixels to trace while the camera moves, so that a frame takes what the user asked for.

At rest the picture has its full resolution and gathers samples for as long as it takes. While something moves, each frame begins anew,
and a late frame is worse than a coarse one: the resolution is lowered until a frame fits the target. The cost of a pixel is learnt from
the frames that were drawn, whatever their size; from it follows the scale that would meet the target. Scales are taken from a ladder
and changed only when they are off by a whole rung, so that the picture does not shimmer between two sizes, and coarser ones are taken up
at once but finer ones only after a while of good frames.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

LADDER: tuple[float, ...] = tuple(0.5 ** (k / 2) for k in range(9))  # of width and height: 1, 0.71, 0.5 ... 0.0625
REST_AFTER = 0.25  # seconds without movement after which the picture has its full resolution again
FINER_AFTER = 0.5  # seconds at one scale before a finer one is tried
LEARNING = 0.3  # weight of the latest frame in the cost of a pixel


@dataclass
class Pacing:
    """Learns from `drawn`, is told of movement by `moved`, and says the `scale`. Times are seconds of one clock, sizes pixels."""

    ms_per_pixel: float | None = None  # None: nothing is known yet, or not any more
    moving_until: float = field(default=-math.inf)
    rung: int = 0
    changed_at: float = field(default=-math.inf)

    def moved(self, now: float) -> None:
        """The camera, or something else that makes every frame begin anew, is moving at this time."""
        self.moving_until = now + REST_AFTER

    def moving(self, now: float) -> bool:
        """Whether it moves still."""
        return now < self.moving_until

    def rest(self) -> None:
        """It has come to rest."""
        self.moving_until = -math.inf

    def drawn(self, ms: float, pixels: int) -> None:
        """A frame of so many pixels took so long."""
        cost = ms / max(pixels, 1)
        known = self.ms_per_pixel
        self.ms_per_pixel = cost if known is None else known + LEARNING * (cost - known)

    def scale(self, now: float, full: tuple[int, int], target_ms: float | None, rest: float) -> float:
        """The scale of width and height for the next frame: `rest` when nothing moves or there is no target, else coarser if need be."""
        if not self.moving(now) or target_ms is None or self.ms_per_pixel is None:
            return rest
        pixels = full[0] * full[1] * rest * rest
        fitting = math.sqrt(target_ms / max(self.ms_per_pixel * pixels, 1e-9))
        wanted = next((k for k, rung in enumerate(LADDER) if rung <= fitting), len(LADDER) - 1)
        if wanted > self.rung or (wanted < self.rung and now - self.changed_at > FINER_AFTER):
            self.rung, self.changed_at = wanted, now
        return rest * LADDER[self.rung]


def size_at(full: tuple[int, int], scale: float) -> tuple[int, int]:
    """The picture's size, width and height in pixels, at a scale of the framebuffer's size; at least one pixel."""
    return max(1, round(full[0] * scale)), max(1, round(full[1] * scale))
