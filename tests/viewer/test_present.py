"""Pictures reach the window whole, in time, and by the way that is claimed. Without a window: a context of EGL's."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("moderngl", reason="the viewer's packages are not installed: pip install 'rayfuse[viewer]'")

import moderngl

from engine import Device, DeviceError, Tensor, jit, open_device
from renderer.app.viewer.building import sharing
from renderer.app.viewer.gl import Gl
from renderer.app.viewer.present import (
    NO_MAPPING,
    SLOTS,
    BufferTexture,
    Exchange,
    Frame,
    PixelBuffers,
    Presenter,
    Screen,
    SharedBuffers,
    presenter_for,
)

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def made_by(*, mapping: bool = True) -> tuple[moderngl.Context, Screen]:
    """A context and a screen on it; without mapping: as an OpenGL of 3.3 would have it."""
    glcontext = pytest.importorskip("glcontext")
    try:
        raw = glcontext.get_backend_by_name("egl")(mode="standalone", libgl="libGL.so.1", libegl="libEGL.so.1", glversion=430)
    except Exception as error:
        pytest.skip(f"no OpenGL through EGL here: {error}")
    context = moderngl.create_context(context=raw)
    version, extensions = (context.version_code, context.extensions) if mapping else (330, ())
    return context, Screen(context, Gl(raw.load, version, extensions))


def give_back(context: moderngl.Context) -> None:
    """Ends a context. It is current no more: a window's context, made current on this thread by another test, would meet it."""
    assert context.error == "GL_NO_ERROR"
    egl = ctypes.CDLL("libEGL.so.1")
    egl.eglGetCurrentDisplay.restype = ctypes.c_void_p
    egl.eglMakeCurrent.argtypes = [ctypes.c_void_p] * 4
    display = egl.eglGetCurrentDisplay()
    context.release()
    assert egl.eglMakeCurrent(display, None, None, None)


@pytest.fixture
def screen() -> Iterator[Screen]:
    context, made = made_by()
    yield made
    give_back(context)


@pytest.fixture
def old_screen() -> Iterator[Screen]:
    context, made = made_by(mapping=False)
    yield made
    give_back(context)


@pytest.fixture(scope="module")
def cpu() -> Iterator[Device]:
    device = open_device("cpu")
    yield device
    device.close()


def pattern(width: int, height: int, seed: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """uint32[height, width]: noise, opaque."""
    values = np.random.default_rng(seed).integers(0, 2**24, (height, width), dtype=np.uint32)
    return values | np.uint32(0xFF000000)


def colours(picture: np.ndarray[Any, np.dtype[np.uint32]]) -> Pixels:
    """uint8[height, width, 3] of packed pixels."""
    return np.stack([(picture >> shift & 255).astype(np.uint8) for shift in (0, 8, 16)], -1)


def draw(presenter: Presenter, device: Device, picture: np.ndarray[Any, Any], exchange: Exchange) -> Frame:
    """One picture, as a worker draws it; what the window takes."""
    height, width = picture.shape
    slot = exchange.drawing
    target = presenter.target(slot, width, height)
    jit(lambda t, p: t.assign(p), name="painted", device=device)(target, Tensor(picture, dims=("height", "width")))
    memory = presenter.deliver(device, slot, target)
    exchange.publish(Frame(slot, memory, (width, height), 1, 0, []))
    frame = exchange.take()
    assert frame is not None
    return frame


def check(presenter: Presenter, screen: Screen, device: Device) -> None:
    """Pictures of changing sizes arrive as they were drawn, pixel by pixel."""
    exchange = Exchange()
    for seed, (width, height) in enumerate([(64, 48), (64, 48), (64, 48), (64, 48), (200, 3), (31, 17), (257, 129)]):
        picture = pattern(width, height, seed)
        presenter.reserve(width, height)
        presenter.show(draw(presenter, device, picture, exchange))
        assert np.array_equal(screen.read(presenter, (width, height)), colours(picture)), (width, height)
    presenter.release()


def test_the_processors_pictures_arrive_through_a_mapped_pixel_buffer(screen: Screen, cpu: Device) -> None:
    presenter = presenter_for(screen, cpu)
    assert (presenter.path, presenter.reason) == ("mapped pixel buffer", "")
    check(presenter, screen, cpu)


def test_kernels_write_into_the_pixel_buffer_itself(screen: Screen, cpu: Device) -> None:
    presenter = PixelBuffers(screen, direct=True)
    presenter.reserve(32, 16)
    target = presenter.target(1, 32, 16)
    memory = target.buffer_on(cpu)
    slots = presenter.deliver(cpu, 1, target)
    assert np.shares_memory(memory, slots.arrays[1]) and slots.buffers
    presenter.release()


def test_an_old_opengl_takes_a_copy_and_says_so(old_screen: Screen, cpu: Device) -> None:
    presenter = presenter_for(old_screen, cpu)
    assert (presenter.path, presenter.reason) == ("copied", NO_MAPPING)
    check(presenter, old_screen, cpu)


@pytest.mark.parametrize("backend", ["opencl"])
def test_a_device_with_memory_of_its_own_is_copied_from(screen: Screen, backend: str) -> None:
    try:
        device = open_device(backend)
    except (DeviceError, ImportError) as error:
        pytest.skip(f"no {backend} here: {error}")
    device, why_not = sharing(device, None)
    if not why_not:
        pytest.skip("hardware: this device shares memory with OpenGL")
    presenter = presenter_for(screen, device, why_not)
    assert presenter.path == "copied" and "cl_khr_gl_sharing" in presenter.reason
    check(presenter, screen, device)
    device.close()


class Beside:
    """A context beside the window's, which OpenCL cannot be told of."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def make_current(self) -> None:
        self.calls.append("make current")

    def release(self) -> None:
        self.calls.append("release")


def test_where_sharing_fails_when_it_is_tried_the_device_is_used_as_it_is(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    """C45: the driver has what it takes by its own account, and refuses the context."""
    try:
        device = open_device("opencl")
    except (DeviceError, ImportError) as error:
        pytest.skip(f"no opencl here: {error}")
    monkeypatch.setattr("engine.gl_sharing", lambda asked: None)
    context: Any = Beside()
    same, why_not = sharing(device, context)
    if same is not device:
        pytest.skip("hardware: this device shares memory with OpenGL")
    assert context.calls == ["make current", "release"] and why_not
    presenter = presenter_for(screen, device, why_not)
    assert (presenter.path, presenter.reason) == ("copied", why_not)
    check(presenter, screen, device)
    device.close()


def test_a_picture_smaller_than_the_window_is_filtered(screen: Screen, cpu: Device) -> None:
    presenter = PixelBuffers(screen, direct=True)
    presenter.reserve(2, 1)
    picture = np.array([[0xFF000000, 0xFFFFFFFF]], np.uint32)
    presenter.show(draw(presenter, cpu, picture, Exchange()))
    row = screen.read(presenter, (8, 4))[2, :, 0]
    assert row[0] == 0 and row[-1] == 255 and (np.diff(row.astype(int)) >= 0).all() and len(set(row.tolist())) > 3
    presenter.release()


def test_growing_keeps_what_is_shown_and_gives_the_old_memory_back(screen: Screen, cpu: Device) -> None:
    presenter, exchange = PixelBuffers(screen, direct=True), Exchange()
    presenter.reserve(16, 16)
    small = pattern(16, 16, 0)
    presenter.show(draw(presenter, cpu, small, exchange))
    presenter.reserve(64, 64)
    assert np.array_equal(screen.read(presenter, (16, 16)), colours(small))  # nothing new is drawn yet
    assert len(presenter._retired) == 1
    large = pattern(64, 64, 1)
    presenter.show(draw(presenter, cpu, large, exchange))
    assert np.array_equal(screen.read(presenter, (64, 64)), colours(large)) and not presenter._retired
    presenter.release()


def test_a_buffer_texture_reads_where_the_picture_lies(screen: Screen) -> None:
    """Also one that begins in the middle of a buffer, as those of the OpenGL device may."""

    class Lying:
        offset = 256

    picture = pattern(40, 30, 3)
    buffer = screen.context.buffer(b"\0" * Lying.offset + picture.tobytes())
    memory = Lying()
    memory.glo = buffer.glo  # type: ignore[attr-defined]
    presenter = BufferTexture(screen)
    presenter.reserve(40, 30)
    presenter.show(Frame(0, memory, (40, 30), 1, 0, []))
    assert np.array_equal(screen.read(presenter, (40, 30)), colours(picture))
    with pytest.raises(MemoryError, match="buffer textures of this OpenGL hold"):
        presenter.reserve(screen.buffer_limit, 2)
    presenter.release()


def test_a_context_is_not_lost_before_the_driver_says_so(screen: Screen) -> None:
    if screen.context.version_code < 450:
        pytest.skip("hardware: this OpenGL cannot be asked for resets")
    assert not screen.gl.lost()
    screen.gl._reset_status = lambda: 0x8254  # GL_INNOCENT_CONTEXT_RESET, which no driver here can be brought to say
    assert screen.gl.lost()


def test_a_slot_is_not_given_back_before_it_was_read(screen: Screen, cpu: Device) -> None:
    presenter = PixelBuffers(screen, direct=True)
    presenter.reserve(64, 64)
    presenter.show(draw(presenter, cpu, pattern(64, 64, 0), Exchange()))
    deadline = time.monotonic() + 10
    while not presenter.idle():  # asked without waiting, it comes true by itself
        assert time.monotonic() < deadline
    presenter.release()


def test_nobody_draws_into_what_is_shown() -> None:
    """Two threads at full speed: the window sees whole pictures only, and never an older one than before."""
    exchange = Exchange()
    slots = [np.zeros(64, np.int64) for _ in range(SLOTS)]
    stop = threading.Event()

    def worker() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            slots[exchange.drawing][:] = number
            exchange.publish(Frame(exchange.drawing, None, (1, 1), number, 0, []))

    thread = threading.Thread(target=worker)
    thread.start()
    try:
        seen, last = 0, 0
        deadline = time.monotonic() + 20
        while seen < 150 and time.monotonic() < deadline:
            frame = exchange.take()
            if frame is None:
                continue
            first = slots[frame.slot].copy()
            assert (first == frame.samples).all() and frame.samples > last
            assert (slots[frame.slot] == frame.samples).all()
            seen, last = seen + 1, frame.samples
    finally:
        stop.set()
        thread.join()
    assert seen == 150
    assert exchange.take() is None or exchange.take() is None


class Sharing:
    """Stands in for an OpenCL device that shares the window's buffers, of which there is none here: it writes them through OpenGL."""

    backend, host_memory = "opencl", False

    def __init__(self, context: moderngl.Context) -> None:
        self.lent: dict[int, moderngl.Buffer] = {}
        self._new = context.buffer

        def buffer(*arguments: Any, **options: Any) -> moderngl.Buffer:
            made = self._new(*arguments, **options)
            self.lent[made.glo] = made
            return made

        context.buffer = buffer  # type: ignore[method-assign]

    def shared_buffer(self, name: int, nbytes: int) -> Any:
        lent = self.lent[name]
        assert nbytes <= lent.size

        class Shared:
            def write(self, array: np.ndarray[Any, Any]) -> None:
                lent.write(array.tobytes())

        return Shared()


def test_a_device_that_shares_buffers_draws_into_the_windows_own(screen: Screen) -> None:
    device: Any = Sharing(screen.context)
    presenter = presenter_for(screen, device)
    assert isinstance(presenter, SharedBuffers) and (presenter.path, presenter.reason) == ("shared buffer", "")
    exchange = Exchange()
    for seed, (width, height) in enumerate([(32, 16), (32, 16), (8, 8), (100, 60), (32, 16)]):
        picture = pattern(width, height, seed)
        presenter.reserve(width, height)
        slot = exchange.drawing
        target = presenter.target(slot, width, height)
        target.buffer_on(device).write(picture)  # what kernels do
        exchange.publish(Frame(slot, presenter.deliver(device, slot, target), (width, height), 1, 0, []))
        frame = exchange.take()
        assert frame is not None
        presenter.show(frame)
        assert np.array_equal(screen.read(presenter, (width, height)), colours(picture)), (width, height)
    assert not presenter._retired
    presenter.release()
