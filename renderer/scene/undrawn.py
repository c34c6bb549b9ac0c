"""What a scene can hold and the kernels do not draw yet: the one place where that is written down.

Importers read all of it into the model, and warn of what is on these lists, so that nobody takes a picture for more than it is. When the
renderer learns to draw something, its line goes, and with it the warning. `EXTENSIONS` are told by name at the place in extensionsUsed;
`FEATURES` have a sentence, told once for each file at the first place that has them.
"""

from __future__ import annotations

EXTENSIONS = {
    "KHR_animation_pointer",
}

FEATURES = {
    "animations": "animations are not played yet; the scene is drawn as it rests",
}
