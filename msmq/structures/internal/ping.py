"""Ping Packet: a datagram on port 3527. [MS-MQQB] 2.2.7."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.wire.guid import guid_from_bytes
from msmq.wire.reader import Reader
from msmq.wire.structure import WholeStructure
from msmq.wire.writer import Writer


@attrs.frozen
class Ping(WholeStructure):
    """Ping Packet. [MS-MQQB] 2.2.7.

    Request and response have one layout.
    The bits other than RC and RF are ignored on receipt and sent as 0.

    @ivar cookie: chosen by the initiator; the response repeats it.
    @ivar qm_guid: the queue manager that built this packet.
    @ivar is_workstation: RC, the initiator is not a server; the response repeats it.
    @ivar is_refused: RF, a session would be refused now; always false in a request.
    """

    NAME: ClassVar[str] = "PingPacket"
    SECTION: ClassVar[str] = "[MS-MQQB] 2.2.7"
    END_FIELD: ClassVar[str] = "QMGuid"
    LAYOUT: ClassVar[Struct] = Struct("<HHI16s")
    SIZE: ClassVar[int] = LAYOUT.size
    SIGNATURE: ClassVar[int] = 0x5548
    RC: ClassVar[int] = 0x0001
    RF: ClassVar[int] = 0x0002

    cookie: int
    qm_guid: UUID
    is_workstation: bool = False
    is_refused: bool = False

    @classmethod
    def read(cls, reader: Reader) -> Ping:
        """Read one ping.

        @raise RemoteProtocolError: it is truncated or has another Signature.
        """
        with reader.header(cls.NAME, cls.SECTION) as start:
            flags, signature, cookie, guid = reader.unpack(cls.LAYOUT, "Flags")
            if signature != cls.SIGNATURE:
                raise reader.malformed(
                    "Signature", f"should be 0x{cls.SIGNATURE:04X}, is 0x{signature:04X}", offset=start + 2
                )
        return cls(cookie, guid_from_bytes(guid), bool(flags & cls.RC), bool(flags & cls.RF))

    def write(self, writer: Writer) -> None:
        """Write the ping.

        @raise LocalProtocolError: the cookie does not fit 32 bits.
        """
        if not 0 <= self.cookie <= 0xFFFFFFFF:
            raise LocalProtocolError(f"Cookie: {self.cookie} does not fit 32 bits")
        flags = self.RC * self.is_workstation | self.RF * self.is_refused
        writer.bytes(self.LAYOUT.pack(flags, self.SIGNATURE, self.cookie, self.qm_guid.bytes_le))

    def response(self, qm_guid: UUID, *, is_refused: bool) -> Ping:
        """The response to this request: Cookie and RC are repeated.

        @param qm_guid: the queue manager that answers.
        @param is_refused: it would currently refuse a session with this initiator.
        """
        return attrs.evolve(self, qm_guid=qm_guid, is_refused=is_refused)
