"""Where recording stands: the regions that are open, and the user's lines.

A *region* is one body of control flow (a loop, an arm of a `cond`, a case of a `switch`, a `serial` function). Regions are
numbered upwards, so a region inside another has the greater number; `UOp.scope` is the innermost region whose values a node
needs. A value may be used where its region is open, and nowhere else: `check_scope` refuses it with the user's line.

Effects (private arrays, votes, prints) are numbered in the order in which they were recorded, since that is the order in which
they must happen. Private arrays are updated in place, so each version may be changed once: `consume` keeps the books.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from engine.graph.uop import Shape, UOp

_CONTEXTLIB = contextlib.__file__  # its frames stand between a `with` of ours and the caller
_ENGINE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


_NAMES = {"loop": "a loop", "body": "a loop", "arm": "a branch", "serial": "serial()"}


class TraceError(Exception):
    """A program that the engine cannot record; the message names the user's line and the cure."""


class ImpureFunctionError(TraceError):
    """A traced function that depends on, or changes, more than its arguments."""


class Trace:
    """The state of recording. Each thread has one, and another while it traces a jitted function."""

    def __init__(self) -> None:
        self.open: list[int] = [0]
        self.open_set: set[int] = {0}
        self.kinds: dict[int, str] = {0: "function"}
        self.lines: dict[int, str] = {}
        self.lanes: list[Shape] = []  # lane shapes of the open bodies, innermost last
        self.consumed: dict[UOp, str] = {}
        self.assigned: dict[UOp, Any] = {}  # BUFFER -> the Tensor object whose value it will be
        self.prints: dict[int, list[UOp]] = {}  # region -> PRINT nodes, and control flow that holds some
        self.jit = False
        self.files: set[str] = set()

    @property
    def region(self) -> int:
        """The innermost open region."""
        return self.open[-1]

    @contextmanager
    def enter(self, kind: str) -> Iterator[int]:
        """Opens a region of this kind ("loop", "arm", "serial")."""
        number = next_number()
        self.open.append(number)
        self.open_set.add(number)
        self.kinds[number] = kind
        self.lines[number] = user_line()
        try:
            yield number
        finally:
            self.open.pop()
            self.open_set.discard(number)

    @contextmanager
    def reopen(self, *regions: int) -> Iterator[None]:
        """Opens regions again: for broadcasting what their bodies returned, once it is known to what shape."""
        self.open.extend(regions)
        self.open_set.update(regions)
        try:
            yield
        finally:
            del self.open[-len(regions) :]
            self.open_set.difference_update(regions)

    def check_scope(self, node: UOp) -> None:
        """Raises TraceError where a value of a closed region is used: `node`, or a source of it."""
        for used in (node, *node.src):
            if used.scope not in self.open_set:
                raise TraceError(
                    f"{user_line()}: a value made inside {_NAMES.get(self.kinds.get(used.scope, ''), 'a body')} (recorded at "
                    f"{self.lines.get(used.scope, 'an earlier trace')}) is used outside of it; return it from there instead"
                )

    def check_array(self, version: UOp) -> None:
        """Raises TraceError where an old version of a private array is used."""
        if version in self.consumed:
            raise TraceError(
                f"{user_line()}: this version of a local array was replaced at {self.consumed[version]} (by set(), or as the state of "
                "a loop); arrays change in place, so use the newest version"
            )

    def consume(self, version: UOp) -> None:
        """Notes that `version` has a successor."""
        self.check_array(version)
        self.consumed[version] = user_line()


class _Threads(threading.local):
    """The trace that records in a thread."""

    def __init__(self) -> None:
        self.trace = Trace()


_numbers = itertools.count(1)
_threads = _Threads()
_locations: weakref.WeakKeyDictionary[UOp, str] = weakref.WeakKeyDictionary()


def current() -> Trace:
    """The trace that records now."""
    return _threads.trace


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """Makes `trace` the one that records."""
    before, _threads.trace = _threads.trace, trace
    try:
        yield trace
    finally:
        _threads.trace = before


def next_number() -> int:
    """A number that no region, array or effect has had yet."""
    return next(_numbers)


def user_line() -> str:
    """`file:line` of the nearest caller outside of the engine."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_ENGINE, "<")) and name != _CONTEXTLIB:
            return f"{os.path.relpath(name) if name.startswith(os.getcwd() + os.sep) else name}:{frame.f_lineno}"
        frame = frame.f_back
    return "<unknown>"


def note_line(node: UOp) -> UOp:
    """Remembers the user's line that made `node`."""
    if node not in _locations:
        _locations[node] = user_line()
    return node


def line_of(node: UOp) -> str | None:
    """The user's line that made `node`, where it was noted."""
    return _locations.get(node)


def note_argument(node: UOp, text: str) -> None:
    """Remembers whose argument a placeholder stands for, and where that function is."""
    _locations[node] = text


def leaked(node: UOp) -> TraceError:
    """The error for the use of a placeholder whose trace is over."""
    return TraceError(
        f"{user_line()}: this uses a value that was recorded from {_locations.get(node, 'an argument of a traced function')}; such "
        "values end with the trace. Return it from that function and use the result"
    )
