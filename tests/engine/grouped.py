"""Devices whose lanes form groups of a width that a test names."""

from __future__ import annotations

from collections.abc import Iterator

from engine import Device, open_device


def opened(backend: str, group: int) -> Iterator[Device]:
    """A backend's device, closed in the end."""
    device = open_device(backend, group=group)
    yield device
    device.close()
