"""Alias tables: sampling one of n things by weight in constant time.

Walker's idea (1977): n columns of equal height, each shared by at most two things. To sample, take a column at
random, then one of its two things. Vose's construction (1991) hands the surplus of heavy things to light ones, one at
a time. Here all are handed out at once, by prefix sums (after Huebschle-Schneider and Sanders 2022, "Parallel
weighted random sampling"): lay the gaps of the light things end to end on a line, and the surpluses of the heavy ones
on the same line. A light thing takes what it lacks from the heavy thing whose stretch holds the start of its gap. If
the gap reaches beyond that stretch, the heavy thing has given too much: its own column then has a gap of that size,
which the next heavy thing fills.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class AliasTable(NamedTuple):
    """To sample: column i uniform in [0, n), u uniform in [0, 1); the result is i where `u < probability[i]`, else
    `alias[i]`."""

    probability: NDArray[np.float32]
    """float32[n]: share of each column that is its own thing's."""
    alias: NDArray[np.int32]
    """int32[n]: the thing that has the rest of the column; never one of weight zero."""
    pmf: NDArray[np.float32]
    """float32[n]: probability of each thing; where it is 0 the thing is never sampled."""


def alias_table(weights: NDArray[np.floating]) -> AliasTable:
    """The alias table of `weights`, float[n] of any scale, in O(n log n) time without a Python loop.

    The table is that of the probabilities as rounded to float32, so that a thing whose `pmf` is 0 is never sampled,
    and a division by the `pmf` of a sample is safe.

    Raises ValueError if `weights` is not one-dimensional, if a weight is negative, infinite or NaN, and if none is
    positive.
    """
    weights = np.asarray(weights, np.float64)
    if weights.ndim != 1:
        raise ValueError(f"weights have shape {weights.shape}; they must be one-dimensional")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        first = wrong[0]
        raise ValueError(f"weight {first} is {weights[first]}; weights must be finite and not negative")
    if not weights.any():
        raise ValueError("no weight is positive; there is nothing to sample")
    relative = weights / weights.max()
    pmf = (relative / relative.sum()).astype(np.float32)
    share = pmf.astype(np.float64)
    height = share * (len(share) / share.sum())

    probability = np.minimum(height, 1.0)
    alias = np.arange(len(height), dtype=np.int32)
    is_heavy = height >= min(1.0, height.max())  # the heaviest always is, even where rounding leaves it short of 1
    light, heavy = np.flatnonzero(~is_heavy), np.flatnonzero(is_heavy)
    if len(light):
        gap_end = np.cumsum(1 - height[light])
        gap_start = np.concatenate((np.zeros(1), gap_end[:-1]))
        stretch_end = np.cumsum(np.maximum(height[heavy] - 1, 0))
        giver = np.searchsorted(stretch_end, gap_start, side="right")
        # Rounding can leave the last gaps without a giver, or the last giver with a gap: both below 1e-9 of a column.
        alias[light] = heavy[np.minimum(giver, len(heavy) - 1)]
        given = np.searchsorted(gap_start, stretch_end, side="left")
        too_much = np.maximum(gap_end[given - 1] - stretch_end, 0.0)
        too_much[given == 0] = 0.0
        probability[heavy[:-1]] = np.maximum(1 - too_much[:-1], 0.0)
        alias[heavy[:-1]] = heavy[1:]
    return AliasTable(probability.astype(np.float32), alias, pmf)
