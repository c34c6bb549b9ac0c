"""Renders the scenes of `features` for `docs/gallery.md`, and writes that page: `python scenes/render_features.py [NAME...]`.

Every picture is made by the command that the page shows under it, on the CPU, and then stored as a JPEG; pictures of one scene that
differ in their materials only stand side by side. The page is made of `make_features.FEATURES` and of what the files say they use, so
that it cannot come to differ from them; a test compares it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

from make_features import FEATURES, View

ROOT = Path(__file__).parents[1]
PAGE, PICTURES = ROOT / "docs" / "gallery.md", ROOT / "docs" / "images" / "features"
SIZE, LINE = (480, 360), 138
QUALITY, MOST_BYTES = 88, 60_000

HEAD = """# A gallery of features

What glTF can say of a scene, and what it looks like here. Each of these scenes is one small file of `scenes/features`, made of numbers by
`scenes/make_features.py`: shapes, pictures, lights and all. The pictures are rendered without a denoiser by the commands under them;
`make gallery` renders them all again.
"""


def command(name: str, view: View, output: str) -> list[str]:
    """The words of the command that renders a scene."""
    size = [str(value) for value in SIZE]
    return ["render", f"scenes/features/{name}.gltf", "-o", output, "--size", *size, "--spp", str(view.spp), *view.options]


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for name, feature in FEATURES.items():
        used = json.loads((ROOT / "scenes" / "features" / f"{name}.gltf").read_text(encoding="utf-8")).get("extensionsUsed", [])
        shown = [f"![{feature.title}](images/features/{name}{view.suffix}.jpg)" for view in feature.views]
        told = [f"    rayfuse {' '.join(command(name, view, f'{name}{view.suffix}.png'))}" for view in feature.views]
        extensions = ", ".join(f"`{extension}`" for extension in sorted(used)) or "none"
        paragraphs = (f"## {feature.title}", "\n".join(shown), wrapped(feature.text), wrapped(f"Extensions: {extensions}"), "\n".join(told))
        parts.append("\n\n".join(paragraphs) + "\n")
    return "\n".join(parts)


def wrapped(text: str) -> str:
    """A paragraph in lines."""
    return textwrap.fill(text, LINE, break_long_words=False, break_on_hyphens=False)


def render(name: str, view: View) -> None:
    """Renders one picture and stores it."""
    from PIL import Image

    made = ROOT / "out" / "gallery" / f"{name}{view.suffix}.png"
    made.parent.mkdir(parents=True, exist_ok=True)
    PICTURES.mkdir(parents=True, exist_ok=True)
    words = [*command(name, view, str(made)), "--backend", "cpu"]
    subprocess.run([sys.executable, "-m", "renderer.app.cli", *words], cwd=ROOT, check=True)
    kept = PICTURES / f"{name}{view.suffix}.jpg"
    quality = QUALITY
    Image.open(made).convert("RGB").save(kept, quality=quality, optimize=True)
    while kept.stat().st_size > MOST_BYTES:
        quality -= 4
        Image.open(made).convert("RGB").save(kept, quality=quality, optimize=True)
    print(f"{kept.relative_to(ROOT)}: {kept.stat().st_size} bytes")


def main(names: list[str]) -> None:
    """Renders the scenes of these names, or all, and writes the page."""
    for name in names or FEATURES:
        for view in FEATURES[name].views:
            render(name, view)
    PAGE.write_text(page(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
