"""What a desktop does to a window and xdotool cannot: closing it politely, and dropping a file on it. Xlib, through ctypes.

Closing: a window manager sends the message WM_DELETE_WINDOW (ICCCM, section 4.2.8.1). Dropping, as by a file manager: the source
owns the selection XdndSelection and sends the messages XdndEnter, XdndPosition and XdndDrop; the target then asks for the selection as
text/uri-list, and the source puts the text into a property of the target's window and says so (XDND protocol, version 5).
"""

from __future__ import annotations

import ctypes
import ctypes.util
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SELECTION_REQUEST, SELECTION_NOTIFY, CLIENT_MESSAGE = 30, 31, 33
REPLACE = 0  # of XChangeProperty
PATIENCE = 20.0  # seconds


class ClientMessage(ctypes.Structure):
    """XClientMessageEvent."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("serial", ctypes.c_ulong),
        ("send_event", ctypes.c_int),
        ("display", ctypes.c_void_p),
        ("window", ctypes.c_ulong),
        ("message_type", ctypes.c_ulong),
        ("format", ctypes.c_int),
        ("data", ctypes.c_long * 5),
        ("padding", ctypes.c_long * 24),  # an XEvent is larger than its kinds
    )


HEAD = (("type", ctypes.c_int), ("serial", ctypes.c_ulong), ("send_event", ctypes.c_int), ("display", ctypes.c_void_p))
TAIL = (
    ("requestor", ctypes.c_ulong), ("selection", ctypes.c_ulong), ("target", ctypes.c_ulong), ("property", ctypes.c_ulong),
    ("time", ctypes.c_ulong), ("padding", ctypes.c_long * 24),
)  # fmt: skip


class SelectionRequest(ctypes.Structure):
    """XSelectionRequestEvent."""

    _fields_ = (*HEAD, ("owner", ctypes.c_ulong), *TAIL)


class SelectionNotify(ctypes.Structure):
    """XSelectionEvent."""

    _fields_ = (*HEAD, *TAIL)


class Connection:
    """A connection to an X server, and messages over it."""

    def __init__(self, library: Any, server: Any) -> None:
        self.x, self.server = library, server

    def atom(self, name: str) -> int:
        return int(self.x.XInternAtom(self.server, name.encode(), 0))

    def message(self, window: int, kind: str, *data: int) -> None:
        """Sends a client message of 32-bit words."""
        event = ClientMessage(type=CLIENT_MESSAGE, window=window, message_type=self.atom(kind), format=32)
        event.data[: len(data)] = data
        self.x.XSendEvent(self.server, window, 0, 0, ctypes.byref(event))
        self.x.XFlush(self.server)


@contextmanager
def connected(display: str) -> Iterator[Connection]:
    """A connection to this display."""
    x = ctypes.CDLL(ctypes.util.find_library("X11") or "libX11.so.6")
    pointer, number, whole = ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int
    x.XOpenDisplay.restype = pointer
    x.XInternAtom.restype = x.XDefaultRootWindow.restype = x.XCreateSimpleWindow.restype = number
    x.XDefaultRootWindow.argtypes = x.XCloseDisplay.argtypes = x.XFlush.argtypes = x.XPending.argtypes = (pointer,)
    x.XInternAtom.argtypes = (pointer, ctypes.c_char_p, whole)
    x.XSendEvent.argtypes = (pointer, number, whole, ctypes.c_long, pointer)
    x.XCreateSimpleWindow.argtypes = (pointer, number, whole, whole, *[ctypes.c_uint] * 3, number, number)
    x.XSetSelectionOwner.argtypes = (pointer, number, number, number)
    x.XNextEvent.argtypes = (pointer, pointer)
    x.XChangeProperty.argtypes = (pointer, number, number, number, whole, whole, ctypes.c_char_p, whole)
    server = x.XOpenDisplay(display.encode())
    if not server:
        raise RuntimeError(f"no X display {display}")
    try:
        yield Connection(x, server)
    finally:
        x.XCloseDisplay(server)


def close(display: str, window: int) -> None:
    """What a window manager does when the cross is clicked."""
    with connected(display) as to:
        to.message(window, "WM_PROTOCOLS", to.atom("WM_DELETE_WINDOW"))


def drop(display: str, window: int, place: tuple[int, int], file: Path) -> None:
    """Drops a file on the window; `place`: pixels of the screen. Raises TimeoutError where the window does not take it."""
    with connected(display) as to:
        x = to.x
        source = x.XCreateSimpleWindow(to.server, x.XDefaultRootWindow(to.server), 0, 0, 1, 1, 0, 0, 0)
        selection, uris = to.atom("XdndSelection"), to.atom("text/uri-list")
        x.XSetSelectionOwner(to.server, selection, source, 0)
        to.message(window, "XdndEnter", source, 5 << 24, uris)
        to.message(window, "XdndPosition", source, 0, place[0] << 16 | place[1], 0, to.atom("XdndActionCopy"))
        to.message(window, "XdndDrop", source, 0, 0)
        request, deadline = SelectionRequest(), time.monotonic() + PATIENCE
        while request.type != SELECTION_REQUEST:
            if time.monotonic() > deadline:
                raise TimeoutError("the window does not ask for what was dropped on it")
            if x.XPending(to.server):
                x.XNextEvent(to.server, ctypes.byref(request))
            else:
                time.sleep(0.01)
        text = f"{file.absolute().as_uri()}\r\n".encode()
        x.XChangeProperty(to.server, request.requestor, request.property, request.target, 8, REPLACE, text, len(text))
        answer = SelectionNotify(
            type=SELECTION_NOTIFY,
            requestor=request.requestor,
            selection=request.selection,
            target=request.target,
            property=request.property,
            time=request.time,
        )
        x.XSendEvent(to.server, request.requestor, 0, 0, ctypes.byref(answer))
        x.XFlush(to.server)
        finished = to.atom("XdndFinished")
        while time.monotonic() < deadline:
            if x.XPending(to.server):
                told = ClientMessage()
                x.XNextEvent(to.server, ctypes.byref(told))
                if told.type == CLIENT_MESSAGE and told.message_type == finished:
                    return
            else:
                time.sleep(0.01)
        raise TimeoutError("the window has not finished with what was dropped on it")
