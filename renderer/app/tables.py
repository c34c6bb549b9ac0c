"""What the commands print on standard output when no JSON is asked for: tables, drawn by rich.

On a terminal they take its width; into a file or a pipe they are drawn as wide as they need, so that no figure is
ever cut.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from renderer.app.compare import Comparison
from renderer.app.record import Record
from renderer.scene.model import Camera, Perspective, Scene

if TYPE_CHECKING:
    from engine import DeviceStatus

PIPE_WIDTH = 160


def _console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH)


def _table(*heads: str, figures: Sequence[int] = (), title: str | None = None) -> Table:
    """A table with these heads; the columns numbered in `figures` are set to the right."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number in figures else "left", overflow="fold")
    return table


def figure(value: float | None, unit: str = "") -> str:
    """A figure to four digits with its unit; a dash where there is none."""
    if value is None:
        return "-"
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{text} {unit}" if unit else text


def mebibytes(size: int | None) -> str:
    return figure(None if size is None else size / 2**20, "MiB")


def print_record(record: Record) -> None:
    """The figures of a benchmark that one looks at first."""
    console = _console()
    frame, scene, settings, device = record.frame_ms, record.scene, record.settings, record.device
    table = _table("figure", "value")
    rows = (
        ("scene", f"{scene.path}: {scene.triangles:,} triangles, {scene.materials} materials, {scene.lights} lights"),
        ("device", f"{device.backend}: {device.name}{' (software)' if device.software else ''}"),
        (
            "settings",
            f"{settings.width} x {settings.height}, {settings.spp_per_frame} spp a frame, depth {settings.max_depth}",
        ),
        ("frames", f"{record.measured_frames} after {record.warmup_frames} of warm-up"),
        ("frame", f"{figure(frame.median)} ms median, {figure(frame.p95)} p95, {figure(frame.p99)} p99"),
        ("rate", f"{figure(1e3 / frame.median)} frames/s, {figure(record.mpaths_per_s)} Mpaths/s"),
        ("rays", f"{figure(record.rays.total_per_frame)} a frame, {figure(record.rays.mrays_per_s)} Mrays/s"),
        ("host overhead", figure(record.host_overhead_ms.median, "ms")),
        ("first frame", f"after {figure(record.time_s.to_first_frame, 's')}"),
        (
            "of which",
            f"import {figure(record.time_s.import_)}, load {figure(record.time_s.load)}, "
            f"BVH {figure(record.time_s.bvh_build)}, upload {figure(record.time_s.upload)}, "
            f"trace {figure(record.time_s.trace)}, compile {figure(record.time_s.compile)} s",
        ),
        (
            "kernels",
            f"{record.compile.kernels}: {record.compile.cache_hits} from the cache, "
            f"{record.compile.cache_misses} compiled, {record.compile.during_frames} during frames",
        ),
        (
            "memory",
            f"{mebibytes(record.memory.device_bytes)} on the device, "
            f"{mebibytes(record.memory.host_peak_bytes)} host peak",
        ),
        ("picture", f"mean {', '.join(figure(value) for value in record.image.mean_rgb)}; {_refused(record)}"),
    )
    for label, value in rows:
        table.add_row(label, escape(value))
    console.print(table)
    if record.kernels:
        heads = ("kernel", "launches", "median ms", "workgroup", "registers", "spilled bytes")
        kernels = _table(*heads, figures=range(1, len(heads)))
        for kernel in record.kernels:
            numbers = (kernel.median_ms, kernel.workgroup, kernel.registers, kernel.spill_bytes)
            kernels.add_row(escape(kernel.name), figure(kernel.launches_per_frame), *(figure(n) for n in numbers))
        console.print(kernels)
    if record.flags.noisy:
        console.print(f"noisy: 95 % of the frames are below {figure(frame.p95 / frame.median)} times the median")


def _refused(record: Record) -> str:
    return f"{record.image.nonfinite} samples were not finite" if record.image.nonfinite else "every sample finite"


def print_comparison(comparison: Comparison) -> None:
    """Both records' figures, what else differs, and the verdict."""
    console = _console()
    table = _table("figure", "before", "after", "change", figures=(1, 2, 3))
    for row in comparison.rows:
        change = "-" if row.change is None else f"{row.change:+.1f} %"
        table.add_row(escape(row.label), figure(row.before, row.unit), figure(row.after, row.unit), change)
    console.print(table)
    for difference in comparison.differences:
        console.print(f"differs: {difference}", markup=False)
    verdict = "slower than before by more than" if comparison.slower else "not slower than before by more than"
    console.print(f"median frame: {verdict} {comparison.threshold:g} %")


def print_devices(devices: Iterable[DeviceStatus]) -> None:
    """Every backend, with its device or with what it lacks."""
    table = _table("backend", "usable", "device, or what is missing")
    for device in devices:
        usable = "no" if device.problem is not None else "software" if device.software else "yes"
        table.add_row(device.backend, usable, escape(device.problem or device.name))
    _console().print(table)


def print_scene(scene: Scene) -> None:
    """What is in a scene: totals, extent, cameras, materials and lights."""
    console = _console()
    totals, bounds = scene.totals(), scene.bounds()
    console.print(f"{scene.path}", markup=False, highlight=False)
    table = _table("what", "how many", figures=(1,))
    rows = (
        ("triangles", totals.triangles),
        ("meshes", len(scene.meshes)),
        ("instances", totals.instances),
        ("materials", totals.materials),
        ("lights", totals.lights),
        ("triangles of lights", totals.light_triangles),
        ("cameras", len(scene.cameras)),
        ("warnings", len(scene.warnings)),
    )
    for label, number in rows:
        table.add_row(label, figure(number))
    console.print(table)
    if bounds is not None:
        low, high = (", ".join(figure(float(value)) for value in corner) for corner in bounds)
        console.print(f"extent: {low} to {high} m", highlight=False)
    if scene.cameras:
        cameras = _table("camera", "name", "projection")
        for index, camera in enumerate(scene.cameras):
            cameras.add_row(str(index), escape(camera.name), _projection(camera))
        console.print(cameras)
    if scene.materials:
        heads = ("material", "name", "base colour", "metallic", "roughness", "emits W/(sr m2)")
        materials = _table(*heads, figures=(3, 4))
        for index, material in enumerate(scene.materials):
            colour = " ".join(f"{value:.3g}" for value in material.base_color_factor[:3])
            emitted = " ".join(f"{value:.3g}" for value in material.emissive) if material.is_emissive else ""
            factors = (figure(material.metallic), figure(material.roughness))
            materials.add_row(str(index), escape(material.name), colour, *factors, emitted)
        console.print(materials)


def _projection(camera: Camera) -> str:
    projection = camera.projection
    if isinstance(projection, Perspective):
        return f"perspective, {math.degrees(projection.yfov):.1f} degrees high"
    return f"orthographic, {2 * projection.xmag:.4g} x {2 * projection.ymag:.4g} m"
