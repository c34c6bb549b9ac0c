"""A glTF file as typed JSON: the container, the document's tables, and how faults are told.

The root object is decoded at once, but each element of its arrays stays raw until somebody asks for it.  So a wrong
value in one material costs that material, not the file, and the message can name its JSON path.  Three kinds of fault:

- the file cannot be shown: `SceneError`, at once;
- one part is bad: whoever finds it raises `PartError` with the JSON path, whoever can do without the part catches it
  and hands it to `Diagnostics`, which warns once for each path (in strict mode it raises `SceneError` instead);
- something is odd but readable: straight to `Diagnostics.warning`.

Indices are checked in one place, `Table.get`: a Python list would take -1 for the last element.
Format: Khronos glTF 2.0 specification, chapters 4 (GLB container) and 5 (properties).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec

from renderer.scene.model import SceneError
from renderer.scene.scene_file import read_bytes

MAGIC = b"glTF"
BOM = b"\xef\xbb\xbf"
JSON_CHUNK, BINARY_CHUNK = b"JSON", b"BIN\0"

T = TypeVar("T")
Vec3 = tuple[float, float, float]
Vec4 = tuple[float, float, float, float]
Extensions = dict[str, msgspec.Raw]
UNSIGNED_TYPES = Literal[5121, 5123, 5125]


class PartError(Exception):
    """One part of the file is bad; `path` is its JSON path."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path, self.message = path, message


class Diagnostics:
    """Collects warnings, one for each JSON path, and passes each on; in strict mode the first is a `SceneError`."""

    def __init__(self, file: Path, strict: bool, warn: Callable[[str], None] | None) -> None:
        self.file, self.strict, self.warn = file, strict, warn
        self.messages: list[str] = []
        self._told: set[str] = set()

    def warning(self, path: str, message: str) -> None:
        """Tell of `message` at the JSON path, unless something has been told of that path already."""
        key = path or message
        if key in self._told:
            return
        self._told.add(key)
        text = f"{path}: {message}" if path else message
        if self.strict:
            raise SceneError(f"{self.file}: {text} (an error because of strict mode)")
        self.messages.append(text)
        if self.warn is not None:
            self.warn(text)

    def skipped(self, error: PartError, part: str, instead: str = "is skipped") -> None:
        """Tell that `part` could not be had because of `error`, and what happens instead."""
        what = "it" if error.path.startswith(part) else part
        self.warning(error.path, f"{error.message}; {what} {instead}")


def within(value: float, low: float, high: float, path: str, diagnostics: Diagnostics) -> float:
    """The value, or (with a warning at its JSON path) the bound that it is beyond."""
    if low <= value <= high:
        return value
    clamped = min(max(value, low), high)
    limits = f"within {low:g} and {high:g}" if math.isfinite(high) else f"{low:g} or more"
    diagnostics.warning(path, f"{value:g} is not {limits}; {clamped:g} is used")
    return clamped


class _Object(msgspec.Struct, rename="camel"):
    """A JSON object of glTF: camelCase names, unknown properties ignored."""


class Asset(_Object):
    version: str
    min_version: str | None = None


class Scene(_Object):
    nodes: list[int] = []
    extras: Any = None


class Node(_Object):
    name: str = ""
    children: list[int] = []
    mesh: int | None = None
    camera: int | None = None
    skin: int | None = None
    matrix: Annotated[list[float], msgspec.Meta(min_length=16, max_length=16)] | None = None
    translation: Vec3 | None = None
    rotation: Vec4 | None = None
    scale: Vec3 | None = None
    weights: list[float] = []
    extensions: Extensions = {}


class Primitive(_Object):
    attributes: dict[str, int]
    indices: int | None = None
    material: int | None = None
    mode: int = 4
    targets: list[dict[str, int]] = []
    extensions: Extensions = {}


class Mesh(_Object):
    primitives: list[msgspec.Raw]
    name: str = ""
    weights: list[float] = []


class SparseIndices(_Object):
    buffer_view: int
    component_type: UNSIGNED_TYPES
    byte_offset: int = 0


class SparseValues(_Object):
    buffer_view: int
    byte_offset: int = 0


class Sparse(_Object):
    count: int
    indices: SparseIndices
    values: SparseValues


class Accessor(_Object):
    component_type: Literal[5120, 5121, 5122, 5123, 5125, 5126]
    count: int
    type: Literal["SCALAR", "VEC2", "VEC3", "VEC4", "MAT2", "MAT3", "MAT4"]
    buffer_view: int | None = None
    byte_offset: int = 0
    normalized: bool = False
    sparse: Sparse | None = None


class BufferView(_Object):
    buffer: int
    byte_length: int
    byte_offset: int = 0
    byte_stride: int | None = None
    extensions: Extensions = {}


class Buffer(_Object):
    byte_length: int
    uri: str | None = None


class PerspectiveJson(_Object):
    yfov: float
    znear: float
    zfar: float | None = None
    aspect_ratio: float | None = None


class OrthographicJson(_Object):
    xmag: float
    ymag: float
    znear: float
    zfar: float


class Camera(_Object):
    type: Literal["perspective", "orthographic"]
    name: str = ""
    perspective: PerspectiveJson | None = None
    orthographic: OrthographicJson | None = None
    extras: Any = None


class TextureInfo(_Object):
    """A slot of a material. `scale` is there for normal maps only, `strength` for occlusion maps only."""

    index: int
    tex_coord: int = 0
    scale: float = 1.0
    strength: float = 1.0
    extensions: Extensions = {}


class Texture(_Object):
    name: str = ""
    source: int | None = None
    sampler: int | None = None
    extensions: Extensions = {}


class Image(_Object):
    name: str = ""
    uri: str | None = None
    mime_type: str | None = None
    buffer_view: int | None = None


class Sampler(_Object):
    mag_filter: int | None = None
    min_filter: int | None = None
    wrap_s: int = 10497
    wrap_t: int = 10497


class Skin(_Object):
    joints: list[int]
    inverse_bind_matrices: int | None = None


class MetallicRoughness(_Object):
    base_color_factor: Vec4 = (1.0, 1.0, 1.0, 1.0)
    metallic_factor: float = 1.0
    roughness_factor: float = 1.0
    base_color_texture: TextureInfo | None = None
    metallic_roughness_texture: TextureInfo | None = None


class Material(_Object):
    name: str = ""
    pbr_metallic_roughness: MetallicRoughness = msgspec.field(default_factory=MetallicRoughness)
    normal_texture: TextureInfo | None = None
    occlusion_texture: TextureInfo | None = None
    emissive_texture: TextureInfo | None = None
    emissive_factor: Vec3 = (0.0, 0.0, 0.0)
    alpha_mode: Literal["OPAQUE", "MASK", "BLEND"] = "OPAQUE"
    alpha_cutoff: float = 0.5
    double_sided: bool = False
    extensions: Extensions = {}


class Root(_Object):
    asset: Asset
    scene: int | None = None
    scenes: list[msgspec.Raw] = []
    nodes: list[msgspec.Raw] = []
    meshes: list[msgspec.Raw] = []
    accessors: list[msgspec.Raw] = []
    buffer_views: list[msgspec.Raw] = []
    buffers: list[msgspec.Raw] = []
    cameras: list[msgspec.Raw] = []
    materials: list[msgspec.Raw] = []
    textures: list[msgspec.Raw] = []
    images: list[msgspec.Raw] = []
    samplers: list[msgspec.Raw] = []
    skins: list[msgspec.Raw] = []
    animations: list[msgspec.Raw] = []
    extensions_used: list[str] = []
    extensions_required: list[str] = []
    extensions: Extensions = {}


def decode_part(raw: msgspec.Raw, kind: type[T], path: str) -> T:
    """Decode one element. Raises `PartError` naming the exact JSON path below `path`."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        message, _, where = str(error).partition(" - at `$")
        raise PartError(path + where.rstrip("`"), _lower_first(message)) from None


class Table(Generic[T]):
    """One of the root's arrays: elements decoded when asked for, and kept."""

    def __init__(self, name: str, singular: str, raws: list[msgspec.Raw], kind: type[T]) -> None:
        self.name, self.singular = name, singular
        self._raws, self._kind = raws, kind
        self._cache: dict[int, T | PartError] = {}

    def __len__(self) -> int:
        return len(self._raws)

    def check(self, index: int, used_at: str) -> None:
        """Raise `PartError` at `used_at`, the JSON path that holds the index, if there is no such element."""
        if not 0 <= index < len(self._raws):
            have = f"the file has {len(self._raws)}" if self._raws else "the file has none"
            raise PartError(used_at, f"{self.singular} {index} does not exist ({have})")

    def get(self, index: int, used_at: str) -> T:
        """The element. Raises `PartError`: at `used_at` if there is none, at its own path if it is malformed."""
        self.check(index, used_at)
        found = self._cache.get(index)
        if found is None:
            try:
                found = decode_part(self._raws[index], self._kind, f"{self.name}[{index}]")
            except PartError as error:
                found = error
            self._cache[index] = found
        if isinstance(found, PartError):
            raise found
        return found


class Document:
    """A glTF document: `root`, its tables, the GLB's `binary` chunk if any, and the `folder` that URIs start from."""

    def __init__(self, file: Path, root: Root, binary: memoryview | None) -> None:
        self.file, self.folder, self.root, self.binary = file, file.parent, root, binary
        self.scenes = Table("scenes", "scene", root.scenes, Scene)
        self.nodes = Table("nodes", "node", root.nodes, Node)
        self.meshes = Table("meshes", "mesh", root.meshes, Mesh)
        self.accessors = Table("accessors", "accessor", root.accessors, Accessor)
        self.buffer_views = Table("bufferViews", "buffer view", root.buffer_views, BufferView)
        self.buffers = Table("buffers", "buffer", root.buffers, Buffer)
        self.cameras = Table("cameras", "camera", root.cameras, Camera)
        self.materials = Table("materials", "material", root.materials, Material)
        self.textures = Table("textures", "texture", root.textures, Texture)
        self.images = Table("images", "image", root.images, Image)
        self.samplers = Table("samplers", "sampler", root.samplers, Sampler)
        self.skins = Table("skins", "skin", root.skins, Skin)


def read_document(file: Path, diagnostics: Diagnostics) -> Document:
    """Read a .gltf or .glb file, told apart by content. Raises `SceneError` if it is neither, or broken as a whole."""
    data = read_bytes(file)
    binary = None
    text: bytes | memoryview = data
    if data[:4] == MAGIC:
        text, binary = _split_container(file, data, diagnostics)
    if bytes(text[:3]) == BOM:
        diagnostics.warning("", "the JSON begins with a byte order mark, which glTF forbids; it is ignored")
        text = text[3:]
    return Document(file, _decode_root(file, text), binary)


def _split_container(file: Path, data: bytes, diagnostics: Diagnostics) -> tuple[memoryview, memoryview | None]:
    """The JSON chunk and the binary chunk of a GLB."""
    if len(data) < 12:
        raise SceneError(f"{file}: cut off inside the GLB header; copy or export the file again")
    version, declared = struct.unpack_from("<II", data, 4)
    if version != 2:
        raise SceneError(f"{file}: GLB version {version}, but only version 2 is supported; convert it to glTF 2.0")
    if declared > len(data):
        raise SceneError(f"{file}: cut off: {len(data)} bytes of {declared}; copy or export the file again")
    if declared < 20:
        raise SceneError(f"{file}: the GLB header declares {declared} bytes, too few for a JSON chunk; export it again")
    if declared < len(data):
        diagnostics.warning("", f"{len(data) - declared} bytes after the declared end of the GLB are ignored")
    chunks: list[tuple[bytes, memoryview]] = []
    view, offset = memoryview(data), 12
    while offset < declared:
        if declared - offset < 8:
            raise SceneError(f"{file}: GLB chunk {len(chunks)} has a header that is cut off; export the file again")
        length, kind = struct.unpack_from("<I4s", data, offset)
        offset += 8
        if length % 4:
            raise SceneError(f"{file}: GLB chunk {len(chunks)} is {length} bytes, not a multiple of 4; export it again")
        if length > declared - offset:
            left = declared - offset
            raise SceneError(f"{file}: GLB chunk {len(chunks)} is cut off: {left} bytes of {length}; export it again")
        chunks.append((kind, view[offset : offset + length]))
        offset += length
    if chunks[0][0] != JSON_CHUNK:
        raise SceneError(f"{file}: the first GLB chunk is not JSON; export the file again")
    for number, (kind, _) in enumerate(chunks[2:], 2):
        if kind in (JSON_CHUNK, BINARY_CHUNK):
            name = kind.decode().rstrip("\0")
            diagnostics.warning("", f"GLB chunk {number} is a misplaced {name} chunk; it is ignored")
    binary = chunks[1][1] if len(chunks) > 1 and chunks[1][0] == BINARY_CHUNK else None
    return chunks[0][1], binary


def _decode_root(file: Path, text: bytes | memoryview) -> Root:
    """The root object. Raises `SceneError` for what is not JSON, no object, or has a property of the wrong type."""
    try:
        return msgspec.json.decode(text, type=Root)
    except RecursionError:
        raise SceneError(f"{file}: the JSON is nested too deep to be a glTF file") from None
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$")
        place = where.strip("`.") or "the JSON's root"
        raise SceneError(f"{file}: {place}: {_lower_first(message)}; not a valid glTF file") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SceneError(f"{file}: {_lower_first(str(error))}; not a glTF file, or a damaged one") from None


def _lower_first(message: str) -> str:
    """A message of msgspec's, as it reads in the middle of a line."""
    return message if message.startswith("JSON") else message[:1].lower() + message[1:]
