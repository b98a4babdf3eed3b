"""Initialization of the queue manager's directory state, and its publication. [MS-MQDMPR] 3.1.3."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from msmq.membership.access import DirectoryAccess
from msmq.membership.entry import DirectoryEntry
from msmq.membership.enumerations import DirectoryOperationResult, QueueManagerState, refusal
from msmq.membership.local import INITIALIZATION_RETRY_SECONDS, HostIdentity
from msmq.membership.objects import EnterpriseObject, QueueManagerObject
from msmq.membership.queries import equals
from msmq.membership.requests import (
    FindDirectoryServers,
    KeyRequest,
    MakeKeys,
    Outcome,
    Procedure,
    QueueManagerChanged,
    QueueManagerKeys,
    Store,
)
from msmq.membership.sites import read_sites
from msmq.membership.timers import DirectoryTimer
from msmq.moment import Moment
from msmq.persistence.changes import Change
from msmq.structures.directory.public_keys import AES_PROVIDER, BASE_PROVIDER, ENHANCED_PROVIDER
from msmq.structures.status import MQError, Status
from msmq.wire.guid import format_guid

KEYS: Final = (
    KeyRequest(BASE_PROVIDER, 512),
    KeyRequest(ENHANCED_PROVIDER, 1024),
    KeyRequest(AES_PROVIDER, 1024),
)
"""Keys of PublicEncryptionKeyList and PublicSigningKeyList. [MS-MQDMPR] 3.1.3."""

_NOTIFICATION: Final = "non_ldap_capable_queue_manager_notification"
_OF_THE_DIRECTORY: Final = ("identifier", "full_path", "create_time", "modify_time")
_WRITTEN_AGAIN: Final = ("site_identifier_list", "public_encryption_key_list", "public_signing_key_list")
"""Attributes that provisioning always writes to an existing object of the same name."""

_FILLED_IN: Final = (
    "operating_system_type",
    "queue_manager_quota",
    "journal_quota",
    "foreign_system",
    "directory_server",
    "remote_access_server",
    "routing_server",
    "supporting_server",
)
"""Attributes that provisioning writes only where the existing object has no value.

An existing value is the administrator's decision and stays.
"""


@attrs.frozen
class Provisioning:
    """iProvisioning: this is the first start. [MS-MQDMPR] 3.1.3.

    @ivar site: the Identifier of the site that the queue manager belongs to; C{None} for none.
    """

    site: UUID | None = None


def initialize(
    access: DirectoryAccess, host: HostIdentity, now: Moment, provisioning: Provisioning | None = None
) -> Procedure[None]:
    """Initialization. [MS-MQDMPR] 3.1.3.

    Names and domain are those of the host.
    With a directory, reads the queue manager's own object, its sites and the enterprise, and starts the
    timers.
    Without a connection it starts offline with the stored data, and is provisioned when the directory is back
    (L{provision_again}).
    The caller loads the queues, and starts nothing before this has ended.

    @param provisioning: given at the first start: the queue manager is published, and the directory may
        assign another Identifier (L{QueueManagerChanged}).
    @raise MQError: MQ_ERROR_MACHINE_NOT_FOUND if the directory has no object of this queue manager, or
        another refusal of the directory; the queue manager is stopped again.
    """
    local = access.local
    local.queue_manager_state = QueueManagerState.INITIALIZING
    local.directory_offline = False
    try:
        local.machine_domain_id = host.domain_identifier
        local.object = attrs.evolve(
            local.object,
            computer_name=host.computer_name,
            qualified_computer_name=host.qualified_computer_name,
        )
        if provisioning is not None:
            local.last_domain = None
            local.initialization_retry_timer_duration = INITIALIZATION_RETRY_SECONDS
        if local.directory_integrated:
            yield from _integrate(access, host, now, provisioning)
        local.last_domain = local.machine_domain_id
        yield Store(_settled(access))
    except BaseException:
        access.timers.stop_all()
        local.queue_manager_state = QueueManagerState.STOPPED
        raise
    local.queue_manager_state = QueueManagerState.READY


def _integrate(
    access: DirectoryAccess, host: HostIdentity, now: Moment, provisioning: Provisioning | None
) -> Procedure[None]:
    if provisioning is not None:
        yield from _provision(access, host, provisioning)
    access.timers.start(DirectoryTimer.DIRECTORY_SERVER_LIST_UPDATE, now)
    yield from _synchronize(access, provisioning)
    yield from _read_enterprise(access)
    access.timers.start(DirectoryTimer.SITES_UPDATE, now)
    access.timers.start(DirectoryTimer.SITE_GATES_UPDATE, now)


def _provision(access: DirectoryAccess, host: HostIdentity, provisioning: Provisioning) -> Procedure[None]:
    local = access.local
    sites = local.object.site_identifier_list
    if provisioning.site is not None and provisioning.site not in sites:
        local.object = attrs.evolve(local.object, site_identifier_list=(*sites, provisioning.site))
    yield from find_directory_servers(access, host.domain_name)
    answer = yield MakeKeys(KEYS)
    keys: QueueManagerKeys = answer.outcome.value
    local.object = attrs.evolve(
        local.object,
        public_encryption_key_list=keys.encryption,
        public_signing_key_list=keys.signing,
    )


def find_directory_servers(access: DirectoryAccess, domain_name: str) -> Procedure[None]:
    """Add discovered directory servers to DirectoryServerList. [MS-MQDMPR] 3.1.3.

    Existing names keep their positions.

    @param domain_name: the domain whose controllers are looked up in DNS; empty outside of a domain.
    """
    answer = yield FindDirectoryServers(f"_ldap._tcp.dc._msdcs.{domain_name}" if domain_name else "")
    known = dict.fromkeys(access.local.directory_server_list)
    access.local.directory_server_list = tuple(known | dict.fromkeys(answer.outcome.value))


def _synchronize(access: DirectoryAccess, provisioning: Provisioning | None) -> Procedure[None]:
    local = access.local
    access.is_provisioned = True
    outcome = yield from access.read_directory(
        QueueManagerObject, [equals("identifier", local.object.identifier)]
    )
    if outcome.succeeded:
        entry: DirectoryEntry[QueueManagerObject] = outcome.value
        if provisioning is None:
            local.object = yield from access.reconcile(entry)
            yield QueueManagerChanged(local.object)
        else:
            yield from _publish_again(access, entry)
        yield from read_sites(access)
    elif outcome.result is DirectoryOperationResult.OBJECT_NOT_FOUND and provisioning is not None:
        yield from _publish(access)
        yield from read_sites(access)
    elif outcome.is_disconnected:
        access.is_provisioned = provisioning is None
    else:
        raise _refused(outcome, f"queue manager {format_guid(local.object.identifier)}")


def _settled(access: DirectoryAccess) -> list[Change]:
    """Store what the next start needs; an unprovisioned queue manager stores no object of its own."""
    local = access.local
    own = [local.object_change()] if access.is_provisioned else []
    return [local.settings_change(), *own, local.enterprise_change()]


def provision_again(access: DirectoryAccess) -> Procedure[None]:
    """Publish a queue manager whose directory was unavailable at its provisioning. [MS-MQDMPR] 3.1.3.

    If the directory is still unavailable, or refuses, it is retried after a minute.

    @raise MQError: as L{initialize}; the queue manager stays offline.
    """
    local = access.local
    held = local.object
    local.directory_offline = False
    try:
        yield from _synchronize(access, Provisioning())
        if access.is_provisioned:
            yield from _read_enterprise(access)
            yield Store(_settled(access))
    except BaseException:
        local.object = held
        access.is_provisioned = False
        local.directory_offline = True
        raise


def _publish(access: DirectoryAccess) -> Procedure[None]:
    """Create the directory object of a queue manager whose Identifier the directory does not have.

    An existing object of the same name, from an earlier installation, is taken over.
    """
    local = access.local
    created = yield from access.create_directory_object(local.object)
    if created.succeeded:
        read = yield from access.read_directory(
            QueueManagerObject, [equals("identifier", created.value)], _OF_THE_DIRECTORY
        )
        identified = attrs.evolve(local.object, identifier=created.value)
        yield from _become(access, read.value.onto(identified) if read.succeeded else identified)
        return
    if created.result is not DirectoryOperationResult.OBJECT_ALREADY_EXISTS:
        raise _refused(created, f"queue manager {local.object.computer_name}")
    former = yield from access.read_directory(
        QueueManagerObject, [equals("computer_name", local.object.computer_name)]
    )
    if not former.succeeded:
        raise _refused(former, f"queue manager {local.object.computer_name}")
    yield from _publish_again(access, former.value)


def _publish_again(access: DirectoryAccess, entry: DirectoryEntry[QueueManagerObject]) -> Procedure[None]:
    """Take over an existing object: write new keys and site, and values where it has none.

    This also completes an object that was created empty, as Active Directory requires before the Identifier
    is known.
    If the directory refuses to write the object with our Identifier, as a read-only one does, the queue
    manager adopts the values of that object; C{publication_refusal} of the access has the reason.
    """
    held = access.local.object
    sites = dict.fromkeys((*entry["site_identifier_list"], *held.site_identifier_list))
    missing = [name for name in _FILLED_IN if name not in entry.values]
    taken = attrs.evolve(
        access.own_object(entry),
        site_identifier_list=tuple(sites),
        public_encryption_key_list=held.public_encryption_key_list,
        public_signing_key_list=held.public_signing_key_list,
        **{name: getattr(held, name) for name in missing},
    )
    yield from _become(access, taken)
    written = yield from access.write_directory(taken, (*_WRITTEN_AGAIN, *missing))
    is_ours = entry["identifier"] == held.identifier
    if is_ours and written.result is DirectoryOperationResult.GENERIC_ERROR:
        access.publication_refusal = _reason(written)
        yield from _become(access, access.own_object(entry))
    elif not written.succeeded:
        raise _refused(written, f"queue manager {taken.computer_name}")


def _become(access: DirectoryAccess, changed: QueueManagerObject) -> Procedure[None]:
    local = access.local
    former = local.object.identifier
    # A refused identifier is not stored, or the next start would use it.
    yield QueueManagerChanged(changed, former if former != changed.identifier else None)
    local.object = changed
    yield Store([local.object_change()])


def _read_enterprise(access: DirectoryAccess) -> Procedure[None]:
    """Read the Enterprise; change notifications are on unless it turns them off.

    Its other values, such as the time to reach a queue, are read with a second query.
    """
    local = access.local
    outcome = yield from access.read_directory(EnterpriseObject, (), (_NOTIFICATION,))
    if outcome.result is DirectoryOperationResult.ATTRIBUTE_NOT_FOUND:
        notifying = EnterpriseObject(non_ldap_capable_queue_manager_notification=True)
    elif outcome.succeeded:
        notifying = outcome.value.onto(EnterpriseObject())
    elif outcome.is_disconnected:
        return
    else:
        raise MQError(Status.MQ_ERROR_DS_ERROR, f"the enterprise: {_reason(outcome)}")
    local.enterprise_reference = notifying
    whole = yield from access.read_directory(EnterpriseObject)
    if whole.succeeded:
        local.enterprise_reference = whole.value.object


def _refused(outcome: Outcome, what: str) -> MQError:
    return refusal(outcome.result, f"{what}: {_reason(outcome)}", of_queue_manager=True)


def _reason(outcome: Outcome) -> str:
    return outcome.detail or "the directory refuses"
