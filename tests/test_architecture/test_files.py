"""Files: their length, their paths, and their comments to the type checker."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.test_architecture.sources import PROJECT, python_files

LINE_LIMIT = 800
MODULE_LIMIT = 25
FORBIDDEN_NAMES = ("utils", "util")


def ignore_offences(source: str) -> Iterator[str]:
    """The C{type: ignore} comments that do not say which error they mean."""
    if not re.search(r"type:\s*ignore(?!\[)", source):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and re.search(r"#\s*type:\s*ignore(?!\[)", token.string):
            yield f"line {token.start[0]}: {token.string}"


def path_offences(path: Path) -> Iterator[str]:
    """Violations in the path or name of a file, given from the project's directory."""
    if path.name == "__init__.py" and path.parts[0] == "twisted":
        yield f"{path}: hides Twisted itself"
    for part in (*path.parts[:-1], path.stem):
        if part in FORBIDDEN_NAMES:
            yield f"{path}: a helper lives with its only user or in wire, not in {part}"


def crowded_folders(paths: Iterable[Path]) -> dict[str, int]:
    """The folders with more modules than the limit, and how many; a marker of a package is none."""
    modules = Counter(str(path.parent) for path in paths if path.name != "__init__.py")
    return {folder: count for folder, count in modules.items() if count > MODULE_LIMIT}


class FileTests(SynchronousTestCase):
    """The files are where they belong, short enough, and plainly named."""

    def test_no_file_is_too_long(self) -> None:
        """A file is cut before it reaches the limit."""
        offences = {
            str(path.relative_to(PROJECT)): lines
            for path in python_files("msmq", "tests", "examples", "bench", "twisted")
            if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LINE_LIMIT
        }
        self.assertEqual(offences, {})

    def test_no_folder_is_crowded(self) -> None:
        """A package is divided before it has more modules than one can survey."""
        files = python_files("msmq", "tests", "pyspark_msmq")
        self.assertEqual(crowded_folders(path.relative_to(PROJECT) for path in files), {})

    def test_crowded_folder_is_found(self) -> None:
        """One module over the limit is too many; the marker and modules of other folders do not count."""
        folder = [Path("msmq/a/__init__.py"), *(Path(f"msmq/a/m{number}.py") for number in range(25))]
        others = [Path(f"msmq/a/b/m{number}.py") for number in range(25)]
        self.assertEqual(crowded_folders([*folder, *others]), {})
        self.assertEqual(crowded_folders([*folder, *others, Path("msmq/a/last.py")]), {"msmq/a": 26})

    def test_paths_are_sound(self) -> None:
        """No file shadows Twisted, and no package is a collection of unrelated helpers."""
        files = python_files("msmq", "tests", "examples", "bench", "twisted")
        offences = [offence for path in files for offence in path_offences(path.relative_to(PROJECT))]
        self.assertEqual(offences, [])

    def test_unsound_path_is_found(self) -> None:
        """A package marker next to the plugin, and a package of helpers, are offences."""
        for path in (
            "twisted/__init__.py",
            "twisted/plugins/__init__.py",
            "msmq/utils/text.py",
            "msmq/wire/utils.py",
        ):
            self.assertEqual(len(list(path_offences(Path(path)))), 1, path)
        self.assertEqual(list(path_offences(Path("twisted/plugins/msmq_plugin.py"))), [])

    def test_every_test_is_found(self) -> None:
        """A directory of tests is a package, or trial passes over it in silence."""
        directories = {path.parent for path in python_files("tests")}
        offences = [
            str(directory.relative_to(PROJECT))
            for directory in directories
            if not (directory / "__init__.py").exists()
        ]
        self.assertEqual(sorted(offences), [])

    def test_ignored_type_errors_are_named(self) -> None:
        """A comment that silences the type checker says which error it silences."""
        offences = [
            f"{path.relative_to(PROJECT)} {offence}"
            for path in python_files("msmq", "tests", "examples", "bench")
            for offence in ignore_offences(path.read_text(encoding="utf-8"))
        ]
        self.assertEqual(offences, [])

    def test_unnamed_ignore_is_found(self) -> None:
        """The bare comment is an offence, the one with a code and the mere text are not."""
        self.assertEqual(len(list(ignore_offences("x = 1  # type: ignore\n"))), 1)
        self.assertEqual(list(ignore_offences("x = 1  # type: ignore[misc]\ny = '# type: ignore'\n")), [])
