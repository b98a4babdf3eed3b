"""Transactional packets, and a queue manager's two halves as small as they can be."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from uuid import UUID

from msmq.moment import Moment
from msmq.persistence.state_records import StateChange
from msmq.settings import SessionSettings
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.internal.order_queue import AckEnvelope
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.incoming_stream import Verdict
from msmq.transfer.incoming_streams import IncomingStreams, OwedOrderAck
from msmq.transfer.outgoing_stream import OutgoingStream
from msmq.transfer.outgoing_streams import OutgoingStreams
from msmq.transfer.stream_changes import Transmission
from tests.builders import ALPHA, BETA, NULL, base_header, direct_name, user_packet

START = Moment(1000.0, 1_700_000_000.0)
SETTINGS = SessionSettings()
JN = 0x0100
JP = 0x0200


def transactional_packet(
    body: bytes = b"",
    *,
    place: tuple[int, int, int] = (0, 1, 0),
    message_id: int = 1,
    source: UUID = ALPHA,
    destination: str = "TCP:10.0.0.5\\private$\\orders",
    private_number: int | None = None,
    queue_manager: UUID = NULL,
    user_flags: int = 0,
    transaction_flags: int = 0,
) -> bytes:
    """[MS-MQMQ] 2.2.20 a transactional message, written from the byte layouts alone.

    @param place: TxSequenceID as a number, TxSequenceNumber and PreviousTxSequenceNumber.
    """
    flags = 0x00300020 | user_flags
    if private_number is None:
        name = direct_name(destination)
        flags |= 7 << 10
    else:
        name = struct.pack("<I", private_number)
        flags |= 3 << 10
    user = source.bytes_le + queue_manager.bytes_le
    user += struct.pack("<IIII", 0xFFFFFFFF, 0, message_id, flags) + name
    transaction = struct.pack("<IQII", transaction_flags, *place)
    properties = struct.pack("<BBH", 0, 0, 0) + bytes(20)
    properties += struct.pack("<IIIIIIII", 0, 0, len(body), len(body), 0, 0x800E, 0x6610, 0)
    properties += body
    properties += b"\0" * (-len(properties) % 4)
    size = 16 + len(user) + len(transaction) + len(properties)
    return base_header(0, size) + user + transaction + properties


def express(message_id: int, source: UUID = ALPHA) -> UserMessageView:
    """An express message."""
    return UserMessageView(user_packet(message_id=message_id, source=source))


def recoverable(message_id: int, source: UUID = ALPHA) -> UserMessageView:
    """A recoverable message in no transaction."""
    return UserMessageView(user_packet(recoverable=True, message_id=message_id, source=source))


def for_several_queues(packet: bytes) -> bytes:
    """[MS-MQMQ] 2.2.20.1: the copy of a message to several queues, whose lists are empty here."""
    flags = int.from_bytes(packet[60:64], "little") | 0x00800000
    lists = b"".join(struct.pack("<IHHI", 12, kind, 0, 0) for kind in (0x64, 0xC8, 0x12C))
    lists += struct.pack("<HHI", 0x15E, 0, 0)
    size = len(packet) + len(lists)
    return (
        packet[:8] + struct.pack("<I", size) + packet[12:60] + struct.pack("<I", flags) + packet[64:] + lists
    )


def place_in(packet: bytes) -> tuple[int, int, int]:
    """TxSequenceID as a number, TxSequenceNumber and PreviousTxSequenceNumber of a packet."""
    view = UserMessageView(packet)
    sequence = view.tx_sequence_id
    assert sequence is not None
    return sequence.value, view.tx_sequence_number, view.previous_tx_sequence_number


def numbers_in(messages: list[OutgoingMessage]) -> list[tuple[int, int]]:
    """Number and previous number of what would be sent."""
    return [place_in(message.packet)[1:] for message in messages]


class Position:
    """A message in an outgoing queue."""

    def __init__(self, packet: bytes) -> None:
        self.stored = packet
        self.view: UserMessageView | None = UserMessageView(packet)

    @property
    def packet(self) -> bytes:
        assert self.view is not None
        return self.view.packet

    @property
    def is_recoverable(self) -> bool:
        return True


class Sender:
    """A queue manager with one outgoing queue, whose store is a dictionary.

    @ivar state: what the store keeps.
    @ivar queue: the messages in the queue, in their order.
    @ivar now: the time.
    """

    def __init__(
        self,
        *,
        settings: SessionSettings = SETTINGS,
        state: dict[str, bytes] | None = None,
        queue: list[Position] | None = None,
        now: Moment = START,
        identifier: UUID = ALPHA,
    ) -> None:
        self.settings = settings
        self.state = {} if state is None else state
        self.queue: list[Position] = [] if queue is None else queue
        self.now = now
        self.streams: OutgoingStreams[Position] = OutgoingStreams(identifier, settings, self.state, now)
        self.stream: OutgoingStream[Position] = self.streams.stream("orders")
        if self.queue:
            self.stream.restore(self.queue)
        self.stream.connected(now)
        self.next_message_id = len(self.queue) + 1

    def put(self, count: int = 1, *, user_flags: int = 0, transaction_flags: int = 0) -> list[Position]:
        """Messages are sent in a transaction that commits."""
        assignment = self.stream.assign(count)
        views = []
        for _ in range(count):
            body = b"%d" % self.next_message_id
            views.append(
                UserMessageView(
                    transactional_packet(
                        body,
                        message_id=self.next_message_id,
                        user_flags=user_flags,
                        transaction_flags=transaction_flags,
                    )
                )
            )
            self.next_message_id += 1
        positions = [Position(packet) for packet in assignment.stamp(views)]
        self.reserve()
        self.queue += positions
        self.stream.committed(assignment, positions)
        return positions

    def reserve(self) -> None:
        """The commit of a transaction stores this as well."""
        change = self.streams.reservation()
        if change is not None:
            name, value = change
            assert value is not None
            self.state[name] = value
            self.streams.reserved(change)

    def send(self, limit: int = 64) -> list[OutgoingMessage]:
        """Send the messages that are due."""
        transmission = self.transmit(*self.stream.due(limit))
        assert not transmission.held
        return list(transmission.outgoing)

    def transmit(self, *positions: Position) -> Transmission[Position]:
        """These are to be sent."""
        return self.stream.transmit(positions, self.now)

    def sent(self, limit: int = 64) -> list[tuple[int, int]]:
        """Number and previous number of what is sent now."""
        return numbers_in(self.send(limit))

    def order_ack(self, number: int, sequence: int | None = None) -> list[Position]:
        """An OrderAck comes; answers with what leaves the queue for it."""
        if sequence is None:
            sequence = self.stream.sequence or 0
        ack = order_ack(sequence, number)
        found = self.streams.order_acknowledged(ack, self.now)
        if found is None:
            return []
        key, outcome = found
        assert key == "orders"
        gone = [*outcome.delivered, *(transfer.message for transfer in outcome.awaiting)]
        self.remove(gone)
        return gone

    def remove(self, positions: Sequence[Position]) -> None:
        """These leave the queue, and the store."""
        for position in positions:
            self.queue.remove(position)
        self.stream.removed(positions)

    def expire(self, *positions: Position) -> None:
        """Remove expired messages from the queue."""
        self.stream.left(positions)
        self.remove(positions)

    def advance(self, seconds: float) -> list[Position]:
        """Let time pass; answers with what is due again."""
        self.now = self.now.later(seconds)
        return [position for _, positions in self.streams.expire(self.now) for position in positions]

    def restart(self, seconds: float = 1.0) -> Sender:
        """The process dies, and another begins with what was stored."""
        queue = [Position(position.stored) for position in self.queue]
        return Sender(
            settings=self.settings, state=dict(self.state), queue=queue, now=self.now.later(seconds)
        )


def order_ack(sequence: int, number: int) -> OrderAck:
    """An OrderAck from BETA to ALPHA."""
    return OrderAck(AckEnvelope(BETA, ALPHA), TxSequenceID.from_value(sequence), number, max(0, number - 1))


def final_ack(position: Position, message_class: int, *, source: UUID = ALPHA) -> FinalAck:
    """A FinalAck from BETA about a message."""
    view = UserMessageView(position.stored)
    sequence, number, previous = place_in(position.stored)
    return FinalAck(
        AckEnvelope(BETA, ALPHA),
        message_class,
        TxSequenceID.from_value(sequence),
        number,
        previous,
        source,
        view.message_id,
    )


class Receiver:
    """A queue manager with one transactional queue, whose store is a dictionary.

    @ivar state: what the store keeps.
    @ivar queue: the bodies of the messages that the store keeps, in their order.
    """

    def __init__(
        self,
        *,
        settings: SessionSettings = SETTINGS,
        state: dict[str, bytes] | None = None,
        queue: list[bytes] | None = None,
        now: Moment = START,
    ) -> None:
        self.settings = settings
        self.state = {} if state is None else state
        self.queue: list[bytes] = [] if queue is None else queue
        self.now = now
        self.streams = IncomingStreams(settings)
        self.streams.load(self.state)
        self.accepted: list[bytes] = []
        self.in_turn: tuple[list[StateChange], list[bytes]] | None = None

    def classify(self, *packets: bytes, address: str = "TCP:10.0.0.9") -> list[Verdict]:
        """Deliver messages; accepted ones wait for the store then."""
        views = [UserMessageView(packet) for packet in packets]
        verdicts = self.streams.classify(views, address, self.now)
        for view, verdict in zip(views, verdicts, strict=True):
            if verdict is Verdict.ACCEPTED:
                self.accepted.append(bytes(view.body))
        return verdicts

    def begin(self) -> None:
        """The store begins to write everything that waits."""
        self.in_turn = self.streams.take_changes(), self.accepted
        self.accepted = []

    def write(self) -> None:
        """The store has written it, and has not reported that yet."""
        assert self.in_turn is not None
        changes, bodies = self.in_turn
        self.queue += bodies
        for name, value in changes:
            if value is None:
                self.state.pop(name, None)
            else:
                self.state[name] = value

    def stored(self) -> None:
        """The store has written it, and reports that."""
        self.write()
        self.in_turn = None
        self.streams.stored(self.now)

    def failed(self) -> None:
        """The store could not write it."""
        self.in_turn = None
        self.accepted = []
        self.streams.failed()

    def take(self, *packets: bytes, address: str = "TCP:10.0.0.9") -> list[Verdict]:
        """Messages arrive and are stored at once."""
        verdicts = self.classify(*packets, address=address)
        self.begin()
        self.stored()
        return verdicts

    def advance(self, seconds: float) -> list[OwedOrderAck]:
        """Let time pass, each deadline at its own moment; answers with the OrderAcks that are due."""
        until = self.now.later(seconds)
        owed: list[OwedOrderAck] = []
        while (deadline := self.streams.deadline) is not None and deadline <= until.monotonic:
            self.now = self.now.later(max(0.0, deadline - self.now.monotonic))
            owed += self.streams.expire(self.now)
        self.now = until
        return owed

    def restart(self) -> Receiver:
        """The process dies, and another begins with what was stored."""
        return Receiver(
            settings=self.settings, state=dict(self.state), queue=list(self.queue), now=self.now.later(1)
        )
