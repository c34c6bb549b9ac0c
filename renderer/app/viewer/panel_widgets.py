"""The panel's vocabulary: labelled rows, tooltips, lists with a search field, and the bracket that makes one undo step of a drag.

Every row is a label on the left, in a column as wide as the panel's longest label allows, and one control that fills the rest: so all
controls of all sections stand below each other and nothing moves when a value changes. Texts that do not fit end in an ellipsis and
have the whole in their tooltip. Where one section has two rows of a name, what follows "##" in a label tells them apart. A list with
thousands of names formats those that are visible; its search compares names that were brought into lower case once.

Dear ImGui has no events, only the state of each frame. So `Edits` opens a step of the editor's history with the first change that a
control makes, and closes it in the first frame in which nothing is held any more, whatever the control was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from imgui_bundle import ImVec2, ImVec4, imgui

from renderer.app.viewer import theme

if TYPE_CHECKING:
    from renderer.app.viewer.editing import Editor

CLAMP = imgui.SliderFlags_.always_clamp
LABEL_SHARE = 0.46  # of the panel's inner width, at most, for the labels
GUTTER = 1.25  # of the font's size: what rows are moved in where a button may stand before them
WIDE_LABELS = ("Frame target", "Max samples", "Render scale", "Tone mapper", "Accumulated", "Host memory")
WIDE_MOVED_IN = ("Thickness map", "Metal, rough", "Spec. colour")  # of rows that are moved in by the gutter
HOVERED = imgui.HoveredFlags_.for_tooltip | imgui.HoveredFlags_.allow_when_disabled


def tooltip(text: str) -> None:
    """A tooltip for the item before, disabled ones included, wrapped."""
    if text and imgui.is_item_hovered(HOVERED) and imgui.begin_tooltip():
        imgui.push_text_wrap_pos(imgui.get_font_size() * 20)
        imgui.text_unformatted(text)
        imgui.pop_text_wrap_pos()
        imgui.end_tooltip()


def wrapped(text: str, color: ImVec4 = theme.TEXT) -> None:
    """Text over as many lines as it takes."""
    imgui.push_style_color(imgui.Col_.text, color)
    imgui.push_text_wrap_pos(0.0)
    imgui.text_unformatted(text)
    imgui.pop_text_wrap_pos()
    imgui.pop_style_color()


def elide(text: str, width: float) -> str:
    """The text, or its beginning and an ellipsis, no wider than `width` in the current font."""
    return _elide(text, int(width), imgui.get_font_size())


@lru_cache(1024)
def _elide(text: str, width: int, _font_size: float) -> str:
    if imgui.calc_text_size(text).x <= width:
        return text
    low, high = 0, len(text)
    while low < high:  # the longest beginning that fits
        middle = (low + high + 1) // 2
        low, high = (middle, high) if imgui.calc_text_size(text[:middle].rstrip() + "…").x <= width else (low, middle - 1)
    return text[:low].rstrip() + "…"


def elided(text: str, color: ImVec4 = theme.TEXT) -> None:
    """One line of text in what is left of the row; the whole as its tooltip where it was cut."""
    short = elide(text, imgui.get_content_region_avail().x)
    imgui.text_colored(color, short)
    if short != text:
        tooltip(text)


def close_on_escape() -> None:
    """Within an open popup: Esc closes it."""
    if imgui.is_key_pressed(imgui.Key.escape):
        imgui.close_current_popup()


def is_shown(height: float) -> bool:
    """Whether an item of this height, drawn here, would be visible."""
    return imgui.is_rect_visible(ImVec2(1.0, height))


class Rows:
    """Labelled controls. All return whether the user changed the value, and the value."""

    def __init__(self, *, icons: bool) -> None:
        self.label_width = 0.0
        self._icons = icons
        self._left = 0.0  # of labels that are not moved in

    def measure(self) -> None:
        """Finds the width of the column of labels for the current window and font; once a frame."""
        self._left = imgui.get_cursor_pos_x()
        gutter = GUTTER * imgui.get_font_size()
        widths = [imgui.calc_text_size(text).x for text in WIDE_LABELS]
        widths += [gutter + imgui.calc_text_size(text).x for text in WIDE_MOVED_IN]
        wanted = max(widths) + 1.5 * imgui.get_style().item_spacing.x
        self.label_width = min(wanted, imgui.get_content_region_avail().x * LABEL_SHARE)

    def label(self, text: str, tip: str = "") -> str:
        """Draws the label; returns the identifier for the control that follows and fills the row."""
        text, _, key = text.partition("##")
        imgui.align_text_to_frame_padding()
        short = elide(text, self.label_room())
        imgui.text_unformatted(short)
        tooltip(tip or (text if short != text else ""))
        self.to_control()
        return f"##{key or text}"

    def label_room(self) -> float:
        """The width that a label has from here."""
        return self._left + self.label_width - imgui.get_cursor_pos_x() - imgui.get_style().item_spacing.x

    def to_control(self) -> None:
        """To where the row's control begins, which fills the row."""
        imgui.same_line(self._left + self.label_width)
        imgui.set_next_item_width(-1.0)

    def slider(
        self, label: str, value: float, low: float, high: float, form: str = "%.2f", tip: str = "", *, logarithmic: bool = False
    ) -> tuple[bool, float]:
        name = self.label(label, tip)
        flags = CLAMP | imgui.SliderFlags_.logarithmic if logarithmic else CLAMP
        result = imgui.slider_float(name, value, low, high, form, flags)
        tooltip(tip)
        return result

    def slider_int(
        self, label: str, value: int, low: int, high: int, form: str = "%d", tip: str = "", *, logarithmic: bool = False
    ) -> tuple[bool, int]:
        name = self.label(label, tip)
        flags = CLAMP | imgui.SliderFlags_.logarithmic if logarithmic else CLAMP
        result = imgui.slider_int(name, value, low, high, form, flags)
        tooltip(tip)
        return result

    def drag(
        self, label: str, value: float, low: float, high: float, speed: float, form: str = "%.3g", tip: str = ""
    ) -> tuple[bool, float]:
        """For values without a natural end: dragging changes them by `speed` a pixel."""
        name = self.label(label, tip)
        result = imgui.drag_float(name, value, speed, low, high, form, CLAMP)
        tooltip(tip)
        return result

    def triple(self, label: str, values: Sequence[float], speed: float, unit: str = "", tip: str = "") -> tuple[bool, list[float]]:
        """Three numbers side by side, with as many digits as there is room for."""
        name = self.label(label, tip)
        room = imgui.get_content_region_avail().x / 3 / imgui.get_font_size()
        digits = 3 if room > 4.4 else 2 if room > 3.8 else 1
        result = imgui.drag_float3(name, list(values), speed, 0.0, 0.0, f"%.{digits}f{unit}")
        tooltip(tip)
        return result

    def pair(self, label: str, values: Sequence[float], speed: float, tip: str = "") -> tuple[bool, tuple[float, float]]:
        """Two numbers side by side."""
        name = self.label(label, tip)
        changed, (x, y) = imgui.drag_float2(name, list(values), speed, 0.0, 0.0, "%.3f")
        tooltip(tip)
        return changed, (x, y)

    def check(self, label: str, value: bool, tip: str = "") -> tuple[bool, bool]:
        name = self.label(label, tip)
        result = imgui.checkbox(name, value)
        tooltip(tip)
        return result

    def choice(self, label: str, options: Sequence[str], current: int, tip: str = "") -> tuple[bool, int]:
        """A list that opens."""
        name = self.label(label, tip)
        result = imgui.combo(name, current, list(options))
        tooltip(tip)
        return result

    def segments(self, label: str, options: Sequence[str], current: int, tip: str = "") -> tuple[bool, int]:
        """Buttons side by side, of which one is on: for a few short options."""
        name = self.label(label, tip)
        return segments(name, options, current, tip)

    def color(self, label: str, linear: Sequence[float], tip: str = "") -> tuple[bool, tuple[float, float, float]]:
        """A linear colour; shown, and mixed, as a screen shows it. Values above 1 are shown as 1 and stay while they are not touched."""
        name = self.label(label, tip)
        flags = imgui.ColorEditFlags_.float | imgui.ColorEditFlags_.no_label
        if imgui.get_content_region_avail().x < 10.5 * imgui.get_font_size():
            flags |= imgui.ColorEditFlags_.no_inputs  # a click on the colour itself opens them
        changed, shown = imgui.color_edit3(name, [_encoded(value) for value in linear], flags)
        tooltip(tip)
        red, green, blue = (_decoded(value) for value in shown)
        return changed, (red, green, blue)

    def figure(self, label: str, value: str, tip: str = "") -> None:
        """A value that is only told."""
        imgui.text_colored(theme.FAINT, elide(label, self.label_room()))
        tooltip(tip)
        self.to_control()
        elided(value)

    def undo_button(self, key: str, differs: bool) -> bool:
        """A small button before the row that follows, where its value is not that of the file; whether it was clicked."""
        if not differs:
            return False
        place, font = imgui.get_cursor_pos(), imgui.get_font_size()
        imgui.set_cursor_pos(ImVec2(place.x - GUTTER * font, place.y + imgui.get_style().frame_padding.y))
        imgui.push_style_var(imgui.StyleVar_.frame_padding, ImVec2(0.0, 0.0))
        imgui.push_style_color(imgui.Col_.button, ImVec4(0.0, 0.0, 0.0, 0.0))
        clicked = imgui.button(f"{theme.ICON_UNDO if self._icons else '<'}###undo {key}", ImVec2(0.95 * font, 0.0))
        imgui.pop_style_color()
        imgui.pop_style_var()
        tooltip("Back to the file's value")
        imgui.set_cursor_pos(place)
        return clicked


def segments(name: str, options: Sequence[str], current: int, tip: str = "") -> tuple[bool, int]:
    """Buttons side by side over what is left of the row, `current` pressed; whether another was clicked, and which is on."""
    chosen = current
    gap = imgui.get_style().item_inner_spacing.x * 0.5
    width = (imgui.get_content_region_avail().x - gap * (len(options) - 1)) / len(options)
    imgui.push_id(name)
    for k, text in enumerate(options):
        if k:
            imgui.same_line(0.0, gap)
        if toggle(text, k == current, width):
            chosen = k
        tooltip(tip)
    imgui.pop_id()
    return chosen != current, chosen


def toggle(text: str, on: bool, width: float = 0.0) -> bool:
    """A button that is pressed or not; whether it was clicked."""
    if on:
        imgui.push_style_color(imgui.Col_.button, theme.CHOSEN)
        imgui.push_style_color(imgui.Col_.button_hovered, theme.CHOSEN)
    clicked = imgui.button(text, ImVec2(width, 0.0))
    if on:
        imgui.pop_style_color(2)
    return clicked


def swatch(name: str, linear: Sequence[float]) -> bool:
    """A small square of a linear colour, as high as a line of text; whether it was clicked."""
    size = imgui.get_text_line_height()
    r, g, b = (_encoded(value) for value in linear)
    flags = imgui.ColorEditFlags_.no_tooltip | imgui.ColorEditFlags_.no_border | imgui.ColorEditFlags_.no_drag_drop
    return imgui.color_button(name, ImVec4(r, g, b, 1.0), flags, ImVec2(size, size))


def _encoded(linear: float) -> float:
    """sRGB's curve, clipped to what a screen can show."""
    value = min(max(linear, 0.0), 1.0)
    return value * 12.92 if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055


def _decoded(shown: float) -> float:
    return shown / 12.92 if shown <= 0.04045 else ((shown + 0.055) / 1.055) ** 2.4


class Edits:
    """Changes to the scene through controls: all that one control does while it is held is one step."""

    def __init__(self) -> None:
        self._open = ""

    def change(self, editor: Editor, label: str, apply: Callable[[], None]) -> None:
        """Does `apply`, as part of the step of this name."""
        if self._open != label:
            editor.begin(label)
            self._open = label
        apply()

    def settle(self, editor: Editor) -> None:
        """Ends the step when the control was let go; at the end of each frame."""
        if self._open and not imgui.is_any_item_active():
            self._open = ""
            editor.end()


class NameList:
    """A list of names to choose from, with a search field where there are many."""

    MANY = 8  # from here on there is a search field
    ROWS = 7  # shown at a time, at most

    def __init__(self, name: str) -> None:
        self._name = name
        self._search = ""
        self._names: Sequence[str] = ()
        self._lower: list[str] = []
        self._found: Sequence[int] = ()
        self._scroll_to: int | None = None

    def show(self, number: int) -> None:
        """Scrolls to this one with the next frame."""
        self._scroll_to = number

    def draw(self, names: Sequence[str], current: int | None, before: Callable[[int], None] | None = None) -> int | None:
        """Draws the list; the number of the name that was clicked. `names` is compared by identity; `before` draws what stands left
        of a name and stays on its line."""
        if names is not self._names:
            self._names, self._lower = names, [name.lower() for name in names]
            self._find()
        if len(names) >= self.MANY:
            imgui.set_next_item_width(-1.0)
            changed, self._search = imgui.input_text_with_hint(f"##search {self._name}", f"Search {len(names)} {self._name}", self._search)
            if changed:
                self._find()
        row = imgui.get_text_line_height_with_spacing()
        clicked = None
        rows = min(max(len(names), 1), self.ROWS)
        padding = imgui.get_style().window_padding.y
        flags = imgui.ChildFlags_.borders | imgui.ChildFlags_.nav_flattened
        if imgui.begin_child(self._name, ImVec2(0.0, rows * row + 2 * padding), flags):
            if not self._found:
                imgui.text_disabled("Nothing of this name" if self._search else "None")
            if self._scroll_to in self._found:
                imgui.set_scroll_y(max(0.0, (self._found.index(self._scroll_to) - rows // 2) * row))
            self._scroll_to = None
            imgui.push_style_color(imgui.Col_.header, theme.CHOSEN)
            clipper = imgui.ListClipper()
            clipper.begin(len(self._found), row)
            while clipper.step():
                for place in range(clipper.display_start, clipper.display_end):
                    number = self._found[place]
                    imgui.push_id(number)
                    if before is not None:
                        before(number)
                        imgui.same_line()
                    if imgui.selectable(elide(names[number], imgui.get_content_region_avail().x), number == current)[0]:
                        clicked = number
                    imgui.pop_id()
            imgui.pop_style_color()
        imgui.end_child()
        return clicked

    def _find(self) -> None:
        wanted = self._search.lower().split()
        if not wanted:
            self._found = range(len(self._names))
        else:
            self._found = [k for k, name in enumerate(self._lower) if all(word in name for word in wanted)]
