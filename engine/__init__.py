"""The fusion engine: lazy tensors, control flow, and kernels compiled at run time. These are its public names."""

from engine.frontend import group
from engine.frontend.arrays import LocalArray, local_array
from engine.frontend.control import cond, for_loop, serial, switch, while_loop
from engine.frontend.functions import arange, concatenate, full, matmul, maximum, minimum, ones, stack, where, zeros
from engine.frontend.printing import debug_print
from engine.frontend.storage import StaleTensorError
from engine.frontend.tensor import Dim, Tensor, TensorSpec
from engine.frontend.trace import ImpureFunctionError, TraceError
from engine.jit import Jitted, jit
from engine.runtime import events
from engine.runtime.cache import Cache, digest
from engine.runtime.choice import (
    DeviceStatus,
    candidates,
    default_device,
    devices,
    gl_sharing,
    open_device,
    resolved,
    set_default_device,
)
from engine.runtime.device import Device, DeviceError, SharingDevice
from engine.runtime.events import Timing

__version__ = "0.1.0"

__all__ = [
    "Cache",
    "Device",
    "DeviceError",
    "DeviceStatus",
    "Dim",
    "ImpureFunctionError",
    "Jitted",
    "LocalArray",
    "SharingDevice",
    "StaleTensorError",
    "Tensor",
    "TensorSpec",
    "Timing",
    "TraceError",
    "arange",
    "candidates",
    "concatenate",
    "cond",
    "debug_print",
    "default_device",
    "devices",
    "digest",
    "events",
    "for_loop",
    "full",
    "gl_sharing",
    "group",
    "jit",
    "local_array",
    "matmul",
    "maximum",
    "minimum",
    "ones",
    "open_device",
    "resolved",
    "serial",
    "set_default_device",
    "stack",
    "switch",
    "where",
    "while_loop",
    "zeros",
]
