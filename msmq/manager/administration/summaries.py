"""Summaries of queues, sessions and holdings, from the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from msmq.interfaces.manager.summaries import (
    OutgoingQueueSummary,
    QueueSummary,
    QuotaSummary,
    SessionSummary,
    SubqueueSummary,
)
from msmq.interfaces.session import ISession
from msmq.manager.peers.awaited_destinations import AwaitingMessages
from msmq.persistence.definition import UNLIMITED
from msmq.queues.leaving.transaction import NOTHING_UNCOMMITTED, Uncommitted
from msmq.queues.machine_quota import QuotaKind
from msmq.queues.model import QueueManagerModel
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import Queue
from msmq.structures.names.name_text import QueueSuffix
from msmq.wire.guid import NULL_GUID


def uncommitted_messages(model: QueueManagerModel) -> int:
    """How many messages open transactions have sent to queues that still exist."""
    pending = model.transacting.uncommitted().items()
    return sum(each.messages for queue, each in pending if not queue.is_deleted)


def dead_letter_count(model: QueueManagerModel) -> int:
    """How many messages both dead-letter queues hold."""
    return sum(
        model.system_queue(suffix).message_count for suffix in (QueueSuffix.DEADLETTER, QueueSuffix.DEADXACT)
    )


def summarize_queue(
    model: QueueManagerModel, queue: Queue, uncommitted: Mapping[Queue, Uncommitted] | None = None
) -> QueueSummary:
    """One queue of this queue manager.

    @param uncommitted: as L{QueueTransactions.uncommitted}, where several queues are summarized together.
    """
    pending = model.transacting.uncommitted() if uncommitted is None else uncommitted
    unsent = pending.get(queue, NOTHING_UNCOMMITTED)
    definition, main, journal = queue.definition, queue.main.definition, queue.journal
    return QueueSummary(
        path=queue_path(queue),
        format_name=str(model.format_name(queue)),
        identifier=definition.identifier,
        type=definition.type.value,
        transactional=definition.transactional,
        journal=main.journal,
        log=definition.log,
        quota=_quota(_own_quota(queue)),
        journal_quota=_quota(main.journal_quota),
        label=definition.label,
        authenticate=main.authenticate,
        privacy=main.privacy.value,
        application_type=optional_type(main.application_type),
        messages=max(0, queue.message_count - unsent.messages),
        bytes=max(0, queue.total_bytes - unsent.size),
        uncommitted=unsent.messages,
        uncommitted_bytes=unsent.size,
        journal_messages=0 if journal is None else journal.message_count,
        journal_bytes=0 if journal is None else journal.total_bytes,
        log_age=definition.log_age or None,
        log_size=_quota(definition.log_size),
        subqueues=[_subqueue(subqueue) for subqueue in queue.subqueues.values()],
        sent_total=queue.arrived_count,
        received_total=queue.received_count,
        oldest_message_time=queue.oldest_arrival,
        paused=queue.withholds,
    )


def summarize_quotas(model: QueueManagerModel) -> QuotaSummary:
    """The quotas of all queues together."""
    quotas, storage = model.quotas, model.storage
    return QuotaSummary(
        quota=quotas.kilobytes(QuotaKind.QUEUES),
        quota_source=quotas.source(QuotaKind.QUEUES),
        used=storage.used,
        journal_quota=quotas.kilobytes(QuotaKind.JOURNALS),
        journal_quota_source=quotas.source(QuotaKind.JOURNALS),
        journal_used=storage.journaled,
    )


def optional_type(kind: UUID) -> UUID | None:
    """Type of a queue; C{None} for the null GUID."""
    return None if kind == NULL_GUID else kind


def queue_path(queue: Queue) -> str:
    """The path of a local queue, or the format name of an outgoing queue."""
    path = queue.definition.path
    return path if isinstance(queue, OutgoingQueue) else f".\\{path}"


def _own_quota(queue: Queue) -> int:
    if queue.parent is None:
        return queue.definition.quota
    parent = queue.parent.definition
    return parent.journal_quota if queue.is_system else parent.quota


def _quota(kilobytes: int) -> int | None:
    return None if kilobytes == UNLIMITED else kilobytes


def _subqueue(subqueue: Queue) -> SubqueueSummary:
    return SubqueueSummary(
        subqueue.definition.path.rpartition(";")[2], subqueue.message_count, subqueue.total_bytes
    )


def summarize_outgoing(
    queue: OutgoingQueue,
    uncommitted: Uncommitted,
    paused_by: Sequence[str],
    redirected_to: str | None,
    next_attempt: float | None,
    awaiting: AwaitingMessages,
) -> OutgoingQueueSummary:
    """One outgoing queue.

    @param uncommitted: messages that open transactions have sent to it.
    @param next_attempt: when its next hop is dialled again.
    @param awaiting: messages that were sent from it and wait for FinalAcks.
    """
    messages = max(0, queue.message_count - uncommitted.messages)
    return OutgoingQueueSummary(
        format_name=str(queue.destination),
        transit=queue.is_transit,
        state=queue.state.value,
        next_hops=list(queue.next_hops),
        messages=messages,
        bytes=max(0, queue.total_bytes - uncommitted.size),
        uncommitted=uncommitted.messages,
        uncommitted_bytes=uncommitted.size,
        unacknowledged=max(0, messages - queue.available_count),
        awaiting_final_acks=awaiting.count,
        awaiting_final_acks_since=awaiting.since,
        history=list(queue.history),
        paused_by=paused_by,
        redirected_to=redirected_to,
        next_attempt=next_attempt,
    )


def summarize_session(
    session: ISession, clock_skew: float | None, other_addresses: Sequence[str]
) -> SessionSummary:
    """One session, in either direction."""
    return SessionSummary(
        identifier=session.session_identifier,
        direction="outgoing" if session.is_initiator else "incoming",
        state=session.state.value,
        remote_identifier=session.remote_identifier,
        remote_address=session.remote_address,
        opened=session.opened,
        last_heard=session.last_heard,
        encrypted=session.is_encrypted,
        last_sent=session.last_sent,
        statistics=session.statistics,
        clock_skew=clock_skew,
        other_addresses=other_addresses,
    )
