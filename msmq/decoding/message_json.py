"""Converts a message to a JSON object of its properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msmq.decoding.records import Record
from msmq.decoding.values import base64_text, correlation_text, text_or_base64, unix_time
from msmq.queues.arriving.reports import parse_report
from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.names.format_name import FormatName
from msmq.structures.names.queue_names import DirectQueueFormatName, QueueName, direct_text
from msmq.structures.packet.message_class import MessageClass, class_name
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from msmq.wire.guid import format_guid

_PA: Final = MessagePropertiesHeader.PA
_PR: Final = MessagePropertiesHeader.PR
_NA: Final = MessagePropertiesHeader.NA
_NR: Final = MessagePropertiesHeader.NR

_ACKNOWLEDGE: Final = (
    ("full-reach", _PA | _NA),
    ("full-receive", _PR | _NA | _NR),
    ("nack-receive", _NA | _NR),
    ("nack-reach", _NA),
    ("reach", _PA),
    ("receive", _PR),
    ("nack-receive", _NR),
)
"""Names of acknowledgement requests, each before those that it includes."""

_SIGNATURE_VERSIONS: Final[Mapping[AuthenticationLevel, str]] = {
    AuthenticationLevel.SIG_1_0: "1.0",
    AuthenticationLevel.SIG_2_0: "2.0",
    AuthenticationLevel.SIG_3_0: "3.0",
}


def message_json(
    view: UserMessageView,
    *,
    lookup_id: int | None = None,
    arrived: float | None = None,
    body: bool = True,
    is_kept: bool = True,
) -> Record:
    r"""The message as a JSON object.

    The keys, in this order: C{id} (C{{guid}\number}), C{lookup_id}, C{label}, C{body} (if the bytes
    are UTF-8 without control characters other than tab, CR and LF) or else C{body_base64},
    C{body_size}, C{body_type}, C{priority}, C{class}, C{class_name}, C{delivery}, C{transactional},
    C{sent_time}, C{arrived_time}, C{source_queue_manager}, C{destination_queue}, C{admin_queue},
    C{response_queue}, C{correlation_id}, C{application_tag}, C{hops}, C{journal}, C{dead_letter},
    C{dead_letter_queue} (a path, of what was sent here), C{acknowledge}, C{extension_base64},
    C{authenticated}, C{signature_version} (C{1.0}, C{2.0} or C{3.0}; null unless authenticated), C{sender_id}
    and C{transaction}.

    Times are in ISO 8601, UTC; queues are format names.
    Missing properties are C{None}.

    @param lookup_id: its LookupIdentifier in its queue.
    @param arrived: its arrival time in the queue, in seconds since 1970-01-01 UTC.
    @param body: whether to include the body; otherwise both of its keys are missing.
    @param is_kept: whether a queue manager of ours keeps the packet and so has said itself whether it is
        authenticated; a message from the wire was not checked.
    """
    user = view.user_header
    message_class = view.message_class
    return {
        "id": str(user.identifier),
        "lookup_id": lookup_id,
        "label": view.label,
        **(body_json(message_class, view.label, view.body) if body else {}),
        "body_size": view.body_size,
        "body_type": view.body_type,
        "priority": view.priority,
        "class": message_class,
        "class_name": class_name(message_class),
        "delivery": "recoverable" if view.is_recoverable else "express",
        "transactional": view.is_transactional,
        "sent_time": unix_time(user.sent_time),
        "arrived_time": unix_time(arrived),
        "source_queue_manager": format_guid(user.source_queue_manager),
        "destination_queue": queue_text(user.destination_queue, user.resolve_destination),
        "admin_queue": queue_text(user.admin_queue, user.resolve_admin_queue),
        "response_queue": queue_text(user.response_queue, user.resolve_response_queue),
        "correlation_id": correlation_text(view.correlation_id),
        "application_tag": view.application_tag,
        "hops": user.hop_count,
        "journal": user.journal,
        "dead_letter": user.dead_letter,
        "dead_letter_queue": view.dead_letter_queue or None,
        "acknowledge": acknowledge_names(view.acknowledge),
        "extension_base64": base64_text(view.extension),
        "authenticated": is_kept and view.authentication_level is not AuthenticationLevel.NONE,
        "signature_version": _SIGNATURE_VERSIONS.get(view.authentication_level) if is_kept else None,
        "sender_id": view.sender_id,
        "transaction": transaction_json(view),
    }


def body_json(message_class: int, label: str, body: bytes | memoryview) -> Record:
    """The body of a message: C{body} or C{body_base64}, and of a trace report also C{report}.

    The body of a report ([MS-MQQB] 3.1.5.8.9) is UTF-16, which is given as text; C{report} has C{message}
    (the identifier of the traced message), C{event} (C{sent} or C{arrived}), C{hops}, C{target_queue} and
    C{next_hop}.
    """
    hop = parse_report(label, body) if message_class == MessageClass.REPORT else None
    if hop is None:
        return {**text_or_base64("body", body)}
    return {
        "body": bytes(body).decode("utf-16-le", "replace").rstrip("\0"),
        "report": {
            "message": str(hop.identifier),
            "event": "arrived" if hop.next_hop is None else "sent",
            "hops": hop.hop_count,
            "target_queue": hop.target_queue,
            "next_hop": hop.next_hop,
        },
    }


def queue_text(name: QueueName | None, resolve: Callable[[], FormatName | None]) -> str | None:
    """The format name of a queue that a UserHeader names.

    An invalid direct name is returned unchanged; C{None} if there is none, or if it is a
    private queue of a host that the packet does not identify.

    @param name: the name as the header holds it.
    @param resolve: resolves it in the context of that header.
    """
    if isinstance(name, DirectQueueFormatName):
        return direct_text(name)
    try:
        resolved = resolve()
    except MQError:
        return None
    return None if resolved is None else str(resolved)


def acknowledge_names(flags: int) -> list[str]:
    """The requested acknowledgements, by the names of C{msmq send --ack}."""
    names = []
    left = flags
    for name, asked in _ACKNOWLEDGE:
        if flags & asked == asked and left & asked:
            names.append(name)
            left &= ~asked
    return names


def transaction_json(view: UserMessageView) -> Record | None:
    """The message's position in its sequence, as a JSON object; C{None} without a sequence."""
    sequence = view.tx_sequence_id
    if sequence is None:
        return None
    return {
        "sequence_id": sequence.value,
        "sequence_number": view.tx_sequence_number,
        "previous": view.previous_tx_sequence_number,
        "first": view.is_first,
        "last": view.is_last,
    }
