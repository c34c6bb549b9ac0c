"""OpenGL's buffers as OpenCL memory: whether a device can, and what its context must know of OpenGL's.

With sharing, a picture goes from a kernel to the window without a copy through the host. It takes three things: a driver with the
extension, a pyopencl that was built with it, and a context of OpenCL that was made beside the current one of OpenGL. All three are
asked for before anything of it is used: some drivers end the process when memory is shared without the extension.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Protocol

from engine.runtime.device import DeviceError
from engine.runtime.devices.opencl_choice import Found, binding, probe

_EXTENSIONS = ("cl_khr_gl_sharing", "cl_APPLE_gl_sharing")
_GL_CONTEXT, _EGL_DISPLAY, _GLX_DISPLAY, _WGL_HDC = 0x2008, 0x2009, 0x200A, 0x200B  # of cl_gl.h
_CGL_SHAREGROUP = 0x10000000  # of Apple's cl_gl_ext.h

Property = tuple[int, Any]


class HasExtensions(Protocol):
    """A device, as far as sharing asks for it."""

    @property
    def name(self) -> str: ...

    @property
    def extensions(self) -> str: ...


def gl_sharing(device: HasExtensions) -> str | None:
    """Why buffers of OpenGL's cannot be used on this device, in one line; None where they can."""
    if not any(each in device.extensions.split() for each in _EXTENSIONS):
        return f"the OpenCL driver of {device.name} has no cl_khr_gl_sharing"
    if not binding().have_gl():
        return (
            "this pyopencl is built without OpenGL; pip install --no-binary pyopencl "
            "--config-settings=cmake.define.PYOPENCL_ENABLE_GL=ON pyopencl"
        )
    return None


def sharing_device() -> tuple[Found, list[Property]]:
    """The device that draws for the OpenGL context of this thread, and the properties of a context beside it.

    Raises DeviceError where no device can share, or no OpenGL context is current.
    """
    cl = binding()
    able = []
    for found in probe():
        problem = gl_sharing(found)
        if problem is None:
            able.append(found)
        elif not able:
            reason = problem
    if not able:
        raise DeviceError(reason)
    beside = current_context()
    if beside is None:
        raise DeviceError("no OpenGL context is current on this thread; open the window first")
    for found in able:
        properties = [(int(cl.context_properties.PLATFORM), found.handle.platform), *beside]
        if sys.platform == "darwin":  # one device of the share group is as good as another
            return found, list(beside)
        try:
            info = cl.gl_context_info.CURRENT_DEVICE_FOR_GL_CONTEXT_KHR
            drawing = cl.get_gl_context_info_khr(properties, info, found.handle.platform)
        except cl.Error:  # not a context of this driver
            continue
        if drawing == found.handle:
            return found, properties
    raise DeviceError(f"the window is drawn by a device other than {able[0].name}")


def current_context() -> list[Property] | None:
    """What tells OpenCL of the OpenGL context that is current on this thread; None where none is."""
    if sys.platform == "win32":
        library = ctypes.WinDLL("opengl32")
        context = _call(library, "wglGetCurrentContext")
        return [(_GL_CONTEXT, context), (_WGL_HDC, _call(library, "wglGetCurrentDC"))] if context else None
    if sys.platform == "darwin":
        cgl = ctypes.CDLL("/System/Library/Frameworks/OpenGL.framework/OpenGL")
        context = _call(cgl, "CGLGetCurrentContext")
        if not context:
            return None
        share_group = cgl.CGLGetShareGroup
        share_group.restype, share_group.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        return [(_CGL_SHAREGROUP, share_group(context))]
    for name, of_context, of_display, kind in (
        ("libEGL.so.1", "eglGetCurrentContext", "eglGetCurrentDisplay", _EGL_DISPLAY),
        ("libGL.so.1", "glXGetCurrentContext", "glXGetCurrentDisplay", _GLX_DISPLAY),
    ):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        context = _call(library, of_context)
        if context:
            return [(_GL_CONTEXT, context), (kind, _call(library, of_display))]
    return None


def _call(library: Any, name: str) -> int:
    """What a function without arguments returns, as an address."""
    function = getattr(library, name)
    function.restype = ctypes.c_void_p
    return function() or 0
