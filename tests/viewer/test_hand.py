"""Hands do what their owner means: a click is no drag, a held key flies, the panel has its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from renderer.app.viewer.controls import Extent, View, view_of
from renderer.app.viewer.hand import DOUBLE_S, LEFT, MIDDLE, Hand
from renderer.app.viewer.window import Key
from renderer.scene.model import Camera, Perspective


class Told:
    """`Actions` that remember."""

    extent = Extent(np.zeros(3), 2.0)
    height, scale = 480.0, 1.0

    def __init__(self) -> None:
        world = np.eye(4)
        world[2, 3] = 5.0
        self.view: View = view_of(Camera("", Perspective(0.8), world), self.extent)
        self.commands: list[str] = []
        self.clicks: list[tuple[float, float, bool]] = []
        self.opened: list[Path] = []
        self.mouse = self.keyboard = False
        self.turns = 0

    def command(self, name: str) -> None:
        self.commands.append(name)

    def move(self, change: Callable[[View], View]) -> None:
        self.view = change(self.view)

    def click(self, x: float, y: float, double: bool) -> None:
        self.clicks.append((x, y, double))

    def open(self, path: Path) -> None:
        self.opened.append(path)

    def damaged(self) -> None:
        self.turns += 1

    def wants_mouse(self) -> bool:
        return self.mouse

    def wants_keyboard(self) -> bool:
        return self.keyboard


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def hand(told: Told) -> Hand:
    return Hand(told)


def press(hand: Hand, name: str, place: str | None = None, *, ctrl: bool = False, shift: bool = False) -> None:
    """A key, down and up."""
    for pressed in (True, False):
        hand.on_key(Key(name, place or name, pressed, False, ctrl, shift))


def click(hand: Hand, x: float, y: float) -> None:
    hand.on_move(x, y)
    hand.on_button(LEFT, True)
    hand.on_move(x + 1, y - 1)  # hands tremble
    hand.on_button(LEFT, False)


@pytest.mark.parametrize(
    ("key", "command"),
    [
        ("escape", "quit"), ("f1", "panel"), ("[", "workgroup 256"), ("]", "workgroup 512"), ("p", "screenshot"), ("r", "reset"),
        ("f", "frame"), ("space", "pause"), ("f11", "full screen"),
    ],
)  # fmt: skip
def test_keys_are_commands(hand: Hand, told: Told, key: str, command: str) -> None:
    press(hand, key)
    assert told.commands == [command]


def test_commands_go_by_the_letter_on_the_key_and_flying_by_its_place(hand: Hand, told: Told) -> None:
    press(hand, "z", "y", ctrl=True)  # on a German keyboard Z is where Y is on an American one
    press(hand, "z", "z", ctrl=True, shift=True)
    press(hand, "y", "y", ctrl=True)
    press(hand, "s", "s", ctrl=True)
    assert told.commands == ["undo", "redo", "redo", "save"] and not hand.flying
    hand.on_key(Key("z", "w", True, False, False, False))  # on a French one W is where Z is
    assert hand.flying
    before = told.view.distance
    hand.fly(0.1)
    assert told.view.camera.world[2, 3] < 5.0 and told.view.distance == pytest.approx(before)
    hand.on_key(Key("z", "w", False, False, False, False))
    assert not hand.flying


def test_a_repeated_key_is_one_command(hand: Hand, told: Told) -> None:
    hand.on_key(Key("p", "p", True, False, False, False))
    hand.on_key(Key("p", "p", True, True, False, False))
    assert told.commands == ["screenshot"]


def test_keys_are_let_go_when_the_window_loses_the_keyboard(hand: Hand, told: Told) -> None:
    hand.on_key(Key("w", "w", True, False, False, False))
    hand.on_focus(False)
    assert not hand.flying


def test_a_click_is_where_the_mouse_was_and_moves_nothing(hand: Hand, told: Told) -> None:
    before = told.view
    click(hand, 100.0, 50.0)
    assert told.view is before and told.clicks == [(101.0, 49.0, False)]


def test_two_clicks_are_a_double_one_if_they_are_quick_and_near(hand: Hand, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr("renderer.app.viewer.hand.time.perf_counter", lambda: now[0])
    for seconds, x in ((0.0, 100.0), (DOUBLE_S / 2, 100.0), (DOUBLE_S / 2, 100.0), (1.0, 100.0), (DOUBLE_S / 2, 180.0)):
        now[0] += seconds
        click(hand, x, 50.0)
    assert [double for _, _, double in told.clicks] == [False, True, False, False, False]


def test_a_drag_of_the_left_button_turns_and_of_the_middle_one_moves(hand: Hand, told: Told) -> None:
    for button in (LEFT, MIDDLE):
        told.__init__()  # type: ignore[misc]
        hand.on_move(100.0, 100.0)
        hand.on_button(button, True)
        hand.on_move(130.0, 100.0)
        hand.on_move(160.0, 100.0)
        hand.on_button(button, False)
        hand.on_move(300.0, 100.0)  # let go
        turned = not np.allclose(told.view.camera.world[:3, :3], np.eye(3))
        assert turned == (button == LEFT) and not told.clicks
        assert not np.allclose(told.view.camera.world[:3, 3], [0.0, 0.0, 5.0])


def test_a_drag_ends_where_it_would_have_ended_in_one_movement(told: Told) -> None:
    ends = []
    for steps in (1, 60):
        told = Told()
        hand = Hand(told)
        hand.on_move(100.0, 100.0)
        hand.on_button(LEFT, True)
        for step in range(1, steps + 1):
            hand.on_move(100.0 + 60.0 * step / steps, 100.0 + 30.0 * step / steps)
        ends.append(told.view.camera.world)
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-12)  # also what it took to be told from a click


def test_what_the_panel_wants_is_not_the_cameras(hand: Hand, told: Told) -> None:
    told.mouse = told.keyboard = True
    before = told.view
    hand.on_move(10.0, 10.0)
    hand.on_button(LEFT, True)
    hand.on_move(90.0, 10.0)
    hand.on_button(LEFT, False)
    hand.on_scroll(0.0, 3.0)
    press(hand, "r")
    assert told.view is before and not told.commands and not told.clicks
    assert told.turns > 0  # but the panel has to be drawn


def test_a_button_that_was_pressed_in_the_picture_is_let_go_over_the_panel(hand: Hand, told: Told) -> None:
    hand.on_move(10.0, 10.0)
    hand.on_button(LEFT, True)
    hand.on_move(90.0, 10.0)
    told.mouse = True
    hand.on_button(LEFT, False)
    told.mouse = False
    before = told.view
    hand.on_move(200.0, 10.0)
    assert told.view is before


def test_the_wheel_zooms_and_a_dropped_file_opens(hand: Hand, told: Told) -> None:
    hand.on_scroll(0.0, 2.0)
    assert told.view.distance < 5.0
    hand.on_drop([Path("one.glb"), Path("two.glb")])
    hand.on_drop([])
    assert told.opened == [Path("one.glb")]
