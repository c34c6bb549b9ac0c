"""What the tests of all storeys share.

Some tests need a component that may be missing: a package of an extra, a device, a system library. At a developer's
desk they skip and say so; where RAYFUSE_REQUIRE_ALL=1 is set (`.ci/run` does) such a skip counts as a failure, so
that nothing goes untested unnoticed. That holds for every kind of skip, `pytest.importorskip` included. Three kinds
remain skips there: of tests that look for the data folder `../shared` where there is none, and of tests whose reason
begins with "hardware:", for what no installation can mend (an instruction set, an operating system), or with "peers:",
for other programs that ours is compared with.

Examples of hypothesis are the same in every run, so that a change is judged by what it changes. New ones are looked for where
HYPOTHESIS_EXAMPLES says how many.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
STILL_SKIPS = ("../shared", "hardware:", "peers:")

settings.register_profile("suite", derandomize="HYPOTHESIS_EXAMPLES" not in os.environ)
settings.load_profile("suite")

Rayfuse = Callable[..., "subprocess.CompletedProcess[str]"]


def _require(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Under RAYFUSE_REQUIRE_ALL=1 turns the report of a skip into that of a failure."""
    if os.environ.get("RAYFUSE_REQUIRE_ALL") != "1" or not report.skipped or hasattr(report, "wasxfail"):
        return
    if not isinstance(report.longrepr, tuple):
        return
    path, line, reason = report.longrepr
    reason = str(reason).removeprefix("Skipped: ")
    if not reason.startswith(STILL_SKIPS):
        report.outcome = "failed"
        report.longrepr = f"{path}:{line}: a skip under RAYFUSE_REQUIRE_ALL=1: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _require(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _require(report)
    return report


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The data folder beside the checkout: models, references. Tests that need it skip where it is not there."""
    if not (SHARED / "data").is_dir():
        pytest.skip("../shared is not there")
    return SHARED


@pytest.fixture(scope="session")
def cornell() -> Path:
    """The smallest scene of our own."""
    return ROOT / "scenes" / "cornell.gltf"


@pytest.fixture
def rayfuse(tmp_path: Path) -> Rayfuse:
    """Runs the command in a process of its own, in an empty folder; the result has text in stdout and stderr."""

    def run(*arguments: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "renderer.app.cli", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        )

    return run
