"""The benchmark record: its schema, its arithmetic, and the truth of what it says about the process."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from engine import DeviceError, open_device
from renderer.app import host, record, report
from renderer.app.bench import orbit_angle
from renderer.app.terminal import Progress

SCHEMA = {
    "app": {"name", "version", "commit"},
    "scene": {"path", "sha256", "triangles", "instances", "materials", "lights", "texture_bytes"},
    "settings": {
        "width", "height", "spp_per_frame", "max_depth", "integrator", "denoiser", "seed", "workgroup", "threads",
    },
    "device": {"backend", "name", "driver", "compute_units", "group_width", "memory_bytes", "software"},
    "host": {"os", "cpu", "cores", "python"},
    "time_s": {"to_first_frame", "import", "load", "bvh_build", "upload", "trace", "compile"},
    "compile": {"kernels", "cache_hits", "cache_misses", "during_frames"},
    "memory": {"device_bytes", "host_peak_bytes", "allocations_during_frames"},
    "frame_ms": {"median", "mean", "p95", "p99", "min", "max", "stddev", "series"},
    "host_overhead_ms": {"median"},
    "rays": {"primary", "shadow", "indirect", "total_per_frame", "mrays_per_s"},
    "image": {"path", "sha256", "mean_rgb", "nonfinite"},
    "flags": {"software", "noisy", "vsync_limited"},
}  # fmt: skip
PLAIN = {"schema", "warmup_frames", "measured_frames", "kernels", "mpaths_per_s", "quality"}
KERNEL = {"name", "launches_per_frame", "median_ms", "workgroup", "registers", "spill_bytes", "shared_bytes"}

Run = Callable[..., subprocess.CompletedProcess[str]]


def bench(rayfuse: Run, scene: Path, *options: object, env: dict[str, str] | None = None) -> dict[str, Any]:
    """Runs a small benchmark on the CPU and returns its record."""
    small = ("--backend", "cpu", "--size", 24, 16, "--depth", 3, "--frames", 6, "--warmup", 2)
    done = rayfuse("bench", scene, *small, "--json", "-", "--quiet", *options, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_a_benchmark_gives_the_record_of_schema_1(rayfuse: Run, cornell: Path, tmp_path: Path) -> None:
    picture = tmp_path / "picture.npy"
    got = bench(rayfuse, cornell, "--image", picture)
    assert got["schema"] == 1
    assert got.keys() == SCHEMA.keys() | PLAIN
    for part, fields in SCHEMA.items():
        assert got[part].keys() == fields, part
    assert all(kernel.keys() == KERNEL for kernel in got["kernels"])
    assert got["kernels"]
    assert got["settings"] == {
        "width": 24, "height": 16, "spp_per_frame": 1, "max_depth": 3, "integrator": "path", "denoiser": "none",
        "seed": 0, "workgroup": None, "threads": None,
    }  # fmt: skip
    assert (got["warmup_frames"], got["measured_frames"], len(got["frame_ms"]["series"])) == (2, 6, 6)
    assert got["scene"]["sha256"] == host.sha256_of(cornell)
    assert got["scene"]["triangles"] > 10
    assert got["compile"]["during_frames"] == got["memory"]["allocations_during_frames"] == 0
    assert got["memory"]["device_bytes"] > 0
    assert got["image"]["nonfinite"] == 0
    assert got["rays"]["primary"] == 24 * 16
    assert got["rays"]["total_per_frame"] == sum(got["rays"][kind] for kind in ("primary", "shadow", "indirect"))
    phases = sum(got["time_s"][phase] for phase in ("import", "load", "bvh_build", "upload", "trace", "compile"))
    assert phases <= got["time_s"]["to_first_frame"]
    assert np.allclose(np.load(picture)[..., :3].mean((0, 1), dtype=float), got["image"]["mean_rgb"], rtol=1e-5)


def test_a_second_process_compiles_nothing_and_draws_the_same(rayfuse: Run, cornell: Path, tmp_path: Path) -> None:
    env = {"JIT_CACHE": str(tmp_path / "kernels")}
    first, second = (bench(rayfuse, cornell, env=env) for _ in range(2))
    assert first["compile"]["cache_misses"] > 0
    assert second["compile"]["cache_misses"] == 0
    assert second["compile"]["kernels"] == first["compile"]["kernels"]
    assert second["image"]["sha256"] == first["image"]["sha256"]


def test_compiling_is_in_no_frame_and_warm_up_frames_are_drawn_but_not_measured(rayfuse: Run, cornell: Path, tmp_path: Path) -> None:
    """C57: so that the frames of a first run are as long as those of the next."""
    env = {"JIT_CACHE": str(tmp_path)}
    cold, warm = (bench(rayfuse, cornell, "--warmup", warmup, "--frames", 8 - warmup, env=env) for warmup in (3, 0))
    assert (cold["warmup_frames"], cold["measured_frames"], len(cold["frame_ms"]["series"])) == (3, 5, 5)
    assert (warm["warmup_frames"], warm["measured_frames"], len(warm["frame_ms"]["series"])) == (0, 8, 8)
    assert cold["compile"]["cache_misses"] == cold["compile"]["kernels"] > 0 == warm["compile"]["cache_misses"]
    assert cold["compile"]["during_frames"] == warm["compile"]["during_frames"] == 0
    assert cold["time_s"]["compile"] > 0.1 > warm["time_s"]["compile"]
    assert cold["frame_ms"]["max"] < cold["time_s"]["compile"] * 1e3, "a frame is not where compiling is"
    assert cold["image"]["sha256"] == warm["image"]["sha256"], "eight frames are in both pictures"


def test_a_software_device_is_flagged_and_warned_of_once(rayfuse: Run, cornell: Path) -> None:
    """C47."""
    try:
        open_device("opengl").close()
    except DeviceError as error:
        pytest.skip(str(error))
    options = ("--backend", "opengl", "--size", 8, 8, "--frames", 1, "--warmup", 0, "--json", "-")
    done = rayfuse("bench", cornell, *options, env={"LIBGL_ALWAYS_SOFTWARE": "1"})
    got = json.loads(done.stdout)
    assert got["device"]["backend"] == "opengl" and got["device"]["software"] is True and got["flags"]["software"] is True
    assert done.stderr.count("is a software device") == 1
    (row,) = [line for line in rayfuse("info", env={"LIBGL_ALWAYS_SOFTWARE": "1"}).stdout.splitlines() if line.split()[:1] == ["opengl"]]
    assert "software" in row


def test_an_orbit_compiles_nothing_and_changes_the_picture(rayfuse: Run, cornell: Path) -> None:
    still, turning = bench(rayfuse, cornell), bench(rayfuse, cornell, "--orbit")
    assert turning["compile"]["during_frames"] == turning["memory"]["allocations_during_frames"] == 0
    assert turning["image"]["sha256"] != still["image"]["sha256"]


def test_without_json_a_table_is_printed_and_the_record_goes_to_its_file(
    rayfuse: Run, cornell: Path, tmp_path: Path
) -> None:
    target = tmp_path / "record.json"
    options = ("--backend", "cpu", "--size", 8, 8, "--frames", 2, "--warmup", 0, "--json", target)
    done = rayfuse("bench", cornell, *options)
    assert done.returncode == 0
    assert "Mpaths/s" in done.stdout
    assert record.read(target).warmup_frames == 0


def test_the_orbit_turns_half_a_degree_a_frame_within_ten_either_way() -> None:
    angles = [orbit_angle(frame) for frame in range(200)]
    assert angles[0] == 0
    assert {abs(b - a) for a, b in itertools.pairwise(angles)} == {0.5}
    assert (min(angles), max(angles)) == (-10, 10)
    assert angles[:80] == angles[80:160]


def test_the_distribution_of_frame_times() -> None:
    times = report.frame_times([1.0, 2.0, 3.0, 4.0, 10.0])
    assert (times.median, times.mean, times.min, times.max) == (3, 4, 1, 10)
    assert times.p95 == pytest.approx(8.8)
    assert times.p99 == pytest.approx(9.76)
    assert times.stddev == pytest.approx(10**0.5)
    assert times.series == [1, 2, 3, 4, 10]


def test_rays_that_were_not_counted_are_null() -> None:
    known = report.rays({"primary": 1000, "shadow": 500, "indirect": 500}, 2.0)
    assert (known.total_per_frame, known.mrays_per_s) == (2000, 1.0)
    unknown = report.rays({"primary": 1000}, 2.0)
    assert (unknown.primary, unknown.shadow, unknown.total_per_frame, unknown.mrays_per_s) == (1000, None, None, None)


def test_figures_that_are_not_finite_are_written_as_null() -> None:
    image = record.Image(path=None, sha256="", mean_rgb=(float("nan"), float("inf"), 0.5), nonfinite=3)
    assert json.loads(msgspec.json.encode(image))["mean_rgb"] == [None, None, 0.5]


def test_the_start_of_the_process_is_known(root: Path) -> None:
    program = "import time; time.sleep(0.3); from renderer.app.host import seconds_since_start as s; print(s())"
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root, check=True)
    whole = time.perf_counter() - started
    least = 0.3 if sys.platform == "linux" else 0.0
    assert least <= float(done.stdout) <= whole + 0.02


@pytest.mark.skipif(sys.platform != "linux", reason="hardware: only Linux tells the peak of one program")
def test_the_peak_of_memory_is_not_that_of_the_parent(root: Path) -> None:
    child = "from renderer.app.host import peak_memory; print(peak_memory())"
    parent = f"import subprocess, sys; a = b'x' * 2**28; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    done = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, cwd=root, check=True)
    assert 2**20 < int(done.stdout) < 2**27


@pytest.mark.parametrize("kind", ["branch", "packed", "detached", "linked"])
def test_the_commit_is_read_from_gits_files(kind: str, tmp_path: Path) -> None:
    number = "0123456789abcdef0123456789abcdef01234567"
    git = tmp_path / ".git"
    git.mkdir()
    (git / "HEAD").write_text(f"{number}\n" if kind == "detached" else "ref: refs/heads/main\n")
    if kind in ("branch", "linked"):
        (git / "refs/heads").mkdir(parents=True)
        (git / "refs/heads/main").write_text(f"{number}\n")
    if kind == "packed":
        (git / "packed-refs").write_text(f"# pack-refs with: peeled\n{number} refs/heads/main\n")
    tree = tmp_path
    if kind == "linked":
        tree, own = tmp_path / "tree", git / "worktrees/tree"
        tree.mkdir()
        own.mkdir(parents=True)
        (tree / ".git").write_text(f"gitdir: {own}\n")
        (own / "HEAD").write_text("ref: refs/heads/main\n")
        (own / "commondir").write_text("../..\n")
    assert host.commit(tree) == number


def test_no_commit_is_no_error(tmp_path: Path) -> None:
    assert host.commit(tmp_path) is None


def test_progress_is_silent_for_a_second_and_when_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with Progress() as loud, Progress(quiet=True) as quiet:
        for clock[0] in (100.5, 101.5, 102.0, 107.0):
            loud("compiling", 0.5)
            quiet("compiling", 0.5)
    assert capsys.readouterr().err == "rayfuse: compiling: 50%\n" * 2
