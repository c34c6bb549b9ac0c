"""Channels of pixels: from vectors side by side in memory to one vector a channel, and back.

`c` channels of `w` pixels lie in memory as c * w elements, r g b r g b ..., and are loaded and stored as c vectors ("rows") of w.
Element i of channel k is element (c * i + k) of all, that is, place (c * i + k) % w of row (c * i + k) // w.

    2, 4 channels    neighbours are separated (merged) pair by pair: every other element of two vectors is one shuffle, in one
                     step or in two
    3 channels       w is a power of two, so the places of a channel's elements in the three rows are all different: two rows are
                     blended place by place, and one shuffle with the third puts them in order. (A last shuffle of one source
                     would do as well, but LLVM pulls arithmetic through such a shuffle, and loses a * b + c on the way.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

CHANNELS = frozenset({2, 3, 4})  # strides that are handled here

Emit = Callable[[str], str]  # writes an instruction, returns the register of its result


def separated(rows: Sequence[str], channel: int, w: int, kind: str, emit: Emit) -> str:
    """The vector of one channel. `emit` may be given the same instruction for several channels."""
    if len(rows) == 2:
        return emit(_shuffle(rows[0], rows[1], w, kind, range(channel, 2 * w, 2)))
    if len(rows) == 4:
        odd, upper = channel & 1, channel >> 1
        low = emit(_shuffle(rows[0], rows[1], w, kind, range(odd, 2 * w, 2)))
        high = emit(_shuffle(rows[2], rows[3], w, kind, range(odd, 2 * w, 2)))
        return emit(_shuffle(low, high, w, kind, range(upper, 2 * w, 2)))
    row_of = {(3 * i + channel) % w: (3 * i + channel) // w for i in range(w)}
    mixed = emit(_shuffle(rows[0], rows[1], w, kind, [p + w * (row_of[p] == 1) for p in range(w)]))
    places = [(3 * i + channel) % w for i in range(w)]
    return emit(_shuffle(mixed, rows[2], w, kind, [p + w * (row_of[p] == 2) for p in places]))


def merged(channels: Sequence[str], w: int, kind: str, emit: Emit) -> list[str]:
    """The rows of vectors of all channels."""
    if len(channels) == 2:
        return _zipped(channels[0], channels[1], w, kind, emit)
    if len(channels) == 4:
        even = _zipped(channels[0], channels[2], w, kind, emit)
        odd = _zipped(channels[1], channels[3], w, kind, emit)
        return [row for a, b in zip(even, odd, strict=True) for row in _zipped(a, b, w, kind, emit)]
    spread = []
    for k, name in enumerate(channels):
        element_of = {(3 * i + k) % w: i for i in range(w)}
        spread.append(emit(_shuffle(name, "poison", w, kind, [element_of[p] for p in range(w)])))
    rows = []
    for j in range(3):
        owner = [(j * w + p) % 3 for p in range(w)]
        mixed = emit(_shuffle(spread[0], spread[1], w, kind, [p + w * (owner[p] == 1) for p in range(w)]))
        rows.append(emit(_shuffle(mixed, spread[2], w, kind, [p + w * (owner[p] == 2) for p in range(w)])))
    return rows


def mask_of(mask: str, w: int, channels: int, row: int) -> str:
    """The instruction that makes the mask of a row from that of the pixels."""
    return _shuffle(mask, "poison", w, "i1", [(row * w + p) // channels for p in range(w)])


def backwards(row: str, w: int, kind: str) -> str:
    """The instruction that turns a vector round."""
    return _shuffle(row, "poison", w, kind, range(w - 1, -1, -1))


def _zipped(a: str, b: str, w: int, kind: str, emit: Emit) -> list[str]:
    """a0 b0 a1 b1 ..., in two vectors."""
    order = [i + w * k for i in range(w) for k in range(2)]
    return [emit(_shuffle(a, b, w, kind, half)) for half in (order[:w], order[w:])]


def _shuffle(a: str, b: str, w: int, kind: str, places: Sequence[int]) -> str:
    indices = ", ".join(f"i32 {p}" for p in places)
    return f"shufflevector <{w} x {kind}> {a}, <{w} x {kind}> {b}, <{w} x i32> <{indices}>"
