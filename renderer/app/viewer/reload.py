"""Files that are taken up again when they change: the scene with what it refers to, and the module of the shading.

A `Watcher` has one thread. The system tells it (through watchfiles) that something happened in a folder; what happened it finds out by
itself, by comparing each file's size, time and identity with those it knew. So an editor that writes in place, one that writes beside
and renames, a delete followed by a copy, and a notice that was lost all look the same; and because it compares once a second in any
case, network folders that send no notices work too. A file that is still being written is left alone until it has been the same for a
while; if half of it was taken up all the same, the other half is one more change.

What the watcher posts are notices, nothing else: loading scenes and modules is the affair of who builds sessions.
"""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from renderer.scene.named_files import scene_files

SETTLED = 0.15  # seconds without a change after which a file counts as written
LOOK = 0.03  # seconds between two looks at a file that is being written
LONGEST = 1000  # ms between two comparisons without a notice
GROUPED = 200  # ms over which the system's notices are gathered

Signature = tuple[int, int, int] | None  # of a file: size, time in ns, identity; None where there is none


@dataclass(frozen=True)
class Changed:
    """A file that is to be read again. `kind`: what was watched, "scene" or "shading"; `path`: its main file."""

    kind: str
    path: Path


class _Watched:
    """One thing to watch: a main file, and others that count as part of it, as they were when they were read."""

    def __init__(self, kind: str, path: Path) -> None:
        self.kind, self.path = kind, path
        self.known = {path: signature(path)}

    def find_files(self) -> None:
        """Finds out which files belong to it; a scene that cannot be read keeps those it had."""
        files = scene_files(self.path) if self.kind == "scene" else []
        if files:
            self.known = {file: self.known[file] if file in self.known else signature(file) for file in files}

    def now(self) -> dict[Path, Signature]:
        return {file: signature(file) for file in self.known}


class Watcher:
    """Watches files on a thread of its own.

    `post` is called on that thread with what has changed; it must be quick. Where watchfiles is not installed `say` is told so, once,
    and nothing is watched.
    """

    def __init__(self, post: Callable[[Changed], None], say: Callable[[str], None]) -> None:
        self._post = post
        self._watched: dict[str, _Watched] = {}
        self._lock = threading.Lock()
        self._again = threading.Event()  # what is watched has changed, or it is over
        self._over = False
        self._thread: threading.Thread | None = None
        if importlib.util.find_spec("watchfiles") is None:
            say("files are not watched for changes: pip install watchfiles")
        else:
            self._thread = threading.Thread(target=self._run, name="rayfuse-watcher", daemon=True)
            self._thread.start()

    def watch(self, kind: str, path: Path | None) -> None:
        """Watches this file as the one of its kind ("scene", "shading"), no longer the one before; None: none.

        Called before the file is read, no change is missed. Nothing happens for the file that is watched already.
        """
        if self._thread is None:
            return
        with self._lock:
            before = self._watched.pop(kind, None)
            if path is not None:
                file = path.absolute()
                self._watched[kind] = before if before is not None and before.path == file else _Watched(kind, file)
            if self._watched.get(kind) is not before:
                self._again.set()

    def close(self) -> None:
        """Ends the thread; nothing is posted afterwards."""
        self._over = True
        self._again.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._over:
            self._again.clear()
            try:
                self._follow()
            except OSError:  # no notices to be had (too many watchers, a folder that has just gone): comparing does alone
                self._look()
                self._again.wait(LONGEST / 1e3)

    def _follow(self) -> None:
        """Waits for notices and compares, until what is watched changes."""
        from watchfiles import watch

        for watched in self._all():
            watched.find_files()
        folders = sorted({str(file.parent) for watched in self._all() for file in watched.known if file.parent.is_dir()})
        if not folders:
            self._again.wait(LONGEST / 1e3)
            return
        for _ in watch(
            *folders,
            watch_filter=None,
            recursive=False,
            debounce=GROUPED,
            stop_event=self._again,
            rust_timeout=LONGEST,
            yield_on_timeout=True,
            raise_interrupt=False,
        ):
            if self._look():
                return  # the files beside it may be others now

    def _all(self) -> list[_Watched]:
        with self._lock:
            return list(self._watched.values())

    def _look(self) -> bool:
        """Posts what is different from what was known; whether there was anything."""
        found = [watched for watched in self._all() if watched.now() != watched.known and self._settled(watched)]
        for watched in found:
            with self._lock:
                current = self._watched.get(watched.kind) is watched
            if current and not self._over:
                self._post(Changed(watched.kind, watched.path))
        return bool(found)

    def _settled(self, watched: _Watched) -> bool:
        """Waits until nobody writes any more; whether there is something new to read then, which counts as known from now on."""
        seen, since = watched.now(), time.monotonic()
        while time.monotonic() - since < SETTLED:
            time.sleep(LOOK)
            now = watched.now()
            if now != seen:
                seen, since = now, time.monotonic()
            if self._over:
                return False
        if seen[watched.path] is None or seen == watched.known:
            return False
        watched.known = seen
        return True


def signature(file: Path) -> Signature:
    """What is another one when the file was written."""
    try:
        known = file.stat()
    except (OSError, ValueError):  # not there, or no name of a file at all
        return None
    return known.st_size, known.st_mtime_ns, known.st_ino
