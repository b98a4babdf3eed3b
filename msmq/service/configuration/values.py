"""The values of a configuration: those of its files and of the environment, with where each was set."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

from msmq.control.server.resources.estate_members import check_endpoint
from msmq.net.hosts import host_key, parse_address, parse_host_entry
from msmq.quoting import quoted
from msmq.service.configuration.problems import ConfigurationProblem, dotted
from msmq.service.environment import environment_values
from msmq.service.keys import TABLES
from msmq.service.settings import OriginKind, ValueOrigin
from msmq.toml.document import DocumentError, nearest, read_document
from msmq.toml.lines import Path as KeyPath
from msmq.toml.value_kinds import Array, computer_name, type_name

_T = TypeVar("_T")

SHADOW: Final = "shadow"
"""The name of the tables with shadows of queues."""

BRIDGE: Final = "bridge"
"""The name of the tables with routes of the bridge."""


@attrs.define
class ConfigurationValues:
    """Values and problems of one configuration while it is read.

    @param path: the first file; C{None} without one.
    @ivar tables: by table and key, the values that are set.
    @ivar files: the files that were read.
    @ivar bridge_tables: the routes of the bridge in each file that has some.
    @ivar shadow_tables: the shadows of queues in each file that has some.
    """

    path: str | None
    problems: list[ConfigurationProblem] = attrs.field(factory=list)
    tables: dict[str, dict[str, Any]] = attrs.field(init=False)
    files: list[str] = attrs.field(init=False, factory=list)
    bridge_tables: list[object] = attrs.field(init=False, factory=list)
    shadow_tables: list[object] = attrs.field(init=False, factory=list)
    _origins: dict[KeyPath, tuple[str | None, int | None]] = attrs.field(init=False, factory=dict)
    _reads: list[str | None] = attrs.field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self.tables = {table: {} for table in TABLES}

    def read_file(self, path: Path) -> None:
        """Read a file; what it sets wins over what was read before."""
        file = str(path)
        self._reads.append(file)
        self.files.append(file)
        try:
            document = read_document(path)
        except DocumentError as error:
            self.problems.append(ConfigurationProblem(file, error.line, "", error.problem))
            return
        self._origins.update({key: (file, line) for key, line in document.lines.items()})
        for table, entries in document.values.items():
            self._read_table(table, entries)

    def read_directory(self, directory: Path) -> None:
        """Read the files C{*.toml} of a directory, if it exists, in the order of their names.

        A directory that exists and cannot be read is a problem: a server without its settings, such as those
        of C{[security]}, must not start.
        """
        self._reads.append(str(directory))
        try:
            names = os.listdir(directory)
        except (FileNotFoundError, NotADirectoryError) as error:
            # A link to nothing, or a file of that name, is a mistake.
            if os.path.lexists(directory):
                self.problems.append(_unreadable(directory, error))
            return
        except OSError as error:
            self.problems.append(_unreadable(directory, error))
            return
        for name in sorted(names):
            if name.endswith(".toml"):
                self.read_file(directory / name)

    def read_environment(self, environment: Mapping[str, str]) -> None:
        """Read the variables C{MSMQ_SECTION_KEY}."""
        for found in environment_values(environment):
            path = (found.table, found.key)
            self._reads.append(found.variable)
            self._origins[path] = found.variable, None
            if found.problem:
                self.refuse(path, found.problem)
            else:
                self._read_table(found.table, {found.key: found.value})

    def _read_table(self, table: str, entries: object) -> None:
        if table == BRIDGE:
            self.bridge_tables.append(entries)
        elif table == SHADOW:
            self.shadow_tables.append(entries)
        elif table not in TABLES:
            self.refuse((table,), f"is not a table of the configuration{nearest(table, TABLES)}")
        elif not isinstance(entries, dict):
            self.refuse((table,), f"must be a table, not {type_name(entries)}")
        elif table == "hosts":
            self._read_hosts(entries)
        elif table == "control_servers":
            self._read_control_servers(entries)
        else:
            for key, value in entries.items():
                self._read_key(table, key, value)

    def _read_key(self, table: str, key: str, value: object) -> None:
        known = TABLES[table].get(key)
        if known is None:
            self.refuse((table, key), f"is not a key of [{table}]{nearest(key, TABLES[table])}")
        elif isinstance(known.kind, Array) and isinstance(value, list):
            of = known.kind.element
            read = [self.attempt((table, key, i), of.read, element) for i, element in enumerate(value)]
            self.tables[table][key] = tuple(read)
        else:
            read_value = self.attempt((table, key), known.kind.read, value)
            if read_value is not None:
                self.tables[table][key] = read_value

    def _texts(self, table: str, entries: Mapping[str, object]) -> Iterator[tuple[str, str]]:
        """The entries of a table with texts under any names; others are refused."""
        for name, value in entries.items():
            if isinstance(value, str):
                yield name, value
                continue
            hint = "; a name with dots needs quotes" if isinstance(value, dict) else ""
            self.refuse((table, name), f"must be text, not {type_name(value)}{hint}")

    def _read_hosts(self, entries: Mapping[str, object]) -> None:
        seen: dict[str, str] = {}
        for name, value in self._texts("hosts", entries):
            path = ("hosts", name)
            if parse_address(name) is None:
                self.attempt(path, computer_name, name)
            self.attempt(path, parse_host_entry, value)
            for former in [each for each in self.tables["hosts"] if host_key(each) == host_key(name)]:
                if former not in seen.values():
                    # A file that is read later overrides the entry of the host.
                    del self.tables["hosts"][former]
            other = seen.setdefault(host_key(name), name)
            if other != name:
                self.refuse(path, f"is the same host as {quoted(other)}, which the table names too")
            self.tables["hosts"][name] = value

    def _read_control_servers(self, entries: Mapping[str, object]) -> None:
        seen: dict[str, str] = {}
        for name, value in self._texts("control_servers", entries):
            path = ("control_servers", name)
            self.attempt(path, computer_name, name)
            endpoint = self.attempt(path, check_endpoint, value)
            other = seen.setdefault(name.casefold(), name)
            if other != name:
                self.refuse(path, f"is the same queue manager as {quoted(other)}, which the table names too")
            if endpoint is not None:
                self.tables["control_servers"][name] = endpoint

    def get(self, table: str, key: str) -> Any:
        """The value of a key, or its default."""
        return self.tables[table].get(key, TABLES[table][key].default)

    def fields(self, table: str, settings: type) -> dict[str, Any]:
        """The keys of a table that are fields of a settings class."""
        fields = attrs.fields_dict(settings)
        return {key: value for key, value in self.tables[table].items() if key in fields}

    def all_values(self) -> dict[str, dict[str, object]]:
        """The value of each key, defaults included."""
        return {
            table: {**{key: known.default for key, known in keys.items()}, **self.tables[table]}
            for table, keys in TABLES.items()
        }

    def value_origin(self, key: KeyPath) -> ValueOrigin:
        """Where a key was set."""
        source, line = self._origin(key)
        kind = OriginKind.FILE if source in self.files else OriginKind.ENVIRONMENT
        return ValueOrigin(kind, source or "", line)

    def attempt(self, path: KeyPath, read: Callable[..., _T], *values: object) -> _T | None:
        """Call a reader; its C{ValueError} is a problem of the key."""
        try:
            return read(*values)
        except ValueError as error:
            self.refuse(path, str(error))
            return None

    def refuse(self, path: KeyPath, problem: str, *, is_warning: bool = False) -> None:
        """Note a problem of a key."""
        self.problems.append(ConfigurationProblem(*self._origin(path), dotted(path), problem, is_warning))

    def sorted_problems(self) -> list[ConfigurationProblem]:
        """All problems, in the order of the file's lines."""
        order = {path: number for number, path in enumerate(self._reads)}
        return sorted(self.problems, key=lambda each: (order.get(each.path, -1), each.line or 0))

    def _origin(self, path: KeyPath) -> tuple[str | None, int | None]:
        """Where a key is set: a file and its line, or a variable; the first file if it is not set."""
        return self._origins.get(path, self._origins.get(path[:2], (self.path, None)))


def _unreadable(directory: Path, error: OSError) -> ConfigurationProblem:
    return ConfigurationProblem(str(directory), None, "", f"cannot be read: {error.strerror}")
