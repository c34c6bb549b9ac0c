"""The image graphs of `engine.bench` compute what NumPy computes, in as few kernels as they should take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine import Tensor, bench, jit, open_device
from engine.runtime.device import Device

Array = np.ndarray[Any, Any]
DEVICES: dict[str, Callable[[], Device]] = {
    "reference": lambda: open_device("reference"),
    "cpu": lambda: open_device("cpu"),
    "cpu in groups of 8": lambda: open_device("cpu", group=8),
    "cpu in groups of 4": lambda: open_device("cpu", group=4),
}
# Rows that groups fill exactly, rows that end within a group, pictures smaller than a group and than the filter.
SIZES = ((64, 32), (67, 21), (16, 16), (5, 3), (1, 1))


@pytest.fixture(scope="module", params=list(DEVICES))
def device(request: pytest.FixtureRequest) -> Any:
    opened = DEVICES[request.param]()
    yield opened
    opened.close()


def aces(x: Array) -> Array:
    return np.clip((x * (2.51 * x + 0.03)) / (x * (2.43 * x + 0.59) + 0.14), 0.0, 1.0)


def tonemap(colour: Array, exposure: float = 1.0) -> Array:
    return np.floor(aces(colour * exposure) ** (1 / 2.2) * 255 + 0.5)


def exposure(colour: Array) -> Array:
    luminance = colour @ np.array(bench.LUMINANCE)
    return tonemap(colour, 0.18 / np.exp(np.log(luminance + 1e-4).mean()))


def atrous(colour: Array, normal: Array, step: int = 1) -> Array:
    """Tap by tap, with slices of padded copies."""
    height, width, _ = colour.shape
    pad = ((2 * step, 2 * step), (2 * step, 2 * step), (0, 0))
    colours, normals = np.pad(colour, pad), np.pad(normal, pad)
    total, weights = np.zeros_like(colour), np.zeros((height, width, 1))
    for y in range(5):
        for x in range(5):
            window = np.s_[y * step : y * step + height, x * step : x * step + width]
            alike = np.exp(-0.25 * ((colour - colours[window]) ** 2).sum(-1, keepdims=True))
            parallel = np.maximum((normal * normals[window]).sum(-1, keepdims=True), 0) ** 2
            weight = alike * parallel * bench.SPLINE[y] * bench.SPLINE[x]
            total, weights = total + colours[window] * weight, weights + weight
    return total / (weights + 1e-6)


def chain(x: Array) -> Array:
    for i in range(20):
        x = x * 1.01 + 0.001 * i
    return x


def bytes_agree(found: Array, wanted: Array) -> None:
    """8-bit values: equal, but for a few that lie at the edge between two steps."""
    assert found.dtype == np.uint8
    difference = np.abs(found - wanted)
    assert difference.max() <= 1
    assert (difference > 0).mean() <= 0.002


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_tone_mapping_is_one_kernel(device: Device, width: int, height: int) -> None:
    (colour,) = bench.inputs(width, height)["tonemap"]
    graph = jit(bench.tonemap, device=device)
    bytes_agree(graph(Tensor(colour)).numpy(), tonemap(colour.astype(np.float64)))
    bytes_agree(graph(Tensor(colour), 0.3).numpy(), tonemap(colour.astype(np.float64), 0.3))
    assert graph.stats.kernels == 1
    assert len(graph.stats.compiles) == 1  # the exposure is a parameter


@pytest.mark.parametrize(("width", "height"), [*SIZES, (131, 70)])
def test_automatic_exposure_is_at_most_two_kernels(device: Device, width: int, height: int) -> None:
    (colour,) = bench.inputs(width, height)["exposure"]
    graph = jit(bench.exposure, device=device)
    bytes_agree(graph(Tensor(colour)).numpy(), exposure(colour.astype(np.float64)))
    assert graph.stats.kernels <= 2


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("step", [1, 4])
def test_the_a_trous_filter_is_one_kernel(device: Device, width: int, height: int, step: int) -> None:
    colour, normal = bench.inputs(width, height)["atrous"]
    graph = jit(bench.atrous, static=("step",), device=device)
    found = graph(Tensor(colour), Tensor(normal), step).numpy()
    np.testing.assert_allclose(found, atrous(colour.astype(np.float64), normal.astype(np.float64), step), atol=2e-5)
    assert graph.stats.kernels == 1


def test_the_a_trous_filter_fits_any_size(device: Device) -> None:
    graph = jit(lambda c, n: bench.atrous(c, n), device=device)
    for width, height in SIZES:
        colour, normal = bench.inputs(width, height)["atrous"]
        given = [Tensor(a, dims=("height", "width")) for a in (colour, normal)]
        wanted = atrous(colour.astype(np.float64), normal.astype(np.float64))
        np.testing.assert_allclose(graph(*given).numpy(), wanted, atol=2e-5)
    assert len(graph.stats.compiles) == 1
    assert graph.stats.kernels == 1


def test_a_chain_of_cuts_is_as_many_kernels(device: Device) -> None:
    (small,) = bench.inputs(8, 8)["chain20"]
    graph = jit(bench.chain20, device=device)
    np.testing.assert_allclose(graph(Tensor(small)).numpy(), chain(small.astype(np.float64)), rtol=1e-5)
    assert graph.stats.kernels == 20


def test_the_benchmark_prints_one_record() -> None:
    command = [sys.executable, "-m", "engine.bench", "--size", "48", "32", "--frames", "3"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "CPU": "1"}, check=True)
    record = json.loads(done.stdout)
    assert record["size"] == [48, 32]
    assert {name: graph["kernels"] for name, graph in record["graphs"].items()} == {
        "tonemap": 1,
        "exposure": 2,
        "atrous": 1,
        "chain20": 20,
    }
    assert all(graph["median_ms"] > 0 and graph["first_call_s"] > 0 for graph in record["graphs"].values())
