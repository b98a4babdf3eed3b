"""[MS-MQMQ] 2.2.4 TA_ADDRESS: one address of a queue manager, as the directory holds it."""

from __future__ import annotations

import enum
import ipaddress
from typing import ClassVar, Self
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.wire.guid import format_guid, guid_from_bytes
from msmq.wire.reader import Reader
from msmq.wire.structure import WholeStructure
from msmq.wire.writer import Writer


class AddressType(enum.IntEnum):
    """[MS-MQMQ] 2.2.4 the values of AddressType."""

    IP = 0x0001
    IP_RAS = 0x0002
    IPX = 0x0003
    FOREIGN = 0x0005


LENGTHS = {AddressType.IP: 4, AddressType.IP_RAS: 4, AddressType.IPX: 10, AddressType.FOREIGN: 16}
"""The bytes of an address of each type."""


@attrs.frozen
class TaAddress(WholeStructure):
    """[MS-MQMQ] 2.2.4 TA_ADDRESS; C{str()} prints the address in the usual notation.

    @ivar address_type: which kind of address.
    @ivar address: the bytes; those of an IP address are in the order in which they are printed.
    """

    NAME: ClassVar[str] = "TA_ADDRESS"
    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.4"
    END_FIELD: ClassVar[str] = "AddressLength"

    address_type: AddressType
    address: bytes

    def __attrs_post_init__(self) -> None:
        expected = LENGTHS[self.address_type]
        if len(self.address) != expected:
            raise LocalProtocolError(f"Address: {len(self.address)} bytes where there should be {expected}")

    @classmethod
    def ip(cls, address: str, *, is_ras: bool = False) -> Self:
        """An IPv4 address given as dotted text.

        @param is_ras: whether it belongs to a dialled connection.
        @raise LocalProtocolError: the text is no such address.
        """
        try:
            packed = ipaddress.IPv4Address(address).packed
        except ValueError as error:
            raise LocalProtocolError(f"Address: {error}") from None
        return cls(AddressType.IP_RAS if is_ras else AddressType.IP, packed)

    @classmethod
    def foreign(cls, connected_network: UUID) -> Self:
        """The GUID of a connected network that is foreign."""
        return cls(AddressType.FOREIGN, connected_network.bytes_le)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read the structure, whose length its type decides."""
        with reader.header(cls.NAME, cls.SECTION):
            start = reader.position
            length, number = reader.u16("AddressLength"), reader.u16("AddressType")
            rule = f"0x{number:04X} is not a type of address"
            address_type = reader.member(AddressType, number, "AddressType", rule, offset=start + 2)
            if length != LENGTHS[address_type]:
                rule = f"is {length} where type {number} has {LENGTHS[address_type]}"
                raise reader.malformed("AddressLength", rule, offset=start)
            return cls(address_type, reader.bytes(length, "Address"))

    def write(self, writer: Writer) -> None:
        """Write the structure."""
        writer.u16(len(self.address), "AddressLength")
        writer.u16(self.address_type, "AddressType")
        writer.bytes(self.address)

    def __str__(self) -> str:
        match self.address_type:
            case AddressType.IP | AddressType.IP_RAS:
                return str(ipaddress.IPv4Address(self.address))
            case AddressType.IPX:
                return f"{self.address[:4].hex().upper()}:{self.address[4:].hex().upper()}"
            case AddressType.FOREIGN:
                return format_guid(guid_from_bytes(self.address))
