"""A view of a UserMessage packet in its bytes: locates its headers and validates it once.

Every received message becomes a L{UserMessageView}, so its constructor is optimized: it locates the
headers in as few steps as possible and stores a handful of offsets.
A packet with anything unusual, valid or not, is left to the readers of the single headers, which
accept it or raise the error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from operator import attrgetter
from struct import Struct
from typing import Final

from msmq.errors import RemoteProtocolError
from msmq.structures.packet.base_header import INFINITE, BaseHeader
from msmq.structures.packet.kept_packet import without_kept_headers
from msmq.structures.packet.packet_shape import PacketShape
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
    "different_ones",
    "have_one_destination",
    "have_one_shape",
    "measure_user_message",
    "patch_hop_count",
    "patch_sequence",
    "patch_session_header",
    "patch_time_to_reach_queue",
    "total_size",
    "views_of",
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

    The constructor locates every header and validates the packet; afterwards fields are read from its shape
    or the bytes, and values are not cached.

    @param packet: exactly PacketSize bytes with Flags.SH clear, as the framer returns them; in a store also
        its local headers (L{msmq.structures.packet.kept_packet}).
    @raise RemoteProtocolError: the packet is malformed.
    @ivar packet: the bytes.
    @ivar shape: the fields that it may share with other packets, among them all of the following.
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

    __slots__ = ("packet", "shape")

    packet: bytes
    shape: PacketShape

    acknowledge: int = property(attrgetter("shape.acknowledge"))  # type: ignore[assignment]
    base_flags: int = property(attrgetter("shape.base_flags"))  # type: ignore[assignment]
    body_size: int = property(attrgetter("shape.body_size"))  # type: ignore[assignment]
    flags: int = property(attrgetter("shape.flags"))  # type: ignore[assignment]
    is_recoverable: bool = property(attrgetter("shape.is_recoverable"))  # type: ignore[assignment]
    is_transactional: bool = property(attrgetter("shape.is_transactional"))  # type: ignore[assignment]
    message_class: int = property(attrgetter("shape.message_class"))  # type: ignore[assignment]
    queue_manager_address: bytes = property(  # type: ignore[assignment]
        attrgetter("shape.queue_manager_address")
    )
    reach_limit: float = property(attrgetter("shape.reach_limit"))  # type: ignore[assignment]
    sent_time: int = property(attrgetter("shape.sent_time"))  # type: ignore[assignment]
    size: int = property(attrgetter("shape.size"))  # type: ignore[assignment]
    source_queue_manager: bytes = property(  # type: ignore[assignment]
        attrgetter("shape.source_queue_manager")
    )

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
            names_end = position
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
        self.shape = shape = PacketShape()
        shape.size = size
        shape.base_flags = base_flags
        shape.flags = flags
        shape.is_recoverable = flags & 0x20 != 0
        shape.is_transactional = flags & 0x00100000 != 0
        shape.source_queue_manager = source
        shape.queue_manager_address = address
        shape.sent_time = sent_time
        shape.reach_limit = NEVER if time_to_reach == INFINITE else sent_time + time_to_reach + 1
        shape.acknowledge = wanted & 0x0F
        shape.message_class = message_class
        shape.body_size = body_size
        shape.properties = position
        shape.label_length = label_length
        shape.extension_size = extension_size
        shape.names_end = names_end
        shape.body_start = position + 56 + 2 * label_length + extension_size
        if base_flags & 0x0120 or flags & 0x10880000:  # DH, TR; HH, MQ, SH
            shape.before = None
        else:
            shape.share(packet)

    @classmethod
    def shaped(cls, packet: bytes, shape: PacketShape) -> UserMessageView:
        """A view of a packet that is known to have this shape, without validation."""
        view = cls.__new__(cls)
        view.packet = packet
        view.shape = shape
        return view

    def _read_strictly(self) -> None:
        """Locate the headers with the readers of the single headers; a packet may have local headers."""
        record = self.packet
        packet = without_kept_headers(record)
        if packet is not None:
            shape = UserMessageView(packet).shape
            shape.before = None
            shape.size = len(record)
            self.shape = shape
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
        self.shape = shape = PacketShape()
        shape.before = None
        shape.names_end = reader.position
        if user.has_transaction_header:
            TransactionHeader.read(reader)
        if user.has_security_header:
            SecurityHeader.read(reader)
        shape.properties = reader.position
        _, shape.base_flags, _, shape.size, time_to_reach, source, address, sent_time, shape.flags, _ = (
            _BEGINNING(self.packet)
        )
        wanted, shape.label_length, shape.message_class, shape.body_size, shape.extension_size = _SIZES(
            self.packet, shape.properties
        )
        shape.is_recoverable = user.is_recoverable
        shape.is_transactional = user.has_transaction_header
        shape.source_queue_manager = source
        shape.queue_manager_address = address
        shape.sent_time = sent_time
        shape.reach_limit = NEVER if time_to_reach == INFINITE else sent_time + time_to_reach + 1
        shape.acknowledge = wanted & 0x0F
        shape.body_start = shape.properties + 56 + 2 * shape.label_length + shape.extension_size

    def __repr__(self) -> str:
        return f"<UserMessageView {self.identifier}, {self.size} bytes>"


def views_of(packets: Iterable[bytes], shape: PacketShape | None = None) -> list[UserMessageView]:
    """The views of packets that arrived together, most of which have one shape.

    @param shape: of the packet before them. Once a packet has another shape, no later one shares it.
    @raise RemoteProtocolError: one is malformed.
    """
    views: list[UserMessageView] = []
    add = views.append
    make = UserMessageView.__new__
    before = names = b""
    size = end = 0
    is_simple = False
    for packet in packets:
        if is_simple and packet[:56] == before and packet[60:end] == names and len(packet) == size:
            view = make(UserMessageView)
            view.packet = packet
            view.shape = shape  # type: ignore[assignment]
        elif shape is not None and shape.before is not None and shape.fits(packet):
            view = UserMessageView.shaped(packet, shape)
            before, names, size = shape.before, shape.names, shape.size
            end = 60 + len(names)
            is_simple = not shape.is_transactional
        else:
            if shape is not None:
                shape.keep_apart()
            view = UserMessageView(packet)
            shape = view.shape
            is_simple = False
        add(view)
    return views


def different_ones(messages: Sequence[UserMessageView]) -> Sequence[UserMessageView]:
    """The first message, and those that do not share its L{PacketShape}.

    What depends on the fields of a shape alone is true for any of the messages if it is for any of these.
    """
    if len(messages) < 2:
        return messages
    shape = messages[0].shape
    return [messages[0], *[message for message in messages if message.shape is not shape]]


def total_size(messages: Sequence[UserMessageView]) -> int:
    """Bytes of all packets together."""
    return sum([message.shape.size for message in messages])


def have_one_shape(messages: Sequence[UserMessageView]) -> bool:
    """Whether messages share one L{PacketShape}; of equal ones that were read apart they may be false.

    Then what holds for the header of one holds for all, except for what L{PacketShape} lists.
    """
    shape = messages[0].shape
    return not [message for message in messages if message.shape is not shape]


def have_one_destination(messages: Sequence[UserMessageView]) -> bool:
    """Whether messages have the same UserHeader.Flags, queue names and QueueManagerAddress.

    All rules that depend on these alone give one answer for all of them. It is a matter of a comparison of
    bytes for each message; false says nothing.
    """
    if have_one_shape(messages):
        return True
    first = messages[0]
    end = first.shape.names_end
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
