"""How the renderer's picture reaches the window, by the cheapest way that device and display have in common.

A `Presenter` stands between a worker, which draws pictures, and the window, which shows them. Three slots go round between the two
(`Exchange`): one that the worker draws into, one with the newest finished picture, one that the window shows. Neither ever waits for
the other, and nothing is drawn into while the graphics processor may still read it (a fence says when).

    buffer texture        OpenGL compute: the kernel's output buffer, in a context that shares objects with the window's, is read by the
                          window's shader where it lies. Nothing is copied.
    mapped pixel buffer   CPU: kernels write into a pixel buffer of the window's context that stays mapped; the driver takes the texture
                          from there. Nothing is copied by us.
    shared buffer         OpenCL with cl_khr_gl_sharing: kernels write into a buffer of the window's. Nothing is copied.
    copied                devices with memory of their own that cannot share it: read into the mapped pixel buffer. Without OpenGL 4.4
                          or ARB_buffer_storage: through the host's memory.

Pictures are uint32[height, width], red in the lowest byte, encoded as sRGB already; the window's framebuffer is not told to encode
again. A picture that is smaller or larger than the window is filtered bilinearly.
"""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import moderngl
import numpy as np

from renderer.app.viewer.gl import R32UI, TEXTURE0, TEXTURE_BUFFER, Gl

if TYPE_CHECKING:
    from engine import Device, SharingDevice, Tensor
    from renderer.pipeline.session import KernelTime

SLOTS = 3
_SPARE = 64  # bytes before and behind a picture: the engine's kernels may read (and never use) so many
_ROOM = 1.25  # more memory than asked for, so that dragging a window larger does not allocate at each step
NO_MAPPING = "the window's OpenGL is older than 4.4 and has no ARB_buffer_storage"

VERTEX = """#version 330 core
out vec2 place;  // (0, 0) at the picture's top left
void main() {
    vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1) * 2.0;
    place = vec2(corner.x, 1.0 - corner.y);
    gl_Position = vec4(corner * 2.0 - 1.0, 0.0, 1.0);
}
"""
FROM_TEXTURE = """#version 330 core
in vec2 place;
out vec4 colour;
uniform sampler2D picture;
void main() { colour = vec4(texture(picture, place).rgb, 1.0); }
"""
FROM_BUFFER = """#version 330 core
in vec2 place;
out vec4 colour;
uniform usamplerBuffer picture;
uniform ivec2 size;
uniform int first;  // pixel of the buffer
vec3 pixel(ivec2 at) {
    at = clamp(at, ivec2(0), size - 1);
    uint rgba = texelFetch(picture, first + at.y * size.x + at.x).r;
    return vec3(rgba & 255u, (rgba >> 8) & 255u, (rgba >> 16) & 255u) / 255.0;
}
void main() {
    vec2 at = place * vec2(size) - 0.5;
    ivec2 low = ivec2(floor(at));
    vec2 part = at - vec2(low);
    vec3 above = mix(pixel(low), pixel(low + ivec2(1, 0)), part.x);
    vec3 below = mix(pixel(low + ivec2(0, 1)), pixel(low + ivec2(1, 1)), part.x);
    colour = vec4(mix(above, below, part.y), 1.0);
}
"""


@dataclass(frozen=True)
class Frame:
    """A finished picture. `memory`: what `slot` is a slot of; `size`: width and height in pixels; `samples`: a pixel, so far;
    `nonfinite`: samples left out, as counted last; `device_bytes`: what the session holds on the device."""

    slot: int
    memory: Any
    size: tuple[int, int]
    samples: int
    nonfinite: int
    kernels: list[KernelTime]
    device_bytes: int | None = None


class Exchange:
    """Three slots between one thread that draws and one that shows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawing, self._ready, self._showing = range(SLOTS)
        self._newest: Frame | None = None

    @property
    def drawing(self) -> int:
        """The slot to draw into; the drawing thread's."""
        return self._drawing

    def publish(self, frame: Frame) -> bool:
        """`frame`, in the slot `drawing`, is finished; whether the one before was taken already."""
        with self._lock:
            taken = self._newest is None
            self._drawing, self._ready, self._newest = self._ready, self._drawing, frame
            return taken

    def take(self) -> Frame | None:
        """The newest finished frame, for the showing thread, which gives back the slot that it had; None where there is no newer one."""
        with self._lock:
            frame, self._newest = self._newest, None
            if frame is not None:
                self._ready, self._showing = self._showing, self._ready
            return frame


class Presenter(Protocol):
    """One way of getting pictures into the window. `path` names it; `reason`: why it is not a better one, "" where it is the best."""

    path: str
    reason: str

    def reserve(self, width: int, height: int) -> None:
        """Window's thread: makes room for pictures of this size, before the worker is asked for one. Raises MemoryError."""

    def target(self, slot: int, width: int, height: int) -> Tensor:
        """Worker's thread: what to draw into, uint32[height, width]."""

    def deliver(self, device: Device, slot: int, target: Tensor) -> Any:
        """Worker's thread: the device has drawn; brings the picture to the slot where it is not there already. Returns `Frame.memory`."""

    def show(self, frame: Frame) -> None:
        """Window's thread: takes up a frame that is new."""

    def draw(self) -> None:
        """Window's thread: draws the frame that was taken up last."""

    def idle(self) -> bool:
        """Window's thread: whether the graphics processor has finished with the slot shown, so that it may be given back."""

    def release(self) -> None:
        """Window's thread, once the worker has ended: gives all memory back."""


class Screen:
    """What draws pictures into the window: one context's programs, shared by all presenters."""

    def __init__(self, context: moderngl.Context, gl: Gl) -> None:
        self.context, self.gl = context, gl
        self._textured = context.program(vertex_shader=VERTEX, fragment_shader=FROM_TEXTURE)
        self._buffered = context.program(vertex_shader=VERTEX, fragment_shader=FROM_BUFFER)
        self._from_texture = context.vertex_array(self._textured, [])
        self._from_buffer = context.vertex_array(self._buffered, [])
        self.buffer_limit = int(context.info["GL_MAX_TEXTURE_BUFFER_SIZE"])  # texels

    def read(self, presenter: Presenter, size: tuple[int, int]) -> np.ndarray[Any, Any]:
        """uint8[height, width, 3]: what a presenter draws, in this size, from the top."""
        width, height = size
        memory = self.context.simple_framebuffer(size, 3)
        try:
            memory.use()
            presenter.draw()
            raw = memory.read(components=3, alignment=1)
        finally:
            memory.release()
            self.context.screen.use()
        return np.frombuffer(raw, np.uint8).reshape(height, width, 3)[::-1]

    def draw_texture(self, texture: moderngl.Texture) -> None:
        """Fills the viewport with a texture."""
        texture.use(0)
        self._textured["picture"] = 0
        self._from_texture.render(moderngl.TRIANGLES, vertices=3)

    def draw_buffer(self, texture: int, first: int, size: tuple[int, int]) -> None:
        """Fills the viewport with a picture of this width and height that begins at a pixel of a buffer texture."""
        self.gl.active_texture(TEXTURE0)
        self.gl.bind_texture(TEXTURE_BUFFER, texture)
        self._buffered["picture"] = 0
        self._buffered["size"] = size
        self._buffered["first"] = first
        self._from_buffer.render(moderngl.TRIANGLES, vertices=3)


def _empty(width: int, height: int) -> Tensor:
    from engine import Tensor

    return Tensor(np.zeros((height, width), np.uint32), dims=("height", "width"))


class _Fence:
    """Whether the graphics processor still reads a slot."""

    def __init__(self, gl: Gl) -> None:
        self._gl, self._mark = gl, 0

    def set(self) -> None:
        """Behind everything that was asked for until now."""
        self.clear()
        self._mark = self._gl.fence()

    def passed(self) -> bool:
        if self._mark and self._gl.passed(self._mark):
            self._mark = 0
        return not self._mark

    def clear(self) -> None:
        """Forgets the mark."""
        if self._mark:
            self._gl.forget(self._mark)
            self._mark = 0


class Slots:
    """Three pictures of up to `capacity` pixels in memory that the host writes: mapped pixel buffers, or plain arrays."""

    def __init__(self, gl: Gl, capacity: int) -> None:
        self.capacity = capacity
        self.buffers: list[int] = []
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.tensors: dict[tuple[int, int, int], Tensor] = {}
        nbytes = 4 * capacity + 2 * _SPARE
        for _ in range(SLOTS):
            if gl.can_map:
                buffer, address = gl.mapped_buffer(nbytes)
                self.buffers.append(buffer)
                whole = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
            else:
                raw = np.empty(nbytes + _SPARE, np.uint8)
                whole = raw[-raw.ctypes.data % _SPARE :][:nbytes]
            self.arrays.append(whole[_SPARE:-_SPARE].view(np.uint32))

    def picture(self, slot: int, width: int, height: int) -> np.ndarray[Any, Any]:
        """uint32[height, width] at the beginning of a slot."""
        return self.arrays[slot][: width * height].reshape(height, width)

    def tensor(self, slot: int, width: int, height: int) -> Tensor:
        """The same as a Tensor that kernels of the host write to."""
        from engine import Tensor

        key = (slot, width, height)
        if key not in self.tensors:
            self.tensors = {k: t for k, t in self.tensors.items() if k[1:] == key[1:]}
            self.tensors[key] = Tensor.over(self.picture(slot, width, height), dims=("height", "width"))
        return self.tensors[key]


class PixelBuffers:
    """Pictures in the host's memory: written there by the kernels (`direct`), or read back from a device; see the head of the file."""

    def __init__(self, screen: Screen, *, direct: bool, why_not_shared: str = "") -> None:
        self._screen, self._gl = screen, screen.gl
        self._direct = direct
        mapped = screen.gl.can_map
        self.path = "mapped pixel buffer" if direct and mapped else "copied"
        self.reason = "; ".join(part for part in ("" if direct else why_not_shared, "" if mapped else NO_MAPPING) if part)
        self._slots: Slots | None = None
        self._drawn: Slots | None = None  # that the worker is in
        self._target: tuple[tuple[int, int], Tensor] | None = None  # of a device with memory of its own
        self._retired: list[Slots] = []
        self._texture: moderngl.Texture | None = None
        self._fence = _Fence(screen.gl)

    def reserve(self, width: int, height: int) -> None:
        if self._slots is not None and self._slots.capacity >= width * height:
            return
        larger = Slots(self._gl, int(width * height * (_ROOM if self._slots is not None else 1.0)))
        if self._slots is not None:
            self._retired.append(self._slots)
        self._slots = larger

    def target(self, slot: int, width: int, height: int) -> Tensor:
        slots = self._slots
        assert slots is not None and slots.capacity >= width * height, "reserved before the worker was asked"
        self._drawn = slots
        if self._direct:
            return slots.tensor(slot, width, height)
        if self._target is None or self._target[0] != (width, height):
            self._target = (width, height), _empty(width, height)
        return self._target[1]

    def deliver(self, device: Device, slot: int, target: Tensor) -> Any:
        slots = self._drawn
        assert slots is not None
        if self._target is not None:
            (width, height), _ = self._target
            target.read_into(slots.picture(slot, width, height))
        return slots

    def show(self, frame: Frame) -> None:
        width, height = frame.size
        texture = self._texture
        if texture is None or texture.size != frame.size:
            if texture is not None:
                texture.release()
            texture = self._screen.context.texture(frame.size, 4)
            texture.repeat_x = texture.repeat_y = False
            texture.filter = (moderngl.LINEAR, moderngl.LINEAR)
            self._texture = texture
        slots: Slots = frame.memory
        if slots.buffers:
            self._gl.upload(texture.glo, width, height, slots.buffers[frame.slot], _SPARE)
        else:
            texture.write(slots.picture(frame.slot, width, height).data)
        self._fence.set()
        if slots is self._slots:  # the worker is in these now, and has left the ones before
            self._free_retired()

    def draw(self) -> None:
        if self._texture is not None:
            self._screen.draw_texture(self._texture)

    def idle(self) -> bool:
        return self._fence.passed()

    def _free_retired(self) -> None:
        for slots in self._retired:
            for buffer in slots.buffers:
                self._gl.delete_mapped(buffer)
        self._retired = []

    def release(self) -> None:
        self._fence.clear()
        if self._slots is not None:
            self._retired.append(self._slots)
            self._slots = None
        self._free_retired()
        if self._texture is not None:
            self._texture.release()
            self._texture = None


class BufferTexture:
    """Pictures in OpenGL's buffers, read where they lie: those of an OpenGL device whose context shares objects with the window's."""

    path, reason = "buffer texture", ""

    def __init__(self, screen: Screen) -> None:
        self._screen, self._gl = screen, screen.gl
        self._targets: list[Tensor] = []
        self._size = (0, 0)
        self._texture = screen.gl.new_texture()
        self._shown: Frame | None = None
        self._fence = _Fence(screen.gl)

    def reserve(self, width: int, height: int) -> None:
        if width * height > self._screen.buffer_limit:
            raise MemoryError(
                f"a picture of {width} x {height} pixels; buffer textures of this OpenGL hold {self._screen.buffer_limit} pixels at most"
            )

    def target(self, slot: int, width: int, height: int) -> Tensor:
        if self._size != (width, height):
            self._targets = [_empty(width, height) for _ in range(SLOTS)]
            self._size = (width, height)
        return self._targets[slot]

    def deliver(self, device: Device, slot: int, target: Tensor) -> Any:
        return target.buffer_on(device)

    def show(self, frame: Frame) -> None:
        self._shown = frame
        self._gl.bind_texture(TEXTURE_BUFFER, self._texture)
        self._gl.tex_buffer(TEXTURE_BUFFER, R32UI, frame.memory.glo)

    def draw(self) -> None:
        if self._shown is not None:
            self._screen.draw_buffer(self._texture, self._shown.memory.offset // 4, self._shown.size)
            self._fence.set()

    def idle(self) -> bool:
        return self._fence.passed()

    def release(self) -> None:
        self._fence.clear()
        self._gl.delete_texture(self._texture)
        self._shown, self._targets = None, []


@dataclass(frozen=True)
class Lent:
    """Three of the window's buffers, of so many bytes each."""

    buffers: list[moderngl.Buffer]
    nbytes: int


@dataclass(frozen=True)
class Place:
    """Where a picture begins in one of OpenGL's buffers. `lent`: whom it is one of, kept with it."""

    glo: int
    lent: Lent
    offset: int = 0


class SharedBuffers(BufferTexture):
    """Pictures in buffers of the window's that another interface's kernels write: OpenCL's, with cl_khr_gl_sharing."""

    path = "shared buffer"

    def __init__(self, screen: Screen, device: SharingDevice) -> None:
        super().__init__(screen)
        self._device = device
        self._lent: Lent | None = None
        self._of: Lent | None = None  # that the targets are in
        self._retired: list[Lent] = []

    def reserve(self, width: int, height: int) -> None:
        super().reserve(width, height)
        if self._lent is not None:
            if self._lent.nbytes >= 4 * width * height:
                return
            self._retired.append(self._lent)
        nbytes = int(4 * width * height * _ROOM)
        self._lent = Lent([self._screen.context.buffer(reserve=nbytes, dynamic=True) for _ in range(SLOTS)], nbytes)
        self._screen.context.finish()  # they are there before another interface hears of them

    def target(self, slot: int, width: int, height: int) -> Tensor:
        from engine import Tensor

        lent = self._lent
        assert lent is not None and lent.nbytes >= 4 * width * height, "reserved before the worker was asked"
        if self._size != (width, height) or lent is not self._of:
            shared = [self._device.shared_buffer(buffer.glo, 4 * width * height) for buffer in lent.buffers]
            dims = ("height", "width")
            self._targets = [Tensor.in_buffer(buffer, self._device, (height, width), "uint32", dims) for buffer in shared]
            self._size, self._of = (width, height), lent
        return self._targets[slot]

    def deliver(self, device: Device, slot: int, target: Tensor) -> Any:
        assert self._of is not None
        return Place(self._of.buffers[slot].glo, self._of)

    def show(self, frame: Frame) -> None:
        super().show(frame)
        if frame.memory.lent is self._lent:  # the worker is in these now, and has left the ones before
            self._free()

    def _free(self) -> None:
        for lent in self._retired:
            for buffer in lent.buffers:
                buffer.release()
        self._retired = []

    def release(self) -> None:
        super().release()
        if self._lent is not None:
            self._retired.append(self._lent)
            self._lent = None
        self._free()


def presenter_for(screen: Screen, device: Device, not_shared: str = "") -> Presenter:
    """The best way from a device into the window. `not_shared`: why it cannot share the window's buffers, "" where it can."""
    if device.host_memory:
        return PixelBuffers(screen, direct=True)
    if device.backend == "opengl":
        return BufferTexture(screen)
    if device.backend == "opencl" and not not_shared:
        return SharedBuffers(screen, cast("SharingDevice", device))
    return PixelBuffers(screen, direct=False, why_not_shared=not_shared or f"{device.backend} shares nothing with OpenGL")
