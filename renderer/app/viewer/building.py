"""What shapes the code, and the workers that come and go with it.

A `Structure` names everything that cannot be changed in a running session: backend, workgroup, the scene file and its revision, the
shading module, the kind of projection. When the structure that is wanted is not the one that was built last, `Stage` starts a worker for
it in the background. The active worker draws on; when the new one has finished its first frame the two are exchanged, and the old one is
told to stop. A newer wish stops a build that is under way. A build that fails leaves everything as it was, and is not tried again before
something else is wanted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, cast

from renderer.app.viewer.worker import Built, Say, Worker

if TYPE_CHECKING:
    from engine import Device
    from engine.runtime.devices.opencl import OpenCLDevice
    from renderer.app.opening import FrameOptions
    from renderer.app.viewer.window import SharedContext
    from renderer.scene.model import Camera, Scene


@dataclass(frozen=True)
class Source:
    """A file, how often it was read, and how often what was read from it was changed in its structure."""

    path: Path
    reads: int = 0
    changes: int = 0

    def same_file(self, other: Source) -> bool:
        """Whether both are the same reading of the same file."""
        return (self.path, self.reads) == (other.path, other.reads)


@dataclass(frozen=True)
class Structure:
    """What a session is built for. `shading`: None where the renderer's own is used. `orthographic`: None: as the scene's camera is."""

    backend: str
    workgroup: int | None
    scene: Source
    shading: Source | None
    orthographic: bool | None = None

    def why(self, before: Structure) -> str:
        """What is different from another one, in words."""
        parts = []
        for field in fields(self):
            old, new = getattr(before, field.name), getattr(self, field.name)
            if old == new:
                continue
            if field.name in ("scene", "shading"):
                parts.append(_source_changed(field.name, old, new))
            elif field.name == "orthographic":
                parts.append(f"{'orthographic' if new else 'perspective'} camera")
            else:
                parts.append(f"{field.name} {old or 'auto'} -> {new or 'auto'}")
        return ", ".join(parts)


def _source_changed(what: str, old: Source | None, new: Source | None) -> str:
    if new is None:
        return f"{what} built in"
    if old is None or old.path != new.path:
        return f"{what} {new.path.name}"
    if old.reads != new.reads:
        return f"{what} {new.path.name} read again"
    return f"{what} {new.path.name} edited"


def may_share(backend: str) -> bool:
    """Whether a name may come to stand for a backend that can share memory with the window, given a context beside it."""
    from engine.runtime.choice import candidates

    return not {"opengl", "opencl"}.isdisjoint(candidates(backend))


def sharing(device: Device, context: SharedContext | None) -> tuple[Device, str]:
    """An OpenCL device opened anew so that it shares memory with the window, or the same one and why not; others as they are."""
    if device.backend != "opencl":
        return device, ""
    from engine import DeviceError, open_device
    from engine.runtime.devices.opencl import gl_sharing

    problem = gl_sharing(cast("OpenCLDevice", device))
    if problem is not None or context is None:
        return device, problem or "there is no second OpenGL context"
    context.make_current()
    try:
        beside = open_device("opencl", share=True)
    except DeviceError as error:
        return device, str(error)
    finally:
        context.release()
    device.close()
    return beside, ""


@dataclass(frozen=True)
class Recipe:
    """Everything that a build needs. `scene`: None where the file has to be read. `camera`: None for the one of the options."""

    structure: Structure
    options: FrameOptions
    size: tuple[int, int]
    scene: Scene | None
    camera: Camera | None
    context: SharedContext | None
    warn: Callable[[str], None]

    def build(self, say: Say) -> Built:
        """On a worker's thread. Raises SceneError, DeviceError, MemoryError, and Stopped through `say`."""
        say("starting the engine", 0.0)
        from engine import open_device
        from renderer.pipeline.session import Session
        from renderer.shading.module import load as load_shading

        options, structure = self.options, self.structure
        shading = load_shading(structure.shading.path) if structure.shading is not None else None
        extra = {"context": self.context} if self.context is not None else {}
        device, not_shared = sharing(open_device(structure.backend, threads=options.threads, **extra), self.context)
        try:
            scene = self.scene
            if scene is None:
                say("loading the scene", 0.0)
                from renderer.scene.importers import load
                from renderer.scene.surroundings import surrounded

                scene = surrounded(load(structure.scene.path, strict=options.strict, warn=self.warn), options.env)
            session = Session(
                scene,
                width=self.size[0],
                height=self.size[1],
                spp=options.spp,
                depth=options.depth,
                seed=options.seed,
                camera=options.camera if self.scene is None else None,
                workgroup=structure.workgroup,
                progress=say,
                device=device,
                shading=shading,
            )
            if self.camera is not None:
                session.set_camera(self.camera)
            say("preparing clicks", 0.95)
            session.prepare_pick()
        except BaseException:
            device.close()
            raise
        return Built(scene, session, device, not_shared)


@dataclass
class Build:
    """A worker and what it is for. `scene` and `orthographic` (of its camera) are known once it is built."""

    structure: Structure
    worker: Worker
    context: SharedContext | None
    scene: Scene | None = None
    orthographic: bool = False


class Stage:
    """The worker that is seen, the one that is coming, and those that are going.

    `make(structure, why)` starts one. All calls come from the window's thread.
    """

    def __init__(self, make: Callable[[Structure, str], Build]) -> None:
        self._make = make
        self.active: Build | None = None
        self.coming: Build | None = None
        self._going: list[Build] = []
        self._wanted: Structure | None = None

    def want(self, structure: Structure) -> None:
        """Builds for this structure, unless that was the last wish already."""
        if structure == self._wanted:
            return
        before, self._wanted = self._wanted, structure
        if self.coming is not None:
            self._dismiss(self.coming)
            self.coming = None
        if self.active is not None and self.active.structure == structure:
            return  # back to what is there
        reference = self.active.structure if self.active is not None else before
        self.coming = self._make(structure, structure.why(reference) if reference is not None else "first frame")

    def failed(self) -> Exception | None:
        """What the coming build has failed of, once."""
        coming = self.coming
        if coming is None or coming.worker.failure is None:
            return None
        self.coming = None
        self._dismiss(coming)
        return coming.worker.failure

    def swap(self) -> None:
        """The coming one has a frame: it is the active one now."""
        coming, self.coming = self.coming, None
        assert coming is not None
        if self.active is not None:
            self._dismiss(self.active)
        self.active = coming

    def workers(self) -> list[Worker]:
        """Those that draw, or will."""
        return [build.worker for build in (self.active, self.coming) if build is not None]

    def sweep(self) -> None:
        """Gives back what ended workers held on the window's side."""
        ended = [build for build in self._going if not build.worker.alive]
        self._going = [build for build in self._going if build.worker.alive]
        for build in ended:
            if build.worker.presenter is not None:
                build.worker.presenter.release()
            if build.context is not None:
                build.context.destroy()

    def close(self, seconds: float) -> bool:
        """Stops all and waits so long; whether all have ended."""
        for build in (self.active, self.coming):
            if build is not None:
                self._dismiss(build)
        self.active = self.coming = None
        until = time.perf_counter() + seconds
        ended = [build.worker.join(until - time.perf_counter()) for build in self._going]
        self.sweep()
        return all(ended)

    def _dismiss(self, build: Build) -> None:
        build.worker.stop()
        self._going.append(build)
