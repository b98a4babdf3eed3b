"""EstablishConnection Packet: the request for a session, and its response. [MS-MQQB] 2.2.3."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.structures.internal.internal_packet import read_internal_headers, write_internal_headers
from msmq.structures.packet.base_header import Packet
from msmq.structures.packet.internal_header import InternalPacketType
from msmq.wire.guid import guid_from_bytes
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer


@attrs.frozen
class EstablishConnection(Packet):
    """EstablishConnection Packet with its EstablishConnectionHeader. [MS-MQQB] 2.2.3 and 2.2.3.1.

    Request and response have one layout; the response repeats C{client_guid}, C{time_stamp} and
    C{is_without_ping}.
    Reserved fields are sent as the document demands, and ignored on receipt.

    @ivar client_guid: the initiator.
    @ivar server_guid: the acceptor; in a request the null GUID if only its address is known.
    @ivar time_stamp: milliseconds since the initiator's operating system started, modulo 2**32.
    @ivar is_without_ping: OperatingSystem SE, no Ping Request preceded the request.
    @ivar is_server: OperatingSystem OS, the initiator runs a server-class operating system.
    @ivar has_gqos: OperatingSystem QS, the transport offers guaranteed quality of service; for
        information only.
    @ivar is_refused: InternalHeader CS, the acceptor refuses the session.
    @ivar is_response: Reserved of the BaseHeader is sent as 0x5A, as in the response of 4.1.4; the document
        allows any value, and the published probes of port scanners look for that one. Not read, since
        nothing depends on it.
    @ivar padding: 512 bytes; 0x5A in every packet that msmq sends, because 2.2.3.1 demands it of a
        response and would allow uninitialized memory in a request.
    """

    LAYOUT: ClassVar[Struct] = Struct("<16s16sIHH512s")
    SIZE: ClassVar[int] = 572
    RE: ClassVar[int] = 0x0010
    SE: ClassVar[int] = 0x0100
    OS: ClassVar[int] = 0x0200
    QS: ClassVar[int] = 0x0400
    PADDING: ClassVar[bytes] = b"\x5a" * 512

    client_guid: UUID
    server_guid: UUID
    time_stamp: int
    is_without_ping: bool = True
    is_server: bool = False
    has_gqos: bool = False
    is_refused: bool = False
    padding: bytes = attrs.field(default=PADDING, repr=False)
    is_response: bool = attrs.field(default=False, eq=False, kw_only=True)

    @classmethod
    def read(cls, reader: Reader) -> EstablishConnection:
        """Read the packet from its BaseHeader on.

        @raise RemoteProtocolError: it is a different packet, or is not 572 bytes long.
        """
        internal = read_internal_headers(reader, InternalPacketType.ESTABLISH_CONNECTION, cls.SIZE)
        with reader.header("EstablishConnectionHeader", "[MS-MQQB] 2.2.3.1"):
            client, server, time_stamp, system, _, padding = reader.unpack(cls.LAYOUT, "ClientGuid")
        return cls(
            guid_from_bytes(client),
            guid_from_bytes(server),
            time_stamp,
            bool(system & cls.SE),
            bool(system & cls.OS),
            bool(system & cls.QS),
            internal.is_refused,
            padding,
        )

    @property
    def operating_system(self) -> int:
        """OperatingSystem as it is sent."""
        return self.RE | self.SE * self.is_without_ping | self.OS * self.is_server | self.QS * self.has_gqos

    def write(self, writer: Writer) -> None:
        """Write the packet with its BaseHeader.

        @raise LocalProtocolError: the time stamp does not fit 32 bits, or the padding is not 512 bytes.
        """
        if not 0 <= self.time_stamp <= 0xFFFFFFFF:
            raise LocalProtocolError(f"TimeStamp: {self.time_stamp} does not fit 32 bits")
        if len(self.padding) != 512:
            raise LocalProtocolError(f"Padding: {len(self.padding)} bytes are not 512")
        write_internal_headers(
            writer,
            InternalPacketType.ESTABLISH_CONNECTION,
            self.SIZE,
            is_refused=self.is_refused,
            reserved=self.PADDING[0] if self.is_response else 0,
        )
        writer.bytes(
            self.LAYOUT.pack(
                self.client_guid.bytes_le,
                self.server_guid.bytes_le,
                self.time_stamp,
                self.operating_system,
                0,
                self.padding,
            )
        )
