"""kernels-diff sees what a kernel does, and not how its registers are called."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine import Tensor, jit, where
from engine.compiler.print import text
from engine.inspect import kernels_diff

IR = """define void @f(ptr %buffers) {
entry:
  %v1 = add i64 1, 2
  %v2 = mul i64 %v1, %v1
  br label %loop3
loop3:
  %v4 = phi i64 [ %v2, %entry ], [ %v5, %loop3 ]
  %v5 = sub i64 %v4, %v1
  br label %loop3
}"""


def renumbered(ir: str) -> str:
    for old, new in (("v1", "v71"), ("v2", "v12"), ("loop3", "again8"), ("v4", "x"), ("v5", "v40")):
        ir = ir.replace(f"%{old}", f"%{new}").replace(f"\n{old}:", f"\n{new}:")
    return ir


def test_names_do_not_count() -> None:
    assert renumbered(IR) != IR
    assert kernels_diff.difference("f", IR, renumbered(IR)) is None


def test_an_instruction_more_is_one_line_whatever_it_renumbers() -> None:
    grown = renumbered(IR).replace("  br label %again8\nagain8:", "  %v13 = shl i64 %v12, 1\n  br label %again8\nagain8:")
    found = kernels_diff.difference("f", IR, grown)
    assert found is not None and (found.added, found.removed) == (1, 0)
    assert [line for line in found.lines if line[0] in "+-"] == ["+  %v13 = shl i64 %v12, 1"]


def test_other_operands_of_the_same_instruction_are_a_difference() -> None:
    found = kernels_diff.difference("f", IR, IR.replace("sub i64 %v4, %v1", "sub i64 %v1, %v4"))
    assert found is not None and (found.added, found.removed) == (1, 1)


def test_other_constants_are_a_difference() -> None:
    assert kernels_diff.difference("f", IR, IR.replace("1, 2", "1, 3")) is not None


def test_the_texts_of_two_traces_are_equal_and_of_two_programs_are_not() -> None:
    def of(function: object) -> str:
        return text(jit(function).plan_of(Tensor.spec((8,), "float32")).kernels[0]).partition("\n")[2]

    def plain(x: Tensor) -> Tensor:
        return x * 2 + 1

    def branching(x: Tensor) -> Tensor:
        return where(x > 0, x * 2 + 1, 0.0)

    assert kernels_diff.difference("f", of(plain), of(lambda x: x * 2 + 1)) is None
    found = kernels_diff.difference("f", of(plain), of(branching))
    assert found is not None and found.added > found.removed


def test_a_kernel_that_came_and_one_that_went() -> None:
    found = kernels_diff.compare({"old": "a\nb", "both": "c"}, {"both": "c", "new": "d"})
    assert [(d.kernel, d.added, d.removed) for d in found] == [("old", 0, 2), ("new", 1, 0)]


def test_a_report_says_how_many_and_is_cut_to_length() -> None:
    found = kernels_diff.compare({"f": "\n".join("abcdef")}, {"f": "\n".join("uvwxyz")})
    lines = list(kernels_diff.report(3, found, 4))
    assert lines[0] == "f: 6 lines more, 6 lines less" and lines[-2:] == ["    ... 9 more", "1 of 3 texts differ"]
    assert list(kernels_diff.report(3, [], 4)) == ["3 texts, all equal"]


@pytest.fixture
def repository(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one commit on main; its program prints the text in a file."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    place = tmp_path / "repository"
    place.mkdir()
    (place / "kernel.py").write_text(f"TEXT = {IR!r}\n", encoding="utf-8")
    (place / "program.py").write_text("import json, kernel\nprint(json.dumps({'f: LLVM IR': kernel.TEXT}))\n", encoding="utf-8")
    git(place, "init", "--quiet", "--initial-branch=main")
    git(place, "add", ".")
    git(place, "-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "-m", "first")
    monkeypatch.chdir(place)
    return place


def git(place: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=place, check=True, capture_output=True, text=True).stdout


def test_a_checkout_is_compared_with_main(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kernels_diff.main(["program.py"]) == 0
    assert "1 texts, all equal" in capsys.readouterr().out
    (repository / "kernel.py").write_text(f"TEXT = {IR.replace('mul', 'shl')!r}\n", encoding="utf-8")
    assert kernels_diff.main(["--ref", "HEAD", "program.py"]) == 1
    said = capsys.readouterr().out
    assert "f: LLVM IR: 1 lines more, 1 lines less" in said and "+  %v2 = shl i64 %v1, %v1" in said
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_what_cannot_be_compared_is_said_in_a_line(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kernels_diff.main(["--ref", "nowhere", "program.py"]) == 2
    assert capsys.readouterr().err.startswith("kernels-diff: git rev-parse: ")
    (repository / "kernel.py").write_text("raise ValueError('no kernel here')\n", encoding="utf-8")
    assert kernels_diff.main(["program.py"]) == 2
    assert "no kernel here" in capsys.readouterr().err


def test_the_renderers_kernels_are_written_for_every_width(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", root / "renderer" / "app" / "kernel_texts.py", root / "scenes"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for scene in ("cornell", "gallery"):
        for width in (16, 8, 4):
            place = f"{scene}, kernel 0, {width} lanes"
            assert found[f"{place}: kernel"].startswith("kernel ")
            assert f"<{width} x float>" in found[f"{place}: LLVM IR"]
