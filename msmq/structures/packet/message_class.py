"""Message Class Values. [MS-MQMQ] 2.2.18.1.6."""

from __future__ import annotations

import enum
from typing import Final

APPLICATION_CLASS_MASK: Final = 0xE1FF
"""The bits that an application-defined class may use."""


class MessageClass(enum.IntEnum):
    """The kind of a message, or the result that it reports about another message. [MS-MQMQ] 2.2.18.1.6.

    A packet may have other numbers.
    """

    NORMAL = 0x0000
    """An application's message."""
    REPORT = 0x0001
    """A report about a traced message."""
    ACK_REACH_QUEUE = 0x0002
    """The message was delivered to its queue."""
    ORDER_ACK = 0x00FF
    """Transactional messages arrived in order."""
    ACK_RECEIVE = 0x4000
    """An application retrieved the message."""
    NACK_BAD_DST_Q = 0x8000
    """The queue does not exist or is not available."""
    NACK_DELETED = 0x8001
    """An administrator deleted the message before it arrived."""
    NACK_REACH_QUEUE_TIMEOUT = 0x8002
    """TimeToReachQueue or TimeToBeReceived expired before it arrived."""
    NACK_Q_EXCEED_QUOTA = 0x8003
    """The queue is full."""
    NACK_ACCESS_DENIED = 0x8004
    """The sender has no permission to write to the queue."""
    NACK_HOP_COUNT_EXCEEDED = 0x8005
    """It passed too many routing servers."""
    NACK_BAD_SIGNATURE = 0x8006
    """Its signature does not verify."""
    NACK_BAD_ENCRYPTION = 0x8007
    """Its body cannot be decrypted."""
    NACK_COULD_NOT_ENCRYPT = 0x8008
    """Its body could not be encrypted, so it was not sent; the number has no name in the document."""
    NACK_NOT_TRANSACTIONAL_Q = 0x8009
    """A transactional message for a queue that is not transactional."""
    NACK_NOT_TRANSACTIONAL_MSG = 0x800A
    """A message outside a transaction for a transactional queue."""
    NACK_UNSUPPORTED_CRYPTO_PROVIDER = 0x800B
    """It was signed or encrypted with an unknown provider."""
    NACK_Q_DELETED = 0xC000
    """The queue was deleted before the message was retrieved."""
    NACK_Q_PURGED = 0xC001
    """The queue was purged before the message was retrieved."""
    NACK_RECEIVE_TIMEOUT = 0xC002
    """TimeToBeReceived expired in the queue."""
    NACK_RECEIVE_REJECTED = 0xC004
    """The receiving application rejected the message."""


ACKNOWLEDGEMENT_CLASSES: Final = frozenset(MessageClass) - {MessageClass.NORMAL, MessageClass.REPORT}
"""The classes of messages that are for administration queues."""

_NAMES: Final = {member.value: f"MQMSG_CLASS_{member.name}" for member in MessageClass}

_LOCAL_NAMES: Final = {
    0x800C: "MQMSG_CLASS_NACK_SOURCE_COMPUTER_GUID_CHANGED",
    0xC003: "MQMSG_CLASS_NACK_RECEIVE_TIMEOUT_AT_SENDER",
}
"""Classes that a queue manager uses locally, and that no packet has. [MC-MQAC] 2.2.2.9."""

CLASS_NAMES: Final = frozenset((*_NAMES.values(), *_LOCAL_NAMES.values()))
"""All names that L{class_name} knows."""


def class_name(number: int) -> str:
    """The documents' name of a class, such as C{MQMSG_CLASS_NORMAL}; four hex digits if it has none."""
    return _NAMES.get(number) or _LOCAL_NAMES.get(number) or f"0x{number:04X}"


def is_application_class(number: int) -> bool:
    """Whether an application may define this class for its messages.

    It uses only the bits of 0xE1FF and is not one of the classes that the document defines; C{NORMAL}, which
    every application may send, is one of those.
    """
    return number & ~APPLICATION_CLASS_MASK == 0 and number not in _NAMES
