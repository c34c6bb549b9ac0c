"""Random programs give the same values everywhere: eagerly lane by lane, on the interpreter, and compiled, at every group width.

HYPOTHESIS_EXAMPLES=2000 in the environment runs that many examples a test instead of the few of an ordinary run.
"""

from __future__ import annotations

import functools
import os

import pytest
from hypothesis import HealthCheck, given, settings

from engine import Device, jit, open_device, set_default_device
from engine.frontend.eager import eager
from engine.frontend.trace import Trace, tracing
from tests.engine.control_programs import control_programs
from tests.engine.expression_programs import expressions, smooth_expressions
from tests.engine.programs import Array, Program

EXAMPLES = int(os.environ.get("HYPOTHESIS_EXAMPLES", "25"))
# Backend, group width, and whether a jitted function computes all results in one plan, or each is computed when it is read.
DEVICES = [
    ("reference", 1, False), ("reference", 4, True), ("reference", 16, False),
    ("cpu", 4, True), ("cpu", 8, False), ("cpu", 16, True),
]  # fmt: skip

many = settings(
    max_examples=EXAMPLES,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


@functools.cache
def device(name: str, width: int) -> Device:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JIT_CACHE", "off")
        return open_device(name, group=width)


def run_on(name: str, width: int, jitted: bool, program: Program) -> list[Array]:
    """The results of a program that is recorded, compiled for a device, and run there."""
    before = set_default_device(device(name, width))
    try:
        with tracing(Trace()):
            function = jit(program.function) if jitted else program.function
            return [result.numpy() for result in function(*program.tensors())]
    finally:
        set_default_device(before)


def run_eagerly(program: Program) -> list[Array]:
    """The results of a program that is run as Python, lane by lane."""
    with eager():
        return [result.numpy() for result in program.function(*program.tensors())]


def compare(program: Program) -> None:
    wanted = run_eagerly(program)
    for name, width, jitted in DEVICES:
        found = run_on(name, width, jitted, program)
        program.check(found, wanted, f"{name} with groups of {width}{', jitted' if jitted else ''}")


@many
@given(program=expressions())
def test_expressions_have_the_same_values_everywhere(program: Program) -> None:
    compare(program)


@many
@given(program=smooth_expressions())
def test_smooth_functions_have_nearly_the_same_values_everywhere(program: Program) -> None:
    compare(program)


@many
@given(program=control_programs())
def test_control_flow_has_the_same_values_everywhere(program: Program) -> None:
    compare(program)


def test_programs_print_as_python() -> None:
    @settings(max_examples=1, database=None)
    @given(program=control_programs())
    def one(program: Program) -> None:
        shown.append(program)

    shown: list[Program] = []
    one()
    text = repr(shown[0])
    assert text.startswith("Program:\n# Input(name='x', dtype='int32'") and "\ndef program(x, y, z, p, xs, zs, s, t, r):\n" in text
