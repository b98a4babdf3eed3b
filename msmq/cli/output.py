"""Output of the command: tables for people, JSON lines for scripts, errors in one line.

Peers choose names, labels and bodies, and errors quote them; no control character reaches the terminal.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msmq.cli.readable import cell, printable
from msmq.errors import MsmqError

_IDENTIFYING: Final = 24
"""Characters of the first column of a table for which the columns on the right are left out."""

_LEFT_OUT: Final = "..."
"""At the end of the title of a table, for the columns that do not fit the terminal."""

_NARROWEST: Final = 8
"""Maximum width of a column of a table, in characters."""


class OutputError(MsmqError):
    """Standard output cannot be written: its reader has exited, or the disk is full."""


class ReaderEnded(OutputError):
    """The reader of the pipe that is standard output has ended, as C{head} does."""


class Output:
    """Standard output.

    @ivar as_json: one JSON object a line, and nothing else.
    @ivar utc: print times in UTC rather than in the time zone of this computer; those in JSON always are.
    """

    def __init__(self, as_json: bool, utc: bool = False) -> None:
        self.as_json = as_json
        self.utc = utc

    def object(self, value: Mapping[str, Any]) -> None:
        """Print a JSON object on one line, in ASCII, so that line ends are unambiguous."""
        self._write(json.dumps(value, separators=(", ", ": ")))

    def one(self, value: Mapping[str, Any]) -> None:
        """Print one item: as an object, or as text with a line for each key."""
        if self.as_json:
            self.object(value)
        else:
            lines = [line for key, part in value.items() for line in self._lines(key, part)]
            width = max((len(key) for key, _ in lines), default=0)
            for key, text in lines:
                self.write(f"{key:{width}}  {text}".rstrip())

    def many(self, values: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Print several items of one kind: as objects, or as a table of some of their keys."""
        if self.as_json:
            for value in values:
                self.object(value)
            return
        cells = [[self.cell(value.get(column), column) for column in columns] for value in values]
        rows = [columns, *cells]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        fit = fitted_columns(widths, [len(column) for column in columns], _terminal_width())
        for number, row in enumerate(rows):
            # The columns that do not fit are left out.
            cut = [cut_text(text, width).ljust(width) for text, width in zip(row, fit, strict=False)]
            if number == 0 and len(fit) < len(row):
                cut.append(_LEFT_OUT)
            line = "  ".join(cut).rstrip()
            if number == 0 and _has_styles():
                self._write(f"\033[1m{printable(line)}\033[0m")
            else:
                self.write(line)

    def table(self, title: str, values: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Print a titled table, in text output."""
        self.write(f"\n{title}" if values else f"\n{title}: none")
        if values:
            self.many(values, columns)

    def _lines(self, key: str, value: Any) -> list[tuple[str, str]]:
        """The lines of a value; nested mappings take a line each, other values one line."""
        if not isinstance(value, Mapping):
            return [(key, self.cell(value, key))]
        parts = {name: part for name, part in value.items() if isinstance(part, Mapping)}
        others = {name: part for name, part in value.items() if name not in parts}
        lines = [(f"{key} {cell(name)}", self.cell(part, name)) for name, part in parts.items()]
        return [*lines, (key, self.cell(others, key))] if others or not lines else lines

    def cell(self, value: Any, key: str) -> str:
        """A value as text for people; C{key} is its key."""
        return cell(value, key, utc=self.utc)

    @property
    def is_read_with_errors(self) -> bool:
        """Whether a person reads this text and standard error together, on a terminal."""
        is_shown = sys.stderr is not None and sys.stderr.isatty() and _terminal_width() is not None
        return is_shown and not self.as_json

    def text(self, text: str) -> None:
        """Print a line in text output; nothing with JSON."""
        if not self.as_json:
            self.write(text)

    def write(self, text: str) -> None:
        """Print lines with terminal control characters escaped.

        @raise OutputError: writing failed.
        """
        self._write("\n".join(printable(line, also="\t") for line in text.split("\n")))

    def _write(self, line: str) -> None:
        if sys.stdout is None:
            raise OutputError("standard output is closed")
        data = (line + "\n").encode(sys.stdout.encoding or "utf-8", "backslashreplace")
        try:
            sys.stdout.buffer.write(data)
        except OSError as error:
            raise broken_output(error) from error

    def progress(self, text: str) -> None:
        """Show progress, replacing the previous line; only on a terminal."""
        if sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{printable(text)}")
            sys.stderr.flush()

    def flush(self) -> None:
        """Flush everything to the reader.

        @raise OutputError: writing failed.
        """
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError as error:
            raise broken_output(error) from error


def _terminal_width() -> int | None:
    """Width of the terminal in columns; C{None} without a terminal, where tables are not truncated."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def _has_styles() -> bool:
    """Whether titles are bold: on a terminal, unless C{NO_COLOR} is set or the terminal is dumb."""
    if _terminal_width() is None or os.environ.get("NO_COLOR"):
        return False
    return os.environ.get("TERM", "dumb") != "dumb"


def fitted_widths(widths: Sequence[int], least: Sequence[int], width: int | None) -> list[int]:
    """Fit the widths of columns to the terminal: the widest are reduced, but none below its title."""
    fit = list(widths)
    if width is None:
        return fit
    excess = sum(fit) + 2 * (len(fit) - 1) - width
    while excess > 0:
        number = max(range(len(fit)), key=lambda each: fit[each] - max(least[each], _NARROWEST))
        if fit[number] <= max(least[number], _NARROWEST):
            break
        fit[number] -= 1
        excess -= 1
    return fit


def fitted_columns(widths: Sequence[int], least: Sequence[int], width: int | None) -> list[int]:
    """Fit a table to the terminal; there are fewer widths than columns if those on the right do not fit.

    The first column identifies the row: others are left out for it until it has its width, L{_IDENTIFYING}
    characters or a quarter of the terminal. There is space for a mark in the title then.
    """
    fit = fitted_widths(widths, least, width)
    if width is None:
        return fit
    wanted = min(widths[0], max(_IDENTIFYING, width // 4))
    count, limit = len(widths), width
    while count > 1 and (fit[0] < wanted or sum(fit) + 2 * (count - 1) > limit):
        count, limit = count - 1, width - len(_LEFT_OUT) - 2
        fit = fitted_widths(widths[:count], least[:count], limit)
    return fit


def cut_text(text: str, width: int) -> str:
    """Shorten a text to a number of characters; three dots replace its middle."""
    if len(text) <= width:
        return text
    kept = width - 3
    return f"{text[: kept - kept // 2]}...{text[len(text) - kept // 2 :]}"


def broken_output(error: OSError) -> OutputError:
    """The error for a failed write to standard output, to which nothing is written from now on."""
    # The rest of the buffer would be written again, and the error reported, when the interpreter exits.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    reason = f"standard output: {error.strerror or error}"
    return ReaderEnded(reason) if isinstance(error, BrokenPipeError) else OutputError(reason)


def system_error(error: OSError) -> str:
    """An error of the system as text, with the file that it is about."""
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{os.fsdecode(error.filename)}: {reason}"


def complain(problem: str, who: str = "msmq") -> None:
    """Print one line on standard error, with terminal control characters escaped."""
    if sys.stderr is not None:
        line = f"{who}: {printable(' '.join(problem.split()))}\n"
        try:
            sys.stderr.write(line.encode("utf-8", "backslashreplace").decode("utf-8"))
        except (OSError, UnicodeError):
            # No output is left for reporting an error.
            return
