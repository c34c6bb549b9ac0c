"""The engine's own benchmark: four image graphs of a frame, timed.

    python -m engine.bench [--size WIDTH HEIGHT] [--frames N]

    tonemap    exposure, ACES fit, gamma, 8 bits a channel                            elementwise
    exposure   the mean log luminance of the picture, then tonemap with it            reduction, then elementwise
    atrous     one 5x5 edge-stopping a-trous pass on colour, guided by normals        stencil
    chain20    twenty small kernels, each of which waits for the one before           launch overhead

One JSON object on standard output: size, and for each graph the median milliseconds of a call, its kernels, and the seconds
of the first call (trace, compile, run). The backend is the one that the environment names (`CPU=1`, `REFERENCE=1`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import numpy as np

from engine import Jitted, Tensor, jit

# The B3 spline that an a-trous filter samples, along one axis.
SPLINE = (1 / 16, 1 / 4, 3 / 8, 1 / 4, 1 / 16)
# Rec. 709 luminance of linear RGB.
LUMINANCE = (0.2126, 0.7152, 0.0722)
# Sharpness of the colour edge stop, the luminance of middle grey, and what keeps divisions and logarithms finite.
COLOUR_EDGE, MIDDLE_GREY, TINY_WEIGHT, TINY_LUMINANCE = 0.25, 0.18, 1e-6, 1e-4
WARMUP = 3  # calls before the timed ones


def aces(x: Tensor) -> Tensor:
    """Narkowicz's fit of the ACES film curve, linear light in, 0 to 1 out."""
    return ((x * (2.51 * x + 0.03)) / (x * (2.43 * x + 0.59) + 0.14)).clip(0.0, 1.0)


def tonemap(colour: Tensor, exposure: Any = 1.0) -> Tensor:
    """Linear colour (height, width, 3) to 8 bits a channel."""
    return (aces(colour * exposure).pow(1 / 2.2) * 255.0 + 0.5).cast("uint8")


def exposure(colour: Tensor) -> Tensor:
    """`tonemap` with the exposure that brings the log-average luminance to middle grey."""
    red, green, blue = LUMINANCE
    luminance = colour[..., 0] * red + colour[..., 1] * green + colour[..., 2] * blue
    average = (luminance + TINY_LUMINANCE).log().mean().exp()
    return tonemap(colour, MIDDLE_GREY / average)


def atrous(colour: Tensor, normal: Tensor, step: int = 1) -> Tensor:
    """One edge-stopping a-trous pass: each pixel the mean of 25 at distances of `step`, the less alike the less they count.

    After Dammertz et al., "Edge-Avoiding A-Trous Wavelet Transform for fast Global Illumination Filtering" (HPG 2010). Beyond
    the picture's edge colours and normals are 0, and so are the weights.
    """
    reach = len(SPLINE) // 2 * step
    border = ((reach, reach), (reach, reach), (0, 0))
    colours, normals = colour.pad(border), normal.pad(border)
    total: Any = 0.0
    weights: Any = 0.0
    for row, vertical in enumerate(SPLINE):
        for column, horizontal in enumerate(SPLINE):
            window = tuple(slice(n * step, n * step - 2 * reach or None) for n in (row, column))
            there, facing = colours[window], normals[window]
            alike = ((colour - there).square().sum(-1, keepdims=True) * -COLOUR_EDGE).exp()
            parallel = (normal * facing).sum(-1, keepdims=True).maximum(0.0).square()
            weight = alike * parallel * (vertical * horizontal)
            total, weights = total + there * weight, weights + weight
    result: Tensor = total / (weights + TINY_WEIGHT)
    return result


def chain20(x: Tensor) -> Tensor:
    """Twenty kernels in a row, each cut off from the next by `contiguous`."""
    for i in range(20):
        x = (x * 1.01 + 0.001 * i).contiguous()
    return x


def inputs(width: int, height: int, seed: int = 0) -> dict[str, tuple[np.ndarray[Any, Any], ...]]:
    """The arguments of each graph: colours (height, width, 3), unit normals likewise, a 64 x 64 picture."""
    random = np.random.default_rng(seed)
    colour = random.gamma(1.0, 1.0, (height, width, 3)).astype(np.float32)
    normal = random.normal(size=(height, width, 3)).astype(np.float32)
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
    small = random.random((64, 64), dtype=np.float32)
    return {"tonemap": (colour,), "exposure": (colour,), "atrous": (colour, normal), "chain20": (small,)}


GRAPHS: dict[str, Jitted] = {
    "tonemap": jit(tonemap),
    "exposure": jit(exposure),
    "atrous": jit(atrous, static=("step",)),
    "chain20": jit(chain20),
}


def measure(graph: Jitted, arrays: tuple[np.ndarray[Any, Any], ...], frames: int) -> dict[str, float | int]:
    """Compiles one graph and times `frames` calls of it."""
    tensors = [Tensor(a) for a in arrays]
    started = time.perf_counter()
    graph(*tensors)
    first = time.perf_counter() - started
    for _ in range(WARMUP):
        graph(*tensors)
    seconds = []
    for _ in range(frames):
        started = time.perf_counter()
        graph(*tensors)
        seconds.append(time.perf_counter() - started)
    return {"median_ms": statistics.median(seconds) * 1e3, "kernels": graph.stats.kernels, "first_call_s": first}


def main() -> None:
    """Measures all graphs and prints the record."""
    parser = argparse.ArgumentParser(prog="python -m engine.bench", description="Times the engine on four image graphs.")
    parser.add_argument("--size", type=int, nargs=2, default=(1280, 720), metavar=("WIDTH", "HEIGHT"))
    parser.add_argument("--frames", type=int, default=50, help="timed calls of each graph")
    arguments = parser.parse_args()
    width, height = arguments.size
    if min(width, height, arguments.frames) < 1:
        parser.error("--size and --frames take positive numbers")
    given = inputs(width, height)
    graphs = {name: measure(graph, given[name], arguments.frames) for name, graph in GRAPHS.items()}
    print(json.dumps({"size": [width, height], "graphs": graphs}))


if __name__ == "__main__":
    main()
