"""The keys of the configuration file, with their types, ranges and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Final

import attrs

from msmq.archive_service.settings import ArchiveSettings
from msmq.directory.factory import NONE as NO_DIRECTORY
from msmq.directory.factory import DirectoryDescriptionError, check_directory
from msmq.interfaces.archived_streams import ARCHIVED_STREAMS
from msmq.net.endpoints import (
    OFF,
    parse_datagram_endpoint,
    parse_remote_control_endpoint,
    parse_stream_endpoint,
)
from msmq.plugins import PluginError
from msmq.quantities import KIBIBYTE
from msmq.quoting import quoted
from msmq.service.policy_plugins import check_access, check_router, check_session_policy
from msmq.service.settings import (
    DESCRIPTORS,
    DIRECTORY_ROUTING,
    NO_POLICY,
    LimitSettings,
    QueueManagerSettings,
    QueueSettings,
    SecuritySettings,
    StorageSharing,
    TimerSettings,
    WebSettings,
)
from msmq.settings import SessionSettings
from msmq.storage.factory import StorageDescriptionError, make_store
from msmq.toml.document import nearest
from msmq.toml.value_kinds import (
    GUIDS,
    Array,
    Flag,
    Guid,
    NetworkKind,
    Seconds,
    Size,
    Text,
    ValueKind,
    WholeNumber,
    computer_name,
    wrong_type,
)
from msmq.transfer.source_journaling import SourceJournaling
from msmq.wire.sid import parse_sid


def storage_backend(text: str) -> None:
    """Accept the description of a store that is installed; it is opened at start.

    @raise ValueError: the name is unknown, or its argument is invalid.
    """
    try:
        make_store(text, Path())
    except StorageDescriptionError as error:
        raise ValueError(f"cannot be used: {error}") from error


def directory_backend(text: str) -> None:
    """Accept the description of a directory that is installed; it is opened at start.

    @raise ValueError: the name is unknown.
    """
    try:
        check_directory(text)
    except DirectoryDescriptionError as error:
        raise ValueError(f"cannot be used: {error}") from error


def _plugin(check: Callable[[str], None]) -> Callable[[str], None]:
    """Accepts the description of an installed plugin."""

    def accept(text: str) -> None:
        try:
            check(text)
        except PluginError as error:
            raise ValueError(f"cannot be used: {error}") from error

    return accept


_LONGEST_PATTERN: Final = 500

_LEVELS: Final = ("debug", "info", "warn", "error", "critical")


@cache
def _rooms() -> frozenset[str]:
    return frozenset(module.name for module in iter_modules([str(Path(__file__).parent.parent)]))


@attrs.frozen
class RoomLevels:
    """C{{ net = "debug" }}: levels of the log for parts of the package."""

    type_name: str = "a table"
    range_text: str = "room = level"

    def read(self, value: object) -> dict[str, str]:
        """A table of rooms and levels.

        @raise ValueError: it is anything else.
        """
        if not isinstance(value, dict):
            raise wrong_type(self.type_name, value)
        level = _one_of(*_LEVELS)
        for room, name in value.items():
            if room not in _rooms():
                raise ValueError(
                    f"names {quoted(room)}, which is not a package of msmq{nearest(room, _rooms())}"
                )
            try:
                level.read(name)
            except ValueError as error:
                raise ValueError(f"of {room} {error}") from None
        return dict(value)


def _nonempty_path(text: str) -> None:
    if not text or "\0" in text:
        raise ValueError("must be the path of a directory")


def _queue_pattern(text: str) -> None:
    if not text or "\0" in text or len(text) > _LONGEST_PATTERN:
        raise ValueError(f"must be the path of a queue, of at most {_LONGEST_PATTERN} characters")


def _file(text: str) -> None:
    if not text or "\0" in text:
        raise ValueError("must be the path of a file")


def _one_of(*texts: str) -> Text:
    """A text out of a fixed set."""

    def accept(text: str) -> None:
        if text not in texts:
            *others, last = (f'"{each}"' for each in texts)
            raise ValueError(f"must be {', '.join(others)} or {last}, not {quoted(text)}")

    *others, last = texts
    return Text(accept, f"{', '.join(others)} or {last}")


def _group(text: str) -> None:
    if not text or "\0" in text:
        raise ValueError("must be the name of a group")


def _stream(text: str) -> None:
    if text != OFF:
        parse_stream_endpoint(text)


def _web(text: str) -> None:
    if text == OFF:
        return
    parse_remote_control_endpoint(text)
    if find_spec("prometheus_client") is None:
        raise ValueError("needs the package prometheus_client: pip install 'msmq[web]'")


def _datagram(text: str) -> None:
    if text != OFF:
        parse_datagram_endpoint(text)


def _remote_control(text: str) -> None:
    if text != OFF:
        parse_remote_control_endpoint(text)


def _unix(text: str) -> None:
    if text != OFF and not text.startswith("unix:"):
        raise ValueError(f'must be unix:PATH or "off", not {quoted(text)}')


@attrs.frozen
class Key:
    """One key: its type, unit and default.

    @ivar kind: the values that it takes.
    @ivar default: the value without it; C{None} if there is none or it depends on others.
    @ivar unit: of numbers, in words.
    """

    kind: ValueKind
    default: object = None
    unit: str = ""


def _defaults(settings: type) -> Mapping[str, object]:
    return {name: field.default for name, field in attrs.fields_dict(settings).items()}


_SESSION = _defaults(SessionSettings)

WINDOW_SIZE: Final = 256
"""The window of a server where its configuration names none.

The documents have 64; with more, acknowledgements and commits are shared by more messages. The smaller window
of both peers holds ([MS-MQQB] 3.1.5.3.2).
"""
_LIMITS = _defaults(LimitSettings)
_TIMERS = _defaults(TimerSettings)
_QUEUES = _defaults(QueueSettings)
_SECURITY = _defaults(SecuritySettings)
_SHARING = _defaults(StorageSharing)
_QUEUE_MANAGER = _defaults(QueueManagerSettings)
_ARCHIVE = _defaults(ArchiveSettings)
_U32 = 0xFFFFFFFF
_WEEK = 7 * 86400


def _counted(low: int, high: int, default: object, unit: str) -> Key:
    return Key(WholeNumber(low, high), default, unit)


def _sized(low: int, high: int, default: object, step: int = 1) -> Key:
    kind = Size(low, high, step)
    return Key(kind, default, kind.unit)


def _timed(low: float, high: float, default: object) -> Key:
    return Key(Seconds(low, high), default, "seconds")


HASHES: Final = ("md2", "md4", "md5", "sha1", "sha256", "sha512")
"""The hash algorithms that C{[security] hashes} accepts."""

VERSIONS: Final = ("1.0", "2.0", "3.0")
"""The versions that C{[security] signatures} accepts."""


TABLES: Mapping[str, Mapping[str, Key]] = {
    "queue_manager": {
        "name": Key(Text(computer_name, "a computer name")),
        "dns_name": Key(Text(computer_name, "a computer name")),
        "data": Key(Text(_nonempty_path, "a directory"), "msmq-data"),
        "routing_server": Key(Flag(), _QUEUE_MANAGER["routing_server"]),
        "is_server": Key(Flag(), _SESSION["is_server"]),
        "sites": Key(GUIDS, ()),
        "enterprise": Key(Guid()),
        "connected_networks": Key(GUIDS, ()),
        "ping_before_session": Key(Flag(), _SESSION["ping_before_session"]),
        "session_port": _counted(1, 65535, _SESSION["session_port"], "TCP port"),
        "ping_port": _counted(1, 65535, _SESSION["ping_port"], "UDP port"),
        "clone_check": Key(Flag(), _QUEUE_MANAGER["clone_check"]),
        "report_messages": Key(Flag(), _QUEUE_MANAGER["report_messages"]),
    },
    "listen": {
        "session": Key(Text(_stream, "a server endpoint or off"), "tcp:1801:interface=127.0.0.1"),
        "ping": Key(Text(_datagram, "udp:PORT[:interface=IP] or off"), "udp:3527:interface=127.0.0.1"),
        "discovery": Key(Text(_datagram, "udp:PORT[:interface=IP] or off"), "udp:1801:interface=127.0.0.1"),
        "control": Key(Text(_unix, "unix:PATH or off"), "unix:{data}/control.sock"),
        "remote_control": Key(Text(_remote_control, "a server endpoint or off"), OFF),
        "web": Key(Text(_web, "a server endpoint or off"), OFF),
    },
    "web": {
        "windows_exporter_names": Key(Flag(), False),
        "member_token_file": Key(Text(_file, "a file")),
        "anonymous": Key(_one_of("reader", "monitor", "none"), _defaults(WebSettings)["anonymous"]),
    },
    "log": {
        "level": Key(_one_of(*_LEVELS), "info"),
        "format": Key(_one_of("text", "json", "journal"), "text"),
        "levels": Key(RoomLevels()),
    },
    "storage": {
        "backend": Key(Text(storage_backend, "a store's description"), "log"),
        "standby": Key(Flag(), _SHARING["standby"]),
        "standby_lease": _timed(3, 3600, _SHARING["standby_lease"]),
    },
    "directory": {
        "backend": Key(Text(directory_backend, "a directory's description"), NO_DIRECTORY),
        "bind_dn": Key(Text(str, "a name in the directory")),
        "password_file": Key(Text(_file, "a file")),
        "keytab": Key(Text(_file, "a file")),
        "principal": Key(Text(str, "NAME or NAME@REALM")),
        "ca_file": Key(Text(_file, "a file")),
        "start_tls": Key(Flag(), False),
        "dialect": Key(_one_of("active-directory", "openldap")),
        "changes": Key(_one_of("keep", "follow"), "keep"),
    },
    "routing": {
        "backend": Key(Text(_plugin(check_router), "a router's description"), DIRECTORY_ROUTING),
    },
    "hosts": {},
    "control_servers": {},
    "archive": {
        "directory": Key(Text(_nonempty_path, "a directory or off"), OFF),
        "streams": Key(
            Array(_one_of(*ARCHIVED_STREAMS), f"streams: {', '.join(ARCHIVED_STREAMS)}"), _ARCHIVE["streams"]
        ),
        "queues": Key(Array(Text(_queue_pattern, "a path"), "paths of queues"), _ARCHIVE["queues"]),
        "keep_days": _counted(0, 36_500, _ARCHIVE["keep_days"], "days"),
        "interval": _timed(0.1, 3600, _ARCHIVE["interval"]),
        "late": _timed(1, _WEEK, _ARCHIVE["late"]),
    },
    "queues": {
        "poison_after": _counted(0, 1_000_000, _QUEUES["poison_after"], "aborted transactions"),
        "dead_letter_over_quota": Key(Flag(), _QUEUES["dead_letter_over_quota"]),
        "journal_on": Key(_one_of(*(each.value for each in SourceJournaling)), _QUEUES["journal_on"]),
    },
    "limits": {
        "window_size": _counted(1, 32767, WINDOW_SIZE, "messages"),
        "max_sessions": _counted(0, _U32, _SESSION["max_sessions"], "sessions"),
        "max_handshakes": _counted(1, _U32, _SESSION["max_handshakes"], "connections"),
        "log_lines": _counted(4, 1_000_000, _SESSION["log_lines"], "lines"),
        "max_connections_per_host": _counted(1, _U32, _SESSION["max_connections_per_host"], "connections"),
        "sessions_per_second": _counted(
            0, 1_000_000, _SESSION["sessions_per_second"], "connections a second"
        ),
        "receive_memory": _sized(0, 1 << 50, _SESSION["receive_memory"]),
        "pings_per_second": _counted(0, 1_000_000, _SESSION["pings_per_second"], "pings a second"),
        "quota": _sized(1, _U32, _LIMITS["quota"], KIBIBYTE),
        "journal_quota": _sized(0, _U32, _LIMITS["journal_quota"], KIBIBYTE),
        "peer_dead_letters": _sized(0, _U32, _LIMITS["peer_dead_letters"], KIBIBYTE),
        "express_memory": _sized(4 * 1024 * 1024, 1 << 50, _LIMITS["express_memory"]),
        "packet_memory": _sized(0, 1 << 50, _LIMITS["packet_memory"]),
        "events": _counted(1, 1_000_000_000, _LIMITS["events"], "events"),
        "delivery_records": _sized(0, 1_000_000, _LIMITS["delivery_records"], KIBIBYTE),
        "control_receives": _counted(1, 1_000_000, _LIMITS["control_receives"], "receives"),
        "send_keys": _counted(1, 10_000_000, _LIMITS["send_keys"], "keys"),
        "send_symmetric_keys": _counted(2, 1_000_000, _LIMITS["send_symmetric_keys"], "keys"),
        "receive_symmetric_keys": _counted(2, 1_000_000, _LIMITS["receive_symmetric_keys"], "keys"),
        "host_addresses": _counted(1, 1000, _LIMITS["host_addresses"], "addresses"),
        "unacknowledged_messages": _counted(1, _U32, _SESSION["unacknowledged_messages"], "messages"),
        "awaiting_final_acks": _counted(1, _U32, _SESSION["awaiting_final_acks"], "messages"),
        "awaiting_acknowledgements": _counted(1, _U32, _SESSION["awaiting_acknowledgements"], "messages"),
        "order_ack_messages": _counted(1, _U32, _SESSION["order_ack_messages"], "messages"),
        "order_ack_bytes": _sized(1, 1 << 50, _SESSION["order_ack_bytes"]),
        "incoming_streams": _counted(1, 10_000_000, _SESSION["incoming_streams"], "streams"),
        "duplicate_entries": _counted(0, 10_000_000, _SESSION["duplicate_entries"], "messages"),
    },
    "timers": {
        "session_initialization": _timed(0.1, 3600, _SESSION["session_initialization"]),
        "session_cleanup": _timed(1, 86400, _SESSION["session_cleanup"]),
        "session_retry": _timed(0.1, 3600, _SESSION["session_retry"]),
        "session_retry_maximum": _timed(0.1, 3600, _SESSION["session_retry_maximum"]),
        "ack_wait_timeout": _timed(20, 120, _SESSION["ack_wait_timeout"]),
        "direct_ack_wait_factor": _counted(1, 100, _SESSION["direct_ack_wait_factor"], "times"),
        "recoverable_ack_minimum": _timed(0.5, 120, _SESSION["recoverable_ack_minimum"]),
        "recoverable_ack_maximum": _timed(0.5, 120, _SESSION["recoverable_ack_maximum"]),
        "window_recovery": _timed(0.1, 3600, _SESSION["window_recovery"]),
        "linger": _timed(0, 300, _SESSION["linger"]),
        "resend_short": _timed(1, _WEEK, _SESSION["resend_short"]),
        "resend_medium": _timed(1, _WEEK, _SESSION["resend_medium"]),
        "resend_long": _timed(1, _WEEK, _SESSION["resend_long"]),
        "resend_final": _timed(1, _WEEK, _SESSION["resend_final"]),
        "order_ack_timeout": _timed(0.1, 60, _SESSION["order_ack_timeout"]),
        "maximum_order_ack_delay": _timed(0.1, 3600, _SESSION["maximum_order_ack_delay"]),
        "acknowledgement_wait": _timed(1, 52 * _WEEK, _SESSION["acknowledgement_wait"]),
        "incoming_stream_idle": _timed(60, 52 * _WEEK, _SESSION["incoming_stream_idle"]),
        "outgoing_queue_idle": _timed(60, 52 * _WEEK, _SESSION["outgoing_queue_idle"]),
        "duplicate_lifetime": _timed(1, _WEEK, _SESSION["duplicate_lifetime"]),
        "ping_response": _timed(0.1, 60, _SESSION["ping_response"]),
        "name_resolution": _timed(0.1, 300, _TIMERS["name_resolution"]),
        "connect": _timed(0.1, 300, _TIMERS["connect"]),
        "symmetric_key_lifetime": _timed(1, 86_400, _TIMERS["symmetric_key_lifetime"]),
        "send_key_lifetime": _timed(1, 52 * _WEEK, _TIMERS["send_key_lifetime"]),
    },
    "security": {
        "control_token_file": Key(Text(_file, "a file")),
        "hardened": Key(Flag(), _SECURITY["hardened"]),
        "trust_identifiers": Key(Flag(), _SESSION["trust_identifiers"]),
        "permit_insecure_nacks": Key(Flag(), _SECURITY["permit_insecure_nacks"]),
        "weak_algorithms": Key(Flag(), _SECURITY["weak_algorithms"]),
        "encryption_key_bits": _counted(1024, 4096, _SECURITY["encryption_key_bits"], "bits"),
        "preferred_advanced_algorithm": Key(
            _one_of("AES-128", "AES-192", "AES-256"), _SECURITY["preferred_advanced_algorithm"]
        ),
        "preferred_enhanced_algorithm": Key(_one_of("RC2", "RC4"), _SECURITY["preferred_enhanced_algorithm"]),
        "preferred_base_algorithm": Key(_one_of("RC2", "RC4"), _SECURITY["preferred_base_algorithm"]),
        "send_enhanced_rc2_with_40_bit_keys": Key(Flag(), _SECURITY["send_enhanced_rc2_with_40_bit_keys"]),
        "reject_enhanced_rc2_with_40_bit_keys": Key(
            Flag(), _SECURITY["reject_enhanced_rc2_with_40_bit_keys"]
        ),
        "access": Key(Text(_plugin(check_access), "an access control's description"), DESCRIPTORS),
        "session_policy": Key(
            Text(_plugin(check_session_policy), "a session policy's description"), NO_POLICY
        ),
        "unauthenticated": Key(_one_of("loopback", "deny", "allow"), "loopback"),
        "default_descriptor": Key(_one_of("documents", "strict"), _SECURITY["default_descriptor"]),
        "owner": Key(Text(str, "a principal")),
        "rules": Key(Text(_file, "a file")),
        "peers": Key(Array(NetworkKind(), "IP addresses and networks"), ()),
        "sessions_from": Key(Array(NetworkKind(), "IP addresses and networks"), ()),
        "acknowledgements_from": Key(Array(NetworkKind(), "IP addresses and networks"), ()),
        "control_group": Key(Text(_group, "a group")),
        "hashes": Key(
            Array(_one_of(*HASHES), f"names of hash algorithms: {', '.join(HASHES)}"), _SECURITY["hashes"]
        ),
        "signatures": Key(
            Array(_one_of(*VERSIONS), f"versions of MSMQ: {', '.join(VERSIONS)}"), _SECURITY["signatures"]
        ),
        "smallest_key": _counted(512, 16384, _SECURITY["smallest_key"], "bits"),
        "expired_certificates": Key(Flag(), _SECURITY["expired_certificates"]),
        "sender": Key(Text(parse_sid, "a SID")),
        "send_sender": Key(Flag(), _SECURITY["send_sender"]),
    },
}
"""The tables of the file and the keys of each; C{hosts} and C{control_servers} take any name."""
