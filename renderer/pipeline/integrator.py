"""The path tracer: radiance along camera rays.

Each turn of the loop follows one segment: it finds the nearest hit, adds what that emits, connects to a point on a light (next-event
estimation), and scatters. Emission found by scattering and light found by connecting are the same light seen twice; multiple
importance sampling with the power heuristic weighs the two (Veach and Guibas, "Optimally Combining Sampling Techniques", 1995).
`max_depth` counts segments from the camera: 2 is direct light. From the fifth segment on, Russian roulette ends paths by their
throughput.

Offsets: a hit point carries a rounding error of some units in the last place of the coordinates and distances that made it, those of
the triangle's corners from it among them: a floor of a kilometre is rounded as such wherever one stands on it. Rays that leave the
point start that far off the surface, whatever the scene's scale.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from engine import Tensor, cond, where, while_loop
from renderer.bvh.traverse import NOTHING
from renderer.sampling.rng import Rng
from renderer.scene.upload import SKY, SceneData
from renderer.shading.bsdf import Lambert
from renderer.shading.light import weight_of_connecting, weight_of_scattering
from renderer.vec import Ray, Vec3, basis_around, dot, greater, lesser, select

ROULETTE_DEPTH = 5  # the first segment that roulette may save
LAST_LIGHTS = 32  # up to this many emissive triangles the last segment looks for them alone
_OFFSET = 1e-6  # of the coordinates and distances involved: about 8 units in the last place
_FAR = 3.0e38


class Surface(NamedTuple):
    """Where a ray met the scene: geometric normal towards the ray's side, whether that is the front, the material's row."""

    point: Vec3
    normal: Vec3
    front: Tensor
    error: Tensor
    albedo: Vec3
    emission: Vec3
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


def surface_at(scene: SceneData, ray: Ray, t: Tensor, slot: Tensor) -> Surface:
    """What is known of a hit."""
    triangle = scene.slot[slot]
    n = Vec3(scene.triangle[triangle, 0], scene.triangle[triangle, 1], scene.triangle[triangle, 2])
    material = scene.triangle[triangle, 3].bitcast("int32")
    row = [scene.material[material, k] for k in range(8)]
    point = ray.at(t)
    front = dot(n, ray.direction) < 0
    reach = greater(_reach(point), greater(t, scene.triangle[triangle, 4]))
    emits = front | (row[3] > 0)
    return Surface(
        point,
        select(front, n, -n),
        front,
        reach * _OFFSET,
        Vec3(*row[0:3]),
        select(emits, Vec3(*row[4:7]), 0.0),
        where(emits, row[7], 0.0),
    )


def path_trace(scene: SceneData, ray: Ray, rng: Rng, max_depth: int) -> PathResult:
    """Radiance along camera rays (unit directions)."""
    zero = ray.direction.x * 0
    nothing = Vec3(zero, zero, zero)
    start = PathState(scene.bvh.approach(ray), nothing + 1.0, nothing, zero, rng, zero == 0, Tensor(1), Tensor(0), Tensor(0))

    def running(path: PathState) -> Tensor:
        alive: Tensor = path.alive
        return alive

    def step(path: PathState) -> PathState:
        if scene.bvh.form == "packet":
            hit = scene.bvh.closest(path.ray, _FAR)
        else:  # the camera's rays are alike, those that scattered are not
            from_camera = path.segment == 1
            hit = cond(from_camera, lambda: scene.bvh.closest_alike(path.ray, _FAR), lambda: scene.bvh.closest(path.ray, _FAR))

        def missed(path: PathState) -> PathState:
            seen = path.radiance + path.throughput * Vec3(*SKY) if scene.sky else path.radiance
            return path._replace(radiance=seen, alive=path.alive & False)

        def met(path: PathState) -> PathState:
            surface = surface_at(scene, path.ray, hit.t, hit.slot)
            path = path._replace(radiance=path.radiance + emitted(path, surface, hit.t))
            if short_cut:
                return scatter(scene, path, surface)
            return cond(path.segment < max_depth, lambda p: scatter(scene, p, surface), stop, path)  # type: ignore[no-any-return]

        path = path._replace(indirect_rays=path.indirect_rays + where(path.segment == 1, 0, 1))
        return cond(hit.slot == NOTHING, missed, met, path)  # type: ignore[no-any-return]

    def stop(path: PathState) -> PathState:
        return path._replace(alive=path.alive & False)

    short_cut = scene.lights is None or scene.lights.count <= LAST_LIGHTS

    def follow(path: PathState) -> PathState:
        if not short_cut:
            return step(path)
        return cond(path.segment < max_depth, step, lambda p: stop(last(scene, p)), path)  # type: ignore[no-any-return]

    end = while_loop(running, follow, start)
    return PathResult(end.radiance, end.rng, end.shadow_rays, end.indirect_rays)


def last(scene: SceneData, path: PathState) -> PathState:
    """The last segment, which can only add the light that it meets: no nearest hit is sought. The nearest light on the ray's way (or the
    sky) is, and if there is one, whether anything stands before it."""
    ray = path.ray

    def search(path: PathState, target: Ray, reach: Any, light: Vec3) -> PathState:
        blocked = scene.bvh.any(target, reach)
        traced = path.indirect_rays + where(path.segment == 1, 0, 1)
        return path._replace(radiance=path.radiance + select(blocked, 0.0 * light, light), indirect_rays=traced)

    if scene.lights is None:
        return search(path, ray, _FAR, path.throughput * Vec3(*SKY))
    lights = scene.lights
    t, light = lights.nearest(ray, _FAR)

    def met(path: PathState) -> PathState:
        n, radiance, density, two_sided, size = lights.at(light)
        facing = dot(n, ray.direction)
        cosine, point = facing.abs(), ray.at(t)
        weight = where(path.segment == 1, 1.0, weight_of_scattering(density, t * t, cosine, path.density))
        error = greater(greater(_reach(point), t), size) * _OFFSET
        end = point + n * where(facing < 0, error, -error)
        seen = select((facing < 0) | two_sided, path.throughput * radiance * weight, 0.0 * radiance)
        return search(path, Ray(ray.origin, end - ray.origin), 1.0, seen)

    return cond(light >= 0, met, lambda p: p, path)  # type: ignore[no-any-return]


def emitted(path: PathState, surface: Surface, t: Tensor) -> Vec3:
    """What a hit adds by its own light: weighed against finding it by light sampling, except from the camera."""
    cosine = dot(surface.normal, path.ray.direction).abs()
    weight = where(path.segment == 1, 1.0, weight_of_scattering(surface.light_density, t * t, cosine, path.density))
    return path.throughput * surface.emission * weight


def scatter(scene: SceneData, path: PathState, surface: Surface) -> PathState:
    """Light from a light, then the next direction."""
    bsdf = Lambert(surface.albedo)
    origin = surface.point + surface.normal * surface.error
    if scene.lights is not None:
        path = connect(scene, path, surface, bsdf, origin)
    sample, rng = bsdf.sample(path.rng)
    direction = basis_around(surface.normal).to_world(sample.wi)
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


def connect(scene: SceneData, path: PathState, surface: Surface, bsdf: Lambert, origin: Vec3) -> PathState:
    """Adds the light that a point on a light sends here, if nothing stands between."""
    assert scene.lights is not None
    light, rng = scene.lights.sample(path.rng)
    path = path._replace(rng=rng)
    reach = greater(_reach(light.point), light.size)
    away = light.point - surface.point
    facing = dot(light.normal, away)
    lit = (facing < 0) | light.two_sided
    side = where(facing < 0, reach * _OFFSET, -reach * _OFFSET)
    towards = light.point + light.normal * side - origin
    distance_squared = dot(towards, towards)
    direction = towards * (1.0 / distance_squared.sqrt())
    cosine = dot(surface.normal, direction)
    light_cosine = dot(light.normal, direction).abs()

    def visible(path: PathState) -> PathState:
        blocked = scene.bvh.any(Ray(origin, towards), 1.0)
        weight = weight_of_connecting(light.density, distance_squared, light_cosine, bsdf.density(cosine))
        seen = path.throughput * bsdf.f(cosine) * light.radiance * weight
        return path._replace(radiance=path.radiance + select(blocked, 0.0 * seen, seen), shadow_rays=path.shadow_rays + 1)

    return cond(lit & (cosine > 0) & (light_cosine > 1e-6), visible, lambda path: path, path)  # type: ignore[no-any-return]
