"""glTF's BSDF over arrays: materials as keywords, directions as float64[n, 3]; and integrals over the sphere.

Every test uses one of two sets of features, of which the kernels are compiled once: none, and all. With all, what a material does not
name has its neutral value.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine import Jitted, Tensor, jit
from renderer.sampling.rng import Rng
from renderer.shading.glass import glass_table
from renderer.shading.gltf_bsdf import gltf_bsdf
from renderer.shading.gltf_material import Features, MaterialPoint
from renderer.vec import Vec3
from tests.renderer.helpers.tracing import device

Floats = NDArray[np.float64]

PLAIN = Features()
ALL = Features(
    anisotropy=True,
    clearcoat=True,
    clearcoat_normal=True,
    sheen=True,
    transmission=True,
    volume=True,
    dispersion=True,
    diffuse_transmission=True,
    iridescence=True,
)
_COMMON: dict[str, Any] = {
    "base_color": (1, 1, 1),
    "metallic": 0,
    "roughness": 1,
    "specular": 1,
    "specular_color": (1, 1, 1),
    "ior": 1.5,
}
_NEUTRAL: dict[str, Any] = {
    "anisotropy": 0,
    "anisotropy_direction": (1, 0),
    "clearcoat": 0,
    "clearcoat_roughness": 0,
    "clearcoat_normal": (0, 0, 1),
    "sheen_color": (0, 0, 0),
    "sheen_roughness": 0,
    "transmission": 0,
    "thickness": 0,
    "dispersed_tint": (1, 1, 1),
    "diffuse_transmission": 0,
    "diffuse_transmission_color": (1, 1, 1),
    "iridescence": 0,
    "iridescence_ior": 1.3,
    "iridescence_thickness": 400,
}


class Drawn(NamedTuple):
    """Samples: wi float64[n, 3], density [n], weight [n, 3], through bool[n]."""

    wi: Floats
    density: Floats
    weight: Floats
    through: NDArray[np.bool_]


def material(features: Features, count: int, **values: Any) -> MaterialPoint:
    """The values of a material at `count` points; each is one value, or an array of them."""
    values = {**_COMMON, **({} if features == PLAIN else {**_NEUTRAL, "dispersed_ior": values.get("ior", 1.5)}), **values}
    given: dict[str, Any] = {}
    for name, value in values.items():
        array = np.asarray(value, np.float32)
        if isinstance(_NEUTRAL.get(name, _COMMON.get(name)), tuple):
            wide = np.broadcast_to(array if array.ndim else np.full(3, array), (count, array.shape[-1] if array.ndim else 3))
            columns = [Tensor(np.ascontiguousarray(wide[:, k])) for k in range(wide.shape[1])]
            given[name] = tuple(columns) if name == "anisotropy_direction" else Vec3(*columns)
        else:
            given[name] = Tensor(np.ascontiguousarray(np.broadcast_to(array, (count,))))
    if features.volume:
        given["glass"] = Tensor(glass_table(), dims=("glass",))
    return MaterialPoint(**given)


def directions(*arrays: ArrayLike) -> Floats:
    """Of polar and azimuthal angles (radians)."""
    polar, azimuth = np.broadcast_arrays(*(np.asarray(a, float) for a in arrays))
    return np.stack([np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar)], -1)


def seen_from(cosine: float, count: int, azimuth: float = 0.3) -> Floats:
    """One direction, many times."""
    return np.tile(directions(np.arccos(cosine), azimuth), (count, 1))


def _vec3(array: Floats) -> Vec3:
    return Vec3(*(Tensor(np.ascontiguousarray(array[:, k], np.float32)) for k in range(3)))


def _numpy(value: Vec3) -> Floats:
    return np.stack([c.numpy() for c in value], 1).astype(np.float64)


def _evaluate(point: MaterialPoint, features: Features, wo: Vec3, outside: Tensor, wi: Vec3) -> Any:
    return gltf_bsdf(point, features, wo, outside > 0).evaluate(wi)


def _sample(point: MaterialPoint, features: Features, wo: Vec3, outside: Tensor, lane: Tensor, seed: int) -> Any:
    drawn, _ = gltf_bsdf(point, features, wo, outside > 0).sample(Rng.start(lane, 0, seed))
    zero = lane.cast("float32") * 0
    return drawn._replace(
        through=drawn.wi.z != drawn.wi.z if drawn.through is None else drawn.through,
        weight=drawn.weight + zero,
    )


@lru_cache(None)
def _jitted() -> tuple[Jitted, Jitted]:
    return jit(_evaluate, static=("features",), device=device()), jit(_sample, static=("features",), device=device())


def evaluate(wo: Floats, wi: Floats, features: Features = PLAIN, outside: ArrayLike = 1, **values: Any) -> tuple[Floats, Floats]:
    """f [n, 3] and density [n] for pairs of directions."""
    count = len(wo)
    side = Tensor(np.broadcast_to(np.asarray(outside, np.float32), (count,)).copy())
    f, density = _jitted()[0](material(features, count, **values), features, _vec3(wo), side, _vec3(wi))
    return _numpy(f), density.numpy().astype(np.float64)


def sample(wo: Floats, features: Features = PLAIN, outside: ArrayLike = 1, seed: int = 1, **values: Any) -> Drawn:
    """One sample for each direction."""
    count = len(wo)
    side = Tensor(np.broadcast_to(np.asarray(outside, np.float32), (count,)).copy())
    lanes = Tensor(np.arange(count, dtype=np.uint32))
    s = _jitted()[1](material(features, count, **values), features, _vec3(wo), side, lanes, seed)
    return Drawn(_numpy(s.wi), s.density.numpy().astype(float), _numpy(s.weight), s.through.numpy().astype(bool))


def cells(rows: int, columns: int, fine: int) -> Floats:
    """The middles of fine x fine parts of each of rows x columns equal cells of the sphere: float64[rows, columns, fine^2, 3]."""
    z = 1 - 2 * (np.arange(rows * fine) + 0.5) / (rows * fine)
    azimuth = 2 * np.pi * (np.arange(columns * fine) + 0.5) / (columns * fine)
    grid = directions(np.arccos(z)[:, None], azimuth[None, :])
    return grid.reshape(rows, fine, columns, fine, 3).transpose(0, 2, 1, 3, 4).reshape(rows, columns, fine * fine, 3)


def cell_of(wi: Floats, rows: int, columns: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The cells that directions lie in."""
    row = np.clip(((1 - wi[:, 2]) / 2 * rows).astype(int), 0, rows - 1)
    column = (np.arctan2(wi[:, 1], wi[:, 0]) % (2 * np.pi) / (2 * np.pi) * columns).astype(int) % columns
    return row.astype(np.intp), column.astype(np.intp)
