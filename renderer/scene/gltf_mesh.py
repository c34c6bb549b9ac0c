"""Meshes of a glTF file: primitives into geometries, as they look at rest.

A primitive is read in this order: its numbers (plain, or out of a Draco mesh), morph targets added with their default weights, the skin
that moves its vertices to where its joints stand, triangles out of strips and fans, triangles at positions that are not finite dropped,
tangents derived where a normal map has none. So the model needs to know neither morphs nor skins to show a file as it rests; a mesh
that is placed with other weights or another skin becomes another mesh.

What has been made of the same numbers in the same way is made once (`MeshReader._once`): files place a sphere a hundred times by as
many meshes that differ in their material alone, and those get the same array objects, by which the BVH knows them for one.

Whatever can be done without (normals, tangents, colours, one target) is left out with a warning; a primitive without usable positions
or indices is a `PartError`. Format: Khronos glTF 2.0 specification, section 3.7; KHR_materials_variants, KHR_draco_mesh_compression.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from renderer.scene.accessors import AccessorReader
from renderer.scene.compression import DRACO, DracoMesh, DracoPrimitive, unpack_draco
from renderer.scene.gltf_attributes import Attributes
from renderer.scene.gltf_json import Diagnostics, Document, PartError, Primitive, decode_part
from renderer.scene.model import Float32s, Float64s, Geometry, Material, Mesh

MODES = ("points", "lines", "line loops", "line strips", "triangles", "triangle strips", "triangle fans")
TRIANGLES, STRIP, FAN = 4, 5, 6
NORMAL_TOLERANCE = 2e-2  # of a vector's length: those stored as bytes are off by up to 1.5 per cent
VARIANTS = "KHR_materials_variants"
MOST_SETS = 8  # of texture coordinates
TANGENT_SLOTS = ("normal_texture", "clearcoat.normal_texture", "anisotropy.texture")  # what is given relative to the tangent

V = TypeVar("V")


class _Mapping(msgspec.Struct):
    material: int
    variants: list[int]


class _Mappings(msgspec.Struct):
    mappings: list[_Mapping]


@dataclass(frozen=True, eq=False)
class Pose:
    """How a mesh is placed: weights of its morph targets, and the matrices of its joints, float64[j, 4, 4], or None without a skin."""

    weights: tuple[float, ...] = ()
    joints: Float64s | None = None


REST = Pose()


class MeshReader:
    """Reads meshes of one document. `feature` is told of what a primitive has, by name and JSON path."""

    def __init__(
        self,
        document: Document,
        diagnostics: Diagnostics,
        reader: AccessorReader,
        materials: list[Material],
        variants: int,
        feature: Callable[[str, str], None],
    ) -> None:
        self._document, self._diagnostics, self._reader = document, diagnostics, reader
        self._materials, self._variants, self._feature = materials, variants, feature
        self._default_material: int | None = None
        self._packed: dict[int, DracoMesh | PartError] = {}  # by buffer view
        self._slots: dict[int, dict[str, int]] = {}  # of materials, by number
        self._kept: dict[Hashable, Any] = {}  # shapes, triangles, attributes, by what they were made of

    def mesh(self, number: int, pose: Pose = REST) -> Mesh:
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
                geometry = self._geometry(primitive, where, pose)
            except PartError as error:
                self._diagnostics.skipped(error, where)
                continue
            if source.weights and len(source.weights) != len(primitive.targets):
                counts = f"{len(source.weights)} weights for {len(primitive.targets)} morph targets"
                self._diagnostics.warning(f"{path}.weights", counts)
            if geometry is not None:
                geometries.append(geometry)
        return Mesh(source.name or f"mesh {number}", geometries)

    def _geometry(self, primitive: Primitive, path: str, pose: Pose) -> Geometry | None:
        """A primitive as triangles, None if none is finite. Raises `PartError` if it cannot be read or has none."""
        if not 0 <= primitive.mode < len(MODES):
            raise PartError(f"{path}.mode", f"mode {primitive.mode} is not within 0 and 6")
        if primitive.mode < TRIANGLES:
            self._feature(MODES[primitive.mode], f"{path}.mode")
            raise PartError(f"{path}.mode", f"{MODES[primitive.mode]} are not drawn")
        if "POSITION" not in primitive.attributes:
            raise PartError(f"{path}.attributes", "there is no POSITION")
        source = Attributes(primitive, path, self._reader, self._document, self._draco(primitive, path))
        material, variants = self._material(primitive.material, f"{path}.material"), self._mappings(primitive, path)
        textures = self._textures(material, *variants.values())
        along = next((textures[slot] for slot in TANGENT_SLOTS if slot in textures), None)
        joints = None if pose.joints is None else pose.joints.tobytes()
        key = (source.key(), along, pose.weights if primitive.targets else (), joints)
        made = self._once(key, lambda: self._shape(source, pose, along))
        if made is None:
            return None
        for slot, texcoord in textures.items():
            if texcoord >= len(made.texcoords):
                missing = f"there is no TEXCOORD_{texcoord}, which the {slot} of its material uses"
                self._diagnostics.warning(f"{path}.attributes", f"{missing}; it is not drawn here")
        return replace(made, material=material, variants=variants)

    def _once(self, key: Hashable, make: Callable[[], V]) -> V:
        """What is made of the numbers that `key` names, made once; others have it too, so its arrays are for reading only."""
        if key not in self._kept:
            made = self._kept[key] = make()
            g = made if isinstance(made, Geometry) else None
            for array in (made, *((g.positions, g.indices, g.normals, g.tangents, g.colours, *g.texcoords) if g is not None else ())):
                if isinstance(array, np.ndarray):
                    array.flags.writeable = False
        found: V = self._kept[key]
        return found

    def _shape(self, source: Attributes, pose: Pose, along: int | None) -> Geometry | None:
        """A primitive's triangles without its material, None if none is finite; `along`: the set of texture coordinates that tangents
        have to follow, None where none are needed."""
        primitive, path = source.primitive, source.primitive_path
        positions = source.floats("POSITION", ("VEC3",))
        vertices = len(positions)
        triangles = ("triangles", source.order(), primitive.mode, vertices)
        indices = self._once(triangles, lambda: self._indices(primitive, vertices, path, source.packed))
        if not len(indices):
            raise PartError(path, "there is no triangle")
        geometry = Geometry(
            positions,
            indices,
            self._attribute("NORMAL", source, vertices, self._normals),
            0,
            None,
            self._texcoords(source, vertices),
            self._attribute("COLOR_0", source, vertices, self._colours),
        )
        if geometry.normals is not None:
            geometry = replace(geometry, tangents=self._attribute("TANGENT", source, vertices, self._tangents))
        if primitive.targets:
            self._feature("morph targets", f"{path}.targets")
            geometry = self._morphed(geometry, primitive, path, pose.weights)
        if pose.joints is not None:
            geometry = self._skinned(geometry, source, pose.joints)
        kept = self._drop_non_finite(geometry.indices, geometry.positions, f"{path}.attributes.POSITION")
        if not len(kept):
            return None
        geometry = replace(geometry, indices=kept)
        if along is None or geometry.tangents is not None or along >= len(geometry.texcoords):
            return geometry
        from renderer.scene.tangents import with_tangents

        return with_tangents(geometry, along)

    def _draco(self, primitive: Primitive, path: str) -> DracoMesh | None:
        """The Draco mesh of a primitive, None where it has none or all of its numbers are there in plain too."""
        raw = primitive.extensions.get(DRACO)
        if raw is None:
            return None
        where = f"{path}.extensions.{DRACO}"
        packed = decode_part(raw, DracoPrimitive, where)
        used = [primitive.attributes[name] for name in packed.attributes if name in primitive.attributes]
        used += [primitive.indices] if primitive.indices is not None else []
        if all(self._reader.is_backed(index, where) for index in (*used, primitive.attributes["POSITION"])):
            return None
        found = self._packed.get(packed.buffer_view)
        if found is None:
            try:
                found = unpack_draco(self._reader.view(packed.buffer_view, f"{where}.bufferView")[0], where)
            except PartError as error:
                found = error
            self._packed[packed.buffer_view] = found
        if isinstance(found, PartError):
            raise found
        return found

    def _indices(self, primitive: Primitive, vertices: int, path: str, packed: DracoMesh | None) -> NDArray[np.uint32]:
        """The triangles of a primitive, uint32[m, 3]."""
        where = f"{path}.indices"
        if packed is not None:
            order = packed.faces.reshape(-1)
        elif primitive.indices is None:
            order = np.arange(vertices, dtype=np.uint32)
        else:
            order = self._reader.read_indices(primitive.indices, where)
        highest = int(order.max()) if len(order) else -1
        if highest >= vertices:
            raise PartError(where, f"vertex index {highest}, but there are {vertices} vertices")
        if packed is not None:
            return packed.faces
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

    def _attribute(
        self, name: str, source: Attributes, vertices: int, make: Callable[[Attributes, int], Float32s | None]
    ) -> Float32s | None:
        """An attribute as `make` makes it, the same array for primitives that have the same numbers."""
        if name not in source.primitive.attributes:
            return None
        return self._once((name, source.key(name), vertices), lambda: make(source, vertices))

    def _read(self, source: Attributes, name: str, kinds: Sequence[str], vertices: int, instead: str) -> Float32s | None:
        """An attribute float32[vertices, components]; None where it is absent or (with a warning) cannot be used."""
        if name not in source.primitive.attributes:
            return None
        path = source.path(name)
        try:
            values = source.floats(name, kinds)
            if len(values) != vertices:
                raise PartError(path, f"{len(values)} values for {vertices} positions")
        except PartError as error:
            self._diagnostics.skipped(error, path, f"is ignored{instead}")
            return None
        return values

    def _normals(self, source: Attributes, vertices: int) -> Float32s | None:
        """Unit normals float32[n, 3], zero where there is none; None where the geometry is to be flat."""
        normals = self._read(source, "NORMAL", ("VEC3",), vertices, ": flat shading instead")
        if normals is None:
            return None
        length = np.sqrt(np.einsum("ij,ij->i", normals, normals, dtype=np.float64))
        if (np.abs(length - 1.0) <= NORMAL_TOLERANCE).all():
            return normals
        off = int((~(np.abs(length - 1.0) <= NORMAL_TOLERANCE)).sum())
        self._diagnostics.warning(
            source.path("NORMAL"), f"{off} normals are not of unit length; normalised, or flat where that cannot be"
        )
        return _normalised(normals)

    def _tangents(self, source: Attributes, vertices: int) -> Float32s | None:
        """Tangents float32[n, 4], their directions of unit length, their sides 1 or -1."""
        tangents = self._read(source, "TANGENT", ("VEC4",), vertices, "")
        if tangents is None:
            return None
        direction = tangents[:, :3]
        length = np.sqrt(np.einsum("ij,ij->i", direction, direction, dtype=np.float64))
        good = (np.abs(length - 1.0) <= NORMAL_TOLERANCE) & (np.abs(tangents[:, 3]) == 1.0)
        if good.all():
            return tangents
        off = int((~good).sum())
        self._diagnostics.warning(source.path("TANGENT"), f"{off} tangents are not of unit length or of no side; put right")
        side = np.where(tangents[:, 3:] < 0.0, np.float32(-1.0), np.float32(1.0))
        return np.concatenate([_normalised(direction), side], 1)

    def _texcoords(self, source: Attributes, vertices: int) -> tuple[Float32s, ...]:
        """The sets of texture coordinates, up to the first that is not there."""
        sets: list[Float32s] = []
        while len(sets) < MOST_SETS:
            values = self._read(source, f"TEXCOORD_{len(sets)}", ("VEC2",), vertices, " with all sets after it")
            if values is None:
                break
            sets.append(values)
        return tuple(sets)

    def _colours(self, source: Attributes, vertices: int) -> Float32s | None:
        """Vertex colours float32[n, 4] within [0, 1], opaque where the file gives three channels."""
        values = self._read(source, "COLOR_0", ("VEC3", "VEC4"), vertices, "")
        if values is None:
            return None
        self._feature("colours", source.path("COLOR_0"))
        if not (np.logical_and(values >= 0.0, values <= 1.0)).all():
            self._diagnostics.warning(source.path("COLOR_0"), "colours are not within 0 and 1; clamped")
            values = np.clip(np.nan_to_num(values), np.float32(0.0), np.float32(1.0))
        return values if values.shape[1] == 4 else np.concatenate([values, np.ones((len(values), 1), np.float32)], 1)

    def _morphed(self, geometry: Geometry, primitive: Primitive, path: str, weights: tuple[float, ...]) -> Geometry:
        """With the displacements of the targets added, by their weights. A target that cannot be read is left out."""
        for number, target in enumerate(primitive.targets):
            weight = weights[number] if number < len(weights) else 0.0
            if weight == 0.0 and not self._diagnostics.strict:
                continue
            where = f"{path}.targets[{number}]"
            try:
                geometry = self._displaced(geometry, target, where, np.float32(weight))
            except PartError as error:
                self._diagnostics.skipped(error, where)
        if geometry.normals is not None:
            geometry = replace(geometry, normals=_normalised(geometry.normals))
        return geometry

    def _displaced(self, geometry: Geometry, target: dict[str, int], path: str, weight: np.float32) -> Geometry:
        vertices = len(geometry.positions)
        deltas: dict[str, Float32s] = {}
        for name, index in target.items():
            kind = "VEC2" if name.startswith("TEXCOORD_") else "VEC3"
            if name == "COLOR_0" and self._document.accessors.get(index, f"{path}.{name}").type == "VEC4":
                kind = "VEC4"
            if name in ("POSITION", "NORMAL", "TANGENT", "COLOR_0") or name.startswith("TEXCOORD_"):
                deltas[name] = self._reader.read_floats(index, f"{path}.{name}", kind) * weight
                if len(deltas[name]) != vertices:
                    raise PartError(f"{path}.{name}", f"{len(deltas[name])} displacements for {vertices} positions")

        def moved(name: str, values: Float32s | None) -> Float32s | None:
            if values is None or name not in deltas:
                return values
            changed = values.copy()
            changed[:, : deltas[name].shape[1]] += deltas[name]
            return np.clip(changed, np.float32(0.0), np.float32(1.0)) if name == "COLOR_0" else changed

        positions = moved("POSITION", geometry.positions)
        assert positions is not None
        return replace(
            geometry,
            positions=positions,
            normals=moved("NORMAL", geometry.normals),
            tangents=moved("TANGENT", geometry.tangents),
            texcoords=tuple(
                values + deltas[f"TEXCOORD_{k}"] if f"TEXCOORD_{k}" in deltas else values
                for k, values in enumerate(geometry.texcoords)
            ),
            colours=moved("COLOR_0", geometry.colours),
        )

    def _skinned(self, geometry: Geometry, source: Attributes, matrices: Float64s) -> Geometry:
        """With each vertex moved by its joints; as it was, with a warning, where what binds it cannot be read."""
        try:
            blend = self._bound(source, len(geometry.positions), matrices)
        except PartError as error:
            self._diagnostics.skipped(error, error.path, "is ignored: drawn without its skin")
            return geometry
        linear = blend[:, :, :3]
        positions = np.einsum("nij,nj->ni", linear, geometry.positions) + blend[:, :, 3]
        normals, tangents = geometry.normals, geometry.tangents
        if normals is not None:
            cofactors = np.stack([np.cross(linear[:, (i + 1) % 3], linear[:, (i + 2) % 3]) for i in range(3)], 1)
            normals = _normalised(np.einsum("nij,nj->ni", cofactors, normals).astype(np.float32))
        if tangents is not None:
            turned = _normalised(np.einsum("nij,nj->ni", linear, tangents[:, :3]).astype(np.float32))
            tangents = np.concatenate([turned, tangents[:, 3:]], 1)
        return replace(geometry, positions=positions.astype(np.float32), normals=normals, tangents=tangents)

    def _bound(self, source: Attributes, vertices: int, matrices: Float64s) -> Float64s:
        """The blend of matrices for each vertex, float64[n, 3, 4]. Raises `PartError`."""
        blend, total, number = np.zeros((vertices, 3, 4)), np.zeros(vertices), 0
        while f"JOINTS_{number}" in source.primitive.attributes and f"WEIGHTS_{number}" in source.primitive.attributes:
            name = f"JOINTS_{number}"
            joints, weights = source.integers(name), source.floats(f"WEIGHTS_{number}", ("VEC4",))
            if len(joints) != vertices or len(weights) != vertices or joints.shape[1] != 4:
                raise PartError(source.path(name), f"not one set of joints and weights for each of {vertices} positions")
            weights = np.where(np.isfinite(weights) & (weights > 0.0), weights, np.float32(0.0))
            if int(np.where(weights > 0.0, joints, 0).max()) >= len(matrices):
                raise PartError(source.path(name), f"joint {joints.max()}, but the skin has {len(matrices)}")
            for slot in range(4):
                used = weights[:, slot] > 0.0
                blend[used] += weights[used, slot, None, None] * matrices[joints[used, slot], :3]
                total += weights[:, slot]
            number += 1
        if not number or not (total > 0.0).all():
            raise PartError(source.path("WEIGHTS_0"), "vertices of a mesh with a skin have no weights")
        return blend / total[:, None, None]

    def _textures(self, *numbers: int) -> dict[str, int]:
        """The slots of materials that have a texture, or need tangents without one, and the set of coordinates of each."""
        found: dict[str, int] = {}
        for number in numbers:
            if number not in self._slots:
                material = self._materials[number]
                self._slots[number] = {slot: ref.texcoord for slot, ref in material.textures()}
                if material.anisotropy.strength > 0.0:
                    self._slots[number].setdefault("anisotropy.texture", 0)
            found |= self._slots[number]
        return found

    def _mappings(self, primitive: Primitive, path: str) -> dict[int, int]:
        """The material of a primitive in each variant that the extension names."""
        raw = primitive.extensions.get(VARIANTS)
        if raw is None:
            return {}
        where = f"{path}.extensions.{VARIANTS}"
        found: dict[int, int] = {}
        try:
            for place, mapping in enumerate(decode_part(raw, _Mappings, where).mappings):
                at = f"{where}.mappings[{place}]"
                self._document.materials.check(mapping.material, f"{at}.material")
                for slot, variant in enumerate(mapping.variants):
                    if not 0 <= variant < self._variants:
                        raise PartError(f"{at}.variants[{slot}]", f"variant {variant} does not exist (the file has {self._variants})")
                    found[variant] = mapping.material
        except PartError as error:
            self._diagnostics.skipped(error, where, "is ignored")
        return found

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


def _normalised(vectors: Float32s) -> Float32s:
    """Vectors float32[n, 3] of unit length, zero where that cannot be."""
    length = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    usable = np.isfinite(length) & (length > 0.0)
    scaled = np.zeros_like(vectors)
    scaled[usable] = vectors[usable] / length[usable, None]
    return scaled
