"""Pictures on surfaces, in glTF's terms: images, the textures that sample them, and how a material refers to those.

Three things that are often mixed up are apart here. An `Image` is a file that somebody made: its bytes or its place, not its pixels;
`renderer.scene.pictures` decodes those when a renderer wants them. A `Texture` is an image with the rules of sampling it. A
`TextureRef` is one slot of one material: which texture, by which set of coordinates, moved how (KHR_texture_transform), and how strongly.

The point (0, 0) of a texture is the upper left corner of its first pixel, v grows downwards. Colours (base colour, emission, specular,
sheen, attenuation) are stored through the sRGB curve, all other channels are linear: the slot decides, not the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Filter = Literal["nearest", "linear"]
Wrap = Literal["repeat", "mirror", "clamp"]
Recipe = Literal["", "bump", "glossiness", "coverage", "roughness", "shininess", "metalness"]


@dataclass(frozen=True, eq=False)
class Image:
    """A picture file: `source` is its bytes or the file they are in, None where neither is to be had (a placeholder is drawn).

    `at` is the place in the scene file that names it, for warnings. `recipe` is how the picture comes from the file: as it is, or as
    `renderer.scene.recipes` makes it, of `amount` and perhaps of a `second` file; `picks`: the channels of the two that it takes.
    """

    name: str
    source: bytes | memoryview | Path | None
    at: str
    recipe: Recipe = ""
    amount: float = 1.0
    second: Path | None = None
    picks: str = "ll"


@dataclass(frozen=True)
class Texture:
    """An image and how it is sampled. `image` indexes `Scene.images`, None where the file names none that can be used.

    `mip` is the filter between levels of detail, None where only the picture itself is sampled.
    """

    image: int | None
    mag: Filter = "linear"
    min: Filter = "linear"
    mip: Filter | None = "linear"
    wrap_s: Wrap = "repeat"
    wrap_t: Wrap = "repeat"
    name: str = ""


@dataclass(frozen=True)
class TextureRef:
    """One slot of a material: `texture` indexes `Scene.textures`, `texcoord` is the set of coordinates.

    `offset`, `rotation` (radians) and `scale` move the coordinates; `strength` is the scale of a normal map's x and y, the strength of an
    occlusion map, and 1 elsewhere.
    """

    texture: int
    texcoord: int = 0
    offset: tuple[float, float] = (0.0, 0.0)
    rotation: float = 0.0
    scale: tuple[float, float] = (1.0, 1.0)
    strength: float = 1.0

    @property
    def matrix(self) -> NDArray[np.float64]:
        """float64[2, 3] that takes (u, v, 1) to the place in the texture: scaled, then turned, then moved.

        A positive angle turns the coordinates anticlockwise as one looks at the picture, whose v axis points down; so the picture is
        seen turned clockwise.
        """
        sine, cosine = math.sin(self.rotation), math.cos(self.rotation)
        turned = np.array([[cosine, sine], [-sine, cosine]]) * self.scale
        return np.concatenate([turned, np.array(self.offset)[:, None]], 1)
