"""Textures, samplers and images of a glTF file: everything about pictures but their pixels.

Materials ask for slots (`TextureReader.ref`); what they have asked for is looked at in the end (`finish`): whether the file is there and
begins like a picture of a kind that can be decoded. So the faults of a picture that nothing shows cost nothing and are not told, except
in strict mode. `Scene.images` and `Scene.textures` keep the file's numbers; what is made from other pictures comes after them.

A texture may offer its picture in several kinds: WebP (EXT_texture_webp) is taken where it is there, then PNG or JPEG, and Basis Universal
(KHR_texture_basisu) where it is all there is, for it has lost the most and needs a package of its own (`ktx2`).
Format: Khronos glTF 2.0 specification, section 3.8; KHR_texture_transform.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from renderer.scene.accessors import AccessorReader, decode_data_uri, find_file
from renderer.scene.gltf_json import Diagnostics, Document, PartError, TextureInfo, decode_part
from renderer.scene.gltf_json import Image as ImageJson
from renderer.scene.gltf_json import Sampler as SamplerJson
from renderer.scene.gltf_json import Texture as TextureJson
from renderer.scene.ktx2 import MISSING, can_read, is_ktx2
from renderer.scene.model_texture import Filter, Image, Recipe, Texture, TextureRef, Wrap

FILTERS: dict[int | None, tuple[Filter, Filter | None]] = {
    None: ("linear", "linear"),
    9728: ("nearest", None),
    9729: ("linear", None),
    9984: ("nearest", "nearest"),
    9985: ("linear", "nearest"),
    9986: ("nearest", "linear"),
    9987: ("linear", "linear"),
}
REPEAT = 10497
WRAPS: dict[int, Wrap] = {REPEAT: "repeat", 33648: "mirror", 33071: "clamp"}
SOURCES = ("EXT_texture_webp", "KHR_texture_basisu")  # preferred to the texture's own `source`, and taken where that is missing

W = TypeVar("W")


class _Transform(msgspec.Struct, rename="camel"):
    offset: tuple[float, float] = (0.0, 0.0)
    rotation: float = 0.0
    scale: tuple[float, float] = (1.0, 1.0)
    tex_coord: int | None = None


class _Source(msgspec.Struct):
    source: int | None = None


def is_picture(head: bytes) -> bool:
    """Whether a file that begins so is a PNG, JPEG, WebP or KTX2 picture."""
    webp = head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    return head[:8] == b"\x89PNG\r\n\x1a\n" or head[:3] == b"\xff\xd8\xff" or webp or is_ktx2(head)


class TextureReader:
    """What materials refer to of a document's textures, and in the end the lists that the references index."""

    def __init__(
        self, document: Document, diagnostics: Diagnostics, reader: AccessorReader, feature: Callable[[str, str], None]
    ) -> None:
        self._document, self._diagnostics, self._reader, self._feature = document, diagnostics, reader, feature
        self._used: set[int] = set()
        self._derived: list[tuple[int, Recipe, float]] = []  # texture, and what is made of its picture

    def ref(self, info: TextureInfo | None, path: str, strength: float = 1.0) -> TextureRef | None:
        """A slot of a material, `path` its JSON path; None where it is empty or (with a warning) names no texture."""
        if info is None:
            return None
        try:
            self._document.textures.check(info.index, f"{path}.index")
            if info.tex_coord < 0:
                raise PartError(f"{path}.texCoord", f"set {info.tex_coord} does not exist")
        except PartError as error:
            self._diagnostics.skipped(error, path)
            return None
        self._used.add(info.index)
        self._feature("textures", path)
        moved = self._extension(info.extensions, "KHR_texture_transform", _Transform, path) or _Transform()
        texcoord = info.tex_coord if moved.tex_coord is None or moved.tex_coord < 0 else moved.tex_coord
        return TextureRef(info.index, texcoord, moved.offset, moved.rotation, moved.scale, strength)

    def derived(self, texture: int, recipe: Recipe, amount: float) -> int:
        """The number of a texture whose picture is made from that of another."""
        made = (texture, recipe, amount)
        if made not in self._derived:
            self._derived.append(made)
        return len(self._document.textures) + self._derived.index(made)

    def finish(self) -> tuple[list[Texture], list[Image]]:
        """All textures and images; warns of what is wrong with those that are used, in strict mode with any."""
        wanted: dict[int, None] = {}
        textures = []
        for number in range(len(self._document.textures)):
            texture = self._texture(number, number in self._used or self._diagnostics.strict)
            textures.append(texture)
            if texture.image is not None and (number in self._used or self._diagnostics.strict):
                wanted[texture.image] = None
        images = [
            self._image(number, number in wanted or self._diagnostics.strict) for number in range(len(self._document.images))
        ]
        for number, recipe, amount in self._derived:
            base = textures[number]
            image = None
            if base.image is not None:
                of = images[base.image]
                image = len(images)
                images.append(Image(of.name, of.source, of.at, recipe, amount))
            textures.append(Texture(image, base.mag, base.min, base.mip, base.wrap_s, base.wrap_t, base.name))
        return textures, images

    def _texture(self, number: int, wanted: bool) -> Texture:
        path = f"textures[{number}]"
        try:
            source = self._document.textures.get(number, path)
            image = self._source(source, path, wanted)
        except PartError as error:
            if wanted:
                self._diagnostics.skipped(error, path, "is replaced by a placeholder")
            return Texture(None)
        sampler = SamplerJson()
        if source.sampler is not None:
            try:
                sampler = self._document.samplers.get(source.sampler, f"{path}.sampler")
            except PartError as error:
                if wanted:
                    self._diagnostics.skipped(error, f"samplers[{source.sampler}]", "is replaced by the default sampler")

        def known(words: dict[Any, W], name: str, value: int | None, default: int | None) -> W:
            if value in words:
                return words[value]
            if wanted:
                self._diagnostics.warning(f"samplers[{source.sampler}].{name}", f"{value} is not known; the default is used")
            return words[default]

        mag, _ = known(FILTERS, "magFilter", sampler.mag_filter, None)
        small, mip = known(FILTERS, "minFilter", sampler.min_filter, None)
        wrap_s = known(WRAPS, "wrapS", sampler.wrap_s, REPEAT)
        return Texture(image, mag, small, mip, wrap_s, known(WRAPS, "wrapT", sampler.wrap_t, REPEAT), source.name)

    def _source(self, texture: TextureJson, path: str, wanted: bool) -> int | None:
        """The image that a texture shows. Raises `PartError` where it names one that does not exist."""
        webp, basis = (self._extension(texture.extensions, name, _Source, path) for name in SOURCES)
        offers = [
            (webp.source if webp else None, f"{path}.extensions.{SOURCES[0]}.source"),
            (texture.source, f"{path}.source"),
            (basis.source if basis else None, f"{path}.extensions.{SOURCES[1]}.source"),
        ]
        for image, where in offers:
            if image is not None:
                self._document.images.check(image, where)
                return image
        if wanted:
            self._diagnostics.warning(path, "has no picture that can be read; a placeholder is drawn")
        return None

    def _image(self, number: int, wanted: bool) -> Image:
        """An image, with a placeholder's empty source where it is not wanted or cannot be had."""
        path = f"images[{number}]"
        try:
            told = self._document.images.get(number, path)
        except PartError as error:
            if wanted:
                self._diagnostics.skipped(error, path, "is replaced by a placeholder")
            return Image("", None, path)
        if not wanted:
            return Image(told.name, None, path)
        source: bytes | memoryview | Path | None = None
        try:
            source = self._picture(told, path)
        except PartError as error:
            self._diagnostics.skipped(error, path, "is replaced by a placeholder")
        return Image(told.name or (source.stem if isinstance(source, Path) else ""), source, path)

    def _picture(self, told: ImageJson, path: str) -> bytes | memoryview | Path:
        """The bytes or the file of an image. Raises `PartError` where it is not there or no picture."""
        data: bytes | memoryview
        found: bytes | memoryview | Path
        if told.buffer_view is not None:
            found = data = self._reader.view(told.buffer_view, f"{path}.bufferView")[0]
        elif told.uri is None:
            raise PartError(path, "has neither a uri nor a buffer view")
        elif told.uri[:5].lower() == "data:":
            found = data = decode_data_uri(told.uri, f"{path}.uri")
        else:
            found = find_file(told.uri, self._document.folder, f"{path}.uri", self._diagnostics)
            try:
                with found.open("rb") as file:
                    data = file.read(16)
            except OSError as error:
                raise PartError(f"{path}.uri", f"'{found.name}' cannot be read: {(error.strerror or str(error)).lower()}") from None
        head = bytes(data[:16])
        if is_ktx2(head) and not can_read():
            raise PartError(path, MISSING)
        if not is_picture(head):
            raise PartError(path, "is no PNG, JPEG, WebP or KTX2 picture")
        return found

    def _extension(self, extensions: dict[str, msgspec.Raw], name: str, kind: type[Any], path: str) -> Any:
        """An extension of a texture or of a slot, None where it is absent or (with a warning) malformed."""
        raw = extensions.get(name)
        if raw is None:
            return None
        where = f"{path}.extensions.{name}"
        try:
            return decode_part(raw, kind, where)
        except PartError as error:
            self._diagnostics.skipped(error, where, "is ignored")
            return None
