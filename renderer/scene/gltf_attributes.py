"""What the vertices of a glTF primitive have, by name: out of its accessors, or out of a Draco mesh.

Where a primitive is packed, the extension says which attributes are in the packed mesh and by what number; the others are plain. Who
reads them need not know. And whichever it is, `key` names the source of the numbers, so that two primitives with equal keys can share
what is made of them: accessors count as equal where they say the same (`AccessorReader.key`), packed attributes where they are of one
buffer view and have one number.
Format: Khronos glTF 2.0 specification, section 3.7.2; KHR_draco_mesh_compression.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renderer.scene.accessors import COMPONENT_TYPES, AccessorReader, as_floats
from renderer.scene.compression import DRACO, DracoMesh, DracoPrimitive
from renderer.scene.gltf_json import Document, PartError, Primitive, decode_part
from renderer.scene.model import Float32s


class Attributes:
    """The attributes of one primitive, from its accessors or from its Draco mesh."""

    def __init__(
        self, primitive: Primitive, path: str, reader: AccessorReader, document: Document, packed: DracoMesh | None
    ) -> None:
        self.primitive, self.primitive_path, self.packed = primitive, path, packed
        self._reader, self._document = reader, document
        self._ids: dict[str, int] = {}
        self._view = 0
        if packed is not None:
            told = decode_part(primitive.extensions[DRACO], DracoPrimitive, path)
            self._ids, self._view = told.attributes, told.buffer_view

    def path(self, name: str) -> str:
        return f"{self.primitive_path}.attributes.{name}"

    def key(self, name: str | None = None) -> Hashable:
        """What an attribute is read from, or all that the shape is read from: equal where the numbers are."""
        primitive, accessor = self.primitive, self._reader.key
        if name is not None:
            return (accessor(primitive.attributes[name]), (self._view, self._ids[name]) if name in self._ids else None)
        targets = tuple(tuple((name, accessor(target[name])) for name in sorted(target)) for target in primitive.targets)
        attributes = tuple((name, self.key(name)) for name in sorted(primitive.attributes))
        return (primitive.mode, self.order(), attributes, targets)

    def order(self) -> Hashable:
        """What the order of the vertices is read from, equal where that is the same."""
        indices = self.primitive.indices
        return ("packed", self._view) if self.packed is not None else None if indices is None else self._reader.key(indices)

    def floats(self, name: str, kinds: Sequence[str]) -> Float32s:
        """An attribute of one of these types as float32[count, components]. Raises `PartError`."""
        index, path = self.primitive.attributes[name], self.path(name)
        accessor = self._document.accessors.get(index, path)
        kind = accessor.type if accessor.type in kinds else kinds[0]
        if name not in self._ids:
            return self._reader.read_floats(index, path, kind)
        stored = self._unpacked(name, accessor.count)
        if accessor.type != kind or stored.shape[1] != int(kind[-1]):
            raise PartError(path, f"accessor {index} is {accessor.type} of {stored.shape[1]} components where {kind} is needed")
        return np.ascontiguousarray(as_floats(stored.astype(COMPONENT_TYPES[accessor.component_type]), accessor.normalized))

    def integers(self, name: str) -> NDArray[np.int64]:
        """An attribute of unsigned integers as int64[count, components]. Raises `PartError`."""
        index, path = self.primitive.attributes[name], self.path(name)
        accessor = self._document.accessors.get(index, path)
        if accessor.component_type not in (5121, 5123) or accessor.normalized:
            raise PartError(path, f"accessor {index} is of component type {accessor.component_type}; 5121 or 5123 is needed")
        stored: NDArray[Any] = self._unpacked(name, accessor.count) if name in self._ids else self._reader.read(index, path)
        return stored.astype(np.int64)

    def _unpacked(self, name: str, count: int) -> NDArray[Any]:
        assert self.packed is not None
        found = self.packed.attributes.get(self._ids[name])
        where = f"{self.primitive_path}.extensions.{DRACO}.attributes.{name}"
        if found is None:
            raise PartError(where, f"the packed data has no attribute {self._ids[name]}")
        if len(found) != count:
            raise PartError(where, f"the packed data has {len(found)} values, the accessor says {count}")
        return found
