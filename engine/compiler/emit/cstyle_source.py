"""What the C-style emitter gives: a text, and all that a device has to know to launch it.

A `Source` is plain data. The two halves of it go different ways: the text to a compiler, the rest to whoever binds memory and counts
workgroups. `Frame` is what passes between the emitter and a dialect, which puts its own declarations around the code.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.graph.dtypes import DType
from engine.graph.uop import Shape


@dataclass(frozen=True)
class Slot:
    """Where one buffer of a kernel reaches the code, in the order of `kernel.buffers`.

    kind: "own" (a binding or pointer argument of its own), "texture" (a buffer texture of one element a texel), "packed" (one of several
    read-only buffers that share a binding of 32-bit words) or "parameter" (part of the block of parameters). binding: number of the SSBO
    binding (GLSL) or index of the argument (OpenCL), of packed ones the shared one's, of textures that of the texture unit; -1 for
    parameters. word: index in `Source.words` of the 32-bit-word offset at which the buffer begins in what it shares; -1 for own ones
    and textures. format: of a texture's texels, as "R32F".
    """

    kind: str
    binding: int
    word: int
    format: str = ""


@dataclass(frozen=True)
class Source:
    """A kernel's text and how it is launched.

    name: the entry point (GLSL's is `main`). workgroup: invocations of a workgroup (1 where one invocation walks all lanes in
    order, or there is one lane only). lanes: sizes of the lane axes. tile: rows and columns of lanes that a workgroup covers,
    (1, workgroup) where it covers neighbours in row order. slots: one for each buffer. words: what the launch words hold, an int32
    each: "dim:NAME" is the value of a named size, "slot:K" the offset of slot K in 32-bit words. bindings: SSBO bindings, or
    pointer arguments before that of the parameters. parameters: True where the text reads the block of parameters. features: what
    it needs of the device beyond 32-bit numbers: "int64", "float64". ordered: one invocation walks all lanes.
    """

    name: str
    text: str
    workgroup: int
    lanes: Shape
    tile: tuple[int, int]
    slots: tuple[Slot, ...]
    words: tuple[str, ...]
    bindings: int
    parameters: bool
    features: frozenset[str]
    ordered: bool


@dataclass
class Frame:
    """What a dialect puts around the code of a kernel. `own`: name, dtype, read, written of each buffer with a binding of its own."""

    name: str
    comments: list[str]
    own: list[tuple[str, DType, bool, bool]]
    textures: list[tuple[str, DType, int]]
    packed: bool
    parameters: bool
    words: list[str]
    workgroup: int
    ordered: bool
    lane: bool  # the code asks for the number of the invocation
    zero: bool
    contract: bool
    features: frozenset[str]
    constants: list[tuple[str, str, str, str]] = field(default_factory=list)  # name, kind of register, text, comment
    functions: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
