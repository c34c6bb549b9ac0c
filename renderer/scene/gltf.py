"""glTF 2.0 (.gltf, .glb) into the scene model.

The road: container and JSON (`gltf_json`), nodes to world matrices (`gltf_nodes`), cameras and lights (`gltf_cameras`), textures
(`gltf_textures`), materials (`gltf_materials`), meshes (`gltf_mesh`) of numbers (`accessors`, `compression`), and here what brings them
together. Only what the scene shows is read, except in strict mode: strict also means that all of the file was looked at (`gltf_strict`).

Anything that can be left out is left out with one warning that names its JSON path; what the renderer does not draw yet (`undrawn`) is
said once a kind. A required extension that is not known refuses the file: nobody can tell what would be wrong in its picture.

`Scene.materials` and `Scene.meshes` keep the file's numbers; glTF's default material comes after the last, if used, and so do meshes
that are placed with other morph weights or with a skin. A mesh with a skin is stored where its joints put it, in the world.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import msgspec
import numpy as np

from renderer.scene import undrawn
from renderer.scene.accessors import AccessorReader
from renderer.scene.compression import PACKAGES
from renderer.scene.gltf_cameras import read_camera, read_light, read_surroundings
from renderer.scene.gltf_json import Diagnostics, Document, Node, PartError, decode_part, read_document
from renderer.scene.gltf_materials import EXTENSIONS as MATERIAL_EXTENSIONS
from renderer.scene.gltf_materials import read_materials
from renderer.scene.gltf_mesh import VARIANTS, MeshReader, Pose
from renderer.scene.gltf_nodes import check_forest, read_copies, walk_scene
from renderer.scene.gltf_textures import TextureReader
from renderer.scene.model import Camera, Float64s, Instance, Light, Mesh, Scene, SceneError

# What is read into the model; `undrawn` says what of it is not in the picture.
EXTENSIONS = {
    *MATERIAL_EXTENSIONS,
    *PACKAGES,
    "EXT_mesh_gpu_instancing",
    "EXT_texture_webp",
    "KHR_animation_pointer",
    "KHR_lights_punctual",
    "KHR_materials_variants",
    "KHR_mesh_quantization",
    "KHR_node_visibility",
    "KHR_texture_basisu",
    "KHR_texture_transform",
    *undrawn.METADATA,
}
LOST_EXTENSIONS = {"KHR_animation_pointer", *undrawn.METADATA}  # not in a saved scene
KEPT = {"textures", "colours"}  # features that a saved scene has


class _Variant(msgspec.Struct):
    name: str = ""


class _Variants(msgspec.Struct):
    variants: list[_Variant]


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
    refused = [name for name in required if name not in EXTENSIONS]
    if refused:
        raise SceneError(f"{document.file}: extensionsRequired: {', '.join(refused)[:400]} not supported; export it without them")
    for name in required:
        package = PACKAGES.get(name)
        if package is not None and find_spec(package) is None:
            raise SceneError(f"{document.file}: extensionsRequired: {name} needs the package {package}; pip install {package}")
    for place, name in enumerate(required):
        if name not in used:
            diagnostics.warning(f"extensionsRequired[{place}]", f"{name} is not in extensionsUsed")
    for place, name in enumerate(used):
        where = f"extensionsUsed[{place}]"
        if name in undrawn.EXTENSIONS:
            diagnostics.warning(where, f"{name} is not drawn yet; the scene is drawn without it")
        elif name not in EXTENSIONS:
            diagnostics.warning(where, f"{name[:80]} is not known; the scene is drawn without it")


class _Loader:
    """One load in progress: what has been read of the document, and the features that were found."""

    def __init__(self, document: Document, diagnostics: Diagnostics) -> None:
        self._document, self._diagnostics = document, diagnostics
        self._reader = AccessorReader(document, diagnostics)
        self._features: dict[str, list[str]] = {}  # by name: the JSON paths that have it
        self._worlds: dict[int, Float64s] = {}  # of the nodes in the scene
        self._cameras: list[Camera] = []
        self._lights: list[Light] = []

    def scene(self) -> Scene:
        """The scene; the features that are not drawn are told last."""
        document, diagnostics = self._document, self._diagnostics
        reader = TextureReader(document, diagnostics, self._reader, self._feature)
        materials = read_materials(document, diagnostics, reader)
        textures, images = reader.finish()
        variants = self._variants()
        placing = self._walk()
        source = MeshReader(document, diagnostics, self._reader, materials, len(variants), self._feature)
        meshes, instances = self._place(placing, source)
        if diagnostics.strict:
            from renderer.scene.gltf_strict import check_all

            check_all(document, self._reader, diagnostics)
        if document.root.animations:
            self._feature("animations", "animations[0]")
        for kind, text in undrawn.FEATURES.items():
            if places := self._features.get(kind):
                diagnostics.warning(places[0], text + (f" ({len(places)} places)" if len(places) > 1 else ""))
        if not instances:
            diagnostics.warning("", "the scene has nothing to draw")
        used = document.root.extensions_used
        return Scene(
            path=document.file,
            cameras=self._cameras,
            materials=materials,
            meshes=meshes,
            instances=instances,
            warnings=diagnostics.messages,
            environment=read_surroundings(document, diagnostics),
            lost=self._lost({node.mesh for _, node in placing if node.mesh is not None}),
            images=images,
            textures=textures,
            lights=self._lights,
            variants=variants,
            extensions=used,
            required=document.root.extensions_required,
            undrawn=[
                *(kind for kind in undrawn.FEATURES if kind in self._features),
                *(name for name in used if name in undrawn.EXTENSIONS or name not in EXTENSIONS),
            ],
        )

    def _walk(self) -> list[tuple[int, Node]]:
        """Goes through the nodes of the scene; returns those that place a mesh. A camera or light that is bad is left out."""
        placing: list[tuple[int, Node]] = []
        for number, node, world in walk_scene(self._document, self._diagnostics, self._feature):
            path = f"nodes[{number}]"
            self._worlds[number] = world
            try:
                camera = read_camera(self._document, node, path, world, self._diagnostics)
                self._cameras += [camera] if camera is not None else []
            except PartError as error:
                self._diagnostics.skipped(error, f"the camera of {path}")
            try:
                light = read_light(self._document, node, number, world, self._diagnostics)
                self._lights += [light] if light is not None else []
            except PartError as error:
                self._diagnostics.skipped(error, f"the light of {path}")
            if node.mesh is not None:
                placing.append((number, node))
        return placing

    def _place(self, placing: list[tuple[int, Node]], source: MeshReader) -> tuple[list[Mesh], list[Instance]]:
        """The meshes and where they stand."""
        document, diagnostics = self._document, self._diagnostics
        instances: list[Instance] = []
        posed: dict[tuple[int, tuple[float, ...], int | None], int] = {}  # mesh, weights, skin -> number after the file's
        poses: list[tuple[int, Pose]] = []
        plain: set[int] = set()
        for number, node in placing:
            path = f"nodes[{number}]"
            try:
                assert node.mesh is not None
                document.meshes.check(node.mesh, f"{path}.mesh")
                world, joints, mesh = self._worlds[number], self._joints(node, path), node.mesh
                weights = self._weights(node)
                if joints is None and not weights:
                    plain.add(mesh)
                else:
                    key = (mesh, weights, None if joints is None else node.skin)
                    if key not in posed:
                        posed[key] = len(document.meshes) + len(poses)
                        poses.append((mesh, Pose(weights, joints)))
                    mesh = posed[key]
                    world = world if joints is None else np.eye(4)
                copies = read_copies(node, path, self._reader)
                instances.append(Instance(mesh, world, node.name or f"node {number}", number, copies))
            except PartError as error:
                diagnostics.skipped(error, f"the mesh of {path}")
        meshes = [
            source.mesh(number) if diagnostics.strict or number in plain else Mesh("", [])
            for number in range(len(document.meshes))
        ]
        meshes += [source.mesh(number, pose) for number, pose in poses]
        return meshes, [instance for instance in instances if meshes[instance.mesh].geometries]

    def _weights(self, node: Node) -> tuple[float, ...]:
        """The weights of the morph targets of a node's mesh; empty where all are 0."""
        assert node.mesh is not None
        weights = node.weights
        if not weights:
            try:
                weights = self._document.meshes.get(node.mesh, "").weights
            except PartError:  # told where the mesh is read
                return ()
        return tuple(weights) if any(weights) else ()

    def _joints(self, node: Node, path: str) -> Float64s | None:
        """What moves the vertices of a node's mesh, a matrix for each joint of its skin: float64[j, 4, 4] into the world.

        None where the node has no skin, or (with a warning) one that cannot be used.
        """
        if node.skin is None:
            return None
        self._feature("skins", f"{path}.skin")
        where = f"skins[{node.skin}]"
        try:
            skin = self._document.skins.get(node.skin, f"{path}.skin")
            for place, joint in enumerate(skin.joints):
                if joint not in self._worlds:
                    raise PartError(f"{where}.joints[{place}]", f"node {joint} is not in the scene")
            if not skin.joints:
                raise PartError(f"{where}.joints", "is empty")
            matrices = np.stack([self._worlds[joint] for joint in skin.joints])
            if skin.inverse_bind_matrices is not None:
                used_at = f"{where}.inverseBindMatrices"
                inverse = self._reader.read_floats(skin.inverse_bind_matrices, used_at, "MAT4")
                if len(inverse) < len(matrices):
                    raise PartError(used_at, f"{len(inverse)} matrices for {len(matrices)} joints")
                matrices = matrices @ inverse[: len(matrices)].reshape(-1, 4, 4).transpose(0, 2, 1).astype(np.float64)
        except PartError as error:
            self._diagnostics.skipped(error, where, "is ignored: the mesh is drawn where its node stands")
            return None
        return matrices

    def _variants(self) -> list[str]:
        """The names of the variants of KHR_materials_variants."""
        raw = self._document.root.extensions.get(VARIANTS)
        if raw is None:
            return []
        where = f"extensions.{VARIANTS}"
        try:
            return [variant.name for variant in decode_part(raw, _Variants, where).variants]
        except PartError as error:
            self._diagnostics.skipped(error, where, "is ignored")
            return []

    def _lost(self, placed_meshes: set[int]) -> list[str]:
        """What of the file a saved scene does not hold."""
        root = self._document.root
        extensions = [name for name in root.extensions_used if name not in EXTENSIONS or name in LOST_EXTENSIONS]
        rest = {
            "meshes that nothing places": len(root.meshes) > len(placed_meshes),
            "other scenes": len(root.scenes) > 1,
        }
        features = [name for name in self._features if name not in KEPT]
        return [*features, *extensions, *(name for name, there in rest.items() if there)]

    def _feature(self, name: str, path: str) -> None:
        """Note that the part at `path` has a feature: of those that `undrawn` lists, or one that a saved scene will lack."""
        self._features.setdefault(name, []).append(path)
