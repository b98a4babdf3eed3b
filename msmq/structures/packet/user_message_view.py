"""A view of a UserMessage packet in its bytes: locates its headers and validates it once.

Every received message becomes a L{UserMessageView}, so its constructor is optimized: it locates the
headers in as few steps as possible and stores a handful of offsets.
A packet with anything unusual, valid or not, is left to the readers of the single headers, which
accept it or raise the error.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from struct import Struct
from typing import Final

from msmq.errors import RemoteProtocolError
from msmq.structures.packet.base_header import INFINITE, BaseHeader
from msmq.structures.packet.kept_packet import without_kept_headers
from msmq.structures.packet.security_header import SecurityHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.structures.packet.user_message_fields import UserMessageFields
from msmq.structures.packet.user_message_patches import (
    patch_hop_count,
    patch_sequence,
    patch_session_header,
    patch_time_to_reach_queue,
)
from msmq.structures.packet.user_message_walk import (
    NAMES,
    SIZE_OF_NAME,
    Unusual,
    after_optional_headers,
    after_other_names,
    after_transaction_and_security,
)
from msmq.wire.reader import Reader

__all__ = [
    "UserMessageView",
    "have_one_destination",
    "measure_user_message",
    "patch_hop_count",
    "patch_sequence",
    "patch_session_header",
    "patch_time_to_reach_queue",
]

# VersionNumber, BaseHeader.Flags, Signature, PacketSize, TimeToReachQueue, SourceQueueManager,
# QueueManagerAddress, SentTime, UserHeader.Flags, Count of a direct name.
_BEGINNING: Final = Struct("<BxHIII16s16s4xI4xIH").unpack_from
# Flags, LabelLength, MessageClass, MessageSize, ExtensionSize.
_SIZES: Final = Struct("<BBH28xI16xI").unpack_from

_FLAGS_AT: Final = 60
"""Where UserHeader.Flags begins, with the queue names behind it."""

NEVER: Final = float("inf")
"""The reach limit of a message that does not expire in transit."""


class UserMessageView(UserMessageFields):
    """UserMessage Packet without a SessionHeader, in its bytes. [MS-MQMQ] 2.2.20.

    It is the message that [MS-MQQB] 3.1.7.10 and [MS-MQDMPR] 3.1.7.1.31 deserialize a packet to.

    The constructor locates every header and validates the packet; afterwards fields are read from the bytes,
    and values are not cached.

    @param packet: exactly PacketSize bytes with Flags.SH clear, as the framer returns them; in a store also
        its local headers (L{msmq.structures.packet.kept_packet}).
    @raise RemoteProtocolError: the packet is malformed.
    @ivar packet: the bytes.
    @ivar size: their number.
    @ivar base_flags: BaseHeader.Flags.
    @ivar flags: UserHeader.Flags.
    @ivar is_recoverable: whether it has to survive a restart, as every transactional message has.
    @ivar message_class: a L{MessageClass<msmq.structures.packet.message_class.MessageClass>} or another
        number.
    @ivar is_transactional: whether there is a TransactionHeader.
    @ivar source_queue_manager: the 16 bytes of the first sender's GUID.
    @ivar queue_manager_address: the 16 bytes of the GUID of the destination's queue manager; zeros with a
        direct name.
    @ivar sent_time: seconds since 1970-01-01 UTC.
    @ivar reach_limit: the second after which TimeToReachQueue has expired; infinity for never.
        [MS-MQQB] 3.1.5.8. Whole seconds are compared, and at the limit itself a message has not expired.
    @ivar acknowledge: the requested acknowledgements: C{PA | PR | NA | NR} of the MessagePropertiesHeader.
    @ivar body_size: bytes of the body.
    """

    __slots__ = (
        "_extension_size",
        "_label_length",
        "_names_end",
        "_properties",
        "acknowledge",
        "base_flags",
        "body_size",
        "flags",
        "is_recoverable",
        "is_transactional",
        "message_class",
        "packet",
        "queue_manager_address",
        "reach_limit",
        "sent_time",
        "size",
        "source_queue_manager",
    )

    acknowledge: int
    base_flags: int
    body_size: int
    flags: int
    is_recoverable: bool
    is_transactional: bool
    message_class: int
    packet: bytes
    queue_manager_address: bytes
    reach_limit: float
    sent_time: int
    size: int
    source_queue_manager: bytes
    _extension_size: int
    _label_length: int
    _names_end: int
    _properties: int

    def __init__(self, packet: bytes) -> None:
        self.packet = packet
        try:
            version, base_flags, signature, size, time_to_reach, source, address, sent_time, flags, count = (
                _BEGINNING(packet)
            )
            if (
                version != 0x10
                or signature != 0x524F494C
                or size != len(packet)
                or size > 0x00400000
                or base_flags & 0x0018  # IN, SH
                or flags & 0x00200040 != 0x00200000  # MP; DM is 0 or 1
                or flags & 0x1F > 0x1D  # RC
            ):
                raise Unusual
            kind = flags >> 10 & 7
            if kind == 7:
                end = 66 + count
                if count & 1 or packet.find(b"\0\0", 66, end) < end - 3 or packet[end - 1]:
                    raise Unusual
                position = end + 3 & ~3
            elif kind in (0, 3, 5):
                position = NAMES + SIZE_OF_NAME[kind]
            else:
                raise Unusual
            if flags & 0x0047E000:  # AQ, RQ, CQ
                position = after_other_names(packet, position, flags)
            self._names_end = position
            if flags & 0x00180000:  # TH, SH
                position = after_transaction_and_security(packet, position, flags)
            wanted, label_length, message_class, body_size, extension_size = _SIZES(packet, position)
            end = position + 56 + 2 * label_length
            if label_length and (
                label_length > 250 or packet.find(b"\0\0", position + 56, end) < end - 3 or packet[end - 1]
            ):
                raise Unusual
            end = end + extension_size + body_size + 3 & ~3
            if base_flags & 0x0120 or flags & 0x10800000:  # DH, TR; HH, MQ
                end = after_optional_headers(packet, end, base_flags, flags)
            if end != size:
                raise Unusual
        except (Unusual, struct.error, IndexError):
            self._read_strictly()
            return
        self.size = size
        self.base_flags = base_flags
        self.flags = flags
        self.is_recoverable = flags & 0x20 != 0
        self.is_transactional = flags & 0x00100000 != 0
        self.source_queue_manager = source
        self.queue_manager_address = address
        self.sent_time = sent_time
        self.reach_limit = NEVER if time_to_reach == INFINITE else sent_time + time_to_reach + 1
        self.acknowledge = wanted & 0x0F
        self.message_class = message_class
        self.body_size = body_size
        self._properties = position
        self._label_length = label_length
        self._extension_size = extension_size

    @classmethod
    def known(
        cls,
        packet: bytes,
        *,
        base_flags: int,
        flags: int,
        is_recoverable: bool,
        acknowledge: int,
        source_queue_manager: bytes,
        queue_manager_address: bytes,
        sent_time: int,
        time_to_reach_queue: int,
        message_class: int,
        body_size: int,
        extension_size: int,
        label_length: int,
        names_end: int,
        properties: int,
    ) -> UserMessageView:
        """A view of a packet that was built locally, with known offsets and without validation.

        @param label_length: characters of the label, its NUL included.
        @param names_end: where the UserHeader ends.
        @param properties: where the MessagePropertiesHeader begins.
        """
        view = cls.__new__(cls)
        view.packet = packet
        view.size = len(packet)
        view.base_flags = base_flags
        view.flags = flags
        view.is_recoverable = is_recoverable
        view.is_transactional = flags & 0x00100000 != 0
        view.source_queue_manager = source_queue_manager
        view.queue_manager_address = queue_manager_address
        view.sent_time = sent_time
        view.reach_limit = NEVER if time_to_reach_queue == INFINITE else sent_time + time_to_reach_queue + 1
        view.acknowledge = acknowledge
        view.message_class = message_class
        view.body_size = body_size
        view._extension_size = extension_size
        view._label_length = label_length
        view._names_end = names_end
        view._properties = properties
        return view

    def _read_strictly(self) -> None:
        """Locate the headers with the readers of the single headers; a packet may have local headers."""
        record = self.packet
        packet = without_kept_headers(record)
        if packet is not None:
            view = UserMessageView(packet)
            for name in self.__slots__:
                setattr(self, name, getattr(view, name))
            self.packet = record
            self.size = len(record)
            return
        message = UserMessage.from_bytes(self.packet)
        if message.base.has_session_header:
            raise RemoteProtocolError(
                BaseHeader.SECTION,
                BaseHeader.NAME,
                "Flags",
                2,
                "SH in a packet without a SessionHeader",
            )
        reader = Reader(self.packet)
        reader.skip(BaseHeader.SIZE, BaseHeader.NAME)
        user = UserHeader.read(reader)
        self._names_end = reader.position
        if user.has_transaction_header:
            TransactionHeader.read(reader)
        if user.has_security_header:
            SecurityHeader.read(reader)
        self._properties = reader.position
        _, self.base_flags, _, self.size, time_to_reach, source, address, sent_time, self.flags, _ = (
            _BEGINNING(self.packet)
        )
        wanted, self._label_length, self.message_class, self.body_size, self._extension_size = _SIZES(
            self.packet, self._properties
        )
        self.is_recoverable = user.is_recoverable
        self.is_transactional = user.has_transaction_header
        self.source_queue_manager = source
        self.queue_manager_address = address
        self.sent_time = sent_time
        self.reach_limit = NEVER if time_to_reach == INFINITE else sent_time + time_to_reach + 1
        self.acknowledge = wanted & 0x0F

    def __repr__(self) -> str:
        return f"<UserMessageView {self.identifier}, {self.size} bytes>"


def have_one_destination(messages: Sequence[UserMessageView]) -> bool:
    """Whether messages have the same UserHeader.Flags, queue names and QueueManagerAddress.

    All rules that depend on these alone give one answer for all of them. It is a matter of a comparison of
    bytes for each message; false says nothing.
    """
    first = messages[0]
    end = first._names_end
    return (
        len({message.packet[_FLAGS_AT:end] for message in messages}) == 1
        and len({message.queue_manager_address for message in messages}) == 1
    )


def measure_user_message(data: memoryview) -> int:
    """Bytes of a UserMessage packet up to the end of the last header that PacketSize should count.

    That is PacketSize, or 16 bytes less if the peer counts the SessionHeader too.

    @param data: PacketSize bytes of a packet, with SH set or clear.
    @raise RemoteProtocolError: the packet is malformed.
    """
    if len(data) >= BaseHeader.SIZE:
        try:
            return UserMessageView(patch_session_header(bytes(data), None)).size
        except RemoteProtocolError:
            # Perhaps the headers only end before PacketSize.
            pass
    reader = Reader(data)
    UserMessage.read_headers(reader, BaseHeader.read(reader))
    return reader.position
