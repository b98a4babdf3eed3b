"""TOML documents: their values, and the line of each."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from msmq.errors import MsmqError
from msmq.quoting import quoted
from msmq.spelling import closest
from msmq.toml.lines import Path as KeyPath
from msmq.toml.lines import locate
from msmq.toml.syntax_errors import describe_syntax_error

_DIGITS: Final = re.compile(r"[0-9_]{4000,}")


class DocumentError(MsmqError):
    """A file cannot be read, or is not TOML.

    @ivar line: the line, counted from 1; C{None} for the file as a whole.
    @ivar problem: the predicate of a sentence that begins with "the file ...".
    """

    def __init__(self, line: int | None, problem: str) -> None:
        super().__init__(line, problem)
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        return self.problem if self.line is None else f"line {self.line}: {self.problem}"


@attrs.frozen
class Document:
    """Content of a TOML file.

    @ivar values: as C{tomllib} returns them.
    @ivar lines: the line of each key and array element, counted from 1.
    """

    values: Mapping[str, Any]
    lines: Mapping[KeyPath, int]


def read_document(path: Path) -> Document:
    """Read and parse a file.

    @raise DocumentError: it does not exist, or is not TOML.
    """
    return decode_document(read_content(path))


def read_content(path: Path) -> bytes:
    """The bytes of a file.

    @raise DocumentError: it does not exist, or cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise DocumentError(None, f"cannot be read: {error.strerror}") from error


def decode_document(content: bytes) -> Document:
    """Parse the bytes of a file.

    @raise DocumentError: it is not TOML.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DocumentError(line, "is not UTF-8") from error
    return parse_document(text)


def parse_document(text: str) -> Document:
    """Parse a text.

    @raise DocumentError: it is not TOML.
    """
    try:
        return Document(tomllib.loads(text), locate(text))
    except tomllib.TOMLDecodeError as error:
        line, problem = describe_syntax_error(text, str(error))
        raise DocumentError(line, f"is not TOML: {problem}") from error
    except ValueError as error:
        # Not a limit of TOML: Python refuses numbers with that many digits.
        number = _DIGITS.search(text)
        before = None if number is None else text[: number.start()]
        raise DocumentError(
            None if before is None else before.count("\n") + 1, "has a number of more digits than are read"
        ) from error
    except RecursionError as error:
        raise DocumentError(None, "is nested too deeply") from error


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggestion for a misspelt name, to follow "is not a key"; empty without a similar name (L{closest})."""
    meant = closest(name, known)
    return "" if meant is None else f"; did you mean {quoted(meant)}?"
