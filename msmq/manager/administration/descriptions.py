"""What the queue manager tells of itself: the mappings behind the command's JSON output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import attrs

from msmq.decoding.values import unix_time
from msmq.interfaces.session import ISession
from msmq.interfaces.sessions import ISessions
from msmq.persistence.definition import UNLIMITED
from msmq.queues.leaving.transaction import NOTHING_UNCOMMITTED, Uncommitted
from msmq.queues.model import QueueManagerModel
from msmq.queues.outgoing import ConnectionHistoryEntry, OutgoingQueue
from msmq.queues.queue import Queue
from msmq.session.packet_counts import PacketCounts
from msmq.structures.names.name_text import QueueSuffix
from msmq.wire.guid import NULL_GUID, format_guid


def describe_holdings(model: QueueManagerModel) -> dict[str, Any]:
    """How much a queue manager has."""
    pending = model.transacting.uncommitted().items()
    uncommitted = sum(each.messages for queue, each in pending if not queue.is_deleted)
    return {
        "queues": sum(1 for _ in model.queues()),
        "messages": max(0, model.message_count - uncommitted),
        "uncommitted": uncommitted,
        "bytes": model.storage.used,
    }


def describe_losses(model: QueueManagerModel) -> dict[str, Any]:
    """What of a queue manager wants looking after."""
    return {
        "transactions": sum(1 for _ in model.transacting.transactions),
        "dead_letters": sum(
            model.system_queue(suffix).message_count
            for suffix in (QueueSuffix.DEADLETTER, QueueSuffix.DEADXACT)
        ),
        "copies_dropped": model.copying.dropped,
    }


def describe_queue(
    model: QueueManagerModel, queue: Queue, uncommitted: Mapping[Queue, Uncommitted] | None = None
) -> dict[str, Any]:
    """One queue of this queue manager; quotas are kilobytes, C{None} where there is none.

    A subqueue shows the properties of its queue, a journal the JournalQuota of its queue as its quota.
    What a transaction has sent and not committed is not among the messages.

    @param uncommitted: as L{QueueTransactions.uncommitted}, where several queues are described together.
    """
    pending = model.transacting.uncommitted() if uncommitted is None else uncommitted
    unsent = pending.get(queue, NOTHING_UNCOMMITTED)
    definition, main, journal = queue.definition, queue.main.definition, queue.journal
    return {
        "path": queue_path(queue),
        "format_name": str(model.format_name(queue)),
        "identifier": format_guid(definition.identifier),
        "type": definition.type.value,
        "transactional": definition.transactional,
        "journal": main.journal,
        "log": definition.log,
        "quota": _quota(_own_quota(queue)),
        "journal_quota": _quota(main.journal_quota),
        "label": definition.label,
        "authenticate": main.authenticate,
        "privacy": main.privacy.value,
        "application_type": _type(main.application_type),
        "messages": max(0, queue.message_count - unsent.messages),
        "bytes": max(0, queue.total_bytes - unsent.size),
        "uncommitted": unsent.messages,
        "uncommitted_bytes": unsent.size,
        "journal_messages": 0 if journal is None else journal.message_count,
        "journal_bytes": 0 if journal is None else journal.total_bytes,
        "log_age": definition.log_age or None,
        "log_size": _quota(definition.log_size),
        "subqueues": [_subqueue(subqueue) for subqueue in queue.subqueues.values()],
    }


def _type(kind: UUID) -> str | None:
    return None if kind == NULL_GUID else format_guid(kind)


def queue_path(queue: Queue) -> str:
    """The path of a queue of this queue manager, or the format name of an outgoing queue."""
    path = queue.definition.path
    return path if isinstance(queue, OutgoingQueue) else f".\\{path}"


def _own_quota(queue: Queue) -> int:
    if queue.parent is None:
        return queue.definition.quota
    parent = queue.parent.definition
    return parent.journal_quota if queue.is_system else parent.quota


def _quota(kilobytes: int) -> int | None:
    return None if kilobytes == UNLIMITED else kilobytes


def _subqueue(subqueue: Queue) -> dict[str, Any]:
    return {
        "name": subqueue.definition.path.rpartition(";")[2],
        "messages": subqueue.message_count,
        "bytes": subqueue.total_bytes,
    }


def describe_outgoing(queue: OutgoingQueue, uncommitted: Uncommitted) -> dict[str, Any]:
    """One outgoing queue; C{unacknowledged} were sent and may not be forgotten yet.

    @param uncommitted: what open transactions have sent to it.
    """
    messages = max(0, queue.message_count - uncommitted.messages)
    return {
        "format_name": str(queue.destination),
        "transit": queue.is_transit,
        "state": queue.state.value,
        "next_hops": list(queue.next_hops),
        "messages": messages,
        "bytes": max(0, queue.total_bytes - uncommitted.size),
        "uncommitted": uncommitted.messages,
        "uncommitted_bytes": uncommitted.size,
        "unacknowledged": max(0, messages - queue.available_count),
        "history": [_entry(entry) for entry in queue.history],
    }


def _entry(entry: ConnectionHistoryEntry) -> dict[str, Any]:
    return {
        "status": entry.status.document_name,
        "time": entry.time,
        "error": entry.error,
        "addresses": list(entry.addresses),
    }


def describe_session(session: ISession) -> dict[str, Any]:
    """One session, in either direction."""
    identifier = session.remote_identifier
    return {
        "direction": "outgoing" if session.is_initiator else "incoming",
        "state": session.state.value,
        "remote_identifier": None if identifier is None else format_guid(identifier),
        "remote_address": session.remote_address,
        "opened": unix_time(session.opened),
        "last_heard": unix_time(session.last_heard),
        "encrypted": session.is_encrypted,
        "last_sent": unix_time(session.last_sent),
        **attrs.asdict(session.statistics),
    }


def describe_refusals(sessions: ISessions) -> dict[str, Any]:
    """Connections that did not become sessions, and whose they were, the latest first."""
    return {
        "sessions_refused": dict(sessions.refused),
        "refused_peers": [{**peer, "last": unix_time(peer["last"])} for peer in sessions.refused_peers],
    }


def describe_counts(counts: PacketCounts) -> dict[str, dict[str, int]]:
    """Packets by direction and kind."""
    return {"sent": attrs.asdict(counts.sent), "received": attrs.asdict(counts.received)}
