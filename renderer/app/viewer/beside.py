"""What is found out beside the frames: how many rays they trace, which backends this machine can use.

Counting rays takes kernels that count, so they are compiled and run in a thread of their own, while the picture goes on; it is repeated
when the picture has come to rest after a change. Trying all backends loads drivers, some of which hold Python's lock for long, and one
of which may fall over: another process does that.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from renderer.pipeline.session import Session

_PROBE = "import json, os, engine; hasattr(os, 'nice') and os.nice(10); print(json.dumps({d.backend: d.problem for d in engine.devices()}))"


class RayCount:
    """Counts the rays of a frame of this session; `rays_per_sample` is None until that is done, or when it cannot be."""

    def __init__(self, session: Session) -> None:
        self.rays_per_sample: float | None = None
        self.session = session
        self._thread = threading.Thread(target=self._run, name="rayfuse-rays", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it is at it still."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            rays = self.session.count_rays()
        except Exception:  # the session was closed meanwhile, or has no room for a second film: a figure less
            return
        self.rays_per_sample = sum(rays.values()) / max(1, rays["primary"])


class Usable:
    """Asks another process which backends can be used."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = subprocess.Popen(
            [sys.executable, "-c", _PROBE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True
        )

    def answer(self) -> dict[str, str | None] | None:
        """Backend -> None, or why it cannot be used; the answer once, when it is there. Empty where there is none to be had."""
        process = self._process
        if process is None or process.poll() is None:
            return None
        self._process = None
        told = process.communicate()[0]
        try:
            answer: dict[str, str | None] = json.loads(told)
        except ValueError:
            return {}
        return answer

    def close(self) -> None:
        """Ends it."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
