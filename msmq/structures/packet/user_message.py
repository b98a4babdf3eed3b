"""UserMessage Packet: every header of a message as values ([MS-MQDMPR] 3.1.7.1.31). [MS-MQMQ] 2.2.20.

It is for callers that need a whole packet or build one; code that only forwards a message uses
L{UserMessageView<msmq.structures.packet.user_message_view.UserMessageView>}.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from msmq.errors import LocalProtocolError
from msmq.quoting import quoted
from msmq.structures.names.queue_names import QueueNameKind
from msmq.structures.packet.base_header import BaseHeader, Packet
from msmq.structures.packet.debug_header import DebugHeader
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.multi_queue_format_header import MultiQueueFormatHeader
from msmq.structures.packet.security_header import SecurityHeader
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.soap_header import SoapHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.wire.guid import NULL_GUID
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer


@attrs.frozen
class UserMessage(Packet):
    """UserMessage Packet; OrderAck and FinalAck packets have its form too. [MS-MQMQ] 2.2.20.

    The headers are in the packet in the order of the fields here, except C{properties}, which is between
    C{security} and C{debug}.

    PacketSize and the flags of C{base} and C{user} that announce other headers are those of the packet that
    was read; in a new packet they need not be set, since L{completed} sets them.
    """

    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.20"

    base: BaseHeader
    user: UserHeader
    properties: MessagePropertiesHeader
    transaction: TransactionHeader | None = None
    security: SecurityHeader | None = None
    debug: DebugHeader | None = None
    soap: SoapHeader | None = None
    multi_queue_format: MultiQueueFormatHeader | None = None
    session: SessionHeader | None = None

    @classmethod
    def read(cls, reader: Reader) -> UserMessage:
        """Read one packet from its first byte on, with an attached SessionHeader.

        That SessionHeader is accepted whether PacketSize counts it or not.

        @raise RemoteProtocolError: the packet is malformed, or shorter than it declares.
        """
        base, message = cls._read_counted(reader)
        if message.session is None and base.has_session_header:
            message = attrs.evolve(message, session=SessionHeader.read(reader))
        return message

    @classmethod
    def _read_counted(cls, reader: Reader) -> tuple[BaseHeader, UserMessage]:
        """Read PacketSize bytes, which have to be exactly the headers."""
        base = BaseHeader.read(reader)
        with reader.header(BaseHeader.NAME, BaseHeader.SECTION):
            if base.is_internal:
                raise reader.malformed("Flags", "IN in a UserMessage", offset=2)
            with reader.confined(base.packet_size - BaseHeader.SIZE, "PacketSize"):
                message = cls.read_headers(reader, base)
                if base.has_session_header and reader.remaining == SessionHeader.SIZE:
                    message = attrs.evolve(message, session=SessionHeader.read(reader))
        return base, message

    @classmethod
    def read_headers(cls, reader: Reader, base: BaseHeader) -> UserMessage:
        """Read what follows C{base} up to a SessionHeader, which is left unread.

        @raise RemoteProtocolError: the packet breaks a rule.
        """
        user = UserHeader.read(reader)
        transaction = TransactionHeader.read(reader) if user.has_transaction_header else None
        security = SecurityHeader.read(reader) if user.has_security_header else None
        properties = MessagePropertiesHeader.read(reader)
        debug = DebugHeader.read(reader) if base.has_debug_header else None
        soap = SoapHeader.read(reader) if user.has_soap_header else None
        multi_queue_format = None
        if user.has_multi_queue_format_header:
            multi_queue_format = MultiQueueFormatHeader.read(reader)
        return cls(base, user, properties, transaction, security, debug, soap, multi_queue_format)

    def completed(self) -> UserMessage:
        """The message with PacketSize and the flags that announce headers set according to its parts.

        A transactional message gets priority 0, and the flag for HTTP is clear.
        """
        user = attrs.evolve(
            self.user,
            has_security_header=self.security is not None,
            has_transaction_header=self.transaction is not None,
            has_multi_queue_format_header=self.multi_queue_format is not None,
            has_soap_header=self.soap is not None,
            is_over_http=False,
        )
        base = attrs.evolve(
            self.base,
            has_session_header=self.session is not None,
            has_debug_header=self.debug is not None,
            priority=self.base.priority if self.transaction is None else 0,
        )
        writer = Writer()
        attrs.evolve(self, user=user)._write_after_base(writer)
        base = attrs.evolve(base, packet_size=BaseHeader.SIZE + writer.position)
        return attrs.evolve(self, base=base, user=user)

    def to_bytes(self) -> bytes:
        """The packet of this message as its sender sends it, L{completed}.

        @raise LocalProtocolError: a value does not fit its field, headers contradict each other, or the
            message is one that no sender sends: acknowledgements are requested without an AdminQueue, or an
            AdminQueue is given without a request; QueueManagerAddress names a queue manager although the
            destination is a direct name, or none although it is not.
        """
        self._check_as_sender()
        writer = Writer()
        self.completed().write(writer)
        return writer.getvalue()

    def _check_as_sender(self) -> None:
        wants_acknowledgement = bool(self.properties.flags)
        if wants_acknowledgement != (self.user.admin_kind is not QueueNameKind.NONE):
            raise LocalProtocolError("AdminQueue: required if, and only if, acknowledgements are requested")
        has_address = self.user.queue_manager_address != NULL_GUID
        match self.user.destination_kind:
            case QueueNameKind.DIRECT if has_address:
                raise LocalProtocolError("QueueManagerAddress: must be null with a direct name")
            case QueueNameKind.PRIVATE_ON_DESTINATION | QueueNameKind.PUBLIC if not has_address:
                raise LocalProtocolError("QueueManagerAddress: null with a name that is not direct")

    def write(self, writer: Writer) -> None:
        """Write the packet unchanged, for example one that was read; C{writer} is empty.

        @raise LocalProtocolError: a value does not fit its field, or headers contradict each other.
        """
        self.base.write(writer)
        if self.base.is_internal:
            raise LocalProtocolError("BaseHeader.Flags: IN in a UserMessage")
        for field, announced, header in (
            ("BaseHeader.Flags.SH", self.base.has_session_header, self.session),
            ("BaseHeader.Flags.DH", self.base.has_debug_header, self.debug),
            ("UserHeader.Flags.SH", self.user.has_security_header, self.security),
            ("UserHeader.Flags.TH", self.user.has_transaction_header, self.transaction),
            ("UserHeader.Flags.MQ", self.user.has_multi_queue_format_header, self.multi_queue_format),
            ("UserHeader.Flags.HH", self.user.has_soap_header, self.soap),
        ):
            if announced != (header is not None):
                raise LocalProtocolError(f"{field}: {announced} with {quoted(header)}")
        self._write_after_base(writer)
        counts = {writer.position}
        if self.session is not None:
            self.session.write(writer)
            counts.add(writer.position)
        if self.base.packet_size not in counts:
            raise LocalProtocolError(
                f"PacketSize: {self.base.packet_size} where the headers take {min(counts)}"
            )

    def _write_after_base(self, writer: Writer) -> None:
        for header in (
            self.user,
            self.transaction,
            self.security,
            self.properties,
            self.debug,
            self.soap,
            self.multi_queue_format,
        ):
            if header is not None:
                header.write(writer)
