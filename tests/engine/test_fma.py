"""x.fma(y, z) is x * y + z, rounded once, on hosts without such an instruction too."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from engine import Tensor, jit
from engine.runtime.cache import Cache
from engine.runtime.devices.cpu import CpuDevice
from engine.runtime.devices.interpreter import ReferenceDevice

DEVICES = ["reference 4", "cpu 16", "cpu 8", "cpu 4"]


@pytest.mark.parametrize(("dtype", "digits"), [(np.float16, 6), (np.float32, 12), (np.float64, 27)])
@pytest.mark.parametrize("name", DEVICES)
def test_fma_rounds_once(name: str, dtype: Any, digits: int) -> None:
    kind, width = name.split()
    random = np.random.default_rng(digits)
    steps = 2.0**-digits
    x = (1 + random.integers(0, 1 << digits, 101) * steps).astype(dtype)
    y = (1 - random.integers(1, 1 << digits, 101) * steps).astype(dtype)
    z = -(x * y)  # what is left is the rounding error of the product, which has a value of the type
    exact = [float(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))) for a, b, c in zip(x, y, z, strict=True)]
    device: Any = ReferenceDevice(int(width)) if kind == "reference" else CpuDevice(threads=1, group=int(width), cache=Cache(None))
    for count in (1, 101):  # one lane alone, and groups
        found = jit(lambda a, b, c: a.fma(b, c), device=device)(Tensor(x[:count]), Tensor(y[:count]), Tensor(z[:count]))
        assert found.numpy().tolist() == exact[:count]
    assert any(exact)
    device.close()
