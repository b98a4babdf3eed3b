"""The input of message signatures, one function for each version of MSMQ. [MS-MQMQ] 2.5.

The documents name fields and not bytes. Each field is used as it is on the wire, without the padding
after it (readings 84 and 85): a queue name with its Count, a label with its NUL. A missing field contributes
nothing, except ConnectorType, which then is sixteen zeros.
The body is the clear one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from types import MappingProxyType
from typing import Final

from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.packet.user_message_walk import NAMES, SIZE_OF_NAME
from msmq.wire.guid import NULL_GUID

# The offsets of CorrelationID, BodyType and ApplicationTag in the MessagePropertiesHeader.
_CORRELATION_ID: Final = slice(4, 24)
_APPLICATION_TAG: Final = slice(28, 32)
_FIXED: Final = 56
_SOURCE_QUEUE_MANAGER: Final = slice(16, 32)

# DM, PR, JP and JN, the requested acknowledgements, MessageClass, BodyType.
_PROPERTIES: Final = Struct("<BBBBHI")


def signature_input_1_0(view: UserMessageView) -> bytes:
    """The input of an MSMQ 1.0 digital signature. [MS-MQMQ] 2.5.1."""
    _, admin, response = _names(view)
    return b"".join((*_beginning(view), response, admin))


def signature_input_2_0(view: UserMessageView) -> bytes:
    """The input of an MSMQ 2.0 digital signature. [MS-MQMQ] 2.5.2."""
    destination, admin, response = _names(view)
    return b"".join((*_beginning(view), response, admin, *_end(view), destination))


def signature_input_3_0(view: UserMessageView) -> bytes:
    """Input of an MSMQ 3.0 digital signature, which does not include DestinationQueue. [MS-MQMQ] 2.5.3."""
    _, admin, response = _names(view)
    multi_queue = view.multi_queue_format
    destinations = b"" if multi_queue is None else multi_queue.destination.format_name_list
    return b"".join((*_beginning(view), response, admin, view.extension, destinations, *_end(view)))


SIGNATURE_INPUTS: Final[Mapping[AuthenticationLevel, Callable[[UserMessageView], bytes]]] = MappingProxyType(
    {
        AuthenticationLevel.SIG_2_0: signature_input_2_0,
        AuthenticationLevel.SIG_1_0: signature_input_1_0,
        AuthenticationLevel.SIG_3_0: signature_input_3_0,
    }
)
"""The input of each version, in the order in which a receiver tries them (reading 71)."""


def _beginning(view: UserMessageView) -> tuple[bytes | memoryview, ...]:
    """The beginning of all versions: CorrelationID, ApplicationTag, MessageBody, Label."""
    start = view.properties_offset
    packet = view.packet
    properties = packet[start : start + _FIXED]
    label_size = 2 * properties[1]
    return (
        properties[_CORRELATION_ID],
        properties[_APPLICATION_TAG],
        view.body,
        packet[start + _FIXED : start + _FIXED + label_size],
    )


def _end(view: UserMessageView) -> tuple[bytes, ...]:
    """The common part of 2.0 and 3.0: from SourceQueueManager to ConnectorType."""
    connector_type = view.connector_type
    return (
        view.packet[_SOURCE_QUEUE_MANAGER],
        _PROPERTIES.pack(
            view.is_recoverable,
            view.base_flags & BaseHeader.PR,
            view.journal << 1 | view.dead_letter,
            view.acknowledge,
            view.message_class,
            view.body_type,
        ),
        (NULL_GUID if connector_type is None else connector_type).bytes_le,
    )


def _names(view: UserMessageView) -> tuple[bytes, bytes, bytes]:
    """DestinationQueue, AdminQueue and ResponseQueue, as they are on the wire without their padding."""
    found = []
    position = NAMES
    for shift in (UserHeader.DQ_SHIFT, UserHeader.AQ_SHIFT, UserHeader.RQ_SHIFT):
        kind = view.flags >> shift & 7
        if kind == 7:
            end = position + 2 + int.from_bytes(view.packet[position : position + 2], "little")
        else:
            end = position + SIZE_OF_NAME[kind]
        found.append(view.packet[position:end])
        position = end + 3 & ~3
    destination, admin, response = found
    return destination, admin, response
