"""APPEND in LLVM IR: the values that a mask keeps, side by side, at the top of a lane's private array.

Where the processor can pack a vector in one instruction (32 bits an element, 4, 8 or 16 of them; narrower elements are widened for
it), the kept values are packed, turned round if their order is to be the opposite, and stored whole: what is stored beyond the new
top is junk that the next append overwrites. Else each value is stored at the top in its turn, and the top moves on if it is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.compiler.emit.llvm_ops import memory_type, scalar_type, vector
from engine.graph.dtypes import DType, int32
from engine.graph.uop import Op, UOp

if TYPE_CHECKING:
    from engine.compiler.emit.llvm import Emitter

_PACKED = (4, 8, 16)  # numbers of 32-bit elements that are packed in one instruction


def append(e: Emitter, node: UOp, dtype: DType, storage: str) -> None:
    """Writes an APPEND inside `serial` to the array at `storage`, and names its new top."""
    top, keep, values, reverse = node.src[1:]
    count: int = values.dtype.count
    if dtype.bits > 32 or count not in _PACKED:
        new_top = _one_by_one(e, dtype, storage, node)
    else:
        turned = reverse.op != Op.CONST or bool(reverse.arg)
        number = _count(e, keep, count)
        packed = _packed(e, _widened(e, dtype, count, e.raw(values)), count, e.raw(keep))
        if turned:
            packed = _turned(e, packed, count, number, e.raw(reverse))
        kind = memory_type(dtype)
        at = e.emit(f"getelementptr {kind}, ptr {storage}, i32 {e.raw(top)}")
        e.line(f"store {vector(kind, count)} {_narrowed(e, dtype, count, packed)}, ptr {at}, align {dtype.itemsize}")
        new_top = e.emit(f"add i32 {e.raw(top)}, {number}")
    e.names[UOp.new(Op.PROJ, int32, (node,), 1)] = new_top


def _count(e: Emitter, keep: UOp, count: int) -> str:
    bits = e.emit(f"bitcast <{count} x i1> {e.raw(keep)} to i{count}")
    number = e.ops.call(f"llvm.ctpop.i{count}", f"i{count}", (f"i{count}", bits))
    return e.emit(f"zext i{count} {number} to i32")


def _widened(e: Emitter, dtype: DType, count: int, value: str) -> str:
    """A vector of elements of up to 32 bits as one of i32."""
    rows = vector("i32", count)
    if dtype.is_float:
        value = e.emit(f"bitcast {vector(scalar_type(dtype), count)} {value} to {vector(f'i{dtype.bits}', count)}")
    return value if dtype.bits == 32 else e.emit(f"zext {vector(f'i{dtype.bits}', count)} {value} to {rows}")


def _narrowed(e: Emitter, dtype: DType, count: int, value: str) -> str:
    """A vector of i32 as elements in memory (floats as their bits there: a store does not mind)."""
    kind = vector(memory_type(dtype), count)
    if dtype.is_bool or dtype.bits < 32:
        bits = 8 if dtype.is_bool else dtype.bits
        value = e.emit(f"trunc {vector('i32', count)} {value} to {vector(f'i{bits}', count)}")
    return e.emit(f"bitcast {vector(f'i{dtype.bits}', count)} {value} to {kind}") if dtype.is_float else value


def _packed(e: Emitter, value: str, count: int, keep: str) -> str:
    rows = vector("i32", count)
    arguments = ((rows, value), (vector("i1", count), keep), (rows, "poison"))
    return e.ops.call(f"llvm.experimental.vector.compress.v{count}i32", rows, *arguments)


def _turned(e: Emitter, packed: str, count: int, number: str, reverse: str) -> str:
    """The first n elements of a vector, the last first where `reverse` holds: element i is n - 1 - i = n + ~i, or i."""
    rows = vector("i32", count)
    n = e.emit(f"select i1 {reverse}, i32 {number}, i32 0")
    flips = e.emit(f"sext i1 {reverse} to i32")
    places = e.emit(f"xor {rows} {e.splat(flips, 'i32', count)}, <{', '.join(f'i32 {k}' for k in range(count))}>")
    places = e.emit(f"add {rows} {places}, {e.splat(n, 'i32', count)}")
    places = e.emit(f"and {rows} {places}, {e.ops.const(int32, count, count - 1)}")
    if (count == 16 and e.width == 16) or (count == 8 and e.width >= 8):  # hosts with AVX-512, with AVX2
        name = "llvm.x86.avx512.permvar.si.512" if count == 16 else "llvm.x86.avx2.permd"
        return e.ops.call(name, rows, (rows, packed), (rows, places))
    slot = e.alloca(rows, 64)
    e.line(f"store {rows} {packed}, ptr {slot}, align 4")
    result = "poison"
    for k in range(count):
        place = e.emit(f"extractelement {rows} {places}, i64 {k}")
        at = e.emit(f"getelementptr i32, ptr {slot}, i32 {place}")
        element = e.emit(f"load i32, ptr {at}, align 4")
        result = e.emit(f"insertelement {rows} {result}, i32 {element}, i64 {k}")
    return result


def _one_by_one(e: Emitter, dtype: DType, storage: str, node: UOp) -> str:
    top, keep, values, reverse = node.src[1:]
    count: int = values.dtype.count
    register, kind = scalar_type(dtype), memory_type(dtype)
    at = e.raw(top)
    for k in range(count):
        place = e.emit(f"select i1 {e.raw(reverse)}, i64 {count - 1 - k}, i64 {k}")
        value = e.emit(f"extractelement {vector(register, count)} {e.raw(values)}, i64 {place}")
        kept = e.emit(f"extractelement {vector('i1', count)} {e.raw(keep)}, i64 {place}")
        address = e.emit(f"getelementptr {kind}, ptr {storage}, i32 {at}")
        value = e.emit(f"zext i1 {value} to i8") if dtype.is_bool else value
        e.line(f"store {kind} {value}, ptr {address}, align {dtype.itemsize}")
        at = e.emit(f"add i32 {at}, {e.emit(f'zext i1 {kept} to i32')}")
    return at
