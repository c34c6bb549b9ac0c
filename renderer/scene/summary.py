"""What is in a scene, what of it is not drawn, and what it will cost, as plain data: for `rayfuse info`, a panel, a test.

Nothing is decoded, built or sent to a device for it. Sizes of pictures come from their headers. What the device will hold is worked out
from the counts and from the layout of its tables; what building takes, from seconds a triangle that were measured (`SECONDS`): within a
factor of two on another machine, and so it is said with "about".

Triangles count twice: as drawn, each placing of a mesh anew, and unique, as stored. Geometries whose corners and triangles are the same
arrays are one shape, however many materials they have and wherever they stand. Memory and building go by what is in between: the triangles
that the tree holds, which has what is worth sharing once, and a row for each placing of it (`parts`), and all else as often as it is drawn.

The classes are the schema of `rayfuse info SCENE --json`, field by field (`docs/info.md`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from renderer.scene.default_sky import needs_sky
from renderer.scene.importers import format_of
from renderer.scene.model import Environment, Geometry, Material, Orthographic, Scene
from renderer.scene.model_material import LAYER_DEFAULTS
from renderer.scene.parts import counts_of
from renderer.scene.pictures import ONE_PIXEL, failed, planned, used_images
from renderer.scene.room import most_for_pictures
from renderer.scene.sky import SIZE

SCHEMA = 1
REST_POSE = ("animations", "skins", "morph targets")  # shown as they are at rest
PLACING_BYTES = 128  # of a placed part in a tree of two levels: a matrix each way, and its box
PIXEL_BYTES = 20  # of the film and the picture: sums of three floats, a count, RGBA8
SKY_BYTES = 24  # of a pixel of the surroundings: four floats, and its place in the alias table
LIGHT_BYTES = {True: 72, False: 164}  # of an emissive triangle: 16 floats and, if few, its place in the alias table, else in their tree
GLASS_BYTES = 1 << 17  # of the table of what rough glass loses

# Of a triangle. Trees were measured over 40,000 to 260,000 triangles of rooms and bumpy shapes, on one core of a Xeon (AVX-512) at 2 GHz.
TRIANGLE_BYTES = {"wide": 20, "lone": 32}
TREE_BYTES = {"wide": 52, "lone": 98}
SECONDS = {"wide": 0.75e-6, "lone": 1.75e-6}
BASIS = "about: bytes from the layout of the tables, seconds as measured on one core of a Xeon at 2 GHz"

Walk = Literal["wide", "lone"]  # a ray tests vectors of children, as on the CPU; a ray alone, as on OpenGL and OpenCL


@dataclass(frozen=True)
class FileFacts:
    """The scene's file alone, without those that it refers to."""

    path: str
    format: str
    bytes: int


@dataclass(frozen=True)
class GeometryFacts:
    """`instances`: placings of meshes; `vertices`: as stored; `extent`: the corners of the box of all that is drawn, metres."""

    triangles: int
    unique_triangles: int
    meshes: int
    instances: int
    vertices: int
    extent: tuple[tuple[float, float, float], tuple[float, float, float]] | None


@dataclass(frozen=True)
class MaterialFacts:
    """`features`: how many materials use each; `alpha_modes`: how many have each."""

    count: int
    features: dict[str, int]
    alpha_modes: dict[str, int]
    double_sided: int


@dataclass(frozen=True)
class PictureFacts:
    """One picture, by its header."""

    name: str
    width: int
    height: int
    bytes: int


@dataclass(frozen=True)
class TextureFacts:
    """`textures` that materials use and the `images` of those; what they take decoded, and on the device with their levels of detail, once
    `shrunk` of them have been halved to fit the budget. `unread`: images whose headers say nothing."""

    textures: int
    images: int
    unread: int
    decoded_bytes: int
    device_bytes: int
    budget_bytes: int
    shrunk: int
    largest: PictureFacts | None


@dataclass(frozen=True)
class LightFacts:
    """Emissive geometries as placed and their triangles; punctual lights by kind; what surrounds the scene, in words."""

    emissive: int
    emissive_triangles: int
    directional: int
    point: int
    spot: int
    surroundings: str


@dataclass(frozen=True)
class CameraFacts:
    """`height`: of the view, in degrees, or in metres where it is orthographic; `aperture`: the radius of the lens, m; `focus`: what is
    sharp, m."""

    name: str
    projection: Literal["perspective", "orthographic"]
    height: float
    aperture: float
    focus: float | None


@dataclass(frozen=True)
class ExtensionFacts:
    """`why`: for one that is not drawn."""

    name: str
    required: bool
    state: Literal["drawn", "not drawn", "unknown"]
    why: str


@dataclass(frozen=True)
class DeviceCosts:
    """Bytes on a device, and the seconds that building the BVH takes on the host; `surroundings`: of the scene, or of the sky that is added
    to it."""

    triangles: int
    tree: int
    corners: int
    materials: int
    lights: int
    surroundings: int
    textures: int
    frame: int
    total: int
    bvh_seconds: float


@dataclass(frozen=True)
class Costs:
    """Estimates for a picture of `size`; `kernels`: what of the scene shapes their code."""

    size: tuple[int, int]
    cpu: DeviceCosts
    gpu: DeviceCosts
    kernels: list[str]
    basis: str = BASIS


@dataclass(frozen=True)
class Summary:
    """All of it. `undrawn`: features and extensions that are not in the picture; `rest_pose`: what stands still."""

    file: FileFacts
    geometry: GeometryFacts
    materials: MaterialFacts
    textures: TextureFacts
    lights: LightFacts
    cameras: list[CameraFacts]
    variants: list[str]
    extensions: list[ExtensionFacts]
    undrawn: list[str]
    rest_pose: list[str]
    warnings: list[str]
    costs: Costs
    schema: int = SCHEMA


def summary(scene: Scene, size: tuple[int, int] = (1280, 720)) -> Summary:
    """The facts of a scene; `size`: of the picture that is to be drawn. Raises SceneError where a scene that is `strict` has a picture
    whose header cannot be read."""
    totals = scene.totals()
    kinds = Counter(light.kind for light in scene.lights)
    warnings = list(scene.warnings)
    textures, added = _textures(scene, warnings.append), needs_sky(scene)
    return Summary(
        file=FileFacts(str(scene.path), format_of(scene.path), scene.path.stat().st_size),
        geometry=_geometry(scene),
        materials=_materials(scene.materials),
        textures=textures,
        lights=LightFacts(
            totals.lights, totals.light_triangles, kinds["directional"], kinds["point"], kinds["spot"], _surroundings(scene, added)
        ),
        cameras=_cameras(scene),
        variants=list(scene.variants),
        extensions=[_extension(name, name in scene.required) for name in scene.extensions],
        undrawn=list(scene.undrawn),
        rest_pose=[name for name in REST_POSE if name in scene.lost],
        warnings=warnings,
        costs=_costs(scene, size, textures.device_bytes, _sky_pixels(scene, added)),
    )


def _drawn(scene: Scene) -> Iterator[Geometry]:
    """The geometries of the meshes that are placed."""
    for number in dict.fromkeys(instance.mesh for instance in scene.instances):
        yield from scene.meshes[number].geometries


def _place(array: Any) -> tuple[Any, ...]:
    """What two arrays have in common that are the same: views of one memory are not one object."""
    return array.ctypes.data, array.shape, array.strides


def _unique_triangles(scene: Scene) -> int:
    shapes = {(*_place(geometry.positions), *_place(geometry.indices)): len(geometry.indices) for geometry in _drawn(scene)}
    return sum(shapes.values())


def _geometry(scene: Scene) -> GeometryFacts:
    totals, bounds = scene.totals(), scene.bounds()
    corners = {_place(geometry.positions): len(geometry.positions) for mesh in scene.meshes for geometry in mesh.geometries}
    extent = None
    if bounds is not None:
        (a, b, c), (d, e, f) = bounds.tolist()
        extent = ((a, b, c), (d, e, f))
    meshes = len({instance.mesh for instance in scene.instances})
    return GeometryFacts(totals.triangles, _unique_triangles(scene), meshes, totals.instances, sum(corners.values()), extent)


def _materials(materials: list[Material]) -> MaterialFacts:
    features = Counter(name for material in materials for name in features_of(material))
    modes = Counter(material.alpha_mode for material in materials)
    return MaterialFacts(
        len(materials),
        dict(sorted(features.items())),
        {mode: modes[mode] for mode in ("OPAQUE", "MASK", "BLEND") if modes[mode]},
        sum(material.double_sided for material in materials),
    )


def features_of(material: Material) -> list[str]:
    """What a material uses, by name."""
    layers = {name: getattr(material, name) != default for name, default in LAYER_DEFAULTS.items()}
    there = {
        "metallic": material.metallic > 0.0,
        "specular": (material.specular_factor, *material.specular_color_factor) != (1.0, 1.0, 1.0, 1.0),
        "ior": material.ior != 1.5,
        "dispersion": material.dispersion > 0.0,
        "emission": material.is_emissive,
        "unlit": material.unlit,
        "textures": any(True for _ in material.textures()),
        "normal map": material.normal_texture is not None,
        **{name.replace("_", " "): used for name, used in layers.items()},
    }
    return [name for name, used in there.items() if used]


def _textures(scene: Scene, warn: Callable[[str], None]) -> TextureFacts:
    """`warn` hears of pictures that kernels would read and that cannot be."""
    used, budget = used_images(scene), most_for_pictures()
    if not used:
        return TextureFacts(0, 0, 0, 0, 0, budget, 0, None)
    from renderer.scene.texture_tables import texel_bytes

    cost = texel_bytes(scene)
    plan = planned(scene, used, budget, cost)
    failed(scene, {number: why for number, why in plan.failures.items() if cost(number, ONE_PIXEL)}, warn)
    sizes = plan.sizes
    largest = max(sizes, key=lambda number: sizes[number].bytes, default=None)
    told = None
    if largest is not None:
        image, size = scene.images[largest], sizes[largest]
        told = PictureFacts(image.name or image.at, size.width, size.height, size.bytes)
    return TextureFacts(
        len({ref.texture for material in scene.materials for _, ref in material.textures()}),
        len(used),
        len(plan.failures),
        sum(size.bytes for size in sizes.values()),
        sum(cost(number, plan.size(number)) for number in sizes),
        budget,
        sum(times > 0 for times in plan.halvings.values()),
        told,
    )


def _surroundings(scene: Scene, added: bool) -> str:
    """What surrounds a scene, in words; `added`: whether a sky is added to it."""
    if scene.environment is None:
        return "nothing: as the scene would be dark, a clear sky with a sun is added" if added else "nothing"
    return described(scene.environment)


def _sky_pixels(scene: Scene, added: bool) -> int:
    """Pixels of the picture that surrounds a scene, 0 where there is none."""
    environment = scene.environment
    if added or (environment is not None and environment.sky is not None):
        return math.prod(SIZE)
    return 0 if environment is None or environment.image is None else math.prod(environment.image.shape[:2])


def described(environment: Environment) -> str:
    """Surroundings in words."""
    colour = " ".join(f"{value * environment.strength:.3g}" for value in environment.radiance)
    if environment.sky is not None:
        sky = environment.sky
        return f"a clear sky whose sun is {sky.elevation:.3g} degrees high, of turbidity {sky.turbidity:.3g}, times {colour}"
    if environment.image is None:
        return f"light of one colour, {colour} W/(sr m2)"
    height, width = environment.image.shape[:2]
    return f"a picture of {width} x {height}, times {colour}"


def _cameras(scene: Scene) -> list[CameraFacts]:
    found = []
    for camera in scene.cameras:
        lens = camera.projection
        if isinstance(lens, Orthographic):
            found.append(CameraFacts(camera.name, "orthographic", 2 * abs(lens.ymag), 0.0, None))
        else:
            found.append(CameraFacts(camera.name, "perspective", math.degrees(lens.yfov), camera.aperture, camera.focus))
    return found


def _extension(name: str, required: bool) -> ExtensionFacts:
    from renderer.scene import undrawn
    from renderer.scene.gltf import EXTENSIONS

    if name in undrawn.EXTENSIONS:
        return ExtensionFacts(name, required, "not drawn", undrawn.EXTENSIONS[name])
    if name in undrawn.METADATA:
        return ExtensionFacts(name, required, "not drawn", undrawn.METADATA[name])
    return ExtensionFacts(name, required, "drawn" if name in EXTENSIONS else "unknown", "")


def _costs(scene: Scene, size: tuple[int, int], textures: int, sky_pixels: int) -> Costs:
    """Estimates, from the triangles that are held and what their rows have in them."""
    from renderer.scene.upload import PACKET_TRIANGLES
    from renderer.shading.corner_rows import NO_CORNERS, Corners
    from renderer.shading.light import FEW
    from renderer.shading.material_rows import look_of, width_of

    geometries = list(_drawn(scene))
    transparent = any(geometry.colours is not None and bool((geometry.colours[:, 3] < 1).any()) for geometry in geometries)
    look = look_of(scene.materials, transparent)
    directed = look.directed and any(geometry.tangents is not None for geometry in geometries)
    smooth = any(geometry.normals is not None for geometry in geometries)
    corners = Corners(directed or smooth, directed, look.texcoords, any(geometry.colours is not None for geometry in geometries))
    row = 4 * corners.width if corners != NO_CORNERS else 0
    totals = scene.totals()
    held, placings = counts_of(scene)
    few = totals.light_triangles <= FEW
    rest = {
        "corners": row * held,
        "materials": 4 * width_of(look) * len(scene.materials) + (GLASS_BYTES if look.layers.volume else 0),
        "lights": LIGHT_BYTES[few] * totals.light_triangles + (0 if few else 4 * held),
        "surroundings": SKY_BYTES * sky_pixels,
        "textures": textures,
        "frame": PIXEL_BYTES * size[0] * size[1],
    }

    def on(walk: Walk) -> DeviceCosts:
        tree = TREE_BYTES[walk] * held + PLACING_BYTES * placings
        bytes = {"triangles": TRIANGLE_BYTES[walk] * held, "tree": tree, **rest}
        return DeviceCosts(**bytes, total=sum(bytes.values()), bvh_seconds=SECONDS[walk] * held)

    kernels = [
        f"{'packets of rays' if totals.triangles <= PACKET_TRIANGLES else 'single rays'} on the CPU",
        "facets" if look.facets else "matt surfaces only",
        *(name.replace("_", " ") for name, used in vars(look.layers).items() if used),
        *(["alpha"] if look.alpha else []),
        *(["unlit surfaces"] if look.unlit else []),
        *(f"texture: {slot.name.replace('_', ' ').replace('.', ' ')}" for slot in look.slots),
        *(["smooth normals"] if corners.normals else []),
        *(["tangents"] if corners.tangents else []),
        *(["colours of vertices"] if corners.colours else []),
        *([f"{'few' if few else 'many'} emissive triangles"] if totals.light_triangles else []),
        *(["punctual lights"] if scene.lights else []),
        *(["surroundings"] if scene.environment is not None or not (scene.lights or totals.lights) else []),
    ]
    return Costs(size, on("wide"), on("lone"), kernels)
