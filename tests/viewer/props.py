"""A scene with something of all that the panel changes, and what a hand does to a control, for tests on a `desk`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from imgui_bundle import imgui
from PIL import Image as Pillow

from renderer.scene.model import Geometry, Image, Instance, Light, Material, Mesh, Scene, Texture
from renderer.scene.model_material import Clearcoat, Transmission, Volume
from renderer.scene.model_texture import TextureRef
from tests.viewer.desk import Desk, Seen

SHADES = ((200, 40, 40), (40, 200, 40), (128, 128, 255))


def scene() -> Scene:
    """A body of glass and a varnished wall with textures; two variants, three lights."""
    geometry = Geometry(
        np.eye(3, dtype=np.float32), np.array([[0, 1, 2]], np.uint32), None, 0, texcoords=(np.eye(3, 2, dtype=np.float32),),
        variants={0: 1, 1: 2},
    )  # fmt: skip
    glass = Material("glass", alpha_mode="MASK", transmission=Transmission(1.0), volume=Volume(0.5, None, 2.0, (0.5, 1.0, 0.5)))
    wall = Material("wall", base_color_texture=TextureRef(0), normal_texture=TextureRef(2, strength=0.5), clearcoat=Clearcoat(0.5, 0.25))
    return Scene(
        Path("study.glb"), materials=[glass, wall, Material("paper")], meshes=[Mesh("wall", [geometry])],
        instances=[Instance(0, np.eye(4), "wall", 0)], images=[Image(name, png(shade), "") for name, shade in zip("abc", SHADES)],
        textures=[Texture(0), Texture(1, wrap_s="mirror"), Texture(2, mip=None)], variants=["new", "worn"],
        lights=[
            Light("sun", "directional", np.eye(4), 1, intensity=2.0), Light("bulb", "point", np.eye(4), 2, (1.0, 0.5, 0.25), 40.0, 5.0),
            Light("torch", "spot", np.eye(4), 3, inner_cone=0.2, outer_cone=0.5),
        ],
    )  # fmt: skip


def png(shade: tuple[int, int, int]) -> bytes:
    """A file of 200 x 100 pixels of one colour."""
    stream = io.BytesIO()
    Pillow.new("RGB", (200, 100), shade).save(stream, "PNG")
    return stream.getvalue()


def only_group(title: str, patch: pytest.MonkeyPatch) -> None:
    """Of the groups of a material opens this one and closes all others."""
    real = imgui.tree_node_ex

    def node(label: str, flags: int = 0) -> Any:
        imgui.set_next_item_open(label == title)
        return real(label, flags)

    patch.setattr(imgui, "tree_node_ex", node)


def click(desk: Desk, seen: Seen, name: str) -> None:
    desk.to(*seen.middle(name))
    desk.mouse("click", 1)


def drag(desk: Desk, seen: Seen, name: str, start: float, end: float) -> None:
    """Presses at one share of a control's width, moves to another in two steps, and releases."""
    left, top, right, bottom = seen.at[name]
    desk.to(left + start * (right - left), (top + bottom) / 2)
    desk.mouse("mousedown", 1)
    for share in ((start + end) / 2, end):
        desk.to(left + share * (right - left), (top + bottom) / 2)
    desk.mouse("mouseup", 1)


def choose(desk: Desk, seen: Seen, name: str, downs: int) -> None:
    """Opens a list, goes down (or up) with the arrow keys, and takes what stands there."""
    click(desk, seen, name)
    desk.until(lambda: desk.panel.wants_keyboard, "the list is open")
    desk.turn(4)
    for key in [imgui.Key.down_arrow if downs > 0 else imgui.Key.up_arrow] * abs(downs) + [imgui.Key.enter]:
        for pressed in (True, False):
            imgui.get_io().add_key_event(key, pressed)
            desk.turn(2)
    desk.turn(2)


def drawn(desk: Desk, seen: Seen) -> set[str]:
    """The controls that there are now."""
    seen.at.clear()
    desk.turn()
    return set(seen.at)
