"""The hand-written shaders of shaders_ref/, from files to a program of OpenGL that runs.

GLSL has no way to take in another file, so `#include "NAME"` on a line of its own is resolved here: the file's text stands in its place,
once in a program. What shapes the code is defined at the head. A driver's complaint names a line of the whole; it is told as one of its
file. (GLSL's `#line` would have drivers do that, but Mesa forgets the file.)
"""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from engine import DeviceError
from engine.runtime.devices import opengl_functions as gl
from engine.runtime.devices.opengl_functions import Functions
from renderer.app.opening import UsageError

SHADERS = Path(__file__).resolve().parents[2] / "shaders_ref"
MAIN = "frame.comp"

_FIRST_GROUP = 0  # location of the uniform
_WHOLE_S = 0.07  # a frame that takes no longer is one dispatch
_SLICE_S = 0.05  # what a dispatch of a longer one should take
_FIRST, _GROWTH = 16, 8.0  # measuring: workgroups of the first dispatch, how many times larger the next may be

_INCLUDE = re.compile(r'^#include "([^"]+)"$')


class Text(NamedTuple):
    """A program's text, and where each of its lines is from: file and line, counted from 1."""

    text: str
    origins: list[tuple[str, int]]

    @property
    def files(self) -> list[str]:
        """All files, in the order in which they are first met."""
        return list(dict.fromkeys(name for name, _ in self.origins))

    def named(self, log: str) -> str:
        """A compiler's log with its places in terms of files: drivers write line 12 as "0:12" or "0(12)" at the beginning of a line."""

        def place(match: re.Match[str]) -> str:
            at = int(match[1]) - 1
            return "{}:{}".format(*self.origins[at]) if 0 <= at < len(self.origins) else match[0]

        return re.sub(r"^0(?::|\()(\d+)\b\)?", place, log, flags=re.MULTILINE)


def check_there(folder: Path = SHADERS) -> None:
    """Raises UsageError where the shaders are not there: an installation has the packages alone."""
    if not (folder / MAIN).is_file():
        raise UsageError(f"--static: {folder / MAIN} is not there, since only a checkout has the shaders; run rayfuse from one")


def assembled(defines: Mapping[str, int], folder: Path = SHADERS) -> Text:
    """The program of `frame.comp`, with these numbers defined. Raises OSError for a file that cannot be read."""
    seen: set[str] = set()
    lines: list[tuple[str, tuple[str, int]]] = []

    def take(name: str) -> None:
        seen.add(name)
        for number, line in enumerate((folder / name).read_text(encoding="utf-8").splitlines(), 1):
            included = _INCLUDE.match(line)
            if included is None:
                lines.append((line, (name, number)))
            elif included[1] not in seen:
                take(included[1])

    take(MAIN)
    head = [(f"#define {name} {value}", (MAIN, 1)) for name, value in defines.items()]
    lines[1:1] = head  # behind #version, which must come first
    return Text("".join(f"{line}\n" for line, _ in lines), [origin for _, origin in lines])


class Program:
    """A compiled program and how its dispatches are cut: `groups` workgroups, of which the driver takes `most` at once.

    A frame may take seconds on a slow device, and drivers reset what works on one dispatch for that long; nor can a display be drawn
    meanwhile. So a long frame is cut into dispatches of some fifty milliseconds. How many workgroups that are is measured once.

    Raises DeviceError, with the compiler's first complaint.
    """

    def __init__(self, functions: Functions, text: Text, groups: int, most: int) -> None:
        self._gl, self._groups, self._most = functions, groups, most
        self._name = _linked(functions, text)
        self._step = min(groups, most)

    @property
    def dispatches(self) -> int:
        """Of a frame."""
        return -(-self._groups // self._step)

    def rehearse(self) -> None:
        """Runs all workgroups, first one alone, since drivers compile at the first use, then some and some more, to measure them."""
        self._dispatch(0, 1)
        self._gl.Finish()
        at, step, seconds = 0, _FIRST, 0.0
        while at < self._groups:
            now = min(step, self._groups - at, self._most)
            started = time.perf_counter()
            self._dispatch(at, now)
            self._gl.Finish()
            took = time.perf_counter() - started
            seconds += took
            at += now
            step = max(1, int(now * min(_GROWTH, _SLICE_S / max(took, 1e-9))))
        whole = self._groups if seconds <= _WHOLE_S else max(1, int(self._groups * _SLICE_S / seconds))
        self._step = min(whole, self._most)

    def run(self) -> None:
        """Dispatches all workgroups; where they are cut, each dispatch but the last is waited for."""
        for at in range(0, self._groups, self._step):
            if at:
                self._gl.Finish()
            self._dispatch(at, min(self._step, self._groups - at))

    def _dispatch(self, at: int, groups: int) -> None:
        self._gl.UseProgram(self._name)
        self._gl.ProgramUniform1ui(self._name, _FIRST_GROUP, at)
        self._gl.DispatchCompute(groups, 1, 1)


def _linked(functions: Functions, program: Text) -> int:
    shader = functions.CreateShader(gl.COMPUTE_SHADER)
    text = ctypes.c_char_p(program.text.encode("utf-8"))
    functions.ShaderSource(shader, 1, ctypes.byref(text), None)
    functions.CompileShader(shader)
    if not _is_done(functions.GetShaderiv, shader, gl.COMPILE_STATUS):
        raise _refused(program, functions.log(shader, functions.GetShaderiv, functions.GetShaderInfoLog))
    name: int = functions.CreateProgram()
    functions.AttachShader(name, shader)
    functions.LinkProgram(name)
    functions.DeleteShader(shader)
    if not _is_done(functions.GetProgramiv, name, gl.LINK_STATUS):
        raise _refused(program, functions.log(name, functions.GetProgramiv, functions.GetProgramInfoLog))
    return name


def _is_done(ask: Callable[..., None], of: int, what: int) -> bool:
    done = ctypes.c_int(0)
    ask(of, what, ctypes.byref(done))
    return bool(done.value)


def _refused(program: Text, log: str) -> DeviceError:
    first = program.named(log).partition("\n")[0] or "the driver does not say why"
    return DeviceError(f"the driver does not take the shaders of shaders_ref/: {first}; update the graphics driver")
