"""The same scene drawn by Mitsuba and by us, and how far the two pictures are apart.

Pictures are compared by the means of blocks of 8 x 8 pixels, channel by channel. How far two means of the same thing lie apart by chance
is known, since each picture comes as several of equal worth. Three things are held against a tolerance, which is a part of the mean:

    the whole picture's mean        a third of the tolerance, beside five standard deviations
    each block's mean               three times the tolerance, beside five standard deviations
    all blocks' together            the tolerance: the mean square of the differences less what chance gives, its root

The first sees light that is lost or won everywhere, the second what is wrong in one place, the third what is wrong in many. A picture too
noisy to tell is a mistake of the test, and said to be. Five deviations: of 432 means, one picture in 4,000 fails by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renderer.scene import gltf_write
from renderer.scene.gltf import load
from renderer.scene.model import Float32s, Scene
from tests.peers.mitsuba_scene import Mitsuba, describe
from tests.renderer.helpers.pictures import render

Floats = NDArray[np.float64]
Expected = Callable[[Floats], Floats]  # from Mitsuba's picture to what ours should be, where formulas differ in a known way

BLOCK = 8
PASSES = 8
SIGMAS = 5.0


@dataclass(frozen=True)
class Agreement:
    """Relative differences; of channels the greatest. whole, worst: of the picture's means and of a block's, with and without what five
    standard deviations allow; typical: of all blocks; noise: standard deviation of a block's, the median."""

    whole: float
    whole_beyond: float
    worst: float
    worst_beyond: float
    typical: float
    noise: float

    def __str__(self) -> str:
        figures = (self.whole, self.whole_beyond, self.worst, self.worst_beyond, self.typical, self.noise)
        return "whole {:.2%} ({:.2%} beyond chance), worst block {:.2%} ({:.2%}), typical {:.2%}, noise {:.2%}".format(*figures)


@dataclass(frozen=True)
class Beside:
    """Draws scenes with both. spp: samples a pixel in all."""

    mitsuba: Mitsuba
    folder: Path
    size: int = 96
    spp: int = 512

    def pictures(self, scene: Scene, depth: int, **told: Any) -> tuple[Any, NDArray[np.float32]]:
        """Ours, read from the file that our writer makes of the scene; and theirs, float32[passes, h, w, 3]."""
        path = self.folder / "scene.glb"
        gltf_write.write(scene, path)
        read = replace(load(path, strict=True), environment=scene.environment)  # a picture of the surroundings is not kept in the file
        size = (self.size, self.size)
        describe(scene, self.folder, size=size, depth=depth, **told)
        self.mitsuba.load(self.folder)
        theirs = self.mitsuba.pictures(self.folder / "theirs.npy", self.spp // PASSES, PASSES, seed=100)
        return render(read, size, frames=PASSES, spp=self.spp // PASSES, depth=depth, seed=7), theirs

    def compare(self, scene: Scene, depth: int, tolerance: float, expected: Expected | None = None, **told: Any) -> Agreement:
        """Asserts that both agree to a part `tolerance` of each block's mean and a third of that for the whole picture, beside chance."""
        ours, theirs = self.pictures(scene, depth, **told)
        assert ours.refused == 0
        want = np.asarray(theirs, np.float64) if expected is None else np.stack([expected(one) for one in theirs.astype(np.float64)])
        found = agreement(ours.mean, ours.deviation, want)
        print(f"{found}; tolerance {tolerance:.2%}")
        assert found.noise < 2 * tolerance, f"too noisy to tell: {found}"
        assert found.whole_beyond < tolerance / 3, found
        assert found.worst_beyond < tolerance * 3, found
        assert found.typical < tolerance, found
        return found


def agreement(ours: Float32s, deviation: Floats, theirs: Floats, block: int = BLOCK) -> Agreement:
    """Of a picture float32[h, w, 3] with its standard deviation, and others of equal worth, [n, h, w, 3]; block: of how many pixels."""
    ours_blocks, theirs_blocks = means(ours.astype(np.float64), block), np.stack([means(one, block) for one in theirs])
    variance = means(deviation**2, block) / block**2 + theirs_blocks.var(0, ddof=1) / len(theirs)
    want = theirs_blocks.mean(0)
    scale = want + 0.02 * want.mean()  # where it is dark, what is bright may err into it
    sigma, apart = np.sqrt(variance), ours_blocks - want
    whole, whole_scale = np.abs(apart.mean((0, 1))), want.mean((0, 1))
    chance = SIGMAS * np.sqrt(variance.mean((0, 1)) / variance[..., 0].size)
    excess = _excess(apart / scale, sigma / scale)
    return Agreement(
        whole=float((whole / whole_scale).max()),
        whole_beyond=float((np.maximum(whole - chance, 0) / whole_scale).max()),
        worst=float((np.abs(apart) / scale).max()),
        worst_beyond=float((np.maximum(np.abs(apart) - SIGMAS * sigma, 0) / scale).max()),
        typical=float(np.sqrt(max(excess, 0.0))),
        noise=float(np.median(sigma / scale)),
    )


def _excess(apart: Floats, sigma: Floats) -> float:
    """The mean square of what chance does not explain, of channels the greatest; noisy blocks count for less. What chance explains is the
    variance, and three standard deviations of its own estimate (a squared normal variate of variance s^2 has the variance 2 s^4)."""
    certainty = 1 / np.maximum(sigma, max(float(np.median(sigma)), 1e-4)) ** 4
    explained = (sigma**2 * certainty).sum((0, 1)) + 3 * np.sqrt((2 * sigma**4 * certainty**2).sum((0, 1)))
    return float((((apart**2 * certainty).sum((0, 1)) - explained) / certainty.sum((0, 1))).max())


def means(picture: Floats, block: int = BLOCK) -> Floats:
    """float64[h / block, w / block, 3]; what is left over at the edges has no say."""
    h, w = picture.shape[0] // block, picture.shape[1] // block
    return np.asarray(picture[: h * block, : w * block].reshape(h, block, w, block, 3).mean((1, 3)))
