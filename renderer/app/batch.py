"""A finished picture in a file: `rayfuse render`.

One sample a pixel at a time, accumulated by the same frame function that the benchmark runs, so that a picture of N
samples is the benchmark's first N frames: progress is a frame count, and more samples only go on where fewer stopped.
"""

from __future__ import annotations

from pathlib import Path

from renderer.app.opening import FrameOptions, open_session
from renderer.app.terminal import Progress, say


def run(options: FrameOptions, output: Path) -> None:
    """Renders the scene and writes the picture. Raises SceneError, ImageError, DeviceError, MemoryError."""
    with Progress(quiet=options.quiet) as progress, open_session(options, progress, spp_per_frame=1) as opened:
        session = opened.session
        for sample in range(options.spp):
            session.frame()
            progress("rendering", (sample + 1) / options.spp)

        from renderer.scene.images import write_image

        progress("writing", 0.0)
        write_image(output, session.mean(), tonemapped=session.rgba())
        refused = session.nonfinite
    if refused and not options.quiet:
        say(f"warning: {refused} samples were not finite and have been left out")
