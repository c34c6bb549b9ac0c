"""Statistics: is what was sampled distributed as it should be?"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def chi_square(counts: NDArray[np.integer], expected: NDArray[np.floating]) -> float:
    """How many standard deviations Pearson's statistic lies above what the expected counts give (Wilson and Hilferty's cube root).

    Cells with fewer than 8 expected are put together. Above 5: not that distribution (one chance in three million).
    """
    counts, expected = np.ravel(counts).astype(float), np.ravel(expected).astype(float)
    small = expected < 8
    if small.any():
        counts = np.append(counts[~small], counts[small].sum())
        expected = np.append(expected[~small], expected[small].sum())
        keep = expected > 0
        assert not counts[~keep].any(), "something was sampled that has no probability"
        counts, expected = counts[keep], expected[keep]
    freedom = len(counts) - 1
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))


def correlation(a: NDArray[np.floating], b: NDArray[np.floating]) -> float:
    """The correlation of two samples in its own standard deviations."""
    a, b = np.ravel(a).astype(float), np.ravel(b).astype(float)
    return float(np.corrcoef(a, b)[0, 1] * math.sqrt(len(a)))
