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
from engine.runtime.choice import DeviceStatus, default_device, devices, open_device, set_default_device
from engine.runtime.device import Device, DeviceError
from engine.runtime.events import Timing

__version__ = "0.1.0"

__all__ = [
    "Device",
    "DeviceError",
    "DeviceStatus",
    "Dim",
    "ImpureFunctionError",
    "Jitted",
    "LocalArray",
    "StaleTensorError",
    "Tensor",
    "TensorSpec",
    "Timing",
    "TraceError",
    "arange",
    "concatenate",
    "cond",
    "debug_print",
    "default_device",
    "devices",
    "for_loop",
    "full",
    "group",
    "jit",
    "local_array",
    "matmul",
    "maximum",
    "minimum",
    "ones",
    "open_device",
    "serial",
    "set_default_device",
    "stack",
    "switch",
    "where",
    "while_loop",
    "zeros",
]
