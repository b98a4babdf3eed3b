"""Reads the script of a double from TOML, with a line for each error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import UUID

import attrs

from msmq.double.script import DoubleScript, Fault, PeerAnswer, PeerRule
from msmq.errors import LocalProtocolError, MsmqError
from msmq.quoting import kind_of, quoted
from msmq.structures.packet.message_class import MessageClass
from msmq.toml.document import Document, DocumentError, nearest, parse_document, read_document
from msmq.toml.lines import Path as KeyPath
from msmq.toml.value_kinds import type_name

T = TypeVar("T")

_KEYS: Final = ("identifier", "ping", "session", "fault")
_RULE: Final = ("answer", "count")
_FAULT: Final = ("action", "queue", "label", "kind", "after", "count", "every", "seconds", "class")


class ScriptError(MsmqError):
    """A script cannot be used; has a line C{FILE:LINE: KEY: PROBLEM} for each error."""


def read_script(path: str | Path) -> DoubleScript:
    """Read the script in a file.

    @raise ScriptError: it has errors; all are reported.
    """
    try:
        document = read_document(Path(path))
    except DocumentError as error:
        raise ScriptError(_line(str(path), error.line, "", error.problem)) from error
    return _Reading(str(path), document.lines).read(document)


def parse_script(text: str) -> DoubleScript:
    """Parse the text of a script.

    @raise ScriptError: it has errors; all are reported.
    """
    given: object = text
    if not isinstance(given, str):
        raise LocalProtocolError(f"parse_script: text is {kind_of(given)}; it has to be a str")
    try:
        document = parse_document(text)
    except DocumentError as error:
        raise ScriptError(_line("script", error.line, "", error.problem)) from error
    return _Reading("script", document.lines).read(document)


def _line(path: str, line: int | None, key: str, problem: str) -> str:
    where = path if line is None else f"{path}:{line}"
    return ": ".join([where, *([key] if key else []), problem])


@attrs.define
class _Reading:
    path: str
    lines: Mapping[KeyPath, int]
    problems: list[tuple[int, str]] = attrs.field(factory=list)

    def read(self, document: Document) -> DoubleScript:
        values = document.values
        for key in values:
            if key not in _KEYS:
                self.refuse((key,), f"is not a key of a script{nearest(key, _KEYS)}")
        entries = self.entries(values.get("fault", []))
        faults = [self.fault(index, entry) for index, entry in enumerate(entries)]
        rules = {name: self.rule(name, values.get(name, {})) for name in ("ping", "session")}
        identifier = self.identifier(values.get("identifier"))
        if not self.problems:
            try:
                return DoubleScript(
                    faults=tuple(fault for fault in faults if fault is not None),
                    pings=rules["ping"],
                    sessions=rules["session"],
                    identifier=identifier,
                )
            except LocalProtocolError as error:
                self.refuse(("fault",), str(error))
        raise ScriptError("\n".join(text for _, text in sorted(self.problems)))

    def entries(self, entries: object) -> list[Any]:
        if isinstance(entries, list):
            return entries
        self.refuse(("fault",), "must be an array of tables, each written as [[fault]]")
        return []

    def fault(self, index: int, entry: object) -> Fault | None:
        key_path: KeyPath = ("fault", index)
        values = self.table(key_path, entry, _FAULT)
        if values is None:
            return None
        if "action" not in values:
            self.refuse(key_path, "needs its action, such as action = 'delay'")
            return None
        if "class" in values:
            name = values.pop("class")
            found = MessageClass.__members__.get(name) if isinstance(name, str) else None
            if found is None:
                negative = [each for each in MessageClass.__members__ if each.startswith("NACK_")]
                hint = nearest(name, negative) if isinstance(name, str) else ""
                self.refuse((*key_path, "class"), f"{quoted(name)} is not a message class{hint}")
                return None
            values["message_class"] = found
        return self.made(key_path, Fault, values)

    def rule(self, name: str, entry: object) -> PeerRule:
        values = self.table((name,), entry, _RULE)
        rule = None if values is None else self.made((name,), PeerRule, values)
        if rule is None:
            return PeerRule()
        if name == "session" and rule.answer is PeerAnswer.IGNORE:
            self.refuse((name, "answer"), "answer is 'ignore'; it has to be one of 'accept', 'refuse'")
        return rule

    def made(self, key_path: KeyPath, make: Callable[..., T], values: Mapping[str, Any]) -> T | None:
        try:
            return make(**values)
        except LocalProtocolError as error:
            key = str(error).partition(" ")[0]
            self.refuse((*key_path, key) if (*key_path, key) in self.lines else key_path, str(error))
            return None

    def identifier(self, value: object) -> UUID | None:
        if value is None:
            return None
        try:
            return UUID(value if isinstance(value, str) else "")
        except ValueError:
            self.refuse(("identifier",), f"must be a GUID as text, not {quoted(value)}")
            return None

    def table(self, key_path: KeyPath, entry: object, keys: tuple[str, ...]) -> dict[str, Any] | None:
        if not isinstance(entry, dict):
            self.refuse(key_path, f"must be a table, not {type_name(entry)}")
            return None
        for key in entry:
            if key not in keys:
                self.refuse((*key_path, key), f"is not a key here{nearest(key, keys)}")
        return {key: value for key, value in entry.items() if key in keys}

    def refuse(self, key_path: KeyPath, problem: str) -> None:
        # A key that is missing has the line of its table.
        starts = (key_path[:length] for length in range(len(key_path), 0, -1))
        line = next((self.lines[start] for start in starts if start in self.lines), None)
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key_path)
        self.problems.append((line or 0, _line(self.path, line, key.removeprefix("."), problem)))
