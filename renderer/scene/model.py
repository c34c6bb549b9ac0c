"""What a scene is, in glTF's terms, as plain data over NumPy arrays.

Importers fill these classes; the BVH builder and the upload to the device read them; none of them knows a file format.
Here is what a scene is made of; materials, textures, lights and the flattening into triangles have files of their own
(`model_material`, `model_texture`, `model_light`, `soup`), and are names of this module too.

A mesh is stored once and placed by any number of instances, so a forest of one tree costs one tree; an instance that is
a whole crowd (EXT_mesh_gpu_instancing) is one object with three arrays.  A geometry may have another material in each
variant (KHR_materials_variants); `Scene.variant` says which is shown.

Lengths are metres, colours linear Rec.709, radiance W/(sr m2), angles radians.  Matrices are float64, act on column
vectors, and are affine.  Cameras and lights look along their local -z.  Every instance and light keeps the number of
its glTF node: that is where animation will take hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from renderer.scene.model_light import Light as Light
from renderer.scene.model_material import Material as Material
from renderer.scene.model_texture import Image as Image
from renderer.scene.model_texture import Texture as Texture
from renderer.scene.soup import Float32s as Float32s
from renderer.scene.soup import Float64s as Float64s
from renderer.scene.soup import Placed, flattened, transform
from renderer.scene.soup import TriangleSoup as TriangleSoup

QUIET = np.errstate(over="ignore", invalid="ignore", divide="ignore")  # values that are not finite are sorted out after
CROWD = 1000  # placings of a geometry, from which its box is taken instead of its vertices


class SceneError(Exception):
    """A scene file that cannot be shown. The message is one line: which file, what is wrong with it, what to do."""


@dataclass(frozen=True)
class Perspective:
    """Pinhole projection. `aspect_ratio` is None where the window decides, `zfar` infinite where the file has none."""

    yfov: float
    aspect_ratio: float | None = None
    znear: float = 0.01
    zfar: float = math.inf


@dataclass(frozen=True)
class Orthographic:
    """Parallel projection; the view is 2 xmag wide and 2 ymag high."""

    xmag: float
    ymag: float
    znear: float = 0.0
    zfar: float = math.inf


@dataclass(frozen=True)
class Camera:
    """A camera where it stands. `world` is float64[4, 4], camera to world, its axes of unit length.

    `aperture` is the radius of its lens in metres, 0 for a pinhole; `focus` the distance in metres, along its axis, at
    which all is sharp, None where the renderer chooses.
    """

    name: str
    projection: Perspective | Orthographic
    world: Float64s
    aperture: float = 0.0
    focus: float | None = None


@dataclass(frozen=True)
class Sky:
    """A clear sky with a sun (`renderer.scene.sky`): how high that stands, in degrees, and the turbidity of the air: 2 clear, 10 hazy."""

    elevation: float = 39.77
    turbidity: float = 2.6


@dataclass(frozen=True, eq=False)
class Environment:
    """What surrounds the scene: light of one colour from everywhere, a picture of it, or a sky, which is a picture that is made.

    `image` is float32[height, width, 3 or 4], equirectangular, linear radiance: top row first, its middle towards +x and
    what is right of it towards +z. What arrives is `radiance` times `strength`, times the image where there is one;
    `turn` is the angle in degrees by which the image is turned about the vertical, counter-clockwise seen from above.
    `sky` stands in the place of an image; `source` is the file that an image was read from, where there is one; `added`: they are not the
    scene's own, but were put around one that is dark without (`surroundings`).
    Two are equal where their numbers are and their image is the same array.
    """

    radiance: tuple[float, float, float] = (1.0, 1.0, 1.0)
    strength: float = 1.0
    turn: float = 0.0
    image: Float32s | None = None
    sky: Sky | None = None
    source: Path | None = None
    added: bool = False

    @property
    def is_picture(self) -> bool:
        """Whether it is not the same all around."""
        return self.image is not None or self.sky is not None

    def same_picture(self, other: Environment) -> bool:
        """Whether the two differ in their numbers at most."""
        return self.image is other.image and self.sky == other.sky

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Environment):
            return NotImplemented
        numbers, others = ((e.radiance, e.strength, e.turn) for e in (self, other))
        return numbers == others and self.same_picture(other)

    def __hash__(self) -> int:
        return hash((self.radiance, self.strength, self.turn, id(self.image), self.sky))


@dataclass(frozen=True)
class Geometry:
    """One primitive, as triangles.

    positions float32[n, 3]; indices uint32[m, 3], each below n, counter-clockwise seen from the front; normals
    float32[n, 3], or None for flat shading (a zero normal: flat at that corner); material indexes `Scene.materials`.
    tangents float32[n, 4], unit vectors and the side of the bitangent (+-1), or None; texcoords float32[n, 2] for each
    set; colours float32[n, 4], linear, by which the base colour is multiplied, or None.
    variants: the material in a variant, where it is another. Positions that a triangle uses are finite; other values
    may be anything.
    """

    positions: Float32s
    indices: NDArray[np.uint32]
    normals: Float32s | None
    material: int
    tangents: Float32s | None = None
    texcoords: tuple[Float32s, ...] = ()
    colours: Float32s | None = None
    variants: dict[int, int] = field(default_factory=dict)

    def material_in(self, variant: int | None) -> int:
        """The number of its material in a variant of the scene, None for the scene as it is without."""
        return self.material if variant is None else self.variants.get(variant, self.material)


@dataclass(frozen=True)
class Mesh:
    """A named list of geometries; empty where nothing draws it or nothing of it could be read."""

    name: str
    geometries: list[Geometry]


@dataclass(frozen=True, eq=False)
class Copies:
    """The places of a crowd, in the space of its node: translation float32[k, 3], rotation float32[k, 4] (unit
    quaternions x, y, z, w), scale float32[k, 3], applied in the order scale, rotation, translation."""

    translation: Float32s
    rotation: Float32s
    scale: Float32s

    def __len__(self) -> int:
        return len(self.translation)

    def matrices(self) -> Float64s:
        """float64[k, 4, 4]."""
        matrices = np.zeros((len(self), 4, 4))
        matrices[:, :3, :3] = rotations(self.rotation.astype(np.float64))
        matrices[:, :3, :3] *= self.scale[:, None, :]
        matrices[:, :3, 3] = self.translation
        matrices[:, 3, 3] = 1.0
        return matrices


def rotations(quaternions: Float64s) -> Float64s:
    """Rotation matrices float64[n, 3, 3] of unit quaternions float64[n, 4] (x, y, z, w)."""
    x, y, z, w = quaternions.T
    return np.stack(
        [
            np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)], -1),
            np.stack([2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)], -1),
            np.stack([2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)], -1),
        ],
        1,
    )


@dataclass(frozen=True)
class Instance:
    """A mesh placed in the world: `world` is float64[4, 4], affine; `node` is the number of the placing glTF node.

    With `copies` it is placed as many times as they are, each at `world` times its own matrix. `moving`: it is likely to be placed anew,
    which should be quick.
    """

    mesh: int
    world: Float64s
    name: str
    node: int
    copies: Copies | None = None
    moving: bool = field(default=False, compare=False)

    @property
    def count(self) -> int:
        """How many times the mesh is placed."""
        return 1 if self.copies is None else len(self.copies)

    def worlds(self) -> Float64s:
        """The matrices of all its placings, float64[count, 4, 4]."""
        matrices: Float64s = self.world[None] if self.copies is None else self.world @ self.copies.matrices()
        return matrices


@dataclass(frozen=True)
class Totals:
    """What is in a scene, as drawn: instanced triangles counted each time, degenerate ones included.

    `lights` counts emissive geometries as placed, `light_triangles` their triangles.
    """

    triangles: int
    instances: int
    materials: int
    lights: int
    light_triangles: int


@dataclass
class Scene:
    """A whole scene: what to draw, from where, and what the importer had to say about the file.

    Without an `environment` nothing but the scene's own lights shines; the renderer decides what becomes of a scene
    without any. `variants` are names; `variant` is the number of the one that is shown, None for the file's default.
    """

    path: Path
    cameras: list[Camera] = field(default_factory=list)
    materials: list[Material] = field(default_factory=list)
    meshes: list[Mesh] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    environment: Environment | None = None
    lost: list[str] = field(default_factory=list)  # what the file has and a scene cannot hold, by name ("animations"): gone when saved
    images: list[Image] = field(default_factory=list)
    textures: list[Texture] = field(default_factory=list)
    lights: list[Light] = field(default_factory=list)
    variants: list[str] = field(default_factory=list)
    variant: int | None = None
    culled: bool = False  # what has but a front is not there for what comes from its back (see `Material.shows_back`)
    extensions: list[str] = field(default_factory=list)  # that the file says it uses
    required: list[str] = field(default_factory=list)  # of these, those without which it says that it cannot be shown
    strict: bool = False  # whether what turns out later to be wrong with the file (a damaged picture) is an error
    undrawn: list[str] = field(default_factory=list)  # of these, and of other features by name, what is not in the picture

    def totals(self) -> Totals:
        """Counts for `rayfuse info` and the benchmark record."""
        triangles = lights = light_triangles = 0
        for instance in self.instances:
            for geometry in self.meshes[instance.mesh].geometries:
                triangles += len(geometry.indices) * instance.count
                if self.materials[geometry.material_in(self.variant)].is_emissive:
                    lights += instance.count
                    light_triangles += len(geometry.indices) * instance.count
        instances = sum(instance.count for instance in self.instances)
        return Totals(triangles, instances, len(self.materials), lights, light_triangles)

    @QUIET
    def bounds(self) -> Float64s | None:
        """The axis-aligned box of all that is drawn, float64[2, 3] (low, high corner); None for an empty scene."""
        boxes = []
        for _, _, geometry, _, worlds in self.placed():
            used = np.zeros(len(geometry.positions), bool)
            used[geometry.indices] = True
            points = geometry.positions[used]
            points = points[np.isfinite(points).all(1)]
            if not len(points):
                continue
            if len(worlds) > CROWD:  # the box around each placing's turned box: a bit larger, and far quicker
                low, high = points.min(0).astype(np.float64), points.max(0).astype(np.float64)
                middle, half = (low + high) / 2.0, (high - low) / 2.0
                centres = worlds[:, :3, :3] @ middle + worlds[:, :3, 3]
                reach = np.abs(worlds[:, :3, :3]) @ half
                moved = np.concatenate([centres - reach, centres + reach])
            else:
                moved = transform(points, worlds).reshape(-1, 3)
            moved = moved[np.isfinite(moved).all(1)]
            if len(moved):
                boxes.append((moved.min(0), moved.max(0)))
        if not boxes:
            return None
        return np.array([np.min([box[0] for box in boxes], 0), np.max([box[1] for box in boxes], 0)])

    @QUIET
    def triangles(self) -> TriangleSoup:
        """All triangles in world space, geometry by geometry, each geometry's instances one after another."""
        return flattened(self.placed())

    def placed(self) -> Iterator[Placed]:
        """Each geometry that is drawn: int32[k] numbers of the instances that draw it, its number in the mesh, itself, its material in
        the variant that is shown, and the matrices of its placings, float64[k, 4, 4]. An instance with copies is there for each."""
        users: dict[int, list[int]] = {}
        for number, instance in enumerate(self.instances):
            users.setdefault(instance.mesh, []).append(number)
        for mesh, numbers in users.items():
            worlds = np.concatenate([self.instances[number].worlds() for number in numbers])
            ids = np.repeat(np.array(numbers, np.int32), [self.instances[number].count for number in numbers])
            for place, geometry in enumerate(self.meshes[mesh].geometries):
                if len(geometry.indices):
                    yield ids, place, geometry, geometry.material_in(self.variant), worlds
