"""Kernels of OpenCL C written by hand, for tests of what compiles and launches them.

`written` makes a device compile a text of ours in place of the emitter's: `%(workgroup)d` in it stands for the workgroup.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.compiler.emit.cstyle import Slot, Source
from engine.compiler.kernel import Block, Kernel
from engine.frontend.storage import aligned_empty
from engine.frontend.tensor import dim
from engine.runtime.cache import Cache
from engine.runtime.device import DeviceError, LaunchRequest
from engine.runtime.devices.opencl import OpenCLDevice, OpenCLProgram
from engine.runtime.devices.opencl_choice import probe
from engine.runtime.devices.opencl_plan import OpenCLPlan

# out[i] = i * scale + step, `turns` times over; scale is a parameter
SCALED = """
__attribute__((reqd_work_group_size(%(workgroup)d, 1, 1)))
__kernel void scaled(__global float *restrict out, __global const uint *parameters, const int n, const int at, const int turns_at) {
  int i = get_global_id(0);
  if (i >= n) return;
  float scale = as_float(parameters[at]), x = (float)i;
  int turns = (int)parameters[turns_at];
  for (int k = 0; k < turns; k++) x = native_sin(x) * scale + 0.25f * x;
  out[i] = x + scale;
}
"""
# state[i] = state[i] * 2 + in[i]
DOUBLED = """
__attribute__((reqd_work_group_size(%(workgroup)d, 1, 1)))
__kernel void doubled(__global int *state, __global const int *restrict in, const int n) {
  int i = get_global_id(0);
  if (i < n) state[i] = state[i] * 2 + in[i];
}
"""


@contextmanager
def opened(**options: Any) -> Iterator[OpenCLDevice]:
    """A device, closed afterwards; skips where there is no OpenCL."""
    try:
        probe()
    except DeviceError as error:
        pytest.skip(str(error))
    device = OpenCLDevice(**options)
    try:
        yield device
    finally:
        device.close()


def written(device: OpenCLDevice, text: str = SCALED, workgroup: int = 256, least: int = 1) -> OpenCLProgram:
    """A text compiled as if the emitter had written it. `least`: a workgroup that the text cannot go below."""
    name = "doubled" if "doubled" in text else "scaled"
    slots, words = (Slot("own", 0, -1), Slot("parameter", -1, 1), Slot("parameter", -1, 2)), ("dim:n", "slot:1", "slot:2")
    if name == "doubled":
        slots, words = (Slot("own", 0, -1), Slot("own", 1, -1)), ("dim:n",)

    def emitted(kernel: Kernel, wanted: int) -> Source:
        size = max(least, wanted)
        bindings = 2 if name == "doubled" else 1
        code, parameters = text % {"workgroup": size}, name == "scaled"
        return Source(name, code, size, kernel.lanes, (1, size), slots, words, bindings, parameters, frozenset(), False)

    device._emit = emitted  # type: ignore[method-assign]
    lanes = (dim("n"),)
    return device.compile(Kernel(name, [], lanes, "linear", Block(None, 0), Block(None, 1), workgroup=workgroup))


class Scaled:
    """A plan of one launch of SCALED, its output and its parameters."""

    def __init__(self, device: OpenCLDevice, program: OpenCLProgram, count: int, turns: int = 1) -> None:
        self.count = count
        self.block = aligned_empty(64, np.dtype(np.uint8))
        self.block[:] = 0
        self.scale, self.turns = self.block[8:12].view(np.float32), self.block[16:20].view(np.uint32)
        self.scale[0], self.turns[0] = 0.5, turns
        self.out = device.allocate(4 * count)
        self.plan: OpenCLPlan = device.executable([LaunchRequest(program, [self.out, self.scale, self.turns])], self.block)
        self.plan.resize({"n": count})

    def run(self) -> np.ndarray[Any, Any]:
        """What the kernel leaves in its output."""
        self.plan.run({"n": self.count})
        found = np.full(self.count, np.nan, np.float32)
        self.out.read(found)
        return found


def cached_in(folder: Path) -> Cache:
    """A cache in a folder of its own."""
    return Cache(folder / "cache")
