"""What the texts of kernels look like: features told, single uses inlined, products contracted, refusals with a line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine import Tensor, jit, while_loop
from engine.compiler.emit.cstyle import Source
from engine.compiler.target import Target
from engine.frontend.printing import debug_print
from engine.graph.dtypes import int32
from engine.graph.uop import Op, UOp
from tests.engine.cstyle_runner import TextDevice, emitted, finished
from tests.engine.kernel_maker import Maker, number


def text_of(function: Any, *arguments: Any, dialect: str) -> Source:
    """The text of the one kernel of a function."""
    (kernel,) = jit(function, device=TextDevice(dialect)).plan_of(*arguments).kernels
    return emitted(kernel, dialect)


def test_texts_tell_which_features_they_need() -> None:
    plain, wide = np.ones(4, np.float32), np.ones(4)
    assert text_of(lambda x: x + 1, Tensor(plain), dialect="opengl").features == frozenset()
    assert text_of(lambda x: x + 1, Tensor(wide), dialect="opengl").features == {"float64"}
    source = text_of(lambda x: x.cast("int64"), Tensor(wide), dialect="opengl")
    assert source.features == {"float64", "int64"} and "#extension GL_ARB_gpu_shader_int64 : require" in source.text


def test_single_uses_are_written_where_they_are_used() -> None:
    def both(x: Tensor, y: Tensor) -> Tensor:
        once, twice = x - y, x * y
        return (once & 7) + twice * twice

    text = text_of(both, *[Tensor(np.ones(4, np.uint32))] * 2, dialect="opencl").text
    code = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    assert code[-2].endswith("= u1 * u2;") and code[-1] == "b2[x0] = ((u1 - u2) & 7u) + (u3 * u3);"


def test_products_are_contracted_where_that_is_allowed() -> None:
    def sheared(x: Tensor, y: Tensor) -> Tensor:
        return x * y + 1.5

    (kernel,) = jit(sheared, device=TextDevice("opengl")).plan_of(*[Tensor(np.ones(4, np.float32))] * 2).kernels
    for contract, fuses, fused in ((True, True, True), (True, False, False), (False, True, False)):
        assert ("fma(" in emitted(kernel, "opengl", Target("opengl", contract=contract, fuses=fuses)).text) == fused
    assert "FP_CONTRACT ON" in emitted(kernel, "opencl", Target("opencl", contract=True)).text
    assert "FP_CONTRACT OFF" in emitted(kernel, "opencl", Target("opencl", contract=False)).text


def test_texels_of_a_row_are_fetched_together() -> None:
    def mixed(table: Tensor, row: Tensor) -> Tensor:
        late, early = table[row, 9] * 3.0, table[row, 1] + table[row, 2]
        return late / early + table[row, 4]

    table, row = np.arange(60, dtype=np.float32).reshape(5, 12), np.array([4, 0, 2], np.int32)
    f = jit(mixed, device=TextDevice("opengl textures"))
    expected = table[row, 9] * 3 / (table[row, 1] + table[row, 2]) + table[row, 4]
    np.testing.assert_array_equal(f(Tensor(table), Tensor(row)).numpy(), expected)
    (kernel,) = f.plan_of(Tensor(table), Tensor(row)).kernels
    lines = emitted(kernel, "opengl textures").text.splitlines()
    fetches = [k for k, line in enumerate(lines) if "vec4" in line and "texelFetch(" in line]
    assert fetches == list(range(fetches[0], fetches[0] + 3)), "nothing is computed between them"
    ends = [lines[k][-5:-2] for k in fetches]
    assert ends[1:] == ["+ 1", "+ 2"] and "+" not in ends[0], "in the order of memory"


def test_texels_that_are_read_behind_a_loop_are_fetched_there() -> None:
    def walked(table: Tensor, row: Tensor) -> Tensor:
        first = table[row, 0] + table[row, 1]
        far: Tensor = while_loop(lambda x: x < 100.0, lambda x: x * 2.0 + 1.0, first)
        return far + table[row, 4]

    table, row = np.arange(40, dtype=np.float32).reshape(5, 8), np.array([4, 0, 2], np.int32)
    (kernel,) = jit(walked, device=TextDevice("opengl textures")).plan_of(Tensor(table), Tensor(row)).kernels
    lines = emitted(kernel, "opengl textures").text.splitlines()
    loop = next(k for k, line in enumerate(lines) if line.lstrip().startswith("} while"))
    first, second = (k for k, line in enumerate(lines) if "vec4" in line and "texelFetch(" in line)
    assert first < loop < second


def test_long_chains_are_written_in_a_loop() -> None:
    m = Maker((4,))
    x = m.lane()
    y = x
    items = m.block.items
    for _ in range(20000):
        y = UOp.new(Op.XOR, int32, (UOp.new(Op.ADD, int32, (y, x)), number(3)))
        items += [y.src[0], y]
    m.store(m.buffer(int32, 4), x, y)
    text = emitted(finished(m), "opencl").text
    assert 2000 < len(text.splitlines()) < 40100 and max(map(len, text.splitlines())) < 200


def test_prints_are_refused_with_the_line() -> None:
    def shown(x: Tensor) -> Tensor:
        debug_print("x is {}", x)
        return x + 1

    for dialect, name in (("opencl", "OpenCL"), ("opengl", "OpenGL")):
        plan = jit(shown, device=TextDevice(dialect)).plan_of(Tensor(np.ones(2, np.float32)))
        told = rf"test_cstyle_texts\.py:\d+: debug_print runs on cpu and reference, not on {name}; take it out"
        with pytest.raises(ValueError, match=told):
            for kernel in plan.kernels:
                emitted(kernel, dialect)


def test_float64_functions_are_refused_in_glsl() -> None:
    with pytest.raises(ValueError, match=r"^OpenGL has no sin of float64; cast to float32, or use the cpu backend"):
        text_of(lambda x: x.sin(), Tensor(np.ones(4)), dialect="opengl")
