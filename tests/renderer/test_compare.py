"""Two benchmark records side by side: what counts as slower, what is said to differ, what is no record."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from renderer.app import cli

RECORD: dict[str, Any] = {
    "schema": 1,
    "app": {"name": "rayfuse", "version": "0.1.0", "commit": None},
    "scene": {
        "path": "a.glb", "sha256": "aa", "triangles": 36, "instances": 6, "materials": 4, "lights": 1,
        "texture_bytes": 0,
    },
    "settings": {
        "width": 64, "height": 64, "spp_per_frame": 1, "max_depth": 4, "integrator": "path", "denoiser": "none",
        "seed": 0, "workgroup": None, "threads": None,
    },
    "device": {
        "backend": "cpu", "name": "A CPU", "driver": None, "compute_units": 2, "group_width": 16,
        "memory_bytes": None, "software": False,
    },
    "host": {"os": "Linux", "cpu": "A CPU", "cores": 2, "python": "3.11.7"},
    "time_s": {
        "to_first_frame": 0.5, "import": 0.1, "load": 0.01, "bvh_build": 0.01, "upload": 0.001, "trace": 0.1,
        "compile": 0.2,
    },
    "compile": {"kernels": 2, "cache_hits": 2, "cache_misses": 0, "during_frames": 0},
    "memory": {"device_bytes": 1000000, "host_peak_bytes": 100000000, "allocations_during_frames": 0},
    "warmup_frames": 10,
    "measured_frames": 3,
    "frame_ms": {
        "median": 10.0, "mean": 10.0, "p95": 11.0, "p99": 11.0, "min": 9.0, "max": 11.0, "stddev": 0.8,
        "series": [9.0, 10.0, 11.0],
    },
    "host_overhead_ms": {"median": 0.1},
    "kernels": [
        {"name": "trace", "launches_per_frame": 1, "median_ms": 9.5, "workgroup": 256, "registers": None,
         "spill_bytes": None, "shared_bytes": None},
    ],
    "rays": {"primary": 4096, "shadow": 4000, "indirect": 4000, "total_per_frame": 12096, "mrays_per_s": 1.2},
    "mpaths_per_s": 0.4,
    "image": {"path": None, "sha256": "bb", "mean_rgb": [0.1, 0.2, 0.3], "nonfinite": 0},
    "quality": None,
    "flags": {"software": False, "noisy": False, "vsync_limited": False},
}  # fmt: skip


def written(folder: Path, name: str, change: dict[str, Any] | None = None) -> Path:
    """A record in a file, with some of its fields ("part.field": value) changed."""
    document = copy.deepcopy(RECORD)
    for place, value in (change or {}).items():
        *parts, field = place.split(".")
        inner = document
        for part in parts:
            inner = inner[part]
        inner[field] = value
    path = folder / name
    path.write_text(json.dumps(document))
    return path


def compare(tmp_path: Path, change: dict[str, Any], *options: str) -> int:
    before, after = written(tmp_path, "a.json"), written(tmp_path, "b.json", change)
    return cli.main(["compare", str(before), str(after), *options])


@pytest.mark.parametrize(
    ("median", "options", "code"),
    [
        (10.0, (), 0),
        (10.4, (), 0),
        (10.6, (), 1),
        (5.0, (), 0),
        (10.6, ("--threshold", "10"), 0),
        (10.1, ("--threshold", "0"), 1),
    ],
)
def test_a_slow_down_past_the_threshold_is_exit_code_1(
    median: float, options: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    assert compare(tmp_path, {"frame_ms.median": median}, *options) == code


def test_every_figure_is_shown_with_its_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernels = [{**RECORD["kernels"][0], "median_ms": 19.0}, {**RECORD["kernels"][0], "name": "tonemap"}]
    change = {"frame_ms.p95": 22.0, "time_s.to_first_frame": 0.25, "time_s.compile": None, "kernels": kernels}
    assert compare(tmp_path, change) == 0
    lines = {line.split("  ")[0].strip(): line for line in capsys.readouterr().out.splitlines()}
    assert "+0.0 %" in lines["frame, median"]
    assert "+100.0 %" in lines["frame, 95 % below"]
    assert "-50.0 %" in lines["first frame"]
    assert lines["compile"].split()[-2:] == ["-", "-"]
    assert "+100.0 %" in lines["kernel trace"]
    assert lines["kernel tonemap"].split()[-1] == "-"


def test_other_scenes_settings_and_devices_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change = {"scene.sha256": "cc", "settings.width": 128, "device.name": "Another [bold]CPU", "settings.threads": 1}
    compare(tmp_path, change)
    out = capsys.readouterr().out
    assert "differs: scene: a.glb -> a.glb (other contents)" in out
    assert "differs: settings.width: 64 -> 128" in out
    assert "differs: device.name: A CPU -> Another [bold]CPU" in out
    assert "differs: settings.threads: unset -> 1" in out


def test_nothing_is_said_of_what_is_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compare(tmp_path, {})
    assert "differs" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        (b"", "Input data was truncated"),
        (b"not json", "JSON is malformed"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "missing required field `schema`"),
        (json.dumps({**RECORD, "schema": 2}).encode(), "$.schema"),
        (json.dumps({**RECORD, "frame_ms": {**RECORD["frame_ms"], "median": "fast"}}).encode(), "$.frame_ms.median"),
        (json.dumps({**RECORD, "kernels": [{}]}).encode(), "$.kernels[0]"),
        (b"\xff\xfe\x00", "not a benchmark record"),
    ],
)
def test_a_file_that_is_no_record_is_refused_with_the_place(
    contents: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_bytes(contents)
    assert cli.main(["compare", str(written(tmp_path, "a.json")), str(bad)]) == 2
    out, err = capsys.readouterr()
    assert "bad.json" in err
    assert said in err
    assert err.count("\n") == 1
    assert out == ""


def test_a_folder_is_no_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", str(tmp_path), str(tmp_path)]) == 2
    assert "cannot be read" in capsys.readouterr().err
