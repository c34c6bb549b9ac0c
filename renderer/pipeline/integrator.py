"""The path tracer: radiance along camera rays.

Each turn of the loop follows one segment: it finds the nearest hit, adds what that emits, connects to a point on a light (next-event
estimation), and scatters. Emission found by scattering and light found by connecting are the same light seen twice; multiple
importance sampling with the power heuristic weighs the two (Veach and Guibas, "Optimally Combining Sampling Techniques", 1995).
`max_depth` counts segments from the camera: 2 is direct light. From the fifth segment on, Russian roulette ends paths by their
throughput. Where lights are few, the last segment comes after the loop, with less to do (`last`).

Offsets: a hit point carries a rounding error of some units in the last place of the coordinates and distances that made it, those of
the triangle's corners from it among them: a floor of a kilometre is rounded as such wherever one stands on it. Rays that leave the
point start that far off the surface, whatever the scene's scale.

The sky is found by scattering alone, with the weight 1: it is no light that is connected to, so nothing is counted twice beside lamps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from engine import Tensor, cond, where, while_loop
from renderer.bvh.traverse import NOTHING
from renderer.sampling.rng import Rng
from renderer.scene.upload import SceneData
from renderer.shading.bsdf import BSDF, MakeBSDF, Surface
from renderer.shading.light import weight_of_connecting, weight_of_scattering
from renderer.vec import Basis, Ray, Vec3, basis_around, dot, greater, lesser, select

ROULETTE_DEPTH = 5  # the first segment that roulette may save
_OFFSET = 1e-6  # of the coordinates and distances involved: about 8 units in the last place
_FAR = 3.0e38


class Met(NamedTuple):
    """What a ray met: the surface and its shading frame, how far off it rays begin, the density by area of connecting to its light."""

    surface: Surface
    basis: Basis
    error: Tensor
    light_density: Tensor


class PathState(NamedTuple):
    """A path on its way: the next ray, what it carries, what it has gathered; `density` is that of the last scattering."""

    ray: Ray
    throughput: Vec3
    radiance: Vec3
    density: Any
    rng: Rng
    alive: Any
    segment: Any
    shadow_rays: Any
    indirect_rays: Any


class PathResult(NamedTuple):
    """Radiance in W/(sr m2), the stream after the path, and rays used."""

    radiance: Vec3
    rng: Rng
    shadow_rays: Tensor
    indirect_rays: Tensor


def _reach(point: Vec3) -> Tensor:
    """The largest coordinate."""
    return greater(greater(point.x.abs(), point.y.abs()), point.z.abs())


def meet(scene: SceneData, ray: Ray, t: Tensor, slot: Tensor) -> Met:
    """What is known of a hit."""
    triangle = scene.bvh.triangle(slot)
    n = Vec3(scene.triangle[triangle, 0], scene.triangle[triangle, 1], scene.triangle[triangle, 2])
    material = scene.triangle[triangle, 3].bitcast("int32")
    row = [scene.material[material, k] for k in range(8)]
    point = ray.at(t)
    front = dot(n, ray.direction) < 0
    reach = greater(_reach(point), greater(t, scene.triangle[triangle, 4]))
    emits = front | (row[3] > 0)
    basis = basis_around(select(front, n, -n))
    surface = Surface(
        point, basis.n, front, basis.to_local(-ray.direction), Vec3(*row[0:3]), select(emits, Vec3(*row[4:7]), 0.0)
    )
    return Met(surface, basis, reach * _OFFSET, where(emits, row[7], 0.0))


def path_trace(scene: SceneData, ray: Ray, rng: Rng, max_depth: Any, make_bsdf: MakeBSDF) -> PathResult:
    """Radiance along camera rays (unit directions) by paths of at most `max_depth` segments; `make_bsdf`: how surfaces scatter."""
    zero = ray.direction.x * 0
    nothing = Vec3(zero, zero, zero)
    start = PathState(scene.bvh.approach(ray), nothing + 1.0, nothing, zero, rng, zero == 0, Tensor(1), Tensor(0), Tensor(0))

    short_cut = scene.lights is None or scene.lights.few

    def running(path: PathState) -> Tensor:
        alive: Tensor = path.alive & (path.segment < max_depth) if short_cut else path.alive
        return alive

    def step(path: PathState) -> PathState:
        if scene.bvh.form != "serial":
            hit = scene.bvh.closest(path.ray, _FAR)
        else:  # the camera's rays are alike, those that scattered are not
            from_camera = path.segment == 1
            hit = cond(from_camera, lambda: scene.bvh.closest_alike(path.ray, _FAR), lambda: scene.bvh.closest(path.ray, _FAR))

        def missed(path: PathState) -> PathState:
            seen = path.radiance + path.throughput * sky(scene) if scene.sky is not None else path.radiance
            return path._replace(radiance=seen, alive=path.alive & False)

        def found(path: PathState) -> PathState:
            met = meet(scene, path.ray, hit.t, hit.slot)
            path = path._replace(radiance=path.radiance + emitted(path, met, hit.t))
            if short_cut:
                return scatter(scene, path, met, make_bsdf(met.surface))
            go_on = path.segment < max_depth
            return cond(go_on, lambda p: scatter(scene, p, met, make_bsdf(met.surface)), stop, path)  # type: ignore[no-any-return]

        path = path._replace(indirect_rays=path.indirect_rays + where(path.segment == 1, 0, 1))
        return cond(hit.slot == NOTHING, missed, found, path)  # type: ignore[no-any-return]

    def stop(path: PathState) -> PathState:
        return path._replace(alive=path.alive & False)

    end = while_loop(running, step, start)
    if short_cut:
        end = cond(end.alive, lambda path: last(scene, path), lambda path: path, end)
    return PathResult(end.radiance, end.rng, end.shadow_rays, end.indirect_rays)


def sky(scene: SceneData) -> Vec3:
    """Radiance of the sky."""
    return Vec3(*(scene.sky[k] for k in range(3)))


class Seen(NamedTuple):
    """Light on a ray's way: it arrives unless something stands on `way` before `reach`."""

    way: Ray
    reach: Any
    light: Vec3


def last(scene: SceneData, path: PathState) -> PathState:
    """The last segment, which can only add the light that it meets: no nearest hit is sought. The nearest light on the ray's way (or the
    sky) is, and if there is one, whether anything stands before it."""
    ray = path.ray

    def search(path: PathState, seen: Seen) -> PathState:
        blocked = scene.bvh.any(seen.way, seen.reach)
        traced = path.indirect_rays + where(path.segment == 1, 0, 1)
        return path._replace(radiance=path.radiance + select(~blocked, seen.light, 0.0), indirect_rays=traced)

    def outside() -> Seen:
        return Seen(ray, _FAR, path.throughput * sky(scene))

    if scene.lights is None:
        return search(path, outside())
    lights = scene.lights
    t, light = lights.nearest(ray, _FAR)

    def lamp() -> Seen:
        n, radiance, density, two_sided, size = lights.at(light)
        facing = dot(n, ray.direction)
        cosine, point = facing.abs(), ray.at(t)
        weight = where(path.segment == 1, 1.0, weight_of_scattering(density, t * t, cosine, path.density))
        error = greater(greater(_reach(point), t), size) * _OFFSET
        end = point + n * where(facing < 0, error, -error)
        seen = select((facing < 0) | two_sided, path.throughput * radiance * weight, 0.0)
        return Seen(Ray(ray.origin, end - ray.origin), 1.0, seen)

    if scene.sky is None:
        return cond(light >= 0, lambda p: search(p, lamp()), lambda p: p, path)  # type: ignore[no-any-return]
    return search(path, cond(light >= 0, lamp, outside))


def emitted(path: PathState, met: Met, t: Tensor) -> Vec3:
    """What a hit adds by its own light: weighed against finding it by light sampling, except from the camera."""
    cosine = dot(met.surface.normal, path.ray.direction).abs()
    weight = where(path.segment == 1, 1.0, weight_of_scattering(met.light_density, t * t, cosine, path.density))
    return path.throughput * met.surface.emission * weight


def scatter(scene: SceneData, path: PathState, met: Met, bsdf: BSDF) -> PathState:
    """Light from a light, then the next direction."""
    origin = met.surface.point + met.surface.normal * met.error
    if scene.lights is not None:
        path = connect(scene, path, met, bsdf, origin)
    sample, rng = bsdf.sample(path.rng)
    direction = met.basis.to_world(sample.wi)
    throughput = path.throughput * sample.weight

    def roulette(throughput: Vec3, rng: Rng) -> tuple[Vec3, Rng, Tensor]:
        survives, rng = rng.next()
        chance = lesser(throughput.max_component(), 0.95)
        return throughput * (1.0 / greater(chance, 1e-6)), rng, survives < chance

    def goes_on(throughput: Vec3, rng: Rng) -> tuple[Vec3, Rng, Tensor]:
        return throughput, rng, throughput.x == throughput.x

    late = path.segment >= ROULETTE_DEPTH - 1
    throughput, rng, survived = cond(late, roulette, goes_on, throughput, rng)
    alive = path.alive & survived & (throughput.max_component() > 0)
    return path._replace(
        ray=Ray(origin, direction),
        throughput=throughput,
        density=sample.density,
        rng=rng,
        alive=alive,
        segment=path.segment + 1,
    )


def connect(scene: SceneData, path: PathState, met: Met, bsdf: BSDF, origin: Vec3) -> PathState:
    """Adds the light that a point on a light sends here, if nothing stands between."""
    assert scene.lights is not None
    light, rng = scene.lights.sample(path.rng)
    path = path._replace(rng=rng)
    reach = greater(_reach(light.point), light.size)
    away = light.point - met.surface.point
    facing = dot(light.normal, away)
    lit = (facing < 0) | light.two_sided
    side = where(facing < 0, reach * _OFFSET, -reach * _OFFSET)
    towards = light.point + light.normal * side - origin
    distance_squared = dot(towards, towards)
    direction = towards * (1.0 / distance_squared.sqrt())
    wi = met.basis.to_local(direction)
    light_cosine = dot(light.normal, direction).abs()

    def visible(path: PathState) -> PathState:
        blocked = scene.bvh.any(Ray(origin, towards), 1.0)
        weight = weight_of_connecting(light.density, distance_squared, light_cosine, bsdf.density(wi))
        seen = path.throughput * bsdf.f(wi) * light.radiance * weight
        return path._replace(radiance=path.radiance + select(~blocked, seen, 0.0), shadow_rays=path.shadow_rays + 1)

    return cond(lit & (wi.z > 0) & (light_cosine > 1e-6), visible, lambda path: path, path)  # type: ignore[no-any-return]
