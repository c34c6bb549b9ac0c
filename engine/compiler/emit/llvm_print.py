"""debug_print in LLVM IR: a call back into Python, one for each group that comes by.

Each value is written into a record of `RECORD` bytes, the group's lanes side by side as they would lie in memory, and the device's
printer is called with the print's number, the lanes that print as bits, and the records. Formats and types are not in the machine
code: whoever loads it has the kernel, and so `prints_of(kernel)`. They are in the module's text as comments, since the text is what
kernels are known by: two that differ in a format alone are two kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.compiler.emit.llvm_ops import memory_type, vector
from engine.compiler.kernel import Kernel
from engine.graph.dtypes import bool_
from engine.graph.uop import Op, UOp

if TYPE_CHECKING:
    from engine.compiler.emit.llvm import Emitter

PRINT = "rayfuse_print"  # void (i32 number, i64 lanes, ptr records)
RECORD = 512  # bytes for a value: 64 lanes of 8


def prints_of(kernel: Kernel) -> list[UOp]:
    """The PRINT nodes of a kernel; a print's number is its place here."""
    return [item for block in kernel.blocks() for item in block.items if isinstance(item, UOp) and item.op == Op.PRINT]


def comments(kernel: Kernel) -> list[str]:
    """The format and the types of each print, as comments."""
    return [f"; print {k}: {node.arg[0]!a} {[v.dtype for v in node.src[1:]]}" for k, node in enumerate(prints_of(kernel))]


def debug_print(e: Emitter, node: UOp) -> None:
    """A PRINT, for the lanes that are live and that its mask names."""
    condition, *values = node.src
    count = 1 if e.serial_lane is not None else e.width
    mask = e.operand(condition, count)
    if e.serial_lane is None:
        mask = e.narrow(mask)
    bits = mask if count == 1 else e.emit(f"bitcast {vector('i1', count)} {mask} to i{count}")
    lanes = e.emit(f"zext i{count} {bits} to i64")
    records = e.alloca(f"[{max(1, len(values)) * RECORD} x i8]", 64)
    for k, value in enumerate(values):
        kind = vector(memory_type(value.dtype), count)
        data = e.operand(value, count)
        if value.dtype is bool_:
            data = e.emit(f"zext {vector('i1', count)} {data} to {kind}")
        at = e.emit(f"getelementptr i8, ptr {records}, i64 {k * RECORD}")
        e.line(f"store {kind} {data}, ptr {at}, align 8")
    e.declare(f"declare void @{PRINT}(i32, i64, ptr)")
    e.line(f"call void @{PRINT}(i32 {e.prints.index(node)}, i64 {lanes}, ptr {records})")
