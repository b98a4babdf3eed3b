"""Stored records of results that wait for space, so that a crash loses none of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import attrs

from msmq.moment import Moment
from msmq.persistence.changes import Change, PutState, RemoveState
from msmq.persistence.state_records import StateError, numbered, reading
from msmq.queues.model import QueueManagerModel
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import Queue
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from msmq.wire.writer import Writer

PREFIX: Final = "results/"

LARGEST_RECORDED: Final = 4096
"""Bytes of a packet that is recorded: an acknowledgement with a body may be as large as its message."""

MOST_RECORDED_BYTES: Final = 4 * 1024 * 1024
"""Limit on the packets of all records, which use the space that the store reserves for removals."""

_VERSION: Final = 1
_IDENTITY: Final = 20


@attrs.frozen(eq=False)
class MessageResult:
    """A packet that reports the result of a message.

    @ivar queue: its destination queue.
    @ivar about: the 20 bytes of the message's identifier; a result that waits keeps no other memory of it.
    @ivar message_class: the result.
    @ivar is_bound: the message left or has arrived; it was not refused on arrival.
    @ivar is_awaited: the message is transactional, so that its sender waits for the result, and the store
        removes it in the commit of the result.
    @ivar record: the number of its record in the store; 0 if it has none.
    """

    queue: Queue
    view: UserMessageView
    about: bytes
    message_class: MessageClass
    is_bound: bool
    is_awaited: bool = False
    record: int = 0


class ResultRecords:
    """Records results whose messages leave while the store is full.

    A record is a small value, which is stored with the removal of the message, in the space that is reserved
    for removals, and removed with the commit that stores the result itself.
    """

    def __init__(self, model: QueueManagerModel) -> None:
        self._model = model
        self._last = 0

    def load(self, state: Mapping[str, bytes], now: Moment) -> tuple[list[MessageResult], list[Change]]:
        """The results that waited when the process ended, in their order.

        @return: also the removal of those for a local queue that has been deleted since.
        @raise StateError: a value is damaged.
        """
        found: list[MessageResult] = []
        stale: list[Change] = []
        for number, name, value in numbered(state, PREFIX):
            self._last = number
            if (result := self._read(number, name, value, now)) is not None:
                found.append(result)
            else:
                stale.append(RemoveState(name))
        return found, stale

    def recorded(self, result: MessageResult) -> tuple[MessageResult, Change]:
        """Give a result a record; returns the change to store with the removal of its message."""
        queue = result.queue
        number, change = self.record(
            queue.definition.path if isinstance(queue, OutgoingQueue) else "",
            queue.definition.identifier,
            result.view,
            result.about,
            result.message_class,
        )
        return attrs.evolve(result, record=number), change

    def record(
        self, path: str, identifier: UUID, view: UserMessageView, about: bytes, message_class: MessageClass
    ) -> tuple[int, Change]:
        """A new record; returns its number and the change that stores it.

        @param path: the format name of an outgoing queue, which the next start creates if necessary;
            empty for a local queue.
        @param identifier: that of the queue; ignored for an outgoing one.
        """
        self._last += 1
        writer = Writer()
        writer.u8(_VERSION, "Version")
        writer.u16(message_class, "MessageClass")
        writer.bytes(about)
        name = path.encode()
        writer.u16(len(name), "PathSize")
        writer.bytes(name)
        writer.guid(identifier)
        writer.bytes(view.packet)
        return self._last, PutState(numbered_name(self._last), writer.getvalue())

    def _read(self, number: int, name: str, value: bytes, now: Moment) -> MessageResult | None:
        try:
            with reading(name, value, _VERSION) as reader:
                message_class = MessageClass(reader.u16("MessageClass"))
                about = reader.bytes(_IDENTITY, "MessageID")
                path = reader.bytes(reader.u16("PathSize"), "Path").decode()
                identifier = reader.guid("Queue")
                view = UserMessageView(reader.bytes(reader.remaining, "Packet"))
            queue = self._queue(path, identifier, now)
        except (ValueError, MQError) as error:
            raise StateError(name, f"has a class or a queue that does not exist: {error}") from error
        if queue is None:
            return None
        return MessageResult(queue, view, about, message_class, is_bound=True, is_awaited=True, record=number)

    def _queue(self, path: str, identifier: UUID, now: Moment) -> Queue | None:
        """The outgoing queue of a format name, or else the local queue with this identifier."""
        if path:
            return self._model.outgoing(parse_format_name(path, lenient=True), now)
        return self._model.collection.of_identifier(identifier)


def numbered_name(record: int) -> str:
    """The name of the value that is a record."""
    return f"{PREFIX}{record}"


def record_name(result: MessageResult) -> str:
    """The name of the value that is the record of a result."""
    return numbered_name(result.record)


def without_records(changes: Sequence[Change]) -> tuple[list[Change], set[str]]:
    """The changes without the records of results, and the names of these.

    A store whose reserve takes removals alone stores those without the records.
    """
    names = {
        change.name for change in changes if isinstance(change, PutState) and change.name.startswith(PREFIX)
    }
    kept = [change for change in changes if not (isinstance(change, PutState) and change.name in names)]
    return kept, names


def removal_of(result: MessageResult) -> Change:
    """The removal of the record of a result that is stored, or dropped."""
    return RemoveState(record_name(result))
