"""What the queue manager tells of itself: the mappings behind the command's JSON output."""

from __future__ import annotations

from typing import Any

import attrs

from msmq.interfaces.session import ISession
from msmq.queues.definition import UNLIMITED
from msmq.queues.model import QueueManagerModel
from msmq.queues.outgoing import ConnectionHistoryEntry, OutgoingQueue
from msmq.queues.queue import Queue
from msmq.session.counting import PacketCounts
from msmq.wire.guid import format_guid


def describe_queue(model: QueueManagerModel, queue: Queue) -> dict[str, Any]:
    """One queue of this queue manager; quotas are kilobytes, C{None} where there is none."""
    definition = queue.definition
    return {
        "path": f".\\{definition.path}",
        "format_name": str(model.format_name(queue)),
        "identifier": format_guid(definition.identifier),
        "type": definition.type.value,
        "transactional": definition.transactional,
        "journal": definition.journal,
        "log": definition.log,
        "quota": _quota(definition.quota),
        "journal_quota": _quota(definition.journal_quota),
        "label": definition.label,
        "authenticate": definition.authenticate,
        "privacy": definition.privacy.value,
        "messages": queue.message_count,
        "bytes": queue.total_bytes,
        "journal_messages": 0,
        "journal_bytes": 0,
    }


def _quota(kilobytes: int) -> int | None:
    return None if kilobytes == UNLIMITED else kilobytes


def describe_outgoing(queue: OutgoingQueue) -> dict[str, Any]:
    """One outgoing queue; C{unacknowledged} were sent and may not be forgotten yet."""
    return {
        "format_name": str(queue.destination),
        "state": queue.state.value,
        "next_hops": list(queue.next_hops),
        "messages": queue.message_count,
        "bytes": queue.total_bytes,
        "unacknowledged": queue.message_count - queue.available_count,
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
        **attrs.asdict(session.statistics),
    }


def describe_counts(counts: PacketCounts) -> dict[str, dict[str, int]]:
    """Packets by direction and kind."""
    return {"sent": attrs.asdict(counts.sent), "received": attrs.asdict(counts.received)}
