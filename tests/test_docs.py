"""What the pages show runs: the Python blocks of a page, in order, as one program, on each backend.

A block that is followed by a text block prints what that says.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import engine

PAGES = ("README.md", "docs/kernels.md", "docs/viewer.md")
NO_PYTHON = ("docs/correctness.md", "docs/gallery.md", "docs/info.md", "docs/performance.md", "docs/pictures.md")
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\s*^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


@pytest.fixture(params=["cpu", "reference"])
def device(request: pytest.FixtureRequest) -> Iterator[engine.Device]:
    """The default device for the test."""
    made = engine.open_device(request.param)
    before = engine.set_default_device(made)
    yield made
    engine.set_default_device(before)
    made.close()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_runs(page: str, device: engine.Device, root: Path) -> None:
    path = root / page
    written = path.read_text(encoding="utf-8")
    program: dict[str, Any] = {"__name__": path.stem}
    blocks = list(BLOCK.finditer(written))
    assert blocks
    for block in blocks:
        line = written.count("\n", 0, block.start(1))
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile("\n" * line + block[1], str(path), "exec"), program)
        if block[2] is not None:
            assert said.getvalue().rstrip() == block[2].rstrip(), f"{page}:{line}"


@pytest.mark.parametrize("page", [*PAGES, *NO_PYTHON])
def test_the_files_that_a_page_names_are_there(page: str, root: Path) -> None:
    path = root / page
    written = path.read_text(encoding="utf-8")
    named = [path.parent / target for target in re.findall(r"\]\(([^)#:]+)\)", written)]
    named += [root / name for name in re.findall(r"`((?:docs|scenes|tests|engine|renderer)/[\w/.]+\.\w+)`", written)]
    assert [str(file) for file in named if not file.is_file()] == []


def test_the_readme_names_the_targets_that_there_are(root: Path) -> None:
    told = set(re.findall(r"^    make ([\w-]+)", (root / "README.md").read_text(encoding="utf-8"), re.MULTILINE))
    there = set(re.findall(r"^([a-z][\w-]*):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert told == there - {"clean"}
