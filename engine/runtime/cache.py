"""The cache on disk: bytes by key, shared by all processes, and never a reason for anything to fail.

An entry is one file, named by the hash of its key: a header (magic, format version, length, BLAKE2b of the payload),
then the payload. It is written under a temporary name in the same folder and renamed, so a reader finds a whole entry
or none; no lock is taken, and two writers of one key simply write the same thing. A bad entry (cut off, altered, of
another format) is removed and counts as missing.

The folder holds at most `limit` entries. Before a write makes one too many, the least recently used go, an eighth of
the limit at once; after it the folder is looked at again, since other processes write too. Use is the file's
modification time, which a read renews. Temporary files that a killed process left are swept after an hour.

Where the folder cannot be made or written (read-only, full, file-size limit, no home), there is one warning, and from
then on writing does nothing.

Settings: `JIT_CACHE` (the folder; `0`, `off` or empty for no cache) and `JIT_CACHE_LIMIT` (entries, 512).
"""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b

from engine.runtime import events

DEFAULT_LIMIT = 512

_MAGIC = b"RAYFUSE\n"
_VERSION = 1
_HEADER = struct.Struct("<8sIIQ32s")  # magic, version, 0, length, BLAKE2b-256 of the payload
_ENTRY = ".entry"
_TEMPORARY = ".part"
_ABANDONED_S = 3600.0
_RENEW_S = 1.0  # reads within this time of the last use do not touch the file again


def digest(*parts: object) -> str:
    """A hash of the parts, 40 hexadecimal digits, the same in every process and on every system.

    Parts are None, bool, int, float, str, bytes, and tuples, lists and dicts (in their order) of these. Values of
    different types, and sequences cut differently, never coincide. Raises TypeError for any other type.
    """
    state = blake2b(digest_size=20)
    stack: list[object] = [parts]
    while stack:  # a loop, since keys may be nested deeply
        part = stack.pop()
        if isinstance(part, (tuple, list)):
            state.update(b"(%d:" % len(part))
            stack.extend(reversed(part))
            continue
        if isinstance(part, dict):
            state.update(b"{%d:" % len(part))
            for key, value in reversed(part.items()):
                stack.extend((value, key))
            continue
        state.update(_encode(part))
    return state.hexdigest()


def _encode(part: object) -> bytes:
    if isinstance(part, str):
        tag, body = b"s", part.encode("utf-8", "surrogatepass")
    elif isinstance(part, bytes):
        tag, body = b"b", part
    elif part is None or isinstance(part, bool):
        tag, body = b"c", str(part).encode()
    elif isinstance(part, int):
        tag, body = b"i", b"%d" % part
    elif isinstance(part, float):
        tag, body = b"f", struct.pack("<d", part)
    else:
        raise TypeError(
            f"{type(part).__name__} has no stable hash: give digest() numbers, strings, bytes, tuples or dicts"
        )
    return b"%s%d:%s" % (tag, len(body), body)


@dataclass(frozen=True)
class Statistics:
    """What the cache's folder holds. path: None where there is no cache. bytes: headers included."""

    path: str | None
    entries: int
    bytes: int


@dataclass(frozen=True)
class _File:
    path: str
    used_s: float
    size: int


def _warn(message: str) -> None:
    events.warn_once("cache", message)


class Cache:
    """The cache in one folder. All methods may be called from any thread and any number of processes.

    folder: None for no cache: `get` then finds nothing and `put` does nothing. limit: most entries; 0 for no cache.
    on_warning: called with one line, at most once, when the folder turns out not to be writable.
    Counted since the start: `hits`, `misses`, `dropped` (bad entries, which are misses too), `evicted`.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None,
        limit: int = DEFAULT_LIMIT,
        on_warning: Callable[[str], None] = _warn,
    ) -> None:
        self.folder = os.path.abspath(folder) if folder is not None and limit > 0 else None
        self.limit = limit
        self.hits = self.misses = self.dropped = self.evicted = 0
        self._on_warning = on_warning
        self._writable = self.folder is not None
        self._swept = False

    @classmethod
    def from_environment(cls, on_warning: Callable[[str], None] = _warn) -> Cache:
        """The cache that `JIT_CACHE` and `JIT_CACHE_LIMIT` ask for, by default in the user's cache folder."""
        folder = os.environ.get("JIT_CACHE")
        if folder is None:
            folder = _usual_folder()
        elif folder.strip().lower() in ("", "0", "off"):
            return cls(None, on_warning=on_warning)
        folder = os.path.expanduser(folder)
        if folder.startswith("~"):
            on_warning(
                "there is no home folder for the kernel cache: kernels are compiled anew each time (set JIT_CACHE)"
            )
            return cls(None, on_warning=on_warning)
        return cls(folder, _limit(on_warning), on_warning)

    def get(self, key: str) -> bytes | None:
        """What was stored under `key`, or None. Renews the entry's time of use."""
        if self.folder is None:
            return None
        path = self._path(key)
        try:
            with open(path, "rb", buffering=0) as file:
                used_s = os.fstat(file.fileno()).st_mtime
                data = file.read()
        except OSError:
            self.misses += 1
            return None
        payload = _payload(data)
        if payload is None:
            self.dropped += 1
            self.misses += 1
            with suppress(OSError):
                os.unlink(path)
            return None
        self.hits += 1
        if abs(time.time() - used_s) > _RENEW_S:
            with suppress(OSError):
                os.utime(path)
        return payload

    def put(self, key: str, data: bytes) -> None:
        """Store `data` under `key`, if that is possible."""
        if not self._writable or self.folder is None:
            return
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            self._sweep(self.folder)
            path = self._path(key)
            self._evict(self.folder, room=0 if os.path.exists(path) else 1)
            self._write(self.folder, path, data)
            self._evict(self.folder, room=0)
        except OSError as error:
            self._writable = False
            reason = error.strerror or str(error)
            self._on_warning(
                f"the kernel cache cannot be written ({self.folder}: {reason}): kernels are compiled anew each time"
            )

    def clear(self) -> int:
        """Remove every entry and temporary file; the number of entries removed. Other files in the folder stay."""
        removed = 0
        for file in self._files(_ENTRY) + self._files(_TEMPORARY):
            with suppress(OSError):
                os.unlink(file.path)
                removed += file.path.endswith(_ENTRY)
        return removed

    def statistics(self) -> Statistics:
        """How many entries there are, and how large."""
        files = self._files(_ENTRY)
        return Statistics(self.folder, len(files), sum(file.size for file in files))

    def _path(self, key: str) -> str:
        return os.path.join(self.folder or "", digest(key) + _ENTRY)

    def _write(self, folder: str, path: str, data: bytes) -> None:
        """Write under a temporary name, then rename. Whatever goes wrong, no temporary file stays."""
        header = _HEADER.pack(_MAGIC, _VERSION, 0, len(data), blake2b(data, digest_size=32).digest())
        import tempfile  # it brings much along, and most processes only read

        handle, temporary = tempfile.mkstemp(suffix=_TEMPORARY, dir=folder)
        try:
            with open(handle, "wb", buffering=0) as file:
                rest = memoryview(header + data)
                while rest:  # a full disk or a file-size limit may take a part of it
                    rest = rest[file.write(rest) :]
            os.replace(temporary, path)
        except BaseException as error:
            with suppress(OSError):
                os.unlink(temporary)
            if isinstance(error, PermissionError) and os.path.exists(path):
                return  # Windows: another process has the entry open, so it is there
            raise

    def _files(self, suffix: str) -> list[_File]:
        if self.folder is None:
            return []
        files = []
        with suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.endswith(suffix):
                    with suppress(OSError):  # another process removed it just now
                        status = entry.stat()
                        files.append(_File(entry.path, status.st_mtime, status.st_size))
        return files

    def _evict(self, folder: str, room: int) -> None:
        """Make room for so many more entries under the limit."""
        names = [name for name in os.listdir(folder) if name.endswith(_ENTRY)]
        if len(names) + room <= self.limit:
            return
        keep = self.limit - max(room, self.limit // 8)
        oldest_first = sorted(self._files(_ENTRY), key=lambda file: file.used_s)
        for file in oldest_first[: max(0, len(oldest_first) - keep)]:
            with suppress(OSError):
                os.unlink(file.path)
                self.evicted += 1

    def _sweep(self, folder: str) -> None:
        """Once a process: remove temporary files that nobody can be writing any more."""
        if self._swept:
            return
        self._swept = True
        oldest = time.time() - _ABANDONED_S
        for file in self._files(_TEMPORARY):
            if file.used_s < oldest:
                with suppress(OSError):
                    os.unlink(file.path)


def _usual_folder() -> str:
    """The folder in the user's cache folder. The package that knows it for every system takes long to import, so Linux goes without."""
    if not sys.platform.startswith("linux"):
        from platformdirs import user_cache_dir

        return user_cache_dir("rayfuse", appauthor=False)
    return os.path.join(os.environ.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache"), "rayfuse")


def _payload(data: bytes) -> bytes | None:
    """The payload of an entry's bytes, or None if they are not a whole entry of this format."""
    if len(data) < _HEADER.size:
        return None
    magic, version, _, length, check = _HEADER.unpack_from(data)
    payload = data[_HEADER.size :]
    if magic != _MAGIC or version != _VERSION or length != len(payload):
        return None
    return payload if blake2b(payload, digest_size=32).digest() == check else None


def _limit(on_warning: Callable[[str], None]) -> int:
    text = os.environ.get("JIT_CACHE_LIMIT", "").strip()
    if not text:
        return DEFAULT_LIMIT
    if text.isdecimal():
        return int(text)
    on_warning(f"JIT_CACHE_LIMIT={text!r} is not a number of entries: {DEFAULT_LIMIT} is used")
    return DEFAULT_LIMIT
