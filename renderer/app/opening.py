"""From the command line's settings to a session that is ready to draw: what `bench` and `render` share.

The heavy imports (NumPy, the engine, the importers) are made here and not at the head of the file, so that `--help`
and errors in the arguments come at once, and so that their cost is timed as what it is, the first part of the way to
the first frame.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from renderer.app.host import seconds_since_start
from renderer.app.terminal import Progress, say

if TYPE_CHECKING:
    from renderer.app.static import StaticSession
    from renderer.pipeline.session import Session
    from renderer.scene.model import Scene

PICTURES = (".png", ".exr", ".hdr", ".npy")


class UsageError(Exception):
    """The command cannot be carried out as it was given; the text says which argument and what to do (exit code 2)."""


@dataclass(frozen=True)
class FrameOptions:
    """The options that `bench` and `render` share. None: left to the device, or to the scene."""

    scene: Path
    backend: str
    width: int
    height: int
    spp: int  # a frame for bench, in all for render
    depth: int
    seed: int
    camera: int | str | None
    workgroup: int | None
    threads: int | None
    denoiser: str
    strict: bool
    quiet: bool
    env: str | None = None  # "sky", "none", or a picture's path
    cull: bool = False
    exposure: float = 0.0  # stops
    variant: int | str | None = None  # of the scene


@dataclass(frozen=True)
class Opened:
    """A scene on a device, and the seconds it took to get there; `imported_s` counts from the start of the process."""

    scene: Scene
    session: Session | StaticSession
    imported_s: float
    load_s: float


def load_scene(path: Path, *, strict: bool, quiet: bool) -> Scene:
    """Loads a scene file; the importer's warnings go to standard error, a line each. Raises SceneError."""
    from renderer.scene.importers import load

    return load(path, strict=strict, warn=ignore if quiet else warn)


def warn(message: str) -> None:
    """Says a warning."""
    say(f"warning: {message}")


def ignore(message: str) -> None:
    """What `--quiet` does with a warning."""


@contextmanager
def open_session(options: FrameOptions, progress: Progress, *, spp_per_frame: int, static: bool = False) -> Iterator[Opened]:
    """Loads the scene, builds its tree, uploads and compiles; `static`: the shaders of shaders_ref/ in place of our kernels. Warnings are
    said until the block ends, with which the session is closed.

    Raises UsageError, SceneError, DeviceError or MemoryError.
    """
    with ExitStack() as ending:
        gc.disable()  # nothing of what is imported and loaded is garbage, and the collector would walk it again and again
        try:
            opened = _open_session(options, progress, spp_per_frame, _static_session if static else _session, ending)
        finally:
            gc.enable()
        ending.callback(opened.session.close)
        yield opened


def _open_session(
    options: FrameOptions,
    progress: Progress,
    spp_per_frame: int,
    make: Callable[[Scene, FrameOptions, int, Progress], Session | StaticSession],
    ending: ExitStack,
) -> Opened:
    import renderer.pipeline.session
    import renderer.scene.gltf  # noqa: F401 - both are imported here so that `imported_s` has them
    from engine import events, resolved
    from renderer.scene.surroundings import surrounded
    from renderer.scene.variants import in_variant

    imported_s = seconds_since_start()
    heard = ignore if options.quiet else warn
    ending.callback(events.subscribe(lambda event: heard(event.fields["message"]), {"warning"}))
    resolved(options.backend)  # said before the work
    started = time.perf_counter()
    progress("loading", 0.0)
    scene = in_variant(load_scene(options.scene, strict=options.strict, quiet=options.quiet), options.variant)
    scene.culled = options.cull
    if options.env is not None or make is not _static_session:  # the hand-written shaders have a sky of one colour for scenes without light
        scene = surrounded(scene, options.env)
    load_s = time.perf_counter() - started
    return Opened(scene, make(scene, options, spp_per_frame, progress), imported_s, load_s)


def _session(scene: Scene, options: FrameOptions, spp: int, progress: Progress) -> Session:
    from renderer.pipeline.session import Session

    session = Session(scene, backend=options.backend, threads=options.threads, **_common(options, spp, progress))
    session.exposure = 2.0**options.exposure
    return session


def _static_session(scene: Scene, options: FrameOptions, spp: int, progress: Progress) -> StaticSession:
    if scene.environment is not None and scene.environment.is_picture:
        raise UsageError(f"--env {options.env}: the hand-written shaders draw no pictures of surroundings; take --static or --env away")
    if options.exposure != 0:
        raise UsageError(f"--exposure {options.exposure:g}: the hand-written shaders have none; take --static or --exposure away")

    from renderer.app.static import StaticSession

    return StaticSession(scene, **_common(options, spp, progress))


def _common(options: FrameOptions, spp: int, progress: Progress) -> dict[str, Any]:
    """What both kinds of sessions are told."""
    same = {name: getattr(options, name) for name in ("width", "height", "depth", "seed", "camera", "workgroup")}
    return {**same, "spp": spp, "progress": progress}


def check_output(path: Path, option: str, suffixes: tuple[str, ...] | None = None) -> None:
    """Raises UsageError where a file could not be written to `path`: said before the work, not after it."""
    if suffixes is not None and path.suffix.lower() not in suffixes:
        raise UsageError(f"{option} {path}: unknown kind of picture '{path.suffix}'; use one of {', '.join(suffixes)}")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {folder}; make it first")
    if path.is_dir():
        raise UsageError(f"{option} {path}: is a folder; name a file in it")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise UsageError(f"{option} {path}: cannot be written; choose another place or change its permissions")
