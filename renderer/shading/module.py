"""Shading modules of the user's: loading them, holding them to their contract, telling what is wrong with one.

A module is run like any other Python file, under a name made from its path, so that kernels that were compiled for it are found again
on disk by a later process (`engine.stored` looks at its contents). Its mistakes turn up at three places: when it is read (syntax, a
failing import), when the kernel is traced (`explained` finds the line in the traceback), and in what its functions return. The last
would otherwise be noticed deep in the renderer, so `checked` looks at all that comes back. Both cost nothing when frames run: a trace
happens once.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any

from engine import Tensor
from renderer.sampling.rng import Rng
from renderer.scene.model import SceneError
from renderer.shading.bsdf import BSDF, BsdfSample, MakeBSDF, Surface, lets_through
from renderer.vec import Vec3


class ShadingError(SceneError):
    """A shading module that cannot be used. The message is one line: file, line, what is wrong."""


def load(path: Path) -> ModuleType:
    """Reads and runs a file; each call gives a new module. Raises ShadingError."""
    file = str(path.absolute())
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ShadingError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}; give the path of a Python file") from error
    name = f"shading_{path.stem}_{blake2b(file.encode(), digest_size=4).hexdigest()}"
    module = ModuleType(name)
    module.__file__ = file
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        exec(compile(text, file, "exec"), module.__dict__)
        make_bsdf_of(module)
    except BaseException as error:
        if before is not None:
            sys.modules[name] = before
        else:
            del sys.modules[name]
        if not isinstance(error, Exception) or isinstance(error, ShadingError):
            raise
        if isinstance(error, SyntaxError) and error.filename == file:
            raise ShadingError(f"{path}:{error.lineno}: {error.msg}") from error
        raise explained(error, module) or ShadingError(f"{path}: {_told(error)}") from error
    return module


def make_bsdf_of(module: ModuleType) -> MakeBSDF:
    """The module's function, which raises ShadingError where it returns what is no BSDF, or one whose methods break their contract."""
    function = getattr(module, "make_bsdf", None)
    if not callable(function):
        raise ShadingError(f"{module.__file__}: there is no function make_bsdf in it; see renderer/shading/bsdf.py for what it takes")

    def make_bsdf(surface: Surface) -> BSDF:
        _takes(function, "make_bsdf", surface)
        return Checked(function(surface), function, surface)

    return make_bsdf


def explained(error: BaseException, module: ModuleType | None) -> ShadingError | None:
    """What an exception has to do with a module: its line there; None where the module's code was not running."""
    if module is None or isinstance(error, ShadingError):
        return None
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == module.__file__]
    return ShadingError(f"{module.__file__}:{frames[-1].lineno}: {_told(error)}") if frames else None


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


class Checked:
    """A BSDF of the user's that is looked at whenever it answers."""

    def __init__(self, bsdf: Any, source: Callable[..., Any], surface: Surface) -> None:
        for name in ("f", "density", "sample"):
            if not callable(getattr(bsdf, name, None)):
                _fail(source, f"make_bsdf() returns {_kind(bsdf)}, which has no method {name}()")
        self.bsdf = bsdf
        self.through = lets_through(bsdf)
        parts = [c for v in (surface.point, surface.normal, surface.albedo) for c in v]
        self.shapes = {(), *(c.shape for c in parts if isinstance(c, Tensor))}

    def f(self, wi: Vec3) -> Vec3:
        """See `BSDF`. Raises ShadingError."""
        _takes(self.bsdf.f, "f", wi)
        result: Vec3 = self.bsdf.f(wi)
        self._colour(self.bsdf.f, "f() returns", result)
        return result

    def density(self, wi: Vec3) -> Tensor:
        """See `BSDF`. Raises ShadingError."""
        _takes(self.bsdf.density, "density", wi)
        result: Tensor = self.bsdf.density(wi)
        self._number(self.bsdf.density, "density() returns", result)
        return result

    def sample(self, rng: Rng) -> tuple[BsdfSample, Rng]:
        """See `BSDF`. Raises ShadingError."""
        method = self.bsdf.sample
        _takes(method, "sample", rng)
        result = method(rng)
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], BsdfSample) and isinstance(result[1], Rng)):
            _fail(method, f"sample() returns {_kind(result)}, not (BsdfSample, Rng)")
        drawn, after = result
        if isinstance(rng.state, Tensor):
            self.shapes.add(rng.state.shape)
        self._colour(method, "the wi of sample() is", drawn.wi)
        self._number(method, "the density of sample() is", drawn.density)
        self._colour(method, "the weight of sample() is", drawn.weight)
        return drawn, after

    def _colour(self, method: Callable[..., Any], what: str, value: Any) -> None:
        if not isinstance(value, Vec3):
            _fail(method, f"{what} {_kind(value)}, not a Vec3")
        for part in value:
            self._number(method, what.replace("returns", "returns a Vec3 with").replace(" is", " has"), part)

    def _number(self, method: Callable[..., Any], what: str, value: Any) -> None:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return
        if not isinstance(value, Tensor) or not value.dtype.is_float or value.shape not in self.shapes:
            _fail(method, f"{what} {_kind(value)}, not a float32 for each path")


def _kind(value: Any) -> str:
    return repr(value) if isinstance(value, Tensor) else f"a {type(value).__name__}" if value is not None else "None"


def _takes(function: Callable[..., Any], name: str, argument: Any) -> None:
    try:
        inspect.signature(function).bind(argument)
    except TypeError as error:
        _fail(function, f"{name}() is called with one argument, a {type(argument).__name__}: {error}")


def _fail(function: Callable[..., Any], what: str) -> None:
    """Raises ShadingError, with the place of a function."""
    inner: Any = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(inner, "__code__", None)
    place = f"{code.co_filename}:{code.co_firstlineno}: " if code is not None else ""
    raise ShadingError(f"{place}{what}; see renderer/shading/bsdf.py")
