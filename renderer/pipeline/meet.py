"""What is known of a place that a ray met: the surface, its shading frame, its material.

A flat surface of a plain material needs its triangle's normal and its material's row. Scenes with more have a table of corners
(`shading.corner_rows`), and their materials may have textures. Smooth surfaces are shaded by the normal between their corners', and rays
leave them from where the curved surface would be; on which side of the surface a direction lies goes by the triangle's own normal wherever
that is not far below (`Met.agrees`). A shading normal that would look away from where the ray came from is bent until it does not.

What of a place decides whether light passes it as if it were not there (`Veil`) is known first, and is all that a shadow ray asks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from engine import Tensor, where
from renderer.bvh.placings import Place
from renderer.bvh.traverse import Hit
from renderer.pipeline.aim import offset_of, reach_of
from renderer.scene.upload import SceneData
from renderer.shading.bsdf import Surface
from renderer.shading.corner_rows import Between, between
from renderer.shading.light_tree import LightTree
from renderer.shading.material_rows import Row
from renderer.shading.slots import Pictures
from renderer.shading.texture import RayCone
from renderer.vec import Basis, Ray, Vec3, basis_around, cross, dot, greater, normalize, select

_LEAST = 1e-3  # cosine of a shading normal to wo
_CLEAR = 16.0  # errors above a triangle from where rays are sure to meet it


class Veil(NamedTuple):
    """A place on a surface. triangle: its number; placing: that of its part (None: there are none); point; normal: of the triangle, on the
    ray's side; front: whether that is the front; error: how far off the surface rays begin; base: the material's colour; opacity: the
    chance that light does not pass, None in a scene where none does."""

    triangle: Tensor
    placing: Tensor | None
    point: Vec3
    normal: Vec3
    front: Tensor
    error: Tensor
    base: Vec3
    opacity: Any
    row: Row
    place: Between | None
    pictures: Pictures | None

    @property
    def off(self) -> Vec3:
        """From the surface to where rays on the side of the normal begin."""
        result: Vec3 = self.normal * self.error
        return result


class Met(NamedTuple):
    """What a ray met: the numbers of triangle and placing, the surface and its shading frame, how far off it rays begin, the density by
    area of connecting to its light if that is chosen by power, the row of its material."""

    triangle: Tensor
    placing: Tensor | None
    surface: Surface
    basis: Basis
    error: Tensor
    light_density: Tensor
    row: Row
    channel: Any = None  # of a path that goes through
    lift: Vec3 | None = None  # from the triangle to the curved surface it stands for, None where all are flat

    @property
    def above(self) -> Vec3:
        """Where rays begin that leave on the side of the normal."""
        point = self.surface.point + self.surface.normal * self.error
        return point if self.lift is None else point + self.lift

    @property
    def below(self) -> Vec3:
        """Where rays begin that go through."""
        result: Vec3 = self.surface.point - self.surface.normal * self.error
        return result

    def agrees(self, up: Tensor, direction: Vec3) -> Tensor:
        """Whether the triangle has a direction on the side (`up`: the normal's) where the shading normal has it, or is so far below the
        curved surface that it will hide what it hides by itself."""
        same = up == (dot(self.surface.normal, direction) > 0)
        if self.lift is None:
            return same
        return same | (up & (dot(self.lift, self.surface.normal) > self.error * _CLEAR))


def veil(scene: SceneData, ray: Ray, hit: Hit, cone: RayCone | None = None) -> Veil:
    """The place of a hit; cone: that of the ray, there."""
    triangle, t = scene.bvh.triangle(hit.slot), hit.t
    n = Vec3(scene.triangle[triangle, 0], scene.triangle[triangle, 1], scene.triangle[triangle, 2])
    material, size, placing = scene.triangle[triangle, 3].bitcast("int32"), scene.triangle[triangle, 4], placing_of(scene, hit)
    if placing is not None:
        n, material, size = normalize(placing.normal(n)), placing.material(material), size * placing.most
    row = Row(scene.look, scene.material, material)
    point = ray.at(t)
    facing = dot(n, ray.direction)
    front = facing < 0
    reach = greater(reach_of(point), greater(t, size))
    place = between(scene.corners, scene.corner, triangle, point, placing) if scene.corner is not None else None
    pictures = pictures_at(scene, row, place, cone, facing)
    base, alpha = Vec3(*row.floats[0:3]), None
    if scene.look.alpha:
        alpha = row["alpha"]
    if pictures is not None and "base_color_texture" in pictures:
        base = base * pictures.colour("base_color_texture")
        alpha = None if alpha is None else alpha * pictures.alpha()
    if place is not None and scene.corners.colours:
        colour, transparent = place.colour()
        base, alpha = base * colour, None if alpha is None else alpha * transparent
    opacity = None if alpha is None else row.opacity(alpha)
    return Veil(triangle, hit.placing, point, select(front, n, -n), front, reach * offset_of(scene), base, opacity, row, place, pictures)


def placing_of(scene: SceneData, hit: Hit) -> Place | None:
    """The placing that a hit belongs to, None where all is one part."""
    top = scene.bvh.top
    return top.placings.place(hit.placing) if top is not None else None


def pictures_at(scene: SceneData, row: Row, place: Between | None, cone: RayCone | None, cosine: Any) -> Pictures | None:
    """The textures of a material at a place, None where a scene has none."""
    if scene.textures is None or place is None:
        return None
    return Pictures(scene.look.slots, row, place, scene.textures, cone, cosine)


def meet(scene: SceneData, ray: Ray, at: Veil) -> Met:
    """What is known of a hit."""
    row, pictures, values = at.row, at.pictures, at.row.floats
    emits = at.front | (values[3] > 0)
    emission = Vec3(*values[4:7])
    if pictures is not None and "emissive_texture" in pictures:
        emission = emission * pictures.colour("emissive_texture")
    if scene.look.unlit:
        emission = select(row["unlit"] > 0, at.base, emission)
    wo = -ray.direction
    coat = None
    if at.place is None:
        basis = basis_around(at.normal)
    else:
        basis, coat = shading_frame(at.place, pictures, at.normal, wo, mirrors=scene.look.facets)
    material = None
    if scene.look.facets:
        material = row.point(at.base, pictures)
        if scene.glass is not None:
            material = material._replace(glass=scene.glass)
        if scene.look.layers.clearcoat_normal:
            material = material._replace(clearcoat_normal=Vec3(0.0, 0.0, 1.0) if coat is None else basis.to_local(coat))
    surface = Surface(
        at.point, at.normal, at.front, basis.to_local(wo), at.base, select(emits, emission, 0.0), material, scene.look.layers
    )
    density = values[7]
    if at.place is not None and scene.corners.glow:
        density = density * at.place.glow()
    lift = None
    if at.place is not None and at.place.corners.normals:
        lift = at.place.lift(at.point, where(dot(at.place.normal(), at.normal) < 0, -1.0, 1.0))
    return Met(at.triangle, at.placing, surface, basis, at.error, where(emits, density, 0.0), row, lift=lift)


def light_of(tree: LightTree, met: Met) -> Tensor:
    """The number among many lights of what was met, which must shine."""
    return tree.light[met.triangle] if tree.first is None else tree.light[met.triangle] + tree.first[met.placing]


def shading_frame(
    place: Between, pictures: Pictures | None, normal: Vec3, wo: Vec3, *, mirrors: bool
) -> tuple[Basis, Vec3 | None]:
    """The shading frame at a place, on the side of its triangle's unit normal, and the normal of a clearcoat (None: the triangle's). The x
    axis is the tangent where there is one. mirrors: surfaces may be such."""
    if not place.corners.normals:
        return basis_around(normal), None
    own = normalize(place.normal())  # on the file's side of the surface
    turned = dot(own, normal) < 0

    def seen(v: Vec3) -> Vec3:
        there = bent(select(turned, -v, v), wo)
        return reflecting(there, normal, wo) if mirrors else there

    if not place.corners.tangents:
        return basis_around(seen(own)), seen(own)
    tangent, side = place.tangent()
    frame = directed(own, tangent, side)

    def mapped(name: str) -> Vec3:
        return seen(frame.to_world(pictures.normal(name)) if pictures is not None and name in pictures else own)

    basis = directed(mapped("normal_texture"), tangent, where(turned, -side, side))
    return basis, mapped("clearcoat.normal_texture")


def bent(normal: Vec3, wo: Vec3) -> Vec3:
    """The normal, turned towards wo as far as it takes for wo to be above it."""
    below = dot(normal, wo)
    return select(below < _LEAST, normalize(normal + wo * (_LEAST - below)), normal)


def reflecting(normal: Vec3, face: Vec3, wo: Vec3) -> Vec3:
    """The normal, turned as far as it takes for the mirror image of wo to be above the triangle: where a steep one sends it below, no light
    would come from there, and the slope would be black (Keller et al., "The Iray Light Transport Simulation and Rendering System", 2017,
    appendix A.3)."""
    mirror = normal * (2.0 * dot(normal, wo)) - wo
    below = dot(mirror, face)
    return select(below < _LEAST, normalize(wo + normalize(mirror + face * (_LEAST - below))), normal)


def directed(normal: Vec3, tangent: Vec3, side: Tensor) -> Basis:
    """The frame of a normal and a tangent, the second axis on a side of them; any frame of the normal where there is no tangent."""
    along = tangent - normal * dot(normal, tangent)
    square = dot(along, along)
    there, other = square > 1e-12, basis_around(normal)
    s = select(there, along * (1.0 / where(there, square, 1.0).sqrt()), other.s)
    return Basis(s, select(there, cross(normal, s) * side, other.t), normal)
