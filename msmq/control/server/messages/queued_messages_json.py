"""Messages in queues as JSON, with the properties that are local to their queue manager."""

from __future__ import annotations

from typing import Any, Final

from msmq.decoding.message_json import message_json
from msmq.decoding.values import correlation_text, unix_time
from msmq.interfaces.manager.received_messages import (
    Explanation,
    FoundReport,
    MessageLocation,
    ReceivedMessage,
)
from msmq.persistence.changes import AppendEvent
from msmq.structures.names.name_text import is_outgoing_path
from msmq.structures.packet.message_class import class_name
from msmq.transfer.deliveries.records import NO_GUID, DeliveryRecord, DeliveryStep
from msmq.wire.guid import format_guid, guid_from_bytes

_OF_A_PLACE: Final = ("lookup_id", "arrived_time", "class", "class_name", "abort_count", "move_count")
"""Properties of a message that depend on the queue that holds it."""


_ACKNOWLEDGEMENTS: Final = {
    DeliveryStep.HANDED_OVER: "session",
    DeliveryStep.ORDERED: "order",
    DeliveryStep.SETTLED: "final",
    DeliveryStep.ANSWERED: "administration",
}


def properties_of(message: ReceivedMessage) -> dict[str, Any]:
    """A message in JSON without its body, and C{abort_count} and C{move_count}."""
    return {
        **message_json(message.view, lookup_id=message.lookup_id, arrived=message.arrived, body=False),
        "abort_count": message.aborts,
        "move_count": message.moves,
    }


def dead_letter_of(location: MessageLocation) -> dict[str, Any]:
    """A message, its C{queue}, and its C{state} there."""
    return {"queue": location.queue, "state": location.state, **properties_of(location.message)}


def explanation_of(explanation: Explanation) -> dict[str, Any]:
    """Everything known about a message: C{known}, C{summary}, C{records_since}, C{message}, C{events},
    C{places}, C{unreadable}, C{deliveries}, C{reports}.

    If no queue holds the message, C{message} has only its identifier.
    """
    places = sorted(explanation.places, key=lambda location: location.message.arrived)
    message = {"id": str(explanation.identifier)}
    if places:
        properties = properties_of(places[0].message)
        message |= {key: value for key, value in properties.items() if key not in _OF_A_PLACE}
    return {
        "known": explanation.is_known,
        "summary": explanation.summary,
        "records_since": unix_time(explanation.records_since),
        "message": message,
        "events": [_event(event) for event in explanation.events],
        "places": [_location_json(location) for location in places],
        "unreadable": [
            {
                "queue": each.queue,
                "lookup_id": each.lookup_id,
                "arrived_time": unix_time(each.arrived),
                "reason": each.reason,
            }
            for each in explanation.unreadable
        ],
        "deliveries": [_delivery(record) for record in explanation.deliveries],
        "reports": [_report(report) for report in explanation.reports],
    }


def _delivery(record: DeliveryRecord) -> dict[str, Any]:
    where, run = record.where, record.runs[0]
    number = record.message_class or None
    return {
        "time": unix_time(record.time),
        "acknowledgement": _ACKNOWLEDGEMENTS[record.step],
        "queue_manager": None if where.peer == NO_GUID else format_guid(guid_from_bytes(where.peer)),
        "address": where.address or None,
        "session_opened": unix_time(where.opened or None),
        "session_number": run.number or None,
        "sent_time": unix_time(run.sent or None),
        "sequence_id": record.sequence or None,
        "sequence_number": run.sequence_number or None,
        "class": number,
        "class_name": None if number is None else class_name(number),
        "queue": _shown_queue(where.queue),
    }


def _report(report: FoundReport) -> dict[str, Any]:
    hop = report.hop
    return {
        "time": unix_time(report.view.sent_time),
        "event": "arrived" if hop.next_hop is None else "sent",
        "queue_manager": format_guid(guid_from_bytes(report.view.source_queue_manager)),
        "next_hop": hop.next_hop,
        "hops": hop.hop_count,
        "target_queue": hop.target_queue,
        "queue": report.queue,
    }


def _event(event: AppendEvent) -> dict[str, Any]:
    number = event.message_class or None
    return {
        "time": unix_time(event.time),
        "event": event.event,
        "reason": event.reason,
        "class": number,
        "class_name": None if number is None else class_name(number),
        "queue": _shown_queue(event.queue),
    }


def event_of(event: AppendEvent) -> dict[str, Any]:
    """An entry of the event log as JSON, with its C{message}."""
    return {**_event(event), "message": correlation_text(event.identity) if event.identity else None}


def _shown_queue(path: str) -> str | None:
    if not path:
        return None
    return path if is_outgoing_path(path) else f".\\{path}"


def _location_json(location: MessageLocation) -> dict[str, Any]:
    properties = properties_of(location.message)
    return {
        "queue": location.queue,
        "state": location.state,
        "transaction": None if location.transaction is None else format_guid(location.transaction),
        **{key: properties[key] for key in _OF_A_PLACE},
    }
