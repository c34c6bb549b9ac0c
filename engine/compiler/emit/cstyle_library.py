"""Helper functions of C-like kernels: what no operator of the languages does as the engine means it.

Written once for all languages, in their common part, with marks for what differs: `$long` is a type, `@long(x)` a conversion,
`#float_uint(x)` the bits of a float as a uint, `precise` what a dialect writes for it (perhaps nothing). A text gets those functions
that it calls, each after the ones that it calls itself.

Integer division goes through magnitudes, unsigned, so that no language's rule for negative operands matters, and no processor sees a
divisor of 0. The remainder of floats is found by subtracting doubled divisors, each step exact. float16 is rounded in integers.
"""

from __future__ import annotations

import re

from engine.compiler.emit.dialect import Dialect

_DIVIDE = """
$I floor_divide_I($I a, $I b) {
    $U n = a < ZERO ? @U(ZERO) - @U(a) : @U(a);
    $U d = b == ZERO ? @U(ONE) : b < ZERO ? @U(ZERO) - @U(b) : @U(b);
    bool down = (a < ZERO) != (b < ZERO);
    $U q = (down ? n + (d - @U(ONE)) : n) / d;
    return b == ZERO ? ZERO : @I(down ? @U(ZERO) - q : q);
}
"""
_REMAINDER = """
$I floor_remainder_I($I a, $I b) {
    return b == ZERO ? ZERO : @I(@U(a) - @U(floor_divide_I(a, b)) * @U(b));
}
"""
_FMOD = """
$F fmod_F($F a, $F b) {
    if (isnan(a) || isnan(b) || isinf(a) || b == ZERO) return NAN_F;
    precise $F y = abs(b);
    precise $F r = abs(a);
    precise $F t = y;
    if (isinf(y)) return a;
    for (;;) {
        precise bool above = t <= r * HALF;
        if (!above) break;
        t = t + t;
    }
    for (;;) {
        precise bool fits = r >= t;
        if (fits) r = r - t;
        if (t == y) break;
        t = t * HALF;
    }
    return a < ZERO ? -r : r;
}
"""
_MOD = """
$F floor_remainder_F($F a, $F b) {
    precise $F r = fmod_F(a, b);
    precise bool wraps = r != ZERO && (r < ZERO) != (b < ZERO);
    precise $F m = wraps ? r + b : r;
    return m;
}
"""
_FLOOR_DIVIDE_FLOAT = """
$F floor_divide_F($F a, $F b) {
    if (b == ZERO) return a / b;
    precise $F d = (a - floor_remainder_F(a, b)) / b;
    precise $F q = floor(d);
    precise bool above = d - q > HALF;
    return above ? q + ONE : q;
}
"""
_HALF = {
    "half_value": """
float half_value(uint h) {
    uint m = h & 0x7fffu;
    float small = @float(m) * 5.9604644775390625e-08f;
    uint bits = m >= 0x7c00u ? 0x7f800000u | ((m & 0x3ffu) << 13) : (m << 13) + 0x38000000u;
    float v = m < 0x400u ? small : #uint_float(bits);
    return (h & 0x8000u) != 0u ? -v : v;
}
""",
    "half_bits": """
uint half_bits(float x) {
    uint b = #float_uint(x);
    uint s = (b >> 16) & 0x8000u;
    uint a = b & 0x7fffffffu;
    if (a > 0x7f800000u) return s | 0x7e00u;
    if (a >= 0x47800000u) return s | 0x7c00u;
    if (a < 0x38800000u) {
        precise float steps = #uint_float(a) * 16777216.0f;
        return s | @uint(ROUND(steps));
    }
    a += 0xfffu + ((a >> 13) & 1u);
    return s | ((a - 0x38000000u) >> 13);
}
""",
    "round_half": """
float round_half(float x) {
    return half_value(half_bits(x));
}
""",
    "odd_float": """
float odd_float(double d) {
    float f = @float(d);
    uint b = #float_uint(f);
    double back = @double(f);
    if (back == d || (b & 1u) != 0u || (b & 0x7f800000u) == 0x7f800000u || d != d) return f;
    bool outward = (d > back) == (f > 0.0f);
    return #uint_float(f == 0.0f ? b | 1u : outward ? b + 1u : b - 1u);
}
""",
    "fma_half": """
float fma_half(float a, float b, float c) {
    precise float p = a * b;
    precise float s = p + c;
    precise float t = s - p;
    precise float e = (p - (s - t)) + (c - t);
    uint bits = #float_uint(s);
    if (e == 0.0f || e != e || (bits & 1u) != 0u) return s;
    return #uint_float((e > 0.0f) == (s > 0.0f) ? bits + 1u : bits - 1u);
}
""",
}


def _instances(template: str, **words: str) -> str:
    for word, text in words.items():
        template = re.sub(rf"(?<![A-Za-z])({word})(?![A-Za-z])", text, template)
    return template


def _common() -> dict[str, str]:
    """The functions of all languages."""
    found = dict(_HALF)
    for kind, unsigned, zero, one in (("int", "uint", "0", "1"), ("long", "ulong", "@long(0)", "@long(1)")):
        for name, template in (("floor_divide", _DIVIDE), ("floor_remainder", _REMAINDER)):
            found[f"{name}_{kind}"] = _instances(template, I=kind, U=unsigned, ZERO=zero, ONE=one)
    for kind, nan in (("float", "#uint_float(0x7fc00000u)"), ("double", "@double(#uint_float(0x7fc00000u))")):
        words = {"NAN_F": nan, "F": kind, "ZERO": f"@{kind}(0)", "HALF": f"@{kind}(0.5f)", "ONE": f"@{kind}(1)"}
        for name, template in (("fmod", _FMOD), ("floor_remainder", _MOD), ("floor_divide", _FLOOR_DIVIDE_FLOAT)):
            found[f"{name}_{kind}"] = _instances(template, **words)
    return found


COMMON = _common()


def functions(dialect: Dialect, wanted: list[str]) -> list[str]:
    """The texts of these helper functions and of those that they call, in an order in which they can be defined."""
    library = {**COMMON, **dialect.library}
    done: dict[str, str] = {}
    stack = list(reversed(wanted))
    while stack:
        name = stack[-1]
        called = [w for w in re.findall(r"\w+", library[name]) if w in library and w != name and w not in done]
        if name in done or not called:
            stack.pop()
            done.setdefault(name, _translated(dialect, library[name]).strip())
        else:
            stack.extend(called)
    return list(done.values())


def _translated(dialect: Dialect, template: str) -> str:
    opening = {kind: dialect.converted(kind, "\0").split("\0")[0] for kind in dialect.types}
    text = re.sub(r"@(\w+)\(", lambda m: opening[m.group(1)], template)
    text = re.sub(r"#([a-z]+)_([a-z]+)", lambda m: dialect.reinterpret[f"{m.group(1)} {m.group(2)}"], text)
    text = re.sub(r"\$(\w+)", lambda m: dialect.types[m.group(1)], text)
    return text.replace("precise ", dialect.precise).replace("ROUND", dialect.functions["round"])
