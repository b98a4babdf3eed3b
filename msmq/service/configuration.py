"""Reads the configuration file and the options into one frozen L{Configuration}.

Everything that is wrong is reported, each with its file, line and key.
It is longer than other files, since the readers of all tables stand together, in the order of the file.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from msmq.archive_service.settings import ArchiveSettings, problem_of
from msmq.control.server.resources.estate_members import check_endpoint
from msmq.directory.factory import DirectoryDescriptionError
from msmq.errors import MsmqError
from msmq.membership.divergence import DirectoryChanges
from msmq.net.endpoints import (
    OFF,
    parse_control_endpoint,
    parse_datagram_endpoint,
    parse_remote_control_endpoint,
    parse_stream_endpoint,
    replace_interface,
    substitute_data,
)
from msmq.net.hosts import host_key, parse_address, parse_host_entry
from msmq.quoting import quoted
from msmq.security.access.rules import NO_RULES, RulesError, load_rules, principal
from msmq.service.directory_probe import try_directory
from msmq.service.environment import environment_values
from msmq.service.exposure import exposure
from msmq.service.keys import TABLES, directory_backend, storage_backend
from msmq.service.load_arguments import check_load_arguments
from msmq.service.machine_check import machine_problems
from msmq.service.settings import (
    Configuration,
    LimitSettings,
    ListenSettings,
    LogSettings,
    OriginKind,
    QueueManagerSettings,
    QueueSettings,
    SecuritySettings,
    StorageSharing,
    TimerSettings,
    ValueOrigin,
    WebSettings,
)
from msmq.settings import SessionSettings
from msmq.shadow_service.settings import ShadowSettings, ShadowTables
from msmq.storage.factory import StorageDescriptionError, check_sharing, probe_store
from msmq.toml.document import DocumentError, nearest, read_document
from msmq.toml.lines import Path as KeyPath
from msmq.toml.value_kinds import Array, computer_name, type_name

if TYPE_CHECKING:
    from msmq.bridge_service.settings import InwardSettings, OutwardSettings

_T = TypeVar("_T")

SHADOW: Final = "shadow"
"""The name of the tables with shadows of queues."""

BRIDGE: Final = "bridge"
"""The name of the tables with routes of the bridge."""

DROP_INS: Final = "conf.d"
"""The directory next to a configuration file whose files are read after it."""

_ADDRESSED = ("session", "ping", "discovery")
_OPTIONS: Final[Sequence[tuple[str, Callable[[Overrides], str | None], Sequence[tuple[str, str]]]]] = (
    ("--data", lambda given: given.data, [("queue_manager", "data")]),
    ("--name", lambda given: given.name, [("queue_manager", "name")]),
    ("--address", lambda given: given.address, [("listen", key) for key in _ADDRESSED]),
    ("--storage", lambda given: given.storage, [("storage", "backend")]),
    ("--directory", lambda given: given.directory, [("directory", "backend")]),
)
"""The keys that each option sets."""
_ROUTING_SERVER_CLEANUP = 120.0


@attrs.frozen
class ConfigurationProblem:
    """One problem of a configuration.

    @ivar path: the file; C{None} for an option of the command line.
    @ivar line: the line of the file, counted from 1; C{None} if it has none.
    @ivar key: the key with its table (C{limits.quota}) or the option (C{--address}); empty for the
        file as a whole.
    @ivar problem: what is wrong, in words that finish "the value ...".
    @ivar is_warning: the configuration is valid all the same.
    """

    path: str | None
    line: int | None
    key: str
    problem: str
    is_warning: bool = False

    def __str__(self) -> str:
        where = [] if self.path is None else [self.path if self.line is None else f"{self.path}:{self.line}"]
        return ": ".join([*where, *([self.key] if self.key else []), self.problem])


class ConfigurationError(MsmqError):
    """A configuration cannot be used.

    @ivar problems: every problem, in the order of the file's lines.
    """

    def __init__(self, problems: Sequence[ConfigurationProblem]) -> None:
        super().__init__(problems)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


@attrs.frozen(kw_only=True)
class Overrides:
    """The options of the command line, which win over the file; C{None} where one is not given."""

    data: str | None = None
    name: str | None = None
    address: str | None = None
    storage: str | None = None
    directory: str | None = None


def check(path: str | Path) -> list[ConfigurationProblem]:
    """All problems of a configuration file; an empty list if it is valid.

    If there is no other problem, a remote store and a remote directory are tried, which may take some
    seconds.
    The list includes warnings about settings that are valid but unsafe.
    """
    reading, configuration = _read(path, Overrides(), os.environ)
    if not reading.problems:
        reading.probe_machine(configuration)
    if not reading.problems:
        reading.probe_storage(configuration)
    if not reading.problems:
        reading.probe_directory(configuration)
    if not any(not problem.is_warning for problem in reading.problems):
        reading.warn(configuration)
    return reading.sorted_problems()


@attrs.frozen
class ConfigurationSource:
    """The file and the options of a server, to be read again when they are to be reloaded."""

    path: str | Path | None
    overrides: Overrides

    def load(self) -> Configuration:
        """L{load} them.

        @raise ConfigurationError: the configuration is invalid; lists every problem.
        """
        return load(self.path, self.overrides)


def load(
    path: str | Path | None = None,
    overrides: Overrides | None = None,
    environment: Mapping[str, str] | None = None,
) -> Configuration:
    """Read a configuration file, and fill in what the options and the defaults say.

    The files C{conf.d/*.toml} next to the file are read after it, in the order of their names; a variable
    C{MSMQ_SECTION_KEY} wins over files, an option over both.
    A relative path, in the file or an option, is relative to the working directory.

    @param path: the file; C{None} for the defaults.
    @param environment: the variables; by default those of the process.
    @raise ConfigurationError: the configuration is invalid; lists every problem.
    @raise LocalProtocolError: an argument has another type; names it.
    """
    check_load_arguments(path, overrides, Overrides)
    variables = os.environ if environment is None else environment
    reading, configuration = _read(path, overrides or Overrides(), variables)
    if reading.problems:
        raise ConfigurationError(reading.sorted_problems())
    return configuration


def _read(
    path: str | Path | None, overrides: Overrides, environment: Mapping[str, str]
) -> tuple[_Reading, Configuration]:
    reading = _Reading(None if path is None else str(path))
    if path is not None:
        reading.read_file(Path(path))
        for further in sorted((Path(path).parent / DROP_INS).glob("*.toml")):
            reading.read_file(further)
    reading.read_environment(environment)
    return reading, reading.configure(overrides)


@attrs.define
class _Reading:
    """One configuration while it is read."""

    path: str | None
    problems: list[ConfigurationProblem] = attrs.field(factory=list)
    _values: dict[str, dict[str, Any]] = attrs.field(init=False)
    _origins: dict[KeyPath, tuple[str | None, int | None]] = attrs.field(init=False, factory=dict)
    _reads: list[str | None] = attrs.field(init=False, factory=list)
    _files: list[str] = attrs.field(init=False, factory=list)
    _bridge_tables: list[object] = attrs.field(init=False, factory=list)
    _shadow_tables: list[object] = attrs.field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self._values = {table: {} for table in TABLES}

    def read_file(self, path: Path) -> None:
        file = str(path)
        self._reads.append(file)
        self._files.append(file)
        try:
            document = read_document(path)
        except DocumentError as error:
            self.problems.append(ConfigurationProblem(file, error.line, "", error.problem))
            return
        self._origins.update({key: (file, line) for key, line in document.lines.items()})
        for table, entries in document.values.items():
            self._read_table(table, entries)

    def read_environment(self, environment: Mapping[str, str]) -> None:
        for found in environment_values(environment):
            path = (found.table, found.key)
            self._reads.append(found.variable)
            self._origins[path] = found.variable, None
            if found.problem:
                self._refuse(path, found.problem)
            else:
                self._read_table(found.table, {found.key: found.value})

    def _read_table(self, table: str, entries: object) -> None:
        if table == BRIDGE:
            self._bridge_tables.append(entries)
        elif table == SHADOW:
            self._shadow_tables.append(entries)
        elif table not in TABLES:
            self._refuse((table,), f"is not a table of the configuration{nearest(table, TABLES)}")
        elif not isinstance(entries, dict):
            self._refuse((table,), f"must be a table, not {type_name(entries)}")
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
            self._refuse((table, key), f"is not a key of [{table}]{nearest(key, TABLES[table])}")
        elif isinstance(known.kind, Array) and isinstance(value, list):
            of = known.kind.element
            read = [self._try((table, key, i), of.read, element) for i, element in enumerate(value)]
            self._values[table][key] = tuple(read)
        else:
            read_value = self._try((table, key), known.kind.read, value)
            if read_value is not None:
                self._values[table][key] = read_value

    def _read_hosts(self, entries: Mapping[str, object]) -> None:
        seen: dict[str, str] = {}
        for name, value in entries.items():
            path = ("hosts", name)
            if not isinstance(value, str):
                hint = "; a name with dots needs quotes" if isinstance(value, dict) else ""
                self._refuse(path, f"must be text, not {type_name(value)}{hint}")
                continue
            if parse_address(name) is None:
                self._try(path, computer_name, name)
            self._try(path, parse_host_entry, value)
            for former in [each for each in self._values["hosts"] if host_key(each) == host_key(name)]:
                if former not in seen.values():
                    # A file that is read later overrides the entry of the host.
                    del self._values["hosts"][former]
            other = seen.setdefault(host_key(name), name)
            if other != name:
                self._refuse(path, f"is the same host as {quoted(other)}, which the table names too")
            self._values["hosts"][name] = value

    def _read_control_servers(self, entries: Mapping[str, object]) -> None:
        seen: dict[str, str] = {}
        for name, value in entries.items():
            path = ("control_servers", name)
            if not isinstance(value, str):
                hint = "; a name with dots needs quotes" if isinstance(value, dict) else ""
                self._refuse(path, f"must be text, not {type_name(value)}{hint}")
                continue
            self._try(path, computer_name, name)
            endpoint = self._try(path, check_endpoint, value)
            other = seen.setdefault(name.casefold(), name)
            if other != name:
                self._refuse(path, f"is the same queue manager as {quoted(other)}, which the table names too")
            if endpoint is not None:
                self._values["control_servers"][name] = endpoint

    def configure(self, overrides: Overrides) -> Configuration:
        """Fill in options and defaults, and check the values against each other."""
        self._take_options(overrides)
        queue_manager = self._queue_manager()
        bridges = self._bridges(queue_manager.name)
        return Configuration(
            queue_manager=queue_manager,
            listen=self._listen(queue_manager.data, overrides.address),
            storage=self._get("storage", "backend"),
            storage_sharing=self._sharing(),
            directory=self._get("directory", "backend"),
            directory_changes=DirectoryChanges(self._get("directory", "changes")),
            directory_options={
                key: value
                for key, value in self._values["directory"].items()
                if key not in ("backend", "changes")
            },
            routing=self._get("routing", "backend"),
            control_servers=dict(self._values["control_servers"]),
            hosts=dict(self._values["hosts"]),
            session=self._session(),
            queues=QueueSettings(**self._fields("queues", QueueSettings)),
            limits=LimitSettings(**self._fields("limits", LimitSettings)),
            timers=TimerSettings(**self._fields("timers", TimerSettings)),
            values=self._all_values(),
            origins=self._value_origins(overrides),
            files=tuple(self._files),
            log=LogSettings(**self._fields("log", LogSettings)),
            web=WebSettings(**self._fields("web", WebSettings)),
            security=self._security(),
            bridges=bridges,
            shadows=self._shadows(bridges),
            archive=self._archive(queue_manager.data),
        )

    def _bridges(self, name: str) -> tuple[OutwardSettings | InwardSettings, ...]:
        """The routes of the bridge; of several files with routes the last one counts."""
        if not self._bridge_tables:
            return ()
        # A server without routes imports neither the bridge nor pika.
        from msmq.bridge_service.route_table import RouteTables

        return RouteTables(name, self._refuse).read(self._bridge_tables[-1])

    def _shadows(self, bridges: Sequence[OutwardSettings | InwardSettings]) -> tuple[ShadowSettings, ...]:
        """The shadows of queues; of several files with such tables the last one counts."""
        if not self._shadow_tables:
            return ()
        routes = {each.name: each.queue for each in bridges if not hasattr(each, "broker_queue")}
        return ShadowTables(self._refuse, routes).read(self._shadow_tables[-1])

    def _archive(self, data: Path) -> ArchiveSettings:
        fields = self._fields("archive", ArchiveSettings)
        if not fields.get("streams", ArchiveSettings.streams):
            self._refuse(("archive", "streams"), "names no stream")
        directory = fields.pop("directory", OFF)
        if directory == OFF:
            return ArchiveSettings(**fields)
        directory = Path(os.path.abspath(directory.replace("{data}", str(data))))
        settings = ArchiveSettings(**fields, directory=directory)
        if problem := problem_of(settings, self._get("storage", "backend"), data):
            self._refuse(("archive", "directory"), problem)
        return settings

    def _sharing(self) -> StorageSharing:
        sharing = StorageSharing(**self._fields("storage", StorageSharing))
        if sharing.standby:
            self._try(("storage", "standby"), check_sharing, self._get("storage", "backend"))
        return sharing

    def _all_values(self) -> dict[str, dict[str, object]]:
        """The value of each key, defaults included."""
        return {
            table: {**{key: known.default for key, known in keys.items()}, **self._values[table]}
            for table, keys in TABLES.items()
        }

    def _value_origins(self, overrides: Overrides) -> dict[str, ValueOrigin]:
        """Where each key that is set was set."""
        keys = [(table, key) for table, values in self._values.items() for key in values]
        origins = {_dotted(key): self._value_origin(key) for key in keys}
        if self._bridge_tables:
            origins[BRIDGE] = self._value_origin((BRIDGE,))
        if self._shadow_tables:
            origins[SHADOW] = self._value_origin((SHADOW,))
        for option, given, set_by_option in _OPTIONS:
            if given(overrides) is not None:
                for table, key in set_by_option:
                    if table != "listen" or self._get(table, key) != OFF:
                        origins[f"{table}.{key}"] = ValueOrigin(OriginKind.OPTION, option)
        return origins

    def _value_origin(self, key: KeyPath) -> ValueOrigin:
        source, line = self._origin(key)
        kind = OriginKind.FILE if source in self._files else OriginKind.ENVIRONMENT
        return ValueOrigin(kind, source or "", line)

    def probe_machine(self, configuration: Configuration) -> None:
        """Check that the files, directories and group of the configuration exist on this machine."""
        for key, problem in machine_problems(configuration):
            self._refuse(key, problem)

    def probe_storage(self, configuration: Configuration) -> None:
        """Check that the store would open, as far as possible without opening it."""

        def probe() -> None:
            try:
                probe_store(configuration.storage, configuration.queue_manager.data)
            except StorageDescriptionError as error:
                raise ValueError(f"cannot be used: {error}") from error

        self._try(("storage", "backend"), probe)

    def probe_directory(self, configuration: Configuration) -> None:
        """Check that the directory accepts the account and has the base; an unreachable directory is a
        warning.
        """

        def probe() -> None:
            try:
                away = try_directory(configuration)
            except DirectoryDescriptionError as error:
                raise ValueError(f"cannot be used: {error}") from error
            if away:
                key = ("directory", "backend")
                problem = f"could not be checked: {away}"
                self.problems.append(ConfigurationProblem(*self._origin(key), _dotted(key), problem, True))

        self._try(("directory", "backend"), probe)

    def warn(self, configuration: Configuration) -> None:
        """Warnings about settings that are unsafe."""
        warning = exposure(configuration)
        if warning is not None:
            key = ("listen", "session")
            self.problems.append(ConfigurationProblem(*self._origin(key), _dotted(key), warning, True))

    def sorted_problems(self) -> list[ConfigurationProblem]:
        """All problems, in the order of the file's lines."""
        order = {path: number for number, path in enumerate(self._reads)}
        return sorted(self.problems, key=lambda each: (order.get(each.path, -1), each.line or 0))

    def _take_options(self, overrides: Overrides) -> None:
        for option, value, table, key, accept in (
            ("--name", overrides.name, "queue_manager", "name", computer_name),
            ("--storage", overrides.storage, "storage", "backend", storage_backend),
            ("--directory", overrides.directory, "directory", "backend", directory_backend),
        ):
            if value is not None:
                self._try_option(option, accept, value)
                self._values[table][key] = value
        if overrides.data is not None:
            self._values["queue_manager"]["data"] = overrides.data
            self._try_option("--data", TABLES["queue_manager"]["data"].kind.read, overrides.data)
        if overrides.address is not None and parse_address(overrides.address) is None:
            self.problems.append(
                ConfigurationProblem(
                    None, None, "--address", f"must be an IP address, not {quoted(overrides.address)}"
                )
            )

    def _queue_manager(self) -> QueueManagerSettings:
        fields = self._fields("queue_manager", QueueManagerSettings)
        host = socket.gethostname()
        fields.setdefault("dns_name", fields.get("name", host))
        fields.setdefault("name", host.partition(".")[0])
        fields["data"] = Path(os.path.abspath(self._get("queue_manager", "data")))
        return QueueManagerSettings(**fields)

    def _session(self) -> SessionSettings:
        fields = {
            # The default of a server is another one than that of the settings.
            "window_size": self._get("limits", "window_size"),
            **self._fields("queue_manager", SessionSettings),
            **self._fields("limits", SessionSettings),
            **self._fields("timers", SessionSettings),
            **self._fields("security", SessionSettings),
        }
        if self._get("queue_manager", "routing_server"):
            fields.setdefault("session_cleanup", _ROUTING_SERVER_CLEANUP)
        settings = SessionSettings(**fields)
        if settings.recoverable_ack_minimum > settings.recoverable_ack_maximum:
            self._refuse(
                ("timers", "recoverable_ack_minimum"),
                f"is {settings.recoverable_ack_minimum:g}, more than recoverable_ack_maximum, "
                f"{settings.recoverable_ack_maximum:g}",
            )
        return settings

    def _security(self) -> SecuritySettings:
        settings = SecuritySettings(**self._fields("security", SecuritySettings))
        if settings.unauthenticated == "deny" and settings.peers:
            self._refuse(("security", "peers"), 'refuses every message, because unauthenticated is "deny"')
        rules = NO_RULES
        if settings.rules is not None:
            try:
                rules = load_rules(Path(settings.rules))
            except RulesError as error:
                for wrong in error.problems:
                    if wrong.line is None:
                        self._refuse(("security", "rules"), f"names {wrong.path}, which {wrong.problem}")
                    else:
                        self.problems.append(
                            ConfigurationProblem(wrong.path, wrong.line, wrong.key, wrong.problem)
                        )
        if settings.owner is not None:
            self._try(("security", "owner"), principal, settings.owner, rules)
        return settings

    def _listen(self, data: Path, address: str | None) -> ListenSettings:
        texts = {key: substitute_data(self._get("listen", key), data) for key in TABLES["listen"]}
        if address is not None and parse_address(address) is not None:
            bare = str(parse_address(address))
            for key in _ADDRESSED:
                if texts[key] != OFF:
                    texts[key] = self._try(("listen", key), replace_interface, texts[key], bare) or OFF

        def endpoint(key: str, parse: Callable[[str], _T]) -> _T | None:
            return None if texts[key] == OFF else self._try(("listen", key), parse, texts[key])

        if texts["remote_control"] != OFF and self._get("security", "control_token_file") is None:
            self._refuse(
                ("listen", "remote_control"), "needs the file of a token, [security] control_token_file"
            )
        web = endpoint("web", parse_remote_control_endpoint)
        if web is not None and not web.is_loopback and self._get("security", "control_token_file") is None:
            self._refuse(
                ("listen", "web"),
                "is reached from other hosts, and needs the file of a token, [security] control_token_file",
            )
        return ListenSettings(
            session=endpoint("session", parse_stream_endpoint),
            ping=endpoint("ping", parse_datagram_endpoint),
            discovery=endpoint("discovery", parse_datagram_endpoint),
            control=endpoint("control", parse_control_endpoint),
            remote_control=endpoint("remote_control", parse_remote_control_endpoint),
            web=web,
        )

    def _get(self, table: str, key: str) -> Any:
        return self._values[table].get(key, TABLES[table][key].default)

    def _fields(self, table: str, settings: type) -> dict[str, Any]:
        """The keys of a table that are fields of a settings class."""
        fields = attrs.fields_dict(settings)
        return {key: value for key, value in self._values[table].items() if key in fields}

    def _try(self, path: KeyPath, read: Callable[..., _T], *values: object) -> _T | None:
        try:
            return read(*values)
        except ValueError as error:
            self._refuse(path, str(error))
            return None

    def _try_option(self, option: str, read: Callable[[str], object], value: str) -> None:
        try:
            read(value)
        except ValueError as error:
            self.problems.append(ConfigurationProblem(None, None, option, str(error)))

    def _refuse(self, path: KeyPath, problem: str) -> None:
        self.problems.append(ConfigurationProblem(*self._origin(path), _dotted(path), problem))

    def _origin(self, path: KeyPath) -> tuple[str | None, int | None]:
        """Where a key is set: a file and its line, or a variable; the first file if it is not set."""
        return self._origins.get(path, self._origins.get(path[:2], (self.path, None)))


def _dotted(path: KeyPath) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
