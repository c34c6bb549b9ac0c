"""The lines of a text file as arrays: where each begins, its first word, how many words it has.

For formats that write a number a word and a million lines. Nothing is split into Python objects: lines of one kind are cut out together,
as one text without their keyword, whose numbers are then read in one go (`mesh_files.numbers`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
NEWLINE, SPACE = 10, 32


@dataclass(frozen=True, eq=False)
class Part:
    """Lines of one kind: int64[n] their numbers from 0, the text behind their keywords, and int64[n] the words there."""

    line: Ints
    text: bytes
    words: Ints


class Lines:
    """A text whose lines end with a newline. `first`: where the first word of each line begins (where it ends, if it has none)."""

    def __init__(self, data: bytes) -> None:
        self.data = data if data.endswith(b"\n") else data + b"\n"
        self.octets = np.frombuffer(self.data, np.uint8)
        self.ends = np.flatnonzero(self.octets == NEWLINE)
        self.starts = np.concatenate([[0], self.ends[:-1] + 1])
        solid = self.octets > SPACE
        solid[1:] &= self.octets[:-1] <= SPACE
        words = np.flatnonzero(solid)
        before = np.searchsorted(words, np.append(self.starts, len(self.octets)))
        self.words = np.diff(before)
        self.first = np.where(self.words > 0, words[np.minimum(before[:-1], len(words) - 1)] if len(words) else 0, self.ends)

    def begin_with(self, keyword: bytes) -> NDArray[np.bool_]:
        """bool[lines]: which begin with this word."""
        found = self.words > 0
        for place, letter in enumerate(keyword):
            found &= self.octets[np.minimum(self.first + place, len(self.octets) - 1)] == letter
        after = self.octets[np.minimum(self.first + len(keyword), len(self.octets) - 1)]
        whole: NDArray[np.bool_] = found & (after <= SPACE)
        return whole

    def part(self, which: NDArray[np.bool_], keyword: int) -> Part:
        """Lines cut out, without the `keyword` letters that they begin with."""
        line = np.flatnonzero(which)
        if not len(line):
            return Part(line, b"", line)
        starts, lengths = self.starts[line], self.ends[line] - self.starts[line] + 1
        if len(line) == int(line[-1]) - int(line[0]) + 1:
            cut = self.octets[starts[0] : self.ends[line[-1]] + 1].copy()
        else:
            edges = np.zeros(len(self.octets) + 1, np.int8)
            edges[starts] += 1
            edges[starts + lengths] -= 1
            cut = self.octets[np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)]
        at = np.cumsum(lengths) - lengths + self.first[line] - starts
        for letter in range(keyword):
            cut[at + letter] = SPACE
        return Part(line, cut.tobytes(), self.words[line] - 1)

    def text(self, line: int) -> str:
        """One line, without the blanks around it."""
        return self.data[self.starts[line] : self.ends[line]].decode("utf-8", "replace").strip()
