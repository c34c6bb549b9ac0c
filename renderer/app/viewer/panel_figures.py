"""The panel's sections that only tell: how fast, what it costs, what was compiled and why, what the machine is.

Numbers are formatted when they are new and a few times a second at most, graphs read the figures as they are. The graph's scale jumps
in wide steps (1, 2, 5, 10, ... ms) and only back when there is plenty of room, so that a line in it can be followed. Figures that the
machine cannot give are a dash; a row never disappears for want of its figure, so nothing below it moves.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from imgui_bundle import ImVec2, ImVec4, imgui, implot

from renderer.app.viewer import theme
from renderer.app.viewer.panel_widgets import Rows, elide, elided, is_shown, tooltip, wrapped
from renderer.app.viewer.state import HISTORY, CompileFigure, Figures, KernelFigure, Settings

EVERY_S = 0.25  # between two looks at numbers that a person reads
STILL = implot.Flags_.no_inputs | implot.Flags_.no_legend | implot.Flags_.no_menus | implot.Flags_.no_mouse_text
LINE = implot.Spec(line_color=theme.ACCENT, line_weight=1.5)
FILL = implot.Spec(fill_color=theme.ACCENT, fill_alpha=0.18)
BARS = implot.Spec(fill_color=theme.CHOSEN, line_weight=0.0, flags=implot.BarsFlags_.horizontal)
TARGET = implot.Spec(line_color=theme.WARNING, line_weight=1.0, flags=implot.InfLinesFlags_.horizontal)
MEDIAN = implot.Spec(line_color=ImVec4(1.0, 1.0, 1.0, 0.45), line_weight=1.0, flags=implot.InfLinesFlags_.horizontal)
P95 = implot.Spec(line_color=ImVec4(1.0, 1.0, 1.0, 0.22), line_weight=1.0, flags=implot.InfLinesFlags_.horizontal)


@dataclass(frozen=True)
class Statistics:
    """Of the frames in the graph, in ms."""

    median: float
    p95: float
    ceiling: float  # of the graph


def nice_ceiling(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, ... at or above."""
    power = 10.0 ** np.floor(np.log10(max(value, 1e-3)))
    return float(next(power * step for step in (1.0, 2.0, 5.0, 10.0) if power * step >= value * (1 - 1e-9)))


def statistics(ms: np.ndarray[tuple[int], np.dtype[np.float64]], target: float | None, before: float = 0.0) -> Statistics:
    """Of at least one frame; `before` is the ceiling until now, kept while it is neither too low nor more than four times too high."""
    median, p95 = (float(value) for value in np.percentile(ms, (50, 95)))
    wanted = max(p95 * 1.15, (target or 0.0) * 1.1)
    return Statistics(median, p95, before if wanted <= before <= 4 * wanted else nice_ceiling(wanted))


def in_bytes(count: int | None) -> str:
    if count is None:
        return "–"
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.{1 if count < 100 * size else 0}f} {unit}"
    return f"{count} B"


def in_ms(ms: float, digits: int = 1) -> str:
    return f"{ms:.{digits}f} ms" if ms < 1000 else f"{ms / 1000:.2f} s"


def in_rays(per_s: float | None) -> str:
    return "–" if per_s is None else f"{per_s / 1e9:.2f} G/s" if per_s >= 1e9 else f"{per_s / 1e6:.1f} M/s"


class FigureSections:
    """The sections' memory: what was formatted last, and when."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._looked = -1e9
        self._ms = np.zeros(1)
        self._frames = -1
        self.statistics: Statistics | None = None
        self._kernels: tuple[KernelFigure, ...] = ()
        self._bars = np.zeros(0)
        self._places = np.zeros(0)

    def follow(self, figures: Figures, settings: Settings) -> None:
        """Takes note of new figures; once a frame, before the sections."""
        if figures.frames == self._frames or not figures.frame_ms:
            return
        self._frames = figures.frames
        self._ms = np.fromiter(figures.frame_ms, np.float64, len(figures.frame_ms))
        now = time.monotonic()
        if now - self._looked >= EVERY_S:
            self._looked = now
            before = self.statistics.ceiling if self.statistics else 0.0
            self.statistics = statistics(self._ms, settings.target_ms, before)

    # ---- speed ----

    def speed(self, figures: Figures, settings: Settings) -> None:
        """Frame times, kernels, rays."""
        self._graph(settings)
        rows = self._rows
        rows.figure("Rays", in_rays(figures.rays_per_s), "Rays that the frame traces a second, of all kinds")
        goal = f" of {settings.max_samples:,}" if settings.max_samples and settings.accumulate else ""
        rows.figure("Accumulated", f"{figures.samples:,}{goal} samples", "Added up a pixel since the picture began")
        rows.figure("Picture", f"{figures.picture[0]} × {figures.picture[1]}", "Size that is rendered")
        if figures.nonfinite:
            rows.figure("Not finite", f"{figures.nonfinite:,}", "Samples left out of the picture because they are not numbers")
        self._kernel_bars(figures)

    def _graph(self, settings: Settings) -> None:
        height = imgui.get_font_size() * 5.5
        known = self.statistics
        if known is None:
            imgui.text_colored(theme.FAINT, "No frame yet")
            imgui.dummy(ImVec2(0.0, height))
            return
        _legend((("median", in_ms(known.median), theme.TEXT), ("p95", in_ms(known.p95), theme.TEXT), _target(settings)))
        if not is_shown(height):
            imgui.dummy(ImVec2(0.0, height))
            return
        if implot.begin_plot("##frame times", ImVec2(-1.0, height), STILL):
            bare = implot.AxisFlags_.no_decorations
            implot.setup_axes("", "", bare, implot.AxisFlags_.no_tick_marks)
            implot.setup_axes_limits(0.0, HISTORY - 1.0, 0.0, known.ceiling, implot.Cond_.always)
            implot.setup_axis_ticks(implot.ImAxis_.y1, 0.0, known.ceiling, 3)
            start = float(HISTORY - len(self._ms))
            implot.plot_shaded("##frames", self._ms, 0.0, 1.0, start, FILL)
            LINE.line_weight = 1.5 * imgui.get_style().font_scale_dpi
            implot.plot_line("##frames", self._ms, 1.0, start, LINE)
            implot.plot_inf_lines("##median", np.array([known.median]), MEDIAN)
            implot.plot_inf_lines("##p95", np.array([known.p95]), P95)
            if settings.target_ms is not None:
                implot.plot_inf_lines("##target", np.array([settings.target_ms]), TARGET)
            implot.end_plot()
        tooltip("The time of each of the last frames, in ms, with their median and 95th percentile")

    def _kernel_bars(self, figures: Figures) -> None:
        """One bar a kernel, its name within, its time at the end."""
        imgui.spacing()
        total = sum(kernel.ms for kernel in figures.kernels)
        sum_of_all = f"{in_ms(total, 2)} in {len(figures.kernels)}" if figures.kernels else "–"
        self._rows.figure("Kernels", sum_of_all, "The time of each, of one frame")
        if not figures.kernels:
            return
        if tuple(figures.kernels) != self._kernels:
            self._kernels = tuple(figures.kernels)
            self._bars = np.array([kernel.ms for kernel in self._kernels])
            self._places = np.arange(len(self._bars), dtype=np.float64)
        count = len(self._kernels)
        row = imgui.get_text_line_height() + imgui.get_style().item_spacing.y
        height = row * count + 2 * implot.get_style().plot_padding.y
        width = imgui.get_content_region_avail().x
        start = imgui.get_cursor_screen_pos()
        if not is_shown(height):
            imgui.dummy(ImVec2(0.0, height))
            return
        longest = max(float(self._bars.max()), 1e-6)
        time_width = imgui.calc_text_size("000.00 ms").x
        if implot.begin_plot("##kernel times", ImVec2(-1.0, height), STILL):
            bare = implot.AxisFlags_.no_decorations
            implot.setup_axes("", "", bare, bare | implot.AxisFlags_.invert)
            implot.setup_axes_limits(0.0, longest, -0.5, count - 0.5, implot.Cond_.always)
            implot.plot_bars("##kernels", self._bars, self._places, 0.84, BARS)
            implot.end_plot()
        hovered = imgui.is_item_hovered()
        draw = imgui.get_window_draw_list()
        white, pad = imgui.get_color_u32(theme.TEXT), imgui.get_style().frame_padding.x
        top = start.y + implot.get_style().plot_padding.y + imgui.get_style().item_spacing.y / 2
        for k, kernel in enumerate(self._kernels):
            text = in_ms(kernel.ms, 2)
            draw.add_text(ImVec2(start.x + pad, top + k * row), white, elide(kernel.name, width - time_width - 3 * pad))
            draw.add_text(ImVec2(start.x + width - imgui.calc_text_size(text).x - pad, top + k * row), white, text)
        if hovered:
            k = min(count - 1, max(0, int((imgui.get_mouse_pos().y - top) / row)))
            imgui.set_tooltip(f"{self._kernels[k].name}\n{self._kernels[k].ms:.3f} ms, workgroup {self._kernels[k].workgroup}")

    # ---- compiles, memory, device ----

    def compiles(self, figures: Figures) -> None:
        """What was built in the background: when, why, how long it took."""
        if not figures.compiles:
            wrapped("Nothing was compiled since the first frame.", theme.FAINT)
            return
        rows = min(len(figures.compiles), 6)
        height = (rows + 1) * (imgui.get_text_line_height() + 2 * imgui.get_style().cell_padding.y)
        flags = imgui.TableFlags_.scroll_y | imgui.TableFlags_.row_bg | imgui.TableFlags_.sizing_fixed_fit
        if imgui.begin_table("compiles", 3, flags, ImVec2(0.0, height)):
            imgui.table_setup_scroll_freeze(0, 1)
            imgui.table_setup_column("At", imgui.TableColumnFlags_.width_fixed, imgui.calc_text_size("0000 s").x)
            imgui.table_setup_column("Why", imgui.TableColumnFlags_.width_stretch)
            imgui.table_setup_column("Took", imgui.TableColumnFlags_.width_fixed, imgui.calc_text_size("000.0 s").x)
            imgui.table_headers_row()
            clipper = imgui.ListClipper()
            clipper.begin(len(figures.compiles))
            while clipper.step():
                for k in range(clipper.display_start, clipper.display_end):
                    _compile_row(figures.compiles[-1 - k])
            imgui.end_table()

    def device(self, figures: Figures) -> None:
        """The machine, the memory, the way to the window."""
        rows = self._rows
        rows.figure("Device", figures.device or "–")
        rows.figure("Driver", figures.driver or "–")
        rows.figure("Backend", figures.backend or "–")
        rows.figure("Device mem.", in_bytes(figures.device_bytes), "Held on the device: scene, film, kernels' buffers")
        rows.figure("Host memory", in_bytes(figures.host_bytes), "The most that this process has held at once")
        taken = f"{figures.present_ms:.2f} ms, " if figures.present_ms is not None else ""
        rows.figure("Presented", f"{taken}{figures.present_path}" if figures.present_path else "–", figures.present_reason)
        if figures.present_reason:
            wrapped(figures.present_reason, theme.FAINT)
        rows.figure("Window", f"{figures.window[0]} × {figures.window[1]}", "Pixels of the window")
        rows.figure("Scene", f"{figures.triangles:,} triangles", "As drawn: instances counted each time")
        rows.figure("", f"{figures.instances:,} objects, {figures.lights:,} lights")


def _compile_row(figure: CompileFigure) -> None:
    imgui.table_next_row()
    imgui.table_next_column()
    imgui.text_unformatted(f"{figure.at_s:.0f} s")
    imgui.table_next_column()
    elided(figure.why)
    imgui.table_next_column()
    imgui.text_unformatted(f"{figure.seconds:.1f} s")
    tooltip(f"{figure.kernels} kernels were new" if figure.kernels != 1 else "1 kernel was new")


def _target(settings: Settings) -> tuple[str, str, ImVec4]:
    return ("target", f"{settings.target_ms:.0f} ms", theme.WARNING) if settings.target_ms is not None else ("target", "off", theme.TEXT)


def _legend(entries: tuple[tuple[str, str, ImVec4], ...]) -> None:
    """Names, and values below them, in columns of one width."""
    start, width = imgui.get_cursor_pos_x(), imgui.get_content_region_avail().x / len(entries)
    for texts in ([(theme.FAINT, name) for name, _, _ in entries], [(color, value) for _, value, color in entries]):
        for k, (color, text) in enumerate(texts):
            if k:
                imgui.same_line(start + k * width)
            imgui.text_colored(color, text)
