"""What happened: the one place that logs, statistics and profiles hear from.

Whoever does something worth knowing calls `record(kind, ...)`. That adds one to the counter of the kind, and builds an
`Event` only if somebody listens. Code that runs in every frame does not even do that: it adds to a counter directly
(`counters.launches += n`), which is one attribute.

`counting()` tells how far the counters moved over a stretch of code; that is how "nothing is compiled or allocated
while frames are running" is shown. Warnings go to whoever subscribed to them; if nobody did, to standard error, each
once.

What is only for reading goes through `show(level, text)`, to standard error where `DEBUG` is at that level: 1 devices,
compiles and their reasons, the cache; 2 the time of each kernel; 3 the schedule and the reason of each cut; 4 generated
source; 5 the graph after each pass; 6 assembly. `CHECK=1` and `NOOPT=1` are asked for here too.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any

# kind of event -> the counter that it adds to
_COUNTER = {
    "trace": "traces",
    "compile": "compiles",
    "cache_hit": "cache_hits",
    "cache_miss": "cache_misses",
    "allocate": "allocations",
    "free": "frees",
    "launch": "launches",
    "warning": "warnings",
    "device": "devices",
}
KINDS = frozenset(_COUNTER)

_PRINTED = frozenset({"device", "compile", "cache_hit", "cache_miss"})  # with DEBUG=1


@dataclass(slots=True)
class Counters:
    """How often each kind of event happened. Adding to a field is all that recording in a hot path takes."""

    traces: int = 0
    compiles: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    allocations: int = 0
    frees: int = 0
    launches: int = 0
    warnings: int = 0
    devices: int = 0

    def copy(self) -> Counters:
        """The counts as they are now."""
        return Counters(*(getattr(self, name) for name in _NAMES))

    def __sub__(self, earlier: Counters) -> Counters:
        return Counters(*(getattr(self, name) - getattr(earlier, name) for name in _NAMES))


_NAMES = tuple(field.name for field in fields(Counters))


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. time: seconds of `time.perf_counter`. fields: what its kind has to say, by name."""

    kind: str
    time: float
    fields: dict[str, Any]

    def __str__(self) -> str:
        return " ".join((self.kind, *(f"{name}={_text(value)}" for name, value in self.fields.items())))


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


Subscriber = Callable[[Event], None]

counters = Counters()
_subscribers: dict[str, tuple[Subscriber, ...]] = {}  # by kind; tuples are replaced, never changed, so no lock to read
_lock = threading.Lock()
_warned: set[str] = set()


def debug_level() -> int:
    """The level that the environment variable `DEBUG` asks for now; 0 where it is not a number."""
    text = os.environ.get("DEBUG")
    return int(text) if text and text.isdecimal() else 0


def checking() -> bool:
    """True where `CHECK=1` asks for checks that cost time: verified passes, purity, NaN."""
    return os.environ.get("CHECK", "") not in ("", "0")


def unoptimised() -> bool:
    """True where `NOOPT=1` asks for code as it was written: no simplification beyond what is needed, no passes, no fma."""
    return os.environ.get("NOOPT", "") not in ("", "0")


def show(level: int, text: str) -> None:
    """Print a text to standard error where `DEBUG` asks for this level."""
    if debug_level() >= level:
        _to_stderr(text)


def record(kind: str, **values: Any) -> None:
    """Tell that something of a kind in `KINDS` happened. Raises ValueError for an unknown kind."""
    counter = _COUNTER.get(kind)
    if counter is None:
        raise ValueError(f"unknown kind of event {kind!r}: choose one of {', '.join(sorted(KINDS))}")
    setattr(counters, counter, getattr(counters, counter) + 1)
    listeners = _subscribers.get(kind, ())
    printed = kind in _PRINTED and debug_level() >= 1
    if not listeners and not printed:
        return
    event = Event(kind, time.perf_counter(), values)
    for listener in listeners:
        listener(event)
    if printed:
        _to_stderr(str(event))


def subscribe(listener: Subscriber, kinds: Iterable[str] = KINDS) -> Callable[[], None]:
    """Call `listener` with every event of these kinds, on the thread where it happens; the result ends that.

    Raises ValueError for an unknown kind.
    """
    chosen = frozenset(kinds)
    if not chosen <= KINDS:
        raise ValueError(f"unknown kind of event {sorted(chosen - KINDS)}: choose of {', '.join(sorted(KINDS))}")
    with _lock:
        for kind in chosen:
            _subscribers[kind] = (*_subscribers.get(kind, ()), listener)

    def end() -> None:
        with _lock:
            for kind in chosen:
                _subscribers[kind] = tuple(each for each in _subscribers.get(kind, ()) if each is not listener)

    return end


def warn_once(key: str, message: str) -> None:
    """Warn, the first time in this process that `key` comes up; on standard error if nobody subscribed."""
    with _lock:
        if key in _warned:
            return
        _warned.add(key)
    heard = bool(_subscribers.get("warning"))
    record("warning", key=key, message=message)
    if not heard:
        _to_stderr(f"warning: {message}")


def forget_warnings() -> None:
    """Let every warning be given again (a new command in the same process)."""
    with _lock:
        _warned.clear()


@contextmanager
def counting() -> Iterator[Counters]:
    """How far the counters move inside the block; the numbers are there when it ends."""
    moved = Counters()
    before = counters.copy()
    try:
        yield moved
    finally:
        after = counters - before
        for name in _NAMES:
            setattr(moved, name, getattr(after, name))


class Timing:
    """`with Timing("upload"):` prints how long the block took; with `into`, adds the seconds to `into["upload"]`
    instead.

    `seconds` holds the time of the latest block.
    """

    def __init__(self, label: str, into: MutableMapping[str, float] | None = None) -> None:
        self.label = label
        self.seconds = 0.0
        self._into = into
        self._began = 0.0

    def __enter__(self) -> Timing:
        self._began = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = time.perf_counter() - self._began
        if self._into is None:
            _to_stderr(f"{self.label}: {self.seconds * 1e3:.3f} ms")
        else:
            self._into[self.label] = self._into.get(self.label, 0.0) + self.seconds


def _to_stderr(line: str) -> None:
    if sys.stderr is not None:  # None in a windowed program on Windows
        print(f"rayfuse: {line}", file=sys.stderr, flush=True)
