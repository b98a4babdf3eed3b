"""A UserMessage packet as it came, judged once and read only where someone asks.

Every message that passes through goes through L{UserMessageView}, so its constructor is written for
speed: it finds where the headers end by as few steps as it can and keeps a handful of numbers.
Whatever looks unusual to it, right or wrong, it leaves to the readers of the single headers, which
decide about the packet and make the error.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import Final
from uuid import UUID

from msmq.errors import RemoteProtocolError
from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.identifiers import MessageIdentifier, TxSequenceID
from msmq.structures.names.format_name import FormatName
from msmq.structures.names.queue_names import QueueName, QueueNameKind, read_queue_name
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.debug_header import DebugHeader
from msmq.structures.packet.kept_packet import dead_letter_queue_of, packet_of, without_kept_headers
from msmq.structures.packet.multi_queue_format_header import MultiQueueFormatHeader
from msmq.structures.packet.security_header import SecurityHeader, SenderIdType
from msmq.structures.packet.soap_header import SoapHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message import UserMessage
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
from msmq.wire.guid import braced, guid_from_bytes
from msmq.wire.reader import Reader
from msmq.wire.sid import format_sid

__all__ = [
    "UserMessageView",
    "measure_user_message",
    "patch_hop_count",
    "patch_sequence",
    "patch_session_header",
    "patch_time_to_reach_queue",
]

# VersionNumber, BaseHeader.Flags, Signature, PacketSize, UserHeader.Flags, Count of a direct name.
_BEGINNING: Final = Struct("<BxHII48xIH").unpack_from
# LabelLength, MessageClass, MessageSize, ExtensionSize.
_SIZES: Final = Struct("<xBH28xI16xI").unpack_from
_U32: Final = Struct("<I").unpack_from
_SECURITY: Final = SecurityHeader.LAYOUT.unpack_from
_LEVELS: Final = frozenset(AuthenticationLevel)


class UserMessageView:
    """[MS-MQMQ] 2.2.20 UserMessage Packet without a SessionHeader, in the bytes that it came in.

    It is the message that [MS-MQQB] 3.1.7.10 and [MS-MQDMPR] 3.1.7.1.31 deserialize a packet to.

    The constructor finds every header and checks all that makes a packet well formed; afterwards each
    question is answered from the bytes, and an answer that takes making is made each time anew.

    @param packet: exactly PacketSize bytes with Flags.SH clear, as the framer gives them; in a store also
        what is kept behind them (L{msmq.structures.packet.kept_packet}).
    @raise RemoteProtocolError: the packet breaks a rule.
    @ivar packet: the bytes.
    @ivar size: how many there are.
    @ivar base_flags: BaseHeader.Flags.
    @ivar flags: UserHeader.Flags.
    @ivar is_recoverable: whether it has to survive a restart, as every transactional message has.
    @ivar message_class: a L{MessageClass<msmq.structures.packet.message_class.MessageClass>} or another
        number.
    @ivar body_size: bytes of the body.
    """

    __slots__ = (
        "_extension_size",
        "_label_length",
        "_names_end",
        "_properties",
        "base_flags",
        "body_size",
        "flags",
        "is_recoverable",
        "message_class",
        "packet",
        "size",
    )

    base_flags: int
    body_size: int
    flags: int
    is_recoverable: bool
    message_class: int
    packet: bytes
    size: int
    _extension_size: int
    _label_length: int
    _names_end: int
    _properties: int

    def __init__(self, packet: bytes) -> None:
        self.packet = packet
        try:
            version, base_flags, signature, size, flags, count = _BEGINNING(packet)
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
            label_length, message_class, body_size, extension_size = _SIZES(packet, position)
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
        message_class: int,
        body_size: int,
        extension_size: int,
        label_length: int,
        names_end: int,
        properties: int,
    ) -> UserMessageView:
        """A packet that was made here: what the constructor would find is known already, and is not checked.

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
        view.message_class = message_class
        view.body_size = body_size
        view._extension_size = extension_size
        view._label_length = label_length
        view._names_end = names_end
        view._properties = properties
        return view

    def _read_strictly(self) -> None:
        """Learn the same from the readers of the single headers; headers may be kept behind a packet."""
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
                "SH in a packet that is to have no SessionHeader",
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
        _, self.base_flags, _, self.size, self.flags, _ = _BEGINNING(self.packet)
        self._label_length, self.message_class, self.body_size, self._extension_size = _SIZES(
            self.packet, self._properties
        )
        self.is_recoverable = user.is_recoverable

    def __repr__(self) -> str:
        return f"<UserMessageView {self.identifier}, {self.size} bytes>"

    # BaseHeader

    @property
    def priority(self) -> int:
        """0 to 7, 7 being the most urgent."""
        return self.base_flags & 0x0007

    @property
    def is_traced(self) -> bool:
        """Whether reports about the message are wanted."""
        return self.base_flags & 0x0100 != 0

    @property
    def time_to_reach_queue(self) -> int:
        """Seconds, or L{INFINITE<msmq.structures.packet.base_header.INFINITE>}."""
        return self._u32(12)

    # UserHeader

    @property
    def source_queue_manager(self) -> bytes:
        """The 16 bytes of the first sender's GUID."""
        return self.packet[16:32]

    @property
    def queue_manager_address(self) -> bytes:
        """The 16 bytes of the GUID of the destination's queue manager; zeros beside a direct name."""
        return self.packet[32:48]

    @property
    def time_to_be_received(self) -> int:
        """Seconds, or L{INFINITE<msmq.structures.packet.base_header.INFINITE>}."""
        return self._u32(48)

    @property
    def sent_time(self) -> int:
        """Seconds since 1970-01-01 UTC."""
        return self._u32(52)

    @property
    def message_id(self) -> int:
        """The number that the first sender gave the message."""
        return self._u32(56)

    @property
    def identifier(self) -> MessageIdentifier:
        """The message, among all."""
        return MessageIdentifier(guid_from_bytes(self.source_queue_manager), self.message_id)

    @property
    def identity(self) -> bytes:
        """The 20 bytes of that: the GUID, and the number, little-endian."""
        return self.packet[16:32] + self.packet[56:60]

    @property
    def hop_count(self) -> int:
        """How many routing servers the message has passed, 0 to 0x1D."""
        return self.flags & 0x1F

    @property
    def is_transactional(self) -> bool:
        """Whether there is a TransactionHeader."""
        return self.flags & 0x00100000 != 0

    @property
    def dead_letter(self) -> bool:
        """Whether the sender keeps a copy if the message fails (JN)."""
        return self.flags & 0x0100 != 0

    @property
    def journal(self) -> bool:
        """Whether the sender keeps a copy if the message is delivered (JP)."""
        return self.flags & 0x0200 != 0

    @property
    def destination_kind(self) -> QueueNameKind:
        """Which structure names the destination."""
        return QueueNameKind(self.flags >> 10 & 7)

    @property
    def destination_key(self) -> bytes:
        """Bytes that are the same only for messages to one destination: kind and name, without padding.

        Two spellings of a direct name have two keys.
        A number that means a queue of another host has that host's GUID before it.
        """
        kind = self.flags >> 10 & 7
        packet = self.packet
        if kind == 7:
            return b"\x07" + packet[NAMES : NAMES + 2 + packet[64] + 256 * packet[65]]
        if kind == 3:
            return b"\x03" + packet[32:48] + packet[NAMES : NAMES + 4]
        return kind.to_bytes(1, "little") + packet[NAMES : NAMES + SIZE_OF_NAME[kind]]

    def destination(self) -> QueueName | None:
        """The name of the destination as the packet holds it; C{None} if there is none."""
        return read_queue_name(self.destination_kind, self._reader(NAMES))

    def destination_format_name(self) -> FormatName | None:
        """The destination; see L{UserHeader.resolve_destination}.

        @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME, the text of a direct name names no queue.
        """
        return self.user_header().resolve_destination()

    def admin_format_name(self) -> FormatName | None:
        """Where acknowledgements go; see L{UserHeader.resolve_admin_queue}.

        @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME, the text of a direct name names no queue.
        """
        return self.user_header().resolve_admin_queue()

    def response_format_name(self) -> FormatName | None:
        """Where applications answer to; see L{UserHeader.resolve_response_queue}.

        @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME, the text of a direct name names no queue.
        """
        return self.user_header().resolve_response_queue()

    @property
    def connector_type(self) -> UUID | None:
        """ConnectorType, opaque."""
        if not self.flags & UserHeader.CQ:
            return None
        return guid_from_bytes(self.packet[self._names_end - 16 : self._names_end])

    def user_header(self) -> UserHeader:
        """All of the UserHeader."""
        return UserHeader.read(self._reader(BaseHeader.SIZE))

    @property
    def dead_letter_queue(self) -> str:
        """[MS-MQDMPR] 3.1.1.12 ApplicationDeadletterQueue, a path; empty without one, or from afar."""
        return dead_letter_queue_of(self.packet)

    # TransactionHeader

    def transaction(self) -> TransactionHeader | None:
        """All of the TransactionHeader."""
        return TransactionHeader.read(self._reader(self._names_end)) if self.is_transactional else None

    @property
    def tx_sequence_id(self) -> TxSequenceID | None:
        """The sequence of a transactional message."""
        if not self.is_transactional:
            return None
        return TxSequenceID(self._u32(self._names_end + 4), self._u32(self._names_end + 8))

    @property
    def tx_sequence_number(self) -> int:
        """Its place in the sequence; 0 if the message is not transactional."""
        return self._u32(self._names_end + 12) if self.is_transactional else 0

    @property
    def previous_tx_sequence_number(self) -> int:
        """The place of the message before it, 0 if there is none or the message is not transactional."""
        return self._u32(self._names_end + 16) if self.is_transactional else 0

    @property
    def transaction_offset(self) -> int:
        """Where the TransactionHeader begins, if there is one."""
        return self._names_end

    @property
    def properties_offset(self) -> int:
        """Where the MessagePropertiesHeader begins."""
        return self._properties

    @property
    def is_first(self) -> bool:
        """Whether it is marked as the first message of its transaction."""
        return self.is_transactional and self.packet[self._names_end] & TransactionHeader.FM != 0

    @property
    def is_last(self) -> bool:
        """Whether it is marked as the last message of its transaction."""
        return self.is_transactional and self.packet[self._names_end] & TransactionHeader.LM != 0

    # SecurityHeader

    def security(self) -> SecurityHeader | None:
        """All of the SecurityHeader."""
        if not self.flags & UserHeader.SH:
            return None
        packet, position = self.packet, self.security_offset
        flags, *sizes, provider_info_size = _SECURITY(packet, position)
        if provider_info_size:
            return SecurityHeader.read(self._reader(position))
        # The constructor has seen that all of it is there.
        items = []
        position += SecurityHeader.FIXED_SIZE
        for size in sizes:
            items.append(packet[position : position + size])
            position += size + 3 & ~3
        security_id, encryption_key, signature, sender_cert = items
        return SecurityHeader(
            flags & SecurityHeader.ST,
            security_id,
            encryption_key,
            signature,
            sender_cert,
            is_body_encrypted=bool(flags & SecurityHeader.EB),
            is_default_provider=bool(flags & SecurityHeader.DE),
        )

    @property
    def security_offset(self) -> int:
        """Where the SecurityHeader begins, if there is one."""
        if not self.is_transactional:
            return self._names_end
        # Flags.FA: an identifier of 16 bytes follows.
        return self._names_end + (36 if self.packet[self._names_end] & 1 else 20)

    @property
    def authentication_level(self) -> AuthenticationLevel:
        """What was found of the signature, if the packet is kept here; one that comes says nothing of it."""
        if not self.flags & UserHeader.SH:
            return AuthenticationLevel.NONE
        found = self.packet[self.security_offset + 1] & 0x0F
        return AuthenticationLevel(found) if found in _LEVELS else AuthenticationLevel.NONE

    @property
    def sender_id(self) -> str | None:
        """Who sent the message: the text of a SID, or a GUID in braces; of anything else the hex digits."""
        security = self.security()
        if security is None or not security.security_id:
            return None
        data = security.security_id
        if security.sender_id_type == SenderIdType.QUEUE_MANAGER and len(data) == 16:
            return braced(guid_from_bytes(data))
        try:
            return format_sid(data)
        except ValueError:
            return data.hex()

    # MessagePropertiesHeader

    @property
    def acknowledge(self) -> int:
        """Which acknowledgements are wanted: C{PA | PR | NA | NR} of the MessagePropertiesHeader."""
        return self.packet[self._properties] & 0x0F

    @property
    def correlation_id(self) -> bytes:
        """20 bytes; in an acknowledgement the identifier of the message that it is about."""
        return self.packet[self._properties + 4 : self._properties + 24]

    @property
    def body_type(self) -> int:
        """BodyType."""
        return self._u32(self._properties + 24)

    @property
    def application_tag(self) -> int:
        """ApplicationTag, opaque."""
        return self._u32(self._properties + 28)

    @property
    def allocation_body_size(self) -> int:
        """AllocationBodySize, in bytes."""
        return self._u32(self._properties + 36)

    @property
    def privacy_level(self) -> int:
        """PrivacyLevel, as it came."""
        return self._u32(self._properties + 40)

    @property
    def asks_for_privacy(self) -> bool:
        """Whether PrivacyLevel is one of the document's and not 0; every message that is sent is asked."""
        return self.packet[self._properties + 40] != 0

    @property
    def hash_algorithm(self) -> int:
        """HashAlgorithm, as it came."""
        return self._u32(self._properties + 44)

    @property
    def encryption_algorithm(self) -> int:
        """EncryptionAlgorithm, as it came."""
        return self._u32(self._properties + 48)

    @property
    def label(self) -> str:
        """The label, without its NUL."""
        if not self._label_length:
            return ""
        start = self._properties + 56
        return self.packet[start : start + 2 * self._label_length - 2].decode("utf-16-le", "surrogatepass")

    @property
    def extension(self) -> bytes:
        """ExtensionData."""
        start = self._properties + 56 + 2 * self._label_length
        return self.packet[start : start + self._extension_size]

    @property
    def body(self) -> memoryview:
        """MessageBody, without a copy; it is encrypted if the SecurityHeader says so."""
        start = self._properties + 56 + 2 * self._label_length + self._extension_size
        return memoryview(self.packet)[start : start + self.body_size]

    def common_bytes(self) -> bytes | None:
        """Everything but what differs between messages that were sent alike: number, time, transaction, body.

        C{None} for a message with a SecurityHeader, and where an extension makes that long.
        """
        if self.flags & 0x00080000 or self._extension_size > 256:
            return None
        packet = self.packet
        start = self._properties + 56 + 2 * self._label_length + self._extension_size
        return b"".join(
            (
                packet[2:4],
                packet[16:52],
                packet[60 : self._names_end],
                packet[self._properties : start],
                packet[start + self.body_size :],
            )
        )

    # DebugHeader, SoapHeader, MultiQueueFormatHeader

    def debug(self) -> DebugHeader | None:
        """The DebugHeader."""
        if not self.base_flags & BaseHeader.DH:
            return None
        return DebugHeader.read(self._reader(self._properties_end))

    def soap(self) -> SoapHeader | None:
        """The SoapHeader."""
        if not self.flags & UserHeader.HH:
            return None
        return SoapHeader.read(self._after_debug())

    def multi_queue_format(self) -> MultiQueueFormatHeader | None:
        """The MultiQueueFormatHeader."""
        if not self.flags & UserHeader.MQ:
            return None
        reader = self._after_debug()
        if self.flags & UserHeader.HH:
            SoapHeader.read(reader)
        return MultiQueueFormatHeader.read(reader)

    def parse(self) -> UserMessage:
        """The whole packet as values."""
        return UserMessage.from_bytes(packet_of(self.packet))

    @property
    def _properties_end(self) -> int:
        end = self._properties + 56 + 2 * self._label_length + self._extension_size + self.body_size
        return end + 3 & ~3

    def _after_debug(self) -> Reader:
        reader = self._reader(self._properties_end)
        if self.base_flags & BaseHeader.DH:
            DebugHeader.read(reader)
        return reader

    def _u32(self, position: int) -> int:
        (number,) = _U32(self.packet, position)
        return int(number)

    def _reader(self, position: int) -> Reader:
        return Reader(memoryview(self.packet)[position:], base=position)


def measure_user_message(data: memoryview) -> int:
    """Bytes of a UserMessage packet up to the end of the last header that PacketSize should count.

    That is PacketSize, or 16 bytes less if the peer counts the SessionHeader too.

    @param data: PacketSize bytes of a packet; whether SH is set does not matter.
    @raise RemoteProtocolError: the packet breaks a rule.
    """
    if len(data) >= BaseHeader.SIZE:
        try:
            return UserMessageView(patch_session_header(bytes(data), None)).size
        except RemoteProtocolError:
            # It may only be that the headers end before PacketSize.
            pass
    reader = Reader(data)
    UserMessage.read_headers(reader, BaseHeader.read(reader))
    return reader.position
