"""Random programs give the same values as OpenCL C and as GLSL as they give on the interpreter.

HYPOTHESIS_EXAMPLES=2000 in the environment runs that many examples a test instead of the few of an ordinary run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

from engine import Device, jit, open_device, set_default_device
from engine.frontend.trace import Trace, tracing
from tests.engine.control_programs import control_programs
from tests.engine.cstyle_runner import DIALECTS, TextDevice
from tests.engine.expression_programs import expressions, smooth_expressions
from tests.engine.programs import Array, Program
from tests.engine.test_random_programs import EXAMPLES, many, run_on

FEW = {"opencl": 4}  # of 25: PoCL takes a second for a kernel


@functools.cache
def device(dialect: str) -> TextDevice:
    return TextDevice(dialect)


def run_as_text(dialect: str, program: Program) -> list[Array]:
    """The results of a program that is compiled to text, and run by the platform."""
    before = set_default_device(device(dialect))
    try:
        with tracing(Trace()):
            return [result.numpy() for result in jit(program.function)(*program.tensors())]
    finally:
        set_default_device(before)


def compare(program: Program, dialect: str) -> None:
    program.check(run_as_text(dialect, program), run_on("reference", 1, True, program), dialect)


def few(dialect: str) -> settings:
    return settings(many, max_examples=max(1, EXAMPLES * FEW.get(dialect, 16) // 25))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_expressions_have_the_values_of_the_interpreter(dialect: str) -> None:
    @few(dialect)
    @given(program=expressions())
    def check(program: Program) -> None:
        compare(program, dialect)

    check()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_smooth_functions_have_nearly_the_values_of_the_interpreter(dialect: str) -> None:
    @few(dialect)
    @given(program=smooth_expressions())
    def check(program: Program) -> None:
        if dialect == "opencl" or program.inputs[0].dtype == "float32":  # GLSL has no functions of float64
            compare(program, dialect)

    check()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_control_flow_has_the_values_that_python_gives(dialect: str) -> None:
    @few(dialect)
    @given(program=control_programs())
    def check(program: Program) -> None:
        compare(program, dialect)

    check()


@functools.cache
def real_device(backend: str) -> Device:
    """The engine's own device, its memory its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JIT_CACHE", "off")
        return open_device(backend)


@pytest.mark.parametrize("backend", ["opencl", "opengl"])
@pytest.mark.parametrize("programs", [control_programs, expressions])
def test_devices_run_texts_as_they_are_meant(backend: str, programs: Callable[[], SearchStrategy[Program]]) -> None:
    @few("opencl")
    @given(program=programs())
    def check(program: Program) -> None:
        before = set_default_device(real_device(backend))
        try:
            with tracing(Trace()):
                found = [result.numpy() for result in jit(program.function)(*program.tensors())]
        finally:
            set_default_device(before)
        program.check(found, run_on("reference", 1, True, program), backend)

    check()
