"""Settings of a server: one frozen object for each table of the configuration file.

Times are seconds.
Settings of sessions are L{msmq.settings.SessionSettings}; the keys of C{[limits]} and
C{[timers]} that are its fields are read into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs

from msmq.archive_service.settings import ArchiveSettings
from msmq.membership.divergence import DirectoryChanges
from msmq.net.endpoints import DatagramEndpoint, StreamEndpoint
from msmq.settings import SessionSettings
from msmq.shadow_service.settings import ShadowSettings
from msmq.transfer.source_journaling import SourceJournaling

if TYPE_CHECKING:
    from msmq.bridge_service.settings import InwardSettings, OutwardSettings

DIRECTORY_ROUTING: Final = "directory"
"""The description of [MS-MQBR] routing by the directory."""

DESCRIPTORS: Final = "descriptors"
"""The description of the access control by security descriptors and rules."""

NO_POLICY: Final = "none"
"""The description that means no session policy."""


@attrs.frozen(kw_only=True)
class QueueManagerSettings:
    """The table C{[queue_manager]}: name and identity of this queue manager."""

    name: str
    """ComputerName; by default the first label of the host's name. [MS-MQDMPR] 3.1.1.1."""

    dns_name: str
    """QualifiedComputerName; by default C{name}, or the host's full name. [MS-MQDMPR] 3.1.1.1."""

    data: Path
    """The data directory: identity, keys, store. Absolute."""

    routing_server: bool = False
    """RoutingServer: whether it forwards messages between other queue managers. [MS-MQDMPR] 3.1.1.1."""

    sites: tuple[UUID, ...] = ()
    """SiteIdentifierCollection. [MS-MQDMPR] 3.1.1.1."""

    enterprise: UUID | None = None
    """Enterprise.Identifier. [MS-MQDMPR] 3.1.1.7."""

    connected_networks: tuple[UUID, ...] = ()
    """ConnectedNetworkCollection. [MS-MQDMPR] 3.1.1.1."""

    clone_check: bool = True
    """Whether nothing is sent while the data directory may be a copy and no operator has decided."""

    report_messages: bool = False
    """[MS-MQMQ] note 23 EnableReportMessages: whether reports of traced messages are sent."""


@attrs.frozen(kw_only=True)
class ListenSettings:
    """The table C{[listen]}: the addresses on which the server listens; C{None} is off."""

    session: StreamEndpoint | None
    """Sessions. [MS-MQQB] 2.1.1."""

    ping: DatagramEndpoint | None
    """Ping Requests; on by default, as in the older versions (note 10). [MS-MQQB] 2.1.2."""

    discovery: DatagramEndpoint | None
    """Requests of clients that look for a directory server. [MS-MQSD] 2.1."""

    control: Path | None
    """The unix socket of the local API, mode 0600."""

    remote_control: StreamEndpoint | None = None
    """The same API, for callers with a token."""

    web: StreamEndpoint | None = None
    """Metrics, health and the console; on loopback only the console may need a token."""


@attrs.frozen(kw_only=True)
class LogSettings:
    """The table C{[log]}."""

    level: str = "info"
    """The least important level that is written: debug, info, warn, error or critical."""

    format: str = "text"
    """C{text}, C{json} or C{journal}."""

    levels: Mapping[str, str] = attrs.field(factory=dict)
    """Levels of single rooms of msmq."""


@attrs.frozen(kw_only=True)
class WebSettings:
    """The table C{[web]}."""

    windows_exporter_names: bool = False
    """Whether C{/metrics} also uses the names of windows_exporter."""

    member_token_file: str | None = None
    """The token with which the console asks C{[control_servers]} about a message; C{None}: it does not."""

    anonymous: str = "reader"
    """The role of callers without a token on loopback, where no tokens are configured: reader, monitor or
    none.
    """


@attrs.frozen(kw_only=True)
class LimitSettings:
    """The keys of the table C{[limits]} that do not concern sessions."""

    quota: int = 0x00100000
    """QueueManagerQuota, note 3: kilobytes of all queues together. [MS-MQDMPR] 3.1.1.1."""

    journal_quota: int = 0xFFFFFFFF
    """JournalQuota: kilobytes of all journals and dead-letter queues together. [MS-MQDMPR] 3.1.1.1."""

    peer_dead_letters: int = 64 * 1024
    """Kilobytes of the dead-letter queue up to which messages of other queue managers that fail here are
    kept."""

    express_memory: int = 256 * 1024 * 1024
    """Bytes of express messages in memory; those beyond it are written to the store asynchronously.

    A store that keeps everything in memory holds at most this; a further message exceeds the quota.
    """

    packet_memory: int = 32 * 1024 * 1024
    """Bytes of packets of stored messages that are cached in memory; each takes about 900 bytes more."""

    events: int = 100_000
    """Events that the event log keeps."""

    delivery_records: int = 8 * 1024
    """Kilobytes of records of hand-overs to other queue managers, and of acknowledgements."""

    control_receives: int = 1000
    """Receives of the local API that wait, or hold messages, at one time."""

    send_keys: int = 200_000
    """Keys of messages that are kept, so that none is sent twice."""

    send_symmetric_keys: int = 53
    """SendSymmetricKeyCacheSize. [MS-MQQB] 3.1.3.1."""

    receive_symmetric_keys: int = 127
    """ReceiveSymmetricKeyCacheSize. [MS-MQQB] 3.1.3.1."""

    host_addresses: int = 16
    """Addresses of one computer name that are tried ([MS-MQQB] note 55)."""


@attrs.frozen(kw_only=True)
class QueueSettings:
    """The table C{[queues]}."""

    poison_after: int = 0
    """In how many aborted transactions a message may be received before it is moved to the subqueue
    C{poison}; 0 for any number."""

    dead_letter_over_quota: bool = True
    """Whether a message over the quota of its queue becomes a dead letter here. [MS-MQQB] 3.1.5.8.8."""

    journal_on: str = SourceJournaling.HANDOVER.value
    """[MS-MQQB] 3.1.5.5.4: when a message that requests a journal copy and a positive acknowledgement is
    copied to the journal: C{handover} or C{acknowledgement}."""


@attrs.frozen(kw_only=True)
class SecuritySettings:
    """The table C{[security]}."""

    hardened: bool = False
    """HardenedSecurity: whether messages are transferred only over HTTP. [MS-MQDMPR] 3.1.1.1."""

    access: str = DESCRIPTORS
    """The access control's description."""

    session_policy: str = NO_POLICY
    """The session policy's description."""

    permit_insecure_nacks: bool = False
    """[MS-MQQB] 3.1.1.3 SendInsecureNacks, note 28: whether negative acknowledgements tell unauthenticated
    peers that a queue is missing, or access to it is denied."""

    weak_algorithms: bool = False
    """Whether broken ciphers may be used: RC2, RC4, and the keys for them."""

    encryption_key_bits: int = 2048
    """The length of the RSA key with which others encrypt for this queue manager, when it is generated."""

    preferred_advanced_algorithm: str = "AES-256"
    """PreferredAdvancedAlgorithm. [MS-MQQB] 3.1.3.1."""

    preferred_enhanced_algorithm: str = "RC4"
    """PreferredEnhancedAlgorithm. [MS-MQQB] 3.1.3.1."""

    preferred_base_algorithm: str = "RC4"
    """PreferredBaseAlgorithm. [MS-MQQB] 3.1.3.1."""

    send_enhanced_rc2_with_40_bit_keys: bool = False
    """SendEnhancedRC2Using40BitKeys. [MS-MQQB] 3.1.3.1."""

    reject_enhanced_rc2_with_40_bit_keys: bool = False
    """RejectEnhancedRC2Using40BitKeys. [MS-MQQB] 3.1.3.1."""

    unauthenticated: str | None = None
    """Addresses that may send unauthenticated messages: loopback, deny or allow; C{None} is
    loopback, by default."""

    peers: tuple[IPv4Network | IPv6Network, ...] = ()
    """Addresses and networks that may send unauthenticated messages, as loopback may."""

    sessions_from: tuple[IPv4Network | IPv6Network, ...] = ()
    """Addresses and networks from which connections are accepted; empty for all."""

    acknowledgements_from: tuple[IPv4Network | IPv6Network, ...] = ()
    """Peers that may acknowledge messages to queues without an address, besides loopback and C{peers}; all
    without any."""

    control_token_file: str | None = None
    """The file of tokens for remote callers of the control API."""

    control_group: str | None = None
    """The group that may use the control socket too; its mode is 0660 then."""

    default_descriptor: str = "documents"
    """Default security of new queues; C{strict} grants access to the owner only. [MS-MQDMPR] 3.1.7.1.3.1."""

    owner: str | None = None
    """The owner of new queues; C{None} is the system user that runs the server."""

    rules: str | None = None
    """A file of rules that replace the security descriptors of queues."""

    hashes: tuple[str, ...] = ("sha256", "sha512")
    """The hash algorithms of signatures that are accepted and created ([MS-MQQB] note 1)."""

    signatures: tuple[str, ...] = ("1.0", "2.0", "3.0")
    """The versions of MSMQ whose signatures are accepted ([MS-MQMQ] 2.5)."""

    smallest_key: int = 1024
    """Bits of the shortest RSA key of an accepted certificate."""

    expired_certificates: bool = False
    """Whether a signature is accepted whose certificate has expired."""

    sender: str | None = None
    """The SID of local senders; by default that of the server's user, as Samba has it."""

    send_sender: bool = False
    """SenderIdentifierType: whether unsigned messages carry it too. [MS-MQDMPR] 3.1.1.12."""


@attrs.frozen(kw_only=True)
class TimerSettings:
    """The keys of the table C{[timers]} that do not concern a session."""

    name_resolution: float = 10.0
    """The time-out for resolving one name ([MS-MQQB] note 55)."""

    connect: float = 30.0
    """The time-out for one connection attempt, before the handshake begins."""

    symmetric_key_lifetime: float = 600.0
    """SymmetricKeyShortLifetime: how long bodies are encrypted with one key. [MS-MQQB] 3.1.3.1."""

    send_key_lifetime: float = 86_400.0
    """How long the key of a message is kept."""


@attrs.frozen(kw_only=True)
class StorageSharing:
    """The keys of C{[storage]} for a store that several servers share, one at a time."""

    standby: bool = False
    """Whether the server waits while another one has the store, and takes over when that one fails."""

    standby_lease: float = 10.0
    """How long the active server may show no sign of life before a standby takes over."""


class OriginKind(StrEnum):
    """What sets a value of the configuration."""

    FILE = "file"
    ENVIRONMENT = "environment"
    OPTION = "option"
    DEFAULT = "default"


@attrs.frozen
class ValueOrigin:
    """Where a value of the configuration is set.

    @ivar source: the path of the file, the name of the variable or the option; empty for a default.
    @ivar line: the line of the file, counted from 1.
    """

    kind: OriginKind
    source: str = ""
    line: int | None = None

    def __str__(self) -> str:
        if self.kind is OriginKind.DEFAULT:
            return "default"
        return self.source if self.line is None else f"{self.source}:{self.line}"


DEFAULT: Final = ValueOrigin(OriginKind.DEFAULT)


@attrs.frozen(kw_only=True)
class Configuration:
    """The configuration of C{twistd msmq}: the file and the options, with every default filled in."""

    queue_manager: QueueManagerSettings
    """Identity of this queue manager."""

    listen: ListenSettings
    """The addresses on which it listens."""

    storage: str = attrs.field(repr=False)
    """The message store's description; it may contain a password."""

    storage_sharing: StorageSharing = StorageSharing()
    """Whether other servers share the store."""

    directory: str
    """The directory's description."""

    directory_changes: DirectoryChanges = DirectoryChanges.KEEP
    """How changes that others make to our objects in the directory are handled."""

    directory_options: Mapping[str, object] = attrs.field(factory=dict)
    """The other keys of C{[directory]} in the file."""

    routing: str = DIRECTORY_ROUTING
    """The router's description."""

    control_servers: Mapping[str, str] = attrs.field(factory=dict)
    """The control endpoints of other members by their names, with absolute paths of files."""

    hosts: Mapping[str, str]
    """Computer name or address to endpoint, as written; looked up before the name service."""

    session: SessionSettings
    """Settings of sessions, from the behaviour notes of [MS-MQQB]."""

    queues: QueueSettings
    """Handling of messages in queues."""

    limits: LimitSettings
    """Limits on resources."""

    timers: TimerSettings
    """Time-outs and intervals."""

    values: Mapping[str, Mapping[str, object]] = attrs.field(factory=dict, repr=False)
    """The value of each key by its table, defaults included; C{None} for one without."""

    origins: Mapping[str, ValueOrigin] = attrs.field(factory=dict, repr=False)
    """Where each key was set, by the key with its table: C{limits.quota}; the others are defaults."""

    files: tuple[str, ...] = ()
    """The files that were read, in their order."""

    log: LogSettings = LogSettings()
    """Level and format of the log."""

    web: WebSettings = WebSettings()
    """Settings of the web endpoint."""

    security: SecuritySettings = SecuritySettings()
    """Access rights by principal."""

    archive: ArchiveSettings = attrs.field(factory=ArchiveSettings)
    """The archive of logs, journals, dead letters and events."""

    shadows: tuple[ShadowSettings, ...] = ()
    """Queues whose messages are copied to a second consumer."""

    bridges: tuple[OutwardSettings | InwardSettings, ...] = ()
    """The routes between queues and other brokers."""
