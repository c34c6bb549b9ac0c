"""The panel's sections that set how the picture is made: renderer, picture, camera.

They write into `Settings` and know nothing of what that causes: the loop compares, and takes a value up with the next frame or builds a
session in the background. What cannot be set here and now is grey and says why, as a backend that this machine cannot use.

The camera in view is not in the settings, since the mouse moves it as well. What is changed of it here is handed back as a new camera.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from imgui_bundle import imgui

from renderer.app.viewer.panel_widgets import Rows, close_on_escape, tooltip
from renderer.app.viewer.state import Figures, Settings
from renderer.scene.model import Camera, Orthographic, Scene

WORKGROUPS: tuple[int | None, ...] = (None, 256, 512)
MOST_SPP = 64
MOST_DEPTH = 32
FARTHEST_FOCUS = 1e5  # m
WIDEST_APERTURE = 10.0  # m


def renderer(rows: Rows, settings: Settings, figures: Figures) -> None:
    """Backend, workgroup, resolution, samples."""
    _backend(rows, settings, figures)
    groups = WORKGROUPS if settings.workgroup in WORKGROUPS else (*WORKGROUPS, settings.workgroup)
    changed, k = rows.segments(
        "Workgroup", [str(group or "auto") for group in groups], groups.index(settings.workgroup),
        "Invocations that a GPU runs as one group. Keys: [ for 256, ] for 512",
    )  # fmt: skip
    if changed:
        settings.workgroup = groups[k]
    changed, percent = rows.slider_int(
        "Render scale", round(settings.render_scale * 100), 10, 100, "%d %%", "Size of the picture that is rendered, of the window's"
    )
    if changed:
        settings.render_scale = percent / 100
    _target(rows, settings)
    _, settings.spp = rows.slider_int(
        "Samples", settings.spp, 1, max(MOST_SPP, settings.spp), "%d a frame", "Paths a pixel in each frame", logarithmic=True
    )
    _, settings.depth = rows.slider_int(
        "Depth", settings.depth, 1, max(MOST_DEPTH, settings.depth), "%d", "Most segments of a path from the camera; 2 is direct light"
    )
    _, settings.accumulate = rows.check(
        "Accumulate", settings.accumulate, "Adds the frames up while nothing moves, so that the noise goes away"
    )
    imgui.begin_disabled(not settings.accumulate)
    _, most = rows.drag(
        "Max samples", settings.max_samples, 0, 1e6, max(0.25, settings.max_samples * 0.01), "%.0f" if settings.max_samples else "endless",
        "Rendering rests when each pixel has so many samples; 0: never",
    )  # fmt: skip
    settings.max_samples = round(most)
    imgui.end_disabled()
    tip = "Shows a picture when the screen is ready for one, so that none is torn"
    _, settings.vsync = rows.check("VSync", settings.vsync, tip)


def _backend(rows: Rows, settings: Settings, figures: Figures) -> None:
    name = rows.label("Backend", "What runs the kernels. Another one is built in the background; the picture stays meanwhile")
    preview = f"auto ({figures.backend})" if settings.backend == "auto" and figures.backend else settings.backend
    if not imgui.begin_combo(name, preview):
        return
    for backend in ("auto", *figures.usable):
        reason = figures.usable.get(backend)
        flags = imgui.SelectableFlags_.disabled if reason else imgui.SelectableFlags_.none
        if imgui.selectable(backend, backend == settings.backend, flags)[0]:
            settings.backend = backend
        tooltip(reason or "")
    close_on_escape()
    imgui.end_combo()


def _target(rows: Rows, settings: Settings) -> None:
    """A checkbox, and beside it a slider that only counts with it."""
    tip = "While the camera moves, the picture is rendered smaller to keep this time a frame"
    rows.label("Frame target", tip)
    on = settings.target_ms is not None
    changed, on = imgui.checkbox("##keep target", on)
    tooltip(tip)
    if changed:
        settings.target_ms = Settings().target_ms if on else None
    imgui.same_line()
    imgui.set_next_item_width(-1.0)
    imgui.begin_disabled(not on)
    form = "%.0f ms" if on else "off"
    changed, ms = imgui.slider_float("##target", settings.target_ms or 0.0, 4.0, 250.0, form, imgui.SliderFlags_.logarithmic)
    tooltip(tip)
    imgui.end_disabled()
    if changed and on:
        settings.target_ms = ms


def picture(rows: Rows, settings: Settings, tonemappers: Sequence[str]) -> None:
    """From radiance to the screen."""
    _, settings.exposure = rows.slider("Exposure", settings.exposure, -10.0, 10.0, "%+.1f stops", "Each stop doubles the brightness")
    names = list(tonemappers)
    current = names.index(settings.tonemapper) if settings.tonemapper in names else 0
    changed, k = rows.choice("Tone mapper", names, current, "How radiance without bounds becomes a colour of the screen")
    if changed:
        settings.tonemapper = names[k]


def camera(rows: Rows, settings: Settings, scene: Scene, view: Camera) -> tuple[Camera | None, bool]:
    """Which camera, and its lens. The camera in view as changed (None: unchanged), and whether it is to be kept in the scene."""
    names = [camera.name or f"camera {k}" for k, camera in enumerate(scene.cameras)]
    listed = settings.camera < len(names)
    _, settings.camera = rows.choice(
        "Camera", [*names, "free view"], min(settings.camera, len(names)), "The scene's cameras, and one that shows all of the scene"
    )
    lens = _lens(rows, view)
    kept = False
    if listed:
        kept = imgui.button("Keep this view", (-1.0, 0.0))
        tooltip(f"Puts the view into the scene's camera {names[settings.camera]!r}, to be saved with it")
    return (lens if lens is not view else None), kept


def _lens(rows: Rows, view: Camera) -> Camera:
    projection = view.projection
    if isinstance(projection, Orthographic):
        changed, height = rows.drag(
            "Height", projection.ymag * 2, 1e-4, 1e6, projection.ymag * 0.01, "%.4g m", "What the picture's height measures in the scene"
        )
        if changed:
            view = replace(view, projection=replace(projection, ymag=height / 2))
    else:
        tip = "From the picture's lower to its upper edge"
        changed, degrees = rows.slider("Field of view", math.degrees(projection.yfov), 1.0, 150.0, "%.1f°", tip)
        if changed:
            view = replace(view, projection=replace(projection, yfov=math.radians(degrees)))
    changed, radius = rows.drag(
        "Aperture", view.aperture, 0.0, WIDEST_APERTURE, max(1e-4, view.aperture * 0.01), "%.4g m" if view.aperture else "pinhole",
        "Radius of the lens: what is not at the distance of focus is blurred. 0: all is sharp",
    )  # fmt: skip
    if changed:
        view = replace(view, aperture=radius)
    imgui.begin_disabled(view.aperture == 0.0)
    focus = view.focus or 0.0
    changed, distance = rows.drag(
        "Focus", focus, 0.0, FARTHEST_FOCUS, max(1e-3, focus * 0.005), "%.4g m" if focus else "auto",
        "Distance that is sharp. 0: that of the point the camera turns about" if view.aperture else "Without an aperture all is sharp",
    )  # fmt: skip
    imgui.end_disabled()
    if changed:
        view = replace(view, focus=distance or None)
    return view
