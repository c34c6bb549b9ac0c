"""Code of one's own for the host: LLVM IR in, the address of a function out.

For work that is no graph over Tensors (building a tree) and too much for Python. The machine code comes from the disk cache where it
is there, so that a second process compiles nothing.
"""

from __future__ import annotations

from typing import Any

from engine.runtime.cache import Cache, digest
from engine.runtime.devices.known_host import known_host, llvm_identity
from engine.runtime.devices.native import PASSES, compile_ir, load_object

_resident: list[Any] = []  # code that has been handed out lives as long as the process


def compile_host_code(text: str, name: str) -> int:
    """The address of the function `name` that a module of LLVM IR defines, compiled for this processor.

    It may call the functions of libm and libc, and be called without the GIL. Raises `engine.runtime.devices.native.CompileError`.
    """
    cache = Cache.from_environment()
    host = known_host(None, None, cache).host
    passes = ("always-inline", *PASSES)
    key = digest("host code", text, host.triple, host.cpu, host.features, llvm_identity(), passes)
    data = cache.get(key)
    if data is None:
        data = compile_ir(text, name=name, passes=passes, target=host)
        cache.put(key, data)
    library = load_object(data)
    _resident.append(library)
    return library.address(name)
