"""The tables C{[[shadow]]} of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from msmq.quoting import quoted
from msmq.structures.names.format_name import parse_format_names
from msmq.structures.names.name_text import is_format_name
from msmq.structures.names.path_name import parse_path_name
from msmq.structures.status import MQError
from msmq.toml.document import nearest
from msmq.toml.lines import Path as KeyPath
from msmq.toml.value_kinds import Seconds, Text, ValueKind, type_name

MOST_SHADOWS: Final = 64
"""Limit on shadows of a configuration."""

CORRELATION: Final = "correlation"
"""Answers are paired by the identifiers of the messages that they answer."""

ROUTE: Final = "bridge:"
"""What a destination begins with that is a route of the bridge."""

PAIRINGS: Final = (CORRELATION, "label", "body")


@attrs.frozen(kw_only=True)
class ShadowSettings:
    """One shadow.

    @ivar queue: the path of a queue with a message log.
    @ivar to: where copies are sent: a format name, or the path of a queue.
    @ivar route: the route of the bridge that forwards that queue; empty if C{to} is not such a route.
    @ivar original: the path of the queue with the answers to the messages; empty to compare nothing.
    @ivar shadow: the path of the queue with the answers to the copies.
    @ivar paired_by: how answers are paired.
    @ivar late: seconds.
    """

    queue: str
    to: str
    original: str = ""
    shadow: str = ""
    paired_by: str = CORRELATION
    late: float = 5.0
    route: str = ""

    @property
    def destination(self) -> str:
        """The destination, for people."""
        return f"{ROUTE}{self.route}" if self.route else self.to


def _path(text: str) -> None:
    try:
        parse_path_name(text)
    except MQError as error:
        raise ValueError(f"must be the path of a queue: {error.detail}") from error


def _destination(text: str) -> None:
    if text.startswith(ROUTE):
        return
    if not is_format_name(text):
        _path(text)
        return
    try:
        parse_format_names(text)
    except MQError as error:
        raise ValueError(f"must be a format name or the path of a queue: {error.detail}") from error


def _pairing(text: str) -> None:
    if text not in PAIRINGS:
        raise ValueError(f"must be {', '.join(PAIRINGS)}, not {quoted(text)}")


_COMPARE: Final[Mapping[str, ValueKind]] = {
    "original": Text(_path, "the path of a queue"),
    "shadow": Text(_path, "the path of a queue"),
    "paired_by": Text(_pairing, "correlation, label or body"),
    "late": Seconds(0.001, 86_400),
}


@attrs.define
class ShadowTables:
    """Reads the tables, and collects everything that is wrong.

    @ivar refuse: called with the key and the problem.
    @ivar routes: the routes of the bridge to a broker, with the queues that they forward.
    """

    refuse: Callable[[KeyPath, str], None]
    routes: Mapping[str, str] = attrs.field(factory=dict)

    def read(self, entries: object) -> tuple[ShadowSettings, ...]:
        """Read the value of the key C{shadow}."""
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            self.refuse(("shadow",), "must be tables, each with the header [[shadow]]")
            return ()
        if len(entries) > MOST_SHADOWS:
            self.refuse(("shadow",), f"has {len(entries)} tables; the limit is {MOST_SHADOWS}")
            return ()
        found: dict[str, ShadowSettings] = {}
        for index, entry in enumerate(entries):
            settings = self._read(("shadow", index), entry)
            if settings is None:
                continue
            if settings.queue.lower() in found:
                self.refuse(("shadow", index, "queue"), f"is {quoted(settings.queue)}, as in another table")
            found[settings.queue.lower()] = settings
        return tuple(found.values())

    def _read(self, path: KeyPath, entry: Mapping[str, object]) -> ShadowSettings | None:
        kinds: Mapping[str, ValueKind] = {
            "queue": Text(_path, "the path of a queue"),
            "to": Text(_destination, "a format name, a path or bridge:ROUTE"),
        }
        values: dict[str, Any] = {}
        is_valid = True
        for key, value in entry.items():
            if key == "compare":
                is_valid &= self._read_compare((*path, key), value, values)
            else:
                is_valid &= self._read_key((*path, key), kinds, "[[shadow]]", value, values)
        for key in kinds:
            if key not in entry:
                is_valid = False
                self.refuse(path, f"has no {key}")
        if not is_valid:
            return None
        if str(values["to"]).startswith(ROUTE):
            route = values["to"].removeprefix(ROUTE)
            if route not in self.routes:
                known = ", ".join(self.routes) or "none"
                self.refuse(
                    (*path, "to"), f"names the route {quoted(route)}; the routes to a broker are: {known}"
                )
                return None
            values |= {"route": route, "to": self.routes[route]}
        return ShadowSettings(**values)

    def _read_compare(self, path: KeyPath, value: object, values: dict[str, Any]) -> bool:
        if not isinstance(value, dict):
            self.refuse(path, f"must be a table, not {type_name(value)}")
            return False
        is_valid = True
        for key, part in value.items():
            is_valid &= self._read_key((*path, key), _COMPARE, "compare", part, values)
        for key in ("original", "shadow"):
            if key not in value:
                is_valid = False
                self.refuse(path, f"has no {key}")
        return is_valid

    def _read_key(
        self,
        path: KeyPath,
        kinds: Mapping[str, ValueKind],
        table: str,
        value: object,
        values: dict[str, Any],
    ) -> bool:
        key = str(path[-1])
        kind = kinds.get(key)
        try:
            if kind is None:
                raise ValueError(f"is not a key of {table}{nearest(key, kinds)}")
            values[key] = kind.read(value)
        except ValueError as error:
            self.refuse(path, str(error))
            return False
        return True
