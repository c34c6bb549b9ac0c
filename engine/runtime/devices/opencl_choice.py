"""OpenCL devices on this machine: which there are, which is taken, how kernels are compiled for it.

A machine may have several platforms (drivers), each with several devices, and the same processor may turn up on two of them. What
computes fastest stands first: graphics processors by their compute units, then accelerators, then what only computes on the host's
cores. Devices that lack OpenCL C 1.2, or a compiler, are not counted: the kernels are written in it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from engine.runtime.device import DeviceError

NO_BINDING = "pyopencl is not installed; pip install 'rayfuse[opencl]'"
NO_PLATFORM = "no OpenCL platform found; install a driver (Debian: pocl-opencl-icd for the CPU, your vendor's for a GPU)"
_HOST_RENDERERS = ("llvmpipe", "lavapipe", "softpipe", "swiftshader")  # they may call themselves graphics processors
_NVIDIA = "NVIDIA CUDA"
# PoCL makes machine code when a kernel is launched, again for each kind of grid, unless it is told to make one for all: that is made
# when the kernel is built, and is as fast, since our kernels tell their workgroup.
_AHEAD = ("POCL_WORK_GROUP_SPECIALIZATION", "0")


@dataclass(frozen=True)
class Found:
    """One OpenCL device. kind: "gpu", "accelerator" or "cpu". software: it computes on the host's cores. handle: pyopencl's object."""

    name: str
    driver: str
    platform: str
    kind: str
    software: bool
    compute_units: int
    extensions: str
    handle: Any


def binding() -> Any:
    """The module pyopencl. Raises DeviceError, with what is missing."""
    try:
        import pyopencl
    except ModuleNotFoundError as error:
        raise DeviceError(NO_BINDING) from error
    except ImportError as error:  # its library does not load
        raise DeviceError(f"pyopencl cannot be loaded: {str(error).splitlines()[0]}") from error
    return pyopencl


def probe() -> list[Found]:
    """The OpenCL devices that kernels can be compiled for, best first; at least one. Raises DeviceError, with what is missing."""
    cl = binding()
    os.environ.setdefault(*_AHEAD)
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:  # the loader knows of no driver
        raise DeviceError(NO_PLATFORM) from error
    devices = [device for platform in platforms for device in platform.get_devices()]
    if not devices:
        raise DeviceError(NO_PLATFORM)
    usable = [_described(cl, device) for device in devices if device.compiler_available and _version(device.opencl_c_version) >= (1, 2)]
    if not usable:
        names = ", ".join(device.name.strip() for device in devices)
        raise DeviceError(f"no OpenCL device compiles OpenCL C 1.2 ({names}); install a newer driver")
    order = {"gpu": 0, "accelerator": 1, "cpu": 2}
    return sorted(usable, key=lambda found: (found.software, order[found.kind], -found.compute_units))


def choose(wanted: str | int | None) -> Found:
    """The device of this number in `probe`'s order, or the first with this in its name or its platform's; None: the best.

    Raises DeviceError, with the devices that there are.
    """
    found = probe()
    if wanted is None:
        return found[0]
    if isinstance(wanted, int):
        fitting = found[wanted : wanted + 1] if wanted >= 0 else []
    else:
        fitting = [each for each in found if wanted.lower() in f"{each.name} {each.platform}".lower()]
    if not fitting:
        names = "; ".join(f"{k}: {each.name} ({each.platform})" for k, each in enumerate(found))
        raise DeviceError(f"there is no OpenCL device {wanted!r}; there are {names}")
    return fitting[0]


def options(cl: Any, found: Found, optimise: bool) -> list[str]:
    """What the driver's compiler is told: arithmetic as IEEE 754 has it wherever the device can, and nothing that assumes NaN away."""
    chosen = ["-cl-std=CL1.2", "-w"]
    if found.handle.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
        chosen.append("-cl-fp32-correctly-rounded-divide-sqrt")
    if not optimise:
        chosen.append("-cl-opt-disable")
    if found.platform == _NVIDIA:
        chosen.append("-cl-nv-verbose")  # registers and spills go to the log
    return chosen


def _described(cl: Any, device: Any) -> Found:
    kinds = (("gpu", cl.device_type.GPU), ("accelerator", cl.device_type.ACCELERATOR))
    kind = next((name for name, bit in kinds if device.type & bit), "cpu")
    name = device.name.strip()
    software = kind == "cpu" or any(each in name.lower() for each in _HOST_RENDERERS)
    platform = device.platform
    driver = f"{platform.name.strip()} {device.driver_version.strip()}"
    return Found(name, driver, platform.name.strip(), kind, software, device.max_compute_units, device.extensions, device)


def _version(text: str) -> tuple[int, int]:
    """The numbers of "OpenCL C 1.2 ..."; (0, 0) where there are none."""
    numbers = re.search(r"(\d+)\.(\d+)", text)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
