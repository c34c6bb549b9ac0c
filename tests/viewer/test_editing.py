"""Edits of a scene can be taken back and done again, one step for what the user would call one change."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from renderer.app.viewer.editing import Changes, Editor, same, take_up
from renderer.pipeline.session import Session
from renderer.scene.model import Camera, Environment, Geometry, Instance, Light, Material, Mesh, Perspective, Scene


def small_scene() -> Scene:
    triangle = Geometry(np.eye(3, dtype=np.float32), np.array([[0, 1, 2]], np.uint32), None, 0)
    return Scene(
        Path("small.glb"),
        cameras=[Camera(f"camera {k}", Perspective(0.8), np.eye(4)) for k in range(2)],
        materials=[Material(name) for name in ("wood", "glass", "lamp")],
        meshes=[Mesh("triangle", [triangle])],
        instances=[Instance(0, np.eye(4), name, k) for k, name in enumerate(("chair", "table", "lamp"))],
        lights=[Light("sun", "directional", np.eye(4), 3), Light("bulb", "point", np.eye(4), 4)],
        variants=["new", "worn"],
    )


def moved(x: float) -> np.ndarray:
    world = np.eye(4)
    world[0, 3] = x
    return world


def rough(editor: Editor, number: int, roughness: float) -> Material:
    return replace(editor.scene.materials[number], roughness=roughness)


def contents(scene: Scene) -> tuple[list, ...]:
    return list(scene.materials), list(scene.instances), list(scene.cameras), list(scene.lights), [scene.environment], [scene.variant]


def equal(one: tuple[list, ...], other: tuple[list, ...]) -> bool:
    return all(len(a) == len(b) and all(map(same, a, b)) for a, b in zip(one, other))


def test_undo_brings_back_what_was_there_and_redo_what_came_after() -> None:
    editor = Editor(small_scene())
    editor.set_material(1, rough(editor, 1, 0.25))
    editor.move_instance(2, moved(3.0))
    assert editor.undo() == "move lamp"
    assert same(editor.scene.instances[2].world, np.eye(4)) and editor.scene.materials[1].roughness == 0.25
    assert editor.undo() == "change glass"
    assert editor.scene.materials[1].roughness == 1.0
    assert editor.undo() is None and not editor.can_undo
    assert editor.redo() == "change glass" and editor.redo_label == "move lamp"
    assert editor.redo() == "move lamp" and editor.redo() is None
    assert editor.scene.instances[2].world[0, 3] == 3.0 and editor.scene.materials[1].roughness == 0.25


def test_a_drag_is_one_step_from_its_first_value_to_its_last() -> None:
    editor = Editor(small_scene())
    with editor.grouped("move chair"):
        for x in range(1, 200):
            editor.move_instance(0, moved(float(x)))
            editor.set_material(0, rough(editor, 0, x / 200))
    assert editor.undo_label == "move chair"
    editor.undo()
    assert same(editor.scene.instances[0].world, np.eye(4)) and editor.scene.materials[0].roughness == 1.0
    assert not editor.can_undo
    editor.redo()
    assert editor.scene.instances[0].world[0, 3] == 199.0


def test_a_drag_that_ends_where_it_began_is_no_step() -> None:
    editor = Editor(small_scene())
    editor.begin("move chair")
    editor.move_instance(0, moved(1.0))
    assert editor.dirty and editor.undo_label == "move chair"
    editor.move_instance(0, np.eye(4))
    editor.end()
    assert not editor.can_undo and not editor.dirty
    editor.set_material(0, replace(editor.scene.materials[0]))
    assert not editor.can_undo and not editor.take_changes().materials


def test_undo_within_a_drag_takes_back_what_it_has_so_far_and_the_drag_goes_on() -> None:
    editor = Editor(small_scene())
    editor.begin("move chair")
    editor.move_instance(0, moved(1.0))
    assert editor.undo() == "move chair"
    editor.move_instance(0, moved(2.0))
    editor.move_instance(0, moved(3.0))
    editor.end()
    editor.end()
    assert editor.undo() == "move chair" and not editor.can_undo
    assert same(editor.scene.instances[0].world, np.eye(4))


def test_a_group_that_fails_half_way_is_still_a_step() -> None:
    editor = Editor(small_scene())
    with pytest.raises(IndexError), editor.grouped("two moves"):
        editor.move_instance(0, moved(1.0))
        editor.move_instance(9, moved(1.0))
    editor.undo()
    assert same(editor.scene.instances[0].world, np.eye(4))


class Told:
    """A session, as far as changes are told to it. `places`: where the first object was when it was told."""

    def __init__(self, scene: Scene, *, fits: bool = True) -> None:
        self.scene, self._fits = scene, fits
        self.places: list[float] = []
        self.materials: list[int] = []

    def update_materials(self, numbers: Collection[int]) -> bool:
        self.materials += numbers
        return True

    def update_instances(self, numbers: Collection[int]) -> bool:
        self.places += [float(self.scene.instances[number].world[0, 3]) for number in numbers]
        return self._fits

    def update_environment(self) -> bool:
        raise AssertionError("nothing of that was changed")


def test_what_a_drag_has_sent_meanwhile_is_taken_up_at_once_where_it_is_now() -> None:
    editor, other = Editor(small_scene()), Editor(small_scene())
    untold: deque[tuple[Scene, Changes]] = deque()
    session, new = Told(editor.scene), Told(editor.scene, fits=False)
    for x in range(1, 40):
        editor.move_instance(0, moved(float(x)))
        editor.set_material(x % 2, rough(editor, x % 2, x / 40))
        untold.append((editor.scene, editor.take_changes()))
    other.set_material(2, rough(other, 2, 0.5))
    untold.append((other.scene, other.take_changes()))
    assert take_up(untold, cast(Any, session)) and not untold
    assert session.places == [39.0] and session.materials == [0, 1], "once, and nothing of another scene"
    assert take_up(untold, cast(Any, session)) and session.places == [39.0]
    editor.move_instance(0, moved(0.0))
    untold.append((editor.scene, editor.take_changes()))
    assert not take_up(untold, cast(Any, new))


def test_another_variant_and_what_has_moved_meanwhile_are_both_taken_up() -> None:
    scene = small_scene()
    scene.meshes[0].geometries[0] = replace(scene.meshes[0].geometries[0], variants={0: 2})
    scene.materials[2] = replace(scene.materials[2], base_color_factor=(0.9, 0.1, 0.1, 1.0))
    scene.environment, scene.variant = Environment(), 1
    camera = replace(scene.cameras[0], world=moved(0.4) @ np.array([[1, 0, 0, 0], [0, 1, 0, 0.4], [0, 0, 1, 3], [0, 0, 0, 1.0]]))

    def picture(session: Session) -> np.ndarray:
        session.set_camera(camera)
        session.frame()
        return session.mean()

    session, editor = Session(scene, width=24, height=16, backend="cpu"), Editor(scene)
    before = picture(session)
    editor.move_instance(0, moved(-1.0))
    editor.set_variant(0)
    assert take_up(deque([(scene, editor.take_changes())]), session)
    after, fresh = picture(session), Session(scene, width=24, height=16, backend="cpu")
    np.testing.assert_array_equal(after, picture(fresh))
    assert (after != before).any()
    session.close()
    fresh.close()


def test_a_culled_scene_is_looked_through_from_behind() -> None:
    scene = small_scene()
    scene.environment = Environment()
    back = Camera("behind", Perspective(0.8), np.diag([-1.0, 1.0, -1.0, 1.0]) @ moved(-0.4))
    back.world[:3, 3] = (0.4, 0.4, -3.0)
    editor = Editor(scene)

    def picture() -> np.ndarray:
        session = Session(scene, width=24, height=16, backend="cpu")
        session.set_camera(back)
        session.frame()
        mean = session.mean()
        session.close()
        return mean

    session, seen = Session(scene, width=24, height=16, backend="cpu"), picture()
    assert (seen != 1.0).any(), "there is a back"
    editor.set_culled(True)
    fits = take_up(deque([(scene, editor.take_changes())]), session)
    assert not fits, "it takes other kernels"
    np.testing.assert_array_equal(picture(), 1.0)
    editor.undo()
    assert take_up(deque([(scene, editor.take_changes())]), session)
    np.testing.assert_array_equal(picture(), seen)
    session.close()


def test_a_new_change_ends_what_could_be_done_again() -> None:
    editor = Editor(small_scene())
    editor.set_material(0, rough(editor, 0, 0.5))
    editor.undo()
    editor.set_material(1, rough(editor, 1, 0.5))
    assert not editor.can_redo and editor.redo() is None


def test_only_the_last_steps_are_remembered() -> None:
    editor = Editor(small_scene(), steps=10)
    for x in range(1, 31):
        editor.move_instance(0, moved(float(x)))
    steps = 0
    while editor.undo():
        steps += 1
    assert steps == 10 and editor.scene.instances[0].world[0, 3] == 20.0


def test_undone_back_to_the_saved_state_there_is_nothing_to_save(tmp_path: Path) -> None:
    editor = Editor(small_scene(), steps=3)
    assert not editor.dirty
    editor.set_material(0, rough(editor, 0, 0.5))
    assert editor.dirty
    editor.save(tmp_path / "saved.glb")
    assert not editor.dirty
    editor.undo()
    assert editor.dirty
    editor.redo()
    assert not editor.dirty
    for x in range(1, 4):
        editor.move_instance(0, moved(float(x)))
    while editor.undo():
        pass
    assert not editor.dirty  # the oldest state that is remembered is the saved one
    editor.set_material(0, rough(editor, 0, 0.75))
    editor.undo()
    editor.save(tmp_path / "saved.glb")
    editor.redo()
    assert editor.dirty
    editor.undo()
    assert not editor.dirty


def test_a_state_that_can_no_longer_be_reached_stays_unsaved(tmp_path: Path) -> None:
    editor = Editor(small_scene())
    editor.set_material(0, rough(editor, 0, 0.5))
    editor.save(tmp_path / "saved.glb")
    editor.undo()
    editor.set_material(0, rough(editor, 0, 0.25))
    assert editor.dirty
    editor.undo()
    assert editor.dirty


def test_changes_are_told_once_and_undoing_is_a_change() -> None:
    editor = Editor(small_scene())
    editor.set_material(2, rough(editor, 2, 0.5))
    editor.move_instance(1, moved(1.0))
    editor.set_camera(1, replace(editor.scene.cameras[1], projection=Perspective(0.5)))
    changes = editor.take_changes()
    assert (changes.materials, changes.instances, changes.cameras) == ({2}, {1}, {1})
    assert not editor.take_changes()
    editor.undo()
    assert editor.take_changes().cameras == {1}
    editor.set_environment(Environment((1.0, 1.0, 1.0)))
    changes = editor.take_changes()
    assert changes and changes.environment and not changes.cameras
    editor.set_light(1, replace(editor.scene.lights[1], intensity=2.0))
    editor.set_variant(1)
    changes = editor.take_changes()
    assert changes.lights == {1} and changes.variant and not changes.environment
    assert editor.undo_label == "show worn" and editor.undo() and editor.undo() == "change bulb"
    assert editor.scene.lights[1] == editor.loaded.lights[1]


@pytest.mark.parametrize("world", [np.eye(3), np.full((4, 4), np.nan), np.diag([1.0, 1.0, 1.0, 2.0])])
def test_a_matrix_that_places_nothing_is_refused(world: np.ndarray) -> None:
    editor = Editor(small_scene())
    with pytest.raises(ValueError, match="finite affine matrix of 4 x 4"):
        editor.move_instance(0, world)
    assert not editor.can_undo and same(editor.scene.instances[0].world, np.eye(4))


def test_numbers_that_the_scene_does_not_have_are_refused() -> None:
    editor = Editor(small_scene())
    with pytest.raises(IndexError, match=r"the scene has no materials\[3\]: it has 3"):
        editor.set_material(3, Material())
    with pytest.raises(IndexError, match=r"no instances\[-1\]"):
        editor.move_instance(-1, np.eye(4))
    with pytest.raises(IndexError, match=r"no lights\[2\]: it has 2"):
        editor.set_light(2, editor.scene.lights[0])
    with pytest.raises(IndexError, match=r"no variants\[2\]: it has 2"):
        editor.set_variant(2)


class Editing(RuleBasedStateMachine):
    """Any order of changes, groups, undo and redo, against a plain list of copies of the scene."""

    def __init__(self) -> None:
        super().__init__()
        self.editor = Editor(small_scene(), steps=6)
        self.states = [contents(self.editor.scene)]  # what undo and redo walk along
        self.at = 0
        self.group: tuple[list, ...] | None = None  # the scene as it was when the open group began
        self.device = contents(small_scene())  # the renderer's copy, kept up by take_changes

    def _changed(self) -> None:
        """A step has ended: the states after this one are gone, unless nothing is different."""
        now = contents(self.editor.scene)
        if not equal(now, self.states[self.at]):
            self.states = [*self.states[: self.at + 1], now][-7:]
            self.at = len(self.states) - 1

    def _edited(self, before: tuple[list, ...]) -> None:
        if not equal(before, contents(self.editor.scene)):
            self.states = self.states[: self.at + 1]  # nothing to do again, whatever becomes of the group
        if self.group is None:
            self._changed()

    @rule(number=st.integers(0, 2), roughness=st.sampled_from([0.0, 0.5, 1.0]))
    def change_a_material(self, number: int, roughness: float) -> None:
        before = contents(self.editor.scene)
        self.editor.set_material(number, rough(self.editor, number, roughness))
        self._edited(before)

    @rule(number=st.integers(0, 2), x=st.sampled_from([0.0, 1.0, 2.0]))
    def move_an_instance(self, number: int, x: float) -> None:
        before = contents(self.editor.scene)
        self.editor.move_instance(number, moved(x))
        self._edited(before)

    @rule(number=st.integers(0, 1), yfov=st.sampled_from([0.8, 0.9]))
    def change_a_camera(self, number: int, yfov: float) -> None:
        before = contents(self.editor.scene)
        self.editor.set_camera(number, replace(self.editor.scene.cameras[number], projection=Perspective(yfov)))
        self._edited(before)

    @rule(strength=st.sampled_from([None, 1.0, 2.0]))
    def change_the_environment(self, strength: float | None) -> None:
        before = contents(self.editor.scene)
        self.editor.set_environment(None if strength is None else Environment((1.0, 1.0, 1.0), strength))
        self._edited(before)

    @rule(number=st.integers(0, 1), intensity=st.sampled_from([0.0, 1.0, 2.0]))
    def change_a_light(self, number: int, intensity: float) -> None:
        before = contents(self.editor.scene)
        self.editor.set_light(number, replace(self.editor.scene.lights[number], intensity=intensity))
        self._edited(before)

    @rule(variant=st.sampled_from([None, 0, 1]))
    def show_a_variant(self, variant: int | None) -> None:
        before = contents(self.editor.scene)
        self.editor.set_variant(variant)
        self._edited(before)

    @rule()
    def begin(self) -> None:
        self._changed()
        self.editor.begin("group")
        self.group = contents(self.editor.scene)

    @precondition(lambda self: self.group is not None)
    @rule()
    def end(self) -> None:
        self.editor.end()
        self._changed()
        self.group = None

    @rule()
    def undo(self) -> None:
        self._changed()
        assert (self.editor.undo() is not None) == (self.at > 0)
        self.at = max(self.at - 1, 0)

    @rule()
    def redo(self) -> None:
        self._changed()
        assert (self.editor.redo() is not None) == (self.at < len(self.states) - 1)
        self.at = min(self.at + 1, len(self.states) - 1)

    @rule()
    def tell_the_renderer(self) -> None:
        changes = self.editor.take_changes()
        alone = ({0} if changed else set() for changed in (changes.environment, changes.variant))
        told = (changes.materials, changes.instances, changes.cameras, changes.lights, *alone)
        for mine, theirs, numbers in zip(self.device, contents(self.editor.scene), told):
            for number in numbers:
                mine[number] = theirs[number]
        assert equal(self.device, contents(self.editor.scene))

    @invariant()
    def the_scene_is_where_the_list_says(self) -> None:
        if self.group is None:
            assert equal(contents(self.editor.scene), self.states[self.at])
            assert self.editor.can_undo == (self.at > 0)
            assert self.editor.can_redo == (self.at < len(self.states) - 1)


Editing.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestAnyOrder = Editing.TestCase
