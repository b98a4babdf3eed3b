"""Access rules of an operator, and the security descriptors that they produce.

A file of rules is TOML::

    [names]
    clerks = "S-1-5-21-1-2-3-2001"

    [[queue]]
    path = 'private$\\orders*'
    allow.clerks = ["send", "peek"]
    deny.anonymous = ["send"]

    [queue_manager]
    allow.clerks = ["create-queue"]

The first C{[[queue]]} whose path matches a queue replaces the queue's own descriptor.
Its deny entries precede its allow entries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import translate
from pathlib import Path
from typing import Any, Final

import attrs

from msmq.errors import MsmqError
from msmq.interfaces.security.access import Ruling
from msmq.quoting import quoted
from msmq.toml.document import Document, DocumentError, nearest, read_document
from msmq.toml.lines import Path as KeyPath
from msmq.toml.value_kinds import type_name
from msmq.windows.access_masks import QUEUE_KIND, QUEUE_MANAGER_KIND, ObjectKind
from msmq.windows.security_descriptor import SecurityDescriptor, allow, deny
from msmq.windows.security_descriptor_aces import Ace, Acl
from msmq.windows.well_known_sids import LOCAL_SYSTEM, parse_principal
from msmq.wire.sid import parse_sid

MOST_PATHS: Final = 10_000
"""Limit on paths whose rule is cached."""


@attrs.frozen
class RuleProblem:
    """One error in a rules file.

    @ivar line: counted from 1; C{None} for the file as a whole.
    @ivar key: the key with its table; empty for an error of the whole file.
    @ivar problem: the error, as the predicate of "the value ...".
    """

    path: str
    line: int | None
    key: str
    problem: str

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return ": ".join([where, *([self.key] if self.key else []), self.problem])


class RulesError(MsmqError):
    """A rules file cannot be used.

    @ivar problems: all errors, in the order of lines.
    """

    def __init__(self, problems: tuple[RuleProblem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


@attrs.frozen
class QueueRule:
    """The rule of the queues that match a path.

    @ivar pattern: the path, with the wildcards C{*} and C{?}.
    """

    pattern: str
    ruling: Ruling
    _fits: Callable[[str], object] = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_fits", _compiled(_wanted(self.pattern)).match)

    def fits(self, path: str) -> bool:
        """Whether the rule matches the queue of this path, which has no computer name."""
        return self._fits(path.casefold()) is not None


@attrs.frozen
class Rules:
    """The rules of a file.

    @ivar names: names that the file defines for SIDs, in lower case.
    @ivar queues: the rules of queues; the first match applies.
    @ivar machine: the rule of the queue manager itself.
    """

    names: Mapping[str, bytes] = attrs.field(factory=dict)
    queues: tuple[QueueRule, ...] = ()
    machine: Ruling | None = None
    _known: dict[str, Ruling | None] = attrs.field(factory=dict, init=False, eq=False, repr=False)

    def sid_of(self, name: str) -> bytes | None:
        """The SID of a name that the file defines."""
        return self.names.get(name.casefold())

    def name_of(self, sid: bytes) -> str | None:
        """The name that the file defines for a SID."""
        return next((name for name, known in self.names.items() if known == sid), None)

    def ruling(self, path: str) -> Ruling | None:
        """The rule for the queue of this path, which has no computer name.

        It is cached, since each arrival needs it; the rules of a reload are another object.
        """
        if not self.queues:
            return None
        try:
            return self._known[path]
        except KeyError:
            pass
        ruling = next((rule.ruling for rule in self.queues if rule.fits(path)), None)
        if len(self._known) >= MOST_PATHS:
            self._known.clear()
        self._known[path] = ruling
        return ruling


NO_RULES: Final = Rules()


def load_rules(path: Path) -> Rules:
    """Read a rules file.

    @raise RulesError: the file has errors; all are reported.
    """
    reading = _Reading(str(path))
    try:
        rules = reading.read(read_document(path))
    except DocumentError as error:
        raise RulesError((RuleProblem(str(path), error.line, "", error.problem),)) from error
    if reading.problems:
        raise RulesError(tuple(sorted(reading.problems, key=lambda problem: problem.line or 0)))
    return rules


def principal(text: str, rules: Rules) -> bytes:
    """Resolve the name of an account without a directory.

    @raise ValueError: the name is neither a SID, nor a well-known name, nor defined by the rules.
    """
    return rules.sid_of(text) or parse_principal(text)


_TABLES: Final = ("names", "queue", "queue_manager")
_ACTIONS: Final[Mapping[str, Callable[[bytes, int], Ace]]] = {"deny": deny, "allow": allow}
_QUEUE_KEYS: Final = ("path", "owner", *_ACTIONS)
_MACHINE_KEYS: Final = ("owner", *_ACTIONS)


@attrs.define
class _Reading:
    path: str
    problems: list[RuleProblem] = attrs.field(factory=list)
    _names: dict[str, bytes] = attrs.field(factory=dict)
    _lines: Mapping[KeyPath, int] = attrs.field(factory=dict)

    def read(self, document: Document) -> Rules:
        self._lines = document.lines
        for table in document.values:
            if table not in _TABLES:
                self._refuse((table,), f"is not a table of the rules{nearest(table, _TABLES)}")
        self._read_names(document.values.get("names", {}))
        queues = self._read_queues(document.values.get("queue", []))
        machine = None
        if "queue_manager" in document.values:
            machine = self._ruling(
                ("queue_manager",), document.values["queue_manager"], _MACHINE_KEYS, QUEUE_MANAGER_KIND
            )
        return Rules(self._names, queues, machine)

    def _read_names(self, entries: object) -> None:
        if not isinstance(entries, dict):
            self._refuse(("names",), f"must be a table, not {type_name(entries)}")
            return
        for name, value in entries.items():
            try:
                sid = parse_sid(value if isinstance(value, str) else "")
            except ValueError:
                self._refuse(("names", name), f"must be a SID as text, not {quoted(value)}")
                continue
            # Names have no case, and a rule must not grant its rights to another account.
            if self._names.setdefault(name.casefold(), sid) != sid:
                self._refuse(("names", name), "is the name of another SID too, with other capital letters")

    def _read_queues(self, entries: object) -> tuple[QueueRule, ...]:
        if not isinstance(entries, list):
            self._refuse(("queue",), "must be an array of tables, each written as [[queue]]")
            return ()
        rules = []
        for index, entry in enumerate(entries):
            key_path: KeyPath = ("queue", index)
            ruling = self._ruling(key_path, entry, _QUEUE_KEYS, QUEUE_KIND)
            pattern = entry.get("path") if isinstance(entry, dict) else None
            if not isinstance(pattern, str) or not pattern:
                self._refuse(key_path, "needs its path, such as 'private$\\orders'")
            elif (never := _never_fits(pattern)) is not None:
                self._refuse((*key_path, "path"), never)
            elif ruling is not None:
                rules.append(QueueRule(pattern, ruling))
        return tuple(rules)

    def _ruling(
        self, key_path: KeyPath, entry: object, keys: tuple[str, ...], kind: ObjectKind
    ) -> Ruling | None:
        if not isinstance(entry, dict):
            self._refuse(key_path, f"must be a table, not {type_name(entry)}")
            return None
        for key in entry:
            if key not in keys:
                self._refuse((*key_path, key), f"is not a key of a rule{nearest(key, keys)}")
        owner = LOCAL_SYSTEM
        if "owner" in entry:
            owner = self._principal((*key_path, "owner"), entry["owner"]) or owner
        aces = [
            make(sid, mask)
            for action, make in _ACTIONS.items()
            for sid, mask in self._entries((*key_path, action), entry.get(action, {}), kind)
        ]
        line = self._lines.get(key_path)
        source = self.path if line is None else f"{self.path}:{line}"
        return Ruling(SecurityDescriptor(owner, owner, Acl(tuple(aces))), source)

    def _entries(self, key_path: KeyPath, entries: Any, kind: ObjectKind) -> list[tuple[bytes, int]]:
        if not isinstance(entries, dict):
            self._refuse(key_path, 'must be a table of principals, such as allow.everyone = ["send"]')
            return []
        found = []
        for principal, rights in entries.items():
            sid = self._principal((*key_path, principal), principal)
            mask = self._mask((*key_path, principal), rights, kind)
            if sid is not None and mask:
                found.append((sid, mask))
        return found

    def _mask(self, key_path: KeyPath, rights: object, kind: ObjectKind) -> int:
        if isinstance(rights, str):
            rights = [rights]
        if not isinstance(rights, list):
            self._refuse(key_path, f"must be rights as an array of texts, not {type_name(rights)}")
            return 0
        mask = 0
        for index, right in enumerate(rights):
            try:
                mask |= kind.parse(right if isinstance(right, str) else repr(right))
            except ValueError as error:
                where = (*key_path, index) if (*key_path, index) in self._lines else key_path
                self._refuse(where, str(error))
        return mask

    def _principal(self, key_path: KeyPath, principal: object) -> bytes | None:
        if not isinstance(principal, str):
            self._refuse(key_path, f"must be a principal as text, not {type_name(principal)}")
            return None
        found = self._names.get(principal.casefold())
        if found is not None:
            return found
        try:
            return parse_principal(principal)
        except ValueError as error:
            self._refuse(key_path, f"{error}, and [names] has no such name")
            return None

    def _refuse(self, key_path: KeyPath, problem: str) -> None:
        line = next(
            (
                self._lines[key_path[:size]]
                for size in range(len(key_path), 0, -1)
                if key_path[:size] in self._lines
            ),
            None,
        )
        self.problems.append(RuleProblem(self.path, line, _dotted(key_path), problem))


def _never_fits(pattern: str) -> str | None:
    """The reason why a pattern cannot match any queue; such a rule would protect nothing."""
    first, separator, rest = _wanted(pattern).partition("\\")
    if ";" in pattern:
        return "fits no queue: a journal and a subqueue have the rule of their queue"
    if "\\" in rest or (separator and "*" not in first and _compiled(first).match("private$") is None):
        return "fits no queue: it is 'private$\\orders', or 'orders' for a public queue, without a computer"
    return None


def _wanted(pattern: str) -> str:
    return pattern.removeprefix(".\\").casefold()


def _compiled(wanted: str) -> re.Pattern[str]:
    # A bracket in a path has no special meaning.
    return re.compile(translate(wanted.replace("[", "[[]")))


def _dotted(key_path: KeyPath) -> str:
    text = ""
    for part in key_path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
