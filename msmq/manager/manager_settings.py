"""Settings of a queue manager, in groups; every value is required."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from msmq.interfaces.clock import IClock
from msmq.interfaces.directory import IDirectory
from msmq.interfaces.routing import IRouter
from msmq.interfaces.security.ciphers import ICiphers
from msmq.manager.securing.message_security import SecurityProviders
from msmq.manager.securing.security_descriptors import AccessPolicy
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.membership.divergence import DirectoryChanges
from msmq.membership.local import HostIdentity
from msmq.settings import SessionSettings
from msmq.transfer.security.cipher_choice import Preferences
from msmq.transfer.source_journaling import SourceJournaling


@attrs.frozen(kw_only=True)
class ManagerRuntime:
    """The runtime of a queue manager: reactor, clock, threads, identifiers.

    @ivar reactor: delays calls.
    @ivar in_thread: calls a function in a worker thread, as C{deferToThread}.
    @ivar new_identifier: makes the GUIDs of queues, transactions and certificates.
    """

    reactor: IReactorTime
    clock: IClock
    in_thread: Callable[..., Deferred[Any]]
    new_identifier: Callable[[], uuid.UUID]


@attrs.frozen
class CloneCheck:
    """Whether the data directory may be a copy, so that the original sends the messages that wait in it.

    @ivar suspicion: why it may be one, in words that follow "it may be a clone: "; empty if it is not.
    @ivar keep: records durably that it is the original; raises L{MQError} if it cannot.
    """

    suspicion: str
    keep: Callable[[], None]


ORIGINAL: Final = CloneCheck("", lambda: None)
"""The check of a queue manager without a data directory."""


@attrs.frozen(kw_only=True)
class TransferPolicy:
    """How messages are transferred, reported and recorded, where the documents leave it open.

    @ivar session: settings from the behaviour notes of [MS-MQQB].
    @ivar send_insecure_nacks: [MS-MQQB] 3.1.7.15: whether negative acknowledgements tell unauthenticated
    peers that a queue does not exist.
    @ivar report_messages: [MS-MQQB] 3.1.5.8.9, [MS-MQMQ] note 23: whether reports of traced messages are
        sent.
    @ivar dead_letter_over_quota: [MS-MQQB] 3.1.5.8.8: whether a message over the quota of its queue becomes a
    dead letter here if its sender requests one.
    @ivar source_journaling: when the journal of the sender gets its copy.
    @ivar events: how many events the event log keeps.
    @ivar delivery_records: the limit on delivery records in kilobytes; 0 keeps none.
    @ivar clone: whether this may be a clone, which sends nothing until an operator decides.
    """

    session: SessionSettings
    send_insecure_nacks: bool
    report_messages: bool
    dead_letter_over_quota: bool
    source_journaling: SourceJournaling
    events: int
    delivery_records: int
    clone: CloneCheck


@attrs.frozen(kw_only=True)
class EnterpriseSettings:
    """The names of a queue manager, and its membership in an enterprise.

    @ivar host: its computer.
    @ivar directory: where it is published, with its public queues; C{None} in workgroup mode.
    @ivar changes: how changes that others make there are handled.
    @ivar router: finds the routes of messages to other queue managers; C{None} has the directory queried.
    @ivar routing_server: [MS-MQDMPR] 3.1.1.1 RoutingServer: whether it forwards messages between other queue
    managers.
    @ivar site: [MS-MQDMPR] 3.1.3 iProvisioning: the site in which it publishes itself.
    """

    host: HostIdentity
    directory: IDirectory | None
    changes: DirectoryChanges
    router: IRouter | None
    routing_server: bool
    site: uuid.UUID | None


@attrs.frozen(kw_only=True)
class ManagerSecurity:
    """Trust, access control, and the keys and certificates of a queue manager.

    @ivar trusted_peers: the addresses that may send unauthenticated messages.
    @ivar access: controls access to queues by their descriptors; with C{None} only the address is checked.
    @ivar ciphers: encrypts and decrypts bodies, with keys that are published in the directory; C{None}
    refuses encrypted messages.
    @ivar encryption: settings of encryption.
    @ivar providers: sign messages and verify signatures.
    """

    trusted_peers: TrustedPeers
    access: AccessPolicy | None
    ciphers: ICiphers | None
    encryption: Preferences
    providers: SecurityProviders
