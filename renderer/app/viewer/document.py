"""What the window is about: a scene file with its changes, the camera on it, the shading module.

A `Document` knows where the scene came from (`source`: which file, read how often, changed in its structure how often) and, once a
session has been built of it, the scene itself with its editor and the view of it. The two may differ for a while: a file that was
dropped on the window is the source at once, but what is seen and edited is the scene before, until the new one has its first picture.
If that fails, `revert` goes back. Pure data: no window, no device; all calls come from the thread of the loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from renderer.app.viewer.building import Build, Source, Structure
from renderer.app.viewer.controls import Extent, View, is_orthographic, scene_view, view_of
from renderer.app.viewer.editing import Editor
from renderer.app.viewer.reload import Signature, signature
from renderer.app.viewer.state import Settings

if TYPE_CHECKING:
    from renderer.scene.model import Camera, Scene

NOWHERE = Extent(np.zeros(3), 1.0)


class Document:
    """`editor` and `view` are None until there is a scene."""

    def __init__(self, scene: Path, shading: Path | None) -> None:
        self.source = Source(scene)
        self.shading = Source(shading) if shading is not None else None
        self.editor: Editor | None = None
        self.extent = NOWHERE
        self._read: Source | None = None  # what the editor's scene was read from
        self._view: View | None = None
        self._camera: Camera | None = None
        self._saved_as: Path | None = None
        self._written: Signature = None  # of the file that was saved last

    # ---- the view ----

    @property
    def view(self) -> View | None:
        return self._view

    @view.setter
    def view(self, view: View) -> None:
        self._view = view
        camera = view.camera
        if camera.aperture and camera.focus is None:  # sharp where the camera turns about
            camera = replace(camera, focus=view.distance)
        self._camera = camera

    @property
    def camera(self) -> Camera | None:
        """The view's camera as it is drawn with; the same object as long as nothing moves."""
        return self._camera

    def move(self, change: Callable[[View], View]) -> None:
        """Moves the camera, if there is a scene to move in."""
        if self._view is not None:
            self.view = change(self._view)

    def go_home(self, number: int, aspect: float) -> None:
        """To the camera of this number, as the scene has it; or to one that frames the scene in pictures of this aspect."""
        if self.editor is not None:
            self.view = scene_view(self.editor.scene, self.extent, number, aspect)

    def follow_camera(self, number: int) -> None:
        """Takes up the scene's camera of this number, which was changed; the point that it turns about stays."""
        if self.editor is not None and self._view is not None:
            self.view = replace(self._view, camera=self.editor.scene.cameras[number])

    # ---- where it comes from ----

    def open(self, path: Path) -> None:
        """Another file is wanted, or the same one once more."""
        self.source = replace(self.source, reads=self.source.reads + 1) if path == self.source.path else Source(path)

    def read_shading_again(self) -> None:
        if self.shading is not None:
            self.shading = replace(self.shading, reads=self.shading.reads + 1)

    def restructure(self) -> None:
        """What was changed in the scene needs other code."""
        self.source = replace(self.source, changes=self.source.changes + 1)

    def revert(self, structure: Structure) -> None:
        """Back to what a session was built of, since what was wanted instead cannot be had."""
        self.source, self.shading = structure.scene, structure.shading

    def known(self, source: Source) -> Scene | None:
        """The scene that was read from there, if that is the one that is being edited."""
        return self.editor.scene if self.editor is not None and self._read is not None and self._read.same_file(source) else None

    def structure(self, settings: Settings, active: Build | None) -> Structure:
        """What sessions of it are to be built for, beside the active one."""
        orthographic = None
        if active is not None and self._view is not None and self.known(self.source) is not None:
            wanted = is_orthographic(self._view.camera)
            orthographic = active.structure.orthographic if wanted == active.orthographic else wanted
        return Structure(settings.backend, settings.workgroup, self.source, self.shading, orthographic)

    def adopt(self, scene: Scene, camera: Camera, source: Source, settings: Settings) -> bool:
        """A session of this scene, looking through this camera, is seen now. Whether the scene is another one than before."""
        before, self._read = self._read, source
        if self.editor is not None and self.editor.scene is scene:
            return False
        self.editor, self.extent = Editor(scene), Extent.of(scene)
        self._saved_as = None
        if before is None or before.path != source.path or self._view is None:  # a file that was read again keeps the view
            self.view = view_of(camera, self.extent)
            numbers = [k for k, listed in enumerate(scene.cameras) if listed is camera]
            settings.camera = numbers[0] if numbers else len(scene.cameras)
        return True

    # ---- files ----

    def save(self, path: Path) -> str:
        """Writes the scene with its changes; what is to be said of that. Raises SceneError."""
        assert self.editor is not None
        lost = self.editor.save(path)
        self._saved_as, self._written = path, signature(path)
        return "; ".join([f"saved {path}", *lost])

    def is_own(self, path: Path) -> bool:
        """Whether this file is as it was saved here last: who saves over the scene's own file has nothing to read again."""
        return self._written is not None and self._written == signature(path)

    def save_beside(self) -> str:
        """`save` beside the scene's own file, which stays as it is. Only a file of this window's own is written over."""
        stem = f"{self.source.path.stem}-edited"
        names = itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(2)))
        paths = (self.source.path.with_name(f"{name}.glb") for name in names)
        return self.save(next(path for path in paths if path == self._saved_as or not path.exists()))
