"""What a scene can hold and the kernels do not draw yet: the one place where that is written down.

Importers read all of it into the model, and warn of what is on these lists, so that nobody takes a picture for more than it is. When the
renderer learns to draw something, its line goes, and with it the warning. `EXTENSIONS` are told by name at the place in extensionsUsed, and
say why they are not drawn; `FEATURES` have a sentence, told once for each file at the first place that has them. `METADATA` is no light:
there is nothing in it to draw, and nothing to warn of.
"""

from __future__ import annotations

EXTENSIONS = {
    "KHR_animation_pointer": "animations are not played yet",
}

METADATA = {
    "KHR_xmp": "says things about the file",
    "KHR_xmp_json_ld": "says things about the file",
}

FEATURES = {
    "animations": "animations are not played yet; the scene is drawn as it rests",
}
