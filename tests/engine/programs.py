"""Random programs on the public front end, as text.

A `Program` is the source of a Python function of a few Tensors, and recipes for its inputs. It can be run in eager mode, traced,
and run on any device, as often as one likes; a failing example prints as code that can be pasted into a test. Strategies that
write such programs: `expression_programs.expressions` and `smooth_expressions`, `control_programs.control_programs`.

Programs are written so that their results do not depend on what is left open: the order of a sum (floats that are added up in
any order are whole and small), contraction to fma (no product of floats that are not whole is added to anything), the sign of
zero, the bits of a NaN, the group width.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.frontend import functions, group
from engine.frontend.arrays import local_array
from engine.frontend.control import cond, for_loop, serial, switch, while_loop
from engine.frontend.tensor import Tensor

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

# What the text of a program may name. I, U, F and B make constants.
NAMES: dict[str, Any] = {
    **{name: getattr(functions, name) for name in ("concatenate", "maximum", "minimum", "stack", "where")},
    **{f.__name__: f for f in (cond, for_loop, local_array, serial, switch, while_loop)},
    "group": group,
    "inf": float("inf"),
    "nan": float("nan"),
    "I": lambda value: Tensor(value, "int32"),
    "U": lambda value: Tensor(value, "uint32"),
    "F": lambda value: Tensor(value, "float32"),
    "B": lambda value: Tensor(value, "bool"),
}

WILD = (0.0, -0.0, 1.0, -1.5, 2.5, 0.1, -7.25, 1e30, -3e9, 65504.0, float("inf"), float("-inf"), float("nan"))


@dataclass(frozen=True)
class Input:
    """A recipe for an array. `kind`: "small" whole numbers up to 8, "bits" (any integers), "wild" floats, floats in "[-3, 3]".

    `dims`: names of the leading sizes of the Tensor that is made of it.
    """

    name: str
    dtype: str
    shape: Shape
    kind: str
    seed: int
    dims: tuple[str, ...] = ()

    def array(self) -> Array:
        rng = np.random.default_rng(self.seed)
        dtype = np.dtype(self.dtype)
        if dtype.kind == "b":
            return rng.integers(0, 2, self.shape).astype(dtype)
        if self.kind == "wild":
            with np.errstate(over="ignore"):
                return rng.choice(np.array(WILD), self.shape).astype(dtype)
        if self.kind == "bits":
            info = np.iinfo(dtype)
            random = rng.integers(info.min, info.max, self.shape, dtype, endpoint=True)
            edges = rng.choice(np.array([info.min, info.max, 0, 1], dtype), self.shape)
            return np.where(rng.integers(0, 3, self.shape) == 0, edges, random)
        if self.kind == "[-3, 3]":
            return rng.uniform(-3, 3, self.shape).astype(dtype)
        return rng.integers(0 if dtype.kind == "u" else -8, 8, self.shape, endpoint=True).astype(dtype)


@dataclass(frozen=True)
class Program:
    """Source of `def program(...)`, which returns a tuple of Tensors, and its inputs. `tolerance`: 0 where results are exact."""

    inputs: tuple[Input, ...]
    source: str
    tolerance: float = 0.0

    @functools.cached_property
    def function(self) -> Callable[..., tuple[Tensor, ...]]:
        names = dict(NAMES)
        exec(compile(self.source, "<program>", "exec"), names)
        function: Callable[..., tuple[Tensor, ...]] = names["program"]
        return function

    def tensors(self) -> list[Tensor]:
        return [Tensor(i.array(), dims=i.dims) for i in self.inputs]

    def check(self, found: list[Array], wanted: list[Array], who: str) -> None:
        """Asserts that the results are those wanted: types, shapes, and values (NaN equal to NaN)."""
        assert len(found) == len(wanted)
        for k, (a, b) in enumerate(zip(found, wanted)):
            assert (a.dtype, a.shape) == (b.dtype, b.shape), f"result {k} on {who}"
            if self.tolerance and b.dtype.kind == "f":
                np.testing.assert_allclose(a, b, rtol=self.tolerance, atol=self.tolerance, err_msg=f"result {k} on {who}")
            else:
                np.testing.assert_array_equal(a, b, err_msg=f"result {k} on {who}")

    def __repr__(self) -> str:
        return "\n".join(["Program:", *(f"# {i}" for i in self.inputs), self.source])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How hypothesis shows a failing example."""
        printer.text(repr(self))
