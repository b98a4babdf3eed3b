"""Syntax errors of TOML texts for people: with the column, and the key or table that they are about."""

from __future__ import annotations

import re
from typing import Final

from msmq.quoting import quoted

_WHERE: Final = re.compile(r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)\Z")

_SWITCHES: Final = frozenset({"true", "false", "yes", "no", "on", "off"})

_KEY: Final = re.compile(r"\s*(?P<key>[A-Za-z0-9_.\- \"']{1,200}?)\s*=")

_HEADER: Final = re.compile(r"\s*(?P<header>\[{1,2}[A-Za-z0-9_.\- \"']{1,200}\]{1,2})")


def describe_syntax_error(text: str, error: str) -> tuple[int, str]:
    """The line of a syntax error, counted from 1, and what is wrong there.

    Values are not quoted, since they may be secrets.

    @param text: the TOML text.
    @param error: what C{tomllib} says about it.
    """
    found = _WHERE.search(error)
    if found is None or not found["line"]:
        return text.count("\n") + 1, f"{_WHERE.sub('', error)} at the end of the file"
    number, column = int(found["line"]), int(found["column"])
    line = text.split("\n")[number - 1]
    return number, _about(line, column, error[: found.start()])


def _about(line: str, column: int, problem: str) -> str:
    if problem == "Invalid value":
        return f"{problem} in column {column}{_hint(line[column - 1 :].strip())}"
    if problem == "Cannot overwrite a value" and (key := _KEY.match(line)) is not None:
        return f"{problem}: the key {quoted(key['key'])} is set above"
    if problem.startswith(("Cannot overwrite", "Cannot declare")) and (header := _HEADER.match(line)):
        return f"the table {header['header']} is written twice, or is a key above"
    return f"{problem} in column {column}"


def _hint(rest: str) -> str:
    if not rest or rest.startswith("#"):
        return ": a value is missing"
    if rest.partition("#")[0].strip().casefold() in _SWITCHES:
        return ": write true or false"
    # Texts, paths and addresses; the first character of other values is a digit, a sign or a bracket.
    if rest[0].isalpha() or rest[0] in "._/\\~$%*@":
        return ': a text needs quotes, as in key = "text"'
    return ""
