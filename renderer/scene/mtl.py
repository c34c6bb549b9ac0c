"""Wavefront MTL: the materials of OBJ files, as metallic-roughness.

The format describes the Phong model of the nineties, and exporters have filled it in their own ways; what most of them mean: Kd is the
base colour; Ns, an exponent of highlights, is a roughness of sqrt(2 / (Ns + 2)) (B. Walter and others, "Microfacet Models for
Refraction", 2007, equation of the Blinn distribution's width); Ks 0.5 is the reflection of a common dielectric; Ke is emission; d or Tr
is coverage; Ni the index of refraction. The keys that were added for metallic-roughness (Pr, Pm, Ps, Pc, Pcr, aniso, anisor) say it
directly. A map_Bump may hold heights or normals: the picture itself tells (`Image.recipe`).

Pictures are looked for beside the .mtl file; an absolute path, as exporters love them, is tried by its last part. Nothing outside the
folder is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from renderer.scene.accessors import find_file
from renderer.scene.gltf_json import Diagnostics, PartError, within
from renderer.scene.mesh_files import NEUTRAL
from renderer.scene.model_material import Anisotropy, Clearcoat, Material, Sheen
from renderer.scene.model_texture import Image, Texture, TextureRef, Wrap

OPTIONS = {"-s": 3, "-o": 3, "-t": 3, "-mm": 2, "-bm": 1, "-blendu": 1, "-blendv": 1, "-clamp": 1, "-texres": 1, "-imfchan": 1}
OPTIONS |= {"-boost": 1, "-type": 1, "-colorspace": 1, "-cc": 1}
COLOUR_MAPS = {"map_kd": "base_color_texture", "map_ke": "emissive_texture"}
NORMAL_MAPS = ("norm", "map_kn", "map_bump", "bump")  # the first that is there
UNREAD = ("map_ks", "map_ka", "map_ns", "map_pr", "map_pm", "map_ps", "disp", "decal", "refl")


@dataclass
class Library:
    """What the .mtl files of an OBJ file hold; `complete` where all of them could be read."""

    materials: list[Material] = field(default_factory=list)
    textures: list[Texture] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    complete: bool = True


def read_libraries(
    named: list[tuple[int, str]], folder: Path, diagnostics: Diagnostics, number: Callable[[int], int]
) -> Library:
    """The materials of the files that `mtllib` lines name: (line, names). `number`: the number of a line, for warnings."""
    library = Library(complete=bool(named))
    for line, names in named:
        where = f"line {number(line)}"
        # Names may have blanks in them, or be several: the whole is tried first.
        for name in [names] if (folder / names).is_file() or len(names.split()) < 2 else names.split():
            try:
                file = find_file(name.replace("\\", "/"), folder, where, diagnostics)
                text = file.read_bytes().decode("utf-8", "replace")
            except PartError as error:
                diagnostics.warning(where, f"{error.message}; its materials are replaced by the default material")
                library.complete = False
                continue
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                diagnostics.warning(where, f"'{name}' cannot be read: {reason}; the default material is used")
                library.complete = False
                continue
            _read(text, file, library, diagnostics)
    return library


def _read(text: str, file: Path, library: Library, diagnostics: Diagnostics) -> None:
    """Adds the materials of one file."""
    told: dict[str, tuple[int, str]] = {}
    name: str | None = None
    for row, line in enumerate(text.replace("\\\n", " ").splitlines(), 1):
        key, _, value = line.split("#")[0].strip().partition(" ")
        if key.lower() == "newmtl":
            if name is not None:
                library.materials.append(_Reading(file, library, diagnostics, told).material(name))
            name, told = value.strip(), {}
        elif key:
            told[key.lower()] = (row, value.strip())
    if name is not None:
        library.materials.append(_Reading(file, library, diagnostics, told).material(name))


class _Reading:
    """One material: its lines by key, with their numbers."""

    def __init__(self, file: Path, library: Library, diagnostics: Diagnostics, told: dict[str, tuple[int, str]]) -> None:
        self.file, self.library, self.diagnostics, self.told = file, library, diagnostics, told

    def material(self, name: str) -> Material:
        red, green, blue = self.colour("kd", NEUTRAL.base_color_factor[:3], 1.0)
        shown = self.colour("ks", (0.5, 0.5, 0.5), 1.0)
        brightest = max(shown)
        exponent = self.number("ns", 0.0, 0.0, math.inf)
        opacity = self.number("d", 1.0 - self.number("tr", 0.0, 0.0, 1.0), 0.0, 1.0)
        material = Material(
            name,
            (red, green, blue, opacity),
            self.number("pm", 0.0, 0.0, 1.0),
            self.number("pr", math.sqrt(2.0 / (exponent + 2.0)), 0.0, 1.0),
            self.colour("ke", (0.0, 0.0, 0.0), math.inf),
            min(1.0, 2.0 * brightest),
            (shown[0] / brightest, shown[1] / brightest, shown[2] / brightest) if brightest > 0.0 else (1.0, 1.0, 1.0),
            max(1.0, self.number("ni", 1.5, 0.0, math.inf)),
            double_sided=True,
            alpha_mode="BLEND" if opacity < 1.0 else "OPAQUE",
            clearcoat=Clearcoat(self.number("pc", 0.0, 0.0, 1.0), self.number("pcr", 0.0, 0.0, 1.0)),
            sheen=Sheen((self.number("ps", 0.0, 0.0, 1.0),) * 3, 0.5 if "ps" in self.told else 0.0),
            anisotropy=Anisotropy(self.number("aniso", 0.0, 0.0, 1.0), math.tau * self.number("anisor", 0.0, 0.0, 1.0)),
        )
        return self.mapped(material)

    def mapped(self, material: Material) -> Material:
        """With the textures that can be had."""
        slots: dict[str, Any] = {slot: self.map(key, "") for key, slot in COLOUR_MAPS.items()}
        slots["normal_texture"] = next((self.map(key, "bump") for key in NORMAL_MAPS if key in self.told), None)
        if slots["emissive_texture"] is not None and "ke" not in self.told:
            slots["emissive"] = (1.0, 1.0, 1.0)
        if "map_d" in self.told:
            alpha = self.map("map_d", "")
            if alpha is not None:
                slots["base_color_texture"] = self.cut_out(slots["base_color_texture"], alpha)
                slots["alpha_mode"] = "BLEND"
        for key in UNREAD:
            if key in self.told:
                self.diagnostics.warning(f"{self.file.name} {key}", "is a picture that is not read; the factor is used")
        return replace(material, **slots)

    def cut_out(self, colour: TextureRef | None, alpha: TextureRef) -> TextureRef:
        """A texture with the coverage that another gives; the same file has it in its alpha channel already."""
        textures, images = self.library.textures, self.library.images
        ref = colour or alpha
        base, other = textures[ref.texture], textures[alpha.texture]
        assert base.image is not None and other.image is not None
        source = images[other.image].source
        if colour is not None and images[base.image].source == source:
            return colour
        made = replace(images[base.image], alpha=source if isinstance(source, Path) else None)
        images.append(made)
        textures.append(replace(base, image=len(images) - 1))
        return replace(ref, texture=len(textures) - 1)

    def map(self, key: str, recipe: Any) -> TextureRef | None:
        """The texture of a key, None where it is absent or (with a warning) not to be had."""
        if key not in self.told:
            return None
        row, value = self.told[key]
        where = f"{self.file.name}: line {row}"
        options, name = _options(value)
        try:
            source = self.find(name, where)
        except PartError as error:
            self.diagnostics.skipped(error, where, "is drawn without")
            return None
        strength = _first(options.get("-bm"), 1.0)
        wrap: Wrap = "clamp" if options.get("-clamp") == ["on"] else "repeat"
        image = Image(source.stem, source, where, recipe, strength if recipe else 1.0)
        texture = Texture(self.number_of(image), wrap_s=wrap, wrap_t=wrap)
        if texture not in self.library.textures:
            self.library.textures.append(texture)
        scale, offset = options.get("-s", []), options.get("-o", [])
        across, down = _first(scale, 1.0), _first(scale[1:], 1.0)
        # v is turned over: what scales and moves it upwards there moves it downwards here.
        moved = (_first(offset, 0.0), 1.0 - down - _first(offset[1:], 0.0))
        return TextureRef(self.library.textures.index(texture), 0, moved, 0.0, (across, down))

    def number_of(self, image: Image) -> int:
        """The number of an image, which is there once for each file and use."""
        for number, known in enumerate(self.library.images):
            if (known.source, known.recipe, known.amount, known.alpha) == (image.source, image.recipe, image.amount, image.alpha):
                return number
        self.library.images.append(image)
        return len(self.library.images) - 1

    def find(self, name: str, where: str) -> Path:
        """The file of a picture. Raises `PartError`."""
        name = name.replace("\\", "/")
        try:
            return find_file(name, self.file.parent, where, self.diagnostics)
        except PartError:
            last = name.rsplit("/", 1)[-1]
            if last == name:
                raise
            return find_file(last, self.file.parent, where, self.diagnostics)

    def number(self, key: str, default: float, low: float, high: float) -> float:
        values = self.numbers(key)
        return within(values[0], low, high, f"{self.file.name}: line {self.told[key][0]}", self.diagnostics) if values else default

    def colour(self, key: str, default: tuple[float, ...], high: float) -> tuple[float, float, float]:
        """A colour of one or three numbers."""
        values = self.numbers(key) or list(default)
        values = values[:3] if len(values) > 2 else values[:1] * 3
        if key in self.told:
            place = f"{self.file.name}: line {self.told[key][0]}"
            values = [within(value, 0.0, high, place, self.diagnostics) for value in values]
        return values[0], values[1], values[2]

    def numbers(self, key: str) -> list[float]:
        """The numbers of a line; empty where it is absent or (with a warning) none, as in a `spectral` colour."""
        if key not in self.told:
            return []
        row, value = self.told[key]
        try:
            found = [float(word) for word in value.split()]
            if not found or not all(math.isfinite(number) for number in found):
                raise ValueError
        except ValueError:
            self.diagnostics.warning(f"{self.file.name}: line {row}", f"'{key} {value[:40]}' is not read; the default is used")
            return []
        return found


def _options(value: str) -> tuple[dict[str, list[str]], str]:
    """The options that stand before a picture's name, and the name, which may have blanks."""
    words = value.split(" ")
    options: dict[str, list[str]] = {}
    at = 0
    while at < len(words) - 1 and words[at].lower() in OPTIONS:
        key = words[at].lower()
        most = OPTIONS[key]
        at += 1
        options[key] = []
        while len(options[key]) < most and at < len(words) - 1 and (most == 1 or _is_number(words[at])):
            options[key].append(words[at])
            at += 1
    return options, " ".join(words[at:]).strip().strip('"')


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _first(words: list[str] | None, default: float) -> float:
    """The first word as a number."""
    return float(words[0]) if words and _is_number(words[0]) else default
