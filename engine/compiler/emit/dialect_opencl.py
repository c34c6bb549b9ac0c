"""OpenCL C 1.2, for any OpenCL device: pointers to typed memory, sizes and offsets by value.

`half` is a format of memory only: what a device without `cl_khr_fp16` can do, and enough, as float16 is computed in float and
rounded after each operation. Global work offset and size tell which lane an invocation is, so a long launch can be cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.compiler.emit.dialect import Dialect

if TYPE_CHECKING:
    from engine.compiler.emit.cstyle_source import Frame

_KINDS = ("int", "uint", "long", "ulong", "float", "double")


@dataclass(frozen=True)
class OpenCL(Dialect):
    """The language of OpenCL's kernels."""

    def frame(self, frame: Frame) -> str:
        arguments = []
        for name, dtype, _, written in frame.own:
            const = "" if written else "const "
            arguments.append(f"__global {const}{self.memory[dtype.name]} *restrict {name}")
        if frame.packed:
            arguments.append("__global const uint *restrict pool")
        if frame.parameters:
            arguments.append("__global const uint *restrict parameters")
        arguments += [f"const int {name}" for name in frame.words]
        lines = list(frame.comments)
        if "float64" in frame.features:
            lines.append("#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
        lines.append(f"#pragma OPENCL FP_CONTRACT {'ON' if frame.contract else 'OFF'}")
        lines += [f"#define {name} {text}  // {comment}" for name, _, text, comment in frame.constants]
        for function in frame.functions:
            lines += ["", function]
        lines += ["", *frame.tables] if frame.tables else []
        lines += ["", f"__attribute__((reqd_work_group_size({frame.workgroup}, 1, 1)))"]
        lines += [f"__kernel void {frame.name}(", *(f"    {a}," for a in arguments[:-1]), f"    {arguments[-1]}", ") {"]
        if frame.lane:
            lines.append("    const uint lane = (uint)get_global_id(0);")
        return "\n".join([*lines, *frame.code, "}", ""])


OPENCL = OpenCL(
    name="OpenCL",
    types={**{kind: kind for kind in _KINDS}, "bool": "bool"},
    memory={
        "bool": "uchar", "int8": "char", "int16": "short", "int32": "int", "int64": "long", "uint8": "uchar", "uint16": "ushort",
        "uint32": "uint", "uint64": "ulong", "float16": "ushort", "float32": "float", "float64": "double",
    },
    convert="({type})({text})",
    reinterpret={f"{a} {b}": f"as_{b}" for a in _KINDS for b in _KINDS if a != b},
    join={kind: f"as_{kind}((uint2)({{}}, {{}}))" for kind in ("long", "ulong", "double")},
    suffix={"int": "", "uint": "u", "long": "L", "ulong": "UL", "float": "f", "double": ""},
    functions={
        "abs": "fabs", "round": "rint",
        **{f"{into} {kind}": f"convert_{into}_sat" for into in ("int", "uint", "long", "ulong") for kind in ("float", "double")},
    },
    library={
        "half_value": """
float half_value(uint h) {
    ushort bits = (ushort)h;
    return vload_half(0, (const half *)&bits);
}
""",
        "half_bits": """
uint half_bits(float x) {
    ushort bits;
    vstore_half_rte(x, 0, (half *)&bits);
    return bits;
}
""",
        "fmod_float": """
float fmod_float(float a, float b) {
    return fmod(a, b);
}
""",
        "fmod_double": """
double fmod_double(double a, double b) {
    return fmod(a, b);
}
""",
    },
    precise="",
    keeps_zero=True,
    wraps=False,
    bitwise_bools=True,
    contracts=True,
    hex_floats=True,
    table="__constant {type} {name}[{length}] = {{{values}}};",
    parameter="parameters[{}]",
    byte_zero="0",
)  # fmt: skip
