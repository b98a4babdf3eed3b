"""LocalQueueManager: attributes, sites and public queues of this queue manager. [MS-MQDMPR] 3.1.1.

Queues and messages are in L{msmq.queues.model}; here are only the published attributes of public queues.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar
from uuid import UUID

import attrs

from msmq.membership.attributes import DirectoryObject
from msmq.membership.enumerations import QueueManagerState
from msmq.membership.object_json import StateDamaged, from_json, pack_object, to_json, unpack_object
from msmq.membership.objects import (
    DEFAULT_TIME_TO_LIVE,
    EnterpriseObject,
    QueueManagerObject,
    QueueObject,
    SiteObject,
)
from msmq.persistence.changes import Change, PutState, RemoveState
from msmq.structures.names.path_name import LOCAL_COMPUTER, PathName
from msmq.wire.guid import format_guid, parse_guid

INITIALIZATION_RETRY_SECONDS: Final = 120
"""InitializationRetryTimerDuration of a queue manager that was provisioned. [MS-MQDMPR] 3.1.1.1."""

SETTINGS: Final = "directory.settings"
QUEUE_MANAGER: Final = "directory.queue_manager"
ENTERPRISE: Final = "directory.enterprise"
SITE: Final = "directory.site."
QUEUE: Final = "directory.queue."
DELETION: Final = "directory.deletion."
"""Names of the state values; those that end with a full stop are followed by a GUID."""

QUOTAS: Final = ("queue_manager_quota", "journal_quota")
"""Attributes of the own object that are those of the configuration where the directory has none."""

T = TypeVar("T", bound=DirectoryObject)


@attrs.frozen
class HostIdentity:
    """Names and domain of the host. [MS-MQDMPR] 3.1.3, where Windows asks its security authority.

    @ivar computer_name: ComputerName.
    @ivar domain_name: the DNS name of its domain; empty if it belongs to none.
    @ivar domain_identifier: MachineDomainId; C{None} if it belongs to no domain.
    @ivar qualified_computer_name: QualifiedComputerName; both names joined with a full stop, unless the
        system has another name.
    """

    computer_name: str
    domain_name: str = ""
    domain_identifier: UUID | None = None
    qualified_computer_name: str = attrs.field()

    @qualified_computer_name.default
    def _in_its_domain(self) -> str:
        return f"{self.computer_name}.{self.domain_name}" if self.domain_name else self.computer_name


@attrs.frozen
class KnownSite:
    """A Site with its SiteGateCollection. [MS-MQDMPR] 3.1.1.7."""

    site: SiteObject
    site_gate_collection: tuple[QueueManagerObject, ...] = ()


@attrs.define
class LocalQueueManager:
    """LocalQueueManager. [MS-MQDMPR] 3.1.1.1.

    @ivar object: the published attributes; its quotas are those of the whole queue manager.
    @ivar unset_quotas: those of L{QUOTAS} that the directory does not have, as far as it was read.
    @ivar directory_integrated: whether it uses a directory; otherwise workgroup mode.
    @ivar machine_domain_id: C{None} outside of a domain.
    @ivar last_domain: MachineDomainId at the end of the last initialization.
    @ivar directory_server_list: names of computers.
    @ivar hardened_security: whether only HTTP is allowed; a change takes effect at the next start.
    @ivar initialization_retry_timer_duration: seconds.
    @ivar directory_offline: the last directory access failed; always false without a directory.
    @ivar connection_active: whether messages are received from other queue managers.
    @ivar sites: SiteCollection, by identifier.
    @ivar enterprise_reference: C{None} until one is read.
    @ivar public_queues: the public queues of QueueCollection, by identifier.
    @ivar deletions: public queues that are deleted here, but not yet in the directory.
    """

    object: QueueManagerObject
    directory_integrated: bool = False
    machine_domain_id: UUID | None = None
    last_domain: UUID | None = None
    directory_server_list: tuple[str, ...] = ()
    srmp_http_support: bool = False
    srmp_pgm_support: bool = False
    hardened_security: bool = False
    initialization_retry_timer_duration: int = INITIALIZATION_RETRY_SECONDS
    directory_offline: bool = attrs.field(default=False, init=False)
    connection_active: bool = attrs.field(default=False, init=False)
    queue_manager_state: QueueManagerState = attrs.field(default=QueueManagerState.STOPPED, init=False)
    sites: dict[UUID, KnownSite] = attrs.field(factory=dict, init=False)
    enterprise_reference: EnterpriseObject | None = attrs.field(default=None, init=False)
    public_queues: dict[UUID, QueueObject] = attrs.field(factory=dict, init=False)
    deletions: dict[UUID, QueueObject] = attrs.field(factory=dict, init=False)
    unset_quotas: frozenset[str] = attrs.field(default=frozenset(), init=False)
    _hardened_next: bool | None = attrs.field(default=None, init=False)

    # Identity

    @property
    def default_time_to_reach_queue(self) -> int:
        """Default time to reach a queue, in seconds: the enterprise's, otherwise four days."""
        if self.directory_integrated and self.enterprise_reference is not None:
            return self.enterprise_reference.default_time_to_live
        return DEFAULT_TIME_TO_LIVE

    def is_own_name(self, computer: str) -> bool:
        """Whether a computer name is one of ours; without case."""
        names = (LOCAL_COMPUTER, self.object.computer_name, self.object.qualified_computer_name)
        return computer.lower() in [name.lower() for name in names if name]

    def public_queue(self, path: PathName) -> QueueObject | None:
        """The own public queue with this path; the computer name in the path is ignored."""
        for queue in self.public_queues.values():
            if queue.pathname.partition("\\")[2].lower() == path.queue_path.lower():
                return queue
        return None

    def take_offline(self) -> None:
        """Take Offline. [MS-MQDMPR] 3.1.4.12."""
        self.connection_active = False

    def bring_online(self) -> None:
        """Bring Online. [MS-MQDMPR] 3.1.4.13."""
        self.connection_active = True

    # Storage

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Load the stored values, the identifier included; to be called first.

        @param state: C{state} of a L{msmq.persistence.snapshot.Snapshot}; unrelated names are ignored.
        @raise StateDamaged: a value is damaged.
        """
        if (data := state.get(SETTINGS)) is not None:
            self._restore_settings(from_json(SETTINGS, data))
        if (data := state.get(QUEUE_MANAGER)) is not None:
            self._restore_object(from_json(QUEUE_MANAGER, data))
        if (data := state.get(ENTERPRISE)) is not None:
            self.enterprise_reference = _restored(ENTERPRISE, EnterpriseObject, from_json(ENTERPRISE, data))
        for name, identifier, packed in _numbered(state, SITE):
            if not isinstance(packed, dict) or set(packed) != {"site", "gates"}:
                raise StateDamaged(name, "no site with its gates")
            gates = tuple(_restored(name, QueueManagerObject, gate) for gate in packed["gates"])
            self.sites[identifier] = KnownSite(_restored(name, SiteObject, packed["site"]), gates)
        for name, identifier, packed in _numbered(state, QUEUE):
            self.public_queues[identifier] = _restored(name, QueueObject, packed)
        for name, identifier, packed in _numbered(state, DELETION):
            self.deletions[identifier] = _restored(name, QueueObject, packed)

    def _restore_object(self, packed: Any) -> None:
        restored = _restored(QUEUE_MANAGER, QueueManagerObject, packed)
        self.unset_quotas = frozenset(name for name in QUOTAS if name not in packed)
        self.object = self.with_unset(restored)

    def with_unset(self, read: QueueManagerObject) -> QueueManagerObject:
        """The own object as it was read, with the present values of L{unset_quotas}."""
        return attrs.evolve(read, **{name: getattr(self.object, name) for name in self.unset_quotas})

    def _restore_settings(self, settings: Any) -> None:
        try:
            self.directory_integrated = bool(settings["directory_integrated"])
            self.last_domain = (
                None if settings["last_domain"] is None else parse_guid(settings["last_domain"])
            )
            self.directory_server_list = tuple(map(str, settings["directory_server_list"]))
            self.srmp_http_support = bool(settings["srmp_http_support"])
            self.srmp_pgm_support = bool(settings["srmp_pgm_support"])
            self.hardened_security = bool(settings["hardened_security"])
            self.initialization_retry_timer_duration = int(settings["initialization_retry_timer_duration"])
        except (KeyError, TypeError, ValueError) as error:
            raise StateDamaged(SETTINGS, f"{type(error).__name__} {error}") from error
        self._hardened_next = None

    def settings_change(self) -> Change:
        """Store the persistent attributes that are never published."""
        hardened = self.hardened_security if self._hardened_next is None else self._hardened_next
        settings = {
            "directory_integrated": self.directory_integrated,
            "last_domain": None if self.last_domain is None else format_guid(self.last_domain),
            "directory_server_list": list(self.directory_server_list),
            "srmp_http_support": self.srmp_http_support,
            "srmp_pgm_support": self.srmp_pgm_support,
            "hardened_security": hardened,
            "initialization_retry_timer_duration": self.initialization_retry_timer_duration,
        }
        return PutState(SETTINGS, to_json(settings))

    def harden(self, hardened: bool) -> Change:
        """HardenedSecurity, effective from the next start (note 7). [MS-MQDMPR] 3.1.1.1."""
        self._hardened_next = hardened
        return self.settings_change()

    def object_change(self) -> Change:
        """Store the published attributes, without quotas that the directory does not have."""
        packed = pack_object(self.object)
        values = {name: value for name, value in packed.items() if name not in self.unset_quotas}
        return PutState(QUEUE_MANAGER, to_json(values))

    def enterprise_change(self) -> Change:
        """Store the Enterprise."""
        if self.enterprise_reference is None:
            return RemoveState(ENTERPRISE)
        return _kept(ENTERPRISE, self.enterprise_reference)

    def site_change(self, identifier: UUID) -> Change:
        """Store a site, or delete it if it is no longer one of this queue manager's."""
        name, known = numbered_name(SITE, identifier), self.sites.get(identifier)
        if known is None:
            return RemoveState(name)
        gates = [pack_object(gate) for gate in known.site_gate_collection]
        return PutState(name, to_json({"site": pack_object(known.site), "gates": gates}))


def queue_change(queue: QueueObject) -> Change:
    """Store the attributes of an own public queue."""
    return _kept(numbered_name(QUEUE, queue.identifier), queue)


def queue_removal(queue: QueueObject) -> Change:
    """Delete the stored attributes of a public queue."""
    return RemoveState(numbered_name(QUEUE, queue.identifier))


def deletion_change(queue: QueueObject) -> Change:
    """Store that a queue is yet to be deleted from the directory."""
    return _kept(numbered_name(DELETION, queue.identifier), queue)


def deletion_removal(queue: QueueObject) -> Change:
    """Remove the record of a pending deletion."""
    return RemoveState(numbered_name(DELETION, queue.identifier))


def numbered_name(prefix: str, identifier: UUID) -> str:
    """Name of a state value with a GUID."""
    return f"{prefix}{format_guid(identifier)}"


def _kept(name: str, kept: DirectoryObject) -> PutState:
    return PutState(name, to_json(pack_object(kept)))


def _restored(name: str, of: type[T], packed: Any) -> T:
    try:
        return unpack_object(of, packed)
    except ValueError as error:
        raise StateDamaged(name, str(error)) from error


def _numbered(state: Mapping[str, bytes], prefix: str) -> Iterator[tuple[str, UUID, Any]]:
    for name, data in sorted(state.items()):
        if name.startswith(prefix):
            try:
                identifier = parse_guid(name.removeprefix(prefix))
            except ValueError as error:
                raise StateDamaged(name, str(error)) from error
            yield name, identifier, from_json(name, data)
