"""Line numbers of the keys and array elements of a TOML text.

C{tomllib} parses values without their positions; this finds their lines.
It scans a text that C{tomllib} has accepted, so it neither validates the text nor parses values: it only
finds their ends.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping

import attrs

Path = tuple[str | int, ...]
"""Keys, and indices within arrays, from the root to a value: C{("site", 0, "name")}."""

_SPACE = re.compile(r"[ \t]*")
_BETWEEN = re.compile(r"(?:[ \t\n,]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL = re.compile(r"'[^'\n]*'")
_MULTILINE_BASIC = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}', re.DOTALL)
_MULTILINE_LITERAL = re.compile(r"'''.*?'{3,5}", re.DOTALL)
_SCALAR = re.compile(r"[^,\]}#\n]+")


def locate(text: str) -> Mapping[Path, int]:
    """The line, counted from 1, of every key and array element of a valid TOML text.

    A table with several headers or dotted keys has the line of the first one.

    @raise ValueError: the text is not TOML; C{tomllib} says why.
    """
    scanner = _Scanner(text.replace("\r\n", "\n"))
    scanner.document()
    return scanner.lines


@attrs.define
class _Scanner:
    text: str
    position: int = 0
    lines: dict[Path, int] = attrs.field(factory=dict)
    _starts: list[int] = attrs.field(init=False)
    _tables_in_array: dict[Path, int] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self._starts = [0, *(found.end() for found in re.finditer("\n", self.text))]

    def document(self) -> None:
        table: Path = ()
        self._skip(_BETWEEN)
        while self.position < len(self.text):
            if self.text.startswith("[[", self.position):
                table = self._header("[[", "]]")
            elif self._peek() == "[":
                table = self._header("[", "]")
            else:
                self._key_and_value(table)
            self._skip(_BETWEEN)

    def _header(self, opening: str, closing: str) -> Path:
        self._expect(opening)
        line = self._line()
        parts = self._key()
        self._expect(closing)
        table: Path = ()
        for part in parts[:-1]:
            table = self._current((*table, part), line)
        table = (*table, parts[-1])
        if closing == "]]":
            self._tables_in_array[table] = self._tables_in_array.get(table, 0) + 1
        return self._current(table, line)

    def _current(self, table: Path, line: int) -> Path:
        """The table itself, or the last one of an array of tables."""
        self.lines.setdefault(table, line)
        if table in self._tables_in_array:
            table = (*table, self._tables_in_array[table] - 1)
            self.lines.setdefault(table, line)
        return table

    def _key_and_value(self, table: Path) -> None:
        self._skip(_SPACE)
        line = self._line()
        path = table
        for part in self._key():
            path = (*path, part)
            self.lines.setdefault(path, line)
        self._expect("=")
        self._value(path)

    def _key(self) -> list[str]:
        parts = [self._key_part()]
        while self._peek() == ".":
            self._expect(".")
            parts.append(self._key_part())
        return parts

    def _key_part(self) -> str:
        self._skip(_SPACE)
        quoted = {'"': _BASIC, "'": _LITERAL}.get(self._peek())
        token = self._take(quoted or _BARE_KEY)
        self._skip(_SPACE)
        return token if quoted is None else str(tomllib.loads(f"key = {token}")["key"])

    def _value(self, path: Path) -> None:
        self._skip(_SPACE)
        if self._peek() == "[":
            self._array(path)
        elif self._peek() == "{":
            self._inline_table(path)
        elif self.text.startswith('"""', self.position):
            self._take(_MULTILINE_BASIC)
        elif self.text.startswith("'''", self.position):
            self._take(_MULTILINE_LITERAL)
        elif self._peek() == '"':
            self._take(_BASIC)
        elif self._peek() == "'":
            self._take(_LITERAL)
        else:
            self._take(_SCALAR)

    def _array(self, path: Path) -> None:
        self._expect("[")
        self._skip(_BETWEEN)
        index = 0
        while self._peek() != "]":
            element = (*path, index)
            self.lines[element] = self._line()
            self._value(element)
            self._skip(_BETWEEN)
            index += 1
        self._expect("]")

    def _inline_table(self, path: Path) -> None:
        self._expect("{")
        self._skip(_BETWEEN)
        while self._peek() != "}":
            self._key_and_value(path)
            self._skip(_BETWEEN)
        self._expect("}")

    def _peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def _line(self) -> int:
        return bisect_right(self._starts, self.position)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self.text, self.position)
        if found is not None:
            self.position = found.end()

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.position)
        if found is None:
            raise ValueError(f"line {self._line()} is not TOML")
        self.position = found.end()
        return found.group()

    def _expect(self, token: str) -> None:
        if not self.text.startswith(token, self.position):
            raise ValueError(f"line {self._line()} is not TOML")
        self.position += len(token)
