"""Summaries of queues, sessions and transactions, as values for programs and people.

The control API renders each as one JSON object whose keys are the names of the fields, in their order.
Times are seconds since 1970-01-01 UTC, sizes are bytes, quotas are kilobytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import attrs

from msmq.interfaces.storage import CommitTimes
from msmq.queues.outgoing import ConnectionHistoryEntry
from msmq.session.connection_limits import RefusedPeer
from msmq.session.descriptor_shares import DescriptorUse
from msmq.session.packet_counts import TrafficCounts
from msmq.session.statistics import SessionStatistics

TIME: Final[Mapping[str, bool]] = {"time": True}
"""The metadata of a time field."""


@attrs.frozen
class SubqueueSummary:
    """A subqueue; C{name} is the part of its path after the semicolon."""

    name: str
    messages: int
    bytes: int


@attrs.frozen
class QueueSummary:
    """One queue of this queue manager.

    A subqueue shows the properties of its queue, a journal the JournalQuota of its queue as its quota.

    @ivar type: C{private}, C{public} or C{system}.
    @ivar quota: C{None} without a limit, as are C{journal_quota}, C{log_age} (in seconds) and C{log_size}.
    @ivar privacy: C{none}, C{optional} or C{body}.
    @ivar application_type: Type, a GUID by which applications find the queues of one service.
    @ivar messages: without those that a transaction has sent and not committed, as is C{bytes}.
    @ivar uncommitted: the messages that open transactions have sent to it.
    @ivar sent_total: messages that came into it since the process began.
    @ivar received_total: messages that were received from it since then; not those that a drain moves.
    @ivar oldest_message_time: when the oldest message arrived that can be received; C{None} without one.
    @ivar paused: receives from it wait until an operator resumes it, or the queue of which it is a subqueue.
    """

    path: str
    format_name: str
    identifier: UUID
    type: str
    transactional: bool
    journal: bool
    log: bool
    quota: int | None
    journal_quota: int | None
    label: str
    authenticate: bool
    privacy: str
    application_type: UUID | None
    messages: int
    bytes: int
    uncommitted: int
    uncommitted_bytes: int
    journal_messages: int
    journal_bytes: int
    log_age: int | None
    log_size: int | None
    subqueues: Sequence[SubqueueSummary]
    sent_total: int
    received_total: int
    oldest_message_time: float | None = attrs.field(metadata=TIME)
    paused: bool


@attrs.frozen
class PublicQueueSummary:
    """A public queue of the enterprise, as the directory has it."""

    path: str
    format_name: str
    identifier: UUID
    label: str
    application_type: UUID | None
    transactional: bool
    authenticate: bool


@attrs.frozen
class OutgoingQueueSummary:
    """One outgoing queue.

    @ivar transit: whether it holds messages of other queue managers only.
    @ivar state: [MS-MQDMPR] 3.1.1.3 State.
    @ivar unacknowledged: messages that were sent and not acknowledged.
    @ivar awaiting_final_acks: transactional messages with a journal copy or dead letter to make, which have
        arrived and left this queue, and whose receipt no FinalAck has reported. Soon after a start some may
        be missing.
    @ivar awaiting_final_acks_since: when the oldest of them was sent to this queue; C{None} without any.
    @ivar history: [MS-MQDMPR] 3.1.1.3 ConnectionHistory, the newest entry last.
    @ivar paused_by: its pauses: C{name}, C{next_hop}, C{all}, and C{clone} for a suspected clone.
    @ivar redirected_to: the address that an operator has set instead of the one in the name.
    @ivar next_attempt: when its next hop is dialled again; C{None} unless a retry is pending.
    """

    format_name: str
    transit: bool
    state: str
    next_hops: Sequence[str]
    messages: int
    bytes: int
    uncommitted: int
    uncommitted_bytes: int
    unacknowledged: int
    awaiting_final_acks: int
    awaiting_final_acks_since: float | None = attrs.field(metadata=TIME)
    history: Sequence[ConnectionHistoryEntry]
    paused_by: Sequence[str]
    redirected_to: str | None
    next_attempt: float | None = attrs.field(metadata=TIME)


@attrs.frozen(kw_only=True)
class SessionSummary:
    """One session that has a connection.

    @ivar identifier: distinguishes it from every other session.
    @ivar direction: C{outgoing} if this queue manager has connected, else C{incoming}.
    @ivar remote_identifier: the peer's GUID; C{None} before the session is established.
    @ivar statistics: the messages of the session; in JSON its fields stand among the others.
    @ivar clock_skew: seconds by which the peer's clock is ahead; C{None} within a minute.
    @ivar other_addresses: other addresses at which the peer's identifier was seen.
    """

    identifier: UUID
    direction: str
    state: str
    remote_identifier: UUID | None
    remote_address: str
    opened: float | None = attrs.field(metadata=TIME)
    last_heard: float | None = attrs.field(metadata=TIME)
    encrypted: bool
    last_sent: float | None = attrs.field(metadata=TIME)
    statistics: SessionStatistics
    clock_skew: float | None
    other_addresses: Sequence[str]


@attrs.frozen(kw_only=True)
class TransactionSummary:
    """A transaction that has not ended, and how many messages it sends, receives and moves."""

    identifier: UUID
    state: str
    began: float = attrs.field(metadata=TIME)
    sent: int
    received: int
    moved: int


@attrs.frozen
class TransactionOperation:
    """One message of a transaction; C{id} is C{None} while it has no identifier."""

    operation: str
    queue: str
    lookup_id: int
    id: str | None


@attrs.frozen(kw_only=True)
class TransactionDetails(TransactionSummary):
    """A transaction with its messages, the first thousand."""

    messages: Sequence[TransactionOperation]


@attrs.frozen
class ReportCounts:
    """Reports of traced messages that were sent, and that the limit on them has discarded."""

    sent: int
    discarded: int


@attrs.frozen
class PausedOutgoing:
    """The pauses of an operator: all outgoing queues, a number of names, some next hops."""

    all: bool
    names: int
    next_hops: Sequence[str]


@attrs.frozen(kw_only=True)
class DirectoryStatus:
    """Whether the directory is reachable. [MS-MQOD] 2.7.4.

    @ivar kind: the name of the backend.
    @ivar source: the server, or the file.
    @ivar since: since when; C{None} before the first request.
    @ivar read: when the enterprise was last read, C{age} seconds ago.
    @ivar problem: why it is unreachable.
    """

    kind: str
    source: str
    reached: bool
    since: float | None = attrs.field(metadata=TIME)
    read: float | None = attrs.field(metadata=TIME)
    age: int | None
    problem: str


@attrs.frozen
class QuotaSummary:
    """The quotas of all queues together, in kilobytes, and their use in bytes.

    @ivar quota: of all messages; C{None} without a limit, as is C{journal_quota}.
    @ivar journal_quota: of those in journals and dead-letter queues.
    @ivar quota_source: C{configuration}, C{directory} for another value that the directory has, or
        C{operator} for one that was set while the server ran.
    """

    quota: int | None
    quota_source: str
    used: int
    journal_quota: int | None
    journal_quota_source: str
    journal_used: int


@attrs.frozen
class ManagerIdentity:
    """A queue manager: its identifier, ComputerName, QualifiedComputerName and the version of the program."""

    identifier: UUID
    name: str
    dns_name: str
    version: str


@attrs.frozen
class MessageFlow:
    """The figures of all local queues together.

    @ivar messages: messages that can be received; C{bytes} is the size of what is stored.
    @ivar arrived: messages that arrived in a queue since the process began, without those of deleted queues;
        so is C{received}, messages that were received.
    @ivar sessions: sessions with other queue managers.
    @ivar oldest_message_time: when the oldest message arrived that can be received; C{None} without one.
    """

    messages: int
    bytes: int
    arrived: int
    received: int
    dead_letters: int
    sessions: int
    oldest_message_time: float | None = attrs.field(metadata=TIME)


@attrs.frozen(kw_only=True)
class StoreSummary:
    """The message store.

    @ivar bytes: of its files; C{None} if it is not in files, as are the next two.
    @ivar free_bytes: free space in their file system.
    @ivar capacity_bytes: the size of that file system.
    @ivar commit_times: C{None} if they are not measured; a server always measures them.
    """

    bytes: int | None
    free_bytes: int | None
    capacity_bytes: int | None
    commit_times: CommitTimes | None


@attrs.frozen
class ManagerStatus:
    """Identity and state of a queue manager.

    @ivar state: [MS-MQDMPR] 3.1.1.1 QueueManagerState.
    @ivar addresses: the addresses on which it listens.
    @ivar sessions_refused: connections that did not become sessions, by reason.
    @ivar refused_peers: the peers of those, the latest first.
    @ivar descriptors: connections and their limits, and sessions that were closed for lack of descriptors.
    @ivar packets: packets by direction and kind.
    @ivar refused: arriving messages that were refused, by reason.
    @ivar refused_recently: those of the last 15 minutes, without repeated ones and those out of order, which
        are part of normal operation.
    @ivar expired: messages that have expired, by the kind of their time limit.
    @ivar poisoned: messages that were moved to the subqueue poison, by queue.
    @ivar awaiting_final_acks: the same for all outgoing queues together, none missing.
    @ivar awaiting_final_acks_since: when the oldest of them was sent; C{None} without any.
    @ivar throttled: [MS-MQDMPR] 3.1.1.1 Throttled: arriving messages wait until the store has space.
    @ivar queues_paused: how many local queues are paused for their readers.
    @ivar identity: C{original}, or C{clone_suspected}: nothing is sent until an operator decides.
    @ivar clone_suspicion: the reason for that; C{None} for an original.
    @ivar directory: C{None} without a directory, as is C{directory_differences}.
    """

    identifier: UUID
    name: str
    dns_name: str
    version: str
    state: str
    addresses: Sequence[str]
    queues: int
    messages: int
    uncommitted: int
    bytes: int
    sessions: int
    sessions_refused: Mapping[str, int]
    refused_peers: Sequence[RefusedPeer]
    descriptors: DescriptorUse
    storage: str
    durable: bool
    store: StoreSummary
    packets: TrafficCounts
    refused: Mapping[str, int]
    refused_recently: Mapping[str, int]
    expired: Mapping[str, int]
    poisoned: Mapping[str, int]
    reports: ReportCounts
    throttled: bool
    connection_active: bool
    transactions: int
    dead_letters: int
    awaiting_acknowledgements: int
    awaiting_final_acks: int
    awaiting_final_acks_since: float | None = attrs.field(metadata=TIME)
    copies_dropped: int
    events_dropped: int
    outgoing_paused: PausedOutgoing
    redirected_names: int
    queues_paused: int
    quotas: QuotaSummary
    identity: str
    clone_suspicion: str | None
    directory: DirectoryStatus | None
    directory_differences: Sequence[str] | None
