"""MessagePropertiesHeader: body, label and other properties set by the application. [MS-MQMQ] 2.2.19.3."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar

import attrs

from msmq.errors import LocalProtocolError
from msmq.structures.names.queue_names import utf16_length
from msmq.wire.reader import Reader
from msmq.wire.structure import Structure
from msmq.wire.writer import Writer

MAXIMUM_LABEL_LENGTH = 0xFA
"""How many 16-bit units a label may have, its NUL among them."""


@attrs.frozen
class MessagePropertiesHeader(Structure):
    """MessagePropertiesHeader. [MS-MQMQ] 2.2.19.3.

    Reserved flag bits are sent as 0 and ignored on receipt.
    The numbers of algorithms are checked by verification and decryption; any number is accepted here.

    @ivar message_body: the body; an empty one has no bytes in the packet.
    @ivar label: at most 249 16-bit units, without the NUL; an empty one has no bytes in the packet.
    @ivar extension_data: an empty one has no bytes in the packet.
    @ivar flags: the requested acknowledgements: C{PA | PR | NA | NR}.
    @ivar message_class: a L{MessageClass<msmq.structures.packet.message_class.MessageClass>} or another
        16-bit number.
    @ivar correlation_id: 20 bytes; in an acknowledgement the identifier of the message it is about.
    @ivar body_type: a VARTYPE of the PROPVARIANT structure; any number is accepted.
    @ivar application_tag: opaque.
    @ivar allocation_body_size: bytes that the decrypted body needs, or more; by default the size of the
        body.
    @ivar privacy_level: 0 not encrypted, 1 40 bits, 3 128 bits, 5 AES.
    @ivar hash_algorithm: by default SHA-512.
    @ivar encryption_algorithm: by default AES-256.
    """

    NAME: ClassVar[str] = "MessagePropertiesHeader"
    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.19.3"
    LAYOUT: ClassVar[Struct] = Struct("<BBH20sIIIIIIII")
    FIXED_SIZE: ClassVar[int] = LAYOUT.size
    PA: ClassVar[int] = 0x01
    PR: ClassVar[int] = 0x02
    NA: ClassVar[int] = 0x04
    NR: ClassVar[int] = 0x08
    ACKNOWLEDGE: ClassVar[int] = 0x0F
    SHA_512: ClassVar[int] = 0x800E
    AES_256: ClassVar[int] = 0x6610

    message_body: bytes = attrs.field(default=b"", repr=False)
    label: str = ""
    extension_data: bytes = b""
    flags: int = 0
    message_class: int = 0
    correlation_id: bytes = bytes(20)
    body_type: int = 0
    application_tag: int = 0
    allocation_body_size: int = attrs.field()
    privacy_level: int = 0
    hash_algorithm: int = SHA_512
    encryption_algorithm: int = AES_256

    @allocation_body_size.default
    def _size_of_body(self) -> int:
        return len(self.message_body)

    @classmethod
    def read(cls, reader: Reader) -> MessagePropertiesHeader:
        """Read the fixed part, label, extension and body, and the padding.

        @raise RemoteProtocolError: a size exceeds its limit or the remaining bytes, or the label does not
            end with its only NUL.
        """
        with reader.header(cls.NAME, cls.SECTION) as start:
            (
                flags,
                label_length,
                message_class,
                correlation_id,
                body_type,
                application_tag,
                message_size,
                allocation_body_size,
                privacy_level,
                hash_algorithm,
                encryption_algorithm,
                extension_size,
            ) = reader.unpack(cls.LAYOUT, "Flags")
            if label_length > MAXIMUM_LABEL_LENGTH:
                raise reader.malformed("LabelLength", f"{label_length} is more than 250", offset=start + 1)
            label = reader.utf16(2 * label_length, "Label") if label_length else ""
            extension_data = reader.bytes(extension_size, "ExtensionData")
            message_body = reader.bytes(message_size, "MessageBody")
            reader.align(4)
        return cls(
            message_body=message_body,
            label=label,
            extension_data=extension_data,
            flags=flags & cls.ACKNOWLEDGE,
            message_class=message_class,
            correlation_id=correlation_id,
            body_type=body_type,
            application_tag=application_tag,
            allocation_body_size=allocation_body_size,
            privacy_level=privacy_level,
            hash_algorithm=hash_algorithm,
            encryption_algorithm=encryption_algorithm,
        )

    def write(self, writer: Writer) -> None:
        """Write the header; the position of C{writer} is a multiple of four bytes.

        @raise LocalProtocolError: a value that does not fit its field.
        """
        label_length = utf16_length(self.label) + 1 if self.label else 0
        if label_length > MAXIMUM_LABEL_LENGTH:
            raise LocalProtocolError(f"Label: {label_length - 1} units are more than 249")
        if self.flags & ~self.ACKNOWLEDGE:
            raise LocalProtocolError(f"Flags: {self.flags:#x} has reserved bits")
        if len(self.correlation_id) != 20:
            raise LocalProtocolError(f"CorrelationID: {len(self.correlation_id)} bytes are not 20")
        if self.allocation_body_size < len(self.message_body):
            raise LocalProtocolError("AllocationBodySize: less than the size of the body")
        writer.u8(self.flags, "Flags")
        writer.u8(label_length, "LabelLength")
        writer.u16(self.message_class, "MessageClass")
        writer.bytes(self.correlation_id)
        writer.u32(self.body_type, "BodyType")
        writer.u32(self.application_tag, "ApplicationTag")
        writer.u32(len(self.message_body), "MessageSize")
        writer.u32(self.allocation_body_size, "AllocationBodySize")
        writer.u32(self.privacy_level, "PrivacyLevel")
        writer.u32(self.hash_algorithm, "HashAlgorithm")
        writer.u32(self.encryption_algorithm, "EncryptionAlgorithm")
        writer.u32(len(self.extension_data), "ExtensionSize")
        if self.label:
            writer.utf16(self.label, "Label")
        writer.bytes(self.extension_data)
        writer.bytes(self.message_body)
        writer.align(4)
