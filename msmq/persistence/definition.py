"""[MS-MQDMPR] 3.1.1.2 Queue: the properties of a queue, apart from the messages in it."""

from __future__ import annotations

import enum
from uuid import UUID

import attrs

from msmq.structures.status import MQError, Status
from msmq.wire.guid import NULL_GUID

UNLIMITED = 0xFFFFFFFF
"""The quota, in kilobytes, that is none ([MS-MQDMPR] 3.1.7.1.33)."""

LABEL_LENGTH = 124
"""The most characters that the label of a queue may have."""


class QueueType(enum.Enum):
    """[MS-MQDMPR] 3.1.1.2 QueueType.

    OUTGOING is not in that list: it marks the definition of an OutgoingQueue (3.1.1.3), which the
    document describes as an element of its own.
    A journal is a SYSTEM queue with a parent, a subqueue a queue of its parent's type.
    """

    PRIVATE = "private"
    PUBLIC = "public"
    SYSTEM = "system"
    CONNECTOR = "connector"
    OUTGOING = "outgoing"


class QueuePrivacy(enum.Enum):
    """[MS-MQDMPR] 3.1.1.2, [MS-MQMQ] 2.3.1.12 PrivacyLevel: which messages a queue takes.

    NONE accepts only messages that were not encrypted in transit, BODY only encrypted ones, OPTIONAL both.
    """

    NONE = "none"
    OPTIONAL = "optional"
    BODY = "body"


@attrs.frozen
class QueueDefinition:
    """[MS-MQDMPR] 3.1.1.2 what a store keeps of a queue.

    @ivar identifier: the Identifier of the DirectoryObject; never used twice.
    @ivar path: the Pathname without the computer, C{private$\\orders} for example; of an outgoing
        queue its DestinationFormatName. Compared without case, printed as it was given.
    @ivar number: PrivateQueueNumber, the number in C{PRIVATE=guid\\number}; 0 if it is not private.
    @ivar journal: Journaling, whether received messages are copied to the journal.
    @ivar log: whether arrivals are kept in the message log of the queue.
    @ivar log_age: seconds for which the message log keeps them, at least; 0 for no such limit.
    @ivar log_size: kilobytes of packets that the message log keeps at most; 0xFFFFFFFF for no such limit.
    @ivar quota: kilobytes of 1024 bytes for messages, 0 to 0xFFFFFFFF, which means no limit.
    @ivar journal_quota: the same for the journal.
    @ivar authenticate: Authentication, whether only authenticated messages are taken.
    @ivar application_type: Type, a GUID that only applications give a meaning to.
    @ivar created: CreateTime, seconds since 1970-01-01 UTC.
    @ivar modified: ModifyTime, the same.
    @ivar base_priority: BasePriority ([MS-MQMQ] 2.3.1.6), -32768 to 32767; 0 for a private queue. That of
        an outgoing queue is added to the priority of each message when the next one to send is chosen.
    @ivar security: Security, the security descriptor, self-relative; empty for none, which lets everybody do
        everything.
    @ivar parent: the identifier of the queue of which it is the journal or a subqueue; else C{None}.
    @raise MQError: MQ_ERROR_ILLEGAL_PROPERTY_VALUE for a quota or a log limit outside its range,
        MQ_ERROR_LABEL_TOO_LONG for a label over 124 characters.
    """

    identifier: UUID
    path: str
    number: int = 0
    type: QueueType = QueueType.PRIVATE
    label: str = ""
    transactional: bool = False
    journal: bool = False
    log: bool = False
    quota: int = UNLIMITED
    journal_quota: int = UNLIMITED
    authenticate: bool = False
    privacy: QueuePrivacy = QueuePrivacy.OPTIONAL
    application_type: UUID = NULL_GUID
    created: int = 0
    modified: int = 0
    log_age: int = 0
    log_size: int = UNLIMITED
    base_priority: int = 0
    security: bytes = attrs.field(default=b"", repr=False)
    parent: UUID | None = None

    def __attrs_post_init__(self) -> None:
        if len(self.label) > LABEL_LENGTH:
            raise MQError(
                Status.MQ_ERROR_LABEL_TOO_LONG,
                f"the label has {len(self.label)} characters; a queue takes at most {LABEL_LENGTH}",
            )
        for name, value in (
            ("quota", self.quota),
            ("journal quota", self.journal_quota),
            ("log size", self.log_size),
            ("log age", self.log_age),
        ):
            if not 0 <= value <= UNLIMITED:
                raise MQError(
                    Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, f"{name} {value} is not within 0..0xFFFFFFFF"
                )


def quota_in_bytes(kilobytes: int) -> int | None:
    """The bytes that a quota allows; C{None} if it sets no limit."""
    return None if kilobytes == UNLIMITED else kilobytes * 1024
