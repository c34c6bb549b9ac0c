"""Random numbers: counter-based, so that a pixel's sample is the same whoever computes it, in whatever order.

A stream begins at the hash of (pixel, sample, seed) and goes on as an LCG whose state is scrambled on output: PCG-RXS-M-XS with 32
bits of state (O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms", 2014), which Jarzynski and Olano
("Hash Functions for GPU Rendering", JCGT 2020) found to be the best of its cost as a hash.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from engine import Tensor

_MULTIPLIER, _INCREMENT = 747796405, 2891336453


def pcg(value: Tensor) -> Tensor:
    """A uint32 hash of a uint32."""
    return _scramble(value * _MULTIPLIER + _INCREMENT)


def _scramble(state: Tensor) -> Tensor:
    word = ((state >> ((state >> 28) + 4)) ^ state) * 277803737
    return (word >> 22) ^ word


def unit(bits: Tensor) -> Tensor:
    """A float32 in [0, 1) from the upper 24 bits of a uint32."""
    return (bits >> 8).cast("int32").cast("float32") * (1.0 / (1 << 24))


class Rng(NamedTuple):
    """A stream of random numbers for each lane. `next()` gives a number and the stream after it."""

    state: Any  # uint32, lane shape

    @staticmethod
    def start(pixel: Tensor, sample: Any, seed: Any) -> Rng:
        """The stream of a pixel (uint32, any numbering) for one sample (number or uint32)."""
        return Rng(pcg(pixel + pcg(_u32(sample) + pcg(_u32(seed)))))

    def next(self) -> tuple[Tensor, Rng]:
        """A float32 in [0, 1), and the stream after it."""
        state = self.state * _MULTIPLIER + _INCREMENT
        return unit(_scramble(state)), Rng(state)


def _u32(value: Any) -> Tensor:
    return (value if isinstance(value, Tensor) else Tensor(value)).cast("uint32")
