"""What a person at the terminal sees beside the result.

Standard output carries a command's result and nothing else, so that `rayfuse bench ... --json - | jq` works. All that
is said on the way (errors, warnings, progress) goes to standard error through this file, one line each. Progress
keeps silent for the first second: most phases are over by then, and rich, which draws the bar, costs 50 ms to import,
time that would be part of every first frame. On a terminal the bar is rich's; into a file or a pipe a plain line is
written now and then.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

PATIENCE_S = 1.0  # nothing is drawn before this
LINE_EVERY_S = 5.0  # between two lines where standard error is not a terminal
LONGEST_LINE = 500


def one_line(message: object) -> str:
    """The message on one line, of a length that a terminal and a log can bear."""
    text = " ".join(str(message).split())
    return text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 1] + "…"


def say(message: object) -> None:
    """One line on standard error, prefixed with the program's name."""
    print(f"rayfuse: {one_line(message)}", file=sys.stderr, flush=True)


class Progress:
    """A progress display to hand down as a callback: `progress(phase, fraction)`, from 0 to 1 within a phase.

    Use it as a context manager; leaving it takes the bar away. A quiet one says nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._silent_until = time.monotonic() + PATIENCE_S
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None
        self._phase = ""

    def __call__(self, phase: str, fraction: float) -> None:
        now = time.monotonic()
        if self._quiet or now < self._silent_until:
            return
        if sys.stderr.isatty():
            self._draw(phase, fraction)
        else:
            say(f"{phase}: {fraction:.0%}")
            self._silent_until = now + LINE_EVERY_S

    def _draw(self, phase: str, fraction: float) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
            self._bar = RichProgress(
                *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True
            )
            self._bar.start()
        if self._task is None or phase != self._phase:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task, self._phase = self._bar.add_task(phase, total=1.0), phase
        self._bar.update(self._task, completed=fraction)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = self._task = None
