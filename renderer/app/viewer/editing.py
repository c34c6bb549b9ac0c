"""Changes to the scene that can be taken back: what the panel, the gizmo and the keys do to materials, objects, lights, surroundings.

The scene on the host is the truth; the renderer holds a copy of it on the device. So every change goes through the `Editor`: it
replaces one element of a list of the scene, remembers what stood there before, and notes the element's number, which the loop takes
once a turn (`take_changes`) and hands to the renderer. Undoing is the same thing with before and after exchanged.

A step of the history is what a user would call one change. A slider that is dragged sends a change with every frame; between `begin`
and `end` (or within `grouped`) they are one step, and of each thing only the first value and the last are kept. A step that ends
where it began is none. The history is bounded: the oldest steps go first. `dirty` asks whether the state shown is the one that was
saved last, not whether anything was done since: who undoes back to it has nothing to save.

Pure data: no window, no device, no thread. All calls come from the thread of the loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from renderer.scene.model import Camera, Environment, Float64s, Light, Material, Scene

if TYPE_CHECKING:
    from renderer.pipeline.session import Session

STEPS = 500  # of the history


@dataclass(frozen=True)
class Selection:
    """What a click found: numbers in the scene's lists of instances, materials and meshes, and the point in the world, float64[3], m."""

    instance: int
    material: int
    mesh: int
    point: Float64s


@dataclass(frozen=True)
class Changes:
    """Numbers of what was changed since they were asked for last."""

    materials: set[int]
    instances: set[int]
    cameras: set[int]
    lights: set[int]
    environment: bool
    variant: bool
    culled: bool

    @property
    def seen(self) -> bool:
        """Whether a picture from the same place is another one now."""
        return bool(self.materials or self.instances or self.lights or self.environment or self.variant or self.culled)

    def __bool__(self) -> bool:
        return bool(self.seen or self.cameras)

    def __or__(self, later: Changes) -> Changes:
        """Both."""
        return Changes(
            self.materials | later.materials,
            self.instances | later.instances,
            self.cameras | later.cameras,
            self.lights | later.lights,
            self.environment or later.environment,
            self.variant or later.variant,
            self.culled or later.culled,
        )


NO_CHANGES = Changes(set(), set(), set(), set(), False, False, False)


@dataclass(frozen=True)
class Thing:
    """One thing that can be changed: an element of a list of the scene, or (without a number) an attribute of the scene itself."""

    kind: str  # "materials" | "instances" | "cameras" | "lights" | "environment" | "variant" | "culled"
    number: int | None


ENVIRONMENT, VARIANT, CULLED = (Thing(kind, None) for kind in ("environment", "variant", "culled"))


@dataclass(frozen=True)
class Loaded:
    """What a scene came with, to go back to."""

    materials: tuple[Material, ...]
    lights: tuple[Light, ...]
    environment: Environment | None


@dataclass
class _Step:
    """One change as the user sees it. `values`: thing -> (before, after). `state` names the scene's state after it; no two are alike."""

    label: str
    state: int
    values: dict[Thing, tuple[Any, Any]] = field(default_factory=dict)


class Editor:
    """The scene, what was done to it, and what is selected; `loaded`: what the scene was before."""

    def __init__(self, scene: Scene, *, steps: int = STEPS) -> None:
        self.scene = scene
        self.loaded = Loaded(tuple(scene.materials), tuple(scene.lights), scene.environment)
        self.selected: Selection | None = None
        self._most = steps
        self._done: list[_Step] = []
        self._undone: list[_Step] = []  # the next to be done again stands last
        self._group: _Step | None = None
        self._states = 0  # given out so far
        self._oldest = 0  # the state before the first step of the history
        self._saved = 0
        self._changed: set[Thing] = set()

    # ---- changes ----

    def set_material(self, number: int, material: Material) -> None:
        """Puts `material` in the place of `scene.materials[number]`. Raises IndexError where there is none."""
        self._set(Thing("materials", number), material, f"change {material.name or f'material {number}'}")

    def move_instance(self, number: int, world: Float64s) -> None:
        """Places `scene.instances[number]` anew. `world`: float64[4, 4], affine and finite, copied.

        Raises IndexError where there is no such instance, ValueError for a matrix that places nothing.
        """
        matrix = np.array(world, np.float64)
        if matrix.shape != (4, 4) or not np.isfinite(matrix).all() or not np.array_equal(matrix[3], (0.0, 0.0, 0.0, 1.0)):
            raise ValueError(f"an instance's place is a finite affine matrix of 4 x 4, not {world!r}")
        thing = Thing("instances", number)
        instance = self._get(thing)
        self._set(thing, replace(instance, world=matrix, moving=True), f"move {instance.name or f'object {number}'}")

    def set_camera(self, number: int, camera: Camera) -> None:
        """Puts `camera` in the place of `scene.cameras[number]`. Raises IndexError where there is none."""
        self._set(Thing("cameras", number), camera, f"change {camera.name or f'camera {number}'}")

    def set_light(self, number: int, light: Light) -> None:
        """Puts `light` in the place of `scene.lights[number]`. Raises IndexError where there is none."""
        self._set(Thing("lights", number), light, f"change {light.name or f'light {number}'}")

    def set_variant(self, variant: int | None) -> None:
        """Shows another variant of the scene, None: it as it is without. Raises IndexError where there is none of that number."""
        names = self.scene.variants
        if variant is not None and not 0 <= variant < len(names):
            raise IndexError(f"the scene has no variants[{variant}]: it has {len(names)}")
        self._set(VARIANT, variant, f"show {names[variant]}" if variant is not None else "show no variant")

    def set_environment(self, environment: Environment | None) -> None:
        """Surrounds the scene with this, or with nothing."""
        self._set(ENVIRONMENT, environment, "change the environment")

    def set_culled(self, culled: bool) -> None:
        """Whether surfaces that have but a front are looked through from behind."""
        self._set(CULLED, culled, "look through backs" if culled else "show backs")

    def begin(self, label: str) -> None:
        """From here to `end` all changes are one step of this name. A group that is still open ends first."""
        self.end()
        self._group = self._step(label)

    def end(self) -> None:
        """Ends the group; without one nothing happens."""
        group, self._group = self._group, None
        if group is not None:
            self._keep(group)

    @contextmanager
    def grouped(self, label: str) -> Iterator[None]:
        """`begin` and `end` around a block."""
        self.begin(label)
        try:
            yield
        finally:
            self.end()

    # ---- history ----

    def undo(self) -> str | None:
        """Takes the last step back; its label, None where there is none. In an open group: what it has so far; the group goes on."""
        self._close_for_now()
        if not self._done:
            return None
        step = self._done.pop()
        for thing, (before, _) in step.values.items():
            self._put(thing, before)
        self._undone.append(step)
        return step.label

    def redo(self) -> str | None:
        """Does again the step that was taken back last; its label, None where there is none."""
        self._close_for_now()
        if not self._undone:
            return None
        step = self._undone.pop()
        for thing, (_, after) in step.values.items():
            self._put(thing, after)
        self._done.append(step)
        return step.label

    @property
    def can_undo(self) -> bool:
        return self.undo_label is not None

    @property
    def can_redo(self) -> bool:
        return self.redo_label is not None

    @property
    def undo_label(self) -> str | None:
        """What `undo` would take back."""
        if self._open:
            return self._open.label
        return self._done[-1].label if self._done else None

    @property
    def redo_label(self) -> str | None:
        """What `redo` would do again."""
        return self._undone[-1].label if self._undone else None

    @property
    def dirty(self) -> bool:
        """Whether the scene is not as it was saved last (or loaded)."""
        return bool(self._open) or self._state != self._saved

    def take_changes(self) -> Changes:
        """What was changed, undone or redone since this was called last."""
        changed, self._changed = self._changed, set()

        def numbers(kind: str) -> set[int]:
            return {thing.number for thing in changed if thing.kind == kind and thing.number is not None}

        return Changes(
            numbers("materials"), numbers("instances"), numbers("cameras"), numbers("lights"),
            ENVIRONMENT in changed, VARIANT in changed, CULLED in changed,
        )  # fmt: skip

    def save(self, path: Path) -> list[str]:
        """Writes the scene to `path`, a .glb file; what the file cannot keep of the one that was loaded, a line each.

        Raises SceneError where it cannot be written; what stood there before is untouched then.
        """
        from renderer.scene import gltf_write

        self._close_for_now()
        gltf_write.write(self.scene, path)
        self._saved = self._state
        return gltf_write.not_kept(self.scene)

    # ---- within ----

    @property
    def _open(self) -> _Step | None:
        """The open group, if it has changed anything yet."""
        return self._group if self._group is not None and any(map(_differ, self._group.values.values())) else None

    @property
    def _state(self) -> int:
        return self._done[-1].state if self._done else self._oldest

    def _step(self, label: str) -> _Step:
        self._states += 1
        return _Step(label, self._states)

    def _get(self, thing: Thing) -> Any:
        if thing.number is None:
            return getattr(self.scene, thing.kind)
        things: list[Any] = getattr(self.scene, thing.kind)
        if not 0 <= thing.number < len(things):
            raise IndexError(f"the scene has no {thing.kind}[{thing.number}]: it has {len(things)}")
        return things[thing.number]

    def _put(self, thing: Thing, value: Any) -> None:
        if thing.number is None:
            setattr(self.scene, thing.kind, value)
        else:
            getattr(self.scene, thing.kind)[thing.number] = value
        self._changed.add(thing)

    def _set(self, thing: Thing, value: Any, label: str) -> None:
        """One change: a step of its own, or part of the open group."""
        before = self._get(thing)
        if same(before, value):
            return
        step = self._group if self._group is not None else self._step(label)
        first, _ = step.values.get(thing, (before, None))
        step.values[thing] = (first, value)
        self._put(thing, value)
        self._undone.clear()
        if step is not self._group:
            self._keep(step)

    def _keep(self, step: _Step) -> None:
        """Adds a finished step to the history, unless it ended where it began."""
        step.values = {thing: values for thing, values in step.values.items() if _differ(values)}
        if not step.values:
            return
        self._done.append(step)
        if len(self._done) > self._most:
            self._oldest = self._done.pop(0).state

    def _close_for_now(self) -> None:
        """Makes a step of what the open group has so far; the group stays open for what follows."""
        if self._group is not None:
            self.begin(self._group.label)


def take_up(untold: deque[tuple[Scene, Changes]], session: Session) -> bool:
    """Tells a session, on its thread, of all that has been changed in its scene since it was told last; False where that needs a new
    session. All at once: a drag sends a change with every turn of the loop, and a large scene takes longer than that to be told of one.
    """
    changes = NO_CHANGES
    while untold:
        scene, more = untold.popleft()
        if scene is session.scene:
            changes |= more
    materials = range(len(session.scene.materials)) if changes.culled else sorted(changes.materials)
    fits = [session.update_variant() if changes.variant else session.update_materials(materials)]
    fits += [session.update_instances(sorted(changes.instances))]
    fits += [session.update_lights(sorted(changes.lights))] if changes.lights else []
    fits += [session.update_environment()] if changes.environment else []
    return all(fits)


def _differ(values: tuple[Any, Any]) -> bool:
    return not same(*values)


def same(one: Any, other: Any) -> bool:
    """Whether two parts of a scene are equal, the matrices within them included."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    if is_dataclass(one) and type(one) is type(other):
        return all(same(getattr(one, part.name), getattr(other, part.name)) for part in fields(one) if part.compare)
    return bool(one == other)
