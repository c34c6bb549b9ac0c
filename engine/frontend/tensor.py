"""The lazy Tensor: what users write.

A Tensor is a thin wrapper around one graph node. Every operation makes a new node and returns at once; nothing runs until
somebody reads the values (`numpy()`, `item()`, `realize()`), or a jitted function that recorded the graph is called. Names,
broadcasting and rounding are NumPy's. Two differences, both for the sake of kernels: integers do not widen the floats beside
them (see `graph.dtypes`), and indices held in tensors are not wrapped when negative.

Scalars keep the shape () inside the graph: an elementwise node takes sources of its own shape or of shape (), so a Python
number or a parameter costs no broadcast node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from engine.frontend import trace
from engine.frontend.storage import Buffer, Memory, Place, Storage
from engine.frontend.trace import TraceError, user_line
from engine.graph import dtypes
from engine.graph.dtypes import DType, as_dtype, bool_, float32, int32
from engine.graph.uop import COMPARE, BufferArg, Op, Shape, UOp, dim

Number = bool | int | float
_NUMBERS = (bool, int, float, np.number, np.bool_)
_realize: Callable[[list[Tensor]], None] | None = None
_eager: Callable[[UOp], UOp] | None = None
_witness: Callable[[], None] | None = None


def set_realizer(function: Callable[[list[Tensor]], None] | None) -> Callable[[list[Tensor]], None] | None:
    """Installs what runs graphs (the runtime does this once; the front end knows no device); returns the one before."""
    global _realize
    before, _realize = _realize, function
    return before


def set_eager(function: Callable[[UOp], UOp] | None) -> Callable[[UOp], UOp] | None:
    """Installs a function that computes each node at once (the eager oracle); returns the one before."""
    global _eager
    before, _eager = _eager, function
    return before


def set_witness(function: Callable[[], None] | None) -> None:
    """Installs a function that is called whenever a node is recorded, by whatever thread (the jit's, while it traces)."""
    global _witness
    _witness = function


def is_eager() -> bool:
    """True while operations are computed at once, without recording."""
    return _eager is not None


class Tensor:
    """N-d array of one dtype, computed when it is needed.

    `Tensor(data, dtype=None)`: from a number, nested lists or a NumPy array (copied). float64 arrays stay float64; Python
    floats become float32. `dims` names leading sizes that may change from call to call of a jitted function without a new
    compilation, as in `Tensor(picture, dims=("height", "width"))`. Raises TypeError for data that is no number.
    """

    __slots__ = ("__weakref__", "generation", "uop")
    __array_priority__ = 1000
    uop: UOp
    generation: int | None

    def __init__(self, data: Any, dtype: Any = None, dims: Sequence[str] = ()) -> None:
        self.generation = None
        if isinstance(data, Tensor):
            self.uop = data.uop if dtype is None else data.cast(dtype).uop
        elif isinstance(data, _NUMBERS):
            wanted = as_dtype(dtype) if dtype is not None else _number_dtype(data)
            self.uop = UOp.const(wanted, cast(Number, data))
        else:
            array = np.asarray(data)
            if dtype is None and array.dtype == np.float64 and not isinstance(data, np.ndarray):
                array = array.astype(np.float32)
            if dtype is None and array.dtype == np.int64 and not isinstance(data, np.ndarray):
                array = array.astype(np.int32)
            if dtype is not None:
                array = array.astype(as_dtype(dtype).numpy)
            storage = Storage.of_array(array)
            shape = (*(dim(name) for name in dims), *array.shape[len(dims) :])
            self.uop = UOp.new(Op.BUFFER, as_dtype(array.dtype), (), BufferArg(storage.slot, shape, "memory", storage), shape)

    @staticmethod
    def of(node: UOp) -> Tensor:
        """The Tensor of a graph node."""
        if node.scope:
            trace.current().check_scope(node)
        if _eager is not None:
            node = _eager(node)
        if _witness is not None:
            _witness()
        self = Tensor.__new__(Tensor)
        self.uop, self.generation = node, None
        return self

    # ---- what it is ----

    @property
    def shape(self) -> Shape:
        """Sizes of the axes: ints, or size nodes where a size is dynamic."""
        return self.uop.shape

    @property
    def dtype(self) -> DType:
        dtype: DType = self.uop.dtype
        return dtype

    @property
    def ndim(self) -> int:
        return len(self.uop.shape)

    @property
    def size(self) -> int:
        """Number of elements (static shapes only)."""
        return int(np.prod([int(s) for s in self.shape], dtype=np.int64))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d Tensor")
        return int(self.shape[0])

    def __repr__(self) -> str:
        return f"Tensor({self.dtype}{[s if isinstance(s, int) else s.arg for s in self.shape]})"

    # ---- reading ----

    def realize(self) -> Tensor:
        """Computes the values now; returns self. Inside a traced function it raises TraceError."""
        if trace.current().jit:
            raise TraceError(f"{user_line()}: a value is read while the function is being traced; return it and read it outside")
        trace.current().check_scope(self.uop)
        if _realize is None:
            raise RuntimeError("no runtime: import engine, not a part of it")
        _realize([self])
        return self

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values, as a NumPy array of the same dtype and shape. Raises StaleTensorError for a result that a later call replaced."""
        self.realize()
        return self._storage().read(self)

    @staticmethod
    def over(array: np.ndarray[Any, Any], dims: Sequence[str] = ()) -> Tensor:
        """A Tensor in memory of the caller's, who keeps it alive: kernels of the CPU that assign to it write there.

        The array must be contiguous and begin at a multiple of 64 bytes; `dims` as for Tensor(). Raises ValueError.
        """
        if not array.flags.c_contiguous or array.ctypes.data % 64:
            raise ValueError(f"{user_line()}: Tensor.over() wants a contiguous array that begins at a multiple of 64 bytes")
        self = Tensor.__new__(Tensor)
        self.generation = None
        storage = Storage(array.reshape(-1), array.shape)
        shape = (*(dim(name) for name in dims), *array.shape[len(dims) :])
        self.uop = UOp.new(Op.BUFFER, as_dtype(array.dtype), (), BufferArg(storage.slot, shape, "memory", storage), shape)
        return self

    @staticmethod
    def in_buffer(buffer: Buffer, place: Place, shape: Sequence[int], dtype: Any, dims: Sequence[str] = ()) -> Tensor:
        """A Tensor in memory of a device that somebody else shares with it, its contents what they are; `dims` as for Tensor()."""
        self = Tensor.__new__(Tensor)
        self.generation = None
        kind = as_dtype(dtype)
        storage = Storage(None, tuple(shape), kind.numpy)
        storage.replace(place, buffer, tuple(shape))
        sizes = (*(dim(name) for name in dims), *shape[len(dims) :])
        self.uop = UOp.new(Op.BUFFER, kind, (), BufferArg(storage.slot, sizes, "memory", storage), sizes)
        return self

    def buffer_on(self, device: Place) -> Memory:
        """The memory of the contents on a device, brought there where it is not: what other users of that device's memory may read.

        A NumPy array (flat) where kernels work on the host's memory. Raises StaleTensorError, MemoryError.
        """
        storage = self.realize()._storage()
        storage.check(self)
        return storage.on(device)

    def read_into(self, array: np.ndarray[Any, Any]) -> None:
        """Copies the values to a contiguous array of this dtype and size. Raises StaleTensorError, ValueError."""
        self.realize()._storage().read_into(self, array)

    def _storage(self) -> Storage:
        assert self.uop.op == Op.BUFFER
        return cast(Storage, self.uop.arg.storage)

    def item(self) -> Any:
        """The only element, as a Python number."""
        return self.numpy().reshape(-1).item()

    def tolist(self) -> Any:
        return self.numpy().tolist()

    def copy(self) -> Tensor:
        """A Tensor with the same values that no later call of a jitted function changes."""
        values = self.numpy()
        named = [size.arg for size in self.shape if isinstance(size, UOp) and size.op == Op.DIM]
        leading = all(isinstance(size, UOp) and size.op == Op.DIM for size in self.shape[: len(named)])
        return Tensor(values, dims=named if leading else ())

    def _refuse(self, what: str) -> Any:
        if trace.current().jit or self.uop.scope:
            raise TraceError(
                f"{user_line()}: {what} of a Tensor is not known while the function is being traced; "
                "use where(condition, a, b) to select values or cond(condition, f, g) to branch"
            )
        return self.item()

    def __bool__(self) -> bool:
        return bool(self._refuse("the truth value"))

    def __int__(self) -> int:
        return int(self._refuse("int()"))

    def __float__(self) -> float:
        return float(self._refuse("float()"))

    def __index__(self) -> int:
        return int(self._refuse("the value as an index"))

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    # ---- elementwise ----

    def __add__(self, other: Any) -> Tensor:
        return binary(Op.ADD, self, other)

    def __radd__(self, other: Any) -> Tensor:
        return binary(Op.ADD, other, self)

    def __sub__(self, other: Any) -> Tensor:
        return binary(Op.SUB, self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return binary(Op.SUB, other, self)

    def __mul__(self, other: Any) -> Tensor:
        return binary(Op.MUL, self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return binary(Op.MUL, other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return binary(Op.DIV, self, other, floating=True)

    def __rtruediv__(self, other: Any) -> Tensor:
        return binary(Op.DIV, other, self, floating=True)

    def __floordiv__(self, other: Any) -> Tensor:
        return _floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return _floor_divide(other, self)

    def __mod__(self, other: Any) -> Tensor:
        return binary(Op.MOD, self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return binary(Op.MOD, other, self)

    def __pow__(self, other: Any) -> Tensor:
        return _power(self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _power(other, self)

    def __matmul__(self, other: Any) -> Tensor:
        from engine.frontend.functions import matmul

        return matmul(self, other)

    def __and__(self, other: Any) -> Tensor:
        return binary(Op.AND, self, other, bits=True)

    def __rand__(self, other: Any) -> Tensor:
        return binary(Op.AND, other, self, bits=True)

    def __or__(self, other: Any) -> Tensor:
        return binary(Op.OR, self, other, bits=True)

    def __ror__(self, other: Any) -> Tensor:
        return binary(Op.OR, other, self, bits=True)

    def __xor__(self, other: Any) -> Tensor:
        return binary(Op.XOR, self, other, bits=True)

    def __rxor__(self, other: Any) -> Tensor:
        return binary(Op.XOR, other, self, bits=True)

    def __lshift__(self, other: Any) -> Tensor:
        return binary(Op.SHL, self, other, bits=True)

    def __rlshift__(self, other: Any) -> Tensor:
        return binary(Op.SHL, other, self, bits=True)

    def __rshift__(self, other: Any) -> Tensor:
        return binary(Op.SHR, self, other, bits=True)

    def __rrshift__(self, other: Any) -> Tensor:
        return binary(Op.SHR, other, self, bits=True)

    def __invert__(self) -> Tensor:
        if self.dtype.is_float:
            raise TypeError(f"{user_line()}: ~ of a {self.dtype} Tensor; bitwise operations take integers and bools")
        return unary(Op.NOT, self)

    def __neg__(self) -> Tensor:
        return unary(Op.NEG, self)

    def __abs__(self) -> Tensor:
        return self.abs()

    def __lt__(self, other: Any) -> Tensor:
        return binary(Op.LT, self, other)

    def __le__(self, other: Any) -> Tensor:
        return binary(Op.LE, self, other)

    def __gt__(self, other: Any) -> Tensor:
        return binary(Op.LT, other, self)

    def __ge__(self, other: Any) -> Tensor:
        return binary(Op.LE, other, self)

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        return binary(Op.EQ, self, other)

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        return binary(Op.NE, self, other)

    __hash__ = object.__hash__

    def abs(self) -> Tensor:
        return self if self.dtype.kind in "ub" else unary(Op.ABS, self)

    def sqrt(self) -> Tensor:
        return unary(Op.SQRT, self, floating=True)

    def rsqrt(self) -> Tensor:
        return 1.0 / self.sqrt()

    def reciprocal(self) -> Tensor:
        return 1.0 / self

    def square(self) -> Tensor:
        return self * self

    def exp(self) -> Tensor:
        return unary(Op.EXP, self, floating=True)

    def exp2(self) -> Tensor:
        return unary(Op.EXP2, self, floating=True)

    def log(self) -> Tensor:
        return unary(Op.LOG, self, floating=True)

    def log2(self) -> Tensor:
        return unary(Op.LOG2, self, floating=True)

    def sin(self) -> Tensor:
        return unary(Op.SIN, self, floating=True)

    def cos(self) -> Tensor:
        return unary(Op.COS, self, floating=True)

    def tan(self) -> Tensor:
        return unary(Op.TAN, self, floating=True)

    def arcsin(self) -> Tensor:
        return unary(Op.ASIN, self, floating=True)

    def arccos(self) -> Tensor:
        return unary(Op.ACOS, self, floating=True)

    def arctan(self) -> Tensor:
        return unary(Op.ATAN, self, floating=True)

    def arctan2(self, x: Any) -> Tensor:
        """Angle of the point (x, self), in radians."""
        return binary(Op.ATAN2, self, x, floating=True)

    def floor(self) -> Tensor:
        return self if not self.dtype.is_float else unary(Op.FLOOR, self)

    def ceil(self) -> Tensor:
        return self if not self.dtype.is_float else unary(Op.CEIL, self)

    def trunc(self) -> Tensor:
        return self if not self.dtype.is_float else unary(Op.TRUNC, self)

    def round(self) -> Tensor:
        """Nearest integer, halves to even."""
        return self if not self.dtype.is_float else unary(Op.ROUND, self)

    def pow(self, exponent: Any) -> Tensor:
        return _power(self, exponent)

    def maximum(self, other: Any) -> Tensor:
        """The greater; NaN where either is NaN."""
        return binary(Op.MAX, self, other)

    def minimum(self, other: Any) -> Tensor:
        """The lesser; NaN where either is NaN."""
        return binary(Op.MIN, self, other)

    def clip(self, low: Any = None, high: Any = None) -> Tensor:
        result = self if low is None else self.maximum(low)
        return result if high is None else result.minimum(high)

    def sign(self) -> Tensor:
        """-1, 0 or 1; NaN of NaN."""
        result = (self > 0).cast(self.dtype) - (self < 0).cast(self.dtype)
        return self.isnan().where(self, result) if self.dtype.is_float else result

    def isnan(self) -> Tensor:
        return self != self

    def isfinite(self) -> Tensor:
        return self - self == 0 if self.dtype.is_float else Tensor(True).broadcast_to(self.shape)

    def isinf(self) -> Tensor:
        return self.abs() == float("inf")

    def fma(self, factor: Any, addend: Any) -> Tensor:
        """self * factor + addend, rounded once."""
        a, b = self._aligned(factor)
        a, c = a._aligned(addend)
        a, b = a._aligned(b)
        return Tensor.of(elementwise(Op.FMA, a.dtype, a.uop, b.uop, c.uop))

    def where(self, a: Any, b: Any) -> Tensor:
        """a where this (bool) holds, b elsewhere; both are computed."""
        x, y = operands(a, b, "where")
        if not self.dtype.is_bool:
            raise TypeError(f"{user_line()}: where() takes a bool condition, not {self.dtype}; compare first (x != 0)")
        c, x = self._broadcast(x)
        c, y = c._broadcast(y)
        x, y = x._broadcast(y)
        c, x = c._broadcast(x)
        return Tensor.of(elementwise(Op.WHERE, x.dtype, c.uop, x.uop, y.uop))

    def _aligned(self, other: Any) -> tuple[Tensor, Tensor]:
        a, b = operands(self, other, "arithmetic")
        return a._broadcast(b)

    def _broadcast(self, other: Tensor) -> tuple[Tensor, Tensor]:
        a, b = self.uop.shape, other.uop.shape
        if a == b or not a or not b:
            return self, other
        shape = broadcast_shapes(a, b)
        return self.broadcast_to(shape), other.broadcast_to(shape)

    def cast(self, dtype: Any) -> Tensor:
        """The values as another type: floats are truncated towards zero and saturate, NaN becomes 0."""
        wanted = as_dtype(dtype)
        return self if wanted is self.dtype else Tensor.of(UOp.new(Op.CAST, wanted, (self.uop,)))

    astype = cast

    def bitcast(self, dtype: Any) -> Tensor:
        """The same bits as another type of the same size."""
        wanted = as_dtype(dtype)
        if wanted.bits != self.dtype.bits:
            raise TypeError(f"{user_line()}: bitcast from {self.dtype} to {wanted}: the sizes differ; cast() converts values")
        return self if wanted is self.dtype else Tensor.of(UOp.new(Op.BITCAST, wanted, (self.uop,)))

    def contiguous(self) -> Tensor:
        """A cut: the values are stored, and what follows reads them from memory."""
        return Tensor.of(UOp.new(Op.CONTIGUOUS, self.dtype, (self.uop,)))

    # movement, reductions, indexing: in their own files
    def reshape(self, *shape: Any) -> Tensor:
        return movement.reshape(self, _sequence(shape))

    def permute(self, *order: Any) -> Tensor:
        return movement.permute(self, _sequence(order))

    transpose = permute

    def swapaxes(self, a: int, b: int) -> Tensor:
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return movement.permute(self, tuple(order))

    @property
    def T(self) -> Tensor:
        return movement.permute(self, tuple(range(self.ndim))[::-1])

    def broadcast_to(self, shape: Shape) -> Tensor:
        return movement.broadcast_to(self, tuple(shape))

    def pad(self, widths: Sequence[tuple[int, int]], value: Number = 0) -> Tensor:
        return movement.pad(self, tuple(widths), value)

    def flip(self, *axes: Any) -> Tensor:
        return movement.flip(self, _sequence(axes))

    def squeeze(self, axis: int | None = None) -> Tensor:
        return movement.squeeze(self, axis)

    def expand_dims(self, axis: int) -> Tensor:
        return movement.expand_dims(self, axis)

    def flatten(self) -> Tensor:
        return movement.reshape(self, (-1,))

    def sum(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return reduction.total(self, axis, keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return reduction.prod(self, axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return reduction.mean(self, axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return reduction.reduce(Op.MAX, self, axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return reduction.reduce(Op.MIN, self, axis, keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return reduction.reduce(Op.OR, _truth(self), axis, keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return reduction.reduce(Op.AND, _truth(self), axis, keepdims)

    def argmin(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return reduction.arg_reduce(Op.MIN, self, axis, keepdims)

    def argmax(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return reduction.arg_reduce(Op.MAX, self, axis, keepdims)

    def first_true(self, axis: int = -1, keepdims: bool = False) -> Tensor:
        """int32 position of the first True along one axis, the axis' size where there is none."""
        return reduction.position_of_true("first", self, axis, keepdims)

    def last_true(self, axis: int = -1, keepdims: bool = False) -> Tensor:
        """int32 position of the last True along one axis, -1 where there is none."""
        return reduction.position_of_true("last", self, axis, keepdims)

    def __getitem__(self, key: Any) -> Tensor:
        return indexing.getitem(self, key)

    def __iter__(self) -> Any:
        if not self.shape or isinstance(self.shape[0], UOp):
            raise TypeError(f"{user_line()}: iteration over a {'0-d' if not self.shape else 'dynamically sized'} Tensor")
        return (self[i] for i in range(int(self.shape[0])))

    def scatter(self, index: Any, value: Any, mode: str = "set") -> Tensor:
        """This tensor with `value` written at `index`; see `indexing.scatter`."""
        return indexing.scatter(self, index, value, mode)

    def assign(self, value: Any) -> Tensor:
        """Replaces the contents of this tensor's memory, in place; returns self. See `indexing.assign`."""
        return indexing.assign(self, value)

    @staticmethod
    def spec(shape: Sequence[Any], dtype: Any = float32) -> TensorSpec:
        """Stands for a Tensor of this shape and dtype in `warmup`: there is no memory behind it."""
        return TensorSpec(tuple(shape), as_dtype(dtype))

    # last: below them, `float` and `int` in this class would be these
    def float(self) -> Tensor:
        return self.cast(float32)

    def int(self) -> Tensor:
        return self.cast(int32)


class Dim:
    """A named size, with the value it has at first: `Tensor.spec((Dim("height", 720), Dim("width", 1280), 3))`."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: int) -> None:
        self.name, self.value = name, value


class TensorSpec:
    """Shape (ints or `Dim`s) and dtype of a Tensor that need not exist yet."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape, self.dtype = shape, dtype


def _sequence(given: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else given


def _number_dtype(value: Any) -> DType:
    return as_dtype(value.dtype) if isinstance(value, np.generic) else dtypes.of_number(value)


def _truth(x: Tensor) -> Tensor:
    return x if x.dtype.is_bool else x != 0


def broadcast_shapes(*shapes: Shape) -> Shape:
    """NumPy's broadcast of several shapes. Raises ValueError, with the user's line, where they do not go together."""
    result: list[Any] = []
    for i in range(1, max(map(len, shapes), default=0) + 1):
        size: Any = 1
        for shape in shapes:
            if len(shape) < i:
                continue
            other = shape[-i]
            if size is other or (type(size) is type(other) and size == other) or (isinstance(other, int) and other == 1):
                continue
            if isinstance(size, int) and size == 1:
                size = other
                continue
            named = " and ".join(str(tuple(s if isinstance(s, int) else s.arg for s in sh)) for sh in shapes)
            raise ValueError(f"{user_line()}: shapes {named} do not broadcast: axis -{i} has two sizes")
        result.append(size)
    return tuple(reversed(result))


def broadcasts(shape: Shape, to: Shape) -> bool:
    """Whether a value of this shape can be broadcast to the other."""
    try:
        return broadcast_shapes(shape, to) == to
    except ValueError:
        return False


def elementwise(op: str, dtype: DType, *sources: UOp) -> UOp:
    """A node over sources of one shape (or of shape ())."""
    shape: Shape = ()
    for source in sources:
        if source.shape:
            shape = source.shape
            break
    return UOp.new(op, dtype, sources, None, None if sources[0].shape == shape else shape)


def lift(value: Any, beside: DType | None = None) -> Tensor:
    """A Tensor of anything that counts as one; Python numbers take the type of the tensor beside them."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (bool, int, float)) or (isinstance(value, _NUMBERS) and beside is not None):
        dtype = dtypes.of_number(cast(Number, value)) if beside is None else dtypes.promote_weak(beside, cast(Number, value))
        return Tensor.of(UOp.const(dtype, cast(Number, value)))
    if isinstance(value, (np.ndarray, np.generic, list, tuple)):
        return Tensor(value)
    raise TypeError(f"{user_line()}: {type(value).__name__} is no Tensor and no number")


def operands(a: Any, b: Any, what: str) -> tuple[Tensor, Tensor]:
    """Both as Tensors of their common dtype."""
    a = lift(a, b.dtype if isinstance(b, Tensor) else None)
    b = lift(b, a.dtype)
    if a.dtype is not b.dtype:
        dtype = dtypes.promote(a.dtype, b.dtype)
        a, b = a.cast(dtype), b.cast(dtype)
    return a, b


def unary(op: str, x: Tensor, floating: bool = False) -> Tensor:
    """op(x); `floating`: integers are cast to float32 first."""
    if floating and not x.dtype.is_float:
        x = x.cast(float32)
    return Tensor.of(UOp.new(op, x.dtype, (x.uop,)))


def binary(op: str, a: Any, b: Any, floating: bool = False, bits: bool = False) -> Tensor:
    """op(a, b) after promotion and broadcasting; `floating`: the result is a float; `bits`: floats are refused."""
    if type(a) is Tensor and type(b) is Tensor and a.uop.dtype is b.uop.dtype:
        x, y = a, b
    else:
        x, y = operands(a, b, op)
    dtype: DType = x.uop.dtype
    if floating and not dtype.is_float:
        x, y, dtype = x.cast(float32), y.cast(float32), float32
    if bits and dtype.is_float:
        raise TypeError(f"{user_line()}: bitwise {op} of {dtype}; use bitcast('uint32') first if the bits are meant")
    if dtype.is_bool and op in _NUMERIC:
        if op in (Op.MAX, Op.MIN, Op.MUL, Op.ADD):
            op = {Op.MAX: Op.OR, Op.ADD: Op.OR}.get(op, Op.AND)
        else:
            x, y, dtype = x.cast(int32), y.cast(int32), int32
    x, y = x._broadcast(y)
    return Tensor.of(elementwise(op, bool_ if op in COMPARE else dtype, x.uop, y.uop))


_NUMERIC = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.IDIV, Op.MOD, Op.MAX, Op.MIN, Op.SHL, Op.SHR})


def _floor_divide(a: Any, b: Any) -> Tensor:
    x, y = operands(a, b, "//")
    return binary(Op.DIV, x, y).floor() if x.dtype.is_float else binary(Op.IDIV, x, y)


def _power(a: Any, b: Any) -> Tensor:
    if isinstance(b, (int, float)) and isinstance(a, Tensor) and b == 2:
        return a * a
    x, y = operands(a, b, "**")
    if x.dtype.is_float:
        return binary(Op.POW, x, y)
    if isinstance(b, int) and b >= 0:  # integer power: square and multiply, exact modulo the type's range
        result, base, left = Tensor.of(UOp.const(x.dtype, 1)).broadcast_to(x.shape), x, b
        while left:
            result = result * base if left & 1 else result
            base, left = base * base, left >> 1
        return result
    raise TypeError(f"{user_line()}: {x.dtype} ** {'a negative number' if isinstance(b, int) else 'a Tensor'}; cast to a float first")


from engine.frontend import indexing, movement, reduction  # noqa: E402  (these build on the class above)
