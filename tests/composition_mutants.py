"""Deletes every line and every argument of the composition in turn, and shows that it is noticed.

    python -m tests.composition_mutants [--tests] [--only TEXT]

The composition is the code that makes the parts of a queue manager and introduces them: the functions that
make its groups of parts, C{Parts} with its events, and C{compose}.  A mutant lacks one statement or one
argument of it.  It is killed by mypy, or else, with C{--tests}, by the tests of L{SUITES}; what survives both
is listed, and the exit status is 1.

It works on a copy of the package, with mypy's daemon, and takes a few minutes, so it is no part of the suite.
"""

from __future__ import annotations

import argparse
import ast
import copy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

PROJECT = Path(__file__).resolve().parent.parent

SOURCES = {
    **{
        f"msmq/manager/assembly/{name}.py": None
        for name in (
            "application_parts",
            "core",
            "directory_parts",
            "outgoing_parts",
            "parts",
            "security_parts",
            "transfer_parts",
        )
    },
    "msmq/service/composition.py": ("compose",),
}
"""The files of the composition, and the functions that belong to it; C{None} for all."""

SUITES = (
    ("tests.service.test_composition",),
    ("tests.manager", "tests.nodes"),
    ("tests.service", "tests.integration"),
)
"""Tests that kill what mypy lets pass, the quickest first."""


@attrs.frozen
class Mutant:
    """A file without one of its statements or arguments.

    @ivar what: the function, the line, and what is missing.
    """

    path: str
    what: str
    source: str = attrs.field(repr=False)


def functions(
    tree: ast.Module, names: Sequence[str] | None
) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of the composition."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if names is None or node.name in names:
                yield node


def mutants(path: str, source: str, names: Sequence[str] | None) -> Iterator[Mutant]:
    """Every mutant of a file."""
    original = ast.parse(source)
    for number, function in enumerate(functions(original, names)):
        nodes = list(ast.walk(function))
        for index, node in enumerate(nodes):
            for field in ("body", "orelse", "finalbody"):
                for place, statement in enumerate(
                    getattr(node, field, ()) if isinstance(node, ast.stmt) else ()
                ):
                    if _is_essential(statement):
                        continue
                    tree, changed = _copy(original, names, number, index)
                    getattr(changed, field)[place] = ast.copy_location(ast.Pass(), statement)
                    yield _mutant(path, function.name, statement, tree)
            if isinstance(node, ast.Call):
                for field in ("args", "keywords"):
                    for place, argument in enumerate(getattr(node, field)):
                        tree, changed = _copy(original, names, number, index)
                        del getattr(changed, field)[place]
                        yield _mutant(path, function.name, argument, tree)


def _is_essential(statement: ast.stmt) -> bool:
    """Docstrings, imports and what is nothing but a block; its statements are mutants of their own."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return True
    return isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.Pass)


def _copy(
    original: ast.Module, names: Sequence[str] | None, number: int, index: int
) -> tuple[ast.Module, ast.AST]:
    tree = copy.deepcopy(original)
    function = list(functions(tree, names))[number]
    return tree, list(ast.walk(function))[index]


def _mutant(path: str, function: str, missing: ast.AST, tree: ast.Module) -> Mutant:
    text = ast.unparse(missing).splitlines()[0]
    return Mutant(path, f"{function}, line {getattr(missing, 'lineno', 0)}: {text[:90]}", ast.unparse(tree))


class Bench:
    """A copy of the package in which mutants are tried."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("msmq", "tests", "twisted", "examples"):
            shutil.copytree(PROJECT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("setup.cfg", "pyproject.toml"):
            shutil.copy(PROJECT / name, directory / name)
        self._status = directory / "dmypy.json"

    def check_types(self) -> bool:
        """Whether mypy is content."""
        return self._run("mypy.dmypy", "--status-file", self._status, "run", "--", "msmq") == 0

    def test(self) -> bool:
        """Whether the tests pass."""
        options = ("--exitfirst", "--temp-directory=_trial_temp")
        return all(self._run("twisted.trial", *options, *suite) == 0 for suite in SUITES)

    def stop(self) -> None:
        """End mypy's daemon."""
        self._run("mypy.dmypy", "--status-file", self._status, "stop")

    def _run(self, module: str, *arguments: object) -> int:
        command = [sys.executable, "-m", module, *map(str, arguments)]
        return subprocess.run(command, cwd=self.directory, capture_output=True, check=False).returncode

    def survives(self, mutant: Mutant, *, with_tests: bool) -> bool:
        """Whether a mutant passes for the original."""
        path = self.directory / mutant.path
        original = path.read_text(encoding="utf-8")
        path.write_text(mutant.source, encoding="utf-8")
        try:
            return self.check_types() and not (with_tests and not self.test())
        finally:
            path.write_text(original, encoding="utf-8")


def main() -> int:
    """Try every mutant, and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tests", action="store_true", help="run the tests on what mypy lets pass")
    parser.add_argument("--only", default="", help="only mutants whose description has this in it")
    options = parser.parse_args()
    found = [
        mutant
        for path, names in SOURCES.items()
        for mutant in mutants(path, (PROJECT / path).read_text(encoding="utf-8"), names)
        if options.only in mutant.what
    ]
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory))
        try:
            if not bench.check_types():
                print("mypy is not content with the original")
                return 2
            survivors = []
            for mutant in found:
                if bench.survives(mutant, with_tests=options.tests):
                    survivors.append(mutant)
                    print(f"survives: {mutant.path} {mutant.what}", flush=True)
        finally:
            bench.stop()
    print(f"{len(found)} mutants, {len(found) - len(survivors)} killed, {len(survivors)} survive")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
