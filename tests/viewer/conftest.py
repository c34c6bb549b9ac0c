"""The viewer's tests share one X server (see `xvfb`)."""

from tests.viewer.xvfb import screen, views

__all__ = ["screen", "views"]
