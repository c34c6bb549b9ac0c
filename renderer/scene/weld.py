"""Which rows of a table are equal: the question behind shared vertices.

Sorting rows compares them byte by byte and takes seconds for a million; so each row is first hashed to 64 bits (every column mixed in by
the finaliser of SplitMix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014), and numbers are sorted. That
two of a million different rows have one hash has a probability of one in forty million; whether it happened is checked, and then rows are
sorted after all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def equal_rows(table: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Of a table [n, columns] of 4-byte numbers: the first row of each kind, intp[k], and the kind of each row, intp[n].

    Rows are equal where their bits are.
    """
    words = np.ascontiguousarray(table).view(np.uint32)
    if words.shape[1] == 1:
        keys = words[:, 0].astype(np.uint64)
    else:
        keys = np.zeros(len(words), np.uint64)
        for column in range(words.shape[1]):
            keys = _mixed(keys ^ words[:, column])
    _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    if not np.array_equal(words[first][kind], words):
        _, first, kind = np.unique(words, axis=0, return_index=True, return_inverse=True)
    return first, kind


def _mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    keys = keys + np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = keys ^ (keys >> np.uint64(31))
    return mixed
