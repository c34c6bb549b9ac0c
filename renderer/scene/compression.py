"""Compressed geometry: buffer views packed by meshoptimizer, primitives packed by Draco.

Both decoders are compiled libraries (`meshopt`, `DracoPy`), imported when a file needs them. Their input comes from a file that somebody
else wrote: sizes are checked before they are asked to allocate anything, and whatever they raise is a `PartError` at the place in the
file. Draco numbers attributes by ids of its own, which the primitive's extension maps to names.
Format: EXT_meshopt_compression (KHR_meshopt_compression is the same with more filters and a newer stream), KHR_draco_mesh_compression.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from renderer.scene.gltf_json import PartError

MESHOPT = ("KHR_meshopt_compression", "EXT_meshopt_compression")
DRACO = "KHR_draco_mesh_compression"
PACKAGES = {DRACO: "DracoPy", **dict.fromkeys(MESHOPT, "meshopt")}
MOST_GROWTH = 1 << 14  # decoded bytes a stored byte: more than either codec reaches for data that is not all one value
SMALL = 1 << 24  # decoded bytes that are allowed whatever was stored


class MeshoptView(msgspec.Struct, rename="camel"):
    """What the extension of a buffer view says of the packed data."""

    buffer: int
    byte_length: int
    byte_stride: int
    count: int
    mode: Literal["ATTRIBUTES", "TRIANGLES", "INDICES"]
    byte_offset: int = 0
    filter: Literal["NONE", "OCTAHEDRAL", "QUATERNION", "EXPONENTIAL", "COLOR"] = "NONE"


class DracoPrimitive(msgspec.Struct, rename="camel"):
    """What the extension of a primitive says: where the data is, and the id of each attribute."""

    buffer_view: int
    attributes: dict[str, int]


class DracoMesh:
    """A decoded Draco mesh: triangles uint32[m, 3], and attributes [n, components] by their ids."""

    def __init__(self, faces: NDArray[np.uint32], attributes: dict[int, NDArray[Any]]) -> None:
        self.faces, self.attributes = faces, attributes


def unpack_meshopt(data: memoryview, packed: MeshoptView, path: str) -> memoryview:
    """The bytes of a packed buffer view, count * byteStride of them. Raises `PartError` where they cannot be had."""
    stride, count = packed.byte_stride, packed.count
    multiple = 4 if packed.mode == "ATTRIBUTES" else 2
    if not 0 < stride <= 256 or stride % multiple or (packed.mode != "ATTRIBUTES" and stride not in (2, 4)):
        raise PartError(f"{path}.byteStride", f"stride {stride} is none for {packed.mode}")
    if count < 1 or (packed.mode == "TRIANGLES" and count % 3):
        raise PartError(f"{path}.count", f"count {count} is none for {packed.mode}")
    if count * stride > max(SMALL, MOST_GROWTH * len(data)):
        raise PartError(f"{path}.count", f"{count} elements cannot be in {len(data)} bytes")
    meshopt = _package("meshopt", path)
    chosen = None if packed.filter == "NONE" else packed.filter
    try:
        unpacked = meshopt.decode_gltf_buffer(data, count, stride, packed.mode, chosen)
    except Exception as error:  # the library's own errors have no common class
        raise PartError(path, f"the packed data is damaged ({_reason(error)})") from None
    return memoryview(np.ascontiguousarray(unpacked).tobytes())


def unpack_draco(data: memoryview, path: str) -> DracoMesh:
    """A Draco mesh. Raises `PartError` where it cannot be had."""
    package = _package("DracoPy", path)
    try:
        mesh = package.decode(bytes(data))
        faces = np.ascontiguousarray(mesh.faces, np.uint32).reshape(-1, 3)
        attributes = {attribute["unique_id"]: np.asarray(attribute["data"]) for attribute in mesh.attributes}
    except Exception as error:  # the library's own errors have no common class
        raise PartError(path, f"the packed data is damaged ({_reason(error)})") from None
    return DracoMesh(faces, {key: data if data.ndim == 2 else data[:, None] for key, data in attributes.items()})


def _reason(error: Exception) -> str:
    text = str(error).splitlines()
    return text[0][:100] if text else type(error).__name__


def _package(name: str, path: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        raise PartError(path, f"needs the package {name}, which is not installed (pip install {name})") from None
