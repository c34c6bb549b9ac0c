"""What shapes the code, and the workers that come and go with it.

A `Structure` names everything that cannot be changed in a running session: backend, workgroup, the scene file and its revision, the
shading module, the kind of projection. When the structure that is wanted is not the one that was built last, `Stage` starts a worker for
it in the background. The active worker draws on; when the new one has finished its first frame the two are exchanged, and the old one is
told to stop. A newer wish stops a build that is under way. A build that fails leaves everything as it was, and is not tried again before
something else is wanted.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from renderer.app.viewer.worker import Built, Say, Worker

if TYPE_CHECKING:
    from types import ModuleType

    from engine import Device
    from renderer.app.opening import FrameOptions
    from renderer.app.viewer.editing import Changes
    from renderer.app.viewer.window import SharedContext
    from renderer.pipeline.session import Session
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
        for part in fields(self):
            old, new = getattr(before, part.name), getattr(self, part.name)
            if old == new:
                continue
            if part.name in ("scene", "shading"):
                parts.append(_source_changed(part.name, old, new))
            elif part.name == "orthographic":
                parts.append(f"{'orthographic' if new else 'perspective'} camera")
            else:
                parts.append(f"{part.name} {old or 'auto'} -> {new or 'auto'}")
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
    from engine import candidates

    return not {"opengl", "opencl"}.isdisjoint(candidates(backend))


def sharing(device: Device, context: SharedContext | None) -> tuple[Device, str]:
    """An OpenCL device opened anew so that it shares memory with the window, or the same one and why not; others as they are."""
    if device.backend != "opencl":
        return device, ""
    from engine import DeviceError, gl_sharing, open_device

    problem = gl_sharing(device)
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
        """On a worker's thread; where "auto" has taken a device that cannot compile the frame, on the next. Raises SceneError, DeviceError,
        MemoryError, and Stopped through `say`."""
        say("starting the engine", 0.0)
        from engine import DeviceError, open_device
        from renderer.pipeline.session import device_after
        from renderer.shading.module import load as load_shading

        structure, scene = self.structure, self.scene
        shading = load_shading(structure.shading.path) if structure.shading is not None else None
        opening: dict[str, Any] = {"threads": self.options.threads}
        if self.context is not None:
            opening["context"] = self.context
        device = open_device(structure.backend, **opening)
        while True:
            device, not_shared = sharing(device, self.context)
            try:
                if scene is None:
                    scene = self._load(say)
                return Built(scene, self._session(scene, device, shading, say), device, not_shared)
            except DeviceError as error:
                other = device_after(device, structure.backend, error, **opening)
                if other is None:
                    device.close()
                    raise
                device = other
            except BaseException:
                device.close()
                raise

    def _load(self, say: Say) -> Scene:
        say("loading the scene", 0.0)
        from renderer.scene.importers import load
        from renderer.scene.surroundings import surrounded
        from renderer.scene.variants import in_variant

        path, options = self.structure.scene.path, self.options
        scene = load(path, strict=options.strict, warn=self.warn)
        scene.culled = options.cull
        return surrounded(in_variant(scene, options.variant if path == options.scene else None), options.env)

    def _session(self, scene: Scene, device: Device, shading: ModuleType | None, say: Say) -> Session:
        from renderer.pipeline.session import Session

        options, asked = self.options, self.scene is None and self.structure.scene.path == self.options.scene
        session = Session(
            scene,
            width=self.size[0],
            height=self.size[1],
            spp=options.spp,
            depth=options.depth,
            seed=options.seed,
            camera=options.camera if asked else None,  # of the scene that was named beside it
            workgroup=self.structure.workgroup,
            progress=say,
            device=device,
            shading=shading,
            empty=True,
        )
        if self.camera is not None:
            session.set_camera(self.camera)
        say("preparing clicks", 0.95)
        session.prepare_pick()
        return session


@dataclass
class Build:
    """A worker and what it is for. `scene` and `orthographic` (of its camera) are known once it is built; `untold`: changes of scenes
    that it has not been told of yet (see `editing.take_up`); `outgrown`: one of them takes another session."""

    structure: Structure
    worker: Worker
    context: SharedContext | None
    scene: Scene | None = None
    orthographic: bool = False
    untold: deque[tuple[Scene, Changes]] = field(default_factory=deque)
    outgrown: bool = False


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
        failure = (coming.worker.failure or coming.worker.trouble) if coming is not None else None
        if coming is not None and failure is not None:
            self.coming = None
            self._dismiss(coming)
        return failure

    def swap(self) -> None:
        """The coming one has a frame: it is the active one now."""
        coming, self.coming = self.coming, None
        assert coming is not None
        if self.active is not None:
            self._dismiss(self.active)
        self.active = coming

    def outgrown(self) -> bool:
        """Whether it takes another build to draw what the scene is now, once. Not while one is on its way, which is told of all changes
        itself: a drag changes the scene with every turn, and would put an end to each build that it has begun."""
        newest = self.coming if self.coming is not None else self.active
        if newest is None or not newest.outgrown:
            return False
        newest.outgrown = False
        return True

    def builds(self) -> list[Build]:
        """Those that draw, or will."""
        return [build for build in (self.active, self.coming) if build is not None]

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
        for build in self.builds():
            self._dismiss(build)
        self.active = self.coming = None
        until = time.perf_counter() + seconds
        ended = [build.worker.join(until - time.perf_counter()) for build in self._going]
        self.sweep()
        return all(ended)

    def _dismiss(self, build: Build) -> None:
        build.worker.stop()
        self._going.append(build)
