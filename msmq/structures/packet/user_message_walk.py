"""The fast path over the optional parts of a UserMessage packet.

Each function takes the position at which a part begins and returns the one at which it ends, and reads
only what this and the validation of the part need.
For anything unusual it raises L{Unusual}, or the exception of Python for a position beyond the packet;
then the readers of the single headers decide.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from msmq.structures.packet.multi_queue_format_header import MultiQueueFormatHeader
from msmq.structures.packet.soap_header import SoapHeader
from msmq.wire.reader import Reader

NAMES: Final = 64
"""Offset of DestinationQueue."""

SIZE_OF_NAME: Final = (0, 0, 4, 4, 4, 16, 20)
"""Bytes of a name by its kind, except direct names, which are of kind 7."""

_COUNT: Final = Struct("<H").unpack_from
# Flags and TxSequenceNumber.
_TRANSACTION: Final = Struct("<I8xI").unpack_from
_SECURITY: Final = Struct("<HHHHII").unpack_from


class Unusual(Exception):
    """The fast path cannot validate this packet."""


def after_name(packet: bytes, position: int, kind: int) -> int:
    """The end of a name of this kind, its padding included."""
    if kind != 7:
        return position + SIZE_OF_NAME[kind]
    (count,) = _COUNT(packet, position)
    end: int = position + 2 + count
    # Either the pair of zeros that ends the text is the first, or it follows a unit below 256.
    if count & 1 or packet.find(b"\0\0", position + 2, end) < end - 3 or packet[end - 1]:
        raise Unusual
    return end + 3 & ~3


def after_other_names(packet: bytes, position: int, flags: int) -> int:
    """The end of ConnectorType, if AdminQueue begins at C{position}."""
    admin_kind = flags >> 13 & 7
    if admin_kind in (1, 4):
        raise Unusual
    position = after_name(packet, position, admin_kind)
    position = after_name(packet, position, flags >> 16 & 7)
    return position + 16 if flags & 0x00400000 else position


def after_transaction_and_security(packet: bytes, position: int, flags: int) -> int:
    """The offset of the MessagePropertiesHeader, if the UserHeader ends at C{position}."""
    if flags & 0x00100000:
        transaction_flags, number = _TRANSACTION(packet, position)
        if not flags & 0x20 or not number:
            raise Unusual
        position += 36 if transaction_flags & 1 else 20
    if flags & 0x00080000:
        security_flags, sender_id, key, signature, certificate, provider = _SECURITY(packet, position)
        if (
            provider
            or certificate > 0xFFFF
            or not (sender_id or key or signature or certificate)
            or (sender_id and not security_flags & 0x000F)
        ):
            raise Unusual
        position += 16 + (sender_id + 3 & ~3) + (key + 3 & ~3) + (signature + 3 & ~3) + (certificate + 3 & ~3)
    return position


def after_optional_headers(packet: bytes, position: int, base_flags: int, flags: int) -> int:
    """The end of the last header, if the MessagePropertiesHeader ends at C{position}.

    @raise RemoteProtocolError: a SoapHeader or a MultiQueueFormatHeader is malformed.
    """
    if base_flags & 0x0020:
        (debug_flags,) = _COUNT(packet, position)
        if debug_flags & 0x0003 > 1:
            raise Unusual
        position += 20 if debug_flags & 0x0003 else 4
    elif base_flags & 0x0100:
        raise Unusual
    if flags & 0x10800000:
        if position > len(packet):
            raise Unusual
        reader = Reader(memoryview(packet)[position:], base=position)
        if flags & 0x10000000:
            SoapHeader.read(reader)
        if flags & 0x00800000:
            MultiQueueFormatHeader.read(reader)
        position = reader.position
    return position
