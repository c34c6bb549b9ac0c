"""Writes the scenes of `features`: `python scenes/make_features.py [FOLDER]` (needs NumPy only).

Each shows one family of what glTF can say, as a small still life in one self-contained file; `docs/gallery.md` has their pictures, and
says what is to be seen. `FEATURES` lists them with the way each is rendered there: what depends on it is told by `render_features.py`.
Beside them stands one picture of surroundings, `dusk.hdr`, for `terrace`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import features_light as light
import features_materials as materials
import features_pictures as pictures
from gltf_document import Document
from patterns import radiance

MOST_BYTES = 200_000


class View(NamedTuple):
    """One rendering of a scene: what is added to the scene's name in the picture's, and to the command; `spp` samples a pixel."""

    suffix: str = ""
    options: tuple[str, ...] = ()
    spp: int = 256


class Feature(NamedTuple):
    """A scene: its maker, a title, what is to be seen in it, and how it is rendered."""

    make: Callable[[], Document]
    title: str
    text: str
    views: tuple[View, ...] = (View(),)


FEATURES = {
    "metals": Feature(
        materials.metals,
        "Metal, plastic, gloss",
        "From the front row to the back: gold from smooth to rough; plastic from smooth to rough; from plastic to metal; the index of "
        "refraction from 1.0 to 2.4; the colour of the gloss.",
    ),
    "lacquer": Feature(
        materials.lacquer,
        "Lacquer and brushed metal",
        "Clear coats over flakes of metal, over wood, and with the skin of an orange (a normal map of the coat's own). Brushed metal, "
        "whose highlights stretch across the brush: a disc and a pot turned on a lathe, a tray with a pattern of whirls as a texture.",
    ),
    "cloth": Feature(
        materials.cloth,
        "Cloth",
        "Plain cloth, and beside it the same as velvet: the light that upright fibres catch makes edges and folds bright. Then felt and "
        "silk. The weave is a normal map whose tangents are derived.",
    ),
    "glass": Feature(
        materials.glass,
        "Glass",
        "In front a bubble (a wall without thickness), water, glass, diamond's index, frosted glass. Behind them colours that deepen with "
        "the way that light goes in the glass: thin rims are pale, thick bottoms are not.",
        (View("", ("--depth", "16")),),
    ),
    "gems": Feature(
        materials.gems,
        "Prism and stones",
        "Dispersion: the prism shows the slits that stand on the right, each drawn out into its colours. The stones have the fire of cut "
        "diamond, sapphire, ruby, zircon and citrine, a good deal stronger than in nature.",
        (View("", ("--depth", "24"), 512),),
    ),
    "film": Feature(
        materials.film,
        "Thin films",
        "Soap bubbles whose skin is thinner above than below, by a texture; an egg of anodised titanium, likewise; a beetle's green; steel "
        "under films of 40 to 440 nanometres, the colours of tempering.",
        (View("", ("--depth", "12")),),
    ),
    "lanterns": Feature(
        materials.lanterns,
        "Paper and leaves",
        "Diffuse transmission: paper lets the light of the flames inside through and spreads it; leaves are brightest where they have the "
        "window behind them.",
        (View("", ("--depth", "12"), 512),),
    ),
    "surfaces": Feature(
        pictures.surfaces,
        "Pictures on surfaces",
        "A wall with a normal map, roughness and colours (WebP) by textures that are repeated by a transform; a floor whose transform "
        "turns it; an arrow that is repeated, mirrored and clamped past its edges; a globe with two sets of coordinates; colours of "
        "vertices; a lattice cut out by a mask; panes by blending.",
    ),
    "stage": Feature(
        light.stage,
        "Lights of the stage",
        "Three spot lights, red, green and blue, that are white together and whose shadows have the colours of the others; an amber point "
        "light behind the middle column, a faint directional one from the left.",
        (View(spp=512),),
    ),
    "terrace": Feature(
        light.terrace,
        "Under the sky",
        "A file without any light. By day under the sky with a sun that is built in, at dusk under a picture: `scenes/features/dusk.hdr`.",
        (View("", ("--env", "sky")), View("-dusk", ("--env", "scenes/features/dusk.hdr"))),
    ),
    "lens": Feature(
        light.lens,
        "Lenses",
        "A camera whose lens has an opening of eleven centimetres, as glTF's extras say it, and the same board by an orthographic camera.",
        (View("", ("--camera", "lens")), View("-orthographic", ("--camera", "orthographic"))),
    ),
    "dahlia": Feature(
        light.dahlia,
        "Ten thousand petals",
        "Five nodes, each of which places one petal of 32 triangles two thousand times, by a translation, a rotation and a scale each.",
        (View(spp=128),),
    ),
    "variants": Feature(
        pictures.variants,
        "Variants",
        "One vase of porcelain, bronze, glass or lacquer: the file has all four, and a dust cover besides that is hidden.",
        tuple(
            View(f"-{name}" if name != "porcelain" else "", ("--variant", name, "--depth", "12"))
            for name in ("porcelain", "bronze", "glass", "lacquer")
        ),
    ),
    "neon": Feature(
        light.neon,
        "Neon",
        "Tubes that shine as strongly as their extension says, forty bulbs, and a poster on the left that needs no light.",
    ),
    "storage": Feature(
        pictures.storage,
        "Five ways to store a gourd",
        "As plain floats, as 16-bit integers, packed by meshoptimizer under its two names, and as a Draco mesh: all look the same. Their "
        "material is of the older kind, specular and glossiness.",
    ),
}


def main(folder: Path) -> None:
    """Write every scene, and the picture, into the folder."""
    for name, feature in FEATURES.items():
        path = folder / f"{name}.gltf"
        path.write_text(feature.make().text(), encoding="utf-8", newline="\n")
        print(f"{path}: {path.stat().st_size} bytes")
    (folder / "dusk.hdr").write_bytes(radiance(light.dusk()))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "features")
