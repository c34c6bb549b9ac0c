"""Files that are there whole or not at all.

A picture, a scene or a record is written under another name beside the place it is meant for and takes the name only when it is
complete: a full disk or a process that dies half-way leaves the old file as it was, and who watches the place never reads half a
file. Where that cannot be (a device such as /dev/stdout, a file of ours in a folder that is not) it is written in place. A link stays
a link: what it points to is replaced.

And files that end: a device or a pipe where a scene or a picture should be is refused, since reading it may give bytes for ever or none.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path


def read_file(path: Path, most: int = -1) -> bytes:
    """The first `most` bytes of a file (-1: all). Raises OSError, also for a device or a pipe, and for what can be no file's name."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "is a device or a pipe, not a file", str(path))
    try:
        with path.open("rb") as file:
            return file.read(most)
    except ValueError:  # with a null character
        raise OSError(errno.EINVAL, "not a file name", str(path)) from None


def write_whole(path: Path, data: bytes) -> None:
    """Writes `data` to `path`. Raises OSError where that cannot be done; a regular file there is as it was then."""
    place, known = path.resolve(), path.exists()
    if known and (not path.is_file() or not os.access(place.parent, os.W_OK)):
        path.write_bytes(data)
        return
    part = place.with_name(f".{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # some file systems tell only now that there is no room
        if known:
            shutil.copymode(place, part)
        part.replace(place)
    finally:
        with suppress(OSError):
            part.unlink()
