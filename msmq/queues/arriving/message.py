"""Message: the properties of a message to be sent. [MS-MQDMPR] 3.1.1.12."""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import Final
from uuid import UUID

import attrs

from msmq.queues.arriving.message_types import check_types
from msmq.structures.algorithms import AuthenticationLevel, EncryptionAlgorithm, PrivacyLevel
from msmq.structures.names.format_name import FormatName, parse_format_name
from msmq.structures.names.path_name import parse_path_name
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.packet.message_class import APPLICATION_CLASS_MASK
from msmq.structures.packet.security_header import SenderIdType
from msmq.structures.status import MQError, Status

LABEL_LENGTH: Final = 249
"""The most characters (UTF-16 code units) that the label of a message may have."""

CORRELATION_SIZE: Final = 20
"""The bytes of a CorrelationIdentifier: a queue manager's GUID and a number."""

HASH_SHA_512: Final = 0x800E
ENCRYPTION_AES_256: Final = 0x6610

_KNOWN_TYPES: Final[set[tuple[type, ...]]] = set()
"""Types of all attributes together that were checked before: a check of each takes as long as the rest."""

_MOST_KNOWN_TYPES: Final = 256

_LEVELS: Final = frozenset(PrivacyLevel)
_ALGORITHMS: Final = frozenset(EncryptionAlgorithm)
_WEAK: Final = frozenset({EncryptionAlgorithm.RC2, EncryptionAlgorithm.RC4})

_NUMBERS: Final = (
    "body_type",
    "time_to_be_received",
    "application_tag",
    "hash_algorithm",
    "encryption_algorithm",
)


class Delivery(enum.Enum):
    """DeliveryGuarantee: an express message may be lost, a recoverable one not. [MS-MQDMPR] 3.1.1.12.

    [MS-MQQB] 1.3.2.1.1 and 1.3.2.1.2; a transactional message (1.3.2.1.3) is recoverable.
    """

    EXPRESS = "express"
    RECOVERABLE = "recoverable"


class Acknowledge(enum.IntFlag):
    """Flags: the requested administration acknowledgements. [MS-MQMQ] 2.2.19.3."""

    NONE = 0
    POSITIVE_ARRIVAL = 0x01
    POSITIVE_RECEIVE = 0x02
    NEGATIVE_ARRIVAL = 0x04
    NEGATIVE_RECEIVE = 0x08


MOST_NAMES: Final = 1024
"""Limit on format names whose parsed form is cached; a program uses few, and each message has some."""

_parsed_name: Final = lru_cache(MOST_NAMES)(parse_format_name)


def _name(name: FormatName | str | None) -> FormatName | None:
    return _parsed_name(name) if isinstance(name, str) else name


# Without slots, because attrs assigns those of a frozen class with one call each, which takes twice as long.
@attrs.frozen(slots=False)
class Message:
    """The attributes of a message that its sender chooses. [MS-MQDMPR] 3.1.1.12.

    @ivar body_type: a PROPVARIANT type ([MS-MQMQ] 2.2.19.3 BodyType); 0 means unspecified.
    @ivar priority: 0 to 7, 7 first; a transactional message is sent with 0 regardless.
    @ivar transactional: it is sent in a transaction, and is recoverable too.
    @ivar time_to_reach_queue: seconds; C{INFINITE} never expires, C{None} is the default of the enterprise
        or of the queue manager that sends it (reading 70).
    @ivar time_to_be_received: seconds, including the time in transit; C{INFINITE} never expires.
    @ivar journal: the sending queue manager keeps a copy once the message is delivered.
    @ivar dead_letter: the sending queue manager keeps a copy if it cannot be delivered.
    @ivar dead_letter_queue: the path of a queue of the sending queue manager for this copy; if it is empty,
        or unsuitable for the message by then, a dead-letter queue of the system is used.
    @ivar acknowledge: needs an C{admin_queue}, which is not sent without it.
    @ivar admin_queue: the queue for acknowledgements: a format name, as an object or as text; so is
        C{response_queue}.
    @ivar correlation_id: 20 bytes for applications.
    @ivar trace: the public queue for report messages; C{None} for no reports.
    @ivar message_class: [MS-MQMQ] 2.2.18.1.6; an application may define others with the bits 0xE1FF.
    @ivar authentication_level: the version of its signature; a message to several queues gets that of MSMQ
        3.0 regardless.
    @ivar sender_certificate: a prefix of the SHA-256 of the signing certificate, in hex digits; by default
        the queue manager chooses the one of its sender.
    @ivar sender_identifier_type: the type of the sender identifier in it. C{None} means the SID if the
        message is signed, and otherwise the setting of the queue manager; with NONE the message is anonymous
        to the receiver.
    @ivar hash_algorithm: used if the message is signed.
    @ivar privacy_level: the minimum encryption of the body in transit to another queue manager; the
        packet in the outgoing queue has it in clear.
    @ivar encryption_algorithm: the preferred algorithm; the one used depends on the keys of the receiver
        ([MS-MQQB] 3.1.7.1.5).
    @raise MQError: a value has another type (MQ_ERROR_ILLEGAL_PROPERTY_VT) or is outside the range of its
        property, which the error names; a text that is not a format name is MQ_ERROR_ILLEGAL_FORMATNAME.
    """

    body: bytes = attrs.field(default=b"", repr=False)
    label: str = ""
    body_type: int = 0
    priority: int = 3
    delivery: Delivery = Delivery.EXPRESS
    transactional: bool = False
    time_to_reach_queue: int | None = None
    time_to_be_received: int = INFINITE
    journal: bool = False
    dead_letter: bool = False
    acknowledge: Acknowledge = Acknowledge.NONE
    admin_queue: FormatName | None = attrs.field(default=None, converter=_name)
    response_queue: FormatName | None = attrs.field(default=None, converter=_name)
    correlation_id: bytes = bytes(CORRELATION_SIZE)
    application_tag: int = 0
    extension: bytes = attrs.field(default=b"", repr=False)
    trace: UUID | None = None
    message_class: int = 0
    connector_type: UUID | None = None
    hash_algorithm: int = HASH_SHA_512
    encryption_algorithm: int = ENCRYPTION_AES_256
    dead_letter_queue: str = ""
    privacy_level: PrivacyLevel = PrivacyLevel.NONE
    authentication_level: AuthenticationLevel = AuthenticationLevel.NONE
    sender_certificate: str = ""
    sender_identifier_type: SenderIdType | None = None

    def __attrs_post_init__(self) -> None:
        types = tuple(map(type, self.__dict__.values()))
        if types not in _KNOWN_TYPES:
            check_types(self.__dict__, Delivery)
            if len(_KNOWN_TYPES) < _MOST_KNOWN_TYPES:
                _KNOWN_TYPES.add(types)
        if not 0 <= self.priority <= 7:
            raise _illegal("priority", self.priority, "0..7")
        # All five at once, because this runs for every message: the rest is an excess bit, or a sign.
        if (
            self.body_type
            | self.time_to_be_received
            | self.application_tag
            | self.hash_algorithm
            | self.encryption_algorithm
        ) >> 32:
            raise self._misfit()
        if self.time_to_reach_queue is not None and self.time_to_reach_queue >> 32:
            raise _illegal("time to reach queue", self.time_to_reach_queue, "0..0xFFFFFFFF")
        if self.label:
            self._check_label()
        if self.dead_letter_queue:
            parse_path_name(self.dead_letter_queue)
        if len(self.correlation_id) != CORRELATION_SIZE:
            raise MQError(
                Status.MQ_ERROR_ILLEGAL_PROPERTY_SIZE,
                f"the correlation identifier has {len(self.correlation_id)} bytes, not {CORRELATION_SIZE}",
            )
        if self.message_class & ~APPLICATION_CLASS_MASK:
            raise _illegal("class", self.message_class, f"the bits {APPLICATION_CLASS_MASK:#06X}")
        if not 0 <= self.acknowledge <= 0x0F:
            raise _illegal("acknowledge", int(self.acknowledge), "the bits 0x0F")
        if self.privacy_level:
            self._check_privacy()

    @property
    def is_recoverable(self) -> bool:
        """Whether it has to be on disk before it is acknowledged; always if it is transactional."""
        return self.transactional or self.delivery is Delivery.RECOVERABLE

    def _check_privacy(self) -> None:
        """EncryptionAlgorithm: RC2 and RC4 are for the levels 1 and 3, AES is for 5. [MS-MQMQ] 2.2.19.3.

        C{ENCRYPTION_AES_256} is the default, so it is allowed with every level.
        """
        if self.privacy_level not in _LEVELS:
            raise _illegal("privacy level", self.privacy_level, "0, 1, 3, 5")
        chosen = self.encryption_algorithm
        if chosen != ENCRYPTION_AES_256 and (
            chosen not in _ALGORITHMS or (chosen in _WEAK) is (self.privacy_level == PrivacyLevel.ADVANCED)
        ):
            allowed = "AES" if self.privacy_level == PrivacyLevel.ADVANCED else "RC2 and RC4"
            raise MQError(
                Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE,
                f"encryption algorithm 0x{chosen:04X} cannot be used with privacy level"
                f" {int(self.privacy_level)}, which is for {allowed}",
            )

    def _misfit(self) -> MQError:
        name, number = next(
            (name, number)
            for name, number in ((name, getattr(self, name)) for name in _NUMBERS)
            if not 0 <= number <= 0xFFFFFFFF
        )
        return _illegal(name.replace("_", " "), number, "0..0xFFFFFFFF")

    def _check_label(self) -> None:
        # No character has more than two code units, so they are counted only in a long label.
        if len(self.label) > LABEL_LENGTH // 2:
            units = len(self.label.encode("utf-16-le", "surrogatepass")) // 2
            if units > LABEL_LENGTH:
                raise MQError(
                    Status.MQ_ERROR_LABEL_TOO_LONG,
                    f"the label has {units} characters; a message takes at most {LABEL_LENGTH}",
                )
        if "\0" in self.label:
            raise MQError(Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, "the label contains a NUL")


def _illegal(name: str, value: int, allowed: str) -> MQError:
    return MQError(Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, f"{name} {value} is not within {allowed}")
