"""The Python files of the project, and the parsed modules of the package."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.wiring import Vocabulary

PROJECT = Path(__file__).resolve().parents[2]


def python_files(*directories: str) -> list[Path]:
    """Every Python file of the project below these directories, in a stable order."""
    return sorted(path for directory in directories for path in (PROJECT / directory).rglob("*.py"))


def module_name(path: Path) -> str:
    """The dotted name by which a file of the package is imported."""
    parts = path.relative_to(PROJECT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def parsed_package() -> dict[str, ast.Module]:
    """The modules of the package by their names."""
    return {module_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in python_files("msmq")}


@cache
def vocabulary() -> Vocabulary:
    """The attributes that the classes of the package annotate."""
    return Vocabulary.of(parsed_package().values())
