"""The house keeps its order: a storey imports only those below it, and the README names the commands there are."""

from __future__ import annotations

import argparse
import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from renderer.app import cli

# Storeys from the ground up; what stands on one line may import each other.
ENGINE = (
    ("graph",),
    ("compiler", "frontend"),
    ("runtime",),
    ("jit", "signature", "replay", "stored", "outside", "purity", "native"),
    ("inspect",),
)
RENDERER = (("vec",), ("bvh", "sampling"), ("scene", "shading"), ("pipeline",), ("app",))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the dotted name of everything that a file imports, at any depth."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def storey(house: tuple[tuple[str, ...], ...], part: str) -> int | None:
    """The height of a part of a package; None for what stands outside (the package's public names, its programs)."""
    return next((height for height, parts in enumerate(house) if part in parts), None)


@pytest.mark.parametrize(("package", "house"), [("engine", ENGINE), ("renderer", RENDERER)])
def test_each_storey_imports_only_those_below(package: str, house: tuple[tuple[str, ...], ...], root: Path) -> None:
    wrong = []
    for path in sorted((root / package).rglob("*.py")):
        height = storey(house, path.relative_to(root / package).parts[0].removesuffix(".py"))
        for line, name in imports(path):
            parts = name.split(".")
            above = storey(house, parts[1]) if parts[0] == package and len(parts) > 1 else None
            if height is not None and above is not None and above > height:
                wrong.append(f"{path.relative_to(root)}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_every_part_of_a_package_has_its_storey(root: Path) -> None:
    outside = {"__init__", "bench"}  # the public names, and a program that uses them
    for package, house in (("engine", ENGINE), ("renderer", RENDERER)):
        there = {path.relative_to(root / package).parts[0].removesuffix(".py") for path in (root / package).rglob("*.py")}
        assert there - outside == {part for parts in house for part in parts}, package


def test_the_engine_knows_nothing_of_the_renderer(root: Path) -> None:
    for path in (root / "engine").rglob("*.py"):
        assert not any(name.split(".")[0] == "renderer" for _, name in imports(path)), path


INSIDE = {"static.py", "static_program.py", "kernel_texts.py", "kernel.py"}  # the yardsticks beside the engine, and host code of its own


def test_the_renderer_uses_the_engines_public_names(root: Path) -> None:
    """Only what is measured beside the engine, or made of its parts for the host, looks inside it."""
    for path in (root / "renderer").rglob("*.py"):
        inside = [name for _, name in imports(path) if name.startswith("engine.") and len(name.split(".")) > 2]
        assert path.name in INSIDE or not inside, f"{path} imports {', '.join(inside)}"


def test_the_readme_names_the_commands_that_there_are(root: Path) -> None:
    told = set(re.findall(r"^    rayfuse (\w+)", (root / "README.md").read_text(encoding="utf-8"), re.MULTILINE))
    (commands,) = (
        action.choices for action in cli.parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    assert told == set(commands)


def test_what_lies_among_the_modules_is_installed_with_them(root: Path) -> None:
    told = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"]
    packed = {f"{package.replace('.', '/')}/{name}" for package, names in told.items() for name in names}
    there = [path for package in ("engine", "renderer") for path in (root / package).rglob("*.*") if "__pycache__" not in path.parts]
    assert packed == {path.relative_to(root).as_posix() for path in there if path.suffix != ".py"}
