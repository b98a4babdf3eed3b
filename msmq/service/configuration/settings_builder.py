"""Builds the settings of a server from the values of its configuration and the options."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from msmq.archive_service.settings import ArchiveSettings, problem_of
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
from msmq.net.hosts import parse_address
from msmq.quoting import quoted
from msmq.security.access.rules import NO_RULES, RulesError, load_rules, principal
from msmq.service.configuration.problems import ConfigurationProblem, dotted
from msmq.service.configuration.values import BRIDGE, SHADOW, ConfigurationValues
from msmq.service.keys import TABLES, directory_backend, storage_backend
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
from msmq.storage.factory import check_sharing
from msmq.toml.value_kinds import computer_name

if TYPE_CHECKING:
    from msmq.bridge_service.settings import InwardSettings, OutwardSettings

_T = TypeVar("_T")
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


@attrs.frozen(kw_only=True)
class Overrides:
    """The options of the command line, which win over the file; C{None} where one is not given."""

    data: str | None = None
    name: str | None = None
    address: str | None = None
    storage: str | None = None
    directory: str | None = None


class SettingsBuilder:
    """Builds the settings; what is wrong becomes problems of the values."""

    def __init__(self, values: ConfigurationValues, overrides: Overrides) -> None:
        self._values = values
        self._overrides = overrides

    def build(self) -> Configuration:
        """Fill in options and defaults, and check the values against each other."""
        values = self._values
        overrides = self._overrides
        self._take_options(overrides)
        queue_manager = self._queue_manager()
        bridges = self._bridges(queue_manager.name)
        return Configuration(
            queue_manager=queue_manager,
            listen=self._listen(queue_manager.data, overrides.address),
            storage=values.get("storage", "backend"),
            storage_sharing=self._sharing(),
            directory=values.get("directory", "backend"),
            directory_changes=DirectoryChanges(values.get("directory", "changes")),
            directory_options={
                key: value
                for key, value in values.tables["directory"].items()
                if key not in ("backend", "changes")
            },
            routing=values.get("routing", "backend"),
            control_servers=dict(values.tables["control_servers"]),
            hosts=dict(values.tables["hosts"]),
            session=self._session(),
            queues=QueueSettings(**values.fields("queues", QueueSettings)),
            limits=LimitSettings(**values.fields("limits", LimitSettings)),
            timers=TimerSettings(**values.fields("timers", TimerSettings)),
            values=values.all_values(),
            origins=self._value_origins(overrides),
            files=tuple(values.files),
            log=LogSettings(**values.fields("log", LogSettings)),
            web=WebSettings(**values.fields("web", WebSettings)),
            security=self._security(),
            bridges=bridges,
            shadows=self._shadows(bridges),
            archive=self._archive(queue_manager.data),
        )

    def _bridges(self, name: str) -> tuple[OutwardSettings | InwardSettings, ...]:
        """The routes of the bridge; of several files with routes the last one counts."""
        values = self._values
        if not values.bridge_tables:
            return ()
        # A server without routes imports neither the bridge nor pika.
        from msmq.bridge_service.route_table import RouteTables

        return RouteTables(name, values.refuse).read(values.bridge_tables[-1])

    def _shadows(self, bridges: Sequence[OutwardSettings | InwardSettings]) -> tuple[ShadowSettings, ...]:
        """The shadows of queues; of several files with such tables the last one counts."""
        values = self._values
        if not values.shadow_tables:
            return ()
        routes = {each.name: each.queue for each in bridges if not hasattr(each, "broker_queue")}
        return ShadowTables(values.refuse, routes).read(values.shadow_tables[-1])

    def _archive(self, data: Path) -> ArchiveSettings:
        values = self._values
        fields = values.fields("archive", ArchiveSettings)
        if not fields.get("streams", ArchiveSettings.streams):
            values.refuse(("archive", "streams"), "names no stream")
        directory = fields.pop("directory", OFF)
        if directory == OFF:
            return ArchiveSettings(**fields)
        directory = Path(os.path.abspath(directory.replace("{data}", str(data))))
        settings = ArchiveSettings(**fields, directory=directory)
        if problem := problem_of(settings, values.get("storage", "backend"), data):
            values.refuse(("archive", "directory"), problem)
        return settings

    def _sharing(self) -> StorageSharing:
        values = self._values
        sharing = StorageSharing(**values.fields("storage", StorageSharing))
        if sharing.standby:
            values.attempt(("storage", "standby"), check_sharing, values.get("storage", "backend"))
        return sharing

    def _value_origins(self, overrides: Overrides) -> dict[str, ValueOrigin]:
        """Where each key that is set was set."""
        values = self._values
        keys = [(table, key) for table, values in values.tables.items() for key in values]
        origins = {dotted(key): values.value_origin(key) for key in keys}
        if values.bridge_tables:
            origins[BRIDGE] = values.value_origin((BRIDGE,))
        if values.shadow_tables:
            origins[SHADOW] = values.value_origin((SHADOW,))
        for option, given, set_by_option in _OPTIONS:
            if given(overrides) is not None:
                for table, key in set_by_option:
                    if table != "listen" or values.get(table, key) != OFF:
                        origins[f"{table}.{key}"] = ValueOrigin(OriginKind.OPTION, option)
        return origins

    def _take_options(self, overrides: Overrides) -> None:
        values = self._values
        for option, value, table, key, accept in (
            ("--name", overrides.name, "queue_manager", "name", computer_name),
            ("--storage", overrides.storage, "storage", "backend", storage_backend),
            ("--directory", overrides.directory, "directory", "backend", directory_backend),
        ):
            if value is not None:
                self._try_option(option, accept, value)
                values.tables[table][key] = value
        if overrides.data is not None:
            values.tables["queue_manager"]["data"] = overrides.data
            self._try_option("--data", TABLES["queue_manager"]["data"].kind.read, overrides.data)
        if overrides.address is not None and parse_address(overrides.address) is None:
            values.problems.append(
                ConfigurationProblem(
                    None, None, "--address", f"must be an IP address, not {quoted(overrides.address)}"
                )
            )

    def _queue_manager(self) -> QueueManagerSettings:
        values = self._values
        fields = values.fields("queue_manager", QueueManagerSettings)
        host = socket.gethostname()
        fields.setdefault("dns_name", fields.get("name", host))
        fields.setdefault("name", host.partition(".")[0])
        fields["data"] = Path(os.path.abspath(values.get("queue_manager", "data")))
        return QueueManagerSettings(**fields)

    def _session(self) -> SessionSettings:
        values = self._values
        fields = {
            # The default of a server is another one than that of the settings.
            "window_size": values.get("limits", "window_size"),
            **values.fields("queue_manager", SessionSettings),
            **values.fields("limits", SessionSettings),
            **values.fields("timers", SessionSettings),
            **values.fields("security", SessionSettings),
        }
        if values.get("queue_manager", "routing_server"):
            fields.setdefault("session_cleanup", _ROUTING_SERVER_CLEANUP)
        settings = SessionSettings(**fields)
        if settings.recoverable_ack_minimum > settings.recoverable_ack_maximum:
            values.refuse(
                ("timers", "recoverable_ack_minimum"),
                f"is {settings.recoverable_ack_minimum:g}, more than recoverable_ack_maximum, "
                f"{settings.recoverable_ack_maximum:g}",
            )
        return settings

    def _security(self) -> SecuritySettings:
        values = self._values
        settings = SecuritySettings(**values.fields("security", SecuritySettings))
        if settings.unauthenticated == "deny" and settings.peers:
            values.refuse(("security", "peers"), 'refuses every message, because unauthenticated is "deny"')
        rules = NO_RULES
        if settings.rules is not None:
            try:
                rules = load_rules(Path(settings.rules))
            except RulesError as error:
                for wrong in error.problems:
                    if wrong.line is None:
                        values.refuse(("security", "rules"), f"names {wrong.path}, which {wrong.problem}")
                    else:
                        values.problems.append(
                            ConfigurationProblem(wrong.path, wrong.line, wrong.key, wrong.problem)
                        )
        if settings.owner is not None:
            values.attempt(("security", "owner"), principal, settings.owner, rules)
        return settings

    def _listen(self, data: Path, address: str | None) -> ListenSettings:
        values = self._values
        texts = {key: substitute_data(values.get("listen", key), data) for key in TABLES["listen"]}
        if address is not None and parse_address(address) is not None:
            bare = str(parse_address(address))
            for key in _ADDRESSED:
                if texts[key] != OFF:
                    texts[key] = values.attempt(("listen", key), replace_interface, texts[key], bare) or OFF

        def endpoint(key: str, parse: Callable[[str], _T]) -> _T | None:
            return None if texts[key] == OFF else values.attempt(("listen", key), parse, texts[key])

        if texts["remote_control"] != OFF and values.get("security", "control_token_file") is None:
            values.refuse(
                ("listen", "remote_control"), "needs the file of a token, [security] control_token_file"
            )
        web = endpoint("web", parse_remote_control_endpoint)
        if web is not None and not web.is_loopback and values.get("security", "control_token_file") is None:
            values.refuse(
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

    def _try_option(self, option: str, read: Callable[[str], object], value: str) -> None:
        try:
            read(value)
        except ValueError as error:
            self._values.problems.append(ConfigurationProblem(None, None, option, str(error)))
