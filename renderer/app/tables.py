"""What the commands print on standard output when no JSON is asked for: tables, drawn by rich.

On a terminal they take its width; into a file or a pipe they are drawn as wide as they need, so that no figure is
ever cut.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from renderer.app.compare import Comparison
from renderer.app.record import Record

if TYPE_CHECKING:
    from engine import DeviceStatus
    from renderer.scene.summary import Summary

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


def memory(size: int) -> str:
    """Bytes in the unit that suits them."""
    return mebibytes(size) if size >= 2**20 else figure(size / 2**10, "KiB") if size >= 2**10 else figure(size, "bytes")


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


def print_scene(facts: Summary, *, warnings: bool) -> None:
    """What is in a scene, what of it is not drawn, what it will cost, and its warnings if they are wanted; tables that would be empty are
    left out."""
    console = _console()
    console.print(f"{facts.file.path}: {facts.file.format}, {memory(facts.file.bytes)}", markup=False, highlight=False)
    table = _table("what", "figure")
    for label, value in _facts(facts):
        table.add_row(label, escape(value))
    console.print(table)
    for printed in (_cameras(facts), _extensions(facts), _costs(facts)):
        if printed.row_count:
            console.print(printed)
    console.print(f"kernels are shaped by: {', '.join(facts.costs.kernels)}", markup=False, highlight=False)
    console.print(f"costs are estimates, {facts.costs.basis}", markup=False, highlight=False)
    for warning in facts.warnings if warnings else ():
        console.print(f"warning: {warning}", markup=False, highlight=False, soft_wrap=True)


def _facts(facts: Summary) -> Iterator[tuple[str, str]]:
    geometry, materials, textures, lights = facts.geometry, facts.materials, facts.textures, facts.lights
    shared = f", {geometry.unique_triangles:,} unique" if geometry.unique_triangles != geometry.triangles else ""
    yield "triangles", f"{geometry.triangles:,} drawn{shared}"
    yield "meshes", f"{geometry.meshes:,} placed {geometry.instances:,} times, {geometry.vertices:,} vertices"
    if geometry.extent is not None:
        low, high = (", ".join(figure(value) for value in corner) for corner in geometry.extent)
        yield "extent", f"{low} to {high} m"
    modes = [f"{count} {mode.lower()}" for mode, count in materials.alpha_modes.items() if mode != "OPAQUE"]
    sides = [f"{materials.double_sided} double-sided"] if materials.double_sided else []
    yield "materials", "; ".join([str(materials.count), *modes, *sides])
    if materials.features:
        yield "of which use", ", ".join(f"{name} {count}" for name, count in materials.features.items())
    if textures.textures:
        yield "textures", f"{textures.textures} of {textures.images} images, {memory(textures.decoded_bytes)} decoded"
        shrunk = f"; {textures.shrunk} images are made smaller" if textures.shrunk else ""
        unread = f"; {textures.unread} images cannot be read" if textures.unread else ""
        held, budget = memory(textures.device_bytes), memory(textures.budget_bytes)
        yield "on the device", f"{held} with their levels, of {budget} at most{shrunk}{unread}"
    if textures.largest is not None:
        largest = textures.largest
        yield "largest image", f"{largest.name}, {largest.width} x {largest.height}, {memory(largest.bytes)}"
    punctual = {"directional": lights.directional, "point": lights.point, "spot": lights.spot}
    kinds = [f"{count} {kind}" for kind, count in punctual.items() if count]
    if lights.emissive:
        kinds.insert(0, f"{lights.emissive:,} emissive, of {lights.emissive_triangles:,} triangles")
    yield "lights", "; ".join(kinds) or "none"
    yield "surroundings", lights.surroundings
    if facts.variants:
        yield "variants", ", ".join(facts.variants)
    if facts.rest_pose:
        yield "at rest", f"{', '.join(facts.rest_pose)}: drawn in rest pose"


def _cameras(facts: Summary) -> Table:
    table = _table("camera", "name", "projection")
    for index, camera in enumerate(facts.cameras):
        if camera.projection == "perspective":
            lens = f", lens of {figure(camera.aperture)} m" if camera.aperture > 0 else ""
            focus = f", sharp at {figure(camera.focus)} m" if camera.focus is not None else ""
            told = f"perspective, {camera.height:.1f} degrees high{lens}{focus}"
        else:
            told = f"orthographic, {figure(camera.height)} m high"
        table.add_row(str(index), escape(camera.name), told)
    return table


def _extensions(facts: Summary) -> Table:
    table = _table("extension", "required", "state")
    for extension in facts.extensions:
        why = f": {extension.why}" if extension.why else ""
        table.add_row(escape(extension.name), "yes" if extension.required else "", escape(extension.state + why))
    return table


def _costs(facts: Summary) -> Table:
    costs = facts.costs
    title = f"costs of a picture of {costs.size[0]} x {costs.size[1]}"
    table = _table("what", "CPU", "OpenGL, OpenCL", figures=(1, 2), title=title)
    for name in ("triangles", "tree", "corners", "materials", "lights", "surroundings", "textures", "frame", "total"):
        sizes = [getattr(device, name) for device in (costs.cpu, costs.gpu)]
        if any(sizes):
            table.add_row(name, *(memory(size) for size in sizes))
    table.add_row("building the tree", *(f"about {device.bvh_seconds:.2g} s" for device in (costs.cpu, costs.gpu)))
    return table
