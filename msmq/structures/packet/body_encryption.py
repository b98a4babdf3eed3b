"""Encryption and decryption of the body in a UserMessage packet. [MS-MQQB] 3.1.7.1.5 and 3.1.5.8.3.

Only the fields about the body change; all other bytes stay, including the signature, which is over the clear
body (reading 69).
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import attrs

from msmq.errors import LocalProtocolError
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.security_header import SecurityHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.wire.reader import Reader

_U32: Final = Struct("<I")
_PACKET_SIZE: Final = 8
_USER_FLAGS: Final = 60
_MESSAGE_SIZE: Final = 32
_PRIVACY_LEVEL: Final = 40
_ENCRYPTION_ALGORITHM: Final = 48
_EXTENSION_SIZE: Final = 52


@attrs.frozen
class EncryptedBody:
    """An encrypted body with its key.

    @ivar body: the cipher text.
    @ivar privacy_level: the level of the provider that was used (reading 72).
    @ivar algorithm: EncryptionAlgorithm.
    @ivar encryption_key: SecurityData.EncryptionKey, a SIMPLEBLOB.
    """

    body: bytes = attrs.field(repr=False)
    privacy_level: int
    algorithm: int
    encryption_key: bytes = attrs.field(repr=False)


def encryption_input(view: UserMessageView) -> bytes:
    """The bytes to encrypt: MessageBody without its padding. [MS-MQQB] 3.1.7.1.5."""
    return bytes(view.body)


def is_encrypted(view: UserMessageView) -> bool:
    """Flags.EB: whether the body is encrypted, regardless of PrivacyLevel. [MS-MQMQ] 2.2.20.6."""
    if not view.flags & UserHeader.SH:
        return False
    security = view.security
    return security is not None and security.is_body_encrypted


def with_encrypted_body(view: UserMessageView, encrypted: EncryptedBody) -> bytes:
    """The packet with its body encrypted, and with the fields that the receiver needs to decrypt it.

    @raise LocalProtocolError: it would be larger than a packet may be.
    """
    security = view.security or SecurityHeader(is_default_provider=True)
    security = attrs.evolve(security, encryption_key=encrypted.encryption_key, is_body_encrypted=True)
    return _rewritten(view, security, encrypted.body, encrypted.privacy_level, encrypted.algorithm)


def with_clear_body(view: UserMessageView, body: bytes) -> bytes:
    """The packet with its body in clear and without the key; PrivacyLevel and the algorithm stay.

    @raise LocalProtocolError: it would be larger than a packet may be.
    """
    security = view.security
    if security is not None:
        security = attrs.evolve(security, encryption_key=b"", is_body_encrypted=False)
        if not (security.security_id or security.signature or security.sender_cert or security.provider_info):
            security = None
    return _rewritten(view, security, body, view.privacy_level, view.encryption_algorithm)


def _rewritten(
    view: UserMessageView, security: SecurityHeader | None, body: bytes, privacy_level: int, algorithm: int
) -> bytes:
    packet = view.packet
    flags = view.flags | UserHeader.SH if security is not None else view.flags & ~UserHeader.SH
    start = _security_offset(view)
    if security is not None and security.provider_info is not None:
        # Some peers set DE and send a ProviderInfo as well; that is preserved.
        security = attrs.evolve(security, is_default_provider=False)
    header = b"" if security is None else security.to_bytes()
    properties = view.properties_offset
    (extension_size,) = _U32.unpack_from(packet, properties + _EXTENSION_SIZE)
    body_start = properties + MessagePropertiesHeader.FIXED_SIZE + 2 * packet[properties + 1] + extension_size
    rest = packet[body_start + view.body_size + 3 & ~3 :]
    position = start + len(header) + (body_start - properties) + len(body)
    padding = bytes(-position % 4)
    size = position + len(padding) + len(rest)
    if size > BaseHeader.MAXIMUM_PACKET_SIZE:
        raise LocalProtocolError(
            f"PacketSize: {size} bytes, of {BaseHeader.MAXIMUM_PACKET_SIZE} that a packet may have"
        )
    number = _U32.pack
    return b"".join(
        (
            packet[:_PACKET_SIZE],
            number(size),
            packet[_PACKET_SIZE + 4 : _USER_FLAGS],
            number(flags),
            packet[_USER_FLAGS + 4 : start],
            header,
            packet[properties : properties + _MESSAGE_SIZE],
            number(len(body)),
            number(len(body)),
            number(privacy_level),
            packet[properties + _PRIVACY_LEVEL + 4 : properties + _ENCRYPTION_ALGORITHM],
            number(algorithm),
            packet[properties + _EXTENSION_SIZE : body_start],
            body,
            padding,
            rest,
        )
    )


def _security_offset(view: UserMessageView) -> int:
    """Where the SecurityHeader begins, or would begin if there were one."""
    if not view.is_transactional:
        return view.transaction_offset
    reader = Reader(memoryview(view.packet)[view.transaction_offset :], base=view.transaction_offset)
    TransactionHeader.read(reader)
    return reader.position
