"""What libraries print while they work, kept from the terminal.

OpenEXR complains about a damaged file on both standard streams, from C and through Python, and only then raises an error that says less.
But standard output carries a command's result and nothing else, and an error is one line. So while such a library works both streams
lead into a temporary file; what it holds is the reason that belongs into the error. Where no error comes of it, it is passed on to
standard error.

The streams are the whole process's: what another thread prints meanwhile takes the same way.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress


@contextmanager
def overheard() -> Iterator[Callable[[], list[str]]]:
    """Runs the block with both standard streams caught; the function that it gets tells the lines so far."""
    rest: list[str] = []
    with ExitStack() as ending:
        file = ending.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace"))

        def told() -> list[str]:
            file.flush()
            file.seek(0)
            lines = file.read().splitlines()
            file.seek(0, os.SEEK_END)
            return lines

        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number in (1, 2):
            with suppress(OSError):  # a process may have been started without it
                ending.callback(_restore, number, os.dup(number))
                os.dup2(file.fileno(), number)
        ending.enter_context(redirect_stdout(file))
        ending.enter_context(redirect_stderr(file))
        yield told
        rest = told()
    for line in rest:
        print(line, file=sys.stderr)


def _restore(number: int, kept: int) -> None:
    os.dup2(kept, number)
    os.close(kept)
