"""How the panel looks: its colours, distances and fonts, at every density of the screen.

One dark grey for what lies under things, two lighter ones for what can be touched, one accent for what is on, chosen or dragged, and
three colours that mean something (a warning, an error, good). Everything else is white of some opacity. Distances are given for a
screen of ordinary density and multiplied by the scale of the window's screen, fonts are rasterised at their final size, so that a
window that is moved to a screen of twice the density gets the same panel, sharp.

The fonts come with imgui-bundle: Roboto for text (its digits are of one width, so that figures do not dance), Font Awesome for the
buttons' icons. Where a file is missing, Dear ImGui's own font stands in, and `Fonts.icons` tells the buttons to use words.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import imgui_bundle
from imgui_bundle import ImVec2, ImVec4, imgui, implot

FONT_SIZE = 15.0  # pixels at scale 1
ASSETS = Path(imgui_bundle.__file__).parent / "assets" / "fonts"
TEXT_FONT = ASSETS / "Roboto" / "Roboto-Regular.ttf"
BOLD_FONT = ASSETS / "Roboto" / "Roboto-Bold.ttf"
ICON_FONT = ASSETS / "fontawesome-webfont.ttf"

# Places of Font Awesome 4.
ICON_UNDO = "\uf0e2"
ICON_REDO = "\uf01e"
ICON_OPEN = "\uf07c"
ICON_SAVE = "\uf0c7"
ICON_RELOAD = "\uf021"
ICON_PHOTO = "\uf030"
ICON_FULL_SCREEN = "\uf065"
ICON_FRAME = "\uf05b"
ICON_HOME = "\uf015"
ICON_HELP = "\uf059"


def _grey(value: float, alpha: float = 1.0) -> ImVec4:
    return ImVec4(value, value * 1.01, value * 1.04, alpha)


GROUND = _grey(0.105)
TEXT = ImVec4(0.92, 0.93, 0.95, 1.0)
FAINT = ImVec4(0.64, 0.66, 0.70, 1.0)
ACCENT = ImVec4(0.30, 0.64, 0.94, 1.0)
CHOSEN = ImVec4(0.17, 0.40, 0.62, 1.0)  # the accent as a ground for text
WARNING = ImVec4(0.98, 0.76, 0.36, 1.0)
ERROR = ImVec4(1.0, 0.52, 0.47, 1.0)


def _accent(alpha: float) -> ImVec4:
    return ImVec4(ACCENT.x, ACCENT.y, ACCENT.z, alpha)


ERROR_GROUND = ImVec4(0.33, 0.11, 0.11, 1.0)
WARNING_GROUND = ImVec4(0.28, 0.21, 0.09, 1.0)
COLORS = {
    imgui.Col_.text: TEXT,
    imgui.Col_.text_disabled: FAINT,
    imgui.Col_.window_bg: GROUND,
    imgui.Col_.child_bg: ImVec4(0.0, 0.0, 0.0, 0.0),
    imgui.Col_.popup_bg: _grey(0.13),
    imgui.Col_.border: _grey(1.0, 0.10),
    imgui.Col_.frame_bg: _grey(0.19),
    imgui.Col_.frame_bg_hovered: _grey(0.24),
    imgui.Col_.frame_bg_active: _grey(0.27),
    imgui.Col_.title_bg: GROUND,
    imgui.Col_.title_bg_active: GROUND,
    imgui.Col_.scrollbar_bg: ImVec4(0.0, 0.0, 0.0, 0.0),
    imgui.Col_.scrollbar_grab: _grey(0.30),
    imgui.Col_.scrollbar_grab_hovered: _grey(0.38),
    imgui.Col_.scrollbar_grab_active: _grey(0.46),
    imgui.Col_.check_mark: ACCENT,
    imgui.Col_.slider_grab: _accent(0.55),
    imgui.Col_.slider_grab_active: _accent(0.8),
    imgui.Col_.button: _grey(0.22),
    imgui.Col_.button_hovered: _grey(0.29),
    imgui.Col_.button_active: _accent(0.70),
    imgui.Col_.header: _grey(0.165),
    imgui.Col_.header_hovered: _grey(0.22),
    imgui.Col_.header_active: _grey(0.26),
    imgui.Col_.separator: _grey(1.0, 0.08),
    imgui.Col_.separator_hovered: _accent(0.6),
    imgui.Col_.separator_active: ACCENT,
    imgui.Col_.table_header_bg: _grey(0.165),
    imgui.Col_.table_border_light: _grey(1.0, 0.06),
    imgui.Col_.table_border_strong: _grey(1.0, 0.10),
    imgui.Col_.table_row_bg_alt: _grey(1.0, 0.025),
    imgui.Col_.text_selected_bg: _accent(0.40),
    imgui.Col_.plot_histogram: ACCENT,
    imgui.Col_.plot_lines: ACCENT,
    imgui.Col_.modal_window_dim_bg: ImVec4(0.0, 0.0, 0.0, 0.45),
    imgui.Col_.nav_cursor: ACCENT,
}


@dataclass(frozen=True)
class Fonts:
    """Text, headings; whether the icons are there. A font of None is Dear ImGui's own."""

    text: imgui.ImFont | None
    bold: imgui.ImFont | None
    icons: bool


def load_fonts() -> Fonts:
    """Puts the fonts into the current context's atlas; to be called once, before the first frame."""
    fonts = imgui.get_io().fonts
    if not TEXT_FONT.is_file():
        fonts.add_font_default()
        return Fonts(None, None, icons=False)
    text = fonts.add_font_from_file_ttf(str(TEXT_FONT), FONT_SIZE)
    if ICON_FONT.is_file():
        merged = imgui.ImFontConfig()
        merged.merge_mode = True
        merged.glyph_min_advance_x = FONT_SIZE
        merged.glyph_offset = ImVec2(0.0, 1.0)
        fonts.add_font_from_file_ttf(str(ICON_FONT), FONT_SIZE, merged)
    bold = fonts.add_font_from_file_ttf(str(BOLD_FONT), FONT_SIZE) if BOLD_FONT.is_file() else text
    return Fonts(text, bold, icons=ICON_FONT.is_file())


def apply(scale: float) -> None:
    """Sets the current context's style for a screen of this scale, 1 being some 96 dots an inch."""
    style = imgui.Style()
    style.window_padding = ImVec2(10, 8)
    style.frame_padding = ImVec2(7, 3.5)
    style.item_spacing = ImVec2(6, 5)
    style.item_inner_spacing = ImVec2(5, 4)
    style.cell_padding = ImVec2(5, 2)
    style.indent_spacing = 12
    style.scrollbar_size = 10
    style.grab_min_size = 9
    style.window_rounding = 0
    style.child_rounding = style.frame_rounding = style.popup_rounding = style.grab_rounding = 4
    style.window_border_size = style.frame_border_size = 0
    style.child_border_size = style.popup_border_size = 1
    style.disabled_alpha = 0.5
    style.hover_delay_normal = 0.35
    style.scale_all_sizes(scale)  # of what is there, so it has to begin from a new one each time
    style.font_size_base = FONT_SIZE
    style.font_scale_dpi = scale
    current = imgui.get_style()
    for name in dir(style):
        if not name.startswith("_") and not callable(getattr(style, name)):
            setattr(current, name, getattr(style, name))
    for color, value in COLORS.items():
        current.set_color_(color, value)
    plot = implot.get_style()
    plot.plot_padding = ImVec2(0, 7 * scale)
    plot.plot_border_size = 0
    plot.plot_min_size = ImVec2(20, 20)
    plot.label_padding = ImVec2(4 * scale, 3 * scale)
    plot.major_grid_size = plot.minor_grid_size = ImVec2(1, 1)
    plot.set_color_(implot.Col_.frame_bg, _grey(0.13))
    plot.set_color_(implot.Col_.plot_bg, ImVec4(0.0, 0.0, 0.0, 0.0))
    plot.set_color_(implot.Col_.axis_grid, _grey(1.0, 0.12))
    plot.set_color_(implot.Col_.axis_text, FAINT)
