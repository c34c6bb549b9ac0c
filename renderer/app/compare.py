"""Two benchmark records side by side: `rayfuse compare`.

One figure decides, the median frame time: it is what the threshold is held against, for it is the steadiest. The
others (tail, first frame, compile, memory, each kernel) are there to say where a change came from. Records of
different scenes, settings or machines can be compared, but what differs is said, since a ratio of such figures seldom
means what it seems to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from renderer.app.record import Record


@dataclass(frozen=True)
class Row:
    """One figure of both records; None where a record does not have it."""

    label: str
    unit: str
    before: float | None
    after: float | None

    @property
    def change(self) -> float | None:
        """Growth in per cent; None where there is nothing to divide."""
        if self.before is None or self.after is None or self.before == 0:
            return None
        return (self.after / self.before - 1) * 100


@dataclass(frozen=True)
class Comparison:
    rows: list[Row]  # the first is the one that decides
    differences: list[str]
    threshold: float  # per cent

    @property
    def slower(self) -> bool:
        """The median frame takes more than the threshold longer."""
        change = self.rows[0].change
        return change is not None and change > self.threshold


def compare(before: Record, after: Record, threshold: float) -> Comparison:
    """The figures of both, and what else differs between them."""
    return Comparison(list(_rows(before, after)), list(_differences(before, after)), threshold)


def _rows(before: Record, after: Record) -> Iterator[Row]:
    def mebibytes(size: int | None) -> float | None:
        return None if size is None else size / 2**20

    yield Row("frame, median", "ms", before.frame_ms.median, after.frame_ms.median)
    yield Row("frame, 95 % below", "ms", before.frame_ms.p95, after.frame_ms.p95)
    yield Row("host overhead", "ms", before.host_overhead_ms.median, after.host_overhead_ms.median)
    yield Row("first frame", "s", before.time_s.to_first_frame, after.time_s.to_first_frame)
    yield Row("trace", "s", before.time_s.trace, after.time_s.trace)
    yield Row("compile", "s", before.time_s.compile, after.time_s.compile)
    peaks = (mebibytes(record.memory.host_peak_bytes) for record in (before, after))
    yield Row("memory, host peak", "MiB", *peaks)
    sizes = (mebibytes(record.memory.device_bytes) for record in (before, after))
    yield Row("memory, device", "MiB", *sizes)
    old, new = ({kernel.name: kernel.median_ms for kernel in record.kernels} for record in (before, after))
    for name in dict.fromkeys((*old, *new)):
        yield Row(f"kernel {name}", "ms", old.get(name), new.get(name))


def _differences(before: Record, after: Record) -> Iterator[str]:
    if before.scene.sha256 != after.scene.sha256:
        yield f"scene: {before.scene.path} -> {after.scene.path} (other contents)"
    pairs = (
        ("settings", before.settings, after.settings),
        ("device", before.device, after.device),
        ("host", before.host, after.host),
    )
    for part, old, new in pairs:
        was, now = msgspec.structs.asdict(old), msgspec.structs.asdict(new)
        for field in was:
            if was[field] != now[field]:
                yield f"{part}.{field}: {_shown(was[field])} -> {_shown(now[field])}"


def _shown(value: object) -> str:
    return "unset" if value is None else str(value)
