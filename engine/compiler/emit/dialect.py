"""What C-like languages write in their own way, as a table.

The emitter computes in *registers* of seven kinds: "bool", "int", "uint", "long", "ulong", "float", "double". Integers of 8 and 16 bits
live in 32-bit registers and are cut to size where an operation may leave their range; float16 lives in a float register and is rounded
after every operation. So a language needs names for these kinds, for reinterpreting one as another, and for the few functions that
differ. What a whole text looks like around the code of a lane (`Frame`) is the one part that is more than a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.graph.dtypes import DType

if TYPE_CHECKING:
    from engine.compiler.emit.cstyle_source import Frame


def register(dtype: DType) -> str:
    """The kind of register that holds one element of a type."""
    if dtype.kind == "b":
        return "bool"
    if dtype.kind == "f":
        return "double" if dtype.bits == 64 else "float"
    return ("u" if dtype.kind == "u" else "") + ("long" if dtype.bits == 64 else "int")


@dataclass(frozen=True)
class Dialect:
    """One language.

    types: kind of register -> type. memory: name of a dtype -> type of its elements in a buffer; what is missing lies in words of 32
    bits. convert: how a conversion is written. reinterpret: "float int" -> function that keeps the bits. join: kind of register of 64
    bits -> how it is made of two words. suffix: kind of register -> what ends its literals. functions: names of operations that are not
    called as their `Op`. library: helper functions of its own, before those of all languages. precise: what is written before a
    declaration whose value must be computed as it stands. keeps_zero: False where a product with a literal 0 is taken for 0 whatever its
    other factor is. wraps: signed integers wrap. bitwise_bools: `&` joins bools. contracts: a * b + c of one expression is rounded once
    where that is allowed. hex_floats: floats can be written in base 16. table: how a table of constants is declared. parameter: a word of
    the block of parameters. byte_zero: what a bool in memory is compared with. vectors: kind of register -> what the name of a type of
    several begins with. texels: name of a dtype -> type of a texture of such elements, bits and kind as formats name them. widen:
    "int long" -> how that conversion is written where it is not as others are. missing: kind of register -> operations that it lacks.
    """

    name: str
    types: Mapping[str, str]
    memory: Mapping[str, str]
    convert: str
    reinterpret: Mapping[str, str]
    join: Mapping[str, str]
    suffix: Mapping[str, str]
    functions: Mapping[str, str]
    library: Mapping[str, str]
    precise: str
    keeps_zero: bool
    wraps: bool
    bitwise_bools: bool
    contracts: bool
    hex_floats: bool
    table: str
    parameter: str
    byte_zero: str
    vectors: Mapping[str, str] = field(default_factory=dict)
    texels: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    widen: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def converted(self, kind: str, text: str) -> str:
        """A conversion to a kind of register, in C's way."""
        return self.convert.format(type=self.types[kind], text=text)

    def same_bits(self, source: str, wanted: str, text: str) -> str:
        """The bits of one kind of register as another of the same size."""
        if source == wanted:
            return text
        name = self.reinterpret.get(f"{source} {wanted}")
        return f"{name}({text})" if name else self.converted(wanted, text)

    def frame(self, frame: Frame) -> str:
        """The whole text around the code of a kernel."""
        raise NotImplementedError
