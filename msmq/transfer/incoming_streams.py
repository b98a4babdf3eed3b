"""The receiver of transactional messages, and its OrderAcks. [MS-MQQB] 3.1.5.8.6, 3.1.6.9 and 3.1.1.6.2.

Messages are accepted or refused when they arrive, without waiting for the disk.
Accepted messages are stored in batches: L{IncomingStreams.take_changes} returns the state after all messages
accepted so far, which is stored in one commit with them; messages accepted in the meantime are part of the
next batch.
There is never more than one pending batch.
With two, the first could fail and the second succeed, and the store would record messages as received that it
does not have.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import count
from typing import Final, TypeAlias
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.moment import Moment
from msmq.persistence.state_records import StateChange, numbered
from msmq.settings import SessionSettings
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.names.queue_names import QueueNameKind
from msmq.structures.packet.packet_shape import PacketShape
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.deadlines import Deadlines
from msmq.transfer.incoming_stream import IncomingStream, Verdict, host_of
from msmq.transfer.stream_changes import sequence_fields
from msmq.transfer.transfer_info import IncomingTransferInfo
from msmq.wire.guid import guid_from_bytes

PREFIX: Final = "tx/incoming/"
"""Prefix of the names of stored values; a number follows."""

LONGEST_KEY: Final = 512
"""A longer key is replaced by its SHA-256 digest."""

_SPELLINGS: Final = 10_000
_DIRECT: Final = QueueNameKind.DIRECT

_Step: TypeAlias = tuple[IncomingStream, int, int, int, int]
"""A stream, its sequence and number, and how many messages and bytes it has accepted since the last one."""


def destination_key(view: UserMessageView) -> bytes:
    """The bytes that identify a destination name, in any spelling.

    A sender has an outgoing queue, hence a sequence, for each name of a queue, so sequences are identified by
    the name and not by the queue, which may not exist yet.
    """
    key = view.destination_key
    if key[0] != _DIRECT:
        return key
    text = key[3:].decode("utf-16-le", "surrogatepass").removesuffix("\0").lower()
    return key[:1] + text.removeprefix("direct=").encode("utf-8", "surrogatepass")


@attrs.frozen
class OwedOrderAck:
    """An OrderAck that is due.

    @ivar answer_to: its destination: the GUID of a queue manager, or protocol and address as a direct name
        has them (reading 60).
    @ivar source: the original sender of the acknowledged messages.
    """

    answer_to: UUID | str
    tx_sequence_id: TxSequenceID
    tx_sequence_number: int
    source: UUID


class IncomingStreams:
    """The streams of a queue manager by the original sender and the destination (reading 49).

    @param key: identifies the destination of a message.
    """

    def __init__(
        self, settings: SessionSettings, *, key: Callable[[UserMessageView], bytes] = destination_key
    ) -> None:
        self._settings = settings
        self._key = key
        # The least recently used stream comes first.
        self._streams: OrderedDict[bytes, IncomingStream] = OrderedDict()
        self._spellings: dict[bytes, IncomingStream] = {}
        self._by_host: Counter[str] = Counter()
        self._numbers = count(1)
        self._deadlines: Deadlines[IncomingStream] = Deadlines()
        self._advanced: dict[IncomingStream, None] = {}
        self._refused: dict[IncomingStream, None] = {}
        # As they were before the last call of classify.
        self._judged_last: dict[IncomingStream, tuple[int, int, int, int]] = {}
        self._forgotten: list[StateChange] = []
        self._batch: tuple[list[_Step], list[StateChange]] | None = None

    def configure(self, settings: SessionSettings) -> None:
        """Apply other limits and times from the next message on."""
        self._settings = settings

    def load(self, state: Mapping[str, bytes]) -> None:
        """Before anything else: take back what the store keeps.

        @raise StateError: a value is damaged.
        """
        streams = [IncomingStream.from_bytes(*stored) for stored in numbered(state, PREFIX)]
        self._numbers = count(streams[-1].index + 1 if streams else 1)
        for stream in sorted(streams, key=lambda stream: stream.last_access):
            self._streams[stream.source + stream.key] = stream
            self._by_host[stream.host] += 1

    def __len__(self) -> int:
        return len(self._streams)

    def infos(self) -> Iterator[IncomingTransferInfo]:
        """The state for management of each stream with messages."""
        return (stream.info for stream in list(self._streams.values()) if stream.stored_number)

    def answer_to(self, view: UserMessageView) -> UUID | str | None:
        """The address of FinalAcks about a transactional message (reading 60); C{None} if unknown.

        The address is stored with the stream.
        """
        if view.destination_kind is not _DIRECT:
            return guid_from_bytes(view.source_queue_manager)
        stream = self._streams.get(view.source_queue_manager + self._key_of(view))
        return None if stream is None else stream.address

    # Arrival

    def classify(self, views: Sequence[UserMessageView], address: str, now: Moment) -> list[Verdict]:
        """Which of these transactional messages for this queue manager are next. [MS-MQQB] 3.1.5.8.6.

        @param views: in the order in which they came, over one connection.
        @param address: the address of the peer, with its protocol as in a direct name: C{TCP:10.0.0.5}.
        """
        verdicts: list[Verdict] = []
        host = host_of(address)
        touched = self._judged_last = {}
        spellings = self._spellings
        spelling = b""
        shape: PacketShape | None = None
        for view in views:
            _, sequence, number, previous = sequence_fields(view)
            if view.shape is not shape:
                shape = view.shape
                spelling = shape.source_queue_manager + view.destination_key
            stream = spellings.get(spelling)
            if stream is None:
                found = self._find(spelling, view, previous, host, now)
                if isinstance(found, Verdict):
                    verdicts.append(found)
                    continue
                stream = found
            if stream not in touched:
                touched[stream] = stream.sequence, stream.number, stream.accepted, stream.accepted_bytes
                self._streams.move_to_end(stream.source + stream.key)
                stream.address = address if view.destination_kind is _DIRECT else None
                stream.connection = address
                if stream.host != host:
                    self._leave(stream.host)
                    stream.host = host
                    self._by_host[host] += 1
                stream.last_access = now.unix_seconds
            verdicts.append(stream.classify(sequence, number, previous, view.size))
        for stream in touched:
            (self._advanced if stream.accepted else self._refused)[stream] = None
            self._schedule(stream, now)
        return verdicts

    def has_passed(self, view: UserMessageView) -> bool:
        """Whether L{classify} would call this message a duplicate now."""
        stream = self._streams.get(view.source_queue_manager + self._key_of(view))
        _, sequence, number, _ = sequence_fields(view)
        return stream is not None and (sequence, number) <= (stream.sequence, stream.number)

    def take_back(self) -> None:
        """Undo the last decision, since a limit is reached for its messages, which are sent again.

        All of them have to be withdrawn unacknowledged.
        It has to be called before any other message is decided on, and before the next batch begins.
        """
        judged_last, self._judged_last = self._judged_last, {}
        for stream, (sequence, number, accepted, size) in judged_last.items():
            stream.sequence, stream.number = sequence, number
            stream.accepted, stream.accepted_bytes = accepted, size
            if not accepted:
                self._advanced.pop(stream, None)
            if not number:
                self._drop(stream)

    def _find(
        self, spelling: bytes, view: UserMessageView, previous: int, host: str, now: Moment
    ) -> IncomingStream | Verdict:
        """The stream of a message, created if the message may be the first of one."""
        source, key = spelling[:16], self._key_of(view)
        stream = self._streams.get(source + key)
        if stream is None:
            if previous:
                return Verdict.OUT_OF_ORDER
            while not self._has_room(host):
                if not self._forget_oldest(now):
                    return Verdict.NO_ROOM
            stream = IncomingStream(next(self._numbers), source, key, last_order_ack=now.monotonic, host=host)
            self._by_host[host] += 1
            self._streams[source + key] = stream
        if len(self._spellings) >= _SPELLINGS:
            self._spellings.clear()
        self._spellings[spelling] = stream
        return stream

    def _key_of(self, view: UserMessageView) -> bytes:
        key = self._key(view)
        return key if len(key) <= LONGEST_KEY else key[:1] + sha256(key).digest()

    def _has_room(self, host: str) -> bool:
        """Whether a host may have one more stream: never more than are free for all others."""
        left = self._settings.incoming_streams - len(self._streams)
        return left > 0 and self._by_host[host] <= left

    def held_by(self, address: str) -> int:
        """The number of streams whose last messages came from the host with this address."""
        return self._by_host[host_of(address)]

    def _leave(self, host: str) -> None:
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]

    def _forget_oldest(self, now: Moment) -> bool:
        """Drop the least recently used stream, if it is so old that its sender has given up."""
        oldest = next(iter(self._streams.values()))
        age = now.unix_seconds - oldest.last_access
        if age < self._settings.incoming_stream_idle or self._is_moving(oldest):
            return False
        self._drop(oldest)
        self._forgotten.append((f"{PREFIX}{oldest.index}", None))
        return True

    def _is_moving(self, stream: IncomingStream) -> bool:
        return (stream.sequence, stream.number) != (stream.stored_sequence, stream.stored_number)

    def _drop(self, stream: IncomingStream) -> None:
        del self._streams[stream.source + stream.key]
        self._leave(stream.host)
        self._spellings.clear()
        self._deadlines.clear(stream)
        self._advanced.pop(stream, None)
        self._refused.pop(stream, None)

    # Commits

    @property
    def must_store(self) -> bool:
        """Whether a stream has advanced since the last batch began; refusals alone can wait for the next."""
        return bool(self._advanced)

    @property
    def is_storing(self) -> bool:
        """Whether a batch is being stored."""
        return self._batch is not None

    def take_changes(self) -> list[StateChange]:
        """Begin a batch: the changes to store in one commit with all messages accepted so far.

        It ends with L{stored} or L{failed}, also if there is nothing to store.

        @raise LocalProtocolError: the previous batch has not ended.
        """
        if self._batch is not None:
            raise LocalProtocolError("the state of the incoming streams is being stored already")
        self._judged_last = {}
        forgotten, self._forgotten = self._forgotten, []
        changes = list(forgotten)
        steps: list[_Step] = []
        for stream in {**self._advanced, **self._refused}:
            steps.append((stream, stream.sequence, stream.number, stream.accepted, stream.accepted_bytes))
            stream.accepted = stream.accepted_bytes = 0
            changes.append((f"{PREFIX}{stream.index}", stream.to_bytes()))
        self._advanced.clear()
        self._refused.clear()
        self._batch = steps, forgotten
        return changes

    def stored(self, now: Moment) -> None:
        """End a batch: the messages accepted before it are stored, and may be acknowledged."""
        steps, _ = self._end_batch()
        settings = self._settings
        for stream, sequence, number, accepted, size in steps:
            stream.stored_sequence, stream.stored_number = sequence, number
            if accepted:
                stream.owes = True
                stream.unsaid += accepted
                stream.unsaid_bytes += size
                if self._deadlines.get(stream) is None:
                    self._schedule(stream, now)
                is_due = (
                    stream.unsaid >= settings.order_ack_messages
                    or stream.unsaid_bytes >= settings.order_ack_bytes
                )
                if is_due and stream.connection is not None:
                    self._deadlines.set(stream, now.monotonic)

    def failed(self) -> None:
        """End a batch that could not be stored; messages accepted since it began are undone too.

        All those messages have to be withdrawn unacknowledged, those of the next batch included; they are
        sent again.
        """
        steps, forgotten = self._end_batch()
        self._judged_last = {}
        self._forgotten = forgotten + self._forgotten
        self._refused.update(dict.fromkeys(stream for stream, *_ in steps))
        for stream in {**self._advanced, **self._refused}:
            stream.sequence, stream.number = stream.stored_sequence, stream.stored_number
            stream.accepted = stream.accepted_bytes = 0
            if not stream.number:
                self._drop(stream)
        self._advanced.clear()

    def _end_batch(self) -> tuple[list[_Step], list[StateChange]]:
        if self._batch is None:
            raise LocalProtocolError("no state of the incoming streams is being stored")
        turn, self._batch = self._batch, None
        return turn

    # OrderAcks

    def _schedule(self, stream: IncomingStream, now: Moment) -> None:
        """Start the Order Ack Send Timer; restart it unless it is late. [MS-MQQB] 3.1.1.6.2, 3.1.2.7."""
        settings = self._settings
        if stream.connection is not None and (
            self._deadlines.get(stream) is None
            or now.monotonic - stream.last_order_ack < settings.maximum_order_ack_delay
        ):
            self._deadlines.set(stream, now.monotonic + settings.order_ack_timeout)

    @property
    def deadline(self) -> float | None:
        """The monotonic second at which L{expire} is due; C{None} while no OrderAck is owed."""
        return self._deadlines.earliest

    def expire(self, now: Moment) -> list[OwedOrderAck]:
        """Order Ack Send Timer Event: the OrderAcks to be sent, one for each stream. [MS-MQQB] 3.1.6.9.

        They report stored messages; a stream without stored messages has none.
        """
        owed = []
        for stream in self._deadlines.take_expired(now.monotonic):
            if stream.owes and stream.stored_number:
                stream.owes = False
                stream.unsaid = stream.unsaid_bytes = 0
                stream.last_order_ack = now.monotonic
                sequence = TxSequenceID.from_value(stream.stored_sequence)
                source = guid_from_bytes(stream.source)
                owed.append(OwedOrderAck(stream.answer_to, sequence, stream.stored_number, source))
        return owed

    def disconnected(self, address: str) -> None:
        """No connection with this address is left, so its messages cause no OrderAck. [MS-MQQB] 3.1.6.9.

        Its sender sends unacknowledged messages again, which causes a new one.
        """
        for stream in self._deadlines.items():
            if stream.connection == address:
                stream.connection = None
                self._deadlines.clear(stream)
