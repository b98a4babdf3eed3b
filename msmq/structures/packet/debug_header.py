"""DebugHeader: the queue for report messages about a traced message. [MS-MQMQ] 2.2.20.8."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar
from uuid import UUID

import attrs

from msmq.wire.reader import Reader
from msmq.wire.structure import Structure
from msmq.wire.writer import Writer


@attrs.frozen
class DebugHeader(Structure):
    """DebugHeader. [MS-MQMQ] 2.2.20.8.

    Reserved and reserved flag bits are sent as 0 and ignored on receipt.

    @ivar queue_identifier: the public queue for reports; C{None} if there is none (QT 0).
    """

    NAME: ClassVar[str] = "DebugHeader"
    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.20.8"
    LAYOUT: ClassVar[Struct] = Struct("<HH")
    FIXED_SIZE: ClassVar[int] = LAYOUT.size
    QT: ClassVar[int] = 0x0003
    QT_NONE: ClassVar[int] = 0
    QT_PUBLIC: ClassVar[int] = 1

    queue_identifier: UUID | None = None

    @classmethod
    def read(cls, reader: Reader) -> DebugHeader:
        """Read the header.

        @raise RemoteProtocolError: it is truncated, or QT is neither 0 nor 1.
        """
        with reader.header(cls.NAME, cls.SECTION) as start:
            flags, _ = reader.unpack(cls.LAYOUT, "Flags")
            queue_type = flags & cls.QT
            if queue_type == cls.QT_NONE:
                return cls()
            if queue_type != cls.QT_PUBLIC:
                raise reader.malformed("Flags", f"QT {queue_type} is neither 0 nor 1", offset=start)
            return cls(reader.guid("QueueIdentifier"))

    def write(self, writer: Writer) -> None:
        """Write the header."""
        writer.u16(self.QT_NONE if self.queue_identifier is None else self.QT_PUBLIC, "Flags")
        writer.u16(0, "Reserved")
        if self.queue_identifier is not None:
            writer.guid(self.queue_identifier)
