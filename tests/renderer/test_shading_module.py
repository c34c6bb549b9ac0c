"""A shading module of the user's takes part like the renderer's own, is compiled anew when it is edited, and its mistakes are told."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from engine import Device
from renderer.pipeline.session import Session
from renderer.scene.gltf import load as load_scene
from renderer.scene.model import Environment, Orthographic, Scene, SceneError
from renderer.shading import bsdf, module
from renderer.shading.module import ShadingError, load
from tests.renderer.helpers.tracing import device
from tests.renderer.helpers.worlds import grey, icosphere, look_at, quad, scene_of

Write = Callable[[str], ModuleType]

HEAD = """
from engine import Tensor, where
from renderer.sampling.rng import Rng
from renderer.shading.bsdf import BsdfSample, Lambert, Surface
from renderer.vec import Vec3

"""
LAMBERT = """
def make_bsdf(surface):
    return Lambert(surface.albedo)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mine.py"


@pytest.fixture
def write(path: Path) -> Write:
    """Writes a module, and loads it."""

    def made(text: str) -> ModuleType:
        path.write_text(HEAD + textwrap.dedent(text))
        return load(path)

    return made


def opened(scene: Scene, shading: ModuleType | None, size: int = 16, **options: Any) -> Session:
    on: Device = device()
    return Session(scene, width=size, height=size, device=on, shading=shading, **{"depth": 3, **options})


def drawn(scene: Scene, shading: ModuleType | None, frames: int = 1, **options: Any) -> Any:
    session = opened(scene, shading, **options)
    for _ in range(frames):
        session.frame()
    return session.mean()


def ball(radius: float = 1.0) -> Scene:
    """A ball seen straight on in a world of radiance 1."""
    scene = scene_of((icosphere(5, radius), grey(0.5)), camera=look_at((0, 0, 5), (0, 0, 0), Orthographic(1.0, 1.0)))
    return replace(scene, environment=Environment((1.0, 1.0, 1.0)))


# ---- what a module can do ----


def test_lamberts_law_written_again_draws_the_same_picture(cornell: Path, write: Write) -> None:
    scene = load_scene(cornell)
    np.testing.assert_array_equal(drawn(scene, write(LAMBERT)), drawn(scene, None))


def test_the_example_in_the_text_works(path: Path) -> None:
    """Walls in a colour of their own, floors and ceilings as they are: the ball's sides are the former, its top the latter."""
    assert bsdf.__doc__ is not None
    example = re.search(r"((?:    .*\n|\n)+)", bsdf.__doc__[bsdf.__doc__.index("    from renderer") :])
    assert example is not None
    path.write_text(textwrap.dedent(example[0]))
    picture = drawn(ball(), load(path), 4, size=32)
    np.testing.assert_allclose(picture[16, 16], (0.8, 0.2, 0.1), atol=0.05)
    assert np.ptp(picture[1, 16]) < 0.3 * np.ptp(picture[16, 16])


def test_a_surface_tells_where_it_is_seen_from(write: Write) -> None:
    """Albedo by the cosine to the eye: on a ball of radius 1 seen by parallel rays, sqrt(1 - r^2)."""
    one = write("""
        def make_bsdf(surface):
            return Lambert(Vec3(surface.wo.z, surface.normal.z, where(surface.front, surface.point.y * 0.5 + 0.5, 0.0)))
    """)
    picture = drawn(ball(), one, 4, size=64)
    place = (np.arange(64) + 0.5) / 32 - 1
    x, y = place[None, :], -place[:, None]
    inside = x * x + y * y < 0.8
    cosine = np.sqrt(np.maximum(1 - x * x - y * y, 0))
    for k in range(2):
        assert np.abs(picture[..., k] - cosine)[inside].max() < 0.03
    assert np.abs(picture[..., 2] - (y * 0.5 + 0.5))[inside].max() < 0.03


def test_directions_are_the_same_for_lamps_and_for_scattering(write: Write) -> None:
    """A BSDF that leans along the frame's first axis (the world's x on a level floor) under a lamp to that side, by quadrature."""
    leaning = write("""
        class Leaning:
            def __init__(self, albedo):
                self.albedo, self.even = albedo, Lambert(albedo)

            def f(self, wi):
                return self.even.f(wi) * (1 + 0.9 * wi.x)

            def density(self, wi):
                return self.even.density(wi)

            def sample(self, rng):
                drawn, rng = self.even.sample(rng)
                return BsdfSample(drawn.wi, drawn.density, drawn.weight * (1 + 0.9 * drawn.wi.x)), rng

        def make_bsdf(surface):
            return Leaning(surface.albedo)
    """)
    lamp = quad([0.2, 1, -1], [2, 0, 0], [0, 0, 2])
    s = (np.arange(400) + 0.5) / 400
    x, z = 0.2 + 2 * s[:, None], -1 + 2 * s[None, :]
    squared = x * x + 1 + z * z
    want = 0.8 * 3.0 * 4 * ((1 + 0.9 * x / np.sqrt(squared)) / (math.pi * squared**2)).mean()
    floor = quad([-20, 0, -20], [0, 0, 40], [40, 0, 0])
    camera = look_at((0, 0.5, 0), (0, 0, 0), Orthographic(0.002, 0.002))
    picture = drawn(scene_of((floor, grey(0.8)), (lamp, grey(0.0, 3.0)), camera=camera), leaning, 64, size=32, depth=2)
    assert abs(picture.mean() / want - 1) < 0.005


# ---- editing ----


def test_an_edited_module_is_another_structure_and_another_picture(cornell: Path, write: Write) -> None:
    scene = load_scene(cornell)
    sessions = [opened(scene, write(LAMBERT.replace("albedo)", f"albedo * {factor})"))) for factor in (1.0, 0.5, 1.0)]
    for session in sessions:
        session.frame()
    first, second, third = (session.mean() for session in sessions)
    assert (first != second).any() and second.mean() < first.mean()
    np.testing.assert_array_equal(first, third)
    assert sessions[0].structure() != sessions[1].structure()
    assert opened(scene, None).structure() == opened(scene, None).structure() != sessions[0].structure()


PROCESS = """
import json, sys
from pathlib import Path
from renderer.pipeline.session import Session
from renderer.shading.module import load
from tests.renderer.helpers.worlds import grey, icosphere, scene_of

scene = scene_of((icosphere(1), grey(0.9)))
session = Session(scene, width=16, height=16, depth=2, backend="cpu", threads=1, shading=load(Path(sys.argv[1])))
session.frame()
print(json.dumps([session.times["trace"], session.counters.cache_misses, session.mean().tolist()]))
"""


def test_another_process_finds_the_kernels_of_a_module_until_it_is_edited(path: Path, root: Path, tmp_path: Path) -> None:
    other = tmp_path / "helper_of_mine.py"
    other.write_text("factor = 1.0\n")

    def run(text: str) -> Any:
        path.write_text(HEAD + text)
        env = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{tmp_path}", "JIT_CACHE": str(tmp_path / "cache")}
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        command = [sys.executable, "-c", PROCESS, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    text = "import helper_of_mine\n\ndef make_bsdf(surface):\n    return Lambert(surface.albedo * 1.0 * helper_of_mine.factor)\n"
    cold, warm = run(text), run(text)
    assert cold[0] > 0 and cold[1] == 1
    assert warm[0] == 0 and warm[1] == 0 and warm[2] == cold[2]
    edited = run(text.replace("1.0", "0.5"))
    assert edited[0] > 0 and np.mean(edited[2]) < 0.95 * np.mean(cold[2])
    other.write_text("factor = 0.5\n")  # a file that it imports
    below = run(text)
    assert below[0] > 0 and np.allclose(below[2], edited[2], rtol=1e-5)


# ---- mistakes ----


LOADING = {
    "def make_bsdf(surface)\n    return 1": r"mine.py:8: expected ':'",
    "import no_such_thing_at_all": r"mine.py:8: ModuleNotFoundError: No module named 'no_such_thing_at_all'",
    "x = 1\ny = x / 0": r"mine.py:9: ZeroDivisionError: division by zero",
    "def make_brdf(surface):\n    return 1": r"mine.py: there is no function make_bsdf in it; see renderer/shading/bsdf.py",
}


@pytest.mark.parametrize("text", list(LOADING))
def test_a_file_that_cannot_be_loaded_is_one_line(text: str, write: Write) -> None:
    with pytest.raises(ShadingError, match=LOADING[text]) as told:
        write("\n" + text)
    assert "\n" not in str(told.value) and isinstance(told.value, SceneError)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ShadingError, match=r"none.py: cannot be read: no such file or directory; give the path of a Python file$"):
        load(tmp_path / "none.py")


def test_a_file_that_fails_leaves_the_one_before(write: Write) -> None:
    good = write(LAMBERT)
    with pytest.raises(ShadingError):
        write("1 / 0")
    assert sys.modules[good.__name__] is good


TRACING = {
    "make_bsdf takes nothing": ("def make_bsdf():\n    pass", r"mine.py:8: make_bsdf\(\) is called with one argument, a Surface"),
    "make_bsdf fails": (
        "def make_bsdf(surface):\n    a = 1\n    return a.b", r"mine.py:10: AttributeError: 'int' object has no attribute 'b'"),
    "if on a Tensor": (
        "def make_bsdf(surface):\n    if surface.normal.y > 0:\n        pass", r"mine.py:9: TraceError: .*use where\(condition, a, b\)"),
    "no BSDF": ("def make_bsdf(surface):\n    return None", r"mine.py:8: make_bsdf\(\) returns None, which has no method f\(\)"),
    "a colour that is none": (
        "class B(Lambert):\n    def f(self, wi):\n        return 0.5\ndef make_bsdf(surface):\n    return B(surface.albedo)",
        r"mine.py:9: f\(\) returns a float, not a Vec3"),
    "a method of nothing": (
        "class B(Lambert):\n    def density(self):\n        return 0.5\ndef make_bsdf(surface):\n    return B(surface.albedo)",
        r"mine.py:9: density\(\) is called with one argument, a Vec3"),
    "a shape of its own": (
        "from engine import arange\nclass B(Lambert):\n    def density(self, wi):\n        return arange(3) * 0.5\n"
        "def make_bsdf(surface):\n    return B(surface.albedo)",
        r"mine.py:10: density\(\) returns Tensor\(float32\[3\]\), not a float32 for each path"),
    "integers": (
        "class B(Lambert):\n    def f(self, wi):\n        return self.albedo.map(lambda c: c.cast('int32'))\n"
        "def make_bsdf(surface):\n    return B(surface.albedo)",
        r"mine.py:9: f\(\) returns a Vec3 with Tensor\(int32\[.*\]\), not a float32"),
    "a sample without its stream": (
        "class B(Lambert):\n    def sample(self, rng):\n        return Lambert.sample(self, rng)[0]\n"
        "def make_bsdf(surface):\n    return B(surface.albedo)",
        r"mine.py:9: sample\(\) returns a BsdfSample, not \(BsdfSample, Rng\)"),
    "a direction that is none": (
        "class B(Lambert):\n    def sample(self, rng):\n        s, rng = Lambert.sample(self, rng)\n"
        "        return s._replace(wi=s.density), rng\n"
        "def make_bsdf(surface):\n    return B(surface.albedo)",
        r"mine.py:9: the wi of sample\(\) is Tensor\(float32\[.*\]\), not a Vec3"),
    "an error in a method": (
        "class B(Lambert):\n    def f(self, wi):\n        return self.albedo.nonsense\n"
        "def make_bsdf(surface):\n    return B(surface.albedo)",
        r"mine.py:10: AttributeError: 'Vec3' object has no attribute 'nonsense'"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(TRACING))
def test_a_mistake_in_a_module_is_one_line_with_its_place(name: str, write: Write, cornell: Path) -> None:
    text, pattern = TRACING[name]
    with pytest.raises(ShadingError, match=pattern) as told:
        opened(load_scene(cornell), write("\n" + text))
    assert "\n" not in str(told.value)


def test_mistakes_of_others_are_not_put_down_to_the_module(write: Write) -> None:
    try:
        raise ValueError("somewhere else")
    except ValueError as error:
        assert module.explained(error, write(LAMBERT)) is None
