"""Properties of a queue, without its messages. [MS-MQDMPR] 3.1.1.2 Queue."""

from __future__ import annotations

import enum
from uuid import UUID

import attrs

from msmq.structures.status import MQError, Status
from msmq.wire.guid import NULL_GUID

UNLIMITED = 0xFFFFFFFF
"""Quota value that means no limit, in kilobytes ([MS-MQDMPR] 3.1.7.1.33)."""

LABEL_LENGTH = 124
"""Maximum length of a queue label, in characters."""


class QueueType(enum.Enum):
    """Type of a queue. [MS-MQDMPR] 3.1.1.2 QueueType.

    OUTGOING is our addition: it marks the definition of an OutgoingQueue, which the document describes as a
    separate element (3.1.1.3).
    A journal is a SYSTEM queue with a parent, a subqueue a queue of its parent's type.
    """

    PRIVATE = "private"
    PUBLIC = "public"
    SYSTEM = "system"
    CONNECTOR = "connector"
    OUTGOING = "outgoing"


class QueuePrivacy(enum.Enum):
    """Encryption required of messages to a queue. [MS-MQDMPR] 3.1.1.2, [MS-MQMQ] 2.3.1.12 PrivacyLevel.

    NONE accepts only messages that were not encrypted in transit, BODY only encrypted ones, OPTIONAL both.
    """

    NONE = "none"
    OPTIONAL = "optional"
    BODY = "body"


@attrs.frozen
class QueueDefinition:
    """Definition of a queue as a store keeps it. [MS-MQDMPR] 3.1.1.2.

    @ivar identifier: the Identifier of the DirectoryObject; never used twice.
    @ivar path: the Pathname without the computer, C{private$\\orders} for example; of an outgoing queue its
        DestinationFormatName. Compared without case, displayed as given.
    @ivar number: PrivateQueueNumber, the number in C{PRIVATE=guid\\number}; 0 if it is not private.
    @ivar journal: Journaling, whether received messages are copied to the journal.
    @ivar log: whether arrivals are kept in the message log of the queue.
    @ivar log_age: minimum retention of the message log, in seconds; 0 for no limit by age.
    @ivar log_size: maximum size of the message log, in kilobytes of packets; 0xFFFFFFFF for no limit.
    @ivar quota: kilobytes of 1024 bytes for messages, 0 to 0xFFFFFFFF, which means no limit.
    @ivar journal_quota: the same for the journal.
    @ivar authenticate: Authentication, whether only authenticated messages are accepted.
    @ivar application_type: Type, a GUID whose meaning only applications define.
    @ivar created: CreateTime, seconds since 1970-01-01 UTC.
    @ivar modified: ModifyTime, the same.
    @ivar base_priority: BasePriority ([MS-MQMQ] 2.3.1.6), -32768 to 32767; 0 for a private queue. For an
        outgoing queue, it is added to the priority of each message to choose the next one to send.
    @ivar security: Security, the security descriptor, self-relative; empty for none, which grants every right
        to everyone.
    @ivar parent: the identifier of the parent queue of a journal or subqueue; else C{None}.
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
    """Convert a quota to bytes; C{None} if it sets no limit."""
    return None if kilobytes == UNLIMITED else kilobytes * 1024
