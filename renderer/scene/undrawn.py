"""What a scene can hold and the kernels do not draw yet: the one place where that is written down.

Importers read all of it into the model, and warn of what is on these lists, so that nobody takes a picture for more than it is. When the
renderer learns to draw something, its line goes, and with it the warning. `EXTENSIONS` are told by name at the place in extensionsUsed;
`FEATURES` have a sentence, told once for each file at the first place that has them.
"""

from __future__ import annotations

EXTENSIONS = {
    "EXT_texture_webp",
    "KHR_animation_pointer",
    "KHR_lights_punctual",
    "KHR_materials_anisotropy",
    "KHR_materials_clearcoat",
    "KHR_materials_diffuse_transmission",
    "KHR_materials_dispersion",
    "KHR_materials_iridescence",
    "KHR_materials_pbrSpecularGlossiness",
    "KHR_materials_sheen",
    "KHR_materials_transmission",
    "KHR_materials_volume",
    "KHR_texture_basisu",
    "KHR_texture_transform",
}

FEATURES = {
    "textures": "textures are not drawn yet; the factors of their materials are used",
    "colours": "vertex colours are not drawn yet; the material's colour is used",
    "animations": "animations are not played yet; the scene is drawn as it rests",
}
