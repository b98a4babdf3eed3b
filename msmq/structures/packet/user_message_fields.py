"""Accessors for the fields of a UserMessage packet, read from its bytes on demand. [MS-MQMQ] 2.2.20."""

from __future__ import annotations

from struct import Struct
from typing import Final
from uuid import UUID

from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.identifiers import MessageIdentifier, TxSequenceID
from msmq.structures.names.format_name import FormatName
from msmq.structures.names.queue_names import QueueName, QueueNameKind, read_queue_name
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.debug_header import DebugHeader
from msmq.structures.packet.kept_packet import dead_letter_queue_of, packet_of
from msmq.structures.packet.multi_queue_format_header import MultiQueueFormatHeader
from msmq.structures.packet.packet_shape import PacketShape
from msmq.structures.packet.security_header import SecurityHeader, SenderIdType
from msmq.structures.packet.soap_header import SoapHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.structures.packet.user_message_walk import NAMES, SIZE_OF_NAME
from msmq.wire.guid import braced, guid_from_bytes
from msmq.wire.reader import Reader
from msmq.wire.sid import format_sid

_U32: Final = Struct("<I").unpack_from
_SECURITY: Final = SecurityHeader.LAYOUT.unpack_from
_LEVELS: Final = frozenset(AuthenticationLevel)


class UserMessageFields:
    """The fields of a well-formed UserMessage packet; L{UserMessageView} validates it.

    A property cannot fail, since the packet is well-formed; what may fail is a method.
    Values are not cached: a property that is a header or a name parses it at each access.
    The attributes are those of L{UserMessageView}.
    """

    __slots__ = ()

    base_flags: int
    body_size: int
    flags: int
    is_transactional: bool
    packet: bytes
    source_queue_manager: bytes
    shape: PacketShape

    # BaseHeader

    @property
    def priority(self) -> int:
        """0 to 7, 7 being the most urgent."""
        return self.base_flags & 0x0007

    @property
    def is_traced(self) -> bool:
        """Whether report messages are requested."""
        return self.base_flags & 0x0100 != 0

    @property
    def time_to_reach_queue(self) -> int:
        """Seconds, or L{INFINITE<msmq.structures.packet.base_header.INFINITE>}."""
        return self._u32(12)

    # UserHeader

    @property
    def time_to_be_received(self) -> int:
        """Seconds, or L{INFINITE<msmq.structures.packet.base_header.INFINITE>}."""
        return self._u32(48)

    @property
    def message_id(self) -> int:
        """The number that the first sender assigned to the message."""
        return self._u32(56)

    @property
    def identifier(self) -> MessageIdentifier:
        """The identifier of the message."""
        return MessageIdentifier(guid_from_bytes(self.source_queue_manager), self.message_id)

    @property
    def identity(self) -> bytes:
        """The identifier's 20 bytes: the GUID, and the number, little-endian."""
        return self.packet[16:32] + self.packet[56:60]

    @property
    def hop_count(self) -> int:
        """How many routing servers the message has passed, 0 to 0x1D."""
        return self.flags & 0x1F

    @property
    def dead_letter(self) -> bool:
        """Whether the sender keeps a copy if delivery fails (JN)."""
        return self.flags & 0x0100 != 0

    @property
    def journal(self) -> bool:
        """Whether the sender keeps a copy if the message is delivered (JP)."""
        return self.flags & 0x0200 != 0

    @property
    def destination_kind(self) -> QueueNameKind:
        """The structure of the destination's name."""
        return QueueNameKind(self.flags >> 10 & 7)

    @property
    def destination_key(self) -> bytes:
        """A key that is equal only for messages to one destination: kind and name, without padding.

        Two spellings of a direct name have two keys.
        The number of a queue on another host is prefixed with that host's GUID.
        """
        kind = self.flags >> 10 & 7
        packet = self.packet
        if kind == 7:
            return b"\x07" + packet[NAMES : NAMES + 2 + packet[64] + 256 * packet[65]]
        if kind == 3:
            return b"\x03" + packet[32:48] + packet[NAMES : NAMES + 4]
        return kind.to_bytes(1, "little") + packet[NAMES : NAMES + SIZE_OF_NAME[kind]]

    @property
    def destination(self) -> QueueName | None:
        """The name of the destination in the packet; C{None} if there is none."""
        return read_queue_name(self.destination_kind, self._reader(NAMES))

    def destination_format_name(self) -> FormatName | None:
        """The destination; see L{UserHeader.resolve_destination}.

        @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME, the text of a direct name names no queue.
        """
        return self.user_header.resolve_destination()

    def admin_format_name(self) -> FormatName | None:
        """The queue for acknowledgements; see L{UserHeader.resolve_admin_queue}.

        @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME, the text of a direct name names no queue.
        """
        return self.user_header.resolve_admin_queue()

    def response_format_name(self) -> FormatName | None:
        """The queue for responses; see L{UserHeader.resolve_response_queue}.

        @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME, the text of a direct name names no queue.
        """
        return self.user_header.resolve_response_queue()

    @property
    def connector_type(self) -> UUID | None:
        """ConnectorType, opaque."""
        if not self.flags & UserHeader.CQ:
            return None
        return guid_from_bytes(self.packet[self.shape.names_end - 16 : self.shape.names_end])

    @property
    def user_header(self) -> UserHeader:
        """The whole UserHeader."""
        return UserHeader.read(self._reader(BaseHeader.SIZE))

    @property
    def dead_letter_queue(self) -> str:
        """ApplicationDeadletterQueue, a path; empty in received messages. [MS-MQDMPR] 3.1.1.12."""
        return dead_letter_queue_of(self.packet)

    # TransactionHeader

    @property
    def transaction(self) -> TransactionHeader | None:
        """The whole TransactionHeader."""
        return TransactionHeader.read(self._reader(self.shape.names_end)) if self.is_transactional else None

    @property
    def tx_sequence_id(self) -> TxSequenceID | None:
        """The sequence of a transactional message."""
        if not self.is_transactional:
            return None
        return TxSequenceID(self._u32(self.shape.names_end + 4), self._u32(self.shape.names_end + 8))

    @property
    def tx_sequence_number(self) -> int:
        """Its number in the sequence; 0 if the message is not transactional."""
        return self._u32(self.shape.names_end + 12) if self.is_transactional else 0

    @property
    def previous_tx_sequence_number(self) -> int:
        """The number of the previous message, 0 if there is none or the message is not transactional."""
        return self._u32(self.shape.names_end + 16) if self.is_transactional else 0

    @property
    def transaction_offset(self) -> int:
        """Offset of the TransactionHeader, if there is one."""
        return self.shape.names_end

    @property
    def properties_offset(self) -> int:
        """Offset of the MessagePropertiesHeader."""
        return self.shape.properties

    @property
    def is_first(self) -> bool:
        """Whether it is marked as the first message of its transaction."""
        return self.is_transactional and self.packet[self.shape.names_end] & TransactionHeader.FM != 0

    @property
    def is_last(self) -> bool:
        """Whether it is marked as the last message of its transaction."""
        return self.is_transactional and self.packet[self.shape.names_end] & TransactionHeader.LM != 0

    # SecurityHeader

    @property
    def security(self) -> SecurityHeader | None:
        """The whole SecurityHeader."""
        if not self.flags & UserHeader.SH:
            return None
        packet, position = self.packet, self.security_offset
        flags, *sizes, provider_info_size = _SECURITY(packet, position)
        if provider_info_size:
            return SecurityHeader.read(self._reader(position))
        # The constructor has validated its size.
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
        """Offset of the SecurityHeader, if there is one."""
        if not self.is_transactional:
            return self.shape.names_end
        # Flags.FA: an identifier of 16 bytes follows.
        return self.shape.names_end + (36 if self.packet[self.shape.names_end] & 1 else 20)

    @property
    def authentication_level(self) -> AuthenticationLevel:
        """The result of signature verification in a stored packet; meaningless in one just received."""
        if not self.flags & UserHeader.SH:
            return AuthenticationLevel.NONE
        found = self.packet[self.security_offset + 1] & 0x0F
        return AuthenticationLevel(found) if found in _LEVELS else AuthenticationLevel.NONE

    @property
    def sender_id(self) -> str | None:
        """The sender: the text of a SID, a GUID in braces, or the hex digits of anything else."""
        security = self.security
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
    def correlation_id(self) -> bytes:
        """20 bytes; in an acknowledgement the identifier of the message that it is about."""
        return self.packet[self.shape.properties + 4 : self.shape.properties + 24]

    @property
    def body_type(self) -> int:
        """BodyType."""
        return self._u32(self.shape.properties + 24)

    @property
    def application_tag(self) -> int:
        """ApplicationTag, opaque."""
        return self._u32(self.shape.properties + 28)

    @property
    def allocation_body_size(self) -> int:
        """AllocationBodySize, in bytes."""
        return self._u32(self.shape.properties + 36)

    @property
    def privacy_level(self) -> int:
        """PrivacyLevel, as received."""
        return self._u32(self.shape.properties + 40)

    @property
    def asks_for_privacy(self) -> bool:
        """Whether PrivacyLevel is one of the document's and not 0; evaluated for every sent message."""
        return self.packet[self.shape.properties + 40] != 0

    @property
    def hash_algorithm(self) -> int:
        """HashAlgorithm, as received."""
        return self._u32(self.shape.properties + 44)

    @property
    def encryption_algorithm(self) -> int:
        """EncryptionAlgorithm, as received."""
        return self._u32(self.shape.properties + 48)

    @property
    def label(self) -> str:
        """The label, without its NUL."""
        if not self.shape.label_length:
            return ""
        start = self.shape.properties + 56
        return self.packet[start : start + 2 * self.shape.label_length - 2].decode(
            "utf-16-le", "surrogatepass"
        )

    @property
    def extension(self) -> bytes:
        """ExtensionData."""
        start = self.shape.properties + 56 + 2 * self.shape.label_length
        return self.packet[start : start + self.shape.extension_size]

    @property
    def extension_size(self) -> int:
        """Bytes of ExtensionData."""
        return self.shape.extension_size

    @property
    def body(self) -> memoryview:
        """MessageBody, without a copy; it is encrypted if the SecurityHeader says so."""
        shape = self.shape
        start = shape.body_start
        return memoryview(self.packet)[start : start + shape.body_size]

    def common_bytes(self) -> bytes | None:
        """The bytes that messages with the same properties share: all but number, time, transaction and body.

        The sizes of the body differ with it. C{None} for a message with a SecurityHeader, or with a long
        extension.
        """
        if self.flags & 0x00080000 or self.shape.extension_size > 256:
            return None
        packet = self.packet
        properties = self.shape.properties
        start = properties + 56 + 2 * self.shape.label_length + self.shape.extension_size
        return b"".join(
            (
                packet[2:4],
                packet[16:52],
                packet[60 : self.shape.names_end],
                packet[properties : properties + 32],
                packet[properties + 40 : start],
                # What is behind the body without its padding, of which there are up to three bytes.
                packet[start + self.body_size + 3 & ~3 :],
            )
        )

    # DebugHeader, SoapHeader, MultiQueueFormatHeader

    @property
    def debug(self) -> DebugHeader | None:
        """The DebugHeader."""
        if not self.base_flags & BaseHeader.DH:
            return None
        return DebugHeader.read(self._reader(self._properties_end))

    @property
    def soap(self) -> SoapHeader | None:
        """The SoapHeader."""
        if not self.flags & UserHeader.HH:
            return None
        return SoapHeader.read(self._after_debug())

    @property
    def multi_queue_format(self) -> MultiQueueFormatHeader | None:
        """The MultiQueueFormatHeader."""
        if not self.flags & UserHeader.MQ:
            return None
        reader = self._after_debug()
        if self.flags & UserHeader.HH:
            SoapHeader.read(reader)
        return MultiQueueFormatHeader.read(reader)

    def parse(self) -> UserMessage:
        """The whole packet, parsed into values."""
        return UserMessage.from_bytes(packet_of(self.packet))

    @property
    def _properties_end(self) -> int:
        return self.shape.body_start + self.shape.body_size + 3 & ~3

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
