"""The queue file of C{msmq apply}: the properties and the access that queues are to have, as TOML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from msmq.errors import MsmqError
from msmq.quantities import KIBIBYTE
from msmq.quoting import quoted
from msmq.toml.document import Document, DocumentError, decode_document, nearest
from msmq.toml.lines import Path as KeyPath
from msmq.toml.value_kinds import Flag, Size, Text, ValueKind, WholeSeconds, type_name

NONE: Final = "none"
"""The value of a limit that sets none."""

_MOST: Final = 0xFFFFFFFF
_LABEL_LENGTH: Final = 124


class QueueFileError(MsmqError):
    """A queue file is wrong; the text names the file, and the line and the key where it can."""


@attrs.frozen
class _Limit:
    """A size or a duration, or C{none}."""

    kind: ValueKind

    @property
    def type_name(self) -> str:
        return f'{self.kind.type_name}, or "none"'

    @property
    def range_text(self) -> str:
        return f'{self.kind.range_text}, or "none"'

    def read(self, value: object) -> object:
        if value == NONE:
            return None
        try:
            return self.kind.read(value)
        except ValueError as error:
            raise ValueError(str(error).replace("must be ", 'must be "none" or ', 1)) from None


_SIZE: Final = _Limit(Size(0, _MOST, KIBIBYTE))
_AGE: Final = _Limit(WholeSeconds(0, _MOST))


def _label(text: str) -> None:
    if len(text) > _LABEL_LENGTH:
        raise ValueError(f"must have at most {_LABEL_LENGTH} characters, not {len(text)}")


def _privacy(text: str) -> None:
    if text not in ("none", "optional", "body"):
        raise ValueError(f"must be none, optional or body, not {quoted(text)}")


def _guid(text: str) -> None:
    from msmq.wire.guid import parse_guid

    parse_guid(text)


def _any(text: str) -> None:
    if not text:
        raise ValueError("must not be empty")


PROPERTIES: Final[Mapping[str, ValueKind]] = {
    "label": Text(_label, ""),
    "transactional": Flag(),
    "journal": Flag(),
    "journal_quota": _SIZE,
    "log": Flag(),
    "log_age": _AGE,
    "log_size": _SIZE,
    "quota": _SIZE,
    "authenticate": Flag(),
    "privacy": Text(_privacy, "none, optional or body"),
    "application_type": Text(_guid, "a GUID"),
}
"""The properties of a queue that a file may have, in the order in which L{write_queue_file} writes them."""

_PATH: Final = Text(_any, "")
_OTHERS: Final = ("path", "access", "security")
_RULE: Final = ("allow", "deny", "rights")


@attrs.frozen
class AccessRule:
    """One entry of C{access}: rights that a principal is allowed or denied."""

    action: str
    principal: str
    rights: tuple[str, ...]


@attrs.frozen
class DesiredQueue:
    """One C{[[queue]]} of a file.

    @ivar path: as it is written: a path, or a format name of a queue that exists.
    @ivar properties: those that the file names; a limit is C{None} for none.
    @ivar access: the entries of the access list; C{None} if the file has none.
    @ivar security: the owner, the access list or both as SDDL, instead of C{access}.
    @ivar lines: the line of each key, counted from 1; of the table itself under the empty key.
    """

    path: str
    properties: Mapping[str, Any]
    access: tuple[AccessRule, ...] | None
    security: str | None
    lines: Mapping[str, int] = attrs.field(eq=False)

    def line(self, key: str = "") -> int:
        """The line of a key, or of the table."""
        return self.lines.get(key, self.lines[""])


def read_queue_file(name: str, content: bytes) -> list[DesiredQueue]:
    """Read a queue file.

    @param name: the name of the file, for errors.
    @raise QueueFileError: with the first problem.
    """
    try:
        document = decode_document(content)
    except DocumentError as error:
        raise _wrong(name, error.line, "", error.problem) from error
    for key in document.values:
        if key != "queue":
            line = document.lines.get((key,))
            raise _wrong(name, line, key, f"is not a key{nearest(key, ['queue'])}")
    queues = document.values.get("queue", [])
    if not isinstance(queues, list) or not all(isinstance(queue, dict) for queue in queues):
        raise _wrong(name, document.lines.get(("queue",)), "queue", "must be tables: [[queue]]")
    return [_Reading(name, document, number).queue(values) for number, values in enumerate(queues)]


def _wrong(name: str, line: int | None, key: str, problem: str) -> QueueFileError:
    where = name if line is None else f"{name}:{line}"
    return QueueFileError(": ".join([where, *([key] if key else []), problem]))


@attrs.frozen
class _Reading:
    """Reads one table of a document."""

    name: str
    document: Document
    number: int

    def queue(self, values: Mapping[str, Any]) -> DesiredQueue:
        known = (*_OTHERS, *PROPERTIES)
        for key in values:
            if key not in known:
                raise self._wrong((key,), f"is not a key{nearest(key, known)}")
        if "path" not in values:
            raise self._wrong((), "path is missing")
        if "access" in values and "security" in values:
            raise self._wrong(("security",), "excludes access; give one of them")
        path = self._read(("path",), _PATH, values["path"])
        properties = {
            key: self._read((key,), kind, values[key]) for key, kind in PROPERTIES.items() if key in values
        }
        return DesiredQueue(
            path=path,
            properties=properties,
            access=self._access(values["access"]) if "access" in values else None,
            security=self._read(("security",), _PATH, values["security"]) if "security" in values else None,
            lines={"": self._line(()), **{key: self._line((key,)) for key in values}},
        )

    def _access(self, rules: object) -> tuple[AccessRule, ...]:
        if not isinstance(rules, list):
            raise self._wrong(("access",), f"must be an array of tables, not {type_name(rules)}")
        return tuple(self._rule(("access", number), rule) for number, rule in enumerate(rules))

    def _rule(self, where: KeyPath, rule: object) -> AccessRule:
        if not isinstance(rule, dict):
            raise self._wrong(where, f"must be a table with allow or deny, and rights, not {type_name(rule)}")
        for key in rule:
            if key not in _RULE:
                raise self._wrong((*where, key), f"is not a key{nearest(key, _RULE)}")
        actions = [action for action in ("allow", "deny") if action in rule]
        if len(actions) != 1:
            raise self._wrong(where, "must have one of allow and deny")
        rights = rule.get("rights")
        if not isinstance(rights, list) or not rights or not all(isinstance(each, str) for each in rights):
            raise self._wrong(where, 'rights must be an array of words, as ["send"]')
        [action] = actions
        return AccessRule(action, self._read((*where, action), _PATH, rule[action]), tuple(rights))

    def _read(self, where: KeyPath, kind: ValueKind, value: object) -> Any:
        try:
            return kind.read(value)
        except ValueError as error:
            raise self._wrong(where, str(error)) from error

    def _wrong(self, where: KeyPath, problem: str) -> QueueFileError:
        key = ".".join(["queue", *(str(part) for part in where if isinstance(part, str))])
        return _wrong(self.name, self._line(where), key, problem)

    def _line(self, where: KeyPath) -> int:
        """The line of a key, or of the innermost table around it that has one."""
        lines = self.document.lines
        path: KeyPath = ("queue", self.number, *where)
        while path not in lines and path:
            path = path[:-1]
        return lines.get(path, 1)


def write_queue_file(queues: Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> str:
    """The text of a queue file.

    @param queues: each queue as the control API shows it, with its access list, or C{None} to leave that out.
    """
    return "\n".join(_table(queue, access) for queue, access in queues)


def _table(queue: Mapping[str, Any], access: Mapping[str, Any] | None) -> str:
    lines = ["[[queue]]", f"path = {_toml(queue['path'])}"]
    for key in PROPERTIES:
        value = queue[key]
        if value is None and key == "application_type":
            continue
        if isinstance(value, str) and not _is_unicode(value):
            lines.append(f"# {key} has lone surrogates, which no TOML file can have")
            continue
        lines.append(f"{key} = {_toml(NONE if value is None else value)}")
    if access is not None:
        lines += _access_lines(access)
    return "\n".join(lines) + "\n"


def _is_unicode(text: str) -> bool:
    return not any(0xD800 <= ord(character) <= 0xDFFF for character in text)


def _access_lines(access: Mapping[str, Any]) -> list[str]:
    entries: Sequence[Mapping[str, Any]] = access["entries"]
    if access["sddl"] == "":
        return ["# it has no security descriptor, so every account has every right"]
    if access["everything"] or not all(_is_plain(entry) for entry in entries):
        return [] if access["sddl"] is None else [f"security = {_toml(access['sddl'])}"]
    rules = [
        f"  {{ {entry['action']} = {_toml(entry['principal'])},"
        f" rights = [{', '.join(map(_toml, entry['rights']))}] }},{_comment(entry)}"
        for entry in entries
    ]
    return ["access = [", *rules, "]"]


def _is_plain(entry: Mapping[str, Any]) -> bool:
    """Whether an entry can be written as a rule, which is read as the same entry."""
    return (
        entry["action"] in ("allow", "deny")
        and bool(entry["rights"])
        and not entry["inherited"]
        and not entry["inherit_only"]
    )


def _comment(entry: Mapping[str, Any]) -> str:
    name = entry["name"]
    return f"  # {name}" if name and name != entry["principal"] and str(name).isprintable() else ""


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = str(value)
    if "'" not in text and text.isprintable():
        return f"'{text}'" if "\\" in text else f'"{text}"' if '"' not in text else f"'{text}'"
    escaped = re.sub(r'["\\]', lambda found: "\\" + found.group(), text)
    return '"' + "".join(each if each.isprintable() else _escape(each) for each in escaped) + '"'


def _escape(character: str) -> str:
    return f"\\U{ord(character):08X}"
