"""Tables on the device, and how many rows of them the kernels know of.

Most tables have a named size, so that scenes of other sizes run the same kernels. Where lanes form vectors, small ones are different: a
look-up in a table of known size happens in registers and costs a fraction of a gather (a frame of a small room takes 7 % longer without),
so there a table of up to 128 rows has a power of two of them, and that number shapes the code. In a table that replaces another the number
stays as it is, wherever the new contents allow it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine import Tensor

FEWEST_ROWS = 16  # of a table whose number of rows is known to the kernels
MOST_ROWS = {16: 128, 8: 32}  # of such a table, for groups of so many lanes: what the CPU looks up in registers


class Tables:
    """Makes Tensors of tables, and counts their bytes. `group`: lanes of a group on the device."""

    def __init__(self, group: int) -> None:
        self.most, self.bytes = MOST_ROWS.get(group, 0), 0  # rows up to which their number is known to the kernels

    def named(self, name: str, array: NDArray[Any]) -> Tensor:
        """A table whose rows are counted by the named size."""
        self.bytes += array.nbytes
        return Tensor(array, dims=(name,))

    def made(self, name: str, array: NDArray[Any], old: Tensor | None = None, spare: int = 0) -> Tensor:
        """A table whose rows are counted by the named size, or by a number that is that of `old` if it can be; `spare`: rows by which it
        may grow."""
        known = None if old is None else old.shape[0] if isinstance(old.shape[0], int) else 0
        rows = len(array)
        if known is not None and (known == 0 or rows <= known):
            height = known
        else:
            height = max(FEWEST_ROWS, 1 << (rows + spare - 1).bit_length())
            height = height if height <= self.most else 0
        if not height:
            return self.named(name, array)
        padded = np.concatenate([array, np.zeros((height - rows, *array.shape[1:]), array.dtype)])
        self.bytes += padded.nbytes
        return Tensor(padded)
