"""The path tracer: radiance along camera rays.

Each turn of the loop follows one segment: it finds the nearest hit, adds what that emits, connects to a point on a light (next-event
estimation), and scatters. Emission found by scattering and light found by connecting are the same light seen twice; multiple
importance sampling with the power heuristic weighs the two (Veach and Guibas, "Optimally Combining Sampling Techniques", 1995).
`max_depth` counts segments from the camera: 2 is direct light. From the fifth segment on, Russian roulette ends paths by their
throughput. Where lights are few, the last segment comes after the loop, with less to do (`last`).

Offsets: a hit point carries a rounding error of some units in the last place of the coordinates and distances that made it, those of
the triangle's corners from it among them: a floor of a kilometre is rounded as such wherever one stands on it. Rays that leave the
point start that far off the surface, whatever the scene's scale.

From smooth surfaces rays begin above the triangle, on the curved surface that it stands for (`Between.lift`), so that where day ends is
where that turns away from the light, not its triangles. It costs no light, rather less is lost; rays that leave for a place do not meet
those that come from it, which have no lift, so that long paths are not quite the same both ways. Where there is no such place, as in
hollows and through bodies, light for which the shading normal and the triangle's own disagree on which side of the surface it is does not
exist, else it would leak through.

Surfaces have two sides, as things do, whether their files say so or not: many files have faces the wrong way round, of which a
rasterizer shows the inside and a path tracer would show nothing but shadow. In a scene that is culled (glTF's doubleSided) what has but a
front is not there for rays that come from its back, whatever the rays are for. One looks into a room through walls that face inward, and
it stays as dark as it is: what is inside sees the walls, and is lit by what it sees.

Where the materials of the scene ask for it, a path also knows the medium that it is in, by which light fades on the way (`medium`), and
the channel that dispersion has left of it (`channel`); a scene without has no such state.

Where lights are many, connecting chooses among them by the place that they are wanted for. To weigh light that scattering has found a
path then keeps where it scattered last (`receiver`); other scenes have no such state.

A sky of one colour is found by scattering alone, with the weight 1: it is no light that is connected to, so nothing is counted twice
beside lamps. A picture of the surroundings is one, and weighed as lamps are; punctual lights no scattering finds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from engine import Tensor, cond, where, while_loop
from renderer.bvh.traverse import NOTHING
from renderer.pipeline.aim import aim, connects, offset_of, reach_of
from renderer.pipeline.meet import Met, Veil, light_of, meet, veil
from renderer.sampling.rng import Rng
from renderer.scene.upload import SceneData
from renderer.shading.bsdf import BSDF, MakeBSDF, evaluated, lets_through
from renderer.shading.gltf_bsdf import GltfBsdf
from renderer.shading.light import FAR, weight_of_connecting, weight_of_scattering
from renderer.shading.light_tree import Receiver
from renderer.shading.texture import RayCone
from renderer.shading.transmission import WHITE, disperse, transmittance
from renderer.vec import Ray, Vec3, dot, greater, lesser, select

ROULETTE_DEPTH = 5  # the first segment that roulette may save
_WIDENING = 0.1


class PathState(NamedTuple):
    """A path on its way: the next ray, what it carries, what it has gathered; `density` is that of the last scattering. `medium`: the
    extinction of what it is in, 1/m, 0 outside; `channel`: the one that dispersion has left; `travelled`: metres since that scattering, to
    where it passed a surface last; `cone`: its width, for textures. They are None where materials have no such. `receiver`: where that
    scattering was, None where lights are few."""

    ray: Ray
    throughput: Vec3
    radiance: Vec3
    density: Any
    rng: Rng
    alive: Any
    segment: Any
    shadow_rays: Any
    indirect_rays: Any
    medium: Vec3 | None = None
    channel: Any = None
    travelled: Any = None
    cone: RayCone | None = None
    receiver: Receiver | None = None


class PathResult(NamedTuple):
    """Radiance in W/(sr m2), the stream after the path, and rays used."""

    radiance: Vec3
    rng: Rng
    shadow_rays: Tensor
    indirect_rays: Tensor


def path_trace(
    scene: SceneData, ray: Ray, rng: Rng, max_depth: Any, make_bsdf: MakeBSDF, cone: RayCone | None = None
) -> PathResult:
    """Radiance along camera rays (unit directions) by paths of at most `max_depth` segments; `make_bsdf`: how surfaces scatter; `cone`: the
    width of the rays (None: textures are seen at their finest)."""
    zero = ray.direction.x * 0
    nothing = Vec3(zero, zero, zero)
    start = PathState(scene.bvh.approach(ray), nothing + 1.0, nothing, zero, rng, zero == 0, Tensor(1), Tensor(0), Tensor(0))
    layers = scene.look.layers
    if cone is not None and scene.textures is not None:
        moved = start.ray.origin - ray.origin
        start = start._replace(cone=RayCone(zero + cone.width, zero + cone.spread).after(dot(moved, ray.direction)))
    if scene.look.alpha:
        start = start._replace(travelled=zero)
    start = start._replace(medium=nothing if layers.volume else None, channel=Tensor(WHITE) if layers.dispersion else None)

    if scene.lights is not None and scene.lights.tree is not None:
        start = start._replace(receiver=Receiver(nothing, nothing))

    short_cut = (scene.lights is None or scene.lights.few) and scene.look.lamps_are_plain

    def running(path: PathState) -> Tensor:
        alive: Tensor = path.alive & (path.segment < max_depth) if short_cut else path.alive
        return alive

    def step(path: PathState) -> PathState:
        if scene.bvh.form != "serial":
            hit = scene.bvh.closest(path.ray, FAR)
        else:  # the camera's rays are alike, those that scattered are not
            from_camera = path.segment == 1
            hit = cond(from_camera, lambda: scene.bvh.closest_alike(path.ray, FAR), lambda: scene.bvh.closest(path.ray, FAR))

        def missed(path: PathState) -> PathState:
            seen = path.radiance + path.throughput * outside(scene, path) if surrounded(scene) else path.radiance
            return path._replace(radiance=seen, alive=path.alive & False)

        def found(path: PathState) -> PathState:
            if path.cone is not None:
                path = path._replace(cone=path.cone.after(hit.t))
            at = veil(scene, path.ray, hit, path.cone)
            if path.medium is not None:
                path = path._replace(throughput=path.throughput * transmittance(path.medium, hit.t))
            if at.opacity is None:
                return shade(path, at, hit.t)
            u, rng = path.rng.next()
            path = path._replace(rng=rng, travelled=path.travelled + hit.t)
            return cond(u < at.opacity, lambda p: shade(p, at, p.travelled), lambda p: passed(p, at), path)  # type: ignore[no-any-return]

        def shade(path: PathState, at: Veil, distance: Tensor) -> PathState:
            met, path = split(meet(scene, path.ray, at), path)
            bsdf = make_bsdf(met.surface)
            path = path._replace(radiance=path.radiance + emitted(scene, path, met, distance, bsdf))
            if short_cut:
                return scatter(scene, path, met, bsdf)
            go_on = path.segment < max_depth
            if scene.look.unlit:
                go_on = go_on & (met.row["unlit"] == 0)
            return cond(go_on, lambda p: scatter(scene, p, met, bsdf), stop, path)  # type: ignore[no-any-return]

        first = path.segment == 1 if path.travelled is None else (path.segment == 1) & (path.travelled == 0)
        path = path._replace(indirect_rays=path.indirect_rays + where(first, 0, 1))
        return cond(hit.slot == NOTHING, missed, found, path)  # type: ignore[no-any-return]

    def passed(path: PathState, at: Veil) -> PathState:
        return path._replace(ray=Ray(at.point - at.off, path.ray.direction))

    def stop(path: PathState) -> PathState:
        return path._replace(alive=path.alive & False)

    end = while_loop(running, step, start)
    if short_cut:
        end = cond(end.alive, lambda path: last(scene, path), lambda path: path, end)
    return PathResult(end.radiance, end.rng, end.shadow_rays, end.indirect_rays)


def surrounded(scene: SceneData) -> bool:
    """Whether a ray that meets nothing sees something."""
    return scene.sky is not None or scene.environment is not None


def outside(scene: SceneData, path: PathState) -> Vec3:
    """What the path's ray sees where it meets nothing, weighed against finding it by connecting."""
    if scene.environment is None:
        return Vec3(*(scene.sky[k] for k in range(3)))
    radiance, density = scene.environment.seen(path.ray.direction)
    seen: Vec3 = radiance * where(path.segment == 1, 1.0, weight_of_scattering(density, 1.0, 1.0, path.density))
    return seen


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

    def beyond_all() -> Seen:
        return Seen(ray, FAR, path.throughput * outside(scene, path))

    if scene.lights is None:
        return search(path, beyond_all()) if surrounded(scene) else path
    lights = scene.lights
    t, light = lights.nearest(ray, FAR)

    def lamp() -> Seen:
        n, radiance, density, two_sided, size = lights.at(light)
        facing = dot(n, ray.direction)
        cosine, point = facing.abs(), ray.at(t)
        weight = where(path.segment == 1, 1.0, weight_of_scattering(density, t * t, cosine, path.density))
        error = greater(greater(reach_of(point), t), size) * offset_of(scene)
        end = point + n * where(facing < 0, error, -error)
        seen = select((facing < 0) | two_sided, path.throughput * radiance * weight, 0.0)
        return Seen(Ray(ray.origin, end - ray.origin), 1.0, seen)

    if not surrounded(scene):
        return cond(light >= 0, lambda p: search(p, lamp()), lambda p: p, path)  # type: ignore[no-any-return]
    return search(path, cond(light >= 0, lamp, beyond_all))


def split(met: Met, path: PathState) -> tuple[Met, PathState]:
    """Dispersion, where there is any: a surface that the path would leave with one channel has the index of that channel."""
    material = met.surface.material
    if path.channel is None or material is None:
        return met, path
    drawn, rng = disperse(path.channel, material.ior, met.row["dispersion"], path.rng)
    material = material._replace(dispersed_ior=drawn.ior, dispersed_tint=drawn.tint)
    return met._replace(surface=met.surface._replace(material=material), channel=drawn.channel), path._replace(rng=rng)


def emitted(scene: SceneData, path: PathState, met: Met, t: Tensor, bsdf: BSDF) -> Vec3:
    """What a hit adds by its own light: weighed against finding it by light sampling, except from the camera."""
    cosine = dot(met.surface.normal, path.ray.direction).abs()
    density = connecting_density(scene, path, met, bsdf)
    weight = where(path.segment == 1, 1.0, weight_of_scattering(density, t * t, cosine, path.density))
    light = path.throughput * met.surface.emission
    return light * (weight * bsdf.emission_left() if isinstance(bsdf, GltfBsdf) else weight)


def connecting_density(scene: SceneData, path: PathState, met: Met, bsdf: BSDF) -> Tensor:
    """The density by area with which connecting from where the path scattered last would have found this point, on its lit side."""
    if scene.lights is None or scene.lights.tree is None:
        return met.light_density
    tree, receiver = scene.lights.tree, path.receiver
    assert receiver is not None

    def favoured() -> Tensor:
        return met.light_density * tree.favour(light_of(tree, met), receiver, lets_through(bsdf))

    result: Tensor = cond((met.light_density > 0) & (path.segment > 1), favoured, lambda: met.light_density)
    return result


def scatter(scene: SceneData, path: PathState, met: Met, bsdf: BSDF) -> PathState:
    """Light from a light, then the next direction."""
    origin = met.above
    if connects(scene):
        path = connect(scene, path, met, bsdf, origin)
    sample, rng = bsdf.sample(path.rng)
    direction = met.basis.to_world(sample.wi)
    throughput = path.throughput * sample.weight
    if scene.corner is not None:
        up = sample.wi.z > 0 if sample.through is None else ~sample.through
        throughput = select(met.agrees(up, direction), throughput, 0.0)
    if sample.through is not None:
        origin = select(sample.through, met.below, origin)
        if path.medium is not None:
            path = path._replace(medium=beyond(met, sample.through, path.medium))
        if path.channel is not None:
            path = path._replace(channel=where(sample.through, met.channel, path.channel))
    if path.travelled is not None:
        path = path._replace(travelled=path.travelled * 0)
    if path.cone is not None:
        path = path._replace(cone=path.cone._replace(spread=greater(path.cone.spread, _spread(sample.density))))

    def roulette(throughput: Vec3, rng: Rng) -> tuple[Vec3, Rng, Tensor]:
        survives, rng = rng.next()
        chance = lesser(throughput.max_component(), 0.95)
        return throughput * (1.0 / greater(chance, 1e-6)), rng, survives < chance

    def goes_on(throughput: Vec3, rng: Rng) -> tuple[Vec3, Rng, Tensor]:
        return throughput, rng, throughput.x == throughput.x

    late = path.segment >= ROULETTE_DEPTH - 1
    throughput, rng, survived = cond(late, roulette, goes_on, throughput, rng)
    if path.receiver is not None:
        path = path._replace(receiver=receiver_of(met))
    alive = path.alive & survived & (throughput.max_component() > 0)
    return path._replace(
        ray=Ray(origin, direction),
        throughput=throughput,
        density=sample.density,
        rng=rng,
        alive=alive,
        segment=path.segment + 1,
    )


def receiver_of(met: Met) -> Receiver:
    """Where a surface wants light."""
    return Receiver(met.surface.point, met.basis.n)


def _spread(density: Tensor) -> Tensor:
    """How much a path widens that was drawn with this density, in 1/sr: a part of the cone that has the solid angle 1 / density."""
    return _WIDENING / greater(density, 0.25).sqrt()


def beyond(met: Met, through: Tensor, medium: Vec3) -> Vec3:
    """The extinction of what light is in that has met a surface: where it went through that of a body, it enters the body or leaves it."""
    inner = select(met.surface.front, met.row.colour("extinction"), 0.0)
    return select(through & (met.row["thickness"] > 0), inner, medium)


def connect(scene: SceneData, path: PathState, met: Met, bsdf: BSDF, origin: Vec3) -> PathState:
    """Adds the light that a light sends here, if nothing stands between."""

    def leaving(way: Vec3) -> Vec3:
        if not lets_through(bsdf):
            return origin
        behind = dot(met.surface.normal if scene.corner is None else met.basis.n, way) < 0
        return select(behind, met.below, origin)

    light, rng = aim(scene, receiver_of(met), lets_through(bsdf), leaving, path.rng)
    path = path._replace(rng=rng)
    wi = met.basis.to_local(light.direction)

    def visible(path: PathState) -> PathState:
        way = Ray(leaving(light.way), light.way)
        f, density = evaluated(bsdf, wi)
        scattering = density if light.delta is None else where(light.delta, 0.0, density)
        weight = weight_of_connecting(light.density, light.squared, light.cosine, scattering)
        seen = path.throughput * f * light.radiance * weight
        if path.medium is not None:
            seen = seen * transmittance(beyond(met, wi.z < 0, path.medium), dot(light.way, light.way).sqrt() * light.reach)
        arriving = seen * unveiled(scene, way, light.reach) if scene.look.alpha else select(~scene.bvh.any(way, light.reach), seen, 0.0)
        return path._replace(radiance=path.radiance + arriving, shadow_rays=path.shadow_rays + 1)

    reached = wi.z != 0 if lets_through(bsdf) else wi.z > 0
    if scene.corner is not None:
        reached = reached & met.agrees(wi.z > 0, light.direction)
    return cond(light.lit & reached & (light.cosine > 1e-6), visible, lambda path: path, path)  # type: ignore[no-any-return]


def unveiled(scene: SceneData, ray: Ray, reach: Any) -> Tensor:
    """The part of light that surfaces on a way leave of it, those that let light pass and those that do not."""
    length = dot(ray.direction, ray.direction).sqrt()

    def step(origin: Vec3, reach: Tensor, left: Tensor, going: Tensor) -> Any:
        way = Ray(origin, ray.direction)
        hit = scene.bvh.closest(way, reach)

        def meets() -> Any:
            at = veil(scene, way, hit)
            after = left * (1.0 - at.opacity)
            return at.point - at.off, reach - hit.t - at.error / length, after, after > 0

        return cond(hit.slot == NOTHING, lambda: (origin, reach, left, going & False), meets)

    zero = ray.direction.x * 0
    start = (ray.origin, zero + reach, zero + 1.0, zero == 0)
    left: Tensor = while_loop(lambda origin, reach, left, going: going & (reach > 0), step, start)[2]
    return left
