"""Whether a change left the kernels as they were: generated source, compared with another commit's.

    python -m engine.inspect.kernels_diff [--ref COMMIT] [--lines N] PROGRAM [ARGUMENT...]

PROGRAM is a Python file that prints a JSON object, name of a kernel -> its text. It runs twice, with PYTHONPATH at this checkout and at
COMMIT (default: where this branch left `main`), which is checked out into a temporary worktree. Exit code 0: all kernels are equal; 1:
some are not, and standard output has a summary and the beginning of each difference; 2: it could not be told.

Registers and labels mean nothing by their names, and one new instruction renumbers all that follow. So two texts are equal if they are
after every name has been replaced by its place in the order of first appearance; and where they are not, lines are matched with the
names left out, so that a difference shows what was added, removed or changed, and not what was renumbered. (Where instructions came or
went, one that only takes another operand than before is not shown beside them.)
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r'%[\w.$-]+|%"[^"]*"|^[\w.$-]+(?=:$)|\bv\d+\b(?![\w.])', re.MULTILINE)
_CONTEXT = 2  # equal lines shown around a difference


class ComparisonError(Exception):
    """Kernels could not be had; the text says which and why."""


@dataclass(frozen=True)
class Difference:
    """A kernel that is not what it was. `lines`: of a unified diff; counts are of lines."""

    kernel: str
    added: int
    removed: int
    lines: list[str]


def canonical(text: str) -> str:
    """The text with its registers and labels named by the order in which they first appear."""
    names: dict[str, str] = {}
    return _NAME.sub(lambda found: names.setdefault(found[0].lstrip("%"), f"%{len(names)}"), text)


def shape(text: str) -> list[str]:
    """The lines of the text without the names."""
    return _NAME.sub("%", text).splitlines()


def difference(kernel: str, before: str, after: str) -> Difference | None:
    """What changed in one kernel; None where nothing did but names."""
    if canonical(before) == canonical(after):
        return None
    old, new = before.splitlines(), after.splitlines()
    old_key, new_key = shape(before), shape(after)
    if old_key == new_key:  # the same instructions, of other operands: only the names tell
        old, new = canonical(before).splitlines(), canonical(after).splitlines()
        old_key, new_key = old, new
    added, removed, lines = 0, 0, []
    for group in difflib.SequenceMatcher(None, old_key, new_key).get_grouped_opcodes(_CONTEXT):
        lines.append(f"@@ -{group[0][1] + 1} +{group[0][3] + 1} @@")
        for kind, a, b, c, d in group:
            if kind == "equal":
                lines += [f" {line}" for line in new[c:d]]
            else:
                lines += [f"-{line}" for line in old[a:b]] + [f"+{line}" for line in new[c:d]]
                removed, added = removed + b - a, added + d - c
    return Difference(kernel, added, removed, lines)


def compare(before: dict[str, str], after: dict[str, str]) -> list[Difference]:
    """The kernels that differ, those that came or went among them."""
    pairs = ((name, before.get(name, ""), after.get(name, "")) for name in dict.fromkeys((*before, *after)))
    return [found for found in itertools.starmap(difference, pairs) if found is not None]


def report(kernels: int, differences: Sequence[Difference], most: int) -> Iterator[str]:
    """The summary, and up to `most` lines of each difference."""
    for found in differences:
        yield f"{found.kernel}: {found.added} lines more, {found.removed} lines less"
        yield from (f"    {line}" for line in found.lines[:most])
        if len(found.lines) > most:
            yield f"    ... {len(found.lines) - most} more"
    yield f"{len(differences)} of {kernels} texts differ" if differences else f"{kernels} texts, all equal"


def kernels_of(root: Path, program: Sequence[str]) -> dict[str, str]:
    """What the program prints with the packages of the checkout at `root`. Raises ComparisonError."""
    environment = {k: v for k, v in os.environ.items() if k not in ("DEBUG", "NOOPT", "CHECK")}
    environment |= {"PYTHONPATH": str(root), "JIT_CACHE": "off"}  # neither takes what the other made
    command = [sys.executable, "-P", *program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ComparisonError(f"{program[0]} fails in {root}: {last}")
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=root)
    if done.returncode:
        raise ComparisonError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def kernels_at(commit: str, root: Path, program: Sequence[str]) -> dict[str, str]:
    """As `kernels_of`, with the packages of a commit. Raises ComparisonError."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "checkout"
        _git(root, "worktree", "add", "--detach", str(place), commit)
        try:
            return kernels_of(place, program)
        finally:
            _git(root, "worktree", "remove", "--force", str(place))


def main(argv: Sequence[str] | None = None) -> int:
    """Compares; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m engine.inspect.kernels_diff", description="Compares generated kernels.")
    parser.add_argument("--ref", metavar="COMMIT", help="what to compare with (default: where this branch left main)")
    parser.add_argument("--lines", type=int, default=20, metavar="N", help="shown of each difference (default: 20)")
    parser.add_argument("program", nargs="+", help="a Python file that prints the kernels as JSON, and its arguments")
    arguments = parser.parse_args(argv)
    program = [str(Path(part).resolve()) if Path(part).exists() else part for part in arguments.program]
    try:
        root = Path(_git(Path.cwd(), "rev-parse", "--show-toplevel"))
        named = ("rev-parse", "--verify", f"{arguments.ref}^{{commit}}") if arguments.ref else ("merge-base", "HEAD", "main")
        commit = _git(root, *named)
        after, before = kernels_of(root, program), kernels_at(commit, root, program)
    except ComparisonError as error:
        print(f"kernels-diff: {error}", file=sys.stderr)
        return 2
    differences = compare(before, after)
    print("\n".join(report(len(after.keys() | before.keys()), differences, arguments.lines)))
    if differences:
        kinds = Counter(found.kernel.rpartition(": ")[2] for found in differences)
        print(f"compared with {commit[:12]}: " + ", ".join(f"{kind} {number}" for kind, number in kinds.items()))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
