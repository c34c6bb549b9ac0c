"""From what a benchmark's run gave to its record (`renderer.app.record`): arithmetic and look-ups, no measuring."""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from renderer.app import host, record

if TYPE_CHECKING:
    from renderer.app.bench import BenchOptions, Diagnosis, Frames
    from renderer.app.opening import FrameOptions, Opened
    from renderer.app.static import StaticSession
    from renderer.pipeline.session import DeviceFacts, Session

NOISY = 1.25  # p95 over median above which the figures are flagged


def picture(session: Session | StaticSession, path: Path | None) -> record.Image:
    """The accumulated picture's figures; the picture is written to `path` where there is one. Raises ImageError."""
    linear, rgba = session.mean(), session.rgba()
    if path is not None:
        from renderer.scene.images import write_image

        write_image(path, linear, tonemapped=rgba)
    red, green, blue = (float(value) for value in linear.mean(axis=(0, 1), dtype=np.float64))
    return record.Image(
        path=None if path is None else str(path),
        sha256=hashlib.sha256(rgba.tobytes()).hexdigest(),
        mean_rgb=(red, green, blue),
        nonfinite=session.nonfinite,
    )


def record_of(
    options: FrameOptions,
    bench: BenchOptions,
    opened: Opened,
    frames: Frames,
    diagnosis: Diagnosis,
    image: record.Image,
) -> record.Record:
    """The whole record."""
    device = opened.session.device
    phases = opened.session.times
    root = host.checkout()
    scene = opened.scene.totals()
    frame_ms = frame_times(frames.series_ms)
    return record.Record(
        schema=1,
        app=record.App(name="rayfuse", version=host.version(), commit=host.commit(root) if root else None),
        scene=record.SceneFacts(
            path=str(options.scene),
            sha256=host.sha256_of(options.scene),
            triangles=scene.triangles,
            instances=scene.instances,
            materials=scene.materials,
            lights=scene.lights,
            texture_bytes=opened.session.texture_bytes,
        ),
        settings=record.Settings(
            width=options.width,
            height=options.height,
            spp_per_frame=options.spp,
            max_depth=options.depth,
            integrator="path",
            denoiser=options.denoiser,
            seed=options.seed,
            workgroup=options.workgroup,
            threads=options.threads,
        ),
        device=device_of(device),
        host=record.Host(
            os=platform.platform(), cpu=host.cpu_name(), cores=host.usable_cores(), python=platform.python_version()
        ),
        time_s=record.Times(
            to_first_frame=frames.to_first_frame_s,
            import_=opened.imported_s,
            load=opened.load_s,
            bvh_build=phases.get("bvh_build"),
            upload=phases.get("upload"),
            trace=phases.get("trace"),
            compile=phases.get("compile"),
        ),
        compile=record.Compile(
            kernels=frames.kernels,
            cache_hits=frames.cache_hits,
            cache_misses=frames.cache_misses,
            during_frames=frames.compiles_during_frames,
        ),
        memory=record.Memory(
            device_bytes=frames.device_bytes,
            host_peak_bytes=frames.host_peak_bytes,
            allocations_during_frames=frames.allocations_during_frames,
        ),
        warmup_frames=bench.warmup,
        measured_frames=bench.frames,
        frame_ms=frame_ms,
        host_overhead_ms=record.Overhead(median=float(np.median(frames.overhead_ms)) if frames.overhead_ms else None),
        kernels=[
            record.Kernel(
                name=kernel.name,
                launches_per_frame=kernel.launches_per_frame,
                median_ms=kernel.median_ms,
                workgroup=kernel.workgroup,
                registers=kernel.registers,
                spill_bytes=kernel.spill_bytes,
                shared_bytes=kernel.shared_bytes,
            )
            for kernel in diagnosis.kernels
        ],
        rays=rays(diagnosis.rays, frame_ms.median),
        mpaths_per_s=options.width * options.height * options.spp / frame_ms.median / 1e3,
        image=image,
        quality=None,
        flags=record.Flags(
            software=device.software, noisy=frame_ms.p95 > NOISY * frame_ms.median, vsync_limited=False
        ),
    )


def device_of(facts: DeviceFacts) -> record.Device:
    """The device a session runs on, as a record tells of it."""
    return record.Device(
        backend=facts.backend,
        name=facts.name,
        driver=facts.driver,
        compute_units=facts.compute_units,
        group_width=facts.group_width,
        memory_bytes=facts.memory_bytes,
        software=facts.software,
    )


def frame_times(milliseconds: list[float]) -> record.FrameTimes:
    """The distribution of the frames' times; percentiles are interpolated linearly."""
    series = np.asarray(milliseconds)
    return record.FrameTimes(
        median=float(np.median(series)),
        mean=float(series.mean()),
        p95=float(np.percentile(series, 95)),
        p99=float(np.percentile(series, 99)),
        min=float(series.min()),
        max=float(series.max()),
        stddev=float(series.std()),
        series=[round(value, 4) for value in milliseconds],
    )


def rays(counted: dict[str, int], frame_ms: float) -> record.Rays:
    """Rays of a frame by kind, and their rate; the total is known where every kind is."""
    primary, shadow, indirect = (counted.get(kind) for kind in ("primary", "shadow", "indirect"))
    total = None if primary is None or shadow is None or indirect is None else primary + shadow + indirect
    return record.Rays(
        primary=primary,
        shadow=shadow,
        indirect=indirect,
        total_per_frame=total,
        mrays_per_s=None if total is None else total / frame_ms / 1e3,
    )
