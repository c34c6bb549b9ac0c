"""Wavefront MTL: the materials of OBJ files, as metallic-roughness.

The format describes the Phong model of the nineties, and exporters have filled it in their own ways; what most of them mean: Kd is the
base colour; Ns, an exponent of highlights, is a roughness of sqrt(2 / (Ns + 2)) (B. Walter and others, "Microfacet Models for
Refraction", 2007, equation of the Blinn distribution's width); Ks 0.5 is the reflection of a common dielectric; Ke is emission; d or Tr
is coverage; Ni the index of refraction. The keys that were added for metallic-roughness (Pr, Pm, Ps, Pc, Pcr, aniso, anisor) say it
directly.

Each of these may have a picture by which it is multiplied; where there is one and no number, the number is 1. Roughness and metalness are
one picture in the model, so that is made of the two (`renderer.scene.recipes`), as are coverage and colour. A map_Bump may hold heights or
normals: the picture itself tells. Of the options of pictures those are read that have a place in the model: -s, -o, -clamp, -bm of
normals and heights, -imfchan of values. Pictures are looked for beside the .mtl file; an absolute path, as exporters love them, is tried
by its last part. Nothing outside the folder is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from renderer.scene.accessors import find_file
from renderer.scene.gltf_json import Diagnostics, PartError, within
from renderer.scene.mesh_files import NEUTRAL
from renderer.scene.model_material import Anisotropy, Clearcoat, Material, Sheen
from renderer.scene.model_texture import Image, Recipe, Texture, TextureRef, Wrap

OPTIONS = {"-s": 3, "-o": 3, "-t": 3, "-mm": 2, "-bm": 1, "-blendu": 1, "-blendv": 1, "-clamp": 1, "-texres": 1, "-imfchan": 1}
OPTIONS |= {"-boost": 1, "-type": 1, "-colorspace": 1, "-cc": 1}
NO_PLACE = {"-t": ["0", "0", "0"], "-mm": ["0", "1"], "-boost": ["0"], "-cc": ["off"]}  # what these must be for nothing to be lost
COLOUR_MAPS = {"map_kd": "base_color_texture", "map_ke": "emissive_texture", "map_ks": "specular_color_texture"}
NORMAL_MAPS = ("norm", "map_kn", "map_bump", "bump")  # the first that is there
UNREAD = ("map_ka", "disp", "decal", "refl", "map_aniso", "map_anisor")
VALUE_MAPS = (*COLOUR_MAPS, "map_d", "map_pr", "map_ns", "map_pm", "map_ps", "map_pc", "map_pcr")
ONES = (1.0, 1.0, 1.0)
COMMENT = re.compile(r"(^|(?<=\s))#.*")


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
        for name in [names] if len(names.split()) < 2 or _is_file(folder / names) else names.split():
            try:
                file = _found(name, folder, where)
                text = file.read_bytes().decode("utf-8-sig", "replace")
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
    for row, key, value in _lines(text):
        if key.lower() == "newmtl":
            if name is not None:
                library.materials.append(_Reading(file, library, diagnostics, told).material(name))
            name, told = value, {}
        elif key:
            told[key.lower()] = (row, value)
    if name is not None:
        library.materials.append(_Reading(file, library, diagnostics, told).material(name))


def _lines(text: str) -> Iterator[tuple[int, str, str]]:
    """The lines of a library, counted from 1: what stands first in each, and the rest of it. As in OBJ files a comment begins a line or
    follows a blank: names have number signs in them."""
    for row, line in enumerate(text.replace("\r\n", "\n").replace("\\\n", " ").splitlines(), 1):
        key, _, value = COMMENT.sub("", line).replace("\t", " ").strip().partition(" ")
        yield row, key, value.strip()


def _found(name: str, folder: Path, where: str) -> Path:
    """The file of a name. Raises `PartError`. Names are no URIs here, so that a per cent sign is one without another word."""
    return find_file(name.replace("\\", "/"), folder, where, Diagnostics(folder, False, None))


def _is_file(path: Path) -> bool:
    """Whether there is such a file; what can be no file's name is none."""
    try:
        return path.is_file()
    except OSError:  # a name too long
        return False


@dataclass(frozen=True)
class _Picture:
    """A picture that a line names: its file, the options before it, and the line."""

    source: Path
    options: dict[str, list[str]]
    where: str

    @property
    def channel(self) -> str:
        """The channel that a value is taken from: what -imfchan says, else luminance."""
        return {"r": "r", "g": "g", "b": "b", "m": "a"}.get(" ".join(self.options.get("-imfchan", [])).lower(), "l")


class _Reading:
    """One material: its lines by key, with their numbers."""

    def __init__(self, file: Path, library: Library, diagnostics: Diagnostics, told: dict[str, tuple[int, str]]) -> None:
        self.file, self.library, self.diagnostics, self.told = file, library, diagnostics, told

    def material(self, name: str) -> Material:
        mapped = {key: self.map(key) for key in VALUE_MAPS if key in self.told}
        there = {key for key, picture in mapped.items() if picture is not None}

        def unless(key: str, default: Any, one: Any = 1.0) -> Any:
            """What a value is where the file has none: 1 where it has a picture."""
            return one if key in there else default

        red, green, blue = self.colour("kd", unless("map_kd", NEUTRAL.base_color_factor[:3], ONES), 1.0)
        shown = self.colour("ks", unless("map_ks", (0.5, 0.5, 0.5), ONES), 1.0)
        brightest = max(shown)
        exponent = self.number("ns", 0.0, 0.0, math.inf)
        rough = 1.0 if "map_ns" in there and "map_pr" not in there else math.sqrt(2.0 / (exponent + 2.0))
        opacity = self.number("d", 1.0 - self.number("tr", 0.0, 0.0, 1.0), 0.0, 1.0)
        sheen = self.number("ps", unless("map_ps", 0.0), 0.0, 1.0)
        material = Material(
            name,
            (red, green, blue, opacity),
            self.number("pm", unless("map_pm", 0.0), 0.0, 1.0),
            self.number("pr", unless("map_pr", rough), 0.0, 1.0),
            self.colour("ke", unless("map_ke", (0.0, 0.0, 0.0), ONES), math.inf),
            min(1.0, 2.0 * brightest),
            (shown[0] / brightest, shown[1] / brightest, shown[2] / brightest) if brightest > 0.0 else ONES,
            max(1.0, self.number("ni", 1.5, 0.0, math.inf)),
            double_sided=True,
            alpha_mode="BLEND" if opacity < 1.0 else "OPAQUE",
            clearcoat=Clearcoat(self.number("pc", unless("map_pc", 0.0), 0.0, 1.0), self.number("pcr", unless("map_pcr", 0.0), 0.0, 1.0)),
            sheen=Sheen((sheen,) * 3, 0.5 if sheen > 0.0 else 0.0),
            anisotropy=Anisotropy(self.number("aniso", 0.0, 0.0, 1.0), math.tau * self.number("anisor", 0.0, 0.0, 1.0)),
        )
        return self.mapped(material, {key: picture for key, picture in mapped.items() if picture is not None}, exponent)

    def mapped(self, material: Material, pictures: dict[str, _Picture], exponent: float) -> Material:
        """With its pictures, by key."""
        slots: dict[str, Any] = {slot: self.ref(pictures[key]) for key, slot in COLOUR_MAPS.items() if key in pictures}
        rough = pictures.get("map_pr") or pictures.get("map_ns")
        recipe: Recipe = "roughness" if "map_pr" in pictures else "shininess"
        metal = pictures.get("map_pm")
        if rough is not None:
            slots["metallic_roughness_texture"] = self.ref(rough, recipe, exponent if recipe == "shininess" else 1.0, metal)
        elif metal is not None:
            slots["metallic_roughness_texture"] = self.ref(metal, "metalness")
        bumps = next((key for key in NORMAL_MAPS if key in self.told), None)
        normal = self.map(bumps) if bumps is not None else None
        if normal is not None:
            strength = _first(normal.options.get("-bm"), 1.0)
            heights = bumps in ("map_bump", "bump")
            slots["normal_texture"] = self.ref(normal, "bump", strength if heights else 1.0)
            if not heights:
                slots["normal_texture"] = replace(slots["normal_texture"], strength=strength)
        if "map_d" in pictures:
            slots["base_color_texture"] = self.cut_out(pictures.get("map_kd"), pictures["map_d"])
            slots["alpha_mode"] = "BLEND"
        if "map_ps" in pictures:
            slots["sheen"] = replace(material.sheen, color_texture=self.ref(pictures["map_ps"]))
        coat = {"texture": pictures.get("map_pc"), "roughness_texture": pictures.get("map_pcr")}
        if any(coat.values()):
            refs: dict[str, Any] = {slot: self.ref(picture) for slot, picture in coat.items() if picture is not None}
            slots["clearcoat"] = replace(material.clearcoat, **refs)
        for key in UNREAD:
            if key in self.told:
                self.diagnostics.warning(f"{self.file.name} {key}", "is a picture that is not read; the factor is used")
        return replace(material, **slots)

    def cut_out(self, colour: _Picture | None, alpha: _Picture) -> TextureRef:
        """A texture with the coverage that a picture gives; where it is that of the colours it has the coverage in its alpha channel."""
        if colour is None:
            return self.ref(alpha, "coverage")
        return self.ref(colour) if colour.source == alpha.source else self.ref(colour, "", 1.0, alpha)

    def map(self, key: str) -> _Picture | None:
        """The picture that a key names, None where (with a warning) it is not to be had."""
        row, value = self.told[key]
        where = f"{self.file.name}: line {row}"
        options, name = _options(value)
        for option, nothing in NO_PLACE.items():
            if options.get(option, nothing)[: len(nothing)] != nothing[: len(options.get(option, nothing))]:
                self.diagnostics.warning(f"{where}: {option}", "has no place in the model; the picture is used without it")
        try:
            return _Picture(self.find(name, where), options, where)
        except PartError as error:
            self.diagnostics.skipped(error, where, "is drawn without")
            return None

    def ref(self, picture: _Picture, recipe: Recipe = "", amount: float = 1.0, second: _Picture | None = None) -> TextureRef:
        """A texture of a picture, or of what a recipe makes of it and a second one, which lies where the first does."""
        options, other = picture.options, None if second is None else second.source
        if second is not None and any(second.options.get(key) != options.get(key) for key in ("-s", "-o", "-clamp")):
            self.diagnostics.warning(f"{second.where}: options", f"are those of {picture.where} here, of which it becomes a part")
        picks = picture.channel + ("l" if second is None else second.channel)
        image = Image(picture.source.stem, picture.source, picture.where, recipe, amount, other, picks)
        wrap: Wrap = "clamp" if options.get("-clamp") == ["on"] else "repeat"
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
            if replace(known, at=image.at).__dict__ == image.__dict__:
                return number
        self.library.images.append(image)
        return len(self.library.images) - 1

    def find(self, name: str, where: str) -> Path:
        """The file of a picture. Raises `PartError`."""
        try:
            return _found(name, self.file.parent, where)
        except PartError:
            last = name.replace("\\", "/").rsplit("/", 1)[-1]
            if last == name:
                raise
            return _found(last, self.file.parent, where)

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


def pictures_of(text: str) -> list[str]:
    """The pictures that a library names, as it writes them."""
    return [_options(value)[1] for _, key, value in _lines(text) if value and key.lower() in (*VALUE_MAPS, *NORMAL_MAPS)]


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
