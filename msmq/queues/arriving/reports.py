"""Report messages about the hops of traced messages. [MS-MQQB] 1.3.6, 3.1.5.8.9 and 3.1.7.1.7.

Label and body are texts that applications parse, so they are formatted as the documents print them:
C{received by} on sending too, the first sender as the computer, a blank before C{</HOP COUNT>} (reading 74).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import attrs

from msmq.moment import Moment
from msmq.queues.arriving.message import Message
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import FormatName, PrivateFormatName, PublicFormatName
from msmq.structures.names.queue_names import DirectQueueFormatName, direct_text
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.security_header import SenderIdType
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from msmq.wire.guid import GUID_TEXT, NULL_GUID, format_guid, guid_from_bytes

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_LABEL: Final = re.compile(
    rf"[0-9A-F]{{4}}:([0-9A-F]{{8}}):([0-9A-F]{{2}}) received by ({GUID_TEXT.pattern}) at .*", re.IGNORECASE
)
_BODY: Final = re.compile(
    "<MESSAGE ID>[0-9A-Fa-f]{8}</MESSAGE ID>\r\n"
    "<TARGET QUEUE>([^\r\n]*)</TARGET QUEUE>\r\n"
    "(?:<NEXT HOP>([^\r\n]*)</NEXT HOP>\r\n<HOP COUNT>[0-9A-Fa-f]{2} ?</HOP COUNT>\r\n)?\0?"
)
_LARGEST_BODY: Final = 100_000
"""Bytes; a format name of the greatest length is shorter."""


@attrs.frozen
class TraceReport:
    """A report message to be sent.

    @ivar destination: the public queue that the traced message names.
    """

    destination: PublicFormatName
    message: Message


@attrs.frozen
class Hop:
    """The content of a report about a traced message.

    @ivar identifier: of the traced message.
    @ivar hop_count: how many routing servers it had passed.
    @ivar target_queue: the format name of its destination.
    @ivar next_hop: the address to which it was sent; C{None} if it arrived.
    """

    identifier: MessageIdentifier
    hop_count: int
    target_queue: str
    next_hop: str | None


def report(
    view: UserMessageView, now: Moment, *, queue_manager: UUID, next_hop: str | None = None
) -> TraceReport | None:
    """The report about a message that has arrived or, if there is a next hop, was sent.

    C{None} for a message that is not traced or has no queue for reports, and for a report.

    @param queue_manager: the reporting one; a null QueueManagerAddress means this.
    @param next_hop: the IP address of the peer to which a message was sent.
    """
    if not view.is_traced or view.message_class == MessageClass.REPORT:
        return None
    debug = view.debug
    if debug is None or debug.queue_identifier is None:
        return None
    number = f"{view.message_id:08X}"
    hops = f"{view.hop_count:02X}"
    source = format_guid(guid_from_bytes(view.source_queue_manager))
    lines = [
        f"<MESSAGE ID>{number}</MESSAGE ID>",
        f"<TARGET QUEUE>{destination_of(view, queue_manager)}</TARGET QUEUE>",
    ]
    if next_hop is not None:
        # An address of [RFC3986] has no zone.
        lines.append(f"<NEXT HOP>{next_hop.partition('%')[0]}</NEXT HOP>")
        lines.append(f"<HOP COUNT>{hops} </HOP COUNT>")
    return TraceReport(
        PublicFormatName(debug.queue_identifier),
        Message(
            body="".join(f"{line}\r\n" for line in lines).encode("utf-16-le", "surrogatepass"),
            label=f"{source[:4]}:{number}:{hops} received by {source} at {_time(now)}",
            message_class=MessageClass.REPORT,
            sender_identifier_type=SenderIdType.NONE,
        ),
    )


def read_report(view: UserMessageView) -> Hop | None:
    """The content of a report message, of this or another queue manager; C{None} for any other message."""
    if view.message_class != MessageClass.REPORT:
        return None
    return parse_report(view.label, view.body)


def parse_report(label: str, body: bytes | memoryview) -> Hop | None:
    """Parse a report from its label and body; C{None} if they are not those of a report."""
    if len(body) > _LARGEST_BODY:
        return None
    head = _LABEL.fullmatch(label)
    parts = _BODY.fullmatch(bytes(body).decode("utf-16-le", "replace"))
    if head is None or parts is None:
        return None
    number, hops, source = head.group(1, 2, 3)
    identifier = MessageIdentifier(UUID(source), int(number, 16))
    return Hop(identifier, int(hops, 16), parts.group(1), parts.group(2))


def destination_of(view: UserMessageView, queue_manager: UUID) -> FormatName | str | None:
    """The name of a message's destination queue; C{None} if the packet has none.

    @param queue_manager: the one that a null QueueManagerAddress means.
    @return: an invalid direct name is returned unchanged.
    """
    try:
        name = view.destination_format_name()
    except MQError:
        written = view.destination
        return direct_text(written) if isinstance(written, DirectQueueFormatName) else None
    if isinstance(name, PrivateFormatName) and name.queue_manager == NULL_GUID:
        return attrs.evolve(name, queue_manager=queue_manager)
    return name


def _time(now: Moment) -> str:
    """In UTC, on a 12-hour clock with AM or PM."""
    time = datetime.fromtimestamp(now.wall, UTC)
    half = "AM" if time.hour < 12 else "PM"
    day, month = _DAYS[time.weekday()], _MONTHS[time.month - 1]
    hour = (time.hour - 1) % 12 + 1
    return (
        f"{hour:02}:{time.minute:02}:{time.second:02} {half} {day},{month} {time.day:02} {time.year % 100:02}"
    )
