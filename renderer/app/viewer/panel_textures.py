"""The rows of a material's textures: which picture is in a slot, how it is sampled, how it is placed; and another one, or none, instead.

A row shows the picture, small, and its name, which opens a list of all textures of the scene. A click on the picture opens the details
below: what the file says of it (size, wrapping, filters, set of coordinates), which stays, and the transform of the coordinates
(KHR_texture_transform) and the strength of normal and occlusion maps, which can be set.

Taking a texture away compiles nothing. Putting one where the scene had none, or moving one where none was moved, needs other kernels; they
are built in the background. So is the table of textures, where it lacks one that the slot reads otherwise than those before it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from imgui_bundle import ImVec2, imgui

from renderer.app.viewer import theme
from renderer.app.viewer.material_fields import slot_label, value_of, with_texture, with_value
from renderer.app.viewer.panel_widgets import Rows, close_on_escape, tooltip, wrapped
from renderer.app.viewer.thumbnails import Thumbnails
from renderer.scene.model import Image, Material, Scene, Texture
from renderer.scene.model_texture import TextureRef
from renderer.shading.slots import UNREAD

LARGE = 9.0  # font sizes: the picture in a tooltip
STRENGTHS = {"normal_texture": ("Bumpiness", 2.0), "occlusion_texture": ("Strength", 1.0)}  # label, and a slider's end
WRAPS = {"repeat": "repeated", "mirror": "mirrored", "clamp": "clamped"}
WRITTEN = "Kept for other programs: a path tracer finds out by itself what it says."


class TextureRows:
    """Of one window. The pictures of a scene are forgotten with `forget`."""

    def __init__(self, rows: Rows, thumbnails: Thumbnails) -> None:
        self._rows, self._thumbnails = rows, thumbnails
        self._names: tuple[list[Texture], list[str]] | None = None
        self._open: set[str] = set()  # slots whose details are shown

    def forget(self) -> None:
        """Another scene is shown."""
        self._thumbnails.forget()
        self._open.clear()

    def slot(self, scene: Scene, material: Material, path: str, loaded: TextureRef | None) -> Material | None:
        """The row of a slot, and its details where they are open; the material as changed, None where it is not. `loaded`: the file's.
        Scenes without textures have none."""
        if not scene.textures:
            return None
        ref: TextureRef | None = value_of(material, path)
        if self._rows.undo_button(path, ref != loaded):
            return with_value(material, path, loaded)
        self._rows.label(f"{slot_label(path)}##{path}", WRITTEN if path in UNREAD else "")
        if ref is not None:
            self._toggle(scene, path, ref.texture)
        chosen = self._choice(scene, path, ref)
        if chosen != (ref.texture if ref is not None else None):
            return with_texture(material, path, chosen)
        moved = self._details(scene, path, ref) if path in self._open and ref is not None else ref
        return with_value(material, path, moved) if moved != ref else None

    def _toggle(self, scene: Scene, path: str, number: int) -> None:
        """The picture, as a button that opens and closes the details; the next item is on its line."""
        side, corner = imgui.get_frame_height(), imgui.get_cursor_pos()
        if imgui.button(f"###details {path}", ImVec2(side, side)):
            self._open ^= {path}
        focused = imgui.is_item_focused() or path in self._open
        imgui.set_cursor_pos(corner)
        self._thumbnail(scene, number, "Click: what the texture is, and how it is placed")
        if focused:
            color = imgui.get_color_u32(imgui.Col_.check_mark)
            imgui.get_window_draw_list().add_rect(imgui.get_item_rect_min(), imgui.get_item_rect_max(), color)
        imgui.same_line(0.0, imgui.get_style().item_inner_spacing.x)

    def _choice(self, scene: Scene, path: str, ref: TextureRef | None) -> int | None:
        """The list of all textures, closed; the number of the chosen one."""
        names, current = self._names_of(scene), ref.texture if ref is not None else None
        chosen = current
        square = imgui.get_frame_height()
        imgui.set_next_item_width(-square - imgui.get_style().item_inner_spacing.x if ref is not None else -1.0)
        if imgui.begin_combo(f"##{path}", names[current] if current is not None else "none"):
            if imgui.selectable("none", current is None)[0]:
                chosen = None
            clipper = imgui.ListClipper()
            clipper.begin(len(names), square + imgui.get_style().item_spacing.y)
            while clipper.step():
                for number in range(clipper.display_start, clipper.display_end):
                    imgui.push_id(number)
                    self._thumbnail(scene, number)
                    imgui.same_line()
                    imgui.align_text_to_frame_padding()
                    if imgui.selectable(names[number], number == current)[0]:
                        chosen = number
                    if number == current:
                        imgui.set_item_default_focus()  # arrow keys begin here
                    imgui.pop_id()
            close_on_escape()
            imgui.end_combo()
        if ref is not None:
            imgui.same_line(0.0, imgui.get_style().item_inner_spacing.x)
            if imgui.button(f"\u00d7###remove {path}", ImVec2(square, 0.0)):
                chosen = None
            tooltip("Takes the texture away")
        return chosen

    def _details(self, scene: Scene, path: str, ref: TextureRef) -> TextureRef:
        """What the texture is, and its placing; the placing as changed."""
        rows, own = self._rows, path.rpartition(".")[2]
        wrapped(self._told(scene, ref), theme.FAINT)
        moved, offset = rows.pair(f"Offset##{path} offset", ref.offset, 0.002, "Of the coordinates u and v")
        turned, degrees = rows.slider(
            f"Rotation##{path} rotation", math.degrees(ref.rotation), -180.0, 180.0, "%.0f°", "Of the coordinates, anticlockwise"
        )
        sized, scale = rows.pair(f"Scale##{path} scale", ref.scale, 0.005, "Of the coordinates: 2 shows the picture twice side by side")
        ref = replace(ref, offset=offset) if moved else ref
        ref = replace(ref, rotation=math.radians(degrees)) if turned else ref
        ref = replace(ref, scale=scale) if sized else ref
        if own in STRENGTHS:
            label, high = STRENGTHS[own]
            changed, strength = rows.slider(f"{label}##{path} strength", ref.strength, 0.0, max(high, ref.strength), "%.2f")
            ref = replace(ref, strength=strength) if changed else ref
        return ref

    def _told(self, scene: Scene, ref: TextureRef) -> str:
        """What there is to say of a texture, in words."""
        texture = scene.textures[ref.texture]
        image = _image(scene, ref.texture)
        size = self._thumbnails.of(image).size if image is not None else None
        pixels = f"{size.width} × {size.height}" if size is not None else "no picture"
        wraps = dict.fromkeys((WRAPS[texture.wrap_s], WRAPS[texture.wrap_t]))
        filters = dict.fromkeys((texture.mag, texture.min))
        levels = f", {texture.mip} between levels" if texture.mip is not None else ", no levels"
        return f"{pixels}, {' and '.join(wraps)}, {' and '.join(filters)}{levels}; coordinates {ref.texcoord}"

    def _thumbnail(self, scene: Scene, number: int, tip: str = "") -> None:
        """A square with the picture of a texture; large in its tooltip."""
        side = imgui.get_frame_height()
        image = _image(scene, number)
        found = self._thumbnails.of(image) if image is not None and imgui.is_rect_visible(ImVec2(side, side)) else None
        if found is None or found.texture is None:
            corner = imgui.get_cursor_screen_pos()
            color = imgui.get_color_u32(imgui.Col_.frame_bg)
            imgui.get_window_draw_list().add_rect_filled(corner, ImVec2(corner.x + side, corner.y + side), color)
            imgui.dummy(ImVec2(side, side))
            return
        texture = imgui.ImTextureRef(found.texture.glo)
        imgui.image(texture, ImVec2(side, side))
        if imgui.is_item_hovered() and imgui.begin_tooltip():
            width, height = found.texture.size
            scale = LARGE * imgui.get_font_size() / max(width, height)
            imgui.image(texture, ImVec2(width * scale, height * scale))
            imgui.text_unformatted(self._names_of(scene)[number])
            if tip:
                imgui.text_colored(theme.FAINT, tip)
            imgui.end_tooltip()

    def _names_of(self, scene: Scene) -> list[str]:
        if self._names is None or self._names[0] is not scene.textures:
            self._names = (scene.textures, [_name(scene, number) for number in range(len(scene.textures))])
        return self._names[1]


def _image(scene: Scene, number: int) -> Image | None:
    place = scene.textures[number].image
    return scene.images[place] if place is not None else None


def _name(scene: Scene, number: int) -> str:
    """A texture's name: its own, its picture's, its file's, or its number."""
    image = _image(scene, number)
    file = getattr(image.source, "name", "") if image is not None else ""
    return scene.textures[number].name or (image.name if image is not None else "") or file or f"texture {number}"
