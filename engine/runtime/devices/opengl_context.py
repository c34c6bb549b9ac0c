"""An OpenGL context, and the thread that it lives on.

A context is current on one thread at a time, and changing that is slow. So a device has a `GLThread` of its own: whoever wants
something of OpenGL hands over a function and waits for its result, holding nothing; what it raises is raised where it was asked for.
A run of a whole plan is one such job, so the hop is paid once a frame (some tens of microseconds).

Where the context comes from is the business of a `ContextProvider`. `StandaloneContext` makes one without window or display: through
EGL on Linux, on other systems through what the package glcontext (a part of moderngl) has for them. A viewer hands in a context that
shares its window's objects.

The thread is a daemon, so a program that ends without closing its device does not hang; it is stopped before the interpreter goes,
since drivers do not like to be called when they are already unloading.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import re
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from engine.runtime.device import DeviceError
from engine.runtime.devices import opengl_functions as gl
from engine.runtime.devices.opengl_functions import Functions

_NEEDED = (4, 3)
_INSTALL = "Debian: apt-get install libegl1 libgl1 libgl1-mesa-dri"
_MOST_DEVICES = 16
_JOIN_S = 5.0
_SOFTWARE = ("llvmpipe", "softpipe", "swrast", "software rasterizer", "microsoft basic render", "swiftshader", "lavapipe", "gdi generic")

T = TypeVar("T")
Job = tuple[Callable[..., Any], tuple[Any, ...], "Ticket | None"]
Deletion = tuple[Callable[..., Any], tuple[Any, ...]]


class ContextProvider(Protocol):
    """Who has the context. All methods are called on the device's thread."""

    def make_current(self) -> None:
        """Makes the context current on this thread. Raises DeviceError where there is none to be had."""

    def release(self) -> None:
        """Makes no context current on this thread."""

    def load(self, name: str) -> int:
        """The address of a function of OpenGL by its full name; 0 where there is none."""

    def close(self) -> None:
        """Gives the context back, after `release`."""


def is_software(renderer: str) -> bool:
    """Whether a GL_RENDERER computes on the processor."""
    return any(name in renderer.lower() for name in _SOFTWARE)


class StandaloneContext:
    """A context without a window, made when it is first made current. Hardware is preferred to software where EGL has both."""

    def __init__(self) -> None:
        self._context: Any = None

    def make_current(self) -> None:
        if self._context is None:
            self._context = _standalone()
        self._context.__enter__()

    def release(self) -> None:
        self._context.__exit__(None, None, None)

    def load(self, name: str) -> int:
        return int(self._context.load(name))

    def close(self) -> None:
        self._context.release()
        self._context = None


def _standalone() -> Any:
    """A context of at least OpenGL 4.3. Raises DeviceError, with what is missing."""
    try:
        import glcontext
    except ImportError as error:
        raise DeviceError("moderngl is not installed; pip install 'rayfuse[viewer]'") from error
    if not sys.platform.startswith("linux"):
        make = glcontext.default_backend()
        return _made(partial(make, mode="standalone"))
    backend = glcontext.get_backend_by_name("egl")
    names = {"libgl": "libGL.so.1", "libegl": "libEGL.so.1"}  # named, since looking for them starts a compiler
    fallback, problem = None, DeviceError(f"OpenGL: EGL has no device; {_INSTALL}")
    for index in range(_MOST_DEVICES):
        try:
            found = _made(partial(backend, mode="standalone", device_index=index, **names))
        except DeviceError as error:
            if "device index" in str(error.__cause__):
                break
            problem = problem if index else error
            continue
        if not is_software(_string(found, gl.RENDERER)):
            if fallback is not None:
                _dropped(fallback)
                found.__enter__()
            return found
        if fallback is None:
            fallback = found
        else:
            _dropped(found)
    if fallback is None:
        raise problem
    return fallback


def _dropped(context: Any) -> None:
    context.__exit__(None, None, None)
    context.release()


def _made(make: Callable[..., Any]) -> Any:
    """The context that `make(glversion=430)` makes of version 4.3. Raises DeviceError, with the version that there is where it is older."""
    try:
        return make(glversion=430)
    except Exception as error:  # glcontext raises nothing more exact
        reason = str(error).strip()
        if "not loaded" in reason:
            raise DeviceError(f"OpenGL: {reason.split()[0]} is not installed; {_INSTALL}") from error
        try:
            older = make(glversion=330)
        except Exception:
            raise DeviceError(f"OpenGL: no context: {reason}; {_INSTALL}, or a graphics driver") from error
        version = _string(older, gl.VERSION)
        _dropped(older)
        raise DeviceError(_too_old(version)) from error


def _too_old(version: str) -> str:
    return f"OpenGL {_NEEDED[0]}.{_NEEDED[1]} is needed, and this driver has {version}; update the graphics driver, or use --backend cpu"


def _string(context: Any, name: int) -> str:
    """What the driver of a current context says of itself. Not through `Functions`, some of which an old driver lacks."""
    address = context.load("glGetString")
    found: bytes | None = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.c_uint)(address)(name) if address else None
    return (found or b"no version").decode("utf-8", "replace")


class Ticket:
    """What waits for a job: a lock that the thread opens, and what came of it."""

    __slots__ = ("done", "error", "result")

    def __init__(self) -> None:
        self.done = threading.Lock()
        self.done.acquire()
        self.result: Any = None
        self.error: BaseException | None = None


class GLThread:
    """The thread on which the context of a provider is current until `close`. Raises DeviceError where there is no context.

    `functions` are the context's, and may be called in jobs only.
    """

    def __init__(self, provider: ContextProvider) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._owned: dict[int, Deletion] = {}
        self._tokens = itertools.count()
        self._open = True
        self._closing = threading.Lock()
        opened = Ticket()
        # the thread knows nothing of this object, so that the two can go when nobody needs them
        self._thread = threading.Thread(target=_serve, args=(self._jobs, self._owned, provider, opened), name="rayfuse-opengl", daemon=True)
        self._thread.start()
        opened.done.acquire()
        if opened.error is not None:
            raise opened.error
        self.functions: Functions = opened.result
        weakref.finalize(self, self._jobs.put, None).atexit = False
        _threads.add(self)

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """What `function(*arguments)` gives on the thread; raises what it raises, and DeviceError after `close`."""
        if threading.current_thread() is self._thread:
            return function(*arguments)
        ticket = Ticket()
        with self._closing:  # so that nothing is put behind the end
            if not self._open:
                raise DeviceError("the OpenGL device is closed: open another one")
            self._jobs.put((function, arguments, ticket))
        ticket.done.acquire()
        if ticket.error is not None:
            try:
                raise ticket.error
            finally:
                del ticket  # or the error would hold the frame that holds the error
        result: T = ticket.result
        return result

    def own(self, delete: Callable[..., Any], *arguments: Any) -> int:
        """Notes that an object of the driver is to be deleted by `delete(*arguments)`: when it is disowned, or else at the end."""
        token = next(self._tokens)
        self._owned[token] = (delete, arguments)
        return token

    def disown(self, token: int) -> None:
        """Has the thread delete what `own` gave this token for. May be called from finalizers: it takes no lock and does not wait."""
        deletion = self._owned.pop(token, None)
        if deletion is not None:
            self._jobs.put((*deletion, None))

    def close(self) -> None:
        """Ends what was begun, deletes what is owned, gives the context back and ends the thread."""
        with self._closing:
            if self._open:
                self._open = False
                self._jobs.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_S)  # a driver that hangs does not make us hang


_threads: weakref.WeakSet[GLThread] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for thread in list(_threads):
        thread.close()


class Owned:
    """An object of the driver, deleted by `delete(*arguments)` on the thread when this object goes or the thread ends."""

    def __init__(self, thread: GLThread, delete: Callable[..., Any], *arguments: Any) -> None:
        self._thread, self._token = thread, thread.own(delete, *arguments)

    def __del__(self) -> None:
        self._thread.disown(self._token)


def _serve(jobs: SimpleQueue[Job | None], owned: dict[int, Deletion], provider: ContextProvider, opened: Ticket) -> None:
    """The thread: opens the context, does jobs until the end is announced, closes the context."""
    try:
        provider.make_current()
    except BaseException as error:
        opened.error = error
        opened.done.release()
        return
    try:
        version = _string(provider, gl.VERSION)
        if _number(version) < _NEEDED:
            raise DeviceError(_too_old(version))
        opened.result = Functions(provider.load)
        opened.done.release()
        _work(jobs)
        for delete, arguments in list(owned.values()):  # contexts that share objects would keep them
            delete(*arguments)
    except BaseException as error:
        opened.error = error
    provider.release()
    provider.close()
    if opened.error is not None:
        opened.done.release()


def _work(jobs: SimpleQueue[Job | None]) -> None:
    """Does jobs until the end is announced, and what is there behind it."""
    ending = False
    while not (ending and jobs.empty()):
        job = jobs.get()
        if job is None:
            ending = True
            continue
        function, arguments, ticket = job
        result, failure = None, None
        try:
            result = function(*arguments)
        except BaseException as error:
            failure = error
        if ticket is not None:
            ticket.result, ticket.error = result, failure
            ticket.done.release()
        del job, function, arguments, ticket, result, failure  # what they hold must not wait for the next job


def _number(version: str) -> tuple[int, int]:
    """(4, 3) of "4.3.0 NVIDIA 535.1"; (0, 0) of what is no version of desktop OpenGL."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)
