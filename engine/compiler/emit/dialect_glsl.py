"""GLSL 4.30, for compute shaders of OpenGL: shader storage blocks, sizes and offsets in a uniform block.

Buffers that are only read may be buffer textures instead, which drivers for a processor read several times faster: they fetch the texels
of all lanes at once, but go through a storage block lane by lane.

A conversion to 64 bits puts words together, since Mesa 22.3 gets comparisons of `int64_t(x)` with constants wrong.

Elements of 8 and 16 bits lie in words, which is all that a storage block has; 64-bit integers need `GL_ARB_gpu_shader_int64`, doubles
are part of the language but without transcendental functions. Every float and every comparison is declared `precise`: without it
compilers take x - x for 0, and regroup sums. That also forbids to contract a * b + c, so where that is allowed and does something,
`fma` says so. Some drivers (all of Mesa's) take x * 0 for 0 and 0 / x for 0 nevertheless, wherever they find out that something is 0;
`zero` is a 0 that they do not see.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.compiler.emit.dialect import Dialect
from engine.graph.uop import TRANSCENDENTAL

if TYPE_CHECKING:
    from engine.compiler.emit.cstyle_source import Frame

PARAMETER_BYTES = 16384  # of a uniform block, as every device has


@dataclass(frozen=True)
class Glsl(Dialect):
    """The language of OpenGL's compute shaders."""

    def frame(self, frame: Frame) -> str:
        lines = ["#version 430", *frame.comments]
        if "int64" in frame.features:
            lines.append("#extension GL_ARB_gpu_shader_int64 : require")
        lines.append(f"layout(local_size_x = {frame.workgroup}) in;")
        lines.append("layout(location = 0) uniform uint first_group;")
        if frame.words:
            lines.append(f"layout(std140, binding = 0) uniform Launch {{ ivec4 words[{-(-len(frame.words) // 4)}]; }};")
        if frame.parameters:
            lines.append(f"layout(std140, binding = 1) uniform Parameters {{ uvec4 parameter_words[{PARAMETER_BYTES // 16}]; }};")
            lines += ["", "uint parameter(int word) {", "    return parameter_words[word >> 2][word & 3];", "}", ""]
        for binding, (name, dtype, read, written) in enumerate(frame.own):
            kind = self.memory.get(dtype.name, "uint")
            way = "readonly " if not written else "writeonly " if not read and dtype.name in self.memory else ""
            lines.append(f"layout(std430, binding = {binding}) restrict {way}buffer Buffer_{name} {{ {kind} {name}[]; }};")
        for unit, (name, dtype, _) in enumerate(frame.textures):
            lines.append(f"layout(binding = {unit}) uniform {self.texels[dtype.name][0]} {name};")
        if frame.packed:
            lines.append(f"layout(std430, binding = {len(frame.own)}) restrict readonly buffer Pool {{ uint pool[]; }};")
        lines += [f"const {self.types[kind]} {name} = {text};  // {comment}" for name, kind, text, comment in frame.constants]
        for function in frame.functions:
            lines += ["", function]
        lines += ["", *frame.tables] if frame.tables else []
        lines += ["", "void main() {"]
        lines += [f"    int {name} = words[{k // 4}].{'xyzw'[k % 4]};" for k, name in enumerate(frame.words)]
        if frame.zero:
            lines.append("    float zero = uintBitsToFloat(first_group >> 31);")
        if frame.lane:
            lines.append(f"    uint lane = (first_group + gl_WorkGroupID.x) * {frame.workgroup}u + gl_LocalInvocationIndex;")
        return "\n".join([*lines, *frame.code, "}", ""])


def _saturating(into: str, kind: str, least: str, above: str, below: str, greatest: str) -> str:
    """Float to integer: the greatest from `above` on, the least below `below`, NaN as 0."""
    return f"""
${into} {into}_of_{kind}(${kind} x) {{
    precise bool over = x >= {above};
    precise bool under = x < {below};
    precise bool inside = x >= {below};
    return over ? {greatest} : inside ? @{into}(x) : under ? {least} : @{into}(0);
}}
"""


# a * b + c of doubles, rounded once, where `fma` is two operations: the product as a sum of two doubles (Dekker, 1971), the sum of three
# rounded to odd before it is rounded (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", IEEE TC 2008). Numbers so
# large or so small that the parts of the product do not fit are rounded twice.
_FMA = """
double fma_double(double a, double b, double c) {
    precise double p = a * b;
    precise double plain = p + c;
    precise bool fits = abs(a) < 1e150lf && abs(b) < 1e150lf && abs(c) < 1e300lf;
    if (!fits) return plain;
    precise double ga = a * 134217729.0lf;
    precise double ha = ga - (ga - a);
    precise double la = a - ha;
    precise double gb = b * 134217729.0lf;
    precise double hb = gb - (gb - b);
    precise double lb = b - hb;
    precise double e = ((ha * hb - p) + ha * lb + la * hb) + la * lb;
    precise double t = c + e;
    precise double tz = t - c;
    precise double te = (c - (t - tz)) + (e - tz);
    precise double s = p + t;
    precise double sz = s - p;
    precise double se = (p - (s - sz)) + (t - sz);
    precise double v = se + te;
    precise double vz = v - se;
    precise double ve = (se - (v - vz)) + (te - vz);
    uvec2 bits = unpackDouble2x32(v);
    precise bool outward = (ve > 0.0lf) == (v > 0.0lf);
    precise bool inexact = ve != 0.0lf && (bits.x & 1u) == 0u;
    if (inexact) {
        bits.y -= !outward && bits.x == 0u ? 1u : 0u;
        bits.x = outward ? bits.x + 1u : bits.x - 1u;
    }
    precise double whole = s + packDouble2x32(bits);
    return whole;
}
"""

_LIMITS = {
    "int": ("(-2147483647 - 1)", "2147483648.0", "-2147483648.0", "2147483647"),
    "uint": ("0u", "4294967296.0", "0.0", "4294967295u"),
    "long": ("(-9223372036854775807l - 1l)", "9223372036854775808.0", "-9223372036854775808.0", "9223372036854775807l"),
    "ulong": ("0ul", "18446744073709551616.0", "0.0", "18446744073709551615ul"),
}

GLSL = Glsl(
    name="OpenGL",
    types={
        "bool": "bool", "int": "int", "uint": "uint", "long": "int64_t", "ulong": "uint64_t", "float": "float", "double": "double"
    },
    memory={
        "int32": "int", "uint32": "uint", "float32": "float", "int64": "int64_t", "uint64": "uint64_t", "float64": "double"
    },
    convert="{type}({text})",
    reinterpret={
        "float int": "floatBitsToInt", "float uint": "floatBitsToUint", "int float": "intBitsToFloat", "uint float": "uintBitsToFloat",
        "double long": "doubleBitsToInt64", "double ulong": "doubleBitsToUint64", "long double": "int64BitsToDouble",
        "ulong double": "uint64BitsToDouble",
    },
    join={
        "long": "int64_t(packUint2x32(uvec2({}, {})))", "ulong": "packUint2x32(uvec2({}, {}))", "double": "packDouble2x32(uvec2({}, {}))"
    },
    suffix={"int": "", "uint": "u", "long": "l", "ulong": "ul", "float": "", "double": "lf"},
    functions={"abs": "abs", "round": "roundEven"},
    library={"fma_double": _FMA} | {
        f"{into}_of_{kind}": _saturating(into, kind, *(t + ("lf" if kind == "double" and "." in t else "") for t in limits))
        for into, limits in _LIMITS.items()
        for kind in ("float", "double")
    },
    precise="precise ",
    keeps_zero=False,
    wraps=True,
    bitwise_bools=False,
    contracts=False,
    hex_floats=False,
    table="const {type} {name}[{length}] = {type}[{length}]({values});",
    parameter="parameter({})",
    byte_zero="0u",
    vectors={"float": "vec", "int": "ivec", "uint": "uvec"},
    texels={
        "bool": ("usamplerBuffer", "8UI"), "int8": ("isamplerBuffer", "8I"), "int16": ("isamplerBuffer", "16I"),
        "int32": ("isamplerBuffer", "32I"), "uint8": ("usamplerBuffer", "8UI"), "uint16": ("usamplerBuffer", "16UI"),
        "uint32": ("usamplerBuffer", "32UI"), "float16": ("usamplerBuffer", "16UI"), "float32": ("samplerBuffer", "32F"),
    },
    widen={
        "int long": "packInt2x32(ivec2({0}, {0} >> 31))", "uint long": "int64_t(packUint2x32(uvec2({0}, 0u)))",
        "uint ulong": "packUint2x32(uvec2({0}, 0u))",
    },
    missing={"double": TRANSCENDENTAL},
)  # fmt: skip
