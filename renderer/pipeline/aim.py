"""The way from a point of a path to a light, chosen for it: what next-event estimation connects to.

A scene has one kind of light or several (`scene.light_tables`); of several one is chosen by a random number, so a point costs one shadow
ray. Whatever was chosen comes out in one form, `Towards`, so that what follows (the shadow ray, the surface's answer, the weights) is
written once, and stands once in the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine import Tensor, cond, where
from renderer.sampling.rng import Rng
from renderer.scene.upload import SceneData
from renderer.shading.corner_rows import between
from renderer.shading.light import Lights, LightSample, Towards
from renderer.shading.light_tree import Receiver
from renderer.shading.material_rows import Row
from renderer.shading.slots import Pictures
from renderer.vec import Vec3, dot, greater

_OFFSET = 1e-6  # of the coordinates and distances involved: about 8 units in the last place
_FARTHER = 2e-6  # where they go to the coordinates of a part and back

Origin = Callable[[Vec3], Vec3]


def reach_of(point: Vec3) -> Tensor:
    """The largest coordinate."""
    return greater(greater(point.x.abs(), point.y.abs()), point.z.abs())


def offset_of(scene: SceneData) -> float:
    """How far off a surface rays begin, of the coordinates and distances involved."""
    return _OFFSET if scene.bvh.top is None else _FARTHER


def connects(scene: SceneData) -> bool:
    """Whether there is anything to connect to."""
    return scene.lights is not None or scene.environment is not None or scene.punctual is not None


def aim(scene: SceneData, at: Receiver, both: bool, origin: Origin, rng: Rng) -> tuple[Towards, Rng]:
    """A light and the way to it from a point of a surface; both: light may reach it from behind; `origin`: where a ray begins there that
    leaves in a direction (of any length). The scene must have something to connect to."""
    kinds: list[tuple[Any, Callable[[Rng], tuple[Towards, Rng]]]] = []  # each with its bound of the number that chooses
    lights, environment, punctual = scene.lights, scene.environment, scene.punctual
    bound = (lambda k: scene.shares[k]) if scene.shares is not None else (lambda k: None)
    if lights is not None:
        kinds.append((bound(0), lambda rng: _lamp(scene, lights, at, both, origin, rng)))
    if environment is not None:
        kinds.append((bound(1), environment.sample))
    if punctual is not None:
        kinds.append((None, lambda rng: punctual.sample(at.point, rng)))
    if len(kinds) == 1:
        return kinds[0][1](rng)
    number, rng = rng.next()

    def whole(kind: Callable[[Rng], tuple[Towards, Rng]]) -> Callable[[Rng], tuple[Towards, Rng]]:
        def one(rng: Rng) -> tuple[Towards, Rng]:
            towards, rng = kind(rng)
            return (towards if punctual is None or towards.delta is not None else towards._replace(delta=Tensor(False))), rng

        return one

    chosen = whole(kinds[-1][1])
    for limit, kind in reversed(kinds[:-1]):
        chosen = _either(number < limit, whole(kind), chosen)
    return chosen(rng)


def _either(this: Tensor, kind: Any, other: Any) -> Callable[[Rng], tuple[Towards, Rng]]:
    return lambda rng: cond(this, kind, other, rng)


def _lamp(scene: SceneData, lights: Lights, at: Receiver, both: bool, origin: Origin, rng: Rng) -> tuple[Towards, Rng]:
    """The way to a point of an emissive triangle, up to a little in front of it."""
    light, rng = lights.sample(at, both, rng)
    reach = greater(reach_of(light.point), light.size)
    away = light.point - at.point
    facing = dot(light.normal, away)
    lit = (facing < 0) | light.two_sided
    off = offset_of(scene)
    side = where(facing < 0, reach * off, -reach * off)
    way = light.point + light.normal * side - origin(away)
    squared = dot(way, way)
    direction = way * (1.0 / squared.sqrt())
    radiance = light.radiance
    if scene.look.has("emissive_texture"):
        radiance = radiance * emissive_texture(scene, light)
    return Towards(way, 1.0, direction, radiance, light.density, squared, dot(light.normal, direction).abs(), lit), rng


def emissive_texture(scene: SceneData, light: LightSample) -> Vec3:
    """What the texture at a point of an emissive triangle leaves of its radiance."""
    assert scene.textures is not None and scene.corner is not None
    placing = scene.bvh.top.placings.place(light.placing()) if scene.bvh.top is not None else None
    place = between(scene.corners, scene.corner, light.triangle, light.point, placing)
    material = scene.triangle[light.triangle, 3].bitcast("int32")
    row = Row(scene.look, scene.material, material if placing is None else placing.material(material))
    return Pictures(scene.look.slots, row, place, scene.textures, None, None).colour("emissive_texture")
