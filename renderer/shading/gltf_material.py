"""What glTF says of a surface at one point: the values of its material, after textures.

`Features` tells, for a whole scene, which parts of the model any of its materials uses. It is static: a kernel has no code for the
others, and a `MaterialPoint` has None in their place. Where a feature exists, materials that do not use it give its neutral value (in
brackets).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from renderer.vec import Scalar, Vec3


@dataclass(frozen=True)
class Features:
    """The parts of the material model that exist in a scene. KHR_materials_ior and _specular are values of every point, not features: they
    cost nothing where they are constants."""

    anisotropy: bool = False
    clearcoat: bool = False
    clearcoat_normal: bool = False  # with clearcoat
    sheen: bool = False
    transmission: bool = False
    volume: bool = False  # bodies, not panes only; light may be inside
    dispersion: bool = False  # with volume
    diffuse_transmission: bool = False
    iridescence: bool = False

    @property
    def through(self) -> bool:
        """Whether light may go through surfaces."""
        return self.transmission or self.diffuse_transmission

    def __post_init__(self) -> None:
        if self.clearcoat_normal and not self.clearcoat:
            raise ValueError("the feature clearcoat_normal needs clearcoat")
        if self.dispersion and not (self.transmission and self.volume):
            raise ValueError("the feature dispersion needs transmission and volume: light is dispersed where it enters a body")


class MaterialPoint(NamedTuple):
    """A material at a point. Numbers are Tensors of the lanes or Python floats, colours Vec3 of such, linear Rec.709, in [0, 1].

    roughness: perceptual, in [0, 1]. ior: 1 or more, or 0 for full reflection. specular_color: 0 or more. In brackets: neutral.
    """

    base_color: Vec3
    metallic: Scalar = 0.0
    roughness: Scalar = 1.0
    specular: Scalar = 1.0
    specular_color: Vec3 = Vec3(1.0, 1.0, 1.0)
    ior: Scalar = 1.5
    # anisotropy: strength in [0, 1] [0]; cosine and sine of its direction from the shading frame's x axis (texture and rotation in one)
    anisotropy: Any = None
    anisotropy_direction: tuple[Scalar, Scalar] | None = None
    # clearcoat: strength [0]; its roughness; its normal in the shading frame, unit length
    clearcoat: Any = None
    clearcoat_roughness: Any = None
    clearcoat_normal: Vec3 | None = None
    # sheen: colour [black]; its roughness
    sheen_color: Vec3 | None = None
    sheen_roughness: Any = None
    # transmission: the part of light that is not reflected that goes through [0]
    transmission: Any = None
    # volume: thickness in metres, of which only matters whether it is 0 (a pane) [0] or more (a body)
    thickness: Any = None
    glass: Any = None  # the table of `shading.glass`
    # dispersion: of the channel drawn (`transmission.disperse`), the index of refraction, and the weight of each channel of refracted light
    dispersed_ior: Any = None
    dispersed_tint: Vec3 | None = None
    # diffuse transmission: the part of the diffuse light that goes through [0], and its colour
    diffuse_transmission: Any = None
    diffuse_transmission_color: Vec3 | None = None
    # iridescence: strength [0]; index of the film, 1 or more; its thickness in nanometres
    iridescence: Any = None
    iridescence_ior: Any = None
    iridescence_thickness: Any = None
