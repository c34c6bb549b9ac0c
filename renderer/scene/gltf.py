"""glTF 2.0 (.gltf, .glb) into the scene model.

The road: container and JSON (`gltf_json`), nodes to world matrices (`gltf_nodes`), materials (`gltf_materials`),
numbers (`accessors`), and here the parts that bring them together: extensions, cameras, meshes.  Only meshes that the
scene places are read, except in strict mode: strict also means that every mesh of the file was looked at.

Anything that can be left out is left out with one warning that names its JSON path; what the renderer does not do yet
is said once a kind.  A required extension that only changes the look is drawn without, with a warning; one that decides
whether the numbers can be read at all (compression), and any that is unknown, refuses the file.

`Scene.materials` and `Scene.meshes` keep the file's numbers; glTF's default material comes after the last, if used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from renderer.scene.accessors import AccessorReader
from renderer.scene.gltf_json import Camera as CameraJson
from renderer.scene.gltf_json import Diagnostics, Document, PartError, Primitive, decode_part, read_document
from renderer.scene.gltf_materials import read_materials
from renderer.scene.gltf_nodes import check_forest, instance_matrices, walk_scene
from renderer.scene.model import (
    Camera,
    Float32s,
    Float64s,
    Geometry,
    Instance,
    Material,
    Mesh,
    Orthographic,
    Perspective,
    Scene,
    SceneError,
)

SUPPORTED_EXTENSIONS = {
    "EXT_mesh_gpu_instancing",
    "KHR_materials_emissive_strength",
    "KHR_materials_ior",
    "KHR_materials_specular",
    "KHR_materials_unlit",
    "KHR_mesh_quantization",
    "KHR_xmp",
    "KHR_xmp_json_ld",
}
# They change how things look, not whether they can be read: drawn without, with a warning.
UNDRAWN_EXTENSIONS = {
    "EXT_texture_webp",
    "KHR_animation_pointer",
    "KHR_lights_punctual",
    "KHR_materials_anisotropy",
    "KHR_materials_clearcoat",
    "KHR_materials_dispersion",
    "KHR_materials_iridescence",
    "KHR_materials_pbrSpecularGlossiness",
    "KHR_materials_sheen",
    "KHR_materials_transmission",
    "KHR_materials_variants",
    "KHR_materials_volume",
    "KHR_node_visibility",
    "KHR_texture_basisu",
    "KHR_texture_transform",
}
DRACO = "KHR_draco_mesh_compression"
COMPRESSIONS = {DRACO, "EXT_meshopt_compression", "KHR_meshopt_compression"}

FEATURES = {
    "textures": "textures are not drawn yet; the factors of their materials are used",
    "colours": "vertex colours are not drawn yet; the material's colour is used",
    "morphs": "morph targets are not applied yet; the base shape is drawn",
    "skins": "skins are not applied yet; the mesh is drawn unposed where its node stands",
    "animations": "animations are not played yet; the scene is drawn as it rests",
}
MODES = ("points", "lines", "line loops", "line strips", "triangles", "triangle strips", "triangle fans")
TRIANGLES, STRIP, FAN = 4, 5, 6
NORMAL_TOLERANCE = 2e-2  # of a normal's length: normals stored as bytes are off by up to 1.5 per cent


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what is not finite is looked for and told by name
def load(path: str | Path, *, strict: bool = False, warn: Callable[[str], None] | None = None) -> Scene:
    """Load a .gltf or .glb file.

    `warn` is called with each warning, one line that begins with a JSON path; `Scene.warnings` keeps them all.  With
    `strict` the first of them is a `SceneError` instead.  Raises `SceneError` for a file that cannot be shown at all.
    A file with nothing to draw gives a scene without instances, and a warning.
    """
    file = Path(path)
    diagnostics = Diagnostics(file, strict, warn)
    document = read_document(file, diagnostics)
    _check_version(document)
    _check_extensions(document, diagnostics)
    check_forest(document)
    return _Loader(document, diagnostics).scene()


def _check_version(document: Document) -> None:
    """Raise `SceneError` unless a glTF 2.0 reader may read the file (specification, section 3.2)."""
    asset = document.root.asset
    for name, text, highest in (("version", asset.version, (2, math.inf)), ("minVersion", asset.min_version, (2, 0))):
        if text is None:
            continue
        major, _, minor = text.partition(".")
        if not (major.isdecimal() and minor.isdecimal() and len(text) < 20):
            raise SceneError(f"{document.file}: asset.{name}: {text[:40]!r} is not a version such as '2.0'")
        if not (2, 0) <= (int(major), int(minor)) <= highest:
            raise SceneError(f"{document.file}: asset.{name}: glTF {text} is not supported, only 2.0; convert the file")


def _check_extensions(document: Document, diagnostics: Diagnostics) -> None:
    """Refuse required extensions that cannot be done without; warn of what will be missing from the picture."""
    used, required = document.root.extensions_used, document.root.extensions_required
    refused = [name for name in required if name not in SUPPORTED_EXTENSIONS | UNDRAWN_EXTENSIONS]
    if refused:
        cure = "export it without compression" if COMPRESSIONS.issuperset(refused) else "export it without them"
        raise SceneError(f"{document.file}: extensionsRequired: {', '.join(refused)[:400]} not supported; {cure}")
    for place, name in enumerate(required):
        if name not in used:
            diagnostics.warning(f"extensionsRequired[{place}]", f"{name} is not in extensionsUsed")
    for place, name in enumerate(used):
        where = f"extensionsUsed[{place}]"
        if name in UNDRAWN_EXTENSIONS:
            diagnostics.warning(where, f"{name} is not drawn yet; the scene is drawn without it")
        elif name not in SUPPORTED_EXTENSIONS | COMPRESSIONS:
            diagnostics.warning(where, f"{name[:80]} is not known; the scene is drawn without it")


class _Loader:
    """One load in progress: what has been read of the document, and what has been found that is not drawn yet."""

    def __init__(self, document: Document, diagnostics: Diagnostics) -> None:
        self._document, self._diagnostics = document, diagnostics
        self._reader = AccessorReader(document, diagnostics)
        self._materials: list[Material] = []
        self._features: dict[str, list[str]] = {}
        self._default_material: int | None = None

    def scene(self) -> Scene:
        """The scene; the features that are not drawn are told last."""
        document, diagnostics = self._document, self._diagnostics
        self._materials = read_materials(document, diagnostics, self._unsupported)
        cameras: list[Camera] = []
        instances: list[Instance] = []
        for number, node, world in walk_scene(document, diagnostics):
            path = f"nodes[{number}]"
            try:
                if node.camera is not None:
                    cameras.append(self._camera(node.camera, node.name, f"{path}.camera", world))
            except PartError as error:
                diagnostics.skipped(error, f"the camera of {path}")
            try:
                if node.skin is not None:
                    document.skins.check(node.skin, f"{path}.skin")
                    self._unsupported("skins", f"{path}.skin")
            except PartError as error:
                diagnostics.skipped(error, f"{path}.skin")
            try:
                if node.mesh is not None:
                    document.meshes.check(node.mesh, f"{path}.mesh")
                    name = node.name or f"node {number}"
                    placed = instance_matrices(node, path, world, self._reader)
                    instances += [Instance(node.mesh, matrix, name, number) for matrix in placed]
            except PartError as error:
                diagnostics.skipped(error, f"the mesh of {path}")
        placed_meshes = {instance.mesh for instance in instances}
        meshes = [
            self._mesh(number) if diagnostics.strict or number in placed_meshes else Mesh("", [])
            for number in range(len(document.meshes))
        ]
        instances = [instance for instance in instances if meshes[instance.mesh].geometries]
        if document.root.animations:
            self._unsupported("animations", "animations[0]")
        for kind, places in self._features.items():
            diagnostics.warning(places[0], FEATURES[kind] + (f" ({len(places)} places)" if len(places) > 1 else ""))
        if not instances:
            diagnostics.warning("", "the scene has nothing to draw")
        return Scene(document.file, cameras, self._materials, meshes, instances, diagnostics.messages)

    def _unsupported(self, kind: str, path: str) -> None:
        """Note that the part at `path` needs a feature, one of `FEATURES`, that is not there."""
        self._features.setdefault(kind, []).append(path)

    def _camera(self, index: int, node_name: str, used_at: str, world: Float64s) -> Camera:
        source = self._document.cameras.get(index, used_at)
        name = source.name or node_name or f"camera {index}"
        return Camera(name, _projection(source, f"cameras[{index}]"), _rigid(world, used_at))

    def _mesh(self, number: int) -> Mesh:
        """A mesh with the primitives that can be drawn."""
        path = f"meshes[{number}]"
        try:
            source = self._document.meshes.get(number, path)
        except PartError as error:
            self._diagnostics.skipped(error, path)
            return Mesh("", [])
        geometries = []
        for place, raw in enumerate(source.primitives):
            where = f"{path}.primitives[{place}]"
            try:
                primitive = decode_part(raw, Primitive, where)
                geometry = self._geometry(primitive, where)
            except PartError as error:
                self._diagnostics.skipped(error, where)
                continue
            if source.weights and len(source.weights) != len(primitive.targets):
                counts = f"{len(source.weights)} weights for {len(primitive.targets)} morph targets"
                self._diagnostics.warning(f"{path}.weights", counts)
            if geometry is not None:
                geometries.append(geometry)
        return Mesh(source.name or f"mesh {number}", geometries)

    def _geometry(self, primitive: Primitive, path: str) -> Geometry | None:
        """A primitive as triangles, None if none is finite. Raises `PartError` if it cannot be read or has none."""
        attributes = primitive.attributes
        if not 0 <= primitive.mode < len(MODES):
            raise PartError(f"{path}.mode", f"mode {primitive.mode} is not within 0 and 6")
        if primitive.mode < TRIANGLES:
            raise PartError(f"{path}.mode", f"{MODES[primitive.mode]} are not drawn")
        if "POSITION" not in attributes:
            raise PartError(f"{path}.attributes", "there is no POSITION")
        where = f"{path}.attributes.POSITION"
        if DRACO in primitive.extensions and not self._reader.is_backed(attributes["POSITION"], where):
            raise PartError(f"{path}.extensions.{DRACO}", "Draco compression is not read")
        positions = self._reader.read_floats(attributes["POSITION"], where, "VEC3")
        indices = self._indices(primitive, len(positions), path)
        if not len(indices):
            raise PartError(path, "there is no triangle")
        indices = self._drop_non_finite(indices, positions, where)
        if not len(indices):
            return None
        normals = self._normals(attributes, len(positions), f"{path}.attributes.NORMAL")
        if "COLOR_0" in attributes:
            self._unsupported("colours", f"{path}.attributes.COLOR_0")
        if primitive.targets:
            self._unsupported("morphs", f"{path}.targets")
        return Geometry(positions, indices, normals, self._material(primitive.material, f"{path}.material"))

    def _indices(self, primitive: Primitive, vertices: int, path: str) -> NDArray[np.uint32]:
        """The triangles of a primitive, uint32[m, 3]."""
        if primitive.indices is None:
            order = np.arange(vertices, dtype=np.uint32)
        else:
            where = f"{path}.indices"
            order = self._reader.read_indices(primitive.indices, where)
            highest = int(order.max())
            if highest >= vertices:
                raise PartError(where, f"vertex index {highest}, but there are {vertices} vertices")
        if primitive.mode == TRIANGLES and len(order) % 3:
            self._diagnostics.warning(
                path, f"{len(order)} corners are no whole number of triangles; the rest is dropped"
            )
        return assemble_triangles(order, primitive.mode)

    def _drop_non_finite(self, indices: NDArray[np.uint32], positions: Float32s, path: str) -> NDArray[np.uint32]:
        """Without the triangles that touch a position that is not finite."""
        finite = np.logical_and.reduce(np.isfinite(positions), axis=1)
        if finite.all():
            return indices
        kept = np.logical_and.reduce(finite[indices], axis=1)
        dropped = len(kept) - int(kept.sum())
        bad = len(finite) - int(finite.sum())
        self._diagnostics.warning(path, f"{bad} positions are not finite; {dropped} triangles are dropped")
        return indices[kept]

    def _normals(self, attributes: dict[str, int], vertices: int, path: str) -> Float32s | None:
        """Unit normals float32[n, 3], zero where there is none; None where the geometry is to be flat."""
        if "NORMAL" not in attributes:
            return None
        try:
            normals = self._reader.read_floats(attributes["NORMAL"], path, "VEC3")
            if len(normals) != vertices:
                raise PartError(path, f"{len(normals)} normals for {vertices} positions")
        except PartError as error:
            self._diagnostics.skipped(error, path, "is ignored: flat shading instead")
            return None
        length = np.sqrt(np.einsum("ij,ij->i", normals, normals, dtype=np.float64))
        if (np.abs(length - 1.0) <= NORMAL_TOLERANCE).all():
            return normals
        usable = np.isfinite(length) & (length > 0.0)
        off = int((~(np.abs(length - 1.0) <= NORMAL_TOLERANCE)).sum())
        self._diagnostics.warning(
            path, f"{off} normals are not of unit length; normalised, or flat where that cannot be"
        )
        scaled = np.zeros_like(normals)
        scaled[usable] = normals[usable] / length[usable, None]
        return scaled

    def _material(self, index: int | None, used_at: str) -> int:
        """The number of a primitive's material, the default one's if it has none."""
        if index is not None:
            try:
                self._document.materials.check(index, used_at)
            except PartError as error:
                self._diagnostics.skipped(error, used_at, "is replaced by the default material")
            else:
                return index
        if self._default_material is None:
            self._default_material = len(self._materials)
            self._materials.append(Material(name="default"))
        return self._default_material


def assemble_triangles(order: NDArray[np.uint32], mode: int) -> NDArray[np.uint32]:
    """Triangles uint32[m, 3] of a list (mode 4), strip (5) or fan (6) of vertices uint32[n].

    Specification, section 3.7.2.1. In a strip every second triangle is turned over, so that all face the same side.
    """
    if mode == TRIANGLES:
        return order[: len(order) // 3 * 3].reshape(-1, 3)
    if len(order) < 3:
        return np.zeros((0, 3), np.uint32)
    if mode == FAN:
        return np.stack([order[1:-1], order[2:], np.broadcast_to(order[0], len(order) - 2)], 1)
    triangles = np.stack([order[:-2], order[1:-1], order[2:]], 1)
    triangles[1::2] = triangles[1::2][:, [0, 2, 1]]
    return triangles


def _projection(source: CameraJson, path: str) -> Perspective | Orthographic:
    """The projection of a camera. Raises `PartError` for one that has no picture."""
    path = f"{path}.{source.type}"
    if source.type == "perspective":
        lens = source.perspective
        if lens is None:
            raise PartError(path, "is missing")
        if not 0.0 < lens.yfov < math.pi:
            raise PartError(f"{path}.yfov", f"{lens.yfov:g} is not within 0 and pi")
        if lens.aspect_ratio is not None and lens.aspect_ratio <= 0.0:
            raise PartError(f"{path}.aspectRatio", f"{lens.aspect_ratio:g} is not positive")
        zfar = math.inf if lens.zfar is None else lens.zfar
        _check_range(lens.znear, zfar, lens.znear > 0.0, path)
        return Perspective(lens.yfov, lens.aspect_ratio, lens.znear, zfar)
    box = source.orthographic
    if box is None:
        raise PartError(path, "is missing")
    if box.xmag == 0.0 or box.ymag == 0.0:
        raise PartError(path, "xmag and ymag must not be 0")
    _check_range(box.znear, box.zfar, box.znear >= 0.0, path)
    return Orthographic(box.xmag, box.ymag, box.znear, box.zfar)


def _check_range(znear: float, zfar: float, fine: bool, path: str) -> None:
    if not fine or zfar <= znear:
        raise PartError(path, f"znear {znear:g} and zfar {zfar:g} are no range of depth")


def _rigid(world: Float64s, path: str) -> Float64s:
    """The matrix with perpendicular unit axes: scale and shear are ignored (specification, section 3.10.1)."""
    rigid = world.copy()
    back, up = world[:3, 2], world[:3, 1]
    side = np.cross(up, back)
    for column, axis in ((2, back), (0, side)):
        length = np.linalg.norm(axis)
        if not 0.0 < length < math.inf:
            raise PartError(path, "the camera stands in a transform without volume")
        rigid[:3, column] = axis / length
    rigid[:3, 1] = np.cross(rigid[:3, 2], rigid[:3, 0])
    if np.dot(world[:3, 0], rigid[:3, 0]) < 0.0:
        rigid[:3, 0] *= -1.0
    return rigid
