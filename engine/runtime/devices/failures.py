"""Kernels that a driver's compiler refuses: the error, and the file that shows it to others.

A driver's log is long and its source is generated, so neither belongs into a message. The message is one line: which kernel, the
first complaint of the log, and a file that holds the whole log and the text that was compiled, with which anyone can repeat it. These
files lie in the folder `failed` of the cache, in the system's folder for temporary files where there is no cache; the oldest go when
there are more than some tens.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress

from engine.runtime.cache import Cache, digest
from engine.runtime.device import DeviceError

KEPT = 40  # files that a folder holds at most


class CompileError(DeviceError):
    """A kernel that does not compile: its name, the compiler's log, and the file (None where none could be written) with log and source."""

    def __init__(self, kernel: str, compiler: str, log: str, path: str | None) -> None:
        where = f"its source and the whole log are in {path}" if path is not None else "no folder for its source can be written"
        super().__init__(f"{kernel} does not compile with {compiler}: {complaint(log)} ({where})")
        self.kernel, self.log, self.path = kernel, log, path


def compile_error(kernel: str, compiler: str, text: str, log: str, cache: Cache | None) -> CompileError:
    """The error of a kernel whose `text` gave this log, after both were written to a file. compiler: which one, and on what device."""
    return CompileError(kernel, compiler, log, _save(kernel, compiler, text, log, cache))


def complaint(log: str) -> str:
    """The line of a log that says what is wrong: the first that speaks of an error, else the first that says anything."""
    rows = [row.strip() for row in log.splitlines() if row.strip()]
    errors = [row for row in rows if re.search(r"\berror\b", row, re.IGNORECASE)]
    return (errors or rows or ["the compiler gives no reason"])[0]


def _save(kernel: str, compiler: str, text: str, log: str, cache: Cache | None) -> str | None:
    """Writes log and source as one text that compiles to the same error; where it is, None where it could not be written."""
    parent = cache.folder if cache is not None and cache.folder is not None else os.path.join(tempfile.gettempdir(), "rayfuse")
    name = f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', kernel)[:60]}-{digest(compiler, text)[:12]}.txt"
    folder = os.path.join(parent, "failed")
    path = os.path.join(folder, name)
    told = "\n".join(f"// {row}" for row in (f"{kernel}, compiled with {compiler}", *log.strip().splitlines()))
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{told}\n\n{text}")
    except OSError:
        return None
    _sweep(folder)
    return path


def _sweep(folder: str) -> None:
    """Removes the oldest files where there are too many."""
    with suppress(OSError):  # other processes sweep too
        files = sorted((entry for entry in os.scandir(folder) if entry.name.endswith(".txt")), key=lambda entry: entry.stat().st_mtime)
        for entry in files[: max(0, len(files) - KEPT)]:
            os.unlink(entry.path)
