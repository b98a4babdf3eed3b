"""In-order state of one sender's messages to one destination. [MS-MQQB] 3.1.1.3.1 and 3.1.5.8.6."""

from __future__ import annotations

import enum
from typing import Final
from uuid import UUID

import attrs

from msmq.persistence.state_records import reading
from msmq.structures.identifiers import TxSequenceID
from msmq.transfer.transfer_info import IncomingTransferInfo
from msmq.wire.addresses import counted_host
from msmq.wire.guid import guid_from_bytes
from msmq.wire.writer import Writer

_VERSION: Final = 1


class Verdict(enum.Enum):
    """Whether a transactional message is the next one. [MS-MQQB] 3.1.5.8.6.

    ACCEPTED: it is, and the stream has advanced past it, even if it is refused for another reason (reading
    51).
    DUPLICATE: the stream has passed it before.
    OUT_OF_ORDER: one before it is missing.
    NO_ROOM: it would be the first of a new stream, and the limit on streams is reached.
    """

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    OUT_OF_ORDER = "out of order"
    NO_ROOM = "no room"


def host_of(address: str) -> str:
    """The L{counted_host} of an address as a direct name has it: C{TCP:10.0.0.5}."""
    return counted_host(address.partition(":")[2])


@attrs.define(eq=False)
class IncomingStream:
    """The state of one stream, ahead of the store; it is rolled back when a commit fails.

    @ivar index: the number in the name under which it is stored.
    @ivar source: the bytes of the GUID of the first sender.
    @ivar key: the bytes that identify their destination.
    @ivar address: the destination of OrderAcks and FinalAcks for messages to a direct name: protocol and
        address as a direct name has them; C{None} for another name.
    @ivar sequence: IncomingTxSequenceID, as a number.
    @ivar number: IncomingTxSequenceNumber; 0 if there was none.
    @ivar stored_sequence: the same, as it is stored.
    @ivar reject_count: TxMessageRejectCount.
    @ivar last_access: seconds since 1970-01-01 UTC.
    @ivar owes: whether an OrderAck is owed.
    @ivar unsaid: messages that were stored since the last OrderAck.
    @ivar unsaid_bytes: the bytes of their packets.
    @ivar accepted: accepted messages that are not in a commit yet.
    @ivar accepted_bytes: the bytes of their packets.
    @ivar last_order_ack: LastOrderAckSendTime, in monotonic seconds.
    @ivar connection: the address from which the last message came; C{None} once no connection with it is
        left.
    @ivar host: the L{counted_host} of that address, also after it has disconnected; empty if unknown.
    """

    index: int
    source: bytes
    key: bytes
    address: str | None = None
    sequence: int = 0
    number: int = 0
    stored_sequence: int = 0
    stored_number: int = 0
    reject_count: int = 0
    last_access: int = 0
    owes: bool = False
    unsaid: int = 0
    unsaid_bytes: int = 0
    accepted: int = 0
    accepted_bytes: int = 0
    last_order_ack: float = 0.0
    connection: str | None = None
    host: str = ""

    def classify(self, sequence: int, number: int, previous: int, size: int) -> Verdict:
        """Whether this message is the next; if so, advance past it. [MS-MQQB] 3.1.5.8.6.

        @param size: bytes of its packet.
        """
        if sequence == self.sequence:
            if number <= self.number:
                verdict = Verdict.DUPLICATE
            elif previous <= self.number:
                verdict = Verdict.ACCEPTED
            else:
                verdict = Verdict.OUT_OF_ORDER
        elif sequence < self.sequence:
            verdict = Verdict.DUPLICATE
        else:
            verdict = Verdict.OUT_OF_ORDER if previous else Verdict.ACCEPTED
        if verdict is Verdict.ACCEPTED:
            self.sequence = sequence
            self.number = number
            self.accepted += 1
            self.accepted_bytes += size
            self.reject_count = 0
        else:
            self.reject_count += 1
            self.owes = True
        return verdict

    @property
    def answer_to(self) -> UUID | str:
        """The destination of acknowledgements (reading 60): a direct name of the peer, or the first
        sender.
        """
        return guid_from_bytes(self.source) if self.address is None else self.address

    @property
    def info(self) -> IncomingTransferInfo:
        """The state for management."""
        return IncomingTransferInfo(
            guid_from_bytes(self.source),
            self.key,
            TxSequenceID.from_value(self.stored_sequence),
            self.stored_number,
            self.last_access,
            self.reject_count,
        )

    def to_bytes(self) -> bytes:
        """The stored form."""
        writer = Writer()
        writer.u8(_VERSION, "Version")
        writer.bytes(self.source)
        writer.u64(self.sequence, "IncomingTxSequenceID")
        writer.u32(self.number, "IncomingTxSequenceNumber")
        writer.u32(min(self.reject_count, 0xFFFFFFFF), "TxMessageRejectCount")
        writer.u32(self.last_access, "LastAccessTime")
        writer.u16(len(self.key), "KeySize")
        writer.bytes(self.key)
        address = (self.host if self.address is None else self.address).encode()
        writer.u8(self.address is not None, "HasAddress")
        writer.u16(len(address), "AddressSize")
        writer.bytes(address)
        return writer.getvalue()

    @classmethod
    def from_bytes(cls, index: int, name: str, value: bytes) -> IncomingStream:
        """Restore the value C{name}.

        @raise StateError: it is damaged.
        """
        with reading(name, value, _VERSION) as reader:
            source = reader.bytes(16, "SourceQueueManager")
            sequence = reader.u64("IncomingTxSequenceID")
            number = reader.u32("IncomingTxSequenceNumber")
            reject_count = reader.u32("TxMessageRejectCount")
            last_access = reader.u32("LastAccessTime")
            key = reader.bytes(reader.u16("KeySize"), "Key")
            has_address = reader.u8("HasAddress")
            start = reader.position
            encoded = reader.bytes(reader.u16("AddressSize"), "Address")
            try:
                address = encoded.decode()
            except UnicodeDecodeError:
                raise reader.malformed("Address", "is not UTF-8", offset=start) from None
        return cls(
            index,
            source,
            key,
            address if has_address else None,
            sequence,
            number,
            stored_sequence=sequence,
            stored_number=number,
            reject_count=reject_count,
            last_access=last_access,
            host=host_of(address) if has_address else address,
        )
