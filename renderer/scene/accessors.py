"""Numbers out of a glTF file: buffers, views into them, and accessors, as NumPy arrays.

An accessor is a strided, typed window on bytes that somebody else wrote, with an optional list of exceptions (sparse)
laid over it; without a view the window looks on zeros.  All sizes are checked with Python's unbounded integers against
the bytes that are there before anything is allocated, so a count of 2**60 is a message and not a crash.  The result is
always an array of its own, C-contiguous and read-only, and is kept: primitives that share an accessor share the array.

Views may be packed by meshoptimizer (`compression`); they are unpacked once, and all else is as with plain ones.

URIs name files at or below the folder of the scene; all else (absolute, remote, climbing out by `..`) is refused.
They are percent-encoded by the book, but exporters forget that, so the name as written is tried after the decoded one.
Format: Khronos glTF 2.0 specification, section 3.6 (binary data storage).
"""

from __future__ import annotations

import binascii
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

import numpy as np
from numpy.typing import NDArray

from renderer.scene.compression import MESHOPT, MeshoptView, unpack_meshopt
from renderer.scene.gltf_json import Accessor, BufferView, Diagnostics, Document, PartError, decode_part
from renderer.scene.model import Float32s

COMPONENT_TYPES: dict[int, np.dtype[Any]] = {
    5120: np.dtype("<i1"),
    5121: np.dtype("<u1"),
    5122: np.dtype("<i2"),
    5123: np.dtype("<u2"),
    5125: np.dtype("<u4"),
    5126: np.dtype("<f4"),
}
SHAPES = {  # columns, rows
    "SCALAR": (1, 1),
    "VEC2": (1, 2),
    "VEC3": (1, 3),
    "VEC4": (1, 4),
    "MAT2": (2, 2),
    "MAT3": (3, 3),
    "MAT4": (4, 4),
}
LONGEST_STRIDE = 252
MOST_ZEROS = 1 << 26  # components of an accessor that no bytes of the file back up: 256 MiB

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


class AccessorReader:
    """Reads the accessors of one document. Each method raises `PartError` naming the JSON path at fault."""

    def __init__(self, document: Document, diagnostics: Diagnostics) -> None:
        self._document, self._diagnostics = document, diagnostics
        self._buffers: dict[int, memoryview | PartError] = {}
        self._unpacked: dict[int, memoryview | PartError] = {}  # buffer views that were compressed
        self._arrays: dict[int, NDArray[Any]] = {}
        self._converted: dict[tuple[int, str], NDArray[Any]] = {}  # by accessor and dtype

    def read(self, index: int, used_at: str) -> NDArray[Any]:
        """The accessor as stored: [count, components] of its component type; matrices are flattened column by column.

        `used_at` is the JSON path that holds the index.
        """
        accessor = self._document.accessors.get(index, used_at)
        found = self._arrays.get(index)
        if found is None:
            found = self._read(accessor, f"accessors[{index}]")
            found.flags.writeable = False
            self._arrays[index] = found
        return found

    def read_floats(self, index: int, used_at: str, kind: str) -> Float32s:
        """The accessor, which must be of type `kind` ("VEC3" and so on), as float32[count, components].

        Normalised integers become [0, 1] or [-1, 1] (section 3.11), others are converted as they stand.
        """
        accessor = self._document.accessors.get(index, used_at)
        if accessor.type != kind:
            raise PartError(used_at, f"accessor {index} is {accessor.type} where {kind} is needed")
        return self._as(index, "float32", lambda stored: as_floats(stored, accessor.normalized), used_at)

    def read_indices(self, index: int, used_at: str) -> NDArray[np.uint32]:
        """An accessor of vertex indices, as uint32[count]."""
        accessor = self._document.accessors.get(index, used_at)
        if accessor.type != "SCALAR" or accessor.component_type not in (5121, 5123, 5125) or accessor.normalized:
            kind = f"{accessor.type} of component type {accessor.component_type}"
            raise PartError(used_at, f"accessor {index} is {kind}; indices are unsigned SCALARs (5121, 5123 or 5125)")
        return self._as(index, "uint32", lambda stored: stored[:, 0].astype(np.uint32), used_at)

    def _as(self, index: int, dtype: str, convert: Callable[[NDArray[Any]], NDArray[Any]], used_at: str) -> NDArray[Any]:
        """The accessor converted, once: geometries that share it share the array."""
        found = self._converted.get((index, dtype))
        if found is None:
            found = convert(self.read(index, used_at))
            found.flags.writeable = False
            self._converted[index, dtype] = found
        return found

    def is_backed(self, index: int, used_at: str) -> bool:
        """Whether bytes of the file stand behind the accessor: one without view and sparse values is all zeros."""
        accessor = self._document.accessors.get(index, used_at)
        return accessor.buffer_view is not None or accessor.sparse is not None

    def _read(self, accessor: Accessor, path: str) -> NDArray[Any]:
        if accessor.count < 1:
            raise PartError(f"{path}.count", f"the count is {accessor.count}, but must be at least 1")
        dtype, shape = COMPONENT_TYPES[accessor.component_type], SHAPES[accessor.type]
        components = shape[0] * shape[1]
        if accessor.buffer_view is not None:
            values = self._window(accessor.buffer_view, accessor.byte_offset, accessor.count, dtype, shape, path)
        else:
            if accessor.count * components > MOST_ZEROS:
                raise PartError(
                    f"{path}.count", f"count {accessor.count} is too many for an accessor without buffer view"
                )
            values = np.zeros((accessor.count, components), dtype)
        sparse = accessor.sparse
        if sparse is None:
            return values
        if not 1 <= sparse.count <= accessor.count:
            raise PartError(f"{path}.sparse.count", f"count {sparse.count} is not within 1 and {accessor.count}")
        where = self._window(
            sparse.indices.buffer_view,
            sparse.indices.byte_offset,
            sparse.count,
            COMPONENT_TYPES[sparse.indices.component_type],
            (1, 1),
            f"{path}.sparse.indices",
        )[:, 0]
        if int(where.max()) >= accessor.count:
            raise PartError(
                f"{path}.sparse.indices", f"index {where.max()} is past the last of {accessor.count} elements"
            )
        exceptions, sparse_path = sparse.values, f"{path}.sparse.values"
        values[where] = self._window(
            exceptions.buffer_view, exceptions.byte_offset, sparse.count, dtype, shape, sparse_path
        )
        return values

    def _window(
        self, view_index: int, offset: int, count: int, dtype: np.dtype[Any], shape: tuple[int, int], path: str
    ) -> NDArray[Any]:
        """A copy of `count` elements of `shape` (columns, rows) at `offset` in a view: [count, columns * rows]."""
        data, stride = self.view(view_index, f"{path}.bufferView")
        columns, rows = shape
        # The columns of a matrix begin at multiples of four bytes (section 3.6.2.4).
        column = rows * dtype.itemsize if columns == 1 else -(-rows * dtype.itemsize // 4) * 4
        element = column * columns
        stride = element if stride is None else stride
        if stride < element:
            where = f"bufferViews[{view_index}].byteStride"
            raise PartError(where, f"stride {stride} is below the element size {element}")
        if offset < 0:
            raise PartError(f"{path}.byteOffset", f"offset {offset} is negative")
        last = (columns - 1) * column + rows * dtype.itemsize  # a last column needs no padding
        if offset + (count - 1) * stride + last > len(data):
            raise PartError(path, f"{count} elements end past the {len(data)} bytes of buffer view {view_index}")
        if offset % dtype.itemsize or stride % dtype.itemsize:
            self._diagnostics.warning(f"{path}.byteOffset", f"not aligned to {dtype.itemsize} bytes; read all the same")
        window = np.ndarray((count, columns, rows), dtype, data, offset, (stride, column, dtype.itemsize))
        return np.array(window, dtype.newbyteorder("="), order="C").reshape(count, columns * rows)

    def view(self, index: int, used_at: str) -> tuple[memoryview, int | None]:
        """The bytes of a buffer view, unpacked where they are compressed, and its stride if it states one."""
        view = self._document.buffer_views.get(index, used_at)
        path = f"bufferViews[{index}]"
        if view.byte_stride is not None and not 4 <= view.byte_stride <= LONGEST_STRIDE:
            raise PartError(f"{path}.byteStride", f"stride {view.byte_stride} is not within 4 and {LONGEST_STRIDE}")
        for name in MESHOPT:
            if name in view.extensions:
                return self._compressed(index, view, name), view.byte_stride
        return self._range(view.buffer, view.byte_offset, view.byte_length, path), view.byte_stride

    def _range(self, buffer: int, offset: int, length: int, path: str) -> memoryview:
        """So many bytes of a buffer; `path` is the place that asks for them."""
        data = self._buffer(buffer, f"{path}.buffer")
        if offset < 0 or length < 1:
            raise PartError(path, f"byteOffset {offset}, byteLength {length} are no range of bytes")
        if offset + length > len(data):
            end = offset + length
            raise PartError(f"{path}.byteLength", f"ends at byte {end} of buffer {buffer}, which has {len(data)}")
        return data[offset : offset + length]

    def _compressed(self, index: int, view: BufferView, name: str) -> memoryview:
        """The bytes of a view that is packed by meshoptimizer, unpacked once."""
        found = self._unpacked.get(index)
        if found is None:
            path = f"bufferViews[{index}].extensions.{name}"
            try:
                packed = decode_part(view.extensions[name], MeshoptView, path)
                data = self._range(packed.buffer, packed.byte_offset, packed.byte_length, path)
                found = unpack_meshopt(data, packed, path)
            except PartError as error:
                found = error
            self._unpacked[index] = found
        if isinstance(found, PartError):
            raise found
        return found

    def _buffer(self, index: int, used_at: str) -> memoryview:
        """The first byteLength bytes of a buffer, read once."""
        self._document.buffers.check(index, used_at)
        found = self._buffers.get(index)
        if found is None:
            try:
                found = self._read_buffer(index, used_at)
            except PartError as error:
                found = error
            self._buffers[index] = found
        if isinstance(found, PartError):
            raise found
        return found

    def _read_buffer(self, index: int, used_at: str) -> memoryview:
        buffer = self._document.buffers.get(index, used_at)
        path, length = f"buffers[{index}]", buffer.byte_length
        if length < 1:
            raise PartError(f"{path}.byteLength", f"byteLength {length} is not positive")
        if buffer.uri is None:
            if index or self._document.binary is None:
                raise PartError(path, "has no uri, and the file has no binary chunk for it")
            data = self._document.binary
        elif buffer.uri[:5].lower() == "data:":
            data = memoryview(decode_data_uri(buffer.uri, f"{path}.uri"))
        else:
            file = find_file(buffer.uri, self._document.folder, f"{path}.uri", self._diagnostics)
            data = memoryview(_read_file(file, length, f"{path}.uri"))
        if len(data) < length:
            raise PartError(f"{path}.byteLength", f"byteLength is {length}, but there are {len(data)} bytes")
        return data[:length]


def as_floats(stored: NDArray[Any], normalized: bool) -> Float32s:
    """Stored numbers as float32: normalised integers become [0, 1] or [-1, 1], others are converted as they stand."""
    if stored.dtype == np.float32:
        return stored
    values: Float32s = stored.astype(np.float32)
    if normalized:
        values = np.maximum(values / np.float32(np.iinfo(stored.dtype).max), np.float32(-1.0))
    return values


def decode_data_uri(uri: str, path: str) -> bytes:
    """The bytes of a data: URI, base64 or percent-encoded. Raises `PartError` at `path`."""
    header, comma, body = uri.partition(",")
    if not comma:
        raise PartError(path, "a data URI without a comma")
    if not header.lower().endswith(";base64"):
        return unquote_to_bytes(body)
    try:
        return binascii.a2b_base64(unquote(body) if "%" in body else body)
    except (binascii.Error, ValueError):
        raise PartError(path, "a data URI whose base64 is damaged") from None


def find_file(uri: str, folder: Path, path: str, diagnostics: Diagnostics) -> Path:
    """The file that a relative URI names at or below `folder`.

    The percent-decoded name is tried first, then the name as written (with a warning). Raises `PartError` at `path` for
    a URI that is absolute, remote or leaves the folder, and for a file that is not there.
    """
    shown = uri if len(uri) <= 80 else uri[:77] + "..."
    if SCHEME.match(uri) or uri[:1] in ("/", "\\"):
        raise PartError(path, f"'{shown}' is absolute or remote; only files beside the scene file are read")
    decoded = unquote(uri)
    for name in dict.fromkeys((decoded, uri)):
        inside = os.path.normpath(name)
        if inside.split(os.sep)[0] == os.pardir or os.path.isabs(inside):
            raise PartError(path, f"'{shown}' leaves the folder of the scene file; only files at or below it are read")
        try:
            there = (folder / inside).is_file()
        except (OSError, ValueError):  # a name too long, or with a null character
            there = False
        if there:
            if name != decoded or STRAY_PERCENT.search(uri):
                diagnostics.warning(path, f"'{shown}' is not percent-encoded; taken as it is written")
            return folder / inside
    raise PartError(path, f"no file '{shown}' beside the scene file")


def _read_file(file: Path, length: int, path: str) -> bytes:
    """The first `length` bytes of a file, fewer if it is shorter."""
    try:
        with file.open("rb") as stream:
            return stream.read(min(length, os.fstat(stream.fileno()).st_size))
    except OSError as error:
        raise PartError(path, f"'{file.name}' cannot be read: {(error.strerror or str(error)).lower()}") from None
