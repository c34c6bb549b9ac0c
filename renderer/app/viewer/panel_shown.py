"""What of a scene the panel's sections show at the moment, and names for what the file has none for.

The sections of materials, lights and objects point at each other: an object links to its materials, a lamp is a material that shines, a
click in the picture chooses in all of them. What is chosen is therefore kept here, once, beside the lists that are to scroll to it.

A light stays in the list of lights once it was one: who turns it down to nothing wants to turn it up again. The colour of what is turned
off would be lost with it, so the last one is kept here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from renderer.app.viewer.editing import Selection
from renderer.app.viewer.panel_widgets import NameList, swatch
from renderer.scene.model import Scene

if TYPE_CHECKING:
    from renderer.app.viewer.editing import Editor

LOOK_EVERY = 30  # frames between two searches for materials that have become lights
Color = tuple[float, float, float]


class Shown:
    """`material`, `lamp`: the numbers of the material and of the punctual light whose controls are shown, None for none; `distance`: from
    the eye to the pivot, m, by which lengths are dragged; `colors`: those that materials which do not shine had as lights; `intensities`:
    those of punctual lights that are off."""

    def __init__(self) -> None:
        self.material: int | None = None
        self.lamp: int | None = None
        self.distance = 1.0
        self.material_names: list[str] = []
        self.object_names: list[str] = []
        self.lamp_names: list[str] = []
        self.emitters: list[int] = []  # materials that shine, or did
        self.light_names: list[str] = []  # of the punctual lights, then of the emitters
        self.colors: dict[int, Color] = {}
        self.intensities: dict[int, float] = {}
        self.materials, self.lights, self.objects = NameList("materials"), NameList("lights"), NameList("objects")
        self._scene: Scene | None = None
        self._selection: Selection | None = None
        self._until_look = 0

    def follow(self, editor: Editor, distance: float) -> bool:
        """Takes note of another scene, and of what was clicked; once a frame, before the sections. Whether the scene is another one."""
        scene, self.distance = editor.scene, distance
        other = scene is not self._scene
        if other:
            self._scene, self.material, self.lamp = scene, 0 if scene.materials else None, 0 if scene.lights else None
            self.material_names = distinct([material.name or f"material {k}" for k, material in enumerate(scene.materials)])
            self.object_names = [instance.name or f"object {k}" for k, instance in enumerate(scene.instances)]
            self.lamp_names = distinct([light.name or f"{light.kind} light {k}" for k, light in enumerate(scene.lights)])
            self.emitters, self.light_names = [], list(self.lamp_names)
            self.colors, self.intensities = {}, {}
            self._until_look = 0
        if editor.selected is not self._selection:
            self._selection = editor.selected
            if self._selection is not None:
                self.choose_material(self._selection.material)
                self.objects.show(self._selection.instance)
        self._find_emitters(scene)
        return other

    def choose_material(self, number: int) -> None:
        """Shows this one, in the lists too."""
        self.material = number
        self.materials.show(number)

    def _find_emitters(self, scene: Scene) -> None:
        self._until_look -= 1
        if self._until_look > 0:
            return
        self._until_look = LOOK_EVERY
        emitters = sorted({*self.emitters, *(k for k, material in enumerate(scene.materials) if material.is_emissive)})
        if emitters != self.emitters:
            self.emitters = emitters
            self.light_names = [*self.lamp_names, *(self.material_names[k] for k in emitters)]


def distinct(names: list[str]) -> list[str]:
    """The names, with a number behind those that stand there more than once."""
    often = Counter(names)
    return [f"{name} #{k}" if often[name] > 1 else name for k, name in enumerate(names)]


def bright_swatch(linear: tuple[float, ...]) -> None:
    """A square of a colour whose brightest channel is no more than 1."""
    brightest = max(1.0, *linear[:3])
    swatch("##color", [value / brightest for value in linear[:3]])


def scaled(color: tuple[float, ...], factor: float) -> Color:
    """A colour times a factor."""
    red, green, blue = (value * factor for value in color)
    return red, green, blue
