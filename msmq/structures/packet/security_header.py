"""SecurityHeader: sender, certificate, signature and encryption key of a message. [MS-MQMQ] 2.2.20.6."""

from __future__ import annotations

import enum
from struct import Struct
from typing import ClassVar

import attrs

from msmq.errors import LocalProtocolError
from msmq.structures.packet.multi_queue_format_header import end_of_text
from msmq.wire.reader import Reader
from msmq.wire.structure import Structure
from msmq.wire.writer import Writer


class SenderIdType(enum.IntEnum):
    """Flags.ST: the type of SecurityID.  Peers may send other numbers. [MS-MQMQ] 2.2.20.6."""

    NONE = 0
    SID = 1
    QUEUE_MANAGER = 2


@attrs.frozen
class ProviderInfo:
    """SecurityData.ProviderInfo: a cryptographic provider other than the default. [MS-MQMQ] 2.2.20.6.

    @ivar provider_type: 32 bits.
    @ivar provider_name: without its NUL.
    @ivar surplus: bytes behind the NUL, which the document does not provide for: the second part of a double
        signature (reading 109), or the message is refused alone, since they do not make its packet ambiguous.
    """

    provider_type: int
    provider_name: str
    surplus: bytes = b""

    @classmethod
    def read(cls, reader: Reader, size: int) -> ProviderInfo:
        """Read C{size} bytes.

        @raise RemoteProtocolError: they are not a number and a NUL-terminated text.
        """
        with reader.confined(size, "ProviderInfoSize"):
            provider_type = reader.u32("ProviderType")
            data = reader.bytes(reader.remaining, "ProviderName")
            end = end_of_text(data, 0, len(data))
            if end < 0:
                raise reader.malformed(
                    "ProviderName", f"{len(data)} bytes are not NUL-terminated UTF-16 text"
                )
            return cls(provider_type, data[: end - 2].decode("utf-16-le", "surrogatepass"), data[end:])

    def to_bytes(self) -> bytes:
        """Number, text and surplus.

        @raise LocalProtocolError: the number does not fit 32 bits, or the text contains a NUL.
        """
        writer = Writer()
        writer.u32(self.provider_type, "ProviderType")
        writer.utf16(self.provider_name, "ProviderName")
        return writer.getvalue() + self.surplus


@attrs.frozen
class SecurityHeader(Structure):
    """SecurityHeader. [MS-MQMQ] 2.2.20.6.

    At least one of the five items is present; an item without bytes is absent.
    AU, AS and reserved flag bits are sent as 0 and ignored on receipt; in a stored packet AS is the result of
    the receiver's verification (reading 60), see
    L{UserMessageView.authentication_level<msmq.structures.packet.user_message_view.UserMessageView>}.
    AI is sent unless there is only a SecurityID, and ignored on receipt: the sizes are decisive.

    @ivar sender_id_type: ST, a L{SenderIdType} or another number up to 15.
    @ivar security_id: a SID or a GUID; empty if C{sender_id_type} is 0.
    @ivar encryption_key: the key of the body's cipher, a SIMPLEBLOB; at most 0xFFFF bytes.
    @ivar signature: at most 0xFFFF bytes.
    @ivar sender_cert: an X.509 certificate in DER; at most 0xFFFF bytes.
    @ivar provider_info: only without C{is_default_provider}.
    @ivar is_body_encrypted: EB.
    @ivar is_default_provider: DE.
    """

    NAME: ClassVar[str] = "SecurityHeader"
    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.20.6"
    LAYOUT: ClassVar[Struct] = Struct("<HHHHII")
    FIXED_SIZE: ClassVar[int] = LAYOUT.size
    ST: ClassVar[int] = 0x000F
    AU: ClassVar[int] = 0x0010
    EB: ClassVar[int] = 0x0020
    DE: ClassVar[int] = 0x0040
    AI: ClassVar[int] = 0x0080
    AS: ClassVar[int] = 0x0F00
    AS_SHIFT: ClassVar[int] = 8
    MAXIMUM_ITEM_SIZE: ClassVar[int] = 0xFFFF

    sender_id_type: int = SenderIdType.NONE
    security_id: bytes = b""
    encryption_key: bytes = b""
    signature: bytes = b""
    sender_cert: bytes = b""
    provider_info: ProviderInfo | None = None
    is_body_encrypted: bool = False
    is_default_provider: bool = False

    @classmethod
    def read(cls, reader: Reader) -> SecurityHeader:
        """Read the fixed part and SecurityData.

        @raise RemoteProtocolError: a size exceeds its limit or the remaining bytes, all are 0, or there is
            an identifier without its type.
        """
        with reader.header(cls.NAME, cls.SECTION) as start:
            flags, *sizes = reader.unpack(cls.LAYOUT, "Flags")
            sender_id_size, encryption_key_size, signature_size, sender_cert_size, provider_info_size = sizes
            if not any(sizes):
                raise reader.malformed("SenderIdSize", "all five sizes are 0", offset=start + 2)
            if sender_id_size and not flags & cls.ST:
                raise reader.malformed("SenderIdSize", f"{sender_id_size} although ST is 0", offset=start + 2)
            if sender_cert_size > cls.MAXIMUM_ITEM_SIZE:
                raise reader.malformed(
                    "SenderCertSize", f"{sender_cert_size} is more than 65535", offset=start + 8
                )
            security_id = _read_item(reader, sender_id_size, "SecurityID")
            encryption_key = _read_item(reader, encryption_key_size, "EncryptionKey")
            signature = _read_item(reader, signature_size, "Signature")
            sender_cert = _read_item(reader, sender_cert_size, "SenderCert")
            provider_info = None
            if provider_info_size:
                provider_info = ProviderInfo.read(reader, provider_info_size)
                reader.align(4)
        return cls(
            sender_id_type=flags & cls.ST,
            security_id=security_id,
            encryption_key=encryption_key,
            signature=signature,
            sender_cert=sender_cert,
            provider_info=provider_info,
            is_body_encrypted=bool(flags & cls.EB),
            is_default_provider=bool(flags & cls.DE),
        )

    def write(self, writer: Writer) -> None:
        """Write the header; the position of C{writer} is a multiple of four bytes.

        @raise LocalProtocolError: an item that is too long or contradicts the flags, or no item at all.
        """
        if not 0 <= self.sender_id_type <= self.ST:
            raise LocalProtocolError(f"Flags.ST: {self.sender_id_type} does not fit 4 bits")
        if self.security_id and not self.sender_id_type:
            raise LocalProtocolError("SecurityID: not allowed with this Flags.ST")
        if self.provider_info is not None and self.is_default_provider:
            raise LocalProtocolError("ProviderInfo: not allowed with Flags.DE")
        if len(self.sender_cert) > self.MAXIMUM_ITEM_SIZE:
            raise LocalProtocolError(f"SenderCert: {len(self.sender_cert)} bytes are more than 65535")
        provider_info = b"" if self.provider_info is None else self.provider_info.to_bytes()
        data = (self.encryption_key, self.signature, self.sender_cert, provider_info)
        if not self.security_id and not any(data):
            raise LocalProtocolError("SecurityData: is empty")
        flags = (
            self.sender_id_type
            | self.EB * self.is_body_encrypted
            | self.DE * self.is_default_provider
            | self.AI * any(map(bool, data))
        )
        writer.u16(flags, "Flags")
        writer.u16(len(self.security_id), "SenderIdSize")
        writer.u16(len(self.encryption_key), "EncryptionKeySize")
        writer.u16(len(self.signature), "SignatureSize")
        writer.u32(len(self.sender_cert), "SenderCertSize")
        writer.u32(len(provider_info), "ProviderInfoSize")
        for item in (self.security_id, *data):
            writer.bytes(item)
            writer.align(4)


def _read_item(reader: Reader, size: int, field: str) -> bytes:
    item = reader.bytes(size, field)
    reader.align(4)
    return item
