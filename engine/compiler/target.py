"""What the compiler knows of a device: limits and features, as plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """Limits and features of a device, as far as the compiler asks for them.

    group: lanes that run in lock step. serial_width: elements that one lane can put across the SIMD unit inside `serial`.
    max_buffers: buffers a kernel may touch; parameters, in a block of their own, do not count. packs_read_only: buffers that are only
    read can share a binding. max_textures: buffers that a kernel may read as textures; 0 where that is not faster. shared_bytes: shared
    memory of a workgroup. contract: a * b + c may be rounded once. fuses: the language's `fma` does round once. optimise: False leaves
    out what is not needed to be right (`NOOPT=1`).
    """

    name: str
    group: int = 1
    max_buffers: int = 1 << 16
    max_workgroup: int = 1024
    shared_bytes: int = 32 * 1024
    expands_transcendentals: bool = True
    packs_read_only: bool = False
    max_textures: int = 0
    contract: bool = True
    fuses: bool = True
    optimise: bool = True
