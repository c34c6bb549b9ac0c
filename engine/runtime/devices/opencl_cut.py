"""How a launch is cut into dispatches, so that none keeps a device busy for long.

A window cannot draw while a kernel runs, and some systems reset a device whose kernel takes seconds. How long a launch takes is not
known before it has run, and differs by orders of magnitude between devices. So the first run feels its way: a few workgroups for each
compute unit, then as many as the slowest so far would finish in the time aimed at. The *pace* measured then, seconds a workgroup where
it was slowest, cuts the runs that follow; each run that takes long measures it again.

Lanes do not know of each other, so what they compute does not depend on where a launch is cut.
"""

from __future__ import annotations

from collections.abc import Iterable

LONGEST_S = 0.1  # what a dispatch may take before its launch is cut
AIM_S = 0.05  # what the pieces of a launch that is cut should take
_FIRST = 8  # workgroups for each compute unit in the first piece of a launch nothing is known of
_GROWTH = 8  # times the piece before that a piece may have while the pace is being found

Span = tuple[int, int]  # first workgroup, how many


def is_small(groups: int, compute_units: int) -> bool:
    """True for a launch that the first piece would cover: it is run whole."""
    return groups <= _FIRST * compute_units


def spans(groups: int, pace: float | None) -> list[Span]:
    """The pieces of a launch: one where it is short or its pace is not known, else equal ones; none where there are no groups."""
    whole = groups * (pace or 0.0)
    if groups == 0:
        return []
    if whole <= LONGEST_S:
        return [(0, groups)]
    size = -(-groups // min(groups, int(whole / AIM_S) + 1))
    return [(first, min(size, groups - first)) for first in range(0, groups, size)]


def next_span(span: Span | None, pace: float, groups: int, compute_units: int) -> Span | None:
    """The piece after `span` (None: the first) in a first run, given the slowest pace so far; None at the end."""
    if span is None:
        return (0, min(groups, _FIRST * compute_units))
    first = span[0] + span[1]
    fitting = int(AIM_S / pace) if pace > 0.0 else groups
    count = min(groups - first, _GROWTH * span[1], max(1, fitting))
    return (first, count) if count > 0 else None


def pace_of(pieces: Iterable[tuple[float, int]]) -> float:
    """Seconds that a workgroup took where it was slowest, from the seconds and the workgroups of each piece."""
    return max((seconds / count for seconds, count in pieces), default=0.0)
