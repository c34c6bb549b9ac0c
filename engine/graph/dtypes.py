"""Scalar types, and what two of them become together.

A `DType` is interned: equal types are the same object, so `is` compares them. `vec(n)` is the type of a value that holds n
elements across the SIMD unit (it occurs only inside `serial` regions), `ArrayType` that of a lane's private array.

Promotion follows NumPy within a kind (int32 + int64 = int64, int32 + uint32 = int64, float32 + float64 = float64) with one
difference that every array library for GPUs makes: an integer beside a float does not widen the float (int32 + float32 is
float32, where NumPy says float64). Python numbers are weak: they take the type of the tensor beside them, unless their kind
is higher (an int8 tensor plus 1.5 is float32).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

_KIND_ORDER = {"b": 0, "u": 1, "i": 1, "f": 2}


class DType:
    """A scalar type (`count == 1`) or a short vector of one."""

    __slots__ = ("_vectors", "bits", "count", "kind", "name", "numpy", "scalar")
    name: str
    kind: str
    bits: int
    count: int
    scalar: DType
    numpy: np.dtype[Any]

    def __init__(self, name: str, kind: str, bits: int, count: int = 1, scalar: DType | None = None) -> None:
        self.name, self.kind, self.bits, self.count = name, kind, bits, count
        self._vectors: dict[int, DType] = {}
        self.scalar = scalar or self
        self.numpy = np.dtype(scalar.name if scalar else name)

    def vec(self, count: int) -> DType:
        """The type of `count` elements of this scalar type side by side."""
        if count == 1:
            return self.scalar
        base = self.scalar
        if count not in base._vectors:
            base._vectors[count] = DType(f"{base.name}x{count}", base.kind, base.bits, count, base)
        return base._vectors[count]

    @property
    def itemsize(self) -> int:
        """Bytes of one element in a buffer."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        return self.kind in "iu"

    @property
    def is_bool(self) -> bool:
        return self.kind == "b"

    @property
    def min(self) -> float | int:
        """The least finite value."""
        if self.kind == "f":
            return float(np.finfo(self.numpy).min)
        return 0 if self.kind in "bu" else -(1 << (self.bits - 1))

    @property
    def max(self) -> float | int:
        """The greatest finite value."""
        if self.kind == "f":
            return float(np.finfo(self.numpy).max)
        return 1 if self.kind == "b" else (1 << (self.bits - (self.kind == "i"))) - 1

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (as_dtype, (self.scalar.name,)) if self.count == 1 else (_vector, (self.scalar.name, self.count))


class ArrayType:
    """The type of a private array of `length` elements of `dtype`."""

    __slots__ = ("dtype", "length")
    _interned: ClassVar[dict[tuple[DType, int], ArrayType]] = {}

    dtype: DType
    length: int

    def __new__(cls, dtype: DType, length: int) -> ArrayType:
        key = (dtype, length)
        if key not in cls._interned:
            self = super().__new__(cls)
            self.dtype, self.length = dtype, length
            cls._interned[key] = self
        return cls._interned[key]

    def __repr__(self) -> str:
        return f"{self.dtype}[{self.length}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return (ArrayType, (self.dtype, self.length))


bool_ = DType("bool", "b", 1)
int8, int16, int32, int64 = (DType(f"int{n}", "i", n) for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DType(f"uint{n}", "u", n) for n in (8, 16, 32, 64))
float16, float32, float64 = (DType(f"float{n}", "f", n) for n in (16, 32, 64))

ALL: dict[str, DType] = {
    d.name: d for d in (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64)
}


def _vector(name: str, count: int) -> DType:
    return ALL[name].vec(count)


def as_dtype(given: Any) -> DType:
    """The DType of a name ("float32", "bool"), a NumPy type or a DType. Raises TypeError for a type the engine lacks."""
    if isinstance(given, DType):
        return given
    if given is bool:
        return bool_
    if given is int:
        return int32
    if given is float:
        return float32
    try:
        name = np.dtype(given).name
    except TypeError:
        name = str(given)
    if name not in ALL:
        raise TypeError(f"no such dtype: {given!r}; the engine has {', '.join(ALL)}")
    return ALL[name]


def of_number(value: bool | int | float) -> DType:
    """The type a Python number has on its own: bool, int32 (int64 where it does not fit), float32."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (int, np.integer)):
        return int32 if int32.min <= value <= int32.max else (int64 if value <= int64.max else uint64)
    return float32


def promote(a: DType, b: DType) -> DType:
    """The type of an operation between tensors of types `a` and `b`."""
    if a is b:
        return a
    ka, kb = _KIND_ORDER[a.kind], _KIND_ORDER[b.kind]
    if ka != kb:
        return a if ka > kb else b
    if a.kind == b.kind:
        return a if a.bits >= b.bits else b
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    return ALL[f"int{unsigned.bits * 2}"] if unsigned.bits < 64 else float64


def promote_weak(tensor: DType, value: bool | int | float) -> DType:
    """The type of an operation between a tensor and a Python number: the tensor's, unless the number's kind is higher."""
    number = of_number(value)
    if _KIND_ORDER[number.kind] <= _KIND_ORDER[tensor.kind]:
        return tensor
    return number if number.kind == "f" or tensor.kind == "b" else promote(tensor, number)
