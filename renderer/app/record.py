"""The benchmark record, schema 1: what `rayfuse bench` measured, as data.

One JSON object with the scene, the settings, the machine and the figures, so that two records can be compared without
asking how they came about. The classes below are the schema: msgspec writes them and, reading, checks every type, so
that a bad file is answered with the JSON path of what is wrong. A figure that could not be had is null, never 0.
Times carry their unit in their name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from renderer.scene.files import write_whole

_WANTED = "give a file of `rayfuse bench --json`"


class App(msgspec.Struct, frozen=True):
    name: str
    version: str | None
    commit: str | None


class SceneFacts(msgspec.Struct, frozen=True):
    """`sha256` is that of the scene file itself; buffers and images beside it are not in it."""

    path: str
    sha256: str | None
    triangles: int
    instances: int
    materials: int
    lights: int
    texture_bytes: int


class Settings(msgspec.Struct, frozen=True):
    """What was asked for; `workgroup` and `threads` are null where the choice was left to the device."""

    width: int
    height: int
    spp_per_frame: int
    max_depth: int
    integrator: str
    denoiser: str
    seed: int
    workgroup: int | None
    threads: int | None


class Device(msgspec.Struct, frozen=True):
    backend: str
    name: str
    driver: str | None
    compute_units: int | None
    group_width: int | None
    memory_bytes: int | None
    software: bool


class Host(msgspec.Struct, frozen=True):
    os: str
    cpu: str | None
    cores: int | None
    python: str


class Times(msgspec.Struct, frozen=True):
    """Seconds. `to_first_frame` runs from the start of the process to the first frame's completion; `import` from the
    same start until the modules were loaded. The rest are phases between the two."""

    to_first_frame: float | None
    import_: float | None = msgspec.field(name="import")
    load: float | None
    bvh_build: float | None
    upload: float | None
    trace: float | None
    compile: float | None


class Compile(msgspec.Struct, frozen=True):
    """Up to the end of the measured frames; `during_frames` counts within them."""

    kernels: int
    cache_hits: int
    cache_misses: int
    during_frames: int


class Memory(msgspec.Struct, frozen=True):
    """Bytes at the end of the measured frames; `host_peak_bytes` is the most that was resident until then."""

    device_bytes: int | None
    host_peak_bytes: int | None
    allocations_during_frames: int


class FrameTimes(msgspec.Struct, frozen=True):
    """Milliseconds of whole frames to device completion; `series`: all of them; `stddev`: the population's."""

    median: float
    mean: float
    p95: float
    p99: float
    min: float
    max: float
    stddev: float
    series: list[float]


class Overhead(msgspec.Struct, frozen=True):
    """Milliseconds of a frame outside its kernels."""

    median: float | None


class Kernel(msgspec.Struct, frozen=True):
    name: str
    launches_per_frame: float
    median_ms: float | None
    workgroup: int | None
    registers: int | None
    spill_bytes: int | None
    shared_bytes: int | None


class Rays(msgspec.Struct, frozen=True):
    """Rays of one frame, counted."""

    primary: int | None
    shadow: int | None
    indirect: int | None
    total_per_frame: int | None
    mrays_per_s: float | None


class Image(msgspec.Struct, frozen=True):
    """`sha256` is that of the tone-mapped RGBA bytes, `mean_rgb` the linear mean of the accumulated picture."""

    path: str | None
    sha256: str
    mean_rgb: tuple[float | None, float | None, float | None]
    nonfinite: int


class Quality(msgspec.Struct, frozen=True):
    frames: int
    reference_spp: int
    psnr_db: float | None
    relmse: float | None
    flip: float | None
    flicker: float | None


class Flags(msgspec.Struct, frozen=True):
    software: bool
    noisy: bool
    vsync_limited: bool


class Record(msgspec.Struct, frozen=True):
    schema: Literal[1]
    app: App
    scene: SceneFacts
    settings: Settings
    device: Device
    host: Host
    time_s: Times
    compile: Compile
    memory: Memory
    warmup_frames: int
    measured_frames: int
    frame_ms: FrameTimes
    host_overhead_ms: Overhead
    kernels: list[Kernel]
    rays: Rays
    mpaths_per_s: float
    image: Image
    quality: Quality | None
    flags: Flags


class RecordError(Exception):
    """A file that is no benchmark record; the text names the file and the JSON path of what is wrong."""


def encode(record: Record) -> bytes:
    """The record as indented JSON, ending in a line feed. A figure that is not finite becomes null."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"


def write(record: Record, path: Path) -> None:
    """Writes the record to `path`. Raises OSError where that cannot be done."""
    write_whole(path, encode(record))


def read(path: Path) -> Record:
    """Reads a record. Raises RecordError, with the JSON path of what is wrong."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}; {_WANTED}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: not a benchmark record of schema 1: {error}; {_WANTED}") from error
