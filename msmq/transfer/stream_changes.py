"""Inputs and results of the streams of an outgoing queue."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from struct import Struct
from typing import Final, Generic, Protocol, TypeVar

import attrs

from msmq.errors import LocalProtocolError
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message_view import UserMessageView

WANTS_DEAD_LETTER: Final = 1
WANTS_JOURNAL: Final = 2
WANTS_FINAL_ACK: Final = 4

_PLACE: Final = Struct("<QII")
_SEQUENCE_FIELDS: Final = Struct("<IQII")
_JOURNALING_SHIFT: Final = 8
_FINAL_ACK_SHIFT: Final = 1


class Transferable(OutgoingMessage, Protocol):
    """A message of an outgoing queue; it is the same object as long as it is in the queue."""

    @property
    def view(self) -> UserMessageView | None:
        """The packet; C{None} while it is only in the store."""


M = TypeVar("M", bound=Transferable)
H = TypeVar("H")


def sequence_fields(view: UserMessageView) -> tuple[int, int, int, int]:
    """Of a transactional message: Flags, TxSequenceID as a number, TxSequenceNumber, the number before it."""
    flags, sequence, number, previous = _SEQUENCE_FIELDS.unpack_from(view.packet, view.shape.names_end)
    return flags, sequence, number, previous


def packet_at(view: UserMessageView, sequence: int, number: int, previous: int) -> bytes:
    """The packet of a transactional message with this sequence number."""
    packet = view.packet
    start = view.shape.names_end + 4
    place = _PLACE.pack(sequence, number, previous)
    return b"".join((packet[:start], place, packet[start + _PLACE.size :]))


def wanted_of(view: UserMessageView, flags: int) -> int:
    """The actions that the sender of a transactional message requests for its FinalAck.

    The message is kept until then if there are any (reading 58).

    @param flags: those of the TransactionHeader.
    @return: some of C{WANTS_DEAD_LETTER | WANTS_JOURNAL | WANTS_FINAL_ACK}.
    """
    journaling = (view.shape.flags & (UserHeader.JN | UserHeader.JP)) >> _JOURNALING_SHIFT
    return journaling | (flags & TransactionHeader.FA) << _FINAL_ACK_SHIFT


class Disposal(enum.Enum):
    """The disposal of a message with its final result. [MS-MQQB] 3.1.5.7.

    FORGET: remove it.
    JOURNAL: to the system journal, since it was received and its sender requested that.
    DEAD_LETTER: to the transactional dead-letter queue, since it failed and its sender requested that.
    """

    FORGET = "forget"
    JOURNAL = "journal"
    DEAD_LETTER = "dead letter"

    @classmethod
    def of(cls, message_class: int, wanted: int) -> Disposal:
        """By the class of the FinalAck; everything but ACK_RECEIVE is a failure."""
        if message_class == MessageClass.ACK_RECEIVE:
            return cls.JOURNAL if wanted & WANTS_JOURNAL else cls.FORGET
        return cls.DEAD_LETTER if wanted & WANTS_DEAD_LETTER else cls.FORGET


@attrs.define(eq=False)
class UnorderedMessage(Generic[M]):
    """A message that was sent and not order-acknowledged yet. [MS-MQQB] 3.1.1.3.1.2.

    @ivar sequence: TxSequenceID, as a number.
    @ivar number: TxSequenceNumber.
    @ivar message_id: MessageID.
    @ivar wanted: see L{wanted_of}.
    @ivar is_gone: it was removed; entries that remain in lists are ignored.
    @ivar is_kept: ReceivedSessionAck: the receiver has stored it.
    """

    message: M
    sequence: int
    number: int
    message_id: int
    wanted: int
    is_gone: bool = False
    is_kept: bool = False


@attrs.define(eq=False)
class Transmitted(Generic[M]):
    """A transactional message as a session sends it; a session acknowledgement does not confirm it.

    It is not the message itself, so that the code that removes acknowledged messages, and returns
    unacknowledged ones, need not distinguish them.
    """

    message: M
    packet: bytes = attrs.field(repr=False)

    @property
    def is_recoverable(self) -> bool:
        """Every transactional message is."""
        return True


@attrs.frozen
class SettledMessage(Generic[H]):
    """A message whose FinalAck has come, with its disposal.

    @ivar message_class: the class of the FinalAck; 0 if the wait for it has ended without one.
    """

    message: H
    message_class: int
    disposal: Disposal


@attrs.frozen
class AckOutcome(Generic[M]):
    """Messages that acknowledgements release from their outgoing queue.

    When that is stored, L{OutgoingStream.removed} has to be called.

    @ivar delivered: they arrived, and no FinalAck was requested.
    @ivar awaiting: they arrived, and are kept until their FinalAck ([MS-MQQB] 3.1.1.6.2).
    @ivar settled: their FinalAck came before their OrderAck.
    """

    delivered: Sequence[M] = ()
    awaiting: Sequence[UnorderedMessage[M]] = ()
    settled: Sequence[SettledMessage[M]] = ()

    def __bool__(self) -> bool:
        return bool(self.delivered or self.awaiting or self.settled)


@attrs.define
class AckOutcomeBuilder(Generic[M]):
    """An L{AckOutcome} that is being put together."""

    delivered: list[M] = attrs.field(factory=list)
    awaiting: list[UnorderedMessage[M]] = attrs.field(factory=list)
    settled: list[SettledMessage[M]] = attrs.field(factory=list)

    def acknowledge(self, transfer: UnorderedMessage[M]) -> None:
        """It arrived."""
        if transfer.wanted:
            self.awaiting.append(transfer)
        else:
            self.delivered.append(transfer.message)

    def settle(self, transfer: UnorderedMessage[M], message_class: int) -> None:
        """Its FinalAck came, with this class."""
        disposal = Disposal.of(message_class, transfer.wanted)
        self.settled.append(SettledMessage(transfer.message, message_class, disposal))

    def outcome(self) -> AckOutcome[M]:
        """The result."""
        return AckOutcome(self.delivered, self.awaiting, self.settled)


@attrs.frozen
class Transmission(Generic[M]):
    """The result of L{OutgoingStream.transmit}.

    @ivar outgoing: send these, in this order.
    @ivar held: return these to their queue; they have to wait for others.
    @ivar outcome: these are removed unsent, since the receiver has them.
    """

    outgoing: Sequence[OutgoingMessage]
    held: Sequence[M]
    outcome: AckOutcome[M]


@attrs.define(eq=False)
class Assignment(Generic[M]):
    """Sequence numbers for messages that are going to be stored together.

    The numbers are never reused, even if the messages are not stored.

    @ivar sequence: TxSequenceID, as a number.
    @ivar first: TxSequenceNumber of the first; the others follow.
    @ivar messages: the stored messages, once they are.
    """

    sequence: int
    first: int
    count: int
    messages: Sequence[M] | None = attrs.field(default=None, init=False, repr=False)

    @property
    def tx_sequence_id(self) -> TxSequenceID:
        """TxSequenceID."""
        return TxSequenceID.from_value(self.sequence)

    def stamp(self, views: Sequence[UserMessageView]) -> list[bytes]:
        """The packets of these messages with their sequence numbers.

        @raise LocalProtocolError: they are more or fewer than was said, or one is not transactional.
        """
        if len(views) != self.count:
            raise LocalProtocolError(f"{len(views)} messages for {self.count} sequence numbers")
        packets = []
        for number, view in enumerate(views, self.first):
            if not view.is_transactional:
                raise LocalProtocolError(f"TransactionHeader: message {view.identifier} has none")
            packets.append(packet_at(view, self.sequence, number, number - 1))
        return packets
