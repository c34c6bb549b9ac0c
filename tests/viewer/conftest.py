"""The viewer's tests share one X server (see `xvfb`), and the panel's a window of it (see `desk`)."""

from importlib.util import find_spec

from tests.viewer.xvfb import screen, views

__all__ = ["screen", "views"]

if find_spec("imgui_bundle") is not None:  # without it those tests are skipped
    from tests.viewer.desk import desks, glfw, seen

    __all__ += ["desks", "glfw", "seen"]
