"""Reads the configuration file of a bridge that is a process of its own.

Everything that is wrong is reported, each with its line and key.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

from msmq.bridge_program.machine_check import bridge_machine_problems
from msmq.bridge_program.settings import DATA, BridgeConfiguration
from msmq.bridge_service.route_table import RouteTables
from msmq.bridge_service.settings import InwardSettings, OutwardSettings
from msmq.control.client.locations import parse_location, with_absolute_files
from msmq.net.endpoints import OFF, parse_control_endpoint, parse_remote_control_endpoint, substitute_data
from msmq.quoting import quoted
from msmq.service.configuration import ConfigurationError, ConfigurationProblem
from msmq.service.keys import TABLES, Key
from msmq.service.settings import LogSettings
from msmq.toml.document import DocumentError, nearest, read_document
from msmq.toml.lines import Path as KeyPath
from msmq.toml.value_kinds import Text, computer_name, type_name

_T = TypeVar("_T")

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_END: Final = re.compile(r"([A-Za-z0-9_.-]{1,64}):(.+)", re.DOTALL)

LARGEST_NUMBER: Final = 64
"""Limit on queue managers of a bridge."""


def _trail_name(text: str) -> None:
    if _NAME.fullmatch(text) is None:
        raise ValueError(f"must be letters, digits, '.', '-' and '_', at most 64, not {quoted(text)}")


def _directory(text: str) -> None:
    if not text or "\0" in text:
        raise ValueError("must be the path of a directory")


KEYS: Final[Mapping[str, Mapping[str, Key]]] = {
    "program": {
        "name": Key(Text(_trail_name, "letters, digits, . - _")),
        "data": Key(Text(_directory, "a directory"), DATA),
    },
    "listen": {name: TABLES["listen"][name] for name in ("control", "web")},
    "log": TABLES["log"],
    "security": {name: TABLES["security"][name] for name in ("control_token_file", "control_group")},
}
"""The keys of the tables, beside C{[control_servers]} and C{[[bridge]]}."""

_SERVERS: Final = "control_servers"
_ROUTES: Final = "bridge"


@attrs.frozen(kw_only=True)
class BridgeOverrides:
    """The options of the command line, which win over the file; C{None} where one is not given."""

    data: str | None = None
    name: str | None = None


def check_bridge(path: str | Path) -> list[ConfigurationProblem]:
    """All problems of a configuration file; an empty list if it is valid.

    If there is no other problem, the files that it names are read: tokens, certificates, the data directory.
    """
    reading = _BridgeReading(str(path))
    try:
        configuration = _read(reading, Path(path), BridgeOverrides())
    except ConfigurationError as error:
        return list(error.problems)
    for key, problem in bridge_machine_problems(configuration):
        reading.refuse(key, problem)
    return reading.sorted_problems()


def load_bridge(path: str | Path, overrides: BridgeOverrides | None = None) -> BridgeConfiguration:
    """Read a configuration file.

    @raise ConfigurationError: it is invalid; lists every problem.
    """
    return _read(_BridgeReading(str(path)), Path(path), BridgeOverrides() if overrides is None else overrides)


def _read(reading: _BridgeReading, path: Path, overrides: BridgeOverrides) -> BridgeConfiguration:
    try:
        document = read_document(path)
    except DocumentError as error:
        raise ConfigurationError([ConfigurationProblem(str(path), error.line, "", error.problem)]) from error
    reading.lines = document.lines
    found = reading.configure(document.values, overrides)
    if reading.problems:
        raise ConfigurationError(reading.sorted_problems())
    return found


@attrs.define
class _BridgeReading:
    """One file while it is read."""

    path: str
    problems: list[ConfigurationProblem] = attrs.field(factory=list)
    lines: Mapping[KeyPath, int] = attrs.field(factory=dict)
    _values: dict[str, dict[str, Any]] = attrs.field(factory=dict, init=False)

    def configure(self, document: Mapping[str, Any], overrides: BridgeOverrides) -> BridgeConfiguration:
        for table, entries in document.items():
            self._read_table(table, entries)
        data = Path(os.path.abspath(overrides.data or self._get("program", "data")))
        name = (
            overrides.name
            or self._get("program", "name")
            or f"{socket.gethostname().partition('.')[0]}-bridge"
        )
        if _NAME.fullmatch(name) is None:
            self.refuse(
                ("program", "name"), f"is {quoted(name)}; set it to letters, digits, '.', '-' and '_'"
            )
        servers = self._servers(document.get(_SERVERS, {}))
        security = self._values.get("security", {})
        token_file = security.get("control_token_file")
        web = self._endpoint("web", data, parse_remote_control_endpoint)
        if web is not None and not web.is_loopback and token_file is None:
            self.refuse(
                ("listen", "web"),
                "is reached from other hosts, and needs the file of a token, [security] control_token_file",
            )
        return BridgeConfiguration(
            name=name,
            data=data,
            control=self._endpoint("control", data, parse_control_endpoint),
            web=web,
            token_file=None if token_file is None else Path(token_file),
            control_group=security.get("control_group"),
            log=LogSettings(**self._values.get("log", {})),
            control_servers=servers,
            routes=self._routes(name, document.get(_ROUTES), servers),
        )

    def _read_table(self, table: str, entries: object) -> None:
        if table in (_SERVERS, _ROUTES):
            return
        known = KEYS.get(table)
        if known is None:
            names = (*KEYS, _SERVERS, _ROUTES)
            self.refuse((table,), f"is not a table of the configuration of a bridge{nearest(table, names)}")
        elif not isinstance(entries, dict):
            self.refuse((table,), f"must be a table, not {type_name(entries)}")
        else:
            values = self._values.setdefault(table, {})
            for key, value in entries.items():
                if key not in known:
                    self.refuse((table, key), f"is not a key of [{table}]{nearest(key, known)}")
                    continue
                read = self._try((table, key), known[key].kind.read, value)
                if read is not None:
                    values[key] = read

    def _servers(self, entries: object) -> dict[str, str]:
        found: dict[str, str] = {}
        if not isinstance(entries, dict):
            self.refuse((_SERVERS,), f"must be a table, not {type_name(entries)}")
            return found
        if len(entries) > LARGEST_NUMBER:
            self.refuse((_SERVERS,), f"has {len(entries)} queue managers; the limit is {LARGEST_NUMBER}")
            return found
        for name, text in entries.items():
            path = (_SERVERS, name)
            if not isinstance(text, str):
                hint = "; a name with dots needs quotes" if isinstance(text, dict) else ""
                self.refuse(path, f"must be text, not {type_name(text)}{hint}")
                continue
            self._try(path, computer_name, name)
            location = self._try(path, _location, text)
            if any(other.casefold() == name.casefold() for other in found):
                self.refuse(path, "is the same queue manager as another entry")
            if location is not None:
                found[name] = location
        return found

    def _routes(
        self, name: str, entries: object, servers: Mapping[str, str]
    ) -> tuple[OutwardSettings | InwardSettings, ...]:
        if not entries:
            self.refuse((_ROUTES,), "is missing: a bridge has at least one table [[bridge]]")
            return ()
        routes = RouteTables(name, self.refuse).read(entries)
        if not isinstance(entries, list):
            return routes
        found = []
        for route in routes:
            index = next(index for index, each in enumerate(entries) if each.get("name") == route.name)
            key = "to" if isinstance(route, InwardSettings) else "from"
            try:
                server, queue = _queue_manager(route.queue, servers)
            except ValueError as error:
                self.refuse((_ROUTES, index, key), str(error))
                continue
            found.append(attrs.evolve(route, queue_manager=server, queue=queue))
        return tuple(found)

    def _get(self, table: str, key: str) -> Any:
        return self._values.get(table, {}).get(key, KEYS[table][key].default)

    def _endpoint(self, key: str, data: Path, parse: Callable[[str], _T]) -> _T | None:
        text = substitute_data(self._get("listen", key), data)
        return None if text == OFF else self._try(("listen", key), parse, text)

    def _try(self, path: KeyPath, read: Callable[..., _T], *values: object) -> _T | None:
        try:
            return read(*values)
        except ValueError as error:
            self.refuse(path, str(error))
            return None

    def sorted_problems(self) -> list[ConfigurationProblem]:
        """All problems, in the order of their lines."""
        return sorted(self.problems, key=lambda each: each.line or 0)

    def refuse(self, path: KeyPath, problem: str) -> None:
        """Note a problem of a key."""
        line = self.lines.get(path, self.lines.get(path[:2], self.lines.get(path[:1])))
        key = "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}" if number else part
            for number, part in enumerate(path)
        )
        self.problems.append(ConfigurationProblem(self.path, line, key, problem))


def _location(text: str) -> str:
    """The location of a queue manager's control API, with absolute paths.

    @raise ValueError: it is invalid, or needs a token and names no C{tokenFile}.
    """
    parse_location(text)
    return with_absolute_files(text)


def _queue_manager(end: str, servers: Mapping[str, str]) -> tuple[str, str]:
    r"""The queue manager and the queue of an end, C{NAME:QUEUE}; C{NAME:} may be left out if there is one.

    @raise ValueError: there is no such queue manager.
    """
    names = ", ".join(servers) or "none"
    match = _END.fullmatch(end)
    if match is None:
        if len(servers) == 1:
            return next(iter(servers)), end
        raise ValueError(f"names no queue manager: write NAME:{end}; [control_servers] has {names}")
    for name in servers:
        if name.casefold() == match[1].casefold():
            return name, match[2]
    raise ValueError(f"names the queue manager {quoted(match[1])}; [control_servers] has {names}")
